"""The lexer: kinds of tokens, and those that depend on what stands before them."""

from __future__ import annotations

import pytest

from tidelog.errors import SourceText
from tidelog.syntax.lexer import END, Lexer


def tokens_of(text: str) -> list[str]:
    """The texts of all tokens."""
    lexer = Lexer(SourceText("<text>", text))
    texts: list[str] = []
    while True:
        tokens = lexer.read()
        assert not lexer.diagnostics
        pairs = zip(tokens.starts, tokens.ends, strict=True)
        texts += [text[start:end] for start, end in pairs if end > start]
        if tokens.kinds[-1] == END:
            return texts


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("?x -1", "?x - 1"),
        ("?x-1", "?x - 1"),
        ("?x - -1", "?x - -1"),
        ("?x = -1", "?x = -1"),
        ("f(?x)-1", "f ( ?x ) - 1"),
        ("(-1, +2, -5m, -1.5, +1e-3)", "( -1 , +2 , -5m , -1.5 , +1e-3 )"),
        ("n-1", "n-1"),
        ("_-x", "_ - x"),
        ("true-x", "true - x"),
        ("-0xff", "- 0xff"),
        ("2-0xff", "2 - 0xff"),
        ("+5m", "+5 m"),
    ],
)
def test_a_sign_belongs_to_a_number_where_a_value_may_begin(text: str, tokens: str) -> None:
    assert tokens_of(text) == tokens.split()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("?x<?y,?z>3", "?x < ?y , ?z > 3"),
        ("?x<=?y,?z>3", "?x <= ?y , ?z > 3"),
        ("p(<a>, <b>)", "p ( <a> , <b> )"),
        ('"2"^^<int>', '"2" ^^ <int>'),
        ("boxminus[0,1)<p>(?x)", "boxminus [ 0 , 1 ) <p> ( ?x )"),
        ("since[-inf,1/3)<p>(?x)", "since [ - inf , 1 / 3 ) <p> ( ?x )"),
        ("f(?x)<?y,?z>(1)", "f ( ?x ) < ?y , ?z > ( 1 )"),
        ("@base<a>", "@base <a>"),
        ("@import p:-csv{a=<b>}", "@import p :- csv { a = <b> }"),
    ],
)
def test_an_angle_begins_an_iri_where_a_value_may_begin(text: str, tokens: str) -> None:
    assert tokens_of(text) == tokens.split()


@pytest.mark.parametrize(
    "text",
    [
        "a a-b _a inf since boxminusx true",
        "ex:a :a ex:1 a-b:c-d true:x",
        "?x $p !x _ ?_ @en #[ #count #SUM ?- :- ^^",
        "1 12 1.5 1e5 1.e5 1.5E-3 0xfF 0b01 0o17 5m 1.5h 10ms 3w",
        r'"" "a" "\"" "\\" "é" """a"""',
        "~ ( 1 != 2 <= 3 >= 4 < 5 > 6 = 7 + * / ) [ ] { } ,",
    ],
)
def test_tokens_between_spaces(text: str) -> None:
    assert tokens_of(text) == text.split()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1.", ["1", "."]),
        ("1.5.", ["1.5", "."]),
        ("p(a).q(b).", ["p", "(", "a", ")", ".", "q", "(", "b", ")", "."]),
        ("5mm", ["5", "mm"]),
        ("5sec", ["5", "sec"]),
        ("12abc", ["12", "abc"]),
        ("a/*b*/c%d\ne", ["a", "c", "e"]),
        ('"""a "b" \n c"""', ['"""a "b" \n c"""']),
        ('f"a" f"{?x}"', ['f"a"', 'f"{?x}"']),
        ('f"{CONCAT(?x, "}")}"', ['f"{CONCAT(?x, "}")}"']),
        ('f"""{?x} "a" """', ['f"""{?x} "a" """']),
        ("ex: <a>", ["ex:", "<a>"]),
        (" \u2003a\u00a0b ", ["a", "b"]),
        ("", []),
    ],
)
def test_tokens_that_touch(text: str, tokens: list[str]) -> None:
    assert tokens_of(text) == tokens


def test_a_statement_ends_at_its_full_stop() -> None:
    lexer = Lexer(SourceText("<text>", "p(1.5) . % remark\n% comment\nq(a) ."))
    first, second, end = lexer.read(), lexer.read(), lexer.read()
    assert "".join(first.kinds) == "n(2)."
    assert first.remark == "% remark"
    assert [comment.index for comment in second.comments] == [0]
    assert "".join(second.kinds) == "n(n)."
    assert end.kinds == [END]
