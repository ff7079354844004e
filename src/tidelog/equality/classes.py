"""Classes of equal constants, each with one of its members as the representative. Mutable.

When classes merge, the representative of the largest one stays, so that few facts must be rewritten; in
results the smallest member is shown instead (`smallest`).

Invariant: `of[member]` is the representative of each constant, and represents itself; `following` leads from
each member to the next of its class, around a ring; `size` is that of a representative's class, else 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Ids, Rows, codes_of
from tidelog.equality import class_kernels as kernels
from tidelog.equality.work_relations import GIVEN, BatchedRules, BoundQuery, WorkRelations
from tidelog.logic.program import EQUAL, Atom, Program, Variable
from tidelog.rewrite.representatives import groups_of, stored

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine


Places = npt.NDArray[np.int64]
Grouped = tuple[Ids, Ids]  # members of classes, one class after the other, and how many each has
Grouping = Callable[[Ids], Grouped]  # the members of the classes of different representatives
NONE: Ids = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class MovedConstants:
    """Constants that changed their representative, with the former one and the current one."""

    ids: Ids
    before: Ids
    after: Ids

    def __bool__(self) -> bool:
        return bool(len(self.ids))

    @property
    def removed(self) -> Rows:
        """The pairs of member and representative that are deleted."""
        return _aliases(self.ids, self.before)

    @property
    def added(self) -> Rows:
        """The pairs of member and representative that are new."""
        return _aliases(self.ids, self.after)


NOTHING = MovedConstants(NONE, NONE, NONE)


def _aliases(ids: Ids, representatives: Ids) -> Rows:
    """The pairs of different constants."""
    kept = ids != representatives
    return Rows((ids[kept], representatives[kept]), int(np.count_nonzero(kept)))


@dataclass
class Classes:
    """All classes; constants that are not mentioned represent themselves."""

    of: Ids = field(default_factory=lambda: NONE)
    size: Ids = field(default_factory=lambda: NONE)  # of the class of each representative
    following: Ids = field(default_factory=lambda: NONE)
    count: int = 0  # of constants that do not represent themselves
    version: int = 0  # changes when a constant moves
    journal: list[MovedConstants] = field(default_factory=list)  # the changes since `begin`
    grown: list[MovedConstants] = field(default_factory=list)  # the part of it by which classes were merged

    def __bool__(self) -> bool:
        return self.count > 0

    def representatives(self, ids: Ids) -> Ids:
        """The representative of each constant."""
        try:
            return self.of[ids]
        except IndexError:  # constants that are not mentioned yet
            self._reach(ids)
            return self.of[ids]

    def class_of(self, representative: int) -> Ids:
        """The members of a class."""
        return self.grouped(np.array([representative], np.int32))[0]

    def sizes(self, representatives: Ids) -> Ids:
        """How many members each class has."""
        self.representatives(representatives)  # now they are known
        return self.size[representatives]

    def several(self, representatives: Ids) -> Ids:
        """Those whose class has more than one member, each once."""
        return unique_ids(representatives[self.sizes(representatives) > 1])

    def members_of(self, representatives: Ids) -> Ids:
        """The members of all these classes, those of each class together, and each once."""
        return self.grouped(unique_ids(representatives))[0]

    def grouped(self, representatives: Ids) -> Grouped:
        """The members of different classes, one class after the other, and how many each has."""
        sizes = self.sizes(representatives)
        members = np.empty(int(sizes.sum()), np.int32)
        kernels.walk(self.size, self.following, representatives, members)
        return members, sizes

    def _reach(self, ids: Ids) -> None:
        """Extend the arrays so that all these constants have a representative."""
        known, needed = len(self.of), int(ids.max()) + 1 if len(ids) else 0
        if needed > known:
            more = np.arange(known, max(needed, 2 * known), dtype=np.int32)
            self.of = np.concatenate((self.of, more))
            self.following = np.concatenate((self.following, more))
            self.size = np.concatenate((self.size, np.ones(len(more), np.int32)))

    # ---- changes

    def begin(self) -> None:
        """Begin a new journal."""
        self.journal, self.grown = [], []

    def merge(self, left: Ids, right: Ids) -> MovedConstants:
        """Merge the two classes of each pair; return the constants that moved."""
        left, right = self.representatives(left), self.representatives(right)
        nodes, positions = np.unique(np.concatenate((left, right)), return_inverse=True)
        labels = components(len(nodes), positions[: len(left)], positions[len(left) :])
        best = np.lexsort((nodes, -self.size[nodes], labels))
        first = np.unique(labels[best], return_index=True)[1]
        winners = np.zeros(len(nodes), np.int32)
        winners[labels[best][first]] = nodes[best][first]
        taking = winners[labels]
        moving = self.members_of(nodes[taking != nodes])
        moved = self.assign(moving, taking[np.searchsorted(nodes, self.of[moving])])
        self.grown.append(moved)
        return moved

    def assign(self, ids: Ids, representatives: Ids) -> MovedConstants:
        """Assign representatives, which represent themselves afterwards; return the constants that moved."""
        before = self.representatives(ids)
        self._reach(representatives)
        changed = before != representatives
        moved = MovedConstants(ids[changed], before[changed], representatives[changed])
        if moved:
            self.count += int(kernels.reassign(self.of, self.size, self.following, moved.ids, moved.after))
            self.journal.append(moved)
            self.version += 1
        return moved

    def parts(self, members: Ids, left: Ids, right: Ids) -> Ids:
        """The representatives of members, in order, of which nothing is equal but these pairs.

        Each part keeps the one that its members have, if that is in it.
        """
        standing = np.empty(len(members), np.int32)
        kernels.parts(self.of, members, left, right, standing)
        return standing

    # ---- views

    @property
    def merged(self) -> Ids:
        """The representatives of classes of two and more."""
        return np.flatnonzero(self.size > 1).astype(np.int32)

    @property
    def aliased(self) -> Ids:
        """The constants that do not represent themselves."""
        return np.flatnonzero(self.of != np.arange(len(self.of))).astype(np.int32)

    @property
    def former(self) -> dict[int, Ids]:
        """The former members of the classes that have changed since `begin`."""
        if not self.journal:
            return {}
        moved, first = np.unique(np.concatenate([each.ids for each in self.journal]), return_index=True)
        origin = np.concatenate([each.before for each in self.journal])[first]
        modified = unique_ids(np.concatenate((origin, *(each.after for each in self.journal))))
        ids = unique_ids(np.concatenate((moved, self.members_of(modified[self.of[modified] == modified]))))
        owners = self.of[ids]
        owners[np.searchsorted(ids, moved)] = origin
        return dict(divided(ids, owners))

    def expand(self, rows: Rows, columns: Iterable[int] | None = None) -> Rows:
        """The rows with every constant of some columns replaced by all members of its class."""
        if not self:
            return rows
        return expanded(rows, self.grouped, range(len(rows.columns)) if columns is None else columns)

    def normalise(self, rows: Rows) -> Rows:
        """The rows with every constant replaced by its representative; they may repeat."""
        return Rows(tuple(self.representatives(column) for column in rows.columns), rows.count)

    def smallest(self, ids: Ids, key: Callable[[int], object]) -> Ids:
        """The smallest member of each constant's class, in the order of `key`."""
        owners, positions = np.unique(self.representatives(ids), return_inverse=True)
        for position in np.flatnonzero(self.size[owners] > 1).tolist():
            owners[position] = min(self.class_of(int(owners[position])).tolist(), key=key)  # type: ignore[arg-type]
        return owners[positions]


def unique_ids(ids: Ids) -> Ids:
    """The constants, sorted, each once. Sorting is faster than the sets of `np.unique`.

    >>> unique_ids(np.array([3, 1, 3], np.int32)).tolist()
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


def expanded(rows: Rows, grouped: Grouping, columns: Iterable[int]) -> Rows:
    """The rows with constants of some columns replaced by all members of their classes."""
    for position in columns:
        found, inverse = np.unique(rows.columns[position], return_inverse=True)
        members, sizes = grouped(found)
        if len(members) > len(found):
            rows = spread(rows, position, inverse, (members, sizes))
    return rows


def spread(rows: Rows, position: int, groups: Places, grouped: Grouped) -> Rows:
    """The rows with what is in one column replaced by all constants of a group, of which each row has one."""
    members, sizes = grouped
    starts = np.cumsum(sizes) - sizes
    counts = sizes[groups]
    positions = np.repeat(np.arange(rows.count), counts)
    within = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    made = members[np.repeat(starts[groups], counts) + within]
    others = [each[positions] for each in rows.columns]
    others[position] = made
    return Rows(tuple(others), len(positions))


def components(count: int, left: Places, right: Places) -> Places:
    """The smallest node of each node's component, in a graph of `count` nodes and undirected edges.

    >>> components(5, np.array([3, 1]), np.array([4, 3])).tolist()
    [0, 1, 2, 1, 1]
    """
    labels = np.arange(count)
    kernels.components(labels, left, right)
    return labels


# ---- representatives that are equal and not merged yet

Pairs = tuple[Ids, Ids]


def all_unmerged(engine: ColumnarEngine, program: Program) -> Pairs | None:
    """Return the pairs of different representatives that stored facts make equal, None if there are none."""
    equalities = Rows(*engine.storage.rows(stored(EQUAL)))
    groups = [neighbours(Rows(*engine.storage.rows(name))) for name in groups_of(program)]
    return _different([(equalities.columns[0], equalities.columns[1]), *groups])


class PendingMerges:
    """Representatives that inserted facts make equal, by the rules of a program over representatives."""

    def __init__(self, program: Program, engine: ColumnarEngine) -> None:
        self._groups = groups_of(program)
        keys = {name: program.predicates[name].arity - 1 for name in self._groups}
        self.relations = WorkRelations("to merge", engine, keys)
        self._whole = {name: self._query(name, arity) for name, arity in keys.items()}
        rules = [query.rule for query in self._whole.values()]
        given = [self.relations.relation(GIVEN, name) for name in keys]
        self._batch = BatchedRules(rules, given, engine)

    def pairs(self, inserted: Mapping[str, Rows]) -> Pairs | None:
        """Return the pairs of different representatives that are equal, None if there are none."""
        found = [inserted[stored(EQUAL)].columns] if stored(EQUAL) in inserted else []
        modified = [name for name in self._groups if name in inserted]
        groups = self._neighbours({name: inserted[name] for name in modified}) if modified else []
        return _different([*((left, right) for left, right in found), *groups])

    def _query(self, name: str, arity: int) -> BoundQuery:
        """The query for the groups that have given keys, with all their constants."""
        keys = tuple(Variable(f"k{position}") for position in range(arity))
        row = (*keys, Variable("x"))
        given = self.relations.atom(GIVEN, Atom(name, keys))
        return BoundQuery(row, (given, Atom(name, row)), self.relations, f" of {name}")

    def _neighbours(self, inserted: Mapping[str, Rows]) -> list[Pairs]:
        """Pairs that connect the groups with new constants, their older constants included."""
        keys = {
            self.relations.relation(GIVEN, name): Rows(rows.columns[:-1], rows.count)
            for name, rows in inserted.items()
        }
        try:
            self.relations.fill(keys)
            self._batch.run()
            return [neighbours(self._whole[name].results()) for name in inserted]
        finally:
            self.relations.empty()


def _different(parts: Sequence[Pairs]) -> Pairs | None:
    """The pairs of two different constants."""
    found = [(left[left != right], right[left != right]) for left, right in parts]
    if not any(len(left) for left, _ in found):
        return None
    return np.concatenate([left for left, _ in found]), np.concatenate([right for _, right in found])


def neighbours(rows: Rows) -> Pairs:
    """Return pairs that connect all constants with the same key."""
    keys, constants = rows.columns[:-1], rows.columns[-1]
    codes = codes_of(Rows(keys, rows.count))
    order = np.argsort(codes, kind="stable")
    together = codes[order][1:] == codes[order][:-1]
    ordered = constants[order]
    return ordered[:-1][together], ordered[1:][together]
