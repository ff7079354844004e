"""Closures computed by structures instead of rules, and the external pairs that they close. Mutable.

A closure has *external* pairs, those that facts and other rules derive, and owns the pairs that a rule of
transitivity, or one of symmetry and one of transitivity, derive from them. It returns exactly the pairs that
were inserted and deleted. The cost is that of the changes, while rules pay for each instance: n³ in a clique.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, describes the problem; Italiano: Amortized Efficiency of a Path Retrieval
Data Structure, Theoretical Computer Science 1986, for rows of reached nodes.

Invariant: the pairs are the closure of the external pairs, before and after each call. External pairs are a
set: to add one that exists, or delete one that does not, changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.engine.columnar.closures import closure_kernels, reach_kernels
from tidelog.engine.columnar.closures import closure_kernels as kernels
from tidelog.records import dataclass

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
    """Return two columns for `count` pairs."""
    return memory.empty(count, np.int32), memory.empty(count, np.int32)


@dataclass(slots=True)
class PairChange:
    """One call within a transaction: external pairs inserted or deleted, and its effect once it has ended."""

    added: bool
    external: Pairs
    effect: Any = None


class ExternalPairs(ABC):
    """The external pairs of a closure, their nodes numbered, and the journal of a transaction."""

    def __init__(self, vectors: int = kernels.OWN_VECTORS) -> None:
        self.words = np.zeros(kernels.C_SIZE, np.int64)
        self.vectors = np.zeros((vectors, 0), np.int32)
        self.pools = [NOTHING, NOTHING]
        self.journal: list[PairChange] | None = None
        self.count = 0
        self.check: Check = proceed  # called while pairs are written, with the number of new ones so far
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
        """The number of external pairs."""
        return int(self.words[kernels.EDGES])

    @property
    def bytes(self) -> int:
        """The memory it takes."""
        pools = sum(pool.nbytes for pool in self.pools)
        return self.words.nbytes + self.vectors.nbytes + self.slots.nbytes + pools

    def externals(self) -> Pairs:
        """Return the external pairs."""
        left, right = columns(self.edges)
        kernels.write_externals(self.words, left, right)
        return left, right

    def fill(self, left: Ids, right: Ids) -> None:
        """Insert external pairs into an empty closure, without reporting which pairs became true."""
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
        """End the transaction, and restore external pairs and closure as they were when it began."""
        changes, self.journal = self.journal or [], None
        for change in reversed(changes):
            if change.added:
                self._remove(*change.external)
            else:
                self._enter(*change.external, proceed)  # cannot be interrupted
        self._undo(changes)

    @abstractmethod
    def _undo(self, changes: list[PairChange]) -> None:
        """Restore the closure of the external pairs, which are already those before the changes."""

    def _note(self, added: bool, sources: Ids, targets: Ids) -> None:
        """Enter into the journal, if there is one, that external pairs were inserted or deleted."""
        if self.journal is not None:
            ids = self.vectors[kernels.IDS]
            self.journal.append(PairChange(added, (ids[sources], ids[targets])))

    def _note_effect(self, effect: Any) -> None:
        """Complete the latest entry of the journal with the data that undoes the change of the closure."""
        if self.journal is not None:
            self.journal[-1].effect = effect

    # ---- external pairs

    def _enter(self, left: Ids, right: Ids, check: Check) -> Pairs:
        """Enter pairs of ids; return the numbers of those that are new."""
        sources, targets = columns(len(left))
        words = self.words
        words[kernels.KEPT] = done = 0
        try:
            while done < len(left):
                end = min(done + ENTERED, len(left))
                while (done := kernels.add_pairs(words, left, right, done, end, sources, targets)) < end:
                    self._grow()
                check(0)
        finally:  # also if memory is exhausted: the journal has the pairs entered until then
            entered = words[kernels.KEPT]
            self._note(True, sources[:entered], targets[:entered])
        return sources[:entered], targets[:entered]

    def _remove(self, left: Ids, right: Ids) -> Pairs:
        """Remove pairs of ids; return the numbers of those that existed."""
        sources, targets = columns(len(left))
        removed = kernels.remove_pairs(self.words, left, right, sources, targets)
        self._note(False, sources[:removed], targets[:removed])
        return sources[:removed], targets[:removed]

    # ---- growing

    def _grow(self) -> None:
        """Make room for nodes, or else for pairs."""
        if self.nodes + 2 > self.vectors.shape[1]:
            self._make_vectors(2 * self.vectors.shape[1])
        else:
            self._grow_pools()

    def _make_vectors(self, capacity: int) -> None:
        """Allocate larger vectors, and slots that stay half empty."""
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
        """Renumber the nodes if they have doubled since the last time and most have no pairs."""
        if self.nodes < 2 * self.tidied:
            return
        self.tidied = self.nodes
        if 2 * kernels.count_idle(self.words) > self.nodes:
            rebuilt = type(self)()
            rebuilt.check = self.check
            rebuilt.fill(*self.externals())
            self.__dict__ = rebuilt.__dict__

    @abstractmethod
    def _refresh(self, check: Check) -> None:
        """Write the whole closure again, from the external pairs."""

    def _forget_nodes(self, most: int) -> None:
        """Remove the nodes numbered last, which have no pairs, until at most `most` remain."""
        self.words[kernels.NODES] = min(self.nodes, most)
        self.slots[:] = 0
        kernels.enter_nodes(self.words)

    def _begin_vectors(self, vectors: npt.NDArray[np.int32], used: int) -> None:  # noqa: B027 – often nothing
        """Initialise vectors of future nodes that are not 0."""

    def _grow_pools(self) -> None:
        """Allocate larger pools for the lists that are short of room."""
        for side, pool in enumerate(self.pools):
            base = kernels.ABREAST * side
            top = int(self.words[kernels.POOL_TOP + base])
            # A moved list gets twice its length, and none is longer than the number of pairs.
            larger = memory.grown(pool, top, max(FIRST_POOL, 2 * len(pool), top + 2 * self.edges))
            self.pools[side] = larger
            self.words[kernels.POOL + base] = larger.ctypes.data
            self.words[kernels.POOL_CAPACITY + base] = len(larger)


def proceed(count: int) -> None:
    """The check without a limit."""


MOST_MATRIX_BYTES = 256 << 20
BYTES_PER_PAIR = 1 << 11  # a matrix much larger than its pairs is mostly empty: rules need less
FEW_PAIRS = 1 << 12  # a matrix for so many pairs is always allowed
SEARCHES = 4  # how often searches after a deletion may read each pair, before they are given up
FEW_COLUMNS = 64  # nodes that a deletion may lose before rows are written again

Words = npt.NDArray[np.int64]
NO_WORDS: Words = np.empty(0, np.int64)


class TransitiveClosure(ExternalPairs):
    """All (x, z) that a path of one or more external pairs leads from x to z.

    >>> closure = TransitiveClosure()
    >>> left, right = closure.add(np.array([1, 2], np.int32), np.array([2, 3], np.int32))
    >>> sorted(zip(left.tolist(), right.tolist()))
    [(1, 2), (1, 3), (2, 3)]
    >>> left, right = closure.delete(np.array([2], np.int32), np.array([3], np.int32))
    >>> sorted(zip(left.tolist(), right.tolist()))
    [(1, 3), (2, 3)]
    """

    def __init__(self) -> None:
        self.matrix = NO_WORDS.reshape(0, 0)
        self.total = NO_WORDS
        super().__init__(reach_kernels.VECTOR_COUNT)

    @staticmethod
    def fits(nodes: int, edges: int) -> bool:
        """Whether a graph of this size is for this structure: its matrix has a bit per pair of nodes."""
        size = nodes * nodes // 8
        return size <= MOST_MATRIX_BYTES and size <= BYTES_PER_PAIR * max(edges, FEW_PAIRS)

    @property
    def bytes(self) -> int:
        """The memory it takes."""
        return super().bytes + self.matrix.nbytes + self.total.nbytes

    def add(self, left: Ids, right: Ids) -> Pairs:
        """Add external pairs; return the pairs that became true."""
        sources, targets = self._enter(left, right, self.check)
        self._fit_matrix()
        missing = len(sources)
        if self.count:
            missing = reach_kernels.keep_missing(self.words, sources, targets, missing)
        if missing == 0:
            gained = NO_PAIRS
        elif missing <= self._most_single():
            gained = self._extend_each(sources[:missing], targets[:missing])
        else:
            gained = self._rewrite(sources[:missing])
        self.count += len(gained[0])
        self._note_effect(gained)
        return gained

    def delete(self, left: Ids, right: Ids) -> Pairs:
        """Delete external pairs; return the pairs that ceased to be true."""
        sources, targets = self._remove(left, right)
        budget = SEARCHES * (self.edges + self.nodes)
        broken = reach_kernels.keep_broken(self.words, sources, targets, len(sources), budget)
        lost = NO_PAIRS if broken == 0 else self._break(sources[:broken], targets[:broken])
        self.count -= len(lost[0])
        self._note_effect(lost)
        return lost

    def pairs(self) -> Pairs:
        """Return all pairs of the closure."""
        listed = reach_kernels.list_all(self.words)
        return self._written(reach_kernels.write_gained, listed, NO_WORDS, self.count, are_new=False)

    def contains(self, left: Ids, right: Ids) -> npt.NDArray[np.bool_]:
        """Return for each pair whether it is in the closure."""
        is_contained = np.empty(len(left), np.bool_)
        reach_kernels.contains_pairs(self.words, left, right, is_contained)
        return is_contained

    # ---- changing rows

    def _most_single(self) -> int:
        """Return how many pairs are added one by one, each at most a pass over the nodes."""
        return 4 + 4 * self.edges // self.nodes + self.matrix.shape[1]

    def _extend_each(self, sources: Ids, targets: Ids) -> Pairs:
        """Add pairs one by one to the rows; return the inserted pairs."""
        steps: list[Pairs] = []
        gained = 0  # pairs of the steps before
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
            steps.append(self._extend(source, target, gained))
            gained += len(steps[-1][0])
        return steps[0] if len(steps) == 1 else _joined(steps)

    def _extend(self, source: int, target: int, gained_before: int) -> Pairs:
        """Add one pair to the rows; return the inserted pairs."""
        listed, gained, low, high = reach_kernels.extend(self.words, source, target)
        self.check(gained_before + gained)
        if gained == 0:
            return NO_PAIRS
        left, right = columns(gained)
        position = count = 0
        while position < listed:
            position, count = reach_kernels.write_extended(
                self.words, listed, low, high, left, right, position, count, count + PART
            )
            self.check(gained_before + count)
        return left, right

    def _rewrite(self, sources: Ids) -> Pairs:
        """Add many pairs by rewriting all rows that reach their sources; return the inserted pairs."""
        listed, old_words, _ = reach_kernels.list_reaching(self.words, sources, len(sources))
        old = memory.empty(old_words, np.int64)
        gained, _ = self._recompute(listed, old, self.check)
        self.check(gained)
        return self._written(reach_kernels.write_gained, listed, old, gained, are_new=True)

    def _recompute(self, listed: int, old: Words, check: Check) -> tuple[int, int]:
        """Rewrite the listed rows, saving the old ones in `old`; count the pairs gained and lost."""
        reach_kernels.keep_rows(self.words, listed, old)
        reach_kernels.begin_closing(self.words, listed)
        index = visited = depth = top = 0
        while index < listed:
            index, visited, depth, top = reach_kernels.close_listed(
                self.words, listed, index, visited, depth, top, PART
            )
            check(0)
        gained, lost = reach_kernels.count_differences(self.words, listed, old)
        return gained, lost

    def _written(
        self, write: Callable[..., Any], listed: int, old: Words, pairs: int, are_new: bool
    ) -> Pairs:
        """Return the pairs in which the listed rows differ from the old ones, written by a kernel."""
        left, right = columns(pairs)
        index = offset = count = 0
        while index < listed:
            index, offset, count = write(
                self.words, listed, old, left, right, index, offset, count, count + PART
            )
            self.check(count if are_new else 0)
        return left, right

    def _break(self, sources: Ids, targets: Ids) -> Pairs:
        """Delete the pairs that depended on broken pairs; return them.

        Clear columns if few nodes are lost and searches for them are cheap; otherwise, and for the rest,
        rewrite the rows of all nodes that reached the sources.
        """
        words = self.words
        listed, old_words, pairs = reach_kernels.list_reaching(words, sources, len(sources))
        source = -1
        if len(sources) == 1 and _steps(old_words, pairs) > self.edges:
            # Two more searches limit the deleted pairs to few nodes.
            source = int(sources[0])
            listed, old_words, pairs = reach_kernels.keep_losing(words, listed, int(targets[0]))
        lost = reach_kernels.list_lost(words, targets, len(targets), source, FEW_COLUMNS)
        cleared, is_complete = NO_PAIRS, False
        if lost <= FEW_COLUMNS:
            left, right = columns(lost * listed)
            budget = _steps(old_words, pairs)
            count, is_complete = reach_kernels.clear_columns(words, listed, lost, budget, left, right)
            cleared = left[:count].copy(), right[:count].copy()
        if is_complete:
            return cleared
        old = memory.empty(old_words, np.int64)
        _, lost_pairs = self._recompute(listed, old, self.check)
        remaining = self._written(reach_kernels.write_lost, listed, old, lost_pairs, are_new=False)
        return _joined([cleared, remaining]) if len(cleared[0]) else remaining

    def _undo(self, changes: list[PairChange]) -> None:
        if any(change.effect is None for change in changes):  # the last call did not end
            self._forget_nodes(len(self.matrix))
            self._refresh(proceed)
            return
        for change in reversed(changes):
            reach_kernels.set_pairs(self.words, *change.effect, not change.added)
            self.count += -len(change.effect[0]) if change.added else len(change.effect[0])

    def _refresh(self, check: Check) -> None:
        self._fit_matrix()
        self.matrix[:] = 0
        self.vectors[[reach_kernels.FIRST, reach_kernels.END, reach_kernels.ORDER]] = 0
        listed = reach_kernels.list_all(self.words)
        self.count, _ = self._recompute(listed, NO_WORDS, check)

    # ---- growing

    def _fit_matrix(self) -> None:
        """Grow the matrix to a row and a bit for every node."""
        nodes = self.nodes
        rows, stride = self.matrix.shape
        if nodes <= rows:
            return
        stride_wanted = -(-(nodes + nodes // 4 if rows else nodes) // 64)
        matrix = memory.zeros(64 * stride_wanted * stride_wanted, np.int64).reshape(-1, stride_wanted)
        matrix[:rows, :stride] = self.matrix
        self.total = np.zeros(stride_wanted, np.int64)
        self.matrix = matrix
        self.words[kernels.MATRIX] = matrix.ctypes.data
        self.words[kernels.MATRIX_LENGTH] = matrix.size
        self.words[kernels.STRIDE] = stride_wanted
        self.words[kernels.TOTAL] = self.total.ctypes.data


class EquivalenceClosure(ExternalPairs):
    """All (x, y) that external pairs, taken both ways, connect; (x, x) for every x of an external pair.

    >>> closure = EquivalenceClosure()
    >>> left, right = closure.add(np.array([1, 2], np.int32), np.array([2, 2], np.int32))
    >>> sorted(zip(left.tolist(), right.tolist()))
    [(1, 1), (1, 2), (2, 1), (2, 2)]
    >>> left, right = closure.delete(np.array([1], np.int32), np.array([2], np.int32))
    >>> sorted(zip(left.tolist(), right.tolist()))
    [(1, 1), (1, 2), (2, 1)]
    """

    def __init__(self) -> None:
        super().__init__(closure_kernels.VECTOR_COUNT)

    @staticmethod
    def fits(nodes: int, edges: int) -> bool:
        """Whether a graph of this size is supported: always, since memory is linear in the pairs."""
        return True

    def add(self, left: Ids, right: Ids) -> Pairs:
        """Add external pairs; return the pairs that became true."""
        sources, targets = self._enter(left, right, self.check)
        gained = closure_kernels.merge(self.words, sources, targets, len(sources))
        self.check(gained)
        self.count += gained
        return self._write_changed(gained, are_new=True)

    def delete(self, left: Ids, right: Ids) -> Pairs:
        """Delete external pairs; return the pairs that ceased to be true."""
        sources, targets = self._remove(left, right)
        budget = SEARCHES * (self.edges + self.nodes)
        lost = closure_kernels.split(self.words, sources, targets, len(sources), budget)
        self.count -= lost
        return self._write_changed(lost, are_new=False)

    def pairs(self) -> Pairs:
        """Return all pairs of the closure."""
        left, right = columns(self.count)
        closure_kernels.write_pairs(self.words, left, right)
        return left, right

    def contains(self, left: Ids, right: Ids) -> npt.NDArray[np.bool_]:
        """Return for each pair whether it is in the closure."""
        is_contained = np.empty(len(left), np.bool_)
        closure_kernels.contains_pairs(self.words, left, right, is_contained)
        return is_contained

    def _write_changed(self, count: int, are_new: bool) -> Pairs:
        """Return the pairs that change, and enter the changed nodes into the journal."""
        if count == 0:
            self._note_effect(NOTHING)
            return NO_PAIRS
        if self.journal is not None:
            members = self.vectors[kernels.LISTED, : self.words[kernels.MEMBERS]]
            self._note_effect(self.vectors[kernels.IDS][members])
        left, right = columns(count)
        position = piece = group = written = 0
        while written < count:
            position, piece, group, written = closure_kernels.write_changed(
                self.words, left, right, position, piece, group, written, written + PART
            )
            self.check(written if are_new else 0)
        return left, right

    def _undo(self, changes: list[PairChange]) -> None:
        for change in changes:
            if change.effect is None:  # the last call was interrupted
                self._refresh(proceed)
                return
        closure_kernels.restore(self.words, np.concatenate([NOTHING, *(each.effect for each in changes)]))
        self.count = closure_kernels.count_pairs(self.words)

    def _refresh(self, check: Check) -> None:
        closure_kernels.restore(self.words, self.vectors[kernels.IDS, : self.nodes])
        self.count = closure_kernels.count_pairs(self.words)

    def _begin_vectors(self, vectors: npt.NDArray[np.int32], used: int) -> None:
        """Initialise each future node as a separate component."""
        nodes = np.arange(used, vectors.shape[1], dtype=np.int32)
        vectors[[closure_kernels.LABEL, closure_kernels.NEXT], used:] = nodes


def _steps(words: int, pairs: int) -> int:
    """Return the cost of rewriting rows of `words` words and `pairs` pairs, in steps of a search."""
    return 4 * pairs + words // 4


def _joined(steps: list[Pairs]) -> Pairs:
    """Return the pairs of all steps."""
    return np.concatenate([left for left, _ in steps]), np.concatenate([right for _, right in steps])
