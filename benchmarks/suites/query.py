"""What queries cost: by every strategy, three patterns of bindings, beside peers.

The size is the number of free arguments: 0 is the ground query. A process reads the facts and asks once;
then it asks again while the facts arrive in batches, as in the thesis: `batches_s` in the counts. Full
materialisation is measured by structures for closures too, `full`, and by rules alone, `rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.measure import report
from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite
from benchmarks.workloads import ASKED, Workload, prepare

NAME = "query"
VARIANTS = ("rules", "full", "magic", "auto")
PEERS = ("duckdb", "clingo", "pydatalog")
REACHING = ("W7L", "W7R")  # what peers are asked too
QUICK_WORKLOADS = ("W7L", "W7R", "rmat1k", "lubm-owl")


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per workload and pattern of bindings, put to every variant, some to peers too."""
    from benchmarks.questions import QUESTIONS, is_there

    for name in options.workloads or (QUICK_WORKLOADS if options.quick else tuple(ASKED)):
        workload = ASKED[name]
        if not is_there(name):
            report(f"{name}: left out, its data is not in ../shared/data")
            continue
        facts = workload.quick_size if options.quick else workload.size
        prepare(workload, facts)
        for free in options.sizes or tuple(QUESTIONS[name]):
            yield tuple(tasks(workload, free, facts, options))


def tasks(workload: Workload, free: int, facts: int, options: Options) -> Iterator[Task]:
    for variant in chosen_variants(options):
        yield Task(NAME, workload.name, "tidelog", variant, free, options.threads, facts)
    if workload.name in REACHING and free == 1:
        for engine in PEERS if options.peers is None else options.peers:
            yield Task(NAME, workload.name, engine, "", free, options.threads, facts)


def chosen_variants(options: Options) -> tuple[str, ...]:
    """The variants asked for, by default all."""
    if options.variants:
        return tuple(name.rpartition(":")[2] for name in options.variants)
    from tidelog.query.registry import STRATEGIES

    return (*VARIANTS, *(name for name in STRATEGIES if name not in (*VARIANTS, "lookup")))


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each query in this process, imports apart."""
    from benchmarks.asking import ask

    return map(ask, tasks)


SUITE = Suite(questions, perform, time_limit=180.0)
