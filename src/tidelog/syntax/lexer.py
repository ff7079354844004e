r"""Text to tokens, one statement at a time.

The tokens are those of the grammar, with its priorities. Two of them depend on what stands before, and the
lexer looks one token back to tell them apart:

- A sign belongs to a number only where a value may begin: `?x -1` and `?x-1` are subtractions,
  `?x = -1` and `?x - -1` hold the number -1. (`n-1` is a name: names may contain `-`.)
- `<` begins an IRI only where a value may begin: `?x<?y, ?z>3` are two comparisons.

A full stop ends a statement wherever it stands outside numbers, strings, IRIs and comments, so a fault never
spreads further than its statement.

Beyond the grammar: `-0xff` is read as `-` and `0xff`, strings may stand in the braces of a format string in
single quotes, as in Nemo, and `_` and the Booleans are what they are before `:-` too, not names.
"""

from __future__ import annotations

import re
from typing import Final

from tidelog.errors import Diagnostic, Source, Span
from tidelog.syntax import codes
from tidelog.syntax.lexical_errors import (
    Fault,
    foreign_comment,
    full_stop_fault,
    malformed_iri,
    not_a_token,
)
from tidelog.syntax.tokens import (
    AGGREGATE,
    ANONYMOUS,
    ARROW,
    ATTRIBUTE,
    BASED,
    BOOLEAN,
    COMMENT,
    COMPARISON,
    DATATYPE,
    DECIMAL,
    DIRECTIVE,
    DIRECTIVES,
    DOUBLE,
    DURATION,
    END,
    ERROR,
    EXISTENTIAL,
    FORMAT,
    INTEGER,
    IRI,
    LANGUAGE,
    METRIC,
    NAME,
    NAMESPACE,
    PARAMETER,
    PREFIXED,
    QUERY,
    STRING,
    VALUES,
    VARIABLE,
    Comment,
    Tokens,
)

_SIGNED: Final = "S"
_AFTER_VALUE: Final = (VALUES - {AGGREGATE}) | {LANGUAGE, ERROR, ")"}
# Kinds that need a second look; all others are appended as they are.
_SPECIAL: Final = frozenset({_SIGNED, COMMENT, IRI, COMPARISON, LANGUAGE, ".", "/"})

_WORD = r"[A-Za-z][A-Za-z0-9_-]*"
_QUOTED = r'"(?!"")[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_TRIPLE = r'"""[\s\S]*?"""'
_FORMATTED = rf'"(?!"")(?:[^"\\\n{{]|\\.|\{{\{{|\{{(?:[^"{{}}\n]|{_QUOTED})*\}})*"'

_PATTERNS: Final = (
    (METRIC, r"(?:(?:box|diamond)(?:minus|plus)|since|until)(?=\s*[\[(])"),
    (FORMAT, rf"f(?:{_TRIPLE}|{_FORMATTED}|{_QUOTED})"),
    (PREFIXED, rf"(?:{_WORD})?:[A-Za-z_0-9][A-Za-z0-9_-]*"),
    (BOOLEAN, r"(?:true|false)(?:(?![A-Za-z0-9_:(])|(?=:-))"),
    (ANONYMOUS, r"_(?:(?![A-Za-z0-9_:])|(?=:-))"),
    (NAMESPACE, rf"(?:{_WORD})?:(?=\s)"),
    (NAME, r"[A-Za-z_][A-Za-z0-9_-]*"),
    (VARIABLE, r"\?[A-Za-z_][A-Za-z0-9_]*"),
    (STRING, rf"{_TRIPLE}|{_QUOTED}"),
    (BASED, r"0b[01]+|0o[0-7]+|0x[0-9A-Fa-f]+"),
    (DURATION, r"[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d|w)(?![A-Za-z0-9_])"),
    (DOUBLE, r"[0-9]+(?:\.[0-9]*)?[eE][+-]?[0-9]+"),
    (DECIMAL, r"[0-9]+\.[0-9]+"),
    (INTEGER, r"[0-9]+"),
    (COMMENT, r"%[^\n]*|/\*[\s\S]*?\*/"),
    (ARROW, r":-"),
    (IRI, r"""<[^\s<>"{}|^`\\]*>"""),
    (COMPARISON, r"!=|<=|>=|<|>"),
    (_SIGNED, r"[+-](?=[0-9])(?!0[box][0-9A-Fa-f])"),
    ("", r"[(),.=\[\]{}+\-*~:]|/(?!\*)|@(?![A-Za-z])"),
    (LANGUAGE, r"@[A-Za-z]+(?:-[A-Za-z0-9]+)*"),
    (QUERY, r"\?-"),
    (PARAMETER, r"\$[A-Za-z_][A-Za-z0-9_]*"),
    (EXISTENTIAL, r"![A-Za-z_][A-Za-z0-9_]*"),
    (ATTRIBUTE, r"#\["),
    (AGGREGATE, r"#[A-Za-z]+"),
    (DATATYPE, r"\^\^"),
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TOKEN: Final = re.compile(r"\s*(?:" + "|".join(f"({pattern})" for _, pattern in _PATTERNS) + ")")
_KINDS: Final = ("", *(kind for kind, _ in _PATTERNS))
_SIGNED_NUMBER: Final = re.compile(
    r"(-[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d|w)(?![A-Za-z0-9_]))"
    r"|([+-][0-9]+(?:\.[0-9]*)?[eE][+-]?[0-9]+)|([+-][0-9]+\.[0-9]+)|([+-][0-9]+)"
)
_SIGNED_KINDS: Final = ("", DURATION, DOUBLE, DECIMAL, INTEGER)
_SPACE: Final = re.compile(r"\s*")
_FOREIGN_COMMENT: Final = re.compile(r"//(?!\*)")
_REMARK: Final = re.compile(r"[^\S\n]*(%[^\n]*|/\*(?:(?!\*/).)*\*/)")
# An interval after a metric word, behind which an IRI may stand although its `)` looks like a value's end.
_METRIC_INTERVAL: Final = re.compile(rf"{METRIC}[\[(][^\[\]()]*\)\Z")

_LONGEST_INTERVAL: Final = 12


class Lexer:
    """Reads a source, or a part of it, statement by statement; keeps its place and the faults found."""

    def __init__(self, source: Source, start: int = 0, end: int | None = None) -> None:
        self.source = source
        self.text = source.text
        self.end = len(source.text) if end is None else end
        self.diagnostics: list[Diagnostic] = []
        if start == 0 and end is None and not source.text.isascii():
            self._report_surrogates()
        self.restart(start)

    def _report_surrogates(self) -> None:
        """Report the first character that is half of a surrogate pair: no encoding can write it."""
        found = _SURROGATE.search(self.text)
        if found is not None:
            point = ord(found[0])
            message = f"unexpected character U+{point:04X}, which is half of a surrogate pair"
            if 0xDC80 <= point <= 0xDCFF:  # how Python hands bytes on that are not UTF-8
                message = f"the byte {point - 0xDC00:02X} is not UTF-8"
            help_line = "save the text as UTF-8"
            span = Span(self.source, found.start(), found.end())
            self.diagnostics.append(Diagnostic(codes.UNEXPECTED_CHARACTER, message, span, help_line))

    def restart(self, position: int) -> None:
        """Go on reading at `position`."""
        self.position = position
        # A scanner steps from match to match as `finditer` does, but can be thrown away for another place.
        self._scan = _TOKEN.scanner(self.text, position, self.end).match  # type: ignore[attr-defined]

    def read(self, stop: str = ".") -> Tokens:
        """The tokens up to and with the next `stop`, or up to the end."""
        tokens = Tokens(before=self.position)
        kinds, starts, ends = tokens.kinds, tokens.starts, tokens.ends
        end = self.position
        kind = ""
        while kind != stop and kind != END:
            found = self._scan()
            if found is None:
                kind, start, end = self._unexpected(tokens, end)
            else:
                group = found.lastindex
                start, end = found.span(group)
                previous, kind = kind, _KINDS[group] or self.text[start]
                if kind in _SPECIAL:
                    kind, end = self._look_again(tokens, previous, kind, start, end)
            if kind == COMMENT:
                kind = kinds[-1] if kinds else ""
                continue
            kinds.append(kind)
            starts.append(start)
            ends.append(end)
        self.position = end
        if kind == stop and not self.text.startswith("\n", end):
            self._read_remark(tokens, end)
        return tokens

    def _look_again(self, tokens: Tokens, previous: str, kind: str, start: int, end: int) -> tuple[str, int]:
        """The kind and end of a token that depends on what stands before it."""
        if kind == COMMENT:
            tokens.comments.append(Comment(len(tokens.kinds), start, end))
        elif kind == _SIGNED:
            return self._signed("" if self._is_behind_at(tokens) else previous, start)
        elif kind == LANGUAGE:
            is_directive = previous != STRING and self.text[start:end] in DIRECTIVES
            return (DIRECTIVE if is_directive or not tokens.kinds else LANGUAGE), end
        elif kind == "/" and _FOREIGN_COMMENT.match(self.text, start):
            return self._skip(tokens, foreign_comment(self.source, start, self.end))
        elif kind == ".":
            fault = full_stop_fault(self.source, previous, start)
            return self._skip(tokens, fault) if fault is not None else (kind, end)
        elif kind in (IRI, COMPARISON):
            return self._angle(tokens, previous, kind, start, end)
        return kind, end

    def _is_behind_at(self, tokens: Tokens) -> bool:
        """Whether the last token is the word `at` behind an atom: a time follows."""
        is_behind = tokens.kinds[-2:] in ([")", NAME], ["]", NAME])
        return is_behind and self.text[tokens.starts[-1] : tokens.ends[-1]] == "at"

    def _signed(self, previous: str, start: int) -> tuple[str, int]:
        """An operator after a value, else a number with its sign."""
        if previous in _AFTER_VALUE:
            self.restart(start + 1)
            return self.text[start], start + 1
        found = _SIGNED_NUMBER.match(self.text, start, self.end)
        assert found is not None and found.lastindex is not None
        self.restart(found.end())
        return _SIGNED_KINDS[found.lastindex], found.end()

    def _angle(self, tokens: Tokens, previous: str, kind: str, start: int, end: int) -> tuple[str, int]:
        """A comparison after a value, else an IRI."""
        after_value = (
            previous in _AFTER_VALUE
            and tokens.kinds[0] != DIRECTIVE
            and not (previous == ")" and _METRIC_INTERVAL.search("".join(tokens.kinds[-_LONGEST_INTERVAL:])))
        )
        if kind == IRI and after_value:
            end = start + (2 if self.text.startswith("<=", start) else 1)
            self.restart(end)
            return COMPARISON, end
        is_foreign = previous == "=" and self.text.startswith("=<", start - 1)
        if kind == COMPARISON and not after_value and not is_foreign and self.text.startswith("<", start):
            return self._skip(tokens, malformed_iri(self.source, start, self.end))
        return kind, end

    def _unexpected(self, tokens: Tokens, position: int) -> tuple[str, int, int]:
        """The end of the text, or a fault: report what cannot be a token, and skip it."""
        found = _SPACE.match(self.text, position, self.end)
        assert found is not None
        start = found.end()
        if start == self.end:
            return END, start, start
        kind, end = self._skip(tokens, not_a_token(self.source, start, self.end))
        return kind, start, end

    def _skip(self, tokens: Tokens, fault: Fault) -> tuple[str, int]:
        """Report a fault and go on behind it; it ends the statement if it took its full stop along."""
        # The closing quotes of a string in several lines would seem to open another.
        if not (tokens.broken and fault.diagnostic.code == codes.UNTERMINATED_STRING):
            self.diagnostics.append(fault.diagnostic)
        self.restart(fault.resume)
        if fault.is_line and not tokens.kinds:
            return COMMENT, fault.resume
        tokens.broken = True
        return ("." if fault.ends_statement else ERROR), fault.resume

    def _read_remark(self, tokens: Tokens, position: int) -> None:
        found = _REMARK.match(self.text, position, self.end)
        if found is not None:
            tokens.remark = found[1]
            self.restart(found.end())
