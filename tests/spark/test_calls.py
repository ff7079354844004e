"""What is wrong with a call is raised by the call, on the driver; checking runs no job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import tidelog as tl
from tidelog import spark as ts
from tidelog.spark.worker import ERRORS, AllFacts, DerivationTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = "@declare edge(x: string, y: string) . reach(?x, ?y) :- edge(?x, ?y) ."
CALLS: dict[str, Callable[..., Any]] = {
    "derive": lambda **settings: ts.derive(PROGRAM, {}, **settings),
    "query": lambda **settings: ts.query(PROGRAM, 'reach("a", ?y)', {}, **settings),
    "explain": lambda **settings: ts.explain(PROGRAM, 'reach("a", "b")', {}, **settings),
    "check": lambda **settings: ts.check(PROGRAM, {}, **settings),
    "maintain": lambda **settings: ts.maintain(PROGRAM, "store", **settings),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "name",
    ["engine", "processes", "marking", "listeners", "rejects", "allow_read", "read_only"],
)
def test_settings_that_make_no_sense_are_refused_by_name(call: str, name: str) -> None:
    with pytest.raises(TypeError, match=f"`{name}` is not supported on Spark: "):
        CALLS[call](**{name: None})


@pytest.mark.parametrize("call", CALLS)
def test_unknown_settings_and_wrong_values(call: str) -> None:
    with pytest.raises(TypeError, match="unknown setting `max_fact`: did you mean `max_facts`"):
        CALLS[call](max_fact=3)
    with pytest.raises(tl.ProgramError, match="unknown treatment"):
        CALLS[call](equality="rewritten")
    with pytest.raises(ValueError, match="`equal` is 'expand' or 'representative', not 'all'"):
        CALLS[call](equal="all")
    if call in ("derive", "query", "maintain"):
        with pytest.raises(ValueError, match="on_error is one of `fail`, `skip`, `collect`, not 'ignore'"):
            CALLS[call](on_error="ignore")
    if call != "maintain":
        for name in ("threads", "maintainer", "durability"):
            with pytest.raises(TypeError, match=f"`{name}` is not supported on Spark: "):
                CALLS[call](**{name: None})
        with pytest.raises(TypeError, match="`time` is a TimeSettings, not str"):
            CALLS[call](time="[0, 5]")


def test_inputs_are_frames() -> None:
    rows: Any = [("a", "b")]
    with pytest.raises(TypeError, match="`edge` is not a DataFrame, but list"):
        ts.derive(PROGRAM, {"edge": rows})


def test_imports_and_exports_are_told_all_at_once() -> None:
    program = """
        @import p :- csv{ resource = "p.csv", format = (int) } .
        @import r :- csv{ resource = "r.csv", format = (int) } .
        q(?x) :- p(?x), r(?x) .
        @export q :- csv{ resource = "q.csv" } .
    """
    for call in (ts.derive, ts.check):
        with pytest.raises(tl.ProgramError) as told:
            call(program, {})
        faults = told.value.diagnostics
        assert [fault.code for fault in faults] == ["E864"] * 3
        assert faults[0].help == 'pass their frames: {"p": …, "r": …}'
        assert faults[2].message == "`q` is exported, but here frames go out"


@contextmanager
def no_jobs(spark: SparkSession) -> Iterator[None]:
    """Fail if the block runs a job; a server of Connect runs in the same Java."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    yield
    assert scheduler.numTotalJobs() == before


def test_checking_and_deriving_run_no_job(spark: SparkSession, session: SparkSession, tmp_path: Path) -> None:
    session.range(100).selectExpr("cast(id as string) x", "'b' y").write.parquet(str(tmp_path / "edge"))
    edges = session.read.schema("x string, y string").parquet(str(tmp_path / "edge"))
    with no_jobs(spark):
        found = ts.check(PROGRAM, {"edge": edges})
        assert found["reach"].simpleString() == "struct<x:string,y:string>"
        assert [stratum.predicates for stratum in found.strata] and not found.warnings
        assert (found.strategy, found.tasks) == ("task", 1) and "memory of a worker" in found.reason
        assert ts.check(PROGRAM, {"edge": edges}, partitions=2).strategy == "exchange"
        derived = ts.derive(PROGRAM, {"edge": edges})
        derived["reach"].schema  # noqa: B018
        ts.query(PROGRAM, 'reach("a", ?y)', {"edge": edges})
    with pytest.raises(TypeError, match="`edge` is a schema, and here a DataFrame is needed"):
        ts.derive(PROGRAM, {"edge": edges.schema})
    assert derived["reach"].count() == 100


def test_queries_warn_on_the_driver(session: SparkSession) -> None:
    edges = session.createDataFrame([("a", "b")], "x string, y string")
    with pytest.warns(tl.ProgramWarning, match="W105"):
        ts.query(PROGRAM, "reach(a, ?y)", {"edge": edges})


@pytest.mark.parametrize(
    "statement",
    [
        '@import q :- csv{ resource = "PATH", format = (string) } .',
        '@import q :- jsonl{ resource = "PATH", format = (string) } .',
    ],
)
def test_a_task_reads_no_file(tmp_path: Path, statement: str) -> None:
    """Even a program that was not checked: the sandbox of a task is closed."""
    secret = tmp_path / "secret.csv"
    secret.write_text("secret\n")
    program = tl.parse(statement.replace("PATH", str(secret)) + " p(?x) :- q(?x) .")
    special = {ERRORS: ("message",), "rejects": (), "violations": ()}
    task = DerivationTask(program, {}, AllFacts(()), {"message": pa.string()}, special)
    (batch,) = task([])
    (row,) = batch.to_pylist()
    assert row["predicate"] == ERRORS and "E529" in row["message"] and "secret\\n" not in row["message"]
