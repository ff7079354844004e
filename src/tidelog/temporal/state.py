"""What holds when, as arrays: taken out of one reasoner, and put into another that is empty.

Between transactions only. The facts of a table keep their numbers, those that hold at no time included; how
lists lie in their pool is left out.

Invariant: a reasoner with a reinstated state and the one it was taken from hold the same facts, under the
same numbers, at the same times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tidelog.logic.intervals import Interval
from tidelog.logic.program import Program
from tidelog.temporal.advancing import Past
from tidelog.temporal.lists import Integers, Lists, Timeline
from tidelog.temporal.outcome import Outcome
from tidelog.temporal.periodic import Periodic
from tidelog.temporal.periods import Periods
from tidelog.temporal.reasoning import Temporal, TimeSettings
from tidelog.temporal.rows import Ids
from tidelog.temporal.table import TimedTable


@dataclass(frozen=True, slots=True, eq=False)
class TimedTableState:
    """Facts by number, and the intervals of each, one after the other."""

    name: str
    columns: tuple[Ids, ...]
    count: Integers  # of each fact: how many intervals it has
    left: Integers
    right: Integers


@dataclass(frozen=True, slots=True, eq=False)
class TimeState:
    """All that holds at times, and how it was derived."""

    settings: TimeSettings
    timeline: Timeline
    given: tuple[TimedTableState, ...]
    tables: tuple[TimedTableState, ...]
    outcome: tuple[int, bool, bool] | None  # rounds, whether nothing more followed, whether all repeats
    dropped: Mapping[int, int]
    is_cut: bool = False  # something would follow beyond the horizon
    past: Past = field(default_factory=Past)  # what is final, if time has advanced
    periodic: tuple[Interval | None, Periods | None] | None = None  # where what follows has no end


def capture(time: Temporal) -> TimeState:
    """The state between two transactions; nothing in it changes when the reasoner goes on."""
    given, tables = (tuple(map(_captured, some.values())) for some in (time.store.given, time.store.tables))
    return replace(summary(time), given=given, tables=tables)


def summary(time: Temporal) -> TimeState:
    """The state without its facts."""
    outcome, periodic = time.outcome, time.periodic
    return TimeState(
        time.settings,
        time.store.timeline,
        (),
        (),
        None if outcome is None else (outcome.rounds, outcome.is_fixpoint, outcome.periods is not None),
        dict(time.dropped),
        time.is_cut,
        replace(time.past),
        None if periodic is None else (periodic.horizon, periodic.periods),
    )


def _captured(table: TimedTable) -> TimedTableState:
    rows, lists = table.facts.rows, table.lists
    _, left, right = lists.rows()
    columns = tuple(column[:rows].copy() for column in table.facts.columns)
    return TimedTableState(table.name, columns, lists.count.copy(), left, right)


def reinstate(time: Temporal, state: TimeState, program: Program) -> None:
    """Let a state be that of a reasoner without facts that hold at times."""
    given = {each.name: _reinstated(each) for each in state.given}
    resume(time, state, program, given, {each.name: _reinstated(each) for each in state.tables})


def resume(
    time: Temporal,
    state: TimeState,
    program: Program,
    given: Mapping[str, TimedTable],
    tables: Mapping[str, TimedTable],
) -> None:
    """The same of a state without its facts, and these: what is given, and all that holds."""
    time.store.timeline = state.timeline
    time.store.given, time.store.tables = dict(given), dict(tables)
    time.dropped, time.is_cut, time.past = dict(state.dropped), state.is_cut, replace(state.past)
    if state.outcome is None:
        return
    rounds, is_fixpoint, is_repeating = state.outcome
    outcome = Outcome(rounds, is_fixpoint)
    if state.periodic is None:
        time.outcome = replace(outcome, horizon=time.horizon(program))
        return
    time.periodic = Periodic(program, time.store, time.settings.procedure, *state.periodic)
    time.outcome = time.periodic.outcome(outcome) if is_repeating else outcome


def _reinstated(state: TimedTableState) -> TimedTable:
    table = TimedTable(state.name, len(state.columns))
    rows = len(state.count)
    columns: Any = np.array(state.columns, np.int32).reshape(len(state.columns), rows)
    if rows:
        numbers = table.number(columns, rows)
        if table.facts.rows != rows:
            raise ValueError(f"`{state.name}` has a fact at times twice")
        lists = Lists(np.cumsum(state.count) - state.count, state.count, state.left, state.right)
        table.replace(numbers, lists)
    return table


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """A state without its facts, and these: what is given with times, and all that holds at times."""

    state: TimeState
    given: Mapping[str, TimedTable]
    tables: Mapping[str, TimedTable]


def restore_times(time: Temporal, restored: Restored, program: Program) -> bool:
    """Let this be what a reasoner holds at times; whether it is left to derive what follows.

    Where all repeats, tables say so by periods, and what is worked on is not in them.
    """
    state = restored.state
    if state.periodic is not None:
        time.store.timeline, time.store.given = state.timeline, dict(restored.given)
        return True
    resume(time, state, program, restored.given, restored.tables)
    for name in time.store.predicates(program):
        if name not in time.store.tables:
            time.store.tables[name] = time.store.beginning(name, program.predicates[name].arity)
    return False
