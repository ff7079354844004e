"""One stratum of one update, as an algorithm sees it: its plans, and deletion and insertion in rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tidelog.engine.events import ChangePassed, Listener
from tidelog.engine.flags import CounterKind, Effect, Flag, Role, Where
from tidelog.engine.protocol import Aggregated, EngineParts, Facts
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.maintenance.step_plans import Driven, MaintenanceStep, StratumPlans
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import ClosureModule

# When an algorithm begins, lower strata are up to date, `removed` are no longer explicit (and counted so),
# `added` are; the stratum has no other changes: all facts that were true before still are.

UNKNOWN = Where(Flag.ALIVE | Flag.PENDING, Flag.NONE)  # not true, and not waiting to become so
IDLE = Where(Flag.PENDING, Flag.NONE)


@dataclass(frozen=True, slots=True)
class ScheduledStratum:
    """A stratum of the rules before and after an update together, with its plans."""

    number: int
    predicates: tuple[str, ...]
    before: tuple[Rule, ...]
    removed: tuple[Rule, ...]
    added: tuple[Rule, ...]
    plans: StratumPlans
    aggregated: Aggregated | None = None  # if its one rule aggregates
    closure: ClosureModule | None = None  # if a structure maintains the one predicate, in place of rules

    @property
    def stratum(self) -> Stratum:
        """The stratum with its rules as they were; its predicates may depend on each other only later."""
        return Stratum(self.predicates, self.before, recursive=True)

    @property
    def is_aggregate(self) -> bool:
        """Whether its one rule aggregates."""
        return self.aggregated is not None

    @property
    def is_counted(self) -> bool:
        """Whether an algorithm maintains it, by counting if it counts."""
        return not self.is_aggregate and self.closure is None

    @property
    def is_revised(self) -> bool:
        """Whether rules are added or removed."""
        return bool(self.removed or self.added)


class Task:
    """One stratum in one transaction: its changes, and the operations of algorithms on it."""

    def __init__(
        self,
        engine: EngineParts,
        section: ScheduledStratum,
        listen: Listener,
        check: Callable[[], None],
        *,
        removed: Facts,
        added: Facts,
        deleted: Facts,
        inserted: Facts,
        on_found: Callable[[Facts], None] | None = None,
    ) -> None:
        self.engine = engine
        self.changes = engine.changes
        self.counters = engine.counters
        self.section = section
        self.removed = removed
        self.added = added
        self.deleted = deleted  # below the stratum
        self.inserted = inserted
        self.overdeleted = 0
        self._on_found = on_found  # called with facts that plans derive or prove
        self._listen = listen
        self._check = check

    # ---- plans

    def run(self, step: MaintenanceStep, driving: Facts, effect: Effect) -> Facts:
        """Return the heads that the plans of a step find, driven by these facts."""
        return self.run_driven(step, self.section.plans[step], driving, effect)

    def run_driven(self, step: MaintenanceStep, driven: Driven, driving: Facts, effect: Effect) -> Facts:
        """Return the heads that the given plans of a step find."""
        plans = self._plans(driven, driving)
        if not plans:
            return self.changes.none()
        heads = self._reported(step, len(driving), self.engine.change_plans.run(plans, driving, effect))
        if self._on_found is not None and effect.role in (Role.ORIGIN, Role.PROOF):
            self._on_found(heads)
        return heads

    def run_all(self, step: MaintenanceStep, effect: Effect) -> Facts:
        """Return the heads that the plans of a step find in all facts."""
        plans = self.section.plans[step].get(None, ())
        if not plans:
            return self.changes.none()
        return self._reported(step, 0, self.engine.change_plans.run(plans, self.changes.none(), effect))

    def run_support(self, waiting: Facts) -> tuple[Facts, Facts]:
        """Read one instance of each waiting fact; return the facts to check next, and those that have one."""
        plans = self.plans(MaintenanceStep.SUPPORT, waiting)
        if not plans:
            return self.changes.none(), self.changes.none()
        body_facts, heads = self.engine.change_plans.run_support(plans, waiting)
        return self._reported(MaintenanceStep.SUPPORT, len(waiting), body_facts), heads

    def plans(self, step: MaintenanceStep, driving: Facts) -> list[Any]:
        """Return the plans of a step that these facts drive."""
        return self._plans(self.section.plans[step], driving)

    def _plans(self, driven: Driven, driving: Facts) -> list[Any]:
        if not len(driving):
            return []
        return [plan for relation in driving.relations for plan in driven.get(relation, ())]

    def _reported(self, step: MaintenanceStep, driving: int, heads: Facts) -> Facts:
        self._listen(ChangePassed(self.section.number, step.value, driving, len(heads)))
        self._check()
        return heads

    # ---- changes below the stratum, and in its rules

    def lost(self, effect: Effect) -> Facts:
        """Return the heads of instances that broke, because of lower facts or because rules were removed."""
        return (
            self.run(MaintenanceStep.LOST, self.deleted, effect)
            | self.run(MaintenanceStep.LOST_UNDER_NEGATION, self.inserted, effect)
            | self.run_all(MaintenanceStep.RULES_REMOVED, effect)
        )

    def gained(self, effect: Effect) -> Facts:
        """Return the heads of instances that are new, because of lower facts or because rules were added."""
        return (
            self.run(MaintenanceStep.GAINED, self.inserted, effect)
            | self.run(MaintenanceStep.GAINED_UNDER_NEGATION, self.deleted, effect)
            | self.run_all(MaintenanceStep.RULES_ADDED, effect)
        )

    def explicit(self) -> Facts:
        """Return the added explicit facts that are not true yet, from now on waiting for their turn."""
        return self.waiting(self.changes.select(self.added, UNKNOWN))

    def waiting(self, facts: Facts) -> Facts:
        """Return the facts, from now on waiting for their turn."""
        self.changes.mark(facts, set=Flag.PENDING)
        return facts

    def united(self, parts: Sequence[Facts]) -> Facts:
        """Return all facts of the parts, united in pairs: many small parts are not copied many times."""
        while len(parts) > 1:
            pairs = [parts[first] | parts[first + 1] for first in range(0, len(parts) - 1, 2)]
            parts = [*pairs, *parts[2 * len(pairs) :]]
        return parts[0] if parts else self.changes.none()

    def without(self, facts: Facts, others: Facts) -> Facts:
        """Return the facts without the others; none of them is pending."""
        self.changes.mark(others, set=Flag.PENDING)
        remaining = self.changes.select(facts, IDLE)
        self.changes.mark(others, clear=Flag.PENDING)
        return remaining


class Algorithm(Protocol):
    """How one stratum is maintained."""

    @property
    def name(self) -> str:
        """The name it is chosen by."""

    @property
    def counters(self) -> CounterKind:
        """The counters that the algorithm needs."""

    @property
    def is_compiled(self) -> bool:
        """Whether an engine's compiled loop may do the same in its place."""

    def maintain(self, task: Task) -> None:
        """Update the stratum, so that exactly its explicit and derived facts are true."""


# ---- deletion, in rounds
#
# Invariant: each instance among facts that were true is lost once, when the first of its facts is deleted.


def all_of(suspect: Facts) -> Facts:
    """Return all suspect facts."""
    return suspect


def overdelete(
    task: Task, suspect: Facts, effect: Effect, confirm: Callable[[Facts], Facts] = all_of
) -> Facts:
    """Delete the suspect facts that `confirm` returns, then the facts that they supported, round by round."""
    changes = task.changes
    rounds = []
    while len(suspect):
        doomed = confirm(suspect)
        if not task.section.plans[MaintenanceStep.OVERDELETE]:
            changes.mark(doomed, clear=Flag.ALIVE | Flag.PENDING)
            rounds.append(doomed)
            break
        changes.mark(doomed, set=Flag.DELTA, clear=Flag.PENDING)
        suspect = task.run(MaintenanceStep.OVERDELETE, doomed, effect)
        changes.mark(doomed, clear=Flag.ALIVE | Flag.DELTA)
        rounds.append(doomed)
    deleted = task.united(rounds)
    task.overdeleted = len(deleted)
    return deleted


# ---- insertion, semi-naive
#
# Invariant: each instance with a new fact is found once, in the round of the last of its facts.

FOUND = Effect(UNKNOWN, create=True, role=Role.ORIGIN)
COUNTED = Effect(UNKNOWN, create=True, count=1)
NEW = Flag.ALIVE | Flag.DELTA


def insert(task: Task, rederived: Facts) -> None:
    """Insert the pending facts `rederived`, added explicit facts, gained facts, and facts derived from them.

    Where instances are counted, gained ones are counted; where facts have ranks, new ones rank highest.
    """
    changes, kind = task.changes, task.counters.kind
    effect = FOUND if kind is CounterKind.NONE else COUNTED
    round_facts = rederived | task.explicit()
    round_facts |= task.gained(effect)
    if not task.section.plans[MaintenanceStep.INSERT] and kind is not CounterKind.RANK:
        changes.mark(round_facts, set=Flag.ALIVE, clear=Flag.PENDING)
        return
    while len(round_facts):
        changes.mark(round_facts, set=NEW, clear=Flag.PENDING)
        if kind is CounterKind.RANK:
            task.counters.assign_next_rank(round_facts)
        derived = task.run(MaintenanceStep.INSERT, round_facts, effect)
        changes.mark(round_facts, clear=Flag.DELTA)
        round_facts = derived
