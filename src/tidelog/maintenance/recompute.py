"""Recomputation: derive predicates that may change again, from the explicit facts.

The baseline of all other algorithms. Only predicates that depend on a change are derived again, into new
relations; the old ones are kept as backups until these are complete.

Invariant: the backups are whole until the new relations are complete.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tidelog.data.rows import Rows
from tidelog.engine.events import (
    Event,
    FactsRemoved,
    Listener,
    RoundsRan,
    RuleRan,
    StratumEnded,
    StratumMaintained,
    StratumStarted,
    tell,
    wants_strata,
)
from tidelog.engine.fixpoint import derive
from tidelog.engine.protocol import EngineParts
from tidelog.logic.program import Program, Rule
from tidelog.logic.strata import Stratum, strata
from tidelog.maintenance.maintainer import Check, LookAhead, NetChange, Update

NONE = Rows((), 0)


class StratumTimes:
    """A listener that passes events on, and sums up the instances and seconds of each stratum. Mutable."""

    hears_rounds = True

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
        elif isinstance(event, RoundsRan):
            self.done[self._predicates] = instances + int(event.runs[:, 2].sum()), seconds
        elif isinstance(event, StratumEnded):
            self.done[self._predicates] = instances, event.seconds
        tell(self.listen, event)


class Recompute:
    """The maintainer that derives again all predicates that depend on a change."""

    name = "recompute"
    lookahead: LookAhead | None = None

    def __init__(self, engine: EngineParts, listen: Listener, check: Check, modules: bool = True) -> None:
        self.engine = engine
        self.modules = modules
        self.listen = listen
        self.check = check
        self._wants_strata = wants_strata(listen)
        self._rules: tuple[Rule, ...] | None = None
        self._strata: tuple[Stratum, ...] = ()

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Apply an update; on any exception the engine is as before."""
        affected = dependent(_changed(update), after.rules)
        backups: list[str] = []
        try:
            for relation in affected:
                self._replace(relation, update, backups)
            work = StratumTimes(self.listen)
            affected_strata = self._derive(affected, after, work if self._wants_strata else self.listen)
            change = self._difference(affected)
            if self._wants_strata:
                for number, stratum in affected_strata.items():
                    self.listen(self._maintained(number, stratum, work, change))
        except BaseException:
            for relation in backups:
                self._restore(relation)
            raise
        for relation in affected:
            self.engine.storage.drop(former(relation))
        return change

    def _replace(self, relation: str, update: Update, backups: list[str]) -> None:
        """Keep a relation as a backup, and create a new one with its explicit facts after the update."""
        size = self.engine.storage.size
        removed, added = update.removed.get(relation, NONE), update.added.get(relation, NONE)
        before = size(relation)
        backups.append(relation)
        self.engine.replacement.replace_explicit(relation, former(relation), removed, added)
        self.listen(FactsRemoved(relation, before - size(relation)))

    def _derive(self, affected: dict[str, None], after: Program, listen: Listener) -> dict[int, Stratum]:
        """Derive the affected predicates; return their strata, by number."""
        if after.rules is not self._rules:
            self._strata = strata(after.rules, after.predicates)
            self._rules = after.rules
        affected_strata = {
            number: stratum
            for number, stratum in enumerate(self._strata)
            if not affected.keys().isdisjoint(stratum.predicates)
        }
        numbers = {id(rule): number for number, rule in enumerate(after.rules)}
        derive(self.engine, tuple(affected_strata.values()), numbers, listen, self.check, self.modules)
        return affected_strata

    def _maintained(
        self, number: int, stratum: Stratum, work: StratumTimes, change: NetChange
    ) -> StratumMaintained:
        """Return the event that reports a stratum: all its facts were replaced."""
        names = stratum.predicates
        deleted, inserted = (
            sum(side[name].count for name in names if name in side) for side in (change.removed, change.added)
        )
        overdeleted = sum(self.engine.storage.size(name) for name in names) + deleted - inserted
        instances, seconds = work.done.get(names, (0, 0.0))
        rederived = overdeleted - deleted
        return StratumMaintained(
            number, names, self.name, overdeleted, rederived, deleted, inserted, instances, seconds
        )

    def _difference(self, affected: Collection[str]) -> NetChange:
        added, removed = {}, {}
        for relation in affected:
            inserted = self.engine.replacement.difference(relation, former(relation))
            deleted = self.engine.replacement.difference(former(relation), relation)
            if inserted.count:
                added[relation] = inserted
            if deleted.count:
                removed[relation] = deleted
        return NetChange(added, removed)

    def _restore(self, relation: str) -> None:
        if former(relation) not in self.engine.storage.relations():
            return  # it has not been replaced
        if relation in self.engine.storage.relations():
            self.engine.storage.drop(relation)
        self.engine.storage.rename(former(relation), relation)


def dependent(predicates: Collection[str], rules: Sequence[Rule]) -> dict[str, None]:
    """Return the predicates, and all that the rules derive from them, directly or not."""
    heads: dict[str, list[str]] = {}
    for rule in rules:
        for atom in (*rule.positive, *rule.negated):
            heads.setdefault(atom.predicate, []).append(rule.head.predicate)
    affected = dict.fromkeys(predicates)
    waiting = list(affected)
    while waiting:
        for head in heads.get(waiting.pop(), ()):
            if head not in affected:
                affected[head] = None
                waiting.append(head)
    return affected


def _changed(update: Update) -> list[str]:
    """Return the predicates whose facts an update may change directly."""
    rules = (*update.rules_removed, *update.rules_added)
    return [*update.removed, *update.added, *(rule.head.predicate for rule in rules)]


def former(relation: str) -> str:
    """Return the name of the backup of a relation, as it was before an update."""
    return f"{relation} before"  # a name with a space is no predicate's
