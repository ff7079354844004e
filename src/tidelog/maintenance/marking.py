"""Delete and rederive, and backward/forward, in streams, with marks or links of the update before, where
that pays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tidelog.data.rows import Rows, without
from tidelog.engine.events import Listener, MarkingDecided, MarksUsed
from tidelog.engine.flags import CounterKind, Effect, Flag, MarkConfig, MarkKind, Role, Where
from tidelog.engine.protocol import Engine, Facts
from tidelog.logic.program import Program
from tidelog.maintenance import backward_forward, dred
from tidelog.maintenance.backward_forward import Search
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.maintainer import Check, NetChange, Peek, Update, Waiting, no_stream, none_known
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.special_strata import Names, Rules
from tidelog.maintenance.step_plans import Driven, Step
from tidelog.maintenance.task import UNKNOWN, Algorithm, Section, Task, insert, overdelete

# ---- What is known of an update from the one before: marks that were passed on, or links that were kept.
#
# Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, Algorithm 1; for delete and
# rederive after their Delete/Rederive with Marking for Update Streams, 2025, negative and positive marks.
#
# Literal, as printed: what the next update takes away is marked, and an instance that adds or proves a fact
# passes the mark of a stated body fact (for DRed: of any body fact) on to it. Linked, as their program does
# it: a derived fact shares the mark of a stated fact in the instance that added or proved it, whenever that
# is marked. For this each derived fact is linked to that stated fact: it *leans* on the instance.
#
# Positive marks, of DRed and literal only: a stated fact that goes and comes back with the next update
# returns, and so does what is taken away with it, if all else in the broken instance stays or returns.
#
# Invariant: marks only say which facts are looked at first. Links say more: leaning goes round in no circle,
# since a fact leans on what was true, or proved, before it. So whatever leans on an instance that stands need
# not be doubted, and what never had another instance needs no search when it falls. A fact with a positive
# mark has an instance of facts that are true after the next update.

TRUE = Where(Flag.ALIVE, Flag.ALIVE)
WENT = Where(Flag.BEFORE | Flag.ALIVE, Flag.BEFORE)
NO_ROWS: Mapping[str, Rows] = {}


@dataclass(frozen=True, slots=True)
class Ahead:
    """An update that was looked at before its turn, and what was marked for it."""

    removed: Mapping[str, Rows]
    explicit: int = 0  # stated facts that were marked
    implicit: Mapping[str, Rows] = field(default_factory=dict)  # derived facts that were, literally
    returning: Mapping[str, Rows] = field(default_factory=dict)  # stated facts with positive marks
    returned: Mapping[str, Rows] = field(default_factory=dict)  # derived ones

    def announces(self, update: Update) -> bool:
        """Whether this update is as expected: it was not changed, nor another rejected."""
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
    """What marking asks of a program."""

    engine: Engine
    listen: Listener
    stated: frozenset[str]  # the predicates that no rule derives
    derived: frozenset[str]
    leaning: frozenset[int]  # the strata with facts that lean on stated ones
    recursive: tuple[Section, ...]  # those with facts that follow from facts of the stratum itself
    others: frozenset[str]  # the predicates of the other strata that an algorithm maintains
    passes_all: bool  # whether marks of derived facts are passed on, and positive ones: for DRed


def reading_of(schedule: Schedule, engine: Engine, listen: Listener, passes_all: bool) -> Reading:
    """What marking asks of the program of a schedule."""
    derived = frozenset(schedule.section_of)
    stated = frozenset(schedule.readers) - derived
    maintained = [section for section in schedule.sections if section.is_counted]
    recursive = [section for section in maintained if _reads(section, section.predicates)]
    simple = [section for section in maintained if not _reads(section, section.predicates)]
    return Reading(
        engine,
        listen,
        stated,
        derived,
        frozenset(section.number for section in schedule.sections if _reads(section, stated)),
        tuple(recursive),
        frozenset(name for section in simple for name in section.predicates),
        passes_all,
    )


def _reads(section: Section, predicates: frozenset[str] | tuple[str, ...]) -> bool:
    return any(atom.predicate in predicates for rule in section.before for atom in rule.positive)


class Marks(Protocol):
    """What is known of one update from the one before, and what is found out for the next one."""

    def begin(self, went: Facts) -> None:
        """Keep notes in this transaction, in which these stated facts went."""

    def lost(self, task: Task, effect: Effect) -> Facts:
        """The heads of instances that broke, those that are known already first."""

    def divide(self, task: Task, doubtful: Facts) -> tuple[Facts, Facts]:
        """The doubtful facts that have no other instance, and those that may have one."""

    def see_off(self, gone: Facts) -> None:
        """Note which of the facts, taken away, return."""

    def returned(self, task: Task) -> Facts:
        """The facts that are known to return, from now on waiting for it."""

    def end(self) -> Ahead | None:
        """What is known of the next update."""


class Literal:
    """Marks as printed: passed on when a fact is added or proved, or, if they are positive, taken away."""

    def __init__(self, reading: Reading, ahead: Ahead | None, coming: Update | None) -> None:
        self.reading = reading
        self.engine = reading.engine
        self.ahead = ahead
        self.coming = coming
        self.explicit = self.implicit = self.engine.changes.none()
        self.returning = self.gone = self.engine.changes.none()

    def begin(self, went: Facts) -> None:
        """Mark the facts that the next update takes away, and those that it brings back."""
        engine, reading, ahead = self.engine, self.reading, self.ahead
        passing = reading.stated | reading.derived if reading.passes_all else reading.stated
        staying = reading.stated if reading.passes_all else frozenset()
        engine.marks.configure(MarkConfig(MarkKind.MARKS, passing, reading.stated | reading.derived, staying))
        if ahead is not None:
            reading.listen(MarksUsed(ahead.explicit, 0))
        if self.coming is None:
            return
        self.explicit = self._stated(self.coming.removed, TRUE)
        engine.marks.set_marks(self.explicit, marked=True)
        if reading.passes_all and len(went):
            self.returning = self._stated(self.coming.added, WENT)
            engine.marks.set_returning(self.returning, returning=True)

    def _stated(self, rows: Mapping[str, Rows], where: Where) -> Facts:
        """The facts of predicates that no rule derives, if their flags are as wanted."""
        engine = self.engine
        found = engine.changes.none()
        for name, some in rows.items():
            if name in self.reading.stated:
                found |= engine.changes.select(engine.changes.facts(name, some.columns, some.count, False), where)
        return found

    def lost(self, task: Task, effect: Effect) -> Facts:
        """Those that were marked, then those that plans find."""
        known = self._known(task, NO_ROWS if self.ahead is None else self.ahead.implicit, effect.where)
        if len(known):
            self.reading.listen(MarksUsed(0, len(known)))
        return task.waiting(known) | task.lost(effect)

    def _known(self, task: Task, rows: Mapping[str, Rows], where: Where) -> Facts:
        """The facts of a stratum that were noted, if their flags are as wanted."""
        engine = self.engine
        known = engine.changes.none()
        for name in task.section.predicates:
            if name in rows:
                some = rows[name]
                known |= engine.changes.select(engine.changes.facts(name, some.columns, some.count, False), where)
        return known

    def divide(self, task: Task, doubtful: Facts) -> tuple[Facts, Facts]:
        """Nothing is known of other instances."""
        return self.engine.changes.none(), doubtful

    def collect(self, found: Facts) -> None:
        """Note which of the facts, added or proved, are marked."""
        self.implicit |= self.engine.marks.select_marked(found)

    def see_off(self, gone: Facts) -> None:
        """Note which of the facts, taken away, return."""
        if len(self.returning):
            self.gone |= self.engine.marks.select_returning(gone)

    def returned(self, task: Task) -> Facts:
        """The facts with positive marks: they are added, and no rule need find them."""
        known = self._known(task, NO_ROWS if self.ahead is None else self.ahead.returned, UNKNOWN)
        if len(known):
            self.reading.listen(MarksUsed(0, 0, len(known)))
        return task.waiting(known)

    def end(self) -> Ahead | None:
        """The facts that are marked; their marks are taken off."""
        engine = self.engine
        engine.marks.set_marks(self.explicit | self.implicit, marked=False)
        engine.marks.set_returning(self.returning | self.gone, returning=False)
        if self.coming is None:
            return None
        returned = engine.changes.select(self.gone, WENT)
        sets = (self.implicit, self.returning, returned)
        return Ahead(self.coming.removed, len(self.explicit), *map(self._rows, sets))

    def _rows(self, facts: Facts) -> Mapping[str, Rows]:
        if not len(facts):
            return NO_ROWS
        return {name: Rows(*rows) for name, rows in self.engine.changes.ids(facts).items()}


class Linked:
    """Marks that derived facts share with stated ones: they are found by following links.

    Positive marks are not kept: they need an instance for each fact that goes, and links spare the search
    for it.
    """

    def __init__(
        self,
        reading: Reading,
        ahead: Ahead | None,
        coming: Update | None,
        linked: frozenset[str] | None = None,
    ) -> None:
        self.reading = reading
        self.engine = reading.engine
        self.ahead = ahead
        self.coming = coming
        self.linked = reading.derived if linked is None else linked  # the predicates whose facts are linked

    def begin(self, went: Facts) -> None:
        """Keep links of derived facts in this transaction."""
        self.engine.marks.configure(MarkConfig(MarkKind.LINKS, self.reading.stated, self.linked))
        if self.ahead is not None:
            self.reading.listen(MarksUsed(len(self.engine.changes.of(went, self.reading.stated)), 0))

    def lost(self, task: Task, effect: Effect) -> Facts:
        """Those that lean on stated facts that went; where all links are known, no plan looks for them."""
        engine, section = self.engine, task.section
        if self.ahead is None or section.number not in self.reading.leaning or not self._links(section):
            return task.lost(effect)
        known = engine.marks.linked(task.went, section.predicates, effect)
        if len(known):
            self.reading.listen(MarksUsed(0, len(known)))
        if not engine.marks.is_linked(section.predicates):
            return known | task.lost(effect)
        beside = section.shelf.lost_beside_links(self.reading.stated)
        return (
            known
            | task.run_driven(Step.LOST, beside, task.went, effect)
            | task.run(Step.LOST_UNDER_NEGATION, task.came, effect)
        )

    def _links(self, section: Section) -> bool:
        return section.predicates[0] in self.linked

    def divide(self, task: Task, doubtful: Facts) -> tuple[Facts, Facts]:
        """What was stated and is no longer may have instances; of other facts it is noted."""
        if len(task.removed) or not self._links(task.section):
            return self.engine.changes.none(), doubtful
        return self.engine.marks.split_single_support(doubtful)

    def see_off(self, gone: Facts) -> None:
        """Nothing is noted of it."""

    def returned(self, task: Task) -> Facts:
        """Nothing is known of it."""
        return self.engine.changes.none()

    def end(self) -> Ahead | None:
        """The update itself: links are there anyway."""
        return None if self.coming is None else Ahead(self.coming.removed)


MARKINGS: Mapping[str, Callable[..., Marks]] = {"literal": Literal, "linked": Linked}


# ---- Whether marking is worth while: decided before each update, from sizes and from what went lately.
#
# Links cost something for each fact that comes, and save plans that would look for facts that fall. What was
# measured (docs/algorithms/marking.md) says where they save more than they cost:
#
# - Where no fact follows from facts of its own stratum, nearly every fact that falls leans on what went, and
#   has no other instance: backward/forward need not look for one. Delete and rederive saves one plan thereby,
#   which is what links cost.
# - Delete and rederive in a recursive stratum takes away less, in more rounds: good where there are many
# facts,
#   and where most of the stated ones stay.
# - Backward/forward in a recursive stratum would search from fewer facts, which takes more rounds than from
#   many that prove each other: never good.
# - Where nothing has been taken away for long, links serve nobody.

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
        if large and max(removals) > FEW * sum(map(reading.engine.storage.size, reading.stated)):
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
    return reading.passes_all and sum(map(reading.engine.storage.size, section.predicates)) >= MANY


def removed_facts(update: Update) -> int:
    """How many facts an update takes away."""
    return sum(rows.count for rows in update.removed.values())


# ---- Delete and rederive, and backward/forward, in streams: with marks, where that pays. Mutates itself.
#
# Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, Algorithm 1, here for sets of
# facts, and with line 23 passing over facts that are delayed; the same for DRed. `marks` says what is known
# of an update from the one before, `worth` whether to find that out.
#
# Invariant: with marks or without, the algorithm is the one that was asked for, and the facts are the same.

# ---- the algorithms


class MarkingDeleteAndRederive:
    """DRed that begins with what is known."""

    name = "dred"
    counters = CounterKind.NONE
    is_compiled = False

    def __init__(self, marks: Marks) -> None:
        self.marks = marks

    def maintain(self, task: Task) -> None:
        """Overdelete, rederive, insert."""
        doubtful = task.waiting(task.removed) | self.marks.lost(task, dred.DOUBTED)
        gone = overdelete(task, doubtful, dred.DOUBTED)
        self.marks.see_off(gone)
        _, open = self.marks.divide(task, gone)
        again = task.run(Step.REDERIVE, open, dred.REDERIVED)
        insert(task, again | self.marks.returned(task))


class MarkingBackwardForward:
    """Backward/Forward that begins with what is known."""

    name = "backward-forward"
    counters = CounterKind.NONE
    is_compiled = False

    def __init__(self, marks: Marks) -> None:
        self.marks = marks

    def maintain(self, task: Task) -> None:
        """Take away what is disproved, insert."""
        doubtful = task.waiting(task.removed) | self.marks.lost(task, backward_forward.DOUBTED)
        search = MarkingSearch(task, self.marks)
        overdelete(task, doubtful, backward_forward.DOUBTED, search.disproved)
        insert(task, task.engine.changes.none())


class MarkingSearch(Search):
    """The search for other derivations of facts that may have some."""

    def __init__(self, task: Task, marks: Marks) -> None:
        super().__init__(task)
        self.marks = marks

    def disproved(self, doubtful: Facts) -> Facts:
        """The facts that turn out to have no derivation."""
        sole, open = self.marks.divide(self.task, doubtful)
        if not len(open):
            return sole
        self.engine.changes.mark(sole, set=Flag.CHECKED, clear=Flag.PENDING)
        return sole | super().disproved(open)


MARKED: Mapping[str, Callable[[Marks], Algorithm]] = {
    "backward-forward": MarkingBackwardForward,
    "dred": MarkingDeleteAndRederive,
}


class MarkingTask(Task):
    """A stratum of which marks are collected."""

    collect: Callable[[Facts], None]

    def run_driven(self, step: Step, driven: Driven, given: Facts, effect: Effect) -> Facts:
        """The heads that plans find, of which the marks are looked at."""
        found = super().run_driven(step, driven, given, effect)
        if effect.role in (Role.ORIGIN, Role.PROOF):
            self.collect(found)
        return found


# ---- the maintainer


class MarkingDriver(Driver):
    """A maintainer that looks ahead, if it is to mark. Mutates itself."""

    def __init__(
        self,
        algorithm: Algorithm,
        engine: Engine,
        listen: Listener,
        check: Check,
        modules: bool = True,
    ) -> None:
        super().__init__(algorithm, engine, listen, check, modules)
        self.marking = "none"
        self.decides = True  # for each update whether links are worth while; else they are always kept
        self.peek: Peek = no_stream
        self.waiting: Waiting = none_known
        self._plain = algorithm
        self._marks: Marks | None = None  # of the present update
        self._ahead: Ahead | None = None  # what is known of the next one
        self._read: tuple[Schedule, Reading] | None = None
        self._judge = Judge()

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
        ahead, self._ahead = self._ahead, None
        if not self._may_mark or after.rules is not before.rules:
            return super().apply(update, before, after)
        self._prepare(before)
        announced = ahead if ahead is not None and ahead.announces(update) else None
        marks = self._marks = self._chosen(update, announced)
        if marks is None:
            return super().apply(update, before, after)
        self.algorithm = MARKED[self._plain.name](marks)
        try:
            return super().apply(update, before, after)
        finally:
            self.algorithm, self._marks = self._plain, None

    @property
    def _may_mark(self) -> bool:
        """Whether to mark at all; who was not asked to does so in streams."""
        if self.marking != "auto":
            return self.marking != "none"
        return self.peek is not no_stream

    def _chosen(self, update: Update, announced: Ahead | None) -> Marks | None:
        """How to mark in this update, None if it is not worth while."""
        reading = self._reading()
        if self.marking == "literal" or not self.decides:
            return MARKINGS.get(self.marking, Linked)(reading, announced, self._looked())
        verdict, coming = self._decide(reading, update, self._looked)
        self.listen(MarkingDecided(bool(verdict.linked), verdict.reason))
        return Linked(reading, announced, coming, verdict.linked) if verdict.linked else None

    def _decide(self, reading: Reading, update: Update, peek: Peek) -> tuple[Verdict, Update | None]:
        """What to link in an update, and the next one, if it was worth a look."""
        return self._judge.decide(reading, update, peek)

    def _looked(self) -> Update | None:
        """The next update, if it has come; the first facts are worked in before anything is looked at."""
        return self.peek() if any(map(self.engine.storage.size, self._reading().stated)) else None

    def _carry_out(
        self, update: Update, after: Program, stages: Sequence[Rules], closed: Names
    ) -> tuple[int, int]:
        """How many facts went and came; what is known of the next update is kept."""
        went, came = super()._carry_out(update, after, stages, closed)
        if self._marks is not None:
            self._ahead = self._marks.end()
        return went, came

    def forget(self) -> None:
        """Forget what was known of the next update, too."""
        super().forget()
        self._ahead = self._read = None

    def _reading(self) -> Reading:
        """What marking asks of the program."""
        schedule = self._schedule
        if self._read is None or self._read[0] is not schedule:
            passes_all = self._plain.name == "dred"
            self._read = schedule, reading_of(schedule, self.engine, self.listen, passes_all)
        return self._read[1]

    def _look_ahead(self, went: Facts) -> None:
        """Mark, or let links be kept."""
        if self._marks is not None:
            self._marks.begin(went)

    def _task(self, section: Section, removed: Facts, added: Facts, went: Facts, came: Facts) -> Task:
        if not isinstance(self._marks, Literal):
            return super()._task(section, removed, added, went, came)
        task = MarkingTask(
            self.engine,
            section,
            self.listen,
            self.check,
            removed=removed,
            added=added,
            went=went,
            came=came,
        )
        task.collect = self._marks.collect
        return task
