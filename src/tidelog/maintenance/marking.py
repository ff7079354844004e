"""Marking: whoever looks ahead at the next update knows some of the facts that it will put in doubt.

Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, Algorithm 1; the same for DRed after
their Delete/Rederive with Marking for Update Streams, 2025, negative marks. Here for sets of facts, and with
line 23 passing over facts that are delayed.

Literal, as printed: what the next update takes away is marked, and an instance that adds or proves a fact
passes the mark of a stated body fact (for DRed: of any body fact) on to it. Linked, as their program does it:
a derived fact shares the mark of a stated fact in the instance that added or proved it, whenever that is
marked. For this each derived fact is linked to that stated fact: it *leans* on the instance.

Invariant: marks only say which facts are looked at first. Links say more: leaning goes round in no circle,
since a fact leans on what was true, or proved, before it. So whatever leans on an instance that stands need
not be doubted, and what never had another instance needs no search when it falls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tidelog.engine.events import Listener, MarksUsed
from tidelog.engine.maintaining import Counters, Effect, Facts, Flag, Maintainable, Notes, Role, Where
from tidelog.logic.program import Program, Rule
from tidelog.maintenance import backward_forward, dred
from tidelog.maintenance.backward_forward import Search
from tidelog.maintenance.closures import Names, Rules
from tidelog.maintenance.deletion import overdelete
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.insertion import insert
from tidelog.maintenance.maintainer import Check, NetChange, Peek, Rows, Update
from tidelog.maintenance.prepared import Driven, Step
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.task import Algorithm, Section, Task

TRUE = Where(Flag.ALIVE, Flag.ALIVE)


@dataclass(frozen=True, slots=True)
class Ahead:
    """An update that was looked at before its turn, and what was marked for it."""

    removed: Mapping[str, Rows]
    explicit: int = 0  # stated facts that were marked
    implicit: Mapping[str, Rows] = field(default_factory=dict)  # derived facts that were, literally

    def announces(self, update: Update) -> bool:
        """Whether this update takes away what was expected: it was not changed, nor another rejected."""
        return update.removed.keys() == self.removed.keys() and all(
            _are_same(rows, self.removed[name]) for name, rows in update.removed.items()
        )


def _are_same(rows: Rows, others: Rows) -> bool:
    return rows is others or (
        rows.count == others.count and all(map(np.array_equal, rows.columns, others.columns))
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """What marking asks of a program."""

    engine: Maintainable
    listen: Listener
    stated: frozenset[str]  # the predicates that no rule derives
    passing: frozenset[str]  # those that pass marks on
    leaning: frozenset[int]  # the strata with facts that lean on stated ones
    founded: frozenset[int]  # those in which every fact does that follows from facts of the stratum itself


def reading_of(schedule: Schedule, engine: Maintainable, listen: Listener, passes_all: bool) -> Reading:
    """What marking asks of the program of a schedule; marks of derived facts are passed on if asked for."""
    derived = frozenset(schedule.section_of)
    stated = frozenset(schedule.readers) - derived
    leaning, founded = set(), set()
    for section in schedule.sections:
        leans = [any(atom.predicate in stated for atom in rule.positive) for rule in section.before]
        if any(leans):
            leaning.add(section.number)
        if all(leans[place] for place, rule in enumerate(section.before) if _is_recursive(rule, section)):
            founded.add(section.number)
    passing = stated | derived if passes_all else stated
    return Reading(engine, listen, stated, passing, frozenset(leaning), frozenset(founded))


def _is_recursive(rule: Rule, section: Section) -> bool:
    return any(atom.predicate in section.predicates for atom in rule.positive)


class Marks(Protocol):
    """What is known of one update from the one before, and what is found out for the next one."""

    reading: Reading

    def begin(self, went: Facts) -> None:
        """Keep notes in this transaction, in which these stated facts went."""

    def is_founded(self, task: Task) -> bool:
        """Whether all that does not lean on doubtful facts is proved thereby."""

    def lost(self, task: Task, effect: Effect) -> Facts:
        """The heads of instances that broke, those that are known already first."""

    def divide(self, task: Task, doubtful: Facts) -> tuple[Facts, Facts]:
        """The doubtful facts that have no other instance, and those that may have one."""

    def end(self) -> Ahead | None:
        """What is known of the next update."""


class Literal:
    """Marks as printed: passed on when a fact is added or proved."""

    def __init__(self, reading: Reading, ahead: Ahead | None, coming: Update | None) -> None:
        self.reading = reading
        self.engine = reading.engine
        self.ahead = ahead
        self.coming = coming
        self.explicit = self.implicit = self.engine.none()

    def begin(self, went: Facts) -> None:
        """Mark the facts that the next update takes away."""
        engine, ahead = self.engine, self.ahead
        engine.keep_notes(Notes.MARKS, self.reading.passing)
        if ahead is not None:
            self.reading.listen(MarksUsed(ahead.explicit, 0))
        removed = {} if self.coming is None else self.coming.removed
        for name, rows in removed.items():
            if name in self.reading.stated:
                self.explicit |= engine.select(engine.facts(name, rows.columns, rows.count, False), TRUE)
        engine.note_marks(self.explicit, marked=True)

    def is_founded(self, task: Task) -> bool:
        """Nobody knows what facts lean on."""
        return False

    def lost(self, task: Task, effect: Effect) -> Facts:
        """Those that were marked, then those that plans find."""
        engine = self.engine
        known = engine.none()
        marked = {} if self.ahead is None else self.ahead.implicit
        for name in task.section.predicates:
            if name in marked:
                rows = marked[name]
                known |= engine.select(engine.facts(name, rows.columns, rows.count, False), effect.where)
        if len(known):
            self.reading.listen(MarksUsed(0, len(known)))
        return task.waiting(known) | task.lost(effect)

    def divide(self, task: Task, doubtful: Facts) -> tuple[Facts, Facts]:
        """Nothing is known of other instances."""
        return self.engine.none(), doubtful

    def collect(self, found: Facts) -> None:
        """Note which of the facts, added or proved, are marked."""
        self.implicit |= self.engine.select_marked(found)

    def end(self) -> Ahead | None:
        """The facts that are marked; their marks are taken off."""
        engine = self.engine
        engine.note_marks(self.explicit | self.implicit, marked=False)
        if self.coming is None:
            return None
        marked = {name: Rows(*rows) for name, rows in engine.ids(self.implicit).items()}
        return Ahead(self.coming.removed, len(self.explicit), marked)


class Linked:
    """Marks that derived facts share with stated ones: they are found by following links."""

    def __init__(self, reading: Reading, ahead: Ahead | None, coming: Update | None) -> None:
        self.reading = reading
        self.engine = reading.engine
        self.ahead = ahead
        self.coming = coming

    def begin(self, went: Facts) -> None:
        """Let derived facts be linked."""
        self.engine.keep_notes(Notes.LINKS, self.reading.stated)
        if self.ahead is not None:
            self.reading.listen(MarksUsed(len(self.engine.of(went, self.reading.stated)), 0))

    def is_founded(self, task: Task) -> bool:
        """Whether all facts that follow from the stratum's own are linked; others may lean in circles."""
        return task.section.number in self.reading.founded

    def lost(self, task: Task, effect: Effect) -> Facts:
        """Those that lean on stated facts that went; where all links are known, no plan looks for them."""
        engine, section = self.engine, task.section
        if self.ahead is None or section.number not in self.reading.leaning:
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

    def divide(self, task: Task, doubtful: Facts) -> tuple[Facts, Facts]:
        """What was stated and is no longer may have instances; of other facts it is noted."""
        if len(task.removed):
            return self.engine.none(), doubtful
        return self.engine.divide_sole(doubtful)

    def end(self) -> Ahead | None:
        """The update itself: links are there anyway."""
        return None if self.coming is None else Ahead(self.coming.removed)


MARKINGS: Mapping[str, Callable[[Reading, Ahead | None, Update | None], Marks]] = {
    "literal": Literal,
    "linked": Linked,
}


# ---- the algorithms


class MarkingDeleteAndRederive:
    """DRed that begins with what is known."""

    name = "dred"
    counters = Counters.NONE
    is_compiled = False

    def __init__(self, marks: Marks) -> None:
        self.marks = marks

    def maintain(self, task: Task) -> None:
        """Overdelete, rederive, insert."""
        doubtful = task.waiting(task.removed) | self.marks.lost(task, dred.DOUBTED)
        gone = overdelete(task, doubtful, dred.DOUBTED)
        _, open = self.marks.divide(task, gone)
        insert(task, task.run(Step.REDERIVE, open, dred.REDERIVED))


class MarkingBackwardForward:
    """Backward/Forward that begins with what is known.

    Where all that does not lean on doubtful facts is proved, looking back one step is enough, and as good as
    putting back what is left standing: then it is the same as the above.
    """

    name = "backward-forward"
    counters = Counters.NONE
    is_compiled = False

    def __init__(self, marks: Marks) -> None:
        self.marks = marks

    def maintain(self, task: Task) -> None:
        """Take away what is disproved, insert."""
        if self.marks.is_founded(task):
            MarkingDeleteAndRederive(self.marks).maintain(task)
            return
        doubtful = task.waiting(task.removed) | self.marks.lost(task, backward_forward.DOUBTED)
        search = MarkingSearch(task, self.marks)
        overdelete(task, doubtful, backward_forward.DOUBTED, search.disproved)
        insert(task, task.engine.none())


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
        self.engine.mark(sole, set=Flag.CHECKED, clear=Flag.PENDING)
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


def _nothing() -> None:
    """The look ahead where there is no stream."""


class MarkingDriver(Driver):
    """A maintainer that looks ahead, if it is to mark. Mutates itself."""

    def __init__(
        self,
        algorithm: Algorithm,
        engine: Maintainable,
        listen: Listener,
        check: Check,
        modules: bool = True,
    ) -> None:
        super().__init__(algorithm, engine, listen, check, modules)
        self.marking = "none"
        self.peek: Peek = _nothing
        self._plain = algorithm
        self._marks: Marks | None = None  # of the present update
        self._ahead: Ahead | None = None  # what is known of the next one
        self._read: tuple[Schedule, Reading] | None = None

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
        ahead, self._ahead = self._ahead, None
        if self.marking == "none" or after.rules is not before.rules:
            return super().apply(update, before, after)
        self._prepare(before)
        reading = self._reading()
        # The first facts are worked in before anything is looked ahead at.
        coming = self.peek() if any(map(self.engine.size, reading.stated)) else None
        announced = ahead if ahead is not None and ahead.announces(update) else None
        marks = self._marks = MARKINGS[self.marking](reading, announced, coming)
        self.algorithm = MARKED[self._plain.name](marks)
        try:
            return super().apply(update, before, after)
        finally:
            self.algorithm, self._marks = self._plain, None

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
