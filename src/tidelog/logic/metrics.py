"""Metric atoms and times: from the tree to operators with exact intervals over atoms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction

from tidelog.errors import Span
from tidelog.logic import codes
from tidelog.logic.intervals import ALWAYS, LONGEST, SECONDS, Interval, point_of, read_point
from tidelog.logic.program import (
    TOP,
    Atom,
    Literal,
    Metric,
    MetricNegation,
    MetricRule,
    Rule,
    Throughout,
    Variable,
    literal_variables,
)
from tidelog.logic.report import Report
from tidelog.logic.values import Value
from tidelog.syntax import ast

# The atom that a tree means, and what must hold beside it; whether its variables are bound elsewhere.
ReadAtom = Callable[[ast.Atom, bool], tuple[Atom | None, tuple[Literal, ...]]]
_Bound = tuple[Fraction | None, bool, bool]  # the point, whether it is a dateTime, whether it is -inf


class Times:
    """Reads intervals; what is wrong with them is reported."""

    def __init__(self, report: Report, parameters: Mapping[str, Value]) -> None:
        self.report = report
        self.parameters = parameters

    def interval(self, node: ast.Interval, *, is_duration: bool = False) -> Interval | None:
        """The interval; None, with the fault reported, if it is none. Durations begin at 0 or later."""
        left, right = self._bound(node.left), self._bound(node.right)
        if left is None or right is None:
            return None
        (start, is_moment, is_minus), (end, is_other, is_before) = left, right
        fault = None
        if start is None and not is_minus:
            fault = "it begins at infinity"
        elif end is None and is_before:
            fault = "it ends before all time"
        elif is_duration and (start is None or start < 0):
            fault = "an operator looks 0 or more ahead or back"
        elif is_duration and (is_moment or is_other):
            fault = "an operator looks ahead or back by durations, not to a dateTime"
        if fault is None:
            try:
                return Interval(
                    start, end, not node.left_closed, not node.right_closed, is_moment or is_other
                )
            except ValueError:
                fault = "no time point lies in it"
        self._report(f"this interval cannot be: {fault}", node.span)
        return None

    def at(self, node: ast.Interval | ast.Bound | ast.Sometime) -> Interval | None:
        """The interval at which a fact holds, or the point; or that of which it is a time."""
        if isinstance(node, ast.Sometime):
            return ALWAYS if node.interval is None else self.interval(node.interval)
        if isinstance(node, ast.Interval):
            return self.interval(node)
        found = self._bound(node)
        if found is None:
            return None
        point, is_moment, _ = found
        if point is None:
            self._report("no fact holds at infinity: it is no time point", node.span)
            return None
        return Interval(point, point, is_calendar=is_moment)

    def _bound(self, node: ast.Bound) -> _Bound | None:
        """A bound: the point, None for an infinite one, whether it is a dateTime, and whether it is -inf."""
        if node.span is not None and node.span.end - node.span.start > LONGEST:
            self._report(f"this is longer than a time can be, {LONGEST} characters", node.span)
            return None
        match node:
            case ast.Infinity(lexical):
                return None, False, lexical.startswith("-")
            case ast.Fraction(numerator, denominator):
                if int(denominator.lexical, 0) == 0:
                    self._report("a bound cannot be divided by 0", node.span)
                    return None
                return Fraction(Decimal(numerator.lexical)) / int(denominator.lexical, 0), False, False
            case ast.Duration(lexical):
                digits = lexical.rstrip("mshdw")
                return Fraction(Decimal(digits)) * SECONDS[lexical[len(digits) :]], False, False
            case ast.Number(lexical, kind):
                is_based = kind is ast.NumberKind.BASED
                return self._written(str(int(lexical, 0)) if is_based else lexical, node.span)
            case ast.Text(text):
                return self._written(text, node.span)
            case ast.Parameter(name):
                return self._parameter(name, node.span)

    def _written(self, text: str, span: Span | None) -> _Bound | None:
        try:
            point, is_moment = read_point(text)
        except ValueError as fault:
            self._report(str(fault), span)
            return None
        return point, is_moment, text.startswith("-")

    def _parameter(self, name: str, span: Span | None) -> _Bound | None:
        value = self.parameters.get(name)
        if value is None:
            self.report.error(codes.UNKNOWN_PARAMETER, f"unknown parameter `${name}`", span)
            return None
        found = point_of(value)
        if found is None:
            self._report(f"the value of `${name}` is not a time", span)
            return None
        return found[0], found[1], False

    def _report(self, message: str, span: Span | None) -> None:
        self.report.error(codes.BAD_TIME, message, span)


class Metrics:
    """Reads metric atoms of one clause. Mutable: it gathers what must hold beside them."""

    def __init__(self, times: Times, read_atom: ReadAtom) -> None:
        self.times = times
        self.report = times.report
        self.read_atom = read_atom
        self.beside: list[Literal] = []

    def metric(self, node: ast.Metric, *, is_bound: bool) -> Metric | None:
        """The metric atom, None if something in it is wrong; `is_bound` if others bind its variables."""
        found = self._operand(node, is_bound)
        return found if isinstance(found, Metric) else None

    def _operand(self, node: ast.Metric, is_bound: bool) -> Atom | Metric | None:
        match node:
            case ast.Atom():
                atom, beside = self.read_atom(node, is_bound)
                self.beside.extend(beside)
                return atom
            case ast.UnaryMetric(operator, interval, operand):
                window = self.times.interval(interval, is_duration=True)
                inner = self._operand(operand, is_bound)
                return None if window is None or inner is None else Metric(operator, window, (inner,))
            case ast.BinaryMetric(operator, left, interval, right):
                window = self.times.interval(interval, is_duration=True)
                operands = self._operand(left, True), self._operand(right, is_bound)
                if window is None or operands[0] is None or operands[1] is None:
                    return None
                return Metric(operator, window, (operands[0], operands[1]))


def binding_variables(metric: Atom | Metric) -> Iterator[Variable]:
    """The variables that a metric atom binds: those of left operands need not have a value."""
    if isinstance(metric, Atom):
        yield from _variables(metric)
        return
    for operand in metric.operands[-1:]:
        yield from binding_variables(operand)


def _variables(metric: Atom | Metric) -> Iterator[Variable]:
    if isinstance(metric, Atom) and metric.predicate == TOP:
        return
    yield from literal_variables(metric)


def intervals_of(rule: Rule) -> Iterator[Interval]:
    """The intervals that stand in a rule."""
    if isinstance(rule, MetricRule):
        yield from (interval for _, interval in rule.moves)
    for literal in rule.body:
        if isinstance(literal, Throughout):
            yield literal.interval
        elif isinstance(literal, Metric | MetricNegation):
            yield from _intervals(literal.metric if isinstance(literal, MetricNegation) else literal)


def _intervals(metric: Atom | Metric) -> Iterator[Interval]:
    if isinstance(metric, Metric):
        yield metric.interval
        for operand in metric.operands:
            yield from _intervals(operand)
