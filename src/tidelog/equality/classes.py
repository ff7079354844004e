"""Classes of equal constants, each with one of its members as the representative. Mutable.

When classes merge, the representative of the largest one stays, so that few facts must be rewritten; in
results the smallest member is shown instead (`smallest`).

Invariant: `of[member]` is the representative of each constant, and represents itself; `following` leads from
each member to the next of its class, around a ring; `size` is that of a representative's class, else 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidelog.compiled import kernel, subroutine
from tidelog.data.rows import Ids, Rows, codes_of
from tidelog.equality.work_relations import GIVEN, BatchedRules, BoundQuery, WorkRelations
from tidelog.logic.program import EQUAL, Atom, Program, Variable
from tidelog.records import dataclass
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
    differ = ids != representatives
    return Rows((ids[differ], representatives[differ]), int(np.count_nonzero(differ)))


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
        walk(self.size, self.following, representatives, members)
        return members, sizes

    def _reach(self, ids: Ids) -> None:
        """Extend the arrays so that all these constants have a representative."""
        capacity, needed = len(self.of), int(ids.max()) + 1 if len(ids) else 0
        if needed > capacity:
            new_ids = np.arange(capacity, max(needed, 2 * capacity), dtype=np.int32)
            self.of = np.concatenate((self.of, new_ids))
            self.following = np.concatenate((self.following, new_ids))
            self.size = np.concatenate((self.size, np.ones(len(new_ids), np.int32)))

    # ---- changes

    def begin(self) -> None:
        """Begin a new journal."""
        self.journal, self.grown = [], []

    def merge(self, left: Ids, right: Ids) -> MovedConstants:
        """Merge the two classes of each pair; return the constants that moved."""
        left, right = self.representatives(left), self.representatives(right)
        nodes, positions = np.unique(np.concatenate((left, right)), return_inverse=True)
        labels = components(len(nodes), positions[: len(left)], positions[len(left) :])
        by_size = np.lexsort((nodes, -self.size[nodes], labels))
        first = np.unique(labels[by_size], return_index=True)[1]
        winners = np.zeros(len(nodes), np.int32)
        winners[labels[by_size][first]] = nodes[by_size][first]
        targets = winners[labels]
        moving = self.members_of(nodes[targets != nodes])
        moved = self.assign(moving, targets[np.searchsorted(nodes, self.of[moving])])
        self.grown.append(moved)
        return moved

    def assign(self, ids: Ids, representatives: Ids) -> MovedConstants:
        """Assign representatives, which represent themselves afterwards; return the constants that moved."""
        before = self.representatives(ids)
        self._reach(representatives)
        changed = before != representatives
        moved = MovedConstants(ids[changed], before[changed], representatives[changed])
        if moved:
            self.count += int(reassign(self.of, self.size, self.following, moved.ids, moved.after))
            self.journal.append(moved)
            self.version += 1
        return moved

    def parts(self, members: Ids, left: Ids, right: Ids) -> Ids:
        """The representatives of members if only these pairs are equal; `members` are in order.

        Each part keeps the representative of its members if that is in it.
        """
        representatives = np.empty(len(members), np.int32)
        parts(self.of, members, left, right, representatives)
        return representatives

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
        moved, first = np.unique(np.concatenate([change.ids for change in self.journal]), return_index=True)
        origin = np.concatenate([change.before for change in self.journal])[first]
        modified = unique_ids(np.concatenate((origin, *(change.after for change in self.journal))))
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
    unique: Ids = ordered[np.diff(ordered, prepend=-1) != 0]
    return unique


def divided(ids: Ids, owners: Ids) -> Iterator[tuple[int, Ids]]:
    """The constants of each owner."""
    by_owner = np.argsort(owners, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(owners[by_owner]) != 0])
    parts = np.split(ids[by_owner], starts[1:])
    return zip(owners[by_owner][starts].tolist(), parts, strict=True)


def expanded(rows: Rows, grouped: Grouping, columns: Iterable[int]) -> Rows:
    """The rows with constants of some columns replaced by all members of their classes."""
    for position in columns:
        distinct_ids, inverse = np.unique(rows.columns[position], return_inverse=True)
        members, sizes = grouped(distinct_ids)
        if len(members) > len(distinct_ids):
            rows = spread(rows, position, inverse, (members, sizes))
    return rows


def spread(rows: Rows, position: int, groups: Places, grouped: Grouped) -> Rows:
    """Repeat each row for all constants of its group, which replace its value in one column."""
    members, sizes = grouped
    starts = np.cumsum(sizes) - sizes
    counts = sizes[groups]
    positions = np.repeat(np.arange(rows.count), counts)
    within = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    replaced = members[np.repeat(starts[groups], counts) + within]
    columns = [column[positions] for column in rows.columns]
    columns[position] = replaced
    return Rows(tuple(columns), len(positions))


def components(count: int, left: Places, right: Places) -> Places:
    """The smallest node of each node's component, in a graph of `count` nodes and undirected edges.

    >>> components(5, np.array([3, 1]), np.array([4, 3])).tolist()
    [0, 1, 2, 1, 1]
    """
    labels = np.arange(count)
    label_components(labels, left, right)
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
        driving = [self.relations.relation(GIVEN, name) for name in keys]
        self._batch = BatchedRules(rules, driving, engine)

    def pairs(self, inserted: Mapping[str, Rows]) -> Pairs | None:
        """Return the pairs of different representatives that are equal, None if there are none."""
        explicit_pairs = [inserted[stored(EQUAL)].columns] if stored(EQUAL) in inserted else []
        modified = [name for name in self._groups if name in inserted]
        groups = self._neighbours({name: inserted[name] for name in modified}) if modified else []
        return _different([*((left, right) for left, right in explicit_pairs), *groups])

    def _query(self, name: str, arity: int) -> BoundQuery:
        """The query for the groups with given keys, with all their constants."""
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


def _different(pairs: Sequence[Pairs]) -> Pairs | None:
    """The pairs of two different constants."""
    different = [(left[left != right], right[left != right]) for left, right in pairs]
    if not any(len(left) for left, _ in different):
        return None
    return np.concatenate([left for left, _ in different]), np.concatenate([right for _, right in different])


def neighbours(rows: Rows) -> Pairs:
    """Return pairs that connect all constants with the same key."""
    keys, constants = rows.columns[:-1], rows.columns[-1]
    codes = codes_of(Rows(keys, rows.count))
    order = np.argsort(codes, kind="stable")
    has_same_key = codes[order][1:] == codes[order][:-1]
    ordered = constants[order]
    return ordered[:-1][has_same_key], ordered[1:][has_same_key]


# ---- kernels: rings of members, around which the representative comes last before itself


@subroutine
def root_of(labels: Any, node: Any) -> Any:
    """The smallest node known to be connected with a node; paths are halved on the way."""
    while labels[node] != node:
        labels[node] = labels[labels[node]]
        node = labels[node]
    return node


@subroutine
def unite(labels: Any, left: Any, right: Any) -> None:
    """Merge the components of two nodes."""
    first, second = root_of(labels, left), root_of(labels, right)
    labels[max(first, second)] = min(first, second)


@kernel("i64[:], const strided i64[:], const strided i64[:]")
def label_components(labels: Any, left: Any, right: Any) -> None:
    """Label each node, initially with itself, with the smallest node of its component."""
    for edge in range(len(left)):
        unite(labels, left[edge], right[edge])
    for node in range(len(labels)):
        labels[node] = labels[labels[node]]  # smaller nodes have their labels already


@subroutine
def place_of(ordered: Any, constant: Any) -> Any:
    """The place of a constant among others in order, or -1."""
    place = np.searchsorted(ordered, constant)
    return place if place < len(ordered) and ordered[place] == constant else -1


@kernel("i32[:], const i32[:], const i32[:], const i32[:], i32[:]")
def parts(of: Any, members: Any, left: Any, right: Any, representatives: Any) -> None:
    """Write the representative of each member's part: its former one, if that is in the part.

    `members` are in order; a pair makes two of them equal and is ignored if one of its constants is no
    member.
    """
    labels = np.arange(len(members))
    for pair in range(len(left)):
        first, second = place_of(members, left[pair]), place_of(members, right[pair])
        if first >= 0 and second >= 0:
            unite(labels, first, second)
    representative_of = np.arange(len(members))
    for place in range(len(members)):
        labels[place] = labels[labels[place]]
        if of[members[place]] == members[place]:
            representative_of[labels[place]] = place
    for place in range(len(members)):
        representatives[place] = members[representative_of[labels[place]]]


@kernel("i32[:], i32[:], const i32[:], i32[:]")
def walk(size: Any, following: Any, representatives: Any, members: Any) -> None:
    """Write the members of classes, those of each class together, the representative first."""
    count = 0
    for representative in representatives:
        member = representative
        for _ in range(size[representative]):
            members[count] = member
            member = following[member]
            count += 1


@subroutine
def mark_visited(size: Any, representative: Any) -> Any:
    """Mark a class as visited by negating its size; return whether it was visited before."""
    if size[representative] < 0:
        return True
    size[representative] = -size[representative]
    return False


@subroutine
def affected_members(of: Any, size: Any, following: Any, ids: Any, after: Any) -> Any:
    """All members of the classes that constants leave or join; their sizes are negative afterwards."""
    representatives = np.empty(2 * len(ids), np.int32)
    count, total = 0, 0
    for place in range(len(ids)):
        for representative in (of[ids[place]], after[place]):
            if of[representative] == representative and not mark_visited(size, representative):
                representatives[count] = representative
                total -= size[representative]
                count += 1
    members = np.empty(total, np.int32)
    total = 0
    for representative in representatives[:count]:
        member = representative
        for _ in range(-size[representative]):
            members[total] = member
            member = following[member]
            total += 1
    return members


@kernel("i32[:], i32[:], i32[:], const i32[:], const i32[:] -> i64")
def reassign(of: Any, size: Any, following: Any, ids: Any, after: Any) -> Any:
    """Assign new representatives to constants; representatives represent themselves afterwards.

    Returns the increase in the number of constants that do not represent themselves.
    """
    members = affected_members(of, size, following, ids, after)
    aliased = 0
    for member in members:
        aliased -= of[member] != member
        size[member] = 1
        following[member] = member
    for place in range(len(ids)):
        of[ids[place]] = after[place]
    for member in members:
        representative = of[member]
        if representative != member:
            following[member] = following[representative]
            following[representative] = member
            size[representative] += 1
            aliased += 1
    return aliased
