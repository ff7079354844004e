"""Faults in the order of tokens: from `expected this, found that` to what was probably meant.

The known mistakes are tried one after the other; the first that fits explains the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tidelog.errors import Diagnostic, Label, SourceText, Span, codes
from tidelog.records import dataclass
from tidelog.syntax.lexer import (
    ARROW,
    ATTRIBUTE,
    COMPARISON,
    DIRECTIVE,
    DURATION,
    END,
    FORMAT,
    METRIC,
    METRIC_WORDS,
    NAME,
    NAMESPACE,
    NUMBERS,
    PREFIXED,
    QUERY,
    STRING,
    SYMBOLS,
    VALUES,
    Tokens,
)

EXPRESSION: Final = "an expression"
COMPARED: Final = "a comparison"
STATEMENT: Final = "a statement"
HEAD: Final = "a head"
LITERAL: Final = "a condition"
ATOM: Final = "an atom"
HEAD_HELP: Final = "a head is an atom, perhaps under `boxminus` or `boxplus`, or an equality"
ATTRIBUTE_MESSAGE: Final = "an attribute is only allowed before a fact or rule"
ATTRIBUTE_HELP: Final = "put it before the head, and before its sign"

_CLOSING: Final = {"(": ")", "[": "]", "{": "}", ATTRIBUTE: "]"}
_BEGINS_STATEMENT: Final = VALUES | {"[", "-", "+", METRIC, DIRECTIVE, ATTRIBUTE, QUERY, END}
_BEGINS_ITEM: Final = VALUES | {"~", "[", METRIC, NAMESPACE}
_ARROWS: Final = re.compile(r"<-+|<=+|=+>|-+>|:=|::-|::|(?:if|IF)\b")
_OPERATORS: Final = {
    "==": "equality is written `=`",
    "=<": "write `<=`",
    "=>": "write `>=`",
    "=:": "equality is written `=`",
    ":=": "a variable is bound with `=`, as in `?y = ?x + 1`",
    "<>": "inequality is written `!=`",
    "><": "inequality is written `!=`",
    "**": "a power is written `POW(?x, 2)`",
    "is": "a variable is bound with `=`, as in `?y = ?x + 1`",
    "and": "conditions are joined by commas",
    "AND": "conditions are joined by commas",
    "or": "there is no `or`: write one rule for each alternative",
    "OR": "there is no `or`: write one rule for each alternative",
    "mod": "the remainder is written `REM(?x, 2)`",
    "in": "write one rule, or one fact, for each value",
}


class SyntaxFault(Exception):  # noqa: N818 - never leaves the parser
    """A fault that ends the parsing of a statement."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class UnexpectedToken:
    """The token at which parsing stopped, and what would have fitted there."""

    source: SourceText
    tokens: Tokens
    index: int
    expected: tuple[str, ...]

    @property
    def kind(self) -> str:
        return self.tokens.kinds[self.index]

    @property
    def previous_kind(self) -> str:
        return self.tokens.kinds[self.index - 1] if self.index else ""

    @property
    def span(self) -> Span:
        return Span(self.source, self.tokens.starts[self.index], self.tokens.ends[self.index])

    @property
    def previous(self) -> Span:
        """The span of the token before; of this token if it is the first."""
        index = max(self.index - 1, 0)
        return Span(self.source, self.tokens.starts[index], self.tokens.ends[index])

    @property
    def gap(self) -> Span:
        """The place right behind the token before."""
        return Span(self.source, self.previous.end, self.previous.end + 1)

    @property
    def is_attached(self) -> bool:
        """Whether nothing stands between this token and the one before."""
        return self.index > 0 and self.previous.end == self.span.start

    @property
    def begins_line(self) -> bool:
        """Whether this token is the first on its line."""
        return self.index > 0 and "\n" in self.source.text[self.previous.end : self.span.start]

    @property
    def is_indented(self) -> bool:
        """Whether this token stands further right than the first of its statement."""
        source = self.source
        return source.position(self.span.start)[1] > source.position(self.tokens.starts[0])[1]

    @property
    def is_in_head(self) -> bool:
        """Whether neither an arrow nor the mark of a query stands before."""
        before = self.tokens.kinds[: self.index]
        return ARROW not in before and QUERY not in before


def explain(found: UnexpectedToken) -> Diagnostic:
    """The diagnostic that explains best what is wrong at a token."""
    for mistake in _MISTAKES:
        diagnostic = mistake(found)
        if diagnostic is not None:
            return diagnostic
    message = f"expected {_alternatives(found.expected)}, found {described(found)}"
    return Diagnostic(codes.UNEXPECTED_TOKEN, message, _visible(found.span), _general_help(found))


def described(found: UnexpectedToken) -> str:
    """The token as a message names it."""
    if found.kind == END:
        return "the end of the text"
    if found.kind in (STRING, FORMAT):
        return "a string"
    return f"`{found.span.text}`"


def _bad_number(found: UnexpectedToken) -> Diagnostic | None:
    numbers = NUMBERS | {DURATION}
    if not found.is_attached or found.previous_kind not in numbers or found.kind not in SYMBOLS | numbers:
        return None
    span = found.previous.to(found.span)
    help_line = "a number ends before a letter; durations have the units ms, s, m, h, d and w"
    return Diagnostic(codes.BAD_NUMBER, f"`{span.text}` is not a number", span, help_line)


def _blank_node(found: UnexpectedToken) -> Diagnostic | None:
    if found.previous.text != "_" or not found.is_attached or found.kind != PREFIXED:
        return None
    span = found.previous.to(found.span)
    message = f"blank nodes are not supported, such as `{span.text}`"
    return Diagnostic(codes.UNEXPECTED_TOKEN, message, span, "use a name, or a variable for any value: `_`")


def _misplaced_attribute(found: UnexpectedToken) -> Diagnostic | None:
    if found.kind != ATTRIBUTE or found.begins_line:
        return None
    return Diagnostic(codes.MISPLACED_ATTRIBUTE, ATTRIBUTE_MESSAGE, found.span, ATTRIBUTE_HELP)


def _misplaced_metric(found: UnexpectedToken) -> Diagnostic | None:
    """A metric word without an interval, or between the atoms of a head."""
    if found.kind == METRIC and found.is_in_head and "`:-`" in found.expected:
        message = f"a head cannot contain `{found.span.text}`"
        return Diagnostic(codes.HEAD_NOT_ALLOWED, message, found.span, HEAD_HELP)
    for span, kind in ((found.previous, found.previous_kind), (found.span, found.kind)):
        if kind == NAME and span.text in METRIC_WORDS:
            message = f"`{span.text}` needs an interval"
            return Diagnostic(codes.METRIC_WORD, message, span, f"as in `{span.text}[0, 5m]`")
    return None


def _comparison_in_head(found: UnexpectedToken) -> Diagnostic | None:
    if found.kind != COMPARISON or not found.is_in_head or "`:-`" not in found.expected:
        return None
    message = f"a head cannot contain `{found.span.text}`"
    return Diagnostic(codes.HEAD_NOT_ALLOWED, message, found.span, HEAD_HELP)


def _unclosed_bracket(found: UnexpectedToken) -> Diagnostic | None:
    if found.kind not in (".", ARROW, END, QUERY, DIRECTIVE):
        return None
    opening = _last_open(found.tokens.kinds[: found.index])
    if opening is None or f"`{_CLOSING[found.tokens.kinds[opening]]}`" not in found.expected:
        return None
    span = Span(found.source, found.tokens.starts[opening], found.tokens.ends[opening])
    closing = _CLOSING[found.tokens.kinds[opening]]
    label = Label(_visible(found.span), f"expected `{closing}` before this")
    return Diagnostic(codes.UNCLOSED_BRACKET, f"this `{span.text}` is never closed", span, labels=(label,))


def _foreign_arrow(found: UnexpectedToken) -> Diagnostic | None:
    if not found.is_in_head:
        return None
    start = (
        found.previous.start
        if found.is_attached and found.previous_kind in tuple("=-:")
        else found.span.start
    )
    written = _ARROWS.match(found.source.text, start)
    if written is None:
        return None
    span = Span(found.source, written.start(), written.end())
    message = f"a rule's arrow is `:-`, not `{written[0]}`"
    is_reversed = written[0].endswith(">")
    help_line = "write the head, `:-`, and then the conditions" if is_reversed else "write `:-`"
    return Diagnostic(codes.FOREIGN_ARROW, message, span, help_line)


def _foreign_negation(found: UnexpectedToken) -> Diagnostic | None:
    is_not = found.previous_kind == NAME and found.previous.text.lower() == "not"
    if not is_not or found.kind not in SYMBOLS | {METRIC, "["}:
        return None
    help_line = f"write `~` for `{found.previous.text}`"
    return Diagnostic(codes.FOREIGN_NEGATION, "negation is written `~`", found.previous, help_line)


def _foreign_operator(found: UnexpectedToken) -> Diagnostic | None:
    span = found.span
    if found.kind != NAME:
        if not found.is_attached:
            return None
        span = Span(found.source, found.previous.end - 1, found.span.start + 1)
    help_line = _OPERATORS.get(span.text)
    if help_line is None:
        return None
    return Diagnostic(codes.FOREIGN_OPERATOR, f"unknown operator `{span.text}`", span, help_line)


def _missing_full_stop(found: UnexpectedToken) -> Diagnostic | None:
    # What stands on a line of its own, and is followed by an arrow, is a rule even if it is indented.
    is_rule = ARROW in found.tokens.kinds[found.index :]
    is_new = found.kind == END or (found.begins_line and (is_rule or not found.is_indented))
    if "`.`" not in found.expected or found.kind not in _BEGINS_STATEMENT:
        return None
    if not is_new and found.kind not in (DIRECTIVE, QUERY, ATTRIBUTE):
        return None
    help_line = "end the statement with ` .`"
    return Diagnostic(codes.MISSING_FULL_STOP, "a full stop is missing here", found.gap, help_line)


def _missing_comma(found: UnexpectedToken) -> Diagnostic | None:
    if "`,`" not in found.expected or found.kind not in _BEGINS_ITEM or not found.index:
        return None
    help_line = f"write `,` before {described(found)}"
    if "`.`" in found.expected:
        help_line += ", or `.` if a statement ends here"
    return Diagnostic(codes.MISSING_COMMA, "a comma is missing here", found.gap, help_line)


def _foreign_variable(found: UnexpectedToken) -> Diagnostic | None:
    name = found.previous.text
    if COMPARED not in found.expected or found.previous_kind != NAME or not name[:1].isupper():
        return None
    help_line = f"a variable is written `?{name.lower()}`; an atom has parentheses, as in `{name}()`"
    return Diagnostic(codes.FOREIGN_VARIABLE, f"`{name}` is not a condition", found.previous, help_line)


_MISTAKES: Final[tuple[Callable[[UnexpectedToken], Diagnostic | None], ...]] = (
    _bad_number,
    _blank_node,
    _misplaced_attribute,
    _foreign_arrow,
    _comparison_in_head,
    _misplaced_metric,
    _foreign_negation,
    _foreign_operator,
    _unclosed_bracket,
    _missing_full_stop,
    _missing_comma,
    _foreign_variable,
)


def _general_help(found: UnexpectedToken) -> str | None:
    name = found.previous.text
    first, behind = found.tokens.kinds[0], found.tokens.ends[0]
    if found.previous_kind == NAME and "`(`" in found.expected and found.kind in (".", ",", ARROW, END):
        return f"an atom has parentheses, also without arguments: `{name}()`"
    if first in ("+", "-") and found.is_in_head and not found.source.text[behind : behind + 1].isspace():
        return f"write a space after the sign of a change: `{first} p(a) .`"
    if STATEMENT in found.expected and found.kind == ".":
        return "a statement ends with one full stop"
    if ATOM in found.expected and found.previous_kind == "~":
        return "only atoms are negated; turn a comparison around instead: `!=` for `=`, `>=` for `<`"
    if found.expected == ("`)`",) and found.kind == ",":
        return "parentheses group arithmetic only; conditions are joined by commas without them"
    return None


def _alternatives(expected: tuple[str, ...]) -> str:
    if len(expected) == 1:
        return expected[0]
    return f"{', '.join(expected[:-1])} or {expected[-1]}"


def _last_open(kinds: list[str]) -> int | None:
    """The index of the last bracket that is still open."""
    depth = 0
    for index in range(len(kinds) - 1, -1, -1):
        if kinds[index] in (")", "]", "}"):
            depth += 1
        elif kinds[index] in _CLOSING:
            if not depth:
                return index
            depth -= 1
    return None


def _visible(span: Span) -> Span:
    """The span, or at the end of the text the last character, so that a caret has a place to stand."""
    if span.start < len(span.source.text):
        return span
    end = len(span.source.text.rstrip())
    return Span(span.source, end, end + 1)
