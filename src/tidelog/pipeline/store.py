"""The published folder of a job: its versions, and what lies beside their tables.

reach/, hops/ …     a table for each predicate
_versions/          which version of each table belongs together
_state/             the reasoner of the current version
_rejects/7/         rows that version 7 has rejected
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import Manifest
from tidelog.publish import Published, Version

REJECTS = "_rejects"
FAILED = "failed"  # how a version is called that a guard has kept from being published


class Store:
    """A published folder."""

    def __init__(
        self, path: Path | str, format: str | None = None, storage: Mapping[str, str] | None = None
    ) -> None:
        self.path = Path(path)
        self._check_format()
        self.published = Published(path, format, storage)

    def _check_format(self) -> None:
        """Raise `DataError` for a folder of versions as they were published before there were tables."""
        if (self.path / "CURRENT").is_file() and (self.path / "versions").is_dir():
            message = f"`{self.path}` has versions in a format of its own, which is no longer read"
            help = "publish into another folder: the job derives everything from its sources"
            raise DataError(Diagnostic(codes.DAMAGED, message, place=str(self.path), help=help))

    @property
    def number(self) -> int | None:
        """The number of the current version, None if nothing has been published."""
        return None if self.published.is_empty else self.published.current().number

    def current(self) -> Manifest | None:
        """Return the current version, None if nothing has been published."""
        return None if self.published.is_empty else Manifest.of(self.published.current())

    def manifest(self, version: int | None = None) -> Manifest:
        """Return a version, by default the current one; raise `DataError` if there is none such."""
        if version is None:
            found = self.current()
            if found is None:
                help = None if self.path.is_dir() else "the folder does not exist"
                message = f"nothing has been published in `{self.path}`"
                raise DataError(Diagnostic(codes.NO_VERSION, message, place=str(self.path), help=help))
            return found
        if version not in self.numbers():
            numbers = self.numbers()
            known = f"there are versions {numbers[0]} to {numbers[-1]}" if numbers else "there are none"
            message = f"version {version} is not published in `{self.path}`"
            raise DataError(Diagnostic(codes.NO_VERSION, message, place=str(self.path), help=known))
        return Manifest.of(self.published.version(version))

    def failed(self) -> Manifest | None:
        """Return the version that the last run has set aside, as a guard failed; None if there is none."""
        found = self.published.failed()
        return None if found is None else Manifest.of(found)

    def looked_at(self, version: int | str | None = None) -> Manifest:
        """Return a version, or the one that was set aside if it is `failed`; raise `DataError` without it."""
        if version != FAILED:
            assert not isinstance(version, str), "only a version that failed has a name"
            return self.manifest(version)
        found = self.failed()
        if found is None:
            message = f"no version is set aside in `{self.path}`"
            help = "a run that fails a guard or an expectation sets one aside; the next run removes it"
            raise DataError(Diagnostic(codes.NO_VERSION, message, place=str(self.path), help=help))
        return found

    def numbers(self) -> tuple[int, ...]:
        """Return the versions that are kept, the oldest first."""
        return self.published.numbers()

    def read(self, table: str, version: int | Version) -> pa.Table:
        """Return the rows of a table."""
        with self._understood(table):
            return self.published.read(table, version)

    def changes(self, table: str, after: int, upto: int) -> pa.Table:
        """Return the rows of a table that changed after a version, as `Published.changes` does."""
        with self._understood(table):
            return self.published.changes(table, after, upto)

    @contextmanager
    def _understood(self, table: str) -> Iterator[None]:
        """Tell of files that are missing, or are not what they should be."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            message = f"the table `{table}` in `{self.path}` is damaged: {reason}"
            help = "restore its files from a copy, or publish everything anew into another folder"
            raise DataError(Diagnostic(codes.DAMAGED, message, place=str(self.path), help=help)) from error

    def rejects(self, number: int) -> Path:
        """Return the folder for rows that a version rejects."""
        return self.path / REJECTS / str(number)

    def remove_rejects(self, numbers: Iterable[int]) -> None:
        """Remove the rows that versions have rejected, unless a later version still names them."""
        named = {item.rejects for number in self.numbers() for item in self.manifest(number).inputs.values()}
        for number in numbers:
            folder = self.rejects(number)
            if not any(name and (self.path / name).is_relative_to(folder) for name in named):
                shutil.rmtree(folder, ignore_errors=True)

    def relative(self, path: Path) -> str:
        """Return a path as manifests name it."""
        return str(path.relative_to(self.path))
