"""Where things stand in the integer arrays that kernels and Python share.

One row per table in T, one per index in X, one array D for the dictionary, one state vector Z per thread.
A hash set's slot holds the upper 32 bits of the hash, then the row number plus one; 0 is a free slot.
"""

# ---- T: a table
(
    ROWS,  # rows written
    CAPACITY,  # rows that the columns have room for
    ARITY,
    SLOTS,  # address of the set of rows
    DENSE,  # 1: slots are a direct array of int32 over (first, second) ids; 0: hash slots of int64
    SIDE,  # dense: number of ids per column; hashed: how far to shift the upper hash bits
    SLOT_COUNT,
    SEGMENT,  # hashed: probing stays within segments of SEGMENT + 1 slots, so that threads can own them
    SLOT_LIMIT,  # rows that the set takes before it must grow
    FLAGS,  # address of one byte per row
    OLD_END,  # rows before the last round's new ones
    CURRENT_END,  # rows that the current round reads
    DEAD,  # rows that were not true when the last transaction ended
    SCRATCH,  # 1: no journal is kept of its rows
    FOUNDED,  # addresses of the counters and the rank of each row, 0 where there are none
    HIDDEN,
    RANK,
    NOTES,  # address of one byte per row for those who look ahead, 0 where there is none
    LINK,  # of derived facts: address of the stated fact that each leans on …
    NEXT,  # … and of its neighbours among those that lean on the same
    PREVIOUS,
    FIRST,  # of stated facts: address of the first fact that leans on each
    COLUMNS,  # addresses of the columns, from here on
) = range(23)

# ---- flags of a row; `engine.protocol.Flag` says what they mean
ALIVE, EXPLICIT, BEFORE, DELTA, PENDING, TOUCHED, PROVED, CHECKED = (1 << bit for bit in range(8))
TRUE = ALIVE | BEFORE  # of a row that materialisation writes
# In NOTES: it leans on a fact that goes next; it has one instance only; it went, and comes back next.
MARKED, SOLE, RETURNS = 1, 2, 4
GOES = 2  # beside MARKED in what is noted of a body: something in it goes for good, or may do so
NO_LINK = -1  # in LINK: it leans on no stated fact; 0: nobody knows what it leans on
PASSING = DELTA | PENDING | PROVED | CHECKED  # what an algorithm notes while it works on a stratum

# ---- X: an index from key columns to rows, perhaps only of the rows that pass its filters
(
    X_TABLE,
    X_DIRECT,  # 1: an entry per id; 0: entries found through hash slots
    X_SLOTS,
    X_SLOT_COUNT,
    X_SHIFT,
    X_ENTRIES,  # entries in use
    X_ENTRY_CAPACITY,
    X_START,  # address: where each entry's rows begin in the pool
    X_LENGTH,  # address: how many they are
    X_ROOM,  # address: how many there is room for
    X_POOL,
    X_POOL_CAPACITY,
    X_POOL_TOP,
    X_DONE,  # rows of the table that have been looked at
    X_FILTERS,  # number of filters, two words each: (column, id) or (column, -1 - other column)
    X_KEYS,  # number of key columns
    X_LISTS,  # the key columns, then the filters, from here on
) = range(17)

# ---- a plan: the head's table, number of steps, …, offset of each step; then the steps
(
    P_HEAD,
    P_STEPS,
    P_RANK,  # the output that holds the highest rank of the own facts, -1: the rule is not recursive
    P_NOTE,  # the output that holds what is noted of the head, -1: none does
    P_NOTED,  # of links: the table of the fact whose number it is; of marks: whether heads may return
    P_ATOMS,  # plans that look for support: number of atoms, then
    P_LIST,  # where the numbers of their tables stand
    P_OFFSETS,
) = range(8)

# ---- a step
(
    S_KIND,
    S_TABLE,
    S_INDEX,
    S_LIMIT,  # which rows: 0 all, 1 old ones, 2 those of the current round, 3 new ones (scans)
    S_MASK,  # which rows: those whose flags under this mask …
    S_WANT,  # … are these; for absence: those that have any of the mask's
    S_UNLESS,  # scan of witnesses: rows with one of these flags speak against the given row …
    S_PEER,  # … and of those whose BEFORE and ALIVE are these, the first speaks for all
    S_GIVEN,  # the input column that holds the number of the given row, -1: none does
    S_KEYS,  # number of key sources (scan: of checks, two words each)
    S_OUTPUTS,  # number of outputs, two words each: (from where, which)
    S_EXPRESSION,  # number of expression words
    S_LISTS,  # from here on: keys, outputs, expression
) = range(13)

SCAN, PROBE, MEMBER, ABSENT, ABSENT_INDEX, SELECT, COMPUTE, UNIT = range(8)
ALL_ROWS, OLD_ROWS, CURRENT_ROWS = range(3)
(
    FROM_INPUT,
    FROM_ROW,
    FROM_CONSTANT,
    FROM_RESULT,
    FROM_NUMBER,
    FROM_RANK,
    FROM_MARK,  # of a fact that returns only if that is noted
    FROM_STATED_MARK,  # of one that stays if it is true and not marked
) = range(8)

# ---- expression words: (operation, argument), in postfix order
(
    X_PYTHON,  # not compiled: Python computes every row
    X_LOAD,
    X_CONSTANT,
    # One operand.
    X_TEST,  # the last word of a test: whether the operand is true, or false if the argument is 1
    X_IS_KIND,  # whether its kind is in the set of bits that the argument is
    X_IS_INTEGER,
    X_NOT,
    X_NEGATE,
    X_ABS,
    X_ROUND,
    X_CEIL,
    X_FLOOR,
    X_SQRT,
    X_TO_INTEGER,
    X_TO_DECIMAL,
    X_TO_DOUBLE,
    X_TO_BOOLEAN,
    X_YEAR,
    X_MONTH,
    X_DAY,
    X_HOURS,
    X_MINUTES,
    X_SECONDS,
    X_TO_DATE,
    X_TO_DATETIME,
    # Two operands.
    X_ADD,
    X_SUBTRACT,
    X_MULTIPLY,
    X_DIVIDE,
    X_REMAINDER,
    X_POWER,
    X_LOG,
    X_BIT_AND,
    X_BIT_OR,
    X_BIT_XOR,
    X_SHIFT_LEFT,
    X_SHIFT_RIGHT,
    X_SHIFT_RIGHT_UNSIGNED,
    X_EQUAL,
    X_UNEQUAL,
    X_LESS,
    X_LESS_EQUAL,
    X_GREATER,
    X_GREATER_EQUAL,
    X_AND,
    X_OR,
    X_LEAST,
    X_GREATEST,
    X_COALESCE,
    # Three operands.
    X_IF,
) = range(50)
NO_VALUE, ASK_PYTHON = -1, -2

# ---- Z: the state of one running plan
MOST_STEPS = 8190
(
    Z_RUNNING,
    Z_LEVEL,
    Z_BATCH,  # rows per batch
    Z_WIDTH,  # columns per level of the buffer
    Z_BUFFER,  # addresses
    Z_LEFT,
    Z_RIGHT,
    Z_RESULT,
    Z_EVALUATED,  # 1: the result column is filled for the waiting expression step
    Z_FIRST,  # the scan's rows: first and count
    Z_COUNT,
    Z_LIST,  # address of the numbers of the scan's rows, 0: they follow each other
    Z_MATCHES,
    Z_NEW,
    Z_NO_VALUE,  # rows dropped because a function had no value
    Z_DROPPED,  # the same, by all plans that have run: never reset
    Z_BUDGET,  # matches until the plan pauses, for the clock and Ctrl-C
    Z_SINK,  # what becomes of heads: see below; EMIT hands them to the partitions of other threads
    Z_PARTS,
    Z_EMIT,  # address of the emitted rows, by partition
    Z_EMIT_CAPACITY,  # rows per partition
    Z_EMITTED,  # address of the count per partition
    Z_OWN,  # the partition that this thread owns and inserts into at once
    Z_BASE,  # the row at which all threads began
    Z_NEXT,  # the next row that this thread may write
    Z_BLOCK,  # rows that a thread writes next to each other
    Z_MASK,  # what APPLY does: see `engine.protocol.Effect`
    Z_WANT,
    Z_SET,
    Z_CREATE,
    Z_STEP,
    Z_UNFOUNDED,
    Z_NOTING,  # what is noted of heads: nothing, marks, links
    Z_ROLE,  # what an instance is for its head: see `engine.protocol.Role`
    Z_COUNTERS,  # what is counted
    Z_CLOCK,  # the rank of facts that become true now
    Z_OUT,  # address of the facts found: table in the upper half, row in the lower
    Z_OUT_CAPACITY,
    Z_OUT_COUNT,
    Z_JOURNAL,  # address of the facts touched, -1: none is kept
    Z_JOURNAL_FLAGS,  # addresses of what they were
    Z_JOURNAL_FOUNDED,
    Z_JOURNAL_HIDDEN,
    Z_JOURNAL_RANK,
    Z_JOURNAL_CAPACITY,
    Z_JOURNAL_COUNT,
    Z_WENT,  # the compiled loop: addresses of the facts that went and came in settled strata, their numbers
    Z_WENT_COUNT,
    Z_CAME,
    Z_CAME_COUNT,
    Z_PICKED,  # address of the rows that drive a plan, and how many they are
    Z_PICKED_COUNT,
    Z_LIST_CAPACITY,  # of these three
    Z_SECTION,  # where the loop stands: section, phase in it, entry of the phase, the round's first and end
    Z_PHASE,
    Z_NUMBER,
    Z_ROUND_FIRST,
    Z_ROUND_END,
    Z_DELETED,  # of the section's facts found, the first so many were deleted
    Z_SETTLED,  # of the journal, the first so many belong to settled sections
    Z_WISH,  # the table, index or entry that must be seen to
    Z_POSITION,
) = range(62)
INSERT, EMIT, APPLY, SUPPORT, APPEND = range(5)
COUNT_NOTHING, COUNT_CLASS, COUNT_RANK = range(3)
NOTE_NOTHING, NOTE_MARKS, NOTE_LINKS = range(3)
Z_ENTRY = Z_POSITION + MOST_STEPS + 2
Z_ROWS = Z_ENTRY + MOST_STEPS + 2
Z_SIZE = Z_ROWS + MOST_STEPS + 2

# ---- what a kernel asks of Python before it goes on
(
    DONE,
    GROW_TABLE,
    GROW_DICTIONARY,
    EVALUATE,
    PAUSE,
    FLUSH,
    GROW_LISTS,
    GROW_INDEX,
    ASSEMBLE,  # an entry's plan has no words yet
    LEAVE,  # a round that Python must run
) = range(10)
