"""B/F with rewriting: as the reference says, and complete by itself; what it looks at, and what it leaves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import tidelog as tl
from tests.equality.laboratory import Laboratory, run
from tests.equality.scripts import Script, scripts
from tidelog.equality.rewriting import Rewriting
from tidelog.errors import Inconsistent

BY_BACKWARD_FORWARD = {"equality": "rewrite", "maintainer": "backward-forward"}
fewer = settings(max_examples=settings().max_examples // 2)


@fewer
@given(script=scripts(rules_change=True))
def test_facts_and_rules_change(script: Script) -> None:
    run(script, **BY_BACKWARD_FORWARD)


@fewer
@given(script=scripts(most=25))
def test_what_is_still_equal_is_never_parted(script: Script) -> None:
    """Where nothing is added, nothing is left to be merged after the search."""
    laboratory = Laboratory(script, **BY_BACKWARD_FORWARD)
    try:
        laboratory.reasoner.materialise()
    except Inconsistent:
        return
    for change in script.changes:
        laboratory.apply(change)
        if change.removed and not change.added:
            assert rewriting(laboratory.reasoner).rounds == 0


def rewriting(reasoner: tl.Reasoner) -> Rewriting:
    treatment = reasoner._program.equality
    assert isinstance(treatment, Rewriting)
    return treatment


# ---- by hand

HOLDERS = "?x = ?y :- holds(?x, ?n), holds(?y, ?n) . likes(?y, ?x) :- likes(?x, ?y) ."


def holders(count: int) -> tl.Reasoner:
    reasoner = tl.Reasoner(tl.parse(HOLDERS), equality="rewrite", maintainer="backward-forward")
    reasoner.insert("holds", [(f"p{number}", "passport") for number in range(count)])
    reasoner.insert("holds", [(f"p{number}", "visa") for number in range(count)])
    reasoner.insert("likes", [("p0", "q")])
    reasoner.materialise()
    return reasoner


def test_a_class_that_is_proved_in_another_way_is_not_divided() -> None:
    reasoner = holders(5)
    reasoner.apply("- holds(p3, passport) .")
    assert len(reasoner["="]) == 25
    assert len(reasoner["likes"]) == 10


def test_a_large_class_loses_one_member_at_the_cost_of_its_members() -> None:
    count = 400
    reasoner = holders(count)
    search = rewriting(reasoner)
    reasoner.apply("- holds(p3, passport) . - holds(p3, visa) .")
    assert len(reasoner["="]) == (count - 1) ** 2
    assert 0 < search.derivations < 20 * count


def test_a_rule_that_goes_divides_what_only_it_made_equal() -> None:
    text = """
    ?x = ?y :- same(?x, ?y) .
    ?x = ?y :- twin(?x, ?y) .
    same(a, b) . twin(b, c) . twin(a, b) . likes(c, d) .
    """
    reasoner = tl.Reasoner(tl.parse(text), equality="rewrite", maintainer="backward-forward")
    assert len(reasoner["="]) == 9
    reasoner.apply("- ?x = ?y :- twin(?x, ?y) .")
    assert sorted(reasoner["="]) == [(left, right) for left in "ab" for right in "ab"]
    assert sorted(reasoner["likes"]) == [("c", "d")]


@pytest.mark.parametrize("rule", ["?x = ?y :- twin(?x, ?y), flag() .", "?x = c :- twin(?x, _), flag() ."])
def test_predicates_without_arguments_take_part(rule: str) -> None:
    text = f"{rule} flag() :- on(?x) . on(1) . on(2) . twin(a, b) ."
    reasoner = tl.Reasoner(tl.parse(text), equality="rewrite", maintainer="backward-forward")
    equal = len(reasoner["="])
    assert equal > 1
    reasoner.apply("- on(1) .")
    assert len(reasoner["="]) == equal
    reasoner.apply("- on(2) .")
    assert len(reasoner["="]) == 0
