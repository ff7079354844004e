"""Closures kept by structures of their own instead of by rules. Mutates itself.

A closure is given *external* pairs, those that facts and other rules derive, and owns what a rule of
transitivity, or one of symmetry and one of transitivity, make of them. It tells exactly which pairs became
true and which ceased to be. The cost is that of what changes, where rules pay for each instance: n³ in a
clique.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, names the problem; Italiano: Amortized Efficiency of a Path Retrieval Data
Structure, Theoretical Computer Science 1986, for rows of reached nodes.

Invariant: the pairs are the closure of the external pairs, before and after each call. External pairs are a
set: adding one that is there, or deleting one that is not, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.engine.columnar import closure_kernels as kernels
from tidelog.engine.columnar import component_kernels, reach_kernels, row_kernels
from tidelog.engine.columnar.external_pairs import (
    NO_PAIRS,
    NOTHING,
    PART,
    Change,
    Check,
    ExternalPairs,
    Ids,
    Pairs,
    columns,
    proceed,
)

MOST_MATRIX_BYTES = 256 << 20
BYTES_PER_PAIR = 1 << 11  # a matrix much larger than its pairs is mostly empty: rules need less
FEW_PAIRS = 1 << 12  # so few are never too few
SEARCHES = 4  # how often searches after a deletion may look at each pair, before they are given up
FEW_COLUMNS = 64  # nodes that a deletion may lose before rows are written anew

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
        """The pairs that became true by adding external pairs."""
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
        """The pairs that ceased to be true by deleting external pairs."""
        sources, targets = self._remove(left, right)
        budget = SEARCHES * (self.edges + self.nodes)
        broken = reach_kernels.keep_broken(self.words, sources, targets, len(sources), budget)
        lost = NO_PAIRS if broken == 0 else self._break(sources[:broken], targets[:broken])
        self.count -= len(lost[0])
        self._note_effect(lost)
        return lost

    def pairs(self) -> Pairs:
        """All pairs of the closure."""
        listed = row_kernels.list_all(self.words)
        return self._written(row_kernels.write_gained, listed, NO_WORDS, self.count, are_new=False)

    def contains(self, left: Ids, right: Ids) -> npt.NDArray[np.bool_]:
        """For each pair whether it is in the closure."""
        found = np.empty(len(left), np.bool_)
        reach_kernels.contains_pairs(self.words, left, right, found)
        return found

    # ---- changing rows

    def _most_single(self) -> int:
        """How many pairs are added one by one, each at most a pass over the nodes, and not in one search."""
        return 4 + 4 * self.edges // self.nodes + self.matrix.shape[1]

    def _extend_each(self, sources: Ids, targets: Ids) -> Pairs:
        """Add pairs one by one to the rows; what becomes true."""
        steps: list[Pairs] = []
        known = 0  # pairs of the steps before
        for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
            steps.append(self._extend(source, target, known))
            known += len(steps[-1][0])
        return steps[0] if len(steps) == 1 else _joined(steps)

    def _extend(self, source: int, target: int, known: int) -> Pairs:
        """Add one pair to the rows; what becomes true."""
        listed, gained, low, high = reach_kernels.extend(self.words, source, target)
        self.check(known + gained)
        if gained == 0:
            return NO_PAIRS
        left, right = columns(gained)
        place = count = 0
        while place < listed:
            place, count = reach_kernels.write_extended(
                self.words, listed, low, high, left, right, place, count, count + PART
            )
            self.check(known + count)
        return left, right

    def _rewrite(self, sources: Ids) -> Pairs:
        """Add many pairs by writing the rows of all that reach their sources anew; what becomes true."""
        listed, old_words, _ = row_kernels.list_reaching(self.words, sources, len(sources))
        old = memory.empty(old_words, np.int64)
        gained, _ = self._recompute(listed, old, self.check)
        self.check(gained)
        return self._written(row_kernels.write_gained, listed, old, gained, are_new=True)

    def _recompute(self, listed: int, old: Words, check: Check) -> tuple[int, int]:
        """Write the listed rows anew and the old ones into `old`; how many pairs are gained and lost."""
        row_kernels.keep_rows(self.words, listed, old)
        row_kernels.begin_closing(self.words, listed)
        index = visited = depth = top = 0
        while index < listed:
            index, visited, depth, top = row_kernels.close_listed(
                self.words, listed, index, visited, depth, top, PART
            )
            check(0)
        gained, lost = row_kernels.count_differences(self.words, listed, old)
        return gained, lost

    def _written(
        self, write: Callable[..., Any], listed: int, old: Words, pairs: int, are_new: bool
    ) -> Pairs:
        """The pairs, so many, in which the listed rows differ from the old ones, as a kernel writes them."""
        left, right = columns(pairs)
        index = offset = count = 0
        while index < listed:
            index, offset, count = write(
                self.words, listed, old, left, right, index, offset, count, count + PART
            )
            self.check(count if are_new else 0)
        return left, right

    def _break(self, sources: Ids, targets: Ids) -> Pairs:
        """Take what hung on broken pairs out of the rows; what ceases to be true.

        Column by column if few nodes are lost and searches for them are cheap, else, or for the rest, by
        writing the rows of all that reached the sources anew.
        """
        words = self.words
        listed, old_words, pairs = row_kernels.list_reaching(words, sources, len(sources))
        source = -1
        if len(sources) == 1 and _steps(old_words, pairs) > self.edges:
            # Two more searches, and the pairs that cease lie between few nodes.
            source = int(sources[0])
            listed, old_words, pairs = row_kernels.keep_losing(words, listed, int(targets[0]))
        lost = reach_kernels.list_lost(words, targets, len(targets), source, FEW_COLUMNS)
        cleared, done = NO_PAIRS, False
        if lost <= FEW_COLUMNS:
            left, right = columns(lost * listed)
            budget = _steps(old_words, pairs)
            count, done = reach_kernels.clear_columns(words, listed, lost, budget, left, right)
            cleared = left[:count].copy(), right[:count].copy()
        if done:
            return cleared
        old = memory.empty(old_words, np.int64)
        _, fewer = self._recompute(listed, old, self.check)
        rest = self._written(row_kernels.write_lost, listed, old, fewer, are_new=False)
        return _joined([cleared, rest]) if len(cleared[0]) else rest

    def _undo(self, changes: list[Change]) -> None:
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
        listed = row_kernels.list_all(self.words)
        self.count, _ = self._recompute(listed, NO_WORDS, check)

    # ---- growing

    def _fit_matrix(self) -> None:
        """Let the matrix have a row and a bit for every node."""
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
        super().__init__(component_kernels.VECTOR_COUNT)

    @staticmethod
    def fits(nodes: int, edges: int) -> bool:
        """Whether a graph of this size is for this structure: any, since it takes no more than its pairs."""
        return True

    def add(self, left: Ids, right: Ids) -> Pairs:
        """The pairs that became true by adding external pairs."""
        sources, targets = self._enter(left, right, self.check)
        gained = component_kernels.merge(self.words, sources, targets, len(sources))
        self.check(gained)
        self.count += gained
        return self._write_changed(gained, are_new=True)

    def delete(self, left: Ids, right: Ids) -> Pairs:
        """The pairs that ceased to be true by deleting external pairs."""
        sources, targets = self._remove(left, right)
        budget = SEARCHES * (self.edges + self.nodes)
        lost = component_kernels.split(self.words, sources, targets, len(sources), budget)
        self.count -= lost
        return self._write_changed(lost, are_new=False)

    def pairs(self) -> Pairs:
        """All pairs of the closure."""
        left, right = columns(self.count)
        component_kernels.write_pairs(self.words, left, right)
        return left, right

    def contains(self, left: Ids, right: Ids) -> npt.NDArray[np.bool_]:
        """For each pair whether it is in the closure."""
        found = np.empty(len(left), np.bool_)
        component_kernels.contains_pairs(self.words, left, right, found)
        return found

    def _write_changed(self, count: int, are_new: bool) -> Pairs:
        """The pairs that change, written out; the journal learns which nodes have changed."""
        if count == 0:
            self._note_effect(NOTHING)
            return NO_PAIRS
        if self.journal is not None:
            members = self.vectors[kernels.LISTED, : self.words[kernels.MEMBERS]]
            self._note_effect(self.vectors[kernels.IDS][members])
        left, right = columns(count)
        place = piece = group = written = 0
        while written < count:
            place, piece, group, written = component_kernels.write_changed(
                self.words, left, right, place, piece, group, written, written + PART
            )
            self.check(written if are_new else 0)
        return left, right

    def _undo(self, changes: list[Change]) -> None:
        for change in changes:
            if change.effect is None:  # the last call did not end
                self._refresh(proceed)
                return
        component_kernels.restore(self.words, np.concatenate([NOTHING, *(each.effect for each in changes)]))
        self.count = component_kernels.count_pairs(self.words)

    def _refresh(self, check: Check) -> None:
        component_kernels.restore(self.words, self.vectors[kernels.IDS, : self.nodes])
        self.count = component_kernels.count_pairs(self.words)

    def _begin_vectors(self, vectors: npt.NDArray[np.int32], used: int) -> None:
        """Let every node to come be alone."""
        nodes = np.arange(used, vectors.shape[1], dtype=np.int32)
        vectors[[component_kernels.LABEL, component_kernels.NEXT], used:] = nodes


def _steps(words: int, pairs: int) -> int:
    """What it costs to write rows of so many words and pairs anew, in steps of a search."""
    return 4 * pairs + words // 4


def _joined(steps: list[Pairs]) -> Pairs:
    """The pairs of all steps."""
    return np.concatenate([left for left, _ in steps]), np.concatenate([right for _, right in steps])
