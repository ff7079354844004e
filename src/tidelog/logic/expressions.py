"""Expressions: from the tree to functions over variables and values, what is constant evaluated.

Mutable while one clause is resolved: it notes where variables occur and gathers what a head aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum

from tidelog.errors import Span, suggest
from tidelog.logic import builtins, codes, terms, values
from tidelog.logic.evaluate import evaluate
from tidelog.logic.names import Scope, written
from tidelog.logic.program import (
    Aggregation,
    Apply,
    Assignment,
    Constant,
    Expression,
    Term,
    Variable,
    variables_of,
)
from tidelog.logic.report import UNRESOLVED, Report
from tidelog.logic.values import XSD, Kind, Value
from tidelog.syntax import ast

_SECONDS = {"ms": "0.001", "s": "1", "m": "60", "h": "3600", "d": "86400", "w": "604800"}


class Place(Enum):
    """Where an expression stands."""

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
        taken: frozenset[str] = frozenset(),
    ) -> None:
        self.scope = scope
        self.parameters = parameters
        self.report = report
        self.occurrences: dict[str, list[Span | None]] = {}
        self.aggregations: list[Aggregation] = []
        self.assigned: list[Assignment] = []
        self._taken = taken  # the clause's own names, which no fresh variable may have
        self._made = 0

    def fresh(self) -> Variable:
        """A variable that occurs nowhere else."""
        self._made += 1
        while f"_{self._made}" in self._taken:
            self._made += 1
        return Variable(f"_{self._made}")

    def value(self, node: ast.Expression, place: Place) -> Value | None:
        """The value of a constant expression; None, with the fault reported, if it has none."""
        expression = self.expression(node, place)
        if isinstance(expression, Apply) and not self.occurrences:
            message = f"this expression has no value: {_without_value(expression)}"
            self.report.error(codes.NO_VALUE, message, node.span)
        if not isinstance(expression, Constant) or expression is UNRESOLVED:
            return None
        return expression.value

    def term(self, node: ast.Expression, place: Place) -> Term:
        """The variable or constant that an expression is, or a variable to which it is assigned."""
        expression = self.expression(node, place)
        if not isinstance(expression, Apply):
            return expression
        variable = self.fresh()
        self.assigned.append(Assignment(variable, expression))
        return variable

    def expression(self, node: ast.Expression, place: Place) -> Expression:
        """The expression that the tree means."""
        match node:
            case ast.Variable():
                return self._variable(node, place)
            case ast.Anonymous():
                message = f"`_` has no value in {place.value}"
                help = "give it a name, and bind it in the body" if place is Place.HEAD else None
                self.report.error(codes.ANONYMOUS_WITHOUT_VALUE, message, node.span, help)
            case ast.Existential(name):
                message = f"existential variables such as `!{name}` are not part of the language"
                help = "compute a new name from what identifies it, such as IRI(CONCAT(…))"
                self.report.error(codes.EXISTENTIAL, message, node.span, help)
            case ast.Parameter():
                return self._parameter(node)
            case ast.Call(symbol, arguments):
                return self._function(symbol, arguments, place, node.span)
            case ast.Negative(operand):
                return self._apply("NEG", (operand,), place, node.span)
            case ast.Operation(operator, left, right):
                return self._apply(operator, (left, right), place, node.span)
            case ast.Aggregate():
                return self._aggregate(node, place)
            case ast.FormatString(parts):
                return self._format_string(parts, place, node.span)
            case _:
                return self._constant(node)
        return UNRESOLVED

    # ---- variables and parameters

    def _variable(self, node: ast.Variable, place: Place) -> Expression:
        self.occurrences.setdefault(node.name, []).append(node.span)
        if place in (Place.FACT, Place.PARAMETER, Place.OPTION):
            message = f"variable `?{node.name}` in {place.value}, where nothing can bind it"
            help = f"write `{node.name}` if a name is meant" if place is Place.FACT else None
            self.report.error(codes.VARIABLE_WITHOUT_BODY, message, node.span, help)
        return Variable(node.name)

    def _parameter(self, node: ast.Parameter) -> Expression:
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
        node: ast.Name | ast.PrefixedName | ast.Iri | ast.Text | ast.Boolean | ast.Number | ast.Duration,
    ) -> Constant:
        match node:
            case ast.Name() | ast.PrefixedName() | ast.Iri():
                return self._valid(lambda: values.iri(self.scope.constant(node, self.report)), node.span)
            case ast.Text():
                return self._text(node)
            case ast.Boolean(value):
                return Constant(values.boolean(value))
            case ast.Number():
                return self._number(node)
            case ast.Duration(lexical):
                return Constant(duration(lexical))

    def _number(self, node: ast.Number) -> Constant:
        value = number(node)
        if value is not None:
            return Constant(value)
        sign = "-" if node.lexical.startswith("-") else ""
        message = f"`{node.lexical}` is beyond the range of doubles"
        help = f'they end at {sign}1.7976931348623157e308; infinity is `"{sign}INF"^^xsd:double`'
        self.report.error(codes.BAD_LITERAL, message, node.span, help)
        return UNRESOLVED

    def _text(self, node: ast.Text) -> Constant:
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
        self, symbol: ast.Symbol, arguments: Sequence[ast.Expression], place: Place, span: Span | None
    ) -> Expression:
        name = self.scope.predicate(symbol, self.report)
        function = builtins.lookup(name)
        if function is None:
            help = (
                suggest(name.upper(), builtins.FUNCTIONS)
                or "only built-in functions can stand in an expression"
            )
            message = f"unknown function `{written(symbol)}`"
            self.report.error(codes.UNKNOWN_FUNCTION, message, symbol.span, help)
            for argument in arguments:
                self.expression(argument, place)
            return UNRESOLVED
        return self._apply(name, arguments, place, span)

    def _apply(
        self, name: str, nodes: Sequence[ast.Expression], place: Place, span: Span | None
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
        self, parts: Sequence[str | ast.Expression], place: Place, span: Span | None
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

    def _aggregate(self, node: ast.Aggregate, place: Place) -> Expression:
        """A variable for the aggregate's value, which is noted among the aggregations."""
        if place is not Place.HEAD:
            self._refuse_aggregate(node, place)
            return UNRESOLVED
        arguments = tuple(self.term(argument, Place.AGGREGATE) for argument in node.arguments)
        variable = self.fresh()
        self.aggregations.append(Aggregation(variable, node.function, arguments))
        return variable

    def _refuse_aggregate(self, node: ast.Aggregate, place: Place) -> None:
        name = f"`#{node.function}`"
        help: str | None = None
        if place is Place.AGGREGATE:
            code, message = codes.NESTED_AGGREGATE, f"{name} inside an aggregate"
            help = "let another rule compute the inner aggregate first"
        elif place is Place.FACT:
            code = codes.AGGREGATE_IN_FACT
            message = f"{name} in a fact, where there is nothing to aggregate"
        else:
            code = codes.AGGREGATE_OUTSIDE_HEAD
            message = f"{name} in {place.value}: an aggregate stands in the head of a rule"
            help = "let another rule compute it, and use its head here" if place is Place.BODY else None
        self.report.error(code, message, node.span, help)
        for argument in node.arguments:
            self.expression(argument, place)


def plain_value(node: ast.Expression, scope: Scope) -> Value | None:
    """The value of a name, a number or a string; None for what is not so plain, or is at fault."""
    match node:
        case ast.Name(text):
            return Value(Kind.IRI, text if scope.base is None else scope.base + text)
        case ast.Number():
            return number(node)
        case ast.Text(text, None, None):
            return values.string(text)
    return None


def number(node: ast.Number) -> Value | None:
    """The value of a number as written; None for what is beyond the range of doubles.

    >>> number(ast.Number("0xff", ast.NumberKind.BASED)).content
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
    """Whether some text has a value of its own in the datatype."""
    samples = ("1", "-1", "2000-01-01", "2000-01-01T00:00:00")
    return any(values.literal(sample, datatype).kind is not Kind.LITERAL for sample in samples)


def _without_value(application: Apply) -> str:
    """Which function of a constant expression has no value, and for what."""
    inner = next((argument for argument in application.arguments if isinstance(argument, Apply)), None)
    if inner is not None:
        return _without_value(inner)
    given = (
        terms.exact(argument.value) for argument in application.arguments if isinstance(argument, Constant)
    )
    return f"`{application.function}` has none for {', '.join(given)}"
