"""Sets of facts as row numbers, relation by relation, and rows of ids as kernels take them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.transactions import change_kernels

RowNumbers = npt.NDArray[np.int64]
Columns = tuple[Sequence[Ids], int]  # of the rows of one relation, and how many they are

NO_ROWS: RowNumbers = np.zeros(0, np.int64)


class RowSet:
    """A set of facts: row numbers by relation.

    `groups`, where they are known, are the same for kernels: tables, where the rows of each start, and rows.
    """

    __slots__ = ("groups", "rows")

    def __init__(
        self,
        rows: Mapping[str, RowNumbers],
        groups: tuple[RowNumbers, RowNumbers, RowNumbers] | None = None,
    ) -> None:
        self.rows = rows
        self.groups = groups

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def __or__(self, other: RowSet) -> RowSet:
        if not other.rows:
            return self
        union = dict(self.rows)
        for relation, rows in other.rows.items():
            union[relation] = np.concatenate((union[relation], rows)) if relation in union else rows
        return RowSet(union)

    @property
    def relations(self) -> Collection[str]:
        """The relations that have facts in it."""
        return self.rows.keys()

    @property
    def counts(self) -> dict[str, int]:
        """The number of facts of each relation."""
        return {relation: len(rows) for relation, rows in self.rows.items()}


EMPTY = RowSet({})


def codes_of(facts: RowSet, catalog: Catalog) -> RowNumbers:
    """Return the facts' codes: the table's number in the upper half, the row's in the lower."""
    codes = [(catalog.table_number(relation) << 32) | rows for relation, rows in facts.rows.items()]
    return np.concatenate(codes) if len(codes) > 1 else codes[0] if codes else NO_ROWS


class RowBatch:
    """Rows of several tables, as kernels take them."""

    def __init__(self, tables: Sequence[int], counts: Sequence[int], columns: Sequence[Ids]) -> None:
        self.tables, self.counts = np.array(tables, np.int64), np.array(counts, np.int64)
        self.source = np.concatenate(columns, dtype=np.int32) if columns else np.zeros(0, np.int32)
        self.ends = list(accumulate(counts))
        self.rows = self.ends[-1] if self.ends else 0

    @property
    def parts(self) -> tuple[RowNumbers, RowNumbers, Ids]:
        """The tables, how many rows of each, and their ids."""
        return self.tables, self.counts, self.source

    def left(self, done: int) -> tuple[int, int]:
        """Return the table of the row with this number, and how many of its rows remain."""
        group = bisect_right(self.ends, done)
        return int(self.tables[group]), self.ends[group] - done

    def divided(self, rows: RowNumbers) -> Iterator[RowNumbers]:
        """Yield the part of an array over all rows that belongs to each table."""
        return (rows[first:end] for first, end in pairwise((0, *self.ends)))


def batch_of(given: Mapping[str, Columns], catalog: Catalog) -> RowBatch:
    """Return rows of ids by relation as one batch."""
    tables = [catalog.table_number(relation) for relation in given]
    source = [column for columns, _ in given.values() for column in columns]
    return RowBatch(tables, [count for _, count in given.values()], source)


def find_rows(given: Mapping[str, Columns], catalog: Catalog, create: bool) -> dict[str, RowSet]:
    """Return the facts with the given ids, by relation; create missing ones or leave them out.

    No entry is empty. A created fact has no flags.
    """
    batch = batch_of(given, catalog)
    numbers = np.empty(batch.rows, np.int64)
    done = 0
    while True:
        done = int(change_kernels.find_or_enter(catalog.descriptors, *batch.parts, done, create, numbers))
        if done == batch.rows:
            break
        table, missing = batch.left(done)
        catalog.tables[table].reserve(missing, len(catalog.dictionary))
    parts = dict(zip(given, batch.divided(numbers), strict=True))
    if not create and (numbers < 0).any():
        parts = {relation: rows[rows >= 0] for relation, rows in parts.items()}
    return {relation: RowSet({relation: rows}) for relation, rows in parts.items() if len(rows)}


class GatheredRows(Mapping[str, Columns]):
    """Ids of facts by relation: column after column, relation after relation, in one array.

    `counts` are of rows, `sizes` of ids; columns are cut out when a relation is read.
    """

    def __init__(self, names: Sequence[str], counts: RowNumbers, sizes: RowNumbers, ids: Ids) -> None:
        self._positions = {name: position for position, name in enumerate(names)}
        self._counts = counts
        self._ends = np.cumsum(sizes)
        self._ids = ids

    def __getitem__(self, relation: str) -> Columns:
        position = self._positions[relation]
        count, end = int(self._counts[position]), int(self._ends[position])
        first = int(self._ends[position - 1]) if position else 0
        return tuple(self._ids[start : start + count] for start in range(first, end, count)), count

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)
