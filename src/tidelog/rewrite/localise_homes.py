"""Where relations lie: a home for each derived one, the copies that rules read, and a plan for each rule.

The cost of an arrangement is the number of rows that are sent, and of those that are stored in addition to
the homes. Homes are found by hill climbing, from the first argument of each relation, and from the arguments
that recursions keep: in `reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z)` the first, so that with `edge` at
every task nothing is sent.

Invariant: a step with a key reads at least one relation that lies at the key's owner, so that each of its
matches is found at that task and at no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain
from math import inf
from typing import Final

from tidelog.logic.program import Atom, Program, Rule, Term, Variable
from tidelog.logic.strata import Stratum
from tidelog.logic.type_inference import Inferred
from tidelog.records import dataclass
from tidelog.rewrite.localise_plans import (
    COPYING,
    SMALL,
    DistributedPlan,
    Estimates,
    JoinStep,
    StepRead,
    plans_of,
    spread,
    target,
)
from tidelog.rewrite.localise_rules import dividing_variables, is_divided_by, is_mergeable, types_in

PASSES: Final = 3  # over all homes in hill climbing
SKEWED_FROM: Final = 10_000  # rows of groups for which their skew matters …
MANY: Final = 4  # … if there are this many times more of them than partial results of all tasks
RECURSIVE: Final = 2  # rows sent by a recursive rule cost this many times as much: they also cost rounds


class Fixed(Enum):
    """A place that does not depend on a fact's arguments."""

    EVERYWHERE = "every task"
    FIRST = "task 0"


EVERYWHERE, FIRST = Fixed.EVERYWHERE, Fixed.FIRST
Place = int | Fixed  # an argument whose owner has the fact, or a fixed place


@dataclass(frozen=True, slots=True)
class Chosen:
    """The plan of a rule with the place of each relation that it reads."""

    plan: DistributedPlan
    places: tuple[tuple[Place | None, ...], ...]  # of the reads of each step; None for tests
    gathered: Place | None  # where the rows of an aggregate are gathered, if the last step does not have them
    merged: Place | None  # where partial results of an aggregate are merged, if it is computed in parts
    sent: float  # the estimated cost of sending, without copies
    copies: frozenset[tuple[str, Place]]  # that the plan reads


@dataclass(frozen=True)
class Arrangement:
    """The homes and copies of relations, and the plan of each rule."""

    homes: Mapping[str, Place]
    chosen: tuple[Chosen, ...]  # for each rule
    copies: Mapping[str, tuple[Place, ...]]  # of each predicate, its home first
    cost: float


@dataclass(frozen=True, slots=True)
class _Shape:
    """A plan, with what does not depend on where relations lie."""

    plan: DistributedPlan
    reads: tuple[StepRead, ...]  # of all steps
    whole: frozenset[str]  # predicates of which a step reads all facts
    anchors: tuple[StepRead | None, ...]  # of each step, the read that stays at the key's owner

    @staticmethod
    def of(plan: DistributedPlan, estimates: Estimates) -> _Shape:
        reads = tuple(read for step in plan.steps for read in step.reads)
        whole = frozenset(
            read.atom.predicate for read in reads if read.atom is not None and not read.arguments
        )
        anchors: list[StepRead | None] = []
        carried: tuple[Variable, ...] = ()
        for step in plan.steps:
            anchors.append(None if step.key in carried else _anchor(step, estimates))
            carried = step.kept
        return _Shape(plan, reads, whole, tuple(anchors))


def arrange(
    program: Program,
    parts: Sequence[Stratum],
    estimates: Estimates,
    tasks: int,
    auxiliary: frozenset[str] = frozenset(),
) -> Arrangement:
    """Return the cheapest arrangement that hill climbing finds; `parts` are the strata of the program.

    Homes cost nothing, for each fact must lie somewhere, except for those of auxiliary predicates.
    """
    plans = tuple(
        tuple(_Shape.of(plan, estimates) for plan in plans_of(rule, estimates, tasks))
        for rule in program.rules
    )
    first: dict[str, Place] = {
        name: 0 if program.predicates[name].arity else EVERYWHERE for name in sorted(program.derived)
    }
    recursive = _recursive_rules(program.rules, parts)
    inferred = types_in(program, estimates.sizes.types)
    starts = [first, {**first, **kept_arguments(parts)}]
    arrangements = []
    for start in starts if starts[0] != starts[1] else starts[:1]:
        arranging = _Arranging(program, plans, estimates, tasks, dict(start), auxiliary, recursive, inferred)
        arranging.climb()
        arrangements.append(arranging.arrangement())
    return min(arrangements, key=lambda arrangement: arrangement.cost)


def is_aligned(terms: Sequence[Term], place: Place, key: Term | None) -> bool:
    """Whether the results of a step with this key already lie at their place."""
    if isinstance(place, int):
        return key is not None and terms[place] == key
    return place is EVERYWHERE and key is None


# ---- arguments that recursions keep


def kept_arguments(parts: Iterable[Stratum]) -> dict[str, int]:
    """Return an argument of each recursive predicate that all recursive rules keep, if there is one."""
    kept: dict[str, int] = {}
    for stratum in parts:
        if stratum.recursive:
            first = stratum.rules[0].head
            positions = range(len(first.terms))
            candidates = (_kept_from(stratum, first.predicate, position) for position in positions)
            kept.update(next(filter(None, candidates), {}))
    return kept


def _kept_from(stratum: Stratum, predicate: str, place: int) -> dict[str, int]:
    """Return the arguments in which a stratum keeps this argument of one of its predicates, or nothing."""
    kept = {predicate: place}
    waiting = [predicate]
    while waiting:
        name = waiting.pop()
        for rule in (each for each in stratum.rules if each.head.predicate == name):
            term = rule.head.terms[kept[name]]
            for atom in (each for each in rule.positive if each.predicate in stratum.predicates):
                places = [
                    at for at, each in enumerate(atom.terms) if each == term and isinstance(each, Variable)
                ]
                if not places or kept.get(atom.predicate, places[0]) not in places:
                    return {}
                if atom.predicate not in kept:
                    kept[atom.predicate] = places[0]
                    waiting.append(atom.predicate)
    return kept


# ---- hill climbing


class _Arranging:
    """An arrangement that is being improved. Mutable."""

    def __init__(
        self,
        program: Program,
        plans: Sequence[Sequence[_Shape]],
        estimates: Estimates,
        tasks: int,
        homes: dict[str, Place],
        auxiliary: frozenset[str],
        recursive: frozenset[int],
        inferred: Inferred,
    ) -> None:
        self.program = program
        self.rules = program.rules
        self.plans = plans
        self.estimates = estimates
        self.tasks = tasks
        self.homes = homes
        self.auxiliary = auxiliary
        self.uses: dict[str, Counter[Place]] = {name: Counter() for name in program.predicates}  # by rules
        self.chosen: dict[int, Chosen] = {}
        self.touching = _rules_by_predicate(program.rules)
        self.recursive = recursive
        self.skew = _suspected(program.rules, estimates)
        self.inferred = inferred
        # By shape, home of the head, and places of the reads.
        self._placed_plans: dict[tuple[int, Place, tuple[tuple[Place | None, ...], ...]], Chosen] = {}
        for _ in range(2):  # the second time each rule knows the copies that all others read
            self._choose_all(range(len(self.rules)))

    def climb(self) -> None:
        """Move homes, the largest relations first, as long as that makes the arrangement cheaper."""
        names = sorted(self.homes, key=lambda name: (-self.estimates.rows(name), name))
        for _ in range(PASSES):
            improvements = [self._try(name, home) for name in names for home in self._possible_homes(name)]
            if not any(improvements):
                return

    def _possible_homes(self, name: str) -> list[Place]:
        arity = self.program.predicates[name].arity
        if not arity or self.estimates.rows(name) <= SMALL:
            return [*range(arity), EVERYWHERE]
        return list(range(arity))

    def _try(self, name: str, home: Place) -> bool:
        """Move one home if that is cheaper; return whether it was moved."""
        previous = self.homes[name]
        if home == previous:
            return False
        rules = self.touching[name]
        names = {name for number in rules for name in _relations(self.rules[number])}
        previous_plans = {number: self.chosen[number] for number in rules}
        cost = self._cost(rules, names)
        self.homes[name] = home
        self._choose_all(rules)
        if self._cost(rules, names) < cost:
            return True
        self.homes[name] = previous
        for number, earlier in previous_plans.items():
            self._replace(number, earlier)
        return False

    def _cost(self, rules: Iterable[int], names: Iterable[str]) -> float:
        """Return the rows that rules send, and those of copies of relations in addition to their homes."""
        sent = sum(self.chosen[number].sent for number in rules)
        return sent + sum(self._copy_cost(name, place) for name in names for place in self._all_places(name))

    def _all_places(self, name: str) -> set[Place]:
        home = self.homes.get(name)
        return set(self.uses[name]) if home is None else {home, *self.uses[name]}

    def arrangement(self) -> Arrangement:
        """Return the arrangement as it is now."""
        copies = {name: self._ordered_places(name) for name in self.program.predicates}
        chosen = tuple(self.chosen[number] for number in range(len(self.rules)))
        return Arrangement(dict(self.homes), chosen, copies, self._cost(range(len(self.rules)), copies))

    def _ordered_places(self, name: str) -> tuple[Place, ...]:
        """Return where a relation lies, its home first; of a given one that is where it is divided."""
        places = sorted(
            self._all_places(name), key=lambda place: (place != self.homes.get(name), *_order(place))
        )
        return tuple(places) or (0 if self.program.predicates[name].arity else EVERYWHERE,)

    # ---- the plan of one rule

    def _choose_all(self, rules: Iterable[int]) -> None:
        """Choose the cheapest plan of each rule, given the plans of all others."""
        for number in rules:
            self._replace(number, None)
            best, cost = None, inf
            for shape in self.plans[number]:
                if shape.plan.moved < cost:  # else it is no cheaper, whatever it reads
                    chosen = self._placed(number, shape)
                    added = self._added_cost(chosen)
                    best, cost = (chosen, added) if added < cost or best is None else (best, cost)
            self._replace(number, best)

    def _replace(self, number: int, chosen: Chosen | None) -> None:
        """Choose another plan for a rule, and count the copies that it reads."""
        earlier = self.chosen.pop(number, None)
        for name, place in earlier.copies if earlier is not None else ():
            self.uses[name][place] -= 1
            if not self.uses[name][place]:
                del self.uses[name][place]
        if chosen is not None:
            self.chosen[number] = chosen
            for name, place in chosen.copies:
                self.uses[name][place] += 1

    def _added_cost(self, chosen: Chosen) -> float:
        """Return what a plan costs in addition to all other rules."""
        return chosen.sent + sum(self._copy_cost(*copy) for copy in chosen.copies if not self._exists(*copy))

    def _exists(self, name: str, place: Place) -> bool:
        return self.homes.get(name) == place or place in self.uses[name]

    def _copy_cost(self, name: str, place: Place) -> float:
        rows = self.estimates.rows(name)
        stored = spread(rows, self.tasks) if place is EVERYWHERE else rows
        if isinstance(place, int):  # rows of heavy values lie at one task, as if that were at all of them
            stored += self.tasks * self.estimates.sizes.heavy.get((name, place), 0)
        if self.homes.get(name) != place:
            return COPYING * stored
        return stored if name in self.auxiliary else stored - rows

    def _placed(self, number: int, shape: _Shape) -> Chosen:
        """Return the plan with the cheapest places for what it reads."""
        plan = shape.plan
        places = tuple(
            self._places(step, shape.whole, anchor)
            for step, anchor in zip(plan.steps, shape.anchors, strict=True)
        )
        home = self.homes[self.rules[number].head.predicate]
        cached = self._placed_plans.get((id(shape), home, places))
        if cached is not None:
            return cached
        gathered, merged, sent = self._sending(self.rules[number], plan.last)
        copies = frozenset(
            (read.atom.predicate, place)
            for read, place in zip(shape.reads, chain(*places), strict=True)
            if read.atom is not None and place is not None
        )
        weight = RECURSIVE if number in self.recursive else 1
        chosen = Chosen(plan, places, gathered, merged, weight * (plan.moved + sent), copies)
        self._placed_plans[id(shape), home, places] = chosen
        return chosen

    def _places(
        self, step: JoinStep, whole: frozenset[str], anchor: StepRead | None
    ) -> tuple[Place | None, ...]:
        """Return the places of a step's reads: copies that exist, if one read is at the key's owner."""
        return tuple([self._place(read, whole, is_free=read is not anchor) for read in step.reads])

    def _place(self, read: StepRead, whole: frozenset[str], is_free: bool) -> Place | None:
        if read.atom is None:
            return None
        name = read.atom.predicate
        if not read.arguments:
            return EVERYWHERE
        home, uses = self.homes.get(name), self.uses[name]
        for argument in read.arguments:
            if argument == home or argument in uses:
                return argument
        if is_free and (name in whole or home is EVERYWHERE or EVERYWHERE in uses):
            return EVERYWHERE
        return read.arguments[0]

    # ---- rows that a rule sends

    def _sending(self, rule: Rule, last: JoinStep) -> tuple[Place | None, Place | None, float]:
        """Return where an aggregate's rows are gathered, where partial results are merged, and the cost."""
        home = self.homes[rule.head.predicate]
        if not rule.aggregations:
            is_here = last.key is None or is_aligned(rule.head.terms, home, last.key)
            return None, None, 0.0 if is_here else self._sent(last.rows, home)
        heads = min(last.rows, self.estimates.rows(rule.head.predicate))
        results = self._sent(heads, home)
        parts = COPYING * min(last.rows, heads * self.tasks)
        skew = max((self.skew.get(read.atom.predicate, 0) for read in last.reads if read.atom), default=0)
        is_risky = last.rows > SKEWED_FROM and (MANY * parts <= COPYING * last.rows or skew > 0)
        can_merge = self.tasks > 1 and last.key is not None and is_mergeable(rule, self.inferred)
        if last.key in rule.group:
            cost = 0.0 if is_aligned(rule.head.terms, home, last.key) else results
            if can_merge and is_risky and self._is_derived(last):
                # The size of the largest group is unknown, so prefer dividing it at the same cost.
                cost += parts + 1 + self.tasks * skew
            return None, None, cost
        owner, results = self._owner(rule, home, results)
        if can_merge and is_divided_by(rule, last.key):
            return None, owner, parts + results
        gathering = last.rows if last.key is None else COPYING * last.rows
        if can_merge and is_risky and (dividing := dividing_variables(rule)):
            return target(rule).index(dividing[0]), owner, gathering + parts + results
        return owner, None, gathering + results

    def _owner(self, rule: Rule, home: Place, results: float) -> tuple[Place, float]:
        """Return at which argument's owner a group is, and what it costs to send its results from there."""
        if not rule.group:
            return FIRST, results
        for position, variable in enumerate(rule.group):
            if is_aligned(rule.head.terms, home, variable):
                return position, 0.0
        return 0, results

    def _is_derived(self, step: JoinStep) -> bool:
        """Whether a step reads derived facts where its key is owned: their skew is unknown."""
        return any(
            read.atom is not None and read.arguments and read.atom.predicate in self.homes
            for read in step.reads
        )

    def _sent(self, rows: float, place: Place) -> float:
        return spread(rows, self.tasks) if place is EVERYWHERE else rows


def _anchor(step: JoinStep, estimates: Estimates) -> StepRead | None:
    """Return the read that stays at the key's owner whatever copies there are: the largest."""
    divided = [
        (estimates.rows(read.literal.predicate), read)
        for read in step.reads
        if isinstance(read.literal, Atom) and read.arguments
    ]
    return max(divided, key=lambda pair: pair[0], default=(0.0, None))[1]


def _rules_by_predicate(rules: Sequence[Rule]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of the rules in which each predicate occurs."""
    numbers_of: dict[str, dict[int, None]] = {}
    for number, rule in enumerate(rules):
        for name in _relations(rule):
            numbers_of.setdefault(name, {})[number] = None
    return {name: tuple(rules_numbers) for name, rules_numbers in numbers_of.items()}


def _suspected(rules: Sequence[Rule], estimates: Estimates) -> Mapping[str, int]:
    """Return how many rows of a derived relation may have the same value in some column.

    That is how many have a frequent value in a given relation from which it is derived: the value may be
    joined with others, or be left out of the head.
    """
    skew: dict[str, int] = {}
    for (name, _), rows in estimates.sizes.heavy.items():
        skew[name] = max(skew.get(name, 0), rows)
    reading: dict[str, set[str]] = {}
    for rule in rules:
        for atom in rule.positive:
            reading.setdefault(atom.predicate, set()).add(rule.head.predicate)
    for name, rows in sorted(skew.items(), key=lambda pair: -pair[1]):
        waiting, seen = [name], {name}
        while waiting:
            further = reading.get(waiting.pop(), set()) - seen
            skew.update({reader: max(skew.get(reader, 0), rows) for reader in further})
            seen |= further
            waiting += further
    return skew


def _recursive_rules(rules: Sequence[Rule], parts: Iterable[Stratum]) -> frozenset[int]:
    """Return the numbers of the rules whose heads depend on themselves through the body."""
    stratum_of = {name: number for number, part in enumerate(parts) for name in part.predicates}
    return frozenset(
        number
        for number, rule in enumerate(rules)
        if any(stratum_of.get(atom.predicate) == stratum_of[rule.head.predicate] for atom in rule.positive)
    )


def _relations(rule: Rule) -> tuple[str, ...]:
    return (rule.head.predicate, *rule.read)


def _order(place: Place) -> tuple[bool, int]:
    """Sort arguments first: a partitioned relation is the better home."""
    return (False, place) if isinstance(place, int) else (True, 0)
