"""Facts of many relations in one call: which stand, which rows they are, what their ids are.

A batch is groups of rows, one per relation: `tables` and `counts` say of which table, and how many. Ids lie
column after column, group after group. Mutates what it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, int32_at, kernel
from tidelog.engine.columnar.change_kernels import enter_row
from tidelog.engine.columnar.layout import (
    ALIVE,
    ARITY,
    CAPACITY,
    COLUMNS,
    EXPLICIT,
    FLAGS,
    ROWS,
    SLOT_LIMIT,
)
from tidelog.engine.columnar.storage.table_kernels import LOWER, find_row


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
