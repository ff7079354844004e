"""Standard error, standard output, safe for terminals, and files that are complete or absent."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

from tidelog.durable import replacing_text
from tidelog.errors import DataError, Diagnostic, Severity, codes, render, visible_lines

# ---- standard error

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
        selected = [item for item in diagnostics if item.severity is Severity.ERROR or not self.quiet]
        if not selected:
            return
        text = "\n\n".join(map(render, selected))
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
    coloured = Text()
    severity = ""
    for line in text.splitlines():
        head = _HEAD.fullmatch(line)
        severity = head["severity"] if head else severity
        for piece, style in _styled(line, "bold red" if severity == "error" else "bold yellow"):
            coloured.append(piece, style)
        coloured.append("\n")
    Console(stderr=True, highlight=False, soft_wrap=True).print(coloured, end="")


def _styled(line: str, strong: str) -> list[tuple[str, str]]:
    """The pieces of a line of a diagnostic, each with its style."""
    if match := _HEAD.fullmatch(line):
        return [(match["severity"] + match["code"], strong), (f": {match['message']}", "bold")]
    if match := _PLACE.fullmatch(line):
        return [(match["gutter"], "blue"), (f" {match['place']}", "")]
    if match := _MARKS.fullmatch(line):
        marks = strong if "^" in match["marks"] else "bold blue"
        return [(match["gutter"] + match["space"], "blue"), (match["marks"] + match["text"], marks)]
    if match := _HELP.fullmatch(line):
        return [(match["help"], "bold cyan"), (match["text"], "")]
    if match := _SOURCE.fullmatch(line):
        return [(match["gutter"], "blue"), (match["text"], "")]
    return [(line, "")]


# ---- standard output


def show(text: str, end: str = "\n") -> None:
    """Write a text to standard output."""
    sys.stdout.write((visible_lines(text) if sys.stdout.isatty() else text) + end)


def data_output() -> IO[bytes]:
    """Return where data in UTF-8 is written to standard output."""
    stream = sys.stdout.buffer
    if not sys.stdout.isatty():
        return stream
    from tidelog.io.delimited import ChangedLines  # takes a while

    return cast(IO[bytes], ChangedLines(stream, _visible))


def _visible(lines: bytes) -> bytes:
    return visible_lines(lines.decode("utf-8", "backslashreplace")).encode()


# ---- files that are complete or absent


class Staging:
    """Files written under other names, and the places they are for. Mutable while they are written."""

    def __init__(self, inputs: frozenset[Path]) -> None:
        self.places: dict[Path, Path] = {}
        self._inputs = inputs
        self._folders: list[Path] = []

    def file(self, path: Path) -> Path:
        """Where to write what will be the file `path`, which must be none of the inputs."""
        if path.resolve() in self._inputs:
            raise _cannot_write(path, "its facts were read from there")
        self._make_folder(path.parent)
        if path.is_dir():
            raise _cannot_write(path, "it is a folder")
        staged = path.with_name(f".{path.name}.{os.getpid()}.staged")
        self.places[path] = staged
        return staged

    def _make_folder(self, folder: Path) -> None:
        missing = []
        for parent in (folder, *folder.parents):
            if parent.exists():
                break
            missing.append(parent)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error.strerror or str(error)) from error
        self._folders += missing

    def commit(self) -> None:
        """Give all files their own names."""
        for path, staged in self.places.items():
            try:
                staged.replace(path)
            except OSError as error:
                raise _cannot_write(path, error.strerror or str(error)) from error

    def clear(self) -> None:
        """Remove what was written and the folders made for it."""
        for staged in self.places.values():
            staged.unlink(missing_ok=True)
        for folder in self._folders:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


@contextmanager
def staging(inputs: frozenset[Path] = frozenset()) -> Iterator[Staging]:
    """Files that get their names when the block ends well; else nothing of them is left."""
    staged = Staging(inputs)
    try:
        yield staged
        staged.commit()
    except BaseException:
        staged.clear()
        raise


def write_text(text: str, path: Path | None, messages: Messages) -> None:
    """Write the text to a file, or to standard output if there is none."""
    if path is None:
        show(text, end="")
        return
    with replacing_text(path) as stream:
        stream.write(text.encode())
    messages.say(f"wrote {path}")


def _cannot_write(path: Path, reason: str) -> DataError:
    return DataError(
        Diagnostic(codes.NOT_WRITABLE, f"`{path}` cannot be written: {reason.lower()}", place=str(path))
    )
