"""What it costs to explain: facts that hold, by proofs, and facts that do not.

Everything is derived first, which is not measured. Then facts are drawn at random and explained one after the
other; a few before that are not counted, since they make plans and indexes. `median_ms`, `p90_ms` and
`longest_ms` are CPU times of one explanation each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite
from benchmarks.workloads import WORKLOADS, prepare

NAME = "explain"
VARIANTS = ("why", "why-not")
ASKED = ("W1", "W5")


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """Each variant by itself: they have nothing in common that must agree."""
    for name in options.workloads or ASKED:
        workload = WORKLOADS[name]
        for size in options.sizes or (workload.quick_size if options.quick else workload.size,):
            prepare(workload, size)
            for variant in options.variants or VARIANTS:
                yield (Task(NAME, name, "tidelog", variant, size, options.threads),)


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of explaining in this process, imports and deriving apart."""
    from benchmarks.explaining import explain

    return map(explain, tasks)


SUITE = Suite(questions, perform)
