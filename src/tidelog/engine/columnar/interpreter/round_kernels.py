"""A round in one call: plan after plan, each over what is new of the table that drives it; or all rounds.

Called from Python, a plan over a row or two costs ten times what it does. Mutates what it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import int32_at, int64_at, kernel, subroutine
from tidelog.engine.columnar.interpreter.interpreter import run_plan
from tidelog.engine.columnar.layout import (
    ARITY,
    CAPACITY,
    COLUMNS,
    CURRENT_END,
    DEAD,
    DENSE,
    DONE,
    GROW_INDEX,
    INSERT,
    OLD_END,
    ROWS,
    SIDE,
    SLOT_COUNT,
    SLOTS,
    X_DONE,
    X_TABLE,
    Z_COUNT,
    Z_FIRST,
    Z_LIST,
    Z_MATCHES,
    Z_NEW,
    Z_NO_VALUE,
    Z_NUMBER,
    Z_RUNNING,
    Z_SINK,
    Z_WIDTH,
    Z_WISH,
)
from tidelog.engine.columnar.storage.table_kernels import index_rows

# ---- an entry: where its plan's words begin, its pivot's table, its width, its indexes: where they are
# listed, and how many they are
E_PLAN, E_TABLE, E_WIDTH, E_INDEXES, E_INDEX_COUNT = range(5)


@kernel("i64[:,:], i64[:,:], i64[:], i64[:], i64[:,:], i64[:], i64[:], i64[:] -> i64")
def run_round(T: Any, X: Any, D: Any, words: Any, entries: Any, indexes: Any, news: Any, Z: Any) -> Any:
    """Run the plans of all entries from Z_NUMBER on, until they are DONE or Python must act.

    `news` holds how many facts each has found that were not there. To go on, call it again.
    """
    while Z[Z_NUMBER] < len(entries):
        number = Z[Z_NUMBER]
        table = entries[number, E_TABLE]
        first, end = T[table, OLD_END], T[table, CURRENT_END]
        if first < end:
            if Z[Z_RUNNING] == 0:
                if index_visible(T, X, entries, indexes, number, Z) != DONE:
                    return GROW_INDEX
                begin_plan(entries[number, E_WIDTH], first, end - first, Z)
            wish = run_plan(T, X, D, words, entries[number, E_PLAN], Z)
            if wish != DONE:
                return wish
            news[number] = Z[Z_NEW]
        Z[Z_NUMBER] = number + 1
    return DONE


@subroutine
def index_visible(T: Any, X: Any, entries: Any, indexes: Any, number: Any, Z: Any) -> Any:
    """Index all visible rows that a plan may read; DONE, or GROW_INDEX."""
    listed = entries[number, E_INDEXES]
    for place in range(listed, listed + entries[number, E_INDEX_COUNT]):
        index = indexes[place]
        end = T[X[index, X_TABLE], CURRENT_END]
        if X[index, X_DONE] < end and index_rows(T, X, index, np.int64(0), X[index, X_DONE], end) < end:
            Z[Z_WISH] = index
            return GROW_INDEX
    return DONE


@subroutine
def begin_plan(width: Any, first: Any, count: Any, Z: Any) -> None:
    """Prepare the next plan to read `count` rows from `first` on, and to insert its results."""
    Z[Z_WIDTH] = width
    Z[Z_FIRST] = first
    Z[Z_COUNT] = count
    Z[Z_SINK] = INSERT
    Z[Z_LIST] = 0
    Z[Z_MATCHES] = 0
    Z[Z_NEW] = 0
    Z[Z_NO_VALUE] = 0


@kernel("i64[:,:], i64[:,:], i64[:], i64[:], i64[:,:], i64[:], i64[:], i64[:], i64[:] -> i64")
def run_rounds(
    T: Any, X: Any, D: Any, words: Any, entries: Any, indexes: Any, tables: Any, news: Any, Z: Any
) -> Any:
    """End a round of the tables and run the next one, until nothing is new; DONE, or what Python must do.

    To begin with, Z_NUMBER is the number of entries: the first round is over. To go on, call it again.
    """
    while True:
        wish = run_round(T, X, D, words, entries, indexes, news, Z)
        if wish != DONE:
            return wish
        if not end_round(T, tables):
            return DONE
        Z[Z_NUMBER] = 0


@subroutine
def end_round(T: Any, tables: Any) -> Any:
    """End a round: rows added to the tables since the last one are now new. Return whether any are."""
    is_new = False
    for table in tables:
        T[table, OLD_END] = T[table, CURRENT_END]
        T[table, CURRENT_END] = T[table, ROWS]
        is_new |= T[table, OLD_END] < T[table, CURRENT_END]
    return is_new


@kernel("i64[:,:], i64[:]")
def clear_tables(T: Any, tables: Any) -> None:
    """Forget all rows of the tables; what indexes there are of them must be made anew."""
    for table in tables:
        if T[table, DENSE] == 1:
            clear_dense(T, table)
        elif T[table, ROWS] > 0:
            slots = int64_at(T[table, SLOTS], T[table, SLOT_COUNT])
            for place in range(T[table, SLOT_COUNT]):
                slots[place] = 0
        for word in (ROWS, OLD_END, CURRENT_END, DEAD):
            T[table, word] = 0


@subroutine
def clear_dense(T: Any, table: Any) -> None:
    """Clear a direct set row by row, since most of it may never have been touched."""
    slots = int32_at(T[table, SLOTS], T[table, SLOT_COUNT])
    capacity = T[table, CAPACITY]
    for row in range(T[table, ROWS]):
        position = np.int64(0)
        for column in range(T[table, ARITY]):
            held = int32_at(T[table, COLUMNS + column], capacity)
            position = position * T[table, SIDE] + held[row]
        slots[position] = 0
