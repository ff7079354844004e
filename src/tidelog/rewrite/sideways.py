"""Sideways information passing: in which order a body hands bindings on.

Beeri, Ramakrishnan: On the Power of Magic, PODS 1987, section 3. The strategy is: tests and computations as
soon as they can be made, then the atom that is best bound, then the cheapest. In words, of the literals that
can come next:

1. comparisons, conditions and computations whose variables are bound, and negations of stated predicates;
2. stated atoms that share a bound variable, the one with the fewest matches to be expected first;
3. derived atoms that share a bound variable: those outside the recursion first, then those with more bound
   arguments;
4. stated, then derived atoms that are bound by constants only;
5. stated, then derived atoms of which nothing is bound;
6. negations of derived predicates, last: the fewer bindings are left, the less is demanded.

What is left to choose goes by the order of the program.

Invariant: each variable is bound before a test, a negation or a computation uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Variable,
    literal_variables,
    variables_of,
)

# How many facts of a stated predicate are to be expected for each binding of the variables.
Cost = Callable[[Atom, Collection[Variable]], float]
# When the turn of a literal is, given the variables that are bound: the least comes first.
Rank = Callable[[Literal, Collection[Variable]], tuple[Any, ...]]

UNKNOWN_SIZE = 1000.0  # facts of a relation nothing is known of
REPEATED = 10.0  # of its facts that have the same value in a column


def unknown_sizes(atom: Atom, bound: Collection[Variable]) -> float:
    """What to expect of a relation nothing is known of: each bound argument leaves a tenth."""
    given = sum(isinstance(term, Constant) or term in bound for term in atom.terms)
    return UNKNOWN_SIZE / REPEATED**given


@dataclass(frozen=True, slots=True)
class Passing:
    """How bodies are ordered: what is derived, what takes part in the head's recursion, what atoms cost."""

    derived: Collection[str]
    recursive: Collection[str] = ()
    cost: Cost = unknown_sizes

    def order(self, body: Sequence[Literal], given: Iterable[Variable]) -> tuple[Literal, ...]:
        """The body in the order in which it is matched, the given variables being bound before.

        A computation of a variable that is bound by then is a test.
        """
        bound = set(given)
        local = _local_variables(body, bound)
        ordered: list[Literal] = []
        for place in arranged(body, bound, local, self._rank):
            literal = body[place]
            if isinstance(literal, Assignment) and literal.variable in bound:
                literal = Comparison("=", literal.variable, literal.expression)
            ordered.append(literal)
            bound.update(set(literal_variables(literal)) - local)
        return tuple(ordered)

    def _rank(self, literal: Literal, bound: Collection[Variable]) -> tuple[int, float]:
        """When the turn of a literal is that can come next, the least first."""
        match literal:
            case Atom():
                return self._rank_of_atom(literal, bound)
            case Negation(atom) if atom.predicate in self.derived:
                return _LAST, 0
            case Assignment():
                return _COMPUTATION, 0
            case _:
                return _TEST, 0

    def _rank_of_atom(self, atom: Atom, bound: Collection[Variable]) -> tuple[int, float]:
        is_derived = atom.predicate in self.derived
        given = sum(isinstance(term, Constant) or term in bound for term in atom.terms)
        is_joined = any(term in bound for term in atom.terms) or not _has_variables(atom)
        group = _JOINED if is_joined else _BY_CONSTANTS if given else _UNBOUND
        if not is_derived:
            return group, self.cost(atom, bound)
        free = len(atom.terms) - given
        return group + 1, free + (len(atom.terms) if atom.predicate in self.recursive else 0)


def arranged(
    body: Sequence[Literal],
    given: Iterable[Variable],
    local: Collection[Variable],
    rank: Rank,
    first: int | None = None,
) -> tuple[int, ...]:
    """Return the places of a body's literals, always the one of least rank next; `first` comes first.

    Atoms may come at any time, other literals once their variables are bound, but for those that are
    `local`. The variables `given` are bound from the beginning.
    """
    search = _Search(body, set(given), local, rank)
    if first is not None:
        search.take(first)
    while (place := search.next()) is not None:
        search.take(place)
    return tuple(search.ordered)


class _Search:
    """The literals ordered so far; one is looked at again only when one of its variables is bound.

    So a body of thousands of literals is ordered in milliseconds.
    """

    def __init__(
        self, body: Sequence[Literal], bound: set[Variable], local: Collection[Variable], rank: Rank
    ) -> None:
        self.ordered: list[int] = []
        self._body = body
        self._bound = bound
        self._local = local
        self._rank = rank
        self._taken = [False] * len(body)
        self._missing = [self._needed(literal) - bound for literal in body]
        self._waiting: dict[Variable, list[int]] = {}  # the literals with a variable that is not bound yet
        self._heap: list[tuple[Any, int]] = []
        self._ranks: list[Any] = [None] * len(body)  # as they are now
        for place, literal in enumerate(body):
            for variable in set(literal_variables(literal)) - bound:
                self._waiting.setdefault(variable, []).append(place)
            self._look_at(place)

    def next(self) -> int | None:
        """Return the place of the next literal, None after the last."""
        while self._heap:
            rank, place = heappop(self._heap)
            if not self._taken[place] and rank == self._ranks[place]:
                return place
        return None

    def take(self, place: int) -> None:
        """Match a literal next."""
        was_empty = not self._bound
        self.ordered.append(place)
        self._taken[place] = True
        new = set(literal_variables(self._body[place])).difference(self._local, self._bound)
        self._bound |= new
        # What an atom costs is guessed differently once anything is bound.
        found = range(len(self._body)) if was_empty and new else self._freed(new)
        for other in found:
            if not self._taken[other]:
                self._missing[other] -= new
                self._look_at(other)

    def _freed(self, new: set[Variable]) -> list[int]:
        """Return the places of the literals that have one of these variables, each once."""
        return list(dict.fromkeys(place for variable in new for place in self._waiting.pop(variable, ())))

    def _needed(self, literal: Literal) -> set[Variable]:
        """Return the variables that must be bound before a literal can come."""
        if isinstance(literal, Atom):
            return set()
        if isinstance(literal, Assignment):
            return set(variables_of(literal.expression))
        return set(literal_variables(literal)).difference(self._local)

    def _look_at(self, place: int) -> None:
        """Note the literal where it may be chosen."""
        if not self._missing[place]:
            self._ranks[place] = rank = self._rank(self._body[place], self._bound)
            heappush(self._heap, (rank, place))


# The ranks of literals; of atoms, a derived one comes one place after a stated one.
_TEST, _COMPUTATION, _JOINED, _BY_CONSTANTS, _UNBOUND, _LAST = 0, 1, 2, 4, 6, 8


def _has_variables(atom: Atom) -> bool:
    return any(isinstance(term, Variable) for term in atom.terms)


def _local_variables(body: Sequence[Literal], given: Collection[Variable]) -> set[Variable]:
    """The variables of negations that occur nowhere else: any value will do for them."""
    elsewhere, negated = set(given), set[Variable]()
    for literal in body:
        (negated if isinstance(literal, Negation) else elsewhere).update(literal_variables(literal))
    return negated - elsewhere
