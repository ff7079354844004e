"""The queries that are kept, and the rules by which maintainers keep their answers right. Mutates itself.

As long as not everything is derived, all kept queries together are rewritten by magic sets into one
program. Its relations live in the engine beside the explicit facts; a transaction maintains them, and
nothing else. A binding of a prepared query is a fact of its relation of bindings. When rules change, the
queries are rewritten anew, and what differs are rules that come and go. Once everything is derived, a live
query is a rule like any other, and a prepared one is looked up.

Invariant: between transactions the relations of `kept` are what their rules derive from the facts that are
there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidelog.data.rows import Rows
from tidelog.logic.program import BOTTOM, Atom, Fact, Predicate, Program, Query, Rule, Variable
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Update
from tidelog.plan.join_order import expected_growth
from tidelog.query.magic import arities_of
from tidelog.query.strategy import inconsistency
from tidelog.rewrite.magic_sets import Options, is_closed, rewrite

NO_UPDATE = Update({}, {})
INCONSISTENT = "?- bottom, kept"  # not the relation of queries that are asked once: they drop theirs


@dataclass(frozen=True, slots=True)
class Asked:
    """A query that is kept: its answers are in the relation `name`, the columns of parameters first."""

    name: str
    query: Query
    parameters: tuple[Variable, ...] = ()

    @property
    def variables(self) -> tuple[Variable, ...]:
        """What is answered."""
        head = (term for term in self.query.rule.head.terms if isinstance(term, Variable))
        return tuple(variable for variable in head if variable not in self.parameters)

    @property
    def bindings(self) -> str:
        """The relation of the bindings that are asked for."""
        return f"{self.name} bindings"

    @property
    def backward(self) -> str:
        """What each binding on a cycle is an answer to: if that is one of its answers, both have the same."""
        return f"{self.name} backward"

    @property
    def rule(self) -> Rule:
        """The rule that gives the answers."""
        guard = (Atom(self.bindings, self.parameters),) if self.parameters else ()
        head = Atom(self.name, (*self.parameters, *self.variables))
        return replace(self.query.rule, head=head, body=(*guard, *self.query.rule.body))


@dataclass(frozen=True, slots=True)
class Kept:
    """What is maintained for queries: rules, the bindings they begin with, and their relations."""

    rules: tuple[Rule, ...] = ()
    seeds: frozenset[Fact] = frozenset()
    arities: Mapping[str, int] = field(default_factory=dict)
    stated: frozenset[str] = frozenset()  # derived predicates that were known to have explicit facts


@dataclass(frozen=True, slots=True)
class Step:
    """A transaction as maintainers see it, and what is kept afterwards."""

    update: Update
    before: Program
    after: Program
    kept: Kept


class Demands:
    """All kept queries of a reasoner."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._asked: dict[str, Asked] = {}
        self._is_full = False  # whether maintainers know the program's own rules too
        self._programs: tuple[Program, Kept, Program] | None = None  # the last one that was put together
        self._costs: dict[tuple[Atom, frozenset[Variable]], float] = {}
        self._made: set[str] = set()  # relations, those of the past too
        self.kept = Kept()

    @property
    def are_there(self) -> bool:
        """Whether something is maintained for queries."""
        return bool(self.kept.arities)

    @property
    def watched(self) -> Mapping[str, Asked]:
        """The live queries, by the relations of their answers."""
        return {name: asked for name, asked in self._asked.items() if not asked.parameters}

    def name_for(self, arity: int) -> str:
        """A name for the answers of a query, which no kept one has; names of the past are used again."""
        number = 1
        while (name := f"?- {number} of {arity}") in self._asked:
            number += 1
        return name

    @property
    def asked(self) -> tuple[Asked, ...]:
        """All kept queries."""
        return tuple(self._asked.values())

    def find(self, name: str) -> Asked | None:
        """The query of this name, if it is kept."""
        return self._asked.get(name)

    # ---- transactions

    def step(self, update: Update, before: Program, after: Program) -> Step:
        """A transaction with all that it means for kept queries."""
        kept = self.kept
        if self._asked and self._is_outdated(update, before, after):
            kept = self._rewritten(after, self._asked, kept.stated | update.added.keys())
        return self._step(update, before, after, kept)

    def asking(self, asked: Asked, program: Program) -> Step:
        """What is to be done so that a query be kept."""
        kept = self._rewritten(program, {**self._asked, asked.name: asked}, self.kept.stated)
        return self._step(NO_UPDATE, program, program, kept)

    def forgetting(self, asked: Asked, program: Program) -> Step:
        """What is to be done so that a query be kept no longer."""
        others = {name: each for name, each in self._asked.items() if name != asked.name}
        kept = self._rewritten(program, others, self.kept.stated)
        bindings = self._facts_of(asked.bindings) if asked.bindings in self.kept.arities else {}
        return self._step(Update(bindings, {}), program, program, kept)

    def _is_outdated(self, update: Update, before: Program, after: Program) -> bool:
        """Whether the kept queries must be rewritten."""
        if self._is_full:
            return False
        return after.rules is not before.rules or bool(
            (update.added.keys() - self.kept.stated) & after.derived
        )

    def _step(self, update: Update, before: Program, after: Program, kept: Kept) -> Step:
        if kept is self.kept and (self._is_full or after.rules is before.rules):
            return Step(update, self.whole(before, kept), self.whole(after, kept), kept)
        first, last = self.whole(before, self.kept), self.whole(after, kept)
        old, new = frozenset(first.rules), frozenset(last.rules)
        return Step(
            Update(
                {**update.removed, **self._rows(self.kept.seeds - kept.seeds)},
                {**update.added, **self._rows(kept.seeds - self.kept.seeds)},
                tuple(rule for rule in first.rules if rule not in new),
                tuple(rule for rule in last.rules if rule not in old),
            ),
            first,
            last,
            kept,
        )

    def whole(self, program: Program, kept: Kept) -> Program:
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
        added = {name: _predicate(name, arity) for name, arity in kept.arities.items()}
        made = replace(program, rules=rules, predicates={**program.predicates, **added})
        self._programs = program, kept, made
        return made

    def define(self, kept: Kept) -> None:
        """Create the relations of kept queries."""
        for name, arity in kept.arities.items():
            self._engine.define(name, arity)
        self._made.update(kept.arities)

    def adopt(self, step: Step, asked: Asked | None = None, *, forgotten: bool = False) -> None:
        """Take note of a transaction that was carried out."""
        self.kept = step.kept
        if asked is not None and forgotten:
            del self._asked[asked.name]
            if not self._asked and not self._is_full:
                self.withdraw()
        elif asked is not None:
            self._asked[asked.name] = asked

    def check_consistency(self, program: Program) -> None:
        """Raise Inconsistent if kept queries have found `bottom()`."""
        if INCONSISTENT in self._engine.relations() and self._engine.size(INCONSISTENT):
            raise inconsistency(program)

    # ---- before and after everything is derived

    def withdraw(self) -> None:
        """Drop all relations of kept queries, and the counters."""
        for name in self._made:
            self._engine.drop(name)
        self._engine.forget_counters()
        self.begin_again()

    def begin_again(self) -> None:
        """Forget the relations of kept queries, which are gone; the queries can be asked anew."""
        self._made = set()
        self.kept = Kept()
        self._is_full = False
        self._programs = None
        self._costs = {}

    def asking_anew(self, program: Program, bindings: Mapping[str, Rows]) -> Step:
        """What is to be done so that all queries be kept again, with the bindings that were asked for."""
        kept = self._rewritten(program, self._asked, frozenset())
        return self._step(Update({}, bindings), program, program, kept)

    def begin_anew(self, program: Program) -> Step:
        """What is to be done so that queries be kept by a program of which everything is derived."""
        self._is_full = True
        return self._step(NO_UPDATE, program, program, self._rewritten(program, self._asked, frozenset()))

    def resume(self, asked: Iterable[Asked], program: Program) -> None:
        """Keep these queries for a program of which everything is derived, their answers too."""
        self._is_full = True
        self._asked = {each.name: each for each in asked}
        self.kept = self._rewritten(program, self._asked, frozenset())
        self.define(self.kept)

    # ---- rewriting

    def _rewritten(self, program: Program, asked: Mapping[str, Asked], stated: Collection[str]) -> Kept:
        """What is to be maintained for queries."""
        if self._is_full:
            rules = tuple(each.rule for each in asked.values() if not each.parameters)
            return Kept(rules, arities={rule.head.predicate: len(rule.head.terms) for rule in rules})
        if not asked:
            return Kept()
        derived = program.derived
        known = frozenset(stated) & derived | {name for name in derived if self._size(name)}
        rules = tuple(each.rule for each in asked.values())
        rules += tuple(rule for each in asked.values() for rule in _sharing(each, program, known))
        if BOTTOM in program.predicates:
            rules = (*rules, Rule(Atom(INCONSISTENT, ()), (Atom(BOTTOM, ()),)))
        bindings = {each.bindings: len(each.parameters) for each in asked.values() if each.parameters}
        made = rewrite(program.rules, rules, Options(known, self._cost, frozenset(bindings)))
        return Kept(made.rules, frozenset(made.seeds), {**arities_of(made), **bindings}, known)

    def _cost(self, atom: Atom, bound: Collection[Variable]) -> float:
        """What an atom costs, the same as long as queries are kept: rewriting anew must not differ."""
        key = atom, frozenset(bound)
        if key not in self._costs:
            is_known = self._size(atom.predicate) > 0
            self._costs[key] = expected_growth(self._engine.storage)(atom, bound) if is_known else 0.0
        return self._costs[key]

    def _size(self, name: str) -> int:
        return int(self._engine.size(name)) if name in self._engine.relations() else 0

    # ---- facts

    def _rows(self, facts: Iterable[Fact]) -> dict[str, Rows]:
        by_relation: dict[str, list[Fact]] = {}
        for fact in facts:
            by_relation.setdefault(fact.predicate, []).append(fact)
        encode = self._engine.dictionary.encode_values
        return {
            name: Rows(
                tuple(encode([fact.values[place] for fact in some]) for place in range(len(some[0].values))),
                len(some),
            )
            for name, some in by_relation.items()
        }

    def _facts_of(self, relation: str) -> dict[str, Rows]:
        columns, count = self._engine.rows(relation)
        return {relation: Rows(columns, count)} if count else {}


def _sharing(asked: Asked, program: Program, stated: Collection[str]) -> tuple[Rule, ...]:
    """The rule of a query's backward relation, if it asks what one place of a transitive predicate reaches.

    Two places that reach each other reach the same: the answers of one serve for both.
    """
    body, parameters, variables = asked.query.rule.body, asked.parameters, asked.variables
    if len(body) != 1 or len(parameters) != 1 or len(variables) != 1:
        return ()
    (atom,) = body
    if not isinstance(atom, Atom) or set(atom.terms) != {*parameters, *variables} or len(atom.terms) != 2:
        return ()
    if not is_closed(atom.predicate, program.rules, stated):
        return ()
    begin, other = parameters[0], variables[0]
    swapped = {begin: other, other: begin}
    back = Atom(atom.predicate, tuple(swapped[term] for term in atom.terms if isinstance(term, Variable)))
    around = Atom(atom.predicate, (begin, begin))
    return (Rule(Atom(asked.backward, (begin, other)), (Atom(asked.bindings, (begin,)), around, back)),)


def _predicate(name: str, arity: int) -> Predicate:
    return Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, name)
