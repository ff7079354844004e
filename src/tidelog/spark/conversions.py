"""Texts as values of a column's type, in Spark SQL: exactly the texts that tidelog's own readers accept.

Spark's casts accept more (`0x1p3`, `1d`, `2020-1-1`, digits of other scripts) and round where digits do not
fit. So a text is cast as it is only if it is plainly written, which costs two comparisons, and otherwise by a
regular expression that takes it apart. `tests/spark/test_conversions.py` compares both over all types.

A Spark type holds less than a type of tidelog in four cases, and such a text is not converted: integers
beyond 64 bits, decimals beyond `decimal(38, 18)` where no size is declared, years beyond Spark's, and in a
column of `dateTime` moments without a time zone. Moments with a time zone are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.data.typed_columns import PRECISION, SCALE
from tidelog.logic.values import ColumnType

STRING: Final = spark_types.StringType()
LONG: Final = spark_types.LongType()
DOUBLE: Final = spark_types.DoubleType()
DATE: Final = spark_types.DateType()
TIMESTAMP: Final = spark_types.TimestampType()
LOCAL_TIMESTAMP: Final = spark_types.TimestampNTZType()

# White space as Python's `str.strip` sees it; Java's `\s` is another set.
_SPACE: Final = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*+"
_SPACE_OF_IRIS: Final = r"[ \t\n\r\f\x0b]*"
_NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_YEAR: Final = r"(?!-0000)-?(?:[1-9][0-9]{4,6}|[0-9]{4})-[0-9]{2}-[0-9]{2}"
_ZONE: Final = r"Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00)"
_NOT_IN_IRIS: Final = r"[\x00-\x20<>\"{}|^`\\]"
_QUOTED: Final = '"[^"]*+(?:""[^"]*+)*+'  # with all but the quote that closes it
_DAY: Final = 86_400_000_000  # microseconds


def spark_type_of(of: ColumnType) -> spark_types.DataType:
    """Return the type of a column of Spark in which values of a declared type lie."""
    if of.base is ColumnType.DECIMAL:
        return spark_types.DecimalType(*(of.size or (PRECISION, SCALE)))
    return _SPARK_TYPES.get(of, STRING)


_SPARK_TYPES: Final = {
    ColumnType.INTEGER: LONG,
    ColumnType.DOUBLE: DOUBLE,
    ColumnType.BOOLEAN: spark_types.BooleanType(),
    ColumnType.DATE: DATE,
    ColumnType.DATETIME: TIMESTAMP,
    ColumnType.LOCAL_DATETIME: LOCAL_TIMESTAMP,
}


def converted(text: Column, of: ColumnType) -> Column:
    """Return the value of a text in a column of this type, NULL if it has none.

    Texts of `any` and of exact terms stay as they are: tasks read them.
    """
    if of.base is ColumnType.DECIMAL:
        return _decimal(text, *(of.size or (PRECISION, SCALE)))
    convert = _CONVERSIONS.get(of)
    return text if convert is None else convert(text)


def stripped(text: Column) -> Column:
    """Return a text without the white space around it, as Python's `str.strip` returns it."""
    return F.regexp_extract(text, rf"(?s)^{_SPACE}(.*?){_SPACE}\z", 1)


# ---- lines of delimited text


def cells_of(line: Column, delimiter: str, has_quotes: bool) -> Column:
    """Return the fields of a line that is a record, as `io.records` takes them apart."""
    plain = F.split(line, _escaped(delimiter), -1)
    if not has_quotes:
        return plain
    quoted = F.transform(_raw_cells(line, delimiter), _unquoted)
    return F.when(line.contains('"'), quoted).otherwise(plain)


def is_open(line: Column, delimiter: str) -> Column:
    """Return whether the last field of a line begins with a quote, and has none that closes it."""
    return F.element_at(_raw_cells(line, delimiter), -1).rlike(rf"^{_QUOTED}\z")


def _raw_cells(line: Column, delimiter: str) -> Column:
    one = _escaped(delimiter)
    # With a delimiter before the first field, too, no match is empty.
    field = F.lit(f'{one}({_QUOTED}"?[^{one}]*+|[^{one}]*+)')
    return F.regexp_extract_all(F.concat(F.lit(delimiter), line), field, F.lit(1))


def _unquoted(cell: Column) -> Column:
    form = r'(?s)^"([^"]*+(?:""[^"]*+)*+)"?(.*)\z'
    inside = F.replace(F.regexp_extract(cell, form, 1), F.lit('""'), F.lit('"'))
    return F.when(cell.startswith('"'), F.concat(inside, F.regexp_extract(cell, form, 2))).otherwise(cell)


def _escaped(delimiter: str) -> str:
    return delimiter if delimiter.isalnum() or delimiter in "\t ," else f"\\{delimiter}"


# ---- texts


def is_blank(text: Column) -> Column:
    """Return whether a text has nothing but white space."""
    return (text == "") | text.rlike(rf"^{_SPACE}\z")


def _within(text: Column, form: str, group: int = 1) -> Column:
    """Return a part of a text that has this form, white space around it aside; empty if it has not."""
    return F.regexp_extract(text, rf"^{_SPACE}{form}{_SPACE}\z", group)


def _begins_as_number(text: Column) -> Column:
    """Return whether a text begins with a sign, a point or a digit (or `,` or `/`, which no cast takes)."""
    return (text >= "+") & (text < ":")


def _is_digit(character: Column) -> Column:
    return (character >= "0") & (character < ":")


def _at(text: Column, place: int) -> Column:
    return F.substring(text, place, 1)


def _integer(text: Column) -> Column:
    # A cast takes nothing away but white space and control characters at both ends.
    is_plain = _begins_as_number(text) & _is_digit(_at(text, -1))
    return F.when(is_plain, text.try_cast(LONG)).otherwise(_within(text, "([+-]?[0-9]+)").try_cast(LONG))


def _double(text: Column) -> Column:
    is_plain = _begins_as_number(text) & _is_digit(_at(text, -1)) & ~text.contains("x") & ~text.contains("X")
    written = _within(text, f"({_NUMBER}(?:[eE][+-]?[0-9]+)?|[+-]?INF)")
    infinite = F.when(written == "-INF", float("-inf")).when(written.endswith("INF"), float("inf"))
    return F.when(is_plain, _finite(text)).otherwise(F.coalesce(infinite, _finite(written)))


def _finite(text: Column) -> Column:
    """Return a number that is written with digits; beyond what doubles hold, Java reads an infinity."""
    number = text.try_cast(DOUBLE) + F.lit(0.0)  # -0.0 becomes 0.0
    return F.when(F.abs(number) < float("inf"), number)


def _decimal(text: Column, digits: int, scale: int) -> Column:
    of = spark_types.DecimalType(digits, scale)
    point, length = F.instr(text, "."), F.length(text)
    is_plain = (
        _begins_as_number(text)
        & _is_digit(_at(text, -1))
        & ((point == 0) | (length - point <= scale))  # a cast would round
        & (length == F.octet_length(text))  # Java takes digits of all scripts
        & ~text.contains("e")
        & ~text.contains("E")
    )
    form = r"([+-]?)(?=[0-9.]*[0-9])([0-9]*)(?:\.([0-9]*?)0*)?"
    sign, whole, fraction = (_within(text, form, group) for group in (1, 2, 3))
    written = F.concat(sign, F.lit("0"), whole, F.lit("."), fraction, F.lit("0"))
    is_number = _within(text, f"({_NUMBER})") != ""
    careful = F.when(is_number & (F.length(fraction) <= scale), written.try_cast(of))
    return F.when(is_plain, text.try_cast(of)).otherwise(careful)


def _boolean(text: Column) -> Column:
    word = F.lower(_within(text, "([A-Za-z]+|[01])"))
    return (
        F.when(text == "true", True)
        .when(text == "false", False)
        .when(word.isin("true", "1"), True)
        .when(word.isin("false", "0"), False)
    )


def _date(text: Column) -> Column:
    is_plain = (F.length(text) == 10) & _has_dashes(text) & _is_digit(_at(text, 1)) & _is_digit(_at(text, -1))
    return F.when(is_plain, text.try_cast(DATE)).otherwise(_within(text, f"({_YEAR})").try_cast(DATE))


def _has_dashes(text: Column) -> Column:
    return (_at(text, 5) == "-") & (_at(text, 8) == "-")


def _has_clock(text: Column) -> Column:
    return (_at(text, 11) == "T") & (_at(text, 14) == ":") & (_at(text, 17) == ":") & _is_digit(_at(text, 1))


def _moment(text: Column) -> Column:
    is_plain = (F.length(text) == 20) & text.endswith("Z") & _has_dashes(text) & _has_clock(text)
    written, is_midnight = _written_moment(text, _ZONE)
    found = written.try_cast(TIMESTAMP)
    next_day = F.timestamp_micros(F.try_add(F.unix_micros(found), F.lit(_DAY)))
    careful = F.when(is_midnight, next_day).otherwise(found)
    return F.when(is_plain & ~text.contains("T24"), text.try_cast(TIMESTAMP)).otherwise(careful)


def _local_moment(text: Column) -> Column:
    is_plain = (F.length(text) == 19) & _is_digit(_at(text, -1)) & _has_dashes(text) & _has_clock(text)
    written, is_midnight = _written_moment(text, "")
    found = written.try_cast(LOCAL_TIMESTAMP)
    careful = F.when(is_midnight, found + F.expr("INTERVAL '1' DAY")).otherwise(found)
    return F.when(is_plain & ~text.contains("T24"), text.try_cast(LOCAL_TIMESTAMP)).otherwise(careful)


def _written_moment(text: Column, zone: str) -> tuple[Column, Column]:
    """Return a moment as a cast takes it, and whether it is 24:00:00, which is the next day's midnight."""
    form = rf"({_YEAR})T([0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})(?:\.(?=[0-9])([0-9]{{0,6}}?)0*)?({zone})"
    day, clock, fraction, behind = (_within(text, form, group) for group in (1, 2, 3, 4))
    is_midnight = (clock == "24:00:00") & (fraction == "")
    shown = F.when(is_midnight, "00:00:00").otherwise(clock)
    return F.concat(day, F.lit("T"), shown, F.lit("."), F.rpad(fraction, 6, "0"), behind), is_midnight


def _iri(text: Column) -> Column:
    is_plain = ~text.rlike(_NOT_IN_IRIS) & ~text.startswith("_:")
    bare = F.regexp_extract(text, rf"(?s)^{_SPACE_OF_IRIS}(.*?){_SPACE_OF_IRIS}\z", 1)
    inside = F.when(
        bare.startswith("<") & bare.endswith(">"), bare.substr(F.lit(2), F.length(bare) - F.lit(2))
    ).otherwise(bare)
    careful = F.when(~inside.rlike(_NOT_IN_IRIS) & (inside != "_:"), inside)
    return F.when(is_plain, text).otherwise(careful)


_CONVERSIONS: Final[dict[ColumnType, Callable[[Column], Column]]] = {
    ColumnType.INTEGER: _integer,
    ColumnType.DOUBLE: _double,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.DATE: _date,
    ColumnType.DATETIME: _moment,
    ColumnType.LOCAL_DATETIME: _local_moment,
    ColumnType.IRI: _iri,
}
