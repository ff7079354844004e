"""What each piece of a program's text is, for colours in terminals and on pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tidelog.errors import Source
from tidelog.syntax.lexer import Lexer
from tidelog.syntax.tokens import (
    AGGREGATE,
    ANONYMOUS,
    ARROW,
    ATTRIBUTE,
    BOOLEAN,
    COMPARISON,
    DIRECTIVE,
    DURATION,
    END,
    ERROR,
    EXISTENTIAL,
    FORMAT,
    IRI,
    LANGUAGE,
    METRIC,
    NAME,
    NAMESPACE,
    NUMBERS,
    PARAMETER,
    PREFIXED,
    QUERY,
    STRING,
    SYMBOLS,
    VARIABLE,
    Tokens,
)

# The classes of pieces, as style sheets name them.
PLAIN: Final = "plain"
PREDICATE: Final = "predicate"
COMMENT: Final = "comment"
CLASSES: Final = {
    NAME: "name",
    PREFIXED: "name",
    NAMESPACE: "name",
    IRI: "name",
    VARIABLE: "variable",
    ANONYMOUS: "variable",
    PARAMETER: "variable",
    EXISTENTIAL: "variable",
    STRING: "string",
    FORMAT: "string",
    LANGUAGE: "string",
    BOOLEAN: "number",
    DURATION: "number",
    **dict.fromkeys(NUMBERS, "number"),
    DIRECTIVE: "keyword",
    METRIC: "keyword",
    AGGREGATE: "keyword",
    ATTRIBUTE: "keyword",
    ARROW: "operator",
    QUERY: "operator",
    COMPARISON: "operator",
    **dict.fromkeys("~=+-*/", "operator"),
    ERROR: "error",
}

_COMMENT: Final = re.compile(r"%[^\n]*|/\*[\s\S]*?(?:\*/|\Z)")


def highlight(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of the text in order, each with its class; together they are the text.

    >>> list(highlight("p(?x) ."))
    [('predicate', 'p'), ('plain', '('), ('variable', '?x'), ('plain', ')'), ('plain', ' '), ('plain', '.')]
    """
    lexer = Lexer(Source("<text>", text))
    position = 0
    tokens = Tokens()
    while tokens.kinds[-1:] != [END]:
        tokens = lexer.read()
        read = zip(tokens.kinds, tokens.starts, tokens.ends, strict=True)
        for place, (kind, start, end) in enumerate(read):
            if start < position or kind == END:
                continue
            yield from _between(text[position:start])
            is_predicate = kind in SYMBOLS and tokens.kinds[place + 1 : place + 2] == ["("]
            yield PREDICATE if is_predicate else CLASSES.get(kind, PLAIN), text[start:end]
            position = end
    yield from _between(text[position:])


def _between(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of a text between two tokens: space and comments."""
    position = 0
    for found in _COMMENT.finditer(text):
        if found.start() > position:
            yield PLAIN, text[position : found.start()]
        yield COMMENT, found[0]
        position = found.end()
    if position < len(text):
        yield PLAIN, text[position:]
