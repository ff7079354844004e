"""Marks on Arrow's fields that say how the texts of a column are meant: as strings, IRIs, exact terms, JSON.

Files of Arrow and Parquet keep them, and other programs pass over them. A field without a mark is as anybody
writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidelog.logic.values import ColumnType

_KEY: Final = b"tidelog.type"
JSON: Final = "json"  # text that is JSON already
_TYPES: Final = {kind.value.encode(): kind for kind in (ColumnType.STRING, ColumnType.IRI, ColumnType.TERM)}


def marked(table: Any, marks: Sequence[str]) -> Any:
    """The table with these marks on its first fields; the empty one is none."""
    schema = table.schema
    for place, mark in enumerate(marks):
        if mark:
            schema = schema.set(place, schema.field(place).with_metadata({_KEY: mark.encode()}))
    return table.cast(schema) if any(marks) else table


def type_of(field: Any) -> ColumnType | None:
    """The type by which the texts of a field are read, if it has a mark."""
    return _TYPES.get((field.metadata or {}).get(_KEY, b""))


def is_json(field: Any) -> bool:
    """Whether the texts of a field are JSON already."""
    return bool((field.metadata or {}).get(_KEY) == JSON.encode())
