"""What a process does to find out what equality costs: everything derived, then facts deleted and added back.

The variants are those of paper 004: equality by rewriting or by axioms, each maintained, or derived anew from
what is left (`recompute`, the paper's Remat).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow as pa

import tidelog
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.people import SHAPES, Tables, people
from benchmarks.record import Counts, Measurement, Task

PROGRAM = Path(__file__).parent / "programs" / "uobm.rls"
OPERATIONS = 7  # of each size
COMPARED = ("student", "faculty", "person")  # predicates that every variant can count
Row = tuple[str, ...]
Batch = dict[str, list[Row]]


@dataclass(frozen=True)
class Loaded:
    """A workload with everything derived, and what that cost."""

    tables: Tables
    rows: list[tuple[str, Row]]
    reasoner: tidelog.Reasoner
    reason_s: float


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """What deleting so many facts costs, in the median of several; all sizes of one variant."""
    tidelog.prepare()
    tables = people(SHAPES[tasks[0].workload], tasks[0].facts)
    rows = [(name, tuple(row.values())) for name, table in tables.items() for row in table.to_pylist()]
    treatment, _, way = tasks[0].variant.partition("-")
    reasoner, reason_s = derived(tables, treatment)
    loaded = Loaded(tables, rows, reasoner, reason_s)
    measure = recomputed if way == "recompute" else maintained
    return (measure(loaded, treatment, task) for task in tasks)


def derived(tables: Tables, treatment: str) -> tuple[tidelog.Reasoner, float]:
    """A reasoner that has derived everything, and the CPU seconds that deriving took."""
    reasoner = tidelog.Reasoner(tidelog.load(PROGRAM), equality=treatment, threads=1)
    for name, table in tables.items():
        reasoner.insert(name, table)
    begin = cpu_seconds()
    reasoner.materialise()
    return reasoner, cpu_seconds() - begin


def sample(loaded: Loaded, size: int, seed: int) -> Batch:
    """Some of the explicit facts."""
    batch: Batch = {}
    for name, row in random.Random(seed).sample(loaded.rows, size):
        batch.setdefault(name, []).append(row)
    return batch


def maintained(loaded: Loaded, treatment: str, task: Task) -> Measurement:
    """Facts are deleted, and added back. The first operation is apart: it makes plans, and counts."""
    reasoner = loaded.reasoner
    deleted, added, walls = [], [], []
    tuples = 0
    instances = reasoner.engine.instances
    for number in range(OPERATIONS):
        batch = sample(loaded, task.size, number)
        _, cpu, wall = timed(partial(transact, reasoner, batch, "delete"))
        deleted.append(cpu)
        walls.append(wall)
        if not number:
            tuples = count(reasoner)
            instances = reasoner.engine.instances
        added.append(timed(partial(transact, reasoner, batch, "insert"))[1])
    made = (reasoner.engine.instances - instances) // (2 * OPERATIONS - 1)
    counts: Counts = {
        "first_s": round(deleted[0], 6),
        "insert_s": round(median(added[1:]), 6),
        "instances_per_operation": made,
        **sizes(loaded, treatment),
    }
    return Measurement(
        median(deleted[1:]),
        median(walls[1:]),
        tuples,
        peak_megabytes(),
        reason_s=loaded.reason_s,
        counts=counts,
    )


def recomputed(loaded: Loaded, treatment: str, task: Task) -> Measurement:
    """Everything is derived from what is left after a deletion."""
    gone = {name: set(rows) for name, rows in sample(loaded, task.size, 0).items()}
    left = {name: without(table, gone.get(name, set())) for name, table in loaded.tables.items()}
    (reasoner, cpu), _, wall = timed(lambda: derived(left, treatment))
    return Measurement(
        cpu,
        wall,
        count(reasoner),
        peak_megabytes(),
        reason_s=loaded.reason_s,
        counts=sizes(loaded, treatment),
    )


def without(table: pa.Table, gone: set[Row]) -> pa.Table:
    """The table without some rows."""
    if not gone:
        return table
    columns = (column.to_pylist() for column in table.columns)
    return table.filter(pa.array([row not in gone for row in zip(*columns, strict=True)]))


def transact(reasoner: tidelog.Reasoner, batch: Batch, act: str) -> None:
    """One transaction; nobody looks at its delta."""
    with reasoner.change() as change:
        say: Callable[[str, list[Row]], None] = getattr(change, act)
        for name, rows in batch.items():
            say(name, rows)


def count(reasoner: tidelog.Reasoner) -> int:
    """How many facts there are in the predicates that are compared, for every member."""
    return sum(len(reasoner[name]) for name in COMPARED)


def sizes(loaded: Loaded, treatment: str) -> Counts:
    """How many facts were stated, and how many are kept: over representatives, or all of them."""
    engine = loaded.reasoner.engine
    mark = "≈" if treatment == "rewrite" else ""
    names = [
        name for name in engine.relations() if name.endswith(mark) and " " not in name.removesuffix(" ≈")
    ]
    return {"explicit": len(loaded.rows), "kept": sum(engine.size(name) for name in names)}
