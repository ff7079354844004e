"""Times in published rows: behind the arguments, columns that say from when to when, as `run --output` does.

As ids, a bound has one value in whatever units and files it comes: a whole number, else a moment in
microseconds, else an exact text; none of these where there is no end (`UNBOUNDED`, which files leave out).
So rows with times are rows like any others: they are compared, put together and stored as such.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import column_names
from tidelog.engine.columnar.arrow import array_of, mask_of, numbers_of, truths_of
from tidelog.logic.intervals import beyond_range, read_point, write_point
from tidelog.logic.program import Predicate, free_name
from tidelog.logic.values import ColumnType, Kind, Value
from tidelog.maintenance.row_sets import Rows
from tidelog.publish.schemas import RESERVED
from tidelog.temporal.changing import Times
from tidelog.temporal.list_kernels import INFINITY, LIMIT
from tidelog.temporal.lists import Integers, Timeline
from tidelog.temporal.periodic_relation import EVERY
from tidelog.temporal.relation import BOUNDS

Ids = npt.NDArray[np.int32]
UNBOUNDED = Value(Kind.LITERAL, "", "urn:tidelog:unbounded")  # no data has this
MICROSECONDS = 1_000_000
MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """What the columns of a table are called, and how many at the end say when."""

    names: tuple[str, ...]
    times: int = 0
    is_calendar: bool = False  # points are dateTimes

    @property
    def arguments(self) -> int:
        """How many columns are arguments."""
        return len(self.names) - self.times


def layout_of(predicate: Predicate, is_timed: bool, is_periodic: bool, is_calendar: bool) -> Layout:
    """The columns of a predicate's table."""
    names = column_names(predicate)
    if not is_timed:
        return Layout(table_names(names))
    for name in (*BOUNDS, EVERY) if is_periodic else BOUNDS:
        names = (*names, free_name(name, names))
    return Layout(table_names(names), len(names) - predicate.arity, is_calendar)


def table_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of columns as tables have them: with `_` if they are reserved or differ in case only.

    >>> table_names(("x", "X", "x_", "_version"))
    ('x', 'X_', 'x__', '_version_')
    """
    found: list[str] = []
    taken = {name.lower() for name in RESERVED}
    for name in names:
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        found.append(name)
    return tuple(found)


# ---- to ids


def time_ids(times: Times, every: Integers | None, dictionary: Dictionary) -> tuple[Ids, ...]:
    """The columns of rows that hold in intervals, with the period by which each repeats if that is told."""
    timeline, left, right = times.timeline, times.left, times.right
    scale = 1 if timeline.is_integer else timeline.scale
    columns = []
    for ends, sign in ((left, -1), (right, 1)):
        points = ends if timeline.is_integer else (ends + sign * (ends & 1)) // 2
        columns.append(_points(points, scale, np.abs(ends) >= INFINITY, dictionary))
    for ends in (left, right):
        odd = np.zeros(len(ends), bool) if timeline.is_integer else (ends & 1) == 1
        is_open = (np.abs(ends) >= INFINITY) | odd
        columns.append(dictionary.encode_numbers(Kind.BOOLEAN, is_open.astype(np.int64)))
    if every is not None:
        unit = 1 if timeline.is_integer else 2 * timeline.scale
        columns.append(_points(every, unit, every == 0, dictionary))
    return tuple(columns)


def always_ids(count: int, width: int, dictionary: Dictionary) -> tuple[Ids, ...]:
    """The columns of facts that were said without a time: without bounds, which are not left out either."""
    unbounded, no = dictionary.encode(UNBOUNDED), dictionary.encode(Value(Kind.BOOLEAN, 0))
    held = (unbounded, unbounded, no, no, unbounded)
    return tuple(np.full(count, each, np.int32) for each in held[:width])


def is_always(rows: Rows, arguments: int, dictionary: Dictionary) -> npt.NDArray[np.bool_]:
    """Which facts were said without a time."""
    start, end, start_open, end_open = rows.columns[arguments : arguments + 4]
    unbounded, no = dictionary.encode(UNBOUNDED), dictionary.encode(Value(Kind.BOOLEAN, 0))
    found: npt.NDArray[np.bool_] = (
        (start == unbounded) & (end == unbounded) & (start_open == no) & (end_open == no)
    )
    return found


def _points(points: Integers, scale: int, is_infinite: Any, dictionary: Dictionary) -> Ids:
    """The ids of points in units of 1 / `scale`."""
    ids = np.full(len(points), dictionary.encode(UNBOUNDED), np.int32)
    whole = ~is_infinite & (points % scale == 0)
    ids[whole] = dictionary.encode_numbers(Kind.INTEGER, points[whole] // scale)
    others = ~is_infinite & ~whole
    if others.any():
        ids[others] = _fractions(points[others], scale, dictionary)
    return ids


def _fractions(points: Integers, scale: int, dictionary: Dictionary) -> Ids:
    """The ids of points that are not whole."""
    if MICROSECONDS % scale == 0 and int(np.abs(points).max()) <= MOST // (MICROSECONDS // scale):
        return dictionary.encode_numbers(Kind.DATETIME, points * (MICROSECONDS // scale))
    distinct, places = np.unique(points, return_inverse=True)
    values = [_value(Fraction(point, scale)) for point in distinct.tolist()]
    return dictionary.encode_values(values)[places]


def _value(point: Fraction) -> Value:
    moment = point * MICROSECONDS
    if point.denominator == 1:
        return Value(Kind.INTEGER, point.numerator)
    if moment.denominator == 1 and abs(moment) <= MOST:
        return Value(Kind.DATETIME, int(moment), 0)
    return Value(Kind.STRING, write_point(point))


# ---- from ids


def times_in(
    rows: Rows, layout: Layout, dictionary: Dictionary, is_integer: bool
) -> tuple[Times, Integers | None]:
    """When rows hold, and by what they repeat, 0 if not at all; None if that is not told."""
    columns = rows.columns[layout.arguments :]
    bounds = [columns[0], columns[1], *columns[4:5]]
    distinct, places = np.unique(np.concatenate(bounds), return_inverse=True)
    numbers, scale = _numbers(distinct, dictionary)
    found = numbers[places].reshape(len(bounds), rows.count)
    opened = [dictionary.payload[column].astype(np.int64) for column in columns[2:4]]
    left, right = (_ends(found[side], opened[side], 1 - 2 * side, is_integer) for side in range(2))
    every = None
    if layout.times > 4:
        every = np.where(found[2] >= INFINITY, 0, found[2] * (1 if is_integer else 2))
    return Times(Timeline(1 if is_integer else scale, is_integer, layout.is_calendar), left, right), every


def _numbers(ids: Ids, dictionary: Dictionary) -> tuple[Integers, int]:
    """Points in units of 1 / a scale, and the scale; those without end are beyond all others."""
    kinds, payload = dictionary.kind[ids], dictionary.payload[ids]
    moments, is_text = kinds == Kind.DATETIME, kinds == Kind.STRING
    divisor = int(np.gcd.reduce(np.append(payload[moments], MICROSECONDS)))
    texts = [_read(str(dictionary.decode(one).content)) for one in ids[is_text].tolist()]
    scale = lcm(MICROSECONDS // divisor, *(point.denominator for point in texts))
    numbers = np.full(len(ids), INFINITY)
    numbers[is_text] = [_within(int(point * scale)) for point in texts]
    numbers[moments] = _scaled(payload[moments] // divisor, scale * divisor // MICROSECONDS)
    whole = kinds == Kind.INTEGER
    numbers[whole] = _scaled(payload[whole], scale)
    return numbers, scale


def _scaled(numbers: Integers, factor: int) -> Integers:
    _within(int(np.abs(numbers).max(initial=0)) * factor)
    return numbers * factor


def _within(number: int) -> int:
    if abs(number) > LIMIT:
        raise beyond_range()
    return number


def _ends(points: Integers, opened: Integers, inwards: int, is_integer: bool) -> Integers:
    is_infinite = points >= INFINITY
    finite = np.where(is_infinite, 0, points)
    ends = finite if is_integer else 2 * finite + inwards * opened
    return np.where(is_infinite, -inwards * INFINITY, ends)


def _point(value: Value) -> Fraction | None:
    match value.kind:
        case Kind.INTEGER:
            return Fraction(int(value.content))
        case Kind.DATETIME:
            return Fraction(int(value.content), MICROSECONDS)
        case Kind.STRING:
            return read_point(str(value.content))[0]
    return None


# ---- in files


def time_types(rows: Rows, layout: Layout, dictionary: Dictionary) -> tuple[ColumnType, ...]:
    """The types by which the columns that say when can be stored."""
    types = []
    for place, column in enumerate(rows.columns[layout.arguments :]):
        kinds = set(np.unique(dictionary.kind[column]).tolist()) - {int(Kind.LITERAL)}
        types.append(_type_of(kinds, column, layout.is_calendar and place < 2, dictionary))
    return tuple(types)


def _type_of(kinds: set[int], column: Ids, is_calendar: bool, dictionary: Dictionary) -> ColumnType:
    if kinds == {int(Kind.BOOLEAN)}:
        return ColumnType.BOOLEAN
    if is_calendar and kinds <= {int(Kind.INTEGER), int(Kind.DATETIME)}:
        whole = dictionary.payload[column[dictionary.kind[column] == Kind.INTEGER]]
        return (
            ColumnType.DATETIME if np.abs(whole).max(initial=0) <= MOST // MICROSECONDS else ColumnType.STRING
        )
    return ColumnType.INTEGER if kinds <= {int(Kind.INTEGER)} else ColumnType.STRING


def time_arrays(
    rows: Rows, layout: Layout, types: tuple[ColumnType, ...], dictionary: Dictionary
) -> list[pa.Array]:
    """The columns that say when, as Arrow has them."""
    pairs = zip(rows.columns[layout.arguments :], types, strict=True)
    return [_array(column, kind, layout.is_calendar, dictionary) for column, kind in pairs]


def _array(ids: Ids, column_type: ColumnType, is_calendar: bool, dictionary: Dictionary) -> pa.Array:
    is_missing = mask_of(dictionary.kind[ids] == Kind.LITERAL)
    payload = np.where(dictionary.kind[ids] == Kind.LITERAL, 0, dictionary.payload[ids])
    match column_type:
        case ColumnType.BOOLEAN:
            return mask_of(payload.astype(bool))
        case ColumnType.INTEGER:
            array = array_of(payload)
        case ColumnType.DATETIME:
            is_whole = dictionary.kind[ids] == Kind.INTEGER
            moments = np.where(is_whole, payload * MICROSECONDS, payload)
            array = array_of(moments).cast(pa.timestamp("us", "UTC"))
        case _:
            distinct, places = np.unique(ids, return_inverse=True)
            points = (_point(dictionary.decode(one)) for one in distinct.tolist())
            texts = [None if point is None else write_point(point, is_calendar) for point in points]
            return pa.array(texts, pa.string()).take(array_of(places.astype(np.int64)))
    return pc.if_else(is_missing, pa.scalar(None, array.type), array)


def ids_in(column: pa.ChunkedArray, column_type: ColumnType, dictionary: Dictionary) -> Ids:
    """The ids of a column that says when, as it was stored."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column_type is ColumnType.BOOLEAN:
        return dictionary.encode_numbers(Kind.BOOLEAN, truths_of(array).astype(np.int64))
    if column_type is ColumnType.STRING:
        encoded = pc.dictionary_encode(array)
        texts = encoded.dictionary.to_pylist()
        known = dictionary.encode_values([_value(_read(text)) for text in texts])
        known = np.append(known, np.int32(dictionary.encode(UNBOUNDED)))
        places = numbers_of(encoded.indices.fill_null(len(texts)).cast(pa.int32()), "int32")
        found: Ids = known[places]
        return found
    is_missing = np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False), bool)
    numbers = numbers_of(array.cast(pa.int64()).fill_null(0), "int64")
    scale = MICROSECONDS if column_type is ColumnType.DATETIME else 1
    return _points(np.ascontiguousarray(numbers), scale, is_missing, dictionary)


def _read(text: str) -> Fraction:
    point, _ = read_point(text)
    assert point is not None, "what has no end is not written"
    return point
