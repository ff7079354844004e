"""The facts of a temporal program: explicit ones, all facts that hold, and their timeline; the changes of a
transaction; the schedule by which rules propagate changes.

A schedule has components, sets of predicates that depend on each other, each after those that it depends on.
Facts that a component loses are rederived before other components see the loss, and a component is maintained
after all predicates that it reads, so that few passes are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import count
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from tidelog.logic.expressions import intervals_of
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Program
from tidelog.logic.strata import components, dependency_graph
from tidelog.plan.algebra import Part
from tidelog.records import dataclass
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalLists,
    TimedTable,
    Timeline,
    all_time,
    concatenate,
    empty_lists,
    single,
)
from tidelog.temporal.metric_rules import Body, CompiledMetricRule, Leaf, compile_metric_rule

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

TRANSACTIONS = count(1)  # their numbers, in this process
NO_FACTS: Integers = np.zeros(0, np.int64)


class IntervalBuffer:
    """Facts by number with intervals, predicate by predicate, collected in parts. Mutable: it grows."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[Integers, IntervalLists]]] = {}

    def add(self, name: str, numbers: Integers, lists: IntervalLists) -> None:
        """Add facts of a predicate, possibly with repetitions, and their intervals."""
        if len(numbers):
            self._parts.setdefault(name, []).append((numbers, lists))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def pop(self, name: str) -> IntervalDelta:
        """Remove the facts of a predicate, and return them."""
        delta = self.of(name)
        self._parts.pop(name, None)
        return delta

    def of(self, name: str) -> IntervalDelta:
        """The distinct facts of a predicate, in order of their numbers, with all their points."""
        parts = self._parts.get(name, [])
        if not parts:
            return NOTHING
        if len(parts) == 1:
            numbers, lists = parts[0]
            return IntervalDelta(*lists.grouped(numbers))
        numbers = np.concatenate([numbers for numbers, _ in parts])
        return IntervalDelta(*concatenate([lists for _, lists in parts]).grouped(numbers))

    @property
    def names(self) -> tuple[str, ...]:
        """The predicates with facts."""
        return tuple(self._parts)


@dataclass(frozen=True, slots=True, eq=False)
class IntervalDelta:
    """Distinct facts of a table in order of their numbers, with some points of each."""

    numbers: Integers = field(default_factory=lambda: NO_FACTS)
    lists: IntervalLists = field(default_factory=empty_lists)

    def __bool__(self) -> bool:
        return len(self.numbers) > 0

    def without(self, other: IntervalDelta) -> IntervalDelta:
        """The points that the other does not have."""
        if not other:
            return self
        every = self.lists.numbers
        lists = self.lists.without(other.lists, every, other.positions(self.numbers))
        return IntervalDelta(self.numbers, lists).holding()

    def holding(self) -> IntervalDelta:
        """The facts that have points."""
        nonempty = self.lists.nonempty
        if len(nonempty) == len(self.numbers):
            return self
        return IntervalDelta(self.numbers[nonempty], self.lists.take(nonempty))

    def positions(self, numbers: Integers) -> Integers:
        """The positions of facts; -1 where they are missing."""
        if not len(self.numbers):
            return np.full(len(numbers), -1)
        positions = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[positions] == numbers, positions, -1)


NOTHING = IntervalDelta()


class IntervalJournal:
    """The lists of facts as they were before a transaction, to roll it back. Mutable: it grows."""

    def __init__(self) -> None:
        self._parts: dict[TimedTable, list[tuple[Integers, IntervalLists]]] = {}
        self._transaction = next(TRANSACTIONS)

    def note(self, table: TimedTable, numbers: Integers) -> None:
        """Record facts that are about to change, unless they are recorded."""
        new = table.stamp(numbers, self._transaction)
        if len(new):
            self._parts.setdefault(table, []).append((new, table.lists.take(new).copied()))

    def undo(self) -> None:
        """Restore all facts as they were before the transaction."""
        for table, parts in self._parts.items():
            table.forget_change()
            for numbers, lists in parts:
                table.replace(numbers, lists)

    def grown(self, tables: Iterable[TimedTable]) -> int:
        """The number of intervals that the transaction added to tables."""
        return sum(
            int(table.lists.count[numbers].sum()) - lists.size
            for table in tables
            for numbers, lists in self._parts.get(table, ())
        )

    def before(self, table: TimedTable) -> IntervalDelta:
        """The facts of a table that were recorded, as they were before the transaction."""
        buffer = IntervalBuffer()
        for numbers, lists in self._parts.get(table, ()):
            buffer.add(table.name, numbers, lists)
        return buffer.of(table.name)

    def net(self, table: TimedTable) -> tuple[IntervalDelta, IntervalDelta]:
        """The points that a table lost and gained since the transaction began."""
        before = self.before(table)
        if not before:
            return NOTHING, NOTHING
        numbers, every = before.numbers, before.lists.numbers
        lost = before.lists.without(table.lists, every, numbers)
        gained = table.lists.without(before.lists, numbers, every)
        return IntervalDelta(numbers, lost).holding(), IntervalDelta(numbers, gained).holding()


@dataclass(frozen=True, slots=True, eq=False)
class DrivenBody:
    """A body that is driven by one of its atoms."""

    rule: CompiledMetricRule
    body: Body
    leaf: Leaf


DrivenBodies = Mapping[str, Sequence[DrivenBody]]  # by the predicate of the driving atom


@dataclass(frozen=True, slots=True, eq=False)
class TimedComponent:
    """Predicates that depend on each other, and their rules before and after a transaction."""

    heads: tuple[str, ...]  # in the order in which changes are passed on
    before: DrivenBodies
    after: DrivenBodies
    # The rules afterwards, by head: those that read only other components, and those that do not.
    nonrecursive: Mapping[str, Sequence[CompiledMetricRule]]
    recursive: Mapping[str, Sequence[CompiledMetricRule]]
    is_recursive: bool  # before or after the transaction
    removed: Sequence[CompiledMetricRule] = ()
    added: Sequence[CompiledMetricRule] = ()
    read: tuple[str, ...] = field(init=False)  # the predicates of other components that rules read

    def __post_init__(self) -> None:
        names = dict.fromkeys((*self.before, *self.after))
        object.__setattr__(self, "read", tuple(name for name in names if name not in self.heads))


@dataclass(frozen=True, slots=True, eq=False)
class TimedSchedule:
    """The components, each after those that it depends on."""

    before: Sequence[CompiledMetricRule]
    after: Sequence[CompiledMetricRule]
    components: tuple[TimedComponent, ...]
    heads: frozenset[str]


def make_schedule(before: Sequence[CompiledMetricRule], after: Sequence[CompiledMetricRule]) -> TimedSchedule:
    """The schedule of a transaction, by the rules before and after it, compiled for the same timeline."""
    old, new = {compiled.rule for compiled in before}, {compiled.rule for compiled in after}
    graph = dependency_graph(compiled.rule for compiled in (*before, *after))
    old_rules, new_rules = _by_head(before), _by_head(after)
    parts = []
    for names in components(graph):
        earlier = [compiled for name in names for compiled in old_rules.get(name, ())]
        later = [compiled for name in names for compiled in new_rules.get(name, ())]
        driven_before, driven_after = _driven(earlier), _driven(later)
        parts.append(
            TimedComponent(
                _in_order(names, driven_before, driven_after),
                driven_before,
                driven_after,
                *_by_recursion(names, new_rules),
                len(names) > 1 or names[0] in graph[names[0]],
                [compiled for compiled in earlier if compiled.rule not in new],
                [compiled for compiled in later if compiled.rule not in old],
            )
        )
    return TimedSchedule(before, after, tuple(parts), frozenset(graph))


def _by_head(rules: Iterable[CompiledMetricRule]) -> dict[str, list[CompiledMetricRule]]:
    by_head: dict[str, list[CompiledMetricRule]] = {}
    for compiled in rules:
        by_head.setdefault(compiled.head, []).append(compiled)
    return by_head


def _by_recursion(
    names: Sequence[str], rules: Mapping[str, Sequence[CompiledMetricRule]]
) -> tuple[dict[str, list[CompiledMetricRule]], dict[str, list[CompiledMetricRule]]]:
    """The rules of a component, by head: those that read none of its predicates, and those that do."""
    sides: tuple[dict[str, list[CompiledMetricRule]], ...] = tuple({name: [] for name in names} for _ in "01")
    for name in names:
        for compiled in rules.get(name, ()):
            read = {leaf.predicate for body in compiled.bodies for leaf in body.atoms_by_leaf}
            sides[not read.isdisjoint(names)][name].append(compiled)
    return sides[0], sides[1]


def _driven(rules: Iterable[CompiledMetricRule]) -> DrivenBodies:
    by_predicate: dict[str, list[DrivenBody]] = {}
    for compiled in rules:
        for body in compiled.bodies:
            for leaf in body.atoms_by_leaf:
                by_predicate.setdefault(leaf.predicate, []).append(DrivenBody(compiled, body, leaf))
    return by_predicate


def _in_order(names: Sequence[str], *driven: DrivenBodies) -> tuple[str, ...]:
    """The predicates of a component in an order in which few bodies lead from a predicate to an earlier one:
    a change that comes back to an earlier one is passed on once more.

    Eades, Lin, Smyth: A fast and effective heuristic for the feedback arc set problem, 1993: sources first,
    sinks last, and if there are neither, the predicate that leads to others most often, net.
    """
    edges = [(name, each.rule.head) for bodies in driven for name in names for each in bodies.get(name, ())]
    edges = [(source, target) for source, target in edges if source != target]
    waiting = dict.fromkeys(names)
    leaving, entering = Counter(source for source, _ in edges), Counter(target for _, target in edges)
    neighbours: dict[str, list[tuple[str, Counter[str]]]] = {name: [] for name in names}
    for source, target in edges:
        neighbours[source].append((target, entering))
        neighbours[target].append((source, leaving))
    ready = [name for name in names if not (leaving[name] and entering[name])]
    first: list[str] = []
    last: list[str] = []
    while waiting:
        name = ready.pop() if ready else max(waiting, key=lambda name: leaving[name] - entering[name])
        if name not in waiting:
            continue
        del waiting[name]
        (first if leaving[name] else last).append(name)
        for other, degrees in neighbours[name]:
            degrees[other] -= 1
            if not degrees[other]:
                ready.append(other)
    return (*first, *reversed(last))


class TimedStore:
    """Tables of explicit facts and of all facts, by predicate; facts without times are in the engine."""

    def __init__(self, engine: ColumnarEngine, timeline: Timeline) -> None:
        self.engine = engine
        self.timeline = timeline
        self.explicit: dict[str, TimedTable] = {}  # explicit facts with times, by predicate
        self.tables: dict[str, TimedTable] = {}  # all facts, by predicate
        # The last two, by the rules and the timeline that they were compiled from.
        self._compiled: list[tuple[object, Timeline, tuple[CompiledMetricRule, ...]]] = []
        self._schedule: TimedSchedule | None = None  # the last one

    def refine(self, intervals: Iterable[Interval]) -> None:
        """Refine the units of the timeline so that the bounds of these intervals are whole."""
        finer = self.timeline.refined(tuple(intervals))
        if finer.scale != self.timeline.scale:
            self.rescale(finer.scale)
        self.timeline = finer

    def refine_to(self, timeline: Timeline) -> None:
        """Refine the units of the timeline to be as fine as those of another."""
        scale = lcm(self.timeline.scale, timeline.scale)
        if scale != self.timeline.scale:
            self.rescale(scale)
        if timeline.is_calendar and not self.timeline.is_calendar:
            self.timeline = replace(self.timeline, is_calendar=True)

    def rescale(self, scale: int) -> None:
        """Rewrite ends in units of 1 / `scale`, a multiple of the present one."""
        timeline, factor = self.timeline, scale // self.timeline.scale
        explicit, tables = (
            {name: table.rescaled(timeline, factor) for name, table in by_name.items()}
            for by_name in (self.explicit, self.tables)
        )
        finer = Timeline(scale, timeline.is_integer, timeline.is_calendar)
        self.explicit, self.tables, self.timeline = explicit, tables, finer  # all or none

    def add_explicit(self, name: str, columns: IdColumns, count: int, left: Integers, right: Integers) -> int:
        """Add explicit facts, row by row with their ends; return the number of added intervals."""
        table = self.explicit.setdefault(name, TimedTable(name, len(columns)))
        before = len(table)
        numbers, lists = single(left, right).grouped(table.number(columns, count))
        table.gain(numbers, lists)
        return len(table) - before

    def begin(self, program: Program) -> None:
        """Initialise the tables with the explicit facts and those of the engine."""
        arities = {name: program.predicates[name].arity for name in self.predicates(program)}
        self.tables = {name: self.initial_table(name, arity) for name, arity in arities.items()}

    def refine_for_rules(self, program: Program) -> None:
        """Refine the units of the timeline so that the bounds of a program's operators are whole."""
        self.refine(interval for rule in program.timed_rules for interval in intervals_of(rule))

    def predicates(self, program: Program) -> tuple[str, ...]:
        """The predicates that rules over time derive or read, and those that have times."""
        names = (*program.timed, *(name for rule in program.timed_rules for name in rule.read))
        return tuple(name for name in dict.fromkeys(names) if name in program.predicates)

    def initial_table(self, name: str, arity: int) -> TimedTable:
        """The table of a predicate before temporal derivation."""
        table = TimedTable(name, arity)
        if name in self.engine.storage.relations():
            columns, count = self.engine.storage.rows(name)
            if count:
                rows = np.array(columns, np.int32).reshape(arity, count)
                table.gain(table.number(rows, count), all_time(count))
        explicit = self.explicit.get(name)
        if explicit is not None:
            numbers, lists = explicit.holding()
            table.gain(table.number(explicit.facts.columns[:, numbers], len(numbers)), lists)
        return table

    def compiled_rules(self, program: Program) -> tuple[CompiledMetricRule, ...]:
        """The rules of a program over time, compiled for the present timeline."""
        rules = program.timed_rules
        for cached_rules, timeline, compiled in self._compiled:
            if cached_rules is rules and timeline == self.timeline:
                return compiled
        identity = self.engine.storage.dictionary.encode
        compiled = tuple(
            compile_metric_rule(rule, number, self.timeline, identity)
            for number, rule in enumerate(program.rules)
            if rule.head.predicate in program.timed
        )
        self._compiled = [*self._compiled[-1:], (rules, self.timeline, compiled)]
        return compiled

    def schedule(self, before: Program, after: Program) -> TimedSchedule:
        """The schedule of a transaction that leads from one program to another."""
        old, new = self.compiled_rules(before), self.compiled_rules(after)
        cached = self._schedule
        if cached is None or cached.before is not old or cached.after is not new:
            cached = self._schedule = make_schedule(old, new)
        return cached

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""
        return self.tables[leaf.predicate]

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> IntervalLists:
        """The intervals of facts, `Part.NOW` or `Part.BEFORE` the last change."""
        return self.tables[leaf.predicate].read(numbers, part)

    def changed(self, leaf: Leaf) -> tuple[Integers, IntervalLists]:
        """The facts that just changed, and the points that they gained or lost."""
        table = self.tables[leaf.predicate]
        return table.changed, table.change

    def has_explicit(self, name: str) -> bool:
        """Whether a predicate has explicit facts, with times or without."""
        if len(self.explicit.get(name, ())):
            return True
        return name in self.engine.storage.relations() and self.engine.storage.size(name) > 0

    def explicit_lists(self, table: TimedTable, numbers: Integers) -> IntervalLists:
        """The points at which facts of a table are explicit, with times or without."""
        rows = table.facts.columns[:, numbers]
        explicit = self.explicit.get(table.name)
        lists = empty_lists(len(numbers))
        if explicit is not None:
            lists = explicit.lists.united(lists, explicit.facts.find(rows, len(numbers)), lists.numbers)
        if table.name in self.engine.storage.relations() and self.engine.storage.size(table.name):
            flags = self.engine.storage.row_flags(table.name, list(rows), len(numbers))
            untimed = np.where(flags != 0, np.arange(len(numbers)), -1)
            lists = lists.united(all_time(len(numbers)), lists.numbers, untimed)
        return lists

    def __len__(self) -> int:
        """How many intervals all facts with times have together."""
        return sum(map(len, self.tables.values()))
