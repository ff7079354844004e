"""Sets of facts as row numbers, relation by relation, and rows of ids as kernels take them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.table_kernels import LOWER
from tidelog.engine.columnar.transactions import change_kernels

RowNumbers = npt.NDArray[np.int64]
Columns = tuple[Sequence[Ids], int]  # of the rows of one relation, and how many they are

NO_ROWS: RowNumbers = np.zeros(0, np.int64)


class RowSet:
    """A set of facts: row numbers by relation, and their ids, where these are known already."""

    __slots__ = ("ids", "rows")

    def __init__(self, rows: Mapping[str, RowNumbers], ids: Mapping[str, Columns] | None = None) -> None:
        self.rows = rows
        self.ids = ids

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


class RowBatch:
    """Rows of several tables, as kernels take them."""

    def __init__(self, tables: Sequence[int], counts: Sequence[int], columns: Sequence[Ids]) -> None:
        self.tables, self.counts = np.array(tables, np.int64), np.array(counts, np.int64)
        self.source = np.concatenate(columns, dtype=np.int32) if columns else np.zeros(0, np.int32)
        self.rows = sum(counts)

    @property
    def parts(self) -> tuple[RowNumbers, RowNumbers, Ids]:
        """The tables, how many rows of each, and their ids."""
        return self.tables, self.counts, self.source

    @property
    def ends(self) -> list[int]:
        """The number of rows up to the end of each table's."""
        return list(accumulate(self.counts.tolist()))

    def left(self, done: int) -> tuple[int, int]:
        """Return the table of the row with this number, and how many of its rows remain."""
        ends = self.ends
        group = bisect_right(ends, done)
        return int(self.tables[group]), ends[group] - done

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
    codes = _codes_in(batch, catalog, create)
    parts = dict(zip(given, batch.divided(codes), strict=True))
    found = {relation: part[part >= 0] & LOWER for relation, part in parts.items()}
    return {relation: RowSet({relation: rows}) for relation, rows in found.items() if len(rows)}


def find_codes(given: Mapping[str, Columns], catalog: Catalog, create: bool) -> RowNumbers:
    """Return the codes of the facts with the given ids; create missing ones or leave them out."""
    if not given:
        return NO_ROWS
    codes = _codes_in(batch_of(given, catalog), catalog, create)
    return codes if create or np.minimum.reduce(codes) >= 0 else codes[codes >= 0]


def _codes_in(batch: RowBatch, catalog: Catalog, create: bool) -> RowNumbers:
    """Return the code of each row of a batch, -1 where there is no such fact."""
    codes = np.empty(batch.rows, np.int64)
    done = 0
    while True:
        done = change_kernels.find_or_enter(catalog.descriptors, *batch.parts, done, create, codes)
        if done == batch.rows:
            return codes
        table, missing = batch.left(done)
        catalog.tables[table].reserve(missing, len(catalog.dictionary))


class GatheredRows(Mapping[str, Columns]):
    """Ids of facts by relation: column after column, relation after relation, in one array.

    `places` has how many rows a relation has, and where its ids begin and end; columns are cut out when it is
    read.
    """

    def __init__(self, places: Mapping[str, tuple[int, int, int]], ids: Ids) -> None:
        self._places = places
        self._ids = ids

    def __getitem__(self, relation: str) -> Columns:
        count, first, end = self._places[relation]
        return tuple(self._ids[start : start + count] for start in range(first, end, count)), count

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
