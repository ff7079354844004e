"""What rules over time cost: by the three procedures, and kept right when facts are deleted and added.

A size is a number of facts with times. `changes` deletes 100 readings, `cpu_s`, and adds them again;
`reason_s` beside it is what deriving everything took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "temporal"
WORKLOAD = "sensors"
VARIANTS = ("optimised", "seminaive", "naive", "changes")
SIZES, QUICK_SIZES = (20_000, 200_000, 1_000_000), (2_000, 20_000)


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per size, put to every variant; all must come to the same facts."""
    for size in options.sizes or (QUICK_SIZES if options.quick else SIZES):
        yield tuple(
            Task(NAME, WORKLOAD, "tidelog", variant, size, options.threads)
            for variant in options.variants or VARIANTS
        )


def warm_up(options: Options) -> Iterator[Task]:
    """One variant once, on little: the first run on a machine compiles all kernels."""
    yield Task(NAME, WORKLOAD, "tidelog", VARIANTS[0], 1_000, options.threads)


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each size."""
    from benchmarks import timelines

    return timelines.perform(tasks)


SUITE = Suite(questions, warm_up, perform, time_limit=300.0)
