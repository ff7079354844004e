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

from tidelog.engine.flags import CounterKind, Effect, Flag, Where
from tidelog.engine.protocol import Facts
from tidelog.maintenance.backward_forward import KNOWN, PROVED, Search
from tidelog.maintenance.task import Task, every_one, insert, overdelete

OF_LAST_ROUND = Flag.DELTA | Flag.PENDING
UNFOUNDED = Effect(Where(Flag.ALIVE | OF_LAST_ROUND, Flag.ALIVE), count=-1, unfounded=True)
DOUBTED = Effect(Where(KNOWN | Flag.ALIVE | OF_LAST_ROUND, Flag.ALIVE), count=-1, unfounded=True)


class CountingDeleteAndRederive:
    """DRed^c: needs two counters for each fact."""

    name = "counting"
    counters = CounterKind.CLASS
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Take away what is unfounded, put back what is supported, insert."""
        gone = delete(task)
        insert(task, task.waiting(task.engine.counters.select_supported(gone)))


class CountingBackwardForward:
    """B/F^c: needs two counters for each fact."""

    name = "counting-backward-forward"
    counters = CounterKind.CLASS
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Take away what is disproved, insert; nothing that is gone is supported."""
        delete(task, DOUBTED, CountingSearch(task).disproved)
        insert(task, task.engine.changes.none())


def delete(task: Task, effect: Effect = UNFOUNDED, condemn: Callable[[Facts], Facts] = every_one) -> Facts:
    """The facts taken away: those that lost an instance and have no founded one, and what follows."""
    doubtful = task.waiting(task.engine.counters.select_unfounded(task.removed))
    return overdelete(task, doubtful | task.lost(effect), effect, condemn)


class CountingSearch(Search):
    """The search in which counters tell what is founded, and what has no instance left."""

    def worth_exploring(self, facts: Facts) -> Facts:
        """Those that have an instance: the others are disproved for free."""
        return self.engine.counters.select_supported(facts)

    def proved_at_once(self, fresh: Facts) -> Facts:
        """Those that were delayed or have a founded instance."""
        delayed, others = self.engine.changes.select(fresh, PROVED), self.unproved(fresh)
        founded = self.task.without(others, self.engine.counters.select_unfounded(others))
        self.engine.changes.mark(founded, set=Flag.PROVED)
        return delayed | founded
