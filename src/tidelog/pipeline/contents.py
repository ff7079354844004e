"""What a reasoner holds, as it is published: Arrow tables of facts and changes, with times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.arrow import array_of, mask_of, numbers_of, truths_of
from tidelog.data.dictionary import NO_TIME_ZONE, Dictionary
from tidelog.data.relation import column_names, misfit_error
from tidelog.data.rows import Ids, Rows, concatenate, without
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
from tidelog.temporal.interval_dred import Difference
from tidelog.temporal.interval_kernels import INFINITY, LIMIT
from tidelog.temporal.interval_table import Integers, Lists, Table, TimedTable, Timeline, nothing, single
from tidelog.temporal.temporal import Temporal
from tidelog.temporal.time_columns import Bound
from tidelog.temporal.timed_changes import TimedRows, Times
from tidelog.temporal.timed_relation import BOUNDS, EVERY, PeriodicRelation

# ---- Rows of ids that come and go, between a reasoner and its published tables.


@dataclass(frozen=True, slots=True)
class Changed:
    """The rows of a table that are deleted, and those that are inserted."""

    removed: Rows
    added: Rows

    @property
    def count(self) -> int:
        """Return how many rows changed."""
        return self.removed.count + self.added.count

    def then(self, later: Changed) -> Changed:
        """Return both changes, one after the other."""
        if not self.count:
            return later
        if not later.count:
            return self
        return Changed(
            concatenate([without(self.removed, later.added), without(later.removed, self.added)]),
            concatenate([without(self.added, later.removed), without(later.added, self.removed)]),
        )

    @property
    def inverse(self) -> Changed:
        """The change that undoes this one."""
        return Changed(self.added, self.removed)

    @staticmethod
    def between(before: Rows, after: Rows) -> Changed:
        """Return what differs between two sets of rows."""
        return Changed(without(before, after), without(after, before))


Changes = Mapping[str, Changed]  # by predicate


def no_rows(arity: int) -> Rows:
    """Return no rows, of so many columns."""
    return Rows(tuple(np.zeros(0, np.int32) for _ in range(arity)), 0)


# ---- Times in published rows: behind the arguments, columns that say from when to when, as `run --output`
# does.
#
# As ids, a bound has one value in whatever units and files it comes: a whole number, else a moment in
# microseconds, else an exact text; none of these where there is no end (`UNBOUNDED`, which files leave out).
# So rows with times are rows like any others: they are compared, put together and stored as such.

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


# ---- What a reasoner holds at times, as it is published: a row for each fact and interval, as long as it can
# be.
#
# A transaction tells which points of time came and went. In a table, intervals come and go: one that grows is
# another one.


class Begun:
    """When intervals began that time has advanced into: the reasoner forgets it, and tables keep them whole.

    Of each fact, it has the points before the time that was advanced to of the interval that reaches up to
    it. Mutates itself.
    """

    def __init__(self, time: Temporal) -> None:
        self._time = time
        self._timeline = time.store.timeline
        self._tables: dict[str, TimedTable] = {}

    def add(self, name: str, columns: Sequence[np.ndarray], times: Times) -> None:
        """Note published rows, of which the points that are not final are left out."""
        self._time.store.adopt(times.timeline)
        left, right = times.on(self._time.store.timeline)
        rows = np.array(columns, np.int32).reshape(len(columns), len(left))
        self._put(name, rows, left, right)

    def advance(self, point: Interval, names: Iterable[str]) -> None:
        """Note what the reasoner will forget of intervals that reach up to a point of time."""
        store = self._time.store
        store.refine([point])
        first = store.timeline.ends(Interval(point.start, None))[0]
        found = {}
        for name in names:
            numbers, lists = store.tables[name].holding()
            columns = store.tables[name].facts.columns[:, numbers]
            owners, left, right = self.whole(name, columns, lists).rows()
            found[name] = columns[:, owners], left, right
        self._tables = {}
        for name, (columns, left, right) in found.items():
            self._put(name, columns, left, right, first)

    def _put(
        self, name: str, columns: Table, left: Integers, right: Integers, first: int | None = None
    ) -> None:
        first = self._time.past.first(self._time.store.timeline) if first is None else first
        reaches = (left < first) & (right >= first - 1)
        self._timeline = self._time.store.timeline
        ends = left[reaches], np.minimum(right[reaches], first - 1)
        self._tables[name] = TimedTable.of(name, tuple(columns[:, reaches]), *ends)

    def whole(self, name: str, facts: Table, lists: Lists) -> Lists:
        """The lists of facts, with the points that were forgotten of their intervals."""
        timeline = self._time.store.timeline
        if timeline.scale != self._timeline.scale:
            factor = timeline.scale // self._timeline.scale
            self._tables = {
                each: table.rescaled(self._timeline, factor) for each, table in self._tables.items()
            }
        self._timeline = timeline
        known = self._tables.get(name)
        if known is None:
            return lists
        return lists.united(known.lists, np.arange(len(lists)), known.facts.find(facts, len(lists)))


class TimedHolding:
    """The facts of a reasoner that hold at times, of which everything has been derived."""

    def __init__(self, reasoner: Reasoner, begun: Begun | None = None) -> None:
        self._time, self._engine = reasoner.time, reasoner.engine
        self._begun = begun or Begun(reasoner.time)
        self._predicates = reasoner.predicates()
        self.names = reasoner.program.timed

    def layout(self, predicate: Predicate) -> Layout:
        """The columns of a predicate's table."""
        is_timed, is_periodic = predicate.name in self.names, self._time.periodic is not None
        return layout_of(predicate, is_timed, is_periodic, self._time.store.timeline.is_calendar)

    def _rows(self, columns: Sequence[np.ndarray], times: Times, every: Integers | None = None) -> Rows:
        """Facts with their intervals, and with the period of each where there are periods."""
        if self._time.periodic is not None and every is None:
            every = np.zeros(len(times.left), np.int64)
        ids = time_ids(times, every, self._engine.dictionary)
        return Rows((*columns, *ids), len(times.left))

    # ---- all facts

    def facts(self, name: str) -> Rows:
        """All facts of a predicate."""
        found = self._time.relation(self._predicates[name])
        every = found.every if isinstance(found, PeriodicRelation) else None
        return self._rows(found.coded.columns, Times(found.timeline, found.left, found.right), every)

    # ---- what a transaction changed

    def changed(self, name: str, lost: TimedRows | None, gained: TimedRows | None) -> Changed:
        """The intervals of a predicate that went and that came, of points that did."""
        table = self._time.store.tables[name]
        less, more = (self._difference(table, rows) for rows in (lost, gained))
        numbers = np.union1d(less.numbers, more.numbers)
        now = self._begun.whole(name, table.facts.columns[:, numbers], table.lists.taken(numbers))
        before = now.without(more.lists, now.numbers, more.places(numbers))
        before = before.united(less.lists, before.numbers, less.places(numbers))
        then, since = (self._of(table, numbers, lists) for lists in (before, now))
        return Changed.between(then, since)

    def since(self, name: str, columns: Sequence[np.ndarray], times: Times) -> Changed:
        """The intervals that went and came since rows were published, of all that time has not passed.

        The rows are those that reach up to the time that was advanced to, or beyond.
        """
        store = self._time.store
        table = store.tables[name]
        store.adopt(times.timeline)
        numbers, lists = table.holding()
        lists = lists.later(self._time.past.first(store.timeline))
        kept = np.flatnonzero(lists.count > 0)
        then = TimedTable.of(name, columns, *times.on(store.timeline))
        then_numbers, _ = then.holding()
        facts = then.facts.columns[:, then_numbers]
        every = np.union1d(numbers[kept], table.number(facts, len(then_numbers)))
        places = np.full(table.facts.rows, -1, np.int64)
        places[numbers[kept]] = kept
        now = nothing(len(every)).united(lists, np.arange(len(every)), places[every])
        now = self._begun.whole(name, table.facts.columns[:, every], now)
        known = then.facts.find(np.ascontiguousarray(table.facts.columns[:, every]), len(every))
        before = nothing(len(every)).united(then.lists, np.arange(len(every)), known)
        return Changed.between(self._of(table, every, before), self._of(table, every, now))

    def _difference(self, table: TimedTable, rows: TimedRows | None) -> Difference:
        if rows is None or rows.times is None:
            return Difference()
        columns: Table = np.array(rows.columns, np.int32).reshape(table.arity, rows.count)
        points = single(*rows.times.on(self._time.store.timeline))
        return Difference(*points.grouped(table.number(columns, rows.count)))

    def _of(self, table: TimedTable, numbers: Integers, lists: Lists) -> Rows:
        owners, left, right = lists.rows()
        columns = table.facts.columns[:, numbers[owners]]
        return self._rows(tuple(columns), Times(self._time.store.timeline, left, right))


# ---- What a reasoner holds, as it is published: Arrow tables of facts, and of what changed in them.
#
# Their schemas follow from the program and from the types of what is given, never from the rows.
#
# Where equality is treated by rewriting, facts are listed with every member of each class, or with the
# smallest one; the table of `=` has the classes.

HOLDS: Final = "holds"  # the column of a predicate without arguments
EXACTLY: Final = "exact"  # how columns of several types are written
PIECE: Final = 1 << 18  # rows that are converted at once

HeldChanges = Mapping[
    str, Changed | None
]  # by predicate; None where only comparing all rows tells what changed

_TIMES = {
    Bound.WHOLE: (ColumnType.INTEGER, pa.int64()),
    Bound.MOMENT: (ColumnType.DATETIME, pa.timestamp("us", "UTC")),
    Bound.TEXT: (ColumnType.STRING, pa.string()),
}


class Holding:
    """The facts of a reasoner, of which everything has been derived."""

    def __init__(
        self,
        reasoner: Reasoner,
        bound: Bound = Bound.TEXT,
        mixed: str = EXACTLY,
        begun: Begun | None = None,
        program: Program | None = None,
    ) -> None:
        self.engine = reasoner.engine
        self.reasoner = reasoner
        self._program = program  # what a transaction that is open makes of the reasoner's
        self._listing = reasoner.listing()
        self._timed = TimedHolding(reasoner, begun)
        self._bound = bound
        self._mixed = mixed

    # ---- schemas

    def layout(self, predicate: Predicate) -> Layout:
        """Return the columns of a predicate's table."""
        return self._timed.layout(predicate)

    def schema(self, predicate: Predicate) -> Any:
        """Return the Arrow schema of a predicate's table."""
        layout = self.layout(predicate)
        if not layout.names:
            return pa.schema([pa.field(HOLDS, pa.bool_(), nullable=False)])
        contents = self._contents(predicate)
        fields = [
            pa.field(name, arrow_type(each), nullable=False)
            for name, each in zip(layout.names, contents, strict=False)
        ]
        times = zip(layout.names[layout.arguments :], self._time_types(layout), strict=True)
        fields += [pa.field(name, of, nullable=not pa.types.is_boolean(of)) for name, (_, of) in times]
        return pa.schema(fields)

    def types(self, predicate: Predicate) -> tuple[str, ...]:
        """Return what the arguments of a predicate's table hold, as declarations say it."""
        return tuple(
            (ColumnType.TERM if each.is_exact else column_of(each.types)).value
            for each in self._contents(predicate)
        )

    def _is_faithful(self, predicate: Predicate) -> bool:
        """Whether different facts are always different rows of the predicate's table."""
        for each in self._contents(predicate):
            if each.types == EXACT or (each.types & MOMENT and self._has_time_zones):
                return False
        return True

    @cached_property
    def _has_time_zones(self) -> bool:
        """Whether some moment is not in UTC: a column has the moment alone."""
        dictionary = self.engine.dictionary
        zones = dictionary.extra[dictionary.kind == Kind.DATETIME]
        return bool(((zones != 0) & (zones != NO_TIME_ZONE)).any())

    def _contents(self, predicate: Predicate) -> Schema:
        known = self.reasoner.schemas
        if self._program is not None:
            known = known.data.now(self._program, known.facts)
        return with_mixed(known.of(predicate), self._mixed)

    def _time_types(self, layout: Layout) -> list[tuple[ColumnType, Any]]:
        """Return the types of the columns that say when: bounds, whether they are left out, the period."""
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
        return Rows(*self.engine.rows(name)) if self._listing is None else self._listing.rows(name)

    def tables(self, predicate: Predicate, rows: Rows) -> list[Any]:
        """Return rows of a predicate as Arrow tables of its schema, some rows each, and each row once."""
        schema = self.schema(predicate)
        if not self._is_faithful(predicate) and rows.count:
            table = self._table(predicate, schema, rows)
            return [table.group_by(table.column_names, use_threads=False).aggregate([]).cast(schema)]
        if not rows.count:
            return [schema.empty_table()]
        return [self._table(predicate, schema, _slice(rows, start)) for start in range(0, rows.count, PIECE)]

    def table(self, predicate: Predicate, rows: Rows) -> Any:
        """Return rows of a predicate as one Arrow table."""
        return pa.concat_tables(self.tables(predicate, rows))

    def _table(self, predicate: Predicate, schema: Any, rows: Rows) -> Any:
        layout, dictionary = self.layout(predicate), self.engine.dictionary
        if not layout.names:
            return pa.Table.from_arrays([pa.array([True] * rows.count)], schema=schema)
        arrays = []
        for ids, contents, name in zip(rows.columns, self._contents(predicate), layout.names, strict=False):
            try:
                arrays.append(to_typed(dictionary, ids, contents))
            except Misfit as misfit:
                raise misfit_error(misfit, name, predicate.written, contents) from None
        if layout.times:
            types = tuple(of for of, _ in self._time_types(layout))
            arrays += time_arrays(rows, layout, types, dictionary)
        arrays = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    # ---- what a transaction changed

    def changes(self, change: Change) -> HeldChanges:
        """Return what a transaction changed in each predicate; it must have been the last one."""
        known, net = self.reasoner.predicates(), change.delta.net
        if self._listing is not None:
            net = self._listing.changes(net, known)
        timed = self._timed.names
        names = [name for name in {**net.removed, **net.added} if name in known and name in timed]
        changes: dict[str, Changed | None] = {name: self._timed_change(name, net) for name in names}
        changes |= _changes(net.removed, net.added, {name: known[name] for name in known.keys() - timed})
        found = {name: changed for name, changed in changes.items() if changed is None or changed.count}
        return {name: each if self._is_faithful(known[name]) else None for name, each in found.items()}

    def has_forgotten(self, name: str) -> bool:
        """Return whether facts of a predicate are in its table that the reasoner has forgotten."""
        return name in self._timed.names and self.reasoner.time.past.time is not None

    def since(self, name: str, rows: tuple[Sequence[Any], Times]) -> Changed:
        """Return what has changed since rows were published that reach into what is not forgotten."""
        return self._timed.since(name, *rows)

    def changes_of(self, net: NetChange) -> HeldChanges:
        """Return what a transaction that is open would change in each predicate of its program."""
        assert self._program is not None, "that of the transaction"
        known = self._program.predicates
        if (
            self._listing is not None
            or self._timed.names
            or known.keys() != self.reasoner.predicates().keys()
        ):
            return dict.fromkeys(known)
        found = _changes(net.removed, net.added, known)
        return {name: each if self._is_faithful(known[name]) else None for name, each in found.items()}

    def _timed_change(self, name: str, net: NetChange) -> Changed | None:
        """Return what changed in a predicate that holds at times; None where all of it repeats."""
        if self.reasoner.time.periodic is not None:
            return None
        return self._timed.changed(name, _timed(net.removed, name), _timed(net.added, name))


def _slice(rows: Rows, start: int) -> Rows:
    columns = tuple(column[start : start + PIECE] for column in rows.columns)
    return Rows(columns, min(PIECE, rows.count - start))


def _timed(rows: Mapping[str, Rows], name: str) -> TimedRows | None:
    found = rows.get(name)
    assert found is None or isinstance(found, TimedRows), "it holds at times"
    return found


def _changes(
    removed: Mapping[str, Rows], added: Mapping[str, Rows], known: Mapping[str, Predicate]
) -> dict[str, Changed]:
    """Return what went and what came, by predicate."""
    return {
        name: Changed(
            removed.get(name, no_rows(known[name].arity)), added.get(name, no_rows(known[name].arity))
        )
        for name in {**removed, **added}
        if name in known
    }
