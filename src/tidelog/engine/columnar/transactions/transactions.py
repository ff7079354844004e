"""Transactions over tables: a journal of changed rows, and sets of facts. Mutable.

See `engine.protocol.FactChanges` for the contracts of the methods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.data.rows import Ids
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.plan_runner import BATCH, Workers, Workspace
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.columnar.transactions import change_kernels as kernels
from tidelog.engine.columnar.transactions.row_sets import (
    EMPTY,
    NO_ROWS,
    Columns,
    GatheredRows,
    RowNumbers,
    RowSet,
    find_rows,
)
from tidelog.engine.flags import Flag, Where

COMPACT_FROM = 4096  # tombstones that are worth a compaction
FIRST_LIST = 2 * BATCH
JOURNAL = (
    (layout.Z_JOURNAL, np.int64),
    (layout.Z_JOURNAL_FLAGS, np.uint8),
    (layout.Z_JOURNAL_FOUNDED, np.int32),
    (layout.Z_JOURNAL_HIDDEN, np.int32),
    (layout.Z_JOURNAL_RANK, np.int32),
)


class ChangeBuffers:
    """The facts that plans find, and the journal of touched facts; a workspace's Z describes both."""

    def __init__(self, workspace: Workspace) -> None:
        self.state = workspace.state
        self.found: RowNumbers = memory.empty(FIRST_LIST, np.int64)
        self.journal: dict[int, npt.NDArray[Any]] = {}
        self._journal_address = -1  # kept: reading an array's address is slow
        self.state[layout.Z_JOURNAL] = -1
        self._publish_found()

    def _publish_found(self) -> None:
        self.state[layout.Z_OUT] = self.found.ctypes.data
        self.state[layout.Z_OUT_CAPACITY] = len(self.found)

    def open(self) -> None:
        """Begin a journal; its memory is used again."""
        if not self.journal:
            self._keep_journal({place: memory.empty(FIRST_LIST, kind) for place, kind in JOURNAL})
        self.state[layout.Z_JOURNAL_COUNT] = 0
        self.resume()

    def pause(self) -> None:
        """Stop writing to the journal for now."""
        self.state[layout.Z_JOURNAL] = -1

    def close(self) -> None:
        """End the journal; discard found facts that were not taken."""
        self.pause()
        self.state[layout.Z_OUT_COUNT] = 0

    def _keep_journal(self, journal: dict[int, npt.NDArray[Any]]) -> None:
        addresses = {place: array.ctypes.data for place, array in journal.items()}
        self._journal_address = addresses.pop(layout.Z_JOURNAL)  # what says whether the journal is open
        for place, address in addresses.items():
            self.state[place] = address
        self.state[layout.Z_JOURNAL_CAPACITY] = len(journal[layout.Z_JOURNAL])
        if self.is_open:
            self.resume()
        self.journal = journal  # the former arrays stay alive until kernels know the new ones

    @property
    def is_open(self) -> bool:
        """Whether touched facts are entered into the journal."""
        return bool(self.state[layout.Z_JOURNAL] != -1)

    @property
    def capacity(self) -> int:
        """How many facts the longer list has room for."""
        return max(len(self.found), *(len(array) for array in self.journal.values()), 0)

    def resume(self) -> None:
        """Write to the journal again."""
        self.state[layout.Z_JOURNAL] = self._journal_address

    def reserve(self, more: int) -> None:
        """Make room for this many more facts in each list."""
        used = int(self.state[layout.Z_OUT_COUNT])
        if used + more > len(self.found):
            self.found = memory.grown(self.found, used, max(2 * len(self.found), used + more))
            self._publish_found()
        if self.is_open:
            journal_size = int(self.state[layout.Z_JOURNAL_COUNT])
            capacity = len(self.journal[layout.Z_JOURNAL])
            if journal_size + more > capacity:
                size = max(2 * capacity, journal_size + more)
                self._keep_journal(
                    {place: memory.grown(array, journal_size, size) for place, array in self.journal.items()}
                )

    def take(self) -> RowNumbers:
        """The codes of the facts found; the list is empty then."""
        count = int(self.state[layout.Z_OUT_COUNT])
        self.state[layout.Z_OUT_COUNT] = 0
        codes: RowNumbers = self.found[:count].copy()
        return codes


class Participant:
    """A participant in transactions; this base class has no effect."""

    def on_begin(self) -> None:
        """Prepare for a transaction whose journal is not open yet."""

    def on_commit(self, changed: Collection[str]) -> None:
        """Keep the changes of the transaction: those of these relations. Its journal is closed."""

    def before_roll_back(self) -> None:
        """Undo changes that the journal does not cover, while the journal is complete."""

    def on_roll_back(self) -> None:
        """Undo the rest; flags and counters are as they were."""


class Transactions:
    """The current transaction, and sets of facts. `participants` are notified in this order.

    A participant joins when it has state, at the latest in the transaction that must notify it.
    """

    def __init__(self, catalog: Catalog, workers: Workers) -> None:
        self.catalog = catalog
        self.workers = workers
        self.limits = workers.limits
        self.buffers = ChangeBuffers(workers.workspaces[0])
        self.participants: tuple[Participant, ...] = ()
        self._has_second_phase = False
        self._row_counts = NO_ROWS  # a zero per table
        self._settled = 0  # the length of the journal when the last stratum ended
        self._most_dead = 0  # the most tombstones in a relation that the last transaction deleted from

    def join(self, participant: Participant) -> None:
        """Notify a participant how transactions end, the present one included."""
        if participant not in self.participants:
            self.participants = (*self.participants, participant)

    def leave(self, participant: Participant) -> None:
        """Stop notifying a participant."""
        self.participants = tuple(each for each in self.participants if each is not participant)

    # ---- begin, commit, roll back

    def begin(self) -> None:
        """Begin a transaction: all tables have complete sets from then on."""
        if self.catalog.incomplete:
            self.catalog.complete_sets(self.limits.check)
        for participant in self.participants:
            participant.on_begin()
        self.buffers.open()
        self._settled = 0
        self._has_second_phase = False
        self.buffers.state[layout.Z_OUT_COUNT] = 0

    def commit(self) -> tuple[RowSet, RowSet]:
        """End the transaction; return the deleted and inserted facts of all relations."""
        state, catalog = self.buffers.state, self.catalog
        if self._has_second_phase:
            kernels.look_back(catalog.descriptors, state)
        size, arity = int(state[layout.Z_JOURNAL_COUNT]), catalog.descriptors.shape[1] - layout.COLUMNS
        groups, rows = np.empty((size, 5), np.int64), np.empty(size, np.int64)
        ids = np.empty(size * arity, np.int32)
        split, end, self._most_dead = kernels.close_journal(
            catalog.descriptors, state, self._no_counts, groups, rows, ids
        )
        self.buffers.close()
        catalog.epoch += 1
        found = groups[:end].tolist()
        ids = ids[: found[-1][-1]].copy() if found else ids  # as few as they are: they live with the delta
        deleted, inserted = self._net(found[:split], rows, ids), self._net(found[split:], rows, ids)
        changed = {**deleted.rows, **inserted.rows}
        for relation in changed if catalog.has_change_log else ():
            logged = deleted.rows.get(relation, NO_ROWS), inserted.rows.get(relation, NO_ROWS)
            catalog.table(relation).log_changes(*logged)
        for participant in self.participants:
            participant.on_commit(changed)
        return deleted, inserted

    def _net(self, groups: Sequence[Sequence[int]], rows: RowNumbers, ids: Ids) -> RowSet:
        """Return the facts of groups that a kernel has written; see `change_kernels.write_net`."""
        if not groups:
            return EMPTY
        named, places = {}, {}
        for table, first, end, first_id, end_id in groups:
            name = self.catalog.tables[table].name
            named[name] = rows[first:end]
            places[name] = end - first, first_id, end_id
        return RowSet(named, GatheredRows(places, ids))

    @property
    def _no_counts(self) -> RowNumbers:
        """A zero per table, in which kernels count."""
        if len(self._row_counts) < len(self.catalog.descriptors):
            self._row_counts = np.zeros(len(self.catalog.descriptors), np.int64)
        return self._row_counts

    def roll_back(self) -> None:
        """Restore flags and counters as they were when the transaction began."""
        for participant in self.participants:
            participant.before_roll_back()
        kernels.undo_journal(self.catalog.descriptors, self.buffers.state, 0)
        self.buffers.close()
        for participant in self.participants:
            participant.on_roll_back()

    def start_second_phase(self) -> None:
        """Set BEFORE to ALIVE; `commit` and `roll_back` still refer to the beginning."""
        state = self.buffers.state
        kernels.rebase(self.catalog.descriptors, state)
        self.catalog.epoch += 1
        self._settled = int(state[layout.Z_JOURNAL_COUNT])
        self._has_second_phase = True

    def end_stratum(self, relations: Collection[str]) -> tuple[RowSet, RowSet]:
        """Clear the flags that algorithms set; return the facts deleted and inserted in the stratum."""
        state = self.buffers.state
        first, self._settled = self._settled, int(state[layout.Z_JOURNAL_COUNT])
        changed = self._settled - first
        if not changed:
            return EMPTY, EMPTY
        deleted_codes, inserted_codes = np.empty(changed, np.int64), np.empty(changed, np.int64)
        deleted_count, inserted_count = kernels.settle(
            self.catalog.descriptors, state, first, deleted_codes, inserted_codes
        )
        return self.row_set(deleted_codes[:deleted_count]), self.row_set(inserted_codes[:inserted_count])

    def compact_if_sparse(self, relations: Iterable[str]) -> None:
        """Compact the relations in which most rows are tombstones; sets of facts become invalid."""
        catalog = self.catalog
        if self._most_dead <= COMPACT_FROM:
            return
        for table in map(catalog.table, relations):
            if table.dead > COMPACT_FROM and 2 * table.dead > len(table):
                catalog.compact(table)

    # ---- sets of facts

    def row_set(self, codes: RowNumbers) -> RowSet:
        """Return the facts with these codes."""
        if not len(codes):
            return EMPTY
        catalog = self.catalog
        most = min(len(codes), len(catalog.tables))
        tables, starts = np.empty(most, np.int64), np.empty(most + 1, np.int64)
        rows = np.empty(len(codes), np.int64)
        table_count = int(kernels.group_rows(codes, self._no_counts, tables, starts, rows))
        tables, starts = tables[:table_count], starts[: table_count + 1]
        ranges = zip(tables.tolist(), pairwise(starts.tolist()), strict=True)
        named = {catalog.tables[table].name: rows[first:end] for table, (first, end) in ranges}
        return RowSet(named)

    def none(self) -> RowSet:
        """Return the empty set."""
        return EMPTY

    def unite(self, sets: Iterable[Any]) -> RowSet:
        """Return all facts of sets that have no relation in common."""
        united: dict[str, RowNumbers] = {}
        for facts in sets:
            united.update(facts.rows)
        return RowSet(united) if united else EMPTY

    def facts(self, relation: str, columns: Sequence[Ids], count: int, create: bool) -> RowSet:
        """Return the facts with these ids; those that do not exist are created without flags, or left out."""
        return find_rows({relation: (columns, count)}, self.catalog, create).get(relation, EMPTY)

    def all_facts(self, given: Mapping[str, Columns], create: bool) -> dict[str, RowSet]:
        """Return the facts of many relations in one call; no entry is empty."""
        return find_rows(given, self.catalog, create)

    def every(self, relation: str) -> RowSet:
        """Return all facts of a relation that are true now."""
        table = self.catalog.table(relation)
        rows = np.flatnonzero(table.flags[: len(table)] & layout.ALIVE)
        return RowSet({relation: rows}) if len(rows) else EMPTY

    def ids(self, facts: Any) -> Mapping[str, Columns]:
        """Return the ids of the facts, as columns and their length, by relation."""
        if facts.ids is not None:
            return facts.ids  # type: ignore[no-any-return]
        table = self.catalog.table
        return {
            relation: (tuple(column[rows] for column in table(relation).columns), len(rows))
            for relation, rows in facts.rows.items()
        }

    def select(self, facts: Any, where: Where) -> RowSet:
        """Return the facts whose flags match."""
        mask, want = int(where.mask), int(where.want)
        descriptors = self.catalog.descriptors
        return self.selected(
            facts, lambda table, rows, out: kernels.select_rows(descriptors, table, rows, mask, want, out)
        )

    def of(self, facts: Any, relations: Collection[str]) -> RowSet:
        """Return those of these relations."""
        return RowSet({relation: rows for relation, rows in facts.rows.items() if relation in relations})

    def mark(self, facts: Any, set: Flag = Flag.NONE, clear: Flag = Flag.NONE) -> None:
        """Clear flags, then set flags."""
        for table, rows in self.touching(facts):
            kernels.mark_rows(
                self.catalog.descriptors, table.number, rows, int(set), int(clear), self.buffers.state
            )

    def touching(self, facts: Any) -> Iterator[tuple[Table, RowNumbers]]:
        """Yield the facts table by table, the journal having room for them."""
        for relation, rows in facts.rows.items():
            self.buffers.reserve(len(rows))
            yield self.catalog.table(relation), rows

    def selected(self, facts: Any, select: Any) -> RowSet:
        """Return the facts that a kernel selects."""
        selected = {}
        for relation, rows in facts.rows.items():
            out = np.empty(len(rows), np.int64)
            count = int(select(self.catalog.table_number(relation), rows, out))
            if count:
                selected[relation] = out[:count]
        return RowSet(selected) if selected else EMPTY
