"""Smaller scenarios that still fail: transactions, statements and questions are dropped while they do.

Each attempt runs in a process of its own, so that one that crashes or hangs is a failure like any other.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import TypeVar

from tests.torture.expected import moments
from tests.torture.hands import Hand, fork, play
from tests.torture.scenarios import Scenario

T = TypeVar("T")
Attempt = Callable[[Scenario], str | None]
LONGEST = 60.0  # seconds of an attempt
TRIES = 3  # of a hand that is not the same each time: processes are killed at any moment


def attempt(scenario: Scenario, hand: Hand, longest: float = LONGEST) -> str | None:
    """What is wrong with a scenario, None if nothing is."""
    hearing, telling = os.pipe()
    child = fork()
    if not child:
        os.close(hearing)
        _tell(scenario, hand, telling)
    os.close(telling)
    try:
        return _heard(child, hearing, longest)
    finally:
        os.close(hearing)


def _tell(scenario: Scenario, hand: Hand, telling: int) -> None:
    """In the child: play, and tell what is wrong. Never returns."""
    said = b""
    for _ in range(TRIES if hand.way == "kills" else 1):
        try:
            play(scenario, hand)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
            said = f"{type(error).__name__}: {error}".encode(errors="replace")
            break
    os.write(telling, said[:4000])
    os._exit(0)


def _heard(child: int, hearing: int, longest: float) -> str | None:
    """What a child tells, or how it ended."""
    ready, _, _ = select.select([hearing], [], [], longest)
    said = os.read(hearing, 4096) if ready else b""
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ready:
        return f"no end after {longest:.0f} s"
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return said.decode() or None


def shrunk(scenario: Scenario, hand: Hand, message: str, number: int, seconds: float) -> str:
    """A failure of a seed, as small as can be found in the time, for people."""
    thorough = replace(hand, is_thorough=True)
    if attempt(scenario, thorough) is not None:
        hand = thorough
    smaller = shrink(scenario, lambda each: attempt(each, hand), seconds)
    return written(smaller, hand, attempt(smaller, hand) or message, number)


def shrink(scenario: Scenario, fails: Attempt, seconds: float) -> Scenario:
    """A scenario that fails too, as small as can be found in the time."""
    end = monotonic() + seconds
    while True:
        smaller = scenario
        for candidates in (_later, _fewer_steps, _fewer_statements, _fewer_toggles, _fewer_questions):
            smaller = _descend(smaller, candidates, fails, end)
        if smaller == scenario or monotonic() > end:
            return smaller
        scenario = smaller


def _descend(
    scenario: Scenario, candidates: Callable[[Scenario], Iterator[Scenario]], fails: Attempt, end: float
) -> Scenario:
    """The first candidate that fails, and its first, and so on."""
    found: Scenario | None = scenario
    while found is not None:
        scenario = found
        tried = (each for each in candidates(scenario) if monotonic() < end)
        found = next((each for each in tried if fails(each) is not None), None)
    return scenario


def _later(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario from a later moment on."""
    known = moments(scenario)
    for place in (len(known) - 2, len(known) // 2, 1):
        if 0 < place < len(known) - 1:
            yield replace(scenario, begun=known[place].state, steps=scenario.steps[place:])


def _fewer_steps(scenario: Scenario) -> Iterator[Scenario]:
    return (replace(scenario, steps=steps) for steps in _fewer(scenario.steps))


def _fewer_statements(scenario: Scenario) -> Iterator[Scenario]:
    steps = scenario.steps
    every = tuple(dict.fromkeys((*scenario.begun, *(each for step in steps for each in step))))
    for kept in map(frozenset, _fewer(every)):
        begun = tuple(each for each in scenario.begun if each in kept)
        left = (tuple(each for each in step if each in kept) for step in steps)
        yield replace(scenario, begun=begun, steps=tuple(step for step in left if step))


def _fewer_toggles(scenario: Scenario) -> Iterator[Scenario]:
    every = tuple((place, each) for place, step in enumerate(scenario.steps) for each in step)
    for kept in map(frozenset, _fewer(every)):
        steps = (
            tuple(each for each in step if (place, each) in kept) for place, step in enumerate(scenario.steps)
        )
        yield replace(scenario, steps=tuple(step for step in steps if step))


def _fewer_questions(scenario: Scenario) -> Iterator[Scenario]:
    return (replace(scenario, questions=questions) for questions in _fewer(scenario.questions))


def _fewer(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """The items without some that follow each other: half of them, a quarter, …, one.

    >>> list(_fewer("abc"))
    [('b', 'c'), ('a', 'c'), ('a', 'b')]
    """
    size = len(items) // 2
    while size:
        for place in range(0, len(items), size):
            yield (*items[:place], *items[place + size :])
        size //= 2


def written(scenario: Scenario, hand: Hand, message: str, number: int) -> str:
    """A failure for people: what is wrong, with which program and changes, and how to see it again."""
    changes = "\n@commit .\n".join(moment.script for moment in moments(scenario)[1:])
    asked = "".join(f"?- {question.text} .\n" for question in scenario.questions)
    parts = [
        f"seed {number} fails, {scenario.family}: {hand}",
        message,
        f"---- the program\n{scenario.program(scenario.begun)}",
        f"---- the changes\n{changes}\n",
        *([f"---- the queries\n{asked}"] if hand.way == "queries" else []),
        f"---- again, before it was shrunk: make torture SEED={number} COUNT=1",
    ]
    return "\n".join(parts)
