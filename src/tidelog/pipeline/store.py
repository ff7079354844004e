"""The folder of published versions. A version is whole before the pointer moves to it, by a rename.

    CURRENT                      the number of the current version
    versions/7/manifest.json     what version 7 consists of
    versions/7/facts/…           files of rows, of this version and of those after it
    versions/7/rejects/…         rows that were rejected
    .lock                        held by whoever writes

Invariant: nothing that a version names is ever written again. Numbers follow one another: a folder with a
number beyond the current one was left by a writer that did not finish, and is written anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.durable import HeldError, Lock, sync_file, sync_folder, write_text
from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import Manifest, from_json, to_json

POINTER = "CURRENT"
VERSIONS = "versions"
MANIFEST = "manifest.json"
LOCK = ".lock"

Reached = Callable[[str], None]  # is told each step that has been reached


class Store:
    """A folder of published versions."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._known: dict[int, Manifest] = {}  # manifests do not change

    # ---- reading

    @property
    def number(self) -> int | None:
        """The number of the current version, None if nothing has been published."""
        pointer = self.path / POINTER
        try:
            return int(pointer.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError:
            raise _damaged(pointer, "it does not hold the number of a version") from None

    def current(self) -> Manifest | None:
        """The current version, None if nothing has been published."""
        number = self.number
        return None if number is None else self.manifest(number)

    def manifest(self, version: int | None = None) -> Manifest:
        """A version, by default the current one; raises `DataError` if there is none such."""
        number = self.number if version is None else version
        if number is None:
            help = None if self.path.is_dir() else "the folder does not exist"
            message = f"nothing has been published in `{self.path}`"
            raise DataError(Diagnostic(codes.NO_VERSION, message, place=str(self.path), help=help))
        if number not in self._known:
            self._known[number] = self._read(number)
        return self._known[number]

    def _read(self, number: int) -> Manifest:
        path = self.folder(number) / MANIFEST
        latest = self.number
        if latest is None or number > latest or not path.is_file():
            kept = self.numbers()
            help = f"there are {_ranges(kept)}" if kept else "nothing has been published there"
            message = f"there is no version {number} in `{self.path}`"
            raise DataError(Diagnostic(codes.NO_VERSION, message, place=str(self.path), help=help))
        return from_json(path.read_text(encoding="utf-8"), path)

    def numbers(self) -> tuple[int, ...]:
        """The versions that are kept, the oldest first."""
        latest = self.number
        folder = self.path / VERSIONS
        if latest is None or not folder.is_dir():
            return ()
        found = (int(child.name) for child in folder.iterdir() if child.name.isdecimal())
        return tuple(sorted(n for n in found if n <= latest and (self.folder(n) / MANIFEST).is_file()))

    def folder(self, version: int) -> Path:
        """The folder of a version's own files."""
        return self.path / VERSIONS / str(version)

    # ---- writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else writes in the block; raises `DataError` at once if somebody does."""
        path = self.path / LOCK
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            lock = Lock(path, f"process {os.getpid()}")
        except HeldError as held:
            message = f"`{self.path}` is being written to by {held.holder or 'another process'}"
            help = "wait until it is done; one job writes to a folder at a time"
            raise DataError(Diagnostic(codes.LOCKED, message, place=str(path), help=help)) from None
        try:
            yield
        finally:
            lock.release()

    def begin(self) -> int:
        """The number of the next version; its folder is empty."""
        number = (self.number or 0) + 1
        folder = self.folder(number)
        if folder.exists():  # left by a writer that did not finish
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        self._known.pop(number, None)
        return number

    def publish(self, manifest: Manifest, reached: Reached) -> None:
        """Let a version, all of whose files are on the disk, be the current one."""
        folder = self.folder(manifest.version)
        for path in (folder / "rejects").glob("*"):
            sync_file(path)
        reached("files written")
        write_text(folder / MANIFEST, to_json(manifest))
        sync_folder(folder.parent)
        reached("manifest written")
        write_text(self.path / POINTER, f"{manifest.version}\n")
        self._known[manifest.version] = manifest
        reached("published")

    def vacuum(self, keep: int, dry_run: bool = False) -> tuple[tuple[int, ...], list[Path]]:
        """Remove all but the last versions, and every file that none of those names: what goes."""
        numbers = self.numbers()
        kept, gone = numbers[-keep:], numbers[:-keep]
        needed = {self.path / path for number in kept for path in self.manifest(number).files()}
        needed |= {self.folder(number) / MANIFEST for number in kept}
        folder = self.path / VERSIONS
        files = [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]
        strays = sorted(path for path in files if path not in needed)
        if not dry_run:
            # First the manifests: a version that is listed can be read.
            for path in sorted(strays, key=lambda path: path.name != MANIFEST):
                path.unlink()
            for path in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
                if not any(path.iterdir()):
                    path.rmdir()
            self._known = {number: self._known[number] for number in kept if number in self._known}
        return gone, strays


def _damaged(path: Path, reason: str) -> DataError:
    return DataError(Diagnostic(codes.DAMAGED, f"`{path}` is damaged: {reason}", place=str(path)))


def _ranges(numbers: tuple[int, ...]) -> str:
    """`versions 3 to 7`, `version 3`, `versions 1, 4 and 5`."""
    if len(numbers) == 1:
        return f"version {numbers[0]}"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"versions {numbers[0]} to {numbers[-1]}"
    return f"versions {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
