"""Columns and batches: the form in which data enters an engine; missing values, marks, forms of terms."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.data.arrow import (
    ZERO,
    Array,
    array_of,
    flags_of,
    join_texts,
    mask_of,
    matching,
    number_array,
    pc,
    taken,
    text_addresses,
    text_array,
)
from tidelog.data.text_kernels import DIGITS, EXACT, NO_TIME_ZONE, USES, parse_texts
from tidelog.logic import conversions
from tidelog.logic.import_options import Nulls
from tidelog.logic.values import NULL_DATATYPE, ColumnType, Kind, Value, literal
from tidelog.records import dataclass

# ---- columns of times

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SIGNS = ("-inf", "inf")  # of the first and the second column, if these are missing


def with_bounds(arrays: Sequence[Array], count: int) -> list[Array]:
    """Return columns whose last `count` are times, with nothing missing in the bounds."""
    if count < 2:
        return list(arrays)
    first = len(arrays) - count
    bounds = [bounded(array, sign) for array, sign in zip(arrays[first : first + 2], _SIGNS, strict=True)]
    return [*arrays[:first], *bounds, *arrays[first + 2 :]]


def bounded(array: Array, infinite: str) -> Array:
    """Return a column of bounds or lengths as it is, or as exact texts where that is needed."""
    if pa.types.is_duration(array.type):
        unit = pa.scalar(str(_UNITS[array.type.unit]))
        array = pc.binary_join_element_wise(array.cast(pa.int64()).cast(pa.string()), unit, "/")
    if array.null_count == 0:
        return array
    if pa.types.is_timestamp(array.type):
        array = pc.strftime(array, "%Y-%m-%dT%H:%M:%SZ")
    return array.cast(pa.string()).fill_null(infinite)


def bound_texts(values: Sequence[object], count: int) -> list[object]:
    """Return the values of a row of JSON, of which the last `count` are times, with these as texts."""
    first = len(values) - count
    signs = _SIGNS if count > 1 else ()
    texts = [
        signs[position] if value is None and position < len(signs) else _text(value)
        for position, value in enumerate(values[first:])
    ]
    return [*values[:first], *texts]


def _text(value: object) -> object:
    """Return a number or Boolean as text, and any other value as it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


# ---- missing values
#
# A missing value is a null of Arrow data, of JSON or of Python, and in CSV an empty field of a column whose
# type has no empty text. NaN is no value anywhere, and is always rejected.


# Types of CSV's columns in which an empty field is a value.
HOLD_EMPTY_TEXT = frozenset({ColumnType.ANY, ColumnType.STRING, ColumnType.IRI})
NULL: Value = literal("", NULL_DATATYPE)


def policy(nulls: tuple[Nulls, ...], place: int) -> Nulls:
    """Return what to do about values that are missing in a column."""
    return nulls[place] if place < len(nulls) else Nulls.REJECT


# ---- marks on Arrow's fields: what the texts of a column mean
#
# Files of Arrow and Parquet keep them, and other programs ignore them. Most fields have no mark.

_KEY: Final = b"tidelog.type"
JSON: Final = "json"  # text that is JSON already
_TYPES: Final = {kind.value.encode(): kind for kind in (ColumnType.STRING, ColumnType.IRI, ColumnType.TERM)}


def marked(table: Any, marks: Sequence[str]) -> Any:
    """The table with these marks on its first fields; the empty one is none."""
    schema = table.schema
    for position, mark in enumerate(marks):
        if mark:
            schema = schema.set(position, schema.field(position).with_metadata({_KEY: mark.encode()}))
    return table.cast(schema) if any(marks) else table


def type_of(field: Any) -> ColumnType | None:
    """The type by which the texts of a field are read, if it has a mark."""
    return _TYPES.get((field.metadata or {}).get(_KEY, b""))


def is_json(field: Any) -> bool:
    """Whether the texts of a field are JSON already."""
    return bool((field.metadata or {}).get(_KEY) == JSON.encode())


# ---- columns and batches
#
# Texts become typed columns here, by compiled kernels where the text is written plainly. What a kernel cannot
# read for certain is left to `logic.conversions`, one text at a time.


@dataclass(frozen=True)
class Column:
    """Values of one type, none missing.

    `values` holds text (string, large_string or string_view) for STRING and IRI (the text itself), ANY (each
    text is read as the term it looks like) and TERM (terms written exactly); int64 for INTEGER, float64 for
    DOUBLE (no NaN, no -0.0), bool for BOOLEAN, date32 for DATE, timestamp[us] for DATETIME (time zone UTC or
    none), an Arrow decimal for DECIMAL. The last six may be texts of the type instead, with numbers and times
    that Arrow's type does not hold; an empty one is the value for missing ones. Without `parse_numbers` a
    text of an ANY column may be a name, but never a number.
    """

    type: ColumnType
    values: Array
    parse_numbers: bool = True


@dataclass(frozen=True)
class Batch:
    """Some rows of a relation, column by column; `rows` also counts those of a relation without columns.

    About `following` more rows are to come from the same source, as far as that is known.
    """

    columns: tuple[Column, ...]
    rows: int
    following: int = 0

    def slice(self, rows: int) -> Batch:
        """The first `rows` rows."""
        if rows >= self.rows:
            return self
        cut = (Column(c.type, c.values.slice(0, rows), c.parse_numbers) for c in self.columns)
        return Batch(tuple(cut), rows)


ARROW_TYPES = {
    ColumnType.ANY: pa.string(),
    ColumnType.STRING: pa.string(),
    ColumnType.IRI: pa.string(),
    ColumnType.TERM: pa.string(),
    ColumnType.INTEGER: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.DATE: pa.date32(),
    ColumnType.DATETIME: pa.timestamp("us"),
    ColumnType.DECIMAL: pa.string(),
}


class PlainTexts(NamedTuple):
    """Payloads and extras of texts, as the dictionary has them, and the places of those not read."""

    values: npt.NDArray[np.int64]
    extras: npt.NDArray[np.int32]
    listed: npt.NDArray[np.int64]


_KINDS = {
    ColumnType.BOOLEAN: Kind.BOOLEAN,
    ColumnType.INTEGER: Kind.INTEGER,
    ColumnType.DECIMAL: Kind.DECIMAL,
    ColumnType.DOUBLE: Kind.DOUBLE,
    ColumnType.DATE: Kind.DATE,
    ColumnType.DATETIME: Kind.DATETIME,
    ColumnType.IRI: Kind.IRI,
}


def read_plain_texts(texts: Array, column_type: ColumnType) -> PlainTexts:
    """Read texts of a type of numbers or times, or check IRIs."""
    rows = len(texts)
    values, extras, listed = np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int64)
    address, form, data, _keep = text_addresses(texts)
    digits, scale = column_type.size or (2 * DIGITS, DIGITS)
    if column_type is ColumnType.DATETIME:
        scale = 0  # any time zone
    kind = int(_KINDS[column_type.base])
    count = parse_texts(address, form, data, rows, kind, digits - scale, scale, USES, values, extras, listed)
    listed = listed[:count]
    if kind == Kind.DOUBLE and count:
        listed = _read_doubles(texts, values, extras, listed)
    return PlainTexts(values, extras, listed)


def _read_doubles(
    texts: Array, values: npt.NDArray[np.int64], extras: npt.NDArray[np.int32], listed: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Have Arrow read doubles of more digits; returns the places of those that it does not read."""
    long = listed[extras[listed] > 0]
    try:
        doubles = pc.cast(taken(texts, long), pa.float64())
    except pa.ArrowInvalid:
        return listed
    finally:
        extras[listed] = 0
    values[long] = np.frombuffer(doubles.buffers()[1], np.int64)[doubles.offset :][: len(long)]
    return np.setdiff1d(listed, long, assume_unique=True)


class ReadColumn(NamedTuple):
    """A column, by their places the reasons why some texts are not of its type, and those that are empty.

    What the column holds in the places with a reason does not count.
    """

    column: Column
    reasons: dict[int, str]
    empty: frozenset[int] = frozenset()


def read_texts(texts: Array, column_type: ColumnType, keeps_nulls: bool = False) -> ReadColumn:
    """The texts as a column of the type; with `keeps_nulls` an empty text is the value for missing ones.

    Kernels read what is plainly written; what they list is left to `logic.conversions`.
    """
    if column_type in (ColumnType.ANY, ColumnType.STRING):
        return ReadColumn(Column(column_type, texts), {})
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
        if isinstance(texts, pa.ChunkedArray):  # more text than offsets of 32 bits reach
            texts = texts.cast(pa.large_string()).combine_chunks()
    if column_type is ColumnType.TERM:
        listed = np.flatnonzero(~flags_of(matching(texts, f"^{EXACT}$")))
        read = PlainTexts(listed, listed.astype(np.int32), listed)
    else:
        read = read_plain_texts(texts, column_type)
    values: dict[int, Value] = {}
    reasons: dict[int, str] = {}
    empty: set[int] = set()
    known: dict[str, str] = {}  # reasons by texts
    left = taken(texts, read.listed).cast(pa.string()).to_pylist() if len(read.listed) else ()
    space = " \t\n\r\f\v" if column_type is ColumnType.IRI else None  # which may hold other white space
    for place, text in zip(read.listed.tolist(), left, strict=True):
        if not text.strip(space):
            empty.add(place)
            if keeps_nulls:
                values[place] = NULL
                continue
        reason = known.get(text)
        if reason is None:
            try:
                values[place] = conversions.read_typed(text, column_type)
                continue
            except ValueError as fault:
                reason = known[text] = str(fault)
        reasons[place] = reason
    return ReadColumn(_column_of(texts, column_type, read, values, reasons), reasons, frozenset(empty))


def _column_of(
    texts: Array, column_type: ColumnType, read: PlainTexts, values: dict[int, Value], reasons: dict[int, str]
) -> Column:
    """The column of texts that a kernel has read but for some values, or that have no value."""
    if column_type is ColumnType.TERM:
        return Column(
            column_type, _replaced(texts, {at: conversions.exact(each) for at, each in values.items()})
        )
    if column_type is ColumnType.IRI:
        if not values:
            return Column(column_type, texts)
        terms = join_texts("<", texts.cast(pa.string()), ">")
        return Column(
            ColumnType.TERM, _replaced(terms, {at: conversions.exact(each) for at, each in values.items()})
        )
    base = column_type.base
    for place, value in values.items():
        if TYPE_OF_KIND.get(value.kind) is not base or base is ColumnType.DATETIME:
            return Column(base, texts)
        read.values[place] = _payload(value)
    if base is ColumnType.DECIMAL:
        return Column(base, texts)
    arrow_type = ARROW_TYPES[base]
    if base is ColumnType.DATETIME:
        extras = np.delete(read.extras, list(reasons)) if reasons else read.extras
        zones = set(np.unique(extras).tolist())
        if len(zones) > 1 or not zones <= {0, NO_TIME_ZONE}:
            return Column(base, texts)
        arrow_type = pa.timestamp("us", "UTC") if zones == {0} else arrow_type
    if base is ColumnType.BOOLEAN:
        return Column(base, mask_of(read.values.astype(bool)))
    numbers = read.values
    if base is ColumnType.DATE:
        numbers = read.values.astype(np.int32)
        if any(abs(int(value.content)) >= 1 << 31 for value in values.values()):
            return Column(base, texts)
    return Column(base, pa.Array.from_buffers(arrow_type, len(numbers), [None, pa.py_buffer(numbers)]))


def _payload(value: Value) -> int:
    """What an array of 64-bit numbers holds of a value of a number or a date."""
    if value.kind is Kind.DOUBLE:
        return struct.unpack("<q", struct.pack("<d", value.content))[0]  # type: ignore[no-any-return]
    return int(value.content)


def _replaced(texts: Array, others: dict[int, str]) -> Array:
    """The texts, with others in some places."""
    if not others:
        return texts
    places = np.arange(len(texts))
    places[list(others)] = np.arange(len(texts), len(texts) + len(others))
    both = pa.concat_arrays([texts.cast(pa.string()), text_array(list(others.values()))])
    return pc.take(both, array_of(places))


def finite(values: Array) -> Array | None:
    """The doubles with -0.0 as 0.0, or None if one of them is infinite or not a number."""
    if not pc.all(pc.is_finite(values), min_count=0).as_py():
        return None
    return pc.add(values, ZERO)


def column_of_values(values: Sequence[Value]) -> Column:
    """The values as a column of the type that holds them all, exact terms if none does."""
    kinds = {value.kind for value in values}
    if len(kinds) == 1 and (column := _uniform_column(kinds.pop(), values)) is not None:
        return column
    return Column(ColumnType.TERM, text_array([conversions.exact(value) for value in values]))


def _uniform_column(kind: Kind, values: Sequence[Value]) -> Column | None:
    """The values, all of one kind, as a column of a type for that kind."""
    column_type = TYPE_OF_KIND.get(kind)
    zones = {value.extra for value in values} if kind is Kind.DATETIME else {None}
    if column_type is None or not zones <= {None, 0} or len(zones) > 1:
        return None
    contents: list[Any] = [value.content for value in values]
    try:
        if kind is Kind.DATE:
            return Column(column_type, number_array(contents, pa.date32()))
        if kind is Kind.DATETIME:
            zone = None if zones == {None} else "UTC"
            return Column(column_type, number_array(contents, pa.timestamp("us", zone)))
        arrow_type = ARROW_TYPES[column_type]
        is_text = pa.types.is_string(arrow_type)
        return Column(column_type, text_array(contents) if is_text else number_array(contents, arrow_type))
    except OverflowError:  # a date beyond 32 bits of days
        return None


TYPE_OF_KIND = {
    Kind.INTEGER: ColumnType.INTEGER,
    Kind.DOUBLE: ColumnType.DOUBLE,
    Kind.BOOLEAN: ColumnType.BOOLEAN,
    Kind.DATE: ColumnType.DATE,
    Kind.DATETIME: ColumnType.DATETIME,
    Kind.STRING: ColumnType.STRING,
    Kind.IRI: ColumnType.IRI,
}
