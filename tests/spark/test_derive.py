"""Programs as functions of frames: they derive what a reasoner derives, typed before anything runs."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog as tl
from tidelog import spark as ts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLIGHTS = """
reach(?x, ?y) :- flight(?x, ?y, _) .
reach(?x, ?z) :- reach(?x, ?y), flight(?y, ?z, _) .
hops(?x, #count(?y), #sum(?km)) :- flight(?x, ?y, ?km) .
far() :- hops(_, _, ?km), ?km > 6 .
kind("jet", 1.5) .
"""


@pytest.fixture
def flights(spark: SparkSession) -> DataFrame:
    rows = [("a", "b", 5), ("b", "c", 7), ("c", "d", 1)]
    return spark.createDataFrame(rows, "src string, dst string, km int")


def rows_of(frame: DataFrame) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in frame.collect()}


def test_frames_go_in_and_out(flights: DataFrame) -> None:
    derived = ts.derive(FLIGHTS, {"flight": flights}, outputs=["reach", "hops", "far", "kind"])
    assert list(derived) == ["reach", "hops", "far", "kind"]
    assert derived["reach"].schema.simpleString() == "struct<x:string,y:string>"
    assert derived["kind"].schema.simpleString() == "struct<c1:string,c2:decimal(38,18)>"
    assert rows_of(derived["hops"]) == {("a", 1, 5), ("b", 1, 7), ("c", 1, 1)}
    assert rows_of(derived["far"]) == {(True,)}
    assert rows_of(derived["kind"]) == {("jet", Decimal("1.5"))}
    assert derived.observation.get == {
        "reach": 6, "hops": 3, "far": 1, "kind": 1, "rejects": 0, "violations": 0
    }  # fmt: skip
    assert derived.facts.columns == ["predicate", "reach", "hops", "far", "kind"]
    facts = derived.facts.where("predicate = 'hops'").select("hops.*")
    assert rows_of(facts) == rows_of(derived["hops"])


def test_one_query_over_two_outputs_evaluates_the_program_once(flights: DataFrame, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    seen = tmp_path / "seen"
    looked = F.udf(lambda km: (seen.open("a").write("."), km)[1], "int")
    counted = flights.select("src", "dst", looked("km").alias("km"))
    derived = ts.derive(FLIGHTS, {"flight": counted}, outputs=["reach", "hops"])
    both = derived["reach"].join(derived["hops"], "x")
    assert both.count() == 6
    assert len(seen.read_text()) == 3
    with derived.persist() as kept:
        assert kept["reach"].count() == 6 and kept["hops"].count() == 3
    assert len(seen.read_text()) == 6


def test_a_transformation_and_a_check(flights: DataFrame) -> None:
    assert rows_of(flights.transform(ts.rules(FLIGHTS, "far"))) == {(True,)}
    schemas = ts.check(FLIGHTS, {"flight": flights.schema}, outputs=["hops"])
    assert schemas["hops"].simpleString() == "struct<x:string,count_y:bigint,sum_km:bigint>"


def test_columns_are_taken_by_name_and_converted_as_declared(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(7, "x", "2.50"), (8, "y", "1")], "id long, who string, price string")
    program = "@declare sale(who: iri, price: decimal) . p(?w, ?d) :- sale(?w, ?d) ."
    derived = ts.derive(program, {"sale": frame})
    assert derived["p"].schema.simpleString() == "struct<w:string,d:decimal(38,18)>"
    assert rows_of(derived["p"]) == {("x", Decimal("2.5")), ("y", Decimal(1))}


VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [1, -128],
    "smallint": [1, -32768],
    "int": [1, -(2**31)],
    "bigint": [1, 2**63 - 1],
    "decimal(20,4)": [Decimal("1.5000"), Decimal("-1234567890123456.7891")],
    "double": [1.5, -1e300],
    "float": [1.5, -2.25],
    "date": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
    "timestamp": [datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)],
    "timestamp_ntz": [datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)],
    "string": ["", "5", "alice", "_:b", 'say "hi"', "ü€😀", "true"],
}
OUT = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}


@pytest.mark.parametrize("of", VALUES)
def test_values_pass_through_unchanged(spark: SparkSession, of: str) -> None:
    frame = spark.createDataFrame([(value,) for value in VALUES[of]], f"x {of}")
    derived = ts.derive("q(?x) :- p(?x) .", {"p": frame})["q"]
    wanted = "decimal(38,18)" if of.startswith("decimal") else OUT.get(of, of)
    assert derived.schema.simpleString() == f"struct<x:{wanted}>"
    assert rows_of(derived) == {(value,) for value in VALUES[of]}
    empty = ts.derive("q(?x) :- p(?x) .", {"p": frame.limit(0)})["q"]
    assert empty.schema == derived.schema and not empty.collect()


def test_what_is_wrong_with_inputs_is_told_at_once(spark: SparkSession, flights: DataFrame) -> None:
    nested = spark.createDataFrame([(1, [2], b"x")], "a int, b array<int>, c binary")
    program = "p(?a) :- q(?a, ?b, ?c), flight(?a, _) ."
    with pytest.raises(tl.ProgramError) as error:
        ts.derive(program, {"q": nested, "flight": flights, "nothing": flights})
    codes = [item.code for item in error.value.diagnostics]
    assert codes == ["E862", "E862", "E861", "E860"]
    for text, code in (
        ('@import p :- csv{resource="p.csv", format=(int)} . q(?x) :- p(?x) .', "E864"),
        ("q(?x) :- diamondminus[0, 1] p(?x) .", "E865"),
    ):
        with pytest.raises(tl.ProgramError, match=code):
            ts.derive(text, {})
    with pytest.raises(tl.ProgramError, match="E860"):
        ts.derive(FLIGHTS, {"flight": flights}, outputs=["raech"])
    stream = spark.readStream.format("rate").load()
    with pytest.raises(tl.ProgramError, match="E863"):
        ts.derive("p(?a, ?b) :- s(?a, ?b) .", {"s": stream})


def test_rows_that_cannot_be_read_are_an_error_or_rejected(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("5",), ("x",), (None,)], "n string")
    program = "@declare p(n: int) . q(?n + 1) :- p(?n) ."
    derived = ts.derive(program, {"p": frame}, on_error="collect")
    assert rows_of(derived["q"]) == {(6,)}
    assert {row.code for row in derived.rejects.collect()} == {"E504"}
    with pytest.raises(Exception, match="E504"):
        ts.derive(program, {"p": frame})["q"].collect()


def test_derived_values_that_do_not_fit_are_an_error(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,)], "n int")
    program = "@declare q(n: string) . q(?n) :- p(?n) ."
    with pytest.raises(Exception, match="E866"):
        ts.derive(program, {"p": frame})["q"].collect()
    decimals = "q(?n / 3.0 / 10000000000.0 / 10000000000.0) :- p(?n) ."
    with pytest.raises(Exception, match="E866"):
        ts.derive(decimals, {"p": frame})["q"].collect()


def test_constraints_fail_or_are_kept(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,), (-1,)], "n int")
    program = "q(?n) :- p(?n) . bottom() :- p(?n), ?n < 0 ."
    with pytest.raises(Exception, match="E601"):
        ts.derive(program, {"p": frame})["q"].collect()
    derived = ts.derive(program, {"p": frame}, on_violation="keep")
    assert rows_of(derived["q"]) == {(1,), (-1,)}
    assert [row.code for row in derived.violations.collect()] == ["E601"]
