"""Charts as data: a lane for each fact, with the spans at which it holds, and the axis of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction
from itertools import count, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data import decode
from tidelog.errors import counted, visible
from tidelog.logic.intervals import write_point
from tidelog.logic.lexical_forms import civil, read_date, write_date
from tidelog.records import dataclass
from tidelog.temporal.interval_kernels import INFINITY
from tidelog.temporal.interval_table import Integers, Timeline
from tidelog.temporal.timed_relation import TimedRelation

# ---- axis of a chart

_DAY = 86_400
_MINUTES = (1, 2, 5, 10, 15, 30)
_CLOCK_STEPS = (
    *_MINUTES,
    *(60 * step for step in _MINUTES),
    *(3_600 * step for step in (1, 2, 3, 6, 12)),
)
_DAY_STEPS = (1, 2, 7, 14)
_MONDAY = 4  # days after 1970-01-01: weeks begin there
_MONTH_STEPS = (1, 3, 6)
_GAP = 2  # characters between two labels
_DATE = len("2024-05-01")
_FINEST = -7  # powers of ten of a second that clocks show


@dataclass(frozen=True, slots=True)
class Tick:
    """A point with its label; `date` is the day that begins there, or that the axis begins with."""

    point: Fraction
    text: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """A window of time, how its points are written, and whether they are the integers only."""

    start: Fraction
    end: Fraction
    is_calendar: bool = False
    is_integer: bool = False

    @property
    def length(self) -> Fraction:
        """The length of the window; never 0."""
        return self.end - self.start

    def place(self, point: Fraction) -> float:
        """Return the position of a point: 0 at the start of the window, 1 at its end."""
        return float((point - self.start) / self.length)

    def ticks(self, characters: int) -> list[Tick]:
        """The ticks of an axis with room for this many characters: as many as can be read.

        >>> [tick.text for tick in Axis(Fraction(0), Fraction(30)).ticks(60)]
        ['0', '2', '4', '6', '8', '10', '12', '14', '16', '18', '20', '22', '24', '26', '28', '30']
        >>> [tick.text for tick in Axis(Fraction(0), Fraction(1, 3)).ticks(30)]
        ['0', '0.1', '0.2', '0.3']
        """
        steps = self._calendar_steps() if self.is_calendar else self._number_steps(characters)
        for ticks in steps:
            if _has_room(ticks, self, characters):
                return _with_apart_dates(ticks, self, characters)
        raise AssertionError("steps grow without end, so that one of them has room")

    # ---- numbers

    def _number_steps(self, characters: int) -> Iterator[list[Tick]]:
        """The ticks at multiples of 1, 2, 5, 10…, finer ones first."""
        for step in _decimal_steps(self.length / max(characters, 1)):
            if not self.is_integer or step.denominator == 1:
                yield [Tick(point, write_point(point)) for point in self._multiples(step)]

    def _multiples(self, step: Fraction, origin: int = 0) -> Iterator[Fraction]:
        """The points of the window that lie whole steps away from the origin."""
        first = -((origin - self.start) // step)
        for number in count(first):
            point = origin + number * step
            if point > self.end:
                return
            yield point

    # ---- dateTimes

    def _calendar_steps(self) -> Iterator[list[Tick]]:
        """The ticks at round clocks, days, months and years, finer ones first."""
        rough = self.length / 200  # more ticks than that are never drawn
        for step in _clock_steps():
            if step >= rough:
                yield self._clocks(step)
        for days in _DAY_STEPS:
            if days * _DAY >= rough:
                points = self._multiples(Fraction(days * _DAY), _MONDAY * _DAY)
                yield [Tick(point, write_date(int(point) // _DAY)) for point in points]
        for months in _month_steps():
            if months * 30 * _DAY >= rough:
                yield self._months(months)

    def _clocks(self, step: Fraction) -> list[Tick]:
        """The ticks within days: the clock, and the date where it is another one."""
        ticks: list[Tick] = []
        date = ""
        for point in self._multiples(step):
            today = write_date(int(point // _DAY))
            ticks.append(Tick(point, _clock(point % _DAY, step), today if today != date else ""))
            date = today
        return ticks

    def _months(self, step: int) -> list[Tick]:
        """The ticks at the first days of every few months; of years if these are whole ones."""
        first, last = (_month(point) for point in (self.start, self.end))
        ticks = []
        for month in range(first - first % step, last + 1, step):
            year = month // 12
            month_text = f"{'-' if year < 0 else ''}{abs(year):04}-{month % 12 + 1:02}"
            days = read_date(f"{month_text}-01")
            if days is not None and self.start <= days * _DAY <= self.end:
                ticks.append(Tick(Fraction(days * _DAY), month_text[:-3] if step % 12 == 0 else month_text))
        return ticks


def _decimal_steps(least: Fraction) -> Iterator[Fraction]:
    """1, 2 and 5 times the powers of ten, from about the least one that is needed."""
    power = len(str(int(least))) - 1 if least >= 1 else -len(str(int(1 / least)))
    for exponent in count(power):
        for digit in (1, 2, 5):
            yield digit * Fraction(10) ** exponent


def _clock_steps() -> Iterator[Fraction]:
    for exponent in range(_FINEST, 0):
        for digit in (1, 2, 5):
            yield digit * Fraction(10) ** exponent
    yield from map(Fraction, _CLOCK_STEPS)


def _month_steps() -> Iterator[int]:
    yield from _MONTH_STEPS
    for step in _decimal_steps(Fraction(1)):
        yield 12 * int(step)


def _month(point: Fraction) -> int:
    """The number of the month that a point lies in, from the year 0 on."""
    year, month, _ = civil(int(point // _DAY))
    return 12 * year + month - 1


def _clock(seconds: Fraction, step: Fraction) -> str:
    """Hours and minutes, and seconds if steps are shorter than minutes.

    >>> _clock(Fraction(3_661), Fraction(60)), _clock(Fraction(1, 2), Fraction(1, 10))
    ('01:01', '00:00:00.5')
    """
    minutes, seconds_left = divmod(seconds, 60)
    text = f"{int(minutes) // 60:02}:{int(minutes) % 60:02}"
    if step >= 60:
        return text
    whole_seconds, part = divmod(seconds_left, 1)
    decimals = write_point(Fraction(part))[1:] if part else ""
    return f"{text}:{int(whole_seconds):02}{decimals}"


# ---- room


def _has_room(ticks: Sequence[Tick], axis: Axis, characters: int) -> bool:
    """Whether no label overlaps the next one."""
    places = [axis.place(tick.point) * characters for tick in ticks]
    return all(
        (len(before.text) + len(after.text)) / 2 + _GAP <= right - left
        for (left, before), (right, after) in pairwise(zip(places, ticks, strict=True))
    )


def _with_apart_dates(ticks: Sequence[Tick], axis: Axis, characters: int) -> list[Tick]:
    """Return the ticks without dates that would overlap the next date."""
    remaining: list[Tick] = []
    following = float("inf")
    for tick in reversed(ticks):
        place = axis.place(tick.point) * characters
        if tick.date and following - place < _DATE + _GAP:
            tick = replace(tick, date="")
        if tick.date:
            following = place
        remaining.append(tick)
    return remaining[::-1]


# ---- charts as data

MARGIN, MARGIN_OF_INFINITY = Fraction(3, 100), Fraction(8, 100)  # of the window, beyond all bounds
_ALONE = {False: Fraction(1), True: Fraction(60)}  # around a single point: a unit, or a minute

Positions = npt.NDArray[np.float64]


class End(StrEnum):
    """The kind of an end of a span: bound included or excluded, unbounded, or beyond the window."""

    CLOSED = "closed"
    OPEN = "open"
    INFINITE = "infinite"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """A stretch of a lane between two places, 0 and 1 being the ends of the window."""

    left: float
    right: float
    left_end: End
    right_end: End
    text: str
    intervals: int = 1  # more if they are too short to be distinguished


@dataclass(frozen=True, slots=True)
class Lane:
    """A fact and when it holds; facts with the same first argument are a group."""

    label: str
    group: str
    spans: tuple[LaneSpan, ...]


@dataclass(frozen=True, slots=True)
class RelationLanes:
    """The lanes of one relation, and how many more there would be."""

    title: str
    lanes: tuple[Lane, ...]
    intervals: int
    left_out: int = 0
    is_grouped: bool = False  # lanes have more than one argument


@dataclass(frozen=True, slots=True)
class Chart:
    """A whole chart: its title, the axis, the lanes, and remarks."""

    title: str
    axis: Axis
    sections: tuple[RelationLanes, ...]
    remarks: tuple[str, ...] = ()

    @property
    def lanes(self) -> int:
        """How many lanes are drawn."""
        return sum(len(section.lanes) for section in self.sections)

    @property
    def summary(self) -> tuple[str, ...]:
        """A summary of what is drawn, and what is left out."""
        intervals = sum(section.intervals for section in self.sections)
        left_out = sum(section.left_out for section in self.sections)
        words = [counted(self.lanes + left_out, "fact"), counted(intervals, "interval")]
        if left_out:
            words.append(f"the first {self.lanes:,} drawn")
        return (*words, *self.remarks)


def make_chart(
    relations: Sequence[TimedRelation],
    start: Fraction | None = None,
    end: Fraction | None = None,
    *,
    most: int | None = None,
    places: int = 2_000,
    remarks: Sequence[str] = (),
) -> Chart:
    """A chart of relations in a window, by default one that shows all bounds.

    No more than `most` lanes of each are drawn. Intervals shorter than one of the `places` of a lane, with
    gaps that are no longer, are drawn as one dense span.
    """
    axis = _axis(relations, start, end)
    sections = tuple(_section(relation, axis, most, places) for relation in relations)
    return Chart(", ".join(relation.name for relation in relations), axis, sections, tuple(remarks))


# ---- the window


def _axis(relations: Sequence[TimedRelation], start: Fraction | None, end: Fraction | None) -> Axis:
    """The requested window; by default all bounds and a margin."""
    is_calendar = any(relation.timeline.is_calendar for relation in relations)
    bounds = [bound for relation in relations for bound in _extremes(relation)]
    low, high = min(bounds, default=None), max(bounds, default=None)
    first = start if start is not None else low if low is not None else end
    last = end if end is not None else high if high is not None else start
    if first is None or last is None:
        first, last = Fraction(0), Fraction(1)
    length = last - first if last > first else _ALONE[is_calendar]
    is_endless = [any(_is_infinite(ends, sign).any() for ends in side) for sign, side in _sides(relations)]
    before, after = (length * (MARGIN_OF_INFINITY if endless else MARGIN) for endless in is_endless)
    if last <= first:
        before = after = length
    return Axis(
        first - before if start is None else start,
        max(last, first) + after if end is None else end,
        is_calendar,
        bool(relations) and all(relation.timeline.is_integer for relation in relations),
    )


def _sides(relations: Sequence[TimedRelation]) -> list[tuple[int, list[Integers]]]:
    return [(-1, [relation.left for relation in relations]), (1, [relation.right for relation in relations])]


def _is_infinite(ends: Integers, sign: int) -> npt.NDArray[np.bool_]:
    return ends <= -INFINITY if sign < 0 else ends >= INFINITY


def _extremes(relation: TimedRelation) -> Iterable[Fraction]:
    """The first and the last finite bound."""
    units = _units(relation.timeline)
    for sign, ends in ((-1, relation.left), (1, relation.right)):
        finite = _points(ends[np.abs(ends) < INFINITY], sign, relation.timeline)
        if len(finite):
            yield Fraction(int(finite.min()), units)
            yield Fraction(int(finite.max()), units)


def _points(ends: Integers, sign: int, timeline: Timeline) -> Integers:
    """The bounds of intervals that begin (sign -1) or end there, whether they are included or not."""
    return ends if timeline.is_integer else ends + sign * (ends & 1)


def _units(timeline: Timeline) -> int:
    """How many of the integers that ends are written in make 1."""
    return 1 if timeline.is_integer else 2 * timeline.scale


# ---- lanes


def _section(relation: TimedRelation, axis: Axis, most: int | None, places: int) -> RelationLanes:
    """The lanes of a relation that have something to show in the window."""
    ordered = relation.sorted()
    columns, _, dictionary = ordered.coded
    shown = np.flatnonzero(_is_within(ordered, axis))
    is_first = np.ones(len(shown), bool)
    if len(shown):
        is_first[1:] = False
    for column in columns:
        ids = column[shown]
        is_first[1:] |= ids[1:] != ids[:-1]
    lane_numbers = np.cumsum(is_first) - 1
    total = int(is_first.sum())
    drawn = total if most is None else min(most, total)
    kept = shown[lane_numbers < drawn]
    lane_numbers = lane_numbers[: len(kept)]
    firsts = shown[is_first][:drawn]
    texts = [decode.to_texts(dictionary, column[firsts], "plain").to_pylist() for column in columns]
    labels = (
        [", ".join(map(visible, row)) for row in zip(*texts, strict=True)] if columns else [relation.name]
    )
    groups = list(map(visible, texts[0])) if columns else labels
    spans = _spans(ordered, axis, kept, lane_numbers, drawn, places)
    lanes = tuple(map(Lane, labels, groups, map(tuple, spans)))
    return RelationLanes(relation.name, lanes, len(shown), total - drawn, len(columns) > 1)


def _is_within(relation: TimedRelation, axis: Axis) -> npt.NDArray[np.bool_]:
    """Which intervals have a point in the window."""
    low = _end(relation.timeline, axis.start, 1)
    high = _end(relation.timeline, axis.end, -1)
    return np.asarray((relation.right >= low) & (relation.left <= high))


def _end(timeline: Timeline, point: Fraction, inwards: int) -> int:
    """A closed end at a point, which may be finer than the units of the timeline."""
    scaled = point * timeline.scale
    if timeline.is_integer:
        return int(-(-scaled // 1)) if inwards > 0 else int(scaled // 1)
    # Between two units nothing begins or ends: a point there is as good as any other.
    end = 2 * int(scaled // 1) + (scaled.denominator != 1)
    return max(-INFINITY, min(INFINITY, end))


def _spans(
    relation: TimedRelation, axis: Axis, rows: Integers, lanes: Integers, count: int, places: int
) -> list[list[LaneSpan]]:
    """The spans of each lane."""
    spans: list[list[LaneSpan]] = [[] for _ in range(count)]
    if not len(rows):
        return spans
    left, right = relation.left[rows], relation.right[rows]
    at_left, left_ends = _drawn(left, -1, axis, relation.timeline)
    at_right, right_ends = _drawn(right, 1, axis, relation.timeline)
    starts = _starts(lanes, at_left, at_right, 1 / places)
    stops = np.append(starts[1:], len(rows)) - 1
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        text = str(relation.timeline.decode(int(left[start]), int(right[start])))
        if stop > start:
            last = relation.timeline.decode(int(left[stop]), int(right[stop]))
            text = f"{stop - start + 1:,} intervals, {text} … {last}"
        spans[lanes[start]].append(
            LaneSpan(
                float(at_left[start]),
                float(at_right[stop]),
                left_ends[start],
                right_ends[stop],
                text,
                stop - start + 1,
            )
        )
    return spans


def _drawn(ends: Integers, sign: int, axis: Axis, timeline: Timeline) -> tuple[Positions, list[End]]:
    """Return the positions and kinds of ends."""
    units = _units(timeline)
    points = _points(ends, sign, timeline)
    # Integers are subtracted, not doubles: long after 1970 these do not resolve microseconds.
    origin = max(-INFINITY, min(INFINITY, int(axis.start * units // 1)))
    at = (points - np.int64(origin) - float(axis.start * units - origin)) / float(axis.length * units)
    is_open = np.zeros(len(ends), bool) if timeline.is_integer else (ends & 1) == 1
    is_infinite = _is_infinite(ends, sign)
    at[is_infinite] = sign
    is_cut = at < 0 if sign < 0 else at > 1
    kinds = [
        End.INFINITE if infinite else End.CUT if cut else End.OPEN if open else End.CLOSED
        for infinite, cut, open in zip(is_infinite.tolist(), is_cut.tolist(), is_open.tolist(), strict=True)
    ]
    return np.clip(at, 0, 1), kinds


def _starts(lanes: Integers, left: Positions, right: Positions, shortest: float) -> Any:
    """The rows that begin a span: those that are not short and close behind another short one."""
    is_short = right - left < shortest
    is_joined = np.zeros(len(lanes), bool)
    is_joined[1:] = (
        (lanes[1:] == lanes[:-1]) & is_short[1:] & is_short[:-1] & (left[1:] - right[:-1] < shortest)
    )
    return np.flatnonzero(~is_joined)
