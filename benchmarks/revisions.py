"""What a process does to find out what changes of facts over time cost: deleted, added back, or derived anew.

Facts to delete are drawn from all that were given, whatever their predicate. `recompute` derives everything
again from facts that are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import pyarrow as pa

import tidelog as tl
from benchmarks.clock import peak_megabytes, timed
from benchmarks.record import Counts, Measurement, Task
from benchmarks.timelines import Given, derived, given, intervals, warm

OPERATIONS = 5  # of each size
HORIZON = "[0, 60]"  # of what has no end else
SEED = 17
Tables = Mapping[str, pa.Table]


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """What deleting so many facts costs, in the median of several; all sizes of one variant."""
    warm()
    data = bounded(given(tasks[0].workload.removesuffix("-changes"), tasks[0].facts))
    if tasks[0].variant == "recompute":
        return recomputed(data, tasks)
    reasoner, _, _, reason = derived(data, "optimised", tasks[0].threads)
    return (maintained(data, reasoner, reason, task) for task in tasks)


def bounded(data: Given) -> Given:
    """Within a horizon in place of so many rounds: what is partial cannot be maintained."""
    return data if data.horizon is not None else replace(data, rounds=None, horizon=HORIZON)


def recomputed(data: Given, tasks: Sequence[Task]) -> Iterator[Measurement]:
    """Everything derived again, whatever has changed."""
    costs = [derived(data, "optimised", tasks[0].threads)[3] for _ in range(OPERATIONS)]
    reasoner, _, load, reason = derived(data, "optimised", tasks[0].threads)
    cost = median([*costs, reason])
    for _ in tasks:
        counts: Counts = {"add_cpu_s": cost}
        yield Measurement(cost, cost, intervals(reasoner), peak_megabytes(), None, load, cost, counts)


def maintained(data: Given, reasoner: tl.Reasoner, reason: float, task: Task) -> Measurement:
    """Some facts deleted and added again."""
    deleting, adding, waiting, changes = [], [], [], []
    timed_ones = reasoner.program.timed
    for number in range(OPERATIONS):
        some = drawn(data.tables, task.size, SEED + number)
        lost, cpu, wall = timed(partial(changed, reasoner, some, "delete", timed_ones))
        _, again, _ = timed(partial(changed, reasoner, some, "insert", timed_ones))
        deleting.append(cpu)
        waiting.append(wall)
        adding.append(again)
        changes.append(lost)
    counts: Counts = {
        "add_cpu_s": median(adding),
        "first_cpu_s": deleting[0],
        "intervals_lost": median(changes),
    }
    facts = intervals(reasoner)
    return Measurement(
        median(deleting), median(waiting), facts, peak_megabytes(), max(deleting), None, reason, counts
    )


def changed(reasoner: tl.Reasoner, some: Tables, way: str, timed_ones: frozenset[str]) -> int:
    """How many intervals of some predicates a transaction took away."""
    with reasoner.change(missing="ignore") as change:
        for name, table in some.items():
            getattr(change, way)(name, table)
    return sum(len(change.delta[name].removed) for name in timed_ones)


def drawn(tables: Tables, count: int, seed: int) -> Tables:
    """So many of the facts with times, none twice."""
    random = np.random.default_rng(seed)
    timed_ones = {name: table for name, table in tables.items() if "start" in table.column_names}
    ends = np.cumsum([table.num_rows for table in timed_ones.values()])
    chosen = np.sort(random.choice(ends[-1], count, replace=False))
    found = {}
    for (name, table), end in zip(timed_ones.items(), ends, strict=True):
        begin = end - table.num_rows
        own = chosen[(chosen >= begin) & (chosen < end)] - begin
        if len(own):
            found[name] = table.take(own)
    return found
