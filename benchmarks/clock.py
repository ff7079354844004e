"""How a process measures itself: CPU seconds, wall seconds, peak memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Outcome = TypeVar("Outcome")


def timed(work: Callable[[], Outcome]) -> tuple[Outcome, float, float]:
    """What the work gave, with its CPU seconds, children included, and its wall seconds."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    outcome = work()
    return outcome, cpu_seconds() - cpu, time.perf_counter() - wall


def cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def peak_megabytes() -> float:
    """The most memory this process ever had resident.

    The kernel's high-water mark where there is one: `ru_maxrss` also counts the parent before `exec`.
    """
    status = Path("/proc/self/status")
    if status.exists():
        marks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(marks[0].split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
