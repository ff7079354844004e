"""The catalogue: which relations and indexes exist, and the arrays that describe them to kernels. Mutable.

Parts of the engine hold the catalogue, never one of its arrays: an array is replaced when it grows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tidelog.data.dictionary import Dictionary
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage.table import Index, IndexKey, Table
from tidelog.logic.values import Value

DENSE_BYTES = 64 << 20  # a set of rows is a direct array up to this size
DENSE_BYTES_ALL = 512 << 20  # … and all of them together stay below this


class CatalogObserver:
    """A part that caches something about relations; this base class ignores what happens to them."""

    def on_drop(self, relation: str, table: Table) -> None:
        """Forget what is cached about a relation that is about to be dropped."""

    def on_rename(self, relation: str, name: str) -> None:
        """Move what is cached about a relation to its new name."""

    def on_compact(self) -> None:
        """Forget what refers to row numbers: those of a relation have changed."""

    def on_begin_rounds(self) -> None:
        """Forget what must follow every change of facts: rounds of derivation do not report theirs."""


class Catalog:
    """All tables and indexes, by name and by number."""

    def __init__(self, dictionary: Dictionary, relations: int = 8) -> None:
        self.dictionary = dictionary
        self.tables: list[Table] = []
        self.descriptors = np.zeros((8, layout.COLUMNS + 3), np.int64)
        self.indexes = np.zeros((8, layout.X_LISTS + 9), np.int64)
        self.dense_bytes = min(DENSE_BYTES, DENSE_BYTES_ALL // max(relations, 1))
        self.version = 0  # changes when cached plans must be assembled again
        self.epoch = 0  # the number of transactions so far
        self.has_change_log = False  # whether a relation's changes are logged for readers
        self.incomplete: list[Table] = []  # tables that may lack a set of their rows
        self.observers: tuple[CatalogObserver, ...] = ()
        self._numbers: dict[str, int] = {}
        self._indexes: dict[IndexKey, Index] = {}
        self._indexes_of: dict[int, list[Index]] = {}
        self._free: list[int] = []

    def observe(self, observer: CatalogObserver) -> None:
        """Tell a part from now on what happens to relations."""
        if observer not in self.observers:
            self.observers = (*self.observers, observer)

    def ignore(self, observer: CatalogObserver) -> None:
        """Tell a part no longer what happens to relations."""
        self.observers = tuple(each for each in self.observers if each is not observer)

    # ---- relations

    def __contains__(self, relation: str) -> bool:
        return relation in self._numbers

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all relations."""
        return tuple(self._numbers)

    def table(self, relation: str) -> Table:
        """Return the table of a relation."""
        return self.tables[self._numbers[relation]]

    def table_number(self, relation: str) -> int:
        """Return the row of T that describes a relation."""
        return self._numbers[relation]

    def define(
        self, relation: str, arity: int, dense_bytes: int | None = None, is_large: bool = True
    ) -> bool:
        """Create an empty table, unless it exists; return whether it is new."""
        if relation in self._numbers:
            existing = self.table(relation).arity
            if existing != arity:
                raise ValueError(f"`{relation}` has {existing} columns, not {arity}")
            return False
        number = self._free.pop() if self._free else len(self.tables)
        self._widen(number + 1, arity)
        dense_bytes = self.dense_bytes if dense_bytes is None else min(dense_bytes, self.dense_bytes)
        values = len(self.dictionary) if is_large else 0
        table = Table(self.descriptors, number, relation, arity, values, dense_bytes)
        if number == len(self.tables):
            self.tables.append(table)
        else:
            self.tables[number] = table
        self._numbers[relation] = number
        return True

    def _widen(self, rows: int, arity: int) -> None:
        """Make room in T for `rows` tables, and in T and X for columns of this arity."""
        height, width = self.descriptors.shape
        if rows > height or layout.COLUMNS + arity > width:
            larger = np.zeros((max(rows, 2 * height), max(width, layout.COLUMNS + arity)), np.int64)
            larger[:height, :width] = self.descriptors
            self.descriptors = larger
            for table in self.tables:
                table.attach(larger)
        height, width = self.indexes.shape
        lists = layout.X_LISTS + 3 * arity  # keys, and two integers for each filter
        if lists > width:
            self._replace_indexes(height, lists)

    def _replace_indexes(self, rows: int, columns: int) -> None:
        larger = np.zeros((rows, columns), np.int64)
        height, width = self.indexes.shape
        larger[:height, :width] = self.indexes
        self.indexes = larger
        for index in self._indexes.values():
            index.attach(larger)

    def drop(self, relation: str) -> None:
        """Drop a table and release its memory; its number is used again."""
        table = self.table(relation)
        for observer in self.observers:
            observer.on_drop(relation, table)
        number = self._numbers.pop(relation)
        self.version += table.is_pinned
        for index in self._indexes_of.pop(number, []):
            del self._indexes[index.key]
        self.incomplete = [each for each in self.incomplete if each is not table]
        table.release()
        self._free.append(number)

    def rename(self, relation: str, name: str) -> None:
        """Give a table another name, which none has."""
        numbers = {**self._numbers, name: self._numbers[relation]}
        del numbers[relation]
        self._numbers = numbers  # at no time does it have both names, or none
        self.table(name).name = name
        for observer in self.observers:
            observer.on_rename(relation, name)

    def exchange(self, relation: str, replacement: str) -> None:
        """Replace a table by another, under the same name, and drop it."""
        former = f"{relation} former"  # a name with a space is no predicate's
        numbers = {**self._numbers, former: self._numbers[relation]}
        numbers[relation] = numbers.pop(replacement)
        self._numbers = numbers
        self.table(relation).name = relation
        self.drop(former)

    def compact(self, table: Table) -> None:
        """Delete a table's tombstones and rebuild its indexes; cached plans go on reading it."""
        table.compact(len(self.dictionary))
        self.rebuild_indexes(table.number)
        for observer in self.observers:
            observer.on_compact()

    def complete_sets(self, check: Callable[[], None]) -> None:
        """Build the missing sets of tables whose rows were appended without one; `check` raises to stop."""
        while self.incomplete:
            self.incomplete[-1].complete(check)
            self.incomplete.pop()

    # ---- indexes

    def index(self, number: int) -> Index:
        """Return the index that a row of X describes."""
        return next(index for index in self._indexes.values() if index.number == number)

    def index_number(self, key: IndexKey) -> int:
        """Return the row of X that describes an index, created now if it does not exist."""
        index = self._indexes.get(key)
        if index is None:
            height, width = self.indexes.shape
            used = {index.number for index in self._indexes.values()}
            number = next(row for row in range(len(used) + 1) if row not in used)
            if number >= height:
                self._replace_indexes(2 * height, width)
            index = Index(self.indexes, number, key, self.tables[key.table], len(self.dictionary))
            self._indexes[key] = index
            self._indexes_of.setdefault(key.table, []).append(index)
        return index.number

    def has_index(self, number: int) -> bool:
        """Return whether the table with this number has an index."""
        return number in self._indexes_of

    def rebuild_indexes(self, number: int) -> None:
        """Rebuild the indexes of the table with this number."""
        for index in self._indexes_of.get(number, ()):
            index.rebuild(len(self.dictionary))

    # ---- lookups for the assembler

    def identity(self, value: Value) -> int:
        """Return the id of a value."""
        return self.dictionary.encode(value)

    def has_tombstones(self, relation: str) -> bool:
        """Return whether some rows of a relation are deleted facts."""
        return self.table(relation).dead > 0

    # ---- sizes

    def size(self, relation: str) -> int:
        """Return how many facts a relation has."""
        words = self.descriptors[self._numbers[relation]]
        return int(words[layout.ROWS] - words[layout.DEAD])

    def bytes_of(self, relation: str) -> int:
        """Return the memory that a relation and its indexes hold, as far as it has been touched."""
        table = self.table(relation)
        return table.touched_bytes + sum(index.bytes for index in self._indexes_of.get(table.number, ()))

    def index_sizes(self) -> list[tuple[str, tuple[int, ...], bool, int]]:
        """Return each index: its relation and columns, whether it is of a part of it only, and its bytes."""
        return [
            (index.table.name, index.key.columns, bool(index.key.filters), int(index.bytes))
            for index in self._indexes.values()
        ]

    @property
    def bytes(self) -> int:
        """The memory that tables, indexes and the dictionary hold."""
        tables = sum(table.bytes for table in self.tables)
        return int(tables + sum(index.bytes for index in self._indexes.values())) + self.dictionary.bytes
