"""Plans that are made once and run in many transactions. Mutable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tidelog.engine.protocol import Engine
from tidelog.logic.program import Rule
from tidelog.plan.algebra import ChangePlan, Part
from tidelog.plan.change_plans import Changes
from tidelog.plan.plan_cache import Freshness, PlanCache, PlannedSizes

FRESHNESS = Freshness(grown=4, small=64, shrinks=True)

Driven = Mapping[str | None, tuple[Any, ...]]  # prepared plans by the relation whose facts drive them


class Step(Enum):
    """What a family of plans is for; `Changes` says what each finds."""

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
    FORMER = "former"  # of aggregates: what the groups were before


def _ground(changes: Changes) -> tuple[ChangePlan, ...]:
    return () if changes.is_recursive else (changes.rederive(Part.KEPT),)


MAKERS: Mapping[Step, Callable[[Changes], Iterable[ChangePlan]]] = {
    Step.LOST: Changes.lost,
    Step.LOST_UNDER_NEGATION: lambda changes: changes.lost(negated=True),
    Step.GAINED: Changes.gained,
    Step.GAINED_UNDER_NEGATION: lambda changes: changes.gained(negated=True),
    Step.OVERDELETE: Changes.overdelete,
    Step.REDERIVE: lambda changes: (changes.rederive(),),
    Step.INSERT: Changes.insert,
    Step.DEPENDENTS: Changes.dependents,
    Step.GROUND: _ground,
    Step.SUPPORT: Changes.support,
    Step.PROVE: Changes.prove,
    Step.RULES_REMOVED: lambda changes: (changes.every(Part.BEFORE),),
    Step.RULES_ADDED: lambda changes: (changes.every(Part.NOW),),
    Step.FORMER: Changes.insert,
}


@dataclass(frozen=True, slots=True)
class Source:
    """A rule to make plans of: its number in the program, and the predicates of its stratum."""

    rule: Rule
    number: int = field(compare=False)
    own: frozenset[str]


Sources = Mapping[Step, tuple[Source, ...]]


class ChangePlanCache:
    """All prepared plans of an engine, by rule and step."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._plans: PlanCache[tuple[Source, Step], list[tuple[str | None, Any]]] = PlanCache(FRESHNESS)
        self._changes: PlanCache[Source, Changes] = PlanCache(FRESHNESS)

    def plans(self, source: Source, step: Step) -> list[tuple[str | None, Any]]:
        """The plans of a rule for a step, each with the relation that drives it."""
        read = relations_read((source.rule,))
        return self._plans.get(
            (source, step), read, self.engine.storage.size, lambda: self._prepared(source, step)
        )

    def _prepared(self, source: Source, step: Step) -> list[tuple[str | None, Any]]:
        plans = MAKERS[step](self._changes_of(source))
        return [(plan.given, self.engine.change_plans.prepare(plan)) for plan in plans]

    def _changes_of(self, source: Source) -> Changes:
        """Return the maker of a rule's plans, one for all steps: it orders the body once per pivot."""
        return self._changes.get(
            source,
            relations_read((source.rule,)),
            self.engine.storage.size,
            lambda: Changes(source.rule, source.number, source.own, self.engine.storage),
        )

    def keep(self, sources: Collection[Source]) -> None:
        """Forget the plans of other rules."""
        self._plans.keep(lambda key: key[0] in sources)
        self._changes.keep(sources.__contains__)


class StratumPlans:
    """The plans of one stratum, at hand by step."""

    def __init__(self, cache: ChangePlanCache, sources: Sources) -> None:
        self.cache = cache
        self.sources = sources
        self._read = relations_read({source.rule for some in sources.values() for source in some})
        self._sizes = PlannedSizes(FRESHNESS)
        self._driven: dict[Step, Driven] = {}
        self._without_links: Driven | None = None

    def __getitem__(self, step: Step) -> Driven:
        """The plans of a step, by the relation that drives them."""
        driven = self._driven.get(step)
        if driven is None:
            driven = self._driven[step] = self._collect(step)
        return driven

    def _collect(self, step: Step) -> Driven:
        found: dict[str | None, tuple[Any, ...]] = {}
        for source in self.sources.get(step, ()):
            for given, plan in self.cache.plans(source, step):
                found[given] = (*found.get(given, ()), plan)
        return found

    def lost_without_links(self, explicit: Collection[str]) -> Driven:
        """Return the plans of `LOST` without those driven by the first explicit atom of their rule.

        They find all facts that lose an instance, except those that a deleted explicit fact supports.
        """
        if self._without_links is None:
            found: dict[str | None, tuple[Any, ...]] = {}
            for source in self.sources.get(Step.LOST, ()):
                lower = [atom.predicate for atom in source.rule.positive if atom.predicate not in source.own]
                first = next((place for place, name in enumerate(lower) if name in explicit), None)
                for place, (given, plan) in enumerate(self.cache.plans(source, Step.LOST)):
                    if place != first:
                        found[given] = (*found.get(given, ()), plan)
            self._without_links = found
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


def relations_read(rules: Collection[Rule]) -> Collection[str]:
    """The relations that the rules read."""
    return dict.fromkeys(name for rule in rules for name in rule.read)
