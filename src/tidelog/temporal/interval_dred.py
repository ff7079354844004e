"""Delete and rederive (DRed) over intervals.

Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993, section 7, with facts at time
points in place of facts, as DRed_MTL does.

Points that have lost an instance are deleted, and all points derived from them; then points that are
explicit, or still have an instance among the remaining ones, are inserted again, with all points derived from
them and from new ones. This is done component by component.

Invariant: before and after a transaction, the tables hold the least model of the rules over the explicit
facts, within the horizon if there is one.

A table below a component goes from OLD by way of MID = OLD ∩ NEW to NEW: during overdeletion it holds MID and
records the points that it lost; during insertion it holds NEW and records those that it gained. Under
negation it is the reverse: OLD, OLD ∪ NEW, NEW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from enum import Enum

import numpy as np

from tidelog.logic.program import Assignment
from tidelog.plan.algebra import Part
from tidelog.records import dataclass
from tidelog.temporal.body_evaluation import BodyEvaluation, DrivingAtom, ExpressionEvaluator, head_facts
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.interval_bindings import IntervalBindings
from tidelog.temporal.interval_table import IdColumns, Integers, IntervalLists, TimedTable, select
from tidelog.temporal.metric_rules import CompiledMetricRule, Leaf, SingleAtom
from tidelog.temporal.timed_store import (
    NOTHING,
    IntervalBuffer,
    IntervalDelta,
    IntervalJournal,
    TimedComponent,
    TimedSchedule,
    TimedStore,
)

Deltas = Mapping[str, IntervalDelta]  # by predicate


def maintain(task: ComponentTask) -> None:
    """Overdelete, rederive, insert."""
    deleted = overdelete(task)
    insert(task, rederive(task, deleted))


def overdelete(task: ComponentTask) -> IntervalBuffer:
    """Delete the points that lost an instance and have no proof from below, with all that follow from them;
    return them.
    """
    deleted = IntervalBuffer()
    with task.lower_tables_at_mid():
        pending = task.from_below(IntervalStep.LOST)
        task.add(pending, task.removed)
        for name, points in task.propagate(IntervalStep.OVERDELETE, pending):
            deleted.add(name, points.numbers, points.lists)
    return deleted


def rederive(task: ComponentTask, deleted: IntervalBuffer) -> IntervalBuffer:
    """The deleted points that follow from the remaining ones by a recursive rule, in one step."""
    task.step = IntervalStep.REDERIVE
    supported = IntervalBuffer()
    for name in deleted.names:
        rules = task.component.recursive[name]
        if rules:
            points = deleted.of(name)
            points = points.without(task.not_derived(rules, points))
            supported.add(name, points.numbers, points.lists)
    return supported


def insert(task: ComponentTask, pending: IntervalBuffer) -> None:
    """Insert the pending points, those that follow from below and new explicit ones, with all that follow."""
    task.from_below(IntervalStep.GAINED, pending)
    task.add(pending, task.added)
    for _ in task.propagate(IntervalStep.INSERT, pending):
        pass


class IntervalStep(Enum):
    """The changes that drive the rules of a component, and the states that these read."""

    LOST = "lost"  # points that tables below lost, and removed rules
    OVERDELETE = "overdelete"  # points of the component that were deleted
    REDERIVE = "rederive"  # not driven: whole bodies are evaluated for deleted points
    GAINED = "gained"  # points that tables below gained, and added rules
    INSERT = "insert"  # points of the component that were inserted

    @property
    def is_insertion(self) -> bool:
        """Whether facts are read as they are after the transaction."""
        return self is not IntervalStep.LOST and self is not IntervalStep.OVERDELETE

    @property
    def is_from_below(self) -> bool:
        """Whether tables below drive the rules."""
        return self is IntervalStep.LOST or self is IntervalStep.GAINED


@dataclass(slots=True)
class ComponentTask:
    """One component of one transaction, and the means to maintain it; its rules read through it. Mutable."""

    component: TimedComponent
    removed: Deltas  # points that are no longer explicit
    added: Deltas  # points that are newly explicit
    transaction: IntervalMaintenance
    step: IntervalStep = IntervalStep.LOST
    proven: dict[str, ProvenPoints] = field(default_factory=dict)  # by predicate

    def add(self, pending: IntervalBuffer, changes: Deltas) -> None:
        """Add changed explicit points of the component to pending ones."""
        for name in self.component.heads:
            if name in changes:
                pending.add(name, changes[name].numbers, changes[name].lists)

    @contextmanager
    def lower_tables_at_mid(self) -> Iterator[None]:
        """Within the block, tables below lack gained points; after an error the journal restores them."""
        gained = self.transaction.gained
        tables = [(self._table(name), gained[name]) for name in self.component.read if name in gained]
        for table, points in tables:
            table.lose(points.numbers, points.lists)
        yield
        for table, points in tables:
            table.gain(points.numbers, points.lists)

    def from_below(self, step: IntervalStep, pending: IntervalBuffer | None = None) -> IntervalBuffer:
        """Add to pending points the heads of instances that broke, or are new, by tables below and rules."""
        self.step = step
        pending = IntervalBuffer() if pending is None else pending
        component = self.component
        if step is IntervalStep.GAINED:
            changes, rules, part = self.transaction.gained, component.added, Part.NOW
        else:
            changes, rules, part = self.transaction.lost, component.removed, Part.BEFORE
        tables = {name: self._table(name) for name in component.read if name in changes}
        for name, table in tables.items():
            table.note(changes[name].numbers, changes[name].lists, is_gain=step is IntervalStep.GAINED)
        for rule in rules:
            for body in rule.bodies:
                self._collect(pending, rule, self._evaluation.whole(body, part=part))
        for name in component.read:
            if name in self.transaction.lost or name in self.transaction.gained:
                self._drive(pending, name)
        for table in tables.values():
            table.forget_change()
        return pending

    def propagate(self, step: IntervalStep, pending: IntervalBuffer) -> Iterator[tuple[str, IntervalDelta]]:
        """Apply pending points to tables and add points derived from them, up to the fixpoint; yield changes.

        One table changes at a time, so that all others stay as they are while it drives rules.
        """
        self.step = step
        change = self.transaction.gain if step is IntervalStep.INSERT else self._delete_unproven
        while pending:
            for name in self.component.heads:
                points = pending.pop(name)
                table = self._table(name)
                points = change(table, points) if points else points
                if points:
                    table.note(points.numbers, points.lists, is_gain=step is IntervalStep.INSERT)
                    self._drive(pending, name)
                    table.forget_change()
                    yield name, points

    def not_derived(self, rules: Sequence[CompiledMetricRule], points: IntervalDelta) -> IntervalDelta:
        """The points among these that follow by none of some rules."""
        for rule in rules:
            if not points:
                break
            if rule.single is None:
                points = points.without(self._derived_by(rule, points))
            else:
                points = self._without_single(rule, rule.single, points)
        return points

    def _without_single(
        self, rule: CompiledMetricRule, single: SingleAtom, points: IntervalDelta
    ) -> IntervalDelta:
        """The points that do not follow by the single atom of a rule: its facts are read up to the first that
        leave no point.
        """
        heads = self._table(rule.head).facts.columns
        atoms = self._table(single.leaf.predicate)
        keys = single.places, single.positions
        lists = atoms.without_matches(points.lists, heads, points.numbers, *keys, single.by)
        return IntervalDelta(points.numbers, lists).holding()

    def _delete_unproven(self, table: TimedTable, points: IntervalDelta) -> IntervalDelta:
        """Delete the points of a table that are neither explicit nor follow from tables below; return them.

        The others stay, whatever else is deleted. They are remembered: a recursion may come back to them.
        """
        points = IntervalDelta(*table.held(points.numbers, points.lists))
        if points and self._may_be_proven(table.name):
            proven = self.proven.setdefault(table.name, ProvenPoints())
            tested = proven.exclude(points)
            points = self._without_explicit(table, tested)
            points = self.not_derived(self.component.nonrecursive[table.name], points)
            if self.component.is_recursive:
                proven.add(tested, points)
        self.transaction.lose(table, points)
        return points

    def _may_be_proven(self, name: str) -> bool:
        """Whether facts of a predicate may be explicit, or follow by a rule from tables below."""
        return bool(self.component.nonrecursive[name]) or self.transaction.store.has_explicit(name)

    def _without_explicit(self, table: TimedTable, points: IntervalDelta) -> IntervalDelta:
        """The points that are not explicit."""
        store = self.transaction.store
        if not points or not store.has_explicit(table.name):
            return points
        return points.without(IntervalDelta(points.numbers, store.explicit_lists(table, points.numbers)))

    def _derived_by(self, rule: CompiledMetricRule, points: IntervalDelta) -> IntervalDelta:
        """The points among these that follow by a rule."""
        columns = self._table(rule.head).facts.columns[:, points.numbers]
        start = head_bindings(rule, columns, points.lists.shifted(*rule.back))
        buffer = IntervalBuffer()
        for body in rule.bodies:
            self._collect(buffer, rule, self._evaluation.whole(body, start))
        derived = buffer.of(rule.head)
        lists = derived.lists.intersected(
            points.lists, derived.lists.numbers, points.positions(derived.numbers)
        )
        return IntervalDelta(derived.numbers, lists).holding()

    def _drive(self, pending: IntervalBuffer, name: str) -> None:
        """Add the heads of bodies that the change of a table drives."""
        if self.step.is_insertion:
            bodies, early, late = self.component.after, Part.BEFORE, Part.NOW
        else:
            bodies, early, late = self.component.before, Part.NOW, Part.BEFORE
        is_overdeletion = self.step is IntervalStep.OVERDELETE
        for driven in bodies.get(name, ()):
            if driven.rule.single is not None and not len(driven.rule.single.by):
                self._copy(pending, driven.rule, driven.rule.single)
            elif len(self.changed(driven.leaf)[0]):
                driver = DrivingAtom(driven.leaf, early, late, is_overdeletion)
                self._collect(pending, driven.rule, self._evaluation.driven(driven.body, driver))
                self.transaction.check()

    def _copy(self, pending: IntervalBuffer, rule: CompiledMetricRule, single: SingleAtom) -> None:
        """Add the heads of a body that is an atom whose points are those of the head."""
        numbers, change = self.changed(single.leaf)
        if len(numbers):
            rows = select(self.table(single.leaf).facts.columns, single.sources, numbers)
            self._add_clipped(pending, rule.head, self._table(rule.head).number(rows), change)

    def _collect(self, pending: IntervalBuffer, rule: CompiledMetricRule, bindings: IntervalBindings) -> None:
        self._add_clipped(pending, rule.head, *head_facts(rule, bindings, self.transaction.store))

    def _add_clipped(
        self, pending: IntervalBuffer, name: str, numbers: Integers, lists: IntervalLists
    ) -> None:
        """Add derived facts, without points beyond the horizon."""
        horizon = self.transaction.horizon
        pending.add(name, numbers, lists if horizon is None else horizon.clip(lists))

    @property
    def _evaluation(self) -> BodyEvaluation:
        """Made for each use: a cached one would be a cycle of references."""
        return BodyEvaluation(self, ExpressionEvaluator(self.transaction.store.engine))

    def _table(self, name: str) -> TimedTable:
        return self.transaction.store.tables[name]

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""
        return self._table(leaf.predicate)

    def changed(self, leaf: Leaf) -> tuple[Integers, IntervalLists]:
        """The facts that just changed, and the points that they gained or lost."""
        if not leaf.is_negated:
            table = self._table(leaf.predicate)
            return table.changed, table.change
        changes = self.transaction.lost if self.step.is_insertion else self.transaction.gained
        change = changes.get(leaf.predicate, NOTHING) if self.step.is_from_below else NOTHING
        return change.numbers, change.lists

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> IntervalLists:
        """The intervals of facts, `Part.NOW` or `Part.BEFORE` the change that drives the rules."""
        table = self._table(leaf.predicate)
        if not leaf.is_negated:
            return table.read(numbers, part)
        lists = table.lists.take(numbers)
        is_before = part is Part.BEFORE and self.step.is_from_below
        lost = self.transaction.lost.get(leaf.predicate)
        gained = self.transaction.gained.get(leaf.predicate)
        if self.step.is_insertion:  # the table holds NEW, and held OLD ∪ NEW
            return _united(lists, numbers, lost if is_before else None)
        # The table holds MID: it held OLD, and to rules it appears to hold OLD ∪ NEW.
        return _united(_united(lists, numbers, lost), numbers, None if is_before else gained)


def _united(lists: IntervalLists, numbers: Integers, points: IntervalDelta | None) -> IntervalLists:
    if points is None:
        return lists
    return lists.united(points.lists, lists.numbers, points.positions(numbers))


class ProvenPoints:
    """Points of a table that stay, since they are explicit or follow from tables below. Mutable: it grows."""

    def __init__(self) -> None:
        self._points = TimedTable("", 1)  # by the numbers of facts
        self._last: tuple[IntervalDelta, IntervalDelta] | None = None  # not added yet: most are not asked for

    def exclude(self, points: IntervalDelta) -> IntervalDelta:
        """The points that are not among these."""
        if self._last is not None:
            tested, unproven = self._last
            proven = tested.without(unproven)
            if proven:
                self._points.gain(self._points.number(_as_rows(proven.numbers)), proven.lists)
            self._last = None
        if not len(self._points):
            return points
        positions = self._points.facts.find(_as_rows(points.numbers), len(points.numbers))
        lists = points.lists.without(self._points.lists, points.lists.numbers, positions)
        return IntervalDelta(points.numbers, lists).holding()

    def add(self, tested: IntervalDelta, unproven: IntervalDelta) -> None:
        """Add the points that were tested, but for the unproven ones; those before were asked for."""
        self._last = tested, unproven


def _as_rows(numbers: Integers) -> IdColumns:
    return numbers.astype(np.int32)[np.newaxis]


def head_bindings(
    rule: CompiledMetricRule, columns: IdColumns, lists: IntervalLists
) -> IntervalBindings | None:
    """The bindings of a head's variables that make it facts, at the times of lists.

    None if the head has a variable twice, or a function computes one: then bodies are evaluated as a whole.
    """
    names = [term for term in rule.terms if isinstance(term, str)]
    computed = {
        test.variable.name for body in rule.bodies for test in body.tests if isinstance(test, Assignment)
    }
    if len(set(names)) < len(names) or computed & set(names):
        return None
    is_match = np.ones(columns.shape[1], bool)
    for position, term in enumerate(rule.terms):
        if isinstance(term, int):
            is_match &= columns[position] == term
    rows = np.flatnonzero(is_match)
    positions = [position for position, term in enumerate(rule.terms) if isinstance(term, str)]
    return IntervalBindings(tuple(names), select(columns, positions, rows), lists.take(rows)).holding()


@dataclass(slots=True)
class IntervalMaintenance:
    """A transaction that is applied to the tables of a store. Mutable."""

    store: TimedStore
    schedule: TimedSchedule
    check: Callable[[], None]
    horizon: Horizon | None = None
    journal: IntervalJournal = field(default_factory=IntervalJournal)
    lost: dict[str, IntervalDelta] = field(default_factory=dict)  # by tables that are maintained
    gained: dict[str, IntervalDelta] = field(default_factory=dict)

    def run(
        self, removed: Deltas, added: Deltas
    ) -> tuple[dict[str, IntervalDelta], dict[str, IntervalDelta]]:
        """Apply changes of explicit points; return the points that tables lost and gained."""
        for name in (removed.keys() | added.keys()) - self.schedule.heads:  # no rule derives these
            self.lose(self.store.tables[name], removed.get(name, NOTHING))
            self.gain(self.store.tables[name], added.get(name, NOTHING))
            self._finish(name)
        for component in self.schedule.components:
            if self._is_affected(component, removed, added):
                maintain(ComponentTask(component, removed, added, self))
                for name in component.heads:
                    self._finish(name)
        return self.lost, self.gained

    def _is_affected(self, component: TimedComponent, removed: Deltas, added: Deltas) -> bool:
        """Whether a relation that a component depends on has changed."""
        if component.removed or component.added:
            return True
        if any(name in removed or name in added for name in component.heads):
            return True
        return any(name in self.lost or name in self.gained for name in component.read)

    def lose(self, table: TimedTable, points: IntervalDelta) -> None:
        """Delete points of a table."""
        self.journal.note(table, points.numbers)
        table.lose(points.numbers, points.lists)

    def gain(self, table: TimedTable, points: IntervalDelta) -> IntervalDelta:
        """Add points to a table; return those that it did not have."""
        self.journal.note(table, points.numbers)
        return IntervalDelta(*table.gain(points.numbers, points.lists))

    def _finish(self, name: str) -> None:
        """Record all points that a table lost and gained."""
        lost, gained = self.journal.net(self.store.tables[name])
        if lost:
            self.lost[name] = lost
        if gained:
            self.gained[name] = gained
