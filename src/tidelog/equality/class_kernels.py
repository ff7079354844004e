"""Classes of equal constants, compiled: their members in rings, what they fall into, and what hangs together.

`of` has the representative of each constant, `size` the number of members of each representative's class and
1 for all other constants, `following` the next member of its class: around the ring, the representative comes
last before itself. Mutates what it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import kernel, subroutine


@subroutine
def root_of(labels: Any, node: Any) -> Any:
    """The smallest node known to hang together with a node; paths are halved on the way."""
    while labels[node] != node:
        labels[node] = labels[labels[node]]
        node = labels[node]
    return node


@subroutine
def hang_together(labels: Any, one: Any, other: Any) -> None:
    """Merge the components of two nodes."""
    first, second = root_of(labels, one), root_of(labels, other)
    labels[max(first, second)] = min(first, second)


@kernel("i64[:], const strided i64[:], const strided i64[:]")
def components(labels: Any, left: Any, right: Any) -> None:
    """Label each node, initially with itself, with the smallest node of its component."""
    for edge in range(len(left)):
        hang_together(labels, left[edge], right[edge])
    for node in range(len(labels)):
        labels[node] = labels[labels[node]]  # smaller nodes have theirs already


@subroutine
def place_of(ordered: Any, constant: Any) -> Any:
    """The place of a constant among others in order, or -1."""
    place = np.searchsorted(ordered, constant)
    return place if place < len(ordered) and ordered[place] == constant else -1


@kernel("i32[:], const i32[:], const i32[:], const i32[:], i32[:]")
def parts(of: Any, members: Any, left: Any, right: Any, standing: Any) -> None:
    """Write the representative of the part that each member belongs to: the one it had, if that is in it.

    `members` are in order; a pair makes two of them equal, unless one of it is none of them.
    """
    labels = np.arange(len(members))
    for pair in range(len(left)):
        one, other = place_of(members, left[pair]), place_of(members, right[pair])
        if one >= 0 and other >= 0:
            hang_together(labels, one, other)
    chosen = np.arange(len(members))
    for place in range(len(members)):
        labels[place] = labels[labels[place]]
        if of[members[place]] == members[place]:
            chosen[labels[place]] = place
    for place in range(len(members)):
        standing[place] = members[chosen[labels[place]]]


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
def met_again(size: Any, representative: Any) -> Any:
    """Whether a class has been met; if not, it has now: its size is the negative of what it was."""
    if size[representative] < 0:
        return True
    size[representative] = -size[representative]
    return False


@subroutine
def concerned(of: Any, size: Any, following: Any, ids: Any, after: Any) -> Any:
    """All members of the classes that constants leave or come to; their sizes are negative afterwards."""
    touched = np.empty(2 * len(ids), np.int32)
    count, total = 0, 0
    for place in range(len(ids)):
        for representative in (of[ids[place]], after[place]):
            if of[representative] == representative and not met_again(size, representative):
                touched[count] = representative
                total -= size[representative]
                count += 1
    members = np.empty(total, np.int32)
    total = 0
    for representative in touched[:count]:
        member = representative
        for _ in range(-size[representative]):
            members[total] = member
            member = following[member]
            total += 1
    return members


@kernel("i32[:], i32[:], i32[:], const i32[:], const i32[:] -> i64")
def reassign(of: Any, size: Any, following: Any, ids: Any, after: Any) -> Any:
    """Assign other representatives to constants; they represent themselves afterwards.

    Returns by how many the constants that do not represent themselves have increased.
    """
    members = concerned(of, size, following, ids, after)
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
