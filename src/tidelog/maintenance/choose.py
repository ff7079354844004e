"""Choosing for each update how it is worked in, from what it is expected to touch.

Rank counting looks at the instances that change, recomputation at all that may, but faster at each: beyond a
share of the instances it is cheaper to begin anew. The share is predicted stratum by stratum, from the
numbers of instances that were counted, and the part of each relation that changes. A stratum that a structure
keeps has no instances: its pairs are counted in their place.

Invariant: either way the result is the same; only the time differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.engine.events import Listener, MaintainerChosen
from tidelog.engine.maintaining import Counters, Maintainable, OutOfReach
from tidelog.logic.program import Program, Rule
from tidelog.maintenance.algorithms import ALGORITHMS
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.maintainer import Check, NetChange, Update
from tidelog.maintenance.recompute import Recompute
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.task import Section
from tidelog.rewrite.aggregates import SEPARATOR

SMALL = 16  # so few facts are worked in without thinking about it
DEARER = 1.6  # what an instance costs in rank counting, measured by what it costs in recomputation
COUNTING = 0.1  # what counting anew costs, shared by the updates that are expected to profit from it
NEVER_COUNTED = 0.25  # the share of explicit facts from which on counting for the first time does not pay

LITTLE = 1e-6  # a share so small that more would touch no more than in proportion
FETCHED = 10_000  # facts of which so many change are not fetched for it one by one

RANKS = "rank-counting"
NOT_COUNTED = "dred"  # where counting would mean to hold all facts


@dataclass(frozen=True, slots=True)
class Prediction:
    """How many instances an update is expected to touch, of how many in the strata that it may change.

    `counted` are those of them that would have to be counted if none were.
    """

    touched: float
    total: int
    counted: int
    most: str = ""  # a predicate of the stratum in which most are touched

    @property
    def share(self) -> float:
        """The part of the instances that is touched."""
        return self.touched / self.total if self.total else 0.0

    def is_dear(self, is_counted: bool) -> bool:
        """Whether rank counting would cost more than recomputation."""
        counting = 0.0 if is_counted else COUNTING * self.counted
        return DEARER * self.touched + counting > self.total

    def __str__(self) -> str:
        where = f", most of {self.most}" if self.most else ""
        return f"about {self.share:.1%} of the instances concerned are touched{where}"


class Auto:
    """Rank counting for most updates, recomputation for large ones.

    Where the facts lie elsewhere, too many to come, what small updates touch is deleted and rederived.
    """

    name = "auto"

    def __init__(self, engine: Any, listen: Listener, check: Check, modules: bool = True) -> None:
        self.engine: Maintainable = engine
        self.listen = listen
        self._ranks = Driver(ALGORITHMS[RANKS], engine, listen, check, modules)
        self._recompute = Recompute(engine, listen, check, modules)
        self._fetching: Driver | None = None  # made where facts lie elsewhere
        self._make = partial(Driver, ALGORITHMS[NOT_COUNTED], engine, listen, check, modules)
        self._weighed: tuple[tuple[Rule, ...], int, Slopes] | None = None

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
        chosen = self._choose(update, before)
        self.listen(chosen)
        if chosen.maintainer == RANKS:
            return self._ranks.apply(update, before, after)
        if chosen.maintainer == NOT_COUNTED:
            try:
                self._fetching = self._fetching or self._make()
                return self._fetching.apply(update, before, after)
            except OutOfReach:
                self.listen(OUT_OF_REACH)
        net = self._recompute.apply(update, before, after)
        for driver in (self._ranks, self._fetching):
            if driver is not None:
                driver.forget()
        return net

    def _choose(self, update: Update, before: Program) -> MaintainerChosen:
        """The maintainer that is expected to be faster, and why."""
        changed = _count(update.removed) + _count(update.added)
        if not self.engine.is_resident:
            are_rules = update.rules_removed or update.rules_added
            return MANY_ELSEWHERE if are_rules or changed > FETCHED else FEW_ELSEWHERE
        if changed <= SMALL:
            return FEW
        is_counted = self.engine.counters is Counters.RANK
        if not is_counted and not self.engine.counts:
            share = max(_shares(update, self.engine).values(), default=0.0)
            name = "recompute" if share > NEVER_COUNTED else RANKS
            return MaintainerChosen(name, f"nothing is counted yet, and {share:.1%} of a relation changes")
        slopes = self._slopes(before)
        shares = _shares(update, self.engine)
        at_most = slopes.at_most(shares)
        if not at_most.is_dear(is_counted):
            return MaintainerChosen(RANKS, f"at most {at_most}")
        predicted = predict(shares, _count(update.added), slopes.weights, self.engine)
        name = "recompute" if predicted.is_dear(is_counted) else RANKS
        return MaintainerChosen(name, str(predicted))

    def _slopes(self, program: Program) -> Slopes:
        """What the strata would cost, weighed anew when rules have changed or instances were counted.

        After a recomputation what was counted before is good enough; a schedule would have to be made.
        """
        rules, counts = program.rules, self.engine.counts
        if self._weighed is None or self._weighed[0] is not rules or self._weighed[1] != counts:
            weights = weigh(self._ranks.schedule(program), self.engine)
            self._weighed = rules, counts, Slopes(weights, self.engine)
        return self._weighed[2]


ELSEWHERE = "there are more facts than one process is to hold"
MANY_ELSEWHERE = MaintainerChosen(
    "recompute", f"{ELSEWHERE}, and rules change or more than {FETCHED:,} facts"
)
FEW_ELSEWHERE = MaintainerChosen(NOT_COUNTED, f"{ELSEWHERE}: what few changes touch is fetched")
OUT_OF_REACH = MaintainerChosen("recompute", f"{ELSEWHERE}, and this update touches too many of them")
FEW = MaintainerChosen(RANKS, f"{SMALL} facts or fewer change")


@dataclass(frozen=True, slots=True)
class Weight:
    """What a stratum would cost: its instances by the predicates that they read, and its rounds.

    Where instances are not counted, by structures and aggregates, the facts of `measured` stand for them.
    """

    predicates: tuple[str, ...]
    instances: tuple[tuple[tuple[str, ...], int], ...]
    read: frozenset[str]
    counted: int
    rounds: int
    measured: tuple[str, ...] = ()

    def total(self, engine: Maintainable) -> int:
        """How many instances there are, or what stands for them."""
        return self.counted or max(map(engine.size, self.measured), default=0)


def weigh(schedule: Schedule, engine: Maintainable) -> tuple[Weight, ...]:
    """The weights of all strata, from what was counted last."""
    return tuple(_weight(section, engine) for section in schedule.sections)


def _weight(section: Section, engine: Maintainable) -> Weight:
    if section.closure is not None:
        read = (section.closure.source, *section.predicates)
        return Weight(section.predicates, ((read, 0),), frozenset(read), 0, 1, section.predicates)
    instances = tuple((_read(rule), engine.instances_of(rule)) for rule in section.before)
    total = sum(count for _, count in instances)
    names = frozenset(name for names, _ in instances for name in names)
    return Weight(
        section.predicates, instances, names, total, engine.rounds_of(section.predicates), tuple(names)
    )


def _read(rule: Rule) -> tuple[str, ...]:
    return tuple(atom.predicate for atom in (*rule.positive, *rule.negated))


def predict(
    shares: Mapping[str, float], added: int, weights: tuple[Weight, ...], engine: Maintainable
) -> Prediction:
    """How many instances an update touches, if facts change evenly all over each relation."""
    kept = {name: 1 - share for name, share in shares.items()}
    touched, total, counted = 0.0, 0, 0
    most, where = 0.0, ""
    for weight in weights:
        counted += weight.counted
        if kept.keys().isdisjoint(weight.read):
            continue
        # Where there is nothing yet, there will be as much as comes.
        share, own = _share(weight, kept), weight.total(engine) or added
        touched += share * own
        total += own
        if share * own > most:
            most, where = share * own, weight.predicates[0].partition(SEPARATOR)[0]
        for predicate in weight.predicates:
            kept[predicate] = min(1 - share, kept.get(predicate, 1.0))
    return Prediction(touched, total, counted, where)


class Slopes:
    """How fast the prediction grows with the share of each relation that changes. Mutates itself.

    To predict costs as much as to work in fifty facts. The prediction is concave in the shares, so that its
    slope at nothing, times the share, is no less: where that is small, nothing more need be known.
    """

    def __init__(self, weights: tuple[Weight, ...], engine: Maintainable) -> None:
        self.weights = weights
        self._engine = engine
        self._alone: dict[str, Prediction] = {}  # what a little of one relation touches

    def at_most(self, shares: Mapping[str, float]) -> Prediction:
        """No fewer instances than are predicted, of no more."""
        touched, most, total, counted, where = 0.0, 0.0, 0, 0, ""
        for name, share in shares.items():
            alone = self._of(name)
            own = alone.touched * share / LITTLE
            touched += own
            if own >= most:
                most, where = own, alone.most
            total, counted = max(total, alone.total), alone.counted
        return Prediction(touched, total, counted, where)

    def _of(self, name: str) -> Prediction:
        if name not in self._alone:
            self._alone[name] = predict({name: LITTLE}, 0, self.weights, self._engine)
        return self._alone[name]


def _share(weight: Weight, kept: Mapping[str, float]) -> float:
    """The part of a stratum's instances that changes, if these parts of what they read are kept."""
    changed, most = 0.0, 0.0
    for read, count in weight.instances:
        unchanged = 1.0
        for predicate in read:
            unchanged *= kept.get(predicate, 1.0)
        changed += (1 - unchanged) * count
        most = max(most, 1 - unchanged)
    share = changed / weight.counted if weight.counted else most
    return float(1 - (1 - share) ** weight.rounds)


def _shares(update: Update, engine: Any) -> dict[str, float]:
    """The part of each relation that is explicitly removed or added."""
    shares = {name: min(1.0, rows.count / max(engine.size(name), 1)) for name, rows in update.removed.items()}
    for name, rows in update.added.items():
        share = rows.count / (engine.size(name) + rows.count)
        shares[name] = min(1.0, shares.get(name, 0.0) + share)
    return shares


def _count(rows: Mapping[str, Any]) -> int:
    return sum(some.count for some in rows.values())
