"""Tokens to expressions: the part of the parser that heads, bodies and options share.

`ExpressionParser` changes as it reads: `index` is the next token. Trees are at most `DEEPEST` levels high, so
that no later stage that walks them runs out of stack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.errors import Diagnostic, Source, Span, suggest
from tidelog.syntax import codes
from tidelog.syntax.ast import (
    Aggregate,
    Anonymous,
    Boolean,
    Call,
    Duration,
    Existential,
    Expression,
    FormatString,
    Iri,
    Name,
    Negative,
    Number,
    NumberKind,
    Operation,
    Parameter,
    PrefixedName,
    Symbol,
    Text,
    Variable,
)
from tidelog.syntax.lexer import Lexer
from tidelog.syntax.quoting import BadEscapeError, unescape
from tidelog.syntax.syntax_errors import EXPRESSION, Found, SyntaxFault, explain
from tidelog.syntax.tokens import (
    AGGREGATE,
    AGGREGATES,
    ANONYMOUS,
    BASED,
    BOOLEAN,
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
    PARAMETER,
    PREFIXED,
    STRING,
    SYMBOLS,
    VARIABLE,
    WORDS,
    Tokens,
)

DEEPEST: Final = 100


class ExpressionParser:
    """Reads expressions from the tokens of one statement."""

    def __init__(self, source: Source, tokens: Tokens) -> None:
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

    def call(self) -> Call:
        """A symbol and its arguments, which may be none."""
        first = self.index
        symbol = self.symbol()
        arguments = self.arguments()
        return Call(symbol, arguments, span=self.span(first))

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
        return Iri(text[1:-1], span=self.span(index)) if kind == IRI else Name(text, span=self.span(index))

    def word(self, what: str) -> str:
        """The text of a name that stands where nothing else can."""
        if self.kinds[self.index] not in WORDS:
            raise self.fault(what)
        self.index += 1
        return self.text[self.starts[self.index - 1] : self.ends[self.index - 1]]

    def _operation(
        self, operator: str, left: Expression, first: int, right: Callable[[], Expression]
    ) -> Operation:
        height = self.height
        self.index += 1
        operand = right()
        self._rise(max(height, self.height))
        return Operation(operator, left, operand, span=self.span(first))

    def _negative(self) -> Negative:
        first = self.index
        self.index += 1
        self.descend()
        operand = self.operand()
        self.nesting -= 1
        self._rise(self.height)
        return Negative(operand, span=self.span(first))

    def _parenthesised(self) -> Expression:
        self.index += 1
        self.descend()
        inner = self.expression()
        self.nesting -= 1
        self.expect(")")
        return inner

    def _aggregate(self) -> Aggregate:
        first = self.index
        written = self.token_text()[1:]
        if written.lower() not in AGGREGATES:
            known = [f"#{name}" for name in AGGREGATES]
            help_line = suggest(f"#{written.lower()}", known) or f"the aggregates are {', '.join(known)}"
            raise self.mistake(codes.UNKNOWN_AGGREGATE, f"there is no aggregate `#{written}`", help_line)
        self.index += 1
        if self.kinds[self.index : self.index + 2] == ["(", ")"]:
            self.index += 1
            raise self.fault(EXPRESSION)
        arguments = self.arguments()
        return Aggregate(written.lower(), arguments, span=self.span(first))

    # ---- strings

    def string(self, text: str, span: Span) -> Text:
        """A string with its language or datatype; its first token has been read."""
        first = self.index - 1
        value = self.string_value(first)
        kind = self.kinds[self.index]
        if kind == LANGUAGE:
            self.index += 1
            return Text(
                value, self.text[self.starts[first + 1] + 1 : self.ends[first + 1]], span=self.span(first)
            )
        if kind == DATATYPE:
            self.index += 1
            if self.kinds[self.index] not in (PREFIXED, IRI):
                raise self.fault("a prefixed name", "an IRI")
            datatype = self.symbol()
            assert isinstance(datatype, PrefixedName | Iri)
            return Text(value, None, datatype, span=self.span(first))
        return Text(value, span=span)

    def string_value(self, index: int) -> str:
        """What the string token at `index` says, its escapes resolved."""
        start, end = self.starts[index], self.ends[index]
        return self._unescaped(*_content(self.text[start:end], start))

    def format_string(self, text: str, span: Span) -> FormatString:
        """A format string: texts, and expressions in braces; doubled braces stand for themselves."""
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
                raise self._bad_format("this `}` closes nothing", position, "write `}}` for a brace")
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
        return FormatString(tuple(parts), span=span)

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
            message = f"`{span.text}` stands for no character"
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
        return SyntaxFault(explain(Found(self.source, self.tokens, self.index, expected)))

    def mistake(self, code: str, message: str, help_line: str | None = None) -> SyntaxFault:
        """The fault of the next token with a message of its own."""
        span = Span(self.source, self.starts[self.index], self.ends[self.index])
        return SyntaxFault(Diagnostic(code, message, span, help_line))

    def reserved(self) -> SyntaxFault:
        """The fault of a metric word that stands where no metric operator can."""
        word = self.token_text()
        message = f"`{word}` is a metric operator, and cannot stand here"
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


def _prefixed_name(parser: ExpressionParser, text: str, span: Span) -> PrefixedName:
    prefix, _, local = text.partition(":")
    return PrefixedName(prefix, local, span=span)


def _existential(parser: ExpressionParser, text: str, span: Span) -> Existential:
    if parser.kinds[parser.index] == "(":
        help_line = f"write `~{text[1:]}(…)`"
        raise SyntaxFault(Diagnostic(codes.FOREIGN_NEGATION, "negation is written `~`", span, help_line))
    return Existential(text[1:], span=span)


# How each kind of token becomes a term.
_TERMS: Final[dict[str, Callable[[ExpressionParser, str, Span], Expression]]] = {
    NAME: lambda _, text, span: Name(text, span=span),
    VARIABLE: lambda _, text, span: Variable(text[1:], span=span),
    ANONYMOUS: lambda _, text, span: Anonymous(span=span),
    PARAMETER: lambda _, text, span: Parameter(text[1:], span=span),
    EXISTENTIAL: _existential,
    PREFIXED: _prefixed_name,
    IRI: lambda _, text, span: Iri(text[1:-1], span=span),
    STRING: ExpressionParser.string,
    FORMAT: ExpressionParser.format_string,
    BOOLEAN: lambda _, text, span: Boolean(text == "true", span=span),
    INTEGER: lambda _, text, span: Number(text, NumberKind.INTEGER, span=span),
    DECIMAL: lambda _, text, span: Number(text, NumberKind.DECIMAL, span=span),
    DOUBLE: lambda _, text, span: Number(text, NumberKind.DOUBLE, span=span),
    BASED: lambda _, text, span: Number(text, NumberKind.BASED, span=span),
    DURATION: lambda _, text, span: Duration(text, span=span),
}
