"""Where relations lie: a home for each derived one, the copies that rules read, and a plan for each rule.

The cost of an arrangement is the number of rows that are sent, and of those that are stored beside the homes.
Homes are found by hill climbing, from the first argument of each relation, and from the arguments that
recursions keep: in `reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z)` the first, so that with `edge` at every
task nothing is sent.

Invariant: a step with a key reads at least one relation that lies at the key's owner, so that each of its
matches is found at that task and at no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidelog.logic.program import Atom, Program, Rule, Term, Variable
from tidelog.logic.strata import Stratum, strata
from tidelog.rewrite.localise_plans import COPYING, Plan, Read, Step, plans_of
from tidelog.rewrite.localise_sizes import SMALL, Estimates, spread

PASSES: Final = 3  # over all homes in hill climbing


class Fixed(Enum):
    """A place that does not depend on a fact's arguments."""

    EVERYWHERE = "every task"
    FIRST = "task 0"


EVERYWHERE, FIRST = Fixed.EVERYWHERE, Fixed.FIRST
Place = int | Fixed  # an argument whose owner has the fact, or a fixed place


@dataclass(frozen=True, slots=True)
class Chosen:
    """The plan of a rule with the place of each relation that it reads."""

    plan: Plan
    places: tuple[tuple[Place | None, ...], ...]  # of the reads of each step; None for tests
    gathered: Place | None  # where the rows of an aggregate are gathered, if the last step does not have them
    sent: float  # the estimated cost of what is sent, copies apart

    def copies(self) -> Iterator[tuple[str, Place]]:
        """Return the copies that the plan reads."""
        for step, places in zip(self.plan.steps, self.places, strict=True):
            for read, place in zip(step.reads, places, strict=True):
                if read.atom is not None and place is not None:
                    yield read.atom.predicate, place


@dataclass(frozen=True)
class Arrangement:
    """Homes, copies, and what each rule does."""

    homes: Mapping[str, Place]
    chosen: tuple[Chosen, ...]  # for each rule
    copies: Mapping[str, tuple[Place, ...]]  # of each predicate, its home first
    cost: float


def arrange(
    program: Program, estimates: Estimates, tasks: int, auxiliary: frozenset[str] = frozenset()
) -> Arrangement:
    """Return the cheapest arrangement that hill climbing finds.

    Homes cost nothing, for each fact must lie somewhere, except for those of auxiliary predicates.
    """
    plans = tuple(plans_of(rule, estimates, tasks) for rule in program.rules)
    first: dict[str, Place] = {
        name: 0 if program.predicates[name].arity else EVERYWHERE for name in sorted(program.derived)
    }
    starts = [first, {**first, **kept_arguments(strata(program.rules))}]
    found = []
    for start in starts if starts[0] != starts[1] else starts[:1]:
        arranging = _Arranging(program, plans, estimates, tasks, dict(start), auxiliary)
        arranging.climb()
        found.append(arranging.arrangement())
    return min(found, key=lambda arrangement: arrangement.cost)


def is_aligned(terms: Sequence[Term], place: Place, key: Term | None) -> bool:
    """Whether what a step with this key derives lies at its place already."""
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
            tries = (_kept_from(stratum, first.predicate, place) for place in range(len(first.terms)))
            kept.update(next((found for found in tries if found), {}))
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
        plans: Sequence[Sequence[Plan]],
        estimates: Estimates,
        tasks: int,
        homes: dict[str, Place],
        auxiliary: frozenset[str],
    ) -> None:
        self.program = program
        self.rules = program.rules
        self.plans = plans
        self.estimates = estimates
        self.tasks = tasks
        self.homes = homes
        self.auxiliary = auxiliary
        self.uses: Counter[tuple[str, Place]] = Counter()  # how many rules read a copy
        self.chosen: dict[int, Chosen] = {}
        self.touching = _rules_by_predicate(program.rules)
        for _ in range(2):  # the second time each rule knows the copies that all others read
            self._choose_all(range(len(self.rules)))

    def climb(self) -> None:
        """Move homes, the largest relations first, as long as that makes the arrangement cheaper."""
        names = sorted(self.homes, key=lambda name: (-self.estimates.rows(name), name))
        best = self.cost()
        for _ in range(PASSES):
            before = best
            for name in names:
                for home in self._possible_homes(name):
                    best = self._try(name, home, best)
            if best == before:
                return

    def _possible_homes(self, name: str) -> list[Place]:
        arity = self.program.predicates[name].arity
        if not arity or self.estimates.rows(name) <= SMALL:
            return [*range(arity), EVERYWHERE]
        return list(range(arity))

    def _try(self, name: str, home: Place, best: float) -> float:
        """Move one home if that is cheaper, and return the cost."""
        before = self.homes[name]
        if home == before:
            return best
        rules = self.touching.get(name, ())
        chosen = {number: self.chosen[number] for number in rules}
        self.homes[name] = home
        self._choose_all(rules)
        cost = self.cost()
        if cost < best:
            return cost
        self.homes[name] = before
        for number, earlier in chosen.items():
            self._replace(number, earlier)
        return best

    def cost(self) -> float:
        """Return the estimated rows that are sent, or stored beside those of the homes."""
        copies = self.uses.keys() | self.homes.items()
        return sum(map(self._copy_cost, copies)) + sum(chosen.sent for chosen in self.chosen.values())

    def arrangement(self) -> Arrangement:
        """Return the arrangement as it is now."""
        copies: dict[str, dict[Place, None]] = {name: {home: None} for name, home in self.homes.items()}
        for name, place in sorted(self.uses, key=lambda copy: (copy[0], *_order(copy[1]))):
            copies.setdefault(name, {})[place] = None
        for name, predicate in self.program.predicates.items():
            copies.setdefault(name, {0 if predicate.arity else EVERYWHERE: None})
        chosen = tuple(self.chosen[number] for number in range(len(self.rules)))
        return Arrangement(
            dict(self.homes), chosen, {name: tuple(places) for name, places in copies.items()}, self.cost()
        )

    # ---- the plan of one rule

    def _choose_all(self, rules: Iterable[int]) -> None:
        for number in rules:
            self._replace(number, None)
            choices = [self._placed(number, plan) for plan in self.plans[number]]
            self._replace(number, min(choices, key=self._added_cost))

    def _replace(self, number: int, chosen: Chosen | None) -> None:
        """Choose another plan for a rule, and count the copies that it reads."""
        for copy in set(self.chosen[number].copies()) if number in self.chosen else ():
            self.uses[copy] -= 1
            if not self.uses[copy]:
                del self.uses[copy]
        if chosen is None:
            self.chosen.pop(number, None)
        else:
            self.chosen[number] = chosen
            self.uses.update(set(chosen.copies()))

    def _added_cost(self, chosen: Chosen) -> float:
        """Return what a plan costs beside what all other rules do."""
        new = {copy for copy in chosen.copies() if not self._exists(*copy)}
        return chosen.sent + sum(map(self._copy_cost, new))

    def _exists(self, name: str, place: Place) -> bool:
        return self.homes.get(name) == place or (name, place) in self.uses

    def _copy_cost(self, copy: tuple[str, Place]) -> float:
        name, place = copy
        rows = self.estimates.rows(name)
        held = spread(rows, self.tasks) if place is EVERYWHERE else rows
        if self.homes.get(name) != place:
            return COPYING * held
        return held if name in self.auxiliary else held - rows

    def _placed(self, number: int, plan: Plan) -> Chosen:
        """Return the plan with the cheapest places for what it reads."""
        places = []
        carried: tuple[Variable, ...] = ()
        reads = [read for step in plan.steps for read in step.reads]
        whole = {read.atom.predicate for read in reads if read.atom is not None and not read.arguments}
        for step in plan.steps:
            places.append(self._places(step, whole, is_anchored=step.key in carried))
            carried = step.kept
        gathered, sent = self._sending(self.rules[number], plan.last)
        return Chosen(plan, tuple(places), gathered, plan.moved + sent)

    def _places(self, step: Step, whole: set[str], is_anchored: bool) -> tuple[Place | None, ...]:
        """Return the places of a step's reads: copies that exist, if one read is at the key's owner."""
        anchor = None if is_anchored else self._anchor(step)
        return tuple(self._place(read, whole, is_free=read is not anchor) for read in step.reads)

    def _anchor(self, step: Step) -> Read | None:
        """Return the read that stays at the key's owner whatever copies there are: the largest."""
        divided = [read for read in step.reads if isinstance(read.literal, Atom) and read.arguments]
        return max(divided, key=lambda read: self.estimates.rows(read.literal.predicate), default=None)

    def _place(self, read: Read, whole: set[str], is_free: bool) -> Place | None:
        if read.atom is None:
            return None
        name = read.atom.predicate
        if not read.arguments:
            return EVERYWHERE
        existing = [argument for argument in read.arguments if self._exists(name, argument)]
        if not existing and is_free and (name in whole or self._exists(name, EVERYWHERE)):
            return EVERYWHERE
        return existing[0] if existing else read.arguments[0]

    # ---- what a rule sends

    def _sending(self, rule: Rule, last: Step) -> tuple[Place | None, float]:
        """Return where the rows of an aggregate are gathered, and the estimated cost of sending."""
        home = self.homes[rule.head.predicate]
        if not rule.aggregations:
            is_here = last.key is None or is_aligned(rule.head.terms, home, last.key)
            return None, 0.0 if is_here else self._sent(last.rows, home)
        heads = min(last.rows, self.estimates.rows(rule.head.predicate))
        results = self._sent(heads, home)
        if last.key in rule.group:
            return None, 0.0 if is_aligned(rule.head.terms, home, last.key) else results
        gathering = last.rows if last.key is None else COPYING * last.rows
        if not rule.group:
            return FIRST, gathering + results
        for place, variable in enumerate(rule.group):
            if is_aligned(rule.head.terms, home, variable):
                return place, gathering
        return 0, gathering + results

    def _sent(self, rows: float, place: Place) -> float:
        return spread(rows, self.tasks) if place is EVERYWHERE else rows


def _rules_by_predicate(rules: Sequence[Rule]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of the rules in which each predicate stands."""
    found: dict[str, dict[int, None]] = {}
    for number, rule in enumerate(rules):
        for atom in (rule.head, *rule.positive, *rule.negated):
            found.setdefault(atom.predicate, {})[number] = None
    return {name: tuple(numbers) for name, numbers in found.items()}


def _order(place: Place) -> tuple[bool, int]:
    """Arguments first, in order: what is divided is the better home."""
    return (False, place) if isinstance(place, int) else (True, 0)
