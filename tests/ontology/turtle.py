"""Turtle in tests: triples as facts of rules, and what a reasoner makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyoxigraph

import tidelog as tl
from tidelog.errors import Inconsistent
from tidelog.logic.program import Program
from tidelog.logic.scopes import bundled_rules

PREFIXES: Final = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "ex": "https://example.org/",
}
HEAD: Final = "".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items())

Triple = tuple[str, ...]


def rule_set(name: str) -> Program:
    """A rule set that comes with tidelog."""
    return tl.load(bundled_rules() / name)


def only(program: Program, *names: str) -> Program:
    """The program with those of its named rules that have one of these names, and all without a name."""
    return replace(program, rules=tuple(rule for rule in program.rules if rule.name in (None, *names)))


def facts(text: str) -> str:
    """The triples of Turtle as facts of a program; what does not end with a full stop is one triple itself.

    >>> facts("1 owl:sameAs 2")
    'triple(1, owl:sameAs, 2) .'
    """
    if text and not text.rstrip().endswith("."):
        return f"triple({', '.join(text.split())}) ."
    quads = pyoxigraph.parse((HEAD + text).encode(), pyoxigraph.RdfFormat.TURTLE)
    labels: dict[str, str] = {}

    def written(term: object) -> str:
        if not isinstance(term, pyoxigraph.BlankNode):
            return str(term)
        return labels.setdefault(str(term), f"<_:b{len(labels)}>")

    rows = ((quad.subject, quad.predicate, quad.object) for quad in quads)
    return "\n".join(f"triple({', '.join(map(written, row))}) ." for row in rows)


def closure(program: Program, text: str) -> tuple[set[Triple], bool]:
    """All triples that follow from those of a text, and whether all is consistent."""
    reasoner = tl.Reasoner(program, threads=1)
    reasoner.add(HEAD + facts(text))
    try:
        reasoner.materialise()
        is_consistent = True
    except Inconsistent:
        is_consistent = False
    return set(reasoner["triple"].to_texts("exact").rows()), is_consistent


def triples(text: str) -> set[Triple]:
    """The triples of a text, as `closure` writes them."""
    return closure(tl.parse("@declare triple(s: any, p: any, o: any) ."), text)[0]
