r"""Escapes in quoted text, both ways: `unquote(quote(text)) == text`.

The escapes are SPARQL's: `\t \b \n \r \f \" \' \\`, `\uXXXX` and `\UXXXXXXXX`.
"""

from __future__ import annotations

import re

ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[\s\S]?)")
_RESOLVED = {
    "\\t": "\t",
    "\\b": "\b",
    "\\n": "\n",
    "\\r": "\r",
    "\\f": "\f",
    '\\"': '"',
    "\\'": "'",
    "\\\\": "\\",
}
_ESCAPED = {resolved: escape for escape, resolved in _RESOLVED.items() if resolved != "'"}


class BadEscapeError(ValueError):
    """An escape that stands for no character; `start` and `end` are its place in the text."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.start = start
        self.end = end


def unescape(text: str) -> str:
    r"""The text with every escape replaced by what it stands for; raises `BadEscapeError`.

    >>> unescape(r"a\tb\u00e9")
    'a\tbé'
    """
    return ESCAPE.sub(_resolve, text) if "\\" in text else text


def escape(text: str) -> str:
    r"""The text as it stands between double quotes.

    >>> print(escape('say "hi"\n'))
    say \"hi\"\n
    """
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(_escape_character(character) for character in text)


def quote(text: str) -> str:
    r"""The text as a string literal.

    >>> print(quote('C:\\temp'))
    "C:\\temp"
    """
    return f'"{escape(text)}"'


def _resolve(found: re.Match[str]) -> str:
    written = found[0]
    if written in _RESOLVED:
        return _RESOLVED[written]
    if len(written) > 2:
        point = int(written[2:], 16)
        # Surrogates are no characters: text that holds one could not be written out again.
        if point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
            return chr(point)
    raise BadEscapeError(found.start(), found.end())


def _escape_character(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    point = ord(character)
    if character.isprintable() or 0xD800 <= point <= 0xDFFF:
        return character
    return f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"
