"""Standard output. On a terminal nothing in data acts on it; into files and pipes data goes as it is."""

from __future__ import annotations

import sys
from typing import IO, cast

from tidelog.io.lines import ChangedLines
from tidelog.shown import visible_lines


def show(text: str, end: str = "\n") -> None:
    """Write a text to standard output."""
    sys.stdout.write((visible_lines(text) if sys.stdout.isatty() else text) + end)


def data_output() -> IO[bytes]:
    """Return where data in UTF-8 is written to standard output."""
    stream = sys.stdout.buffer
    return cast(IO[bytes], ChangedLines(stream, _visible)) if sys.stdout.isatty() else stream


def _visible(lines: bytes) -> bytes:
    return visible_lines(lines.decode("utf-8", "backslashreplace")).encode()
