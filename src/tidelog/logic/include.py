"""Includes: a document with the files it includes, as one sequence of statements, each with its scope.

A file is read once, however often and from wherever it is included, so cycles do no harm. It stands in a
scope of its own: it sees none of the including file's prefixes, but lends its own to the including file.
A path that leads nowhere is looked for among the rule sets that come with tidelog.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.errors import DataError, Source
from tidelog.logic import codes
from tidelog.logic.names import Scope
from tidelog.logic.report import Report
from tidelog.logic.sandbox import OPEN, Sandbox
from tidelog.syntax import ast
from tidelog.syntax.codes import MISSING_FULL_STOP
from tidelog.syntax.parser import parse_with_faults

MOST_BYTES = 256 << 20  # of an included file


@dataclass(frozen=True, slots=True)
class Placed:
    """A statement, the names it sees, and the folder in which its relative paths lie."""

    statement: ast.Statement
    scope: Scope
    folder: Path | None


@dataclass
class Includes:
    """The files read so far. Mutable while documents are gathered."""

    report: Report
    sandbox: Sandbox = OPEN
    scopes: dict[Path, Scope] = field(default_factory=dict)
    complete: bool = True  # every statement of every file could be read

    def gather(self, document: ast.Document, scope: Scope, folder: Path | None) -> list[Placed]:
        """The statements of the document and all that it includes, in place of the includes."""
        _declare(document, scope, self.report)
        return list(self._placed(document, scope, folder))

    def _placed(self, document: ast.Document, scope: Scope, folder: Path | None) -> Iterator[Placed]:
        for statement in document.statements:
            if isinstance(statement, ast.IncludeDirective):
                yield from self._include(statement, scope, folder)
            else:
                yield Placed(statement, scope, folder)

    def _include(
        self, directive: ast.IncludeDirective, scope: Scope, folder: Path | None
    ) -> Iterator[Placed]:
        try:
            shown = self._find(directive, folder or Path())
            path = Path(os.path.realpath(shown))
        except DataError as error:
            self.report.add(*error.diagnostics)
            self.complete = False
            return
        except ValueError:  # a null character
            self._refuse(directive, "it is no path")
            return
        if path not in self.scopes:
            self.scopes[path] = Scope()
            document = self._read(shown, directive)
            if document is not None:
                yield from self.gather(document, self.scopes[path], shown.parent)
        scope.adopt(self.scopes[path])

    def _find(self, directive: ast.IncludeDirective, folder: Path) -> Path:
        """The file that an include means: in the folder, else a bundled rule set of that name."""
        beside, rules = folder / directive.path, bundled_rules()
        bundled = rules / directive.path
        is_bundled = bundled.is_file() and Path(os.path.realpath(bundled)).is_relative_to(rules.resolve())
        try:
            allowed = self.sandbox.to_read(beside, directive.span)
        except DataError:
            if is_bundled:
                return bundled
            raise
        return bundled if is_bundled and not allowed.exists() else allowed

    def _read(self, path: Path, directive: ast.IncludeDirective) -> ast.Document | None:
        """The document in a file; None, with the reason reported, if it cannot be read."""
        try:
            text = _text_of(path)
        except (OSError, UnicodeDecodeError) as fault:
            self._refuse(directive, reason(fault))
            return None
        if text is None:
            self._refuse(directive, f"it is not a file of at most {MOST_BYTES >> 20} MiB")
            return None
        document = parse_with_faults(Source(str(path), text))
        self.note_faults(document)
        return document

    def _refuse(self, directive: ast.IncludeDirective, reason: str) -> None:
        message = f"cannot include `{directive.path}`: {reason}"
        self.report.error(codes.CANNOT_INCLUDE, message, directive.span)
        self.complete = False

    def note_faults(self, document: ast.Document) -> None:
        """Report the syntax errors of a document; most of them mean that a statement is missing."""
        self.report.add(*document.faults)
        if any(fault.code != MISSING_FULL_STOP for fault in document.faults):
            self.complete = False


def _text_of(path: Path) -> str | None:
    """The text of a file; None for what is none, such as a pipe or a device, and for one that is too large.

    What might never end is not even opened, and what grows while it is read is left.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
        return None
    with path.open(encoding="utf-8") as file:
        text = file.read(MOST_BYTES + 1)
    return text if len(text) <= MOST_BYTES else None


def bundled_rules() -> Path:
    """The folder of the rule sets that come with tidelog: in the package, or beside `src` in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "rules"
    return inside if inside.is_dir() else package.parents[1] / "rules"


def reason(fault: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(fault, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {fault.start})"
    return {
        "FileNotFoundError": "there is no such file",
        "IsADirectoryError": "it is a folder",
        "PermissionError": "it may not be read",
    }.get(type(fault).__name__, fault.strerror or "it cannot be read")


def _declare(document: ast.Document, scope: Scope, report: Report) -> None:
    """Enter the document's base and prefixes into its scope; the base first, prefixes may be relative."""
    for statement in document.statements:
        if isinstance(statement, ast.BaseDirective):
            scope.set_base(statement, report)
    for statement in document.statements:
        if isinstance(statement, ast.PrefixDirective):
            scope.add_prefix(statement, report)
