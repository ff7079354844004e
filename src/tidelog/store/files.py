"""What is said of the files of a store when they cannot be written, or are not what they should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes
from tidelog.store.shapes import FormError


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Turn faults of the operating system in the block into `DataError`s that name the file."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"the store cannot be written to: {reason}"
        help = "nothing was changed; make room, or see to the permissions of the folder"
        raise DataError(Diagnostic(codes.NOT_WRITTEN, message, place=str(path), help=help)) from error


def damaged(path: Path, message: str, help: str | None = None) -> DataError:
    """Return the error that a file is not what it should be."""
    advice = help or f"`tidelog store check {path.parent}` says what can be recovered"
    return DataError(Diagnostic(codes.DAMAGED, message, place=str(path), help=advice))


def check_version(path: Path, version: int, known: int) -> None:
    """Raise `DataError` if this version of tidelog does not read a format yet."""
    if version > known:
        message = f"the store has format {version}, and this tidelog reads up to {known}"
        help = "open it with a newer tidelog, or let that write its facts: `tidelog store export DIR`"
        raise DataError(Diagnostic(codes.NEWER, message, place=str(path), help=help))


@contextmanager
def understood(path: Path, what: str = "the snapshot") -> Iterator[None]:
    """Turn what is wrong with a form that is read in the block into a `DataError` that names the file."""
    try:
        yield
    except FormError as error:
        raise damaged(path, f"{what} says what cannot be: {error}") from error


def is_newer(error: DataError) -> bool:
    """Return whether an error is that a store has a newer format: nothing is wrong with it."""
    return error.diagnostics[0].code == codes.NEWER
