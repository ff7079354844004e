"""Naive, semi-naive and optimised materialisation: equal to a reference after every round."""

from __future__ import annotations

import gzip
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.temporal.oracle import CELLS, cells_of
from tests.temporal.reference import Model, Reference
from tidelog.engine.events import IntervalsGained
from tidelog.errors import EvaluationError, ProgramError
from tidelog.temporal.interval_fixpoint import PROCEDURES
from tidelog.temporal.metric_rules import levels
from tidelog.temporal.temporal import TimeSettings

EXAMPLE = """
    r1(c1, c2)@[0, 1] . r2(c1, c2)@[1, 2] . r3(c2, c3)@[2, 3] . r5(c2)@[0, 1] .
    r1(?x, ?y) :- diamondminus[1, 1] r1(?x, ?y) .
    boxplus[1, 1] r5(?y) :- r2(?x, ?y), boxplus[1, 2] r3(?y, ?z) .
    r4(?x) :- diamondminus[0, 1] r5(?x) .
    r6(?y) :- r5(?y), boxminus[0, 2] r4(?y), r1(?x, ?y) .
"""
SHARED = Path(__file__).parents[3] / "shared" / "data" / "temporal"
NEAR = {cell for cell in CELLS if abs(cell) <= 20}


def derived(text: str, procedure: str, rounds: int | None) -> tl.Reasoner:
    reasoner = tl.Reasoner(tl.parse(text), time=TimeSettings(procedure, rounds))
    reasoner.materialise()
    return reasoner


def written(reasoner: tl.Reasoner) -> dict[str, list[str]]:
    """All facts as text, predicate by predicate."""
    return {name: [" ".join(map(str, row)) for row in reasoner[name].sorted()] for name in reasoner}


@pytest.mark.parametrize("procedure", PROCEDURES)
@pytest.mark.parametrize("rounds", [1, 2, 3, 10, 30, 100])
def test_the_running_example(procedure: str, rounds: int) -> None:
    reasoner = derived(EXAMPLE, procedure, rounds)
    r4 = ["c2 [0, 2]"] if rounds == 1 else ["c2 [0, 3]"]
    assert written(reasoner) == {
        "r1": [f"c1 c2 [0, {rounds + 1}]"],
        "r2": ["c1 c2 [1, 2]"],
        "r3": ["c2 c3 [2, 3]"],
        "r4": r4,
        "r5": ["c2 [0, 1]", "c2 [2, 2]"],
        "r6": ["c2 [2, 2]"] if rounds > 1 else [],
    }
    assert reasoner.time.outcome is not None
    assert str(reasoner.time.outcome).startswith("partial after")


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_intervals_are_counted_as_they_come(procedure: str) -> None:
    gained: list[int] = []

    def listen(event: object) -> None:
        if isinstance(event, IntervalsGained):
            gained.append(event.count)

    text = "p(a)@[0, 1] . p(b)@[0, 9] . p(?x) :- diamondminus[2, 2] p(?x) . q(?x) :- p(?x) ."
    reasoner = tl.Reasoner(tl.parse(text), time=TimeSettings(procedure, 3), listeners=[listen])
    # p(a) has an interval more in each round, p(b) is one; q is a round behind.
    assert (len(reasoner["p"]), len(reasoner["q"])) == (5, 4)
    assert gained == [3, 2, 2]


def test_rules_are_left_out_where_procedure_3_says() -> None:
    # In the third round nothing is new but R1 after 3: R4 and R5 are complete, both hold up to 2 only.
    assert derived(EXAMPLE, "optimised", 10).time.dropped == {1: 3, 2: 3, 3: 3}
    assert derived(EXAMPLE, "seminaive", 10).time.dropped == {}


def test_projections_are_compared_not_facts() -> None:
    # q reaches back from behind the time up to which all is known: no fact that ends before is new in a round
    # in which points before it are, so to look at whole facts would leave the rule out too early.
    text = """
        p(a)@[0, 100] . s(a)@[0, 0] .
        q(?x) :- s(?x) .
        q(?x) :- diamondminus[0, 1] q(?x) .
        r(?x) :- p(?x), q(?x) .
        r(?x) :- r(?x), r(?x) .
    """
    results = [written(derived(text, procedure, 20)) for procedure in PROCEDURES]
    assert results[0] == results[1] == results[2]
    assert results[0]["r"] == ["a [0, 18]"]


def test_bodies_that_hold_always_fire() -> None:
    for procedure in PROCEDURES:
        reasoner = derived(
            "p(a) :- top() . q(a) :- boxminus[0, 1] top(), p(a) . r(a)@[0, 1] .", procedure, None
        )
        assert written(reasoner)["p"] == ["a"]
        assert written(reasoner)["q"] == ["a (-inf, inf)"]


# ---- random programs

VARIABLES = ("?x", "?y")
PREDICATES = {"p": 1, "q": 1, "e": 2, "n": 1, "m": 2, "z": 0}
BOUNDS = st.integers(0, 2)


@st.composite
def windows(draw: st.DrawFn, is_integer: bool) -> str:
    low = draw(BOUNDS)
    high = draw(st.integers(low, 2))
    is_open = low < high and not is_integer and draw(st.booleans())
    end = "inf" if draw(st.integers(0, 12)) == 0 else str(high)
    is_open_right = end == "inf" or (low < high and not is_integer and draw(st.booleans()))
    return f"{'(' if is_open else '['}{low}, {end}{')' if is_open_right else ']'}"


@st.composite
def atoms(draw: st.DrawFn, predicates: tuple[str, ...], variables: tuple[str, ...] = VARIABLES) -> str:
    name = draw(st.sampled_from(predicates))
    terms = [draw(st.sampled_from((*variables, "a"))) for _ in range(PREDICATES[name])]
    return f"{name}({', '.join(terms)})"


@st.composite
def metrics(
    draw: st.DrawFn, predicates: tuple[str, ...], is_integer: bool, variables: tuple[str, ...] = VARIABLES
) -> str:
    def unary(depth: int) -> str:
        if depth == 0 or draw(st.booleans()):
            return draw(atoms(predicates, variables))
        operator = draw(st.sampled_from(("boxminus", "boxplus", "diamondminus", "diamondplus")))
        return f"{operator}{draw(windows(is_integer))} {unary(depth - 1)}"

    if draw(st.integers(0, 3)) == 0:
        operator = draw(st.sampled_from(("since", "until")))
        return f"{unary(1)} {operator}{draw(windows(is_integer))} {unary(1)}"
    return unary(2)


@st.composite
def rules(draw: st.DrawFn, is_integer: bool) -> str:
    """A rule; a negation may have a variable that nothing else has."""
    head = draw(st.sampled_from(("p(?x)", "q(?x)", "e(?x, ?y)", "e(?y, ?x)")))
    negations = draw(st.integers(0, 2))
    needed = [name for name in VARIABLES if name in head or negations]
    bound = [f"{draw(st.sampled_from(('p', 'q')))}({name})" for name in needed]
    body = [draw(metrics(("p", "q", "e", "z"), is_integer)) for _ in range(draw(st.integers(1, 2)))]
    for number in range(negations):
        body.append("~" + draw(metrics(("n", "m", "z"), is_integer, (*VARIABLES, f"?own{number}"))))
    moves = ""
    if draw(st.booleans()):
        moves = f"{draw(st.sampled_from(('boxplus', 'boxminus')))}{draw(windows(is_integer))} "
    return f"{moves}{head} :- {', '.join([*bound, *body])} ."


@st.composite
def facts(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(tuple(PREDICATES)))
    terms = ", ".join(draw(st.sampled_from("ab")) for _ in range(PREDICATES[name]))
    low = draw(st.integers(0, 3))
    high = draw(st.integers(low, 5))
    left, right = ("[", "]") if low == high else (draw(st.sampled_from("[(")), draw(st.sampled_from("])")))
    return f"{name}({terms})@{left}{low}, {high}{right} ."


@st.composite
def programs(draw: st.DrawFn) -> str:
    is_integer = draw(st.booleans())
    stated = [draw(facts()) for _ in range(draw(st.integers(1, 6)))]
    if is_integer:
        stated = [fact.replace("(0, 1)", "[0, 1)") for fact in stated]
        stated = [fact for fact in stated if not _is_between(fact)]
    lines = [*stated, *(draw(rules(is_integer)) for _ in range(draw(st.integers(1, 4))))]
    declared = [
        f"@declare {name}({', '.join('_: any' for _ in range(n))}) ." for name, n in PREDICATES.items()
    ]
    return "\n".join([*(["@timeline integer ."] if is_integer else []), *declared, *lines])


def _is_between(fact: str) -> bool:
    """Whether a fact's interval lies between two integers."""
    _, _, time = fact.partition("@")
    low, high = (int(part.strip("[]() .")) for part in time.split(","))
    return time.startswith("(") and time.rstrip(" .").endswith(")") and high - low == 1


def near(model: Model, timed: frozenset[str]) -> dict[object, frozenset[int]]:
    return {
        (ground[0], tuple(str(value.content) for value in ground[1])): cells & NEAR
        for ground, cells in model.items()
        if ground[0] in timed and cells & NEAR
    }


@given(programs(), st.integers(1, 3))
@settings(max_examples=2 * settings().max_examples)
def test_all_procedures_agree_with_the_reference(text: str, rounds: int) -> None:
    check_procedures(text, rounds)


OPERANDS = ("z()", "n(?x)", "n(?own)", "n(a)", "m(?x, ?own)", "m(?x, ?y)", "m(?own, ?own)", "top()")


@pytest.mark.parametrize("timeline", ["", "@timeline integer . "])
@pytest.mark.parametrize("operator", ["since", "until"])
@pytest.mark.parametrize("window", ["[0, 0]", "[0, 1]", "(0, 2)", "(0, 1]", "[1, 2]", "[0, inf)", "(0, inf)"])
def test_operands_share_variables_or_not(window: str, operator: str, timeline: str) -> None:
    """Each way in which the operands may share variables, negated or not."""
    facts = "z()@[1, 3] . n(a)@[2, 4] . n(b)@[0, 2) . m(a, b)@[3, 6] . m(b, b)@[1, 2] . m(a, a)@(4, 6) ."
    lines = [f"{timeline}d(a) . d(b) . {facts}"]
    for number, (left, right, sign) in enumerate(product(OPERANDS, OPERANDS, ("", "~"))):
        body = f"{sign}{left} {operator}{window} {right}"
        lines.append(f"h{number}(?x, ?y) :- d(?x), d(?y), {body} .")
    check_procedures("\n".join(lines), None)


def check_procedures(text: str, rounds: int | None) -> None:
    """Compare what each procedure derives with the reference."""
    program = tl.parse(text)
    parts = levels(program.timed_rules)
    reference = Reference(program)
    expected = near(reference.run(parts, rounds), program.timed)
    for procedure in PROCEDURES:
        reasoner = tl.Reasoner(program, time=TimeSettings(procedure, rounds))
        try:
            reasoner.materialise()
        except EvaluationError as error:
            assert "E615" in str(error)
            return
        found: dict[object, frozenset[int]] = {}
        every = set(CELLS[::2]) if program.is_integer_time else set(CELLS)
        for name in program.timed:
            for row in reasoner[name]:
                key = name, tuple(map(str, row[:-1]))
                cells = cells_of([row[-1]]) & every & NEAR
                if cells:
                    found[key] = found.get(key, frozenset()) | cells
        assert found == expected, procedure


# ---- termination


def test_a_program_without_recursion_through_time_needs_no_limit() -> None:
    reasoner = derived("p(a)@[0, 3) . q(?x) :- boxminus[0, 1] p(?x) . q(?x) :- q(?x) .", "optimised", None)
    assert reasoner.time.outcome is not None and reasoner.time.outcome.is_complete
    assert str(reasoner.time.outcome) == "complete after 1 round"


def test_recursion_that_comes_back_to_its_time_needs_no_limit() -> None:
    text = "p(a)@[0, 1] . q(?x) :- diamondminus[1, 1] p(?x) . p(?x) :- diamondplus[1, 1] q(?x) ."
    assert written(derived(text, "optimised", None))["q"] == ["a [1, 2]"]


def test_the_running_example_repeats() -> None:
    assert written(derived(EXAMPLE, "optimised", None))["r1"] == ["c1 c2 [0, inf)"]


def test_recursion_through_time_needs_a_limit() -> None:
    with pytest.raises(ProgramError, match="E616"):
        derived(EXAMPLE.replace("diamondminus[1, 1]", "diamondminus[1, inf)"), "optimised", None)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="needs the data beside the project")
@pytest.mark.parametrize("procedure", PROCEDURES)
@pytest.mark.parametrize(("size", "expected"), [(2000, 5355), (20000, 45899)])
def test_temporal_lubm(procedure: str, size: int, expected: int) -> None:
    text = (SHARED / "lubm.rls").read_text()
    text += gzip.decompress((SHARED / f"lubm_{size}.facts.rls.gz").read_bytes()).decode()
    reasoner = derived(text, procedure, 30)
    assert sum(len(reasoner[name]) for name in reasoner.program.timed) == expected
