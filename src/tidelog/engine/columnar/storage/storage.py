"""Relations as tables of ids: reading and writing facts, their flags, statistics for the planner. Mutable."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tidelog.data.columns import Batch
from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids, Rows
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage import table_kernels
from tidelog.engine.columnar.storage.catalog import Catalog, CatalogObserver
from tidelog.engine.columnar.storage.rounds import ColumnarRounds
from tidelog.engine.columnar.storage.table import Key, Table
from tidelog.engine.columnar.transactions.row_sets import RowBatch
from tidelog.engine.interrupts import ActiveLimits
from tidelog.logic.values import Value

NO_ROWS = np.zeros(0, np.int64)
SAMPLE = 2048
APPENDED_FROM = 4096  # rows of a batch for which it is worth looking for a key
MOST_KEPT = 1 << 14  # rows of a temporary relation that is cleared, whose memory is used again
MOST_EXPECTED = 1 << 20  # rows that a table makes room for before they are read: they may be duplicates


class ColumnarStorage(CatalogObserver):
    """All relations. See `engine.protocol.Storage` for what the methods promise."""

    def __init__(self, catalog: Catalog, limits: ActiveLimits) -> None:
        self.catalog = catalog
        self.limits = limits
        self._distinct: dict[tuple[str, int], tuple[int, float]] = {}
        self._matching: dict[tuple[str, int, int], tuple[int, int]] = {}
        self._loading: list[Table] = []  # tables that are loaded batch by batch, and have a key

    @property
    def dictionary(self) -> Dictionary:
        """The values, by id."""
        return self.catalog.dictionary

    @dictionary.setter
    def dictionary(self, dictionary: Dictionary) -> None:
        self.catalog.dictionary = dictionary

    # ---- relations

    def define(
        self, relation: str, arity: int, dense_bytes: int | None = None, is_large: bool = True
    ) -> None:
        """Create an empty relation, unless it exists; its set is a direct array up to `dense_bytes`.

        One that is large begins with room for rows over all values.
        """
        self.catalog.define(relation, arity, dense_bytes, is_large)

    def define_temporary(self, relation: str, arity: int) -> None:
        """Create an empty relation whose facts have no journal, unless it exists."""
        if self.catalog.define(relation, arity):
            self.catalog.table(relation).words[layout.SCRATCH] = 1

    def drop(self, relation: str) -> None:
        """Drop a relation and release its memory."""
        self.catalog.drop(relation)

    def rename(self, relation: str, name: str) -> None:
        """Give a relation another name, which no relation has; prepared plans go on reading it."""
        self.catalog.rename(relation, name)

    def relations(self) -> tuple[str, ...]:
        """Return the names of all relations."""
        return self.catalog.names

    def clear(self, relation: str) -> None:
        """Delete all facts of a relation; prepared plans go on reading and filling it."""
        table = self.catalog.table(relation)
        if not len(table):
            return
        is_temporary = table.words[layout.SCRATCH] and not self.catalog.has_index(table.number)
        if is_temporary and len(table) > MOST_KEPT:
            table.empty()
        else:
            table.clear()
            self.catalog.rebuild_indexes(table.number)

    def on_drop(self, relation: str, table: Table) -> None:
        """Forget a relation's statistics."""
        self.forget_statistics(relation)

    def forget_statistics(self, relation: str) -> None:
        """Forget what was estimated for a relation."""
        for key in [key for key in self._distinct if key[0] == relation]:
            del self._distinct[key]
        for matching in [matching for matching in self._matching if matching[0] == relation]:
            del self._matching[matching]

    # ---- reading and writing facts

    def load(self, relation: str, batch: Batch) -> int:
        """Insert a batch of explicit facts; return how many were new."""
        dictionary = self.dictionary
        before = len(dictionary)
        columns = [dictionary.encode_column(column) for column in batch.columns]
        table = self.catalog.table(relation)
        following = min(batch.following, MOST_EXPECTED)
        if following:
            # Values repeat themselves: later batches have fewer new ones than this one.
            dictionary.grow((len(dictionary) - before) * following // (2 * batch.rows))
        before, appended = len(table), 0
        if self._has_key(table, columns, batch.rows):
            table.make_room(batch.rows + following)
            is_done = table.append_by_key(columns, batch.rows, len(dictionary), layout.EXPLICIT)
            appended = len(table) - before
            if is_done:
                return appended
        table.reserve(batch.rows + following, len(dictionary), given=True)
        return appended + self.add(relation, columns, batch.rows)

    def _has_key(self, table: Table, columns: Sequence[Ids], count: int) -> bool:
        """Return whether a column tells which rows are new, as one of the first rows of an empty table may.

        The set of rows, which costs more than all else, is then built when facts are first looked up.
        """
        if table.log is not None:
            return False
        if table.key is not None:
            return True
        if count < APPENDED_FROM or len(table):
            return False
        keys = (Key.of(position, column) for position, column in enumerate(columns))
        position = next((key.position for key in keys if key is not None), None)
        if position is None:
            return False
        self._loading.append(table)
        self.catalog.incomplete.append(table)
        table.drop_set()
        table.key = Key(position, columns[position])
        return True

    def on_begin_rounds(self) -> None:
        """Release the keys of tables that were loaded."""
        for table in self._loading:
            table.key = None
        self._loading = []

    def is_key(self, relation: str, column: int) -> bool:
        """Return whether no two rows of a relation have the same value in a column."""
        table = self.catalog.table(relation)
        return not table.dead and Key.of(column, table.column(column)) is not None

    def add(self, relation: str, columns: Sequence[Ids], count: int) -> int:
        """Insert rows of ids as explicit facts; return how many were new."""
        table = self.catalog.table(relation)
        if table.dead:
            self.catalog.compact(table)
        before = len(table)
        new = table.insert(columns, count, layout.EXPLICIT, len(self.dictionary))
        if table.log is not None:
            table.log_changes(NO_ROWS, np.arange(before, before + new))
        return new

    def remove(self, relation: str, columns: Sequence[Ids], count: int) -> None:
        """Delete the facts given as rows of ids; the remaining rows are renumbered."""
        table = self.catalog.table(relation)
        rows = table.find(columns, count)
        rows = rows[rows >= 0]
        table.flags[rows] = 0
        table.words[layout.DEAD] += len(rows)
        table.edits += 1
        self.catalog.compact(table)

    def rows(self, relation: str) -> Rows:
        """Return the facts of a relation as they are now.

        The columns stay as they are: a table only ever appends rows, or moves to other memory.
        """
        table = self.catalog.table(relation)
        columns = tuple(table.column(position) for position in range(table.arity))
        if not table.dead:
            return Rows(columns, len(table))
        living = np.flatnonzero(table.flags[: len(table)] & layout.ALIVE)
        return Rows(tuple(column[living] for column in columns), len(living))

    def explicit(self, relation: str, without: Sequence[Ids] = (), count: int = 0) -> Rows:
        """Return the explicit facts of a relation, without the given rows."""
        table = self.catalog.table(relation)
        is_selected = (table.flags[: len(table)] & layout.EXPLICIT) != 0
        if count:
            rows = table.find(without, count)
            is_selected[rows[rows >= 0]] = False
        columns = tuple(table.column(position)[is_selected] for position in range(table.arity))
        return Rows(columns, int(np.count_nonzero(is_selected)))

    # ---- flags of rows

    def row_flags(self, relation: str, columns: Sequence[Ids], count: int) -> npt.NDArray[np.uint8]:
        """Return the flags ALIVE and EXPLICIT of each given row; 0 where it is no fact."""
        return self.catalog.table(relation).row_flags(columns, count)

    def standing(self, given: Mapping[str, tuple[Sequence[Ids], int]]) -> tuple[int, int]:
        """Return those flags that all rows of some relations have, and those that any has."""
        if self.catalog.incomplete:
            for relation in given:
                self.catalog.table(relation).complete(self.limits.check)
        batch = RowBatch(given, self.catalog)
        common, found = table_kernels.standing(self.catalog.descriptors, batch.groups, batch.source)
        return common, found

    def has_tombstones(self, relation: str) -> bool:
        """Return whether some rows of a relation are deleted facts."""
        return self.catalog.has_tombstones(relation)

    # ---- statistics

    def size(self, relation: str) -> int:
        """Return how many facts a relation has."""
        return self.catalog.size(relation)

    def distinct(self, relation: str, column: int) -> float:
        """Return about how many distinct values a column has, from a sample."""
        size = self.size(relation)
        cached = self._distinct.get((relation, column))
        if cached is None or size > 2 * cached[0] or not cached[0]:
            cached = (size, _estimate_distinct(self.catalog.table(relation).column(column)))
            self._distinct[relation, column] = cached
        return cached[1]

    def matching(self, relation: str, column: int, value: Value) -> int:
        """Return how many facts have this value in a column."""
        size = self.size(relation)
        identity = self.dictionary.encode(value)
        cached = self._matching.get((relation, column, identity))
        if cached is None or size > 2 * cached[0] or not cached[0]:
            ids = self.catalog.table(relation).column(column)
            cached = (size, int(np.count_nonzero(ids == identity)))
            self._matching[relation, column, identity] = cached
        return cached[1]

    def bytes_of(self, relation: str) -> int:
        """Return the memory that a relation and its indexes hold, as far as it has been touched."""
        return self.catalog.bytes_of(relation)


def _estimate_distinct(column: Ids) -> float:
    """Return about how many distinct ids a column has: exact for small ones, from a sample for others.

    Charikar and others: Towards Estimation Error Guarantees for Distinct Values, PODS 2000 (GEE): values
    seen once in the sample represent many.
    """
    size = len(column)
    if size == 0:
        return 1.0
    sample = np.sort(column if size <= SAMPLE else column[:: size // SAMPLE])
    starts = np.flatnonzero(np.diff(sample, prepend=-1))
    runs = np.diff(starts, append=len(sample))
    once = int(np.count_nonzero(runs == 1))
    return float(max(1.0, (size / len(sample)) ** 0.5 * once + (len(runs) - once)))


class ColumnarReplacement:
    """Whole relations, exchanged or compared. See `engine.protocol.Replacement`."""

    def __init__(self, storage: ColumnarStorage, rounds: ColumnarRounds) -> None:
        self.storage = storage
        self.rounds = rounds

    def replace_explicit(self, relation: str, backup: str, removed: Rows, added: Rows) -> None:
        """Rename a relation to `backup`, and create a new one with its explicit facts, changed."""
        storage = self.storage
        columns, count = storage.explicit(relation, *removed)
        storage.rename(relation, backup)
        storage.define(relation, len(columns))
        storage.add(relation, columns, count)
        if added.count:
            storage.add(relation, *added)

    def difference(self, relation: str, other: str) -> Rows:
        """Return the facts of a relation that another does not have."""
        columns, count = self.storage.rows(relation)
        absent = (self.storage.row_flags(other, columns, count) & layout.ALIVE) == 0
        return Rows(tuple(column[absent] for column in columns), int(np.count_nonzero(absent)))

    def forget_derived(self, relations: Collection[str]) -> None:
        """Delete the derived facts of these relations."""
        storage, catalog = self.storage, self.storage.catalog
        for relation in relations:
            # The old table is dropped when the new one is complete: if memory runs out no fact is missing.
            columns, count = storage.explicit(relation)
            copy = f"{relation} kept"  # a name with a space is no predicate's
            storage.define(copy, len(columns))
            storage.add(copy, columns, count)
            catalog.exchange(relation, copy)
            storage.forget_statistics(relation)

    def restore(self, derived: Mapping[str, tuple[Sequence[Ids], int]]) -> None:
        """Insert rows of ids that do not exist yet as facts that were derived before; all are visible."""
        storage, catalog = self.storage, self.storage.catalog
        for relation, (columns, count) in derived.items():
            catalog.table(relation).insert(columns, count, 0, len(storage.dictionary))
        self.rounds.begin(storage.relations())
        for relation in derived:
            catalog.table(relation).rounds_of = -1, frozenset()  # its rows are not in the order of rounds
