"""Published folders: versions of many tables, in a format for other readers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as pads

from tidelog import durable
from tidelog.errors import DataError, Diagnostic, codes, suggest
from tidelog.publish import published_schemas
from tidelog.publish.delta_lake import DeltaTables
from tidelog.publish.iceberg import IcebergTables
from tidelog.publish.object_storage import StorageFolder, folder_name
from tidelog.publish.plain_parquet import SnapshotTables
from tidelog.publish.publication import Pending, Publication, failed_version, recover, remove_failed
from tidelog.publish.published_schemas import VERSIONS, PublishedVersion, TableVersion
from tidelog.publish.table_files import BOTH, CHANGES, ROWS, ChangeFile, TableFormat, read_pieces

MARKER: Final = "_tidelog.json"  # says that a folder is published, and in which format
LOCK: Final = "_lock"
LAYOUT: Final = 1  # of the folder; another one is not read
FORMATS: Final = ("delta", "iceberg", "parquet")


def _nothing(_: str) -> None:
    pass


class Published:
    """A folder of published tables.

    Readers use versions: `current`, `version`, `read`. A version consists of a version of each table, and
    is immutable until `vacuum`. One process at a time writes, with `writing`.
    """

    def __init__(
        self, path: str | Path, format: str | None = None, storage: Mapping[str, str] | None = None
    ) -> None:
        """Open a folder, which need not exist yet.

        The format is that of the folder, `delta` for a new one; to ask for another one is an error.
        `storage` has `access-key`, `secret-key`, `session-token`, `endpoint` and `region` of an object store.
        """
        if format is not None and format not in FORMATS:
            help_line = suggest(format, FORMATS) or f"the formats are {', '.join(FORMATS)}"
            raise DataError(Diagnostic(codes.FORMAT, f"`{format}` is not a format of tables", help=help_line))
        self.folder = StorageFolder.at(path, storage)
        existing_format = self._marked()
        if existing_format and format and existing_format != format:
            message = f"`{self.folder.address}` is published as {existing_format}, not as {format}"
            help_line = "leave the format out, or publish into another folder"
            raise DataError(Diagnostic(codes.FORMAT, message, help=help_line))
        self.format = existing_format or format or "delta"
        self._is_marked = existing_format is not None
        self._tables: TableFormat = tables_of(self.format, self.folder)

    def __repr__(self) -> str:
        return f"Published({self.folder.address!r}, {self.format!r})"

    def _marked(self) -> str | None:
        content = self.folder.read(MARKER)
        if content is None:
            return None
        record = json.loads(content)
        if record["layout"] != LAYOUT:
            message = f"`{self.folder.address}` has layout {record['layout']} instead of {LAYOUT}"
            raise DataError(Diagnostic(codes.FORMAT, message, help="use the tidelog that has published it"))
        format_found: str = record["format"]
        return format_found

    # ---- versions

    @property
    def is_empty(self) -> bool:
        """Whether no version is published."""
        return self._tables.version(None) is None

    def current(self) -> PublishedVersion:
        """Return the last published version."""
        last = self._tables.version(None)
        if last is None:
            raise DataError(Diagnostic(codes.NO_VERSION, f"nothing is published at `{self.folder.address}`"))
        return last

    def version(self, number: int | None = None) -> PublishedVersion:
        """Return a published version, by default the last one."""
        if number is None:
            return self.current()
        found = self._tables.version(number)
        if found is None:
            numbers = self.numbers()
            known = f"versions {numbers[0]} to {numbers[-1]} are" if numbers else "nothing is"
            message = f"version {number} is not published at `{self.folder.address}`"
            raise DataError(Diagnostic(codes.NO_VERSION, message, help=f"{known} there"))
        return found

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all published versions, in order."""
        return self._tables.numbers()

    def failed(self) -> PublishedVersion | None:
        """Return the version that a run has set aside instead of publishing it; None if there is none."""
        return failed_version(self.folder)

    # ---- reading

    def files(self, table: str, version: int | PublishedVersion | None = None) -> tuple[str, ...]:
        """Return the paths or addresses of the Parquet files of a table."""
        folder, paths = self._paths(table, version)
        return tuple(folder.location(path) for path in paths)

    def _paths(
        self, table: str, version: int | PublishedVersion | None
    ) -> tuple[StorageFolder, Sequence[str]]:
        """Return the folder of a table, and its files there."""
        chosen = self._table(table, version)
        folder = self.folder.below(folder_name(table))
        if isinstance(version, PublishedVersion) and table in version.uncommitted:
            return folder, version.uncommitted[table]
        return folder, [file.path for file in self._tables.files(chosen)]

    def dataset(self, table: str, version: int | PublishedVersion | None = None) -> Any:
        """Return a table as a dataset of Arrow, which DuckDB, polars and others scan."""
        chosen = self._table(table, version)
        folder, names = self._paths(table, version)
        paths = [folder.path(name) for name in names]
        if not paths:
            return pads.dataset(chosen.schema.empty_table())
        try:
            return pads.dataset(paths, schema=chosen.schema, format="parquet", filesystem=folder.filesystem)
        except FileNotFoundError as error:
            message = f"a file of `{table}` is missing: {error}"
            help_line = "the version may have been removed by `vacuum` in the meantime"
            raise DataError(Diagnostic(codes.PUBLISH_DAMAGED, message, help=help_line)) from error

    def read(
        self, table: str, version: int | PublishedVersion | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return the rows of a table."""
        chosen = self._table(table, version)
        names = list(columns) if columns is not None else chosen.schema.names
        schema = pa.schema([chosen.schema.field(name) for name in names], metadata=chosen.schema.metadata)
        return self.dataset(table, version).to_table(columns=names).cast(schema)

    def pieces(
        self, table: str, rows: int, version: int | PublishedVersion | None = None
    ) -> Iterator[pa.Table]:
        """Yield the rows of a table, in batches."""
        chosen = self._table(table, version)
        folder, paths = self._paths(table, version)
        for path in paths:
            yield from read_pieces(folder, path, chosen.schema, rows)

    def differing(
        self, table: str, left: int | PublishedVersion, right: int | PublishedVersion
    ) -> tuple[pa.Table, pa.Table]:
        """Return the rows of the files that only one of two versions of a table has, for each of them.

        A row that is in both parts is in both versions. The columns are the same.
        """
        chosen = self._table(table, left)
        (folder, left_paths), (_, right_paths) = self._paths(table, left), self._paths(table, right)
        parts = []
        for paths, others in ((left_paths, right_paths), (right_paths, left_paths)):
            other_paths = set(others)
            files = [folder.path(path) for path in paths if path not in other_paths]
            if files:
                known = pads.dataset(
                    files, schema=chosen.schema, format="parquet", filesystem=folder.filesystem
                )
                parts.append(known.to_table().cast(chosen.schema))
            else:
                parts.append(chosen.schema.empty_table())
        return parts[0], parts[1]

    def _table(self, table: str, version: int | PublishedVersion | None) -> TableVersion:
        chosen = version if isinstance(version, PublishedVersion) else self.version(version)
        found = chosen.tables.get(table)
        if found is None:
            help_line = (
                suggest(table, chosen.tables) or f"its tables are {', '.join(chosen.tables) or 'none'}"
            )
            message = f"version {chosen.number} has no table `{table}`"
            raise DataError(Diagnostic(codes.NO_TABLE, message, help=help_line))
        return found

    def change_files(self, table: str, after: int, upto: int | None = None) -> tuple[ChangeFile, ...]:
        """Return the files with all rows that changed after a version, in the order of versions.

        `after` is an existing version, or 0 for all changes from the first version on.
        """
        files, _ = self._changes(table, after, upto)
        return files

    def changes(self, table: str, after: int, upto: int | None = None) -> pa.Table:
        """Return all rows that changed after a version, up to another one, by default the last.

        In addition to the columns of the table there are `_change_type`, which is `insert` or `delete`, and
        `_version`, the published version. Within a version a row is inserted or deleted at most once.
        """
        files, schema = self._changes(table, after, upto)
        return pa.concat_tables(
            [published_schemas.columns_of_feeds(schema).empty_table(), *self._pieces(files, schema, ROWS)]
        )

    def change_pieces(self, table: str, rows: int, after: int, upto: int | None = None) -> Iterator[pa.Table]:
        """Yield the rows that `changes` returns, in batches."""
        return self._pieces(*self._changes(table, after, upto), rows)

    def _pieces(self, files: Iterable[ChangeFile], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        target = published_schemas.columns_of_feeds(schema)
        for file in files:
            path = self.folder.relative(file.location)
            file_schema = published_schemas.columns_of_changes(schema) if file.kind == BOTH else schema
            for piece in read_pieces(self.folder, path, file_schema, rows):
                columns = list(piece.columns)
                if file.kind != BOTH:
                    columns.append(pa.repeat(file.kind, piece.num_rows))
                number = pa.repeat(pa.scalar(file.number, pa.int64()), piece.num_rows)
                yield pa.Table.from_arrays([*columns, number], schema=target)

    def _changes(self, table: str, after: int, upto: int | None) -> tuple[tuple[ChangeFile, ...], pa.Schema]:
        upto = self.current().number if upto is None else self.version(upto).number
        numbers = self.numbers()
        if after not in numbers and not (after == 0 and numbers[0] == 1):
            message = f"version {after} is no longer published, so the changes since then are not known"
            help_line = f"the first version is {numbers[0]}: read the table again"
            raise DataError(Diagnostic(codes.NO_CHANGES, message, help=help_line))
        start = self._tables.version(after) if after else None
        before = start.tables.get(table) if start else None
        schema = before.schema if before else None
        found: list[ChangeFile] = []
        for version in self._tables.versions(after + 1, upto):
            here = version.all_tables.get(table)
            if here is None:
                before = None
                continue
            if schema is not None and not published_schemas.is_same(schema, here.schema):
                message = f"`{table}` has other columns since version {version.number}"
                help_line = f"read the table again, and changes from version {version.number} on"
                raise DataError(Diagnostic(codes.NO_CHANGES, message, help=help_line))
            schema = here.schema
            if here.changed_in == version.number:
                found.extend(self._tables.changes(here, before))
            before = None if here.is_dropped else here
        if schema is None:
            message = f"no version from {after} to {upto} has a table `{table}`"
            raise DataError(Diagnostic(codes.NO_TABLE, message))
        return tuple(found), schema

    # ---- writing

    def writing(
        self,
        decide: Callable[[Pending], bool] | None = None,
        on_step: Callable[[str], None] = _nothing,
    ) -> Publication:
        """Begin a version: take the lock, recover from an interrupted writer, and yield it.

        `decide` says whether a job's own state has a version whose hook may have run; see
        `tidelog.publish.publication`. `on_step` is called at each step; tests end the process there.
        """
        lock = self._locked()
        try:
            self._mark()
            recovered = recover(self.folder, self._tables, decide, on_step)
            remove_failed(self.folder, self._tables)
            base = self._tables.version(None)
            return Publication(self.folder, self._tables, base, recovered, lock, on_step)
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    def vacuum(self, keep: int = 1, decide: Callable[[Pending], bool] | None = None) -> tuple[int, int]:
        """Forget all but the last versions, and delete files that none of them references.

        Return the number of deleted files, and their bytes, including files of failed writers. Readers of a
        forgotten version may fail.
        """
        if keep < 1:
            raise DataError(Diagnostic(codes.NO_VERSION, "at least one version is kept"))
        lock = self._locked()
        try:
            recover(self.folder, self._tables, decide, _nothing)
            remove_failed(self.folder, self._tables)
            numbers = self.numbers()[-keep:]
            if not numbers:
                return 0, 0
            kept = self._tables.versions(numbers[0], numbers[-1])
            named = self._named(kept)
            self._tables.forget(kept)
            return self._delete_others(named)
        finally:
            if lock is not None:
                lock.release()

    def _named(self, kept: tuple[PublishedVersion, ...]) -> Mapping[str, set[str]]:
        """Return the files that some versions name, by folder below this one."""
        named: dict[str, set[str]] = {}
        seen: set[tuple[str, int]] = set()
        before: PublishedVersion | None = None
        for version in kept:
            for name, table in version.all_tables.items():
                folder = self.folder.below(folder_name(name))
                changes = self._tables.changes_folder(name)
                paths = named.setdefault(self.folder.relative(folder.address), set())
                change_paths = named.setdefault(self.folder.relative(changes.address), set())
                if (name, table.format_version) not in seen:
                    seen.add((name, table.format_version))
                    paths.update(file.path for file in self._tables.files(table))
                # Changes are kept for readers that know the version before.
                if table.changed_in == version.number and (before is not None or version.parent is None):
                    found = self._tables.changes(table, before.tables.get(name) if before else None)
                    change_paths.update(
                        changes.relative(file.location) for file in found if file.kind == BOTH
                    )
            before = version
        return named

    def _delete_others(self, named: Mapping[str, set[str]]) -> tuple[int, int]:
        """Delete files of tables that are not named; a table without a name goes as a whole."""
        keep = {f"{VERSIONS}/{path}" for path in self._tables.version_files()}
        keep |= {f"{folder}/{path}" for folder, paths in named.items() for path in paths}
        metadata = tuple(f"{folder}/{self._tables.metadata}/" for folder in (VERSIONS, *named))
        count = size = 0
        for stored in self.folder.listed():
            is_of_table = not stored.path.startswith("_") or stored.path.startswith((VERSIONS, CHANGES))
            if not is_of_table or "/" not in stored.path:
                continue
            if stored.path not in keep and not stored.path.startswith(metadata):
                self.folder.remove(stored.path)
                count, size = count + 1, size + stored.size
        return count, size

    def _locked(self) -> durable.FileLock | None:
        """Take the lock of a folder on a disk; object stores have none, and conflicts show in the logs."""
        if not self.folder.is_local:
            return None
        durable.make_folders(self.folder.local)
        holder = f"process {os.getpid()} ({Path(sys.argv[0]).name or 'python'})"
        try:
            return durable.FileLock(self.folder.local / LOCK, holder)
        except durable.HeldError as held:
            message = f"`{self.folder.address}` is being written to by {held.holder or 'another process'}"
            raise DataError(
                Diagnostic(codes.PUBLISH_LOCKED, message, help="wait until it has ended")
            ) from held

    def _mark(self) -> None:
        if not self._is_marked:
            record = {"layout": LAYOUT, "format": self.format}
            self.folder.write(MARKER, json.dumps(record).encode())
            self._is_marked = True


def tables_of(format: str, folder: StorageFolder) -> TableFormat:
    """Return the tables of a folder in a format."""
    if format == "delta":
        return DeltaTables(folder)
    if format == "iceberg":
        return IcebergTables(folder)
    return SnapshotTables(folder)
