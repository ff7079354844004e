"""The plans of maintenance steps, prepared once and run in many transactions. Mutable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from tidelog.engine.protocol import EngineParts
from tidelog.logic.program import Rule
from tidelog.plan.algebra import ChangePlan, Part
from tidelog.plan.change_plans import ChangePlanMaker
from tidelog.plan.join_order import Freshness, PlanCache, PlannedSizes
from tidelog.records import dataclass

FRESHNESS = Freshness(grown=4, small=64, shrinks=True)

Driven = Mapping[str | None, tuple[Any, ...]]  # prepared plans by the relation whose facts drive them


class MaintenanceStep(Enum):
    """The purpose of a family of plans; `ChangePlanMaker` documents what each finds."""

    __hash__ = object.__hash__  # each is one object; that of `Enum` is a function of Python

    LOST = "lost"
    LOST_UNDER_NEGATION = "lost under negation"
    GAINED = "gained"
    GAINED_UNDER_NEGATION = "gained under negation"
    OVERDELETE = "overdelete"
    REDERIVE = "rederive"
    INSERT = "insert"
    DEPENDENTS = "dependents"
    GROUND = "ground"  # from heads to bodies, by rules that do not read the stratum
    SUPPORT = "support"
    PROVE = "prove"
    RULES_REMOVED = "rules removed"
    RULES_ADDED = "rules added"
    HELD = "held before"  # of aggregates: the given rows that an instance gave before
    FORMER = "former"  # of aggregates: the former facts of groups


def _ground(changes: ChangePlanMaker) -> tuple[ChangePlan, ...]:
    return () if changes.is_recursive else (changes.rederive(Part.KEPT),)


MAKERS: Mapping[MaintenanceStep, Callable[[ChangePlanMaker], Iterable[ChangePlan]]] = {
    MaintenanceStep.LOST: ChangePlanMaker.lost,
    MaintenanceStep.LOST_UNDER_NEGATION: lambda changes: changes.lost(negated=True),
    MaintenanceStep.GAINED: ChangePlanMaker.gained,
    MaintenanceStep.GAINED_UNDER_NEGATION: lambda changes: changes.gained(negated=True),
    MaintenanceStep.OVERDELETE: ChangePlanMaker.overdelete,
    MaintenanceStep.REDERIVE: lambda changes: (changes.rederive(),),
    MaintenanceStep.INSERT: ChangePlanMaker.insert,
    MaintenanceStep.DEPENDENTS: ChangePlanMaker.dependents,
    MaintenanceStep.GROUND: _ground,
    MaintenanceStep.SUPPORT: ChangePlanMaker.support,
    MaintenanceStep.PROVE: ChangePlanMaker.prove,
    MaintenanceStep.RULES_REMOVED: lambda changes: (changes.every(Part.BEFORE),),
    MaintenanceStep.RULES_ADDED: lambda changes: (changes.every(Part.NOW),),
    MaintenanceStep.HELD: lambda changes: (changes.rederive(Part.BEFORE),),
    MaintenanceStep.FORMER: ChangePlanMaker.insert,
}


@dataclass(frozen=True, slots=True)
class PlanSource:
    """A rule to make plans for: its number in the program, and the predicates of its stratum.

    What it reads and its hash are kept: they are asked for more often than there are plans.
    """

    rule: Rule
    number: int = field(compare=False)
    own: frozenset[str]
    read: frozenset[str] = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "read", self.rule.read)
        object.__setattr__(self, "_hash", hash((self.rule, self.own)))

    def __hash__(self) -> int:
        return self._hash


Sources = Mapping[MaintenanceStep, tuple[PlanSource, ...]]


@dataclass(slots=True)
class SourcePlans:
    """The prepared plans of one rule by step, each with the relation that drives it. Mutable.

    One maker makes those of all steps: it orders the body once per pivot.
    """

    maker: ChangePlanMaker
    by_step: dict[MaintenanceStep, list[tuple[str | None, Any]]] = field(default_factory=dict)


class ChangePlanCache:
    """All prepared plans of an engine, by rule and step."""

    def __init__(self, engine: EngineParts) -> None:
        self.engine = engine
        self._sources: PlanCache[PlanSource, SourcePlans] = PlanCache(FRESHNESS)

    def plans(self, source: PlanSource, step: MaintenanceStep) -> list[tuple[str | None, Any]]:
        """Return the plans of a rule for a step, each with the relation that drives it."""
        known = self._sources.get(source, source.read, self.engine.storage.size, lambda: self._begun(source))
        plans = known.by_step.get(step)
        if plans is None:
            prepare = self.engine.change_plans.prepare
            plans = [(plan.given, prepare(plan)) for plan in MAKERS[step](known.maker)]
            known.by_step[step] = plans
        return plans

    def _begun(self, source: PlanSource) -> SourcePlans:
        return SourcePlans(ChangePlanMaker(source.rule, source.number, source.own, self.engine.storage))

    def keep(self, sources: Collection[PlanSource]) -> None:
        """Drop the plans of other rules."""
        self._sources.keep(sources.__contains__)


class StratumPlans:
    """The plans of one stratum, by step."""

    def __init__(self, cache: ChangePlanCache, sources: Sources) -> None:
        self.cache = cache
        self.sources = sources
        self._read = frozenset(name for some in sources.values() for source in some for name in source.read)
        self._sizes = PlannedSizes(FRESHNESS)
        self._driven: dict[MaintenanceStep, Driven] = {}
        self._without_links: Driven | None = None

    def __getitem__(self, step: MaintenanceStep) -> Driven:
        """Return the plans of a step, by the relation that drives them."""
        driven = self._driven.get(step)
        if driven is None:
            driven = self._driven[step] = self._collect(step)
        return driven

    def _collect(self, step: MaintenanceStep) -> Driven:
        plans: dict[str | None, tuple[Any, ...]] = {}
        for source in self.sources.get(step, ()):
            for driver, plan in self.cache.plans(source, step):
                plans[driver] = (*plans.get(driver, ()), plan)
        return plans

    def lost_without_links(self, explicit: Collection[str]) -> Driven:
        """Return the plans of `LOST` without those driven by the first explicit atom of their rule.

        They find all facts that lose an instance, except those that a deleted explicit fact supports.
        """
        if self._without_links is None:
            plans: dict[str | None, tuple[Any, ...]] = {}
            for source in self.sources.get(MaintenanceStep.LOST, ()):
                lower = [atom.predicate for atom in source.rule.positive if atom.predicate not in source.own]
                first = next((position for position, name in enumerate(lower) if name in explicit), None)
                for position, (driver, plan) in enumerate(self.cache.plans(source, MaintenanceStep.LOST)):
                    if position != first:
                        plans[driver] = (*plans.get(driver, ()), plan)
            self._without_links = plans
        return self._without_links

    def renew(self) -> bool:
        """Drop the plans unless they fit the sizes of the relations; return whether they were dropped."""
        size = self.cache.engine.storage.size
        if self._sizes.are_known and not self._sizes.stale(size):
            return False
        self._sizes.note(self._read, size)
        self._driven = {}
        self._without_links = None
        return True
