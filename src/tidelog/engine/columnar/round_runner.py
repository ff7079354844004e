"""Running many small plans at once: a round of rules, or all rounds, is one call of a kernel.

Mutates the engine's tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.round_kernels import E_TABLE, run_round, run_rounds
from tidelog.engine.columnar.runner import PARALLEL_FROM, Runner, Store
from tidelog.engine.protocol import Runnable
from tidelog.plan.algebra import Part

FIRST_WORDS = 1 << 12
MOST_WORDS, MOST_BATCHES = 1 << 20, 1 << 10  # that are kept: some are of plans that nobody has any more

Words = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """What the kernel must know of plans that run together."""

    entries: Words
    indexes: Words  # the numbers of their indexes, plan after plan
    pivots: Words  # the tables that drive them


class RoundRunner:
    """Plans that run together: their words, and where each begins."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._words: Words = memory.zeros(FIRST_WORDS, np.int64)
        self._used = 0
        self._places: dict[Runner, int] = {}
        self._batches: dict[tuple[Runnable, ...], Batch | None] = {}

    def run(self, prepared: Sequence[Runnable]) -> list[int]:
        """Run what is ready to run, in turn; how many new facts each has found."""
        batch = self._known(tuple(prepared))
        if batch is None or self._is_worth_threads(batch):
            return [ready().new for ready in prepared]
        return self._run(cast("Sequence[Runner]", prepared), batch)

    def run_to_end(self, prepared: Sequence[Runnable], tables: Words) -> bool:
        """Run rounds until nothing is new of the tables; whether it can, else nothing is done."""
        batch = self._known(tuple(prepared))
        if batch is None:
            return False
        self._run(cast("Sequence[Runner]", prepared), batch, tables)
        return True

    def _known(self, key: tuple[Runnable, ...]) -> Batch | None:
        """What the kernel must know of plans; None if it cannot run one of them."""
        if key not in self._batches:
            self._batches[key] = self._batch(key)
        return self._batches[key]

    def _forget(self) -> None:
        """Let nothing be kept of any plan: some are no longer there."""
        self._places, self._batches, self._used = {}, {}, 0

    def _is_worth_threads(self, batch: Batch) -> bool:
        """Whether there are several threads, and rows enough for them."""
        words, pivots = self._store.descriptors, batch.pivots
        new = words[pivots, layout.CURRENT_END] - words[pivots, layout.OLD_END]
        return self._store.threads > 1 and bool(new.max() >= PARALLEL_FROM)

    def _batch(self, prepared: Sequence[Runnable]) -> Batch | None:
        """The same, found out."""
        if len(self._batches) >= MOST_BATCHES or self._used > MOST_WORDS:
            self._forget()
        workspace = self._store.workspaces[0]
        entries: list[tuple[int, ...]] = []
        indexes: list[int] = []
        for runner in prepared:
            if not isinstance(runner, Runner) or runner.plan.part is not Part.NEW:
                return None
            plan = runner.plan
            assert plan.pivot is not None
            workspace.make_room(plan.steps, plan.width)
            entries.append((self._place(runner), plan.pivot, plan.width, len(indexes), len(plan.indexes)))
            indexes += plan.indexes
        pivots = {entry[E_TABLE] for entry in entries}
        return Batch(*(np.array(list(some), np.int64) for some in (entries, indexes, pivots)))

    def _place(self, runner: Runner) -> int:
        """Where the words of a plan begin."""
        known = self._places.get(runner)
        if known is not None:
            return known
        words, begin = runner.words, self._used
        if begin + len(words) > len(self._words):
            self._words = memory.grown(self._words, begin, 2 * (begin + len(words)))
        self._words[begin : begin + len(words)] = words
        self._used += len(words)
        self._places[runner] = begin
        return begin

    def _run(self, runners: Sequence[Runner], batch: Batch, tables: Words | None = None) -> list[int]:
        """Run plans once, or if there are tables, until nothing is new of these."""
        store = self._store
        workspace = store.workspaces[0]
        state = workspace.state
        news = np.zeros(len(runners), np.int64)
        state[layout.Z_NUMBER] = 0 if tables is None else len(runners)
        state[layout.Z_RUNNING] = 0
        state[layout.Z_BATCH] = workspace.batch
        heads = np.unique([runner.head.number for runner in runners])
        before = self._rows(heads)
        state[layout.Z_BUDGET] = store.budget()
        while True:
            known = store.descriptors, store.indexes, store.dictionary.words
            plans = self._words, batch.entries, batch.indexes
            if tables is None:
                wish = run_round(*known, *plans, news, state)
            else:
                wish = run_rounds(*known, *plans, tables, news, state)
            if wish == layout.DONE:
                found: list[int] = news.tolist()
                return found
            if wish == layout.GROW_INDEX:
                store.index(int(state[layout.Z_WISH])).update(len(store.dictionary))
            else:
                new = self._rows(heads) - before
                runners[int(state[layout.Z_NUMBER])].grant(int(wish), workspace, new)

    def _rows(self, tables: Words) -> int:
        """How many rows there are in tables."""
        return int(self._store.descriptors[tables, layout.ROWS].sum())
