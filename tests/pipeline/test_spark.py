"""On Spark: files read in pieces mean what they mean in process; tables, queries and DataFrames; sinks."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.pipeline.conftest import Write
from tidelog.errors import DataError
from tidelog.pipeline import Engine, Job, Sink, Source, read
from tidelog.pipeline.manifest import Input, Manifest

ON_SPARK = Engine("columnar", reader="spark")
RULES = "@declare p(name: any, size: int) .\nq(?x) :- p(?x, _) .\n"
TRIPLES = "q(?x) :- triple(?x, _, _) .\n"

FILES = {
    "csv": 'alice,1\nb c,2\n,3\nx,y\n007,4\n"quo""ted",5\none\n',
    "plain.csv": "".join(f"n{i},{i}\n" for i in range(300)) + "bad,x\n" + "1.50,7\n",
    "tsv": "alice\t1\nb\tc\n",
    "jsonl": '{"name": "a b", "size": 1}\n{"name": 5, "size": 2}\nnot json\n{"size": 3}\n'
    '{"name": 1.5, "size": 4}\n',
    "json": '[{"name": "a", "size": 1}, {"name": true, "size": 2}]',
}
STATEMENTS = (
    "<http://e/s> <http://e/p> <alice> .\n"
    '<http://e/s>  <http://e/p>\t"1"^^<http://www.w3.org/2001/XMLSchema#integer> . # odd spaces\n'
    "# a comment\n\n"
    '_:b <http://e/p> "caf\\u00E9"@fr .\n'
    "<http://e/s> <http://e/p> .\n"
    '<http://e/s> <http://e/p> "\\uD800" .\n'
) * 60


def rejected(job: Job, version: Manifest) -> list[list[str]]:
    given: Input
    (given,) = version.inputs.values()
    if given.rejects is None:
        return []
    with (job.store.path / given.rejects).open(newline="", encoding="utf-8") as stream:
        return sorted(csv.reader(stream))


def both(source: Source, rules: str, spark: Any) -> tuple[Job, Manifest, Job, Manifest]:
    """The same job, read in process and on Spark."""
    here = Job(tl.parse(rules), publish="here", sources=[source], engine="columnar")
    there = Job(tl.parse(rules), publish="there", sources=[source], engine=ON_SPARK, session=spark)
    return here, here.run().version, there, there.run().version


@pytest.mark.parametrize("name", [*FILES, "nt", "nq", "ttl", "parquet"])
def test_files_mean_the_same(name: str, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.pipeline.pieces.LEAST_BYTES", 300)
    monkeypatch.setattr("tidelog.pipeline.pieces.PIECES_PER_CORE", 9)
    path = f"data.{name}"
    rules, predicate = RULES, "p"
    if name == "parquet":
        pq.write_table(pa.table({"size": [1, None, 3], "name": ["a b", "c", None]}), path)
    elif name in FILES:
        Path(path).write_text(FILES[name], encoding="utf-8")
    else:
        rules, predicate = TRIPLES, "triple"
        Path(path).write_text("@prefix e: <http://e/> . e:s e:p 1, 2.5 ." if name == "ttl" else STATEMENTS)
    here, one, there, other = both(Source(predicate, path, header=False), rules, spark)
    assert read("here")[predicate] == read("there")[predicate]
    assert len(read("here")[predicate]) > 0
    first, second = next(iter(one.inputs.values())), next(iter(other.inputs.values()))
    assert (first.rows, first.rejected) == (second.rows, second.rejected)
    assert rejected(here, one) == rejected(there, other)


def test_a_header_serves_all_pieces(spark: Any, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.pipeline.pieces.LEAST_BYTES", 64)
    write("data.csv", "size,other,name\n" + "".join(f"{i},x,n{i}\n" for i in range(99)) + "x,x,x\n")
    source = Source("p", "data.csv", header=True, filter="?size < 50")
    here, one, there, other = both(source, RULES, spark)
    assert len(read("there")["p"]) == 50 and read("here")["p"] == read("there")["p"]
    assert rejected(here, one) == rejected(there, other) and len(rejected(there, other)) == 2


def test_tables_frames_and_databases(spark: Any, write: Write, folder: Path) -> None:
    frame = spark.createDataFrame([("a b", 1), ("c", 2), (None, 3)], "name string, size int")
    frame.createOrReplaceTempView("people")
    sources = [Source("p", format="table", table="people", filter="?size < 9")]
    job = Job(tl.parse(RULES), publish="out", sources=sources, session=spark)
    version = job.run().version
    assert set(read("out")["p"]) == {("a b", 1), ("c", 2)}
    assert version.rejected == 1 and not job.run().is_new
    spark.createDataFrame([("d", 1)], "name string, size int").createOrReplaceTempView("people")
    assert str(job.run().delta) == "+2 −4"
    spark.createDataFrame([("d", 1)], "name string, age int").createOrReplaceTempView("people")
    with pytest.raises(DataError, match="E807"):
        job.run()
    given = Job(tl.parse(RULES), publish="given", sources=[Source("p", frame=frame)], session=spark)
    assert given.run().version.tables["p"].rows == 2
    wanting = Source("p", format="jdbc", url="jdbc:nosuch:x", table="people", driver="no.such.Driver")
    with pytest.raises(DataError, match=r"spark\.jars"):
        Job(tl.parse(RULES), publish="jdbc", sources=[wanting], session=spark).run()


def test_sinks_on_spark(spark: Any, write: Write) -> None:
    write("p.csv", "a,1\nb,2\n")
    sinks = [
        Sink("p", format="table", table="p_facts"),
        Sink("p", format="table", table="p_changes", what="changes"),
    ]
    job = Job(tl.parse(RULES), publish="out", sources=[Source("p", "p.csv")], sinks=sinks, session=spark)
    spark.sql("drop table if exists p_facts")
    spark.sql("drop table if exists p_changes")
    job.run()
    write("p.csv", "a,1\nc,3\n")
    job.run()
    assert {tuple(row) for row in spark.table("p_facts").collect()} == {("a", 1), ("c", 3)}
    changes = sorted(tuple(row) for row in spark.table("p_changes").collect())
    assert changes == [(1, "+", "a", 1), (1, "+", "b", 2), (2, "+", "c", 3), (2, "-", "b", 2)]


def test_a_database_is_source_and_sink(spark: Any, folder: Path) -> None:
    driver = "org.apache.derby.jdbc.EmbeddedDriver"
    spark.sparkContext._jvm.System.setProperty("derby.stream.error.file", f"{folder}/derby.log")
    url = f"jdbc:derby:{folder}/database;create=true"
    people = spark.createDataFrame([("ann", 30), ("bo", 7)], "name string, size int")
    people.write.jdbc(url, "people", properties={"driver": driver})
    source = Source("p", format="jdbc", url=url, table="people", driver=driver)
    asked = Source("p", format="jdbc", url=url, query='select * from people where "size" > 9', driver=driver)
    sinks = [
        Sink("q", format="jdbc", url=url, table="q_facts", driver=driver),
        Sink("q", format="jdbc", url=url, table="q_changes", what="changes", driver=driver),
    ]
    job = Job(tl.parse(RULES), publish="out", sources=[source], sinks=sinks, session=spark)
    job.run()
    assert set(read("out")["q"]) == {("ann",), ("bo",)}
    more = spark.createDataFrame([("cy", 1)], "name string, size int")
    more.write.jdbc(url, "people", mode="append", properties={"driver": driver})
    job.run()
    rows = spark.read.jdbc(url, "q_facts", properties={"driver": driver}).collect()
    assert {tuple(row) for row in rows} == {("ann",), ("bo",), ("cy",)}
    changes = spark.read.jdbc(url, "q_changes", properties={"driver": driver}).collect()
    assert sorted(tuple(row) for row in changes) == [(1, "+", "ann"), (1, "+", "bo"), (2, "+", "cy")]
    Job(tl.parse(RULES), publish="asked", sources=[asked], session=spark).run()
    assert set(read("asked")["p"]) == {("ann", 30)}


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=5)
ROWS = st.lists(st.lists(FIELD, min_size=1, max_size=3), min_size=1, max_size=12)


@pytest.mark.slow
@settings(max_examples=max(5, settings().max_examples // 40))
@given(first=ROWS, then=ROWS, size=st.integers(8, 64))
def test_any_text_means_the_same(
    spark: Any, first: list[list[str]], then: list[list[str]], size: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patched:
        patched.setattr("tidelog.pipeline.pieces.LEAST_BYTES", size)
        folder = Path(name)
        source = Source("p", "data.csv", types=("any", "any"), header=False, quoting=False)
        jobs = [
            Job(tl.parse("q(?x) :- p(?x, ?y) ."), publish=publish, sources=[source], engine=engine, **given)
            for publish, engine, given in (
                ("here", Engine("columnar"), {"folder": folder}),
                ("there", ON_SPARK, {"folder": folder, "session": spark}),
            )
        ]
        for rows in (first, then):
            text = "a,1\n" + "".join(",".join(row) + "\n" for row in rows)
            (folder / "data.csv").write_text(text, encoding="utf-8")
            here, there = (job.run().version for job in jobs)
            assert here.rejected == there.rejected
            for predicate in ("p", "q"):
                assert read(folder / "here")[predicate] == read(folder / "there")[predicate]
                assert here.feed.get(predicate, None) is None or (
                    here.feed[predicate].added == there.feed[predicate].added
                )


def test_the_spark_engine_publishes_the_same(spark: Any, write: Write) -> None:
    write("edge.csv", "a,b\nb,c\nc,d\n")
    rules = """
        reach(?x, ?y) :- edge(?x, ?y) .
        reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
        end(?x) :- reach(_, ?x), ~edge(?x, _) .
        many(?x, #count(?y)) :- reach(?x, ?y) .
    """
    sources = [Source("edge", "edge.csv")]
    here = Job(tl.parse(rules), publish="here", sources=sources, engine="columnar")
    on_spark = Engine("spark", conf={"tidelog.strategy": "iterated-joins,lazy"})
    there = Job(tl.parse(rules), publish="there", sources=sources, engine=on_spark, session=spark)
    for text in (None, "a,b\nb,c\nb,d\nd,e\n", "x,y\n"):
        if text is not None:
            write("edge.csv", text)
        one, other = here.run().version, there.run().version
        assert (one.rows, one.added, one.removed, one.reason) == (
            other.rows,
            other.added,
            other.removed,
            other.reason,
        )
        assert other.engine == "spark"
        for name in one.tables:
            assert read("here")[name] == read("there")[name], name
    cold = Job(tl.parse(rules), publish="there", sources=sources, engine=on_spark, session=spark)
    write("edge.csv", "x,y\ny,z\n")
    here.run()
    assert cold.run().version.reason == "incremental" and read("here")["reach"] == read("there")["reach"]
