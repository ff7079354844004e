"""What is wrong when constants are equal that must not be: which ones, by which instance of which rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids
from tidelog.equality.classes import Classes
from tidelog.errors import Diagnostic
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
from tidelog.plan.rule_text import Writing
from tidelog.rewrite.representatives import stored

UNEQUAL = "E605"
ANSWER = "?- unequal"
REASONS = {
    DIFFERENT_LITERALS: "which are different literals",
    DIFFERENT_NAMES: "which are different names, and names are unique",
    VIOLATED: "which must differ",
}
Pair = tuple[Value, Value]
Kinds = npt.NDArray[np.uint8]


def violation(program: Program, engine: Any) -> Diagnostic | None:
    """Two constants that are equal and must not be, if there are such; the engine holds all facts.

    `program` has the axioms and constraints of equality among its rules.
    """
    for rule in program.rules:
        if rule.name in REASONS and rule.span is None:
            last = next(term for term in reversed(_first_atom(rule).terms) if isinstance(term, Variable))
            for pair in _pairs(engine, Rule(Atom(ANSWER, (X, last)), rule.body)):
                return _described(pair, REASONS[rule.name], program, engine)
    return None


def conflicting(classes: Classes, some: Ids, kinds: Kinds, unique_names: bool) -> list[int]:
    """Those of the classes that have two literals, or two names that must be unique, as members."""
    members = classes.members_of(classes.several(some))
    among, owners = kinds[members], classes.representatives(members)
    found = _repeated(owners[(among != Kind.IRI) & (among != Kind.BLANK)])
    return [*found, *_repeated(owners[among == Kind.IRI])] if unique_names else found


def _repeated(ids: Ids) -> list[int]:
    found, counts = np.unique(ids, return_counts=True)
    repeated: list[int] = found[counts > 1].tolist()
    return repeated


def conflict_among(members: Iterable[Value], program: Program) -> Diagnostic:
    """The same where facts lie in several places, and nobody looks for the rule and its facts."""
    pair, reason = _pair_of(members)
    return _without_proof(pair, REASONS[reason], program)


def not_different_among(members: Iterable[Value], program: Program) -> Diagnostic:
    """What is wrong with a class of which two members must differ, which may be one and the same."""
    ordered = sorted(members, key=order_key)
    return _without_proof((ordered[0], ordered[-1]), REASONS[VIOLATED], program)


def _pair_of(members: Iterable[Value]) -> tuple[Pair, str]:
    """Two literals of a class, else two names, and why they must not be equal."""
    ordered = sorted(members, key=order_key)
    literals = [value for value in ordered if value.kind not in (Kind.IRI, Kind.BLANK)]
    names = [value for value in ordered if value.kind is Kind.IRI]
    pair, reason = (literals, DIFFERENT_LITERALS) if len(literals) > 1 else (names, DIFFERENT_NAMES)
    return (pair[0], pair[1]), reason


def conflict(members: Iterable[Value], program: Program, engine: Any, classes: Classes) -> Diagnostic:
    """What is wrong with a class that has two literals, or else two names."""
    pair, reason = _pair_of(members)
    return _described(pair, REASONS[reason], program, engine, classes)


def not_different(program: Program, engine: Any, classes: Classes) -> Diagnostic | None:
    """Two members of a class that must differ, if there are such; those first of which that is explicit."""
    if DIFFERENT not in program.predicates:
        return None
    found: list[Pair] = []
    decode = engine.dictionary.decode
    for relation in (DIFFERENT, stored(DIFFERENT)):
        (left, right), _ = engine.rows(relation)
        same = classes.representatives(left) == classes.representatives(right)
        for one, other in zip(left[same].tolist(), right[same].tolist(), strict=True):
            others = classes.class_of(one).tolist() if relation != DIFFERENT else [other]
            found += [(decode(one), decode(each)) for each in others]
    found.sort(key=lambda pair: (pair[0] == pair[1], *map(order_key, pair)))
    return _described(found[0], REASONS[VIOLATED], program, engine, classes) if found else None


def _first_atom(rule: Rule) -> Atom:
    return rule.positive[0]


def _pairs(engine: Any, rule: Rule) -> Iterator[Pair]:
    columns, count = engine.answer(rule)
    decode = engine.dictionary.decode
    found = ((decode(int(columns[0][row])), decode(int(columns[1][row]))) for row in range(count))
    yield from sorted(found, key=lambda pair: (pair[0] == pair[1], *map(order_key, pair)))[:1]


def _described(
    pair: Pair, reason: str, program: Program, engine: Any, classes: Classes | None = None
) -> Diagnostic:
    """The diagnostic, with a proof if one rule gives the equality at once. Facts are over `classes`."""
    writing = Writing.of(program)
    left, right = map(writing.value, pair)
    message = f"inconsistent: {left} = {right}, {reason}"
    asking = f"`tidelog explain PROGRAM '{left} = {right}'`, or `reasoner.explain(…)`, says why"
    equating = [rule for rule in program.rules if rule.head.predicate == EQUAL and rule.span is not None]
    for beside in (_nothing, _derived_atoms) if classes is not None else (_nothing,):
        for rule in equating:
            followed = beside(rule, engine)
            facts = _proof(rule, pair, engine, followed, classes)
            if facts is not None:
                named = f"the rule {rule.name!r}" if rule.name else "this rule"
                known = len(facts) - len(followed)
                marks = ("",) * known + (" (derived)",) * len(followed)
                texts = (writing.fact(fact).removesuffix(" .") for fact in facts)
                shown = ", ".join(map("".join, zip(texts, marks, strict=True)))
                more = f"; {asking}" if followed else ""
                return Diagnostic(UNEQUAL, message, rule.span, f"by {named} from {shown}{more}")
    return Diagnostic(UNEQUAL, message, help=f"{asking} they are equal")


def _without_proof(pair: Pair, reason: str, program: Program) -> Diagnostic:
    left, right = map(Writing.of(program).value, pair)
    help = f"run it in one process, or `tidelog explain PROGRAM '{left} = {right}'`, which says why"
    return Diagnostic(UNEQUAL, f"inconsistent: {left} = {right}, {reason}", help=help)


def _proof(
    rule: Rule, pair: Pair, engine: Any, followed: tuple[Atom, ...], classes: Classes | None
) -> tuple[Fact, ...] | None:
    """The facts by which a rule makes two constants equal, last those of atoms that need not be explicit."""
    for wanted in (pair, pair[::-1]):
        facts = instance(rule, wanted, engine, followed)
        if facts is not None and _hold(facts[len(facts) - len(followed) :], engine, classes):
            return facts
    return None


def _nothing(rule: Rule, engine: Any) -> tuple[Atom, ...]:
    """The atoms of a rule that need not be explicit: none."""
    return ()


def _derived_atoms(rule: Rule, engine: Any) -> tuple[Atom, ...]:
    """The atoms of a rule that need not be explicit: others bind their variables, and no fact is explicit."""
    found = tuple(atom for atom in rule.positive if not engine.explicit(atom.predicate)[1])
    others = {each for atom in rule.positive if atom not in found for each in literal_variables(atom)}
    return tuple(atom for atom in found if others.issuperset(literal_variables(atom)))


def _hold(facts: Iterable[Fact], engine: Any, classes: Classes | None) -> bool:
    """Whether facts are among those over representatives."""
    for fact in facts:
        assert classes is not None
        ids = classes.representatives(engine.dictionary.encode_values(list(fact.values)))
        terms = tuple(Constant(engine.dictionary.decode(int(each))) for each in ids)
        if not engine.answer(Rule(Atom(ANSWER, ()), (Atom(stored(fact.predicate), terms),)))[1]:
            return False
    return True


def instance(
    rule: Rule, head: Iterable[Value], engine: Any, followed: tuple[Atom, ...]
) -> tuple[Fact, ...] | None:
    """The facts of one instance of a rule with this head, if there is any; last those not looked for."""
    body = tuple(literal for literal in rule.body if literal not in followed)
    atoms = (*(literal for literal in body if isinstance(literal, Atom)), *followed)
    variables = tuple(dict.fromkeys(each for item in atoms for each in literal_variables(item)))
    tests = tuple(
        Comparison("=", term, Constant(value)) for term, value in zip(rule.head.terms, head, strict=True)
    )
    columns, count = engine.answer(Rule(Atom(ANSWER, variables), (*body, *tests)))
    if not count:
        return None
    row = {
        variable: engine.dictionary.decode(int(column[0]))
        for variable, column in zip(variables, columns, strict=True)
    }

    def ground(term: Term) -> Value:
        return term.value if isinstance(term, Constant) else row[term]

    return tuple(Fact(atom.predicate, tuple(map(ground, atom.terms))) for atom in atoms)
