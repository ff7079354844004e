"""A run that is killed at any step leaves the old version or the new one, whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.conftest import Write
from tidelog.pipeline import Job, Store, Version, read

SOURCES = Path(__file__).parents[2]
STEPS = ["read", "maintained", "files written", "manifest written", "published"]
QUICK = ("manifest written", "published")  # the two windows around the pointer


def marked(steps: list[str]) -> list[Any]:
    """The steps, all but the most telling ones for the slow suite."""
    return [step if step in QUICK else pytest.param(step, marks=pytest.mark.slow) for step in steps]


SINKS = """
[[sink]]
predicate = "reach"
path = "out/reach.csv"
terms = "plain"

[[sink]]
predicate = "reach"
what = "changes"
format = "csv"
path = "out/changes"
terms = "plain"
"""


def kill(step: str, *action: str, count: int = 1) -> None:
    """Let a process do something, and be killed at a step."""
    paths = os.pathsep.join([str(SOURCES), str(SOURCES / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.killed", step, str(count), *action],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def versions(path: str) -> list[dict[str, object]]:
    """All versions of a folder, without what depends on the clock."""
    found = []
    store = Store(path)
    for number in store.numbers():
        version = Version(store, store.manifest(number))
        facts = {name: sorted(map(str, version[name])) for name in version}
        changes = {name: sorted(map(str, version.changes(name))) for name in version}
        parent = version.manifest.parent
        found.append({"number": number, "facts": facts, "changes": changes, "parent": parent})
    return found


@pytest.fixture
def sinks(job: Job, write: Write) -> Job:
    write("job.toml", Path("job.toml").read_text() + SINKS)
    job = Job.load("job.toml")
    job.run()
    return job


@pytest.mark.parametrize("step", marked(STEPS))
def test_a_run_that_is_killed(sinks: Job, step: str) -> None:
    before = read("published").manifest
    Path("edge.csv").write_text("from,to\na,b\nb,e\nc,d\n")
    kill(step, "run")
    is_published = step == "published"
    assert read("published").number == (2 if is_published else 1)
    if not is_published:
        assert read("published").manifest == before
    run = Job.load("job.toml").run()
    assert run.version.version == 2 and run.is_new == (not is_published)
    clean = Job.load("job.toml")
    clean = Job("reach.rls", publish="clean", sources=clean.settings.sources, engine="columnar")
    Path("edge.csv").write_text("from,to\na,b\nb,c\nc,d\n")
    clean.run()
    Path("edge.csv").write_text("from,to\na,b\nb,e\nc,d\n")
    clean.run()
    assert versions("published") == versions("clean")
    rows = Path("out/reach.csv").read_text().splitlines()[1:]
    assert {tuple(row.split(",")) for row in rows} == set(read("published")["reach"])
    assert len(Path("out/changes/2.csv").read_text().splitlines()) == 1 + 6


@pytest.mark.parametrize("step", marked(["derived", "files written", "manifest written", "published"]))
def test_a_first_run_that_is_killed(job: Job, step: str) -> None:
    kill(step, "run", "--full")
    assert job.store.number == (1 if step == "published" else None)
    run = Job.load("job.toml").run()
    assert run.version.version == 1 and len(read("published")["reach"]) == 6


@pytest.mark.slow
def test_changes_that_are_killed_again_and_again(job: Job) -> None:
    job.run()
    for step in STEPS[1:-1]:
        kill(step, "apply", '+ edge("d", "e") .')
        assert job.store.number == 1 and job.store.numbers() == (1,)
    assert job.apply('+ edge("d", "e") .').version.version == 2
    assert ("a", "e") in set(read("published")["reach"])


EQUALITY = """\
@declare passport(of: any, number: int) . @declare knows(from: any, to: any) .
?x = ?y :- passport(?x, ?n), passport(?y, ?n) .
reach(?x, ?y) :- knows(?x, ?y) .
knows(bob, anna) . knows(anna, carl) .
"""
PASSPORTS = "ann,7\nanna,7\nbob,8\n", "ann,7\nanna,9\nbob,9\nanne,7\n"


def run_killed(write: Write, step: str, rules: str, source: str, inputs: tuple[str, str]) -> None:
    """Run a job on two inputs, killed at a step of the second run and run again: as if it had not been."""
    write("rules.rls", rules)
    begin = 'program = "rules.rls"\npublish = "published"\nengine.name = "columnar"'
    write("job.toml", f"{begin}\n[[source]]\n{source}\n{SINKS}")
    job = Job.load("job.toml")
    (path,) = job.settings.sources[0].paths
    clean = Job("rules.rls", publish="clean", sources=job.settings.sources, engine="columnar")
    for text in inputs:
        write(path, text)
        clean.run()
    write(path, inputs[0])
    job.run()
    write(path, inputs[1])
    kill(step, "run")
    Job.load("job.toml").run()
    assert versions("published") == versions("clean")


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_run_under_equality_that_is_killed(write: Write, step: str) -> None:
    run_killed(write, step, EQUALITY, 'predicate = "passport"\npath = "passport.csv"', PASSPORTS)
    rows = Path("out/reach.csv").read_text().splitlines()[1:]
    assert {tuple(row.split(",")) for row in rows} == set(read("published")["reach"])


TIMES = """\
@declare hot(sensor: any) .
reach(?s) :- boxminus[0, 5] hot(?s) .
"""
HOT = "a,0,10\nb,2,3\n", "a,0,12\nc,1/3,7\n"


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_run_over_time_that_is_killed(write: Write, step: str) -> None:
    source = 'predicate = "hot"\npath = "hot.csv"\ntime = ["start", "end"]'
    run_killed(write, step, TIMES, source, HOT)
    assert Path("out/reach.csv").read_text().splitlines()[1:] == ['a,"[5, 12]"', 'c,"[16/3, 7]"']
