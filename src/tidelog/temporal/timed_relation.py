"""Temporal relations: rows with the interval at which each holds; some repeat forever with a period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.data import decode
from tidelog.data.arrow import pc
from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import Relation, TextTable
from tidelog.data.rows import Ids
from tidelog.logic.intervals import Interval, read_interval, write_point
from tidelog.logic.program import free_name
from tidelog.logic.type_inference import LazySchema
from tidelog.temporal.interval_kernels import INFINITY
from tidelog.temporal.interval_table import Integers, Timeline

INTERVAL = "interval"
BOUNDS = ("start", "end", "start_open", "end_open")
Truths = npt.NDArray[np.bool_]
SHOWN_LANES = 100  # of a representation
_MICROSECONDS = 1_000_000


class TimedRelation(Relation):
    """Rows of ids with the ends of an interval each.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse("hot(s1)@[0, 10) . alarm(?s) :- boxminus[0, 5] hot(?s) ."))
    >>> reasoner["alarm"]
    alarm: 1 row
      s   interval
      s1  [5, 10)
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        columns: tuple[Ids, ...],
        left: Integers,
        right: Integers,
        dictionary: Dictionary,
        timeline: Timeline,
        time: str = INTERVAL,
        schema: LazySchema | None = None,
    ) -> None:
        super().__init__(name, (*names, free_name(time, names)), columns, len(left), dictionary, schema)
        self.arguments = tuple(names)
        self.time = self.columns[-1]  # the name of the column of intervals
        self.left = left
        self.right = right
        self.timeline = timeline

    @cached_property
    def _order(self) -> Integers:
        """The rows in the order of their ids, then of time."""
        keys: list[Any] = [self.left, *self._columns[::-1]]
        return np.lexsort(keys)

    @cached_property
    def _ids(self) -> tuple[Ids, ...]:
        return tuple(column[self._order] for column in self._columns)

    def sorted(self) -> TimedRelation:
        """The same rows in the total order of values, first column first, then in that of time."""
        ordered = self._taken(self._order)
        if not ordered._columns:
            return ordered
        return ordered._taken(decode.order(self._dictionary, ordered._columns, self._rows))

    def head(self, rows: int) -> TimedRelation:
        """The first rows."""
        positions = self._order if "_order" in self.__dict__ else np.arange(self._rows)
        return self._taken(positions[:rows])

    def _taken(self, positions: Integers) -> TimedRelation:
        """The rows at these positions, in their order."""
        relation = self._at(positions)
        relation.__dict__["_order"] = np.arange(len(positions))
        return relation

    def _at(self, positions: Integers) -> TimedRelation:
        return TimedRelation(*self._parts(positions))

    def _parts(self, positions: Integers) -> tuple[Any, ...]:
        """The arguments that make a relation of the rows at these positions."""
        return (
            self.name,
            self.arguments,
            tuple(column[positions] for column in self._columns),
            self.left[positions],
            self.right[positions],
            self._dictionary,
            self.timeline,
            self.time,
            lambda: self.contents,
        )

    def _values(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples of Python values, the interval last."""
        values = super()._values()
        left, right = self.left[self._order].tolist(), self.right[self._order].tolist()
        for row, low, high in zip(values, left, right, strict=True):
            yield (*row, self.timeline.decode(low, high))

    def __contains__(self, row: object) -> bool:
        """Whether a row of Python values, the interval last, holds in the relation, perhaps for longer.

        The interval may be given as a text such as `[0, 5]`.
        """
        if not isinstance(row, tuple) or len(row) != len(self.arguments) + 1:
            return False
        interval = row[-1] if isinstance(row[-1], Interval) else read_interval(str(row[-1]))
        finer = self.timeline.refined([interval])
        lefts, rights = self.left.copy(), self.right.copy()
        self.timeline.rescale(lefts, rights, finer.scale // self.timeline.scale)
        matches = self._cover(lefts, rights, *finer.ends(interval), finer)
        with self._dictionary.lock:
            ids = self._dictionary.encode_objects(row[:-1])
        for column, identity in zip(self._columns, ids, strict=True):
            matches &= column == identity
        return bool(matches.any())

    def _cover(self, lefts: Integers, rights: Integers, left: int, right: int, timeline: Timeline) -> Truths:
        """Which intervals, with ends on a timeline, hold another one."""
        return (lefts <= left) & (rights >= right)

    def intervals(self) -> list[Interval]:
        """The intervals of the rows, in their order."""
        return self[self.time]

    def to_arrow(self, mixed: str = "text") -> pa.Table:
        """The rows as an Arrow table: the arguments, then start, end, and whether these are left out.

        Bounds are integers if all are whole, timestamps if they are dateTimes, else exact texts; null where
        there is no end.
        """
        return super().to_arrow(mixed)

    def table_of(self, columns: Sequence[pa.Array]) -> pa.Table:
        """The columns of the arguments with those of the bounds."""
        names = list(self.arguments)
        for name in BOUNDS:
            names.append(free_name(name, names))
        return pa.Table.from_arrays([*columns, *self.bounds()], names=names)

    def bounds(self, are_texts: bool = False) -> list[pa.Array]:
        """Return the start and end of each row, perhaps as exact texts, and whether they are left out."""
        left, right = self.left[self._order], self.right[self._order]
        dense = 0 if self.timeline.is_integer else 1
        opened = [(abs(ends) >= INFINITY) | ((ends & dense) == 1) for ends in (left, right)]
        bounds = [self._bounds(left, -1, are_texts), self._bounds(right, 1, are_texts)]
        return [*bounds, *map(pa.array, opened)]

    def _bounds(self, ends: Integers, sign: int, are_texts: bool) -> pa.Array:
        """The points at which intervals begin (sign -1) or end."""
        is_infinite = np.abs(ends) >= INFINITY
        if are_texts:
            texts, numbers = self._end_texts(ends, sign)
            bounds = pa.array(texts, pa.string()).take(pa.array(numbers))
            return pc.if_else(pa.array(is_infinite), None, bounds)
        if self.timeline.is_integer:
            return pa.array(ends, mask=is_infinite)
        points = (ends + sign * (ends & 1)) // 2
        scale = self.timeline.scale
        if self.timeline.is_calendar and _MICROSECONDS % scale == 0:
            points = np.where(is_infinite, 0, points * (_MICROSECONDS // scale))
            return pa.array(points, mask=is_infinite).cast(pa.timestamp("us", "UTC"))
        if not self.timeline.is_calendar and self._is_whole:
            return pa.array(points // scale, mask=is_infinite)
        return self._bounds(ends, sign, are_texts=True)

    @cached_property
    def _is_whole(self) -> bool:
        """Whether all bounds are whole numbers."""
        unit = 2 * self.timeline.scale
        points = [(self.left, self.left - (self.left & 1)), (self.right, self.right + (self.right & 1))]
        return not any(bool((at[np.abs(ends) < INFINITY] % unit).any()) for ends, at in points)

    def _end_texts(self, ends: Integers, sign: int) -> tuple[list[str], Integers]:
        """The texts of the distinct ends, and for each end the number of its text."""
        distinct, numbers = np.unique(ends, return_inverse=True)
        if sign < 0:
            intervals = [self.timeline.decode(end, INFINITY) for end in distinct.tolist()]
            return [interval.write(interval.start, "-inf") for interval in intervals], numbers
        intervals = [self.timeline.decode(-INFINITY, end) for end in distinct.tolist()]
        return [interval.write(interval.end, "inf") for interval in intervals], numbers

    def to_texts(self, form: str = "plain") -> TextTable:
        """The rows as texts, the interval last."""
        arrays = [decode.to_texts(self._dictionary, ids, form) for ids in self._ids]
        names = [*self.arguments, self.time]
        return TextTable(pa.Table.from_arrays([*arrays, self._interval_texts()], names=names))

    def _interval_texts(self) -> pa.Array:
        left, right = self.left[self._order], self.right[self._order]
        dense = 0 if self.timeline.is_integer else 1
        parts = []
        for ends, sign, brackets in ((left, -1, "[("), (right, 1, "])")):
            texts, numbers = self._end_texts(ends, sign)
            opened = np.where((np.abs(ends) >= INFINITY) | ((ends & dense) == 1), 1, 0)
            bracket = pa.array(list(brackets), pa.large_string()).take(pa.array(opened))
            bounds = pa.array(texts, pa.large_string()).take(pa.array(numbers))
            parts.append((bracket, bounds))
        (opening, start), (closing, end) = parts
        nothing, comma = (pa.scalar(text, pa.large_string()) for text in ("", ", "))
        before = pc.binary_join_element_wise(opening, start, nothing)
        after = pc.binary_join_element_wise(end, closing, nothing)
        return pc.binary_join_element_wise(before, after, comma)

    def _repr_html_(self) -> str:
        from tidelog.show.chart import Drawing

        picture = Drawing([self], lanes=SHOWN_LANES)._repr_html_()
        return f"{picture}<details><summary>rows</summary>{super()._repr_html_()}</details>"


EVERY = "every"
SHOWN_PERIODS = 3  # in a picture without bounds


class PeriodicRelation(TimedRelation):
    """Rows with an interval and a period by which it repeats: later, or earlier if the period is negative.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse("tick(a)@1 . tick(?x) :- diamondminus[2, 2] tick(?x) ."))
    >>> reasoner["tick"]
    tick: 1 row
      x  interval  every
      a  [1, 1]    2
    """

    def __init__(self, *parts: Any, every: Integers) -> None:
        super().__init__(*parts)
        self.every = every
        self.columns = (*self.columns, free_name(EVERY, self.columns))

    def _at(self, positions: Integers) -> PeriodicRelation:
        return PeriodicRelation(*self._parts(positions), every=self.every[positions])

    def _values(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples of Python values, the interval and the period last, which may be None."""
        for row, every in zip(super()._values(), self.every[self._order].tolist(), strict=True):
            yield (*row, self.timeline.duration(every) if every else None)

    def unrolled(self, start: Fraction | None, end: Fraction | None) -> TimedRelation:
        """The rows with their repetitions up to these times; without times, a few of them."""
        if not self.every.any():
            return TimedRelation(*self._parts(np.arange(len(self.every))))
        spans = [SHOWN_PERIODS * int(np.abs(self.every).max())] * 2
        for side, (time, ends, sign) in enumerate(((start, self.right, -1), (end, self.left, 1))):
            if time is not None:
                distance = sign * (
                    self.timeline.span(time) - sign * int((sign * ends[self.every != 0]).min())
                )
                spans[side] = max(distance, 0)
        span = np.where(self.every > 0, spans[1], spans[0])
        times = 1 + np.where(self.every == 0, 0, span // np.maximum(np.abs(self.every), 1))
        rows = np.repeat(np.arange(len(times)), times)
        number = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
        offsets = number * self.every[rows]
        return TimedRelation(
            self.name,
            self.arguments,
            tuple(column[rows] for column in self._columns),
            self.left[rows] + offsets,
            self.right[rows] + offsets,
            self._dictionary,
            self.timeline,
            self.time,
            lambda: self.contents,
        )

    def _cover(self, lefts: Integers, rights: Integers, left: int, right: int, timeline: Timeline) -> Truths:
        """Which intervals contain another one when shifted by some number of periods."""
        every = self.every * (timeline.scale // self.timeline.scale)
        offsets = np.where(every > 0, np.maximum(left - lefts, 0), np.maximum(rights - right, 0))
        offsets = np.where(every == 0, 0, offsets // np.where(every == 0, 1, np.abs(every)) * every)
        return super()._cover(lefts + offsets, rights + offsets, left, right, timeline)

    def table_of(self, columns: Sequence[pa.Array]) -> pa.Table:
        """The columns of the arguments and bounds, the period last: whole numbers, else exact texts."""
        table = super().table_of(columns)
        return table.append_column(free_name(EVERY, table.column_names), self.periods())

    def periods(self) -> pa.Array:
        """Return the period of each row, null where it does not repeat: whole numbers, else exact texts."""
        every = self.every[self._order]
        durations = [self.timeline.duration(period) if period else None for period in every.tolist()]
        if all(duration is None or duration.denominator == 1 for duration in durations):
            return pa.array(
                [None if duration is None else int(duration) for duration in durations], pa.int64()
            )
        return pa.array([None if duration is None else write_point(duration) for duration in durations])

    def to_texts(self, form: str = "plain") -> TextTable:
        """The rows as texts, interval and period last; the period is empty for rows that do not repeat."""
        table = super().to_texts(form).table
        texts = ["" if text is None else str(text) for text in self.periods().to_pylist()]
        return TextTable(table.append_column(self.columns[-1], pa.array(texts, pa.large_string())))
