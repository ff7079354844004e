"""Localisation: simulated tasks hold what the original program derives, each the facts that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.rewrite.tasks import Tasks, run, stated
from tests.strategies import EVERYTHING, Case, cases

import tidelog as tl
from tidelog.engine import reference
from tidelog.logic.program import Program
from tidelog.plan.rule_text import Writing
from tidelog.rewrite.localise import Localised, NotLocalisable, Sizes, localise

TASKS = (1, 2, 3)
MOST_FACTS = 200_000
PATHS = "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), path(?y, ?z) ."
REACH = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) ."
EDGES = "edge(1, 2) . edge(2, 3) . edge(3, 4) . edge(4, 2) . edge(5, 6) . edge(6, 1) . edge(7, 7) ."


def rules_of(localised: Localised) -> set[str]:
    """The local rules as text."""
    writing = Writing.of(localised.program)
    return {writing.rule(rule) for rule in localised.program.rules}


def agree(program: Program, localised: Localised, tasks: int) -> Tasks:
    """Run the tasks, and compare all that they hold with the facts of the original program."""
    simulated = run(program, localised, tasks, MOST_FACTS)
    simulated.check(reference.evaluate(program, max_facts=MOST_FACTS))
    return simulated


# ---- programs by hand

PROGRAMS = {
    "nonlinear closure": f"{EDGES} {PATHS}",
    "left-linear closure": f"{EDGES} {REACH}",
    "same generation": """
        parent(1, 2) . parent(1, 3) . parent(2, 4) . parent(2, 5) . parent(3, 6) . parent(6, 7) . parent(4, 8) .
        same(?x, ?y) :- parent(?p, ?x), parent(?p, ?y) .
        same(?x, ?y) :- parent(?p, ?x), same(?p, ?q), parent(?q, ?y) .
    """,
    "unreachable pairs, counted": f"""{EDGES} {PATHS}
        node(?x) :- edge(?x, _) . node(?y) :- edge(_, ?y) .
        unreachable(?x, ?y) :- node(?x), node(?y), ~path(?x, ?y) .
        lost(?x, #count(?y)) :- unreachable(?x, ?y) .
        total(#sum(?n, ?x)) :- lost(?x, ?n) .
        most(?x) :- lost(?x, ?n), ~more(?n) .
        more(?n) :- lost(_, ?n), lost(_, ?m), ?m > ?n .
    """,
    "triangles": f"{EDGES} edge(4, 1) . edge(3, 1) . triangle(?x, ?y, ?z) :- edge(?x, ?y), edge(?y, ?z), edge(?z, ?x) .",
    "a long body": f"""{EDGES} a(1, 2) . b(2, 5) .
        far(?a, ?h) :- edge(?a, ?b), edge(?b, ?c), a(?x, ?b), edge(?c, ?d), edge(?d, ?e), b(?b, ?y), edge(?e, ?f),
            edge(?f, ?g), edge(?g, ?h), ?x < ?h .
    """,
    "cross products": """
        a(1) . a(2) . b(3) . b(4) . c(5, 6) . d(6, 7) .
        pair(?x, ?y) :- a(?x), b(?y) .
        four(?x, ?y, ?z, ?w) :- a(?x), b(?y), c(?z, ?u), d(?u, ?w) .
        larger(?x, ?y) :- a(?x), c(?y, ?z), ?x + 4 = ?y .
    """,
    "predicates without arguments": f"""{EDGES} on() . both() :- on(), any(), ~off() . any() :- edge(?x, ?x) .
        none() :- ~edge(7, 8) . some(?x) :- edge(?x, _), both(), ~none() . off() :- edge(_, 8) .
        number(#count(?x)) :- edge(?x, _), on() . alone() :- off() . alone() :- both(), on() .
    """,
    "constants": f"""{EDGES}
        from_one(?y) :- edge(1, ?y) . two(?x, 2) :- edge(?x, 2), edge(2, ?y) . is(3) :- edge(5, 6), ~edge(6, 5) .
        loop(?x) :- edge(?x, ?x) . not_one(?x) :- edge(?x, ?y), ~edge(?y, 1), ~edge(1, ?y) .
        one(1, ?x) :- one(?x, 1) . one(1, 2) . one(2, 1) :- edge(1, 2) .
    """,
    "negation with variables of its own": f"""{EDGES}
        sink(?y) :- edge(?x, ?y), ~edge(?y, _) . odd(?y) :- edge(_, ?y), ~edge(?z, ?z) .
        apart(?x, ?y) :- edge(?x, _), edge(?y, _), ~edge(?x, ?w), ~edge(?v, ?y), ~edge(?x, ?y) .
        next(?x, ?n) :- edge(?x, _), ?n = ?x + 1, ~edge(?n, _) .
    """,
    "aggregates": f"""{EDGES}
        degree(?x, #count(?y)) :- edge(?x, ?y) . sum(#sum(?x, ?y)) :- edge(?x, ?y) .
        largest(#max(?y), ?x) :- edge(?x, ?z), edge(?z, ?y) . half(?x / 2, #count(?y) + 1, #min(?x)) :- edge(?x, ?y) .
        few(#count(?x)) :- edge(?x, ?y), ~edge(?y, ?x), ?x < 5 . nothing(#count(?x)) :- edge(?x, 99) .
        both(#sum(?x, ?y), #avg(?y)) :- edge(?x, ?y), edge(?y, ?z) . constant(#sum(1, ?x), 7) :- edge(?x, _) .
    """,
    "given facts of derived predicates": f"""{EDGES} {PATHS} path(9, 1) . path(4, 9) .
        back(?y, ?x) :- path(?x, ?y) . back(1, 11) . path(?x, ?y) :- back(?y, ?x) .
        count(#count(?x, ?y)) :- back(?x, ?y) .
    """,
    "recursion through several predicates": f"""{EDGES}
        even(?x, ?x) :- edge(?x, _) . even(?x, ?z) :- odd(?x, ?y), edge(?y, ?z) .
        odd(?x, ?z) :- even(?x, ?y), edge(?y, ?z) . never(?x) :- edge(?x, _), ~odd(?x, ?x) .
    """,
    "functions and conditions": """
        word("ab", 1) . word("bc", 2) . word("abc", 3) .
        joined(?z) :- word(?x, _), word(?y, _), ?z = CONCAT(?x, ?y), STRSTARTS(?z, "ab"), ~STRENDS(?z, "bc") .
        long(?n + 1, UCASE(?x)) :- word(?x, ?n), STRLEN(?x) > 2 . seven(?x) :- ?x = 3 + 4 .
        counted(#count(?x)) :- ?x = 3 + 4 . found(?y) :- word(_, ?n), ?m = ?n + 1, word(?y, ?m) .
    """,
}  # fmt: skip


def true_sizes(program: Program) -> Sizes:
    """Sizes as they are."""
    return Sizes.of({name: list(rows) for name, rows in stated(program).items()})


def large_sizes(program: Program) -> Sizes:
    """Sizes at which no relation is worth copying to every task."""
    return Sizes(dict.fromkeys(program.predicates, 1_000_000), {(n, 0): 900_000 for n in program.predicates})


@pytest.mark.parametrize("sizes", [true_sizes, large_sizes])
@pytest.mark.parametrize("tasks", TASKS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_tasks_hold_what_the_program_derives(name: str, tasks: int, sizes: object) -> None:
    assert callable(sizes)
    program = tl.parse(PROGRAMS[name])
    agree(program, localise(program, sizes(program), tasks), tasks)


# ---- random programs


@st.composite
def untrue_sizes(draw: DrawFn, arities: Mapping[str, int]) -> Sizes:
    """Sizes of any kind: a plan must be right for whatever it was made."""
    rows = {name: draw(st.sampled_from((0, 1, 50, 5_000, 80_000, 3_000_000))) for name in arities}
    columns = [(name, place) for name, arity in arities.items() for place in range(arity)]
    counted = draw(st.lists(st.sampled_from(columns), unique=True)) if columns else []
    return Sizes(rows, {(name, place): draw(st.integers(1, 1 + rows[name])) for name, place in counted})


@st.composite
def localisations(draw: DrawFn) -> tuple[Case, Sizes, int, int]:
    """A program, the sizes and the number of tasks that it is planned for, and the number that run it."""
    case = draw(cases(EVERYTHING))
    sizes = draw(untrue_sizes(case.arities))
    return case, sizes, draw(st.sampled_from((1, 2, 4, 50))), draw(st.sampled_from(TASKS))


def check_random(drawn: tuple[Case, Sizes, int, int]) -> None:
    case, sizes, planned, tasks = drawn
    program = tl.parse(case.text)
    agree(program, localise(program, sizes, planned), tasks)


@settings(max_examples=4 * settings().max_examples)
@given(localisations())
def test_tasks_hold_what_random_programs_derive(drawn: tuple[Case, Sizes, int, int]) -> None:
    check_random(drawn)


@pytest.mark.slow
@settings(max_examples=10_000)
@given(localisations())
def test_tasks_hold_what_many_random_programs_derive(drawn: tuple[Case, Sizes, int, int]) -> None:
    check_random(drawn)
