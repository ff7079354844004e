"""Transactions over time: facts with intervals that come and go, and as they were before. Mutates the
store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Columns, Rows, joined, without
from tidelog.engine.flags import Flag
from tidelog.errors import Diagnostic
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Program
from tidelog.logic.type_inference import LazySchema
from tidelog.maintenance.maintainer import NetChange
from tidelog.temporal.body_evaluation import Derived
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.interval_dred import Difference, Journal, Maintenance
from tidelog.temporal.interval_kernels import INFINITY
from tidelog.temporal.interval_table import (
    Integers,
    Lists,
    RowSet,
    Table,
    TimedTable,
    Timeline,
    always,
    nothing,
    single,
)
from tidelog.temporal.metric_rules import ReadyRule
from tidelog.temporal.timed_relation import INTERVAL, PeriodicRelation, TimedRelation, Truths
from tidelog.temporal.timed_store import Store

# ---- Transactions over time: facts with intervals that come and go. Mutates the store.


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


class TimedRows(Rows):
    """Rows of ids that hold in intervals; if some repeat, with the period of each: 0 for the others."""

    times: Times | None
    every: Integers | None

    def __new__(
        cls, columns: Columns, count: int, times: Times | None = None, every: Integers | None = None
    ) -> TimedRows:
        """Return the rows with their times."""
        made = super().__new__(cls, columns, count)
        made.times, made.every = times, every
        return made


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
        """Update the given facts to those after the transaction."""
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


# ---- What a transaction says about given facts, as sets of points: a fact without times is given always.
#
# Facts given without times lie with the engine, stretches of time in the store. To delete a part of a fact
# that lies with the engine, delete it there and give the rest in the store.

NOT_GIVEN = "E630"
LATE = "E643"
PASSED_OVER = 'pass it over: --missing ignore (missing="ignore")'
SHOWN = 3
EXPLICIT = int(Flag.EXPLICIT)


@dataclass(frozen=True, slots=True)
class Stating:
    """The facts given at present; what lies before the left end `final` is final."""

    store: Store
    final: int = -INFINITY

    def settle(
        self, update: TimedUpdate, always: Mapping[str, Rows]
    ) -> tuple[dict[str, Rows], list[Diagnostic]]:
        """Reduce an update to points that are given in the store, and add what is left of other facts.

        `always` are facts to delete that are said without times, and given at some time. Returns the facts
        to delete where they lie with the engine, and what is said of points that are not given.
        """
        for timeline in update.timelines:
            self.store.adopt(timeline)
        faults = self._late(update) if update.is_strict else []
        asked = self._asked(update, always)
        update.removed.clear()
        update.replaced.clear()
        gone: dict[str, Rows] = {}
        for name, (facts, lists) in asked.items():
            given = self._given(name, facts)
            every = lists.numbers
            is_explicit = self._explicit(name, facts) & (lists.count > 0)
            absent = lists.without(given, every, every)
            _append(update.removed, self._rows(name, facts, lists.intersected(given, every, every)))
            if is_explicit.any():
                places = np.flatnonzero(is_explicit)
                gone[name] = Rows(tuple(facts[:, places]), len(places))
                time = single(np.array([self.final]), np.array([INFINITY]))
                rest = time.without(lists, np.zeros(len(places), np.int64), places)
                _append(update.added, self._rows(name, facts[:, places], rest))
            owners, left, right = absent.taken(np.flatnonzero(~is_explicit)).rows()
            if len(owners):
                columns = facts[:, np.flatnonzero(~is_explicit)[owners]]
                message = (
                    f"{self._texts(name, columns, left, right)} is not given, so it cannot be taken away"
                )
                help = 'pass over what is not there: missing="ignore"'
                faults.append(Diagnostic(NOT_GIVEN, message, help=help))
        return gone, faults

    def are_given(self, name: str, rows: Rows) -> Truths:
        """Which facts are given for some stretch of time."""
        return self._given(name, _table(rows)).later(self.final).count > 0

    def _asked(self, update: TimedUpdate, always: Mapping[str, Rows]) -> dict[str, tuple[Table, Lists]]:
        """The distinct facts to delete of each predicate, and when."""
        parts: dict[str, list[tuple[Table, Integers, Integers]]] = {}
        for name, rows in update.removed:
            assert rows.times is not None
            parts.setdefault(name, []).append((_table(rows), *rows.times.on(self.store.timeline)))
        for name, some in always.items():
            ends = np.full(some.count, INFINITY)
            parts.setdefault(name, []).append((_table(some), -ends, ends))
        for name in sorted(update.replaced & self.store.given.keys()):
            parts.setdefault(name, []).append(self.store.given[name].rows())
        return {name: self._grouped(some) for name, some in parts.items()}

    def _grouped(self, parts: Iterable[tuple[Table, Integers, Integers]]) -> tuple[Table, Lists]:
        columns, left, right = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
        facts = RowSet(len(columns))
        numbers = facts.find_or_add(columns, len(left))
        numbers, lists = single(np.maximum(left, self.final), right).grouped(numbers)
        return facts.columns[:, numbers], lists

    def _given(self, name: str, facts: Table) -> Lists:
        """When facts are given in the store."""
        lists, table = nothing(facts.shape[1]), self.store.given.get(name)
        if table is None:
            return lists
        return table.lists.united(lists, table.facts.find(facts, len(lists)), lists.numbers)

    def _explicit(self, name: str, facts: Table) -> Truths:
        """Which facts are given with the engine."""
        engine, count = self.store.engine, facts.shape[1]
        if name not in engine.relations():
            return np.zeros(count, bool)
        found: Truths = (engine.standing(name, list(facts), count) & EXPLICIT) != 0
        return found

    def _rows(self, name: str, facts: Table, lists: Lists) -> tuple[str, TimedRows]:
        owners, left, right = lists.rows()
        times = Times(self.store.timeline, left, right)
        return name, TimedRows(tuple(facts[:, owners]), len(left), times)

    # ---- what cannot be

    def _late(self, update: TimedUpdate) -> list[Diagnostic]:
        """What facts say about times that are final."""
        faults: list[Diagnostic] = []
        if self.final == -INFINITY:
            return faults
        for name, rows in (*update.removed, *update.added):
            assert rows.times is not None
            left, right = rows.times.on(self.store.timeline)
            late = np.flatnonzero(left < self.final)
            if len(late):
                texts = self._texts(name, _table(rows)[:, late], left[late], right[late])
                point = self.store.timeline.decode(self.final, INFINITY)
                now = point.write(point.start, "")
                message = f"{texts}: what was before {now} is final, as time has advanced to it"
                faults.append(Diagnostic(LATE, message, help=PASSED_OVER))
        return faults

    def _texts(self, name: str, columns: Table, left: Integers, right: Integers) -> str:
        """The first of some facts with times, as text."""
        decode, values = self.store.timeline.decode, self.store.engine.dictionary.decode
        texts = []
        for place in range(min(SHOWN, len(left))):
            row = ", ".join(str(values(int(column[place])).content) for column in columns)
            texts.append(f"`{name}({row})@{decode(int(left[place]), int(right[place]))}`")
        more = f" and {len(left) - SHOWN:,} more" if len(left) > SHOWN else ""
        return f"{', '.join(texts)}{more}"


def _table(rows: Rows) -> Table:
    columns: Table = np.array(rows.columns, np.int32).reshape(len(rows.columns), rows.count)
    return columns


def _append(where: list[tuple[str, TimedRows]], item: tuple[str, TimedRows]) -> None:
    if item[1].count:
        where.append(item)


# ---- Given facts with times as they were before a transaction, for it to be undone whatever came of it.


@dataclass(frozen=True, slots=True, eq=False)
class GivenBefore:
    """Facts of one predicate that a transaction touches, and when those of them that are given are given."""

    touched: RowSet
    columns: Table
    times: Times


def given_before(store: Store, update: TimedUpdate) -> dict[str, GivenBefore]:
    """What a transaction touches of what is given, by predicate; that costs what it touches."""
    stated = (*update.removed, *update.added)
    names = dict.fromkeys((*(name for name, _ in stated), *update.replaced))
    return {
        name: _before(store, name, [rows for other, rows in stated if other == name], update)
        for name in names
    }


def _before(store: Store, name: str, parts: Sequence[TimedRows], update: TimedUpdate) -> GivenBefore:
    table = store.given.get(name)
    if table is None:
        table = TimedTable(name, len(parts[0].columns) if parts else 0)
    touched = RowSet(table.arity)
    if name in update.replaced:
        numbers, _ = table.holding()
        touched.find_or_add(table.facts.columns[:, numbers], len(numbers))
    for rows in parts:
        touched.find_or_add(np.array(rows.columns, np.int32).reshape(table.arity, rows.count), rows.count)
    numbers = table.facts.find(touched.columns[:, : touched.rows], touched.rows)
    numbers = numbers[numbers >= 0]
    owners, left, right = table.lists.taken(numbers).rows()
    return GivenBefore(touched, table.facts.columns[:, numbers[owners]], Times(store.timeline, left, right))


def restore_given(store: Store, before: Mapping[str, GivenBefore]) -> None:
    """Restore the given facts from before a transaction in new tables."""
    made: dict[str, TimedTable] = {}
    for name, table in store.given.items():
        columns, left, right = table.rows()
        if name in before:
            was = before[name]
            others = was.touched.find(columns, len(left)) < 0
            ends = was.times.on(store.timeline)
            columns = np.hstack([columns[:, others], was.columns])
            left, right = (
                np.concatenate(ends) for ends in ((left[others], ends[0]), (right[others], ends[1]))
            )
        made[name] = TimedTable.of(name, tuple(columns), left, right)
    store.given = made
