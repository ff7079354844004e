"""Random programs: stratified and safe by construction, small enough for the slowest oracle.

Predicates `e0…` hold the given facts, `p0…` are derived. Each derived predicate has a level: rules read
their own level positively, so that there is recursion of every kind, and lower levels in any way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

import tidelog as tl
from tidelog.logic.change_scripts import Rules

VARIABLES = ("?x", "?y", "?z", "?w")
NAMES = ("a", "b", "c")
NUMBERS = ("0", "1", "2", "3")
LARGEST = 6  # arithmetic stays below, so that it ends

Row = tuple[str, ...]


@dataclass(frozen=True)
class Features:
    """What a random program may hold besides atoms, constants and negation."""

    names: bool = False  # names beside the integers, and then no order between values
    arithmetic: bool = False
    aggregates: bool = False
    local_variables: bool = False  # variables that occur in one negation only, which clingo refuses

    @property
    def constants(self) -> tuple[str, ...]:
        """The constants of the program and of its facts."""
        return NUMBERS + NAMES if self.names else NUMBERS

    @property
    def comparisons(self) -> tuple[str, ...]:
        """The operators that mean the same in every oracle."""
        return ("=", "!=") if self.names else ("=", "!=", "<", "<=", ">", ">=")


PLAIN = Features()
EVERYTHING = Features(names=True, arithmetic=True, aggregates=True, local_variables=True)


@dataclass(frozen=True)
class Case:
    """A program: its rules as text, and the facts they start from, each value as it is written."""

    rules: tuple[str, ...]
    facts: Mapping[str, tuple[Row, ...]]
    arities: Mapping[str, int]

    @property
    def text(self) -> str:
        """The whole program; every predicate is declared, so that each is known even if it is empty."""
        stated = (f"{name}({', '.join(row)}) ." for name, rows in self.facts.items() for row in rows)
        return "\n".join((self.declared, *stated, *self.rules)) + "\n"

    @property
    def declared(self) -> str:
        """The declarations of all predicates."""
        return "\n".join(
            f"@declare {name}({', '.join(f'c{column}: any' for column in range(arity))}) ."
            for name, arity in self.arities.items()
        )


@dataclass(frozen=True)
class _Predicate:
    name: str
    arity: int
    level: int  # 0 for given facts


@st.composite
def cases(draw: DrawFn, features: Features = PLAIN) -> Case:
    """A stratified, safe program with its facts."""
    predicates = draw(_predicates())
    given = [predicate for predicate in predicates if predicate.level == 0]
    derived = [predicate for predicate in predicates if predicate.level > 0]
    rules = [
        draw(_rule(head, predicates, features)) for head in derived for _ in range(draw(st.integers(1, 3)))
    ]
    constant = st.sampled_from(features.constants)
    facts = {
        predicate.name: tuple(
            draw(st.lists(st.tuples(*[constant] * predicate.arity), max_size=6, unique=True))
        )
        for predicate in (*given, *draw(st.lists(st.sampled_from(derived), max_size=1)))
    }
    order = draw(st.permutations(rules))
    return Case(tuple(order), facts, {predicate.name: predicate.arity for predicate in predicates})


def distinct(case: Case) -> Case:
    """The case with one rule for each meaning: two that mean the same come and go together."""
    known = Rules()
    kept = []
    for text in case.rules:
        (rule,) = tl.parse(replace(case, rules=(text,), facts={}).text).rules
        if not known.find(rule):
            known.add(rule)
            kept.append(text)
    return replace(case, rules=tuple(kept))


def programs(features: Features = PLAIN) -> SearchStrategy[str]:
    """The text of a stratified, safe program with its facts."""
    return cases(features).map(lambda case: case.text)


@st.composite
def _predicates(draw: DrawFn) -> list[_Predicate]:
    """One to three predicates of given facts, and one to four derived ones on up to three levels."""
    arity = st.sampled_from((0, 1, 1, 2, 2, 2, 2, 3, 4))
    given = [_Predicate(f"e{number}", draw(arity), 0) for number in range(draw(st.integers(1, 3)))]
    levels = sorted(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    return given + [_Predicate(f"p{number}", draw(arity), level) for number, level in enumerate(levels)]


@st.composite
def _rule(draw: DrawFn, head: _Predicate, predicates: list[_Predicate], features: Features) -> str:
    aggregates = features.aggregates and head.arity > 0 and draw(st.integers(0, 3)) == 0
    lower = [predicate for predicate in predicates if predicate.level < head.level]
    readable = (
        lower if aggregates else [predicate for predicate in predicates if predicate.level <= head.level]
    )
    positive = draw(st.lists(st.sampled_from(readable), min_size=1, max_size=3))
    argument = st.sampled_from(
        (*VARIABLES, *VARIABLES, *VARIABLES, "_", draw(st.sampled_from(features.constants)))
    )
    atoms = [(predicate, [draw(argument) for _ in range(predicate.arity)]) for predicate in positive]
    bound = sorted({term for _, terms in atoms for term in terms if term in VARIABLES})
    body = [_atom(predicate, terms) for predicate, terms in atoms]
    if features.arithmetic and bound and draw(st.integers(0, 2)) == 0:
        body += draw(_assignment(bound))
        bound.append("?n")
    term = st.sampled_from((*bound, *bound, *bound, draw(st.sampled_from(features.constants))))
    for number, predicate in enumerate(draw(st.lists(st.sampled_from(lower), max_size=2))):
        local = f"?local{number}" if features.local_variables else "_"
        anything = st.one_of(term, st.sampled_from(("_", local))) if draw(st.booleans()) else term
        body.append("~" + _atom(predicate, [draw(anything) for _ in range(predicate.arity)]))
    for operator in draw(st.lists(st.sampled_from(features.comparisons), max_size=1)):
        body.append(f"{draw(term)} {operator} {draw(term)}")
    arguments = [draw(term) for _ in range(head.arity)]
    if aggregates:
        arguments[draw(st.integers(0, head.arity - 1))] = draw(_aggregate(term))
    return f"{_atom(head, arguments)} :- {', '.join(draw(st.permutations(body)))} ."


@st.composite
def _assignment(draw: DrawFn, bound: list[str]) -> list[str]:
    """`?n` is computed from a bound variable, and bounded, so that recursion over it ends."""
    operator = draw(st.sampled_from("+-*"))
    expression = f"{draw(st.sampled_from(bound))} {operator} {draw(st.sampled_from((*bound, '1', '2')))}"
    return [f"?n = {expression}", f"?n <= {LARGEST}", f"?n >= -{LARGEST}"]


@st.composite
def _aggregate(draw: DrawFn, term: SearchStrategy[str]) -> str:
    function = draw(st.sampled_from(("count", "sum", "min", "max", "avg")))
    arguments = draw(st.lists(term, min_size=1, max_size=2))
    return f"#{function}({', '.join(arguments)})"


def _atom(predicate: _Predicate, terms: list[str]) -> str:
    return f"{predicate.name}({', '.join(terms)})"
