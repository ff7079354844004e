"""What a published version holds: its tables, what changed in them, and where all of it came from.

A table is a list of files to be read one after the other: a base, then rows that came and went. A version
names all files that it needs, its own and those of versions before it, so that a small change writes little.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tidelog.errors import DataError, Diagnostic
from tidelog.logic.values import ColumnType
from tidelog.pipeline import codes
from tidelog.pipeline.times import Layout

LAYOUT = 1  # of the folder and its manifests
BASE, ADDED, REMOVED = "base", "added", "removed"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of rows: a base, or rows that came or went. `path` is relative to the published folder."""

    path: str
    role: str
    rows: int
    types: tuple[ColumnType, ...]
    times: int = 0  # columns at the end that say when


Parts = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """The facts of a predicate, and which of them are explicit: all, where `stated` is None."""

    written: str  # the predicate as the program writes it
    columns: tuple[str, ...]
    types: tuple[ColumnType, ...]  # by which rows are stored
    rows: int
    facts: Parts
    stated: Parts | None = None
    times: int = 0  # columns at the end that say when

    @property
    def explicit(self) -> Parts:
        """The files of the explicit facts."""
        return self.facts if self.stated is None else self.stated


@dataclass(frozen=True, slots=True)
class Feed:
    """What a version changed in a predicate, and the files that hold it."""

    added: int
    removed: int
    parts: Parts


@dataclass(frozen=True, slots=True)
class Input:
    """Something that facts were read from, as it was then.

    `files` holds, for each file, its size, the time of its last change and a hash of its content; `marks`
    tells all else that matters: how it is read, or what the program states itself. Rejected rows are in the
    file `rejects`.
    """

    predicate: str
    shown: str
    marks: str
    files: Mapping[str, tuple[int, int, str]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()  # as the data names them
    rows: int = 0
    filtered: int = 0
    rejected: int = 0
    rejects: str | None = None
    volatile: bool = False  # whether only reading it tells if it has changed

    @property
    def told(self) -> Input:
        """What matters of it, apart from when its files were written and where rejected rows are."""
        return replace(self, files={}, rejects=None)


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch of a stream: what it brought, and what became of its records."""

    stream: str
    batch: int
    files: tuple[str, ...] = ()
    records: int = 0
    duplicates: int = 0
    missing: int = 0
    late: int = 0
    rejected: int = 0
    order: str | None = None  # the highest that came so far
    rejects: str | None = None


@dataclass(frozen=True)
class Manifest:
    """A published version."""

    version: int
    parent: int | None
    created: str
    reason: str  # full, incremental, stream, changes or rollback
    job: str  # a hash of what the job's program means
    program: str  # … and of the version's own: a stream may have changed its rules
    rules: str | None  # its rules and declarations, written out; None if they do not read back
    tables: Mapping[str, Table]
    feed: Mapping[str, Feed]
    inputs: Mapping[str, Input] = field(default_factory=dict)
    batch: Batch | None = None
    engine: str = "columnar"
    treatment: str | None = None  # of equality and time, where the program has these
    time: Mapping[str, Any] | None = None  # how what holds at times was derived, as stores write it

    def layout(self, name: str) -> Layout:
        """The columns of a table."""
        table = self.tables[name]
        return Layout(table.columns, table.times, self.time is not None and self.time["timeline"][2])

    @property
    def is_integer_time(self) -> bool:
        """Whether the points of time are the integers."""
        return self.time is not None and bool(self.time["timeline"][1])

    @property
    def added(self) -> int:
        """How many facts came."""
        return sum(feed.added for feed in self.feed.values())

    @property
    def removed(self) -> int:
        """How many facts went."""
        return sum(feed.removed for feed in self.feed.values())

    @property
    def rows(self) -> int:
        """How many facts there are."""
        return sum(table.rows for table in self.tables.values())

    @property
    def rejected(self) -> int:
        """How many rows of the inputs, or records of the batch, were rejected."""
        batch = self.batch.rejected if self.batch is not None and self.reason == "stream" else 0
        return batch + sum(item.rejected for item in self.inputs.values())

    def files(self) -> Iterable[str]:
        """All files that the version needs."""
        for table in self.tables.values():
            yield from (part.path for part in (*table.facts, *(table.stated or ())))
        for feed in self.feed.values():
            yield from (part.path for part in feed.parts)
        kept = [item.rejects for item in self.inputs.values()]
        yield from (path for path in (*kept, self.batch and self.batch.rejects) if path)


def to_json(manifest: Manifest) -> str:
    """The manifest as text."""
    return json.dumps({"layout": LAYOUT, **asdict(manifest)}, default=_plain, indent=1) + "\n"


def _plain(item: object) -> object:
    if isinstance(item, ColumnType):
        return item.value
    raise TypeError(f"{item!r} is no part of a manifest")


def from_json(text: str, path: Path) -> Manifest:
    """The manifest in a text; raises `DataError` if it is none."""
    try:
        found = json.loads(text)
        if found.pop("layout") != LAYOUT:
            raise ValueError("it was written by another version of tidelog")
        found["tables"] = {name: _table(item) for name, item in found["tables"].items()}
        found["feed"] = {
            name: Feed(item["added"], item["removed"], _parts(item["parts"]))
            for name, item in found["feed"].items()
        }
        found["inputs"] = {name: _input(item) for name, item in found["inputs"].items()}
        found["batch"] = None if found["batch"] is None else _made(Batch, found["batch"])
        return Manifest(**found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"`{path}` is no manifest of a version: {error}"
        raise DataError(Diagnostic(codes.DAMAGED, message, place=str(path))) from None


def _table(item: dict[str, Any]) -> Table:
    stated = None if item["stated"] is None else _parts(item["stated"])
    columns, types = tuple(item["columns"]), _types(item["types"])
    facts = _parts(item["facts"])
    return Table(item["written"], columns, types, item["rows"], facts, stated, item.get("times", 0))


def _parts(items: Iterable[dict[str, Any]]) -> Parts:
    return tuple(
        Part(item["path"], item["role"], item["rows"], _types(item["types"]), item.get("times", 0))
        for item in items
    )


def _types(names: Iterable[str]) -> tuple[ColumnType, ...]:
    return tuple(ColumnType(name) for name in names)


def _input(item: dict[str, Any]) -> Input:
    files = {name: (size, time, digest) for name, (size, time, digest) in item["files"].items()}
    found: Input = _made(Input, {**item, "files": files})
    return found


def _made(kind: Any, item: dict[str, Any]) -> Any:
    """A dataclass of plain values; JSON's arrays are tuples."""
    known = {one.name for one in fields(kind)}
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in item.items()
            if name in known
        }
    )
