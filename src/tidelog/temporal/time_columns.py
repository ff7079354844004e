"""Times in data: columns of intervals, or of starts and ends, read as integers; the types of such columns.

The type of bounds depends on the program and the types of its data, never on the rows. Derived facts have
bounds that are sums of explicit bounds and of lengths in rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.data.arrow import pc
from tidelog.data.columns import Batch, with_bounds
from tidelog.errors import DataError, Diagnostic, counted
from tidelog.errors.codes import NOT_A_TIME, WRONG_WIDTH
from tidelog.io.arrow_files import validated
from tidelog.io.data_file import DURATION, START
from tidelog.io.python_data import SHOWN
from tidelog.logic.expressions import intervals_of
from tidelog.logic.intervals import Interval, read_interval, read_point
from tidelog.logic.program import Program, TimedFact
from tidelog.temporal.interval_kernels import INFINITY, LIMIT
from tidelog.temporal.interval_table import Integers, Timeline, as_integers
from tidelog.temporal.timed_changes import RowTimes, times_of
from tidelog.temporal.timed_relation import BOUNDS, INTERVAL

_MICROSECONDS = 1_000_000


class Bound(Enum):
    """The type of the bounds of intervals in data."""

    WHOLE = "whole"
    MOMENT = "moment"
    TEXT = "text"  # exact, of any kind


def bound_of(program: Program, given: Iterable[Bound], horizon: Interval | None) -> Bound:
    """The type of all bounds in a program that is given data with such bounds."""
    if program.is_integer_time:
        return Bound.WHOLE
    columns = list(given)
    lengths = [
        point for rule in program.timed_rules for one in intervals_of(rule) for point in _bound_points(one)
    ]
    explicit = [fact.interval for fact in program.facts if isinstance(fact, TimedFact)]
    explicit += [] if horizon is None else [horizon]
    points = [point for interval in explicit for point in _bound_points(interval)]
    if Bound.MOMENT in columns or any(interval.is_calendar for interval in explicit):
        is_fine = all((point * _MICROSECONDS).denominator == 1 for point in (*points, *lengths))
        return Bound.MOMENT if is_fine and set(columns) <= {Bound.MOMENT} else Bound.TEXT
    is_whole = all(point.denominator == 1 for point in (*points, *lengths))
    return Bound.WHOLE if is_whole and set(columns) <= {Bound.WHOLE} else Bound.TEXT


def _bound_points(interval: Interval) -> Iterator[Fraction]:
    yield from (point for point in (interval.start, interval.end) if point is not None)


OUT_OF_RANGE = "a time leaves the range of 64 bits"
_UNITS = {"s": 1, "ms": 1000, "us": _MICROSECONDS, "ns": 1_000_000_000}


def split_rows(data: object, arity: int | None, is_integer: bool) -> tuple[object, RowTimes] | None:
    """Split data into rows without times, and the times; None if it has no times.

    Rows are tuples with an interval, or a text that writes one, behind the arguments; tables have a column
    `interval`, or `start` and `end`, perhaps with `start_open` and `end_open`.
    """
    if type(data) is list and data and isinstance(data[0], tuple) and len(data[0]) == arity:
        return None  # the usual case: all inserted data is checked
    table = _table(data)
    if table is not None:
        return _split_table(table, arity, is_integer)
    rows = list(data) if isinstance(data, Sequence) else None
    if not rows or not _ends_with_time(rows[0], arity):
        return None
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if not isinstance(row, tuple) or len(row) != width:
            has = counted(len(row), "column") if isinstance(row, tuple) else "no columns"
            message = f"the row has {has} instead of {width}, the last of which says when it holds"
            raise DataError(Diagnostic(WRONG_WIDTH, message, place=f"{SHOWN}:{number}"))
    intervals = [one if isinstance(one, Interval) else _read(str(one)) for *_, one in rows]
    return [row[:-1] for row in rows], times_of(intervals, is_integer)


def _ends_with_time(row: object, arity: int | None) -> bool:
    """Whether a row has, behind its arguments, an interval or a text that begins as one."""
    if not isinstance(row, tuple) or not row or (arity is not None and len(row) != arity + 1):
        return False
    last = row[-1]
    if arity is None:
        return isinstance(last, Interval)
    return isinstance(last, Interval) or (isinstance(last, str) and last.startswith(("[", "(")))


def _table(data: object) -> Any | None:
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns"):
        return pa.table(data)
    return None


def _split_table(table: Any, arity: int | None, is_integer: bool) -> tuple[object, RowTimes] | None:
    names = time_columns(table.column_names, arity)
    if not names:
        return None
    columns = [validated(table.column(name), name, SHOWN) for name in names]
    times = read_times(columns, tuple(names), is_integer)
    return table.drop_columns(names), times


def time_columns(names: Sequence[str], arity: int | None) -> list[str]:
    """The columns of a table with the times of its rows; none if all are arguments of the predicate."""
    if arity is not None and len(names) == arity:
        return []
    if INTERVAL in names:
        return [INTERVAL]
    if {"start", "end"} <= set(names) or {"start", DURATION} <= set(names):
        present = [name for name in (*BOUNDS[:2], DURATION, *BOUNDS[2:]) if name in names]
        return [name for name in present if name != DURATION or "end" not in names]
    return []


def split_batch(batch: Batch, names: tuple[str, ...], is_integer: bool) -> tuple[Batch, RowTimes]:
    """Split rows of a file into arguments, and the times, which are the last columns."""
    count = len(batch.columns) - len(names)
    times = read_times([column.values for column in batch.columns[count:]], names, is_integer)
    return Batch(batch.columns[:count], batch.rows), times


def read_times(arrays: Sequence[Any], names: Sequence[str], is_integer: bool) -> RowTimes:
    """Read times from columns: intervals, points, start and end, or start and duration; two more columns are
    whether the bounds are open.
    """
    arrays = [one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in arrays]
    if len(arrays) == 1 and names[0] == START:
        arrays = [arrays[0], arrays[0]]
    elif len(arrays) == 1:
        return _intervals(arrays[0], is_integer)
    arrays = with_bounds(arrays, len(arrays))
    start, end = _points(arrays[0]), _points(arrays[1])
    if len(names) > 1 and names[1] == DURATION:
        end = _added(start, end)
    scale = lcm(start[1], end[1])
    opened = [np.zeros(len(arrays[0]), bool)] * 2
    for number, array in enumerate(arrays[2:4]):
        opened[number] = np.asarray(_truths(array))
    timeline = Timeline(scale, is_integer, start[2] or end[2])
    left = _ends(start, scale, opened[0], 1, timeline)
    right = _ends(end, scale, opened[1], -1, timeline)
    empty = np.flatnonzero(left > right)
    if len(empty):
        row = int(empty[0])
        bounds = f"from {arrays[0][row]} to {arrays[1][row]}"
        raise DataError(Diagnostic(NOT_A_TIME, f"row {row + 1}: no time point lies {bounds}"))
    return RowTimes(timeline, left, right)


def _added(start: _Points, length: _Points) -> _Points:
    """The ends of intervals, from their starts and durations."""
    scale = lcm(start[1], length[1])
    points, lengths = start[0], length[0]
    is_infinite = (np.abs(points) >= INFINITY) | (lengths >= INFINITY)
    factors = scale // start[1], scale // length[1]
    parts = zip((points, lengths), factors, strict=True)
    largest = sum(float(np.abs(part[~is_infinite]).max(initial=0)) * factor for part, factor in parts)
    if largest > LIMIT:
        raise DataError(Diagnostic(NOT_A_TIME, OUT_OF_RANGE))
    ends = np.where(is_infinite, 0, points) * factors[0] + np.where(is_infinite, 0, lengths) * factors[1]
    return np.where(is_infinite, INFINITY, ends), scale, start[2]


def _truths(array: Any) -> Any:
    if pa.types.is_boolean(array.type):
        return array
    return pc.equal(pc.utf8_lower(array.cast(pa.large_string())), "true")


def _intervals(texts: Any, is_integer: bool) -> RowTimes:
    encoded = pc.dictionary_encode(texts.cast(pa.large_string()))
    distinct = times_of([_read(text) for text in encoded.dictionary.to_pylist()], is_integer)
    rows = np.asarray(encoded.indices)
    return RowTimes(distinct.timeline, distinct.left[rows], distinct.right[rows])


def _read(text: str) -> Interval:
    try:
        return read_interval(text)
    except ValueError as fault:
        raise DataError(Diagnostic(NOT_A_TIME, str(fault))) from None


_Points = tuple[Integers, int, bool]  # in units of 1 / scale, the scale, whether they are dateTimes


def _points(array: Any) -> _Points:
    """The time points of a column; infinite ones are beyond all others."""
    kind = array.type
    if pa.types.is_integer(kind):
        return as_integers(array), 1, False
    if pa.types.is_timestamp(kind):
        units = as_integers(array.cast(pa.int64()))
        divisor = int(np.gcd.reduce(np.append(units, _UNITS[kind.unit])))
        return units // divisor, _UNITS[kind.unit] // divisor, True
    encoded = pc.dictionary_encode(array.cast(pa.large_string()))
    parsed = [_point(text) for text in encoded.dictionary.to_pylist()]
    finite = [point for point, _ in parsed if isinstance(point, Fraction)]
    scale = lcm(*(point.denominator for point in finite)) if finite else 1
    numbers = [point if isinstance(point, int) else int(point * scale) for point, _ in parsed]
    if any(abs(number) > LIMIT and abs(number) != INFINITY for number in numbers):
        raise DataError(Diagnostic(NOT_A_TIME, OUT_OF_RANGE))
    return (
        np.array(numbers, np.int64)[np.asarray(encoded.indices)],
        scale,
        any(moment for _, moment in parsed),
    )


def _point(text: str) -> tuple[Fraction | int, bool]:
    try:
        point, is_moment = read_point(text)
    except ValueError as fault:
        raise DataError(Diagnostic(NOT_A_TIME, str(fault))) from None
    if point is None:
        return -INFINITY if text.startswith("-") else INFINITY, is_moment
    return point, is_moment


def _ends(points: _Points, scale: int, opened: Any, inwards: int, timeline: Timeline) -> Integers:
    numbers, own_scale, _ = points
    is_infinite = np.abs(numbers) >= INFINITY
    scaled = np.where(is_infinite, 0, numbers) * (scale // own_scale)
    if timeline.is_integer:
        rounded = -(-scaled // scale) if inwards == 1 else scaled // scale
        ends = rounded + inwards * (opened & (rounded * scale == scaled))
    else:
        ends = 2 * scaled + inwards * opened
    return np.where(is_infinite, numbers, ends)
