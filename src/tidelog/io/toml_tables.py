"""TOML tables read key by key: each value is checked when it is read, all errors are collected, each
with its place.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from tidelog.errors import DataError, Diagnostic, SourceText, Span, codes, suggest
from tidelog.records import dataclass

# ---- positions of keys and values in a TOML text
#
# Only texts that are valid TOML are scanned, so this need not find errors: it follows headers, keys, strings,
# arrays and inline tables, and records their positions.

KeyPath = tuple[str | int, ...]
Place = tuple[int, int]  # start and end

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


@dataclass
class TomlPositions:
    """The places of keys and of values, by path; elements of arrays are numbered from 0."""

    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)

    def nearest(self, path: KeyPath, of_key: bool = False) -> Place:
        """The place of a value or key, or of the nearest thing that holds it."""
        while path:
            for places in (self.keys, self.values) if of_key else (self.values, self.keys):
                if path in places:
                    return places[path]
            path = path[:-1]
        return 0, 0


def find_positions(text: str) -> TomlPositions:
    """The places of all keys and values of a valid TOML text.

    >>> places = find_positions('[a]\\nb = [1, "two"]')
    >>> places.keys["a", "b"], places.values["a", "b", 1]
    ((4, 5), (12, 17))
    """
    return _Scanner(text).scan()


class _Scanner:
    """Reads a text from start to end. Mutates its position and what it found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found = TomlPositions()
        self.counts: dict[KeyPath, int] = {}  # of the tables of each array of tables

    def scan(self) -> TomlPositions:
        table: KeyPath = ()
        while self.skip(_BLANK) < len(self.text):
            table = self.header() if self.text[self.at] == "[" else self.pair(table)
        return self.found

    def skip(self, pattern: re.Pattern[str]) -> int:
        """Go behind what the pattern matches here."""
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def header(self) -> KeyPath:
        start = self.at
        is_array = self.text.startswith("[[", start)
        self.at += 2 if is_array else 1
        names = [name for name, _ in self.dotted()]
        path: KeyPath = ()
        for position, name in enumerate(names, 1):
            path += (name,)
            if is_array and position == len(names):
                self.counts[path] = self.counts.get(path, -1) + 1
            if path in self.counts:
                path += (self.counts[path],)
        self.at = self.text.index("]", self.at) + (2 if is_array else 1)
        self.found.keys[path] = start, self.at
        return path

    def dotted(self) -> list[tuple[str, Place]]:
        """The parts of a key, with their places."""
        parts: list[tuple[str, Place]] = []
        while True:
            start = self.skip(_SPACE)
            end = self.skip(_KEY)
            parts.append((self.text[start:end].strip("\"'"), (start, end)))
            if self.skip(_SPACE) >= len(self.text) or self.text[self.at] != ".":
                return parts
            self.at += 1

    def pair(self, table: KeyPath) -> KeyPath:
        """Read a key and its value; the table that they stand in."""
        path = table
        for name, place in self.dotted():
            path += (name,)
            self.found.keys.setdefault(path, place)
        self.at += 1  # the sign of equality
        self.skip(_SPACE)
        self.value(path)
        return table

    def value(self, path: KeyPath) -> None:
        start = self.at
        match self.text[start : start + 1]:
            case "[":
                self.array(path)
            case "{":
                self.inline_table(path)
            case '"' | "'":
                self.skip(_STRING)
            case _:
                self.skip(_SCALAR)
        end = self.at
        while end > start and self.text[end - 1] in " \t\r":
            end -= 1
        self.found.values[path] = start, end

    def array(self, path: KeyPath) -> None:
        self.at += 1
        place = 0
        while self.skip(_BLANK) < len(self.text) and self.text[self.at] != "]":
            self.value((*path, place))
            place += 1
            self.skip(_BLANK)
            self.at += self.text[self.at] == ","
        self.at += 1

    def inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while self.skip(_BLANK) < len(self.text) and self.text[self.at] != "}":
            self.pair(path)
            self.skip(_BLANK)
            self.at += self.text[self.at] == ","
        self.at += 1


# ---- TOML tables read key by key
#
# A key that was never read is unknown. Mutable: a table records what was read, a document what is wrong.

_AT = re.compile(r" ?\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")
_DEEP = re.compile(r"(?:[\[{]\s*){50}")
_LONG = re.compile(r"[0-9](?:_?[0-9]){4300}")


class TomlDocument:
    """A TOML text, the places of what is in it, and what is wrong with it."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.faults: list[Diagnostic] = []
        try:
            self.values = tomllib.loads(source.text)
            self.places: TomlPositions = find_positions(source.text)
        except tomllib.TOMLDecodeError as error:
            raise DataError(_not_toml(error, source)) from None
        except RecursionError:
            raise DataError(_at(_DEEP, "arrays are nested too deeply", source)) from None
        except ValueError:  # of an integer: Python reads up to 4,300 digits
            raise DataError(_at(_LONG, "a number is too long", source)) from None

    @property
    def root(self) -> TomlTable:
        """The whole document as a table."""
        return TomlTable(self, self.values, ())

    def span(self, path: tuple[str | int, ...], of_key: bool = False) -> Span:
        """The place of a value or key, or of what holds it."""
        return Span(self.source, *self.places.nearest(path, of_key))

    def fault(
        self,
        code: str,
        message: str,
        path: tuple[str | int, ...],
        help: str | None = None,
        of_key: bool = False,
    ) -> None:
        """Note what is wrong, and where."""
        self.faults.append(Diagnostic(code, message, self.span(path, of_key), help))

    def check(self) -> None:
        """Raise DataError with all faults, in the order of the text, if there are any."""
        if self.faults:
            raise DataError(sorted(self.faults, key=lambda item: item.span.start if item.span else 0))


def read_document(path: Path) -> TomlDocument:
    """The document in a file."""
    try:
        return TomlDocument(SourceText(str(path), path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        message = f"the job `{path}` cannot be read: {reason.lower()}"
        names = [child.name for child in path.parent.iterdir()] if path.parent.is_dir() else []
        help = suggest(path.name, names) if isinstance(error, FileNotFoundError) else None
        raise DataError(Diagnostic(codes.NOT_TOML, message, place=str(path), help=help)) from None


class TomlTable:
    """A table of a document; its values are checked when they are read."""

    def __init__(
        self, document: TomlDocument, values: Mapping[str, Any], path: tuple[str | int, ...]
    ) -> None:
        self.document = document
        self.path = path
        self._values = values
        self._read_keys: dict[str, None] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def is_table(self, key: str) -> bool:
        """Return whether a key holds a table."""
        return isinstance(self._values.get(key), dict)

    def wrong(self, key: str, reason: str, help: str | None = None) -> None:
        """Note that the value of a key cannot be."""
        self.document.fault(codes.BAD_VALUE, f"`{key}` {reason}", (*self.path, key), help)

    def missing(self, key: str, help: str | None = None) -> None:
        """Note that a key is missing."""
        where = f" in {_shown(self.path)}" if self.path else ""
        self.document.fault(codes.MISSING_KEY, f"missing key `{key}`{where}", self.path, help, of_key=True)

    def close(self) -> None:
        """Report the keys that were never read."""
        for key in self._values:
            if key not in self._read_keys:
                help = suggest(key, self._read_keys) or f"the keys are {', '.join(self._read_keys)}"
                message = f"unknown key `{key}`{f' in {_shown(self.path)}' if self.path else ''}"
                self.document.fault(codes.UNKNOWN_KEY, message, (*self.path, key), help, of_key=True)

    def _get(self, key: str, kinds: type | tuple[type, ...], called: str) -> Any:
        self._read_keys[key] = None
        value = self._values.get(key)
        if value is None:
            return None
        is_flag = isinstance(value, bool) and bool not in (kinds if isinstance(kinds, tuple) else (kinds,))
        if is_flag or not isinstance(value, kinds):
            self.wrong(key, f"is not {called}")
            return None
        if any(
            "\0" in text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)
        ):
            self.wrong(key, "has a null character")
            return None
        return value

    def text(self, key: str, otherwise: str | None = None) -> str | None:
        """The value as a text."""
        value: str | None = self._get(key, str, "a string")
        return otherwise if value is None else value

    def required(self, key: str, help: str | None = None) -> str:
        """Return the value as a text, which must exist; empty if it does not."""
        if key not in self._values:
            self._read_keys[key] = None
            self.missing(key, help)
            return ""
        return self.text(key) or ""

    def choice(self, key: str, known: Sequence[str], otherwise: str) -> str:
        """The value as one of the words that are known."""
        value = self.text(key, otherwise) or otherwise
        if value not in known:
            help = suggest(value, known) or f"it can be {', '.join(known)}"
            self.wrong(key, f"cannot be `{value}`", help)
            return otherwise
        return value

    def flag(self, key: str) -> bool | None:
        """The value as a truth value."""
        value: bool | None = self._get(key, bool, "true or false")
        return value

    def count(self, key: str, least: int = 0) -> int | None:
        """The value as a whole number."""
        value: int | None = self._get(key, int, "a whole number")
        if value is not None and value < least:
            self.wrong(key, f"is less than {least}")
            return None
        return value

    def number(self, key: str) -> float | None:
        """The value as a positive number."""
        value = self._get(key, (int, float), "a number")
        if value is not None and not 0 < value < float("inf"):
            self.wrong(key, "is not a positive number")
            return None
        return None if value is None else float(value)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """The value as texts: an array of them, or one alone."""
        value = self._get(key, (str, list), "a string or an array of strings")
        if isinstance(value, list) and not all(isinstance(item, str) for item in value):
            self.wrong(key, "is not an array of strings")
            return None
        return (value,) if isinstance(value, str) else None if value is None else tuple(value)

    def mapping(self, key: str) -> dict[str, str]:
        """The value as a table of texts; numbers and truth values are written out."""
        value: dict[str, Any] | None = self._get(key, dict, "a table")
        found: dict[str, str] = {}
        for name, item in (value or {}).items():
            if not isinstance(item, str | int | float | bool):
                self.wrong(key, f"has no plain value for `{name}`")
            found[name] = str(item).lower() if isinstance(item, bool) else str(item)
        return found

    def columns(self, key: str) -> tuple[str, ...] | dict[str, str] | None:
        """The value as names, in an array or by the names of others."""
        if isinstance(self._values.get(key), dict):
            return self.mapping(key)
        return self.texts(key)

    def table(self, key: str) -> TomlTable | None:
        """The value as a table."""
        value = self._get(key, dict, "a table")
        return None if value is None else TomlTable(self.document, value, (*self.path, key))

    def tables(self, key: str) -> list[TomlTable]:
        """The value as an array of tables."""
        value = self._get(key, list, f"an array of tables, each begun by [[{key}]]")
        if value is None:
            return []
        if not all(isinstance(item, dict) for item in value):
            self.wrong(key, f"is not an array of tables, each begun by [[{key}]]")
            return []
        return [
            TomlTable(self.document, item, (*self.path, key, position)) for position, item in enumerate(value)
        ]

    def refuse(self, keys: Collection[str], reason: str) -> None:
        """Note keys that make no sense here."""
        for key in keys:
            if key in self._values:
                self._read_keys[key] = None
                self.wrong(key, reason)


def _at(pattern: re.Pattern[str], message: str, source: SourceText) -> Diagnostic:
    """Return what is wrong, at the first place that a pattern finds."""
    found = pattern.search(source.text)
    span = None if found is None else Span(source, found.start(), found.start() + 1)
    return Diagnostic(codes.NOT_TOML, message, span)


def _not_toml(error: tomllib.TOMLDecodeError, source: SourceText) -> Diagnostic:
    found = _AT.search(str(error))
    message = f"not TOML: {_AT.sub('', str(error))}"
    if found is None:
        return Diagnostic(codes.NOT_TOML, message, place=source.name)
    offset = len(source.text)
    if found["line"]:
        offset = source.line_starts[int(found["line"]) - 1] + int(found["column"]) - 1
    offset = min(offset, max(len(source.text.rstrip()) - 1, 0))
    return Diagnostic(codes.NOT_TOML, message, Span(source, offset, offset + 1))


def _shown(path: tuple[str | int, ...]) -> str:
    """The name of a table: `[engine]`, `[[source]] 2`."""
    if path and isinstance(path[-1], int):
        return f"[[{'.'.join(str(part) for part in path[:-1])}]] {path[-1] + 1}"
    return f"[{'.'.join(map(str, path))}]"
