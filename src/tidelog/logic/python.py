"""Python's own objects as values, and back."""

from __future__ import annotations

import datetime
import numbers
from decimal import Decimal

from tidelog.errors import DataError, Diagnostic
from tidelog.logic import terms
from tidelog.logic.values import (
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

PythonValue = bool | int | float | Decimal | str | datetime.date | datetime.datetime

_EPOCH = datetime.date(1970, 1, 1)
_MIDNIGHT = datetime.datetime(1970, 1, 1)
_SECOND = datetime.timedelta(seconds=1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def from_python(item: object, column: ColumnType = ColumnType.ANY) -> Value:
    """The value of a Python object in a column of this type; raises DataError if it has none there.

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
            raise ValueError("half of a surrogate pair") from None
    if column is ColumnType.ANY:
        return iri(text) if terms.NAME.fullmatch(text) else string(text)
    return terms.read_typed(text, column)


def _of_object(item: object) -> Value:
    """The value of an object that is not text; raises ValueError if it has none."""
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
    raise ValueError(f"the type {type(item).__name__} has no values here")


def _of_datetime(item: datetime.datetime) -> Value:
    offset = item.utcoffset()
    if offset is None:
        return date_time((item - _MIDNIGHT) // _MICROSECOND, None)
    minutes, seconds = divmod(offset // _SECOND, 60)
    if seconds or offset % _SECOND:
        raise ValueError("its timezone is not a whole number of minutes")
    return date_time((item.replace(tzinfo=None) - offset - _MIDNIGHT) // _MICROSECOND, minutes)


def _data_error(item: object, column: ColumnType, reason: str) -> DataError:
    wanted = "" if column is ColumnType.ANY else f" of type {column.value}"
    return DataError(Diagnostic("E510", f"{shown(item)} is not a value{wanted}{reason}"))


def shown(item: object) -> str:
    """Return the object as Python writes it; integers of thousands of digits it does not write."""
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
        return terms.plain(value)
