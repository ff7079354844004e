"""The plan interpreter: one compiled function runs a whole plan, batch by batch.

A plan is a chain of steps. Step 0 scans rows; each later step reads the batch of the step before it and
fills its own, depth first, so that memory is bounded by (steps x batch). The function returns whenever
Python must act (grow a table, compute a function, look at the clock) and is then called again: all its
state is in Z.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import int32_at, kernel, subroutine
from tidelog.engine.columnar.change_kernels import apply_heads, note_support
from tidelog.engine.columnar.dictionary_kernels import FULL
from tidelog.engine.columnar.interpreter.expression_kernels import evaluate_batch
from tidelog.engine.columnar.interpreter.head_kernels import column_address, emit_heads, insert_heads
from tidelog.engine.columnar.layout import (
    ABSENT,
    ABSENT_INDEX,
    APPLY,
    CAPACITY,
    COLUMNS,
    DONE,
    EMIT,
    EVALUATE,
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
    P_HEAD,
    P_OFFSETS,
    P_STEPS,
    PAUSE,
    PROBE,
    RANK,
    S_EXPRESSION,
    S_KEYS,
    S_KIND,
    S_LISTS,
    S_MASK,
    S_OUTPUTS,
    S_TABLE,
    SCAN,
    SELECT,
    UNIT,
    Z_BATCH,
    Z_BUDGET,
    Z_COUNT,
    Z_ENTRY,
    Z_EVALUATED,
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
from tidelog.engine.columnar.matching import probe, scan, scan_listed, test_membership
from tidelog.engine.columnar.transactions.mark_kernels import marks_of


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
        Z[Z_BUDGET] -= filled + batch
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
