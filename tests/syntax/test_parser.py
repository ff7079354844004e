"""The parser: which text gives which tree, where nodes come from, and how faults are collected."""

from __future__ import annotations

import sys

import pytest

from tidelog.errors import ProgramError, SourceText, Span
from tidelog.syntax import ast
from tidelog.syntax.ast import ClauseNode, ComparisonNode, NumberKind, OperationNode
from tidelog.syntax.clause_parser import DEEPEST
from tidelog.syntax.parser import parse, parse_literals, parse_text, read_fact
from tidelog.syntax.printer import print_node


def clause(text: str) -> ClauseNode:
    """The only clause of a text."""
    (statement,) = parse_text(text).statements
    assert isinstance(statement, ClauseNode)
    return statement


def expression(text: str) -> ast.Expression:
    """The expression that a text is."""
    (literal,) = parse_literals(SourceText("<text>", f"?r = {text}"))
    assert isinstance(literal, ComparisonNode)
    return literal.right


def codes(text: str) -> list[str]:
    """The codes of all faults of a text."""
    with pytest.raises(ProgramError) as raised:
        parse_text(text)
    return [fault.code for fault in raised.value.diagnostics]


X, Y, Z = ast.VariableNode("x"), ast.VariableNode("y"), ast.VariableNode("z")
ONE, TWO = (ast.NumberNode(lexical, NumberKind.INTEGER) for lexical in "12")


# ---- expressions


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("?x", X),
        ("_", ast.AnonymousNode()),
        ("!x", ast.ExistentialNode("x")),
        ("$x", ast.ParameterNode("x")),
        ("alice", ast.NameNode("alice")),
        ("X", ast.NameNode("X")),
        ("inf", ast.NameNode("inf")),
        ("since", ast.NameNode("since")),
        ("ex:a", ast.PrefixedNameNode("ex", "a")),
        (":a", ast.PrefixedNameNode("", "a")),
        ("<a#b>", ast.IriNode("a#b")),
        ("true", ast.BooleanNode(True)),
        ("1", ONE),
        ("-1.5", ast.NumberNode("-1.5", NumberKind.DECIMAL)),
        ("1e3", ast.NumberNode("1e3", NumberKind.DOUBLE)),
        ("0xff", ast.NumberNode("0xff", NumberKind.BASED)),
        ("5m", ast.DurationNode("5m")),
        (r'"a\t\"\u00e9"', ast.TextNode('a\t"é')),
        ('"""a "b"\n"""', ast.TextNode('a "b"\n')),
        ('""', ast.TextNode("")),
        ('"a"@en-GB', ast.TextNode("a", "en-GB")),
        ('"2"^^xsd:int', ast.TextNode("2", None, ast.PrefixedNameNode("xsd", "int"))),
        ('"2"^^<int>', ast.TextNode("2", None, ast.IriNode("int"))),
        ("f()", ast.CallNode(ast.NameNode("f"), ())),
        ("ex:f(1, ?x)", ast.CallNode(ast.PrefixedNameNode("ex", "f"), (ONE, X))),
        ("true(1)", ast.CallNode(ast.NameNode("true"), (ONE,))),
        ("#COUNT(?x)", ast.AggregateNode("count", (X,))),
        ("-?x", ast.NegativeNode(X)),
        ("- 1", ast.NegativeNode(ONE)),
        ("--1", ast.NegativeNode(ast.NumberNode("-1", NumberKind.INTEGER))),
        ("?x - 1", OperationNode("-", X, ONE)),
        ("?x-1", OperationNode("-", X, ONE)),
        ("?x + ?y + ?z", OperationNode("+", OperationNode("+", X, Y), Z)),
        ("?x + ?y * ?z", OperationNode("+", X, OperationNode("*", Y, Z))),
        ("(?x + ?y) * ?z", OperationNode("*", OperationNode("+", X, Y), Z)),
        ("?x / ?y / ?z", OperationNode("/", OperationNode("/", X, Y), Z)),
        ("-?x * ?y", OperationNode("*", ast.NegativeNode(X), Y)),
        ("((?x))", X),
    ],
)
def test_expressions(text: str, tree: ast.Expression) -> None:
    assert expression(text) == tree


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('f""', ()),
        ('f"a"', ("a",)),
        ('f"{?x}"', (X,)),
        ('f"a {?x} b"', ("a ", X, " b")),
        ('f"{?x}{?y}"', (X, Y)),
        ('f"{{{?x}}}"', ("{", X, "}")),
        ('f"{{}}"', ("{}",)),
        (r'f"\n{ ?x }"', ("\n", X)),
        ('f"{CONCAT("}", ?x)}"', (ast.CallNode(ast.NameNode("CONCAT"), (ast.TextNode("}"), X)),)),
        ('f"""{"a"} "b" """', (ast.TextNode("a"), ' "b" ')),
        ('f"""{f"{?x}"}"""', (ast.FormatStringNode((X,)),)),
    ],
)
def test_format_strings(text: str, parts: tuple[str | ast.Expression, ...]) -> None:
    assert expression(text) == ast.FormatStringNode(parts)


# ---- literals and heads

CALL = ast.CallNode(ast.NameNode("p"), (X,))
P, Q = ast.AtomNode(CALL), ast.AtomNode(ast.CallNode(ast.NameNode("q"), (X,)))
INTERVAL = ast.IntervalNode(True, ast.NumberNode("0", NumberKind.INTEGER), ast.DurationNode("5m"), False)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("p(?x)", P),
        ("~p(?x)", ast.NegationNode(P)),
        ("[?x, ?y, ?z]", ast.AtomNode(ast.TripleNode(X, Y, Z))),
        ("p(?x)@?y", ast.AtomNode(CALL, Y)),
        ("p(?x)@1", ast.AtomNode(CALL, ONE)),
        ("p(?x)@[0, 5m)", ast.AtomNode(CALL, INTERVAL)),
        ("boxminus[0, 5m) p(?x)", ast.UnaryMetricNode("boxminus", INTERVAL, P)),
        (
            "diamondplus[0, 5m) boxplus [0, 5m) p(?x)",
            ast.UnaryMetricNode("diamondplus", INTERVAL, ast.UnaryMetricNode("boxplus", INTERVAL, P)),
        ),
        ("p(?x) since[0, 5m) q(?x)", ast.BinaryMetricNode("since", P, INTERVAL, Q)),
        (
            "~ boxminus[0, 5m) p(?x) until[0, 5m) q(?x)",
            ast.NegationNode(
                ast.BinaryMetricNode("until", ast.UnaryMetricNode("boxminus", INTERVAL, P), INTERVAL, Q)
            ),
        ),
        ("?x = ?y", ComparisonNode("=", X, Y)),
        ("?x<=?y", ComparisonNode("<=", X, Y)),
        ("p(?x) > 1", ComparisonNode(">", CALL, ONE)),
        ("(p(?x)) != 1", ComparisonNode("!=", CALL, ONE)),
        ("since = until", ComparisonNode("=", ast.NameNode("since"), ast.NameNode("until"))),
    ],
)
def test_literals(text: str, tree: ast.Literal) -> None:
    assert parse_literals(SourceText("<text>", text)) == (tree,)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("1/3", ast.FractionNode(ONE, ast.NumberNode("3", NumberKind.INTEGER))),
        ("inf", ast.InfinityNode("inf")),
        ("-inf", ast.InfinityNode("-inf")),
        ("+inf", ast.InfinityNode("+inf")),
        ("-1.5h", ast.DurationNode("-1.5h")),
        ("$p", ast.ParameterNode("p")),
        ('"2026-01-01"^^xsd:date', ast.TextNode("2026-01-01", None, ast.PrefixedNameNode("xsd", "date"))),
    ],
)
def test_bounds(text: str, bound: ast.Bound) -> None:
    head = clause(f"p(a)@({text}, {text}] .").heads[0]
    assert isinstance(head, ast.AtomNode)
    assert head.at == ast.IntervalNode(False, bound, bound, True)


def test_clauses() -> None:
    assert clause("p(?x) .") == ClauseNode((P,))
    assert clause("p(?x), q(?x) :- q(?x), ?x > 1 .") == ClauseNode((P, Q), (Q, ComparisonNode(">", X, ONE)))
    assert clause("- p(?x) .") == ClauseNode((P,), (), "-")
    assert clause("+ p(?x) :- q(?x) .") == ClauseNode((P,), (Q,), "+")
    assert clause("-?x = 1 .") == ClauseNode((ast.HeadEqualityNode(ast.NegativeNode(X), ONE),))
    assert clause("- 1 = ?x .") == ClauseNode((ast.HeadEqualityNode(ONE, X),), (), "-")
    assert clause("boxplus[0,5m) p(?x) :- q(?x) .") == ClauseNode(
        (ast.UnaryMetricNode("boxplus", INTERVAL, P),), (Q,)
    )
    attribute = ast.AttributeNode("name", (ast.TextNode("a"),))
    assert clause('#[name("a")] + p(?x) .') == ClauseNode((P,), (), "+", (attribute,))


@pytest.mark.parametrize("text", ["p(?x)", "p(?x) .", "?- p(?x)", "?- p(?x) .", "  ?-p(?x).  % why\n"])
def test_queries_may_leave_out_their_marks(text: str) -> None:
    assert parse_literals(SourceText("<query>", text)) == (P,)


@pytest.mark.parametrize("text", ["", "p(?x) . q(?x) .", "p(?x) :- q(?x)", "?-", "p(?x", "p(é)"])
def test_what_is_no_query(text: str) -> None:
    with pytest.raises(ProgramError):
        parse_literals(SourceText("<query>", text))


# ---- directives


@pytest.mark.parametrize(
    "text",
    [
        "a: int, _: string",
        "a:int,_:string",
        "a :int, _ :string",
        "a : int , _ : string",
        "a/**/:/**/int, _/**/:/**/string",
    ],
)
def test_columns_however_spaced(text: str) -> None:
    columns = (ast.ColumnNode("a", "int"), ast.ColumnNode(None, "string"))
    assert parse_text(f"@declare p({text}) .").statements == (
        ast.DeclareDirectiveNode(ast.NameNode("p"), columns),
    )


def test_special_words_are_names_where_only_names_can_stand() -> None:
    assert parse_text("@output true, since .").statements == (
        ast.OutputDirectiveNode((ast.NameNode("true"), ast.NameNode("since"))),
    )
    options = (ast.OptionNode("true", ast.NamesNode(("a", "true"))), ast.OptionNode("inf", ast.NameNode("b")))
    assert parse_text("@import p :- csv{true=(a, true), inf=(b)} .").statements == (
        ast.ImportDirectiveNode(ast.NameNode("p"), ast.FormatNode("csv", options)),
    )


@pytest.mark.parametrize(
    ("text", "prefix"), [("ex: <a>", "ex"), (": <a>", ""), ("ex:<a>", "ex"), (":<a>", "")]
)
def test_prefixes(text: str, prefix: str) -> None:
    assert parse_text(f"@prefix {text} .").statements == (ast.PrefixDirectiveNode(prefix, ast.IriNode("a")),)


# ---- places


def test_nodes_know_where_they_come_from() -> None:
    text = '% c\n  #[name("n")] + boxplus[0,1] p(?x , f"a{ -1 }") :- ~ q(?x)@[0,1/3), ?x+1 > 2 .  '
    source = SourceText("<text>", text)
    (statement,) = parse(source).statements
    assert isinstance(statement, ClauseNode)
    assert statement.span == Span(source, 6, len(text) - 2)
    assert written(statement.attributes[0]) == '#[name("n")]'
    head = statement.heads[0]
    assert isinstance(head, ast.UnaryMetricNode) and isinstance(head.operand, ast.AtomNode)
    assert written(head) == 'boxplus[0,1] p(?x , f"a{ -1 }")'
    assert isinstance(head.operand.call, ast.CallNode)
    template = head.operand.call.arguments[1]
    assert isinstance(template, ast.FormatStringNode)
    assert written(template) == 'f"a{ -1 }"'
    assert isinstance(template.parts[1], ast.NumberNode)
    assert written(template.parts[1]) == "-1"
    negation, comparison = statement.body
    assert isinstance(negation, ast.NegationNode) and isinstance(negation.operand, ast.AtomNode)
    assert written(negation) == "~ q(?x)@[0,1/3)"
    assert isinstance(negation.operand.at, ast.IntervalNode)
    assert written(negation.operand.at.right) == "1/3"
    assert isinstance(comparison, ComparisonNode)
    assert written(comparison.left) == "?x+1"


def written(node: ast.SyntaxNode) -> str:
    assert node.span is not None
    return node.span.text


@pytest.mark.parametrize(
    "text",
    [
        "edge(1, -2, 3.5) .\n",
        '\n\n\t+ edge ( a , "b, c)" , true ,ex:a,<a,b> ) .\r\n',
        'p("a") .\nq(a).\n- r(a) .\n\n\ns(a) .\n',
        "boxplus(a) .\n",
        "p(5m) .\np(a-b) .\np(_) .\np(a)@1 .\np(f(a)) .\n",
    ],
)
def test_plain_facts_read_the_same_on_both_ways(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome() -> list[tuple[object, ...]] | str:
        try:
            statements = parse(source).statements
        except ProgramError as error:
            return str(error)
        return [(node, node.span, node.comments, spans(node)) for node in statements]

    source = SourceText("<text>", text)
    short = outcome()
    assert text.startswith("boxplus") or read_fact(source, 0) is not None or "5m" in text or "edge (" in text
    monkeypatch.setattr("tidelog.syntax.parser.read_fact", lambda source, position: None)
    assert outcome() == short


def spans(node: object) -> list[Span | None]:
    """The spans of a node and all below it."""
    if isinstance(node, tuple):
        return [span for item in node for span in spans(item)]
    if not isinstance(node, ast.SyntaxNode):
        return []
    fields = type(node).__dataclass_fields__
    return [node.span, *(span for name in fields for span in spans(getattr(node, name)))]


# ---- faults


def test_all_faults_of_a_text_are_reported_in_order() -> None:
    text = 'p(a b) .\nq(c) .\nr(") .\n@prefx x: <y> .\ns(a)\nt(b) :- .\nu(é) .\n'
    assert codes(text) == ["E109", "E102", "E113", "E108", "E107", "E101"]


def test_a_missing_full_stop_hides_no_other_fault() -> None:
    assert codes("p(a)\nq(b b) .\nr(c)\n@base x .\n") == ["E108", "E109", "E108", "E107"]


@pytest.mark.parametrize(
    "text",
    [
        f"p({'(' * 5000}1{')' * 5000}) .",
        f"p({'f(' * 5000}1{')' * 5000}) .",
        f"p({'-' * 5000} 1) .",
        f"p({'1 + ' * 5000}1) .",
        f"p({'?x * ' * 5000}1) .",
        f"p(a) :- {'boxminus[0, 1] ' * 5000}p(a) .",
        f"{'boxminus[0, 1] ' * 5000}p(a) .",
    ],
)
def test_deep_nesting_is_a_fault(text: str) -> None:
    assert codes(text) == ["E118"]


@pytest.mark.parametrize(
    ("opening", "closing", "levels"), [("f(", ")", 1), ("-", "", 1), ("1 + ", "", 1), ("2 * (1 + ", ")", 2)]
)
def test_nesting_up_to_the_limit_is_fine(opening: str, closing: str, levels: int) -> None:
    depth = DEEPEST // levels - 1
    text = opening * depth + "?x" + closing * depth
    assert expression(print_node(expression(text))) == expression(text)


def test_a_stack_that_is_nearly_used_up_is_a_fault() -> None:
    def deep(frames: int) -> list[str]:
        return deep(frames - 1) if frames else codes(f"p({'f(' * 90}1{')' * 90}) .\nq(a b) .")

    assert deep(sys.getrecursionlimit() - 300) == ["E118", "E109"]


def test_texts_without_full_stops_are_not_read_over_and_over() -> None:
    assert set(codes("p(a)\n" * 5000)) == {"E108"}
