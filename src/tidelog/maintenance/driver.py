"""One update, stratum by stratum, bottom up: what all incremental algorithms share. Mutates itself.

Facts that no rule derives change first. Then each stratum that something touches is handed to the algorithm,
with what changed in it and below it; what it changes itself touches the strata that read it.

Invariant: when a stratum is handed over, all that it reads below is what it will be in the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from time import perf_counter

from tidelog.data.rows import NetRows, Rows
from tidelog.engine.events import (
    Listener,
    MaintenanceEnded,
    MaintenanceStarted,
    StratumMaintained,
    wants_strata,
)
from tidelog.engine.flags import CounterKind, Flag
from tidelog.engine.protocol import (
    CompiledLoop,
    Engine,
    Facts,
    Family,
    LoopOutcome,
    LoopSection,
    StructureTooLarge,
)
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.functions.builtins import Overflow
from tidelog.logic.program import Program
from tidelog.logic.strata import cycles
from tidelog.maintenance import special_strata
from tidelog.maintenance.maintainer import Check, NetChange, Update
from tidelog.maintenance.schedule import Revision, Schedule
from tidelog.maintenance.special_strata import Closures, Names, Rules
from tidelog.maintenance.step_plans import Library, Step
from tidelog.maintenance.task import Algorithm, Section, Task
from tidelog.rewrite.auxiliary_relations import SEPARATOR, is_auxiliary

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

    def __init__(
        self,
        algorithm: Algorithm,
        engine: Engine,
        listen: Listener,
        check: Check,
        modules: bool = True,
    ) -> None:
        self.algorithm = algorithm
        self.engine = engine
        self.listen = listen
        self.check = check
        self._library = Library(engine)
        self._loop: tuple[Schedule, CompiledLoop] | None = None
        self._updates = 0
        self._is_followed = wants_strata(listen)
        self._closures = Closures(engine, modules)
        self._stated: tuple[Mapping[str, Facts], Mapping[str, Facts]] = {}, {}  # removed and added
        self._rules: Rules | None = None  # those that the schedule is of
        self._schedule = self._scheduled((), (), special_strata.NONE)  # of the last program

    @property
    def name(self) -> str:
        """The name it is chosen by."""
        return self.algorithm.name

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
        self._prepare(before)
        stages = _stages(before.rules, after.rules)
        closed = self._closures.lasting(stages, update.added)
        while True:
            try:
                gone, new = self._transact(update, after, stages, closed)
            except StructureTooLarge as outgrown:
                closed -= {outgrown.relation}
            else:
                break
        net = NetChange(added=self._rows(new), removed=self._rows(gone))
        if after.rules is before.rules and closed == self._closures.chosen:
            self.engine.changes.compact_if_sparse(gone.relations)
        else:
            self._go_on(after, closed)
            self.engine.changes.compact_if_sparse(net.removed)  # auxiliary relations may have gone
        return net

    def _transact(
        self, update: Update, after: Program, stages: Sequence[Rules], closed: Names
    ) -> tuple[Facts, Facts]:
        """What went and what came, while structures keep the closed predicates."""
        started = perf_counter()
        self.engine.changes.begin()
        try:
            self.listen(_beginning(self.name, update))
            went, came = self._carry_out(update, after, stages, closed)
            self.listen(MaintenanceEnded(self.name, went, came, perf_counter() - started))
        except BaseException as error:
            self.engine.changes.roll_back()
            self._schedule_anew(stages[0])
            self.listen(MaintenanceEnded(self.name, 0, 0, perf_counter() - started, kept=False))
            if isinstance(error, Overflow):
                raise EvaluationError(Diagnostic(error.code, str(error))) from None
            raise
        return self.engine.changes.commit()

    def _go_on(self, after: Program, closed: Names) -> None:
        """Schedule the program after an update, keeping structures for the closed predicates only."""
        self._closures.keep(closed)
        self._schedule_anew(after.rules)
        if self._closures.modules(after.rules).keys() - closed:
            self._rules = None  # before the next update, see whether there is more to close

    def _rows(self, facts: Facts) -> NetRows:
        """The facts of the program's own predicates."""
        return NetRows(facts.counts, self.engine.changes.ids(facts))

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
        """Prepare the program's schedule, auxiliary relations and counters, unless they are up to date."""
        self._prepare_schedule(program)
        if self.engine.counters is not self.algorithm.counters:
            is_counting = self.algorithm.counters is not CounterKind.NONE
            self._recount(self._schedule.section_of if is_counting else (), self.algorithm.counters)

    def _prepare_schedule(self, program: Program) -> None:
        """Prepare the program's schedule, auxiliary relations and closures, unless they are up to date."""
        if program.rules is not self._rules or not self._closures.are_current:
            self._adopt(program.rules)

    def _adopt(self, rules: Rules) -> None:
        """Schedule these rules, making missing auxiliary relations and structures for closures."""
        made = self._complete(rules)
        try:
            opened = self._closures.choose(rules)
            self._schedule_anew(rules)
        except BaseException:
            self.engine.counters.rebuild(CounterKind.NONE, ())  # what was made would never be counted
            raise
        if self.engine.counters is not CounterKind.NONE:
            self._recount({*made, *opened}, self.engine.counters)

    def _recount(self, relations: Collection[str], counters: CounterKind) -> None:
        """Count the instances of all strata that relations belong to."""
        sections = [
            section
            for section in self._schedule.sections
            if section.is_counted and not set(relations).isdisjoint(section.predicates)
        ]
        self.engine.counters.rebuild(counters, [section.stratum for section in sections])

    def _complete(self, rules: Rules) -> set[str]:
        """Make the auxiliary relations of a program that was materialised without them; which they are."""
        known = set(self.engine.storage.relations())
        modules = self._closures.modules(rules)
        for module in modules.values():
            self.engine.storage.define(module.source, 2)
        missing = {
            rule: number
            for rule, number in self._closures.rewritten(rules, modules).items()
            if is_auxiliary(rule.head.predicate) and rule.head.predicate not in known
        }
        if not missing:
            return set()
        self.engine.changes.begin()
        try:
            nothing = self.engine.changes.none()
            for section in Schedule(Revision({}, {}, missing), self._library).sections:
                task = self._task(section, nothing, nothing, nothing, nothing)
                if section.is_aggregate:
                    special_strata.maintain_aggregates(task)
                else:
                    task.run_all(Step.RULES_ADDED, special_strata.NOTED)
                self.engine.changes.end_stratum(section.predicates)
        except BaseException:
            self.engine.changes.roll_back()
            self._schedule_anew(None)
            raise
        self.engine.changes.commit()
        return {rule.head.predicate for rule in missing}

    def _schedule_anew(self, rules: Rules | None) -> None:
        """Schedule these rules, and drop plans and auxiliary relations of all others."""
        self._rules = rules
        known_rules = rules or ()
        self._schedule = self._scheduled(
            known_rules, known_rules, self._closures.chosen if rules is not None else special_strata.NONE
        )
        self._library.keep(self._schedule.sources)
        known = self._schedule.relations
        for relation in [name for name in self.engine.storage.relations() if SEPARATOR in name]:
            if relation not in known:
                self.engine.storage.drop(relation)

    def _scheduled(self, before: Rules, after: Rules, closed: Names) -> Schedule:
        """The schedule of an act, structures keeping the closed predicates."""
        old, new = (self._closures.rewritten(rules, closed) for rules in (before, after))
        unchanged = {rule: number for rule, number in new.items() if rule in old}
        removed = {rule: number for rule, number in old.items() if rule not in new}
        added = {rule: number for rule, number in new.items() if rule not in old}
        modules = self._closures.modules(after) if closed else {}
        return Schedule(
            Revision(unchanged, removed, added), self._library, {name: modules[name] for name in closed}
        )

    # ---- the update

    def _carry_out(
        self, update: Update, after: Program, stages: Sequence[Rules], closed: Names
    ) -> tuple[int, int]:
        """How many facts went and came, counted act by act."""
        went, came = 0, 0
        opened = self._closures.chosen - closed
        for number, act in enumerate(self._acts(update, after, stages, closed)):
            if number:
                self.engine.changes.start_second_phase()
                opened = special_strata.NONE
            gone, new = self._play(act, opened)
            went, came = went + gone, came + new
        return went, came

    def _acts(self, update: Update, after: Program, stages: Sequence[Rules], closed: Names) -> Iterator[Act]:
        """One act, or two where the rules before and after are stratified, but not both together."""
        if len(stages) == 1 and closed == self._closures.chosen:
            yield Act(self._schedule, update.removed, update.added)
            return
        for predicate in after.predicates.values():
            self.engine.storage.define(predicate.name, predicate.arity)
        first = self._scheduled(stages[0], stages[min(1, len(stages) - 1)], closed)
        yield Act(first, update.removed, update.added)
        for before, later in pairwise(stages[1:]):
            yield Act(self._scheduled(before, later, closed), NO_FACTS, NO_FACTS)

    def _play(self, act: Act, opened: Names) -> tuple[int, int]:
        """How many facts went and came in all strata of an act."""
        regrouped, grouped_again = act.schedule.regrouped(opened)
        if regrouped and self.engine.counters is not CounterKind.NONE:
            self.engine.counters.rebuild(self.engine.counters, regrouped)
        went, came = self._work_in(act)
        if grouped_again and self.engine.counters is not CounterKind.NONE:
            self.engine.counters.rebuild(self.engine.counters, grouped_again)
        return went, came

    def _work_in(self, act: Act) -> tuple[int, int]:
        """Go through the strata that are touched, in order."""
        schedule = act.schedule
        removed = self._facts(act.removed, create=False)
        added = self._facts(act.added, create=True)
        self._stated = removed, added
        if not schedule.revised and (loop := self._compiled(schedule)) is not None:
            tell = partial(self._tell, schedule) if self._is_followed else None
            return loop.run(self.engine.changes.unite(removed.values()), self.engine.changes.unite(added.values()), tell)
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

    def _compiled(self, schedule: Schedule) -> CompiledLoop | None:
        """The engine's compiled loop over these strata, if the algorithm has one."""
        if not (self.algorithm.is_compiled and self.engine.rank_loop.is_available):
            return None
        self._updates += 1
        is_stale = False
        if self._updates % RENEWED_EVERY == 0:
            for section in schedule.sections:
                is_stale |= section.shelf.renew()
        if self._loop is None or self._loop[0] is not schedule or is_stale or not self._loop[1].is_valid:
            for section in schedule.sections:
                section.shelf.renew()
            made = self.engine.rank_loop.compile(
                [self._loop_section(each, schedule) for each in schedule.sections]
            )
            self._loop = schedule, made
        return self._loop[1]

    def _loop_section(self, section: Section, schedule: Schedule) -> LoopSection:
        """A stratum as the compiled loop sees it."""
        if not section.is_counted:
            read = (name for name, readers in schedule.readers.items() if section.number in readers)
            return LoopSection(
                section.predicates,
                {},
                lambda went, came: self._maintain_touched(section, went, came),
                frozenset(read),
                schedule.reaching(section),
            )
        plans = {
            family: [plan for some in section.shelf[Step(family.value)].values() for plan in some]
            for family in Family
        }
        return LoopSection(section.predicates, plans)

    def _maintain_touched(self, section: Section, went: Facts, came: Facts) -> None:
        """Maintain a stratum without the algorithm, if something that it reads or states has changed."""
        removed, added = (self._union(facts, section) for facts in self._stated)
        if went.relations or came.relations or removed.relations or added.relations:
            section.shelf.renew()
            _maintain_by_hand(self._task(section, removed, added, went, came))

    def _facts(self, rows: Mapping[str, Rows], create: bool) -> Mapping[str, Facts]:
        given = {name: (some.columns, some.count) for name, some in rows.items()}
        return self.engine.changes.all_facts(given, create) if given else {}

    def _union(self, facts: Mapping[str, Facts], section: Section) -> Facts:
        """All facts of a stratum's predicates."""
        return self.engine.changes.unite(facts[name] for name in section.predicates if name in facts)

    def _exchange(
        self, schedule: Schedule, removed: Mapping[str, Facts], added: Mapping[str, Facts]
    ) -> tuple[Facts, Facts]:
        """What went and came in predicates that no rule derives."""
        engine = self.engine
        for facts in _underived(removed, schedule):
            engine.changes.mark(facts, clear=STATED)
        for facts in _underived(added, schedule):
            engine.changes.mark(facts, set=STATED)
        return engine.changes.end_stratum([name for name in {**removed, **added} if name not in schedule.section_of])

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
        started, instances = perf_counter(), self.engine.change_plans.instances
        section.shelf.renew()
        if section.is_counted:
            self._state(task)
            self.algorithm.maintain(task)
        else:
            _maintain_by_hand(task)
        went, came = self.engine.changes.end_stratum(section.predicates)
        counted, seconds = self.engine.change_plans.instances - instances, perf_counter() - started
        outcome = LoopOutcome(task.overdeleted, len(went), len(came), counted, seconds)
        self.listen(_maintained(section, self.name, outcome))
        return went, came

    def _tell(self, schedule: Schedule, place: int, outcome: LoopOutcome) -> None:
        """Say what a compiled loop did in a stratum, if anything."""
        if outcome.is_touched:
            self.listen(_maintained(schedule.sections[place], self.name, outcome))

    def _state(self, task: Task) -> None:
        """Mark facts as explicit or not, as the update says, and adjust their counters."""
        engine = self.engine
        engine.changes.mark(task.removed, clear=Flag.EXPLICIT)
        engine.changes.mark(task.added, set=Flag.EXPLICIT)
        if engine.counters is not CounterKind.NONE:
            engine.counters.count(task.removed, -1)
            engine.counters.count(task.added, 1)


def _maintain_by_hand(task: Task) -> None:
    """Bring a stratum up to date that is not for the algorithm."""
    if task.section.is_aggregate:
        special_strata.maintain_aggregates(task)
    else:
        special_strata.maintain_closure(task)


def _maintained(section: Section, algorithm: str, outcome: LoopOutcome) -> StratumMaintained:
    """What is said of a stratum; whatever went in it was taken away before."""
    by_hand = "aggregates" if section.is_aggregate else "closure" if section.closure else ""
    return StratumMaintained(
        section.number,
        section.predicates,
        by_hand or algorithm,
        outcome.overdeleted,
        max(0, outcome.overdeleted - outcome.went),
        outcome.went,
        outcome.came,
        outcome.instances,
        outcome.seconds,
    )


def _stages(before: Rules, after: Rules) -> Sequence[Rules]:
    """The rules before, after, and if these are not stratified together, those that stay, in between."""
    if after is before:
        return (before,)
    if not cycles((*before, *after), {}):
        return before, after
    kept = frozenset(after)
    return before, tuple(rule for rule in before if rule in kept), after


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
