"""Subsumptive tabling: queries answered from the top down, a set of subgoals at a time. Mutable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tidelog.engine.events import Listener, TablesGrew
from tidelog.errors import Inconsistent, counted
from tidelog.logic.program import BOTTOM, Atom, Constant, Literal, Negation, Query, Rule, Term, Variable
from tidelog.logic.values import Value
from tidelog.plan.algebra import DELETED, INSERTED
from tidelog.plan.inconsistency import describe_bottom
from tidelog.plan.join_order import expected_growth
from tidelog.query.strategy import (
    TABLE_MEMORY,
    Answers,
    QueryContext,
    shown_patterns,
    together,
)
from tidelog.query.table_rounds import Retraction, TabledComponent
from tidelog.query.table_rules import (
    CallPattern,
    Definitions,
    DrivenRule,
    Variant,
    answers_of,
    relations_read,
    run_together,
    variant,
)
from tidelog.records import dataclass
from tidelog.rewrite.magic_sets import substituted

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

# ---- queries with parameters for their constants

BOUND = "given "  # the prefix of variables that represent constants


@dataclass(frozen=True, slots=True)
class ParameterisedQuery:
    """A query with variables for its constants, and the constants."""

    rule: Rule
    values: tuple[Value, ...]

    @staticmethod
    def of(query: Rule) -> ParameterisedQuery:
        """The query with a bound variable for each constant of its atoms.

        >>> from tidelog.logic.values import integer
        >>> one, x = Constant(integer(1)), Variable("x")
        >>> query = ParameterisedQuery.of(Rule(Atom("?", (x,)), (Atom("edge", (one, x)),)))
        >>> query.rule.head.terms
        (Variable(name='given 0'), Variable(name='x'))
        """
        query = substituted(query)
        variable_of: dict[Value, Variable] = {}

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
                return variable_of.setdefault(term.value, Variable(f"{BOUND}{len(variable_of)}"))
            return term

        body = tuple(map(bound, query.body))
        head = Atom(query.head.predicate, (*variable_of.values(), *query.head.terms))
        return ParameterisedQuery(replace(query, head=head, body=body), tuple(variable_of))


class AnswerStream:
    """The answers to a query, as they are found."""

    def __init__(self, source: Generator[Answers]) -> None:
        self._source = source
        self._remaining: deque[Answers] = deque()

    def __iter__(self) -> AnswerStream:
        return self

    def __next__(self) -> Answers:
        return self._remaining.popleft() if self._remaining else next(self._source)

    def settle(self) -> None:
        """Find all remaining answers now."""
        self._remaining.extend(self._source)

    def close(self) -> None:
        """Stop looking for answers."""
        self._source.close()


# ---- subsumptive tabling
#
# Kasesalu: Revisiting Query Magic, Tartu 2025, sections 2.6.4 and 3.1.2. Tekle, Liu: More Efficient Datalog
# Queries: Subsumptive Tabling Beats Magic Sets, SIGMOD 2011.
#
# A query is a rule whose constants are bound arguments: it requests facts, as any rule does, and its answers
# are read from its table. Components are completed in turns: what a component requests of lower ones is
# complete before it reads them, so that negation and aggregates need no special treatment. A subgoal that was
# requested before, or is answered by a more general one, costs a lookup. Changes of facts are applied before
# the next query; tables that cannot follow them, or whose rules change, are dropped.
#
# Invariant: between queries every component is complete, or has no tables.

SHAPES = 64  # of queries, whose rules stay prepared
NEW_ROWS = 1000  # that tables may get, and
MORE_QUERIES = 16  # that may be answered, before the memory of tables is measured again


@dataclass
class QueryShape:
    """A query without its constants: its pattern, its component, and the one evaluated with it."""

    pattern: CallPattern
    component: TabledComponent
    merged: TabledComponent | None
    explicit: tuple[str, ...]  # the relations of explicit facts that it reads itself
    with_tombstones: frozenset[str] = frozenset()  # those of them with tombstones at its last use


@dataclass(frozen=True, slots=True)
class TableCounts:
    """How large tables are."""

    tables: int  # patterns with calls; the names of the fields are keys of JSON
    asked: int  # subgoals
    called: int  # of these, evaluated
    answers: int
    bytes: int


class ProgramTables:
    """The tables of a program."""

    def __init__(
        self,
        engine: ColumnarEngine,
        rules: Sequence[Rule],
        *,
        memory: int = TABLE_MEMORY,
        check: Callable[[], None] = lambda: None,
        listen: Listener = lambda event: None,
    ) -> None:
        self.memory = memory
        self.evicted = 0  # components whose tables were dropped to free memory
        self._engine = engine
        self.check = check
        self.listen = listen
        self._rules = tuple(rules)
        self._components: dict[tuple[str, ...], TabledComponent] = {}
        self._requested: dict[str, TabledComponent] = {}  # by the relations of requested subgoals
        self._shapes: dict[Rule, QueryShape] = {}
        self._clock = 0
        self._drops = 0  # how often tables were dropped
        self.version = 0  # changes when explicit facts or rules have changed
        self._new_rows = 0  # rows added since the memory of tables was measured, and …
        self._measured = 0, -1  # … when that was, and the limit then
        self._current: AnswerStream | None = None
        self._define()

    # ---- definitions

    def _define(self) -> None:
        """Read the rules again, and which derived predicates have explicit facts."""
        derived = self._derived = {rule.head.predicate for rule in self._rules}
        self._with_explicit = frozenset(name for name in derived if self._engine.storage.size(name))
        self._with_tombstones: frozenset[str] = frozenset()
        self._definitions = Definitions.of(self._rules, self._with_explicit)
        read = {atom.predicate for rule in self._rules for atom in (*rule.positive, *rule.negated)}
        # The relations of explicit facts that are read.
        self._explicit = sorted((read - derived) | self._with_explicit)

    def _component(self, predicate: str) -> TabledComponent:
        """The component of a derived predicate."""
        names = self._definitions.components[self._definitions.component_of[predicate]]
        component = self._components.get(names)
        if component is None:
            component = self._components[names] = TabledComponent(names, self._engine, self._write)
        return component

    def _write(self, pattern: CallPattern) -> Variant:
        """Return the rules of a pattern, with tables for all that they request."""
        return self._with_tables(variant(pattern, self._definitions, expected_growth(self._engine.storage)))

    def _with_tables(self, rules_of_pattern: Variant) -> Variant:
        for pattern in rules_of_pattern.asked:
            component = self._requested[pattern.asked] = self._component(pattern.predicate)
            component.table(pattern)
        self._new_rows += NEW_ROWS  # its plans will have indexes
        return rules_of_pattern

    # ---- queries

    def answers(self, query: Rule) -> AnswerStream:
        """The answers to a query, each once, those of each round as soon as they are found.

        Closing the stream early drops the tables that are not complete.
        """
        self.settle()
        self.catch_up()
        self._current = AnswerStream(self._answers(ParameterisedQuery.of(query)))
        return self._current

    def settle(self) -> None:
        """Compute the remaining answers of the current query before what it reads changes."""
        if self._current is not None:
            self._current.settle()
            self._current = None

    def _answers(self, parameterised: ParameterisedQuery) -> Generator[Answers]:
        engine = self._engine
        self._clock += 1
        shape = self._shape(parameterised.rule)
        engine.rounds.mark_all_old(shape.explicit)
        with_tombstones = self._tombstoned(shape.explicit)
        if with_tombstones != shape.with_tombstones:
            shape.with_tombstones = with_tombstones
            shape.component.forget_plans()
        ids = [
            np.array([engine.storage.dictionary.encode(value)], np.int32) for value in parameterised.values
        ]
        engine.storage.add(shape.pattern.asked, ids, 1)
        members = [shape.component, *([shape.merged] if shape.merged is not None else [])]
        relation = answers_of(shape.pattern.predicate)
        yielded = 0
        with closing(self._complete(members)) as rounds:
            for _ in rounds:
                columns, rows = engine.storage.rows(relation)
                if rows > yielded:
                    yield tuple(column[yielded:].copy() for column in columns[len(ids) :]), rows - yielded
                    yielded = rows
        shape.component.clear()
        self._evict()

    def _shape(self, rule: Rule) -> QueryShape:
        shape = self._shapes.pop(rule, None)
        if shape is None:
            while len(self._shapes) >= SHAPES:
                self._shapes.pop(next(iter(self._shapes))).component.drop()
            shape = self._made_shape(rule)
        self._shapes[rule] = shape  # moved to the end: the least recently used is dropped first
        return shape

    def _made_shape(self, rule: Rule) -> QueryShape:
        """A query as a rule of a new predicate, evaluated together with the highest component it reads."""
        definitions = self._definitions
        name = f"?{len(self._shapes)} {self._clock}"
        pattern = _pattern_of(name, rule)
        merged = self._merged(rule)
        together_with = () if merged is None else merged.predicates

        def write(_: CallPattern) -> Variant:
            rules_of_pattern = variant(
                pattern, definitions, expected_growth(self._engine.storage), (rule,), (name, *together_with)
            )
            return self._with_tables(rules_of_pattern)

        component = TabledComponent((name,), self._engine, write, together_with)
        component.table(pattern)
        return QueryShape(
            pattern, component, merged, tuple(relations_read(rule) - definitions.rules_of.keys())
        )

    def _merged(self, rule: Rule) -> TabledComponent | None:
        """The component that is completed together with the query, so that first answers are found early.

        It is the highest component that is read; None if the query negates a predicate that may depend on it.
        """
        component_of = self._definitions.component_of
        read = [component_of[atom.predicate] for atom in rule.positive if atom.predicate in component_of]
        negated = [component_of[atom.predicate] for atom in rule.negated if atom.predicate in component_of]
        if not read or max(negated, default=-1) >= max(read):
            return None
        return self._component(self._definitions.components[max(read)][0])

    def patterns(self, query: Rule) -> list[CallPattern]:
        """Return the patterns that a query may request, directly or indirectly, without evaluating it."""
        parameterised = ParameterisedQuery.of(query)
        pattern = _pattern_of("?", parameterised.rule)
        first = variant(
            pattern, self._definitions, expected_growth(self._engine.storage), (parameterised.rule,), ("?",)
        )
        patterns = dict.fromkeys(first.asked)
        waiting = list(patterns)
        while waiting:
            for requested in variant(
                waiting.pop(), self._definitions, expected_growth(self._engine.storage)
            ).asked:
                if requested not in patterns:
                    patterns[requested] = None
                    waiting.append(requested)
        return list(patterns)

    # ---- completing

    def _complete(self, members: Sequence[TabledComponent]) -> Generator[None]:
        """Complete components, after what they request of lower ones; yield after each of their rounds."""
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
            for component in (member for group in running for member in group):
                self._drop(component)
            self._shapes = {rule: shape for rule, shape in self._shapes.items() if shape.component.tables}
            raise

    def _rounds(self, members: Sequence[TabledComponent]) -> Iterator[TabledComponent | None]:
        """Run rounds up to the fixpoint; yield components to be completed, and None after each round."""
        self._secure(members)
        while True:
            grown = [relation for component in members for relation in component.advance()]
            if not grown:
                if sum(component.group() for component in members):
                    continue
                break
            demands = self._run(demand for component in members for demand in component.demands(grown))
            yield from self._demanded(demand.rule.head.predicate for demand, new in demands if new)
            steps = self._run(step for component in members for step in component.steps(grown))
            new = sum(new for _, new in steps)
            self._new_rows += new
            self.listen(TablesGrew(new))
            yield None

    def _run(self, rules: Iterable[DrivenRule]) -> list[tuple[DrivenRule, int]]:
        """Run rules; return how many new facts each derived."""
        return run_together(rules, self._engine, self.check)

    def _secure(self, members: Sequence[TabledComponent]) -> None:
        """Create the tables of all patterns that the members request, which may have been dropped."""
        for component in members:
            component.last_used = self._clock
            if component.secured != self._drops:
                for table in list(component.tables.values()):
                    if table.variant is not None:
                        self._with_tables(table.variant)
                component.secured = self._drops

    def _demanded(self, relations: Iterable[str]) -> list[TabledComponent]:
        """Return the components with new requests, the lowest first.

        Requests to an incomplete component are not repeated, so no other component that may make the same
        request is completed before it.
        """
        number = self._definitions.component_of
        demanded = dict.fromkeys(self._requested[relation] for relation in relations)
        return sorted(demanded, key=lambda component: number[component.predicates[0]])

    # ---- memory

    @property
    def tally(self) -> TableCounts:
        """The sizes of tables, without those of queries."""
        size = self._engine.storage.size
        components = self._components.values()
        patterns = [table.pattern for each in components for table in each.tables.values() if table.variant]
        predicates = {pattern.predicate for pattern in patterns}
        return TableCounts(
            len(patterns),
            sum(size(pattern.asked) for each in components for pattern in each.tables),
            sum(size(pattern.called) for pattern in patterns),
            sum(size(answers_of(predicate)) for predicate in predicates),
            sum(each.bytes for each in components),
        )

    def _evict(self) -> None:
        """Drop the least recently used tables until the others fit into memory.

        Measuring costs as much as a small query, so measure only if the result may have changed.
        """
        measured_at, memory = self._measured
        if self._new_rows < NEW_ROWS and self._clock - measured_at < MORE_QUERIES and memory == self.memory:
            return
        self._new_rows, self._measured = 0, (self._clock, self.memory)
        sizes = {component: component.bytes for component in self._components.values() if component.tables}
        for component in sorted(sizes, key=lambda each: each.last_used):
            if sum(sizes.values()) <= self.memory:
                return
            del sizes[component]
            self._drop(component)
            self.evicted += 1

    # ---- changes

    def catch_up(self) -> None:
        """Apply the changes of explicit facts since the last query."""
        engine = self._engine
        if {name for name in self._derived if engine.storage.size(name)} != self._with_explicit:
            self._redefine()
        self._refresh_plans()
        followed = {name: engine.change_log.poll(name) for name in self._explicit}
        engine.rounds.mark_all_old(self._explicit)
        disturbed = {name for name, changes in followed.items() if changes is None}
        deleted = {name: changes[0] for name, changes in followed.items() if changes and changes[0][1]}
        inserted = {name: changes[1] for name, changes in followed.items() if changes and changes[1][1]}
        if disturbed or deleted or inserted:
            self.version += 1
            try:
                self._propagate(disturbed, deleted, inserted)
            except BaseException:
                for component in self._components.values():
                    self._drop(component)
                raise

    def _refresh_plans(self) -> None:
        """Discard plans if relations that they read have tombstones now, or no longer."""
        with_tombstones = self._tombstoned(self._explicit)
        if with_tombstones != self._with_tombstones:
            self._with_tombstones = with_tombstones
            asking = (shape.component for shape in self._shapes.values())
            for component in (*self._components.values(), *asking):
                component.forget_plans()

    def _tombstoned(self, relations: Iterable[str]) -> frozenset[str]:
        """The relations with tombstones: plans check the flags of their rows."""
        return frozenset(filter(self._engine.storage.has_tombstones, relations))

    def _propagate(
        self, disturbed: set[str], lost: Mapping[str, Answers], gained: Mapping[str, Answers]
    ) -> None:
        """Apply changes to the tables of components, the lowest first.

        Tables that cannot follow are dropped, and filled again when they are next used.
        """
        deleted = {name: self._stored(DELETED, name, facts) for name, facts in lost.items()}
        inserted = {name: self._stored(INSERTED, name, facts) for name, facts in gained.items()}
        for number, names in enumerate(self._definitions.components):
            component = self._components.get(names)
            changed = {*deleted, *inserted}
            if component is None or not component.tables:
                read = self._definitions.read_by(number)
                if not {*read, *map(answers_of, read)}.isdisjoint((*disturbed, *changed)):
                    disturbed.update(map(answers_of, names))
                continue
            retraction = Retraction(component, deleted, self.check)
            if component.reads(disturbed) or not (component.can_follow(changed) and retraction.is_feasible):
                disturbed.update(map(answers_of, names))
                self._drop(component)
            elif component.reads(changed):
                self._follow(component, retraction, inserted)

    def _follow(self, component: TabledComponent, retraction: Retraction, inserted: dict[str, str]) -> None:
        """Complete a component again after changes of facts that it reads; store how its answers changed."""
        self._secure([component])
        if component.reads(retraction.deleted):
            retraction.retract()
        relations = [name for name in map(answers_of, component.predicates) if component.has(name)]
        marks = {name: self._engine.storage.size(name) for name in relations}
        retraction.restore()
        repeated = component.call_again(retraction.retracted)
        for lower in self._demanded(component.follow({**inserted, **repeated}, True, self.check)):
            deque(self._complete([lower]), maxlen=0)
        deque(component.follow({**inserted, **repeated}, False, self.check), maxlen=0)
        deque(self._complete([component]), maxlen=0)
        for name, mark in marks.items():
            if self._engine.storage.size(name) > mark:
                inserted[name] = self._stored(INSERTED, name, self._engine.rounds.rows_since(name, mark))
        for name, facts in retraction.answers():
            retraction.deleted[name] = self._stored(DELETED, name, facts)

    def _stored(self, prefix: str, relation: str, facts: Answers) -> str:
        """Store deleted or inserted facts in a relation, all of them as new; return its name."""
        columns, rows = facts
        name = prefix + relation
        self._engine.storage.define(name, len(columns))
        self._engine.storage.clear(name)
        self._engine.storage.add(name, columns, rows)
        self._engine.rounds.advance([name])
        return name

    def _drop(self, component: TabledComponent) -> None:
        """Drop a component's tables; components that have read them can no longer follow changes."""
        answers = {answers_of(name) for name in component.predicates}
        component.drop()
        self._drops += 1
        for other in self._components.values():
            if other.tables and other.reads(answers):
                other.is_detached = True

    def redefine(self, rules: Sequence[Rule]) -> None:
        """Replace the rules; tables that do not depend on a changed rule stay."""
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
        unchanged: set[str] = set()
        for number, names in enumerate(self._definitions.components):
            read = self._definitions.read_by(number) - set(names)
            derived_read = read & self._definitions.rules_of.keys()
            is_same = all(self._definitions.rules_of[name] == former.rules_of.get(name) for name in names)
            if is_same and derived_read <= unchanged and derived_read == read & former.rules_of.keys():
                unchanged.update(names)
        for names in [names for names in self._components if not unchanged.issuperset(names)]:
            self._drop(self._components.pop(names))


def _pattern_of(name: str, query: Rule) -> CallPattern:
    """The pattern of a query without constants, by this name: the arguments for constants are bound."""
    terms = query.head.terms
    bound = sum(term.name.startswith(BOUND) for term in terms if isinstance(term, Variable))
    return CallPattern(name, "b" * bound + "f" * (len(terms) - bound))


# ---- the strategy
#
# Kasesalu: Revisiting Query Magic, Tartu 2025, sections 2.6.4 and 3.1.2. Tekle, Liu: More Efficient Datalog
# Queries: Subsumptive Tabling Beats Magic Sets, SIGMOD 2011. `query.table_rules` makes the rules of tables,
# `query.table_rounds` runs them, `query.tabling` completes and caches them.
#
# Invariant: the relations of the program are not touched.

INCONSISTENT = Rule(Atom("?", ()), (Atom(BOTTOM, ()),))


class Tabling:
    """Answers from tables, which are filled as far as queries request it."""

    name = "tabling"

    def __init__(self) -> None:
        self.kept: ProgramTables | None = None
        self._consistent = -1  # the version of the tables for which consistency was checked

    def tables(self, context: QueryContext) -> ProgramTables:
        """The tables for the current program of a context."""
        rules = context.program.rules
        tables = self.kept
        if tables is None:
            tables = self.kept = ProgramTables(context.engine, rules)
        tables.redefine(rules)
        tables.memory = context.table_memory
        tables.check, tables.listen = context.check, context.listen
        return tables

    def answer(self, query: Query, context: QueryContext) -> Answers:
        """The rows of the query's head."""
        return together(list(self.stream(query, context)), len(query.rule.head.terms))

    def stream(self, query: Query, context: QueryContext) -> Generator[Answers]:
        """The same, those of each round as soon as they are found."""
        tables = self.tables(context)
        if context.is_constrained:
            self._check(tables, context)
        yield from tables.answers(query.rule)

    def _check(self, tables: ProgramTables, context: QueryContext) -> None:
        """Raise Inconsistent if the program is inconsistent with the current facts and rules."""
        tables.catch_up()
        if self._consistent != tables.version:
            if any(rows for _, rows in tables.answers(INCONSISTENT)):
                raise Inconsistent(describe_bottom(context.program))
            self._consistent = tables.version

    @property
    def is_following(self) -> bool:
        """Whether there are tables to which changes of facts must be applied."""
        return self.kept is not None

    def settle(self) -> None:
        """Compute the remaining answers of an open stream before facts or rules change."""
        if self.kept is not None:
            self.kept.settle()

    def explain(self, query: Query, context: QueryContext) -> str:
        """Return the patterns that the query would request, and the sizes of tables."""
        tables = self.tables(context)
        patterns = ((each.predicate, each.adornment) for each in tables.patterns(query.rule))
        described = shown_patterns(patterns, context.program)
        tally = tables.tally
        stored = (
            f"{counted(tally.answers, 'answer')} to {counted(tally.asked, 'subgoal')}"
            if tally.tables
            else "nothing"
        )
        return f"asks for {described or 'explicit facts only'}; {stored} in tables so far"
