"""Compiled rank counting: a whole update, all sections and rounds, in one call.

The readable form of the algorithm is `maintenance.counting.RankCounting`; tests compare the two. Here it is a
state machine, since a kernel must return and be called again whenever Python has to act: make room, compute
a function, check the clock. Its state is in Z.

A section is a stratum; its plans are in `entries`, family by family, section by section, from the positions
in `starts`. Mutates its arguments.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, inlined, int32_at, int64_at, kernel, subroutine
from tidelog.engine.columnar.interpreter.interpreter import run_plan
from tidelog.engine.columnar.layout import (
    ALIVE,
    APPLY,
    ASSEMBLE,
    BEFORE,
    CAPACITY,
    DELTA,
    DONE,
    EXPLICIT,
    FLAGS,
    FOUNDED,
    GROW_INDEX,
    GROW_LISTS,
    GROW_TABLE,
    HIDDEN,
    P_HEAD,
    PENDING,
    ROWS,
    X_DONE,
    X_TABLE,
    Z_CAME,
    Z_CAME_COUNT,
    Z_CLOCK,
    Z_COUNT,
    Z_CREATE,
    Z_DELETED,
    Z_FIRST,
    Z_JOURNAL,
    Z_JOURNAL_CAPACITY,
    Z_JOURNAL_COUNT,
    Z_LIST,
    Z_LIST_CAPACITY,
    Z_MASK,
    Z_NUMBER,
    Z_OUT,
    Z_OUT_CAPACITY,
    Z_OUT_COUNT,
    Z_PHASE,
    Z_PICKED,
    Z_PICKED_COUNT,
    Z_ROUND_END,
    Z_ROUND_FIRST,
    Z_RUNNING,
    Z_SECTION,
    Z_SET,
    Z_SETTLED,
    Z_SINK,
    Z_STEP,
    Z_UNFOUNDED,
    Z_WANT,
    Z_WENT,
    Z_WENT_COUNT,
    Z_WISH,
)
from tidelog.engine.columnar.storage.table_kernels import LOWER, index_rows
from tidelog.engine.columnar.transactions.change_kernels import (
    SETTLED,
    STANDING,
    counter_of,
    raise_rows,
    touch,
)

# ---- families of plans; what drives each
(
    LOST,  # deleted facts
    LOST_UNDER_NEGATION,  # inserted facts
    OVERDELETE,  # the round's facts
    GAINED,  # inserted facts
    GAINED_UNDER_NEGATION,  # deleted facts
    INSERT,  # the round's facts
    FAMILIES,
) = range(7)
# ---- an entry: where its plan's words begin, its pivot's table, where its indexes are listed, how many
E_PLAN, E_TABLE, E_INDEXES, E_INDEX_COUNT = range(4)
# ---- phases of a section
(
    RETRACT,
    LOSE,
    LOSE_UNDER_NEGATION,
    DOOM,
    PASS_ON_LOSS,
    BURY,
    RESEED,
    GAIN,
    GAIN_UNDER_NEGATION,
    RAISE,
    PASS_ON_GAIN,
    LAY_DOWN,
    SETTLE,
) = range(13)


@subroutine
def set_loss(Z: Any) -> None:
    """Heads lose an instance; those without a founded one left are found."""
    Z[Z_SINK] = APPLY
    Z[Z_MASK] = ALIVE | DELTA | PENDING
    Z[Z_WANT] = ALIVE
    Z[Z_SET] = PENDING
    Z[Z_CREATE] = 0
    Z[Z_STEP] = -1
    Z[Z_UNFOUNDED] = 1


@subroutine
def set_gain(Z: Any) -> None:
    """Heads win an instance; those that are not true are found."""
    Z[Z_SINK] = APPLY
    Z[Z_MASK] = ALIVE | PENDING
    Z[Z_WANT] = 0
    Z[Z_SET] = PENDING
    Z[Z_CREATE] = 1
    Z[Z_STEP] = 1
    Z[Z_UNFOUNDED] = 0


@subroutine
def find(table: Any, row: Any, flags: Any, Z: Any) -> None:
    """Mark a fact as PENDING and append it to the list of facts found."""
    flags[row] |= PENDING
    int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY])[Z[Z_OUT_COUNT]] = (table << 32) | row
    Z[Z_OUT_COUNT] += 1


@inlined
def is_counted(T: Any, table: Any, Z: Any) -> Any:
    """Whether a table's counters are kept; those of relations that no rule derives are not."""
    return Z[Z_SECTION] > 0 and T[table, FOUNDED] != 0


@subroutine
def retract(T: Any, section_of: Any, removed: Any, Z: Any) -> None:
    """The section's removed facts are no longer explicit; those without a founded instance are found."""
    for code in removed:
        table, row = code >> 32, code & LOWER
        if section_of[table] != Z[Z_SECTION]:
            continue
        touch(T, table, row, Z)
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        flags[row] &= np.uint8(0xFF ^ EXPLICIT)
        is_founded = False
        if is_counted(T, table, Z):
            founded = int32_at(T[table, FOUNDED], T[table, CAPACITY])
            founded[row] -= 1
            is_founded = founded[row] > 0
        if not is_founded and (flags[row] & (ALIVE | PENDING)) == ALIVE:
            find(table, row, flags, Z)


@subroutine
def reseed(T: Any, section_of: Any, added: Any, Z: Any) -> None:
    """List deleted facts that still have an instance, and the added facts of the section."""
    deleted = int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY])
    for place in range(Z[Z_DELETED]):
        table, row = deleted[place] >> 32, deleted[place] & LOWER
        if not is_counted(T, table, Z):
            continue
        if counter_of(T, table, FOUNDED, row) + counter_of(T, table, HIDDEN, row) > 0:
            find(table, row, bytes_at(T[table, FLAGS], T[table, CAPACITY]), Z)
    for code in added:
        table, row = code >> 32, code & LOWER
        if section_of[table] != Z[Z_SECTION]:
            continue
        touch(T, table, row, Z)
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        flags[row] |= EXPLICIT
        if is_counted(T, table, Z):
            int32_at(T[table, FOUNDED], T[table, CAPACITY])[row] += 1
        if (flags[row] & (ALIVE | PENDING)) == 0:
            find(table, row, flags, Z)


@subroutine
def mark_round(T: Any, set_flags: Any, clear_flags: Any, Z: Any) -> None:
    """Clear flags of the round's facts, then set flags; all are in the journal."""
    facts = int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY])
    for place in range(Z[Z_ROUND_FIRST], Z[Z_ROUND_END]):
        table, row = facts[place] >> 32, facts[place] & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        flags[row] = (flags[row] & np.uint8(0xFF ^ clear_flags)) | np.uint8(set_flags)


@subroutine
def raise_round(T: Any, Z: Any) -> None:
    """Make the round's facts true, with the highest rank."""
    facts = int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY])
    single_row = np.empty(1, np.int64)
    for place in range(Z[Z_ROUND_FIRST], Z[Z_ROUND_END]):
        single_row[0] = facts[place] & LOWER
        raise_rows(T, facts[place] >> 32, single_row, Z)
    mark_round(T, ALIVE | DELTA, PENDING, Z)


@subroutine
def pick(codes: Any, first: Any, end: Any, table: Any, Z: Any) -> None:
    """The rows of one table among facts become those that drive the next plan."""
    picked = int64_at(Z[Z_PICKED], Z[Z_LIST_CAPACITY])
    count = 0
    for place in range(first, end):
        if codes[place] >> 32 == table:
            picked[count] = codes[place] & LOWER
            count += 1
    Z[Z_PICKED_COUNT] = count


@subroutine
def catch_up(T: Any, X: Any, indexes: Any, first: Any, count: Any, Z: Any) -> Any:
    """Index all rows that the next plan may read; DONE, or GROW_INDEX."""
    for place in range(first, first + count):
        index = indexes[place]
        rows = T[X[index, X_TABLE], ROWS]
        if X[index, X_DONE] < rows:
            reached = index_rows(T, X, index, np.int64(0), X[index, X_DONE], rows)
            if reached < rows:
                Z[Z_WISH] = index
                return GROW_INDEX
    return DONE


@subroutine
def run_family(
    T: Any,
    X: Any,
    D: Any,
    words: Any,
    entries: Any,
    indexes: Any,
    begin: Any,
    end: Any,
    codes: Any,
    first: Any,
    last: Any,
    counts: Any,
    Z: Any,
) -> Any:
    """Run the plans of a family in a section over the given facts; return DONE, or a request to Python.

    `counts` has the number of given facts of each table; it is empty if that is unknown.
    """
    while begin + Z[Z_NUMBER] < end:
        number = begin + Z[Z_NUMBER]
        table = entries[number, E_TABLE]
        if Z[Z_RUNNING] == 0:
            if len(counts) > 0 and counts[table] == 0:
                Z[Z_NUMBER] += 1
                continue
            if last - first > Z[Z_LIST_CAPACITY]:
                return GROW_LISTS
            pick(codes, first, last, table, Z)
            if Z[Z_PICKED_COUNT] == 0:
                Z[Z_NUMBER] += 1
                continue
            if entries[number, E_PLAN] < 0:
                Z[Z_WISH] = number
                return ASSEMBLE
            wish = catch_up(T, X, indexes, entries[number, E_INDEXES], entries[number, E_INDEX_COUNT], Z)
            if wish != DONE:
                return wish
            Z[Z_LIST] = Z[Z_PICKED]
            Z[Z_FIRST] = 0
            Z[Z_COUNT] = Z[Z_PICKED_COUNT]
        wish = run_plan(T, X, D, words, entries[number, E_PLAN], Z)
        if wish != DONE:
            Z[Z_WISH] = words[entries[number, E_PLAN] + P_HEAD] if wish == GROW_TABLE else number
            return wish
        Z[Z_NUMBER] += 1
    Z[Z_NUMBER] = 0
    return DONE


@subroutine
def settle_section(T: Any, deleted_counts: Any, inserted_counts: Any, Z: Any) -> None:
    """Add the facts deleted and inserted in the section to the lists that later sections read."""
    journal = int64_at(Z[Z_JOURNAL], Z[Z_JOURNAL_CAPACITY])
    deleted = int64_at(Z[Z_WENT], Z[Z_LIST_CAPACITY])
    inserted = int64_at(Z[Z_CAME], Z[Z_LIST_CAPACITY])
    for place in range(Z[Z_SETTLED], Z[Z_JOURNAL_COUNT]):
        table, row = journal[place] >> 32, journal[place] & LOWER
        flags = bytes_at(T[table, FLAGS], T[table, CAPACITY])
        flags[row] &= SETTLED
        if (flags[row] & STANDING) == BEFORE:
            deleted[Z[Z_WENT_COUNT]] = journal[place]
            Z[Z_WENT_COUNT] += 1
            deleted_counts[table] += 1
        elif (flags[row] & STANDING) == ALIVE:
            inserted[Z[Z_CAME_COUNT]] = journal[place]
            Z[Z_CAME_COUNT] += 1
            inserted_counts[table] += 1
    Z[Z_SETTLED] = Z[Z_JOURNAL_COUNT]


@kernel("i64[:], i64[:], i64[:]")
def forget_counts(deleted_counts: Any, inserted_counts: Any, Z: Any) -> None:
    """Reset to 0 how many facts were deleted from and inserted into each table."""
    deleted = int64_at(Z[Z_WENT], Z[Z_LIST_CAPACITY])
    inserted = int64_at(Z[Z_CAME], Z[Z_LIST_CAPACITY])
    for place in range(Z[Z_WENT_COUNT]):
        deleted_counts[deleted[place] >> 32] = 0
    for place in range(Z[Z_CAME_COUNT]):
        inserted_counts[inserted[place] >> 32] = 0


@subroutine
def begin_section(removed: Any, Z: Any) -> Any:
    """Begin to lose; DONE, or GROW_LISTS."""
    if Z[Z_OUT_CAPACITY] < len(removed) or Z[Z_JOURNAL_COUNT] + len(removed) > Z[Z_JOURNAL_CAPACITY]:
        return GROW_LISTS
    Z[Z_OUT_COUNT] = 0
    Z[Z_ROUND_END] = 0
    set_loss(Z)
    return DONE


@subroutine
def begin_gaining(added: Any, Z: Any) -> Any:
    """Begin to gain, after all that was deleted; DONE, or GROW_LISTS."""
    if (
        Z[Z_OUT_COUNT] + Z[Z_DELETED] + len(added) > Z[Z_OUT_CAPACITY]
        or Z[Z_JOURNAL_COUNT] + len(added) > Z[Z_JOURNAL_CAPACITY]
    ):
        return GROW_LISTS
    set_gain(Z)
    Z[Z_ROUND_END] = Z[Z_DELETED]
    return DONE


@subroutine
def next_round(Z: Any) -> Any:
    """Start a round with the facts found since the last one; return whether there are any."""
    Z[Z_ROUND_FIRST] = Z[Z_ROUND_END]
    Z[Z_ROUND_END] = Z[Z_OUT_COUNT]
    return Z[Z_ROUND_FIRST] < Z[Z_ROUND_END]


@subroutine
def family_of(phase: Any) -> Any:
    """The plans that a phase runs, or -1."""
    if phase == LOSE:
        return LOST
    if phase == LOSE_UNDER_NEGATION:
        return LOST_UNDER_NEGATION
    if phase == PASS_ON_LOSS:
        return OVERDELETE
    if phase == GAIN:
        return GAINED
    if phase == GAIN_UNDER_NEGATION:
        return GAINED_UNDER_NEGATION
    return INSERT if phase == PASS_ON_GAIN else -1


@subroutine
def run_phase(T: Any, section_of: Any, removed: Any, added: Any, Z: Any) -> Any:
    """Run a phase without plans and advance to the next one; return DONE or GROW_LISTS."""
    phase = Z[Z_PHASE]
    wish = DONE
    following = phase + 1
    if phase == RETRACT:
        wish = begin_section(removed, Z)
        if wish == DONE and len(removed) > 0:
            retract(T, section_of, removed, Z)
    elif phase == DOOM:
        if next_round(Z):
            mark_round(T, DELTA, PENDING, Z)
        else:
            Z[Z_DELETED] = Z[Z_OUT_COUNT]
            following = RESEED
    elif phase == BURY:
        mark_round(T, 0, ALIVE | DELTA, Z)
        following = DOOM
    elif phase == RESEED:
        wish = begin_gaining(added, Z)
        if wish == DONE and Z[Z_DELETED] + len(added) > 0:
            reseed(T, section_of, added, Z)
    elif phase == RAISE:
        if next_round(Z):
            raise_round(T, Z)
        else:
            following = SETTLE
    else:
        mark_round(T, 0, DELTA, Z)
        Z[Z_CLOCK] += 1
        following = RAISE
    if wish == DONE:
        Z[Z_PHASE] = following
    return wish


@kernel(
    "i64[:,:], i64[:,:], i64[:], i64[:], i64[:,:], i64[:], i64[:,:], i64[:], i64[:], i64[:], i64, "
    "i64[:], i64[:], i64[:] -> i64"
)
def maintain(
    T: Any,
    X: Any,
    D: Any,
    words: Any,
    entries: Any,
    indexes: Any,
    starts: Any,
    section_of: Any,
    removed: Any,
    added: Any,
    last_section: Any,
    went_counts: Any,
    came_counts: Any,
    Z: Any,
) -> Any:
    """Apply an update up to the section before `last_section`; return DONE, or a request to Python."""
    while Z[Z_SECTION] < last_section:
        family = family_of(Z[Z_PHASE])
        if family >= 0:
            counts = went_counts[:0]  # how many facts of a round each table has is not counted
            codes, first, last = int64_at(Z[Z_OUT], Z[Z_OUT_CAPACITY]), Z[Z_ROUND_FIRST], Z[Z_ROUND_END]
            if family in (LOST, GAINED_UNDER_NEGATION):
                counts = went_counts
                codes, first, last = int64_at(Z[Z_WENT], Z[Z_LIST_CAPACITY]), 0, Z[Z_WENT_COUNT]
            elif family in (LOST_UNDER_NEGATION, GAINED):
                counts = came_counts
                codes, first, last = int64_at(Z[Z_CAME], Z[Z_LIST_CAPACITY]), 0, Z[Z_CAME_COUNT]
            begin, end = starts[family, Z[Z_SECTION]], starts[family, Z[Z_SECTION] + 1]
            wish = run_family(T, X, D, words, entries, indexes, begin, end, codes, first, last, counts, Z)
            Z[Z_PHASE] += wish == DONE
        elif Z[Z_PHASE] == SETTLE:
            wish = GROW_LISTS if Z[Z_JOURNAL_COUNT] > Z[Z_LIST_CAPACITY] else DONE
            if wish == DONE:
                settle_section(T, went_counts, came_counts, Z)
                Z[Z_SECTION] += 1
                Z[Z_PHASE] = RETRACT
        else:
            wish = run_phase(T, section_of, removed, added, Z)
        if wish != DONE:
            return wish
    return DONE
