"""What a process does to find out what a store costs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

import tidelog as tl
from benchmarks import workloads
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.record import Counts, Measurement, Task
from benchmarks.workloads import WORKLOADS, prepare
from tidelog.reasoner.storing import StoredReasoner, open_store

PAIRS = tl.parse("""
    @declare edge(x: int, y: int) .
    mutual(?x, ?y) :- edge(?x, ?y), edge(?y, ?x) .
""")
COMMITS = 1_000
FIRST = 20  # commits that are not counted: the first makes sets of rows, indexes and counters
RECORD = 120  # bytes of a record with one fact
NEW_FACTS: dict[str, tuple[str, Callable[[int], tuple[object, ...]]]] = {
    "pairs": ("edge", lambda number: (number, -number - 1)),
    "W1": ("edge", lambda number: (5_000_000 + number, 6_000_000 + number)),
    "W5": (
        "takesCourse",
        lambda number: (f"http://example.org/student{number}", "http://example.org/course"),
    ),
}


def load(task: Task, reasoner: tl.Reasoner) -> None:
    """Give a reasoner the facts that its program does not import."""
    if task.workload == "pairs":
        drawn = np.random.default_rng(7).integers(0, task.size // 10, (2, task.size))
        reasoner.insert("edge", pa.table({"x": drawn[0], "y": drawn[1]}))


def program_of(task: Task) -> tl.Program:
    if task.workload == "pairs":
        return PAIRS
    return tl.load(prepare(WORKLOADS[task.workload], task.size).program)


def facts_of(reasoner: tl.Reasoner) -> int:
    return sum(reasoner.sizes.size(name) for name in reasoner.program.predicates)


def materialised(task: Task) -> Measurement:
    """From files to everything that follows."""
    reasoner = tl.Reasoner(program_of(task), threads=task.threads)
    cpu, wall = cpu_seconds(), perf_counter()
    load(task, reasoner)
    reasoner.materialise()
    cpu, wall = cpu_seconds() - cpu, perf_counter() - wall
    reasoning = sum(stratum.seconds for stratum in reasoner.statistics.strata.values())
    return Measurement(cpu, wall, facts_of(reasoner), peak_megabytes(), reason_s=reasoning)


@contextmanager
def made(task: Task) -> Iterator[Path]:
    """The folder of a store that holds a workload, on the disk that the results are on."""
    workloads.RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=workloads.RESULTS) as folder:
        path = Path(folder) / "store"
        with open_store(path, program_of(task), later=True, threads=task.threads) as reasoner:
            load(task, reasoner)
            reasoner.begin()
        yield path


def opened(task: Task) -> Measurement:
    """From a store to everything that follows, ready to be asked and changed."""
    with made(task) as path:
        size = sum(file.stat().st_size for file in path.iterdir())
        reasoner, cpu, wall = timed(lambda: tl.open(path, threads=task.threads))
        facts = facts_of(reasoner)
        start = perf_counter()
        commit(task, reasoner, 0)
        first = perf_counter() - start
        reasoner.close()
        counted = sum(file.stat().st_size for file in path.glob("snapshot*"))
    counts: Counts = {
        "bytes_per_fact": size / facts,
        "counted_bytes_per_fact": counted / facts,  # once counters and ranks are there
        "first_commit_s": first,
    }
    return Measurement(cpu, wall, facts, peak_megabytes(), counts=counts)


def commit(task: Task, reasoner: tl.Reasoner, number: int) -> None:
    predicate, fact = NEW_FACTS[task.workload]
    reasoner.insert(predicate, [fact(number)])


def committed(task: Task) -> Measurement:
    """One fact at a time: into a store, into a reasoner without one, and as bytes to a file; in turns."""
    with made(task) as path, (path.parent / "floor").open("wb") as probe:
        plain = tl.Reasoner(program_of(task), threads=task.threads)
        load(task, plain)
        plain.materialise()
        with tl.open(path, threads=task.threads) as stored:
            begun = cpu_seconds()
            waited = _in_turns(task, stored, plain, probe.fileno())
            cpu = (cpu_seconds() - begun) / (COMMITS + FIRST)  # of all three
            facts = facts_of(stored)
    whole, maintaining, floor = (median(some) for some in waited)
    counts: Counts = {
        "commits_per_s": len(waited[0]) / sum(waited[0]),
        "maintain_s": maintaining,
        "floor_s": floor,
        "by_floor": (whole - maintaining) / floor,
    }
    return Measurement(cpu, whole, facts, peak_megabytes(), _ninety_ninth(waited[0]), counts=counts)


def _in_turns(
    task: Task, stored: StoredReasoner, plain: tl.Reasoner, probe: int
) -> tuple[list[float], list[float], list[float]]:
    """Wall seconds of each commit, of each change without a store, and of each write to a file."""
    done: tuple[list[float], list[float], list[float]] = [], [], []
    works: tuple[Callable[[int], None], ...] = (
        lambda number: commit(task, stored, number),
        lambda number: commit(task, plain, number),
        lambda number: write_record(probe),
    )
    for number in range(COMMITS + FIRST):
        for work, seconds in zip(works, done, strict=True):
            start = perf_counter()
            work(number)
            if number >= FIRST:
                seconds.append(perf_counter() - start)
    return done


def write_record(descriptor: int) -> None:
    """What the disk takes for a commit."""
    os.write(descriptor, b"x" * RECORD)
    os.fdatasync(descriptor)


def floored(task: Task) -> Measurement:
    """Bytes to a file, forced to the disk each time."""
    workloads.RESULTS.mkdir(parents=True, exist_ok=True)
    seconds, begun = [], cpu_seconds()
    with tempfile.TemporaryFile(dir=workloads.RESULTS) as probe:
        for _ in range(COMMITS):
            start = perf_counter()
            write_record(probe.fileno())
            seconds.append(perf_counter() - start)
    cpu = (cpu_seconds() - begun) / COMMITS
    counts: Counts = {"commits_per_s": COMMITS / sum(seconds)}
    return Measurement(cpu, median(seconds), 0, peak_megabytes(), _ninety_ninth(seconds), counts=counts)


def _ninety_ninth(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100]


VARIANTS: dict[str, Callable[[Task], Measurement]] = {
    "materialise": materialised,
    "open": opened,
    "commit": committed,
    "fsync-floor": floored,
}
