"""What a suite has to offer, and what the command line asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.record import Measurement, Task


@dataclass(frozen=True)
class Options:
    """What the command line says; an empty tuple stands for what the suite does by default."""

    workloads: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    variants: tuple[str, ...] = ()
    peers: tuple[str, ...] | None = None
    threads: int = 1
    quick: bool = False


@dataclass(frozen=True)
class Suite:
    """Questions, as groups of tasks, and how a process performs tasks, one after the other.

    In a group the answers of all engines to one size must be equal; one process has all sizes of an engine.
    """

    questions: Callable[[Options], Iterable[tuple[Task, ...]]]
    perform: Callable[[Sequence[Task]], Iterable[Measurement]]
    time_limit: float = 120.0
