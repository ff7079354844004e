"""Plans over changes, run over the facts that drive them, with an effect on the heads. Mutable.

See `engine.protocol.ChangePlans` for the contracts of the methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.assemble import Assembled, assemble, marked_heads
from tidelog.engine.columnar.interpreter.column_functions import PythonFunction
from tidelog.engine.columnar.interpreter.interpreter import run_plan
from tidelog.engine.columnar.interpreter.plan_runner import BATCH, Workers, Workspace
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.storage import ColumnarStorage
from tidelog.engine.columnar.storage.table import Index
from tidelog.engine.columnar.transactions.row_sets import RowNumbers, RowSet
from tidelog.engine.columnar.transactions.transactions import ChangeBuffers, Transactions
from tidelog.engine.events import PlanListener, PlanOutcome
from tidelog.engine.flags import UNMARKED, CounterKind, Effect, Flag, MarkConfig, Where
from tidelog.plan.algebra import ChangePlan, Support
from tidelog.records import dataclass

SUPPORT_BATCH = 64  # one instance is searched for each fact: small batches, so that little is matched in vain
COUNTED = {
    CounterKind.NONE: layout.COUNT_NOTHING,
    CounterKind.CLASS: layout.COUNT_CLASS,
    CounterKind.RANK: layout.COUNT_RANK,
}
# The counters of facts in recursive strata, in addition to `founded`.
COUNTERS: dict[CounterKind, tuple[int, ...]] = {
    CounterKind.NONE: (),
    CounterKind.CLASS: (layout.HIDDEN,),
    CounterKind.RANK: (layout.HIDDEN, layout.RANK),
}


@dataclass(slots=True)
class Bookkeeping:
    """The records of heads in addition to flags, and the number of instances found. Mutable."""

    counters: CounterKind = CounterKind.NONE
    marks: MarkConfig = UNMARKED
    instances: int = 0


@dataclass(slots=True, eq=False)
class ChangeExecutor:
    """Plans over the changes of a transaction."""

    catalog: Catalog
    storage: ColumnarStorage
    workers: Workers
    transactions: Transactions
    bookkeeping: Bookkeeping
    plan_listener: PlanListener | None = None

    @property
    def instances(self) -> int:
        """The number of rule instances that plans have found; it only grows."""
        return self.bookkeeping.instances

    def prepare(self, plan: ChangePlan) -> ChangeRunner:
        """Return the plan ready to run, any number of times."""
        self.workers.limits.check()
        return ChangeRunner(plan, self.catalog, self.workers, self.transactions.buffers, self.bookkeeping)

    def run(self, plans: Iterable[ChangeRunner], driving: Any, effect: Effect) -> RowSet:
        """Return the heads that the effect selects, of each plan's instances over the driving facts."""
        for plan in plans:
            rows = None
            if plan.given is not None:
                rows = driving.rows.get(plan.given)
                if rows is None:
                    continue
            self._run_plan(plan, rows, effect)
        return self.transactions.row_set(self.transactions.buffers.take())

    def _run_plan(self, plan: ChangeRunner, rows: Any, effect: Effect | None) -> None:
        """Run a plan over these rows, or all, and report the outcome to the listener, if there is one."""
        start = perf_counter()
        outcome = plan.run(rows, effect)
        self.bookkeeping.instances += outcome.matches
        if self.plan_listener is not None:
            driving = 0 if rows is None else len(rows)
            self.plan_listener(plan.plan, driving, outcome, perf_counter() - start)

    def run_support(self, plans: Iterable[ChangeRunner], given: Any) -> tuple[RowSet, RowSet]:
        """Find the first instance of each head; return its unchecked facts, and the heads that have one."""
        changes = self.transactions
        pending = Where(Flag.PENDING, Flag.PENDING)
        waiting = given
        for plan in plans:
            rows = waiting.rows.get(plan.given or "")
            if rows is not None and len(rows):
                self._run_plan(plan, rows, None)
                waiting = changes.select(waiting, Where(Flag.PENDING, Flag.NONE))
        unchecked = changes.row_set(changes.buffers.take())
        heads = changes.select(given, pending)
        changes.mark(heads, clear=Flag.PENDING)
        return unchecked, heads


class ChangeRunner:
    """A plan over changes, ready to run any number of times."""

    def __init__(
        self,
        plan: ChangePlan,
        catalog: Catalog,
        workers: Workers,
        buffers: ChangeBuffers,
        bookkeeping: Bookkeeping,
    ) -> None:
        self.plan = plan
        self.catalog = catalog
        self.workers = workers
        self.buffers = buffers
        self.bookkeeping = bookkeeping
        self.given = plan.given
        self._assembled_for: tuple[int, CounterKind, MarkConfig] | None = None
        self.words: RowNumbers
        self.assembled: Assembled
        self.indexes: list[Index]
        self.python: dict[int, PythonFunction]

    def assemble(self) -> None:
        """Assemble the plan for the current tables, counters and marks, unless it is up to date."""
        catalog, recorded, limits = self.catalog, self.bookkeeping, self.workers.limits
        current = (catalog.version, recorded.counters, recorded.marks)
        if current == self._assembled_for:
            return
        limits.check()
        plan = self.plan
        is_ranked, marked = recorded.counters is CounterKind.RANK, marked_heads(plan, recorded.marks)
        self.assembled = assemble(plan.relation, plan.root, catalog, is_ranked, marked, plan.rule.span)
        self.words = np.array(self.assembled.words, np.int64)
        for number in self.assembled.tables:
            catalog.tables[number].is_pinned = True
        for number in self.assembled.own:
            # An added rule may have made the stratum recursive.
            catalog.tables[number].count_too(COUNTERS[recorded.counters])
        self.indexes = [catalog.index(number) for number in self.assembled.indexes]
        self.python = {
            level: PythonFunction(step, catalog.dictionary, limits)
            for level, step in self.assembled.python.items()
        }
        self._assembled_for = current

    def run(self, rows: RowNumbers | None, effect: Effect | None) -> PlanOutcome:
        """Run over these rows, or all; heads go into the buffers."""
        self.assemble()
        catalog, limits = self.catalog, self.workers.limits
        constants = len(catalog.dictionary)
        for index in self.indexes:
            index.catch_up(len(index.table), constants)
        workspace = self.workers.workspaces[0]
        workspace.fit(self.assembled)
        state = workspace.state
        self._scan(rows, workspace)
        if isinstance(self.plan.root, Support):
            state[layout.Z_SINK] = layout.SUPPORT
            state[layout.Z_BATCH] = min(SUPPORT_BATCH, workspace.batch)
        else:
            assert effect is not None
            set_effect(state, effect)
            state[layout.Z_NOTING] = self.bookkeeping.marks.kind
        state[layout.Z_COUNTERS] = COUNTED[self.bookkeeping.counters]
        state[layout.Z_BUDGET] = limits.budget()
        while True:
            request = int(
                run_plan(catalog.descriptors, catalog.indexes, catalog.dictionary.words, self.words, 0, state)
            )
            if request == layout.DONE:
                break
            self._serve(request, workspace)
        return PlanOutcome(
            int(state[layout.Z_MATCHES]), int(state[layout.Z_NEW]), int(state[layout.Z_NO_VALUE])
        )

    def _scan(self, rows: RowNumbers | None, workspace: Workspace) -> None:
        state = workspace.state
        if rows is not None:
            state[layout.Z_LIST] = rows.ctypes.data
            workspace.scan(0, len(rows))
        elif self.assembled.pivot is None:
            workspace.scan(0, 1)
        else:
            workspace.scan(0, len(self.catalog.tables[self.assembled.pivot]))

    def _serve(self, request: int, workspace: Workspace) -> None:
        """Serve the request of a kernel."""
        catalog, limits = self.catalog, self.workers.limits
        state = workspace.state
        new_facts = int(state[layout.Z_OUT_COUNT]) if state[layout.Z_CREATE] else 0
        if request == layout.GROW_TABLE:
            catalog.table(self.plan.relation).reserve(BATCH, len(catalog.dictionary))
        elif request == layout.GROW_DICTIONARY:
            catalog.dictionary.grow(BATCH)
        elif request == layout.GROW_LISTS:
            self.buffers.reserve(BATCH * 4)
        elif request == layout.EVALUATE:
            level = int(state[layout.Z_LEVEL])
            rows = int(state[layout.Z_ROWS + level - 1])
            self.python[level].fill(workspace, level - 1, rows, self.assembled.width)
        else:
            state[layout.Z_BUDGET] = limits.budget(new_facts)
        limits.check(new_facts)


def set_effect(state: npt.NDArray[np.int64], effect: Effect) -> None:
    """Write the effect into the state that kernels read."""
    state[layout.Z_SINK] = layout.APPLY
    state[layout.Z_MASK] = effect.where.mask
    state[layout.Z_WANT] = effect.where.want
    state[layout.Z_SET] = effect.set
    state[layout.Z_CREATE] = effect.create
    state[layout.Z_STEP] = effect.count
    state[layout.Z_UNFOUNDED] = effect.unfounded
    state[layout.Z_ROLE] = effect.role
