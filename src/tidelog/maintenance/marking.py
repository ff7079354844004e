"""Marking for update streams: records that one update keeps for the next, and when they pay off. Mutable.

Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, Algorithm 1, here for sets of facts,
and with line 23 skipping facts that are delayed; for delete and rederive after their Delete/Rederive with
Marking for Update Streams, 2025, negative and positive marks.

Literal, as published: what the next update deletes is marked, and an instance that derives or proves a fact
passes the mark of an explicit body fact (for DRed: of any body fact) on to it. Linked, as their program does
it: a derived fact shares the mark of an explicit fact in the instance that derived or proved it, whenever
that is marked. For this each derived fact is linked to that explicit fact, which *supports* it.

Positive marks, of DRed and literal only: an explicit fact that is deleted and inserted again by the next
update returns, and so do facts deleted with it if the other facts of the broken instance stay or return.

Invariant: marks only determine which facts are read first. Links determine more: support has no cycles, since
a fact is supported by facts that were true, or proved, before it. So a fact supported by an instance that is
still whole need not be suspected, and one that never had another instance needs no search when it is deleted.
A fact with a positive mark has an instance of facts that are true after the next update. With marks or
without, the algorithm is the one that was requested, and the facts are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Protocol

import numpy as np

from tidelog.data.rows import Rows, without
from tidelog.engine.events import Listener, MarkingDecided, MarksUsed
from tidelog.engine.flags import CounterKind, Effect, Flag, MarkConfig, MarkKind, Where
from tidelog.engine.protocol import EngineParts, FactChanges, Facts, Marks
from tidelog.maintenance import backward_forward, dred
from tidelog.maintenance.backward_forward import Search
from tidelog.maintenance.driver import Tactics
from tidelog.maintenance.maintainer import LookAhead, Peek, Update, no_stream
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.step_plans import MaintenanceStep
from tidelog.maintenance.task import UNKNOWN, Algorithm, ScheduledStratum, Task, insert, overdelete
from tidelog.records import dataclass

# ---- marks on the facts of the next update

TRUE = Where(Flag.ALIVE, Flag.ALIVE)
DELETED = Where(Flag.BEFORE | Flag.ALIVE, Flag.BEFORE)
NO_ROWS: Mapping[str, Rows] = {}


@dataclass(frozen=True, slots=True)
class Ahead:
    """An update that was read ahead, and the facts marked for it."""

    removed: Mapping[str, Rows]
    explicit: int = 0  # explicit facts that were marked
    implicit: Mapping[str, Rows] = field(default_factory=dict)  # derived facts that were
    returning: Mapping[str, Rows] = field(default_factory=dict)  # explicit facts with positive marks
    returned: Mapping[str, Rows] = field(default_factory=dict)  # derived ones

    def matches(self, update: Update) -> bool:
        """Return whether this is that update: it was not changed, nor another rejected."""
        return (
            update.removed.keys() == self.removed.keys()
            and all(_are_same(rows, self.removed[name]) for name, rows in update.removed.items())
            and all(_are_among(rows, update.added.get(name)) for name, rows in self.returning.items())
        )


def _are_same(rows: Rows, others: Rows) -> bool:
    return rows is others or (
        rows.count == others.count and all(map(np.array_equal, rows.columns, others.columns))
    )


def _are_among(rows: Rows, others: Rows | None) -> bool:
    return others is not None and without(rows, others).count == 0


@dataclass(frozen=True, slots=True)
class Reading:
    """The data on a program and engine that marking needs."""

    changes: FactChanges
    marks: Marks
    sizes: Callable[[str], int]
    listen: Listener
    explicit: frozenset[str]  # the predicates that no rule derives
    derived: frozenset[str]
    supported: frozenset[int]  # the strata with facts that explicit ones support
    recursive: tuple[ScheduledStratum, ...]  # those with rules that read the stratum itself
    others: frozenset[str]  # the predicates of the other strata that an algorithm maintains
    passes_all: bool


def reading_of(schedule: Schedule, engine: EngineParts, listen: Listener, passes_all: bool) -> Reading:
    """Return the data that marking needs for the program of a schedule."""
    if engine.marks is None:
        raise TypeError(f"the engine {engine.name} does not support marks")
    derived = frozenset(schedule.section_of)
    explicit = frozenset(schedule.readers) - derived
    maintained = [section for section in schedule.sections if section.is_counted]
    recursive = [section for section in maintained if _reads(section, section.predicates)]
    simple = [section for section in maintained if not _reads(section, section.predicates)]
    return Reading(
        engine.changes,
        engine.marks,
        engine.storage.size,
        listen,
        explicit,
        derived,
        frozenset(section.number for section in schedule.sections if _reads(section, explicit)),
        tuple(recursive),
        frozenset(name for section in simple for name in section.predicates),
        passes_all,
    )


def _reads(section: ScheduledStratum, predicates: frozenset[str] | tuple[str, ...]) -> bool:
    return any(atom.predicate in predicates for rule in section.before for atom in rule.positive)


class UpdateMarks(Protocol):
    """The marks that an update uses, recorded by the previous one, and those that it records for the next."""

    def begin(self, deleted: Facts) -> None:
        """Record marks or links in this transaction, which has deleted these explicit facts."""

    def lost(self, task: Task, effect: Effect) -> Facts:
        """Return the heads of instances that broke, beginning with those that are known from marks."""

    def divide(self, task: Task, suspect: Facts) -> tuple[Facts, Facts]:
        """Return the suspect facts that have no other instance, and those that may have one."""

    def on_deleted(self, deleted: Facts) -> None:
        """Record which of these derived facts return."""

    def returned(self, task: Task) -> Facts:
        """Return the facts that are known to return, from now on waiting for it."""

    def end(self) -> Ahead | None:
        """Return the marks recorded for the next update."""


class Literal:
    """Marks as published: passed on when a fact is derived or proved, or, if they are positive, deleted."""

    def __init__(self, reading: Reading, ahead: Ahead | None, coming: Update | None) -> None:
        self.reading = reading
        self.changes = reading.changes
        self.marks = reading.marks
        self.ahead = ahead
        self.coming = coming
        self.explicit = self.implicit = self.changes.none()
        self.returning = self.deleted = self.changes.none()

    def begin(self, deleted: Facts) -> None:
        """Mark the facts that the next update deletes, and those that it inserts again."""
        reading, ahead = self.reading, self.ahead
        heads = reading.explicit | reading.derived
        passing = heads if reading.passes_all else reading.explicit
        staying = reading.explicit if reading.passes_all else frozenset()
        self.marks.configure(MarkConfig(MarkKind.MARKS, passing, heads, staying))
        if ahead is not None:
            reading.listen(MarksUsed(ahead.explicit, 0))
        if self.coming is None:
            return
        self.explicit = self._select(self.coming.removed, reading.explicit, TRUE)
        self.marks.set_marks(self.explicit, marked=True)
        if reading.passes_all and len(deleted):
            self.returning = self._select(self.coming.added, reading.explicit, DELETED)
            self.marks.set_returning(self.returning, returning=True)

    def _select(self, rows: Mapping[str, Rows], names: Collection[str], where: Where) -> Facts:
        """Return the facts of these predicates whose flags are as required."""
        changes = self.changes
        selected = changes.none()
        for name, each in rows.items():
            if name in names:
                selected |= changes.select(changes.facts(name, each.columns, each.count, False), where)
        return selected

    def lost(self, task: Task, effect: Effect) -> Facts:
        """Return marked facts, then those that plans find."""
        rows = NO_ROWS if self.ahead is None else self.ahead.implicit
        marked = self._select(rows, task.section.predicates, effect.where)
        if len(marked):
            self.reading.listen(MarksUsed(0, len(marked)))
        return task.waiting(marked) | task.lost(effect)

    def divide(self, task: Task, suspect: Facts) -> tuple[Facts, Facts]:
        """Return all facts as those that may have other instances: none is known."""
        return self.changes.none(), suspect

    def collect(self, facts: Facts) -> None:
        """Record which of the facts, derived or proved, are marked."""
        self.implicit |= self.marks.select_marked(facts)

    def on_deleted(self, deleted: Facts) -> None:
        """Record which of these derived facts return."""
        if len(self.returning):
            self.deleted |= self.marks.select_returning(deleted)

    def returned(self, task: Task) -> Facts:
        """Return the facts with positive marks, which are inserted without running plans."""
        rows = NO_ROWS if self.ahead is None else self.ahead.returned
        returning = self._select(rows, task.section.predicates, UNKNOWN)
        if len(returning):
            self.reading.listen(MarksUsed(0, 0, len(returning)))
        return task.waiting(returning)

    def end(self) -> Ahead | None:
        """Return the facts that are marked, and clear their marks."""
        self.marks.set_marks(self.explicit | self.implicit, marked=False)
        self.marks.set_returning(self.returning | self.deleted, returning=False)
        if self.coming is None:
            return None
        returned = self.changes.select(self.deleted, DELETED)
        sets = (self.implicit, self.returning, returned)
        return Ahead(self.coming.removed, len(self.explicit), *map(self._rows, sets))

    def _rows(self, facts: Facts) -> Mapping[str, Rows]:
        if not len(facts):
            return NO_ROWS
        return {name: Rows(*rows) for name, rows in self.changes.ids(facts).items()}


class Linked:
    """Marks that derived facts share with explicit ones: they are found by following links.

    Positive marks are not recorded: they need an instance for each fact that is deleted, and links spare the
    search for it.
    """

    def __init__(
        self,
        reading: Reading,
        ahead: Ahead | None,
        coming: Update | None,
        linked: frozenset[str] | None = None,
    ) -> None:
        self.reading = reading
        self.marks = reading.marks
        self.ahead = ahead
        self.coming = coming
        self.linked = reading.derived if linked is None else linked  # the predicates whose facts are linked

    def begin(self, deleted: Facts) -> None:
        """Record links of derived facts in this transaction."""
        reading = self.reading
        self.marks.configure(MarkConfig(MarkKind.LINKS, reading.explicit, self.linked))
        if self.ahead is not None:
            reading.listen(MarksUsed(len(reading.changes.of(deleted, reading.explicit)), 0))

    def lost(self, task: Task, effect: Effect) -> Facts:
        """Return the facts that deleted explicit facts support; if all links are known, run no plans."""
        section = task.section
        if self.ahead is None or section.number not in self.reading.supported or not self._links(section):
            return task.lost(effect)
        supported = self.marks.linked(task.deleted, section.predicates, effect)
        if len(supported):
            self.reading.listen(MarksUsed(0, len(supported)))
        if not self.marks.is_linked(section.predicates):
            return supported | task.lost(effect)
        other_plans = section.plans.lost_without_links(self.reading.explicit)
        return (
            supported
            | task.run_driven(MaintenanceStep.LOST, other_plans, task.deleted, effect)
            | task.run(MaintenanceStep.LOST_UNDER_NEGATION, task.inserted, effect)
        )

    def _links(self, section: ScheduledStratum) -> bool:
        return section.predicates[0] in self.linked

    def divide(self, task: Task, suspect: Facts) -> tuple[Facts, Facts]:
        """Return the facts with a single support, and the others.

        A fact that was explicit and no longer is may have instances that were not recorded.
        """
        if len(task.removed) or not self._links(task.section):
            return self.reading.changes.none(), suspect
        return self.marks.split_single_support(suspect)

    def on_deleted(self, deleted: Facts) -> None:
        """Record nothing: links do not show which facts return."""

    def returned(self, task: Task) -> Facts:
        """Return no facts: links do not show which facts return."""
        return self.reading.changes.none()

    def end(self) -> Ahead | None:
        """Return the update itself: links exist anyway."""
        return None if self.coming is None else Ahead(self.coming.removed)


MARKINGS: Mapping[str, Callable[..., UpdateMarks]] = {"literal": Literal, "linked": Linked}


# ---- whether links are worth their cost
#
# Links cost something for each fact that is inserted, and save plans that would find the facts to delete.
# According to measurements (docs/algorithms/marking.md), they save more than they cost as follows:
#
# - In strata without recursion, nearly every deleted fact is supported by deleted facts
#   and has no other instance: backward/forward need not search for one. Delete and rederive
#   saves one plan thereby, which is what links cost.
# - Delete and rederive in a recursive stratum deletes less, in more rounds: good where there are many facts,
#   and where most of the explicit ones stay.
# - Backward/forward in a recursive stratum would search from fewer facts, which takes more rounds than from
#   many that prove each other: never good.
# - After many updates without deletions, links are of no use.

MANY = 1024  # facts of a recursive stratum from which fewer facts are worth more rounds
FEW = 0.25  # of the explicit facts: the part that may be deleted in this update or the next
LONG = 16  # updates without deletions after which no facts are linked

WORTH_WHILE = "links replace the search for facts to delete"


@dataclass(frozen=True, slots=True)
class Decision:
    """The predicates whose facts are linked in an update, none if it is not marked, and why."""

    linked: frozenset[str]
    reason: str


NONE: frozenset[str] = frozenset()
NOTHING_FALLS = Decision(NONE, "nothing has been deleted for long")
NEVER_SHORTER = Decision(NONE, "backward/forward from fewer facts takes no fewer rounds in recursive strata")
TOO_SMALL = Decision(NONE, f"no recursive stratum has {MANY:,} facts: delete and rederive has little to save")
MOST_FALLS = Decision(NONE, "too many explicit facts are deleted in one update")
NO_RULES = Decision(NONE, "the program has no rules")


class MarkingAdvisor:
    """Decides whether links are worth their cost for one algorithm, from recent deletions. Mutable."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.passes_all = algorithm.name == "dred"
        self._without_removals = 0  # updates since the last with deletions

    def algorithm_of(self, section: ScheduledStratum, reading: Reading) -> Algorithm:
        """Return the one algorithm."""
        return self.algorithm

    def decide(self, reading: Reading, update: Update, peek: Peek) -> tuple[Decision, Update | None]:
        """Return the facts to link in an update, and the next update if it was read."""
        large = [section for section in reading.recursive if _is_large(section, reading)]
        if not large and (reading.passes_all or not reading.others):
            return self._not_possible(reading), None
        coming = peek()
        removals = removed_facts(update), 0 if coming is None else removed_facts(coming)
        self._without_removals = 0 if any(removals) else self._without_removals + 1
        if self._without_removals > LONG:
            return NOTHING_FALLS, coming
        if large and max(removals) > FEW * sum(map(reading.sizes, reading.explicit)):
            large = []
        linked = reading.others.union(*(section.predicates for section in large)) if large else reading.others
        return (Decision(linked, WORTH_WHILE) if linked else MOST_FALLS), coming

    def _not_possible(self, reading: Reading) -> Decision:
        """Return why no facts are linked, independent of the next update."""
        if not reading.passes_all:
            return NEVER_SHORTER if reading.recursive else NO_RULES
        return TOO_SMALL


def _is_large(section: ScheduledStratum, reading: Reading) -> bool:
    """Return whether fewer facts are worth more rounds in a recursive stratum."""
    return reading.passes_all and sum(map(reading.sizes, section.predicates)) >= MANY


def removed_facts(update: Update) -> int:
    """Return how many explicit facts an update deletes."""
    return sum(rows.count for rows in update.removed.values())


# ---- the algorithms, with marks


class MarkingDeleteAndRederive:
    """DRed that begins with marked facts."""

    name = "dred"
    counters = CounterKind.NONE
    is_compiled = False

    def __init__(self, marks: UpdateMarks) -> None:
        self.marks = marks

    def maintain(self, task: Task) -> None:
        """Overdelete, rederive, insert."""
        suspect = task.waiting(task.removed) | self.marks.lost(task, dred.SUSPECT)
        deleted = overdelete(task, suspect, dred.SUSPECT)
        self.marks.on_deleted(deleted)
        _, open = self.marks.divide(task, deleted)
        rederived = task.run(MaintenanceStep.REDERIVE, open, dred.REDERIVED)
        insert(task, rederived | self.marks.returned(task))


class MarkingBackwardForward:
    """Backward/Forward that begins with marked facts."""

    name = "backward-forward"
    counters = CounterKind.NONE
    is_compiled = False

    def __init__(self, marks: UpdateMarks) -> None:
        self.marks = marks

    def maintain(self, task: Task) -> None:
        """Delete facts without a derivation, then insert."""
        suspect = task.waiting(task.removed) | self.marks.lost(task, backward_forward.SUSPECT)
        overdelete(task, suspect, backward_forward.SUSPECT, lambda facts: self._unsupported(task, facts))
        insert(task, task.changes.none())

    def _unsupported(self, task: Task, suspect: Facts) -> Facts:
        """Return the facts that have no derivation; only those with other instances are searched for one."""
        single, open = self.marks.divide(task, suspect)
        if not len(open):
            return single
        task.changes.mark(single, set=Flag.CHECKED, clear=Flag.PENDING)
        return single | Search(task).unsupported(open)


MARKED: Mapping[str, Callable[[UpdateMarks], Algorithm]] = {
    "backward-forward": MarkingBackwardForward,
    "dred": MarkingDeleteAndRederive,
}


# ---- the tactics of a driver


class Advisor(Protocol):
    """Decides whether links are worth their cost, and names the algorithm for each stratum."""

    passes_all: bool  # whether marks of derived facts are passed on, and positive ones: for DRed

    def decide(self, reading: Reading, update: Update, peek: Peek) -> tuple[Decision, Update | None]:
        """Return the facts to link in an update, and the next update if it was read."""

    def algorithm_of(self, section: ScheduledStratum, reading: Reading) -> Algorithm:
        """Return the algorithm for a stratum, without marks."""


class Marking(Tactics):
    """The tactics that mark in streams, where that pays. Mutable."""

    def __init__(
        self,
        algorithm: Algorithm,
        engine: EngineParts,
        listen: Listener,
        advisor: Advisor | None = None,
        lookahead: LookAhead | None = None,
    ) -> None:
        super().__init__(algorithm)
        self.lookahead: LookAhead = lookahead or LookAhead()
        self._engine = engine
        self._listen = listen
        self._advisor = advisor or MarkingAdvisor(algorithm)
        self._marks: UpdateMarks | None = None  # those of the present update
        self._ahead: Ahead | None = None  # the marks recorded for the next update
        self._schedule: Schedule | None = None  # the one that `_reading` belongs to
        self._reading: Reading | None = None

    def begin(self, update: Update, schedule: Schedule | None) -> None:
        """Choose how to mark in an update."""
        ahead, self._ahead, self._marks = self._ahead, None, None
        if schedule is not None:
            reading = self._read(schedule)
            if self._may_mark:
                announced = ahead if ahead is not None and ahead.matches(update) else None
                self._marks = self._chosen(reading, update, announced)

    @property
    def _may_mark(self) -> bool:
        """Whether to mark at all; by default only in streams."""
        lookahead = self.lookahead
        if lookahead.marking != "auto":
            return lookahead.marking != "none"
        return lookahead.peek is not no_stream

    def _chosen(self, reading: Reading, update: Update, announced: Ahead | None) -> UpdateMarks | None:
        """Return the marking for this update, None if it does not pay off."""

        def peek() -> Update | None:
            """Return the next update if it has arrived; the first facts are applied without it."""
            return self.lookahead.peek() if any(map(reading.sizes, reading.explicit)) else None

        marking = self.lookahead.marking
        if marking == "literal" or not self.lookahead.decides:
            return MARKINGS.get(marking, Linked)(reading, announced, peek())
        decision, coming = self._advisor.decide(reading, update, peek)
        self._listen(MarkingDecided(bool(decision.linked), decision.reason))
        return Linked(reading, announced, coming, decision.linked) if decision.linked else None

    def _read(self, schedule: Schedule) -> Reading:
        """Return the data that marking needs for the program of a schedule."""
        if self._reading is None or self._schedule is not schedule:
            self._schedule = schedule
            self._reading = reading_of(schedule, self._engine, self._listen, self._advisor.passes_all)
        return self._reading

    def on_explicit_deleted(self, deleted: Facts) -> None:
        """Mark the facts that the next update deletes, or begin to record links."""
        if self._marks is not None:
            self._marks.begin(deleted)

    def algorithm_of(self, section: ScheduledStratum) -> Algorithm:
        """Return the algorithm for a stratum, one that uses marks if there are any."""
        plain = (
            self.algorithm if self._reading is None else self._advisor.algorithm_of(section, self._reading)
        )
        return plain if self._marks is None else MARKED[plain.name](self._marks)

    @property
    def on_found(self) -> Callable[[Facts], None] | None:
        """The function that collects the marks of facts that plans derive or prove, if marks are literal."""
        return self._marks.collect if isinstance(self._marks, Literal) else None

    def before_commit(self) -> None:
        """Keep the marks recorded for the next update."""
        if self._marks is not None:
            self._ahead = self._marks.end()

    def end(self) -> None:
        """Forget the marks of this update."""
        self._marks = None

    def forget(self) -> None:
        """Discard data recorded for the next update and about the program."""
        self._ahead = self._reading = self._schedule = None
