"""Facts and rules over time that come and go: what is kept right is what is derived anew."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.temporal.test_procedures import facts, rules
from tidelog.errors import Inconsistent, ProgramError
from tidelog.temporal.temporal import TimeSettings

# All predicates have times from the beginning, so that none begins to have them.
DECLARED = "p(z)@0 . q(z)@0 . e(z, z)@0 . n(z)@0 . m(z, z)@0 . z()@-9 ."
HORIZON = TimeSettings(horizon=tl.read_interval("[-4, 12]"))


def held(reasoner: tl.Reasoner) -> dict[str, set[tuple[str, ...]]]:
    """All facts as text, predicate by predicate."""
    return {name: {tuple(map(str, row)) for row in reasoner[name]} for name in reasoner.program.timed}


def points(relation: tl.Relation) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in relation}


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """Statements of a program, and transactions: signed statements, facts and rules."""
    fact, rule = facts(), rules(False)
    have = [draw(fact) for _ in range(draw(st.integers(2, 6)))]
    have += [draw(rule) for _ in range(draw(st.integers(1, 4)))]
    have = list(dict.fromkeys(have))
    now = list(have)
    transactions: list[list[str]] = []
    for _ in range(draw(st.integers(1, 3))):
        signed: list[str] = []
        for _ in range(draw(st.integers(1, 3))):
            is_removal: bool = bool(now) and draw(st.booleans())
            if is_removal:
                signed.append("- " + now.pop(draw(st.integers(0, len(now) - 1))))
            else:
                new = draw(st.one_of(fact, fact, rule))
                if new not in now and f"- {new}" not in signed:
                    now.append(new)
                    signed.append("+ " + new)
        transactions.append(signed)
    return have, transactions


@given(scripts())
@settings(max_examples=2 * settings().max_examples)
def test_maintained_is_rederived(script: tuple[list[str], list[list[str]]]) -> None:
    have, transactions = script
    reasoner = tl.Reasoner(tl.parse("\n".join([DECLARED, *have])), time=HORIZON)
    reasoner.materialise()
    stated = list(have)
    for signed in transactions:
        before = held(reasoner)
        # Given facts are sets of points: what overlaps goes with what is taken away, so the rest is put back.
        gone = [line[2:] for line in signed if line.startswith("- ")]
        stated = [line for line in stated if line not in gone]
        stated += [line[2:] for line in signed if line.startswith("+ ")]
        again = ["+ " + line for line in stated if ":-" not in line]
        delta = reasoner.apply("\n".join([*signed, *again]), missing="ignore")
        anew = tl.Reasoner(tl.parse("\n".join([DECLARED, *stated])), time=HORIZON)
        after = held(anew)
        assert held(reasoner) == after
        for name, rows in after.items():
            if before[name] == rows:
                assert not delta[name]


def test_a_delta_is_the_difference_of_points() -> None:
    reasoner = tl.Reasoner(tl.parse("hot(s)@[0, 10) . alarm(?s) :- boxminus[0, 5] hot(?s) ."))
    delta = reasoner.apply("+ hot(s)@[10, 12] .")
    assert points(delta["hot"].added) == {("s", "[10, 12]")}
    assert points(delta["alarm"].added) == {("s", "[10, 12]")}
    delta = reasoner.apply("- hot(s)@[3, 4] .")
    assert points(delta["alarm"].removed) == {("s", "[5, 9]")}
    assert points(reasoner["alarm"]) == {("s", "(9, 12]")}


def test_what_is_not_given_cannot_be_taken_away() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@[0, 5] . q(?x) :- p(?x) ."))
    with pytest.raises(ProgramError, match=r"p\(a\)@\(5, 6\]"):
        reasoner.apply("- p(a)@[4, 6] .")
    assert points(reasoner["q"]) == {("a", "[0, 5]")}
    reasoner.apply("- p(a)@[4, 6] .", missing="ignore")
    assert points(reasoner["q"]) == {("a", "[0, 4)")}


def test_facts_without_times_hold_always() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@[0, 5] . c(a) . q(?x) :- p(?x), c(?x) . p(b) ."))
    assert points(reasoner["q"]) == {("a", "[0, 5]")}
    delta = reasoner.apply("- c(a) . + c(b) .")
    assert points(delta["q"].removed) == {("a", "[0, 5]")}
    assert points(delta["q"].added) == {("b", "(-inf, inf)")}


def test_an_inconsistency_undoes_the_transaction() -> None:
    text = "p(a)@[0, 1] . q(a)@[3, 4] . bottom() :- p(?x), q(?x) . r(?x) :- p(?x) ."
    reasoner = tl.Reasoner(tl.parse(text))
    reasoner.materialise()
    with pytest.raises(Inconsistent, match=r"\[3, 3\]"):
        reasoner.apply("+ p(a)@[2, 3] .")
    assert points(reasoner["p"]) == points(reasoner["r"]) == {("a", "[0, 1]")}
    reasoner.apply("+ p(a)@[2, 3) .")
    assert points(reasoner["r"]) == {("a", "[0, 1]"), ("a", "[2, 3)")}


def test_finer_units_come_with_a_transaction() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@[0, 1] . q(?x) :- diamondminus[1, 1] p(?x) ."))
    reasoner.apply("+ p(a)@(1, 4/3) .")
    assert points(reasoner["q"]) == {("a", "[1, 7/3)")}


def test_a_horizon_is_as_fine_as_what_comes() -> None:
    time = TimeSettings(horizon=tl.read_interval("[0, 5]"))
    reasoner = tl.Reasoner(tl.parse("boxplus[1, 1] p(?x) :- p(?x) . p(a)@0 ."), time=time)
    delta = reasoner.apply("+ p(b)@[3.5, 5] .")
    assert points(delta["p"].added) == {("b", "[3.5, 5]")}


def test_partial_results_are_not_maintained() -> None:
    reasoner = tl.Reasoner(
        tl.parse("p(a)@0 . p(?x) :- diamondminus[1, 1] p(?x) ."), time=TimeSettings(rounds=2)
    )
    with pytest.raises(ProgramError, match="E617"):
        reasoner.apply("+ p(b)@0 .")


def test_rules_that_would_negate_each_other_come_and_go_one_after_the_other() -> None:
    text = "p(z)@0 . q(z)@0 . n(a)@[0, 9] . p(?x) :- n(?x), ~q(?x) ."
    reasoner = tl.Reasoner(tl.parse(text))
    with pytest.raises(ProgramError) as caught:
        reasoner.apply("- p(?x) :- n(?x), ~q(?x) .\n+ q(?x) :- n(?x), ~p(?x) .")
    assert caught.value.diagnostics[0].code == "E617"
    reasoner.apply("- p(?x) :- n(?x), ~q(?x) .")
    reasoner.apply("+ q(?x) :- n(?x), ~p(?x) .")
    assert points(reasoner["q"]) == {("z", "[0, 0]"), ("a", "[0, 9]")}


def test_what_still_follows_is_put_back_before_others_hear_of_it() -> None:
    text = """
        p(a)@[0, 9] . q(a)@[3, 5] . r(?x) :- p(?x) . r(?x) :- q(?x) .
        s(?x) :- boxminus[0, 1] r(?x) . t(?x) :- n(?x), ~s(?x) . n(a)@[0, 9] .
    """
    reasoner = tl.Reasoner(tl.parse(text), time=HORIZON)
    delta = reasoner.apply("- p(a)@[2, 9] .")
    assert points(delta["r"].removed) == {("a", "[2, 3)"), ("a", "(5, 9]")}
    assert points(delta["s"].removed) == {("a", "[2, 4)"), ("a", "(5, 9]")}
    assert points(delta["t"].added) == {("a", "[2, 4)"), ("a", "(5, 9]")}


def test_a_rule_is_not_another_one_with_operators_in_its_head() -> None:
    moved = "boxplus[1, 2] q(?x) :- p(?x) ."
    reasoner = tl.Reasoner(tl.parse(f"p(a)@0 . q(z)@0 . q(?x) :- p(?x) . {moved}"))
    reasoner.apply("- q(?x) :- p(?x) .")
    assert points(reasoner["q"]) == {("z", "[0, 0]"), ("a", "[1, 2]")}
    reasoner.apply(f"- {moved}")
    assert points(reasoner["q"]) == {("z", "[0, 0]")}


@pytest.mark.parametrize(
    "metric", ["diamondminus[0, 1] s(?x)", "s(?x) since[0, 1] s(?x)", "boxminus[0, 1) s(?x)"]
)
def test_what_holds_itself_up_goes(metric: str) -> None:
    # Where points reach to themselves, what is left of a metric atom is no reason for it to stay.
    text = f"p(z)@0 . s(z)@0 . p(a)@[3, 5] . boxplus[1, 1] s(?x) :- p(?x) . s(?x) :- {metric} ."
    reasoner = tl.Reasoner(tl.parse(text), time=TimeSettings(horizon=tl.read_interval("[0, 30]")))
    reasoner.apply("- p(a)@3 .")
    reasoner.apply("- p(a)@(3, 5] .")
    assert {row[0] for row in reasoner["s"]} == {"z"}


def test_an_inconsistency_names_rules_facts_and_times() -> None:
    text = """
        p(a)@[0, 5] . q(a)@[3, 9] . q(b)@[4, 5] . s(c)@7 . r(?x) :- p(?x) .
        #[name("never both")] bottom() :- r(?x), q(?x) .
        bottom() :- q(?x), ?x = z .
        boxplus[1, 2] bottom() :- s(?x), ~diamondminus[0, 1] p(?x) .
    """
    with pytest.raises(Inconsistent) as caught:
        tl.Reasoner(tl.parse(text)).materialise()
    both, alone = caught.value.diagnostics
    assert both.message == "inconsistent: bottom() derived by the rule 'never both' at [3, 5]"
    assert both.help is not None and both.help.startswith("from r(a) at [0, 5], q(a) at [3, 9]\n")
    assert alone.message == "inconsistent: bottom() derived at [8, 9]"
    assert alone.help is not None and alone.help.startswith("from s(c) at [7, 7]\n")


def test_queries_about_times_are_not_kept() -> None:
    reasoner = tl.Reasoner(tl.parse("late(?x) :- diamondminus[0, 5] hot(?x) . hot(a)@[1, 2] ."))
    for keep in (reasoner.watch, reasoner.prepare):
        with pytest.raises(ProgramError, match="E617"):
            keep("late(?x)")


def test_a_rule_that_comes_reads_what_holds_always() -> None:
    rule = "warm(?s) :- kind(?s, boiler), hot(?s) ."
    facts = "hot(a)@[0, 5] . hot(b)@[0, 5] . hot(c)@[0, 5] . kind(a, boiler) . kind(b, boiler) ."
    reasoner = tl.Reasoner(tl.parse(f"{facts} warm(?s) :- boxminus[0, 1] hot(?s) ."))
    reasoner.materialise()
    delta = reasoner.apply(f"+ {rule} - kind(b, boiler) . + kind(c, boiler) .")
    assert points(delta["warm"].added) == {("a", "[0, 1)"), ("c", "[0, 1)")}
    reasoner.apply("- kind(a, boiler) .")
    assert points(reasoner["warm"]) == {("a", "[1, 5]"), ("b", "[1, 5]"), ("c", "[0, 5]")}
