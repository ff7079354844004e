"""Programs on Spark beside the columnar engine, and the pipeline beside a job that derives nothing.

A variant is a strategy of the Spark engine (`iterated-joins`, `executor-fixpoint`, `driver-closure`), the
`columnar` engine on the same files, the whole `pipeline` from files to a published version, `frames`, the
same with no fact that comes to the driver, however few there are, or `plain-read-distinct-write`: Spark
alone, which reads the same files, removes duplicates and writes Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "spark"
STRATEGIES = ("columnar", "driver-closure", "executor-fixpoint", "iterated-joins")
PLAIN = "plain-read-distinct-write"
FRAMES = "frames"
VARIANTS = {
    "RMAT": STRATEGIES,
    "chain": STRATEGIES,
    "W5": ("columnar", "pipeline", FRAMES, PLAIN),
    "N-Triples": ("pipeline",),
    "update": ("pipeline",),
}
SIZES = {
    "RMAT": (10_000,),
    "chain": (300,),
    "W5": (1_000_000, 4_000_000),
    "N-Triples": (1_000_000,),
    "update": (1_000_000,),
}
QUICK_SIZES = {"RMAT": 1_000, "chain": 30, "W5": 50_000, "N-Triples": 50_000, "update": 50_000}


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
