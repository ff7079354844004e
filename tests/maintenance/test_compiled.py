"""The compiled loop of rank counting: equal to the readable one in all it keeps, and stopped at any point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.maintenance.columnar import ColumnarBench
from tests.maintenance.laboratory import Laboratory
from tests.maintenance.scripts import Script, graph_scripts, program_scripts
from tidelog.engine.columnar import layout, maintain, ranked_update
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.rank_counting import RankCounting

COMPILED, READABLE = RankCounting(), RankCounting(is_compiled=False)


def kept(laboratory: Laboratory) -> dict[tuple[object, ...], tuple[int, ...]]:
    """What is known of each true fact: whether it is explicit, and how many instances derive it.

    Ranks, and with them the split of the instances, depend on which facts share a round: there is a choice.
    That counters are those of the ranks is what `Laboratory.apply` compares.
    """
    engine = laboratory.bench.engine
    found: dict[tuple[object, ...], tuple[int, ...]] = {}
    for name in engine.relations():
        table = engine.table(name)  # type: ignore[attr-defined]
        for row in np.flatnonzero(table.flags[: len(table)] & layout.ALIVE).tolist():
            fact = (name, *(engine.dictionary.decode(int(column[row])) for column in table.columns))  # type: ignore[attr-defined]
            counters = (table.counters.get(place) for place in (layout.FOUNDED, layout.HIDDEN))
            found[fact] = int(table.flags[row]), sum(int(each[row]) for each in counters if each is not None)
    return found


@pytest.mark.parametrize("scripts", ["graphs", "programs"])
def test_the_compiled_loop_keeps_what_the_readable_one_keeps(scripts: str) -> None:
    @given(script=graph_scripts() if scripts == "graphs" else program_scripts())
    def check(script: Script) -> None:
        compiled, readable = (Laboratory(ColumnarBench, script.program, script.start) for _ in range(2))
        for change in script.changes:
            compiled.apply(COMPILED, change)
            readable.apply(READABLE, change)
            assert kept(compiled) == kept(readable)

    check()


@given(script=graph_scripts())
def test_ranks_are_numbered_anew_before_the_clock_runs_out(script: Script) -> None:
    laboratory = Laboratory(ColumnarBench, script.program, script.start)
    for change in script.changes:
        state = laboratory.bench.engine.workspaces[0].state  # type: ignore[attr-defined]
        state[layout.Z_CLOCK] = 2**31 - 1
        laboratory.apply(COMPILED, change)
        assert state[layout.Z_CLOCK] < 2**20


def test_ranks_keep_their_order_when_they_are_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    @given(script=graph_scripts())
    def check(script: Script) -> None:
        laboratory = Laboratory(ColumnarBench, script.program, script.start)
        for change in script.changes:
            laboratory.apply(COMPILED, change)

    monkeypatch.setattr(maintain, "LAST_RANK", 1)  # in every transaction
    check()


class Patience:
    """A check that gives up when it has been asked so often."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(script=graph_scripts())
def test_whenever_the_loop_is_stopped_nothing_has_changed(
    monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    monkeypatch.setattr(ranked_update, "BUDGET", 0)  # the loop pauses after every batch of heads
    laboratory = Laboratory(ColumnarBench, script.program, script.start)
    for change in script.changes:
        if change.rules != laboratory.program.rules:
            laboratory.apply(COMPILED, change)
            continue
        patience = Patience(0)
        driver = Driver(COMPILED, laboratory.bench.engine, lambda event: None, patience)
        driver._prepare(laboratory.program)
        state = laboratory.bench.state()
        left = 1
        while True:
            patience.left = left
            try:
                driver.apply(laboratory.update(change), laboratory.program, laboratory.program)
                break
            except KeyboardInterrupt:
                assert laboratory.bench.state() == state
                left += 1
        laboratory.explicit = change.explicit
        laboratory.compare()
