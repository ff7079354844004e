"""The kinds of tokens, and the tokens of a statement.

Kinds are single characters, so that the kinds of a statement spell a word that patterns can be tried on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

NAME: Final = "n"
VARIABLE: Final = "v"
ANONYMOUS: Final = "_"
PARAMETER: Final = "$"
EXISTENTIAL: Final = "!"
PREFIXED: Final = "p"  # ex:alice
NAMESPACE: Final = "N"  # ex: before a space
IRI: Final = "i"
STRING: Final = "s"
FORMAT: Final = "f"
BOOLEAN: Final = "b"
INTEGER: Final = "1"
DECIMAL: Final = "2"
DOUBLE: Final = "3"
BASED: Final = "4"
DURATION: Final = "5"
DIRECTIVE: Final = "D"
LANGUAGE: Final = "l"
AGGREGATE: Final = "#"
METRIC: Final = "m"
COMPARISON: Final = "c"
ARROW: Final = "A"  # :-
QUERY: Final = "Q"  # ?-
ATTRIBUTE: Final = "B"  # #[
DATATYPE: Final = "^"  # ^^
COMMENT: Final = "C"  # never among a statement's tokens
ERROR: Final = "x"  # already reported
END: Final = "e"
# Every other kind is the punctuation mark itself.

SYMBOLS: Final = frozenset({NAME, PREFIXED, IRI})
NUMBERS: Final = frozenset({INTEGER, DECIMAL, DOUBLE, BASED})
WORDS: Final = frozenset({NAME, BOOLEAN, METRIC})
"""What may stand where only a name can: there the special words are names like any other."""
VALUES: Final = (
    SYMBOLS
    | NUMBERS
    | {VARIABLE, ANONYMOUS, PARAMETER, EXISTENTIAL, STRING, FORMAT, BOOLEAN, DURATION, AGGREGATE}
)
"""What an expression may begin with, `(` and `-` apart."""

DIRECTIVES: Final = (
    "@prefix",
    "@base",
    "@declare",
    "@parameter",
    "@import",
    "@export",
    "@output",
    "@include",
    "@timeline",
    "@commit",
    "@advance",
)
METRIC_WORDS: Final = ("boxminus", "boxplus", "diamondminus", "diamondplus", "since", "until")
AGGREGATES: Final = ("count", "sum", "min", "max", "avg")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, and how many tokens of its statement stand before it."""

    index: int
    start: int
    end: int


@dataclass(slots=True)
class Tokens:
    """The tokens of one statement, as parallel lists; the last is its full stop, or `END`."""

    kinds: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    before: int = 0
    """Where the statement before this one ended, its remark included."""
    remark: str | None = None
    broken: bool = False
    """Whether a fault in it has been reported already, so that it is not parsed."""
