"""Write one version of a published folder, and recover from a writer that was interrupted.

A version is committed in this order, each step on the disk before the next one begins:

1. Data files are written, by tasks or here. No table names them yet.
2. `_pending.json` says which tables version N is about to change ("tables").
3. Each table is committed in its own format, with the transaction `tidelog`, N where the format has such.
4. `_pending.json` gets the whole row of `_versions` for N ("ready", or "switching" if there is a hook).
5. The hook `before_switch` runs: a job commits its own durable state here, together with N.
6. The row is added to `_versions`: the switch. Readers that go by `_versions` see version N from here on.
7. `_pending.json` is deleted.

A writer that ends before 7 leaves `_pending.json`. The next one holds the lock, so it knows that the other
one no longer runs, and reads what exists:

- `_versions` has N: the version is published; the record is deleted.
- "tables": some tables may be ahead. They are brought back to the version before, and N is free again. The
  job's state has not seen N, as the hook runs after all tables are committed.
- "ready": all tables are committed and there was no hook: the row is added. N is published.
- "switching": the hook may have run or not, and only the job knows: `decide(pending)` returns whether the
  job's state has N. If it has, the row is added; if not, the tables are brought back. A job that commits N
  with its state in one transaction (`reasoner.change(batch=("publish", N))`, `has_applied`) always knows.
  Without `decide` this is an error (E905), and nothing is changed.

N is used again only after the tables were brought back, which happens only if the job's state does not have
N: "the state has N" and "N is published, or will be by the next writer" are therefore the same. Recovery may
itself be interrupted at any point: each of its steps does nothing where it is done already.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidelog import durable
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.publish import published_schemas
from tidelog.publish import table_files as data_files
from tidelog.publish.object_storage import StorageFolder, folder_name
from tidelog.publish.published_schemas import PublishedVersion, TableVersion
from tidelog.publish.table_files import DELETE, INSERT, TableFile, TableFormat, TablePlan
from tidelog.records import dataclass

PENDING: Final = "_pending.json"
FAILED: Final = "_failed.json"  # a version that was set aside instead of published
_TABLES, _READY, _SWITCHING = "tables", "ready", "switching"


@dataclass(frozen=True)
class Pending:
    """A version that a writer has begun to commit: the content of `_pending.json`."""

    number: int
    run: str  # of the writer
    tables: tuple[str, ...]  # that it changes
    state: str
    version: PublishedVersion | None = None  # once all tables are committed

    @property
    def details(self) -> Mapping[str, Any]:
        """The details of the version from the job, if they are written."""
        return self.version.details if self.version else {}

    def to_json(self) -> bytes:
        """Return the content of the file."""
        record = {
            "number": self.number,
            "run": self.run,
            "tables": self.tables,
            "state": self.state,
            "version": self.version.to_json() if self.version else None,
        }
        return json.dumps(record, ensure_ascii=False).encode()

    @staticmethod
    def from_json(content: bytes) -> Pending:
        """Parse the content of the file."""
        record = json.loads(content)
        version = PublishedVersion.from_json(record["version"]) if record["version"] else None
        return Pending(record["number"], record["run"], tuple(record["tables"]), record["state"], version)


@dataclass(frozen=True)
class Recovered:
    """The outcome of the recovery of an interrupted version."""

    number: int
    is_published: bool


def recover(
    folder: StorageFolder,
    tables: TableFormat,
    decide: Callable[[Pending], bool] | None,
    on_step: Callable[[str], None],
) -> Recovered | None:
    """Complete or roll back an interrupted version; return which, None if there is none.

    The caller holds the lock. See the protocol in the docstring of this module.
    """
    content = folder.read(PENDING)
    if content is None:
        return None
    pending = Pending.from_json(content)
    is_published = tables.version(pending.number) is not None
    if not is_published:
        if _is_complete(pending, decide, folder):
            assert pending.version is not None
            tables.publish(pending.version)
            is_published = True
        else:
            before = tables.version(None)
            for name in pending.tables:
                tables.restore(name, before.tables.get(name) if before else None, pending.number)
                on_step(f"restored {name}")
    on_step("recovered")
    folder.remove(PENDING)
    return Recovered(pending.number, is_published)


def _is_complete(pending: Pending, decide: Callable[[Pending], bool] | None, folder: StorageFolder) -> bool:
    if pending.version is None:
        return False
    if pending.state == _READY:
        return True
    if decide is None:
        message = (
            f"version {pending.number} of `{folder.address}` was not completed, and only its job can decide"
        )
        help_line = "run the job that publishes here, or open with writing(decide=…)"
        raise DataError(Diagnostic(codes.PENDING, message, help=help_line))
    return decide(pending)


@dataclass
class Publication:
    """A version that is being written. Mutable; holds the lock of its folder until it is closed.

    Each table is replaced, changed or dropped at most once; the others are unchanged. Readers see nothing
    before `commit`.
    """

    folder: StorageFolder
    tables: TableFormat
    base: PublishedVersion | None
    recovered: Recovered | None
    lock: durable.FileLock | None
    on_step: Callable[[str], None]
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    _plans: dict[str, TablePlan] = field(default_factory=dict)
    _counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    _files: dict[str, Mapping[str, TableFile]] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _is_committing: bool = False

    @property
    def number(self) -> int:
        """The number that the version will have."""
        return self.base.number + 1 if self.base else 1

    # ---- where files go

    def folder_of(self, table: str) -> str:
        """Return where data files of a table are written; the folder exists, and names are up to the writer.

        A name should be unique: `new_file` gives one. What no version names is deleted by `vacuum`.
        """
        return self._prepared(table).address

    def changes_folder_of(self, table: str) -> str:
        """Return where change files of a table are written."""
        folder = self.tables.changes_folder(table)
        if folder.is_local:
            durable.make_folders(folder.local)
        self._used.add(table)
        return folder.address

    def new_file(self, table: str) -> str:
        """Return the path of a data file that does not exist, for this run."""
        return f"{self.folder_of(table)}/part-{self.run}-{uuid.uuid4().hex}.parquet"

    def _prepared(self, table: str) -> StorageFolder:
        if not table:
            raise DataError(Diagnostic(codes.NO_SUCH_TYPE, "a published table needs a name"))
        folder = self._folder(table)
        if folder.is_local:
            durable.make_folders(folder.local)
        self._used.add(table)
        return folder

    def _folder(self, table: str) -> StorageFolder:
        return self.folder.below(folder_name(table))

    # ---- next versions of tables

    def replace(
        self, table: str, schema: pa.Schema, files: Iterable[str], change_files: Iterable[str] | None = None
    ) -> None:
        """Make Parquet files the whole content of a table.

        The files are in the folder that `folder_of` returns; files of earlier versions may be among them, and
        are not written again. `change_files` have the columns of the table and `_change_type` (`insert` or
        `delete`): exactly what differs from the version before. Without them the change feed has all rows of
        files that go as deleted, and all rows of files that come as inserted. If the columns change, so does
        every row, and there can be no change files.
        """
        base = self._begun(table)
        schema = published_schemas.normal(schema)
        folder = self._prepared(table)
        old = self._before(table)
        names = dict.fromkeys(folder.relative(str(path)) for path in files)
        previous_files = old if base and base.schema.equals(schema) else {}
        described = [previous_files.get(name) or data_files.described(folder, name, schema) for name in names]
        if change_files is not None and base and not published_schemas.is_same(base.schema, schema):
            message = f"the columns of `{table}` change: change files cannot say what was deleted"
            raise DataError(Diagnostic(codes.WRONG_FILE, message, help="leave change_files out"))
        content = tuple(file for file in described if file.rows) or self._empty(table, schema)
        changes: tuple[TableFile, ...] | None = None
        if change_files is None:
            new = {file.path for file in content}
            inserted = sum(file.rows for file in content if file.path not in old)
            deleted = sum(file.rows for path, file in old.items() if path not in new)
        else:
            with_kinds = published_schemas.columns_of_changes(schema)
            changes_folder = self.tables.changes_folder(table)
            change_paths = [changes_folder.relative(str(path)) for path in change_files]
            described_changes = [
                data_files.described(changes_folder, path, with_kinds) for path in change_paths
            ]
            inserted, deleted = data_files.change_counts(changes_folder, change_paths)
            changes = tuple(file for file in described_changes if file.rows)
            before = base.rows if base else 0
            if before + inserted - deleted != sum(file.rows for file in content):
                message = (
                    f"the change of `{table}` (+{inserted} −{deleted}) does not lead from {before} rows "
                    f"to {sum(file.rows for file in content)}"
                )
                raise DataError(Diagnostic(codes.WRONG_FILE, message))
        self._plan(TablePlan(table, schema, content, changes), inserted, deleted)

    def write(self, table: str, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
        """Write rows in batches, and make them the whole content of a table."""
        folder, schema = self._prepared(table), published_schemas.normal(schema)
        paths: list[str] = []
        for rows in parts:
            if rows.num_rows:
                paths += data_files.written(folder, f"part-{self.run}", data_files.fitted(rows, schema))
        self.replace(table, schema, [folder.location(path) for path in paths])

    def change(self, table: str, inserted: pa.Table | None = None, deleted: pa.Table | None = None) -> None:
        """Delete rows from a table, and insert others.

        Tables are sets: the rows to delete exist (E908 otherwise), the rows to insert do not, and no row
        is in both. Files that hold rows to delete are rewritten, one at a time; the others stay.
        """
        base = self._begun(table)
        if base is None and inserted is None:
            raise _no_table(table, self.base)
        schema = base.schema if base else published_schemas.normal(inserted.schema)  # type: ignore[union-attr]
        empty = schema.empty_table()
        new = data_files.fitted(inserted, schema) if inserted is not None else empty
        deletions = data_files.fitted(deleted, schema) if deleted is not None else empty
        folder = self._prepared(table)
        before = tuple(file for file in self._before(table).values() if file.rows)
        unaffected, rewritten, removed = self._without(folder, before, schema, deletions, table)
        added = list(rewritten)
        if new.num_rows:
            added += data_files.written(folder, f"part-{self.run}", new)
        content = [*unaffected, *(data_files.described(folder, path, schema) for path in added)]
        content, is_merged = self._merged(folder, content, schema)
        changes = None
        if rewritten or is_merged:
            changes = self._change_files(table, schema, new, deletions)
        plan = TablePlan(table, schema, tuple(content) or self._empty(table, schema), changes)
        self._plan(plan, new.num_rows, removed)

    def drop(self, table: str) -> None:
        """Remove a table; earlier versions keep it."""
        base = self._begun(table)
        if base is None:
            raise _no_table(table, self.base)
        self._plan(TablePlan(table, base.schema, (), is_dropped=True), 0, base.rows)

    def _begun(self, table: str) -> TableVersion | None:
        if self._is_committing or table in self._plans:
            reason = "the version is committed" if self._is_committing else f"`{table}` is changed already"
            raise DataError(Diagnostic(codes.TWICE, f"{reason}: version {self.number} has each table once"))
        return self.base.tables.get(table) if self.base else None

    def _plan(self, plan: TablePlan, inserted: int, deleted: int) -> None:
        self._plans[plan.table] = plan
        self._counts[plan.table] = (inserted, deleted)

    def _empty(self, table: str, schema: pa.Schema) -> tuple[TableFile, ...]:
        """Return an empty file, if the format has no other place for a schema."""
        if not self.tables.needs_a_file:
            return ()
        folder = self._prepared(table)
        (path,) = data_files.written(folder, f"part-{self.run}", schema.empty_table())
        return (data_files.described(folder, path, schema),)

    def _without(
        self,
        folder: StorageFolder,
        before: tuple[TableFile, ...],
        schema: pa.Schema,
        deletions: pa.Table,
        table: str,
    ) -> tuple[list[TableFile], list[str], int]:
        """Return the unaffected files, the rewritten parts of other files, and the number of deleted rows."""
        if not deletions.num_rows:  # else each file would have to be read for rows that are only inserted
            return list(before), [], 0
        unaffected: list[TableFile] = []
        rewritten: list[str] = []
        removed = 0
        is_found = np.zeros(deletions.num_rows, dtype=bool)
        for file in before:
            mask = data_files.may_hold(file, deletions)
            if not mask.any():
                unaffected.append(file)
                continue
            rows = deletions.filter(pa.array(mask))
            deletion = data_files.Deletion(folder, file, schema, rows)
            if not deletion.count:
                unaffected.append(file)
                continue
            is_found[np.flatnonzero(mask)[deletion.is_found]] = True
            removed += deletion.count
            rewritten += deletion.rest(f"part-{self.run}")
        if not is_found.all():
            row = data_files.shown_row(deletions, ~is_found)
            message = f"`{table}` does not have a row that is to be deleted: {row}"
            help_line = "the published table differs from the state of the job: publish the table again"
            raise DataError(Diagnostic(codes.NOT_THERE, message, help=help_line))
        return unaffected, rewritten, removed

    def _merged(
        self, folder: StorageFolder, content: list[TableFile], schema: pa.Schema
    ) -> tuple[list[TableFile], bool]:
        """Return the files with small ones merged, once there are many."""
        small = sorted((file for file in content if file.rows < data_files.SMALL), key=lambda file: file.rows)
        if len(small) < data_files.MANY:
            return content, False
        chosen: list[TableFile] = []
        for file in small:
            if sum(small_file.rows for small_file in chosen) + file.rows <= data_files.ROWS:
                chosen.append(file)
        rows = pa.concat_tables([data_files.read_file(folder, file.path, schema) for file in chosen])
        merged = data_files.written(folder, f"part-{self.run}", rows)
        left = [file for file in content if file not in chosen]
        return [*left, *(data_files.described(folder, path, schema) for path in merged)], True

    def _change_files(
        self, table: str, schema: pa.Schema, new: pa.Table, deletions: pa.Table
    ) -> tuple[TableFile, ...]:
        folder = self.tables.changes_folder(table)
        with_kinds = published_schemas.columns_of_changes(schema)
        parts = [
            pa.Table.from_arrays([*rows.columns, pa.repeat(kind, rows.num_rows)], schema=with_kinds)
            for rows, kind in ((new, INSERT), (deletions, DELETE))
            if rows.num_rows
        ]
        if not parts:
            return ()
        paths = data_files.written(folder, f"cdc-{self.run}", pa.concat_tables(parts))
        return tuple(data_files.described(folder, path, with_kinds) for path in paths)

    # ---- committing

    def commit(
        self,
        details: Mapping[str, Any] | None = None,
        *,
        reason: str = "",
        before_switch: Callable[[PublishedVersion], None] | None = None,
        time: dt.datetime | None = None,
    ) -> PublishedVersion:
        """Publish the version and return it; tables first, then `_versions`.

        `details` are JSON values, and come back unchanged. `before_switch` is called when all tables are
        committed and nothing of the version is seen yet; the docstring of this module says what it is for.
        `time` is that of a version that was published before in another folder.
        """
        if self._is_committing:
            raise DataError(Diagnostic(codes.TWICE, f"version {self.number} is committed already"))
        details = json.loads(json.dumps(details or {}))  # before anything is written: it is JSON
        self._is_committing = True
        plans = {name: plan for name, plan in self._plans.items() if self._is_change(plan)}
        for name, plan in plans.items():
            self._folder(name).sync(sorted({file.path for file in plan.files} - self._before(name).keys()))
            self.tables.changes_folder(name).sync(file.path for file in plan.changes or ())
        self._write(Pending(self.number, self.run, tuple(plans), _TABLES))
        self.on_step("pending")
        committed = {}
        for name, plan in plans.items():
            base = self.base.tables.get(name) if self.base else None
            committed[name] = self.tables.commit(plan, base, self.number)
            self.on_step(f"table {name}")
        version = self._version(plans, committed, details, reason, time)
        state = _SWITCHING if before_switch else _READY
        self._write(Pending(self.number, self.run, tuple(plans), state, version))
        self.on_step(state)
        if before_switch:
            before_switch(version)
            self.on_step("hook")
        self.tables.publish(version)
        self.on_step("published")
        self.folder.remove(PENDING)
        self.on_step("done")
        self.tables.settle()
        return version

    def set_aside(self, details: Mapping[str, Any] | None = None, *, reason: str = "") -> PublishedVersion:
        """Keep the version for inspection without publishing it, and return it.

        The next writer, or `vacuum`, deletes it. No version is built on it.
        """
        details = json.loads(json.dumps(details or {}))
        plans = {name: plan for name, plan in self._plans.items() if self._is_change(plan)}
        version = self._version(plans, dict.fromkeys(plans, 0), details, reason, None)
        files = {name: [file.path for file in plan.files] for name, plan in plans.items()}
        record = {"run": self.run, "tables": sorted(self._used), "version": version.to_json(), "files": files}
        self.folder.write(FAILED, json.dumps(record, ensure_ascii=False).encode())
        self._is_committing = True  # the files stay
        self.on_step("failed version")
        return replace(version, uncommitted={name: tuple(paths) for name, paths in files.items()})

    def _before(self, table: str) -> Mapping[str, TableFile]:
        """Return the files of a table in the version before, by path."""
        if table not in self._files:
            base = self.base.tables.get(table) if self.base else None
            self._files[table] = {file.path: file for file in self.tables.files(base)} if base else {}
        return self._files[table]

    def _is_change(self, plan: TablePlan) -> bool:
        """Return whether a plan differs from what exists."""
        base = self.base.tables.get(plan.table) if self.base else None
        if base is None or plan.is_dropped or not base.schema.equals(plan.schema, check_metadata=True):
            return True
        return {file.path for file in plan.files} != self._before(plan.table).keys()

    def _version(
        self,
        plans: Mapping[str, TablePlan],
        committed: Mapping[str, int],
        details: Mapping[str, Any],
        reason: str,
        time: dt.datetime | None,
    ) -> PublishedVersion:
        tables = {
            name: TableVersion(name, table.format_version, table.changed_in, table.rows, 0, 0, table.schema)
            for name, table in (self.base.tables.items() if self.base else ())
        }
        for name, plan in plans.items():
            inserted, deleted = self._counts[name]
            tables[name] = TableVersion(
                name,
                committed[name],
                self.number,
                sum(file.rows for file in plan.files),
                inserted,
                deleted,
                plan.schema,
                plan.is_dropped,
            )
        parent = self.base.number if self.base else None
        now = time or dt.datetime.now(dt.UTC)
        return PublishedVersion(self.number, parent, now, reason, dict(sorted(tables.items())), details)

    def _write(self, pending: Pending) -> None:
        self.folder.write(PENDING, pending.to_json())

    # ---- ending

    def close(self) -> None:
        """Release the lock; files of a version that was not committed are deleted."""
        try:
            if not self._is_committing:
                with suppress(OSError):  # what cannot be deleted now, `vacuum` deletes
                    remove_files(self.folder, self.tables, self._used, self.run)
        finally:
            if self.lock is not None:
                self.lock.release()

    def __enter__(self) -> Publication:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def failed_version(folder: StorageFolder) -> PublishedVersion | None:
    """Return the version that was kept for inspection, None if there is none."""
    content = folder.read(FAILED)
    if content is None:
        return None
    record = json.loads(content)
    files = {name: tuple(paths) for name, paths in record["files"].items()}
    return replace(PublishedVersion.from_json(record["version"]), uncommitted=files)


def remove_failed(folder: StorageFolder, tables: TableFormat) -> None:
    """Delete the version that was kept for inspection, if any; the caller holds the lock."""
    content = folder.read(FAILED)
    if content is not None:
        record = json.loads(content)
        folder.remove(FAILED)  # first: a process that ends here leaves files that `vacuum` deletes
        remove_files(folder, tables, record["tables"], record["run"])


def remove_files(folder: StorageFolder, tables: TableFormat, names: Iterable[str], run: str) -> None:
    """Delete the files that a run has written for tables, and that no version names."""
    for name in sorted(names):
        for each in (folder.below(folder_name(name)), tables.changes_folder(name)):
            for stored in each.listed():
                if f"-{run}-" in stored.path:
                    each.remove(stored.path)


def _no_table(table: str, version: PublishedVersion | None) -> DataError:
    names = ", ".join(f"`{name}`" for name in version.tables) if version else ""
    help_line = f"its tables are {names}" if names else "nothing is published yet"
    return DataError(Diagnostic(codes.NO_TABLE, f"no published table `{table}`", help=help_line))
