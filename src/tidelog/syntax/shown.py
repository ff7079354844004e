"""Texts as people see them: nothing in them moves a cursor or breaks a page, and their width is known."""

from __future__ import annotations

import re
from unicodedata import combining, east_asian_width

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """The text without characters that would move the cursor: they are written as escapes.

    >>> print(visible("two\\nlines"))
    two\\nlines
    """
    return _CONTROL.sub(lambda found: _NAMED.get(found[0], f"\\x{ord(found[0]):02x}"), text)


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
