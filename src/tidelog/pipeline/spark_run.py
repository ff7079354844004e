"""A run on Spark: Spark reads the sources, and tasks derive and write the files of tables.

Changes of sources are found by comparing them with the published tables. Only changes are fetched to this
process.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from tidelog.data.columns import Batch
from tidelog.data.rows import Rows, concatenate
from tidelog.errors import DataError, Diagnostic, codes, counted
from tidelog.io.data_file import FactSource, file_name, import_file
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic.program import Program, Transfer
from tidelog.logic.resolve import giving_times
from tidelog.logic.type_inference import Columns, infer
from tidelog.logic.types import column_of
from tidelog.logic.values import ColumnType
from tidelog.pipeline.contents import no_rows
from tidelog.pipeline.inputs import (
    SourceBinding,
    check_drift,
    key_of,
    mark_of,
    marks_of,
    program_inputs,
    with_keys,
)
from tidelog.pipeline.job_settings import Settings
from tidelog.pipeline.job_settings import Source as Described
from tidelog.pipeline.source_files import (
    SourceChanges,
    SourceRowFilter,
    VersionedSource,
    check_sources,
    feed_of,
)
from tidelog.pipeline.version_folder import APP, InputRecord, Manifest, StateStore, Store, VersionOrigin
from tidelog.publish import Publication, Published
from tidelog.publish.object_storage import StorageFolder, s3a_options
from tidelog.publish.published_schemas import CHANGE_TYPE, columns_of_changes, is_same, normal
from tidelog.publish.table_files import DELETE, INSERT, ROWS, read_file
from tidelog.reasoner.storing import StoredReasoner
from tidelog.reasoner.transaction import Change
from tidelog.records import dataclass
from tidelog.rewrite.dropped_rows import aside_table, tables_of
from tidelog.spark.frames import (
    FILES_SCHEMA,
    Derived,
    fetch_by_files,
    folder_below,
    quoted,
    union,
    write_rows,
)
from tidelog.spark.frames import ROWS as ONLY
from tidelog.spark.reading.source_columns import FoundFile, list_files, local_files, source_of
from tidelog.spark.reading.source_frames import CombinedSources, combine_sources, read_source
from tidelog.spark.reading.source_rows import SourceRows
from tidelog.spark.schemas import arrow_of, share_columns
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship, translated_errors
from tidelog.spark.stages import BoundProgram, InputFrames, read_by, tagged_rows, types_in
from tidelog.spark.strategies import StrategyChoice
from tidelog.spark.worker import NONE, READ, STATE, TAG, FileTarget, ReadFiles, StateFolder, WriteRows

MOST_ROWS: Final = 1_000_000  # of a table that is compared in this process


@dataclass(frozen=True)
class SparkBinding:
    """A source of a job, or an import of its program."""

    key: str
    predicate: str
    source: FactSource
    on_error: str
    is_volatile: bool
    table: VersionedSource | None = None  # the table that is read, if it has versions
    marks: str = ""  # a hash of the options by which it is read


class SparkInputReader:
    """The inputs of one run, read by Spark. Mutable."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        program: Program,
        session: Callable[[], SparkSession],
        reached: Callable[[str, str], None],
        number: int,
    ) -> None:
        self._settings = settings
        self._store = store
        self._number = number
        self._program = program
        self._session: Callable[[], SparkSession] = lambda: with_object_stores(session(), settings)
        self._reached = reached
        self.inputs: dict[str, InputRecord] = {}
        self._program_inputs = list(program_inputs(program))
        check_sources(settings, program)
        items = [_item(source, program, settings) for source in settings.sources]
        items += (_imported(transfer, program) for transfer in program.imports)
        self._items: list[SparkBinding] = with_keys(items)
        self._readings: dict[str, SourceRows] = {}
        self._combined: CombinedSources | None = None
        self._feeds: dict[str, SourceChanges | None] = {}  # the changes of tables, by predicate
        self._again: Collection[str] = ()  # predicates whose inputs are read whole
        shutil.rmtree(store.rejects(number), ignore_errors=True)  # of a run that failed

    # ---- changed inputs

    def edited(self, before: Manifest, again: Collection[str] = ()) -> list[str]:
        """Return the predicates whose inputs differ from those of a version; the records of others are kept.

        It includes the predicates `again`, whose inputs are read whole.
        """
        self._again = again
        records = {item.key: self._input(item) for item in self._items}
        records |= {
            item.key: InputRecord(item.predicate, item.shown, item.marks) for item in self._program_inputs
        }
        changed = [
            record.predicate
            for key, record in records.items()
            if record.volatile or record.predicate in again or not _is_same(record, before.inputs.get(key))
        ]
        missing = [item.predicate for key, item in before.inputs.items() if key not in records]
        edited = list(dict.fromkeys((*changed, *missing)))
        self.inputs = {key: item for key, item in before.inputs.items() if item.predicate not in edited}
        return edited

    def _input(self, item: SparkBinding) -> InputRecord:
        """Return the record of an input before its rows are read, to detect whether it has changed."""
        if item.table is not None:
            return item.table.with_version(InputRecord(item.predicate, item.source.shown, item.marks))
        files = (
            {} if item.is_volatile else _stamps(files_of(item.source, self._settings.folder, self._session))
        )
        marks = mark_of(replace(item.source, span=None, path=(), frame=None))
        return InputRecord(item.predicate, item.source.shown, marks, files, volatile=item.is_volatile)

    def reading(self, item: SparkBinding) -> SourceRows:
        """Return the rows of an input as frames."""
        if item.key not in self._readings:
            self._readings[item.key] = self._of(item)
        return self._readings[item.key]

    def _of(self, item: SparkBinding) -> SourceRows:
        """Return the rows of an input, in the version of its table in this run."""
        source, table = item.source, item.table
        if table is not None:
            source = replace(source, version=table.foreign.version)
        folder = self._settings.folder
        rows = read_source(self._session(), source, self._program, folder, self._rejects(item))
        return rows if table is None else replace(rows, columns=table.columns)  # as with the other engine

    def _rejects(self, item: SparkBinding) -> Path:
        """Return the folder for the rejected rows of an input."""
        name = file_name(f"{item.predicate}.{self._items.index(item) + 1}", "csv")
        return (self._store.rejects(self._number) / name).resolve()

    def _read(self, items: Sequence[SparkBinding], before: Manifest | None, full: bool) -> CombinedSources:
        """Return the combined inputs: those that Spark reads in the same way share a scan."""
        readings = {item.key: self.reading(item) for item in items}
        for item in items:
            self._check_drift(item, readings[item.key].columns, before, full)
        self._combined = combine_sources(readings, read_by(self._program, ()))
        return self._combined

    # ---- all inputs

    def bind(self, settings: Mapping[str, Any], before: Manifest | None, full: bool) -> BoundProgram:
        """Bind the program to all of its inputs."""
        inputs = self._read(self._items, before, full).inputs
        program = replace(self._program, imports=(), exports=())
        program = giving_times(program, [schema.predicate.name for schema in inputs.values() if schema.times])
        return BoundProgram(program, inputs, infer(program, *types_in(inputs.values())), settings, "exact")

    @property
    def frames(self) -> InputFrames:
        """The frames of all inputs, by the names in `bind`."""
        assert self._combined is not None, "`bind` comes first"
        return self._combined.frames

    def _types(self, predicates: Collection[str], before: Manifest) -> Mapping[str, Columns]:
        """Return the types of the inputs of predicates, except those with a change feed."""
        chosen = [name for name in predicates if self.feed(name, before) is None]
        return types_in(self.reading(item).input for item in self._items if item.predicate in chosen)[0]

    # ---- records of inputs

    def note(self) -> None:
        """Record the counts of inputs after a job; executors write the rejected rows."""
        for item in self._items:
            if self._combined is not None and item.key in self._combined.readings:
                self._note(item, self._combined.counts(item.key))
        for own in self._program_inputs:
            self.inputs[own.key] = InputRecord(own.predicate, own.shown, own.marks)

    def _note(self, item: SparkBinding, counts: Mapping[str, Any]) -> None:
        reading, rejected, path = self._readings[item.key], counts["rejected"], None
        if rejected:
            folder = self._rejects(item)
            unwritten = [file for file in counts["files"] if file not in reading.written]
            if unwritten or not counts["files"]:  # tables and queries have no files
                rows = reading.rejects_of(unwritten, counts.get("marks", ()))
                with translated_errors():
                    rows.write.mode("append").option("header", True).csv(str(folder))
            path = self._store.relative(self._store.rejects(self._number) / folder.name)
        record = replace(
            self._input(item),
            columns=reading.columns,
            rows=counts["read"] - rejected,
            filtered=counts["filtered"],
            rejected=rejected,
            rejects=path,
        )
        self.inputs[item.key] = record
        filtered = f", {record.filtered:,} filtered out" if record.filtered else ""
        rejection = f", {rejected:,} rejected" if rejected else ""
        self._reached("read", f"{record.shown}: {counted(record.rows, 'row')}{filtered}{rejection}")
        if rejected and not record.rows:
            message = f"no row of `{record.shown}` could be read: {rejected:,} rejected"
            raise DataError(Diagnostic(codes.TOO_MANY_REJECTS, message, item.source.span))
        if rejected and item.on_error == "fail":
            message = f"{counted(rejected, 'row')} of `{record.shown}` cannot be read"
            help = f"see {self._store.path / str(path)}"
            raise DataError(Diagnostic(codes.TOO_MANY_REJECTS, message, item.source.span, help))

    def newest(self, key: str) -> int | None:
        """Return the time of the newest file of an input, in nanoseconds, if it is known."""
        item = next((item for item in self._items if item.key == key), None)
        if item is not None and item.table is not None:
            return item.table.written
        files = self._input(item).files if item is not None else {}
        return max((time for _, time, _ in files.values() if time >= 0), default=None)

    # ---- changes of facts

    def replace(
        self, reasoner: StoredReasoner, change: Change, before: Manifest, predicates: Sequence[str]
    ) -> None:
        """Replace the explicit facts of predicates, in a transaction, by what their inputs contain.

        All inputs are read by one job, whose tasks write files. Spark compares large ones with the published
        tables; others are compared in this process, which is cheaper than a shuffle.
        """
        reasoner.schemas.data.restore(self._types(predicates, before))
        compared = [name for name in predicates if not self._apply_feed(change, name, before)]
        items = [item for item in self._items if item.predicate in compared]
        with self._written(self._read(items, before, False)) as written:
            for name in compared:
                own_items = [item for item in items if item.predicate == name]
                own = [written[item.key] for item in own_items]
                table = self._program.predicates[name].written if name in self._program.predicates else name
                published_rows = before.tables[table].rows if table in before.tables else 0
                is_large = max(published_rows, sum(part.rows for part in own)) > MOST_ROWS
                if is_large and self._is_comparable(name, own_items, before):
                    self._apply_difference(change, name, own, before)
                else:
                    change.replace_batches(name, self._batches(name, own))
        self.note()

    @contextmanager
    def _written(self, combined: CombinedSources) -> Iterator[dict[str, _Facts]]:
        """Yield the facts of inputs, by their keys, in files that exist within the block."""
        facts: dict[str, _Facts] = {key: _Facts(reading) for key, reading in combined.readings.items()}
        shared = share_columns({name: schema.spark for name, schema in combined.inputs.items()})
        schemas = {
            name: pa.schema(
                [pa.field(name, arrow_of(of)) for name, of in zip(schema.columns, schema.spark, strict=True)]
            )
            for name, schema in combined.inputs.items()
        }
        with folder_below(self._store.incoming) as folder:
            folders = {name: str(folder / str(place)) for place, name in enumerate(schemas)}
            target = FileTarget("", token_hex(8), schemas, "", ROWS, None, folders)
            if schemas:
                session = self._session()
                ship(session, scratch_folder())
                rows = tagged_rows(session, combined.frames, combined.inputs, shared)
                task = Shipped(WriteRows(target, TAG, shared.of))
                with translated_errors():
                    for name, file, count in (
                        rows.where(F.col(TAG) != NONE).mapInArrow(task, FILES_SCHEMA).collect()
                    ):
                        own = facts[combined.source_of[name]]
                        own.files.append(f"{folders[name]}/{file}")
                        own.rows += count
            yield facts

    def _apply_feed(self, change: Change, name: str, before: Manifest) -> bool:
        """Apply the changes of the table of a predicate; return whether it has a change feed."""
        feed = self.feed(name, before)
        if feed is None:
            return False
        (item,) = (item for item in self._items if item.predicate == name)
        feed.apply(change, name, lambda rows: self._still(change, item, feed))
        self.inputs[item.key] = feed.input
        self._reached("read", feed.shown)
        return True

    def feed(self, name: str, before: Manifest) -> SourceChanges | None:
        """Return the changes of the only table of a predicate, None if rows must be compared."""
        if name not in self._feeds:
            items = [item for item in self._items if item.predicate == name]
            inputs = {item.key: item.table for item in items}
            inputs |= {item.key: None for item in self._program_inputs if item.predicate == name}
            of_table = next((item for item in items if item.table is not None), None)
            if of_table is None or name in self._again:
                self._feeds[name] = None
                return None
            for item in items:
                if item.table is not None:
                    self._check_drift(item, item.table.columns, before, False)
            predicate = self._program.predicates[name]
            self._feeds[name] = feed_of(
                name,
                inputs,
                lambda: SourceRowFilter.of(of_table.source.filter, predicate, of_table.source.span),
                self._program,
                before,
                of_table.marks,
                self._reached,
            )
        return self._feeds[name]

    @staticmethod
    def _check_drift(
        item: SparkBinding, columns: tuple[str, ...], before: Manifest | None, full: bool
    ) -> None:
        record = before.inputs.get(item.key) if before else None
        check_drift(item.source.shown, columns, record, full, item.source.span)

    def _still(self, change: Change, item: SparkBinding, feed: SourceChanges) -> Rows:
        """Return the facts of deleted rows that other rows of the table still have, found by Spark."""
        now = self._of(item)
        deleted = self._session().createDataFrame(feed.deleted_rows)
        then = read_source(self._session(), replace(item.source, frame=deleted), self._program)
        left, right = then.frame.alias("deleted"), now.frame.alias("current")
        names = [quoted(name) for name in then.input.columns]
        is_equal = [F.col(f"deleted.{name}").eqNullSafe(F.col(f"current.{name}")) for name in names]
        faults, rows = RejectedRows(OnError.FAIL), []
        still = left.join(right, is_equal, "left_semi").distinct()
        for table in fetch_by_files(still, self._store.incoming):
            for batch in then.input.reading().batches(table, item.source.shown, faults):
                rows.append(change.encode_batch(batch))
        return concatenate(rows) if rows else no_rows(then.input.predicate.arity)

    def _is_comparable(self, name: str, items: Sequence[SparkBinding], before: Manifest) -> bool:
        """Return whether the table of a predicate has exactly its sources' rows, in types of Spark."""
        written = self._program.predicates[name].written if name in self._program.predicates else name
        types = before.origin.types.get(written, ())
        return (
            bool(items)
            and written in before.tables
            and name not in self._program.derived
            and not before.origin.times.get(written)
            and bool(types)
            and ColumnType.TERM.value not in types
            and not any(item.predicate == name for item in self._program_inputs)
            and all(self.reading(item).input.fields is None for item in items)
        )

    def _apply_difference(self, change: Change, name: str, facts: Sequence[_Facts], before: Manifest) -> None:
        written = self._program.predicates[name].written
        session = self._session()
        then = published_frame(session, self._store.published, written, before.version)
        aside = aside_table(written, before.origin.names)
        if aside is not None:  # dropped rows were also explicit
            dropped = published_frame(session, self._store.published, aside, before.version)
            then = then.unionAll(dropped.select(*map(quoted, then.columns)))
        frames = []
        for part in facts:
            input_schema = part.reading.input
            fields = zip(input_schema.columns, input_schema.spark, strict=True)
            schema = spark_types.StructType([spark_types.StructField(*field) for field in fields])
            rows = session.read.schema(schema).parquet(*part.files) if part.files else then.limit(0)
            frames.append(rows.select(*_cast(rows.columns, then)))
        reading = replace(
            facts[0].reading.input, spark=tuple(field.dataType for field in then.schema)
        ).reading()
        faults = RejectedRows(OnError.FAIL)
        for table in fetch_by_files(differences(then, union(frames)), self._store.incoming):
            kinds = table.column(CHANGE_TYPE)
            rows = table.drop_columns([CHANGE_TYPE])
            for kind, take in ((DELETE, change.delete_rows), (INSERT, change.insert_rows)):
                selected = rows.filter(pc.equal(kinds, kind))
                for batch in reading.batches(selected, written, faults):
                    take(name, change.encode_batch(batch))

    def _batches(self, name: str, facts: Sequence[_Facts]) -> Iterator[Any]:
        """Yield all rows of a predicate's inputs, in batches."""
        faults = RejectedRows(OnError.FAIL)
        for item in self._program_inputs:
            if item.predicate == name and not item.time:
                yield from item.read(faults)
        for part in facts:
            reading = part.reading.input.reading()
            if not part.reading.input.columns and part.rows:
                yield Batch((), 1)
                continue
            for path in part.files:
                with pq.ParquetFile(path) as file:
                    for rows in file.iter_batches(READ):
                        table = pa.Table.from_batches([rows])
                        yield from reading.batches(table, part.reading.source.shown, faults)


@dataclass
class _Facts:
    """The facts of a source, in files. Mutable."""

    reading: SourceRows
    files: list[str] = field(default_factory=list)
    rows: int = 0


@dataclass(frozen=True)
class WrittenTables:
    """The tables that tasks have written: the files of each, below its folder, and the rows of each file."""

    derived: Derived
    files: Mapping[str, Mapping[str, int]]
    folders: Mapping[str, StorageFolder]
    schemas: Mapping[str, Any]

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows of each table."""
        return {name: sum(files.values()) for name, files in self.files.items()}

    def head(self, name: str) -> Any:
        """Return the rows of the first file of a table."""
        return read_file(self.folders[name], next(iter(self.files[name])), self.schemas[name])


def derive_on_spark(
    bound: BoundProgram,
    frames: InputFrames,
    choice: StrategyChoice,
    publication: Publication,
    published: Published,
    state: StateStore,
    session: SparkSession,
) -> WrittenTables:
    """Derive everything in tasks, which write tables; a task with all facts also writes the state."""
    tables = [predicate.name for predicate in tables_of(bound.program).values()]
    derived = bound.derive(frames, tables, "fail", "fail", choice)
    has_state = choice.tasks == 1 and len(derived.passed_through) < len(tables)
    if has_state and derived.passed_through:  # the state has all facts
        derived = bound.derive(frames, tables, "fail", "fail", choice, may_pass_through=False)
    written = _write_tables(
        derived, list(tables_of(bound.program)), publication, state if has_state else None
    )
    _replace_tables(written, publication, published, session)
    return written


def _write_tables(
    derived: Derived, names: Sequence[str], publication: Publication, state: StateStore | None
) -> WrittenTables:
    """Write the rows of tables, and the state if any, in tasks."""
    storage, filesystem = publication.folder.storage, publication.folder.filesystem
    folders = {name: StorageFolder(publication.folder_of(name), storage) for name in names}
    schemas = {name: normal(arrow_schema(derived, name)) for name in names}
    state_folder = None
    if state is not None:
        state_folder = StateFolder(str(state.path_for(publication.number).resolve()), APP, publication.number)
    paths = {name: folder.path() for name, folder in folders.items()}
    target = FileTarget("", publication.run, schemas, "", ROWS, state_folder, paths, filesystem)
    files: dict[str, dict[str, int]] = {name: {} for name in names}
    for name, file, rows in derived.write(target):
        if name == STATE:
            assert state is not None
            state.take(publication.number, file)
        elif rows:
            files[name][file] = rows
    for name in derived.passed_through:
        files[name] = write_files(derived[name], folders[name], schemas[name], publication.run)
    return WrittenTables(derived, files, folders, schemas)


def _replace_tables(
    written: WrittenTables, publication: Publication, published: Published, session: SparkSession
) -> None:
    """Replace the contents of tables by files, and write the changes since the last version."""
    base = publication.base.tables if publication.base else {}
    for name, files in written.files.items():
        old_table, schema = base.get(name), written.schemas[name]
        if old_table is None or not is_same(old_table.schema, schema):
            publication.replace(name, schema, files)
            continue
        now = read_files(session, written.folders[name], files, schema)
        then = published_frame(session, published, name, publication.base.number if publication.base else 0)
        folder = StorageFolder(publication.changes_folder_of(name), publication.folder.storage)
        rows, with_kinds = differences(then, now), columns_of_changes(schema)
        changes = write_files(rows, folder, with_kinds, publication.run, "cdc-")
        if changes:
            publication.replace(name, schema, files, changes)
    for name in base.keys() - written.files.keys():
        publication.drop(name)


def arrow_schema(derived: Derived, name: str) -> Any:
    """Return the Arrow schema of an output's table."""
    return to_arrow_schema(derived.outputs[name].schema, timezone="UTC")


def with_types_of(derived: Derived, origin: VersionOrigin) -> VersionOrigin:
    """Return the origin of a version, with the types of all tables."""
    types, times, calendar = {}, {}, False
    for name, output in derived.outputs.items():
        types[name] = tuple(
            (ColumnType.TERM if contents.is_exact else column_of(contents.types)).value
            for contents in output.types
        )
        if output.times:
            times[name] = len(output.times)
            calendar |= output.times[0][1].simpleString() == "timestamp"
    outputs = derived.outputs.items()
    names = {name: output.predicate.name for name, output in outputs if output.predicate.name != name}
    return replace(origin, types=types, times=times, names=names, is_calendar=calendar)


def published_frame(session: SparkSession, published: Published, name: str, version: int) -> DataFrame:
    """Return a published table as a frame, read from its files."""
    schema = published.version(version).tables[name].schema
    return read_files(session, published.folder, published.files(name, version), schema)


def read_files(session: SparkSession, folder: StorageFolder, files: Iterable[str], schema: Any) -> DataFrame:
    """Return the rows of files of a folder as a frame: Spark reads disks, our tasks object stores.

    Plain Spark has no file system for these.
    """
    paths, columns = [folder.relative(file) for file in files], from_arrow_schema(schema)
    if not paths:
        return session.createDataFrame([], columns)
    if folder.is_local:
        return session.read.schema(columns).parquet(*map(folder.location, paths))
    types = to_arrow_schema(columns, timezone="UTC")
    task = ReadFiles([folder.path(path) for path in paths], types, folder.filesystem)
    return session.range(0, len(paths), 1, len(paths)).mapInArrow(Shipped(task), columns)


def write_files(
    frame: DataFrame, folder: StorageFolder, schema: Any, run: str, prefix: str = ""
) -> dict[str, int]:
    """Write the rows of a frame into a folder, and return how many each file has; see `read_files`."""
    if folder.is_local:
        name = f"{prefix}part-{run}-rows"
        with translated_errors():
            frame.write.parquet(folder.location(name))
        counts = {
            file.name: pq.read_metadata(file).num_rows for file in (folder.local / name).glob("*.parquet")
        }
        return {f"{name}/{file}": rows for file, rows in sorted(counts.items()) if rows}
    places, filesystem = {ONLY: folder.path()}, folder.filesystem
    return write_rows(
        frame, FileTarget("", run, {ONLY: schema}, prefix, folders=places, filesystem=filesystem)
    )


def differences(previous: DataFrame, current: DataFrame) -> DataFrame:
    """Return the inserted and deleted rows, by one pass over both; missing values are equal."""
    names = [quoted(name) for name in previous.columns]
    rows = previous.select(*names, F.lit(1).alias("_then"), F.lit(0).alias("_now"))
    rows = rows.unionAll(current.select(*names, F.lit(0).alias("_then"), F.lit(1).alias("_now")))
    sides = rows.groupBy(*names).agg(F.max("_then").alias("_then"), F.max("_now").alias("_now"))
    kind = F.when(F.col("_now") == 1, F.lit(INSERT)).otherwise(F.lit(DELETE))
    return sides.where("_then != _now").select(*names, kind.alias(CHANGE_TYPE))


def _cast(columns: Sequence[str], table: DataFrame) -> list[Column]:
    """Return the columns of a source in the types of a published table."""
    pairs = zip(columns, table.schema, strict=True)
    return [F.col(quoted(name)).cast(field.dataType).alias(field.name) for name, field in pairs]


def with_object_stores(session: SparkSession, settings: Settings) -> SparkSession:
    """Return the session, set up to read sources in object stores; raise `DataError` if it cannot."""
    remote = [source for source in settings.sources if re.match("s3a?://", source.shown)]
    if not remote:
        return session
    folder = StorageFolder.at(remote[0].shown, settings.storage)
    for key, value in s3a_options(folder.storage).items():
        session.conf.set(key, value)
    try:
        session.read.format("text").load(re.sub("^s3:", "s3a:", folder.address)).schema  # noqa: B018
    except Exception as error:  # noqa: BLE001 - Py4J raises whatever a file system raises
        if "ClassNotFound" in str(error) or "No FileSystem" in str(error) or "S3AFileSystem" in str(error):
            message = "this session of Spark has no file system for `s3a://`"
            help = (
                "start it with Hadoop's, --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION "
                '(that of its Hadoop), or run the job on name = "columnar", which reads s3:// by itself'
            )
            raise DataError(Diagnostic(codes.NEEDS_SPARK, message, remote[0].span, help)) from None
    return session


def files_of(source: FactSource, folder: Path, session: Callable[[], SparkSession]) -> Sequence[FoundFile]:
    """Return the files of a source, without a session if they are on a disk of this machine."""
    listed = local_files(source, folder)
    return list_files(session(), source, folder)[0] if listed is None else listed


def fetched_input(
    source: Described, program: Program, session: Callable[[], SparkSession], folder: Path, incoming: Path
) -> SourceBinding:
    """Return a table, a query or a DataFrame as an input for a job that reasons in this process."""
    item = _item(source, program)
    readings: list[SourceRows] = []

    def reading() -> SourceRows:
        if not readings:
            readings.append(read_source(session(), item.source, program, folder))
        return readings[0]

    def read(faults: RejectedRows) -> Iterator[Batch]:
        shape = reading().input.reading()
        with translated_errors():
            for table in fetch_by_files(reading().frame, incoming):
                yield from shape.batches(table, source.shown, faults)
            for row in reading().rejects.toLocalIterator():
                faults.add(BadRow(Diagnostic(row.code, row.reason, place=row.place), row.row))
        faults.check()

    return SourceBinding(
        item.key,
        item.predicate,
        source.shown,
        mark_of(replace(item.source, span=None, frame=None)),
        read,
        lambda: reading().columns,
        on_error=source.on_error,
        volatile=True,
        time=source.times,
        span=source.span,
    )


def _item(source: Described, program: Program, settings: Settings | None = None) -> SparkBinding:
    predicate = program.find(source.predicate)
    name, key = source.predicate if predicate is None else predicate.name, key_of(source, program)
    spark_source = replace(source, path=tuple(re.sub("^s3:", "s3a:", path) for path in source.paths))
    if source.kind == "versioned" and settings is not None:
        table = VersionedSource(source, settings, program)
        table.request  # noqa: B018 - errors of the source are raised before Spark is started
        spark_source = replace(spark_source, storage=settings.storage)
        return SparkBinding(key, name, spark_source, source.on_error, False, table, marks_of(source))
    return SparkBinding(key, name, spark_source, source.on_error, source.kind != "file")


def _imported(transfer: Transfer, program: Program) -> SparkBinding:
    """Return a file that the program imports as a source."""
    predicate = program.predicates[transfer.predicate]
    file = import_file(transfer, predicate)
    source = source_of(file, predicate, transfer)
    if file.path is not None:
        source = replace(source, path=str(file.path.absolute()))
    return SparkBinding(f"{predicate.name} < {file.shown}", predicate.name, source, "fail", False)


def _is_same(record: InputRecord, before: InputRecord | None) -> bool:
    if before is None or (record.version, record.identity) != (before.version, before.identity):
        return False
    return (record.marks, dict(record.files)) == (before.marks, dict(before.files))


def _stamps(files: Sequence[FoundFile]) -> dict[str, tuple[int, int, str]]:
    """Return the stamps of files: their sizes and times."""
    stamps = {}
    for file in files:
        status = None if file.local is None or not file.is_open else file.local.stat()
        stamps[file.address] = (-1, -1, "") if status is None else (status.st_size, status.st_mtime_ns, "")
    return stamps
