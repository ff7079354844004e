"""Functions of text.

Text is a string, with or without a language. Names, IRIs and numbers are not text, as in Nemo and SPARQL:
`STR` makes text of them. A function of two texts takes a language in the second only if the first has the
same. A part of a text keeps the language of the whole.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from tidelog.logic import values
from tidelog.logic.functions.function import Result, UnsupportedPattern, function
from tidelog.logic.values import Kind, Value
from tidelog.records import dataclass

_TEXT = frozenset({Kind.STRING, Kind.LANGUAGE_STRING})
# A character that is escaped, a class, the beginning of a group, or one character.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?P?<(?![=!])|\(\?|.", re.DOTALL)
_GROUP_REFERENCE = re.compile(r"\\([\\$])|\$([0-9])|\\|\$", re.ASCII)


def text_of(value: Value) -> str | None:
    """The text of a string, with or without a language; None of all else."""
    return str(value.content) if value.kind in _TEXT else None


def _like(text: str, whole: Value) -> Value:
    """The text in the language of the whole."""
    return Value(whole.kind, text, whole.extra)


def _texts(first: Value, second: Value) -> tuple[str, str] | None:
    """Both texts, if the second has no language or that of the first."""
    if first.kind not in _TEXT or second.kind not in _TEXT:
        return None
    if second.kind is Kind.LANGUAGE_STRING and second.extra != first.extra:
        return None
    return str(first.content), str(second.content)


# ---- one text


@function("STRLEN(text)", "The number of characters.", "text -> int")
def length(whole: Value) -> Result:
    """The number of characters."""
    text = text_of(whole)
    return None if text is None else values.integer(len(text))


def _define_change(name: str, summary: str, change: Callable[[str], str], *aliases: str) -> None:
    def implementation(whole: Value) -> Result:
        text = text_of(whole)
        return None if text is None else _like(change(text), whole)

    function(f"{name}(text)", summary, "text -> first", aliases=aliases)(implementation)


_define_change("UCASE", "The text in upper case.", str.upper)
_define_change("LCASE", "The text in lower case.", str.lower)
_define_change("STRREV", "The text from its end to its start.", lambda text: text[::-1], "STRREVERSE")


@function(
    "URIENCODE(text)",
    "The text with all but letters, digits and `-_.~` percent-encoded.",
    "text -> string",
    aliases=["ENCODE_FOR_URI"],
)
def encode_for_uri(whole: Value) -> Result:
    """The text, percent-encoded."""
    text = text_of(whole)
    return None if text is None else values.string(quote(text, safe="", errors="replace"))


@function(
    "URIDECODE(text)",
    "The text with percent-encoding undone; no value if that is not UTF-8.",
    "text -> string",
)
def decode_uri(whole: Value) -> Result:
    """The text, percent-decoded."""
    text = text_of(whole)
    if text is None:
        return None
    try:
        return values.string(unquote_to_bytes(text).decode())
    except UnicodeDecodeError:
        return None


def _define_hash(name: str) -> None:
    def implementation(whole: Value) -> Result:
        text = text_of(whole)
        if text is None:
            return None
        import hashlib  # here, since most programs compute no digests and its library is slow to load

        digest = hashlib.new(name.lower(), text.encode(errors="replace"), usedforsecurity=False)
        return values.string(digest.hexdigest())

    function(f"{name}(text)", f"The {name} digest of the text in UTF-8, in hexadecimal.", "text -> string")(
        implementation
    )


for _name in ("MD5", "SHA1", "SHA256", "SHA384", "SHA512"):
    _define_hash(_name)


# ---- parts


@function(
    "SUBSTR(text, start[, length])",
    "The part that starts at a position, counted from 1.",
    "text, int -> first",
)
def substring(whole: Value, start: Value, count: Value | None = None) -> Result:
    """The characters whose position p has start <= p < start + count, to the end without a count."""
    text = text_of(whole)
    if text is None or start.kind is not Kind.INTEGER or (count and count.kind is not Kind.INTEGER):
        return None
    first = int(start.content) - 1
    end = len(text) if count is None else first + int(count.content)
    return _like(text[max(first, 0) : max(end, 0)], whole)


@function(
    "STRBEFORE(text, part)",
    'What stands before the first such part; "" if there is none.',
    "text, text -> part",
)
def before(whole: Value, part: Value) -> Result:
    """What stands before the first such part."""
    texts = _texts(whole, part)
    if texts is None:
        return None
    head, found, _ = _partition(*texts)
    return _like(head, whole) if found else values.string("")


@function(
    "STRAFTER(text, part)",
    'What stands after the first such part; "" if there is none.',
    "text, text -> part",
)
def after(whole: Value, part: Value) -> Result:
    """What stands after the first such part."""
    texts = _texts(whole, part)
    if texts is None:
        return None
    _, found, tail = _partition(*texts)
    return _like(tail, whole) if found else values.string("")


def _partition(text: str, part: str) -> tuple[str, bool, str]:
    """Return the text before the part, whether it occurs, and the text after it."""
    place = text.find(part)
    return (text[:place], True, text[place + len(part) :]) if place >= 0 else ("", False, "")


@function(
    "CONCAT(text, …)",
    "The texts, one after the other; in a language if all are in that one.",
    "text -> joined",
)
def concatenate(*parts: Value) -> Result:
    """The texts, one after the other."""
    if any(part.kind not in _TEXT for part in parts):
        return None
    joined = "".join(str(part.content) for part in parts)
    languages = {part.extra for part in parts}
    return _like(joined, parts[0]) if len(languages) == 1 else values.string(joined)


# ---- two texts


def _define_test(name: str, summary: str, holds: Callable[[str, str], bool]) -> None:
    def implementation(whole: Value, part: Value) -> Result:
        texts = _texts(whole, part)
        return None if texts is None else values.boolean(holds(*texts))

    function(f"{name}(text, part)", summary, "text, text -> boolean", boolean=True)(implementation)


_define_test("STRSTARTS", "Whether the text starts with the part.", str.startswith)
_define_test("STRENDS", "Whether the text ends with the part.", str.endswith)
_define_test("CONTAINS", "Whether the part stands in the text.", str.__contains__)


@function(
    "COMPARE(left, right)",
    "-1, 0 or 1 as left stands before, at or after right by code points.",
    "text, text -> int",
)
def compare_texts(left: Value, right: Value) -> Result:
    """-1, 0 or 1 by code points, languages aside."""
    first, second = text_of(left), text_of(right)
    if first is None or second is None:
        return None
    return values.integer(int(first > second) - int(first < second))


@function(
    "LEVENSHTEIN(left, right)",
    "How many characters must be put in, left out or changed.",
    "text, text -> int",
)
def edit_distance(left: Value, right: Value) -> Result:
    """The least number of edits that make one text of the other, languages aside."""
    first, second = text_of(left), text_of(right)
    if first is None or second is None:
        return None
    return values.integer(_count_edits(first, second))


def _count_edits(first: str, second: str) -> int:
    """The edit distance, a column of the usual table at a time.

    Hyyrö: Explaining and Extending the Bit-Parallel Approximate String Matching Algorithm of Myers, 2001.
    Differences between neighbours in a column are bits of two integers, for +1 and for -1, however long they
    are; so texts of 100,000 characters take a second, where the table would take hours.
    """
    if not first:
        return len(second)
    places: dict[str, int] = {}
    for position, character in enumerate(first):
        places[character] = places.get(character, 0) | 1 << position
    full, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    more, less, distance = full, 0, len(first)
    for character in second:
        same = places.get(character, 0)
        diagonal = (((same & more) + more) ^ more) | same | less
        right_more = less | (full & ~(diagonal | more))
        right_less = diagonal & more
        distance += bool(right_more & last) - bool(right_less & last)
        right_more = (right_more << 1 | 1) & full
        more = (right_less << 1) & full | (full & ~(diagonal | right_more))
        less = right_more & diagonal
    return distance


# ---- regular expressions
#
# Patterns are those of RE2, which Arrow brings along: matching takes time in proportion to the text, whatever
# the pattern is. `pyarrow` is imported when a pattern is first used: checking a program needs none.


@dataclass(frozen=True, slots=True)
class RegularExpression:
    """A regular expression: how RE2 writes it, how many groups it has, whether it matches no text at all."""

    written: str
    groups: int
    matches_nothing: bool

    def is_found_in(self, texts: Any) -> Any:
        """Whether it is found in a text, or in each of a column."""
        from pyarrow import compute

        return compute.match_substring_regex(texts, self.written)


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: str) -> RegularExpression | None:
    """The pattern with XPath's flags `imsxq`; None if it or a flag is not one.

    Raises `UnsupportedPattern` for what Python knows and RE2 does not.
    """
    import pyarrow

    if not set(flags) <= set("imsxq"):
        return None
    source = pattern
    if "q" in flags:
        source = re.escape(pattern)  # text, not an expression
    elif "x" in flags:
        source = _without_space(pattern)
    options = "".join(sorted(set(flags) & set("ims")))
    written = f"(?{options}){source}" if options else source
    try:
        tried = RegularExpression(written, _count_groups(source), False)
        return replace(tried, matches_nothing=tried.is_found_in(pyarrow.scalar("")).as_py())
    except pyarrow.ArrowInvalid as fault:
        if _is_known_to_python(source):
            reason = str(fault).removeprefix("Invalid regular expression: ")
            raise UnsupportedPattern(pattern, reason) from None
        return None


def _without_space(pattern: str) -> str:
    """The pattern without white space outside of classes, as the flag `x` has it."""
    return "".join("" if token.isspace() else token for token in _TOKEN.findall(pattern))


def _count_groups(pattern: str) -> int:
    """How many groups the pattern captures."""
    return sum(token == "(" or token.startswith(("(?P<", "(?<")) for token in _TOKEN.findall(pattern))


def _is_known_to_python(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what future versions of Python may read otherwise
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def pattern_of(pattern: Value, flags: Value | None) -> RegularExpression | None:
    """The regular expression that two values mean; None if they mean none."""
    source, options = text_of(pattern), "" if flags is None else text_of(flags)
    return None if source is None or options is None else compiled(source, options)


@function(
    "REGEX(text, pattern[, flags])",
    "Whether the pattern is found in the text, in RE2's syntax, flags `i m s x q`.",
    "text, text -> boolean",
    boolean=True,
)
def matches(whole: Value, pattern: Value, flags: Value | None = None) -> Result:
    """Whether the pattern is found in the text; no value for what is no pattern."""
    import pyarrow

    text, expression = text_of(whole), pattern_of(pattern, flags)
    if text is None or expression is None:
        return None
    return values.boolean(expression.is_found_in(pyarrow.scalar(text, pyarrow.string())).as_py())


@function(
    "REPLACE(text, pattern, replacement[, flags])",
    "The text with every match replaced; `$1` to `$9` are the groups, `$0` the match.",
    "text, text -> first",
)
def substitute(whole: Value, pattern: Value, replacement: Value, flags: Value | None = None) -> Result:
    """The text with every match replaced; no value for what is no pattern, or if it matches nothing."""
    import pyarrow
    from pyarrow import compute

    text, rewriting = text_of(whole), template_of(pattern, replacement, flags)
    if text is None or rewriting is None:
        return None
    given = pyarrow.scalar(text, pyarrow.string())
    return _like(compute.replace_substring_regex(given, *rewriting).as_py(), whole)


def template_of(pattern: Value, replacement: Value, flags: Value | None = None) -> tuple[str, str] | None:
    """The pattern and replacement as RE2 writes them; None if there are none, or it matches nothing."""
    new, expression = text_of(replacement), pattern_of(pattern, flags)
    if new is None or expression is None or expression.matches_nothing:
        return None
    literally = flags is not None and "q" in str(flags.content)
    template = new.replace("\\", "\\\\") if literally else _template(new, expression.groups)
    return None if template is None else (expression.written, template)


def _template(replacement: str, groups: int) -> str | None:
    r"""RE2's form of a replacement in which `$1` is a group, `\$` and `\\` are themselves."""
    written = []
    end = 0
    for found in _GROUP_REFERENCE.finditer(replacement):
        written.append(replacement[end : found.start()])
        end = found.end()
        if found[1] is not None:
            written.append("\\\\" if found[1] == "\\" else "$")
        elif found[2] is not None:
            # A group that the pattern does not have is empty.
            written.append(f"\\{found[2]}" if int(found[2]) <= groups else "")
        else:
            return None
    return "".join([*written, replacement[end:]])
