"""The facts of a program over time: those given, all that hold, and their timeline. Mutates itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import lcm
from typing import Any

import numpy as np

from tidelog.logic.intervals import Interval
from tidelog.logic.metrics import intervals_of
from tidelog.logic.program import Program
from tidelog.temporal.lists import Integers, Lists, Timeline, always, nothing, single
from tidelog.temporal.nodes import Leaf, ReadyRule, make_ready
from tidelog.temporal.rows import Table
from tidelog.temporal.schedule import Schedule, make_schedule
from tidelog.temporal.table import Part, TimedTable


class Store:
    """Tables of given facts and of all facts, by predicate; facts without times are the engine's."""

    def __init__(self, engine: Any, timeline: Timeline) -> None:
        self.engine = engine
        self.timeline = timeline
        self.given: dict[str, TimedTable] = {}
        self.tables: dict[str, TimedTable] = {}  # what holds, by predicate
        self._ready: list[tuple[object, Timeline, tuple[ReadyRule, ...]]] = []  # those made ready last
        self._schedule: Schedule | None = None  # the last one

    # ---- the timeline

    def refine(self, intervals: Iterable[Interval]) -> None:
        """Let the timeline have units in which the bounds of these intervals are whole."""
        finer = self.timeline.refined(tuple(intervals))
        if finer.scale != self.timeline.scale:
            self.rescale(finer.scale)
        self.timeline = finer

    def adopt(self, timeline: Timeline) -> None:
        """Let the timeline have units that are as fine as those of another."""
        scale = lcm(self.timeline.scale, timeline.scale)
        if scale != self.timeline.scale:
            self.rescale(scale)
        if timeline.is_calendar and not self.timeline.is_calendar:
            self.timeline = replace(self.timeline, is_calendar=True)

    def rescale(self, scale: int) -> None:
        """Let ends be written in units of 1 / `scale`, a multiple of the present one."""
        timeline, factor = self.timeline, scale // self.timeline.scale
        given, tables = (
            {name: table.rescaled(timeline, factor) for name, table in some.items()}
            for some in (self.given, self.tables)
        )
        finer = Timeline(scale, timeline.is_integer, timeline.is_calendar)
        self.given, self.tables, self.timeline = given, tables, finer  # all or none

    # ---- facts in

    def give(self, name: str, columns: Table, count: int, left: Integers, right: Integers) -> int:
        """Add given facts, row by row with their ends; returns how many intervals there are more."""
        table = self.given.setdefault(name, TimedTable(name, len(columns)))
        before = len(table)
        numbers, lists = single(left, right).grouped(table.number(columns, count))
        table.gain(numbers, lists)
        return len(table) - before

    def begin(self, program: Program) -> None:
        """Let what holds be what is given, and what the engine has."""
        arities = {name: program.predicates[name].arity for name in self.predicates(program)}
        self.tables = {name: self.beginning(name, arity) for name, arity in arities.items()}

    def refine_for(self, program: Program) -> None:
        """Let the timeline have units in which the bounds of a program's operators are whole."""
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

    def ready(self, program: Program) -> tuple[ReadyRule, ...]:
        """The rules of a program over time, made ready for the present timeline."""
        rules = program.timed_rules
        for known, timeline, made in self._ready:
            if known is rules and timeline == self.timeline:
                return made
        identity = self.engine.dictionary.encode
        made = tuple(
            make_ready(rule, number, self.timeline, identity)
            for number, rule in enumerate(program.rules)
            if rule.head.predicate in program.timed
        )
        self._ready = [*self._ready[-1:], (rules, self.timeline, made)]
        return made

    def schedule(self, before: Program, after: Program) -> Schedule:
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

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> Lists:
        """When facts hold, in a state."""
        return self.tables[leaf.predicate].read(numbers, part)

    def changed(self, leaf: Leaf) -> tuple[Integers, Lists]:
        """The facts that just changed, and by what."""
        table = self.tables[leaf.predicate]
        return table.changed, table.change

    def given_lists(self, table: TimedTable, numbers: Integers) -> Lists:
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
