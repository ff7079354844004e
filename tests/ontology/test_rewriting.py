"""`owl:sameAs` by rewriting: the same triples as by the rows that replace, also when facts change."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.ontology.test_owl2rl import ontology_of
from tests.ontology.test_rule_sets import AXIOMS, CLASSES, FACTS, THINGS
from tests.ontology.turtle import HEAD, facts, triples
from tidelog.__main__ import main
from tidelog.errors import Inconsistent
from tidelog.ontology.ontology import BESIDE_LITERAL, REPLACED

MERGING = (
    "ex:p a owl:FunctionalProperty .",
    "ex:p a owl:InverseFunctionalProperty .",
    "ex:q a owl:FunctionalProperty .",
    "{a} owl:hasKey ( ex:p ex:q ) .",
    "{a} owl:maxQualifiedCardinality 1 ; owl:onProperty ex:p ; owl:onClass {b} .",
    "{a} owl:oneOf ( ex:x ex:y ) .",
    "ex:p a owl:SymmetricProperty .",
)
TEMPLATES = (*AXIOMS, *MERGING)
TREATMENTS = ("rewrite", "axiomatise")
DECLARED = "ex:d a owl:DatatypeProperty . ex:p a owl:ObjectProperty . "
SAME = (
    "{x} ex:d 1.0 .",
    "{x} owl:sameAs {y} .",
    "{x} ex:q {y} .",
    "ex:p owl:sameAs ex:q .",
    "{a} owl:sameAs {b} .",
    "{x} ex:p 1 .",
    "{x} ex:p 1.0 , 'one' .",
    "{x} owl:sameAs 1 .",
    "{x} owl:sameAs 1.0 .",
    "{x} owl:sameAs 'one'@en .",
    "{x} owl:differentFrom 1 .",
    "ex:q owl:sameAs 1 .",
)


@st.composite
def statements(draw: st.DrawFn, templates: tuple[str, ...], most: int) -> tuple[str, ...]:
    """Some lines of Turtle."""
    names = {place: st.sampled_from(CLASSES) for place in "abc"}
    names |= {place: st.sampled_from(THINGS) for place in "xy"}
    line = st.builds(str.format, st.sampled_from(templates), **names)
    return tuple(dict.fromkeys(draw(st.lists(line, max_size=most))))


def outcome(reasoner: tl.Reasoner, script: str) -> bool:
    """Whether a transaction can be carried out."""
    try:
        reasoner.apply(HEAD + script)
    except Inconsistent:
        return False
    return True


def begun(ontology: str, equality: str) -> tl.Reasoner:
    """A reasoner of an ontology, without the file that the text was in."""
    program = tl.parse(ontology_of(ontology, equality).text())
    reasoner = tl.Reasoner(program, equality=equality, threads=1)
    reasoner.materialise()
    return reasoner


def begun_if_consistent(ontology: str, equality: str) -> tl.Reasoner | None:
    """The same, if no axioms contradict each other."""
    try:
        return begun(ontology, equality)
    except Inconsistent:
        return None


def found(reasoner: tl.Reasoner) -> set[tuple[str, ...]]:
    return set(reasoner["triple"].to_texts("exact").rows())


@pytest.mark.slow
@given(st.data())
@settings(max_examples=max(1, settings().max_examples // 4))
def test_rewriting_gives_the_triples_of_the_rows_that_replace(data: st.DataObject) -> None:
    ontology = DECLARED + " ".join(data.draw(statements(TEMPLATES, 5)))
    reasoners = [reasoner for name in TREATMENTS if (reasoner := begun_if_consistent(ontology, name))]
    assert len(reasoners) in (0, len(TREATMENTS))
    if not reasoners:
        return
    there: set[str] = set()
    for _ in range(3):
        lines = facts(" ".join(data.draw(statements((*FACTS, *SAME), 6)))).splitlines()
        gone = data.draw(st.sets(st.sampled_from(sorted(there)))) if there else set()
        come = [line for line in dict.fromkeys(lines) if line not in there]
        script = "\n".join([*(f"- {line}" for line in sorted(gone)), *(f"+ {line}" for line in come)])
        rewritten, replaced = (outcome(reasoner, script) for reasoner in reasoners)
        assert rewritten == replaced
        assert found(reasoners[0]) == found(reasoners[1])
        there = (there - gone) | set(come) if rewritten else there


MOTHERS = """
ex:mother a owl:FunctionalProperty , owl:ObjectProperty .
ex:tall a owl:FunctionalProperty , owl:DatatypeProperty .
"""


@pytest.fixture(params=TREATMENTS)
def equality(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_is_the_same_is_interchangeable_until_it_is_not(equality: str) -> None:
    reasoner = begun(MOTHERS, equality)
    ada, known = facts("ex:ada ex:mother ex:anna ."), facts("ex:anna ex:knows ex:byron .")
    reasoner.apply(HEAD + f"+ {facts('ex:ada ex:mother ex:annabella .')}\n+ {ada}\n+ {known}")
    assert triples("ex:annabella ex:knows ex:byron ; owl:sameAs ex:anna , ex:annabella .") <= found(reasoner)
    reasoner.apply(HEAD + f"- {ada}")
    assert found(reasoner) == triples("ex:ada ex:mother ex:annabella . ex:anna ex:knows ex:byron .")


@pytest.mark.parametrize(
    "text",
    [
        "ex:ada ex:mother ex:a , ex:b . ex:a owl:differentFrom ex:b .",
        "ex:ada ex:mother ex:a , ex:b . [] a owl:AllDifferent ; owl:members ( ex:c ex:b ex:a ) .",
        "ex:ada ex:tall 1 , 2 .",
        "ex:a owl:sameAs ex:b ; ex:tall 1 . ex:b ex:tall 1.5 .",
        "ex:ada ex:mother 1 , 2 .",
        "ex:ada ex:mother ex:a , 1 . ex:a owl:sameAs 2 .",
        "ex:a owl:sameAs 'one' , 'one'@en .",
        "ex:a owl:sameAs 1 , ex:b . ex:b owl:sameAs 1e0 .",
        "ex:a owl:sameAs 1.0 ; owl:differentFrom 1 .",
    ],
)
def test_what_must_differ_is_inconsistent(equality: str, text: str) -> None:
    reasoner = begun(MOTHERS, equality)
    assert not outcome(reasoner, "\n".join(f"+ {line}" for line in facts(text).splitlines()))
    assert found(reasoner) == set()


@pytest.mark.parametrize("property_", ["ex:tall", "ex:mother", "owl:sameAs"])
def test_one_number_written_in_two_ways_is_one_value(equality: str, property_: str) -> None:
    reasoner = begun(MOTHERS, equality)
    numbers = ("1", "1.0", '"01"^^xsd:byte')
    assert outcome(reasoner, "\n".join(f"+ triple(ex:ada, {property_}, {each}) ." for each in numbers))


def test_a_thing_may_be_the_same_as_a_literal_until_it_is_not(equality: str) -> None:
    reasoner = begun(MOTHERS, equality)
    said = facts("ex:ada ex:mother ex:a , ex:b . ex:b ex:knows ex:c . ex:c ex:knows ex:a .")
    literal = "triple(ex:ada, ex:mother, 1) ."
    reasoner.apply(HEAD + "\n".join(f"+ {line}" for line in [*said.splitlines(), literal]))
    follows = ["ex:a owl:sameAs 1", "1 owl:sameAs ex:b", "1 ex:knows ex:c", "ex:c ex:knows 1"]
    assert set().union(*map(triples, follows)) <= found(reasoner)
    reasoner.apply(HEAD + f"- {literal}")
    assert not any("1" in row for row in found(reasoner))
    assert triples("ex:a owl:sameAs ex:b ; ex:knows ex:c .") <= found(reasoner)


def test_the_rows_replace_nothing_but_literals() -> None:
    rows = [rule for rule in ontology_of(MOTHERS, "rewrite").rules if rule.name in REPLACED - {"eq-trans"}]
    assert {rule.name for rule in rows} == {"eq-sym", "eq-rep-s", "eq-rep-p", "eq-rep-o"}
    assert {rule.positive[0].predicate for rule in rows} == {BESIDE_LITERAL}
    off = ontology_of(MOTHERS, "off")
    reasoner = tl.Reasoner(tl.parse(off.text()), threads=1)
    reasoner.add(HEAD + facts("ex:ada ex:mother ex:anna , ex:annabella . ex:anna ex:knows ex:byron ."))
    assert triples("ex:anna owl:sameAs ex:annabella .") <= found(reasoner)
    assert not triples("ex:annabella ex:knows ex:byron .") <= found(reasoner)


def test_a_program_may_say_that_same_things_are_equal() -> None:
    """With the tables as they are: their rows that replace have nothing left to do."""
    text = '@include "owl2rl.rls" . ?x = ?y :- [?x, owl:sameAs, ?y], ~ISLITERAL(?x), ~ISLITERAL(?y) .\n'
    data = facts(f"{MOTHERS} ex:ada ex:mother ex:anna , ex:annabella . ex:anna ex:knows ex:byron .")
    by_rows, by_classes = (
        tl.Reasoner(tl.parse(HEAD + rules + data), threads=1) for rules in ('@include "owl2rl.rls" .\n', text)
    )
    assert found(by_rows) == found(by_classes)


def test_a_treatment_that_there_is_not_is_told_of() -> None:
    with pytest.raises(tl.ProgramError, match="rewrite"):
        ontology_of(MOTHERS, "rewriting")


def test_the_command_line_writes_all_members(
    tmp_path: Path, equality: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ontology, data = tmp_path / "onto.ttl", tmp_path / "data.ttl"
    ontology.write_text(HEAD + MOTHERS, encoding="utf-8")
    data.write_text(HEAD + "ex:ada ex:mother ex:a , ex:b . ex:b ex:name 'B'@en .", encoding="utf-8")
    options = ["--equality", equality, "--output", str(tmp_path), "--format", "nt"]
    assert main(["run", "--ontology", str(ontology), str(data), *options]) == 0
    written = (tmp_path / "triple.nt").read_text(encoding="utf-8").splitlines()
    assert '<https://example.org/a> <https://example.org/name> "B"@en .' in written
    same = "<https://example.org/a> <http://www.w3.org/2002/07/owl#sameAs> <https://example.org/b> ."
    assert same in written
    data.write_text(HEAD + "ex:ada ex:tall 1 , 2 .", encoding="utf-8")
    assert main(["run", "--ontology", str(ontology), str(data), *options]) == 3
    assert "1" in capfd.readouterr().err
