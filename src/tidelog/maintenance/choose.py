"""Choosing for each update how it is worked in, from what it is expected to touch.

Rank counting looks at the instances that change, recomputation at all of them, but faster at each: beyond a
share of the instances it is cheaper to begin anew. The share is predicted stratum by stratum, from the
numbers of instances that were counted, and the part of each relation that changes.

Invariant: either way the result is the same; only the time differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.engine.events import Listener, MaintainerChosen
from tidelog.engine.maintaining import Counters, Maintainable
from tidelog.logic.program import Program, Rule
from tidelog.maintenance.algorithms import ALGORITHMS
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.maintainer import Check, NetChange, Update
from tidelog.maintenance.recompute import Recompute
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.task import Section

SMALL = 16  # so few facts are worked in without thinking about it
DEARER = 1.6  # what an instance costs in rank counting, measured by what it costs in recomputation
COUNTING = 0.1  # what counting anew costs, shared by the updates that are expected to profit from it
NEVER_COUNTED = 0.25  # the share of explicit facts from which on counting for the first time does not pay

RANKS = "rank-counting"


@dataclass(frozen=True, slots=True)
class Prediction:
    """How many instances of rules an update is expected to touch, of how many in all."""

    touched: float
    total: int

    @property
    def share(self) -> float:
        """The part of all instances that is touched."""
        return self.touched / self.total if self.total else 0.0


class Auto:
    """Rank counting for most updates, recomputation for large ones."""

    name = "auto"

    def __init__(self, engine: Any, listen: Listener, check: Check) -> None:
        self.engine: Maintainable = engine
        self.listen = listen
        self._ranks = Driver(ALGORITHMS[RANKS], engine, listen, check)
        self._recompute = Recompute(engine, listen, check)

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
        chosen = self._choose(update, before)
        self.listen(chosen)
        if chosen.maintainer == RANKS:
            return self._ranks.apply(update, before, after)
        net = self._recompute.apply(update, before, after)
        self._ranks.forget()
        return net

    def _choose(self, update: Update, before: Program) -> MaintainerChosen:
        """The maintainer that is expected to be faster, and why."""
        changed = _count(update.removed) + _count(update.added)
        if changed <= SMALL:
            return FEW
        is_counted = self.engine.counters is Counters.RANK
        if not is_counted and not any(map(self.engine.instances_of, before.rules)):
            share = max(_shares(update, self.engine).values(), default=0.0)
            name = "recompute" if share > NEVER_COUNTED else RANKS
            return MaintainerChosen(name, f"nothing is counted yet, and {share:.1%} of a relation changes")
        predicted = predict(update, self._ranks.schedule(before), self.engine)
        cost = predicted.share * DEARER + (0 if is_counted else COUNTING)
        name = "recompute" if cost > 1 else RANKS
        return MaintainerChosen(name, f"about {predicted.share:.1%} of all instances are touched")


FEW = MaintainerChosen(RANKS, f"{SMALL} facts or fewer change")


def predict(update: Update, schedule: Schedule, engine: Maintainable) -> Prediction:
    """How many instances the update touches, if facts change evenly all over each relation."""
    shares = _shares(update, engine)
    touched, total = 0.0, 0
    for section in schedule.sections:
        if section.is_aggregate:
            _pass_on(section, shares, 0.0)
            continue
        instances = {rule: engine.instances_of(rule) for rule in section.before}
        lost = sum(count * _share_of_body(rule, section, shares) for rule, count in instances.items())
        all_instances = sum(instances.values())
        share = lost / all_instances if all_instances else 0.0
        share = 1 - (1 - min(share, 1.0)) ** engine.rounds_of(section.predicates)
        _pass_on(section, shares, share)
        touched += share * all_instances
        total += all_instances
    return Prediction(touched, total)


def _shares(update: Update, engine: Any) -> dict[str, float]:
    """The part of each relation that is explicitly removed or added."""
    shares = {}
    for name in {*update.removed, *update.added}:
        removed = update.removed[name].count if name in update.removed else 0
        added = update.added[name].count if name in update.added else 0
        size = engine.size(name)
        shares[name] = min(1.0, removed / max(size, 1) + added / max(size + added, 1))
    return shares


def _share_of_body(rule: Rule, section: Section, shares: Mapping[str, float]) -> float:
    """The part of a rule's instances that lower facts change."""
    kept = 1.0
    for atom in (*rule.positive, *rule.negated):
        if atom.predicate not in section.predicates:
            kept *= 1 - shares.get(atom.predicate, 0.0)
    return 1 - kept


def _pass_on(section: Section, shares: dict[str, float], share: float) -> None:
    """Let the section's predicates change by this share, or by that of their explicit facts."""
    if section.is_aggregate:
        share = max((_share_of_body(rule, section, shares) for rule in section.before), default=0.0)
    for predicate in section.predicates:
        shares[predicate] = max(share, shares.get(predicate, 0.0))


def _count(rows: Mapping[str, Any]) -> int:
    return sum(some.count for some in rows.values())
