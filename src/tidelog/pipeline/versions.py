"""Published versions as Python reads them, and sinks: copies of facts outside published folders."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import Relation
from tidelog.data.rows import Rows
from tidelog.durable import write_text
from tidelog.engine.columnar.engine import ColumnarEngine, make
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.io.data_file import EXTENSIONS, RDF
from tidelog.io.python_data import from_python
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.io.write import WriteOptions, file_table, write
from tidelog.logic.program import Predicate, Program
from tidelog.logic.types import Contents, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import NetChange
from tidelog.pipeline.contents import ChangedRows, TableLayout, ids_in, no_rows, times_in
from tidelog.pipeline.job_settings import CHANGES, Settings, Sink
from tidelog.pipeline.source_files import find_named
from tidelog.pipeline.version_folder import Manifest, Store
from tidelog.publish.published_schemas import CHANGE_TYPE, NUMBER
from tidelog.publish.table_files import DELETE, INSERT
from tidelog.reasoner.delta import ADDED as PLUS
from tidelog.reasoner.delta import REMOVED as MINUS
from tidelog.reasoner.delta import Delta, PredicateDelta, find_predicate
from tidelog.rewrite.dropped_rows import public_name
from tidelog.temporal.timed_relation import INTERVAL, PeriodicRelation, TimedRelation

PIECE: Final = 1 << 15  # rows of a piece


class Version:
    """A published version: a mapping from predicates to their facts."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store = store
        self.manifest = manifest
        self._engine = make(1)

    @property
    def number(self) -> int:
        """Its number."""
        return self.manifest.version

    @cached_property
    def predicates(self) -> dict[str, Predicate]:
        """Its predicates, by their full names; `written` is the name of the table."""
        return predicates_of(self.manifest)

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest.tables)

    def __getitem__(self, name: str) -> Relation:
        """Return all facts of a predicate."""
        table = self._table(name)
        rows = encoded(table, self.to_arrow(table), self.manifest, self._engine)
        return relation_of(table, rows, self.manifest, self._engine.storage.dictionary)

    def pieces(self, name: str) -> Iterator[Relation]:
        """Yield all facts of a predicate in pieces, so that they need not fit in memory."""
        table = self._table(name)
        for rows in self.store.published.pieces(table, PIECE, self.manifest.published):
            engine = make(1)
            ids = encoded(table, rows.cast(self.manifest.tables[table].schema), self.manifest, engine)
            yield relation_of(table, ids, self.manifest, engine.storage.dictionary)

    def to_arrow(self, name: str) -> Any:
        """Return all facts of a predicate as an Arrow table."""
        return self.store.read(self._table(name), self.manifest.published)

    def files(self, name: str) -> list[str]:
        """Return the Parquet files that hold the facts of a predicate."""
        return list(self.store.published.files(self._table(name), self.manifest.published))

    def _table(self, name: str) -> str:
        return find_predicate(name, self.predicates).written

    def _earlier(self) -> Manifest | None:
        """Return the parent of this version."""
        before = self.manifest.parent
        if before is not None and before not in self.store.numbers():
            message = f"version {before} is no longer published, so later changes are unknown"
            raise DataError(Diagnostic(codes.JOB_NO_VERSION, message, place=self.store.shown))
        return None if before is None else self.store.manifest(before)

    def changed_pieces(self, name: str) -> Iterator[tuple[str, Relation]] | None:
        """Return the changes in pieces: whether they were inserted or deleted, and the rows.

        None without a change feed: then the rows of the two versions must be compared.
        """
        table, earlier = find_predicate(name, self.predicates).written, self._earlier()
        after = earlier.version if earlier else 0
        if after != self.number - 1:  # the feed also has the changes of versions in between
            return None
        if earlier and table in earlier.tables and not _is_alike(self.store, table, earlier, self.manifest):
            return None
        pieces = self.store.published.change_pieces(table, PIECE, after, self.number)
        return self._by_kind(table, pieces)

    def _by_kind(self, table: str, pieces: Iterator[Any]) -> Iterator[tuple[str, Relation]]:
        for piece in pieces:
            engine = make(1)
            for kind, rows in zip((INSERT, DELETE), by_kind(piece), strict=True):
                if rows.num_rows:
                    ids = encoded(table, rows, self.manifest, engine)
                    yield kind, relation_of(table, ids, self.manifest, engine.storage.dictionary)

    def changes(self, name: str) -> PredicateDelta:
        """Return the changes of a predicate in this version, which may have dropped it."""
        earlier = self._earlier()
        predicates = {**(predicates_of(earlier) if earlier else {}), **self.predicates}
        table = find_predicate(name, predicates).written
        changed, of = _changed(self.store, table, earlier, self.manifest, self._engine)
        dictionary = self._engine.storage.dictionary
        relations = (relation_of(table, rows, of, dictionary) for rows in (changed.added, changed.removed))
        return PredicateDelta(table, *relations)


def predicates_of(manifest: Manifest) -> dict[str, Predicate]:
    """Return the predicates of a version, by their full names."""
    predicates = (predicate_of(table, manifest) for table in manifest.tables)
    return {predicate.name: predicate for predicate in predicates}


def predicate_of(table: str, manifest: Manifest) -> Predicate:
    """Return the predicate of a table."""
    schema, types = manifest.tables[table].schema, manifest.origin.types[table]
    column_types = tuple(map(ColumnType, types))
    name = public_name(manifest.origin.names.get(table, table))
    return Predicate(name, len(column_types), tuple(schema.names[: len(column_types)]), column_types, table)


def relation_of(name: str, rows: Rows, manifest: Manifest, dictionary: Dictionary) -> Relation:
    """Return rows of a version's table as a relation."""
    predicate, origin = predicate_of(name, manifest), manifest.origin
    schema = tuple(Contents(types_of_column(of)) for of in predicate.types)
    names = tuple(column or "" for column in predicate.columns)
    if not origin.times.get(name):
        return Relation(name, names, rows.columns, rows.count, dictionary, lambda: schema)
    table_names = manifest.tables[name].schema.names
    layout = TableLayout(tuple(table_names), origin.times[name], origin.is_calendar)
    times, every = times_in(rows, layout, dictionary, origin.is_integer_time)
    columns = rows.columns[: layout.arguments]
    ends = times.left, times.right
    parts = name, names, columns, *ends, dictionary, times.timeline, INTERVAL, lambda: schema
    if every is None or not every.any():
        return TimedRelation(*parts)
    return PeriodicRelation(*parts, every=every)


def encoded(name: str, table: Any, manifest: Manifest, engine: ColumnarEngine) -> Rows:
    """Return rows of a version's table as ids."""
    predicate = predicate_of(name, manifest)
    if not predicate.arity and not manifest.origin.times.get(name):
        return Rows((), table.num_rows)
    arguments = table.select(range(predicate.arity))
    columns = encoded_columns(arguments, predicate.types, predicate.columns, engine)
    for column in table.columns[predicate.arity :]:
        columns.append(ids_in(column, _TIMES[str(column.type)], engine.storage.dictionary))
    return Rows(tuple(columns), table.num_rows)


def encoded_columns(
    table: Any, types: tuple[ColumnType, ...], names: tuple[str | None, ...], engine: ColumnarEngine
) -> list[Any]:
    """Return the columns of a table as ids."""
    parts: list[list[Any]] = [[] for _ in types]
    for batch in from_python(table, types, names, RejectedRows(OnError.FAIL)):
        for place, column in enumerate(batch.columns):
            parts[place].append(engine.storage.dictionary.encode_column(column))
    return [np.concatenate(arrays) if arrays else np.zeros(0, np.int32) for arrays in parts]


_TIMES = {
    "int64": ColumnType.INTEGER,
    "bool": ColumnType.BOOLEAN,
    "string": ColumnType.STRING,
    "timestamp[us, tz=UTC]": ColumnType.DATETIME,
}


def read(
    path: Path | str, version: int | str | None = None, storage: Mapping[str, str] | None = None
) -> Version:
    """Return a version of a published folder, by default the current one.

    `failed` is the version of the last run that failed a guard or an expectation. The path may be an address,
    `s3://bucket/folder`; `storage` has the settings of `[storage]` in job files.
    """
    store = Store(path, storage=storage)
    return Version(store, store.find(version))


class VersionDelta(Delta):
    """The difference of two versions."""

    def __init__(
        self,
        changes: Mapping[str, tuple[ChangedRows, Manifest]],
        predicates: Mapping[str, Predicate],
        engine: ColumnarEngine,
        number: int,
    ) -> None:
        net = NetChange(
            {name: changed.added for name, (changed, _) in changes.items() if changed.added.count},
            {name: changed.removed for name, (changed, _) in changes.items() if changed.removed.count},
        )
        self._manifests = {name: manifest for name, (_, manifest) in changes.items()}
        super().__init__(net, predicates, engine.storage.dictionary, number)

    def _relation(self, predicate: Predicate, change: Mapping[str, Rows]) -> Relation:
        rows, manifest = change.get(predicate.name), self._manifests[predicate.name]
        if rows is None:
            rows = no_rows(_width(predicate.written, manifest))
        return relation_of(predicate.written, rows, manifest, self._dictionary)


def difference(store: Store, first: int | str, second: int | str) -> Delta:
    """Return the changes from the first to the second version, in any order; each may be `failed`."""
    from_version, to_version = store.find(first), store.find(second)
    low, high = sorted((from_version, to_version), key=lambda manifest: manifest.version)
    engine = make(1)
    predicates = {**predicates_of(low), **predicates_of(high)}
    changes = {}
    for name, predicate in predicates.items():
        changed, of = _changed(store, predicate.written, low, high, engine)
        changes[name] = (changed if low is from_version else changed.inverse, of)
    return VersionDelta(changes, predicates, engine, to_version.version)


def _changed(
    store: Store, table: str, low: Manifest | None, high: Manifest, engine: ColumnarEngine
) -> tuple[ChangedRows, Manifest]:
    """Return the changes of a table after a version, or all rows without one, and the version of its columns.

    They are read from the change feed of the table, or computed by comparing all rows.
    """
    old_table, new_table = low.tables.get(table) if low else None, high.tables.get(table)
    of = high if new_table is not None or low is None else low
    no_changes = no_rows(_width(table, of))
    if old_table is not None and new_table is not None and old_table.changed_in == new_table.changed_in:
        return ChangedRows(no_changes, no_changes), of
    if low is None or old_table is None:
        return ChangedRows(no_changes, _rows(store, table, high, engine)), of
    if new_table is None:
        return ChangedRows(_rows(store, table, low, engine), no_changes), of
    if table not in high.published.uncommitted and _is_alike(store, table, low, high):
        feed = store.changes(table, low.version, high.version)
        changed = ChangedRows(no_changes, no_changes)
        for number in sorted(set(feed.column(NUMBER).to_pylist())):
            inserted, deleted = by_kind(feed.filter(pc.equal(feed.column(NUMBER), number)))
            changed = changed.then(
                ChangedRows(*(encoded(table, rows, of, engine) for rows in (deleted, inserted)))
            )
        return changed, of
    before, after = (_rows(store, table, each, engine) for each in (low, high))
    if len(before.columns) != len(after.columns):  # another predicate of the same name
        return ChangedRows(no_changes, after), of
    return ChangedRows.between(before, after), of


def _is_alike(store: Store, table: str, low: Manifest, high: Manifest) -> bool:
    """Return whether a table has the same columns, with the same types, in all versions of a range.

    Text may be a string, an IRI or an exact term: this is not in the schema of the table.
    """
    numbers = [each for each in store.numbers() if low.version <= each < high.version]
    if len(numbers) != high.version - low.version:
        return False
    reading = _reading(table, high)
    return all(_reading(table, store.manifest(number)) == reading for number in numbers)


def _reading(table: str, manifest: Manifest) -> object:
    origin = manifest.origin
    published = manifest.tables.get(table)
    times = origin.times.get(table, 0)
    clock = (origin.is_integer_time, origin.is_calendar) if times else None
    return None if published is None else (published.schema, origin.types[table], times, clock)


def _width(table: str, manifest: Manifest) -> int:
    """Return how many columns the rows of a table have as ids."""
    return len(manifest.origin.types[table]) + manifest.origin.times.get(table, 0)


def _rows(store: Store, table: str, manifest: Manifest, engine: ColumnarEngine) -> Rows:
    return encoded(table, store.read(table, manifest.published), manifest, engine)


def by_kind(changed: Any) -> tuple[Any, Any]:
    """Return the rows of a change feed that were inserted, and those that were deleted."""
    kinds = changed.column(CHANGE_TYPE)
    columns = changed.drop_columns([CHANGE_TYPE, NUMBER])
    return columns.filter(pc.equal(kinds, INSERT)), columns.filter(pc.equal(kinds, DELETE))


# ---- Sinks that only Spark has: tables, and databases through JDBC.


def write_tables(session: Any, sink: Sink, tables: Iterator[pa.Table], mode: str) -> None:
    """Write the rows of tables, at least one, to a sink; overwrite or append."""
    with tempfile.TemporaryDirectory(prefix="tidelog-") as folder:
        path = Path(folder) / "rows.parquet"  # six times as fast as handing the rows over
        first = next(tables)
        with pq.ParquetWriter(path, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        write_frame(session.read.parquet(str(path)), sink, mode)


def write_frame(frame: Any, sink: Sink, mode: str) -> None:
    """Write the rows of a DataFrame to a sink."""
    try:
        _write(frame, sink, mode)
    except Exception as error:  # noqa: BLE001 - Py4J raises what the driver raises
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        message = f"`{sink.shown}` cannot be written: {reason}"
        raise DataError(Diagnostic(codes.BAD_SINK, message, sink.span)) from None


def _write(frame: Any, sink: Sink, mode: str) -> None:
    if sink.kind == "table":
        frame.write.mode(mode).options(**dict(sink.options)).saveAsTable(sink.table)
        return
    writer = frame.write.format("jdbc").mode(mode).option("url", sink.url).option("dbtable", sink.table)
    writer = writer.options(**dict(sink.options))
    if sink.driver:
        writer = writer.option("driver", sink.driver)
    if mode == "overwrite":
        writer = writer.option("truncate", "true")  # the table keeps its columns and rights
    writer.save()


# ---- Sinks: facts of a version, or its changes, for readers that know no published folders.
#
# Sinks are written after the version has become the current one. A file has the number of the last version
# whose sinks are written, so that the next run completes an interrupted one. Facts replace the content of the
# sink; the changes of each version are a file, or rows, of their own, so that none is written twice.

WRITTEN = ".sinks"  # the version whose sinks are written
_SIGNS = {INSERT: PLUS, DELETE: MINUS}
MOST_SORTED = 250_000  # rows of a file; larger ones are in the order of their table, never whole in memory


def check_sinks(settings: Settings, program: Program) -> None:
    """Raise `DataError` with all errors in sinks."""
    inputs = {settings.resolve(path).resolve() for source in settings.sources for path in source.paths}
    faults: list[Diagnostic] = []
    for sink in settings.sinks:
        try:
            predicate = find_named(sink.predicate, program, sink.span)
        except DataError as error:
            faults += error.diagnostics
            continue
        if sink.format in RDF and predicate.arity not in (3, 4):
            message = (
                f"statements of RDF have 3 columns, or 4, and `{predicate.written}` has {predicate.arity}"
            )
            faults.append(Diagnostic(codes.BAD_SINK, message, sink.span, "choose csv, jsonl or parquet"))
        if sink.format in RDF and predicate.name in program.timed:
            message = f"statements of RDF have no times, and `{predicate.written}` is temporal"
            faults.append(Diagnostic(codes.BAD_SINK, message, sink.span, "choose csv, jsonl or parquet"))
        if sink.path and settings.resolve(sink.path).resolve() in inputs:
            message = f"`{sink.path}` is a source of the job as well"
            faults.append(Diagnostic(codes.BAD_SINK, message, sink.span))
    if faults:
        raise DataError(faults)


class Sinks:
    """The sinks of a job."""

    def __init__(self, settings: Settings, store: Store, session: Callable[[], Any] | None = None) -> None:
        self._settings = settings
        self._store = store
        self._session = session

    @property
    def written(self) -> int:
        """The last version whose sinks are written; the current one if there are no sinks."""
        if not self._settings.sinks:
            return self._store.number or 0
        try:
            return int((self._store.path / WRITTEN).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return 0

    def unwritten(self) -> Manifest | None:
        """Return the current version if an interrupted run has not written it to the sinks."""
        current = self._store.current()
        return current if current is not None and self.written < current.version else None

    def write(self, manifest: Manifest) -> None:
        """Write a version to the sinks."""
        version = Version(self._store, manifest)
        for sink in self._settings.sinks:
            if sink.what == CHANGES:
                self._write_changes(sink, version)
            else:
                self._write_facts(sink, version)
        write_text(self._store.path / WRITTEN, f"{manifest.version}\n")

    def _write_facts(self, sink: Sink, version: Version) -> None:
        """Write all facts of a predicate to a sink."""
        predicate = find_predicate(sink.predicate, version.predicates)
        if sink.kind != "file" and sink.terms != "exact":
            assert self._session is not None
            write_frame(self._session().read.parquet(*version.files(predicate.written)), sink, "overwrite")
            return
        if version.manifest.tables[predicate.written].rows > MOST_SORTED:
            parts = version.pieces(predicate.written)
        else:
            parts = iter([version[predicate.written].sorted()])
        tables = (_table(sink, part, _types(predicate)) for part in parts)
        if sink.kind == "file":
            assert sink.path is not None
            self._write_file(self._settings.resolve(sink.path), sink, tables)
        else:
            self._write_on_spark(sink, tables, "overwrite")

    def _write_changes(self, sink: Sink, version: Version) -> None:
        """Write the changes of a version: columns `version` and `change`, then those of the predicate."""
        tables = self._changed(sink, version)
        if sink.kind != "file":
            self._write_on_spark(sink, tables, "append")
            return
        assert sink.path is not None and sink.format is not None
        extension = EXTENSIONS[sink.format][0]
        path = self._settings.resolve(sink.path) / f"{version.number}{extension}"
        self._write_file(path, sink, tables)

    def _changed(self, sink: Sink, version: Version) -> Iterator[pa.Table]:
        """Yield the changes of a version, sorted unless they are many."""
        predicate = find_predicate(sink.predicate, version.predicates)
        types, published = _types(predicate), version.manifest.tables[predicate.written]
        if published.inserted + published.deleted > MOST_SORTED:
            pieces = version.changed_pieces(sink.predicate)
            if pieces is not None:
                for kind, rows in pieces:
                    yield _labelled(_table(sink, rows, types), version.number, _SIGNS[kind])
                return
        change = version.changes(sink.predicate)
        if not change.removed and not change.added:
            yield _labelled(_table(sink, change.added, types), 0, PLUS)
        for sign, rows in ((MINUS, change.removed), (PLUS, change.added)):
            if rows:
                yield _labelled(_table(sink, rows.sorted(), types), version.number, sign)

    def _write_file(self, path: Path, sink: Sink, tables: Iterator[pa.Table]) -> None:
        assert sink.format is not None
        first = next(tables)
        write(path, sink.format, first.column_names, chain([first], tables), WriteOptions(header=sink.header))

    def _write_on_spark(self, sink: Sink, tables: Iterator[pa.Table], mode: str) -> None:

        assert self._session is not None
        write_tables(self._session(), sink, tables, mode)


def _table(sink: Sink, relation: Relation, types: Sequence[ColumnType]) -> pa.Table:
    """Return the rows of a relation in the form of a sink; tables and databases have text by default."""
    if sink.kind == "file":
        assert sink.format is not None
        return file_table(relation, sink.format, sink.terms, types)
    return relation.to_texts("exact").table if sink.terms == "exact" else relation.to_arrow()


def _types(predicate: Predicate) -> tuple[ColumnType, ...]:
    """Return the types of written columns; exact terms have `any`."""
    return tuple(ColumnType.ANY if of is ColumnType.TERM else of for of in predicate.types)


def _labelled(table: pa.Table, version: int, sign: str) -> pa.Table:
    """Return the table with first columns for the version and the sign of its rows."""
    for label, value in (("change", sign), ("version", version)):
        name = label
        while name in table.column_names:
            name += "_"
        table = table.add_column(0, name, pa.repeat(pa.scalar(value), table.num_rows))
    return table
