"""How large a query of SPARQL may be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tidelog.errors import Diagnostic, ProgramError, Source, Span
from tidelog.io import codes
from tidelog.io.nesting import first_too_deep

# pyoxigraph recurses over brackets, and over the parts of a group or an expression: too many end the process.
DEEPEST: Final = 100
MOST_PARTS: Final = 500
_SKIPPED: Final = re.compile(
    rb'"""(?:[^"\\]|\\.|"(?!""))*"""|\'\'\'(?:[^\'\\]|\\.|\'(?!\'\'))*\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
    rb"|<[^<>\s]*>|#[^\n]*|[\w:?$](?:[\w:.-]*[\w:])?",
    re.DOTALL,
)
_PARTS: Final = re.compile(
    rb"(?P<part>(?i:FILTER|BIND|OPTIONAL|UNION|MINUS|GRAPH)\b|\|\||&&|[(){.;,+*/!-])|" + _SKIPPED.pattern,
    re.DOTALL,
)


def check_size(text: str) -> None:
    """Raise `ProgramError` if the query is no text, is nested too deeply, or has too many parts."""
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate is not None:
        span = Span(Source("<query>", text), surrogate.start(), surrogate.end())
        raise ProgramError(Diagnostic(codes.NOT_SPARQL, "the query is not SPARQL: it is not UTF-8", span))
    encoded = text.encode("utf-8", "surrogatepass")
    place = first_too_deep(encoded, DEEPEST, _SKIPPED)
    message = f"the query is nested more than {DEEPEST} deep"
    if place is None:
        place = next(islice(_parts(encoded), MOST_PARTS, None), None)
        message = f"the query has more than {MOST_PARTS} patterns and operators"
    if place is not None:
        start = len(encoded[:place].decode("utf-8", "ignore"))
        help_line = "give terms by VALUES or IN, or ask several queries"
        span = Span(Source("<query>", text), start, start + 1)
        raise ProgramError(Diagnostic(codes.TOO_DEEP, message, span, help_line))


def _parts(text: bytes) -> Iterator[int]:
    """Return where the patterns and operators of a query stand; a comma in parentheses is one of a list."""
    depth = 0
    for found in _PARTS.finditer(text):
        part = found["part"]
        depth += (part == b"(") - (part == b")")
        if part and part not in b"()" and not (part == b"," and depth):
            yield found.start()
