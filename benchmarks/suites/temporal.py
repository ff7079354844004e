"""What rules over time cost: by the three procedures, when facts change, and on an endless stream.

`lubm` is the benchmark of paper 002, for thirty rounds, fifteen at 10 M facts; `D1` to `D9` are its nine
datasets with more and more constants, at a tenth of their size; `example` is its running example, whose sizes
are rounds; in `turns` two procedures take turns. Sizes of `…-changes` are facts deleted and added back, those
of `stream` events.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measure import report
from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "temporal"
PROCEDURES = ("optimised", "seminaive", "naive")
CHANGES = ("recompute", "maintained")
STREAMS = ("advance", "keep")
MILLION = 1_000_000
PEER, MODE = "meteor", "opt"
MOST_OF_PEER = 20_000  # facts; it takes half a minute for these


@dataclass(frozen=True)
class Point:
    """What is measured under a name."""

    kind: str
    variants: tuple[str, ...]
    sizes: tuple[int, ...]
    quick_sizes: tuple[int, ...]
    is_shared: bool = False  # its rules are in ../shared/data
    facts: int = 0
    quick_facts: int = 0


FACTS = (2_000, 20_000, 200_000, MILLION, 10 * MILLION)
CHANGED, QUICK_CHANGED = (1, 100, 10_000), (1, 100)
POINTS: Mapping[str, Point] = {
    "lubm": Point("procedures", PROCEDURES, FACTS, (2_000, 200_000), is_shared=True),
    **{
        f"D{number}": Point("procedures", PROCEDURES, (MILLION,), (20_000,), is_shared=True)
        for number in range(1, 10)
    },
    "example": Point("procedures", PROCEDURES, (10, 100, 1_000), (10, 100)),
    "sensors": Point("procedures", PROCEDURES, (20_000, 200_000, MILLION), (2_000, 20_000)),
    "turns": Point("procedures", ("optimised",), (20_000, 200_000, MILLION), (2_000,), is_shared=True),
    "lubm-changes": Point("changes", CHANGES, CHANGED, QUICK_CHANGED, True, MILLION, 20_000),
    "sensors-changes": Point("changes", CHANGES, CHANGED, QUICK_CHANGED, False, MILLION, 20_000),
    "stream": Point("stream", STREAMS, (100_000, MILLION), (20_000,)),
}


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per workload and size, put to every variant; MeTeoR is asked apart: it loses facts."""
    for name in options.workloads or tuple(POINTS):
        point = POINTS[name]
        if point.is_shared and not has_rules():
            report(f"{name}: left out, ../shared/data/temporal is not there")
            continue
        sizes = sorted(options.sizes) or (point.quick_sizes if options.quick else point.sizes)
        variants = [variant for variant in point.variants if variant in (options.variants or point.variants)]
        facts = point.quick_facts if options.quick else point.facts
        for group in (sizes,) if point.kind == "changes" else [(size,) for size in sizes]:
            yield tuple(
                Task(NAME, name, "tidelog", variant, size, options.threads, facts)
                for variant in variants
                for size in group
            )
        if name in ("lubm", "example") and is_asked(options):
            asked = [size for size in sizes if size <= MOST_OF_PEER]
            yield tuple(Task(NAME, name, PEER, MODE, size, options.threads) for size in asked)


def has_rules() -> bool:
    from benchmarks.tenures import is_there

    return is_there()


def is_asked(options: Options) -> bool:
    """Whether MeTeoR takes part; says so if it is wanted and not installed."""
    if options.peers is not None and PEER not in options.peers:
        return False
    if importlib.util.find_spec("meteor_reasoner") is None:
        report("meteor: left out, meteor-reasoner is not installed: pip install '.[bench]'")
        return False
    return True


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each size."""
    from benchmarks import endless, revisions, timelines

    ways = {"procedures": timelines.perform, "changes": revisions.perform, "stream": endless.perform}
    return ways[POINTS[tasks[0].workload].kind](tasks)


SUITE = Suite(questions, perform, time_limit=300.0)
