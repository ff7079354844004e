"""What a process does to find out what rules over time cost: everything derived, round by round."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow as pa

import tidelog as tl
from benchmarks import sensors, tenures
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.peers.meteor import run_meteor
from benchmarks.record import Counts, Measurement, Task
from tidelog.engine.events import Event, IntervalsGained, RuleRan, StratumStarted

PROGRAMS = Path(__file__).parent / "programs"
LARGE = 10_000_000
ROUNDS, FEW_ROUNDS = 30, 15  # of paper 002, Figure 1 (a, b) and (c, d)
LATER, TURNS = 10, 7  # from which round on procedures are compared, and how often
CLOSED = (False, False)
EXAMPLE: dict[str, list[tuple[object, ...]]] = {
    "r1": [("c1", "c2", 0, 1, *CLOSED)],
    "r2": [("c1", "c2", 1, 2, *CLOSED)],
    "r3": [("c2", "c3", 2, 3, *CLOSED)],
    "r5": [("c2", 0, 1, *CLOSED)],
}


@dataclass(frozen=True)
class Given:
    """A program over time and its facts, in memory; for so many rounds, or within a horizon."""

    program: str
    tables: Mapping[str, pa.Table]
    rounds: int | None = None
    horizon: str | None = None

    def settings(self, procedure: str) -> tl.TimeSettings:
        horizon = None if self.horizon is None else tl.read_interval(self.horizon)
        return tl.TimeSettings(procedure, self.rounds, horizon)


def given(workload: str, size: int) -> Given:
    """A workload: sizes are facts, of the running example rounds."""
    if workload == "example":
        tables = {name: tenures.table_of(rows) for name, rows in EXAMPLE.items()}
        return Given((PROGRAMS / "example.rls").read_text(encoding="utf-8"), tables, size)
    if workload == "sensors":
        return Given(sensors.program(), sensors.tables(size), horizon=sensors.HORIZON)
    if workload == "lubm":
        rounds = FEW_ROUNDS if size >= LARGE else ROUNDS
        return Given(tenures.program(), tenures.tables(size), rounds)
    dataset = int(workload.removeprefix("D"))
    return Given(tenures.program(), tenures.temporal_facts(size, dataset), FEW_ROUNDS)


@dataclass
class Rounds:
    """Listens to a derivation: CPU seconds and facts round by round. Mutable: it grows.

    Stored facts are those there when a round begins, and all that its rules find, which are held beside them.
    """

    begin: float = 0.0
    seconds: list[float] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    grown: list[int] = field(default_factory=list)
    _matches: int = 0

    def __call__(self, event: Event) -> None:
        match event:
            case RuleRan():
                self._matches += event.matches
            case StratumStarted():
                self._matches = 0  # of rules without time
            case IntervalsGained(count):  # a round over time has ended
                self.seconds.append(cpu_seconds() - self.begin)
                self.found.append(self._matches)
                self.grown.append(count)
                self._matches = 0

    def counts(self, facts: int) -> Counts:
        """The series as text, from the first round on; `facts` are there in the end."""
        there = facts - sum(self.grown)
        stored = []
        for found, grown in zip(self.found, self.grown, strict=True):
            stored.append(there + found)
            there += grown
        return {
            "seconds_by_round": " ".join(f"{second:.4f}" for second in self.seconds),
            "stored_by_round": " ".join(map(str, stored)),
            "stored": max(stored, default=facts),
        }


def derived(data: Given, procedure: str, threads: int) -> tuple[tl.Reasoner, Rounds, float, float]:
    """A reasoner that has derived everything, its rounds, the CPU seconds of loading and of deriving."""
    rounds = Rounds()
    settings = data.settings(procedure)
    reasoner = tl.Reasoner(tl.parse(data.program), threads=threads, time=settings, listeners=[rounds])
    begin = cpu_seconds()
    for name, table in data.tables.items():
        reasoner.insert(name, table, define=True)  # the rules do not read all of them
    rounds.begin = cpu_seconds()
    reasoner.materialise()
    return reasoner, rounds, rounds.begin - begin, cpu_seconds() - rounds.begin


def intervals(reasoner: tl.Reasoner) -> int:
    """How many intervals the facts with times have together."""
    return sum(len(reasoner.time.store.tables[name]) for name in reasoner.program.timed)


def warm() -> None:
    """Derive and change a little: modules are imported, and memory is at hand."""
    data = given("sensors", 200)
    reasoner, *_ = derived(data, "optimised", 1)
    some = data.tables["reading"].slice(0, 3)
    for signed in ("delete", "insert"):
        with reasoner.change(missing="ignore") as change:
            getattr(change, signed)("reading", some)


def perform(tasks: Sequence[Task]) -> Iterator[Measurement]:
    """What deriving everything costs, for each size."""
    warm()
    measure = (
        by_meteor if tasks[0].engine == "meteor" else in_turns if tasks[0].workload == "turns" else measured
    )
    return map(measure, tasks)


def measured(task: Task) -> Measurement:
    """From data in memory to everything that follows."""
    data = given(task.workload, task.size)
    done, cpu, wall = timed(lambda: derived(data, task.variant, task.threads))
    reasoner, rounds, load, reason = done
    peak, facts = peak_megabytes(), intervals(reasoner)
    counts = {"outcome": str(reasoner.time.outcome), **rounds.counts(facts)}
    return Measurement(cpu, wall, facts, peak, None, load, reason, counts)


def in_turns(task: Task) -> Measurement:
    """The rounds from the tenth on by two procedures that take turns, since they differ by little."""
    data = given("lubm", task.size)
    spent: dict[str, list[float]] = {"optimised": [], "seminaive": []}
    facts = 0
    for _ in range(TURNS):
        for procedure, seconds in spent.items():
            reasoner, rounds, *_ = derived(data, procedure, task.threads)
            seconds.append(rounds.seconds[-1] - rounds.seconds[LATER - 2])
            facts = intervals(reasoner)
            del reasoner, rounds
            gc.collect()  # so that neither pays for the other
    own, other = (median(seconds) for seconds in spent.values())
    counts: Counts = {"ratio": own / other}
    return Measurement(own, own, facts, peak_megabytes(), None, None, own, counts)


def by_meteor(task: Task) -> Measurement:
    """The same, by MeTeoR."""
    data = given(task.workload, task.size)
    assert data.rounds is not None, "it knows no horizon"
    rounds = data.rounds
    done, cpu, wall = timed(lambda: run_meteor(data.program, data.tables, task.variant, rounds))
    return Measurement(cpu, wall, done.tuples, peak_megabytes(), None, done.load_s, done.reason_s)
