"""Safety: orders in which every variable is bound before it is used, and variables that none binds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.logic.program import (
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Literal,
    Negation,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.strata import local_variables, order
from tidelog.logic.values import integer

X, Y, Z = Variable("x"), Variable("y"), Variable("z")
ONE = Constant(integer(1))


def p(*terms: Variable | Constant) -> Atom:
    return Atom("p", terms)


def equal(left: Variable | Constant | Apply, right: Variable | Constant | Apply) -> Comparison:
    return Comparison("=", left, right)


def plus(left: Variable, right: Variable | Constant) -> Apply:
    return Apply("+", (left, right))


def test_tests_wait_for_their_variables() -> None:
    less = Comparison("<", X, Y)
    assert order((less, p(X), p(Y))).body == (p(X), p(Y), less)


def test_a_test_comes_as_soon_as_it_can() -> None:
    less = Comparison("<", X, ONE)
    assert order((p(X), p(Y), less)).body == (p(X), p(Y), less)
    assert order((less, p(X), p(Y))).body == (p(X), less, p(Y))


def test_equality_binds_a_variable_that_no_atom_matches() -> None:
    assert order((equal(Y, plus(X, ONE)), p(X))).body == (p(X), Assignment(Y, plus(X, ONE)))
    assert order((equal(plus(X, ONE), Y), p(X))).body == (p(X), Assignment(Y, plus(X, ONE)))


def test_equality_compares_variables_that_atoms_match() -> None:
    assert order((equal(X, Y), p(X), p(Y))).body == (p(X), p(Y), equal(X, Y))


def test_the_first_equality_binds_and_the_second_compares() -> None:
    assert order((equal(X, ONE), equal(X, plus(X, ONE)))).body == (
        Assignment(X, ONE),
        equal(X, plus(X, ONE)),
    )


def test_equalities_bind_in_chains_of_any_order() -> None:
    body = (equal(X, Y), equal(Y, Z), equal(Z, ONE))
    assert order(body, (X,)).body == (Assignment(Z, ONE), Assignment(Y, Z), Assignment(X, Y))


def test_a_variable_in_one_negation_is_local() -> None:
    negation = Negation(p(X, Y, Y))
    assert local_variables((p(X), negation), (X,)) == {Y}
    assert order((negation, p(X)), (X,)).body == (p(X), negation)


def test_a_variable_in_two_negations_must_be_bound() -> None:
    assert order((p(X), Negation(p(Y)), Negation(p(Y)))).unbound == (Y,)


def test_a_variable_of_the_head_is_not_local() -> None:
    assert order((p(X), Negation(p(Y))), (Y,)).unbound == (Y,)


def test_what_follows_from_an_unbound_variable_is_not_reported() -> None:
    assert order((equal(Y, plus(X, ONE)),), (Y,)).unbound == (X,)


def test_variables_that_wait_for_each_other_are_all_reported() -> None:
    assert set(order((equal(X, Y),)).unbound) == {X, Y}
    assert order((equal(X, plus(X, ONE)),)).unbound == (X,)


variables = st.sampled_from([X, Y, Z])
terms = st.one_of(variables, st.just(ONE))
expressions = st.one_of(terms, st.builds(plus, variables, terms))
literals: st.SearchStrategy[Literal] = st.one_of(
    st.builds(p, terms, terms),
    st.builds(lambda left, right: Negation(p(left, right)), terms, terms),
    st.builds(Comparison, st.sampled_from(["=", "=", "<"]), expressions, expressions),
    st.builds(lambda left, right: Condition(Apply("CONTAINS", (left, right))), terms, terms),
)


@given(st.lists(literals, max_size=6), st.lists(variables, max_size=2))
def test_ordered_bodies_bind_before_they_use(body: list[Literal], needed: list[Variable]) -> None:
    ordered = order(body, needed)
    assert len(ordered.body) == len(body)
    if ordered.unbound:
        return
    bound = set(local_variables(body, needed))
    for literal in ordered.body:
        match literal:
            case Atom():
                pass
            case Assignment(variable, expression):
                assert variable not in bound
                assert set(variables_of(expression)) <= bound
            case _:
                assert set(literal_variables(literal)) <= bound
        bound |= set(literal_variables(literal))
    assert set(needed) <= bound
