"""The columnar engine, put together: the one place that knows the concrete parts; and engines by name.

`Reasoner(engine="columnar")` names an engine; `Reasoner(engine=settings)` describes one, by an object that
has a name and makes it. An engine is registered in `ENGINES`, by one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, runtime_checkable

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
from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.errors.codes import RETIRED, UNKNOWN_ENGINE
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
    "storage": ("_distinct", "_loading", "_matching"),
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

    @property
    def dropped(self) -> int:
        """How many rows plans have dropped because a function had no value, since the engine was made."""
        return self.workers.dropped

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


# ---- engines by name


@runtime_checkable
class EngineSettings(Protocol):
    """What describes an engine, and makes it."""

    @property
    def name(self) -> str:
        """The engine's name."""

    def make(self, threads: int | None, relations: int) -> ColumnarEngine:
        """Return an empty engine with this many threads, for about this many relations of two columns."""


@dataclass(frozen=True, slots=True)
class ColumnarSettings:
    """All facts in this process."""

    name: str = "columnar"

    def make(self, threads: int | None, relations: int) -> ColumnarEngine:
        """Return an empty engine."""
        return make(threads, relations)


ENGINES: dict[str, Callable[[], EngineSettings]] = {
    "columnar": ColumnarSettings,
}


def settings_of(engine: str | EngineSettings) -> EngineSettings:
    """Return the settings of an engine, the defaults if it is named only; raise ProgramError if unknown."""
    if isinstance(engine, str) and engine in ENGINES:
        return ENGINES[engine]()
    if not isinstance(engine, str) and isinstance(engine, EngineSettings):
        return engine
    if engine == "spark":
        raise retired()
    help = suggest(str(engine), ENGINES) or f"choose one of {', '.join(ENGINES)}"
    raise ProgramError(Diagnostic(UNKNOWN_ENGINE, f"unknown engine `{engine}`", help=help))


def retired() -> ProgramError:
    """Return the error that says what to use instead of the Spark engine that reasoners had."""
    message = "the engine `spark` was removed: reasoners run in this process"
    help = (
        "a program is a function of DataFrames: `from tidelog import spark as ts`, then "
        '`ts.derive(program, {"edge": frame})`, `ts.query`, `ts.explain`, `ts.maintain`'
    )
    return ProgramError(Diagnostic(RETIRED, message, help=help))
