"""The memory that a task may take: what settings say, and that it ends with an error before it has it all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog as tl
from tidelog.errors import Diagnostic
from tidelog.errors.codes import OUT_OF_MEMORY
from tidelog.spark.strategies import ASSUMED, MemoryLimit, MeteredBatches, budget

ROOT = Path(__file__).parents[2]
CLUSTER = {"spark.master": "spark://host:7077"}
YARN = {"spark.master": "yarn", "spark.executor.memory": "8g", "spark.executor.cores": "4"}


def of(settings: Mapping[str, str]) -> Any:
    return budget(lambda key, otherwise: settings.get(key, otherwise))


@pytest.mark.parametrize(
    ("settings", "size", "told"),
    [
        ({**CLUSTER, "tidelog.taskMemory": "2g"}, 2 << 30, "tidelog.taskMemory"),
        (
            {**YARN, "spark.executor.pyspark.memory": "4g"},
            1 << 30,
            "(spark.executor.pyspark.memory, 4.3 GB, for 4 slots)",
        ),
        (
            {**YARN, "spark.executor.memoryOverhead": "4096"},
            int(0.8 * (4 << 30)) // 4,
            "memoryOverhead, 4.3 GB",
        ),
        (
            YARN,
            int(0.8 * int(0.1 * (8 << 30))) // 4,
            "80% of spark.executor.memoryOverhead, 859 MB, for 4 slots",
        ),
        ({**YARN, "spark.executor.memory": "1g"}, int(0.8 * (384 << 20)) // 4, "403 MB"),
        ({**YARN, "spark.task.cpus": "4"}, int(0.8 * int(0.1 * (8 << 30))), "for 1 slot"),
        ({**YARN, "spark.master": "k8s://https://host"}, int(0.8 * int(0.4 * (8 << 30))) // 4, "3.4 GB"),
    ],
)
def test_what_settings_allow_each_task(settings: Mapping[str, str], size: int, told: str) -> None:
    found = of(settings)
    assert (found.size, found.limit, found.is_shared) == (size, size, False)
    assert told in found.source


def test_what_is_not_set_is_the_machine_or_assumed() -> None:
    here = of({"spark.master": "local[2]", "spark.executor.memoryOverhead": "1g"})
    assert here.is_shared and here.limit is None and "this machine" in here.source
    assert (here.tasks_for(here.size), here.tasks_for(here.size + 1)) == (1, None)
    there = of(CLUSTER)
    assert (there.size, there.limit) == (ASSUMED, None) and "assumed: set tidelog.taskMemory" in there.source
    assert [there.tasks_for(int(ratio * ASSUMED)) for ratio in (0.5, 1.1, 2, 6)] == [1, 2, 4, 17]
    with pytest.raises(tl.ProgramError, match=r"`tidelog\.taskMemory` is 'much', which is not a size"):
        of({"tidelog.taskMemory": "much"})


def failing(limit: MemoryLimit, seen: int, batches: int, error: Exception | None = None) -> Diagnostic:
    """Return what a task says that fails when it has read some of its batches, of 100 rows each."""
    batch = pa.record_batch({"x": pa.array(range(100), pa.int64())})
    read = MeteredBatches([batch] * batches)

    def items() -> Iterator[int]:
        yield 0
        for number, _ in enumerate(read, 1):
            if number == seen:
                break
        raise error or MemoryError

    with pytest.raises(tl.Stopped) as caught:
        list(limit.within(items(), read))
    return caught.value.diagnostics[0]


def test_the_error_names_facts_bytes_and_partitions() -> None:
    size = 4 << 30
    fault = failing(MemoryLimit(size, "4.3 GB (of a setting)", slots=100), 5, 20)
    assert fault.message.endswith(
        "do not fit in 4.3 GB: it had read 500 of 2,000 rows (4,000 of 16,000 bytes)"
    )
    assert fault.help == (
        "set `partitions=23`, at least; "
        "or give each task more memory, by `tidelog.taskMemory`, which is now 4.3 GB (of a setting)"
    )
    stopped = tl.Stopped(
        Diagnostic(OUT_OF_MEMORY, "out of memory; it reached stratum 2 of 3; nothing was written")
    )
    fault = failing(MemoryLimit(size, tasks=3, slots=4), 20, 20, stopped)
    assert fault.message.startswith("the facts of one of 3 tasks do not fit")
    assert fault.message.endswith("it reached stratum 2 of 3")
    assert fault.help and "`partitions=6` would be needed, at least, but there are 4 slots" in fault.help
    assert "tidelog.strategy=joins" in fault.help
    fault = failing(MemoryLimit(size, undivided="it runs in one task"), 20, 20)
    assert fault.help and fault.help.endswith("by `tidelog.taskMemory`: it runs in one task")
    assert "partitions" not in (failing(MemoryLimit(size), 1, 0).help or "")
    other = tl.Stopped(Diagnostic("E611", "more than 3 facts"))
    assert failing(MemoryLimit(size), 20, 20, other).code == "E611"


# ---- a task in a process of its own

LIMITED = """
import sys, threading, time
import numpy as np, pyarrow as pa
from pathlib import Path
from tidelog.logic.type_inference import infer
from tidelog.logic.resolve import program_of
from tidelog.logic.types import Contents
from tidelog.logic.values import ColumnType
from tidelog.spark.strategies import MemoryLimit
from tidelog.spark.worker import (
    COUNTS, ERRORS, NULLS, REJECTS, VIOLATIONS, AllFacts, DerivationTask, InputColumns, OutputColumns,
)  # fmt: skip

rules, kind, rows, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) << 20
program = program_of(f"@declare e(a: {kind}, b: {kind}) . {rules}")
head, BATCH = program.rules[-1].head, 10_000

def batches():
    for start in range(0, rows, BATCH):
        first = np.arange(start, start + BATCH)
        columns = [first, first + (first % 5 != 4)]  # chains of five
        if kind == "string":
            columns = [[f"http://example.org/thing/{number}" for number in each] for each in columns]
        arrays = [pa.repeat("e", BATCH), *map(pa.array, columns)]
        yield pa.RecordBatch.from_arrays(arrays, names=["predicate", "c0", "c1"])

slots = tuple(f"o{place}" for place in range(len(head.terms)))
types = tuple(map(Contents, infer(program).of(program.predicates[head.predicate])))
schema = {slot: pa.string() if kind == "string" else pa.int64() for slot in slots} | {"text": pa.string()}
of = ColumnType.STRING if kind == "string" else ColumnType.INTEGER
reading = InputColumns("e", ("c0", "c1"), (of, of), ("a", "b"))
ask = AllFacts((OutputColumns(head.predicate, head.predicate, slots, types),))
special = dict.fromkeys((COUNTS, ERRORS, NULLS, REJECTS, VIOLATIONS), ("text",))
limit = MemoryLimit(size or None)
task = DerivationTask(program, {reading.predicate: reading}, ask, schema, special, limit=limit)

peak = 0
def look():
    global peak
    while True:
        words = [int(word) for word in Path("/proc/self/statm").read_text().split()]
        peak = max(peak, (words[1] - words[2]) * 4096)
        time.sleep(0.002)

threading.Thread(target=look, daemon=True).start()
found, told = 0, ""
for batch in task(batches()):
    name = batch.column(0)[0].as_py()
    if name == ERRORS:
        told = batch.column("text")[0].as_py().splitlines()[0]
    elif name == head.predicate:
        found += batch.num_rows
print(found, peak >> 20, told, sep="|")
"""
CASES = {
    "reading": ("q(?x) :- e(?x, ?x) .", "string"),
    "deriving": ("p(?x, ?y) :- e(?x, ?y) . p(?x, ?z) :- p(?x, ?y), e(?y, ?z) .", "int"),
    "output": ("q(?x, ?y, ?x, ?y) :- e(?x, ?y) .", "string"),
}


def limited(case: str, rows: int, megabytes: int) -> tuple[int, int, str]:
    """Return the rows that a task derives, the megabytes that it takes, and its error."""
    command = [sys.executable, "-c", LIMITED, *CASES[case], str(rows), str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found, peak, told = done.stdout.strip().split("|", 2)
    return int(found), int(peak), told


def test_a_task_ends_with_an_error_before_it_has_all_memory() -> None:
    found, peak, told = limited("deriving", 400_000, 150)
    assert "E882" in told and "the facts of a task do not fit in 157 MB: it had read 400,000 rows" in told
    assert found == 0 and peak <= 150


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_no_limit_is_passed_whatever_the_task_is_doing(case: str) -> None:
    rows = 500_000
    expected, taken, told = limited(case, rows, 0)
    assert not told
    ended = set()
    for size in range(100, 2 * taken + 100, 90):
        found, peak, told = limited(case, rows, size)
        assert peak <= 1.05 * size  # of what Arrow reserves, an operation may use more than is left
        assert "E882" in told if told else found == expected
        ended.add(bool(told))
    assert ended == {True, False}
