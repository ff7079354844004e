"""What a process does to find out what rules over time cost: everything derived, then facts changed.

Readings, resets and visits are given with intervals; rooms and doors hold always. Recursion passes locks on
from room to room, and ends with the horizon.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import tidelog as tl
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.record import Counts, Measurement, Task

PROGRAM = Path(__file__).parent / "programs" / "sensors.rls"
SPAN = 1000  # in which all facts begin
HORIZON = tl.TimeSettings(horizon=tl.read_interval(f"[0, {2 * SPAN}]")).horizon
PER_SENSOR = 20  # readings
SEED = 7
CHANGED = 100  # facts that are deleted and added again


def tables(facts: int) -> dict[str, pa.Table]:
    """About so many facts with times, and the rooms and doors that they are about."""
    random = np.random.default_rng(SEED)
    sensors = max(2, facts // PER_SENSOR)
    rooms = max(2, sensors // 4)
    readings, events = facts * 8 // 10, facts // 10

    def named(letter: str, numbers: object) -> list[str]:
        return [f"{letter}{number}" for number in np.asarray(numbers).tolist()]

    def at(count: int, longest: int) -> dict[str, object]:
        start = random.integers(0, SPAN, count)
        return {"start": start, "end": start + random.integers(0, longest, count)}

    return {
        "reading": pa.table(
            {
                "s": named("s", random.integers(0, sensors, readings)),
                "v": random.integers(0, 40, readings),
                **at(readings, 20),
            }
        ),
        "reset": pa.table({"s": named("s", random.integers(0, sensors, events)), **at(events, 2)}),
        "visited": pa.table({"r": named("r", random.integers(0, rooms, events)), **at(events, 5)}),
        "room": pa.table({"s": named("s", range(sensors)), "r": named("r", np.arange(sensors) // 4)}),
        "door": pa.table(
            {"r": named("r", range(rooms)), "q": named("r", (np.arange(rooms) * 7 + 1) % rooms)}
        ),
    }


def derived(data: dict[str, pa.Table], procedure: str, threads: int) -> tuple[tl.Reasoner, float, float]:
    """A reasoner that has derived everything, and the CPU seconds of loading and of deriving."""
    reasoner = tl.Reasoner(tl.load(PROGRAM), threads=threads, time=tl.TimeSettings(procedure, None, HORIZON))
    begin = cpu_seconds()
    for name, table in data.items():
        reasoner.insert(name, table)
    loaded = cpu_seconds()
    reasoner.materialise()
    return reasoner, loaded - begin, cpu_seconds() - loaded


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """What deriving everything costs, for each size; with `changes`, what deleting and adding facts does."""
    derived(tables(200), "optimised", 1)  # kernels are compiled, or loaded
    return (changed(task) if task.variant == "changes" else measured(task) for task in tasks)


def measured(task: Task) -> Measurement:
    """From data to everything that follows."""
    data = tables(task.size)
    (reasoner, load, reason), cpu, wall = timed(lambda: derived(data, task.variant, task.threads))
    counts: Counts = {"outcome": str(reasoner.time.outcome)}
    return Measurement(cpu, wall, intervals(reasoner), peak_megabytes(), None, load, reason, counts)


def changed(task: Task) -> Measurement:
    """Some readings deleted and added again, beside what deriving everything took."""
    data = tables(task.size)
    reasoner, load, reason = derived(data, "optimised", task.threads)
    places = np.random.default_rng(SEED + 1).choice(data["reading"].num_rows, min(CHANGED, task.size), False)
    some = data["reading"].take(places)

    def delete() -> str:
        with reasoner.change(missing="ignore") as change:
            change.delete("reading", some)
        return str(change.delta)

    def add() -> str:
        with reasoner.change() as change:
            change.insert("reading", some)
        return str(change.delta)

    lost, cpu, wall = timed(delete)
    gained, add_cpu, _ = timed(add)
    counts: Counts = {"add_cpu_s": add_cpu, "delete_delta": lost, "add_delta": gained}
    return Measurement(cpu, wall, intervals(reasoner), peak_megabytes(), None, load, reason, counts)


def intervals(reasoner: tl.Reasoner) -> int:
    """How many intervals the facts with times have together."""
    return sum(len(reasoner[name]) for name in reasoner.program.timed)
