"""Values: the meaning of constants, independent of how they are written.

A `Value` is a small tuple that compares by kind and content, so that the integer 1, the decimal 1.0, the
double 1E0 and `true` are four values. The columnar engine stores the same three fields in arrays (kind,
payload, extra).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from tidelog.logic import lexical_forms


class Kind(IntEnum):
    """The kinds of values. Engines store the numbers: never renumber them.

    The contents of `content` and `extra`:
    """

    BOOLEAN = 1  # content 0 or 1
    INTEGER = 2  # content an int of 64 bits
    DECIMAL = 3  # content the int of 64 bits m, extra the least scale s >= 0 that will do: m / 10**s
    DOUBLE = 4  # content a float, never NaN, never -0.0
    BIG = 5  # content the canonical text of an integer or decimal beyond 64 bits; only decimals have a point
    DATE = 6  # content days since 1970-01-01
    DATETIME = 7  # content microseconds since 1970-01-01T00:00 UTC, extra minutes east of UTC or None
    STRING = 8  # content the text
    LANGUAGE_STRING = 9  # content the text, extra the language tag in lower case
    LITERAL = 10  # content the text, extra the IRI of a datatype that is none of the above
    IRI = 11  # content the text; the name `alice` is the IRI <alice>
    BLANK = 12  # content the label of a blank node, without `_:`


class Value(NamedTuple):
    """A constant: its kind, and its contents as documented in `Kind`."""

    kind: Kind
    content: int | float | str
    extra: int | str | None = None


Size = tuple[int, int]  # of decimals: digits in all, and those behind the point
MOST_DIGITS = 38
_SIZES: dict[str, Size] = {}  # by the types that have one
_SIZED = re.compile(r"decimal\(([0-9]{1,4}), ([0-9]{1,4})\)")


class ColumnType(Enum):
    """The type that a declaration or an import gives to a column.

    Those of decimals with a size are made by their text when they are needed:

    >>> ColumnType("decimal(12, 2)").size, ColumnType("decimal(12, 2)").base
    ((12, 2), <ColumnType.DECIMAL: 'decimal'>)
    """

    ANY = "any"  # each text is read as the term it looks like; see docs/language.md
    STRING = "string"
    IRI = "iri"
    INTEGER = "int"
    DECIMAL = "decimal"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    DATE = "date"
    DATETIME = "dateTime"
    LOCAL_DATETIME = "localDateTime"  # without a time zone
    TERM = "rdf"  # terms written exactly, as in N-Triples
    SKIP = "skip"  # imports only: the column is skipped

    __hash__ = object.__hash__  # each is one object; that of `Enum` is a function of Python

    @classmethod
    def _missing_(cls, value: object) -> ColumnType | None:
        match = _SIZED.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return None
        text = match[0]
        digits, scale = map(int, match.groups())
        if not (1 <= digits <= MOST_DIGITS and scale <= digits):
            return None
        member = object.__new__(cls)
        member._name_ = member._value_ = text
        _SIZES[text] = digits, scale
        # One member per text, even if several threads create it at the same time.
        return cls._value2member_map_.setdefault(text, member)  # type: ignore[return-value]

    @property
    def size(self) -> Size | None:
        """The precision and scale of decimals, if declared."""
        return _SIZES.get(self._value_)

    @property
    def base(self) -> ColumnType:
        """The more general type: decimals of any size, moments with or without a time zone."""
        if self is ColumnType.LOCAL_DATETIME:
            return ColumnType.DATETIME
        return ColumnType.DECIMAL if self._value_ in _SIZES else self


XSD = "http://www.w3.org/2001/XMLSchema#"
NULL_DATATYPE = "tag:tidelog:null"  # of the value for missing ones, where these are values
LANGUAGE_STRING_DATATYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"

TRUE = Value(Kind.BOOLEAN, 1)
FALSE = Value(Kind.BOOLEAN, 0)
NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.BIG})

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_NOT_IN_IRIS = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_LANGUAGE_TAG = re.compile(r"[A-Za-z]+(?:-[A-Za-z0-9]+)*", re.ASCII)

Number = int | float | Decimal

# The types that XSD derives from integer, with their bounds; None is no bound.
_INTEGER_BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "long": (_SMALLEST, _LARGEST),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
}


# ---- constructors: equal arguments give equal values


def boolean(truth: bool) -> Value:
    """The Boolean."""
    return TRUE if truth else FALSE


def integer(number: int) -> Value:
    """The integer, BIG beyond 64 bits."""
    if _SMALLEST <= number <= _LARGEST:
        return Value(Kind.INTEGER, number)
    # str(int) refuses numbers of thousands of digits; Decimal does not.
    return Value(Kind.BIG, str(Decimal(number)))


def decimal(number: Decimal) -> Value:
    """The decimal number, BIG if 64 bits cannot hold its digits."""
    if not number.is_finite():
        raise ValueError(f"{number} is not a decimal number")
    return decimal_of_text(format(number, "f"))


def number_of_text(text: str) -> Value:
    """The integer written as `[+-]digits`, or the decimal written with a point.

    >>> number_of_text("2"), number_of_text("2.0")  # doctest: +NORMALIZE_WHITESPACE
    (Value(kind=<Kind.INTEGER: 2>, content=2, extra=None),
     Value(kind=<Kind.DECIMAL: 3>, content=2, extra=0))
    """
    return decimal_of_text(text) if "." in text else _integer_of_text(text)


def decimal_of_text(text: str) -> Value:
    """The decimal written as `[+-]digits`, with or without a point.

    >>> decimal_of_text("2.50")
    Value(kind=<Kind.DECIMAL: 3>, content=25, extra=1)
    """
    sign, digits = _sign_and_digits(text)
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    content = _of_64_bits(sign, (whole + fraction).lstrip("0"))
    if content is not None:
        return Value(Kind.DECIMAL, content, len(fraction))
    return Value(Kind.BIG, f"{sign}{whole or '0'}.{fraction or '0'}")


def _integer_of_text(text: str) -> Value:
    sign, digits = _sign_and_digits(text)
    content = _of_64_bits(sign, digits)
    return Value(Kind.BIG, sign + digits) if content is None else Value(Kind.INTEGER, content)


def _sign_and_digits(text: str) -> tuple[str, str]:
    """The sign if it is negative, and the rest without leading zeros."""
    return "-" if text[0] == "-" else "", text.lstrip("+-").lstrip("0")


def _of_64_bits(sign: str, digits: str) -> int | None:
    """The integer of this sign and these digits, if 64 bits hold it."""
    if len(digits) > 19:
        return None
    content = int(sign + (digits or "0"))
    return content if _SMALLEST <= content <= _LARGEST else None


def double(number: float) -> Value | None:
    """The double, zero without a sign; NaN is no value."""
    return None if number != number else Value(Kind.DOUBLE, float(number) + 0.0)


def string(text: str) -> Value:
    """The string without a language."""
    return Value(Kind.STRING, text)


def language_string(text: str, language: str) -> Value:
    """Return the string with its language tag, which is in lower case; raise ValueError for no tag."""
    if not _LANGUAGE_TAG.fullmatch(language):
        raise ValueError(f"{language!r} is not a language tag")
    return Value(Kind.LANGUAGE_STRING, text, language.lower())


def iri(text: str) -> Value:
    """The IRI or name, or the blank node if it starts with `_:`; raise ValueError for invalid characters."""
    match = _NOT_IN_IRIS.search(text)
    if match:
        raise ValueError(f"an IRI cannot hold the character {match[0]!r}: {text!r}")
    if text.startswith("_:"):
        return blank(text[2:])
    return Value(Kind.IRI, text)


def blank(label: str) -> Value:
    """Return the blank node with this label; raise ValueError for characters not allowed in labels."""
    if not label or _NOT_IN_IRIS.search(label):
        raise ValueError(f"{label!r} is not a label of a blank node")
    return Value(Kind.BLANK, label)


def date(days: int) -> Value:
    """The date that lies this many days after 1970-01-01."""
    return Value(Kind.DATE, days)


def date_time(microseconds: int, offset: int | None) -> Value:
    """The moment this many microseconds after 1970 began in UTC, seen `offset` minutes east of it."""
    return Value(Kind.DATETIME, microseconds, offset)


def literal(text: str, datatype: str) -> Value:
    """The value that the text writes in the datatype, a LITERAL if it writes none or if it is not known.

    >>> literal("01", XSD + "int")
    Value(kind=<Kind.INTEGER: 2>, content=1, extra=None)
    >>> literal("abc", XSD + "int").kind
    <Kind.LITERAL: 10>
    """
    value = _known_literal(text, datatype[len(XSD) :]) if datatype.startswith(XSD) else None
    if value is not None:
        return value
    if _NOT_IN_IRIS.search(datatype):
        raise ValueError(f"{datatype!r} is not the IRI of a datatype")
    return Value(Kind.LITERAL, text, datatype)


def _known_literal(text: str, datatype: str) -> Value | None:
    """The value of a text in the XSD datatype of this local name."""
    if datatype == "string":
        return string(text)
    # All other types collapse white space.
    reader = _READERS.get(datatype)
    if reader is not None:
        return reader(text.strip(" \t\n\r"))
    return None


def _read_boolean(text: str) -> Value | None:
    return {"true": TRUE, "1": TRUE, "false": FALSE, "0": FALSE}.get(text)


def _read_decimal(text: str) -> Value | None:
    return decimal_of_text(text) if lexical_forms.DECIMAL.fullmatch(text) else None


def _read_double(text: str) -> Value | None:
    number = lexical_forms.read_double(text)
    return None if number is None else double(number)


def _read_date(text: str) -> Value | None:
    days = lexical_forms.read_date(text)
    return None if days is None else date(days)


def _read_date_time(text: str) -> Value | None:
    moment = lexical_forms.read_date_time(text)
    return None if moment is None else date_time(*moment)


def _integer_reader(least: int | None, most: int | None) -> Callable[[str], Value | None]:
    """A reader of integers between the bounds."""

    def read(text: str) -> Value | None:
        if not lexical_forms.INTEGER.fullmatch(text):
            return None
        value = _integer_of_text(text)
        number = exact_number(value)
        fits = (least is None or least <= number) and (most is None or number <= most)
        return value if fits else None

    return read


_READERS: dict[str, Callable[[str], Value | None]] = {
    "boolean": _read_boolean,
    "decimal": _read_decimal,
    "double": _read_double,
    "float": _read_double,
    "date": _read_date,
    "dateTime": _read_date_time,
    **{name: _integer_reader(*bounds) for name, bounds in _INTEGER_BOUNDS.items()},
}


# ---- order


_RANKS = {
    Kind.BOOLEAN: 0,
    Kind.INTEGER: 1,
    Kind.DECIMAL: 1,
    Kind.DOUBLE: 1,
    Kind.BIG: 1,
    Kind.DATE: 2,
    Kind.DATETIME: 3,
    Kind.STRING: 4,
    Kind.LANGUAGE_STRING: 5,
    Kind.LITERAL: 6,
    Kind.IRI: 7,
    Kind.BLANK: 8,
}


def is_integer(value: Value) -> bool:
    """Whether the value is an integer of any size; the decimal 2.0 is not."""
    return value.kind is Kind.INTEGER or (value.kind is Kind.BIG and "." not in str(value.content))


def is_decimal(value: Value) -> bool:
    """Whether the value is a decimal of any size."""
    return value.kind is Kind.DECIMAL or (value.kind is Kind.BIG and "." in str(value.content))


def exact_number(value: Value) -> Number:
    """The number that a numeric value is; Python compares the three types exactly."""
    match value.kind:
        case Kind.INTEGER | Kind.DOUBLE:
            assert not isinstance(value.content, str)
            return value.content
        case Kind.DECIMAL:
            return Decimal(f"{value.content}E-{value.extra}")
        case Kind.BIG:
            return Decimal(value.content)
    raise ValueError(f"{value} is not a number")


def order_key(value: Value) -> tuple[Any, ...]:
    """A key that sorts all values: Booleans, numbers, dates, dateTimes, strings, literals, IRIs, blanks.

    Numbers are in the order of their exact values, and equal ones in the order of their kinds; text in
    the order of its code points, then of its language or datatype; dateTimes in the order of time, then of
    their timezones.
    """
    rank = _RANKS[value.kind]
    if rank == 1:
        return rank, exact_number(value), value.kind, is_decimal(value)  # the last for those that are BIG
    if value.kind is Kind.DATETIME:
        return rank, value.content, lexical_forms.INVALID if value.extra is None else value.extra
    return rank, value.content, value.extra or ""


def compare(left: Value, right: Value) -> int | None:
    """Below, at or above zero as left is less than, as large as or greater than right.

    None if the two cannot be compared: only values of one rank of the total order can be, texts with a
    language only within it, and literals of other datatypes and blank nodes only with themselves.
    """
    if left == right:
        return 0
    rank = _RANKS[left.kind]
    if rank != _RANKS[right.kind] or rank in (6, 8):
        return None
    if rank == 5 and left.extra != right.extra:
        return None
    first, second = order_key(left)[1], order_key(right)[1]
    return int(first > second) - int(first < second)


# ---- types of columns


_KINDS_OF_COLUMN: dict[ColumnType, frozenset[Kind]] = {
    ColumnType.STRING: frozenset({Kind.STRING}),
    ColumnType.IRI: frozenset({Kind.IRI, Kind.BLANK}),
    ColumnType.INTEGER: frozenset({Kind.INTEGER, Kind.BIG}),
    ColumnType.DECIMAL: frozenset({Kind.DECIMAL, Kind.BIG}),
    ColumnType.DOUBLE: frozenset({Kind.DOUBLE}),
    ColumnType.BOOLEAN: frozenset({Kind.BOOLEAN}),
    ColumnType.DATE: frozenset({Kind.DATE}),
    ColumnType.DATETIME: frozenset({Kind.DATETIME}),
}


def fits(value: Value, column: ColumnType) -> bool:
    """Whether a column of this type may hold the value as it is."""
    if column.size is not None:
        return is_decimal(value) and fits_size(value, column.size)
    if value.kind is Kind.BIG and column in (ColumnType.INTEGER, ColumnType.DECIMAL):
        return is_decimal(value) == (column is ColumnType.DECIMAL)
    if column is ColumnType.LOCAL_DATETIME and value.extra is not None:
        return False
    kinds = _KINDS_OF_COLUMN.get(column.base)
    return kinds is None or value.kind in kinds


def fits_size(value: Value, size: Size) -> bool:
    """Whether a decimal fits this precision and scale.

    >>> fits_size(decimal_of_text("99.95"), (4, 2)), fits_size(decimal_of_text("99.955"), (5, 2))
    (True, False)
    """
    digits, scale = size
    text = (
        str(value.content)
        if value.kind is Kind.BIG
        else format(Decimal(f"{value.content}E-{value.extra}"), "f")
    )
    whole, _, fraction = text.lstrip("-").partition(".")
    return len(fraction.rstrip("0")) <= scale and len(whole.lstrip("0")) <= digits - scale


def conform(value: Value, column: ColumnType) -> Value | None:
    """The value as a column of this type holds it.

    Numbers become doubles in a column of doubles, and integers become decimals in one of decimals.
    """
    if column is ColumnType.DOUBLE and value.kind in NUMBERS:
        number = float(exact_number(value))
        return None if value.kind is Kind.BIG and math.isinf(number) else double(number)
    if column.base is ColumnType.DECIMAL and is_integer(value):
        value = decimal(Decimal(value.content))
    return value if fits(value, column) else None
