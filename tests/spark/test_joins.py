"""Iterated joins derive what the reference derives, and read and write what a task does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import tidelog as tl
from tests.strategies import EVERYTHING, Case, cases
from tidelog import spark as ts
from tidelog.engine import reference
from tidelog.engine.events import Tally
from tidelog.engine.interrupts import Limits
from tidelog.errors import EvaluationError
from tidelog.logic.conversions import exact
from tidelog.logic.program import Atom, Rule, Variable
from tidelog.logic.type_inference import infer
from tidelog.spark import joins
from tidelog.spark.joins import AFTER, BEFORE, ROWS, BatchEvaluation, ComparedColumns, Joins, _program
from tidelog.spark.shipping import translated_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 400  # facts of a random program: each round of each of them is a job


@contextmanager
def chosen(session: SparkSession, **settings: str) -> Iterator[SparkSession]:
    """Give a session with settings, which are as before afterwards."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    before = {name: session.conf.get(name, None) for name in named}
    for name, value in named.items():
        session.conf.set(name, value)
    yield session
    for name, known in before.items():
        if known is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, known)


@pytest.fixture
def few(spark: SparkSession) -> Iterator[SparkSession]:
    with chosen(spark, spark__sql__shuffle__partitions="2", spark__sql__adaptive__enabled="false") as session:
        yield session


@pytest.fixture
def joined(session: SparkSession) -> Iterator[SparkSession]:
    """A session in which programs are derived by joins, of few partitions."""
    with chosen(session, tidelog__strategy="joins", spark__sql__shuffle__partitions="2") as found:
        yield found


def check(few: SparkSession, text: str) -> None:
    program = tl.parse(text)
    expected = reference.evaluate(program, max_facts=MOST)
    joins = Joins(few, program, ComparedColumns(program, infer(program)), Limits(Tally()))
    joins.add_program_facts()
    joins.run()
    for name in program.predicates:
        held = joins.encodings(name)
        rows = sorted(map(repr, (tuple(row) for row in joins.frames[name].collect())))
        wanted = [
            tuple(
                exact(value) if each.type is None else value.content
                for value, each in zip(row, held, strict=False)
            )
            or (True,)
            for row in expected[name]
        ]
        assert rows == sorted(map(repr, wanted)), name


def test_all_kinds_of_literals(few: SparkSession) -> None:
    check(
        few,
        """
        e(1, 2) . e(2, 3) . e(3, 1) . e(3, 4) . k(a) . k("b"@en) . k(2.5) . k(1) . same(2, 2) . same(2, 3) .
        p(?x, ?y) :- e(?x, ?y) . p(?x, ?z) :- p(?x, ?y), p(?y, ?z) .
        n(?x) :- e(?x, _) . n(?y) :- e(_, ?y) .
        unreached(?x, ?y) :- n(?x), n(?y), ~p(?x, ?y) .
        reached(?x, #count(?y)) :- p(?x, ?y) .
        total(#sum(?n, ?x)) :- reached(?x, ?n) .
        odd(?x, ?x * 2 + 1) :- n(?x), ?x > 1 .
        both(?x) :- k(?x), n(?x) .
        many() :- total(?n), ?n > 3 .
        short(a, ?x) :- many(), k(?x), ~both(?x), STRLEN(STR(?x)) < 4 .
        next(?y) :- n(?x), ?y = ?x + 1, ~n(?y), ?y < 100 .
        diagonal(?x) :- same(?x, ?x) . three() :- e(3, _), ~e(9, _) . text("x", ?y) :- k(?y), ISIRI(?y) .
        """,
    )


@pytest.mark.slow
@settings(
    max_examples=settings().max_examples // 15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cases(EVERYTHING))
def test_random_programs(few: SparkSession, case: Case) -> None:
    with suppress(EvaluationError):  # too many facts
        check(few, case.text)


GRAPH = """
@declare kind(node: string, weight: decimal) .
node(?x) :- edge(?x, _) . node(?y) :- edge(_, ?y) .
path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), path(?y, ?z) .
apart(?x, ?y) :- node(?x), node(?y), ~path(?x, ?y), ?x != ?y .
reached(?x, #count(?y)) :- path(?x, ?y) .
heavy(?x, ?w * 2.5) :- kind(?x, ?w), node(?x), ?w > 1 .
mixed(?x) :- node(?x) . mixed(?w) :- kind(_, ?w) . mixed(<http://x.org/>) . mixed("a"@en) .
many() :- reached(_, ?n), ?n > 3 .
bottom() :- kind(?x, ?w), ?w > 100 .
"""


def frames_of(session: SparkSession) -> dict[str, DataFrame]:
    edges = [(f"n{number}", f"n{(number * 7 + 3) % 12}") for number in range(12)]
    kinds = [(f"n{number}", f"{number}.5") for number in range(0, 24, 2)]
    return {
        "edge": session.createDataFrame(edges, "a string, b string"),
        "kind": session.createDataFrame(kinds, "node string, weight string"),
    }


def rows_of(derived: ts.Derived) -> dict[str, list[tuple[Any, ...]]]:
    with derived.persist():
        return {name: sorted(map(tuple, frame.collect())) for name, frame in derived.items()}


@pytest.mark.parametrize("session", ["spark", pytest.param("connect", marks=pytest.mark.slow)], indirect=True)
def test_joins_derive_what_a_task_derives(joined: SparkSession) -> None:
    found = ts.derive(GRAPH, frames_of(joined))
    whole = ts.derive(GRAPH, frames_of(joined), partitions=1)
    assert [frame.schema for frame in found.values()] == [frame.schema for frame in whole.values()]
    assert rows_of(found) == rows_of(whole)


def test_parts_of_a_recursion_become_one(joined: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joins, "CONSOLIDATED", 2)
    links = joined.range(4).selectExpr("'s' AS site", "string(id) AS x", "string(id + 1) AS y")
    program = """
        reach(?s, ?x, ?y) :- link(?s, ?x, ?y) .
        reach(?s, ?x, ?z) :- reach(?s, ?x, ?y), link(?s, ?y, ?z) .
    """

    def refuse(*setting: object) -> None:
        raise AssertionError(f"other threads use this session, too: {setting}")

    # Unions of frames that are kept failed with "key not found" where Spark knew of columns they lack.
    monkeypatch.setattr(type(joined.conf), "set", refuse)
    assert ts.derive(program, {"link": links})["reach"].count() == 10
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("of", "rows", "good", "bad"),
    [
        ("bigint", [("a", 1), ("b", None), (None, 3)], {("a", 1)}, ['["b",null]', '[null,"3"]']),
        pytest.param(
            "double",
            [("a", 1.5), ("b", None), ("c", float("nan"))],
            {("a", 1.5)},
            ['["b",null]', '["c",NaN]'],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_missing_value_is_an_error_of_data_or_a_rejected_row(
    joined: SparkSession, of: str, rows: list[Any], good: set[Any], bad: list[str]
) -> None:
    """Columns that Spark holds as they are never pass through Python; doubles do."""
    frame = joined.createDataFrame(rows, f"x string, y {of}")
    program = "q(?x, ?y) :- p(?x, ?y) ."
    with pytest.raises(tl.DataError, match=r"E504\]: .* \(column `[xy]`\)") as told, translated_errors():
        ts.derive(program, {"p": frame})["q"].collect()
    assert {item.place for item in told.value.diagnostics} == {"p"}
    derived = ts.derive(program, {"p": frame}, on_error="collect")
    assert {tuple(row) for row in derived["q"].collect()} == good
    found = {(row.place, row.code, row.row.replace(" ", "")) for row in derived.rejects.collect()}
    assert found == {("p", "E504", text) for text in bad}


@pytest.mark.slow
def test_bad_rows_and_violations(few: SparkSession) -> None:
    frames = frames_of(few)
    bad = few.createDataFrame([("n1", "x"), (None, "1"), ("n2", "200")], frames["kind"].schema)
    frames = {"edge": frames["edge"], "kind": frames["kind"].union(bad)}
    with chosen(few, tidelog__strategy="joins"):
        derived = ts.derive(GRAPH, frames, on_error="collect", on_violation="keep")
        assert sorted(row.row for row in derived.rejects.collect()) == ['["n1", "x"]', '[null, "1"]']
        assert [row.code for row in derived.violations.collect()] == ["E601"]
        with pytest.raises(tl.DataError, match="E504"), translated_errors():
            ts.derive(GRAPH, frames)["heavy"].collect()
        with pytest.raises(tl.Inconsistent, match="E601"):
            ts.derive(GRAPH, frames, on_error="skip")
        with pytest.raises(tl.Stopped, match="E611"):
            ts.derive(GRAPH, frames_of(few), max_facts=20)


def test_groups_are_not_cut() -> None:
    terms = (Variable("x"), Variable("y"))
    task = BatchEvaluation(_program(Rule(Atom(AFTER, terms), (Atom(BEFORE, terms),))), (), (), group=("x",))
    lengths = [ROWS - 1, 3, ROWS, 1, 2 * ROWS, 5]  # of groups, in order
    groups = np.repeat(np.arange(len(lengths)), lengths)
    whole = pa.record_batch({"x": groups, "y": np.arange(len(groups))})
    batches = [whole.slice(start, 1000) for start in range(0, whole.num_rows, 1000)]
    parts = [pa.Table.from_batches(part) for part in task._parts(batches)]
    assert pa.concat_tables(parts).equals(pa.Table.from_batches([whole]))
    held = [set(part.column("x").to_pylist()) for part in parts]
    assert [sorted(each) for each in held] == [[0, 1, 2, 3], [4], [5]]  # a part ends with a batch
    together = [pa.Table.from_batches(part) for part in replace(task, group=())._parts(batches)]
    assert [part.num_rows for part in together] == [whole.num_rows]
