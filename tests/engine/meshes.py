"""Tasks of an exchange, run in threads of this process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any

from tidelog.engine.exchange import ExchangeTask, Mesh
from tidelog.logic.program import Program
from tidelog.logic.values import Value

Row = tuple[Value, ...]
SECONDS = 60.0  # after which a thread counts as hanging


def meshes(count: int, make: Callable[..., Mesh] = Mesh, **settings: Any) -> list[Mesh]:
    """The tasks' connections, without a network."""
    peers: list[dict[int, socket.socket]] = [{} for _ in range(count)]
    for number in range(count):
        for other in range(number):
            peers[number][other], peers[other][number] = socket.socketpair()
    return [make(number, peers[number], **settings) for number in range(count)]


def at_once(acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each act gives, or the error that it raises; all run at once, and none may hang."""
    found: list[Any] = [None] * len(acts)

    def run(number: int) -> None:
        try:
            found[number] = acts[number]()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            found[number] = error

    threads = [Thread(target=run, args=(number,), daemon=True) for number in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads), "a task hangs"
    return found


def run(
    program: Program,
    count: int,
    made: Sequence[Mesh] | None = None,
    make: Callable[..., Any] = ExchangeTask,
    **settings: Any,
) -> list[Any]:
    """The tasks that have run a program, or the errors that they have raised."""
    made = made or meshes(count)
    tasks = [make(program, mesh, **settings) for mesh in made]

    def act(task: Any) -> Any:
        task.run()
        return task

    try:
        return at_once([lambda task=task: act(task) for task in tasks])  # type: ignore[misc]
    finally:
        for mesh in made:
            mesh.close()


def facts(tasks: Sequence[ExchangeTask], name: str) -> list[Row]:
    """The facts of a predicate at all tasks."""
    found: list[Row] = []
    for task in tasks:
        columns, rows, dictionary = task.relation(name).coded
        if columns:
            found += zip(*(dictionary.decode_all(column.tolist()) for column in columns), strict=True)
        else:
            found += [()] * rows
    return found
