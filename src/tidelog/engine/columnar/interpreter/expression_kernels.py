"""Compiled arithmetic and comparison over a batch of ids.

Only what is exact in 64 bits is computed here: integers, doubles, and the order of texts and times. A row
that needs more (decimals, mixed kinds, an overflow to report) is marked ASK_PYTHON and computed by
`logic.functions.builtins`, the one definition of every function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, doubles_at, inlined, int32_at, int64_at, subroutine
from tidelog.data.dictionary_kernels import (
    D_CAPACITY,
    D_EXTENT,
    D_EXTRA,
    D_HEAP,
    D_KIND,
    D_PAYLOAD,
    FULL,
    intern_number,
)
from tidelog.engine.columnar.layout import (
    ASK_PYTHON,
    NO_VALUE,
    X_ADD,
    X_CONSTANT,
    X_DIVIDE,
    X_EQUAL,
    X_GREATER,
    X_GREATER_EQUAL,
    X_LESS,
    X_LESS_EQUAL,
    X_LOAD,
    X_MULTIPLY,
    X_NEGATE,
    X_PYTHON,
    X_SUBTRACT,
    X_UNEQUAL,
    Z_BATCH,
    Z_BUFFER,
    Z_RESULT,
    Z_WIDTH,
)

BOOLEAN, INTEGER, DECIMAL, DOUBLE, DATE, DATETIME, STRING, IRI = 1, 2, 3, 4, 6, 7, 8, 11
LEAST = np.int64(-9223372036854775808)
DEEPEST = 32  # operands waiting at once; the assembler leaves deeper expressions to Python


@inlined
def add_overflows(left: Any, right: Any) -> Any:
    """Whether the sum of two integers leaves 64 bits."""
    total = left + right
    return ((left ^ total) & (right ^ total)) < 0


@inlined
def multiply_overflows(left: Any, right: Any) -> Any:
    """Whether the product of two integers may leave 64 bits; certain only below 2**62."""
    return abs(np.float64(left) * np.float64(right)) > 4.0e18


@subroutine
def compare_texts(D: Any, left: Any, right: Any) -> Any:
    """-1, 0 or 1: the order of two texts by code point, which is the order of their UTF-8 bytes."""
    capacity = D[D_CAPACITY]
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extents = int32_at(D[D_EXTENT], capacity)
    a = bytes_at(D[D_HEAP] + payloads[left], extents[left])
    b = bytes_at(D[D_HEAP] + payloads[right], extents[right])
    for offset in range(min(extents[left], extents[right])):
        if a[offset] != b[offset]:
            return -1 if a[offset] < b[offset] else 1
    return np.sign(extents[left] - extents[right])


@subroutine
def evaluate_batch(D: Any, words: Any, first: Any, length: Any, level: Any, rows: Any, Z: Any) -> Any:
    """Fill the result column for a batch: an id, 1 for a true test, NO_VALUE, or ASK_PYTHON.

    Returns how many rows ask Python, or FULL when the dictionary must grow (the batch then starts anew).
    """
    batch = Z[Z_BATCH]
    result = int32_at(Z[Z_RESULT], batch)
    if words[first] == X_PYTHON:
        for row in range(rows):
            result[row] = ASK_PYTHON
        return rows
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    doubles_at(D[D_PAYLOAD], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    base = Z[Z_BUFFER] + 4 * level * Z[Z_WIDTH] * batch
    # A stack of operands: the kind (0: asks Python, -1: no value), the payload, and the id if it has one.
    kind = np.empty(DEEPEST, np.int64)
    number = np.empty(DEEPEST, np.int64)
    real = number.view(np.float64)
    identity = np.empty(DEEPEST, np.int64)
    asking = 0
    for row in range(rows):
        top = -1
        for word in range(first, first + length, 2):
            operation = words[word]
            if operation in (X_LOAD, X_CONSTANT):
                top += 1
                loaded = words[word + 1]
                if operation == X_LOAD:
                    loaded = np.int64(int32_at(base + 4 * loaded * batch, batch)[row])
                kind[top] = kinds[loaded]
                number[top] = payloads[loaded]
                identity[top] = loaded
                continue
            if operation == X_NEGATE:
                if kind[top] == INTEGER and number[top] != LEAST:
                    number[top] = -number[top]
                elif kind[top] == DOUBLE:
                    real[top] = 0.0 - real[top]
                elif kind[top] > 0:
                    kind[top] = 0
                identity[top] = -1
                continue
            top -= 1
            left = kind[top]
            right = kind[top + 1]
            if left <= 0 or right <= 0:
                # Python before no value: what it computes may leave 64 bits, which is an error.
                kind[top] = 0 if left == 0 or right == 0 else -1
                identity[top] = -1
                continue
            if operation >= X_EQUAL:
                outcome = np.int64(2)  # -1, 0, 1, or 2: not known here
                if identity[top] >= 0 and identity[top] == identity[top + 1]:
                    outcome = np.int64(0)
                elif operation <= X_UNEQUAL:
                    # = and != are identity: two ids differ; computed numbers differ by kind or payload.
                    if identity[top] >= 0 and identity[top + 1] >= 0:
                        outcome = np.int64(1)
                    elif left == right and (left in (INTEGER, DOUBLE)):
                        outcome = np.int64(0 if number[top] == number[top + 1] else 1)
                    elif left <= DOUBLE and right <= DOUBLE and left != right:
                        outcome = np.int64(1)
                elif left == right:
                    if left in (INTEGER, DATE, BOOLEAN):
                        outcome = np.int64(number[top] > number[top + 1]) - np.int64(
                            number[top] < number[top + 1]
                        )
                    elif left == DOUBLE:
                        outcome = np.int64(real[top] > real[top + 1]) - np.int64(real[top] < real[top + 1])
                    elif left == DATETIME:
                        if extras[identity[top]] == extras[identity[top + 1]]:
                            outcome = np.int64(number[top] > number[top + 1]) - np.int64(
                                number[top] < number[top + 1]
                            )
                    elif left in (STRING, IRI):
                        outcome = np.int64(compare_texts(D, identity[top], identity[top + 1]))
                if outcome == 2:
                    kind[top] = 0
                elif (
                    (operation == X_EQUAL and outcome == 0)
                    or (operation == X_UNEQUAL and outcome != 0)
                    or (operation == X_LESS and outcome < 0)
                    or (operation == X_LESS_EQUAL and outcome <= 0)
                    or (operation == X_GREATER and outcome > 0)
                    or (operation == X_GREATER_EQUAL and outcome >= 0)
                ):
                    kind[top] = BOOLEAN
                    number[top] = 1
                else:
                    kind[top] = BOOLEAN
                    number[top] = 0
                identity[top] = -1
                continue
            identity[top] = -1
            if left == INTEGER and right == INTEGER:
                a = number[top]
                b = number[top + 1]
                if operation == X_ADD and not add_overflows(a, b):
                    number[top] = a + b
                elif operation == X_SUBTRACT and b != LEAST and not add_overflows(a, -b):
                    number[top] = a - b
                elif operation == X_MULTIPLY and not multiply_overflows(a, b):
                    number[top] = a * b
                elif operation == X_DIVIDE and b == 0:
                    kind[top] = -1
                elif operation == X_DIVIDE and a > LEAST and b > LEAST:
                    quotient = abs(a) // abs(b)
                    number[top] = quotient if (a < 0) == (b < 0) else -quotient
                else:
                    kind[top] = 0
            elif left == DOUBLE and right == DOUBLE and operation != X_DIVIDE:
                if operation == X_ADD:
                    real[top] = real[top] + real[top + 1]
                elif operation == X_SUBTRACT:
                    real[top] = real[top] - real[top + 1]
                else:
                    real[top] = real[top] * real[top + 1]
                if not np.isfinite(real[top]):
                    kind[top] = 0
            else:
                kind[top] = 0
        if kind[0] == 0:
            result[row] = ASK_PYTHON
            asking += 1
        elif kind[0] < 0:
            result[row] = NO_VALUE
        elif kind[0] == BOOLEAN and identity[0] < 0:
            result[row] = number[0]
        elif identity[0] >= 0:
            result[row] = identity[0]
        else:
            if kind[0] == DOUBLE and real[0] == 0.0:
                real[0] = 0.0  # -0.0 is 0.0
            interned = intern_number(D, kind[0], number[0], np.int64(0))
            if interned == FULL:
                return np.int64(FULL)
            result[row] = interned
    return asking
