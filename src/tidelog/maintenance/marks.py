"""What is known of an update from the one before: marks that were passed on, or links that were kept.

Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, Algorithm 1; for delete and rederive
after their Delete/Rederive with Marking for Update Streams, 2025, negative and positive marks.

Literal, as printed: what the next update takes away is marked, and an instance that adds or proves a fact
passes the mark of a stated body fact (for DRed: of any body fact) on to it. Linked, as their program does it:
a derived fact shares the mark of a stated fact in the instance that added or proved it, whenever that is
marked. For this each derived fact is linked to that stated fact: it *leans* on the instance.

Positive marks, of DRed and literal only: a stated fact that goes and comes back with the next update returns,
and so does what is taken away with it, if all else in the broken instance stays or returns.

Invariant: marks only say which facts are looked at first. Links say more: leaning goes round in no circle,
since a fact leans on what was true, or proved, before it. So whatever leans on an instance that stands need
not be doubted, and what never had another instance needs no search when it falls. A fact with a positive
mark has an instance of facts that are true after the next update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tidelog.engine.events import Listener, MarksUsed
from tidelog.engine.maintaining import Effect, Facts, Flag, Maintainable, Notes, Noting, Where
from tidelog.maintenance.maintainer import Update
from tidelog.maintenance.row_sets import Rows, without
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.step_plans import Step
from tidelog.maintenance.task import UNKNOWN, Section, Task

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

    engine: Maintainable
    listen: Listener
    stated: frozenset[str]  # the predicates that no rule derives
    derived: frozenset[str]
    leaning: frozenset[int]  # the strata with facts that lean on stated ones
    recursive: tuple[Section, ...]  # those with facts that follow from facts of the stratum itself
    others: frozenset[str]  # the predicates of the other strata that an algorithm maintains
    passes_all: bool  # whether marks of derived facts are passed on, and positive ones: for DRed


def reading_of(schedule: Schedule, engine: Maintainable, listen: Listener, passes_all: bool) -> Reading:
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
        self.explicit = self.implicit = self.engine.none()
        self.returning = self.gone = self.engine.none()

    def begin(self, went: Facts) -> None:
        """Mark the facts that the next update takes away, and those that it brings back."""
        engine, reading, ahead = self.engine, self.reading, self.ahead
        passing = reading.stated | reading.derived if reading.passes_all else reading.stated
        staying = reading.stated if reading.passes_all else frozenset()
        engine.keep_notes(Noting(Notes.MARKS, passing, reading.stated | reading.derived, staying))
        if ahead is not None:
            reading.listen(MarksUsed(ahead.explicit, 0))
        if self.coming is None:
            return
        self.explicit = self._stated(self.coming.removed, TRUE)
        engine.note_marks(self.explicit, marked=True)
        if reading.passes_all and len(went):
            self.returning = self._stated(self.coming.added, WENT)
            engine.note_returning(self.returning, returning=True)

    def _stated(self, rows: Mapping[str, Rows], where: Where) -> Facts:
        """The facts of predicates that no rule derives, if their flags are as wanted."""
        engine = self.engine
        found = engine.none()
        for name, some in rows.items():
            if name in self.reading.stated:
                found |= engine.select(engine.facts(name, some.columns, some.count, False), where)
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
        known = engine.none()
        for name in task.section.predicates:
            if name in rows:
                some = rows[name]
                known |= engine.select(engine.facts(name, some.columns, some.count, False), where)
        return known

    def divide(self, task: Task, doubtful: Facts) -> tuple[Facts, Facts]:
        """Nothing is known of other instances."""
        return self.engine.none(), doubtful

    def collect(self, found: Facts) -> None:
        """Note which of the facts, added or proved, are marked."""
        self.implicit |= self.engine.select_marked(found)

    def see_off(self, gone: Facts) -> None:
        """Note which of the facts, taken away, return."""
        if len(self.returning):
            self.gone |= self.engine.select_returning(gone)

    def returned(self, task: Task) -> Facts:
        """The facts with positive marks: they are added, and no rule need find them."""
        known = self._known(task, NO_ROWS if self.ahead is None else self.ahead.returned, UNKNOWN)
        if len(known):
            self.reading.listen(MarksUsed(0, 0, len(known)))
        return task.waiting(known)

    def end(self) -> Ahead | None:
        """The facts that are marked; their marks are taken off."""
        engine = self.engine
        engine.note_marks(self.explicit | self.implicit, marked=False)
        engine.note_returning(self.returning | self.gone, returning=False)
        if self.coming is None:
            return None
        returned = engine.select(self.gone, WENT)
        sets = (self.implicit, self.returning, returned)
        return Ahead(self.coming.removed, len(self.explicit), *map(self._rows, sets))

    def _rows(self, facts: Facts) -> Mapping[str, Rows]:
        if not len(facts):
            return NO_ROWS
        return {name: Rows(*rows) for name, rows in self.engine.ids(facts).items()}


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
        """Let derived facts be linked."""
        self.engine.keep_notes(Noting(Notes.LINKS, self.reading.stated, self.linked))
        if self.ahead is not None:
            self.reading.listen(MarksUsed(len(self.engine.of(went, self.reading.stated)), 0))

    def lost(self, task: Task, effect: Effect) -> Facts:
        """Those that lean on stated facts that went; where all links are known, no plan looks for them."""
        engine, section = self.engine, task.section
        if self.ahead is None or section.number not in self.reading.leaning or not self._links(section):
            return task.lost(effect)
        known = engine.linked(task.went, section.predicates, effect)
        if len(known):
            self.reading.listen(MarksUsed(0, len(known)))
        if not engine.is_linked(section.predicates):
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
            return self.engine.none(), doubtful
        return self.engine.divide_sole(doubtful)

    def see_off(self, gone: Facts) -> None:
        """Nothing is noted of it."""

    def returned(self, task: Task) -> Facts:
        """Nothing is known of it."""
        return self.engine.none()

    def end(self) -> Ahead | None:
        """The update itself: links are there anyway."""
        return None if self.coming is None else Ahead(self.coming.removed)


MARKINGS: Mapping[str, Callable[..., Marks]] = {"literal": Literal, "linked": Linked}
