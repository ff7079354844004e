"""Columns of Arrow whose types follow from what is inferred of them, never from the rows.

A column of several types is text. A value that its type cannot hold raises `Misfit`: it is never rounded, and
never left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.engine.columnar import decode
from tidelog.engine.columnar.arrow import array_of, mask_of, taken
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.logic.types import ANY, MOMENT, Type, Types, types_of_kinds
from tidelog.logic.values import Kind, Value

Ids = npt.NDArray[np.int32]

PRECISION, SCALE = 38, 18  # of decimals, as Spark has them by default
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


class Misfit(ValueError):  # noqa: N818 - named after what it is
    """A value that the type of its column cannot hold."""

    def __init__(self, value: Value, arrow_type: pa.DataType) -> None:
        super().__init__(f"{value} is not of type {arrow_type}")
        self.value = value
        self.type = arrow_type


def arrow_type(types: Types) -> pa.DataType:
    """Return Arrow's type of a column that holds values of these types.

    >>> arrow_type(frozenset({Type.INTEGER})), arrow_type(frozenset({Type.INTEGER, Type.STRING}))
    (DataType(int64), DataType(large_string))
    """
    return _ARROW_TYPES.get(types, TEXT)


def to_typed(dictionary: Dictionary, ids: Ids, types: Types) -> pa.Array:
    """Return the values as a column of the Arrow type that belongs to these types; raise `Misfit`."""
    wanted = arrow_type(types)
    if types != ANY:
        allowed = [kind for kind in Kind if types_of_kinds((kind,)) & types]
        _refuse(dictionary, ids, ~np.isin(dictionary.kind[ids], allowed), wanted)
    if wanted == TEXT:
        return decode.to_texts(dictionary, ids, "plain").cast(TEXT)
    if not len(ids):
        return pa.array([], wanted)
    distinct, places = decode.without_repeats(ids)
    return taken(_typed(dictionary, distinct, wanted), places)


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
    return array_of(payload).cast(wanted)


def _decimals(dictionary: Dictionary, ids: Ids, wanted: pa.DataType) -> pa.Array:
    """Return integers and decimals with one scale; those of each scale are moved to it at once."""
    kinds = dictionary.kind[ids]
    _refuse(dictionary, ids, ~np.isin(kinds, (Kind.INTEGER, Kind.DECIMAL, Kind.BIG)), wanted)
    scales = np.where(kinds == Kind.DECIMAL, dictionary.extra[ids], 0)
    _refuse(dictionary, ids, (scales > SCALE) & (kinds != Kind.BIG), wanted)
    scales[kinds == Kind.BIG] = -1
    order = np.argsort(scales, kind="stable")
    parts = []
    for scale in np.unique(scales).tolist():
        some = ids[scales == scale]
        small = dictionary.payload[some] if scale >= 0 else None
        parts.append(_large(dictionary, some, wanted) if small is None else _moved(small, scale, wanted))
    back = np.empty(len(ids), np.int64)
    back[order] = np.arange(len(ids))
    return taken(pa.concat_arrays(parts), back)


def _moved(mantissas: npt.NDArray[np.int64], scale: int, wanted: pa.DataType) -> pa.Array:
    """Return mantissas of one scale as decimals of the wanted one."""
    words = np.empty((len(mantissas), 2), np.int64)  # 128 bits each, the lower half first
    words[:, 0], words[:, 1] = mantissas, mantissas >> 63
    held = pa.Array.from_buffers(pa.decimal128(19, scale), len(mantissas), [None, pa.py_buffer(words)])
    return pc.cast(held, wanted)


def _large(dictionary: Dictionary, ids: Ids, wanted: pa.DataType) -> pa.Array:
    """Return numbers beyond 64 bits, one by one."""
    texts = decode.to_texts(dictionary, ids, "plain")
    try:
        return pc.cast(texts.cast(pa.string()), wanted)
    except pa.ArrowInvalid:
        for place in range(len(ids)):
            try:
                pc.cast(texts.slice(place, 1).cast(pa.string()), wanted)
            except pa.ArrowInvalid:
                raise Misfit(dictionary.decode(int(ids[place])), wanted) from None
        raise


def _refuse(dictionary: Dictionary, ids: Ids, is_bad: npt.NDArray[np.bool_], wanted: pa.DataType) -> None:
    if is_bad.any():
        raise Misfit(dictionary.decode(int(ids[np.flatnonzero(is_bad)[0]])), wanted)
