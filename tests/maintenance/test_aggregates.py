"""Aggregates whose groups are known: rows are exchanged in accumulators, and all is as from scratch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.maintenance.columnar import ColumnarBench
from tests.maintenance.laboratory import Bench, Change, Facts, Laboratory, from_scratch
from tests.maintenance.scripts import stratified
from tests.maintenance.sets import Row
from tidelog.errors import EvaluationError
from tidelog.logic import values
from tidelog.logic.program import Program, Rule
from tidelog.logic.values import Kind, Value, integer
from tidelog.maintenance.registry import ALGORITHMS
from tidelog.maintenance.task import Algorithm

DECLARED = """
    @declare e(g: any, v: any, k: any) . @declare f(g: any, k: any) . @declare n(k: any) .
    @declare total(g: any, a: any) . @declare totals(g: any, a: any) . @declare mean(g: any, a: any) .
    @declare low(g: any, a: any) . @declare high(g: any, a: any) . @declare joined(g: any, a: any) .
    @declare many(g: any, a: any, b: any, c: any, d: any) . @declare whole(a: any, b: any, c: any) .
    @declare twice(g: any, a: any, b: any) . @declare peak(a: any) . @declare long(g: any, k: any, a: any) .
    @declare own(g: any, a: any) . @declare means(g: any, a: any, b: any) .
    @declare both(g: any, a: any, b: any) .
"""
RULES = """
    total(?g, #sum(?v)) :- e(?g, ?v, _) .
    totals(?g, #sum(?v, ?k)) :- e(?g, ?v, ?k) .
    mean(?g, #avg(?v, ?k)) :- e(?g, ?v, ?k), ~n(?k) .
    low(?g, #min(?v)) :- e(?g, ?v, _) .
    high(?g, #max(?v, ?k)) :- e(?g, ?v, ?k), f(?g, ?k) .
    joined(?g, #sum(?v)) :- f(?g, ?k), e(_, ?v, ?k) .
    many(?g, #count(?v, ?k), #sum(?v), #avg(?v, ?k), #max(?k)) :- e(?g, ?v, ?k) .
    whole(#count(?v), #min(?v), #max(?v)) :- e(_, ?v, _) .
    twice(?g, #sum(2), #count(?k)) :- e(?g, _, ?k) .
    peak(#sum(?t, ?g)) :- total(?g, ?t), ~n(?g) .
    long(?g, ?k, #sum(?w)) :- e(?g, ?v, ?k), ?w = STRLEN(STR(?v)) .
    own(?g, #sum(?g)) :- e(?g, _, _) .
    means(?g, #avg(?v), #min(?k)) :- e(?g, ?v, ?k), ~f(?g, _) .
    both(?g, #sum(?v, ?k), #avg(?v, ?k)) :- e(?g, ?v, ?k) .
"""
GROUPS = (0, 1, 2)
KEYS = range(6)


def decimal(mantissa: int, scale: int) -> Value:
    while scale and mantissa % 10 == 0:
        mantissa, scale = mantissa // 10, scale - 1
    return Value(Kind.DECIMAL, mantissa, scale)


def double(real: float) -> Value:
    return Value(Kind.DOUBLE, real + 0.0)


REALS = (0.1, -0.1, 0.0, 5e-324, 2.0**53, 1e22, 0.3, 1e16, -1e16, 1e308, -1e308)
EDGES = (2**63 - 1, -(2**63), 2**62, -(2**62), -(2**63) + 1)


# ---- what a history draws its values from


def integers(chance: Random) -> Value:
    return integer(chance.randint(-9, 9))


def decimals(chance: Random) -> Value:
    return decimal(chance.randint(-999, 999), chance.randint(0, 4))


def long_decimals(chance: Random) -> Value:
    return decimal(chance.randint(-(10**9), 10**9), chance.randint(0, 18))


def doubles(chance: Random) -> Value:
    return double(chance.choice((*REALS[:-2], chance.uniform(-9, 9))))


def large_doubles(chance: Random) -> Value:
    return double(chance.choice(REALS))


def infinities(chance: Random) -> Value:
    return double(chance.choice((math.inf, -math.inf)))


def edges(chance: Random) -> Value:
    return integer(chance.choice(EDGES))


def decimal_edges(chance: Random) -> Value:
    return decimal(chance.choice(EDGES), chance.randint(0, 18))


def beyond(chance: Random) -> Value:
    return integer(10**30 + chance.randint(0, 2))


def texts(chance: Random) -> Value:
    return values.string(chance.choice("abc"))


Draw = Callable[[Random], Value]
WELL_BEHAVED: Sequence[Sequence[Draw]] = ((integers,), (integers, decimals), (decimals, long_decimals))
PALETTES: Sequence[Sequence[Draw]] = (
    *WELL_BEHAVED,
    (doubles,),
    (integers, decimals, doubles),
    (integers, integers, doubles),
    (integers, doubles, large_doubles),
    (integers, doubles, infinities),
    (integers, integers, integers, edges),
    (decimals, decimal_edges, edges),
    (integers, integers, beyond),
    (integers, texts),
    (texts,),
    (integers, decimals, doubles, edges, texts),
)


class History:
    """Facts and rules that come and go: many values of few groups, so that groups are touched again."""

    def __init__(self, seed: int, most: int = 40, palettes: Sequence[Sequence[Draw]] = PALETTES) -> None:
        self.chance = Random(seed)
        self.palette = self.chance.choice(palettes)
        size = self.chance.choice((3, 12, most))
        # Of few values, projections of rows coincide; of many, each is the only one.
        self.values = [self.chance.choice(self.palette)(self.chance) for _ in range(max(2, size))]
        self.known = frozenset(self.fact() for _ in range(size))

    def fact(self) -> tuple[str, Row]:
        chance = self.chance
        group, key = integer(chance.choice(GROUPS)), integer(chance.choice(KEYS))
        name = chance.choice("eeeeeffn")
        if name == "e":
            return name, (group, chance.choice(self.values), key)
        return name, (group, key) if name == "f" else (key,)

    def step(self) -> None:
        """Change a few facts; now and then what a whole group has."""
        chance = self.chance
        added = {self.fact() for _ in range(chance.randint(0, 4))}
        removed = {*chance.sample(sorted(self.known), min(len(self.known), chance.randint(0, 4)))}
        if chance.random() < 0.15:
            group = integer(chance.choice(GROUPS))
            removed |= {fact for fact in self.known if fact[0] == "e" and fact[1][0] == group}
        self.known = (self.known - removed) | added

    @property
    def facts(self) -> Facts:
        names = {name for name, _ in self.known}
        return {name: frozenset(row for each, row in self.known if each == name) for name in names}


def program_of(rules: str = RULES) -> Program:
    """The program with these rules, and without facts."""
    return tl.parse(DECLARED + rules)


PROGRAM = program_of()
READABLE: Sequence[Algorithm] = tuple(ALGORITHMS.values())


class Trial(Laboratory):
    """A program whose facts change; an overflow is one from scratch too, and changes nothing."""

    def attempt(self, algorithm: Algorithm, change: Change) -> None:
        after = replace(self.program, rules=change.rules)
        try:
            from_scratch(after, change.explicit)
        except EvaluationError:
            driver = self.driver(algorithm)
            driver._prepare(self.program)
            state = self.bench.state()
            with pytest.raises(EvaluationError):
                driver.apply(self.update(change), self.program, self._after(change))
            assert self.bench.state() == state
            self.compare()
        else:
            self.apply(algorithm, change)


def start(history: History, rules: tuple[Rule, ...], make: Callable[..., Bench] = ColumnarBench) -> Trial:
    """A trial of a history whose first facts have all aggregates."""
    while True:
        try:
            from_scratch(replace(PROGRAM, rules=rules), history.facts)
        except EvaluationError:
            history.step()
            history.known = frozenset(list(history.known)[: len(history.known) // 2])
        else:
            return Trial(make, PROGRAM, Change(history.facts, rules))


def some_rules(chance: Random) -> tuple[Rule, ...]:
    return stratified(rule for rule in PROGRAM.rules if chance.random() < 0.6)


seeds = st.integers(0, 2**64 - 1)


@settings(max_examples=2 * settings().max_examples)
@given(seed=seeds)
def test_after_each_of_many_changes_all_is_as_from_scratch(seed: int) -> None:
    history = History(seed, most=150)
    rules = some_rules(history.chance)
    trial = start(history, rules)
    for _ in range(8):
        history.step()
        if history.chance.random() < 0.1:
            rules = some_rules(history.chance)
        trial.attempt(history.chance.choice(READABLE), Change(history.facts, rules))
