"""The axioms of an ontology outside OWL 2 RL, in functional syntax, each with the reason.

OWL 2 Profiles, section 4.2. The rules cover such an axiom in part; the parts that they do not cover are
listed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from tidelog.logic.conversions import exact
from tidelog.logic.values import Kind, Value, iri
from tidelog.ontology.schema_closure import TYPE, owl, rdf, rdfs
from tidelog.records import dataclass

Row = tuple[Value, ...]

THING: Final = owl("Thing")
SWRL_RULE: Final = iri("http://www.w3.org/2003/11/swrl#Imp")
# A class expression by the property that defines it, in functional syntax.
EXPRESSIONS: Final = {
    owl("intersectionOf"): "ObjectIntersectionOf",
    owl("unionOf"): "ObjectUnionOf",
    owl("oneOf"): "ObjectOneOf",
    owl("complementOf"): "ObjectComplementOf",
    owl("someValuesFrom"): "ObjectSomeValuesFrom",
    owl("allValuesFrom"): "ObjectAllValuesFrom",
    owl("hasValue"): "ObjectHasValue",
    owl("hasSelf"): "ObjectHasSelf",
    owl("maxCardinality"): "ObjectMaxCardinality",
    owl("maxQualifiedCardinality"): "ObjectMaxCardinality",
    owl("minCardinality"): "ObjectMinCardinality",
    owl("minQualifiedCardinality"): "ObjectMinCardinality",
    owl("cardinality"): "ObjectExactCardinality",
    owl("qualifiedCardinality"): "ObjectExactCardinality",
    owl("onDatatype"): "DatatypeRestriction",
    owl("datatypeComplementOf"): "DataComplementOf",
}
# Axioms of one triple, in functional syntax.
AXIOMS: Final = {
    rdfs("subClassOf"): "SubClassOf",
    owl("equivalentClass"): "EquivalentClasses",
    owl("disjointWith"): "DisjointClasses",
    owl("disjointUnionOf"): "DisjointUnion",
    rdfs("subPropertyOf"): "SubPropertyOf",
    owl("equivalentProperty"): "EquivalentProperties",
    owl("propertyDisjointWith"): "DisjointProperties",
    owl("inverseOf"): "InverseProperties",
    rdfs("domain"): "PropertyDomain",
    rdfs("range"): "PropertyRange",
    owl("propertyChainAxiom"): "SubPropertyOf(chain)",
    owl("hasKey"): "HasKey",
    owl("sameAs"): "SameIndividual",
    owl("differentFrom"): "DifferentIndividuals",
}
KINDS: Final = {
    owl(name): name
    for name in (
        "FunctionalProperty",
        "InverseFunctionalProperty",
        "SymmetricProperty",
        "AsymmetricProperty",
        "TransitiveProperty",
        "ReflexiveProperty",
        "IrreflexiveProperty",
        "AllDisjointClasses",
        "AllDisjointProperties",
        "AllDifferent",
        "NegativePropertyAssertion",
    )
}
NO_NEW_THINGS: Final = "rules cannot create unnamed individuals"
NOT_IN_SUBCLASSES: Final = "not allowed in a subclass"
NOT_IN_SUPERCLASSES: Final = "not allowed in a superclass"


@dataclass(frozen=True, slots=True)
class Gap:
    """An axiom, or a part of one, that the rules do not cover, and why."""

    axiom: str
    reason: str


@dataclass(frozen=True)
class OntologyGraph:
    """The triples of an ontology by subject and predicate, and how names are written."""

    triples: frozenset[Row]
    write: Callable[[Value], str] = exact
    _objects: Mapping[Value, Mapping[Value, list[Value]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        objects: dict[Value, dict[Value, list[Value]]] = defaultdict(lambda: defaultdict(list))
        for subject, predicate, object_ in sorted(self.triples, key=repr):
            objects[subject][predicate].append(object_)
        object.__setattr__(self, "_objects", objects)

    def objects(self, subject: Value, predicate: Value) -> list[Value]:
        """The objects of the triples with this subject and predicate."""
        return self._objects[subject][predicate] if subject in self._objects else []

    def members(self, node: Value) -> Iterator[Value]:
        """The members of a list."""
        visited: set[Value] = set()
        while node != rdf("nil") and node not in visited:
            visited.add(node)
            yield from self.objects(node, rdf("first"))[:1]
            node = next(iter(self.objects(node, rdf("rest"))), rdf("nil"))

    def construct(self, node: Value) -> tuple[Value, Value] | None:
        """Return the property that defines a node's class expression, and its value; None if it is a name."""
        for property_ in EXPRESSIONS:
            for value in self.objects(node, property_):
                return property_, value
        return None

    def parts(self, node: Value) -> list[Value]:
        """The class expressions inside one."""
        construct = self.construct(node)
        if construct is None:
            return []
        property_, value = construct
        if property_ in (owl("intersectionOf"), owl("unionOf")):
            return list(self.members(value))
        if property_ in (owl("someValuesFrom"), owl("allValuesFrom"), owl("complementOf")):
            return [value]
        return [*self.objects(node, owl("onClass")), *self.objects(node, owl("onDataRange"))]

    def text(self, node: Value) -> str:
        """A class expression or a name, in functional syntax."""
        construct = self.construct(node) if node.kind is Kind.BLANK else None
        if construct is None:
            inverse = self.objects(node, owl("inverseOf")) if node.kind is Kind.BLANK else []
            return f"ObjectInverseOf({self.text(inverse[0])})" if inverse else self.write(node)
        return self.expression(node, construct)

    def expression(self, node: Value, construct: tuple[Value, Value]) -> str:
        """Return a class expression in functional syntax, by the property that defines it."""
        property_, value = construct
        if property_ in (owl("intersectionOf"), owl("unionOf"), owl("oneOf")):
            inside = list(map(self.text, self.members(value)))
        elif property_ == owl("complementOf"):
            inside = [self.text(value)]
        else:
            on = list(map(self.text, self.objects(node, owl("onProperty"))))
            fillers = [] if self.parts(node) == [value] else list(map(self.text, self.parts(node)))
            inside = [*on, self.text(value), *fillers]
            if "Cardinality" in EXPRESSIONS[property_]:
                inside = [str(value.content), *on, *fillers]
        return f"{EXPRESSIONS[property_]}({' '.join(inside)})"


def axioms(graph: OntologyGraph) -> Counter[str]:
    """The number of axioms of each kind; definitions of nameless classes are not counted."""
    counts: Counter[str] = Counter()
    for subject, predicate, object_ in graph.triples:
        if predicate in AXIOMS and not (predicate == owl("inverseOf") and subject.kind is Kind.BLANK):
            counts[AXIOMS[predicate]] += 1
        elif predicate == TYPE and object_ in KINDS:
            counts[KINDS[object_]] += 1
    return counts


def gaps(graph: OntologyGraph) -> list[Gap]:
    """The gaps of an ontology, ordered by their text."""
    all_gaps = {gap for row in graph.triples for gap in _gaps_of(row, graph)}
    return sorted(all_gaps, key=lambda gap: (gap.axiom, gap.reason))


def _gaps_of(row: Row, graph: OntologyGraph) -> Iterator[Gap]:
    """The gaps of the axiom that a triple states, if it states one."""
    subject, predicate, object_ = row
    text = graph.text
    if predicate == rdfs("subClassOf"):
        yield from _between(subject, object_, graph)
    elif predicate == owl("equivalentClass"):
        yield from _between(subject, object_, graph)
        yield from _between(object_, subject, graph)
    elif predicate == owl("disjointWith"):
        axiom = f"DisjointClasses({text(subject)} {text(object_)})"
        yield from _named(axiom, (*_in_subclass(subject, graph), *_in_subclass(object_, graph)))
    elif predicate in (rdfs("domain"), rdfs("range")):
        axiom = f"{AXIOMS[predicate]}({text(subject)} {text(object_)})"
        yield from _named(axiom, _in_superclass(object_, graph))
    elif predicate == owl("hasKey"):
        yield from _named(f"HasKey({text(subject)} …)", _in_subclass(subject, graph))
    elif predicate == owl("disjointUnionOf"):
        yield Gap(f"DisjointUnion({text(subject)} …)", "disjoint unions are not in the profile")
    elif predicate == TYPE and object_ == owl("ReflexiveProperty"):
        yield Gap(f"ReflexiveProperty({text(subject)})", "reflexive properties are not in the profile")
    elif predicate == TYPE and object_.kind is Kind.BLANK:
        yield from _named(f"ClassAssertion({text(object_)} {text(subject)})", _in_superclass(object_, graph))
    elif predicate == TYPE and object_ == owl("AllDisjointClasses"):
        classes = [each for node in graph.objects(subject, owl("members")) for each in graph.members(node)]
        axiom = f"DisjointClasses({' '.join(map(text, classes))})"
        yield from _named(axiom, (reason for each in classes for reason in _in_subclass(each, graph)))
    elif predicate == TYPE and object_ == SWRL_RULE:
        yield Gap(f"DLSafeRule({text(subject)})", "rules of SWRL are not read: write them as rules here")
    elif predicate in EXPRESSIONS and subject.kind is not Kind.BLANK:
        expression = graph.expression(subject, (predicate, object_))
        reasons = (
            *_in_subclass(subject, graph, is_named=True),
            *_in_superclass(subject, graph, is_named=True),
        )
        yield from _named(f"EquivalentClasses({text(subject)} {expression})", reasons)
    elif predicate == owl("imports"):
        yield Gap(f"Import({text(object_)})", "imports are not followed: give the file as well")


def _named(axiom: str, reasons: Iterable[str]) -> Iterator[Gap]:
    return (Gap(axiom, reason) for reason in reasons)


def _between(subclass: Value, superclass: Value, graph: OntologyGraph) -> Iterator[Gap]:
    """The gaps of the axiom that one class is a subclass of another, by the parts of the latter."""
    construct = graph.construct(superclass) if superclass.kind is Kind.BLANK else None
    if construct is not None and construct[0] == owl("intersectionOf"):
        for part in graph.members(construct[1]):
            yield from _between(subclass, part, graph)
        return
    axiom = f"SubClassOf({graph.text(subclass)} {graph.text(superclass)})"
    yield from _named(axiom, (*_in_subclass(subclass, graph), *_in_superclass(superclass, graph)))


def _in_subclass(node: Value, graph: OntologyGraph, *, is_named: bool = False) -> Iterator[str]:
    """Why an expression cannot be a subclass; `is_named` if it is the definition of a named class."""
    if node == THING:
        yield f"owl:Thing is {NOT_IN_SUBCLASSES}"
    construct = graph.construct(node) if is_named or node.kind is Kind.BLANK else None
    if construct is None:
        return
    property_, value = construct
    if property_ in (owl("intersectionOf"), owl("unionOf")):
        for part in graph.members(value):
            yield from _in_subclass(part, graph)
    elif property_ == owl("someValuesFrom"):
        yield from _in_subclass(value, graph) if value != THING else ()
    elif property_ not in (owl("oneOf"), owl("hasValue")):
        yield f"{EXPRESSIONS[property_]} is {NOT_IN_SUBCLASSES}"


def _in_superclass(node: Value, graph: OntologyGraph, *, is_named: bool = False) -> Iterator[str]:
    """Why an expression cannot be a superclass; `is_named` if it is the definition of a named class."""
    construct = graph.construct(node) if is_named or node.kind is Kind.BLANK else None
    if construct is None:
        return
    property_, value = construct
    if property_ == owl("intersectionOf"):
        for part in graph.members(value):
            yield from _in_superclass(part, graph)
    elif property_ == owl("allValuesFrom"):
        yield from _in_superclass(value, graph)
    elif property_ == owl("complementOf"):
        yield from _in_subclass(value, graph)
    elif property_ in (owl("maxCardinality"), owl("maxQualifiedCardinality")):
        yield from _in_cardinality(node, value, graph)
    elif property_ == owl("someValuesFrom"):
        yield f"ObjectSomeValuesFrom is {NOT_IN_SUPERCLASSES}: {NO_NEW_THINGS}"
    elif property_ != owl("hasValue"):
        yield f"{EXPRESSIONS[property_]} is {NOT_IN_SUPERCLASSES}"


def _in_cardinality(node: Value, most: Value, graph: OntologyGraph) -> Iterator[str]:
    """Why a maximum cardinality cannot be a superclass."""
    if most.content not in (0, 1):
        yield "a cardinality of more than 1 is not allowed"
    if graph.objects(node, owl("onDataRange")):
        yield "no row of the tables reads owl:onDataRange"
    for part in graph.objects(node, owl("onClass")):
        if part != THING:
            yield from _in_subclass(part, graph)
