"""Kernels over rows of bits: which nodes each node reaches. Mutates what it is given.

A node's row has a bit per node. Outside the words FIRST to END of a row all bits are 0, so that sparse rows
and rows of neighbours numbered alike cost little.

Invariant: bit t of row s is set iff a path of one or more external pairs leads from s to t.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import count_ones, int64_at, kernel, subroutine, trailing_zeros
from tidelog.engine.columnar.closure_kernels import (
    ABREAST,
    BACKWARD,
    EDGES,
    FORWARD,
    IDS,
    LENGTH,
    LISTED,
    MATRIX,
    MATRIX_LENGTH,
    NODES,
    OTHER_QUEUE,
    OWN_VECTORS,
    QUEUE,
    SOURCES,
    START,
    STRIDE,
    TARGETS,
    TOTAL,
    find_node,
    next_stamp,
    pool_of,
    vector,
)

# ---- vectors
(
    FIRST,  # the words of a row that may hold bits
    END,
    OLD_FIRST,  # the same for the listed rows as they were
    OLD_END,
    ORDER,  # 0 for a node whose row is right, -1 while it waits, or its number in the order of the search
    LOWEST,
    STACK,  # nodes whose component is still open
    PATH,  # nodes on the way from the root of the search, and how far each has come
    PROGRESS,
    VECTOR_COUNT,
) = range(OWN_VECTORS, OWN_VECTORS + 10)

ONE = np.uint64(1)
ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@subroutine
def rows_of(C: Any) -> Any:
    """The words of all rows."""
    return int64_at(C[MATRIX], C[MATRIX_LENGTH])


@subroutine
def total_of(C: Any) -> Any:
    """The words of the scratch row."""
    return int64_at(C[TOTAL], C[STRIDE])


@subroutine
def bit_of(node: Any) -> Any:
    """The word in which a node's bit alone is set."""
    return np.int64(ONE << np.uint64(node & 63))


@subroutine
def has_bit(C: Any, source: Any, target: Any) -> Any:
    """Whether the source reaches the target."""
    return (rows_of(C)[source * C[STRIDE] + (target >> 6)] & bit_of(target)) != 0


@subroutine
def clear_total(C: Any) -> None:
    """Clear the scratch row."""
    total = total_of(C)
    for word in range(C[STRIDE]):
        total[word] = 0


@subroutine
def write_bits(bits: Any, word: Any, source: Any, C: Any, count: Any, left: Any, right: Any) -> Any:
    """Write a pair for each bit of one word, from place `count` on; returns the place after them."""
    ids = vector(C, IDS)
    first, identity = 64 * word, ids[source]
    if bits == ALL_ONES:
        for place in range(64):
            left[count + place] = identity
            right[count + place] = ids[first + place]
        return count + 64
    while bits != 0:
        left[count] = identity
        right[count] = ids[first + np.int64(trailing_zeros(bits))]
        count += 1
        bits &= bits - ONE
    return count


@kernel("i64[:], const i32[:], const i32[:], bool[:]")
def contains_pairs(C: Any, left: Any, right: Any, found: Any) -> None:
    """Write for each pair of ids whether it is in the closure."""
    for index in range(len(left)):
        source = find_node(C, np.int64(left[index]))
        target = find_node(C, np.int64(right[index]))
        found[index] = source >= 0 and target >= 0 and has_bit(C, source, target)


@kernel("i64[:], i32[:], i32[:], bool")
def set_pairs(C: Any, left: Any, right: Any, present: Any) -> None:
    """Put pairs of ids into the closure, or take them out, as they were before."""
    rows, first, end = rows_of(C), vector(C, FIRST), vector(C, END)
    for index in range(len(left)):
        source = find_node(C, np.int64(left[index]))
        target = find_node(C, np.int64(right[index]))
        word = target >> 6
        if present:
            rows[source * C[STRIDE] + word] |= bit_of(target)
            first[source] = min(np.int64(first[source]), word) if end[source] > 0 else word
            end[source] = max(np.int64(end[source]), word + 1)
        else:
            rows[source * C[STRIDE] + word] &= ~bit_of(target)


# ---- adding one pair


@kernel("i64[:], i32[:], i32[:], i64 -> i64")
def keep_missing(C: Any, sources: Any, targets: Any, count: Any) -> Any:
    """Move the pairs that are not in the closure to the front; returns how many they are."""
    kept = 0
    for index in range(count):
        if not has_bit(C, np.int64(sources[index]), np.int64(targets[index])):
            sources[kept] = sources[index]
            targets[kept] = targets[index]
            kept += 1
    return kept


@subroutine
def spread_back(C: Any, count: Any, stamp: Any, target: Any, budget: Any) -> Any:
    """Add to the listed nodes, marked with the stamp, all from which external pairs lead to one of them.

    Leaves out those that reach the target already, if there is one (it is not -1), and so do all before them.
    Returns how many are listed, or -1 if the search costs more than the budget.
    """
    listed, marks = vector(C, LISTED), vector(C, FORWARD)
    sources, start, length = pool_of(C, SOURCES), vector(C, START + ABREAST), vector(C, LENGTH + ABREAST)
    done = 0
    while done < count:
        node = np.int64(listed[done])
        done += 1
        budget -= 1 + length[node]
        if budget < 0:
            return np.int64(-1)
        for place in range(start[node], start[node] + length[node]):
            source = np.int64(sources[place])
            if marks[source] != stamp and (target < 0 or not has_bit(C, source, target)):
                marks[source] = stamp
                listed[count] = source
                count += 1
    return np.int64(count)


@subroutine
def list_gaining(C: Any, source: Any, target: Any) -> Any:
    """List the nodes that reach the source, or are it, and do not reach the target; returns how many."""
    listed = vector(C, LISTED)
    if has_bit(C, source, target):
        return np.int64(0)
    stamp = next_stamp(C)
    listed[0] = source
    vector(C, FORWARD)[source] = stamp
    found = spread_back(C, np.int64(1), stamp, target, C[NODES])
    if found >= 0:
        return found
    # There are many: their rows tell faster than a search.
    found = np.int64(0)
    for node in range(C[NODES]):
        if (node == source or has_bit(C, node, source)) and not has_bit(C, node, target):
            listed[found] = node
            found += 1
    return found


@kernel("i64[:], i64, i64 -> i64, i64, i64, i64")
def extend(C: Any, source: Any, target: Any) -> Any:
    """List the nodes that gain by a pair: how many, how many pairs they gain, and in which words.

    The scratch row holds what the target gives to each.
    """
    listed_count = list_gaining(C, source, target)
    rows, total, listed = rows_of(C), total_of(C), vector(C, LISTED)
    first, end = vector(C, FIRST), vector(C, END)
    clear_total(C)
    low, high = target >> 6, (target >> 6) + 1
    if end[target] > 0:
        low, high = min(low, np.int64(first[target])), max(high, np.int64(end[target]))
    for word in range(low, high):
        total[word] = rows[target * C[STRIDE] + word]
    total[target >> 6] |= bit_of(target)
    gained = np.int64(0)
    for place in range(listed_count):
        row = np.int64(listed[place]) * C[STRIDE]
        for word in range(low, high):
            gained += np.int64(count_ones(np.uint64(total[word] & ~rows[row + word])))
    return listed_count, gained, low, high


@kernel("i64[:], i64, i64, i64, i32[:], i32[:], i64, i64, i64 -> i64, i64")
def write_extended(
    C: Any, listed_count: Any, low: Any, high: Any, left: Any, right: Any, place: Any, count: Any, most: Any
) -> Any:
    """Give the scratch row to the listed nodes, and write out the pairs they gain.

    From a place in the list, and as the `count`th pair, on, until there are `most`; returns where to go on.
    """
    rows, total, listed = rows_of(C), total_of(C), vector(C, LISTED)
    first, end = vector(C, FIRST), vector(C, END)
    while place < listed_count and count < most:
        node = np.int64(listed[place])
        row = node * C[STRIDE]
        for word in range(low, high):
            new = total[word] & ~rows[row + word]
            if new != 0:
                count = write_bits(np.uint64(new), word, node, C, count, left, right)
                rows[row + word] |= new
        first[node] = min(np.int64(first[node]), low) if end[node] > 0 else low
        end[node] = max(np.int64(end[node]), high)
        place += 1
    return place, count


# ---- what a deletion breaks


@subroutine
def is_reached(C: Any, source: Any, target: Any) -> Any:
    """Whether external pairs lead from source to target, and how many were looked at.

    Searches from both ends, from the one that has cost less so far. Rows may hold too much, never too
    little: nodes whose row denies the way are left out.
    """
    stamp = next_stamp(C)
    forward, backward = vector(C, FORWARD), vector(C, BACKWARD)
    ahead, behind = vector(C, QUEUE), vector(C, OTHER_QUEUE)
    targets, target_start, target_length = pool_of(C, TARGETS), vector(C, START), vector(C, LENGTH)
    sources = pool_of(C, SOURCES)
    source_start, source_length = vector(C, START + ABREAST), vector(C, LENGTH + ABREAST)
    ahead[0], behind[0] = source, target
    forward[source] = stamp
    backward[target] = stamp
    ahead_next, behind_next = 0, 0
    ahead_end, behind_end = 1, 1
    ahead_cost, behind_cost = 0, 0
    while ahead_next < ahead_end and behind_next < behind_end:
        if ahead_cost <= behind_cost:
            node = np.int64(ahead[ahead_next])
            ahead_next += 1
            ahead_cost += 1 + target_length[node]
            for place in range(target_start[node], target_start[node] + target_length[node]):
                other = np.int64(targets[place])
                if backward[other] == stamp:
                    return True, ahead_cost + behind_cost
                if forward[other] != stamp and has_bit(C, other, target):
                    forward[other] = stamp
                    ahead[ahead_end] = other
                    ahead_end += 1
        else:
            node = np.int64(behind[behind_next])
            behind_next += 1
            behind_cost += 1 + source_length[node]
            for place in range(source_start[node], source_start[node] + source_length[node]):
                other = np.int64(sources[place])
                if forward[other] == stamp:
                    return True, ahead_cost + behind_cost
                if backward[other] != stamp and has_bit(C, source, other):
                    backward[other] = stamp
                    behind[behind_end] = other
                    behind_end += 1
    return False, ahead_cost + behind_cost


@kernel("i64[:], i32[:], i32[:], i64, i64 -> i64")
def keep_broken(C: Any, sources: Any, targets: Any, count: Any, budget: Any) -> Any:
    """Move the removed pairs that no other way replaces to the front; returns how many they are.

    Once the searches have cost more than the budget, pairs count as broken without a search.
    """
    kept = 0
    for index in range(count):
        source, target = np.int64(sources[index]), np.int64(targets[index])
        reached = False
        if budget > 0:
            reached, cost = is_reached(C, source, target)
            budget -= cost
        if not reached:
            sources[kept] = source
            targets[kept] = target
            kept += 1
    return kept


@subroutine
def mark_connected(C: Any, side: Any, node: Any, stamp: Any, budget: Any) -> Any:
    """Mark all nodes that reach a node, or that it reaches; returns what is left of the budget."""
    marks, queue, pool = vector(C, BACKWARD), vector(C, QUEUE), pool_of(C, side)
    start, length = vector(C, START + ABREAST * side), vector(C, LENGTH + ABREAST * side)
    done, end = 0, 0
    while budget > 0:
        budget -= 1 + length[node]
        for place in range(start[node], start[node] + length[node]):
            if marks[pool[place]] != stamp:
                marks[pool[place]] = stamp
                queue[end] = pool[place]
                end += 1
        if done == end:
            break
        node = np.int64(queue[done])
        done += 1
    return budget


@kernel("i64[:], i32[:], i64, i64, i64 -> i64")
def list_lost(C: Any, targets: Any, count: Any, source: Any, most: Any) -> Any:
    """List in OTHER_QUEUE the targets of broken pairs and all they reach; returns how many.

    A row loses no bit but theirs. For one pair, whose source is given (else it is -1), those that the source
    still reaches are left out. No more than `most` are listed; `most` + 1 means that there are more.
    """
    listed, rows, total = vector(C, OTHER_QUEUE), rows_of(C), total_of(C)
    first, end, marks = vector(C, FIRST), vector(C, END), vector(C, BACKWARD)
    stamp = next_stamp(C)
    if source >= 0:
        mark_connected(C, TARGETS, source, stamp, C[EDGES] + C[NODES] + 1)
    clear_total(C)
    for index in range(count):
        target = np.int64(targets[index])
        total[target >> 6] |= bit_of(target)
        for word in range(first[target], end[target]):
            total[word] |= rows[target * C[STRIDE] + word]
    found = 0
    for word in range(C[STRIDE]):
        bits = np.uint64(total[word])
        while bits != 0:
            target = 64 * word + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if marks[target] == stamp:
                continue
            if found == most:
                return most + 1
            listed[found] = target
            found += 1
    return found


@kernel("i64[:], i64, i64, i64, i32[:], i32[:] -> i64, bool")
def clear_columns(C: Any, listed_count: Any, lost_count: Any, budget: Any, left: Any, right: Any) -> Any:
    """Take the bits of lost nodes out of the listed rows that no longer reach them, one node at a time.

    Writes the pairs; returns how many they are, and whether the budget was enough for all nodes.
    """
    rows, ids, listed, lost = rows_of(C), vector(C, IDS), vector(C, LISTED), vector(C, OTHER_QUEUE)
    marks = vector(C, BACKWARD)
    count = np.int64(0)
    for index in range(lost_count):
        target = np.int64(lost[index])
        stamp = next_stamp(C)
        budget = mark_connected(C, SOURCES, target, stamp, budget - listed_count)
        if budget <= 0:
            return count, False
        for place in range(listed_count):
            source = np.int64(listed[place])
            if marks[source] != stamp and has_bit(C, source, target):
                rows[source * C[STRIDE] + (target >> 6)] &= ~bit_of(target)
                left[count] = ids[source]
                right[count] = ids[target]
                count += 1
    return count, True
