"""Values from and to text, JSON and Python objects."""

from __future__ import annotations

import datetime
import json
import math
import numbers
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from tidelog.errors import DataError, Diagnostic, codes
from tidelog.logic import lexical_forms, values
from tidelog.logic.values import (
    XSD,
    ColumnType,
    Kind,
    Value,
    boolean,
    conform,
    date,
    date_time,
    decimal,
    double,
    exact_number,
    integer,
    iri,
    is_decimal,
    string,
)
from tidelog.syntax.lexer import quote, unescape

# Four ways to write a value:
#
# - `plain`: the text alone, without quotes or brackets, for tables and spreadsheets;
# - `field`: a field of a file, as Nemo writes it, that `read_any` reads as the same value: names and
#   numbers as they are, strings in quotes, all else with its language or datatype;
# - `exact`: a term of the rule language that reads back as the same value, `read_exact(exact(v)) == v`;
# - `ntriples`: a term of N-Triples.
#
# Three ways to read one: `read_exact` for the last two, `read_typed` for a field of a column with a type, and
# `read_any` for a field of a column without one, which follows Nemo:
#
# | the field, without white space around it              | is read as                                    |
# |-------------------------------------------------------|-----------------------------------------------|
# | empty                                                 | the empty string                              |
# | `12`, `+07`: digits                                   | an integer                                    |
# | `1.50`, `2.0`, `5.`: digits with a point among them   | a decimal                                     |
# | `"a"`, `"a"@en`, `"1"^^<datatype>`, no escapes        | a string, with a language, with a datatype    |
# | `<https://example.org/>`                              | an IRI                                        |
# | `_:b`, `<_:b>`                                        | a blank node                                  |
# | with white space or one of ``< > " { } | ^ ` \``       | a string: `Alice Smith`                       |
# | all other                                             | a name or IRI: `alice`, `a-b`, `http://x/y`   |
#
# So `true`, `1e3` and `2020-01-01` are names there, as in Nemo: a column with a type reads them as what they
# are. Two things differ from Nemo: it makes integers of decimals without a fraction (`2.0`), and IRIs of
# fields with `{ } | ^`, a backquote or a backslash, which no IRI holds here.

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
# Names that begin like another token of the language: `_`, `true`, `false`, `inf`.
_NOT_BARE = re.compile(r"(?:_|true|false|inf)(?![A-Za-z0-9_])", re.ASCII)
_NOT_IN_NAMES = re.compile(r'[\s\x00-\x20<>"{}|^`\\]|^_:$')
_NOT_IN_BRACKETS = re.compile(r'[\x00-\x20<>"{}|^`\\]|(?<=^<)_:$')
_FIELD_LITERAL = re.compile(
    r'"(?P<text>.*)"(?:@(?P<language>[A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<(?P<datatype>[^\x00-\x20<>"{}|^`\\]*)>)?',
    re.ASCII | re.DOTALL,
)
_EXACT_LITERAL = re.compile(
    r'"(?P<text>(?:[^"\\\n\r]|\\.)*)"(?:@(?P<language>[A-Za-z]+(?:-[A-Za-z0-9]+)*)|\^\^<(?P<datatype>[^>]*)>)?',
    re.ASCII,
)
_EXACT_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)

_DATATYPES = {
    Kind.BOOLEAN: XSD + "boolean",
    Kind.INTEGER: XSD + "integer",
    Kind.DECIMAL: XSD + "decimal",
    Kind.DOUBLE: XSD + "double",
    Kind.DATE: XSD + "date",
    Kind.DATETIME: XSD + "dateTime",
    Kind.STRING: XSD + "string",
    Kind.LANGUAGE_STRING: values.LANGUAGE_STRING_DATATYPE,
}


# ---- reading


def read_any(text: str) -> Value:
    """The value that a field without a type looks like; see the table above."""
    field = text.strip()
    if not field:
        return values.string("")
    first = field[0]
    if first in "+-0123456789" and lexical_forms.DECIMAL.fullmatch(field):
        return values.number_of_text(field)
    if first == '"':
        match = _FIELD_LITERAL.fullmatch(field)
        return _read_literal(match, match["text"]) if match else values.string(field)
    if first == "<" and field[-1] == ">" and not _NOT_IN_BRACKETS.search(field, 1, len(field) - 1):
        return values.iri(field[1:-1])
    return values.string(field) if _NOT_IN_NAMES.search(field) else values.iri(field)


def read_typed(text: str, column: ColumnType) -> Value:
    """Return the value of a field in a column of this type; raise ValueError with the reason."""
    if column is ColumnType.STRING:
        return values.string(text)
    if column is ColumnType.IRI:  # which may hold white space that is not ASCII
        field = text.strip(" \t\n\r\f\v")
        return values.iri(field[1:-1] if field[:1] == "<" and field[-1:] == ">" else field)
    field = text.strip()
    if column is ColumnType.ANY:
        return read_any(field)
    if column is ColumnType.TERM:
        return read_exact(field)
    if column is ColumnType.SKIP:
        raise ValueError("the column is skipped")
    datatype, description = _TYPES[column.base]
    value = values.literal(field.lower() if column is ColumnType.BOOLEAN else field, XSD + datatype)
    if value.kind is Kind.LITERAL:
        raise ValueError(_reason(field, description))
    if not values.fits(value, column):
        raise ValueError(f"{field!r} does not fit {column.value}")
    return value


_TYPES = {
    ColumnType.INTEGER: ("integer", "an integer"),
    ColumnType.DECIMAL: ("decimal", "a decimal number"),
    ColumnType.DOUBLE: ("double", "a double"),
    ColumnType.BOOLEAN: ("boolean", "`true` or `false`"),
    ColumnType.DATE: ("date", "a date such as 2020-12-31"),
    ColumnType.DATETIME: ("dateTime", "a dateTime such as 2020-12-31T23:59:59Z"),
}


def _reason(field: str, description: str) -> str:
    return f"{field!r} is not {description}" if field else f"an empty field is not {description}"


def read_exact(text: str) -> Value:
    """Return the value of a term written by `exact` or in N-Triples; raise ValueError with the reason."""
    term = text.strip()
    first = term[:1]
    if first == '"':
        match = _EXACT_LITERAL.fullmatch(term)
        if match is None:
            raise ValueError(f"{term!r} is not a quoted text with a language or datatype")
        return _read_literal(match, _unescape(match["text"]))
    if first == "<" and term[-1:] == ">":
        return values.iri(_unescape(term[1:-1]))
    if term.startswith("_:"):
        return values.blank(term[2:])
    if term in ("true", "false"):
        return values.boolean(term == "true")
    if _EXACT_NUMBER.fullmatch(term):
        return values.number_of_text(term)
    return _read_double_or_name(term)


def _read_double_or_name(term: str) -> Value:
    if NAME.fullmatch(term):
        return values.iri(term)
    number = lexical_forms.read_double(term) if lexical_forms.DOUBLE.fullmatch(term) else None
    value = None if number is None else values.double(number)
    if value is None:
        raise ValueError(f"{term!r} is not a term")
    return value


def _read_literal(match: re.Match[str], text: str) -> Value:
    """The value of a quoted text and the language or datatype that the match has after it."""
    if match["language"] is not None:
        return values.language_string(text, match["language"])
    if match["datatype"] is not None:
        return values.literal(text, _unescape(match["datatype"]))
    return values.string(text)


def _unescape(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:
        raise ValueError(f"{text!r} has an invalid escape") from None


# ---- writing


def datatype(value: Value) -> str | None:
    """The IRI of the value's datatype; None for IRIs and blank nodes."""
    match value.kind:
        case Kind.BIG:
            return XSD + ("decimal" if values.is_decimal(value) else "integer")
        case Kind.LITERAL:
            return str(value.extra)
    return _DATATYPES.get(value.kind)


def plain(value: Value) -> str:
    """The text of the value without quotes, brackets, language or datatype."""
    writer = _PLAIN.get(value.kind)
    return str(value.content) if writer is None else writer(value)


def exact(value: Value) -> str:
    """The term of the rule language that reads back as the value."""
    match value.kind:
        case Kind.INTEGER | Kind.DECIMAL | Kind.BIG | Kind.BOOLEAN:
            return _lexical(value)
        case Kind.DOUBLE:
            text = _lexical(value)
            return _with_datatype(value) if "INF" in text else text
        case Kind.IRI if _is_bare(str(value.content)):
            return str(value.content)
        case Kind.BLANK:
            return f"<_:{value.content}>"
    return ntriples(value)


def field(value: Value) -> str:
    """The text of the value in a file, which `read_any` reads as the value.

    >>> [field(value) for value in (values.iri("alice"), values.string("alice"), values.integer(12))]
    ['alice', '"alice"', '12']
    """
    match value.kind:
        case Kind.INTEGER | Kind.DECIMAL | Kind.BIG:
            return _lexical(value)
        case Kind.STRING:
            return f'"{value.content}"'
        case Kind.LANGUAGE_STRING:
            return f'"{value.content}"@{value.extra}'
        case Kind.IRI | Kind.BLANK:
            text = plain(value)
            return text if read_any(text) == value else f"<{text}>"
    return f'"{_lexical(value)}"^^<{datatype(value)}>'


def ntriples(value: Value) -> str:
    """The value as a term of N-Triples; the name `alice` is written `<alice>`."""
    match value.kind:
        case Kind.IRI:
            return f"<{value.content}>"
        case Kind.BLANK:
            return f"_:{value.content}"
        case Kind.STRING:
            return quote(str(value.content))
        case Kind.LANGUAGE_STRING:
            return f"{quote(str(value.content))}@{value.extra}"
    return _with_datatype(value)


def _with_datatype(value: Value) -> str:
    return f"{quote(_lexical(value))}^^<{datatype(value)}>"


def _lexical(value: Value) -> str:
    """The text of the value as its datatype writes it."""
    match value.kind:
        case Kind.DOUBLE:
            return lexical_forms.write_double(float(value.content))
        case Kind.DECIMAL:
            text = _write_decimal(value)
            return text if value.extra else text + ".0"
        case Kind.BIG:
            return str(value.content)
    return plain(value)


def _is_bare(text: str) -> bool:
    return NAME.fullmatch(text) is not None and _NOT_BARE.match(text) is None


def _write_boolean(value: Value) -> str:
    return "true" if value.content else "false"


def _write_decimal(value: Value) -> str:
    assert isinstance(value.content, int) and isinstance(value.extra, int)
    if value.extra == 0:
        return str(value.content)
    digits = str(abs(value.content)).rjust(value.extra + 1, "0")
    return f"{'-' if value.content < 0 else ''}{digits[: -value.extra]}.{digits[-value.extra :]}"


def _write_big(value: Value) -> str:
    return str(value.content).removesuffix(".0")


def _write_double(value: Value) -> str:
    return lexical_forms.write_double_plainly(float(value.content))


def _write_date(value: Value) -> str:
    return lexical_forms.write_date(int(value.content))


def _write_date_time(value: Value) -> str:
    assert not isinstance(value.extra, str)
    return lexical_forms.write_date_time(lexical_forms.Moment(int(value.content), value.extra))


def _write_blank(value: Value) -> str:
    return f"_:{value.content}"


_PLAIN: dict[Kind, Callable[[Value], str]] = {
    Kind.BOOLEAN: _write_boolean,
    Kind.DECIMAL: _write_decimal,
    Kind.DOUBLE: _write_double,
    Kind.BIG: _write_big,
    Kind.DATE: _write_date,
    Kind.DATETIME: _write_date_time,
    Kind.BLANK: _write_blank,
}


# ---- values as JSON
#
# | value                             | is written as
# |-----------------------------------|----------------------------------------------------------------------
# | integer, decimal, Boolean         | `12`, `1.50` with a point, `true`
# | double                            | a number with an exponent, `1.5E3`; infinity as a literal
# | name                              | text: `"alice"`
# | IRI of another form, blank node   | `{"@id": "http://x/y"}`, `{"@id": "_:b"}`
# | string                            | `{"@value": "Alice Smith"}`
# | with a language                   | `{"@value": "chat", "@language": "fr"}`
# | other literals                    | `{"@value": "2020-12-31", "@type": "http://…#date"}`
#
# The form of a value depends only on its kind, not on the values next to it. A JSON string is read as in JSON
# from other systems: as a name if it has the form of one, else as a string; so strings need a separate form.

_NATIVE = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.BIG, Kind.DOUBLE})


def write_json(value: Value) -> str:
    """The value as JSON.

    >>> print(write_json(values.string("alice")), write_json(values.iri("alice")))
    {"@value": "alice"} "alice"
    """
    match value.kind:
        case Kind.DOUBLE if math.isinf(value.content):  # type: ignore[arg-type]
            pass
        case kind if kind in _NATIVE:
            return exact(value)
        case Kind.IRI if NAME.fullmatch(str(value.content)):
            return json.dumps(value.content)
        case Kind.IRI | Kind.BLANK:
            return _object({"@id": plain(value)})
        case Kind.STRING:
            return _object({"@value": value.content})
        case Kind.LANGUAGE_STRING:
            return _object({"@value": value.content, "@language": value.extra})
    return _object({"@value": plain(value), "@type": datatype(value)})


def _object(parts: Mapping[str, object]) -> str:
    return json.dumps(parts, ensure_ascii=False)


def read_object(parts: Mapping[str, Any]) -> Value | None:
    """Return the value of an object, None if it is none of JSON-LD; raise ValueError with the reason.

    >>> read_object({"@id": "http://x/y"})
    Value(kind=<Kind.IRI: 11>, content='http://x/y', extra=None)
    """
    keys = set(parts)
    if keys not in ({"@id"}, {"@value"}, {"@value", "@language"}, {"@value", "@type"}):
        return None
    for key, text in parts.items():
        try:
            text.encode()
        except AttributeError:
            raise ValueError(f"`{key}` is not text") from None
        except UnicodeEncodeError:
            raise ValueError(f"`{key}` has an unpaired surrogate") from None
    if "@id" in keys:
        return values.iri(parts["@id"])
    if "@language" in keys:
        return values.language_string(parts["@value"], parts["@language"])
    return values.literal(parts["@value"], parts.get("@type", values.XSD + "string"))


# ---- Python's own objects as values, and back

PythonValue = bool | int | float | Decimal | str | datetime.date | datetime.datetime

_EPOCH = datetime.date(1970, 1, 1)
_MIDNIGHT = datetime.datetime(1970, 1, 1)
_SECOND = datetime.timedelta(seconds=1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def from_python(item: object, column: ColumnType = ColumnType.ANY) -> Value:
    """Return the value of a Python object in a column of this type; raise DataError if it has none there.

    In a column of any type, text of the form of a name is that name, and other text a string: text that
    comes from Python is not searched for numbers. In a typed column, text is read as the type writes it.
    """
    try:
        if isinstance(item, str):
            return _of_text(item, column)
        value = conform(_of_object(item), column)
    except ValueError as fault:
        raise _data_error(item, column, f": {fault}") from None
    if value is None:
        raise _data_error(item, column, "")
    return value


def _of_text(text: str, column: ColumnType) -> Value:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("an unpaired surrogate") from None
    if column is ColumnType.ANY:
        return iri(text) if NAME.fullmatch(text) else string(text)
    return read_typed(text, column)


def _of_object(item: object) -> Value:
    """Return the value of an object that is not text; raise ValueError if it has none."""
    match item:
        case Value():
            return item
        case bool():
            return boolean(item)
        case numbers.Integral():
            return integer(int(item))
        case Decimal():
            return decimal(item)
        case datetime.datetime():
            return _of_datetime(item)
        case datetime.date():
            return date(item.toordinal() - _EPOCH.toordinal())
        case numbers.Real() if not isinstance(item, numbers.Rational):
            value = double(float(item))
            if value is None:
                raise ValueError("NaN has no value")
            return value
    if type(item).__name__ in ("bool_", "bool"):  # NumPy's, which is not known to `numbers`
        return boolean(bool(item))
    raise ValueError(f"the type {type(item).__name__} is not supported")


def _of_datetime(item: datetime.datetime) -> Value:
    offset = item.utcoffset()
    if offset is None:
        return date_time((item - _MIDNIGHT) // _MICROSECOND, None)
    minutes, seconds = divmod(offset // _SECOND, 60)
    if seconds or offset % _SECOND:
        raise ValueError("its timezone is not a whole number of minutes")
    return date_time((item.replace(tzinfo=None) - offset - _MIDNIGHT) // _MICROSECOND, minutes)


def _data_error(item: object, column: ColumnType, reason: str) -> DataError:
    of_type = "" if column is ColumnType.ANY else f" of type {column.value}"
    return DataError(Diagnostic(codes.NOT_A_VALUE, f"{shown(item)} is not a value{of_type}{reason}"))


def shown(item: object) -> str:
    """Return `repr` of the object, or a description if it has an integer too long for Python to write."""
    try:
        return repr(item)
    except ValueError:
        return f"<{type(item).__name__} with an integer of thousands of digits>"


def to_python(value: Value) -> PythonValue:
    """The Python object nearest to the value; a date that Python cannot hold is its text."""
    match value.kind:
        case Kind.BOOLEAN:
            return bool(value.content)
        case Kind.DECIMAL:
            return exact_number(value)
        case Kind.BIG:
            number = Decimal(value.content)
            return number if is_decimal(value) else int(number)
        case Kind.DATE | Kind.DATETIME:
            return _to_datetime(value)
        case Kind.BLANK:
            return f"_:{value.content}"
    return value.content


def _to_datetime(value: Value) -> datetime.date | str:
    assert isinstance(value.content, int)
    try:
        if value.kind is Kind.DATE:
            return _EPOCH + datetime.timedelta(days=value.content)
        if value.extra is None:
            return _MIDNIGHT + value.content * _MICROSECOND
        assert isinstance(value.extra, int)
        zone = datetime.timezone(datetime.timedelta(minutes=value.extra))
        local = _MIDNIGHT + value.content * _MICROSECOND + datetime.timedelta(minutes=value.extra)
        return local.replace(tzinfo=zone)
    except OverflowError:
        return plain(value)
