"""What a reasoner holds at times, as it is published: a row for each fact and interval, as long as it can be.

A transaction tells which points of time came and went. In a table, intervals come and go: one that grows is
another one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelog.logic.program import Predicate
from tidelog.maintenance.maintainer import Rows
from tidelog.pipeline.facts import Changed
from tidelog.pipeline.times import Layout, layout_of, time_ids
from tidelog.reasoner import Reasoner
from tidelog.temporal.changing import TimedRows, Times
from tidelog.temporal.lists import Integers, Lists, single
from tidelog.temporal.maintain import Difference
from tidelog.temporal.periodic_relation import PeriodicRelation
from tidelog.temporal.rows import Table
from tidelog.temporal.table import TimedTable


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
        return Changed.between(then, since)

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
