"""An ontology's triples, the names of RDF and OWL, and what the tables conclude from them alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidelog.data.columns import Batch, column_of_values
from tidelog.engine.fixpoint import derive
from tidelog.engine.registry import settings_of
from tidelog.io.data_file import data_file
from tidelog.io.reader import read
from tidelog.logic.program import Atom, Constant, Fact, Predicate, Program, Term, Variable
from tidelog.logic.strata import strata
from tidelog.logic.values import Value, iri

# ---- The names of RDF, RDFS and OWL that the translation of ontologies knows.

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


# ---- An ontology's triples, and what the tables conclude from them alone.

Row = tuple[Value, ...]
Binding = dict[Variable, Term]


def read_triples(paths: Iterable[Path], predicate: Predicate) -> list[Batch]:
    """The triples of the files of an ontology."""
    return [batch for path in paths for batch in read(data_file(path, predicate))]


@dataclass(frozen=True)
class Closure:
    """The stated triples of an ontology, and all facts that follow from them."""

    stated: frozenset[Row]
    facts: Mapping[str, frozenset[Row]]


def close(
    program: Program, triples: Sequence[Batch], tell: Callable[[str], None] = lambda notice: None
) -> Closure:
    """All that the program derives from some triples, inconsistent or not."""
    engine = settings_of("columnar").make(1, len(program.predicates))
    for predicate in program.predicates.values():
        engine.storage.define(predicate.name, predicate.arity)
    for batch in triples:
        engine.storage.load(TRIPLE, batch)
    stated = frozenset(_rows(engine, TRIPLE))
    for name, rows in _by_predicate(program.facts).items():
        engine.storage.load(name, Batch(tuple(map(column_of_values, zip(*rows, strict=True))), len(rows)))
    numbers = {id(rule): place for place, rule in enumerate(program.rules)}
    derive(engine, strata(program.rules, program.predicates), numbers, _ignore, _proceed, False)
    facts = {name: frozenset(_rows(engine, name)) for name in program.predicates}
    return Closure(stated, facts)


def _rows(engine: Any, name: str) -> Iterator[Row]:
    columns, count = engine.rows(name)
    if not columns:
        return iter([()] * count)
    return zip(*(engine.dictionary.decode_all(column.tolist()) for column in columns), strict=True)


def _by_predicate(facts: Iterable[Fact]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for fact in facts:
        found[fact.predicate].append(fact.values)
    return found


def _ignore(event: object) -> None:
    """Ignore an event."""


def _proceed() -> None:
    """Nothing stops this."""


# ---- matching


@dataclass
class Index:
    """Facts to be matched, found by the terms that are known. Mutable: it learns as it is asked."""

    facts: Mapping[str, Iterable[Row]]
    _found: dict[tuple[str, tuple[int, ...]], dict[Row, list[Row]]] = field(default_factory=dict)
    _rows: dict[str, list[Row]] = field(default_factory=dict)

    def solutions(self, atoms: Sequence[Atom], binding: Binding | None = None) -> Iterator[Binding]:
        """What the variables may stand for, so that all atoms are facts."""
        binding = binding or {}
        if not atoms:
            yield binding
            return
        atom = max(atoms, key=lambda atom: sum(_is_known(term, binding) for term in atom.terms))
        rest = [other for other in atoms if other is not atom]
        for row in self._matching(atom, binding):
            extended = _extended(atom, row, binding)
            if extended is not None:
                yield from self.solutions(rest, extended)

    def _matching(self, atom: Atom, binding: Binding) -> list[Row]:
        """The facts that have the atom's known terms."""
        known = [
            (place, binding.get(term, term) if isinstance(term, Variable) else term)
            for place, term in enumerate(atom.terms)
        ]
        fixed = [(place, term.value) for place, term in known if isinstance(term, Constant)]
        places = tuple(place for place, _ in fixed)
        index = self._found.get((atom.predicate, places))
        if index is None:
            index = defaultdict(list)
            for row in self._sorted(atom.predicate):
                index[tuple(row[place] for place in places)].append(row)
            self._found[atom.predicate, places] = index
        return index.get(tuple(value for _, value in fixed), [])

    def _sorted(self, predicate: str) -> list[Row]:
        """The facts of a predicate in an order that is the same in every run."""
        rows = self._rows.get(predicate)
        if rows is None:
            rows = self._rows[predicate] = sorted(self.facts.get(predicate, ()), key=repr)
        return rows


def _is_known(term: Term, binding: Binding) -> bool:
    return isinstance(term, Constant) or term in binding


def _extended(atom: Atom, row: Row, binding: Binding) -> Binding | None:
    """The binding with which the atom is the fact; None if there is none."""
    extended = dict(binding)
    for term, value in zip(atom.terms, row, strict=True):
        bound = extended.get(term, term) if isinstance(term, Variable) else term
        if isinstance(bound, Variable):
            extended[bound] = Constant(value)
        elif bound.value != value:
            return None
    return extended
