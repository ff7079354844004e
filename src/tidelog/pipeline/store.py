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
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.settings import Settings, is_remote
from tidelog.publish import Published, Version
from tidelog.publish.object_storage import Folder

REJECTS = "_rejects"
INCOMING = "_incoming"
FAILED = "failed"  # how a version is called that a guard has kept from being published


class Store:
    """A published folder."""

    def __init__(
        self,
        path: Path | str,
        format: str | None = None,
        storage: Mapping[str, str] | None = None,
        beside: Path | None = None,
    ) -> None:
        """Open the folder at a path or an address; `beside` is the folder on a disk beside an address."""
        self.shown = str(path)
        self.beside = beside if is_remote(self.shown) else Path(path)
        if self.beside is not None and self.beside.is_dir():
            self._check_format(self.beside)
        if is_remote(self.shown):
            Folder.at(self.shown, storage).check()
        self.published = Published(path, format, storage)

    @property
    def path(self) -> Path:
        """The folder of state and rejected rows, on a disk; raise `DataError` if only the job knows it."""
        if self.beside is None:
            message = f"`{self.shown}` has tables only: what lies beside them is on a disk of the job"
            raise DataError(Diagnostic(codes.DAMAGED, message, help="name the job's file instead"))
        return self.beside

    def _check_format(self, path: Path) -> None:
        """Raise `DataError` for a folder of versions as they were published before there were tables."""
        if is_former(path):
            message = f"`{path}` has versions in a format of its own, which is no longer read"
            help = f"convert it, `tidelog convert {path}`, or publish into another folder"
            raise DataError(Diagnostic(codes.DAMAGED, message, place=str(path), help=help))

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
                is_missing = not is_remote(self.shown) and not Path(self.shown).is_dir()
                help = "the folder does not exist" if is_missing else None
                message = f"nothing has been published in `{self.shown}`"
                raise DataError(Diagnostic(codes.NO_VERSION, message, place=self.shown, help=help))
            return found
        if version not in self.numbers():
            numbers = self.numbers()
            known = f"there are versions {numbers[0]} to {numbers[-1]}" if numbers else "there are none"
            message = f"version {version} is not published in `{self.shown}`"
            raise DataError(Diagnostic(codes.NO_VERSION, message, place=self.shown, help=known))
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
            message = f"no version is set aside in `{self.shown}`"
            help = "a run that fails a guard or an expectation sets one aside; the next run removes it"
            raise DataError(Diagnostic(codes.NO_VERSION, message, place=self.shown, help=help))
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
            message = f"the table `{table}` in `{self.shown}` is damaged: {reason}"
            help = "restore its files from a copy, or publish everything anew into another folder"
            raise DataError(Diagnostic(codes.DAMAGED, message, place=self.shown, help=help)) from error

    def rejects(self, number: int) -> Path:
        """Return the folder for rows that a version rejects."""
        return self.path / REJECTS / str(number)

    @property
    def incoming(self) -> Path:
        """The folder for facts on their way from tasks to this process."""
        return self.path / INCOMING

    def remove_incoming(self) -> None:
        """Remove what a process has left behind that was killed."""
        shutil.rmtree(self.incoming, ignore_errors=True)

    def remove_rejects(self, numbers: Iterable[int]) -> None:
        """Remove the rows that versions have rejected, unless a later version still names them."""
        if self.beside is None:
            return
        named = {item.rejects for number in self.numbers() for item in self.manifest(number).inputs.values()}
        for number in numbers:
            folder = self.rejects(number)
            if not any(name and (self.path / name).is_relative_to(folder) for name in named):
                shutil.rmtree(folder, ignore_errors=True)

    def relative(self, path: Path) -> str:
        """Return a path as manifests name it."""
        return str(path.relative_to(self.path))


def is_former(path: Path) -> bool:
    """Whether a folder has versions as they were published before there were tables that others read."""
    return (path / "CURRENT").is_file() and (path / "versions").is_dir()


def store_of(settings: Settings) -> Store:
    """Return the published folder of a job."""
    try:
        address = settings.address(settings.publish)
        return Store(address, settings.format, settings.storage, settings.published)
    except DataError as error:
        span = settings.spans.get("publish")
        raise DataError(replace(each, span=each.span or span) for each in error.diagnostics) from error
