"""Entailments in the manner of the W3C's test cases: a premise, what follows from it, and what does not.

All premises are one ontology, each about names of its own, reasoned over by the tables, by rules that are
specialised to it, and by these with `owl:sameAs` kept by rewriting.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

import tidelog as tl
from tests.ontology.test_owl2rl import ontology_of
from tests.ontology.turtle import Triple, closure, rule_set, triples

ROUTES = ("tables", "axiomatise", "rewrite")


class Case(NamedTuple):
    """Turtle of a premise, of a conclusion, and of what is no conclusion."""

    premise: str
    follows: str
    other: str


CASES = {
    "a chain of three": Case(
        "ex:greatUncle owl:propertyChainAxiom ( ex:parent1 ex:parent1 ex:brother1 ) . "
        "ex:a1 ex:parent1 ex:b1 . ex:b1 ex:parent1 ex:c1 . ex:c1 ex:brother1 ex:d1 .",
        "ex:a1 ex:greatUncle ex:d1 .",
        "ex:b1 ex:greatUncle ex:d1 .",
    ),
    "a chain through an inverse": Case(
        "ex:sibling2 owl:propertyChainAxiom ( ex:parent2 [ owl:inverseOf ex:parent2 ] ) . "
        "ex:a2 ex:parent2 ex:c2 . ex:b2 ex:parent2 ex:c2 .",
        "ex:a2 ex:sibling2 ex:b2 .",
        "ex:a2 ex:sibling2 ex:c2 .",
    ),
    "a key of two properties": Case(
        "ex:K3 owl:hasKey ( ex:first3 ex:last3 ) . ex:a3 a ex:K3 ; ex:first3 'A' ; ex:last3 'Z' . "
        "ex:b3 a ex:K3 ; ex:first3 'A' ; ex:last3 'Z' ; ex:likes3 ex:d3 . ex:c3 a ex:K3 ; ex:first3 'A' .",
        "ex:a3 owl:sameAs ex:b3 ; ex:likes3 ex:d3 .",
        "ex:c3 owl:sameAs ex:a3 .",
    ),
    "at most one of a class": Case(
        "ex:M4 rdfs:subClassOf "
        "[ owl:onProperty ex:p4 ; owl:maxQualifiedCardinality 1 ; owl:onClass ex:C4 ] . "
        "ex:a4 a ex:M4 ; ex:p4 ex:b4 , ex:c4 , ex:d4 . ex:b4 a ex:C4 . ex:c4 a ex:C4 .",
        "ex:b4 owl:sameAs ex:c4 .",
        "ex:b4 owl:sameAs ex:d4 .",
    ),
    "an enumeration in a union": Case(
        "[ owl:unionOf ( [ owl:oneOf ( ex:a5 ex:b5 ) ] ex:D5 ) ] rdfs:subClassOf ex:C5 . ex:d5 a ex:D5 .",
        "ex:a5 a ex:C5 . ex:d5 a ex:C5 .",
        "ex:a5 a ex:D5 .",
    ),
    "all values of some values": Case(
        "[ owl:onProperty ex:p6 ; owl:someValuesFrom ex:B6 ] rdfs:subClassOf "
        "[ owl:onProperty ex:q6 ; owl:allValuesFrom ex:C6 ] . "
        "ex:a6 ex:p6 ex:b6 ; ex:q6 ex:c6 . ex:b6 a ex:B6 . ex:d6 ex:q6 ex:e6 .",
        "ex:c6 a ex:C6 .",
        "ex:e6 a ex:C6 .",
    ),
    "a value, both ways": Case(
        "ex:Blue7 owl:equivalentClass [ owl:onProperty ex:colour7 ; owl:hasValue ex:blue7 ] . "
        "ex:a7 a ex:Blue7 . ex:b7 ex:colour7 ex:blue7 . ex:c7 ex:colour7 ex:red7 .",
        "ex:a7 ex:colour7 ex:blue7 . ex:b7 a ex:Blue7 .",
        "ex:c7 a ex:Blue7 .",
    ),
    "an intersection, both ways": Case(
        "ex:I8 owl:equivalentClass [ owl:intersectionOf ( ex:A8 ex:B8 ) ] . "
        "ex:a8 a ex:A8 , ex:B8 . ex:b8 a ex:I8 . ex:c8 a ex:A8 .",
        "ex:a8 a ex:I8 . ex:b8 a ex:A8 , ex:B8 .",
        "ex:c8 a ex:I8 .",
    ),
    "a transitive property with an inverse": Case(
        "ex:part9 a owl:TransitiveProperty ; owl:inverseOf ex:whole9 . "
        "ex:a9 ex:part9 ex:b9 . ex:c9 ex:whole9 ex:b9 .",
        "ex:c9 ex:whole9 ex:a9 .",
        "ex:a9 ex:whole9 ex:c9 .",
    ),
    "equivalent and symmetric properties": Case(
        "ex:p10 owl:equivalentProperty ex:q10 . ex:q10 a owl:SymmetricProperty ; rdfs:domain ex:D10 . "
        "ex:a10 ex:p10 ex:b10 .",
        "ex:b10 ex:p10 ex:a10 ; a ex:D10 .",
        "ex:a10 ex:p10 ex:a10 .",
    ),
    "what is the same by an inverse functional property": Case(
        "ex:mail11 a owl:InverseFunctionalProperty . ex:a11 ex:mail11 ex:m11 . ex:b11 ex:mail11 ex:m11 . "
        "ex:c11 ex:knows11 ex:a11 .",
        "ex:c11 ex:knows11 ex:b11 .",
        "ex:c11 owl:sameAs ex:b11 .",
    ),
    "a property that is the same as another": Case(
        "ex:p12 owl:sameAs ex:q12 . ex:a12 ex:p12 ex:b12 .",
        "ex:a12 ex:q12 ex:b12 .",
        "ex:b12 ex:q12 ex:a12 .",
    ),
}
INCONSISTENT = {
    "complement": "ex:A rdfs:subClassOf [ owl:complementOf ex:B ] . ex:a a ex:A , ex:B .",
    "disjoint classes": "[] a owl:AllDisjointClasses ; owl:members ( ex:A ex:B ex:C ) . ex:a a ex:A , ex:C .",
    "disjoint properties": "ex:p owl:propertyDisjointWith ex:q . ex:a ex:p ex:b ; ex:q ex:b .",
    "asymmetric": "ex:p a owl:AsymmetricProperty . ex:q rdfs:subPropertyOf ex:p . "
    "ex:a ex:q ex:b . ex:b ex:p ex:a .",
    "irreflexive": "ex:p a owl:IrreflexiveProperty . ex:a ex:p ex:b . ex:a owl:sameAs ex:b .",
    "negative assertion": "[] owl:sourceIndividual ex:a ; owl:assertionProperty ex:p ; "
    "owl:targetIndividual ex:b . ex:q rdfs:subPropertyOf ex:p . ex:a ex:q ex:b .",
    "no value allowed": "ex:A rdfs:subClassOf [ owl:onProperty ex:p ; owl:maxCardinality 0 ] . "
    "ex:a a ex:A ; ex:p ex:b .",
    "different": "ex:p a owl:FunctionalProperty . ex:a ex:p ex:b , ex:c . ex:b owl:differentFrom ex:c .",
}


def reasoned(route: str, text: str) -> tuple[set[Triple], bool]:
    """What follows from a text by one route, and whether that is consistent."""
    program = rule_set("owl2rl.rls") if route == "tables" else tl.parse(ontology_of(text, route).text())
    return closure(program, text)


@pytest.fixture(scope="module", params=ROUTES)
def everything(request: pytest.FixtureRequest) -> set[Triple]:
    found, is_consistent = reasoned(request.param, " ".join(case.premise for case in CASES.values()))
    assert is_consistent
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_follows_and_what_does_not(everything: set[Triple], name: str) -> None:
    case = CASES[name]
    assert triples(case.follows) <= everything
    assert not triples(case.other) & everything


@pytest.mark.parametrize("name", INCONSISTENT)
@pytest.mark.parametrize("route", ["axiomatise", "rewrite"])
def test_what_cannot_be(route: str, name: str) -> None:
    assert not reasoned(route, INCONSISTENT[name])[1]
