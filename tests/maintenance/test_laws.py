"""What every incremental algorithm must obey, on every engine, over random programs and changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.maintenance.laboratory import Bench, Facts, Laboratory, closing, unsplit
from tests.maintenance.scripts import (
    Script,
    closure_scripts,
    graph_scripts,
    program_scripts,
    tangled_scripts,
)
from tidelog.logic.program import Program
from tidelog.maintenance.counting import ForwardBackwardForward, RankCounting
from tidelog.maintenance.registry import ALGORITHMS as BY_NAME
from tidelog.maintenance.task import Algorithm

DEPTHS = {f"depth {depth}": ForwardBackwardForward(depth) for depth in (0, 3)}
READABLE = {"rank-counting as it reads": RankCounting(is_compiled=False)}
ALGORITHMS: dict[str, Algorithm] = {**BY_NAME, **DEPTHS, **READABLE}
Make = Callable[[Program, Facts], Bench]
algorithms = pytest.mark.parametrize("name", ALGORITHMS)
fewer = settings(max_examples=settings().max_examples * 2 // 5)


def run(bench: Make, script: Script, choose: Callable[[int], Algorithm], modules: bool = False) -> None:
    """Carry out a script, each transaction by the algorithm chosen for it; everything is compared."""
    laboratory = Laboratory(bench, script.program, script.start, modules)
    for number, change in enumerate(script.changes):
        laboratory.apply(choose(number), change)


@algorithms
@given(script=graph_scripts())
def test_over_a_graph_all_is_as_from_scratch(bench: Make, name: str, script: Script) -> None:
    run(bench, script, lambda number: ALGORITHMS[name])


@algorithms
@fewer
@given(script=program_scripts())
def test_over_random_programs_all_is_as_from_scratch(bench: Make, name: str, script: Script) -> None:
    run(bench, script, lambda number: ALGORITHMS[name])


@algorithms
@fewer
@given(script=tangled_scripts())
def test_rules_that_are_not_stratified_together_are_exchanged(bench: Make, name: str, script: Script) -> None:
    run(bench, script, lambda number: ALGORITHMS[name])


@given(script=graph_scripts(), names=st.lists(st.sampled_from(sorted(ALGORITHMS)), min_size=5, max_size=5))
def test_algorithms_take_turns(bench: Make, script: Script, names: list[str]) -> None:
    run(bench, script, lambda number: ALGORITHMS[names[number]])


@fewer
@given(script=st.one_of(graph_scripts(), tangled_scripts()), name=st.sampled_from(sorted(ALGORITHMS)))
def test_whatever_event_stops_a_transaction_nothing_has_changed(
    bench: Make, script: Script, name: str
) -> None:
    laboratory = Laboratory(bench, script.program, script.start)
    algorithm = ALGORITHMS[name]
    for change in script.changes[:2]:
        at = 1
        while laboratory.interrupt(algorithm, change, at):
            at += 1
        laboratory.compare()


@given(script=graph_scripts())
def test_auxiliary_relations_are_made_where_they_are_missing(script: Script) -> None:
    run(unsplit, script, lambda number: RankCounting())


# ---- closures kept by structures


@algorithms
@given(script=closure_scripts())
def test_closures_by_structures_are_as_from_scratch(name: str, script: Script) -> None:
    run(closing, script, lambda number: ALGORITHMS[name], modules=True)


@given(script=st.one_of(graph_scripts(), tangled_scripts()), name=st.sampled_from(sorted(ALGORITHMS)))
def test_other_strata_do_not_mind_structures(script: Script, name: str) -> None:
    run(closing, script, lambda number: ALGORITHMS[name], modules=True)


@given(
    script=closure_scripts(),
    turns=st.lists(st.tuples(st.sampled_from(sorted(ALGORITHMS)), st.booleans()), min_size=5, max_size=5),
)
def test_structures_and_rules_take_turns(script: Script, turns: list[tuple[str, bool]]) -> None:
    laboratory = Laboratory(closing, script.program, script.start)
    for change, (name, modules) in zip(script.changes, turns, strict=False):
        laboratory.modules = modules
        laboratory.apply(ALGORITHMS[name], change)


@fewer
@given(script=closure_scripts(), name=st.sampled_from(sorted(ALGORITHMS)))
def test_whatever_event_stops_a_transaction_structures_are_as_before(script: Script, name: str) -> None:
    laboratory = Laboratory(closing, script.program, script.start, modules=True)
    algorithm = ALGORITHMS[name]
    for change in script.changes[:2]:
        at = 1
        while laboratory.interrupt(algorithm, change, at):
            at += 1
        laboratory.compare()
