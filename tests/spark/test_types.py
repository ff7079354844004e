"""The table of types, on classic sessions and Connect: what goes in comes out as it was, embedded alike."""

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
from tidelog.spark.shipping import translated_errors

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
def zone(session: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "spark.sql.session.timeZone"
    before = session.conf.get(name)
    session.conf.set(name, request.param)
    yield str(request.param)
    session.conf.set(name, before or "UTC")


def test_the_table(session: SparkSession, zone: str) -> None:
    """The same schema and the same rows by Spark and by a reasoner, in every time zone of the session."""
    given = [name for name in COLUMNS if name not in DECLARED]
    variables = ", ".join(f"?{name}" for name in given)
    columns = ", ".join(f"{name}: {kind}" for name, kind in DECLARED.items())
    program = f"""
    all({variables}) :- given({variables}) .
    @declare of_size({columns}) . @declare sized({columns}) .
    sized(?money, ?wide) :- of_size(?money, ?wide) .
    """
    frames = {"given": frame_of(session, given), "of_size": frame_of(session, list(DECLARED))}
    derived = ts.derive(program, frames, outputs=["all", "sized"])
    reasoner = tl.Reasoner(program)
    for name, frame in frames.items():
        reasoner.insert(name, frame.toArrow())
    facts = derived.facts.toArrow()
    for name, names in (("all", given), ("sized", list(DECLARED))):
        schema, table = derived[name].schema, with_strings(reasoner[name].to_arrow())
        assert [field.dataType.simpleString() for field in schema] == [COLUMNS[each][1] for each in names]
        assert not any(field.nullable for field in schema)
        assert schema == ts.check(program, frames)[name]
        assert table.schema == pa.schema([(field.name, arrow_of(field.dataType)) for field in schema])
        rows = facts.filter(pc.equal(facts.column("predicate"), name))
        rows = rows.select(list(derived.layout[name].values())).rename_columns(table.column_names)
        found = rows.cast(table.schema).to_pylist()
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


def test_what_is_no_value_is_rejected(session: SparkSession) -> None:
    frame = session.createDataFrame([(1.0, "a"), (float("nan"), "b"), (None, "c")], "x double, y string")
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


def test_terms_of_rdf_are_text(session: SparkSession) -> None:
    """IRIs, blank nodes and texts in a language; a blank node has one name, however often it is derived."""
    frame = session.createDataFrame([("http://e.org/a",), ("_:n1",), ("alice",)], "x string").repartition(3)
    program = '@declare p(x: iri) . q(?x) :- p(?x) . r("chat"@fr) . s(<_:n1>) . t(?x) :- p(?x), s(?x) .'
    for partitions in (1, 2):
        derived = ts.derive(program, {"p": frame}, outputs=["q", "r", "t"], partitions=partitions)
        rows = [(row.predicate, row.string_1) for row in derived.facts.collect()]
        assert {value for _, value in rows} == {"http://e.org/a", "_:n1", "alice", "chat"}
        assert [value for name, value in rows if name == "t"] == ["_:n1"]


def test_integers_beyond_64_bits(session: SparkSession) -> None:
    """They are decimals on Spark; where a column cannot hold a derived one, that is an error."""
    frame = session.createDataFrame([(Decimal(10**37),), (Decimal(2**64),)], "x decimal(38,0)")
    program = "@declare p(x: decimal(38, 0)) . @declare q(x: decimal(38, 0)) . q(?x) :- p(?x) ."
    assert {row.x for row in ts.derive(program, {"p": frame})["q"].collect()} == {10**37, 2**64}
    whole = session.createDataFrame([(1,)], "x bigint")
    with pytest.raises(tl.DataError, match=r"E866.*cannot hold `9223372036854775808`"), translated_errors():
        ts.derive("q(?y) :- p(_), ?y = 9223372036854775808 .", {"p": whole})["q"].collect()


# ---- columns of several types

XSD = "http://www.w3.org/2001/XMLSchema#"
MIXED = f"""
any(1) . any("a") . any(alice) . any(<_:b1>) . any("chat"@fr) . any(2.50) . any(1e3) . any(true) .
any("2020-01-01"^^<{XSD}date>) . any("2020-01-01T00:00:00Z"^^<{XSD}dateTime>) . any("") . any("_:x") .
any("2020-01-01T00:00:00"^^<{XSD}dateTime>) . any("PT5M"^^<{XSD}duration>) . any(-7) .
pair(?x, ?y) :- any(?x), any(?y), ?x < ?y .
some(1, 2.5) . some("b", 1) . one(1) .
none(?x, ?y) :- some(?x, ?y), one(?y), ?y > 1 .
"""


def test_several_types_are_structs_by_choice(session: SparkSession) -> None:
    """The same schemas and rows as embedded, also without rows; and they are read as the same values."""
    derived = ts.derive(MIXED, outputs=["any", "some", "pair", "none"], mixed="struct")
    reasoner = tl.Reasoner(MIXED)
    assert derived["some"].schema.simpleString() == (
        "struct<c1:struct<int:bigint,string:string>,c2:decimal(38,18)>"
    )
    with derived.persist():
        for name, frame in derived.items():
            table = reasoner[name].to_arrow(mixed="struct")
            schema = pa.schema([(field.name, arrow_of(field.dataType)) for field in frame.schema])
            assert table.cast(schema).schema.names == table.schema.names
            assert not any(field.nullable for field in frame.schema)
            found = frame.toArrow().cast(schema).to_pylist()
            assert sorted(map(str, found)) == sorted(map(str, table.cast(schema).to_pylist()))
        counts = derived["any"].selectExpr("count(c1.int)", "count(c1.string)", "sum(c1.int)").collect()
        assert tuple(counts[0]) == (2, 3, -6)
        again = ts.derive("q(?x) :- p(?x) .", {"p": derived["any"]}, mixed="struct")["q"]
        assert again.schema["x"].dataType == derived["any"].schema["c1"].dataType
        rows = sorted(str(row.x) for row in again.collect())
        assert rows == sorted(str(row.c1) for row in derived["any"].collect())
    answers = ts.query(MIXED, "some(?x, _)", mixed="struct")
    assert {tuple(row.x) for row in answers.collect()} == {(1, None), (None, "b")}


@pytest.mark.parametrize("strategy", ["exchange", "joins"])
def test_structs_by_every_strategy(spark: SparkSession, strategy: str) -> None:
    given = ts.derive(MIXED, outputs=["any"], mixed="struct")["any"]
    spark.conf.set("tidelog.strategy", strategy)
    try:
        program = "q(?x) :- p(?x), ~r(?x) . r(1) . r(alice) ."
        found = ts.derive(program, {"p": given}, outputs=["q"], mixed="struct")["q"]
        texts = {str(row.x) for row in found.collect()}
    finally:
        spark.conf.unset("tidelog.strategy")
    everything = [row.c1 for row in given.collect()]
    assert texts == {str(each) for each in everything if each.int != 1 and each.iri != "alice"}


def test_structs_with_no_value_or_several(spark: SparkSession) -> None:
    of = "x struct<int: int, string: string>"
    frame = spark.createDataFrame([((1, None),), ((None, "a"),), ((1, "a"),), ((None, None),), (None,)], of)
    derived = ts.derive("q(?x) :- p(?x) .", {"p": frame}, on_error="collect")
    with derived.persist():
        assert {row.x for row in derived["q"].collect()} == {"1", "a"}
        reasons = sorted(row.reason for row in derived.rejects.collect())
    several = "a struct of several types has exactly one value (column `x`)"
    assert reasons == [several, *["the value is missing (column `x`)"] * 2]
    kept = ts.derive("q(?x) :- p(?x) .", {"p": frame}, on_error="skip", nulls="value", mixed="struct")["q"]
    assert kept.schema.simpleString() == "struct<x:struct<int:bigint,string:string,literal:string>>"
    assert {row.x.literal for row in kept.collect()} == {None, '""^^<tag:tidelog:null>'}
    with pytest.raises(ValueError, match="mixed is one of text, exact, struct"):
        ts.derive("q(?x) :- p(?x) .", {"p": frame}, mixed="json")


# ---- what never matches


def test_what_never_matches_is_told_given_the_types_of_frames(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("C00001", 5)], "c string, n int")
    program, known = "q(?n) :- revenue(_, ?n) .", {"revenue": frame}
    for query, message in (
        ('revenue(_, ?n), ?n > "5"', "int > string"),
        ("revenue(C00001, ?x)", "`C00001` never matches: column 1 of `revenue` holds string"),
        ("revenue(_, ?n), ?y = ?n / 0", "division by zero"),
    ):
        with pytest.warns(tl.ProgramWarning, match=message):
            ts.query(program, query, known)
        rule = f"p(1) :- {query} ."
        with pytest.warns(tl.ProgramWarning, match=message):
            ts.derive(program + rule, known)
        with pytest.warns(tl.ProgramWarning, match=message):
            found = ts.check(program + rule, known)
        (warning,) = [item for item in found.warnings if item.code == "W105"]
        assert warning.span is not None
        assert message.strip("`") in warning.message
