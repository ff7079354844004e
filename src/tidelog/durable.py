"""Files that are complete or absent after a crash: one way to write, sync, rename and lock them.

`write_bytes` and `replacing` are for what must survive a power failure; `replacing_text` is for outputs,
which are complete or absent but not synced. Everything durable goes through the single operations at the top,
so that tests can make any of them fail, or end the process at any of them.
"""

from __future__ import annotations

import fcntl
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast
from weakref import WeakSet

from tidelog.errors import DataError, Diagnostic, codes


def create(path: Path, *, truncate: bool = True) -> int:
    """Open a file for reading and writing, create it if it is missing, and return its descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if truncate else 0), 0o666)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all bytes at the position of the file."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(descriptor, rest) :]


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write all bytes at an offset."""
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], offset + done)


def truncate(descriptor: int, size: int) -> None:
    """Cut a file to a size, and move to its end."""
    os.ftruncate(descriptor, size)
    os.lseek(descriptor, size, os.SEEK_SET)


def sync(descriptor: int) -> None:
    """Sync the content of an open file to the disk."""
    os.fdatasync(descriptor)


def sync_folder(path: Path) -> None:
    """Sync the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, name: Path) -> None:
    """Give a file or a folder another name; a file that had it before is deleted."""
    path.replace(name)


def remove(path: Path) -> None:
    """Delete a file if it exists."""
    path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Create a folder in an existing folder."""
    path.mkdir(exist_ok=True)


def rename(path: Path, name: Path) -> None:
    """Give a file or a folder another name, and sync that."""
    replace(path, name)
    sync_folder(name.parent)
    if path.parent != name.parent:
        sync_folder(path.parent)


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents, and sync them."""
    for folder in reversed((path, *path.parents)):
        if not folder.is_dir():
            make_folder(folder)
            sync_folder(folder.parent)


def sync_file(path: Path) -> None:
    """Sync the content of a file to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[int]:
    """Yield a descriptor whose bytes become the file `path`, synced, if the block ends without an exception.

    Until then, and after any exception, the file is what it was before.
    """
    temporary = temporary_of(path)
    try:
        descriptor = create(temporary)
        try:
            yield descriptor
            sync(descriptor)
        finally:
            os.close(descriptor)
        rename(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def temporary_of(path: Path) -> Path:
    """The name under which a file is written before it is renamed."""
    return path.with_name(f".{path.name}.tmp")


def write_bytes(path: Path, data: bytes) -> None:
    """Make these bytes the content of a file, whole or not at all."""
    with replacing(path) as descriptor:
        write_all(descriptor, data)


def write_text(path: Path, text: str) -> None:
    """Make this text the content of a file, whole or not at all."""
    write_bytes(path, text.encode())


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file, on the disk when this returns.

    It is written in one call to a file that is open for appending, so that lines of two processes do not mix.
    An unfinished line before it, left by a crash, is ended first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        is_unfinished = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        write_all(descriptor, b"\n" * is_unfinished + line + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HeldError(Exception):
    """Raised if the lock is held, by another process or this one; `holder` is what the file says."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class FileLock:
    """A lock on a file, held by one process until it releases the lock or ends, however it ends.

    Processes that fork from the holder do not hold it: they close their descriptor at once, so that the lock
    does not outlive the holder in them, and nothing they do releases it.
    """

    def __init__(self, path: Path, holder: str) -> None:
        """Take the lock and write `holder` into the file; raise `HeldError` without waiting if it is held."""
        self._descriptor = create(path, truncate=False)
        self._process = os.getpid()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.read(self._descriptor, 1000).decode(errors="replace").strip()
            self._close()
            raise HeldError(other) from None
        except BaseException:
            self._close()
            raise
        _HELD.add(self)
        self._sign(holder)

    def _sign(self, holder: str) -> None:
        """Write who holds the lock, unless the disk is full: it is for messages only."""
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{holder}\n".encode(), 0)
        except OSError:
            pass

    @property
    def is_held(self) -> bool:
        """Whether this process has the lock."""
        return self._descriptor >= 0 and self._process == os.getpid()

    def release(self) -> None:
        """Release the lock; do nothing in a process that does not hold it."""
        if self.is_held:
            # Closing is not enough: another process may have a copy of the descriptor.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_HELD: WeakSet[FileLock] = WeakSet()


def _leave_to_parent() -> None:
    """Close the descriptors of the parent's locks in a forked process."""
    for lock in list(_HELD):
        lock._close()
    _HELD.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@contextmanager
def replacing_text(path: Path, compressed: bool = False) -> Iterator[IO[bytes]]:
    """Yield a stream whose bytes become the file `path` if the block ends without an exception."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device
            with path.open("wb") as device, compressing(device, compressed) as inner:
                yield inner
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(path.resolve()) as stream, compressing(stream, compressed) as inner:
            yield inner
    except OSError as error:
        message = f"`{path}` cannot be written: {error.strerror or error}"
        raise DataError(Diagnostic(codes.NOT_WRITABLE, message, place=str(path))) from error


@contextmanager
def _temporary(path: Path) -> Iterator[IO[bytes]]:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
        temporary.replace(path)
    finally:  # also for Ctrl-C; after the renaming it is missing
        temporary.unlink(missing_ok=True)


@contextmanager
def compressing(stream: IO[bytes], compressed: bool) -> Iterator[IO[bytes]]:
    """Yield the stream, or one that compresses into it: equal content gives equal bytes."""
    if not compressed:
        yield stream
        return
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=stream, mtime=0) as inner:
        yield cast(IO[bytes], inner)
