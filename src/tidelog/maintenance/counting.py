"""Counting: the number of one-step derivations of each fact shows which facts need no search.

Hu, Motik, Horrocks: Optimised Maintenance of Datalog Materialisations, AAAI 2018: DRed^c and B/F^c.

Counted are instances of rules that do not read the stratum, and an explicit insertion (`founded`), and of
rules that do (`hidden`). A fact with a founded instance is true whatever becomes of the others: deletion
stops there. One that was deleted and has a hidden instance left is inserted again without a search.

Invariant: the counters are the numbers of instances among the facts that are true, lower ones as they were
for what is lost and as they are for what is gained.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.engine.flags import CounterKind, Effect, Flag, Where
from tidelog.engine.protocol import Facts
from tidelog.maintenance.backward_forward import KNOWN, PROVED, Search
from tidelog.maintenance.task import Task, all_of, insert, overdelete

OF_LAST_ROUND = Flag.DELTA | Flag.PENDING
UNFOUNDED = Effect(Where(Flag.ALIVE | OF_LAST_ROUND, Flag.ALIVE), count=-1, unfounded=True)
SUSPECT = Effect(Where(KNOWN | Flag.ALIVE | OF_LAST_ROUND, Flag.ALIVE), count=-1, unfounded=True)


class CountingDeleteAndRederive:
    """DRed^c: needs two counters for each fact."""

    name = "counting"
    counters = CounterKind.CLASS
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Delete what is unfounded, insert again what is supported, insert."""
        deleted = delete(task)
        insert(task, task.waiting(task.counters.select_supported(deleted)))


class CountingBackwardForward:
    """B/F^c: needs two counters for each fact."""

    name = "counting-backward-forward"
    counters = CounterKind.CLASS
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Delete what has no derivation, insert; nothing that is deleted is supported."""
        delete(task, SUSPECT, CountingSearch(task).unsupported)
        insert(task, task.changes.none())


def delete(task: Task, effect: Effect = UNFOUNDED, confirm: Callable[[Facts], Facts] = all_of) -> Facts:
    """Delete facts that lost an instance and have no founded one, and what is derived from them."""
    suspect = task.waiting(task.counters.select_unfounded(task.removed))
    return overdelete(task, suspect | task.lost(effect), effect, confirm)


class CountingSearch(Search):
    """The search that reads from counters which facts are founded, and which have no instance left."""

    def with_instances(self, facts: Facts) -> Facts:
        """Return those that have an instance: the others have no derivation."""
        return self.task.counters.select_supported(facts)

    def proved_directly(self, fresh: Facts) -> Facts:
        """Return those that were delayed or have a founded instance."""
        delayed, others = self.changes.select(fresh, PROVED), self.unproved(fresh)
        founded = self.task.without(others, self.task.counters.select_unfounded(others))
        self.changes.mark(founded, set=Flag.PROVED)
        return delayed | founded
