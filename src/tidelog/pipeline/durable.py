"""Files that are there after a crash: written, forced to the disk, and only then given their names."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes


def write_text(path: Path, text: str) -> None:
    """The text is the file's content, whole, whatever happens: before, it was what it was before."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """The content of a file is on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """The names in a folder are on the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else is in such a block for the same file; raises `DataError` at once if somebody is.

    The operating system lets go of the lock when the process ends, however it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            holder = stream.read().strip()
            who = f"process {holder}" if holder else "another process"
            message = f"`{path.parent}` is being written to by {who}"
            help = "wait until it is done; one job writes to a folder at a time"
            raise DataError(Diagnostic(codes.LOCKED, message, place=str(path), help=help)) from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield
