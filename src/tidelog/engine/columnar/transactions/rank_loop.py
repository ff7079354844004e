"""Whole updates by the compiled loop of rank counting: its plans, its arrays and how they grow. Mutable.

The engine offers this to `maintenance.counting.RankCounting`, which does the same in readable form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter

import numpy as np

from tidelog.data import memory
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.plan_runner import BATCH, Workers, Workspace
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.table_kernels import LOWER
from tidelog.engine.columnar.transactions import rank_kernels
from tidelog.engine.columnar.transactions.change_runner import (
    COUNTED,
    Bookkeeping,
    ChangeExecutor,
    ChangeRunner,
)
from tidelog.engine.columnar.transactions.row_sets import EMPTY, Columns, RowNumbers, RowSet, find_codes
from tidelog.engine.columnar.transactions.transactions import ChangeBuffers
from tidelog.engine.protocol import Family, LoopOutcome, LoopSection
from tidelog.records import dataclass

FAMILIES = {
    Family.LOST: rank_kernels.LOST,
    Family.LOST_UNDER_NEGATION: rank_kernels.LOST_UNDER_NEGATION,
    Family.OVERDELETE: rank_kernels.OVERDELETE,
    Family.GAINED: rank_kernels.GAINED,
    Family.GAINED_UNDER_NEGATION: rank_kernels.GAINED_UNDER_NEGATION,
    Family.INSERT: rank_kernels.INSERT,
}
# Where the state of an update begins: at 0, but for the kind of counters.
BEGIN = np.array(
    (
        layout.Z_RUNNING,
        layout.Z_MATCHES,
        layout.Z_NEW,
        layout.Z_NO_VALUE,
        layout.Z_WENT_COUNT,
        layout.Z_CAME_COUNT,
        layout.Z_SECTION,
        layout.Z_PHASE,
        layout.Z_NUMBER,
        layout.Z_SETTLED,
        layout.Z_COUNTERS,
    )
)
NET = np.array((layout.Z_WENT_COUNT, layout.Z_CAME_COUNT))
PUBLISHED = np.array(
    (
        layout.Z_BATCH,
        layout.Z_WIDTH,
        layout.Z_BUDGET,
        layout.Z_WENT,
        layout.Z_CAME,
        layout.Z_PICKED,
        layout.Z_LIST_CAPACITY,
    )
)


@dataclass(frozen=True, slots=True)
class ColumnarRankLoop:
    """The maker of compiled loops."""

    plans: ChangeExecutor

    @property
    def is_available(self) -> bool:
        """Whether a compiled loop may run: it does not report single plans."""
        return self.plans.plan_listener is None

    def compile(self, sections: Sequence[LoopSection]) -> RankedUpdate:
        """Return the compiled loop over these strata."""
        plans = self.plans
        return RankedUpdate(
            sections, plans.catalog, plans.workers, plans.transactions.buffers, plans.bookkeeping
        )


class RankedUpdate:
    """The compiled loop over the strata of one program, for any number of updates."""

    def __init__(
        self,
        sections: Sequence[LoopSection],
        catalog: Catalog,
        workers: Workers,
        buffers: ChangeBuffers,
        bookkeeping: Bookkeeping,
    ) -> None:
        self.catalog = catalog
        self.workers = workers
        self.buffers = buffers
        self.bookkeeping = bookkeeping
        self.sections = sections
        self.version = catalog.version
        self.counters = bookkeeping.counters
        self._beginning = np.zeros(len(BEGIN), np.int64)
        self._beginning[-1] = COUNTED[self.counters]
        self.runners: list[ChangeRunner] = []
        self.starts = np.zeros((rank_kernels.FAMILIES, len(sections) + 2), np.int64)
        self._list_entries()
        self.words: RowNumbers = memory.empty(1 << 12, np.int64)
        self.words_used = 0
        self.indexes: RowNumbers = np.zeros(64, np.int64)
        self.indexes_used = 0
        self.width = self.steps = 1
        self._list_tables()
        self.lists: list[RowNumbers] = []
        # What `_publish` writes. Addresses are kept in it: asking an array for its own takes a while.
        self._published = np.zeros(len(PUBLISHED), np.int64)
        self._grow_lists()
        self._handled = [
            number for number, section in enumerate(sections, 1) if section.custom_handler is not None
        ]

    def _list_entries(self) -> None:
        """List the plans of all sections, family by family, none of them assembled yet."""
        for family, number in FAMILIES.items():
            self.starts[number, :2] = len(self.runners)
            for position, section in enumerate(self.sections, 2):
                self.runners += section.plans.get(family, ())
                self.starts[number, position] = len(self.runners)
        self.entries = np.zeros((max(len(self.runners), 1), 4), np.int64)
        for number, runner in enumerate(self.runners):
            assert runner.given is not None
            self.entries[number, rank_kernels.E_PLAN] = -1
            self.entries[number, rank_kernels.E_TABLE] = self.catalog.table_number(runner.given)

    def _list_tables(self) -> None:
        """Describe each table: its section, and the number of its changed facts."""
        tables = len(self.catalog.descriptors)
        self.section_of = np.zeros(tables, np.int64)  # section 0: relations that no rule derives
        for number, section in enumerate(self.sections, 1):
            for predicate in section.predicates:
                self.section_of[self.catalog.table_number(predicate)] = number
        self.deleted_counts, self.inserted_counts = np.zeros(tables, np.int64), np.zeros(tables, np.int64)
        self._read = [
            [self.catalog.table_number(relation) for relation in section.read] for section in self.sections
        ]

    # ---- one update

    @property
    def is_valid(self) -> bool:
        """Whether the relations are still those that it was made for."""
        return self.version == self.catalog.version and self.counters is self.bookkeeping.counters

    def run(
        self,
        removed: Mapping[str, Columns],
        added: Mapping[str, Columns],
        report: Callable[[int, LoopOutcome], None] | None = None,
    ) -> tuple[int, int]:
        """Delete and insert explicit facts; return the total numbers of deleted and inserted facts.

        `report` is called after each stratum, with its position among all; the loop pauses for it.
        """
        deleted = find_codes(removed, self.catalog, create=False)
        inserted = find_codes(added, self.catalog, create=True)
        explicit = (*removed, *added)
        state = self._begin()
        try:
            if report is None:
                for number in self._handled:
                    self._run_handler(number, explicit, deleted, inserted)
            else:
                self._reach(1, deleted, inserted)  # relations without rules
                for number in range(1, len(self.sections) + 1):
                    report(number - 1, self._outcome(number, explicit, deleted, inserted))
            self._reach(len(self.sections) + 1, deleted, inserted)
        finally:
            rank_kernels.forget_counts(self.deleted_counts, self.inserted_counts, state)
        return int(state[layout.Z_WENT_COUNT]), int(state[layout.Z_CAME_COUNT])

    def _run_handler(
        self, number: int, explicit: Collection[str], removed: RowNumbers, added: RowNumbers
    ) -> bool:
        """Maintain a stratum by its handler, if it has one and the update may affect it; return whether."""
        section = self.sections[number - 1]
        if section.custom_handler is None or section.reached_from.isdisjoint(explicit):
            return False
        self._reach(number, removed, added)
        section.custom_handler(*(self._changed(which, self._read[number - 1]) for which in (0, 1)))
        self.workers.workspaces[0].state[layout.Z_PHASE] = rank_kernels.SETTLE
        return True

    def _outcome(
        self, number: int, explicit: Collection[str], removed: RowNumbers, added: RowNumbers
    ) -> LoopOutcome:
        """Maintain a section, after all before it, and return the outcome."""
        state = self.workers.workspaces[0].state
        started, instances = perf_counter(), self.bookkeeping.instances
        deleted_before, inserted_before = state[NET].tolist()
        is_handled = self._run_handler(number, explicit, removed, added)
        self._reach(number + 1, removed, added)
        return LoopOutcome(
            overdeleted=0 if is_handled else int(state[layout.Z_DELETED]),
            deleted=int(state[layout.Z_WENT_COUNT]) - deleted_before,
            inserted=int(state[layout.Z_CAME_COUNT]) - inserted_before,
            instances=self.bookkeeping.instances - instances,
            seconds=perf_counter() - started,
        )

    def _begin(self) -> RowNumbers:
        """Return the state at the beginning of an update."""
        if len(self.catalog.descriptors) != len(self.section_of):
            self._list_tables()
        state = self.workers.workspaces[0].state
        state[BEGIN] = self._beginning
        return state

    def _reach(self, section: int, removed: RowNumbers, added: RowNumbers) -> None:
        """Maintain all sections before this one."""
        catalog = self.catalog
        workspace = self.workers.workspaces[0]
        state = workspace.state
        self._publish(workspace)
        while True:
            request = int(
                rank_kernels.maintain(
                    catalog.descriptors,
                    catalog.indexes,
                    catalog.dictionary.words,
                    self.words,
                    self.entries,
                    self.indexes,
                    self.starts,
                    self.section_of,
                    removed,
                    added,
                    section,
                    self.deleted_counts,
                    self.inserted_counts,
                    state,
                )
            )
            if request == layout.DONE:
                self.bookkeeping.instances += int(state[layout.Z_MATCHES])
                state[layout.Z_MATCHES] = 0
                return
            found = self._found(state)
            self._serve(request, workspace, found)
            self.workers.limits.check(found)

    def _found(self, state: RowNumbers) -> int:
        """Return the number of inserted facts less that of deleted ones."""
        inserted, deleted = int(state[layout.Z_CAME_COUNT]), int(state[layout.Z_WENT_COUNT])
        is_gaining = state[layout.Z_PHASE] > rank_kernels.RESEED
        new = int(state[layout.Z_OUT_COUNT] - 2 * state[layout.Z_DELETED]) if is_gaining else 0
        return inserted - deleted + new

    def _publish(self, workspace: Workspace) -> None:
        """Write the data of these plans into the state, which a run of another plan may have changed."""
        published = self._published
        published[0], published[1], published[2] = workspace.batch, self.width, self.workers.limits.budget()
        workspace.state[PUBLISHED] = published

    def _changed(self, which: int, tables: Sequence[int]) -> RowSet:
        """Return the facts of these tables that were deleted (0) or inserted (1) so far."""
        counts = (self.deleted_counts, self.inserted_counts)[which]
        changed_tables = [table for table in tables if counts[table]]
        if not changed_tables:
            return EMPTY
        count = int(self.workers.workspaces[0].state[NET[which]])
        codes = self.lists[which][:count]
        numbers = codes >> 32
        return RowSet(
            {self.catalog.tables[table].name: codes[numbers == table] & LOWER for table in changed_tables}
        )

    # ---- requests of the loop

    def _serve(self, request: int, workspace: Workspace, found: int) -> None:
        catalog, buffers = self.catalog, self.buffers
        state = workspace.state
        number = int(state[layout.Z_WISH])
        if request == layout.GROW_TABLE:
            catalog.tables[number].reserve(BATCH, len(catalog.dictionary))
        elif request == layout.GROW_DICTIONARY:
            catalog.dictionary.grow(BATCH)
        elif request == layout.GROW_LISTS:
            buffers.reserve(max(4 * BATCH, 2 * buffers.capacity))
            self._grow_lists()
            self._publish(workspace)
            # The plan that made the request continues with the facts that drive it, which have moved.
            state[layout.Z_LIST] = state[layout.Z_PICKED]
        elif request == layout.GROW_INDEX:
            index = catalog.index(number)
            index.catch_up(len(index.table), len(catalog.dictionary))
        elif request == layout.ASSEMBLE:
            self._assemble(number, workspace)
        elif request == layout.EVALUATE:
            level = int(state[layout.Z_LEVEL])
            rows = int(state[layout.Z_ROWS + level - 1])
            self.runners[number].python[level].fill(workspace, level - 1, rows, self.width)
        else:
            state[layout.Z_BUDGET] = self.workers.limits.budget(found)

    def _grow_lists(self) -> None:
        """Grow the loop's lists to the capacity of the buffers, which hold every changed fact."""
        size = max(self.buffers.capacity, 4 * BATCH)
        used = len(self.lists[0]) if self.lists else 0
        self.lists = (
            [memory.grown(array, used, size) for array in self.lists]
            if self.lists
            else [memory.empty(size, np.int64) for _ in range(3)]
        )
        self._published[3:] = [*(array.ctypes.data for array in self.lists), len(self.lists[0])]

    def _assemble(self, number: int, workspace: Workspace) -> None:
        """Assemble an entry's plan, and append its code and indexes to the loop's."""
        runner = self.runners[number]
        runner.assemble()
        words = runner.words
        if self.words_used + len(words) > len(self.words):
            self.words = memory.grown(self.words, self.words_used, 2 * (self.words_used + len(words)))
        self.words[self.words_used : self.words_used + len(words)] = words
        self.entries[number, rank_kernels.E_PLAN] = self.words_used
        self.words_used += len(words)
        numbers = [index.number for index in runner.indexes]
        if self.indexes_used + len(numbers) > len(self.indexes):
            larger = 2 * (self.indexes_used + len(numbers))
            self.indexes = memory.grown(self.indexes, self.indexes_used, larger)
        self.indexes[self.indexes_used : self.indexes_used + len(numbers)] = numbers
        self.entries[number, rank_kernels.E_INDEXES] = self.indexes_used
        self.entries[number, rank_kernels.E_INDEX_COUNT] = len(numbers)
        self.indexes_used += len(numbers)
        self.width = max(self.width, runner.assembled.width)
        self.steps = max(self.steps, runner.assembled.steps)
        workspace.make_room(self.steps, self.width)
        self._publish(workspace)
