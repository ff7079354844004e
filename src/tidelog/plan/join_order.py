"""In which order a rule's literals are matched.

Greedy: from the pivot on, take tests and computations as soon as their variables are bound, then the atom
that is expected to multiply the rows least. What an atom multiplies by is its size divided by the number
of distinct keys it is looked up with.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heappop, heappush
from typing import Protocol

from tidelog.logic.program import (
    Assignment,
    Atom,
    Constant,
    Literal,
    Negation,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.values import Value
from tidelog.rewrite.sideways import Cost

UNKNOWN = 100.0  # facts that an empty relation may have when a plan is run again


class Statistics(Protocol):
    """What the order of a join is decided on."""

    def size(self, relation: str) -> int:
        """How many facts a relation has."""

    def distinct(self, relation: str, column: int) -> float:
        """About how many distinct values a column has, at least 1."""

    def matching(self, relation: str, column: int, value: Value) -> int:
        """How many facts have this value in a column."""


def order(
    body: Sequence[Literal], pivot: int | None, statistics: Statistics, given: Collection[Variable] = ()
) -> tuple[int, ...]:
    """The places of the body's literals in the order in which they are matched, the pivot first.

    Places and not literals, since a body may hold the same literal twice. The variables `given` are bound
    before the first.
    """
    search = _Search(body, statistics, given)
    if pivot is not None:
        search.take(pivot)
    while (chosen := search.next()) is not None:
        search.take(chosen)
    return tuple(search.ordered)


class _Search:
    """The literals ordered so far; one is looked at again only when one of its variables is bound."""

    def __init__(self, body: Sequence[Literal], statistics: Statistics, given: Collection[Variable]) -> None:
        self.ordered: list[int] = []
        self._body = body
        self._statistics = statistics
        self._bound = set(given)
        self._negated_only = negated_only_variables(body) - self._bound
        self._taken = [False] * len(body)
        self._missing = [self._needed(literal) - self._bound for literal in body]
        self._waiting: dict[Variable, list[int]] = {}  # the literals with a variable that is not bound yet
        # Tests before computations: what a test drops need not be computed.
        self._ready: list[tuple[bool, int]] = []
        self._atoms: list[tuple[tuple[float, int], int]] = []
        self._growth: dict[int, tuple[float, int]] = {}  # of each atom, as it is now
        for place, literal in enumerate(body):
            for variable in set(literal_variables(literal)) - self._bound:
                self._waiting.setdefault(variable, []).append(place)
            self._look_at(place)

    def next(self) -> int | None:
        """Return the place of the next literal: a test or computation that is ready, else the best atom."""
        while self._ready:
            _, place = heappop(self._ready)
            if not self._taken[place]:
                return place
        while self._atoms:
            grown, place = heappop(self._atoms)
            if not self._taken[place] and grown == self._growth[place]:
                return place
        return None

    def take(self, place: int) -> None:
        """Match a literal next."""
        was_empty = not self._bound
        self.ordered.append(place)
        self._taken[place] = True
        new = set(literal_variables(self._body[place])) - self._negated_only - self._bound
        self._bound |= new
        # What an atom multiplies by is guessed differently once anything is bound.
        found = range(len(self._body)) if was_empty and new else self._freed(new)
        for other in found:
            if not self._taken[other]:
                self._missing[other] -= new
                self._look_at(other)

    def _freed(self, new: set[Variable]) -> list[int]:
        """Return the places of the literals that have one of these variables, each once."""
        return list(dict.fromkeys(place for variable in new for place in self._waiting.pop(variable, ())))

    def _needed(self, literal: Literal) -> set[Variable]:
        """Return the variables that must be bound before a test, negation or computation."""
        if isinstance(literal, Assignment):
            return set(variables_of(literal.expression))
        return set(literal_variables(literal)) - self._negated_only

    def _look_at(self, place: int) -> None:
        """Note the literal where it may be chosen."""
        literal = self._body[place]
        if isinstance(literal, Atom):
            self._growth[place] = grown = growth(literal, self._bound, self._statistics)
            heappush(self._atoms, (grown, place))
        elif not self._missing[place]:
            heappush(self._ready, (isinstance(literal, Assignment), place))


def growth(atom: Atom, bound: set[Variable], statistics: Statistics) -> tuple[float, int]:
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
    """What rewriting goes by when it orders bodies."""
    return lambda atom, bound: growth(atom, set(bound), statistics)[0]


def negated_only_variables(body: Sequence[Literal]) -> set[Variable]:
    """The variables that occur in one negated atom and nowhere else: they match anything."""
    elsewhere: set[Variable] = set()
    negated: set[Variable] = set()
    for literal in body:
        (negated if isinstance(literal, Negation) else elsewhere).update(literal_variables(literal))
    return negated - elsewhere
