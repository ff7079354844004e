"""Where constants may be equal: every fact has a proof, the proof is valid, and none is lower."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given, settings

import tidelog as tl
from tests.equality.scripts import Script, scripts
from tests.proof.checker import check, row_of, smallest_equal_heights
from tests.proof.test_proofs import explicit_of
from tidelog.engine import reference
from tidelog.errors import Inconsistent
from tidelog.logic.conversions import exact
from tidelog.logic.program import BUILT_IN, EQUAL
from tidelog.plan.rule_text import Writing
from tidelog.proof.explanation import NodeKind

TREATMENTS = ("rewrite", "axiomatise")
MOST = 12  # facts of a predicate that are proved
fewer = settings(max_examples=settings().max_examples * 2 // 5)


@pytest.mark.parametrize("treatment", TREATMENTS)
@fewer
@given(script=scripts())
def test_every_fact_has_a_valid_proof_of_smallest_height(treatment: str, script: Script) -> None:
    program = tl.parse(script.text)
    explicit = explicit_of(program)
    bare = replace(program, facts=())
    try:
        model = reference.evaluate(bare, explicit)
    except Inconsistent:
        return
    heights = smallest_equal_heights(bare, explicit, model)
    reasoner = tl.Reasoner(program, threads=1, equality=treatment)
    for name in sorted(name for name in model if model[name] and name not in BUILT_IN):
        variables = ", ".join(f"?x{place}" for place in range(program.predicates[name].arity))
        found = reasoner.explain(f"{Writing().predicate(name)}({variables})", proofs=3, limit=MOST, rows=None)
        by_fact = {row: list(group) for row, group in groupby(found.proofs, row_of)}
        assert len(by_fact) == min(MOST, len(model[name])) and by_fact.keys() <= model[name]
        for row, group in by_fact.items():
            lengths = [proof.height for proof in group]
            assert lengths[0] == heights[name, row] and lengths == sorted(lengths)
            for proof in group:
                check(proof, bare, explicit, model)
    for left, right in sorted((row for row in model[EQUAL] if row[0] != row[1]), key=str)[:MOST]:
        (proof,) = reasoner.explain(f"{exact(left)} = {exact(right)}").proofs
        assert proof.height == heights[EQUAL, (left, right)]
        check(proof, bare, explicit, model)


PASSPORTS = """
    #[name("same passport")] ?x = ?y :- passport(?x, ?n), passport(?y, ?n) .
    passport(ann, 7) . passport(anna, 7) . passport(anna, 8) . passport(hanna, 8) . knows(bob, ann) .
    friend(?x, ?y) :- knows(?x, ?y), likes(?y, ?x) .
    likes(hanna, bob) .
"""


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_a_chain_is_written_from_one_to_the_other(treatment: str) -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS, name="people.rls"), equality=treatment)
    assert str(reasoner.explain("friend(bob, hanna)")).splitlines() == [
        "friend(bob, hanna)  rule 2, people.rls:4",
        "├─ knows(bob, hanna)  equals replaced",
        "│  ├─ knows(bob, ann)  explicit, people.rls:3",
        "│  └─ ann = hanna  by a chain of 2 equalities",
        "│     ├─ ann = anna  rule “same passport”, people.rls:2",
        "│     │  ├─ passport(ann, 7)  explicit, people.rls:3",
        "│     │  └─ passport(anna, 7)  explicit, people.rls:3",
        "│     └─ anna = hanna  rule “same passport”, people.rls:2",
        "│        ├─ passport(anna, 8)  explicit, people.rls:3",
        "│        └─ passport(hanna, 8)  explicit, people.rls:3",
        "└─ likes(hanna, bob)  explicit, people.rls:5",
    ]
    assert reasoner.explain("hanna = anna").proofs[0].kind in (NodeKind.EQUAL, NodeKind.RULE)


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_the_answers_to_a_query_are_explained(treatment: str) -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality=treatment)
    found = reasoner.explain("knows(?x, ?y), passport(?y, 8)")
    assert [proof.kind for proof in found.proofs] == [NodeKind.QUERY] * 3
    assert '"kind": "replaced"' in str(found.to_json()).replace("'", '"')
    assert "equals replaced" in found.to_html() and "equals replaced" in found.to_dot()


@pytest.mark.parametrize("treatment", TREATMENTS)
@pytest.mark.parametrize("text", ["ann = bob", "ann = ann", "knows(ann, bob)"])
def test_what_is_not_equal_is_not_explained(treatment: str, text: str) -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality=treatment)
    with pytest.raises(tl.ProgramError) as error:
        reasoner.explain(text)
    assert error.value.diagnostics[0].code == "E655"


def test_classes_may_be_too_large_to_be_looked_at() -> None:
    text = "?x = ?y :- p(?x, ?y) . q(?x, ?y, ?z, ?u) :- p(?x, ?y), p(?z, ?u) ."
    reasoner = tl.Reasoner(tl.parse(text))
    reasoner.insert("p", [(f"c{each}", f"c{each + 1}") for each in range(30)])
    with pytest.raises(tl.ProgramError) as error:
        reasoner.explain("q(c1, c2, c3, c4)")
    assert error.value.diagnostics[0].code == "E656"
    assert reasoner.explain("c0 = c3").proofs[0].height == 1


def test_why_not_knows_the_axioms_where_there_are_some() -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality="axiomatise")
    doubted = reasoner.why_not("friend(bob, bill)")
    assert "✗ ann = bill" in str(doubted) and "+ ann = bill ." in str(doubted)
    with pytest.raises(tl.ProgramError) as error:
        tl.Reasoner(tl.parse(PASSPORTS)).why_not("friend(bob, bill)")
    assert error.value.diagnostics[0].code == "E656" and "axiomatise" in str(error.value)


@pytest.mark.parametrize("treatment", TREATMENTS)
def test_what_if_divides_classes_and_puts_them_together_again(treatment: str) -> None:
    reasoner = tl.Reasoner(tl.parse(PASSPORTS), equality=treatment)
    before = sorted(reasoner["knows"])
    assert ("-", "knows", ("bob", "hanna")) in list(reasoner.what_if("- passport(hanna, 8) ."))
    assert sorted(reasoner["knows"]) == before


def test_an_inconsistency_says_how_to_see_its_proof() -> None:
    text = "?x = ?y :- p(?x, ?n), p(?y, ?n) . p(a, 7) . p(a, 8) . p(1, 7) . p(2, 8) ."
    reasoner = tl.Reasoner(tl.parse(text))
    with pytest.raises(Inconsistent, match="explain PROGRAM '1 = 2'"):
        reasoner.materialise()
    assert [str(row_of(step)[0].content) for step in reasoner.explain("1 = 2").proofs[0].children] == [
        "a",
        "a",
    ]
