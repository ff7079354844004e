"""Kernels over tables and indexes: finding a row, inserting rows, indexing rows. Mutates what it is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, inlined, int32_at, int64_at, kernel, mix, prefetch, subroutine
from tidelog.engine.columnar.layout import (
    ALIVE,
    ARITY,
    CAPACITY,
    COLUMNS,
    DEAD,
    DENSE,
    EXPLICIT,
    FLAGS,
    FOUNDED,
    HIDDEN,
    RANK,
    ROWS,
    SEGMENT,
    SIDE,
    SLOT_COUNT,
    SLOT_LIMIT,
    SLOTS,
    TRUE,
    X_DIRECT,
    X_DONE,
    X_ENTRIES,
    X_ENTRY_CAPACITY,
    X_FILTERS,
    X_KEYS,
    X_LENGTH,
    X_LISTS,
    X_POOL,
    X_POOL_CAPACITY,
    X_POOL_TOP,
    X_ROOM,
    X_SHIFT,
    X_SLOT_COUNT,
    X_SLOTS,
    X_START,
    X_TABLE,
)

BLOCK = 256  # rows whose slots are fetched ahead
REPEATED = np.uint64(0xFFFFFFFFFFFFFFFF)  # no hash: those have 32 bits
UPPER = np.int64(-4294967296)
LOWER = np.int64(0xFFFFFFFF)
COLUMN_SEED = np.int64(0x1E3779B97F4A7C15)


@inlined
def pair_hash(first: Any, second: Any) -> Any:
    """The upper 32 bits of the hash of two ids."""
    return mix((np.int64(first) << 32) | np.int64(second)) >> np.uint64(32)


@inlined
def row_hash(T: Any, table: Any, row: Any, arity: Any, capacity: Any) -> Any:
    """The upper 32 bits of the hash of a stored row."""
    if arity == 1:
        return pair_hash(int32_at(T[table, COLUMNS], capacity)[row], 0)
    hashed = mix(
        (np.int64(int32_at(T[table, COLUMNS], capacity)[row]) << 32)
        | np.int64(int32_at(T[table, COLUMNS + 1], capacity)[row])
    )
    for column in range(2, arity):
        value = np.int64(int32_at(T[table, COLUMNS + column], capacity)[row])
        hashed = mix(np.int64(hashed) ^ (value * COLUMN_SEED))
    return hashed >> np.uint64(32)


@inlined
def key_hash(key: Any, arity: Any) -> Any:
    """The upper 32 bits of the hash of the ids in `key`."""
    if arity == 1:
        return pair_hash(key[0], 0)
    hashed = mix((key[0] << 32) | key[1])
    for column in range(2, arity):
        hashed = mix(np.int64(hashed) ^ (key[column] * COLUMN_SEED))
    return hashed >> np.uint64(32)


@inlined
def next_slot(position: Any, segment: Any) -> Any:
    """The slot to probe after this one; probing stays inside the segment."""
    return (position & ~segment) | ((position + 1) & segment)


@subroutine
def find_row(T: Any, table: Any, key: Any) -> Any:
    """The row that holds `key`, or -1, and its slot; the slot is -1 if a dense set is too small."""
    arity = T[table, ARITY]
    if T[table, DENSE] == 1:
        side = T[table, SIDE]
        position = np.int64(0)
        for column in range(arity):
            if key[column] >= side:
                return np.int64(-1), np.int64(-1)
            position = position * side + key[column]
        return np.int64(int32_at(T[table, SLOTS], T[table, SLOT_COUNT])[position]) - 1, position
    slots = int64_at(T[table, SLOTS], T[table, SLOT_COUNT])
    segment = T[table, SEGMENT]
    capacity = T[table, CAPACITY]
    hashed = key_hash(key, arity)
    tag = np.int64(hashed << np.uint64(32))
    position = np.int64(hashed >> np.uint64(T[table, SIDE]))
    while True:
        slot = slots[position]
        if slot == 0:
            return np.int64(-1), position
        if (slot & UPPER) == tag:
            row = (slot & LOWER) - 1
            same = True
            for column in range(arity):
                if np.int64(int32_at(T[table, COLUMNS + column], capacity)[row]) != key[column]:
                    same = False
                    break
            if same:
                return row, position
        position = next_slot(position, segment)


@subroutine
def write_row(T: Any, table: Any, key: Any, position: Any, row: Any, flags: Any) -> None:
    """Write a new row, and let the free slot at this position point to it."""
    arity = T[table, ARITY]
    capacity = T[table, CAPACITY]
    if T[table, DENSE] == 1:
        int32_at(T[table, SLOTS], T[table, SLOT_COUNT])[position] = row + 1
    else:
        tag = np.int64(key_hash(key, arity) << np.uint64(32))
        int64_at(T[table, SLOTS], T[table, SLOT_COUNT])[position] = tag | (row + 1)
    for column in range(arity):
        int32_at(T[table, COLUMNS + column], capacity)[row] = key[column]
    bytes_at(T[table, FLAGS], capacity)[row] = flags


@inlined
def enter_row(T: Any, table: Any, key: Any, position: Any) -> Any:
    """Write a new row without flags, that is no fact yet; returns its number."""
    row = T[table, ROWS]
    write_row(T, table, key, position, row, 0)
    for counter in (FOUNDED, HIDDEN, RANK):
        if T[table, counter] != 0:
            int32_at(T[table, counter], T[table, CAPACITY])[row] = 0
    T[table, ROWS] = row + 1
    T[table, DEAD] += 1
    return row


@kernel("const i32[:], i64, i32[:] -> i64")
def number_distinct(ids: Any, before: Any, rows: Any) -> Any:
    """Write the row of each id, from `before` on, up to the first that has one; return how many had none."""
    for index in range(len(ids)):
        if rows[ids[index]] != 0:
            return index
        rows[ids[index]] = before + index + 1
    return len(ids)


@kernel("i64[:,:], i64, const i32[:], i64, i64, i32[:], i32[:] -> i64, i64")
def select_new(T: Any, table: Any, source: Any, count: Any, key: Any, rows: Any, selected: Any) -> Any:
    """Select the given rows, column after column, that the table does not have; its columns are full.

    `rows` has the row, plus one, of each id that occurs in the key column. A row with such an id repeats that
    row, or the column is no key, and the search stops. Return how far it came, and how many are new.
    """
    before = T[table, ROWS]
    arity = T[table, ARITY]
    new = np.int64(0)
    for index in range(count):
        identity = source[key * count + index]
        row = np.int64(rows[identity]) - 1
        if row < 0:
            selected[new] = index
            new += 1
            rows[identity] = before + new
            continue
        for column in range(arity):
            if row < before:
                former = int32_at(T[table, COLUMNS + column], T[table, CAPACITY])[row]
            else:
                former = source[column * count + selected[row - before]]
            if former != source[column * count + index]:
                return index, new
    return count, new


@kernel("i64[:,:], i64, i32[:], i64, i64, i64, i64 -> i64")
def insert_rows(T: Any, table: Any, source: Any, count: Any, stride: Any, done: Any, flags: Any) -> Any:
    """Insert the rows `done`… of `source` (row after row, or column after column `stride` apart).

    Returns how many rows were taken; less than `count` means that the table must grow first.
    """
    arity = T[table, ARITY]
    if arity > 1 and T[table, DENSE] == 0:
        return insert_wide(T, table, source.ctypes.data, stride, count, done, flags)
    capacity = T[table, CAPACITY]
    limit = T[table, SLOT_LIMIT]
    flag = bytes_at(T[table, FLAGS], capacity)
    key = np.empty(max(arity, 2), np.int64)
    rows = T[table, ROWS]
    for index in range(done, count):
        if rows >= capacity or rows >= limit:
            T[table, ROWS] = rows
            return index
        for column in range(arity):
            key[column] = source[column * stride + index]
        row, position = find_row(T, table, key)
        if row >= 0:
            flag[row] |= flags
            continue
        if position < 0:
            T[table, ROWS] = rows
            return index
        write_row(T, table, key, position, rows, flags | TRUE)
        rows += 1
    T[table, ROWS] = rows
    return count


@kernel("i64[:,:], i64, i64, i64, i64, i64, i64, i64 -> i64")
def insert_hashed(
    T: Any, table: Any, address0: Any, address1: Any, address2: Any, count: Any, done: Any, flags: Any
) -> Any:
    """The same for a hashed table of up to three columns, given by the addresses of its columns.

    Rows are taken in blocks: first all hashes, while the slots they lead to are fetched, then the rows
    that the slots lead to are fetched, then they are compared.
    """
    arity = T[table, ARITY]
    capacity = T[table, CAPACITY]
    limit = min(T[table, SLOT_LIMIT], capacity)
    flag = bytes_at(T[table, FLAGS], capacity)
    slots = int64_at(T[table, SLOTS], T[table, SLOT_COUNT])
    slots_address = T[table, SLOTS]
    column0 = int32_at(T[table, COLUMNS], capacity)
    column1 = int32_at(T[table, COLUMNS + (1 if arity > 1 else 0)], capacity)
    column2 = int32_at(T[table, COLUMNS + (2 if arity > 2 else 0)], capacity)
    source0 = int32_at(address0, count)
    source1 = int32_at(address1, count)
    source2 = int32_at(address2, count)
    segment = T[table, SEGMENT]
    shift = np.uint64(T[table, SIDE])
    hashes = np.empty(BLOCK, np.uint64)
    rows = T[table, ROWS]
    start = done
    while start < count:
        end = min(start + BLOCK, count)
        for index in range(start, end):
            if (
                index > start
                and source0[index] == source0[index - 1]
                and (arity < 2 or source1[index] == source1[index - 1])
                and (arity < 3 or source2[index] == source2[index - 1])
            ):
                hashes[index - start] = REPEATED  # projections of clustered data repeat themselves
                continue
            second = np.int64(source1[index]) if arity > 1 else np.int64(0)
            hashed = mix((np.int64(source0[index]) << 32) | second)
            if arity > 2:
                hashed = mix(np.int64(hashed) ^ (np.int64(source2[index]) * COLUMN_SEED))
            hashed >>= np.uint64(32)
            hashes[index - start] = hashed
            prefetch(slots_address + 8 * np.int64(hashed >> shift))
        for place in range(end - start):
            if hashes[place] == REPEATED:
                continue
            slot = slots[np.int64(hashes[place] >> shift)]
            if slot != 0 and (slot & UPPER) == np.int64(hashes[place] << np.uint64(32)):
                row = (slot & LOWER) - 1
                prefetch(T[table, COLUMNS] + 4 * row)
                if arity > 1:
                    prefetch(T[table, COLUMNS + 1] + 4 * row)
                if arity > 2:
                    prefetch(T[table, COLUMNS + 2] + 4 * row)
        for index in range(start, end):
            if rows >= limit:
                T[table, ROWS] = rows
                return index
            hashed = hashes[index - start]
            if hashed == REPEATED:
                continue
            tag = np.int64(hashed << np.uint64(32))
            position = np.int64(hashed >> shift)
            while True:
                slot = slots[position]
                if slot == 0:
                    slots[position] = tag | (rows + 1)
                    column0[rows] = source0[index]
                    if arity > 1:
                        column1[rows] = source1[index]
                    if arity > 2:
                        column2[rows] = source2[index]
                    flag[rows] = flags | TRUE
                    rows += 1
                    break
                if (slot & UPPER) == tag:
                    row = (slot & LOWER) - 1
                    if (
                        column0[row] == source0[index]
                        and (arity < 2 or column1[row] == source1[index])
                        and (arity < 3 or column2[row] == source2[index])
                    ):
                        if flags != 0:
                            flag[row] |= flags
                        break
                position = next_slot(position, segment)
        start = end
    T[table, ROWS] = rows
    return count


@subroutine
def insert_wide(T: Any, table: Any, address: Any, stride: Any, count: Any, done: Any, flags: Any) -> Any:
    """The same for a hashed table of two or more columns, which lie at an address, `stride` rows apart."""
    arity = T[table, ARITY]
    capacity = T[table, CAPACITY]
    limit = min(T[table, SLOT_LIMIT], capacity)
    flag = bytes_at(T[table, FLAGS], capacity)
    slots = int64_at(T[table, SLOTS], T[table, SLOT_COUNT])
    segment = T[table, SEGMENT]
    shift = np.uint64(T[table, SIDE])
    hashes = np.empty(BLOCK, np.uint64)
    rows = T[table, ROWS]
    start = done
    while start < count:
        end = min(start + BLOCK, count)
        hash_block(arity, address, stride, start, end, hashes)
        for place in range(end - start):
            prefetch(T[table, SLOTS] + 8 * np.int64(hashes[place] >> shift))
        for place in range(end - start):
            slot = slots[np.int64(hashes[place] >> shift)]
            if slot != 0 and (slot & UPPER) == np.int64(hashes[place] << np.uint64(32)):
                for column in range(arity):
                    prefetch(T[table, COLUMNS + column] + 4 * ((slot & LOWER) - 1))
        for index in range(start, end):
            if rows >= limit:
                T[table, ROWS] = rows
                return index
            tag = np.int64(hashes[index - start] << np.uint64(32))
            position = np.int64(hashes[index - start] >> shift)
            slot = slots[position]
            while slot != 0:
                row = (slot & LOWER) - 1
                if (slot & UPPER) == tag and is_row(T, table, row, arity, address, stride, index, count):
                    if flags != 0:
                        flag[row] |= flags
                    break
                position = next_slot(position, segment)
                slot = slots[position]
            if slot == 0:
                slots[position] = tag | (rows + 1)
                for column in range(arity):
                    source = int32_at(address + 4 * stride * column, count)
                    int32_at(T[table, COLUMNS + column], capacity)[rows] = source[index]
                flag[rows] = flags | TRUE
                rows += 1
        start = end
    T[table, ROWS] = rows
    return count


@subroutine
def hash_block(arity: Any, address: Any, stride: Any, start: Any, end: Any, hashes: Any) -> None:
    """Write the upper 32 bits of the hashes of some rows."""
    first = int32_at(address, end)
    second = int32_at(address + 4 * stride, end)
    for index in range(start, end):
        hashes[index - start] = mix((np.int64(first[index]) << 32) | np.int64(second[index]))
    for column in range(2, arity):
        source = int32_at(address + 4 * stride * column, end)
        for index in range(start, end):
            hashed = np.int64(hashes[index - start])
            hashes[index - start] = mix(hashed ^ (np.int64(source[index]) * COLUMN_SEED))
    for place in range(end - start):
        hashes[place] >>= np.uint64(32)


@inlined
def is_row(
    T: Any, table: Any, row: Any, arity: Any, address: Any, stride: Any, index: Any, count: Any
) -> Any:
    """Whether a row of a table is the row with this index of columns at an address."""
    same = True
    for column in range(arity):
        source = int32_at(address + 4 * stride * column, count)
        if int32_at(T[table, COLUMNS + column], T[table, CAPACITY])[row] != source[index]:
            same = False
            break
    return same


@kernel("i64[:,:], i64, i32[:], i64, i64, i64[:]")
def find_rows(T: Any, table: Any, source: Any, count: Any, stride: Any, found: Any) -> None:
    """Write the number of the row equal to each row of `source` into `found`, or -1."""
    arity = T[table, ARITY]
    key = np.empty(max(arity, 2), np.int64)
    for index in range(count):
        for column in range(arity):
            key[column] = source[column * stride + index]
        found[index] = find_row(T, table, key)[0]


# ---- Facts of many relations in one call: the flags that they have, and their codes, which are the table's
# number in the upper half, the row's in the lower.
#
# A batch has a group of rows per relation: `groups` are the table and the number of rows of each, in pairs.
# Ids lie column after column, group after group. Mutates its arguments.


@kernel("i64[:,:], i64[:], i32[:] -> i64, i64")
def standing(T: Any, groups: Any, source: Any) -> Any:
    """Return the flags ALIVE and EXPLICIT that all rows have, and those that any has."""
    first = 0
    common, found = np.uint8(ALIVE | EXPLICIT), np.uint8(0)
    for group in range(0, len(groups), 2):
        table, count = groups[group], groups[group + 1]
        arity = T[table, ARITY]
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        key = np.empty(max(arity, 2), np.int64)
        for index in range(count):
            for column in range(arity):
                key[column] = source[first + column * count + index]
            row = find_row(T, table, key)[0]
            own = flags[row] & np.uint8(ALIVE | EXPLICIT) if row >= 0 else np.uint8(0)
            common &= own
            found |= own
        first += arity * count
    return np.int64(common), np.int64(found)


@kernel("i64[:,:], i64[:], i32[:], i64, bool, i64[:] -> i64, i64")
def find_or_enter(T: Any, groups: Any, source: Any, done: Any, create: Any, codes: Any) -> Any:
    """Write the codes of the rows from `done` on into `codes`, or -1.

    Returns the number of rows looked up, and how many are missing; if these are not all rows, the table of
    the next one must grow first.
    """
    first, rows_before, missing = 0, 0, 0
    for group in range(0, len(groups), 2):
        table, count = groups[group], groups[group + 1]
        arity = T[table, ARITY]
        key = np.empty(max(arity, 2), np.int64)
        for index in range(max(done - rows_before, 0), count):
            for column in range(arity):
                key[column] = source[first + column * count + index]
            row, position = find_row(T, table, key)
            if row < 0 and create:
                if position < 0 or T[table, ROWS] >= min(T[table, CAPACITY], T[table, SLOT_LIMIT]):
                    return rows_before + index, missing
                row = enter_row(T, table, key, position)
            missing += row < 0
            codes[rows_before + index] = (table << 32) | row if row >= 0 else -1
        first += arity * count
        rows_before += count
    return rows_before, missing


@kernel("i64[:], i64[:], i64, i64")
def move_slots(old: Any, new: Any, shift: Any, segment: Any) -> None:
    """Fill `new` from `old`; one sequential pass, since slots lie in the order of the upper hash bits."""
    for slot in old:
        if slot != 0:
            position = np.int64((np.uint64(slot) >> np.uint64(32)) >> np.uint64(shift))
            while new[position] != 0:
                position = next_slot(position, segment)
            new[position] = slot


@kernel("i64[:,:], i64, i64, i64")
def hash_rows(T: Any, table: Any, first: Any, last: Any) -> None:
    """Enter rows of a table into its hash slots, which have none of them, as when a set is made anew."""
    arity = T[table, ARITY]
    capacity = T[table, CAPACITY]
    slots = int64_at(T[table, SLOTS], T[table, SLOT_COUNT])
    segment = T[table, SEGMENT]
    for row in range(first, last):
        hashed = row_hash(T, table, row, arity, capacity)
        position = np.int64(hashed >> np.uint64(T[table, SIDE]))
        while slots[position] != 0:
            position = next_slot(position, segment)
        slots[position] = np.int64(hashed << np.uint64(32)) | (row + 1)


# ---- indexes


@inlined
def index_key_hash(T: Any, X: Any, index: Any, table: Any, row: Any, capacity: Any) -> Any:
    """The upper 32 bits of the hash of a row's key columns."""
    hashed = np.uint64(0)
    for number in range(X[index, X_KEYS]):
        column = X[index, X_LISTS + number]
        value = np.int64(int32_at(T[table, COLUMNS + column], capacity)[row])
        hashed = mix(np.int64(hashed) ^ (value * COLUMN_SEED))
    return hashed >> np.uint64(32)


@kernel("i64[:,:], i64[:,:], i64, i64, i64")
def build_direct(T: Any, X: Any, index: Any, listed: Any, count: Any) -> None:
    """Index rows by counting; the index is empty, direct, and has room for them.

    The rows are those at the address `listed`, or the first `count` rows of the table if that is 0.
    """
    table = X[index, X_TABLE]
    entries = X[index, X_ENTRY_CAPACITY]
    start = int64_at(X[index, X_START], entries)
    length = int32_at(X[index, X_LENGTH], entries)
    room = int32_at(X[index, X_ROOM], entries)
    pool = int32_at(X[index, X_POOL], X[index, X_POOL_CAPACITY])
    rows = int64_at(listed, count)
    key = int32_at(T[table, COLUMNS + X[index, X_LISTS]], T[table, CAPACITY])
    for place in range(count):
        room[key[rows[place] if listed != 0 else place]] += 1
    top = np.int64(0)
    for entry in range(entries):
        if room[entry] != 0:  # where nothing is written, no memory is touched
            start[entry] = top
            top += room[entry]
    for place in range(count):
        row = rows[place] if listed != 0 else place
        entry = key[row]
        pool[start[entry] + length[entry]] = row
        length[entry] += 1
    X[index, X_POOL_TOP] = top


@inlined
def same_key(T: Any, X: Any, index: Any, table: Any, left: Any, right: Any, capacity: Any) -> Any:
    """Whether two rows agree on the key columns."""
    for number in range(X[index, X_KEYS]):
        column = int32_at(T[table, COLUMNS + X[index, X_LISTS + number]], capacity)
        if column[left] != column[right]:
            return False
    return True


@inlined
def passes_filters(T: Any, X: Any, index: Any, table: Any, row: Any, capacity: Any) -> Any:
    """Whether a row belongs into a partial index."""
    first = X_LISTS + X[index, X_KEYS]
    for number in range(X[index, X_FILTERS]):
        wanted = X[index, first + 2 * number + 1]
        if wanted < 0:
            wanted = np.int64(int32_at(T[table, COLUMNS - 1 - wanted], capacity)[row])
        if np.int64(int32_at(T[table, COLUMNS + X[index, first + 2 * number]], capacity)[row]) != wanted:
            return False
    return True


@inlined
def leave_index(X: Any, index: Any, top: Any, used: Any, place: Any, listed: Any) -> Any:
    """Write down how far indexing has come."""
    X[index, X_POOL_TOP] = top
    X[index, X_ENTRIES] = used
    if listed == 0:
        X[index, X_DONE] = place
    return place


@kernel("i64[:,:], i64[:,:], i64, i64, i64, i64 -> i64")
def index_rows(T: Any, X: Any, index: Any, listed: Any, first: Any, count: Any) -> Any:
    """Index `count` rows from place `first` on; less than `count` means that the index must grow first.

    The places are those of the list at the address `listed`, whose rows pass the filters, or row numbers if
    that is 0. Returns the place reached.
    """
    table = X[index, X_TABLE]
    capacity = T[table, CAPACITY]
    entries = X[index, X_ENTRY_CAPACITY]
    start = int64_at(X[index, X_START], entries)
    length = int32_at(X[index, X_LENGTH], entries)
    room = int32_at(X[index, X_ROOM], entries)
    pool_capacity = X[index, X_POOL_CAPACITY]
    pool = int32_at(X[index, X_POOL], pool_capacity)
    top = X[index, X_POOL_TOP]
    keys = X[index, X_KEYS]
    rows = int64_at(listed, count)
    direct = X[index, X_DIRECT] == 1
    slot_count = X[index, X_SLOT_COUNT]
    slots = int64_at(X[index, X_SLOTS], slot_count)
    column = int32_at(T[table, COLUMNS + (X[index, X_LISTS] if keys > 0 else 0)], capacity)
    used = X[index, X_ENTRIES]
    for place in range(first, count):
        row = rows[place] if listed != 0 else place
        if listed == 0 and not passes_filters(T, X, index, table, row, capacity):
            continue
        if keys == 0:
            entry = np.int64(0)
        elif direct:
            entry = np.int64(column[row])
        else:
            hashed = index_key_hash(T, X, index, table, row, capacity)
            tag = np.int64(hashed << np.uint64(32))
            position = np.int64(hashed >> np.uint64(X[index, X_SHIFT]))
            entry = np.int64(-1)
            while slots[position] != 0:
                slot = slots[position]
                if (slot & UPPER) == tag:
                    candidate = (slot & LOWER) - 1
                    if same_key(T, X, index, table, np.int64(pool[start[candidate]]), row, capacity):
                        entry = candidate
                        break
                position = (position + 1) & (slot_count - 1)
            if entry < 0:
                entry = used
                # At most half full: probes stay short.
                if entry >= entries or 2 * entry >= slot_count or top + 1 > pool_capacity:
                    return leave_index(X, index, top, used, place, listed)
                slots[position] = tag | (entry + 1)
                start[entry] = top
                length[entry] = 0
                room[entry] = 1
                top += 1
                used += 1
        if entry >= entries:
            return leave_index(X, index, top, used, place, listed)
        taken = length[entry]
        if taken == room[entry]:
            more = 4 if taken == 0 else 2 * taken
            if top + more > pool_capacity:
                return leave_index(X, index, top, used, place, listed)
            origin = start[entry]
            for offset in range(taken):
                pool[top + offset] = pool[origin + offset]
            start[entry] = top
            room[entry] = more
            top += more
        pool[start[entry] + taken] = row
        length[entry] = taken + 1
    return leave_index(X, index, top, used, count, listed)
