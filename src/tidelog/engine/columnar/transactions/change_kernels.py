"""Kernels over sets of facts while a transaction is applied: flags, counters, ranks and the journal."""

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
    FIRST,
    FLAGS,
    FOUNDED,
    GOES,
    GROW_LISTS,
    GROW_TABLE,
    HIDDEN,
    LINK,
    MARKED,
    NEXT,
    NOTE_LINKS,
    NOTE_MARKS,
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
    PREVIOUS,
    RANK,
    RETURNS,
    ROWS,
    SCRATCH,
    SIDE,
    SLOT_COUNT,
    SLOT_LIMIT,
    SLOTS,
    SOLE,
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
from tidelog.engine.columnar.storage.table_kernels import LOWER, enter_row, find_row, key_hash
from tidelog.engine.flags import Role

# ---- Kernels over sets of facts while a transaction is applied: flags, counters, ranks, and the journal.
#
# A fact is named by its code: its table's number in the upper half, its row in the lower. Every kernel that
# changes the state of a fact enters it into the journal first, once per transaction; callers make sure
# that the journal has room. Mutates its arguments.

SETTLED = np.uint8(0xFF ^ PASSING)
STANDING = BEFORE | ALIVE
SEVERAL = 32  # heads from which on memory is fetched ahead


@inlined
def batch_column(Z: Any, level: Any, column: Any) -> Any:
    """A column of a level's batch."""
    return int32_at(Z[Z_BUFFER] + 4 * (level * Z[Z_WIDTH] + column) * Z[Z_BATCH], Z[Z_BATCH])


@inlined
def counter_of(T: Any, table: Any, counter: Any, row: Any) -> Any:
    """A counter of a row, 0 where the table has none."""
    if T[table, counter] == 0:
        return np.int32(0)
    return int32_at(T[table, counter], T[table, CAPACITY])[row]


@inlined
def set_counter(T: Any, table: Any, counter: Any, row: Any, value: Any) -> None:
    """Change a counter of a row, where the table has it."""
    if T[table, counter] != 0:
        int32_at(T[table, counter], T[table, CAPACITY])[row] = value


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
def lists_have_room(new_entries: Any, new_changes: Any, Z: Any) -> Any:
    """Whether the lists have room for so many new entries, and the journal for so many changes."""
    if Z[Z_OUT_COUNT] + new_entries > Z[Z_OUT_CAPACITY]:
        return False
    return Z[Z_JOURNAL] == -1 or Z[Z_JOURNAL_COUNT] + new_changes <= Z[Z_JOURNAL_CAPACITY]


# ---- effects on the heads that a plan finds


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
    """Add or subtract one instance of a row.

    `rank` is -1 for a nonrecursive rule; else, if ranks are kept, `highest` is that of its own body facts.
    """
    is_founded = rank == -1
    if not is_founded and Z[Z_COUNTERS] != COUNT_CLASS:
        is_founded = highest < counter_of(T, table, RANK, row) and (Z[Z_STEP] < 0 or (flags & ALIVE) != 0)
    counter = FOUNDED if is_founded else HIDDEN
    set_counter(T, table, counter, row, counter_of(T, table, counter, row) + Z[Z_STEP])


@subroutine
def fetch_heads(T: Any, table: Any, level: Any, count: Any, Z: Any) -> None:
    """Prefetch the memory that a batch of heads will need: slots first, then flags and counters of rows."""
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
            for counter in (FOUNDED, RANK):
                if T[table, counter] != 0:
                    prefetch(T[table, counter] + 4 * row)


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
    """Apply the effect in the state to the heads of a batch; return DONE, or what must grow first."""
    table = words[plan + P_HEAD]
    rank = words[plan + P_RANK]
    if Z[Z_CREATE] != 0 and not has_room(T, table, level, count, Z):
        return GROW_TABLE
    if not lists_have_room(count, count, Z):
        return GROW_LISTS
    arity = T[table, ARITY]
    if count >= SEVERAL:
        # Counting over all facts: only counters are read and written.
        if Z[Z_WANT] & ~Z[Z_MASK] and Z[Z_JOURNAL] == -1 and arity == 2 and T[table, DENSE] == 1:
            count_pairs(T, table, rank, level, count, Z)
            return DONE
        fetch_heads(T, table, level, count, Z)
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    out = int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY])
    end = Z[Z_OUT_COUNT]
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
            if is_selected and noting == NOTE_LINKS and has_other_support(T, table, row, note, Z):
                continue
            note_head(T, table, row, note, is_selected, Z)
        if is_selected:
            touch(T, table, row, Z)
            flags[row] |= np.uint8(Z[Z_SET])
            out[end] = (table << 32) | row
            end += 1
    Z[Z_NEW] += end - Z[Z_OUT_COUNT]
    Z[Z_OUT_COUNT] = end
    Z[Z_MATCHES] += count
    return DONE


@subroutine
def note_support(T: Any, words: Any, plan: Any, level: Any, count: Any, Z: Any) -> Any:
    """Take the first instance of each given head: list its facts that are not CHECKED, mark the head PENDING.

    The batch's columns are the number of the given row, then those of the instance's own facts.
    """
    table = words[plan + P_HEAD]
    atoms = words[plan + P_ATOMS]
    if not lists_have_room(count * atoms, count * (atoms + 1), Z):
        return GROW_LISTS
    out = int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY])
    heads = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    head_rows = batch_column(Z, level, 0)
    for offset in range(count):
        if heads[head_rows[offset]] & PENDING:
            continue
        touch(T, table, np.int64(head_rows[offset]), Z)
        heads[head_rows[offset]] |= PENDING
        Z[Z_MATCHES] += 1
        for number in range(atoms):
            body_table = words[plan + words[plan + P_LIST] + number]
            row = np.int64(batch_column(Z, level, number + 1)[offset])
            flags = bytes_at(T[body_table, FLAGS], T[body_table, CAPACITY])
            if flags[row] & CHECKED:
                continue
            touch(T, body_table, row, Z)
            flags[row] |= CHECKED
            out[Z[Z_OUT_COUNT]] = (body_table << 32) | row
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
    """Write the rows whose flags match into `selected`; returns their number."""
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    count = 0
    for row in rows:
        if (np.int64(flags[row]) & mask) == want:
            selected[count] = row
            count += 1
    return count


@kernel("i64[:,:], i64, i64[:], bool, bool, i64[:] -> i64")
def select_counted(T: Any, table: Any, rows: Any, hidden_too: Any, above: Any, selected: Any) -> Any:
    """Write the rows whose count is, or is not, above 0 into `selected`; returns their number.

    A table without counters holds explicit facts only: their count is 1.
    """
    flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
    count = 0
    for row in rows:
        if T[table, FOUNDED] == 0:
            is_counted = (flags[row] & EXPLICIT) != 0
        else:
            is_counted = counter_of(T, table, FOUNDED, row) > 0
            if hidden_too:
                is_counted = is_counted or counter_of(T, table, HIDDEN, row) > 0
        if is_counted == above:
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
def settle(T: Any, Z: Any, first: Any, deleted: Any, inserted: Any) -> Any:
    """Clear passing flags of facts in the journal from `first` on; write the deleted and inserted ones."""
    journal = int64_at(Z[Z_JOURNAL], Z[Z_JOURNAL_CAPACITY])
    deleted_count, inserted_count = 0, 0
    for place in range(first, Z[Z_JOURNAL_COUNT]):
        table, row = journal[place] >> 32, journal[place] & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        flags[row] &= SETTLED
        truth = flags[row] & STANDING
        if truth == BEFORE:
            deleted[deleted_count] = journal[place]
            deleted_count += 1
        elif truth == ALIVE:
            inserted[inserted_count] = journal[place]
            inserted_count += 1
    return deleted_count, inserted_count


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
    """Set BEFORE to the state when the journal began; the earliest entry of a fact decides."""
    capacity = Z[Z_JOURNAL_CAPACITY]
    journal = int64_at(Z[Z_JOURNAL], capacity)
    for place in range(Z[Z_JOURNAL_COUNT] - 1, -1, -1):
        table, row = journal[place] >> 32, journal[place] & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        was = bytes_at(Z[Z_JOURNAL_FLAGS], capacity)[place] & ALIVE
        flags[row] = (flags[row] & (EXPLICIT | ALIVE)) | (BEFORE if was else 0)


@kernel("i64[:,:], i64[:], i64[:], i64[:,:], i64[:], i32[:] -> i64, i64, i64")
def close_journal(T: Any, Z: Any, counts: Any, groups: Any, rows: Any, ids: Any) -> Any:
    """Write the deleted facts, then the inserted ones, and empty the journal; set BEFORE to ALIVE for all.

    Returns the number of groups of deleted facts, that of all, and the most tombstones in a relation that
    lost facts. `write_net` says what a group is.
    """
    journal = int64_at(Z[Z_JOURNAL], Z[Z_JOURNAL_CAPACITY])
    deleted, inserted, most_dead = 0, 0, np.int64(0)
    for place in range(Z[Z_JOURNAL_COUNT]):
        code = journal[place]
        table, row = code >> 32, code & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        truth = flags[row] & STANDING
        if truth == BEFORE:
            journal[deleted] = code  # what has been read makes room
            deleted += 1
            T[table, DEAD] += 1
            most_dead = max(most_dead, T[table, DEAD])
        elif truth == ALIVE:
            rows[inserted] = code
            inserted += 1
            T[table, DEAD] -= 1
        # A fact that is entered again after `rebase` is settled already.
        flags[row] = (flags[row] & (EXPLICIT | ALIVE)) | (BEFORE if flags[row] & ALIVE else 0)
        T[table, OLD_END] = T[table, ROWS]
        T[table, CURRENT_END] = T[table, ROWS]
    Z[Z_JOURNAL_COUNT] = 0
    for place in range(inserted):
        journal[deleted + place] = rows[place]
    split, end = write_net(T, journal, 0, deleted, counts, groups, 0, rows, ids, 0)
    count, end = write_net(T, journal, deleted, deleted + inserted, counts, groups, split, rows, ids, end)
    return split, count, most_dead


@subroutine
def write_net(
    T: Any,
    codes: Any,
    first: Any,
    last: Any,
    counts: Any,
    groups: Any,
    group: Any,
    rows: Any,
    ids: Any,
    end: Any,
) -> Any:
    """Write the facts from `first` to `last` table by table; returns the numbers of the next group and id.

    A group is a table, where its rows begin and end in `rows`, and where its ids do in `ids`, column after
    column. `counts` has a zero for each table, before and after the call.
    """
    begin, row = group, first
    for place in range(first, last):
        table = codes[place] >> 32
        if counts[table] == 0:
            groups[group, 0] = table
            group += 1
        counts[table] += 1
    for number in range(begin, group):
        table = groups[number, 0]
        groups[number, 1], groups[number, 2] = row, row + counts[table]
        counts[table], row = row, groups[number, 2]
    for place in range(first, last):
        table = codes[place] >> 32
        rows[counts[table]] = codes[place] & LOWER
        counts[table] += 1
    for number in range(begin, group):
        table = groups[number, 0]
        counts[table] = 0
        groups[number, 3] = end
        for column in range(T[table, ARITY]):
            column_ids = int32_at(T[table, COLUMNS + column], T[table, CAPACITY])
            for place in range(groups[number, 1], groups[number, 2]):
                ids[end] = column_ids[rows[place]]
                end += 1
        groups[number, 4] = end
    return group, end


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


@kernel("i64[:], i64[:], i64[:], i64[:], i64[:] -> i64")
def group_rows(codes: Any, counts: Any, tables: Any, starts: Any, rows: Any) -> Any:
    """Write the rows of facts table by table, the tables, and where their rows start; returns their number.

    `counts` has a zero for each table, before and after the call.
    """
    table_count = 0
    for code in codes:
        table = code >> 32
        if counts[table] == 0:
            tables[table_count] = table
            table_count += 1
        counts[table] += 1
    start = np.int64(0)
    for group in range(table_count):
        count = counts[tables[group]]
        starts[group] = counts[tables[group]] = start
        start += count
    starts[table_count] = start
    for code in codes:
        rows[counts[code >> 32]] = code & LOWER
        counts[code >> 32] += 1
    for group in range(table_count):
        counts[tables[group]] = 0
    return table_count


# ---- marks of heads, and links to the facts that support them
ORIGIN, LOSS = int(Role.ORIGIN), int(Role.LOSS)


@inlined
def links_of(T: Any, field: Any, link: Any) -> Any:
    """The array with this field of the table of a linked fact, and the fact's place in it."""
    table = (link - 1) >> 32
    return int64_at(T[table, field], T[table, CAPACITY]), (link - 1) & LOWER


@subroutine
def relink(T: Any, table: Any, row: Any, link: Any) -> None:
    """Link a derived fact to another explicit fact, or to none."""
    links = int64_at(T[table, LINK], T[table, CAPACITY])
    former = links[row]
    if former == link:
        return
    nexts = int64_at(T[table, NEXT], T[table, CAPACITY])
    previous = int64_at(T[table, PREVIOUS], T[table, CAPACITY])
    if former > 0:
        if previous[row] > 0:
            array, place = links_of(T, NEXT, previous[row])
        else:
            array, place = links_of(T, FIRST, former)
        array[place] = nexts[row]
        if nexts[row] > 0:
            array, place = links_of(T, PREVIOUS, nexts[row])
            array[place] = previous[row]
    links[row] = link
    nexts[row] = 0
    previous[row] = 0
    if link > 0:
        itself = ((table << 32) | row) + 1
        first, place = links_of(T, FIRST, link)
        nexts[row] = first[place]
        if first[place] > 0:
            array, place_of_next = links_of(T, PREVIOUS, first[place])
            array[place_of_next] = itself
        first[place] = itself


@inlined
def marks_of(T: Any, table: Any, row: Any, is_explicit: Any) -> Any:
    """The marks of a body fact: MARKED, and GOES if it is deleted and may not return."""
    if T[table, NOTES] == 0:
        return np.int32(GOES)
    notes = np.int32(bytes_at(T[table, NOTES], T[table, CAPACITY])[row])
    marked = notes & MARKED
    if notes & RETURNS:
        return marked
    is_true = bytes_at(T[table, FLAGS], T[table, CAPACITY])[row] & ALIVE
    return marked if is_explicit and is_true and not marked else marked | np.int32(GOES)


@inlined
def has_other_support(T: Any, table: Any, row: Any, link: Any, Z: Any) -> Any:
    """Whether another fact supports a fact that loses an instance."""
    if Z[Z_ROLE] != LOSS:
        return False
    current = int64_at(T[table, LINK], T[table, CAPACITY])[row]
    return current != 0 and current != link


@subroutine
def note_head(T: Any, table: Any, row: Any, note: Any, is_selected: Any, Z: Any) -> None:
    """Record the marks or link of an instance for its head; `note` is -1 if there are none."""
    notes = bytes_at(T[table, NOTES], T[table, CAPACITY])
    if Z[Z_NOTING] == NOTE_MARKS:
        if is_selected and note >= 0:
            if Z[Z_ROLE] != LOSS:
                notes[row] |= np.uint8(note & MARKED)
            elif not note & GOES:
                notes[row] |= RETURNS
        return
    if Z[Z_ROLE] == LOSS:
        return
    if is_selected:
        relink(T, table, row, note)
    if Z[Z_ROLE] == ORIGIN:
        if is_selected:
            notes[row] |= SOLE
        else:
            notes[row] &= np.uint8(0xFF ^ SOLE)


@kernel("i64[:,:], i64, i64[:], bool[:], i64, i64, i64[:] -> i64")
def gather_linked(
    T: Any, table: Any, rows: Any, is_requested: Any, mask: Any, want: Any, gathered: Any
) -> Any:
    """Write the codes of facts of requested tables that the rows support and whose flags match.

    Returns their number; if that exceeds the room in `gathered`, some are not written.
    """
    count = 0
    first = int64_at(T[table, FIRST], T[table, CAPACITY])
    for supporting in rows:
        link = first[supporting]
        while link > 0:
            supported_table, row = (link - 1) >> 32, (link - 1) & LOWER
            flags = bytes_at(T[supported_table, FLAGS], T[supported_table, CAPACITY])
            if is_requested[supported_table] and (np.int64(flags[row]) & mask) == want:
                if count < len(gathered):
                    gathered[count] = link - 1
                count += 1
            link = int64_at(T[supported_table, NEXT], T[supported_table, CAPACITY])[row]
    return count


@kernel("i64[:,:], i64, i64[:], i64[:] -> i64")
def divide_sole(T: Any, table: Any, rows: Any, out: Any) -> Any:
    """Write SOLE rows to the beginning of `out`, others to its end; returns the number of SOLE rows."""
    notes = bytes_at(T[table, NOTES], T[table, CAPACITY])
    sole, end = 0, len(rows)
    for row in rows:
        if notes[row] & SOLE:
            out[sole] = row
            sole += 1
        else:
            end -= 1
            out[end] = row
    return sole
