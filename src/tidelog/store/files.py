"""The calls of the operating system that stores rely on: what they wrote is there after a crash.

All writing of stores goes through these few functions, so that tests can let each of them fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """All bytes are given to the operating system."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(descriptor, rest) :]


def sync(descriptor: int) -> None:
    """The content of an open file is on the disk."""
    os.fdatasync(descriptor)


def sync_folder(path: Path) -> None:
    """The names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(path: Path, name: Path) -> None:
    """A file has another name, on the disk too; one that had it before is gone."""
    path.replace(name)
    sync_folder(name.parent)


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Faults of the operating system in the block are `DataError`s that name the file."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"the store cannot be written to: {reason}"
        help = "nothing was changed; make room, or see to the permissions of the folder"
        raise DataError(Diagnostic(codes.NOT_WRITTEN, message, place=str(path), help=help)) from error


def damaged(path: Path, message: str, help: str | None = None) -> DataError:
    """That a file is not what it should be."""
    advice = help or f"`tidelog store check {path.parent}` says what can be recovered"
    return DataError(Diagnostic(codes.DAMAGED, message, place=str(path), help=advice))
