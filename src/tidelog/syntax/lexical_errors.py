"""Faults in the characters of a program: what is wrong, and where reading goes on.

Most are habits from other languages, and get the help that a newcomer needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tidelog.errors import Diagnostic, Source, Span
from tidelog.syntax import codes
from tidelog.syntax.tokens import COMPARISON, INTEGER

_HELP_FOR_CHARACTER: Final = {
    "!": "negation is written `~p(?x)`",
    "¬": "negation is written `~p(?x)`",
    "\\": r"negation is written `~p(?x)`, inequality `?x != ?y`",
    "?": "a variable's name begins with a letter, as in `?x`",
    "$": "a parameter's name begins with a letter, as in `$limit`",
    ";": "there is no `or`: write one rule for each alternative",
    "|": "there is no `or`: write one rule for each alternative",
    "∨": "there is no `or`: write one rule for each alternative",
    "&": "conditions are joined by commas",
    "∧": "conditions are joined by commas",
    "←": "a rule's arrow is `:-`",
    "→": "a rule's arrow is `:-`, its head stands before it",
    "≠": "inequality is written `!=`",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "'": "strings stand in double quotes",
    "^": 'a datatype is written `"2"^^xsd:int`, a power `POW(?x, 2)`',
    "“": 'strings stand in plain double quotes: `"`',
    "”": 'strings stand in plain double quotes: `"`',
}
_DIRECTIVE_HELP: Final = {
    "decl": "declare a predicate with `@declare edge(from: int, to: int) .`",
    "type": "there are no type declarations: columns have types, as in `@declare edge(from: int) .`",
    "input": 'read facts with `@import edge :- csv{ resource = "edges.csv" } .`',
    "output": "name the predicates to write with `@output edge .`",
    "printsize": "name the predicates to write with `@output edge .`",
    "include": 'include a file with `@include "rules.rls" .`',
    "comp": "there are no components: include a file with `@include`",
    "init": "there are no components: include a file with `@include`",
    "limitsize": "stop early with `--max-facts`",
    "pragma": "options are given on the command line",
}
_FOREIGN_DIRECTIVE: Final = re.compile(r"\.(" + "|".join(_DIRECTIVE_HELP) + r")\b[^\n]*")
_BEFORE_VALUE: Final = frozenset("(,[=+-*/") | {COMPARISON}
_SINGLE_QUOTED: Final = re.compile(r"'[^'\n]*'")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_IRI_CHARACTERS: Final = re.compile(r"""<[^\s<>"{}|^`\\]*""")


@dataclass(frozen=True, slots=True)
class Fault:
    """A diagnostic, and where reading goes on."""

    diagnostic: Diagnostic
    resume: int
    is_line: bool = False
    """Whether it is a line of its own where no statement has begun."""
    ends_statement: bool = False
    """Whether what is skipped holds the statement's full stop."""


def not_a_token(source: Source, start: int, end: int) -> Fault:
    """The fault of characters at `start` that begin no token."""
    text = source.text
    if text.startswith(('"', 'f"'), start):
        return _unterminated_string(source, start, end)
    if text.startswith("/*", start):
        span = Span(source, start, start + 2)
        message = "this comment is never closed"
        return Fault(Diagnostic(codes.UNTERMINATED_COMMENT, message, span, "close it with `*/`"), end)
    if text.startswith("#", start):
        return foreign_comment(source, start, end)
    return _unexpected_character(source, start, end)


def foreign_comment(source: Source, start: int, end: int) -> Fault:
    """The fault of a `//` or `#` comment."""
    line_end = _line_end(source.text, start, end)
    written = "//" if source.text.startswith("//", start) else "#"
    message = f"`{written}` does not begin a comment"
    diagnostic = Diagnostic(
        codes.FOREIGN_COMMENT,
        message,
        Span(source, start, start + len(written)),
        "comments are written `% …` or `/* … */`",
    )
    return Fault(diagnostic, line_end, is_line=True)


def full_stop_fault(source: Source, previous: str, start: int) -> Fault | None:
    """The fault of a full stop that ends no statement, or None if it does."""
    behind = source.text[start + 1 : start + 2]
    if not previous:
        return _foreign_directive(source, start)
    if previous == INTEGER and source.text[start - 1].isdigit() and behind in tuple(",)]}"):
        return _bad_decimal(source, start, "a decimal has digits behind its point, as in `1.0`")
    if behind.isdecimal() and previous in _BEFORE_VALUE:
        return _bad_decimal(source, start, "a decimal has digits before its point, as in `0.5`")
    return None


def _foreign_directive(source: Source, start: int) -> Fault | None:
    found = _FOREIGN_DIRECTIVE.match(source.text, start)
    if found is None:
        return None
    message = f"there is no directive `.{found[1]}`"
    span = Span(source, start, found.end(1))
    diagnostic = Diagnostic(codes.FOREIGN_DIRECTIVE, message, span, _DIRECTIVE_HELP[found[1]])
    return Fault(diagnostic, found.end(), is_line=True)


def _bad_decimal(source: Source, point: int, help_line: str) -> Fault:
    """The fault of a number with digits on one side of its point only."""
    start, end = point, point + 1
    while start and source.text[start - 1].isdecimal():
        start -= 1
    while source.text[end : end + 1].isdecimal():
        end += 1
    span = Span(source, start, end)
    return Fault(Diagnostic(codes.BAD_NUMBER, f"`{span.text}` is no number", span, help_line), end)


def malformed_iri(source: Source, start: int, end: int) -> Fault:
    """The fault of a `<` that begins no IRI."""
    line_end = _line_end(source.text, start, end)
    found = _IRI_CHARACTERS.match(source.text, start, line_end)
    stop = found.end() if found else start + 1
    close = source.text.find(">", start, line_end)
    if close < 0:
        diagnostic = Diagnostic(
            codes.MALFORMED_IRI, "this IRI is never closed", Span(source, start, stop), "close it with `>`"
        )
        return Fault(diagnostic, line_end, ends_statement=_has_full_stop(source.text, start, line_end))
    message = f"an IRI may not contain {_shown(source.text[stop])}"
    help_line = "write the character as a percent escape, such as `%20` for a space"
    return Fault(
        Diagnostic(codes.MALFORMED_IRI, message, Span(source, start, close + 1), help_line), close + 1
    )


def _unterminated_string(source: Source, start: int, end: int) -> Fault:
    quotes = source.text.index('"', start)
    if source.text.startswith('"""', quotes):
        help_line = 'close it with `"""`'
        stop = resume = end
    else:
        help_line = 'close it with `"`, or begin it with `"""` if it has several lines'
        resume = _line_end(source.text, start, end)
        stop = start + len(source.text[start:resume].rstrip())
    span = Span(source, start, stop)
    diagnostic = Diagnostic(codes.UNTERMINATED_STRING, "this string is never closed", span, help_line)
    return Fault(diagnostic, resume, ends_statement=_has_full_stop(source.text, start, resume))


def _unexpected_character(source: Source, start: int, end: int) -> Fault:
    character = source.text[start]
    resume = start + 1
    for pattern in (_SINGLE_QUOTED, _NOT_ASCII):
        if found := pattern.match(source.text, start, end):
            resume = found.end()
    help_line = _HELP_FOR_CHARACTER.get(character)
    if help_line is None and character.isalpha():
        help_line = "names are made of the letters A to Z, digits, `_` and `-`; others stand in IRIs: `<…>`"
    message = f"unexpected character {_shown(character)}"
    return Fault(
        Diagnostic(codes.UNEXPECTED_CHARACTER, message, Span(source, start, start + 1), help_line), resume
    )


def _shown(character: str) -> str:
    if character == " ":
        return "a space"
    return f"`{character}`" if character.isprintable() else f"U+{ord(character):04X}"


def _has_full_stop(text: str, start: int, end: int) -> bool:
    return text[start:end].rstrip().endswith(".")


def _line_end(text: str, start: int, end: int) -> int:
    found = text.find("\n", start, end)
    return end if found < 0 else found
