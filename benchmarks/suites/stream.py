"""Update streams by maintainers that mark and by others: Tables 1 to 3 of paper 000.

A variant is a maintainer and how it marks: `backward-forward/linked`, `dred/none`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.measure import report
from benchmarks.record import Measurement, Task
from benchmarks.suites.suite import Options, Suite

NAME = "stream"
RANDOM = ("P_seq", "P_trans")
TRACKS = ("track0", "track1", "track2")
SIZES = tuple(range(10, 90, 10))
QUICK_SIZES = (10, 80)
ALWAYS = ("auto/none", "auto/auto", "recompute/none")
QUICK_MAINTAINERS = ("backward-forward",)


def questions(options: Options) -> Iterator[tuple[Task, ...]]:
    """One question per stream, put to every variant; a track has the size 0."""
    from benchmarks.streams import has_tracks

    for workload in options.workloads or (*RANDOM, *TRACKS):
        if workload in TRACKS and not has_tracks():
            report(f"{workload}: left out, ../shared/data/streams is not there")
            continue
        for size in chosen_sizes(workload, options):
            yield tuple(
                Task(NAME, workload, "tidelog", variant, size, options.threads)
                for variant in chosen_variants(options)
            )


def chosen_sizes(workload: str, options: Options) -> tuple[int, ...]:
    if workload in TRACKS:
        return (0,)
    return options.sizes or (QUICK_SIZES if options.quick else SIZES)


def chosen_variants(options: Options) -> tuple[str, ...]:
    """The variants asked for; by default all markings of those that mark, and some others."""
    if options.variants:
        names = [name.rpartition(":")[2] for name in options.variants]
        return tuple(name if "/" in name else f"{name}/none" for name in names)
    from tidelog.maintenance.marking import MARKED, MARKINGS

    maintainers = QUICK_MAINTAINERS if options.quick else tuple(MARKED)
    marked = [f"{name}/{marking}" for name in maintainers for marking in ("none", *MARKINGS)]
    return (*marked, *(() if options.quick else ALWAYS))


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of each stream as a whole."""
    from benchmarks.streams import measure_stream

    return map(measure_stream, tasks)


SUITE = Suite(questions, perform, time_limit=60.0)
