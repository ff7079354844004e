"""The format `tidelog`: what is published is read back, its changes are followed, and facts are published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, EqualTo, GreaterThan, IsNull
from pyspark.sql.types import LongType, StringType, StructField, StructType

import tidelog as tl
from pyspark_tidelog import DefaultSource
from tidelog import spark as ts
from tidelog.publish import Published
from tidelog.spark.frames import KEY
from tidelog.spark.shipping import error_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROGRAM = """
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
hops(?x, #count(?y)) :- reach(?x, ?y) .
none(?x) :- edge(?x, "nowhere") .
"""


def rows_of(frame: DataFrame) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in frame.collect()}


def facts(session: SparkSession, *edges: tuple[str, str]) -> DataFrame:
    frame = session.createDataFrame(list(edges), "src string, dst string")
    found: DataFrame = ts.derive(PROGRAM, {"edge": frame}, outputs=["reach", "hops", "none"]).facts
    return found


def read(session: SparkSession, path: Path, predicate: str, **options: Any) -> DataFrame:
    reader = session.read.format("tidelog").options(predicate=predicate, **options)
    found: DataFrame = reader.load(str(path))
    return found


def test_facts_are_published_and_read_back(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "net"
    facts(spark, ("a", "b"), ("b", "c")).write.format("tidelog").mode("overwrite").save(str(path))
    reach = read(spark, path, "reach")
    assert reach.schema.simpleString() == "struct<x:string,y:string>"
    assert rows_of(reach) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert Published(path).read("hops").num_rows == 2 and Published(path).read("none").num_rows == 0


@pytest.mark.slow
def test_facts_are_published_as_versions(session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "net"
    facts(session, ("a", "b"), ("b", "c")).write.format("tidelog").mode("overwrite").save(str(path))
    facts(session, ("b", "c"), ("c", "d")).write.format("tidelog").mode("append").save(str(path))
    reach = read(session, path, "reach")
    assert sorted(map(tuple, reach.collect())) == [
        ("a", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("c", "d")
    ]  # fmt: skip
    assert rows_of(read(session, path, "hops", versionAsOf=1)) == {("a", 2), ("b", 1)}
    assert rows_of(read(session, path, "hops", columns="count_y")) == {(1,), (2,)}
    assert rows_of(read(session, path, "none")) == set()
    changed = read(session, path, "reach", readChangeFeed="true", startingVersion=2)
    assert rows_of(changed) == {("b", "d", "insert", 2), ("c", "d", "insert", 2)}
    one = ts.derive("p(1, 0.25) .", outputs=["p"]).facts
    one.write.format("tidelog").mode("overwrite").save(str(path))
    assert Published(path).numbers() == (1, 2, 3)
    assert [*Published(path).current().tables] == ["p"]


@pytest.mark.slow
def test_changes_are_followed(session: SparkSession, tmp_path: Path) -> None:
    path, seen = tmp_path / "net", tmp_path / "seen"
    schema = pa.schema([("x", pa.string()), ("n", pa.int64())])

    def publish(inserted: dict[str, list[Any]], deleted: dict[str, list[Any]] | None = None) -> None:
        with Published(path).writing() as publication:
            gone = pa.table(deleted, schema=schema) if deleted else None
            publication.change("p", pa.table(inserted, schema=schema), gone)
            publication.commit()

    def follow() -> set[tuple[Any, ...]]:
        stream = session.readStream.format("tidelog").options(predicate="p", readChangeFeed="true", **more)
        query = stream.load(str(path)).writeStream.format("parquet").option("path", str(seen))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        return rows_of(session.read.parquet(str(seen)))

    more: dict[str, Any] = {}
    publish({"x": ["a"], "n": [1]})
    publish({"x": ["b"], "n": [2]}, {"x": ["a"], "n": [1]})
    first = {("b", 2, "insert", 2)}  # what is there when the stream starts
    assert follow() == first
    assert follow() == first
    publish({"x": ["c"], "n": [3]})
    publish({"x": [], "n": []}, {"x": ["b"], "n": [2]})
    assert follow() == first | {("c", 3, "insert", 3), ("b", 2, "delete", 4)}
    seen, more = tmp_path / "again", {"startingVersion": 1}
    (tmp_path / "checkpoint").rename(tmp_path / "other")
    assert follow() == first | {
        ("a", 1, "insert", 1), ("a", 1, "delete", 2), ("c", 3, "insert", 3), ("b", 2, "delete", 4)
    }  # fmt: skip


CONDITIONS = ("x = 'b'", "x > 'a'", "n >= 2 and d > 1", "n in (1, 3)", "x is null", "not (n = 2)", "d > 2")


@pytest.mark.slow
def test_filters_are_pushed_where_they_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"x": ["a", "b", None], "n": [1, 2, 3], "d": [1.5, float("nan"), None]})
    with Published(tmp_path / "net").writing() as publication:
        publication.change("p", table)
        publication.commit()
    plain = read(spark, tmp_path / "net", "p")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, tmp_path / "net", "p", pushFilters="true")
        for condition in CONDITIONS:
            found = frame.where(condition).collect()
            assert str(found) == str(plain.where(condition).collect()), condition
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


# ---- what Spark calls, called here


def batches(source: DataSource) -> list[dict[str, Any]]:
    reader: Any = source.reader(source.schema())  # type: ignore[arg-type]
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def source(path: Path, **options: str) -> DefaultSource:
    return DefaultSource({"path": str(path), **options})


def told(action: Any) -> str:
    with pytest.raises(RuntimeError) as raised:
        action()
    return error_of(raised.value).diagnostics[0].code


def test_only_what_may_pass_is_read(tmp_path: Path) -> None:
    with Published(tmp_path).writing() as publication:
        publication.change("p", pa.table({"x": ["a", "b", None], "n": [1, 2, 3]}))
        publication.commit()
    asked = source(tmp_path, predicate="p", pushFilters="true")
    reader: Any = asked.reader(asked.schema())
    filters = [EqualTo(("x",), "b"), GreaterThan(("n",), 1), IsNull(("x",))]
    assert list(reader.pushFilters(filters)) == filters  # Spark applies all of them again
    (piece,) = reader.partitions()
    assert [batch.to_pylist() for batch in reader.read(piece) if batch.num_rows] == [[{"x": "b", "n": 2}]]


PAIRS = StructType([StructField("x", StringType(), False), StructField("n", LongType(), False)])
LAYOUT = {"p": {"schema": PAIRS.jsonValue(), "columns": ["string_1", "bigint_1"]}}
FACTS = StructType(
    [
        StructField("predicate", StringType(), metadata={KEY: json.dumps(LAYOUT)}),
        StructField("bigint_1", LongType()),
        StructField("string_1", StringType()),
    ]
)


def of_p(*rows: tuple[str, int | None]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([("predicate", pa.string()), ("bigint_1", pa.int64()), ("string_1", pa.string())])
    for text, number in rows:
        columns = {"predicate": ["p"], "bigint_1": [number], "string_1": [text]}
        yield pa.RecordBatch.from_pydict(columns, schema)


@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_tables_of_all_formats_are_written_and_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "net"

    def writer(is_overwriting: bool) -> Any:
        return source(path, tableformat=form).writer(FACTS, is_overwriting)

    first = writer(True)
    first.commit([first.write(of_p(("a", 1))), first.write(of_p(("b", 2), ("c", 3)))])
    more = writer(False)
    more.commit([more.write(of_p(("c", 3), ("d", 4))), more.write(of_p(("a", 1)))])
    read = source(path, predicate="p")
    assert sorted(map(tuple, map(dict.values, batches(read)))) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    feed = source(path, predicate="p", readchangefeed="true", startingversion="2")
    assert batches(feed) == [{"x": "d", "n": 4, "_change_type": "insert", "_commit_version": 2}]
    files = sorted(path.rglob("*.parquet"))
    failed = writer(False)
    failed.write(of_p(("e", 5)))  # by a task of which Spark knows nothing any more
    failed.abort([failed.write(of_p(("f", 6))), None])
    assert sorted(path.rglob("*.parquet")) == files
    assert len(batches(source(path, predicate="p", versionasof="1"))) == 3
    assert told(lambda: failed.write(of_p(("g", 7), ("h", None)))) == "E907"
    assert sorted(path.rglob("*.parquet")) == files


def test_a_version_that_was_committed_keeps_its_files(tmp_path: Path) -> None:
    # Spark aborts a write whose commit failed, even if that was after the version was published.
    one: Any = source(tmp_path).writer(FACTS, True)
    messages = [one.write(of_p(("a", 1)))]
    one.commit(messages)
    one.abort(messages)
    assert batches(source(tmp_path, predicate="p")) == [{"x": "a", "n": 1}]


def test_a_store_is_read(tmp_path: Path) -> None:
    path = tmp_path / "store"
    program = "@declare edge(x: string, n: int) . big(?x) :- edge(?x, ?n), ?n > 1 ."
    with tl.open(path, program) as reasoner:
        reasoner.insert("edge", [("a", 1), ("b", 2)])
    assert batches(source(path, predicate="edge", columns='["n"]')) == [{"n": 1}, {"n": 2}]
    assert batches(source(path, predicate="big")) == [{"x": "b"}]
    assert told(source(path, predicate="big", versionasof="1").schema) == "E891"
    assert told(source(path, predicate="bog").schema) == "E902"


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    assert told(source(tmp_path, predicate="p").schema) == "E901"
    with Published(tmp_path).writing() as publication:
        publication.change("p", pa.table({"x": ["a"], "n": [1]}))
        publication.commit()
    wrong = {
        "E902": [{"predicate": "q"}],
        "E901": [{"predicate": "p", "versionasof": "7"}],
        "E911": [{"predicate": "p", "storage.key": "k"}],
        "E891": [
            {},
            {"predicate": "p", "versionasoff": "1"},
            {"predicate": "p", "versionasof": "one"},
            {"predicate": "p", "columns": "x,z"},
            {"predicate": "p", "readchangefeed": "yes"},
            {"predicate": "p", "startingversion": "1"},
            {"predicate": "p", "readchangefeed": "true", "versionasof": "1"},
        ],
    }
    for code, cases in wrong.items():
        for options in cases:
            assert told(source(tmp_path, **options).schema) == code, options
    whole = source(tmp_path, predicate="p", readchangefeed="true")
    assert told(lambda: whole.reader(whole.schema()).partitions()) == "E891"  # from which version on?
    assert told(lambda: source(tmp_path, predicate="p").streamReader(whole.schema())) == "E891"
    plain = StructType([StructField("predicate", StringType()), StructField("string_1", StringType())])
    assert told(lambda: source(tmp_path).writer(plain, True)) == "E892"


@pytest.mark.slow
def test_a_write_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "net"
    given = facts(spark, ("a", "b"))
    given.write.format("tidelog").mode("append").save(str(path))
    before = sorted(each.name for each in path.rglob("*.parquet"))
    metadata = given.schema["predicate"].metadata
    renamed = F.when(F.col("predicate") == "hops", "hips").otherwise(F.col("predicate"))
    wrong = [
        given.drop("bigint_1"),
        given.withColumnRenamed("string_1", "s"),
        given.withColumn("predicate", renamed.alias("predicate", metadata=metadata)),
    ]
    for frame in wrong:
        with pytest.raises(PySparkException) as raised:
            frame.write.format("tidelog").mode("append").save(str(path))
        assert error_of(raised.value).diagnostics[0].code == "E892"
    assert sorted(each.name for each in path.rglob("*.parquet")) == before
    assert Published(path).numbers() == (1,)
