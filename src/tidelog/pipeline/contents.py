"""The facts of a reasoner in their published form: Arrow tables of rows and changes, with times.

`ChangedRows` are rows of ids, inserted and deleted. `TableLayout` and the functions below it convert
between intervals and the time columns of published rows. `TimedContents` and `PublishedContents` return the
facts of a reasoner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.arrow import array_of, mask_of, numbers_of, truths_of
from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import column_names, misfit_error
from tidelog.data.rows import Ids, Rows, concatenate, without
from tidelog.data.text_kernels import NO_TIME_ZONE
from tidelog.data.typed_columns import EXACT, Misfit, arrow_type, to_typed, with_mixed
from tidelog.logic.intervals import Interval, beyond_range, read_point, write_point
from tidelog.logic.program import Predicate, Program, free_name
from tidelog.logic.type_inference import Schema
from tidelog.logic.types import MOMENT, column_of
from tidelog.logic.values import ColumnType, Kind, Value
from tidelog.maintenance.maintainer import NetChange
from tidelog.publish.published_schemas import RESERVED
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.transaction import Change
from tidelog.records import dataclass
from tidelog.temporal.interval_kernels import INFINITY, LIMIT
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalLists,
    TimedTable,
    Timeline,
    empty_lists,
    single,
)
from tidelog.temporal.temporal import Temporal
from tidelog.temporal.time_columns import Bound
from tidelog.temporal.timed_changes import RowTimes, TimedRows
from tidelog.temporal.timed_relation import BOUNDS, EVERY, PeriodicRelation
from tidelog.temporal.timed_store import IntervalDelta


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The rows of a table that are deleted, and those that are inserted."""

    removed: Rows
    added: Rows

    @property
    def count(self) -> int:
        """Return how many rows changed."""
        return self.removed.count + self.added.count

    def then(self, later: ChangedRows) -> ChangedRows:
        """Return the change of this one followed by a later one."""
        if not self.count:
            return later
        if not later.count:
            return self
        return ChangedRows(
            concatenate([without(self.removed, later.added), without(later.removed, self.added)]),
            concatenate([without(self.added, later.removed), without(later.added, self.removed)]),
        )

    @property
    def inverse(self) -> ChangedRows:
        """The change that undoes this one."""
        return ChangedRows(self.added, self.removed)

    @staticmethod
    def between(before: Rows, after: Rows) -> ChangedRows:
        """Return the difference of two sets of rows."""
        return ChangedRows(without(before, after), without(after, before))


def no_rows(arity: int) -> Rows:
    """Return an empty set of rows with this number of columns."""
    return Rows(tuple(np.zeros(0, np.int32) for _ in range(arity)), 0)


# ---- Times in published rows: columns of bounds after the arguments, as in `run --output`.
#
# A bound has the same value as an id whatever its unit and source: a whole number, else a moment in
# microseconds, else an exact text, and `UNBOUNDED` where there is no end, which is null in files. So rows
# with times are compared, concatenated and stored like any others.

UNBOUNDED = Value(Kind.LITERAL, "", "urn:tidelog:unbounded")  # not in any data
MICROSECONDS = 1_000_000
MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The names of the columns of a table, and how many at the end are times."""

    names: tuple[str, ...]
    times: int = 0
    is_calendar: bool = False  # points are dateTimes

    @property
    def arguments(self) -> int:
        """Return how many columns are arguments."""
        return len(self.names) - self.times


def layout_of(predicate: Predicate, is_timed: bool, is_periodic: bool, is_calendar: bool) -> TableLayout:
    """Return the columns of a predicate's table."""
    names = column_names(predicate)
    if not is_timed:
        return TableLayout(table_names(names))
    for name in (*BOUNDS, EVERY) if is_periodic else BOUNDS:
        names = (*names, free_name(name, names))
    return TableLayout(table_names(names), len(names) - predicate.arity, is_calendar)


def table_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return valid names of columns of tables: with `_` if they are reserved or differ in case only.

    >>> table_names(("x", "X", "x_", "_version"))
    ('x', 'X_', 'x__', '_version_')
    """
    valid: list[str] = []
    used = {name.lower() for name in RESERVED}
    for name in names:
        while name.lower() in used:
            name += "_"
        used.add(name.lower())
        valid.append(name)
    return tuple(valid)


# ---- to ids


def time_ids(times: RowTimes, every: Integers | None, dictionary: Dictionary) -> tuple[Ids, ...]:
    """Return the columns of intervals, and of the periods `every` at which they repeat, if any."""
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


def _points(points: Integers, scale: int, is_infinite: Any, dictionary: Dictionary) -> Ids:
    """Return the ids of points in units of 1 / `scale`."""
    ids = np.full(len(points), dictionary.encode(UNBOUNDED), np.int32)
    is_whole = ~is_infinite & (points % scale == 0)
    ids[is_whole] = dictionary.encode_numbers(Kind.INTEGER, points[is_whole] // scale)
    is_other = ~is_infinite & ~is_whole
    if is_other.any():
        ids[is_other] = _fractions(points[is_other], scale, dictionary)
    return ids


def _fractions(points: Integers, scale: int, dictionary: Dictionary) -> Ids:
    """Return the ids of points that are not whole."""
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
    rows: Rows, layout: TableLayout, dictionary: Dictionary, is_integer: bool
) -> tuple[RowTimes, Integers | None]:
    """Return the times of rows, and their periods, 0 if they do not repeat; None without such a column."""
    columns = rows.columns[layout.arguments :]
    bounds = [columns[0], columns[1], *columns[4:5]]
    distinct, places = np.unique(np.concatenate(bounds), return_inverse=True)
    numbers, scale = _numbers(distinct, dictionary)
    bound_points = numbers[places].reshape(len(bounds), rows.count)
    is_open = [dictionary.payload[column].astype(np.int64) for column in columns[2:4]]
    left, right = (_ends(bound_points[side], is_open[side], 1 - 2 * side, is_integer) for side in range(2))
    every = None
    if layout.times > 4:
        every = np.where(bound_points[2] >= INFINITY, 0, bound_points[2] * (1 if is_integer else 2))
    return RowTimes(Timeline(1 if is_integer else scale, is_integer, layout.is_calendar), left, right), every


def _numbers(ids: Ids, dictionary: Dictionary) -> tuple[Integers, int]:
    """Return points in units of 1 / a scale, and the scale; `UNBOUNDED` is beyond all others."""
    kinds, payload = dictionary.kind[ids], dictionary.payload[ids]
    moments, is_text = kinds == Kind.DATETIME, kinds == Kind.STRING
    divisor = int(np.gcd.reduce(np.append(payload[moments], MICROSECONDS)))
    texts = [_read(str(dictionary.decode(text_id).content)) for text_id in ids[is_text].tolist()]
    scale = lcm(MICROSECONDS // divisor, *(point.denominator for point in texts))
    numbers = np.full(len(ids), INFINITY)
    numbers[is_text] = [_within(int(point * scale)) for point in texts]
    numbers[moments] = _scaled(payload[moments] // divisor, scale * divisor // MICROSECONDS)
    is_whole = kinds == Kind.INTEGER
    numbers[is_whole] = _scaled(payload[is_whole], scale)
    return numbers, scale


def _scaled(numbers: Integers, factor: int) -> Integers:
    _within(int(np.abs(numbers).max(initial=0)) * factor)
    return numbers * factor


def _within(number: int) -> int:
    if abs(number) > LIMIT:
        raise beyond_range()
    return number


def _ends(points: Integers, is_open: Integers, inwards: int, is_integer: bool) -> Integers:
    is_infinite = points >= INFINITY
    finite = np.where(is_infinite, 0, points)
    ends = finite if is_integer else 2 * finite + inwards * is_open
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


def time_arrays(
    rows: Rows, layout: TableLayout, types: Sequence[ColumnType], dictionary: Dictionary
) -> list[pa.Array]:
    """Return the columns of times, as Arrow arrays."""
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
            points = (_point(dictionary.decode(point_id)) for point_id in distinct.tolist())
            texts = [None if point is None else write_point(point, is_calendar) for point in points]
            return pa.array(texts, pa.string()).take(array_of(places.astype(np.int64)))
    return pc.if_else(is_missing, pa.scalar(None, array.type), array)


def ids_in(column: pa.ChunkedArray, column_type: ColumnType, dictionary: Dictionary) -> Ids:
    """Return the ids of a stored column of times."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if column_type is ColumnType.BOOLEAN:
        return dictionary.encode_numbers(Kind.BOOLEAN, truths_of(array).astype(np.int64))
    if column_type is ColumnType.STRING:
        encoded = pc.dictionary_encode(array)
        texts = encoded.dictionary.to_pylist()
        ids = dictionary.encode_values([_value(_read(text)) for text in texts])
        ids = np.append(ids, np.int32(dictionary.encode(UNBOUNDED)))
        places = numbers_of(encoded.indices.fill_null(len(texts)).cast(pa.int32()), "int32")
        column_ids: Ids = ids[places]
        return column_ids
    is_missing = np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False), bool)
    numbers = numbers_of(array.cast(pa.int64()).fill_null(0), "int64")
    scale = MICROSECONDS if column_type is ColumnType.DATETIME else 1
    return _points(np.ascontiguousarray(numbers), scale, is_missing, dictionary)


def _read(text: str) -> Fraction:
    point, _ = read_point(text)
    assert point is not None, "facts without end cannot be written"
    return point


# ---- Facts at times: a row for each fact and maximal interval.
#
# A transaction inserts and deletes points of time; a table has intervals: one that grows is deleted, and
# inserted again.


class IntervalStarts:
    """The beginnings of intervals that time has advanced into: the reasoner forgets them, tables keep them.

    For each fact it has the points before the time that was advanced to, of the interval that reaches up to
    that time. Mutable.
    """

    def __init__(self, time: Temporal) -> None:
        self._time = time
        self._timeline = time.store.timeline
        self._tables: dict[str, TimedTable] = {}

    def add(self, name: str, columns: Sequence[np.ndarray], times: RowTimes) -> None:
        """Add published rows, without the points that are not final."""
        self._time.store.refine_to(times.timeline)
        left, right = times.on(self._time.store.timeline)
        rows = np.array(columns, np.int32).reshape(len(columns), len(left))
        self._add(name, rows, left, right)

    def advance(self, point: Interval, names: Iterable[str]) -> None:
        """Add the part of intervals before a point of time, which the reasoner will forget."""
        store = self._time.store
        store.refine([point])
        first = store.timeline.ends(Interval(point.start, None))[0]
        forgotten = {}
        for name in names:
            numbers, lists = store.tables[name].holding()
            columns = store.tables[name].facts.columns[:, numbers]
            owners, left, right = self.whole(name, columns, lists).rows()
            forgotten[name] = columns[:, owners], left, right
        self._tables = {}
        for name, (columns, left, right) in forgotten.items():
            self._add(name, columns, left, right, first)

    def _add(
        self, name: str, columns: IdColumns, left: Integers, right: Integers, first: int | None = None
    ) -> None:
        first = self._time.past.first(self._time.store.timeline) if first is None else first
        reaches = (left < first) & (right >= first - 1)
        self._timeline = self._time.store.timeline
        ends = left[reaches], np.minimum(right[reaches], first - 1)
        self._tables[name] = TimedTable.of(name, tuple(columns[:, reaches]), *ends)

    def whole(self, name: str, facts: IdColumns, lists: IntervalLists) -> IntervalLists:
        """Return the lists of facts, including the forgotten points of their intervals."""
        timeline = self._time.store.timeline
        if timeline.scale != self._timeline.scale:
            factor = timeline.scale // self._timeline.scale
            self._tables = {
                predicate: table.rescaled(self._timeline, factor) for predicate, table in self._tables.items()
            }
        self._timeline = timeline
        forgotten = self._tables.get(name)
        if forgotten is None:
            return lists
        return lists.united(forgotten.lists, np.arange(len(lists)), forgotten.facts.find(facts, len(lists)))


class TimedContents:
    """The temporal facts of a reasoner, in which everything has been derived."""

    def __init__(self, reasoner: Reasoner, starts: IntervalStarts | None = None) -> None:
        self._time, self._engine = reasoner.time, reasoner.engine
        self._starts = starts or IntervalStarts(reasoner.time)
        self._predicates = reasoner.predicates()
        self.names = reasoner.program.timed

    def layout(self, predicate: Predicate) -> TableLayout:
        """Return the columns of a predicate's table."""
        is_timed, is_periodic = predicate.name in self.names, self._time.periodic is not None
        return layout_of(predicate, is_timed, is_periodic, self._time.store.timeline.is_calendar)

    def _rows(self, columns: Sequence[np.ndarray], times: RowTimes, every: Integers | None = None) -> Rows:
        """Return facts with their intervals, and with their periods if the program has some."""
        if self._time.periodic is not None and every is None:
            every = np.zeros(len(times.left), np.int64)
        ids = time_ids(times, every, self._engine.storage.dictionary)
        return Rows((*columns, *ids), len(times.left))

    # ---- all facts

    def facts(self, name: str) -> Rows:
        """Return all facts of a predicate."""
        relation = self._time.relation(self._predicates[name])
        every = relation.every if isinstance(relation, PeriodicRelation) else None
        return self._rows(
            relation.coded.columns, RowTimes(relation.timeline, relation.left, relation.right), every
        )

    # ---- changes of a transaction

    def changed(self, name: str, lost: TimedRows | None, gained: TimedRows | None) -> ChangedRows:
        """Return the deleted and inserted intervals of a predicate, from the deleted and inserted points."""
        table = self._time.store.tables[name]
        deleted, inserted = (self._difference(table, rows) for rows in (lost, gained))
        numbers = np.union1d(deleted.numbers, inserted.numbers)
        now = self._starts.whole(name, table.facts.columns[:, numbers], table.lists.take(numbers))
        before = now.without(inserted.lists, now.numbers, inserted.positions(numbers))
        before = before.united(deleted.lists, before.numbers, deleted.positions(numbers))
        earlier, later = (self._of(table, numbers, lists) for lists in (before, now))
        return ChangedRows.between(earlier, later)

    def since(self, name: str, columns: Sequence[np.ndarray], times: RowTimes) -> ChangedRows:
        """Return the intervals deleted and inserted since rows were published, which are not final.

        The rows are those that reach up to the time that was advanced to, or beyond.
        """
        store = self._time.store
        table = store.tables[name]
        store.refine_to(times.timeline)
        numbers, lists = table.holding()
        lists = lists.later(self._time.past.first(store.timeline))
        remaining = np.flatnonzero(lists.count > 0)
        then = TimedTable.of(name, columns, *times.on(store.timeline))
        then_numbers, _ = then.holding()
        facts = then.facts.columns[:, then_numbers]
        all_numbers = np.union1d(numbers[remaining], table.number(facts, len(then_numbers)))
        places = np.full(table.facts.rows, -1, np.int64)
        places[numbers[remaining]] = remaining
        now = empty_lists(len(all_numbers)).united(lists, np.arange(len(all_numbers)), places[all_numbers])
        now = self._starts.whole(name, table.facts.columns[:, all_numbers], now)
        positions = then.facts.find(
            np.ascontiguousarray(table.facts.columns[:, all_numbers]), len(all_numbers)
        )
        before = empty_lists(len(all_numbers)).united(then.lists, np.arange(len(all_numbers)), positions)
        return ChangedRows.between(self._of(table, all_numbers, before), self._of(table, all_numbers, now))

    def _difference(self, table: TimedTable, rows: TimedRows | None) -> IntervalDelta:
        if rows is None or rows.times is None:
            return IntervalDelta()
        columns: IdColumns = np.array(rows.columns, np.int32).reshape(table.arity, rows.count)
        points = single(*rows.times.on(self._time.store.timeline))
        return IntervalDelta(*points.grouped(table.number(columns, rows.count)))

    def _of(self, table: TimedTable, numbers: Integers, lists: IntervalLists) -> Rows:
        owners, left, right = lists.rows()
        columns = table.facts.columns[:, numbers[owners]]
        return self._rows(tuple(columns), RowTimes(self._time.store.timeline, left, right))


# ---- All facts: Arrow tables, and their changes.
#
# Schemas depend on the program and on the types of the explicit facts, not on the derived rows.
#
# If equality is treated by rewriting, facts are listed with every member of each class, or with the
# smallest one; the table of `=` has the classes.

HOLDS: Final = "holds"  # the column of a predicate without arguments
EXACTLY: Final = "exact"  # the form of columns of several types
PIECE: Final = 1 << 18  # rows that are converted at once

# By predicate; None if the changes are only found by comparing all rows.
TableChanges = Mapping[str, ChangedRows | None]

_TIMES = {
    Bound.WHOLE: (ColumnType.INTEGER, pa.int64()),
    Bound.MOMENT: (ColumnType.DATETIME, pa.timestamp("us", "UTC")),
    Bound.TEXT: (ColumnType.STRING, pa.string()),
}


class PublishedContents:
    """The facts of a reasoner, in which everything has been derived."""

    def __init__(
        self,
        reasoner: Reasoner,
        bound: Bound = Bound.TEXT,
        mixed: str = EXACTLY,
        starts: IntervalStarts | None = None,
        program: Program | None = None,
    ) -> None:
        self.engine = reasoner.engine
        self.reasoner = reasoner
        self._program = program  # of the open transaction, if there is one
        self._listing = reasoner.listing()
        self._timed = TimedContents(reasoner, starts)
        self._bound = bound
        self._mixed = mixed

    # ---- schemas

    def layout(self, predicate: Predicate) -> TableLayout:
        """Return the columns of a predicate's table."""
        return self._timed.layout(predicate)

    def schema(self, predicate: Predicate) -> Any:
        """Return the Arrow schema of a predicate's table."""
        layout = self.layout(predicate)
        times = [of for _, of in self._time_types(layout)]
        return schema_of(layout.names, self._contents(predicate), times)

    def types(self, predicate: Predicate) -> tuple[str, ...]:
        """Return the types of the arguments of a predicate's table, as in declarations."""
        return tuple(
            (ColumnType.TERM if contents.is_exact else column_of(contents.types)).value
            for contents in self._contents(predicate)
        )

    def _is_faithful(self, predicate: Predicate) -> bool:
        """Whether different facts are always different rows of the predicate's table."""
        for contents in self._contents(predicate):
            if contents.types == EXACT or (contents.types & MOMENT and self._has_time_zones):
                return False
        return True

    @cached_property
    def _has_time_zones(self) -> bool:
        """Whether some moment is not in UTC, which columns do not keep."""
        dictionary = self.engine.storage.dictionary
        zones = dictionary.extra[dictionary.kind == Kind.DATETIME]
        return bool(((zones != 0) & (zones != NO_TIME_ZONE)).any())

    def _contents(self, predicate: Predicate) -> Schema:
        schemas = self.reasoner.schemas
        if self._program is not None:
            schemas = schemas.data.now(self._program, schemas.facts)
        return with_mixed(schemas.of(predicate), self._mixed)

    def _time_types(self, layout: TableLayout) -> list[tuple[ColumnType, Any]]:
        """Return the types of the columns of times: bounds, whether they are open, the period."""
        if not layout.times:
            return []
        bound, truth = _TIMES[self._bound], (ColumnType.BOOLEAN, pa.bool_())
        period = _TIMES[Bound.TEXT if self._bound is Bound.TEXT else Bound.WHOLE]
        return [bound, bound, truth, truth, period][: layout.times]

    # ---- all facts

    def rows(self, name: str) -> Rows:
        """Return all facts of a predicate as ids."""
        if name in self._timed.names:
            return self._timed.facts(name)
        return Rows(*self.engine.storage.rows(name)) if self._listing is None else self._listing.rows(name)

    def tables(self, predicate: Predicate, rows: Rows) -> list[Any]:
        """Return rows of a predicate as Arrow tables of its schema, in parts, without duplicates."""
        schema = self.schema(predicate)
        if not self._is_faithful(predicate) and rows.count:
            table = self._table(predicate, schema, rows)
            return [table.group_by(table.column_names, use_threads=False).aggregate([]).cast(schema)]
        if not rows.count:
            return [schema.empty_table()]
        return [
            self._table(predicate, schema, slice_of(rows, start)) for start in range(0, rows.count, PIECE)
        ]

    def table(self, predicate: Predicate, rows: Rows) -> Any:
        """Return rows of a predicate as one Arrow table."""
        return pa.concat_tables(self.tables(predicate, rows))

    def _table(self, predicate: Predicate, schema: Any, rows: Rows) -> Any:
        layout = self.layout(predicate)
        times = tuple(of for of, _ in self._time_types(layout))
        contents = self._contents(predicate)
        return typed_table(
            rows, predicate.written, layout, contents, times, schema, self.engine.storage.dictionary
        )

    # ---- changes of a transaction

    def changes(self, change: Change) -> TableChanges:
        """Return the changes of each predicate in a transaction, which must be the last one."""
        predicates, net = self.reasoner.predicates(), change.delta.net
        if self._listing is not None:
            net = self._listing.changes(net, predicates)
        timed = self._timed.names
        names = [name for name in {**net.removed, **net.added} if name in predicates and name in timed]
        changes: dict[str, ChangedRows | None] = {name: self._timed_change(name, net) for name in names}
        changes |= _changes(
            net.removed, net.added, {name: predicates[name] for name in predicates.keys() - timed}
        )
        nonempty = {name: changed for name, changed in changes.items() if changed is None or changed.count}
        return {
            name: each if self._is_faithful(predicates[name]) else None for name, each in nonempty.items()
        }

    def has_forgotten(self, name: str) -> bool:
        """Return whether a predicate's table has facts that the reasoner has forgotten."""
        return name in self._timed.names and self.reasoner.time.past.time is not None

    def since(self, name: str, rows: tuple[Sequence[Any], RowTimes]) -> ChangedRows:
        """Return the changes since these rows were published, which the reasoner has not forgotten."""
        return self._timed.since(name, *rows)

    def changes_of(self, net: NetChange) -> TableChanges:
        """Return the changes of each predicate that an open transaction would make."""
        assert self._program is not None, "that of the transaction"
        predicates = self._program.predicates
        if (
            self._listing is not None
            or self._timed.names
            or predicates.keys() != self.reasoner.predicates().keys()
        ):
            return dict.fromkeys(predicates)
        changes = _changes(net.removed, net.added, predicates)
        return {
            name: changed if self._is_faithful(predicates[name]) else None
            for name, changed in changes.items()
        }

    def _timed_change(self, name: str, net: NetChange) -> ChangedRows | None:
        """Return the changes of a temporal predicate; None if all rows must be compared, as facts repeat."""
        if self.reasoner.time.periodic is not None:
            return None
        return self._timed.changed(name, _timed(net.removed, name), _timed(net.added, name))


def schema_of(names: Sequence[str], contents: Schema, times: Sequence[Any]) -> Any:
    """Return the Arrow schema of a table; `times` are the types of the last columns."""
    if not names:
        return pa.schema([pa.field(HOLDS, pa.bool_(), nullable=False)])
    types = [arrow_type(column_contents) for column_contents in contents]
    fields = [pa.field(name, of, nullable=False) for name, of in zip(names, types, strict=False)]
    last = zip(names[len(types) :], times, strict=False)
    return pa.schema([*fields, *(pa.field(name, of, not pa.types.is_boolean(of)) for name, of in last)])


def typed_table(
    rows: Rows,
    table: str,
    layout: TableLayout,
    contents: Schema,
    times: Sequence[ColumnType],
    schema: Any,
    dictionary: Dictionary,
) -> Any:
    """Return rows of ids as an Arrow table of a schema; raise `DataError` for values that do not fit."""
    if not layout.names:
        return pa.Table.from_arrays([pa.array([True] * rows.count)], schema=schema)
    arrays = []
    for ids, column_contents, name in zip(rows.columns, contents, layout.names, strict=False):
        try:
            arrays.append(to_typed(dictionary, ids, column_contents))
        except Misfit as misfit:
            raise misfit_error(misfit, name, table, column_contents) from None
    arrays += time_arrays(rows, layout, times, dictionary)
    arrays = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def slice_of(rows: Rows, start: int) -> Rows:
    """Return at most `PIECE` rows from an offset."""
    columns = tuple(column[start : start + PIECE] for column in rows.columns)
    return Rows(columns, min(PIECE, rows.count - start))


def _timed(rows: Mapping[str, Rows], name: str) -> TimedRows | None:
    timed = rows.get(name)
    assert timed is None or isinstance(timed, TimedRows), "it is temporal"
    return timed


def _changes(
    removed: Mapping[str, Rows], added: Mapping[str, Rows], predicates: Mapping[str, Predicate]
) -> dict[str, ChangedRows]:
    """Return the deleted and inserted rows, by predicate."""
    return {
        name: ChangedRows(
            removed.get(name, no_rows(predicates[name].arity)),
            added.get(name, no_rows(predicates[name].arity)),
        )
        for name in {**removed, **added}
        if name in predicates
    }
