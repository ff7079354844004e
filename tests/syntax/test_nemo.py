"""Nemo as an oracle: what it accepts of the common language we accept, and what it rejects we reject."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.errors import ProgramError
from tidelog.syntax.parser import parse_text

nemo: Any = pytest.importorskip("nmo_python")

ACCEPTED = [
    "colour(sky, blue) . colour(grass, green) . @output colour .",
    "%! a title\nlink(1, 2) . % one\nreach(?a, ?c) :- reach(?a, ?b), link(?b, ?c) .",
    "node(1) . node(2) . link(1, 2) . sink(?n) :- node(?n), ~link(?n, _) .",
    "@prefix town: <http://towns.example/> .\nvisited(town:ulm, <http://towns.example/bonn>) .",
    "@prefix town:<http://towns.example/> . visited(town:ulm) .",
    'label(1, "one") . label(2, "zwei"@de) . label(3, "3"^^<http://www.w3.org/2001/XMLSchema#int>) .',
    "size(1, 5) . area(?i, ?a) :- size(?i, ?s), ?a = (?s + 1) * ?s - 2 .",
    "size(1, 5) . less(?i, ?s-1) :- size(?i, ?s), ?s >= 3, ?s != 4 .",
    "sale(north, 3) . sale(south, 4) . total(#sum(?n, ?r)) :- sale(?r, ?n) .",
    "sale(north, 3) . shops(?r, #count(?n)) :- sale(?r, ?n) .",
    'word("tide") . loud(UCASE(?w)) :- word(?w), STRLEN(?w) > 3, CONTAINS(?w, "id") .',
    'word("tide") . said(f"the {?w} of {STRLEN(?w) + 1} {{braces}}") :- word(?w) .',
    'word("tide") . said(f"{CONCAT(?w, "!")}") :- word(?w) .',
    "@parameter $limit = 3 . big(?n) :- num(?n), ?n > $limit . num(5) .",
    "small(-3, 1.5, 2.5e3, true) .",
    '#[name("the first rule")]\nq(?x) :- p(?x) . p(a) .',
    "heard(a), seen(a) :- present(a) . present(a) .",
]
REJECTED = [
    "p(a)",
    "p(a b) .",
    "p(?x) :- .",
    "p(?x) <- q(?x) .",
    "p(?x) :- not q(?x) .",
    "p(a)) .",
    'p("a) .',
    "@prefix a <http://b/> .",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_nemo_reads_we_read(text: str) -> None:
    assert nemo.load_string(text) is not None
    assert parse_text(text).statements


@pytest.mark.parametrize("text", REJECTED)
def test_what_nemo_rejects_we_reject(text: str) -> None:
    with pytest.raises(Exception, match=r"."):
        nemo.load_string(text)
    with pytest.raises(ProgramError):
        parse_text(text)
