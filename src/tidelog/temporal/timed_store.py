"""The facts of a program over time: those given, all that hold, their timeline; the order in which a
transaction is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

import numpy as np

from tidelog.logic.expressions import intervals_of
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Program
from tidelog.logic.strata import Graph, components, dependency_graph
from tidelog.plan.algebra import Part
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalLists,
    TimedTable,
    Timeline,
    always,
    nothing,
    single,
)
from tidelog.temporal.metric_rules import Body, CompiledMetricRule, Leaf, compile_metric_rule

# ---- The order in which a transaction is worked in: component by component, bodies driven by their atoms.
#
# A component is a set of predicates that depend on each other. What it loses is put back, as far as it still
# follows, before anybody else hears of it; and a change is passed on when what it depends on has gathered, so
# that few passes are made.


@dataclass(frozen=True, slots=True, eq=False)
class DrivenBody:
    """A body that is driven by one of its atoms."""

    ready: CompiledMetricRule
    body: Body
    leaf: Leaf


DrivenBodies = Mapping[str, Sequence[DrivenBody]]  # by the predicate of the atom


@dataclass(frozen=True, slots=True, eq=False)
class TimedComponent:
    """Predicates that depend on each other, in the order in which changes are passed on, and their rules."""

    heads: tuple[str, ...]
    before: DrivenBodies
    after: DrivenBodies
    rules: Mapping[str, Sequence[CompiledMetricRule]]  # those afterwards, by head
    gone: Sequence[CompiledMetricRule] = ()
    new: Sequence[CompiledMetricRule] = ()

    @property
    def read(self) -> list[str]:
        """The predicates of other components that rules read."""
        return [name for name in dict.fromkeys((*self.before, *self.after)) if name not in self.heads]


@dataclass(frozen=True, slots=True, eq=False)
class TimedSchedule:
    """The components, each after those that it depends on."""

    before: Sequence[CompiledMetricRule]
    after: Sequence[CompiledMetricRule]
    components: tuple[TimedComponent, ...]
    heads: frozenset[str]


def make_schedule(before: Sequence[CompiledMetricRule], after: Sequence[CompiledMetricRule]) -> TimedSchedule:
    """The schedule of a transaction, by the rules before and after it, made ready for the same timeline."""
    old, new = {ready.rule for ready in before}, {ready.rule for ready in after}
    graph = dependency_graph(ready.rule for ready in (*before, *after))
    old_rules, new_rules = _by_head(before), _by_head(after)
    parts = []
    for names in components(graph):
        earlier = [ready for name in names for ready in old_rules.get(name, ())]
        later = [ready for name in names for ready in new_rules.get(name, ())]
        parts.append(
            TimedComponent(
                _sources_first(names, graph),
                _drives(earlier),
                _drives(later),
                {name: new_rules.get(name, ()) for name in names},
                [ready for ready in earlier if ready.rule not in new],
                [ready for ready in later if ready.rule not in old],
            )
        )
    return TimedSchedule(before, after, tuple(parts), frozenset(graph))


def _by_head(rules: Iterable[CompiledMetricRule]) -> dict[str, list[CompiledMetricRule]]:
    found: dict[str, list[CompiledMetricRule]] = {}
    for ready in rules:
        found.setdefault(ready.head, []).append(ready)
    return found


def _drives(rules: Iterable[CompiledMetricRule]) -> DrivenBodies:
    found: dict[str, list[DrivenBody]] = {}
    for ready in rules:
        for body in ready.bodies:
            for leaf in body.homes:
                found.setdefault(leaf.predicate, []).append(DrivenBody(ready, body, leaf))
    return found


def _sources_first(names: Sequence[str], graph: Graph) -> tuple[str, ...]:
    """The predicates of a component, each after those it depends on, as far as cycles allow."""
    waiting, found = set(names), []
    for root in names:
        path = [(root, iter(graph[root]))] if root in waiting else []
        waiting.discard(root)
        while path:
            name, sources = path[-1]
            source = next((one for one in sources if one in waiting), None)
            if source is None:
                path.pop()
                found.append(name)
            else:
                waiting.discard(source)
                path.append((source, iter(graph[source])))
    return tuple(found)


# ---- The facts of a program over time: those given, all that hold, and their timeline. Mutates itself.


class TimedStore:
    """Tables of given facts and of all facts, by predicate; facts without times are the engine's."""

    def __init__(self, engine: Any, timeline: Timeline) -> None:
        self.engine = engine
        self.timeline = timeline
        self.given: dict[str, TimedTable] = {}
        self.tables: dict[str, TimedTable] = {}  # what holds, by predicate
        self._ready: list[
            tuple[object, Timeline, tuple[CompiledMetricRule, ...]]
        ] = []  # those made ready last
        self._schedule: TimedSchedule | None = None  # the last one

    # ---- the timeline

    def refine(self, intervals: Iterable[Interval]) -> None:
        """Refine the units of the timeline so that the bounds of these intervals are whole."""
        finer = self.timeline.refined(tuple(intervals))
        if finer.scale != self.timeline.scale:
            self.rescale(finer.scale)
        self.timeline = finer

    def adopt(self, timeline: Timeline) -> None:
        """Refine the units of the timeline to be as fine as those of another."""
        scale = lcm(self.timeline.scale, timeline.scale)
        if scale != self.timeline.scale:
            self.rescale(scale)
        if timeline.is_calendar and not self.timeline.is_calendar:
            self.timeline = replace(self.timeline, is_calendar=True)

    def rescale(self, scale: int) -> None:
        """Rewrite ends in units of 1 / `scale`, a multiple of the present one."""
        timeline, factor = self.timeline, scale // self.timeline.scale
        given, tables = (
            {name: table.rescaled(timeline, factor) for name, table in some.items()}
            for some in (self.given, self.tables)
        )
        finer = Timeline(scale, timeline.is_integer, timeline.is_calendar)
        self.given, self.tables, self.timeline = given, tables, finer  # all or none

    # ---- facts in

    def give(self, name: str, columns: IdColumns, count: int, left: Integers, right: Integers) -> int:
        """Add given facts, row by row with their ends; returns how many intervals there are more."""
        table = self.given.setdefault(name, TimedTable(name, len(columns)))
        before = len(table)
        numbers, lists = single(left, right).grouped(table.number(columns, count))
        table.gain(numbers, lists)
        return len(table) - before

    def begin(self, program: Program) -> None:
        """Initialise the tables with the given facts and those of the engine."""
        arities = {name: program.predicates[name].arity for name in self.predicates(program)}
        self.tables = {name: self.beginning(name, arity) for name, arity in arities.items()}

    def refine_for(self, program: Program) -> None:
        """Refine the units of the timeline so that the bounds of a program's operators are whole."""
        self.refine(interval for rule in program.timed_rules for interval in intervals_of(rule))

    def predicates(self, program: Program) -> tuple[str, ...]:
        """The predicates that rules over time derive or read, and those that have times."""
        read = (atom for rule in program.timed_rules for atom in (*rule.positive, *rule.negated))
        names = (*program.timed, *(atom.predicate for atom in read))
        return tuple(name for name in dict.fromkeys(names) if name in program.predicates)

    def beginning(self, name: str, arity: int) -> TimedTable:
        """What a predicate holds before anything is derived over time."""
        table = TimedTable(name, arity)
        if name in self.engine.relations():
            columns, count = self.engine.rows(name)
            if count:
                rows = np.array(columns, np.int32).reshape(arity, count)
                table.gain(table.number(rows, count), always(count))
        given = self.given.get(name)
        if given is not None:
            numbers, lists = given.holding()
            table.gain(table.number(given.facts.columns[:, numbers], len(numbers)), lists)
        return table

    # ---- rules

    def ready(self, program: Program) -> tuple[CompiledMetricRule, ...]:
        """The rules of a program over time, made ready for the present timeline."""
        rules = program.timed_rules
        for known, timeline, made in self._ready:
            if known is rules and timeline == self.timeline:
                return made
        identity = self.engine.dictionary.encode
        made = tuple(
            compile_metric_rule(rule, number, self.timeline, identity)
            for number, rule in enumerate(program.rules)
            if rule.head.predicate in program.timed
        )
        self._ready = [*self._ready[-1:], (rules, self.timeline, made)]
        return made

    def schedule(self, before: Program, after: Program) -> TimedSchedule:
        """In which order a transaction that leads from one program to another is worked in."""
        old, new = self.ready(before), self.ready(after)
        known = self._schedule
        if known is None or known.before is not old or known.after is not new:
            known = self._schedule = make_schedule(old, new)
        return known

    # ---- reading, as rules do

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""
        return self.tables[leaf.predicate]

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> IntervalLists:
        """When facts hold, in a state."""
        return self.tables[leaf.predicate].read(numbers, part)

    def changed(self, leaf: Leaf) -> tuple[Integers, IntervalLists]:
        """The facts that just changed, and by what."""
        table = self.tables[leaf.predicate]
        return table.changed, table.change

    def given_lists(self, table: TimedTable, numbers: Integers) -> IntervalLists:
        """When facts of a table are given, by times or always."""
        rows = table.facts.columns[:, numbers]
        given = self.given.get(table.name)
        lists = nothing(len(numbers))
        if given is not None:
            found = given.facts.find(rows, len(numbers))
            lists = given.lists.united(lists, found, lists.numbers)
        if table.name in self.engine.relations() and self.engine.size(table.name):
            standing = self.engine.standing(table.name, list(rows), len(numbers))
            stated = np.where(standing != 0, np.arange(len(numbers)), -1)
            lists = lists.united(always(len(numbers)), lists.numbers, stated)
        return lists

    def __len__(self) -> int:
        """How many intervals all facts with times have together."""
        return sum(map(len, self.tables.values()))
