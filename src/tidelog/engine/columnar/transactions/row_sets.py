"""Sets of facts as row numbers, relation by relation, and rows of ids as kernels take them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids
from tidelog.engine.columnar.storage import table_kernels
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.table_kernels import LOWER

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
    """Rows of several relations, as kernels take them: tables and their numbers of rows in pairs, and ids."""

    def __init__(self, given: Mapping[str, Columns], catalog: Catalog) -> None:
        groups: list[int] = []
        source: list[Ids] = []
        rows = 0
        for relation, (columns, count) in given.items():
            groups += catalog.table_number(relation), count
            source += columns
            rows += count
        self.groups = np.array(groups, np.int64)
        self.source = np.concatenate(source) if source else np.zeros(0, np.int32)
        self.rows = rows

    @property
    def ends(self) -> list[int]:
        """The number of rows up to the end of each table's."""
        return list(accumulate(self.groups[1::2].tolist()))

    def left(self, done: int) -> tuple[int, int]:
        """Return the table of the row with this number, and how many of its rows remain."""
        ends = self.ends
        group = bisect_right(ends, done)
        return int(self.groups[2 * group]), ends[group] - done

    def divided(self, rows: RowNumbers) -> Iterator[RowNumbers]:
        """Yield the part of an array over all rows that belongs to each table."""
        return (rows[first:end] for first, end in pairwise((0, *self.ends)))

    def codes(self, catalog: Catalog, create: bool) -> tuple[RowNumbers, int]:
        """Return the code of each row, -1 where there is no such fact, and how many these are.

        With `create` missing ones are created, without flags.
        """
        codes = np.empty(self.rows, np.int64)
        done = 0
        while True:
            done, missing = table_kernels.find_or_enter(
                catalog.descriptors, self.groups, self.source, done, create, codes
            )
            if done == self.rows:
                return codes, missing
            table, more = self.left(done)
            catalog.tables[table].reserve(more, len(catalog.dictionary))


def find_rows(given: Mapping[str, Columns], catalog: Catalog, create: bool) -> dict[str, RowSet]:
    """Return the facts with the given ids, by relation; create missing ones or leave them out.

    No entry is empty. A created fact has no flags.
    """
    batch = RowBatch(given, catalog)
    codes, missing = batch.codes(catalog, create)
    parts = zip(given, batch.divided(codes), strict=True)
    found = {relation: (part[part >= 0] if missing else part) & LOWER for relation, part in parts}
    return {relation: RowSet({relation: rows}) for relation, rows in found.items() if len(rows)}


def find_codes(given: Mapping[str, Columns], catalog: Catalog, create: bool) -> RowNumbers:
    """Return the codes of the facts with the given ids; create missing ones or leave them out."""
    if not given:
        return NO_ROWS
    codes, missing = RowBatch(given, catalog).codes(catalog, create)
    return codes[codes >= 0] if missing else codes


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
