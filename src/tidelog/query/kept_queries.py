"""Queries that are kept, and the rules by which maintainers maintain their answers. Mutates itself.

As long as the program is not materialised, all kept queries together are rewritten by magic sets into one
program. Its relations are in the engine next to the explicit facts, and are all that a transaction
maintains. A binding of a prepared query is a fact of its relation of bindings. When rules change, the
queries are rewritten again, and the difference is rules that are added and removed. Once the program is
materialised, a live query is a rule like any other, and a prepared one is looked up.

Invariant: between transactions the relations of `kept` hold what their rules derive from the current facts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidelog.data.rows import Rows
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
from tidelog.plan.join_order import expected_growth
from tidelog.query.magic import arities_of, rows_by_relation
from tidelog.query.strategy import inconsistency
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
    """What is maintained for queries: rules, their seeds, and the relations of both."""

    rules: tuple[Rule, ...] = ()
    seeds: frozenset[Fact] = frozenset()
    arities: Mapping[str, int] = field(default_factory=dict)
    explicit: frozenset[str] = frozenset()  # derived predicates with explicit facts


@dataclass(frozen=True, slots=True)
class QueryStep:
    """A transaction as maintainers see it, and what is maintained afterwards."""

    update: Update
    before: Program
    after: Program
    kept: KeptProgram


class KeptQueries:
    """All kept queries of a reasoner."""

    def __init__(self, engine: ColumnarEngine) -> None:
        self._engine = engine
        self._asked: dict[str, KeptQuery] = {}
        self._is_full = False  # whether maintainers know the program's own rules too
        self._programs: tuple[Program, KeptProgram, Program] | None = None  # the last result of `whole`
        self._costs: dict[tuple[Atom, frozenset[Variable]], float] = {}
        self._made: set[str] = set()  # all relations that were defined, whether they are still used or not
        self.kept = KeptProgram()

    @property
    def are_there(self) -> bool:
        """Whether anything is maintained for queries."""
        return bool(self.kept.arities)

    @property
    def watched(self) -> Mapping[str, KeptQuery]:
        """The live queries, by the relations of their answers."""
        return {name: asked for name, asked in self._asked.items() if not asked.parameters}

    def name_for(self, arity: int) -> str:
        """A free name for the answers of a query; names of queries that are kept no longer are used again."""
        number = 1
        while (name := kept_answers(number, arity)) in self._asked:
            number += 1
        return name

    @property
    def asked(self) -> tuple[KeptQuery, ...]:
        """All kept queries."""
        return tuple(self._asked.values())

    def find(self, name: str) -> KeptQuery | None:
        """The query of this name, if it is kept."""
        return self._asked.get(name)

    # ---- transactions

    def step(self, update: Update, before: Program, after: Program) -> QueryStep:
        """A transaction together with the changes of rules and seeds that it needs for kept queries."""
        kept = self.kept
        if self._asked and self._is_outdated(update, before, after):
            kept = self._rewritten(after, self._asked, kept.explicit | update.added.keys())
        return self._step(update, before, after, kept)

    def asking(self, asked: KeptQuery, program: Program) -> QueryStep:
        """The step by which a query begins to be kept."""
        kept = self._rewritten(program, {**self._asked, asked.name: asked}, self.kept.explicit)
        return self._step(NO_UPDATE, program, program, kept)

    def forgetting(self, asked: KeptQuery, program: Program) -> QueryStep:
        """The step by which a query stops being kept."""
        others = {name: each for name, each in self._asked.items() if name != asked.name}
        kept = self._rewritten(program, others, self.kept.explicit)
        bindings = self._facts_of(asked.bindings) if asked.bindings in self.kept.arities else {}
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
        """The program that maintainers know, the same object for the same program."""
        if self._is_full and not kept.rules:
            return program
        known = self._programs
        if known is not None and known[0] is program and known[1] is kept:
            return known[2]
        own = program.rules if self._is_full else ()
        rules = kept.rules if not own else (*own, *kept.rules) if kept.rules else own
        if known is not None and known[1] is kept and known[0].rules is program.rules:
            rules = known[2].rules
        added = {name: untyped_predicate(name, arity) for name, arity in kept.arities.items()}
        made = replace(program, rules=rules, predicates={**program.predicates, **added})
        self._programs = program, kept, made
        return made

    def define(self, kept: KeptProgram) -> None:
        """Create the relations of kept queries."""
        for name, arity in kept.arities.items():
            self._engine.storage.define(name, arity)
        self._made.update(kept.arities)

    def adopt(self, step: QueryStep, asked: KeptQuery | None = None, *, forgotten: bool = False) -> None:
        """Adopt what a step maintains, once it was executed."""
        self.kept = step.kept
        if asked is not None and forgotten:
            del self._asked[asked.name]
            if not self._asked and not self._is_full:
                self.withdraw()
        elif asked is not None:
            self._asked[asked.name] = asked

    @property
    def are_inconsistent(self) -> bool:
        """Whether the rules of kept queries derive `bottom()`."""
        return self._size(KEPT_BOTTOM) > 0

    def check_consistency(self, program: Program) -> None:
        """Raise Inconsistent if the rules of kept queries derive `bottom()`."""
        if self.are_inconsistent:
            raise inconsistency(program)

    # ---- before and after the program is materialised

    def withdraw(self) -> None:
        """Drop all relations of kept queries, and the counters."""
        for name in self._made:
            self._engine.storage.drop(name)
        self._engine.counters.forget()
        self.begin_again()

    def begin_again(self) -> None:
        """Forget the relations of kept queries, which were dropped; the queries can be kept again."""
        self._made = set()
        self.kept = KeptProgram()
        self._is_full = False
        self._programs = None
        self._costs = {}

    def asking_anew(self, program: Program, bindings: Mapping[str, Rows]) -> QueryStep:
        """The step by which all queries are kept again, with the bindings that were requested before."""
        kept = self._rewritten(program, self._asked, frozenset())
        return self._step(Update({}, bindings), program, program, kept)

    def begin_anew(self, program: Program) -> QueryStep | None:
        """The step by which queries are kept once the program is materialised, None if there are none."""
        self._is_full = True
        if not self._asked:
            return None
        return self._step(NO_UPDATE, program, program, self._rewritten(program, self._asked, frozenset()))

    def resume(self, asked: Iterable[KeptQuery], program: Program) -> None:
        """Keep these queries of a materialised program, their answers included."""
        self._is_full = True
        self._asked = {each.name: each for each in asked}
        self.kept = self._rewritten(program, self._asked, frozenset())
        self.define(self.kept)

    # ---- rewriting

    def _rewritten(
        self, program: Program, asked: Mapping[str, KeptQuery], explicit: Collection[str]
    ) -> KeptProgram:
        """What is to be maintained for queries."""
        if self._is_full:
            rules = tuple(each.rule for each in asked.values() if not each.parameters)
            return KeptProgram(rules, arities={rule.head.predicate: len(rule.head.terms) for rule in rules})
        if not asked:
            return KeptProgram()
        derived = program.derived
        known = frozenset(explicit) & derived | {name for name in derived if self._size(name)}
        rules = tuple(each.rule for each in asked.values())
        rules += tuple(rule for each in asked.values() for rule in _sharing(each, program, known))
        if BOTTOM in program.predicates:
            rules = (*rules, Rule(Atom(KEPT_BOTTOM, ()), (Atom(BOTTOM, ()),)))
        bindings = {each.bindings: len(each.parameters) for each in asked.values() if each.parameters}
        made = rewrite(program.rules, rules, MagicOptions(known, self._cost, frozenset(bindings)))
        return KeptProgram(made.rules, frozenset(made.seeds), {**arities_of(made), **bindings}, known)

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


def _sharing(asked: KeptQuery, program: Program, explicit: Collection[str]) -> tuple[Rule, ...]:
    """The rule of a query's backward relation, if it asks what one node of a transitive predicate reaches.

    Two nodes that reach each other reach the same: the answers of one serve for both.
    """
    body, parameters, variables = asked.query.rule.body, asked.parameters, asked.variables
    if len(body) != 1 or len(parameters) != 1 or len(variables) != 1:
        return ()
    (atom,) = body
    if not isinstance(atom, Atom) or set(atom.terms) != {*parameters, *variables} or len(atom.terms) != 2:
        return ()
    if not is_closed(atom.predicate, program.rules, explicit):
        return ()
    begin, other = parameters[0], variables[0]
    swapped = {begin: other, other: begin}
    back = Atom(atom.predicate, tuple(swapped[term] for term in atom.terms if isinstance(term, Variable)))
    around = Atom(atom.predicate, (begin, begin))
    return (Rule(Atom(asked.backward, (begin, other)), (Atom(asked.bindings, (begin,)), around, back)),)


def untyped_predicate(name: str, arity: int) -> Predicate:
    """A predicate of a relation that holds any values."""
    return Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, name)
