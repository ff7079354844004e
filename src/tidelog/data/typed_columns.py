"""Columns of Arrow whose types follow from what is inferred of them, never from the rows.

A column of several types is text, plain or exact, or a struct with a field for each of them, of which one has
a value. A value that its type cannot hold raises `Misfit`: it is never rounded, and never left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data import decode
from tidelog.data.arrow import array_of, mask_of, take
from tidelog.data.dictionary import NO_TIME_ZONE, Dictionary
from tidelog.data.rows import Ids
from tidelog.logic.types import (
    ANY,
    MOMENT,
    NEVER,
    Contents,
    Type,
    Types,
    parts_of,
    type_of,
    types_of_kinds,
)
from tidelog.logic.values import MOST_DIGITS, ColumnType, Kind, Value

PRECISION, SCALE = MOST_DIGITS, 18  # of decimals, as Spark has them by default
TEXT = pa.large_string()
EXACT = frozenset({Type.INTEGER, Type.DECIMAL})

_ARROW_TYPES: dict[Types, pa.DataType] = {
    frozenset({Type.BOOLEAN}): pa.bool_(),
    frozenset({Type.INTEGER}): pa.int64(),
    frozenset({Type.DECIMAL}): pa.decimal128(PRECISION, SCALE),
    EXACT: pa.decimal128(PRECISION, SCALE),
    frozenset({Type.DOUBLE}): pa.float64(),
    frozenset({Type.DATE}): pa.date32(),
    frozenset({Type.LOCAL_DATETIME}): pa.timestamp("us"),
    frozenset({Type.DATETIME}): pa.timestamp("us", "UTC"),
    MOMENT: pa.timestamp("us", "UTC"),
}
_KINDS = {
    pa.bool_(): (Kind.BOOLEAN,),
    pa.int64(): (Kind.INTEGER,),
    pa.float64(): (Kind.DOUBLE,),
    pa.date32(): (Kind.DATE,),
    pa.timestamp("us"): (Kind.DATETIME,),
    pa.timestamp("us", "UTC"): (Kind.DATETIME,),
}


_NUMBERS = {one: number for number, one in enumerate(Type)}


class Misfit(ValueError):  # noqa: N818 - named after what it is
    """A value that the type of its column cannot hold."""

    def __init__(self, value: Value, arrow_type: pa.DataType) -> None:
        super().__init__(f"{value} is not of type {arrow_type}")
        self.value = value
        self.type = arrow_type


def arrow_type(contents: Contents) -> pa.DataType:
    """Return Arrow's type of a column.

    >>> arrow_type(Contents(frozenset({Type.INTEGER}))), arrow_type(Contents(ANY))
    (DataType(int64), DataType(large_string))
    """
    if contents.size is not None:
        return pa.decimal128(*contents.size)
    if contents.is_struct:
        return pa.struct([(one.value, _arrow_type(frozenset({one}))) for one in parts_of(contents.types)])
    return _arrow_type(contents.types)


def _arrow_type(types: Types) -> pa.DataType:
    return _ARROW_TYPES.get(types, TEXT)


MIXED = ("text", "exact", "struct")
# The types of columns that lose nothing as plain text.
FAITHFUL = (frozenset({Type.STRING}), frozenset({Type.IRI, Type.BLANK}))


def with_mixed(schema: Iterable[Contents], mixed: str) -> tuple[Contents, ...]:
    """Return what columns hold, those of several types in the requested form.

    `text` is plain text; `exact` writes them so that they are read as the same values, and so with all whose
    plain text does not show which value it is of; `struct` has a field for each type.
    """
    if mixed not in MIXED:
        raise ValueError(f"mixed is one of {', '.join(MIXED)}, not {mixed!r}")
    if mixed == "struct":
        return tuple(
            replace(each, is_struct=_is_text(each) and len(parts_of(each.types)) > 1) for each in schema
        )
    if mixed == "exact":
        return tuple(
            replace(each, is_exact=_is_text(each) and not any(each.types <= some for some in FAITHFUL))
            for each in schema
        )
    return tuple(schema)


def _is_text(contents: Contents) -> bool:
    return bool(arrow_type(contents) == TEXT)


def types_of(dictionary: Dictionary, ids: Ids) -> Types:
    """Return the types of the values."""
    counts = np.bincount(dictionary.kind[ids], minlength=len(Kind) + 1)
    found = types_of_kinds(Kind(kind) for kind in np.flatnonzero(counts).tolist())
    if counts[Kind.DATETIME]:
        is_local = dictionary.extra[ids[dictionary.kind[ids] == Kind.DATETIME]] == NO_TIME_ZONE
        found -= {Type.DATETIME} if is_local.all() else NEVER if is_local.any() else {Type.LOCAL_DATETIME}
    return found


def to_typed(dictionary: Dictionary, ids: Ids, contents: Contents) -> pa.Array:
    """Return the values as a column of the Arrow type that belongs to its contents; raise `Misfit`.

    Moments are in UTC, and a column of several types has plain texts.
    """
    wanted = arrow_type(contents)
    _refuse_types(dictionary, ids, contents.types, wanted)
    if contents.is_struct:
        return _struct(dictionary, ids, wanted)
    if wanted == TEXT:
        return decode.to_texts(dictionary, ids, "exact" if contents.is_exact else "plain").cast(TEXT)
    if not len(ids):
        return pa.array([], wanted)
    distinct, places = decode.without_repeats(ids)
    return take(_typed(dictionary, distinct, wanted), places)


def to_readable(dictionary: Dictionary, ids: Ids, contents: Contents) -> tuple[pa.Array, ColumnType | None]:
    """Return the same so that each value can be read again, and how a column of text is to be read.

    A column of several types has exact texts. Moments with another time zone than UTC do not fit.
    """
    types = contents.types
    if contents.is_struct:
        is_moment = dictionary.kind[ids] == Kind.DATETIME
        is_elsewhere = ~np.isin(dictionary.extra[ids], (0, NO_TIME_ZONE))
        _refuse(dictionary, ids, is_moment & is_elsewhere, _arrow_type(frozenset({Type.DATETIME})))
        return to_typed(dictionary, ids, contents), None
    if types == {Type.STRING}:
        return to_typed(dictionary, ids, contents), ColumnType.STRING
    if types <= {Type.IRI, Type.BLANK}:
        return to_typed(dictionary, ids, contents), ColumnType.IRI
    wanted = arrow_type(contents)
    if wanted == TEXT or (types == EXACT and contents.size is None):
        _refuse_types(dictionary, ids, types, TEXT)
        return decode.to_texts(dictionary, ids, "exact").cast(TEXT), ColumnType.TERM
    if pa.types.is_timestamp(wanted) and wanted.tz is not None:
        _refuse(dictionary, ids, dictionary.extra[ids] != 0, wanted)
    return to_typed(dictionary, ids, contents), None


def _struct(dictionary: Dictionary, ids: Ids, wanted: pa.DataType) -> pa.Array:
    """Return the values as structs of which one field has a value: that of the value's type.

    IRIs and strings are plain texts, other literals exact ones.
    """
    distinct, places = decode.without_repeats(ids)
    held = _types_by_value(dictionary, distinct)
    children = []
    for field in wanted:
        chosen = held == _NUMBERS[Type(field.name)]
        some = distinct[chosen]
        if Type(field.name) in (Type.LANGUAGE_STRING, Type.LITERAL):
            values = decode.to_texts(dictionary, some, "exact").cast(TEXT)
        elif field.type == TEXT:
            values = decode.to_texts(dictionary, some, "plain").cast(TEXT)
        else:
            values = _typed(dictionary, some, field.type) if len(some) else pa.array([], field.type)
        numbers = pa.array(np.cumsum(chosen) - 1, mask=~chosen)
        children.append(values.take(numbers))
    return take(pa.StructArray.from_arrays(children, fields=list(wanted)), places)


def _types_by_value(dictionary: Dictionary, ids: Ids) -> npt.NDArray[np.int8]:
    """Return the number of the type of each value, by which `_NUMBERS` has it."""
    kinds = dictionary.kind[ids]
    numbers = np.zeros(max(Kind) + 1, np.int8)
    for kind in Kind:
        (numbers[kind], *_) = (_NUMBERS[one] for one in parts_of(types_of_kinds((kind,))))
    found: npt.NDArray[np.int8] = numbers[kinds]
    is_local = (kinds == Kind.DATETIME) & (dictionary.extra[ids] == NO_TIME_ZONE)
    found[(kinds == Kind.DATETIME) & ~is_local] = _NUMBERS[Type.DATETIME]
    found[is_local] = _NUMBERS[Type.LOCAL_DATETIME]
    for place in np.flatnonzero(kinds == Kind.BIG).tolist():
        found[place] = _NUMBERS[type_of(dictionary.decode(int(ids[place])))]
    return found


def check(dictionary: Dictionary, ids: Ids, contents: Contents) -> None:
    """Raise `Misfit` for a value that the types of its column exclude, or that is not of its size."""
    _refuse_types(dictionary, ids, contents.types, TEXT)
    if contents.size is not None:
        to_typed(dictionary, ids, contents)


def _refuse_types(dictionary: Dictionary, ids: Ids, types: Types, wanted: pa.DataType) -> None:
    """Raise `Misfit` for a value of another type."""
    if types != ANY:
        allowed = [kind for kind in Kind if types_of_kinds((kind,)) & types]
        _refuse(dictionary, ids, ~np.isin(dictionary.kind[ids], allowed), wanted)


def _typed(dictionary: Dictionary, ids: Ids, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(wanted):
        return _decimals(dictionary, ids, wanted)
    _refuse(dictionary, ids, ~np.isin(dictionary.kind[ids], _KINDS[wanted]), wanted)
    payload = dictionary.payload[ids]
    if pa.types.is_floating(wanted):
        return array_of(payload.view(np.float64))
    if pa.types.is_boolean(wanted):
        return mask_of(payload.astype(bool))
    if pa.types.is_date(wanted):
        _refuse(dictionary, ids, np.abs(payload) >= 1 << 31, wanted)
        return array_of(payload.astype(np.int32)).cast(wanted)
    if pa.types.is_timestamp(wanted):
        _refuse(dictionary, ids, (dictionary.extra[ids] == NO_TIME_ZONE) != (wanted.tz is None), wanted)
    return array_of(payload).cast(wanted)


def _decimals(dictionary: Dictionary, ids: Ids, wanted: pa.DataType) -> pa.Array:
    """Return integers and decimals with one scale; those of each scale are moved to it at once."""
    kinds = dictionary.kind[ids]
    _refuse(dictionary, ids, ~np.isin(kinds, (Kind.INTEGER, Kind.DECIMAL, Kind.BIG)), wanted)
    scales = np.where(kinds == Kind.DECIMAL, dictionary.extra[ids], 0)
    _refuse(dictionary, ids, (scales > wanted.scale) & (kinds != Kind.BIG), wanted)
    scales[kinds == Kind.BIG] = -1
    order = np.argsort(scales, kind="stable")
    parts = []
    for scale in np.unique(scales).tolist():
        some = ids[scales == scale]
        if scale < 0:  # numbers beyond 64 bits
            numbers = decode.to_texts(dictionary, some, "plain").cast(pa.string())
        else:
            numbers = _of_scale(dictionary.payload[some], scale)
        parts.append(_cast(dictionary, some, numbers, wanted))
    back = np.empty(len(ids), np.int64)
    back[order] = np.arange(len(ids))
    return take(pa.concat_arrays(parts), back)


def _of_scale(mantissas: npt.NDArray[np.int64], scale: int) -> pa.Array:
    """Return mantissas as decimals of their scale."""
    words = np.empty((len(mantissas), 2), np.int64)  # 128 bits each, the lower half first
    words[:, 0], words[:, 1] = mantissas, mantissas >> 63
    return pa.Array.from_buffers(pa.decimal128(19, scale), len(mantissas), [None, pa.py_buffer(words)])


def _cast(dictionary: Dictionary, ids: Ids, numbers: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return numbers as decimals of the required size; raise `Misfit` for the first that does not fit."""
    try:
        return pc.cast(numbers, wanted)
    except pa.ArrowInvalid:
        if len(ids) == 1:
            raise Misfit(dictionary.decode(int(ids[0])), wanted) from None
    half = len(ids) // 2
    parts = (slice(None, half), slice(half, None))
    return pa.concat_arrays(
        _cast(dictionary, ids[part], numbers[part.start : part.stop], wanted) for part in parts
    )


def _refuse(dictionary: Dictionary, ids: Ids, is_bad: npt.NDArray[np.bool_], wanted: pa.DataType) -> None:
    if is_bad.any():
        raise Misfit(dictionary.decode(int(ids[np.flatnonzero(is_bad)[0]])), wanted)
