"""Compiled expressions over a batch of ids: one operation at a time, over whole columns.

Numbers, dates, times, tests and the order of texts are computed here, with the results of `logic.functions`,
which defines every function. A row that needs more (a text as a number, more than 64 bits, an overflow to
report) is marked ASK_PYTHON and left to that definition.

Operands wait on a stack of columns. A value is its kind, its payload and, for decimals and dateTimes, its
scale or time zone; an id as well if it has one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, doubles_at, inlined, int32_at, int64_at, prefetch, subroutine
from tidelog.data.dictionary_kernels import (
    D_CAPACITY,
    D_EXTRA,
    D_KIND,
    D_PAYLOAD,
    D_SHIFT,
    D_SLOT_COUNT,
    D_SLOTS,
    FULL,
    LOWER,
    intern_number,
    number_hash,
)
from tidelog.engine.columnar.interpreter.number_kernels import (
    ASK,
    BIG,
    BLANK,
    BOOLEAN,
    DATE,
    DATETIME,
    DECIMAL,
    DOUBLE,
    INTEGER,
    LANGUAGE_STRING,
    LEAST,
    LITERAL,
    MOST_SCALE,
    NO_VALUE_KIND,
    STRING,
    TWO_63,
    UNCERTAIN,
    add_overflows,
    combine_decimals,
    combine_doubles,
    combine_whole,
    compare_decimals,
    compare_texts,
    compare_with_double,
    decimal_of_double,
    double_of_decimal,
    floor_of_decimal,
    multiply_overflows,
    part_of_time,
    square_root_whole,
)
from tidelog.engine.columnar.layout import (
    ASK_PYTHON,
    NO_VALUE,
    X_ABS,
    X_ADD,
    X_AND,
    X_BIT_AND,
    X_CEIL,
    X_COALESCE,
    X_CONSTANT,
    X_DIVIDE,
    X_EQUAL,
    X_FLOOR,
    X_GREATER,
    X_GREATER_EQUAL,
    X_GREATEST,
    X_IF,
    X_IS_INTEGER,
    X_LESS,
    X_LESS_EQUAL,
    X_LOAD,
    X_MULTIPLY,
    X_NEGATE,
    X_NOT,
    X_OR,
    X_PYTHON,
    X_REMAINDER,
    X_ROUND,
    X_SQRT,
    X_TEST,
    X_TO_BOOLEAN,
    X_TO_DECIMAL,
    X_TO_INTEGER,
    X_UNEQUAL,
    Z_BATCH,
    Z_BUFFER,
    Z_RESULT,
    Z_WIDTH,
)

LONGEST = 256  # words; the assembler leaves longer expressions to Python
BLOCK = 32  # results that are hashed ahead
INCOMPARABLE = UNCERTAIN + 1  # instead of an order


@subroutine
def evaluate_batch(D: Any, words: Any, first: Any, length: Any, level: Any, rows: Any, Z: Any) -> Any:
    """Fill the result column for a batch: an id, for a test 1 or 0, NO_VALUE, or ASK_PYTHON.

    Returns how many rows ask Python, or FULL when the dictionary must grow (the batch then starts anew).
    """
    batch = Z[Z_BATCH]
    result = int32_at(Z[Z_RESULT], batch)
    if words[first] == X_PYTHON:
        for row in range(rows):
            result[row] = ASK_PYTHON
        return rows
    depth = stack_depth(words, first, length)
    kinds = np.empty((depth, rows), np.int8)
    numbers = np.empty((depth, rows), np.int64)
    extras = np.empty((depth, rows), np.int32)
    ids = np.empty((depth, rows), np.int32)
    base = Z[Z_BUFFER] + 4 * level * Z[Z_WIDTH] * batch
    top = -1
    for word in range(first, first + length, 2):
        operation = words[word]
        argument = words[word + 1]
        if operation == X_LOAD:
            top += 1
            column = int32_at(base + 4 * argument * batch, batch)
            for row in range(rows):
                ids[top, row] = column[row]
            load_values(D, rows, kinds[top], numbers[top], extras[top], ids[top])
        elif operation == X_CONSTANT:
            top += 1
            load_constant(D, argument, rows, kinds[top], numbers[top], extras[top], ids[top])
        elif operation < X_ADD:
            apply_to_one(operation, argument, rows, kinds[top], numbers[top], extras[top], ids[top])
        elif operation == X_IF:
            top -= 2
            choose(
                rows, kinds[top : top + 3], numbers[top : top + 3], extras[top : top + 3], ids[top : top + 3]
            )
        else:
            top -= 1
            left = kinds[top], numbers[top], extras[top], ids[top]
            right = kinds[top + 1], numbers[top + 1], extras[top + 1], ids[top + 1]
            if operation < X_EQUAL:
                apply_to_numbers(operation, rows, left, right)
            elif operation < X_AND:
                apply_comparison(D, operation, rows, left, right)
            else:
                apply_to_values(D, operation, rows, left, right)
    if words[first + length - 2] == X_TEST:
        return write_truths(rows, kinds[0], numbers[0], result)
    return write_ids(D, rows, kinds[0], numbers[0], extras[0], ids[0], result)


@subroutine
def stack_depth(words: Any, first: Any, length: Any) -> Any:
    """How many operands wait at once."""
    waiting, deepest = 0, 0
    for word in range(first, first + length, 2):
        if words[word] <= X_CONSTANT:
            waiting += 1
        elif words[word] == X_IF:
            waiting -= 2
        elif words[word] >= X_ADD:
            waiting -= 1
        deepest = max(deepest, waiting)
    return deepest


# ---- values of ids, and ids of values


@inlined
def has_extra(kind: Any) -> Any:
    """Whether a value needs more than its kind and payload: the scale or the time zone."""
    return kind in (DECIMAL, DATETIME)


@subroutine
def load_values(D: Any, rows: Any, kind: Any, number: Any, extra: Any, ids: Any) -> None:
    """Load the values of a column of ids."""
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    all_extras = int32_at(D[D_EXTRA], capacity)
    for row in range(rows):
        each = ids[row]
        kind[row] = kinds[each]
        number[row] = payloads[each]
        extra[row] = all_extras[each] if has_extra(kind[row]) else 0


@subroutine
def load_constant(D: Any, constant: Any, rows: Any, kind: Any, number: Any, extra: Any, ids: Any) -> None:
    """Fill a column with one value."""
    capacity = D[D_CAPACITY]
    its_kind = bytes_at(D[D_KIND], capacity)[constant]
    payload = int64_at(D[D_PAYLOAD], capacity)[constant]
    its_extra = int32_at(D[D_EXTRA], capacity)[constant] if has_extra(its_kind) else np.int32(0)
    for row in range(rows):
        kind[row] = its_kind
        number[row] = payload
        extra[row] = its_extra
        ids[row] = constant


@subroutine
def write_truths(rows: Any, kind: Any, number: Any, result: Any) -> Any:
    """Write the outcome of a test; returns how many rows ask Python."""
    asking = np.int64(0)
    for row in range(rows):
        if kind[row] > ASK:
            result[row] = number[row]
        elif kind[row] == ASK:
            result[row] = ASK_PYTHON
            asking += 1
        else:
            result[row] = NO_VALUE
    return asking


@subroutine
def write_ids(D: Any, rows: Any, kind: Any, number: Any, extra: Any, ids: Any, result: Any) -> Any:
    """Write the ids of results, new ones given as needed; returns how many rows ask Python, or FULL.

    The slots, then the entries, of a block of values are fetched ahead: most looks at a large dictionary
    miss the cache.
    """
    hashes = np.empty(BLOCK, np.uint64)
    asking = np.int64(0)
    slots = int64_at(D[D_SLOTS], D[D_SLOT_COUNT])
    shift = np.uint64(D[D_SHIFT])
    begin = np.int64(0)
    while begin < rows:
        end = min(begin + BLOCK, rows)
        for row in range(begin, end):
            if kind[row] > ASK and ids[row] < 0:
                hashes[row - begin] = number_hash(np.int64(kind[row]), number[row], np.int64(extra[row]))
                prefetch(D[D_SLOTS] + 8 * np.int64(hashes[row - begin] >> shift))
        for row in range(begin, end):
            if kind[row] > ASK and ids[row] < 0:
                slot = slots[np.int64(hashes[row - begin] >> shift)]
                if slot != 0:
                    entry = (slot & LOWER) - 1
                    prefetch(D[D_PAYLOAD] + 8 * entry)
                    prefetch(D[D_EXTRA] + 4 * entry)
                    prefetch(D[D_KIND] + entry)
        for row in range(begin, end):
            if kind[row] == ASK:
                result[row] = ASK_PYTHON
                asking += 1
            elif kind[row] < ASK:
                result[row] = NO_VALUE
            elif ids[row] >= 0:
                result[row] = ids[row]
            else:
                interned = intern_number(D, np.int64(kind[row]), number[row], np.int64(extra[row]))
                if interned == FULL:
                    return np.int64(FULL)
                result[row] = interned
        begin = end
    return asking


# ---- one operand


@subroutine
def apply_to_one(
    operation: Any, argument: Any, rows: Any, kind: Any, number: Any, extra: Any, ids: Any
) -> None:
    """Replace each operand by the result of an operation."""
    real = doubles_at(number.ctypes.data, len(number))
    for row in range(rows):
        its = np.int64(kind[row])
        if its <= ASK:
            continue
        if operation == X_TO_INTEGER and its == INTEGER:
            continue
        if operation <= X_NOT:
            its, number[row] = tested(operation, argument, its, number[row])
            extra[row] = 0
        elif operation <= X_SQRT:
            if operation == X_SQRT and its == DECIMAL:
                fits, value = double_of_decimal(number[row], np.int64(extra[row]))
                if fits:
                    its, real[row], extra[row] = np.int64(DOUBLE), value, 0
            if its == DOUBLE:
                its = change_double(operation, row, number, real)
            else:
                its, number[row], scale = changed_exact(operation, its, number[row], np.int64(extra[row]))
                extra[row] = scale
        elif operation <= X_TO_BOOLEAN:
            its = cast(operation, its, row, number, real, extra)
        else:
            its, number[row], more = part_of_time(operation, its, number[row], np.int64(extra[row]))
            extra[row] = more
        kind[row] = its
        ids[row] = -1


@subroutine
def tested(operation: Any, argument: Any, kind: Any, number: Any) -> Any:
    """The outcome of a test of a value."""
    if operation == X_TEST:
        return np.int64(BOOLEAN), np.int64(kind == BOOLEAN and number != argument)
    if operation == X_NOT:
        return np.int64(BOOLEAN if kind == BOOLEAN else NO_VALUE_KIND), np.int64(1 - number)
    if operation == X_IS_INTEGER:
        return np.int64(ASK if kind == BIG else BOOLEAN), np.int64(kind == INTEGER)
    return np.int64(BOOLEAN), (argument >> kind) & 1


@subroutine
def changed_exact(operation: Any, kind: Any, number: Any, scale: Any) -> Any:
    """The result of an operation on an integer or decimal that has a result of the same kind."""
    nothing = np.int64(0)
    if kind != INTEGER and kind != DECIMAL:
        return np.int64(ASK if kind == BIG else NO_VALUE_KIND), nothing, nothing
    if operation in (X_NEGATE, X_ABS):
        if number == LEAST:
            return np.int64(ASK), nothing, nothing
        is_turned = operation == X_NEGATE or number < 0
        return kind, -number if is_turned else number, scale
    if operation == X_SQRT:
        if kind == DECIMAL:
            return np.int64(ASK), nothing, nothing
        if number < 0:
            return np.int64(NO_VALUE_KIND), nothing, nothing
        return kind, square_root_whole(number), nothing
    if scale == 0:
        return kind, number, scale
    floor, rest = floor_of_decimal(number, scale)
    if operation == X_CEIL:
        floor += rest != 0
    elif operation == X_ROUND:
        if scale > MOST_SCALE:
            return np.int64(ASK), nothing, nothing
        floor += floor_of_decimal(rest, scale - 1)[0] >= 5  # the first digit behind the point
    return kind, floor, nothing


@subroutine
def change_double(operation: Any, row: Any, number: Any, real: Any) -> Any:
    """Replace a double by the result of an operation; returns the kind of the result."""
    value = real[row]
    if operation == X_NEGATE:
        value = 0.0 - value
    elif operation == X_ABS:
        value = abs(value)
    elif operation == X_FLOOR:
        value = np.floor(value)
    elif operation == X_CEIL:
        value = np.ceil(value)
    elif operation == X_SQRT:
        if value < 0.0:
            return np.int64(NO_VALUE_KIND)
        value = np.sqrt(value)
    elif np.isfinite(value):
        floor = np.floor(value)
        value = floor + 1.0 if value - floor >= 0.5 else floor
    real[row] = value + 0.0
    return np.int64(DOUBLE)


@subroutine
def cast(operation: Any, kind: Any, row: Any, number: Any, real: Any, extra: Any) -> Any:
    """Replace a value by one of another kind; returns that kind. Texts are left to the definition."""
    if kind in (STRING, BIG):
        return np.int64(ASK)
    if kind > DOUBLE:
        return np.int64(NO_VALUE_KIND)
    if operation == X_TO_BOOLEAN:
        is_true = real[row] != 0.0 if kind == DOUBLE else number[row] != 0
        number[row] = is_true
        extra[row] = 0
        return np.int64(BOOLEAN)
    if operation == X_TO_INTEGER:
        if kind == DOUBLE:
            value = real[row]
            if np.floor(value) != value or not np.isfinite(value):
                return np.int64(NO_VALUE_KIND)
            if value >= TWO_63 or value < -TWO_63:
                return np.int64(ASK)
            number[row] = np.int64(value)
        elif extra[row] != 0:
            return np.int64(NO_VALUE_KIND)
        return np.int64(INTEGER)
    if operation == X_TO_DECIMAL:
        if kind == DOUBLE:
            if not np.isfinite(real[row]):
                return np.int64(NO_VALUE_KIND)
            kind, number[row], scale = decimal_of_double(real[row])
            extra[row] = scale
            return kind
        return np.int64(DECIMAL)
    if kind != DOUBLE:
        fits, value = double_of_decimal(number[row], np.int64(extra[row]))
        if not fits:
            return np.int64(ASK)
        real[row] = value
        extra[row] = 0
    return np.int64(DOUBLE)


# ---- two numbers


@inlined
def without_result(left: Any, right: Any) -> Any:
    """The kind of a result if an operand has no value: what the definition computes may be an error."""
    return ASK if left == ASK or right == ASK else NO_VALUE_KIND


@subroutine
def apply_to_numbers(operation: Any, rows: Any, left: Any, right: Any) -> None:
    """Replace each left operand by the result of an operation on numbers."""
    kind, number, extra, ids = left
    other_kind, other, other_extra, _ = right
    real = doubles_at(number.ctypes.data, len(number))
    other_real = doubles_at(other.ctypes.data, len(other))
    for row in range(rows):
        one, two = np.int64(kind[row]), np.int64(other_kind[row])
        ids[row] = -1
        if one <= ASK or two <= ASK:
            kind[row] = without_result(one, two)
        elif one == INTEGER and two == INTEGER:
            a, b = number[row], other[row]
            # What is usual is computed here: a call for each row would cost more.
            if operation == X_ADD and not add_overflows(a, b):
                number[row] = a + b
            elif operation == X_MULTIPLY and not multiply_overflows(a, b):
                number[row] = a * b
            elif operation == X_REMAINDER and a >= 0 and b > 0:
                number[row] = np.int64(np.uint64(a) % np.uint64(b))
            elif operation == X_DIVIDE and a >= 0 and b > 0:
                number[row] = np.int64(np.uint64(a) // np.uint64(b))
            else:
                one, number[row] = combine_whole(operation, a, b)
                kind[row] = one
        elif one < INTEGER or one > BIG or two < INTEGER or two > BIG:
            kind[row] = NO_VALUE_KIND
        elif one == BIG or two == BIG:
            kind[row] = ASK if operation < X_BIT_AND else NO_VALUE_KIND
        elif operation >= X_BIT_AND:
            kind[row] = NO_VALUE_KIND
        elif one == DOUBLE or two == DOUBLE:
            fits, value = True, real[row]
            if one != DOUBLE:
                fits, value = double_of_decimal(number[row], np.int64(extra[row]))
            others_fit, other_value = True, other_real[row]
            if two != DOUBLE:
                others_fit, other_value = double_of_decimal(other[row], np.int64(other_extra[row]))
            one = np.int64(ASK)
            if fits and others_fit:
                one, value = combine_doubles(operation, value, other_value)
            real[row] = value
            kind[row] = one
            extra[row] = 0
        else:
            one, number[row], scale = combine_decimals(
                operation, number[row], np.int64(extra[row]), other[row], np.int64(other_extra[row])
            )
            kind[row] = one
            extra[row] = scale


# ---- order


@inlined
def are_same(row: Any, left: Any, right: Any) -> Any:
    """Whether two operands are the same value; without ids they are no texts."""
    kind, number, extra, ids = left
    other_kind, other, other_extra, other_ids = right
    if ids[row] >= 0 and other_ids[row] >= 0:
        return ids[row] == other_ids[row]
    return kind[row] == other_kind[row] and number[row] == other[row] and extra[row] == other_extra[row]


@subroutine
def compare_operands(D: Any, row: Any, left: Any, right: Any) -> Any:
    """-1, 0 or 1 as the left operand is less, the same or greater; or UNCERTAIN, or INCOMPARABLE."""
    kind, number, extra, ids = left
    other_kind, other, other_extra, other_ids = right
    one, two = np.int64(kind[row]), np.int64(other_kind[row])
    if one == two and (one in (BOOLEAN, INTEGER, DATE, DATETIME)):
        return np.int64(number[row] > other[row]) - np.int64(number[row] < other[row])
    if are_same(row, left, right):
        return np.int64(0)
    if one >= INTEGER and one <= BIG and two >= INTEGER and two <= BIG:
        if one == BIG or two == BIG:
            return np.int64(UNCERTAIN)
        real = doubles_at(number.ctypes.data, len(number))[row]
        other_real = doubles_at(other.ctypes.data, len(other))[row]
        if one == DOUBLE and two == DOUBLE:
            return np.int64(real > other_real) - np.int64(real < other_real)
        if two == DOUBLE:
            return compare_with_double(number[row], np.int64(extra[row]), other_real)
        if one == DOUBLE:
            order = compare_with_double(other[row], np.int64(other_extra[row]), real)
            return order if order == UNCERTAIN else -order
        power = np.int64(extra[row]) - np.int64(other_extra[row])
        if power < 0:
            return -compare_decimals(other[row], number[row], -power)
        return compare_decimals(number[row], other[row], power)
    if one != two or one in (LITERAL, BLANK):
        return np.int64(INCOMPARABLE)
    if one == LANGUAGE_STRING:
        tags = int32_at(D[D_EXTRA], D[D_CAPACITY])
        if tags[ids[row]] != tags[other_ids[row]]:
            return np.int64(INCOMPARABLE)
    return np.int64(compare_texts(D, ids[row], other_ids[row]))


@subroutine
def apply_comparison(D: Any, operation: Any, rows: Any, left: Any, right: Any) -> None:
    """Replace each left operand by whether it stands to the right one as an operation says."""
    kind, number, extra, ids = left
    other_kind, other, _, _ = right
    if_less = operation in (X_LESS, X_LESS_EQUAL, X_UNEQUAL)
    if_same = operation in (X_EQUAL, X_LESS_EQUAL, X_GREATER_EQUAL)
    if_greater = operation in (X_GREATER, X_GREATER_EQUAL, X_UNEQUAL)
    for row in range(rows):
        if kind[row] <= ASK or other_kind[row] <= ASK:
            kind[row] = without_result(kind[row], other_kind[row])
            continue
        outcome = BOOLEAN
        if kind[row] == INTEGER and other_kind[row] == INTEGER:
            order = np.int64(number[row] > other[row]) - np.int64(number[row] < other[row])
        elif operation <= X_UNEQUAL:
            order = np.int64(0 if are_same(row, left, right) else 1)
        else:
            order = compare_operands(D, row, left, right)
            if order >= UNCERTAIN:
                outcome = ASK if order == UNCERTAIN else NO_VALUE_KIND
        kind[row] = outcome
        number[row] = if_same if order == 0 else if_less if order < 0 else if_greater
        extra[row] = 0
        ids[row] = -1


# ---- values of any kind


@subroutine
def apply_to_values(D: Any, operation: Any, rows: Any, left: Any, right: Any) -> None:
    """Replace each left operand by AND, OR, the least, the greatest, or the first of two that has a value."""
    kind, number, extra, ids = left
    other_kind, other, other_extra, other_ids = right
    for row in range(rows):
        one, two = kind[row], other_kind[row]
        is_right = False
        if one == ASK or two == ASK:
            kind[row] = ASK
        elif operation == X_COALESCE:
            is_right = one < ASK
        elif one < ASK or two < ASK:
            kind[row] = NO_VALUE_KIND
        elif operation in (X_AND, X_OR):
            if one != BOOLEAN or two != BOOLEAN:
                kind[row] = NO_VALUE_KIND
            number[row] = number[row] & other[row] if operation == X_AND else number[row] | other[row]
            ids[row] = -1
        else:
            order = compare_operands(D, row, right, left)
            if order >= UNCERTAIN:
                kind[row] = ASK if order == UNCERTAIN else NO_VALUE_KIND
            else:
                is_right = order > 0 if operation == X_GREATEST else order < 0
        if is_right:
            kind[row], number[row] = two, other[row]
            extra[row], ids[row] = other_extra[row], other_ids[row]


@subroutine
def choose(rows: Any, kinds: Any, numbers: Any, extras: Any, ids: Any) -> None:
    """Replace each condition by the first of two values where it is true, else by the second."""
    for row in range(rows):
        condition = kinds[0, row]
        if condition == ASK or kinds[1, row] == ASK or kinds[2, row] == ASK:
            kinds[0, row] = ASK
        elif condition != BOOLEAN:
            kinds[0, row] = NO_VALUE_KIND
        else:
            chosen = 1 if numbers[0, row] != 0 else 2
            kinds[0, row] = kinds[chosen, row]
            numbers[0, row] = numbers[chosen, row]
            extras[0, row] = extras[chosen, row]
            ids[0, row] = ids[chosen, row]
