"""The torture itself: a few seeds pass, and a fault that is planted is found and shrunk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.torture.expected import moments
from tests.torture.hands import Hand, hands, play, play_moments
from tests.torture.scenarios import POOLS, Scenario, scenario
from tests.torture.shrink import attempt, shrink, shrunk
from tidelog.maintenance.dred import DeleteAndRederive
from tidelog.maintenance.task import Task


def short(number: int, family: str, steps: int = 6) -> Scenario:
    """The beginning of a scenario."""
    made = scenario(number, [family])
    return replace(made, steps=made.steps[:steps])


@pytest.mark.parametrize("family", POOLS)
def test_a_seed_of_each_family(family: str) -> None:
    made = short(1, family)
    found = moments(made)
    assert made == short(1, family)
    played = [play_moments(made, hand, found) for hand in hands(made, 1)]
    assert all(done == len(made.steps) for done in played)


@pytest.mark.parametrize("family", ["graph", "equality", "time"])
def test_processes_are_killed(family: str) -> None:
    made = short(2, family)
    assert play(made, Hand("kills", (), 1)) == len(made.steps)


def test_a_planted_fault_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete and rederive that leaves everything that was derived as it is, once something is taken away."""
    maintain = DeleteAndRederive.maintain

    def faulty(self: DeleteAndRederive, task: Task) -> None:
        if not len(task.deleted):
            maintain(self, task)

    monkeypatch.setattr(DeleteAndRederive, "maintain", faulty)
    hand = Hand("transactions", (("maintainer", "dred"),), 0)
    number, made = next(
        (number, made)
        for number in range(20)
        if attempt(made := short(number, "graph", 12), hand) is not None
    )
    smaller = shrink(made, lambda each: attempt(each, hand), 60)
    assert len(smaller.steps) == 1 and len(smaller.begun) <= 3, smaller
    said = shrunk(smaller, hand, "", number, 1)
    assert "after transaction 1" in said or "with transaction 1" in said
    assert f"make torture SEED={number} COUNT=1" in said
    assert smaller.steps[0][0] in said


def test_a_crash_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*arguments: Any) -> None:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(DeleteAndRederive, "maintain", crash)
    made = short(1, "graph")
    assert attempt(made, Hand("transactions", (("maintainer", "dred"),), 0)) == "ended by SIGKILL"
    assert attempt(made, Hand("transactions", (("maintainer", "fp-update"),), 0)) is None
