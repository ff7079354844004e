"""What a reasoner holds at times, as it is published: a row for each fact and interval, as long as it can be.

A transaction tells which points of time came and went. In a table, intervals come and go: one that grows is
another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tidelog.logic.program import Predicate
from tidelog.maintenance.maintainer import Rows
from tidelog.maintenance.row_sets import joined, without
from tidelog.pipeline.tables import Changed, nothing
from tidelog.pipeline.times import Layout, always_ids, layout_of, time_ids
from tidelog.reasoner import Reasoner
from tidelog.temporal.changing import TimedRows, Times
from tidelog.temporal.lists import Integers, Lists, single
from tidelog.temporal.maintain import Difference
from tidelog.temporal.periodic_relation import PeriodicRelation
from tidelog.temporal.relation import BOUNDS
from tidelog.temporal.rows import Table
from tidelog.temporal.table import TimedTable
from tidelog.transaction import Change

Touched = Mapping[str, tuple[Table, Rows]]  # facts of which something is said, and when they were given


class TimedHolding:
    """The facts of a reasoner that hold at times, of which everything has been derived."""

    def __init__(self, reasoner: Reasoner) -> None:
        self._time, self._engine = reasoner.time, reasoner.engine
        self._predicates = reasoner.predicates()
        self.names = reasoner.program.timed

    def layout(self, predicate: Predicate) -> Layout:
        """The columns of a predicate's table."""
        is_timed, is_periodic = predicate.name in self.names, self._time.periodic is not None
        return layout_of(predicate, is_timed, is_periodic, self._time.store.timeline.is_calendar)

    def _rows(self, columns: Sequence[np.ndarray], times: Times, every: Integers | None = None) -> Rows:
        """Facts with their intervals, and with the period of each where there are periods."""
        if self._time.periodic is not None and every is None:
            every = np.zeros(len(times.left), np.int64)
        ids = time_ids(times, every, self._engine.dictionary)
        return Rows((*columns, *ids), len(times.left))

    # ---- all facts

    def facts(self, name: str) -> Rows:
        """All facts of a predicate."""
        found = self._time.relation(self._predicates[name])
        every = found.every if isinstance(found, PeriodicRelation) else None
        return self._rows(found.coded.columns, Times(found.timeline, found.left, found.right), every)

    def stated(self, name: str) -> Rows:
        """The explicit facts of a predicate: those given with times, and those that were said without."""
        given = self._time.store.given.get(name)
        parts = [self._always(Rows(*self._engine.explicit(name)))]
        if given is not None:
            columns, left, right = given.rows()
            parts.append(self._rows(tuple(columns), Times(self._time.store.timeline, left, right)))
        return joined(parts)

    @property
    def _width(self) -> int:
        """How many columns tell when."""
        return len(BOUNDS) + (self._time.periodic is not None)

    def _always(self, rows: Rows) -> Rows:
        times = always_ids(rows.count, self._width, self._engine.dictionary)
        return Rows((*rows.columns, *times), rows.count)

    # ---- what a transaction changed

    def changed(self, name: str, lost: TimedRows | None, gained: TimedRows | None) -> Changed:
        """The intervals of a predicate that went and that came, of points that did."""
        table = self._time.store.tables[name]
        less, more = (self._difference(table, rows) for rows in (lost, gained))
        numbers = np.union1d(less.numbers, more.numbers)
        now = table.lists.taken(numbers)
        before = now.without(more.lists, now.numbers, more.places(numbers))
        before = before.united(less.lists, before.numbers, less.places(numbers))
        then, since = (self._of(table, numbers, lists) for lists in (before, now))
        return Changed(without(then, since), without(since, then))

    def _difference(self, table: TimedTable, rows: TimedRows | None) -> Difference:
        if rows is None or rows.times is None:
            return Difference()
        columns: Table = np.array(rows.columns, np.int32).reshape(table.arity, rows.count)
        points = single(*rows.times.on(self._time.store.timeline))
        return Difference(*points.grouped(table.number(columns, rows.count)))

    def _of(self, table: TimedTable, numbers: Integers, lists: Lists) -> Rows:
        owners, left, right = lists.rows()
        columns = table.facts.columns[:, numbers[owners]]
        return self._rows(tuple(columns), Times(self._time.store.timeline, left, right))

    # ---- what a transaction says

    def touched(self, change: Change) -> Touched:
        """The facts of which a transaction says something, and when they are given, before it is done."""
        said: dict[str, list[Table]] = {}
        for name, rows in (*change.times.removed, *change.times.added):
            columns: Table = np.array(rows.columns, np.int32).reshape(len(rows.columns), rows.count)
            said.setdefault(name, []).append(columns)
        for name in self.names & change.deleted.keys():  # always, so that stretches of them go too
            gone = change.deleted[name]
            columns = np.array(gone.columns, np.int32).reshape(len(gone.columns), gone.count)
            said.setdefault(name, []).append(columns)
        for name in change.times.replaced:
            given = self._time.store.given.get(name)
            if given is not None:
                said.setdefault(name, []).append(given.facts.columns[:, given.holding()[0]])
        facts = {name: np.concatenate(parts, axis=1) for name, parts in said.items()}
        return {name: (columns, self._given(name, columns)) for name, columns in facts.items()}

    def stated_changes(self, change: Change, touched: Touched) -> dict[str, Changed]:
        """What a transaction has changed in the explicit facts, of those that it touched."""
        found: dict[str, Changed] = {}
        for name, (columns, before) in touched.items():
            now = self._given(name, columns)
            found[name] = Changed(without(before, now), without(now, before))
        for name in self.names & {*change.stated.removed, *change.stated.added}:
            said = [self._said(name, some.get(name)) for some in (change.stated.removed, change.stated.added)]
            if name in found:
                said = [
                    joined(pair) for pair in zip((found[name].removed, found[name].added), said, strict=True)
                ]
            found[name] = Changed(*said)
        return {name: changed for name, changed in found.items() if changed.count}

    def _said(self, name: str, rows: Rows | None) -> Rows:
        """Facts without a time; none if there are none."""
        return self._always(nothing(self._predicates[name].arity) if rows is None else rows)

    def _given(self, name: str, columns: Table) -> Rows:
        """When facts are given."""
        given = self._time.store.given.get(name)
        if given is None:
            return nothing(len(columns) + self._width)
        numbers = np.unique(given.facts.find(columns, columns.shape[1]))
        numbers = numbers[numbers >= 0]
        return self._of(given, numbers, given.lists.taken(numbers))
