"""Run assembled plans, and serve the requests of kernels. Mutable.

A kernel returns when it cannot go on: when a table or the dictionary must grow, or Python must compute a
function or check the limits. With several threads a plan runs in turns: first all threads match and hand each
head row to the thread that owns its slot in the set, then each inserts what it owns. Threads never write to
the same memory, and the outcome does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.assemble import Assembled
from tidelog.engine.columnar.interpreter.column_functions import PythonFunction
from tidelog.engine.columnar.interpreter.head_kernels import close_gaps, insert_emitted
from tidelog.engine.columnar.interpreter.interpreter import run_plan
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.events import NOTHING, PlanOutcome
from tidelog.engine.interrupts import ActiveLimits
from tidelog.errors import Span
from tidelog.plan.algebra import ANSWERS, Part

BATCH = 4096
LEAST_BATCH = 16
MOST_ROOM = 1 << 26  # ids in the batches of a thread, unless they would be smaller than the least
PARALLEL_FROM = 8192  # scanned rows that are worth waking other threads for
EMITTED_ROWS = 1 << 20  # rows that two threads buffer for each owner; in longer turns threads wait less
APPENDED_FROM = 8192  # scanned rows for which it is worth finding out that heads do not repeat
BLOCK = 256  # rows that a thread writes next to each other
MOST_THREADS = 16

Words = npt.NDArray[np.int64]


class Workspace:
    """The batches and the state of one thread."""

    def __init__(self) -> None:
        self.state = np.zeros(layout.Z_SIZE, np.int64)
        self.batch = BATCH
        self.left = np.zeros(self.batch, np.int32)
        self.right = np.zeros(self.batch, np.int32)
        self.result = np.zeros(self.batch, np.int32)
        self.buffer = np.zeros(0, np.int32)
        self.emitted = np.zeros(MOST_THREADS, np.int64)
        self.rows = np.zeros(0, np.int32)  # emitted rows, owner by owner
        state = self.state
        state[layout.Z_BATCH] = self.batch
        state[layout.Z_LEFT] = self.left.ctypes.data
        state[layout.Z_RIGHT] = self.right.ctypes.data
        state[layout.Z_RESULT] = self.result.ctypes.data
        state[layout.Z_EMITTED] = self.emitted.ctypes.data

    def fit(self, plan: Assembled) -> None:
        """Make room for the plan's batches and forget the last plan's state."""
        self.make_room(plan.steps, plan.width)
        state = self.state
        state[layout.Z_RUNNING] = 0
        state[layout.Z_WIDTH] = plan.width
        state[layout.Z_SINK] = layout.INSERT
        state[layout.Z_LIST] = 0
        state[layout.Z_BATCH] = self.batch
        state[layout.Z_MATCHES] = 0
        state[layout.Z_NEW] = 0
        state[layout.Z_NO_VALUE] = 0

    def make_room(self, steps: int, width: int) -> None:
        """Make room for batches of `width` columns for `steps` steps; those of long bodies are smaller.

        A batch never grows: other arrays have its length, and cached plans have room for it.
        """
        self.batch = min(self.batch, max(LEAST_BATCH, MOST_ROOM // (steps * width)))
        self.state[layout.Z_BATCH] = self.batch
        size = steps * width * self.batch
        if len(self.buffer) < size:
            self.buffer = np.zeros(size, np.int32)
            self.state[layout.Z_BUFFER] = self.buffer.ctypes.data

    def emit_to(self, owners: int, arity: int) -> None:
        """Hand head rows to the threads that own them instead of inserting them."""
        # Buffers for every pair of threads: the more threads, the smaller each.
        capacity = max(EMITTED_ROWS * 4 // owners**2, BATCH)
        size = owners * capacity * max(arity, 1)
        if len(self.rows) < size:
            self.rows = np.empty(size, np.int32)
        state = self.state
        state[layout.Z_SINK] = layout.EMIT
        state[layout.Z_PARTS] = owners
        state[layout.Z_EMIT] = self.rows.ctypes.data
        state[layout.Z_EMIT_CAPACITY] = capacity
        self.emitted[:] = 0

    def own(self, part: int, base: int) -> None:
        """Insert rows of this partition at once, into the thread's own blocks from `base` on."""
        state = self.state
        state[layout.Z_OWN] = part
        state[layout.Z_BASE] = base
        state[layout.Z_NEXT] = base + BLOCK * part
        state[layout.Z_BLOCK] = BLOCK

    def scan(self, first: int, count: int) -> None:
        """Set the rows that the plan's first step reads."""
        self.state[layout.Z_FIRST] = first
        self.state[layout.Z_COUNT] = count

    def column(self, level: int, number: int, width: int) -> npt.NDArray[np.int32]:
        """Return a column of a level's batch."""
        batch = int(self.state[layout.Z_BATCH])
        start = (level * width + number) * batch
        return self.buffer[start : start + batch]


class Workers:
    """The threads that run plans, a workspace for each, and the limits on their work."""

    def __init__(self, threads: int, limits: ActiveLimits) -> None:
        self.threads = threads
        self.limits = limits
        self.workspaces = [Workspace() for _ in range(threads)]
        self.pool = ThreadPoolExecutor(max(1, threads - 1))  # starts no thread before it has work

    @property
    def state(self) -> Words:
        """The state of the first workspace, which all plans over changes share."""
        return self.workspaces[0].state

    @property
    def dropped(self) -> int:
        """How many rows were ever dropped because a function or an aggregate had no value."""
        return sum(int(workspace.state[layout.Z_DROPPED]) for workspace in self.workspaces)

    def add_dropped(self, groups: int) -> None:
        """Count groups that were dropped because an aggregate had no value."""
        self.state[layout.Z_DROPPED] += groups


class Runner:
    """A plan that can be run any number of times."""

    def __init__(
        self, plan: Assembled, catalog: Catalog, workers: Workers, head: Table, span: Span | None
    ) -> None:
        self.plan = plan
        self.span = span  # of its rule
        self.catalog = catalog
        self.workers = workers
        self.limits = workers.limits
        self.head = head
        self.words = np.array(plan.words, np.int64)
        self.indexes = [catalog.index(number) for number in plan.indexes]
        self.constants = _scanned_constants(self.words)
        self.python = {
            level: PythonFunction(step, catalog.dictionary, workers.limits)
            for level, step in plan.python.items()
        }
        self.are_answers = head.name == ANSWERS
        self.is_counted = " #" not in head.name  # rows collected for an aggregate are no facts
        self.finds_each_once: Callable[[], bool] | None = None  # whether heads do not repeat, if it matters

    def __call__(self) -> PlanOutcome:
        first, count = self._scanned()
        if count == 0:
            return NOTHING
        # Indexes follow their tables when they are used: one that no plan uses any more costs nothing.
        if self.catalog.incomplete:
            self.complete_sets()
        if any(index.is_behind for index in self.indexes):
            if self._is_idle(first, count):
                return NOTHING
            for index in self.indexes:
                index.update(len(self.catalog.dictionary))
        threads = min(self.workers.threads, MOST_THREADS)
        if threads > 1 and count >= PARALLEL_FROM and not self.python and self.head.arity:
            return ParallelRun(self, threads).run(first, count)
        return self._run_alone(first, count)

    def complete_sets(self) -> None:
        """Build the sets of rows that the plan looks up facts in, if they are missing."""
        for number in self.plan.looked_up:
            self.catalog.tables[number].complete(self.limits.check)

    def _scanned(self) -> tuple[int, int]:
        """Return the first of the rows that the first step reads, and their number."""
        if self.plan.pivot is None:
            return 0, 1
        words = self.catalog.descriptors[self.plan.pivot]
        old, current = int(words[layout.OLD_END]), int(words[layout.CURRENT_END])
        match self.plan.part:
            case Part.NEW:
                return old, current - old
            case Part.OLD:
                return 0, old
            case _:
                return 0, current

    def _is_idle(self, first: int, count: int) -> bool:
        """Return whether no row to scan has the constants that the first step requires."""
        if self.plan.pivot is None or not self.constants:
            return False
        columns = self.catalog.tables[self.plan.pivot].columns
        passed = np.ones(count, bool)
        for column, identity in self.constants:
            passed &= columns[column][first : first + count] == identity
        return not passed.any()

    def _run_alone(self, first: int, count: int) -> PlanOutcome:
        workspace = self.workers.workspaces[0]
        workspace.fit(self.plan)
        workspace.scan(first, count)
        if not self._may_append(count):
            return self._run_to_end(workspace)
        self.catalog.incomplete.append(self.head)
        self.head.drop_set()
        workspace.state[layout.Z_SINK] = layout.APPEND
        try:
            return self._run_to_end(workspace)
        finally:
            self.head.constants = len(self.catalog.dictionary)

    def _run_to_end(self, workspace: Workspace) -> PlanOutcome:
        state = workspace.state
        state[layout.Z_BUDGET] = self.budget(0)
        while (request := self.step(workspace)) != layout.DONE:
            self.serve(int(request), workspace, int(state[layout.Z_NEW]))
        return PlanOutcome(
            int(state[layout.Z_MATCHES]), int(state[layout.Z_NEW]), int(state[layout.Z_NO_VALUE])
        )

    def _may_append(self, count: int) -> bool:
        """Return whether heads need not be compared: no two are alike, and there are no facts yet.

        The set of rows, which costs more than all else, is then built when facts are first looked up.
        """
        if self.finds_each_once is None or count < APPENDED_FROM or len(self.head) or not self.head.arity:
            return False
        return self.finds_each_once()

    def budget(self, found: int) -> int:
        """Return how many matches may be read before the next check, this run having found `found` facts."""
        return self.limits.budget(found if self.is_counted else 0, self.are_answers)

    def check(self, found: int) -> None:
        """Raise if a limit is reached, this run having found `found` facts."""
        self.limits.check(found if self.is_counted else 0, self.are_answers)

    def step(self, workspace: Workspace) -> Any:
        """Run until the plan is done or requests something; return which."""
        catalog = self.catalog
        return run_plan(
            catalog.descriptors, catalog.indexes, catalog.dictionary.words, self.words, 0, workspace.state
        )

    def serve(self, request: int, workspace: Workspace, found: int) -> None:
        """Do what a kernel requests, which has found `found` facts so far."""
        if request == layout.GROW_TABLE and workspace.state[layout.Z_SINK] == layout.APPEND:
            self.head.make_room(BATCH)
        elif request == layout.GROW_TABLE:
            self.head.reserve(BATCH, len(self.catalog.dictionary))
        elif request == layout.GROW_DICTIONARY:
            self.catalog.dictionary.grow(BATCH)
        elif request == layout.EVALUATE:
            level = int(workspace.state[layout.Z_LEVEL])
            rows = int(workspace.state[layout.Z_ROWS + level - 1])
            self.python[level].fill(workspace, level - 1, rows, self.plan.width)
        else:
            workspace.state[layout.Z_BUDGET] = self.budget(found)
        self.check(found)


def _scanned_constants(words: Words) -> list[tuple[int, int]]:
    """Return the columns in which the first step of a plan requires an id, and these ids."""
    step = words[words[layout.P_OFFSETS] :]
    if step[layout.S_KIND] != layout.SCAN:
        return []
    checks = step[layout.S_LISTS : layout.S_LISTS + 2 * step[layout.S_KEYS]].reshape(-1, 2)
    return [(int(column), -1 - int(wanted)) for column, wanted in checks if wanted < 0]


class ParallelRun:
    """One run of a plan on several threads, in turns of matching and inserting."""

    def __init__(self, runner: Runner, threads: int) -> None:
        self.runner = runner
        self.threads = threads
        self.head = runner.head
        self.workspaces = runner.workers.workspaces[:threads]
        self.waiting: list[tuple[int, int]] = []
        self.suspended = [False] * threads

    def run(self, first: int, count: int) -> PlanOutcome:
        """Match all scanned rows and insert the heads."""
        head = self.head
        head.reserve(max(BATCH, BLOCK * self.threads), len(self.runner.catalog.dictionary))
        head.reserve_segments()
        size = max(count // (8 * self.threads), 1024)
        self.waiting = [
            (start, min(size, first + count - start)) for start in range(first, first + count, size)
        ]
        base = len(head)
        for thread, workspace in enumerate(self.workspaces):
            workspace.fit(self.runner.plan)
            workspace.emit_to(self.threads, head.arity)
            workspace.own(thread, base)
        while self.waiting or any(self.suspended):
            budget = self.runner.budget(self._found(base)) // self.threads
            self._together(lambda thread: self._match(thread, budget))  # noqa: B023 - it does not outlive it
            self._reserve(base)
            self._together(lambda owner: self._insert(owner, base))
            for workspace in self.workspaces:
                workspace.emitted[:] = 0
            self.runner.check(self._found(base))
        close_gaps(head.descriptors, head.number, base, self._nexts(), BLOCK)
        matches, no_value = (
            sum(int(workspace.state[word]) for workspace in self.workspaces)
            for word in (layout.Z_MATCHES, layout.Z_NO_VALUE)
        )
        return PlanOutcome(matches, len(head) - base, no_value)

    def _nexts(self) -> Words:
        """Return the next row that each thread may write."""
        return np.array([workspace.state[layout.Z_NEXT] for workspace in self.workspaces])

    def _together(self, work: Callable[[int], Any]) -> list[Any]:
        """Run work on each thread, this one included; return the results."""
        others = [self.runner.workers.pool.submit(work, thread) for thread in range(1, self.threads)]
        try:
            first = work(0)
        finally:
            wait(others)  # whatever happens, no thread is at work when this returns
        return [first, *(other.result() for other in others)]

    def _found(self, base: int) -> int:
        """Return how many facts have been inserted, in blocks that the threads take in turn."""
        full, within = np.divmod(self._nexts() - base, BLOCK * self.threads)
        return int((full * BLOCK + within - BLOCK * np.arange(self.threads)).sum())

    def _match(self, thread: int, budget: int) -> None:
        """Match until a buffer is full or no rows are left."""
        workspace = self.workspaces[thread]
        state = workspace.state
        state[layout.Z_BUDGET] = budget
        while True:
            if not self.suspended[thread]:
                try:
                    workspace.scan(*self.waiting.pop(0))
                except IndexError:
                    return
            request = self.runner.step(workspace)
            self.suspended[thread] = request != layout.DONE
            if self.suspended[thread]:
                return

    def _reserve(self, base: int) -> None:
        """Make room for all emitted rows, of all owners, and for some batches of the next turn."""
        nexts = self._nexts()
        most = max(
            int(nexts[owner])
            + self.threads * (sum(int(w.emitted[owner]) for w in self.workspaces) + 4 * (BATCH + BLOCK))
            for owner in range(self.threads)
        )
        words = self.head.words
        words[layout.ROWS] = int(nexts.max())  # rows beyond the base have been written too
        try:
            self.head.reserve(most - int(nexts.max()), 0)
        finally:
            words[layout.ROWS] = base

    def _insert(self, owner: int, base: int) -> None:
        """Insert the rows that a thread owns and others have matched."""
        head = self.head
        state = self.workspaces[owner].state
        for workspace in self.workspaces:
            count = int(workspace.emitted[owner])
            capacity = int(workspace.state[layout.Z_EMIT_CAPACITY])
            address = workspace.rows.ctypes.data + 4 * owner * capacity * head.arity
            if count:
                state[layout.Z_NEXT] = insert_emitted(
                    head.descriptors,
                    head.number,
                    address,
                    count,
                    base,
                    int(state[layout.Z_NEXT]),
                    BLOCK,
                    self.threads,
                )
