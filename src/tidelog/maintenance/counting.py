"""Counting: the number of one-step derivations of each fact shows which facts need no search.

Hu, Motik, Horrocks: Optimised Maintenance of Datalog Materialisations, AAAI 2018: DRed^c and B/F^c.
Motik, Nenov, Piro, Horrocks: Maintenance of Datalog Materialisations Revisited, Artificial Intelligence 269,
2019: Forward/Backward/Forward (FBF), over the same counters. Rank-split counting is ours, after these.

Counted are instances of rules that do not read the stratum, and an explicit insertion (`founded`), and of
rules that do (`hidden`). A fact with a founded instance is true even if it loses the others: deletion stops
there. A deleted fact that still has a hidden instance is inserted again without a search.

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
        """Delete unfounded facts, insert those again that are supported, then insert."""
        deleted = delete(task)
        insert(task, task.waiting(task.counters.select_supported(deleted)))


class CountingBackwardForward:
    """B/F^c: needs two counters for each fact."""

    name = "counting-backward-forward"
    counters = CounterKind.CLASS
    is_compiled = False

    def maintain(self, task: Task) -> None:
        """Delete facts without a derivation, then insert; no deleted fact is supported."""
        delete(task, SUSPECT, CountingSearch(task).unsupported)
        insert(task, task.changes.none())


def delete(task: Task, effect: Effect = UNFOUNDED, confirm: Callable[[Facts], Facts] = all_of) -> Facts:
    """Delete facts that lost an instance and have no founded one, and the facts derived from them."""
    suspect = task.waiting(task.counters.select_unfounded(task.removed))
    return overdelete(task, suspect | task.lost(effect), effect, confirm)


class CountingSearch(Search):
    """The search that reads from counters which facts are founded, and which have no instance left."""

    def with_instances(self, facts: Facts) -> Facts:
        """Return those that have an instance: the others have no derivation."""
        return self.task.counters.select_supported(facts)

    def proved_directly(self, facts: Facts) -> Facts:
        """Return the facts that were delayed or have a founded instance."""
        delayed, unproved = self.changes.select(facts, PROVED), self.unproved(facts)
        founded = self.task.without(unproved, self.task.counters.select_unfounded(unproved))
        self.changes.mark(founded, set=Flag.PROVED)
        return delayed | founded


# ---- rank-split counting
#
# Counts of instances, split by whether they are a proof.
#
# Each fact has a rank, the round in which it became true. Its instances whose own facts all rank below it,
# and those of rules that do not read the stratum, are *founded*; the others are *hidden*. A fact with a
# founded instance has a proof, so only those without are deleted. A deleted fact loses its rank: one that
# still has an instance is inserted again with the highest rank, under which all its instances are founded.
#
# Invariant: every fact that is true has a founded instance or is explicit, and the own facts of its founded
# instances rank below it; `founded` and `hidden` are the numbers of instances of either kind.


class RankCounting:
    """Needs counters and ranks; reads few instances, and never backwards."""

    name = "rank-counting"
    counters = CounterKind.RANK

    def __init__(self, is_compiled: bool = True) -> None:
        self.is_compiled = is_compiled

    def maintain(self, task: Task) -> None:
        """Delete what is unfounded, insert again what is supported, insert."""
        deleted = delete(task)
        insert(task, task.waiting(task.counters.select_supported(deleted)))


# ---- FBF: the search for other derivations is cut off at a depth
#
# At depth 0 it is DRed^c, without a bound B/F^c. Suspect facts have depth 0, the facts of an instance that is
# read one more than its head; at the bound the search ends. A fact that is reached again closer to a suspect
# one is searched again.
#
# Invariant: facts that are neither proved nor suspect are not changed; a fact that was deleted although it
# has an instance is inserted again by its counters.

DEPTH = 2
# Facts that were checked and not proved may still be suspect: they were reached far from the suspect facts.
SUSPECT = Effect(Where(Flag.PROVED | Flag.ALIVE | OF_LAST_ROUND, Flag.ALIVE), count=-1, unfounded=True)


class ForwardBackwardForward:
    """Needs two counters for each fact."""

    name = "forward-backward-forward"
    counters = CounterKind.CLASS
    is_compiled = False

    def __init__(self, depth: int = DEPTH) -> None:
        self.depth = depth

    def maintain(self, task: Task) -> None:
        """Delete facts that are not proved, insert those again that are supported, then insert."""
        deleted = delete(task, SUSPECT, BoundedSearch(task, self.depth).unproved_suspects)
        insert(task, task.waiting(task.counters.select_supported(deleted)))


class BoundedSearch(CountingSearch):
    """The search up to a depth; it records how deep each fact was met. Mutable."""

    def __init__(self, task: Task, depth: int) -> None:
        super().__init__(task)
        none = self.changes.none()
        self.depth = depth
        self.reached = [none] * (depth + 1)  # facts that were checked, by depth
        self.waiting = [none] * (depth + 1)  # those whose instances are still read

    def unproved_suspects(self, suspect: Facts) -> Facts:
        """Return the suspect facts for which no derivation was found."""
        self.changes.mark(suspect, set=Flag.CHECKED, clear=Flag.PENDING)
        self._enter(suspect, 0)
        while any(map(len, self.waiting)):
            for depth in reversed(range(self.depth)):
                self._check_bodies(depth)
        return self.unproved(suspect)

    def _enter(self, fresh: Facts, depth: int) -> None:
        """Record facts at this depth instead of a larger one; prove what is derived from them."""
        for deeper in range(depth + 1, self.depth + 1):
            self.reached[deeper] = self.task.without(self.reached[deeper], fresh)
            self.waiting[deeper] = self.task.without(self.waiting[deeper], fresh)
        self.reached[depth] |= fresh
        self.saturate(self.proved_directly(fresh))
        if depth < self.depth:
            self.waiting[depth] |= fresh
        self.waiting = [self.with_instances(self.unproved(facts)) for facts in self.waiting]

    def _check_bodies(self, depth: int) -> None:
        """Read one instance of each fact that waits at this depth, and check its body facts."""
        if not len(self.waiting[depth]):
            return
        deeper = self.changes.none()
        for facts in self.reached[depth + 2 :]:
            deeper |= self.unproved(facts)
        self.changes.mark(deeper, clear=Flag.CHECKED)  # reached again, they are at a smaller depth
        fresh, self.waiting[depth] = self.task.run_support(self.waiting[depth])
        self.changes.mark(deeper, set=Flag.CHECKED)
        self._enter(fresh, depth + 1)
