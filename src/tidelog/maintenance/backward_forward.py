"""Backward/Forward (B/F): before a fact is taken away, another derivation is looked for.

Motik, Nenov, Piro, Horrocks: Incremental Update of Datalog Materialisation: the Backward/Forward Algorithm,
AAAI 2015; as restated in Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, section
3.2, and here for sets of facts.

Backward: of each waiting fact one instance that was not looked at is taken in each round, and its facts are
checked next. Taking all instances at once would look at a thousand times as many. Forward: what is explicit,
or follows from lower facts that are kept, is proved at once; whatever follows from proved facts is proved,
and, if it was not checked, delayed: proved as soon as it is.

Invariant: a checked fact is proved, or waits, or each of its instances has only facts that were checked.
"""

from __future__ import annotations

from tidelog.engine.flags import CounterKind, Effect, Flag, Role, Where
from tidelog.engine.protocol import Facts
from tidelog.maintenance.step_plans import Step
from tidelog.maintenance.task import Task, insert, overdelete

KNOWN = Flag.CHECKED | Flag.PROVED  # whatever was checked is settled when facts are taken away
DOUBTED = Effect(
    Where(KNOWN | Flag.ALIVE | Flag.EXPLICIT | Flag.DELTA | Flag.PENDING, Flag.ALIVE), role=Role.LOSS
)
FOLLOWS = Effect(Where(Flag.ALIVE | Flag.PROVED | Flag.PENDING, Flag.ALIVE), role=Role.PROOF)
PROVED = Where(Flag.PROVED, Flag.PROVED)
UNPROVED = Where(Flag.PROVED, Flag.NONE)
CHECKED = Where(Flag.CHECKED, Flag.CHECKED)
STATED = Where(Flag.PROVED | Flag.EXPLICIT, Flag.EXPLICIT)
OPEN = Where(Flag.PROVED | Flag.EXPLICIT, Flag.NONE)


class BackwardForward:
    """Needs nothing beside the facts."""

    name = "backward-forward"
    counters = CounterKind.NONE
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Take away what is disproved, insert."""
        doubtful = task.waiting(task.removed) | task.lost(DOUBTED)
        overdelete(task, doubtful, DOUBTED, Search(task).disproved)
        insert(task, task.engine.changes.none())


class Search:
    """The search for other derivations in one stratum."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.engine = task.engine

    def disproved(self, doubtful: Facts) -> Facts:
        """The facts that turn out to have no derivation: doubtful ones, and others that were checked."""
        self.engine.changes.mark(doubtful, set=Flag.CHECKED, clear=Flag.PENDING)
        fresh, waiting = doubtful, self.engine.changes.none()
        checked = []
        while True:
            checked.append(fresh)
            self.saturate(self.proved_at_once(fresh))
            waiting = self.worth_exploring(self.unproved(waiting | fresh))
            if not len(waiting):
                return self.unproved(self.task.united(checked))
            fresh, waiting = self.task.run_support(waiting)

    def unproved(self, facts: Facts) -> Facts:
        """Those that are not proved so far."""
        return self.engine.changes.select(facts, UNPROVED)

    def worth_exploring(self, facts: Facts) -> Facts:
        """Those that may have an instance."""
        return facts

    def proved_at_once(self, fresh: Facts) -> Facts:
        """Those that were delayed, are explicit, or follow from lower facts that are kept."""
        engine = self.engine
        delayed, stated = engine.changes.select(fresh, PROVED), engine.changes.select(fresh, STATED)
        grounded = self.task.run(Step.GROUND, engine.changes.select(fresh, OPEN), FOLLOWS)
        engine.changes.mark(stated | grounded, set=Flag.PROVED, clear=Flag.PENDING)
        return delayed | stated | grounded

    def saturate(self, proved: Facts) -> None:
        """Mark as proved all facts derived from proved facts; those not checked are thereby delayed."""
        engine = self.engine
        while len(proved):
            engine.changes.mark(proved, set=Flag.DELTA)
            found = self.task.run(Step.PROVE, proved, FOLLOWS)
            engine.changes.mark(proved, clear=Flag.DELTA)
            engine.changes.mark(found, set=Flag.PROVED, clear=Flag.PENDING)
            proved = engine.changes.select(found, CHECKED)
