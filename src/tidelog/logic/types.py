"""Types: static descriptions of the values of a column.

`Types` is a set of them: a column of mixed values has several, and a column of unknown type has `ANY`.
Values of different types are never equal, so that two columns without a common type never join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from tidelog.logic import values
from tidelog.logic.values import ColumnType, Kind, Size, Value
from tidelog.records import dataclass


class Type(Enum):
    """The type of a value: its kind regardless of size, by the name that declarations use."""

    BOOLEAN = "boolean"
    INTEGER = "int"
    DECIMAL = "decimal"
    DOUBLE = "double"
    DATE = "date"
    DATETIME = "dateTime"  # with a time zone: a moment
    LOCAL_DATETIME = "localDateTime"  # without one: local time, in no particular timezone
    STRING = "string"
    LANGUAGE_STRING = "langString"
    LITERAL = "literal"  # of a datatype that is none of the above
    IRI = "iri"
    BLANK = "blank"


Types = frozenset[Type]

ANY: Types = frozenset(Type)
NEVER: Types = frozenset()  # the types of an expression without a value
NUMBER: Types = frozenset({Type.INTEGER, Type.DECIMAL, Type.DOUBLE})
TEXT: Types = frozenset({Type.STRING, Type.LANGUAGE_STRING})
MOMENT: Types = frozenset({Type.DATETIME, Type.LOCAL_DATETIME})

_OF_KIND = {
    Kind.BOOLEAN: Type.BOOLEAN,
    Kind.INTEGER: Type.INTEGER,
    Kind.DECIMAL: Type.DECIMAL,
    Kind.DOUBLE: Type.DOUBLE,
    Kind.DATE: Type.DATE,
    Kind.STRING: Type.STRING,
    Kind.LANGUAGE_STRING: Type.LANGUAGE_STRING,
    Kind.LITERAL: Type.LITERAL,
    Kind.IRI: Type.IRI,
    Kind.BLANK: Type.BLANK,
}

_OF_SEVERAL = {Kind.BIG: frozenset({Type.INTEGER, Type.DECIMAL}), Kind.DATETIME: MOMENT}

_OF_COLUMN: dict[ColumnType, Types] = {
    ColumnType.STRING: frozenset({Type.STRING}),
    ColumnType.IRI: frozenset({Type.IRI, Type.BLANK}),
    ColumnType.INTEGER: frozenset({Type.INTEGER}),
    ColumnType.DECIMAL: frozenset({Type.DECIMAL}),
    ColumnType.DOUBLE: frozenset({Type.DOUBLE}),
    ColumnType.BOOLEAN: frozenset({Type.BOOLEAN}),
    ColumnType.DATE: frozenset({Type.DATE}),
    ColumnType.LOCAL_DATETIME: frozenset({Type.LOCAL_DATETIME}),
    ColumnType.DATETIME: MOMENT,
}

# Types whose values have an order among each other; those of the others are only equal or not.
_COMPARABLE = (NUMBER, MOMENT, *(frozenset({each}) for each in Type if each not in NUMBER | MOMENT))

_NAMES: dict[str, Types] = {
    "any": ANY,
    "number": NUMBER,
    "text": TEXT,
    "day": MOMENT | {Type.DATE},
    "plain": ANY - {Type.IRI, Type.BLANK},
    **{each.value: frozenset({each}) for each in Type},
    "dateTime": MOMENT,
}


def type_of(value: Value) -> Type:
    """Return the type of a value.

    >>> type_of(values.integer(2**70))
    <Type.INTEGER: 'int'>
    """
    if value.kind is Kind.BIG:
        return Type.INTEGER if values.is_integer(value) else Type.DECIMAL
    if value.kind is Kind.DATETIME:
        return Type.LOCAL_DATETIME if value.extra is None else Type.DATETIME
    return _OF_KIND[value.kind]


def types_of_kinds(kinds: Iterable[Kind]) -> Types:
    """Return the types that values of these kinds can have."""
    return NEVER.union(*(_OF_SEVERAL.get(kind) or {_OF_KIND[kind]} for kind in kinds))


def types_of_column(column: ColumnType) -> Types:
    """Return the types that a column may hold which is declared so."""
    return _OF_COLUMN.get(ColumnType.DECIMAL if column.size else column, ANY)


def column_of(types: Types) -> ColumnType:
    """Return the narrowest declaration of a column of these types.

    >>> column_of(frozenset({Type.INTEGER})), column_of(TEXT)
    (<ColumnType.INTEGER: 'int'>, <ColumnType.ANY: 'any'>)
    """
    return next(
        (column for column, column_types in _OF_COLUMN.items() if types and types <= column_types),
        ColumnType.ANY,
    )


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a column according to its schema: the types of its values, and the size of decimals."""

    types: Types
    size: Size | None = None
    is_struct: bool = False  # a column of several types that has a field for each of them
    is_exact: bool = False  # a column of text whose values are exact terms

    def __str__(self) -> str:
        return written(self.types) if self.size is None else "decimal({}, {})".format(*self.size)


ANYTHING = Contents(ANY)


def parts_of(types: Types) -> tuple[Type, ...]:
    """Return the types with separate fields in a struct: blank nodes share the field of IRIs.

    >>> [part.value for part in parts_of(frozenset({Type.BLANK, Type.STRING, Type.INTEGER}))]
    ['int', 'string', 'iri']
    """
    stored = {Type.IRI if each is Type.BLANK else each for each in types}
    return tuple(each for each in Type if each in stored)


def are_comparable(left: Types, right: Types) -> bool:
    """Return whether some values of the two types can be compared by order."""
    return any(left & comparable and right & comparable for comparable in _COMPARABLE)


def written(types: Types) -> str:
    """Return the types as a user reads them.

    >>> written(NUMBER), written(ANY), written(types_of_column(ColumnType.IRI)), written(NEVER)
    ('int | decimal | double', 'any', 'iri', 'none')
    """
    if types == ANY:
        return "any"
    named = types - {Type.BLANK} if Type.IRI in types else types
    named = named - {Type.LOCAL_DATETIME} if Type.DATETIME in types else named
    return " | ".join(each.value for each in Type if each in named) or "none"


# ---- signatures of functions


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a function's arguments, the last for all further ones, and of its result."""

    takes: tuple[Types, ...]
    gives: Callable[[Sequence[Types]], Types]

    def accepted(self, place: int) -> Types:
        """Return the types that the argument at a place may have for the function to have a value."""
        return self.takes[min(place, len(self.takes) - 1)]

    def result(self, arguments: Sequence[Types]) -> Types:
        """Return the types of the value, for arguments of these types; none if there is never a value."""
        accepted_types = [types & self.accepted(position) for position, types in enumerate(arguments)]
        return self.gives(accepted_types) if all(accepted_types) else NEVER


def _arithmetic(arguments: Sequence[Types]) -> Types:
    """A double if one operand is a double, else a decimal if one is, else an integer."""
    result: set[Type] = set()
    for position, types in enumerate(arguments):
        result = set(types) if position == 0 else {_wider(left, right) for left in result for right in types}
    return frozenset(result)


_WIDTH = (Type.INTEGER, Type.DECIMAL, Type.DOUBLE)


def _wider(left: Type, right: Type) -> Type:
    return max(left, right, key=_WIDTH.index)


def _whole_or_double(arguments: Sequence[Types]) -> Types:
    """An integer if all operands are, else a double."""
    integer = {Type.INTEGER} if all(Type.INTEGER in types for types in arguments) else set()
    return frozenset(
        integer | ({Type.DOUBLE} if any(types - {Type.INTEGER} for types in arguments) else set())
    )


def _power(arguments: Sequence[Types]) -> Types:
    """Exact if the exponent is an integer that is not negative, else a double, but never of two integers."""
    base, exponent = arguments
    exact = base - {Type.DOUBLE} if Type.INTEGER in exponent else NEVER
    is_double = base != {Type.INTEGER} or exponent != {Type.INTEGER}
    return exact | ({Type.DOUBLE} if is_double else NEVER)


def _of_all(arguments: Sequence[Types]) -> Types:
    return NEVER.union(*arguments)


def _part(arguments: Sequence[Types]) -> Types:
    """A text in the language of the first, or the empty text."""
    return arguments[0] | {Type.STRING}


def _joined(arguments: Sequence[Types]) -> Types:
    """A text in a language only if all parts may be in one."""
    is_tagged = arguments and all(Type.LANGUAGE_STRING in types for types in arguments)
    return TEXT if is_tagged else frozenset({Type.STRING})


_RESULTS: dict[str, Callable[[Sequence[Types]], Types]] = {
    "arithmetic": _arithmetic,
    "int or double": _whole_or_double,
    "power": _power,
    "first": lambda arguments: arguments[0],
    "one of them": _of_all,
    "second or third": lambda arguments: _of_all(arguments[1:]),
    "part": _part,
    "joined": _joined,
}


def signature(text: str) -> Signature:
    """Return the signature that a text writes: the types of the arguments, `->`, and those of the result.

    A result may also be a word for how it follows from the arguments, such as `arithmetic`.

    >>> written(signature("number, number -> arithmetic").result([NUMBER, frozenset({Type.DOUBLE})]))
    'double'
    """
    parameters, _, result_text = (side.strip() for side in text.partition("->"))
    result = _RESULTS.get(result_text)
    if result is None:
        fixed = _read(result_text)
        result = lambda arguments: fixed  # noqa: E731 - a function as in _RESULTS
    return Signature(tuple(_read(side) for side in parameters.split(",")), result)


def _read(text: str) -> Types:
    return NEVER.union(*(_NAMES[name.strip()] for name in text.split("|")))
