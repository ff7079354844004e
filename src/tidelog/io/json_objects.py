"""Lines of JSON objects, parsed by Arrow where all of a block's objects are alike.

Arrow is told the type of every key, so it guesses nothing and refuses what is not of that type. Blocks that
it refuses, or in which a value is missing, are read by `json_files`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.json

from tidelog.io.columns import ARROW_TYPES, Batch, Column, column_of_texts, finite
from tidelog.logic.values import ColumnType

_TYPE_OF_CLASS = {str: ColumnType.ANY, int: ColumnType.INTEGER, bool: ColumnType.BOOLEAN}
_NUMBERS = frozenset({ColumnType.INTEGER, ColumnType.DOUBLE, ColumnType.BOOLEAN})


def parse_objects(
    text: bytes, fields: dict[str, ColumnType] | None, first: Any, threads: int
) -> Batch | None:
    """The objects on the lines of the text, or None if not all are plainly of these fields.

    A field of any type has the type of its value in `first`, the first object of the file.
    """
    if not fields or not isinstance(first, dict):
        return None
    types = [_column_type(first.get(key), column_type) for key, column_type in fields.items()]
    arrow_types = [
        None if kind is None else ARROW_TYPES[kind] if kind in _NUMBERS else pa.string() for kind in types
    ]
    if None in arrow_types:
        return None
    table = _table(text, pa.schema(list(zip(fields, arrow_types, strict=True))), threads)
    if table is None:
        return None
    columns = [_column(*pair) for pair in zip(table.columns, types, strict=True)]
    found = tuple(column for column in columns if column is not None)
    return Batch(found, table.num_rows) if len(found) == len(columns) else None


def _column_type(value: object, declared: ColumnType) -> ColumnType | None:
    return _TYPE_OF_CLASS.get(type(value)) if declared is ColumnType.ANY else declared


def _table(text: bytes, schema: Any, threads: int) -> Any | None:
    """The objects as a table, one for each line, or None."""
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pyarrow.json.ReadOptions(use_threads=threads > 1, block_size=len(text) // threads + 1)
    try:
        table = pyarrow.json.read_json(pa.BufferReader(text), reading, options)
        table.validate(full=True)  # UTF-8
    except pa.ArrowInvalid:
        return None
    is_whole = table.num_rows == text.count(b"\n") + (not text.endswith(b"\n"))
    return table if is_whole and table.column_names == schema.names else None


def _column(values: Any, column_type: ColumnType | None) -> Column | None:
    """The parsed values as a column, or None if some are missing or need care."""
    if values.null_count or column_type is None:
        return None
    if column_type is ColumnType.ANY:
        return Column(column_type, values, parse_numbers=False)
    if column_type is ColumnType.DOUBLE:
        doubles = finite(values)
        return None if doubles is None else Column(column_type, doubles)
    return Column(column_type, values) if column_type in _NUMBERS else column_of_texts(values, column_type)
