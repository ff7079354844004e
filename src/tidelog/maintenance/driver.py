"""Apply one update, stratum by stratum, bottom up: the driver of all incremental algorithms. Mutable.

An update is one phase, or two where rules change and those before and after are not stratified together.
In a phase, facts that no rule derives change first. Then each stratum that is affected is handed to the
algorithm that the driver's tactics choose, with the changes in it and below it; the changes that the
algorithm makes affect the strata that read them. Aggregates and closures are maintained separately
(`special_strata`), and if the engine has a compiled loop for the algorithm, it does the same in one call.

Invariant: when a stratum is handed over, all lower relations that it reads are up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from time import perf_counter

from tidelog.data.rows import NO_NET, NetRows, Rows
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
    EngineParts,
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
from tidelog.maintenance.maintainer import Check, LookAhead, NetChange, Update
from tidelog.maintenance.schedule import Revision, Schedule
from tidelog.maintenance.special_strata import ClosureChoice, Names, Rules
from tidelog.maintenance.step_plans import ChangePlanCache, MaintenanceStep
from tidelog.maintenance.task import Algorithm, ScheduledStratum, Task
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import SEPARATOR, is_auxiliary

NO_FACTS: Mapping[str, Rows] = {}
RENEWED_EVERY = 256  # updates after which the plans of a compiled loop are checked against sizes again
UNDERIVED = Flag.EXPLICIT | Flag.ALIVE  # the flags of a fact that no rule derives


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of an update that is applied from the lowest stratum to the highest."""

    schedule: Schedule
    removed: Mapping[str, Rows]
    added: Mapping[str, Rows]


class Tactics:
    """How a driver picks the algorithm for each stratum; these pick the same for all."""

    lookahead: LookAhead | None = None  # the next update of a stream, if the tactics use it

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm

    def begin(self, update: Update, schedule: Schedule | None) -> None:
        """Prepare for an update of facts; the schedule is None if it changes rules, too."""

    def on_explicit_deleted(self, deleted: Facts) -> None:
        """Act when facts that no rule derives have changed, before derived facts do."""

    def algorithm_of(self, section: ScheduledStratum) -> Algorithm:
        """Return the algorithm for a stratum."""
        return self.algorithm

    @property
    def on_found(self) -> Callable[[Facts], None] | None:
        """The function to call with facts that plans derive or prove, if any."""
        return None

    def before_commit(self) -> None:
        """Act when all strata are up to date."""

    def end(self) -> None:
        """Forget the update: it is committed or rolled back."""

    def forget(self) -> None:
        """Discard data recorded for the next update and about the program."""


class Driver:
    """A maintainer that applies updates by algorithms for strata."""

    def __init__(
        self,
        algorithm: Algorithm,
        engine: EngineParts,
        listen: Listener,
        check: Check,
        modules: bool = True,
        tactics: Tactics | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.tactics = tactics or Tactics(algorithm)
        self.engine = engine
        self.listen = listen
        self.check = check
        self._cache = ChangePlanCache(engine)
        self._loop: tuple[Schedule, CompiledLoop] | None = None
        self._updates = 0
        self._wants_strata = wants_strata(listen)
        self._closures = ClosureChoice(engine, modules)
        self._given = NO_FACTS, NO_FACTS  # explicit facts to delete and to insert
        self._rules: Rules | None = None  # the rules that are scheduled
        self._schedule = self._scheduled((), (), special_strata.NONE)

    @property
    def name(self) -> str:
        """The name it is chosen by."""
        return self.algorithm.name

    @property
    def lookahead(self) -> LookAhead | None:
        """The next update of a stream, if the maintainer uses it."""
        return self.tactics.lookahead

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Apply an update; on any exception the engine is as before."""
        self._prepare(before)
        self.tactics.begin(update, self._schedule if after.rules is before.rules else None)
        try:
            return self._apply(update, before, after)
        finally:
            self.tactics.end()

    def _apply(self, update: Update, before: Program, after: Program) -> NetChange:
        stages = _stages(before.rules, after.rules)
        closed = self._closures.lasting(stages, update.added)
        while True:
            try:
                deleted, inserted = self._transact(update, after, stages, closed)
            except StructureTooLarge as error:
                closed -= {error.relation}
            else:
                break
        net = NetChange(added=self._rows(inserted), removed=self._rows(deleted))
        if after.rules is before.rules and closed == self._closures.chosen:
            self.engine.changes.compact_if_sparse(deleted.relations)
        else:
            self._install(after, closed)
            self.engine.changes.compact_if_sparse(net.removed)  # auxiliary relations may have been dropped
        return net

    def _transact(
        self, update: Update, after: Program, stages: Sequence[Rules], closed: Names
    ) -> tuple[Facts, Facts]:
        """Apply the update in a transaction, closed predicates by structures; return the net change."""
        started = perf_counter()
        self.engine.changes.begin()
        try:
            self.listen(_beginning(self.name, update))
            deleted, inserted = self._execute(update, after, stages, closed)
            self.tactics.before_commit()
            self.listen(MaintenanceEnded(self.name, deleted, inserted, perf_counter() - started))
        except BaseException as error:
            self.engine.changes.roll_back()
            self._reschedule(stages[0])
            self.listen(MaintenanceEnded(self.name, 0, 0, perf_counter() - started, kept=False))
            if isinstance(error, Overflow):
                raise EvaluationError(Diagnostic(error.code, str(error))) from None
            raise
        return self.engine.changes.commit()

    def _install(self, after: Program, closed: Names) -> None:
        """Schedule the program after an update, keeping structures for the closed predicates only."""
        self._closures.keep(closed)
        self._reschedule(after.rules)
        if self._closures.modules(after.rules).keys() - closed:
            self._rules = None  # before the next update, check whether there is more to close

    def _rows(self, facts: Facts) -> NetRows:
        """Return the ids of the facts, by relation."""
        return NetRows(facts.counts, self.engine.changes.ids(facts)) if facts.relations else NO_NET

    def forget(self) -> None:
        """Drop plans and auxiliary relations, since relations were replaced without the driver."""
        self.tactics.forget()
        self._reschedule(None)
        self._cache = ChangePlanCache(self.engine)

    def schedule(self, program: Program) -> Schedule:
        """Return the order in which changes of this program's facts are applied."""
        self._prepare_schedule(program)
        return self._schedule

    # ---- preparation

    def _prepare(self, program: Program) -> None:
        """Prepare the program's schedule, auxiliary relations and counters, unless they are up to date."""
        self._prepare_schedule(program)
        if self.engine.counters.kind is not self.algorithm.counters:
            is_counting = self.algorithm.counters is not CounterKind.NONE
            self._recount(self._schedule.section_of if is_counting else (), self.algorithm.counters)

    def _prepare_schedule(self, program: Program) -> None:
        """Prepare the program's schedule, auxiliary relations and closures, unless they are up to date."""
        if program.rules is not self._rules or not self._closures.are_current:
            self._adopt(program.rules)

    def _adopt(self, rules: Rules) -> None:
        """Schedule these rules; create missing auxiliary relations, and structures for closures."""
        created = self._complete(rules)
        try:
            opened = self._closures.choose(rules)
            self._reschedule(rules)
        except BaseException:
            self.engine.counters.rebuild(CounterKind.NONE, ())  # the new relations would never be counted
            raise
        if self.engine.counters.kind is not CounterKind.NONE:
            self._recount({*created, *opened}, self.engine.counters.kind)

    def _recount(self, relations: Collection[str], kind: CounterKind) -> None:
        """Count the instances of all strata that relations belong to."""
        sections = [
            section
            for section in self._schedule.sections
            if section.is_counted and not set(relations).isdisjoint(section.predicates)
        ]
        self.engine.counters.rebuild(kind, [section.stratum for section in sections])

    def _complete(self, rules: Rules) -> set[str]:
        """Create the auxiliary relations of a program that was materialised without them; return which."""
        existing = set(self.engine.storage.relations())
        modules = self._closures.modules(rules)
        for module in modules.values():
            self.engine.storage.define(module.source, 2)
        missing = {
            rule: number
            for rule, number in self._closures.rewritten(rules, modules).items()
            if is_auxiliary(rule.head.predicate) and rule.head.predicate not in existing
        }
        if not missing:
            return set()
        self.engine.changes.begin()
        try:
            nothing = self.engine.changes.none()
            for section in Schedule(Revision({}, {}, missing), self._cache).sections:
                task = self._task(section, nothing, nothing, nothing, nothing)
                if section.aggregated is not None:
                    special_strata.maintain_aggregates(task, section.aggregated)
                else:
                    task.run_all(MaintenanceStep.RULES_ADDED, special_strata.SEEN)
                self.engine.changes.end_stratum(section.predicates)
        except BaseException:
            self.engine.changes.roll_back()
            self._reschedule(None)
            raise
        self.engine.changes.commit()
        return {rule.head.predicate for rule in missing}

    def _reschedule(self, rules: Rules | None) -> None:
        """Schedule these rules, and drop plans and auxiliary relations of all others."""
        self._rules = rules
        scheduled = rules or ()
        self._schedule = self._scheduled(
            scheduled, scheduled, self._closures.chosen if rules is not None else special_strata.NONE
        )
        self._cache.keep(self._schedule.sources)
        needed = self._schedule.relations
        for relation in [name for name in self.engine.storage.relations() if SEPARATOR in name]:
            if relation not in needed:
                self.engine.storage.drop(relation)

    def _scheduled(self, before: Rules, after: Rules, closed: Names) -> Schedule:
        """Return the schedule of a phase in which structures maintain the closed predicates."""
        old, new = (self._closures.rewritten(rules, closed) for rules in (before, after))
        unchanged = {rule: number for rule, number in new.items() if rule in old}
        removed = {rule: number for rule, number in old.items() if rule not in new}
        added = {rule: number for rule, number in new.items() if rule not in old}
        modules = self._closures.modules(after) if closed else {}
        return Schedule(
            Revision(unchanged, removed, added), self._cache, {name: modules[name] for name in closed}
        )

    # ---- the update

    def _execute(
        self, update: Update, after: Program, stages: Sequence[Rules], closed: Names
    ) -> tuple[int, int]:
        """Execute an update; return how many facts were deleted and inserted, counted phase by phase."""
        if len(stages) == 1 and closed == self._closures.chosen:
            return self._propagate(self._schedule, update.removed, update.added)
        deleted, inserted = 0, 0
        opened = self._closures.chosen - closed
        for number, phase in enumerate(self._phases(update, after, stages, closed)):
            if number:
                self.engine.changes.start_second_phase()
                opened = special_strata.NONE
            counts = self._run_phase(phase, opened)
            deleted, inserted = deleted + counts[0], inserted + counts[1]
        return deleted, inserted

    def _phases(
        self, update: Update, after: Program, stages: Sequence[Rules], closed: Names
    ) -> Iterator[Phase]:
        """Yield one phase, or two where the rules before and after are stratified, but not both together."""
        for predicate in after.predicates.values():
            self.engine.storage.define(predicate.name, predicate.arity)
        first = self._scheduled(stages[0], stages[min(1, len(stages) - 1)], closed)
        yield Phase(first, update.removed, update.added)
        for before, later in pairwise(stages[1:]):
            yield Phase(self._scheduled(before, later, closed), NO_FACTS, NO_FACTS)

    def _run_phase(self, phase: Phase, opened: Names) -> tuple[int, int]:
        """Apply a phase to all strata; return how many facts were deleted and inserted."""
        if not (phase.schedule.revised or opened):
            return self._propagate(phase.schedule, phase.removed, phase.added)
        counters = self.engine.counters
        regrouped, grouped_again = phase.schedule.regrouped(opened)
        if regrouped and counters.kind is not CounterKind.NONE:
            counters.rebuild(counters.kind, regrouped)
        counts = self._propagate(phase.schedule, phase.removed, phase.added)
        if grouped_again and counters.kind is not CounterKind.NONE:
            counters.rebuild(counters.kind, grouped_again)
        return counts

    def _propagate(
        self, schedule: Schedule, to_remove: Mapping[str, Rows], to_add: Mapping[str, Rows]
    ) -> tuple[int, int]:
        """Apply a phase to the strata that it affects, in order."""
        self._given = to_remove, to_add
        if not schedule.revised and (loop := self._compiled(schedule)) is not None:
            report = partial(self._report, schedule) if self._wants_strata else None
            return loop.run(to_remove, to_add, report)
        removed, added = self._explicit(to_remove, to_add)
        deleted, inserted = self._change_underived(schedule, removed, added)
        self.tactics.on_explicit_deleted(deleted)
        waiting = _affected(schedule, (*removed, *added), (*deleted.relations, *inserted.relations))
        last = -1
        while waiting:
            number = heappop(waiting)
            if number == last:
                continue
            last = number
            section = schedule.sections[number]
            explicit = self._union(removed, section), self._union(added, section)
            deleted_here, inserted_here = self._maintain(
                section, self._task(section, *explicit, deleted, inserted)
            )
            for relation in (*deleted_here.relations, *inserted_here.relations):
                for reader in schedule.readers.get(relation, ()):
                    heappush(waiting, reader)
            deleted |= deleted_here
            inserted |= inserted_here
        return len(deleted), len(inserted)

    def _compiled(self, schedule: Schedule) -> CompiledLoop | None:
        """Return the engine's compiled loop over these strata, if the algorithm has one."""
        maker = self.engine.rank_loop
        if not (self.algorithm.is_compiled and maker is not None and maker.is_available):
            return None
        self._updates += 1
        is_stale = False
        if self._updates % RENEWED_EVERY == 0:
            for section in schedule.sections:
                is_stale |= section.plans.renew()
        if self._loop is None or self._loop[0] is not schedule or is_stale or not self._loop[1].is_valid:
            for section in schedule.sections:
                section.plans.renew()
            sections = [self._loop_section(each, schedule) for each in schedule.sections]
            self._loop = schedule, maker.compile(sections)
        return self._loop[1]

    def _loop_section(self, section: ScheduledStratum, schedule: Schedule) -> LoopSection:
        """Return a stratum in the form of the compiled loop."""
        if not section.is_counted:
            read = (name for name, readers in schedule.readers.items() if section.number in readers)
            return LoopSection(
                section.predicates,
                {},
                lambda deleted, inserted: self._maintain_special(section, deleted, inserted),
                frozenset(read),
                schedule.reaching(section),
            )
        plans = {
            family: list(chain.from_iterable(section.plans[MaintenanceStep(family.value)].values()))
            for family in Family
        }
        return LoopSection(section.predicates, plans)

    def _maintain_special(self, section: ScheduledStratum, deleted: Facts, inserted: Facts) -> None:
        """Maintain an aggregate or closure if its explicit facts or relations that it reads have changed."""
        to_remove, to_add = (
            {name: given[name] for name in section.predicates if name in given} for given in self._given
        )
        removed, added = (self._union(facts, section) for facts in self._explicit(to_remove, to_add))
        if deleted.relations or inserted.relations or removed.relations or added.relations:
            section.plans.renew()
            _maintain_special(self._task(section, removed, added, deleted, inserted))

    def _explicit(
        self, removed: Mapping[str, Rows], added: Mapping[str, Rows]
    ) -> tuple[Mapping[str, Facts], Mapping[str, Facts]]:
        """Return the explicit facts to delete and to insert, by relation."""
        find = self.engine.changes.all_facts
        return find(removed, False) if removed else {}, find(added, True) if added else {}

    def _union(self, facts: Mapping[str, Facts], section: ScheduledStratum) -> Facts:
        """Return the facts of a stratum's predicates."""
        return self.engine.changes.unite(facts[name] for name in section.predicates if name in facts)

    def _change_underived(
        self, schedule: Schedule, removed: Mapping[str, Facts], added: Mapping[str, Facts]
    ) -> tuple[Facts, Facts]:
        """Delete and insert facts that no rule derives; return those that were deleted and inserted."""
        changes = self.engine.changes
        for facts in _underived(removed, schedule):
            changes.mark(facts, clear=UNDERIVED)
        for facts in _underived(added, schedule):
            changes.mark(facts, set=UNDERIVED)
        return changes.end_stratum([name for name in {**removed, **added} if name not in schedule.section_of])

    # ---- one stratum

    def _task(
        self, section: ScheduledStratum, removed: Facts, added: Facts, deleted: Facts, inserted: Facts
    ) -> Task:
        return Task(
            self.engine,
            section,
            self.listen,
            self.check,
            removed=removed,
            added=added,
            deleted=deleted,
            inserted=inserted,
            on_found=self.tactics.on_found,
        )

    def _maintain(self, section: ScheduledStratum, task: Task) -> tuple[Facts, Facts]:
        """Maintain a stratum; return the facts that were deleted and inserted in it."""
        started, instances = perf_counter(), self.engine.change_plans.instances
        section.plans.renew()
        algorithm = self.tactics.algorithm_of(section)
        if section.is_counted:
            self._change_explicit(task)
            algorithm.maintain(task)
        else:
            _maintain_special(task)
        deleted, inserted = self.engine.changes.end_stratum(section.predicates)
        instances_run, seconds = self.engine.change_plans.instances - instances, perf_counter() - started
        outcome = LoopOutcome(task.overdeleted, len(deleted), len(inserted), instances_run, seconds)
        self.listen(_maintained(section, algorithm.name, outcome))
        return deleted, inserted

    def _report(self, schedule: Schedule, number: int, outcome: LoopOutcome) -> None:
        """Report the changes that a compiled loop made in a stratum, if there are any."""
        if outcome.has_changes:
            self.listen(_maintained(schedule.sections[number], self.name, outcome))

    def _change_explicit(self, task: Task) -> None:
        """Set or clear the explicit flag of updated facts, and adjust their counters."""
        changes, counters = task.changes, task.counters
        changes.mark(task.removed, clear=Flag.EXPLICIT)
        changes.mark(task.added, set=Flag.EXPLICIT)
        if counters.kind is not CounterKind.NONE:
            counters.count(task.removed, -1)
            counters.count(task.added, 1)


def _maintain_special(task: Task) -> None:
    """Maintain an aggregate or a closure."""
    if task.section.aggregated is not None:
        special_strata.maintain_aggregates(task, task.section.aggregated)
    else:
        special_strata.maintain_closure(task)


def _maintained(section: ScheduledStratum, algorithm: str, outcome: LoopOutcome) -> StratumMaintained:
    """Return the event that reports a stratum; its deleted facts were overdeleted before."""
    special = "aggregates" if section.is_aggregate else "closure" if section.closure else ""
    return StratumMaintained(
        section.number,
        section.predicates,
        special or algorithm,
        outcome.overdeleted,
        max(0, outcome.overdeleted - outcome.deleted),
        outcome.deleted,
        outcome.inserted,
        outcome.instances,
        outcome.seconds,
    )


def _stages(before: Rules, after: Rules) -> Sequence[Rules]:
    """Return the rules before and after; between them those that stay, unless all are stratified together."""
    if after is before:
        return (before,)
    if not cycles((*before, *after), {}):
        return before, after
    remaining = frozenset(after)
    return before, tuple(rule for rule in before if rule in remaining), after


def _beginning(name: str, update: Update) -> MaintenanceStarted:
    rules = len(update.rules_removed), len(update.rules_added)
    return MaintenanceStarted(name, update.removals, update.additions, *rules)


def _affected(schedule: Schedule, explicit: Iterable[str], changed: Iterable[str]) -> list[int]:
    """Return the numbers of the strata whose facts, rules, or lower facts have changed, as a heap."""
    numbers = {schedule.section_of[name] for name in explicit if name in schedule.section_of}
    numbers.update(reader for name in changed for reader in schedule.readers.get(name, ()))
    numbers.update(schedule.revised)
    waiting = list(numbers)
    heapify(waiting)
    return waiting


def _underived(facts: Mapping[str, Facts], schedule: Schedule) -> Iterator[Facts]:
    return (changed for name, changed in facts.items() if name not in schedule.section_of)
