"""What is said on standard error: diagnostics and remarks, in colour where a person reads them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Final

from tidelog.errors import Diagnostic, Severity, render
from tidelog.shown import visible_lines

_HEAD: Final = re.compile(r"(?P<severity>error|warning)(?P<code>\[\w+\]): (?P<message>.*)")
_PLACE: Final = re.compile(r"(?P<gutter>\s*-->) (?P<place>.*)")
_MARKS: Final = re.compile(r"(?P<gutter>\s*\|)(?P<space>\s*)(?P<marks>[\^-]+)(?P<text>.*)")
_SOURCE: Final = re.compile(r"(?P<gutter>\s*\d* ?\|)(?P<text>.*)")
_HELP: Final = re.compile(r"(?P<help>\s*help:)(?P<text>.*)")


class Messages:
    """Standard error. Quiet ones say nothing but errors."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        """A remark, unless quiet."""
        if not self.quiet:
            self._write(text)

    def diagnose(self, diagnostics: Iterable[Diagnostic]) -> None:
        """The diagnostics, an empty line between two; warnings only unless quiet."""
        shown = [item for item in diagnostics if item.severity is Severity.ERROR or not self.quiet]
        if not shown:
            return
        text = "\n\n".join(map(render, shown))
        if is_coloured(sys.stderr):
            _print_coloured(text)
        else:
            self._write(text)

    def _write(self, text: str) -> None:
        sys.stdout.flush()  # so that the two streams are read in the order in which they were written
        print(visible_lines(text), file=sys.stderr, flush=True)


def is_coloured(stream: object) -> bool:
    """Whether a stream is a terminal on which colours are welcome."""
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _print_coloured(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    sys.stdout.flush()
    whole = Text()
    severity = ""
    for line in text.splitlines():
        head = _HEAD.fullmatch(line)
        severity = head["severity"] if head else severity
        for piece, style in _styled(line, "bold red" if severity == "error" else "bold yellow"):
            whole.append(piece, style)
        whole.append("\n")
    Console(stderr=True, highlight=False, soft_wrap=True).print(whole, end="")


def _styled(line: str, strong: str) -> list[tuple[str, str]]:
    """The pieces of a line of a diagnostic, each with its style."""
    if found := _HEAD.fullmatch(line):
        return [(found["severity"] + found["code"], strong), (f": {found['message']}", "bold")]
    if found := _PLACE.fullmatch(line):
        return [(found["gutter"], "blue"), (f" {found['place']}", "")]
    if found := _MARKS.fullmatch(line):
        marks = strong if "^" in found["marks"] else "bold blue"
        return [(found["gutter"] + found["space"], "blue"), (found["marks"] + found["text"], marks)]
    if found := _HELP.fullmatch(line):
        return [(found["help"], "bold cyan"), (found["text"], "")]
    if found := _SOURCE.fullmatch(line):
        return [(found["gutter"], "blue"), (found["text"], "")]
    return [(line, "")]
