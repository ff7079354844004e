"""Clauses: what rules mean, and that any text means something or is a diagnostic."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.engine.reference import evaluate
from tidelog.errors import EvaluationError, Inconsistent, ProgramError, Stopped
from tidelog.logic.program import (
    Aggregation,
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Negation,
    Program,
    Rule,
    Variable,
)
from tidelog.logic.resolve import resolve
from tidelog.logic.values import integer, string
from tidelog.syntax.parser import parse_text

X, Y = Variable("x"), Variable("y")
ONE, TWO = Constant(integer(1)), Constant(integer(2))


def program(text: str) -> Program:
    return resolve(parse_text(text))


def rule(text: str) -> Rule:
    """The only rule of a program."""
    (found,) = program("@declare e(_: any) . @declare f(_: any, _: any) . " + text).rules
    return found


# ---- rules


def test_expressions_in_a_head_are_assigned() -> None:
    assert rule("p(?x, ?x + 1) :- e(?x) .") == Rule(
        Atom("p", (X, Variable("_1"))),
        (Atom("e", (X,)), Assignment(Variable("_1"), Apply("+", (X, ONE)))),
    )


def test_expressions_in_an_atom_are_compared() -> None:
    assert rule("p(?x) :- e(?x + 1), e(?x) .").body == (
        Atom("e", (Variable("_1"),)),
        Atom("e", (X,)),
        Comparison("=", Variable("_1"), Apply("+", (X, ONE))),
    )


def test_expressions_under_negation_are_assigned_before() -> None:
    assert rule("p(?x) :- ~e(?x + 1), e(?x) .").body == (
        Atom("e", (X,)),
        Assignment(Variable("_1"), Apply("+", (X, ONE))),
        Negation(Atom("e", (Variable("_1"),))),
    )


def test_constant_expressions_in_atoms_are_constants() -> None:
    assert rule("p(?x) :- f(?x, 3 - 1) .").body == (Atom("f", (X, TWO)),)


def test_anonymous_variables_are_all_different() -> None:
    assert rule("p(?x) :- e(?x), ~f(_, _) .").body[1] == Negation(Atom("f", (Variable("_1"), Variable("_2"))))


def test_made_variables_keep_clear_of_written_ones() -> None:
    assert rule("p(?_1) :- f(?_1, _) .").body == (Atom("f", (Variable("_1"), Variable("_2"))),)


def test_boolean_functions_are_conditions() -> None:
    found = rule('p(?x) :- e(?x), contains(?x, "a"), ~REGEX(?x, "b") .')
    assert found.body[1:] == (
        Condition(Apply("CONTAINS", (X, Constant(string("a"))))),
        Condition(Apply("REGEX", (X, Constant(string("b")))), negated=True),
    )


def test_other_functions_are_predicates_where_literals_stand() -> None:
    assert rule("p(?x) :- strlen(?x, _), e(?x) .").positive[0].predicate == "strlen"


def test_several_heads_are_several_rules() -> None:
    found = program("@declare e(_: any) . p(?x), q(?x, ?x + 1) :- e(?x) .").rules
    assert [each.head.predicate for each in found] == ["p", "q"]
    assert len(found[0].body) == 1
    assert len(found[1].body) == 2


def test_top_is_dropped_and_bottom_is_a_predicate() -> None:
    found = program("e(1) . p(a) :- top() . bottom() :- e(1), ~bottom() . q(a) :- bottom() .")
    assert [each.body for each in found.rules] == [(), (Atom("e", (ONE,)),), (Atom("bottom", ()),)]
    assert found.output_predicates == ("p", "q")


def test_rules_have_names() -> None:
    assert rule('#[name("mine")] p(?x) :- e(?x) .').name == "mine"


def test_variables_may_be_bound_by_equality_from_either_side() -> None:
    assert rule("p(?y) :- e(?x), ?x + 1 = ?y .").body[1] == Assignment(Y, Apply("+", (X, ONE)))


# ---- aggregates


def test_other_head_terms_are_the_group() -> None:
    found = rule("p(?x, 7, ?x, #count(?y)) :- f(?x, ?y) .")
    assert found.group == (X,)
    assert found.aggregations == (Aggregation(Variable("_1"), "count", (Y,)),)
    assert found.head.terms == (X, Constant(integer(7)), X, Variable("_1"))
    assert found.after == ()


def test_groups_are_by_value() -> None:
    found = rule("p(?x / 2, #sum(?y)) :- f(?x, ?y) .")
    assert found.group == (Variable("_1"),)
    assert found.body[1] == Assignment(Variable("_1"), Apply("/", (X, TWO)))


def test_terms_around_aggregates_are_computed_after() -> None:
    found = rule("p(#sum(?y) + ?x, #max(?y + 1, ?x)) :- f(?x, ?y) .")
    assert found.group == (X,)
    sum_, shown, added, greatest = (Variable(f"_{number}") for number in range(1, 5))
    assert found.aggregations == (
        Aggregation(sum_, "sum", (Y,)),
        Aggregation(greatest, "max", (added, X)),
    )
    assert found.after == (Assignment(shown, Apply("+", (sum_, X))),)
    assert found.body[1] == Assignment(added, Apply("+", (Y, ONE)))
    assert found.head.terms == (shown, greatest)


# ---- whatever is written, it either means something or is a diagnostic


TERMS = ["?x", "?y", "_", "!z", "$n", "a", "ex:a", "1", '"t"', "2.5", "?x + 1", "1 / 0", "UCASE(?y)", "top()"]
TERMS += ["nothing(1)", "#count(?x)", "#sum(?x + 1)", 'f"{?x}"', "- ?x", "IF(?x, 1)", "e(?x)", "5m"]
terms = st.sampled_from(TERMS)
atoms = st.builds(
    lambda name, arguments: f"{name}({', '.join(arguments)})",
    st.sampled_from(["e", "p", "q", "bottom", "top", "CONTAINS", "strlen", "ex:p"]),
    st.lists(terms, max_size=3),
)
literals = st.one_of(
    atoms,
    atoms.map("~{}".format),
    st.builds("{} {} {}".format, terms, st.sampled_from(["=", "=", "<", "!="]), terms),
    st.builds("[{}, {}, {}]".format, terms, terms, terms),
    atoms.map("boxminus[0, 1] {}".format),
    atoms.map("{}@3".format),
)
statements = st.one_of(
    st.builds(lambda head: f"{head} .", atoms),
    st.builds(
        lambda heads, body: f"{', '.join(heads)} :- {', '.join(body)} .",
        st.lists(atoms, min_size=1, max_size=2),
        st.lists(literals, min_size=1, max_size=4),
    ),
    st.builds(lambda body: f"?- {', '.join(body)} .", st.lists(literals, min_size=1, max_size=3)),
    st.sampled_from(
        [
            "@prefix ex: <https://e.org/> .",
            "@declare e(x: int) .",
            "@declare p(x: string, _: any) .",
            "@parameter $n = 1 .",
            "@output p, e .",
            '@import e :- csv{ resource = "e.csv", format = (int) } .',
            "@export p :- csv{ limit = $n } .",
            "@commit .",
            "+ e(1) .",
        ]
    ),
)


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(statements, max_size=6))
def test_any_program_means_something_or_is_a_diagnostic(lines: Sequence[str]) -> None:
    try:
        found = program("\n".join(lines))
    except ProgramError as error:
        assert error.diagnostics
        assert all(diagnostic.span is not None for diagnostic in error.diagnostics)
        return
    for each in found.rules:
        assert len(each.head.terms) == found.predicates[each.head.predicate].arity
    with suppress(EvaluationError, Inconsistent, Stopped):
        evaluate(found, max_facts=1000)
