"""What a plan derives goes into its table: inserted by one thread, or handed to their owners by several.

With several threads, every row belongs to one of them, by segment of the hash slots or by the first id of a
dense set. A thread writes into its own blocks of rows; the gaps that are left are closed at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, inlined, int32_at, int64_at, kernel, subroutine
from tidelog.engine.columnar.layout import (
    ARITY,
    CAPACITY,
    COLUMNS,
    DENSE,
    DONE,
    FLAGS,
    FLUSH,
    GROW_TABLE,
    ROWS,
    SIDE,
    SLOT_COUNT,
    SLOT_LIMIT,
    SLOTS,
    TRUE,
    Z_BASE,
    Z_BATCH,
    Z_BLOCK,
    Z_BUFFER,
    Z_EMIT,
    Z_EMIT_CAPACITY,
    Z_EMITTED,
    Z_MATCHES,
    Z_NEW,
    Z_NEXT,
    Z_OWN,
    Z_PARTS,
    Z_WIDTH,
)
from tidelog.engine.columnar.storage.table_kernels import (
    UPPER,
    find_row,
    insert_hashed,
    insert_wide,
    key_hash,
    write_row,
)


@inlined
def column_address(Z: Any, level: Any, column: Any) -> Any:
    """The address of a column of a level's batch."""
    return Z[Z_BUFFER] + 4 * (level * Z[Z_WIDTH] + column) * Z[Z_BATCH]


@subroutine
def insert_heads(T: Any, table: Any, level: Any, count: Any, Z: Any) -> Any:
    """Insert a batch of head rows; returns DONE or GROW_TABLE, in which case nothing was inserted."""
    rows = T[table, ROWS]
    capacity = T[table, CAPACITY]
    if rows + count > capacity or rows + count > T[table, SLOT_LIMIT]:
        return GROW_TABLE
    arity = T[table, ARITY]
    batch = Z[Z_BATCH]
    flags = bytes_at(T[table, FLAGS], capacity)
    before = rows
    if arity <= 2 and arity > 0 and T[table, DENSE] == 1:
        side = T[table, SIDE]
        first = int32_at(column_address(Z, level, 0), batch)
        second = int32_at(column_address(Z, level, arity - 1), batch)
        for offset in range(count):
            if first[offset] >= side or second[offset] >= side:
                return GROW_TABLE
        column0 = int32_at(T[table, COLUMNS], capacity)
        column1 = int32_at(T[table, COLUMNS + arity - 1], capacity)
        dense = int32_at(T[table, SLOTS], T[table, SLOT_COUNT])
        wide = np.int64(side if arity == 2 else 0)
        for offset in range(count):
            position = np.int64(first[offset]) * wide + np.int64(second[offset])
            if dense[position] == 0:
                dense[position] = rows + 1
                column0[rows] = first[offset]
                column1[rows] = second[offset]
                flags[rows] = TRUE
                rows += 1
        T[table, ROWS] = rows
    elif arity <= 3 and arity > 0:
        insert_hashed(
            T,
            table,
            column_address(Z, level, 0),
            column_address(Z, level, 1 if arity > 1 else 0),
            column_address(Z, level, 2 if arity > 2 else 0),
            count,
            np.int64(0),
            np.int64(0),
        )
        rows = T[table, ROWS]
    elif arity > 0 and T[table, DENSE] == 0:
        insert_wide(T, table, column_address(Z, level, 0), batch, count, np.int64(0), np.int64(0))
        rows = T[table, ROWS]
    else:
        key = np.empty(max(arity, 2), np.int64)
        if T[table, DENSE] == 1:
            for column in range(arity):
                ids = int32_at(column_address(Z, level, column), batch)
                for offset in range(count):
                    if ids[offset] >= T[table, SIDE]:
                        return GROW_TABLE
        for offset in range(count):
            for column in range(arity):
                key[column] = int32_at(column_address(Z, level, column), batch)[offset]
            row, position = find_row(T, table, key)
            if row < 0:
                write_row(T, table, key, position, rows, TRUE)
                rows += 1
    T[table, ROWS] = rows
    Z[Z_MATCHES] += count
    Z[Z_NEW] += rows - before
    return DONE


@subroutine
def append_heads(T: Any, table: Any, level: Any, count: Any, Z: Any) -> Any:
    """Append a batch of head rows to a table without a set of rows, which has none of them.

    Return DONE, or GROW_TABLE, in which case nothing was appended.
    """
    rows = T[table, ROWS]
    capacity = T[table, CAPACITY]
    if rows + count > capacity:
        return GROW_TABLE
    for column in range(T[table, ARITY]):
        source = int32_at(column_address(Z, level, column), Z[Z_BATCH])
        target = int32_at(T[table, COLUMNS + column], capacity)
        for offset in range(count):
            target[rows + offset] = source[offset]
    flags = bytes_at(T[table, FLAGS], capacity)
    for offset in range(count):
        flags[rows + offset] = TRUE
    T[table, ROWS] = rows + count
    Z[Z_MATCHES] += count
    Z[Z_NEW] += count
    return DONE


@inlined
def owner(T: Any, table: Any, key: Any, arity: Any, parts: Any) -> Any:
    """The partition that owns a row: by segments of the hash slots, or by the first id of a dense set."""
    if T[table, DENSE] == 1:
        return ((key[0] & 15) * parts) >> 4
    return (np.int64(key_hash(key, arity) >> np.uint64(28)) * parts) >> 4


@subroutine
def emit_heads(T: Any, table: Any, level: Any, count: Any, Z: Any) -> Any:
    """Insert the head rows of a batch that this thread owns, and keep the others for their owners.

    FLUSH, with nothing done, when a buffer may be full or the table has no room for so many rows. Nobody
    sees the new rows before the round ends: plans only look at rows below its beginning.
    """
    arity = T[table, ARITY]
    batch = Z[Z_BATCH]
    parts = Z[Z_PARTS]
    capacity = Z[Z_EMIT_CAPACITY]
    emitted = int64_at(Z[Z_EMITTED], parts)
    block = Z[Z_BLOCK]
    row = Z[Z_NEXT]
    if row + (count // block + 2) * block * parts > min(T[table, CAPACITY], T[table, SLOT_LIMIT]):
        return FLUSH
    for part in range(parts):
        if emitted[part] + count > capacity:
            return FLUSH
    own = Z[Z_OWN]
    jump = (parts - 1) * block
    left_in_block = block - (row - Z[Z_BASE]) % block
    rows = int32_at(Z[Z_EMIT], parts * capacity * arity)
    if arity == 2 and T[table, DENSE] == 1:
        first = int32_at(column_address(Z, level, 0), batch)
        second = int32_at(column_address(Z, level, 1), batch)
        side = T[table, SIDE]
        dense = int32_at(T[table, SLOTS], T[table, SLOT_COUNT])
        column0 = int32_at(T[table, COLUMNS], T[table, CAPACITY])
        column1 = int32_at(T[table, COLUMNS + 1], T[table, CAPACITY])
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        for offset in range(count):
            part = ((np.int64(first[offset]) & 15) * parts) >> 4
            if part != own:
                place = (part * capacity + emitted[part]) * 2
                rows[place] = first[offset]
                rows[place + 1] = second[offset]
                emitted[part] += 1
                continue
            position = np.int64(first[offset]) * side + np.int64(second[offset])
            if dense[position] == 0:
                dense[position] = row + 1
                column0[row] = first[offset]
                column1[row] = second[offset]
                flags[row] = TRUE
                row += 1
                left_in_block -= 1
                if left_in_block == 0:
                    row += jump
                    left_in_block = block
    else:
        key = np.empty(max(arity, 2), np.int64)
        for offset in range(count):
            for column in range(arity):
                key[column] = int32_at(column_address(Z, level, column), batch)[offset]
            part = owner(T, table, key, arity, parts)
            if part != own:
                place = (part * capacity + emitted[part]) * arity
                for column in range(arity):
                    rows[place + column] = key[column]
                emitted[part] += 1
                continue
            found, position = find_row(T, table, key)
            if found < 0:
                write_row(T, table, key, position, row, TRUE)
                row += 1
                left_in_block -= 1
                if left_in_block == 0:
                    row += jump
                    left_in_block = block
    Z[Z_NEXT] = row
    Z[Z_MATCHES] += count
    return DONE


@kernel("i64[:,:], i64, i64, i64, i64, i64, i64, i64 -> i64")
def insert_emitted(
    T: Any, table: Any, address: Any, count: Any, base: Any, row: Any, block: Any, parts: Any
) -> Any:
    """Insert the rows that one thread owns; returns the next row it may write.

    A thread writes into its own blocks of rows, every `parts`-th, so that threads never meet.
    """
    arity = T[table, ARITY]
    capacity = T[table, CAPACITY]
    source = int32_at(address, count * arity)
    flags = bytes_at(T[table, FLAGS], capacity)
    jump = (parts - 1) * block
    if arity == 2 and T[table, DENSE] == 1:
        side = T[table, SIDE]
        dense = int32_at(T[table, SLOTS], T[table, SLOT_COUNT])
        column0 = int32_at(T[table, COLUMNS], capacity)
        column1 = int32_at(T[table, COLUMNS + 1], capacity)
        left_in_block = block - (row - base) % block
        for offset in range(count):
            position = np.int64(source[2 * offset]) * side + np.int64(source[2 * offset + 1])
            if dense[position] == 0:
                dense[position] = row + 1
                column0[row] = source[2 * offset]
                column1[row] = source[2 * offset + 1]
                flags[row] = TRUE
                row += 1
                left_in_block -= 1
                if left_in_block == 0:
                    row += jump
                    left_in_block = block
        return row
    key = np.empty(max(arity, 2), np.int64)
    for offset in range(count):
        for column in range(arity):
            key[column] = source[arity * offset + column]
        found, position = find_row(T, table, key)
        if found < 0:
            write_row(T, table, key, position, row, TRUE)
            row += 1
            if (row - base) % block == 0:
                row += jump
    return row


@subroutine
def move_row(T: Any, table: Any, origin: Any, target: Any) -> None:
    """Move a row into a free place and let its slot point there."""
    arity = T[table, ARITY]
    capacity = T[table, CAPACITY]
    key = np.empty(max(arity, 2), np.int64)
    for column in range(arity):
        ids = int32_at(T[table, COLUMNS + column], capacity)
        key[column] = ids[origin]
        ids[target] = ids[origin]
    flags = bytes_at(T[table, FLAGS], capacity)
    flags[target] = flags[origin]
    position = find_row(T, table, key)[1]
    if T[table, DENSE] == 1:
        int32_at(T[table, SLOTS], T[table, SLOT_COUNT])[position] = target + 1
    else:
        slots = int64_at(T[table, SLOTS], T[table, SLOT_COUNT])
        slots[position] = (slots[position] & UPPER) | (target + 1)


@kernel("i64[:,:], i64, i64, i64[:], i64")
def close_gaps(T: Any, table: Any, base: Any, nexts: Any, block: Any) -> None:
    """Make the rows dense again after threads have written into their own blocks.

    `nexts` holds each thread's next row. Rows beyond the true end move into the gaps below it.
    """
    parts = len(nexts)
    total = base
    for part in range(parts):
        written = nexts[part] - base
        total += (written // block - part) // parts * block + written % block
    taker = np.int64(0)  # the thread whose gap is filled next
    gap = nexts[0]
    for part in range(parts):
        # This thread's rows at or beyond the end: walk its blocks from the one that holds the end.
        row = base + part * block
        while row < nexts[part]:
            last = min(row + block, nexts[part])
            for origin in range(max(row, total), last):
                while taker < parts and gap >= total:
                    taker += 1
                    if taker < parts:
                        gap = nexts[taker]
                move_row(T, table, origin, gap)
                gap += 1
                if (gap - base) % block == 0:
                    gap += (parts - 1) * block
            row += parts * block
    T[table, ROWS] = total
