"""The published folder of a job: the manifests of versions, the tables, and the state.

    reach/, hops/ …     a table for each predicate
    _versions/          the versions of tables that belong together
    _state/             the reasoner of the current version
    _rejects/7/         the rejected rows of version 7

Numbers of rows and schemas of tables are in the published folder; the other fields of a `Manifest` are kept
with the version as JSON.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidelog.durable import write_text
from tidelog.errors import DataError, Diagnostic, ProgramError, codes, counted
from tidelog.errors.codes import NOT_STORABLE, TIME_NOT_CHANGED
from tidelog.logic.program import Program
from tidelog.logic.strata import entangled
from tidelog.logic.type_inference import Columns
from tidelog.pipeline.job_settings import Engine, Settings, is_remote
from tidelog.plan.rule_text import Writing
from tidelog.publish import Published, PublishedVersion
from tidelog.publish.object_storage import StorageFolder
from tidelog.reasoner.store_repair import read_rules, write_rules
from tidelog.reasoner.storing import StoredReasoner, check_memory, open_store, stored_sizes
from tidelog.reasoner.transaction import Change
from tidelog.records import dataclass
from tidelog.rewrite.dropped_rows import restored_names
from tidelog.store.forms import BatchId
from tidelog.temporal.metric_rules import time_cycle
from tidelog.temporal.timed_relation import BOUNDS

# ---- Manifests: the tables of a version, their changes, and the origin of its facts.

LAYOUT = 2  # of the JSON that is kept with a version


@dataclass(frozen=True, slots=True)
class InputRecord:
    """The record of an input when its facts were read.

    `files` has the size, the time of the last change and a hash of the content of each file; `marks` is a
    hash of all else: the options by which it is read, or the facts in the program. Rejected rows are in the
    file or folder `rejects`.
    """

    predicate: str
    shown: str
    marks: str
    files: Mapping[str, tuple[int, int, str]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()  # their names in the data
    rows: int = 0
    filtered: int = 0
    rejected: int = 0
    rejects: str | None = None
    volatile: bool = False  # whether only reading it shows if it has changed
    version: int | None = None  # of a Delta or Iceberg table
    identity: str | None = None  # the id of that table
    is_edited: bool = False  # whether facts of its predicate were changed by other means since

    @property
    def comparable(self) -> InputRecord:
        """The record without the times of files and the place of rejected rows."""
        return replace(self, files={}, rejects=None)


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """The progress of one stream up to a batch: the highest order, and the greatest event time."""

    order: str | None = None
    event: str | None = None  # a point of time as text
    seen: float = 0.0  # the time of the last record, in seconds since 1970


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """A micro-batch of a job's streams: its files, and the counts of its records.

    All times before the `watermark` are final: the next batch cannot change facts at them.
    """

    stream: str
    batch: int
    files: tuple[str, ...] = ()
    records: int = 0
    duplicates: int = 0
    missing: int = 0
    late: int = 0
    rejected: int = 0
    order: str | None = None  # the highest so far
    rejects: str | None = None
    watermark: str | None = None
    progress: Mapping[str, StreamProgress] = field(default_factory=dict)  # by changed predicate


@dataclass(frozen=True)
class VersionOrigin:
    """The reason for a version, and the origin of its facts."""

    reason: str  # full, refresh, incremental, stream, changes or rollback
    job: str  # a hash of the meaning of the job's program
    program: str  # and of the version's own: a stream may have changed its rules
    rules: str | None  # its rules and declarations as text; None if they cannot be read back
    inputs: Mapping[str, InputRecord] = field(default_factory=dict)
    batch: MicroBatch | None = None
    engine: str = "columnar"
    treatment: str | None = None  # of equality and time, if the program has these
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of the arguments of each table
    times: Mapping[str, int] = field(default_factory=dict)  # how many columns of a table are times
    names: Mapping[str, str] = field(default_factory=dict)  # full names of predicates, if tables differ
    given: Mapping[str, list[list[str]]] = field(default_factory=dict)  # types of explicit facts
    is_integer_time: bool = False
    is_calendar: bool = False  # whether points of time are moments

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that is kept with the version."""
        return {"layout": LAYOUT, **asdict(self)}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> VersionOrigin:
        """Return the origin of this JSON."""
        origin: VersionOrigin = _from_fields(VersionOrigin, values)
        inputs = {name: _input(item) for name, item in values["inputs"].items()}
        batch = None if values["batch"] is None else _batch(values["batch"])
        types = {name: tuple(names) for name, names in values["types"].items()}
        return replace(origin, inputs=inputs, batch=batch, types=types)

    def with_types(self, types_by_predicate: Mapping[str, Columns]) -> VersionOrigin:
        """Return the origin with the types of explicit facts."""
        given = {
            name: [sorted(kind.value for kind in types) for types in columns]
            for name, columns in types_by_predicate.items()
        }
        return replace(self, given=given)


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """How many rows of a table a version inserted and deleted."""

    added: int
    removed: int


@dataclass(frozen=True)
class Manifest:
    """A published version."""

    published: PublishedVersion
    origin: VersionOrigin

    @staticmethod
    def of(published: PublishedVersion) -> Manifest:
        """Return the manifest of a version of a published folder."""
        return Manifest(published, VersionOrigin.from_json(published.details))

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
    def inputs(self) -> Mapping[str, InputRecord]:
        """The inputs of its facts."""
        return self.origin.inputs

    @property
    def batch(self) -> MicroBatch | None:
        """The last batch of a stream that is in it."""
        return self.origin.batch

    @property
    def tables(self) -> Mapping[str, Any]:
        """Its tables, by the names of predicates in the program."""
        return self.published.tables

    @property
    def failures(self) -> tuple[str, ...]:
        """Why it was set aside instead of published."""
        return tuple(self.published.details.get("failures", ()))

    @property
    def feed(self) -> Mapping[str, ChangeCounts]:
        """The counts of its changes, by predicate."""
        changed_tables = (
            table for table in self.published.all_tables.values() if table.changed_in == self.version
        )
        return {
            table.name: ChangeCounts(table.inserted, table.deleted)
            for table in changed_tables
            if table.inserted or table.deleted
        }

    @property
    def added(self) -> int:
        """How many facts were inserted."""
        return sum(feed.added for feed in self.feed.values())

    @property
    def removed(self) -> int:
        """How many facts were deleted."""
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


def _input(item: dict[str, Any]) -> InputRecord:
    files = {name: (size, time, digest) for name, (size, time, digest) in item["files"].items()}
    record: InputRecord = _from_fields(InputRecord, {**item, "files": files})
    return record


def _batch(item: dict[str, Any]) -> MicroBatch:
    progress = {
        name: _from_fields(StreamProgress, values) for name, values in item.get("progress", {}).items()
    }
    batch: MicroBatch = _from_fields(MicroBatch, {**item, "progress": progress})
    return batch


def _from_fields(kind: Any, values: Mapping[str, Any]) -> Any:
    """Return a dataclass of plain values; arrays of JSON become tuples."""
    known = {item.name for item in fields(kind)}
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
            if name in known
        }
    )


# ---- The folder.

REJECTS = "_rejects"
INCOMING = "_incoming"
FAILED = "failed"  # the name of a version that failed a guard


class Store:
    """A published folder."""

    def __init__(
        self,
        path: Path | str,
        format: str | None = None,
        storage: Mapping[str, str] | None = None,
        local: Path | None = None,
    ) -> None:
        """Open the folder at a path or an address; for an address, `local` is the folder on a disk."""
        self.shown = str(path)
        self.local = local if is_remote(self.shown) else Path(path)
        if self.local is not None and self.local.is_dir():
            self._check_format(self.local)
        if is_remote(self.shown):
            StorageFolder.at(self.shown, storage).check()
        self.published = Published(path, format, storage)

    @property
    def path(self) -> Path:
        """The folder of state and rejected rows, on a disk; raise `DataError` if only the job knows it."""
        if self.local is None:
            message = f"`{self.shown}` has tables only: its other files are on a disk of the job"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, help="name the job's file instead"))
        return self.local

    def _check_format(self, path: Path) -> None:
        """Raise `DataError` for a folder of versions in the former format, without tables."""
        if is_former(path):
            message = f"`{path}` has versions in an old format that is no longer read"
            help = f"convert it, `tidelog convert {path}`, or publish into another folder"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, place=str(path), help=help))

    @property
    def number(self) -> int | None:
        """The number of the current version, None if nothing has been published."""
        return None if self.published.is_empty else self.published.current().number

    def current(self) -> Manifest | None:
        """Return the current version, None if nothing has been published."""
        return None if self.published.is_empty else Manifest.of(self.published.current())

    def manifest(self, version: int | None = None) -> Manifest:
        """Return a version, by default the current one; raise `DataError` if it does not exist."""
        if version is None:
            current = self.current()
            if current is None:
                is_missing = not is_remote(self.shown) and not Path(self.shown).is_dir()
                help = "the folder does not exist" if is_missing else None
                message = f"nothing has been published in `{self.shown}`"
                raise DataError(Diagnostic(codes.JOB_NO_VERSION, message, place=self.shown, help=help))
            return current
        if version not in self.numbers():
            numbers = self.numbers()
            known = f"there are versions {numbers[0]} to {numbers[-1]}" if numbers else "there are none"
            message = f"version {version} is not published in `{self.shown}`"
            raise DataError(Diagnostic(codes.JOB_NO_VERSION, message, place=self.shown, help=known))
        return Manifest.of(self.published.version(version))

    def failed(self) -> Manifest | None:
        """Return the version of the last run that failed a guard; None if there is none."""
        published = self.published.failed()
        return None if published is None else Manifest.of(published)

    def find(self, version: int | str | None = None) -> Manifest:
        """Return a version, or the one that failed a guard for `failed`; raise `DataError` without it."""
        if version != FAILED:
            assert not isinstance(version, str), "only a failed version has a name"
            return self.manifest(version)
        failed = self.failed()
        if failed is None:
            message = f"no version is set aside in `{self.shown}`"
            help = "a run that fails a guard or an expectation sets one aside; the next run removes it"
            raise DataError(Diagnostic(codes.JOB_NO_VERSION, message, place=self.shown, help=help))
        return failed

    def numbers(self) -> tuple[int, ...]:
        """Return the versions that are kept, the oldest first."""
        return self.published.numbers()

    def read(self, table: str, version: int | PublishedVersion) -> pa.Table:
        """Return the rows of a table."""
        with self._reporting_damage(table):
            return self.published.read(table, version)

    def changes(self, table: str, after: int, upto: int) -> pa.Table:
        """Return the changed rows of a table after a version, like `Published.changes`."""
        with self._reporting_damage(table):
            return self.published.changes(table, after, upto)

    @contextmanager
    def _reporting_damage(self, table: str) -> Iterator[None]:
        """In the block, raise `DataError` for files that are missing or damaged."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            message = f"the table `{table}` in `{self.shown}` is damaged: {reason}"
            help = "restore its files from a copy, or publish everything again into another folder"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, place=self.shown, help=help)) from error

    def rejects(self, number: int) -> Path:
        """Return the folder for the rejected rows of a version."""
        return self.path / REJECTS / str(number)

    @property
    def incoming(self) -> Path:
        """The folder for facts that tasks write for this process."""
        return self.path / INCOMING

    def remove_incoming(self) -> None:
        """Remove the files of a killed process."""
        shutil.rmtree(self.incoming, ignore_errors=True)

    def remove_rejects(self, numbers: Iterable[int]) -> None:
        """Remove the rejected rows of versions, unless a later version still names them."""
        if self.local is None:
            return
        used = {item.rejects for number in self.numbers() for item in self.manifest(number).inputs.values()}
        for number in numbers:
            folder = self.rejects(number)
            if not any(name and (self.path / name).is_relative_to(folder) for name in used):
                shutil.rmtree(folder, ignore_errors=True)

    def relative(self, path: Path) -> str:
        """Return a path as in manifests."""
        return str(path.relative_to(self.path))


def is_former(path: Path) -> bool:
    """Return whether a folder has versions in the former format, without tables."""
    return (path / "CURRENT").is_file() and (path / "versions").is_dir()


def store_of(settings: Settings) -> Store:
    """Return the published folder of a job."""
    try:
        address = settings.address(settings.publish)
        return Store(address, settings.format, settings.storage, settings.published)
    except DataError as error:
        span = settings.spans.get("publish")
        raise DataError(replace(fault, span=fault.span or span) for fault in error.diagnostics) from error


# ---- the state: a durable store of the reasoner next to the tables
#
# With it, applying a change only derives affected facts, in this process or in a later one.
#
# A store has the number of its version. One for a new version is next to the current one until that version
# is published. A transaction is committed to the store first, then published. A process that ends in between
# leaves a store that is one version ahead; `expected` returns the version that it was to publish.

APP: Final = "published"  # the application in the store whose transactions have the numbers of versions
FOLDER: Final = "_state"
EXPECTED: Final = "_expected.json"


class StateStore:
    """The durable store of the reasoner of a published folder."""

    def __init__(self, published: Path, settings: Mapping[str, Any], max_memory: int | None = None) -> None:
        self._published = published
        self._settings = settings  # of `Reasoner`
        self._max_memory = max_memory

    @property
    def path(self) -> Path:
        """The folder of the store."""
        return self._published / FOLDER

    def path_for(self, number: int) -> Path:
        """Return the folder of the store for a future version."""
        return self._published / f"{FOLDER}.{number}"

    # ---- a new store

    def begin(self, number: int, program: Program) -> StoredReasoner:
        """Return an empty reasoner, whose `begin` creates the store of a future version."""
        path = self.path_for(number)
        shutil.rmtree(path, ignore_errors=True)  # left by a process that did not finish
        reasoner = open_store(path, program, later=True, **self._settings)
        reasoner.batches[APP] = self.batch(number)
        return reasoner

    def take(self, number: int, folder: str) -> None:
        """Use the store that a task has written for a future version."""
        path = self.path_for(number)
        shutil.rmtree(path, ignore_errors=True)
        (self._published / folder).rename(path)

    def adopt(self, number: int) -> bool:
        """Make the store of a version, which is published, the current one; return whether it exists."""
        path = self.path_for(number)
        if not path.is_dir():
            return False
        self.discard()
        path.rename(self.path)
        return True

    def discard(self) -> None:
        """Delete the store."""
        discarded = self._published / f"{FOLDER}.discarded"
        shutil.rmtree(discarded, ignore_errors=True)
        if self.path.is_dir():
            self.path.rename(discarded)  # a process that ends meanwhile leaves no partial store
        shutil.rmtree(discarded, ignore_errors=True)

    def remove_unpublished(self, number: int | None) -> None:
        """Delete the stores of other versions than the current one, or of all if it is None.

        A run that ended before its version was published leaves one, and its number may be used again.
        """
        current = None if number is None else self.path_for(number)
        for path in self._published.glob(f"{FOLDER}.*"):
            if path != current:
                shutil.rmtree(path, ignore_errors=True)

    # ---- the current store

    @staticmethod
    def batch(number: int) -> BatchId:
        """Return the number of a transaction that leads to a version."""
        return BatchId(APP, number)

    def open(self, number: int) -> StoredReasoner | None:
        """Return the reasoner of a version, or of the next one, if it was not published; else None."""
        self.adopt(number)
        if not self.path.is_dir():
            return None
        self.check_memory(stored_sizes(self.path), f"the state of version {number}")
        reasoner = open_store(self.path, **self._settings)
        if self.number_of(reasoner) not in (number, number + 1):
            reasoner.abandon()
            return None
        return reasoner

    def check_memory(self, tables: Collection[tuple[int, int]], what: str) -> None:
        """Raise `Stopped` if relations with these rows and columns are more than this process can hold."""
        help = (
            "give the process more memory, or set `max-memory` in [engine]; or derive in tasks of Spark: "
            "--full --engine spark"
        )
        check_memory(tables, what, self._max_memory, help)

    @staticmethod
    def number_of(reasoner: StoredReasoner) -> int:
        """Return the version of a reasoner."""
        return reasoner.batches[APP].number if APP in reasoner.batches else 0

    # ---- the version that is to be published

    def expect(self, number: int, origin: VersionOrigin) -> None:
        """Write the origin of a version before its transaction is committed to the store."""
        text = json.dumps({"version": number, "origin": origin.to_json()})
        write_text(self._published / EXPECTED, text)

    @property
    def is_expecting(self) -> bool:
        """Whether a version was begun that may not be published."""
        return (self._published / EXPECTED).exists()

    def expected(self, number: int) -> VersionOrigin | None:
        """Return the origin of a version that was not published, if it is the expected one."""
        try:
            expectation = json.loads((self._published / EXPECTED).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return VersionOrigin.from_json(expectation["origin"]) if expectation["version"] == number else None

    def settle(self) -> None:
        """Forget the expected version: what the store has is published."""
        (self._published / EXPECTED).unlink(missing_ok=True)


# ---- Whether a job can continue from a version, or everything must be derived again.


def check_columns(before: Manifest, program: Program) -> None:
    """Raise `DataError` if predicates have other numbers of columns than in a version."""
    faults = []
    for predicate in program.predicates.values():
        types = before.origin.types.get(predicate.written) if predicate.written in before.tables else None
        if types is not None and predicate.arity != len(types):
            message = (
                f"`{predicate.written}` has {counted(predicate.arity, 'column')}, "
                f"and {len(types)} in version {before.version}"
            )
            help = "publish it again, with all that depends on it, with --full"
            faults.append(Diagnostic(codes.DRIFT, message, predicate.span, help))
    if faults:
        raise DataError(faults)


def reason_not_to_continue(before: Manifest, then: Program, program: Program, engine: Engine) -> str | None:
    """Return why a job cannot continue from a version with a program; None if it can."""
    now, was = engine.treatment_in(program), before.origin.treatment
    if now != was and {was, now} - {None} != {"axiomatise"}:  # axioms can change like rules
        treatments = [text or "no such treatment" for text in (was, now)]
        return f"version {before.version} is of `{treatments[0]}`, and the job of `{treatments[1]}`"
    for name, predicate in program.predicates.items():
        published = predicate.written in before.tables
        times = before.origin.times.get(predicate.written, 0)
        if published and times != _times_of(name, program, engine):
            kind = "always" if name not in program.timed else "without end" if times else "at times"
            return f"`{predicate.written}` holds {kind}, otherwise than in version {before.version}"
    if then.rules is not program.rules and entangled((*then.timed_rules, *program.timed_rules)):
        return "inserted and deleted temporal rules negate each other in a cycle"
    return None


def edited_inputs(inputs: Mapping[str, InputRecord], change: Change) -> Mapping[str, InputRecord]:
    """Return the inputs; those with versions are marked if facts of their predicates change."""
    names = {*change.added, *change.deleted, *(name for name, _ in change.times.added + change.times.removed)}
    return {
        key: replace(record, is_edited=True)
        if record.version is not None and record.predicate in names
        else record
        for key, record in inputs.items()
    }


def reason_in(error: ProgramError) -> str:
    """Return why temporal facts cannot be maintained, and are derived again; else raise the error."""
    for fault in error.diagnostics:
        if fault.code == TIME_NOT_CHANGED:
            return fault.message
    raise error


def reason_not_to_open(error: DataError) -> str:
    """Return why the state cannot be opened, and all is derived again; else raise the error."""
    for fault in error.diagnostics:
        if fault.code == NOT_STORABLE:  # other settings than it was created with
            return fault.message
    raise error


def _times_of(name: str, program: Program, engine: Engine) -> int:
    """Return how many columns of a predicate's table are times."""
    if name not in program.timed:
        return 0
    is_periodic = engine.horizon is None and bool(time_cycle(program.timed_rules))
    return len(BOUNDS) + is_periodic


def has_changed(what: str) -> DataError:
    """Return the error for a change without a run, where the job differs from that of the last version."""
    message = f"{what} has changed since the last version was published"
    return DataError(Diagnostic(codes.DRIFT, message, help="run the job first"))


def no_advance(place: str | None = None) -> DataError:
    """Return the error for a change script that advances time."""
    message = "time cannot advance in a pipeline by a change script"
    help = "give a stream of records an `event-time`: time advances by its watermark"
    return DataError(Diagnostic(codes.TIMED, message, place=place, help=help))


# ---- Programs in versions: the text of rules and declarations, and a hash of their meaning.


def digest(*texts: str) -> str:
    """Return a hash of texts."""
    hasher = blake2b(digest_size=16)
    for text in texts:
        hasher.update(text.encode("utf-8", "surrogateescape") + b"\0")
    return hasher.hexdigest()


_described: list[tuple[Program, tuple[str, str | None]]] = []  # a cache of the last one


def described(program: Program) -> tuple[str, str | None]:
    """Return a hash of the meaning of a program, and the text of its rules and declarations."""
    for cached, texts in _described:
        if cached.rules is program.rules and cached.predicates is program.predicates:
            return texts
    texts_of_program = hash_of(program), write_rules(program)
    _described[:] = [(program, texts_of_program)]
    return texts_of_program


def hash_of(program: Program) -> str:
    """Return a hash of the rules and the predicates' columns, which does not depend on the layout."""
    writing = Writing()
    rules = sorted(writing.rule(rule) for rule in program.rules)
    predicates = sorted(
        f"{item.name}/{item.arity} {' '.join(kind.value for kind in item.types)}"
        for item in program.predicates.values()
    )
    times = sorted(f"@ {name}" for name in program.given_times)
    return digest(*rules, "", *predicates, *times, *(["integer time"] if program.is_integer_time else []))


def published_program(origin: VersionOrigin, program: Program) -> Program | None:
    """Return the program that a version was published with; None if it cannot be read back.

    `program` is the current one, which is often the same.
    """
    if hash_of(program) == origin.program:
        return replace(program, facts=(), imports=())
    return None if origin.rules is None else restored_names(read_rules(origin.rules), program)
