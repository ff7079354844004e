"""Equality by rewriting: as the reference says, whatever changes, under every maintainer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

import tidelog as tl
from tests.equality.laboratory import Laboratory, held, reference, run
from tests.equality.scripts import Script, scripts
from tidelog.equality import NAMES
from tidelog.equality.rewriting import TREATMENTS
from tidelog.errors import Inconsistent, ProgramError
from tidelog.logic.program import Atom
from tidelog.maintenance.registry import MAINTAINERS

fewer = settings(max_examples=settings().max_examples // 10)


@given(script=scripts())
def test_facts_change(script: Script) -> None:
    run(script, equality="rewrite")


@given(script=scripts(rules_change=True))
def test_rules_change(script: Script) -> None:
    run(script, equality="rewrite")


@pytest.mark.parametrize("maintainer", MAINTAINERS)
@fewer
@given(script=scripts(rules_change=True))
def test_every_maintainer_keeps_stored_facts(maintainer: str, script: Script) -> None:
    run(script, equality="rewrite", maintainer=maintainer)


@given(script=scripts(rules_change=True, is_plain=True))
def test_equality_comes_later(script: Script) -> None:
    run(script, equality="rewrite")


@pytest.mark.parametrize("maintainer", ["dred", "backward-forward"])
@pytest.mark.parametrize("marking", ["literal", "linked"])
@fewer
@given(script=scripts())
def test_streams_with_marks(maintainer: str, marking: str, script: Script) -> None:
    laboratory = Laboratory(script, equality="rewrite", maintainer=maintainer, marking=marking)
    lookahead = laboratory.reasoner._applier.maintainer.lookahead
    assert lookahead is not None
    lookahead.decides = False  # marks, even where they do not pay
    assert_stream(laboratory, script)


def assert_stream(laboratory: Laboratory, script: Script) -> None:
    """The facts are as from scratch after each transaction, of which the next one is seen ahead."""
    changes = [change for change in script.changes if change.text]
    states = [script.facts]
    for change in changes:
        states.append(tuple(fact for fact in states[-1] if fact not in change.removed) + change.added)
    expected = [reference(script.rules, state) for state in states]
    reached = 1
    try:
        for reached, _ in enumerate(laboratory.reasoner.stream([change.text for change in changes]), 2):
            assert held(laboratory.reasoner) == expected[reached - 1]
        assert reached == len(states)
    except Inconsistent:
        assert expected[reached] is None or expected[0] is None


# ---- by hand

SAME_AS = """
@prefix owl: <http://www.w3.org/2002/07/owl#> .
?x = ?y :- [?x, owl:sameAs, ?y] .
[?y1, owl:sameAs, ?y2] :- [?y1, R, ?x], [?y2, R, ?x] .
[?y1, owl:sameAs, ?y2] :- [?x, R, ?y1], [?x, R, ?y2] .
[?s, owl:sameAs, ?s], [?p, owl:sameAs, ?p], [?o, owl:sameAs, ?o] :- [?s, ?p, ?o] .
[a, R, b] . [c, R, d] . [a, R, d] .
"""
OWL_SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"


def triples(reasoner: tl.Reasoner) -> set[tuple[str, ...]]:
    shorter = {OWL_SAME_AS: "="}
    return {tuple(shorter.get(term, term) for term in row) for row in reasoner["triple"]}


def test_the_example_of_section_3_1(treatment: str) -> None:
    """14 facts, of which 5 are stored; after the deletion of one, facts appear among them."""
    reasoner = tl.Reasoner(tl.parse(SAME_AS), equality=treatment)
    assert len(triples(reasoner)) == 14
    if treatment == "rewrite":
        reasoner.equal = "representative"
        assert triples(reasoner) == {("a", "R", "b"), *((each, "=", each) for each in ("a", "b", "R", "="))}
        reasoner.equal = "expand"
    reasoner.apply("- [a, R, d] .")
    after = {
        ("a", "R", "b"),
        ("c", "R", "d"),
        *((each, "=", each) for each in ("a", "b", "c", "d", "R", "=")),
    }
    assert triples(reasoner) == after
    reasoner.apply("+ [a, R, d] .")
    assert len(triples(reasoner)) == 14


def test_queries_give_every_member_or_the_smallest() -> None:
    text = "?x = ?y :- same(?x, ?y) . same(b, a) . same(c, b) . likes(c, d) . likes(d, b) . age(b, 7) ."
    reasoner = tl.Reasoner(tl.parse(text), equality="rewrite")
    assert sorted(reasoner.query("likes(?x, d)")) == [("a",), ("b",), ("c",)]
    assert sorted(reasoner.query("likes(a, ?y), likes(?y, ?z)")) == [("d", "a"), ("d", "b"), ("d", "c")]
    assert sorted(reasoner.query("likes(?x, ?y), ?x != a")) == [
        ("b", "d"),
        ("c", "d"),
        ("d", "a"),
        ("d", "b"),
        ("d", "c"),
    ]
    assert sorted(reasoner.query("likes(?x, d), likes(?y, d), ?x = ?y")) == [(each, each) for each in "abc"]
    reasoner.equal = "representative"
    assert sorted(reasoner.query("likes(?x, ?y)")) == [("a", "d"), ("d", "a")]
    assert sorted(reasoner["age"]) == [("a", 7)]


def test_answers_have_one_member_for_two_variables_that_are_the_same() -> None:
    program = tl.parse("?x = ?y :- r(?k, ?x), r(?k, ?y) . r(a, a) . r(a, b) .")
    found, expected = (
        set(tl.Reasoner(program, equality=treatment).query("r(?x, _), r(_, ?z), ?x = ?z"))
        for treatment in ("rewrite", "axiomatise")
    )
    assert found == expected == {("a", "a"), ("b", "b")}


def test_holders_of_one_key_are_merged_without_a_pair_for_every_two() -> None:
    count = 300
    reasoner = tl.Reasoner(tl.parse("?x = ?y :- holds(?x, ?n), holds(?y, ?n) ."), equality="rewrite")
    reasoner.insert("holds", [(f"p{number}", 7) for number in range(count)])
    assert len(reasoner["="]) == count * count
    assert reasoner.statistics.matches < 10 * count


def test_what_must_not_be_equal_is_shown_with_what_was_derived() -> None:
    text = "?x = ?y :- id(?x, ?n), id(?y, ?n), ok(?x) . ok(?x) :- good(?x) . good(b) . id(a, 5) . id(b, 5) ."
    with pytest.raises(Inconsistent) as caught:
        tl.Reasoner(tl.parse(text), equality="rewrite", unique_names=True).materialise()
    shown = str(caught.value.diagnostics[0].help)
    assert "from id(a, 5), id(b, 5), ok(a) (derived); `tidelog explain" in shown


def test_a_first_equality_that_is_inconsistent_is_taken_back() -> None:
    plain = tl.Reasoner(tl.parse("p(?x) :- q(?x, _) . q(a, 1) . q(a, 2) ."), equality="rewrite")
    plain.materialise()
    with pytest.raises(Inconsistent, match="different literals"):
        plain.apply("+ ?x = ?y :- q(?z, ?x), q(?z, ?y) .")
    assert sorted(plain["p"]) == [("a",)] and sorted(plain["q"]) == [("a", 1), ("a", 2)]
    plain.apply("+ ?x = ?y :- q(?x, ?z), q(?y, ?z) . + q(b, 2) .")
    assert sorted(plain["p"]) == [("a",), ("b",)]
    assert sorted(plain["q"]) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_first_equality_must_be_there_before_queries_are_kept() -> None:
    plain = tl.Reasoner(tl.parse("p(?x) :- q(?x) . q(a) . q(b) ."), equality="rewrite")
    plain.materialise()
    with plain.watch("p(?x)") as kept:
        with pytest.raises(ProgramError, match="a first equality while queries are kept"):
            plain.apply("+ ?x = ?y :- q(?x), q(?y) .")
        assert sorted(kept.answers) == [("a",), ("b",)]
    plain.apply("+ ?x = ?y :- q(?x), q(?y) .")
    assert len(plain["="]) == 4


def test_a_transaction_that_is_stopped_changes_nothing() -> None:
    text = "?x = ?y :- same(?x, ?y) . pair(?x, ?y) :- likes(?x, _), likes(?y, _) . likes(a, b) ."
    reasoner = tl.Reasoner(tl.parse(text), equality="rewrite", max_facts=2_000)
    reasoner.materialise()
    before = {name: sorted(reasoner[name]) for name in reasoner}
    with pytest.raises(tl.TidelogError, match="E611"), reasoner.change() as change:
        change.insert("same", [("a", "b")])
        change.insert("likes", [(f"x{number}", "b") for number in range(60)])
    assert {name: sorted(reasoner[name]) for name in reasoner} == before


DERIVING = """
?x = ?y :- holds(?x, ?n), holds(?y, ?n) .
holds(?x, ?n) :- found(?x, ?n) .
friend(?y, ?x) :- friend(?x, ?y) .
near(?x, ?z) :- friend(?x, ?y), friend(?y, ?z) .
near(?x, ?z) :- near(?x, ?y), friend(?y, ?z) .
known(?x) :- near(?x, _), holds(?x, _) .
"""


def test_each_instance_is_found_once_when_everything_is_derived() -> None:
    """By rules that equality does not depend on: over the representatives as they are in the end."""
    reasoner = tl.Reasoner(tl.parse(DERIVING), equality="rewrite", modules=False)
    people = range(60)
    reasoner.insert("holds", [(f"p{number}", number // 3) for number in people])
    reasoner.insert("found", [(f"p{number}", number // 6) for number in people])
    reasoner.insert("friend", [(f"p{number}", f"p{(7 * number + 5) % 60}") for number in people])
    reasoner.materialise()
    compared = 0
    for number, rule in enumerate(reasoner.rules):
        if rule.head.predicate.split()[0] in ("friend", "near", "known"):
            variables = tuple(dict.fromkeys(each for atom in rule.positive for each in atom.terms))
            _, instances = reasoner.engine.plans.answer(replace(rule, head=Atom("?- instances", variables)))
            done = reasoner.statistics.rules.get(number)
            assert (0 if done is None else done.matches) == instances
            compared += instances > 0
    assert compared >= 4


def test_treatments_are_named_without_importing_them() -> None:
    assert tuple(TREATMENTS) == NAMES
