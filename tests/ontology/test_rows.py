"""Every row of the OWL 2 RL/RDF tables by itself, and the rule sets that hold them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.ontology.rows import AXIOMATIC, FALSE, ROWS, Row
from tests.ontology.turtle import closure, only, rule_set, triples

OWL = rule_set("owl2rl.rls")


def concludes(row: str, data: str, follows: str) -> bool:
    """Whether one row alone concludes something from data."""
    found, is_consistent = closure(only(OWL, row), data)
    if follows == FALSE:
        return not is_consistent
    return triples(follows) <= found


@pytest.mark.parametrize("name", ROWS)
def test_row_concludes(name: str) -> None:
    row: Row = ROWS[name]
    assert concludes(name, row.data, row.follows)
    assert row.follows == FALSE or not triples(row.follows) <= triples(row.data)


@pytest.mark.parametrize("name", [name for name in ROWS if name not in AXIOMATIC])
def test_row_does_not_conclude(name: str) -> None:
    row: Row = ROWS[name]
    assert not concludes(name, row.other, row.follows)


@pytest.mark.parametrize("name", sorted(AXIOMATIC))
def test_axioms_follow_from_nothing_else(name: str) -> None:
    assert not triples(ROWS[name].follows) <= closure(only(OWL), "")[0]


def test_every_row_is_a_rule_and_has_a_case() -> None:
    assert {rule.name for rule in OWL.rules if rule.name} == set(ROWS)


def test_tables_have_as_many_rows_as_the_recommendation() -> None:
    tables = Counter(name.partition("-")[0] for name in ROWS)
    assert tables == {"eq": 9, "prp": 20, "cls": 19, "cax": 5, "dt": 5, "scm": 20}
