"""Transactions over time: facts with intervals to insert and to delete, normalised, applied, rolled back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Columns, Rows, concatenate, without
from tidelog.engine.flags import Flag
from tidelog.errors import Diagnostic
from tidelog.errors.codes import FINAL_TIME, NOT_A_FACT
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Program
from tidelog.logic.type_inference import LazySchema
from tidelog.maintenance.maintainer import NetChange
from tidelog.records import dataclass
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.interval_dred import IntervalMaintenance
from tidelog.temporal.interval_kernels import INFINITY
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalLists,
    NumberedRows,
    TimedTable,
    Timeline,
    all_time,
    empty_lists,
    single,
)
from tidelog.temporal.metric_rules import CompiledMetricRule
from tidelog.temporal.timed_relation import INTERVAL, PeriodicRelation, TimedRelation, Truths
from tidelog.temporal.timed_store import IntervalBuffer, IntervalDelta, IntervalJournal, TimedStore


@dataclass(frozen=True, slots=True, eq=False)
class RowTimes:
    """Ends of intervals, one for each row, with their timeline."""

    timeline: Timeline
    left: Integers
    right: Integers

    def on(self, timeline: Timeline) -> tuple[Integers, Integers]:
        """The ends on another timeline, which is as fine."""
        left, right = self.left.copy(), self.right.copy()
        self.timeline.rescale(left, right, timeline.scale // self.timeline.scale)
        return left, right


def times_of(intervals: Sequence[Interval], is_integer: bool) -> RowTimes:
    """The ends of intervals, on the coarsest timeline that has them all."""
    timeline = Timeline(is_integer=is_integer).refined(intervals)
    return RowTimes(timeline, *timeline.encode(intervals))


class TimedRows(Rows):
    """Rows of ids that hold in intervals; if some repeat, with the period of each row, 0 for the others."""

    times: RowTimes | None
    every: Integers | None

    def __new__(
        cls, columns: Columns, count: int, times: RowTimes | None = None, every: Integers | None = None
    ) -> TimedRows:
        """Return the rows with their times."""
        rows = super().__new__(cls, columns, count)
        rows.times, rows.every = times, every
        return rows


@dataclass(slots=True)
class TimedUpdate:
    """Facts with times to delete and to insert; if strict, deleting points that are not explicit is an error.

    Mutable: facts are added. After `TimedUpdateNormaliser.normalise`, all points to delete are explicit.
    """

    is_strict: bool = True
    advance: Interval | None = None  # the point of time to advance to in the end
    removed: list[tuple[str, TimedRows]] = field(default_factory=list)
    added: list[tuple[str, TimedRows]] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)  # predicates whose explicit facts are all deleted first

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.replaced or self.advance)

    @property
    def timelines(self) -> Iterator[Timeline]:
        """The timelines of all facts to delete and to insert."""
        for _, rows in (*self.removed, *self.added):
            assert rows.times is not None
            yield rows.times.timeline


# Derives more facts after maintenance; returns whether it derived any.
DeriveMore = Callable[[Sequence[CompiledMetricRule], IntervalJournal], bool]
# The net change of all tables, which hold only a part of their facts.
Compare = Callable[[IntervalJournal], NetChange]


class TimedTransaction:
    """One atomic transaction on a store."""

    def __init__(
        self,
        store: TimedStore,
        horizon: Horizon | None,
        check: Callable[[], None],
        derive_more: DeriveMore | None = None,
        compare: Compare | None = None,
    ) -> None:
        self.store = store
        self.horizon = horizon
        self.derive_more = derive_more
        self.compare = compare
        self.check = check
        self.journal = IntervalJournal()

    def execute(
        self,
        update: TimedUpdate,
        static: NetChange,
        before: Program,
        after: Program,
        accept: Callable[[], None],
    ) -> NetChange:
        """Apply an update; return the net change of predicates with times. `accept` raises to reject it."""
        new = self._add_tables(after, static) if after is not before else ()
        try:
            removed, added = self._explicit_changes(update, static)
            schedule = self.store.schedule(before, after)
            maintenance = IntervalMaintenance(self.store, schedule, self.check, self.horizon, self.journal)
            lost, gained = maintenance.run(removed, added)
            if self.derive_more is not None and self.derive_more(schedule.after, self.journal):
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

    def _net(self) -> tuple[dict[str, IntervalDelta], dict[str, IntervalDelta]]:
        """The points that all tables lost and gained since the transaction began."""
        lost, gained = {}, {}
        for name, table in self.store.tables.items():
            lost[name], gained[name] = self.journal.net(table)
        return lost, gained

    def _add_tables(self, after: Program, static: NetChange) -> tuple[str, ...]:
        """Add the tables that new rules need, as they were before the transaction; return their names."""
        new = tuple(name for name in self.store.predicates(after) if name not in self.store.tables)
        for name in new:
            self.store.tables[name] = self._table_before(name, after.predicates[name].arity, static)
        return new

    def _table_before(self, name: str, arity: int, static: NetChange) -> TimedTable:
        """The table before the transaction of a predicate without times that no rule over time has read."""
        engine = self.store.engine
        if name not in engine.storage.relations():
            return TimedTable(name, arity)
        rows = Rows(*engine.storage.rows(name))
        if name in static.added:
            rows = without(rows, static.added[name])
        if name in static.removed:
            rows = concatenate([rows, static.removed[name]])
        ends = np.full(rows.count, INFINITY)
        return TimedTable.of(name, rows.columns, -ends, ends)

    def _explicit_changes(
        self, update: TimedUpdate, static: NetChange
    ) -> tuple[dict[str, IntervalDelta], dict[str, IntervalDelta]]:
        """The points that are no longer explicit, and those that are newly explicit."""
        self._replace_explicit(update)
        removed, added = IntervalBuffer(), IntervalBuffer()
        for name, explicit in self.store.explicit.items():
            for delta, points in zip(self.journal.net(explicit), (removed, added), strict=True):
                if delta:
                    facts = explicit.facts.columns[:, delta.numbers]
                    numbers = self.store.tables[name].number(facts, len(delta.numbers))
                    points.add(name, numbers, delta.lists)
        for change, points in ((static.removed, removed), (static.added, added)):
            for name, rows in change.items():
                if name in self.store.tables:
                    table = self.store.tables[name]
                    columns = np.array(rows.columns, np.int32).reshape(table.arity, rows.count)
                    points.add(name, table.number(columns, rows.count), self._from_now(rows.count))
        lost = {name: self._without_explicit(name, removed.of(name)) for name in removed.names}
        return lost, {name: added.of(name) for name in added.names}

    def _from_now(self, count: int) -> IntervalLists:
        """Lists of all time that is not final, `count` of them."""
        if self._final == -INFINITY:
            return all_time(count)
        return single(np.full(count, self._final), np.full(count, INFINITY))

    @property
    def _final(self) -> int:
        """The left end from which on times are not final."""
        return -INFINITY if self.horizon is None else self.horizon.final

    def _without_explicit(self, name: str, points: IntervalDelta) -> IntervalDelta:
        """The points without those that are still explicit, with times or without."""
        explicit = self.store.explicit_lists(self.store.tables[name], points.numbers)
        every = points.lists.numbers
        return IntervalDelta(points.numbers, points.lists.without(explicit, every, every))

    def _replace_explicit(self, update: TimedUpdate) -> None:
        """Update the explicit facts to those after the transaction."""
        for name, numbers, lists in self._on_timeline(update.removed):
            self.journal.note(self.store.explicit[name], numbers)
            self.store.explicit[name].lose(numbers, lists)
        for name, numbers, lists in self._on_timeline(update.added):
            self.journal.note(self.store.explicit[name], numbers)
            self.store.explicit[name].gain(numbers, lists)

    def _on_timeline(
        self, facts: Iterable[tuple[str, TimedRows]]
    ) -> Iterator[tuple[str, Integers, IntervalLists]]:
        for name, rows in facts:
            assert rows.times is not None
            table = self.store.explicit.setdefault(name, TimedTable(name, len(rows.columns)))
            columns: IdColumns = np.array(rows.columns, np.int32).reshape(len(rows.columns), rows.count)
            left, right = rows.times.on(self.store.timeline)
            left = np.maximum(left, self._final)
            yield name, *single(left, right).grouped(table.number(columns, rows.count))

    def _rows(self, points: Mapping[str, IntervalDelta], program: Program) -> dict[str, Rows]:
        rows: dict[str, Rows] = {}
        for name, delta in points.items():
            if name in program.timed:
                owners, left, right = delta.lists.rows()
                columns = self.store.tables[name].facts.columns[:, delta.numbers[owners]]
                times = RowTimes(self.store.timeline, left, right)
                rows[name] = TimedRows(tuple(columns), len(left), times)
        return rows


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


IGNORE_MISSING = 'skip it: --missing ignore (missing="ignore")'
SHOWN = 3
EXPLICIT = int(Flag.EXPLICIT)


@dataclass(frozen=True, slots=True)
class TimedUpdateNormaliser:
    """Reduces updates to points that are explicit; points before the left end `final` are final.

    Explicit facts without times are stored in the engine, those with times in the store. A fact without times
    is the set of all points: if part of it is deleted, it is deleted from the engine, and the remaining
    points are added to the store.
    """

    store: TimedStore
    final: int = -INFINITY

    def normalise(
        self, update: TimedUpdate, untimed: Mapping[str, Rows]
    ) -> tuple[dict[str, Rows], list[Diagnostic]]:
        """Reduce an update to points that are explicit in the store; add remaining points of other facts.

        `untimed` are facts to delete that were named without times, and are explicit at some time. Return
        the facts to delete from the engine, and diagnostics for points that are not explicit.
        """
        for timeline in update.timelines:
            self.store.refine_to(timeline)
        faults = self._late(update) if update.is_strict else []
        requested = self._requested(update, untimed)
        update.removed.clear()
        update.replaced.clear()
        deleted: dict[str, Rows] = {}
        for name, (facts, lists) in requested.items():
            explicit = self._explicit_lists(name, facts)
            every = lists.numbers
            is_untimed = self._is_untimed(name, facts) & (lists.count > 0)
            absent = lists.without(explicit, every, every)
            _append(update.removed, self._rows(name, facts, lists.intersected(explicit, every, every)))
            if is_untimed.any():
                positions = np.flatnonzero(is_untimed)
                deleted[name] = Rows(tuple(facts[:, positions]), len(positions))
                time = single(np.array([self.final]), np.array([INFINITY]))
                rest = time.without(lists, np.zeros(len(positions), np.int64), positions)
                _append(update.added, self._rows(name, facts[:, positions], rest))
            owners, left, right = absent.take(np.flatnonzero(~is_untimed)).rows()
            if len(owners):
                columns = facts[:, np.flatnonzero(~is_untimed)[owners]]
                message = (
                    f"{self._texts(name, columns, left, right)} is not explicit, so it cannot be deleted"
                )
                help = 'skip missing facts: missing="ignore"'
                faults.append(Diagnostic(NOT_A_FACT, message, help=help))
        return deleted, faults

    def are_explicit(self, name: str, rows: Rows) -> Truths:
        """Which facts are explicit at some time."""
        return self._explicit_lists(name, _table(rows)).later(self.final).count > 0

    def _requested(
        self, update: TimedUpdate, untimed: Mapping[str, Rows]
    ) -> dict[str, tuple[IdColumns, IntervalLists]]:
        """The distinct facts to delete of each predicate, and when."""
        parts: dict[str, list[tuple[IdColumns, Integers, Integers]]] = {}
        for name, rows in update.removed:
            assert rows.times is not None
            parts.setdefault(name, []).append((_table(rows), *rows.times.on(self.store.timeline)))
        for name, group in untimed.items():
            ends = np.full(group.count, INFINITY)
            parts.setdefault(name, []).append((_table(group), -ends, ends))
        for name in sorted(update.replaced & self.store.explicit.keys()):
            parts.setdefault(name, []).append(self.store.explicit[name].rows())
        return {name: self._grouped(group) for name, group in parts.items()}

    def _grouped(
        self, parts: Iterable[tuple[IdColumns, Integers, Integers]]
    ) -> tuple[IdColumns, IntervalLists]:
        columns, left, right = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
        facts = NumberedRows(len(columns))
        numbers = facts.find_or_add(columns, len(left))
        numbers, lists = single(np.maximum(left, self.final), right).grouped(numbers)
        return facts.columns[:, numbers], lists

    def _explicit_lists(self, name: str, facts: IdColumns) -> IntervalLists:
        """The points at which facts are explicit in the store."""
        lists, table = empty_lists(facts.shape[1]), self.store.explicit.get(name)
        if table is None:
            return lists
        return table.lists.united(lists, table.facts.find(facts, len(lists)), lists.numbers)

    def _is_untimed(self, name: str, facts: IdColumns) -> Truths:
        """Which facts are explicit in the engine, without times."""
        engine, count = self.store.engine, facts.shape[1]
        if name not in engine.storage.relations():
            return np.zeros(count, bool)
        is_explicit: Truths = (engine.storage.row_flags(name, list(facts), count) & EXPLICIT) != 0
        return is_explicit

    def _rows(self, name: str, facts: IdColumns, lists: IntervalLists) -> tuple[str, TimedRows]:
        owners, left, right = lists.rows()
        times = RowTimes(self.store.timeline, left, right)
        return name, TimedRows(tuple(facts[:, owners]), len(left), times)

    def _late(self, update: TimedUpdate) -> list[Diagnostic]:
        """Diagnostics for facts at times that are final."""
        faults: list[Diagnostic] = []
        if self.final == -INFINITY:
            return faults
        for name, rows in (*update.removed, *update.added):
            assert rows.times is not None
            left, right = rows.times.on(self.store.timeline)
            final_rows = np.flatnonzero(left < self.final)
            if len(final_rows):
                texts = self._texts(name, _table(rows)[:, final_rows], left[final_rows], right[final_rows])
                point = self.store.timeline.decode(self.final, INFINITY)
                time = point.write(point.start, "")
                message = f"{texts}: what was before {time} is final, as time has advanced to it"
                faults.append(Diagnostic(FINAL_TIME, message, help=IGNORE_MISSING))
        return faults

    def _texts(self, name: str, columns: IdColumns, left: Integers, right: Integers) -> str:
        """The first few facts with their times, as text."""
        decode, values = self.store.timeline.decode, self.store.engine.storage.dictionary.decode
        texts = []
        for number in range(min(SHOWN, len(left))):
            row = ", ".join(str(values(int(column[number])).content) for column in columns)
            texts.append(f"`{name}({row})@{decode(int(left[number]), int(right[number]))}`")
        more = f" and {len(left) - SHOWN:,} more" if len(left) > SHOWN else ""
        return f"{', '.join(texts)}{more}"


def _table(rows: Rows) -> IdColumns:
    columns: IdColumns = np.array(rows.columns, np.int32).reshape(len(rows.columns), rows.count)
    return columns


def _append(where: list[tuple[str, TimedRows]], item: tuple[str, TimedRows]) -> None:
    if item[1].count:
        where.append(item)


@dataclass(frozen=True, slots=True, eq=False)
class GivenBefore:
    """Facts of one predicate that a transaction modifies, and their explicit times before it."""

    modified: NumberedRows
    columns: IdColumns
    times: RowTimes


def given_before(store: TimedStore, update: TimedUpdate) -> dict[str, GivenBefore]:
    """The explicit facts that a transaction changes, by predicate; the cost is that of the changes."""
    changes = (*update.removed, *update.added)
    names = dict.fromkeys((*(name for name, _ in changes), *update.replaced))
    return {
        name: _before(store, name, [rows for other, rows in changes if other == name], update)
        for name in names
    }


def _before(store: TimedStore, name: str, parts: Sequence[TimedRows], update: TimedUpdate) -> GivenBefore:
    table = store.explicit.get(name)
    if table is None:
        table = TimedTable(name, len(parts[0].columns) if parts else 0)
    modified = NumberedRows(table.arity)
    if name in update.replaced:
        numbers, _ = table.holding()
        modified.find_or_add(table.facts.columns[:, numbers], len(numbers))
    for rows in parts:
        modified.find_or_add(np.array(rows.columns, np.int32).reshape(table.arity, rows.count), rows.count)
    numbers = table.facts.find(modified.columns[:, : modified.rows], modified.rows)
    numbers = numbers[numbers >= 0]
    owners, left, right = table.lists.take(numbers).rows()
    return GivenBefore(
        modified, table.facts.columns[:, numbers[owners]], RowTimes(store.timeline, left, right)
    )


def restore_given(store: TimedStore, before: Mapping[str, GivenBefore]) -> None:
    """Restore the explicit facts from before a transaction in new tables."""
    restored: dict[str, TimedTable] = {}
    for name, table in store.explicit.items():
        columns, left, right = table.rows()
        if name in before:
            former = before[name]
            is_unchanged = former.modified.find(columns, len(left)) < 0
            ends = former.times.on(store.timeline)
            columns = np.hstack([columns[:, is_unchanged], former.columns])
            left, right = (
                np.concatenate(ends)
                for ends in ((left[is_unchanged], ends[0]), (right[is_unchanged], ends[1]))
            )
        restored[name] = TimedTable.of(name, tuple(columns), left, right)
    store.explicit = restored
