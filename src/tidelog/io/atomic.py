"""Files that are complete or absent: written beside their place under another name, then renamed."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from tidelog.errors import DataError, Diagnostic
from tidelog.io import codes


@contextmanager
def replacing(path: Path, compressed: bool = False) -> Iterator[IO[bytes]]:
    """A stream whose bytes are the file `path` once the block ends well; else nothing of them is left."""
    try:
        if path.exists() and not path.is_file():  # a pipe or a device takes what it is given
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
    finally:  # also for Ctrl-C; after the renaming there is nothing to remove
        temporary.unlink(missing_ok=True)


@contextmanager
def compressing(stream: IO[bytes], compressed: bool) -> Iterator[IO[bytes]]:
    """The stream itself, or one that compresses into it: the same bytes for the same content, always."""
    if not compressed:
        yield stream
        return
    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=stream, mtime=0) as inner:
        yield cast(IO[bytes], inner)
