"""Expressions and metric atoms: from the tree to functions over variables and values, and operators with
exact intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction

from tidelog.errors import Span, codes, suggest
from tidelog.logic import conversions, values
from tidelog.logic.functions import builtins
from tidelog.logic.functions.builtins import evaluate
from tidelog.logic.intervals import ALWAYS, LONGEST, SECONDS, Interval, point_of, read_point
from tidelog.logic.program import (
    TOP,
    Aggregation,
    Apply,
    Assignment,
    Atom,
    Constant,
    Expression,
    Literal,
    Metric,
    MetricNegation,
    MetricRule,
    Rule,
    Term,
    Throughout,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.scopes import UNRESOLVED, Report, Scope, written
from tidelog.logic.values import XSD, Kind, Value
from tidelog.syntax import ast

# ---- metric atoms and times

# From a tree, and whether other literals bind its variables, to its atom and the literals that it needs.
ReadAtom = Callable[[ast.AtomNode, bool], tuple[Atom | None, tuple[Literal, ...]]]
_Bound = tuple[Fraction | None, bool, bool]  # the point, whether it is a dateTime, whether it is -inf


class IntervalReader:
    """Reads intervals and reports errors in them."""

    def __init__(self, report: Report, parameters: Mapping[str, Value]) -> None:
        self.report = report
        self.parameters = parameters

    def interval(self, node: ast.IntervalNode, *, is_duration: bool = False) -> Interval | None:
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
                fault = "it is empty"
        self._report(f"invalid interval: {fault}", node.span)
        return None

    def at(self, node: ast.IntervalNode | ast.Bound | ast.SometimeNode) -> Interval | None:
        """The interval throughout which, the point at which, or the interval within which a fact holds."""
        if isinstance(node, ast.SometimeNode):
            return ALWAYS if node.interval is None else self.interval(node.interval)
        if isinstance(node, ast.IntervalNode):
            return self.interval(node)
        bound = self._bound(node)
        if bound is None:
            return None
        point, is_moment, _ = bound
        if point is None:
            self._report("no fact holds at infinity: it is not a time point", node.span)
            return None
        return Interval(point, point, is_calendar=is_moment)

    def _bound(self, node: ast.Bound) -> _Bound | None:
        """A bound: the point, None for an infinite one, whether it is a dateTime, and whether it is -inf."""
        if node.span is not None and node.span.end - node.span.start > LONGEST:
            self._report(f"a time is too long: at most {LONGEST} characters", node.span)
            return None
        match node:
            case ast.InfinityNode(lexical):
                return None, False, lexical.startswith("-")
            case ast.FractionNode(numerator, denominator):
                if int(denominator.lexical, 0) == 0:
                    self._report("a bound cannot be divided by 0", node.span)
                    return None
                return Fraction(Decimal(numerator.lexical)) / int(denominator.lexical, 0), False, False
            case ast.DurationNode(lexical):
                digits = lexical.rstrip("mshdw")
                return Fraction(Decimal(digits)) * SECONDS[lexical[len(digits) :]], False, False
            case ast.NumberNode(lexical, kind):
                is_based = kind is ast.NumberKind.BASED
                return self._written(str(int(lexical, 0)) if is_based else lexical, node.span)
            case ast.TextNode(text):
                return self._written(text, node.span)
            case ast.ParameterNode(name):
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
        moment = point_of(value)
        if moment is None:
            self._report(f"the value of `${name}` is not a time", span)
            return None
        return moment[0], moment[1], False

    def _report(self, message: str, span: Span | None) -> None:
        self.report.error(codes.BAD_TIME, message, span)


class Metrics:
    """Reads metric atoms of one clause. Mutable: it collects the literals that they need."""

    def __init__(self, times: IntervalReader, read_atom: ReadAtom) -> None:
        self.times = times
        self.report = times.report
        self.read_atom = read_atom
        self.conditions: list[Literal] = []

    def metric(self, node: ast.Metric, *, is_bound: bool) -> Metric | None:
        """The metric atom, None if it has an error; `is_bound` if other literals bind its variables."""
        operand = self._operand(node, is_bound)
        return operand if isinstance(operand, Metric) else None

    def _operand(self, node: ast.Metric, is_bound: bool) -> Atom | Metric | None:
        match node:
            case ast.AtomNode():
                atom, conditions = self.read_atom(node, is_bound)
                self.conditions.extend(conditions)
                return atom
            case ast.UnaryMetricNode(operator, interval, operand):
                window = self.times.interval(interval, is_duration=True)
                inner = self._operand(operand, is_bound)
                return None if window is None or inner is None else Metric(operator, window, (inner,))
            case ast.BinaryMetricNode(operator, left, interval, right):
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
    """The intervals in a rule."""
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


# ---- expressions
#
# Mutable while one clause is resolved: it records the occurrences of variables and collects aggregations.

_SECONDS = {"ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400", "w": "604800"}


class ExpressionContext(Enum):
    """The context of an expression."""

    HEAD = "the head of a rule"
    BODY = "the body"
    FACT = "a fact"
    AGGREGATE = "an aggregate"
    PARAMETER = "the value of a parameter"
    OPTION = "an option"


class Expressions:
    """Resolves the expressions of one clause."""

    def __init__(
        self,
        scope: Scope,
        parameters: Mapping[str, Value],
        report: Report,
        used_names: frozenset[str] = frozenset(),
    ) -> None:
        self.scope = scope
        self.parameters = parameters
        self.report = report
        self.occurrences: dict[str, list[Span | None]] = {}
        self.aggregations: list[Aggregation] = []
        self.assigned: list[Assignment] = []
        self._used_names = used_names  # the clause's variables, which fresh ones must not repeat
        self._fresh_count = 0

    def fresh(self) -> Variable:
        """A variable that occurs nowhere else."""
        self._fresh_count += 1
        while f"_{self._fresh_count}" in self._used_names:
            self._fresh_count += 1
        return Variable(f"_{self._fresh_count}")

    def value(self, node: ast.Expression, place: ExpressionContext) -> Value | None:
        """The value of a constant expression; None, with the fault reported, if it has none."""
        expression = self.expression(node, place)
        if isinstance(expression, Apply) and not self.occurrences:
            message = f"this expression has no value: {_without_value(expression)}"
            self.report.error(codes.NO_VALUE, message, node.span)
        if not isinstance(expression, Constant) or expression is UNRESOLVED:
            return None
        return expression.value

    def term(self, node: ast.Expression, place: ExpressionContext) -> Term:
        """The variable or constant that an expression is, or a variable to which it is assigned."""
        expression = self.expression(node, place)
        if not isinstance(expression, Apply):
            return expression
        variable = self.fresh()
        self.assigned.append(Assignment(variable, expression))
        return variable

    def expression(self, node: ast.Expression, place: ExpressionContext) -> Expression:
        """The expression that the tree means."""
        match node:
            case ast.VariableNode():
                return self._variable(node, place)
            case ast.AnonymousNode():
                message = f"`_` has no value in {place.value}"
                help = "give it a name, and bind it in the body" if place is ExpressionContext.HEAD else None
                self.report.error(codes.ANONYMOUS_WITHOUT_VALUE, message, node.span, help)
            case ast.ExistentialNode(name):
                message = f"existential variables such as `!{name}` are not part of the language"
                help = "compute a new name from what identifies it, such as IRI(CONCAT(…))"
                self.report.error(codes.EXISTENTIAL, message, node.span, help)
            case ast.ParameterNode():
                return self._parameter(node)
            case ast.CallNode(symbol, arguments):
                return self._function(symbol, arguments, place, node.span)
            case ast.NegativeNode(operand):
                return self._apply("NEG", (operand,), place, node.span)
            case ast.OperationNode(operator, left, right):
                return self._apply(operator, (left, right), place, node.span)
            case ast.AggregateNode():
                return self._aggregate(node, place)
            case ast.FormatStringNode(parts):
                return self._format_string(parts, place, node.span)
            case _:
                return self._constant(node)
        return UNRESOLVED

    # ---- variables and parameters

    def _variable(self, node: ast.VariableNode, place: ExpressionContext) -> Expression:
        self.occurrences.setdefault(node.name, []).append(node.span)
        if place in (ExpressionContext.FACT, ExpressionContext.PARAMETER, ExpressionContext.OPTION):
            message = f"variable `?{node.name}` in {place.value}, where nothing can bind it"
            help = f"write `{node.name}` if a name is meant" if place is ExpressionContext.FACT else None
            self.report.error(codes.VARIABLE_WITHOUT_BODY, message, node.span, help)
        return Variable(node.name)

    def _parameter(self, node: ast.ParameterNode) -> Expression:
        if node.name in self.parameters:
            value = self.parameters[node.name]
            return UNRESOLVED if value == UNRESOLVED.value else Constant(value)
        known = (f"${name}" for name in self.parameters)
        help = suggest(f"${node.name}", known) or f"declare it: `@parameter ${node.name} .`"
        message = f"unknown parameter `${node.name}`"
        self.report.error(codes.UNKNOWN_PARAMETER, message, node.span, help)
        return UNRESOLVED

    # ---- constants

    def _constant(
        self,
        node: ast.Symbol | ast.TextNode | ast.BooleanNode | ast.NumberNode | ast.DurationNode,
    ) -> Constant:
        match node:
            case ast.NameNode() | ast.PrefixedNameNode() | ast.IriNode():
                return self._valid(lambda: values.iri(self.scope.constant(node, self.report)), node.span)
            case ast.TextNode():
                return self._text(node)
            case ast.BooleanNode(value):
                return Constant(values.boolean(value))
            case ast.NumberNode():
                return self._number(node)
            case ast.DurationNode(lexical):
                return Constant(duration(lexical))

    def _number(self, node: ast.NumberNode) -> Constant:
        value = number(node)
        if value is not None:
            return Constant(value)
        sign = "-" if node.lexical.startswith("-") else ""
        message = f"`{node.lexical}` is beyond the range of doubles"
        help = f'they end at {sign}1.7976931348623157e308; infinity is `"{sign}INF"^^xsd:double`'
        self.report.error(codes.BAD_LITERAL, message, node.span, help)
        return UNRESOLVED

    def _text(self, node: ast.TextNode) -> Constant:
        if node.language is not None:
            language = node.language
            return self._valid(lambda: values.language_string(node.value, language), node.span)
        if node.datatype is None:
            return Constant(values.string(node.value))
        datatype = self.scope.iri(node.datatype, self.report)
        constant = self._valid(lambda: values.literal(node.value, datatype), node.span)
        if constant.value.kind is Kind.LITERAL and is_known_datatype(datatype):
            message = f"`{node.value}` is not a value of the datatype `{written(node.datatype)}`"
            self.report.error(codes.BAD_LITERAL, message, node.span)
        return constant

    def _valid(self, make: Callable[[], Value], span: Span | None) -> Constant:
        """The constant made, or the reason reported why it cannot be."""
        try:
            return Constant(make())
        except ValueError as fault:
            self.report.error(codes.BAD_LITERAL, str(fault), span)
            return UNRESOLVED

    # ---- functions

    def _function(
        self,
        symbol: ast.Symbol,
        arguments: Sequence[ast.Expression],
        place: ExpressionContext,
        span: Span | None,
    ) -> Expression:
        name = self.scope.predicate(symbol, self.report)
        function = builtins.lookup(name)
        if function is None:
            help = (
                suggest(name.upper(), builtins.FUNCTIONS)
                or "only built-in functions can be used in an expression"
            )
            message = f"unknown function `{written(symbol)}`"
            self.report.error(codes.UNKNOWN_FUNCTION, message, symbol.span, help)
            for argument in arguments:
                self.expression(argument, place)
            return UNRESOLVED
        return self._apply(name, arguments, place, span)

    def _apply(
        self, name: str, nodes: Sequence[ast.Expression], place: ExpressionContext, span: Span | None
    ) -> Expression:
        """The function applied to the arguments, evaluated if they are constant."""
        arguments = tuple(self.expression(node, place) for node in nodes)
        return self.applied(name, arguments, span)

    def applied(self, name: str, arguments: tuple[Expression, ...], span: Span | None) -> Expression:
        """The function applied to resolved arguments, evaluated if they are constant."""
        function = builtins.lookup(name)
        assert function is not None, f"{name} is built in"
        if not function.accepts(len(arguments)):
            message = f"`{function.name}` takes {function.arity}, but has {len(arguments)} here"
            self.report.error(codes.FUNCTION_ARITY, message, span, f"it is `{function.signature}`")
            return UNRESOLVED
        if UNRESOLVED in arguments:
            return UNRESOLVED
        return self._folded(Apply(function.name, arguments), span)

    def _folded(self, application: Apply, span: Span | None) -> Expression:
        """The value of the application if it has no variables and has a value."""
        if any(True for _ in variables_of(application)):
            return application
        try:
            value = evaluate(application, {})
        except builtins.Overflow as overflow:
            self.report.error(codes.OVERFLOW, str(overflow), span)
            return UNRESOLVED
        return application if value is None else Constant(value)

    def _format_string(
        self, parts: Sequence[str | ast.Expression], place: ExpressionContext, span: Span | None
    ) -> Expression:
        """The texts and the values between them, concatenated."""
        resolved: list[Expression] = []
        for part in parts:
            if isinstance(part, str):
                resolved.append(Constant(values.string(part)))
            else:
                resolved.append(self.applied("STR", (self.expression(part, place),), part.span))
        if UNRESOLVED in resolved:
            return UNRESOLVED
        return self.applied("CONCAT", tuple(resolved), span) if resolved else Constant(values.string(""))

    # ---- aggregates

    def _aggregate(self, node: ast.AggregateNode, place: ExpressionContext) -> Expression:
        """A variable for the aggregate's value, which is noted among the aggregations."""
        if place is not ExpressionContext.HEAD:
            self._refuse_aggregate(node, place)
            return UNRESOLVED
        arguments = tuple(self.term(argument, ExpressionContext.AGGREGATE) for argument in node.arguments)
        variable = self.fresh()
        self.aggregations.append(Aggregation(variable, node.function, arguments))
        return variable

    def _refuse_aggregate(self, node: ast.AggregateNode, place: ExpressionContext) -> None:
        name = f"`#{node.function}`"
        help: str | None = None
        if place is ExpressionContext.AGGREGATE:
            code, message = codes.NESTED_AGGREGATE, f"{name} inside an aggregate"
            help = "let another rule compute the inner aggregate first"
        elif place is ExpressionContext.FACT:
            code = codes.AGGREGATE_IN_FACT
            message = f"{name} in a fact, where there is nothing to aggregate"
        else:
            code = codes.AGGREGATE_OUTSIDE_HEAD
            message = f"{name} in {place.value}: aggregates belong in the head of a rule"
            help = (
                "let another rule compute it, and use its head here"
                if place is ExpressionContext.BODY
                else None
            )
        self.report.error(code, message, node.span, help)
        for argument in node.arguments:
            self.expression(argument, place)


def plain_value(node: ast.Expression, scope: Scope) -> Value | None:
    """The value of a name, a number or a string; None for other expressions and for errors."""
    match node:
        case ast.NameNode(text):
            return Value(Kind.IRI, text if scope.base is None else scope.base + text)
        case ast.NumberNode():
            return number(node)
        case ast.TextNode(text, None, None):
            return values.string(text)
    return None


def number(node: ast.NumberNode) -> Value | None:
    """The value of a number literal; None if it exceeds the range of doubles.

    >>> number(ast.NumberNode("0xff", ast.NumberKind.BASED)).content
    255
    """
    match node.kind:
        case ast.NumberKind.INTEGER | ast.NumberKind.DECIMAL:
            return values.number_of_text(node.lexical)
        case ast.NumberKind.BASED:
            return values.integer(int(node.lexical, 0))
    value = values.literal(node.lexical, XSD + "double")
    return None if value.kind is Kind.LITERAL else value


def duration(lexical: str) -> Value:
    """The seconds that a duration lasts: an integer if they are whole, however the duration is written.

    >>> duration("1.5h"), duration("20ms")  # doctest: +NORMALIZE_WHITESPACE
    (Value(kind=<Kind.INTEGER: 2>, content=5400, extra=None),
     Value(kind=<Kind.DECIMAL: 3>, content=2, extra=2))
    """
    digits = lexical.rstrip("mshdw")
    seconds = Decimal(digits) * Decimal(_SECONDS[lexical[len(digits) :]])
    return values.integer(int(seconds)) if seconds == int(seconds) else values.decimal(seconds)


def is_known_datatype(datatype: str) -> bool:
    """Whether the datatype is supported: its texts are read as values rather than kept as literals."""
    samples = ("1", "-1", "2000-01-01", "2000-01-01T00:00:00")
    return any(values.literal(sample, datatype).kind is not Kind.LITERAL for sample in samples)


def _without_value(application: Apply) -> str:
    """Describe the innermost function of a constant expression that has no value, with its arguments."""
    inner = next((argument for argument in application.arguments if isinstance(argument, Apply)), None)
    if inner is not None:
        return _without_value(inner)
    arguments = (
        conversions.exact(argument.value)
        for argument in application.arguments
        if isinstance(argument, Constant)
    )
    return f"`{application.function}` has none for {', '.join(arguments)}"
