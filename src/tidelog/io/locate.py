"""On which line of a file a row stands, found by looking when somebody asks: nothing is kept while loading.

Lines that have the texts of the row's values in them are read by the reader of the file's format, each as a
file of its own, until one of them is the row. A row that is written over several lines, or with numbers that
are not written as usual, is not found.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import IO

import numpy as np

from tidelog.errors import TidelogError
from tidelog.io.columns import Batch
from tidelog.io.source import DataFile, Header
from tidelog.io.tables import read
from tidelog.logic.values import Kind, Value

BY_LINES = frozenset({"csv", "tsv", "dsv", "jsonl", "ntriples", "nquads"})
LARGEST = 256 << 20  # bytes of a file that is searched
MOST_READ = 100  # lines that are read before the search is given up
TEXTS = (Kind.IRI, Kind.STRING)
IsRow = Callable[[Batch], bool]


@dataclass(frozen=True)
class OneLine(DataFile):
    """A file of which only some lines are read."""

    text: bytes = b""

    def open(self) -> IO[bytes]:
        """The lines."""
        return io.BytesIO(self.text)


def line_of(file: DataFile, values: Sequence[Value], is_row: IsRow) -> int | None:
    """The line on which a file has a row, if it is found; `is_row` knows the row when it is read."""
    if file.path is None or file.compressed or file.format not in BY_LINES:
        return None
    needles = sorted((each for each in map(_written, values) if each), key=len, reverse=True)
    try:
        if not needles or not 0 < file.path.stat().st_size <= LARGEST:
            return None
        with file.path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _search(file, data, needles, is_row)
    except OSError:  # it is no longer there, or no longer ours to read
        return None


def _written(value: Value) -> bytes | None:
    """How a value is written in a file, if there is but one usual way."""
    if value.kind is Kind.INTEGER:
        return str(value.content).encode()
    if value.kind in TEXTS and isinstance(value.content, str) and value.content.isascii():
        return (
            value.content.encode()
            if value.content.isprintable() and not set('"\\') & set(value.content)
            else None
        )
    return None


def _search(file: DataFile, data: mmap.mmap, needles: Sequence[bytes], is_row: IsRow) -> int | None:
    """The line of the row, in a file that has all needles on it."""
    first = data[: max(data.find(b"\n"), 0) + 1] if file.header is not Header.NONE else b""
    known = {field.name: getattr(file, field.name) for field in fields(DataFile)}
    for tried, (start, end) in enumerate(_lines_with(data, needles)):
        if tried == MOST_READ:
            return None
        before = b"" if start < len(first) else first
        if _is_there(OneLine(**known, text=before + data[start:end]), is_row):
            return 1 + int(np.count_nonzero(np.frombuffer(data[:start], np.uint8) == ord("\n")))
    return None


def _lines_with(data: mmap.mmap, needles: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Where the lines begin and end that have all needles on them."""
    longest, *others = needles
    place = data.find(longest)
    while place >= 0:
        start = data.rfind(b"\n", 0, place) + 1
        found = data.find(b"\n", place)
        end = found + 1 if found >= 0 else len(data)
        line = data[start:end]
        if all(other in line for other in others):
            yield start, end
        place = data.find(longest, end)


def _is_there(file: OneLine, is_row: IsRow) -> bool:
    try:
        return any(is_row(batch) for batch in read(file))
    except TidelogError:  # a part of a record, or a header
        return False
