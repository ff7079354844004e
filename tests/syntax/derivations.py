"""Texts drawn from the grammar: its rules are walked at random, and terminals taken from lists.

Hypothesis can do so by itself (`hypothesis.extra.lark`), but takes a quarter of a second for each text.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from lark import Lark

from tests.syntax.oracle import GRAMMAR

# Where the parser is stricter than the grammar, the grammar that texts are drawn from is made so too.
STRICTER = (
    ("BOX interval head ", "BOX interval boxed "),
    ("body       : literal", "?boxed     : BOX interval boxed | (call | triple) [at]\nbody       : literal"),
    ("DURATION | text | PARAMETER", 'DURATION | STRING [LANGTAG | "^^" (PNAME | IRI)] | PARAMETER'),
)
TERMINALS = {
    "NAME": ["a ", "p", "bob-1", "X ", "_a", "inf_ ", "not "],
    "BOX": ["boxminus", "boxplus "],
    "DIAMOND": ["diamondminus", "diamondplus\n"],
    "BINARY": [" since", "\nuntil "],
    "SIGN": ["+ ", "- ", "-\n"],
    "COMPARISON": ["!=", "<", "<= ", ">", ">="],
    "ANY": ["_", "_ "],
    "BOOLEAN": ["true ", "false"],
    "INF": ["inf ", "-inf", "+inf"],
    "DURATION": ["5m", "-1.5h ", "10ms"],
    "INTEGER": ["0", "12 ", "-3", "+4 "],
    "DECIMAL": ["1.5", "-0.25 "],
    "DOUBLE": ["1e5", "-1.5E-3 ", "2.e0 "],
    "BASED": ["0xfF", "0b10 ", "0o17"],
    "PNAME": ["ex:a", ":b ", "a-b:c-d"],
    "PNAME_NS": ["ex: ", ":\n"],
    "VARIABLE": ["?x", "?Y1 "],
    "PARAMETER": ["$p", "$Q_ "],
    "IRI": ["<>", "<a#b> ", "<a,b>"],
    "STRING": ['""', '"a" ', r'"\"\n"', '"""a"b"""'],
    "FSTRING": ['f""', 'f"a {?x}"', 'f"""{"a"}"""'],
    "LANGTAG": ["@en", "@de-AT "],
    "AGGREGATE": ["#count", "#Sum "],
}
BETWEEN = ["", "", "", "", "", " ", "\n", "% c\n", "/* c */"]
DEEPEST = 10


@cache
def _rules() -> dict[str, list[list[Any]]]:
    text = GRAMMAR
    for loose, strict in STRICTER:
        assert loose in text
        text = text.replace(loose, strict)
    rules: dict[str, list[list[Any]]] = {}
    for rule in Lark(text, start="program", parser="lalr").rules:
        rules.setdefault(rule.origin.name, []).append(list(rule.expansion))
    return rules


@cache
def _depths() -> dict[str, int]:
    """How deep the shallowest derivation of each rule is."""
    depths: dict[str, int] = {}
    while len(depths) < len(_rules()):
        for name, expansions in _rules().items():
            known = [depth for expansion in expansions if (depth := _depth(expansion, depths)) is not None]
            if known and name not in depths:
                depths[name] = min(known) + 1
    return depths


def _depth(expansion: list[Any], depths: dict[str, int]) -> int | None:
    inner = [0 if symbol.is_term else depths.get(symbol.name) for symbol in expansion]
    return None if None in inner else max((depth for depth in inner if depth is not None), default=0)


@cache
def _literals() -> dict[str, str]:
    """The keywords and punctuation; a keyword takes a space along, which lark would let it do without."""
    terminals = Lark(GRAMMAR, start="program", parser="lalr").terminals
    values = {terminal.name: str(terminal.pattern.value) for terminal in terminals}
    return {name: f"{value} " if value[1:].isalpha() else value for name, value in values.items()}


def derive(random: Random, name: str = "statement", depth: int = 0) -> str:
    """A text that the rule derives."""
    expansions = _rules()[name]
    if depth >= DEEPEST:
        least = min(_depth(expansion, _depths()) or 0 for expansion in expansions)
        expansions = [expansion for expansion in expansions if _depth(expansion, _depths()) == least]
    written = ""
    for symbol in random.choice(expansions):
        if symbol.is_term:
            written += random.choice(TERMINALS.get(symbol.name) or [_literals()[symbol.name]])
            written += random.choice(BETWEEN)
        else:
            written += derive(random, symbol.name, depth + 1)
    return written
