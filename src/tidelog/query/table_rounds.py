"""Tables of one component, filled in rounds, and facts that go. Mutates itself and the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby

import numpy as np

from tidelog.engine.protocol import Engine, Group
from tidelog.logic.program import Atom, Literal, Negation, Rule
from tidelog.plan.algebra import Aggregate, Part, RulePlan, Scan
from tidelog.plan.compile import collected_variables
from tidelog.query.strategy import Answers
from tidelog.query.table_rules import (
    Dispatch,
    Drive,
    Grouping,
    Pattern,
    Variant,
    accepting,
    answers_of,
    drives,
    relations_of,
    resting,
    run_once,
    run_together,
)

# ---- Tables of one component, filled in rounds. Mutates itself and the engine.
#
# A component holds the predicates that depend on each other, the patterns in which they are asked for, and
# the rules of these. A round lets in what was asked, has all that is asked of lower components completed, and
# runs the rules that read something new.
#
# Invariant: between runs, the answers to all that is asked are there.


@dataclass
class Table:
    """A pattern in use: the rules that answer it, and the one that lets calls in."""

    pattern: Pattern
    variant: Variant | None = None  # made when there is a call
    accept: Drive | None = None  # unless patterns that subsume it have come into use since
    demands: list[Rule] = field(default_factory=list)
    steps: list[Rule] = field(default_factory=list)
    driven: tuple[list[Drive], list[Drive]] = ([], [])  # demands and steps, by what is new in the component
    following: dict[tuple[Rule, int], Drive] = field(default_factory=dict)  # by facts that came, atom by atom


OWNED = ("joined ", "within ", "collect ")  # what names of relations begin with that one component uses
FEW_DENSE_BYTES = 1 << 20


class Component:
    """The tables of predicates that depend on each other, or are evaluated together for other reasons."""

    def __init__(
        self,
        predicates: Sequence[str],
        engine: Engine,
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
        self._asking: dict[str, Table] = {}  # tables by the relations of what is asked
        self._group: Group | None = None  # of all its relations
        self._dispatch: list[Dispatch | None] = [None, None]  # of demands and of steps

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
            self._bytes = sum(map(self.engine.storage.bytes_of, self.relations))
        return self._bytes

    def table(self, pattern: Pattern) -> Table:
        """The table of a pattern, begun now if it is not there."""
        known = self.tables.get(pattern)
        if known is None:
            known = self.tables[pattern] = self._asking[pattern.asked] = Table(pattern)
            arity = len(pattern.binding.bound)
            self.engine.storage.define(pattern.asked, arity, FEW_DENSE_BYTES)
            self.engine.storage.define(pattern.called, arity, FEW_DENSE_BYTES)
            self._define(answers_of(pattern.predicate), len(pattern.adornment))
            self._group = None
        return known

    def _define(self, relation: str, arity: int) -> None:
        if relation not in self._relations:
            self.engine.storage.define(relation, arity, None if relation in self._mine else FEW_DENSE_BYTES)
            self._relations[relation] = None
            self._group = None

    def drop(self) -> None:
        """Forget all tables."""
        for relation in self.relations:
            self.engine.storage.drop(relation)
        self.tables, self._asking, self._relations, self._bytes = {}, {}, {}, None
        self._group, self._dispatch = None, [None, None]
        self.is_detached = False

    def clear(self) -> None:
        """Forget what the tables hold; the rules stay ready."""
        for relation in self.relations:
            self.engine.storage.clear(relation)

    # ---- rounds

    def advance(self) -> list[str]:
        """Begin a round: let in what was asked, the most general first; which relations have new rows."""
        if self._group is None:
            self._group = self.engine.rounds.group(self.relations)
        fresh = self.engine.rounds.advance_group(self._group)
        if not fresh:
            return []
        self._bytes = None
        asked = sorted((self._asking[name] for name in fresh if name in self._asking), key=_bound)
        found = dict.fromkeys(name for name in fresh if name not in self._asking)
        for _, tables in groupby(asked, _bound):
            found |= dict.fromkeys(self._accept(list(tables)))
        return list(found)

    def _accept(self, tables: Sequence[Table]) -> list[str]:
        """Call what was asked unless calls of more general patterns answer it; return what is called.

        None of the patterns is more general than another.
        """
        accepted = run_together(map(self._accepting, tables), self.engine, _proceed)
        called = [drive.rule.head.predicate for drive, new in accepted if new]
        for table in tables:
            if table.pattern.called in called:
                self._use(table)
                self.engine.rounds.extend_new(table.pattern.called)
        return called

    def _accepting(self, table: Table) -> Drive:
        """The rule that lets calls in."""
        if table.accept is None:
            rule = accepting(table.pattern, self._general(table.pattern))
            table.accept = Drive(rule, 0, (table.pattern.asked,), self.engine)
        return table.accept

    def demands(self, fresh: Collection[str]) -> Iterator[Drive]:
        """The rules that may ask for something because of what is new of these relations."""
        return self._dispatched(0).due(fresh)

    def steps(self, fresh: Collection[str]) -> Iterator[Drive]:
        """The rules that may find answers in what is new of these relations."""
        return self._dispatched(1).due(fresh)

    def _dispatched(self, kind: int) -> Dispatch:
        known = self._dispatch[kind]
        if known is None:
            tables = self.tables.values()
            known = self._dispatch[kind] = Dispatch(
                (drive for table in tables for drive in table.driven[kind]), self.engine
            )
        return known

    def _use(self, table: Table) -> None:
        """Create the rules of a table that has calls; tables that it subsumes then skip what it answers."""
        if table.variant is None:
            table.variant = self._write(table.pattern)
            self._prepare(table)
            for special in list(self.tables.values()):
                if table.pattern.subsumes(special.pattern):
                    special.accept = None
                    if special.variant is not None:
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
            [resting(rule, table.pattern, general) for rule in rules]
            for rules in (variant.demands, variant.steps)
        )
        table.driven = self._drives(table.demands), self._drives(table.steps)
        table.following = {}
        self._dispatch = [None, None]

    def _drives(self, rules: Iterable[Rule]) -> list[Drive]:
        """Rules driven by what is new in the component."""
        return [drive for rule in rules for drive in drives(rule, self._own(rule), self.engine)]

    def _own(self, rule: Rule) -> set[str]:
        """What a rule reads that grows while the component is completed."""
        read = {atom.predicate for atom in rule.positive}
        return {name for name in read if name in self._answers or name.startswith((*OWNED, "call "))}

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
            for rule in table.demands if demands else table.steps:
                for place, literal in enumerate(rule.body):
                    if isinstance(literal, Atom) and literal.predicate in grown:
                        drive = self._follower(table, rule, place, grown[literal.predicate])
                        if not drive.is_idle and drive.run(check):
                            yield rule.head.predicate

    def _follower(self, table: Table, rule: Rule, place: int, came: str) -> Drive:
        """A rule with the atom at a place read from what came."""
        known = table.following.get((rule, place))
        if known is None:
            atom = rule.body[place]
            assert isinstance(atom, Atom)
            body = (*rule.body[:place], Atom(came, atom.terms), *rule.body[place + 1 :])
            known = table.following[rule, place] = Drive(
                replace(rule, body=body), place, (came,), self.engine
            )
        return known

    def call_anew(self, taken: Mapping[str, str]) -> dict[str, str]:
        """Call ground subgoals again that were true and whose answers were deleted.

        `taken` are the relations of the deleted answers. Subgoals that had not been called are called now.
        For the others, returns the relations of what is to be called again, by the relation of all calls.
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
            engine.storage.define(name, len(called.terms), FEW_DENSE_BYTES)
            engine.storage.clear(name)
            run_once(Rule(Atom(name, called.terms), (given, called)), engine)
            engine.rounds.advance([name])
            if run_once(replace(rule, body=(given, *rule.body)), engine):
                self._use(table)
        return again

    def forget_plans(self) -> None:
        """Discard all plans: relations that they read have begun to lose facts."""
        for table in self.tables.values():
            table.accept = None
            for drive in (*table.driven[0], *table.driven[1], *table.following.values()):
                drive.forget_plan()

    def group(self) -> bool:
        """Answer by aggregates what has been collected; whether there was something."""
        found = False
        for table in self.tables.values():
            for grouping in table.variant.groupings if table.variant is not None else ():
                if self.engine.storage.size(grouping.collected):
                    self.engine.plans.prepare(_grouping_plan(grouping))()
                    self.engine.storage.clear(grouping.collected)
                    found = True
        return found


def _bound(table: Table) -> int:
    """How many arguments of a table's pattern are bound."""
    return table.pattern.adornment.count("b")


def _read(rule: Rule) -> set[str]:
    """The relations whose facts a rule reads."""
    return {atom.predicate for atom in (*rule.positive, *rule.negated)}


def _grouping_plan(grouping: Grouping) -> RulePlan:
    rule = grouping.rule
    scan = Scan(grouping.collected, Part.ALL, collected_variables(rule))
    root = Aggregate(scan, rule.group, rule.aggregations, rule.after, rule.head.terms)
    return RulePlan(rule.head.predicate, root, rule, 0, scan)


def _proceed() -> None:
    """The check that never stops anything."""


# ---- Facts that go, worked into the tables of a component. Mutates the engine.
#
# Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993, for deletion and rederivation.
# All rows of tables that an instance with a fact that went has given are taken away, and those that another
# instance gives are put back. What is asked and called stays: to know more answers than needed does no harm.
#
# A subgoal without variables rests once it is true, and may not have looked at all its instances: if its
# answer is taken away, it is called anew.
#
# Invariant: once the component is completed again, the answers to all that is asked are there, and no others.

MOST_CHANGED = (
    3  # atoms of a rule from whose relations something goes: of more there are too many combinations
)


class Retraction:
    """What goes from a component's tables because facts went from relations that it reads.

    `gone` names for each of these the relation that holds what went; it is no longer in the relation itself.
    """

    def __init__(self, component: Component, gone: dict[str, str], check: Callable[[], None]) -> None:
        self.component = component
        self.engine: Engine = component.engine
        self.gone = gone
        self.check = check
        self.taken: dict[str, str] = {}  # relations of what was taken away, by those it was taken from

    @property
    def is_feasible(self) -> bool:
        """Whether no rule reads too many relations from which something went."""
        return all(len(self._changed(rule)) <= MOST_CHANGED for rule in self._written())

    def take(self) -> None:
        """Take all rows away that an instance with something that went has given."""
        rules = [self._noting(rule) for rule in self._written()]
        for rule in rules:
            self.engine.storage.define(rule.head.predicate, len(rule.head.terms))
            self.engine.storage.clear(rule.head.predicate)
        for rule in rules:
            for places in _choices(self._changed(rule)):
                run_once(_reading(rule, places, self.gone), self.engine)
                self.check()
        names = {rule.head.predicate for rule in rules}
        driven = (step for rule in rules for step in self._driven(rule) if step.relation in names)
        steps = Dispatch(driven, self.engine)
        group = self.engine.rounds.group(names)
        while fresh := self.engine.rounds.advance_group(group):
            for step in steps.due(fresh):
                step.run(self.check)
        self.taken = {name.removeprefix(TAKEN): name for name in names if self.engine.storage.size(name)}
        for relation, taken in self.taken.items():
            self.engine.storage.remove(relation, *self.engine.storage.rows(taken))

    def put_back(self) -> None:
        """Put those back that another instance gives."""
        for table in self.component.tables.values():
            for rule in table.steps:
                taken = self.taken.get(rule.head.predicate)
                if taken is not None:
                    run_once(replace(rule, body=(Atom(taken, rule.head.terms), *rule.body)), self.engine)
                    self.check()

    def answers(self) -> Iterator[tuple[str, Answers]]:
        """The answers that went, by relation, once the component is completed."""
        for relation in map(answers_of, self.component.predicates):
            if relation in self.taken:
                columns, count = self.engine.storage.rows(self.taken[relation])
                went = self.engine.storage.row_flags(relation, columns, count) == 0
                if went.any():
                    yield relation, (tuple(column[went] for column in columns), int(np.count_nonzero(went)))

    # ---- rules

    def _written(self) -> Iterator[Rule]:
        """The rules of the component that fill tables, as they were written."""
        for table in self.component.tables.values():
            for rule in table.variant.steps if table.variant is not None else ():
                if self.component.owns(rule.head.predicate):
                    yield rule

    def _noting(self, rule: Rule) -> Rule:
        """A rule that notes which rows of tables its instances have given, those at rest included."""
        body = (literal for literal in rule.body if not self._lets_rest(literal))
        return Rule(Atom(TAKEN + rule.head.predicate, rule.head.terms), (rule.head, *body))

    def _lets_rest(self, literal: Literal) -> bool:
        return isinstance(literal, Negation) and (
            literal.atom.predicate.startswith("call ") or self.component.owns(literal.atom.predicate)
        )

    def _changed(self, rule: Rule) -> list[int]:
        """The places of the atoms from whose relations something went."""
        return [
            place
            for place, literal in enumerate(rule.body)
            if isinstance(literal, Atom) and literal.predicate in self.gone
        ]

    def _driven(self, rule: Rule) -> Iterator[Drive]:
        """A rule driven by what is taken from the component's own tables, whatever went elsewhere."""
        for place, literal in enumerate(rule.body[1:], 1):
            if isinstance(literal, Atom) and self.component.owns(literal.predicate):
                name = TAKEN + literal.predicate
                driven = _reading(rule, (place,), {literal.predicate: name})
                for places in ((), *_choices(self._changed(rule))):
                    yield Drive(_reading(driven, places, self.gone), place, (name,), self.engine)


TAKEN = "taken "


def _choices(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Each choice of at least one place."""
    for count in range(1, len(places) + 1):
        yield from combinations(places, count)


def _reading(rule: Rule, places: Sequence[int], names: Mapping[str, str]) -> Rule:
    """The rule with the atoms at these places read from other relations."""
    body = list(rule.body)
    for place in places:
        atom = body[place]
        assert isinstance(atom, Atom)
        body[place] = Atom(names[atom.predicate], atom.terms)
    return replace(rule, body=tuple(body))
