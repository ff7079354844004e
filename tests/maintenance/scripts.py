"""Random changes: programs with a pool of rules, and transactions that let facts and rules come and go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import tidelog as tl
from tests.maintenance.laboratory import Change
from tests.maintenance.sets import Row
from tests.strategies import EVERYTHING, cases
from tidelog.logic.conversions import exact, read_exact
from tidelog.logic.program import Program, Rule
from tidelog.logic.strata import cycles
from tidelog.plan.rule_text import Writing

NODES = ("0", "1", "2", "3", "4")
SEEDS = st.integers(0, 2**64 - 1)

# Recursion of every kind over a small graph, and what reads it.
GRAPH = """
    @declare edge(x: any, y: any) . @declare reach(x: any, y: any) . @declare node(x: any) .
    @declare even(x: any, y: any) . @declare odd(x: any, y: any) . @declare apart(x: any, y: any) .
    @declare sink(x: any) . @declare degree(x: any, n: any) . @declare heavy(x: any) .
    @declare total(n: any) . @declare next(n: any) .
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
    reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) .
    reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) .
    reach(?y, ?x) :- reach(?x, ?y) .
    even(?x, ?z) :- odd(?x, ?y), edge(?y, ?z) .
    odd(?x, ?y) :- edge(?x, ?y) .
    odd(?x, ?z) :- even(?x, ?y), edge(?y, ?z) .
    odd(?z, ?w) :- odd(?x, ?y), edge(?y, ?z), ?w = STRLEN(STR(?x)), CONTAINS(STR(?y), "1") .
    even(?x, ?y) :- node(?x), node(?y), ~reach(?x, ?y) .
    node(?x) :- edge(?x, _) .
    node(?x) :- edge(_, ?x) .
    sink(?x) :- node(?x), ~edge(?x, _) .
    apart(?x, ?y) :- node(?x), node(?y), ~reach(?x, ?y), ?x != ?y .
    apart(?x, ?z) :- apart(?x, ?y), apart(?y, ?z), ~sink(?x) .
    degree(?x, #count(?y)) :- reach(?x, ?y) .
    heavy(?x) :- degree(?x, ?n), ?n > 2 .
    total(#sum(?n, ?x)) :- degree(?x, ?n), ~heavy(?x) .
    next(?n) :- total(?m), ?n = ?m + 1 .
    next(?n) :- next(?m), ?n = ?m + 1, ?n < 9 .
    heavy(?x) :- reach(?x, ?y), heavy(?y), next(?y) .
"""
# Closures of every kind, on top of each other, what reads them, and what entangles them.
CLOSURES = """
    @declare edge(x: any, y: any) . @declare link(x: any, y: any) . @declare key(x: any, y: any) .
    @declare reach(x: any, y: any) . @declare walk(x: any, y: any) . @declare same(x: any, y: any) .
    @declare part(x: any, y: any) . @declare up(x: any, y: any) . @declare alike(x: any, y: any) .
    @declare far(x: any, y: any) . @declare degree(x: any, n: any) . @declare class(x: any) .
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
    walk(?x, ?y) :- edge(?x, ?y) .
    walk(?x, ?z) :- walk(?x, ?y), walk(?y, ?z) .
    walk(?x, ?z) :- edge(?x, ?y), walk(?y, ?z) .
    walk(?x, ?y) :- part(?y, ?x) .
    same(?x, ?z) :- same(?x, ?y), same(?y, ?z) .
    same(?y, ?x) :- same(?x, ?y) .
    same(?x, ?y) :- link(?x, ?y) .
    same(?x, ?y) :- key(?x, ?k), key(?y, ?k), ?x != ?y .
    part(?x, ?z) :- part(?x, ?y), part(?y, ?z) .
    up(?x, ?z) :- up(?x, ?y), up(?y, ?z) .
    up(?x, ?y) :- reach(?x, ?y), ~same(?x, ?y) .
    alike(?x, ?z) :- alike(?y, ?z), alike(?x, ?y) .
    alike(?x, ?y) :- alike(?y, ?x) .
    alike(?x, ?n) :- degree(?x, ?n), class(?x) .
    alike(#min(?y), ?x) :- walk(?x, ?y) .
    degree(?x, #count(?y)) :- walk(?x, ?y) .
    far(?x, ?y) :- edge(?x, _), edge(_, ?y), ~reach(?x, ?y) .
    class(?x) :- same(?x, ?x), ~part(?x, ?x) .
    link(?x, ?y) :- walk(?x, ?y), key(?y, ?y) .
    walk(?x, ?y) :- same(?x, ?y), class(?y) .
    edge(?x, ?y) :- part(?x, ?y), link(?y, ?x) .
    reach(?x, ?y) :- walk(?x, ?y), class(?x) .
"""
# Rules that are not stratified together, while many subsets are.
TANGLED = """
    @declare e(x: any) . @declare f(x: any) . @declare p(x: any) .
    @declare q(x: any) . @declare r(x: any) . @declare s(x: any) .
    p(?x) :- e(?x), ~q(?x) .
    q(?x) :- e(?x), ~p(?x) .
    p(?x) :- q(?x), f(?x) .
    q(?x) :- p(?x), f(?x) .
    r(?x) :- p(?x), ~s(?x) .
    s(?x) :- q(?x), ~r(?x) .
    s(?x) :- r(?x), f(?x) .
    p(#count(?x)) :- s(?x) .
"""


@dataclass(frozen=True, repr=False)
class Script:
    """A program, its explicit facts and rules at first, and after each transaction."""

    program: Program
    start: Change
    changes: tuple[Change, ...]

    def __repr__(self) -> str:
        writing = Writing.of(self.program)
        return "\n".join(_written(change, writing) for change in (self.start, *self.changes))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As hypothesis writes it."""
        printer.text(repr(self))


@dataclass(frozen=True)
class Pool:
    """What changes are drawn from."""

    program: Program
    rules: tuple[Rule, ...]
    facts: tuple[tuple[str, Row], ...]  # that are explicit at first
    constants: Sequence[str]
    stated: tuple[str, ...] = ()  # predicates that explicit facts are often of


@st.composite
def program_scripts(draw: DrawFn) -> Script:
    """Scripts over random programs."""
    return _script(draw(random_pools()), draw(SEEDS))


@st.composite
def graph_scripts(draw: DrawFn) -> Script:
    """Scripts over recursion of every kind on a small graph."""
    seed = draw(SEEDS)
    return _script(_some_of_graph(seed), seed)


@st.composite
def closure_scripts(draw: DrawFn) -> Script:
    """Scripts over closures."""
    seed = draw(SEEDS)
    pool = _pool(CLOSURES, ("edge", "link", "key", "part"))
    chance = Random(seed)
    return _script(replace(pool, rules=_some(pool.rules, 12, chance)), seed)


@st.composite
def tangled_scripts(draw: DrawFn) -> Script:
    """Scripts over rules of which some are not stratified together."""
    return _script(_pool(TANGLED, ("efpqrs",)), draw(SEEDS))


@st.composite
def random_pools(draw: DrawFn) -> Pool:
    """A random program."""
    case = draw(cases(EVERYTHING))
    facts = tuple((name, tuple(map(read_exact, row))) for name, rows in case.facts.items() for row in rows)
    program = tl.parse(case.text)
    return Pool(program, program.rules, facts, EVERYTHING.constants)


def _some_of_graph(seed: int) -> Pool:
    """Some of the rules over a graph."""
    chance = Random(seed)
    pool = _pool(GRAPH, ("edge",))
    return replace(pool, rules=_some(pool.rules, 2, chance))


def _some(rules: tuple[Rule, ...], least: int, chance: Random) -> tuple[Rule, ...]:
    """Some of the rules, in any order."""
    return tuple(chance.sample(rules, chance.randint(least, len(rules))))


@cache
def _pool(text: str, stated: tuple[str, ...]) -> Pool:
    """A pool of rules that need not be stratified together; explicit facts are often those of `stated`."""
    lines = [line for line in text.splitlines() if line.strip()]
    declared = "".join(line for line in lines if line.lstrip().startswith("@"))
    rules = tuple(rule for line in lines for rule in tl.parse(f"{declared}\n{line}").rules)
    return Pool(tl.parse(declared), rules, (), NODES, stated * (20 // len(stated)))


def _script(pool: Pool, seed: int) -> Script:
    """A script from a pool: hypothesis would draw too few facts for anything to happen."""
    chance = Random(seed)
    known = frozenset((*pool.facts, *(_fact(pool, chance) for _ in range(chance.randint(0, 16)))))
    rules = stratified(rule for rule in pool.rules if chance.random() < 0.8)
    changes = [Change(_by_predicate(known), rules)]
    for _ in range(chance.randint(1, 5)):
        known ^= {_fact(pool, chance) for _ in range(chance.randint(0, 3))}
        known -= {*chance.sample(sorted(known), chance.randint(0, min(3, len(known))))}
        if chance.random() < 0.3:
            flipped = chance.sample(pool.rules, chance.randint(1, min(3, len(pool.rules))))
            rules = stratified(rule for rule in pool.rules if (rule in rules) != (rule in flipped))
        changes.append(Change(_by_predicate(known), rules))
    return Script(pool.program, changes[0], tuple(changes[1:]))


def _fact(pool: Pool, chance: Random) -> tuple[str, Row]:
    predicates = pool.program.predicates
    name = chance.choice((*predicates, *(name for name in pool.stated if name in predicates)))
    return name, tuple(read_exact(chance.choice(pool.constants)) for _ in range(predicates[name].arity))


def _written(change: Change, writing: Writing) -> str:
    """The facts and rules of a change, as text."""
    facts = [
        f"{name}({', '.join(map(exact, row))}) ."
        for name, rows in sorted(change.explicit.items())
        for row in sorted(rows)
    ]
    return "\n".join(("----", *facts, *map(writing.rule, change.rules)))


def stratified(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """As many of the rules as are stratified, the first ones."""
    rules = tuple(rules)
    if not cycles(rules, {}):
        return rules
    kept: tuple[Rule, ...] = ()
    for rule in rules:
        if not cycles((*kept, rule), {}):
            kept = (*kept, rule)
    return kept


def _by_predicate(facts: frozenset[tuple[str, Row]]) -> dict[str, frozenset[Row]]:
    names = {name for name, _ in facts}
    return {name: frozenset(row for known, row in facts if known == name) for name in names}
