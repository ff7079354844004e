"""What changes cost: facts deleted and added back, rules too, by every maintainer beside recomputation.

A process holds one workload, everything derived, and makes changes through `reasoner.change()`, of few facts
first, then of more; a clock runs from the values as Python has them to the number of facts that changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measure import report
from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite
from benchmarks.workloads import CHANGING, prepare

NAME = "maintain"
SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
QUICK_SIZES = (1, 100)
QUICK_VARIANTS = ("recompute", "auto", "dred")
QUICK_WORKLOADS = ("W1", "W5", "cliques", "cut")
RULES = 63  # of W5
UPDATES, QUICK_UPDATES = 10_000, 500  # after which drift is looked for


@dataclass(frozen=True)
class Point:
    """What is measured under a name: the workload whose facts or rules change, and how."""

    workload: str
    kind: str
    sizes: tuple[int, ...] = ()  # where there is no choice
    quick_sizes: tuple[int, ...] = ()


POINTS: Mapping[str, Point] = {
    **{name: Point(name, "sweep") for name in ("W1", "W4", "W5", "W6", "cliques")},
    "cut": Point("cut", "cut", (1,), (1,)),
    "rules": Point("W5", "rules", (RULES,), (RULES,)),
    "drift": Point("W5", "drift", (UPDATES,), (QUICK_UPDATES,)),
    "drift-W1": Point("W1", "drift", (UPDATES,), (QUICK_UPDATES,)),
}


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per workload, for each number of changed facts, put to every maintainer."""
    for name in options.workloads or (QUICK_WORKLOADS if options.quick else tuple(POINTS)):
        workload = CHANGING[POINTS[name].workload]
        facts = workload.quick_size if options.quick else workload.size
        there = prepare(workload, facts).facts
        sizes = chosen_sizes(POINTS[name], options)
        if POINTS[name].kind == "sweep" and sizes[-1] > there:
            report(f"{name}: has {there:,} facts, so no more can be changed")
            sizes = tuple(size for size in sizes if size <= there)
        yield tuple(
            Task(NAME, name, "tidelog", variant, size, options.threads, facts)
            for variant in chosen_variants(options)
            for size in sizes
        )


def chosen_sizes(point: Point, options: Options) -> tuple[int, ...]:
    """In ascending order: who is stopped at one is not tried at larger ones."""
    fixed = point.quick_sizes if options.quick else point.sizes
    return fixed or tuple(sorted(options.sizes)) or (QUICK_SIZES if options.quick else SIZES)


def chosen_variants(options: Options) -> tuple[str, ...]:
    """The maintainers asked for, by default all, `recompute` first."""
    if options.variants:
        return tuple(name.rpartition(":")[2] for name in options.variants)
    if options.quick:
        return QUICK_VARIANTS
    from tidelog.maintenance.registry import MAINTAINERS  # not for processes that measure peers

    return tuple(dict.fromkeys(("recompute", *MAINTAINERS)))


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of changes of each size, in the median of several."""
    from benchmarks import changing

    point = POINTS[tasks[0].workload]
    loaded = changing.load(point.workload, tasks[0])
    return (changing.PERFORM[point.kind](loaded, task) for task in tasks)


SUITE = Suite(questions, perform, time_limit=20.0)
