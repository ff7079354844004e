"""The pipeline on Spark beside the columnar engine, and beside a job that derives nothing.

A variant is the `columnar` engine on the same files, the whole `pipeline` from files to a published version,
or `plain-read-distinct-write`: Spark alone, which reads the same files, removes duplicates and writes
Parquet. `benchmarks.stages` measures `tidelog.spark.derive`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "spark"
PLAIN = "plain-read-distinct-write"
VARIANTS = {
    "W5": ("columnar", "pipeline", PLAIN),
    "update": ("pipeline", "batches"),
}
SIZES = {
    "W5": (1_000_000, 4_000_000),
    "update": (1_000_000,),
}
QUICK_SIZES = {"W5": 50_000, "update": 50_000}


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per workload and size, put to all its variants, which take turns."""
    from benchmarks.spark_jobs import prepared

    for workload in options.workloads or tuple(VARIANTS):
        own = VARIANTS[workload]
        chosen = tuple(name for name in own if name in options.variants) if options.variants else own
        for size in options.sizes or ((QUICK_SIZES[workload],) if options.quick else SIZES[workload]):
            prepared(workload, size)
            yield tuple(Task(NAME, workload, engine_of(name), name, size, options.threads) for name in chosen)


def engine_of(variant: str) -> str:
    """Who does the work: tidelog, or Spark alone."""
    return "spark" if variant == PLAIN else "tidelog"


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each job in a session that has run such jobs before."""
    from benchmarks.spark_jobs import measure_job

    return map(measure_job, tasks)


SUITE = Suite(questions, perform, time_limit=600.0)
