"""Files cut into pieces that can be read at the same time, each a file of its own to its reader.

Lines of N-Triples, N-Quads and JSON stand for themselves, so such files are cut where lines end. A delimited
file is cut only if it has no quotes, within which a line may end. All others are read whole.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import IO

from tidelog.io.formats import DELIMITED
from tidelog.io.source import DataFile, Header

LEAST_BYTES = 1 << 22  # of a piece
MOST_BYTES = 1 << 26
PIECES_PER_CORE = 2
_OF_LINES = frozenset({"ntriples", "nquads", "jsonl"})
_CHUNK = 1 << 22


@dataclass(frozen=True)
class FilePiece:
    """The lines of a file that begin from `start` on and before `end`; None is the file's end."""

    file: DataFile
    start: int = 0
    end: int | None = None

    def as_file(self) -> DataFile:
        """The piece as a file to read, anywhere: a reader elsewhere calls it by the same name."""
        given = {field.name: getattr(self.file, field.name) for field in fields(DataFile)}
        path = None if self.file.path is None else self.file.path.resolve()
        return _Part(**{**given, "path": path}, start=self.start, end=self.end, label=self.file.shown)


@dataclass(frozen=True)
class _Part(DataFile):
    """A file of which only some lines are read, after its header if it has one."""

    start: int = 0
    end: int | None = None
    label: str = ""

    @property
    def shown(self) -> str:
        """The name of the file in messages."""
        return self.label

    def open(self) -> IO[bytes]:
        """The bytes of the lines."""
        if self.start == 0 and self.end is None:
            return super().open()
        with super().open() as stream:
            header = stream.readline() if self.start and self._has_header else b""
            if self.start:
                stream.seek(self.start - 1)
                stream.readline()
            begin = stream.tell()
            if self.end is None:
                return io.BytesIO(header + stream.read())
            if begin >= self.end:
                return io.BytesIO(b"")
            body = stream.read(self.end - begin)
            return io.BytesIO(header + body + (b"" if body.endswith(b"\n") else stream.readline()))

    @property
    def _has_header(self) -> bool:
        return self.format in DELIMITED and self.header in (Header.NAMES, Header.IGNORED)


def cut_all(sources: Sequence[Sequence[DataFile]], cores: int) -> list[list[FilePiece]]:
    """The pieces of the files of each source, about as many as keep so many cores busy."""
    total = sum(_size(file) for files in sources for file in files)
    size = min(max(LEAST_BYTES, total // max(1, cores * PIECES_PER_CORE) + 1), MOST_BYTES)
    return [[piece for file in files for piece in _cut(file, size)] for files in sources]


def _size(file: DataFile) -> int:
    return file.path.stat().st_size if file.path is not None else 0


def _cut(file: DataFile, size: int) -> Sequence[FilePiece]:
    length = _size(file)
    if length <= size or not _can_be_cut(file):
        return [FilePiece(file)]
    starts = range(0, length, size)
    return [FilePiece(file, start, start + size if start + size < length else None) for start in starts]


def _can_be_cut(file: DataFile) -> bool:
    if file.compressed or file.limit is not None:
        return False
    if file.format in _OF_LINES:
        return True
    if file.format not in DELIMITED or file.header is Header.DETECTED:
        return False
    return not file.quoting or not _has_quotes(file)


def _has_quotes(file: DataFile) -> bool:
    with file.open() as stream:
        while block := stream.read(_CHUNK):
            if b'"' in block:
                return True
    return False


def line_before(piece: FilePiece) -> int:
    """How many lines of its file are before a piece's first line, a repeated header counted out."""
    if not piece.start:
        return 0
    part = piece.as_file()
    assert isinstance(part, _Part)
    lines = 0
    with DataFile.open(part) as stream:
        left = piece.start - 1
        while left > 0 and (block := stream.read(min(left, _CHUNK))):
            lines += block.count(b"\n")
            left -= len(block)
        lines += 1 if stream.readline() else 0
    return lines - (1 if part._has_header else 0)
