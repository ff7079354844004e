"""What every incremental algorithm must obey, on every engine, over random programs and changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from tests.maintenance.laboratory import Bench, Facts, Laboratory
from tests.maintenance.scripts import Script, scripts, tangled_scripts
from tidelog.logic.program import Program
from tidelog.maintenance.counting import CountingDeleteAndRederive
from tidelog.maintenance.dred import DeleteAndRederive
from tidelog.maintenance.rank_counting import RankCounting
from tidelog.maintenance.task import Algorithm

ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "dred": DeleteAndRederive,
    "counting": CountingDeleteAndRederive,
    "rank-counting": RankCounting,
}
Make = Callable[[Program, Facts], Bench]
algorithms = pytest.mark.parametrize("name", ALGORITHMS)


@algorithms
@given(script=scripts())
def test_what_is_maintained_is_what_follows_from_scratch(bench: Make, name: str, script: Script) -> None:
    laboratory = Laboratory(bench, script.program, script.start)
    for change in script.changes:
        laboratory.apply(ALGORITHMS[name](), change)


@algorithms
@given(script=tangled_scripts())
def test_rules_that_are_not_stratified_together_are_exchanged(bench: Make, name: str, script: Script) -> None:
    laboratory = Laboratory(bench, script.program, script.start)
    for change in script.changes:
        laboratory.apply(ALGORITHMS[name](), change)
