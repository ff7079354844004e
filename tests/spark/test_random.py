"""Random programs by each strategy, on classic sessions and on Connect: the facts of the reference.

Several programs run as one, with predicates of their own, so that a session runs few jobs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.spark.test_cases import text
from tests.strategies import EVERYTHING, Case, cases
from tidelog import spark as ts
from tidelog.engine import reference
from tidelog.errors import EvaluationError
from tidelog.logic.conversions import plain
from tidelog.spark.strategies import STRATEGY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

MOST = 500  # facts of a program
PROGRAMS, TIMES = 10, 10  # programs that run as one, and how often
NOT_HERE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


def ends(case: Case) -> bool:
    try:
        reference.evaluate(tl.parse(case.text), max_facts=MOST)
    except EvaluationError:
        return False
    return True


def together(several: list[Case]) -> str:
    """One program of several, none of which reads a predicate of another."""
    return "\n".join(
        re.sub(r"\b([ep]\d+)\(", rf"c{number}_\1(", case.text) for number, case in enumerate(several)
    )


LISTS = st.lists(cases(EVERYTHING).filter(ends), min_size=PROGRAMS, max_size=PROGRAMS)


@pytest.mark.parametrize("strategy", ["task", "exchange", "joins"])
@settings(max_examples=TIMES, deadline=None, phases=[Phase.generate], suppress_health_check=NOT_HERE)
@given(LISTS)
def test_random_programs(session: SparkSession, strategy: str, several: list[Case]) -> None:
    """Compare what a strategy derives with the reference."""
    program = tl.parse(together(several))
    expected = reference.evaluate(program)
    session.conf.set(STRATEGY, strategy)
    try:
        derived = ts.derive(program, {}, outputs=[*program.derived])
        rows = derived.facts.collect()
    finally:
        session.conf.unset(STRATEGY)
    found: dict[str, set[tuple[str, ...]]] = {name: set() for name in derived}
    for row in rows:
        columns = derived.layout[row.predicate].values()
        found[row.predicate].add(tuple(text(row[column]) for column in columns))
    for name, each in found.items():
        wanted = {tuple(map(plain, row)) or ("true",) for row in expected[name]}
        assert each == wanted, (name, together(several))
