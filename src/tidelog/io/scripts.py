"""Change scripts from files and streams of lines, transaction by transaction: none waits for the next."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from tidelog.errors import DataError, Diagnostic, Source
from tidelog.io import codes
from tidelog.io.formats import is_compressed
from tidelog.syntax import codes as syntax_codes
from tidelog.syntax.lexer import Lexer
from tidelog.syntax.tokens import END

SUFFIXES = (".rls", ".rls.gz")
_COMMIT = re.compile(r"@commit\s*\.")
_MAY_SPAN_LINES = re.compile(r'"""|/\*')


def split_scripts(lines: Iterable[str], name: str) -> Iterator[Source]:
    """The parts of a script up to each line with a commit, and what remains behind the last.

    >>> lines = ["+ p(1) .\\n", "@commit .\\n", "- p(1) .\\n"]
    >>> [(part.text, part.first_line) for part in split_scripts(lines, "<lines>")]
    [('+ p(1) .\\n@commit .\\n', 1), ('- p(1) .\\n', 3)]
    """
    waiting: list[str] = []
    first = 1
    for number, line in enumerate(lines, 1):
        waiting.append(line)
        if "@commit" in line and _COMMIT.search(line):
            text = "".join(waiting)
            if not _is_open(text):
                yield Source(name, text, first)
                waiting, first = [], number + 1
    text = "".join(waiting)
    if text.strip():
        yield Source(name, text, first)


def read_scripts(path: Path) -> Iterator[Source]:
    """The parts of a script in a file, which may be compressed; raises DataError if it cannot be read."""
    try:
        with _open(path) as stream:
            yield from split_scripts(stream, str(path))
    except UnicodeDecodeError as fault:
        message = f"cannot read the changes: it is not UTF-8 (byte {fault.start + 1})"
        raise DataError(Diagnostic(codes.NOT_UTF_8, message, place=str(path))) from None
    except (OSError, EOFError, zlib.error) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        message = f"cannot read the changes: {reason.lower()}"
        raise DataError(Diagnostic(codes.NOT_FOUND, message, place=str(path))) from None


def _open(path: Path) -> IO[str]:
    if is_compressed(path):
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8-sig")


def _is_open(text: str) -> bool:
    """Whether the text ends inside a string or a comment, so that its last commit is none."""
    if not _MAY_SPAN_LINES.search(text):
        return False
    lexer = Lexer(Source("<changes>", text))
    while lexer.read().kinds[-1] != END:
        pass
    unterminated = {syntax_codes.UNTERMINATED_COMMENT, syntax_codes.UNTERMINATED_STRING}
    return any(item.code in unterminated for item in lexer.diagnostics)
