"""What the columns hold that say from when to when facts hold: whole numbers, moments, or exact texts.

It follows from the program and from what is given, never from the rows. What is derived has bounds that are
sums of stated and given ones, and of lengths in rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from fractions import Fraction

from tidelog.logic.intervals import Interval
from tidelog.logic.metrics import intervals_of
from tidelog.logic.program import Program, TimedFact

_MICROSECONDS = 1_000_000


class Bound(Enum):
    """What a bound is."""

    WHOLE = "whole"
    MOMENT = "moment"
    TEXT = "text"  # it may be anything


def bound_of(program: Program, given: Iterable[Bound], horizon: Interval | None) -> Bound:
    """Return what bounds are in a program that is given data with such bounds."""
    if program.is_integer_time:
        return Bound.WHOLE
    columns = list(given)
    lengths = [point for rule in program.timed_rules for one in intervals_of(rule) for point in _points(one)]
    stated = [fact.interval for fact in program.facts if isinstance(fact, TimedFact)]
    stated += [] if horizon is None else [horizon]
    points = [point for interval in stated for point in _points(interval)]
    if Bound.MOMENT in columns or any(interval.is_calendar for interval in stated):
        is_fine = all((point * _MICROSECONDS).denominator == 1 for point in (*points, *lengths))
        return Bound.MOMENT if is_fine and set(columns) <= {Bound.MOMENT} else Bound.TEXT
    is_whole = all(point.denominator == 1 for point in (*points, *lengths))
    return Bound.WHOLE if is_whole and set(columns) <= {Bound.WHOLE} else Bound.TEXT


def _points(interval: Interval) -> Iterator[Fraction]:
    yield from (point for point in (interval.start, interval.end) if point is not None)
