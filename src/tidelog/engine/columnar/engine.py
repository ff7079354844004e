"""The columnar engine, put together: the one place that knows the concrete parts."""

from __future__ import annotations

import os

from tidelog.data.dictionary import Dictionary
from tidelog.engine.columnar.closures.maintained_closures import ColumnarClosures
from tidelog.engine.columnar.interpreter.executor import Executor
from tidelog.engine.columnar.interpreter.plan_runner import Workers
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.rounds import ColumnarChangeLog, ColumnarRounds
from tidelog.engine.columnar.storage.storage import ColumnarReplacement, ColumnarStorage
from tidelog.engine.columnar.transactions.aggregates import ColumnarAggregates
from tidelog.engine.columnar.transactions.change_runner import Bookkeeping, ChangeExecutor
from tidelog.engine.columnar.transactions.counters import ColumnarMarks, InstanceCounters
from tidelog.engine.columnar.transactions.rank_loop import ColumnarRankLoop
from tidelog.engine.columnar.transactions.transactions import Transactions
from tidelog.engine.interrupts import ActiveLimits
from tidelog.engine.protocol import EngineParts
from tidelog.records import dataclass

# What each part knows of relations; everything else in a part stays when an engine is renewed.
STATE = {
    "catalog": (
        "tables",
        "descriptors",
        "indexes",
        "has_change_log",
        "incomplete",
        "_numbers",
        "_indexes",
        "_indexes_of",
        "_free",
    ),
    "storage": ("_distinct", "_matching"),
    "workers": ("workspaces",),
    "changes": ("buffers", "_has_second_phase", "_row_counts", "_settled"),
    "bookkeeping": ("counters", "marks"),
    "counters": ("counts", "state", "_snapshots", "counted", "rounds"),
    "marks": ("_kept",),
    "aggregates": ("_known", "_saved", "_tables", "_numbers", "_seen"),
    "closures": ("closed", "_used"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnarEngine(EngineParts):
    """All facts in this process, as tables of ids."""

    storage: ColumnarStorage
    rounds: ColumnarRounds
    plans: Executor
    changes: Transactions
    change_plans: ChangeExecutor
    aggregates: ColumnarAggregates
    counters: InstanceCounters
    replacement: ColumnarReplacement
    marks: ColumnarMarks
    closures: ColumnarClosures
    rank_loop: ColumnarRankLoop
    change_log: ColumnarChangeLog
    catalog: Catalog
    workers: Workers
    bookkeeping: Bookkeeping

    def renew(self) -> None:
        """Forget all relations and whatever was made for them, in whatever state; values keep their ids."""
        fresh = make(self.threads)
        found = [
            (getattr(self, part), name, getattr(getattr(fresh, part), name))
            for part, names in STATE.items()
            for name in names
        ]
        found += [
            (self.catalog, "observers", (self.storage,)),
            (self.changes, "participants", (self.counters,)),
        ]
        self.catalog.dictionary.publish()
        # All or none: nothing from here on can fail.
        for part, name, value in found:
            setattr(part, name, value)
        self.plans.forget_plans()
        self.catalog.epoch += 1
        self.catalog.version += 1


def make(threads: int | None = None, relations: int = 8) -> ColumnarEngine:
    """Return an empty engine for about so many relations of two columns."""
    limits, bookkeeping = ActiveLimits(), Bookkeeping()
    workers = Workers(max(1, threads or os.cpu_count() or 1), limits)
    catalog = Catalog(Dictionary(), relations)
    storage, rounds = ColumnarStorage(catalog, limits), ColumnarRounds(catalog)
    transactions = Transactions(catalog, workers)
    change_plans = ChangeExecutor(catalog, storage, workers, transactions, bookkeeping)
    counters = InstanceCounters(catalog, transactions, change_plans, bookkeeping)
    marks = ColumnarMarks(catalog, transactions, bookkeeping)
    closures = ColumnarClosures(catalog, storage, transactions, limits)
    catalog.observe(storage)
    transactions.join(counters)
    return ColumnarEngine(
        storage=storage,
        rounds=rounds,
        plans=Executor(catalog, storage, rounds, workers),
        changes=transactions,
        change_plans=change_plans,
        aggregates=ColumnarAggregates(catalog, storage, transactions),
        counters=counters,
        replacement=ColumnarReplacement(storage, rounds),
        limits=limits,
        marks=marks,
        closures=closures,
        rank_loop=ColumnarRankLoop(change_plans),
        change_log=ColumnarChangeLog(catalog),
        threads=workers.threads,
        catalog=catalog,
        workers=workers,
        bookkeeping=bookkeeping,
    )
