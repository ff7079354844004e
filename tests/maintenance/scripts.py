"""Random changes: programs with a pool of rules, and transactions that let facts and rules come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

import tidelog as tl
from tests.maintenance.laboratory import Change
from tests.maintenance.sets import Row
from tests.strategies import Features, cases
from tidelog.logic.program import Program, Rule
from tidelog.logic.strata import cycles
from tidelog.logic.terms import read_exact

EVERYTHING = Features(names=True, arithmetic=True, aggregates=True, local_variables=True)
NODES = ("0", "1", "2", "3", "4")

# Recursion of every kind over a small graph, and what reads it.
GRAPH = """
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
    reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) .
    reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) .
    reach(?y, ?x) :- reach(?x, ?y) .
    even(?x, ?z) :- odd(?x, ?y), edge(?y, ?z) .
    odd(?x, ?y) :- edge(?x, ?y) .
    odd(?x, ?z) :- even(?x, ?y), edge(?y, ?z) .
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
GRAPH_ARITIES = {
    "edge": 2,
    "reach": 2,
    "even": 2,
    "odd": 2,
    "node": 1,
    "sink": 1,
    "apart": 2,
    "degree": 2,
    "heavy": 1,
    "total": 1,
    "next": 1,
}

# Rules that are not stratified together, while many subsets are.
TANGLED = """
    p(?x) :- e(?x), ~q(?x) .
    q(?x) :- e(?x), ~p(?x) .
    p(?x) :- q(?x), f(?x) .
    q(?x) :- p(?x), f(?x) .
    r(?x) :- p(?x), ~s(?x) .
    s(?x) :- q(?x), ~r(?x) .
    s(?x) :- r(?x), f(?x) .
    p(#count(?x)) :- s(?x) .
"""
TANGLED_ARITIES = {"e": 1, "f": 1, "p": 1, "q": 1, "r": 1, "s": 1}


@dataclass(frozen=True)
class Script:
    """A program, its explicit facts and rules at first, and after each transaction."""

    program: Program
    start: Change
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Pool:
    """What changes are drawn from."""

    program: Program
    rules: tuple[Rule, ...]
    facts: tuple[tuple[str, Row], ...]
    arities: Mapping[str, int]
    constants: Sequence[str]


def scripts(rule_changes: bool = True, length: int = 3) -> SearchStrategy[Script]:
    """Scripts over programs of every kind."""
    pools = st.one_of(random_pools(), st.just(_pool(GRAPH, GRAPH_ARITIES, NODES)), graph_pools())
    return pools.flatmap(lambda pool: _script(pool, rule_changes, length))


def tangled_scripts(length: int = 4) -> SearchStrategy[Script]:
    """Scripts over rules of which some are not stratified together."""
    return _script(_pool(TANGLED, TANGLED_ARITIES, NODES[:3]), True, length)


@st.composite
def random_pools(draw: DrawFn) -> Pool:
    """A random program."""
    case = draw(cases(EVERYTHING))
    facts = tuple((name, tuple(map(read_exact, row))) for name, rows in case.facts.items() for row in rows)
    program = tl.parse(case.text)
    return Pool(program, program.rules, facts, case.arities, EVERYTHING.constants)


@st.composite
def graph_pools(draw: DrawFn) -> Pool:
    """Some of the rules over a graph."""
    pool = _pool(GRAPH, GRAPH_ARITIES, NODES)
    rules = draw(st.lists(st.sampled_from(pool.rules), min_size=1, max_size=8, unique=True))
    return Pool(pool.program, tuple(rules), (), pool.arities, pool.constants)


def _pool(text: str, arities: Mapping[str, int], constants: Sequence[str]) -> Pool:
    """A pool of rules that need not be stratified together."""
    declared = "".join(
        f"@declare {name}({', '.join(f'c{column}: any' for column in range(arity))}) .\n"
        for name, arity in arities.items()
    )
    lines = [line for line in text.splitlines() if line.strip()]
    rules = tuple(rule for line in lines for rule in tl.parse(declared + line).rules)
    return Pool(tl.parse(declared), rules, (), arities, constants)


@st.composite
def _script(draw: DrawFn, pool: Pool, rule_changes: bool, length: int) -> Script:
    constant = st.sampled_from([read_exact(text) for text in pool.constants])
    rows = [st.tuples(st.just(name), st.tuples(*[constant] * arity)) for name, arity in pool.arities.items()]
    row = st.one_of(rows[0], *rows)  # the first is one that is not derived
    known = frozenset(pool.facts) | frozenset(draw(st.lists(row, max_size=12)))
    rules = tuple(rule for rule in pool.rules if not rule_changes or draw(st.integers(0, 4)))
    rules = _stratified(rules)
    start = Change(_by_predicate(known), rules)
    changes = []
    for _ in range(draw(st.integers(1, length))):
        some = st.sampled_from(sorted(known)) if known else row
        known ^= frozenset(draw(st.lists(st.one_of(row, some), max_size=4)))
        if rule_changes and draw(st.integers(0, 2)) == 0:
            flipped = draw(st.lists(st.sampled_from(pool.rules), max_size=3, unique=True))
            kept = [rule for rule in pool.rules if (rule in rules) != (rule in flipped)]
            after = _stratified(tuple(kept))
            rules = rules if after == rules else after
        changes.append(Change(_by_predicate(known), rules))
    return Script(pool.program, start, tuple(changes))


def _stratified(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """As many of the rules as are stratified, the first ones."""
    kept: tuple[Rule, ...] = ()
    for rule in rules:
        if not cycles((*kept, rule), {}):
            kept = (*kept, rule)
    return kept


def _by_predicate(facts: frozenset[tuple[str, Row]]) -> dict[str, frozenset[Row]]:
    names = {name for name, _ in facts}
    return {name: frozenset(row for known, row in facts if known == name) for name in names}
