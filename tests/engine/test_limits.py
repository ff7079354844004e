"""Limits stop the reasoner cleanly: with a message how far it got, and ready for more."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import tidelog as tl
from tidelog.data import memory
from tidelog.engine import interrupts
from tidelog.engine.columnar.interpreter import plan_runner
from tidelog.engine.events import Event, FactsLoaded, RoundEnded, Tally

CLOSURE = """
    path(?x, ?y) :- edge(?x, ?y) .
    path(?x, ?z) :- path(?x, ?y), edge(?y, ?z) .
"""
ENDLESS = "n(0) . n(?y) :- n(?x), ?y = ?x + 1 ."


def chain(length: int) -> list[tuple[int, int]]:
    return [(number, number + 1) for number in range(length)]


def stopped_by(reasoner: tl.Reasoner) -> tl.Diagnostic:
    with pytest.raises(tl.Stopped) as caught:
        reasoner.materialise()
    return caught.value.diagnostics[0]


# ---- time


def test_a_timeout_stops_endless_recursion_and_says_how_far_it_got() -> None:
    reasoner = tl.Reasoner(tl.parse(ENDLESS), timeout=0.3)
    start = time.monotonic()
    fault = stopped_by(reasoner)
    assert time.monotonic() - start < 5
    assert fault.code == "E610"
    assert "stopped after the timeout of 0.3 s; it reached stratum 1 of 1 (n), round " in fault.message
    assert fault.message.endswith("derived; nothing was written")
    assert fault.help == "raise --timeout"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_timeout_stops_a_single_long_plan(threads: int) -> None:
    text = (
        "@declare n(x: any) . @declare m(a: any, b: any) . hit(?x, ?y) :- n(?x), n(?y), n(?z), ~m(?x, ?z) ."
    )
    reasoner = tl.Reasoner(tl.parse(text), timeout=0.5, threads=threads)
    reasoner.insert("n", [(number,) for number in range(9000)])
    start = time.monotonic()
    assert stopped_by(reasoner).code == "E610"
    assert time.monotonic() - start < 10


def test_a_timeout_counts_anew_for_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(interrupts, "monotonic", lambda: clock[0])
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."), timeout=0.4)
    reasoner.insert("e", [(number,) for number in range(500)])
    reasoner.materialise()
    clock[0] += 10
    assert len(reasoner.query("p(?x), e(?y), ?y < 3, ?z = ?x + ?y")) == 1500


def test_after_a_timeout_the_reasoner_goes_on() -> None:
    reasoner = tl.Reasoner(tl.parse(CLOSURE), timeout=0.0)
    with pytest.raises(tl.Stopped, match="E610"):
        reasoner.insert("edge", chain(50))
    with pytest.raises(tl.Stopped, match="E610"):
        reasoner.materialise()
    reasoner.runtime.timeout = None
    assert len(reasoner["edge"]) == 50
    assert len(reasoner["path"]) == 50 * 51 // 2


# ---- facts


def test_too_many_facts_stop_it() -> None:
    fault = stopped_by(tl.Reasoner(tl.parse(ENDLESS), max_facts=100))
    assert fault.code == "E611"
    assert fault.message.startswith("stopped: more than 100 facts; it reached stratum 1 of 1 (n)")
    assert "with 1 fact loaded, 100 derived" in fault.message


def test_as_many_facts_as_allowed_do_not_stop_it() -> None:
    reasoner = tl.Reasoner(tl.parse(CLOSURE), max_facts=4 + 10)
    reasoner.insert("edge", chain(4))
    assert len(reasoner["path"]) == 10


def test_facts_that_are_derived_again_do_not_count_twice() -> None:
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."), max_facts=11)
    reasoner.insert("e", [(number,) for number in range(4)])
    reasoner.materialise()
    reasoner.insert("e", [(4,)])
    assert len(reasoner["p"]) == 5


def test_after_too_many_facts_explicit_ones_are_kept_and_derived_ones_made_anew() -> None:
    reasoner = tl.Reasoner(tl.parse(CLOSURE), max_facts=100)
    reasoner.insert("edge", chain(30))
    reasoner.insert("path", [("extra", "fact")])
    assert stopped_by(reasoner).code == "E611"
    reasoner.runtime.max_facts = None
    assert len(reasoner["edge"]) == 30
    assert len(reasoner["path"]) == 30 * 31 // 2 + 1
    assert ("extra", "fact") in reasoner["path"]


# ---- Ctrl-C


class InterruptAfter:
    """A listener that behaves as if Ctrl-C were pressed after some rounds."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __call__(self, event: Event) -> None:
        if isinstance(event, RoundEnded):
            self.rounds -= 1
            if self.rounds == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_an_interrupt_stops_it_and_it_goes_on(rounds: int) -> None:
    reasoner = tl.Reasoner(tl.parse(CLOSURE), listeners=[InterruptAfter(rounds)], modules=False)
    reasoner.insert("edge", chain(20))
    fault = stopped_by(reasoner)
    assert (fault.code, fault.help) == ("E612", None)
    assert fault.message.startswith("interrupted; it reached stratum 1 of 1 (path), round ")
    assert len(reasoner["path"]) == 20 * 21 // 2


@pytest.fixture
def alarm() -> Iterator[None]:
    """Let SIGALRM press Ctrl-C."""
    before = signal.signal(signal.SIGALRM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    assert signal.signal(signal.SIGINT, handler) is signal.default_int_handler


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("alarm")
def test_a_signal_stops_a_long_run(threads: int) -> None:
    text = f"{CLOSURE} far(?x, ?z) :- path(?x, ?y), path(?y, ?z), path(?z, ?w), path(?w, _) ."
    reasoner = tl.Reasoner(tl.parse(text), threads=threads)
    reasoner.insert("edge", chain(600))
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    start = time.monotonic()
    assert stopped_by(reasoner).code == "E612"
    assert time.monotonic() - start < 10


@pytest.mark.usefixtures("alarm")
def test_interrupts_at_any_time_lose_no_facts() -> None:
    """An aggregate, negation and recursion, interrupted again and again at different moments."""
    text = f"""{CLOSURE}
        reached(?x, #count(?y)) :- path(?x, ?y) .
        least(#min(?n)) :- reached(_, ?n) .
        more(?x) :- reached(?x, ?n), ~least(?n) .
    """
    reasoner = tl.Reasoner(tl.parse(text))
    reasoner.insert("edge", chain(150))
    for delay in range(1, 12):
        signal.setitimer(signal.ITIMER_REAL, delay / 500)
        try:
            reasoner.materialise()
        except (tl.Stopped, KeyboardInterrupt):  # the latter just before or after the run
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        reasoner.insert("edge", [(150 + delay - 1, 150 + delay)])
    nodes = 150 + 11
    assert len(reasoner["path"]) == nodes * (nodes + 1) // 2
    assert len(reasoner["reached"]) == nodes
    assert len(reasoner["more"]) == nodes - 1


@pytest.mark.parametrize("times", [1, 2, 10])
@pytest.mark.usefixtures("alarm")
def test_ctrl_c_waits_until_tables_are_whole_however_often_it_is_pressed(times: int) -> None:
    limits_now = interrupts.Limits(Tally())
    with pytest.raises(tl.Stopped, match="E612"), limits_now.guarding():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        waited = True
        limits_now.check()
    assert waited
    with pytest.raises(tl.Stopped, match="E612"), interrupts.Limits(Tally()).guarding():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("alarm")
def test_ctrl_c_after_the_last_check_is_not_lost() -> None:
    outer = interrupts.Limits(Tally())
    with pytest.raises(tl.Stopped, match="E612"), outer.guarding():
        with interrupts.Limits(Tally()).guarding():
            signal.raise_signal(signal.SIGINT)
        raise AssertionError("the end of the inner block is a safe point")


def test_other_threads_leave_ctrl_c_to_the_main_one() -> None:
    reasoner = tl.Reasoner(tl.parse(CLOSURE))
    reasoner.insert("edge", chain(20))
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(len(reasoner["path"])))
    thread.start()
    thread.join()
    assert found == [20 * 21 // 2]


# ---- memory


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let every array be checked against what the machine is said to have."""
    monkeypatch.setattr(memory, "CHECKED_FROM", 0)
    monkeypatch.setattr(memory, "KEPT_FREE", 0)
    return monkeypatch


def test_a_lack_of_memory_stops_it(scarce: pytest.MonkeyPatch) -> None:
    reasoner = tl.Reasoner(tl.parse(CLOSURE))
    reasoner.insert("edge", chain(300))
    with scarce.context() as patch:
        patch.setattr(memory, "available_bytes", lambda: 100_000)
        fault = stopped_by(reasoner)
    assert fault.code == "E613"
    assert fault.message.startswith("out of memory: ")
    assert "it reached stratum 1 of 1 (path)" in fault.message
    assert fault.help == "use less data, or a larger machine"
    assert len(reasoner["path"]) == 300 * 301 // 2


class Allocations:
    """Memory that gives out at the n-th request, once."""

    def __init__(self, fails_at: int) -> None:
        self.left = fails_at

    def available(self) -> int:
        self.left -= 1
        return 0 if self.left == 0 else 1 << 40


MIXED = f"""{CLOSURE}
    far(?x, ?y, ?d) :- path(?x, ?y), ?d = ?y - ?x, ?d > 20 .
    name(?x, CONCAT("node ", STR(?x))) :- edge(?x, _) .
    count(?x, #count(?y)) :- path(?x, ?y) .
    odd(?x) :- edge(?x, _), ~count(?x, 3) .
    free(?x, #count(?y)) :- path(?x, ?y), ~blocked(?x, ?y) .
    @declare blocked(x: any, y: any) .
"""


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("threads", [1, 2])
def test_whichever_array_cannot_be_had_nothing_is_lost(
    scarce: pytest.MonkeyPatch, threads: int, again: bool
) -> None:
    scarce.setattr(plan_runner, "PARALLEL_FROM", 64)
    expected: dict[str, set[tuple[Any, ...]]] = {}
    failures = 0
    for fails_at in [0, *range(1, 60)]:
        reasoner = tl.Reasoner(tl.parse(MIXED), threads=threads)
        reasoner.insert("edge", chain(60))
        reasoner.insert("path", [(500, 501)])
        if again:
            reasoner.materialise()
        memory_now = Allocations(fails_at)
        with scarce.context() as patch:
            patch.setattr(memory, "available_bytes", memory_now.available)
            try:
                if again:
                    reasoner.insert("edge", [(60, 61)])
                reasoner.materialise()
            except tl.Stopped as stopped:
                assert stopped.diagnostics[0].code == "E613"
                failures += 1
        reasoner.insert("edge", chain(61))
        reasoner.insert("blocked", [(number, number + 2) for number in range(50)])
        found = {name: set(reasoner[name]) for name in reasoner}
        expected = expected or found
        assert found == expected, f"after the failure of allocation {fails_at}"
    assert failures > 10
    assert len(expected["path"]) == 61 * 62 // 2 + 1


def test_a_load_that_lacks_memory_can_be_repeated(scarce: pytest.MonkeyPatch) -> None:
    rows = [(f"subject {number}", number, f"object {number % 50}") for number in range(3000)]
    for fails_at in range(1, 40):
        reasoner = tl.Reasoner(tl.parse("@declare t(s: any, n: any, o: any) ."))
        memory_now = Allocations(fails_at)
        with scarce.context() as patch:
            patch.setattr(memory, "available_bytes", memory_now.available)
            try:
                reasoner.insert("t", rows)
            except tl.Stopped as stopped:
                assert stopped.diagnostics[0].code == "E613"
        reasoner.insert("t", rows)
        assert set(reasoner["t"]) == set(rows), f"after the failure of allocation {fails_at}"


def test_available_memory_is_known_here() -> None:
    free = memory.available_bytes()
    assert free is None or free > 0


# ---- what is loaded


def test_the_limit_of_facts_holds_while_data_is_read() -> None:
    reasoner = tl.Reasoner(max_facts=10)
    with pytest.raises(tl.Stopped, match=r"E611.*it had loaded 20 facts"):
        reasoner.insert("e", [(number,) for number in range(20)], define=True)


def test_an_interrupt_while_loading_keeps_what_was_loaded() -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, FactsLoaded):
            raise KeyboardInterrupt

    listeners = [interrupt]
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."), listeners=listeners)
    with pytest.raises(tl.Stopped, match="E612"):
        reasoner.insert("e", [(1,), (2,)])
    assert reasoner.insert("e", []) == 0
