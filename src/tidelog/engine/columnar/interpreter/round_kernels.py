"""A round in one call: plan after plan, each over what is new of the table that drives it; or many rounds.

Called from Python, a plan over a row or two costs ten times what it does. Mutates what it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import inlined, int32_at, int64_at, kernel, subroutine
from tidelog.engine.columnar.interpreter.interpreter import passes_checks, run_plan
from tidelog.engine.columnar.layout import (
    ARITY,
    CAPACITY,
    COLUMNS,
    CURRENT_END,
    DEAD,
    DENSE,
    DONE,
    FLUSH,
    GROW_INDEX,
    INSERT,
    LEAVE,
    OLD_END,
    P_OFFSETS,
    PAUSE,
    ROWS,
    S_KEYS,
    S_KIND,
    SCAN,
    SIDE,
    SLOT_COUNT,
    SLOTS,
    X_DONE,
    X_TABLE,
    Z_BUDGET,
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
E_PLAN, E_TABLE, E_WIDTH, E_INDEXES, E_INDEX_COUNT, E_WORDS = range(6)

# ---- a watch: Python must run a round when an id is new in a column of a table, or anything if that is -1
W_TABLE, W_COLUMN, W_IDENTITY, W_WORDS = range(4)

# ---- what is recorded of a run that has found something: its round and entry, what it did, what it has cost
(
    R_ROUND,
    R_ENTRY,
    R_MATCHES,
    R_NEW,
    R_NO_VALUE,
    R_WORK,  # as the budget counts it
    R_SERVED,  # nanoseconds that Python has worked for it
    R_WORDS,
) = range(8)

# ---- many rounds: where they stand
(
    L_ROUND,  # the number of the round …
    L_IS_BEGUN,  # … and whether it has begun
    L_ENDED,  # how many rounds' ends are recorded
    L_RAN,  # how many runs are recorded
    L_MANY,  # the number of new rows from which Python must run a round
    L_ROOM,  # how many rows may be found before Python must check the limits
    L_WORK,  # what all runs have cost, recorded or not
    L_RUN_WORK,  # what the present run has cost
    L_SERVED,
    L_WORDS,
) = range(10)


@kernel("i64[:,:], i64[:,:], i64[:], i64[:], i64[:,:], i64[:], i64[:], i64[:] -> i64")
def run_round(T: Any, X: Any, D: Any, words: Any, entries: Any, indexes: Any, news: Any, Z: Any) -> Any:
    """Run the plans of all entries from Z_NUMBER on, until they are DONE or Python must act.

    `news` holds how many facts each has found that were not there. To go on, call it again.
    """
    while Z[Z_NUMBER] < len(entries):
        number = Z[Z_NUMBER]
        wish = run_entry(T, X, D, words, entries, indexes, number, Z)
        if wish != DONE:
            return wish
        news[number] = Z[Z_NEW]
        Z[Z_NUMBER] = number + 1
    return DONE


@subroutine
def run_entry(T: Any, X: Any, D: Any, words: Any, entries: Any, indexes: Any, number: Any, Z: Any) -> Any:
    """Run the plan of an entry over what is new of its table; DONE, or what Python must do."""
    plan = entries[number, E_PLAN]
    if Z[Z_RUNNING] == 0:
        table = entries[number, E_TABLE]
        first, end = T[table, OLD_END], T[table, CURRENT_END]
        begin_plan(entries[number, E_WIDTH], first, end - first, Z)
        if first == end:
            return DONE
        if is_behind(T, X, entries, indexes, number):
            if is_idle(T, words, plan, table, first, end):
                return DONE
            if index_visible(T, X, entries, indexes, number, Z) != DONE:
                return GROW_INDEX
    return run_plan(T, X, D, words, plan, Z)


@inlined
def is_behind(T: Any, X: Any, entries: Any, indexes: Any, number: Any) -> Any:
    """Whether an index that a plan reads lacks visible rows."""
    listed = entries[number, E_INDEXES]
    for place in range(listed, listed + entries[number, E_INDEX_COUNT]):
        if X[indexes[place], X_DONE] < T[X[indexes[place], X_TABLE], CURRENT_END]:
            return True
    return False


@subroutine
def is_idle(T: Any, words: Any, plan: Any, table: Any, first: Any, end: Any) -> Any:
    """Whether none of the rows to scan passes the checks of the first step: its indexes need not follow."""
    step = plan + words[plan + P_OFFSETS]
    if words[step + S_KIND] != SCAN or words[step + S_KEYS] == 0:
        return False
    for row in range(first, end):  # noqa: SIM110 - a kernel
        if passes_checks(T, words, step, table, row):
            return False
    return True


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


# ---- many rounds


@kernel(
    "i64[:,:], i64[:,:], i64[:], i64[:], i64[:,:], i64[:], i64[:,:], i64[:,:], i64[:,:], i64[:,:], "
    "i64[:], i64[:] -> i64"
)
def run_rounds(
    T: Any,
    X: Any,
    D: Any,
    words: Any,
    entries: Any,
    indexes: Any,
    tables: Any,
    watches: Any,
    runs: Any,
    ends: Any,
    L: Any,
    Z: Any,
) -> Any:
    """Run rounds of all entries until nothing is new of the tables; DONE, or what Python must do.

    The tables are listed with the number of facts up to which plans fit. `runs` and `ends` are recorded,
    unless they have no room at all: what runs have found, and the rows of each table after each round. FLUSH
    is returned when they are full, LEAVE before a round that Python must run. To go on, call it again.
    """
    while True:
        if L[L_IS_BEGUN] == 0:
            if must_leave(T, tables, watches, L[L_MANY]):
                return LEAVE
            L[L_IS_BEGUN] = 1
            Z[Z_NUMBER] = 0
        while Z[Z_NUMBER] < len(entries):
            if len(runs) > 0 and L[L_RAN] == len(runs):
                return FLUSH
            budget = Z[Z_BUDGET]
            wish = run_entry(T, X, D, words, entries, indexes, Z[Z_NUMBER], Z)
            L[L_RUN_WORK] += budget - Z[Z_BUDGET]
            if wish != DONE:
                return wish
            if len(runs) > 0:
                record_run(runs, L, Z)
            Z[Z_NUMBER] += 1
            L[L_ROOM] -= Z[Z_NEW]
            if L[L_ROOM] < 0:
                return PAUSE
        if len(ends) > 0 and L[L_ENDED] == len(ends):
            return FLUSH
        is_new = end_round(T, tables, ends, L)
        L[L_IS_BEGUN] = 0
        if not is_new:
            return DONE


@subroutine
def must_leave(T: Any, tables: Any, watches: Any, many: Any) -> Any:
    """Whether Python must run a round: it has many new rows, or a plan is to be made for it."""
    new = np.int64(0)
    for place in range(len(tables)):
        table = tables[place, 0]
        if T[table, ROWS] - T[table, DEAD] > tables[place, 1]:
            return True
        new += T[table, CURRENT_END] - T[table, OLD_END]
    if new >= many:
        return True
    for place in range(len(watches)):
        table = watches[place, W_TABLE]
        first, end = T[table, OLD_END], T[table, CURRENT_END]
        if first < end:
            if watches[place, W_COLUMN] < 0:
                return True
            ids = int32_at(T[table, COLUMNS + watches[place, W_COLUMN]], T[table, CAPACITY])
            for row in range(first, end):
                if ids[row] == watches[place, W_IDENTITY]:
                    return True
    return False


@subroutine
def record_run(runs: Any, L: Any, Z: Any) -> None:
    """Record what the plan at Z_NUMBER has done, if it has found anything; there is room for it."""
    L[L_WORK] += L[L_RUN_WORK]
    if Z[Z_MATCHES] > 0 or Z[Z_NO_VALUE] > 0:
        run = runs[L[L_RAN]]
        run[R_ROUND] = L[L_ROUND]
        run[R_ENTRY] = Z[Z_NUMBER]
        run[R_MATCHES] = Z[Z_MATCHES]
        run[R_NEW] = Z[Z_NEW]
        run[R_NO_VALUE] = Z[Z_NO_VALUE]
        run[R_WORK] = L[L_RUN_WORK]
        run[R_SERVED] = L[L_SERVED]
        L[L_RAN] += 1
    L[L_RUN_WORK] = 0
    L[L_SERVED] = 0


@subroutine
def end_round(T: Any, tables: Any, ends: Any, L: Any) -> Any:
    """End a round: rows added to the tables since the last one are now new. Return whether any are."""
    is_new = False
    for place in range(len(tables)):
        table = tables[place, 0]
        T[table, OLD_END] = T[table, CURRENT_END]
        T[table, CURRENT_END] = T[table, ROWS]
        is_new |= T[table, OLD_END] < T[table, CURRENT_END]
        if len(ends) > 0:
            ends[L[L_ENDED], place] = T[table, ROWS]
    L[L_ENDED] += 1
    L[L_ROUND] += 1
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
