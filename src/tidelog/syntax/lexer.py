"""Text to tokens, one statement at a time: kinds of tokens, escapes in quoted text, errors in characters."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Final

from tidelog.errors import Diagnostic, SourceText, Span, codes
from tidelog.records import dataclass

# ---- kinds of tokens
#
# Kinds are single characters, so that the kinds of a statement spell a word that patterns can be tried on.

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


# ---- escapes in quoted text
#
# The escapes are SPARQL's: `\t \b \n \r \f \" \' \\`, `\uXXXX` and `\UXXXXXXXX`.

ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[\s\S]?)")
_RESOLVED = {
    "\\t": "\t",
    "\\b": "\b",
    "\\n": "\n",
    "\\r": "\r",
    "\\f": "\f",
    '\\"': '"',
    "\\'": "'",
    "\\\\": "\\",
}
_ESCAPED = {resolved: escape for escape, resolved in _RESOLVED.items() if resolved != "'"}


class BadEscapeError(ValueError):
    """An escape of no character; `start` and `end` are its position in the text."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.start = start
        self.end = end


def unescape(text: str) -> str:
    r"""Return the text with every escape replaced by its character; raise `BadEscapeError`.

    >>> unescape(r"a\tb\u00e9")
    'a\tbé'
    """
    return ESCAPE.sub(_resolve, text) if "\\" in text else text


def escape(text: str) -> str:
    r"""The text as it stands between double quotes.

    >>> print(escape('say "hi"\n'))
    say \"hi\"\n
    """
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(_escape_character(character) for character in text)


def quote(text: str) -> str:
    r"""The text as a string literal.

    >>> print(quote('C:\\temp'))
    "C:\\temp"
    """
    return f'"{escape(text)}"'


def _resolve(match: re.Match[str]) -> str:
    text = match[0]
    if text in _RESOLVED:
        return _RESOLVED[text]
    if len(text) > 2:
        point = int(text[2:], 16)
        # Surrogates are no characters: text that holds one could not be written out again.
        if point <= 0x10FFFF and not 0xD800 <= point <= 0xDFFF:
            return chr(point)
    raise BadEscapeError(match.start(), match.end())


def _escape_character(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    point = ord(character)
    if character.isprintable() or 0xD800 <= point <= 0xDFFF:
        return character
    return f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"


# ---- errors in the characters of a program
#
# Most are the syntax of other languages, so their help says what this one has instead.

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
    "→": "a rule's arrow is `:-`, after its head",
    "≠": "inequality is written `!=`",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "'": "strings are written in double quotes",
    "^": 'a datatype is written `"2"^^xsd:int`, a power `POW(?x, 2)`',
    "“": 'strings are written in plain double quotes: `"`',
    "”": 'strings are written in plain double quotes: `"`',
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
    """A diagnostic, and where reading continues."""

    diagnostic: Diagnostic
    resume: int
    is_line: bool = False
    """Whether it is a line of its own where no statement has begun."""
    ends_statement: bool = False
    """Whether what is skipped holds the statement's full stop."""


def not_a_token(source: SourceText, start: int, end: int) -> Fault:
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


def foreign_comment(source: SourceText, start: int, end: int) -> Fault:
    """The fault of a `//` or `#` comment."""
    line_end = _line_end(source.text, start, end)
    marker = "//" if source.text.startswith("//", start) else "#"
    message = f"`{marker}` does not begin a comment"
    diagnostic = Diagnostic(
        codes.FOREIGN_COMMENT,
        message,
        Span(source, start, start + len(marker)),
        "comments are written `% …` or `/* … */`",
    )
    return Fault(diagnostic, line_end, is_line=True)


def full_stop_fault(source: SourceText, previous: str, start: int) -> Fault | None:
    """The fault of a full stop that ends no statement, or None if it does."""
    behind = source.text[start + 1 : start + 2]
    if not previous:
        return _foreign_directive(source, start)
    if previous == INTEGER and source.text[start - 1].isdigit() and behind in tuple(",)]}"):
        return _bad_decimal(source, start, "a decimal has digits behind its point, as in `1.0`")
    if behind.isdecimal() and previous in _BEFORE_VALUE:
        return _bad_decimal(source, start, "a decimal has digits before its point, as in `0.5`")
    return None


def _foreign_directive(source: SourceText, start: int) -> Fault | None:
    found = _FOREIGN_DIRECTIVE.match(source.text, start)
    if found is None:
        return None
    message = f"unknown directive `.{found[1]}`"
    span = Span(source, start, found.end(1))
    diagnostic = Diagnostic(codes.FOREIGN_DIRECTIVE, message, span, _DIRECTIVE_HELP[found[1]])
    return Fault(diagnostic, found.end(), is_line=True)


def _bad_decimal(source: SourceText, point: int, help_line: str) -> Fault:
    """The fault of a number with digits on one side of its point only."""
    start, end = point, point + 1
    while start and source.text[start - 1].isdecimal():
        start -= 1
    while source.text[end : end + 1].isdecimal():
        end += 1
    span = Span(source, start, end)
    return Fault(Diagnostic(codes.BAD_NUMBER, f"`{span.text}` is not a number", span, help_line), end)


def malformed_iri(source: SourceText, start: int, end: int) -> Fault:
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


def _unterminated_string(source: SourceText, start: int, end: int) -> Fault:
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


def _unexpected_character(source: SourceText, start: int, end: int) -> Fault:
    character = source.text[start]
    resume = start + 1
    for pattern in (_SINGLE_QUOTED, _NOT_ASCII):
        if found := pattern.match(source.text, start, end):
            resume = found.end()
    help_line = _HELP_FOR_CHARACTER.get(character)
    if help_line is None and character.isalpha():
        help_line = "names consist of the letters A to Z, digits, `_` and `-`; write others as IRIs: `<…>`"
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


# ---- text to tokens
#
# The tokens are those of the grammar, with its priorities. Two of them depend on the token before, so the
# lexer looks one token back:
#
# - A sign belongs to a number only where a value may begin: `?x -1` and `?x-1` are subtractions,
#   `?x = -1` and `?x - -1` hold the number -1. (`n-1` is a name: names may contain `-`.)
# - `<` begins an IRI only where a value may begin: `?x<?y, ?z>3` are two comparisons.
#
# A full stop outside numbers, strings, IRIs and comments always ends a statement, so an error never spreads
# further than its statement.
#
# Beyond the grammar: `-0xff` is read as `-` and `0xff`, strings may stand in the braces of a format string in
# single quotes, as in Nemo, and `_` and the Booleans are what they are before `:-` too, not names.

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
    """Reads a source, or a part of it, statement by statement; keeps its position and the errors found."""

    def __init__(self, source: SourceText, start: int = 0, end: int | None = None) -> None:
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
            message = f"unexpected character U+{point:04X}, which is an unpaired surrogate"
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
        """Report an error and continue after it; the statement ends if the error contains its full stop."""
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
