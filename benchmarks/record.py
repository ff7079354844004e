"""What is measured, by whom, and the one shape in which every suite writes it down."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

Counts = dict[str, str | int | float]
Key = tuple[str, str, str, str, int]


def threads_variant(threads: int) -> str:
    return "" if threads == 1 else f"{threads} threads"


@dataclass(frozen=True)
class Task:
    """One thing that one engine does once, in a process of its own or with its other sizes.

    `facts` is about how many the workload is given, where the size says how many of them change.
    """

    suite: str
    workload: str
    engine: str
    variant: str
    size: int
    threads: int
    facts: int = 0

    @property
    def full_variant(self) -> str:
        """The variant, and the number of threads unless it is one."""
        return " ".join(filter(None, (self.variant, threads_variant(self.threads))))

    @property
    def key(self) -> Key:
        return self.suite, self.workload, self.engine, self.full_variant, self.size

    @property
    def label(self) -> str:
        return " ".join(filter(None, (self.workload, str(self.size), self.engine, self.full_variant)))


@dataclass(frozen=True)
class Measurement:
    """What a process measured of itself, imports and start-up apart."""

    cpu_s: float
    wall_s: float
    tuples: int
    peak_rss_mb: float
    p99_s: float | None = None
    load_s: float | None = None
    reason_s: float | None = None
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """One line of a file of results: medians over the repetitions of a task.

    `load_s` and `reason_s` are CPU seconds, of the repetition in the middle.

    `counts` holds everything else: `status` is `done`, `stopped` (then `cpu_s` and `wall_s` are what was
    spent until the limit in `reason` was reached) or `failed`.
    """

    suite: str
    workload: str
    engine: str
    variant: str
    size: int
    cpu_s: float
    wall_s: float
    p99_s: float | None
    tuples: int
    peak_rss_mb: float
    load_s: float | None
    reason_s: float | None
    counts: Counts

    @property
    def key(self) -> Key:
        return self.suite, self.workload, self.engine, self.variant, self.size

    @property
    def is_done(self) -> bool:
        return self.counts["status"] == "done"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def read_records(paths: Iterable[Path]) -> list[Record]:
    """The records of several files; a later record of the same thing replaces an earlier one."""
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    records = [Record(**json.loads(line)) for line in lines]
    return list({record.key: record for record in records}.values())
