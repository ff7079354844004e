"""Foreign tables: Delta and Iceberg tables of other writers as sources, with their changes as Arrow.

A table with an unsupported feature that affects its contents is rejected, with the name of the feature
(E912), so that results are never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidelog.errors import DataError, Diagnostic, codes
from tidelog.publish import delta_lake, iceberg
from tidelog.publish import table_files as files
from tidelog.publish.object_storage import StorageFolder, delta_options, iceberg_options
from tidelog.publish.published_schemas import CHANGE_TYPE, columns_of_feeds
from tidelog.publish.table_files import DELETE, INSERT
from tidelog.records import dataclass

FORMATS: Final = ("delta", "iceberg")
_APPLIED: Final = frozenset({"timestampNtz"})  # features of Delta tables that readers here apply
_KINDS: Final = {INSERT: INSERT, DELETE: DELETE, "update_preimage": DELETE, "update_postimage": INSERT}
_CONNECTOR: Final = "read it with a connector of Spark, or have it written without"
_ADDED, _DELETED = 1, 2  # states of entries in Iceberg's manifests


@dataclass(frozen=True)
class SourceFile:
    """A Parquet file of a foreign table; values of partition columns may be missing in the file."""

    location: str
    rows: int | None
    partition: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceTable:
    """A version of a foreign table: `version` is that of a Delta log, or the id of an Iceberg snapshot."""

    format: str
    version: int
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    files: tuple[SourceFile, ...]
    _table: Any = field(repr=False, compare=False)
    _renamed: tuple[str, ...] = ()  # columns that files may have under other names
    _folder: StorageFolder | None = field(default=None, repr=False, compare=False)  # of a Delta table

    def _dataset(self) -> Any:
        """Return a Delta table as a dataset over Arrow's own file system.

        With that of deltalake, one process in twenty was aborted at its exit (deltalake 1.6, pyarrow 26).
        """
        assert self._folder is not None
        below = pafs.SubTreeFileSystem(self._folder.path(), self._folder.filesystem)
        return self._table.to_pyarrow_dataset(filesystem=below)

    def batches(
        self, columns: Sequence[str], among: Mapping[str, pa.Array] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches; with `among`, at least those whose columns have these values."""
        names, among = list(columns), among or {}
        if self.format == "delta":
            condition = None
            for name, values in among.items():
                is_among = pads.field(name).isin(values)
                condition = is_among if condition is None else condition & is_among
            yield from self._dataset().to_batches(columns=names, filter=condition)
            return
        expressions = iceberg.package("expressions")
        condition = expressions.AlwaysTrue()
        for name, values in among.items():
            condition = expressions.And(condition, expressions.In(name, values.to_pylist()))
        scan = self._table.scan(condition, tuple(names), snapshot_id=self.version or None)
        for batch in scan.to_arrow_batch_reader():
            yield batch.select(names)

    def plain_files(self) -> tuple[SourceFile, ...]:
        """Return the files, if a reader of plain Parquet finds all columns by their names."""
        if self._renamed:
            names = ", ".join(f"`{name}`" for name in self._renamed)
            message = f"columns of the Iceberg table have had other names, which files still have: {names}"
            raise DataError(Diagnostic(codes.FEATURE, message, help=_CONNECTOR))
        for file in self.files:
            if file.location.rpartition("/")[2].startswith(("_", ".")):
                message = f"`{file.location}` has the name of a hidden file, which readers skip"
                raise DataError(Diagnostic(codes.FEATURE, message, help=_CONNECTOR, place=file.location))
        return self.files

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows."""
        names = list(columns) if columns is not None else self.schema.names
        if self.format == "delta":
            table = self._dataset().to_table(columns=names)
        else:
            snapshot = self.version or None
            table = self._table.scan(selected_fields=tuple(names), snapshot_id=snapshot).to_arrow()
        return table.select(names)


@dataclass(frozen=True)
class ForeignTable:
    """A foreign table in its current or another version, without its rows.

    `identity` differs if the table was created again at the same place.
    """

    format: str
    path: str
    version: int
    identity: str
    schema: pa.Schema
    storage: Mapping[str, str] = field(repr=False, default_factory=dict)
    _table: Any = field(repr=False, compare=False, default=None)

    @cached_property
    def written(self) -> int | None:
        """The time at which the version was committed, in milliseconds; None if unknown."""
        if self.format == "delta":
            commits = self._table.history(1)
            timestamp: int | None = commits[0].get("timestamp") if commits else None
            return timestamp
        snapshot = self._table.snapshot_by_id(self.version) if self.version else None
        return None if snapshot is None else int(snapshot.timestamp_ms)

    @cached_property
    def table(self) -> SourceTable:
        """Return the version with its files; raise if it is not supported."""
        read = delta_table if self.format == "delta" else iceberg_table
        return read(self.path, self.version, self.storage)

    def changes(self, after: int) -> pa.Table:
        """Return the changed rows after a version; raise `DataError` if they are unknown."""
        if self.format == "delta":
            return delta_changes(self.path, after, self.version, self.storage)
        return iceberg_changes(self.path, after, self.storage, self.version)[0]


def foreign_table(
    format: str, path: str | Path, version: int | None = None, storage: Mapping[str, str] | None = None
) -> ForeignTable:
    """Return a Delta or Iceberg table, in its last version or an earlier one."""
    storage = dict(storage or {})
    if format == "delta":
        folder = StorageFolder.at(path, storage)
        table = _opened(folder, version)
        schema = pa.schema(table.schema().to_arrow())
        identity = str(table.metadata().id)
        return ForeignTable(format, str(path), table.version(), identity, schema, storage, table)
    folder, table = _iceberg(path, storage)
    current = _snapshot(folder, table, version)
    convert = iceberg.package("io.pyarrow").schema_to_pyarrow
    schema = convert(_schema_of(table, current), include_field_ids=False)
    number = current.snapshot_id if current else 0
    identity = str(table.metadata.table_uuid)
    return ForeignTable(format, str(path), number, identity, schema, storage, table)


# ---- Delta


def delta_table(
    path: str | Path, version: int | None = None, storage: Mapping[str, str] | None = None
) -> SourceTable:
    """Return a version of a Delta table, by default the last one."""
    folder, table = _delta(path, version, storage)
    actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    files = tuple(
        SourceFile(_located(folder, action["path"]), action["num_records"], action.get("partition") or {})
        for action in actions
    )
    schema = pa.schema(table.schema().to_arrow())
    partitions = tuple(table.metadata().partition_columns)
    return SourceTable("delta", table.version(), schema, partitions, files, table, _folder=folder)


def delta_changes(
    path: str | Path,
    after: int,
    upto: int | None = None,
    storage: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return the rows that a Delta table's change feed has after a version, up to another one.

    Additional columns are `_change_type` (`insert` or `delete`; an update is both) and `_version`.
    """
    folder, table = _delta(path, upto, storage)
    schema = pa.schema(table.schema().to_arrow())
    target = columns_of_feeds(schema)
    if after > table.version():
        message = f"`{folder.address}` has no version {after}: the last one is {table.version()}"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="the table was replaced: read it in full"))
    if after == table.version():
        return target.empty_table()
    try:
        try:
            first = _opened(folder, after + 1)
        except DataError as error:
            message = f"`{folder.address}` no longer has version {after + 1}, and so not what changed in it"
            help_line = "read the table in full"
            raise DataError(Diagnostic(codes.NO_CHANGES, message, help=help_line)) from error
        for version_read in (first, table):
            if version_read.metadata().configuration.get("delta.enableChangeDataFeed") != "true":
                message = f"`{folder.address}` has no change feed in version {version_read.version()}"
                help_line = "set its property delta.enableChangeDataFeed to true, or read it in full"
                raise DataError(Diagnostic(codes.NO_CHANGES, message, help=help_line))
        reader = table.load_cdf(starting_version=after + 1, ending_version=table.version())
        rows = pa.table(reader.read_all())
    except DataError:
        raise
    except Exception as error:  # the package raises anything if files are gone
        message = f"the changes of `{folder.address}` after version {after} cannot be read: {_first(error)}"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="read the table in full")) from error
    kinds = pa.array([_KINDS[kind] for kind in rows.column(CHANGE_TYPE).to_pylist()], pa.string())
    if missing := [name for name in schema.names if name not in rows.column_names]:
        message = f"the changes of `{folder.address}` lack the column `{missing[0]}`, which is new"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="read the table in full"))
    columns = [rows.column(field.name).cast(field.type) for field in schema]
    number = rows.column("_commit_version").cast(pa.int64())
    return pa.Table.from_arrays([*columns, kinds, number], schema=target)


def _delta(
    path: str | Path, version: int | None, storage: Mapping[str, str] | None
) -> tuple[StorageFolder, Any]:
    folder = StorageFolder.at(path, storage)
    table = _opened(folder, version)
    protocol = table.protocol()
    features = set(protocol.reader_features or ())
    configuration = table.metadata().configuration
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    refused = sorted(features - _APPLIED)
    if refused:
        raise _refused(folder, "the Delta table", refused)
    return folder, table


def _opened(folder: StorageFolder, version: int | None) -> Any:
    package = delta_lake.package()
    options = None if folder.is_local else delta_options(folder.storage)
    if folder.is_local and not (folder.local / delta_lake.LOG).is_dir():
        message = f"`{folder.address}` is not a Delta table"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address))
    try:
        return package.DeltaTable(folder.address, version, storage_options=options)
    except (package.exceptions.DeltaError, OSError) as error:
        message = f"the Delta table `{folder.address}` cannot be read: {error}"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address)) from error


def _located(folder: StorageFolder, path: str) -> str:
    text = unquote(path)
    return text if "://" in text or text.startswith("/") else folder.location(text)


def _refused(folder: StorageFolder, subject: str, features: Sequence[str]) -> DataError:
    names = ", ".join(f"`{name}`" for name in features)
    message = f"{subject} `{folder.address}` has {names}, which is not supported here"
    return DataError(Diagnostic(codes.FEATURE, message, help=_CONNECTOR, place=folder.address))


def _first(error: Exception) -> str:
    """Return the first line of an error of a package."""
    return next(iter(str(error).splitlines()), type(error).__name__)


# ---- Iceberg


def iceberg_table(
    path: str | Path, snapshot: int | None = None, storage: Mapping[str, str] | None = None
) -> SourceTable:
    """Return a snapshot of an Iceberg table, by default the current one.

    `path` is the table's folder or one of its files of metadata.
    """
    folder, table = _iceberg(path, storage)
    current = _snapshot(folder, table, snapshot)
    convert = iceberg.package("io.pyarrow").schema_to_pyarrow
    own = _schema_of(table, current)
    schema = convert(own, include_field_ids=False)
    spec = table.specs()
    entries = tuple(_entries(folder, table, current)) if current else ()
    data = tuple(
        SourceFile(entry.data_file.file_path, entry.data_file.record_count, _constants(entry, spec, own))
        for entry in entries
    )
    partitions = tuple(own.find_column_name(each.source_id) or each.name for each in table.spec().fields)
    number = current.snapshot_id if current else 0
    return SourceTable("iceberg", number, schema, partitions, data, table, _renamed(table, own))


def _snapshot(folder: StorageFolder, table: Any, snapshot: int | None) -> Any:
    """Return a snapshot, by default the current one, None if there is none yet."""
    chosen = table.snapshot_by_id(snapshot) if snapshot else table.current_snapshot()
    if snapshot and chosen is None:
        message = f"`{folder.address}` has no snapshot {snapshot}"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address))
    return chosen


def _schema_of(table: Any, snapshot: Any) -> Any:
    """Return the columns of scans of a snapshot."""
    schemas = table.schemas()
    is_old = snapshot is not None and snapshot != table.current_snapshot()
    return schemas.get(snapshot.schema_id, table.schema()) if is_old else table.schema()


def _renamed(table: Any, schema: Any) -> tuple[str, ...]:
    """Return the columns that were renamed, or whose name another column has had."""
    now = {column.field_id: column.name for column in schema.fields}
    ids = {name: number for number, name in now.items()}
    renamed: dict[str, None] = {}
    for column in (own for schema_before in table.metadata.schemas for own in schema_before.fields):
        if now.get(column.field_id, column.name) != column.name:
            renamed[now[column.field_id]] = None
        elif ids.get(column.name, column.field_id) != column.field_id:
            renamed[column.name] = None
    return tuple(renamed)


def _constants(entry: Any, specs: Mapping[int, Any], schema: Any) -> Mapping[str, Any]:
    """Return the values of columns that all rows of a file share, by which the table is partitioned."""
    spec = specs[entry.data_file.spec_id]
    constants = {}
    for position, column in enumerate(spec.fields):
        name = schema.find_column_name(column.source_id)
        if str(column.transform) == "identity" and name is not None:
            constants[name] = entry.data_file.partition[position]
    return constants


def iceberg_changes(
    path: str | Path, after: int, storage: Mapping[str, str] | None = None, upto: int | None = None
) -> tuple[pa.Table, int]:
    """Return the rows that an Iceberg table has inserted and deleted after a snapshot, and the last snapshot.

    `upto` is the snapshot to stop at, by default the current one.

    Iceberg has no change feed: rows of files that were added and removed are compared, per snapshot. Rows
    that were only rewritten are not among the changes. `_version` is the id of the snapshot.
    """
    folder, table = _iceberg(path, storage)
    convert = iceberg.package("io.pyarrow").schema_to_pyarrow
    schema = convert(table.schema(), include_field_ids=False)
    target = columns_of_feeds(schema)
    snapshots = []
    snapshot = _snapshot(folder, table, upto)
    last = snapshot.snapshot_id if snapshot else 0
    while snapshot is not None and snapshot.snapshot_id != after:
        snapshots.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent else None
    if snapshot is None and after:
        message = f"snapshot {after} is not among those before the current one of `{folder.address}`"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="read the table in full"))
    if len({_shape(each) for each in table.metadata.schemas}) > 1:
        message = f"the columns of `{folder.address}` have changed, and its files with them"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="read the table in full"))
    parts = [target.empty_table()]
    for snapshot in reversed(snapshots):
        if snapshot.summary is None or snapshot.summary.operation.value == "replace":
            continue  # the same rows in other files
        added, removed = _rows_of_snapshot(folder, table, snapshot, schema)
        is_gone, is_new = _net(removed, added)
        for rows, mask, kind in ((removed, is_gone, DELETE), (added, is_new, INSERT)):
            changed = rows.filter(pa.array(mask))
            number = pa.repeat(pa.scalar(snapshot.snapshot_id, pa.int64()), changed.num_rows)
            kinds = pa.repeat(kind, changed.num_rows)
            parts.append(pa.Table.from_arrays([*changed.columns, kinds, number], schema=target))
    return pa.concat_tables(parts), last


def _net(removed: pa.Table, added: pa.Table) -> tuple[Any, Any]:
    """Return masks of the deleted and of the inserted rows, with multiplicity."""
    keys = files.keys(pa.concat_tables([removed, added]))
    _, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    before = np.bincount(places[: removed.num_rows], minlength=len(counts))
    after = counts - before
    deleted, inserted = np.maximum(before - after, 0), np.maximum(after - before, 0)
    return _firsts(places[: removed.num_rows], deleted), _firsts(places[removed.num_rows :], inserted)


def _firsts(places: Any, most: Any) -> Any:
    """Return a mask of the first rows of each key, as many as `most` says."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    rank = np.arange(len(places)) - np.searchsorted(ordered, ordered)
    mask = np.zeros(len(places), dtype=bool)
    mask[order] = rank < most[ordered]
    return mask


def _rows_of_snapshot(
    folder: StorageFolder, table: Any, snapshot: Any, schema: pa.Schema
) -> tuple[pa.Table, pa.Table]:
    """Return the rows of files that a snapshot has added, and of those that it has removed."""
    tables: dict[int, list[pa.Table]] = {_ADDED: [schema.empty_table()], _DELETED: [schema.empty_table()]}
    for entry in _entries(folder, table, snapshot, is_all=True):
        if entry.snapshot_id == snapshot.snapshot_id and int(entry.status) in tables:
            with table.io.new_input(entry.data_file.file_path).open() as stream:
                rows = pq.read_table(pa.BufferReader(stream.read()), columns=schema.names)
            columns = [rows.column(field.name).cast(field.type) for field in schema]
            tables[int(entry.status)].append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(tables[_ADDED]), pa.concat_tables(tables[_DELETED])


def _entries(folder: StorageFolder, table: Any, snapshot: Any, is_all: bool = False) -> Iterator[Any]:
    """Yield the entries of a snapshot's data files; refuse files that delete rows of others."""
    manifests = snapshot.manifests(table.io)
    for manifest in manifests:
        if int(manifest.content) != 0:
            raise _refused(folder, "the Iceberg table", ["delete files"])
        yield from manifest.fetch_manifest_entry(table.io, discard_deleted=not is_all)


def _iceberg(path: str | Path, storage: Mapping[str, str] | None) -> tuple[StorageFolder, Any]:
    text = str(path)
    folder = StorageFolder.at(
        text.rpartition("/metadata/")[0] if text.endswith(".metadata.json") else path, storage
    )
    location = text if text.endswith(".metadata.json") else _last_metadata(folder)
    static = iceberg.package("table").StaticTable
    try:
        table = static.from_metadata(location, iceberg_options(folder.storage))
    except (OSError, ValueError) as error:
        message = f"the Iceberg table `{folder.address}` cannot be read: {error}"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address)) from error
    if table.metadata.format_version > 2:
        raise _refused(folder, "the Iceberg table", [f"format version {table.metadata.format_version}"])
    return folder, table


def _last_metadata(folder: StorageFolder) -> str:
    """Return the newest file of metadata of a table, by the number in its name."""
    candidates = []
    for stored in folder.below(iceberg.METADATA).listed():
        number = re.fullmatch(r"v?(\d+)(?:-[0-9a-f-]+)?\.metadata\.json", stored.path)
        if number:
            candidates.append((int(number[1]), stored.path))
    if not candidates:
        message = f"`{folder.address}` is not an Iceberg table: it has no metadata"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address))
    newest = max(candidates)
    if sum(1 for number, _ in candidates if number == newest[0]) > 1:
        message = f"`{folder.address}` has two files of metadata with the number {newest[0]}"
        help_line = "give the file of metadata that its catalogue names"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, help=help_line, place=folder.address))
    return folder.location(f"{iceberg.METADATA}/{newest[1]}")


def _shape(schema: Any) -> tuple[tuple[int, str, str], ...]:
    return tuple((field.field_id, field.name, str(field.field_type)) for field in schema.fields)
