"""The update streams of paper 000, what it measured of them, and what a process measures of ours.

Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, section 5.
"""

from __future__ import annotations

import gc
import gzip
import hashlib
import re
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tidelog
import tidelog.reasoner.reasoner  # here, so that no measurement has it
from benchmarks.clock import cpu_seconds, peak_megabytes
from benchmarks.generators import random_updates
from benchmarks.program import program_path
from benchmarks.record import Counts, Measurement, Task
from benchmarks.updates import count_facts, digest, percentile
from tidelog.engine.events import ChangePassed, Event, MarkingDecided, MarksUsed

Update = Sequence[tuple[str, str, tuple[int, ...]]]

SHARED = Path(__file__).parent.parent.parent / "shared" / "data" / "streams"
NODES = {"P_seq": 100, "P_trans": 20}
TRACKS = ("track0", "track1", "track2")
SEEDS = (1, 2, 3)
REPEATS = 7
SIGNED = re.compile(r"([+-]) (\w+)\(([^)]*)\)")
DELETIONS = ("lost", "overdelete")  # line 23 of Algorithm 1: instances that put a fact in doubt
INSERTIONS = ("gained", "insert")  # line 28


@dataclass(frozen=True)
class Printed:
    """A row of the paper's tables; B/F without marking and with it."""

    seconds: tuple[float, float]
    deletions: tuple[int, int]
    insertions: int
    explicit_marks: int
    implicit_marks: int


TABLE: Mapping[tuple[str, int], Printed] = {
    ("P_trans", 10): Printed((42.48, 39.17), (1603, 447), 545, 480, 991),
    ("P_trans", 20): Printed((38.55, 35.68), (3046, 594), 2912, 960, 2277),
    ("P_trans", 30): Printed((38.64, 35.57), (5146, 1100), 7288, 1399, 4153),
    ("P_trans", 40): Printed((41.35, 40.17), (4755, 682), 6575, 1816, 4069),
    ("P_trans", 50): Printed((43.60, 45.09), (3778, 360), 4570, 2215, 3660),
    ("P_trans", 60): Printed((45.78, 48.51), (3227, 213), 3327, 2604, 3428),
    ("P_trans", 70): Printed((48.34, 52.76), (2724, 161), 2158, 2973, 3085),
    ("P_trans", 80): Printed((50.04, 55.76), (2584, 126), 1782, 3293, 3078),
    ("P_seq", 10): Printed((10.32, 8.73), (1960, 1480), 2360, 480, 480),
    ("P_seq", 20): Printed((18.69, 15.68), (3920, 2960), 4317, 960, 960),
    ("P_seq", 30): Printed((28.59, 23.33), (5880, 4440), 6265, 1440, 1440),
    ("P_seq", 40): Printed((43.14, 34.60), (7827, 5910), 8228, 1917, 1917),
    ("P_seq", 50): Printed((64.62, 52.67), (9709, 7332), 10173, 2377, 2377),
    ("P_seq", 60): Printed((107.12, 85.82), (11588, 8744), 12129, 2844, 2844),
    ("P_seq", 70): Printed((152.29, 120.46), (13457, 10147), 14069, 3311, 3311),
    ("P_seq", 80): Printed((220.44, 177.29), (15283, 11516), 16005, 3767, 3767),
    ("track0", 0): Printed((114.58, 106.22), (859, 754), 4638, 910, 70),
    ("track1", 0): Printed((20.57, 20.29), (684, 544), 2653, 1208, 119),
    ("track2", 0): Printed((10.46, 10.24), (558, 400), 1704, 1017, 137),
}


def has_tracks() -> bool:
    return SHARED.exists()


def stream_of(workload: str, size: int, seed: int) -> list[Update]:
    """The updates of a stream, the first of which fills an empty set of facts."""
    if workload in TRACKS:
        text = gzip.decompress((SHARED / f"gps_track_{workload[-1]}.changes.rls.gz").read_bytes()).decode()
        return [signed_rows(part) for part in text.split("@commit .") if part.strip()]
    return [
        [("-", "edge", row) for row in deleted] + [("+", "edge", row) for row in added]
        for deleted, added in random_updates(NODES[workload], size, seed)
    ]


def signed_rows(script: str) -> Update:
    """The changes of a script of integers.

    >>> signed_rows("+ p(1, 2) . - q(3) .")
    [('+', 'p', (1, 2)), ('-', 'q', (3,))]
    """
    return [
        (sign, predicate, tuple(int(term) for term in terms.split(",")))
        for sign, predicate, terms in SIGNED.findall(script)
    ]


def program_of(workload: str) -> tidelog.Program:
    if workload not in TRACKS:
        return tidelog.load(program_path(workload))
    declared = "@declare nextInWay(from: int, to: int, way: int) .\n"
    return tidelog.parse(declared + (SHARED / "map.rls").read_text(encoding="utf-8"))


class Ledger:
    """A listener that adds up what the updates of a stream did. Mutates itself."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        if isinstance(event, ChangePassed):
            self.sums[event.step] += event.found
        elif isinstance(event, MarksUsed):
            self.sums["explicit marks"] += event.explicit
            self.sums["implicit marks"] += event.implicit
            self.sums["positive marks"] += event.positive
        elif isinstance(event, MarkingDecided):
            self.sums["updates marks"] += event.is_marked

    def counts(self) -> Counts:
        counts: Counts = {
            "deletions": sum(self.sums[step] for step in DELETIONS),
            "insertions": sum(self.sums[step] for step in INSERTIONS),
        }
        return counts | {name: number for name, number in self.sums.items() if name.endswith("marks")}


@dataclass(frozen=True)
class Passage:
    """What it cost to pass a stream on, and what came of it."""

    cpu_s: float
    wall_s: float
    updates: tuple[float, ...]
    counts: Counts
    tuples: int
    digest: str


def pass_on(
    workload: str, updates: Sequence[Update], maintainer: str, marking: str, decides: bool = True
) -> Passage:
    """Carry out all updates of a stream; the first is complete before the second is looked at.

    Unless the maintainer `decides`, every update is marked, whether that pays or not.
    """
    program, ledger = program_of(workload), Ledger()
    begin, cpu = time.perf_counter(), cpu_seconds()
    reasoner = tidelog.Reasoner(
        program,
        maintainer=maintainer,
        modules=maintainer == "auto",
        marking=marking,
        threads=1,
        listeners=[ledger],
    )
    if not decides and marking != "none":
        lookahead = reasoner._applier.maintainer.lookahead
        assert lookahead is not None
        lookahead.decides = False
    deltas = [*reasoner.stream(updates[:1]), *reasoner.stream(updates[1:])]
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - begin
    changes = repr([(delta.added, delta.removed) for delta in deltas]) + digest(reasoner)
    return Passage(
        cpu,
        wall,
        tuple(delta.seconds for delta in deltas),
        ledger.counts(),
        count_facts(reasoner),
        hashlib.sha256(changes.encode()).hexdigest()[:16],
    )


def measure_stream(task: Task) -> Measurement:
    """The mean over the streams of three seeds, each the median of some passages; a track is one stream."""
    maintainer, _, marking = task.variant.partition("/")
    seeds = (0,) if task.workload in TRACKS else SEEDS
    passages, counted, ratios = [], [], []
    for seed in seeds:
        updates = stream_of(task.workload, task.size, seed)
        # What the paper counts is counted where every update is marked; the time is that of who decides.
        counted.append(pass_on(task.workload, updates, maintainer, marking, decides=False))
        timed, beside = in_turns(task.workload, updates, maintainer, marking)
        passages.append(timed)
        ratios += [new.cpu_s / old.cpu_s for new, old in zip(timed, beside, strict=True)]
    last = [some[-1] for some in passages]
    means = mean_counts(counted) | {
        "updates marked": mean_counts(last).get("updates marks", 0),
        "deletions decided": mean_counts(last)["deletions"],
        "ratio": statistics.median(ratios),
    }
    return Measurement(
        cpu_s=statistics.mean(statistics.median(one.cpu_s for one in some) for some in passages),
        wall_s=statistics.mean(statistics.median(one.wall_s for one in some) for some in passages),
        tuples=sum(passage.tuples for passage in last),
        peak_rss_mb=peak_megabytes(),
        p99_s=percentile([seconds for passage in last for seconds in passage.updates[1:]], 0.99),
        counts={"digest": "".join(passage.digest for passage in last)} | means | printed(task),
    )


def in_turns(
    workload: str, updates: Sequence[Update], maintainer: str, marking: str
) -> tuple[list[Passage], list[Passage]]:
    """Passages with marking and, each next to one of them, without: only so a few per cent show."""
    with_marks: list[Passage] = []
    without: list[Passage] = []
    for number in range(REPEATS):
        for kind in dict.fromkeys(("none", marking) if number % 2 else (marking, "none")):
            gc.collect()
            passage = pass_on(workload, updates, maintainer, kind)
            (with_marks if kind == marking else without).append(passage)
    return with_marks, without if marking != "none" else with_marks


def mean_counts(passages: Sequence[Passage]) -> Counts:
    """The mean of each count over streams of different seeds."""
    names = dict.fromkeys(name for passage in passages for name in passage.counts)
    return {
        name: round(statistics.mean(int(passage.counts.get(name, 0)) for passage in passages))
        for name in names
    }


def printed(task: Task) -> Counts:
    """What the paper says of the same stream, without marking or with it."""
    row = TABLE.get((task.workload, task.size))
    if row is None or not task.variant.startswith("backward-forward/"):
        return {}
    marks = not task.variant.endswith("/none")
    found: Counts = {
        "paper_s": row.seconds[marks],
        "paper_deletions": row.deletions[marks],
        "paper_insertions": row.insertions,
    }
    if marks:
        found |= {"paper_explicit_marks": row.explicit_marks, "paper_implicit_marks": row.implicit_marks}
    return found
