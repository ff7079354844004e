"""Metric operators over lists of intervals, as paper 002, Table 1, defines them.

`M since ρ N` holds where N does if 0 is in ρ. Otherwise M must hold, without a gap, from right behind a point
of N to right before the present one: a maximal interval of M with its ends closed, cut with N, moved on by
what remains of ρ, cut with the closed interval again. On the integer timeline nothing lies between a point
and the next, so what was 1 ago needs no M either. `until` is the mirror image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tidelog.logic.intervals import Interval
from tidelog.temporal.lists import Integers, Lists, Timeline

DIAMOND_OF = {"since": "diamondminus", "until": "diamondplus"}
_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True, slots=True)
class Lasting:
    """A `since` or `until` taken apart.

    `by` moves points of the right operand where the left one lasts, None if the interval is 0 alone; `alone`
    are the moves under which points of the right operand count without the left one.
    """

    by: Integers | None
    alone: tuple[Integers | None, ...]  # None: they stay where they are
    is_integer: bool


def take_apart(operator: str, interval: Interval, timeline: Timeline) -> Lasting:
    """A `since` or `until` taken apart."""
    diamond = DIAMOND_OF[operator]
    alone: list[Integers | None] = []
    rest: Interval | None = interval
    if _ZERO in interval:
        alone.append(None)
        is_zero = interval.end == _ZERO
        rest = None if is_zero else replace(interval, start=_ZERO, start_open=True)
    if timeline.is_integer and _ONE in interval:
        alone.append(timeline.operator(diamond, Interval(_ONE, _ONE)))
    if rest is not None and timeline.is_integer:
        left, right = timeline.ends(rest)
        rest = rest if left <= right else None
    by = None if rest is None else timeline.operator(diamond, rest)
    return Lasting(by, tuple(alone), timeline.is_integer)


def lasting(parts: Lasting, first: Lists, second: Lists, numbers: Integers, others: Integers) -> Lists:
    """Where the first lists last from points of the second, pair by pair; -1 is the empty list."""
    if parts.by is None:
        return Lists(*(np.zeros(len(numbers), np.int64),) * 2, *(np.zeros(0, np.int64),) * 2)
    return first.lasting(second, numbers, others, parts.by, parts.is_integer)


def with_alone(parts: Lasting, made: Lists, second: Lists, others: Integers) -> Lists:
    """The lists, with the points of the second ones that count without the first."""
    for by in parts.alone:
        points, numbers = second, others
        if by is not None:
            points, numbers = second.taken(others).moved(by), np.arange(len(others))
        made = made.united(points, made.numbers, numbers)
    return made


def evaluate_metric(
    operator: str, interval: Interval, operands: Sequence[Lists], timeline: Timeline
) -> Lists:
    """What an operator makes of lists, or of pairs of lists."""
    if len(operands) == 1:
        return operands[0].moved(timeline.operator(operator, interval))
    first, second = operands
    count = max(len(first), len(second))
    numbers = first.numbers if len(first) else np.full(count, -1)
    others = second.numbers if len(second) else np.full(count, -1)
    parts = take_apart(operator, interval, timeline)
    made = lasting(parts, first, second, numbers, others)
    return with_alone(parts, made, second, others) if len(second) else made
