"""Names: what a symbol stands for in the file it is written in.

Prefixes and the base hold in the whole file, wherever in it they are declared. A bare name standing for a
constant is the IRI of that text, after the base if there is one, as in Nemo; predicates keep bare names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tidelog.errors import Span, suggest
from tidelog.logic import codes
from tidelog.logic.report import Report, label
from tidelog.syntax import ast

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

    def set_base(self, directive: ast.BaseDirective, report: Report) -> None:
        """Take the base from its directive."""
        if self.based is not None and self.base != directive.iri.text:
            message = "the base is declared twice"
            labels = label(self.based, "declared here first")
            report.error(codes.BASE_DECLARED_TWICE, message, directive.span, labels=labels)
            return
        self.base = directive.iri.text
        self.based = directive.span

    def add_prefix(self, directive: ast.PrefixDirective, report: Report) -> None:
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
        return symbol.text if isinstance(symbol, ast.Name) else self.iri(symbol, report)

    def constant(self, symbol: ast.Symbol, report: Report) -> str:
        """The IRI of a symbol standing for a constant."""
        if isinstance(symbol, ast.Name):
            return (self.base or "") + symbol.text
        return self.iri(symbol, report)

    def iri(self, symbol: ast.PrefixedName | ast.Iri, report: Report) -> str:
        """The IRI that a prefixed name or an IRI in brackets stands for."""
        if isinstance(symbol, ast.Iri):
            return resolve_iri(symbol.text, self.base)
        if symbol.prefix not in self.prefixes:
            message = f"unknown prefix `{symbol.prefix}:`"
            help = _prefix_help(symbol.prefix, self.prefixes)
            report.error(codes.UNKNOWN_PREFIX, message, symbol.span, help)
            return f"{symbol.prefix}:{symbol.local}"
        return self.prefixes[symbol.prefix] + symbol.local


def written(symbol: ast.Symbol) -> str:
    """The symbol as the program writes it.

    >>> written(ast.PrefixedName("ex", "edge"))
    'ex:edge'
    """
    match symbol:
        case ast.Name(text):
            return text
        case ast.PrefixedName(prefix, local):
            return f"{prefix}:{local}"
        case ast.Iri(text):
            return f"<{text}>"


def _prefix_help(prefix: str, known: dict[str, str]) -> str:
    """What to do about an unknown prefix: the well-known IRI, a similar prefix, or how to declare one."""
    if prefix in WELL_KNOWN:
        return f"declare it: `@prefix {prefix}: <{WELL_KNOWN[prefix]}> .`"
    return suggest(f"{prefix}:", (f"{name}:" for name in known)) or f"declare it: `@prefix {prefix}: <…> .`"


def resolve_iri(reference: str, base: str | None) -> str:
    """The IRI that a reference stands for, after RFC 3986, section 5.2.

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
    found = _PARTS.fullmatch(iri)
    assert found is not None, "the expression matches every text"
    return found[1], found[2], found[3], found[4], found[5]


def _merge(base_path: str, path: str, authority: str | None) -> str:
    if authority is not None and not base_path:
        return "/" + path
    return base_path[: base_path.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    """The path with its `.` and `..` steps taken."""
    kept: list[str] = []
    steps = path.split("/")
    for step in steps:
        if step == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
        elif step != ".":
            kept.append(step)
    if steps[-1] in (".", "..") and kept and kept[-1]:
        kept.append("")
    return "/".join(kept) if kept != [""] else path[:1]


def _join(
    scheme: str | None, authority: str | None, path: str, query: str | None, fragment: str | None
) -> str:
    text = f"{scheme}:" if scheme is not None else ""
    text += f"//{authority}" if authority is not None else ""
    text += path
    text += f"?{query}" if query is not None else ""
    return text + (f"#{fragment}" if fragment is not None else "")
