"""Changes of explicit facts: which ones, how they are made through Python, and what they cost."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import tidelog
from benchmarks.program import Import, read_imports
from benchmarks.workloads import Prepared
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.transaction import Change

Data = Any  # a list of tuples, or an Arrow table
Batch = Mapping[str, Data]
Fill = Callable[[Change], None]

AS_TUPLES = 100  # facts that come as tuples; more come as Arrow tables, as data of that size does
MANY = 50  # operations that a 99th percentile is worth giving of
ARROW_TYPES = {"int": pa.int64(), "string": pa.string(), "any": pa.string()}
MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xFF51AFD7ED558CCD)


def reasoner_of(prepared: Prepared, maintainer: str, threads: int = 1) -> tidelog.Reasoner:
    """A reasoner over the workload's facts, with everything derived."""
    program = tidelog.load(prepared.program)
    # Each algorithm is measured by itself: structures for closures are one of auto's hands.
    modules = maintainer == "auto"
    reasoner = tidelog.Reasoner(program, maintainer=maintainer, modules=modules, threads=threads)
    reasoner.materialise()
    return reasoner


@dataclass(frozen=True)
class Explicit:
    """The explicit facts of a workload, one table per predicate."""

    tables: Mapping[str, pa.Table]

    @property
    def count(self) -> int:
        return sum(table.num_rows for table in self.tables.values())

    def sample(self, size: int, seed: int) -> Batch:
        """So many different facts, each as likely as any other."""
        drawn = np.random.default_rng(seed).choice(self.count, size=size, replace=False)
        return self.chosen(np.sort(drawn))

    def chosen(self, places: Any) -> Batch:
        """The facts at these places, counted through all tables."""
        batch: dict[str, Data] = {}
        first = 0
        for predicate, table in self.tables.items():
            inside = places[(places >= first) & (places < first + table.num_rows)] - first
            first += table.num_rows
            if len(inside):
                batch[predicate] = data_of(table.take(inside), few=len(places) <= AS_TUPLES)
        return batch


def data_of(table: pa.Table, few: bool) -> Data:
    if not few:
        return table
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def explicit_facts(prepared: Prepared) -> Explicit:
    """The facts in the workload's files; a fact that stands there twice is taken once."""
    imports = read_imports(prepared.program.read_text(encoding="utf-8"))
    return Explicit({each.predicate: read_table(prepared.folder / each.resource, each) for each in imports})


def read_table(path: Path, each: Import) -> pa.Table:
    names = [f"c{place}" for place in range(1, len(each.types) + 1)]
    types = {name: ARROW_TYPES[kind] for name, kind in zip(names, each.types, strict=True)}
    if not path.stat().st_size:
        return pa.schema(types.items()).empty_table()
    table = pyarrow.csv.read_csv(
        path,
        pyarrow.csv.ReadOptions(column_names=names),
        pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
        pyarrow.csv.ConvertOptions(column_types=types),
    )
    return table.group_by(names, use_threads=False).aggregate([]).combine_chunks()


@dataclass
class Meter:
    """What operations of one kind cost, one after the other; filled while they are measured."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    commit: list[float] = field(default_factory=list)

    def transact(self, reasoner: tidelog.Reasoner, fill: Fill) -> Delta:
        """Carry out a transaction and look at how much it changed, on the clock."""
        wall, cpu = time.perf_counter(), time.process_time()
        with reasoner.change() as change:
            fill(change)
        delta = change.delta
        len(delta)
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        self.commit.append(delta.seconds)
        return delta

    @property
    def spent(self) -> float:
        return sum(self.cpu)

    @property
    def cpu_s(self) -> float:
        return statistics.median(self.cpu)

    @property
    def wall_s(self) -> float:
        return statistics.median(self.wall)

    @property
    def p99_s(self) -> float | None:
        """The 99th percentile of CPU seconds, of many operations only."""
        return percentile(self.cpu, 0.99) if len(self.cpu) >= MANY else None


def percentile(seconds: Sequence[float], share: float) -> float:
    """The least value that this share of the values does not exceed.

    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([1.0] * 99 + [5.0], 0.99)
    (2.0, 1.0)
    """
    return sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]


def deleting(batch: Batch) -> Fill:
    def fill(change: Change) -> None:
        for predicate, data in batch.items():
            change.delete(predicate, data)

    return fill


def inserting(batch: Batch) -> Fill:
    def fill(change: Change) -> None:
        for predicate, data in batch.items():
            change.insert(predicate, data)

    return fill


def count_facts(reasoner: tidelog.Reasoner) -> int:
    return sum(len(reasoner[predicate]) for predicate in reasoner)


def digest(reasoner: tidelog.Reasoner) -> str:
    """A number that tells sets of facts apart; equal facts give it whatever their order.

    It is made of ids: reasoners that were given the same facts in the same order can be compared.
    """
    total = 0
    for place, predicate in enumerate(sorted(reasoner), 1):
        relation = reasoner[predicate]
        mixed = np.full(len(relation), place, np.uint64)
        for column, multiplier in zip(relation._columns, MULTIPLIERS, strict=False):
            mixed ^= column.astype(np.uint64) + np.uint64(1)
            mixed *= np.uint64(multiplier)
            mixed ^= mixed >> np.uint64(29)
        total += int(mixed.sum(dtype=np.uint64))
    return f"{total % 2**64:016x}"


def counter_bytes(reasoner: tidelog.Reasoner) -> int:
    """How many bytes the counters and ranks of all facts take."""
    tables = reasoner._engine.catalog.tables
    return sum(
        len(table) * counter.itemsize
        for table in tables
        for counter in getattr(table, "counters", {}).values()
    )
