"""Rows of ids with an index, and groups: rows of a rule's variables, each with a list of intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.temporal import row_kernels as kernels
from tidelog.temporal.lists import Integers, Lists

Ids = npt.NDArray[np.int32]
Table = npt.NDArray[np.int32]  # one row of the array per column of ids


class Index:
    """From the ids in some columns to the rows that have them. Mutable: it follows as rows are added."""

    def __init__(self, positions: Sequence[int] | Integers) -> None:
        self.positions = np.array(positions, np.int64)
        self.heads = np.full(16, -1, np.int64)
        self.following = np.empty(16, np.int64)
        self.entered = 0

    def make_room(self, columns: Table, rows: int) -> None:
        """Let there be room for so many rows; those that are entered are entered anew where they move."""
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
