"""Kept queries, and the rules by which maintainers maintain their answers. Mutates itself.

As long as the program is not materialised, all kept queries together are rewritten by magic sets into one
program. Its relations are in the engine next to the explicit facts, and are all that a transaction
maintains. A binding of a prepared query is a fact of its relation of bindings. When rules change, the
queries are rewritten again, and the difference is rules that are added and removed. Once the program is
materialised, a live query is an ordinary rule, and a prepared one is looked up.

Invariant: between transactions the relations of `kept` hold what their rules derive from the current facts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from tidelog.data.rows import Rows
from tidelog.errors import Inconsistent
from tidelog.logic.program import (
    BOTTOM,
    Atom,
    Fact,
    Predicate,
    Program,
    Query,
    Rule,
    Variable,
)
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Update
from tidelog.plan.algebra import KEPT_BOTTOM, kept_answers
from tidelog.plan.inconsistency import describe_bottom
from tidelog.plan.join_order import expected_growth
from tidelog.query.magic import arities_of, rows_by_relation
from tidelog.records import dataclass
from tidelog.rewrite.magic_sets import MagicOptions, is_closed, rewrite

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

NO_UPDATE = Update({}, {})


@dataclass(frozen=True, slots=True)
class KeptQuery:
    """A query that is kept: its answers are in the relation `name`, the columns of parameters first."""

    name: str
    query: Query
    parameters: tuple[Variable, ...] = ()

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables whose values are the answers."""
        head = (term for term in self.query.rule.head.terms if isinstance(term, Variable))
        return tuple(variable for variable in head if variable not in self.parameters)

    @property
    def bindings(self) -> str:
        """The relation of the requested bindings of the parameters."""
        return f"{self.name} bindings"

    @property
    def backward(self) -> str:
        """The relation of pairs of bindings that answer each other, and so have the same answers."""
        return f"{self.name} backward"

    @property
    def rule(self) -> Rule:
        """The rule that gives the answers."""
        guard = (Atom(self.bindings, self.parameters),) if self.parameters else ()
        head = Atom(self.name, (*self.parameters, *self.variables))
        return replace(self.query.rule, head=head, body=(*guard, *self.query.rule.body))


@dataclass(frozen=True, slots=True)
class KeptProgram:
    """The program maintained for queries: rules, their seeds, and the relations of both."""

    rules: tuple[Rule, ...] = ()
    seeds: frozenset[Fact] = frozenset()
    arities: Mapping[str, int] = field(default_factory=dict)
    explicit: frozenset[str] = frozenset()  # derived predicates with explicit facts


@dataclass(frozen=True, slots=True)
class QueryStep:
    """A transaction as maintainers see it, and the program maintained for queries afterwards."""

    update: Update
    before: Program
    after: Program
    kept: KeptProgram


class KeptQueries:
    """All kept queries of a reasoner."""

    def __init__(self, engine: ColumnarEngine) -> None:
        self._engine = engine
        self._queries: dict[str, KeptQuery] = {}
        self._is_full = False  # whether maintainers know the program's own rules too
        self._programs: tuple[Program, KeptProgram, Program] | None = None  # the last result of `whole`
        self._costs: dict[tuple[Atom, frozenset[Variable]], float] = {}
        self._defined: set[str] = set()  # all relations that were defined, whether they are still used or not
        self.kept = KeptProgram()

    @property
    def are_there(self) -> bool:
        """Whether relations are maintained for queries."""
        return bool(self.kept.arities)

    @property
    def watched(self) -> Mapping[str, KeptQuery]:
        """The live queries, by the relations of their answers."""
        return {name: query for name, query in self._queries.items() if not query.parameters}

    def name_for(self, arity: int) -> str:
        """A free name for the answers of a query; names of queries that are kept no longer are used again."""
        number = 1
        while (name := kept_answers(number, arity)) in self._queries:
            number += 1
        return name

    @property
    def asked(self) -> tuple[KeptQuery, ...]:
        """All kept queries."""
        return tuple(self._queries.values())

    def find(self, name: str) -> KeptQuery | None:
        """The query of this name, if it is kept."""
        return self._queries.get(name)

    # ---- transactions

    def step(self, update: Update, before: Program, after: Program) -> QueryStep:
        """A transaction together with the changes of rules and seeds that it needs for kept queries."""
        kept = self.kept
        if self._queries and self._is_outdated(update, before, after):
            kept = self._rewritten(after, self._queries, kept.explicit | update.added.keys())
        return self._step(update, before, after, kept)

    def asking(self, query: KeptQuery, program: Program) -> QueryStep:
        """The step that starts keeping a query."""
        kept = self._rewritten(program, {**self._queries, query.name: query}, self.kept.explicit)
        return self._step(NO_UPDATE, program, program, kept)

    def forgetting(self, query: KeptQuery, program: Program) -> QueryStep:
        """The step that stops keeping a query."""
        remaining = {name: other for name, other in self._queries.items() if name != query.name}
        kept = self._rewritten(program, remaining, self.kept.explicit)
        bindings = self._facts_of(query.bindings) if query.bindings in self.kept.arities else {}
        return self._step(Update(bindings, {}), program, program, kept)

    def _is_outdated(self, update: Update, before: Program, after: Program) -> bool:
        """Whether the kept queries must be rewritten."""
        if self._is_full:
            return False
        return after.rules is not before.rules or bool(
            (update.added.keys() - self.kept.explicit) & after.derived
        )

    def _step(self, update: Update, before: Program, after: Program, kept: KeptProgram) -> QueryStep:
        if kept is self.kept and (self._is_full or after.rules is before.rules):
            return QueryStep(update, self.whole(before, kept), self.whole(after, kept), kept)
        first, last = self.whole(before, self.kept), self.whole(after, kept)
        old, new = frozenset(first.rules), frozenset(last.rules)
        dictionary = self._engine.storage.dictionary
        return QueryStep(
            Update(
                {**update.removed, **rows_by_relation(self.kept.seeds - kept.seeds, dictionary)},
                {**update.added, **rows_by_relation(kept.seeds - self.kept.seeds, dictionary)},
                tuple(rule for rule in first.rules if rule not in new),
                tuple(rule for rule in last.rules if rule not in old),
            ),
            first,
            last,
            kept,
        )

    def whole(self, program: Program, kept: KeptProgram) -> Program:
        """The program that maintainers evaluate; the same object for the same program."""
        if self._is_full and not kept.rules:
            return program
        cached = self._programs
        if cached is not None and cached[0] is program and cached[1] is kept:
            return cached[2]
        own = program.rules if self._is_full else ()
        rules = (*own, *kept.rules) if own and kept.rules else own or kept.rules
        if cached is not None and cached[1] is kept and cached[0].rules is program.rules:
            rules = cached[2].rules
        added = {name: untyped_predicate(name, arity) for name, arity in kept.arities.items()}
        whole = replace(program, rules=rules, predicates={**program.predicates, **added})
        self._programs = program, kept, whole
        return whole

    def define(self, kept: KeptProgram) -> None:
        """Create the relations of kept queries."""
        for name, arity in kept.arities.items():
            self._engine.storage.define(name, arity)
        self._defined.update(kept.arities)

    def adopt(self, step: QueryStep, query: KeptQuery | None = None, *, forgotten: bool = False) -> None:
        """Adopt the result of an executed step."""
        self.kept = step.kept
        if query is not None and forgotten:
            del self._queries[query.name]
            if not self._queries and not self._is_full:
                self.withdraw()
        elif query is not None:
            self._queries[query.name] = query

    @property
    def are_inconsistent(self) -> bool:
        """Whether the rules of kept queries derive `bottom()`."""
        return self._size(KEPT_BOTTOM) > 0

    def check_consistency(self, program: Program) -> None:
        """Raise Inconsistent if the rules of kept queries derive `bottom()`."""
        if self.are_inconsistent:
            raise Inconsistent(describe_bottom(program))

    # ---- before and after the program is materialised

    def withdraw(self) -> None:
        """Drop all relations of kept queries, and the counters."""
        for name in self._defined:
            self._engine.storage.drop(name)
        self._engine.counters.forget()
        self.begin_again()

    def begin_again(self) -> None:
        """Forget the relations of kept queries, which were dropped; the queries can be kept again."""
        self._defined = set()
        self.kept = KeptProgram()
        self._is_full = False
        self._programs = None
        self._costs = {}

    def asking_anew(self, program: Program, bindings: Mapping[str, Rows]) -> QueryStep:
        """The step that keeps all queries again, with the bindings requested before."""
        kept = self._rewritten(program, self._queries, frozenset())
        return self._step(Update({}, bindings), program, program, kept)

    def begin_anew(self, program: Program) -> QueryStep | None:
        """The step that keeps queries once the program is materialised; None if there are none."""
        self._is_full = True
        if not self._queries:
            return None
        return self._step(NO_UPDATE, program, program, self._rewritten(program, self._queries, frozenset()))

    def resume(self, asked: Iterable[KeptQuery], program: Program) -> None:
        """Keep these queries of a materialised program, their answers included."""
        self._is_full = True
        self._queries = {query.name: query for query in asked}
        self.kept = self._rewritten(program, self._queries, frozenset())
        self.define(self.kept)

    # ---- rewriting

    def _rewritten(
        self, program: Program, queries: Mapping[str, KeptQuery], explicit: Collection[str]
    ) -> KeptProgram:
        """The program to maintain for queries."""
        if self._is_full:
            rules = tuple(query.rule for query in queries.values() if not query.parameters)
            return KeptProgram(rules, arities={rule.head.predicate: len(rule.head.terms) for rule in rules})
        if not queries:
            return KeptProgram()
        derived = program.derived
        with_explicit = frozenset(explicit) & derived | {name for name in derived if self._size(name)}
        rules = tuple(query.rule for query in queries.values())
        rules += tuple(rule for query in queries.values() for rule in _sharing(query, program, with_explicit))
        if BOTTOM in program.predicates:
            rules = (*rules, Rule(Atom(KEPT_BOTTOM, ()), (Atom(BOTTOM, ()),)))
        bindings = {query.bindings: len(query.parameters) for query in queries.values() if query.parameters}
        options = MagicOptions(with_explicit, self._cost, frozenset(bindings))
        rewritten = rewrite(program.rules, rules, options)
        arities = {**arities_of(rewritten), **bindings}
        return KeptProgram(rewritten.rules, frozenset(rewritten.seeds), arities, with_explicit)

    def _cost(self, atom: Atom, bound: Collection[Variable]) -> float:
        """The cost of an atom, the same as long as queries are kept: rewriting then gives the same rules."""
        key = atom, frozenset(bound)
        if key not in self._costs:
            is_known = self._size(atom.predicate) > 0
            self._costs[key] = expected_growth(self._engine.storage)(atom, bound) if is_known else 0.0
        return self._costs[key]

    def _size(self, name: str) -> int:
        return int(self._engine.storage.size(name)) if name in self._engine.storage.relations() else 0

    # ---- facts

    def _facts_of(self, relation: str) -> dict[str, Rows]:
        columns, count = self._engine.storage.rows(relation)
        return {relation: Rows(columns, count)} if count else {}


def _sharing(kept: KeptQuery, program: Program, explicit: Collection[str]) -> tuple[Rule, ...]:
    """The rule of a query's backward relation, if it requests the nodes reached in a transitive predicate.

    Two nodes that reach each other reach the same nodes, so that they share their answers.
    """
    body, parameters, variables = kept.query.rule.body, kept.parameters, kept.variables
    if len(body) != 1 or len(parameters) != 1 or len(variables) != 1:
        return ()
    (atom,) = body
    if not isinstance(atom, Atom) or set(atom.terms) != {*parameters, *variables} or len(atom.terms) != 2:
        return ()
    if not is_closed(atom.predicate, program.rules, explicit):
        return ()
    begin, end = parameters[0], variables[0]
    swapped = {begin: end, end: begin}
    back = Atom(atom.predicate, tuple(swapped[term] for term in atom.terms if isinstance(term, Variable)))
    reaches_itself = Atom(atom.predicate, (begin, begin))
    return (Rule(Atom(kept.backward, (begin, end)), (Atom(kept.bindings, (begin,)), reaches_itself, back)),)


def untyped_predicate(name: str, arity: int) -> Predicate:
    """A predicate of a relation that holds any values."""
    return Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, name)
