"""What equality costs: by rewriting and by axioms, maintained and derived anew, as in table 1 of paper 004.

A size is a number of explicit facts that are deleted; `reason_s` is what deriving everything took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "equality"
WORKLOADS = ("uobm", "lubm", "cliques", "uobm-100k", "uobm-5m")
VARIANTS = (
    "rewrite-maintain",
    "rewrite-backward-forward",
    "rewrite-recompute",
    "axiomatise-maintain",
    "axiomatise-backward-forward",
    "axiomatise-recompute",
)
# 100 and 5,000 as in the paper, then up to where deriving anew costs as much.
SIZES, QUICK_SIZES = (100, 5_000, 20_000, 80_000, 300_000), (10, 100)
FACTS, QUICK_FACTS = 1_000_000, 20_000
OTHER_FACTS = {"uobm-100k": 100_000, "uobm-5m": 5_000_000}  # small enough for axioms, and large
# Axioms find n³ derivations for n equal constants: with 4,000, more than anybody waits for. With classes of
# six, 5 M facts become more than fit into 16 GB.
HOPELESS = {
    (workload, f"axiomatise-{way}")
    for workload in ("cliques", "uobm-5m")
    for way in ("maintain", "backward-forward", "recompute")
}


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per workload, for each number of deleted facts, put to every variant."""
    usual = QUICK_SIZES if options.quick else SIZES
    for workload in options.workloads or WORKLOADS:
        facts = QUICK_FACTS if options.quick else OTHER_FACTS.get(workload, FACTS)
        yield tuple(
            Task(NAME, workload, "tidelog", variant, size, options.threads, facts)
            for variant in options.variants or VARIANTS
            if (workload, variant) not in HOPELESS
            for size in tuple(sorted(options.sizes)) or usual
            if size <= facts // 2
        )


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of deletions of each size."""
    from benchmarks import equalities

    return equalities.perform(tasks)


SUITE = Suite(questions, perform, time_limit=300.0)
