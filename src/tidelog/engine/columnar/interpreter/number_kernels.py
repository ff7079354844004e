"""Single values: exact arithmetic and casts of numbers, parts of dates, and the order of all.

A number is a kind, a payload and a scale, as the dictionary has them: an integer, a decimal without trailing
zeros, or the bits of a double. `logic.functions` defines every function; what needs more than 64 bits on the
way is left to that definition: the result's kind is then ASK.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, doubles_at, inlined, int32_at, int64_at, load64, subroutine
from tidelog.data.dictionary_kernels import D_CAPACITY, D_EXTENT, D_EXTRA, D_HEAP, D_KIND, D_PAYLOAD
from tidelog.engine.columnar.layout import (
    X_ADD,
    X_BIT_AND,
    X_BIT_OR,
    X_BIT_XOR,
    X_DIVIDE,
    X_HOURS,
    X_LOG,
    X_MINUTES,
    X_MONTH,
    X_MULTIPLY,
    X_POWER,
    X_REMAINDER,
    X_SECONDS,
    X_SHIFT_LEFT,
    X_SHIFT_RIGHT,
    X_SUBTRACT,
    X_TO_DATE,
    X_TO_DATETIME,
    X_YEAR,
)

NO_VALUE_KIND, ASK = -1, 0  # kinds of results without a value, and of those that the definition computes
BOOLEAN, INTEGER, DECIMAL, DOUBLE, BIG, DATE, DATETIME, STRING = range(1, 9)
LANGUAGE_STRING, LITERAL, IRI, BLANK = range(9, 13)
LEAST = np.int64(-(2**63))
MOST = np.int64(2**63 - 1)
TWO_63 = 9223372036854775808.0
EXACT_IN_DOUBLE = np.int64(2**53)
MOST_SCALE = 18  # 10**18 fits 64 bits
MOST_EXACT_SCALE = 22  # 10.0**22 is exact
SIGNIFICANT = 18  # digits of a quotient that is not exact
DIVISIBLE = np.uint64(10**18)  # divisors below leave room for another digit of the remainder


# ---- whole numbers of 64 bits


@inlined
def add_overflows(left: Any, right: Any) -> Any:
    """Whether the sum of two integers leaves 64 bits."""
    total = left + right
    return ((left ^ total) & (right ^ total)) < 0


@inlined
def multiply_overflows(left: Any, right: Any) -> Any:
    """Whether the product of two integers may leave 64 bits; certain only below 2**62."""
    return abs(np.float64(left) * np.float64(right)) > 4.0e18


@inlined
def magnitude(number: Any) -> Any:
    """The absolute value, unsigned: that of the least integer fits, too."""
    return np.uint64(-number) if number < 0 else np.uint64(number)


@subroutine
def power_of_ten(exponent: Any) -> Any:
    """Ten to a power from 0 to 18."""
    power = np.int64(1)
    square = np.int64(10)
    while exponent > 0:
        if exponent & 1:
            power *= square
        square *= square
        exponent >>= 1
    return power


@subroutine
def divide_whole(left: Any, right: Any) -> Any:
    """The quotient of two integers cut towards zero, as kind and number."""
    if right == 0:
        return np.int64(NO_VALUE_KIND), np.int64(0)
    size = magnitude(left) // magnitude(right)
    if (left < 0) == (right < 0):
        return np.int64(ASK if size > np.uint64(MOST) else INTEGER), np.int64(size)
    return np.int64(INTEGER), -np.int64(size)


@inlined
def remainder_whole(left: Any, right: Any) -> Any:
    """What is left of the division of two integers, the second not 0; it has the sign of the first."""
    rest = np.int64(magnitude(left) % magnitude(right))
    return -rest if left < 0 else rest


@subroutine
def square_root_whole(number: Any) -> Any:
    """The greatest integer whose square is at most a number from 0 up."""
    root = np.int64(np.sqrt(np.float64(number)))
    while root > 3037000499 or root * root > number:
        root -= 1
    while root < 3037000499 and (root + 1) * (root + 1) <= number:
        root += 1
    return root


@subroutine
def logarithm_whole(number: Any, base: Any) -> Any:
    """The greatest exponent whose power is at most a number; both are above 0, the base is not 1."""
    exponent = np.int64(0)
    while number >= base:
        number //= base
        exponent += 1
    return exponent


@subroutine
def power_whole(base: Any, exponent: Any) -> Any:
    """Whether a power, to an exponent from 0 to 64, fits 64 bits for certain, and the power."""
    power = np.int64(1)
    for _ in range(exponent):
        if multiply_overflows(power, base):
            return False, np.int64(0)
        power *= base
    return True, power


# ---- decimals: number / 10**scale


@subroutine
def without_zeros(number: Any, scale: Any) -> Any:
    """The decimal with the least scale: kind, number and scale."""
    while scale > 0 and number % 10 == 0:
        number //= 10
        scale -= 1
    return np.int64(DECIMAL), number, scale


@subroutine
def rescaled(number: Any, digits: Any) -> Any:
    """Whether a number with this many more digits fits 64 bits for certain, and that number."""
    if digits == 0 or number == 0:
        return True, number
    if digits > MOST_SCALE:
        return False, np.int64(0)
    power = power_of_ten(digits)
    if multiply_overflows(number, power):
        return False, np.int64(0)
    return True, number * power


@subroutine
def aligned(left: Any, left_scale: Any, right: Any, right_scale: Any) -> Any:
    """Whether two decimals fit 64 bits at their larger scale, both numbers there, and that scale."""
    scale = max(left_scale, right_scale)
    left_fits, left = rescaled(left, scale - left_scale)
    right_fits, right = rescaled(right, scale - right_scale)
    return left_fits and right_fits, left, right, scale


@subroutine
def floor_of_decimal(number: Any, scale: Any) -> Any:
    """The greatest integer that is at most a decimal, and what is left at the decimal's scale."""
    if scale > MOST_SCALE:
        floor = np.int64(0 if number >= 0 else -1)
        return floor, np.int64(0 if number == 0 else 1)
    power = power_of_ten(scale)
    floor = number // power
    return floor, number - floor * power


@subroutine
def double_of_decimal(number: Any, scale: Any) -> Any:
    """Whether the double nearest to a decimal is found here, and that double."""
    if scale == 0:
        return True, np.float64(number)
    if scale > MOST_EXACT_SCALE or number > EXACT_IN_DOUBLE or number < -EXACT_IN_DOUBLE:
        return False, 0.0
    power = 1.0
    for _ in range(scale):
        power *= 10.0
    return True, np.float64(number) / power


@subroutine
def decimal_of_double(number: Any) -> Any:
    """The shortest decimal that reads back as a double, if it has at most 15 digits: kind, number, scale."""
    scaled = abs(number)
    power = 1.0
    scale = np.int64(0)
    while scaled < 1.0e15 and scale <= MOST_SCALE:
        whole = np.floor(scaled + 0.5)
        if whole < 1.0e15 and whole / power == abs(number):
            digits = np.int64(whole)
            return np.int64(DECIMAL), -digits if number < 0.0 else digits, scale
        power *= 10.0
        scaled = abs(number) * power
        scale += 1
    return np.int64(ASK), np.int64(0), np.int64(0)


@subroutine
def divide_decimals(left: Any, left_scale: Any, right: Any, right_scale: Any) -> Any:
    """The quotient, exact or to 18 significant digits, half to even: kind, number and scale."""
    if right == 0:
        return np.int64(NO_VALUE_KIND), np.int64(0), np.int64(0)
    divisor = magnitude(right)
    if divisor >= DIVISIBLE:
        return np.int64(ASK), np.int64(0), np.int64(0)
    quotient = magnitude(left) // divisor
    rest = magnitude(left) % divisor
    scale = left_scale - right_scale
    digits = np.int64(0)
    while digits < SIGNIFICANT and quotient >= np.uint64(power_of_ten(digits)):
        digits += 1
    ten = np.uint64(10)
    while rest != 0 and digits < SIGNIFICANT:
        rest *= ten
        quotient = quotient * ten + rest // divisor
        rest %= divisor
        scale += 1
        digits += np.int64(quotient != 0)
    if rest != 0:
        # It may be exact with a 19th digit; with more than 18 before the point it is rounded there.
        if quotient >= DIVISIBLE or (rest * ten) % divisor == 0:
            return np.int64(ASK), np.int64(0), np.int64(0)
        twice = rest * np.uint64(2)
        if twice > divisor or (twice == divisor and quotient % np.uint64(2) == 1):
            quotient += np.uint64(1)
    if quotient > np.uint64(MOST):
        return np.int64(ASK), np.int64(0), np.int64(0)
    number = np.int64(quotient)
    if (left < 0) != (right < 0):
        number = -number
    if scale < 0:
        fits, number = rescaled(number, -scale)
        return np.int64(DECIMAL if fits else ASK), number, np.int64(0)
    return without_zeros(number, scale)


# ---- the operations of two numbers


@subroutine
def combine_whole(operation: Any, left: Any, right: Any) -> Any:
    """The result of an operation on two integers, as kind and number."""
    nothing = np.int64(0)
    if operation == X_ADD:
        return np.int64(ASK if add_overflows(left, right) else INTEGER), left + right
    if operation == X_SUBTRACT:
        overflows = right == LEAST or add_overflows(left, -right)
        return np.int64(ASK if overflows else INTEGER), left - right
    if operation == X_MULTIPLY:
        return np.int64(ASK if multiply_overflows(left, right) else INTEGER), left * right
    if operation == X_DIVIDE:
        return divide_whole(left, right)
    if operation == X_REMAINDER:
        if right == 0:
            return np.int64(NO_VALUE_KIND), nothing
        return np.int64(INTEGER), remainder_whole(left, right)
    if operation == X_POWER:
        if right < 0:
            return np.int64(NO_VALUE_KIND), nothing
        if left == 0 or left == 1:
            return np.int64(INTEGER), left if right > 0 else np.int64(1)
        if left == -1:
            return np.int64(INTEGER), np.int64(1 - 2 * (right & 1))
        if right > 64:
            return np.int64(ASK), nothing
        fits, power = power_whole(left, right)
        return np.int64(INTEGER if fits else ASK), power
    if operation == X_LOG:
        if left <= 0 or right <= 1:
            return np.int64(NO_VALUE_KIND), nothing
        return np.int64(INTEGER), logarithm_whole(left, right)
    if operation == X_BIT_AND:
        return np.int64(INTEGER), left & right
    if operation == X_BIT_OR:
        return np.int64(INTEGER), left | right
    if operation == X_BIT_XOR:
        return np.int64(INTEGER), left ^ right
    if right < 0 or right > 63:
        return np.int64(NO_VALUE_KIND), nothing
    if operation == X_SHIFT_LEFT:
        return np.int64(INTEGER), left << right
    if operation == X_SHIFT_RIGHT:
        return np.int64(INTEGER), left >> right
    return np.int64(INTEGER), np.int64(np.uint64(left) >> np.uint64(right))


@subroutine
def combine_decimals(operation: Any, left: Any, left_scale: Any, right: Any, right_scale: Any) -> Any:
    """The result of an operation on numbers one of which is a decimal: kind, number and scale."""
    nothing = np.int64(0)
    if operation == X_MULTIPLY:
        if multiply_overflows(left, right):
            return np.int64(ASK), nothing, nothing
        return without_zeros(left * right, left_scale + right_scale)
    if operation == X_DIVIDE:
        return divide_decimals(left, left_scale, right, right_scale)
    if operation in (X_POWER, X_LOG):
        return np.int64(ASK), nothing, nothing
    fits, left, right, scale = aligned(left, left_scale, right, right_scale)
    if not fits:
        return np.int64(ASK), nothing, nothing
    if operation == X_ADD:
        if add_overflows(left, right):
            return np.int64(ASK), nothing, nothing
        return without_zeros(left + right, scale)
    if operation == X_SUBTRACT:
        if right == LEAST or add_overflows(left, -right):
            return np.int64(ASK), nothing, nothing
        return without_zeros(left - right, scale)
    if right == 0:
        return np.int64(NO_VALUE_KIND), nothing, nothing
    return without_zeros(remainder_whole(left, right), scale)


@subroutine
def combine_doubles(operation: Any, left: Any, right: Any) -> Any:
    """The result of an operation on two doubles, as kind and number; infinite only if an operand is."""
    if operation == X_ADD:
        value = left + right
    elif operation == X_SUBTRACT:
        value = left - right
    elif operation == X_MULTIPLY:
        value = left * right
    elif operation == X_DIVIDE:
        if right == 0.0:
            return np.int64(NO_VALUE_KIND), 0.0
        value = left / right
    elif operation == X_REMAINDER:
        if right == 0.0 or np.isinf(left):
            return np.int64(NO_VALUE_KIND), 0.0
        value = np.fmod(left, right)
    else:
        return np.int64(ASK), 0.0
    if np.isnan(value) or (np.isinf(value) and np.isfinite(left) and np.isfinite(right)):
        return np.int64(NO_VALUE_KIND), 0.0
    return np.int64(DOUBLE), value + 0.0


# ---- the calendar

MICROSECONDS_OF_DAY = np.int64(86_400_000_000)
FOUR_CENTURIES = np.int64(146_097)  # days
MOST_DAYS = np.int64(10**15)  # the definition computes what lies further away
MOST_MOMENT = np.int64(2**62)
MOST_MIDNIGHT = MOST_MOMENT // MICROSECONDS_OF_DAY
NO_TIME_ZONE = 1 << 20  # in place of the minutes east of UTC


@subroutine
def civil(days: Any) -> Any:
    """Year, month and day that lie so many days after 1970-01-01."""
    shifted = days + 719_468  # to a year that begins in March, so that its leap day is the last
    era = shifted // FOUR_CENTURIES
    day_of_era = shifted - era * FOUR_CENTURIES
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + np.int64(month <= 2)
    return year, month, day


@subroutine
def part_of_time(operation: Any, kind: Any, number: Any, zone: Any) -> Any:
    """A part of a date or dateTime, in its own time zone: kind, number and scale or time zone."""
    nothing = np.int64(0)
    if operation == X_TO_DATETIME and kind == DATE:
        if number > MOST_MIDNIGHT or number < -MOST_MIDNIGHT:
            return np.int64(ASK), nothing, nothing
        return np.int64(DATETIME), number * MICROSECONDS_OF_DAY, np.int64(NO_TIME_ZONE)
    if kind == DATE:
        if operation == X_TO_DATE:
            return kind, number, nothing
        if operation in (X_HOURS, X_MINUTES, X_SECONDS):
            return np.int64(NO_VALUE_KIND), nothing, nothing
        days, rest = number, nothing
    elif kind == DATETIME:
        if operation == X_TO_DATETIME:
            return kind, number, zone
        if number > MOST_MOMENT or number < -MOST_MOMENT:
            return np.int64(ASK), nothing, nothing
        local = number + (nothing if zone == NO_TIME_ZONE else zone * 60_000_000)
        days = local // MICROSECONDS_OF_DAY
        rest = local - days * MICROSECONDS_OF_DAY
    else:
        is_text = kind == STRING and operation >= X_TO_DATE
        return np.int64(ASK if is_text else NO_VALUE_KIND), nothing, nothing
    if operation == X_TO_DATE:
        return np.int64(DATE), days, nothing
    if operation == X_HOURS:
        return np.int64(INTEGER), rest // 3_600_000_000, nothing
    if operation == X_MINUTES:
        return np.int64(INTEGER), rest // 60_000_000 % 60, nothing
    if operation == X_SECONDS:
        return without_zeros(rest % 60_000_000, np.int64(6))
    if days > MOST_DAYS or days < -MOST_DAYS:
        return np.int64(ASK), nothing, nothing
    year, month, day = civil(days)
    part = year if operation == X_YEAR else month if operation == X_MONTH else day
    return np.int64(INTEGER), part, nothing


# ---- The total order of values, as `logic.values.order_key` defines it.

UNCERTAIN = 2  # instead of the order of two values
LOWER_HALF = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
ZERO, TEN = np.uint64(0), np.uint64(10)
HIGHEST_TENTH = 922337203685477580  # of what 64 bits hold
EXACT_POWERS = tuple(10.0**power for power in range(23))
SPLITTER = 134217729.0
BEFORE_ZONES = -10_000  # where dateTimes without a time zone stand among those with one


@inlined
def order_of(left: Any, right: Any) -> Any:
    """-1, 0 or 1."""
    return np.int64(left > right) - np.int64(left < right)


@subroutine
def compare_texts(D: Any, left: Any, right: Any) -> Any:
    """-1, 0 or 1: the order of two texts by code point, which is the order of their UTF-8 bytes."""
    capacity = D[D_CAPACITY]
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extents = int32_at(D[D_EXTENT], capacity)
    first, second = D[D_HEAP] + payloads[left], D[D_HEAP] + payloads[right]
    shorter = np.int64(min(extents[left], extents[right]))
    place = np.int64(0)
    while place + 8 <= shorter and load64(first + place) == load64(second + place):
        place += 8
    a, b = bytes_at(first, shorter), bytes_at(second, shorter)
    while place < shorter and a[place] == b[place]:
        place += 1
    return order_of(a[place], b[place]) if place < shorter else order_of(extents[left], extents[right])


@subroutine
def times_power_of_ten(low: Any, high: Any, power: Any) -> Any:
    """A signed integer of 128 bits times 10**power: its halves, and whether they hold it."""
    while power > 0 and (low != ZERO or high != 0):
        if high >= HIGHEST_TENTH or high <= -HIGHEST_TENTH:
            return low, high, False
        first = (low & LOWER_HALF) * TEN
        second = (low >> HALF) * TEN + (first >> HALF)
        low = (second << HALF) | (first & LOWER_HALF)
        high = high * 10 + np.int64(second >> HALF)
        power -= 1
    return low, high, True


@inlined
def compare(D: Any, left: Any, right: Any) -> Any:
    """The order of the values of two different ids: -1, 1, or UNCERTAIN."""
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    kind = kinds[left]
    if kind == kinds[right] and extras[left] == extras[right] and kind <= DATETIME and kind != BIG:
        if kind == DOUBLE:
            reals = doubles_at(D[D_PAYLOAD], capacity)
            outcome = order_of(reals[left], reals[right])
        else:
            payloads = int64_at(D[D_PAYLOAD], capacity)
            outcome = order_of(payloads[left], payloads[right])
    else:
        outcome = compare_others(D, left, right)
    return outcome


@subroutine
def compare_others(D: Any, left: Any, right: Any) -> Any:
    """The same of values that differ in kind, in scale or time zone, or that are texts."""
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    kind, other = kinds[left], kinds[right]
    if INTEGER <= kind <= BIG and INTEGER <= other <= BIG:
        outcome = compare_numbers(D, left, right)
        return order_of(kind, other) if outcome == 0 else outcome
    if kind != other:
        return order_of(kind, other)
    if kind == DATETIME:
        outcome = order_of(payloads[left], payloads[right])
        first = BEFORE_ZONES if extras[left] == NO_TIME_ZONE else extras[left]
        second = BEFORE_ZONES if extras[right] == NO_TIME_ZONE else extras[right]
        return order_of(first, second) if outcome == 0 else outcome
    outcome = compare_texts(D, left, right)
    if outcome == 0 and kind in (LANGUAGE_STRING, LITERAL):
        outcome = compare_texts(D, extras[left], extras[right])
    return outcome


@subroutine
def compare_numbers(D: Any, left: Any, right: Any) -> Any:
    """The order of two numbers of which at most one is a double: -1, 0, 1, or UNCERTAIN."""
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    reals = doubles_at(D[D_PAYLOAD], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    if kinds[left] == BIG or kinds[right] == BIG:
        return np.int64(UNCERTAIN)
    if kinds[right] == DOUBLE:
        return compare_with_double(payloads[left], np.int64(extras[left]), reals[right])
    if kinds[left] == DOUBLE:
        outcome = compare_with_double(payloads[right], np.int64(extras[right]), reals[left])
        return outcome if outcome == UNCERTAIN else -outcome
    power = np.int64(extras[left]) - np.int64(extras[right])
    if power < 0:
        return -compare_decimals(payloads[right], payloads[left], -power)
    return compare_decimals(payloads[left], payloads[right], power)


@subroutine
def compare_decimals(left: Any, right: Any, power: Any) -> Any:
    """The order of an integer and another one times 10**power."""
    low, high, fits = times_power_of_ten(np.uint64(right), right >> 63, power)
    if not fits:
        return order_of(np.int64(0), right)
    outcome = order_of(left >> 63, high)
    return order_of(np.uint64(left), low) if outcome == 0 else outcome


@subroutine
def compare_with_double(payload: Any, scale: Any, real: Any) -> Any:
    """The order of payload / 10**scale and a double: -1, 0, 1, or UNCERTAIN."""
    if scale == 0:
        if real >= 9223372036854775808.0:
            return np.int64(-1)
        if real < -9223372036854775808.0:
            return np.int64(1)
        whole = np.int64(real)  # cut towards zero
        outcome = order_of(payload, whole)
        return order_of(0.0, real - np.float64(whole)) if outcome == 0 else outcome
    if not np.isfinite(real):
        return order_of(0.0, real)
    if scale > 22:
        return np.int64(UNCERTAIN)
    power = EXACT_POWERS[scale]
    near = np.float64(payload) / power
    margin = abs(near) * 1.0e-15
    if near - margin > real or near + margin < real:
        return order_of(near, real)
    if abs(payload) > EXACT_IN_DOUBLE:
        return np.int64(UNCERTAIN)
    # Both operands of the product are doubles: it and what rounding it lost are exact (Dekker 1971).
    product = real * power
    split = SPLITTER * real
    real_high = split - (split - real)
    split = SPLITTER * power
    power_high = split - (split - power)
    real_low, power_low = real - real_high, power - power_high
    lost = real_low * power_low - (
        ((product - real_high * power_high) - real_low * power_high) - real_high * power_low
    )
    return order_of(np.float64(payload) - product, lost)
