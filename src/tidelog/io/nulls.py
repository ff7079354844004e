"""Missing values: what becomes of a row in which one is missing, column by column.

A missing value is a null of Arrow data, of JSON or of Python, and in CSV an empty field of a column whose
type has no empty text. NaN is no value anywhere, and is always rejected.
"""

from __future__ import annotations

from enum import Enum

from tidelog.logic.values import NULL_DATATYPE, Value, literal


class Nulls(Enum):
    """What to do about a missing value."""

    REJECT = "reject"  # the row cannot be read
    DROP_ROW = "drop-row"  # the row is left out, and counted
    VALUE = "value"  # it is `NULL`, a value that is equal to itself alone, and counted


NULL: Value = literal("", NULL_DATATYPE)


def policy(nulls: tuple[Nulls, ...], place: int) -> Nulls:
    """Return what to do about values that are missing in a column."""
    return nulls[place] if place < len(nulls) else Nulls.REJECT
