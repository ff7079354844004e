"""Equality by axioms: as the reference says, under every maintainer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import tidelog as tl
from tests.equality.laboratory import run
from tests.equality.scripts import Script, scripts
from tidelog.errors import Inconsistent, ProgramError
from tidelog.logic.equality_axioms import axiomatise
from tidelog.maintenance.registry import MAINTAINERS

fewer = settings(max_examples=settings().max_examples // 10)
PASSPORTS = """
#[name("same passport, same person")]
?x = ?y :- passport(?x, ?n), passport(?y, ?n) .
passport(ann, 7) . passport(bob, 7) . knows(cem, ann) .
"""


@pytest.mark.parametrize("maintainer", MAINTAINERS)
@fewer
@given(script=scripts())
def test_facts_change(maintainer: str, script: Script) -> None:
    run(script, equality="axiomatise", maintainer=maintainer)


@fewer
@given(script=scripts(rules_change=True))
def test_rules_change(script: Script) -> None:
    run(script, equality="axiomatise")


def test_a_program_without_equality_is_itself() -> None:
    program = tl.parse("p(?x) :- q(?x) . q(a) .")
    assert axiomatise(program) is program


def test_equals_are_replaced_everywhere() -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality="axiomatise")
    assert sorted(reasoner["knows"]) == [("cem", "ann"), ("cem", "bob")]
    assert sorted(reasoner["="]) == [("ann", "ann"), ("ann", "bob"), ("bob", "ann"), ("bob", "bob")]


def test_predicates_of_data_alone_are_closed_too() -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality="axiomatise")
    reasoner.insert("age", [("ann", 41)], define=True)
    assert sorted(reasoner["age"]) == [("ann", 41), ("bob", 41)]
    reasoner.insert("likes", [("dan", "bob")], define=True)
    assert sorted(reasoner["likes"]) == [("dan", "ann"), ("dan", "bob")]


@pytest.mark.parametrize("strategy", ["auto", "magic", "tabling", "full"])
def test_every_strategy_sees_equality(strategy: str) -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality="axiomatise")
    assert sorted(reasoner.query("knows(cem, ?who)", strategy)) == [("ann",), ("bob",)]


def test_same_as_is_equality_when_the_program_says_so() -> None:
    text = """
    @prefix owl: <http://www.w3.org/2002/07/owl#> .
    ?x = ?y :- [?x, owl:sameAs, ?y] .
    [a, owl:sameAs, b] . [b, owl:sameAs, c] . [a, likes, d] .
    """
    reasoner = tl.Reasoner(tl.parse(text), equality="axiomatise")
    assert sorted(reasoner.query("[?x, likes, ?y]")) == [("a", "d"), ("b", "d"), ("c", "d")]
    assert len(reasoner.query("[?x, <http://www.w3.org/2002/07/owl#sameAs>, ?y]")) == 9


def test_what_equality_depends_on_cannot_be_negated() -> None:
    with pytest.raises(ProgramError, match="= -> ~revoked -> =") as caught:
        tl.parse("?x = ?y :- p(?x, ?n), p(?y, ?n), ~revoked(?n) . p(a, 1) . revoked(2) .")
    assert caught.value.diagnostics[0].code == "E310"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("+ passport(1, 7) . + passport(2, 7) .", "1 = 2, which are different literals"),
        ("+ ann != bob .", "ann = bob, which must differ"),
        ("+ ?x != ?y :- knows(?x, ?y) . + knows(bob, ann) .", "ann = bob, which must differ"),
        ("+ cem != cem .", "cem = cem, which must differ"),
    ],
)
def test_what_must_differ_cannot_be_equal(treatment: str, change: str, message: str) -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality=treatment)
    reasoner.materialise()
    before = sorted(reasoner["="]), sorted(reasoner["passport"]), sorted(reasoner["knows"])
    with pytest.raises(Inconsistent, match=message) as caught:
        reasoner.apply(change)
    assert caught.value.diagnostics[0].code == "E605"
    assert before == (sorted(reasoner["="]), sorted(reasoner["passport"]), sorted(reasoner["knows"]))


def test_the_proof_is_shown(treatment: str) -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS + "ann != bob ."), equality=treatment)
    with pytest.raises(Inconsistent) as caught:
        reasoner.materialise()
    [fault] = caught.value.diagnostics
    assert fault.help == ("by the rule 'same passport, same person' from passport(ann, 7), passport(bob, 7)")


def test_names_may_be_unique(treatment: str) -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality=treatment, unique_names=True)
    with pytest.raises(Inconsistent, match="ann = bob, which are different names"):
        reasoner.materialise()
    reasoner = tl.Reasoner(
        tl.parse("?x = ?y :- p(?x, ?y) . p(ann, 5) ."), equality=treatment, unique_names=True
    )
    reasoner.materialise()


def test_equality_can_be_switched_off() -> None:
    tl.Reasoner(tl.parse("p(?x) :- q(?x) . q(a) ."), equality="off").materialise()
    with pytest.raises(ProgramError, match="equality is switched off"):
        tl.Reasoner(tl.parse(PASSPORTS), equality="off").materialise()


def test_an_unknown_treatment_is_refused() -> None:
    with pytest.raises(ProgramError, match="unknown treatment of equality `axiomatize`"):
        tl.Reasoner(equality="axiomatize")
