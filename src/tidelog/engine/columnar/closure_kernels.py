"""Kernels over the external pairs of a closure: nodes, lists of neighbours. Mutates what it is given.

A closure is described by one integer array C. Its nodes are numbered from 0 in order of appearance; whatever
is known of each is a vector of int32, all of the same length, one behind the other. Pairs are kept twice, as
lists of targets per source and of sources per target: a node's list lies in a pool, and moves to its end when
it outgrows its room.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import int32_at, int64_at, kernel, mix, subroutine

# ---- C: a closure
(
    NODES,  # nodes numbered
    CAPACITY,  # nodes that the vectors have room for
    VECTORS,  # address of the vectors
    SLOTS,  # address of the hash slots that give an id's number: the id, then the number plus one
    SLOT_COUNT,
    SHIFT,  # how far to shift a hash to get a slot
    EDGES,  # external pairs
    POOL,  # targets: address, capacity, top; then the same for sources
    POOL_CAPACITY,
    POOL_TOP,
    _SOURCE_POOL,
    _SOURCE_POOL_CAPACITY,
    _SOURCE_POOL_TOP,
    KEPT,  # pairs of the current call that were entered
    STAMP,  # the mark of the latest search: marks of earlier ones need not be cleared
    MATRIX,  # transitive: address of the rows of bits
    MATRIX_LENGTH,
    STRIDE,  # words per row
    TOTAL,  # address of one more row, as scratch
    GROUPS,  # equivalence: groups, pieces and members of the current change
    PIECES,
    MEMBERS,
    C_SIZE,
) = range(23)

TARGETS, SOURCES = 0, 1  # which lists
ABREAST = 3  # words of C, and vectors, that either kind of list has

# ---- vectors
(
    IDS,
    START,  # targets: place in the pool, length and room; then the same for sources
    LENGTH,
    ROOM,
    _SOURCE_START,
    _SOURCE_LENGTH,
    _SOURCE_ROOM,
    FORWARD,  # marks and queues of a search from either end
    BACKWARD,
    QUEUE,
    OTHER_QUEUE,
    LISTED,  # the nodes that a change is about
    OWN_VECTORS,  # from here on each kind of closure has its own
) = range(13)

LAST_STAMP = (1 << 31) - 2
FIRST_ROOM = 4


@subroutine
def vector(C: Any, which: Any) -> Any:
    """One of the vectors."""
    return int32_at(C[VECTORS] + 4 * which * C[CAPACITY], C[CAPACITY])


@subroutine
def pool_of(C: Any, side: Any) -> Any:
    """The pool in which the lists of one side lie."""
    return int32_at(C[POOL + ABREAST * side], C[POOL_CAPACITY + ABREAST * side])


@subroutine
def next_stamp(C: Any) -> Any:
    """A mark that no node has."""
    stamp = C[STAMP] + 1
    if stamp > LAST_STAMP:
        forward, backward = vector(C, FORWARD), vector(C, BACKWARD)
        for node in range(C[CAPACITY]):
            forward[node] = 0
            backward[node] = 0
        stamp = np.int64(1)
    C[STAMP] = stamp
    return stamp


# ---- nodes


@subroutine
def find_slot(C: Any, identity: Any) -> Any:
    """The slot of an id: its own, or the free one where it belongs."""
    slots = int64_at(C[SLOTS], C[SLOT_COUNT])
    position = np.int64(mix(identity) >> np.uint64(C[SHIFT]))
    while slots[position] != 0 and (slots[position] >> 32) != identity:
        position = (position + 1) & (C[SLOT_COUNT] - 1)
    return position


@subroutine
def find_node(C: Any, identity: Any) -> Any:
    """The number of an id, or -1."""
    return (int64_at(C[SLOTS], C[SLOT_COUNT])[find_slot(C, identity)] & 0xFFFFFFFF) - 1


@subroutine
def number_node(C: Any, identity: Any) -> Any:
    """The number of an id, a new one if it has none; there must be room."""
    slots = int64_at(C[SLOTS], C[SLOT_COUNT])
    position = find_slot(C, identity)
    if slots[position] == 0:
        node = C[NODES]
        vector(C, IDS)[node] = identity
        slots[position] = (identity << 32) | (node + 1)
        C[NODES] = node + 1
    return (slots[position] & 0xFFFFFFFF) - 1


@kernel("i64[:]")
def enter_nodes(C: Any) -> None:
    """Enter all nodes into empty slots."""
    slots = int64_at(C[SLOTS], C[SLOT_COUNT])
    ids = vector(C, IDS)
    for node in range(C[NODES]):
        identity = np.int64(ids[node])
        slots[find_slot(C, identity)] = (identity << 32) | (node + 1)


# ---- pairs


@subroutine
def find_place(C: Any, side: Any, node: Any, neighbour: Any) -> Any:
    """Where in the pool a node's list has this neighbour, or -1."""
    pool = pool_of(C, side)
    start = np.int64(vector(C, START + ABREAST * side)[node])
    for place in range(start, start + vector(C, LENGTH + ABREAST * side)[node]):
        if pool[place] == neighbour:
            return place
    return np.int64(-1)


@subroutine
def is_external(C: Any, source: Any, target: Any) -> Any:
    """Whether the pair is there; the shorter of the two lists tells."""
    if vector(C, LENGTH)[source] <= vector(C, LENGTH + ABREAST)[target]:
        return find_place(C, TARGETS, source, target) >= 0
    return find_place(C, SOURCES, target, source) >= 0


@subroutine
def wanted_room(C: Any, side: Any, node: Any) -> Any:
    """What must be free in the pool before a neighbour is added: nothing, or room for a longer list."""
    length = np.int64(vector(C, LENGTH + ABREAST * side)[node])
    if length < vector(C, ROOM + ABREAST * side)[node]:
        return np.int64(0)
    return max(2 * length, np.int64(FIRST_ROOM))


@subroutine
def lacks_room(C: Any, side: Any, node: Any) -> Any:
    """Whether the pool must grow before a neighbour is added."""
    top = C[POOL_TOP + ABREAST * side]
    return top + wanted_room(C, side, node) > C[POOL_CAPACITY + ABREAST * side]


@subroutine
def append(C: Any, side: Any, node: Any, neighbour: Any) -> None:
    """Add a neighbour to a node's list; the pool has room."""
    pool = pool_of(C, side)
    starts = vector(C, START + ABREAST * side)
    lengths = vector(C, LENGTH + ABREAST * side)
    length = np.int64(lengths[node])
    room = wanted_room(C, side, node)
    if room > 0:
        start, top = np.int64(starts[node]), C[POOL_TOP + ABREAST * side]
        for place in range(length):
            pool[top + place] = pool[start + place]
        starts[node] = top
        vector(C, ROOM + ABREAST * side)[node] = room
        C[POOL_TOP + ABREAST * side] = top + room
    pool[starts[node] + length] = neighbour
    lengths[node] = length + 1


@subroutine
def take_away(C: Any, side: Any, node: Any, neighbour: Any) -> None:
    """Remove a neighbour from a node's list; the last one takes its place."""
    pool = pool_of(C, side)
    lengths = vector(C, LENGTH + ABREAST * side)
    place = find_place(C, side, node, neighbour)
    lengths[node] -= 1
    pool[place] = pool[vector(C, START + ABREAST * side)[node] + lengths[node]]


@kernel("i64[:], const i32[:], const i32[:], i64, i64, i32[:], i32[:] -> i64")
def add_pairs(C: Any, left: Any, right: Any, done: Any, end: Any, sources: Any, targets: Any) -> Any:
    """Enter the pairs of ids from place `done` to `end`; returns the place reached, where C must grow first.

    The pairs that are new are written, as numbers, to the first KEPT places of `sources` and `targets`.
    """
    for index in range(done, end):
        if C[NODES] + 2 > C[CAPACITY]:
            return index
        source = number_node(C, np.int64(left[index]))
        target = number_node(C, np.int64(right[index]))
        if is_external(C, source, target):
            continue
        if lacks_room(C, TARGETS, source) or lacks_room(C, SOURCES, target):
            return index
        append(C, TARGETS, source, target)
        append(C, SOURCES, target, source)
        C[EDGES] += 1
        sources[C[KEPT]] = source
        targets[C[KEPT]] = target
        C[KEPT] += 1
    return np.int64(end)


@kernel("i64[:], const i32[:], const i32[:], i32[:], i32[:] -> i64")
def remove_pairs(C: Any, left: Any, right: Any, sources: Any, targets: Any) -> Any:
    """Remove pairs of ids; returns how many were there, and writes them, as numbers."""
    kept = 0
    for index in range(len(left)):
        source = find_node(C, np.int64(left[index]))
        target = find_node(C, np.int64(right[index]))
        if source < 0 or target < 0 or not is_external(C, source, target):
            continue
        take_away(C, TARGETS, source, target)
        take_away(C, SOURCES, target, source)
        C[EDGES] -= 1
        sources[kept] = source
        targets[kept] = target
        kept += 1
    return kept


@kernel("i64[:], i32[:], i32[:]")
def write_externals(C: Any, left: Any, right: Any) -> None:
    """Write out the external pairs."""
    ids, pool = vector(C, IDS), pool_of(C, TARGETS)
    starts, lengths = vector(C, START), vector(C, LENGTH)
    count = 0
    for node in range(C[NODES]):
        for place in range(starts[node], starts[node] + lengths[node]):
            left[count] = ids[node]
            right[count] = ids[pool[place]]
            count += 1


@kernel("i64[:] -> i64")
def count_idle(C: Any) -> Any:
    """How many nodes have no pair left."""
    targets, sources = vector(C, LENGTH), vector(C, LENGTH + ABREAST)
    idle = 0
    for node in range(C[NODES]):
        idle += targets[node] == 0 and sources[node] == 0
    return idle
