"""One update, stratum by stratum, bottom up: what all incremental algorithms share. Mutates itself.

Facts that no rule derives change first. Then each stratum that something touches is handed to the algorithm,
with what changed in it and below it; what it changes itself touches the strata that read it.

Invariant: when a stratum is handed over, all that it reads below is what it will be in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from time import perf_counter

from tidelog.engine.events import Listener, MaintenanceEnded, MaintenanceStarted, StratumMaintained
from tidelog.engine.maintaining import (
    CompiledRanks,
    Counters,
    Facts,
    Family,
    Flag,
    LoopSection,
    Maintainable,
)
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.builtins import Overflow
from tidelog.logic.program import Program, Rule
from tidelog.logic.strata import cycles
from tidelog.maintenance import aggregates
from tidelog.maintenance.maintainer import Check, NetChange, Rows, Update
from tidelog.maintenance.prepared import Library, Step
from tidelog.maintenance.schedule import Revision, Schedule, numbered
from tidelog.maintenance.task import Algorithm, Section, Task
from tidelog.rewrite.aggregates import SEPARATOR, is_auxiliary

NO_FACTS: Mapping[str, Rows] = {}
RENEWED_EVERY = 256  # updates after which the plans of a compiled loop are looked over
STATED = Flag.EXPLICIT | Flag.ALIVE  # what a fact is that no rule derives


@dataclass(frozen=True, slots=True)
class Act:
    """A part of an update that is worked in from the lowest stratum to the highest."""

    schedule: Schedule
    removed: Mapping[str, Rows]
    added: Mapping[str, Rows]


class Driver:
    """A maintainer that works updates in by an algorithm for strata."""

    def __init__(self, algorithm: Algorithm, engine: Maintainable, listen: Listener, check: Check) -> None:
        self.algorithm = algorithm
        self.engine = engine
        self.listen = listen
        self.check = check
        self._library = Library(engine)
        self._loop: tuple[Schedule, CompiledRanks] | None = None
        self._updates = 0
        self._rules: tuple[Rule, ...] | None = None  # those that the schedule is of
        self._schedule = self._scheduled((), ())  # of the last program

    @property
    def name(self) -> str:
        """The name it is chosen by."""
        return self.algorithm.name

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
        self._prepare(before)
        started = perf_counter()
        self.engine.begin_transaction()
        try:
            self.listen(_beginning(self.name, update))
            went, came = self._carry_out(update, before, after)
            self.listen(MaintenanceEnded(self.name, went, came, perf_counter() - started))
        except BaseException as error:
            self.engine.roll_back()
            self._schedule_anew(before)
            self.listen(MaintenanceEnded(self.name, 0, 0, perf_counter() - started, kept=False))
            if isinstance(error, Overflow):
                raise EvaluationError(Diagnostic("E603", str(error))) from None
            raise
        gone, new = self.engine.commit()
        net = NetChange(added=self._rows(new), removed=self._rows(gone))
        if after.rules is not before.rules:
            self._schedule_anew(after)
        self.engine.tidy(net.removed)
        return net

    def _rows(self, facts: Facts) -> dict[str, Rows]:
        """The facts of the program's own predicates."""
        found = self.engine.ids(facts).items()
        return {name: Rows(columns, count) for name, (columns, count) in found if not is_auxiliary(name)}

    def forget(self) -> None:
        """Make plans and auxiliary relations anew: relations were exchanged behind the driver's back."""
        self._schedule_anew(None)
        self._library = Library(self.engine)

    def schedule(self, program: Program) -> Schedule:
        """The order in which changes of this program's facts are worked in."""
        self._prepare_schedule(program)
        return self._schedule

    # ---- what must be known before

    def _prepare(self, program: Program) -> None:
        """Let there be a schedule of the program, its auxiliary relations, and the counters asked for."""
        self._prepare_schedule(program)
        if self.engine.counters is not self.algorithm.counters:
            sections = self._schedule.sections if self.algorithm.counters is not Counters.NONE else ()
            counted = [section.stratum for section in sections if not section.is_aggregate]
            self.engine.recount(self.algorithm.counters, counted)

    def _prepare_schedule(self, program: Program) -> None:
        """Let there be a schedule of the program, and its auxiliary relations."""
        if program.rules is not self._rules:
            self._complete(program)
            self._schedule_anew(program)

    def _complete(self, program: Program) -> None:
        """Make the auxiliary relations of a program that was materialised without them."""
        known = self.engine.relations()
        missing = {
            rule: number
            for rule, number in numbered(program.rules).items()
            if rule.aggregations and rule.head.predicate not in known
        }
        if not missing:
            return
        self.engine.begin_transaction()
        try:
            nothing = self.engine.none()
            for section in Schedule(Revision({}, {}, missing), self._library).sections:
                self._settle(section, self._task(section, nothing, nothing, nothing, nothing))
        except BaseException:
            self.engine.roll_back()
            self._schedule_anew(None)
            raise
        self.engine.commit()

    def _schedule_anew(self, program: Program | None) -> None:
        """Let there be a schedule of this program, and plans and auxiliary relations of no other."""
        rules = () if program is None else program.rules
        self._rules = None if program is None else rules
        self._schedule = self._scheduled(rules, rules)
        self._library.keep(self._schedule.sources)
        known = self._schedule.relations
        for relation in [name for name in self.engine.relations() if SEPARATOR in name]:
            if relation not in known:
                self.engine.drop(relation)

    def _scheduled(self, before: tuple[Rule, ...], after: tuple[Rule, ...]) -> Schedule:
        old, new = numbered(before), numbered(after)
        unchanged = {rule: number for rule, number in new.items() if rule in old}
        removed = {rule: number for rule, number in old.items() if rule not in new}
        added = {rule: number for rule, number in new.items() if rule not in old}
        return Schedule(Revision(unchanged, removed, added), self._library)

    # ---- the update

    def _carry_out(self, update: Update, before: Program, after: Program) -> tuple[int, int]:
        """How many facts went and came, counted act by act."""
        went, came = 0, 0
        for number, act in enumerate(self._acts(update, before, after)):
            if number:
                self.engine.rebase()
            gone, new = self._play(act)
            went, came = went + gone, came + new
        return went, came

    def _acts(self, update: Update, before: Program, after: Program) -> Iterator[Act]:
        """One act, or two where the rules before and after are stratified, but not both together."""
        if after.rules is before.rules:
            yield Act(self._schedule, update.removed, update.added)
            return
        for predicate in after.predicates.values():
            self.engine.define(predicate.name, predicate.arity)
        if cycles((*before.rules, *after.rules), {}):
            kept = frozenset(after.rules)
            between = tuple(rule for rule in before.rules if rule in kept)
            yield Act(self._scheduled(before.rules, between), update.removed, update.added)
            yield Act(self._scheduled(between, after.rules), NO_FACTS, NO_FACTS)
        else:
            yield Act(self._scheduled(before.rules, after.rules), update.removed, update.added)

    def _play(self, act: Act) -> tuple[int, int]:
        """How many facts went and came in all strata of an act."""
        regrouped, grouped_again = act.schedule.regrouped()
        if regrouped and self.engine.counters is not Counters.NONE:
            self.engine.recount(self.engine.counters, regrouped)
        went, came = self._work_in(act)
        if grouped_again and self.engine.counters is not Counters.NONE:
            self.engine.recount(self.engine.counters, grouped_again)
        return went, came

    def _work_in(self, act: Act) -> tuple[int, int]:
        """Go through the strata that are touched, in order."""
        schedule = act.schedule
        removed = self._facts(act.removed, create=False)
        added = self._facts(act.added, create=True)
        if not schedule.revised and (loop := self._compiled(schedule)) is not None:
            return loop.run(self.engine.unite(removed.values()), self.engine.unite(added.values()))
        went, came = self._exchange(schedule, removed, added)
        self._look_ahead(went)
        waiting = _touched(schedule, (*removed, *added), (*went.relations, *came.relations))
        last = -1
        while waiting:
            number = heappop(waiting)
            if number == last:
                continue
            last = number
            section = schedule.sections[number]
            task = self._task(section, self._union(removed, section), self._union(added, section), went, came)
            gone, new = self._settle(section, task)
            for relation in (*gone.relations, *new.relations):
                for reader in schedule.readers.get(relation, ()):
                    heappush(waiting, reader)
            went |= gone
            came |= new
        return len(went), len(came)

    def _look_ahead(self, went: Facts) -> None:
        """Do what is to be done between the change of stated facts, some of which went, and what follows."""

    def _compiled(self, schedule: Schedule) -> CompiledRanks | None:
        """The engine's compiled loop over these strata, if the algorithm has one."""
        if not (self.algorithm.is_compiled and self.engine.has_compiled_ranks):
            return None
        self._updates += 1
        is_stale = False
        if self._updates % RENEWED_EVERY == 0:
            for section in schedule.sections:
                is_stale |= section.shelf.renew()
        if self._loop is None or self._loop[0] is not schedule or is_stale or not self._loop[1].is_valid:
            for section in schedule.sections:
                section.shelf.renew()
            made = self.engine.compile_ranks(
                [self._loop_section(each, schedule) for each in schedule.sections]
            )
            self._loop = schedule, made
        return self._loop[1]

    def _loop_section(self, section: Section, schedule: Schedule) -> LoopSection:
        """A stratum as the compiled loop sees it."""
        if section.is_aggregate:
            read = {name for name, readers in schedule.readers.items() if section.number in readers}
            return LoopSection(
                section.predicates, {}, lambda went, came: self._aggregate(section, read, went, came)
            )
        plans = {
            family: [plan for some in section.shelf[Step(family.value)].values() for plan in some]
            for family in Family
        }
        return LoopSection(section.predicates, plans)

    def _aggregate(self, section: Section, read: set[str], went: Facts, came: Facts) -> None:
        """Bring an auxiliary relation up to date, if something that it reads has changed."""
        if not read.isdisjoint((*went.relations, *came.relations)):
            nothing = self.engine.none()
            section.shelf.renew()
            aggregates.maintain(self._task(section, nothing, nothing, went, came))

    def _facts(self, rows: Mapping[str, Rows], create: bool) -> dict[str, Facts]:
        return {
            name: self.engine.facts(name, some.columns, some.count, create) for name, some in rows.items()
        }

    def _union(self, facts: Mapping[str, Facts], section: Section) -> Facts:
        """All facts of a stratum's predicates."""
        return self.engine.unite(facts[name] for name in section.predicates if name in facts)

    def _exchange(
        self, schedule: Schedule, removed: Mapping[str, Facts], added: Mapping[str, Facts]
    ) -> tuple[Facts, Facts]:
        """What went and came in predicates that no rule derives."""
        engine = self.engine
        for facts in _underived(removed, schedule):
            engine.mark(facts, clear=STATED)
        for facts in _underived(added, schedule):
            engine.mark(facts, set=STATED)
        return engine.settle([name for name in {**removed, **added} if name not in schedule.section_of])

    # ---- one stratum

    def _task(self, section: Section, removed: Facts, added: Facts, went: Facts, came: Facts) -> Task:
        return Task(
            self.engine,
            section,
            self.listen,
            self.check,
            removed=removed,
            added=added,
            went=went,
            came=came,
        )

    def _settle(self, section: Section, task: Task) -> tuple[Facts, Facts]:
        """What went and came in a stratum, once it is maintained."""
        started, instances = perf_counter(), self.engine.instances
        section.shelf.renew()
        if section.is_aggregate:
            aggregates.maintain(task)
        else:
            self._state(task)
            self.algorithm.maintain(task)
        went, came = self.engine.settle(section.predicates)
        self.listen(
            StratumMaintained(
                section.number,
                section.predicates,
                "aggregates" if section.is_aggregate else self.name,
                task.overdeleted,
                task.rederived,
                len(went),
                len(came),
                self.engine.instances - instances,
                perf_counter() - started,
            )
        )
        return went, came

    def _state(self, task: Task) -> None:
        """Let facts be explicit or not, as the update says, and be counted so."""
        engine = self.engine
        engine.mark(task.removed, clear=Flag.EXPLICIT)
        engine.mark(task.added, set=Flag.EXPLICIT)
        if engine.counters is not Counters.NONE:
            engine.count(task.removed, -1)
            engine.count(task.added, 1)


def _beginning(name: str, update: Update) -> MaintenanceStarted:
    removed, added = (sum(rows.count for rows in side.values()) for side in (update.removed, update.added))
    return MaintenanceStarted(name, removed, added, len(update.rules_removed), len(update.rules_added))


def _touched(schedule: Schedule, stated: Iterable[str], changed: Iterable[str]) -> list[int]:
    """The numbers of the strata whose facts, rules, or lower facts have changed already, as a heap."""
    numbers = {schedule.section_of[name] for name in stated if name in schedule.section_of}
    numbers.update(reader for name in changed for reader in schedule.readers.get(name, ()))
    numbers.update(schedule.revised)
    waiting = list(numbers)
    heapify(waiting)
    return waiting


def _underived(facts: Mapping[str, Facts], schedule: Schedule) -> Iterator[Facts]:
    return (some for name, some in facts.items() if name not in schedule.section_of)
