"""What a published version says of itself: its tables, what changed in them, and where all of it came from.

Tables and their numbers of rows are known to the published folder; all else is kept with the version as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from tidelog.logic.type_inference import Columns
from tidelog.publish import Version as Published

LAYOUT = 2  # of what is kept with a version


@dataclass(frozen=True, slots=True)
class Input:
    """Something that facts were read from, as it was then.

    `files` holds, for each file, its size, the time of its last change and a hash of its content; `marks`
    tells all else that matters: how it is read, or what the program states itself. Rejected rows are in the
    file or folder `rejects`.
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
    version: int | None = None  # of a Delta or Iceberg table
    identity: str | None = None  # … and which table that is
    is_edited: bool = False  # whether facts of its predicate were changed otherwise since

    @property
    def told(self) -> Input:
        """What matters of it, apart from when its files were written and where rejected rows are."""
        return replace(self, files={}, rejects=None)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one stream of a batch has come: the highest order, and the greatest event time."""

    order: str | None = None
    event: str | None = None  # as programs write points of time
    seen: float = 0.0  # when a record came last, in seconds since 1970


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch of a job's streams: what it brought, and what became of its records.

    All times before the `watermark` are final: the next batch cannot change what holds then.
    """

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
    watermark: str | None = None
    progress: Mapping[str, Progress] = field(default_factory=dict)  # by the predicates that records change


@dataclass(frozen=True)
class Origin:
    """Why a version is published, and where its facts came from."""

    reason: str  # full, refresh, incremental, stream, changes or rollback
    job: str  # a hash of what the job's program means
    program: str  # … and of the version's own: a stream may have changed its rules
    rules: str | None  # its rules and declarations, written out; None if they do not read back
    inputs: Mapping[str, Input] = field(default_factory=dict)
    batch: Batch | None = None
    engine: str = "columnar"
    treatment: str | None = None  # of equality and time, where the program has these
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the arguments of each table
    times: Mapping[str, int] = field(default_factory=dict)  # how many columns of a table say when
    names: Mapping[str, str] = field(default_factory=dict)  # full names of predicates, where tables differ
    given: Mapping[str, list[list[str]]] = field(default_factory=dict)  # types of what was read, by predicate
    is_integer_time: bool = False
    is_calendar: bool = False  # whether points of time are moments

    def to_json(self) -> dict[str, Any]:
        """Return what is kept with the version."""
        return {"layout": LAYOUT, **asdict(self)}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> Origin:
        """Return what was kept with a version."""
        made: Origin = _made(Origin, found)
        inputs = {name: _input(item) for name, item in found["inputs"].items()}
        batch = None if found["batch"] is None else _batch(found["batch"])
        types = {name: tuple(each) for name, each in found["types"].items()}
        return replace(made, inputs=inputs, batch=batch, types=types)

    def knowing(self, known: Mapping[str, Columns]) -> Origin:
        """Return the same with the types of what was read."""
        given = {
            name: [sorted(each.value for each in types) for types in columns]
            for name, columns in known.items()
        }
        return replace(self, given=given)


@dataclass(frozen=True, slots=True)
class Feed:
    """How many rows of a table a version inserted and deleted."""

    added: int
    removed: int


@dataclass(frozen=True)
class Manifest:
    """A published version."""

    published: Published
    origin: Origin

    @staticmethod
    def of(published: Published) -> Manifest:
        """Return the manifest of a version of a published folder."""
        return Manifest(published, Origin.from_json(published.details))

    @property
    def version(self) -> int:
        """Its number."""
        return self.published.number

    @property
    def parent(self) -> int | None:
        """The number of the version before it."""
        return self.published.parent

    @property
    def reason(self) -> str:
        """Why it was published."""
        return self.origin.reason

    @property
    def engine(self) -> str:
        """The engine that derived it."""
        return self.origin.engine

    @property
    def inputs(self) -> Mapping[str, Input]:
        """What its facts were read from."""
        return self.origin.inputs

    @property
    def batch(self) -> Batch | None:
        """The last batch of a stream that is in it."""
        return self.origin.batch

    @property
    def tables(self) -> Mapping[str, Any]:
        """Its tables, by the predicates as the program writes them."""
        return self.published.tables

    @property
    def failures(self) -> tuple[str, ...]:
        """Why it was set aside instead of published."""
        return tuple(self.published.details.get("failures", ()))

    @property
    def feed(self) -> Mapping[str, Feed]:
        """What it changed, by predicate."""
        own = (each for each in self.published.all_tables.values() if each.changed_in == self.version)
        return {each.name: Feed(each.inserted, each.deleted) for each in own if each.inserted or each.deleted}

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


def _input(item: dict[str, Any]) -> Input:
    files = {name: (size, time, digest) for name, (size, time, digest) in item["files"].items()}
    found: Input = _made(Input, {**item, "files": files})
    return found


def _batch(item: dict[str, Any]) -> Batch:
    progress = {name: _made(Progress, one) for name, one in item.get("progress", {}).items()}
    found: Batch = _made(Batch, {**item, "progress": progress})
    return found


def _made(kind: Any, item: Mapping[str, Any]) -> Any:
    """A dataclass of plain values; JSON's arrays are tuples."""
    known = {one.name for one in fields(kind)}
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in item.items()
            if name in known
        }
    )
