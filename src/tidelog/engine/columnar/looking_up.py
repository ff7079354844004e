"""Queries with constants as joins with them, where scans of a large relation have become many.

A scan looks at every row of its relation for a constant. An index costs some scans to make, is kept right
when facts change, and then answers at once: so a query is answered by scans as long as these have cost
less. A fact of which nothing is open is looked for in the set of rows, which is there anyhow.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from tidelog.logic.program import Atom, Constant, Rule, Term, Variable
from tidelog.logic.values import Value
from tidelog.plan.compile import best_pivot
from tidelog.plan.join_order import Statistics

GIVEN = "?- given"  # the relation of the constants, in one row; a name with a space is no predicate's
LARGE = 10_000  # rows from which a scan costs more than what a query costs anyhow
PATIENCE = 16  # scans that an index costs


@dataclass(frozen=True, slots=True)
class Joined:
    """A rule that joins constants with the relation that it would have scanned for them."""

    rule: Rule
    constants: tuple[Value, ...]


class LookUps:
    """The scans that there were, by relation and the columns of constants. Mutates itself."""

    def __init__(self) -> None:
        self._scans: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def joined(self, rule: Rule, statistics: Statistics) -> Joined | None:
        """The rule by which a query is answered, if not by scanning."""
        pivot = best_pivot(rule.body, statistics)
        atom = None if pivot is None else rule.body[pivot]
        if pivot is None or not isinstance(atom, Atom) or statistics.size(atom.predicate) < LARGE:
            return None
        columns = tuple(place for place, term in enumerate(atom.terms) if isinstance(term, Constant))
        if not columns:
            return None
        if len(columns) < len(atom.terms):
            self._scans[atom.predicate, columns] += 1
            if self._scans[atom.predicate, columns] <= PATIENCE:
                return None
        return _with_given(rule, pivot, atom)


def _with_given(rule: Rule, pivot: int, atom: Atom) -> Joined:
    terms: list[Term] = []
    given: list[Term] = []
    constants: list[Value] = []
    for place, term in enumerate(atom.terms):
        if isinstance(term, Constant):
            constants.append(term.value)
            term = Variable(f"given {place}")
            given.append(term)
        terms.append(term)
    asked = Atom(atom.predicate, tuple(terms))
    body = (Atom(GIVEN, tuple(given)), *rule.body[:pivot], asked, *rule.body[pivot + 1 :])
    return Joined(replace(rule, body=body), tuple(constants))
