"""Delete and rederive (DRed).

Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993, section 7.

Facts that have lost an instance are deleted, and all facts derived from them; then those that still have an
instance among the remaining facts are inserted again, with all that is derived from them. An explicit fact is
never suspect.

Invariant: after overdeletion every remaining fact has a derivation from remaining facts.
"""

from __future__ import annotations

from tidelog.engine.flags import CounterKind, Effect, Flag, Role, Where
from tidelog.maintenance.step_plans import MaintenanceStep
from tidelog.maintenance.task import UNKNOWN, Task, insert, overdelete

SUSPECT = Effect(Where(Flag.ALIVE | Flag.EXPLICIT | Flag.DELTA | Flag.PENDING, Flag.ALIVE), role=Role.LOSS)
REDERIVED = Effect(UNKNOWN, role=Role.ORIGIN)


class DeleteAndRederive:
    """Needs no counters."""

    name = "dred"
    counters = CounterKind.NONE
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Overdelete, rederive, insert."""
        suspect = task.waiting(task.removed)
        deleted = overdelete(task, suspect | task.lost(SUSPECT), SUSPECT)
        insert(task, task.run(MaintenanceStep.REDERIVE, deleted, REDERIVED))
