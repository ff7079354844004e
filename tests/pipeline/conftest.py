"""Fixtures: a folder with a job in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.pipeline.guards import GuardLimits
from tidelog.pipeline.job import Job

Write = Callable[[str, str], Path]

RULES = """\
@declare edge(from: string, to: string) .
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
node(?x), node(?y) :- edge(?x, ?y) .
sink(?x) :- node(?x), ~edge(?x, _) .
degree(?x, #count(?y)) :- edge(?x, ?y) .
"""
JOB = """\
program = "reach.rls"
publish = "published"
engine.name = "columnar"

[[source]]
predicate = "edge"
path = "edge.csv"
header = true
"""
MAY_BE_EMPTY = GuardLimits(allow_empty=True)
EDGES = "from,to\na,b\nb,c\nc,d\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the test, so that messages show short paths."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(folder: Path) -> Write:
    """A file written into the working folder."""

    def written(name: str, text: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.fixture
def job_file(write: Write) -> Path:
    """A small job: what can be reached over edges."""
    write("reach.rls", RULES)
    write("edge.csv", EDGES)
    return write("job.toml", JOB)


@pytest.fixture
def job(job_file: Path) -> Job:
    """The job of the file."""
    return Job.load(job_file)
