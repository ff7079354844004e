"""Plain facts, read by one pattern: the short way through files of many facts.

A plain fact is a name and constants, perhaps with a time: `edge(1, 2) .`, `+ name(alice, "Alice") .`,
`hot(s1)@[0, 10) .` What the patterns do not match takes the long way through lexer and parser, which gives
the same tree for what they do match.
"""

from __future__ import annotations

import re
from typing import Final

from tidelog.errors import Source, Span
from tidelog.syntax.ast import (
    Atom,
    Boolean,
    Call,
    Clause,
    Expression,
    Interval,
    Iri,
    Name,
    Number,
    NumberKind,
    PrefixedName,
    Text,
)
from tidelog.syntax.tokens import METRIC_WORDS

_NAME = r"[A-Za-z][A-Za-z0-9_]*"
_TERMS: Final = (
    _NAME,
    r"[+-]?[0-9]+",
    r"[+-]?[0-9]+\.[0-9]+",
    r'"[^"\\\n]*"',
    rf"{_NAME}:[A-Za-z0-9_]+",
    r"""<[^\s<>"{}|^`\\]*>""",
)
_ANY_TERM: Final = "(?:" + "|".join(_TERMS) + ")"
_BOUND: Final = r"[+-]?[0-9]+(?:\.[0-9]+)?"
_FACT: Final = re.compile(
    rf"\s*(?:([+-])\s+)?({_NAME})\(\s*({_ANY_TERM}(?:\s*,\s*{_ANY_TERM})*)\s*(\))"
    rf"(?:@(\[|\()\s*({_BOUND})\s*,\s*({_BOUND})\s*(\]|\)))?\s*\.(?=\r?\n)"
)
_TERM: Final = re.compile("|".join(rf"({term})(?=\s*[,)])" for term in _TERMS))


def read_fact(source: Source, position: int) -> Clause | None:
    """The plain fact that stands next and has the rest of its line to itself, or None."""
    found = _FACT.match(source.text, position)
    if found is None or found[2] in METRIC_WORDS:
        return None
    name_start, name_end = found.span(2)
    close, end = found.end(4), found.end()
    terms = tuple([_term(source, term) for term in _TERM.finditer(source.text, found.start(3), close)])
    name = Name(found[2], span=Span(source, name_start, name_end))
    span = Span(source, name_start, close)
    call = Call(name, terms, span=span)
    head = Atom(call, span=span)
    if found[5] is not None:
        head = Atom(call, _interval(source, found), span=Span(source, name_start, found.end(8)))
    sign = found[1]
    start = name_start if sign is None else found.start(1)
    is_apart = position and start - position > 1 and source.text.count("\n", position, start) > 1
    return Clause((head,), (), sign, span=Span(source, start, end), comments=("",) if is_apart else ())


def _interval(source: Source, found: re.Match[str]) -> Interval:
    bounds = []
    for group in (6, 7):
        kind = NumberKind.DECIMAL if "." in found[group] else NumberKind.INTEGER
        bounds.append(Number(found[group], kind, span=Span(source, *found.span(group))))
    span = Span(source, found.start(5), found.end(8))
    return Interval(found[5] == "[", bounds[0], bounds[1], found[8] == "]", span=span)


def _term(source: Source, found: re.Match[str]) -> Expression:
    text = found[0]
    span = Span(source, *found.span())
    match found.lastindex:
        case 1:
            return Boolean(text == "true", span=span) if text in ("true", "false") else Name(text, span=span)
        case 2:
            return Number(text, NumberKind.INTEGER, span=span)
        case 3:
            return Number(text, NumberKind.DECIMAL, span=span)
        case 4:
            return Text(text[1:-1], span=span)
        case 5:
            prefix, _, local = text.partition(":")
            return PrefixedName(prefix, local, span=span)
        case _:
            return Iri(text[1:-1], span=span)
