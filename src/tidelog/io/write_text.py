"""CSV, TSV and JSON, written column by column: Arrow's kernels join the fields of all rows at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import DataError, Diagnostic
from tidelog.io import codes
from tidelog.io.arrays import Array, joined, text_array, text_scalar
from tidelog.io.marks import is_json

_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_IN_JSON_ESCAPED = r'["\\\x00-\x1f]'


def write_delimited(
    stream: IO[bytes], header: Sequence[str] | None, batches: Iterator[Any], delimiter: str, quoting: bool
) -> None:
    """The rows as delimited text, each on a line; only fields that need quotes have them."""
    if header is not None:
        names = [text_array([name]) for name in header]
        write_texts(stream, _delimited_rows(names, delimiter, quoting))
    for batch in batches:
        columns = [as_text(column) for column in batch.columns]
        write_texts(stream, _delimited_rows(columns, delimiter, quoting))


def without_formulas(batch: Any) -> Any:
    """Return the rows as texts, those that a spreadsheet would take for formulas behind a `'`."""
    columns = [as_text(column) for column in batch.columns]
    escaped = []
    for column in columns:
        is_number = pc.match_substring_regex(column, _NUMBER)
        is_formula = pc.and_(pc.match_substring_regex(column, _FORMULA), pc.invert(is_number))
        escaped.append(pc.if_else(is_formula, joined("'", column), column))
    return pa.RecordBatch.from_arrays(escaped, names=batch.schema.names)


def _delimited_rows(columns: Sequence[Array], delimiter: str, quoting: bool) -> Array:
    special = f"[{re.escape(delimiter)}\r\n\ufeff" + ('"]' if quoting else "]")
    # A line with nothing on it is no row.
    pattern = special + "|^$" if len(columns) == 1 else special
    fields = [_quoted(column, pattern, quoting) for column in columns]
    rows = joined(*fields, separator=delimiter)
    return joined(rows, "\n")


def _quoted(column: Array, pattern: str, quoting: bool) -> Array:
    needed = pc.match_substring_regex(column, pattern)
    if not pc.any(needed, min_count=0).as_py():
        return column
    if not quoting:
        text = column.filter(needed)[0].as_py()
        message = f"{text!r} cannot be written without quotes"
        raise DataError(
            Diagnostic(codes.NEEDS_QUOTES, message, help="write with quoting, or choose another delimiter")
        )
    doubled = pc.replace_substring(column, '"', '""')
    return pc.if_else(needed, joined('"', doubled, '"'), column)


def write_json(stream: IO[bytes], names: Sequence[str], batches: Iterator[Any], lines: bool) -> None:
    """The rows as JSON objects, one on each line, in an array unless they are JSON lines."""
    first = True
    for batch in batches:
        rows = _json_rows(names, batch)
        if lines:
            write_texts(stream, joined(rows, "\n"))
        else:
            texts = joined(",\n", rows)
            write_texts(stream, texts, skip=2 if first else 0, before=b"[\n" if first else b"")
        first = False
    if not lines:
        stream.write(b"[]\n" if first else b"\n]\n")


def _json_rows(names: Sequence[str], batch: Any) -> Array:
    parts: list[Any] = []
    for index, (name, field, column) in enumerate(zip(names, batch.schema, batch.columns, strict=True)):
        texts = as_text(column) if is_json(field) else _json_values(column)
        values = pc.fill_null(texts, text_scalar("null"))
        parts += [f"{', ' if index else '{'}{json.dumps(name, ensure_ascii=False)}: ", values]
    return joined(*parts, "}")


def _json_values(column: Array) -> Array:
    """The values as JSON: numbers and Booleans as such, infinite numbers and all else as text."""
    text = as_text(column)
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return text
    if pa.types.is_decimal(column.type):  # with a point, by which a decimal is known
        return pc.if_else(pc.match_substring(text, "."), text, joined(text, ".0"))
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), text, joined('"', text, '"'))
    special = pc.and_kleene(pc.match_substring_regex(text, _IN_JSON_ESCAPED), pc.is_valid(text))
    if pc.any(special, min_count=0).as_py():
        escaped = [json.dumps(item, ensure_ascii=False)[1:-1] for item in text.filter(special).to_pylist()]
        text = pc.replace_with_mask(text, special, text_array(escaped))
    return joined('"', text, '"')


def as_text(column: Array) -> Array:
    """The column as text: itself if it is, else the plain writing of its values."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type):
        written = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ" if column.type.tz else "%Y-%m-%dT%H:%M:%S")
        return pc.replace_substring_regex(written, r"(\.[0-9]*[1-9])0*(Z?)$|\.0+(Z?)$", r"\1\2\3")
    if pa.types.is_floating(column.type):
        return pc.replace_substring(column.cast(pa.string()), "inf", "INF")
    if pa.types.is_decimal(column.type):
        return _decimals_as_text(column)
    return column if column.type == pa.string() else column.cast(pa.string())


def _decimals_as_text(column: Array) -> Array:
    """The decimals without needless zeros, and without the exponents that Arrow gives to small ones."""
    text = column.cast(pa.string())
    small = pc.match_substring(text, "E")
    if pc.any(small, min_count=0).as_py():
        digits = [format(Decimal(item), "f") for item in text.filter(small).to_pylist()]
        text = pc.replace_with_mask(text, small, text_array(digits))
    return pc.replace_substring_regex(text, r"(\.[0-9]*[1-9])0+$|\.0+$", r"\1")


def write_texts(stream: IO[bytes], texts: Array, skip: int = 0, before: bytes = b"") -> None:
    """The texts one after the other: they lie so in Arrow's buffer. `skip` bytes of it are left out."""
    if len(texts) == 0:
        return
    stream.write(before)
    offsets = pa.Array.from_buffers(
        pa.int32(), len(texts) + 1, [None, texts.buffers()[1]], offset=texts.offset
    )
    start, end = offsets[0].as_py() + skip, offsets[len(texts)].as_py()
    stream.write(texts.buffers()[2].slice(start, end - start))
