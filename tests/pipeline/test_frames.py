"""Pipelines whose facts stay on Spark from the files to the published files: the same as in process."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tests.pipeline.conftest import Write
from tidelog.errors import DataError, TidelogError
from tidelog.pipeline import Engine, Job, Sink, Source, read
from tidelog.pipeline.manifest import Manifest

pytestmark = pytest.mark.skip("of the engine on frames, and of the format of versions before tables")
BASE = "base"

# Nothing comes to the driver: not to be closed, not to be maintained.
ON_FRAMES = Engine(
    "spark",
    conf={
        "tidelog.strategy": "lazy,executor-fixpoint,iterated-joins",
        "tidelog.residentFacts": "0",
        "tidelog.driverFacts": "0",
    },
)
RULES = """
@declare edge(from: string, to: any) .
edge("stated", "b") .
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
node(?x), node(?y) :- edge(?x, ?y) .
end(?x) :- node(?x), ~edge(?x, _) .
degree(?x, #count(?y)) :- edge(?x, ?y) .
heavy(?x, ?w * 1.5) :- weight(?x, ?w), ?w > 1 .
some() :- edge(_, _) .
"""
EDGES = "from,to\na,b\nb,c\nb,c\nc,d\n"
WEIGHTS = 'a,1\nb,2\nc,2.5\nd,1997-01-02\ne,"two words"\nbad\nf,true\n'
SOURCES = [
    Source("edge", "edge.csv", header=True, filter='?from != "skipped"'),
    Source("weight", "weight.csv", header=False),
]


Pair = Callable[..., tuple[Job, Job]]


@pytest.fixture
def pair(spark: Any, write: Write) -> Pair:
    """The same job in process and on frames."""
    write("edge.csv", EDGES)
    write("weight.csv", WEIGHTS)

    def made(rules: str = RULES, sources: Any = SOURCES, **given: Any) -> tuple[Job, Job]:
        here = Job(
            tl.parse(rules), publish="here", sources=sources, engine="columnar", session=spark, **given
        )
        there = Job(
            tl.parse(rules), publish="there", sources=sources, engine=ON_FRAMES, session=spark, **given
        )
        return here, there

    return made


def told(version: Manifest) -> tuple[Any, ...]:
    """What two versions must have in common."""
    inputs = {key: (one.rows, one.filtered, one.rejected, one.columns) for key, one in version.inputs.items()}
    tables = {name: table.rows for name, table in version.tables.items()}
    feed = {name: (each.added, each.removed) for name, each in version.feed.items()}
    return version.rows, version.reason, inputs, tables, feed


def assert_same(one: Manifest, other: Manifest) -> None:
    assert told(one) == told(other)
    here, there = read("here"), read("there")
    for name in one.tables:
        assert here[name] == there[name], name
        assert here.explicit(name) == there.explicit(name), name
        assert set(here.changes(name).added) == set(there.changes(name).added), name
        assert set(here.changes(name).removed) == set(there.changes(name).removed), name


def placed(job: Job) -> set[str]:
    engine = job.reasoner().engine
    return {name for name in engine.relations() if engine.is_placed(name)}


def rejects(job: Job, version: Manifest) -> list[list[str]]:
    found: list[list[str]] = []
    for given in version.inputs.values():
        if given.rejects is not None:
            with (job.store.path / given.rejects).open(newline="", encoding="utf-8") as stream:
                found += csv.reader(stream)
    return sorted(found)


@pytest.mark.slow
def test_facts_stay_on_spark(pair: Pair, write: Write) -> None:
    here, there = pair()
    one, other = here.run().version, there.run().version
    assert_same(one, other)
    assert rejects(here, one) == rejects(there, other) != []
    assert placed(there) == {name for name, table in other.tables.items() if table.rows}
    assert all(part.path.split(".")[-2].count("-") == 2 for part in other.tables["reach"].facts)
    write("edge.csv", EDGES.replace("b,c\n", ""))
    write("weight.csv", WEIGHTS.replace("b,2\n", "b,3\n"))
    assert_same(here.run().version, there.run().version)
    assert placed(there) >= {"edge", "reach"}


@pytest.mark.slow
def test_published_facts_lie_on_spark_again(pair: Pair, write: Write) -> None:
    here, there = pair()
    for text in (EDGES, EDGES + "d,e\nskipped,x\n"):
        write("edge.csv", text)
        assert_same(here.run().version, there.run().version)
    here, there = pair()  # as in a new process
    assert not there.run().is_new
    write("edge.csv", EDGES + "x,y\n")
    assert_same(here.run().version, there.run().version)
    assert placed(there) >= {"edge", "reach"}
    write("edge.csv", EDGES + "y,z\n")
    assert_same(here.run(full=True).version, there.run(full=True).version)
    assert_same(here.apply('+ edge("z", "z") .').version, there.apply('+ edge("z", "z") .').version)


@pytest.mark.slow
def test_rules_that_change_on_frames(pair: Pair, write: Write) -> None:
    for job in pair():
        job.run()
    more = RULES + "two(?x, ?z) :- edge(?x, ?y), edge(?y, ?z) .\nfar(?x) :- more(?x, _) .\n"
    write("more.csv", "q,1\n")
    sources = [*SOURCES, Source("more", "more.csv", header=False)]
    here, there = pair(more, sources)
    assert_same(here.run().version, there.run().version)
    here, there = pair(RULES.replace("end(?x) :- node(?x), ~edge(?x, _) .", ""))
    assert_same(here.run().version, there.run().version)


@pytest.mark.slow
def test_many_changes_write_a_table_anew(pair: Pair, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.pipeline.tables.MANY_CHANGED", 3)
    here, there = pair()
    for text in (EDGES, "from,to\n" + "".join(f"n{i},m{i % 3}\n" for i in range(9))):
        write("edge.csv", text)
        one, other = here.run().version, there.run().version
        assert_same(one, other)
    assert {part.role for part in other.tables["reach"].facts} == {BASE}
    assert all(part.path.startswith("versions/2/") for part in other.tables["reach"].facts)


@pytest.mark.slow
def test_tables_stay_on_spark(pair: Pair, spark: Any) -> None:
    frame = spark.createDataFrame(
        [("a", "b"), ("b", "c"), (None, "x"), ("skipped", "y"), ("a", "b")], "from string, to string"
    )
    frame.createOrReplaceTempView("edges")
    sources = [Source("edge", format="table", table="edges", filter='?from != "skipped"')]
    here, there = pair(RULES, sources)
    one, other = here.run().version, there.run().version
    assert_same(one, other)
    [_, reject] = sorted(rejects(there, other), key=lambda row: row[0] == "edges")
    assert reject[0] == "edges" and "missing" in reject[2]
    spark.createDataFrame([("a", "b"), ("c", "e")], "from string, to string").createOrReplaceTempView("edges")
    assert_same(here.run().version, there.run().version)


@pytest.mark.slow
def test_sinks_of_facts_on_spark(pair: Pair, spark: Any, folder: Path, write: Write) -> None:
    spark.sql("drop table if exists reached")
    sinks = [Sink("reach", format="table", table="reached"), Sink("end", "end.csv", "csv", terms="plain")]
    _, there = pair(sinks=sinks)
    there.run()
    assert {tuple(row) for row in spark.table("reached").collect()} == set(read("there")["reach"])
    write("edge.csv", EDGES + "d,e\n")
    there.run()
    assert {tuple(row) for row in spark.table("reached").collect()} == set(read("there")["reach"])
    assert (folder / "end.csv").read_text() == "x\n" + "".join(
        f"{x}\n" for (x,) in read("there")["end"].sorted()
    )


@pytest.mark.slow
def test_a_run_that_fails_on_frames(pair: Pair, write: Write) -> None:
    _, there = pair(max_rejects=0)
    with pytest.raises(DataError, match="E808"):
        there.run()
    write("weight.csv", "a\nb\n")
    _, there = pair()
    with pytest.raises(DataError, match="no row of"):
        there.run()
    write("weight.csv", WEIGHTS)
    there.run()
    write("edge.csv", "from,towards\na,b\n")
    with pytest.raises(DataError, match="E807"):
        there.run()


EQUALITY = """
@declare passport(of: any, number: int) . @declare knows(from: any, to: any) .
?x = ?y :- passport(?x, ?n), passport(?y, ?n) .
met(?x, ?y) :- knows(?x, ?y) .
met(?x, ?z) :- met(?x, ?y), knows(?y, ?z) .
lone(?x) :- passport(?x, _), ~met(?x, _) .
"""
PASSPORTS = "".join(f"{name},{number}\n" for number, name in enumerate("abcdefgh")) + "aa,0\ncc,2\n"


@pytest.mark.slow
def test_equality_over_frames(spark: Any, write: Write) -> None:
    write("passport.csv", PASSPORTS)
    write("knows.csv", "b,a\ncc,d\nd,e\ne,aa\n")
    sources = [Source(name, f"{name}.csv", header=False) for name in ("passport", "knows")]
    # Classes may come to the driver, all facts may not.
    conf = {**ON_FRAMES.conf, "tidelog.residentFacts": "6"}

    def job(name: str, engine: Engine, sinks: Any = ()) -> Job:
        return Job(
            tl.parse(EQUALITY), publish=name, sources=sources, engine=engine, session=spark, sinks=sinks
        )

    none = {**conf, "tidelog.residentFacts": "0"}
    with pytest.raises(TidelogError, match="E684"):
        job("refused", Engine("spark", conf=none)).run()
    here = job("here", Engine("columnar"))
    engine = Engine("spark", conf=conf)
    there = job("there", engine, [Sink("met", format="table", table="met_members")])
    assert_same(here.run().version, there.run().version)
    assert {"met \u2248", "passport"} <= placed(there)
    write("passport.csv", PASSPORTS.replace("aa,0", "aa,2") + "i,3\n")
    assert_same(here.run().version, there.run().version)
    rows = {tuple(row) for row in spark.table("met_members").collect()}
    assert rows == set(here.reasoner()["met"])
    write("knows.csv", "b,a\ncc,d\nd,e\n")
    cold = job("there", engine)
    assert_same(here.run().version, cold.run().version)
    assert cold.run(full=True).version.feed == {}


TIMES = """
@declare hot(sensor: any) . @declare kind(sensor: any, is: any) .
warm(?s) :- boxminus[0, 1] hot(?s), kind(?s, boiler) .
alarm(?s) :- warm(?s), ~diamondminus[0, 2] reset(?s) .
reset(a)@4 .
"""


@pytest.mark.slow
def test_times_over_frames(spark: Any, write: Write) -> None:
    write("hot.csv", "a,0,10\nb,2,3\nc,5,6\n")
    write("kind.csv", "a,boiler\nb,boiler\n")
    resets = spark.createDataFrame([("b", 3, None), ("c", None, 2)], "c1 string, start int, end int")
    sources = [
        Source("hot", "hot.csv", header=False, time=("start", "end")),
        Source("kind", "kind.csv", header=False),
        Source("reset", frame=resets, columns=("c1", "start", "end"), time=("start", "end")),
    ]
    conf = {"tidelog.strategy": "lazy,executor-fixpoint,iterated-joins", "tidelog.driverFacts": "0"}

    def job(name: str, engine: Engine) -> Job:
        return Job(tl.parse(TIMES), publish=name, sources=sources, engine=engine, session=spark)

    here, there = job("here", Engine("columnar")), job("there", Engine("spark", conf=conf))
    assert_same(here.run().version, there.run().version)
    assert there.reasoner().time.store._elsewhere is not None
    assert ("b", "[3, inf)") in {tuple(map(str, row)) for row in read("there")["reset"]}
    write("hot.csv", "a,0,12\nb,2,3\nc,5,6\n")
    write("kind.csv", "a,boiler\nc,boiler\n")
    assert_same(here.run().version, there.run().version)
    write("hot.csv", "a,0,12\nc,5,7\n")
    assert_same(here.run().version, job("there", Engine("spark", conf=conf)).run().version)
