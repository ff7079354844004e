"""Facts that lie elsewhere: what changes touch is fetched, and maintained as all other facts are.

Most of it is tried without Spark, by the laws of maintenance, with sets in place of frames.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tests.maintenance.far import FarBench, half
from tests.maintenance.laboratory import Change, Facts, Laboratory
from tests.maintenance.scripts import Script, graph_scripts, program_scripts, tangled_scripts
from tests.maintenance.test_laws import ALGORITHMS
from tidelog.logic.program import Program
from tidelog.logic.values import Value, integer

pytestmark = pytest.mark.slow  # two minutes for code that few changes touch

Make = Callable[[Program, Facts], FarBench]


ROWS_OF_A_JOB = "tidelog.engine.spark.fetching.ROWS_OF_A_JOB"


@pytest.fixture(autouse=True)
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many jobs it takes, relations are fetched in parts."""
    monkeypatch.setattr(ROWS_OF_A_JOB, 0)


algorithms = pytest.mark.parametrize("name", ALGORITHMS)
places = pytest.mark.parametrize("make", [FarBench, half])


def run(make: Make, script: Script, choose: Callable[[int], str]) -> None:
    """Carry out a script; all facts, and those that are explicit, are compared after each transaction."""
    laboratory = Laboratory(make, script.program, script.start)
    bench = laboratory.bench
    assert isinstance(bench, FarBench)
    for number, change in enumerate(script.changes):
        laboratory.apply(ALGORITHMS[choose(number)], change)
        assert bench.explicit() == {name: rows for name, rows in change.explicit.items() if rows}


@places
@algorithms
@given(script=graph_scripts())
def test_over_a_graph_all_is_as_from_scratch(make: Make, name: str, script: Script) -> None:
    run(make, script, lambda number: name)


@places
@given(script=st.one_of(program_scripts(), tangled_scripts()), name=st.sampled_from(sorted(ALGORITHMS)))
def test_over_random_programs_all_is_as_from_scratch(make: Make, script: Script, name: str) -> None:
    run(make, script, lambda number: name)


@given(script=graph_scripts(), names=st.lists(st.sampled_from(sorted(ALGORITHMS)), min_size=5, max_size=5))
def test_algorithms_take_turns(script: Script, names: list[str]) -> None:
    run(FarBench, script, lambda number: names[number])


@given(
    script=st.one_of(graph_scripts(), program_scripts()),
    name=st.sampled_from(sorted(ALGORITHMS)),
    rows=st.sampled_from([1, 4, 1000]),
)
def test_relations_may_be_fetched_whole_after_some_parts(script: Script, name: str, rows: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ROWS_OF_A_JOB, rows)
        run(FarBench, script, lambda number: name)


@given(script=graph_scripts(), name=st.sampled_from(sorted(ALGORITHMS)), at=st.integers(1, 12))
def test_whatever_event_stops_a_transaction_nothing_has_changed(script: Script, name: str, at: int) -> None:
    laboratory = Laboratory(FarBench, script.program, script.start)
    for change in script.changes:
        if laboratory.interrupt(ALGORITHMS[name], change, at):
            laboratory.apply(ALGORITHMS[name], change)
        laboratory.compare()


# ---- what is fetched


def laboratory(rules: str, edges: list[tuple[int, int]]) -> tuple[Laboratory, FarBench]:
    program = tl.parse(f"@declare edge(x: any, y: any) . {rules}")
    found = Laboratory(FarBench, program, Change({"edge": rows(edges)}, program.rules))
    assert isinstance(found.bench, FarBench)
    return found, found.bench


def rows(edges: list[tuple[int, int]]) -> frozenset[tuple[Value, ...]]:
    return frozenset((integer(x), integer(y)) for x, y in edges)


REACH = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) ."
CHAINS = [(10 * chain + step, 10 * chain + step + 1) for chain in range(50) for step in range(4)]


@algorithms
def test_only_what_an_update_touches_is_fetched(name: str) -> None:
    """Of fifty chains, the facts of one."""
    found, bench = laboratory(REACH, CHAINS)
    found.apply(ALGORITHMS[name], Change({"edge": rows(CHAINS[1:])}, found.program.rules))
    fetched = sum(len(bench.engine.table(relation)) for relation in ("edge", "reach"))
    assert 0 < fetched <= 4 + 10


@algorithms
def test_what_was_asked_for_is_not_asked_for_again(name: str) -> None:
    found, bench = laboratory(REACH, CHAINS)
    algorithm = ALGORITHMS[name]
    for edges in (CHAINS[1:], CHAINS, CHAINS[1:], CHAINS):
        asked = len(bench.engine.requests)
        found.apply(algorithm, Change({"edge": rows(edges)}, found.program.rules))
    assert len(bench.engine.requests) == asked
