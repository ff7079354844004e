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

from tidelog.errors import SourceText
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
# Whole words, so that `_` is found behind the minus of `?x-_`, but not at the end of `?x_`, `b-_` or `a:_`.
WORDS = re.compile(r"[?$@#]\w+|\d\w*|(?:[^\W\d][\w-]*)?:[\w][\w-]*|[^\W\d][\w-]*(?P<arrow>:-)?")


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


def read(text: str) -> ast.DocumentNode:
    """The program as the grammar reads it; raises `LarkError`."""
    document: ast.DocumentNode = ToTree().transform(grammar().parse(_spaced(text)))
    return document


def _spaced(text: str) -> str:
    """The text with a space where the grammar would take `_:-` and `true:-` for names, which nobody means."""
    return WORDS.sub(_space_before_arrow, text)


def _space_before_arrow(word: re.Match[str]) -> str:
    name = word[0].removesuffix(":-")
    return f"{name} :-" if word["arrow"] and name in ("_", "true", "false") else word[0]


def unquoted(token: str) -> str:
    quotes = 3 if token.startswith('"""') and len(token) >= 6 else 1
    return unescape(token[quotes:-quotes])


def symbol_of(token: Token) -> ast.Symbol:
    if token.type == "IRI":
        return ast.IriNode(token[1:-1])
    if token.type == "PNAME":
        prefix, _, local = token.partition(":")
        return ast.PrefixedNameNode(prefix, local)
    return ast.NameNode(str(token))


class ToTree(Transformer[Any, Any]):
    """Lark's trees to ours: one method for each rule of the grammar."""

    def program(self, children: list[Any]) -> ast.DocumentNode:
        return ast.DocumentNode(tuple(children))

    def directive_statement(self, children: list[Any]) -> ast.Statement:
        statement: ast.Statement = children[0]
        return statement

    def clause_statement(self, children: list[Any]) -> ast.ClauseNode:
        heads, body = children[-1]
        signs = [str(child) for child in children if isinstance(child, Token)]
        attributes = tuple(child for child in children if isinstance(child, ast.AttributeNode))
        return ast.ClauseNode(heads, body, signs[0] if signs else None, attributes)

    def query(self, children: list[Any]) -> ast.QueryNode:
        return ast.QueryNode(children[0])

    def attribute(self, children: list[Any]) -> ast.AttributeNode:
        return ast.AttributeNode(str(children[0]), given(children[1:]))

    # ---- directives

    def prefix(self, children: list[Any]) -> ast.PrefixDirectiveNode:
        return ast.PrefixDirectiveNode(str(children[0])[:-1], ast.IriNode(children[1][1:-1]))

    def base(self, children: list[Any]) -> ast.BaseDirectiveNode:
        return ast.BaseDirectiveNode(ast.IriNode(children[0][1:-1]))

    def declare(self, children: list[Any]) -> ast.DeclareDirectiveNode:
        return ast.DeclareDirectiveNode(children[0], children[1] or ())

    def parameter(self, children: list[Any]) -> ast.ParameterDirectiveNode:
        return ast.ParameterDirectiveNode(str(children[0])[1:], children[1])

    def import_(self, children: list[Any]) -> ast.ImportDirectiveNode:
        return ast.ImportDirectiveNode(*children)

    def export(self, children: list[Any]) -> ast.ExportDirectiveNode:
        return ast.ExportDirectiveNode(*children)

    def output(self, children: list[Any]) -> ast.OutputDirectiveNode:
        return ast.OutputDirectiveNode(tuple(children))

    def include(self, children: list[Any]) -> ast.IncludeDirectiveNode:
        return ast.IncludeDirectiveNode(unquoted(children[0]))

    def timeline(self, children: list[Any]) -> ast.TimelineDirectiveNode:
        return ast.TimelineDirectiveNode(str(children[0]))

    def commit(self, children: list[Any]) -> ast.CommitDirectiveNode:
        return ast.CommitDirectiveNode()

    def advance(self, children: list[Any]) -> ast.AdvanceDirectiveNode:
        return ast.AdvanceDirectiveNode(children[0])

    def columns(self, children: list[Any]) -> tuple[ast.ColumnNode, ...]:
        return tuple(children)

    def column(self, children: list[Any]) -> ast.ColumnNode:
        name, kind = map(str, children)
        return ast.ColumnNode(None if name == "_" else name, kind)

    def format(self, children: list[Any]) -> ast.FormatNode:
        return ast.FormatNode(str(children[0]), given(children[1:]))

    def pair(self, children: list[Any]) -> ast.OptionNode:
        return ast.OptionNode(str(children[0]), children[1])

    def names(self, children: list[Any]) -> ast.NamesNode:
        return ast.NamesNode(tuple(map(str, given(children))))

    # ---- clauses

    def clause(self, children: list[Any]) -> tuple[tuple[ast.Head, ...], tuple[ast.Literal, ...]]:
        return tuple(children[:-1]), children[-1] or ()

    def head_box(self, children: list[Any]) -> ast.UnaryMetricNode:
        return ast.UnaryMetricNode(str(children[0]), *children[1:])

    def head_atom(self, children: list[Any]) -> ast.AtomNode:
        return ast.AtomNode(*children)

    def head_equality(self, children: list[Any]) -> ast.HeadEqualityNode:
        return ast.HeadEqualityNode(*children)

    def head_inequality(self, children: list[Any]) -> ast.HeadEqualityNode:
        left, operator, right = children
        return ast.HeadEqualityNode(left, right, str(operator))

    def body(self, children: list[Any]) -> tuple[ast.Literal, ...]:
        return tuple(children)

    def negation(self, children: list[Any]) -> ast.NegationNode:
        return ast.NegationNode(children[0])

    def comparison(self, children: list[Any]) -> ast.ComparisonNode:
        left, operator, right = children
        return ast.ComparisonNode(str(operator), left, right)

    def equality(self, children: list[Any]) -> ast.ComparisonNode:
        return ast.ComparisonNode("=", *children)

    def binary_metric(self, children: list[Any]) -> ast.BinaryMetricNode:
        left, operator, interval, right = children
        return ast.BinaryMetricNode(str(operator), left, interval, right)

    def unary_metric(self, children: list[Any]) -> ast.UnaryMetricNode:
        return ast.UnaryMetricNode(str(children[0]), *children[1:])

    def positive(self, children: list[Any]) -> ast.AtomNode:
        return ast.AtomNode(*children)

    def triple(self, children: list[Any]) -> ast.TripleNode:
        return ast.TripleNode(*children)

    def at(self, children: list[Any]) -> ast.At:
        child = children[0]
        time: ast.At = ast.VariableNode(str(child)[1:]) if isinstance(child, Token) else child
        return time

    def at_point(self, children: list[Any]) -> ast.At:
        time: ast.At = children[0]
        return time

    def during(self, children: list[Any]) -> ast.SometimeNode:
        return ast.SometimeNode(children[0])

    def ever(self, children: list[Any]) -> ast.SometimeNode:
        return ast.SometimeNode()

    def interval(self, children: list[Any]) -> ast.IntervalNode:
        opening, left, right, closing = children
        return ast.IntervalNode(opening == "[", left, right, closing == "]")

    def bound(self, children: list[Any]) -> Any:
        first = children[0]
        return ast.InfinityNode(str(first)) if isinstance(first, Token) else first

    def point(self, children: list[Any]) -> Any:
        first = children[0]
        if not isinstance(first, Token):
            denominator = children[1] if len(children) > 1 else None
            if denominator is None:
                return first
            return ast.FractionNode(first, ast.NumberNode(str(denominator), NumberKind.INTEGER))
        return ast.DurationNode(str(first)) if first.type == "DURATION" else ast.ParameterNode(str(first)[1:])

    # ---- expressions

    def call(self, children: list[Any]) -> ast.CallNode:
        return ast.CallNode(children[0], given(children[1:]))

    def add(self, children: list[Any]) -> ast.OperationNode:
        return ast.OperationNode("+", *children)

    def sub(self, children: list[Any]) -> ast.OperationNode:
        return ast.OperationNode("-", *children)

    def mul(self, children: list[Any]) -> ast.OperationNode:
        return ast.OperationNode("*", *children)

    def div(self, children: list[Any]) -> ast.OperationNode:
        return ast.OperationNode("/", *children)

    def neg(self, children: list[Any]) -> ast.NegativeNode:
        return ast.NegativeNode(children[0])

    def aggregate(self, children: list[Any]) -> ast.AggregateNode:
        return ast.AggregateNode(str(children[0])[1:].lower(), given(children[1:]))

    def variable(self, children: list[Any]) -> ast.VariableNode:
        return ast.VariableNode(str(children[0])[1:])

    def anonymous(self, children: list[Any]) -> ast.AnonymousNode:
        return ast.AnonymousNode()

    def parameter_ref(self, children: list[Any]) -> ast.ParameterNode:
        return ast.ParameterNode(str(children[0])[1:])

    def duration(self, children: list[Any]) -> ast.DurationNode:
        return ast.DurationNode(str(children[0]))

    def symbol(self, children: list[Any]) -> ast.Symbol:
        return symbol_of(children[0])

    def number(self, children: list[Any]) -> ast.NumberNode:
        return ast.NumberNode(str(children[0]), KINDS[children[0].type])

    def text(self, children: list[Any]) -> ast.Expression:
        token = children[0]
        if token.type == "BOOLEAN":
            return ast.BooleanNode(token == "true")
        if token.type == "FSTRING":
            literal = parse_literals(SourceText("<format string>", f"?x = {token}"))[0]
            assert isinstance(literal, ast.ComparisonNode)
            return literal.right
        suffix = children[1] if len(children) > 1 else None
        if suffix is None:
            return ast.TextNode(unquoted(token))
        if suffix.type == "LANGTAG":
            return ast.TextNode(unquoted(token), str(suffix)[1:])
        datatype = symbol_of(suffix)
        assert not isinstance(datatype, ast.NameNode)
        return ast.TextNode(unquoted(token), None, datatype)


def given(children: list[Any]) -> tuple[Any, ...]:
    """The children without the places that lark keeps for what is missing."""
    return tuple(child for child in children if child is not None)
