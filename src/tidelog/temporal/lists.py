"""Lists of intervals by number, and the timeline that says what their integers mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.logic.intervals import Interval, beyond_range
from tidelog.temporal import list_kernels as kernels
from tidelog.temporal.list_kernels import INFINITY, LIMIT

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Lists of intervals: list i is the `count[i]` intervals from place `first[i]` on. See `list_kernels`."""

    first: Integers
    count: Integers
    left: Integers
    right: Integers

    def __len__(self) -> int:
        return len(self.first)

    @property
    def parts(self) -> tuple[Integers, Integers, Integers, Integers]:
        """What kernels take."""
        return self.first, self.count, self.left, self.right

    @property
    def numbers(self) -> Integers:
        """The numbers of all lists."""
        return np.arange(len(self.first))

    def taken(self, numbers: Integers) -> Lists:
        """The lists of these numbers, none of them -1; nothing is copied."""
        return Lists(self.first[numbers], self.count[numbers], self.left, self.right)

    def rows(self) -> tuple[Integers, Integers, Integers]:
        """All intervals one by one: the number of the list, the left and the right end."""
        owners = np.repeat(self.numbers, self.count)
        starts = np.cumsum(self.count) - self.count
        places = np.arange(len(owners)) - np.repeat(starts - self.first, self.count)
        return owners, self.left[places], self.right[places]

    @property
    def size(self) -> int:
        """How many intervals there are."""
        return int(self.count.sum())

    @property
    def bounds(self) -> tuple[int, int]:
        """The least left and the greatest right end; the first is greater if there is no interval."""
        low, high = kernels.list_bounds(*self.parts, self.numbers)
        return int(low), int(high)

    # ---- operations, pair by pair; -1 is the empty list

    def intersected(self, other: Lists, numbers: Integers, others: Integers) -> Lists:
        """The points that both have."""
        return self._combined(kernels.INTERSECT, other, numbers, others)

    def united(self, other: Lists, numbers: Integers, others: Integers) -> Lists:
        """The points that one of them has."""
        return self._combined(kernels.UNITE, other, numbers, others)

    def without(self, other: Lists, numbers: Integers, others: Integers) -> Lists:
        """The points that only the first has."""
        return self._combined(kernels.SUBTRACT, other, numbers, others)

    def _combined(self, operation: int, other: Lists, numbers: Integers, others: Integers) -> Lists:
        room = _room(len(numbers), self._length(numbers) + other._length(others))
        end = kernels.combine(operation, *self.parts, numbers, *other.parts, others, *room.parts)
        return room.cut(end)

    def _length(self, numbers: Integers) -> int:
        """How many intervals the lists of these numbers have, of which some may be -1."""
        return int(kernels.total_length(self.count, numbers))

    def later(self, end: int) -> Lists:
        """The points from a left end on."""
        return self.within(end, INFINITY)

    def within(self, left: int, right: int) -> Lists:
        """The points between two ends."""
        whole = single(np.array([left]), np.array([right]))
        return self.intersected(whole, self.numbers, np.zeros(len(self), np.int64))

    def moved(self, by: Integers) -> Lists:
        """What a unary operator makes of them."""
        room = _room(len(self), self.size)
        end, is_beyond = kernels.move(*self.parts, self.numbers, by, *room.parts)
        _check(is_beyond)
        return room.cut(end)

    def lasting(
        self, other: Lists, numbers: Integers, others: Integers, by: Integers, is_integer: bool
    ) -> Lists:
        """The points that these lists lead to from points of others: `since` without 0, and `until`."""
        room = _room(len(numbers), self._length(numbers) + other._length(others))
        given = (*self.parts, numbers, *other.parts, others, by, is_integer)
        end, is_beyond = kernels.lasting(*given, *room.parts)
        _check(is_beyond)
        return room.cut(end)

    def grouped(self, keys: Integers) -> tuple[Integers, Lists]:
        """The distinct keys in order, and for each the union of its lists."""
        if len(keys) > 1 and not bool((keys[1:] > keys[:-1]).all()):
            order = np.argsort(keys, kind="stable")
            places, room = np.empty(len(keys), np.int64), _room(len(keys), self.size)
            groups, end = kernels.gather(*self.parts, order, keys[order], places, *room.parts)
            found = Lists(room.first[:groups], room.count[:groups], room.left, room.right)
            return keys[order[places[:groups]]], found.cut(end)
        return keys, self

    def cut(self, size: int) -> Lists:
        """The same lists, of which only the first `size` intervals are in use."""
        return Lists(self.first, self.count, self.left[:size], self.right[:size])


def _room(count: int, size: int) -> Lists:
    """Arrays for so many lists of so many intervals together, to be written."""
    return Lists(*(np.empty(length, np.int64) for length in (count, count, size, size)))


def nothing(count: int = 0) -> Lists:
    """So many empty lists."""
    zeros = np.zeros(count, np.int64)
    none = np.zeros(0, np.int64)
    return Lists(zeros, zeros, none, none)


def single(left: Integers, right: Integers) -> Lists:
    """A list of one interval for each pair of ends, or of none where the first is the greater one."""
    return Lists(np.arange(len(left)), (left <= right).astype(np.int64), left, right)


def always(count: int) -> Lists:
    """So many lists of all time."""
    left, right = np.array([-INFINITY]), np.array([INFINITY])
    return Lists(np.zeros(count, np.int64), np.ones(count, np.int64), left, right)


def _check(is_beyond: bool) -> None:
    if is_beyond:
        raise beyond_range()


@dataclass(frozen=True, slots=True)
class Timeline:
    """What integers mean: points in units of 1 / `scale`; whether all points are integers.

    `is_calendar`: facts were given with dateTimes, so that people want to read dateTimes.
    """

    scale: int = 1
    is_integer: bool = False
    is_calendar: bool = False

    # ---- intervals to integers

    def ends(self, interval: Interval) -> tuple[int, int]:
        """The two ends; the first is the greater one if no integer lies in the interval."""
        left, right = -INFINITY, INFINITY
        if interval.start is not None:
            left = self._end(interval.start, interval.start_open, 1)
        if interval.end is not None:
            right = self._end(interval.end, interval.end_open, -1)
        return left, right

    def _end(self, point: Fraction, is_open: bool, inwards: int) -> int:
        if self.is_integer:
            whole = -(-point.numerator // point.denominator) if inwards == 1 else point // 1
            end = int(whole) + (inwards if is_open and whole == point else 0)
        else:
            units, rest = divmod(self.scale, point.denominator)
            assert rest == 0, "the scale fits all points"
            end = 2 * units * point.numerator + (inwards if is_open else 0)
        _check(abs(end) > LIMIT)
        return end

    def encode(self, intervals: Sequence[Interval]) -> tuple[Integers, Integers]:
        """The ends of many intervals."""
        ends = [self.ends(interval) for interval in intervals]
        both = np.array(ends, np.int64).reshape(len(ends), 2)
        return both[:, 0].copy(), both[:, 1].copy()

    def decode(self, left: int, right: int) -> Interval:
        """The interval of two ends."""
        if self.is_integer:
            start = None if left <= -INFINITY else Fraction(left)
            return Interval(
                start, None if right >= INFINITY else Fraction(right), False, False, self.is_calendar
            )
        is_open, is_open_right = bool(left & 1), bool(right & 1)
        start = None if left <= -INFINITY else Fraction(left - is_open, 2 * self.scale)
        end = None if right >= INFINITY else Fraction(right + is_open_right, 2 * self.scale)
        return Interval(start, end, is_open, is_open_right, self.is_calendar)

    def span(self, duration: Fraction) -> int:
        """A duration in units by which ends are moved."""
        return int(duration * (1 if self.is_integer else 2 * self.scale))

    def around(self, low: int, high: int) -> tuple[Fraction, Fraction]:
        """The points between which two finite ends lie."""
        if self.is_integer:
            return Fraction(low), Fraction(high)
        return Fraction(low // 2, self.scale), Fraction(-(-high // 2), self.scale)

    def duration(self, span: int) -> Fraction:
        """The duration of so many units."""
        return Fraction(span, 1 if self.is_integer else 2 * self.scale)

    # ---- finer units

    def refined(self, intervals: Sequence[Interval]) -> Timeline:
        """The timeline with units fine enough for the bounds of these, dateTimes if one of them has some."""
        bounds = [bound for one in intervals for bound in (one.start, one.end) if bound is not None]
        scale = self.scale if self.is_integer else lcm(self.scale, *(bound.denominator for bound in bounds))
        is_calendar = self.is_calendar or any(one.is_calendar for one in intervals)
        _check(scale > LIMIT)
        return replace(self, scale=scale, is_calendar=is_calendar)

    def rescale(self, left: Integers, right: Integers, factor: int) -> None:
        """Write ends in units that are finer by a factor, in place."""
        for ends, sign in ((left, 1), (right, -1)):
            finite = np.abs(ends) < INFINITY
            rest = ends[finite] & 1
            whole = ends[finite] - sign * rest
            if len(whole):
                _check(int(np.abs(whole).max()) * factor > LIMIT)
            ends[finite] = whole * factor + sign * rest

    # ---- operators

    def operator(self, name: str, interval: Interval) -> Integers:
        """What a unary operator does to ends, as `list_kernels.move` wants it."""
        low, high = self._offsets(interval)
        end = 0 if high is None else high[0]
        match name:
            case "diamondminus":
                moves = [low[0] + low[1], low[0], end - _odd(high), end, 0, high is None, 0, 0]
            case "diamondplus":
                moves = [-end + _odd(high), -end, -low[0] - low[1], -low[0], high is None, 0, 0, 0]
            case "boxminus":
                moves = [end, end - _odd(high), low[0], low[0] + low[1], 0, 0, high is None, 0]
            case _:
                moves = [-low[0], -low[0] - low[1], -end, -end + _odd(high), 0, 0, 0, high is None]
        return np.array(moves, np.int64)

    def _offsets(self, interval: Interval) -> tuple[tuple[int, int], tuple[int, int] | None]:
        """The two bounds of an operator: how far, and 1 if that is left out; None for infinity."""
        left, right = self.ends(interval)
        if self.is_integer:
            return (left, 0), None if interval.end is None else (right, 0)
        low = left - (left & 1), left & 1
        return low, None if interval.end is None else (right + (right & 1), right & 1)


def _odd(bound: tuple[int, int] | None) -> int:
    return 0 if bound is None else bound[1]


def as_integers(values: Any) -> Integers:
    """The values as 64-bit integers."""
    return np.ascontiguousarray(values, np.int64)
