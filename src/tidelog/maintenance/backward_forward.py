"""Backward/Forward (B/F): before a fact is deleted, search for another derivation.

Motik, Nenov, Piro, Horrocks: Incremental Update of Datalog Materialisation: the Backward/Forward Algorithm,
AAAI 2015; as in Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, section 3.2, and
here for sets of facts.

Backward: in each round one new instance of each waiting fact is read, and its facts are checked next. Reading
all instances in one round would read a thousand times as many. Forward: a fact that is explicit, or
derived from lower facts that stay true, is proved; a fact derived from proved facts is proved, and if it was
not checked, it is delayed: proved as soon as it is checked.

Invariant: a checked fact is proved, or waits, or each of its instances has only facts that were checked.
"""

from __future__ import annotations

from tidelog.engine.flags import CounterKind, Effect, Flag, Role, Where
from tidelog.engine.protocol import Facts
from tidelog.maintenance.step_plans import MaintenanceStep
from tidelog.maintenance.task import Task, insert, overdelete

KNOWN = Flag.CHECKED | Flag.PROVED  # neither is suspect again: the search has decided it
SUSPECT = Effect(
    Where(KNOWN | Flag.ALIVE | Flag.EXPLICIT | Flag.DELTA | Flag.PENDING, Flag.ALIVE), role=Role.LOSS
)
FOLLOWS = Effect(Where(Flag.ALIVE | Flag.PROVED | Flag.PENDING, Flag.ALIVE), role=Role.PROOF)
PROVED = Where(Flag.PROVED, Flag.PROVED)
UNPROVED = Where(Flag.PROVED, Flag.NONE)
CHECKED = Where(Flag.CHECKED, Flag.CHECKED)
EXPLICIT = Where(Flag.PROVED | Flag.EXPLICIT, Flag.EXPLICIT)
OPEN = Where(Flag.PROVED | Flag.EXPLICIT, Flag.NONE)


class BackwardForward:
    """Needs no counters."""

    name = "backward-forward"
    counters = CounterKind.NONE
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Delete facts without a derivation, then insert."""
        suspect = task.waiting(task.removed) | task.lost(SUSPECT)
        overdelete(task, suspect, SUSPECT, Search(task).unsupported)
        insert(task, task.changes.none())


class Search:
    """The search for other derivations in one stratum."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.changes = task.changes

    def unsupported(self, suspect: Facts) -> Facts:
        """Return the facts without a derivation: suspect ones, and others that were checked."""
        self.changes.mark(suspect, set=Flag.CHECKED, clear=Flag.PENDING)
        new_facts, waiting = suspect, self.changes.none()
        checked = []
        while True:
            checked.append(new_facts)
            self.saturate(self.proved_directly(new_facts))
            waiting = self.with_instances(self.unproved(waiting | new_facts))
            if not len(waiting):
                return self.unproved(self.task.united(checked))
            new_facts, waiting = self.task.run_support(waiting)

    def unproved(self, facts: Facts) -> Facts:
        """Return the facts that are not proved yet."""
        return self.changes.select(facts, UNPROVED)

    def with_instances(self, facts: Facts) -> Facts:
        """Return those that may have an instance."""
        return facts

    def proved_directly(self, facts: Facts) -> Facts:
        """Return the facts that were delayed, are explicit, or follow from lower facts that stay true."""
        changes = self.changes
        delayed, explicit = changes.select(facts, PROVED), changes.select(facts, EXPLICIT)
        grounded = self.task.run(MaintenanceStep.GROUND, changes.select(facts, OPEN), FOLLOWS)
        changes.mark(explicit | grounded, set=Flag.PROVED, clear=Flag.PENDING)
        return delayed | explicit | grounded

    def saturate(self, proved: Facts) -> None:
        """Mark as proved all facts derived from proved facts; those not checked are thereby delayed."""
        changes = self.changes
        while len(proved):
            changes.mark(proved, set=Flag.DELTA)
            derived = self.task.run(MaintenanceStep.PROVE, proved, FOLLOWS)
            changes.mark(proved, clear=Flag.DELTA)
            changes.mark(derived, set=Flag.PROVED, clear=Flag.PENDING)
            proved = changes.select(derived, CHECKED)
