"""A program derived by several processes of this machine, for a process that has its facts.

The process that calls `derive` is a task too, beyond those that own facts: it sends the given facts, and
receives all that is derived. The others are started for each call, and get the program by a pipe (`serve`).
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import IO, Any, Final

from tidelog.data.dictionary import Dictionary
from tidelog.engine.exchange.ids import Collision
from tidelog.engine.exchange.sockets import Listener, Mesh, lost
from tidelog.engine.exchange.tasks import ExchangeTask
from tidelog.errors import TidelogError
from tidelog.logic.program import Program

Given = tuple[Any, ...]  # the arguments of `ExchangeTask.add`

ATTEMPTS: Final = 4  # with one seed each
CODE: Final = "from tidelog.engine.exchange.processes import serve; serve()"


def derive(
    program: Program,
    given: Iterable[Given],
    dictionary: Dictionary,
    processes: int,
    *,
    timeout: float | None = None,
    max_facts: int | None = None,
    make: Callable[..., Any] = ExchangeTask,
) -> tuple[dict[str, list[Any]], Any]:
    """Return all facts of the derived predicates, and the task of this process, which has ended.

    Given facts are ids of the dictionary, and so are these. `make` is a class of tasks that every process can
    import, perhaps with settings.
    """
    given = list(given)
    wanted = sorted(program.derived)
    for seed in range(ATTEMPTS):
        order = {
            "make": make,
            "program": program,
            "wanted": wanted,
            "seed": seed,
            "timeout": timeout,
            "max_facts": max_facts,
        }
        try:
            with _started(processes, order) as mesh:
                task = make(
                    program,
                    mesh,
                    owners=processes,
                    timeout=timeout,
                    max_facts=max_facts,
                    seed=seed,
                    dictionary=dictionary,
                )
                for part in given:
                    task.add(*part)
                task.run()
                return task.collect(wanted), task
        except Collision:
            if seed == ATTEMPTS - 1:
                raise
    raise AssertionError("not reached")


@contextmanager
def _started(count: int, order: Mapping[str, Any]) -> Iterator[Mesh]:
    """Start processes, and yield the mesh of this one and them; they have ended after the block."""
    secret, attempt = token_bytes(32), token_hex(16)
    path = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    settings: dict[str, Any] = {
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "start_new_session": True,  # Ctrl-C is for the calling process, which stops the others
    }
    processes = [subprocess.Popen([sys.executable, "-c", CODE], **settings) for _ in range(count)]
    listener = Listener()
    try:
        pipes = [(_known(process.stdin), _known(process.stdout)) for process in processes]
        addresses = []
        for number, (to, answers) in enumerate(pipes):
            with suppress(BrokenPipeError):  # then it does not answer either
                pickle.dump({**order, "number": number, "secret": secret, "attempt": attempt}, to)
                to.flush()
            addresses.append(answers.readline().decode().strip())
        addresses.append(listener.address)
        if not all(addresses):
            raise lost(f"task {addresses.index('')} did not start", "see its earlier output")
        for to, _ in pipes:
            with suppress(BrokenPipeError):
                to.write(json.dumps(addresses).encode() + b"\n")
                to.close()
        with listener.join(count, addresses, secret, attempt) as mesh:
            yield mesh
    except BaseException:
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(2)
            process.kill()
        raise
    finally:
        listener.close()
        for process in processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    _known(pipe).close()


def _known(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def serve() -> None:
    """Run as one of the processes; read the order from standard input, sent by the starting process."""
    order = pickle.load(sys.stdin.buffer)  # a pipe from the process that started this one
    listener = Listener()
    print(listener.address, flush=True)
    addresses = json.loads(sys.stdin.buffer.readline())
    try:
        with listener.join(order["number"], addresses, order["secret"], order["attempt"]) as mesh:
            task = order["make"](
                order["program"],
                mesh,
                owners=len(addresses) - 1,
                timeout=order["timeout"],
                max_facts=order["max_facts"],
                seed=order["seed"],
            )
            task.run()
            task.collect(order["wanted"])
    except TidelogError:
        sys.exit(1)  # the calling process raises it
