"""Queries where facts are kept over representatives: by every strategy, prepared, and live."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import tidelog as tl
from tests.equality.scripts import DECLARED, Script, scripts
from tidelog.errors import Inconsistent, ProgramError
from tidelog.reasoner.delta import PredicateDelta

fewer = settings(max_examples=max(settings().max_examples // 5, 1))
Rows = set[tuple[str, ...]]

QUERIES = (
    "r(?x, ?y)",
    "s(a, ?y), u(?y)",
    "u(?x), ~s(?x, b)",
    "r(?x, ?y), ?x != ?y",
    "r(?x, ?y), s(?z, ?y), ?x = ?z",
    "u(?x), ?y = STR(?x)",
    "u(?x), ?y = IRI(CONCAT(STR(?x), STR(?x))), ~u(?y)",
    "t(?x, ?y, a)",
)


PEOPLE = """
?x = ?y :- passport(?x, ?n), passport(?y, ?n) .
knows(?y, ?x) :- knows(?x, ?y) .
passport(ann, 7) . passport(anna, 7) . knows(bob, ann) .
"""


def rows(relation: tl.Relation) -> Rows:
    return set(relation.to_texts("exact").rows())


@given(script=scripts())
def test_queries_are_answered_as_by_axioms(script: Script) -> None:
    program = tl.parse(script.text)
    try:
        expected = [tl.Reasoner(program, equality="axiomatise").query(text) for text in QUERIES]
    except Inconsistent:
        return
    reasoner = tl.Reasoner(program, equality="rewrite")
    found = [reasoner.query(text) for text in QUERIES]
    assert [sorted(each.to_texts("exact").rows()) for each in found] == [
        sorted(each.to_texts("exact").rows()) for each in expected
    ]


@pytest.mark.parametrize("strategy", ["magic", "tabling", "full"])
@fewer
@given(script=scripts())
def test_every_strategy_gives_the_same(strategy: str, script: Script) -> None:
    """Before everything is derived, and afterwards."""
    reasoner = tl.Reasoner(tl.parse(script.text), equality="rewrite")
    try:
        found = [rows(reasoner.query(text, strategy)) for text in QUERIES]
        reasoner.materialise()
    except Inconsistent:
        return
    expected = [rows(reasoner.query(text, "lookup")) for text in QUERIES]
    assert found == expected
    assert [rows(reasoner.query(text, strategy)) for text in QUERIES] == expected


@pytest.mark.parametrize("equality", ["rewrite", "axiomatise"])
@pytest.mark.parametrize("strategy", ["magic", "tabling", "full"])
@settings(max_examples=max(settings().max_examples // 10, 1))
@given(script=scripts())
def test_every_strategy_gives_the_same_when_little_is_left(
    equality: str, strategy: str, script: Script
) -> None:
    """Without rules that equate, and after facts and then stated equalities were deleted."""
    equalities = ("a = b .", "b = c .")
    facts = [*equalities, *script.facts]
    rules = [rule for rule in script.rules if " = " not in rule.partition(":-")[0]]
    reasoner = tl.Reasoner(tl.parse("\n".join((DECLARED, *rules, *facts))), equality=equality)
    for gone in (script.facts, equalities[:1], equalities[1:]):
        reasoner.apply("\n".join(f"- {fact}" for fact in gone))
        assert [rows(reasoner.query(text, strategy)) for text in QUERIES] == [
            rows(reasoner.query(text, "lookup")) for text in QUERIES
        ]


def test_it_is_said_that_axioms_are_used() -> None:
    reasoner = tl.Reasoner(tl.parse(PEOPLE), equality="rewrite")
    said = reasoner.explain_strategy("knows(bob, ?who)", "magic")
    assert said.startswith("magic: as requested, by the axioms of equality as rules")
    assert sorted(reasoner.query("knows(bob, ?who)", "magic")) == [("ann",), ("anna",)]
    assert reasoner.explain_strategy("knows(bob, ?who)").startswith(
        "full: facts are kept over representatives"
    )


def test_tables_follow_what_changes() -> None:
    reasoner = tl.Reasoner(tl.parse(PEOPLE), equality="rewrite")
    assert sorted(reasoner.query("knows(bob, ?who)", "tabling")) == [("ann",), ("anna",)]
    reasoner.apply("- passport(anna, 7) .")
    assert sorted(reasoner.query("knows(bob, ?who)", "tabling")) == [("ann",)]


# ---- prepared


def test_prepared_queries_are_asked_for_any_member() -> None:
    reasoner = tl.Reasoner(tl.parse(PEOPLE), equality="rewrite")
    knows = reasoner.prepare("knows($who, ?other)")
    assert sorted(knows("anna")) == sorted(knows(who="ann")) == [("bob",)]
    assert sorted(knows("bob")) == [("ann",), ("anna",)]
    reasoner.apply("- passport(anna, 7) .")
    assert sorted(knows("anna")) == []
    assert sorted(knows("bob")) == [("ann",)]
    other = reasoner.prepare("passport(?x, ?n), ?x != $x")
    assert sorted(other("ann")) == []
    knows.close()
    with pytest.raises(ProgramError, match="no longer maintained"):
        knows("bob")


# ---- live


@fewer
@given(script=scripts(rules_change=True))
def test_live_queries_are_kept_right(script: Script) -> None:
    reasoner = tl.Reasoner(tl.parse(script.text), equality="rewrite")
    told: dict[str, list[PredicateDelta]] = {text: [] for text in QUERIES}
    try:
        live = {text: reasoner.watch(text, told[text].append) for text in QUERIES}
    except Inconsistent:
        return
    for change in script.changes:
        before = {text: rows(query.answers) for text, query in live.items()}
        for deltas in told.values():
            deltas.clear()
        try:
            reasoner.apply(change.text)
        except Inconsistent:
            assert not any(told.values())
        for text, query in live.items():
            now = rows(query.answers)
            assert now == rows(reasoner.query(text))
            came = {row for delta in told[text] for row in rows(delta.added)}
            went = {row for delta in told[text] for row in rows(delta.removed)}
            assert (came, went) == (now - before[text], before[text] - now)


def test_a_live_query_that_is_cancelled_is_told_nothing() -> None:
    reasoner = tl.Reasoner(tl.parse(PEOPLE), equality="rewrite")
    told: list[PredicateDelta] = []
    with reasoner.watch("knows(bob, ?who)", told.append) as live:
        reasoner.apply("+ passport(annie, 7) .")
        assert [list(delta) for delta in told] == [[("+", ("annie",))]]
        assert len(live.answers) == 3
    reasoner.apply("- passport(annie, 7) .")
    assert len(told) == 1
