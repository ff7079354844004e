"""Checks of RDF/XML before it is parsed: the parser of RDF expands entities without limit.

Only a file that declares a document type, or that may be nested too deeply, is read by the parser of XML too.
"""

from __future__ import annotations

import re
from typing import IO, NoReturn
from xml.parsers import expat

from tidelog.errors import DataError, Diagnostic
from tidelog.io import codes
from tidelog.io.nesting import Elements
from tidelog.io.source import DataFile

MOST_ENTITIES = 1_000
LONGEST_ENTITY = 2_000  # characters of what it stands for: entities abbreviate IRIs
DEEPEST = 10_000  # elements within one another
_BLOCK = 1 << 20
_DOCTYPE = re.compile(rb"<!doctype", re.IGNORECASE)
_REFERENCE = re.compile(r"&([^#;&][^;&]*);")
_PREDEFINED = frozenset({"lt", "gt", "amp", "apos", "quot"})


def check_xml(stream: IO[bytes], file: DataFile) -> None:
    """Raise `DataError` for entities and depths of RDF/XML that must not reach the parser of RDF."""
    elements = Elements()
    end = b""
    while block := stream.read(_BLOCK):
        if elements.deepest(block) > DEEPEST or _DOCTYPE.search(end + block):
            stream.seek(0)
            _Checker(file).check(stream)
            return
        end = (end + block)[-len(b"<!doctype") :]


class _Checker:
    """Reads XML to its end, and stops at a declaration or an element that is refused."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self._parser = expat.ParserCreate()
        self._parser.EntityDeclHandler = self._declare
        self._parser.StartElementHandler = self._open
        self._parser.EndElementHandler = self._close
        self._lengths: dict[str, int] = dict.fromkeys(_PREDEFINED, 1)
        self._depth = 0

    def check(self, stream: IO[bytes]) -> None:
        """Raise `DataError` for the first thing that is refused."""
        try:
            self._parser.ParseFile(stream)
        except expat.ExpatError as error:
            message = f"not well-formed XML: {expat.ErrorString(error.code)}"
            place = self._file.place(error.lineno, error.offset + 1)
            raise DataError(Diagnostic(codes.NOT_RDF, message, place=place)) from None

    def _open(self, _name: str, _attributes: object) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse(codes.TOO_DEEP, f"the elements are nested more than {DEEPEST:,} deep")

    def _close(self, _name: str) -> None:
        self._depth -= 1

    def _declare(
        self, name: str, is_parameter: bool, value: str | None, _base: object, *_external: object
    ) -> None:
        if is_parameter or value is None:
            kind = "a parameter entity" if is_parameter else "an external entity"
            self._refuse(codes.ENTITIES, f"`{name}` is {kind}")
        length = len(value) + sum(self._length(found) for found in _REFERENCE.findall(value))
        if length > LONGEST_ENTITY:
            limit = f"{LONGEST_ENTITY:,} characters"
            self._refuse(codes.ENTITIES, f"the entity `{name}` stands for more than {limit}")
        self._lengths.setdefault(name, length)
        if len(self._lengths) > MOST_ENTITIES + len(_PREDEFINED):
            self._refuse(codes.ENTITIES, f"the file declares more than {MOST_ENTITIES:,} entities")

    def _length(self, name: str) -> int:
        """Return the length of an entity that another one refers to; it must be declared before."""
        if name not in self._lengths:
            self._refuse(codes.ENTITIES, f"the entity `{name}` is used before it is declared")
        return self._lengths[name]

    def _refuse(self, code: str, reason: str) -> NoReturn:
        place = self._file.place(self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)
        help_line = "write the file without it: entities may only abbreviate IRIs and texts"
        help_line = "save the file as Turtle" if code == codes.TOO_DEEP else help_line
        raise DataError(Diagnostic(code, f"RDF/XML is refused: {reason}", place=place, help=help_line))
