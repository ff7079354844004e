"""`processes=N`: a program is derived by processes of this machine, with the facts of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from tests.engine.test_fed import PROGRAMS

import tidelog as tl
from tidelog.engine.exchange import Lost
from tidelog.engine.exchange.ids import Values
from tidelog.errors import EvaluationError, ProgramError, Stopped

EDGES = " ".join(f"edge({number}, {(number * 7 + 3) % 50}) ." for number in range(50))


def test_relations_queries_and_changes_are_those_of_one_process() -> None:
    text = EDGES + PROGRAMS["negation and aggregates"] + "path(50, 1) . @output lost ."
    alone, divided = tl.Reasoner(text), tl.Reasoner(text, processes=2)
    for name in alone.program.predicates:
        assert divided[name] == alone[name], name
    assert divided.statistics.derived == alone.statistics.derived
    query = "path(3, ?y), ~edge(3, ?y)"
    assert divided.query(query) == alone.query(query)
    for reasoner in (alone, divided):
        with reasoner.change() as change:
            change.delete("edge", [(3, 24)])
            change.insert("edge", [(3, 51)])
    for name in alone.program.predicates:
        assert divided[name] == alone[name], name


def test_errors_are_those_of_one_process() -> None:
    text = f"p(2) . p({2**62}) . q(?y) :- p(?x), ?y = ?x * ?x ."
    with pytest.raises(EvaluationError) as alone:
        tl.Reasoner(text).materialise()
    with pytest.raises(EvaluationError) as divided:
        tl.Reasoner(text, processes=2).materialise()
    assert str(divided.value) == str(alone.value)


def test_programs_that_cannot_be_divided_are_errors_with_the_rule() -> None:
    text = "p(a, b)@[0, 5] . p(?x, ?z) :- p(?x, ?y), p(?y, ?z) ."
    with pytest.raises(ProgramError, match="E693") as raised:
        tl.Reasoner(text, processes=2).materialise()
    assert "p(?x, ?z) :- " in str(raised.value)


def test_limits_hold() -> None:
    text = "n(0) . n(?y) :- n(?x), ?y = ?x + 1 ."
    with pytest.raises(Stopped, match="more than 1,000 facts"):
        tl.Reasoner(text, processes=2, max_facts=1000).materialise()
    with pytest.raises(Stopped, match="timeout"):
        tl.Reasoner(text, processes=2, timeout=0.5).materialise()


def test_a_collision_leads_to_another_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    class Weak(Values):
        def __init__(self, dictionary: Any, tasks: int, seed: int, bits: int = 64) -> None:
            seeds.append(seed)
            super().__init__(dictionary, tasks, seed, 4 if len(seeds) == 1 else 64)

    monkeypatch.setattr("tidelog.engine.exchange.tasks.Values", Weak)
    reasoner = tl.Reasoner(EDGES + PROGRAMS["closure"], processes=2)
    assert reasoner["path"] == tl.Reasoner(EDGES + PROGRAMS["closure"])["path"]
    assert len(set(seeds)) == 2


def test_a_process_that_is_killed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Killed(subprocess.Popen[bytes]):
        def __init__(self, arguments: Sequence[str], **settings: Any) -> None:
            super().__init__(arguments, **settings)
            started.append(self.pid)
            if len(started) == 2:
                Timer(3, lambda: os.kill(self.pid, signal.SIGKILL)).start()

    monkeypatch.setattr("tidelog.engine.exchange.processes.subprocess.Popen", Killed)
    with pytest.raises(Lost, match="task 1"):
        tl.Reasoner("n(0) . n(?y) :- n(?x), ?y = ?x + 1 .", processes=2).materialise()


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "edge.csv").write_text("1,2\n2,3\n3,4\n")
    (tmp_path / "program.rls").write_text(
        '@import edge :- csv{resource = "edge.csv", format = (int, int)} . @output path . '
        + PROGRAMS["closure"]
    )
    printed = [
        subprocess.run(
            [sys.executable, "-m", "tidelog", "run", "program.rls", "-f", "csv", *more],
            cwd=tmp_path,
            capture_output=True,
            check=True,
        ).stdout
        for more in ([], ["--processes", "2"])
    ]
    assert printed[0] == printed[1]
    assert printed[0].count(b"\n") >= 6
