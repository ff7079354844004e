"""Columns of Arrow whose types follow from what is inferred of them; columns of values that have no ids.

Arrow's types never follow from the rows. A column of several types is text, plain or exact, or a struct with
a field for each of them, of which one has a value. A value that its type cannot hold raises `Misfit`: it is
never rounded, and never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.data import decode
from tidelog.data.arrow import array_of, cast, mask_of, pc, take, text_array
from tidelog.data.decode import Flags
from tidelog.data.dictionary import TEXT_KINDS, Dictionary
from tidelog.data.dictionary_kernels import copy_parts
from tidelog.data.rows import Ids
from tidelog.data.text_kernels import NO_TIME_ZONE
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
        return cast(decode.to_texts(dictionary, ids, "exact" if contents.is_exact else "plain"), TEXT)
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


# ---- values laid out as in the dictionary, which need no ids
#
# So intermediate results of expressions are kept: they would fill the dictionary.

MISSING = 0  # instead of a kind where there is no value
_IS_TEXT = np.isin(np.arange(256), (Kind.STRING, Kind.LANGUAGE_STRING))
_HAS_TEXT = np.isin(np.arange(256), sorted(TEXT_KINDS))
_IS_QUALIFIED = np.isin(np.arange(256), (Kind.LANGUAGE_STRING, Kind.LITERAL))
_HAS_EXTRA = _IS_QUALIFIED | np.isin(np.arange(256), (Kind.DECIMAL, Kind.DATETIME))
_KIND = [Kind(kind) if kind else None for kind in (MISSING, *Kind)]


class ValueColumn:
    """Values by kind, payload and extra as in the dictionary, but with their texts; those of a constant once.

    Texts and payloads of values of other kinds mean nothing. If all values have ids, the rest is looked up
    when it is needed.
    """

    __slots__ = ("_extras", "_payloads", "_texts", "coded", "kinds")

    def __init__(
        self,
        kinds: npt.NDArray[np.uint8],
        payloads: npt.NDArray[np.int64] | None = None,
        extras: Ids | None = None,
        texts: pa.LargeStringArray | None = None,
        coded: tuple[Dictionary, Ids] | None = None,
    ) -> None:
        self.kinds = kinds
        self.coded = coded
        self._payloads = payloads
        self._extras = extras
        self._texts = texts

    @staticmethod
    def of_ids(dictionary: Dictionary, ids: Ids) -> ValueColumn:
        """Return the values of ids."""
        return ValueColumn(dictionary.kind[ids], coded=(dictionary, ids))

    @staticmethod
    def missing(rows: int) -> ValueColumn:
        """Return no values."""
        return ValueColumn(np.full(rows, MISSING, np.uint8))

    @staticmethod
    def of_numbers(kind: Kind, payloads: npt.NDArray[np.int64], has_value: Flags) -> ValueColumn:
        """Return values of one kind that are held in their payload, where there are any."""
        return ValueColumn(np.where(has_value, np.uint8(kind), np.uint8(MISSING)), payloads)

    @staticmethod
    def of_truths(holds: Flags, has_value: Flags) -> ValueColumn:
        """Return Booleans, where there are any."""
        return ValueColumn.of_numbers(Kind.BOOLEAN, holds.astype(np.int64), has_value)

    @staticmethod
    def of_strings(texts: pa.LargeStringArray, has_value: Flags) -> ValueColumn:
        """Return strings without a language, where there are any."""
        return ValueColumn(np.where(has_value, np.uint8(Kind.STRING), np.uint8(MISSING)), texts=texts)

    def alike(self, texts: pa.LargeStringArray) -> ValueColumn:
        """Return other texts in the languages of these; there is no value where there is no text."""
        kinds = np.where(self.are_texts, self.kinds, np.uint8(MISSING))
        rows = len(texts)
        return ValueColumn(np.broadcast_to(kinds, rows), None, np.broadcast_to(self.extras, rows), texts)

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def payloads(self) -> npt.NDArray[np.int64]:
        """What values are held in that are not texts."""
        if self._payloads is None:
            coded = self.coded
            self._payloads = np.zeros(len(self), np.int64) if coded is None else coded[0].payload[coded[1]]
        return self._payloads

    @property
    def extras(self) -> Ids:
        """Scales, time zones, ids of languages and datatypes; 0 of other values."""
        if self._extras is None:
            coded = self.coded
            self._extras = np.zeros(len(self), np.int32) if coded is None else coded[0].extra[coded[1]]
        return self._extras

    @property
    def texts(self) -> pa.LargeStringArray:
        """The texts; whatever they are where a value has none."""
        if self._texts is None:
            if self.coded is None:
                offsets = pa.py_buffer(np.zeros(len(self) + 1, np.int64))
                self._texts = pa.LargeStringArray.from_buffers(len(self), offsets, pa.py_buffer(b""))
            else:
                self._texts = self.coded[0].texts(self.coded[1])
        return self._texts

    @property
    def texts_or_one(self) -> Any:
        """The texts as Arrow's functions take them, those of a constant as one for all."""
        return self.texts[0] if len(self) == 1 else self.texts

    @property
    def are_texts(self) -> Flags:
        """Which values are strings, with or without a language."""
        return _IS_TEXT[self.kinds]

    @property
    def have_texts(self) -> Flags:
        """Which values are held as texts."""
        return _HAS_TEXT[self.kinds]

    def marked(self, rows: Flags, kind: int) -> ValueColumn:
        """Return the column with another kind in these rows, such as MISSING."""
        if not rows.any():
            return self
        kinds = np.where(rows, np.uint8(kind), self.kinds)
        return ValueColumn(kinds, self._payloads, self._extras, self._texts, self.coded)

    def widened(self, rows: int) -> ValueColumn:
        """Return the column with as many rows, of a constant too."""
        if len(self) == rows:
            return self
        places = np.zeros(rows, np.int64)
        if self.coded is not None:
            return ValueColumn.of_ids(self.coded[0], self.coded[1][places])
        texts = None if self._texts is None else take(self._texts, places)
        return ValueColumn(self.kinds[places], self.payloads[places], self.extras[places], texts)

    def values(self, dictionary: Dictionary, rows: npt.NDArray[np.int64]) -> list[Value | None]:
        """Return the values in these rows; of a constant in any."""
        if len(self) == 1:
            rows = np.zeros(len(rows), np.int64)
        kinds, extras = self.kinds[rows], self.extras[rows]
        contents: list[Any] = self.payloads[rows].tolist()
        qualifiers: list[Any] = [None] * len(rows)
        have_texts = np.flatnonzero(_HAS_TEXT[kinds])
        if len(have_texts):
            texts = take(self.texts, rows[have_texts]).to_pylist()
            for place, text in zip(have_texts.tolist(), texts, strict=True):
                contents[place] = text
        for place in np.flatnonzero(kinds == Kind.DOUBLE).tolist():
            contents[place] = float(self.payloads[rows[place]].view(np.float64))
        for place in np.flatnonzero(_HAS_EXTRA[kinds]).tolist():
            extra = int(extras[place])
            if _IS_QUALIFIED[kinds[place]]:
                qualifiers[place] = dictionary.decode(extra).content
            elif kinds[place] == Kind.DECIMAL or extra != NO_TIME_ZONE:
                qualifiers[place] = extra
        return [
            None if (one := _KIND[kind]) is None else Value(one, content, extra)
            for kind, content, extra in zip(kinds.tolist(), contents, qualifiers, strict=True)
        ]

    def with_values(
        self, dictionary: Dictionary, rows: npt.NDArray[np.int64], values: Sequence[Value | None]
    ) -> ValueColumn:
        """Return the column with other values in these rows, which ascend."""
        kinds, payloads, extras = self.kinds.copy(), self.payloads.copy(), self.extras.copy()
        texts: list[str] = []
        for row, value in zip(rows.tolist(), values, strict=True):
            kinds[row] = MISSING if value is None else value.kind
            if value is not None:
                payloads[row], extras[row] = dictionary.parts(value)
            texts.append(str(value.content) if value is not None and value.kind in TEXT_KINDS else "")
        if not any(texts) and self._texts is None and self.coded is None:
            return ValueColumn(kinds, payloads, extras)
        return ValueColumn(kinds, payloads, extras, with_texts(self.texts, rows, texts))

    def ids(self, dictionary: Dictionary, missing: int) -> Ids:
        """Return the ids of the values, new ones given as needed; `missing` where there is no value."""
        if self.coded is not None:
            return np.where(self.kinds == MISSING, np.int32(missing), self.coded[1])
        forms = (self.kinds.astype(np.int64) << 32) + self.extras
        forms[self.kinds == MISSING] = MISSING
        if (forms == forms[0]).all():
            return self._ids_alike(dictionary, missing, None)
        ids = np.empty(len(forms), np.int32)
        for form in np.unique(forms):
            rows = forms == form
            ids[rows] = self._ids_alike(dictionary, missing, rows)
        return ids

    def _ids_alike(self, dictionary: Dictionary, missing: int, rows: Flags | None) -> Ids:
        """Return the ids of the values in these rows, or in all, which have one kind and one extra."""
        some = slice(None) if rows is None else rows
        kind, extra = _KIND[self.kinds[some][0]], int(self.extras[some][0])
        if kind is None:
            return np.full(len(self.kinds[some]), missing, np.int32)
        if kind not in TEXT_KINDS:
            return dictionary.encode_numbers(kind, self.payloads[some], extra)
        texts = self.texts if rows is None else self.texts.filter(mask_of(rows))
        return dictionary.encode_texts(kind, texts, extra)


def with_texts(
    texts: pa.LargeStringArray, rows: npt.NDArray[np.int64], new: Sequence[str]
) -> pa.LargeStringArray:
    """Return the texts with others in these rows, which ascend."""
    flags = np.zeros(len(texts), bool)
    flags[rows] = True
    return pc.replace_with_mask(texts, mask_of(flags), text_array(new).cast(TEXT))


def copied_parts(
    data: int, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> pa.LargeStringArray:
    """Return copies of texts that lie at places behind an address."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    copies = np.empty(int(offsets[-1]), np.uint8)
    copy_parts(data, np.ascontiguousarray(starts), offsets, copies.ctypes.data)
    return pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(copies))
