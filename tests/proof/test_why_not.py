"""Why facts do not hold, and what would complete a rule."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tidelog as tl
from tests.strategies import NUMBERS, Case, Features, cases
from tidelog.logic.program import Atom, Constant, Variable
from tidelog.plan.rule_text import Writing
from tidelog.proof.why_not import LiteralState

PROGRAM = """
    edge(a, b) . edge(b, c) . edge(d, e) . closed(c) . weight(b, 5) .
    #[name("direct")] reach(?x, ?y) :- edge(?x, ?y) .
    #[name("further")] reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
    open(?x) :- reach(a, ?x), ~closed(?x) .
    heavy(?x) :- weight(?x, ?w), ?v = ?w * 2, ?v > 10 .
    degree(?x, #count(?y)) :- edge(?x, ?y) .
"""


@pytest.fixture
def reasoner() -> tl.Reasoner:
    return tl.Reasoner(tl.parse(PROGRAM, name="graph.rls"), threads=1)


def test_the_nearest_instance_of_each_rule_is_shown(reasoner: tl.Reasoner) -> None:
    assert str(reasoner.why_not("reach(a, e)")).splitlines() == [
        "reach(a, e) does not hold",
        "rule “direct”, graph.rls:3: reach(?x, ?y) :- edge(?x, ?y) .",
        "  ✗ edge(a, e)",
        "rule “further”, graph.rls:4: reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .",
        "  ✗ reach(a, d)",
        "  ✓ edge(d, e)",
        "any of these would complete a rule:",
        "  + edge(a, e) .",
        "  + edge(b, e) .",
        "  + edge(c, e) .",
        "  + reach(a, d) .",
    ]


def test_what_is_negated_and_holds_is_in_the_way(reasoner: tl.Reasoner) -> None:
    (failure,) = reasoner.why_not("open(c)").failures
    assert [part.state for part in failure.parts] == [LiteralState.HOLDS, LiteralState.FAILS]
    assert not reasoner.why_not("open(c)").repairs


def test_what_depends_on_a_missing_value_stays_open(reasoner: tl.Reasoner) -> None:
    (failure,) = reasoner.why_not("heavy(b)").failures
    assert [part.state for part in failure.parts] == [
        LiteralState.HOLDS,
        LiteralState.HOLDS,
        LiteralState.FAILS,
    ]
    (failure,) = reasoner.why_not("heavy(a)").failures
    assert [part.state for part in failure.parts] == [
        LiteralState.FAILS,
        LiteralState.OPEN,
        LiteralState.OPEN,
    ]
    assert not failure.repairs


def test_an_aggregate_says_what_it_is_instead(reasoner: tl.Reasoner) -> None:
    assert "≠ degree(a, 1)" in str(reasoner.why_not("degree(a, 4)"))
    assert "✗ edge(c, ?y)" in str(reasoner.why_not("degree(c, 1)"))


def test_without_rules_that_fit_there_is_nothing_to_repair(reasoner: tl.Reasoner) -> None:
    assert "no rule derives the predicate" in str(reasoner.why_not("edge(c, a)"))
    program = tl.parse("p(1, ?x) :- q(?x) . p(?x, ?x) :- q(?x) . q(3) .")
    assert "no head of 2 rules of the predicate" in str(tl.Reasoner(program, threads=1).why_not("p(2, 3)"))


def test_what_holds_or_is_no_fact_is_an_error(reasoner: tl.Reasoner) -> None:
    for text in ("reach(a, c)", "reach(c, ?x)", "reach(c, a), edge(a, b)"):
        with pytest.raises(tl.ProgramError, match="E657"):
            reasoner.why_not(text)


def test_many_literals_are_left_out_one_after_the_other() -> None:
    body = ", ".join(f"p{number}(?x)" for number in range(30))
    program = tl.parse(f"q(?x) :- {body} . p3(1) . p7(1) . p9(2) .")
    (failure,) = tl.Reasoner(program, threads=1).why_not("q(1)").failures
    holding = [place for place, part in enumerate(failure.parts) if part.state is LiteralState.HOLDS]
    assert holding == [3, 7]


@given(cases(Features(arithmetic=True)), st.data())
def test_repairs_complete_the_derivation(case: Case, data: st.DataObject) -> None:
    """Every repair, once stated, makes the fact hold; negation, that it may break, is left out."""
    rules = tuple(rule for rule in case.rules if "~" not in rule)
    program = tl.parse(Case(rules, case.facts, case.arities).text)
    reasoner = tl.Reasoner(program, threads=1)
    assume(program.derived)
    name = data.draw(st.sampled_from(sorted(program.derived)))
    arguments = [data.draw(st.sampled_from(NUMBERS)) for _ in range(case.arities[name])]
    fact = f"{name}({', '.join(arguments)})"
    assume(not len(reasoner.query(fact)))
    doubted = reasoner.why_not(fact, repairs=3)
    for atom in doubted.repairs:
        script = f"+ {Writing().atom(filled(atom))} ."
        delta = reasoner.what_if(script)
        rows = {row for sign, predicate, row in delta if (sign, predicate) == ("+", name)}
        assert tuple(map(int, arguments)) in rows, (fact, script)
        assert not len(reasoner.query(fact))


def filled(atom: Atom) -> Atom:
    """The atom with a constant for what can be anything."""
    anything = next(iter(tl.parse("p(0) .").facts)).values[0]
    return Atom(
        atom.predicate,
        tuple(Constant(anything) if isinstance(term, Variable) else term for term in atom.terms),
    )
