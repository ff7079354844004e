"""Ctrl-C, once or many times in a row, at any moment: the work ends cleanly, and everything is as before."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidelog as tl
from tidelog.engine.interrupts import INTERRUPTS, waited_for
from tidelog.maintenance.registry import MAINTAINERS

PROGRAM = """
    path(?x, ?y) :- edge(?x, ?y) .
    path(?x, ?z) :- path(?x, ?y), edge(?y, ?z) .
    reached(?x, #count(?y)) :- path(?x, ?y) .
    least(#min(?n)) :- reached(_, ?n) .
    more(?x) :- reached(?x, ?n), ~least(?n) .
"""
ENDLESS = "number(0) .\nnumber(?n + 1) :- number(?n) .\n"
COMMAND = [sys.executable, "-m", "tidelog"]


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    """Make Ctrl-C raise KeyboardInterrupt during a test, also where tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler
    assert not INTERRUPTS.is_pending


class Pressing:
    """Press Ctrl-C so many times at one call of a Python function, counted from the beginning."""

    def __init__(self, at: int, times: int) -> None:
        self.at = at
        self.times = times
        self.calls = 0

    def __call__(self, frame: object, event: str, argument: object) -> None:
        if event == "call":
            self.calls += 1
            if self.calls == self.at:
                for _ in range(self.times):
                    signal.raise_signal(signal.SIGINT)

    def during(self, work: Callable[[], object]) -> BaseException | None:
        """What the work raises, if anything."""
        try:
            sys.setprofile(self)
            try:
                work()
            finally:
                sys.setprofile(None)
        except (tl.Stopped, KeyboardInterrupt) as stopped:
            return stopped
        return None


def state_of(reasoner: tl.Reasoner) -> dict[str, set[tuple[object, ...]]]:
    return {name: set(reasoner[name]) for name in reasoner}


@pytest.mark.parametrize("maintainer", sorted(MAINTAINERS))
@pytest.mark.parametrize("times", [1, 3])
def test_a_transaction_is_made_or_not_wherever_it_is_interrupted(maintainer: str, times: int) -> None:
    """Some forty moments spread over all calls of a transaction; the next ones are right."""
    reasoner = tl.Reasoner(tl.parse(PROGRAM), maintainer=maintainer)
    reasoner.insert("edge", [(number, number + 1) for number in range(12)])
    reasoner.materialise()
    scripts = (
        "+ edge(3, 20) . + edge(20, 21) . - edge(5, 6) .",
        "- edge(3, 20) . - edge(20, 21) . + edge(5, 6) .",
    )
    states = []
    for script in (*scripts, *scripts):  # plans are made, and all that is made but once
        reasoner.apply(script)
        states.append(state_of(reasoner))
    states = states[-2:]
    counted = Pressing(0, 0)
    counted.during(lambda: [reasoner.apply(script) for script in scripts])
    turn, stops = 0, 0
    for at in range(1, counted.calls, max(counted.calls // 40, 1)):
        before, after = states[turn - 1], states[turn]
        stopped = Pressing(at, times).during(lambda script=scripts[turn]: reasoner.apply(script))  # type: ignore[misc]
        stops += stopped is not None
        found = state_of(reasoner)
        assert found == after or (found == before and stopped is not None), f"at call {at}"
        if found == after:
            turn = 1 - turn
        else:
            reasoner.apply(scripts[turn])
            assert state_of(reasoner) == after
            turn = 1 - turn
    assert stops > 5


@pytest.mark.parametrize("times", [1, 3])
def test_derivation_is_repeated_wherever_it_is_interrupted(times: int) -> None:
    expected: dict[str, set[tuple[object, ...]]] = {}
    calls, stops = 1, 0
    for at in (0, *range(1, 4000, 97)):
        reasoner = tl.Reasoner(tl.parse(PROGRAM))
        reasoner.insert("edge", [(number, number + 1) for number in range(12)])
        pressing = Pressing(at, times)
        stops += pressing.during(reasoner.materialise) is not None
        found = state_of(reasoner)
        expected = expected or found
        assert found == expected, f"at call {at}"
        calls = max(calls, pressing.calls)
    assert stops > 5


def test_encoding_is_whole_wherever_it_is_interrupted() -> None:
    """Facts are put into a transaction outside of its commit: there, too, arrays grow that kernels reach."""
    for at in range(1, 400, 7):
        reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."))
        reasoner.materialise()
        rows = [(f"a rather long text, number {number}",) for number in range(3000)]
        stopped = Pressing(at, 2).during(lambda: reasoner.insert("e", rows))  # noqa: B023
        assert len(reasoner["p"]) in ((0, 3000) if stopped else (3000,))
        reasoner.insert("e", rows)
        assert set(reasoner["p"]) == set(rows)


def test_the_handler_of_the_user_is_asked_once_and_put_back() -> None:
    asked: list[int] = []

    def handler(number: int, frame: object) -> None:
        asked.append(number)

    signal.signal(signal.SIGINT, handler)
    reasoner = tl.Reasoner(tl.parse(PROGRAM), listeners=[lambda event: signal.raise_signal(signal.SIGINT)])
    reasoner.insert("edge", [(1, 2), (2, 3)])
    reasoner.materialise()
    assert len(reasoner["path"]) == 3  # one that does not raise does not stop the work
    assert asked
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is handler


def test_a_handler_that_a_listener_puts_in_stays() -> None:
    def handler(number: int, frame: object) -> None:
        """Nothing."""

    def put_in(event: object) -> None:
        signal.signal(signal.SIGINT, handler)

    reasoner = tl.Reasoner(tl.parse("p(1) ."), listeners=[put_in])
    reasoner.materialise()
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is handler


def test_other_threads_hold_nothing_back() -> None:
    """A thread derives for as long as it likes: Ctrl-C reaches the main thread at once."""
    reasoner = tl.Reasoner(tl.parse(ENDLESS), max_facts=200_000)
    is_working = threading.Event()
    reasoner.runtime.tell.listeners.append(lambda event: is_working.set())
    found: list[tl.Stopped] = []

    def work() -> None:
        with pytest.raises(tl.Stopped) as caught:
            reasoner.materialise()
        found.append(caught.value)

    thread = threading.Thread(target=work)
    thread.start()
    is_working.wait(60)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    thread.join()
    assert found[0].diagnostics[0].code == "E611"


def test_waiting_for_another_thread_can_be_interrupted() -> None:
    reasoner = tl.Reasoner(tl.parse("p(1) ."))
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with reasoner._lock:
            is_held.set()
            is_over.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(60)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        reasoner.query("p(?x)")
    is_over.set()
    thread.join()
    assert len(reasoner.query("p(?x)")) == 1


def test_data_that_is_waited_for_does_not_hold_ctrl_c_back() -> None:
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."))

    def rows() -> Iterator[tuple[int]]:
        yield (1,)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the source went on")

    with pytest.raises((KeyboardInterrupt, tl.Stopped)):
        reasoner.insert("e", rows())
    assert reasoner.insert("e", [(1,), (2,)]) == 2
    with pytest.raises((KeyboardInterrupt, tl.Stopped)):
        reasoner.insert("e", rows())
    assert len(reasoner["p"]) == 2
    assert list(waited_for(iter("ab"))) == ["a", "b"]


# ---- processes


def test_many_ctrl_cs_end_a_command_once(tmp_path: Path) -> None:
    (tmp_path / "p.rls").write_text(ENDLESS)
    show = (
        "import sys, tidelog.engine.fixpoint as fixpoint; from tidelog.__main__ import main; "
        "told = []; advance = fixpoint._Rounds.advance\n"
        "def told_once(*given):\n"
        "    told or print('working', flush=True); told.append(1); return advance(*given)\n"
        "fixpoint._Rounds.advance = told_once\n"
        "sys.argv = ['tidelog', 'run', 'p.rls']; sys.exit(main())\n"
    )
    for times in (2, 10):
        with subprocess.Popen(
            [sys.executable, "-c", show],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "working\n"
            for _ in range(times):
                process.send_signal(signal.SIGINT)
                time.sleep(0.01)
            shown, said = process.communicate(timeout=120)
        assert process.returncode == 130
        assert shown == ""
        assert said.count("E612") == 1
        assert "Traceback" not in said and "Exception ignored" not in said


def test_ctrl_c_ends_a_command_that_waits_for_data(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "e.csv")
    (tmp_path / "p.rls").write_text('@import e :- csv{resource="e.csv"} .\np(?x) :- e(?x) .\n@output p .\n')
    with (
        subprocess.Popen(
            [*COMMAND, "run", "p.rls"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        ) as process,
        (tmp_path / "e.csv").open("w"),
    ):  # until the command reads from it
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted" in said and "Traceback" not in said


LOOP = """
import os, signal
import tidelog as tl

armed = False

def handler(number, frame):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, handler)
reasoner = tl.Reasoner(tl.parse('''{program}'''), threads=2)
edges = {{(number, number + 1) for number in range(40)}}
reasoner.insert("edge", sorted(edges))
reasoner.materialise()
print("ready", flush=True)
stops = 0
for number in range(150):
    new = (number % 40, 100 + number)
    try:
        armed = True
        reasoner.insert("edge", [new])
        armed = False
    except (KeyboardInterrupt, tl.Stopped):
        stops += 1
    armed = False
    found = set(reasoner["edge"])
    assert found in (edges, edges | {{new}}), number
    edges = found
fresh = tl.Reasoner(tl.parse('''{program}'''))
fresh.insert("edge", sorted(edges))
for name in fresh:
    assert set(fresh[name]) == set(reasoner[name]), name
print("right", stops, flush=True)
os._exit(0)  # while Python shuts down, handlers are no longer there
"""


@pytest.mark.parametrize("seed", range(3))
def test_signals_at_random_moments_leave_an_embedded_reasoner_right(seed: int) -> None:
    chosen = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, "-c", LOOP.format(program=PROGRAM)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        while process.poll() is None:
            for _ in range(chosen.randint(1, 5)):
                process.send_signal(signal.SIGINT)
            time.sleep(chosen.random() / 100)
        shown, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert shown.startswith("right ")
