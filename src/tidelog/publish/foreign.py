"""Tables of others: Delta and Iceberg tables as sources, with their changes as Arrow.

A table with a feature that would have to be applied to be read rightly, and is not, is refused by the name of
the feature (E912). What is read is never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.errors import DataError, Diagnostic
from tidelog.publish import codes, delta, files, iceberg
from tidelog.publish.schemas import CHANGE_TYPE, NUMBER
from tidelog.publish.storage import Folder, delta_options, iceberg_options
from tidelog.publish.tables import DELETE, INSERT

_APPLIED: Final = frozenset({"timestampNtz"})  # features of Delta tables that readers here apply
_KINDS: Final = {INSERT: INSERT, DELETE: DELETE, "update_preimage": DELETE, "update_postimage": INSERT}
_ADDED, _DELETED = 1, 2  # states of entries in Iceberg's manifests


@dataclass(frozen=True)
class SourceFile:
    """A Parquet file of a table of others; values of partition columns may be missing in the file."""

    location: str
    rows: int | None
    partition: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceTable:
    """A version of a table of others: `version` is that of a Delta log, or the id of an Iceberg snapshot."""

    format: str
    version: int
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    files: tuple[SourceFile, ...]
    _table: Any = field(repr=False, compare=False)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows."""
        names = list(columns) if columns is not None else self.schema.names
        if self.format == "delta":
            found = self._table.to_pyarrow_dataset().to_table(columns=names)
        else:
            snapshot = self.version or None
            found = self._table.scan(selected_fields=tuple(names), snapshot_id=snapshot).to_arrow()
        return found.select(names)


# ---- Delta


def delta_table(
    path: str | Path, version: int | None = None, storage: Mapping[str, str] | None = None
) -> SourceTable:
    """Return a version of a Delta table, by default the last one."""
    folder, table = _delta(path, version, storage)
    actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    found = tuple(
        SourceFile(_located(folder, action["path"]), action["num_records"], action.get("partition") or {})
        for action in actions
    )
    schema = pa.schema(table.schema().to_arrow())
    return SourceTable(
        "delta", table.version(), schema, tuple(table.metadata().partition_columns), found, table
    )


def delta_changes(
    path: str | Path,
    after: int,
    upto: int | None = None,
    storage: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return the rows that a Delta table's change feed has after a version, up to another one.

    Beside the columns there are `_change_type` (`insert` or `delete`; an update is both) and `_version`.
    """
    folder, table = _delta(path, upto, storage)
    schema = pa.schema(table.schema().to_arrow())
    target = pa.schema(
        [*schema, pa.field(CHANGE_TYPE, pa.string(), False), pa.field(NUMBER, pa.int64(), False)]
    )
    if after > table.version():
        message = f"`{folder.address}` has no version {after}: the last one is {table.version()}"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="the table was made anew: read it whole"))
    if after == table.version():
        return target.empty_table()
    errors = delta.package().exceptions
    try:
        first = _opened(folder, after + 1)
        for each in (first, table):
            if each.metadata().configuration.get("delta.enableChangeDataFeed") != "true":
                message = f"`{folder.address}` has no change feed in version {each.version()}"
                help_line = "set its property delta.enableChangeDataFeed to true, or read it whole"
                raise DataError(Diagnostic(codes.NO_CHANGES, message, help=help_line))
        reader = table.load_cdf(starting_version=after + 1, ending_version=table.version())
        found = pa.table(reader.read_all())
    except errors.DeltaError as error:
        message = f"the changes of `{folder.address}` after version {after} cannot be read: {error}"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="read the table whole")) from error
    kinds = pa.array([_KINDS[kind] for kind in found.column(CHANGE_TYPE).to_pylist()], pa.string())
    columns = [found.column(each.name).cast(each.type) for each in schema]
    number = found.column("_commit_version").cast(pa.int64())
    return pa.Table.from_arrays([*columns, kinds, number], schema=target)


def _delta(path: str | Path, version: int | None, storage: Mapping[str, str] | None) -> tuple[Folder, Any]:
    folder = Folder.at(path, storage)
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


def _opened(folder: Folder, version: int | None) -> Any:
    package = delta.package()
    options = None if folder.is_local else delta_options(folder.storage)
    if folder.is_local and not (folder.local / delta.LOG).is_dir():
        message = f"`{folder.address}` is not a Delta table"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address))
    try:
        return package.DeltaTable(folder.address, version, storage_options=options)
    except (package.exceptions.DeltaError, OSError) as error:
        message = f"the Delta table `{folder.address}` cannot be read: {error}"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address)) from error


def _located(folder: Folder, path: str) -> str:
    text = unquote(path)
    return text if "://" in text or text.startswith("/") else folder.location(text)


def _refused(folder: Folder, what: str, features: Sequence[str]) -> DataError:
    names = ", ".join(f"`{name}`" for name in features)
    message = f"{what} `{folder.address}` has {names}, which is not supported here"
    help_line = "read it with a connector of Spark, or have it written without"
    return DataError(Diagnostic(codes.FEATURE, message, help=help_line, place=folder.address))


# ---- Iceberg


def iceberg_table(
    path: str | Path, snapshot: int | None = None, storage: Mapping[str, str] | None = None
) -> SourceTable:
    """Return a snapshot of an Iceberg table, by default the current one.

    `path` is the table's folder or one of its files of metadata.
    """
    folder, table = _iceberg(path, storage)
    found = table.snapshot_by_id(snapshot) if snapshot else table.current_snapshot()
    if snapshot and found is None:
        message = f"`{folder.address}` has no snapshot {snapshot}"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address))
    convert = iceberg.package("io.pyarrow").schema_to_pyarrow
    schema = convert(table.schema(), include_field_ids=False)
    entries = tuple(_entries(folder, table, found)) if found else ()
    data = tuple(SourceFile(entry.data_file.file_path, entry.data_file.record_count) for entry in entries)
    partitions = tuple(table.schema().find_column_name(each.source_id) for each in table.spec().fields)
    return SourceTable("iceberg", found.snapshot_id if found else 0, schema, partitions, data, table)


def iceberg_changes(
    path: str | Path, after: int, storage: Mapping[str, str] | None = None
) -> tuple[pa.Table, int]:
    """Return the rows that an Iceberg table has inserted and deleted after a snapshot, and the last snapshot.

    Iceberg has no change feed: rows of files that were added and removed are compared, per snapshot. Rows
    that were only written anew are not among the changes. `_version` is the id of the snapshot.
    """
    folder, table = _iceberg(path, storage)
    convert = iceberg.package("io.pyarrow").schema_to_pyarrow
    schema = convert(table.schema(), include_field_ids=False)
    target = pa.schema(
        [*schema, pa.field(CHANGE_TYPE, pa.string(), False), pa.field(NUMBER, pa.int64(), False)]
    )
    snapshots = []
    snapshot = table.current_snapshot()
    last = snapshot.snapshot_id if snapshot else 0
    while snapshot is not None and snapshot.snapshot_id != after:
        snapshots.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent else None
    if snapshot is None and after:
        message = f"snapshot {after} is not among those before the current one of `{folder.address}`"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="read the table whole"))
    if len({_shape(each) for each in table.metadata.schemas}) > 1:
        message = f"the columns of `{folder.address}` have changed, and its files with them"
        raise DataError(Diagnostic(codes.NO_CHANGES, message, help="read the table whole"))
    parts = [target.empty_table()]
    for snapshot in reversed(snapshots):
        if snapshot.summary is None or snapshot.summary.operation.value == "replace":
            continue  # the same rows in other files
        added, removed = _rows_of_snapshot(folder, table, snapshot, schema)
        is_kept, is_again = files.found_in(removed, added)
        for rows, mask, kind in ((removed, ~is_kept, DELETE), (added, ~is_again, INSERT)):
            some = rows.filter(pa.array(mask))
            number = pa.repeat(pa.scalar(snapshot.snapshot_id, pa.int64()), some.num_rows)
            kinds = pa.repeat(kind, some.num_rows)
            parts.append(pa.Table.from_arrays([*some.columns, kinds, number], schema=target))
    return pa.concat_tables(parts), last


def _rows_of_snapshot(
    folder: Folder, table: Any, snapshot: Any, schema: pa.Schema
) -> tuple[pa.Table, pa.Table]:
    """Return the rows of files that a snapshot has added, and of those that it has removed."""
    found: dict[int, list[pa.Table]] = {_ADDED: [schema.empty_table()], _DELETED: [schema.empty_table()]}
    for entry in _entries(folder, table, snapshot, is_all=True):
        if entry.snapshot_id == snapshot.snapshot_id and int(entry.status) in found:
            with table.io.new_input(entry.data_file.file_path).open() as stream:
                rows = pq.read_table(pa.BufferReader(stream.read()), columns=schema.names)
            columns = [rows.column(each.name).cast(each.type) for each in schema]
            found[int(entry.status)].append(pa.Table.from_arrays(columns, schema=schema))
    return pa.concat_tables(found[_ADDED]), pa.concat_tables(found[_DELETED])


def _entries(folder: Folder, table: Any, snapshot: Any, is_all: bool = False) -> Iterator[Any]:
    """Yield the entries of a snapshot's data files; refuse files that delete rows of others."""
    manifests = snapshot.manifests(table.io)
    for manifest in manifests:
        if int(manifest.content) != 0:
            raise _refused(folder, "the Iceberg table", ["delete files"])
        yield from manifest.fetch_manifest_entry(table.io, discard_deleted=not is_all)


def _iceberg(path: str | Path, storage: Mapping[str, str] | None) -> tuple[Folder, Any]:
    text = str(path)
    folder = Folder.at(text.rpartition("/metadata/")[0] if text.endswith(".metadata.json") else path, storage)
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


def _last_metadata(folder: Folder) -> str:
    """Return the newest file of metadata of a table, by the number in its name."""
    found = []
    for stored in folder.below(iceberg.METADATA).listed():
        number = re.fullmatch(r"v?(\d+)(?:-[0-9a-f-]+)?\.metadata\.json", stored.path)
        if number:
            found.append((int(number[1]), stored.path))
    if not found:
        message = f"`{folder.address}` is not an Iceberg table: it has no metadata"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, place=folder.address))
    newest = max(found)
    if sum(1 for number, _ in found if number == newest[0]) > 1:
        message = f"`{folder.address}` has two files of metadata with the number {newest[0]}"
        help_line = "give the file of metadata that its catalogue names"
        raise DataError(Diagnostic(codes.NOT_READABLE, message, help=help_line, place=folder.address))
    return folder.location(f"{iceberg.METADATA}/{newest[1]}")


def _shape(schema: Any) -> tuple[tuple[int, str, str], ...]:
    return tuple((each.field_id, each.name, str(each.field_type)) for each in schema.fields)
