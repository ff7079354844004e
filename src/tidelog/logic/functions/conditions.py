"""Comparisons as functions, Boolean functions, and those that accept arguments without a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.logic import values
from tidelog.logic.functions.function import Result, function
from tidelog.logic.values import FALSE, TRUE, Kind, Value, compare

# ---- comparisons


@function(
    "left = right",
    "Whether both are the same value.",
    "any, any -> boolean",
    name="=",
    aliases=["EQUALITY", "SAMETERM"],
    boolean=True,
)
def is_same(left: Value, right: Value) -> Result:
    """Whether both are the same value: the integer 1, the decimal 1.0 and the double 1E0 are three."""
    return values.boolean(left == right)


@function(
    "left != right",
    "Whether both are different values.",
    "any, any -> boolean",
    name="!=",
    aliases=["UNEQUALITY"],
    boolean=True,
)
def is_different(left: Value, right: Value) -> Result:
    """Whether both are different values."""
    return values.boolean(left != right)


def _define_comparison(name: str, words: str, alias: str, holds: Callable[[int], bool]) -> None:
    def implementation(left: Value, right: Value) -> Result:
        order = compare(left, right)
        return None if order is None else values.boolean(holds(order))

    summary = f"Whether left is {words} right; no value if they cannot be compared."
    function(f"left {name} right", summary, "any, any -> boolean", name=name, aliases=[alias], boolean=True)(
        implementation
    )


_define_comparison("<", "less than", "NUMLESS", lambda order: order < 0)
_define_comparison("<=", "at most", "NUMLESSEQ", lambda order: order <= 0)
_define_comparison(">", "greater than", "NUMGREATER", lambda order: order > 0)
_define_comparison(">=", "at least", "NUMGREATEREQ", lambda order: order >= 0)


def _extreme(operands: Sequence[Value], sign: int) -> Result:
    """The first operand that none exceeds in the direction of the sign; None if two cannot be compared."""
    if not operands:
        return None
    best = operands[0]
    for operand in operands[1:]:
        order = compare(operand, best)
        if order is None:
            return None
        if order * sign > 0:
            best = operand
    return best


@function(
    "MAX(value, …)",
    "The greatest of all; no value of none, or if two cannot be compared.",
    "any -> one of them",
)
def greatest(*operands: Value) -> Result:
    """The greatest of all."""
    return _extreme(operands, 1)


@function(
    "MIN(value, …)", "The least of all; no value of none, or if two cannot be compared.", "any -> one of them"
)
def least(*operands: Value) -> Result:
    """The least of all."""
    return _extreme(operands, -1)


# ---- Boolean functions


def _are_booleans(operands: Sequence[Value]) -> bool:
    return all(operand.kind is Kind.BOOLEAN for operand in operands)


@function("NOT(boolean)", "Whether it is false.", "boolean -> boolean", boolean=True)
def negation(operand: Value) -> Result:
    """Whether it is false."""
    return values.boolean(operand == FALSE) if _are_booleans([operand]) else None


@function("AND(boolean, …)", "Whether all are true.", "boolean -> boolean", boolean=True)
def conjunction(*operands: Value) -> Result:
    """Whether all are true."""
    return values.boolean(FALSE not in operands) if _are_booleans(operands) else None


@function("OR(boolean, …)", "Whether one is true.", "boolean -> boolean", boolean=True)
def disjunction(*operands: Value) -> Result:
    """Whether one is true."""
    return values.boolean(TRUE in operands) if _are_booleans(operands) else None


# ---- functions that accept arguments without a value


@function(
    "IF(condition, then, else)",
    "`then` if the condition is true, `else` if it is false.",
    "boolean, any, any -> second or third",
    lazy=True,
)
def choose(condition: Result, then: Result, otherwise: Result) -> Result:
    """One of two, whether or not the other has a value."""
    if condition is None or condition.kind is not Kind.BOOLEAN:
        return None
    return then if condition == TRUE else otherwise


@function("COALESCE(value, …)", "The first that has a value.", "any -> one of them", lazy=True)
def first_value(*operands: Result) -> Result:
    """The first that has a value."""
    return next((operand for operand in operands if operand is not None), None)
