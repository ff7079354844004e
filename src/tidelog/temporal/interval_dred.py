"""Maintenance over time: what follows is kept right when facts and rules come and go.

Delete and rederive (Gupta, Mumick, Subrahmanian, SIGMOD 1993) over sets of time points, as DRed_MTL does:
component by component, first all points are taken away that had a derivation which lost something, then those
are put back that are given or still follow in one step, and what follows from these and from what is new is
inserted.

Invariant: before and after, the tables hold the least model of the rules over the facts given, within the
horizon if there is one.

A table below a component goes from OLD by way of MID = OLD ∩ NEW to NEW: while points are taken away it
stands at MID and knows what it lost; while points are inserted it stands at NEW and knows what it gained.
What a rule negates goes the other way round: OLD, OLD ∪ NEW, NEW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from tidelog.logic.program import Assignment
from tidelog.plan.algebra import Part
from tidelog.temporal.body_evaluation import (
    BodyEvaluation,
    DrivingAtom,
    ExpressionEvaluator,
    IntervalBuffer,
    head_facts,
)
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalBindings,
    IntervalLists,
    TimedTable,
    nothing,
    picked,
)
from tidelog.temporal.metric_rules import CompiledMetricRule, Leaf
from tidelog.temporal.timed_store import DrivenBodies, DrivenBody, TimedComponent, TimedSchedule, TimedStore

EPOCHS = count(1)  # of transactions
NONE: Integers = np.zeros(0, np.int64)
LOSING = (Part.NOW, Part.BEFORE)  # how atoms before and behind the driving one are read
GAINING = (Part.BEFORE, Part.NOW)


@dataclass(frozen=True, slots=True, eq=False)
class IntervalDelta:
    """Distinct facts of a table by number, in order, and points of each."""

    numbers: Integers = field(default_factory=lambda: NONE)
    lists: IntervalLists = field(default_factory=nothing)

    def __bool__(self) -> bool:
        return len(self.numbers) > 0

    def without(self, other: IntervalDelta) -> IntervalDelta:
        """The points that the other does not have."""
        if not other:
            return self
        return _holding(
            self.numbers, self.lists.without(other.lists, self.lists.numbers, other.places(self.numbers))
        )

    def places(self, numbers: Integers) -> Integers:
        """Where facts stand here; -1 where they do not."""
        if not len(self.numbers):
            return np.full(len(numbers), -1)
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[places] == numbers, places, -1)


NOTHING = IntervalDelta()


class IntervalJournal:
    """The lists of facts as they were before the transaction. Mutable: it grows as facts are touched."""

    def __init__(self) -> None:
        self._parts: dict[TimedTable, list[tuple[Integers, IntervalLists]]] = {}
        self._epoch = next(EPOCHS)

    def note(self, table: TimedTable, numbers: Integers) -> None:
        """Note facts that are about to change, unless they are noted."""
        new = table.stamp(numbers, self._epoch)
        if len(new):
            lists = table.lists.taken(new)
            _, left, right = lists.rows()
            kept = IntervalLists(np.cumsum(lists.count) - lists.count, lists.count, left, right)
            self._parts.setdefault(table, []).append((new, kept))

    def undo(self) -> None:
        """Restore all facts as they were before the transaction."""
        for table, parts in self._parts.items():
            table.forget_change()
            for numbers, lists in parts:
                table.replace(numbers, lists)

    def grown(self, tables: Iterable[TimedTable]) -> int:
        """How many intervals tables have more than before the transaction."""
        return sum(
            int(table.lists.count[numbers].sum()) - lists.size
            for table in tables
            for numbers, lists in self._parts.get(table, ())
        )

    def before(self, table: TimedTable) -> IntervalDelta:
        """The facts of a table that were noted, as they were."""
        derived = IntervalBuffer()
        for numbers, lists in self._parts.get(table, ()):
            derived.add(table.name, numbers, lists)
        return IntervalDelta(*derived.of(table.name))

    def net(self, table: TimedTable) -> tuple[IntervalDelta, IntervalDelta]:
        """What a table lost and gained since the transaction began."""
        noted = self.before(table)
        if not noted:
            return NOTHING, NOTHING
        numbers, before = noted.numbers, noted.lists
        every = before.numbers
        return (
            _holding(numbers, before.without(table.lists, every, numbers)),
            _holding(numbers, table.lists.without(before, numbers, every)),
        )


@dataclass(slots=True)
class IntervalMaintenance:
    """A transaction being worked in. Mutates the store."""

    store: TimedStore
    schedule: TimedSchedule
    check: Callable[[], None]
    horizon: Horizon | None = None
    journal: IntervalJournal = field(default_factory=IntervalJournal)
    _lost: dict[str, IntervalDelta] = field(default_factory=dict)  # by tables that are finished
    _gained: dict[str, IntervalDelta] = field(default_factory=dict)
    _is_insertion: bool = False
    _is_first: bool = False  # the pass in which what changed below is looked at

    def run(
        self, removed: Mapping[str, IntervalDelta], added: Mapping[str, IntervalDelta]
    ) -> tuple[dict[str, IntervalDelta], dict[str, IntervalDelta]]:
        """What all tables lost and gained by points that are no longer given, and newly given."""
        for name in (removed.keys() | added.keys()) - self.schedule.heads:
            self._settle(name, removed.get(name, NOTHING), added.get(name, NOTHING))
        for part in self.schedule.components:
            if self._is_touched(part, removed, added):
                doubtful = self._overdelete(part, removed)
                self._insert(part, doubtful, added)
                for name in part.heads:
                    self._finish(name)
        return self._lost, self._gained

    def _is_touched(self, part: TimedComponent, *given: Mapping[str, IntervalDelta]) -> bool:
        """Whether anything that a component depends on has changed."""
        if part.gone or part.new or any(name in points for points in given for name in part.heads):
            return True
        return any(name in self._lost or name in self._gained for name in part.read)

    # ---- tables that no rule derives

    def _settle(self, name: str, removed: IntervalDelta, added: IntervalDelta) -> None:
        table = self.store.tables[name]
        self._lose(table, removed)
        self._gain(table, added)
        self._finish(name)

    def _finish(self, name: str) -> None:
        lost, gained = self.journal.net(self.store.tables[name])
        if lost:
            self._lost[name] = lost
        if gained:
            self._gained[name] = gained

    def _lose(self, table: TimedTable, points: IntervalDelta) -> IntervalDelta:
        self.journal.note(table, points.numbers)
        return IntervalDelta(*table.lose(points.numbers, points.lists))

    def _gain(self, table: TimedTable, points: IntervalDelta) -> IntervalDelta:
        self.journal.note(table, points.numbers)
        return IntervalDelta(*table.gain(points.numbers, points.lists))

    # ---- taking away

    def _overdelete(self, part: TimedComponent, removed: Mapping[str, IntervalDelta]) -> IntervalBuffer:
        """Take away all points of a component that had a derivation which lost something."""
        self._is_insertion, self._is_first = False, True
        arriving = [name for name in part.read if name in self._gained]
        for name in arriving:
            points = self._gained[name]
            self.store.tables[name].lose(points.numbers, points.lists)  # to MID; it comes back
        waiting = IntervalBuffer()
        with self._noted(part, self._lost, is_gain=False):
            for ready in part.gone:
                for body in ready.bodies:
                    self._collect(waiting, ready, self._evaluation.whole(body, part=Part.BEFORE))
            for name in part.read:
                self._drive(waiting, part.before.get(name, ()), LOSING)
        self._is_first = False
        for name in part.heads:
            if name in removed:
                waiting.add(name, removed[name].numbers, removed[name].lists)
        doubtful = IntervalBuffer()
        for name, lost in self._passed_on(part.heads, waiting, part.before, self._lose, LOSING):
            doubtful.add(name, lost.numbers, lost.lists)
        for name in arriving:
            points = self._gained[name]
            self.store.tables[name].gain(points.numbers, points.lists)
        return doubtful

    # ---- putting back, and inserting

    def _insert(
        self, part: TimedComponent, doubtful: IntervalBuffer, added: Mapping[str, IntervalDelta]
    ) -> None:
        """Put back what is given or still follows, and insert what is new."""
        self._is_insertion, self._is_first = True, True
        waiting = IntervalBuffer()
        for name in doubtful.names:
            self._rederive(waiting, name, IntervalDelta(*doubtful.of(name)), part.rules[name])
        with self._noted(part, self._gained, is_gain=True):
            for ready in part.new:
                for body in ready.bodies:
                    self._collect(waiting, ready, self._evaluation.whole(body))
            for name in part.read:
                self._drive(waiting, part.after.get(name, ()), GAINING)
        self._is_first = False
        for name in part.heads:
            if name in added:
                waiting.add(name, added[name].numbers, added[name].lists)
        for _ in self._passed_on(part.heads, waiting, part.after, self._gain, GAINING):
            pass

    def _rederive(
        self, waiting: IntervalBuffer, name: str, points: IntervalDelta, rules: Sequence[CompiledMetricRule]
    ) -> None:
        """Find those of the points taken away that are given, or follow in one step from what is left."""
        table = self.store.tables[name]
        given = self.store.given_lists(table, points.numbers)
        every = points.lists.numbers
        found = IntervalDelta(points.numbers, points.lists.intersected(given, every, every))
        waiting.add(name, found.numbers, found.lists)
        for ready in rules:
            points = points.without(found)
            if not points:
                return
            found = self._following(ready, table, points)
            waiting.add(name, found.numbers, found.lists)

    def _following(
        self, ready: CompiledMetricRule, table: TimedTable, points: IntervalDelta
    ) -> IntervalDelta:
        """Those of the points that follow by a rule."""
        lists = points.lists
        for by in ready.back:
            lists = lists.moved(by)
        start = _bound(ready, table.facts.columns[:, points.numbers], lists)
        derived = IntervalBuffer()
        for body in ready.bodies:
            self._collect(derived, ready, self._evaluation.whole(body, start))
        numbers, found = derived.of(ready.head)
        return _holding(numbers, found.intersected(points.lists, found.numbers, points.places(numbers)))

    # ---- passing on

    @contextmanager
    def _noted(
        self, part: TimedComponent, changes: Mapping[str, IntervalDelta], *, is_gain: bool
    ) -> Iterator[None]:
        """Note what tables below a component lost or gained, inside the block."""
        tables = {name: self.store.tables[name] for name in part.read if name in changes}
        for name, table in tables.items():
            table.note(changes[name].numbers, changes[name].lists, is_gain=is_gain)
        yield
        for table in tables.values():
            table.forget_change()

    def _passed_on(
        self,
        heads: Sequence[str],
        waiting: IntervalBuffer,
        drives: DrivenBodies,
        change: Callable[[TimedTable, IntervalDelta], IntervalDelta],
        states: tuple[Part, Part],
    ) -> Iterator[tuple[str, IntervalDelta]]:
        """Change tables by what waits for them, and let rules find what follows; gives what has changed.

        One table changes at a time, so that all others stand still while it drives rules.
        """
        while waiting:
            for name in heads:
                points = IntervalDelta(*waiting.take(name))
                table = self.store.tables[name]
                points = change(table, points) if points else points
                if points:
                    table.note(points.numbers, points.lists, is_gain=self._is_insertion)
                    self._drive(waiting, drives.get(name, ()), states)
                    table.forget_change()
                    yield name, points

    def _drive(
        self, derived: IntervalBuffer, drives: Iterable[DrivenBody], states: tuple[Part, Part]
    ) -> None:
        """Add what bodies lead to by what just changed."""
        for drive in drives:
            if len(self.changed(drive.leaf)[0]):
                driver = DrivingAtom(
                    drive.leaf, *states, is_doubted=not self._is_insertion and not self._is_first
                )
                groups = self._evaluation.driven(drive.body, driver)
                self._collect(derived, drive.ready, groups)
                self.check()

    def _collect(self, derived: IntervalBuffer, ready: CompiledMetricRule, groups: IntervalBindings) -> None:
        numbers, lists = head_facts(ready, groups, self.store)
        derived.add(ready.head, numbers, lists if self.horizon is None else self.horizon.clip(lists))

    @property
    def _evaluation(self) -> BodyEvaluation:
        """Made when it is needed: kept, it would keep a transaction alive that is over."""
        return BodyEvaluation(self, ExpressionEvaluator(self.store.engine))

    # ---- reading, as rules do

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""
        return self.store.tables[leaf.predicate]

    def changed(self, leaf: Leaf) -> tuple[Integers, IntervalLists]:
        """The facts that just changed, and by what."""
        if not leaf.is_negated:
            table = self.store.tables[leaf.predicate]
            return table.changed, table.change
        differences = self._lost if self._is_insertion else self._gained
        found = differences.get(leaf.predicate) if self._is_first else None
        return (NONE, nothing()) if found is None else (found.numbers, found.lists)

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> IntervalLists:
        """When facts hold, in a state."""
        table = self.store.tables[leaf.predicate]
        if not leaf.is_negated:
            return table.read(numbers, part)
        lists = table.lists.taken(numbers)
        is_changing = part is Part.BEFORE and self._is_first
        if self._is_insertion:
            return self._with(lists, numbers, self._lost.get(leaf.predicate) if is_changing else None)
        lists = self._with(lists, numbers, self._lost.get(leaf.predicate))
        return self._with(lists, numbers, None if is_changing else self._gained.get(leaf.predicate))

    def _with(self, lists: IntervalLists, numbers: Integers, points: IntervalDelta | None) -> IntervalLists:
        if points is None:
            return lists
        return lists.united(points.lists, lists.numbers, points.places(numbers))


def _holding(numbers: Integers, lists: IntervalLists) -> IntervalDelta:
    kept = np.flatnonzero(lists.count > 0)
    return IntervalDelta(numbers[kept], lists.taken(kept))


def _bound(ready: CompiledMetricRule, columns: IdColumns, lists: IntervalLists) -> IntervalBindings | None:
    """The variables of a head, bound to facts; None if it has a variable twice or a function computes one."""
    names = [term for term in ready.terms if isinstance(term, str)]
    computed = {
        test.variable.name for body in ready.bodies for test in body.tests if isinstance(test, Assignment)
    }
    if len(set(names)) < len(names) or computed & set(names):
        return None
    fitting = np.ones(columns.shape[1], bool)
    for place, term in enumerate(ready.terms):
        if isinstance(term, int):
            fitting &= columns[place] == term
    kept = np.flatnonzero(fitting)
    places = [place for place, term in enumerate(ready.terms) if isinstance(term, str)]
    return IntervalBindings(tuple(names), picked(columns, places, kept), lists.taken(kept)).holding()
