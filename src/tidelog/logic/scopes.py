"""Names: what a symbol means in the file it is written in; files that include others; the diagnostics
of resolving.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterable, Iterator
from dataclasses import field
from pathlib import Path

from tidelog.errors import (
    DataError,
    Diagnostic,
    Label,
    ProgramError,
    Severity,
    SourceText,
    Span,
    codes,
    suggest,
)
from tidelog.errors.codes import MISSING_FULL_STOP
from tidelog.logic.program import OPEN, Constant, Sandbox
from tidelog.logic.values import Kind, Value
from tidelog.records import dataclass
from tidelog.syntax import ast
from tidelog.syntax.parser import parse_with_errors

# ---- diagnostics of resolving a program

# Takes the place of a value that could not be resolved, so that the rest can be; never in a program without
# errors.
UNRESOLVED = Constant(Value(Kind.BLANK, "unresolved"))


class Report:
    """Errors and warnings found so far, each once."""

    def __init__(self) -> None:
        self._diagnostics: dict[Diagnostic, None] = {}

    def error(
        self,
        code: str,
        message: str,
        span: Span | None,
        help: str | None = None,
        labels: Iterable[Label] = (),
    ) -> None:
        """Add an error."""
        self.add(Diagnostic(code, message, span, help, tuple(labels)))

    def warn(self, code: str, message: str, span: Span | None, help: str | None = None) -> None:
        """Add a warning."""
        self.add(Diagnostic(code, message, span, help, severity=Severity.WARNING))

    def add(self, *diagnostics: Diagnostic) -> None:
        """Add diagnostics that another stage made."""
        self._diagnostics.update(dict.fromkeys(diagnostics))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors, in the order in which they were found."""
        return tuple(item for item in self._diagnostics if item.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings, by place."""
        return by_position(item for item in self._diagnostics if item.severity is Severity.WARNING)

    def check(self, ignored: Container[str] = ()) -> None:
        """Raise all diagnostics by position if any is an error; leave out codes in `ignored`."""
        if self.errors:
            raise ProgramError(by_position(item for item in self._diagnostics if item.code not in ignored))


def label(span: Span | None, text: str) -> tuple[Label, ...]:
    """A label for a place, none if the place is not known."""
    return (Label(span, text),) if span is not None else ()


def beginning(span: Span | None, text: str) -> Span | None:
    """The part of a span that is the text at its beginning."""
    return span and Span(span.source, span.start, span.start + len(text))


def ending(span: Span | None, text: str) -> Span | None:
    """The part of a span that is the text at its end."""
    return span and Span(span.source, span.end - len(text), span.end)


def by_position(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """The diagnostics in order of their places, file by file as the files first occur."""
    files: dict[str, int] = {}
    diagnostics = tuple(diagnostics)
    for item in diagnostics:
        if item.span is not None:
            files.setdefault(item.span.source.name, len(files))

    def place(item: Diagnostic) -> tuple[int, int]:
        return (files[item.span.source.name], item.span.start) if item.span is not None else (-1, 0)

    return tuple(sorted(diagnostics, key=place))


# ---- names
#
# Prefixes and the base hold in the whole file, wherever in it they are declared. A bare name that
# represents a constant is the IRI of that text, after the base if there is one, as in Nemo; predicates keep
# bare names.

WELL_KNOWN = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "https://schema.org/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}

# RFC 3986, appendix B: scheme, authority, path, query, fragment
_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


@dataclass
class Scope:
    """The prefixes and the base of one file. Mutable while the file's directives are gathered."""

    prefixes: dict[str, str] = field(default_factory=dict)
    base: str | None = None
    declared: dict[str, Span | None] = field(default_factory=dict)
    based: Span | None = None

    def set_base(self, directive: ast.BaseDirectiveNode, report: Report) -> None:
        """Take the base from its directive."""
        if self.based is not None and self.base != directive.iri.text:
            message = "the base is declared twice"
            labels = label(self.based, "declared here first")
            report.error(codes.BASE_DECLARED_TWICE, message, directive.span, labels=labels)
            return
        self.base = directive.iri.text
        self.based = directive.span

    def add_prefix(self, directive: ast.PrefixDirectiveNode, report: Report) -> None:
        """Add the prefix of a directive."""
        prefix, iri = directive.prefix, resolve_iri(directive.iri.text, self.base)
        if prefix in self.declared and self.prefixes[prefix] != iri:
            message = f"prefix `{prefix}:` is declared twice, with different IRIs"
            help = f"`{prefix}:` is <{self.prefixes[prefix]}>: choose another prefix for <{iri}>"
            labels = label(self.declared[prefix], "declared here first")
            report.error(codes.PREFIX_DECLARED_TWICE, message, directive.span, help, labels)
            return
        self.prefixes[prefix] = iri
        self.declared[prefix] = directive.span

    def adopt(self, other: Scope) -> None:
        """Add the prefixes of an included file where this file declares none of its own."""
        for prefix, iri in other.prefixes.items():
            self.prefixes.setdefault(prefix, iri)

    def predicate(self, symbol: ast.Symbol, report: Report) -> str:
        """The full name of a predicate or function."""
        return symbol.text if isinstance(symbol, ast.NameNode) else self.iri(symbol, report)

    def constant(self, symbol: ast.Symbol, report: Report) -> str:
        """Return the IRI of a symbol that represents a constant."""
        if isinstance(symbol, ast.NameNode):
            return (self.base or "") + symbol.text
        return self.iri(symbol, report)

    def iri(self, symbol: ast.PrefixedNameNode | ast.IriNode, report: Report) -> str:
        """The IRI of a prefixed name or of an IRI in brackets."""
        if isinstance(symbol, ast.IriNode):
            return resolve_iri(symbol.text, self.base)
        if symbol.prefix not in self.prefixes:
            message = f"unknown prefix `{symbol.prefix}:`"
            help = _prefix_help(symbol.prefix, self.prefixes)
            report.error(codes.UNKNOWN_PREFIX, message, symbol.span, help)
            return f"{symbol.prefix}:{symbol.local}"
        return self.prefixes[symbol.prefix] + symbol.local


def written(symbol: ast.Symbol) -> str:
    """The symbol as the program writes it.

    >>> written(ast.PrefixedNameNode("ex", "edge"))
    'ex:edge'
    """
    match symbol:
        case ast.NameNode(text):
            return text
        case ast.PrefixedNameNode(prefix, local):
            return f"{prefix}:{local}"
        case ast.IriNode(text):
            return f"<{text}>"


def _prefix_help(prefix: str, prefixes: dict[str, str]) -> str:
    """What to do about an unknown prefix: the well-known IRI, a similar prefix, or how to declare one."""
    if prefix in WELL_KNOWN:
        return f"declare it: `@prefix {prefix}: <{WELL_KNOWN[prefix]}> .`"
    return (
        suggest(f"{prefix}:", (f"{name}:" for name in prefixes)) or f"declare it: `@prefix {prefix}: <…> .`"
    )


def resolve_iri(reference: str, base: str | None) -> str:
    """The IRI that a reference resolves to, after RFC 3986, section 5.2.

    >>> resolve_iri("../c", "https://example.org/a/b")
    'https://example.org/c'
    """
    if base is None:
        return reference
    scheme, authority, path, query, fragment = _split(reference)
    if scheme is not None:
        return reference
    base_scheme, base_authority, base_path, base_query, _ = _split(base)
    if authority is None:
        authority = base_authority
        if not path:
            path = base_path
            query = query if query is not None else base_query
        elif not path.startswith("/"):
            path = _merge(base_path, path, base_authority)
    return _join(base_scheme, authority, _without_dots(path), query, fragment)


def _split(iri: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    match = _PARTS.fullmatch(iri)
    assert match is not None, "the expression matches every text"
    return match[1], match[2], match[3], match[4], match[5]


def _merge(base_path: str, path: str, authority: str | None) -> str:
    if authority is not None and not base_path:
        return "/" + path
    return base_path[: base_path.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    """The path with its `.` and `..` steps resolved."""
    resolved: list[str] = []
    steps = path.split("/")
    for step in steps:
        if step == "..":
            if len(resolved) > 1 or (resolved and resolved[0]):
                resolved.pop()
        elif step != ".":
            resolved.append(step)
    if steps[-1] in (".", "..") and resolved and resolved[-1]:
        resolved.append("")
    return "/".join(resolved) if resolved != [""] else path[:1]


def _join(
    scheme: str | None, authority: str | None, path: str, query: str | None, fragment: str | None
) -> str:
    text = f"{scheme}:" if scheme is not None else ""
    text += f"//{authority}" if authority is not None else ""
    text += path
    text += f"?{query}" if query is not None else ""
    return text + (f"#{fragment}" if fragment is not None else "")


# ---- includes
#
# A file is read once, however often and from wherever it is included, so cycles do no harm. It has a
# separate scope: it sees none of the including file's prefixes, but the including file sees its prefixes.
# A path that does not exist is searched among the rule sets that come with tidelog.

MOST_BYTES = 256 << 20  # of an included file


@dataclass(frozen=True, slots=True)
class ScopedStatement:
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

    def gather(self, document: ast.DocumentNode, scope: Scope, folder: Path | None) -> list[ScopedStatement]:
        """The statements of the document and all that it includes, in place of the includes."""
        _declare(document, scope, self.report)
        return list(self._placed(document, scope, folder))

    def _placed(
        self, document: ast.DocumentNode, scope: Scope, folder: Path | None
    ) -> Iterator[ScopedStatement]:
        for statement in document.statements:
            if isinstance(statement, ast.IncludeDirectiveNode):
                yield from self._include(statement, scope, folder)
            else:
                yield ScopedStatement(statement, scope, folder)

    def _include(
        self, directive: ast.IncludeDirectiveNode, scope: Scope, folder: Path | None
    ) -> Iterator[ScopedStatement]:
        try:
            found = self._find(directive, folder or Path())
            path = Path(os.path.realpath(found))
        except DataError as error:
            self.report.add(*error.diagnostics)
            self.complete = False
            return
        except ValueError:  # a null character
            self._refuse(directive, "it is not a path")
            return
        if path not in self.scopes:
            self.scopes[path] = Scope()
            document = self._read(found, directive)
            if document is not None:
                yield from self.gather(document, self.scopes[path], found.parent)
        scope.adopt(self.scopes[path])

    def _find(self, directive: ast.IncludeDirectiveNode, folder: Path) -> Path:
        """The file that an include means: in the folder, else a bundled rule set of that name."""
        included, rules = folder / directive.path, bundled_rules()
        bundled = rules / directive.path
        is_bundled = bundled.is_file() and Path(os.path.realpath(bundled)).is_relative_to(rules.resolve())
        try:
            allowed = self.sandbox.to_read(included, directive.span)
        except DataError:
            if is_bundled:
                return bundled
            raise
        return bundled if is_bundled and not allowed.exists() else allowed

    def _read(self, path: Path, directive: ast.IncludeDirectiveNode) -> ast.DocumentNode | None:
        """The document in a file; None, with the reason reported, if it cannot be read."""
        try:
            text = _text_of(path)
        except (OSError, UnicodeDecodeError) as fault:
            self._refuse(directive, reason(fault))
            return None
        if text is None:
            self._refuse(directive, f"it is not a file of at most {MOST_BYTES >> 20} MiB")
            return None
        document = parse_with_errors(SourceText(str(path), text))
        self.note_faults(document)
        return document

    def _refuse(self, directive: ast.IncludeDirectiveNode, reason: str) -> None:
        message = f"cannot include `{directive.path}`: {reason}"
        self.report.error(codes.CANNOT_INCLUDE, message, directive.span)
        self.complete = False

    def note_faults(self, document: ast.DocumentNode) -> None:
        """Report the syntax errors of a document; most of them mean that a statement is missing."""
        self.report.add(*document.faults)
        if any(fault.code != MISSING_FULL_STOP for fault in document.faults):
            self.complete = False


def _text_of(path: Path) -> str | None:
    """The text of a file; None if it is too large or not a regular file, such as a pipe or a device.

    Other files are not opened, since they might never end. A file that grows while it is read counts as too
    large.
    """
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
        return None
    with path.open(encoding="utf-8") as file:
        text = file.read(MOST_BYTES + 1)
    return text if len(text) <= MOST_BYTES else None


def bundled_rules() -> Path:
    """The folder of the rule sets that come with tidelog: in the package, or next to `src` in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "rules"
    return inside if inside.is_dir() else package.parents[1] / "rules"


def reason(fault: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(fault, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {fault.start})"
    return {
        "FileNotFoundError": "it does not exist",
        "IsADirectoryError": "it is a folder",
        "PermissionError": "it may not be read",
    }.get(type(fault).__name__, fault.strerror or "it cannot be read")


def _declare(document: ast.DocumentNode, scope: Scope, report: Report) -> None:
    """Enter the document's base and prefixes into its scope; the base first, prefixes may be relative."""
    for statement in document.statements:
        if isinstance(statement, ast.BaseDirectiveNode):
            scope.set_base(statement, report)
    for statement in document.statements:
        if isinstance(statement, ast.PrefixDirectiveNode):
            scope.add_prefix(statement, report)
