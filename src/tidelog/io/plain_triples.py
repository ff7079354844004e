"""The terms of plain N-Triples, found in one pass and without copying them.

Lines have one space between terms. IRIs and strings that are plainly written are checked byte by byte; blank
nodes, and literals with escapes, languages or datatypes, by the patterns of terms. The terms become Arrow
views into the block, ready for the dictionary. Any other block is left to `io.ntriples`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.compiled import bytes_at, int64_at, kernel
from tidelog.io.arrays import Array, places
from tidelog.io.columns import all_match
from tidelog.io.fields import LINE_FEED, MOST_BYTES, QUOTE, Survey, is_utf8, write_view
from tidelog.io.patterns import NODE, OBJECT

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
