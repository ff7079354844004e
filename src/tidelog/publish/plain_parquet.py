"""Plain Parquet: each version of a table is a list of files, in a small file of JSON.

A table's folder has its Parquet files and `_snapshots/<number>.json`, a list of those that a version has;
`_versions/<number>.json` is the version. Needs no package but pyarrow, to write or to read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import pyarrow as pa

from tidelog.errors import DataError, Diagnostic, codes
from tidelog.publish import published_schemas
from tidelog.publish import table_files as files
from tidelog.publish.object_storage import StorageFolder, folder_name
from tidelog.publish.published_schemas import VERSIONS, PublishedVersion, TableVersion
from tidelog.publish.table_files import BOTH, CHANGES, ChangeFile, TableFile, TablePlan

SNAPSHOTS: Final = "_snapshots"


class SnapshotTables:
    """The tables of a folder as lists of Parquet files."""

    format = "parquet"
    metadata = SNAPSHOTS
    needs_a_file = True

    def __init__(self, folder: StorageFolder) -> None:
        self._folder = folder

    def changes_folder(self, table: str) -> StorageFolder:
        """Return the folder of change files of a table."""
        return self._folder.below(f"{CHANGES}/{folder_name(table)}")

    # ---- tables

    def commit(self, plan: TablePlan, base: TableVersion | None, number: int) -> int:
        """Write the list of a table's files, which is not read before the version is published."""
        record = {
            "schema": json.loads(published_schemas.to_json(plan.schema)),
            "files": [
                {"path": file.path, "size": file.size, "statistics": files.statistics_json(file)}
                for file in plan.files
            ],
            "changes": None if plan.changes is None else [file.path for file in plan.changes],
        }
        content = json.dumps(record, ensure_ascii=False, indent=1).encode()
        self._folder_of(plan.table).write(_snapshot(number), content)
        return number

    def restore(self, table: str, base: TableVersion | None, number: int) -> None:
        """Delete the list of a version that is not published."""
        self._folder_of(table).remove(_snapshot(number))

    def files(self, version: TableVersion) -> tuple[TableFile, ...]:
        """Return the data files of a version."""
        return self._files(version.name, self._record(version), version.schema)

    def _files(self, table: str, record: Mapping[str, Any], schema: pa.Schema) -> tuple[TableFile, ...]:
        return tuple(
            files.file_of_json(file["path"], file["size"], file["statistics"], schema)
            for file in record["files"]
        )

    def changes(self, version: TableVersion, before: TableVersion | None) -> tuple[ChangeFile, ...]:
        """Return the files with the changes of one version: those in its list, or else the replaced files."""
        folder, number = self._folder_of(version.name), version.changed_in
        record = self._record(version)
        if record["changes"] is not None:
            folder = self.changes_folder(version.name)
            return tuple(ChangeFile(folder.location(path), BOTH, number) for path in record["changes"])
        new = {file.path for file in self.files(version) if file.rows}
        old = {file.path for file in self.files(before) if file.rows} if before else set()
        return files.files_of_difference(folder, new, old, number)

    # ---- versions

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all published versions, which are names of files."""
        names = (stored.path.removesuffix(".json") for stored in self._folder.below(VERSIONS).listed())
        return tuple(sorted(int(name) for name in names if name.isdigit()))

    def version(self, number: int | None) -> PublishedVersion | None:
        """Return a published version."""
        if number is None:
            numbers = self.numbers()
            if not numbers:
                return None
            number = numbers[-1]
        content = self._folder.read(_version(number))
        return PublishedVersion.from_json(json.loads(content)) if content else None

    def versions(self, first: int, last: int) -> tuple[PublishedVersion, ...]:
        """Return the published versions in a range."""
        candidates = (self.version(number) for number in self.numbers() if first <= number <= last)
        return tuple(version for version in candidates if version is not None)

    def version_files(self) -> Collection[str]:
        """Return the files of all published versions."""
        return {_version(number).removeprefix(VERSIONS + "/") for number in self.numbers()}

    def publish(self, version: PublishedVersion) -> None:
        """Create the file of a version; raise a diagnostic if there is one already."""
        content = json.dumps(version.to_json(), ensure_ascii=False, indent=1).encode()
        try:
            self._folder.create(_version(version.number), content)
        except FileExistsError as error:
            message = f"another process has published version {version.number} at `{self._folder.address}`"
            help_line = "only one process can write at a time"
            raise DataError(Diagnostic(codes.CONFLICT, message, help=help_line)) from error

    def settle(self) -> None:
        """Do nothing: there are no logs."""

    def forget(self, kept: tuple[PublishedVersion, ...]) -> None:
        """Delete the files of other versions, and the lists that only these name."""
        for number in self.numbers():
            if number < kept[0].number:
                self._folder.remove(_version(number))
        named: dict[str, set[str]] = {}
        for version in kept:
            for name, table in version.all_tables.items():
                named.setdefault(name, set()).add(_snapshot(table.format_version))
        for name, lists in named.items():
            folder = self._folder_of(name)
            for stored in folder.below(SNAPSHOTS).listed():
                if f"{SNAPSHOTS}/{stored.path}" not in lists:
                    folder.remove(f"{SNAPSHOTS}/{stored.path}")

    def _folder_of(self, table: str) -> StorageFolder:
        return self._folder.below(folder_name(table))

    def _record(self, version: TableVersion) -> Mapping[str, Any]:
        folder = self._folder_of(version.name)
        content = folder.read(_snapshot(version.format_version))
        if content is None:
            place = folder.location(_snapshot(version.format_version))
            message = f"`{place}` is missing, though a version names it"
            raise DataError(Diagnostic(codes.PUBLISH_DAMAGED, message, place=place))
        record: Mapping[str, Any] = json.loads(content)
        return record


def _snapshot(number: int) -> str:
    return f"{SNAPSHOTS}/{number:08d}.json"


def _version(number: int) -> str:
    return f"{VERSIONS}/{number:08d}.json"
