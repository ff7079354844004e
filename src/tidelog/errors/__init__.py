"""Errors: spans and diagnostics as data, the one place where they become text, and text safe to display.

Every error that a user can cause is a `Diagnostic`. Stages collect all of a file's diagnostics and raise them
together in one `TidelogError`; the command line renders them, editors read them as JSON. `codes.py` has a
name for each code.

Imports nothing of tidelog. Begin with `Span`, `Diagnostic` and `TidelogError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from difflib import get_close_matches
from enum import Enum
from functools import cached_property
from unicodedata import combining, east_asian_width

from tidelog.records import dataclass

# What moves a cursor, begins an escape or turns the direction of text: C0 and C1 controls, separators
# of lines, directional marks, tags, halves of surrogate pairs.
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """Return the text with escapes for characters that are invisible, or control a terminal.

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
    return _CONTROL.sub(lambda match: match[0] if match[0] in "\n\t" else _escape(match), text)


def _escape(match: re.Match[str]) -> str:
    point = ord(match[0])
    if point > 0xFFFF:
        return f"\\U{point:08x}"
    return _NAMED.get(match[0]) or (f"\\u{point:04x}" if point > 0xFF else f"\\x{point:02x}")


def text_width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1 for character in text
    )


def shortened(text: str, width: int) -> str:
    """Return the text, truncated to this width in columns.

    >>> shortened("thermometer", 6), shortened("hall", 6)
    ('therm…', 'hall')
    """
    if text_width(text) <= width:
        return text
    prefix = text[: max(width - 1, 0)]
    while prefix and text_width(prefix) > width - 1:
        prefix = prefix[:-1]
    return f"{prefix}…"


@dataclass(frozen=True)
class SourceText:
    """A text and the name under which it is shown: a path, or `<text>`, `<query>`, `<repl>`.

    `first_line` is the number of its first line in that, where it is a part of a longer text.
    """

    name: str
    text: str = field(repr=False)
    first_line: int = 1

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """The offset of each line's first character."""
        starts = [0]
        position = self.text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = self.text.find("\n", position + 1)
        return tuple(starts)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of `offset`, both counted from 1, the column in characters."""
        from bisect import bisect_right

        line = bisect_right(self.line_starts, offset)
        return line + self.first_line - 1, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, numbered as in `position`, without its end."""
        start = self.line_starts[number - self.first_line]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` to `end` (exclusive) of a source."""

    source: SourceText = field(repr=False)
    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, other.end)

    @property
    def text(self) -> str:
        """The characters of the source that this span covers."""
        return self.source.text[self.start : self.end]


class Severity(Enum):
    """How bad a diagnostic is: errors stop the work, warnings do not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Label:
    """A further place that a diagnostic talks about, such as an earlier declaration."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault: its code, what is wrong, where, and what to do about it.

    `place` names where a fault without source text lies, such as `edges.csv:7:2`.
    """

    code: str
    message: str
    span: Span | None = None
    help: str | None = None
    labels: tuple[Label, ...] = ()
    severity: Severity = Severity.ERROR
    place: str | None = None

    @property
    def location(self) -> str | None:
        """`file:line:column`, the form that editors understand."""
        if self.span is None:
            return self.place
        line, column = self.span.source.position(self.span.start)
        return f"{self.span.source.name}:{line}:{column}"

    def to_json(self) -> dict[str, object]:
        """The diagnostic as plain JSON values, positions counted from 1, ends exclusive."""
        record: dict[str, object] = {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "help": self.help,
        }
        if self.span is not None:
            record |= _span_to_json(self.span)
        elif self.place is not None:
            record["file"] = self.place
        record["labels"] = [{"message": label.text} | _span_to_json(label.span) for label in self.labels]
        return record

    def __str__(self) -> str:
        return render(self)


class TidelogError(Exception):
    """One or more diagnostics that stop the work. `exit_code` is what the command line returns."""

    exit_code = 1

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        )
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return render_all(self.diagnostics)


class ProgramError(TidelogError):
    """The program has errors."""


class DataError(TidelogError):
    """The data has errors, or a file cannot be read or written."""


class EvaluationError(TidelogError):
    """A value cannot be computed: integer overflow."""


class Inconsistent(TidelogError):  # noqa: N818 - a finding about the data, not a fault of the program
    """The program derives `bottom()`."""

    exit_code = 3


class Stopped(TidelogError):  # noqa: N818 - the user requested it
    """A limit or the user stopped the work; the message says how far it got."""

    exit_code = 4


class Interrupted(Stopped):
    """Ctrl-C stopped the work."""

    exit_code = 130  # as shells have it for whatever SIGINT ends


WIDEST = 200  # characters of a line that an error shows
_SHORT = 3  # letters of a word of which one in two may be wrong


class ProgramWarning(UserWarning):
    """In Python, a program does something that is hardly meant."""


def suggest(word: str, candidates: Iterable[str]) -> str | None:
    """A help line naming the known word nearest to `word`, or None if none is near.

    >>> suggest("ancestr", ["parent", "ancestor"])
    'did you mean `ancestor`?'
    >>> suggest("ee", ["e", "path"])
    'did you mean `e`?'
    """
    near = get_close_matches(word, list(candidates), n=1, cutoff=0.7 if len(word) > _SHORT else 0.6)
    return f"did you mean `{near[0]}`?" if near else None


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return the number with its noun.

    >>> counted(1, "column"), counted(2000, "row"), counted(0, "query", "queries")
    ('1 column', '2,000 rows', '0 queries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def render(diagnostic: Diagnostic) -> str:
    """The diagnostic as text: place, code, message, source line with caret, help."""
    head = f"{diagnostic.severity.value}[{diagnostic.code}]: {visible_lines(diagnostic.message)}"
    lines = [head]
    if diagnostic.span is not None:
        lines += _excerpt(diagnostic.span, diagnostic.location or "", "^", "")
    elif diagnostic.place is not None:
        lines.append(f"  --> {visible(diagnostic.place)}")
    for label in diagnostic.labels:
        line, column = label.span.source.position(label.span.start)
        lines += _excerpt(label.span, f"{label.span.source.name}:{line}:{column}", "-", label.text)
    if diagnostic.help:
        lines.append(f"  help: {visible_lines(diagnostic.help)}")
    return "\n".join(lines)


def render_all(diagnostics: Sequence[Diagnostic]) -> str:
    """All diagnostics, an empty line between two."""
    return "\n\n".join(render(diagnostic) for diagnostic in diagnostics)


def _excerpt(span: Span, location: str, mark: str, text: str) -> list[str]:
    """The location, the first source line of the span, and marks under the part it covers."""
    number, column = span.source.position(span.start)
    line, place = _shortened(span.source.line(number), column - 1)
    end = max(place + 1, min(place + span.end - span.start, len(line)))
    before, covered = visible_lines(line[:place]), visible_lines(line[place:end])
    gutter = " " * len(str(number))
    # Tabs stay tabs, so that the marks stand under what they mean however wide a tab is shown.
    padding = "".join("\t" if character == "\t" else " " for character in before)
    return [
        f"{gutter} --> {visible(location)}",
        f"{gutter} |",
        f"{number} | {visible_lines(line)}",
        f"{gutter} | {padding}{mark * max(1, len(covered))}{' ' + visible_lines(text) if text else ''}",
    ]


def _shortened(line: str, place: int) -> tuple[str, int]:
    """Shorten a line around a position; return it, and the position in it.

    >>> text, place = _shortened("a" * 500 + "b" + "c" * 500, 500)
    >>> text[place], len(text), text[0], text[-1]
    ('b', 200, '…', '…')
    """
    if len(line) <= WIDEST:
        return line, place
    start = max(0, min(place - WIDEST // 4, len(line) - WIDEST))
    excerpt = line[start : start + WIDEST]
    if start:
        excerpt = "…" + excerpt[1:]
    if start + WIDEST < len(line):
        excerpt = excerpt[:-1] + "…"
    return excerpt, place - start


def _span_to_json(span: Span) -> dict[str, object]:
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    return {
        "file": span.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }
