"""An independent reader of programs: `tests/grammar.lark`, run by lark, and its trees made into ours.

It shares nothing with the parser but the tree and the way escapes are resolved; what stands in format strings
the grammar does not say, so there it asks the parser.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, LarkError, Token, Transformer

from tidelog.errors import Source
from tidelog.syntax import ast
from tidelog.syntax.ast import NumberKind
from tidelog.syntax.lexer import unescape
from tidelog.syntax.parser import parse_literals

GRAMMAR = (Path(__file__).parent.parent / "grammar.lark").read_text(encoding="utf-8")
KINDS = {
    "INTEGER": NumberKind.INTEGER,
    "DECIMAL": NumberKind.DECIMAL,
    "DOUBLE": NumberKind.DOUBLE,
    "BASED": NumberKind.BASED,
}


@cache
def grammar() -> Lark:
    return Lark(GRAMMAR, start="program", parser="lalr")


def accepts(text: str) -> bool:
    """Whether the grammar accepts the text."""
    try:
        grammar().parse(_spaced(text))
    except LarkError:
        return False
    return True


def read(text: str) -> ast.Document:
    """The program as the grammar reads it; raises `LarkError`."""
    document: ast.Document = ToTree().transform(grammar().parse(_spaced(text)))
    return document


def _spaced(text: str) -> str:
    """The text with a space where the grammar would take `_:-` and `true:-` for names, which nobody means."""
    return re.sub(r"(?<![\w:?$-])(_|true|false)(?=:-)", r"\1 ", text)


def unquoted(token: str) -> str:
    quotes = 3 if token.startswith('"""') and len(token) >= 6 else 1
    return unescape(token[quotes:-quotes])


def symbol_of(token: Token) -> ast.Symbol:
    if token.type == "IRI":
        return ast.Iri(token[1:-1])
    if token.type == "PNAME":
        prefix, _, local = token.partition(":")
        return ast.PrefixedName(prefix, local)
    return ast.Name(str(token))


class ToTree(Transformer[Any, Any]):
    """Lark's trees to ours: one method for each rule of the grammar."""

    def program(self, children: list[Any]) -> ast.Document:
        return ast.Document(tuple(children))

    def directive_statement(self, children: list[Any]) -> ast.Statement:
        statement: ast.Statement = children[0]
        return statement

    def clause_statement(self, children: list[Any]) -> ast.Clause:
        heads, body = children[-1]
        signs = [str(child) for child in children if isinstance(child, Token)]
        attributes = tuple(child for child in children if isinstance(child, ast.Attribute))
        return ast.Clause(heads, body, signs[0] if signs else None, attributes)

    def query(self, children: list[Any]) -> ast.Query:
        return ast.Query(children[0])

    def attribute(self, children: list[Any]) -> ast.Attribute:
        return ast.Attribute(str(children[0]), given(children[1:]))

    # ---- directives

    def prefix(self, children: list[Any]) -> ast.PrefixDirective:
        return ast.PrefixDirective(str(children[0])[:-1], ast.Iri(children[1][1:-1]))

    def base(self, children: list[Any]) -> ast.BaseDirective:
        return ast.BaseDirective(ast.Iri(children[0][1:-1]))

    def declare(self, children: list[Any]) -> ast.DeclareDirective:
        return ast.DeclareDirective(children[0], children[1] or ())

    def parameter(self, children: list[Any]) -> ast.ParameterDirective:
        return ast.ParameterDirective(str(children[0])[1:], children[1])

    def import_(self, children: list[Any]) -> ast.ImportDirective:
        return ast.ImportDirective(*children)

    def export(self, children: list[Any]) -> ast.ExportDirective:
        return ast.ExportDirective(*children)

    def output(self, children: list[Any]) -> ast.OutputDirective:
        return ast.OutputDirective(tuple(children))

    def include(self, children: list[Any]) -> ast.IncludeDirective:
        return ast.IncludeDirective(unquoted(children[0]))

    def timeline(self, children: list[Any]) -> ast.TimelineDirective:
        return ast.TimelineDirective(str(children[0]))

    def commit(self, children: list[Any]) -> ast.CommitDirective:
        return ast.CommitDirective()

    def advance(self, children: list[Any]) -> ast.AdvanceDirective:
        return ast.AdvanceDirective(children[0])

    def columns(self, children: list[Any]) -> tuple[ast.Column, ...]:
        return tuple(children)

    def column(self, children: list[Any]) -> ast.Column:
        name, kind = map(str, children)
        return ast.Column(None if name == "_" else name, kind)

    def format(self, children: list[Any]) -> ast.Format:
        return ast.Format(str(children[0]), given(children[1:]))

    def pair(self, children: list[Any]) -> ast.Option:
        return ast.Option(str(children[0]), children[1])

    def names(self, children: list[Any]) -> ast.Names:
        return ast.Names(tuple(map(str, given(children))))

    # ---- clauses

    def clause(self, children: list[Any]) -> tuple[tuple[ast.Head, ...], tuple[ast.Literal, ...]]:
        return tuple(children[:-1]), children[-1] or ()

    def head_box(self, children: list[Any]) -> ast.UnaryMetric:
        return ast.UnaryMetric(str(children[0]), *children[1:])

    def head_atom(self, children: list[Any]) -> ast.Atom:
        return ast.Atom(*children)

    def head_equality(self, children: list[Any]) -> ast.HeadEquality:
        return ast.HeadEquality(*children)

    def head_inequality(self, children: list[Any]) -> ast.HeadEquality:
        left, operator, right = children
        return ast.HeadEquality(left, right, str(operator))

    def body(self, children: list[Any]) -> tuple[ast.Literal, ...]:
        return tuple(children)

    def negation(self, children: list[Any]) -> ast.Negation:
        return ast.Negation(children[0])

    def comparison(self, children: list[Any]) -> ast.Comparison:
        left, operator, right = children
        return ast.Comparison(str(operator), left, right)

    def equality(self, children: list[Any]) -> ast.Comparison:
        return ast.Comparison("=", *children)

    def binary_metric(self, children: list[Any]) -> ast.BinaryMetric:
        left, operator, interval, right = children
        return ast.BinaryMetric(str(operator), left, interval, right)

    def unary_metric(self, children: list[Any]) -> ast.UnaryMetric:
        return ast.UnaryMetric(str(children[0]), *children[1:])

    def positive(self, children: list[Any]) -> ast.Atom:
        return ast.Atom(*children)

    def triple(self, children: list[Any]) -> ast.Triple:
        return ast.Triple(*children)

    def at(self, children: list[Any]) -> ast.At:
        child = children[0]
        time: ast.At = ast.Variable(str(child)[1:]) if isinstance(child, Token) else child
        return time

    def at_point(self, children: list[Any]) -> ast.At:
        time: ast.At = children[0]
        return time

    def during(self, children: list[Any]) -> ast.Sometime:
        return ast.Sometime(children[0])

    def ever(self, children: list[Any]) -> ast.Sometime:
        return ast.Sometime()

    def interval(self, children: list[Any]) -> ast.Interval:
        opening, left, right, closing = children
        return ast.Interval(opening == "[", left, right, closing == "]")

    def bound(self, children: list[Any]) -> Any:
        first = children[0]
        return ast.Infinity(str(first)) if isinstance(first, Token) else first

    def point(self, children: list[Any]) -> Any:
        first = children[0]
        if not isinstance(first, Token):
            denominator = children[1] if len(children) > 1 else None
            if denominator is None:
                return first
            return ast.Fraction(first, ast.Number(str(denominator), NumberKind.INTEGER))
        return ast.Duration(str(first)) if first.type == "DURATION" else ast.Parameter(str(first)[1:])

    # ---- expressions

    def call(self, children: list[Any]) -> ast.Call:
        return ast.Call(children[0], given(children[1:]))

    def add(self, children: list[Any]) -> ast.Operation:
        return ast.Operation("+", *children)

    def sub(self, children: list[Any]) -> ast.Operation:
        return ast.Operation("-", *children)

    def mul(self, children: list[Any]) -> ast.Operation:
        return ast.Operation("*", *children)

    def div(self, children: list[Any]) -> ast.Operation:
        return ast.Operation("/", *children)

    def neg(self, children: list[Any]) -> ast.Negative:
        return ast.Negative(children[0])

    def aggregate(self, children: list[Any]) -> ast.Aggregate:
        return ast.Aggregate(str(children[0])[1:].lower(), given(children[1:]))

    def variable(self, children: list[Any]) -> ast.Variable:
        return ast.Variable(str(children[0])[1:])

    def anonymous(self, children: list[Any]) -> ast.Anonymous:
        return ast.Anonymous()

    def parameter_ref(self, children: list[Any]) -> ast.Parameter:
        return ast.Parameter(str(children[0])[1:])

    def duration(self, children: list[Any]) -> ast.Duration:
        return ast.Duration(str(children[0]))

    def symbol(self, children: list[Any]) -> ast.Symbol:
        return symbol_of(children[0])

    def number(self, children: list[Any]) -> ast.Number:
        return ast.Number(str(children[0]), KINDS[children[0].type])

    def text(self, children: list[Any]) -> ast.Expression:
        token = children[0]
        if token.type == "BOOLEAN":
            return ast.Boolean(token == "true")
        if token.type == "FSTRING":
            literal = parse_literals(Source("<format string>", f"?x = {token}"))[0]
            assert isinstance(literal, ast.Comparison)
            return literal.right
        suffix = children[1] if len(children) > 1 else None
        if suffix is None:
            return ast.Text(unquoted(token))
        if suffix.type == "LANGTAG":
            return ast.Text(unquoted(token), str(suffix)[1:])
        datatype = symbol_of(suffix)
        assert not isinstance(datatype, ast.Name)
        return ast.Text(unquoted(token), None, datatype)


def given(children: list[Any]) -> tuple[Any, ...]:
    """The children without the places that lark keeps for what is missing."""
    return tuple(child for child in children if child is not None)
