"""Fields of delimited text and terms of plain N-Triples, found without copying them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.compiled import (
    bytes_at,
    count_ones,
    high_bytes,
    inlined,
    int64_at,
    kernel,
    load64,
    matching_bytes,
    trailing_zeros,
)
from tidelog.data.arrow import Array, places
from tidelog.data.columns import NODE, OBJECT, all_match

# ---- The fields of plain delimited text, found 64 bytes at a time, without copying them.
#
# Only the plainest text is read here: no quotes, no carriage returns, all lines of the same number of fields.
# The fields become Arrow views into the block, ready for the dictionary. Anything else is left to the careful
# ways of `io.delimited`.

Text = bytes | bytearray | memoryview

WIDTH = 64  # bytes that are looked at together
QUOTE, LINE_FEED, RETURN = b'"\n\r'
MOST_BYTES = 1 << 31  # a view's offset has 32 bits
IN_VIEW = 12  # texts up to this length stand in the view itself


class Survey(NamedTuple):
    """How many line feeds a text has, and whether it has quotes, carriage returns, or is all ASCII."""

    line_feeds: int
    has_quotes: bool
    has_returns: bool
    is_ascii: bool


@kernel("i64, i64 -> i64, bool, bool, bool")
def survey_bytes(address: Any, length: Any) -> Any:
    """The fields of a `Survey` of the bytes at an address."""
    feeds = np.int64(0)
    quotes = np.uint64(0)
    returns = np.uint64(0)
    high = np.uint64(0)
    whole = length - length % WIDTH
    for position in range(0, whole, WIDTH):
        feeds += np.int64(count_ones(matching_bytes(address + position, LINE_FEED)))
        quotes |= matching_bytes(address + position, QUOTE)
        returns |= matching_bytes(address + position, RETURN)
        high |= high_bytes(address + position)
    text = bytes_at(address, length)
    for position in range(whole, length):
        feeds += text[position] == LINE_FEED
        quotes |= np.uint64(text[position] == QUOTE)
        returns |= np.uint64(text[position] == RETURN)
        high |= np.uint64(text[position] >= 128)
    return feeds, quotes != 0, returns != 0, high == 0


def survey(text: Text) -> Survey:
    """What there is in a text, found in one pass."""
    return Survey(*survey_bytes(pa.py_buffer(text).address, len(text)))


@inlined
def first_bytes(word: Any, count: Any) -> Any:
    """The first `count` bytes of the word, fewer than eight, the others zero."""
    return word & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))


@inlined
def load_up_to(address: Any, count: Any) -> Any:
    """Up to eight bytes as a word, the others zero; nothing behind them is read."""
    word = np.uint64(0)
    text = bytes_at(address, count)
    for index in range(count):
        word |= np.uint64(text[index]) << np.uint64(8 * index)
    return word


@inlined
def write_view(views: Any, place: Any, address: Any, start: Any, end: Any, length: Any) -> None:
    """Write the view of the field from `start` to `end` of the text of this length at an address.

    It begins with the field's own length. A short field follows; of a long one the first four bytes, the
    number of its buffer, 0, and its place.
    """
    size = end - start
    if size > IN_VIEW:
        first = load64(address + start)
        second = np.uint64(start) << np.uint64(32)
    elif start + 16 <= length:
        first = load64(address + start)
        second = load64(address + start + 4)
        if size < 4:
            first = first_bytes(first, size)
        if size < IN_VIEW:
            second = first_bytes(second, max(size - 4, 0))
    else:
        first = load_up_to(address + start, min(size, 4))
        second = load_up_to(address + start + 4, max(size - 4, 0))
    views[2 * place] = np.int64(np.uint64(size) | (first << np.uint64(32)))
    views[2 * place + 1] = np.int64(second)


@kernel("i64, i64, i64, i64, i64, i64[:], i64 -> bool")
def split_fields(
    address: Any, length: Any, delimiter: Any, columns: Any, rows: Any, wanted: Any, views: Any
) -> Any:
    """Write a view of every wanted field; returns whether all lines have as many fields as there are columns.

    `wanted` holds, for each column, which block of `views` it goes to, or -1.
    """
    blocks = 0
    for block in wanted:
        blocks += block >= 0
    out = int64_at(views, 2 * rows * blocks)
    last = np.zeros(WIDTH, np.uint8)  # the end of the text, so that nothing behind it is read
    whole = length - length % WIDTH
    text = bytes_at(address, length)
    for index in range(length - whole):
        last[index] = text[whole + index]
    start = np.int64(0)
    column = np.int64(0)
    row = np.int64(0)
    for position in range(0, length, WIDTH):
        here = address + position if position < whole else last.ctypes.data
        lines = matching_bytes(here, LINE_FEED)
        found = lines | matching_bytes(here, delimiter)
        while found != 0:
            place = np.int64(trailing_zeros(found))
            found &= found - np.uint64(1)
            end = position + place
            if end >= length:
                break
            is_line = (lines >> np.uint64(place)) & np.uint64(1) != 0
            if is_line != (column == columns - 1) or (columns == 1 and end == start):
                return False
            if wanted[column] >= 0:
                write_view(out, wanted[column] * rows + row, address, start, end, length)
            start = end + 1
            if is_line:
                column = np.int64(0)
                row += 1
            else:
                column += 1
    if start < length or column > 0:  # the last line has no end
        if column != columns - 1:
            return False
        if wanted[column] >= 0:
            write_view(out, wanted[column] * rows + row, address, start, length, length)
        row += 1
    return row == rows


def text_views(
    block: Text, found: Survey, delimiter: str, columns: int, wanted: Sequence[int]
) -> list[Any] | None:
    """The wanted columns of a block without quotes, as Arrow views; None if it is not plain."""
    if len(block) >= MOST_BYTES or found.has_returns or not wanted:
        return None
    rows = found.line_feeds + (block[-1] != LINE_FEED)
    places = np.full(columns, -1, np.int64)
    places[list(wanted)] = np.arange(len(wanted))
    views = np.empty(2 * rows * len(wanted), np.int64)
    buffer = pa.py_buffer(block)
    is_regular = split_fields(
        buffer.address, len(block), ord(delimiter), columns, rows, places, views.ctypes.data
    )
    if not is_regular or not (found.is_ascii or is_utf8(block)):
        return None
    kept = pa.py_buffer(views)
    size = 16 * rows
    return [
        pa.Array.from_buffers(pa.string_view(), rows, [None, kept.slice(place * size, size), buffer])
        for place in range(len(wanted))
    ]


def is_utf8(block: Text) -> bool:
    """Whether a block is text at all."""
    try:
        str(block, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


# ---- The terms of plain N-Triples, found in one pass and without copying them.
#
# Lines have one space between terms. IRIs and strings that are plainly written are checked byte by byte;
# blank nodes, and literals with escapes, languages or datatypes, by the patterns of terms. The terms become
# Arrow views into the block, ready for the dictionary. Any other block is left to `io.rdf`.

TERMS = 3
SPACE, DOT, LESS, GREATER = b" .<>"
IN_IRI, IN_TEXT = 1, 2  # where a byte may stand for itself


def byte_uses() -> npt.NDArray[np.uint8]:
    """Of each byte whether it may stand for itself in an IRI, and in a string."""
    uses = np.full(256, IN_IRI | IN_TEXT, np.uint8)
    uses[:0x21] = IN_TEXT
    uses[list(b'<>"{}|^`\\')] = IN_TEXT
    uses[list(b'"\\\n\r')] = 0
    return uses


USES = byte_uses()


@kernel("i64, i64, i64, u8[:], i64, i32[:], i32[:] -> i64, i64")
def split_triples(
    address: Any, length: Any, rows: Any, uses: Any, views: Any, subjects: Any, objects: Any
) -> Any:
    """Write a view of every term; returns how many subjects and objects are left to be checked, or -1.

    Their bounds are written to `subjects` and `objects`. -1 is for a text that does not consist of lines of
    three terms. It ends with a line feed, at which every loop stops.
    """
    text = bytes_at(address, length)
    out = int64_at(views, 2 * rows * TERMS)
    unchecked_subjects, unchecked_objects = 0, 0
    position = np.int64(0)
    for row in range(rows):
        for column in range(TERMS):
            start = position
            is_plain = False
            if text[start] == LESS:
                position += 1
                while uses[text[position]] & IN_IRI:
                    position += 1
                if text[position] != GREATER:
                    return -1, -1
                is_plain = True
            elif text[start] == QUOTE and column == TERMS - 1:
                position += 1
                while uses[text[position]] & IN_TEXT:
                    position += 1
                is_plain = text[position] == QUOTE and text[position + 1] == SPACE
            if is_plain:
                position += 1
            elif column == 0:
                while text[position] != SPACE and text[position] != LINE_FEED:
                    position += 1
                subjects[2 * unchecked_subjects] = start
                subjects[2 * unchecked_subjects + 1] = position
                unchecked_subjects += 1
            elif column == TERMS - 1:
                while text[position] != LINE_FEED:
                    position += 1
                position = max(position - 2, start)
                objects[2 * unchecked_objects] = start
                objects[2 * unchecked_objects + 1] = position
                unchecked_objects += 1
            if text[position] != SPACE:
                return -1, -1
            write_view(out, column * rows + row, address, start, position, length)
            position += 1
        if text[position] != DOT or text[position + 1] != LINE_FEED:
            return -1, -1
        position += 2
    return unchecked_subjects, unchecked_objects


def term_views(block: bytes, found: Survey) -> tuple[Array, ...] | None:
    """Subjects, predicates and objects of a block that ends with a line feed; None if it is not plain."""
    rows = found.line_feeds
    if len(block) >= MOST_BYTES or found.has_returns or not (found.is_ascii or is_utf8(block)):
        return None
    views = np.empty(2 * rows * TERMS, np.int64)
    subjects, objects = np.zeros(2 * rows + 1, np.int32), np.zeros(2 * rows + 1, np.int32)
    buffer = pa.py_buffer(block)
    unchecked = split_triples(buffer.address, len(block), rows, USES, views.ctypes.data, subjects, objects)
    if not all(
        count >= 0 and _are_terms(bounds, count, buffer, form)
        for count, bounds, form in zip(unchecked, (subjects, objects), (NODE, OBJECT), strict=True)
    ):
        return None
    kept, size = pa.py_buffer(views), 16 * rows
    return tuple(
        pa.Array.from_buffers(pa.string_view(), rows, [None, kept.slice(place * size, size), buffer])
        for place in range(TERMS)
    )


def _are_terms(bounds: npt.NDArray[np.int32], count: int, block: pa.Buffer, form: str) -> bool:
    """Whether the texts between bounds, each with its end after its beginning, are terms of a form."""
    if not count:
        return True
    bounds[2 * count] = bounds[2 * count - 1]
    between = pa.StringArray.from_buffers(2 * count, pa.py_buffer(bounds), block)
    return all_match(between.take(places(np.arange(0, 2 * count, 2))), f"^{form}$")
