"""What computing with values costs: from CSV to CSV, on tidelog and its peers.

`W9` is a job over order lines, with prices that are decimals and doubles, `W10` one over log lines; `W11` are
doubles in recursion; `W12` tries all pairs of numbers; `W13` is so many rounds of adding 1. `changes` changes
order lines of `W9` through Python: its sizes are lines changed in a transaction.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.computing import TINY, answers_folder, compute
from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite
from benchmarks.workloads import VALUED, prepare

NAME = "values"
CHANGES, CHANGED = "changes", "W9"  # the workload whose facts change
PEERS = ("duckdb", "polars")
SIZES: Mapping[str, tuple[int, ...]] = {
    "W9": (100_000, 1_000_000, 10_000_000),
    "W9-doubles": (100_000, 1_000_000, 10_000_000),
    "W10": (100_000, 1_000_000),
    "W13": (100_000, 1_000_000),
    CHANGES: (1, 1_000),
}
QUICK_CHANGES = (1, 100)
MAINTAINERS = ("recompute", "auto")
UNFIT = {("W13", "polars")}  # a loop of a million rounds is none for data frames


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per workload and size, put to tidelog and its peers; changes, to maintainers."""
    for name in options.workloads or (*VALUED, CHANGES):
        if name == CHANGES:
            yield changes(options)
            continue
        workload = VALUED[name]
        usual = (workload.quick_size,) if options.quick else SIZES.get(name, (workload.size,))
        prepare(workload, TINY)
        for size in options.sizes or usual:
            # What engines wrote in earlier runs is held against nobody.
            shutil.rmtree(answers_folder(prepare(workload, size)), ignore_errors=True)
            yield tuple(tasks(name, size, options))


def tasks(name: str, size: int, options: Options) -> Iterator[Task]:
    """The tasks of one question."""
    for engine in ("tidelog", *(PEERS if options.peers is None else options.peers)):
        if (name, engine) not in UNFIT:
            yield Task(NAME, name, engine, "", size, options.threads)


def changes(options: Options) -> tuple[Task, ...]:
    """Transactions of each size, by each maintainer, which must come to the same."""
    workload = VALUED[CHANGED]
    facts = workload.quick_size if options.quick else workload.size
    prepare(workload, facts)
    sizes = sorted(options.sizes) or (QUICK_CHANGES if options.quick else SIZES[CHANGES])
    return tuple(
        Task(NAME, CHANGES, "tidelog", variant, size, options.threads, facts)
        for variant in options.variants or MAINTAINERS
        for size in sizes
    )


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each job in this process, or of changes of each size."""
    if tasks[0].workload == CHANGES:
        from benchmarks import lines  # not for processes that measure peers

        return lines.perform(tasks)
    return map(compute, tasks)


SUITE = Suite(questions, perform, time_limit=120.0)
