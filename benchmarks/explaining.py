"""What a process does to find out what explanations cost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from statistics import median

import numpy as np

import tidelog
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.record import Measurement, Task
from benchmarks.workloads import WORKLOADS, prepare
from tidelog.logic.program import Fact
from tidelog.plan.rule_text import Writing

ASKED = 200  # facts
UNCOUNTED = 20  # facts before these, which make plans and indexes
TRIED = 20_000  # facts that are drawn, at most: few may be missing


def explain(task: Task) -> Measurement:
    """The cost of explaining facts that are drawn at random."""
    prepared = prepare(WORKLOADS[task.workload], task.size)
    reasoner = tidelog.Reasoner(tidelog.load(prepared.program), threads=task.threads)
    reasoner.materialise()
    is_why = task.variant == "why"
    draw = holding if is_why else missing
    ask: Callable[[str], object] = reasoner.explain if is_why else reasoner.why_not
    facts = list(islice(draw(reasoner, random.Random(1)), ASKED + UNCOUNTED))
    for fact in facts[:UNCOUNTED]:
        ask(fact)
    seconds: list[float] = []
    _, cpu, wall = timed(lambda: seconds.extend(measured(ask, fact) for fact in facts[UNCOUNTED:]))
    return Measurement(
        cpu_s=cpu,
        wall_s=wall,
        tuples=len(seconds),
        peak_rss_mb=peak_megabytes(),
        counts={
            "facts": prepared.facts,
            "asked": len(seconds),
            "median_ms": 1000 * median(seconds),
            "p90_ms": 1000 * sorted(seconds)[len(seconds) * 9 // 10],
            "longest_ms": 1000 * max(seconds),
        },
    )


def measured(ask: Callable[[str], object], fact: str) -> float:
    """The CPU seconds of one question."""
    start = cpu_seconds()
    ask(fact)
    return cpu_seconds() - start


def holding(reasoner: tidelog.Reasoner, chance: random.Random) -> Iterator[str]:
    """Facts of derived predicates, each as likely as any other."""
    sizes = sizes_of(reasoner)
    for _ in range(TRIED):
        (name,) = chance.choices(list(sizes), list(sizes.values()))
        columns, _ = reasoner.engine.storage.rows(name)
        row = chance.randrange(sizes[name])
        yield written(reasoner, name, [int(column[row]) for column in columns])


def missing(reasoner: tidelog.Reasoner, chance: random.Random) -> Iterator[str]:
    """Facts of derived predicates that do not hold: each argument is one of some fact of the predicate."""
    sizes = sizes_of(reasoner)
    for _ in range(TRIED):
        (name,) = chance.choices(list(sizes), list(sizes.values()))
        columns, _ = reasoner.engine.storage.rows(name)
        ids = [int(chance.choice(columns)[chance.randrange(sizes[name])]) for _ in columns]
        given = [np.array([identity], np.int32) for identity in ids]
        if not reasoner.engine.storage.row_flags(name, given, 1)[0]:
            yield written(reasoner, name, ids)


def sizes_of(reasoner: tidelog.Reasoner) -> dict[str, int]:
    """How many facts each derived predicate has."""
    return {name: len(reasoner[name]) for name in sorted(reasoner.program.derived)}


def written(reasoner: tidelog.Reasoner, name: str, ids: list[int]) -> str:
    """The fact with these ids."""
    values = tuple(map(reasoner.engine.storage.dictionary.decode, ids))
    return Writing().fact(Fact(name, values)).removesuffix(" .")
