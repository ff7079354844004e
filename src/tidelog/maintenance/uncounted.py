"""Updates worked in without counters: each stratum by the algorithm that suits it. Mutates itself.

`auto` uses it in streams while nothing is counted, as long as that is cheaper than to count everything. What
was measured (docs/decisions/0049) says what suits a stratum:

- Delete and rederive: recursion whose facts have few instances each. Most of what it takes away is gone, and
  links make it take away less.
- Backward/forward: all others. Where facts have many instances, one that is left is found at once.

Links are kept in large recursive strata: what leans on something else than what goes need not be doubted. To
begin with them costs something for every fact, so the next update must be there to profit.
"""

from __future__ import annotations

from tidelog.engine.events import Listener
from tidelog.engine.maintaining import Facts, Maintainable
from tidelog.maintenance.algorithms import ALGORITHMS
from tidelog.maintenance.maintainer import Check, Peek, Update
from tidelog.maintenance.marking import MARKED, MarkingDriver
from tidelog.maintenance.marks import Reading
from tidelog.maintenance.prediction import estimated_instances
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.task import Algorithm, Section, Task
from tidelog.maintenance.worth import MANY, NO_RULES, WORTH_WHILE, Verdict, removed_facts

FEW_PROOFS = 4.0  # instances for each fact up to which recursion is deleted and rederived
MANY_PROOFS = 16.0  # from which on most facts lean on something else than what goes

DELETING, SEARCHING = ALGORITHMS["dred"], ALGORITHMS["backward-forward"]

NONE: frozenset[str] = frozenset()
NOTHING_COMES = Verdict(NONE, "no next update has come that links would serve")
NOTHING_GOES = Verdict(NONE, "nothing is taken away in this update or the next")
NO_LARGE_RECURSION = Verdict(NONE, "no large recursive stratum gains by links")


class Uncounted(MarkingDriver):
    """A maintainer that counts nothing, and chooses an algorithm for each stratum."""

    def __init__(self, engine: Maintainable, listen: Listener, check: Check, modules: bool = True) -> None:
        super().__init__(SEARCHING, engine, listen, check, modules)
        self._weighed: tuple[Schedule, dict[int, float]] | None = None  # instances for each fact, by stratum

    def _settle(self, section: Section, task: Task) -> tuple[Facts, Facts]:
        """What went and came in a stratum, maintained by what suits it."""
        former, self.algorithm = self.algorithm, self._suited(section)
        try:
            return super()._settle(section, task)
        finally:
            self.algorithm = former

    def _suited(self, section: Section) -> Algorithm:
        is_sparse = section in self._reading().recursive and self._proofs(section) <= FEW_PROOFS
        plain = DELETING if is_sparse else SEARCHING
        return plain if self._marks is None else MARKED[plain.name](self._marks)

    def _proofs(self, section: Section) -> float:
        """About how many instances each fact of a stratum has."""
        if self._weighed is None or self._weighed[0] is not self._schedule:
            self._weighed = self._schedule, {}
        proofs = self._weighed[1]
        if section.number not in proofs:
            facts = sum(map(self.engine.size, section.predicates))
            instances = sum(estimated_instances(rule, self.engine) for rule in section.before)
            proofs[section.number] = instances / max(facts, 1)
        return proofs[section.number]

    def _decide(self, reading: Reading, update: Update, peek: Peek) -> tuple[Verdict, Update | None]:
        """The strata to be linked in an update, and the next one, if it was worth a look."""
        linked = NONE.union(*(each.predicates for each in reading.recursive if self._gains(each)))
        if not linked:
            return (NO_LARGE_RECURSION if reading.derived else NO_RULES), None
        coming = peek()
        if coming is None:
            return NOTHING_COMES, None
        goes = removed_facts(update) + removed_facts(coming)
        return (Verdict(linked, WORTH_WHILE) if goes else NOTHING_GOES), coming

    def _gains(self, section: Section) -> bool:
        """Whether links are worth while in a recursive stratum."""
        is_large = sum(map(self.engine.size, section.predicates)) >= MANY
        return is_large and not FEW_PROOFS < self._proofs(section) < MANY_PROOFS
