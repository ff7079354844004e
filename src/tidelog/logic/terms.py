"""Text to value and value to text.

Four ways to write a value:

- `plain`: the text alone, without quotes or brackets, as people and spreadsheets want it;
- `field`: a field of a file, as Nemo writes it, that `read_any` reads as the same value: names and numbers as
  they are, strings in quotes, all else with its language or datatype;
- `exact`: a term of the rule language that reads back as the same value, `read_exact(exact(v)) == v`;
- `ntriples`: a term of N-Triples.

Three ways to read one: `read_exact` for the last two, `read_typed` for a field of a column with a type, and
`read_any` for a field of a column without one, which follows Nemo:

| the field, white space around it gone                 | is read as                                    |
|-------------------------------------------------------|-----------------------------------------------|
| empty                                                 | the empty string                              |
| `12`, `+07`: digits                                   | an integer                                    |
| `1.50`, `2.0`, `5.`: digits with a point among them   | a decimal                                     |
| `"a"`, `"a"@en`, `"1"^^<datatype>`, no escapes        | a string, with a language, with a datatype    |
| `<https://example.org/>`                              | an IRI                                        |
| `_:b`, `<_:b>`                                        | a blank node                                  |
| with white space or one of ``< > " { } | ^ ` \\``       | a string: `Alice Smith`                       |
| all other                                             | a name or IRI: `alice`, `a-b`, `http://x/y`   |

So `true`, `1e3` and `2020-01-01` are names there, as in Nemo: a column with a type reads them as what they
are. Two things differ from Nemo: it makes integers of decimals without a fraction (`2.0`), and IRIs of fields
with `{ } | ^`, a backquote or a backslash, which no IRI holds here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tidelog.logic import lexical_forms, values
from tidelog.logic.values import XSD, ColumnType, Kind, Value
from tidelog.syntax.quoting import quote, unescape

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
        found = _FIELD_LITERAL.fullmatch(field)
        return _read_literal(found, found["text"]) if found else values.string(field)
    if first == "<" and field[-1] == ">" and not _NOT_IN_BRACKETS.search(field, 1, len(field) - 1):
        return values.iri(field[1:-1])
    return values.string(field) if _NOT_IN_NAMES.search(field) else values.iri(field)


def read_typed(text: str, column: ColumnType) -> Value:
    """The value of a field in a column of this type; raises ValueError with the reason."""
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
        raise ValueError("the column is passed over")
    datatype, called = _TYPES[column.base]
    value = values.literal(field.lower() if column is ColumnType.BOOLEAN else field, XSD + datatype)
    if value.kind is Kind.LITERAL:
        raise ValueError(_reason(field, called))
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


def _reason(field: str, called: str) -> str:
    return f"{field!r} is not {called}" if field else f"an empty field is not {called}"


def read_exact(text: str) -> Value:
    """The value of a term written by `exact` or in N-Triples; raises ValueError with the reason."""
    term = text.strip()
    first = term[:1]
    if first == '"':
        found = _EXACT_LITERAL.fullmatch(term)
        if found is None:
            raise ValueError(f"{term!r} is not a quoted text with a language or datatype")
        return _read_literal(found, _unescape(found["text"]))
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


def _read_literal(found: re.Match[str], text: str) -> Value:
    """The value of a quoted text with the language or datatype that was found after it."""
    if found["language"] is not None:
        return values.language_string(text, found["language"])
    if found["datatype"] is not None:
        return values.literal(text, _unescape(found["datatype"]))
    return values.string(text)


def _unescape(text: str) -> str:
    try:
        return unescape(text)
    except ValueError:
        raise ValueError(f"{text!r} holds an escape that stands for no character") from None


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
            written = _lexical(value)
            return _with_datatype(value) if "INF" in written else written
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
            written = _write_decimal(value)
            return written if value.extra else written + ".0"
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
