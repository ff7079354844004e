"""The rule sets that come with tidelog: found by name, free of faults, and laid out by the formatter."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog as tl
from tidelog.errors import SourceText
from tidelog.logic.scopes import bundled_rules
from tidelog.syntax.parser import parse
from tidelog.syntax.printer import print_document

RULE_SETS = sorted(bundled_rules().glob("*.rls"))
OWN = "tag:tidelog:"
RDFS = """
    @include "rdfs.rls" .
    triple(tom, rdf:type, cat) .
    triple(cat, rdfs:subClassOf, animal) .
    triple(chases, rdfs:range, animal) .
    triple(tom, chases, jerry) .
    triple(tom, chases, "a string") .
"""


def test_there_are_bundled_rule_sets() -> None:
    assert "rdfs.rls" in {path.name for path in RULE_SETS}


@pytest.mark.parametrize("path", RULE_SETS, ids=lambda path: path.name)
def test_bundled_rules_are_sound(path: Path) -> None:
    program = tl.load(path)
    assert not program.warnings
    # Rows of the tables have names; what they need beside the triples is ours.
    assert all(rule.name for rule in program.rules if not rule.head.predicate.startswith(OWN))
    text = path.read_text(encoding="utf-8")
    assert print_document(parse(SourceText(path.name, text))) == text


def test_bundled_rules_are_found_by_name(tmp_path: Path) -> None:
    reasoner = tl.Reasoner(tl.parse(RDFS, folder=tmp_path))
    assert set(reasoner.query("triple(?x, rdf:type, animal)")) == {("tom",), ("jerry",)}


def test_a_file_beside_the_program_comes_first(tmp_path: Path) -> None:
    (tmp_path / "rdfs.rls").write_text("@prefix rdf: <x:> . @prefix rdfs: <y:> . q(a) .", encoding="utf-8")
    program = tl.parse(RDFS, folder=tmp_path)
    assert not program.rules
    assert "q" in program.predicates
