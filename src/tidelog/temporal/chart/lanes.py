"""Charts as data: a lane for each fact, with the spans of time at which it holds. Drawn by others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.columnar import decode
from tidelog.errors import counted
from tidelog.shown import visible
from tidelog.temporal.chart.axis import Axis
from tidelog.temporal.list_kernels import INFINITY
from tidelog.temporal.lists import Integers, Timeline
from tidelog.temporal.relation import TimedRelation

MARGIN, MARGIN_OF_INFINITY = Fraction(3, 100), Fraction(8, 100)  # of the window, beyond all bounds
_ALONE = {False: Fraction(1), True: Fraction(60)}  # beside a single point: a unit, or a minute

Places = npt.NDArray[np.float64]


class End(StrEnum):
    """How a span ends: with its bound or before it, never, or beyond the window."""

    CLOSED = "closed"
    OPEN = "open"
    INFINITE = "infinite"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a lane between two places, 0 and 1 being the ends of the window."""

    left: float
    right: float
    left_end: End
    right_end: End
    text: str
    intervals: int = 1  # more if they are too short to be told apart


@dataclass(frozen=True, slots=True)
class Lane:
    """A fact and when it holds; facts with the same first argument are a group."""

    label: str
    group: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """The lanes of one relation, and how many more there would be."""

    title: str
    lanes: tuple[Lane, ...]
    intervals: int
    left_out: int = 0
    is_grouped: bool = False  # lanes have more than one argument


@dataclass(frozen=True, slots=True)
class Chart:
    """A whole picture: what of, the axis, the lanes, and remarks."""

    title: str
    axis: Axis
    sections: tuple[Section, ...]
    remarks: tuple[str, ...] = ()

    @property
    def lanes(self) -> int:
        """How many lanes are drawn."""
        return sum(len(section.lanes) for section in self.sections)

    @property
    def summary(self) -> tuple[str, ...]:
        """What is drawn, and what is not, in a few words each."""
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
    """The window asked for; where it is not, all bounds and a margin."""
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


def _section(relation: TimedRelation, axis: Axis, most: int | None, places: int) -> Section:
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
    return Section(relation.name, lanes, len(shown), total - drawn, len(columns) > 1)


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
) -> list[list[Span]]:
    """The spans of each lane."""
    spans: list[list[Span]] = [[] for _ in range(count)]
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
            Span(
                float(at_left[start]),
                float(at_right[stop]),
                left_ends[start],
                right_ends[stop],
                text,
                stop - start + 1,
            )
        )
    return spans


def _drawn(ends: Integers, sign: int, axis: Axis, timeline: Timeline) -> tuple[Places, list[End]]:
    """Where ends are drawn, and how."""
    units = _units(timeline)
    points = _points(ends, sign, timeline)
    # Integers are subtracted, not doubles: long after 1970 these cannot tell microseconds apart.
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


def _starts(lanes: Integers, left: Places, right: Places, shortest: float) -> Any:
    """The rows that begin a span: those that are not short and close behind another short one."""
    is_short = right - left < shortest
    is_joined = np.zeros(len(lanes), bool)
    is_joined[1:] = (
        (lanes[1:] == lanes[:-1]) & is_short[1:] & is_short[:-1] & (left[1:] - right[:-1] < shortest)
    )
    return np.flatnonzero(~is_joined)
