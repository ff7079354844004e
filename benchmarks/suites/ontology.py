"""What OWL 2 RL costs over university data: tidelog, by the tables and by specialised rules, and its peers.

`load_s` is reading the data; specialising the rules counts as reasoning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "ontology"
WORKLOAD = "university"
VARIANTS = ("specialised", "tables")
PEERS = ("reasonable", "owlrl")
SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000,)


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question, of all sizes, put to every variant and peer."""
    from benchmarks.ontologies import data_file

    sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
    for size in sizes:
        data_file(size)
    asked = [("tidelog", variant) for variant in options.variants or VARIANTS]
    asked += [(peer, "") for peer in (PEERS if options.peers is None else options.peers)]
    yield tuple(
        Task(NAME, WORKLOAD, engine, variant, size, options.threads)
        for engine, variant in asked
        for size in sizes
    )


def warm_up(options: Options) -> Iterator[Task]:
    """Nothing: the kernels are loaded before the clock starts."""
    return iter(())


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each task in this process, imports apart."""
    from benchmarks.ontologies import reason

    return map(reason, tasks)


SUITE = Suite(questions, warm_up, perform, time_limit=600.0)
