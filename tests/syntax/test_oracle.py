"""The parser against the grammar: both read the same texts, and read them as the same trees."""

from __future__ import annotations

import random
import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra.lark import from_lark
from lark import Lark

from tests.syntax import oracle, trees
from tidelog.errors import ProgramError
from tidelog.syntax.ast import Document
from tidelog.syntax.parser import parse_text
from tidelog.syntax.printer import print_document

EXAMPLES = (Path(__file__).parent / "examples.rls").read_text(encoding="utf-8")


def test_the_examples_read_the_same() -> None:
    assert parse_text(EXAMPLES) == oracle.read(EXAMPLES)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees.DOCUMENTS)
def test_printed_trees_read_the_same(document: Document) -> None:
    assert oracle.read(print_document(document)) == document


# ---- texts drawn from the grammar

# Where the parser is stricter, the grammar that texts are drawn from is made so too.
STRICTER = (
    (
        '"=" expr             -> head_equality\n',
        '"=" expr             -> head_equality\n?boxed: BOX interval boxed | (call | triple) [at]\n',
    ),
    ("BOX interval head ", "BOX interval boxed "),
    ("INF | text | PARAMETER", 'INF | STRING [LANGTAG | "^^" (PNAME | IRI)] | PARAMETER'),
)
WORDS = trees.WORDS.map(lambda word: f"{word} ")
EXPLICIT = {
    "NAME": WORDS,
    "BOX": st.sampled_from(["boxminus", "boxplus"]),
    "DIAMOND": st.sampled_from(["diamondminus", "diamondplus"]),
    "BINARY": st.sampled_from([" since", "\nuntil"]),
    "SIGN": st.sampled_from(["+ ", "- ", "-\n"]),
    "ANY": st.just("_ "),
    "BOOLEAN": st.sampled_from(["true ", "false "]),
    "INF": st.sampled_from(["inf ", "-inf ", "+inf "]),
    "DURATION": st.sampled_from(["5m ", "-1.5h ", "10ms "]),
    "INTEGER": st.sampled_from(["0 ", "12 ", "-3 ", "+4 "]),
    "DECIMAL": st.sampled_from(["1.5 ", "-0.25 "]),
    "DOUBLE": st.sampled_from(["1e5 ", "-1.5E-3 "]),
    "BASED": st.sampled_from(["0xfF ", "0b10 ", "0o17 "]),
    "PNAME": st.sampled_from(["ex:a ", ":b ", "a-b:c-d "]),
    "PNAME_NS": st.sampled_from(["ex: ", ": "]),
    "VARIABLE": st.sampled_from(["?x", "?Y1 "]),
    "PARAMETER": st.sampled_from(["$p", "$Q_ "]),
    "IRI": st.sampled_from(["<>", "<a#b>"]),
    "STRING": st.sampled_from(['""', '"a"', r'"\"\n"', '"""a"b"""']),
    "FSTRING": st.sampled_from(['f""', 'f"a {?x}"', 'f"""{"a"}"""']),
    "LANGTAG": st.sampled_from(["@en ", "@de-AT "]),
    "COMMENT": st.sampled_from(["% c\n", "/* c */", "/* 'c'\n */"]),
    "AGGREGATE": st.sampled_from(["#count", "#Sum"]),
}


def stricter_grammar() -> Lark:
    text = oracle.GRAMMAR
    for loose, strict in STRICTER:
        assert loose in text
        text = text.replace(loose, strict)
    # Lark lets a keyword run into the name after it; the parser asks for a space.
    text = re.sub(r'"(@[a-z]+)"', r'/\1(?=[\\s<"])/', text)
    return Lark(text, start="program", parser="lalr")
