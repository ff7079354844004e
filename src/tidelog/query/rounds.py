"""Tables of one component, filled in rounds. Mutates itself and the engine.

A component holds the predicates that depend on each other, the patterns in which they are asked for, and the
rules of these. A round lets in what was asked, has all that is asked of lower components completed, and runs
the rules that read something new.

Invariant: between runs, the answers to all that is asked are there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tidelog.engine.protocol import NOTHING, Engine, Outcome, Runnable
from tidelog.logic.program import Atom, Constant, Rule
from tidelog.logic.values import Value
from tidelog.plan.algebra import Aggregate, Part, RulePlan, Scan
from tidelog.plan.compile import collected_variables, delta_plans, full_plan
from tidelog.plan.join_order import Statistics
from tidelog.query.subgoals import Grouping, Pattern, Variant, accepting, answers_of, relations_of, resting

GROWN = 4  # plans are made anew when a relation has grown by this factor
SMALL = 1000  # … and is no longer this small
EXPECTED_SIZE, EXPECTED_DISTINCT, EXPECTED_MATCHING = 1000, 100.0, 10  # of what is still growing


Rows = tuple[tuple[Any, ...], int]  # columns of ids, and how many rows


class TabledEngine(Engine, Protocol):
    """An engine that can keep tables."""

    def add(self, relation: str, columns: Sequence[Any], rows: int) -> int:
        """Add rows of ids; returns how many were new."""

    def rows(self, relation: str) -> tuple[tuple[Any, ...], int]:
        """The columns of a relation, in the order in which rows came, and how many rows it has."""

    def identity(self, value: Value) -> int:
        """The id of a value."""

    def clear(self, relation: str) -> None:
        """Forget all facts of a relation; plans that were prepared go on reading and filling it."""

    def show(self, relations: Collection[str]) -> None:
        """Let all facts of the relations be visible, none of them as NEW."""

    def define(self, relation: str, arity: int, dense_bytes: int | None = None) -> None:
        """Make an empty relation, unless it is there; `dense_bytes` bound what its set may take for speed."""

    def plan_to_keep(self, relations: Collection[str]) -> None:
        """Let `generation` change when one of the relations is dropped."""

    @property
    def generation(self) -> int:
        """Changes when plans that are kept must be prepared anew."""

    def come_home(self) -> None:
        """Let all facts lie in this process, or raise."""

    def follow(self, relation: str) -> tuple[Rows, Rows] | None:
        """What has gone from a relation, and come to it, since this was last asked; None if not known."""

    def remove(self, relation: str, columns: Sequence[Any], rows: int) -> None:
        """Let rows of ids be no facts any more."""

    def standing(self, relation: str, columns: Sequence[Any], rows: int) -> Any:
        """The flags of each given row; 0 where it is no fact."""

    def appended(self, relation: str, first: int) -> tuple[tuple[Any, ...], int]:
        """The facts of a relation from a row on."""

    def has_dead(self, relation: str) -> bool:
        """Whether some rows of a relation are no facts."""

    def bytes_of(self, relation: str) -> int:
        """The memory that a relation and its indexes hold."""

    def relations(self) -> Collection[str]:
        """The relations that are there."""


class Growing:
    """Statistics of relations of which some are still growing: of these there will be more than there are."""

    def __init__(self, known: Statistics, growing: Collection[str]) -> None:
        self._known = known
        self._growing = growing

    def size(self, relation: str) -> int:
        """How many facts a relation has, or will have."""
        size = self._known.size(relation)
        return max(size, EXPECTED_SIZE) if relation in self._growing else size

    def distinct(self, relation: str, column: int) -> float:
        """How many distinct values a column has, or will have."""
        distinct = self._known.distinct(relation, column)
        return max(distinct, EXPECTED_DISTINCT) if relation in self._growing else distinct

    def matching(self, relation: str, column: int, value: Value) -> int:
        """How many facts have this value in a column, or will have."""
        matching = self._known.matching(relation, column, value)
        return max(matching, EXPECTED_MATCHING) if relation in self._growing else matching


class Prepared:
    """A rule of tables, and its plans: one for each relation of its component that it reads."""

    def __init__(self, rule: Rule, own: Collection[str], engine: TabledEngine) -> None:
        self.rule = rule
        self._own = own
        self._engine = engine
        self._read = tuple(dict.fromkeys(atom.predicate for atom in rule.positive))
        self._denied = tuple(dict.fromkeys(atom.predicate for atom in rule.negated))
        self._drivers = frozenset(self._read) & frozenset(own)
        self._plans: list[tuple[str, RulePlan]] = []
        self._ready: list[Runnable | None] = []
        self._planned: dict[str, int] = {}
        self._without_dead: list[str] = []
        self._generation = -1
        self._driven: dict[int, Prepared] = {}
        self.matches = 0  # instances of the rule that were found so far

    def run(self, fresh: Collection[str], check: Callable[[], None]) -> int:
        """Find what follows from what is new in the fresh relations; returns how many facts that are new."""
        if self._drivers.isdisjoint(fresh):
            return 0
        if self._generation != self._engine.generation:
            self._plan()
        new = 0
        for number, (driver, _) in enumerate(self._plans):
            if driver in fresh:
                ready = self._ready[number] or self._prepare(number)
                outcome = ready()
                self.matches += outcome.matches
                new += outcome.new
                check()
        return new

    def _prepare(self, number: int) -> Runnable:
        """A plan ready to run; not while it cannot find anything, and indexes would be in vain."""
        plan = self._plans[number][1]
        if not all(map(self._engine.size, self._read)) or not self._begins(plan):
            return _nothing
        ready = self._ready[number] = self._engine.prepare(plan)
        self._engine.plan_to_keep((*self._read, *self._denied, self.rule.head.predicate))
        return ready

    def _begins(self, plan: RulePlan) -> bool:
        """Whether some row has the constants that the plan begins with."""
        scan = plan.pivot
        assert isinstance(scan, Scan)
        wanted = [(place, term.value) for place, term in enumerate(scan.terms) if isinstance(term, Constant)]
        if not wanted:
            return True
        columns, count = self._engine.rows(scan.relation)
        passed = np.ones(count, bool)
        for place, value in wanted:
            passed &= columns[place] == self._engine.identity(value)
        return bool(passed.any())

    def look_over(self) -> None:
        """Let plans be made anew if relations have grown much since, or have lost facts."""
        size = self._engine.size
        if self._without_dead != self._whole() or any(
            size(name) > max(GROWN * known, SMALL) for name, known in self._planned.items()
        ):
            self._generation = -1

    def _whole(self) -> list[str]:
        """The relations that have lost no facts: of others, each row is looked at before it is read."""
        return [name for name in (*self._read, *self._denied) if not self._engine.has_dead(name)]

    def driven_by(self, grown: Mapping[str, str]) -> Iterator[Prepared]:
        """The rule with one of its atoms read from what came, for each atom of which something came."""
        body = self.rule.body
        for place, literal in enumerate(body):
            if isinstance(literal, Atom) and literal.predicate in grown:
                known = self._driven.get(place)
                if known is None:
                    came = Atom(grown[literal.predicate], literal.terms)
                    rule = replace(self.rule, body=(*body[:place], came, *body[place + 1 :]))
                    known = self._driven[place] = Prepared(rule, (came.predicate,), self._engine)
                yield known

    def _plan(self) -> None:
        plans = delta_plans(self.rule, 0, self._own, Growing(self._engine, self._own))
        self._plans = [(plan.pivot.relation, plan) for plan in plans if isinstance(plan.pivot, Scan)]
        self._ready = [None] * len(self._plans)
        self._planned = {name: self._engine.size(name) for name in self._drivers}
        self._without_dead = self._whole()
        self._generation = self._engine.generation


@dataclass
class Table:
    """A pattern in use: the rules that answer it, and the one that lets calls in."""

    pattern: Pattern
    variant: Variant | None = None  # made when there is a call
    general: tuple[Pattern, ...] = ()  # the patterns in use that subsume it
    accept: Prepared | None = None
    demands: list[Prepared] = field(default_factory=list)
    steps: list[Prepared] = field(default_factory=list)


OWNED = ("join ", "context ", "collect ")  # what the names of relations begin with that one component uses
FEW_DENSE_BYTES = 1 << 20


class Component:
    """The tables of predicates that depend on each other, or are evaluated together for other reasons."""

    def __init__(
        self,
        predicates: Sequence[str],
        engine: TabledEngine,
        write: Callable[[Pattern], Variant],
        beside: Sequence[str] = (),
    ) -> None:
        self.predicates = tuple(predicates)
        self.engine = engine
        self.tables: dict[Pattern, Table] = {}
        self.last_used = 0
        self.secured = 0  # how often tables had been let go when there were some for all that it asks
        self.is_detached = False  # tables that it has read are no longer there
        self._write = write
        self._answers = frozenset(map(answers_of, (*predicates, *beside)))
        self._mine = frozenset(map(answers_of, predicates))
        self._bytes: int | None = None  # if that was looked at since something came
        self._relations: dict[str, None] = {}  # all that it owns, but for what is asked and called

    # ---- relations

    def has(self, relation: str) -> bool:
        """Whether a relation of its own is there."""
        return relation in self._relations

    def owns(self, relation: str) -> bool:
        """Whether a relation holds its answers, or joins on the way to them."""
        return relation in self._mine or relation.startswith(OWNED)

    @property
    def relations(self) -> list[str]:
        """All relations that hold its tables."""
        patterns = [name for each in self.tables for name in (each.asked, each.called)]
        return [*self._relations, *patterns]

    @property
    def bytes(self) -> int:
        """The memory that its tables hold."""
        if self._bytes is None:
            self._bytes = sum(map(self.engine.bytes_of, self.relations))
        return self._bytes

    def table(self, pattern: Pattern) -> Table:
        """The table of a pattern, begun now if it is not there."""
        known = self.tables.get(pattern)
        if known is None:
            known = self.tables[pattern] = Table(pattern)
            arity = len(pattern.binding.bound)
            self.engine.define(pattern.asked, arity, FEW_DENSE_BYTES)
            self.engine.define(pattern.called, arity, FEW_DENSE_BYTES)
            self._define(answers_of(pattern.predicate), len(pattern.adornment))
        return known

    def _define(self, relation: str, arity: int) -> None:
        if relation not in self._relations:
            self.engine.define(relation, arity, None if relation in self._mine else FEW_DENSE_BYTES)
            self._relations[relation] = None

    def drop(self) -> None:
        """Forget all tables."""
        for relation in self.relations:
            self.engine.drop(relation)
        self.tables, self._relations, self._bytes = {}, {}, None
        self.is_detached = False

    def clear(self) -> None:
        """Forget what the tables hold; the rules stay ready."""
        for relation in self.relations:
            self.engine.clear(relation)

    # ---- rounds

    def advance(self) -> set[str]:
        """Begin a round: let in what was asked, the most general first; which relations have new rows."""
        engine = self.engine
        fresh = {relation for relation in self._relations if engine.advance([relation])}
        for table in sorted(self.tables.values(), key=lambda each: each.pattern.adornment.count("b")):
            pattern = table.pattern
            if engine.advance([pattern.asked]):
                self._accept(table)
            if engine.advance([pattern.called]):
                fresh.add(pattern.called)
        if fresh:
            self._bytes = None
        return fresh

    def _accept(self, table: Table) -> None:
        """Let what was asked be called, unless calls of more general patterns answer it."""
        pattern = table.pattern
        general = self._general(pattern)
        if table.accept is None or general != table.general:
            table.accept = Prepared(accepting(pattern, general), (pattern.asked,), self.engine)
            table.general = general
        if table.accept.run((pattern.asked,), _proceed):
            self._use(table)

    def _use(self, table: Table) -> None:
        """Let there be rules for a table that has calls; more special ones then let calls rest."""
        if table.variant is None:
            table.variant = self._write(table.pattern)
            self._prepare(table)
            for special in list(self.tables.values()):
                if special.variant is not None and table.pattern.subsumes(special.pattern):
                    self._prepare(special)

    def _general(self, pattern: Pattern) -> tuple[Pattern, ...]:
        """The patterns with calls that subsume a pattern."""
        return tuple(
            each.pattern
            for each in self.tables.values()
            if each.variant is not None and each.pattern.subsumes(pattern)
        )

    def _prepare(self, table: Table) -> None:
        """Make ready the rules of a table, which let those calls rest that more general ones answer."""
        variant = table.variant
        assert variant is not None
        for name, arity in relations_of((*variant.demands, *variant.steps)):
            if self.owns(name):
                self._define(name, arity)
        general = self._general(table.pattern)
        table.demands, table.steps = (
            [self._prepared(resting(rule, table.pattern, general)) for rule in rules]
            for rules in (variant.demands, variant.steps)
        )

    def _prepared(self, rule: Rule) -> Prepared:
        """A rule, driven by what is new in the component."""
        read = {atom.predicate for atom in rule.positive}
        own = {name for name in read if name in self._answers or name.startswith((*OWNED, "call "))}
        return Prepared(rule, own, self.engine)

    # ---- facts that come

    def can_follow(self, grown: Collection[str]) -> bool:
        """Whether its tables only get more answers when these relations grow, and it can find them."""
        reading = [rule for rule in self._rules() if not _read(rule).isdisjoint(grown)]
        return not (reading and self.is_detached) and not any(
            rule.head.predicate.startswith("collect ")
            or any(atom.predicate in grown for atom in rule.negated)
            for rule in reading
        )

    def reads(self, relations: Collection[str]) -> bool:
        """Whether its rules read one of the relations."""
        return any(not _read(rule).isdisjoint(relations) for rule in self._rules())

    def _rules(self) -> Iterator[Rule]:
        for table in self.tables.values():
            if table.variant is not None:
                yield from (*table.variant.demands, *table.variant.steps)

    def follow(self, grown: Mapping[str, str], demands: bool, check: Callable[[], None]) -> Iterator[str]:
        """Find what follows from facts that came, which relations hold that go by the names given.

        Yields the relations that have got something new.
        """
        for table in self.tables.values():
            for prepared in table.demands if demands else table.steps:
                for driven in prepared.driven_by(grown):
                    driven.look_over()
                    if driven.run(grown.values(), check):
                        yield driven.rule.head.predicate

    def call_anew(self, taken: Mapping[str, str]) -> dict[str, str]:
        """Let subgoals without variables that were true, and whose answers were taken away, be called again.

        `taken` are the relations of what was taken away. Some had not been called: they are now. Of others,
        the relations are returned that hold what is to be called again, by those of all calls.
        """
        engine = self.engine
        again: dict[str, str] = {}
        for table in list(self.tables.values()):
            lost = taken.get(answers_of(table.pattern.predicate))
            if lost is None or not table.pattern.is_ground:
                continue
            rule = accepting(table.pattern, self._general(table.pattern))
            called, given = rule.head, Atom(lost, rule.head.terms)
            name = again[called.predicate] = f"came {called.predicate}"
            engine.define(name, len(called.terms), FEW_DENSE_BYTES)
            engine.clear(name)
            run_once(Rule(Atom(name, called.terms), (given, called)), engine)
            engine.advance([name])
            if run_once(replace(rule, body=(given, *rule.body)), engine):
                self._use(table)
        return again

    def look_over(self) -> None:
        """Let plans be made anew that were made for much smaller relations."""
        for table in self.tables.values():
            for prepared in (*table.demands, *table.steps):
                prepared.look_over()

    def group(self) -> bool:
        """Answer by aggregates what has been collected; whether there was something."""
        found = False
        for table in self.tables.values():
            for grouping in table.variant.groupings if table.variant is not None else ():
                if self.engine.size(grouping.collected):
                    self.engine.prepare(_grouping_plan(grouping))()
                    self.engine.clear(grouping.collected)
                    found = True
        return found


def run_once(rule: Rule, engine: TabledEngine) -> int:
    """Find all that a rule gives; returns how many facts are new."""
    if not all(engine.size(atom.predicate) for atom in rule.positive):
        return 0
    return engine.prepare(full_plan(rule, 0, engine))().new


def _read(rule: Rule) -> set[str]:
    """The relations whose facts a rule reads."""
    return {atom.predicate for atom in (*rule.positive, *rule.negated)}


def _grouping_plan(grouping: Grouping) -> RulePlan:
    rule = grouping.rule
    scan = Scan(grouping.collected, Part.ALL, collected_variables(rule))
    root = Aggregate(scan, rule.group, rule.aggregations, rule.after, rule.head.terms)
    return RulePlan(rule.head.predicate, root, rule, 0, scan)


def _nothing() -> Outcome:
    return NOTHING


def _proceed() -> None:
    """The check that never stops anything."""
