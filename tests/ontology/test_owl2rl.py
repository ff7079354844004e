"""Rules specialised to an ontology derive what the tables derive."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings

import tidelog as tl
from tests.ontology.rows import AXIOMATIC, FALSE, ROWS
from tests.ontology.test_rule_sets import OWL, ontologies
from tests.ontology.turtle import HEAD, Triple, closure, triples
from tidelog.ontology.ontology import Ontology, load_ontology
from tidelog.ontology.owl2rl import is_about_ontology
from tidelog.ontology.schema_closure import OWL as OWL_NAMESPACE
from tidelog.ontology.schema_closure import RDF, RDFS

TYPE = f"<{RDF}type>"
CASES = [name for name in ROWS if not name.startswith(("scm-", "dt-")) and name not in AXIOMATIC]


def ontology_of(text: str, equality: str = "axiomatise") -> Ontology:
    """The ontology of a text of Turtle."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ontology.ttl"
        path.write_text(HEAD + text, encoding="utf-8")
        return load_ontology(path, equality=equality)


def derived(ontology: Ontology, text: str) -> tuple[set[Triple], bool]:
    """What the specialised rules derive from a text, and whether all is consistent."""
    return closure(tl.parse(ontology.text()), text)


def about_things(found: set[Triple]) -> set[Triple]:
    """The triples about things, not about the ontology: of classes and properties that have names."""
    return {row for row in found if row[0].startswith("<h") and _is_about_things(*row[1:])}


def _is_about_things(predicate: str, object_: str) -> bool:
    vocabulary = (f"<{RDFS}", f"<{OWL_NAMESPACE}", f"<{RDF}", "<http://www.w3.org/2001/XMLSchema#", "<_:")
    if predicate == TYPE:
        return not object_.startswith(vocabulary)
    is_named = not predicate.startswith(vocabulary)
    return is_named or predicate in (f"<{OWL_NAMESPACE}sameAs>", f"<{OWL_NAMESPACE}differentFrom>")


def check_agreement(text: str) -> None:
    """Fail, if the specialised rules do not derive what the tables derive."""
    expected, is_consistent = closure(OWL, text)
    found, is_consistently_specialised = derived(ontology_of(text), text)
    assert is_consistently_specialised == is_consistent
    if is_consistent:
        assert about_things(found) == about_things(expected)


@pytest.mark.parametrize("name", CASES)
def test_specialised_rules_conclude_as_rows_do(name: str) -> None:
    row = ROWS[name]
    check_agreement(row.data)
    check_agreement(row.other)
    found, is_consistent = derived(ontology_of(row.data), row.data)
    assert not is_consistent if row.follows == FALSE else triples(row.follows) <= found


@given(ontologies())
@example("ex:A owl:someValuesFrom ex:B ; owl:onProperty ex:p . ex:C rdfs:subClassOf ex:A . ex:x a ex:C .")
@settings(max_examples=max(1, settings().max_examples // 2))
def test_specialised_rules_derive_what_the_tables_derive(text: str) -> None:
    check_agreement(text)


NESTED = """
ex:Chair owl:equivalentClass [ owl:intersectionOf ( ex:Person
    [ owl:onProperty ex:headOf ; owl:someValuesFrom [ owl:unionOf ( ex:Department ex:Institute ) ] ] ) ] .
[ owl:onProperty [ owl:inverseOf ex:hasParent ] ; owl:someValuesFrom owl:Thing ] rdfs:subClassOf ex:Parent .
ex:hasUncle owl:propertyChainAxiom ( ex:hasParent ex:hasBrother ) .
ex:Vegan rdfs:subClassOf [ owl:onProperty ex:eats ; owl:allValuesFrom [ owl:complementOf ex:Animal ] ] .
ex:age rdfs:range xsd:nonNegativeInteger .
"""


def test_nested_expressions_become_flat_rules() -> None:
    ontology = ontology_of(NESTED)
    assert not any("<_:" in line for line in ontology.text().splitlines())
    data = (
        "ex:ada a ex:Person ; ex:headOf ex:physics . ex:physics a ex:Institute . "
        "ex:bob ex:hasParent ex:ada . ex:ada ex:hasBrother ex:carl . "
    )
    found, is_consistent = derived(ontology, data)
    assert is_consistent
    assert triples("ex:ada a ex:Chair , ex:Parent . ex:bob ex:hasUncle ex:carl .") <= found
    assert not derived(ontology, data + "ex:bob a ex:Vegan ; ex:eats ex:tom . ex:tom a ex:Animal .")[1]
    assert not derived(ontology, "ex:bob ex:age -1 .")[1]
    assert derived(ontology, "ex:bob ex:age 1 .")[1]


def test_no_rule_reads_the_ontology() -> None:
    ontology = ontology_of(NESTED)
    rows = {rule.name for rule in ontology.rules for atom in rule.positive if is_about_ontology(atom)}
    assert rows <= {None, "eq-diff2", "eq-diff3"}


def test_rules_are_the_same_in_every_run() -> None:
    assert ontology_of(NESTED).text() == ontology_of(NESTED).text()


def test_an_ontology_is_a_program_with_its_triples() -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "zoo.ttl"
        path.write_text(HEAD + "ex:Cat rdfs:subClassOf ex:Animal . ex:tom a ex:Cat .", encoding="utf-8")
        reasoner = tl.Reasoner(load_ontology(path).program)
        reasoner.materialise()
        found = set(reasoner["triple"].to_texts("exact").rows())
    assert found == triples("ex:Cat rdfs:subClassOf ex:Animal . ex:tom a ex:Cat , ex:Animal .")


@pytest.mark.parametrize(
    ("axiom", "text", "reason"),
    [
        (
            "ex:A rdfs:subClassOf [ owl:unionOf ( ex:B ex:C ) ] .",
            "SubClassOf(example:A ObjectUnionOf(example:B example:C))",
            "ObjectUnionOf is not allowed in a superclass",
        ),
        (
            "ex:A owl:equivalentClass "
            "[ owl:intersectionOf ( ex:B [ owl:onProperty ex:p ; owl:minCardinality 2 ] ) ] .",
            "SubClassOf(example:A ObjectMinCardinality(2 example:p))",
            "ObjectMinCardinality is not allowed in a superclass",
        ),
        (
            "[ owl:onProperty ex:p ; owl:allValuesFrom ex:C ] rdfs:subClassOf ex:A , ex:B .",
            "SubClassOf(ObjectAllValuesFrom(example:p example:C) example:A)",
            "ObjectAllValuesFrom is not allowed in a subclass",
        ),
        (
            "ex:A rdfs:subClassOf [ owl:onProperty ex:p ; owl:maxCardinality 2 ] , ex:B .",
            "SubClassOf(example:A ObjectMaxCardinality(2 example:p))",
            "a cardinality of more than 1 is not allowed",
        ),
        (
            "ex:p a owl:ReflexiveProperty . ex:q a owl:TransitiveProperty .",
            "ReflexiveProperty(example:p)",
            "reflexive properties are not in the profile",
        ),
        (
            "ex:p rdfs:domain [ owl:oneOf ( ex:a ex:b ) ] .",
            "PropertyDomain(example:p ObjectOneOf(example:a example:b))",
            "ObjectOneOf is not allowed in a superclass",
        ),
        (
            "[] a owl:AllDisjointClasses ; owl:members ( ex:A [ owl:complementOf ex:B ] ) .",
            "DisjointClasses(example:A ObjectComplementOf(example:B))",
            "ObjectComplementOf is not allowed in a subclass",
        ),
        (
            "ex:A owl:oneOf ( ex:a ex:b ) .",
            "EquivalentClasses(example:A ObjectOneOf(example:a example:b))",
            "ObjectOneOf is not allowed in a superclass",
        ),
        (
            "ex:rule a <http://www.w3.org/2003/11/swrl#Imp> . ex:A rdfs:subClassOf ex:B .",
            "DLSafeRule(example:rule)",
            "rules of SWRL are not read: write them as rules here",
        ),
        (
            "ex:A rdfs:subClassOf [ owl:onProperty ex:p ; owl:hasSelf true ] , ex:B .",
            "SubClassOf(example:A ObjectHasSelf(example:p true))",
            "ObjectHasSelf is not allowed in a superclass",
        ),
        (
            "ex:p rdfs:range [ owl:onDatatype xsd:integer ; owl:withRestrictions ( ex:q ) ] .",
            "PropertyRange(example:p DatatypeRestriction(xsd:integer))",
            "DatatypeRestriction is not allowed in a superclass",
        ),
        (
            "ex:A owl:disjointUnionOf ( ex:B ex:C ) .",
            "DisjointUnion(example:A …)",
            "disjoint unions are not in the profile",
        ),
    ],
)
def test_axioms_outside_the_profile_are_listed(axiom: str, text: str, reason: str) -> None:
    ontology = ontology_of(axiom)
    assert (text, reason) in {(gap.axiom, gap.reason) for gap in ontology.gaps}
    assert any(text in warning.message for warning in ontology.warnings)


INSIDE = """
ex:A rdfs:subClassOf ex:B , [ owl:onProperty ex:p ; owl:allValuesFrom ex:C ] .
[ owl:onProperty ex:p ; owl:someValuesFrom [ owl:unionOf ( ex:B ex:C ) ] ] rdfs:subClassOf ex:D .
ex:D rdfs:subClassOf [ owl:complementOf ex:B ] , [ owl:onProperty ex:p ; owl:maxCardinality 1 ] .
ex:p a owl:TransitiveProperty ; rdfs:range ex:C . ex:A owl:hasKey ( ex:q ) .
"""


def test_what_is_inside_the_profile_is_not_listed() -> None:
    assert ontology_of(INSIDE).gaps == []
