"""What a table format does for a published folder: commit files, list those of a version, and go back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from tidelog.publish.files import DataFile
from tidelog.publish.object_storage import Folder
from tidelog.publish.versions import TableVersion, Version

INSERT, DELETE, BOTH = "insert", "delete", "both"
CHANGES: Final = "_changes"  # the folder of change files, where the format has no place of its own


@dataclass(frozen=True)
class ChangeFile:
    """A file with rows that a version has inserted or deleted.

    `kind` is `insert` or `delete` for all rows of a data file, or `both` for a file that has a column
    `_change_type`. `location` is a path or an address.
    """

    location: str
    kind: str
    number: int  # of the published version


@dataclass(frozen=True)
class Plan:
    """What a table becomes: all files of its next version, and the exact change if the files do not tell it.

    `changes` are change files, by their paths below the folder of these; None means that the rows of added
    files are inserted, and those of removed files deleted.
    """

    table: str
    schema: pa.Schema
    files: tuple[DataFile, ...]
    changes: tuple[DataFile, ...] | None = None
    is_dropped: bool = False


class Tables(Protocol):
    """The tables of a folder in one format, and its table of versions.

    A version of a table in its own format is a number; it stays readable until `vacuum`.
    """

    format: str
    metadata: str  # the folder below a table's own in which the format keeps its metadata
    needs_a_file: bool  # whether a table without rows has a file nevertheless, for its schema

    def changes_folder(self, table: str) -> Folder:
        """Return where change files of a table are."""
        ...

    def commit(self, plan: Plan, base: TableVersion | None, number: int) -> int:
        """Make files the content of a table, and return the version in the format.

        Whatever was committed after `base` and is not published is replaced.
        """
        ...

    def restore(self, table: str, base: TableVersion | None, number: int) -> None:
        """Bring a table back to a version after a commit that is not published; None: it was not there.

        `number` is that of the version that was not completed. Does nothing where nothing was committed.
        """
        ...

    def files(self, version: TableVersion) -> tuple[DataFile, ...]:
        """Return the data files of a version."""
        ...

    def changes(self, version: TableVersion, before: TableVersion | None) -> tuple[ChangeFile, ...]:
        """Return the files with what one version has changed."""
        ...

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all published versions, in order."""
        ...

    def version(self, number: int | None) -> Version | None:
        """Return a published version, the last one for None; None if it is not there."""
        ...

    def versions(self, first: int, last: int) -> tuple[Version, ...]:
        """Return the published versions from one number to another, in order."""
        ...

    def version_files(self) -> Collection[str]:
        """Return the data files of the table of versions, by their paths below its folder."""
        ...

    def publish(self, version: Version) -> None:
        """Add a version to the table of versions: from then on it is the last one."""
        ...

    def settle(self) -> None:
        """Do what may wait until a version is published, such as checkpoints of logs."""
        ...

    def forget(self, kept: tuple[Version, ...]) -> None:
        """Forget all versions but these, in the table of versions and in what the format keeps of tables.

        The versions follow one another, and the last one is the current one. Data files are deleted by the
        caller, afterwards.
        """
        ...
