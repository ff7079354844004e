"""Transactions over time: facts with intervals that come and go. Mutates the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidelog.data.dictionary import Dictionary
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Program
from tidelog.logic.type_inference import LazySchema
from tidelog.maintenance.maintainer import NetChange
from tidelog.maintenance.row_sets import Rows, joined, without
from tidelog.temporal.heads import Derived
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.interval_dred import Difference, Journal, Maintenance
from tidelog.temporal.list_kernels import INFINITY
from tidelog.temporal.lists import Integers, Lists, Timeline, always, single
from tidelog.temporal.nodes import ReadyRule
from tidelog.temporal.periodic_relation import PeriodicRelation
from tidelog.temporal.relation import INTERVAL, TimedRelation
from tidelog.temporal.rows import Table
from tidelog.temporal.store import Store
from tidelog.temporal.table import TimedTable


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Ends of intervals, one for each row, on a timeline of their own."""

    timeline: Timeline
    left: Integers
    right: Integers

    def on(self, timeline: Timeline) -> tuple[Integers, Integers]:
        """The ends on another timeline, which is as fine."""
        left, right = self.left.copy(), self.right.copy()
        self.timeline.rescale(left, right, timeline.scale // self.timeline.scale)
        return left, right


def times_of(intervals: Sequence[Interval], is_integer: bool) -> Times:
    """Intervals as ends."""
    timeline = Timeline(is_integer=is_integer).refined(intervals)
    return Times(timeline, *timeline.encode(intervals))


@dataclass(frozen=True, slots=True, eq=False)
class TimedRows(Rows):
    """Rows of ids that hold in intervals; if some repeat, with the period of each: 0 for the others."""

    times: Times | None = None
    every: Integers | None = None


@dataclass(slots=True)
class TimedUpdate:
    """Facts with times to take away and to add; if it is strict, to take away what is not given is an error.

    Mutable: it grows. Once `Stating` has settled it, all points to take away are given.
    """

    is_strict: bool = True
    advance: Interval | None = None  # the point of time to advance to in the end
    removed: list[tuple[str, TimedRows]] = field(default_factory=list)
    added: list[tuple[str, TimedRows]] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)  # predicates of which all that is given goes first

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.replaced or self.advance)

    @property
    def timelines(self) -> Iterator[Timeline]:
        """The timelines of all that is said."""
        for _, rows in (*self.removed, *self.added):
            assert rows.times is not None
            yield rows.times.timeline


# Derives what follows besides, once facts have changed: whether it did anything.
GoOn = Callable[[Sequence[ReadyRule], Journal], bool]
# Tells what all tables have lost and gained, of which the tables hold a part only.
Compare = Callable[[Journal], NetChange]


class Changing:
    """One transaction on a store: all of it, or nothing of it and an error."""

    def __init__(
        self,
        store: Store,
        horizon: Horizon | None,
        check: Callable[[], None],
        go_on: GoOn | None = None,
        compare: Compare | None = None,
    ) -> None:
        self.store = store
        self.horizon = horizon
        self.go_on = go_on
        self.compare = compare
        self.check = check
        self.journal = Journal()

    def carry_out(
        self,
        update: TimedUpdate,
        static: NetChange,
        before: Program,
        after: Program,
        accept: Callable[[], None],
    ) -> NetChange:
        """What all predicates with times lost and gained; `accept` raises if that must not be."""
        new = self._admit(after, static) if after is not before else ()
        try:
            removed, added = self._given(update, static)
            schedule = self.store.schedule(before, after)
            maintenance = Maintenance(self.store, schedule, self.check, self.horizon, self.journal)
            lost, gained = maintenance.run(removed, added)
            if self.go_on is not None and self.go_on(schedule.after, self.journal):
                lost, gained = self._net()
            if self.compare is None:
                net = NetChange(self._rows(gained, after), self._rows(lost, after))
            else:
                net = self.compare(self.journal)
            accept()
        except BaseException:
            self.journal.undo()
            for name in new:
                del self.store.tables[name]
            raise
        return net

    def _net(self) -> tuple[dict[str, Difference], dict[str, Difference]]:
        """What all tables lost and gained by now."""
        lost, gained = {}, {}
        for name, table in self.store.tables.items():
            lost[name], gained[name] = self.journal.net(table)
        return lost, gained

    def _admit(self, after: Program, static: NetChange) -> tuple[str, ...]:
        """Add the tables that other rules than before need, as they were before the transaction."""
        new = tuple(name for name in self.store.predicates(after) if name not in self.store.tables)
        for name in new:
            self.store.tables[name] = self._former(name, after.predicates[name].arity, static)
        return new

    def _former(self, name: str, arity: int, static: NetChange) -> TimedTable:
        """What a predicate held that no rule over time has read, while it holds always."""
        engine = self.store.engine
        if name not in engine.relations():
            return TimedTable(name, arity)
        rows = Rows(*engine.rows(name))
        if name in static.added:
            rows = without(rows, static.added[name])
        if name in static.removed:
            rows = joined([rows, static.removed[name]])
        ends = np.full(rows.count, INFINITY)
        return TimedTable.of(name, rows.columns, -ends, ends)

    # ---- what is given

    def _given(
        self, update: TimedUpdate, static: NetChange
    ) -> tuple[dict[str, Difference], dict[str, Difference]]:
        """The points that are no longer given, and those that are newly given."""
        self._restate(update)
        removed, added = Derived(), Derived()
        for name, given in self.store.given.items():
            for difference, points in zip(self.journal.net(given), (removed, added), strict=True):
                if difference:
                    facts = given.facts.columns[:, difference.numbers]
                    numbers = self.store.tables[name].number(facts, len(difference.numbers))
                    points.add(name, numbers, difference.lists)
        for change, points in ((static.removed, removed), (static.added, added)):
            for name, rows in change.items():
                if name in self.store.tables:
                    table = self.store.tables[name]
                    columns = np.array(rows.columns, np.int32).reshape(table.arity, rows.count)
                    points.add(name, table.number(columns, rows.count), self._from_now(rows.count))
        lost = {name: self._not_given(name, Difference(*removed.of(name))) for name in removed.names}
        return lost, {name: Difference(*added.of(name)) for name in added.names}

    def _from_now(self, count: int) -> Lists:
        """So many lists of all time that is not final."""
        if self._final == -INFINITY:
            return always(count)
        return single(np.full(count, self._final), np.full(count, INFINITY))

    @property
    def _final(self) -> int:
        """The left end of what is not final."""
        return -INFINITY if self.horizon is None else self.horizon.final

    def _not_given(self, name: str, points: Difference) -> Difference:
        """The points without those that are still given, in another way."""
        given = self.store.given_lists(self.store.tables[name], points.numbers)
        every = points.lists.numbers
        return Difference(points.numbers, points.lists.without(given, every, every))

    def _restate(self, update: TimedUpdate) -> None:
        """Let given facts be those after the transaction."""
        for name, numbers, lists in self._stated(update.removed):
            self.journal.note(self.store.given[name], numbers)
            self.store.given[name].lose(numbers, lists)
        for name, numbers, lists in self._stated(update.added):
            self.journal.note(self.store.given[name], numbers)
            self.store.given[name].gain(numbers, lists)

    def _stated(self, facts: Iterable[tuple[str, TimedRows]]) -> Iterator[tuple[str, Integers, Lists]]:
        for name, rows in facts:
            assert rows.times is not None
            table = self.store.given.setdefault(name, TimedTable(name, len(rows.columns)))
            columns: Table = np.array(rows.columns, np.int32).reshape(len(rows.columns), rows.count)
            left, right = rows.times.on(self.store.timeline)
            left = np.maximum(left, self._final)
            yield name, *single(left, right).grouped(table.number(columns, rows.count))

    # ---- what came of it

    def _rows(self, points: Mapping[str, Difference], program: Program) -> dict[str, Rows]:
        found: dict[str, Rows] = {}
        for name, difference in points.items():
            if name in program.timed:
                owners, left, right = difference.lists.rows()
                columns = self.store.tables[name].facts.columns[:, difference.numbers[owners]]
                times = Times(self.store.timeline, left, right)
                found[name] = TimedRows(tuple(columns), len(left), times)
        return found


def timed_relation(
    name: str,
    names: Sequence[str],
    rows: TimedRows,
    dictionary: Dictionary,
    schema: LazySchema | None = None,
) -> TimedRelation:
    """Rows with times as a relation."""
    times = rows.times
    assert times is not None
    parts = (
        name,
        names,
        rows.columns,
        times.left,
        times.right,
        dictionary,
        times.timeline,
        INTERVAL,
        schema,
    )
    return TimedRelation(*parts) if rows.every is None else PeriodicRelation(*parts, every=rows.every)
