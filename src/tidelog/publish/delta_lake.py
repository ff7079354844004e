"""Tables of Delta Lake, by the package `deltalake`; commits on a disk are written here.

The package commits added and removed files, but has no action for change files (`cdc`), without which a
change feed reports all rows of a file that was rewritten. On a disk a commit is therefore one file of
JSON lines that is written here, and created only if no other commit has its number. Object stores have no
such operation in Arrow: there the package commits, and exact changes go to a table of their own,
`_changes/<table>`, to which rows are only added.
"""

from __future__ import annotations

import importlib
import json
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import DataError, Diagnostic, codes
from tidelog.publish import published_schemas
from tidelog.publish import table_files as files
from tidelog.publish.object_storage import StorageFolder, delta_options, folder_name
from tidelog.publish.published_schemas import (
    CHANGE_TYPE,
    NUMBER,
    SCHEMA,
    VERSIONS,
    PublishedVersion,
    TableVersion,
)
from tidelog.publish.table_files import BOTH, CHANGES, DELETE, INSERT, ChangeFile, Range, TableFile, TablePlan
from tidelog.records import dataclass

LOG: Final = "_delta_log"
CHANGE_DATA: Final = "_change_data"
APP: Final = "tidelog"  # of the transactions in logs
CHECKPOINT: Final = 25  # commits from one checkpoint to the next
_CHANGE_FILES: Final = "tidelog.changes"  # of a commit in an object store
_PLAIN: Final = "/=~"  # letters of paths that logs have as they are, in addition to those of all addresses
_FEED: Final = {"delta.enableChangeDataFeed": "true"}
_LEGACY: Final = ("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns")


def package() -> Any:
    """Return the package `deltalake`; raise a diagnostic if it is not installed."""
    try:
        return importlib.import_module("deltalake")
    except ImportError as error:
        message = "Delta tables need the package `deltalake`"
        help_line = "pip install 'tidelog[publish]'"
        raise DataError(Diagnostic(codes.PUBLISH_PACKAGE_MISSING, message, help=help_line)) from error


@dataclass(frozen=True)
class DeltaState:
    """The state of a table at a version of its log."""

    version: int
    id: str
    schema: pa.Schema
    needs_ntz: bool  # whether the protocol has the feature `timestampNtz`
    files: Mapping[str, TableFile]


@dataclass(frozen=True)
class DeltaCommit:
    """One entry of a log, before it is written."""

    number: int  # of the published version, for the transaction
    operation: str
    added: tuple[TableFile, ...] = ()
    removed: tuple[TableFile, ...] = ()
    changes: tuple[TableFile, ...] | None = None
    schema: pa.Schema | None = None  # None where it stays
    partition: int | None = None  # of the files, in a table of changes

    @property
    def is_change(self) -> bool:
        """Whether rows change; files with the same rows as before have a change without rows."""
        return self.changes is None or len(self.changes) > 0


class DeltaTables:
    """The tables of a folder as Delta tables.

    Mutable: holds which logs are due for a checkpoint, and the last known state of each log, as opening one
    is most of what a small commit costs.
    """

    format = "delta"
    needs_a_file = False
    metadata = LOG

    def __init__(self, folder: StorageFolder) -> None:
        self._folder = folder
        self._package = package()
        self._due: set[str] = set()
        self._heads: dict[str, DeltaState] = {}
        self._last_read: tuple[str, tuple[PublishedVersion, ...]] | None = None

    def changes_folder(self, table: str) -> StorageFolder:
        """Return the folder of change files of a table."""
        if self._folder.is_local:
            return self._folder_of(table).below(CHANGE_DATA)
        return self._folder.below(f"{CHANGES}/{folder_name(table)}")

    # ---- tables

    def commit(self, plan: TablePlan, base: TableVersion | None, number: int) -> int:
        """Commit the files of a table; see `TableFormat`."""
        folder = self._folder_of(plan.table)
        head = self._state(folder)
        before = head.files if head else {}
        paths = {file.path for file in plan.files}
        commit = DeltaCommit(
            number,
            "DROP" if plan.is_dropped else "WRITE",
            tuple(file for file in plan.files if file.path not in before),
            tuple(file for path, file in before.items() if path not in paths),
            plan.changes,
            None if head and head.schema.equals(plan.schema, check_metadata=True) else plan.schema,
        )
        if plan.changes and not folder.is_local:
            self._append_changes(plan, number)
        return self._put(folder, head, commit)

    def restore(self, table: str, base: TableVersion | None, number: int) -> None:
        """Commit the content of a version again, with the reverse of the change; see `TableFormat`."""
        folder = self._folder_of(table)
        if not folder.is_local:
            self._remove_changes(table, number)
        head = self._state(folder)
        if head is None or (base and head.version == base.format_version):
            return
        target = self._state(folder, base.format_version) if base else replace(head, files={})
        if target is None:
            raise files.damaged_table(
                folder, f"version {base.format_version if base else 0} of its log is missing"
            )
        added = tuple(file for path, file in target.files.items() if path not in head.files)
        removed = tuple(file for path, file in head.files.items() if path not in target.files)
        is_same = head.schema.equals(target.schema, check_metadata=True)
        if not added and not removed and is_same:
            return
        commit = DeltaCommit(
            base.changed_in if base else 0,
            "RESTORE",
            added,
            removed,
            self._reversed_changes(folder, head, number) if folder.is_local else None,
            None if is_same else target.schema,
        )
        self._put(folder, head, commit)

    def files(self, version: TableVersion) -> tuple[TableFile, ...]:
        """Return the data files of a version."""
        folder = self._folder_of(version.name)
        state = self._state(folder, version.format_version)
        if state is None:
            raise files.damaged_table(folder, f"version {version.format_version} of its log is missing")
        return tuple(state.files.values())

    def changes(self, version: TableVersion, before: TableVersion | None) -> tuple[ChangeFile, ...]:
        """Return the files with the changes of one version, as recorded in its commit."""
        folder = self._folder_of(version.name)
        actions = self._actions(folder, version.format_version)
        for action in actions:
            if _CHANGE_FILES in action.get("commitInfo", {}):
                folder_of_changes = self.changes_folder(version.name)
                paths = json.loads(action["commitInfo"][_CHANGE_FILES])
                return tuple(
                    ChangeFile(folder_of_changes.location(path), BOTH, version.changed_in) for path in paths
                )
        kinds = {"cdc": BOTH, "add": INSERT, "remove": DELETE}
        if any("cdc" in action for action in actions):
            kinds = {"cdc": BOTH}
        return tuple(
            ChangeFile(folder.location(unquote(action[name]["path"])), kind, version.changed_in)
            for action in actions
            for name, kind in kinds.items()
            if name in action and (name == "cdc" or action[name]["dataChange"])
        )

    # ---- versions

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all published versions."""
        state = self._state(self._folder.below(VERSIONS))
        numbers: set[int] = set()
        for file in state.files.values() if state else ():
            bounds = file.columns["number"]
            if bounds.low == bounds.high and isinstance(bounds.low, int):
                numbers.add(bounds.low)
            else:
                numbers.update(row["number"] for row in self._rows(file, ["number"]))
        return tuple(sorted(numbers))

    def version(self, number: int | None) -> PublishedVersion | None:
        """Return a published version; this reads only its file."""
        state = self._state(self._folder.below(VERSIONS))
        if state is None or not state.files:
            return None
        if number is None:
            number = max(_bound(file.columns["number"].high) for file in state.files.values())
        return next(iter(self._versions(state, number, number)), None)

    def versions(self, first: int, last: int) -> tuple[PublishedVersion, ...]:
        """Return the published versions in a range."""
        state = self._state(self._folder.below(VERSIONS))
        return self._versions(state, first, last) if state else ()

    def _versions(self, state: DeltaState, first: int, last: int) -> tuple[PublishedVersion, ...]:
        versions = []
        for file in state.files.values():
            bounds = file.columns["number"]
            if first <= _bound(bounds.high) and _bound(bounds.low) <= last:
                versions += [each for each in self._recorded(file) if first <= each.number <= last]
        return tuple(sorted(versions, key=lambda version: version.number))

    def _recorded(self, file: TableFile) -> tuple[PublishedVersion, ...]:
        """Return the versions in a file of their table. The last one is cached, as files do not change."""
        if self._last_read is None or self._last_read[0] != file.path:
            rows = self._rows(file, SCHEMA.names)
            self._last_read = file.path, tuple(PublishedVersion.from_record(row) for row in rows)
        return self._last_read[1]

    def _rows(self, file: TableFile, columns: list[str]) -> list[dict[str, Any]]:
        schema = pa.schema([SCHEMA.field(name) for name in columns])
        rows = files.read_file(self._folder.below(VERSIONS), file.path, schema)
        records: list[dict[str, Any]] = rows.to_pylist()
        return records

    def version_files(self) -> Collection[str]:
        """Return the data files of the table of versions."""
        state = self._state(self._folder.below(VERSIONS))
        return state.files.keys() if state else ()

    def publish(self, version: PublishedVersion) -> None:
        """Add a row to the table of versions."""
        folder = self._folder.below(VERSIONS)
        head = self._state(folder)
        (path,) = files.written(folder, f"version-{version.number}", version.to_arrow())
        folder.sync([path])
        file = files.described(folder, path, SCHEMA)
        self._put(
            folder, head, DeltaCommit(version.number, "WRITE", (file,), schema=None if head else SCHEMA)
        )

    # ---- keeping the folder small

    def settle(self) -> None:
        """Write checkpoints of logs that have grown."""
        while self._due:
            address = self._due.pop()
            self._package.DeltaTable(address, storage_options=self._options).create_checkpoint()

    def forget(self, kept: tuple[PublishedVersion, ...]) -> None:
        """Forget old versions, and shorten logs; see `TableFormat`."""
        self._forget_rows(kept[0].number)
        head = self._state(self._folder.below(VERSIONS))
        self._shorten(VERSIONS, head.version if head else 0)
        first: dict[str, int] = {}
        for version in reversed(kept):
            for name, table in version.all_tables.items():
                first[name] = table.format_version
        for name, version_ in first.items():
            self._shorten(folder_name(name), version_)

    def _shorten(self, name: str, first: int) -> None:
        """Truncate a log: checkpoint a version, and delete the entries before it."""
        folder = self._folder.below(name)
        table = self._package.DeltaTable(folder.address, first, storage_options=self._options)
        table.create_checkpoint()
        for stored in folder.below(LOG).listed():
            if _log_number(stored.path) < first and stored.path != "_last_checkpoint":
                folder.remove(f"{LOG}/{stored.path}")

    def _forget_rows(self, first: int) -> None:
        """Remove the rows of forgotten versions, and write the others to one file."""
        folder = self._folder.below(VERSIONS)
        head = self._state(folder)
        if head is None:
            return
        if len(head.files) == 1 and _bound(next(iter(head.files.values())).columns["number"].low) >= first:
            return
        rows = pa.concat_tables([files.read_file(folder, file.path, SCHEMA) for file in head.files.values()])
        rows = rows.filter(pc.greater_equal(rows.column("number"), first)).sort_by("number")
        paths = files.written(folder, "versions", rows)
        folder.sync(paths)
        added = tuple(files.described(folder, path, SCHEMA) for path in paths)
        last = max(_bound(file.columns["number"].high) for file in added)
        self._put(folder, head, DeltaCommit(last, "OPTIMIZE", added, tuple(head.files.values()), changes=()))

    # ---- logs

    def _folder_of(self, table: str) -> StorageFolder:
        return self._folder.below(folder_name(table))

    @property
    def _options(self) -> dict[str, str] | None:
        return None if self._folder.is_local else delta_options(self._folder.storage)

    def _state(self, folder: StorageFolder, version: int | None = None) -> DeltaState | None:
        """Return the state of a log at a version, by default the last one; None if there is no log."""
        if folder.is_local and not (folder.local / LOG).is_dir():
            return None  # the package would create the folder
        head = self._heads.get(folder.address)
        if head is not None and (version == head.version or (version is None and _is_last(folder, head))):
            return head
        try:
            table = self._package.DeltaTable(folder.address, version, storage_options=self._options)
        except self._package.exceptions.TableNotFoundError:
            return None
        except self._package.exceptions.DeltaError as error:
            raise files.damaged_table(folder, str(error)) from error
        metadata = table.metadata()
        schema = published_schemas.from_json(table.schema().to_json(), metadata.description)
        actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        protocol = table.protocol()
        needs_ntz = "timestampNtz" in (protocol.reader_features or ())
        names = [field.name for field in schema if not pa.types.is_nested(field.type)]
        files_of_log = (_file_of(action, names) for action in actions)
        state = DeltaState(
            table.version(), metadata.id, schema, needs_ntz, {file.path: file for file in files_of_log}
        )
        if version is None:
            self._heads[folder.address] = state
        return state

    def _actions(self, folder: StorageFolder, version: int) -> list[dict[str, Any]]:
        content = folder.read(_entry(version))
        if content is None:
            message = f"the log of `{folder.address}` no longer has version {version}"
            raise DataError(Diagnostic(codes.NO_CHANGES, message, help="read the table again"))
        return [json.loads(line) for line in content.splitlines() if line.strip()]

    def _reversed_changes(
        self, folder: StorageFolder, head: DeltaState, number: int
    ) -> tuple[TableFile, ...] | None:
        """Return change files that reverse the change in the last commit of a log, if it has one."""
        actions = self._actions(folder, head.version)
        if not any(action.get("txn", {}).get("version") == number for action in actions):
            return None
        paths = [unquote(action["cdc"]["path"]) for action in actions if "cdc" in action]
        if not paths:
            return None
        schema = published_schemas.columns_of_changes(head.schema)
        written: list[str] = []
        for path in paths:
            rows = files.read_file(folder, path, schema)
            is_insert = pc.equal(rows.column(CHANGE_TYPE), INSERT)
            kinds = pc.if_else(is_insert, DELETE, INSERT)
            place = schema.get_field_index(CHANGE_TYPE)
            rows = rows.set_column(place, schema.field(place), kinds)
            written.extend(files.written(folder.below(CHANGE_DATA), "cdc-restored", rows))
        folder.below(CHANGE_DATA).sync(written)
        return tuple(files.described(folder.below(CHANGE_DATA), path, schema) for path in written)

    def _put(self, folder: StorageFolder, head: DeltaState | None, commit: DeltaCommit) -> int:
        """Commit after a version of a log, and return the next one; raise a diagnostic if it exists."""
        version = head.version + 1 if head else 0
        if not folder.is_local:
            self._put_by_package(folder, head, commit)
            return self._noted(folder, version)
        state = _after(head, commit)
        content = "".join(json.dumps(line) + "\n" for line in _lines(head, commit, state.id))
        try:
            folder.create(_entry(version), content.encode())
        except FileExistsError as error:
            message = f"another process has committed version {version} of `{folder.address}`"
            raise DataError(
                Diagnostic(codes.CONFLICT, message, help="only one process can write at a time")
            ) from error
        self._heads[folder.address] = state
        return self._noted(folder, version)

    def _noted(self, folder: StorageFolder, version: int) -> int:
        """Return the version, and record its log if it is due for a checkpoint."""
        last = json.loads(folder.read(f"{LOG}/_last_checkpoint") or b'{"version": 0}')["version"]
        if version - last >= CHECKPOINT:
            self._due.add(folder.address)
        return version

    # ---- object stores

    def _put_by_package(self, folder: StorageFolder, head: DeltaState | None, commit: DeltaCommit) -> None:
        """Commit through the package, which can create an object only if it does not exist."""
        transaction = importlib.import_module("deltalake.transaction")
        notes = {"tidelog.version": str(commit.number)}
        if commit.changes is not None:
            notes[_CHANGE_FILES] = json.dumps([file.path for file in commit.changes])
        properties = transaction.CommitProperties(
            custom_metadata=notes,
            max_commit_retries=0,
            app_transactions=[transaction.Transaction(APP, commit.number)],
        )
        hooks = transaction.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        partition = {} if commit.partition is None else {NUMBER: str(commit.partition)}
        now = time.time_ns() // 1_000_000
        is_change = commit.is_change

        def added(file: TableFile) -> Any:
            statistics = files.statistics_json(file)
            return transaction.AddAction(file.path, file.size, partition, now, is_change, statistics)

        try:
            if head is None:
                assert commit.schema is not None
                transaction.create_table_with_add_actions(
                    folder.address,
                    self._package.Schema.from_json(published_schemas.to_json(commit.schema)),
                    [added(file) for file in commit.added],
                    partition_by=list(partition),
                    description=published_schemas.comment_of(commit.schema.metadata),
                    storage_options=self._options,
                    commit_properties=properties,
                    post_commithook_properties=hooks,
                )
                return
            table = self._package.DeltaTable(folder.address, storage_options=self._options)
            schema, mode = table.schema(), "append"
            actions = [added(file) for file in commit.added]
            if commit.schema is None:
                actions += [
                    transaction.RemoveAction(file.path, is_change, now, file.size, file.partition)
                    for file in commit.removed
                ]
            else:
                # The package sets a schema only where it removes all files; those that stay get new names.
                schema, mode = (
                    self._package.Schema.from_json(published_schemas.to_json(commit.schema)),
                    "overwrite",
                )
                removed = {file.path for file in commit.removed}
                unchanged = (file for path, file in head.files.items() if path not in removed)
                actions += [added(self._copied(folder, file)) for file in unchanged]
            table.create_write_transaction(
                actions,
                mode,
                schema,
                partition_by=list(partition),
                commit_properties=properties,
                post_commithook_properties=hooks,
            )
        except self._package.exceptions.CommitFailedError as error:
            message = f"another process has written to `{folder.address}`"
            help_line = "only one process can write at a time"
            raise DataError(Diagnostic(codes.CONFLICT, message, help=help_line)) from error

    def _copied(self, folder: StorageFolder, file: TableFile) -> TableFile:
        path = f"part-copied-{uuid.uuid4().hex}.parquet"
        folder.filesystem.copy_file(folder.path(file.path), folder.path(path))
        return replace(file, path=path)

    def _append_changes(self, plan: TablePlan, number: int) -> None:
        """Add change files to the table of changes, which is partitioned by version."""
        folder = self.changes_folder(plan.table)
        head = self._state(folder)
        schema = published_schemas.columns_of_feeds(plan.schema)
        is_same = head is not None and head.schema.equals(schema, check_metadata=True)
        commit = DeltaCommit(
            number, "WRITE", plan.changes or (), schema=None if is_same else schema, partition=number
        )
        if head is not None and not is_same:  # rows of other columns cannot stay
            commit = replace(commit, removed=tuple(head.files.values()))
        self._put(folder, head, commit)

    def _remove_changes(self, table: str, number: int) -> None:
        """Remove the files of a version that is not published from the table of changes."""
        folder = self.changes_folder(table)
        head = self._state(folder)
        change_files = head.files.values() if head else ()
        removed = tuple(file for file in change_files if file.partition == {NUMBER: str(number)})
        if removed:
            self._put(folder, head, DeltaCommit(0, "RESTORE", removed=removed, partition=number))


def _is_last(folder: StorageFolder, state: DeltaState) -> bool:
    """Return whether a version is still the last in a log, whose numbers have no gaps."""
    return folder.has(_entry(state.version)) and not folder.has(_entry(state.version + 1))


def _entry(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def _after(head: DeltaState | None, commit: DeltaCommit) -> DeltaState:
    """Return the state of a log after a commit."""
    removed = {file.path for file in commit.removed}
    before = head.files if head else {}
    files_after = {path: file for path, file in before.items() if path not in removed}
    files_after |= {file.path: file for file in commit.added}
    if head is None:
        assert commit.schema is not None
        return DeltaState(0, str(uuid.uuid4()), commit.schema, _has_ntz(commit.schema), files_after)
    schema = commit.schema if commit.schema is not None else head.schema
    return DeltaState(head.version + 1, head.id, schema, head.needs_ntz or _has_ntz(schema), files_after)


def _lines(head: DeltaState | None, commit: DeltaCommit, identifier: str) -> Iterable[dict[str, Any]]:
    """Yield the actions of a commit."""
    now = time.time_ns() // 1_000_000
    yield {
        "commitInfo": {
            "timestamp": now,
            "operation": commit.operation,
            "operationParameters": {},
            "engineInfo": "tidelog",
            "tidelog.version": str(commit.number),
        }
    }
    yield {"txn": {"appId": APP, "version": commit.number, "lastUpdated": now}}
    schema = commit.schema
    if schema is not None:
        needs_ntz = _has_ntz(schema)
        if head is None or (needs_ntz and not head.needs_ntz):
            yield {"protocol": _protocol(needs_ntz, is_new=head is None)}
        yield {
            "metaData": {
                "id": identifier,
                "name": None,
                "description": published_schemas.comment_of(schema.metadata),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": published_schemas.to_json(schema),
                "partitionColumns": [],
                "createdTime": now,
                "configuration": _FEED,
            }
        }
    for file in commit.removed:
        yield {
            "remove": {
                "path": quote(file.path, safe=_PLAIN),
                "deletionTimestamp": now,
                "dataChange": commit.is_change,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": file.size,
            }
        }
    for file in commit.added:
        yield {
            "add": {
                "path": quote(file.path, safe=_PLAIN),
                "partitionValues": {},
                "size": file.size,
                "modificationTime": now,
                "dataChange": commit.is_change,
                "stats": files.statistics_json(file),
            }
        }
    for file in commit.changes or ():
        path = quote(f"{CHANGE_DATA}/{file.path}", safe=_PLAIN)
        yield {"cdc": {"path": path, "partitionValues": {}, "size": file.size, "dataChange": False}}


def _protocol(needs_ntz: bool, is_new: bool) -> dict[str, Any]:
    """Return the oldest protocol for a table, which most readers support."""
    if not needs_ntz:
        return {"minReaderVersion": 1, "minWriterVersion": 4}
    features = ("changeDataFeed",) if is_new else _LEGACY  # those that the old writer version implied
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["timestampNtz"],
        "writerFeatures": [*features, "timestampNtz"],
    }


def _has_ntz(schema: pa.Schema) -> bool:
    return '"timestamp_ntz"' in published_schemas.to_json(schema)


def _file_of(action: Mapping[str, Any], names: list[str]) -> TableFile:
    low, high, nulls = (action.get(key) or {} for key in ("min", "max", "null_count"))
    columns = {name: Range(low.get(name), high.get(name), nulls.get(name)) for name in names}
    values = action.get("partition") or {}
    partition = {name: str(value) for name, value in values.items()}
    path, rows, size = unquote(action["path"]), action["num_records"], action["size_bytes"]
    return TableFile(path, rows, size, columns, partition)


def _bound(value: Any) -> int:
    return int(value)


def _log_number(path: str) -> int:
    """Return the number in the name of a file of a log; names without one are older than all."""
    digits = path.rpartition("/")[2].partition(".")[0]
    return int(digits) if digits.isdigit() else -1
