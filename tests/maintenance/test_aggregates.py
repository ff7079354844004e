"""Aggregates whose groups are known: rows are exchanged in accumulators, and all is as from scratch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.maintenance.columnar import ColumnarBench
from tests.maintenance.laboratory import Bench, Change, Facts, Laboratory, from_scratch
from tests.maintenance.scripts import stratified
from tests.maintenance.sets import Row
from tidelog.data.dictionary import Dictionary
from tidelog.engine.columnar.interpreter.aggregation import fold
from tidelog.engine.columnar.transactions import aggregates as module
from tidelog.engine.columnar.transactions import transactions
from tidelog.engine.columnar.transactions.accumulators import Accumulators
from tidelog.engine.flags import Flag
from tidelog.errors import EvaluationError
from tidelog.logic import values
from tidelog.logic.conversions import exact
from tidelog.logic.functions.builtins import Overflow
from tidelog.logic.program import Aggregation, Program, Rule, Variable
from tidelog.logic.values import Kind, Value, integer
from tidelog.maintenance.registry import ALGORITHMS
from tidelog.maintenance.task import Algorithm

DECLARED = """
    @declare e(g: any, v: any, k: any) . @declare f(g: any, k: any) . @declare n(k: any) .
    @declare total(g: any, a: any) . @declare totals(g: any, a: any) . @declare mean(g: any, a: any) .
    @declare low(g: any, a: any) . @declare high(g: any, a: any) . @declare joined(g: any, a: any) .
    @declare many(g: any, a: any, b: any, c: any, d: any) . @declare whole(a: any, b: any, c: any) .
    @declare twice(g: any, a: any, b: any) . @declare peak(a: any) . @declare long(g: any, k: any, a: any) .
    @declare once(a: any, b: any) . @declare own(g: any, a: any) . @declare means(g: any, a: any, b: any) .
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
    once(#sum(2), #count(?g)) :- e(?g, _, ?k), ~n(?k) .
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
WELL_BEHAVED: Sequence[Sequence[Draw]] = ((integers,), (integers, decimals), (decimals,))  # no overflow
PALETTES: Sequence[Sequence[Draw]] = (
    *WELL_BEHAVED,
    (decimals, long_decimals),
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


@given(seed=seeds)
def test_rows_that_change_are_the_same_on_every_engine(bench: Callable[..., Bench], seed: int) -> None:
    history = History(seed, most=20)
    rules = some_rules(history.chance)
    trial = start(history, rules, bench)
    for _ in range(5):
        history.step()
        trial.attempt(history.chance.choice(READABLE), Change(history.facts, rules))


@given(seed=seeds)
def test_whatever_event_stops_a_transaction_groups_are_as_before(seed: int) -> None:
    history = History(seed, palettes=(*WELL_BEHAVED, (doubles,)))
    trial = start(history, PROGRAM.rules)
    for _ in range(4):  # first groups become known
        history.step()
        trial.attempt(history.chance.choice(READABLE), Change(history.facts, PROGRAM.rules))
    for _ in range(2):
        history.step()
        at = 1
        algorithm = history.chance.choice(READABLE)
        while trial.interrupt(algorithm, Change(history.facts, PROGRAM.rules), at):
            at += history.chance.randint(1, 60)
        trial.compare()
        history.step()
        trial.attempt(algorithm, Change(history.facts, PROGRAM.rules))


@given(seed=seeds)
def test_groups_come_and_go_and_tombstones_are_removed(seed: int) -> None:
    history = History(seed, most=60)
    rules = some_rules(history.chance)
    trial = start(history, rules)
    with patch.object(module, "VACUUM_FROM", 2), patch.object(transactions, "COMPACT_FROM", 2):
        for known in trial_groups(trial):
            known.vacuum_at = 2
        for _ in range(8):
            history.step()
            trial.attempt(history.chance.choice(READABLE), Change(history.facts, rules))


def trial_groups(trial: Trial) -> list[module.KnownGroups]:
    """The groups that the engine of a trial knows."""
    return [*aggregates_of(trial)._known.values()]


def aggregates_of(trial: Trial) -> module.ColumnarAggregates:
    assert isinstance(trial.bench, ColumnarBench)
    return trial.bench.engine.aggregates


# ---- groups that are known stay known


@given(seed=seeds, name=st.sampled_from(sorted(ALGORITHMS)))
def test_a_group_is_folded_once(seed: int, name: str) -> None:
    """Of sums, counts and means of integers and decimals, whatever comes and goes."""
    history = History(seed, palettes=WELL_BEHAVED)
    rules = program_of(
        """
        total(?g, #sum(?v)) :- e(?g, ?v, _) .
        totals(?g, #sum(?v, ?k)) :- e(?g, ?v, ?k) .
        many(?g, #count(?v, ?k), #sum(?v), #avg(?v, ?k), #count(?k)) :- e(?g, ?v, ?k), ~n(?k) .
        joined(?g, #sum(?v)) :- f(?g, ?k), e(_, ?v, ?k) .
        """
    ).rules
    trial = start(history, rules)
    for _ in range(8):
        history.step()
        trial.attempt(ALGORITHMS[name], Change(history.facts, rules))
    assert aggregates_of(trial).folded <= len(GROUPS) * len(rules)


def test_doubles_have_digits_in_groups_of_many_rows() -> None:
    rules = program_of("both(?g, #sum(?v, ?k), #avg(?v, ?k)) :- e(?g, ?v, ?k) .").rules
    chance = Random(5)
    facts = frozenset((integer(0), doubles(chance), integer(key)) for key in range(100))
    trial = Trial(ColumnarBench, PROGRAM, Change({"e": facts}, rules))
    for number in range(30):
        # The first transaction without a double is an integer's or decimal's, then again a double's.
        drawn = (doubles, integers, decimals)[number % 3](chance)
        facts = (facts - set(chance.sample(sorted(facts), 2))) | {(integer(0), drawn, integer(number))}
        trial.attempt(ALGORITHMS["dred"], Change({"e": facts}, rules))
    trial.attempt(ALGORITHMS["dred"], Change({"e": frozenset()}, rules))
    few = {"e": frozenset([(integer(0), double(0.5), integer(1))])}
    trial.attempt(ALGORITHMS["dred"], Change(few, rules))
    known = aggregates_of(trial)
    assert known.exchanged > 0


def test_the_greatest_goes_again_and_again() -> None:
    rules = program_of("high(?g, #max(?v, ?k)) :- e(?g, ?v, ?k) . low(?g, #min(?v)) :- e(?g, ?v, _) .").rules
    facts = frozenset((integer(0), integer(number), integer(key)) for number in range(100) for key in (0, 1))
    trial = Trial(ColumnarBench, PROGRAM, Change({"e": facts}, rules))
    for _ in range(60):
        facts -= {max(facts), min(facts)}
        trial.attempt(ALGORITHMS["rank-counting"], Change({"e": facts}, rules))
    aggregates = aggregates_of(trial)
    assert aggregates.folded < aggregates.exchanged / 5


# ---- accumulators by themselves


OVERFLOW = -2  # in place of the id of a result


class Groups:
    """Accumulators of one aggregation, and the rows that groups have."""

    def __init__(self, function: str, groups: int) -> None:
        self.dictionary = Dictionary()
        self.accumulators = Accumulators(Aggregation(Variable("a"), function, (Variable("v"),)))
        self.accumulators.fit(groups)
        self.is_known = np.ones(groups, np.bool_)
        self.rows: list[Counter[int]] = [Counter() for _ in range(groups)]
        self.asked = 0

    def exchange(self, lost: list[tuple[int, int]], gained: list[tuple[int, int]]) -> None:
        """Exchange rows of group and id; each affected group must have the result of a fold."""
        for group, entry in gained:
            self.rows[group][entry] += 1
        for group, entry in lost:
            self.rows[group][entry] -= 1
        self._change([*gained, *lost], len(gained))
        affected = np.array(sorted({group for group, _ in (*gained, *lost)}), np.int64)
        is_asked = np.zeros(len(affected), np.bool_)
        self.accumulators.finish(self.dictionary, affected, is_asked)
        for group, is_unknown in zip(affected.tolist(), is_asked.tolist(), strict=True):
            expected = self._folded(group)
            if is_unknown:
                self.asked += 1
                self.accumulators.reset(np.array([group]))
                rows = [(group, entry) for entry in self.rows[group].elements()]
                self._change(rows, len(rows))
                self.accumulators.results[group] = expected  # groups whose fold is an error are asked again
            assert int(self.accumulators.results[group]) == expected

    def _change(self, rows: list[tuple[int, int]], gained: int) -> None:
        groups, ids = (
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows], np.int32),
        )
        self.accumulators.change(self.dictionary, groups, gained, ids, self.is_known)

    def _folded(self, group: int) -> int:
        ids = np.array([*self.rows[group].elements()], np.int32)
        numbers = np.zeros(len(ids), np.int32)
        if not len(ids):
            return -1
        try:
            return int(fold(self.accumulators.function, numbers, ids, 1, self.dictionary)[0])
        except Overflow:
            return OVERFLOW


@pytest.mark.parametrize("function", ["sum", "avg", "min", "max", "count"])
@given(seed=seeds, most=st.sampled_from([3, 30, 200]))
def test_an_exchange_has_the_result_of_a_fold(function: str, seed: int, most: int) -> None:
    chance = Random(seed)
    palette = chance.choice(PALETTES)
    groups = Groups(function, 3)
    known = [
        groups.dictionary.encode(chance.choice(palette)(chance)) for _ in range(chance.choice((2, 10, most)))
    ]
    for _ in range(20):
        gained = [(chance.randrange(3), chance.choice(known)) for _ in range(chance.randint(0, most))]
        lost = []
        for group, rows in enumerate(groups.rows):
            listed = sorted(rows.elements())
            lost += [(group, entry) for entry in chance.sample(listed, chance.randint(0, len(listed)))]
        groups.exchange(lost, gained)
        some = np.array([chance.randrange(3)])
        saved = groups.accumulators.saved(some)
        groups.accumulators.reset(some)
        groups.accumulators.restore(saved)
        if chance.random() < 0.2:
            groups.accumulators = groups.accumulators.only(np.arange(3))


@pytest.mark.parametrize("function", ["min", "max"])
def test_a_long_list_serves_a_group_of_many_rows(function: str) -> None:
    groups = Groups(function, 2)
    chance = Random(3)
    ids = [groups.dictionary.encode(integer(number)) for number in range(6000)]
    groups.exchange([], [(0, entry) for entry in ids] + [(1, entry) for entry in ids[:4096]])
    ordered = ids if function == "min" else ids[::-1]
    for place in range(0, 3000, 2):
        gained = [(0, chance.choice(ids))] if chance.random() < 0.3 else []
        groups.exchange([(0, ordered[place]), (0, ordered[place + 1])], gained)
    assert groups.asked <= 3
    short = ids[:4096] if function == "min" else ids[4095::-1]
    for place in range(100):
        groups.exchange([(1, short[place])], [])
    assert 5 <= groups.asked <= 10


# ---- what changes facts otherwise


SCRIPTS = program_of("""
    total(?g, #sum(?v)) :- e(?g, ?v, _) .
    many(?g, #count(?v, ?k), #sum(?v), #avg(?v, ?k), #max(?k)) :- e(?g, ?v, ?k), ~n(?k) .
    low(?g, #min(?v)) :- e(?g, ?v, _) .
    own(?g, ?a) :- total(?g, ?a), ?a > 5 .
    bottom() :- n(99) .
""")
EXTRA = "high(?g, #max(?a)) :- many(?g, ?a, _, _, _) ."


@settings(max_examples=2 * settings().max_examples)
@given(seed=seeds, maintainer=st.sampled_from(["auto", "rank-counting", "dred", "backward-forward"]))
def test_reasoners_come_to_the_same_whatever_is_between_transactions(seed: int, maintainer: str) -> None:
    history = History(seed, palettes=(*WELL_BEHAVED, (integers, doubles)))
    chance = history.chance
    reasoner = tl.Reasoner(SCRIPTS, maintainer=maintainer, threads=1)
    reasoner.apply(script(frozenset(), history.known))
    reasoner.materialise()
    has_extra = False
    with patch.object(transactions, "COMPACT_FROM", 4):
        for _ in range(8):
            before = history.known
            history.step()
            change = script(before, history.known)
            for _ in range(chance.randint(0, 2)):
                between(reasoner, change, chance)
            if chance.random() < 0.2:
                change += f"{'-' if has_extra else '+'} {EXTRA}\n"
                has_extra = not has_extra
            reasoner.apply(change)
            fresh = tl.Reasoner(reasoner.program, threads=1)
            fresh.apply(script(frozenset(), history.known))
            for name in ("total", "many", "low", "own", "high"):
                assert set(reasoner[name]) == set(fresh[name]), name


def between(reasoner: tl.Reasoner, change: str, chance: Random) -> None:
    """Do something that changes no facts in the end."""
    match chance.randrange(4):
        case 0:
            reasoner.what_if(change)
        case 1:
            with pytest.raises(tl.Inconsistent):
                reasoner.apply(f"{change} + n(99) .")
        case 2:
            reasoner.query(
                "?- total(?g, ?a), many(?g, ?n, _, _, _) .", chance.choice(["full", "magic", "lookup"])
            )
        case 3:
            # As a route that knows nothing of aggregates: facts come, and others go.
            storage = reasoner.engine.storage
            columns = storage.rows("e").columns
            if len(columns[0]):
                row = [column[:1].copy() for column in columns]
                storage.remove("e", row, 1)
                storage.add("e", row, 1)


def script(before: frozenset[tuple[str, Row]], after: frozenset[tuple[str, Row]]) -> str:
    """What changes some facts into others, as text."""
    lines = [("-", fact) for fact in sorted(before - after)] + [
        ("+", fact) for fact in sorted(after - before)
    ]
    return "".join(f"{sign} {name}({', '.join(map(exact, row))}) .\n" for sign, (name, row) in lines)


@pytest.mark.parametrize("way", ["removed", "added", "cleared", "exchanged", "renamed"])
def test_facts_that_change_outside_transactions_make_groups_unknown(way: str) -> None:
    rules = program_of("total(?g, #sum(?v)) :- e(?g, ?v, _) .").rules
    facts = frozenset((integer(0), integer(number), integer(0)) for number in range(5))
    trial = Trial(ColumnarBench, PROGRAM, Change({"e": facts}, rules))
    trial.apply(ALGORITHMS["dred"], Change({"e": facts | {(integer(0), integer(7), integer(0))}}, rules))
    assert isinstance(trial.bench, ColumnarBench)
    engine = trial.bench.engine
    storage, aggregates = engine.storage, aggregates_of(trial)
    [known] = trial_groups(trial)
    assert known.is_known[0]
    rows = trial.bench.encode({"e": frozenset([(integer(0), integer(3), integer(0))])})["e"]
    if way == "removed":
        storage.remove("e", *rows)
    elif way == "added":
        storage.remove("e", *rows)
        storage.add("e", *rows)  # as many as before
    elif way == "cleared":
        everything = storage.rows("e")
        columns, count = [column.copy() for column in everything.columns], everything.count
        storage.clear("e")
        storage.add("e", columns, count)
    elif way == "exchanged":
        engine.replacement.forget_derived(["e"])
    else:
        storage.rename("e", "e elsewhere")
        storage.rename("e elsewhere", "e")
    engine.changes.begin()
    engine.changes.roll_back()
    assert not trial_groups(trial)
    engine.changes.begin()
    engine.changes.commit()
    assert aggregates not in engine.changes.participants


def test_a_transaction_that_exchanges_no_rows_makes_groups_unknown() -> None:
    rules = program_of("total(?g, #sum(?v)) :- e(?g, ?v, _) .").rules
    facts = frozenset((integer(0), integer(number), integer(0)) for number in range(5))
    trial = Trial(ColumnarBench, PROGRAM, Change({"e": facts}, rules))
    trial.apply(ALGORITHMS["dred"], Change({"e": facts | {(integer(0), integer(7), integer(0))}}, rules))
    engine = trial.bench.engine
    [row] = trial.bench.encode({"e": frozenset([(integer(0), integer(3), integer(0))])}).values()
    for is_there in (False, True):
        engine.changes.begin()
        fact = engine.changes.facts("e", *row, create=False)
        flags = {"set" if is_there else "clear": Flag.ALIVE | Flag.EXPLICIT}
        engine.changes.mark(fact, **flags)
        engine.changes.commit()
        assert not trial_groups(trial)
