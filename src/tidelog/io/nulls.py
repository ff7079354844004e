"""Missing values: what becomes of a row in which one is missing, column by column.

A missing value is a null of Arrow data, of JSON or of Python, and in CSV an empty field of a column whose
type has no empty text. NaN is no value anywhere, and is always rejected.
"""

from __future__ import annotations

from enum import Enum

from tidelog.logic.values import NULL_DATATYPE, ColumnType, Value, literal


class Nulls(Enum):
    """What to do about a missing value."""

    REJECT = "reject"  # the row cannot be read
    DROP_ROW = "drop-row"  # the row is left out, and counted
    VALUE = "value"  # it is `NULL`, a value that is equal to itself alone, and counted


# Types of CSV's columns in which an empty field is a value.
HOLD_EMPTY_TEXT = frozenset({ColumnType.ANY, ColumnType.STRING, ColumnType.IRI})
NULL: Value = literal("", NULL_DATATYPE)


def policy(nulls: tuple[Nulls, ...], place: int) -> Nulls:
    """Return what to do about values that are missing in a column."""
    return nulls[place] if place < len(nulls) else Nulls.REJECT


def is_counted_apart(done: str) -> bool:
    """Return whether rows that this was done to are not among those that could not be read."""
    return done != Nulls.REJECT.value
