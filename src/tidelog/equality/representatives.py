"""Classes of equal constants, each with one of its members as the representative. Mutates itself.

The representative is the one that stood for most constants before, so that few facts must be written anew
when classes merge; whoever shows classes shows the smallest member instead (`smallest`).

Invariant: `of[member]` is the representative of each constant, and stands for itself; `members` holds the
classes of two and more, by their representatives, and `size[representative]` is right for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

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


NOTHING = Moved(NONE, NONE, NONE)


def _aliases(ids: Ids, representatives: Ids) -> Rows:
    """The pairs of different constants."""
    kept = ids != representatives
    return Rows((ids[kept], representatives[kept]), int(np.count_nonzero(kept)))


@dataclass
class Classes:
    """All classes; constants that are not mentioned stand for themselves."""

    of: Ids = field(default_factory=lambda: NONE)
    size: Ids = field(default_factory=lambda: NONE)  # of the class of each representative
    members: dict[int, Ids] = field(default_factory=dict)
    journal: list[Moved] = field(default_factory=list)  # what has moved since it was last emptied
    are_elsewhere: ClassVar[bool] = False  # what is here is a part

    def __bool__(self) -> bool:
        return bool(self.members)

    def representatives(self, ids: Ids) -> Ids:
        """The representative of each constant."""
        self._reach(ids)
        return self.of[ids]

    def class_of(self, representative: int) -> Ids:
        """The members of a class."""
        found = self.members.get(representative)
        return np.array([representative], np.int32) if found is None else found

    def sizes(self, representatives: Ids) -> Ids:
        """How many members each class has."""
        self.representatives(representatives)  # now they are known
        return self.size[representatives]

    def several(self, representatives: Ids) -> Ids:
        """Those whose class has more than one member, each once."""
        return each_once(representatives[self.sizes(representatives) > 1])

    def members_of(self, representatives: Ids) -> Ids:
        """The members of all these classes, those of each class together, and each once."""
        alone = representatives[self.sizes(representatives) == 1]
        parts = (self.members[each] for each in self.several(representatives).tolist())
        return np.concatenate((each_once(alone), *parts))

    def _reach(self, ids: Ids) -> None:
        """Let all constants have a representative."""
        known, needed = len(self.of), int(ids.max()) + 1 if len(ids) else 0
        if needed > known:
            more = np.arange(known, max(needed, 2 * known), dtype=np.int32)
            self.of = np.concatenate((self.of, more))
            self.size = np.concatenate((self.size, np.ones(len(more), np.int32)))

    # ---- changes

    def merge(self, left: Ids, right: Ids) -> Moved:
        """Let the classes of each pair be one."""
        left, right = self.representatives(left), self.representatives(right)
        nodes, places = np.unique(np.concatenate((left, right)), return_inverse=True)
        labels = components(len(nodes), places[: len(left)], places[len(left) :])
        best = np.lexsort((nodes, -self.size[nodes], labels))
        first = np.unique(labels[best], return_index=True)[1]
        winners = np.zeros(len(nodes), np.int32)
        winners[labels[best][first]] = nodes[best][first]
        taking = winners[labels]
        moving = self.members_of(nodes[taking != nodes])
        return self.assign(moving, taking[np.searchsorted(nodes, self.of[moving])])

    def assign(self, ids: Ids, representatives: Ids) -> Moved:
        """Let constants have these representatives, which then stand for themselves."""
        before = self.representatives(ids)
        self._reach(representatives)
        changed = before != representatives
        moved = Moved(ids[changed], before[changed], representatives[changed])
        if moved:
            touched = each_once(np.concatenate((moved.before, moved.after)))
            standing = touched[self.of[touched] == touched]
            all_ids = each_once(np.concatenate((self.members_of(standing), moved.ids)))
            self.of[moved.ids] = moved.after
            self._regroup(all_ids, touched)
            self.journal.append(moved)
        return moved

    def _regroup(self, ids: Ids, touched: Ids) -> None:
        """Find the members of the touched classes among the constants."""
        for each in touched[self.size[touched] > 1].tolist():
            self.members.pop(each, None)
        self.size[ids] = 1
        parts = divided(ids, self.of[ids])
        self.members |= {owner: part for owner, part in parts if len(part) > 1}
        owners, counts = np.unique(self.of[ids], return_counts=True)
        self.size[owners] = counts

    # ---- views

    @property
    def count(self) -> int:
        """How many constants do not stand for themselves."""
        return sum(len(each) - 1 for each in self.members.values())

    @property
    def former(self) -> dict[int, Ids]:
        """The members that classes had which have changed since the journal was begun."""
        if not self.journal:
            return {}
        moved, first = np.unique(np.concatenate([each.ids for each in self.journal]), return_index=True)
        origin = np.concatenate([each.before for each in self.journal])[first]
        touched = each_once(np.concatenate((origin, *(each.after for each in self.journal))))
        ids = each_once(np.concatenate((moved, self.members_of(touched[self.of[touched] == touched]))))
        owners = self.of[ids]
        owners[np.searchsorted(ids, moved)] = origin
        return dict(divided(ids, owners))

    def expand(self, rows: Rows, columns: Iterable[int] | None = None) -> Rows:
        """The rows with every constant of some columns replaced by all members of its class."""
        if not self.members:
            return rows
        return expanded(rows, self.members, range(len(rows.columns)) if columns is None else columns)

    def normalise(self, rows: Rows) -> Rows:
        """The rows with every constant replaced by its representative; they may repeat."""
        return Rows(tuple(self.representatives(column) for column in rows.columns), rows.count)

    def smallest(self, ids: Ids, key: Callable[[int], object]) -> Ids:
        """The smallest member of each constant's class, in the order of `key`."""
        owners, places = np.unique(self.representatives(ids), return_inverse=True)
        for place in np.flatnonzero(self.size[owners] > 1).tolist():
            owners[place] = min(self.members[int(owners[place])].tolist(), key=key)  # type: ignore[arg-type]
        return owners[places]


def each_once(ids: Ids) -> Ids:
    """The constants, sorted, each once. Sorting is faster than the sets of `np.unique`.

    >>> each_once(np.array([3, 1, 3], np.int32)).tolist()
    [1, 3]
    """
    ordered = np.sort(ids)
    found: Ids = ordered[np.diff(ordered, prepend=-1) != 0]
    return found


def divided(ids: Ids, owners: Ids) -> Iterator[tuple[int, Ids]]:
    """The constants of each owner."""
    by_owner = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(owners[by_owner]) != 0])
    parts = np.split(ids[by_owner], starts[1:])
    return zip(owners[by_owner][starts].tolist(), parts, strict=True)


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
