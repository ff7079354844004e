"""Queries on Spark: by every strategy the answers of the columnar engine, whatever lies where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tests.corpus import cases
from tests.query.test_strategies import ASKED, rows, text_of
from tests.spark.test_engine import EXECUTORS, REACH
from tidelog.__main__ import main
from tidelog.logic.program import Query
from tidelog.query.registry import AUTO, STRATEGIES

SLOWLY, ALWAYS = 5, 4  # of so many questions one is asked at all; of so many of these one always


def parameters() -> list[Any]:
    asked = [(name, query, strategy) for strategy in (AUTO, *STRATEGIES) for name, query in ASKED]
    return [
        pytest.param(
            *each,
            id=f"{each[0]}: {text_of(each[1])} {each[2]}",
            marks=() if number % ALWAYS == 0 else (pytest.mark.slow,),
        )
        for number, each in enumerate(asked[::SLOWLY])
    ]


@pytest.mark.parametrize(("name", "query", "strategy"), parameters())
def test_queries_of_the_corpus(name: str, query: Query, strategy: str, spark: Any) -> None:
    program = next(case for case in cases() if case.name == name).program()
    expected = tl.Reasoner(program)
    expected.materialise()
    reasoner = tl.Reasoner(program, engine=tl.spark(spark, strategy=EXECUTORS))
    if strategy == "lookup":
        reasoner.materialise()
    answers = reasoner.query(text_of(query), strategy)
    assert rows(answers) == rows(expected.query(text_of(query), "lookup"))
    assert answers.columns == query.variables


@pytest.mark.parametrize("strategy", [AUTO, *STRATEGIES])
def test_queries_of_facts_that_came_as_a_frame(strategy: str, spark: Any) -> None:
    edges = [(number, number + 1) for number in range(20)]
    reasoner = tl.Reasoner(tl.parse(REACH), engine=tl.spark(spark, strategy=EXECUTORS))
    reasoner.insert("edge", spark.createDataFrame(edges))
    if strategy == "lookup":
        reasoner.materialise()
    assert rows(reasoner.query("reach(15, ?x)", strategy)) == {(str(number),) for number in range(16, 21)}


@pytest.mark.parametrize("strategy", [AUTO, "magic"])
def test_a_query_from_the_command_line(
    strategy: str, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "reach.rls"
    program.write_text(f"edge(a, b) . edge(b, c) . edge(c, d) . {REACH}")
    conf = ["--engine", "spark", "--conf", "tidelog.strategy=executor-fixpoint", "--strategy", strategy]
    assert main(["query", str(program), "reach(b, ?x)", *conf, "--format", "csv"]) == 0
    header, *answers = capsys.readouterr().out.split()
    assert (header, sorted(answers)) == ("x", ["c", "d"])
