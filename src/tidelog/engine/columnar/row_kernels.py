"""Kernels over many rows of bits at once: components, each after those it leads to. Mutates what it is given.

Tarjan: Depth-First Search and Linear Graph Algorithms, SIAM Journal on Computing 1972; Nuutila: Efficient
Transitive Closure Computation in Large Digraphs, 1995, for rows written as components are found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import count_ones, kernel, subroutine
from tidelog.engine.columnar.closure_kernels import (
    BACKWARD,
    EDGES,
    FORWARD,
    LENGTH,
    LISTED,
    NODES,
    SOURCES,
    START,
    STRIDE,
    TARGETS,
    next_stamp,
    pool_of,
    vector,
)
from tidelog.engine.columnar.reach_kernels import (
    END,
    FIRST,
    LOWEST,
    OLD_END,
    OLD_FIRST,
    ORDER,
    PATH,
    PROGRESS,
    STACK,
    bit_of,
    clear_total,
    mark_connected,
    rows_of,
    spread_back,
    total_of,
    write_bits,
)

WAITING = -1


@subroutine
def scan_reaching(C: Any, sources: Any, count: Any) -> Any:
    """List the sources and all nodes whose rows reach one; returns how many."""
    rows, total, listed = rows_of(C), total_of(C), vector(C, LISTED)
    first, end = vector(C, FIRST), vector(C, END)
    clear_total(C)
    for index in range(count):
        total[sources[index] >> 6] |= bit_of(np.int64(sources[index]))
    found = np.int64(0)
    for node in range(C[NODES]):
        reaches = (total[node >> 6] & bit_of(node)) != 0
        word = np.int64(first[node])
        while not reaches and word < end[node]:
            reaches = (total[word] & rows[node * C[STRIDE] + word]) != 0
            word += 1
        if reaches:
            listed[found] = node
            found += 1
    return found


@subroutine
def note_rows(C: Any, listed_count: Any) -> Any:
    """Note where the listed rows have words; returns how many, and how many pairs begin at the nodes."""
    listed, first, end, length = vector(C, LISTED), vector(C, FIRST), vector(C, END), vector(C, LENGTH)
    old_first, old_end = vector(C, OLD_FIRST), vector(C, OLD_END)
    words, pairs = np.int64(0), np.int64(0)
    for place in range(listed_count):
        node = listed[place]
        old_first[place] = first[node]
        old_end[place] = end[node]
        words += end[node] - first[node]
        pairs += length[node]
    return words, pairs


@kernel("i64[:], i32[:], i64 -> i64, i64, i64")
def list_reaching(C: Any, sources: Any, count: Any) -> Any:
    """List the sources and all nodes that reach one; returns how many nodes, words in their rows, and pairs.

    After a deletion the search finds what the rows of before tell: whoever needed a broken pair to reach a
    source reaches the source of that pair.
    """
    listed, marks = vector(C, LISTED), vector(C, FORWARD)
    stamp = next_stamp(C)
    found = np.int64(0)
    for index in range(count):
        if marks[sources[index]] != stamp:
            marks[sources[index]] = stamp
            listed[found] = sources[index]
            found += 1
    found = spread_back(C, found, stamp, np.int64(-1), C[NODES])
    if found < 0:
        found = scan_reaching(C, sources, count)
    words, pairs = note_rows(C, found)
    return found, words, pairs


@kernel("i64[:], i64, i64 -> i64, i64, i64")
def keep_losing(C: Any, listed_count: Any, target: Any) -> Any:
    """Of the nodes listed for one broken pair keep those that lose by it; returns as `list_reaching` does.

    All that a node reached by way of the pair it reached by way of its target: if another way leads there,
    nothing is lost.
    """
    listed, marks = vector(C, LISTED), vector(C, BACKWARD)
    stamp = next_stamp(C)
    mark_connected(C, SOURCES, target, stamp, C[EDGES] + C[NODES] + 1)
    found = np.int64(0)
    for place in range(listed_count):
        if marks[listed[place]] != stamp:
            listed[found] = listed[place]
            found += 1
    words, pairs = note_rows(C, found)
    return found, words, pairs


@kernel("i64[:] -> i64")
def list_all(C: Any) -> Any:
    """List all nodes, as if their rows had been empty; returns how many they are."""
    listed, old_first, old_end = vector(C, LISTED), vector(C, OLD_FIRST), vector(C, OLD_END)
    for node in range(C[NODES]):
        listed[node] = node
        old_first[node] = 0
        old_end[node] = 0
    return C[NODES]


@subroutine
def close_component(C: Any, bottom: Any, top: Any) -> Any:
    """Write the row of the component on this part of the stack; the rows behind it are right.

    All members have the same row: what their neighbours outside reach, and, if there is a way back, the
    members themselves. Returns how many words were read and written: at most two rows per node.
    """
    rows, total, stride = rows_of(C), total_of(C), C[STRIDE]
    stack, order = vector(C, STACK), vector(C, ORDER)
    first, end = vector(C, FIRST), vector(C, END)
    targets, start, length = pool_of(C, TARGETS), vector(C, START), vector(C, LENGTH)
    low, high = stride, np.int64(0)
    cyclic = False
    words = np.int64(0)
    for index in range(bottom, top):
        node = np.int64(stack[index])
        for place in range(start[node], start[node] + length[node]):
            target = np.int64(targets[place])
            if order[target] != 0:  # open, and so in this component
                cyclic = True
            elif (total[target >> 6] & bit_of(target)) == 0:  # else its row is in the total already
                total[target >> 6] |= bit_of(target)
                low, high = min(low, target >> 6), max(high, (target >> 6) + 1)
                if end[target] > 0:
                    for word in range(first[target], end[target]):
                        total[word] |= rows[target * stride + word]
                    low, high = min(low, np.int64(first[target])), max(high, np.int64(end[target]))
                    words += end[target] - first[target]
    if cyclic:
        for index in range(bottom, top):
            node = np.int64(stack[index])
            total[node >> 6] |= bit_of(node)
            low, high = min(low, node >> 6), max(high, (node >> 6) + 1)
    low = min(low, high)
    for index in range(bottom, top):
        node = np.int64(stack[index])
        row = node * stride
        for word in range(first[node], end[node]):
            rows[row + word] = 0
        for word in range(low, high):
            rows[row + word] = total[word]
        first[node] = low
        end[node] = high
        order[node] = 0
    for word in range(low, high):
        total[word] = 0
    return words + (top - bottom) * (high - low)


@kernel("i64[:], i64")
def begin_closing(C: Any, listed_count: Any) -> None:
    """Let the listed nodes wait for their rows."""
    listed, order = vector(C, LISTED), vector(C, ORDER)
    clear_total(C)
    for index in range(listed_count):
        order[listed[index]] = WAITING


@kernel("i64[:], i64, i64, i64, i64, i64, i64 -> i64, i64, i64, i64")
def close_listed(C: Any, listed_count: Any, index: Any, visited: Any, depth: Any, top: Any, most: Any) -> Any:
    """Write the rows of the listed nodes anew; all other rows are right.

    Tarjan's search finds components after those they lead to, so that each row is written once. After `most`
    pairs and words it stops at the end of a component; it returns where it goes on, as it was given it. All
    is done when no listed node is left.
    """
    listed, order, lowest = vector(C, LISTED), vector(C, ORDER), vector(C, LOWEST)
    stack, path, progress = vector(C, STACK), vector(C, PATH), vector(C, PROGRESS)
    targets, start, length = pool_of(C, TARGETS), vector(C, START), vector(C, LENGTH)
    while most > 0:
        entering = np.int64(-1)
        if depth == 0:
            while index < listed_count and order[listed[index]] != WAITING:
                index += 1
            if index == listed_count:
                break
            entering = np.int64(listed[index])
        while True:
            if entering >= 0:
                visited += 1
                order[entering] = visited
                lowest[entering] = visited
                stack[top] = entering
                top += 1
                path[depth] = entering
                progress[depth] = 0
                depth += 1
                most -= length[entering]
            node = np.int64(path[depth - 1])
            entering = np.int64(-1)
            place = np.int64(progress[depth - 1])
            while place < length[node]:
                target = np.int64(targets[start[node] + place])
                place += 1
                if order[target] == WAITING:
                    entering = target
                    break
                if order[target] != 0:
                    lowest[node] = min(lowest[node], order[target])
            progress[depth - 1] = place
            if entering < 0:
                break
        depth -= 1
        if lowest[node] == order[node]:
            bottom = top - 1
            while stack[bottom] != node:
                bottom -= 1
            most -= close_component(C, bottom, top)
            top = bottom
        if depth > 0:
            parent = path[depth - 1]
            lowest[parent] = min(lowest[parent], lowest[node])
    return index, visited, depth, top


@kernel("i64[:], i64, i64[:]")
def keep_rows(C: Any, listed_count: Any, old: Any) -> None:
    """Write the words of the listed rows into `old`."""
    rows, listed = rows_of(C), vector(C, LISTED)
    old_first, old_end = vector(C, OLD_FIRST), vector(C, OLD_END)
    offset = np.int64(0)
    for index in range(listed_count):
        row = np.int64(listed[index]) * C[STRIDE]
        for word in range(old_first[index], old_end[index]):
            old[offset] = rows[row + word]
            offset += 1


@kernel("i64[:], i64, i64[:] -> i64, i64")
def count_differences(C: Any, listed_count: Any, old: Any) -> Any:
    """How many pairs the listed rows have gained and lost."""
    rows, listed = rows_of(C), vector(C, LISTED)
    first, end = vector(C, FIRST), vector(C, END)
    old_first, old_end = vector(C, OLD_FIRST), vector(C, OLD_END)
    gained, lost, offset = np.int64(0), np.int64(0), np.int64(0)
    for index in range(listed_count):
        node = np.int64(listed[index])
        row = node * C[STRIDE]
        for word in range(first[node], end[node]):
            gained += np.int64(count_ones(np.uint64(rows[row + word])))
        for word in range(old_first[index], old_end[index]):
            both = np.int64(count_ones(np.uint64(rows[row + word] & old[offset])))
            gained -= both
            lost += np.int64(count_ones(np.uint64(old[offset]))) - both
            offset += 1
    return gained, lost


# ---- pairs of the listed rows, some of them at a time: from a place in the list, one in `old`, and as the
# `count`th pair on, until there are `most`; what is returned is where to go on


@kernel("i64[:], i64, i64[:], i32[:], i32[:], i64, i64, i64, i64 -> i64, i64, i64")
def write_gained(
    C: Any, listed_count: Any, old: Any, left: Any, right: Any, index: Any, offset: Any, count: Any, most: Any
) -> Any:
    """Write out the pairs of the listed rows that are not in the old ones."""
    rows, listed = rows_of(C), vector(C, LISTED)
    first, end = vector(C, FIRST), vector(C, END)
    old_first, old_end = vector(C, OLD_FIRST), vector(C, OLD_END)
    while index < listed_count and count < most:
        node = np.int64(listed[index])
        row = node * C[STRIDE]
        shift = offset - old_first[index]
        for word in range(first[node], end[node]):
            bits = rows[row + word]
            if word >= old_first[index] and word < old_end[index]:
                bits &= ~old[shift + word]
            if bits != 0:
                count = write_bits(np.uint64(bits), word, node, C, count, left, right)
        offset += old_end[index] - old_first[index]
        index += 1
    return index, offset, count


@kernel("i64[:], i64, i64[:], i32[:], i32[:], i64, i64, i64, i64 -> i64, i64, i64")
def write_lost(
    C: Any, listed_count: Any, old: Any, left: Any, right: Any, index: Any, offset: Any, count: Any, most: Any
) -> Any:
    """Write out the pairs of the old rows that are not in the listed ones."""
    rows, listed = rows_of(C), vector(C, LISTED)
    old_first, old_end = vector(C, OLD_FIRST), vector(C, OLD_END)
    while index < listed_count and count < most:
        node = np.int64(listed[index])
        row = node * C[STRIDE]
        for word in range(old_first[index], old_end[index]):
            bits = old[offset] & ~rows[row + word]
            if bits != 0:
                count = write_bits(np.uint64(bits), word, node, C, count, left, right)
            offset += 1
        index += 1
    return index, offset, count
