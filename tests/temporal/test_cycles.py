"""Facts that support each other over time: what is kept right is what is derived anew, whatever goes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.temporal.test_changes import held
from tests.temporal.test_periodic import endless
from tests.temporal.test_periodic import held as held_near
from tidelog.temporal.interval_dred import IntervalMaintenance
from tidelog.temporal.interval_table import TimedTable
from tidelog.temporal.temporal import TimeSettings
from tidelog.temporal.timed_store import IntervalDelta

# Whatever rules come and go, some look back and some ahead, so that the horizon cuts off facts on both sides.
BOTH_WAYS = "g(z) :- diamondminus[0, 1] h(z), diamondplus[0, 1] h(z) ."
DECLARED = f"{BOTH_WAYS} g(z)@0 . h(z)@0 . n(z)@0 . e(z, z)@0 . s0(z)@0 . s1(z)@0 . s2(z)@0 . t(z, z)@0 ."
HORIZON = TimeSettings(horizon=tl.read_interval("[-3, 9]"))

# Into the cycles: from explicit facts, and from a predicate below that is derived.
ENTRIES = (
    "g(?x) :- h(?x), ~n(?x) .",
    "g(?x) :- diamondminus[0, 1] h(?x) .",
    "s0(?x) :- g(?x) .",
    "s0(?x) :- h(?x) .",
    "boxplus[0, 1] s1(?x) :- g(?x) .",
    "s1(?x) :- h(?x), ~diamondminus[0, 1] n(?x) .",
    "s2(?x) :- boxminus[0, 1] h(?x) .",
    "s2(?x) :- diamondplus[0, 2] e(?y, ?x), boxminus[0, 1) g(?x) .",
    "t(?y, ?x) :- e(?x, ?y), g(?y) .",
    "t(?y, ?x) :- e(?x, ?y) .",
    "boxminus[0, 1] t(?x, ?y) :- e(?x, ?y) .",
)
CYCLES = (
    "s1(?x) :- s0(?x) .",
    "s2(?x) :- s1(?x) .",
    "s0(?x) :- s2(?x) .",
    "s1(?y) :- s0(?x), e(?x, ?y) .",
    "s0(?x) :- s1(?y), e(?x, ?y) .",
    "s0(?x) :- diamondminus[1, 1] s2(?x) .",
    "s2(?x) :- diamondplus[1, 1] s0(?x) .",
    "s1(?x) :- diamondminus[0, 2) s1(?x), g(?x) .",
    "boxplus[0, 1] s1(?x) :- s2(?x) .",
    "boxminus(0, 1] s0(?x) :- s1(?x) .",
    "s2(?x) :- boxminus[0, 1] s1(?x) .",
    "s1(?x) :- boxplus(0, 2) s0(?x) .",
    "s0(?x) :- s1(?x) since[0, 1] s2(?x) .",
    "s1(?y) :- s2(?x) until(0, 2] t(?x, ?y) .",
    "s0(?x) :- diamondminus[0, inf) s2(?x), h(?x), ~n(?x) .",
    "t(?x, ?y) :- e(?x, ?y), s0(?y) .",
    "t(?x, ?z) :- t(?x, ?y), t(?y, ?z) .",
    "t(?y, ?x) :- t(?x, ?y) .",
    "t(?y, ?x) :- boxminus[0, 1] t(?x, ?y) .",
    "s2(?x) :- t(?x, ?y), s1(?y) .",
    "s1(a) :- diamondplus[0, 1] t(?x, ?x) .",
)


def looks_back(statement: str) -> bool:
    """Whether a statement has neither rules that look ahead nor times without end."""
    return not any(word in statement for word in ("plus", "until", "inf", "boxminus(0, 1] s0"))


ONE_WAY = tuple(filter(looks_back, CYCLES))
ARITIES = {"g": 1, "h": 1, "n": 1, "e": 2, "s0": 1, "s1": 1, "t": 2}


@st.composite
def facts(draw: st.DrawFn, names: str, is_integer: bool) -> str:
    """A fact, at times beyond the horizon."""
    name = draw(st.sampled_from(names.split()))
    terms = ", ".join(draw(st.sampled_from("abc")) for _ in range(ARITIES[name]))
    low = draw(st.integers(-1, 4))
    high = low + draw(st.integers(0, 3))
    form = draw(st.integers(0, 12))
    if form == 0:
        return f"{name}({terms})@[{low}, {draw(st.sampled_from(('inf)', '11]')))} ."
    if form == 1:
        return f"{name}({terms})@(-inf, {high}] ."
    is_open = low < high and not is_integer
    left, right = (draw(st.sampled_from(ends)) if is_open else ends[0] for ends in ("[(", "])"))
    return f"{name}({terms})@{left}{low}, {high}{right} ."


@st.composite
def histories(
    draw: st.DrawFn, cycles: Sequence[str] = CYCLES, names: str = "h h h g n e e e s0 s1 t"
) -> tuple[str, list[str], list[list[str]]]:
    """The beginning of a program, its statements, and transactions: statements that come, or go if there."""
    is_integer = draw(st.booleans())
    rules = [*draw(st.sets(st.sampled_from(ENTRIES), min_size=1, max_size=4))]
    rules += draw(st.sets(st.sampled_from(cycles), min_size=2, max_size=6))
    stated = draw(st.lists(facts(names, is_integer), min_size=4, max_size=9, unique=True))
    begin = draw(st.integers(2, len(stated)))
    toggled = st.one_of(*[st.sampled_from(stated)] * 5, st.sampled_from(rules))
    transactions = draw(
        st.lists(st.lists(toggled, min_size=1, max_size=3, unique=True), min_size=1, max_size=4)
    )
    declared = f"{'@timeline integer . ' * is_integer}{DECLARED}"
    return declared, [*sorted(rules), *stated[:begin]], transactions


def toggle(reasoner: tl.Reasoner, stated: list[str], statements: list[str]) -> list[str]:
    """Apply a transaction; return what is stated afterwards."""
    gone = [one for one in statements if one in stated]
    stated = [one for one in stated if one not in gone]
    stated += [one for one in statements if one not in gone]
    # Explicit facts are sets of points: what overlaps goes too, so the rest is put back.
    again = [one for one in stated if ":-" not in one or one in statements]
    script = [*(f"- {one}" for one in gone), *(f"+ {one}" for one in again)]
    reasoner.apply("\n".join(script), missing="ignore")
    return stated


@given(histories())
@settings(max_examples=3 * settings().max_examples)
def test_what_supports_each_other_goes(history: tuple[str, list[str], list[list[str]]]) -> None:
    declared, stated, transactions = history
    reasoner = tl.Reasoner(tl.parse("\n".join([declared, *stated])), time=HORIZON)
    reasoner.materialise()
    for statements in transactions:
        stated = toggle(reasoner, stated, statements)
        anew = tl.Reasoner(tl.parse("\n".join([declared, *stated])), time=HORIZON)
        assert held(reasoner) == held(anew)


@given(histories(ONE_WAY, "h h h n e e s0 s1"))
def test_what_supports_each_other_without_end_goes(history: tuple[str, list[str], list[list[str]]]) -> None:
    declared, stated, transactions = history
    declared, stated = declared.replace(BOTH_WAYS, ""), list(filter(looks_back, stated))
    reasoner = endless("\n".join([declared, *stated]))
    for statements in transactions:
        facts = [one for one in statements if ":-" not in one and looks_back(one)]
        stated = toggle(reasoner, stated, facts)
        anew = tl.Reasoner(tl.parse("\n".join([declared, *stated])))
        assert held_near(reasoner) == held_near(anew)


RING = """
    s0(z)@0 . s1(z)@0 . h(z)@0 . s0(?x) :- h(?x) . s1(?y) :- s0(?x), e(?x, ?y) .
    s0(?x) :- diamondminus[0, 1] s1(?x) .
"""


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The predicates of the facts that are deleted, also of those that come back, one for each fact."""
    names: list[str] = []
    lose = IntervalMaintenance.lose

    def note(self: IntervalMaintenance, table: TimedTable, points: IntervalDelta) -> None:
        names.extend([table.name] * len(points.numbers))
        lose(self, table, points)

    monkeypatch.setattr(IntervalMaintenance, "lose", note)
    return names


def test_what_follows_from_below_is_not_overdeleted(deleted: list[str]) -> None:
    members = "\n".join(f"h(m{number})@[0, 9] . e(m{number}, hub)@[0, 9] ." for number in range(50))
    spokes = "\n".join(f"e(hub, m{number})@[0, 9] ." for number in range(50))
    reasoner = tl.Reasoner(tl.parse(f"{RING} h(hub)@[0, 9] . {members} {spokes}"), time=HORIZON)
    reasoner.materialise()
    reasoner.apply("- e(m7, hub)@[2, 3] .")
    assert deleted.count("s0") == 0 and deleted.count("s1") == 1
    assert len([row for row in reasoner["s1"] if row[0] == "hub"]) == 1


def test_a_ring_that_holds_itself_up_goes(deleted: list[str]) -> None:
    edges = "\n".join(f"e(m{number}, m{(number + 1) % 9})@[0, 9] ." for number in range(9))
    reasoner = tl.Reasoner(tl.parse(f"{RING} h(m0)@1 . h(m4)@5 . {edges}"), time=HORIZON)
    reasoner.materialise()
    reasoner.apply("- h(m0)@1 .")
    assert {str(row[1]) for row in reasoner["s0"] if row[0] == "m4"} == {"[5, 9]"}
    reasoner.apply("- h(m4)@5 .")
    assert {row[0] for row in (*reasoner["s0"], *reasoner["s1"])} == {"z"}
