"""Kernels over lists of intervals and over rows of ids: metric operators, the algebra of sets of points,
indexes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import inlined, kernel, mix, subroutine

# ---- Kernels over lists of intervals: metric operators, since and until, and the algebra of sets of points.
#
# An interval is a pair of 64-bit integers, its left and its right end, both belonging to it. On the dense
# timeline the end t is written 2t, or 2t + 1 on the left and 2t - 1 on the right where t itself is left out;
# on the integer timeline it is written t. Either way two intervals are one if the second begins at most 1
# behind the end of the first, and moving an end depends only on whether it is even.
#
# Lists lie anywhere in a pool: `first` and `count` tell where list i begins and how long it is. Operations
# take lists by number, -1 being the empty list, and write their results into arrays that have room: for as
# many intervals as the lists have together.
#
# Invariant: within a list intervals are in order, and none touches the next.

INFINITY = 1 << 62  # as a right end; negative as a left end
LIMIT = 1 << 60  # beyond which no finite end may lie
INTERSECT, UNITE, SUBTRACT = range(3)  # operations of sets


@inlined
def length_of(N: Any, numbers: Any, place: Any) -> Any:
    """How long the list at a place is."""
    return N[numbers[place]] if numbers[place] >= 0 else 0


@inlined
def begin_of(F: Any, numbers: Any, place: Any) -> Any:
    """Where the list at a place begins."""
    return F[numbers[place]] if numbers[place] >= 0 else 0


@kernel("const i64[:], const i64[:] -> i64")
def total_length(N: Any, numbers: Any) -> Any:
    """How many intervals the lists of these numbers have together."""
    total = 0
    for place in range(len(numbers)):
        total += length_of(N, numbers, place)
    return total


@kernel("const i64[:], const i64[:], const i64[:], const i64[:] -> i64")
def total_length_of_pairs(N: Any, numbers: Any, N2: Any, numbers2: Any) -> Any:
    """How many intervals pairs of lists have together."""
    total = 0
    for place in range(len(numbers)):
        total += length_of(N, numbers, place) + length_of(N2, numbers2, place)
    return total


@kernel("const i64[:] -> bool")
def is_increasing(numbers: Any) -> Any:
    """Whether each number is greater than the one before it."""
    place = 1
    while place < len(numbers) and numbers[place] > numbers[place - 1]:
        place += 1
    return place >= len(numbers)


@kernel("const i64[:], const i64[:], const i64[:], const i64[:], i64[:], i64[:], i64[:]")
def copy_lists(F: Any, N: Any, L: Any, R: Any, first: Any, left: Any, right: Any) -> None:
    """Write lists one behind the other, and where each of them begins."""
    end = 0
    for number in range(len(F)):
        first[number] = end
        for item in range(F[number], F[number] + N[number]):
            left[end] = L[item]
            right[end] = R[item]
            end += 1


@inlined
def appended(left: Any, right: Any, begin: Any, end: Any, one_left: Any, one_right: Any) -> Any:
    """The end of a list after an interval was added behind it, or made one with its last."""
    if one_left > one_right:
        return end
    if end > begin and one_left <= right[end - 1] + 1:
        right[end - 1] = max(right[end - 1], one_right)
        return end
    left[end] = one_left
    right[end] = one_right
    return end + 1


@inlined
def shifted(end: Any, even: Any, odd: Any) -> Any:
    """A finite end, moved by `even` or `odd` depending on its parity; an infinite end stays."""
    if end >= INFINITY or end <= -INFINITY:
        return end
    return end + (odd if end & 1 else even)


@inlined
def is_dropped(left: Any, right: Any, by: Any) -> Any:
    """Whether a unary operator drops an interval, since only infinite ones stay."""
    return (by[6] != 0 and left > -INFINITY) or (by[7] != 0 and right < INFINITY)


@kernel(
    "const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], i64[:], "
    "i64[:], i64[:], i64[:] -> i64, bool"
)
def move(
    F: Any, N: Any, L: Any, R: Any, numbers: Any,
    by: Any, first: Any, count: Any, left: Any, right: Any,
) -> Any:  # fmt: skip
    """Write the lists after a unary operator; returns how many intervals, and whether an end left the range.

    `by` has the shifts of left ends, even and odd, and of right ends, even and odd, then whether the left and
    the right end become infinite, and whether only intervals that are infinite to the left or right stay.
    """
    end = 0
    is_beyond = False
    for place in range(len(numbers)):
        begin = end
        start = begin_of(F, numbers, place)
        for item in range(start, start + length_of(N, numbers, place)):
            if is_dropped(L[item], R[item], by):
                continue
            moved_left = -INFINITY if by[4] != 0 else shifted(L[item], by[0], by[1])
            moved_right = INFINITY if by[5] != 0 else shifted(R[item], by[2], by[3])
            if (moved_left > -INFINITY and abs(moved_left) > LIMIT) or (
                moved_right < INFINITY and abs(moved_right) > LIMIT
            ):
                is_beyond = True
            end = appended(left, right, begin, end, moved_left, moved_right)
        first[place] = begin
        count[place] = end - begin
    return end, is_beyond


@inlined
def closed_left(end: Any, is_integer: Any) -> Any:
    """The left end of an interval with the point before it: where `since` may begin."""
    if end <= -INFINITY:
        return end
    return end - 1 if is_integer else end - (end & 1)


@inlined
def closed_right(end: Any, is_integer: Any) -> Any:
    """The right end of an interval with the point behind it: where `since` may end."""
    if end >= INFINITY:
        return end
    return end + 1 if is_integer else end + (end & 1)


@kernel(
    "const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], "
    "const i64[:], const i64[:], const i64[:], const i64[:], bool, i64[:], i64[:], i64[:], i64[:] -> "
    "i64, bool"
)
def lasting(
    F: Any, N: Any, L: Any, R: Any, numbers: Any,
    F2: Any, N2: Any, L2: Any, R2: Any, numbers2: Any,
    by: Any, is_integer: Any, first: Any, count: Any, left: Any, right: Any,
) -> Any:  # fmt: skip
    """Write the points that the first list reaches without a gap from points of the second: since, until.

    `by` moves points as for `move`; it is of a diamond whose interval is without 0. Returns the same.
    """
    end = 0
    is_beyond = False
    for place in range(len(numbers)):
        begin = end
        if numbers[place] >= 0 and numbers2[place] >= 0:
            item2 = F2[numbers2[place]]
            stop2 = item2 + N2[numbers2[place]]
            for item in range(F[numbers[place]], F[numbers[place]] + N[numbers[place]]):
                low = closed_left(L[item], is_integer)
                high = closed_right(R[item], is_integer)
                while item2 < stop2 and R2[item2] < low:
                    item2 += 1
                item_after = item2
                while item_after < stop2 and L2[item_after] <= high:
                    start = max(low, L2[item_after])
                    moved_left = -INFINITY if by[4] != 0 else shifted(start, by[0], by[1])
                    stop = min(high, R2[item_after])
                    moved_right = INFINITY if by[5] != 0 else shifted(stop, by[2], by[3])
                    if (moved_left > -INFINITY and abs(moved_left) > LIMIT) or (
                        moved_right < INFINITY and abs(moved_right) > LIMIT
                    ):
                        is_beyond = True
                    end = appended(left, right, begin, end, max(low, moved_left), min(high, moved_right))
                    item_after += 1
        first[place] = begin
        count[place] = end - begin
    return end, is_beyond


@inlined
def intersected(
    L: Any, R: Any, item: Any, stop: Any, L2: Any, R2: Any, item2: Any, stop2: Any,
    left: Any, right: Any, end: Any,
) -> Any:  # fmt: skip
    """Write the points that both lists have; returns the end of the written intervals."""
    while item < stop and item2 < stop2:
        one_left = max(L[item], L2[item2])
        one_right = min(R[item], R2[item2])
        if one_left <= one_right:
            left[end] = one_left
            right[end] = one_right
            end += 1
        if R[item] < R2[item2]:
            item += 1
        else:
            item2 += 1
    return end


@inlined
def united(
    L: Any, R: Any, item: Any, stop: Any, L2: Any, R2: Any, item2: Any, stop2: Any,
    left: Any, right: Any, end: Any,
) -> Any:  # fmt: skip
    """Write the points of either list; returns the end of the written intervals."""
    begin = end
    while item < stop or item2 < stop2:
        if item2 >= stop2 or (item < stop and L[item] <= L2[item2]):
            end = appended(left, right, begin, end, L[item], R[item])
            item += 1
        else:
            end = appended(left, right, begin, end, L2[item2], R2[item2])
            item2 += 1
    return end


@inlined
def subtracted(
    L: Any, R: Any, item: Any, stop: Any, L2: Any, R2: Any, item2: Any, stop2: Any,
    left: Any, right: Any, end: Any,
) -> Any:  # fmt: skip
    """Write the points of the first list only; returns the end of the written intervals."""
    while item < stop:
        low = L[item]
        while item2 < stop2 and R2[item2] < low:
            item2 += 1
        overlapping = item2
        while overlapping < stop2 and L2[overlapping] <= R[item] and low <= R[item]:
            if L2[overlapping] > low:
                left[end] = low
                right[end] = L2[overlapping] - 1
                end += 1
            low = R2[overlapping] + 1 if R2[overlapping] < INFINITY else INFINITY + 1
            overlapping += 1
        if low <= R[item]:
            left[end] = low
            right[end] = R[item]
            end += 1
        item += 1
    return end


@kernel(
    "i64, const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], const "
    "i64[:], const i64[:], const i64[:], const i64[:], i64[:], i64[:], i64[:], i64[:] -> i64"
)
def combine(
    operation: Any,
    F: Any, N: Any, L: Any, R: Any, numbers: Any,
    F2: Any, N2: Any, L2: Any, R2: Any, numbers2: Any,
    first: Any, count: Any, left: Any, right: Any,
) -> Any:  # fmt: skip
    """Write the result of a set operation on two lists, pair by pair; returns the number of intervals."""
    end = 0
    for place in range(len(numbers)):
        begin = end
        item = begin_of(F, numbers, place)
        stop = item + length_of(N, numbers, place)
        item2 = begin_of(F2, numbers2, place)
        stop2 = item2 + length_of(N2, numbers2, place)
        if operation == INTERSECT:
            end = intersected(L, R, item, stop, L2, R2, item2, stop2, left, right, end)
        elif operation == UNITE:
            end = united(L, R, item, stop, L2, R2, item2, stop2, left, right, end)
        else:
            end = subtracted(L, R, item, stop, L2, R2, item2, stop2, left, right, end)
        first[place] = begin
        count[place] = end - begin
    return end


@inlined
def sink(left: Any, right: Any, begin: Any, root: Any, size: Any) -> None:
    """Move the interval at a place of a heap down until none below it begins later."""
    one_left, one_right = left[begin + root], right[begin + root]
    child = 2 * root + 1
    while child < size:
        if child + 1 < size and left[begin + child + 1] > left[begin + child]:
            child += 1
        if left[begin + child] <= one_left:
            break
        left[begin + root], right[begin + root] = left[begin + child], right[begin + child]
        root = child
        child = 2 * root + 1
    left[begin + root], right[begin + root] = one_left, one_right


@subroutine
def sort_by_left(left: Any, right: Any, begin: Any, end: Any) -> None:
    """Put the intervals from `begin` to `end` in the order of their left ends, by a heap."""
    size = end - begin
    for root in range(size // 2 - 1, -1, -1):
        sink(left, right, begin, root, size)
    for last in range(size - 1, 0, -1):
        left[begin], left[begin + last] = left[begin + last], left[begin]
        right[begin], right[begin + last] = right[begin + last], right[begin]
        sink(left, right, begin, 0, last)


@kernel(
    "const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], i64[:], "
    "i64[:], i64[:], i64[:], i64[:] -> i64, i64"
)
def gather(
    F: Any, N: Any, L: Any, R: Any, order: Any, keys: Any,
    places: Any, first: Any, count: Any, left: Any, right: Any,
) -> Any:  # fmt: skip
    """Write lists with equal keys as one, and the places of the distinct keys; returns the numbers of both.

    `order` holds the numbers of the lists in the order of their keys; `keys` are those in that order.
    """
    end = 0
    group = 0
    place = 0
    while place < len(order):
        begin = end
        places[group] = place
        is_sorted = True
        stop = place
        while stop < len(order) and keys[stop] == keys[place]:
            start = F[order[stop]]
            for item in range(start, start + N[order[stop]]):
                is_sorted &= end == begin or left[end - 1] <= L[item]
                left[end] = L[item]
                right[end] = R[item]
                end += 1
            stop += 1
        if not is_sorted:
            sort_by_left(left, right, begin, end)
        merged_end = begin
        for item in range(begin, end):
            merged_end = appended(left, right, begin, merged_end, left[item], right[item])
        end = merged_end
        first[group] = begin
        count[group] = end - begin
        group += 1
        place = stop
    return group, end


@kernel(
    "i64[:], i64[:], i64[:], i64[:], i64[:], i64, const i64[:], const i64[:], const i64[:], const "
    "i64[:], const i64[:] -> i64"
)
def write_lists(
    first: Any, count: Any, room: Any, left: Any, right: Any, end: Any,
    rows: Any, F: Any, N: Any, L: Any, R: Any,
) -> Any:  # fmt: skip
    """Write a list for each row into a pool that has room, in place or at its end; returns the new end."""
    for place in range(len(rows)):
        row = rows[place]
        size = N[place]
        if size > room[row]:
            room[row] = size if room[row] == 0 else 2 * size
            first[row] = end
            end += room[row]
        for item in range(size):
            left[first[row] + item] = L[F[place] + item]
            right[first[row] + item] = R[F[place] + item]
        count[row] = size
    return end


@kernel("const i64[:], const i64[:], const i64[:], const i64[:], const i64[:] -> i64, i64")
def list_bounds(F: Any, N: Any, L: Any, R: Any, numbers: Any) -> Any:
    """The least left and the greatest right end of the lists; the first is greater if all are empty."""
    low = INFINITY
    high = -INFINITY
    for number in numbers:
        if number >= 0 and N[number] > 0:
            low = min(low, L[F[number]])
            high = max(high, R[F[number] + N[number] - 1])
    return low, high


# ---- Kernels over rows of ids: sets of rows, and indexes from some of their columns to the rows.
#
# A bucket holds the row that was entered last, and `following` the one before it, so that entering a row
# moves no rows and a row's number never changes.


@inlined
def bucket_of(columns: Any, positions: Any, row: Any, buckets: Any) -> Any:
    """The bucket of a row, by the columns at these positions."""
    word = np.uint64(0)
    for position in positions:
        word = mix(word ^ np.uint64(columns[position, row]))
    return np.int64(word >> np.uint64(11)) & (buckets - 1)


@kernel("strided i32[:,:], i64[:], i64, i64, i64[:], i64[:]")
def enter(columns: Any, positions: Any, begin: Any, end: Any, heads: Any, following: Any) -> None:
    """Enter rows into an index."""
    for row in range(begin, end):
        bucket = bucket_of(columns, positions, row, len(heads))
        following[row] = heads[bucket]
        heads[bucket] = row


@inlined
def is_match(columns: Any, positions: Any, row: Any, given: Any, places: Any, given_row: Any) -> Any:
    """Whether a row has the ids of a given row."""
    for place in range(len(positions)):
        if columns[positions[place], row] != given[places[place], given_row]:
            return False
    return True


@kernel("strided i32[:,:], i64[:], i64[:], i64[:], const strided i32[:,:], i64[:], i64[:] -> i64")
def count_matches(
    columns: Any, positions: Any, heads: Any, following: Any, given: Any, places: Any, counts: Any
) -> Any:
    """Write the number of rows that match each given one; returns the total."""
    total = 0
    for given_row in range(given.shape[1]):
        row = heads[bucket_of(given, places, given_row, len(heads))]
        matches = 0
        while row >= 0:
            if is_match(columns, positions, row, given, places, given_row):
                matches += 1
            row = following[row]
        counts[given_row] = matches
        total += matches
    return total


@kernel("strided i32[:,:], i64[:], i64[:], i64[:], const strided i32[:,:], i64[:], i64[:], i64[:]")
def find_matches(
    columns: Any,
    positions: Any,
    heads: Any,
    following: Any,
    given: Any,
    places: Any,
    given_rows: Any,
    rows: Any,
) -> None:
    """Write each given row with each row that matches it."""
    end = 0
    for given_row in range(given.shape[1]):
        row = heads[bucket_of(given, places, given_row, len(heads))]
        while row >= 0:
            if is_match(columns, positions, row, given, places, given_row):
                given_rows[end] = given_row
                rows[end] = row
                end += 1
            row = following[row]


@kernel("strided i32[:,:], i64, i64[:], i64[:], i64[:], const strided i32[:,:], i64[:] -> i64")
def find_or_add(
    columns: Any, count: Any, positions: Any, heads: Any, following: Any, given: Any, numbers: Any
) -> Any:
    """Write the number of each given row in a set with room, adding missing ones; returns the set's size."""
    for given_row in range(given.shape[1]):
        bucket = bucket_of(given, positions, given_row, len(heads))
        row = heads[bucket]
        while row >= 0 and not is_match(columns, positions, row, given, positions, given_row):
            row = following[row]
        if row < 0:
            row = count
            for position in positions:
                columns[position, row] = given[position, given_row]
            following[row] = heads[bucket]
            heads[bucket] = row
            count += 1
        numbers[given_row] = row
    return count


@kernel("strided i32[:,:], i64[:], i64[:], i64[:], const strided i32[:,:], i64[:]")
def find_rows(columns: Any, positions: Any, heads: Any, following: Any, given: Any, numbers: Any) -> None:
    """Write the number of each given row in a set; -1 if it is missing."""
    for given_row in range(given.shape[1]):
        row = heads[bucket_of(given, positions, given_row, len(heads))]
        while row >= 0 and not is_match(columns, positions, row, given, positions, given_row):
            row = following[row]
        numbers[given_row] = row


# ---- A kernel over both: which points of facts do not follow from other facts by one atom.


@subroutine
def cut_out(left: Any, right: Any, begin: Any, end: Any, one_left: Any, one_right: Any) -> Any:
    """Remove the points of an interval from the list at `begin`, in place; returns its new end.

    There is room for one interval more, which is needed if the interval lies within one of the list.
    """
    item = begin
    while item < end and right[item] < one_left:
        item += 1
    if item < end and left[item] < one_left:
        if right[item] > one_right:
            for place in range(end, item + 1, -1):
                left[place] = left[place - 1]
                right[place] = right[place - 1]
            left[item + 1] = one_right + 1
            right[item + 1] = right[item]
            right[item] = one_left - 1
            return end + 1
        right[item] = one_left - 1
        item += 1
    stop = item
    while stop < end and right[stop] <= one_right:
        stop += 1
    if stop < end and left[stop] <= one_right:
        left[stop] = one_right + 1
    if stop > item:
        for place in range(stop, end):
            left[place - stop + item] = left[place]
            right[place - stop + item] = right[place]
    return end - (stop - item)


@kernel(
    "strided i32[:,:], i64[:], i64[:], i64[:], const strided i32[:,:], i64[:], const i64[:], const i64[:], "
    "const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], const i64[:], "
    "const i64[:], i64[:], i64[:], i64[:], i64[:] -> i64"
)
def cut_out_matches(
    columns: Any, positions: Any, heads: Any, following: Any, given: Any, places: Any, given_rows: Any,
    F: Any, N: Any, L: Any, R: Any, F2: Any, N2: Any, L2: Any, R2: Any,
    by: Any, first: Any, count: Any, left: Any, right: Any,
) -> Any:  # fmt: skip
    """Write lists without the points of rows that match; returns the number of intervals, or -1 if there is
    no room for them.

    List i belongs to row `given_rows[i]` of `given`; the lists of the rows that match it are moved by `by`,
    as for `move`, if that is not empty. Rows are matched until no points are left.
    """
    end = 0
    for place in range(len(given_rows)):
        begin = end
        if begin + N[place] > len(left):
            return -1
        for item in range(F[place], F[place] + N[place]):
            left[end] = L[item]
            right[end] = R[item]
            end += 1
        row = heads[bucket_of(given, places, given_rows[place], len(heads))]
        while row >= 0 and end > begin:
            if is_match(columns, positions, row, given, places, given_rows[place]):
                for item in range(F2[row], F2[row] + N2[row]):
                    one_left, one_right = L2[item], R2[item]
                    if len(by) > 0:
                        if is_dropped(one_left, one_right, by):
                            continue
                        one_left = -INFINITY if by[4] != 0 else shifted(L2[item], by[0], by[1])
                        one_right = INFINITY if by[5] != 0 else shifted(R2[item], by[2], by[3])
                    if one_left > one_right or end == begin:
                        continue
                    if end >= len(left):
                        return -1
                    end = cut_out(left, right, begin, end, one_left, one_right)
            row = following[row]
        first[place] = begin
        count[place] = end - begin
    return end
