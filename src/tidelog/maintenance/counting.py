"""Counting: the number of one-step derivations of each fact tells what needs no further look.

Hu, Motik, Horrocks: Optimised Maintenance of Datalog Materialisations, AAAI 2018: DRed^c and B/F^c.

Counted are instances of rules that do not read the stratum, and the explicit statement (`founded`), and of
those that do (`hidden`). A fact with a founded instance is true whatever becomes of the others: deletion
stops there. One that was taken away and has a hidden instance left comes back without a search.

Invariant: the counters are the numbers of instances among the facts that are true, lower ones as they were
for what is lost and as they are for what is gained.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.engine.maintaining import Counters, Effect, Facts, Flag, Where
from tidelog.maintenance.deletion import every_one, overdelete
from tidelog.maintenance.insertion import insert
from tidelog.maintenance.task import Task

UNFOUNDED = Effect(Where(Flag.ALIVE | Flag.DELTA | Flag.PENDING, Flag.ALIVE), count=-1, unfounded=True)


class CountingDeleteAndRederive:
    """DRed^c: needs two counters for each fact."""

    name = "counting"
    counters = Counters.CLASS

    def maintain(self, task: Task) -> None:
        """Take away what is unfounded, put back what is supported, insert."""
        gone = delete(task)
        insert(task, task.waiting(task.engine.select_supported(gone)))


def delete(task: Task, effect: Effect = UNFOUNDED, condemn: Callable[[Facts], Facts] = every_one) -> Facts:
    """The facts taken away: those that lost an instance and have no founded one, and what follows."""
    doubtful = task.waiting(task.engine.select_unfounded(task.removed))
    return overdelete(task, doubtful | task.lost(effect), effect, condemn)
