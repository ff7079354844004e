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

    def __init__(self, engine: Any, listen: Listener, check: Check, modules: bool = True) -> None:
        self.engine: Maintainable = engine
        self.listen = listen
        self._ranks = Driver(ALGORITHMS[RANKS], engine, listen, check, modules)
        self._recompute = Recompute(engine, listen, check, modules)
        self._weighed: tuple[Schedule, int, tuple[Weight, ...]] | None = None

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
        if not self.engine.is_resident:
            return TOO_LARGE
        changed = _count(update.removed) + _count(update.added)
        if changed <= SMALL:
            return FEW
        is_counted = self.engine.counters is Counters.RANK
        if not is_counted and not self.engine.counts:
            share = max(_shares(update, self.engine).values(), default=0.0)
            name = "recompute" if share > NEVER_COUNTED else RANKS
            return MaintainerChosen(name, f"nothing is counted yet, and {share:.1%} of a relation changes")
        predicted = predict(update, self._weights(before), self.engine)
        cost = predicted.share * DEARER + (0 if is_counted else COUNTING)
        name = "recompute" if cost > 1 else RANKS
        return MaintainerChosen(name, f"about {predicted.share:.1%} of all instances are touched")

    def _weights(self, program: Program) -> tuple[Weight, ...]:
        """What the strata would cost, weighed anew when rules have changed or instances were counted."""
        schedule, counted = self._ranks.schedule(program), self.engine.counts
        if self._weighed is None or self._weighed[0] is not schedule or self._weighed[1] != counted:
            self._weighed = schedule, counted, weigh(schedule, self.engine)
        return self._weighed[2]


TOO_LARGE = MaintainerChosen("recompute", "there are more facts than one process is to hold")
FEW = MaintainerChosen(RANKS, f"{SMALL} facts or fewer change")


@dataclass(frozen=True, slots=True)
class Weight:
    """What a stratum would cost: its instances by the predicates that they read, and its rounds."""

    predicates: tuple[str, ...]
    instances: tuple[tuple[tuple[str, ...], int], ...]
    read: frozenset[str]
    total: int
    rounds: int


def weigh(schedule: Schedule, engine: Maintainable) -> tuple[Weight, ...]:
    """The weights of all strata, from what was counted last."""
    return tuple(_weight(section, engine) for section in schedule.sections)


def _weight(section: Section, engine: Maintainable) -> Weight:
    instances = tuple((_read(rule), engine.instances_of(rule)) for rule in section.before)
    total = sum(count for _, count in instances)
    read = frozenset(name for names, _ in instances for name in names)
    return Weight(section.predicates, instances, read, total, engine.rounds_of(section.predicates))


def _read(rule: Rule) -> tuple[str, ...]:
    return tuple(atom.predicate for atom in (*rule.positive, *rule.negated))


def predict(update: Update, weights: tuple[Weight, ...], engine: Maintainable) -> Prediction:
    """How many instances the update touches, if facts change evenly all over each relation."""
    kept = {name: 1 - share for name, share in _shares(update, engine).items()}
    touched, total = 0.0, 0
    for weight in weights:
        total += weight.total
        if kept.keys().isdisjoint(weight.read):
            continue
        share = _share(weight, kept)
        if share:
            touched += share * weight.total
            for predicate in weight.predicates:
                kept[predicate] = min(1 - share, kept.get(predicate, 1.0))
    return Prediction(touched, total)


def _share(weight: Weight, kept: Mapping[str, float]) -> float:
    """The part of a stratum's instances that changes, if these parts of what they read are kept."""
    changed, most = 0.0, 0.0
    for read, count in weight.instances:
        unchanged = 1.0
        for predicate in read:
            unchanged *= kept.get(predicate, 1.0)
        changed += (1 - unchanged) * count
        most = max(most, 1 - unchanged)
    # The instances of an auxiliary relation are not counted.
    share = changed / weight.total if weight.total else most
    return float(1 - (1 - share) ** weight.rounds)


def _shares(update: Update, engine: Any) -> dict[str, float]:
    """The part of each relation that is explicitly removed or added."""
    shares = {}
    for name in {*update.removed, *update.added}:
        removed = update.removed[name].count if name in update.removed else 0
        added = update.added[name].count if name in update.added else 0
        size = engine.size(name)
        shares[name] = min(1.0, removed / max(size, 1) + added / max(size + added, 1))
    return shares


def _count(rows: Mapping[str, Any]) -> int:
    return sum(some.count for some in rows.values())
