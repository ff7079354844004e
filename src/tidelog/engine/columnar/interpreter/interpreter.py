"""The plan interpreter: one compiled function runs a whole plan, batch by batch; how its steps match rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, inlined, int32_at, int64_at, kernel, mix, subroutine
from tidelog.data.dictionary_kernels import FULL
from tidelog.engine.columnar.interpreter.expression_kernels import evaluate_batch
from tidelog.engine.columnar.interpreter.head_kernels import (
    append_heads,
    column_address,
    emit_heads,
    insert_heads,
)
from tidelog.engine.columnar.layout import (
    ABSENT,
    ABSENT_INDEX,
    ALIVE,
    APPEND,
    APPLY,
    ARITY,
    BEFORE,
    CAPACITY,
    COLUMNS,
    CURRENT_END,
    CURRENT_ROWS,
    DONE,
    EMIT,
    EVALUATE,
    FLAGS,
    FROM_CONSTANT,
    FROM_INPUT,
    FROM_MARK,
    FROM_NUMBER,
    FROM_RANK,
    FROM_RESULT,
    FROM_ROW,
    FROM_STATED_MARK,
    GROW_DICTIONARY,
    INSERT,
    MEMBER,
    NO_VALUE,
    OLD_END,
    OLD_ROWS,
    P_HEAD,
    P_OFFSETS,
    P_STEPS,
    PAUSE,
    PENDING,
    PROBE,
    RANK,
    S_EXPRESSION,
    S_GIVEN,
    S_INDEX,
    S_KEYS,
    S_KIND,
    S_LIMIT,
    S_LISTS,
    S_MASK,
    S_OUTPUTS,
    S_PEER,
    S_TABLE,
    S_UNLESS,
    S_WANT,
    SCAN,
    SELECT,
    UNIT,
    X_DIRECT,
    X_ENTRY_CAPACITY,
    X_KEYS,
    X_LENGTH,
    X_LISTS,
    X_POOL,
    X_POOL_CAPACITY,
    X_SHIFT,
    X_SLOT_COUNT,
    X_SLOTS,
    X_START,
    X_TABLE,
    Z_BATCH,
    Z_BUDGET,
    Z_COUNT,
    Z_DROPPED,
    Z_ENTRY,
    Z_EVALUATED,
    Z_FIRST,
    Z_LEFT,
    Z_LEVEL,
    Z_LIST,
    Z_NO_VALUE,
    Z_POSITION,
    Z_RESULT,
    Z_RIGHT,
    Z_ROWS,
    Z_RUNNING,
    Z_SINK,
)
from tidelog.engine.columnar.storage.table_kernels import COLUMN_SEED, LOWER, UPPER, find_row
from tidelog.engine.columnar.transactions.change_kernels import apply_heads, marks_of, note_support

# ---- How the steps of a plan match rows: scanning them, probing an index, testing whether they are there.

ENDLESS = np.int64(1 << 60)
STEP_COST = np.int64(16)  # of a step over a batch, however few its rows are
MOST_LOOKED_AT = np.int64(1 << 22)  # rows that a probe may pass over before it is left, to look at the clock


@inlined
def row_limit(T: Any, table: Any, limit: Any) -> Any:
    """The first row that a step must not see."""
    if limit == OLD_ROWS:
        return T[table, OLD_END]
    if limit == CURRENT_ROWS:
        return T[table, CURRENT_END]
    return ENDLESS


@subroutine
def load_key(words: Any, step: Any, Z: Any, level: Any, row: Any, key: Any) -> None:
    """Put the ids that a step looks up for an input row into `key`."""
    batch = Z[Z_BATCH]
    for number in range(words[step + S_KEYS]):
        source = words[step + S_LISTS + number]
        if source >= 0:
            key[number] = int32_at(column_address(Z, level - 1, source), batch)[row]
        else:
            key[number] = -1 - source


@inlined
def single_hash(key: Any) -> Any:
    """The upper 32 bits of the hash of a key of one column."""
    return mix(key * COLUMN_SEED) >> np.uint64(32)


@kernel("i64[:,:], i64[:,:], i64, i64[:] -> i64")
def find_entry(T: Any, X: Any, index: Any, key: Any) -> Any:
    """The entry of an index for a key, or -1."""
    keys = X[index, X_KEYS]
    if keys == 0:
        return np.int64(0)
    if X[index, X_DIRECT] == 1:
        return key[0] if key[0] < X[index, X_ENTRY_CAPACITY] else np.int64(-1)
    hashed = np.uint64(0)
    for number in range(keys):
        hashed = mix(np.int64(hashed) ^ (key[number] * COLUMN_SEED))
    hashed >>= np.uint64(32)
    tag = np.int64(hashed << np.uint64(32))
    slot_count = X[index, X_SLOT_COUNT]
    slots = int64_at(X[index, X_SLOTS], slot_count)
    start = int64_at(X[index, X_START], X[index, X_ENTRY_CAPACITY])
    pool = int32_at(X[index, X_POOL], X[index, X_POOL_CAPACITY])
    table = X[index, X_TABLE]
    capacity = T[table, CAPACITY]
    position = np.int64(hashed >> np.uint64(X[index, X_SHIFT]))
    while True:
        slot = slots[position]
        if slot == 0:
            return np.int64(-1)
        if (slot & UPPER) == tag:
            entry = (slot & LOWER) - 1
            row = pool[start[entry]]
            same = True
            for number in range(keys):
                column = int32_at(T[table, COLUMNS + X[index, X_LISTS + number]], capacity)
                if np.int64(column[row]) != key[number]:
                    same = False
                    break
            if same:
                return entry
        position = (position + 1) & (slot_count - 1)


@subroutine
def is_witness(T: Any, X: Any, words: Any, step: Any, table: Any, row: Any, key: Any) -> Any:
    """Whether no row with the same key speaks against this one, and none before it speaks for it."""
    index = words[step + S_INDEX]
    for number in range(X[index, X_KEYS]):
        column = int32_at(T[table, COLUMNS + X[index, X_LISTS + number]], T[table, CAPACITY])
        key[number] = column[row]
    entry = find_entry(T, X, index, key)
    entries = X[index, X_ENTRY_CAPACITY]
    start = int64_at(X[index, X_START], entries)[entry]
    pool = int32_at(X[index, X_POOL], X[index, X_POOL_CAPACITY])
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    for place in range(start, start + int32_at(X[index, X_LENGTH], entries)[entry]):
        other = np.int64(flags[pool[place]])
        if other & words[step + S_UNLESS]:
            return False
        if pool[place] < row and (other & (BEFORE | ALIVE)) == words[step + S_PEER]:
            return False
    return True


@subroutine
def passes_checks(T: Any, words: Any, step: Any, table: Any, row: Any) -> Any:
    """Whether a row has the constants and repetitions that a scan asks for."""
    capacity = T[table, CAPACITY]
    for number in range(words[step + S_KEYS]):
        other = words[step + S_LISTS + 2 * number + 1]  # a column, or -1 - id
        wanted = -1 - other if other < 0 else np.int64(int32_at(T[table, COLUMNS + other], capacity)[row])
        column = words[step + S_LISTS + 2 * number]
        if np.int64(int32_at(T[table, COLUMNS + column], capacity)[row]) != wanted:
            return False
    return True


@subroutine
def scan_listed(T: Any, X: Any, words: Any, step: Any, Z: Any) -> Any:
    """Fill the first batch with given rows, or with rows whose flags are as wanted, that pass the checks."""
    batch = Z[Z_BATCH]
    table = words[step + S_TABLE]
    right = int32_at(Z[Z_RIGHT], batch)
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    position = Z[Z_POSITION]
    count = Z[Z_COUNT]
    is_listed = Z[Z_LIST] != 0
    listed = int64_at(Z[Z_LIST], count)
    mask, want = words[step + S_MASK], words[step + S_WANT]
    key = np.empty(max(T[table, ARITY], 2), np.int64)
    filled = np.int64(0)
    while position < count and filled < batch:
        row = listed[position] if is_listed else Z[Z_FIRST] + position
        position += 1
        if (np.int64(flags[row]) & mask) != want or not passes_checks(T, words, step, table, row):
            continue
        if words[step + S_UNLESS] != 0 and not is_witness(T, X, words, step, table, row, key):
            continue
        right[filled] = row
        filled += 1
    Z[Z_POSITION] = position
    return filled


@subroutine
def scan(T: Any, words: Any, step: Any, Z: Any) -> Any:
    """Fill the first batch with rows of the scanned range that pass the step's checks."""
    batch = Z[Z_BATCH]
    table = words[step + S_TABLE]
    capacity = T[table, CAPACITY]
    right = int32_at(Z[Z_RIGHT], batch)
    position = Z[Z_POSITION]
    count = Z[Z_COUNT]
    first = Z[Z_FIRST]
    checks = words[step + S_KEYS]
    filled = np.int64(0)
    if checks == 1 and words[step + S_LISTS + 1] < 0:
        # One constant, the common case over triples.
        ids = int32_at(T[table, COLUMNS + words[step + S_LISTS]], capacity)
        constant = -1 - words[step + S_LISTS + 1]
        while position < count and filled < batch:
            right[filled] = first + position
            filled += ids[first + position] == constant
            position += 1
    elif checks == 0:
        filled = min(count - position, batch)
        for offset in range(filled):
            right[offset] = first + position + offset
        position += filled
    else:
        while position < count and filled < batch:
            if passes_checks(T, words, step, table, first + position):
                right[filled] = first + position
                filled += 1
            position += 1
    Z[Z_POSITION] = position
    return filled


@subroutine
def probe(T: Any, X: Any, words: Any, step: Any, level: Any, head: Any, Z: Any) -> Any:
    """Fill a batch with the pairs of input rows and the rows that the index has for them.

    It may be left before it has filled anything, if many rows are not as wanted; to go on, call it again.
    """
    batch = Z[Z_BATCH]
    index = words[step + S_INDEX]
    table = words[step + S_TABLE]
    left = int32_at(Z[Z_LEFT], batch)
    right = int32_at(Z[Z_RIGHT], batch)
    entries = X[index, X_ENTRY_CAPACITY]
    start = int64_at(X[index, X_START], entries)
    length = int32_at(X[index, X_LENGTH], entries)
    pool = int32_at(X[index, X_POOL], X[index, X_POOL_CAPACITY])
    limit = row_limit(T, table, words[step + S_LIMIT])
    mask, want = words[step + S_MASK], words[step + S_WANT]
    unlimited = limit == ENDLESS and mask == 0
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    has_given = words[step + S_GIVEN] >= 0
    given = int32_at(column_address(Z, level - 1, max(words[step + S_GIVEN], 0)), batch)
    heads = bytes_at(T[head, FLAGS], T[head, CAPACITY])
    key = np.empty(max(words[step + S_KEYS], 1), np.int64)
    rows = Z[Z_ROWS + level - 1]
    row = Z[Z_POSITION + level]
    place = Z[Z_ENTRY + level]
    filled = np.int64(0)
    source = words[step + S_LISTS] if words[step + S_KEYS] > 0 else np.int64(0)
    is_single = words[step + S_KEYS] == 1 and source >= 0
    is_direct = is_single and X[index, X_DIRECT] == 1
    column = int32_at(column_address(Z, level - 1, max(source, 0)), batch)
    # One hashed column is looked up here: most probes of a small index find nothing, and must cost little.
    slot_count = X[index, X_SLOT_COUNT]
    slots = int64_at(X[index, X_SLOTS], slot_count)
    shift = np.uint64(X[index, X_SHIFT])
    keyed = int32_at(T[table, COLUMNS + X[index, X_LISTS]], T[table, CAPACITY])
    looked_at = np.int64(0)
    while row < rows and filled < batch and looked_at < MOST_LOOKED_AT:
        if has_given and heads[given[row]] & PENDING:  # an instance has been found for it
            row += 1
            place = np.int64(0)
            continue
        if is_direct:
            entry = np.int64(column[row])
            if entry >= entries or length[entry] == 0:
                entry = np.int64(-1)
        elif is_single:
            hashed = single_hash(np.int64(column[row]))
            tag = np.int64(hashed << np.uint64(32))
            position = np.int64(hashed >> shift)
            slot = slots[position]
            while slot != 0:
                entry = (slot & LOWER) - 1
                if (slot & UPPER) == tag and keyed[pool[start[entry]]] == column[row]:
                    break
                position = (position + 1) & (slot_count - 1)
                slot = slots[position]
            entry = (slot & LOWER) - 1
        else:
            load_key(words, step, Z, level, row, key)
            entry = find_entry(T, X, index, key)
        if entry < 0:
            row += 1
            place = np.int64(0)
            continue
        origin = start[entry]
        end = np.int64(length[entry])
        if unlimited:
            taken = min(end - place, batch - filled)
            for offset in range(taken):
                left[filled + offset] = row
                right[filled + offset] = pool[origin + place + offset]
            filled += taken
            place += taken
        else:
            looked_at -= place
            while place < end and filled < batch:
                candidate = pool[origin + place]
                place += 1
                if candidate < limit and (np.int64(flags[candidate]) & mask) == want:
                    left[filled] = row
                    right[filled] = candidate
                    filled += 1
            looked_at += place
        if place >= end:
            row += 1
            place = np.int64(0)
    Z[Z_BUDGET] -= looked_at
    Z[Z_POSITION + level] = row
    Z[Z_ENTRY + level] = place
    return filled


@subroutine
def find_present(T: Any, X: Any, index: Any, table: Any, key: Any, mask: Any) -> Any:
    """A row of an index's entry that has one of the mask's flags, or any row if the mask is 0; else -1."""
    entry = find_entry(T, X, index, key)
    if entry < 0:
        return np.int64(-1)
    entries = X[index, X_ENTRY_CAPACITY]
    start = int64_at(X[index, X_START], entries)[entry]
    pool = int32_at(X[index, X_POOL], X[index, X_POOL_CAPACITY])
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    for place in range(start, start + int32_at(X[index, X_LENGTH], entries)[entry]):
        if mask == 0 or (np.int64(flags[pool[place]]) & mask) != 0:
            return np.int64(pool[place])
    return np.int64(-1)


@subroutine
def test_membership(T: Any, X: Any, words: Any, step: Any, level: Any, Z: Any) -> Any:
    """Fill a batch with the input rows whose key is, or for negation is not, in the table."""
    batch = Z[Z_BATCH]
    kind = words[step + S_KIND]
    table = words[step + S_TABLE]
    left = int32_at(Z[Z_LEFT], batch)
    right = int32_at(Z[Z_RIGHT], batch)
    limit = row_limit(T, table, words[step + S_LIMIT])
    mask, want = words[step + S_MASK], words[step + S_WANT]
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    key = np.empty(max(words[step + S_KEYS], 2), np.int64)
    filled = np.int64(0)
    for row in range(Z[Z_POSITION + level], Z[Z_ROWS + level - 1]):
        load_key(words, step, Z, level, row, key)
        if kind == ABSENT_INDEX:
            found = find_present(T, X, words[step + S_INDEX], table, key, mask)
        else:
            found = find_row(T, table, key)[0]
            if found >= limit:
                found = np.int64(-1)
            elif found >= 0 and mask != 0:
                known = np.int64(flags[found]) & mask
                if known != want if kind == MEMBER else known == 0:
                    found = np.int64(-1)
        if (found >= 0) == (kind == MEMBER):
            left[filled] = row
            right[filled] = found
            filled += 1
    Z[Z_POSITION + level] = Z[Z_ROWS + level - 1]
    return filled


# ---- The plan interpreter: one compiled function runs a whole plan, batch by batch.
#
# A plan is a chain of steps. Step 0 scans rows; each later step reads the batch of the step before it and
# fills its own, depth first, so that memory is bounded by (steps x batch). The function returns whenever
# Python must act (grow a table, compute a function, look at the clock) and is then called again: all its
# state is in Z.


@subroutine
def select_evaluated(words: Any, step: Any, level: Any, Z: Any) -> Any:
    """Fill a batch with the input rows whose expression is true, or has a value."""
    batch = Z[Z_BATCH]
    left = int32_at(Z[Z_LEFT], batch)
    result = int32_at(Z[Z_RESULT], batch)
    least = 1 if words[step + S_KIND] == SELECT else 0
    filled = np.int64(0)
    for row in range(Z[Z_ROWS + level - 1]):
        if result[row] >= least:
            left[filled] = row
            filled += 1
        elif result[row] == NO_VALUE:
            Z[Z_NO_VALUE] += 1
            Z[Z_DROPPED] += 1
    Z[Z_POSITION + level] = Z[Z_ROWS + level - 1]
    Z[Z_EVALUATED] = 0
    return filled


@subroutine
def write_outputs(T: Any, words: Any, step: Any, level: Any, filled: Any, Z: Any) -> None:
    """Gather the columns of a filled batch from the input, the matched rows, constants or results."""
    batch = Z[Z_BATCH]
    left = int32_at(Z[Z_LEFT], batch)
    right = int32_at(Z[Z_RIGHT], batch)
    table = words[step + S_TABLE]
    keys = words[step + S_KEYS]
    lists = step + S_LISTS + (2 * keys if words[step + S_KIND] == SCAN else keys)
    for number in range(words[step + S_OUTPUTS]):
        origin = words[lists + 2 * number]
        which = words[lists + 2 * number + 1]
        out = int32_at(column_address(Z, level, number), batch)
        if origin == FROM_INPUT:
            source = int32_at(column_address(Z, level - 1, which), batch)
            for offset in range(filled):
                out[offset] = source[left[offset]]
        elif origin == FROM_ROW:
            source = int32_at(T[table, COLUMNS + which], T[table, CAPACITY])
            for offset in range(filled):
                out[offset] = source[right[offset]]
        elif origin == FROM_CONSTANT:
            for offset in range(filled):
                out[offset] = which
        elif origin == FROM_RESULT:
            source = int32_at(Z[Z_RESULT], batch)
            for offset in range(filled):
                out[offset] = source[left[offset]]
        elif origin == FROM_NUMBER:
            for offset in range(filled):
                out[offset] = right[offset]
        elif origin == FROM_RANK:
            rank = int32_at(T[table, RANK], T[table, CAPACITY])
            source = int32_at(column_address(Z, max(level - 1, 0), max(which, 0)), batch)
            is_ranked = T[table, RANK] != 0  # scratch paper is not
            for offset in range(filled):
                highest = rank[right[offset]] if is_ranked else np.int32(0)
                if which >= 0:
                    highest = max(highest, source[left[offset]])
                out[offset] = highest
        elif origin in (FROM_MARK, FROM_STATED_MARK):
            source = int32_at(column_address(Z, max(level - 1, 0), max(which, 0)), batch)
            for offset in range(filled):
                marks = marks_of(T, table, right[offset], origin == FROM_STATED_MARK)
                out[offset] = marks | source[left[offset]] if which >= 0 else marks


@kernel("i64[:,:], i64[:,:], i64[:], i64[:], i64, i64[:] -> i64")
def run_plan(T: Any, X: Any, D: Any, words: Any, plan: Any, Z: Any) -> Any:
    """Run a plan until it is DONE or Python must act; call again with the same arguments to go on."""
    steps = words[plan + P_STEPS]
    head = words[plan + P_HEAD]
    if Z[Z_RUNNING] == 0:
        Z[Z_RUNNING] = 1
        Z[Z_LEVEL] = 0
        Z[Z_POSITION] = 0
        Z[Z_EVALUATED] = 0
    level = Z[Z_LEVEL]
    batch = Z[Z_BATCH]
    while True:
        if level == steps:
            count = Z[Z_ROWS + level - 1]
            if Z[Z_SINK] == INSERT:
                answer = insert_heads(T, head, level - 1, count, Z)
            elif Z[Z_SINK] == APPEND:
                answer = append_heads(T, head, level - 1, count, Z)
            elif Z[Z_SINK] == EMIT:
                answer = emit_heads(T, head, level - 1, count, Z)
            elif Z[Z_SINK] == APPLY:
                answer = apply_heads(T, words, plan, level - 1, count, Z)
            else:
                answer = note_support(T, words, plan, level - 1, count, Z)
            if answer != DONE:
                Z[Z_LEVEL] = level
                return answer
            level -= 1
            continue
        step = plan + words[plan + P_OFFSETS + level]
        kind = words[step + S_KIND]
        if kind == PROBE:
            filled = probe(T, X, words, step, level, head, Z)
        elif kind == SCAN:
            if Z[Z_LIST] == 0 and words[step + S_MASK] == 0:
                filled = scan(T, words, step, Z)
            else:
                filled = scan_listed(T, X, words, step, Z)
        elif kind in (MEMBER, ABSENT, ABSENT_INDEX):
            filled = test_membership(T, X, words, step, level, Z)
        elif kind == UNIT:
            filled = np.int64(1 - Z[Z_POSITION])
            Z[Z_POSITION] = 1
        elif Z[Z_POSITION + level] >= Z[Z_ROWS + level - 1]:
            filled = np.int64(0)
        else:
            if Z[Z_EVALUATED] == 0:
                first = step + S_LISTS + words[step + S_KEYS] + 2 * words[step + S_OUTPUTS]
                length = words[step + S_EXPRESSION]
                asking = evaluate_batch(D, words, first, length, level - 1, Z[Z_ROWS + level - 1], Z)
                if asking == FULL:
                    Z[Z_LEVEL] = level
                    return GROW_DICTIONARY
                Z[Z_EVALUATED] = 1
                if asking > 0:
                    Z[Z_LEVEL] = level
                    return EVALUATE
            filled = select_evaluated(words, step, level, Z)
        # What a step costs: the rows that it fills, and those that it has read in vain.
        read = Z[Z_ROWS + level - 1] if level > 0 else Z[Z_COUNT]
        Z[Z_BUDGET] -= filled + min(read, batch) + STEP_COST
        if filled == 0:
            # A selective step may leave a batch empty though its input goes on.
            goes_on = (kind == SCAN and Z[Z_POSITION] < Z[Z_COUNT]) or (
                kind == PROBE and Z[Z_POSITION + level] < Z[Z_ROWS + level - 1]
            )
            if not goes_on:
                if level == 0:
                    break
                level -= 1
        else:
            write_outputs(T, words, step, level, filled, Z)
            Z[Z_ROWS + level] = filled
            level += 1
            if level < steps:
                Z[Z_POSITION + level] = 0
                Z[Z_ENTRY + level] = 0
        if Z[Z_BUDGET] < 0:
            Z[Z_LEVEL] = level
            return PAUSE
    Z[Z_RUNNING] = 0
    return DONE
