"""Deletion in rounds: doubtful facts are taken away, and what they supported is doubtful next.

Invariant: each instance among facts that were true is lost once, when the first of its facts goes.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.engine.maintaining import Effect, Facts, Flag
from tidelog.maintenance.step_plans import Step
from tidelog.maintenance.task import Task

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
            engine.mark(doomed, clear=Flag.ALIVE | Flag.PENDING)
            rounds.append(doomed)
            break
        engine.mark(doomed, set=Flag.DELTA, clear=Flag.PENDING)
        doubtful = task.run(Step.OVERDELETE, doomed, effect)
        engine.mark(doomed, clear=GONE)
        rounds.append(doomed)
    gone = task.united(rounds)
    task.overdeleted = len(gone)
    return gone
