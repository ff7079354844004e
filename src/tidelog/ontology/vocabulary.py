"""The names of RDF, RDFS and OWL that the translation of ontologies knows."""

from __future__ import annotations

from typing import Final

from tidelog.logic.values import Value, iri

RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
OWL: Final = "http://www.w3.org/2002/07/owl#"
LISTS: Final = "tag:tidelog:list#"
TABLES: Final = "tag:tidelog:owl2rl#"

TRIPLE: Final = "triple"


def rdf(name: str) -> Value:
    """A name of RDF."""
    return iri(RDF + name)


def rdfs(name: str) -> Value:
    """A name of RDF Schema."""
    return iri(RDFS + name)


def owl(name: str) -> Value:
    """A name of OWL."""
    return iri(OWL + name)


TYPE: Final = rdf("type")
SUBCLASS: Final = rdfs("subClassOf")

# Properties whose triples are axioms, or parts of axioms.
AXIOMATIC: Final = frozenset(
    [
        *map(rdf, ("first", "rest")),
        *map(rdfs, ("subClassOf", "subPropertyOf", "domain", "range")),
        *map(
            owl,
            (
                "allValuesFrom",
                "complementOf",
                "disjointUnionOf",
                "disjointWith",
                "equivalentClass",
                "equivalentProperty",
                "hasKey",
                "hasSelf",
                "hasValue",
                "intersectionOf",
                "inverseOf",
                "maxCardinality",
                "maxQualifiedCardinality",
                "members",
                "onClass",
                "onProperty",
                "oneOf",
                "propertyChainAxiom",
                "propertyDisjointWith",
                "someValuesFrom",
                "unionOf",
            ),
        ),
    ]
)
# Classes whose members are classes, properties and axioms.
METACLASSES: Final = frozenset(
    [
        rdfs("Datatype"),
        *map(
            owl,
            (
                "AllDisjointClasses",
                "AllDisjointProperties",
                "AsymmetricProperty",
                "Class",
                "DatatypeProperty",
                "FunctionalProperty",
                "InverseFunctionalProperty",
                "IrreflexiveProperty",
                "ObjectProperty",
                "SymmetricProperty",
                "TransitiveProperty",
            ),
        ),
    ]
)
