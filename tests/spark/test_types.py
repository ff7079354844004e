"""The table of types: what goes from Spark's columns to values and back is what it was, embedded alike."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import types

import tidelog as tl
from tidelog import spark as ts
from tidelog.logic.types import Type
from tidelog.spark.schemas import arrow_of, read_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UTC = datetime.UTC
LATE = datetime.datetime(2024, 10, 27, 1, 30, 0, 123456)  # twice in Berlin
# By name: Spark's type, that of the output, and values of two rows.
COLUMNS: dict[str, tuple[str, str, tuple[Any, Any]]] = {
    "truth": ("boolean", "boolean", (True, False)),
    "tiny": ("tinyint", "bigint", (-128, 127)),
    "small": ("smallint", "bigint", (-(2**15), 2**15 - 1)),
    "whole": ("int", "bigint", (-(2**31), 2**31 - 1)),
    "big": ("bigint", "bigint", (-(2**63), 2**63 - 1)),
    "short": ("float", "double", (0.1, -2.25)),
    "long": ("double", "double", (-0.0, 1e300)),
    "exact": ("decimal(38,18)", "decimal(38,18)", (Decimal("0.000000000000000001"), -(Decimal(10) ** 19))),
    "money": ("decimal(12,2)", "decimal(12,2)", (Decimal("9999999999.99"), Decimal("-0.01"))),
    "wide": ("decimal(38,0)", "decimal(38,0)", (Decimal(10**38 - 1), Decimal(-(2**64)))),
    "day": ("date", "date", (datetime.date(1, 1, 1), datetime.date(9999, 12, 31))),
    "moment": ("timestamp", "timestamp", (LATE, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999))),
    "clock": ("timestamp_ntz", "timestamp_ntz", (LATE, datetime.datetime(1, 1, 1))),
    "text": ("string", "string", ("", "_:b\u20ac")),
}
DECLARED = {"money": "decimal(12, 2)", "wide": "decimal(38, 0)"}  # others are taken as Spark has them


@pytest.fixture(params=["UTC", "Europe/Berlin"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, request.param)
    yield str(request.param)
    spark.conf.set(name, before or "UTC")


def test_the_table(spark: SparkSession, zone: str) -> None:
    """The same schema and the same rows by Spark and by a reasoner, in every time zone of the session."""
    given = [name for name in COLUMNS if name not in DECLARED]
    variables = ", ".join(f"?{name}" for name in given)
    columns = ", ".join(f"{name}: {kind}" for name, kind in DECLARED.items())
    program = f"""
    all({variables}) :- given({variables}) .
    @declare of_size({columns}) . @declare sized({columns}) .
    sized(?money, ?wide) :- of_size(?money, ?wide) .
    """
    frames = {"given": frame_of(spark, given), "of_size": frame_of(spark, list(DECLARED))}
    derived = ts.derive(program, frames, outputs=["all", "sized"])
    reasoner = tl.Reasoner(program)
    for name, frame in frames.items():
        reasoner.insert(name, frame.toArrow())
    facts = derived.facts.toArrow()
    for name, names in (("all", given), ("sized", list(DECLARED))):
        schema, table = derived[name].schema, with_strings(reasoner[name].to_arrow())
        assert [field.dataType.simpleString() for field in schema] == [COLUMNS[each][1] for each in names]
        assert table.schema == pa.schema([(field.name, arrow_of(field.dataType)) for field in schema])
        rows = facts.filter(pc.equal(facts.column("predicate"), name)).column(name).combine_chunks()
        found = pa.Table.from_struct_array(rows).cast(table.schema).to_pylist()
        assert in_order(found) == in_order(table.to_pylist())
        if zone == "UTC":
            expected = [as_values(dict(zip(names, row, strict=True))) for row in rows_of(names)]
            assert in_order(found) == in_order(expected)
            assert all(str(row.get("long")) != "-0.0" for row in found)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: next(iter(row.values())))


def rows_of(names: list[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(COLUMNS[name][2] for name in names), strict=True))


def frame_of(spark: SparkSession, names: list[str]) -> DataFrame:
    return spark.createDataFrame(rows_of(names), ", ".join(f"{name} {COLUMNS[name][0]}" for name in names))


def with_strings(table: pa.Table) -> pa.Table:
    """The table with Spark's texts, whose offsets have 32 bits."""
    texts = {pa.large_string(): pa.string()}
    return table.cast(pa.schema([(each.name, texts.get(each.type, each.type)) for each in table.schema]))


def as_values(row: dict[str, Any]) -> dict[str, Any]:
    """The row as values are: moments in UTC, zero without a sign, doubles of 64 bits."""
    if "moment" in row:
        row["moment"], row["long"] = row["moment"].replace(tzinfo=UTC), row["long"] + 0.0
        row["short"] = pa.scalar(row["short"], pa.float32()).cast(pa.float64()).as_py()
    return row


def test_what_is_no_value_is_rejected(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1.0, "a"), (float("nan"), "b"), (None, "c")], "x double, y string")
    derived = ts.derive("q(?x) :- p(?x, _) .", {"p": frame}, on_error="collect")
    with derived.persist():
        assert [tuple(row) for row in derived["q"].collect()] == [(1.0,)]
        assert {row.code for row in derived.rejects.collect()} == {"E504"}


@pytest.mark.parametrize(
    "of", ["binary", "array<int>", "struct<a:int>", "map<string,int>", "interval day", "void"]
)
def test_types_without_values_are_refused(of: str) -> None:
    schema = types.StructType.fromDDL(f"x {of}")
    with pytest.raises(tl.ProgramError, match=r"E862.*column `x` is of the type") as error:
        ts.check("q(?x) :- p(?x) .", {"p": schema})
    assert error.value.diagnostics[0].help


def test_texts_of_a_length_are_strings() -> None:
    assert read_type(types.CharType(3)) is read_type(types.VarcharType(3)) is Type.STRING


def test_terms_of_rdf_are_text(spark: SparkSession) -> None:
    """IRIs, blank nodes and texts in a language; a blank node has one name, however often it is derived."""
    frame = spark.createDataFrame([("http://e.org/a",), ("_:n1",), ("alice",)], "x string").repartition(3)
    program = '@declare p(x: iri) . q(?x) :- p(?x) . r("chat"@fr) . s(<_:n1>) . t(?x) :- p(?x), s(?x) .'
    derived = ts.derive(program, {"p": frame}, outputs=["q", "r", "t"])
    for _ in range(2):
        rows = [tuple(row) for row in derived.facts.select("q.x", "r.c1", "t.x").collect()]
        found = {value for row in rows for value in row if value is not None}
        assert found == {"http://e.org/a", "_:n1", "alice", "chat"}
        assert [row[2] for row in rows if row[2]] == ["_:n1"]
