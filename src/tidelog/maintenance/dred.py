"""Delete and rederive (DRed).

Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993, section 7.

Whatever has lost an instance is taken away, and all that follows from it; then what still has an instance
among the facts that are left is put back, with all that follows. A fact that is explicit is never doubtful.

Invariant: after overdeletion every fact that is left has a derivation of facts that are left.
"""

from __future__ import annotations

from tidelog.engine.flags import CounterKind, Effect, Flag, Role, Where
from tidelog.maintenance.step_plans import Step
from tidelog.maintenance.task import UNKNOWN, Task, insert, overdelete

DOUBTED = Effect(Where(Flag.ALIVE | Flag.EXPLICIT | Flag.DELTA | Flag.PENDING, Flag.ALIVE), role=Role.LOSS)
REDERIVED = Effect(UNKNOWN, role=Role.ORIGIN)


class DeleteAndRederive:
    """Needs nothing beside the facts."""

    name = "dred"
    counters = CounterKind.NONE
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Overdelete, rederive, insert."""
        doubtful = task.waiting(task.removed)
        gone = overdelete(task, doubtful | task.lost(DOUBTED), DOUBTED)
        insert(task, task.run(Step.REDERIVE, gone, REDERIVED))
