"""Rules as text after resolution: the one writing that plans, statistics and pictures share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from tidelog.logic import conversions
from tidelog.logic.program import (
    DIFFERENT,
    EQUAL,
    Aggregation,
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Fact,
    Literal,
    Metric,
    MetricNegation,
    MetricRule,
    Negation,
    Predicate,
    Program,
    Rule,
    Throughout,
    TimedFact,
    Variable,
    column_names,
    literal_variables,
)
from tidelog.logic.values import Kind, Value, iri
from tidelog.records import dataclass

_LOCAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*", re.ASCII)
# How tightly an operator binds; all other expressions bind more tightly than any.
_BINDING: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "NEG": 3}
_TIGHTEST: Final = 4

Named = Mapping[Variable, str]


@dataclass(frozen=True, slots=True)
class Writing:
    """How names are written: as the program writes them, or in full where it has no name for them.

    >>> from tidelog.logic.values import iri
    >>> Writing(prefixes={"ex": "https://example.org/"}).value(iri("https://example.org/alice"))
    'ex:alice'
    """

    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(program: Program) -> Writing:
        """The writing of the program itself."""
        return Writing(program.predicates, program.prefixes)

    def predicate(self, name: str) -> str:
        """The name of a predicate."""
        predicate = self.predicates.get(name)
        return self.value(iri(name)) if predicate is None else predicate.written

    def columns(self, name: str, arity: int) -> tuple[str, ...]:
        """The names of a predicate's columns; `c1`, `c2`… where it has none."""
        predicate = self.predicates.get(name)
        return predicate.names if predicate is not None else column_names((None,) * arity)

    def value(self, value: Value) -> str:
        """The value as a term of the rule language."""
        if value.kind is Kind.IRI:
            for prefix, namespace in self.prefixes.items():
                local = str(value.content).removeprefix(namespace)
                if namespace and local != value.content and _LOCAL.fullmatch(local):
                    return f"{prefix}:{local}"
        return conversions.exact(value)

    def atom(self, atom: Atom, named: Named | None = None) -> str:
        """Return an atom as text; `named` replaces variables."""
        written = (self.expression(term, named) for term in atom.terms)
        if atom.predicate in (EQUAL, DIFFERENT):
            return f" {atom.predicate} ".join(written)
        return f"{self.predicate(atom.predicate)}({', '.join(written)})"

    def expression(self, expression: Expression, named: Named | None = None, binding: int = 0) -> str:
        """An expression, in parentheses if it binds less tightly than `binding`."""
        match expression:
            case Constant(value):
                return self.value(value)
            case Variable(name):
                return (named or {}).get(expression, f"?{name}")
            case Apply(function, arguments):
                return self._applied(function, arguments, named, binding)

    def _applied(
        self, function: str, arguments: tuple[Expression, ...], named: Named | None, binding: int
    ) -> str:
        precedence = _BINDING.get(function, _TIGHTEST)
        if precedence == _TIGHTEST:
            return f"{function}({', '.join(self.expression(argument, named) for argument in arguments)})"
        if function == "NEG":
            return f"-{self.expression(arguments[0], named, _TIGHTEST)}"
        left = self.expression(arguments[0], named, precedence)
        right = self.expression(arguments[1], named, precedence + 1)
        text = f"{left} {function} {right}"
        return f"({text})" if precedence < binding else text

    def literal(self, literal: Literal, named: Named | None = None) -> str:
        """A literal of a body."""
        match literal:
            case Atom():
                return self.atom(literal, named)
            case Negation(atom):
                return f"~{self.atom(atom, named)}"
            case Comparison(operator, left, right):
                return f"{self.expression(left)} {operator} {self.expression(right)}"
            case Assignment(variable, expression):
                return f"{self.expression(variable)} = {self.expression(expression)}"
            case Condition(expression, negated):
                return f"{'~' if negated else ''}{self.expression(expression)}"
            case Metric():
                return self.metric(literal, named)
            case MetricNegation(metric):
                return f"~{self.metric(metric, named)}"
            case Throughout(atom, interval):
                return f"{self.atom(atom, named)}@{interval}"

    def metric(self, metric: Atom | Metric, named: Named | None = None) -> str:
        """A metric atom."""
        match metric:
            case Metric(operator, interval, (operand,)):
                return f"{operator}{interval} {self.metric(operand, named)}"
            case Metric(operator, interval, (left, right)):
                return f"{self.metric(left, named)} {operator}{interval} {self.metric(right, named)}"
            case Atom():
                return self.atom(metric, named)
        raise AssertionError(metric)

    def aggregation(self, aggregation: Aggregation) -> str:
        """Return an aggregate, as it is written in a head."""
        arguments = ", ".join(self.expression(argument) for argument in aggregation.arguments)
        return f"#{aggregation.function}({arguments})"

    def head(self, rule: Rule) -> str:
        """Return the head of a rule, with aggregates in the positions of their results."""
        named = {aggregation.variable: self.aggregation(aggregation) for aggregation in rule.aggregations}
        for assignment in rule.after:
            named[assignment.variable] = self.expression(assignment.expression, named)
        moves = rule.moves if isinstance(rule, MetricRule) else ()
        return "".join(f"{move}{interval} " for move, interval in moves) + self.atom(rule.head, named)

    def rule(self, rule: Rule) -> str:
        """A rule on one line.

        >>> parent = Atom("parent", (Variable("x"), Variable("y")))
        >>> Writing().rule(Rule(Atom("child", (Variable("y"),)), (parent,)))
        'child(?y) :- parent(?x, ?y) .'
        """
        named = unnamed(rule)
        return f"{self.head(rule)} :- {', '.join(self.literal(item, named) for item in rule.body)} ."

    def fact(self, fact: Fact) -> str:
        """A fact on one line."""
        time = f"@{fact.interval}" if isinstance(fact, TimedFact) else ""
        return f"{self.atom(Atom(fact.predicate, tuple(map(Constant, fact.values))))}{time} ."


def unnamed(rule: Rule) -> dict[Variable, str]:
    """Return the variables added by the resolver that the rule uses once: the program writes `_`."""
    occurrences = [
        *(term for term in rule.head.terms if isinstance(term, Variable)),
        *rule.group,
        *rule.aggregated,
        *(variable for literal in rule.body for variable in literal_variables(literal)),
    ]
    counts = Counter(occurrences)
    return {item: "_" for item, count in counts.items() if count == 1 and item.name.startswith("_")}


def shortened(text: str, width: int) -> str:
    """The text, or its beginning and `…` if it is longer than `width`.

    >>> shortened("ancestor(?x, ?y)", 10)
    'ancestor(…'
    """
    return text if len(text) <= width else text[: width - 1] + "…"
