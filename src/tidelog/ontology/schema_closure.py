"""The triples of an ontology, the names of RDF and OWL, and what the tables derive from the triples alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from tidelog.data.columns import Batch, column_of_values
from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Columns
from tidelog.engine.columnar.engine import settings_of
from tidelog.engine.events import Audience
from tidelog.engine.fixpoint import derive
from tidelog.io.data_file import data_file
from tidelog.io.reader import read
from tidelog.logic.program import Atom, Constant, Predicate, Program, Term, Variable, facts_by_predicate
from tidelog.logic.strata import strata
from tidelog.logic.values import Value, iri
from tidelog.records import dataclass

# ---- names of RDF, RDFS and OWL

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


# ---- triples of an ontology

Row = tuple[Value, ...]
Binding = dict[Variable, Term]


def read_triples(paths: Iterable[Path], predicate: Predicate) -> list[Batch]:
    """The triples of the files of an ontology."""
    return [batch for path in paths for batch in read(data_file(path, predicate))]


@dataclass(frozen=True)
class Closure:
    """The explicit triples of an ontology, and all facts that follow from them."""

    explicit: frozenset[Row]
    facts: Mapping[str, frozenset[Row]]


def close(program: Program, triples: Sequence[Batch]) -> Closure:
    """All facts that the program derives from triples, inconsistent or not."""
    engine = settings_of("columnar").make(1, len(program.predicates))
    for predicate in program.predicates.values():
        engine.storage.define(predicate.name, predicate.arity)
    for batch in triples:
        engine.storage.load(TRIPLE, batch)
    explicit = frozenset(_decoded(engine.storage.rows(TRIPLE), engine.storage.dictionary))
    for name, facts_of_name in facts_by_predicate(program.facts).items():
        columns = zip(*(fact.values for fact in facts_of_name), strict=True)
        engine.storage.load(name, Batch(tuple(map(column_of_values, columns)), len(facts_of_name)))
    numbers = {id(rule): position for position, rule in enumerate(program.rules)}
    derive(
        engine, strata(program.rules, program.predicates), numbers, Audience([]), engine.limits.check, False
    )
    facts = {
        name: frozenset(_decoded(engine.storage.rows(name), engine.storage.dictionary))
        for name in program.predicates
    }
    return Closure(explicit, facts)


def _decoded(facts: tuple[Columns, int], dictionary: Dictionary) -> Iterator[Row]:
    """The values of facts that are given as columns of ids and their number."""
    columns, count = facts
    if not columns:
        return iter([()] * count)
    return zip(*(dictionary.decode_all(column.tolist()) for column in columns), strict=True)


# ---- matching


@dataclass
class FactIndex:
    """Facts to be matched, indexed by the terms that are known. Mutable: indexes are built on demand."""

    facts: Mapping[str, Iterable[Row]]
    _found: dict[tuple[str, tuple[int, ...]], dict[Row, list[Row]]] = field(default_factory=dict)
    _rows: dict[str, list[Row]] = field(default_factory=dict)

    def solutions(self, atoms: Sequence[Atom], binding: Binding | None = None) -> Iterator[Binding]:
        """Yield the bindings of variables by which all atoms are facts."""
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
            (position, binding.get(term, term) if isinstance(term, Variable) else term)
            for position, term in enumerate(atom.terms)
        ]
        fixed = [(position, term.value) for position, term in known if isinstance(term, Constant)]
        positions = tuple(position for position, _ in fixed)
        index = self._found.get((atom.predicate, positions))
        if index is None:
            index = defaultdict(list)
            for row in self._sorted(atom.predicate):
                index[tuple(row[position] for position in positions)].append(row)
            self._found[atom.predicate, positions] = index
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
