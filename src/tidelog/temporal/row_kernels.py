"""Kernels over rows of ids: sets of rows, and indexes from some of their columns to the rows.

A bucket holds the row that was entered last, and `following` the one before it, so that entering a row moves
nothing and a row's number never changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import inlined, kernel, mix


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
def is_match(columns: Any, positions: Any, row: Any, given: Any, places: Any, other: Any) -> Any:
    """Whether a row has the ids of a given one."""
    for place in range(len(positions)):
        if columns[positions[place], row] != given[places[place], other]:
            return False
    return True


@kernel("strided i32[:,:], i64[:], i64[:], i64[:], const strided i32[:,:], i64[:], i64[:] -> i64")
def count_matches(
    columns: Any, positions: Any, heads: Any, following: Any, given: Any, places: Any, counts: Any
) -> Any:
    """How many rows match each given one; their number in all."""
    total = 0
    for other in range(given.shape[1]):
        row = heads[bucket_of(given, places, other, len(heads))]
        found = 0
        while row >= 0:
            if is_match(columns, positions, row, given, places, other):
                found += 1
            row = following[row]
        counts[other] = found
        total += found
    return total


@kernel("strided i32[:,:], i64[:], i64[:], i64[:], const strided i32[:,:], i64[:], i64[:], i64[:]")
def find_matches(
    columns: Any, positions: Any, heads: Any, following: Any, given: Any, places: Any, others: Any, rows: Any
) -> None:
    """Each given row with each that matches it."""
    end = 0
    for other in range(given.shape[1]):
        row = heads[bucket_of(given, places, other, len(heads))]
        while row >= 0:
            if is_match(columns, positions, row, given, places, other):
                others[end] = other
                rows[end] = row
                end += 1
            row = following[row]


@kernel("strided i32[:,:], i64, i64[:], i64[:], i64[:], const strided i32[:,:], i64[:] -> i64")
def find_or_add(
    columns: Any, count: Any, positions: Any, heads: Any, following: Any, given: Any, numbers: Any
) -> Any:
    """Write the number of each given row in a set that has room, adding rows that are not there; its size."""
    for other in range(given.shape[1]):
        bucket = bucket_of(given, positions, other, len(heads))
        row = heads[bucket]
        while row >= 0 and not is_match(columns, positions, row, given, positions, other):
            row = following[row]
        if row < 0:
            row = count
            for position in positions:
                columns[position, row] = given[position, other]
            following[row] = heads[bucket]
            heads[bucket] = row
            count += 1
        numbers[other] = row
    return count


@kernel("strided i32[:,:], i64[:], i64[:], i64[:], const strided i32[:,:], i64[:]")
def find_rows(columns: Any, positions: Any, heads: Any, following: Any, given: Any, numbers: Any) -> None:
    """Write the number of each given row in a set; -1 where it is not there."""
    for other in range(given.shape[1]):
        row = heads[bucket_of(given, positions, other, len(heads))]
        while row >= 0 and not is_match(columns, positions, row, given, positions, other):
            row = following[row]
        numbers[other] = row
