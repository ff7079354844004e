"""Values: what a constant means, apart from how it is written.

A `Value` is a small tuple that compares by kind and content, so that the integer 1, the double 1.0 and
`true` are three values. The columnar engine stores the same three fields in arrays (kind, payload, extra).
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple


class Kind(IntEnum):
    """The kinds of values. The numbers are stored by engines: never renumber them.

    What `content` and `extra` hold:
    """

    BOOLEAN = 1  # content 0 or 1
    INTEGER = 2  # content an int of 64 bits
    DECIMAL = 3  # content the int of 64 bits m, extra the scale s > 0: m / 10**s, m not a multiple of 10
    DOUBLE = 4  # content a float, never NaN, never -0.0
    BIG = 5  # content the canonical text of an integer or decimal that 64 bits cannot hold
    DATE = 6  # content days since 1970-01-01
    DATETIME = 7  # content microseconds since 1970-01-01T00:00 UTC, extra minutes east of UTC or None
    STRING = 8  # content the text
    LANGUAGE_STRING = 9  # content the text, extra the language tag in lower case
    LITERAL = 10  # content the text, extra the IRI of a datatype that is none of the above
    IRI = 11  # content the text; the name `alice` is the IRI <alice>
    BLANK = 12  # content the label of a blank node, without `_:`


class Value(NamedTuple):
    """A constant: its kind, and what it holds as `Kind` says."""

    kind: Kind
    content: int | float | str
    extra: int | str | None = None


class ColumnType(Enum):
    """The type that a declaration or an import gives to a column."""

    ANY = "any"  # each text is read as the term it looks like; see docs/language.md
    STRING = "string"
    IRI = "iri"
    INTEGER = "int"
    DECIMAL = "decimal"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "dateTime"
    TERM = "rdf"  # terms written exactly, as in N-Triples
    SKIP = "skip"  # imports only: the column is passed over
