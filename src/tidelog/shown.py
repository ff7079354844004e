"""Texts as people see them: nothing in them moves a cursor or breaks a page, and their width is known."""

from __future__ import annotations

import re
from unicodedata import combining, east_asian_width

# What moves a cursor, begins an escape or turns the direction of text: C0 and C1 controls, separators
# of lines, directional marks, tags, halves of surrogate pairs.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """Return the text with all that would not be seen, or would act on a terminal, written as escapes.

    >>> print(visible("two\\nlines"))
    two\\nlines
    >>> print(visible("\\x1b[31mred \\u202eback"))
    \\x1b[31mred \\u202eback
    """
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escape, text)


def visible_lines(text: str) -> str:
    """Return the text as `visible` does, but with its lines and tabs as they are."""
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL.sub(lambda found: found[0] if found[0] in "\n\t" else _escape(found), text)


def _escape(found: re.Match[str]) -> str:
    point = ord(found[0])
    if point > 0xFFFF:
        return f"\\U{point:08x}"
    return _NAMED.get(found[0]) or (f"\\u{point:04x}" if point > 0xFF else f"\\x{point:02x}")


def text_width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1 for character in text
    )


def shortened(text: str, width: int) -> str:
    """The text, cut off so that it takes no more columns.

    >>> shortened("thermometer", 6), shortened("hall", 6)
    ('therm…', 'hall')
    """
    if text_width(text) <= width:
        return text
    kept = text[: max(width - 1, 0)]
    while kept and text_width(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}…"
