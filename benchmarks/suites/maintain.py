"""What changes cost: facts deleted and added back, rules too, by every maintainer beside recomputation.

A process holds one workload, everything derived, and makes changes through `reasoner.change()`; a clock
runs from the values as Python has them to the number of facts that changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    """One question per workload and number of changed facts, put to every maintainer."""
    for name in options.workloads or (QUICK_WORKLOADS if options.quick else tuple(POINTS)):
        workload = CHANGING[POINTS[name].workload]
        facts = workload.quick_size if options.quick else workload.size
        there = prepare(workload, facts).facts
        for size in chosen_sizes(POINTS[name], options):
            if POINTS[name].kind == "sweep" and size > there:
                report(f"{name}: has {there:,} facts, so {size:,} cannot be changed")
            else:
                yield tuple(tasks(name, size, facts, options))


def tasks(name: str, size: int, facts: int, options: Options) -> Iterator[Task]:
    for variant in chosen_variants(options):
        yield Task(NAME, name, "tidelog", variant, size, options.threads, facts)


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


def warm_up(options: Options) -> Iterator[Task]:
    """Every maintainer once, on little: the first run on a machine compiles its kernels."""
    workload = CHANGING["W1"]
    prepare(workload, workload.quick_size)
    for variant in chosen_variants(options):
        yield Task(NAME, "W1", "tidelog", variant, 1, options.threads, workload.quick_size)


def perform(task: Task) -> Measurement:
    """The cost of a change, in the median of several."""
    from benchmarks import changing

    point = POINTS[task.workload]
    return changing.PERFORM[point.kind](changing.load(point.workload, task), task)


SUITE = Suite(questions, warm_up, perform, time_limit=40.0)
