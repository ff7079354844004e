"""Rows of ids: the one form in which facts travel between stages, the operations on it, net rows of a change.

Sets of few rows are compared as Python tuples, those of many by sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.compiled import kernel, mix
from tidelog.data import memory
from tidelog.rewrite.auxiliary_relations import SEPARATOR

Ids = npt.NDArray[np.int32]
Columns = tuple[Ids, ...]


class Rows(NamedTuple):
    """Distinct facts of one relation: columns of ids, and how many rows, for where there is no column."""

    columns: Columns
    count: int  # type: ignore[assignment]  # a tuple's method, which no caller of this needs


class LazyRows(Mapping[str, Rows]):
    """Rows by relation that are computed when they are first read.

    `kept` has the rows they are computed from, and perhaps others; `total` is how many rows those are.
    """

    def __init__(self, kept: Mapping[str, Rows], total: int, find: Callable[[], Mapping[str, Rows]]) -> None:
        self.kept = kept
        self.total = total
        self._find = find

    def __getitem__(self, name: str) -> Rows:
        return self._find()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._find())

    def __len__(self) -> int:
        return len(self._find())


FEW = 64  # up to this many rows are compared as tuples, which is less work than setting up columns

Keys = list[tuple[int, ...]]


def distinct(parts: Sequence[Rows]) -> Rows:
    """All rows, each once."""
    rows = concatenate(parts)
    if rows.count <= 1:
        return rows
    if rows.count <= FEW:
        keys = dict.fromkeys(keys_of(rows))
        return rows if len(keys) == rows.count else rows_of(list(keys), len(rows.columns))
    _, first = np.unique(codes_of(rows), return_index=True)
    return Rows(tuple(column[first] for column in rows.columns), len(first))


def without(rows: Rows, others: Rows) -> Rows:
    """The rows that are not among the others."""
    if rows.count + others.count <= FEW:
        left_out = set(keys_of(others))
        kept = [key for key in keys_of(rows) if key not in left_out]
        return rows if len(kept) == rows.count else rows_of(kept, len(rows.columns))
    codes = codes_of(concatenate([rows, others]))
    return select(rows, ~np.isin(codes[: rows.count], codes[rows.count :]))


def codes_of(rows: Rows) -> npt.NDArray[np.int64]:
    """A number for each row; equal rows have equal numbers."""
    if not rows.columns:
        return np.zeros(rows.count, np.int64)
    codes = rows.columns[0].astype(np.int64)
    for position, column in enumerate(rows.columns[1:]):
        if position:  # three columns and more: number the pairs first
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        codes = (codes << 32) | column
    return codes


def keys_of(rows: Rows) -> Keys:
    """The rows as tuples."""
    if not rows.columns:
        return [()] * rows.count
    return list(zip(*(column.tolist() for column in rows.columns), strict=True))


def rows_of(keys: Keys, arity: int) -> Rows:
    """The rows of tuples."""
    if not arity or not keys:
        return Rows(tuple(np.zeros(0, np.int32) for _ in range(arity)), len(keys))
    return Rows(tuple(np.array(column, np.int32) for column in zip(*keys, strict=True)), len(keys))


def concatenate(rows: Sequence[Rows]) -> Rows:
    """All rows, one part after the other."""
    if len(rows) == 1:
        return rows[0]
    columns = zip(*(item.columns for item in rows), strict=True)
    return Rows(tuple(np.concatenate(parts) for parts in columns), sum(item.count for item in rows))


def select(rows: Rows, mask: npt.NDArray[np.bool_]) -> Rows:
    """The rows that the mask chooses."""
    if mask.all():
        return rows
    return Rows(tuple(column[mask] for column in rows.columns), int(np.count_nonzero(mask)))


class NetRows(Mapping[str, Rows]):
    """The rows of the program's own relations among those that a transaction inserted or deleted.

    `counts` is how many rows each relation has; `found` has their ids. A `Rows` is made only when it is read:
    the changes of most transactions are never read, and few in every relation.
    """

    __slots__ = ("_counts", "_found")

    def __init__(self, counts: Mapping[str, int], found: Mapping[str, tuple[Columns, int]]) -> None:
        self._counts = counts
        self._found = found

    def __getitem__(self, name: str) -> Rows:
        if name not in self:
            raise KeyError(name)
        return Rows(*self._found[name])

    def __contains__(self, name: object) -> bool:
        return name in self._counts and SEPARATOR not in str(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._counts if SEPARATOR not in name)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many rows each relation has, auxiliary ones included."""
        return self._counts

    @property
    def total(self) -> int:
        """How many rows there are."""
        total = 0
        for name, count in self._counts.items():
            if SEPARATOR not in name:
                total += count
        return total


def total(rows: Mapping[str, Rows]) -> int:
    """How many rows there are, of all relations; of lazy ones, how many they are computed from."""
    if type(rows) is NetRows or type(rows) is LazyRows:  # `isinstance` asks abstract classes, which is slow
        return rows.total
    count = 0
    if rows:
        for some in rows.values():
            count += some.count
    return count


NO_NET = NetRows({}, {})

# ---- results by combinations of ids

SLOTS = 1024
MOST_COMBINATIONS = 1 << 22  # whose results are remembered
MOST_SLOTS = 1 << 26  # for ids that are their own hash; those of memory that are not used cost nothing


class Combinations:
    """The distinct combinations of ids that have been met, and the result of each. Mutable, bounded."""

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self.forget()

    def forget(self) -> None:
        """Forget all combinations."""
        self.count = 0
        self.ids = np.empty((self.arity, 0), np.int32)
        self.results = np.empty(0, np.int32)
        self.slots = np.zeros(SLOTS, np.int32)

    def number(self, ids: npt.NDArray[np.int32], highest: int) -> tuple[int, Ids]:
        """Return the first number that is new, and that of each combination; ids are below `highest`."""
        rows = ids.shape[1]
        if self.count + rows > MOST_COMBINATIONS:
            self.forget()
        needed = self.count + rows
        is_direct = self.arity == 1 and highest <= MOST_SLOTS
        if needed > len(self.results):
            self._make_room(2 * needed)
        if max(2 * needed, highest * is_direct) > len(self.slots):
            self._hash_again(max(4 * needed, 2 * highest * is_direct), is_direct)
        first, numbers = self.count, np.empty(rows, np.int32)
        self.count = number_combinations(ids, self.ids, self.slots, first, is_direct, numbers)
        return first, numbers

    def _make_room(self, capacity: int) -> None:
        ids, results = self.ids, self.results
        self.ids = memory.empty(self.arity * capacity, np.int32).reshape(self.arity, capacity)
        self.ids[:, : self.count] = ids[:, : self.count]
        self.results = memory.grown(results, self.count, capacity)

    def _hash_again(self, size: int, is_direct: bool) -> None:
        self.slots = memory.zeros(1 << (size - 1).bit_length(), np.int32)
        ids = np.ascontiguousarray(self.ids[:, : self.count])
        number_combinations(ids, self.ids, self.slots, 0, is_direct, np.empty(self.count, np.int32))


# ---- Combinations of ids, numbered as they are first met.


@kernel("const i32[:,:], i32[:,:], i32[:], i64, bool, i32[:] -> i64")
def number_combinations(ids: Any, stored: Any, slots: Any, count: Any, is_direct: Any, out: Any) -> Any:
    """Write the number of each combination of ids, one a column of `ids`; returns how many there are now.

    `stored` has the combinations by number, `slots` finds them; it has room for all. If ids are less than the
    number of slots, an id is its own hash.
    """
    arity = ids.shape[0]
    mask = len(slots) - 1
    for row in range(ids.shape[1]):
        if is_direct:
            position = np.int64(ids[0, row])
        else:
            hashed = np.uint64(0)
            for column in range(arity):
                hashed = mix(hashed ^ np.uint64(ids[column, row]))
            position = np.int64(hashed >> np.uint64(32)) & mask
        while True:
            number = slots[position] - 1
            if number < 0:
                number = count
                slots[position] = count + 1
                for column in range(arity):
                    stored[column, count] = ids[column, row]
                count += 1
                break
            is_same = True
            for column in range(arity):
                if stored[column, number] != ids[column, row]:
                    is_same = False
            if is_same:
                break
            position = (position + 1) & mask
        out[row] = number
    return count
