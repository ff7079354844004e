"""What a process does to find out what equality costs: everything derived, then facts deleted and added back.

The variants are those of paper 004: equality by rewriting or by axioms, each maintained, or derived anew from
what is left (`recompute`, the paper's Remat); and rewriting with the paper's own algorithm, B/F≈. Reading the
facts is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import tidelog
import tidelog.reasoner.reasoner  # here, so that no measurement has it
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.people import SHAPES, Tables, people
from benchmarks.record import Counts, Measurement, Task

PROGRAM = Path(__file__).parent / "programs" / "uobm.rls"
OPERATIONS, LARGE_OPERATIONS = 7, 3  # of each size; the first is apart
LARGE = 10_000  # facts from which a deletion is large
COMPARED = ("student", "faculty", "person")  # predicates that every variant can count
MAINTAINERS = {"backward-forward": "backward-forward"}  # by the second part of a variant's name
Places = npt.NDArray[np.int64]
Batch = dict[str, list[tuple[str, ...]]]


@dataclass(frozen=True)
class Loaded:
    """A workload with everything derived, and what that cost."""

    tables: Tables
    reasoner: tidelog.Reasoner
    reason_s: float
    kept: int  # facts that are kept: over representatives, or all of them
    derivations: int  # instances of rules that were found

    @property
    def total(self) -> int:
        """How many facts there are to begin with."""
        return sum(table.num_rows for table in self.tables.values())


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """What deleting so many facts costs, in the median of several; all sizes of one variant."""
    tables = people(SHAPES[tasks[0].workload.partition("-")[0]], tasks[0].facts)  # sizes follow names
    treatment, _, way = tasks[0].variant.partition("-")
    loaded = derived(tables, treatment, MAINTAINERS.get(way, "auto"))
    measure = recomputed if way == "recompute" else maintained
    return (measure(loaded, treatment, task) for task in tasks)


def derived(tables: Tables, treatment: str, maintainer: str = "auto") -> Loaded:
    """A reasoner that has derived everything, and the CPU seconds that deriving took."""
    reasoner = tidelog.Reasoner(tidelog.load(PROGRAM), equality=treatment, maintainer=maintainer, threads=1)
    for name, table in tables.items():
        reasoner.insert(name, table)
    begin = cpu_seconds()
    reasoner.materialise()
    seconds = cpu_seconds() - begin
    return Loaded(tables, reasoner, seconds, kept(reasoner, treatment), reasoner.statistics.matches)


def sample(loaded: Loaded, size: int, seed: int) -> dict[str, Places]:
    """Some of the explicit facts: their places in the tables."""
    chosen = np.sort(np.random.default_rng(seed).choice(loaded.total, min(size, loaded.total), replace=False))
    ends = np.cumsum([table.num_rows for table in loaded.tables.values()])
    parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    starts = [0, *ends[:-1].tolist()]
    named = zip(loaded.tables, parts, starts, strict=True)
    return {name: part - start for name, part, start in named if len(part)}


def maintained(loaded: Loaded, treatment: str, task: Task) -> Measurement:
    """Facts are deleted, and added back. The first operation is apart: it makes plans, and counts."""
    reasoner = loaded.reasoner
    deleted, added, walls, made = [], [], [], []
    tuples = 0
    for number in range(OPERATIONS if task.size < LARGE else LARGE_OPERATIONS):
        batch = facts(loaded, sample(loaded, task.size, number))
        before = reasoner.engine.change_plans.instances
        _, cpu, wall = timed(partial(transact, reasoner, batch, "delete"))
        made.append(reasoner.engine.change_plans.instances - before + searched(reasoner))
        deleted.append(cpu)
        walls.append(wall)
        if not number:
            tuples = count(reasoner)
        added.append(timed(partial(transact, reasoner, batch, "insert"))[1])
    counts: Counts = {
        "first_s": round(deleted[0], 6),
        "insert_s": round(median(added[1:]), 6),
        "derivations": int(median(made[1:])),
        **sizes(loaded),
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
    places = sample(loaded, task.size, 0)
    left = {name: without(table, places.get(name)) for name, table in loaded.tables.items()}
    again, _, wall = timed(lambda: derived(left, treatment))
    return Measurement(
        again.reason_s,
        wall,
        count(again.reasoner),
        peak_megabytes(),
        reason_s=loaded.reason_s,
        counts={"derivations": again.derivations, **sizes(loaded)},
    )


def without(table: pa.Table, places: Places | None) -> pa.Table:
    """The table without some rows."""
    if places is None:
        return table
    kept_rows = np.ones(table.num_rows, np.bool_)
    kept_rows[places] = False
    return table.filter(pa.array(kept_rows))


def facts(loaded: Loaded, places: Mapping[str, Places]) -> Batch:
    """The facts at places of the tables, as tuples."""
    taken = {name: loaded.tables[name].take(pa.array(some)) for name, some in places.items()}
    return {
        name: list(zip(*(column.to_pylist() for column in some.columns), strict=True))
        for name, some in taken.items()
    }


def transact(reasoner: tidelog.Reasoner, batch: Batch, act: str) -> None:
    """One transaction; nobody looks at its delta."""
    with reasoner.change() as change:
        say: Callable[[str, list[tuple[str, ...]]], None] = getattr(change, act)
        for name, rows in batch.items():
            say(name, rows)


def searched(reasoner: tidelog.Reasoner) -> int:
    """How often B/F with rewriting has looked at a fact in the last transaction."""
    return int(getattr(reasoner._program.equality, "derivations", 0))


def count(reasoner: tidelog.Reasoner) -> int:
    """How many facts there are in the predicates that are compared, for every member."""
    return sum(len(reasoner[name]) for name in COMPARED)


def kept(reasoner: tidelog.Reasoner, treatment: str) -> int:
    """How many facts of the program's predicates are kept: over representatives, or all of them."""
    engine = reasoner.engine
    mark = " ≈" if treatment == "rewrite" else ""
    return sum(engine.storage.size(f"{name}{mark}") for name in reasoner.predicates() if name != "bottom")


def sizes(loaded: Loaded) -> Counts:
    """How many facts were stated, how many are kept, and how many instances of rules gave them."""
    return {"explicit": loaded.total, "kept": loaded.kept, "all_derivations": loaded.derivations}
