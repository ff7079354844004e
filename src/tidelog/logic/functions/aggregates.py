"""Aggregates over the distinct rows of arguments of one group; the first argument is what is aggregated.

The result does not depend on the order of the rows: sums and means are exact, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.logic import values
from tidelog.logic.functions.function import Overflow, Result
from tidelog.logic.functions.numbers import double_mean, fraction, of_quotient, total
from tidelog.logic.values import NUMBERS, Kind, Value, order_key

Rows = Sequence[tuple[Value, ...]]


def _numbers(rows: Rows) -> list[Value]:
    """The aggregated numbers; as in Nemo, what is not a number is left out."""
    return [row[0] for row in rows if row[0].kind in NUMBERS]


def count(rows: Rows) -> Result:
    """The number of rows."""
    return values.integer(len(rows))


def add(rows: Rows) -> Result:
    """The sum of the numbers; no value if there are none."""
    return total("#sum", _numbers(rows))


def least(rows: Rows) -> Result:
    """The first value in the total order."""
    return min((row[0] for row in rows), key=order_key, default=None)


def greatest(rows: Rows) -> Result:
    """The last value in the total order."""
    return max((row[0] for row in rows), key=order_key, default=None)


def average(rows: Rows) -> Result:
    """The mean of the numbers, a decimal, or a double if one is a double; no value if there are none."""
    operands = _numbers(rows)
    if not operands:
        return None
    if any(operand.kind is Kind.BIG for operand in operands):
        raise Overflow("#avg", operands)
    if any(operand.kind is Kind.DOUBLE for operand in operands):
        return double_mean(operands, len(operands))
    mean = of_quotient(sum(map(fraction, operands), start=fraction(values.integer(0))), len(operands))
    if mean is None:
        raise Overflow("#avg", operands)
    return mean


AGGREGATES: dict[str, Callable[[Rows], Result]] = {
    "count": count,
    "sum": add,
    "min": least,
    "max": greatest,
    "avg": average,
}
