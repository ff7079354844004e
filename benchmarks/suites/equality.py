"""What equality costs: by rewriting and by axioms, maintained and derived anew, as in table 1 of paper 004.

A size is a number of explicit facts that are deleted; `reason_s` is what deriving everything took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "equality"
WORKLOADS = ("uobm", "lubm", "cliques")
VARIANTS = ("rewrite-maintain", "rewrite-recompute", "axiomatise-maintain", "axiomatise-recompute")
SIZES, QUICK_SIZES = (100, 5_000), (10, 100)
FACTS, QUICK_FACTS = 1_000_000, 20_000
# Axioms find n³ derivations for n equal constants: with 4,000, more than anybody waits for.
HOPELESS = {("cliques", "axiomatise-maintain"), ("cliques", "axiomatise-recompute")}


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per workload, for each number of deleted facts, put to every variant."""
    facts = QUICK_FACTS if options.quick else FACTS
    sizes = tuple(sorted(options.sizes)) or (QUICK_SIZES if options.quick else SIZES)
    for workload in options.workloads or WORKLOADS:
        yield tuple(
            Task(NAME, workload, "tidelog", variant, size, options.threads, facts)
            for variant in options.variants or VARIANTS
            if (workload, variant) not in HOPELESS
            for size in sizes
        )


def warm_up(options: Options) -> Iterator[Task]:
    """One variant once, on little: the first run on a machine compiles all kernels."""
    yield Task(NAME, "lubm", "tidelog", VARIANTS[0], 10, options.threads, 2_000)


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of deletions of each size."""
    from benchmarks import equalities

    return equalities.perform(tasks)


SUITE = Suite(questions, warm_up, perform, time_limit=300.0)
