"""Renaming the variables and predicates of rules; the names of the relations that a rewriting adds."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from enum import Enum

from tidelog.logic.program import (
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Literal,
    Metric,
    MetricNegation,
    Negation,
    Rule,
    Term,
    Throughout,
    Variable,
)
from tidelog.records import dataclass

# ---- rules with other names for their variables and predicates

Names = Mapping[Variable, Term]


def renamed_rule(rule: Rule, names: Names) -> Rule:
    """Return a rule without aggregates in which some variables are renamed or replaced by constants."""
    return replace(rule, head=renamed_atom(rule.head, names), body=renamed_body(rule.body, names))


def renamed_body(body: tuple[Literal, ...], names: Names) -> tuple[Literal, ...]:
    """Do the same for a body; a computed variable that becomes a constant makes a test."""
    return tuple(_literal(literal, names) for literal in body)


def renamed_atom(atom: Atom, names: Names) -> Atom:
    """Do the same for an atom."""
    return Atom(atom.predicate, tuple(_term(term, names) for term in atom.terms))


def assigned_or_tested(literal: Literal, bound: Container[Term]) -> Literal:
    """The literal; if it assigns a variable that is bound already, the test that the two are equal."""
    match literal:
        case Assignment(variable, expression) if variable in bound:
            return Comparison("=", variable, expression)
    return literal


def with_predicates(rule: Rule, names: Mapping[str, str]) -> Rule:
    """Return the rule with some predicates renamed."""
    head = Atom(names.get(rule.head.predicate, rule.head.predicate), rule.head.terms)
    return replace(rule, head=head, body=tuple(_read_from(literal, names) for literal in rule.body))


def _read_from(literal: Literal, names: Mapping[str, str]) -> Literal:
    match literal:
        case Atom(predicate, terms):
            return Atom(names.get(predicate, predicate), terms)
        case Negation(Atom(predicate, terms)):
            return Negation(Atom(names.get(predicate, predicate), terms))
        case Metric():
            return _metric(literal, names)
        case MetricNegation(metric):
            return MetricNegation(_metric(metric, names))
        case Throughout():
            atom = Atom(names.get(literal.atom.predicate, literal.atom.predicate), literal.atom.terms)
            return replace(literal, atom=atom)
        case _:
            return literal


def _metric(metric: Metric, names: Mapping[str, str]) -> Metric:
    operands = tuple(
        _metric(each, names)
        if isinstance(each, Metric)
        else Atom(names.get(each.predicate, each.predicate), each.terms)
        for each in metric.operands
    )
    return replace(metric, operands=operands)


def _literal(literal: Literal, names: Names) -> Literal:
    match literal:
        case Atom():
            return renamed_atom(literal, names)
        case Negation(atom):
            return Negation(renamed_atom(atom, names))
        case Comparison(operator, left, right):
            return Comparison(operator, _expression(left, names), _expression(right, names))
        case Assignment(variable, expression):
            target = names.get(variable, variable)
            if isinstance(target, Constant):
                return Comparison("=", target, _expression(expression, names))
            return Assignment(target, _expression(expression, names))
        case Condition(expression, negated):
            renamed = _expression(expression, names)
            assert isinstance(renamed, Apply)
            return Condition(renamed, negated)
        case _:
            return literal  # rules over time are not rewritten


def _expression(expression: Expression, names: Names) -> Expression:
    match expression:
        case Variable():
            return names.get(expression, expression)
        case Apply(function, arguments):
            return Apply(function, tuple(_expression(each, names) for each in arguments))
        case _:
            return expression


def _term(term: Term, names: Names) -> Term:
    return names.get(term, term) if isinstance(term, Variable) else term


# ---- relations that a rewritten program adds
#
# The names have a space, which no predicate's has; `magic_sets.readable` replaces them by names that can be
# parsed.


class AdornedKind(Enum):
    """The purpose of a relation."""

    ADORNED = "facts that agree with what is asked for"
    MAGIC = "the bindings that are asked for"
    CONTEXT = "what is asked for on behalf of what"
    SUPPLEMENTARY = "a join that several rules read"


@dataclass(frozen=True, slots=True)
class Adorned:
    """A relation for a predicate that is requested in a pattern: `b` is a bound argument, `f` a free one."""

    kind: AdornedKind
    predicate: str
    adornment: str
    key: str = ""  # distinguishes supplementary relations

    @property
    def name(self) -> str:
        """The name of the relation."""
        return relation_name(self.kind, self.predicate, self.adornment, self.key)


def relation_name(kind: AdornedKind, predicate: str, adornment: str, key: str = "") -> str:
    """The name of a relation.

    >>> relation_name(AdornedKind.MAGIC, "tc", "bf")
    'magic tc bf'
    """
    adorned = f"{predicate} {adornment}" if adornment else f"{predicate} ()"
    match kind:
        case AdornedKind.ADORNED:
            return adorned
        case AdornedKind.MAGIC:
            return f"magic {adorned}"
        case AdornedKind.CONTEXT:
            return f"context {adorned}"
        case AdornedKind.SUPPLEMENTARY:
            return f"join {predicate} {key}"
