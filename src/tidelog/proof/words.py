"""Nodes of proofs in words: what holds, and by what. Shared by everything that shows proofs."""

from __future__ import annotations

from tidelog.errors import Span, counted
from tidelog.logic.program import Assignment, Comparison, Condition, Rule, Variable, literal_variables
from tidelog.plan.rule_text import Writing
from tidelog.proof.node import Kind, Node


class Words:
    """How the nodes of proofs are written."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def statement(self, node: Node) -> str:
        """What a node says, and when."""
        text = self._statement(node)
        if node.time is None:
            return text
        return f"{text} at {node.time}" if node.kind is Kind.METRIC else f"{text}@{node.time}"

    def _statement(self, node: Node) -> str:
        writing = self._writing
        match node.kind:
            case Kind.AGGREGATE:
                return self._aggregate(node)
            case Kind.ROW:
                return ", ".join(f"?{name.name} = {writing.value(value)}" for name, value in node.binding)
            case Kind.QUERY:
                return "the query"
        literal = node.literal
        assert literal is not None
        if isinstance(literal, Assignment):
            (_, value), *_ = node.binding
            expression = writing.expression(literal.expression)
            return f"{_variable(literal.variable)}{expression} = {writing.value(value)}"
        if isinstance(literal, Comparison | Condition):
            return writing.literal(literal)
        return writing.literal(literal, dict.fromkeys(literal_variables(literal), "_"))

    def reason(self, node: Node) -> str:
        """By what it holds."""
        match node.kind:
            case Kind.EXPLICIT:
                return ", ".join(filter(None, ("explicit", origin_of(node))))
            case Kind.RULE:
                assert node.rule is not None
                return named_rule(node.rule, node.number)
            case Kind.NEGATION:
                return "no such fact"
            case Kind.AGGREGATE:
                rows = len(node.children) + node.elided
                return f"over {counted(rows, 'row')}"
            case Kind.COMPUTED:
                return "computed"
            case Kind.TEST:
                return "holds"
            case Kind.REPLACED:
                return "equals replaced"
            case Kind.EQUAL:
                steps = len(node.children)
                return "the other way round" if steps == 1 else f"by a chain of {steps} equalities"
            case Kind.STRETCHES:
                return f"in {counted(len(node.children) + node.elided, 'part')}"
            case Kind.ROW | Kind.QUERY | Kind.METRIC:
                return ""

    def _aggregate(self, node: Node) -> str:
        rule = node.rule
        assert rule is not None
        values = {name: f" = {self._writing.value(value)}" for name, value in node.binding}
        return ", ".join(
            self._writing.aggregation(item) + values.get(item.variable, "") for item in rule.aggregations
        )


def omission(node: Node) -> str:
    """How many rows of a group, or parts of a stretch, are left out."""
    return f"… {node.elided:,} more {'rows' if node.kind is Kind.AGGREGATE else 'parts'}"


def origin_of(node: Node) -> str:
    """Where an explicit fact comes from; empty if that is not known."""
    return "" if node.origin is None else str(node.origin)


def named_rule(rule: Rule, number: int) -> str:
    """The name of a rule, else its number, and where it stands."""
    called = f"rule “{rule.name}”" if rule.name else f"rule {number + 1}"
    place = place_of(rule.span)
    return f"{called}, {place}" if place else called


def place_of(span: Span | None) -> str | None:
    """`file:line` of a span."""
    if span is None:
        return None
    line, _ = span.source.position(span.start)
    return f"{span.source.name}:{line}"


def _variable(variable: Variable) -> str:
    """A variable that a program names, and the sign of equality; nothing for those that the resolver made."""
    return "" if variable.name.startswith("_") else f"?{variable.name} = "
