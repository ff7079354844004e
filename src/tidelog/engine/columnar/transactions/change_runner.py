"""Running plans that pass on changes: over given rows, with what becomes of heads said at each run.

Mutates the engine's tables, and the lists of facts found and touched, which live here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.assemble import Assembled, assemble, noted_by
from tidelog.engine.columnar.interpreter.assemble import Store as AssemblerStore
from tidelog.engine.columnar.interpreter.interpreter import run_plan
from tidelog.engine.columnar.interpreter.plan_runner import BATCH, PythonFunction, Workspace
from tidelog.engine.columnar.interpreter.plan_runner import Store as RunnerStore
from tidelog.engine.columnar.storage.table import Index, Table
from tidelog.engine.protocol import Counters, Effect, Noting, Outcome
from tidelog.plan.algebra import ChangePlan, Support

Rows = npt.NDArray[np.int64]

NO_ROWS: Rows = np.zeros(0, np.int64)
SUPPORT_BATCH = 64  # looking for one instance each: small batches, so that little is matched in vain
FIRST_LIST = 2 * BATCH
COUNTED = {
    Counters.NONE: layout.COUNT_NOTHING,
    Counters.CLASS: layout.COUNT_CLASS,
    Counters.RANK: layout.COUNT_RANK,
}
# What is kept for facts of recursive strata, beside `founded`.
COUNTERS: dict[Counters, tuple[int, ...]] = {
    Counters.NONE: (),
    Counters.CLASS: (layout.HIDDEN,),
    Counters.RANK: (layout.HIDDEN, layout.RANK),
}
JOURNAL = (
    (layout.Z_JOURNAL, np.int64),
    (layout.Z_JOURNAL_FLAGS, np.uint8),
    (layout.Z_JOURNAL_FOUNDED, np.int32),
    (layout.Z_JOURNAL_HIDDEN, np.int32),
    (layout.Z_JOURNAL_RANK, np.int32),
)
JOURNAL_PLACES = np.array([place for place, _ in JOURNAL])


class RowSet:
    """A set of facts: row numbers by relation.

    `groups`, where they are known, are the same for kernels: tables, where the rows of each start, and rows.
    """

    __slots__ = ("groups", "rows")

    def __init__(self, rows: Mapping[str, Rows], groups: tuple[Rows, Rows, Rows] | None = None) -> None:
        self.rows = rows
        self.groups = groups

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def __or__(self, other: RowSet) -> RowSet:
        if not other.rows:
            return self
        both = dict(self.rows)
        for relation, rows in other.rows.items():
            both[relation] = np.concatenate((both[relation], rows)) if relation in both else rows
        return RowSet(both)

    @property
    def relations(self) -> Collection[str]:
        """The relations that have facts in it."""
        return self.rows.keys()

    @property
    def counts(self) -> dict[str, int]:
        """How many facts there are of each relation."""
        return {relation: len(rows) for relation, rows in self.rows.items()}


EMPTY = RowSet({})


class Store(AssemblerStore, RunnerStore, Protocol):
    """What running changes needs of the engine."""

    generation: int
    lists: Lists
    noting: Noting

    @property
    def counters(self) -> Counters:
        """What is counted at present."""

    def table(self, relation: str) -> Table:
        """The table of a relation."""

    def row_set(self, codes: Rows) -> RowSet:
        """The facts with these codes."""

    @property
    def instances(self) -> int:
        """How many instances of rules plans have found so far."""

    def add_instances(self, number: int) -> None:
        """Note that plans have found so many instances."""


def codes_of(facts: RowSet, store: Store) -> Rows:
    """The facts' codes: the table's number in the upper half, the row's in the lower."""
    codes = [(store.table_number(relation) << 32) | rows for relation, rows in facts.rows.items()]
    return np.concatenate(codes) if len(codes) > 1 else codes[0] if codes else NO_ROWS


class Lists:
    """The facts that plans find, and the journal of those that are touched; described in a workspace's Z."""

    def __init__(self, workspace: Workspace) -> None:
        self.state = workspace.state
        self.found: Rows = memory.empty(FIRST_LIST, np.int64)
        self.journal: dict[int, npt.NDArray[Any]] = {}
        self._addresses = np.zeros(len(JOURNAL), np.int64)  # asking an array for its own takes a while
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
        """Enter nothing into the journal for now."""
        self.state[layout.Z_JOURNAL] = -1

    def close(self) -> None:
        """End the journal; what was found and not taken is forgotten."""
        self.pause()
        self.state[layout.Z_OUT_COUNT] = 0

    def _keep_journal(self, journal: dict[int, npt.NDArray[Any]]) -> None:
        self.journal = journal
        self._addresses[:] = [array.ctypes.data for array in journal.values()]

    @property
    def is_open(self) -> bool:
        """Whether touched facts are entered into the journal."""
        return bool(self.state[layout.Z_JOURNAL] != -1)

    @property
    def capacity(self) -> int:
        """How many facts the longer list has room for."""
        return max(len(self.found), *(len(array) for array in self.journal.values()), 0)

    def resume(self) -> None:
        """Enter touched facts into the journal again."""
        self.state[JOURNAL_PLACES] = self._addresses
        self.state[layout.Z_JOURNAL_CAPACITY] = len(self.journal[layout.Z_JOURNAL])

    def reserve(self, more: int) -> None:
        """Make room for so many facts in either list."""
        used = int(self.state[layout.Z_OUT_COUNT])
        if used + more > len(self.found):
            self.found = memory.grown(self.found, used, max(2 * len(self.found), used + more))
            self._publish_found()
        if self.is_open:
            touched = int(self.state[layout.Z_JOURNAL_COUNT])
            capacity = len(self.journal[layout.Z_JOURNAL])
            if touched + more > capacity:
                size = max(2 * capacity, touched + more)
                self._keep_journal(
                    {place: memory.grown(array, touched, size) for place, array in self.journal.items()}
                )
                self.resume()

    def take(self) -> Rows:
        """The codes of the facts found; the list is empty then."""
        count = int(self.state[layout.Z_OUT_COUNT])
        self.state[layout.Z_OUT_COUNT] = 0
        codes: Rows = self.found[:count].copy()
        return codes


class ChangeRunner:
    """A plan that passes on changes, ready to run any number of times."""

    def __init__(self, plan: ChangePlan, store: Store) -> None:
        self.plan = plan
        self.store = store
        self.given = plan.given
        self._assembled_for: tuple[int, Counters, Noting] | None = None
        self.words: Rows
        self.assembled: Assembled
        self.indexes: list[Index]
        self.python: dict[int, PythonFunction]

    def assemble(self) -> None:
        """Assemble the plan's words for the current tables, counters and notes, unless up to date."""
        store = self.store
        wanted = (store.generation, store.counters, store.noting)
        if wanted == self._assembled_for:
            return
        store.check()
        plan = self.plan
        ranked, noted = store.counters is Counters.RANK, noted_by(plan, store.noting)
        self.assembled = assemble(plan.relation, plan.root, store, ranked, noted, plan.rule.span)
        self.words = np.array(self.assembled.words, np.int64)
        for number in self.assembled.tables:
            store.tables[number].is_planned = True
        for number in self.assembled.own:
            # A rule that was added may have made the stratum recursive.
            store.tables[number].count_too(COUNTERS[store.counters])
        self.indexes = [store.index(number) for number in self.assembled.indexes]
        self.python = {level: PythonFunction(step, store) for level, step in self.assembled.python.items()}
        self._assembled_for = wanted

    def run(self, rows: Rows | None, effect: Effect | None) -> Outcome:
        """Run over the given rows, or all; what is found goes into the store's lists."""
        self.assemble()
        store = self.store
        constants = len(store.dictionary)
        for index in self.indexes:
            index.catch_up(len(index.table), constants)
        workspace = store.workspaces[0]
        workspace.fit(self.assembled)
        state = workspace.state
        self._scan(rows, workspace)
        if isinstance(self.plan.root, Support):
            state[layout.Z_SINK] = layout.SUPPORT
            state[layout.Z_BATCH] = min(SUPPORT_BATCH, workspace.batch)
        else:
            assert effect is not None
            set_effect(state, effect)
            state[layout.Z_NOTING] = store.noting.notes
        state[layout.Z_COUNTERS] = COUNTED[store.counters]
        state[layout.Z_BUDGET] = store.budget()
        while True:
            wish = int(
                run_plan(store.descriptors, store.indexes, store.dictionary.words, self.words, 0, state)
            )
            if wish == layout.DONE:
                break
            self._grant(wish, workspace)
        return Outcome(int(state[layout.Z_MATCHES]), int(state[layout.Z_NEW]), int(state[layout.Z_NO_VALUE]))

    def _scan(self, rows: Rows | None, workspace: Workspace) -> None:
        state = workspace.state
        if rows is not None:
            state[layout.Z_LIST] = rows.ctypes.data
            workspace.scan(0, len(rows))
        elif self.assembled.pivot is None:
            workspace.scan(0, 1)
        else:
            workspace.scan(0, len(self.store.tables[self.assembled.pivot]))

    def _grant(self, wish: int, workspace: Workspace) -> None:
        """Do what a kernel has asked for."""
        store = self.store
        state = workspace.state
        found = int(state[layout.Z_OUT_COUNT]) if state[layout.Z_CREATE] else 0
        if wish == layout.GROW_TABLE:
            store.table(self.plan.relation).reserve(BATCH, len(store.dictionary))
        elif wish == layout.GROW_DICTIONARY:
            store.dictionary.grow(BATCH)
        elif wish == layout.GROW_LISTS:
            store.lists.reserve(BATCH * 4)
        elif wish == layout.EVALUATE:
            level = int(state[layout.Z_LEVEL])
            rows = int(state[layout.Z_ROWS + level - 1])
            self.python[level].fill(workspace, level - 1, rows, self.assembled.width)
        else:
            state[layout.Z_BUDGET] = store.budget(found)
        store.check(found)


def set_effect(state: npt.NDArray[np.int64], effect: Effect) -> None:
    """Write into the state what the effect does with heads."""
    state[layout.Z_SINK] = layout.APPLY
    state[layout.Z_MASK] = effect.where.mask
    state[layout.Z_WANT] = effect.where.want
    state[layout.Z_SET] = effect.set
    state[layout.Z_CREATE] = effect.create
    state[layout.Z_STEP] = effect.count
    state[layout.Z_UNFOUNDED] = effect.unfounded
    state[layout.Z_ROLE] = effect.role
