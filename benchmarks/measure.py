"""Runs tasks in processes of their own, engines taking turns, and takes the medians.

The process measures itself; from here it is only watched, and stopped at the limits of time and memory.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cache
from pathlib import Path

import psutil

from benchmarks.record import Counts, Measurement, Record, Task

ROOT = Path(__file__).parent.parent
SECONDS_BETWEEN_LOOKS = 0.1
PATIENCE = 5  # wall seconds for each CPU second of the limit: others may use the machine too
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "ARROW_NUM_THREADS",
    "POLARS_MAX_THREADS",
)


@dataclass(frozen=True)
class Limits:
    """When a process is stopped: CPU seconds of a task, more of wall time, gibibytes of memory."""

    seconds: float = 120.0
    gibibytes: float = 12.0


@dataclass(frozen=True)
class Stopped:
    """A task that reached a limit or failed, and what it had cost by then."""

    status: str
    reason: str
    cpu_s: float
    wall_s: float
    peak_rss_mb: float


Result = Measurement | Stopped


@dataclass
class Runs:
    """The results of one task so far; filled while the engines take turns."""

    task: Task
    results: list[Result] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return any(isinstance(result, Stopped) for result in self.results)

    @property
    def is_stopped(self) -> bool:
        """Whether a limit was reached in these runs."""
        return any(
            isinstance(each, Stopped) and each.status == "stopped" and each.cpu_s for each in self.results
        )


class DisagreementError(Exception):
    """Engines gave different answers to the same question."""


def measure(
    tasks: Sequence[Task],
    repetitions: int,
    limits: Limits,
    hopeless: dict[tuple[str, ...], int],
) -> Iterator[Record]:
    """One record per task, as soon as it is known; all answers to the same question are equal.

    An engine performs all its tasks in one process. Who was stopped at a smaller size of the same workload is
    not tried again: `hopeless` has these sizes.
    """
    records: list[Record] = []
    sessions: dict[tuple[str, ...], list[Runs]] = {}
    for task in tasks:
        sessions.setdefault(question_of(task), []).append(Runs(task, not_tried(task, hopeless)))
    for repetition in range(1, repetitions + 1):
        for runs in sessions.values():
            waiting = [each for each in runs if not each.is_over]
            if waiting:
                report(f"{waiting[0].task.label} {repetition}/{repetitions}: begun")
            results = run([each.task for each in waiting], limits) if waiting else []
            for each, result in zip(waiting, results, strict=True):
                each.results.append(result)
                report(f"{each.task.label} {repetition}/{repetitions}: {said(result)}")
            if repetition == repetitions:
                hopeless.update({question_of(each.task): each.task.size for each in runs if each.is_stopped})
                found = [summarise(each) for each in runs]
                yield from found
                records += found
    check_agreement(records)


def not_tried(task: Task, given_up: Mapping[tuple[str, ...], int]) -> list[Result]:
    """Why the task need not be run, if that is known."""
    size = given_up.get(question_of(task))
    if size is None or size >= task.size:
        return []
    return [unreached(size)]


def question_of(task: Task) -> tuple[str, ...]:
    """What is asked of whom, without the size."""
    return task.suite, task.workload, task.engine, task.full_variant


def run(tasks: Sequence[Task], limits: Limits) -> list[Result]:
    """What a process of their own measured of each of the tasks, or why there is no measurement."""
    with tempfile.TemporaryDirectory() as folder:
        result, errors = Path(folder) / "results.jsonl", Path(folder) / "errors.txt"
        result.touch()
        asked = json.dumps([asdict(task) for task in tasks])
        command = [sys.executable, "-m", "benchmarks.child", asked, str(result)]
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(tasks[0].threads))
        with errors.open("wb") as sink:
            process = psutil.Popen(command, cwd=ROOT, env=environment, stdout=sink, stderr=sink)
            stopped = watch(process, limits, result)
        lines = result.read_text().splitlines(keepends=True)
        done: list[Result] = [Measurement(**json.loads(line)) for line in lines if line.endswith("\n")]
        if len(done) == len(tasks):
            return done
        if stopped is None:
            said = errors.read_text(errors="replace").strip().splitlines() or ["no message"]
            stopped = Stopped("failed", f"exit {process.returncode}: {said[-1]}", 0.0, 0.0, 0.0)
        later = unreached(tasks[len(done)].size, stopped.status)
        return [*done, stopped, *[later] * (len(tasks) - len(done) - 1)]


def unreached(size: int, status: str = "stopped") -> Stopped:
    """Why a larger size is not tried."""
    return Stopped("stopped", f"not tried, {status} at size {size:,}", 0.0, 0.0, 0.0)


def watch(process: psutil.Popen, limits: Limits, result: Path) -> Stopped | None:
    """Nothing once the process has ended by itself; else which limit it was stopped at.

    Whatever it writes to its results ends a task, and begins another.
    """
    begin, before, written = time.monotonic(), 0.0, 0
    peak, cpu = 0, 0.0
    while True:
        try:
            process.wait(SECONDS_BETWEEN_LOOKS)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            wall = time.monotonic() - begin
        else:
            return None
        try:
            peak, cpu = max(peak, process.memory_info().rss), sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
        if result.stat().st_size != written:
            begin, before, written = time.monotonic(), cpu, result.stat().st_size
            continue
        reason = limit_reached(cpu - before, wall, peak, limits)
        if reason is not None:
            process.kill()
            process.wait()
            return Stopped("stopped", reason, cpu - before, wall, peak / 1e6)


def limit_reached(cpu: float, wall: float, memory: int, limits: Limits) -> str | None:
    if cpu > limits.seconds:
        return f"{limits.seconds:g} s CPU"
    if wall > PATIENCE * limits.seconds:
        return f"{PATIENCE * limits.seconds:g} s wall"
    if memory > limits.gibibytes * 2**30:
        return f"{limits.gibibytes:g} GiB"
    return None


def summarise(runs: Runs) -> Record:
    """The medians of a task's runs; one that was stopped or failed stands for all of them."""
    task = runs.task
    spoilt = next((result for result in runs.results if isinstance(result, Stopped)), None)
    if spoilt is not None:
        end: Counts = {"status": spoilt.status, "reason": spoilt.reason}
        return record_of(
            task, Measurement(spoilt.cpu_s, spoilt.wall_s, 0, spoilt.peak_rss_mb), end | circumstances(task)
        )
    done = [result for result in runs.results if isinstance(result, Measurement)]
    middle = sorted(done, key=lambda result: result.cpu_s)[len(done) // 2]
    medians = Measurement(
        cpu_s=statistics.median(result.cpu_s for result in done),
        wall_s=statistics.median(result.wall_s for result in done),
        tuples=middle.tuples,
        peak_rss_mb=max(result.peak_rss_mb for result in done),
        p99_s=middle.p99_s,
        load_s=middle.load_s,
        reason_s=middle.reason_s,
    )
    spread: Counts = {
        "status": "done",
        "repetitions": len(done),
        "cpu_min_s": round(min(result.cpu_s for result in done), 7),
        "cpu_max_s": round(max(result.cpu_s for result in done), 7),
    }
    return record_of(task, medians, spread | circumstances(task) | middle.counts)


def record_of(task: Task, measured: Measurement, counts: Counts) -> Record:
    return Record(
        suite=task.suite,
        workload=task.workload,
        engine=task.engine,
        variant=task.full_variant,
        size=task.size,
        cpu_s=round(measured.cpu_s, 7),
        wall_s=round(measured.wall_s, 7),
        p99_s=rounded(measured.p99_s),
        tuples=measured.tuples,
        peak_rss_mb=round(measured.peak_rss_mb, 1),
        load_s=rounded(measured.load_s),
        reason_s=rounded(measured.reason_s),
        counts=counts,
    )


def rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 7)


def circumstances(task: Task) -> Counts:
    """Where and when, for the caption of a plot, and how busy the machine was."""
    return {
        "threads": task.threads,
        "date": date.today().isoformat(),
        "machine": machine(),
        "load_average": round(os.getloadavg()[0], 1),
    }


@cache
def machine() -> str:
    """The processor, the number of cores, the memory and the Python version."""
    described = (line for line in cpu_lines() if line.startswith("model name"))
    processor = next(described, f": {platform.processor()}").partition(":")[2].strip()
    memory = psutil.virtual_memory().total / 2**30
    python = platform.python_version()
    return f"{processor}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, Python {python}"


def cpu_lines() -> Iterator[str]:
    path = Path("/proc/cpuinfo")
    return iter(path.read_text().splitlines() if path.exists() else ())


def check_agreement(records: Sequence[Record]) -> None:
    """All engines that came to an end counted the same tuples, and where it is known they are the same."""
    for size in {record.size for record in records}:
        answers = {
            f"{record.engine} {record.variant}".strip(): (record.tuples, record.counts.get("digest"))
            for record in records
            if record.is_done and record.size == size
        }
        if len(set(answers.values())) > 1:
            raise DisagreementError(f"{records[0].workload} of size {size}: {answers}")


def said(result: Result) -> str:
    if isinstance(result, Stopped):
        return f"{result.status}, {result.reason}"
    return f"{result.cpu_s:.3g} s CPU, {result.tuples:,} tuples, {result.peak_rss_mb:.0f} MB"


def report(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
