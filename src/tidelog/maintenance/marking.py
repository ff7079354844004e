"""Delete and rederive, and backward/forward, in streams: with marks, where that pays. Mutates itself.

Illich, Glimm: Backward/Forward with Marking for Update Streams, DL 2025, Algorithm 1, here for sets of facts,
and with line 23 passing over facts that are delayed; the same for DRed. `marks` says what is known of an
update from the one before, `worth` whether to find that out.

Invariant: with marks or without, the algorithm is the one that was asked for, and the facts are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidelog.engine.events import Listener, MarkingDecided
from tidelog.engine.maintaining import Counters, Effect, Facts, Flag, Maintainable, Role
from tidelog.logic.program import Program
from tidelog.maintenance import backward_forward, dred
from tidelog.maintenance.backward_forward import Search
from tidelog.maintenance.closures import Names, Rules
from tidelog.maintenance.deletion import overdelete
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.insertion import insert
from tidelog.maintenance.maintainer import (
    Check,
    NetChange,
    Peek,
    Update,
    Waiting,
    no_stream,
    none_known,
)
from tidelog.maintenance.marks import MARKINGS, Ahead, Linked, Literal, Marks, Reading, reading_of
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.step_plans import Driven, Step
from tidelog.maintenance.task import Algorithm, Section, Task
from tidelog.maintenance.worth import Judge, Verdict

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
        self.marks.see_off(gone)
        _, open = self.marks.divide(task, gone)
        again = task.run(Step.REDERIVE, open, dred.REDERIVED)
        insert(task, again | self.marks.returned(task))


class MarkingBackwardForward:
    """Backward/Forward that begins with what is known."""

    name = "backward-forward"
    counters = Counters.NONE
    is_compiled = False

    def __init__(self, marks: Marks) -> None:
        self.marks = marks

    def maintain(self, task: Task) -> None:
        """Take away what is disproved, insert."""
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
        return self.peek() if any(map(self.engine.size, self._reading().stated)) else None

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
