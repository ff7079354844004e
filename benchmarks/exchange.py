"""Cost and memory of several tasks that derive together: `python -m benchmarks.exchange W5 1000000 1,2,4 3`.

CPU seconds of all tasks, from Arrow files (mapped) to everything derived, in processes that have run once
before with few facts; the anonymous memory that the largest task has added when all is derived, and the most
that a task had added at any time (looked at every few milliseconds, so a short peak may be missed). One
process derives the same by a `Reasoner`. Medians, and the smallest and largest of all repetitions.

How rows are dealt to tasks is the last argument: `blocks` of each table (the default); `rows`, every P-th
row, as Spark's `repartition(P)` deals them; or `hashed`, by a hash of the first column, as Spark's
`repartition(P, column)` does.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from statistics import median
from threading import Event, Thread
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.facts import FACTS, Tables
from benchmarks.generators import chain_edges, tree_edges
from tidelog.data.columns import Batch, Column
from tidelog.engine.exchange import ExchangeTask, Listener
from tidelog.logic.program import Program
from tidelog.logic.resolve import program_of
from tidelog.logic.values import ColumnType
from tidelog.reasoner.reasoner import Reasoner

PROGRAMS: Final = Path(__file__).parent / "programs"
SHOWN: Final = {"cpu": ".3f", "memory": ".0f", "peak": ".0f", "wall": ".3f"}
DEALT: Final = ("blocks", "rows", "hashed")
LOOK: Final = 0.002  # seconds between two looks at the memory of tasks
FEW: Final = 200  # a part of the facts for the first run
CLOSURE: Final = """
    @declare edge(x: int, y: int) .
    path(?x, ?y) :- edge(?x, ?y) .
    path(?x, ?z) :- path(?x, ?y), path(?y, ?z) .
"""
GENERATION: Final = """
    @declare parent(x: int, y: int) .
    same(?x, ?y) :- parent(?p, ?x), parent(?p, ?y) .
    same(?x, ?y) :- parent(?p, ?x), same(?p, ?q), parent(?q, ?y) .
"""


def workload(name: str, size: int) -> tuple[str, Tables]:
    """The text of a program, and its facts."""
    if name == "chain":
        return CLOSURE, {"edge": pa.table(list(chain_edges(size)), names=["x", "y"])}
    if name == "tree":
        return GENERATION, {"parent": pa.table(list(tree_edges(3, size)), names=["x", "y"])}
    return (PROGRAMS / f"{name}.rls").read_text(), FACTS[name](size)


# ---- one process


def work(folder: Path, number: int, count: int, dealt: str) -> None:
    """Derive everything, alone if there are no tasks, and say what it took. Runs in its own process."""
    pa.set_cpu_count(1)
    program = program_of((folder / "program.rls").read_text())
    tables = {
        path.stem: pa.ipc.open_file(pa.memory_map(str(path))).read_all() for path in folder.glob("*.arrow")
    }
    result: dict[str, Any] = {}
    for part in (FEW, 1):
        given = {
            name: batch(table.slice(0, -(-table.num_rows // part)), number, count, dealt)
            for name, table in tables.items()
        }
        gc.collect()
        before = memory(os.getpid())
        result = alone(program, given) if not count else together(program, given, number, count)
        gc.collect()
        pa.default_memory_pool().release_unused()
        result |= {"memory": memory(os.getpid()) - before, "before": before}
        del result["kept"]
    say(result)


def alone(program: Program, given: Mapping[str, Batch]) -> dict[str, Any]:
    cpu, wall = time.process_time(), time.perf_counter()
    reasoner = Reasoner(program, threads=1)
    reasoner._program.facts.skip(program)  # imports are loaded here
    for name, each in given.items():
        reasoner.load(name, [each])
    reasoner.materialise()
    facts = sum(len(reasoner[name]) for name in program.predicates)
    return {**spent(cpu, wall), "facts": facts, "kept": reasoner}


def together(program: Program, given: Mapping[str, Batch], number: int, count: int) -> dict[str, Any]:
    listener = Listener()
    heard = say({"address": listener.address}, answered=True)
    with listener.join(number, heard["addresses"], bytes.fromhex(heard["secret"]), "once") as mesh:
        cpu, wall = time.process_time(), time.perf_counter()
        task = ExchangeTask(program, mesh)
        for name, each in given.items():
            task.load(name, [each])
        task.run()
        taken = spent(cpu, wall)
        facts = sum(len(task.relation(name)) for name in program.predicates)
        counts = {"facts": facts, "bytes": mesh.sent, "rounds": task.rounds, **task.counts()}
        return {**taken, **counts, "kept": task}


def batch(table: pa.Table, number: int, count: int, dealt: str) -> Batch:
    """A task's part of a table, as the engine takes it: texts are strings, numbers integers."""
    if count > 1 and dealt == "rows":
        table = table.take(pa.array(range(number, table.num_rows, count), pa.int64()))
    elif count > 1 and dealt == "hashed":
        values = table.column(0).unique().to_pylist()
        owned = pa.array([each for each in values if crc32(str(each).encode()) % count == number])
        table = table.filter(pc.is_in(table.column(0), owned.cast(table.schema.field(0).type)))
    elif count > 1:
        first, end = (each * table.num_rows // count for each in (number, number + 1))
        table = table.slice(first, end - first)
    columns = []
    for column in table.combine_chunks().columns:
        values = column.chunk(0) if column.num_chunks else pa.array([], column.type)
        kind = ColumnType.INTEGER if pa.types.is_integer(column.type) else ColumnType.STRING
        columns.append(Column(kind, values.cast(pa.int64()) if kind is ColumnType.INTEGER else values))
    return Batch(tuple(columns), table.num_rows)


def spent(cpu: float, wall: float) -> dict[str, float]:
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def memory(process: int) -> float:
    """Anonymous memory of a process, in megabytes: files that are mapped do not count."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0) / 1024


class Watch(Thread):
    """Looks at the memory of processes from outside until they have ended. Mutable."""

    def __init__(self, processes: Sequence[int]) -> None:
        super().__init__(daemon=True)
        self.most = dict.fromkeys(processes, 0.0)
        self.is_over = Event()

    def run(self) -> None:
        """Look again and again."""
        while not self.is_over.wait(LOOK):
            for process in tuple(self.most):
                with suppress(OSError):  # it has ended
                    found = memory(process)
                    self.most[process] = max(self.most[process], found)


def say(record: Mapping[str, Any], answered: bool = False) -> Any:
    print(json.dumps(record), flush=True)
    return json.loads(sys.stdin.readline()) if answered else None


# ---- all of them


def measured(folder: Path, count: int, dealt: str) -> dict[str, Any]:
    """What it took all tasks to derive everything; 0 of them means one process without tasks."""
    command = [sys.executable, "-m", "benchmarks.exchange", "--work", str(folder), str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([*command, str(number), dealt], env=environment, **pipes)
        for number in range(max(1, count))
    ]
    watch = Watch([process.pid for process in processes])
    watch.start()
    talks: list[tuple[Any, Any]] = [(process.stdin, process.stdout) for process in processes]
    for _ in range(2 if count else 0):
        # A task says where it is when it has its part: what it took to make that does not count.
        addresses = [json.loads(answers.readline())["address"] for _, answers in talks]
        watch.most = dict.fromkeys(watch.most, 0.0)
        secret = token_bytes(32).hex()
        for to, _ in talks:
            to.write(json.dumps({"addresses": addresses, "secret": secret}) + "\n")
            to.flush()
    results = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
    watch.is_over.set()
    watch.join()
    peaks = [
        watch.most[process.pid] - each["before"] for process, each in zip(processes, results, strict=True)
    ]
    apart = ("wall", "rounds", "before")
    summed = {name: sum(each[name] for each in results) for name in results[0] if name not in apart}
    rounds = results[0].get("rounds", 0)
    return {
        **summed,
        "wall": max(each["wall"] for each in results),
        "rounds": rounds,
        "memory": max(each["memory"] for each in results),
        "peak": max(peaks),
    }


def main(name: str, size: int, counts: Sequence[int], repetitions: int, dealt: str) -> None:
    text, tables = workload(name, size)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "program.rls").write_text(text)
        for predicate, table in tables.items():
            with pa.ipc.new_file(str(folder / f"{predicate}.arrow"), table.schema) as file:
                file.write_table(table.combine_chunks())
        found: dict[int, list[dict[str, Any]]] = {count: [] for count in (0, *counts)}
        for turn in range(repetitions):
            for count in found if turn % 2 == 0 else reversed(found):
                found[count].append(measured(folder, count, dealt))
    given = sum(table.num_rows for table in tables.values())
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(
        f"{name}, {given:,} facts given, {found[0][0]['facts']:,} in all; {dealt}; load average {load}",
        flush=True,
    )
    base = {what: median(one[what] for one in found[0]) for what in SHOWN}
    for count, each in found.items():
        assert each[0]["facts"] == found[0][0]["facts"], "tasks disagree with one process"
        parts = [f"{count or 'one process':>11}"]
        for what, form in SHOWN.items():
            taken = [one[what] for one in each]
            ratio = median(taken) / base[what]
            parts.append(
                f"{what} {median(taken):{form}} ({min(taken):{form}}-{max(taken):{form}}) x {ratio:.2f}"
            )
        more = {key: value for key, value in each[-1].items() if key not in (*SHOWN, "facts")}
        print("  ".join(parts), more, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(Path(sys.argv[2]), int(sys.argv[4]), int(sys.argv[3]), sys.argv[5])
    else:
        dealt = sys.argv.pop() if sys.argv[-1] in DEALT else DEALT[0]
        main(
            sys.argv[1],
            int(sys.argv[2]),
            [int(each) for each in sys.argv[3].split(",")],
            int(sys.argv[4]) if len(sys.argv) > 4 else 3,
            dealt,
        )
