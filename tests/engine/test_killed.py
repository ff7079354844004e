"""Tasks in processes of their own, of which one is killed or stopped in each round: errors, and no hang."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

import pytest

import tidelog as tl
from tidelog.data.columns import Batch, column_of_values
from tidelog.engine import reference
from tidelog.engine.exchange import ExchangeTask, Listener, Lost
from tidelog.engine.exchange.sockets import Frame
from tidelog.logic.values import Value, integer
from tidelog.rewrite.localise import Sizes

TASKS, VICTIM = 3, 1
PATIENCE = 30.0  # seconds after which a test fails
SILENCE = 2.0  # seconds after which a stopped task counts as lost
LARGE = Sizes({"edge": 1_000_000})  # so that facts are divided and sent
PROGRAM = """
    @declare edge(x: int, y: int) .
    edge(1, 2) . edge(2, 3) . edge(3, 4) . edge(4, 5) . edge(5, 6) . edge(6, 7) . edge(7, 1) . edge(8, 9) .
    path(?x, ?y) :- edge(?x, ?y) .
    path(?x, ?z) :- path(?x, ?y), path(?y, ?z) .
    reached(?x, #count(?y)) :- path(?x, ?y) .
    apart(?x, ?y) :- edge(?x, _), edge(_, ?y), ~path(?x, ?y) .
"""
# Spark's workers are forked from a daemon as well. What is imported there is there in each process.
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tidelog.engine.exchange", "tests.engine.test_killed"])

Row = tuple[Value, ...]


class Ending(ExchangeTask):
    """A task that sends itself a signal before one of its exchanges with the others."""

    ends_at, signal, exchanges = 0, signal.SIGKILL, 0

    def _swap(self, stage: int, frames: Mapping[int, Frame]) -> dict[int, Frame]:
        self.exchanges += 1
        if self.exchanges == self.ends_at:
            os.kill(os.getpid(), self.signal)
        return super()._swap(stage, frames)


def work(number: int, talk: Connection, attempt: str, ends_at: int, by: signal.Signals) -> None:
    """Be one of the tasks; say what this task holds in the end, or what it has raised."""
    listener = Listener()
    talk.send(listener.address)
    patience = SILENCE if by is signal.SIGSTOP else PATIENCE
    with listener.join(number, talk.recv(), b"secret", attempt, patience=patience) as mesh:
        task = Ending(tl.parse(PROGRAM), mesh, sizes=LARGE)
        task.ends_at, task.signal = ends_at if number == VICTIM else 0, by
        try:
            if number:
                columns = [column_of_values([integer(10 * number + at)]) for at in (0, 1)]
                task.load("edge", [Batch(tuple(columns), 1)])
            task.run()
        except Lost as error:
            talk.send(str(error))
            return
        talk.send({name: rows_of(task, name) for name in task.program.predicates})


def rows_of(task: ExchangeTask, name: str) -> list[Row]:
    columns, _, dictionary = task.relation(name).coded
    return list(zip(*(dictionary.decode_all(column.tolist()) for column in columns), strict=True))


@contextmanager
def started(ends_at: int, by: signal.Signals = signal.SIGKILL) -> Iterator[list[Any]]:
    """What each task says, None of one that was killed; in the end all processes are gone."""
    pipes = [SERVER.Pipe() for _ in range(TASKS)]
    processes = [
        SERVER.Process(target=work, args=(number, there, f"{ends_at}", ends_at, by), daemon=True)
        for number, (_, there) in enumerate(pipes)
    ]
    try:
        for process, (_, there) in zip(processes, pipes, strict=True):
            process.start()
            there.close()  # so that the end of the process is the end of the pipe
        addresses = [heard(here) for here, _ in pipes]
        for here, _ in pipes:
            here.send(addresses)
        others = [number for number in range(TASKS) if number != VICTIM]
        said: list[Any] = [None] * TASKS
        for number in others:
            said[number] = heard(pipes[number][0])
        if by is not signal.SIGSTOP:
            said[VICTIM] = heard(pipes[VICTIM][0])
        yield said
    finally:
        for process in processes:
            process.kill()
            process.join()


def heard(talk: Connection) -> Any:
    """What a task says, or None if it has ended."""
    assert talk.poll(PATIENCE), "a task hangs"
    try:
        return talk.recv()
    except EOFError:
        return None


def test_a_task_is_killed_in_every_round_until_an_attempt_succeeds() -> None:
    ends_at = 0
    while True:
        ends_at += 1
        with started(ends_at) as said:
            if said[VICTIM] is not None:
                break  # it never came so far
            for number in (0, 2):
                assert "E690" in said[number] and f"task {VICTIM} is gone" in said[number], ends_at
    assert ends_at > 8  # counts, plans, given facts twice, and rounds with gates in between
    facts = [f"edge({10 * number}, {10 * number + 1}) ." for number in range(1, TASKS)]
    expected = reference.evaluate(tl.parse(PROGRAM + " ".join(facts)))
    for name, rows in expected.items():
        found = [row for each in said for row in each[name]]
        assert len(found) == len(set(found)) and set(found) == set(rows), name


@pytest.mark.parametrize("ends_at", [1, 4, 6])
def test_a_task_that_is_stopped_counts_as_lost(ends_at: int) -> None:
    before = monotonic()
    with started(ends_at, signal.SIGSTOP) as said:
        for number in (0, 2):
            assert "E690" in said[number], said
        assert any(
            f"task {VICTIM} has not responded for {SILENCE:g} s" in said[number] for number in (0, 2)
        ), said
    assert monotonic() - before < PATIENCE
