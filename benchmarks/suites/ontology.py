"""What OWL 2 RL costs over university data: tidelog, by the tables and by specialised rules, and its peers.

`load_s` is reading the data; making rules counts as reasoning, and is also in `rules_s`; `results_s` is
handing over all triples. Sizes are separate questions, the smallest first, so that what is known is written
down at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.measure import report
from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "ontology"
WORKLOAD = "university"
VARIANTS = ("specialised", "tables")
PEERS = ("reasonable", "owlrl")
SIZES = (10_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000,)
# owlrl takes two minutes for 100,000 triples, and more than anybody waits for a million, unless asked to.
MOST = {"owlrl": 100_000}


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question for each size, put to every variant, and to the peers that may come to an end.

    Sizes that are asked for are put to all.
    """
    from benchmarks.ontologies import data_file, data_path

    asked = [("tidelog", variant) for variant in options.variants or VARIANTS]
    asked += [(peer, "") for peer in (PEERS if options.peers is None else options.peers)]
    for size in sorted(options.sizes) or (QUICK_SIZES if options.quick else SIZES):
        if not data_path(size).exists():
            report(f"{WORKLOAD} {size}: making the data")
        data_file(size)
        yield tuple(
            Task(NAME, WORKLOAD, engine, variant, size, options.threads)
            for engine, variant in asked
            if options.sizes or size <= MOST.get(engine, size)
        )


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each task in this process, imports apart."""
    from benchmarks.ontologies import reason

    return map(reason, tasks)


SUITE = Suite(questions, perform, time_limit=600.0)
