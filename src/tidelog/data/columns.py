"""Columns and batches: the form in which data enters an engine; missing values, marks, forms of terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.arrow import ZERO, Array, number_array, text_array
from tidelog.logic import conversions
from tidelog.logic.import_options import Nulls
from tidelog.logic.values import NULL_DATATYPE, ColumnType, Kind, Value, literal

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


# ---- forms of RDF terms
#
# Those of usual terms are for Arrow's kernels only.

_IRI_CHARACTER = r'[^\x00-\x20<>"{}|^`\\]'
_ESCAPE = (
    r'\\[tbnrf"\x27\\]'
    r"|\\u[0-9A-CEFa-cef][0-9A-Fa-f]{3}|\\u[dD][0-7][0-9A-Fa-f]{2}"  # no halves of surrogate pairs
    r"|\\U000[1-9A-Fa-f][0-9A-Fa-f]{4}|\\U0010[0-9A-Fa-f]{4}"
)
# What labels of blank nodes are made of, by the grammar of N-Triples.
_LETTER = (
    "A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_IN_LABEL = _LETTER + "0-9\u00b7\u0300-\u036f\u203f-\u2040-"
NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
IRI = f"<{_IRI_CHARACTER}*>"
BLANK = f"_:[0-9{_LETTER}](?:[.{_IN_LABEL}]*[{_IN_LABEL}])?"
LITERAL = rf'"(?:[^"\\\n\r]|{_ESCAPE})*"(?:@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*|\^\^{IRI})?'
NODE = f"(?:{IRI}|{BLANK})"
OBJECT = f"(?:{IRI}|{BLANK}|{LITERAL})"
EXACT = f"(?:{IRI}|{BLANK}|{LITERAL}|{NAME}|-?[0-9]+)"
# Terms that every format of RDF holds and every parser reads as they are; there are others.
_USUAL_TEXT = r'"(?:[ !#-\[\]-~\x{a0}-\x{d7ff}]|\\[nrt"\\])*"'
_USUAL_IRI = (
    r"<(?:https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::[0-9]+)?/|(?:urn|tag):[a-z]+:)"
    r"(?:[A-Za-z0-9_~!$&'()*+,;=@:/.\x{c0}-\x{1fff}-]|%[0-9A-Fa-f]{2})*"
)
_USUAL_END = "(?:#[A-Za-z_][A-Za-z0-9_-]*)?>"
USUAL = (
    f"^(?:{_USUAL_IRI}{_USUAL_END}|_:[A-Za-z][A-Za-z0-9_]*"
    rf"|{_USUAL_TEXT}(?:@[a-z][a-z](?:-[a-z][a-z])?|\^\^{_USUAL_IRI}{_USUAL_END})?)$"
)
USUAL_PREDICATE = f"^{_USUAL_IRI}(?:/|#)[A-Za-z_][A-Za-z0-9_-]*>$"
NOT_IRI = r'[\x00-\x20<>"{}|^`\\]|^_:|^$'


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
# read for certain is left to `logic.conversions`, one text at a time: a kernel is never trusted with such a
# text (Arrow reads `0xffffffffffffffff` as -1, and `1e999` as infinity).


@dataclass(frozen=True)
class Column:
    """Values of one type, none missing.

    `values` holds text (string, large_string or string_view) for STRING and IRI (the text itself), ANY (each
    text is read as the term it looks like) and TERM (terms written exactly); int64 for INTEGER, float64 for
    DOUBLE (no NaN, no -0.0), bool for BOOLEAN, date32 for DATE, timestamp[us] for DATETIME (time zone UTC or
    none), an Arrow decimal or text for DECIMAL. Without `parse_numbers` a text of an ANY column may be a
    name, but never a number.
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
TRUE, FALSE = ("true", "1", "True", "TRUE"), ("false", "0", "False", "FALSE")

_INTEGER = r"^-?[0-9]+$"
_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_LOCAL = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_UTC = _LOCAL[:-1] + "Z$"


def column_of_texts(texts: Array, column_type: ColumnType) -> Column | None:
    """The texts as a column of the type, or None if some text is not plainly of that type."""
    if column_type in (ColumnType.ANY, ColumnType.STRING):
        return Column(column_type, texts)
    try:
        values = _read_plain(texts, column_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return None if values is None else Column(column_type.base, values)


def _read_plain(texts: Array, column_type: ColumnType) -> Array | None:
    if column_type.size is not None:
        return texts if all_match(texts, _pattern_of_size(*column_type.size)) else None
    match column_type:
        case ColumnType.INTEGER:
            return pc.cast(texts, pa.int64()) if all_match(texts, _INTEGER) else None
        case ColumnType.DOUBLE:
            return finite(pc.cast(texts, pa.float64()))
        case ColumnType.BOOLEAN:
            return _booleans(texts)
        case ColumnType.DATE:
            return pc.cast(texts, pa.date32()) if all_match(texts, _DATE) else None
        case ColumnType.DATETIME:
            return _moments(texts)
        case ColumnType.LOCAL_DATETIME:
            return pc.cast(texts, pa.timestamp("us")) if all_match(texts, _LOCAL) else None
        case ColumnType.IRI:
            return None if _any_match(texts, NOT_IRI) else texts
        case ColumnType.DECIMAL:
            return texts if all_match(texts, _DECIMAL) else None
        case _:
            return texts if all_match(texts, f"^{EXACT}$") else None


def _pattern_of_size(digits: int, scale: int) -> str:
    """What decimals of this size look like, as far as they are written without zeros that say nothing."""
    whole = f"[0-9]{{1,{digits - scale}}}" if digits > scale else "0"
    return f"^-?{whole}" + (rf"(\.[0-9]{{1,{scale}}})?$" if scale else "$")


def all_match(texts: Array, pattern: str) -> bool:
    """Whether every text has a part that matches the pattern."""
    return pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py() is True


def _any_match(texts: Array, pattern: str) -> bool:
    return pc.any(pc.match_substring_regex(texts, pattern), min_count=0).as_py() is True


def _booleans(texts: Array) -> Array | None:
    true = pc.is_in(texts, text_array(TRUE).cast(texts.type))
    false = pc.is_in(texts, text_array(FALSE).cast(texts.type))
    return true if pc.all(pc.or_(true, false), min_count=0).as_py() else None


def _moments(texts: Array) -> Array | None:
    """Timestamps of texts that all name no time zone, or all UTC; others are read one by one."""
    if all_match(texts, _LOCAL):
        return pc.cast(texts, pa.timestamp("us"))
    return pc.cast(texts, pa.timestamp("us", "UTC")) if all_match(texts, _UTC) else None


def finite(values: Array) -> Array | None:
    """The doubles with -0.0 as 0.0, or None if one of them is infinite or not a number."""
    if not pc.all(pc.is_finite(values), min_count=0).as_py():
        return None
    return pc.add(values, ZERO)


def read_values(
    texts: Sequence[str], column_type: ColumnType, name: str | None = None, keeps_nulls: bool = False
) -> tuple[list[Value], dict[int, str]]:
    """The values of the texts that are of the type, and by their places the reasons why others are not.

    With `keeps_nulls` an empty text is the value for missing ones.
    """
    values: list[Value] = []
    faults: dict[int, str] = {}
    for index, text in enumerate(texts):
        if keeps_nulls and not text.strip():
            values.append(NULL)
            continue
        try:
            values.append(conversions.read_typed(text, column_type))
        except ValueError as fault:
            faults[index] = f"{fault} (column `{name}`)" if name else str(fault)
    return values, faults


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
