"""Programs whose facts lie with several tasks of a barrier stage: they derive what one task derives."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog as tl
from tests.corpus import cases
from tidelog import spark as ts
from tidelog.spark.shipping import translated_errors
from tidelog.spark.strategies import PER_BYTE, STRATEGY, TASK_MEMORY, VALUE
from tidelog.spark.worker import BarrierTask
from tidelog.temporal.temporal import TimeSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROGRAM = """
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) .
far(?x, #count(?y)) :- reach(?x, ?y) .
apart(?x, ?y) :- edge(?x, _), edge(_, ?y), ~reach(?x, ?y) .
some() :- far(_, ?n), ?n > 5 .
edge("in", "text") .
@output reach, far, apart, some, edge .
"""
GRAPH = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) ."
TIMED = "q(?x) :- diamondminus[0, 1] p(?x) ."
UNDIVIDED = "p(?x, ?z) :- p(?x, ?y), boxminus[0, 1] p(?y, ?z) ."
ENDLESS = "p(?x) :- diamondminus[1, 1] p(?x) ."
SENSORS = """
@declare heat(sensor: string, level: int) .
hot(?s) :- boxminus[0, 2] heat(?s, ?l), ?l > 50 .
alarm(?s) :- hot(?s), ~diamondminus[0, 1] muted(?s) .
hall_alarm(?h) :- alarm(?s), at(?s, ?h) .
quiet(?h) :- hall(?h), ~hall_alarm(?h), diamondminus[0, 1] power() .
hall(?h) :- at(_, ?h) .
next(?h) :- diamondminus[1, 1] hall_alarm(?h), next(?h) . next(?h) :- hall_alarm(?h) .
muted("s1")@[3, 4] . power()@[0, 20] .
@output hot, alarm, hall_alarm, quiet, hall, next, muted .
"""


@pytest.fixture
def edges(session: SparkSession) -> DataFrame:
    rows = [(f"n{number}", f"n{number + 1}") for number in range(12)]
    return session.createDataFrame(rows, "x string, y string")


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_two_tasks_derive_what_one_derives(edges: DataFrame) -> None:
    divided, whole = (ts.derive(PROGRAM, {"edge": edges}, partitions=count) for count in (2, 1))
    assert [frame.schema for frame in divided.values()] == [frame.schema for frame in whole.values()]
    with divided.persist(), whole.persist():
        for name in whole:
            assert rows_of(divided[name]) == rows_of(whole[name])  # each fact once
        assert divided["reach"].take(1) and divided["reach"].union(divided["edge"]).count() == 92
    assert {row.predicate for row in divided.facts.collect()} == set(whole)


def test_errors_of_one_task_are_those_of_all(session: SparkSession, edges: DataFrame) -> None:
    dirty = edges.unionAll(session.createDataFrame([("bad", None)], "x string, y string"))
    with pytest.raises(tl.DataError, match="E504"), translated_errors():
        ts.derive(PROGRAM, {"edge": dirty}, partitions=2)["far"].collect()
    kept = ts.derive(PROGRAM, {"edge": dirty}, partitions=2, on_error="collect")
    assert [row.row for row in kept.rejects.collect()] == ['["bad", null]']
    constrained = PROGRAM + "bottom() :- far(?x, 12) ."
    with pytest.raises(tl.Inconsistent, match="E601"), translated_errors():
        ts.derive(constrained, {"edge": edges}, partitions=2)["far"].collect()
    told = ts.derive(constrained, {"edge": edges}, partitions=2, on_violation="keep")
    assert [row.code for row in told.violations.collect()] == ["E601"]
    with pytest.raises(tl.Stopped), translated_errors():
        ts.derive("n(0) . n(?x + 1) :- n(?x) .", {}, partitions=2, max_facts=1000)["n"].collect()


def attempts(session: SparkSession, group: str) -> list[int]:
    """Return how many attempts each stage of a group of jobs has had."""
    tracker = session.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return [stage.currentAttemptId + 1 for stage in stages if stage]


@pytest.mark.parametrize("way", ["output", "facts", "save"])
def test_an_error_that_comes_again_is_raised_by_the_first_attempt(
    spark: SparkSession, way: str, tmp_path: Path
) -> None:
    dirty = spark.createDataFrame([("a", "b"), ("bad", None)], "x string, y string")
    derived = ts.derive(GRAPH, {"edge": dirty}, partitions=2)
    group = f"attempts, {way}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        with pytest.raises(tl.DataError, match="E504"), translated_errors():
            if way == "save":
                derived.save(tmp_path / "saved")
            else:
                (derived["reach"] if way == "output" else derived.facts).collect()
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description"):
            spark.sparkContext.setLocalProperty(key, None)  # type: ignore[arg-type]
    found = attempts(spark, group)
    assert found and set(found) == {1}


@pytest.fixture
def sensors(session: SparkSession) -> dict[str, DataFrame]:
    rows = [(f"s{number}", 40 + 3 * number, number % 4, number % 4 + 6) for number in range(12)]
    at = [(f"s{number}", f"hall {number % 3}") for number in range(12)]
    return {
        "heat": session.createDataFrame(rows, "sensor string, level int, start bigint, end bigint"),
        "at": session.createDataFrame(at, "sensor string, hall string"),
    }


def test_rules_over_time_are_divided(session: SparkSession, sensors: dict[str, DataFrame]) -> None:
    settings = {"time": TimeSettings(horizon=tl.read_interval("[0, 30]"))}
    divided, whole = (ts.derive(SENSORS, sensors, partitions=count, **settings) for count in (2, 1))
    assert [frame.schema for frame in divided.values()] == [frame.schema for frame in whole.values()]
    with divided.persist(), whole.persist():
        found = {name: rows_of(frame) for name, frame in divided.items()}
        assert found == {name: rows_of(frame) for name, frame in whole.items()}
        assert all(found.values())
    session.conf.set(TASK_MEMORY, "1g")
    try:
        rows = int(1.2 * (1 << 30) / len(sensors["heat"].columns) / VALUE / PER_BYTE)
        checked = ts.check(SENSORS, sensors, sizes={"heat": rows}, **settings)
        assert (checked.strategy, checked.tasks) == ("exchange", 2)
        assert ts.check(UNDIVIDED, {}, sizes={"p": rows}).strategy == "task"
    finally:
        session.conf.unset(TASK_MEMORY)


def test_constraints_over_time_are_those_of_one_task(
    session: SparkSession, sensors: dict[str, DataFrame]
) -> None:
    program = """
        hot(?s) :- boxminus[0, 2] heat(?s, ?l) .
        bottom() :- at(?s, "hall 1"), boxminus[0, 3] hot(?s) .
    """
    said = []
    for count in (2, 1):
        kept = ts.derive(program, sensors, partitions=count, on_violation="keep")
        said.append([tuple(row) for row in kept.violations.collect()])
        with pytest.raises(tl.Inconsistent, match="E601"), translated_errors():
            ts.derive(program, sensors, partitions=count)["hot"].collect()
    assert said[0] == said[1] and "in 4 ways, first at [5, 6]" in said[0][0][1]
    dirty = sensors["heat"].unionAll(session.createDataFrame([("bad", 1, 9, 3)], sensors["heat"].schema))
    with pytest.raises(tl.DataError, match="E619"), translated_errors():
        ts.derive(program, {**sensors, "heat": dirty}, partitions=2)["hot"].collect()


def test_where_it_runs_is_known_before(session: SparkSession, edges: DataFrame) -> None:
    inputs = {"edge": edges}
    assert (ts.check(PROGRAM, inputs).strategy, ts.check(PROGRAM, inputs).tasks) == ("task", 1)
    assert ts.check(PROGRAM, inputs, partitions=2).strategy == "exchange"
    assert not ts.check(PROGRAM, inputs).warnings
    too_large = ts.check(PROGRAM, inputs, sizes={"edge": 1_000_000_000})
    assert too_large.strategy == "joins" and "tasks of one machine share its memory" in too_large.reason
    for arguments, match in (
        ({"partitions": 3}, r"E873(.|\n)*spark\.cores\.max"),
        ({"program": UNDIVIDED, "partitions": 2}, r"E873(.|\n)*boxminus\[0, 1\] p"),
        ({"program": ENDLESS, "partitions": 2}, r"E873(.|\n)*may derive facts for ever"),
    ):
        given: dict[str, Any] = {"program": PROGRAM, "inputs": {}, **arguments}
        with pytest.raises(tl.ProgramError, match=match):
            ts.derive(**given)
    try:
        session.conf.set(STRATEGY, "exchange")
        assert ts.check(PROGRAM, inputs).tasks == 2
        session.conf.set(STRATEGY, "joins")
        assert ts.check(PROGRAM, inputs).strategy == "joins"
        with pytest.raises(tl.ProgramError, match="E873"):
            ts.check(TIMED)
        session.conf.set(STRATEGY, "frames")
        with pytest.raises(tl.ProgramError, match="unknown strategy `frames`"):
            ts.check(PROGRAM, inputs)
        session.conf.set(STRATEGY, "auto")
        session.conf.set(TASK_MEMORY, "50g")
        large = ts.check(PROGRAM, inputs, sizes={"edge": 160_000_000})
        assert (large.strategy, large.tasks) == ("exchange", 2)
        told = "7,680,000,000 bytes, which take about 61.4 GB in one task; 53.7 GB for each task ("
        assert told in large.reason
        too_large = ts.check(PROGRAM, inputs, sizes={"edge": 1_000_000_000})
        assert too_large.strategy == "joins" and "cannot run at once: there are 2 slots" in too_large.reason
        undivided = ts.check(UNDIVIDED, {}, sizes={"p": 1_000_000_000})
        assert undivided.strategy == "task"
        assert undivided.reason.startswith("one task derives everything: its facts have to fit in the memory")
        assert "192.0 GB in one task" in undivided.reason and "boxminus[0, 1] p" in undivided.reason
        session.conf.set(TASK_MEMORY, "100")
        pairs = edges.sparkSession.range(10).selectExpr("id", "id + 1")
        assert ts.check(PROGRAM, {"edge": pairs}).strategy == "joins"
    finally:
        for key in (STRATEGY, TASK_MEMORY):
            session.conf.unset(key)


@pytest.mark.parametrize("strategy", ["exchange", "joins", "nonsense"])
def test_queries_and_explanations_do_not_ignore_the_strategy(session: SparkSession, strategy: str) -> None:
    edges = session.createDataFrame([(1, 2)], "x int, y int")
    told = "unknown strategy" if strategy == "nonsense" else f"runs in one task, but {STRATEGY}={strategy}"
    session.conf.set(STRATEGY, strategy)
    try:
        for ask in (ts.query, ts.explain):
            with pytest.raises(tl.ProgramError, match=f"E873(.|\\n)*{told}"):
                ask("p(?x, ?y) :- e(?x, ?y) .", "p(1, 2)", {"e": edges})
        session.conf.set(STRATEGY, "task")
        assert ts.query("p(?x, ?y) :- e(?x, ?y) .", "p(1, ?y)", {"e": edges}).collect() == [(2,)]
    finally:
        session.conf.unset(STRATEGY)


DIVIDED = [case for case in cases() if case.name.startswith(("negation/", "recursion/"))][::6]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in DIVIDED])
def test_cases_of_the_corpus(case: Any, session: SparkSession) -> None:
    if case.error is not None or case.path.with_suffix(".data").exists():
        pytest.skip("a program that does not run, or reads files")
    divided, whole = (ts.derive(case.program(), {}, partitions=count) for count in (2, 1))
    with divided.persist(), whole.persist():
        assert {name: rows_of(frame) for name, frame in divided.items()} == {
            name: rows_of(frame) for name, frame in whole.items()
        }


def ending(folder: Path, is_killed: bool) -> type[BarrierTask]:
    """Tasks of which one ends once; a class of this function, so that it goes to workers as a whole."""
    died = folder / "died"

    class Ending(BarrierTask):
        def _derive(self, batches: Iterable[Any], *met: Any) -> Iterator[Any]:
            from pyspark import BarrierTaskContext

            if BarrierTaskContext.get().partitionId() == 1 and not died.exists():
                batches = self._ended(batches)
            return super()._derive(batches, *met)

        def _ended(self, batches: Iterable[Any]) -> Iterator[Any]:
            yield from batches
            died.touch()
            if is_killed:
                os._exit(1)
            raise RuntimeError("on purpose")

    return Ending


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_task_that_fails_is_tried_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_killed: bool
) -> None:
    edges = spark.createDataFrame([(number, number + 1) for number in range(12)], "x int, y int")
    expected = rows_of(ts.derive(GRAPH, {"edge": edges}, partitions=1)["reach"])
    monkeypatch.setattr("tidelog.spark.stages.BarrierTask", ending(tmp_path, is_killed))
    assert rows_of(ts.derive(GRAPH, {"edge": edges}, partitions=2)["reach"]) == expected
    assert Path(tmp_path, "died").exists()


def ending_in(folder: Path, exchange: int) -> type[BarrierTask]:
    """Tasks of which one is killed, once, before one of its exchanges with the other."""
    died = folder / "died"

    class Ending(BarrierTask):
        def _derive(self, batches: Iterable[Any], *met: Any) -> Iterator[Any]:
            from tidelog.engine.exchange.tasks import ExchangeTask

            swap, done = ExchangeTask._swap, []

            def ended(task: Any, stage: int, frames: Any) -> Any:
                done.append(stage)
                if task.mesh.number == 1 and len(done) == exchange and not died.exists():
                    died.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                return swap(task, stage, frames)

            ExchangeTask._swap = ended  # type: ignore[method-assign,assignment]
            try:
                yield from super()._derive(batches, *met)
            finally:
                ExchangeTask._swap = swap  # type: ignore[method-assign]

    return Ending


# The counts that tasks begin with, the hand-out of given facts, and the round after it, which is the last.
@pytest.mark.slow
@pytest.mark.parametrize("exchange", [1, 4, 5])
def test_a_task_that_is_killed_in_any_round_is_tried_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exchange: int
) -> None:
    edges = spark.createDataFrame([(number, number + 1) for number in range(12)], "x int, y int")
    expected = rows_of(ts.derive(GRAPH, {"edge": edges}, partitions=1)["reach"])
    monkeypatch.setattr("tidelog.spark.stages.BarrierTask", ending_in(tmp_path, exchange))
    assert rows_of(ts.derive(GRAPH, {"edge": edges}, partitions=2)["reach"]) == expected
    assert Path(tmp_path, "died").exists()


@pytest.mark.parametrize("partitions", [1, 2])
def test_facts_that_do_not_fit_are_an_error(spark: SparkSession, partitions: int) -> None:
    program = "pair(?x, ?y) :- node(?x), node(?y) ."
    nodes = spark.range(6000).selectExpr("id AS x")
    numbers = spark.range(3_000_000).selectExpr("id AS x", "id + 1 AS y")
    rows = "6,000" if partitions == 1 else r"[\d,]+"
    help = r"`partitions=2`, at least" if partitions == 1 else r"`partitions=4` would be needed, .* 2 slots"
    for memory, rules, inputs, match in (
        (
            "200m",
            program,
            {"node": nodes},
            rf"E882(.|\n)*do not fit in 210 MB(.|\n)*{rows} rows(.|\n)*help: .*{help}",
        ),
        # A worker that ran other tasks before may hold that much before it has read a row.
        ("150m", "q(?x) :- e(?x, ?x) .", {"e": numbers}, r"E882(.|\n)*(`partitions=|it had read 0 rows)"),
    ):
        spark.conf.set(TASK_MEMORY, memory)
        try:
            with pytest.raises(tl.Stopped, match=match), translated_errors():
                found = ts.derive(rules, inputs, partitions=partitions)
                next(iter(found.values())).count()
        finally:
            spark.conf.unset(TASK_MEMORY)
    assert ts.derive(program, {"node": nodes.limit(10)}, partitions=partitions)["pair"].count() == 100


def unreachable() -> type[BarrierTask]:
    """Tasks that tell the others a wrong address; a class of this function, so that it goes to workers."""

    class Unreachable(BarrierTask):
        def _meet(self, *where: Any) -> Any:
            barrier: Any = import_module("tidelog.spark.worker")
            listener = barrier.Listener

            def deaf(host: str) -> Any:
                made = listener(host)
                made.address = "127.0.0.1:9"  # where nobody listens
                return made

            barrier.Listener = deaf
            try:
                return super()._meet(*where)
            finally:
                barrier.Listener = listener

    return Unreachable


@pytest.mark.slow
def test_executors_that_cannot_reach_one_another_are_told_of_joins(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = spark.createDataFrame([(1, 2), (2, 3)], "x int, y int")
    monkeypatch.setattr("tidelog.spark.stages.BarrierTask", unreachable())
    match = r"E690(.|\n)*cannot reach task(.|\n)*help: .*set `tidelog.strategy=joins`$"
    with pytest.raises(tl.TidelogError, match=match), translated_errors():
        ts.derive(GRAPH, {"edge": edges}, partitions=2)["reach"].collect()
