"""What a program may read and write: files in folders that are allowed, wherever links and `..` lead.

Every path that a program writes down, in `@include`, `@import` or `@export`, becomes a file to be opened in
`Sandbox.to_read` or `Sandbox.to_write`. Files that a user names, such as data files and the program itself,
are the user's own choice, and are not looked at here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidelog.errors import DataError, Diagnostic, Span

NOT_ALLOWED = "E529"
Folders = Path | str | Iterable[Path | str] | None


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The folders in which a program may read and write, without links; None is everywhere."""

    read: tuple[Path, ...] | None = None
    write: tuple[Path, ...] | None = None

    @staticmethod
    def of(allow_read: Folders = None, allow_write: Folders = None) -> Sandbox:
        """Return the sandbox of these folders: where only one of the two is given, the other is nowhere."""
        if allow_read is None and allow_write is None:
            return OPEN
        return Sandbox(_real_folders(allow_read), _real_folders(allow_write))

    def to_read(self, path: Path, span: Span | None = None) -> Path:
        """Return the file to open for reading; raises `DataError` if it is outside of what is allowed."""
        return _inside(path, self.read, "read", span)

    def to_write(self, path: Path, span: Span | None = None, output: Path | None = None) -> Path:
        """Return the file to open for writing, which lies in `output` or in a folder that is allowed.

        Without a folder for output, and with nothing restricted, it may be anywhere.
        """
        folders = self.write
        if output is not None:
            folders = (*(folders or ()), *_real_folders(output))
        return _inside(path, folders, "write", span)


OPEN = Sandbox()  # everything is allowed


def _inside(path: Path, folders: tuple[Path, ...] | None, verb: str, span: Span | None) -> Path:
    """Return the path, which holds no links and `..` then, if it lies in one of the folders or is one."""
    if folders is None:
        return path
    try:
        real = Path(os.path.realpath(path))
    except (OSError, ValueError):  # no path at all, such as one with a null character
        real = None
    if real is not None and os.path.realpath(real) != str(real):
        real = None  # behind a link that leads to itself, Python leaves links as they are
    if real is not None and any(real.is_relative_to(folder) for folder in folders):
        # No link is followed again when the file is opened; where there is none, it is called as it was.
        plain = Path(os.path.normpath(path))
        return plain if plain.absolute() == real else real
    meant = "" if real is None or real == path.absolute() else f", which is `{real}`"
    message = f"the program may not {verb} `{path}`{meant}"
    folder = "DIR" if real is None else str(real.parent)
    help = f"if it should, allow it with `--allow-{verb} {folder}`, in Python `allow_{verb}=[{folder!r}]`"
    raise DataError(Diagnostic(NOT_ALLOWED, message, span, help))


def _real_folders(folders: Folders) -> tuple[Path, ...]:
    if folders is None:
        return ()
    several = [folders] if isinstance(folders, Path | str) else folders
    return tuple(Path(os.path.realpath(folder)) for folder in several)
