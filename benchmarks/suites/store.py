"""What a store costs: opening it beside deriving everything, and a commit beside what the disk takes.

`materialise` reads the facts and derives everything, `open` opens a store that holds the same. `commit` adds
one fact at a time to a store and, in turns with it, to a reasoner without one, and writes as many bytes to a
file of its own: wall seconds of all three, in the median, are in the record. `fsync-floor` writes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "store"
SIZES = {"pairs": 1_000_000, "W5": 1_000_000, "W1": 10_000}
QUICK_SIZES = {"pairs": 20_000, "W5": 50_000, "W1": 3_000}
ANSWERED = ("materialise", "open")  # both must have the same facts
VARIANTS = (*ANSWERED, "commit", "fsync-floor")


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """What deriving and opening cost, which must agree; then each of the others by itself."""
    sizes = QUICK_SIZES if options.quick else SIZES
    variants = options.variants or VARIANTS
    for workload in options.workloads or tuple(sizes):
        for size in options.sizes or (sizes[workload],):
            made = {name: Task(NAME, workload, "tidelog", name, size, options.threads) for name in variants}
            yield tuple(task for name, task in made.items() if name in ANSWERED)
            for name, task in made.items():
                if name == "commit" or (name == "fsync-floor" and workload == "pairs"):
                    yield (task,)


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each task in this process, imports apart."""
    from benchmarks.storing import VARIANTS as DONE_BY

    return (DONE_BY[task.variant](task) for task in tasks)


SUITE = Suite(questions, perform)
