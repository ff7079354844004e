"""The fields of plain delimited text, found eight bytes at a time, without copying them.

Only the plainest text is read here: no quotes, no carriage returns, all lines of the same number of fields.
The fields become Arrow views into the block, ready for the dictionary. Anything else is left to the careful
ways of `io.delimited`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.compiled import bytes_at, inlined, int32_at, kernel, load64, trailing_zeros

LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
HIGH_BITS = np.uint64(0x8080808080808080)
ONES = np.uint64(0x0101010101010101)
NEW_LINE = 10
MOST_BYTES = 1 << 31  # a view's offset has 32 bits
IRREGULAR = -1


@kernel
def count_byte(address: Any, length: Any, byte: Any) -> Any:
    """How often a byte occurs."""
    text = bytes_at(address, length)
    count = np.int64(0)
    for position in range(length):
        count += text[position] == byte
    return count


def count_new_lines(block: bytes | bytearray) -> int:
    """How many lines end in the block with a line feed."""
    return int(count_byte(pa.py_buffer(block).address, len(block), NEW_LINE))


@inlined
def zero_bytes(word: Any) -> Any:
    """The highest bit of each byte of the word that is zero."""
    return ~(((word & LOW_BITS) + LOW_BITS) | word | LOW_BITS)


@inlined
def write_view(views: Any, place: Any, text: Any, start: Any, end: Any) -> None:
    """Write the view of a field; short fields stand in the view itself."""
    length = end - start
    views[place] = length
    if length <= 12:
        word = np.int64(0)
        for index in range(12):
            if index % 4 == 0:
                word = np.int64(0)
            if index < length:
                word |= np.int64(text[start + index]) << (8 * (index % 4))
            if index % 4 == 3:
                views[place + 1 + index // 4] = np.int32(word)
    else:
        word = np.int64(0)
        for index in range(4):
            word |= np.int64(text[start + index]) << (8 * index)
        views[place + 1] = np.int32(word)
        views[place + 2] = 0
        views[place + 3] = start


@kernel
def split_fields(
    address: Any, length: Any, delimiter: Any, columns: Any, rows: Any, wanted: Any, views: Any
) -> Any:
    """Write a view of every wanted field; returns 0, 1 if a byte is not ASCII, or IRREGULAR.

    `wanted` holds, for each column, which block of `views` it goes to, or -1.
    """
    text = bytes_at(address, length)
    out = int32_at(views, 4 * rows * (wanted.max() + 1))
    pattern = ONES * np.uint64(delimiter)
    line_pattern = ONES * np.uint64(NEW_LINE)
    seen = np.uint64(0)
    start = np.int64(0)
    column = np.int64(0)
    row = np.int64(0)
    position = np.int64(0)
    while position < length:
        if position + 8 <= length:
            word = load64(address + position)
        else:
            word = np.uint64(0)
            for index in range(length - position):
                word |= np.uint64(text[position + index]) << np.uint64(8 * index)
        seen |= word
        found = zero_bytes(word ^ pattern) | zero_bytes(word ^ line_pattern)
        while found != 0:
            end = position + (np.int64(trailing_zeros(found)) >> 3)
            found &= found - np.uint64(1)
            if end >= length:
                break
            is_line = text[end] == NEW_LINE
            if is_line != (column == columns - 1) or (columns == 1 and end == start):
                return IRREGULAR
            if wanted[column] >= 0:
                write_view(out, 4 * (wanted[column] * rows + row), text, start, end)
            start = end + 1
            if is_line:
                column = np.int64(0)
                row += 1
            else:
                column += 1
        position += 8
    if start < length or column > 0:  # the last line has no end
        if column != columns - 1:
            return IRREGULAR
        if wanted[column] >= 0:
            write_view(out, 4 * (wanted[column] * rows + row), text, start, length)
        row += 1
    if row != rows:
        return IRREGULAR
    return 1 if (seen & HIGH_BITS) != 0 else 0


def text_views(
    block: bytes | bytearray, lines: int, delimiter: str, columns: int, wanted: Sequence[int]
) -> list[Any] | None:
    """The wanted columns of a block in which `lines` lines end, as Arrow views; None if it is not plain."""
    if len(block) >= MOST_BYTES or b'"' in block or b"\r" in block or not wanted:
        return None
    rows = lines + (not block.endswith(b"\n"))
    places = np.full(columns, -1, np.int64)
    places[list(wanted)] = np.arange(len(wanted))
    views = np.empty(4 * rows * len(wanted), np.int32)
    buffer = pa.py_buffer(block)
    answer = split_fields(
        buffer.address, len(block), ord(delimiter), columns, rows, places, views.ctypes.data
    )
    if answer == IRREGULAR or (answer == 1 and not _is_utf8(block)):
        return None
    kept = pa.py_buffer(views)
    size = 16 * rows
    return [
        pa.Array.from_buffers(pa.string_view(), rows, [None, kept.slice(place * size, size), buffer])
        for place in range(len(wanted))
    ]


def _is_utf8(block: bytes | bytearray) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True
