"""Columns that say when: a bound that is missing is infinite, and a length of time is a number of seconds."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.io.arrays import Array

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SIGNS = ("-inf", "inf")  # of the first and the second column, if these are missing


def with_bounds(arrays: Sequence[Array], count: int) -> list[Array]:
    """Columns of which so many at the end say when, with nothing missing in the bounds."""
    if count < 2:
        return list(arrays)
    first = len(arrays) - count
    bounds = [bounded(array, sign) for array, sign in zip(arrays[first : first + 2], _SIGNS, strict=True)]
    return [*arrays[:first], *bounds, *arrays[first + 2 :]]


def bounded(array: Array, infinite: str) -> Array:
    """A column of bounds, or of lengths, as it is, or as exact texts where that takes it."""
    if pa.types.is_duration(array.type):
        unit = pa.scalar(str(_UNITS[array.type.unit]))
        array = pc.binary_join_element_wise(array.cast(pa.int64()).cast(pa.string()), unit, "/")
    if array.null_count == 0:
        return array
    if pa.types.is_timestamp(array.type):
        array = pc.strftime(array, "%Y-%m-%dT%H:%M:%SZ")
    return array.cast(pa.string()).fill_null(infinite)


def bound_texts(values: Sequence[object], count: int) -> list[object]:
    """The values of a row of JSON of which so many at the end say when, these as texts."""
    first = len(values) - count
    signs = _SIGNS if count > 1 else ()
    texts = [
        signs[place] if value is None and place < len(signs) else _text(value)
        for place, value in enumerate(values[first:])
    ]
    return [*values[:first], *texts]


def _text(value: object) -> object:
    """A number or Boolean as text; what is missing is for others to say."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
