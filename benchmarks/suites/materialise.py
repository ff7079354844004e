"""From files to the number of all consequences, on every engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.clock import peak_megabytes, timed
from benchmarks.peers import ENGINES
from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite
from benchmarks.workloads import WORKLOADS, Workload, prepare

NAME = "materialise"
QUICK_PEERS = ("duckdb",)


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per workload and size, put to tidelog, each of its variants, and the peers."""
    for workload in chosen_workloads(options):
        for size in options.sizes or (default_size(workload, options),):
            prepare(workload, size)
            yield tuple(tasks(workload, size, options))


def tasks(workload: Workload, size: int, options: Options) -> Iterator[Task]:
    for engine in ("tidelog", *chosen_peers(options)):
        variants = [name for name in options.variants if name.partition(":")[0] == engine]
        for variant in ("", *(name.partition(":")[2] for name in variants)):
            yield Task(NAME, workload.name, engine, variant, size, options.threads)


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each materialisation in this process, imports apart."""
    return map(materialised, tasks)


def materialised(task: Task) -> Measurement:
    prepared = prepare(WORKLOADS[task.workload], task.size)
    work = ENGINES[task.engine](prepared, task.variant, task.threads)
    outcome, cpu, wall = timed(work)
    return Measurement(
        cpu_s=cpu,
        wall_s=wall,
        tuples=outcome.tuples,
        peak_rss_mb=peak_megabytes(),
        load_s=outcome.load_s,
        reason_s=outcome.reason_s,
        counts={"facts": prepared.facts},
    )


def chosen_workloads(options: Options) -> list[Workload]:
    return [WORKLOADS[name] for name in options.workloads or WORKLOADS]


def chosen_peers(options: Options) -> tuple[str, ...]:
    if options.peers is not None:
        return options.peers
    return QUICK_PEERS if options.quick else tuple(name for name in ENGINES if name != "tidelog")


def default_size(workload: Workload, options: Options) -> int:
    return workload.quick_size if options.quick else workload.size


SUITE = Suite(questions, perform)
