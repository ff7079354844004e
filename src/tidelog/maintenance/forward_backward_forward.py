"""Forward/Backward/Forward (FBF): the search for other derivations is cut off at a depth.

Motik, Nenov, Piro, Horrocks: Maintenance of Datalog Materialisations Revisited, Artificial Intelligence 269,
2019; over the counters of `counting`. At depth 0 it is DRed^c, without a bound B/F^c.

Suspect facts have depth 0, the facts of an instance that is read one more than its head; at the bound the
search ends. A fact that is met again closer to a suspect one is searched again.

Invariant: facts that are neither proved nor suspect are left alone; a fact that was deleted in spite of an
instance is inserted again by its counters.
"""

from __future__ import annotations

from tidelog.engine.flags import CounterKind, Effect, Flag, Where
from tidelog.engine.protocol import Facts
from tidelog.maintenance.counting import OF_LAST_ROUND, CountingSearch, delete
from tidelog.maintenance.task import Task, insert

DEPTH = 2
# What was checked and not proved may still be suspect: it was met far from the suspect facts.
SUSPECT = Effect(Where(Flag.PROVED | Flag.ALIVE | OF_LAST_ROUND, Flag.ALIVE), count=-1, unfounded=True)


class ForwardBackwardForward:
    """Needs two counters for each fact."""

    name = "forward-backward-forward"
    counters = CounterKind.CLASS
    is_compiled = False

    def __init__(self, depth: int = DEPTH) -> None:
        self.depth = depth

    def maintain(self, task: Task) -> None:
        """Delete what is not proved, insert again what is supported, insert."""
        deleted = delete(task, SUSPECT, BoundedSearch(task, self.depth).unproved_suspects)
        insert(task, task.waiting(task.counters.select_supported(deleted)))


class BoundedSearch(CountingSearch):
    """The search up to a depth; it records how deep each fact was met. Mutable."""

    def __init__(self, task: Task, depth: int) -> None:
        super().__init__(task)
        none = self.changes.none()
        self.depth = depth
        self.met = [none] * (depth + 1)  # facts that were checked, by depth
        self.waiting = [none] * (depth + 1)  # those of them whose instances are still read

    def unproved_suspects(self, suspect: Facts) -> Facts:
        """Return the suspect facts for which no derivation was found."""
        self.changes.mark(suspect, set=Flag.CHECKED, clear=Flag.PENDING)
        self._enter(suspect, 0)
        while any(map(len, self.waiting)):
            for depth in reversed(range(self.depth)):
                self._look_back(depth)
        return self.unproved(suspect)

    def _enter(self, fresh: Facts, depth: int) -> None:
        """Record facts at this depth instead of a larger one; prove what is derived from them."""
        for deeper in range(depth + 1, self.depth + 1):
            self.met[deeper] = self.task.without(self.met[deeper], fresh)
            self.waiting[deeper] = self.task.without(self.waiting[deeper], fresh)
        self.met[depth] |= fresh
        self.saturate(self.proved_directly(fresh))
        if depth < self.depth:
            self.waiting[depth] |= fresh
        self.waiting = [self.with_instances(self.unproved(facts)) for facts in self.waiting]

    def _look_back(self, depth: int) -> None:
        """Read one instance for each fact that waits at this depth, and check its facts."""
        if not len(self.waiting[depth]):
            return
        deeper = self.changes.none()
        for facts in self.met[depth + 2 :]:
            deeper |= self.unproved(facts)
        self.changes.mark(deeper, clear=Flag.CHECKED)  # met again, they are closer than they were
        fresh, self.waiting[depth] = self.task.run_support(self.waiting[depth])
        self.changes.mark(deeper, set=Flag.CHECKED)
        self._enter(fresh, depth + 1)
