"""Tokens to expressions, heads and bodies: atoms, negation, comparison, metric operators, intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.errors import Diagnostic, SourceText, Span, codes, suggest
from tidelog.syntax.ast import (
    AggregateNode,
    AnonymousNode,
    At,
    AtomNode,
    BinaryMetricNode,
    BooleanNode,
    Bound,
    CallNode,
    ComparisonNode,
    DurationNode,
    ExistentialNode,
    Expression,
    FormatStringNode,
    FractionNode,
    Head,
    HeadEqualityNode,
    InfinityNode,
    IntervalNode,
    IriNode,
    Literal,
    Metric,
    NameNode,
    NegationNode,
    NegativeNode,
    NumberKind,
    NumberNode,
    OperationNode,
    ParameterNode,
    PrefixedNameNode,
    SometimeNode,
    Symbol,
    TextNode,
    TripleNode,
    UnaryMetricNode,
    VariableNode,
)
from tidelog.syntax.lexer import (
    AGGREGATE,
    AGGREGATES,
    ANONYMOUS,
    BASED,
    BOOLEAN,
    COMPARISON,
    DATATYPE,
    DECIMAL,
    DOUBLE,
    DURATION,
    EXISTENTIAL,
    FORMAT,
    INTEGER,
    IRI,
    LANGUAGE,
    METRIC,
    NAME,
    NUMBERS,
    PARAMETER,
    PREFIXED,
    STRING,
    SYMBOLS,
    VALUES,
    VARIABLE,
    WORDS,
    BadEscapeError,
    Lexer,
    Tokens,
    unescape,
)
from tidelog.syntax.syntax_errors import (
    ATOM,
    COMPARED,
    EXPRESSION,
    HEAD,
    HEAD_HELP,
    LITERAL,
    STATEMENT,
    SyntaxFault,
    UnexpectedToken,
    explain,
)

# ---- tokens to expressions
#
# `ExpressionParser` changes as it reads: `index` is the next token. Trees are at most `DEEPEST` levels high,
# so that no later stage that walks them runs out of stack.

DEEPEST: Final = 100


class ExpressionParser:
    """Reads expressions from the tokens of one statement."""

    def __init__(self, source: SourceText, tokens: Tokens) -> None:
        self.source = source
        self.text = source.text
        self.begin(tokens)

    def begin(self, tokens: Tokens) -> None:
        """Read these tokens next."""
        self.tokens = tokens
        self.kinds = tokens.kinds
        self.starts = tokens.starts
        self.ends = tokens.ends
        self.index = 0
        self.nesting = 0
        self.height = 0

    # ---- expressions

    def expression(self) -> Expression:
        """A sum: products joined by `+` and `-`, from the left."""
        first = self.index
        left = self.product()
        while (operator := self.kinds[self.index]) in ("+", "-"):
            left = self._operation(operator, left, first, self.product)
        return left

    def product(self) -> Expression:
        """Operands joined by `*` and `/`, from the left."""
        first = self.index
        left = self.operand()
        while (operator := self.kinds[self.index]) in ("*", "/"):
            left = self._operation(operator, left, first, self.operand)
        return left

    def operand(self) -> Expression:
        """A term, a call, an aggregate, a negative operand, or an expression in parentheses."""
        index = self.index
        kind = self.kinds[index]
        if kind in SYMBOLS and self.kinds[index + 1] == "(":
            return self.call()
        term = _TERMS.get(kind)
        if term is not None:
            self.index = index + 1
            self.height = 1
            return term(self, self.text[self.starts[index] : self.ends[index]], self.span(index))
        if kind == "-":
            return self._negative()
        if kind == "(":
            return self._parenthesised()
        if kind == AGGREGATE:
            return self._aggregate()
        if kind == METRIC:
            raise self.reserved()
        raise self.fault(EXPRESSION)

    def call(self) -> CallNode:
        """A symbol and its arguments, which may be none."""
        first = self.index
        symbol = self.symbol()
        arguments = self.arguments()
        return CallNode(symbol, arguments, span=self.span(first))

    def arguments(self) -> tuple[Expression, ...]:
        """The expressions between parentheses, which may be none."""
        self.expect("(")
        if self.kinds[self.index] == ")":
            self.index += 1
            self.height = 2
            return ()
        self.descend()
        arguments = [self.expression()]
        height = self.height
        while self.kinds[self.index] == ",":
            self.index += 1
            arguments.append(self.expression())
            height = max(height, self.height)
        if self.kinds[self.index] != ")":
            raise self.fault("`,`", "`)`")
        self.index += 1
        self.nesting -= 1
        self._rise(height)
        return tuple(arguments)

    def symbol(self) -> Symbol:
        """A name, a prefixed name or an IRI; where only these can stand, special words are names."""
        index = self.index
        kind = self.kinds[index]
        if kind == METRIC:
            raise self.reserved()
        if kind not in SYMBOLS and kind != BOOLEAN:
            raise self.fault("a name", "an IRI")
        self.index = index + 1
        text = self.text[self.starts[index] : self.ends[index]]
        if kind == PREFIXED:
            return _prefixed_name(self, text, self.span(index))
        span = self.span(index)
        return IriNode(text[1:-1], span=span) if kind == IRI else NameNode(text, span=span)

    def word(self, expected: str) -> str:
        """Read a name, the only valid token here, and return its text."""
        if self.kinds[self.index] not in WORDS:
            raise self.fault(expected)
        self.index += 1
        return self.text[self.starts[self.index - 1] : self.ends[self.index - 1]]

    def _operation(
        self, operator: str, left: Expression, first: int, right: Callable[[], Expression]
    ) -> OperationNode:
        height = self.height
        self.index += 1
        operand = right()
        self._rise(max(height, self.height))
        return OperationNode(operator, left, operand, span=self.span(first))

    def _negative(self) -> NegativeNode:
        first = self.index
        self.index += 1
        self.descend()
        operand = self.operand()
        self.nesting -= 1
        self._rise(self.height)
        return NegativeNode(operand, span=self.span(first))

    def _parenthesised(self) -> Expression:
        self.index += 1
        self.descend()
        inner = self.expression()
        self.nesting -= 1
        self.expect(")")
        return inner

    def _aggregate(self) -> AggregateNode:
        first = self.index
        written = self.token_text()[1:]
        if written.lower() not in AGGREGATES:
            names = [f"#{name}" for name in AGGREGATES]
            help_line = suggest(f"#{written.lower()}", names) or f"the aggregates are {', '.join(names)}"
            raise self.mistake(codes.UNKNOWN_AGGREGATE, f"unknown aggregate `#{written}`", help_line)
        self.index += 1
        if self.kinds[self.index : self.index + 2] == ["(", ")"]:
            self.index += 1
            raise self.fault(EXPRESSION)
        arguments = self.arguments()
        return AggregateNode(written.lower(), arguments, span=self.span(first))

    # ---- strings

    def string(self, text: str, span: Span) -> TextNode:
        """A string with its language or datatype; its first token has been read."""
        first = self.index - 1
        value = self.string_value(first)
        kind = self.kinds[self.index]
        if kind == LANGUAGE:
            self.index += 1
            return TextNode(
                value, self.text[self.starts[first + 1] + 1 : self.ends[first + 1]], span=self.span(first)
            )
        if kind == DATATYPE:
            self.index += 1
            if self.kinds[self.index] not in (PREFIXED, IRI):
                raise self.fault("a prefixed name", "an IRI")
            datatype = self.symbol()
            assert isinstance(datatype, PrefixedNameNode | IriNode)
            return TextNode(value, None, datatype, span=self.span(first))
        return TextNode(value, span=span)

    def string_value(self, index: int) -> str:
        """What the string token at `index` says, its escapes resolved."""
        start, end = self.starts[index], self.ends[index]
        return self._unescaped(*_content(self.text[start:end], start))

    def format_string(self, text: str, span: Span) -> FormatStringNode:
        """A format string: texts, and expressions in braces; doubled braces are literal ones."""
        content, start = _content(text[1:], span.start + 1)
        position, end = start, start + len(content)
        parts: list[str | Expression] = []
        literal = ""
        height = 0
        while position < end:
            pair = self.text[position : position + 2]
            if pair in ("{{", "}}") and position + 1 < end:
                literal += pair[0]
                position += 2
            elif pair[0] == "}":
                raise self._bad_format("unmatched `}`", position, "write `}}` for a brace")
            elif pair[0] == "{":
                parts += [literal] if literal else []
                literal = ""
                inner = self._inner(position, end)
                parts.append(inner.expression())
                height = max(height, inner.height)
                position = inner.close()
            else:
                stop = _next_brace(self.text, position, end)
                literal += self._unescaped(self.text[position:stop], position)
                position = stop
        parts += [literal] if literal else []
        self._rise(height)
        return FormatStringNode(tuple(parts), span=span)

    def _inner(self, position: int, end: int) -> ExpressionParser:
        """A parser for the expression after the brace at `position`."""
        lexer = Lexer(self.source, position + 1, end)
        tokens = lexer.read("}")
        if lexer.diagnostics:
            raise SyntaxFault(lexer.diagnostics[0])
        if tokens.kinds[-1] != "}":
            raise self._bad_format("this `{` is never closed", position, "write `{{` for a brace")
        if tokens.kinds == ["}"]:
            raise self._bad_format("an expression is missing here", position, "write `{{}}` for braces")
        inner = ExpressionParser(self.source, tokens)
        inner.nesting = self.nesting
        inner.descend()
        return inner

    def close(self) -> int:
        """The place behind the brace that ends the expression of a format string."""
        self.expect("}")
        return self.ends[self.index - 1]

    def _unescaped(self, content: str, start: int) -> str:
        try:
            return unescape(content)
        except BadEscapeError as bad:
            span = Span(self.source, start + bad.start, start + bad.end)
            message = f"`{span.text}` is not a valid escape"
            help_line = (
                r"write `\\` for a backslash; the escapes are \t \n \r \b \f \" \' \\ \uXXXX \UXXXXXXXX"
            )
            raise SyntaxFault(Diagnostic(codes.BAD_ESCAPE, message, span, help_line)) from None

    def _bad_format(self, message: str, position: int, help_line: str) -> SyntaxFault:
        span = Span(self.source, position, position + 1)
        return SyntaxFault(Diagnostic(codes.BAD_FORMAT_STRING, message, span, help_line))

    # ---- places and faults

    def span(self, first: int) -> Span:
        """From the token `first` to the last token read."""
        return Span(self.source, self.starts[first], self.ends[self.index - 1])

    def token_text(self) -> str:
        """The text of the next token."""
        return self.text[self.starts[self.index] : self.ends[self.index]]

    def expect(self, kind: str) -> None:
        """Read a token of this kind, a punctuation mark, or fail."""
        if self.kinds[self.index] != kind:
            raise self.fault(f"`{kind}`")
        self.index += 1

    def fault(self, *expected: str) -> SyntaxFault:
        """The fault that the next token is none of those expected."""
        return SyntaxFault(explain(UnexpectedToken(self.source, self.tokens, self.index, expected)))

    def mistake(self, code: str, message: str, help_line: str | None = None) -> SyntaxFault:
        """The fault of the next token with a message of its own."""
        span = Span(self.source, self.starts[self.index], self.ends[self.index])
        return SyntaxFault(Diagnostic(code, message, span, help_line))

    def reserved(self) -> SyntaxFault:
        """The fault of a metric word that stands where no metric operator can."""
        word = self.token_text()
        message = f"`{word}` is a metric operator, and is not allowed here"
        return self.mistake(codes.METRIC_WORD, message, "no predicate or function may have its name")

    def descend(self) -> None:
        """Go one level deeper."""
        self.nesting += 1
        if self.nesting > DEEPEST:
            raise self.too_deep()

    def _rise(self, height: int) -> None:
        """Put a level above a tree of this height."""
        self.height = height + 1
        if self.height > DEEPEST:
            raise self.too_deep()

    def too_deep(self, help_line: str = "bind a part of it to a variable: `?part = …`") -> SyntaxFault:
        """The fault of nesting more deeply than any stage after this one need expect."""
        message = f"this is nested more than {DEEPEST} levels deep"
        return self.mistake(codes.NESTED_TOO_DEEPLY, message, help_line)


def _content(text: str, start: int) -> tuple[str, int]:
    """What stands between the quotes of a string that begins at `start`, and where that begins."""
    quotes = 3 if len(text) >= 6 and text.startswith('"""') else 1
    return text[quotes:-quotes], start + quotes


def _next_brace(text: str, position: int, end: int) -> int:
    places = (text.find("{", position, end), text.find("}", position, end))
    return min((place for place in places if place >= 0), default=end)


def _prefixed_name(parser: ExpressionParser, text: str, span: Span) -> PrefixedNameNode:
    prefix, _, local = text.partition(":")
    return PrefixedNameNode(prefix, local, span=span)


def _existential(parser: ExpressionParser, text: str, span: Span) -> ExistentialNode:
    if parser.kinds[parser.index] == "(":
        help_line = f"write `~{text[1:]}(…)`"
        raise SyntaxFault(Diagnostic(codes.FOREIGN_NEGATION, "negation is written `~`", span, help_line))
    return ExistentialNode(text[1:], span=span)


# How each kind of token becomes a term.
_TERMS: Final[dict[str, Callable[[ExpressionParser, str, Span], Expression]]] = {
    NAME: lambda _, text, span: NameNode(text, span=span),
    VARIABLE: lambda _, text, span: VariableNode(text[1:], span=span),
    ANONYMOUS: lambda _, text, span: AnonymousNode(span=span),
    PARAMETER: lambda _, text, span: ParameterNode(text[1:], span=span),
    EXISTENTIAL: _existential,
    PREFIXED: _prefixed_name,
    IRI: lambda _, text, span: IriNode(text[1:-1], span=span),
    STRING: ExpressionParser.string,
    FORMAT: ExpressionParser.format_string,
    BOOLEAN: lambda _, text, span: BooleanNode(text == "true", span=span),
    INTEGER: lambda _, text, span: NumberNode(text, NumberKind.INTEGER, span=span),
    DECIMAL: lambda _, text, span: NumberNode(text, NumberKind.DECIMAL, span=span),
    DOUBLE: lambda _, text, span: NumberNode(text, NumberKind.DOUBLE, span=span),
    BASED: lambda _, text, span: NumberNode(text, NumberKind.BASED, span=span),
    DURATION: lambda _, text, span: DurationNode(text, span=span),
}


# ---- tokens to heads and bodies

_BOXES: Final = ("boxminus", "boxplus")
_TIME_WORDS: Final = ("at", "during", "ever")
_BINARY: Final = ("since", "until")
_BEGINS_EXPRESSION: Final = VALUES | {"(", "-"}
_BOUNDS: Final = NUMBERS | {DURATION, PARAMETER, STRING}


class LiteralParser(ExpressionParser):
    """Reads heads and bodies from the tokens of one statement."""

    def __init__(self, source: SourceText, tokens: Tokens) -> None:
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
            return HeadEqualityNode(left, right, operator, span=self.span(first))
        if isinstance(left, CallNode) and kind != "(":
            return self._with_time(left, first)
        raise self.fault("`(`", "`=`") if kind in SYMBOLS and self.index == first + 1 else self.fault("`=`")

    def _boxed_head(self) -> Head:
        first = self.index
        word = self.token_text()
        if word not in _BOXES:
            raise self._not_a_head(f"a head cannot contain `{word}`")
        self.descend()
        interval = self._metric_interval()
        start = self.index
        operand = self.head()
        self.nesting -= 1
        if isinstance(operand, HeadEqualityNode):
            self.index = start
            raise self._not_a_head("an equality in a head cannot be under a metric operator")
        return UnaryMetricNode(word, interval, operand, span=self.span(first))

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
            return NegationNode(operand, span=self.span(first))
        if kind == METRIC or kind == "[":
            return self.metric()
        if kind not in _BEGINS_EXPRESSION:
            raise self.fault(LITERAL)
        left = self.expression()
        if self.kinds[self.index] in (COMPARISON, "="):
            return self._comparison(left, first)
        if isinstance(left, CallNode) and kind != "(":
            return self._binary(self._with_time(left, first), first)
        raise (
            self.fault("`(`", COMPARED)
            if kind in SYMBOLS and self.index == first + 1
            else self.fault(COMPARED)
        )

    def _comparison(self, left: Expression, first: int) -> ComparisonNode:
        operator = self.token_text()
        self.index += 1
        right = self.expression()
        return ComparisonNode(operator, left, right, span=self.span(first))

    # ---- metric operators

    def metric(self) -> Metric:
        """An atom, perhaps under unary operators, or two such joined by `since` or `until`."""
        first = self.index
        return self._binary(self._unary(), first)

    def _binary(self, left: AtomNode | UnaryMetricNode, first: int) -> Metric:
        if self.kinds[self.index] != METRIC:
            return left
        operator = self.token_text()
        if operator not in _BINARY:
            raise self.fault("`,`", "`.`")
        interval = self._metric_interval()
        right = self._unary()
        if self.kinds[self.index] == METRIC and self.token_text() in _BINARY:
            message = f"`{self.token_text()}` cannot follow `{operator}` in one literal"
            raise self.mistake(codes.METRIC_WORD, message, "move one of the two to a separate predicate")
        return BinaryMetricNode(operator, left, interval, right, span=self.span(first))

    def _unary(self) -> AtomNode | UnaryMetricNode:
        operators: list[tuple[int, str, IntervalNode]] = []
        while self.kinds[self.index] == METRIC:
            operator = self.token_text()
            if operator in _BINARY:
                message = f"`{operator}` needs an atom on each side"
                raise self.mistake(codes.METRIC_WORD, message, f"as in `p(?x) {operator}[0, 1h] q(?x)`")
            if len(operators) == DEEPEST:
                raise self.too_deep("move a part of it to a separate predicate")
            operators.append((self.index, operator, self._metric_interval()))
        operand: AtomNode | UnaryMetricNode = self._atom()
        for first, operator, interval in reversed(operators):
            operand = UnaryMetricNode(operator, interval, operand, span=self.span(first))
        return operand

    def _metric_interval(self) -> IntervalNode:
        """The interval behind a metric word, which is the next token."""
        behind = self.kinds[self.index + 2]
        if behind not in _BOUNDS and behind not in (NAME, "-", "+"):
            raise self.reserved()
        self.index += 1
        return self._interval()

    # ---- atoms and their times

    def _atom(self) -> AtomNode:
        first = self.index
        kind = self.kinds[first]
        if kind == "[":
            return self._with_time(self._triple(), first)
        if kind not in SYMBOLS:
            raise self.fault(ATOM)
        return self._with_time(self.call(), first)

    def _triple(self) -> TripleNode:
        first = self.index
        self.expect("[")
        subject = self.expression()
        self.expect(",")
        predicate = self.expression()
        self.expect(",")
        object_ = self.expression()
        self.expect("]")
        return TripleNode(subject, predicate, object_, span=self.span(first))

    def _with_time(self, call: CallNode | TripleNode, first: int) -> AtomNode:
        kind = self.kinds[self.index]
        if kind == LANGUAGE:
            raise self.fault("a time, such as `@[0, 3)`")
        if kind == NAME and self.token_text() in _TIME_WORDS:
            return AtomNode(call, self._worded_time(), span=self.span(first))
        if kind != "@":
            return AtomNode(call, span=self.span(first))
        self.index += 1
        time = self._time()
        return AtomNode(call, time, span=self.span(first))

    def _worded_time(self) -> At:
        """`at 15`, which is `@15`, `during [0, 10]`, or `ever`."""
        first = self.index
        word = self.token_text()
        self.index += 1
        if word == "at":
            return self._bound()
        interval = self._interval() if word == "during" else None
        return SometimeNode(interval, span=self.span(first))

    def _time(self) -> At:
        kind = self.kinds[self.index]
        if kind in ("[", "("):
            return self._interval()
        if kind in _BOUNDS:
            return self._bound()
        if kind != VARIABLE:
            raise self.fault("an interval", "a variable", "a time")
        time = self.operand()
        assert isinstance(time, VariableNode)
        return time

    def _interval(self) -> IntervalNode:
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
        return IntervalNode(opening == "[", left, right, closing == "]", span=self.span(first))

    def _bound(self) -> Bound:
        first = self.index
        if self._is_infinity():
            return self._infinity()
        if self.kinds[first] not in _BOUNDS:
            raise self.fault("a number", "a duration", "`inf`", "a string", "a parameter")
        bound = self.operand()
        if isinstance(bound, NumberNode) and self.kinds[self.index] == "/":
            return self._fraction(bound, first)
        assert isinstance(bound, Bound)
        return bound

    def _is_infinity(self) -> bool:
        index = self.index
        if self.kinds[index] in ("-", "+") and self.ends[index] == self.starts[index + 1]:
            index += 1
        return self.kinds[index] == NAME and self.text[self.starts[index] : self.ends[index]] == "inf"

    def _infinity(self) -> InfinityNode:
        first = self.index
        self.index += 1 if self.kinds[first] == NAME else 2
        return InfinityNode(self.text[self.starts[first] : self.ends[self.index - 1]], span=self.span(first))

    def _fraction(self, numerator: NumberNode, first: int) -> FractionNode:
        self.index += 1
        if self.kinds[self.index] != INTEGER:
            raise self.fault("an integer")
        denominator = self.operand()
        assert isinstance(denominator, NumberNode)
        return FractionNode(numerator, denominator, span=self.span(first))
