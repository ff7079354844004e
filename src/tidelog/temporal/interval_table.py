"""Lists of intervals by number, rows and groups over them, and relations over time. Mutates itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids
from tidelog.logic.intervals import Interval, beyond_range
from tidelog.temporal import interval_kernels as kernels
from tidelog.temporal.interval_kernels import INFINITY, LIMIT

# ---- Lists of intervals by number, and the timeline that says what their integers mean.

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


# ---- Rows of ids with an index, and groups: rows of a rule's variables, each with a list of intervals.

Table = npt.NDArray[np.int32]  # one row of the array per column of ids


class Index:
    """From the ids in some columns to the rows that have them. Mutable: it follows as rows are added."""

    def __init__(self, positions: Sequence[int] | Integers) -> None:
        self.positions = np.array(positions, np.int64)
        self.heads = np.full(16, -1, np.int64)
        self.following = np.empty(16, np.int64)
        self.entered = 0

    def make_room(self, columns: Table, rows: int) -> None:
        """Reserve room for `rows` rows; those entered already are entered again where they move."""
        if rows > len(self.following):
            larger = np.empty(max(rows, 2 * len(self.following)), np.int64)
            larger[: self.entered] = self.following[: self.entered]
            self.following = larger
        if rows > len(self.heads):
            self.heads = np.full(1 << (2 * rows - 1).bit_length(), -1, np.int64)
            kernels.enter(columns, self.positions, 0, self.entered, self.heads, self.following)

    def follow(self, columns: Table, rows: int) -> None:
        """Enter the rows that were added."""
        if rows > self.entered:
            self.make_room(columns, rows)
            kernels.enter(columns, self.positions, self.entered, rows, self.heads, self.following)
            self.entered = rows

    def matches(self, columns: Table, given: Table, places: Integers) -> tuple[Integers, Integers]:
        """Each given row, by number, with each row that has its ids; `places` are the columns given."""
        counts = np.empty(given.shape[1], np.int64)
        where = self.heads, self.following, given, places
        total = kernels.count_matches(columns, self.positions, *where, counts)
        others, rows = np.empty(total, np.int64), np.empty(total, np.int64)
        kernels.find_matches(columns, self.positions, *where, others, rows)
        return others, rows


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Rows of ids, a column for each variable, and for each row the list of intervals at which it holds."""

    names: tuple[str, ...]
    columns: Table
    lists: Lists

    def __len__(self) -> int:
        return self.columns.shape[1] if self.names else len(self.lists)

    def column(self, name: str) -> Ids:
        """The column of a variable."""
        column: Ids = self.columns[self.names.index(name)]
        return column

    def places(self, names: Iterable[str]) -> Integers:
        """Where the columns of these variables are."""
        return np.array([self.names.index(name) for name in names], np.int64)

    def taken(self, numbers: Integers) -> Groups:
        """The groups of these numbers."""
        return Groups(self.names, self.columns[:, numbers], self.lists.taken(numbers))

    def holding(self) -> Groups:
        """Those that hold at some time."""
        kept = self.lists.count > 0
        return self if bool(kept.all()) else self.taken(np.flatnonzero(kept))

    def with_lists(self, lists: Lists) -> Groups:
        """The same rows with other lists."""
        return Groups(self.names, self.columns, lists)

    def extended(self, name: str, ids: Ids) -> Groups:
        """The groups with one more column."""
        return Groups((*self.names, name), np.vstack([self.columns, ids[None, :]]), self.lists)


def joined_rows(first: Groups, second: Groups, numbers: Integers, others: Integers, lists: Lists) -> Groups:
    """Pairs of groups as one group each, with the given lists."""
    more = [place for place, name in enumerate(second.names) if name not in first.names]
    columns = np.vstack([first.columns[:, numbers], picked(second.columns, more, others)])
    names = (*first.names, *(second.names[place] for place in more))
    return Groups(names, columns, lists)


def picked(columns: Table, places: Sequence[int], numbers: Integers) -> Table:
    """The columns at these places, of these rows only: no column is copied as a whole."""
    found = np.empty((len(places), len(numbers)), np.int32)
    for target, place in zip(found, places, strict=True):
        np.take(columns[place], numbers, out=target)
    return found


def pairs(first: Groups, second: Groups) -> tuple[Integers, Integers]:
    """The numbers of the groups that agree in the variables that both have."""
    shared = [name for name in first.names if name in second.names]
    if not shared:
        count, other = len(first), len(second)
        return np.repeat(np.arange(count), other), np.tile(np.arange(other), count)
    if len(first) < len(second):
        others, numbers = pairs(second, first)
        return numbers, others
    index = Index(second.places(shared))
    index.follow(second.columns, len(second))
    return index.matches(second.columns, first.columns, first.places(shared))


def distinct_rows(columns: Table) -> Table:
    """The rows of ids, each once."""
    if not len(columns) or not columns.shape[1]:
        return columns[:, :1]
    known = RowSet(len(columns))
    known.find_or_add(columns)
    return known.columns[:, : known.rows]


class RowSet:
    """A set of rows of ids with numbers that stay, and indexes made when asked for. Mutates itself."""

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self.columns: Table = np.empty((arity, 16), np.int32)
        self.rows = 0
        self._set = Index(range(arity))
        self._indexes: dict[tuple[int, ...], Index] = {}

    def find_or_add(self, given: Table, count: int | None = None) -> Integers:
        """The number of each given row, which is added if it is not there."""
        if self.arity == 0:
            self.rows = 1
            return np.zeros(given.shape[1] if count is None else count, np.int64)
        given = np.ascontiguousarray(given)
        most = self.rows + given.shape[1]
        if most > self.columns.shape[1]:
            larger = np.empty((self.arity, max(most, 2 * self.columns.shape[1])), np.int32)
            larger[:, : self.rows] = self.columns[:, : self.rows]
            self.columns = larger
        self._set.make_room(self.columns, most)
        numbers = np.empty(given.shape[1], np.int64)
        known = self._set.positions, self._set.heads, self._set.following
        self.rows = kernels.find_or_add(self.columns, self.rows, *known, given, numbers)
        self._set.entered = self.rows
        return numbers

    def find(self, given: Table, count: int) -> Integers:
        """The number of each given row; -1 where it is not there."""
        if self.arity == 0:
            return np.zeros(count, np.int64) if self.rows else np.full(count, -1)
        numbers = np.empty(given.shape[1], np.int64)
        known = self._set.positions, self._set.heads, self._set.following
        kernels.find_rows(self.columns, *known, np.ascontiguousarray(given), numbers)
        return numbers

    def matches(self, positions: Sequence[int], given: Table) -> tuple[Integers, Integers]:
        """Each given row with each row of the set that has its ids at these positions."""
        key = tuple(positions)
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = Index(key)
        index.follow(self.columns, self.rows)
        return index.matches(self.columns, np.ascontiguousarray(given), np.arange(len(key)))


# ---- Relations over time: each fact has a number and a list of intervals. Mutates itself.
#
# A table knows what its last change was, so that it can be read as it was before.
#
# Lists lie in a pool; one that outgrows its room moves to the pool's end, into twice what it needs.
# Everything here costs what it touches.

MOST_WASTE = 1 << 16  # places of the pool that nobody uses before it is written anew


class Part(Enum):
    """Which state of a relation is read."""

    NOW = "now"
    BEFORE = "before"  # the last change


class TimedTable:
    """Facts of one predicate and when they hold."""

    def __init__(self, name: str, arity: int) -> None:
        self.name = name
        self.arity = arity
        self._begin()

    def _begin(self) -> None:
        """Reset to no facts."""
        self.facts = RowSet(self.arity)
        self._first = np.zeros(16, np.int64)
        self._count = np.zeros(16, np.int64)
        self._room = np.zeros(16, np.int64)
        self._left = np.empty(64, np.int64)
        self._right = np.empty(64, np.int64)
        self._end = 0
        self._used = 0
        # What the last change added or took away, and where the change of a fact stands; -1 for none.
        self.changed: Integers = np.zeros(0, np.int64)
        self.change: Lists = nothing()
        self.is_gain = True
        self._place = np.full(16, -1, np.int64)
        self._stamp = np.zeros(16, np.int64)  # the last transaction that noted a fact

    @staticmethod
    def of(name: str, columns: Sequence[Ids], left: Integers, right: Integers) -> TimedTable:
        """The table of rows, each with the ends of an interval."""
        table = TimedTable(name, len(columns))
        if len(left):
            rows = np.array(columns, np.int32).reshape(len(columns), len(left))
            table.gain(*single(left, right).grouped(table.number(rows, len(left))))
        return table

    def __len__(self) -> int:
        """How many intervals there are, over all facts."""
        return self._used

    # ---- facts by number

    def number(self, rows: Table, count: int | None = None) -> Integers:
        """The numbers of facts; those not known hold at no time."""
        numbers = self.facts.find_or_add(rows, count)
        if self.facts.rows > len(self._first):
            more = max(self.facts.rows, 2 * len(self._first)) - len(self._first)
            counts = self._first, self._count, self._room, self._stamp
            larger = [np.pad(held, (0, more)) for held in counts]
            place = np.pad(self._place, (0, more), constant_values=-1)
            # All or none: after a fault no array is shorter than the others.
            (self._first, self._count, self._room, self._stamp), self._place = larger, place
        return numbers

    @property
    def lists(self) -> Lists:
        """The lists of all facts, by number."""
        rows = self.facts.rows
        return Lists(self._first[:rows], self._count[:rows], self._left, self._right)

    def read(self, numbers: Integers, part: Part) -> Lists:
        """The lists of facts, now or before the last change."""
        if part is Part.NOW or not len(self.changed):
            return self.lists.taken(numbers)
        places = self._place[numbers]
        if not bool((places >= 0).any()):
            return self.lists.taken(numbers)
        if self.is_gain:
            return self.lists.without(self.change, numbers, places)
        return self.lists.united(self.change, numbers, places)

    # ---- changes

    def gain(self, numbers: Integers, lists: Lists) -> tuple[Integers, Lists]:
        """Add points to distinct facts; returns the facts that gained some, and which."""
        new = lists.without(self.lists, lists.numbers, numbers)
        kept = np.flatnonzero(new.count > 0)
        numbers, new = numbers[kept], new.taken(kept)
        self._write(numbers, self.lists.united(new, numbers, new.numbers))
        return numbers, new

    def lose(self, numbers: Integers, lists: Lists) -> tuple[Integers, Lists]:
        """Take points away from distinct facts; returns the facts that lost some, and which."""
        gone = lists.intersected(self.lists, lists.numbers, numbers)
        kept = np.flatnonzero(gone.count > 0)
        numbers, gone = numbers[kept], gone.taken(kept)
        self._write(numbers, self.lists.without(gone, numbers, gone.numbers))
        return numbers, gone

    def note(self, numbers: Integers, change: Lists, *, is_gain: bool) -> None:
        """Record the last change, which has been made."""
        self.forget_change()
        self.changed, self.change, self.is_gain = numbers, change, is_gain
        self._place[numbers] = np.arange(len(numbers))

    def forget_change(self) -> None:
        """Discard the record of the last change."""
        if len(self.changed):
            self._place[self.changed] = -1
            self.changed, self.change = np.zeros(0, np.int64), nothing()

    def stamp(self, numbers: Integers, epoch: int) -> Integers:
        """Those of distinct facts that have not had this stamp; now they have."""
        new: Integers = numbers[self._stamp[numbers] != epoch]
        self._stamp[new] = epoch
        return new

    def replace(self, numbers: Integers, lists: Lists) -> None:
        """Replace the lists of distinct facts."""
        self._write(numbers, lists)

    def _write(self, numbers: Integers, lists: Lists) -> None:
        if not len(numbers):
            return
        self._used += int(lists.count.sum()) - int(self._count[numbers].sum())
        needed = self._end + 2 * lists.size
        if needed > len(self._left):
            left, right = np.empty((2, max(needed, 2 * self._end)), np.int64)
            left[: self._end], right[: self._end] = self._left[: self._end], self._right[: self._end]
            self._left, self._right = left, right
        pool = self._first, self._count, self._room, self._left, self._right
        self._end = int(kernels.write_lists(*pool, self._end, numbers, *lists.parts))
        if self._end > MOST_WASTE + 4 * self._used:
            self._compact()

    def _compact(self) -> None:
        """Write the pool anew, without what nobody uses."""
        lists = self.lists
        _, left, right = lists.rows()
        more = len(self._first) - self.facts.rows
        first, room = (
            np.pad(each, (0, more)) for each in (np.cumsum(lists.count) - lists.count, lists.count)
        )
        self._left, self._right, self._end, self._first, self._room = left, right, len(left), first, room

    def rescaled(self, timeline: Timeline, factor: int) -> TimedTable:
        """The table with all ends written in units that are finer by a factor, and no last change."""
        made = copy(self)
        made._compact()  # into arrays of its own, in which nothing but ends is left
        timeline.rescale(made._left, made._right, factor)
        made.changed, made.change, made._place = (
            np.zeros(0, np.int64),
            nothing(),
            np.full_like(self._place, -1),
        )
        return made

    # ---- forgetting

    @property
    def weight(self) -> int:
        """How many facts and intervals take memory."""
        return self.facts.rows + self._used

    def forget(self, end: int) -> None:
        """Drop all points before a left end, and facts that have none left; others get new numbers."""
        numbers, lists = self.holding()
        lists = lists.later(end)
        kept = np.flatnonzero(lists.count > 0)
        rows = np.ascontiguousarray(self.facts.columns[:, numbers[kept]])
        self._begin()
        self._write(self.number(rows, len(kept)), lists.taken(kept))

    # ---- as data

    def holding(self) -> tuple[Integers, Lists]:
        """The facts that hold at some time, and when."""
        numbers = np.flatnonzero(self._count[: self.facts.rows] > 0)
        return numbers, self.lists.taken(numbers)

    def rows(self) -> tuple[Table, Integers, Integers]:
        """All facts interval by interval: columns of ids, left and right ends."""
        numbers, lists = self.holding()
        owners, left, right = lists.rows()
        return self.facts.columns[:, numbers[owners]], left, right

    @property
    def bytes(self) -> int:
        """The memory of the pool and the facts, without indexes."""
        arrays = self._first, self._count, self._room, self._place, self._left, self._right
        return sum(array.nbytes for array in arrays) + self.facts.columns.nbytes
