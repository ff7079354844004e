"""Which programs close a predicate, and that their closures are what naive evaluation gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.engine import reference
from tidelog.engine.columnar.closures.closure_structures import EquivalenceClosure, TransitiveClosure
from tidelog.logic.program import Program
from tidelog.logic.resolve import resolve
from tidelog.logic.strata import strata
from tidelog.logic.values import Value, integer
from tidelog.rewrite.auxiliary_relations import ClosureKind, ClosureModule, recognise
from tidelog.syntax.parser import parse_text

BASE = "p(?x, ?y) :- e(?x, ?y) ."
TRANSITIVE = "p(?x, ?z) :- p(?x, ?y), p(?y, ?z) ."
SYMMETRIC = "p(?x, ?y) :- p(?y, ?x) ."
LEFT = "p(?x, ?z) :- e(?x, ?y), p(?y, ?z) ."
RIGHT = "p(?x, ?z) :- p(?x, ?y), e(?y, ?z) ."
OTHER = "p(?x, ?y) :- f(?y, ?x), ~g(?x) ."
CONSTANT = "p(?x, 1) :- g(?x) ."


def read(text: str) -> Program:
    return resolve(parse_text(text))


def module_of(text: str) -> ClosureModule | None:
    """The module of the stratum that derives p."""
    found = [recognise(stratum) for stratum in strata(read(text).rules) if "p" in stratum.predicates]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    "text",
    [
        TRANSITIVE,
        BASE + TRANSITIVE,
        BASE + OTHER + CONSTANT + TRANSITIVE,
        BASE + TRANSITIVE + "p(?a, ?c) :- p(?b, ?c), p(?a, ?b) ." + TRANSITIVE,
        BASE + TRANSITIVE + LEFT + RIGHT,
        "p(?z, ?x) :- p(?y, ?x), p(?z, ?y) . p(1, 2) .",
    ],
)
def test_transitivity_is_recognised(text: str) -> None:
    module = module_of(text)
    assert module is not None
    assert (module.kind, module.edge_predicate) == (ClosureKind.TRANSITIVE, None)


@pytest.mark.parametrize("text", [BASE + LEFT, RIGHT + BASE, BASE + LEFT + RIGHT, BASE + BASE + LEFT + LEFT])
def test_linear_rules_are_recognised(text: str) -> None:
    module = module_of(text)
    assert module is not None
    assert (module.kind, module.edge_predicate) == (ClosureKind.TRANSITIVE, "e")


@pytest.mark.parametrize("text", [TRANSITIVE + SYMMETRIC, BASE + SYMMETRIC + OTHER + TRANSITIVE + RIGHT])
def test_symmetry_with_transitivity_is_recognised(text: str) -> None:
    module = module_of(text)
    assert module is not None
    assert (module.kind, module.edge_predicate) == (ClosureKind.EQUIVALENCE, None)


def test_rules_are_owned_or_external() -> None:
    rules = read(BASE + TRANSITIVE + OTHER + SYMMETRIC).rules
    module = module_of(BASE + TRANSITIVE + OTHER + SYMMETRIC)
    assert module is not None
    assert module.external_rules == (rules[0], rules[2])
    assert module.owned_rules == (rules[1], rules[3])


@pytest.mark.parametrize(
    "text",
    [
        BASE,
        BASE + SYMMETRIC,
        LEFT,
        RIGHT + OTHER,
        BASE + LEFT + OTHER,
        BASE + LEFT + CONSTANT,
        BASE + LEFT + SYMMETRIC,
        TRANSITIVE + LEFT,
        "p(?x, ?y) :- f(?x, ?y) ." + LEFT,
        "p(?x, ?y) :- e(?y, ?x) ." + LEFT,
        "p(?x, ?y) :- e(?x, ?y), g(?x) ." + LEFT,
        BASE + "p(?x, ?z) :- p(?x, ?y), p(?y, ?z), ?x != ?z .",
        BASE + "p(?x, ?z) :- p(?x, ?y), p(?y, ?z), ~g(?x) .",
        BASE + "p(?x, ?z) :- p(?x, ?y), p(?y, ?z), g(?x) .",
        BASE + "p(?x, ?z) :- p(?x, ?y), p(?z, ?y) .",
        BASE + "p(?x, ?z) :- p(?x, ?y), p(?y, ?w), p(?w, ?z) .",
        BASE + "p(?x, ?x) :- p(?x, ?y), p(?y, ?x) .",
        BASE + "p(?x, ?z) :- p(?x, ?x), p(?x, ?z) .",
        BASE + "p(?x, ?z) :- p(?x, _), p(_, ?z) .",
        BASE + "p(?x, ?z) :- p(?x, 1), p(1, ?z) .",
        BASE + TRANSITIVE + "p(?y, ?y) :- p(?x, ?y) .",
        BASE + TRANSITIVE + "p(?x, ?z) :- f(?x, ?y), p(?y, ?z) .",
        BASE + TRANSITIVE + "p(?x, ?y) :- q(?x, ?y) . q(?x, ?y) :- p(?y, ?x), g(?x) .",
        BASE + TRANSITIVE + "p(?x, ?n) :- p(?x, ?y), ?n = ?y + 0 .",
        "p(?x, ?y, ?z) :- p(?y, ?x, ?z), e(?x, ?z) .",
    ],
)
def test_what_does_more_or_less_is_not(text: str) -> None:
    assert module_of(text) is None


# ---- against naive evaluation

RULES = (BASE, TRANSITIVE, SYMMETRIC, LEFT, RIGHT, OTHER, CONSTANT, "p(?x, ?z) :- p(?y, ?z), p(?x, ?y) .")
NODES = st.integers(0, 5)
PAIRS = st.lists(st.tuples(NODES, NODES), max_size=8, unique=True)


@given(st.lists(st.sampled_from(RULES), min_size=1, max_size=5), PAIRS, PAIRS, PAIRS)
def test_a_module_gives_what_its_rules_give(
    rules: list[str], e: list[tuple[int, int]], f: list[tuple[int, int]], explicit: list[tuple[int, int]]
) -> None:
    declared = "@declare e(a: int, b: int) . @declare f(a: int, b: int) . @declare g(a: int) ."
    program = read(declared + " ".join(rules))
    module = next(filter(None, map(recognise, strata(program.rules))), None)
    if module is None:
        return
    facts = {"e": values(e), "f": values(f), "g": {row[:1] for row in values(f)}}
    if module.edge_predicate is None:
        facts["p"] = values(explicit)
    expected = reference.evaluate(program, facts)["p"]
    outside = Program(program.predicates, module.external_rules)
    external = sorted(
        (int(str(left.content)), int(str(right.content)))
        for left, right in reference.evaluate(outside, facts)["p"]
    )
    closure = TransitiveClosure() if module.kind is ClosureKind.TRANSITIVE else EquivalenceClosure()
    table = np.array(external, np.int32).reshape(-1, 2)
    left, right = closure.add(table[:, 0].copy(), table[:, 1].copy())
    assert values(list(zip(left.tolist(), right.tolist(), strict=True))) == expected


def values(pairs: list[tuple[int, int]]) -> set[tuple[Value, ...]]:
    return {(integer(left), integer(right)) for left, right in pairs}
