"""Versions of a published folder: one row of the table `_versions` each."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tidelog.publish import schemas

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
    return pa.field(name, type_, nullable, metadata={schemas.COMMENT: comment.encode()})


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
    metadata={schemas.COMMENT: b"Each row names one version of every table of this folder."},
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
            "schema": schemas.to_json(self.schema),
            "comment": schemas.comment_of(self.schema.metadata),
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> TableVersion:
        """Return the version that `to_record` has written."""
        fields = dict(record)
        schema = schemas.from_json(fields.pop("schema"), fields.pop("comment"))
        return TableVersion(**fields, schema=schema)


@dataclass(frozen=True)
class Version:
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
    def from_record(record: Mapping[str, Any]) -> Version:
        """Return the version of a row of `_versions`."""
        tables = [TableVersion.from_record(table) for table in record["tables"]]
        return Version(
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
    def from_json(record: Mapping[str, Any]) -> Version:
        """Return the version that `to_json` has written."""
        return Version.from_record({**record, "time": dt.datetime.fromisoformat(record["time"])})

    def to_arrow(self) -> pa.Table:
        """Return the version as a row of `_versions`."""
        return pa.Table.from_pylist([self.to_record()], schema=SCHEMA)
