"""Recomputation: what may change is derived anew from the explicit facts, beside what was there before.

The oldest algorithm, and the measure of all others. Only predicates that depend on a change are derived
anew.

Invariant: what was there before is whole until what comes after is complete.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from tidelog.data.rows import Columns, Rows
from tidelog.engine.events import (
    Event,
    FactsRemoved,
    Listener,
    RuleRan,
    StratumEnded,
    StratumMaintained,
    StratumStarted,
    wants_strata,
)
from tidelog.engine.protocol import Engine
from tidelog.logic.program import Program, Rule
from tidelog.logic.strata import Stratum, strata
from tidelog.maintenance.maintainer import Check, NetChange, Update

NONE = Rows((), 0)


class Replacing(Engine, Protocol):
    """An engine in which a relation can be made anew beside itself."""

    def restate(
        self, relation: str, aside: str, removed: tuple[Columns, int], added: tuple[Columns, int]
    ) -> None:
        """Set a relation aside by another name, and let a new one hold its explicit facts, changed."""

    def absent(self, relation: str, other: str) -> tuple[Columns, int]:
        """The facts of a relation that another does not have."""

    def derive(
        self,
        strata: Sequence[Stratum],
        numbers: dict[int, int],
        listen: Listener,
        check: Check,
        modules: bool,
    ) -> None:
        """Derive all that follows from the facts that are there."""

    def rename(self, relation: str, name: str) -> None:
        """Give a relation another name."""

    def relations(self) -> Collection[str]:
        """The relations that are there."""


class Work:
    """Passes events on, and notes the instances of each stratum and its seconds. Mutates itself."""

    def __init__(self, listen: Listener) -> None:
        self.listen = listen
        self.done: dict[tuple[str, ...], tuple[int, float]] = {}
        self._predicates: tuple[str, ...] = ()

    def __call__(self, event: Event) -> None:
        if isinstance(event, StratumStarted):
            self._predicates = event.predicates
        instances, seconds = self.done.get(self._predicates, (0, 0.0))
        if isinstance(event, RuleRan):
            self.done[self._predicates] = instances + event.matches, seconds
        elif isinstance(event, StratumEnded):
            self.done[self._predicates] = instances, event.seconds
        self.listen(event)


class Recompute:
    """Derives anew whatever depends on a change."""

    name = "recompute"

    def __init__(self, engine: Replacing, listen: Listener, check: Check, modules: bool = True) -> None:
        self.engine = engine
        self.modules = modules
        self.listen = listen
        self.check = check
        self._is_followed = wants_strata(listen)
        self._rules: tuple[Rule, ...] | None = None
        self._strata: tuple[Stratum, ...] = ()

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
        affected = dependent(_changed(update), after.rules)
        aside: list[str] = []
        try:
            for relation in affected:
                self._begin_anew(relation, update, aside)
            work = Work(self.listen)
            touched = self._derive(affected, after, work if self._is_followed else self.listen)
            change = self._difference(affected)
            if self._is_followed:
                for place, stratum in touched.items():
                    self.listen(self._maintained(place, stratum, work, change))
        except BaseException:
            for relation in aside:
                self._put_back(relation)
            raise
        for relation in affected:
            self.engine.drop(former(relation))
        return change

    def _begin_anew(self, relation: str, update: Update, aside: list[str]) -> None:
        """Set a relation aside, and let a new one hold its explicit facts after the update."""
        engine = self.engine
        removed, added = update.removed.get(relation, NONE), update.added.get(relation, NONE)
        size = engine.size(relation)
        aside.append(relation)
        engine.restate(
            relation, former(relation), (removed.columns, removed.count), (added.columns, added.count)
        )
        self.listen(FactsRemoved(relation, size - engine.size(relation)))

    def _derive(self, affected: dict[str, None], after: Program, listen: Listener) -> dict[int, Stratum]:
        """Derive the affected predicates; returns their strata, by number."""
        if after.rules is not self._rules:
            self._strata = strata(after.rules, after.predicates)
            self._rules = after.rules
        touched = {
            place: stratum
            for place, stratum in enumerate(self._strata)
            if not affected.keys().isdisjoint(stratum.predicates)
        }
        numbers = {id(rule): place for place, rule in enumerate(after.rules)}
        self.engine.derive(tuple(touched.values()), numbers, listen, self.check, self.modules)
        return touched

    def _maintained(self, place: int, stratum: Stratum, work: Work, change: NetChange) -> StratumMaintained:
        """What is said of a stratum: all that was there was set aside."""
        names = stratum.predicates
        went, came = (
            sum(side[name].count for name in names if name in side) for side in (change.removed, change.added)
        )
        overdeleted = sum(self.engine.size(name) for name in names) + went - came
        instances, seconds = work.done.get(names, (0, 0.0))
        again = overdeleted - went
        return StratumMaintained(place, names, self.name, overdeleted, again, went, came, instances, seconds)

    def _difference(self, affected: Collection[str]) -> NetChange:
        added, removed = {}, {}
        for relation in affected:
            came = Rows(*self.engine.absent(relation, former(relation)))
            went = Rows(*self.engine.absent(former(relation), relation))
            if came.count:
                added[relation] = came
            if went.count:
                removed[relation] = went
        return NetChange(added, removed)

    def _put_back(self, relation: str) -> None:
        if former(relation) not in self.engine.relations():
            return  # it was not set aside yet
        if relation in self.engine.relations():
            self.engine.drop(relation)
        self.engine.rename(former(relation), relation)


def dependent(predicates: Collection[str], rules: Sequence[Rule]) -> dict[str, None]:
    """The predicates, and all that the rules derive from them, directly or not."""
    heads: dict[str, list[str]] = {}
    for rule in rules:
        for atom in (*rule.positive, *rule.negated):
            heads.setdefault(atom.predicate, []).append(rule.head.predicate)
    found = dict.fromkeys(predicates)
    waiting = list(found)
    while waiting:
        for head in heads.get(waiting.pop(), ()):
            if head not in found:
                found[head] = None
                waiting.append(head)
    return found


def _changed(update: Update) -> list[str]:
    """The predicates whose facts an update may change directly."""
    rules = (*update.rules_removed, *update.rules_added)
    return [*update.removed, *update.added, *(rule.head.predicate for rule in rules)]


def former(relation: str) -> str:
    """The name of a relation that is set aside, as it was before an update."""
    return f"{relation} before"  # a name with a space is no predicate's
