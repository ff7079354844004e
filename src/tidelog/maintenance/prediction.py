"""What an update is expected to touch, before anything is done: stratum by stratum, in instances of rules.

The part of each relation that changes is passed on to whatever reads it, as if facts were spread evenly. How
many instances a rule has is known where they were counted, else estimated from the sizes of what it reads. A
stratum that a structure keeps has no instances: its pairs are counted in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.engine.maintaining import Maintainable
from tidelog.logic.program import Rule, Variable
from tidelog.maintenance.maintainer import Update
from tidelog.maintenance.schedule import Schedule
from tidelog.maintenance.task import Section
from tidelog.plan.join_order import growth
from tidelog.rewrite.splitting import SEPARATOR

DEARER = 1.6  # what an instance costs in rank counting, measured by what it costs in recomputation
COUNTING = 0.1  # what counting anew costs, shared by the updates that are expected to profit from it
LITTLE = 1e-6  # a share so small that more would touch no more than in proportion

Instances = Callable[[Rule], int]


@dataclass(frozen=True, slots=True)
class Prediction:
    """How many instances an update is expected to touch, of how many in the strata that it may change.

    `counted` are those of them that would have to be counted if none were.
    """

    touched: float
    total: int
    counted: int
    most: str = ""  # a predicate of the stratum in which most are touched
    strata: int = 0  # those that may change

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

    @property
    def is_recursive(self) -> bool:
        """Whether instances read the stratum itself."""
        return not self.read.isdisjoint(self.predicates)

    def total(self, engine: Maintainable) -> int:
        """How many instances there are, or what stands for them.

        After a recomputation auxiliary relations are not there, until a maintainer makes them again.
        """
        if self.counted:
            return self.counted
        there = engine.relations()
        return max((engine.size(name) for name in self.measured if name in there), default=0)


def weigh(schedule: Schedule, engine: Maintainable, instances_of: Instances) -> tuple[Weight, ...]:
    """The weights of all strata, in their order."""
    return tuple(_weight(section, engine, instances_of) for section in schedule.sections)


def estimated_instances(rule: Rule, engine: Any) -> int:
    """About how many instances a rule has, if values are spread evenly over the facts that it reads."""
    bound: set[Variable] = set()
    rows = 1.0
    for atom in rule.positive:
        new = {term for term in atom.terms if isinstance(term, Variable)} - bound
        rows *= growth(atom, bound, engine)[0] * (1 if new else 2)  # which makes tests cheaper than they are
        bound |= new
    return int(rows)


def _weight(section: Section, engine: Maintainable, instances_of: Instances) -> Weight:
    if section.closure is not None:
        read = (section.closure.source, *section.predicates)
        return Weight(section.predicates, ((read, 0),), frozenset(read), 0, 1, section.predicates)
    instances = tuple((_read(rule), instances_of(rule)) for rule in section.before)
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
    touched, total, counted, strata = 0.0, 0, 0, 0
    most, where = 0.0, ""
    for weight in weights:
        counted += weight.counted
        if kept.keys().isdisjoint(weight.read):
            continue
        # Where there is nothing yet, there will be as much as comes.
        share, own = _share(weight, kept), weight.total(engine) or added
        touched += share * own
        total += own
        strata += 1
        if share * own > most:
            most, where = share * own, weight.predicates[0].partition(SEPARATOR)[0]
        for predicate in weight.predicates:
            kept[predicate] = min(1 - share, kept.get(predicate, 1.0))
    return Prediction(touched, total, counted, where, strata)


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


def shares_of(update: Update, engine: Any) -> dict[str, float]:
    """The part of each relation that is explicitly removed or added."""
    shares = {name: min(1.0, rows.count / max(engine.size(name), 1)) for name, rows in update.removed.items()}
    for name, rows in update.added.items():
        share = rows.count / (engine.size(name) + rows.count)
        shares[name] = min(1.0, shares.get(name, 0.0) + share)
    return shares


def count(rows: Mapping[str, Any]) -> int:
    return sum(some.count for some in rows.values())
