"""The catalogue: which relations and indexes exist, and the arrays that describe them to kernels. Mutable.

Parts of the engine hold the catalogue, never one of its arrays: an array is replaced when it grows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.columns import Batch, Column
from tidelog.data.dictionary import Dictionary, encode_column
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage.table import Index, IndexKey, Table
from tidelog.engine.limits import MATCHES
from tidelog.engine.protocol import Outcome, Runnable
from tidelog.logic.functions.builtins import evaluate
from tidelog.logic.program import Assignment, Constant, Variable
from tidelog.logic.values import Value
from tidelog.plan.algebra import Aggregate, Part, Project, RulePlan

Ids = npt.NDArray[np.int32]
NO_ROWS = np.zeros(0, np.int64)

DENSE_BYTES = 64 << 20  # a set of rows is a direct array up to this size
DENSE_BYTES_ALL = 512 << 20  # … and all of them together stay below this


class CatalogObserver:
    """A part that keeps something about relations; this one ignores what happens to them."""

    def on_drop(self, relation: str, table: Table) -> None:
        """Forget what is kept about a relation that is about to be dropped."""

    def on_rename(self, relation: str, name: str) -> None:
        """Keep what is known about a relation under its new name."""

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
        self.version = 0  # changes when plans that are cached must be assembled again
        self.epoch = 0  # the number of transactions so far
        self.has_change_log = False  # whether a relation's changes are logged for readers
        self.incomplete: list[Table] = []  # tables that may lack a set of their rows
        self.observers: tuple[CatalogObserver, ...] = ()
        self._numbers: dict[str, int] = {}
        self._indexes: dict[IndexKey, Index] = {}
        self._indexes_of: dict[int, list[Index]] = {}
        self._free: list[int] = []

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
            known = self.table(relation).arity
            if known != arity:
                raise ValueError(f"`{relation}` has {known} columns, not {arity}")
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
        lists = layout.X_LISTS + 3 * arity  # keys, and two words for each filter
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
        self._forget_statistics(relation)

    def _forget_statistics(self, relation: str) -> None:
        for key in [key for key in self._distinct if key[0] == relation]:
            del self._distinct[key]
        for matching in [matching for matching in self._matching if matching[0] == relation]:
            del self._matching[matching]

    def forget_derived(self, relations: Collection[str]) -> None:
        """Keep only the explicit facts of these relations."""
        for relation in relations:
            table = self.table(relation)
            explicit = (table.flags[: len(table)] & layout.EXPLICIT) != 0
            columns = [table.column(place)[explicit] for place in range(table.arity)]
            # The old table goes when the new one is whole: after a lack of memory no fact is missing.
            kept, former = f"{relation} kept", f"{relation} former"
            self.define(kept, len(columns))
            self.add(kept, columns, int(explicit.sum()))
            numbers = {**self._numbers, former: self._numbers[relation]}
            numbers[relation] = numbers.pop(kept)
            self._numbers = numbers
            self.table(relation).name = relation
            self.drop(former)
            self._forget_statistics(relation)

    def compact(self, table: Table) -> None:
        """Delete a table's dead rows and rebuild its indexes; cached plans go on reading it."""
        constants = len(self.dictionary)
        table.compact(constants)
        for index in self._indexes_of.get(table.number, ()):
            index.rebuild(constants)

    def table(self, relation: str) -> Table:
        """The table of a relation."""
        return self.tables[self._numbers[relation]]

    def relations(self) -> tuple[str, ...]:
        """The relations that are there."""
        return tuple(self._numbers)

    # ---- facts in and out

    def load(self, relation: str, batch: Batch) -> int:
        """Add a batch of explicit facts; returns how many were new."""
        known = len(self.dictionary)
        columns = [self.encode_column(column) for column in batch.columns]
        following = min(batch.following, MOST_EXPECTED)
        if following:
            # Values repeat themselves: what is to come has fewer new ones than what was there.
            self.dictionary.grow((len(self.dictionary) - known) * following // (2 * batch.rows))
        self.table(relation).reserve(batch.rows + following, len(self.dictionary), given=True)
        return self.add(relation, columns, batch.rows)

    def add(self, relation: str, columns: Sequence[Ids], rows: int) -> int:
        """Add rows of ids as explicit facts; returns how many were new."""
        table = self.table(relation)
        if table.dead:
            self.compact(table)
        before = len(table)
        new = table.insert(columns, rows, layout.EXPLICIT, len(self.dictionary))
        if table.log is not None:
            table.note(NO_ROWS, np.arange(before, before + new))
        return new

    def restore(self, derived: Mapping[str, tuple[Sequence[Ids], int]]) -> None:
        """Add rows of ids, none of them there, as facts that were derived before; all facts are visible."""
        for relation, (columns, rows) in derived.items():
            self.table(relation).insert(columns, rows, 0, len(self.dictionary))
        self.begin(self.relations())
        for relation in derived:
            self.table(relation).rounds_of = -1, frozenset()  # its rows are not in the order of rounds

    def encode_column(self, column: Column) -> Ids:
        """The ids of a column's values, new ones given as needed."""
        return encode_column(self.dictionary, column)

    def rows(self, relation: str) -> tuple[tuple[Ids, ...], int]:
        """The columns of a relation as they are now, and its number of rows, in no particular order.

        They stay as they are: a table only ever adds rows behind them, or moves to other memory.
        """
        table = self.table(relation)
        columns = tuple(table.column(place) for place in range(table.arity))
        if not table.dead:
            return columns, len(table)
        living = np.flatnonzero(table.flags[: len(table)] & layout.ALIVE)
        return tuple(column[living] for column in columns), len(living)

    def has_dead(self, relation: str) -> bool:
        """Whether some rows of a relation are no facts."""
        return self.table(relation).dead > 0

    # ---- what is known of facts, for transactions

    def standing(self, relation: str, columns: Sequence[Ids], rows: int) -> npt.NDArray[np.uint8]:
        """The flags ALIVE and EXPLICIT of each given row; 0 where it is no fact."""
        table = self.table(relation)
        found = table.find(columns, rows)
        flags: npt.NDArray[np.uint8] = (table.flags[found] & STANDING) * (found >= 0)
        return flags

    def explicit(
        self, relation: str, without: Sequence[Ids] = (), rows: int = 0
    ) -> tuple[tuple[Ids, ...], int]:
        """The explicit facts of a relation but for the given rows: their columns, and how many they are."""
        table = self.table(relation)
        kept = (table.flags[: len(table)] & layout.EXPLICIT) != 0
        if rows:
            found = table.find(without, rows)
            kept[found[found >= 0]] = False
        return tuple(table.column(place)[kept] for place in range(table.arity)), int(np.count_nonzero(kept))

    def rename(self, relation: str, name: str) -> None:
        """Give a table another name, which none has."""
        numbers = {**self._numbers, name: self._numbers[relation]}
        del numbers[relation]
        self._numbers = numbers  # at no time does it have both names, or none
        self.table(name).name = name
        for observer in self.observers:
            observer.on_rename(relation, name)

    def exchange(self, relation: str, replacement: str) -> None:
        """Let a table take the place of another, which is dropped."""
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
            number = next(place for place in range(len(used) + 1) if place not in used)
            if number >= height:
                self._replace_indexes(2 * height, width)
            index = Index(self.indexes, number, key, self.tables[key.table], len(self.dictionary))
            self._indexes[key] = index
            self._indexes_of.setdefault(key.table, []).append(index)
        return index.number

    def rebuild_indexes(self, number: int) -> None:
        """Rebuild the indexes of the table with this number."""
        for index in self._indexes_of.get(number, ()):
            index.rebuild(len(self.dictionary))

    # ---- what the assembler asks

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
