"""Changes of facts on Spark: random programs and scripts, by every algorithm, are as from scratch."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.maintenance.columnar import ColumnarBench, Facts
from tests.maintenance.laboratory import Laboratory
from tests.maintenance.scripts import Script, graph_scripts, program_scripts
from tests.maintenance.test_laws import ALGORITHMS
from tidelog.engine.spark.engine import SparkEngine
from tidelog.engine.spark.settings import SparkSettings
from tidelog.logic.program import Program

pytestmark = pytest.mark.slow

FEW = settings(max_examples=max(2, settings().max_examples // 50))


class SparkBench(ColumnarBench):
    """The bench of facts on Spark."""

    def __init__(self, session: Any, program: Program, explicit: Facts) -> None:
        far = SparkSettings(session, resident_facts=-1)
        super().__init__(program, explicit, make=partial(SparkEngine, far))  # type: ignore[arg-type]
        engine: Any = self.engine
        for relation in engine.relations():
            engine.move_to_spark(relation)

    def check(self, program: Program) -> None:
        """Nothing: of most facts there is nothing here."""


@FEW
@given(
    script=st.one_of(graph_scripts(), program_scripts()),
    name=st.sampled_from(sorted(ALGORITHMS)),
    rows_of_a_job=st.sampled_from([0, 3, 100_000]),  # never all of a relation, soon, at once
)
def test_random_changes_are_as_from_scratch(
    script: Script, name: str, rows_of_a_job: int, spark: Any
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tidelog.engine.spark.fetching.ROWS_OF_A_JOB", rows_of_a_job)
        laboratory = Laboratory(partial(SparkBench, spark), script.program, script.start)
        for change in script.changes:
            laboratory.apply(ALGORITHMS[name], change)
