"""Finders of constants that are equal and must not be.

A finder returns a `Conflict`: which two constants, for which reason, and, where it was looked for, the
instance of a rule that makes them equal in one step. `plan.inconsistency` describes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids
from tidelog.equality.classes import Classes
from tidelog.logic.equality_axioms import DIFFERENT_LITERALS, DIFFERENT_NAMES, VIOLATED, X
from tidelog.logic.program import (
    DIFFERENT,
    EQUAL,
    Atom,
    Comparison,
    Constant,
    Fact,
    Program,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Kind, Value, order_key
from tidelog.plan.algebra import UNEQUAL_PAIRS
from tidelog.plan.inconsistency import REASONS, Conflict, EquatingInstance, Pair
from tidelog.rewrite.representatives import stored

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

Kinds = npt.NDArray[np.uint8]


def find_by_axioms(program: Program, engine: ColumnarEngine) -> Conflict | None:
    """Find two constants that an axiom of `program` forbids to be equal; the engine holds all facts."""
    for rule in program.rules:
        if rule.name in REASONS and rule.span is None:
            last = next(term for term in reversed(rule.positive[0].terms) if isinstance(term, Variable))
            pair = _first_pair(engine, Rule(Atom(UNEQUAL_PAIRS, (X, last)), rule.body))
            if pair is not None:
                return traced(Conflict(pair, rule.name), program, engine)
    return None


def _first_pair(engine: ColumnarEngine, rule: Rule) -> Pair | None:
    """The first pair that a rule finds, one of two different constants if there is one."""
    (left, right), _ = engine.plans.answer(rule)
    decode = engine.storage.dictionary.decode
    pairs = zip(map(decode, left.tolist()), map(decode, right.tolist()), strict=True)
    return min(pairs, key=_pair_order, default=None)


def _pair_order(pair: Pair) -> tuple[object, ...]:
    return pair[0] == pair[1], *map(order_key, pair)


def conflicting_classes(classes: Classes, some: Ids, kinds: Kinds, unique_names: bool) -> list[int]:
    """Return the classes, among some, that have two literals, or two names where names are unique."""
    members = classes.members_of(classes.several(some))
    among, owners = kinds[members], classes.representatives(members)
    found = _repeated(owners[(among != Kind.IRI) & (among != Kind.BLANK)])
    return [*found, *_repeated(owners[among == Kind.IRI])] if unique_names else found


def _repeated(ids: Ids) -> list[int]:
    found, counts = np.unique(ids, return_counts=True)
    repeated: list[int] = found[counts > 1].tolist()
    return repeated


def conflict_among(members: Iterable[Value]) -> Conflict:
    """Return the conflict of a class that has two literals, or else two names that must be unique."""
    ordered = sorted(members, key=order_key)
    literals = [value for value in ordered if value.kind not in (Kind.IRI, Kind.BLANK)]
    names = [value for value in ordered if value.kind is Kind.IRI]
    pair, reason = (literals, DIFFERENT_LITERALS) if len(literals) > 1 else (names, DIFFERENT_NAMES)
    return Conflict((pair[0], pair[1]), reason)


def not_different_among(members: Iterable[Value]) -> Conflict:
    """Return the conflict of a class of which two members, perhaps one and the same, must differ."""
    ordered = sorted(members, key=order_key)
    return Conflict((ordered[0], ordered[-1]), VIOLATED)


def find_not_different(program: Program, engine: ColumnarEngine, classes: Classes) -> Conflict | None:
    """Find two members of a class that must differ; explicit facts that say so come first."""
    if DIFFERENT not in program.predicates:
        return None
    found: list[Pair] = []
    decode = engine.storage.dictionary.decode
    for relation in (DIFFERENT, stored(DIFFERENT)):
        (left, right), _ = engine.storage.rows(relation)
        same = classes.representatives(left) == classes.representatives(right)
        for one, other in zip(left[same].tolist(), right[same].tolist(), strict=True):
            others = classes.class_of(one).tolist() if relation != DIFFERENT else [other]
            found += [(decode(one), decode(each)) for each in others]
    return Conflict(min(found, key=_pair_order), VIOLATED) if found else None


def traced(
    conflict: Conflict, program: Program, engine: ColumnarEngine, classes: Classes | None = None
) -> Conflict:
    """Return the conflict with an instance that makes the two equal in one step, if there is one.

    With `classes`, facts are stored over their representatives. Instances of explicit facts come first;
    then those whose other facts are only derived.
    """
    rules = [rule for rule in program.rules if rule.head.predicate == EQUAL and rule.span is not None]
    for may_derive in (False, True) if classes is not None else (False,):
        for rule in rules:
            derived = _derived_atoms(rule, engine) if may_derive else ()
            facts = _equating_facts(rule, conflict.pair, engine, derived, classes)
            if facts is not None:
                return replace(conflict, instance=EquatingInstance(rule, facts, len(derived)))
    return conflict


def _equating_facts(
    rule: Rule, pair: Pair, engine: ColumnarEngine, derived: tuple[Atom, ...], classes: Classes | None
) -> tuple[Fact, ...] | None:
    """The facts by which a rule makes two constants equal, last those of atoms that are only derived."""
    for head in (pair, pair[::-1]):
        facts = _facts_of_instance(rule, head, engine, derived)
        if facts is not None and _hold(facts[len(facts) - len(derived) :], engine, classes):
            return facts
    return None


def _derived_atoms(rule: Rule, engine: ColumnarEngine) -> tuple[Atom, ...]:
    """The atoms of a rule that have no explicit facts, and whose variables other atoms bind."""
    found = tuple(atom for atom in rule.positive if not engine.storage.explicit(atom.predicate)[1])
    others = {each for atom in rule.positive if atom not in found for each in literal_variables(atom)}
    return tuple(atom for atom in found if others.issuperset(literal_variables(atom)))


def _hold(facts: Iterable[Fact], engine: ColumnarEngine, classes: Classes | None) -> bool:
    """Whether facts are among those over representatives."""
    for fact in facts:
        assert classes is not None
        ids = classes.representatives(engine.storage.dictionary.encode_values(list(fact.values)))
        terms = tuple(Constant(engine.storage.dictionary.decode(int(each))) for each in ids)
        if not engine.plans.answer(Rule(Atom(UNEQUAL_PAIRS, ()), (Atom(stored(fact.predicate), terms),)))[1]:
            return False
    return True


def _facts_of_instance(
    rule: Rule, head: Iterable[Value], engine: ColumnarEngine, derived: tuple[Atom, ...]
) -> tuple[Fact, ...] | None:
    """The facts of one instance of a rule with this head; last those of `derived` atoms, not matched."""
    body = tuple(literal for literal in rule.body if literal not in derived)
    atoms = (*(literal for literal in body if isinstance(literal, Atom)), *derived)
    variables = tuple(dict.fromkeys(each for item in atoms for each in literal_variables(item)))
    tests = tuple(
        Comparison("=", term, Constant(value)) for term, value in zip(rule.head.terms, head, strict=True)
    )
    columns, count = engine.plans.answer(Rule(Atom(UNEQUAL_PAIRS, variables), (*body, *tests)))
    if not count:
        return None
    decode = engine.storage.dictionary.decode
    row = {each: decode(int(column[0])) for each, column in zip(variables, columns, strict=True)}

    def ground(term: Term) -> Value:
        return term.value if isinstance(term, Constant) else row[term]

    return tuple(Fact(atom.predicate, tuple(map(ground, atom.terms))) for atom in atoms)
