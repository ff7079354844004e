"""The printer: what it prints reads back as the same tree, and printing again changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.syntax import oracle, trees
from tidelog.errors import SourceText
from tidelog.syntax import ast
from tidelog.syntax.ast import DocumentNode
from tidelog.syntax.parser import parse_literals, parse_text
from tidelog.syntax.printer import WIDTH, print_document, print_node


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees.DOCUMENTS)
def test_printed_trees_read_back(document: DocumentNode) -> None:
    text = print_document(document)
    assert parse_text(text) == document
    assert oracle.read(text) == document
    assert print_document(parse_text(text)) == text


def formatted(text: str) -> str:
    """The text in the formatter's layout, which a second pass leaves as it is."""
    once = print_document(parse_text(text))
    assert print_document(parse_text(once)) == once
    return once


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((?x))", "?x"),
        ("(?x+?y)+?z", "?x + ?y + ?z"),
        ("?x+(?y+?z)", "?x + (?y + ?z)"),
        ("?x-(?y-?z)", "?x - (?y - ?z)"),
        ("(?x*?y)+?z", "?x * ?y + ?z"),
        ("?x*(?y+?z)", "?x * (?y + ?z)"),
        ("?x/(?y*?z)", "?x / (?y * ?z)"),
        ("-(?x)", "-?x"),
        ("-(?x*?y)", "-(?x * ?y)"),
        ("- 1", "-(1)"),
        ("-(-1)", "--1"),
        ("- 5m", "-(5m)"),
        ("-0xff", "-(0xff)"),
        ("f( 1,2 )", "f(1, 2)"),
        ("#COUNT(?x)", "#count(?x)"),
        ('"""a\n"b"""', r'"a\n\"b"'),
        (r'"\u0041\u0000é"', r'"A\u0000é"'),
        ('f"{?x+1}{{"', 'f"{?x + 1}{{"'),
        ('f"{CONCAT(?x, "a")}"', 'f"""{CONCAT(?x, "a")}"""'),
        (r'f"\"{"a"}\""', r'f"""\u0022{"a"}\u0022"""'),
    ],
)
def test_expressions(text: str, printed: str) -> None:
    (literal,) = parse_literals(SourceText("<text>", f"?r = {text}"))
    assert isinstance(literal, ast.ComparisonNode)
    assert print_node(literal.right) == printed
    assert parse_literals(SourceText("<text>", f"?r = {printed}")) == (literal,)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("p(?x),q( ):-r(?x)@[0,1),~s(?x),?x>1.", "p(?x), q() :- r(?x)@[0, 1), ~s(?x), ?x > 1 ."),
        ("-p(?x)=1.", "-p(?x) = 1 ."),
        ("-\np(?x).", "- p(?x) ."),
        ("?x=_:-p(?x).", "?x = _ :- p(?x) ."),
        ("?x=true:-p(?x).", "?x = true :- p(?x) ."),
        ("?-p(?x)since(-inf,1/3]q(?x).", "?- p(?x) since(-inf, 1/3] q(?x) ."),
        ("#[a()]#[b(1)]p().", "#[a()]\n#[b(1)]\np() ."),
        ("@prefix ex:<a>.", "@prefix ex: <a> ."),
        ("@prefix :<a>.", "@prefix : <a> ."),
        ("@declare p(a:int,_:int).", "@declare p(a: int, _: int) ."),
        ("@parameter $x=1.", "@parameter $x = 1 ."),
        ("@parameter $x.", "@parameter $x ."),
        ("@import p:-csv{}.", "@import p :- csv{} ."),
        ("@export p:-csv{a=(b,),c=(d,e,)}.", "@export p :- csv{ a = (b,), c = (d, e) } ."),
        ("@output p,ex:q.", "@output p, ex:q ."),
        ('@include """a""".', '@include "a" .'),
        ("@commit.", "@commit ."),
        ("?-p(?x)at 3,q(?x)during[0,1),r(?x)ever.", "?- p(?x)@3, q(?x) during [0, 1), r(?x) ever ."),
        ("@advance 1/3.", "@advance 1/3 ."),
        ('@advance"2024-05-01" .', '@advance "2024-05-01" .'),
    ],
)
def test_statements(text: str, printed: str) -> None:
    assert formatted(text) == f"{printed}\n"


def test_long_rules_have_a_line_for_each_literal() -> None:
    literal = f"q(?{'x' * 40})"
    assert formatted(f"p(a) :- {literal}, {literal}, {literal} .") == (
        f"p(a) :-\n    {literal},\n    {literal},\n    {literal} .\n"
    )
    line = f"?- p({'a' * (WIDTH - 8)}) ."
    assert formatted(line) == f"{line}\n"
    assert formatted(line.replace("aa", "aaa", 1)).count("\n") == 2


def test_long_directives_have_a_line_for_each_option() -> None:
    path = "x" * WIDTH
    assert formatted(f'@import p :- csv{{ resource = "{path}", header = true }} .') == (
        f'@import p :- csv{{\n    resource = "{path}",\n    header = true\n}} .\n'
    )


def test_comments_stay_where_they_are() -> None:
    text = """\
% the first

/* two
   lines */
p(a) . % a remark

% about q
q(?x) :- % behind the arrow
    % before r
    r(?x), % behind r
    /* before
    s */
    s(?x) . /* remark */

% the last
"""
    assert formatted(text) == text


def test_other_comments_move_to_the_next_line_that_can_hold_them() -> None:
    text = """


p( % inside
  a
). /* one */ % two
q(?x) :- r( /* in r */ ?x ) % behind r
  , s(?x) % behind s
  .


@output % which
  p .

"""
    assert (
        formatted(text)
        == """\
% inside
p(a) . /* one */
% two
q(?x) :-
    /* in r */
    r(?x), % behind r
    s(?x) . % behind s

% which
@output p .
"""
    )


def test_the_examples_are_in_the_layout_already() -> None:
    text = (Path(__file__).parent / "examples.rls").read_text(encoding="utf-8")
    assert formatted(text) == text


def test_a_node_without_a_text_is_a_mistake() -> None:
    with pytest.raises(TypeError):
        print_node(ast.SyntaxNode())
