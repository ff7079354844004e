"""Proofs as data: what follows from what, step by step.

A proof is a graph of nodes without circles, shared where a fact is used more than once. The kind of a node
says what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from tidelog.logic.intervals import Interval
from tidelog.logic.program import (
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Literal,
    Negation,
    Rule,
    Term,
    Variable,
)
from tidelog.logic.values import Value

Binding = Mapping[Variable, Value]


class Kind(Enum):
    """What a node of a proof is."""

    EXPLICIT = "explicit"  # a fact that is stated, or came as data
    RULE = "rule"  # a fact that an instance of a rule derives: the children are the body's literals, in order
    QUERY = "query"  # the same for the answer to a query
    NEGATION = "negation"  # no fact matches
    TEST = "test"  # a comparison or condition that holds
    COMPUTED = "computed"  # a value that was computed
    AGGREGATE = "aggregate"  # values over a group: the children are its rows
    ROW = "row"  # a row of a group: the children are the literals of one instance of the body
    REPLACED = "replaced"  # a fact, by one that differs by equal constants: that, then the equalities
    EQUAL = "equal"  # that two constants are one, by a chain of equalities
    STRETCHES = "stretches"  # a fact throughout a stretch of time: the children are the parts of it
    METRIC = "metric"  # an operator of time: the children are its atoms, at the times at which they matter

    @property
    def is_step(self) -> bool:
        """Whether a node of this kind is higher than what it follows from."""
        return self in (Kind.RULE, Kind.QUERY)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node:
    """One node of a proof; the same object wherever the same fact is used."""

    kind: Kind
    literal: Literal | None  # what holds, without variables; None of aggregates and rows
    children: tuple[Node, ...] = ()
    height: int = 0  # the number of rule instances on the longest way down
    rule: Rule | None = None
    number: int = -1  # of the rule in the program
    binding: tuple[tuple[Variable, Value], ...] = ()  # what was computed, or distinguishes a row
    origin: object | None = None  # where an explicit fact comes from, if that is known: `str` says it
    elided: int = 0  # how many rows of a group, or parts of a stretch, are not among the children
    time: Interval | None = None  # when it holds; None if it holds always, or time does not matter to it

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.literal}, height {self.height}>"


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node of proofs once, each before what it follows from."""
    seen: set[int] = set()
    waiting = list(roots)[::-1]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting.extend(reversed(node.children))


def grounded(literal: Literal, binding: Binding) -> Literal:
    """The literal with bound variables replaced by their values."""
    match literal:
        case Atom():
            return ground_atom(literal, binding)
        case Negation(atom):
            return Negation(ground_atom(atom, binding))
        case Comparison(operator, left, right):
            return Comparison(operator, _expression(left, binding), _expression(right, binding))
        case Assignment(variable, expression):
            return Assignment(variable, _expression(expression, binding))
        case Condition(Apply(function, arguments), negated):
            replaced = tuple(_expression(argument, binding) for argument in arguments)
            return Condition(Apply(function, replaced), negated)
    raise TypeError(literal)


def ground_atom(atom: Atom, binding: Binding) -> Atom:
    """The atom with bound variables replaced by their values."""
    return Atom(atom.predicate, tuple(_term(term, binding) for term in atom.terms))


def _term(term: Term, binding: Binding) -> Term:
    if isinstance(term, Variable) and term in binding:
        return Constant(binding[term])
    return term


def _expression(expression: Expression, binding: Binding) -> Expression:
    if isinstance(expression, Apply):
        arguments = tuple(_expression(argument, binding) for argument in expression.arguments)
        return Apply(expression.function, arguments)
    return _term(expression, binding)
