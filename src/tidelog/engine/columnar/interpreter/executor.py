"""Queries with constants as joins with them, and aggregation over columns of ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tidelog.data.dictionary import Dictionary
from tidelog.logic.functions.builtins import AGGREGATES
from tidelog.logic.program import Aggregation, Atom, Constant, Rule, Term, Variable
from tidelog.logic.values import Kind, Value
from tidelog.plan.compile import best_pivot
from tidelog.plan.join_order import Statistics

# ---- Aggregation over columns of ids: groups by sorting, integers by NumPy, all else by definition.

Ids = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]
SAFE_SUM = 2.0**62


def distinct_rows(columns: Sequence[Ids], rows: int) -> Places:
    """The places of the distinct rows, in the order of their ids, first column first."""
    if not columns:
        return np.arange(min(rows, 1))
    order = np.lexsort(columns[::-1])
    return order[_starts_of_runs([column[order] for column in columns])]


def _starts_of_runs(columns: Sequence[Ids]) -> npt.NDArray[np.bool_]:
    """True where a row of sorted columns differs from the one before."""
    starts = np.zeros(len(columns[0]), bool)
    starts[:1] = True
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    return starts


def aggregate(
    columns: dict[Variable, Ids],
    rows: int,
    group: Sequence[Variable],
    aggregations: Sequence[Aggregation],
    dictionary: Dictionary,
) -> dict[Variable, Ids]:
    """One row per group: the group's columns and each aggregation's; groups without a value have id -1.

    The given rows are distinct.
    """
    keys = [columns[variable] for variable in group]
    groups = distinct_rows(keys, rows)
    result = {variable: columns[variable][groups] for variable in group}
    for aggregation in aggregations:
        values, bounds = _aggregated_rows(columns, rows, keys, aggregation, dictionary)
        result[aggregation.variable] = _compute(aggregation.function, values, bounds, dictionary)
    return result


def _aggregated_rows(
    columns: dict[Variable, Ids],
    rows: int,
    keys: Sequence[Ids],
    aggregation: Aggregation,
    dictionary: Dictionary,
) -> tuple[list[Ids], Places]:
    """The distinct (group, arguments) rows in the order of the groups, and where each group begins."""
    arguments = [
        columns[term]
        if isinstance(term, Variable)
        else np.full(rows, dictionary.encode(term.value), np.int32)
        for term in aggregation.arguments
        if isinstance(term, Variable | Constant)
    ]
    places = distinct_rows([*keys, *arguments], rows)
    values = [argument[places] for argument in arguments]
    if not keys:
        return values, np.zeros(min(len(places), 1), np.int64)
    return values, np.flatnonzero(_starts_of_runs([key[places] for key in keys]))


def _compute(function: str, values: list[Ids], bounds: Places, dictionary: Dictionary) -> Ids:
    rows = len(values[0])
    if not len(bounds):
        return np.zeros(0, np.int32)
    if function == "count":
        return dictionary.encode_numbers(Kind.INTEGER, np.diff(bounds, append=rows))
    first = values[0]
    if function != "avg" and (dictionary.kind[first] == Kind.INTEGER).all():
        numbers = _integers(function, dictionary.payload[first], bounds)
        if numbers is not None:
            return dictionary.encode_numbers(Kind.INTEGER, numbers)
    return _by_definition(function, values, bounds, dictionary)


def _integers(function: str, numbers: npt.NDArray[np.int64], bounds: Places) -> npt.NDArray[np.int64] | None:
    """The aggregate of integers per group, or None where a sum may leave 64 bits."""
    if function == "min":
        return np.minimum.reduceat(numbers, bounds)
    if function == "max":
        return np.maximum.reduceat(numbers, bounds)
    if np.abs(np.add.reduceat(np.abs(numbers.astype(np.float64)), bounds)).max() > SAFE_SUM:
        return None
    return np.add.reduceat(numbers, bounds)


def _by_definition(function: str, values: list[Ids], bounds: Places, dictionary: Dictionary) -> Ids:
    decoded = [dictionary.decode_all(column.tolist()) for column in values]
    rows = list(zip(*decoded, strict=True))
    ends = [*bounds[1:].tolist(), len(rows)]
    ids = np.empty(len(bounds), np.int32)
    for place, (start, end) in enumerate(zip(bounds.tolist(), ends, strict=True)):
        value = AGGREGATES[function](rows[start:end])
        ids[place] = -1 if value is None else dictionary.encode(value)
    return ids


# ---- Queries with constants as joins with them, where scans of a large relation have become many.
#
# A scan looks at every row of its relation for a constant. An index costs some scans to make, is kept right
# when facts change, and then answers at once: so a query is answered by scans as long as these have cost
# less. A fact of which nothing is open is looked for in the set of rows, which is there anyhow.

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
