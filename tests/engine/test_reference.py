"""The reference engine against clingo and Nemo, and by hand where they have no say."""

from __future__ import annotations

import re
from collections.abc import Iterable

import clingo
import nmo_python
import pytest
from hypothesis import HealthCheck, given, settings
from tests.strategies import Case, Features, cases

from tidelog.engine.reference import answer, evaluate
from tidelog.errors import EvaluationError, Inconsistent, Stopped
from tidelog.logic.conversions import exact
from tidelog.logic.resolve import resolve
from tidelog.syntax.parser import parse_text

Rows = frozenset[tuple[str, ...]]
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def facts_of(text: str) -> dict[str, Rows]:
    """The facts of a program by predicate, each value as it is written."""
    found = evaluate(resolve(parse_text(text)), max_facts=100_000)
    return {name: frozenset(tuple(map(exact, row)) for row in rows) for name, rows in found.items()}


def clingo_facts_of(case: Case) -> dict[str, Rows]:
    """The facts of the one stable model that clingo finds."""
    statements = (line for line in case.text.splitlines() if not line.startswith("@"))
    text = re.sub(r"\?(\w+)", lambda found: found[1].upper(), "\n".join(statements)).replace("~", "not ")
    control = clingo.Control(["--warn=none"], logger=lambda code, message: None)
    control.add("base", [], text)
    control.ground([("base", [])])
    rows: dict[str, set[tuple[str, ...]]] = {name: set() for name in case.arities}
    with control.solve(yield_=True) as models:
        for model in models:
            for atom in model.symbols(atoms=True):
                rows[atom.name].add(tuple(map(str, atom.arguments)))
    return {name: frozenset(found) for name, found in rows.items()}


def nemo_facts_of(text: str, predicates: Iterable[str]) -> dict[str, Rows]:
    """The facts that Nemo finds."""
    engine = nmo_python.NemoEngine(nmo_python.load_string(text))
    engine.reason()
    return {
        name: frozenset(tuple(str(value).strip("<>") for value in row) for row in engine.result(name))
        for name in predicates
    }


@PATIENT
@given(cases(Features(arithmetic=True)))
def test_integers_give_the_facts_of_clingo(case: Case) -> None:
    assert facts_of(case.text) == clingo_facts_of(case)


@PATIENT
@given(cases(Features(names=True)))
def test_names_give_the_facts_of_clingo(case: Case) -> None:
    assert facts_of(case.text) == clingo_facts_of(case)


@PATIENT
@given(cases(Features(arithmetic=True, aggregates=True)))
def test_results_do_not_depend_on_the_order_of_rules(case: Case) -> None:
    turned = Case(tuple(reversed(case.rules)), case.facts, case.arities)
    assert facts_of(case.text) == facts_of(turned.text)


NEMO = {
    "closure": """
        e(1, 2). e(2, 3). e(3, 1). e(4, 4).
        p(?x, ?y) :- e(?x, ?y).
        p(?x, ?z) :- p(?x, ?y), p(?y, ?z).
    """,
    "local variables under negation": """
        e(1, 2). e(2, 2). e(3, 1). s(1, 1). s(2, 3). t(1, 1, 1). t(2, 1, 2).
        p(?x) :- e(?x, _), ~s(?x, ?y).
        q(?x) :- e(?x, _), ~t(?x, ?y, ?y).
    """,
    "equality tests and binds": """
        e(1, 2). e(2, 2). e(3, 1).
        p(?x, ?y) :- e(?x, ?z), ?y = ?z.
        q(?x) :- e(?x, ?z), ?y = ?z + 1, ?x = ?y.
        r(?x) :- e(?x, ?x + 1).
        s(?x) :- e(?x, ?y), ?x = ?w, ?w = 3.
    """,
    "negated arithmetic": """
        e(1, 2). e(2, 4). e(3, 10).
        p(?x) :- e(?x, ?y), ~e(?x + 1, ?y + 2).
    """,
    "group by value": """
        e(1, 2). e(2, 2). e(3, 1). e(1, 7). e(3, 7).
        p(?x / 2, #sum(?y)) :- e(?x, ?y).
        q(?x, #count(?y)) :- e(?x, ?y).
        r(#max(?y)) :- e(_, ?y).
        s(?x, #sum(?y) + ?x) :- e(?x, ?y).
        p(#sum(?x, ?y), 0) :- e(?x, ?y).
    """,
    "a group for each head": """
        e(1, 10, 5). e(1, 20, 6). e(1, 20, 5).
        d(?z), p(?x, #sum(?y)) :- e(?x, ?y, ?z).
    """,
    "nothing to aggregate": "e(1). p(#count(?x)) :- e(?x), ?x > 5.",
    "names": "e(alice). p(?x, <bob>) :- e(?x), ?x != bob.",
}


@pytest.mark.parametrize("text", NEMO.values(), ids=NEMO.keys())
def test_programs_give_the_facts_of_nemo(text: str) -> None:
    found = facts_of(text)
    assert found == nemo_facts_of(text, found)


def test_an_aggregate_ignores_repeated_rows_and_keeps_repeated_values() -> None:
    found = facts_of("""
        order(1, ann, 5) . order(2, ann, 5) . order(3, bob, 7) .
        once(?c, #sum(?n)) :- order(_, ?c, ?n) .
        each(?c, #sum(?n, ?o)) :- order(?o, ?c, ?n) .
        both(#count(?c), #avg(?n, ?o)) :- order(?o, ?c, ?n) .
    """)
    assert found["once"] == {("ann", "5"), ("bob", "7")}
    assert found["each"] == {("ann", "10"), ("bob", "7")}
    assert {row[0] for row in found["both"]} == {"2"}


def test_a_function_without_a_value_fails_its_literal() -> None:
    found = facts_of("""
        n(0) . n(2) . n(word) .
        half(?x, 10 / ?x) :- n(?x) .
        text(?x) :- n(?x), ~CONTAINS(?x, "o") .
        small(?x) :- n(?x), ?x < 5 .
        apart(?x) :- n(?x), ~half(?x, 10 / ?x) .
    """)
    assert found["half"] == {("2", "5")}
    assert found["text"] == frozenset()
    assert found["small"] == {("0",), ("2",)}
    assert found["apart"] == frozenset()


def test_bodies_without_atoms_hold_once() -> None:
    found = facts_of("p(?x) :- ?x = 3 . q(a) :- top() . r(a) :- 2 < 1 . s(b) :- ~p(4) . t() :- p(3) .")
    assert found["p"] == {("3",)}
    assert found["q"] == {("a",)}
    assert found["r"] == frozenset()
    assert found["s"] == {("b",)}
    assert found["t"] == {()}


def test_given_facts_join_those_of_the_program() -> None:
    program = resolve(parse_text("@declare e(_: any) . e(1) . p(?x) :- e(?x) ."))
    other = resolve(parse_text("e(2) .")).facts[0].values
    assert len(evaluate(program, {"e": [other]})["p"]) == 2


def test_queries_answer_with_their_variables_in_order() -> None:
    program = resolve(parse_text("e(1, 2) . e(2, 3) . ?- e(?b, ?c), e(?a, ?b) . ?- e(2, _) . ?- e(3, _) ."))
    facts = evaluate(program)
    joined, holds, fails = program.queries
    assert joined.variables == ("b", "c", "a")
    assert {tuple(map(exact, row)) for row in answer(joined, facts)} == {("2", "3", "1")}
    assert answer(holds, facts) == {()}
    assert answer(fails, facts) == frozenset()


def test_bottom_names_the_rule_that_derives_it() -> None:
    program = resolve(parse_text('e(1) . #[name("no ones")] bottom() :- e(1) .'))
    with pytest.raises(Inconsistent, match=r"E601.*'no ones'"):
        evaluate(program)


def test_a_stated_bottom_is_inconsistent() -> None:
    with pytest.raises(Inconsistent, match="E601"):
        evaluate(resolve(parse_text("bottom() .")))


def test_an_underived_bottom_is_consistent() -> None:
    assert facts_of("e(1) . bottom() :- e(2) . p(?x) :- e(?x), bottom() .")["p"] == frozenset()


def test_endless_arithmetic_stops_at_the_limit() -> None:
    program = resolve(parse_text("n(0) . n(?x + 1) :- n(?x) ."))
    with pytest.raises(Stopped, match="more than 50 facts"):
        evaluate(program, max_facts=50)


def test_arithmetic_that_leaves_64_bits_is_an_error() -> None:
    program = resolve(parse_text("n(9223372036854775807) . p(?x + 1) :- n(?x) ."))
    with pytest.raises(EvaluationError, match="overflows 64 bits"):
        evaluate(program)
