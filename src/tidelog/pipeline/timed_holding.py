"""What a reasoner holds at times, as it is published: a row for each fact and interval, as long as it can be.

A transaction tells which points of time came and went. In a table, intervals come and go: one that grows is
another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tidelog.logic.intervals import Interval
from tidelog.logic.program import Predicate
from tidelog.maintenance.row_sets import Rows
from tidelog.pipeline.facts import Changed
from tidelog.pipeline.times import Layout, layout_of, time_ids
from tidelog.reasoner.reasoner import Reasoner
from tidelog.temporal.changing import TimedRows, Times
from tidelog.temporal.interval_dred import Difference
from tidelog.temporal.lists import Integers, Lists, nothing, single
from tidelog.temporal.periodic_relation import PeriodicRelation
from tidelog.temporal.reasoning import Temporal
from tidelog.temporal.rows import Table
from tidelog.temporal.table import TimedTable


class Begun:
    """When intervals began that time has advanced into: the reasoner forgets it, and tables keep them whole.

    Of each fact, it has the points before the time that was advanced to of the interval that reaches up to
    it. Mutates itself.
    """

    def __init__(self, time: Temporal) -> None:
        self._time = time
        self._timeline = time.store.timeline
        self._tables: dict[str, TimedTable] = {}

    def add(self, name: str, columns: Sequence[np.ndarray], times: Times) -> None:
        """Note published rows, of which the points that are not final are left out."""
        self._time.store.adopt(times.timeline)
        left, right = times.on(self._time.store.timeline)
        rows = np.array(columns, np.int32).reshape(len(columns), len(left))
        self._put(name, rows, left, right)

    def advance(self, point: Interval, names: Iterable[str]) -> None:
        """Note what the reasoner will forget of intervals that reach up to a point of time."""
        store = self._time.store
        store.refine([point])
        first = store.timeline.ends(Interval(point.start, None))[0]
        found = {}
        for name in names:
            numbers, lists = store.tables[name].holding()
            columns = store.tables[name].facts.columns[:, numbers]
            owners, left, right = self.whole(name, columns, lists).rows()
            found[name] = columns[:, owners], left, right
        self._tables = {}
        for name, (columns, left, right) in found.items():
            self._put(name, columns, left, right, first)

    def _put(
        self, name: str, columns: Table, left: Integers, right: Integers, first: int | None = None
    ) -> None:
        first = self._time.past.first(self._time.store.timeline) if first is None else first
        reaches = (left < first) & (right >= first - 1)
        self._timeline = self._time.store.timeline
        ends = left[reaches], np.minimum(right[reaches], first - 1)
        self._tables[name] = TimedTable.of(name, tuple(columns[:, reaches]), *ends)

    def whole(self, name: str, facts: Table, lists: Lists) -> Lists:
        """The lists of facts, with the points that were forgotten of their intervals."""
        timeline = self._time.store.timeline
        if timeline.scale != self._timeline.scale:
            factor = timeline.scale // self._timeline.scale
            self._tables = {
                each: table.rescaled(self._timeline, factor) for each, table in self._tables.items()
            }
        self._timeline = timeline
        known = self._tables.get(name)
        if known is None:
            return lists
        return lists.united(known.lists, np.arange(len(lists)), known.facts.find(facts, len(lists)))


class TimedHolding:
    """The facts of a reasoner that hold at times, of which everything has been derived."""

    def __init__(self, reasoner: Reasoner, begun: Begun | None = None) -> None:
        self._time, self._engine = reasoner.time, reasoner.engine
        self._begun = begun or Begun(reasoner.time)
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

    # ---- what a transaction changed

    def changed(self, name: str, lost: TimedRows | None, gained: TimedRows | None) -> Changed:
        """The intervals of a predicate that went and that came, of points that did."""
        table = self._time.store.tables[name]
        less, more = (self._difference(table, rows) for rows in (lost, gained))
        numbers = np.union1d(less.numbers, more.numbers)
        now = self._begun.whole(name, table.facts.columns[:, numbers], table.lists.taken(numbers))
        before = now.without(more.lists, now.numbers, more.places(numbers))
        before = before.united(less.lists, before.numbers, less.places(numbers))
        then, since = (self._of(table, numbers, lists) for lists in (before, now))
        return Changed.between(then, since)

    def since(self, name: str, columns: Sequence[np.ndarray], times: Times) -> Changed:
        """The intervals that went and came since rows were published, of all that time has not passed.

        The rows are those that reach up to the time that was advanced to, or beyond.
        """
        store = self._time.store
        table = store.tables[name]
        store.adopt(times.timeline)
        numbers, lists = table.holding()
        lists = lists.later(self._time.past.first(store.timeline))
        kept = np.flatnonzero(lists.count > 0)
        then = TimedTable.of(name, columns, *times.on(store.timeline))
        then_numbers, _ = then.holding()
        facts = then.facts.columns[:, then_numbers]
        every = np.union1d(numbers[kept], table.number(facts, len(then_numbers)))
        places = np.full(table.facts.rows, -1, np.int64)
        places[numbers[kept]] = kept
        now = nothing(len(every)).united(lists, np.arange(len(every)), places[every])
        now = self._begun.whole(name, table.facts.columns[:, every], now)
        known = then.facts.find(np.ascontiguousarray(table.facts.columns[:, every]), len(every))
        before = nothing(len(every)).united(then.lists, np.arange(len(every)), known)
        return Changed.between(self._of(table, every, before), self._of(table, every, now))

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
