"""Join order: the order in which a rule's literals are matched, and size estimates without evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from tidelog.logic.program import (
    Assignment,
    Atom,
    Constant,
    Literal,
    Negation,
    Program,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Value
from tidelog.rewrite.auxiliary_relations import Cost, arranged

# ---- the order in which a rule's literals are matched
#
# Greedy: from the pivot on, take tests and computations as soon as their variables are bound, then the atom
# that is expected to multiply the rows least. What an atom multiplies by is its size divided by the number
# of distinct keys it is looked up with.

UNKNOWN = 100.0  # facts that an empty relation may have when a plan is run again


class Statistics(Protocol):
    """The statistics that determine the join order."""

    def size(self, relation: str) -> int:
        """How many facts a relation has."""

    def distinct(self, relation: str, column: int) -> float:
        """About how many distinct values a column has, at least 1."""

    def matching(self, relation: str, column: int, value: Value) -> int:
        """The number of facts with this value in a column."""


def order(
    body: Sequence[Literal], pivot: int | None, statistics: Statistics, given: Collection[Variable] = ()
) -> tuple[int, ...]:
    """Return the positions of the body's literals in the order in which they are matched, the pivot first.

    Positions and not literals, since a body may hold the same literal twice. The variables `given` are bound
    before the first.
    """
    local = negated_only_variables(body) - set(given)

    def rank(literal: Literal, bound: Collection[Variable]) -> tuple[int, tuple[float, int]]:
        if isinstance(literal, Atom):
            return 2, growth(literal, bound, statistics)
        # Tests before computations: rows that a test drops need no computation.
        return int(isinstance(literal, Assignment)), (0.0, 0)

    return arranged(body, given, local, rank, pivot)


def growth(atom: Atom, bound: Collection[Variable], statistics: Statistics) -> tuple[float, int]:
    """By how much joining the atom is expected to multiply the rows, and the atom's size to break ties."""
    size = statistics.size(atom.predicate)
    # A plan outlives the sizes that it was made for: what is empty now must not invite to a cross product.
    rows = float(size) if size or not bound else UNKNOWN
    free, is_joined = False, not bound
    for column, term in enumerate(atom.terms):
        if isinstance(term, Constant):
            # Constants are often rare or very frequent: counting beats guessing.
            rows *= statistics.matching(atom.predicate, column, term.value) / max(size, 1)
        elif term in bound:
            rows /= statistics.distinct(atom.predicate, column)
            is_joined = True
        else:
            free = True
    if not is_joined:
        # Nor must a constant that few facts have now: a round later they may be many.
        rows = max(rows, min(float(size), UNKNOWN))
    # A test of membership reads no list: it comes before a probe that is expected to find as many rows.
    return (min(rows, 1.0) * 0.5 if not free else max(rows, 1e-3)), size


def expected_growth(statistics: Statistics) -> Cost:
    """Return the cost by which rewriting orders bodies."""
    return lambda atom, bound: growth(atom, bound, statistics)[0]


def negated_only_variables(body: Sequence[Literal]) -> set[Variable]:
    """The variables that occur in one negated atom and nowhere else: they match anything."""
    others: set[Variable] = set()
    negated: set[Variable] = set()
    for literal in body:
        (negated if isinstance(literal, Negation) else others).update(literal_variables(literal))
    return negated - others


# ---- statistics for plans made without evaluation

ASSUMED: Final = 1000  # facts of a relation that is derived, imported or given
REPEATED: Final = 10  # facts that such a relation has for each value of a column


class ProgramStatistics:
    """Statistics of the facts in a program; other relations are taken to have `ASSUMED` facts."""

    def __init__(self, program: Program) -> None:
        unknown = program.derived | {transfer.predicate for transfer in program.imports}
        self._columns: dict[str, list[Counter[Value]]] = {}
        self._sizes: Counter[str] = Counter()
        for fact in program.facts:
            if fact.predicate not in unknown:
                self._sizes[fact.predicate] += 1
                columns = self._columns.setdefault(fact.predicate, [Counter() for _ in fact.values])
                for column, value in zip(columns, fact.values, strict=True):
                    column[value] += 1

    def is_known(self, relation: str) -> bool:
        """Whether the relation's size is counted, not assumed."""
        return relation in self._sizes

    def size(self, relation: str) -> int:
        """How many facts a relation has."""
        return self._sizes.get(relation, ASSUMED)

    def distinct(self, relation: str, column: int) -> float:
        """The number of distinct values in a column."""
        columns = self._columns.get(relation)
        return ASSUMED / REPEATED if columns is None else max(1.0, len(columns[column]))

    def matching(self, relation: str, column: int, value: Value) -> int:
        """The number of facts with this value in a column."""
        columns = self._columns.get(relation)
        return REPEATED if columns is None else columns[column][value]
