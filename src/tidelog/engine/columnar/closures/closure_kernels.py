"""Kernels over the external pairs of a closure: nodes, neighbours, components. Mutates its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import int32_at, int64_at, kernel, mix, subroutine

# ---- Kernels over the external pairs of a closure: nodes, lists of neighbours. Mutates its arguments.
#
# A closure is described by one integer array C. Its nodes are numbered from 0 in order of appearance;
# whatever is known of each is a vector of int32, all of the same length, one behind the other. Pairs are kept
# twice, as lists of targets per source and of sources per target: a node's list lies in a pool, and moves to
# its end when it outgrows its room.

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
def vector(C: Any, number: Any) -> Any:
    """The vector with this number."""
    return int32_at(C[VECTORS] + 4 * number * C[CAPACITY], C[CAPACITY])


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
    """Whether the pair is external; searches the shorter of the two lists."""
    if vector(C, LENGTH)[source] <= vector(C, LENGTH + ABREAST)[target]:
        return find_place(C, TARGETS, source, target) >= 0
    return find_place(C, SOURCES, target, source) >= 0


@subroutine
def required_room(C: Any, side: Any, node: Any) -> Any:
    """The free room in the pool that adding a neighbour needs: none, or that of a longer list."""
    length = np.int64(vector(C, LENGTH + ABREAST * side)[node])
    if length < vector(C, ROOM + ABREAST * side)[node]:
        return np.int64(0)
    return max(2 * length, np.int64(FIRST_ROOM))


@subroutine
def lacks_room(C: Any, side: Any, node: Any) -> Any:
    """Whether the pool must grow before a neighbour is added."""
    top = C[POOL_TOP + ABREAST * side]
    return top + required_room(C, side, node) > C[POOL_CAPACITY + ABREAST * side]


@subroutine
def append(C: Any, side: Any, node: Any, neighbour: Any) -> None:
    """Add a neighbour to a node's list; the pool has room."""
    pool = pool_of(C, side)
    starts = vector(C, START + ABREAST * side)
    lengths = vector(C, LENGTH + ABREAST * side)
    length = np.int64(lengths[node])
    room = required_room(C, side, node)
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
    """Enter the pairs of ids from place `done` to `end`; returns the place reached, before which C must grow.

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
    """Remove pairs of ids; writes the existing ones as numbers and returns how many they are."""
    count = 0
    for index in range(len(left)):
        source = find_node(C, np.int64(left[index]))
        target = find_node(C, np.int64(right[index]))
        if source < 0 or target < 0 or not is_external(C, source, target):
            continue
        take_away(C, TARGETS, source, target)
        take_away(C, SOURCES, target, source)
        C[EDGES] -= 1
        sources[count] = source
        targets[count] = target
        count += 1
    return count


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


# ---- Kernels over the components of external pairs as undirected edges. Mutates its arguments.
#
# The members of a component form a ring (NEXT) and have the same LABEL, the number of one of them. A node
# without pairs is a separate component, and not PAIRED.
#
# A change is described by members listed in groups, which consist of pieces: the components that a group was
# merged from, or was split into. The pairs that change are those between different pieces of one group, and
# (x, x) where x is PAIRED now and was not, or the other way round.
#
# Invariant: x and y are a pair of the closure iff they have the same label and are PAIRED.

# ---- vectors
(
    LABEL,
    NEXT,
    PAIRED,
    PARENT,  # of labels that are being merged: a forest, and rings of those under one root
    RING,
    TOUCHED,  # 1 for the labels of components that may fall apart
    GATHERED,  # nodes of components that may fall apart
    PIECE_END,  # places in LISTED
    GROUP_END,  # places in PIECE_END
    VECTOR_COUNT,
) = range(OWN_VECTORS, OWN_VECTORS + 10)


@subroutine
def has_pairs(C: Any, node: Any) -> Any:
    """Whether an external pair has the node."""
    return vector(C, LENGTH)[node] > 0 or vector(C, LENGTH + ABREAST)[node] > 0


@kernel("i64[:], const i32[:], const i32[:], bool[:]")
def contains_pairs(C: Any, left: Any, right: Any, found: Any) -> None:
    """Write for each pair of ids whether it is in the closure."""
    label, paired = vector(C, LABEL), vector(C, PAIRED)
    for index in range(len(left)):
        source = find_node(C, np.int64(left[index]))
        target = find_node(C, np.int64(right[index]))
        found[index] = source >= 0 and target >= 0 and label[source] == label[target] and paired[source] == 1


# ---- groups of pieces


@subroutine
def begin_change(C: Any) -> None:
    """No groups."""
    C[GROUPS] = C[PIECES] = C[MEMBERS] = 0


@subroutine
def end_piece(C: Any) -> None:
    """The members listed last are a piece."""
    vector(C, PIECE_END)[C[PIECES]] = C[MEMBERS]
    C[PIECES] += 1


@subroutine
def end_group(C: Any) -> None:
    """The pieces listed last are a group."""
    vector(C, GROUP_END)[C[GROUPS]] = C[PIECES]
    C[GROUPS] += 1


@subroutine
def make_component(C: Any, start: Any) -> None:
    """Make one component of the members listed from `start` on."""
    listed, label, following = vector(C, LISTED), vector(C, LABEL), vector(C, NEXT)
    end = C[MEMBERS]
    for place in range(start, end):
        label[listed[place]] = listed[start]
        following[listed[place]] = listed[place + 1 if place + 1 < end else start]


@subroutine
def count_changed(C: Any) -> Any:
    """The number of pairs that change."""
    listed, paired = vector(C, LISTED), vector(C, PAIRED)
    piece_end, group_end = vector(C, PIECE_END), vector(C, GROUP_END)
    changed, piece, place = np.int64(0), 0, np.int64(0)
    for group in range(C[GROUPS]):
        start = place
        while piece < group_end[group]:
            size = piece_end[piece] - place
            changed -= size * size
            if size == 1 and (paired[listed[place]] == 1) != has_pairs(C, listed[place]):
                changed += 1
            place = np.int64(piece_end[piece])
            piece += 1
        changed += (place - start) * (place - start)
    return changed


@kernel("i64[:], i32[:], i32[:], i64, i64, i64, i64, i64 -> i64, i64, i64, i64")
def write_changed(
    C: Any, left: Any, right: Any, place: Any, piece: Any, group: Any, count: Any, most: Any
) -> Any:
    """Write the pairs that change; PAIRED is correct afterwards.

    Starts at a member, its piece and its group, with the `count`th pair, and ends with `most` pairs; returns
    where to continue.
    """
    listed, paired, ids = vector(C, LISTED), vector(C, PAIRED), vector(C, IDS)
    piece_end, group_end = vector(C, PIECE_END), vector(C, GROUP_END)
    while place < C[MEMBERS] and count < most:
        while place == piece_end[piece]:
            piece += 1
        while piece == group_end[group]:
            group += 1
        first_piece = group_end[group - 1] if group > 0 else 0
        group_start = piece_end[first_piece - 1] if first_piece > 0 else 0
        start, stop = piece_end[piece - 1] if piece > 0 else 0, piece_end[piece]
        node = listed[place]
        if (paired[node] == 1) != has_pairs(C, node):
            paired[node] = 1 - paired[node]
            left[count] = ids[node]
            right[count] = ids[node]
            count += 1
        for other in range(group_start, start):
            left[count] = ids[node]
            right[count] = ids[listed[other]]
            count += 1
        for other in range(stop, piece_end[group_end[group] - 1]):
            left[count] = ids[node]
            right[count] = ids[listed[other]]
            count += 1
        place += 1
    return place, piece, group, count


# ---- merging


@subroutine
def find_root(parent: Any, label: Any) -> Any:
    """The root above a label; the way to it becomes shorter."""
    while parent[label] != label:
        parent[label] = parent[parent[label]]
        label = parent[label]
    return label


@subroutine
def join_labels(C: Any, sources: Any, targets: Any, count: Any) -> Any:
    """Join the labels that new pairs connect; returns the number of labels, which are listed in QUEUE."""
    stamp = next_stamp(C)
    label, paired, marks = vector(C, LABEL), vector(C, PAIRED), vector(C, FORWARD)
    parent, ring, queue = vector(C, PARENT), vector(C, RING), vector(C, QUEUE)
    label_count = 0
    for index in range(count):
        left, right = label[sources[index]], label[targets[index]]
        if left == right and paired[sources[index]] == 1:
            continue
        for end in (left, right):
            if marks[end] != stamp:
                marks[end] = stamp
                parent[end] = end
                ring[end] = end
                queue[label_count] = end
                label_count += 1
        left, right = find_root(parent, left), find_root(parent, right)
        if left != right:
            parent[right] = left
            ring[left], ring[right] = ring[right], ring[left]
    return label_count


@kernel("i64[:], i32[:], i32[:], i64 -> i64")
def merge(C: Any, sources: Any, targets: Any, count: Any) -> Any:
    """Merge the components that new external pairs connect; returns the number of gained pairs."""
    begin_change(C)
    listed, following = vector(C, LISTED), vector(C, NEXT)
    parent, ring, queue = vector(C, PARENT), vector(C, RING), vector(C, QUEUE)
    for index in range(join_labels(C, sources, targets, count)):
        root = queue[index]
        if parent[root] != root:
            continue
        start = C[MEMBERS]
        label = root
        while True:
            node = label
            while True:
                listed[C[MEMBERS]] = node
                C[MEMBERS] += 1
                node = following[node]
                if node == label:
                    break
            end_piece(C)
            label = ring[label]
            if label == root:
                break
        end_group(C)
        make_component(C, start)
    return count_changed(C)


# ---- splitting


@subroutine
def is_connected(C: Any, source: Any, target: Any) -> Any:
    """Whether external pairs connect two nodes, and the cost of the search.

    Searches from both ends, each time from the cheaper one.
    """
    stamp = next_stamp(C)
    marks, other_marks = vector(C, FORWARD), vector(C, BACKWARD)
    queue, other_queue = vector(C, QUEUE), vector(C, OTHER_QUEUE)
    queue[0], other_queue[0] = source, target
    marks[source] = stamp
    other_marks[target] = stamp
    position, other_position, end, other_end = 0, 0, 1, 1
    cost, other_cost = 0, 0
    while position < end and other_position < other_end:
        if cost > other_cost:
            marks, other_marks = other_marks, marks
            queue, other_queue = other_queue, queue
            position, other_position, end, other_end = other_position, position, other_end, end
            cost, other_cost = other_cost, cost
        node = queue[position]
        position += 1
        for side in range(2):
            pool = pool_of(C, side)
            start = vector(C, START + ABREAST * side)[node]
            length = vector(C, LENGTH + ABREAST * side)[node]
            cost += 1 + length
            for place in range(start, start + length):
                neighbour = pool[place]
                if other_marks[neighbour] == stamp:
                    return True, cost + other_cost
                if marks[neighbour] != stamp:
                    marks[neighbour] = stamp
                    queue[end] = neighbour
                    end += 1
    return False, cost + other_cost


@subroutine
def list_split_candidates(C: Any, sources: Any, targets: Any, count: Any, budget: Any) -> Any:
    """List in RING the labels of components that removed pairs may have split; returns their number.

    Once the searches have cost more than the budget, a component counts as split without a search.
    """
    label, is_listed, ring = vector(C, LABEL), vector(C, TOUCHED), vector(C, RING)
    label_count = 0
    for index in range(count):
        source, target = sources[index], targets[index]
        if is_listed[label[source]] == 1:
            continue
        is_whole = False
        if source == target:
            is_whole = has_pairs(C, source)
        elif budget > 0:
            is_whole, cost = is_connected(C, source, target)
            budget -= cost
        if not is_whole:
            is_listed[label[source]] = 1
            ring[label_count] = label[source]
            label_count += 1
    for index in range(label_count):
        is_listed[ring[index]] = 0
    return label_count


@subroutine
def regroup(C: Any, count: Any) -> None:
    """Find the components of the GATHERED nodes, which are all nodes of some former components.

    Adds a group of them to the change, with a piece for each component.
    """
    stamp = next_stamp(C)
    marks, gathered, listed = vector(C, FORWARD), vector(C, GATHERED), vector(C, LISTED)
    for index in range(count):
        if marks[gathered[index]] == stamp:
            continue
        start = C[MEMBERS]
        listed[start] = gathered[index]
        marks[gathered[index]] = stamp
        position, end = start, start + 1
        while position < end:
            node = listed[position]
            position += 1
            for side in range(2):
                pool = pool_of(C, side)
                first = vector(C, START + ABREAST * side)[node]
                for place in range(first, first + vector(C, LENGTH + ABREAST * side)[node]):
                    if marks[pool[place]] != stamp:
                        marks[pool[place]] = stamp
                        listed[end] = pool[place]
                        end += 1
        C[MEMBERS] = end
        end_piece(C)
        make_component(C, start)
    end_group(C)


@kernel("i64[:], i32[:], i32[:], i64, i64 -> i64")
def split(C: Any, sources: Any, targets: Any, count: Any, budget: Any) -> Any:
    """Split the components that removed pairs connected; returns the number of lost pairs."""
    begin_change(C)
    following, ring, gathered = vector(C, NEXT), vector(C, RING), vector(C, GATHERED)
    for index in range(list_split_candidates(C, sources, targets, count, budget)):
        size = 0
        node = ring[index]
        while True:
            gathered[size] = node
            size += 1
            node = following[node]
            if node == ring[index]:
                break
        regroup(C, size)
    return count_changed(C)


@kernel("i64[:], i32[:]")
def restore(C: Any, ids: Any) -> None:
    """Restore the components of these nodes from the external pairs."""
    begin_change(C)
    stamp = next_stamp(C)
    marks, gathered, paired = vector(C, BACKWARD), vector(C, GATHERED), vector(C, PAIRED)
    size = 0
    for identity in ids:
        node = find_node(C, np.int64(identity))
        if marks[node] != stamp:
            marks[node] = stamp
            gathered[size] = node
            size += 1
    regroup(C, size)
    for index in range(size):
        paired[gathered[index]] = 1 if has_pairs(C, gathered[index]) else 0


# ---- reading


@kernel("i64[:] -> i64")
def count_pairs(C: Any) -> Any:
    """How many pairs the closure has."""
    label, paired, sizes = vector(C, LABEL), vector(C, PAIRED), vector(C, GATHERED)
    for node in range(C[NODES]):
        sizes[node] = 0
    count = np.int64(0)
    for node in range(C[NODES]):
        if paired[node] == 1:
            count += 2 * sizes[label[node]] + 1  # squares are sums of odd numbers
            sizes[label[node]] += 1
    return count


@kernel("i64[:], i32[:], i32[:]")
def write_pairs(C: Any, left: Any, right: Any) -> None:
    """Write all pairs."""
    ids, following, paired = vector(C, IDS), vector(C, NEXT), vector(C, PAIRED)
    count = np.int64(0)
    for node in range(C[NODES]):
        member = np.int64(node)
        while paired[node] == 1:
            left[count] = ids[node]
            right[count] = ids[member]
            count += 1
            member = np.int64(following[member])
            if member == node:
                break
