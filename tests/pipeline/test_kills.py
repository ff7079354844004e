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
STEPS = ["read", "maintained", "pending", "table reach", "ready", "published", "done"]
QUICK = ("maintained", "table reach")  # the state is ahead, and so are some of the tables
PUBLISHED = ("published", "done")  # from here on readers see the new version


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
    assert read("published").number == (2 if step in PUBLISHED else 1)
    if step not in PUBLISHED:
        assert read("published").manifest == before
    run = Job.load("job.toml").run()
    # Once the state has it, the version is published before anything else is done.
    assert run.version.version == 2 and run.is_new == (step == "read")
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


@pytest.mark.parametrize("step", marked(["derived", "pending", "table reach", "ready", "published", "done"]))
def test_a_first_run_that_is_killed(job: Job, step: str) -> None:
    kill(step, "run", "--full")
    assert job.store.number == (1 if step in PUBLISHED else None)
    run = Job.load("job.toml").run()
    assert run.version.version == 1 and len(read("published")["reach"]) == 6
    assert run.is_new == (step in ("derived", "pending", "table reach"))
    steps: list[str] = []
    later = Job.load("job.toml", listeners=[lambda reached: steps.append(reached.name)])
    assert later.apply('+ edge("d", "e") .').version.tables["reach"].rows == 10
    assert "restored" in steps and not list(Path("published").glob("_state.*"))


@pytest.mark.parametrize("step", marked(["derived", "pending", "table reach", "ready", "published"]))
def test_a_state_whose_version_was_not_published_is_not_taken_for_another_one(job: Job, step: str) -> None:
    """A full run is killed, and another one publishes its number: by changes, from the state before."""
    job.run()
    Path("edge.csv").write_text("from,to\nx,y\n")
    kill(step, "run", "--full")
    Path("edge.csv").write_text("from,to\na,b\nb,c\n")
    Job.load("job.toml").run()
    Job.load("job.toml").apply('+ edge("c", "z") .')
    expected = {("a", "b"), ("b", "c"), ("c", "z")}
    assert set(read("published")["edge"]) == expected
    assert set(read("published")["reach"]) == {*expected, ("a", "c"), ("a", "z"), ("b", "z")}


@pytest.mark.slow
def test_catching_up_that_is_killed(job: Job) -> None:
    job.run()
    kill("maintained", "apply", '+ edge("d", "e") .')
    for step in ("pending", "table edge", "table reach", "restored edge", "recovered", "ready"):
        kill(step, "apply", '+ edge("d", "never") .')
    assert job.apply('+ edge("d", "f") .').version.version == 3
    assert {y for x, y in read("published")["reach"] if x == "d"} == {"e", "f"}


@pytest.mark.parametrize("step", marked(["pending", "table reach", "ready", "published"]))
def test_going_back_that_is_killed(job: Job, step: str) -> None:
    """Whether it counts or not, the next run publishes what the inputs say."""
    job.run()
    job.apply('+ edge("d", "e") .')
    kill("maintained", "apply", '+ edge("e", "f") .')  # the state is ahead, of the version that this would be
    kill(step, "rollback", "1")
    Path("edge.csv").write_text("from,to\nb,c\n")
    run = Job.load("job.toml").run()
    assert set(read("published")["reach"]) == {("b", "c")} and run.version.reason == "full"
    Job.load("job.toml").apply('+ edge("c", "d") .')
    assert set(read("published")["reach"]) == {("b", "c"), ("c", "d"), ("b", "d")}


@pytest.mark.slow
def test_changes_that_are_killed_again_and_again(job: Job) -> None:
    """What was committed is published by whoever comes next, and nothing is lost or applied twice."""
    job.run()
    for number, step in enumerate(STEPS[1:]):
        kill(step, "apply", f'+ edge("d", "e{number}") .')
        assert job.store.number == number + (2 if step in PUBLISHED else 1)
        Job.load("job.toml").refresh_sinks()
        assert job.store.number == number + 2
    assert job.apply('+ edge("d", "f") .').version.version == len(STEPS) + 1
    assert {y for x, y in read("published")["reach"] if x == "d"} == {"f", *(f"e{n}" for n in range(6))}


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
