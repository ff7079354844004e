"""Scenarios by seed: the random programs of the other tests, with histories as long as they are worth.

A statement is a fact or a rule as text. A transaction toggles statements: what holds is deleted,
what does not is added. So every subset of a scenario is a scenario, which is what makes shrinking simple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.equality import scripts as equality
from tests.maintenance import scripts as maintenance
from tests.strategies import EVERYTHING, VARIABLES, cases, distinct
from tests.temporal import test_changes as temporal
from tests.temporal.test_procedures import PREDICATES as TIMED
from tests.temporal.test_procedures import facts as timed_facts
from tests.temporal.test_procedures import rules as timed_rules
from tidelog.logic.program import Rule

T = TypeVar("T")
Fact = Callable[[], str]
LENGTH = (20, 70)  # transactions: most of the time goes into the first ones, for which plans are made
RULES_CHANGE = 0.04  # the share of transactions in which rules come or go: they cost most


@dataclass(frozen=True)
class Question:
    """A query of one atom, whose answers can be read off all facts."""

    predicate: str
    terms: tuple[str, ...]

    @property
    def text(self) -> str:
        """The query as it is asked."""
        return f"{self.predicate}({', '.join(self.terms)})"

    @property
    def variables(self) -> tuple[str, ...]:
        """Its variables, each once."""
        return tuple(dict.fromkeys(term for term in self.terms if term.startswith("?")))


@dataclass(frozen=True)
class Scenario:
    """A program, what each transaction toggles, and what is asked meanwhile."""

    family: str
    declared: str
    begun: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    questions: tuple[Question, ...]
    closes: bool = False  # whether closures are kept by structures however few pairs there are
    splits: bool = False  # whether bodies of three literals are long, and maintained in pieces

    @property
    def is_timed(self) -> bool:
        """Whether facts have times."""
        return self.family == "time"

    def program(self, state: Sequence[str]) -> str:
        """The whole program with these statements."""
        return "\n".join((self.declared, *state)) + "\n"


@dataclass(frozen=True)
class Pool:
    """What a scenario is drawn from."""

    declared: str
    rules: tuple[str, ...]
    fact: Fact
    arities: dict[str, int]
    constants: Sequence[str]
    always: tuple[str, ...] = ()  # rules that never go
    facts: int = 16  # how many there are at first, at most

    def stratified(self, rules: Sequence[str]) -> list[str]:
        """As many of the rules as are stratified, the first ones."""
        meant = {line: _rules(self.declared, line) for line in rules}
        kept = set(maintenance.stratified(rule for some in meant.values() for rule in some))
        return [line for line, some in meant.items() if kept.issuperset(some)]


def scenario(number: int, families: Sequence[str] = ()) -> Scenario:
    """The scenario of a seed."""
    chance = Random(number)
    family = chance.choice(families or FAMILIES_BY_WEIGHT)
    pool = POOLS[family](number, chance)
    rules = pool.stratified([rule for rule in pool.rules if chance.random() < 0.8])
    facts = [pool.fact() for _ in range(chance.randint(0, pool.facts))]
    begun = tuple(dict.fromkeys((*pool.always, *rules, *facts)))
    state = set(begun)
    steps = []
    for _ in range(chance.randint(*LENGTH)):
        toggled = _toggled(pool, state, chance)
        state ^= set(toggled)
        steps.append(toggled)
    questions = tuple(dict.fromkeys(_question(pool, chance) for _ in range(chance.randint(1, 4))))
    closes, splits = chance.random() < 0.5, chance.random() < 0.2
    return Scenario(family, pool.declared, begun, tuple(steps), questions, closes, splits)


def _toggled(pool: Pool, state: set[str], chance: Random) -> tuple[str, ...]:
    """What a transaction toggles: a few facts, at times many, at times rules."""
    many = chance.random() < 0.08
    facts = {pool.fact() for _ in range(chance.randint(8, 24) if many else chance.randint(0, 3))}
    known = sorted(state.difference(pool.rules, pool.always))
    facts ^= set(chance.sample(known, min(len(known), chance.randint(0, 12 if many else 3))))
    rules: list[str] = []
    if pool.rules and chance.random() < RULES_CHANGE:
        rules = chance.sample(pool.rules, chance.randint(1, min(3, len(pool.rules))))
    toggled = [*sorted(facts), *rules]
    chance.shuffle(toggled)
    return tuple(toggled)


def _question(pool: Pool, chance: Random) -> Question:
    name = chance.choice(sorted(pool.arities))
    terms = (*VARIABLES[:2], *VARIABLES, chance.choice(pool.constants))
    return Question(name, tuple(chance.choice(terms) for _ in range(pool.arities[name])))


# ---- what they are drawn from


def _random_pool(number: int, chance: Random) -> Pool:
    """A random program with everything."""
    case = distinct(drawn(cases(EVERYTHING), number))

    def fact() -> str:
        name = chance.choice(sorted(case.arities))
        return _written(name, [chance.choice(EVERYTHING.constants) for _ in range(case.arities[name])])

    return Pool(case.declared, case.rules, fact, dict(case.arities), EVERYTHING.constants)


def _drawn_from(text: str, stated: tuple[str, ...], least: int) -> Callable[[int, Random], Pool]:
    """Some rules of a text, not all of them stratified together; most facts are of the stated predicates."""

    def pool(number: int, chance: Random) -> Pool:
        declared, lines, arities = _parts(text)

        def fact() -> str:
            name = chance.choice((*arities, *stated * (20 // len(stated))))
            return _written(name, [chance.choice(maintenance.NODES) for _ in range(arities[name])])

        rules = tuple(chance.sample(lines, chance.randint(least, len(lines))))
        return Pool(declared, rules, fact, arities, maintenance.NODES)

    return pool


@cache
def _parts(text: str) -> tuple[str, tuple[str, ...], dict[str, int]]:
    """The declarations of a text, its rules, and the arities of its predicates."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    declared = "\n".join(line for line in lines if line.startswith("@"))
    predicates = tl.parse(declared).predicates.values()
    rules = tuple(line for line in lines if not line.startswith("@"))
    return declared, rules, {predicate.name: predicate.arity for predicate in predicates}


@cache
def _rules(declared: str, line: str) -> tuple[Rule, ...]:
    return tl.parse(f"{declared}\n{line}").rules


def _equal_pool(number: int, chance: Random) -> Pool:
    """Rules that equate, rules below them, and rules that read what is equal."""
    parts = ((equality.EQUATING, 2), (equality.BELOW, 3), (equality.ABOVE, 3))
    rules = [rule for some, most in parts for rule in chance.sample(some, chance.randint(0, most))]
    constants = "abcdefg"

    def fact() -> str:
        name = chance.choice(("r", "r", "s", "u", "same", "t", "equal"))
        return _written(name, [chance.choice(constants) for _ in range(equality.ARITIES[name])])

    return Pool(
        equality.DECLARED,
        tuple(rules),
        fact,
        equality.ARITIES,
        constants,
        always=(equality.ALWAYS,),
        facts=10,
    )


def _timed_pool(number: int, chance: Random) -> Pool:
    """Rules over time."""
    rules, facts = drawn(
        st.tuples(
            st.lists(timed_rules(False), min_size=1, max_size=4, unique=True),
            st.lists(timed_facts(), min_size=8, max_size=16, unique=True),
        ),
        number,
    )
    return Pool(temporal.DECLARED, tuple(rules), lambda: chance.choice(facts), TIMED, "ab", facts=8)


def _written(name: str, terms: Sequence[str]) -> str:
    return f"{name}({', '.join(terms)}) ."


def drawn(strategy: st.SearchStrategy[T], number: int) -> T:
    """What hypothesis draws with this seed; its first example is always the simplest one, so the second."""
    found: list[T] = []

    @seed(number)
    @settings(
        max_examples=2,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def take(value: T) -> None:
        found.append(value)

    take()
    return found[-1]


POOLS: dict[str, Callable[[int, Random], Pool]] = {
    "random": _random_pool,
    "graph": _drawn_from(maintenance.GRAPH, ("edge",), 2),
    "closures": _drawn_from(maintenance.CLOSURES, ("edge", "link", "key", "part"), 8),
    "tangled": _drawn_from(maintenance.TANGLED, ("e", "f"), 3),
    "equality": _equal_pool,
    "time": _timed_pool,
}
FAMILIES_BY_WEIGHT = ("random", "random", "graph", "graph", "closures", "tangled", "equality", "time")
