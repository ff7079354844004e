"""Whether marking is worth while: decided before each update, from sizes and from what went lately.

Links cost something for each fact that comes, and save plans that would look for facts that fall. What was
measured (docs/algorithms/marking.md) says where they save more than they cost:

- Where no fact follows from facts of its own stratum, nearly every fact that falls leans on what went, and
  has no other instance: backward/forward need not look for one. Delete and rederive saves one plan thereby,
  which is what links cost.
- Delete and rederive in a recursive stratum takes away less, in more rounds: good where there are many facts,
  and where most of the stated ones stay.
- Backward/forward in a recursive stratum would search from fewer facts, which takes more rounds than from
  many that prove each other: never good.
- Where nothing has been taken away for long, links serve nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.maintenance.maintainer import Peek, Update
from tidelog.maintenance.marks import Reading
from tidelog.maintenance.task import Section

MANY = 1024  # facts of a recursive stratum from which on fewer facts are worth more rounds
FEW = 0.25  # of the stated facts: so many may go in this update or the next
LONG = 16  # updates without removals after which nothing is linked any more

WORTH_WHILE = "links spare the search for what falls"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The predicates whose facts are linked in an update, none if it is not marked, and why."""

    linked: frozenset[str]
    reason: str


NONE: frozenset[str] = frozenset()
NOTHING_FALLS = Verdict(NONE, "nothing has been taken away for long")
NEVER_SHORTER = Verdict(NONE, "backward/forward from fewer facts takes no fewer rounds in recursive strata")
TOO_SMALL = Verdict(NONE, f"no recursive stratum has {MANY:,} facts: delete and rederive has little to spare")
MOST_FALLS = Verdict(NONE, "too many of the stated facts go at once")
NO_RULES = Verdict(NONE, "there are no rules")


@dataclass(slots=True)
class Judge:
    """Decides, and remembers what was taken away. Mutates itself."""

    without_removals: int = 0

    def decide(self, reading: Reading, update: Update, peek: Peek) -> tuple[Verdict, Update | None]:
        """What to link in an update, and the next one, if it has come and was worth a look."""
        large = [section for section in reading.recursive if _is_large(section, reading)]
        if not large and (reading.passes_all or not reading.others):
            return self._not_possible(reading), None
        coming = peek()
        removals = removed_facts(update), 0 if coming is None else removed_facts(coming)
        self.without_removals = 0 if any(removals) else self.without_removals + 1
        if self.without_removals > LONG:
            return NOTHING_FALLS, coming
        if large and max(removals) > FEW * sum(map(reading.engine.size, reading.stated)):
            large = []
        linked = reading.others.union(*(section.predicates for section in large)) if large else reading.others
        return (Verdict(linked, WORTH_WHILE) if linked else MOST_FALLS), coming

    def _not_possible(self, reading: Reading) -> Verdict:
        """Why nothing is linked, whatever comes next."""
        if not reading.passes_all:
            return NEVER_SHORTER if reading.recursive else NO_RULES
        return TOO_SMALL


def _is_large(section: Section, reading: Reading) -> bool:
    """Whether fewer facts are worth more rounds in a recursive stratum."""
    return reading.passes_all and sum(map(reading.engine.size, section.predicates)) >= MANY


def removed_facts(update: Update) -> int:
    """How many facts an update takes away."""
    return sum(rows.count for rows in update.removed.values())
