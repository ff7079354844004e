"""Aggregates in relations of their own, long bodies in pieces."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import Features, programs

import tidelog as tl
from tidelog.engine.reference import evaluate
from tidelog.logic.program import Variable
from tidelog.logic.strata import strata
from tidelog.rewrite import auxiliary_relations
from tidelog.rewrite.auxiliary_relations import auxiliary_name, is_auxiliary, split

RULE = "total(?x, #sum(?n, ?y) + 1) :- item(?x, ?y, ?n) .\n"


@given(programs(Features(names=True, arithmetic=True, aggregates=True, local_variables=True)))
def test_a_program_means_the_same_after_splitting(text: str) -> None:
    program = tl.parse(text)
    found = evaluate(split(program))
    assert {name: rows for name, rows in found.items() if not is_auxiliary(name)} == evaluate(program)


@given(
    programs(Features(names=True, arithmetic=True, aggregates=True, local_variables=True)),
    st.integers(1, 3),
)
def test_a_program_means_the_same_in_pieces(text: str, size: int) -> None:
    program = tl.parse(text)
    with patch.multiple(auxiliary_relations, LONGEST=size, PIECE=size):
        parts = split(program)
    for rule in parts.rules:
        assert len(rule.positive) + len(rule.negated) <= size + 1  # and what the piece before it found
    found = evaluate(parts)
    assert {name: rows for name, rows in found.items() if not is_auxiliary(name)} == evaluate(program)


def test_a_piece_has_the_variables_that_are_still_needed() -> None:
    program = tl.parse("p(?a, ?d) :- q(?a, ?b), q(?b, ?c), ~r(?a, _), q(?c, ?d), ?d > ?a .")
    with patch.multiple(auxiliary_relations, LONGEST=1, PIECE=2):
        first, second = split(program).rules
    assert first.head.terms == (Variable("a"), Variable("b"))
    assert second.positive[0] == first.head


def test_what_is_computed_from_aggregates_stands_in_the_plain_rule() -> None:
    aggregate, plain = split(tl.parse(RULE)).rules
    assert aggregate.aggregations and not aggregate.after
    assert not plain.aggregations and plain.positive == (aggregate.head,)


def test_an_auxiliary_relation_is_a_stratum_of_its_own() -> None:
    first, second = strata(split(tl.parse(RULE)).rules)
    assert [is_auxiliary(name) for name in first.predicates + second.predicates] == [True, False]


def test_the_name_is_the_same_whatever_else_the_program_holds() -> None:
    alone = tl.parse(RULE).rules[0]
    among = tl.parse("other(?x) :- item(?x, _, _) .\n\n" + RULE).rules[1]
    assert auxiliary_name(alone) == auxiliary_name(among)


def test_rules_that_aggregate_alike_share_a_relation() -> None:
    assert len(split(tl.parse(RULE + RULE.replace("+ 1", "+ 2"))).rules) == 3


def test_no_rule_stands_twice() -> None:
    assert len(split(tl.parse(RULE + RULE)).rules) == 2


def test_a_program_without_aggregates_stays_the_object_it_is() -> None:
    program = tl.parse("p(?x) :- q(?x) .")
    assert split(program) is program
