"""What a process does to find out what changes cost: facts, rules, and the same after many updates.

Whatever is taken away is put back, so that every operation begins with the same facts. The first operation of
a size is apart: `first_s`. That of a process makes plans and counts instances.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import tidelog
import tidelog.reasoner.reasoner  # here, so that no measurement has it
from benchmarks.clock import cpu_seconds, peak_megabytes
from benchmarks.program import rule_lines
from benchmarks.record import Counts, Measurement, Task
from benchmarks.updates import (
    Batch,
    Explicit,
    Fill,
    Meter,
    count_facts,
    counter_bytes,
    deleting,
    digest,
    explicit_facts,
    inserting,
    percentile,
    reasoner_of,
)
from benchmarks.workloads import CHANGING, Prepared, prepare

OPERATIONS = {1: 300, 10: 100, 100: 50, 1_000: 20}  # at most so many of each size
LEAST, MOST = 2, 7  # operations of any size; of other sizes
ENOUGH = 1.0  # CPU seconds of operations after which no more are begun
DRIFT_SAMPLE = 200
AWAY = 100  # facts that random updates keep away at any time


@dataclass(frozen=True)
class Loaded:
    """A workload with everything derived, and what that cost."""

    prepared: Prepared
    reasoner: tidelog.Reasoner
    load_s: float
    explicit: Explicit


def load(workload: str, task: Task) -> Loaded:
    """The workload in this process, kernels loaded before the clock starts."""
    prepared = prepare(CHANGING[workload], task.facts)
    begin = cpu_seconds()
    reasoner = reasoner_of(prepared, task.variant, task.threads)
    return Loaded(prepared, reasoner, cpu_seconds() - begin, explicit_facts(prepared))


# ---- facts


def sweep(loaded: Loaded, task: Task) -> Measurement:
    """Random facts are deleted, and added back."""
    return there_and_back(loaded, task, lambda number: loaded.explicit.sample(task.size, seed=number))


def cut(loaded: Loaded, task: Task) -> Measurement:
    """The edge in the middle of a chain is deleted, and added back."""
    return there_and_back(loaded, task, lambda _: middle_of(loaded.explicit))


def middle_of(explicit: Explicit) -> Batch:
    rows = sorted(zip(*(column.to_pylist() for column in explicit.tables["edge"].columns), strict=True))
    return {"edge": [rows[len(rows) // 2]]}


def there_and_back(loaded: Loaded, task: Task, batch_of: Callable[[int], Batch]) -> Measurement:
    """The cost of deleting batches of facts, and in the counts that of adding each back."""
    reasoner = loaded.reasoner
    whole = digest(reasoner)
    first, deleted, added = Meter(), Meter(), Meter()
    batch = batch_of(0)
    delta = first.transact(reasoner, deleting(batch))
    tuples, rest, changed = count_facts(reasoner), digest(reasoner), len(delta)
    Meter().transact(reasoner, inserting(batch))
    for number in range(1, OPERATIONS.get(task.size, MOST) + 1):
        if number > LEAST and deleted.spent + added.spent > ENOUGH:
            break
        batch = batch_of(number)
        deleted.transact(reasoner, deleting(batch))
        added.transact(reasoner, inserting(batch))
    check(digest(reasoner) == whole, "facts that were deleted and added back are not what they were")
    counts: Counts = {
        "digest": rest,
        "net_change": changed,
        "first_s": round(first.cpu[0], 6),
        "bytes_per_fact": round(counter_bytes(reasoner) / count_facts(reasoner), 2),
    }
    return measurement(loaded, tuples, deleted, added, counts)


# ---- rules


def rules(loaded: Loaded, task: Task) -> Measurement:
    """Each rule of the program is removed, and added again; the counts say what that cost in all."""
    reasoner = loaded.reasoner
    whole = digest(reasoner)
    removed, added = Meter(), Meter()
    texts = rule_lines(loaded.prepared.program.read_text(encoding="utf-8"))
    Meter().transact(reasoner, removing(texts[0]))
    Meter().transact(reasoner, adding(texts[0]))
    changed = 0
    for text in texts:
        changed += len(removed.transact(reasoner, removing(text)))
        added.transact(reasoner, adding(text))
    check(digest(reasoner) == whole, "rules that were removed and added again do not give the same facts")
    slowest = max(range(len(texts)), key=removed.cpu.__getitem__)
    counts: Counts = {
        "digest": str(changed),
        "net_change": changed,
        "total_s": round(removed.spent, 6),
        "add_total_s": round(added.spent, 6),
        "slowest": texts[slowest],
    }
    return measurement(loaded, count_facts(reasoner), removed, added, counts)


def removing(text: str) -> Fill:
    return lambda change: change.remove(text)


def adding(text: str) -> Fill:
    return lambda change: change.add(text)


# ---- drift


def drift(loaded: Loaded, task: Task) -> Measurement:
    """The same deletions after many random updates; `drift` is their cost by that before."""
    reasoner, explicit = loaded.reasoner, loaded.explicit
    batches = [explicit.sample(1, seed=number) for number in range(DRIFT_SAMPLE)]
    Meter().transact(reasoner, deleting(batches[0]))
    Meter().transact(reasoner, inserting(batches[0]))
    for _ in range(2):  # the first time makes indexes
        before, _again = costs(reasoner, batches)
    disturb(reasoner, explicit, task.size)
    after, added = costs(reasoner, batches)
    counts: Counts = {
        "digest": digest(reasoner),
        "before_s": round(before.cpu_s, 7),
        "drift": round(after.cpu_s / before.cpu_s, 3),
        "drift_in_all": round(after.spent / before.spent, 3),
        "drift_p99": round(percentile(after.cpu, 0.99) / percentile(before.cpu, 0.99), 3),
    }
    return measurement(loaded, count_facts(reasoner), after, added, counts)


def costs(reasoner: tidelog.Reasoner, batches: list[Batch]) -> tuple[Meter, Meter]:
    """What it costs to delete each batch, and to add it back."""
    deleted, added = Meter(), Meter()
    for batch in batches:
        deleted.transact(reasoner, deleting(batch))
        added.transact(reasoner, inserting(batch))
    return deleted, added


def disturb(reasoner: tidelog.Reasoner, explicit: Explicit, updates: int) -> None:
    """So many random updates of one fact are made; in the end all facts are there again."""
    draws = random.Random(7)
    places = np.random.default_rng(7).choice(explicit.count, size=min(updates, explicit.count), replace=False)
    waiting = [explicit.chosen(places[place : place + 1]) for place in range(len(places))]
    away: list[Batch] = []
    for _ in range(updates):
        if waiting and (not away or (len(away) < AWAY and draws.random() < 0.5)):
            away.append(waiting.pop())
            Meter().transact(reasoner, deleting(away[-1]))
        else:
            batch = away.pop(draws.randrange(len(away)))
            Meter().transact(reasoner, inserting(batch))
            waiting.insert(0, batch)
    for batch in away:
        Meter().transact(reasoner, inserting(batch))


# ---- what all have in common


def measurement(loaded: Loaded, tuples: int, away: Meter, back: Meter, counts: Counts) -> Measurement:
    """The cost of taking away; that of putting back is in the counts."""
    return Measurement(
        cpu_s=away.cpu_s,
        wall_s=away.wall_s,
        tuples=tuples,
        peak_rss_mb=peak_megabytes(),
        p99_s=away.p99_s,
        load_s=loaded.load_s,
        reason_s=sorted(away.commit)[len(away.commit) // 2],
        counts=counts
        | {
            "facts": loaded.prepared.facts,
            "operations": len(away.cpu),
            "add_cpu_s": round(back.cpu_s, 7),
            "add_wall_s": round(back.wall_s, 7),
            "add_p99_s": round(back.p99_s or max(back.cpu), 7),
            "most_s": round(max(away.cpu), 7),
        },
    )


def check(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


PERFORM: Mapping[str, Callable[[Loaded, Task], Measurement]] = {
    "sweep": sweep,
    "cut": cut,
    "rules": rules,
    "drift": drift,
}
