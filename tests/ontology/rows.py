"""Two cases for each row of the OWL 2 RL/RDF tables: one from which it concludes something, one not.

`Row(data, follows, other)`: from `data` the row by itself derives `follows`, a triple or `FALSE`; from
`other`, which lacks something, it does not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FALSE: Final = "false"


class Row(NamedTuple):
    """Turtle that fires a row, what follows, and Turtle from which that does not follow."""

    data: str
    follows: str
    other: str


_CHAIN = "ex:uncle owl:propertyChainAxiom ( ex:parent ex:brother ) . "
_KEY = "ex:Person owl:hasKey ( ex:first ex:last ) . ex:a a ex:Person ; ex:first 'A' ; ex:last 'Z' . "
_NOT = "[] owl:sourceIndividual ex:a ; owl:assertionProperty ex:p ; "
_SOME = "ex:R owl:someValuesFrom {} ; owl:onProperty ex:p . "
_ALL = "ex:R owl:allValuesFrom ex:C ; owl:onProperty ex:p . "
_VALUE = "ex:R owl:hasValue ex:v ; owl:onProperty ex:p . "
_AT_MOST = "ex:R owl:maxCardinality {} ; owl:onProperty ex:p . ex:a a ex:R . "
_AT_MOST_OF = "ex:R owl:maxQualifiedCardinality {} ; owl:onProperty ex:p ; owl:onClass {} . ex:a a ex:R . "
_BOTH = "ex:C owl:intersectionOf ( ex:A ex:B ex:D ) . "
_DIFFERENT = "[] a owl:AllDifferent ; {} ( ex:a ex:b ex:c ) . "

TABLE_4: Final = {
    "eq-ref": Row("ex:a owl:sameAs ex:b .", "ex:a owl:sameAs ex:a .", "ex:a ex:p ex:b ."),
    "eq-sym": Row("ex:a owl:sameAs ex:b .", "ex:b owl:sameAs ex:a .", "ex:a owl:differentFrom ex:b ."),
    "eq-trans": Row(
        "ex:a owl:sameAs ex:b . ex:b owl:sameAs ex:c .",
        "ex:a owl:sameAs ex:c .",
        "ex:a owl:sameAs ex:b . ex:c owl:sameAs ex:b .",
    ),
    "eq-rep-s": Row(
        "ex:a owl:sameAs ex:b . ex:a ex:p ex:c .",
        "ex:b ex:p ex:c .",
        "ex:b owl:sameAs ex:a . ex:a ex:p ex:c .",
    ),
    "eq-rep-p": Row(
        "ex:p owl:sameAs ex:q . ex:a ex:p ex:c .",
        "ex:a ex:q ex:c .",
        "ex:q owl:sameAs ex:p . ex:a ex:p ex:c .",
    ),
    "eq-rep-o": Row(
        "ex:c owl:sameAs ex:d . ex:a ex:p ex:c .",
        "ex:a ex:p ex:d .",
        "ex:d owl:sameAs ex:c . ex:a ex:p ex:c .",
    ),
    "eq-diff1": Row(
        "ex:a owl:sameAs ex:b ; owl:differentFrom ex:b .",
        FALSE,
        "ex:a owl:sameAs ex:b ; owl:differentFrom ex:c .",
    ),
    "eq-diff2": Row(
        _DIFFERENT.format("owl:members") + "ex:c owl:sameAs ex:a .",
        FALSE,
        _DIFFERENT.format("owl:members") + "ex:a owl:sameAs ex:a ; owl:sameAs ex:d .",
    ),
    "eq-diff3": Row(
        _DIFFERENT.format("owl:distinctMembers") + "ex:b owl:sameAs ex:c .",
        FALSE,
        _DIFFERENT.format("owl:distinctMembers") + "ex:d owl:sameAs ex:e .",
    ),
}

TABLE_5: Final = {
    "prp-ap": Row("", "rdfs:label a owl:AnnotationProperty .", ""),
    "prp-dom": Row(
        "ex:p rdfs:domain ex:C . ex:a ex:p ex:b .",
        "ex:a a ex:C .",
        "ex:p rdfs:domain ex:C . ex:b ex:p ex:a .",
    ),
    "prp-rng": Row(
        "ex:p rdfs:range ex:C . ex:a ex:p ex:b .", "ex:b a ex:C .", "ex:p rdfs:range ex:C . ex:b ex:p ex:a ."
    ),
    "prp-fp": Row(
        "ex:p a owl:FunctionalProperty . ex:a ex:p ex:b , ex:c .",
        "ex:b owl:sameAs ex:c .",
        "ex:p a owl:FunctionalProperty . ex:a ex:p ex:b . ex:d ex:p ex:c .",
    ),
    "prp-ifp": Row(
        "ex:p a owl:InverseFunctionalProperty . ex:a ex:p ex:c . ex:b ex:p ex:c .",
        "ex:a owl:sameAs ex:b .",
        "ex:p a owl:FunctionalProperty . ex:a ex:p ex:c . ex:b ex:p ex:c .",
    ),
    "prp-irp": Row(
        "ex:p a owl:IrreflexiveProperty . ex:a ex:p ex:a .",
        FALSE,
        "ex:p a owl:IrreflexiveProperty . ex:a ex:p ex:b ; ex:q ex:a .",
    ),
    "prp-symp": Row(
        "ex:p a owl:SymmetricProperty . ex:a ex:p ex:b .",
        "ex:b ex:p ex:a .",
        "ex:p a owl:SymmetricProperty . ex:a ex:q ex:b .",
    ),
    "prp-asyp": Row(
        "ex:p a owl:AsymmetricProperty . ex:a ex:p ex:b . ex:b ex:p ex:a .",
        FALSE,
        "ex:p a owl:AsymmetricProperty . ex:a ex:p ex:b . ex:b ex:q ex:a .",
    ),
    "prp-trp": Row(
        "ex:p a owl:TransitiveProperty . ex:a ex:p ex:b . ex:b ex:p ex:c .",
        "ex:a ex:p ex:c .",
        "ex:p a owl:TransitiveProperty . ex:a ex:p ex:b . ex:b ex:q ex:c .",
    ),
    "prp-spo1": Row(
        "ex:p rdfs:subPropertyOf ex:q . ex:a ex:p ex:b .",
        "ex:a ex:q ex:b .",
        "ex:q rdfs:subPropertyOf ex:p . ex:a ex:p ex:b .",
    ),
    "prp-spo2": Row(
        _CHAIN + "ex:a ex:parent ex:b . ex:b ex:brother ex:c .",
        "ex:a ex:uncle ex:c .",
        _CHAIN + "ex:a ex:brother ex:b . ex:b ex:parent ex:c .",
    ),
    "prp-eqp1": Row(
        "ex:p owl:equivalentProperty ex:q . ex:a ex:p ex:b .",
        "ex:a ex:q ex:b .",
        "ex:q owl:equivalentProperty ex:p . ex:a ex:p ex:b .",
    ),
    "prp-eqp2": Row(
        "ex:p owl:equivalentProperty ex:q . ex:a ex:q ex:b .",
        "ex:a ex:p ex:b .",
        "ex:q owl:equivalentProperty ex:p . ex:a ex:q ex:b .",
    ),
    "prp-pdw": Row(
        "ex:p owl:propertyDisjointWith ex:q . ex:a ex:p ex:b ; ex:q ex:b .",
        FALSE,
        "ex:p owl:propertyDisjointWith ex:q . ex:a ex:p ex:b ; ex:q ex:c .",
    ),
    "prp-adp": Row(
        "[] a owl:AllDisjointProperties ; owl:members ( ex:p ex:q ex:r ) . ex:a ex:p ex:b ; ex:r ex:b .",
        FALSE,
        "[] a owl:AllDisjointProperties ; owl:members ( ex:p ex:q ex:r ) . ex:a ex:p ex:b ; ex:s ex:b .",
    ),
    "prp-inv1": Row(
        "ex:p owl:inverseOf ex:q . ex:a ex:p ex:b .",
        "ex:b ex:q ex:a .",
        "ex:q owl:inverseOf ex:p . ex:a ex:p ex:b .",
    ),
    "prp-inv2": Row(
        "ex:p owl:inverseOf ex:q . ex:a ex:q ex:b .",
        "ex:b ex:p ex:a .",
        "ex:q owl:inverseOf ex:p . ex:a ex:q ex:b .",
    ),
    "prp-key": Row(
        _KEY + "ex:b a ex:Person ; ex:first 'A' ; ex:last 'Z' .",
        "ex:a owl:sameAs ex:b .",
        _KEY + "ex:b a ex:Person ; ex:first 'A' ; ex:last 'Y' . ex:c ex:first 'A' ; ex:last 'Z' .",
    ),
    "prp-npa1": Row(
        _NOT + "owl:targetIndividual ex:b . ex:a ex:p ex:b .",
        FALSE,
        _NOT + "owl:targetIndividual ex:b . ex:a ex:p ex:c ; ex:q ex:b .",
    ),
    "prp-npa2": Row(
        _NOT + "owl:targetValue 7 . ex:a ex:p 7 .", FALSE, _NOT + "owl:targetValue 7 . ex:a ex:p 8 ; ex:q 7 ."
    ),
}

TABLE_6: Final = {
    "cls-thing": Row("", "owl:Thing a owl:Class .", ""),
    "cls-nothing1": Row("", "owl:Nothing a owl:Class .", ""),
    "cls-nothing2": Row(
        "ex:a a owl:Nothing .", FALSE, "ex:a a owl:Thing . ex:C rdfs:subClassOf owl:Nothing ."
    ),
    "cls-int1": Row(
        _BOTH + "ex:x a ex:A , ex:B , ex:D .", "ex:x a ex:C .", _BOTH + "ex:x a ex:A , ex:D . ex:y a ex:B ."
    ),
    "cls-int2": Row(_BOTH + "ex:x a ex:C .", "ex:x a ex:D .", _BOTH + "ex:x a ex:A , ex:B ."),
    "cls-uni": Row(
        "ex:C owl:unionOf ( ex:A ex:B ) . ex:x a ex:B .",
        "ex:x a ex:C .",
        "ex:C owl:unionOf ( ex:A ex:B ) . ex:x a ex:D .",
    ),
    "cls-com": Row(
        "ex:C owl:complementOf ex:D . ex:x a ex:C , ex:D .",
        FALSE,
        "ex:C owl:complementOf ex:D . ex:x a ex:C . ex:y a ex:D .",
    ),
    "cls-svf1": Row(
        _SOME.format("ex:C") + "ex:a ex:p ex:b . ex:b a ex:C .",
        "ex:a a ex:R .",
        _SOME.format("ex:C") + "ex:a ex:p ex:b , ex:c . ex:d a ex:C . ex:a ex:q ex:d .",
    ),
    "cls-svf2": Row(
        _SOME.format("owl:Thing") + "ex:a ex:p ex:b .",
        "ex:a a ex:R .",
        _SOME.format("ex:C") + "ex:a ex:p ex:b . ex:b a owl:Thing .",
    ),
    "cls-avf": Row(
        _ALL + "ex:a a ex:R ; ex:p ex:b .",
        "ex:b a ex:C .",
        _ALL + "ex:a a ex:R ; ex:q ex:b . ex:c ex:p ex:b .",
    ),
    "cls-hv1": Row(_VALUE + "ex:a a ex:R .", "ex:a ex:p ex:v .", _VALUE + "ex:a a ex:C ."),
    "cls-hv2": Row(_VALUE + "ex:a ex:p ex:v .", "ex:a a ex:R .", _VALUE + "ex:a ex:p ex:w ; ex:q ex:v ."),
    "cls-maxc1": Row(
        _AT_MOST.format("'0'^^xsd:nonNegativeInteger") + "ex:a ex:p ex:b .",
        FALSE,
        _AT_MOST.format("'0'^^xsd:nonNegativeInteger") + "ex:a ex:q ex:b . ex:c ex:p ex:b .",
    ),
    "cls-maxc2": Row(
        _AT_MOST.format("'1'^^xsd:nonNegativeInteger") + "ex:a ex:p ex:b , ex:c .",
        "ex:b owl:sameAs ex:c .",
        _AT_MOST.format("'2'^^xsd:nonNegativeInteger") + "ex:a ex:p ex:b , ex:c .",
    ),
    "cls-maxqc1": Row(
        _AT_MOST_OF.format("'0'^^xsd:nonNegativeInteger", "ex:C") + "ex:a ex:p ex:b . ex:b a ex:C .",
        FALSE,
        _AT_MOST_OF.format("'0'^^xsd:nonNegativeInteger", "ex:C") + "ex:a ex:p ex:b . ex:b a ex:D .",
    ),
    "cls-maxqc2": Row(
        _AT_MOST_OF.format("'0'^^xsd:nonNegativeInteger", "owl:Thing") + "ex:a ex:p ex:b .",
        FALSE,
        _AT_MOST_OF.format("'0'^^xsd:nonNegativeInteger", "ex:C") + "ex:a ex:p ex:b .",
    ),
    "cls-maxqc3": Row(
        _AT_MOST_OF.format("'1'^^xsd:nonNegativeInteger", "ex:C")
        + "ex:a ex:p ex:b , ex:c . ex:b a ex:C . ex:c a ex:C .",
        "ex:b owl:sameAs ex:c .",
        _AT_MOST_OF.format("'1'^^xsd:nonNegativeInteger", "ex:C") + "ex:a ex:p ex:b , ex:c . ex:b a ex:C .",
    ),
    "cls-maxqc4": Row(
        _AT_MOST_OF.format("'1'^^xsd:nonNegativeInteger", "owl:Thing") + "ex:a ex:p ex:b , ex:c .",
        "ex:b owl:sameAs ex:c .",
        _AT_MOST_OF.format("'1'^^xsd:nonNegativeInteger", "ex:C") + "ex:a ex:p ex:b , ex:c .",
    ),
    "cls-oo": Row("ex:C owl:oneOf ( ex:a ex:b ) .", "ex:b a ex:C .", "ex:C owl:oneOf ( ex:a ex:c ) ."),
}

TABLE_7: Final = {
    "cax-sco": Row(
        "ex:C rdfs:subClassOf ex:D . ex:x a ex:C .",
        "ex:x a ex:D .",
        "ex:D rdfs:subClassOf ex:C . ex:x a ex:C .",
    ),
    "cax-eqc1": Row(
        "ex:C owl:equivalentClass ex:D . ex:x a ex:C .",
        "ex:x a ex:D .",
        "ex:D owl:equivalentClass ex:C . ex:x a ex:C .",
    ),
    "cax-eqc2": Row(
        "ex:C owl:equivalentClass ex:D . ex:x a ex:D .",
        "ex:x a ex:C .",
        "ex:D owl:equivalentClass ex:C . ex:x a ex:D .",
    ),
    "cax-dw": Row(
        "ex:C owl:disjointWith ex:D . ex:x a ex:C , ex:D .",
        FALSE,
        "ex:C owl:disjointWith ex:D . ex:x a ex:C . ex:y a ex:D .",
    ),
    "cax-adc": Row(
        "[] a owl:AllDisjointClasses ; owl:members ( ex:A ex:B ex:C ) . ex:x a ex:A , ex:C .",
        FALSE,
        "[] a owl:AllDisjointClasses ; owl:members ( ex:A ex:B ex:C ) . ex:x a ex:A , ex:D . ex:y a ex:C .",
    ),
}

TABLE_8: Final = {
    "dt-type1": Row("", "xsd:dateTimeStamp a rdfs:Datatype .", ""),
    "dt-type2": Row(
        _SOME.format("xsd:byte") + "ex:a ex:p 127 .",
        '"127"^^<http://www.w3.org/2001/XMLSchema#integer> rdf:type xsd:byte',
        _SOME.format("xsd:byte") + "ex:a ex:p 128 ; ex:q 127 .",
    ),
    "dt-eq": Row(
        "ex:R owl:hasValue 1.0 ; owl:onProperty ex:p . ex:a ex:p 1 .",
        '"1"^^<http://www.w3.org/2001/XMLSchema#integer> owl:sameAs "1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>',
        "ex:R owl:hasValue 1e0 ; owl:onProperty ex:p . ex:a ex:p 1 .",
    ),
    "dt-diff": Row("1 owl:sameAs 2", "1 owl:differentFrom 2", "1 owl:sameAs 1.0"),
    "dt-not-type": Row('"a" rdf:type xsd:integer', FALSE, "7 rdf:type xsd:integer"),
}

_TWO = "ex:R {0} ex:c ; owl:onProperty ex:p . ex:S {0} ex:c ; owl:onProperty ex:q . "
_FILLERS = "ex:R {0} ex:c ; owl:onProperty ex:p . ex:S {0} ex:d ; owl:onProperty ex:p . "

TABLE_9: Final = {
    "scm-cls": Row("ex:C a owl:Class .", "owl:Nothing rdfs:subClassOf ex:C .", "ex:x a ex:C ."),
    "scm-sco": Row(
        "ex:C rdfs:subClassOf ex:D . ex:D rdfs:subClassOf ex:E .",
        "ex:C rdfs:subClassOf ex:E .",
        "ex:C rdfs:subClassOf ex:D . ex:E rdfs:subClassOf ex:D .",
    ),
    "scm-eqc1": Row(
        "ex:C owl:equivalentClass ex:D .", "ex:D rdfs:subClassOf ex:C .", "ex:C rdfs:subClassOf ex:D ."
    ),
    "scm-eqc2": Row(
        "ex:C rdfs:subClassOf ex:D . ex:D rdfs:subClassOf ex:C .",
        "ex:C owl:equivalentClass ex:D .",
        "ex:C rdfs:subClassOf ex:D . ex:D rdfs:subClassOf ex:E .",
    ),
    "scm-op": Row(
        "ex:p a owl:ObjectProperty .", "ex:p owl:equivalentProperty ex:p .", "ex:p a owl:DatatypeProperty ."
    ),
    "scm-dp": Row(
        "ex:p a owl:DatatypeProperty .", "ex:p rdfs:subPropertyOf ex:p .", "ex:p a owl:ObjectProperty ."
    ),
    "scm-spo": Row(
        "ex:p rdfs:subPropertyOf ex:q . ex:q rdfs:subPropertyOf ex:r .",
        "ex:p rdfs:subPropertyOf ex:r .",
        "ex:p rdfs:subPropertyOf ex:q . ex:r rdfs:subPropertyOf ex:q .",
    ),
    "scm-eqp1": Row(
        "ex:p owl:equivalentProperty ex:q .",
        "ex:q rdfs:subPropertyOf ex:p .",
        "ex:p rdfs:subPropertyOf ex:q .",
    ),
    "scm-eqp2": Row(
        "ex:p rdfs:subPropertyOf ex:q . ex:q rdfs:subPropertyOf ex:p .",
        "ex:p owl:equivalentProperty ex:q .",
        "ex:p rdfs:subPropertyOf ex:q .",
    ),
    "scm-dom1": Row(
        "ex:p rdfs:domain ex:C . ex:C rdfs:subClassOf ex:D .",
        "ex:p rdfs:domain ex:D .",
        "ex:p rdfs:domain ex:C . ex:D rdfs:subClassOf ex:C .",
    ),
    "scm-dom2": Row(
        "ex:q rdfs:domain ex:C . ex:p rdfs:subPropertyOf ex:q .",
        "ex:p rdfs:domain ex:C .",
        "ex:q rdfs:domain ex:C . ex:q rdfs:subPropertyOf ex:p .",
    ),
    "scm-rng1": Row(
        "ex:p rdfs:range ex:C . ex:C rdfs:subClassOf ex:D .",
        "ex:p rdfs:range ex:D .",
        "ex:p rdfs:range ex:C . ex:D rdfs:subClassOf ex:C .",
    ),
    "scm-rng2": Row(
        "ex:q rdfs:range ex:C . ex:p rdfs:subPropertyOf ex:q .",
        "ex:p rdfs:range ex:C .",
        "ex:q rdfs:range ex:C . ex:q rdfs:subPropertyOf ex:p .",
    ),
    "scm-hv": Row(
        _TWO.format("owl:hasValue") + "ex:p rdfs:subPropertyOf ex:q .",
        "ex:R rdfs:subClassOf ex:S .",
        _TWO.format("owl:hasValue") + "ex:q rdfs:subPropertyOf ex:p .",
    ),
    "scm-svf1": Row(
        _FILLERS.format("owl:someValuesFrom") + "ex:c rdfs:subClassOf ex:d .",
        "ex:R rdfs:subClassOf ex:S .",
        _FILLERS.format("owl:someValuesFrom") + "ex:d rdfs:subClassOf ex:c .",
    ),
    "scm-svf2": Row(
        _TWO.format("owl:someValuesFrom") + "ex:p rdfs:subPropertyOf ex:q .",
        "ex:R rdfs:subClassOf ex:S .",
        _TWO.format("owl:someValuesFrom") + "ex:q rdfs:subPropertyOf ex:p .",
    ),
    "scm-avf1": Row(
        _FILLERS.format("owl:allValuesFrom") + "ex:c rdfs:subClassOf ex:d .",
        "ex:R rdfs:subClassOf ex:S .",
        _FILLERS.format("owl:allValuesFrom") + "ex:d rdfs:subClassOf ex:c .",
    ),
    "scm-avf2": Row(
        _TWO.format("owl:allValuesFrom") + "ex:p rdfs:subPropertyOf ex:q .",
        "ex:S rdfs:subClassOf ex:R .",
        _TWO.format("owl:allValuesFrom") + "ex:q rdfs:subPropertyOf ex:p .",
    ),
    "scm-int": Row(_BOTH, "ex:C rdfs:subClassOf ex:B .", "ex:C owl:unionOf ( ex:A ex:B ) ."),
    "scm-uni": Row("ex:C owl:unionOf ( ex:A ex:B ) .", "ex:B rdfs:subClassOf ex:C .", _BOTH),
}

ROWS: Final = TABLE_4 | TABLE_5 | TABLE_6 | TABLE_7 | TABLE_8 | TABLE_9
AXIOMATIC: Final = frozenset({"prp-ap", "cls-thing", "cls-nothing1", "dt-type1"})  # follow from nothing
