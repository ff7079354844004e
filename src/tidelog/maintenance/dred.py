"""Delete and rederive (DRed), and FP-update, which deletes more and searches less.

Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993, section 7.

Facts that have lost an instance are deleted, and all facts derived from them; then those that still have an
instance among the remaining facts are inserted again, with all that is derived from them. An explicit fact is
never suspect.

Invariant: after overdeletion every remaining fact has a derivation from remaining facts.
"""

from __future__ import annotations

from tidelog.engine.flags import CounterKind, Effect, Flag, Role, Where
from tidelog.engine.protocol import Facts
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


# ---- FP-update
#
# FP-update: facts that depend on removed ones are unsure; the fixpoint continues from the others.
#
# Kotowski, Bry, Brodt: Reasoning as Axioms Change, RR 2011: algorithms 1.2 and 1.3, section 7.1 for strata
# and 7.2 for rules. The unsure facts U are those that some instance among the old facts makes depend on a
# removed fact or rule; K are the others. The new fixpoint is that of the new rules over K. Its first, naive
# step looks for heads in U only: all other heads that K derives are in K already.
#
# Invariant: no fact of K has an instance that is lost, and K is part of the new fixpoint.

DEPENDS = Effect(Where(Flag.BEFORE | Flag.PENDING, Flag.BEFORE))
DERIVED = Effect(UNKNOWN)
EXPLICIT = Where(Flag.EXPLICIT, Flag.EXPLICIT)


class FixpointUpdate:
    """Needs no counters."""

    name = "fp-update"
    counters = CounterKind.NONE
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Find U, and continue the fixpoint from K."""
        unsure = dependents(task)
        insert(task, first_step(task, unsure))


def dependents(task: Task) -> Facts:
    """Return U: the facts that depend on removed facts or rules (algorithm 1.2)."""
    delta = task.waiting(task.removed) | task.lost(DEPENDS)
    rounds = []
    while len(delta):
        rounds.append(delta)
        delta = task.run(MaintenanceStep.DEPENDENTS, delta, DEPENDS)
    return task.united(rounds)


def first_step(task: Task, unsure: Facts) -> Facts:
    """Delete U; return the facts of U that K derives in one step (algorithm 1.3)."""
    task.changes.mark(unsure, clear=Flag.ALIVE | Flag.PENDING)
    task.overdeleted = len(unsure)
    return task.waiting(task.changes.select(unsure, EXPLICIT)) | task.run(
        MaintenanceStep.REDERIVE, unsure, DERIVED
    )
