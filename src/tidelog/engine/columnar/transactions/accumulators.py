"""The accumulators of one aggregation: what its groups came to, exactly, while rows come and go. Mutable.

A sum is an integer of 128 bits at a scale that only grows; beside it, if there are doubles, their exact sum
as digits. The least or greatest of a group heads a short list of its best ids, with how many rows have each,
so that it may go; what is not listed comes after what is. A group is asked for, to be folded again from all
its rows, where that cannot tell: its list is used up, a sum has left its bits, a number is infinite or beyond
64 bits, or one of few rows is a double, whose digits would take more memory than the rows.

Invariant: a known group that is not asked for has the result of folding all its rows, bit by bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.compiled import bytes_at, int32_at, int64_at, kernel, subroutine
from tidelog.data import memory
from tidelog.data.dictionary import Dictionary
from tidelog.data.dictionary_kernels import D_CAPACITY, D_EXTRA, D_KIND, D_PAYLOAD, LOWER
from tidelog.data.rows import Ids
from tidelog.engine.columnar.interpreter.aggregation import (
    ASKED,
    DIGITS,
    FRACTION,
    HIDDEN_BIT,
    INFINITE,
    INFINITY,
    LEAST_BIT,
    MET_MORE,
    MOST_ADDED,
    NOTHING,
    SIGN,
    SPARE,
    SUM_COUNT,
    SUM_HIGH,
    SUM_LOW,
    SUM_MET,
    SUM_SCALE,
    SUM_WORDS,
    UNIT_BIT,
    add_scaled,
    add_to_digits,
    finished,
    finished_digits,
    raise_scale,
)
from tidelog.engine.columnar.interpreter.number_kernels import (
    BIG,
    DECIMAL,
    DOUBLE,
    INTEGER,
    LEAST,
    UNCERTAIN,
    ZERO,
    compare,
)
from tidelog.logic.program import Aggregation
from tidelog.logic.values import Kind
from tidelog.plan.algebra import EXTREMES

RowNumbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

SUMS = ("sum", "avg")
FIRST_GROUPS = 64
FEW_ROWS = 64  # of a group whose doubles have no digits: it is folded again
SHORT, LONG = 16, 1024  # ids in the lists of groups, and of groups of many rows
MANY_ROWS = 4096
HIGHEST_DIGIT = DIGITS - 4  # above the greatest double, with room for carries

# The words of a group: those of a sum, then these. A_DETAILS is the place of its digits or long list plus
# one, 0 if it has none; A_ADDED counts the doubles that were ever added. A short list comes last.
(A_ROWS, A_DECIMALS, A_DOUBLES, A_DETAILS, A_ADDED, A_LISTED, A_IS_PARTIAL, A_WORDS) = range(
    SUM_WORDS, SUM_WORDS + 8
)
ONE_ROW = np.int64(1 << 32)  # an entry of a list: the number of rows in the upper half, the id in the lower


class Accumulators:
    """The accumulators of one aggregation, by the number of the group."""

    def __init__(self, aggregation: Aggregation) -> None:
        self.aggregation = aggregation
        self.function = aggregation.function
        self.argument = aggregation.arguments[0]
        is_extreme = self.function in EXTREMES
        self.words: Words = np.zeros((FIRST_GROUPS, A_WORDS + SHORT if is_extreme else A_WORDS), np.int64)
        self.results: Ids = np.full(FIRST_GROUPS, -1, np.int32)
        self.details: Words = np.zeros((1, LONG if is_extreme else DIGITS), np.int64)
        self.details_used: Words = np.zeros(1, np.int64)

    def fit(self, groups: int) -> None:
        """Make room for this many groups."""
        used = len(self.results)
        if groups > used:
            size = max(2 * used, groups)
            self.words = _taller(self.words, size)
            self.results = memory.grown(self.results, used, size)
            self.results[used:] = -1

    @property
    def rows(self) -> Words:
        """The number of rows of each group."""
        rows: Words = self.words[:, A_ROWS]
        return rows

    def reset(self, groups: RowNumbers) -> None:
        """Begin with groups without rows."""
        places = self.words[groups, A_DETAILS]
        self.words[groups] = 0
        self.words[groups, A_DETAILS] = places
        self.details[places[places > 0] - 1] = 0

    def change(
        self, dictionary: Dictionary, groups: RowNumbers, gained: int, ids: Ids, is_known: Marks
    ) -> None:
        """Put the first `gained` rows into their groups, and take the others out, if groups are known."""
        count_rows(groups, gained, is_known, self.words)
        if self.function == "count":
            return
        rows = groups, gained, is_known, ids
        done = 0
        while True:
            details = self.words, self.details, self.details_used
            if self.function in SUMS:
                done = int(add_rows(dictionary.words, *rows, done, *details))
            else:
                done = int(list_rows(dictionary.words, *rows, done, EXTREMES[self.function], *details))
            if done == len(ids):
                return
            self.details = _taller(self.details, 2 * len(self.details))

    def finish(self, dictionary: Dictionary, groups: RowNumbers, is_asked: Marks) -> None:
        """Renew the results of groups, except those that are asked for; ask for what must be folded again."""
        if self.function in EXTREMES:
            finish_extremes(groups, self.words, self.details, self.results, is_asked)
            return
        kinds, payloads = np.zeros(len(groups), np.uint8), np.zeros(len(groups), np.int64)
        scales = np.zeros(len(groups), np.int32)
        if self.function in SUMS:
            is_mean = self.function == "avg"
            finish_numbers(groups, is_mean, self.words, self.details, kinds, payloads, scales, is_asked)
        else:
            payloads[:] = self.words[groups, A_ROWS]
            kinds[payloads > 0] = Kind.INTEGER
        self.results[groups] = dictionary.encode_mixed_numbers(kinds, payloads, scales)

    def saved(self, groups: RowNumbers) -> tuple[Any, ...]:
        """Return what `restore` needs to take back changes of these groups."""
        words, used = self.words[groups], int(self.details_used[0])
        if not used:
            return groups, words, self.results[groups], None, None, used
        places = words[words[:, A_DETAILS] > 0, A_DETAILS] - 1
        return groups, words, self.results[groups], places, self.details[places], used

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Take back all changes since `saved`; details that were begun since are free again."""
        groups, words, results, places, details, used = saved
        self.words[groups] = words
        self.results[groups] = results
        if used:
            self.details[places] = details
        self.details_used[0] = used

    def only(self, groups: RowNumbers) -> Accumulators:
        """Return the accumulators of these groups, numbered from 0."""
        kept = Accumulators(self.aggregation)
        kept.fit(len(groups))
        words = self.words[groups]
        detailed = np.flatnonzero(words[:, A_DETAILS])
        places = words[detailed, A_DETAILS] - 1
        words[detailed, A_DETAILS] = np.arange(1, len(detailed) + 1)
        kept.words[: len(groups)] = words
        kept.results[: len(groups)] = self.results[groups]
        kept.details = _taller(self.details[places], len(detailed) + 1)
        kept.details_used[0] = len(detailed)
        return kept


def _taller(array: Words, rows: int) -> Words:
    """Return a copy with more rows, of zeros."""
    used, width = array.shape
    larger: Words = memory.zeros(rows * width, np.int64).reshape(rows, width)
    larger[:used] = array
    return larger


# ---- kernels: sums


@kernel("const i64[:], i64, const bool[:], i64[:,:]")
def count_rows(groups: Any, gained: Any, is_known: Any, words: Any) -> None:
    """Count the first `gained` rows in known groups, and the others no longer."""
    for row in range(len(groups)):
        if is_known[groups[row]]:
            words[groups[row], A_ROWS] += 1 if row < gained else -1


@kernel("i64[:], const i64[:], i64, const bool[:], const i32[:], i64, i64[:,:], i64[:,:], i64[:] -> i64")
def add_rows(
    D: Any,
    groups: Any,
    gained: Any,
    is_known: Any,
    ids: Any,
    done: Any,
    words: Any,
    digits: Any,
    digits_used: Any,
) -> Any:
    """Add the numbers of the first `gained` rows to the sums of known groups, subtract those of the others.

    Begins with the row `done`; returns the first one that there are no digits for, or the number of rows.
    """
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    for row in range(done, len(groups)):
        group, entry = groups[row], ids[row]
        kind, payload = kinds[entry], payloads[entry]
        if not is_known[group] or kind < INTEGER or kind > BIG:
            continue
        is_lost = row >= gained
        step = np.int64(-1 if is_lost else 1)
        if kind == DOUBLE:
            if digits_used[0] == len(digits) and words[group, A_DETAILS] == 0:
                return row
            add_double(words, group, payload, step, digits, digits_used)
        elif kind == BIG or (is_lost and payload == LEAST):
            words[group, SUM_MET] |= MET_MORE
        else:
            scale = np.int64(extras[entry])
            if kind == DECIMAL:
                words[group, A_DECIMALS] += step
            if scale > words[group, SUM_SCALE]:
                raise_scale(words, group, scale)
            add_scaled(words, group, payload * step, words[group, SUM_SCALE] - scale)
        words[group, SUM_COUNT] += step
    return np.int64(len(groups))


@subroutine
def add_double(words: Any, group: Any, payload: Any, step: Any, digits: Any, digits_used: Any) -> None:
    """Add a double to the digits of its group, or subtract it."""
    exponent = (payload >> 52) & INFINITE
    words[group, A_DOUBLES] += step
    words[group, A_ADDED] += 1
    if exponent == INFINITE or words[group, A_ADDED] > MOST_ADDED >> 1:
        words[group, SUM_MET] |= MET_MORE
        return
    if words[group, A_DETAILS] == 0:
        if words[group, A_ROWS] <= FEW_ROWS:
            words[group, SUM_MET] |= MET_MORE
            return
        digits[digits_used[0], :] = 0
        digits_used[0] += 1
        words[group, A_DETAILS] = digits_used[0]
    magnitude = np.uint64(payload & FRACTION | (HIDDEN_BIT if exponent else 0))
    position = LEAST_BIT + max(exponent, 1) - 1
    add_to_digits(digits[words[group, A_DETAILS] - 1], magnitude, position, (payload < 0) != (step < 0))


@kernel("const i64[:], bool, i64[:,:], i64[:,:], u8[:], i64[:], i32[:], bool[:]")
def finish_numbers(
    groups: Any,
    is_mean: Any,
    words: Any,
    digits: Any,
    kinds: Any,
    payloads: Any,
    scales: Any,
    is_asked: Any,
) -> None:
    """Write the sum or mean of each group that is not asked for, or ask for it; kinds are zeros before."""
    summed = np.zeros(DIGITS, np.int64)
    for place in range(len(groups)):
        group = groups[place]
        if is_asked[place]:
            continue
        if words[group, A_ROWS] == 0:
            begin_again(words, group, digits)
            continue
        if words[group, SUM_MET] != 0:
            is_asked[place] = True
            continue
        count = words[group, SUM_COUNT]
        if count == 0:
            continue
        low, high, scale = np.uint64(words[group, SUM_LOW]), words[group, SUM_HIGH], words[group, SUM_SCALE]
        if words[group, A_DOUBLES] == 0:
            kind, payload, scale = finished(low, high, scale, count, words[group, A_DECIMALS] > 0, is_mean)
        elif scale > 0:
            kind, payload = np.int64(ASKED), np.int64(0)
        else:
            payload = add_whole(
                digits[words[group, A_DETAILS] - 1], low, high, summed, count if is_mean else np.int64(0)
            )
            kind, scale = np.int64(NOTHING if (payload & ~SIGN) == INFINITY else DOUBLE), np.int64(0)
        if kind == ASKED:
            is_asked[place] = True
        else:
            kinds[place], payloads[place], scales[place] = kind, payload, scale


@subroutine
def begin_again(words: Any, group: Any, digits: Any) -> None:
    """Make a group that has no rows as if it had never had any."""
    used = words[group, A_DETAILS]
    words[group, :] = 0
    words[group, A_DETAILS] = used
    if used > 0:
        digits[used - 1, :] = 0


@subroutine
def add_whole(digits: Any, low: Any, high: Any, summed: Any, divisor: Any) -> Any:
    """The bits of the sum of digits and an integer of 128 bits, or of the mean if the divisor is not 0."""
    for place in range(DIGITS):
        summed[place] = digits[place]
    is_negative = high < 0
    above = np.uint64(high)
    if is_negative:
        above = ~above + np.uint64(low == ZERO)
        low = ~low + np.uint64(1)
    add_to_digits(summed, low, np.int64(UNIT_BIT), is_negative)
    add_to_digits(summed, above, np.int64(UNIT_BIT + 64), is_negative)
    return finished_digits(summed, np.int64(SPARE), np.int64(HIGHEST_DIGIT), divisor)


# ---- kernels: the least and the greatest


@kernel("i64[:], const i64[:], i64, const bool[:], const i32[:], i64, i64, i64[:,:], i64[:,:], i64[:] -> i64")
def list_rows(
    D: Any,
    groups: Any,
    gained: Any,
    is_known: Any,
    ids: Any,
    done: Any,
    sign: Any,
    words: Any,
    lists: Any,
    lists_used: Any,
) -> Any:
    """Enter the ids of the first `gained` rows in the lists of known groups, and take the others out.

    Begins with the row `done`; returns the first one that there is no long list for, or the number of rows.
    """
    for row in range(done, len(groups)):
        group, entry = groups[row], np.int64(ids[row])
        if not is_known[group]:
            continue
        if words[group, A_ROWS] > MANY_ROWS and words[group, A_LISTED] == 0 and words[group, A_DETAILS] == 0:
            if lists_used[0] == len(lists):
                return row
            lists_used[0] += 1
            words[group, A_DETAILS] = lists_used[0]
        place = words[group, A_DETAILS] - 1
        if row >= gained:
            if place >= 0:
                leave_list(D, words, group, lists, place, np.int64(0), entry, sign)
            else:
                leave_list(D, words, group, words, group, np.int64(A_WORDS), entry, sign)
        elif place >= 0:
            enter_list(D, words, group, lists, place, np.int64(0), np.int64(LONG), entry, sign)
        else:
            enter_list(D, words, group, words, group, np.int64(A_WORDS), np.int64(SHORT), entry, sign)
    return np.int64(len(groups))


@subroutine
def place_in_list(
    D: Any, words: Any, group: Any, lists: Any, place: Any, first: Any, entry: Any, sign: Any
) -> Any:
    """Where an id is in a list, or belongs, and whether it is there; notes if that is uncertain."""
    low, high = np.int64(0), words[group, A_LISTED]
    while low < high:
        middle = (low + high) >> 1
        other = lists[place, first + middle] & LOWER
        if other == entry:
            return middle, True
        outcome = compare(D, entry, other)
        if outcome == UNCERTAIN:
            words[group, SUM_MET] |= MET_MORE
            return low, False
        if outcome == sign:
            high = middle
        else:
            low = middle + 1
    return low, False


@subroutine
def enter_list(
    D: Any,
    words: Any,
    group: Any,
    lists: Any,
    place: Any,
    first: Any,
    capacity: Any,
    entry: Any,
    sign: Any,
) -> None:
    """Enter an id in a list, unless it comes after all that are listed and others do already."""
    listed = words[group, A_LISTED]
    if listed == capacity:
        last = lists[place, first + listed - 1] & LOWER
        if entry != last and compare(D, entry, last) == -sign:
            words[group, A_IS_PARTIAL] = 1
            return
    position, is_there = place_in_list(D, words, group, lists, place, first, entry, sign)
    if is_there:
        lists[place, first + position] += ONE_ROW
        return
    if position == listed and words[group, A_IS_PARTIAL] != 0:
        return
    if listed == capacity:
        words[group, A_IS_PARTIAL] = 1
        listed -= 1
    for other in range(listed, position, -1):
        lists[place, first + other] = lists[place, first + other - 1]
    lists[place, first + position] = ONE_ROW | entry
    words[group, A_LISTED] = listed + 1


@subroutine
def leave_list(
    D: Any, words: Any, group: Any, lists: Any, place: Any, first: Any, entry: Any, sign: Any
) -> None:
    """Take one row of an id out of a list, if it is there."""
    position, is_there = place_in_list(D, words, group, lists, place, first, entry, sign)
    if not is_there:
        if words[group, A_IS_PARTIAL] == 0:
            words[group, SUM_MET] |= MET_MORE
        return
    lists[place, first + position] -= ONE_ROW
    if lists[place, first + position] < ONE_ROW:
        words[group, A_LISTED] -= 1
        for other in range(position, words[group, A_LISTED]):
            lists[place, first + other] = lists[place, first + other + 1]


@kernel("const i64[:], i64[:,:], const i64[:,:], i32[:], bool[:]")
def finish_extremes(groups: Any, words: Any, lists: Any, results: Any, is_asked: Any) -> None:
    """Write the first id in each group's list; ask for groups that have rows, but whose list is used up."""
    for place in range(len(groups)):
        group = groups[place]
        if is_asked[place]:
            continue
        if words[group, A_ROWS] == 0:
            results[group] = -1
            words[group, SUM_MET] = words[group, A_LISTED] = words[group, A_IS_PARTIAL] = 0
        elif words[group, SUM_MET] != 0 or words[group, A_LISTED] == 0:
            is_asked[place] = True
        elif words[group, A_DETAILS] > 0:
            results[group] = lists[words[group, A_DETAILS] - 1, 0] & LOWER
        else:
            results[group] = words[group, A_WORDS] & LOWER
