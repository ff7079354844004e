"""Programs kept right while frames change: by calls and by streams, on classic sessions and Connect."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog as tl
from tidelog import spark as ts
from tidelog.errors import Stopped
from tidelog.reasoner.storing import open_store
from tidelog.spark.table_changes import discard, is_open, open_or_reuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RULES = """
reach(?x, ?y) :- flight(?x, ?y, _) .
reach(?x, ?z) :- reach(?x, ?y), flight(?y, ?z, _) .
hops(?x, #count(?y)) :- reach(?x, ?y) .
"""
FLIGHT = "src string, dst string, km int"
DECLARED = "@declare flight(src: string, dst: string, km: int) ." + RULES
Make = Callable[..., ts.Maintained]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """What maintains the flights in a store, which is closed after the test."""
    made: list[ts.Maintained] = []

    def maintain(program: str = DECLARED, *arguments: Any, **settings: Any) -> ts.Maintained:
        made.append(ts.maintain(program, tmp_path / "store", *arguments, threads=1, **settings))
        return made[-1]

    yield maintain
    for each in made:
        each.close()


def flights(session: SparkSession, *rows: tuple[Any, ...], schema: str = FLIGHT) -> DataFrame:
    return session.createDataFrame(list(rows), schema)


def rows_of(frame: DataFrame) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in frame.collect()}


def test_changes_come_and_frames_go_out(session: SparkSession, make: Make) -> None:
    published: dict[int | None, set[tuple[Any, ...]]] = {}
    maintained = make(
        RULES,
        {"flight": FLIGHT},
        on_change=lambda changes, batch_id: published.update({batch_id: rows_of(changes["reach"])}),
    )
    first = maintained.apply({"flight": flights(session, ("a", "b", 1), ("b", "c", 2))})
    assert list(first) == ["flight", "reach", "hops"]
    assert first["reach"].schema.simpleString() == "struct<x:string,y:string,_change_type:string>"
    assert first["hops"].schema.fields[1].dataType.simpleString() == "bigint"
    assert rows_of(first["flight"]) == {("a", "b", 1, "insert"), ("b", "c", 2, "insert")}
    gone = flights(session, ("a", "b", 1), ("x", "y", 9))
    second = maintained.apply(deleted={"flight": gone}, batch_id=1)
    assert rows_of(second["reach"]) == {("a", "b", "delete"), ("a", "c", "delete")} == published[1]
    assert [item.code for item in second.notices] == ["E630"]
    assert rows_of(maintained.frame("reach")) == {("b", "c")}
    again = maintained.apply(deleted={"flight": gone}, batch_id=1)
    assert again.is_repeated and not again and not rows_of(again["reach"])
    with pytest.raises(tl.DataError, match="E839"):
        maintained.apply(deleted={"flight": gone}, batch_id=0)
    maintained.close()
    assert rows_of(maintained.frame("hops")) == {("b", 1)}  # read without the right to write
    with tl.open(maintained.path) as reasoner:
        assert reasoner.batches["stream"].number == 1


def test_what_cannot_be_published_is_not_committed(spark: SparkSession, make: Make) -> None:
    def publish(changes: ts.Changes, batch_id: int | None) -> None:
        if batch_id == 1:
            raise ConnectionError("no room")

    maintained = make(on_change=publish)
    maintained.apply({"flight": flights(spark, ("a", "b", 1))}, batch_id=0)
    derived = maintained.reasoner.statistics.derived
    with pytest.raises(ConnectionError, match="no room"):
        maintained.apply({"flight": flights(spark, ("b", "c", 1))}, batch_id=1)
    assert rows_of(maintained.frame("reach")) == {("a", "b")}
    assert maintained.reasoner.statistics.derived == derived
    maintained.on_change = None
    assert not maintained.apply({"flight": flights(spark, ("b", "c", 1))}, batch_id=1).is_repeated


def test_rows_say_what_becomes_of_them(spark: SparkSession, make: Make) -> None:
    maintained = make()
    added = "_change_type string, _commit_version long, _commit_timestamp timestamp"
    feed = flights(
        spark,
        ("a", "b", 1, "insert", 1, None),
        ("b", "c", 1, "insert", 1, None),
        ("b", "c", 1, "update_preimage", 2, None),
        ("b", "c", 2, "update_postimage", 2, None),
        ("c", "d", 1, "insert", 1, None),
        ("c", "d", 1, "delete", 3, None),
        schema=f"{FLIGHT}, {added}",
    )
    maintained.apply(changes={"flight": feed})
    assert rows_of(maintained.frame("flight")) == {("a", "b", 1), ("b", "c", 2)}
    signs = flights(spark, ("a", "b", 1, "-"), ("c", "d", 1, "+"), schema=FLIGHT + ", op string")
    maintained.apply(changes={"flight": signs})
    assert rows_of(maintained.frame("flight")) == {("b", "c", 2), ("c", "d", 1)}
    named = make(op="what", order="at")
    said = FLIGHT + ", what string, at timestamp_ntz"
    moment = datetime.datetime(2024, 1, 1)
    rows = [("b", "c", 2, "insert", moment), ("b", "c", 2, "delete", moment.replace(year=2025))]
    named.apply(changes={"flight": flights(spark, *rows, schema=said)})
    assert rows_of(named.frame("flight")) == {("c", "d", 1)}


def test_bad_rows_fail_or_are_collected(session: SparkSession, make: Make) -> None:
    bad = flights(session, ("a", "b", "x", "+"), ("b", "c", "2", "+"), ("c", "d", "3", "?"),
                  schema="src string, dst string, km string, op string")  # fmt: skip
    with pytest.raises(tl.DataError, match=r"E877[\s\S]*E504"):
        make().apply(changes={"flight": bad})
    changes = make(on_error="collect").apply(changes={"flight": bad})
    assert {(row.code, row.place, row.row) for row in changes.rejects.collect()} == {
        ("E504", "`flight`", '["a", "b", "x"]'),
        ("E877", "`flight`", '["c", "d", "3", "?"]'),
    }
    assert rows_of(changes["reach"]) == {("b", "c", "insert")}
    with pytest.raises(ValueError, match="on_change"):
        make(on_error="collect")(bad, 1)


def test_many_rows_come_piece_by_piece(session: SparkSession, make: Make) -> None:
    maintained = make("@declare edge(x: int, y: int) . loop(?x) :- edge(?x, ?x) .", rows_at_once=100)
    many = session.range(5000).selectExpr("id as x", "if(id % 1000 = 0, id, id + 1) as y").repartition(3)
    changes = maintained.apply({"edge": many})
    assert len(changes.delta["edge"].added) == 5000 if changes.delta is not None else False
    assert rows_of(maintained.frame("loop")) == {(0,), (1000,), (2000,), (3000,), (4000,)}


# ---- whole tables


def test_tables_are_compared_on_spark(session: SparkSession) -> None:
    schema = "a int, b double, c string"
    nan = float("nan")
    old = session.createDataFrame([(1, nan, None), (1, nan, None), (2, 0.0, "x"), (3, 1.0, "y")], schema)
    new = session.createDataFrame([(1, nan, None), (2, -0.0, "x"), (4, 1.0, "y"), (4, 1.0, "y")], schema)
    compared = ts.differences(old, new.select("c", "b", "a"))
    assert rows_of(compared) == {(4, 1.0, "y", "insert"), (3, 1.0, "y", "delete")}
    assert compared.count() == 2
    with pytest.raises(tl.ProgramError, match=r"E878[\s\S]*`c`, `d`"):
        ts.differences(old, new.withColumnRenamed("c", "d"))
    with pytest.raises(tl.ProgramError, match="E878"):
        ts.differences(old, new.withColumn("a", new.a.cast("long")))


def test_tables_are_replaced_by_their_differences(session: SparkSession, make: Make) -> None:
    maintained = make()
    monday = flights(session, ("a", "b", 1), ("b", "c", 2))
    tuesday = flights(session, ("b", "c", 2), ("c", "d", 3), ("c", "d", 3))
    maintained.replace({"flight": monday})
    changes = maintained.replace({"flight": tuesday}, {"flight": monday})
    assert rows_of(changes["flight"]) == {("a", "b", 1, "delete"), ("c", "d", 3, "insert")}
    assert not maintained.replace({"flight": tuesday})
    assert rows_of(maintained.replace({"flight": monday})["flight"]) == {
        ("a", "b", 1, "insert"),
        ("c", "d", 3, "delete"),
    }


PROGRAM_OF_KINDS = "@declare p(a: iri, b: any, c: decimal, d: double) . q(?a) :- p(?a, _, _, _) ."


def test_tables_are_compared_with_what_the_store_holds(spark: SparkSession, make: Make) -> None:
    """Whatever the columns are declared to be, and whatever else came to the store."""
    maintained = make(PROGRAM_OF_KINDS)
    rows = [
        ("x", "5", Decimal("1.50"), 1),
        ("y", "z", Decimal("-2.00"), 2**53 + 1),
        ("007", "", Decimal(0), 0),
    ]
    table = flights(spark, *rows, schema="a string, b string, c decimal(9,2), d bigint")
    maintained.replace({"p": table})
    assert len(maintained.reasoner["p"]) == 3
    assert not maintained.replace({"p": table})
    with maintained.reasoner.change() as change:
        change.add("p(<x>, 5, 1.5, 1e0) . p(<x>, <5>, 0.1234567890123456789, 1e0) .")
    maintained.replace({"p": table})
    assert len(maintained.reasoner["p"]) == 3
    numbers = flights(spark, ("x", 5, Decimal("1.5"), 1.0), schema="a string, b int, c decimal(9,2), d float")
    maintained.replace({"p": numbers})
    assert maintained.reasoner["p"].to_texts("exact").rows() == [("x", "5", "1.5", "1.0E0")]
    assert not maintained.replace({"p": numbers})


# ---- what is refused


def test_what_is_wrong_is_said_before_anything_changes(spark: SparkSession, make: Make) -> None:
    with pytest.raises(tl.ProgramError, match="E621"):
        make(predicate="fligth")
    with pytest.raises(tl.ProgramError, match="E864"):
        make('@import p :- csv{resource="p.csv", format=(int)} . q(?x) :- p(?x) .')
    with pytest.raises(tl.ProgramError, match="E861"):
        make(RULES, {"flight": "src string"})
    with pytest.raises(ValueError, match="not both"):
        make(predicate="flight", predicates={})
    with pytest.raises(tl.DataError, match="E875"):
        ts.maintain(RULES, "s3://bucket/net")
    with pytest.raises(tl.ProgramError, match="E880"):
        make("q(?x) :- diamondminus[0, 1] p(?x) .")
    with pytest.raises(tl.ProgramError, match="E880"):
        make().apply({"flight": flights(spark, ("a", "b", 1, 2, 3), schema=FLIGHT + ", start int, end int")})
    with pytest.raises(tl.ProgramError, match=r"E860[\s\S]*predicate="):
        make("@declare a(x: int) . @declare b(x: int) . c(?x) :- a(?x), b(?x) .")(spark.range(1), 0)
    untyped = make(RULES)
    with pytest.raises(tl.ProgramError, match=r"E876[\s\S]*flight\(src: string, dst: string, km: int\)"):
        untyped.apply({"flight": flights(spark, ("a", "b", 1))})
    other = make(RULES, {"flight": FLIGHT})
    with pytest.raises(tl.ProgramError, match="E861"):
        other.apply({"flight": flights(spark, ("a", "b", "1"), schema="src string, dst string, km string")})
    with pytest.raises(tl.ProgramError, match="E861"):
        make(op="what").apply(changes={"flight": flights(spark, ("a", "b", 1))})
    with pytest.raises(tl.ProgramError, match="E862"):
        make(order="src").apply(changes={"flight": flights(spark, ("a", "b", 1))})
    with pytest.raises(tl.ProgramError, match="E863"):
        make().apply({"flight": spark.readStream.format("rate").load()})
    assert not other.path.exists()


# ---- streams


class Stream:
    """A folder that files of JSON come to, and the query that reads them."""

    def __init__(self, session: SparkSession, folder: Path, schema: str) -> None:
        self.session, self.schema = session, schema
        self.files, self.checkpoint = folder / "files", folder / "checkpoint"
        self.files.mkdir()
        self.count = 0

    def write(self, *rows: dict[str, Any]) -> None:
        """Let a file be there, which becomes a batch."""
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        path = self.files / f"{self.count:03}.json"
        path.write_text(text)
        os.utime(path, (1e9 + self.count, 1e9 + self.count))  # Spark takes files in the order of their times
        self.count += 1

    def run(self, maintained: ts.Maintained) -> object:
        """Take all files that are there."""
        source = self.session.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        writer = source.json(str(self.files)).writeStream.foreachBatch(maintained)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        for _ in range(9):
            try:
                return writer.start().awaitTermination()
            except Exception as error:
                if "failed to connect back" not in str(error):
                    raise
        raise TimeoutError("Spark gives its worker ten seconds to start, and it took longer every time")

    def forget_last(self) -> None:
        """Let it be as if the process had ended before Spark noted that the last batch was done."""
        commits = sorted((self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        commits[-1].unlink()
        (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)


def flight(src: str, dst: str, op: str = "+") -> dict[str, Any]:
    return {"src": src, "dst": dst, "km": 1, "op": op}


# On Connect Spark gives the worker of a stream ten seconds to start, which a busy machine may not keep to.
@pytest.mark.parametrize("session", ["spark", pytest.param("connect", marks=pytest.mark.slow)], indirect=True)
def test_a_stream_is_applied_batch_by_batch_exactly_once(
    session: SparkSession, make: Make, tmp_path: Path
) -> None:
    published = tmp_path / "published"
    published.mkdir()

    def publish(changes: ts.Changes, batch_id: int | None) -> None:
        rows = sorted(map(str, rows_of(changes["reach"])))
        with (published / str(batch_id)).open("a") as file:
            file.write("\n".join(rows) + ".\n")

    stream = Stream(session, tmp_path, FLIGHT + ", op string")
    maintained = make(predicate="flight", on_change=publish)
    stream.write(flight("a", "b"), flight("b", "c"))
    stream.write(flight("b", "c", "-"), flight("b", "d"))
    stream.run(maintained)
    assert rows_of(maintained.frame("reach")) == {("a", "b"), ("b", "d"), ("a", "d")}
    stream.forget_last()
    stream.write(flight("d", "e"))
    stream.run(maintained)
    assert rows_of(maintained.frame("hops")) == {("a", 3), ("b", 2), ("d", 1)}
    assert [path.read_text().count(".") for path in sorted(published.iterdir())] == [1, 1, 1]
    assert "('b', 'c', 'delete')" in (published / "1").read_text()
    maintained.close()
    with tl.open(maintained.path, read_only=True) as reasoner:
        assert reasoner.commits == 3 and reasoner.batches["stream"].number == 2


def test_a_stream_of_several_predicates(spark: SparkSession, make: Make, tmp_path: Path) -> None:
    text = "@declare flight(src: string, dst: string) . @declare hub(name: string) . "
    maintained = make(
        text + "via(?x, ?z) :- flight(?x, ?y), hub(?y), flight(?y, ?z) .",
        predicates={
            "flight": lambda batch: batch.where("kind = 'flight'").select("src", "dst"),
            "hub": lambda batch: batch.where("kind = 'hub'").selectExpr("src as name", "'+' as op"),
        },
    )
    stream = Stream(spark, tmp_path, "kind string, src string, dst string")
    stream.write({"kind": "flight", "src": "a", "dst": "b"}, {"kind": "hub", "src": "b"})
    stream.write({"kind": "flight", "src": "b", "dst": "c"})
    stream.run(maintained)
    assert rows_of(maintained.frame("via")) == {("a", "c")}


def test_a_stream_that_begins_anew_needs_an_application_of_its_own(
    spark: SparkSession, make: Make, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, FLIGHT + ", op string")
    stream.write(flight("a", "b"))
    maintained = make()
    stream.run(maintained)
    stream.checkpoint = tmp_path / "another"
    with pytest.raises(Exception, match="E839"):  # the same number, of another stream
        stream.run(maintained)
    stream.checkpoint = tmp_path / "third"
    stream.run(make(app_id="third"))
    assert maintained.reasoner.batches.keys() == {"stream", "third"}


def test_a_store_that_does_not_fit_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    facts = "edge(1, 2) . edge(2, 3) ."
    program = tl.parse("@declare edge(x: int, y: int) . reach(?x, ?y) :- edge(?x, ?y) ." + facts)
    open_store(tmp_path / "store", program).close()
    with pytest.raises(Stopped, match="has 4 facts, and takes about 0 MB in this process") as raised:
        open_or_reuse(tmp_path / "store", program, {"max_memory": 4 * (64 + 2 * 40) - 1})
    assert raised.value.exit_code == 4 and not is_open(tmp_path / "store")
    assert open_or_reuse(tmp_path / "store", program, {"max_memory": 4 * (64 + 2 * 40)}).reasoner["reach"]
    discard(tmp_path / "store")
