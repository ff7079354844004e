"""Join order: in which order a rule's literals are matched, by estimates of sizes, and how long that fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

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
from tidelog.records import dataclass
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


# ---- plans that are prepared once and run many times, until relations have changed too much
#
# Invariant: a cached plan is used as long as the relations that it reads have about the size for which its
# order of joins was chosen. A plan made for empty relations would join everything with everything later on.

Key = TypeVar("Key", bound=Hashable)
Plan = TypeVar("Plan")


@dataclass(frozen=True, slots=True)
class Freshness:
    """How much relations may change in size before their plans are made again."""

    grown: int = 4  # they may grow by this factor,
    small: int = 1000  # and up to this size in any case,
    from_empty: bool = True  # those that had no rows too
    shrinks: bool = False  # whether they may not shrink by more than the factor either
    every: int = 1  # sizes are compared once in this many uses

    def limit(self, size: int) -> int:
        """The size up to which a plan fits that was made for this size."""
        return max(self.grown * size, self.small if size or self.from_empty else 0)

    def is_stale(self, planned: int, size: int) -> bool:
        """Whether a plan that was made for one size does not fit another."""
        return size > self.limit(planned) or (self.shrinks and planned > self.limit(size))


class PlannedSizes:
    """The sizes of relations for which plans were made; `size` returns the present one. Mutable."""

    def __init__(self, freshness: Freshness) -> None:
        self._freshness = freshness
        self._sizes: dict[str, int] = {}
        self._uses = 0
        self.are_known = False

    @property
    def relations(self) -> Collection[str]:
        """The relations that the plans read."""
        return self._sizes.keys()

    def note(self, relations: Iterable[str], size: Callable[[str], int]) -> None:
        """Record that plans were made for the relations as they are now."""
        self._sizes = {name: size(name) for name in relations}
        self.are_known = True

    @property
    def limits(self) -> Mapping[str, int]:
        """The size of each relation up to which the plans fit."""
        return {name: self._freshness.limit(size) for name, size in self._sizes.items()}

    def stale(self, size: Callable[[str], int]) -> list[str]:
        """Return the relations whose sizes no longer fit the plans."""
        is_stale = self._freshness.is_stale
        return [
            name
            for name, planned in self._sizes.items()
            if (size_now := size(name)) != planned and is_stale(planned, size_now)
        ]

    def is_due(self) -> bool:
        """Count a use; return whether sizes are to be compared this time."""
        self._uses += 1
        return self._uses % self._freshness.every == 0


class PlanCache(Generic[Key, Plan]):
    """Plans by key, each made again when it does not fit the sizes of its relations."""

    def __init__(self, freshness: Freshness) -> None:
        self._freshness = freshness
        self._plans: dict[Key, tuple[PlannedSizes, Plan]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._plans

    def get(
        self, key: Key, relations: Iterable[str], size: Callable[[str], int], make: Callable[[], Plan]
    ) -> Plan:
        """Return the plan of a key, which reads the relations; make it now unless there is one that fits."""
        cached = self._plans.get(key)
        if cached is None or cached[0].stale(size):
            sizes = PlannedSizes(self._freshness)
            sizes.note(relations, size)
            cached = self._plans[key] = sizes, make()
        return cached[1]

    def keep(self, is_kept: Callable[[Key], bool]) -> None:
        """Drop the plans of all other keys."""
        self._plans = {key: cached for key, cached in self._plans.items() if is_kept(key)}
