"""The order in which an update is applied: the strata of the rules before and after together.

If rules change, a stratum has removed, added and unchanged rules. Strata that no change affects are never
visited: the strata that read each relation are known.

Invariant: the predicates of a stratum depend on each other in the rules before, or after, or both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum, strata
from tidelog.maintenance.special_strata import aggregate_sources, aggregated_by, temporary_relations
from tidelog.maintenance.step_plans import ChangePlanCache, MaintenanceStep, PlanSource, Sources, StratumPlans
from tidelog.maintenance.task import ScheduledStratum
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import ClosureModule, is_auxiliary

NO_CLOSURES: Mapping[str, ClosureModule] = {}
CONSTANT = (  # steps of the rules that stay
    MaintenanceStep.LOST,
    MaintenanceStep.LOST_UNDER_NEGATION,
    MaintenanceStep.GAINED,
    MaintenanceStep.GAINED_UNDER_NEGATION,
    MaintenanceStep.OVERDELETE,
    MaintenanceStep.REDERIVE,
    MaintenanceStep.DEPENDENTS,
    MaintenanceStep.GROUND,
    MaintenanceStep.SUPPORT,
    MaintenanceStep.PROVE,
)


@dataclass(frozen=True, slots=True)
class Revision:
    """Unchanged, removed and added rules, each with its number; plain rules have no aggregates."""

    unchanged: Mapping[Rule, int]
    removed: Mapping[Rule, int]
    added: Mapping[Rule, int]

    @property
    def before(self) -> tuple[Rule, ...]:
        """The rules as they were."""
        return (*self.unchanged, *self.removed)

    @property
    def after(self) -> tuple[Rule, ...]:
        """The rules as they will be."""
        return (*self.unchanged, *self.added)


class Schedule:
    """The sections in order, and the readers of each relation."""

    def __init__(
        self, revision: Revision, cache: ChangePlanCache, closures: Mapping[str, ClosureModule] = NO_CLOSURES
    ) -> None:
        self.revision = revision
        self.closures = closures
        joint = strata((*revision.unchanged, *revision.removed, *revision.added))
        for relation in self._auxiliary():
            cache.engine.storage.define(relation, 2)
        self.sections = tuple(
            _section(number, each, revision, cache, closures) for number, each in enumerate(joint)
        )
        self.section_of = {name: each.number for each in self.sections for name in each.predicates}
        self.readers = _readers(joint)
        self.revised = tuple(section.number for section in self.sections if section.is_revised)

    @property
    def sources(self) -> set[PlanSource]:
        """The sources of all plans."""
        all_plans = (section.plans for section in self.sections)
        return {source for plans in all_plans for sources in plans.sources.values() for source in sources}

    @property
    def relations(self) -> set[str]:
        """All that rules derive, on scratch paper too."""
        derived = {source.rule.head.predicate for source in self.sources}
        aggregated = (section.aggregated for section in self.sections if section.aggregated is not None)
        temporary = {atom.predicate for each in aggregated for atom in temporary_relations(each)}
        return derived | temporary | self.section_of.keys() | self._auxiliary()

    def _auxiliary(self) -> set[str]:
        """The relations that hold external pairs, even if no rule derives one."""
        return {module.source for module in self.closures.values() if is_auxiliary(module.source)}

    def reaching(self, section: ScheduledStratum) -> frozenset[str]:
        """The predicates whose changes may affect a section: its own, and all that it depends on."""
        predicates: set[str] = set()
        affected = {section.number}
        for stratum in reversed(self.sections[: section.number + 1]):
            if stratum.number in affected:
                predicates.update(stratum.predicates)
                read = {name for name, readers in self.readers.items() if stratum.number in readers}
                predicates |= read
                affected.update(self.section_of[name] for name in read if name in self.section_of)
        return frozenset(predicates)

    @property
    def groups(self) -> set[frozenset[str]]:
        """The predicates that are maintained together."""
        return {frozenset(section.predicates) for section in self.sections}

    def regrouped(self, opened: Collection[str]) -> tuple[list[Stratum], list[Stratum]]:
        """The strata of this schedule that the rules before lack, and those that only the rules after have.

        Which instances are counted depends on which rules read their own stratum. Predicates that were
        `opened`, closed before, were not counted.
        """
        before = {
            frozenset(each.predicates)
            for each in strata(self.revision.before)
            if not frozenset(each.predicates) & frozenset(opened)
        }
        joint = [
            section.stratum
            for section in self.sections
            if section.is_counted and frozenset(section.predicates) not in before
        ]
        after = [
            each for each in strata(self.revision.after) if frozenset(each.predicates) not in self.groups
        ]
        return joint, [each for each in after if not is_aggregate(each.rules)]


def is_aggregate(rules: Collection[Rule]) -> bool:
    """Whether a stratum's rules aggregate; then there is one, and its relation is auxiliary."""
    return any(rule.aggregations for rule in rules)


def _section(
    number: int,
    stratum: Stratum,
    revision: Revision,
    cache: ChangePlanCache,
    closures: Mapping[str, ClosureModule],
) -> ScheduledStratum:
    own = frozenset(stratum.predicates)
    closure = closures.get(stratum.predicates[0])

    def sources(numbers: Mapping[Rule, int]) -> tuple[PlanSource, ...]:
        return tuple(PlanSource(rule, numbers[rule], own) for rule in stratum.rules if rule in numbers)

    unchanged, removed, added = map(sources, (revision.unchanged, revision.removed, revision.added))
    aggregated = None
    for rule in stratum.rules:
        if is_auxiliary(rule.head.predicate):
            cache.engine.storage.define(rule.head.predicate, len(rule.head.terms))
    if is_aggregate(stratum.rules):
        (source,) = (*unchanged, *removed, *added)
        aggregated = aggregated_by(source.rule)
        for relation in temporary_relations(aggregated):
            cache.engine.storage.define_temporary(relation.predicate, len(relation.terms))
        plan_sources = aggregate_sources(aggregated, source.number)
    elif closure is not None:
        plan_sources = {}
    else:
        plan_sources = _sources(unchanged, removed, added)
    return ScheduledStratum(
        number,
        stratum.predicates,
        tuple(source.rule for source in (*unchanged, *removed)),
        tuple(source.rule for source in removed),
        tuple(source.rule for source in added),
        StratumPlans(cache, plan_sources),
        aggregated,
        closure,
    )


def _sources(
    unchanged: tuple[PlanSource, ...], removed: tuple[PlanSource, ...], added: tuple[PlanSource, ...]
) -> Sources:
    return {
        **dict.fromkeys(CONSTANT, unchanged),
        MaintenanceStep.INSERT: (*unchanged, *added),
        MaintenanceStep.RULES_REMOVED: removed,
        MaintenanceStep.RULES_ADDED: added,
    }


def _readers(joint: Sequence[Stratum]) -> dict[str, tuple[int, ...]]:
    """The numbers of the strata that read each predicate of a lower one."""
    readers: dict[str, dict[int, None]] = {}
    for number, stratum in enumerate(joint):
        for rule in stratum.rules:
            for atom in (*rule.positive, *rule.negated):
                if atom.predicate not in stratum.predicates:
                    readers.setdefault(atom.predicate, {})[number] = None
    return {predicate: tuple(numbers) for predicate, numbers in readers.items()}
