"""Schemas of published tables: Arrow's, in the types that all formats have, and as JSON.

The JSON is the one of Delta's log and of Spark (`StructType.fromJson`). Descriptions are in the metadata
`comment` of an Arrow field, and of the schema for the table itself.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

from tidelog.errors import DataError, Diagnostic
from tidelog.publish import codes

COMMENT: Final = b"comment"
CHANGE_TYPE: Final = "_change_type"  # of a row of a change file: `insert` or `delete`
NUMBER: Final = "_version"  # of a row of `changes`: the published version
_RESERVED: Final = (CHANGE_TYPE, NUMBER, "_commit_version", "_commit_timestamp")

_NAMES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_TYPES: Final = {name: type_ for type_, name in _NAMES.items()}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_SAME: Final = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def normal(schema: pa.Schema) -> pa.Schema:
    """Return a schema in the types that are published; raise a diagnostic for one that has no such type.

    Nullability and comments stay; other metadata is dropped.
    """
    seen: set[str] = set()
    for name in schema.names:
        if name in _RESERVED:
            message = f"a published table cannot have a column `{name}`: its change feed has one"
            raise DataError(Diagnostic(codes.NO_SUCH_TYPE, message))
        if not name or name.lower() in seen:
            message = f"the column name {name!r} is empty, or differs from another one in case only"
            raise DataError(Diagnostic(codes.NO_SUCH_TYPE, message))
        seen.add(name.lower())
    fields = [_normal_field(field) for field in schema]
    return pa.schema(fields, metadata=_comment(schema.metadata))


def _normal_field(field: pa.Field) -> pa.Field:
    type_ = normal_type(field.type)
    if type_ is None:
        message = f"column `{field.name}` has the type {field.type}, which is not published"
        help_line = (
            "integers of more than 64 bits are decimal(38, 0); times are timestamps in microseconds, or text"
        )
        raise DataError(Diagnostic(codes.NO_SUCH_TYPE, message, help=help_line))
    return pa.field(field.name, type_, field.nullable, metadata=_comment(field.metadata))


def _comment(metadata: dict[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    return {COMMENT: metadata[COMMENT]} if metadata and metadata.get(COMMENT) else None


def normal_type(type_: pa.DataType) -> pa.DataType | None:
    """Return the published type that has the same values as a type, None if there is none."""
    if type_ in _NAMES:
        return type_
    if type_ in _SAME:
        return _SAME[type_]
    if pa.types.is_dictionary(type_):
        return normal_type(type_.value_type)
    if pa.types.is_decimal128(type_) and 0 <= type_.scale <= type_.precision:
        return type_
    if pa.types.is_timestamp(type_) and type_.unit == "us":
        return pa.timestamp("us", "UTC")  # the same instants, whatever the zone
    if pa.types.is_struct(type_):
        inner = [normal_type(type_.field(place).type) for place in range(type_.num_fields)]
        if None not in inner:
            fields = (type_.field(place) for place in range(type_.num_fields))
            return pa.struct(
                [
                    pa.field(each.name, kind, each.nullable, metadata=_comment(each.metadata))
                    for each, kind in zip(fields, inner, strict=True)
                ]
            )
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        value = normal_type(type_.value_type)
        if value is not None:
            return pa.list_(pa.field("element", value, type_.value_field.nullable))
    return None


def comment_of(metadata: dict[bytes, bytes] | None) -> str | None:
    """Return the description in the metadata of a field or a schema."""
    return metadata[COMMENT].decode() if metadata and metadata.get(COMMENT) else None


def is_same(one: pa.Schema, other: pa.Schema) -> bool:
    """Return whether two schemas have the same columns of the same types, whatever is said of them."""
    return [(field.name, field.type) for field in one] == [(field.name, field.type) for field in other]


def to_json(schema: pa.Schema) -> str:
    """Return a schema as JSON; the table's own comment is not part of it."""
    return json.dumps({"type": "struct", "fields": [_field_json(field) for field in schema]})


def _field_json(field: pa.Field) -> dict[str, Any]:
    comment = comment_of(field.metadata)
    return {
        "name": field.name,
        "type": _type_json(field.type),
        "nullable": field.nullable,
        "metadata": {"comment": comment} if comment else {},
    }


def _type_json(type_: pa.DataType) -> Any:
    if type_ in _NAMES:
        return _NAMES[type_]
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        fields = [type_.field(place) for place in range(type_.num_fields)]
        return {"type": "struct", "fields": [_field_json(field) for field in fields]}
    element = type_.value_field
    return {"type": "array", "elementType": _type_json(element.type), "containsNull": element.nullable}


def from_json(text: str, comment: str | None = None) -> pa.Schema:
    """Return the schema that `to_json` has written, with a comment of the table's own."""
    fields = [_field_of(field) for field in json.loads(text)["fields"]]
    return pa.schema(fields, metadata={COMMENT: comment.encode()} if comment else None)


def _field_of(record: dict[str, Any]) -> pa.Field:
    comment = record["metadata"].get("comment")
    metadata = {COMMENT: comment.encode()} if comment else None
    return pa.field(record["name"], _type_of(record["type"]), record["nullable"], metadata=metadata)


def _type_of(record: Any) -> pa.DataType:
    if isinstance(record, str):
        if record in _TYPES:
            return _TYPES[record]
        found = _DECIMAL.fullmatch(record)
        if found is None:
            message = f"`{record}` is not a type of published tables"
            raise DataError(Diagnostic(codes.NO_SUCH_TYPE, message))
        return pa.decimal128(int(found[1]), int(found[2]))
    if record["type"] == "struct":
        return pa.struct([_field_of(field) for field in record["fields"]])
    return pa.list_(pa.field("element", _type_of(record["elementType"]), record["containsNull"]))


def columns_of_changes(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a change file: the columns and the kind of change."""
    return pa.schema([*schema, pa.field(CHANGE_TYPE, pa.string(), nullable=False)])
