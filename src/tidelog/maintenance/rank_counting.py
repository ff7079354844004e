"""Rank-split counting: counts of instances, split by whether they are a proof.

Ours; after the counting variants of Hu, Motik, Horrocks: Optimised Maintenance of Datalog Materialisations,
AAAI 2018.

Each fact has a rank, the round in which it became true. Its instances whose own facts all rank below it, and
those of rules that do not read the stratum, are *founded*; the others are *hidden*. A fact with a founded
instance has a proof, so only those without are deleted. A deleted fact loses its rank: one that still has an
instance is inserted again with the highest rank, under which all its instances are founded.

Invariant: every fact that is true has a founded instance or is explicit, and the own facts of its founded
instances rank below it; `founded` and `hidden` are the numbers of instances of either kind.
"""

from __future__ import annotations

from tidelog.engine.flags import CounterKind
from tidelog.maintenance.counting import delete
from tidelog.maintenance.task import Task, insert


class RankCounting:
    """Needs counters and ranks; reads few instances, and never backwards."""

    name = "rank-counting"
    counters = CounterKind.RANK

    def __init__(self, is_compiled: bool = True) -> None:
        self.is_compiled = is_compiled

    def maintain(self, task: Task) -> None:
        """Delete what is unfounded, insert again what is supported, insert."""
        deleted = delete(task)
        insert(task, task.waiting(task.counters.select_supported(deleted)))
