"""The built-in functions and aggregates by name, and the value of an expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from tidelog.logic import values
from tidelog.logic.functions import conditions, dates, kinds, numbers, strings
from tidelog.logic.functions.function import ALIASES, REGISTRY, Function, Overflow, Result
from tidelog.logic.functions.numbers import double_mean, fraction, of_quotient, total
from tidelog.logic.program import Apply, Comparison, Condition, Constant, Expression, Variable
from tidelog.logic.values import FALSE, NUMBERS, TRUE, XSD, Kind, Value, order_key

# ---- aggregates over the distinct rows of arguments of one group
#
# The result does not depend on the order of the rows: sums and means are exact, and rounded once.

# What no program can write: names of its functions have no spaces.
PART_OF_SUM: Final = "part of sum"
SUM_OF_PARTS: Final = "sum of parts"
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


def add_part(rows: Rows) -> Result:
    """The sum over a part of a group. Of integers it may leave 64 bits: other parts may bring it back."""
    numbers = _numbers(rows)
    if not numbers or any(number.kind is not Kind.INTEGER for number in numbers):
        return add(rows)
    return values.integer(sum(map(_whole, numbers)))


def add_parts(rows: Rows) -> Result:
    """The sum of what `add_part` gives for all parts of a group."""
    numbers = _numbers(rows)
    if not numbers or not all(map(values.is_integer, numbers)):
        return add(rows)
    result = values.integer(sum(map(_whole, numbers)))
    if result.kind is Kind.BIG:
        raise Overflow("#sum", numbers)
    return result


def _whole(number: Value) -> int:
    return int(Decimal(str(number.content)))  # int(text) refuses thousands of digits


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
    PART_OF_SUM: add_part,
    SUM_OF_PARTS: add_parts,
    "min": least,
    "max": greatest,
    "avg": average,
}


# ---- the built-in functions and aggregates of the language
#
# A function without a value gives None, and the literal that it is in fails; arithmetic that leaves 64
# bits raises `Overflow`. Names are found in whatever case, as in Nemo and SPARQL; the casts also by the IRIs
# of their datatypes. docs/language.md lists all of them, and where they differ from Nemo and SPARQL.


AREAS = (numbers, conditions, strings, kinds, dates)  # each registers its functions when it is imported
FUNCTIONS: dict[str, Function] = REGISTRY

_CASTS = {
    "integer": "INT",
    "int": "INT",
    "long": "INT",
    "decimal": "DECIMAL",
    "double": "DOUBLE",
    "float": "DOUBLE",
    "string": "STR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "dateTime": "DATETIME",
}


def lookup(name: str) -> Function | None:
    """The function of this name, in whatever case, or the cast to the datatype of this IRI.

    >>> lookup("strlen").signature
    'STRLEN(text)'
    >>> lookup("http://www.w3.org/2001/XMLSchema#integer").name
    'INT'
    """
    if name.startswith(XSD):
        name = _CASTS.get(name[len(XSD) :], "")
    upper = name.upper()
    return FUNCTIONS.get(ALIASES.get(upper, upper))


# ---- value of an expression


def evaluate(expression: Expression, binding: Mapping[Variable, Value]) -> Value | None:
    """Return the expression's value, None if it has none; raise Overflow where arithmetic leaves 64 bits."""
    match expression:
        case Constant(value):
            return value
        case Variable():
            return binding[expression]
        case Apply(name, arguments):
            function = lookup(name)
            assert function is not None, f"{name} is built in"
            return function.call([evaluate(argument, binding) for argument in arguments])


def holds(test: Comparison | Condition, binding: Mapping[Variable, Value]) -> bool | None:
    """Whether the test holds; None if an operand has no value, in which case it fails."""
    match test:
        case Comparison(operator, left, right):
            value = evaluate(Apply(operator, (left, right)), binding)
            wanted = TRUE
        case Condition(expression, negated):
            value = evaluate(expression, binding)
            wanted = FALSE if negated else TRUE
    return None if value is None else value == wanted


__all__ = ["AGGREGATES", "AREAS", "FUNCTIONS", "Function", "Overflow", "lookup"]
