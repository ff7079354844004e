"""Missing values in frames: rejected, dropped or values, and counted, as those of imports are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog as tl
from tidelog import spark as ts
from tidelog.__main__ import main

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN = float("nan")
ROWS = [("a", 1, 0.5), ("b", None, 1.5), (None, 2, 2.5), (None, None, 3.5), ("e", 5, None), ("f", 6, NAN)]
PROGRAM = """
    known(?x, ?y) :- p(?x, ?y, _) .
    same(?x, ?z) :- p(?x, ?y, _), p(?z, ?y, _) .
"""
POLICIES = [
    ("reject", "reject", "reject"),
    ("drop-row", "reject", "drop-row"),
    ("value", "value", "reject"),
    ("drop-row", "value", "drop-row"),
]


@pytest.fixture
def frame(session: SparkSession) -> DataFrame:
    return session.createDataFrame(ROWS, "x string, y int, z double")


@pytest.mark.parametrize("words", POLICIES)
@pytest.mark.parametrize("declared", ["", "@declare p(x: string, y: int, z: double) ."])
def test_the_same_as_an_import(
    frame: DataFrame, words: tuple[str, ...], declared: str, tmp_path: Path
) -> None:
    """Facts, schemas, rejected rows and counts are those of the embedded engine."""
    schema = pa.schema([("x", pa.string()), ("y", pa.int32()), ("z", pa.float64())])
    table = pa.Table.from_pylist([dict(zip("xyz", row, strict=True)) for row in ROWS], schema)
    pq.write_table(table, tmp_path / "p.parquet")
    options = ", ".join(word.replace("-", "_") for word in words)
    imported = f'@import p :- parquet{{ resource = "p.parquet", nulls = ({options}) }} .'
    program = tl.parse(declared + imported + PROGRAM, folder=tmp_path)
    reasoner = tl.Reasoner(program, on_error="skip")
    nulls = {"p": dict(zip("xyz", words, strict=True))}
    derived = ts.derive(declared + PROGRAM, {"p": frame}, nulls=nulls, on_error="collect")
    with derived.persist():
        for name in ("known", "same"):
            expected = reasoner[name].to_arrow()
            found = derived[name].toArrow().cast(expected.schema)
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
        assert derived.rejects.count() == reasoner.faults.skipped
        assert counts_of(derived) == {
            (column, done): rows for (_, column, done), rows in reasoner.faults.nulls.items()
        }


def counts_of(derived: ts.Derived) -> dict[tuple[str, str], int]:
    return {(row["column"], row["nulls"]): row["rows"] for row in derived.nulls.collect()}


@pytest.mark.parametrize("strategy", ["task", "exchange", "joins"])
def test_every_strategy(spark: SparkSession, strategy: str) -> None:
    frame = spark.createDataFrame(ROWS, "x string, y int, z double")
    nulls = {"p": {"x": "value", "y": "drop-row"}}
    spark.conf.set("tidelog.strategy", strategy)
    try:
        partitions = 2 if strategy == "exchange" else None
        derived = ts.derive(PROGRAM, {"p": frame}, nulls=nulls, on_error="collect", partitions=partitions)
        with derived.persist():
            assert {tuple(row) for row in derived["known"].collect()} == {("a", 1), ("", 2)}
            assert counts_of(derived) == {("x", "value"): 1, ("y", "drop-row"): 2, ("z", "reject"): 1}
            assert derived.rejects.count() == 2
            observed = derived.observation.get
            assert (observed["p.x value"], observed["p.y drop-row"], observed["p.z reject"]) == (1, 2, 1)
    finally:
        spark.conf.unset("tidelog.strategy")


def test_missing_values_are_joined_and_told_from_empty_texts(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", None), ("b", None), ("c", "")], "x string, y string")
    program = 'twins(?x, ?z) :- p(?x, ?y), p(?z, ?y), ?x < ?z . plain(?x) :- p(?x, "") .'
    program += ' gone(?x) :- p(?x, ""^^<tag:tidelog:null>) .'
    derived = ts.derive(program, {"p": frame}, nulls="value")
    assert [tuple(row) for row in derived["twins"].collect()] == [("a", "b")]
    assert [tuple(row) for row in derived["plain"].collect()] == [("c",)]
    assert sorted(row.x for row in derived["gone"].collect()) == ["a", "b"]
    answers = ts.query(program, "p(?x, ?y)", {"p": frame}, nulls="drop-row")
    assert [tuple(row) for row in answers.collect()] == [("c", "")]
    explained = ts.explain(program, 'gone("a")', {"p": frame}, nulls="value")
    assert explained.proofs


def test_rows_that_go_around_the_task(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS, "x string, y int, z double")
    program = "@declare p(x: string, y: int, z: double) . @output p ."
    derived = ts.derive(program, {"p": frame}, nulls="drop-row", on_error="collect")
    assert derived["p"].count() == 1
    assert counts_of(derived) == {("x", "drop-row"): 2, ("y", "drop-row"): 1, ("z", "drop-row"): 1}
    assert [row.reason for row in derived.rejects.collect()] == ["the value is missing (column `z`)"]
    kept = ts.derive(program, {"p": frame}, nulls={"p": {"x": "value", "y": "value"}}, on_error="skip")
    assert kept["p"].count() == 4


@pytest.mark.parametrize(
    ("nulls", "message"),
    [
        ({"q": "value"}, "E860.*`nulls` names `q`"),
        ({"p": {"w": "value"}}, "E861.*`nulls` names the column `w`"),
    ],
)
def test_what_is_said_of_no_column(nulls: Any, message: str) -> None:
    schema = ts_schema("x string, y int, z double")
    with pytest.raises(tl.ProgramError, match=message):
        ts.check(PROGRAM, {"p": schema}, nulls=nulls)
    with pytest.raises(ValueError, match="nulls is one of"):
        ts.check(PROGRAM, {"p": schema}, nulls="zero")


def test_check_shows_what_columns_become() -> None:
    schema = ts_schema("x string, y int, z double")
    assert ts.check(PROGRAM, {"p": schema})["known"].simpleString() == "struct<x:string,y:bigint>"
    found = ts.check(PROGRAM, {"p": schema}, nulls={"p": {"y": "value"}})["known"]
    assert found.simpleString() == "struct<x:string,y:string>"


def ts_schema(text: str) -> Any:
    from pyspark.sql import types

    return types.StructType.fromDDL(text)


def test_changes(session: SparkSession, tmp_path: Path) -> None:
    program = "@declare p(x: string, y: int) . q(?x, ?y) :- p(?x, ?y) ."
    first = session.createDataFrame([("a", 1), ("b", None), (None, 3)], "x string, y int")
    with ts.maintain(program, tmp_path / "store", nulls={"p": {"x": "drop-row", "y": "value"}}) as kept:
        changes = kept.apply({"p": first})
        assert changes.nulls == {("p", "x", "drop-row"): 1, ("p", "y", "value"): 1}
        assert changes["q"].schema["y"].dataType.simpleString() == "string"
        assert sorted(tuple(row) for row in kept.frame("q").collect()) == [("a", "1"), ("b", "")]
        assert not kept.replace({"p": first}).delta
        second = session.createDataFrame([("a", 1), ("b", 2)], "x string, y int")
        kept.replace({"p": second})
        assert sorted(tuple(row) for row in kept.frame("q").collect()) == [("a", "1"), ("b", "2")]


def test_changes_of_frames(spark: SparkSession) -> None:
    program = "q(?x) :- p(?x, ?y), ?y > 1 ."
    frame = spark.createDataFrame([("a", 2), ("b", None)], "x string, y int")
    more = spark.createDataFrame([("c", 3), ("d", None)], "x string, y int")
    before = ts.derive(program, {"p": frame}, nulls="drop-row")["q"]
    for nulls in ("drop-row", {"p": {"y": "drop-row"}}):
        for apply in (True, False):
            after = ts.derive(
                program, {"p": frame}, previous={"q": before}, inserted={"p": more}, apply=apply, nulls=nulls
            )
            assert sorted(row.x for row in after["q"].collect()) == ["a", "c"]
            assert [row.x for row in after["q gained"].collect()] == ["c"]
    with pytest.raises(tl.ProgramError, match="E881"):
        ts.derive(program, {"p": frame}, previous={"q": before}, inserted={"p": more}, nulls="value")


@pytest.mark.parametrize("format", ["csv", "parquet", "jsonl"])
def test_imports_on_the_command_line(
    spark: SparkSession, format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run --engine spark` and the embedded engine say and derive the same."""
    path = tmp_path / f"p.{format}"
    table = pa.table({"x": ["a", "b", "c"], "y": pa.array([1, None, 3], pa.int64())})
    if format == "parquet":
        pq.write_table(table, path)
    elif format == "csv":
        path.write_text("x,y\na,1\nb,\nc,3\n")
    else:
        path.write_text('{"x": "a", "y": 1}\n{"x": "b", "y": null}\n{"x": "c", "y": 3}\n')
    for word, rows in (('"drop-row"', 2), ("value", 3)):
        program = tmp_path / "p.rls"
        types = ", format = (string, int), header = true" if format == "csv" else ""
        program.write_text(f"""
            @declare p(x: string, y: int) . q(?x, ?y) :- p(?x, ?y) .
            @import p :- {format}{{ resource = "{path}", nulls = {word}{types} }} .
        """)
        assert main(["run", str(program), "--engine", "spark", "--format", "csv"]) == 0
        found = capsys.readouterr()
        assert main(["run", str(program), "--format", "csv", "--terms", "plain"]) == 0
        embedded = capsys.readouterr()
        assert sorted(found.out.splitlines()) == sorted(embedded.out.splitlines())
        assert len(found.out.splitlines()) == rows + 1
        assert "1 row of" in found.err
        assert "without a value in column `y`" in found.err


def test_predicates_may_have_the_names_of_what_is_no_predicate(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a",), (None,)], "x string")
    program = "rejects(?x) :- p(?x) . errors(?x) :- p(?x) . nulls(?x) :- p(?x) . violations(?x) :- p(?x) ."
    derived = ts.derive(program, {"p": frame}, on_error="collect")
    with derived.persist():
        for name in ("rejects", "errors", "nulls", "violations"):
            assert [tuple(row) for row in derived[name].collect()] == [("a",)]
        assert derived.rejects.count() == 1
        assert derived.observation.get["rejects"] == 1


MISSING = """
    number(?i, ?n) :- given(?i, ?s), ?n = INT(?s) .
    share(?i, 100 / (?n - 7)) :- number(?i, ?n) .
    pair(?i, ?k, INT(?s) + INT(?v)) :- given(?i, ?s), other(?i, ?k, ?v) .
"""


@pytest.mark.parametrize("partitions", [None, 2])
def test_rows_without_a_value_are_counted_over_tasks(spark: SparkSession, partitions: int | None) -> None:
    many = [(f"k{number}", "5") for number in range(20)]
    given = [("a", "12"), ("b", "x"), ("c", "3.5"), ("d", "7"), *many]
    other = [("b", "z", "1"), ("d", "y", "q"), *[(name, "z", "w") for name, _ in many]]
    frames = {
        "given": spark.createDataFrame(given, "i string, s string"),
        "other": spark.createDataFrame(other, "i string, k string, v string"),
    }
    derived = ts.derive(MISSING, frames, partitions=partitions)
    with derived.persist():
        assert derived["number"].count() == 22
        assert derived.observation.has_missing
        assert sorted((row.place, row.function, row.rows) for row in derived.missing.collect()) == [
            ("<text>:2:38", "INT", 2),
            ("<text>:3:5", "/", 1),
            ("<text>:4:5", "INT", 22),
        ]


def test_the_command_line_says_which_rows_have_no_value(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "some.rls"
    program.write_text('given(a, "x") . given(b, "2") .\nnumber(?n) :- given(_, ?s), ?n = INT(?s) .\n')
    assert main(["run", str(program), "--engine", "spark"]) == 0
    message = '`INT` has no value for 1 row, which derives nothing: ?s = "x"'
    assert f"warning[W601]: {message}\n  --> {program}:2:29\n" in capfd.readouterr().err
