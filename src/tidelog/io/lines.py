"""Text read in blocks of whole lines, into memory that is used again, and lines changed as they are written.

Mutates its buffers and what it keeps.

Touching new memory costs more than reading a file into it. A buffer is filled again once nobody looks at the
block that it held: Python lets no `bytearray` change its size while others look at it, which tells.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import IO, Any

MOST_KEPT = 3  # the block being read, and those that consumers still look at
MANY_BYTES = 1 << 29

_kept: list[bytearray] = []  # buffers of earlier blocks; `pop` and `append` are safe between threads


class LineReader:
    """A stream as blocks that end where a line ends, or where the stream does."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._rest = b""  # what was read beyond the last block

    def read(self, size: int, before: bytes = b"") -> memoryview:
        """`before` and the lines after it, about `size` bytes and at least one line unless there are none."""
        start = before + self._rest
        self._rest = b""
        room = len(start) + min(size, remaining_bytes(self._stream) + 1)
        while True:
            buffer = _take(room)
            buffer[: len(start)] = start
            end = self._fill(buffer, len(start), room)
            is_last = end < room
            cut = end if is_last else buffer.rfind(b"\n", len(before), end) + 1
            if is_last or cut:
                self._rest = bytes(buffer[cut:end])
                _keep(buffer)
                return memoryview(buffer)[:cut]
            start = bytes(buffer[:end])
            room = 2 * end

    def _fill(self, buffer: bytearray, end: int, room: int) -> int:
        """Read until the room is full or the stream ends; returns where what was read ends."""
        with memoryview(buffer) as view:
            while end < room and (count := self._stream.readinto(view[end:room])):  # type: ignore[attr-defined]
                end += count
        return end


def remaining_bytes(stream: IO[bytes]) -> int:
    """How many bytes a plain file still has; many for any other stream."""
    if not isinstance(stream, io.BufferedReader):
        return MANY_BYTES
    try:
        size = os.fstat(stream.fileno()).st_size
        return size - stream.tell() if size else MANY_BYTES
    except OSError:
        return MANY_BYTES


def _take(room: int) -> bytearray:
    """A buffer with this room that nobody looks at."""
    for _ in range(len(_kept)):
        try:
            buffer = _kept.pop(0)
        except IndexError:  # another thread has taken it
            break
        if len(buffer) >= room and _is_free(buffer):
            return buffer
        _kept.append(buffer)
    buffer = bytearray(room + room // 16 + 1)  # the next block may begin with more that is left over
    buffer.pop()  # room for the byte by which `_is_free` asks
    return buffer


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True


def _keep(buffer: bytearray) -> None:
    _kept.append(buffer)
    del _kept[:-MOST_KEPT]


class ChangedLines(io.RawIOBase):
    """A stream that writes whole lines to another one, changed by a function; it may be given several."""

    def __init__(self, stream: IO[bytes], change: Callable[[bytes], bytes]) -> None:
        self._stream = stream
        self._change = change
        self._left = b""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write whole lines; what is left of one waits for its end."""
        whole, end, self._left = (self._left + bytes(data)).rpartition(b"\n")
        self._stream.write(self._change(whole + end))
        return len(data)

    def flush(self) -> None:
        """Write what is left."""
        left, self._left = self._left, b""
        self._stream.write(self._change(left))
        self._stream.flush()
