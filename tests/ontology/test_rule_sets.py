"""The rule sets as wholes: what the complete ones add, and files of RDF out of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ontology.turtle import Triple, closure, rule_set, triples
from tidelog.__main__ import main
from tidelog.logic.scopes import bundled_rules

OWL = rule_set("owl2rl.rls")
COMPLETE = rule_set("owl2rl-complete.rls")
RDFS = rule_set("rdfs.rls")
COMPLETE_RDFS = rule_set("rdfs-complete.rls")
SAME_AS = "<http://www.w3.org/2002/07/owl#sameAs>"

CLASSES = ("ex:A", "ex:B", "ex:C")
THINGS = ("ex:x", "ex:y", "ex:z")
AXIOMS = (
    "{a} rdfs:subClassOf {b} .",
    "{a} owl:equivalentClass {b} .",
    "{a} owl:disjointWith {b} .",
    "{a} owl:unionOf ( {b} {c} ) .",
    "{a} owl:intersectionOf ( {b} {c} ) .",
    "{a} owl:someValuesFrom {b} ; owl:onProperty ex:p .",
    "{a} owl:someValuesFrom xsd:byte ; owl:onProperty ex:d .",
    "{a} owl:allValuesFrom {b} ; owl:onProperty ex:p .",
    "{a} owl:hasValue 1 ; owl:onProperty ex:d .",
    "{a} owl:maxCardinality 1 ; owl:onProperty ex:p .",
    "ex:p a owl:FunctionalProperty .",
    "ex:d a owl:FunctionalProperty .",
    "ex:p rdfs:subPropertyOf ex:q . ex:q a owl:TransitiveProperty .",
    "ex:d rdfs:range xsd:integer .",
    "{a} owl:hasKey ( ex:d ) .",
)
FACTS = (
    "{x} a {a} .",
    "{x} ex:p {y} .",
    "{x} ex:d 1 .",
    "{x} ex:d 2 .",
    "{x} ex:d 'one' .",
    "{x} owl:differentFrom {y} .",
)


@st.composite
def ontologies(draw: st.DrawFn) -> str:
    """A few axioms and facts, as Turtle."""
    lines = []
    for templates, most in ((AXIOMS, 5), (FACTS, 6)):
        for template in draw(st.lists(st.sampled_from(templates), max_size=most)):
            names = {place: draw(st.sampled_from(CLASSES)) for place in "abc"}
            names |= {place: draw(st.sampled_from(THINGS)) for place in "xy"}
            lines.append(template.format(**names))
    return " ".join(lines)


@given(ontologies())
@settings(max_examples=max(1, settings().max_examples // 4))
def test_complete_rows_add_what_is_said_of_every_term(text: str) -> None:
    found, is_consistent = closure(OWL, text)
    complete, is_completely_consistent = closure(COMPLETE, text)
    assert is_consistent == is_completely_consistent
    assert found <= complete
    if is_consistent:
        assert set(filter(_says_something, found)) == set(filter(_says_something, complete))


def _says_something(triple: Triple) -> bool:
    """Whether a triple says more than that a thing is itself, and says it of no literal."""
    subject, predicate, object_ = triple
    return subject.startswith("<") and (predicate != SAME_AS or subject != object_)


def test_complete_owl_says_of_each_term_that_it_is_itself_and_of_literals_what_they_are() -> None:
    found, _ = closure(COMPLETE, "ex:x ex:d 7 . ex:y ex:d 8 .")
    assert triples("ex:d owl:sameAs ex:d . ex:x owl:sameAs ex:x .") <= found
    assert triples("7 rdf:type xsd:byte") <= found
    assert triples("7 owl:differentFrom 8") <= found


def test_complete_rdfs_makes_resources_and_properties_of_everything() -> None:
    text = "ex:x ex:p 'one' ; rdf:_1 ex:y ."
    found, _ = closure(COMPLETE_RDFS, text)
    added = found - closure(RDFS, text)[0]
    assert triples("ex:x a rdfs:Resource . ex:p a rdf:Property . ex:y a rdfs:Resource .") <= added
    assert triples("rdf:_1 a rdfs:ContainerMembershipProperty ; rdfs:subPropertyOf rdfs:member .") <= added
    assert triples("ex:x rdfs:member ex:y .") <= added
    assert triples('"one" rdf:type xsd:string') <= added
    assert triples("rdfs:Datatype rdfs:subClassOf rdfs:Class .") <= added


def test_rule_sets_have_a_name_on_every_rule_that_derives_triples() -> None:
    for program in (OWL, COMPLETE, RDFS, COMPLETE_RDFS):
        assert [
            rule for rule in program.rules if rule.head.predicate in ("triple", "bottom") and not rule.name
        ] == []


def test_files_of_rdf_hold_no_triples_about_literals(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "age.rls"
    program.write_text(
        '@include "owl2rl.rls" . [<age>, rdfs:range, xsd:integer] . [<ada>, <age>, 36] .', encoding="utf-8"
    )
    assert main(["run", str(program), "--output", str(tmp_path / "out"), "--format", "nt"]) == 0
    assert "skipped 1 triple about literals, which RDF cannot express" in capfd.readouterr().err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["triple.nt"]
    lines = (tmp_path / "out" / "triple.nt").read_text(encoding="utf-8").splitlines()
    assert '<ada> <age> "36"^^<http://www.w3.org/2001/XMLSchema#integer> .' in lines
    assert [line for line in lines if line.startswith('"')] == []


def test_rule_sets_come_with_the_package() -> None:
    names = {path.name for path in bundled_rules().glob("*.rls")}
    assert names >= {"rdfs.rls", "rdfs-complete.rls", "owl2rl.rls", "owl2rl-complete.rls"}
