# ruff: noqa: E501, SIM905, RUF005 - texts that are compared are listed as they are
"""Spark SQL converts exactly the texts that tidelog's own readers accept, to the same values."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidelog.data.typed_columns import PRECISION, SCALE
from tidelog.logic import conversions
from tidelog.logic.values import ColumnType, Kind, Value, exact_number, fits_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = [
    *(
        of
        for of in ColumnType
        if of not in (ColumnType.SKIP, ColumnType.TERM, ColumnType.ANY) and of.size is None
    ),
    *(ColumnType(f"decimal({size})") for size in ("12, 2", "38, 0", "38, 18", "5, 5", "1, 0")),
]
NUMBERS = """0 1 -1 +1 00 007 +007 -007 -0 +0 1. .5 -.5 +.5 . + - 1.5 1.50 1.500000000000000000000 0.005 0.0050 12.345
 1e3 1E3 1e+3 1e-3 1e 1e999 -1e999 1e-999 1e400 4.9e-324 1.7976931348623157e308 1.7976931348623159e308 1.e5 .e5 e5
 1d 1f 1D 1F 1L 0x1 0X1F 0x1p3 0x1.8p1 0b1 0o7 1_000 1,000 1'000 1/2 1:2 10% $5 NaN nan inf INF +INF -INF -inf
 Infinity -Infinity INFINITY ١٢ 1٢3 １２ ² ½ 9223372036854775807 9223372036854775808 -9223372036854775808
 -9223372036854775809 99999999999999999999999999999999999999 -99999999999999999999999999999999999999
 100000000000000000000000000000000000000 12345678901234567890.123456789012345678 0.1234567890123456789
 0.00000 00000000000000000000000000000000000000000000000001 1-1 --1 +-1 1+ 1- 9999999999.99 99999999999.99
 9999999999.995 0.99999 0.999999 9 10 0.5 1.0 1.00e2""".split()
DATES = (
    """2020-01-01 2020-12-31 2020-02-29 2021-02-29 1900-02-29 2000-02-29 2020-02-30 2020-13-01 2020-00-01
 2020-01-00 2020-01-32 2020-1-1 2020-1-01 2020-01-1 2020-01-1T 2020-01 2020 20200101 2020/01/01 0000-01-01 -0000-01-01
 0001-01-01 -0001-01-01 -0001-12-31 12345-01-01 01234-01-01 +2020-01-01 99999-12-31 1234567-01-01 12345678-01-01 +12345-01-01
 2020-01-01Z 2020-01-01T 2020-01-01T00:00:00 2020-01-01T00:00:00Z 2020-01-01T00:00 2020-01-01T00Z 2020-01-01T24:00:00Z
 2020-12-31T24:00:00Z 2020-01-01T24:00:00.000Z 2020-01-01T24:00:01Z 2020-01-01T24:00:00.1Z 2020-01-01T24:00:00
 2020-01-01T24:00:00.000 2020-01-01T24:00:01 2020-01-01T25:00:00Z 2020-01-01T23:60:00Z 2020-01-01T23:59:60Z
 2020-01-01T23:59:59Z 2020-01-01T23:59:59.9Z 2020-01-01T23:59:59.999999Z 2020-01-01T23:59:59.9999990Z
 2020-01-01T23:59:59.9999999Z 2020-01-01T23:59:59.Z 2020-01-01T23:59:59. 2020-01-01T23:59:59.5
 2020-01-01T23:59:59.1234560000000000 2020-01-01T23:59:59+00:00 2020-01-01T23:59:59-00:00 2020-01-01T23:59:59+05:30
 2020-01-01T23:59:59-05:30 2020-01-01T23:59:59+14:00 2020-01-01T23:59:59-14:00 2020-01-01T23:59:59+14:01
 2020-01-01T23:59:59+13:59 2020-01-01T23:59:59+15:00 2020-01-01T23:59:59+05:60 2020-01-01T23:59:59+0530
 2020-01-01T23:59:59+05 2020-01-01T23:59:59+5:30 2020-01-01T23:59:59UTC 2020-01-01T23:59:59GMT 2020-01-01T23:59:59z
 2020-01-01t23:59:59Z 2020-01-01T1:02:03Z 2020-01-01T01:2:03Z 2020-01-01T01:02:3Z 0000-01-01T00:00:00Z
 -0001-01-01T00:00:00Z -0000-01-01T00:00:00Z 12345-06-07T08:09:10Z 12345-06-07T08:09:10 300000-01-01T00:00:00Z 1582-10-10
 1582-10-10T00:00:00Z 1582-10-10T00:00:00 0001-01-01T00:00:00Z 9999-12-31T23:59:59.999999Z 1969-12-31T23:59:59.999999Z
 2020-03-29T02:30:00 2020-03-29T02:30:00Z now today epoch tomorrow yesterday""".split()
    + [
        "2020-01-01 00:00:00",
        "2020-01-01 00:00:00Z",
        "2020-01-01T00:00:00 Z",
        "2020-01-01T00:00:00Europe/Berlin",
        "2020-01-01T00:00:00 UTC",
    ]
)
WORDS = (
    """true false TRUE FALSE True tRUE t f T F yes no y n Y N on off 1 0 01 truE, null NULL None NA n/a - a A é ﬁ
 alice http://e.org/a <http://e.org/a> <a> < > <> << <<a>> a<b a>b _: _:b <_:b> <_:> _:a.b a"b "a" a\\b a{b a|b a^b a`b
 'a' a'b ab\u00a0c \u00a0 \u2003 a\u0085b ſ K İ""".split(" ")
    + ["", " ", "\n", "a b", "a\tb", "a\nb", "x" * 5000]
)
AROUND = [
    *(
        (space, "")
        for space in (" ", "\t", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\xa0", "\u2003")
    ),
    *(("", space) for space in (" ", "\n", "\x0b", "\x1c", "\xa0", "\u3000", "\r\n")),
    *((odd, "") for odd in ("\x00", "\x01", "\x7f", "\u200b", "\ufeff", "\x1b")),
    *(
        ("", odd)
        for odd in ("\x00", "\x01", "\x7f", "\u200b", "\ufeff", "\x1b", "Z", "T", "0", ".", "d", "e")
    ),
    (" \t", " \n"),
]


def texts() -> list[str]:
    """All texts, some with something around them, and some with one character changed."""
    found = [*NUMBERS, *DATES, *WORDS]
    some = [
        "1",
        "-7",
        "1.5",
        "1e3",
        "INF",
        "true",
        "0",
        "2020-02-29",
        "2020-02-29T24:00:00Z",
        "12.50",
        "a",
        "_:b",
        "<a>",
    ]
    some += ["2020-02-29T01:02:03.5+05:30", "2020-02-29T01:02:03", "2020-02-29T01:02:03Z"]
    found += [before + text + after for text in some for before, after in AROUND]
    rng = random.Random(18)
    alphabet = '0123456789+-.eEdfxXTZ: _/,٣\x00\x7f\xa0<>"n'
    for _ in range(3000):
        text = list(rng.choice(some + NUMBERS + DATES))
        for _ in range(rng.choice((1, 1, 2))):
            place = rng.randrange(len(text) + 1)
            text[place : place + rng.randrange(2)] = rng.choice(alphabet)
        found.append("".join(text))
    return sorted(set(found))


def expected(text: str, of: ColumnType) -> object:
    """Return what tidelog reads, as a column of Spark holds it; None if either does not."""
    try:
        value = conversions.read_typed(text, of)
    except ValueError:
        return None
    return held(value, of)


def held(value: Value, of: ColumnType) -> object:
    match value.kind:
        case Kind.BIG if of is ColumnType.INTEGER:
            return None
        case Kind.DECIMAL | Kind.BIG:
            return exact_number(value) if fits_size(value, of.size or (PRECISION, SCALE)) else None
        case Kind.DATE:
            return value.content if abs(int(value.content)) < 2**31 else None
        case Kind.DATETIME:
            is_local = of is ColumnType.LOCAL_DATETIME
            return value.content if (value.extra is None) == is_local else None
        case Kind.BLANK:
            return f"_:{value.content}"
        case Kind.BOOLEAN:
            return bool(value.content)
    return value.content


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_texts_of_all_types(spark: SparkSession, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from tidelog.spark.reading.source_columns import converted, spark_type_of

    given = texts()
    frame = spark.createDataFrame(pa.table({"text": given}))
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        columns = [converted(F.col("text"), of).cast(spark_type_of(of)).alias(of.value) for of in TYPES]
        found = frame.select("text", *columns).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    wrong = []
    for of in TYPES:
        column = found.column(of.value)
        if of.base is ColumnType.DATETIME:
            column = column.cast(pa.int64())
        if of is ColumnType.DATE:
            column = column.cast(pa.int32())
        for text, value in zip(found.column("text").to_pylist(), column.to_pylist(), strict=True):
            wanted = expected(text, of)
            if wanted != value or (value is None) != (wanted is None):
                wrong.append((of.value, text, wanted, value))
    beyond = [each for each in wrong if each[3] is None and _is_beyond(each[0], each[1])]
    wrong = [each for each in wrong if each not in beyond]
    assert not wrong, f"{len(wrong)}: {wrong[:40]}"


def _is_beyond(of: str, text: str) -> bool:
    """Whether a year has more digits than Spark reads."""
    return of in ("date", "dateTime", "localDateTime") and len(text.strip().lstrip("-").split("-")[0]) > 5
