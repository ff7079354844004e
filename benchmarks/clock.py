"""How a process measures itself: CPU seconds, wall seconds, peak memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

Outcome = TypeVar("Outcome")
SECONDS_BETWEEN_LOOKS = 0.5


def timed(work: Callable[[], Outcome]) -> tuple[Outcome, float, float]:
    """What the work gave, with its CPU seconds, children included, and its wall seconds."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    outcome = work()
    return outcome, cpu_seconds() - cpu, time.perf_counter() - wall


def cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def tree_timed(work: Callable[[], Outcome]) -> tuple[Outcome, float, float]:
    """The same for work that other processes take part in: all that descend from this one."""
    with Family() as family:
        wall = time.perf_counter()
        outcome = work()
        return outcome, family.cpu_seconds(), time.perf_counter() - wall


def tree_peak_megabytes() -> float:
    """The most memory that each process of the family ever had resident, in all: an upper bound."""
    return sum(peak_of(process.pid) for process in family_now())


class Family:
    """CPU seconds of this process and its descendants, for the time of a `with` block. Mutates itself.

    They are looked at twice a second, since what a process has spent may be gone when it ends: whoever waits
    for it may have ended too.
    """

    def __init__(self) -> None:
        self.spent: dict[tuple[int, float], float] = {}
        self.begun = 0.0
        self.ended = Event()
        self.watching = Thread(target=self.watch, daemon=True)

    def __enter__(self) -> Family:
        self.begun = self.look()
        self.watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.watching.join()

    def watch(self) -> None:
        while not self.ended.wait(SECONDS_BETWEEN_LOOKS):
            self.look()

    def cpu_seconds(self) -> float:
        """What was spent since the block began."""
        return self.look() - self.begun

    def look(self) -> float:
        """What all processes that were ever seen have spent."""
        for process in family_now():
            self.spent[process.pid, process.create_time()] = sum(process.cpu_times()[:2])
        return sum(list(self.spent.values()))


def family_now() -> Iterator[Any]:
    """This process and its descendants, as far as they are there when they are looked at."""
    import psutil  # here, so that it weighs on no process that does not need it

    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess), process.oneshot():
            process.cpu_times()
            yield process


def peak_megabytes() -> float:
    """The most memory this process ever had resident.

    The kernel's high-water mark where there is one: `ru_maxrss` also counts the parent before `exec`.
    """
    if Path("/proc/self/status").exists():
        return peak_of("self")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def peak_of(process: int | str) -> float:
    """The high-water mark of a process in Linux's list, zero if it is not there."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        marks = [line for line in lines if line.startswith("VmHWM")]
        return int(marks[0].split()[1]) * 1024 / 1e6 if marks else 0.0
    return 0.0
