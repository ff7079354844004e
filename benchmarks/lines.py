"""What a process does to find out what changes of order lines cost, through Python.

A transaction deletes lines and inserts them with another quantity and price; the next takes that back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv

import tidelog
import tidelog.reasoner.reasoner  # here, so that no measurement has it
from benchmarks.business import hundredths
from benchmarks.changing import ENOUGH, LEAST, MOST, OPERATIONS, check
from benchmarks.clock import cpu_seconds, peak_megabytes
from benchmarks.record import Counts, Measurement, Task
from benchmarks.updates import AS_TUPLES, Data, Fill, Meter, data_of
from benchmarks.workloads import VALUED, Prepared, prepare
from tidelog.reasoner.transaction import Change

WORKLOAD = "W9"
ORDERS = pa.schema(
    {
        "id": pa.int64(),
        "customer": pa.string(),
        "day": pa.date32(),
        "product": pa.string(),
        "quantity": pa.int64(),
        "price": pa.decimal128(12, 2),
    }
)


@dataclass(frozen=True)
class Lines:
    """The order lines that may change: each once."""

    table: pa.Table

    @staticmethod
    def of(prepared: Prepared) -> Lines:
        types = pyarrow.csv.ConvertOptions(column_types=ORDERS)
        table = pyarrow.csv.read_csv(prepared.folder / "orders.csv", convert_options=types)
        _, first = np.unique(table["id"].to_numpy(), return_index=True)
        return Lines(table.take(first))

    def exchanged(self, size: int, seed: int) -> tuple[Data, Data]:
        """So many random lines, and others in their place, as Python has them if they are few."""
        random = np.random.default_rng(seed)
        old = self.table.take(np.sort(random.choice(self.table.num_rows, size, replace=False)))
        quantities, prices = random.integers(20, 40, size), hundredths(random.integers(100, 99_999, size))
        columns = {name: old[name] for name in old.column_names}
        columns |= {"quantity": pa.array(quantities), "price": prices.cast(pa.decimal128(12, 2))}
        few = size <= AS_TUPLES
        return data_of(old, few), data_of(pa.table(columns, ORDERS), few)


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """The cost of changes of each size, in the median of several; all of one maintainer."""
    prepared = prepare(VALUED[WORKLOAD], tasks[0].facts)
    begin = cpu_seconds()
    program = tidelog.load(prepared.program)
    reasoner = tidelog.Reasoner(program, maintainer=tasks[0].variant, threads=tasks[0].threads)
    reasoner.materialise()
    load_s = cpu_seconds() - begin
    lines = Lines.of(prepared)
    return (exchange(reasoner, lines, task, load_s) for task in tasks)


def exchange(reasoner: tidelog.Reasoner, lines: Lines, task: Task, load_s: float) -> Measurement:
    """The cost of a transaction that changes lines; that of taking it back is in the counts."""
    whole = digest(reasoner)
    first, changed, back = Meter(), Meter(), Meter()
    old, new = lines.exchanged(task.size, seed=0)
    net = len(first.transact(reasoner, replacing(old, new)))
    tuples, rest = count(reasoner), digest(reasoner)
    Meter().transact(reasoner, replacing(new, old))
    for number in range(1, OPERATIONS.get(task.size, MOST) + 1):
        if number > LEAST and changed.spent + back.spent > ENOUGH:
            break
        old, new = lines.exchanged(task.size, seed=number)
        changed.transact(reasoner, replacing(old, new))
        back.transact(reasoner, replacing(new, old))
    check(digest(reasoner) == whole, "lines that were changed and changed back do not give the same facts")
    counts: Counts = {
        "facts": lines.table.num_rows,
        "digest": rest,
        "net_change": net,
        "first_s": round(first.cpu[0], 6),
        "operations": len(changed.cpu),
        "add_cpu_s": round(back.cpu_s, 7),
        "add_wall_s": round(back.wall_s, 7),
        "add_p99_s": round(back.p99_s or max(back.cpu), 7),
        "most_s": round(max(changed.cpu), 7),
    }
    return Measurement(
        cpu_s=changed.cpu_s,
        wall_s=changed.wall_s,
        tuples=tuples,
        peak_rss_mb=peak_megabytes(),
        p99_s=changed.p99_s,
        load_s=load_s,
        reason_s=sorted(changed.commit)[len(changed.commit) // 2],
        counts=counts,
    )


def replacing(old: Data, new: Data) -> Fill:
    def fill(change: Change) -> None:
        change.delete("orders", old)
        change.insert("orders", new)

    return fill


def count(reasoner: tidelog.Reasoner) -> int:
    return sum(len(reasoner[name]) for name in reasoner)


def digest(reasoner: tidelog.Reasoner) -> str:
    """A number that tells apart what the program says that it gives, by its values: ids may differ."""
    found = hashlib.sha256()
    for name in sorted(reasoner.program.outputs):
        found.update(repr(sorted(map(repr, reasoner[name]))).encode())
    return found.hexdigest()[:16]
