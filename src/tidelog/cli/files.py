"""Files that are written whole or not at all: one of them, or several together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.cli.messages import Messages
from tidelog.cli.terminal import show
from tidelog.errors import DataError, Diagnostic
from tidelog.io.atomic import replacing


class Staging:
    """Files written under other names, and the places they are for. Mutable while they are written."""

    def __init__(self, inputs: frozenset[Path]) -> None:
        self.places: dict[Path, Path] = {}
        self._inputs = inputs
        self._folders: list[Path] = []

    def file(self, path: Path) -> Path:
        """Where to write what will be the file `path`, which must be none of the inputs."""
        if path.resolve() in self._inputs:
            raise _cannot_write(path, "its facts were read from there")
        self._make_folder(path.parent)
        if path.is_dir():
            raise _cannot_write(path, "it is a folder")
        staged = path.with_name(f".{path.name}.{os.getpid()}.staged")
        self.places[path] = staged
        return staged

    def _make_folder(self, folder: Path) -> None:
        missing = []
        for parent in (folder, *folder.parents):
            if parent.exists():
                break
            missing.append(parent)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error.strerror or str(error)) from error
        self._folders += missing

    def settle(self) -> None:
        """Give all files their own names."""
        for path, staged in self.places.items():
            try:
                staged.replace(path)
            except OSError as error:
                raise _cannot_write(path, error.strerror or str(error)) from error

    def clear(self) -> None:
        """Remove what was written and the folders made for it."""
        for staged in self.places.values():
            staged.unlink(missing_ok=True)
        for folder in self._folders:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


@contextmanager
def staging(inputs: frozenset[Path] = frozenset()) -> Iterator[Staging]:
    """Files that get their names when the block ends well; else nothing of them is left."""
    staged = Staging(inputs)
    try:
        yield staged
        staged.settle()
    except BaseException:
        staged.clear()
        raise


def write_text(text: str, path: Path | None, messages: Messages) -> None:
    """Write the text to a file, or to standard output if there is none."""
    if path is None:
        show(text, end="")
        return
    with replacing(path) as stream:
        stream.write(text.encode())
    messages.say(f"wrote {path}")


def _cannot_write(path: Path, reason: str) -> DataError:
    return DataError(Diagnostic("E515", f"`{path}` cannot be written: {reason.lower()}", place=str(path)))
