"""Magic sets: the rules by their text, and random programs that answer as before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import EVERYTHING, Case, cases

import tidelog as tl
from tidelog.engine import reference
from tidelog.errors import SourceText
from tidelog.logic.program import Atom, Program, Rule
from tidelog.logic.resolve import resolve_query
from tidelog.plan.rule_text import Writing
from tidelog.rewrite.factoring import Binding
from tidelog.rewrite.magic_sets import MagicOptions, Rewritten, readable, rewrite
from tidelog.rewrite.renaming import AdornedKind, relation_name
from tidelog.syntax.parser import parse_literals

LINEAR = "tc(?x, ?y) :- e(?x, ?y) . tc(?x, ?z) :- e(?x, ?y), tc(?y, ?z) ."
LEFT_LINEAR = "tc(?x, ?y) :- e(?x, ?y) . tc(?x, ?z) :- tc(?x, ?y), e(?y, ?z) ."
NONLINEAR = "tc(?x, ?y) :- e(?x, ?y) . tc(?x, ?z) :- tc(?x, ?y), tc(?y, ?z) ."


def asking(program: Program, text: str, name: str = "answer") -> Rule:
    """The rule of a query, its answers in a relation of this name."""
    rule = resolve_query(parse_literals(SourceText("<query>", text)), program, text).rule
    return replace(rule, head=Atom(name, rule.head.terms))


def rewritten(text: str, *queries: str, refined: bool = True) -> tuple[Program, Rewritten]:
    program = tl.parse(text)
    stated = frozenset(fact.predicate for fact in program.facts)
    rules = [asking(program, query, f"answer{place}") for place, query in enumerate(queries)]
    return program, rewrite(program.rules, rules, MagicOptions(stated, refined=refined))


def rules_of(text: str, *queries: str, refined: bool = True) -> set[str]:
    """The rewritten rules, and the seeds, as text; those of the answers left out."""
    program, made = rewritten(text, *queries, refined=refined)
    shown = readable(program, made)
    writing = Writing.of(shown)
    seeds = [writing.fact(fact) for fact in shown.facts if fact.predicate.startswith("magic")]
    rules = [writing.rule(rule) for rule in shown.rules if not rule.head.predicate.startswith("answer")]
    return {*seeds, *rules}


def lines(text: str) -> set[str]:
    return {line.strip() for line in text.strip().splitlines()}


# ---- Appendix A of the thesis, with the heads that its rules need and no `tc_ff`

APPENDIX = {
    "nonlinear, both bound": (
        NONLINEAR,
        "tc(a, b)",
        """
        magic_tc_bb(a, b) .
        tc_bb(?x, ?y) :- magic_tc_bb(?x, ?y), e(?x, ?y) .
        tc_bb(?x, ?z) :- magic_tc_bb(?x, ?z), tc_bf(?x, ?y), tc_bb(?y, ?z) .
        magic_tc_bf(?x) :- magic_tc_bb(?x, ?z) .
        magic_tc_bb(?y, ?z) :- magic_tc_bb(?x, ?z), tc_bf(?x, ?y) .
        tc_bf(?x, ?y) :- magic_tc_bf(?x), e(?x, ?y) .
        tc_bf(?x, ?z) :- magic_tc_bf(?x), tc_bf(?x, ?y), tc_bf(?y, ?z) .
        magic_tc_bf(?y) :- magic_tc_bf(?x), tc_bf(?x, ?y) .
        """,
    ),
    "nonlinear, first bound": (
        NONLINEAR,
        "tc(a, ?y)",
        """
        magic_tc_bf(a) .
        tc_bf(?x, ?y) :- magic_tc_bf(?x), e(?x, ?y) .
        tc_bf(?x, ?z) :- magic_tc_bf(?x), tc_bf(?x, ?y), tc_bf(?y, ?z) .
        magic_tc_bf(?y) :- magic_tc_bf(?x), tc_bf(?x, ?y) .
        """,
    ),
    "linear, both bound": (
        LINEAR,
        "tc(a, b)",
        """
        magic_tc_bb(a, b) .
        tc_bb(?x, ?y) :- magic_tc_bb(?x, ?y), e(?x, ?y) .
        tc_bb(?x, ?z) :- magic_tc_bb(?x, ?z), e(?x, ?y), tc_bb(?y, ?z) .
        magic_tc_bb(?y, ?z) :- magic_tc_bb(?x, ?z), e(?x, ?y) .
        """,
    ),
    "linear, first bound": (
        LINEAR,
        "tc(a, ?y)",
        """
        magic_tc_bf(a) .
        tc_bf(?x, ?y) :- magic_tc_bf(?x), e(?x, ?y) .
        tc_bf(?x, ?z) :- magic_tc_bf(?x), e(?x, ?y), tc_bf(?y, ?z) .
        magic_tc_bf(?y) :- magic_tc_bf(?x), e(?x, ?y) .
        """,
    ),
}


@pytest.mark.parametrize("name", APPENDIX)
def test_appendix_a(name: str) -> None:
    text, query, expected = APPENDIX[name]
    assert rules_of(text, query, refined=False) == lines(expected)


# ---- factoring

FORWARD = """
    magic_tc_bf(a) .
    tc_bf(?x, ?y) :- magic_tc_bf(?x), e(?x, ?y) .
    tc_bf(?from, ?y) :- tc_bf(?from, ?x), e(?x, ?y) .
"""
BACKWARD = """
    magic_tc_fb(a) .
    tc_fb(?x, ?y) :- magic_tc_fb(?y), e(?x, ?y) .
"""


@pytest.mark.parametrize("text", [LINEAR, NONLINEAR], ids=["linear", "nonlinear"])
@pytest.mark.parametrize("query", ["tc(a, ?y)", "tc(a, b)"])
def test_a_closure_from_one_place_has_no_pairs_but_the_answers(text: str, query: str) -> None:
    assert rules_of(text, query) == lines(FORWARD)


def test_left_linear_rules_need_no_guard() -> None:
    step = "tc_bf(?x, ?z) :- tc_bf(?x, ?y), e(?y, ?z) ."
    assert rules_of(LEFT_LINEAR, "tc(a, ?y)") == lines(FORWARD) - {
        "tc_bf(?from, ?y) :- tc_bf(?from, ?x), e(?x, ?y) ."
    } | {step}


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (LINEAR, "tc_fb(?x, ?z) :- tc_fb(?y, ?z), e(?x, ?y) ."),
        (LEFT_LINEAR, "tc_fb(?x, ?from) :- tc_fb(?y, ?from), e(?x, ?y) ."),
        (NONLINEAR, "tc_fb(?x, ?y) :- tc_fb(?m, ?y), e(?x, ?m) ."),
    ],
    ids=["linear", "left-linear", "nonlinear"],
)
def test_the_same_backward(text: str, step: str) -> None:
    assert rules_of(text, "tc(?x, a)") == lines(BACKWARD) | {step}


def test_steps_that_are_not_ends_keep_their_context() -> None:
    text = "to(?x, ?y) :- last(?x, ?y) . to(?x, ?z) :- e(?x, ?y), ?y != 3, to(?y, ?z) ."
    assert rules_of(text, "to(a, ?y)") == lines("""
        magic_to_bf(a) .
        context_to_bf(?from, ?from) :- magic_to_bf(?from) .
        context_to_bf(?from, ?y) :- context_to_bf(?from, ?x), e(?x, ?y), ?y != 3 .
        to_bf(?from, ?y) :- context_to_bf(?from, ?x), last(?x, ?y) .
    """)


def test_an_argument_bound_earlier_stays_bound() -> None:
    """Of two places the one is kept of which there are fewer: all that reaches `a`, not all from anywhere."""
    text = LINEAR + " round(?x, ?y) :- tc(?x, ?y), tc(?y, ?x) ."
    made = rules_of(text, "round(a, ?y)")
    assert "round_bf(?x, ?y) :- magic_round_bf(?x), tc_bf(?x, ?y), tc_fb(?y, ?x) ." in made
    assert "magic_tc_fb(?x) :- magic_round_bf(?x), tc_bf(?x, ?y) ." in made


# ---- passing bindings


def test_joins_that_would_be_repeated_get_a_relation() -> None:
    text = """
        p(?x, ?w) :- a(?x, ?y), b(?y, ?z), q(?z, ?w), c(?w) .
        q(?x, ?y) :- d(?x, ?y), q(?x, ?x) .
    """
    made = rules_of(text, "p(1, ?w)")
    assert "join_p(?x, ?z) :- magic_p_bf(?x), a(?x, ?y), b(?y, ?z) ." in made
    assert "magic_q_bf(?z) :- join_p(?x, ?z) ." in made
    assert "p_bf(?x, ?w) :- join_p(?x, ?z), q_bf(?z, ?w), c(?w) ." in made


def test_a_bound_head_that_is_computed_is_compared() -> None:
    made = rules_of("next(?x, ?y) :- n(?x), ?y = ?x + 1 .", "next(?x, 3)")
    assert "next_fb(?x, ?y) :- magic_next_fb(?y), n(?x), ?y = ?x + 1 ." in made


def test_equality_with_a_constant_binds() -> None:
    assert rules_of(LINEAR, "tc(?x, ?y), ?x = a") == lines(FORWARD)


def test_constants_and_repeated_variables_in_heads_are_in_the_guard() -> None:
    made = rules_of("p(a, ?x, ?x) :- q(?x) .", "p(?u, ?v, b)")
    assert "p_ffb(a, ?x, ?x) :- magic_p_ffb(?x), q(?x) ." in made


def test_explicit_facts_of_a_derived_predicate_are_let_in_by_the_guard() -> None:
    made = rules_of("p(?x, ?y) :- q(?x, ?y) . p(1, 2) .", "p(1, ?y)")
    assert "p_bf(?x1, ?x2) :- magic_p_bf(?x1), p(?x1, ?x2) ." in made


def test_what_is_asked_for_in_full_by_one_is_read_by_all() -> None:
    text = "p(?x, ?y) :- e(?x, ?y) . q(?x) :- p(a, ?x) . r(?x, ?y) :- p(?x, ?y) ."
    assert not any("p_bf" in rule for rule in rules_of(text, "q(?x)", "r(?x, ?y)"))


def test_several_queries_share_what_they_ask_for() -> None:
    made = rules_of(LINEAR, "tc(a, ?y)", "tc(b, ?y)")
    assert made == lines(FORWARD) | {"magic_tc_bf(b) ."}


# ---- negation and aggregates

BLOCKED = """
    blocked(?x) :- closed(?x, ?y), bad(?y) . bad(?x) :- broken(?x) .
    path(?x, ?y) :- edge(?x, ?y), ~blocked(?y) .
"""
ONWARD = "path(?x, ?z) :- path(?x, ?y), edge(?y, ?z), ~blocked(?z) ."


def test_what_is_negated_is_asked_for_by_what_comes_before_it() -> None:
    _, made = rewritten(BLOCKED, "path(a, ?y)")
    assert made.in_full == {}
    assert "magic_blocked_b(?y) :- magic_path_bf(?x), edge(?x, ?y) ." in rules_of(BLOCKED, "path(a, ?y)")


def test_what_is_negated_in_a_recursion_that_asks_for_it_is_derived_in_full() -> None:
    _, made = rewritten(BLOCKED + ONWARD, "path(a, ?y)")
    assert set(made.in_full) == {"blocked", "bad"}
    assert made.in_full["blocked"] == "what is asked of it depends on path, which negates it"
    assert "blocked_f(?x) :- closed(?x, ?y), bad_f(?y) ." in rules_of(BLOCKED + ONWARD, "path(a, ?y)")


def test_a_group_is_asked_for_whole() -> None:
    text = "total(?x, #count(?y)) :- link(?x, ?y) . link(?x, ?y) :- e(?x, ?y) ."
    assert rules_of(text, "total(a, 3)") == lines("""
        magic_total_bf(a) .
        magic_link_bf(?x) :- magic_total_bf(?x) .
        total_bf(?x, #count(?y)) :- magic_total_bf(?x), link_bf(?x, ?y) .
        link_bf(?x, ?y) :- magic_link_bf(?x), e(?x, ?y) .
    """)


# ---- laws


@st.composite
def queries(draw: st.DrawFn, case: Case) -> str:
    """An atom in any pattern of bound and free arguments, perhaps with a second one, a test, a negation."""
    term = st.sampled_from(("?a", "?b", "?c", "_", "0", "1", "2", "a", "b"))
    atom = st.sampled_from(sorted(case.arities)).flatmap(
        lambda name: st.lists(term, min_size=case.arities[name], max_size=case.arities[name]).map(
            lambda terms: f"{name}({', '.join(terms)})"
        )
    )
    literals: list[str] = draw(st.lists(atom, min_size=1, max_size=2))
    variables = sorted({each for each in ("?a", "?b", "?c") if any(each in literal for literal in literals)})
    if draw(st.booleans()) and variables:
        other = draw(st.sampled_from((*variables, "1")))
        literals.append(f"{draw(st.sampled_from(variables))} != {other}")
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(case.arities)))
        terms: list[str] = draw(
            st.lists(
                st.sampled_from((*variables, "_", "1")),
                min_size=case.arities[name],
                max_size=case.arities[name],
            )
        )
        literals.append(f"~{name}({', '.join(terms)})")
    return ", ".join(literals)


def answers(program: Program, rules: Iterable[Rule]) -> dict[str, frozenset[tuple[object, ...]]]:
    """What the slow engine answers by the whole program."""
    rules = tuple(rules)
    whole = reference.evaluate(replace(program, rules=(*program.rules, *rules)))
    return {rule.head.predicate: frozenset(whole[rule.head.predicate]) for rule in rules}


@pytest.mark.parametrize("refined", [True, False], ids=["refined", "plain"])
@settings(max_examples=3 * settings().max_examples)
@given(data=st.data())
def test_answers_are_the_same(refined: bool, data: st.DataObject) -> None:
    case = data.draw(cases(EVERYTHING))
    program = tl.parse(case.text)
    asked = [
        asking(program, data.draw(queries(case)), f"answer{number}")
        for number in range(data.draw(st.integers(1, 2)))
    ]
    stated = frozenset(fact.predicate for fact in program.facts)
    made = rewrite(program.rules, asked, MagicOptions(stated, refined=refined))
    facts = tuple(program.facts) + made.seeds
    found = reference.evaluate(Program(program.predicates, made.rules, facts))
    assert {name: frozenset(found.get(name, ())) for name in answers(program, asked)} == answers(
        program, asked
    )
    everything = reference.evaluate(program)
    for name, relation in made.relations.items():
        if relation.kind is not AdornedKind.ADORNED or relation.predicate not in program.predicates:
            continue
        rows = found.get(name, frozenset())
        assert set(rows) <= set(everything[relation.predicate])
        places = Binding.of(relation.adornment).bound
        if places:
            magic = found.get(
                relation_name(AdornedKind.MAGIC, relation.predicate, relation.adornment), frozenset()
            )
            assert {tuple(row[place] for place in places) for row in rows} <= set(magic)
