"""Classes of equal constants, each with one of its members as the representative. Mutates itself.

The representative is the one that stood for most constants before, so that few facts must be written anew
when classes merge; whoever shows classes shows the smallest member instead (`smallest`).

Invariant: `of[member]` is the representative of each constant, and stands for itself; `members` holds the
classes of two and more, by their representatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidelog.maintenance.maintainer import Rows

Ids = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]
NONE: Ids = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class Moved:
    """Constants that have another representative now, and which they had before."""

    ids: Ids
    before: Ids
    after: Ids

    def __bool__(self) -> bool:
        return bool(len(self.ids))

    @property
    def removed(self) -> Rows:
        """The pairs of member and representative that are no longer."""
        return _aliases(self.ids, self.before)

    @property
    def added(self) -> Rows:
        """The pairs of member and representative that are new."""
        return _aliases(self.ids, self.after)


def _aliases(ids: Ids, representatives: Ids) -> Rows:
    """The pairs of different constants."""
    kept = ids != representatives
    return Rows((ids[kept], representatives[kept]), int(np.count_nonzero(kept)))


@dataclass
class Classes:
    """All classes; constants that are not mentioned stand for themselves."""

    of: Ids = field(default_factory=lambda: NONE)
    members: dict[int, Ids] = field(default_factory=dict)
    # The members that classes had, since it was last emptied, by the representatives that they had then.
    former: dict[int, Ids] = field(default_factory=dict)

    def representatives(self, ids: Ids) -> Ids:
        """The representative of each constant."""
        self._reach(ids)
        return self.of[ids]

    def class_of(self, representative: int) -> Ids:
        """The members of a class."""
        found = self.members.get(representative)
        return np.array([representative], np.int32) if found is None else found

    def _reach(self, ids: Ids) -> None:
        """Let all constants have a representative."""
        known, needed = len(self.of), int(ids.max()) + 1 if len(ids) else 0
        if needed > known:
            more = np.arange(known, max(needed, 2 * known), dtype=np.int32)
            self.of = np.concatenate((self.of, more))

    # ---- changes

    def merge(self, left: Ids, right: Ids) -> Moved:
        """Let the classes of each pair be one."""
        left, right = self.representatives(left), self.representatives(right)
        nodes, places = np.unique(np.concatenate((left, right)), return_inverse=True)
        labels = components(len(nodes), places[: len(left)], places[len(left) :])
        sizes = np.array([len(self.members.get(int(node), (0,))) for node in nodes], np.int64)
        best = np.lexsort((nodes, -sizes, labels))
        first = np.unique(labels[best], return_index=True)[1]
        winners = np.zeros(len(nodes), np.int32)
        winners[labels[best][first]] = nodes[best][first]
        losing = nodes[winners[labels] != nodes]
        taking = winners[labels][winners[labels] != nodes]
        parts = [self.class_of(int(node)) for node in losing]
        if not parts:
            return Moved(NONE, NONE, NONE)
        return self.assign(np.concatenate(parts), np.repeat(taking, [len(part) for part in parts]))

    def divide(self, representatives: Iterable[int]) -> Moved:
        """Let every member of these classes stand for itself."""
        parts = [self.members[each] for each in representatives if each in self.members]
        if not parts:
            return Moved(NONE, NONE, NONE)
        ids = np.concatenate(parts)
        return self.assign(ids, ids)

    def assign(self, ids: Ids, representatives: Ids) -> Moved:
        """Let constants have these representatives, which then stand for themselves."""
        before = self.representatives(ids)
        changed = before != representatives
        ids, before, after = ids[changed], before[changed], representatives[changed]
        touched = np.unique(np.concatenate((before, after)))
        parts = [self.class_of(int(each)) for each in touched if self.of[each] == each]
        for part in parts:
            self.former.setdefault(int(self.of[part[0]]), part)
        self.of[ids] = after
        self._regroup(np.unique(np.concatenate((*parts, ids))), touched)
        return Moved(ids, before, after)

    def _regroup(self, ids: Ids, touched: Ids) -> None:
        """Find the members of the touched classes among the constants."""
        for each in touched.tolist():
            self.members.pop(each, None)
        owners = self.of[ids]
        by_owner = np.argsort(owners, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(owners[by_owner]) != 0])
        for part in np.split(ids[by_owner], starts[1:]):
            if len(part) > 1:
                self.members[int(self.of[part[0]])] = part

    # ---- views

    @property
    def count(self) -> int:
        """How many constants do not stand for themselves."""
        return sum(len(each) - 1 for each in self.members.values())

    def expand(self, rows: Rows, columns: Iterable[int] | None = None) -> Rows:
        """The rows with every constant of some columns replaced by all members of its class."""
        return expanded(rows, self.members, range(len(rows.columns)) if columns is None else columns)

    def normalise(self, rows: Rows) -> Rows:
        """The rows with every constant replaced by its representative; they may repeat."""
        return Rows(tuple(self.representatives(column) for column in rows.columns), rows.count)

    def smallest(self, ids: Ids, key: Callable[[int], object]) -> Ids:
        """The smallest member of each constant's class, in the order of `key`."""
        shown = self.representatives(ids).copy()
        for each in np.unique(shown).tolist():
            if each in self.members:
                shown[shown == each] = min(self.members[each].tolist(), key=key)  # type: ignore[arg-type]
        return shown


def expanded(rows: Rows, members: Mapping[int, Ids], columns: Iterable[int]) -> Rows:
    """The rows with constants of some columns replaced by all members of their classes."""
    for place in columns:
        column = rows.columns[place]
        found, inverse = np.unique(column, return_inverse=True)
        classes = [members.get(each) for each in found.tolist()]
        if all(each is None for each in classes):
            continue
        parts = [found[at : at + 1] if each is None else each for at, each in enumerate(classes)]
        sizes = np.array([len(part) for part in parts], np.int64)
        starts = np.cumsum(sizes) - sizes
        counts = sizes[inverse]
        places = np.repeat(np.arange(rows.count), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        made = np.concatenate(parts)[np.repeat(starts[inverse], counts) + within]
        others = [each[places] for each in rows.columns]
        others[place] = made
        rows = Rows(tuple(others), len(places))
    return rows


def components(count: int, left: Places, right: Places) -> Places:
    """The smallest node of each node's component, in a graph of `count` nodes and undirected edges.

    >>> components(5, np.array([3, 1]), np.array([4, 3])).tolist()
    [0, 1, 2, 1, 1]
    """
    labels = np.arange(count)
    while True:
        low = np.minimum(labels[left], labels[right])
        hooked = labels.copy()
        np.minimum.at(hooked, labels[left], low)
        np.minimum.at(hooked, labels[right], low)
        while not np.array_equal(jumped := hooked[hooked], hooked):
            hooked = jumped
        if np.array_equal(hooked, labels):
            return labels
        labels = hooked
