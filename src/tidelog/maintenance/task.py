"""What an algorithm is asked to do in one stratum, and the means: deletion and insertion in rounds.
Mutates itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidelog.engine.events import ChangePassed, Listener
from tidelog.engine.flags import CounterKind, Effect, Flag, Role, Where
from tidelog.engine.protocol import Engine, Facts
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.maintenance.step_plans import Driven, Shelf, Step
from tidelog.rewrite.auxiliary_relations import ClosureModule

# ---- What an algorithm is asked to do in one stratum, and the means to do it. Mutates itself.
#
# When an algorithm begins, lower strata are settled, `removed` are no longer explicit (and counted so),
# `added` are, and nothing else has changed in the stratum: all that was true before is still there.

UNKNOWN = Where(Flag.ALIVE | Flag.PENDING, Flag.NONE)  # not true, and not waiting to become so
IDLE = Where(Flag.PENDING, Flag.NONE)


@dataclass(frozen=True, slots=True)
class Section:
    """A stratum of the rules before and after: what becomes of its rules, and their plans."""

    number: int
    predicates: tuple[str, ...]
    before: tuple[Rule, ...]
    removed: tuple[Rule, ...]
    added: tuple[Rule, ...]
    is_aggregate: bool
    shelf: Shelf
    closure: ClosureModule | None = None  # that keeps the one predicate, in place of rules

    @property
    def stratum(self) -> Stratum:
        """The stratum with its rules as they were; its predicates may depend on each other only later."""
        return Stratum(self.predicates, self.before, recursive=True)

    @property
    def is_counted(self) -> bool:
        """Whether an algorithm maintains it, by counting if it counts."""
        return not self.is_aggregate and self.closure is None

    @property
    def is_revised(self) -> bool:
        """Whether rules come or go."""
        return bool(self.removed or self.added)


class Task:
    """One stratum of one transaction."""

    def __init__(
        self,
        engine: Engine,
        section: Section,
        listen: Listener,
        check: Callable[[], None],
        *,
        removed: Facts,
        added: Facts,
        went: Facts,
        came: Facts,
    ) -> None:
        self.engine = engine
        self.section = section
        self.removed = removed
        self.added = added
        self.went = went
        self.came = came
        self.overdeleted = 0
        self._listen = listen
        self._check = check

    # ---- plans

    def run(self, step: Step, given: Facts, effect: Effect) -> Facts:
        """The heads that the plans of a step find, driven by the given facts."""
        return self.run_driven(step, self.section.shelf[step], given, effect)

    def run_driven(self, step: Step, driven: Driven, given: Facts, effect: Effect) -> Facts:
        """The same for some plans of a step."""
        plans = self._plans(driven, given)
        if not plans:
            return self.engine.changes.none()
        return self._told(step, len(given), self.engine.change_plans.run(plans, given, effect))

    def run_all(self, step: Step, effect: Effect) -> Facts:
        """The heads that the plans of a step find in all facts."""
        plans = self.section.shelf[step].get(None, ())
        if not plans:
            return self.engine.changes.none()
        return self._told(step, 0, self.engine.change_plans.run(plans, self.engine.changes.none(), effect))

    def run_support(self, waiting: Facts) -> tuple[Facts, Facts]:
        """The facts to check next, from one instance for each waiting fact that has one, and which have."""
        plans = self.plans(Step.SUPPORT, waiting)
        if not plans:
            return self.engine.changes.none(), self.engine.changes.none()
        fresh, heads = self.engine.change_plans.run_support(plans, waiting)
        return self._told(Step.SUPPORT, len(waiting), fresh), heads

    def plans(self, step: Step, given: Facts) -> list[Any]:
        """The plans of a step that facts of these relations drive."""
        return self._plans(self.section.shelf[step], given)

    def _plans(self, driven: Driven, given: Facts) -> list[Any]:
        if not len(given):
            return []
        return [plan for relation in given.relations for plan in driven.get(relation, ())]

    def _told(self, step: Step, given: int, found: Facts) -> Facts:
        self._listen(ChangePassed(self.section.number, step.value, given, len(found)))
        self._check()
        return found

    # ---- what changed below, and in the rules

    def lost(self, effect: Effect) -> Facts:
        """The heads of instances that broke: of lower facts, and of rules that were removed."""
        return (
            self.run(Step.LOST, self.went, effect)
            | self.run(Step.LOST_UNDER_NEGATION, self.came, effect)
            | self.run_all(Step.RULES_REMOVED, effect)
        )

    def gained(self, effect: Effect) -> Facts:
        """The heads of instances that are new: of lower facts, and of rules that were added."""
        return (
            self.run(Step.GAINED, self.came, effect)
            | self.run(Step.GAINED_UNDER_NEGATION, self.went, effect)
            | self.run_all(Step.RULES_ADDED, effect)
        )

    def changed(self, effect: Effect) -> Facts:
        """The heads of all instances that broke or are new, through lower facts."""
        return (
            self.run(Step.LOST, self.went, effect)
            | self.run(Step.LOST_UNDER_NEGATION, self.came, effect)
            | self.run(Step.GAINED, self.came, effect)
            | self.run(Step.GAINED_UNDER_NEGATION, self.went, effect)
        )

    def stated(self) -> Facts:
        """The explicit facts that are to become true, from now on waiting for it."""
        return self.waiting(self.engine.changes.select(self.added, UNKNOWN))

    def waiting(self, facts: Facts) -> Facts:
        """The facts, from now on waiting for their turn."""
        self.engine.changes.mark(facts, set=Flag.PENDING)
        return facts

    def united(self, parts: Sequence[Facts]) -> Facts:
        """All facts of the parts; made in pairs, so that many small parts are not copied many times."""
        while len(parts) > 1:
            pairs = [parts[place] | parts[place + 1] for place in range(0, len(parts) - 1, 2)]
            parts = [*pairs, *parts[2 * len(pairs) :]]
        return parts[0] if parts else self.engine.changes.none()

    def without(self, facts: Facts, others: Facts) -> Facts:
        """The facts but for the others; none of them waits for its turn."""
        self.engine.changes.mark(others, set=Flag.PENDING)
        left = self.engine.changes.select(facts, IDLE)
        self.engine.changes.mark(others, clear=Flag.PENDING)
        return left


class Algorithm(Protocol):
    """How one stratum is maintained."""

    @property
    def name(self) -> str:
        """The name it is chosen by."""

    @property
    def counters(self) -> CounterKind:
        """What it needs to be counted, and counts on."""

    @property
    def is_compiled(self) -> bool:
        """Whether an engine's compiled loop does the same, and may do it."""

    def maintain(self, task: Task) -> None:
        """Update the stratum, so that exactly its explicit and derived facts are true."""


# ---- Deletion in rounds: doubtful facts are taken away, and what they supported is doubtful next.
#
# Invariant: each instance among facts that were true is lost once, when the first of its facts goes.

GONE = Flag.ALIVE | Flag.DELTA


def every_one(doubtful: Facts) -> Facts:
    """All of them."""
    return doubtful


def overdelete(
    task: Task, doubtful: Facts, effect: Effect, condemn: Callable[[Facts], Facts] = every_one
) -> Facts:
    """The facts taken away, beginning with the doubtful ones that `condemn` does not spare."""
    engine = task.engine
    rounds = []
    while len(doubtful):
        doomed = condemn(doubtful)
        if not task.section.shelf[Step.OVERDELETE]:
            engine.changes.mark(doomed, clear=Flag.ALIVE | Flag.PENDING)
            rounds.append(doomed)
            break
        engine.changes.mark(doomed, set=Flag.DELTA, clear=Flag.PENDING)
        doubtful = task.run(Step.OVERDELETE, doomed, effect)
        engine.changes.mark(doomed, clear=GONE)
        rounds.append(doomed)
    gone = task.united(rounds)
    task.overdeleted = len(gone)
    return gone


# ---- Insertion: what follows from new facts, semi-naively. The last part of every algorithm.
#
# Invariant: each instance with a new fact is found once, in the round of the last of its facts to come.

FOUND = Effect(UNKNOWN, create=True, role=Role.ORIGIN)
COUNTED = Effect(UNKNOWN, create=True, count=1)
NEW = Flag.ALIVE | Flag.DELTA


def insert(task: Task, again: Facts) -> None:
    """Insert the pending facts `again`, added explicit facts, gained facts, and their derived facts.

    Where instances are counted, gained ones are counted; where facts have ranks, new ones rank highest.
    """
    engine = task.engine
    effect = FOUND if engine.counters is CounterKind.NONE else COUNTED
    fresh = again | task.stated()
    fresh |= task.gained(effect)
    if not task.section.shelf[Step.INSERT] and engine.counters is not CounterKind.RANK:
        engine.changes.mark(fresh, set=Flag.ALIVE, clear=Flag.PENDING)
        return
    while len(fresh):
        engine.changes.mark(fresh, set=NEW, clear=Flag.PENDING)
        if engine.counters is CounterKind.RANK:
            engine.raise_ranks(fresh)
        found = task.run(Step.INSERT, fresh, effect)
        engine.changes.mark(fresh, clear=Flag.DELTA)
        fresh = found
