"""What is wrong with files that should be RDF/XML: where, and in which other language they are written."""

from __future__ import annotations

import re
from xml.parsers import expat

from tidelog.errors import Diagnostic
from tidelog.io import codes
from tidelog.io.source import DataFile

_BEGINNING = 1 << 12  # bytes that tell in which language a file is
_NOT_RDF_XML = (
    (re.compile(r"^\s*(?:#.*\n\s*)*(?:Prefix|Ontology)\s*\("), "OWL's functional syntax"),
    (re.compile(r"^\s*(?:#.*\n\s*)*(?:Prefix|Ontology):"), "OWL's Manchester syntax"),
    (re.compile(r"<Ontology\s[^>]*xmlns=\"http://www\.w3\.org/2002/07/owl#\""), "OWL/XML"),
    (re.compile(r"^\s*(?:#.*\n\s*)*@?(?:prefix|base)\s", re.IGNORECASE), "Turtle"),
)
_SAVE = "save the ontology as RDF/XML or Turtle, for instance with Protégé or ROBOT"
_HELP = {"Turtle": "let its name end with `.ttl`"}


def xml_error(reason: str, file: DataFile) -> Diagnostic:
    """What is wrong with a file of RDF/XML, and where: the parser of RDF does not say, that of XML does."""
    with file.open() as stream:
        beginning = stream.read(_BEGINNING).decode("utf-8", "replace")
    for pattern, language in _NOT_RDF_XML:
        if pattern.search(beginning):
            message = f"the file is {language}, not RDF/XML"
            return Diagnostic(codes.NOT_RDF, message, place=file.shown, help=_HELP.get(language, _SAVE))
    with file.open() as stream:
        try:
            expat.ParserCreate(namespace_separator=" ").ParseFile(stream)
        except expat.ExpatError as error:
            return Diagnostic(codes.NOT_RDF, reason, place=file.place(error.lineno, error.offset + 1))
    return Diagnostic(codes.NOT_RDF, reason, place=_place_of_name(reason, file))


def _place_of_name(reason: str, file: DataFile) -> str:
    """Where well-formed XML first has the name that a reason begins with, if it does."""
    local = re.match(r"\S*[#/](\w+) ", reason)
    with file.open() as stream:
        for number, line in enumerate(stream, 1):
            column = line.find(f":{local[1]}".encode()) if local else -1
            if column >= 0:
                return file.place(number, column + 2)
    return file.shown
