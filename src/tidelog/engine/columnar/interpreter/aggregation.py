"""Aggregates over columns of ids: rows are numbered by group, then folded by kernels.

Groups are numbered from 0 in the order of their first rows. Sums of integers and decimals have 128 bits, at
the largest scale of their group. Sums of doubles are exact and rounded once (Neal: Fast Exact Summation Using
Small and Large Superaccumulators, arXiv 1505.05571, 2015, section 3). The groups that kernels cannot fold
exactly are left to `logic.functions.builtins`, the one definition of every aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.compiled import bytes_at, inlined, int32_at, int64_at, kernel, mix, prefetch, subroutine
from tidelog.data import memory
from tidelog.data.dictionary import Dictionary
from tidelog.data.dictionary_kernels import BLOCK, D_CAPACITY, D_EXTRA, D_KIND, D_PAYLOAD, LOWER
from tidelog.data.rows import Ids, Rows
from tidelog.engine.columnar.interpreter.number_kernels import (
    BIG,
    DECIMAL,
    DOUBLE,
    HALF,
    INTEGER,
    LOWER_HALF,
    TEN,
    UNCERTAIN,
    ZERO,
    compare,
    times_power_of_ten,
)
from tidelog.logic.functions.builtins import AGGREGATES
from tidelog.logic.program import Aggregation, Constant, Term, Variable
from tidelog.logic.values import Kind
from tidelog.plan.algebra import EXTREMES, Aggregate

FIRST_SLOTS = 1 << 12
DIRECT = 1 << 14  # pairs in a window that is worth its memory for few rows


class Groups(NamedTuple):
    """The number of each row's group, and the first row of each group."""

    numbers: Ids
    firsts: Ids


def groups_with_values(root: Aggregate, collected: Rows, dictionary: Dictionary) -> tuple[Rows, int]:
    """Return the groups of the collected rows that have all values, and how many lack one.

    The columns are the group's, then one for each aggregation.
    """
    variables = [term for term in root.input.terms if isinstance(term, Variable)]
    columns = dict(zip(variables, collected.columns, strict=True))
    groups = aggregate(columns, collected.count, root.group, root.aggregations, dictionary)
    has_values = np.ones(len(next(iter(groups.values()))), bool)
    for aggregation in root.aggregations:
        has_values &= groups[aggregation.variable] >= 0
    count = int(np.count_nonzero(has_values))
    missing = len(has_values) - count
    results = [groups[variable] for variable in grouped_variables(root)]
    return Rows(tuple(column[has_values] if missing else column for column in results), count), missing


def grouped_variables(root: Aggregate) -> tuple[Variable, ...]:
    """Return the variables of the columns of `groups_with_values`."""
    return (*root.group, *(aggregation.variable for aggregation in root.aggregations))


def heads(root: Aggregate, groups: Rows, dictionary: Dictionary) -> Rows:
    """Return the facts derived from groups, of a rule that computes nothing after aggregating."""
    columns = dict(zip(grouped_variables(root), groups.columns, strict=True))
    return Rows(tuple(_column(term, columns, groups.count, dictionary) for term in root.terms), groups.count)


def _column(term: Term, columns: dict[Variable, Ids], rows: int, dictionary: Dictionary) -> Ids:
    if isinstance(term, Constant):
        return np.full(rows, dictionary.encode(term.value), np.int32)
    return columns[term]


def aggregate(
    columns: dict[Variable, Ids],
    rows: int,
    group: Sequence[Variable],
    aggregations: Sequence[Aggregation],
    dictionary: Dictionary,
) -> dict[Variable, Ids]:
    """Return one row per group: the group's columns and each aggregation's, -1 where it has no value.

    The given rows are distinct.
    """
    groups, arguments = collect(columns, rows, group, aggregations, dictionary)
    result = {variable: columns[variable][groups.firsts] for variable in group}
    for aggregation, (numbers, ids) in zip(aggregations, arguments, strict=True):
        result[aggregation.variable] = fold(
            aggregation.function, numbers, ids, len(groups.firsts), dictionary
        )
    return result


def collect(
    columns: dict[Variable, Ids],
    rows: int,
    group: Sequence[Variable],
    aggregations: Sequence[Aggregation],
    dictionary: Dictionary,
    are_counted: bool = False,
) -> tuple[Groups, list[tuple[Ids, Ids]]]:
    """Return the groups, and for each aggregation its rows: the numbers of their groups, and ids.

    Rows are distinct where it matters: for the least and greatest only if the rows of a value are counted.
    """
    groups = number_groups([columns[variable] for variable in group], rows)
    collected = []
    for aggregation in aggregations:
        numbers, ids = groups.numbers, _column(aggregation.arguments[0], columns, rows, dictionary)
        arguments = [term for term in aggregation.arguments if isinstance(term, Variable)]
        may_repeat = aggregation.function in EXTREMES and not are_counted
        if not may_repeat and not columns.keys() <= {*group, *arguments}:
            distinct = distinct_rows([numbers, *(columns[variable] for variable in arguments)], rows)
            numbers, ids = numbers[distinct], ids[distinct]
        collected.append((numbers, ids))
    return groups, collected


# ---- groups


def distinct_rows(columns: Sequence[Ids], rows: int) -> Ids:
    """Return the positions of the distinct rows, of equal ones the first."""
    return number_groups(columns, rows).firsts


def number_groups(columns: Sequence[Ids], rows: int) -> Groups:
    """Return which rows are equal; pairs of columns are numbered, then these numbers with the next column."""
    if not columns or not rows:
        return Groups(np.zeros(rows, np.int32), np.arange(min(rows, 1), dtype=np.int32))
    groups = _number_pairs(*columns[:2]) if len(columns) > 1 else _number_pairs(columns[0], None)
    for column in columns[2:]:
        groups = _number_pairs(groups.numbers, column)
    return groups


def _number_pairs(left: Ids, right: Ids | None) -> Groups:
    """Return which pairs of ids are equal; without a second column, which ids."""
    least, width = _range(left)
    other_least, other_width = (0, 1) if right is None else _range(right)
    factor = int(right is not None)
    if right is None:
        right = left
    rows = len(left)
    numbers, firsts = memory.empty(rows, np.int32), memory.empty(rows, np.int32)
    if width * other_width <= max(DIRECT, 2 * rows):
        window = memory.zeros(width * other_width, np.int32)
        origin = least * other_width + other_least
        count = number_direct(left, right, other_width, factor, origin, window, numbers, firsts)
        return Groups(numbers, firsts[:count])
    slots = memory.zeros(2 * FIRST_SLOTS, np.int64)
    done, count = number_hashed(left, right, factor, 0, 0, slots, numbers, firsts)
    while done < rows:
        larger = memory.zeros(8 * len(slots), np.int64)
        move_slots(slots, larger)
        slots = larger
        done, count = number_hashed(left, right, factor, done, count, slots, numbers, firsts)
    return Groups(numbers, firsts[:count])


def _range(column: Ids) -> tuple[int, int]:
    """Return the least id of a column, and how many ids lie between it and the greatest."""
    least = int(column.min())
    return least, int(column.max()) - least + 1


# ---- folds


def fold(function: str, numbers: Ids, ids: Ids, groups: int, dictionary: Dictionary) -> Ids:
    """Return the aggregate of the ids of each group."""
    if function == "count":
        return dictionary.encode_numbers(Kind.INTEGER, np.bincount(numbers, minlength=groups))
    if function in EXTREMES:
        results = np.full(groups, -1, np.int32)
        is_asked = np.zeros(groups, bool)
        keep_extremes(dictionary.words, numbers, ids, EXTREMES[function], results, is_asked)
        asked = np.flatnonzero(is_asked)
    else:
        kinds, payloads, extras = _sums(numbers, ids, groups, function == "avg", dictionary)
        asked = np.flatnonzero(kinds == ASKED)
        kinds[asked] = NOTHING
        results = dictionary.encode_mixed_numbers(kinds, payloads, extras)
    if len(asked):
        _fold_by_definition(function, numbers, ids, asked, results, dictionary)
    return results


def _sums(
    numbers: Ids, ids: Ids, groups: int, is_mean: bool, dictionary: Dictionary
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], Ids]:
    """Return the sum, or mean, of each group: its kind, NOTHING or ASKED; payload; scale."""
    sums = memory.zeros(groups * SUM_WORDS, np.int64).reshape(groups, SUM_WORDS)
    add_numbers(dictionary.words, numbers, ids, sums)
    kinds, payloads, extras = (
        np.zeros(groups, np.uint8),
        np.zeros(groups, np.int64),
        np.zeros(groups, np.int32),
    )
    finish_sums(sums, is_mean, kinds, payloads, extras)
    if (kinds == Kind.DOUBLE).any():
        add_doubles(dictionary.words, *_by_group(numbers, ids, groups), is_mean, kinds, payloads)
    return kinds, payloads, extras


def _by_group(numbers: Ids, ids: Ids, groups: int) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Return the ids group by group, and where each group ends."""
    ends = np.zeros(groups + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=groups), out=ends[1:])
    ordered = memory.empty(len(ids), np.int32)
    sort_by_group(numbers, ids, ends, ordered)  # moves each beginning to the end
    return ordered, ends[:-1]


def _fold_by_definition(
    function: str, numbers: Ids, ids: Ids, asked: npt.NDArray[np.int64], results: Ids, dictionary: Dictionary
) -> None:
    """Write the results of the groups that kernels leave to the definition."""
    ordered, ends = _by_group(numbers, ids, len(results))
    for group in asked.tolist():
        start = int(ends[group - 1]) if group else 0
        members = dictionary.decode_all(ordered[start : int(ends[group])].tolist())
        value = AGGREGATES[function]([(member,) for member in members])
        results[group] = -1 if value is None else dictionary.encode(value)


# ---- kernels: groups


@kernel("const i32[:], const i32[:], i64, i64, i64, i32[:], i32[:], i32[:] -> i64")
def number_direct(
    left: Any, right: Any, width: Any, factor: Any, origin: Any, window: Any, numbers: Any, firsts: Any
) -> Any:
    """Number pairs of ids, or ids where the factor is 0; return how many there are.

    Each pair has its own place in the window, which is `width` ids wide and all zeros.
    """
    count = np.int64(0)
    for row in range(len(left)):
        place = np.int64(left[row]) * width + np.int64(right[row]) * factor - origin
        number = np.int64(window[place])
        if number == 0:
            firsts[count] = row
            count += 1
            number = count
            window[place] = count
        numbers[row] = number - 1
    return count


@inlined
def place_of(key: Any, mask: Any) -> Any:
    """Where the search for a key begins."""
    return np.int64(mix(key) >> np.uint64(32)) & mask


@kernel("const i32[:], const i32[:], i64, i64, i64, i64[:], i32[:], i32[:] -> i64, i64")
def number_hashed(
    left: Any, right: Any, factor: Any, done: Any, count: Any, slots: Any, numbers: Any, firsts: Any
) -> Any:
    """Go on to number pairs until half of the slots are taken; return how many rows and pairs there are.

    A slot is two words: the pair, and its number plus 1.
    """
    rows = len(left)
    mask = (len(slots) >> 1) - 1
    address = slots.ctypes.data
    keys = np.empty(BLOCK, np.int64)
    places = np.empty(BLOCK, np.int64)
    begin = done
    while begin < rows and count + BLOCK <= (mask + 1) >> 1:
        size = min(BLOCK, rows - begin)
        for offset in range(size):
            key = (np.int64(left[begin + offset]) << 32) | (np.int64(right[begin + offset]) * factor & LOWER)
            keys[offset] = key
            places[offset] = place_of(key, mask)
            prefetch(address + 16 * places[offset])
        for offset in range(size):
            place = places[offset]
            while slots[2 * place + 1] != 0 and slots[2 * place] != keys[offset]:
                place = (place + 1) & mask
            if slots[2 * place + 1] == 0:
                firsts[count] = begin + offset
                count += 1
                slots[2 * place] = keys[offset]
                slots[2 * place + 1] = count
            numbers[begin + offset] = slots[2 * place + 1] - 1
        begin += size
    return begin, count


@kernel("const i64[:], i64[:]")
def move_slots(old: Any, new: Any) -> None:
    """Fill the new slots, which are all zeros, from the old ones."""
    mask = (len(new) >> 1) - 1
    for slot in range(len(old) >> 1):
        if old[2 * slot + 1] != 0:
            place = place_of(old[2 * slot], mask)
            while new[2 * place + 1] != 0:
                place = (place + 1) & mask
            new[2 * place] = old[2 * slot]
            new[2 * place + 1] = old[2 * slot + 1]


@kernel("const i32[:], const i32[:], i64[:], i32[:]")
def sort_by_group(numbers: Any, ids: Any, begins: Any, ordered: Any) -> None:
    """Write the ids group by group, and move the beginning of each group to its end."""
    for row in range(len(ids)):
        group = numbers[row]
        ordered[begins[group]] = ids[row]
        begins[group] += 1


# ---- kernels: sums of integers and decimals

NOTHING, ASKED = 0, 255  # instead of the kind of a result: there is none; the definition knows
SUM_LOW, SUM_HIGH, SUM_SCALE, SUM_COUNT, SUM_MET, SUM_WORDS = range(6)
MET_DECIMAL, MET_DOUBLE, MET_MORE = 1, 2, 4  # MORE is what needs the definition
LARGEST = np.uint64(9223372036854775807)
ONE = np.uint64(1)
POWERS = tuple(10**power for power in range(19))
NINETEEN_DIGITS = np.uint64(10**18)


@inlined
def add_overflows(left: Any, right: Any, total: Any) -> Any:
    """Whether a sum of signed integers has left its bits."""
    return ((left ^ total) & (right ^ total)) < 0


@kernel("i64[:], const i32[:], const i32[:], i64[:,:]")
def add_numbers(D: Any, numbers: Any, ids: Any, sums: Any) -> None:
    """Add integers and decimals to the sums of their groups, and note what else a group has."""
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    for row in range(len(ids)):
        entry = ids[row]
        kind = kinds[entry]
        if kind < INTEGER or kind > BIG:
            continue
        group = numbers[row]
        sums[group, SUM_COUNT] += 1
        if kind >= DOUBLE:
            sums[group, SUM_MET] |= MET_DOUBLE if kind == DOUBLE else MET_MORE
            continue
        scale = np.int64(extras[entry])
        if kind == DECIMAL:
            sums[group, SUM_MET] |= MET_DECIMAL
        if scale > sums[group, SUM_SCALE]:
            raise_scale(sums, group, scale)
        add_scaled(sums, group, payloads[entry], sums[group, SUM_SCALE] - scale)


@subroutine
def raise_scale(sums: Any, group: Any, scale: Any) -> None:
    """Give a sum more digits behind the point."""
    power = scale - sums[group, SUM_SCALE]
    low, high, fits = times_power_of_ten(np.uint64(sums[group, SUM_LOW]), sums[group, SUM_HIGH], power)
    sums[group, SUM_LOW] = np.int64(low)
    sums[group, SUM_HIGH] = high
    sums[group, SUM_SCALE] = scale
    if not fits:
        sums[group, SUM_MET] |= MET_MORE


@inlined
def add_scaled(sums: Any, group: Any, payload: Any, power: Any) -> None:
    """Add payload * 10**power to a sum."""
    low = np.uint64(payload)
    high = payload >> 63
    if power > 0:
        limit = POWERS[18 - power] if power <= 18 else 0
        if -limit < payload < limit:
            payload *= POWERS[power]
            low = np.uint64(payload)
        else:
            low, high, fits = times_power_of_ten(low, high, power)
            if not fits:
                sums[group, SUM_MET] |= MET_MORE
    total = np.uint64(sums[group, SUM_LOW]) + low
    above = sums[group, SUM_HIGH]
    sums[group, SUM_LOW] = np.int64(total)
    sums[group, SUM_HIGH] = above + high + np.int64(total < low)
    if add_overflows(above, high, sums[group, SUM_HIGH]):
        sums[group, SUM_MET] |= MET_MORE


@kernel("const i64[:,:], bool, u8[:], i64[:], i32[:]")
def finish_sums(sums: Any, is_mean: Any, kinds: Any, payloads: Any, extras: Any) -> None:
    """Write the sum or mean of each group; of those with doubles only that kind."""
    for group in range(len(sums)):
        met = sums[group, SUM_MET]
        scale = sums[group, SUM_SCALE]
        if sums[group, SUM_COUNT] == 0:
            kinds[group] = NOTHING
            continue
        if met & MET_MORE or (met & MET_DOUBLE and scale > 0):
            kinds[group] = ASKED
            continue
        if met & MET_DOUBLE:
            kinds[group] = DOUBLE
            continue
        kind, payload, extra = finished(
            np.uint64(sums[group, SUM_LOW]),
            sums[group, SUM_HIGH],
            scale,
            sums[group, SUM_COUNT],
            (met & MET_DECIMAL) != 0,
            is_mean,
        )
        kinds[group] = kind
        payloads[group] = payload
        extras[group] = extra


@subroutine
def finished(low: Any, above: Any, scale: Any, count: Any, has_decimals: Any, is_mean: Any) -> Any:
    """The sum or mean of integers and decimals, from the halves of the sum: kind, payload and scale."""
    high = np.uint64(above)
    is_negative = above < 0
    if is_negative:
        high = ~high + np.uint64(low == ZERO)
        low = ~low + ONE
    limit = LARGEST + np.uint64(is_negative)
    if is_mean:
        low, high, more = divide(low, high, np.uint64(count), limit)
        scale += more
        if scale < 0:
            low *= TEN  # of a quotient of 19 digits, the last one lost: the divisor is at least 2
            scale = np.int64(0)
    if high != ZERO or low > limit:
        return np.int64(ASKED), np.int64(0), np.int64(0)
    while scale > 0 and low % TEN == ZERO:
        low //= TEN
        scale -= 1
    payload = -np.int64(low) if is_negative else np.int64(low)
    return np.int64(DECIMAL if is_mean or has_decimals else INTEGER), payload, scale


@subroutine
def divide(low: Any, high: Any, divisor: Any, limit: Any) -> Any:
    """The quotient of an unsigned integer: its halves, and how many of its digits stand behind the point.

    It is exact if it is at most the limit, else it is rounded to 18 digits, half to even. The divisor has
    fewer than 32 bits. A quotient that is beyond the limit without its fraction is refused: its upper half is
    not 0.
    """
    if high >= divisor:
        return low, high, np.int64(0)
    upper = (high << HALF) | (low >> HALF)
    lower = ((upper % divisor) << HALF) | (low & LOWER_HALF)
    quotient = ((upper // divisor) << HALF) | (lower // divisor)
    rest = lower % divisor
    digits = np.int64(0)
    if quotient > limit:
        return quotient, ONE, digits
    while rest != ZERO:
        digit = rest * TEN // divisor
        if quotient > (limit - digit) // TEN:
            break
        quotient = quotient * TEN + digit
        rest = rest * TEN % divisor
        digits += 1
    if rest == ZERO:
        return quotient, ZERO, digits
    # The quotient has 18 or 19 digits, and something follows them.
    if quotient >= NINETEEN_DIGITS:
        is_up = quotient % TEN >= np.uint64(5)
        quotient //= TEN
        digits -= 1
    else:
        twice = rest + rest
        is_up = twice > divisor or (twice == divisor and (quotient & ONE) == ONE)
    return quotient + np.uint64(is_up), ZERO, digits


# ---- kernels: sums of doubles
#
# A sum is a row of digits to the base 2**32, each in a signed word, so that carries wait. Bit 0 of the digit
# SPARE is the least double, 2**-1074; the digits below are for the fraction of a quotient.

SPARE = 3
DIGITS = 73
LEAST_BIT = 32 * SPARE
UNIT_BIT = LEAST_BIT + 1074  # of the number 1
MOST_ADDED = 1 << 30  # numbers until a word may overflow
FRACTION = 4503599627370495
HIDDEN_BIT = 4503599627370496
INFINITE = 2047
INFINITY = np.int64(9218868437227405312)  # its bits
SIGN = np.int64(-9223372036854775808)


@subroutine
def add_to_digits(digits: Any, magnitude: Any, position: Any, is_negative: Any) -> None:
    """Add an unsigned integer times 2**position."""
    place = position >> 5
    shift = np.uint64(position & 31)
    low = (magnitude & LOWER_HALF) << shift
    high = (magnitude >> HALF) << shift
    first = np.int64(low & LOWER_HALF)
    second = np.int64(low >> HALF) + np.int64(high & LOWER_HALF)
    third = np.int64(high >> HALF)
    if is_negative:
        first, second, third = -first, -second, -third
    digits[place] += first
    digits[place + 1] += second
    digits[place + 2] += third


@kernel("i64[:], const i32[:], const i64[:], bool, u8[:], i64[:]")
def add_doubles(D: Any, ids: Any, ends: Any, is_mean: Any, kinds: Any, payloads: Any) -> None:
    """Write the sum or mean of each group that is a double; the ids of each group end where `ends` says."""
    digits = np.zeros(DIGITS, np.int64)
    begin = np.int64(0)
    for group in range(len(kinds)):
        end = ends[group]
        if kinds[group] == DOUBLE:
            kind, payload = add_group(D, ids, begin, end, is_mean, digits)
            kinds[group] = kind
            payloads[group] = payload
        begin = end


@subroutine
def add_group(D: Any, ids: Any, begin: Any, end: Any, is_mean: Any, digits: Any) -> Any:
    """The sum or mean of a group of doubles, integers and whole decimals: kind and payload.

    The digits are zeros before and after.
    """
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    kind = DOUBLE if end - begin <= MOST_ADDED else ASKED
    count = np.int64(0)
    lowest, highest = np.int64(DIGITS - 3), np.int64(SPARE)
    for row in range(begin, end):
        entry = ids[row]
        payload = payloads[entry]
        if kinds[entry] == DOUBLE:
            exponent = (payload >> 52) & INFINITE
            if exponent == INFINITE:
                kind = ASKED
                break
            magnitude = np.uint64(payload & FRACTION | (HIDDEN_BIT if exponent else 0))
            position = LEAST_BIT + max(exponent, 1) - 1
        elif kinds[entry] == INTEGER or kinds[entry] == DECIMAL:
            magnitude = np.uint64(-payload if payload < 0 else payload)
            position = np.int64(UNIT_BIT)
        else:
            continue
        count += 1
        add_to_digits(digits, magnitude, position, payload < 0)
        lowest = min(lowest, position >> 5)
        highest = max(highest, (position >> 5) + 2)
    if count == 0:
        return kind, np.int64(0)
    payload = finished_digits(digits, lowest, highest, count if is_mean else np.int64(0))
    for place in range(lowest - SPARE, highest + 2):
        digits[place] = 0
    if kind == DOUBLE and (payload & ~SIGN) == INFINITY:
        kind = NOTHING
    return kind, payload


@subroutine
def finished_digits(digits: Any, lowest: Any, highest: Any, divisor: Any) -> Any:
    """The bits of the double nearest to a sum, or to a quotient where the divisor is not 0.

    The digits from `lowest` to `highest` may have others than zeros; they are used up.
    """
    highest += 1  # for carries
    is_negative = carry(digits, lowest, highest) < 0
    if is_negative:
        for place in range(lowest, highest + 1):
            digits[place] = -digits[place]
        carry(digits, lowest, highest)
    rest = divide_digits(digits, lowest - SPARE, highest, divisor) if divisor > 0 else np.int64(0)
    payload = rounded(digits, lowest - SPARE, highest, rest)
    return payload | SIGN if is_negative and payload != 0 else payload


@subroutine
def carry(digits: Any, lowest: Any, highest: Any) -> Any:
    """Carry what each digit has beyond 32 bits to the next; return what is left, -1 below zero."""
    carried = np.int64(0)
    for place in range(lowest, highest + 1):
        total = digits[place] + carried
        digits[place] = total & LOWER
        carried = total >> 32
    return carried


@subroutine
def divide_digits(digits: Any, lowest: Any, highest: Any, divisor: Any) -> Any:
    """Divide digits, from the highest to the lowest; return what is left over."""
    rest = np.int64(0)
    for place in range(highest, lowest - 1, -1):
        dividend = (rest << 32) | digits[place]
        digits[place] = dividend // divisor
        rest = dividend % divisor
    return rest


@subroutine
def rounded(digits: Any, lowest: Any, highest: Any, rest: Any) -> Any:
    """The bits of the double nearest to digits, of two the even one; more follows if the rest is not 0."""
    while highest >= lowest and digits[highest] == 0:
        highest -= 1
    if highest < lowest:
        return np.int64(0)
    last = 32 * highest - 52  # the position of the last bit that is kept
    top = digits[highest]
    while top > 1:
        top >>= 1
        last += 1
    last = max(last, np.int64(LEAST_BIT))
    place = last >> 5
    shift = np.uint64(last & 31)
    bits = (np.uint64(digits[place]) >> shift) | (np.uint64(digits[place + 1]) << (HALF - shift))
    if shift > ZERO:
        bits |= np.uint64(digits[place + 2]) << (np.uint64(64) - shift)
    half = last - 1
    below = np.int64(1) << (half & 31)
    if digits[half >> 5] & below:
        more = rest != 0 or (digits[half >> 5] & (below - 1)) != 0
        for lower in range(lowest, half >> 5):
            more = more or digits[lower] != 0
        bits += np.uint64(more or (bits & ONE) == ONE)
    # The bit that doubles hide adds 1 to the exponent, which is 0 for those that have none.
    exponent = last - LEAST_BIT
    return INFINITY if exponent >= INFINITE - 1 else np.int64(bits) + (exponent << 52)


# ---- kernels: the least and the greatest


@kernel("i64[:], const i32[:], const i32[:], i64, i32[:], bool[:]")
def keep_extremes(D: Any, numbers: Any, ids: Any, sign: Any, results: Any, is_asked: Any) -> None:
    """Keep the least (sign -1) or greatest id of each group, -1 so far, by the total order of values."""
    for row in range(len(ids)):
        group = numbers[row]
        entry = ids[row]
        kept = results[group]
        if kept < 0:
            results[group] = entry
        elif entry != kept:
            outcome = compare(D, entry, kept)
            if outcome == UNCERTAIN:
                is_asked[group] = True
            elif outcome == sign:
                results[group] = entry
