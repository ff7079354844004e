"""What a value is: tests of its kind, its text, language and datatype; and casts from one kind to another.

A cast has a value only where nothing is lost, as in Nemo: `INT(2.5)` has none, `INT(2.0)` is 2. Text
is cast by how XSD writes the type. Names and IRIs are cast to nothing but text.
"""

from __future__ import annotations

import math
from decimal import Decimal

from tidelog.logic import conversions, values
from tidelog.logic.functions.function import Result, function
from tidelog.logic.functions.strings import text_of
from tidelog.logic.values import NUMBERS, XSD, Kind, Value

_NOT_LITERALS = frozenset({Kind.IRI, Kind.BLANK})


# ---- tests


def _define_test(name: str, article: str, kinds: frozenset[Kind], *aliases: str) -> None:
    def implementation(value: Value) -> Result:
        return values.boolean(value.kind in kinds)

    summary = f"Whether the value is {article}."
    function(f"{name}(value)", summary, "any -> boolean", aliases=aliases, boolean=True, kinds=kinds)(
        implementation
    )


_define_test("ISIRI", "a name or an IRI", frozenset({Kind.IRI}), "ISURI")
_define_test("ISBLANK", "a blank node", frozenset({Kind.BLANK}), "ISNULL")
_define_test("ISLITERAL", "neither an IRI nor a blank node", frozenset(Kind) - _NOT_LITERALS)
_define_test("ISSTRING", "a string without a language", frozenset({Kind.STRING}))
_define_test("ISNUMERIC", "a number", frozenset(NUMBERS))


@function("ISINTEGER(value)", "Whether the value is an integer.", "any -> boolean", boolean=True)
def is_integer(value: Value) -> Result:
    """Whether the value is an integer, of whatever size."""
    return values.boolean(values.is_integer(value))


_define_test("ISDOUBLE", "a double", frozenset({Kind.DOUBLE}))
_define_test("ISFLOAT", "a float of 32 bits, which none is here", frozenset())
_define_test("ISBOOLEAN", "a Boolean", frozenset({Kind.BOOLEAN}))


# ---- text, language, datatype


@function("STR(value)", "The text of the value, as in plain output.", "any -> string", aliases=["STRING"])
def text(value: Value) -> Result:
    """The text of the value."""
    return values.string(conversions.plain(value))


@function("FULLSTR(value)", "The value as N-Triples writes it.", "any -> string")
def full_text(value: Value) -> Result:
    """The value as a term of N-Triples."""
    return values.string(conversions.ntriples(value))


@function("LANG(literal)", 'The language of the text, "" without one.', "plain -> string")
def language(value: Value) -> Result:
    """The language of a literal; no value for IRIs and blank nodes."""
    if value.kind in _NOT_LITERALS:
        return None
    return values.string(str(value.extra) if value.kind is Kind.LANGUAGE_STRING else "")


@function(
    "LANGMATCHES(language, range)",
    'Whether the language is the range or begins with it and `-`; "*" is any language.',
    "text, text -> boolean",
    boolean=True,
)
def language_matches(tag: Value, language_range: Value) -> Result:
    """Whether a language lies in a range, case aside."""
    found, wanted = text_of(tag), text_of(language_range)
    if found is None or wanted is None:
        return None
    if wanted == "*":
        return values.boolean(found != "")
    return values.boolean(f"{found.lower()}-".startswith(f"{wanted.lower()}-"))


@function(
    "DATATYPE(value)", "The IRI of the datatype; xsd:anyURI for IRIs, as in Nemo.", "plain | iri -> iri"
)
def datatype(value: Value) -> Result:
    """The IRI of the datatype; no value for blank nodes."""
    if value.kind is Kind.BLANK:
        return None
    return values.iri(conversions.datatype(value) or XSD + "anyURI")


@function("STRDT(text, datatype)", "The text read as the datatype writes it.", "string, iri -> plain")
def with_datatype(value: Value, datatype_iri: Value) -> Result:
    """The value that the text writes in the datatype."""
    if value.kind is not Kind.STRING or datatype_iri.kind is not Kind.IRI:
        return None
    return values.literal(str(value.content), str(datatype_iri.content))


@function("STRLANG(text, language)", "The text with a language.", "string, string -> langString")
def with_language(value: Value, tag: Value) -> Result:
    """The text with the language; no value if that is no language tag."""
    if value.kind is not Kind.STRING or tag.kind is not Kind.STRING:
        return None
    try:
        return values.language_string(str(value.content), str(tag.content))
    except ValueError:
        return None


@function(
    "IRI(text)",
    "The IRI of this text; no value if it holds what no IRI may.",
    "string | iri -> iri | blank",
    aliases=["URI"],
)
def iri(value: Value) -> Result:
    """The IRI of a string, or the IRI itself."""
    if value.kind is Kind.IRI:
        return value
    if value.kind is not Kind.STRING:
        return None
    try:
        return values.iri(str(value.content))
    except ValueError:
        return None


# ---- casts


def read_as(value: Value, datatype_name: str) -> Result:
    """What a string writes in the datatype; None of all else."""
    if value.kind is not Kind.STRING:
        return None
    read = values.literal(str(value.content), XSD + datatype_name)
    return None if read.kind is Kind.LITERAL else read


@function(
    "INT(value)",
    "The integer of a number without a fraction, a Boolean or text.",
    "number | boolean | string -> int",
    aliases=["INTEGER"],
)
def to_integer(value: Value) -> Result:
    """The integer, if the value is one in another form."""
    match value.kind:
        case Kind.INTEGER:
            return value
        case Kind.DECIMAL | Kind.BIG:  # plain text has a point only before a fraction
            return read_as(values.string(conversions.plain(value)), "integer")
        case Kind.BOOLEAN:
            return values.integer(int(value.content))
        case Kind.DOUBLE if float(value.content).is_integer():
            return values.integer(int(value.content))
    return read_as(value, "integer")


@function(
    "DECIMAL(value)",
    "The decimal of a number, of a double the shortest; of a Boolean or text.",
    "number | boolean | string -> decimal",
)
def to_decimal(value: Value) -> Result:
    """The decimal number; a double's is the shortest that reads back as the same double."""
    match value.kind:
        case Kind.INTEGER | Kind.DECIMAL | Kind.BIG:
            return values.conform(value, values.ColumnType.DECIMAL)
        case Kind.BOOLEAN:
            return values.decimal(Decimal(value.content))
        case Kind.DOUBLE if math.isfinite(float(value.content)):
            return values.decimal(Decimal(repr(value.content)))
    return read_as(value, "decimal")


@function(
    "DOUBLE(value)",
    "The double nearest to a number, or what text writes.",
    "number | boolean | string -> double",
    aliases=["FLOAT"],
)
def to_double(value: Value) -> Result:
    """The double nearest to the number."""
    if value.kind in NUMBERS:
        return values.conform(value, values.ColumnType.DOUBLE)
    if value.kind is Kind.BOOLEAN:
        return values.double(float(value.content))
    return read_as(value, "double")


@function(
    "BOOLEAN(value)",
    "The Boolean of text; of a number, whether it is not 0.",
    "number | boolean | string -> boolean",
)
def to_boolean(value: Value) -> Result:
    """The Boolean."""
    if value.kind is Kind.BOOLEAN:
        return value
    if value.kind in NUMBERS:
        return values.boolean(values.exact_number(value) != 0)
    return read_as(value, "boolean")
