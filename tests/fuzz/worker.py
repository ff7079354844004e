"""A child process that runs inputs, so that signals, endless loops and too much memory are caught."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

MEMORY = 3 << 30  # bytes that an input may take beyond what the child has when it begins
HANG = 30.0  # seconds


Run = Callable[[str, bytes], object]


def run_target(name: str, data: bytes) -> None:
    """Run an input of a target; raise what is a fault."""
    from tests.fuzz.targets import TARGETS, check

    check(TARGETS[name].run, data)


def serve(connection: Connection, folder: str, run: Run) -> None:
    """Answer each input with its fault, or None."""
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # faults of native code, which the parent tells of
    if run is run_target:
        import tidelog.reasoner.reasoner  # noqa: F401 - what is imported does not count as the memory of an input
    with suppress(OSError):  # where there is no such file there is no limit
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    connection.send("ready")
    while True:
        name, data = connection.recv()
        try:
            run(name, data)
            found = None
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is a fault
            found = describe(error)
        connection.send(found)


def describe(error: BaseException) -> str:
    """Return what kind of fault an exception is, and its traceback behind that."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if f"{os.sep}tidelog{os.sep}" in frame.filename] or frames
    where = f"{Path(inside[-1].filename).name}:{inside[-1].name}" if inside else "?"
    return f"{type(error).__name__} in {where}\n" + "".join(traceback.format_exception(error))[-3000:]


class Worker:
    """The child, started anew after a fault that ended it. Used in a `with` block."""

    def __init__(self, hang: float = HANG, run: Run = run_target) -> None:
        self._hang = hang
        self._run = run
        self._folder = tempfile.mkdtemp(prefix="tidelog-fuzz-")
        self._process: multiprocessing.process.BaseProcess | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def fault(self, name: str, data: bytes) -> str | None:
        """Return what goes wrong with an input, its kind on the first line; None if nothing does."""
        if self._process is None:
            self._start()
        self._connection.send((name, data))
        if not self._connection.poll(self._hang):
            self._end()
            return f"no end within {self._hang:g} s"
        try:
            found: str | None = self._connection.recv()
        except (EOFError, OSError):
            assert self._process is not None
            self._process.join(10)
            code = self._process.exitcode
            self._process = None
            return f"the process ended with {code}"
        return found

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, self._folder, self._run), daemon=True)
        self._process.start()
        other.close()
        assert self._connection.recv() == "ready"

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
