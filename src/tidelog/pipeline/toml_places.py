"""Where the keys and values of a TOML text stand, which the parser of the standard library does not tell.

Only texts that are valid TOML are looked at, so this need not find faults: it follows headers, keys, strings,
arrays and inline tables, and notes the places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Path = tuple[str | int, ...]
Place = tuple[int, int]  # start and end

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}#\n]*")


@dataclass
class Places:
    """The places of keys and of values, by path; elements of arrays are numbered from 0."""

    keys: dict[Path, Place] = field(default_factory=dict)
    values: dict[Path, Place] = field(default_factory=dict)

    def nearest(self, path: Path, of_key: bool = False) -> Place:
        """The place of a value or key, or of the nearest thing that holds it."""
        while path:
            for places in (self.keys, self.values) if of_key else (self.values, self.keys):
                if path in places:
                    return places[path]
            path = path[:-1]
        return 0, 0


def find_places(text: str) -> Places:
    """The places of all keys and values of a valid TOML text.

    >>> places = find_places('[a]\\nb = [1, "two"]')
    >>> places.keys["a", "b"], places.values["a", "b", 1]
    ((4, 5), (12, 17))
    """
    return _Scanner(text).scan()


class _Scanner:
    """Reads a text from start to end. Mutates its position and what it found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found = Places()
        self.counts: dict[Path, int] = {}  # of the tables of each array of tables

    def scan(self) -> Places:
        table: Path = ()
        while self.skip(_BLANK) < len(self.text):
            table = self.header() if self.text[self.at] == "[" else self.pair(table)
        return self.found

    def skip(self, pattern: re.Pattern[str]) -> int:
        """Go behind what the pattern matches here."""
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.at

    def header(self) -> Path:
        start = self.at
        is_array = self.text.startswith("[[", start)
        self.at += 2 if is_array else 1
        names = [name for name, _ in self.dotted()]
        path: Path = ()
        for place, name in enumerate(names, 1):
            path += (name,)
            if is_array and place == len(names):
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

    def pair(self, table: Path) -> Path:
        """Read a key and its value; the table that they stand in."""
        path = table
        for name, place in self.dotted():
            path += (name,)
            self.found.keys.setdefault(path, place)
        self.at += 1  # the sign of equality
        self.skip(_SPACE)
        self.value(path)
        return table

    def value(self, path: Path) -> None:
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

    def array(self, path: Path) -> None:
        self.at += 1
        place = 0
        while self.skip(_BLANK) < len(self.text) and self.text[self.at] != "]":
            self.value((*path, place))
            place += 1
            self.skip(_BLANK)
            self.at += self.text[self.at] == ","
        self.at += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        while self.skip(_BLANK) < len(self.text) and self.text[self.at] != "}":
            self.pair(path)
            self.skip(_BLANK)
            self.at += self.text[self.at] == ","
        self.at += 1
