"""Kernels over rows of bits: which nodes each node reaches, one row or many at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import count_ones, int64_at, kernel, subroutine, trailing_zeros
from tidelog.engine.columnar.closures.closure_kernels import (
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

# ---- Kernels over rows of bits: which nodes each node reaches. Mutates its arguments.
#
# A node's row has a bit per node. Outside the words FIRST to END of a row all bits are 0, so that sparse rows
# and rows of neighbours numbered alike cost little.
#
# Invariant: bit t of row s is set iff a path of one or more external pairs leads from s to t.

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
    """The word in which only a node's bit is set."""
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
    """Move the pairs that are not in the closure to the front; returns their number."""
    kept = 0
    for index in range(count):
        if not has_bit(C, np.int64(sources[index]), np.int64(targets[index])):
            sources[kept] = sources[index]
            targets[kept] = targets[index]
            kept += 1
    return kept


@subroutine
def search_backwards(C: Any, count: Any, stamp: Any, target: Any, budget: Any) -> Any:
    """Add to the listed nodes, marked with the stamp, all from which external pairs lead to one of them.

    Leaves out nodes that reach the target already, unless it is -1: so do all nodes that reach them. Returns
    the number of listed nodes, or -1 if the search costs more than the budget.
    """
    listed, marks = vector(C, LISTED), vector(C, FORWARD)
    sources, start, length = pool_of(C, SOURCES), vector(C, START + ABREAST), vector(C, LENGTH + ABREAST)
    position = 0
    while position < count:
        node = np.int64(listed[position])
        position += 1
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
    """List the source and the nodes that reach it, unless they reach the target; returns their number."""
    listed = vector(C, LISTED)
    if has_bit(C, source, target):
        return np.int64(0)
    stamp = next_stamp(C)
    listed[0] = source
    vector(C, FORWARD)[source] = stamp
    listed_count = search_backwards(C, np.int64(1), stamp, target, C[NODES])
    if listed_count >= 0:
        return listed_count
    # There are many nodes: reading their rows is faster than a search.
    listed_count = np.int64(0)
    for node in range(C[NODES]):
        if (node == source or has_bit(C, node, source)) and not has_bit(C, node, target):
            listed[listed_count] = node
            listed_count += 1
    return listed_count


@kernel("i64[:], i64, i64 -> i64, i64, i64, i64")
def extend(C: Any, source: Any, target: Any) -> Any:
    """List the nodes that gain by a new pair; returns their number, that of gained pairs, and the words.

    The scratch row has the nodes that the target adds to each.
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
    """Add the scratch row to the listed nodes, and write the pairs that they gain.

    Starts at a place in the list, with the `count`th pair, and ends with `most` pairs; returns where to
    continue.
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


# ---- deletions


@subroutine
def is_reached(C: Any, source: Any, target: Any) -> Any:
    """Whether external pairs lead from source to target, and the cost of the search.

    Searches from both ends, each time from the cheaper one. Rows may have too many nodes, never too few:
    nodes whose rows exclude a path are skipped.
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
                neighbour = np.int64(targets[place])
                if backward[neighbour] == stamp:
                    return True, ahead_cost + behind_cost
                if forward[neighbour] != stamp and has_bit(C, neighbour, target):
                    forward[neighbour] = stamp
                    ahead[ahead_end] = neighbour
                    ahead_end += 1
        else:
            node = np.int64(behind[behind_next])
            behind_next += 1
            behind_cost += 1 + source_length[node]
            for place in range(source_start[node], source_start[node] + source_length[node]):
                neighbour = np.int64(sources[place])
                if forward[neighbour] == stamp:
                    return True, ahead_cost + behind_cost
                if backward[neighbour] != stamp and has_bit(C, source, neighbour):
                    backward[neighbour] = stamp
                    behind[behind_end] = neighbour
                    behind_end += 1
    return False, ahead_cost + behind_cost


@kernel("i64[:], i32[:], i32[:], i64, i64 -> i64")
def keep_broken(C: Any, sources: Any, targets: Any, count: Any, budget: Any) -> Any:
    """Move the removed pairs that no other path replaces to the front; returns their number.

    Once the searches have cost more than the budget, pairs count as broken without a search.
    """
    kept = 0
    for index in range(count):
        source, target = np.int64(sources[index]), np.int64(targets[index])
        is_replaced = False
        if budget > 0:
            is_replaced, cost = is_reached(C, source, target)
            budget -= cost
        if not is_replaced:
            sources[kept] = source
            targets[kept] = target
            kept += 1
    return kept


@subroutine
def mark_connected(C: Any, side: Any, node: Any, stamp: Any, budget: Any) -> Any:
    """Mark all nodes that reach a node, or that it reaches; returns the rest of the budget."""
    marks, queue, pool = vector(C, BACKWARD), vector(C, QUEUE), pool_of(C, side)
    start, length = vector(C, START + ABREAST * side), vector(C, LENGTH + ABREAST * side)
    position, end = 0, 0
    while budget > 0:
        budget -= 1 + length[node]
        for place in range(start[node], start[node] + length[node]):
            if marks[pool[place]] != stamp:
                marks[pool[place]] = stamp
                queue[end] = pool[place]
                end += 1
        if position == end:
            break
        node = np.int64(queue[position])
        position += 1
    return budget


@kernel("i64[:], i32[:], i64, i64, i64 -> i64")
def list_lost(C: Any, targets: Any, count: Any, source: Any, most: Any) -> Any:
    """List in OTHER_QUEUE the targets of broken pairs and all nodes that they reach; returns their number.

    Rows lose no other bits. For a single pair, whose source is given (otherwise -1), nodes that the source
    still reaches are left out. At most `most` are listed; `most` + 1 means that there are more.
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
    listed_count = 0
    for word in range(C[STRIDE]):
        bits = np.uint64(total[word])
        while bits != 0:
            target = 64 * word + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if marks[target] == stamp:
                continue
            if listed_count == most:
                return most + 1
            listed[listed_count] = target
            listed_count += 1
    return listed_count


@kernel("i64[:], i64, i64, i64, i32[:], i32[:] -> i64, bool")
def clear_columns(C: Any, listed_count: Any, lost_count: Any, budget: Any, left: Any, right: Any) -> Any:
    """Clear the bits of lost nodes in the listed rows that no longer reach them, one node at a time.

    Writes the pairs; returns their number, and whether the budget was sufficient for all nodes.
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


# ---- Kernels over many rows of bits at once: components, each after those it leads to. Mutates what it is
# given.
#
# Tarjan: Depth-First Search and Linear Graph Algorithms, SIAM Journal on Computing 1972; Nuutila: Efficient
# Transitive Closure Computation in Large Digraphs, 1995, for rows written as components are found.

WAITING = -1


@subroutine
def scan_reaching(C: Any, sources: Any, count: Any) -> Any:
    """List the sources and all nodes whose rows reach one; returns their number."""
    rows, total, listed = rows_of(C), total_of(C), vector(C, LISTED)
    first, end = vector(C, FIRST), vector(C, END)
    clear_total(C)
    for index in range(count):
        total[sources[index] >> 6] |= bit_of(np.int64(sources[index]))
    listed_count = np.int64(0)
    for node in range(C[NODES]):
        reaches = (total[node >> 6] & bit_of(node)) != 0
        word = np.int64(first[node])
        while not reaches and word < end[node]:
            reaches = (total[word] & rows[node * C[STRIDE] + word]) != 0
            word += 1
        if reaches:
            listed[listed_count] = node
            listed_count += 1
    return listed_count


@subroutine
def note_rows(C: Any, listed_count: Any) -> Any:
    """Record the words of the listed rows; returns their number, and that of the pairs from these nodes."""
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
    """List the sources and all nodes that reach one; returns the numbers of nodes, of their words and pairs.

    After a deletion the search finds the same nodes as the former rows have: a node that needed a broken pair
    to reach a source reaches the source of that pair.
    """
    listed, marks = vector(C, LISTED), vector(C, FORWARD)
    stamp = next_stamp(C)
    listed_count = np.int64(0)
    for index in range(count):
        if marks[sources[index]] != stamp:
            marks[sources[index]] = stamp
            listed[listed_count] = sources[index]
            listed_count += 1
    listed_count = search_backwards(C, listed_count, stamp, np.int64(-1), C[NODES])
    if listed_count < 0:
        listed_count = scan_reaching(C, sources, count)
    words, pairs = note_rows(C, listed_count)
    return listed_count, words, pairs


@kernel("i64[:], i64, i64 -> i64, i64, i64")
def keep_losing(C: Any, listed_count: Any, target: Any) -> Any:
    """Keep the nodes listed for one broken pair that lose pairs; returns the same as `list_reaching`.

    All nodes that a node reached through the pair it reached through its target: if another path leads there,
    it loses no pairs.
    """
    listed, marks = vector(C, LISTED), vector(C, BACKWARD)
    stamp = next_stamp(C)
    mark_connected(C, SOURCES, target, stamp, C[EDGES] + C[NODES] + 1)
    kept_count = np.int64(0)
    for place in range(listed_count):
        if marks[listed[place]] != stamp:
            listed[kept_count] = listed[place]
            kept_count += 1
    words, pairs = note_rows(C, kept_count)
    return kept_count, words, pairs


@kernel("i64[:] -> i64")
def list_all(C: Any) -> Any:
    """List all nodes, as if their rows had been empty; returns their number."""
    listed, old_first, old_end = vector(C, LISTED), vector(C, OLD_FIRST), vector(C, OLD_END)
    for node in range(C[NODES]):
        listed[node] = node
        old_first[node] = 0
        old_end[node] = 0
    return C[NODES]


@subroutine
def close_component(C: Any, bottom: Any, top: Any) -> Any:
    """Write the row of the component on this part of the stack; the rows of components behind it are correct.

    All members have the same row: the nodes that their outside neighbours reach, and, if there is a cycle,
    the members themselves. Returns the number of words read and written: at most two rows per node.
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
    """Mark the listed nodes as waiting for their rows."""
    listed, order = vector(C, LISTED), vector(C, ORDER)
    clear_total(C)
    for index in range(listed_count):
        order[listed[index]] = WAITING


@kernel("i64[:], i64, i64, i64, i64, i64, i64 -> i64, i64, i64, i64")
def close_listed(C: Any, listed_count: Any, index: Any, visited: Any, depth: Any, top: Any, most: Any) -> Any:
    """Rewrite the rows of the listed nodes; all other rows are correct.

    Tarjan's search finds components after those they lead to, so that each row is written once. After `most`
    pairs and words it stops at the end of a component, and returns its position as the arguments of the next
    call. It is complete when no listed node remains.
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
    """The numbers of pairs that the listed rows have gained and lost."""
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
            common = np.int64(count_ones(np.uint64(rows[row + word] & old[offset])))
            gained -= common
            lost += np.int64(count_ones(np.uint64(old[offset]))) - common
            offset += 1
    return gained, lost


# ---- pairs of the listed rows in portions: from a place in the list and one in `old`, with the `count`th
# pair, until there are `most` pairs; the kernels return where to continue


@kernel("i64[:], i64, i64[:], i32[:], i32[:], i64, i64, i64, i64 -> i64, i64, i64")
def write_gained(
    C: Any, listed_count: Any, old: Any, left: Any, right: Any, index: Any, offset: Any, count: Any, most: Any
) -> Any:
    """Write the pairs of the listed rows that are not in the old ones."""
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
    """Write the pairs of the old rows that are not in the listed ones."""
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
