"""Streams: each micro-batch is one transaction and one version, exactly once, whatever happens."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tests.pipeline.conftest import Write
from tests.pipeline.test_kills import kill, versions
from tidelog.errors import DataError
from tidelog.maintenance.maintainer import Update
from tidelog.pipeline import Job, Step, read
from tidelog.pipeline.micro_batches import BatchPublisher
from tidelog.pipeline.version_folder import Manifest

STREAM = """
[stream]
path = "incoming"
predicate = "edge"
"""
BATCHES = ["op,from,to\n+,d,e\n+,e,f\n", "op,from,to\n-,a,b\n+,b,z\n", "op,from,to\ninsert,a,b\ndelete,e,f\n"]


def deliver(name: str, text: str, number: int) -> None:
    """A change file that appears whole, and is younger than those of lower numbers."""
    folder = Path("incoming")
    folder.mkdir(exist_ok=True)
    path = folder / f".{name}"
    path.write_text(text, encoding="utf-8")
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    path.rename(folder / name)


@pytest.fixture
def streaming(job: Job, spark: Any, write: Write) -> Job:
    write("job.toml", Path("job.toml").read_text() + STREAM)
    Path("incoming").mkdir()
    job = Job.load("job.toml", session=spark)
    job.run()
    return job


def take_all(job: Job, frame: Any = None, **options: Any) -> list[Manifest]:
    told: list[Manifest] = []
    with job.stream(frame, told=told.append, available_now=True, **options) as following:
        following.wait()
    return told


def rejects(job: Job, version: Manifest) -> list[list[str]]:
    assert version.batch is not None and version.batch.rejects is not None
    found = []
    for path in sorted((job.store.path / version.batch.rejects).rglob("*.csv")):
        if path.is_file():
            with path.open(newline="", encoding="utf-8") as stream:
                found += list(csv.reader(stream))[1:]
    return found


def test_each_batch_is_a_version(streaming: Job) -> None:
    for number, text in enumerate(BATCHES):
        deliver(f"{number}.csv", text, number)
    changes: list[str] = []
    streaming.subscribe("edge", lambda change: changes.append(str(change)))
    told = take_all(streaming)
    assert [version.version for version in told] == [2, 3, 4] and changes == ["+2 −0", "+1 −1", "+1 −1"]
    assert [version.batch.batch for version in told if version.batch] == [0, 1, 2]
    assert set(read("published")["edge"]) == {("a", "b"), ("b", "c"), ("b", "z"), ("c", "d"), ("d", "e")}
    expected = tl.Reasoner(streaming.program())
    expected.insert("edge", list(read("published")["edge"]))
    for name in expected:
        assert set(read("published")[name]) == set(expected[name])
    assert take_all(Job.load("job.toml", session=streaming.session)) == []
    deliver("3.csv", "op,from,to\n+,q,r\n", 9)
    assert [version.version for version in take_all(Job.load("job.toml", session=streaming.session))] == [5]
    assert not streaming.run().is_new


@pytest.mark.parametrize("in_parts", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_duplicate_missing_and_malformed_records(
    streaming: Job, monkeypatch: pytest.MonkeyPatch, in_parts: bool
) -> None:
    deliver(
        "0.csv",
        "op,from,to\n+,a,b\n+,x,y\n+,x,y\n-,x,y\n+,x,y\n-,n,m\nupsert,k,l\n+,short\n-,b,c\n",
        0,
    )
    deliver("1.csv", "operation,from,to\n+,a,b\n", 1)
    # Many records come by files.
    monkeypatch.setattr("tidelog.pipeline.stream_sources.FEW", 3 if in_parts else 100)
    first, second = take_all(streaming)
    batch = first.batch
    assert batch is not None
    assert (batch.records, batch.duplicates, batch.missing, batch.rejected) == (8, 4, 1, 3)
    assert {row[1] for row in rejects(streaming, first)} == {"E503", "E630", "E814"}
    assert first.feed["edge"].added == 1 and first.feed["edge"].removed == 1
    assert second.batch is not None and second.batch.rejected == 1 and not second.feed
    assert rejects(streaming, second)[0][1] == "E512"


def test_late_records(streaming: Job, write: Write) -> None:
    write("job.toml", Path("job.toml").read_text() + 'order = "seq"\nmissing = "ignore"\n')
    deliver("0.csv", "op,from,to,seq\n-,p,q,7\n+,p,q,5\n+,r,s,6\n", 0)
    deliver("1.csv", "op,from,to,seq\n+,late,x,6\n+,p,q,8\n-,r,s,7\n", 1)
    first, second = take_all(Job.load("job.toml", session=streaming.session))
    assert first.feed["edge"].added == 1 and first.batch is not None and first.batch.order == "7"
    assert first.batch.missing == 1 and first.batch.rejected == 0
    assert second.batch is not None and second.batch.late == 1 and second.batch.order == "8"
    assert [row[1] for row in rejects(streaming, second)] == ["E815"]
    assert ("p", "q") in set(read("published")["edge"]) and ("r", "s") not in set(read("published")["edge"])


def test_change_scripts(streaming: Job, write: Write) -> None:
    text = Path("job.toml").read_text().replace(STREAM, '\n[stream]\npath = "incoming"\nformat = "changes"\n')
    write("job.toml", text)
    deliver("0.rls", '+ edge("d", "e") .\n- edge("n", "m") .\n@commit .\n', 0)
    deliver("1.rls", "+ far(?x, ?y) :- reach(?x, ?y), ~edge(?x, ?y) .\n", 1)
    deliver("2.rls", "+ edge(\n", 2)
    deliver("3.rls", '+ edge("k", "l") .\n@commit .\n- edge("k", "l") .\n', 3)
    told = take_all(Job.load("job.toml", session=streaming.session))
    batches = [version.batch for version in told if version.batch]
    assert [(batch.missing, batch.rejected) for batch in batches] == [(1, 1), (0, 0), (0, 1), (0, 1)]
    assert rejects(streaming, told[3])[0][1] == "E814" and ("k", "l") not in set(read("published")["edge"])
    assert told[1].feed["far"].added == 6


def test_a_streaming_frame(streaming: Job, spark: Any, write: Write) -> None:
    Path("rows").mkdir()
    write("rows/0.json", '{"op": "+", "from": "f", "to": "g"}\n{"op": "-", "from": "a", "to": "b"}\n')
    frame = spark.readStream.schema("op string, `from` string, `to` string").json(str(Path("rows").resolve()))
    (version,) = take_all(streaming, frame, predicate="edge", checkpoint="checkpoint")
    assert version.feed["edge"].added == 1 and version.feed["edge"].removed == 1
    assert set(read("published")["edge"]) == {("b", "c"), ("c", "d"), ("f", "g")}


def test_the_next_batch_is_looked_at(streaming: Job, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("job.toml", f'engine.maintainer = "dred"\n{Path("job.toml").read_text()}marking = "literal"\n')
    deliver("0.csv", "op,from,to\n-,a,b\n", 0)
    deliver("1.csv", "op,from,to\n-,b,c\n", 1)
    job = Job.load("job.toml", session=streaming.session)
    looked: list[Update | None] = []
    peek = BatchPublisher._peek

    def noting(batches: BatchPublisher) -> Update | None:
        looked.append(peek(batches))
        return looked[-1]

    monkeypatch.setattr(BatchPublisher, "_peek", noting)
    take_all(job)
    assert set(read("published")["edge"]) == {("c", "d")}
    assert any(update is not None and "edge" in update.removed for update in looked)


def test_an_error_ends_the_stream_and_is_told(streaming: Job, write: Write) -> None:
    write("reach.rls", Path("reach.rls").read_text() + "bottom() :- reach(?x, ?x) .\n")
    job = Job.load("job.toml", session=streaming.session)
    job.run()
    deliver("0.csv", "op,from,to\n+,d,a\n", 0)
    with pytest.raises(tl.Inconsistent):
        take_all(job)
    assert job.store.number == 2


def test_streams_that_cannot_be(job: Job, spark: Any, write: Write) -> None:
    job.run()
    with pytest.raises(DataError, match="the job has no stream"):
        job.stream()
    write("job.toml", Path("job.toml").read_text() + STREAM)
    with pytest.raises(DataError, match="no such folder"):
        Job.load("job.toml", session=spark).stream()


def test_a_batch_that_comes_again_is_passed_over(streaming: Job) -> None:
    for number, text in enumerate(BATCHES):
        deliver(f"{number}.csv", text, number)
    take_all(streaming)
    before = versions("published")
    for name in ("2", ".2.crc"):  # as if the process had died before Spark wrote down that the batch is done
        (streaming.store.path / ".stream" / "commits" / name).unlink()
    steps: list[str] = []
    job = Job.load("job.toml", session=streaming.session, listeners=[lambda step: steps.append(step.name)])
    assert take_all(job) == [] and "batch skipped" in steps
    assert versions("published") == before


@pytest.mark.parametrize("step", ["maintained", "pending", "ready", "published"])
def test_a_batch_that_stops_half_way(streaming: Job, step: str) -> None:
    for number, text in enumerate(BATCHES):
        deliver(f"{number}.csv", text, number)
    seen: list[str] = []

    def stop(reached: Step) -> None:
        seen.append(reached.name)
        if seen.count(step) == 2:
            raise RuntimeError("stopped")

    job = Job.load("job.toml", session=streaming.session, listeners=[stop])
    with pytest.raises(RuntimeError, match="stopped"):
        take_all(job)
    assert job.store.number == (3 if step == "published" else 2)
    job.listeners.clear()
    take_all(job)
    Path("job.toml").write_text(Path("job.toml").read_text().replace('"published"', '"clean"'))
    clean = Job.load("job.toml", session=streaming.session)
    clean.run()
    take_all(clean)
    assert versions("published") == versions("clean")


KILLED = ["maintained", "pending", "ready", "published", "batch published"]


def check_kills(steps: list[tuple[str, int]]) -> None:
    """Kill a stream at some steps, one after the other, and compare with one that was not killed."""
    for number, text in enumerate(BATCHES):
        deliver(f"{number}.csv", text, number)
    for step, count in steps:
        kill(step, "stream", count=count)
    job = Job.load("job.toml")
    job.run()
    take_all(job)
    killed = versions("published")
    text = Path("job.toml").read_text()
    Path("job.toml").write_text(text.replace('publish = "published"', 'publish = "clean"'))
    clean = Job.load("job.toml")
    clean.run()
    take_all(clean)
    assert killed == versions("clean") and len(killed) == 4


@pytest.mark.slow
def test_a_stream_that_is_killed_around_the_pointer(streaming: Job) -> None:
    check_kills([("ready", 1), ("published", 1)])


@pytest.mark.slow
@pytest.mark.parametrize(("step", "count"), [(step, 1 + number % 2) for number, step in enumerate(KILLED)])
def test_a_stream_that_is_killed_at_every_step(streaming: Job, step: str, count: int) -> None:
    check_kills([(step, count)])


@pytest.mark.slow
def test_batches_that_make_constants_equal(streaming: Job, write: Write) -> None:
    rules = Path("reach.rls").read_text().replace("string", "any")
    write("reach.rls", rules + "?x = ?y :- edge(?x, ?y), edge(?y, ?x) .\n")
    streaming.run()
    deliver("1.csv", "op,from,to\n+,b,a\n", 1)
    deliver("2.csv", "op,from,to\n-,b,a\n+,d,c\n", 2)
    first, second = take_all(streaming)
    assert first.feed["reach"].added and first.tables["="].rows == 2
    version = read("published")
    assert set(version["="]) == {("c", "c"), ("d", "c")}
    expected = tl.Reasoner(tl.load("reach.rls"), equality="axiomatise")
    expected.insert("edge", [("a", "b"), ("b", "c"), ("c", "d"), ("d", "c")])
    for name in expected:
        assert name == "=" or set(version[name]) == set(expected[name]), name
    assert second.feed["reach"].removed


def test_scripts_over_time(spark: Any, write: Write) -> None:
    write("rules.rls", "alarm(?s) :- boxminus[0, 5] hot(?s) . hot(z)@0 .")
    write(
        "job.toml",
        'program = "rules.rls"\npublish = "published"\nengine.name = "columnar"\n'
        '[stream]\npath = "incoming"\nformat = "changes"\n',
    )
    job = Job.load("job.toml", session=spark)
    job.run()
    deliver("1.rls", "+ hot(a)@[0, 10) . - hot(z)@0 .", 1)
    deliver("2.rls", "+ hot(a)@[10, 12] . @advance 11 .", 2)
    deliver("3.rls", "+ hot(a)@[10, 12] . - hot(b)@3 .", 3)
    first, second, third = take_all(job)
    assert (first.rows, second.rows, third.rows) == (2, 2, 2)
    assert rejects(job, second)[0][1] == "E817"
    assert {tuple(map(str, row)) for row in read("published")["alarm"]} == {("a", "[5, 12]")}
    changes = read("published").changes("alarm")
    assert [str(row[1]) for row in changes.removed] == ["[5, 10)"]
    rest = Path("job.toml").read_text().replace('"changes"', '"csv"\npredicate = "hot"')
    write("job.toml", rest)
    with pytest.raises(DataError, match="E817"):
        Job.load("job.toml", session=spark).stream(available_now=True)
    write("job.toml", f'{rest}time = ["start", "end"]\ncheckpoint = "other"\n')
    deliver("1.csv", "op,c1,start,end\n+,a,12,13.5\n-,a,0,1\n+,a,soon,1\n-,b,0,1\n", 4)
    [fourth] = take_all(Job.load("job.toml", session=spark))
    assert {tuple(map(str, row)) for row in read("published")["hot"]} == {("a", "(1, 13.5]")}
    assert fourth.batch is not None and (fourth.batch.records, fourth.batch.missing) == (3, 1)
    assert [row[1] for row in rejects(job, fourth)] == ["E619", "E630"]


HOT = """\
@declare hot(sensor: string) .
alarm(?s) :- boxminus[0, 2m] hot(?s) .
late(?s) :- diamondminus[0, 5m] alarm(?s) .
hot("z")@"2025-12-31T00:00:00Z" .
"""
HOT_JOB = """\
program = "hot.rls"
publish = "published"
engine.name = "columnar"
[[stream]]
path = "incoming"
predicate = "hot"
append = true
time = ["start", "end"]
event-time = "start"
delay = "1 minute"
"""


def test_event_times(spark: Any, write: Write) -> None:
    """Time advances by the watermark, rejects what is behind it, and tables keep what is forgotten."""
    write("hot.rls", HOT)
    write("job.toml", HOT_JOB)
    Path("incoming").mkdir()
    day = "2026-01-01T00:"
    deliver("0.csv", f"sensor,start,end\na,{day}00:00Z,{day}04:00Z\nb,{day}03:00Z,{day}03:30Z\n", 0)
    deliver("1.csv", f"sensor,start,end\nb,{day}01:30Z,{day}02:00Z\na,{day}04:00Z,{day}09:00Z\n", 1)
    deliver("2.csv", f"sensor,start,end\na,{day}09:00Z,{day}10:00Z\nx,soon,{day}10:00Z\n", 2)
    steps: list[str] = []
    job = Job.load("job.toml", session=spark, listeners=[lambda step: steps.append(step.name)])
    job.run()
    first, second, third = take_all(job)
    marks = [version.batch.watermark for version in (first, second, third) if version.batch]
    assert marks == [f"{day}02:00Z", f"{day}03:00Z", f"{day}08:00Z"]
    assert second.batch is not None and (second.batch.late, second.batch.records) == (1, 2)
    assert [row[1] for row in rejects(job, second)] == ["E815"]
    assert third.batch is not None and (third.batch.late, third.batch.rejected) == (0, 1)
    assert [row[1] for row in rejects(job, third)] == ["E814"]
    assert steps.count("time advanced") == 2
    whole = tl.Reasoner(tl.parse(HOT))
    whole.insert("hot", [("a", f"[{day}00:00Z, {day}10:00Z]"), ("b", f"[{day}03:00Z, {day}03:30Z]")])
    for name in whole:
        assert set(map(str, read("published")[name])) == set(map(str, whole[name])), name
    assert [str(row[1]) for row in read("published").changes("alarm").added] == [
        f"[{day}02:00Z, {day}10:00Z]"
    ]
    wrong = HOT.replace("boxminus[0, 2m]", "boxplus[0, 2m]")
    write("hot.rls", wrong)
    with pytest.raises(tl.TidelogError, match="looks ahead"):
        Job.load("job.toml", session=spark).stream()


@pytest.mark.slow
@pytest.mark.parametrize(("step", "count"), [("time advanced", 1), ("maintained", 2), ("ready", 3)])
def test_event_times_of_a_stream_that_is_killed(spark: Any, write: Write, step: str, count: int) -> None:
    write("hot.rls", HOT)
    write("job.toml", HOT_JOB)
    for number, (start, end) in enumerate([("00:00", "04:00"), ("04:00", "08:00"), ("07:30", "12:00")]):
        times = f"2026-01-01T00:{start}Z,2026-01-01T00:{end}Z"
        deliver(f"{number}.csv", f"sensor,start,end\na,{times}\nb{number},{times}\n", number)
    kill(step, "stream", count=count)
    take_all(Job.load("job.toml", session=spark))
    write("job.toml", HOT_JOB.replace('"published"', '"clean"'))
    clean = Job.load("job.toml", session=spark)
    clean.run()
    told = take_all(clean)
    assert versions("published") == versions("clean") and len(told) == 3
    assert [version.batch.late for version in told if version.batch] == [0, 0, 0]


def messages(spark: Any, value: str) -> Any:
    """A frame like that of Kafka's connector, made of the rate source."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 2)
    return rate.load().selectExpr(
        "cast(null as binary) as key",
        f"cast({value} as binary) as value",
        "'topic' as topic",
        "cast(value % 2 as int) as partition",
        "value as offset",
        "timestamp",
    )


def take_some(job: Job, count: int, frame: Any, **options: Any) -> list[Manifest]:
    """The versions of the first batches of an endless stream."""
    told: list[Manifest] = []
    with job.stream(frame, told=told.append, **options) as following:
        while len(told) < count:
            following.wait(0.05)
    return told


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("json", """if(value % 10 = 3, '{"from', '{"from": "n' || value || '",\n "to": "m", "op": "+"}')"""),
        pytest.param(
            "csv",
            """case value % 10 when 3 then '+,"open' when 4 then null else '+,n' || value || ',"m"' end""",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_messages(streaming: Job, spark: Any, kind: str, value: str) -> None:
    frame, options = messages(spark, value), {"event_time": "timestamp", "delay": 5.0}
    told = take_some(streaming, 2, frame, predicate="edge", value=kind, checkpoint="other", **options)
    came = {source for source, target in read("published")["edge"] if target == "m"}
    bad = {3} if kind == "json" else {3, 4}
    full = [version for version in told if version.batch and version.batch.records]
    assert came == {f"n{n}" for n in range(10 * len(told)) if n % 10 not in bad}
    for version in full:
        assert (
            version.batch is not None and version.batch.records == 10 - len(bad) == version.feed["edge"].added
        )
        assert version.batch.rejected == len(bad) and str(version.batch.watermark).endswith("Z")
    assert {row[0].split("@")[0] for row in rejects(streaming, full[0])} <= {"topic/0", "topic/1"}


def test_several_streams_are_one_query(streaming: Job, spark: Any, write: Write) -> None:
    write(
        "reach.rls",
        Path("reach.rls").read_text() + "@declare name(x: string, n: int) . named(?x) :- name(?x, _) .\n",
    )
    second = """[[stream]]\npath = "names"\nformat = "jsonl"\npredicate = "name"\nappend = true\n"""
    write("job.toml", Path("job.toml").read_text().replace("[stream]", "[[stream]]") + second)
    write("names/1.jsonl", '{"x": "a", "n": 1}\n{"x": "b", "n": "one"}\n')
    job = Job.load("job.toml", session=spark)
    job.run()
    deliver("0.csv", "op,from,to\n+,d,e\n", 0)
    (version,) = take_all(job)
    assert version.batch is not None and (version.batch.records, version.batch.rejected) == (2, 1)
    assert version.feed["edge"].added == 1 and set(read("published")["named"]) == {("a",)}
    assert set(version.batch.progress) == {"edge", "name"}
    write("job.toml", Path("job.toml").read_text().replace('"name"', '"edge"'))
    with pytest.raises(DataError, match="two streams change `edge`"):
        Job.load("job.toml", session=spark).stream()


@pytest.mark.parametrize("session", ["spark", pytest.param("connect", marks=pytest.mark.slow)], indirect=True)
def test_a_function_for_queries_of_others(streaming: Job, session: Any, write: Write) -> None:
    """It takes each batch once, in this process or in one of a server of Spark Connect."""
    streaming.close()
    write("rows/0.json", '{"op": "+", "from": "f", "to": "g"}\n{"op": "?", "from": "a", "to": "b"}\n')
    frame = session.readStream.schema("op string, `from` string, `to` string").json(
        str(Path("rows").resolve())
    )
    job = Job.load("job.toml", session=session)
    for _ in range(2):
        with job.batches("edge") as batches:
            writer = frame.writeStream.foreachBatch(batches)
            writer.option("checkpointLocation", str(Path("own").resolve())).trigger(
                availableNow=True
            ).start().awaitTermination()
    version = read("published").manifest
    assert version.version == 2 and version.batch is not None and version.batch.rejected == 1
    assert ("f", "g") in set(read("published")["edge"])


def test_a_connector_that_is_missing(streaming: Job, spark: Any, write: Write) -> None:
    text = (
        Path("job.toml")
        .read_text()
        .replace(
            'path = "incoming"',
            'format = "kafka"\nvalue = "json"\noptions = { "kafka.bootstrap.servers" = "x:1" }',
        )
    )
    write("job.toml", text)
    with pytest.raises(DataError, match="cannot read kafka streams") as error:
        Job.load("job.toml", session=spark).stream()
    assert "spark-sql-kafka" in str(error.value.diagnostics[0].help)


@pytest.mark.slow
def test_rules_over_time_run_for_ever(spark: Any, write: Write) -> None:
    """What the reasoner keeps of endless events is bounded, and tables have all of it."""
    write("hot.rls", "@declare hot(sensor: int) . alarm(?s) :- boxminus[0, 2] hot(?s) . hot(-1)@-1 .")
    job = Job("hot.rls", publish="published", engine="columnar", session=spark, folder=Path.cwd())
    job.run()
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 500).option("numPartitions", 1)
    events = rate.load().selectExpr("value % 5 as sensor", "value as start", "value + 3 as end")
    weights: list[int] = []

    def weigh(_: Manifest) -> None:
        store = job.reasoner().time.store
        weights.append(sum(table.weight for table in (*store.explicit.values(), *store.tables.values())))

    with job.stream(
        events,
        predicate="hot",
        append=True,
        time=("start", "end"),
        event_time="start",
        delay=10.0,
        checkpoint="other",
        told=weigh,
    ) as following:
        while len(weights) < 40:
            following.wait(0.1)
    number = read("published").manifest.batch
    assert number is not None and number.watermark is not None
    facts = read("published")["hot"]
    assert max(weights) < 15_000 and len(facts) >= 5
