"""Tokens to heads and bodies: atoms, negation, comparison, metric operators and intervals."""

from __future__ import annotations

from typing import Final

from tidelog.errors import Source
from tidelog.syntax import codes
from tidelog.syntax.ast import (
    At,
    Atom,
    BinaryMetric,
    Bound,
    Call,
    Comparison,
    Expression,
    Fraction,
    Head,
    HeadEquality,
    Infinity,
    Interval,
    Literal,
    Metric,
    Negation,
    Number,
    Sometime,
    Triple,
    UnaryMetric,
    Variable,
)
from tidelog.syntax.expressions import DEEPEST, ExpressionParser
from tidelog.syntax.syntax_errors import ATOM, COMPARED, HEAD, HEAD_HELP, LITERAL, STATEMENT, SyntaxFault
from tidelog.syntax.tokens import (
    COMPARISON,
    DURATION,
    INTEGER,
    LANGUAGE,
    METRIC,
    NAME,
    NUMBERS,
    PARAMETER,
    STRING,
    SYMBOLS,
    VALUES,
    VARIABLE,
    Tokens,
)

_BOXES: Final = ("boxminus", "boxplus")
_TIME_WORDS: Final = ("at", "during", "ever")
_BINARY: Final = ("since", "until")
_BEGINS_EXPRESSION: Final = VALUES | {"(", "-"}
_BOUNDS: Final = NUMBERS | {DURATION, PARAMETER, STRING}


class LiteralParser(ExpressionParser):
    """Reads heads and bodies from the tokens of one statement."""

    def __init__(self, source: Source, tokens: Tokens) -> None:
        super().__init__(source, tokens)
        self.literals: list[int] = []
        """The first token of each literal of the body."""

    # ---- heads

    def head(self) -> Head:
        """An atom, perhaps under boxes, or an equality."""
        first = self.index
        kind = self.kinds[first]
        if kind == METRIC:
            return self._boxed_head()
        if kind == "~":
            raise self._not_a_head("a head cannot be negated")
        if kind == "[":
            return self._with_time(self._triple(), first)
        if kind not in _BEGINS_EXPRESSION:
            raise self.fault(STATEMENT if first == 0 else HEAD)
        left = self.expression()
        operator = self.token_text() if self.kinds[self.index] in ("=", COMPARISON) else ""
        if operator in ("=", "!="):
            self.index += 1
            right = self.expression()
            return HeadEquality(left, right, operator, span=self.span(first))
        if isinstance(left, Call) and kind != "(":
            return self._with_time(left, first)
        raise self.fault("`(`", "`=`") if kind in SYMBOLS and self.index == first + 1 else self.fault("`=`")

    def _boxed_head(self) -> Head:
        first = self.index
        word = self.token_text()
        if word not in _BOXES:
            raise self._not_a_head(f"a head cannot carry `{word}`")
        self.descend()
        interval = self._metric_interval()
        start = self.index
        operand = self.head()
        self.nesting -= 1
        if isinstance(operand, HeadEquality):
            self.index = start
            raise self._not_a_head("an equality in a head cannot stand under a metric operator")
        return UnaryMetric(word, interval, operand, span=self.span(first))

    def _not_a_head(self, message: str) -> SyntaxFault:
        return self.mistake(codes.HEAD_NOT_ALLOWED, message, HEAD_HELP)

    # ---- bodies

    def body(self) -> tuple[Literal, ...]:
        """Literals separated by commas."""
        self.literals = [self.index]
        literals = [self.literal()]
        while self.kinds[self.index] == ",":
            self.index += 1
            self.literals.append(self.index)
            literals.append(self.literal())
        return tuple(literals)

    def literal(self) -> Literal:
        """An atom with metric operators, its negation, or a comparison."""
        first = self.index
        kind = self.kinds[first]
        if kind == "~":
            self.index += 1
            operand = self.metric()
            return Negation(operand, span=self.span(first))
        if kind == METRIC or kind == "[":
            return self.metric()
        if kind not in _BEGINS_EXPRESSION:
            raise self.fault(LITERAL)
        left = self.expression()
        if self.kinds[self.index] in (COMPARISON, "="):
            return self._comparison(left, first)
        if isinstance(left, Call) and kind != "(":
            return self._binary(self._with_time(left, first), first)
        raise (
            self.fault("`(`", COMPARED)
            if kind in SYMBOLS and self.index == first + 1
            else self.fault(COMPARED)
        )

    def _comparison(self, left: Expression, first: int) -> Comparison:
        operator = self.token_text()
        self.index += 1
        right = self.expression()
        return Comparison(operator, left, right, span=self.span(first))

    # ---- metric operators

    def metric(self) -> Metric:
        """An atom, perhaps under unary operators, or two such joined by `since` or `until`."""
        first = self.index
        return self._binary(self._unary(), first)

    def _binary(self, left: Atom | UnaryMetric, first: int) -> Metric:
        if self.kinds[self.index] != METRIC:
            return left
        operator = self.token_text()
        if operator not in _BINARY:
            raise self.fault("`,`", "`.`")
        interval = self._metric_interval()
        right = self._unary()
        if self.kinds[self.index] == METRIC and self.token_text() in _BINARY:
            message = f"`{self.token_text()}` cannot follow `{operator}` in one literal"
            raise self.mistake(codes.METRIC_WORD, message, "give one of the two a predicate of its own")
        return BinaryMetric(operator, left, interval, right, span=self.span(first))

    def _unary(self) -> Atom | UnaryMetric:
        operators: list[tuple[int, str, Interval]] = []
        while self.kinds[self.index] == METRIC:
            operator = self.token_text()
            if operator in _BINARY:
                message = f"`{operator}` stands between two atoms"
                raise self.mistake(codes.METRIC_WORD, message, f"as in `p(?x) {operator}[0, 1h] q(?x)`")
            if len(operators) == DEEPEST:
                raise self.too_deep("give a part of it a predicate of its own")
            operators.append((self.index, operator, self._metric_interval()))
        operand: Atom | UnaryMetric = self._atom()
        for first, operator, interval in reversed(operators):
            operand = UnaryMetric(operator, interval, operand, span=self.span(first))
        return operand

    def _metric_interval(self) -> Interval:
        """The interval behind a metric word, which is the next token."""
        behind = self.kinds[self.index + 2]
        if behind not in _BOUNDS and behind not in (NAME, "-", "+"):
            raise self.reserved()
        self.index += 1
        return self._interval()

    # ---- atoms and their times

    def _atom(self) -> Atom:
        first = self.index
        kind = self.kinds[first]
        if kind == "[":
            return self._with_time(self._triple(), first)
        if kind not in SYMBOLS:
            raise self.fault(ATOM)
        return self._with_time(self.call(), first)

    def _triple(self) -> Triple:
        first = self.index
        self.expect("[")
        subject = self.expression()
        self.expect(",")
        predicate = self.expression()
        self.expect(",")
        object_ = self.expression()
        self.expect("]")
        return Triple(subject, predicate, object_, span=self.span(first))

    def _with_time(self, call: Call | Triple, first: int) -> Atom:
        kind = self.kinds[self.index]
        if kind == LANGUAGE:
            raise self.fault("a time, such as `@[0, 3)`")
        if kind == NAME and self.token_text() in _TIME_WORDS:
            return Atom(call, self._worded_time(), span=self.span(first))
        if kind != "@":
            return Atom(call, span=self.span(first))
        self.index += 1
        time = self._time()
        return Atom(call, time, span=self.span(first))

    def _worded_time(self) -> At:
        """`at 15`, which is `@15`, `during [0, 10]`, or `ever`."""
        first = self.index
        word = self.token_text()
        self.index += 1
        if word == "at":
            return self._bound()
        interval = self._interval() if word == "during" else None
        return Sometime(interval, span=self.span(first))

    def _time(self) -> At:
        kind = self.kinds[self.index]
        if kind in ("[", "("):
            return self._interval()
        if kind in _BOUNDS:
            return self._bound()
        if kind != VARIABLE:
            raise self.fault("an interval", "a variable", "a time")
        time = self.operand()
        assert isinstance(time, Variable)
        return time

    def _interval(self) -> Interval:
        first = self.index
        opening = self.kinds[first]
        if opening not in ("[", "("):
            raise self.fault("an interval")
        self.index += 1
        left = self._bound()
        self.expect(",")
        right = self._bound()
        closing = self.kinds[self.index]
        if closing not in ("]", ")"):
            raise self.fault("`]`", "`)`")
        self.index += 1
        return Interval(opening == "[", left, right, closing == "]", span=self.span(first))

    def _bound(self) -> Bound:
        first = self.index
        if self._is_infinity():
            return self._infinity()
        if self.kinds[first] not in _BOUNDS:
            raise self.fault("a number", "a duration", "`inf`", "a string", "a parameter")
        bound = self.operand()
        if isinstance(bound, Number) and self.kinds[self.index] == "/":
            return self._fraction(bound, first)
        assert isinstance(bound, Bound)
        return bound

    def _is_infinity(self) -> bool:
        index = self.index
        if self.kinds[index] in ("-", "+") and self.ends[index] == self.starts[index + 1]:
            index += 1
        return self.kinds[index] == NAME and self.text[self.starts[index] : self.ends[index]] == "inf"

    def _infinity(self) -> Infinity:
        first = self.index
        self.index += 1 if self.kinds[first] == NAME else 2
        return Infinity(self.text[self.starts[first] : self.ends[self.index - 1]], span=self.span(first))

    def _fraction(self, numerator: Number, first: int) -> Fraction:
        self.index += 1
        if self.kinds[self.index] != INTEGER:
            raise self.fault("an integer")
        denominator = self.operand()
        assert isinstance(denominator, Number)
        return Fraction(numerator, denominator, span=self.span(first))
