"""Equality as rules: the meaning of `?x = ?y` in a head, and a program with the axioms of equality as rules.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, section 2: equality is a congruence. It is symmetric and transitive, and
equals may be replaced in every argument of every predicate. That each constant equals itself is left out:
replacing it by itself gives nothing new.

Invariant: rules with these axioms are stratified only if no predicate that equality depends on is negated or
aggregated, since equality can change every predicate.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from functools import cache

from tidelog.errors import Diagnostic, ProgramError, codes, suggest
from tidelog.logic.program import (
    BOTTOM,
    BUILT_IN,
    DIFFERENT,
    EQUAL,
    Apply,
    Atom,
    Comparison,
    Condition,
    Predicate,
    Program,
    Rule,
    Variable,
)

DIFFERENT_LITERALS = "different literals are equal"
DIFFERENT_NAMES = "different names are equal"
VIOLATED = "what must differ is equal"

X, Y, Z = Variable("x"), Variable("y"), Variable("z")

SYMMETRY = Rule(Atom(EQUAL, (Y, X)), (Atom(EQUAL, (X, Y)),), name="equality is symmetric")
TRANSITIVITY = Rule(
    Atom(EQUAL, (X, Z)), (Atom(EQUAL, (X, Y)), Atom(EQUAL, (Y, Z))), name="equality is transitive"
)


def axioms(predicates: Mapping[str, Predicate]) -> tuple[Rule, ...]:
    """The rules that make equality a congruence over these predicates."""
    replaced = (each for each in predicates.values() if each.name not in BUILT_IN or each.name == DIFFERENT)
    return (
        SYMMETRY,
        TRANSITIVITY,
        *(
            replacement(each.name, each.arity, position)
            for each in replaced
            for position in range(each.arity)
        ),
    )


@cache
def replacement(predicate: str, arity: int, place: int) -> Rule:
    """The rule by which equals are replaced in one argument of a predicate; always the same object."""
    terms = tuple(Variable(f"x{number}") for number in range(1, arity + 1))
    other = Variable("y")
    head = Atom(predicate, (*terms[:place], other, *terms[place + 1 :]))
    body = (Atom(predicate, terms), Atom(EQUAL, (terms[place], other)))
    return Rule(head, body, name=f"equals replaced in {predicate}, argument {place + 1}")


def constraints(has_different: bool, unique_names: bool) -> tuple[Rule, ...]:
    """The rules by which equality is inconsistent, over a symmetric and transitive equality."""
    rules = [_distinct("ISLITERAL", DIFFERENT_LITERALS)]
    if has_different:
        pair = Atom(DIFFERENT, (X, Y)), Atom(EQUAL, (X, Y))
        rules += [_inconsistent(pair, VIOLATED), _inconsistent((Atom(DIFFERENT, (X, X)),), VIOLATED)]
    if unique_names:
        rules.append(_distinct("ISIRI", DIFFERENT_NAMES))
    return tuple(rules)


def _inconsistent(body: tuple[Atom | Comparison | Condition, ...], name: str) -> Rule:
    return Rule(Atom(BOTTOM, ()), body, name=name)


@cache
def _distinct(kind: str, name: str) -> Rule:
    """That two different constants of a kind are equal is an inconsistency."""
    tests = (Condition(Apply(kind, (each,))) for each in (X, Y))
    return _inconsistent((Atom(EQUAL, (X, Y)), Comparison("!=", X, Y), *tests), name)


def has_equality(predicates: Container[str]) -> bool:
    """Whether constants may turn out equal, or must not."""
    return EQUAL in predicates or DIFFERENT in predicates


def unknown_treatment(name: str, known: Iterable[str]) -> ProgramError:
    """The error for an unknown treatment of equality."""
    names = tuple(known)
    help = suggest(name, names) or f"choose one of {', '.join(names)}"
    return ProgramError(
        Diagnostic(codes.UNKNOWN_TREATMENT, f"unknown treatment of equality `{name}`", help=help)
    )


# ---- a program with the axioms as rules
#
# Rules (≈1) to (≈3) of the paper, for predicates of any arity: the definition of what equality means, and the
# baseline that rewriting is measured against.
#
# Invariant: the program has the same facts as before in every predicate, and those that replacing equals
# adds.


def axiomatise(program: Program, *, unique_names: bool = False) -> Program:
    """The program with the axioms of equality as rules; the same object if it has no equality.

    >>> from tidelog.logic.resolve import resolve
    >>> from tidelog.syntax.parser import parse_text
    >>> program = resolve(parse_text("?x = ?y :- passport(?x, ?n), passport(?y, ?n) . passport(ann, 7) ."))
    >>> len(axiomatise(program).rules)
    6
    """
    if not has_equality(program.predicates):
        return program
    extended = program
    for name, arity in ((EQUAL, 2), (BOTTOM, 0)):
        extended = extended if name in extended.predicates else extended.defining(name, arity)
    rules = (*axioms(extended.predicates), *constraints(DIFFERENT in extended.predicates, unique_names))
    return replace(extended, rules=(*program.rules, *rules))
