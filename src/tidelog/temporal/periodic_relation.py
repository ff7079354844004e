"""Relations of which a part repeats without end: each such interval is there once, with its period."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.data.relation import TextTable
from tidelog.logic.intervals import write_point
from tidelog.logic.program import free_name
from tidelog.temporal.lists import Integers, Timeline
from tidelog.temporal.relation import TimedRelation, Truths

EVERY = "every"
SHOWN_PERIODS = 3  # in a picture for which nobody says from when to when


class PeriodicRelation(TimedRelation):
    """Rows with an interval and a period: it holds that much later too, and so on, or earlier if negative.

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

    def _at(self, places: Integers) -> PeriodicRelation:
        return PeriodicRelation(*self._parts(places), every=self.every[places])

    def _values(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples of Python values, the interval and the period last, which may be None."""
        for row, every in zip(super()._values(), self.every[self._order].tolist(), strict=True):
            yield (*row, self.timeline.duration(every) if every else None)

    def unrolled(self, start: Fraction | None, end: Fraction | None) -> TimedRelation:
        """The rows with all that repeats up to these times; without them, a few times."""
        if not self.every.any():
            return TimedRelation(*self._parts(np.arange(len(self.every))))
        spans = [SHOWN_PERIODS * int(np.abs(self.every).max())] * 2
        for place, (time, ends, sign) in enumerate(((start, self.right, -1), (end, self.left, 1))):
            if time is not None:
                far = sign * (self.timeline.span(time) - sign * int((sign * ends[self.every != 0]).min()))
                spans[place] = max(far, 0)
        span = np.where(self.every > 0, spans[1], spans[0])
        times = 1 + np.where(self.every == 0, 0, span // np.maximum(np.abs(self.every), 1))
        places = np.repeat(np.arange(len(times)), times)
        number = np.arange(len(places)) - np.repeat(np.cumsum(times) - times, times)
        by = number * self.every[places]
        return TimedRelation(
            self.name,
            self.arguments,
            tuple(column[places] for column in self._columns),
            self.left[places] + by,
            self.right[places] + by,
            self._dictionary,
            self.timeline,
            self.time,
            lambda: self.contents,
        )

    def _cover(self, lefts: Integers, rights: Integers, left: int, right: int, timeline: Timeline) -> Truths:
        """Which intervals hold another one, moved by as many periods as it takes."""
        every = self.every * (timeline.scale // self.timeline.scale)
        by = np.where(every > 0, np.maximum(left - lefts, 0), np.maximum(rights - right, 0))
        by = np.where(every == 0, 0, by // np.where(every == 0, 1, np.abs(every)) * every)
        return super()._cover(lefts + by, rights + by, left, right, timeline)

    def table_of(self, columns: Sequence[pa.Array]) -> pa.Table:
        """The columns of the arguments and bounds, the period last: whole numbers, else exact texts."""
        table = super().table_of(columns)
        return table.append_column(free_name(EVERY, table.column_names), self.periods())

    def periods(self) -> pa.Array:
        """Return the period of each row, none where it does not repeat: whole numbers, else exact texts."""
        every = self.every[self._order]
        durations = [self.timeline.duration(period) if period else None for period in every.tolist()]
        if all(duration is None or duration.denominator == 1 for duration in durations):
            return pa.array(
                [None if duration is None else int(duration) for duration in durations], pa.int64()
            )
        return pa.array([None if duration is None else write_point(duration) for duration in durations])

    def to_texts(self, form: str = "plain") -> TextTable:
        """The rows as texts, the interval and the period last, which is empty where nothing repeats."""
        table = super().to_texts(form).table
        texts = ["" if text is None else str(text) for text in self.periods().to_pylist()]
        return TextTable(table.append_column(self.columns[-1], pa.array(texts, pa.large_string())))
