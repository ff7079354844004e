"""Time that advances: what is left is what it would be, had nothing been forgotten."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tidelog.errors import ProgramError
from tidelog.logic.intervals import Interval
from tidelog.temporal import periodic
from tidelog.temporal.temporal import TimeSettings

DECLARED = "p(z)@0 . q(z)@0 . n(z)@0 . r(z)@0 . c(a) . c(b) ."
RULES = (
    "q(?x) :- diamondminus[1, 2] p(?x) .",
    "q(?x) :- boxminus(0, 2] p(?x), c(?x) .",
    "r(?x) :- q(?x), ~diamondminus[0, 3) n(?x) .",
    "r(?x) :- p(?x) since(0, 3] q(?x) .",
    "boxplus[1, 2] r(?x) :- p(?x), diamondminus[1, 1] q(?x) .",
    "boxplus[3, 3] q(?x) :- boxplus[0, 1] p(?x), ~n(?x) .",
    "r(?x) :- p(?x), ~c(?x) .",
    "p(?x) :- diamondminus[2, 2] p(?x), ~n(?x) .",
    "p(?x) :- boxminus[1, 3) r(?x) .",
)
WIDTH = 6


@pytest.fixture(autouse=True)
def always_forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can be forgotten is, at once."""
    monkeypatch.setattr(periodic, "SWEPT_FROM", 0)
    monkeypatch.setattr(periodic, "GROWTH", 0)


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[int, list[str], list[str]]]:
    """Transactions: the time to advance to, facts that come and facts that go, none of them late."""
    found = []
    now = 0
    stated: list[str] = []
    for _ in range(draw(st.integers(1, 5))):
        added: list[str] = []
        removed: list[str] = []
        for _ in range(draw(st.integers(0, 3))):
            start = draw(st.integers(now, now + 4))
            end = draw(st.integers(start, start + 3))
            name = draw(st.sampled_from("pqn"))
            added.append(f"{name}({draw(st.sampled_from('ab'))})@[{start}, {end}] .")
        for fact in [fact for fact in stated if int(fact.split("[")[1].split(",")[0]) >= now]:
            if draw(st.integers(0, 3)) == 0:
                removed.append(fact)
        stated = [fact for fact in stated if fact not in removed] + added
        now += draw(st.integers(0, 4))
        found.append((now, added, removed))
    return found


def held(reasoner: tl.Reasoner, start: int, end: int | None) -> dict[str, set[str]]:
    """All that holds in an interval, as text."""
    found: dict[str, set[str]] = {}
    for name in "pqnr":
        found[name] = set()
        for constant, interval in reasoner[name]:
            left = max(interval.start, Fraction(start))
            right = interval.end if end is None or interval.end is None else min(interval.end, Fraction(end))
            is_left_open = interval.start_open and left == interval.start
            is_right_open = interval.end_open and right == interval.end
            if right is None or left < right or (left == right and not is_left_open and not is_right_open):
                found[name].add(f"{constant} {Interval(left, right, is_left_open, is_right_open)}")
    return found


@given(st.sets(st.sampled_from(range(len(RULES))), min_size=1, max_size=4), steps())
def test_what_is_left_is_what_holds(chosen: set[int], script: list[tuple[int, list[str], list[str]]]) -> None:
    program = "\n".join([DECLARED, *(RULES[number] for number in sorted(chosen))])
    reasoner = tl.Reasoner(tl.parse(program), time=TimeSettings(horizon=tl.read_interval(f"[0, {WIDTH}]")))
    reasoner.materialise()
    stated: list[str] = []
    for now, added, removed in script:
        stated = [fact for fact in stated if fact not in removed] + added
        # Given facts are sets of points: what overlaps goes with what is taken away, so the rest is put back.
        again = [fact for fact in stated if any(overlap(fact, gone) for gone in removed)]
        lines = [f"- {fact}" for fact in removed] + [f"+ {fact}" for fact in (*added, *again)]
        reasoner.apply("\n".join([*lines, f"@advance {now} ."]), missing="ignore")
        horizon = tl.read_interval(f"[0, {now + WIDTH}]")
        whole = tl.Reasoner(tl.parse(program + "\n".join(stated)), time=TimeSettings(horizon=horizon))
        assert held(reasoner, now, now + WIDTH) == held(whole, now, now + WIDTH)


def overlap(first: str, second: str) -> bool:
    """Whether two facts have points in common, or may have."""
    return first.split("@")[0] == second.split("@")[0]


def test_memory_is_bounded() -> None:
    text = "alarm(?s) :- boxminus[0, 5] hot(?s), ~diamondminus[0, 8] reset(?s) . hot(z)@0 . reset(z)@0 ."
    reasoner = tl.Reasoner(tl.parse(text))
    sizes = []
    for hour in range(12):
        begin = 100 * hour
        rows = [(f"s{hour}x{place}", f"[{begin + place}, {begin + place + 9}]") for place in range(90)]
        reasoner.insert("hot", rows)
        reasoner.advance(begin + 90)
        store = reasoner.time.store
        sizes.append(sum(table.weight for table in (*store.tables.values(), *store.explicit.values())))
    assert max(sizes) == sizes[1] == sizes[-1]
    assert len(reasoner["hot"]) == 9


def test_late_facts_are_refused_or_passed_over() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@[0, 9] . q(?x) :- diamondminus[0, 2] p(?x) ."))
    reasoner.advance(5)
    with pytest.raises(ProgramError, match=r"E643.*p\(b\)@\[4, 6\]"):
        reasoner.apply("+ p(b)@[4, 6] .")
    with pytest.raises(ProgramError, match="E643"):
        reasoner.apply("- p(a)@[0, 9] .")
    reasoner.apply("+ p(b)@[4, 6] .", missing="ignore")
    assert {f"{name} {interval}" for name, interval in reasoner["q"]} == {"a [5, 11]", "b [5, 8]"}
    assert str(reasoner.time.outcome) == "complete within [5, inf), after 1 round"


def test_facts_without_times_change_from_now_on() -> None:
    reasoner = tl.Reasoner(
        tl.parse("p(a)@[0, 9] . c(a) . q(?x) :- p(?x), c(?x) . r(?x) :- boxminus[0, 3] q(?x) .")
    )
    reasoner.advance(5)
    reasoner.apply("- c(a) .")
    assert not list(reasoner["q"])
    reasoner.apply("+ c(a) . @advance 7 .")
    assert {str(interval) for _, interval in reasoner["r"]} == {"[7, 9]"}


def test_what_was_forgotten_cannot_be_asked() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@[0, 9] . q(?x) :- diamondminus[0, 2] p(?x) ."))
    reasoner.advance(5)
    assert len(reasoner.query("diamondminus[0, 2] p(?x)")) == 1
    assert len(reasoner.query("p(?x)@[5, 9]")) == 1
    for text in ("diamondminus[0, 3] p(?x)", "diamondminus[0, 1] q(?x)", "p(?x)@[4, 6]"):
        with pytest.raises(ProgramError, match="E645"):
            reasoner.query(text)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("q(?x) :- diamondplus[0, 1] p(?x) .", "looks ahead"),
        ("boxminus[0, 1] q(?x) :- p(?x) .", "looks ahead"),
        ("q(?x) :- diamondminus[0, inf) p(?x) .", "without end"),
        ("q(?x) :- p(?x) since[0, inf) p(?x) .", "without end"),
    ],
)
def test_rules_that_need_everything_are_refused(rule: str, reason: str) -> None:
    reasoner = tl.Reasoner(tl.parse(f"p(a)@[0, 9] . {rule}"))
    with pytest.raises(ProgramError, match=reason):
        reasoner.advance(5)
    reasoner.apply("+ p(a)@[-3, 1] .")


def test_rules_stay_and_time_goes_on() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@[0, 9] . q(?x) :- diamondminus[0, 2] p(?x) ."))
    reasoner.advance("5")
    with pytest.raises(ProgramError, match="E617"):
        reasoner.apply("+ r(?x) :- p(?x) .")
    with pytest.raises(ProgramError, match="cannot go back to 4"):
        reasoner.advance(4)


def test_a_store_keeps_it(tmp_path: Path) -> None:
    with tl.open(tmp_path / "store", tl.parse("p(a)@[0, 9] .")) as stored:
        stored.advance(5)
    with tl.open(tmp_path / "store") as stored, pytest.raises(ProgramError, match="cannot go back to 4"):
        stored.advance(4)
