"""Lists of intervals by number, their timeline, rows of ids by number, and tables of facts with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids
from tidelog.logic.intervals import Interval, beyond_range
from tidelog.plan.algebra import Part
from tidelog.records import dataclass
from tidelog.temporal import interval_kernels as kernels
from tidelog.temporal.interval_kernels import INFINITY, LIMIT

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class IntervalLists:
    """Lists of intervals: list i is `count[i]` intervals from position `first[i]` on; see `interval_kernels`.

    A list is a set of time points: its intervals are sorted, and none touches the next.
    """

    first: Integers
    count: Integers
    left: Integers
    right: Integers

    def __len__(self) -> int:
        return len(self.first)

    @property
    def parts(self) -> tuple[Integers, Integers, Integers, Integers]:
        """The four arrays, as kernels take them."""
        return self.first, self.count, self.left, self.right

    @property
    def numbers(self) -> Integers:
        """The numbers of all lists."""
        return np.arange(len(self.first))

    def take(self, numbers: Integers) -> IntervalLists:
        """The lists of these numbers, none of which is -1; the intervals are not copied."""
        return IntervalLists(self.first[numbers], self.count[numbers], self.left, self.right)

    def rows(self) -> tuple[Integers, Integers, Integers]:
        """All intervals one by one: the number of the list, the left and the right end."""
        copied = self.copied()
        return np.repeat(self.numbers, self.count), copied.left, copied.right

    def copied(self) -> IntervalLists:
        """The same lists, one behind the other in arrays of their own."""
        size = self.size
        first, left, right = (
            np.empty(len(self.first), np.int64),
            np.empty(size, np.int64),
            np.empty(size, np.int64),
        )
        kernels.copy_lists(*self.parts, first, left, right)
        return IntervalLists(first, self.count, left, right)

    @property
    def nonempty(self) -> Integers:
        """The numbers of the lists that are not empty."""
        numbers: Integers = self.count.nonzero()[0]
        return numbers

    @property
    def size(self) -> int:
        """How many intervals there are."""
        return int(kernels.total_length(self.count, self.numbers))

    @property
    def bounds(self) -> tuple[int, int]:
        """The least left and the greatest right end; the first is greater if there is no interval."""
        low, high = kernels.list_bounds(*self.parts, self.numbers)
        return int(low), int(high)

    def intersected(self, other: IntervalLists, numbers: Integers, others: Integers) -> IntervalLists:
        """The points of both lists, pair by pair; the number -1 is the empty list."""
        return self._combined(kernels.INTERSECT, other, numbers, others)

    def united(self, other: IntervalLists, numbers: Integers, others: Integers) -> IntervalLists:
        """The points of either list, pair by pair; the number -1 is the empty list."""
        return self._combined(kernels.UNITE, other, numbers, others)

    def without(self, other: IntervalLists, numbers: Integers, others: Integers) -> IntervalLists:
        """The points of the first list only, pair by pair; the number -1 is the empty list."""
        return self._combined(kernels.SUBTRACT, other, numbers, others)

    def _combined(
        self, operation: int, other: IntervalLists, numbers: Integers, others: Integers
    ) -> IntervalLists:
        count, size = len(numbers), self._length_with(other, numbers, others)
        room = _room(count, size)
        end = kernels.combine(operation, *self.parts, numbers, *other.parts, others, *room)
        return _filled(room, count, end)

    def _length_with(self, other: IntervalLists, numbers: Integers, others: Integers) -> int:
        """The number of intervals in pairs of lists, some of whose numbers may be -1."""
        return int(kernels.total_length_of_pairs(self.count, numbers, other.count, others))

    def later(self, end: int) -> IntervalLists:
        """The points from a left end on."""
        return self.within(end, INFINITY)

    def within(self, left: int, right: int) -> IntervalLists:
        """The points between two ends."""
        whole = single(np.array([left]), np.array([right]))
        return self.intersected(whole, self.numbers, np.zeros(len(self), np.int64))

    def shifted(self, *moves: Integers) -> IntervalLists:
        """The lists after unary operators, the innermost first, as `Timeline.operator` encodes them."""
        lists = self
        for by in moves:
            count, numbers = len(lists.first), lists.numbers
            room = _room(count, kernels.total_length(lists.count, numbers))
            end, is_beyond = kernels.move(*lists.parts, numbers, by, *room)
            _check(is_beyond)
            lists = _filled(room, count, end)
        return lists

    def since(
        self, other: IntervalLists, numbers: Integers, others: Integers, by: Integers, is_integer: bool
    ) -> IntervalLists:
        """The points that these lists reach without a gap from points of the others: `since` or `until` with
        an interval without 0.
        """
        count, size = len(numbers), self._length_with(other, numbers, others)
        room = _room(count, size)
        operands = (*self.parts, numbers, *other.parts, others, by, is_integer)
        end, is_beyond = kernels.lasting(*operands, *room)
        _check(is_beyond)
        return _filled(room, count, end)

    def grouped(self, keys: Integers) -> tuple[Integers, IntervalLists]:
        """The distinct keys in order, and for each the union of its lists."""
        if kernels.is_increasing(keys):
            return keys, self
        order = np.argsort(keys, kind="stable")
        starts, room = np.empty(len(keys), np.int64), _room(len(keys), self.size)
        groups, end = kernels.gather(*self.parts, order, keys[order], starts, *room)
        return keys[order[starts[:groups]]], _filled(room, groups, end)


Room = tuple[Integers, Integers, Integers, Integers]


def _room(count: int, size: int) -> Room:
    """Uninitialised arrays for `count` lists with `size` intervals in all, as kernels take them."""
    room = np.empty(2 * (count + size), np.int64)
    lefts = 2 * count
    rights = lefts + size
    return room[:count], room[count:lefts], room[lefts:rights], room[rights:]


def _filled(room: Room, count: int, size: int) -> IntervalLists:
    """The first `count` lists, with `size` intervals in all, that a kernel has written."""
    first, counts, left, right = room
    return IntervalLists(first[:count], counts[:count], left[:size], right[:size])


def empty_lists(count: int = 0) -> IntervalLists:
    """Empty lists, `count` of them."""
    zeros = np.zeros(count, np.int64)
    none = np.zeros(0, np.int64)
    return IntervalLists(zeros, zeros, none, none)


def single(left: Integers, right: Integers) -> IntervalLists:
    """A list of one interval for each pair of ends, or of none where the first is the greater one."""
    return IntervalLists(np.arange(len(left)), (left <= right).astype(np.int64), left, right)


def all_time(count: int) -> IntervalLists:
    """Lists of all time points, `count` of them."""
    left, right = np.array([-INFINITY]), np.array([INFINITY])
    return IntervalLists(np.zeros(count, np.int64), np.ones(count, np.int64), left, right)


def concatenate(parts: Sequence[IntervalLists]) -> IntervalLists:
    """The lists of all parts, numbered on."""
    count = np.concatenate([lists.count for lists in parts])
    first, _, left, right = _room(len(count), kernels.total_length(count, np.arange(len(count))))
    number = item = 0
    for lists in parts:
        kernels.copy_lists(*lists.parts, first[number:], left[item:], right[item:])
        first[number : number + len(lists)] += item
        number += len(lists)
        item += lists.size
    return IntervalLists(first, count, left, right)


def _check(is_beyond: bool) -> None:
    if is_beyond:
        raise beyond_range()


@dataclass(frozen=True, slots=True)
class Timeline:
    """The encoding of time points as integers: units of 1 / `scale`; whether all points are integers.

    `is_calendar`: facts were given with dateTimes, so that times are shown as dateTimes.
    """

    scale: int = 1
    is_integer: bool = False
    is_calendar: bool = False

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
            rounded = -(-point.numerator // point.denominator) if inwards == 1 else point // 1
            end = int(rounded) + (inwards if is_open and rounded == point else 0)
        else:
            units, remainder = divmod(self.scale, point.denominator)
            assert remainder == 0, "the scale fits all points"
            end = 2 * units * point.numerator + (inwards if is_open else 0)
        _check(abs(end) > LIMIT)
        return end

    def encode(self, intervals: Sequence[Interval]) -> tuple[Integers, Integers]:
        """The ends of many intervals."""
        ends = [self.ends(interval) for interval in intervals]
        columns = np.array(ends, np.int64).reshape(len(ends), 2)
        return columns[:, 0].copy(), columns[:, 1].copy()

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
        """The duration of a number of units."""
        return Fraction(span, 1 if self.is_integer else 2 * self.scale)

    def refined(self, intervals: Sequence[Interval]) -> Timeline:
        """The timeline with units fine enough for these intervals, with dateTimes if one has them."""
        bounds = [
            bound for interval in intervals for bound in (interval.start, interval.end) if bound is not None
        ]
        scale = self.scale if self.is_integer else lcm(self.scale, *(bound.denominator for bound in bounds))
        is_calendar = self.is_calendar or any(interval.is_calendar for interval in intervals)
        _check(scale > LIMIT)
        return replace(self, scale=scale, is_calendar=is_calendar)

    def rescale(self, left: Integers, right: Integers, factor: int) -> None:
        """Write ends in units that are finer by a factor, in place."""
        for ends, sign in ((left, 1), (right, -1)):
            finite = np.abs(ends) < INFINITY
            openness = ends[finite] & 1
            points = ends[finite] - sign * openness
            if len(points):
                _check(int(np.abs(points).max()) * factor > LIMIT)
            ends[finite] = points * factor + sign * openness

    def operator(self, name: str, interval: Interval) -> Integers:
        """The effect of a unary operator on ends, encoded for `interval_kernels.move`."""
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


IdColumns = npt.NDArray[np.int32]  # one row of the array per column of ids


class RowIndex:
    """A hash index from the ids in some columns to rows. Mutable: rows are added."""

    def __init__(self, positions: Sequence[int] | Integers) -> None:
        self.positions = np.array(positions, np.int64)
        self.heads = np.full(16, -1, np.int64)
        self.following = np.empty(16, np.int64)
        self.entered = 0

    def make_room(self, columns: IdColumns, rows: int) -> None:
        """Reserve room for `rows` rows; those entered already are entered again where they move."""
        if rows > len(self.following):
            larger = np.empty(max(rows, 2 * len(self.following)), np.int64)
            larger[: self.entered] = self.following[: self.entered]
            self.following = larger
        if rows > len(self.heads):
            self.heads = np.full(1 << (2 * rows - 1).bit_length(), -1, np.int64)
            kernels.enter(columns, self.positions, 0, self.entered, self.heads, self.following)

    def extend(self, columns: IdColumns, rows: int) -> None:
        """Enter the rows that were added, so that `rows` are entered."""
        if rows > self.entered:
            self.make_room(columns, rows)
            kernels.enter(columns, self.positions, self.entered, rows, self.heads, self.following)
            self.entered = rows

    def matches(self, columns: IdColumns, keys: IdColumns, positions: Integers) -> tuple[Integers, Integers]:
        """The number of each key with that of each row that has its ids, which are at `positions` of keys."""
        counts = np.empty(keys.shape[1], np.int64)
        lookup = self.heads, self.following, keys, positions
        total = kernels.count_matches(columns, self.positions, *lookup, counts)
        numbers, rows = np.empty(total, np.int64), np.empty(total, np.int64)
        kernels.find_matches(columns, self.positions, *lookup, numbers, rows)
        return numbers, rows


def select(columns: IdColumns, positions: Sequence[int], rows: Integers) -> IdColumns:
    """The columns at these positions, of these rows only: no column is copied as a whole."""
    selected = np.empty((len(positions), len(rows)), np.int32)
    for place, position in enumerate(positions):
        selected[place] = columns[position][rows]
    return selected


def distinct_rows(columns: IdColumns) -> IdColumns:
    """The rows of ids, each once."""
    if not len(columns) or not columns.shape[1]:
        return columns[:, :1]
    numbered = NumberedRows(len(columns))
    numbered.find_or_add(columns)
    return numbered.columns[:, : numbered.rows]


class NumberedRows:
    """A set of rows of ids, each with a number that never changes, and indexes built on demand. Mutable."""

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self.columns: IdColumns = np.empty((arity, 16), np.int32)
        self.rows = 0
        self._set = RowIndex(range(arity))
        self._indexes: dict[tuple[int, ...], RowIndex] = {tuple(range(arity)): self._set}

    def find_or_add(self, given: IdColumns, count: int | None = None) -> Integers:
        """The number of each given row, which is added if it is new."""
        if self.arity == 0:
            self.rows = 1
            return np.zeros(given.shape[1] if count is None else count, np.int64)
        given = np.ascontiguousarray(given)
        most_rows = self.rows + given.shape[1]
        if most_rows > self.columns.shape[1]:
            larger = np.empty((self.arity, max(most_rows, 2 * self.columns.shape[1])), np.int32)
            larger[:, : self.rows] = self.columns[:, : self.rows]
            self.columns = larger
        self._set.make_room(self.columns, most_rows)
        numbers = np.empty(given.shape[1], np.int64)
        index = self._set.positions, self._set.heads, self._set.following
        self.rows = kernels.find_or_add(self.columns, self.rows, *index, given, numbers)
        self._set.entered = self.rows
        return numbers

    def find(self, given: IdColumns, count: int) -> Integers:
        """The number of each given row; -1 where it is missing."""
        if self.arity == 0:
            return np.zeros(count, np.int64) if self.rows else np.full(count, -1)
        numbers = np.empty(given.shape[1], np.int64)
        index = self._set.positions, self._set.heads, self._set.following
        kernels.find_rows(self.columns, *index, np.ascontiguousarray(given), numbers)
        return numbers

    def matches(self, positions: Sequence[int], keys: IdColumns) -> tuple[Integers, Integers]:
        """The number of each key with that of each row of the set that has its ids at these positions."""
        index = self.index(positions)
        return index.matches(self.columns, np.ascontiguousarray(keys), np.arange(len(positions)))

    def index(self, positions: Sequence[int]) -> RowIndex:
        """The index by these positions, with all rows."""
        key = tuple(positions)
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = RowIndex(key)
        index.extend(self.columns, self.rows)
        return index


MOST_WASTE = 1 << 16  # unused intervals of a pool before it is compacted


class TimedTable:
    """The facts of one predicate, each with a number and a list of intervals. Mutable.

    A table records its last change, so that its former state can be read.

    Lists lie in a pool; one that outgrows its room moves to the pool's end, into twice what it needs. Every
    method that changes facts costs what it touches, except for compaction.
    """

    def __init__(self, name: str, arity: int) -> None:
        self.name = name
        self.arity = arity
        self._begin()

    def _begin(self) -> None:
        """Reset to no facts."""
        self.facts = NumberedRows(self.arity)
        self._first = np.zeros(16, np.int64)
        self._count = np.zeros(16, np.int64)
        self._room = np.zeros(16, np.int64)
        self._left = np.empty(64, np.int64)
        self._right = np.empty(64, np.int64)
        self._end = 0
        self._used = 0
        # The points that the last change added or deleted, and the position of each fact in it; -1 for none.
        self.changed: Integers = np.zeros(0, np.int64)
        self.change: IntervalLists = empty_lists()
        self.is_gain = True
        self._changed_at = np.full(16, -1, np.int64)
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

    def number(self, rows: IdColumns, count: int | None = None) -> Integers:
        """The numbers of facts; new ones hold at no time."""
        numbers = self.facts.find_or_add(rows, count)
        if self.facts.rows > len(self._first):
            more = max(self.facts.rows, 2 * len(self._first)) - len(self._first)
            counts = self._first, self._count, self._room, self._stamp
            larger = [np.pad(array, (0, more)) for array in counts]
            changed_at = np.pad(self._changed_at, (0, more), constant_values=-1)
            # All or none: after a fault no array is shorter than the others.
            (self._first, self._count, self._room, self._stamp), self._changed_at = larger, changed_at
        return numbers

    @property
    def lists(self) -> IntervalLists:
        """The lists of all facts, by number."""
        rows = self.facts.rows
        return IntervalLists(self._first[:rows], self._count[:rows], self._left, self._right)

    def without_matches(
        self,
        lists: IntervalLists,
        given: IdColumns,
        rows: Integers,
        places: Integers,
        positions: Sequence[int],
        by: Integers,
    ) -> IntervalLists:
        """Lists, one for each of some rows of `given`, without the points of facts that have at `positions`
        the ids that the row has at `places`, moved by a unary operator if `by` is not empty.
        """
        facts, count, size = self.facts, len(rows), 2 * lists.size + 16
        index = facts.index(positions)
        lookup = (
            facts.columns,
            index.positions,
            index.heads,
            index.following,
            given,
            places,
        )
        while True:
            room = _room(count, size)
            end = kernels.cut_out_matches(*lookup, rows, *lists.parts, *self.lists.parts, by, *room)
            if end >= 0:
                return _filled(room, count, end)
            size *= 2

    def read(self, numbers: Integers, part: Part) -> IntervalLists:
        """The lists of facts, `Part.NOW` or, before the last change, `Part.BEFORE`."""
        if part is Part.NOW or not len(self.changed):
            return self.lists.take(numbers)
        positions = self._changed_at[numbers]
        if not bool((positions >= 0).any()):
            return self.lists.take(numbers)
        if self.is_gain:
            return self.lists.without(self.change, numbers, positions)
        return self.lists.united(self.change, numbers, positions)

    def gain(self, numbers: Integers, lists: IntervalLists) -> tuple[Integers, IntervalLists]:
        """Add points to distinct facts; return the facts that gained points, and these points."""
        new = lists.without(self.lists, lists.numbers, numbers)
        changed = new.nonempty
        numbers, new = numbers[changed], new.take(changed)
        self._write(numbers, self.lists.united(new, numbers, new.numbers))
        return numbers, new

    def held(self, numbers: Integers, lists: IntervalLists) -> tuple[Integers, IntervalLists]:
        """The points among these that facts have: the facts that have some, and these points."""
        held = lists.intersected(self.lists, lists.numbers, numbers)
        nonempty = held.nonempty
        return numbers[nonempty], held.take(nonempty)

    def lose(self, numbers: Integers, lists: IntervalLists) -> None:
        """Delete points of distinct facts."""
        self._write(numbers, self.lists.without(lists, numbers, lists.numbers))

    def note(self, numbers: Integers, change: IntervalLists, *, is_gain: bool) -> None:
        """Record the last change, which has been made."""
        self.forget_change()
        self.changed, self.change, self.is_gain = numbers, change, is_gain
        self._changed_at[numbers] = np.arange(len(numbers))

    def forget_change(self) -> None:
        """Discard the record of the last change."""
        if len(self.changed):
            self._changed_at[self.changed] = -1
            self.changed, self.change = np.zeros(0, np.int64), empty_lists()

    def stamp(self, numbers: Integers, transaction: int) -> Integers:
        """Stamp distinct facts with the number of a transaction; return those that did not have it."""
        new: Integers = numbers[self._stamp[numbers] != transaction]
        self._stamp[new] = transaction
        return new

    def replace(self, numbers: Integers, lists: IntervalLists) -> None:
        """Replace the lists of distinct facts."""
        self._write(numbers, lists)

    def _write(self, numbers: Integers, lists: IntervalLists) -> None:
        if not len(numbers):
            return
        size = lists.size
        self._used += size - int(kernels.total_length(self._count, numbers))
        needed = self._end + 2 * size
        if needed > len(self._left):
            left, right = np.empty((2, max(needed, 2 * self._end)), np.int64)
            left[: self._end], right[: self._end] = self._left[: self._end], self._right[: self._end]
            self._left, self._right = left, right
        pool = self._first, self._count, self._room, self._left, self._right
        self._end = int(kernels.write_lists(*pool, self._end, numbers, *lists.parts))
        if self._end > MOST_WASTE + 4 * self._used:
            self._compact()

    def _compact(self) -> None:
        """Rewrite the pool without unused room."""
        lists = self.lists
        _, left, right = lists.rows()
        more = len(self._first) - self.facts.rows
        first, room = (
            np.pad(each, (0, more)) for each in (np.cumsum(lists.count) - lists.count, lists.count)
        )
        self._left, self._right, self._end, self._first, self._room = left, right, len(left), first, room

    def rescaled(self, timeline: Timeline, factor: int) -> TimedTable:
        """The table with all ends in units that are finer by a factor, without a last change."""
        table = copy(self)
        table._compact()  # into new arrays that contain only the used ends
        timeline.rescale(table._left, table._right, factor)
        table.changed, table.change, table._changed_at = (
            np.zeros(0, np.int64),
            empty_lists(),
            np.full_like(self._changed_at, -1),
        )
        return table

    @property
    def weight(self) -> int:
        """How many facts and intervals take memory."""
        return self.facts.rows + self._used

    def forget(self, end: int) -> None:
        """Drop all points before a left end, and facts that have none left; others get new numbers."""
        numbers, lists = self.holding()
        lists = lists.later(end)
        left = np.flatnonzero(lists.count > 0)
        rows = np.ascontiguousarray(self.facts.columns[:, numbers[left]])
        self._begin()
        self._write(self.number(rows, len(left)), lists.take(left))

    def holding(self) -> tuple[Integers, IntervalLists]:
        """The facts that hold at some time, and when."""
        numbers = np.flatnonzero(self._count[: self.facts.rows] > 0)
        return numbers, self.lists.take(numbers)

    def rows(self) -> tuple[IdColumns, Integers, Integers]:
        """All facts interval by interval: columns of ids, left and right ends."""
        numbers, lists = self.holding()
        owners, left, right = lists.rows()
        return self.facts.columns[:, numbers[owners]], left, right

    @property
    def bytes(self) -> int:
        """The memory of the pool and the facts, without indexes."""
        arrays = self._first, self._count, self._room, self._changed_at, self._left, self._right
        return sum(array.nbytes for array in arrays) + self.facts.columns.nbytes
