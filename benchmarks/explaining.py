"""What a process does to find out what explanations cost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from statistics import median

import tidelog
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.record import Measurement, Task
from benchmarks.workloads import WORKLOADS, prepare
from tidelog.logic.program import Fact
from tidelog.plan.rule_text import Writing

ASKED = 200  # facts
UNCOUNTED = 20  # facts before these, which make plans and indexes


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
    sizes = {name: len(reasoner[name]) for name in sorted(reasoner.program.derived)}
    while True:
        (name,) = chance.choices(list(sizes), list(sizes.values()))
        yield written(
            reasoner, name, [chance.randrange(sizes[name])] * reasoner.program.predicates[name].arity
        )


def missing(reasoner: tidelog.Reasoner, chance: random.Random) -> Iterator[str]:
    """Facts of derived predicates that do not hold: each argument is that of some fact of the predicate."""
    binary = [
        name for name in sorted(reasoner.program.derived) if reasoner.program.predicates[name].arity > 1
    ]
    sizes = {name: len(reasoner[name]) for name in binary}
    while True:
        (name,) = chance.choices(list(sizes), list(sizes.values()))
        rows = [chance.randrange(sizes[name]) for _ in range(reasoner.program.predicates[name].arity)]
        fact = written(reasoner, name, rows)
        if not len(reasoner.query(fact)):
            yield fact


def written(reasoner: tidelog.Reasoner, name: str, rows: list[int]) -> str:
    """The fact whose arguments stand in these rows of a predicate."""
    columns, _ = reasoner.engine.rows(name)
    decode = reasoner.engine.dictionary.decode
    values = tuple(decode(int(column[row])) for column, row in zip(columns, rows, strict=True))
    return Writing().fact(Fact(name, values)).removesuffix(" .")
