"""Schemas of published tables, and versions: one row of the table `_versions` each."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tidelog.errors import DataError, Diagnostic, codes
from tidelog.records import dataclass

# ---- schemas of published tables
#
# The JSON is the one of Delta's log and of Spark (`StructType.fromJson`). Descriptions are in the metadata
# `comment` of an Arrow field, and of the schema for the table itself.

COMMENT: Final = b"comment"
CHANGE_TYPE: Final = "_change_type"  # of a row of a change file: `insert` or `delete`
NUMBER: Final = "_version"  # of a row of `changes`: the published version
RESERVED: Final = (CHANGE_TYPE, NUMBER, "_commit_version", "_commit_timestamp")  # no column is called so

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
    used: set[str] = set()
    for name in schema.names:
        if name in RESERVED:
            message = f"a published table cannot have a column `{name}`: its change feed has one"
            raise DataError(Diagnostic(codes.NO_SUCH_TYPE, message))
        if not name or name.lower() in used:
            message = f"the column name {name!r} is empty, or differs from another one in case only"
            raise DataError(Diagnostic(codes.NO_SUCH_TYPE, message))
        used.add(name.lower())
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
        inner = [normal_type(type_.field(position).type) for position in range(type_.num_fields)]
        if None not in inner:
            fields = (type_.field(position) for position in range(type_.num_fields))
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


def is_same(left: pa.Schema, right: pa.Schema) -> bool:
    """Return whether two schemas have the same columns with the same types, regardless of metadata."""
    return [(field.name, field.type) for field in left] == [(field.name, field.type) for field in right]


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
        fields = [type_.field(position) for position in range(type_.num_fields)]
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
        match = _DECIMAL.fullmatch(record)
        if match is None:
            message = f"`{record}` is not a type of published tables"
            raise DataError(Diagnostic(codes.NO_SUCH_TYPE, message))
        return pa.decimal128(int(match[1]), int(match[2]))
    if record["type"] == "struct":
        return pa.struct([_field_of(field) for field in record["fields"]])
    return pa.list_(pa.field("element", _type_of(record["elementType"]), record["containsNull"]))


def columns_of_changes(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a change file: the columns and the kind of change."""
    return pa.schema([*schema, pa.field(CHANGE_TYPE, pa.string(), nullable=False)])


def columns_of_feeds(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a change feed: the columns, the kind of change, and the version."""
    return pa.schema([*columns_of_changes(schema), pa.field(NUMBER, pa.int64(), nullable=False)])


# ---- versions of a published folder

VERSIONS: Final = "_versions"

_TABLE: Final = pa.struct(
    [
        pa.field("name", pa.string(), False),
        pa.field("format_version", pa.int64(), False),
        pa.field("changed_in", pa.int64(), False),
        pa.field("rows", pa.int64(), False),
        pa.field("inserted", pa.int64(), False),
        pa.field("deleted", pa.int64(), False),
        pa.field("is_dropped", pa.bool_(), False),
        pa.field("schema", pa.string(), False),
        pa.field("comment", pa.string()),
    ]
)


def _described(name: str, type_: pa.DataType, comment: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable, metadata={COMMENT: comment.encode()})


SCHEMA: Final = pa.schema(
    [
        _described("number", pa.int64(), "of the version: 1, 2, 3 and so on"),
        _described("parent", pa.int64(), "the version that this one follows", nullable=True),
        _described("time", pa.timestamp("us", "UTC"), "when it was published"),
        _described("reason", pa.string(), "why it was published"),
        _described(
            "tables", pa.list_(pa.field("element", _TABLE, False)), "each table's version in its format"
        ),
        _described("details", pa.string(), "what the job says of the version, as JSON"),
    ],
    metadata={COMMENT: b"Each row names one version of every table of this folder."},
)


@dataclass(frozen=True)
class TableVersion:
    """A table in a published version: `inserted` and `deleted` count what this version changed."""

    name: str
    format_version: int
    changed_in: int  # the published version that the table has this content since
    rows: int
    inserted: int
    deleted: int
    schema: pa.Schema = field(compare=False)
    is_dropped: bool = False

    def to_record(self) -> dict[str, Any]:
        """Return the fields as JSON has them, and Arrow."""
        return {
            "name": self.name,
            "format_version": self.format_version,
            "changed_in": self.changed_in,
            "rows": self.rows,
            "inserted": self.inserted,
            "deleted": self.deleted,
            "is_dropped": self.is_dropped,
            "schema": to_json(self.schema),
            "comment": comment_of(self.schema.metadata),
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> TableVersion:
        """Return the version that `to_record` has written."""
        fields = dict(record)
        schema = from_json(fields.pop("schema"), fields.pop("comment"))
        return TableVersion(**fields, schema=schema)


@dataclass(frozen=True)
class PublishedVersion:
    """A published version of all tables of a folder."""

    number: int
    parent: int | None
    time: dt.datetime
    reason: str
    all_tables: Mapping[str, TableVersion]  # dropped ones, too, whose folders are still there
    details: Mapping[str, Any]
    uncommitted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # files, if it is not published

    @cached_property
    def tables(self) -> Mapping[str, TableVersion]:
        """The tables that there are, by name."""
        return {name: table for name, table in self.all_tables.items() if not table.is_dropped}

    def to_record(self) -> dict[str, Any]:
        """Return the fields as a row of `_versions`."""
        return {
            "number": self.number,
            "parent": self.parent,
            "time": self.time,
            "reason": self.reason,
            "tables": [table.to_record() for table in self.all_tables.values()],
            "details": json.dumps(self.details, ensure_ascii=False),
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> PublishedVersion:
        """Return the version of a row of `_versions`."""
        tables = [TableVersion.from_record(table) for table in record["tables"]]
        return PublishedVersion(
            record["number"],
            record["parent"],
            record["time"],
            record["reason"],
            {table.name: table for table in tables},
            json.loads(record["details"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {**self.to_record(), "time": self.time.isoformat()}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> PublishedVersion:
        """Return the version that `to_json` has written."""
        return PublishedVersion.from_record({**record, "time": dt.datetime.fromisoformat(record["time"])})

    def to_arrow(self) -> pa.Table:
        """Return the version as a row of `_versions`."""
        return pa.Table.from_pylist([self.to_record()], schema=SCHEMA)
