"""Facts that support each other over time: what is kept right is what is derived anew, whatever goes."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.temporal.test_changes import held
from tidelog.temporal.temporal import TimeSettings

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
    "s2(?x) :- t(?x, ?y), s1(?y) .",
    "s1(a) :- diamondplus[0, 1] t(?x, ?x) .",
)
ONE_WAY = tuple(rule for rule in CYCLES if not any(way in rule for way in ("plus", "until", "inf")))
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
    """The beginning of a program, its statements, and transactions of statements that come and go."""
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
