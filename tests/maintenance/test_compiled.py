"""The compiled loop of rank counting: equal to the readable one in all it keeps, and stopped at any point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import tidelog as tl
from tests.maintenance.columnar import ColumnarBench
from tests.maintenance.laboratory import Change, Laboratory
from tests.maintenance.scripts import Script, graph_scripts, program_scripts
from tidelog.data import memory
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.columnar.transactions import counters as maintain
from tidelog.engine.events import StratumMaintained
from tidelog.logic.values import iri
from tidelog.maintenance import driver
from tidelog.maintenance.counting import RankCounting
from tidelog.maintenance.driver import Driver

COMPILED, READABLE = RankCounting(), RankCounting(is_compiled=False)


def kept(laboratory: Laboratory) -> dict[tuple[object, ...], tuple[int, ...]]:
    """What is known of each true fact: whether it is explicit, and how many instances derive it.

    Ranks, and with them the split of the instances, depend on which facts share a round: there is a choice.
    That counters are those of the ranks is what `Laboratory.apply` compares.
    """
    engine = laboratory.bench.engine
    assert isinstance(engine, ColumnarEngine)
    decode = engine.catalog.dictionary.decode
    found: dict[tuple[object, ...], tuple[int, ...]] = {}
    for name in engine.storage.relations():
        table = engine.catalog.table(name)
        for row in np.flatnonzero(table.flags[: len(table)] & layout.ALIVE).tolist():
            fact = (name, *(decode(int(column[row])) for column in table.columns))
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


def net_changes(laboratory: Laboratory) -> dict[tuple[str, ...], tuple[int, int]]:
    """How many facts went and came in each stratum of the last transaction in which something changed."""
    told = [event for event in laboratory.events if isinstance(event, StratumMaintained)]
    laboratory.events.clear()
    assert all(event.overdeleted - event.rederived == event.went for event in told if event.overdeleted)
    return {event.predicates: (event.went, event.came) for event in told if event.went or event.came}


@pytest.mark.parametrize("scripts", ["graphs", "programs"])
def test_the_compiled_loop_tells_of_every_stratum_when_asked(scripts: str) -> None:
    @given(script=graph_scripts() if scripts == "graphs" else program_scripts())
    def check(script: Script) -> None:
        compiled, readable = (
            Laboratory(ColumnarBench, script.program, script.start, followed=True) for _ in range(2)
        )
        for change in script.changes:
            compiled.apply(COMPILED, change)
            readable.apply(READABLE, change)
            assert net_changes(compiled) == net_changes(readable)

    check()


@settings(max_examples=25)
@given(script=program_scripts())
def test_whoever_is_told_of_a_stratum_may_stop_the_update(script: Script) -> None:
    laboratory = Laboratory(ColumnarBench, script.program, script.start, followed=True)
    for change in script.changes:
        at = 1
        while laboratory.interrupt(COMPILED, change, at):
            at += 1
        laboratory.compare()


def test_instances_are_counted_before_a_stratum_by_hand_too() -> None:
    program = tl.parse(
        """
        @declare edge(x: any, y: any) .
        reach(?x, ?y) :- edge(?x, ?y) .
        reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
        number(?x, #count(?y)) :- reach(?x, ?y) .
        far(?x) :- number(?x, ?n), ?n > 2 .
        """
    )
    told = []
    for algorithm in (COMPILED, READABLE):
        start = Change({"edge": frozenset({(iri(a), iri(b)) for a, b in ("ab", "bc", "cd")})}, program.rules)
        laboratory = Laboratory(ColumnarBench, program, start, followed=True)
        laboratory.apply(algorithm, Change({"edge": frozenset()}, program.rules))
        strata = [event for event in laboratory.events if isinstance(event, StratumMaintained)]
        told.append({event.predicates: event.instances for event in strata})
    assert told[0] == told[1]


@given(script=graph_scripts())
def test_ranks_are_numbered_anew_before_the_clock_runs_out(script: Script) -> None:
    laboratory = Laboratory(ColumnarBench, script.program, script.start)
    for change in script.changes:
        engine = laboratory.bench.engine
        assert isinstance(engine, ColumnarEngine)
        state = engine.workers.state
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


@settings(max_examples=25)
@given(script=graph_scripts())
def test_whenever_the_loop_is_stopped_nothing_has_changed(script: Script) -> None:
    laboratory = Laboratory(ColumnarBench, script.program, script.start)
    engine = laboratory.bench.engine
    engine.limits.budget = lambda found=0, are_answers=False: 0  # it pauses after every batch
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


def test_the_loop_is_kept_while_relations_keep_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "RENEWED_EVERY", 1)
    rules = "near(?x, ?y) :- link(?x, ?y) . near(?y, ?x) :- near(?x, ?y) ."
    reasoner = tl.Reasoner(tl.parse(f"{rules} near(?x, ?z) :- near(?x, ?y), near(?y, ?z) ."))
    reasoner.engine.closures.min_pairs = 0  # a structure keeps `near`: a stratum without plans
    reasoner.insert("link", [(f"a{n}", f"b{n}") for n in range(100)])
    reasoner.materialise()
    loops = set()
    for number in range(4):
        with reasoner.change() as change:
            change.delete("link", [(f"a{number}", f"b{number}")])
        loops.add(id(reasoner._applier.maintainer._ranks._loop[1]))  # type: ignore[attr-defined]
    assert len(loops) == 1


def test_a_plan_goes_on_when_lists_have_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts that drive it lie elsewhere then, and where they were is memory that others use."""

    def moved(array: Any, used: int, size: int) -> Any:
        larger = grown(array, used, size)
        array[:] = 0
        return larger

    grown = memory.grown
    reasoner = tl.Reasoner(tl.parse("s(?x, ?y) :- q(?x), r(?y) ."), maintainer="rank-counting", threads=1)
    reasoner.insert("q", [(f"q{number}",) for number in range(6_000)])
    reasoner.insert("r", [(number,) for number in range(5)])
    reasoner.materialise()
    monkeypatch.setattr(memory, "grown", moved)
    with reasoner.change() as change:
        change.delete("q", [(f"q{number}",) for number in range(5_999)])
    assert sorted(reasoner["s"]) == [("q5999", number) for number in range(5)]
    assert len(change.delta["s"].removed) == 5 * 5_999
