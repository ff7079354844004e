"""Which rows scans see as old and new while rules run in rounds, and what has changed since. Mutable."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids, Rows, select
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.round_kernels import clear_tables
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.table import Log
from tidelog.engine.columnar.transactions.row_sets import find_rows
from tidelog.logic.values import Value
from tidelog.plan.algebra import Part
from tidelog.records import dataclass

NO_CHANGE = Rows((), 0), Rows((), 0)
TRUE = layout.EXPLICIT | layout.TRUE


@dataclass(frozen=True, slots=True)
class TableGroup:
    """Relations by their names and by their rows of T."""

    names: tuple[str, ...]
    numbers: npt.NDArray[np.int64]


class ColumnarRounds:
    """Rounds as row numbers: where the old rows of a table end, and the current ones.

    See `engine.protocol.Rounds` for what the methods promise.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def begin(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, none of them as NEW."""
        together = frozenset(relations)
        for relation in relations:
            table = self.catalog.table(relation)
            table.words[layout.OLD_END] = len(table)
            table.words[layout.CURRENT_END] = len(table)
            table.rounds = [len(table)]
            table.rounds_of = self.catalog.epoch, together
        for observer in self.catalog.observers:
            observer.on_begin_rounds()

    def advance(self, relations: Collection[str]) -> dict[str, int]:
        """End a round; return how many facts are now NEW, by relation, of those that have any."""
        new = {}
        for relation in relations:
            table = self.catalog.table(relation)
            words = table.words
            before, end = int(words[layout.CURRENT_END]), len(table)
            words[layout.OLD_END] = before
            words[layout.CURRENT_END] = end
            table.rounds.append(end)
            if end > before:
                new[relation] = end - before
        return new

    def mark_all_old(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, none of them as NEW, without restarting their rounds."""
        for relation in relations:
            words = self.catalog.table(relation).words
            words[layout.OLD_END] = words[layout.CURRENT_END] = words[layout.ROWS]

    def extend_new(self, relation: str) -> None:
        """Make facts inserted in this round NEW too, next to those that already are."""
        words = self.catalog.table(relation).words
        words[layout.CURRENT_END] = words[layout.ROWS]

    def new_rows(self, relation: str) -> Rows:
        """Return the facts that are NEW."""
        table = self.catalog.table(relation)
        words = table.words
        first, last = int(words[layout.OLD_END]), int(words[layout.CURRENT_END])
        return Rows(tuple(column[first:last] for column in table.columns), last - first)

    def rows_since(self, relation: str, first: int) -> Rows:
        """Return the facts of a relation from a row on."""
        table = self.catalog.table(relation)
        living = np.flatnonzero(table.flags[first : len(table)] & layout.ALIVE) + first
        return Rows(tuple(table.column(position)[living] for position in range(table.arity)), len(living))

    def visible(self, relation: str, part: Part) -> range:
        """Return the numbers of the rows that are visible, or of those that are NEW."""
        words = self.catalog.table(relation).words
        return range(int(words[layout.OLD_END]) if part is Part.NEW else 0, int(words[layout.CURRENT_END]))

    def occurs(self, relation: str, column: int, value: Value, rows: range) -> bool:
        """Return whether a value occurs in a column of these rows."""
        ids = self.catalog.table(relation).column(column)[rows.start : rows.stop]
        return bool((ids == self.catalog.dictionary.encode(value)).any())

    # ---- relations whose rounds end together

    def group(self, relations: Collection[str]) -> TableGroup:
        """Return the relations as a group whose rounds end together."""
        names = tuple(relations)
        return TableGroup(names, np.array([self.catalog.table_number(name) for name in names], np.int64))

    def advance_group(self, group: TableGroup) -> list[str]:
        """End a round of each relation; return those that have NEW facts."""
        words, numbers = self.catalog.descriptors, group.numbers
        rows = words[numbers, layout.ROWS]
        (moved,) = np.nonzero(rows != words[numbers, layout.OLD_END])
        if not len(moved):
            return []
        numbers, rows = numbers[moved], rows[moved]
        current = words[numbers, layout.CURRENT_END]
        words[numbers, layout.OLD_END] = current
        words[numbers, layout.CURRENT_END] = rows
        return [group.names[position] for position in moved[rows > current].tolist()]

    def new_in(self, group: TableGroup) -> dict[str, int]:
        """Return how many facts are NEW, by relation of a group, of those that have any."""
        words = self.catalog.descriptors[group.numbers]
        new = (words[:, layout.CURRENT_END] - words[:, layout.OLD_END]).tolist()
        return {name: count for name, count in zip(group.names, new, strict=True) if count}

    def sizes(self, group: TableGroup) -> npt.NDArray[np.int64]:
        """Return how many facts each relation of a group has."""
        words = self.catalog.descriptors[group.numbers]
        return words[:, layout.ROWS] - words[:, layout.DEAD]

    def clear_group(self, group: TableGroup) -> None:
        """Delete all facts of a group's relations, which are temporary."""
        filled = group.numbers[self.catalog.descriptors[group.numbers, layout.ROWS] > 0]
        clear_tables(self.catalog.descriptors, filled)
        for number in filled.tolist():
            self.catalog.tables[number].rounds = []
            self.catalog.rebuild_indexes(number)

    def fill(self, given: Mapping[str, tuple[Sequence[Ids], int]]) -> None:
        """Insert these rows into empty temporary relations; none of them is NEW yet."""
        for relation in find_rows(given, self.catalog, create=True):
            table = self.catalog.table(relation)
            table.flags[: len(table)] = TRUE
            table.words[layout.DEAD] = 0


class ColumnarChangeLog:
    """What changes in relations, logged for each from its first `poll` on."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def poll(self, relation: str) -> tuple[Rows, Rows] | None:
        """Return the rows deleted and inserted since the last call; None if that is not known, as at first.

        Facts that were deleted and inserted again, or the other way round, may be among them.
        """
        table, size = self.catalog.table(relation), self.catalog.size(relation)
        log = table.log
        if log is not None and log.size == size and not log.rows:
            return NO_CHANGE
        self.catalog.has_change_log = True
        table.log = Log(size)
        if log is None or log.size != size:
            return None
        deleted, inserted = (_concatenated(some, table.arity) for some in (log.deleted, log.inserted))
        is_gone, exists = (table.row_flags(*some) & layout.ALIVE != 0 for some in (deleted, inserted))
        return select(deleted, ~is_gone), select(inserted, exists)


def _concatenated(parts: Sequence[tuple[Sequence[Ids], int]], arity: int) -> Rows:
    """Return rows that were logged one after the other."""
    columns = ([some[position] for some, _ in parts] for position in range(arity))
    none = np.zeros(0, np.int32)
    return Rows(
        tuple(np.concatenate([none, *column]) for column in columns), sum(count for _, count in parts)
    )
