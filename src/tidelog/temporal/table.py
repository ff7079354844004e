"""Relations over time: each fact has a number and a list of intervals. Mutates itself.

A table knows what its last change was, so that it can be read as it was before.

Lists lie in a pool; one that outgrows its room moves to the pool's end, into twice what it needs. Everything
here costs what it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from enum import Enum

import numpy as np

from tidelog.temporal import list_kernels as kernels
from tidelog.temporal.lists import Integers, Lists, Timeline, nothing, single
from tidelog.temporal.rows import Ids, RowSet, Table

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
        """Let there be no facts."""
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
        """Let this be the last change, which has been made."""
        self.forget_change()
        self.changed, self.change, self.is_gain = numbers, change, is_gain
        self._place[numbers] = np.arange(len(numbers))

    def forget_change(self) -> None:
        """Let there be no last change."""
        if len(self.changed):
            self._place[self.changed] = -1
            self.changed, self.change = np.zeros(0, np.int64), nothing()

    def stamp(self, numbers: Integers, epoch: int) -> Integers:
        """Those of distinct facts that have not had this stamp; now they have."""
        new: Integers = numbers[self._stamp[numbers] != epoch]
        self._stamp[new] = epoch
        return new

    def replace(self, numbers: Integers, lists: Lists) -> None:
        """Let distinct facts have these lists."""
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
        """Let go all points before a left end, and facts that have none left: others get new numbers."""
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
