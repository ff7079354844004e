"""Subsumptive tabling: queries answered from the top down, a set of subgoals at a time. Mutates itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from tidelog.engine.events import Listener, TablesGrew
from tidelog.engine.protocol import Engine
from tidelog.errors import counted
from tidelog.logic.program import BOTTOM, Atom, Constant, Literal, Negation, Query, Rule, Term, Variable
from tidelog.logic.values import Value
from tidelog.plan.join_order import expected_growth
from tidelog.query.strategy import TABLE_MEMORY, Answers, Place, inconsistency, together
from tidelog.query.table_rounds import Component, Retraction
from tidelog.query.table_rules import Definitions, Drive, Pattern, Variant, answers_of, run_together, variant
from tidelog.rewrite.magic_sets import substituted

# ---- What is asked of tables, and the answers as they are found.

GIVEN = "given "  # what the names of variables begin with that stand for constants


@dataclass(frozen=True, slots=True)
class Asked:
    """A query without its constants, and these."""

    rule: Rule
    values: tuple[Value, ...]

    @staticmethod
    def of(query: Rule) -> Asked:
        """The query: each constant of an atom in it becomes a variable, which is bound.

        >>> from tidelog.logic.values import integer
        >>> one, x = Constant(integer(1)), Variable("x")
        >>> asked = Asked.of(Rule(Atom("?", (x,)), (Atom("edge", (one, x)),)))
        >>> asked.rule.head.terms
        (Variable(name='given 0'), Variable(name='x'))
        """
        query = substituted(query)
        given: dict[Value, Variable] = {}

        def bound(literal: Literal) -> Literal:
            match literal:
                case Atom(predicate, terms):
                    return Atom(predicate, tuple(map(variable, terms)))
                case Negation(Atom(predicate, terms)):
                    return Negation(Atom(predicate, tuple(map(variable, terms))))
                case _:
                    return literal

        def variable(term: Term) -> Term:
            if isinstance(term, Constant):
                return given.setdefault(term.value, Variable(f"{GIVEN}{len(given)}"))
            return term

        body = tuple(map(bound, query.body))
        head = Atom(query.head.predicate, (*given.values(), *query.head.terms))
        return Asked(replace(query, head=head, body=body), tuple(given))


class Stream:
    """The answers to a query, as they are found."""

    def __init__(self, source: Generator[Answers]) -> None:
        self._source = source
        self._found: deque[Answers] = deque()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Answers:
        return self._found.popleft() if self._found else next(self._source)

    def settle(self) -> None:
        """Find all answers that are left now."""
        self._found.extend(self._source)

    def close(self) -> None:
        """Look for no more answers."""
        self._source.close()


# ---- Subsumptive tabling: queries answered from the top down, a set of subgoals at a time. Mutates itself.
#
# Kasesalu: Revisiting Query Magic, Tartu 2025, sections 2.6.4 and 3.1.2. Tekle, Liu: More Efficient Datalog
# Queries: Subsumptive Tabling Beats Magic Sets, SIGMOD 2011.
#
# A query is a rule whose constants are bound arguments: it asks, as any rule does, and its answers are read
# from its table. Components are completed in turns: what a component asks of lower ones is complete before it
# reads them, so that negation and aggregates need nothing special. What is asked later, and was asked before
# or is less general, costs a look. Facts that come are worked in before the next query; facts that go, and
# rules that change, undo the tables that depend on them.
#
# Invariant: between queries every component is complete, or has no tables.

SHAPES = 64  # of queries, whose rules are kept ready
FEW = 1000  # rows of tables that may come, and
SELDOM = 16  # queries that may be asked, before it is looked at how much memory tables take


@dataclass
class Shape:
    """A kind of query that has been asked: its pattern, its component, and the one evaluated with it."""

    pattern: Pattern
    component: Component
    merged: Component | None
    stated: tuple[str, ...]  # the relations of explicit facts that it reads itself
    lossy: frozenset[str] = frozenset()  # of these, those that have lost facts, when it was last asked


@dataclass(frozen=True, slots=True)
class Tally:
    """What tables there are."""

    tables: int  # patterns with calls
    asked: int  # subgoals
    called: int  # of these, evaluated
    answers: int
    bytes: int


class Tables:
    """The tables of a program."""

    def __init__(
        self,
        engine: Engine,
        rules: Sequence[Rule],
        *,
        memory: int = TABLE_MEMORY,
        check: Callable[[], None] = lambda: None,
        listen: Listener = lambda event: None,
    ) -> None:
        self.memory = memory
        self.evicted = 0  # components whose tables were let go for want of memory
        self._engine = engine
        self.check = check
        self.listen = listen
        self._rules = tuple(rules)
        self._components: dict[tuple[str, ...], Component] = {}
        self._asked: dict[str, Component] = {}  # by the relations in which something is asked of them
        self._shapes: dict[Rule, Shape] = {}
        self._clock = 0
        self._losses = 0  # how often tables were let go
        self.version = 0  # changes when explicit facts or rules have changed
        self._came = 0  # rows of tables since their memory was looked at, and …
        self._looked_at = 0, -1  # … when that was, and how much there might be
        self._current: Stream | None = None
        self._define()

    # ---- what is defined

    def _define(self) -> None:
        """Read the rules anew, and see which derived predicates have explicit facts."""
        derived = self._derived = {rule.head.predicate for rule in self._rules}
        self._stated = frozenset(name for name in derived if self._engine.storage.size(name))
        self._lossy: frozenset[str] = frozenset()
        self._definitions = Definitions.of(self._rules, self._stated)
        read = {atom.predicate for rule in self._rules for atom in (*rule.positive, *rule.negated)}
        self._explicit = sorted((read - derived) | self._stated)  # relations of explicit facts that are read

    def _component(self, predicate: str) -> Component:
        """The component of a derived predicate."""
        names = self._definitions.components[self._definitions.component_of[predicate]]
        known = self._components.get(names)
        if known is None:
            known = self._components[names] = Component(names, self._engine, self._write)
        return known

    def _write(self, pattern: Pattern) -> Variant:
        """The rules of a pattern; there are tables for all that they ask."""
        return self._with_tables(variant(pattern, self._definitions, expected_growth(self._engine.storage)))

    def _with_tables(self, made: Variant) -> Variant:
        for asked in made.asked:
            component = self._asked[asked.asked] = self._component(asked.predicate)
            component.table(asked)
        self._came += FEW  # plans to come will have indexes
        return made

    # ---- queries

    def answers(self, query: Rule) -> Stream:
        """The answers to a query, those of each round as soon as they are found; none comes twice.

        Whoever closes the stream early lets go of the tables that are not complete.
        """
        self.settle()
        self.catch_up()
        self._current = Stream(self._answers(Asked.of(query)))
        return self._current

    def settle(self) -> None:
        """Compute the remaining answers of the current query before what it reads changes."""
        if self._current is not None:
            self._current.settle()
            self._current = None

    def _answers(self, asked: Asked) -> Generator[Answers]:
        engine = self._engine
        self._clock += 1
        shape = self._shape(asked.rule)
        engine.rounds.mark_all_old(shape.stated)
        lossy = self._lossy_among(shape.stated)
        if lossy != shape.lossy:
            shape.lossy = lossy
            shape.component.forget_plans()
        ids = [np.array([engine.storage.dictionary.encode(value)], np.int32) for value in asked.values]
        engine.storage.add(shape.pattern.asked, ids, 1)
        members = [shape.component, *([shape.merged] if shape.merged is not None else [])]
        relation = answers_of(shape.pattern.predicate)
        read = 0
        with closing(self._complete(members)) as rounds:
            for _ in rounds:
                columns, rows = engine.storage.rows(relation)
                if rows > read:
                    yield tuple(column[read:].copy() for column in columns[len(ids) :]), rows - read
                    read = rows
        shape.component.clear()
        self._evict()

    def _shape(self, rule: Rule) -> Shape:
        known = self._shapes.pop(rule, None)
        if known is None:
            while len(self._shapes) >= SHAPES:
                self._shapes.pop(next(iter(self._shapes))).component.drop()
            known = self._made_shape(rule)
        self._shapes[rule] = known  # last used, last dropped
        return known

    def _made_shape(self, rule: Rule) -> Shape:
        """A query as a rule of a predicate of its own, together with the component that is read first."""
        definitions = self._definitions
        name = f"?{len(self._shapes)} {self._clock}"
        bound = sum(term.name.startswith(GIVEN) for term in rule.head.terms if isinstance(term, Variable))
        pattern = Pattern(name, "b" * bound + "f" * (len(rule.head.terms) - bound))
        merged = self._merged(rule)
        beside = () if merged is None else merged.predicates

        def write(_: Pattern) -> Variant:
            made = variant(
                pattern, definitions, expected_growth(self._engine.storage), (rule,), (name, *beside)
            )
            return self._with_tables(made)

        component = Component((name,), self._engine, write, beside)
        component.table(pattern)
        return Shape(pattern, component, merged, tuple(_read(rule) - definitions.rules_of.keys()))

    def _merged(self, rule: Rule) -> Component | None:
        """The component whose rounds the query follows, so that its first answers come early.

        It is the highest of those that are read; none, if the query negates something that may depend on it.
        """
        component_of = self._definitions.component_of
        read = [component_of[atom.predicate] for atom in rule.positive if atom.predicate in component_of]
        denied = [component_of[atom.predicate] for atom in rule.negated if atom.predicate in component_of]
        if not read or max(denied, default=-1) >= max(read):
            return None
        return self._component(self._definitions.components[max(read)][0])

    def patterns(self, query: Rule) -> list[Pattern]:
        """The patterns that a query may ask, itself or through others; nothing is evaluated."""
        asked = Asked.of(query)
        bound = len(asked.values)
        pattern = Pattern("?", "b" * bound + "f" * (len(asked.rule.head.terms) - bound))
        first = variant(
            pattern, self._definitions, expected_growth(self._engine.storage), (asked.rule,), ("?",)
        )
        found = dict.fromkeys(first.asked)
        waiting = list(found)
        while waiting:
            for each in variant(
                waiting.pop(), self._definitions, expected_growth(self._engine.storage)
            ).asked:
                if each not in found:
                    found[each] = None
                    waiting.append(each)
        return list(found)

    # ---- completing

    def _complete(self, members: Sequence[Component]) -> Generator[None]:
        """Complete components, after whatever they ask of lower ones; yields after each round of theirs."""
        running = [members]
        rounds = [self._rounds(members)]
        try:
            while rounds:
                for lower in rounds[-1]:
                    if lower is not None:
                        running.append([lower])
                        rounds.append(self._rounds([lower]))
                        break
                    if len(rounds) == 1:
                        yield
                else:
                    rounds.pop()
                    running.pop()
        except BaseException:
            for component in (each for some in running for each in some):
                self._drop(component)
            self._shapes = {rule: shape for rule, shape in self._shapes.items() if shape.component.tables}
            raise

    def _rounds(self, members: Sequence[Component]) -> Iterator[Component | None]:
        """Rounds until nothing is new; yields each component to be completed, and None after each round."""
        self._secure(members)
        while True:
            fresh = [relation for component in members for relation in component.advance()]
            if not fresh:
                if sum(component.group() for component in members):
                    continue
                break
            demands = self._run(demand for component in members for demand in component.demands(fresh))
            yield from self._demanded(demand.rule.head.predicate for demand, new in demands if new)
            steps = self._run(step for component in members for step in component.steps(fresh))
            new = sum(new for _, new in steps)
            self._came += new
            self.listen(TablesGrew(new))
            yield None

    def _run(self, found: Iterable[Drive]) -> list[tuple[Drive, int]]:
        """Run rules; how many new facts each has found."""
        return run_together(found, self._engine, self.check)

    def _secure(self, members: Sequence[Component]) -> None:
        """Ensure that there are tables for all that the members ask: some may have been dropped."""
        for component in members:
            component.last_used = self._clock
            if component.secured != self._losses:
                for table in list(component.tables.values()):
                    if table.variant is not None:
                        self._with_tables(table.variant)
                component.secured = self._losses

    def _demanded(self, relations: Iterable[str]) -> list[Component]:
        """The components of which something new is asked, the lowest first.

        What was asked of a component and is not complete yet is not asked again: so nothing that may ask it,
        too, is completed before it.
        """
        number = self._definitions.component_of
        found = dict.fromkeys(self._asked[relation] for relation in relations)
        return sorted(found, key=lambda component: number[component.predicates[0]])

    # ---- memory

    @property
    def tally(self) -> Tally:
        """What tables there are, those of queries apart."""
        size = self._engine.storage.size
        components = self._components.values()
        patterns = [table.pattern for each in components for table in each.tables.values() if table.variant]
        predicates = {pattern.predicate for pattern in patterns}
        return Tally(
            len(patterns),
            sum(size(pattern.asked) for each in components for pattern in each.tables),
            sum(size(pattern.called) for pattern in patterns),
            sum(size(answers_of(predicate)) for predicate in predicates),
            sum(each.bytes for each in components),
        )

    def _evict(self) -> None:
        """Drop the least recently used tables until the others fit into the memory.

        Checking whether they do costs as much as a small query: it is done only when it may have changed.
        """
        when, memory = self._looked_at
        if self._came < FEW and self._clock - when < SELDOM and memory == self.memory:
            return
        self._came, self._looked_at = 0, (self._clock, self.memory)
        held = {component: component.bytes for component in self._components.values() if component.tables}
        for component in sorted(held, key=lambda each: each.last_used):
            if sum(held.values()) <= self.memory:
                return
            del held[component]
            self._drop(component)
            self.evicted += 1

    # ---- changes

    def catch_up(self) -> None:
        """Work in how explicit facts have changed since the last query."""
        engine = self._engine
        if {name for name in self._derived if engine.storage.size(name)} != self._stated:
            self._redefine()
        self._look_over()
        assert engine.change_log is not None
        followed = {name: engine.change_log.poll(name) for name in self._explicit}
        engine.rounds.mark_all_old(self._explicit)
        disturbed = {name for name, changes in followed.items() if changes is None}
        gone = {name: changes[0] for name, changes in followed.items() if changes and changes[0][1]}
        came = {name: changes[1] for name, changes in followed.items() if changes and changes[1][1]}
        if disturbed or gone or came:
            self.version += 1
            try:
                self._pass_on(disturbed, gone, came)
            except BaseException:
                for component in self._components.values():
                    self._drop(component)
                raise

    def _look_over(self) -> None:
        """Discard plans if relations that they read have begun to lose facts, or no longer do."""
        lossy = self._lossy_among(self._explicit)
        if lossy != self._lossy:
            self._lossy = lossy
            asking = (shape.component for shape in self._shapes.values())
            for component in (*self._components.values(), *asking):
                component.forget_plans()

    def _lossy_among(self, relations: Iterable[str]) -> frozenset[str]:
        """The relations some of whose rows are no facts: each of these is looked at before it is read."""
        return frozenset(filter(self._engine.storage.has_tombstones, relations))

    def _pass_on(self, disturbed: set[str], went: dict[str, Answers], came: dict[str, Answers]) -> None:
        """Go through the components from the lowest on, and let their tables follow.

        Those that cannot begin anew when they are next asked.
        """
        gone = {name: self._deliver("gone", name, facts) for name, facts in went.items()}
        grown = {name: self._deliver("came", name, facts) for name, facts in came.items()}
        for number, names in enumerate(self._definitions.components):
            component = self._components.get(names)
            changed = {*gone, *grown}
            if component is None or not component.tables:
                read = self._definitions.read_by(number)
                if not {*read, *map(answers_of, read)}.isdisjoint((*disturbed, *changed)):
                    disturbed.update(map(answers_of, names))
                continue
            retraction = Retraction(component, gone, self.check)
            if component.reads(disturbed) or not (component.can_follow(changed) and retraction.is_feasible):
                disturbed.update(map(answers_of, names))
                self._drop(component)
            elif component.reads(changed):
                self._follow(component, retraction, grown)

    def _follow(self, component: Component, retraction: Retraction, grown: dict[str, str]) -> None:
        """Complete a component anew after facts went and came that it reads; note how its answers changed."""
        self._secure([component])
        if component.reads(retraction.gone):
            retraction.take()
        relations = [name for name in map(answers_of, component.predicates) if component.has(name)]
        marks = {name: self._engine.storage.size(name) for name in relations}
        retraction.put_back()
        again = component.call_anew(retraction.taken)
        for lower in self._demanded(component.follow({**grown, **again}, True, self.check)):
            deque(self._complete([lower]), maxlen=0)
        deque(component.follow({**grown, **again}, False, self.check), maxlen=0)
        deque(self._complete([component]), maxlen=0)
        for name, mark in marks.items():
            if self._engine.storage.size(name) > mark:
                grown[name] = self._deliver("came", name, self._engine.rounds.rows_since(name, mark))
        for name, facts in retraction.answers():
            retraction.gone[name] = self._deliver("gone", name, facts)

    def _deliver(self, how: str, relation: str, facts: Answers) -> str:
        """A relation that holds what has gone from another, or come to it, all of it as new."""
        columns, rows = facts
        name = f"{how} {relation}"
        self._engine.storage.define(name, len(columns))
        self._engine.storage.clear(name)
        self._engine.storage.add(name, columns, rows)
        self._engine.rounds.advance([name])
        return name

    def _drop(self, component: Component) -> None:
        """Drop a component's tables; others that read them cannot follow changes any more."""
        answers = {answers_of(name) for name in component.predicates}
        component.drop()
        self._losses += 1
        for other in self._components.values():
            if other.tables and other.reads(answers):
                other.is_detached = True

    def redefine(self, rules: Sequence[Rule]) -> None:
        """Set the rules; tables that do not depend on a changed rule are kept."""
        if rules is not self._rules and tuple(rules) != self._rules:
            self.settle()
            self._rules = tuple(rules)
            self._redefine()

    def _redefine(self) -> None:
        former = self._definitions
        self.version += 1
        self._define()
        for shape in self._shapes.values():
            shape.component.drop()
        self._shapes = {}
        kept: set[str] = set()
        for number, names in enumerate(self._definitions.components):
            read = self._definitions.read_by(number) - set(names)
            below = read & self._definitions.rules_of.keys()
            is_same = all(self._definitions.rules_of[name] == former.rules_of.get(name) for name in names)
            if is_same and below <= kept and below == read & former.rules_of.keys():
                kept.update(names)
        for names in [names for names in self._components if not kept.issuperset(names)]:
            self._drop(self._components.pop(names))


def _read(rule: Rule) -> set[str]:
    """The predicates that a rule reads."""
    return {atom.predicate for atom in (*rule.positive, *rule.negated)}


# ---- Answers by subsumptive tabling: what is asked from the top down is tabled, and kept for what is asked
# next.
#
# Kasesalu: Revisiting Query Magic, Tartu 2025, sections 2.6.4 and 3.1.2. Tekle, Liu: More Efficient Datalog
# Queries: Subsumptive Tabling Beats Magic Sets, SIGMOD 2011. `query.table_rules` makes the rules of tables,
# `query.table_rounds` runs them, `query.tabling` completes and keeps them.
#
# Invariant: the relations of the program are not touched.

INCONSISTENT = Rule(Atom("?", ()), (Atom(BOTTOM, ()),))


class Tabling:
    """Answers from tables, which it fills as far as they are asked for."""

    name = "tabling"

    def __init__(self) -> None:
        self.kept: Tables | None = None
        self._consistent = -1  # the version of the tables that were seen to be

    def tables(self, place: Place) -> Tables:
        """The tables of a place, as its program is now."""
        rules = place.program.rules
        known = self.kept
        if known is None:
            known = self.kept = Tables(cast("Engine", place.engine), rules)
        known.redefine(rules)
        known.memory = place.table_memory
        known.check, known.listen = place.check, place.listen
        return known

    def answer(self, query: Query, place: Place) -> Answers:
        """The rows of the query's head."""
        return together(list(self.stream(query, place)), len(query.rule.head.terms))

    def stream(self, query: Query, place: Place) -> Generator[Answers]:
        """The same, those of each round as soon as they are found."""
        tables = self.tables(place)
        if place.is_constrained:
            self._check(tables, place)
        yield from tables.answers(query.rule)

    def _check(self, tables: Tables, place: Place) -> None:
        """Raise Inconsistent if the program is inconsistent with the current facts and rules."""
        tables.catch_up()
        if self._consistent != tables.version:
            if any(rows for _, rows in tables.answers(INCONSISTENT)):
                raise inconsistency(place.program)
            self._consistent = tables.version

    @property
    def is_following(self) -> bool:
        """Whether there are tables, which follow the facts as they come and go."""
        return self.kept is not None

    def settle(self) -> None:
        """Compute the remaining answers of an open stream before facts or rules change."""
        if self.kept is not None:
            self.kept.settle()

    def explain(self, query: Query, place: Place) -> str:
        """What would be asked in which pattern, and what tables there are."""
        tables = self.tables(place)
        written = place.program.predicates
        asked = [
            f"{written[each.predicate].written} {each.adornment or '()'}"
            for each in tables.patterns(query.rule)
            if each.predicate in written
        ]
        shown = ", ".join(asked[:MOST_PATTERNS]) + (", …" if len(asked) > MOST_PATTERNS else "")
        tally = tables.tally
        kept = (
            f"{counted(tally.answers, 'answer')} to {counted(tally.asked, 'subgoal')}"
            if tally.tables
            else "nothing"
        )
        return f"asks for {shown or 'stated facts only'}; {kept} in tables so far"


MOST_PATTERNS = 6  # named in an explanation
