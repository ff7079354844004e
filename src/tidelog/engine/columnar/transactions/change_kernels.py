"""Kernels over sets of facts while a transaction is applied: flags, counters, ranks, the journal, and
facts of many relations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, inlined, int32_at, int64_at, kernel, prefetch, subroutine
from tidelog.engine.columnar.layout import (
    ALIVE,
    ARITY,
    BEFORE,
    CAPACITY,
    CHECKED,
    COLUMNS,
    COUNT_CLASS,
    COUNT_NOTHING,
    CURRENT_END,
    DEAD,
    DENSE,
    DONE,
    EXPLICIT,
    FLAGS,
    FOUNDED,
    GOES,
    GROW_LISTS,
    GROW_TABLE,
    HIDDEN,
    NOTE_LINKS,
    NOTE_NOTHING,
    NOTES,
    OLD_END,
    P_ATOMS,
    P_HEAD,
    P_LIST,
    P_NOTE,
    P_NOTED,
    P_RANK,
    PASSING,
    PENDING,
    RANK,
    ROWS,
    SCRATCH,
    SIDE,
    SLOT_COUNT,
    SLOT_LIMIT,
    SLOTS,
    TOUCHED,
    Z_BATCH,
    Z_BUFFER,
    Z_CLOCK,
    Z_COUNTERS,
    Z_CREATE,
    Z_JOURNAL,
    Z_JOURNAL_CAPACITY,
    Z_JOURNAL_COUNT,
    Z_JOURNAL_FLAGS,
    Z_JOURNAL_FOUNDED,
    Z_JOURNAL_HIDDEN,
    Z_JOURNAL_RANK,
    Z_MASK,
    Z_MATCHES,
    Z_NEW,
    Z_NOTING,
    Z_OUT,
    Z_OUT_CAPACITY,
    Z_OUT_COUNT,
    Z_ROLE,
    Z_SET,
    Z_STEP,
    Z_UNFOUNDED,
    Z_WANT,
    Z_WIDTH,
)
from tidelog.engine.columnar.storage.table_kernels import LOWER, find_row, key_hash, write_row
from tidelog.engine.columnar.transactions.mark_kernels import leans_elsewhere, note_head

# ---- Kernels over sets of facts while a transaction is worked in: flags, counters, ranks, and the journal.
#
# A fact is named by its code: its table's number in the upper half, its row in the lower. Every kernel that
# changes what is known of a fact enters it into the journal first, once per transaction; callers see to it
# that the journal has room. Mutates what it is given.

SETTLED = np.uint8(0xFF ^ PASSING)
STANDING = BEFORE | ALIVE
SEVERAL = 32  # heads from which on memory is fetched ahead


@inlined
def batch_column(Z: Any, level: Any, column: Any) -> Any:
    """A column of a level's batch."""
    return int32_at(Z[Z_BUFFER] + 4 * (level * Z[Z_WIDTH] + column) * Z[Z_BATCH], Z[Z_BATCH])


@inlined
def counter_of(T: Any, table: Any, which: Any, row: Any) -> Any:
    """A counter of a row, 0 where the table has none."""
    if T[table, which] == 0:
        return np.int32(0)
    return int32_at(T[table, which], T[table, CAPACITY])[row]


@inlined
def set_counter(T: Any, table: Any, which: Any, row: Any, value: Any) -> None:
    """Change a counter of a row, where the table has it."""
    if T[table, which] != 0:
        int32_at(T[table, which], T[table, CAPACITY])[row] = value


@subroutine
def touch(T: Any, table: Any, row: Any, Z: Any) -> None:
    """Record the row in the journal before its first change, unless no journal is kept of it."""
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    if flags[row] & TOUCHED or Z[Z_JOURNAL] == -1 or T[table, SCRATCH] == 1:
        return
    place = Z[Z_JOURNAL_COUNT]
    capacity = Z[Z_JOURNAL_CAPACITY]
    int64_at(Z[Z_JOURNAL], capacity)[place] = (table << 32) | row
    bytes_at(Z[Z_JOURNAL_FLAGS], capacity)[place] = flags[row]
    int32_at(Z[Z_JOURNAL_FOUNDED], capacity)[place] = counter_of(T, table, FOUNDED, row)
    int32_at(Z[Z_JOURNAL_HIDDEN], capacity)[place] = counter_of(T, table, HIDDEN, row)
    int32_at(Z[Z_JOURNAL_RANK], capacity)[place] = counter_of(T, table, RANK, row)
    Z[Z_JOURNAL_COUNT] = place + 1
    flags[row] |= TOUCHED


@inlined
def lists_have_room(found: Any, touched: Any, Z: Any) -> Any:
    """Whether so many more facts can be found and touched."""
    if Z[Z_OUT_COUNT] + found > Z[Z_OUT_CAPACITY]:
        return False
    return Z[Z_JOURNAL] == -1 or Z[Z_JOURNAL_COUNT] + touched <= Z[Z_JOURNAL_CAPACITY]


# ---- what becomes of the heads that a plan finds


@inlined
def enter_row(T: Any, table: Any, key: Any, position: Any) -> Any:
    """Write a new row without flags; returns its number."""
    row = T[table, ROWS]
    write_row(T, table, key, position, row, 0)
    for which in (FOUNDED, HIDDEN, RANK):
        set_counter(T, table, which, row, 0)
    T[table, ROWS] = row + 1
    T[table, DEAD] += 1
    return row


@subroutine
def has_room(T: Any, table: Any, level: Any, count: Any, Z: Any) -> Any:
    """Whether a batch of rows can be entered into a table."""
    rows = T[table, ROWS] + count
    if rows > T[table, CAPACITY] or rows > T[table, SLOT_LIMIT]:
        return False
    if T[table, DENSE] == 1:
        for column in range(T[table, ARITY]):
            ids = batch_column(Z, level, column)
            for offset in range(count):
                if ids[offset] >= T[table, SIDE]:
                    return False
    return True


@inlined
def count_instance(T: Any, table: Any, row: Any, flags: Any, rank: Any, highest: Any, Z: Any) -> None:
    """Count one instance of the row's derivations more or less.

    `rank` is -1 for a nonrecursive rule; else, if ranks are kept, `highest` is that of its own body facts.
    """
    is_founded = rank == -1
    if not is_founded and Z[Z_COUNTERS] != COUNT_CLASS:
        is_founded = highest < counter_of(T, table, RANK, row) and (Z[Z_STEP] < 0 or (flags & ALIVE) != 0)
    which = FOUNDED if is_founded else HIDDEN
    set_counter(T, table, which, row, counter_of(T, table, which, row) + Z[Z_STEP])


@subroutine
def fetch_heads(T: Any, table: Any, level: Any, count: Any, Z: Any) -> None:
    """Ask for the memory that a batch of heads will need: slots first, then what is known of their rows."""
    arity = T[table, ARITY]
    is_dense = T[table, DENSE] == 1
    key = np.empty(max(arity, 2), np.int64)
    positions = np.empty(count, np.int64)
    for offset in range(count):
        for column in range(arity):
            key[column] = batch_column(Z, level, column)[offset]
        if is_dense:
            position = np.int64(0)
            for column in range(arity):
                position = position * T[table, SIDE] + key[column]
            position = min(position, T[table, SLOT_COUNT] - 1)
            prefetch(T[table, SLOTS] + 4 * position)
        else:
            position = np.int64(key_hash(key, arity) >> np.uint64(T[table, SIDE]))
            prefetch(T[table, SLOTS] + 8 * position)
        positions[offset] = position
    for offset in range(count):
        if is_dense:
            row = np.int64(int32_at(T[table, SLOTS], T[table, SLOT_COUNT])[positions[offset]]) - 1
        else:
            row = (int64_at(T[table, SLOTS], T[table, SLOT_COUNT])[positions[offset]] & LOWER) - 1
            if row >= 0:
                for column in range(arity):
                    prefetch(T[table, COLUMNS + column] + 4 * row)
        if row >= 0:
            prefetch(T[table, FLAGS] + row)
            for which in (FOUNDED, RANK):
                if T[table, which] != 0:
                    prefetch(T[table, which] + 4 * row)


@subroutine
def count_pairs(T: Any, table: Any, rank: Any, level: Any, count: Any, Z: Any) -> None:
    """Count one instance more for each head of a batch; all are facts of a table that is a direct array."""
    capacity = T[table, CAPACITY]
    dense = int32_at(T[table, SLOTS], T[table, SLOT_COUNT])
    first, second = batch_column(Z, level, 0), batch_column(Z, level, 1)
    highest = batch_column(Z, level, max(rank, 0))
    founded = int32_at(T[table, FOUNDED], capacity)
    hidden = int32_at(T[table, HIDDEN], capacity)
    ranks = int32_at(T[table, RANK], capacity)
    is_ranked = rank >= 0
    for offset in range(count):
        row = dense[np.int64(first[offset]) * T[table, SIDE] + np.int64(second[offset])] - 1
        if rank == -1 or (is_ranked and highest[offset] < ranks[row]):
            founded[row] += 1
        else:
            hidden[row] += 1
    Z[Z_MATCHES] += count


@subroutine
def apply_heads(T: Any, words: Any, plan: Any, level: Any, count: Any, Z: Any) -> Any:
    """Do to each head of a batch what the state says; DONE, or what must grow, with nothing done."""
    table = words[plan + P_HEAD]
    rank = words[plan + P_RANK]
    if Z[Z_CREATE] != 0 and not has_room(T, table, level, count, Z):
        return GROW_TABLE
    if not lists_have_room(count, count, Z):
        return GROW_LISTS
    arity = T[table, ARITY]
    if count >= SEVERAL:
        # Counting over all facts: nothing is looked at or noted beside the counters.
        if Z[Z_WANT] & ~Z[Z_MASK] and Z[Z_JOURNAL] == -1 and arity == 2 and T[table, DENSE] == 1:
            count_pairs(T, table, rank, level, count, Z)
            return DONE
        fetch_heads(T, table, level, count, Z)
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    out = int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY])
    found = Z[Z_OUT_COUNT]
    counting = Z[Z_STEP] != 0 and Z[Z_COUNTERS] != COUNT_NOTHING and T[table, FOUNDED] != 0
    ranks = batch_column(Z, level, max(rank, 0))
    noting = Z[Z_NOTING] if T[table, NOTES] != 0 and Z[Z_ROLE] != 0 else NOTE_NOTHING
    noted = batch_column(Z, level, max(words[plan + P_NOTE], 0))
    note = np.int64(-1)
    key = np.empty(max(arity, 2), np.int64)
    for offset in range(count):
        for column in range(arity):
            key[column] = batch_column(Z, level, column)[offset]
        row, position = find_row(T, table, key)
        if row < 0:
            if Z[Z_CREATE] == 0:
                continue
            row = enter_row(T, table, key, position)
        if counting:
            touch(T, table, row, Z)
            count_instance(T, table, row, flags[row], rank, ranks[offset], Z)
        if noting != NOTE_NOTHING and words[plan + P_NOTE] >= 0:
            note = np.int64(noted[offset])
            if noting == NOTE_LINKS:
                note = ((words[plan + P_NOTED] << 32) | note) + 1
            elif words[plan + P_NOTED] == 0:
                note |= GOES
        is_selected = (np.int64(flags[row]) & Z[Z_MASK]) == Z[Z_WANT] and (
            Z[Z_UNFOUNDED] == 0 or counter_of(T, table, FOUNDED, row) == 0
        )
        if noting != NOTE_NOTHING:
            if is_selected and noting == NOTE_LINKS and leans_elsewhere(T, table, row, note, Z):
                continue
            note_head(T, table, row, note, is_selected, Z)
        if is_selected:
            touch(T, table, row, Z)
            flags[row] |= np.uint8(Z[Z_SET])
            out[found] = (table << 32) | row
            found += 1
    Z[Z_NEW] += found - Z[Z_OUT_COUNT]
    Z[Z_OUT_COUNT] = found
    Z[Z_MATCHES] += count
    return DONE


@subroutine
def note_support(T: Any, words: Any, plan: Any, level: Any, count: Any, Z: Any) -> Any:
    """Take the first instance of each given head: its facts that are not CHECKED are found, the head PENDING.

    The batch's columns are the number of the given row, then those of the instance's own facts.
    """
    table = words[plan + P_HEAD]
    atoms = words[plan + P_ATOMS]
    if not lists_have_room(count * atoms, count * (atoms + 1), Z):
        return GROW_LISTS
    out = int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY])
    heads = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    given = batch_column(Z, level, 0)
    for offset in range(count):
        if heads[given[offset]] & PENDING:
            continue
        touch(T, table, np.int64(given[offset]), Z)
        heads[given[offset]] |= PENDING
        Z[Z_MATCHES] += 1
        for number in range(atoms):
            other = words[plan + words[plan + P_LIST] + number]
            row = np.int64(batch_column(Z, level, number + 1)[offset])
            flags = bytes_at(T[other, FLAGS], T[other, CAPACITY])
            if flags[row] & CHECKED:
                continue
            touch(T, other, row, Z)
            flags[row] |= CHECKED
            out[Z[Z_OUT_COUNT]] = (other << 32) | row
            Z[Z_OUT_COUNT] += 1
    return DONE


# ---- sets of facts, as numbers of rows of one table


@kernel("i64[:,:], i64, i64[:], i64, i64, i64[:]")
def mark_rows(T: Any, table: Any, rows: Any, set_flags: Any, clear_flags: Any, Z: Any) -> None:
    """Clear flags of rows, then set flags."""
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    for row in rows:
        touch(T, table, row, Z)
        flags[row] = (flags[row] & np.uint8(0xFF ^ clear_flags)) | np.uint8(set_flags)


@kernel("i64[:,:], i64, i64[:], i64, i64, i64[:] -> i64")
def select_rows(T: Any, table: Any, rows: Any, mask: Any, want: Any, selected: Any) -> Any:
    """Write the rows whose flags are as wanted into `selected`; returns how many they are."""
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    count = 0
    for row in rows:
        if (np.int64(flags[row]) & mask) == want:
            selected[count] = row
            count += 1
    return count


@kernel("i64[:,:], i64, i64[:], bool, bool, i64[:] -> i64")
def select_counted(T: Any, table: Any, rows: Any, hidden_too: Any, above: Any, selected: Any) -> Any:
    """Write the rows whose count is, or is not, above 0 into `selected`; returns how many they are.

    A table without counters holds explicit facts only: their count is 1.
    """
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    count = 0
    for row in rows:
        if T[table, FOUNDED] == 0:
            counted = (flags[row] & EXPLICIT) != 0
        else:
            counted = counter_of(T, table, FOUNDED, row) > 0
            if hidden_too:
                counted = counted or counter_of(T, table, HIDDEN, row) > 0
        if counted == above:
            selected[count] = row
            count += 1
    return count


@kernel("i64[:,:], i64, i64[:], i64, i64[:]")
def add_founded(T: Any, table: Any, rows: Any, amount: Any, Z: Any) -> None:
    """Add to the founded counter of rows."""
    if T[table, FOUNDED] == 0:
        return
    founded = int32_at(T[table, FOUNDED], T[table, CAPACITY])
    for row in rows:
        touch(T, table, row, Z)
        founded[row] += amount


@kernel("i64[:,:], i64, i64[:], i64[:]")
def raise_rows(T: Any, table: Any, rows: Any, Z: Any) -> None:
    """Give the rows the highest rank, and add their `hidden` counters to `founded`."""
    for row in rows:
        touch(T, table, row, Z)
        founded = counter_of(T, table, FOUNDED, row) + counter_of(T, table, HIDDEN, row)
        set_counter(T, table, FOUNDED, row, founded)
        set_counter(T, table, HIDDEN, row, 0)
        set_counter(T, table, RANK, row, Z[Z_CLOCK])


# ---- the journal's ends


@kernel("i64[:,:], i64[:], i64, i64[:], i64[:] -> i64, i64")
def settle(T: Any, Z: Any, first: Any, gone: Any, come: Any) -> Any:
    """Clear passing flags of all facts in the journal from `first` on; write those that went and came."""
    journal = int64_at(Z[Z_JOURNAL], Z[Z_JOURNAL_CAPACITY])
    went, came = 0, 0
    for place in range(first, Z[Z_JOURNAL_COUNT]):
        table, row = journal[place] >> 32, journal[place] & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        flags[row] &= SETTLED
        standing = flags[row] & STANDING
        if standing == BEFORE:
            gone[went] = journal[place]
            went += 1
        elif standing == ALIVE:
            come[came] = journal[place]
            came += 1
    return went, came


@kernel("i64[:,:], i64[:]")
def rebase(T: Any, Z: Any) -> None:
    """Set BEFORE to ALIVE for all facts in the journal; facts touched again are recorded anew."""
    journal = int64_at(Z[Z_JOURNAL], Z[Z_JOURNAL_CAPACITY])
    for place in range(Z[Z_JOURNAL_COUNT]):
        table, row = journal[place] >> 32, journal[place] & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        alive = flags[row] & ALIVE
        flags[row] = (flags[row] & (EXPLICIT | ALIVE)) | (BEFORE if alive else 0)


@kernel("i64[:,:], i64[:]")
def look_back(T: Any, Z: Any) -> None:
    """Set BEFORE to what was true when the journal began; the earliest entry of a fact decides."""
    capacity = Z[Z_JOURNAL_CAPACITY]
    journal = int64_at(Z[Z_JOURNAL], capacity)
    for place in range(Z[Z_JOURNAL_COUNT] - 1, -1, -1):
        table, row = journal[place] >> 32, journal[place] & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        was = bytes_at(Z[Z_JOURNAL_FLAGS], capacity)[place] & ALIVE
        flags[row] = (flags[row] & (EXPLICIT | ALIVE)) | (BEFORE if was else 0)


@kernel("i64[:,:], i64[:], i64[:], i64[:] -> i64, i64")
def close_journal(T: Any, Z: Any, gone: Any, come: Any) -> Any:
    """Write the facts that went and that came; what is true now is true before, and the journal is empty."""
    journal = int64_at(Z[Z_JOURNAL], Z[Z_JOURNAL_CAPACITY])
    went, came = 0, 0
    for place in range(Z[Z_JOURNAL_COUNT]):
        table, row = journal[place] >> 32, journal[place] & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        standing = flags[row] & STANDING
        if standing == BEFORE:
            gone[went] = journal[place]
            went += 1
            T[table, DEAD] += 1
        elif standing == ALIVE:
            come[came] = journal[place]
            came += 1
            T[table, DEAD] -= 1
        # A fact that is met again, after `rebase`, is found settled.
        flags[row] = (flags[row] & (EXPLICIT | ALIVE)) | (BEFORE if flags[row] & ALIVE else 0)
        T[table, OLD_END] = T[table, ROWS]
        T[table, CURRENT_END] = T[table, ROWS]
    Z[Z_JOURNAL_COUNT] = 0
    return went, came


@kernel("i64[:,:], i64[:], i64")
def undo_journal(T: Any, Z: Any, first: Any) -> None:
    """Put every fact in the journal from `first` on back as it was, and forget these entries."""
    capacity = Z[Z_JOURNAL_CAPACITY]
    journal = int64_at(Z[Z_JOURNAL], capacity)
    for place in range(Z[Z_JOURNAL_COUNT] - 1, first - 1, -1):  # the earliest entry of a fact comes last
        table, row = journal[place] >> 32, journal[place] & LOWER
        bytes_at(T[table, FLAGS], T[table, CAPACITY])[row] = bytes_at(Z[Z_JOURNAL_FLAGS], capacity)[place]
        set_counter(T, table, FOUNDED, row, int32_at(Z[Z_JOURNAL_FOUNDED], capacity)[place])
        set_counter(T, table, HIDDEN, row, int32_at(Z[Z_JOURNAL_HIDDEN], capacity)[place])
        set_counter(T, table, RANK, row, int32_at(Z[Z_JOURNAL_RANK], capacity)[place])
    Z[Z_JOURNAL_COUNT] = first


# ---- Facts of many relations in one call: which stand, which rows they are, what their ids are.
#
# A batch is groups of rows, one per relation: `tables` and `counts` say of which table, and how many. Ids lie
# column after column, group after group. Mutates what it is given.


@kernel("i64[:,:], i64[:], i64[:], i32[:], u8[:]")
def stand(T: Any, tables: Any, counts: Any, source: Any, standing: Any) -> None:
    """Write the flags ALIVE and EXPLICIT of each row into `standing`, 0 where it is no fact."""
    first, done = 0, 0
    for group in range(len(tables)):
        table, count = tables[group], counts[group]
        arity = T[table, ARITY]
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        key = np.empty(max(arity, 2), np.int64)
        for index in range(count):
            for column in range(arity):
                key[column] = source[first + column * count + index]
            row = find_row(T, table, key)[0]
            standing[done + index] = flags[row] & np.uint8(ALIVE | EXPLICIT) if row >= 0 else np.uint8(0)
        first += arity * count
        done += count


@kernel("i64[:,:], i64[:], i64[:], i32[:], i64, bool, i64[:] -> i64")
def find_or_enter(T: Any, tables: Any, counts: Any, source: Any, done: Any, create: Any, found: Any) -> Any:
    """Write the numbers of the rows `done`… into `found`, or -1.

    Returns how many were looked for; if not all were, the table of the next one must grow first.
    """
    first, before = 0, 0
    for group in range(len(tables)):
        table, count = tables[group], counts[group]
        arity = T[table, ARITY]
        key = np.empty(max(arity, 2), np.int64)
        for index in range(max(done - before, 0), count):
            for column in range(arity):
                key[column] = source[first + column * count + index]
            row, position = find_row(T, table, key)
            if row < 0 and create:
                if position < 0 or T[table, ROWS] >= min(T[table, CAPACITY], T[table, SLOT_LIMIT]):
                    return before + index
                row = enter_row(T, table, key, position)
            found[before + index] = row
        first += arity * count
        before += count
    return before


@kernel("i64[:,:], i64[:], i64[:], i64[:], i32[:]")
def gather(T: Any, tables: Any, counts: Any, rows: Any, ids: Any) -> None:
    """Write the ids of rows into `ids`."""
    first, done = 0, 0
    for group in range(len(tables)):
        table, count = tables[group], counts[group]
        for column in range(T[table, ARITY]):
            held = int32_at(T[table, COLUMNS + column], T[table, CAPACITY])
            for index in range(count):
                ids[first + index] = held[rows[done + index]]
            first += count
        done += count


@kernel("i64[:], i64[:], i64[:], i64[:], i64[:] -> i64")
def group_rows(codes: Any, counts: Any, tables: Any, starts: Any, rows: Any) -> Any:
    """Write the rows of facts table by table, the tables, and where each one's rows start; how many tables.

    `counts` has a zero for each table there is, and has them again in the end.
    """
    found = 0
    for code in codes:
        table = code >> 32
        if counts[table] == 0:
            tables[found] = table
            found += 1
        counts[table] += 1
    start = np.int64(0)
    for group in range(found):
        count = counts[tables[group]]
        starts[group] = counts[tables[group]] = start
        start += count
    starts[found] = start
    for code in codes:
        rows[counts[code >> 32]] = code & LOWER
        counts[code >> 32] += 1
    for group in range(found):
        counts[tables[group]] = 0
    return found
