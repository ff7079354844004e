"""External pairs of a closure, their nodes, and the journal of a transaction over them. Mutates itself.

Whatever kind of closure stands on them owns the memory here that kernels reach by address.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.engine.columnar import closure_kernels as kernels

Ids = npt.NDArray[np.int32]
Pairs = tuple[Ids, Ids]
Check = Callable[[int], None]

FIRST_NODES = 64
FIRST_POOL = 256
PART = 1 << 24  # pairs, or words of rows, that are written between two checks: a tenth of a second
ENTERED = 1 << 16  # pairs that are entered between two checks: each may be looked for in a long list

NOTHING: Ids = np.empty(0, np.int32)
NO_PAIRS: Pairs = (NOTHING, NOTHING)


def columns(count: int) -> Pairs:
    """Two columns for so many pairs."""
    return memory.empty(count, np.int32), memory.empty(count, np.int32)


@dataclass(slots=True)
class Change:
    """One call within a transaction: external pairs that came or went, and its effect, if it got so far."""

    added: bool
    external: Pairs
    effect: Any = None


class ExternalPairs(ABC):
    """The external pairs of a closure, their nodes numbered, and the journal of a transaction."""

    def __init__(self, vectors: int = kernels.OWN_VECTORS) -> None:
        self.words = np.zeros(kernels.C_SIZE, np.int64)
        self.vectors = np.zeros((vectors, 0), np.int32)
        self.pools = [NOTHING, NOTHING]
        self.journal: list[Change] | None = None
        self.count = 0
        self.check: Check = proceed  # told how many pairs come, and called while they are written
        self.tidied = FIRST_NODES
        self._make_vectors(FIRST_NODES)
        self._grow_pools()

    def __len__(self) -> int:
        """How many pairs the closure has."""
        return self.count

    @property
    def nodes(self) -> int:
        """How many nodes are numbered."""
        return int(self.words[kernels.NODES])

    @property
    def edges(self) -> int:
        """How many external pairs there are."""
        return int(self.words[kernels.EDGES])

    @property
    def bytes(self) -> int:
        """The memory it takes."""
        pools = sum(pool.nbytes for pool in self.pools)
        return self.words.nbytes + self.vectors.nbytes + self.slots.nbytes + pools

    def externals(self) -> Pairs:
        """The external pairs."""
        left, right = columns(self.edges)
        kernels.write_externals(self.words, left, right)
        return left, right

    def fill(self, left: Ids, right: Ids) -> None:
        """Let a closure without pairs have these external ones; nobody is told what became true."""
        self._enter(left, right, self.check)
        self._refresh(self.check)

    # ---- transactions

    def checkpoint(self) -> None:
        """Begin a transaction: from now on changes can be undone."""
        self._tidy()  # not later, because the journal is undone with the numbers it was kept with
        self.journal = []

    def commit(self) -> None:
        """End the transaction and keep its changes."""
        self.journal = None

    def roll_back(self) -> None:
        """End the transaction, and let external pairs and closure be what they were when it began."""
        changes, self.journal = self.journal or [], None
        for change in reversed(changes):
            if change.added:
                self._remove(*change.external)
            else:
                self._enter(*change.external, proceed)  # nothing stops it
        self._undo(changes)

    @abstractmethod
    def _undo(self, changes: list[Change]) -> None:
        """Let the closure fit the external pairs, which are those before the changes."""

    def _note(self, added: bool, sources: Ids, targets: Ids) -> None:
        """Enter into the journal, if one is kept, that external pairs have come or gone."""
        if self.journal is not None:
            ids = self.vectors[kernels.IDS]
            self.journal.append(Change(added, (ids[sources], ids[targets])))

    def _note_effect(self, effect: Any) -> None:
        """Complete the latest entry of the journal: what undoes the change of the closure."""
        if self.journal is not None:
            self.journal[-1].effect = effect

    # ---- external pairs

    def _enter(self, left: Ids, right: Ids, check: Check) -> Pairs:
        """Enter pairs of ids; the numbers of those that are new."""
        sources, targets = columns(len(left))
        words = self.words
        words[kernels.KEPT] = done = 0
        try:
            while done < len(left):
                end = min(done + ENTERED, len(left))
                while (done := kernels.add_pairs(words, left, right, done, end, sources, targets)) < end:
                    self._grow()
                check(0)
        finally:  # also for a lack of memory: the journal knows what was entered until then
            kept = words[kernels.KEPT]
            self._note(True, sources[:kept], targets[:kept])
        return sources[:kept], targets[:kept]

    def _remove(self, left: Ids, right: Ids) -> Pairs:
        """Remove pairs of ids; the numbers of those that were there."""
        sources, targets = columns(len(left))
        kept = kernels.remove_pairs(self.words, left, right, sources, targets)
        self._note(False, sources[:kept], targets[:kept])
        return sources[:kept], targets[:kept]

    # ---- growing

    def _grow(self) -> None:
        """Make room for nodes, or else for pairs."""
        if self.nodes + 2 > self.vectors.shape[1]:
            self._make_vectors(2 * self.vectors.shape[1])
        else:
            self._grow_pools()

    def _make_vectors(self, capacity: int) -> None:
        """Larger vectors, and slots that stay half empty."""
        count, used = len(self.vectors), self.nodes
        vectors = memory.zeros(count * capacity, np.int32).reshape(count, capacity)
        vectors[:, :used] = self.vectors[:, :used]
        slots = memory.zeros(2 * capacity, np.int64)
        self._begin_vectors(vectors, used)
        self.vectors, self.slots = vectors, slots
        words = self.words
        words[kernels.CAPACITY] = capacity
        words[kernels.VECTORS] = vectors.ctypes.data
        words[kernels.SLOTS] = slots.ctypes.data
        words[kernels.SLOT_COUNT] = len(slots)
        words[kernels.SHIFT] = 64 - (len(slots).bit_length() - 1)
        if used:  # else a kernel need not be loaded
            kernels.enter_nodes(words)

    def _tidy(self) -> None:
        """Number the nodes anew if they have doubled since last time and most have no pair left."""
        if self.nodes < 2 * self.tidied:
            return
        self.tidied = self.nodes
        if 2 * kernels.count_idle(self.words) > self.nodes:
            fresh = type(self)()
            fresh.check = self.check
            fresh.fill(*self.externals())
            self.__dict__ = fresh.__dict__

    @abstractmethod
    def _refresh(self, check: Check) -> None:
        """Write the whole closure anew, from the external pairs."""

    def _forget_nodes(self, kept: int) -> None:
        """Forget the nodes numbered last, which have no pairs, until no more than `kept` are left."""
        self.words[kernels.NODES] = min(self.nodes, kept)
        self.slots[:] = 0
        kernels.enter_nodes(self.words)

    def _begin_vectors(self, vectors: npt.NDArray[np.int32], used: int) -> None:  # noqa: B027 – often nothing
        """Set what is not 0 for nodes to come."""

    def _grow_pools(self) -> None:
        """Larger pools for whichever lists are short of room."""
        for side, pool in enumerate(self.pools):
            base = kernels.ABREAST * side
            top = int(self.words[kernels.POOL_TOP + base])
            # A list that moves wants twice its length, and none is longer than there are pairs.
            larger = memory.grown(pool, top, max(FIRST_POOL, 2 * len(pool), top + 2 * self.edges))
            self.pools[side] = larger
            self.words[kernels.POOL + base] = larger.ctypes.data
            self.words[kernels.POOL_CAPACITY + base] = len(larger)


def proceed(count: int) -> None:
    """The check that never stops anything."""
