"""Aggregation over columns of ids: groups by sorting, integers by NumPy, all else by definition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids, Rows
from tidelog.logic.functions.builtins import AGGREGATES, evaluate
from tidelog.logic.program import Aggregation, Assignment, Constant, Variable
from tidelog.logic.values import Kind
from tidelog.plan.algebra import Aggregate

Places = npt.NDArray[np.int64]
SAFE_SUM = 2.0**62


def group_facts(root: Aggregate, given: Rows, dictionary: Dictionary) -> tuple[Rows, int]:
    """Return the facts derived from groups of the given rows, and how many groups lack a value."""
    variables = [term for term in root.input.terms if isinstance(term, Variable)]
    columns = dict(zip(variables, given.columns, strict=True))
    groups = aggregate(columns, given.count, root.group, root.aggregations, dictionary)
    rows = len(next(iter(groups.values())))
    for assignment in root.after:
        groups[assignment.variable] = _computed(assignment, groups, rows, dictionary)
    has_values = np.ones(rows, bool)
    for column in groups.values():
        has_values &= column >= 0
    ids = [
        np.full(rows, dictionary.encode(term.value), np.int32) if isinstance(term, Constant) else groups[term]
        for term in root.terms
    ]
    count = int(has_values.sum())
    return Rows(tuple(column[has_values] for column in ids), count), rows - count


def _computed(assignment: Assignment, groups: dict[Variable, Ids], rows: int, dictionary: Dictionary) -> Ids:
    """Return the ids of an expression over the groups' columns; -1 where it, or a column, has no value."""
    out = np.full(rows, -1, np.int32)
    names = tuple(groups)
    for place, key in enumerate(zip(*(column.tolist() for column in groups.values()), strict=True)):
        if min(key) < 0:
            continue
        binding = dict(zip(names, map(dictionary.decode, key), strict=True))
        value = evaluate(assignment.expression, binding)
        if value is not None:
            out[place] = dictionary.encode(value)
    return out


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
