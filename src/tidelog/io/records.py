"""The records of delimited text, read with care: where each begins, and what its fields are.

This is the slow and exact reading, used for the rows that Arrow refuses; a test compares the two on random
texts. A quote opens a field only at its start; inside, two quotes stand for one; what follows the closing
quote up to the delimiter belongs to the field. Empty lines are no records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tidelog.io.fields import Text, survey

_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'


@dataclass(frozen=True, slots=True)
class Record:
    """A record: the line it begins on, its bytes without the line's end, and its fields.

    `closed` is false if a quoted field of it, the last one, ends with the text and not with a quote.
    """

    line: int
    raw: bytes
    fields: tuple[bytes, ...]
    closed: bool = True


@lru_cache(maxsize=8)
def _patterns(delimiter: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    plain = b"[^" + re.escape(delimiter) + rb"\r\n]*+"
    quoted = rb'"((?:[^"]|"")*+)("?)(' + plain + b")"
    return re.compile(quoted, re.DOTALL), re.compile(plain)


def records(block: bytes | bytearray, delimiter: bytes, quoting: bool, line: int = 1) -> Iterator[Record]:
    """The records of a block that begins with a record, on line `line` of its file."""
    block = bytes(block)
    if not quoting or b'"' not in block:
        for number, raw in enumerate(block.splitlines(), line):
            if raw:
                yield Record(number, raw, tuple(raw.split(delimiter)))
        return
    position = 0
    while position < len(block):
        record, end = _record(block, position, delimiter, quoting, line)
        following = _after_line(block, end)
        if record.raw:
            yield record
        line += count_lines(block[position:following])
        position = following


def first_record(block: Text, delimiter: bytes, quoting: bool, line: int) -> tuple[Record, int] | None:
    """The first record of a block that begins on line `line`, and where the next line begins, if any."""
    start = 0
    while start < len(block):
        record, end = _record(block, start, delimiter, quoting, line)
        start, line = _after_line(block, end), line + 1
        if record.raw:
            return record, start
    return None


def _after_line(block: Text, end: int) -> int:
    return end + (2 if block[end : end + 2] == b"\r\n" else 1)


def _record(block: Text, start: int, delimiter: bytes, quoting: bool, line: int) -> tuple[Record, int]:
    """The record that begins at `start`, and the place of its line's end."""
    quoted, plain = _patterns(delimiter)
    fields: list[bytes] = []
    closed = True
    position = start
    while True:
        opened = quoted.match(block, position) if quoting else None
        if opened is not None:
            fields.append(opened[1].replace(b'""', b'"') + opened[3])
            closed = bool(opened[2])
            position = opened.end()
        elif (bare := plain.match(block, position)) is not None:
            fields.append(bare[0])
            position = bare.end()
        if block[position : position + 1] != delimiter:
            return Record(line, bytes(block[start:position]), tuple(fields), closed), position
        position += 1


def count_lines(block: bytes | bytearray) -> int:
    r"""How many lines end in the block, with `\n`, `\r\n` or `\r`."""
    found = survey(block)
    alone = block.count(b"\r") - block.count(b"\r\n") if found.has_returns else 0
    return found.line_feeds + alone


def ends_open(block: bytes | bytearray, delimiter: bytes) -> bool:
    """Whether the block, which begins with a record, ends inside a quoted field."""
    if b'"' not in block:
        return False
    text = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(text == _QUOTE)
    if _are_regular(text, quotes, delimiter[0]):
        return len(quotes) % 2 == 1
    return any(not record.closed for record in records(block, delimiter, True))


def _are_regular(text: np.ndarray, quotes: np.ndarray, delimiter: int) -> bool:
    """Whether every other quote begins a field or doubles the quote before it, so that quotes pair up."""
    opening = quotes[::2]
    if opening[0] == 0:
        opening = opening[1:]
    before = text[opening - 1]
    fine = (before == delimiter) | (before == _LINE_FEED) | (before == _RETURN) | (before == _QUOTE)
    return bool(fine.all())
