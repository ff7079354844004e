"""Insertion: what follows from new facts, semi-naively. The last part of every algorithm.

Invariant: each instance with a new fact is found once, in the round of the last of its facts to come.
"""

from __future__ import annotations

from tidelog.engine.maintaining import Counters, Effect, Facts, Flag, Role
from tidelog.maintenance.step_plans import Step
from tidelog.maintenance.task import UNKNOWN, Task

FOUND = Effect(UNKNOWN, create=True, role=Role.ORIGIN)
COUNTED = Effect(UNKNOWN, create=True, count=1)
NEW = Flag.ALIVE | Flag.DELTA


def insert(task: Task, again: Facts) -> None:
    """Let the facts that are waiting to be true again be so, with those stated and gained, and what follows.

    Where instances are counted, what is gained is counted; where facts have ranks, new ones rank highest.
    """
    engine = task.engine
    effect = FOUND if engine.counters is Counters.NONE else COUNTED
    fresh = again | task.stated()
    fresh |= task.gained(effect)
    if not task.section.shelf[Step.INSERT] and engine.counters is not Counters.RANK:
        engine.mark(fresh, set=Flag.ALIVE, clear=Flag.PENDING)
        return
    while len(fresh):
        engine.mark(fresh, set=NEW, clear=Flag.PENDING)
        if engine.counters is Counters.RANK:
            engine.raise_ranks(fresh)
        found = task.run(Step.INSERT, fresh, effect)
        engine.mark(fresh, clear=Flag.DELTA)
        fresh = found
