"""What a process does to find out what an endless stream costs: events come minute by minute, time advances.

With `advance` an hour is kept; with `keep` nothing is forgotten, for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

import tidelog as tl
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.record import Counts, Measurement, Task
from benchmarks.timelines import intervals, warm

PROGRAM = Path(__file__).parent / "programs" / "doors.rls"
MINUTE, HOUR = 60, 3600
EVENTS = 1_000  # a minute, which is a transaction
DOORS = 2_000
LOOKS = 10  # at the memory, in the course of the stream
SEED = 23


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """What a stream of so many events costs."""
    warm()
    return map(measured, tasks)


def measured(task: Task) -> Measurement:
    """All transactions of a stream, and the memory in the course of it."""
    reasoner = tl.Reasoner(tl.load(PROGRAM), threads=task.threads)
    random = np.random.default_rng(SEED)
    minutes = task.size // EVENTS
    latencies: list[float] = []
    memory: list[float] = []

    def run() -> None:
        for minute in range(minutes):
            begin = cpu_seconds()
            take_in(reasoner, minute, random, is_advancing=task.variant == "advance")
            latencies.append(cpu_seconds() - begin)
            if (minute + 1) * LOOKS // minutes > len(memory):
                memory.append(psutil.Process().memory_info().rss / 1e6)

    _, cpu, wall = timed(run)
    counts: Counts = {
        "events_per_s": round(task.size / cpu),
        "megabytes_by_tenth": " ".join(f"{one:.0f}" for one in memory),
        "growth": round(memory[-1] / memory[LOOKS // 2 - 1], 3),  # since half of the stream
        "intervals": intervals(reasoner),
    }
    p99 = float(np.percentile(latencies, 99))
    # Of what is kept, the variants agree in nothing but the number of events.
    return Measurement(cpu, wall, task.size, peak_megabytes(), p99, None, None, counts)


def take_in(reasoner: tl.Reasoner, minute: int, random: np.random.Generator, *, is_advancing: bool) -> None:
    """The events of a minute, as one transaction."""
    with reasoner.change() as change:
        for name, share in (("opened", 0.9), ("badge", 0.1)):
            change.insert(name, events(minute, int(EVENTS * share), random))
        if is_advancing and minute * MINUTE > HOUR:
            change.advance(minute * MINUTE - HOUR)


def events(minute: int, count: int, random: np.random.Generator) -> pa.Table:
    """So many events of a minute, each at a second of its own."""
    doors = random.integers(0, DOORS, count)
    seconds = minute * MINUTE + random.integers(0, MINUTE, count)
    return pa.table({"door": [f"d{door}" for door in doors.tolist()], "start": seconds, "end": seconds})
