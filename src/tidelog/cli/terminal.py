"""Standard output. On a terminal nothing in data acts on it; into files and pipes data goes as it is."""

from __future__ import annotations

import io
import sys
from typing import IO, Any, cast

from tidelog.shown import visible_lines


def show(text: str, end: str = "\n") -> None:
    """Write a text to standard output."""
    sys.stdout.write((visible_lines(text) if sys.stdout.isatty() else text) + end)


def data_output() -> IO[bytes]:
    """Return where data in UTF-8 is written to standard output."""
    stream = sys.stdout.buffer
    return cast(IO[bytes], _Visible(stream)) if sys.stdout.isatty() else stream


class _Visible(io.RawIOBase):
    """A stream of UTF-8 whose control characters are written as escapes, line by line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = b""

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: Any) -> int:
        """Write whole lines; what is left of one waits for its end."""
        whole, end, self._left = (self._left + bytes(data)).rpartition(b"\n")
        self._write(whole + end)
        return len(data)

    def flush(self) -> None:
        """Write what is left."""
        left, self._left = self._left, b""
        self._write(left)
        self._stream.flush()

    def _write(self, data: bytes) -> None:
        self._stream.write(visible_lines(data.decode("utf-8", "backslashreplace")).encode())
