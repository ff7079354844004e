"""What repeats without end: equal to a long derivation, however far from the data it is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.temporal.test_procedures import facts, rules
from tidelog.errors import ProgramError
from tidelog.logic.intervals import Interval
from tidelog.temporal.temporal import TimeSettings

DECLARED = "p(z)@0 . q(z)@0 . e(z, z)@0 . n(z)@0 . m(z, z)@0 . z()@-9 . s(z)@0 ."
NEAR, FAR = (-16, 24), "[-90, 98]"


def copies(interval: Interval, every: Fraction | None) -> list[Interval]:
    """An interval as often as it is near."""
    if every is None:
        return [interval]
    assert interval.start is not None and interval.end is not None
    count = int(200 / abs(every)) + 1
    return [
        Interval(
            interval.start + number * every,
            interval.end + number * every,
            interval.start_open,
            interval.end_open,
        )
        for number in range(count)
    ]


def near(relation: Any) -> dict[tuple[str, ...], set[str]]:
    """When each fact holds in the middle, as texts; of what repeats all copies."""
    low, high = map(Fraction, NEAR)
    arity = len(relation.arguments)
    found: dict[tuple[str, ...], set[str]] = {}
    for row in relation:
        every = row[arity + 1] if len(row) > arity + 1 else None
        for one in copies(row[arity], every):
            start = low if one.start is None else max(one.start, low)
            end = high if one.end is None else min(one.end, high)
            is_open = one.start_open and start == one.start, one.end_open and end == one.end
            if start < end or (start == end and not any(is_open)):
                found.setdefault(row[:arity], set()).add(str(Interval(start, end, *is_open)))
    return found


def held(reasoner: tl.Reasoner) -> dict[str, dict[tuple[str, ...], set[str]]]:
    return {name: near(reasoner[name]) for name in sorted(reasoner.program.timed)}


def endless(text: str) -> tl.Reasoner:
    """A reasoner for a program whose facts repeat, all derived."""
    reasoner = tl.Reasoner(tl.parse(text), max_facts=3000)
    try:
        reasoner.materialise()
    except tl.TidelogError as fault:
        assume("E611" not in str(fault) and "E616" not in str(fault))
        raise
    assume(reasoner.time.periodic is not None)
    return reasoner


def unrolled(text: str) -> tl.Reasoner:
    return tl.Reasoner(tl.parse(text), time=TimeSettings(horizon=tl.read_interval(FAR)))


ONE_WAY = (
    "p(?x) :- diamondminus[2, 2] p(?x) .",
    "q(?x) :- diamondminus[3, 3] q(?x), ~n(?x) .",
    "boxplus[1, 1] s(?x) :- p(?x), ~diamondminus[0, 1] q(?x) .",
    "s(?x) :- diamondminus[0, 1] s(?x), ~boxminus(0, 1] e(?x, ?x) .",
    "p(?x) :- diamondminus(1, 2) q(?x), boxminus[0, 1) q(?x) .",
    "e(?x, ?y) :- p(?x), q(?y) .",
    "q(?y) :- p(?x) since[1, 2] e(?x, ?y) .",
    "p(?x) :- boxminus[1, 2] p(?x) .",
)


@st.composite
def one_way(draw: st.DrawFn) -> str:
    """A program that looks back only, or ahead only."""
    text = "\n".join(sorted(draw(st.sets(st.sampled_from(ONE_WAY), min_size=1, max_size=5))))
    if draw(st.booleans()):
        words = text.replace("minus", "-").replace("plus", "minus").replace("-", "plus")
        text = words.replace("since", "until").replace(":plus", ":-")
    return "\n".join([DECLARED, *draw(st.lists(facts(), min_size=1, max_size=4)), text])


@given(one_way())
@settings(max_examples=settings().max_examples // 2)
def test_what_looks_one_way_repeats(text: str) -> None:
    assert held(endless(text)) == held(unrolled(text))


@given(st.lists(facts(), min_size=1, max_size=3), st.lists(rules(False), min_size=1, max_size=3))
@settings(max_examples=settings().max_examples // 2)
def test_what_looks_both_ways_repeats(given_facts: list[str], given_rules: list[str]) -> None:
    text = "\n".join([DECLARED, *given_facts, *given_rules])
    assert held(endless(text)) == held(unrolled(text))


# ---- queries


def moved(point: Fraction | None, by: Fraction) -> Fraction | None:
    return None if point is None else point + by


def meets(row: Interval, every: Fraction | None, asked: Interval, *, is_throughout: bool) -> bool:
    """Whether an interval that may repeat holds at some time of another, or throughout it."""
    numbers = [0]
    if every is not None:
        assert row.start is not None and row.end is not None
        near = asked.start if every > 0 else asked.end
        if near is None:
            near = row.start
        first = max(int((near - (row.end if every > 0 else row.start)) / every) - 2, 0)
        numbers = list(range(first, first + 42))
    for number in numbers:
        by = number * (every or Fraction(0))
        one = Interval(moved(row.start, by), moved(row.end, by), row.start_open, row.end_open)
        if not is_throughout and one.meets(asked):
            return True
        if is_throughout and _covers(one, asked):
            return True
    return False


def _covers(one: Interval, other: Interval) -> bool:
    is_left = one.start is None or (
        other.start is not None and (other.start, other.start_open) >= (one.start, one.start_open)
    )
    is_right = one.end is None or (
        other.end is not None and (other.end, not other.end_open) <= (one.end, not one.end_open)
    )
    return is_left and is_right


Timed = list[tuple[tuple[Any, ...], Interval, Fraction | None]]  # facts, when they hold, and their periods


def timed_rows(relation: tl.Relation) -> Timed:
    """The rows of a relation, apart from when they hold and how they repeat."""
    found: Timed = []
    for row in relation:
        place = next(place for place, part in enumerate(row) if isinstance(part, Interval))
        found.append((row[:place], row[place], row[place + 1] if len(row) > place + 1 else None))
    return found


def timed_facts(reasoner: tl.Reasoner) -> dict[str, Timed]:
    return {name: timed_rows(reasoner[name]) for name in sorted(reasoner.program.timed)}


def interesting(parts: Iterable[Timed]) -> list[Fraction]:
    """All end points, those a few periods later, their neighbours, and points that are far out."""
    ends = {Fraction(0)}
    for _, interval, every in (row for part in parts for row in part):
        some = {end for end in (interval.start, interval.end) if end is not None}
        ends |= {end + number * (every or 0) for end in some for number in (0, 1, 2)}
    near = {end + by for end in ends for by in (Fraction(-1, 2), Fraction(0), Fraction(1, 2))}
    far = {end + by for end in ends for by in (10**6, Fraction(10**6) + Fraction(1, 2), -(10**6))}
    return sorted(near | far)


def holding(rows: Timed, time: Fraction) -> set[tuple[Any, ...]]:
    """The facts that hold at a time."""
    point = Interval(time, time)
    return {row for row, one, every in rows if meets(one, every, point, is_throughout=False)}


def check_queries(reasoner: tl.Reasoner, data: st.DataObject) -> None:
    """Ask for times of all kinds: the answers are those that the rows of a relation, which repeat, tell."""
    facts = timed_facts(reasoner)
    times = interesting(facts.values())
    for name, rows in facts.items():
        arity = reasoner.program.predicates[name].arity
        atom = f"{name}({', '.join(f'?x{place}' for place in range(arity))})"
        for start in data.draw(st.lists(st.sampled_from(times), min_size=6, max_size=6, unique=True)):
            length = data.draw(
                st.sampled_from((Fraction(0), Fraction(1, 2), Fraction(1), Fraction(7, 2), None))
            )
            is_open = length != 0 and data.draw(st.booleans()), length != 0 and data.draw(st.booleans())
            interval = Interval(start, None if length is None else start + length, *is_open)
            if data.draw(st.integers(0, 5)) == 0:
                interval = Interval(None, interval.end, end_open=interval.end_open)
            for form, is_throughout in ((f"@{interval}", True), (f" during {interval}", False)):
                expected = {
                    row
                    for row, one, every in rows
                    if meets(one, every, interval, is_throughout=is_throughout)
                }
                assert {tuple(row) for row in reasoner.query(atom + form)} == expected, atom + form
        expected = {row for row, _, _ in rows}
        assert {tuple(row) for row in reasoner.query(f"{atom} ever")} == expected


@given(one_way(), st.data())
@settings(max_examples=settings().max_examples // 2)
def test_queries_are_about_any_time(text: str, data: st.DataObject) -> None:
    check_queries(endless(text), data)


@given(st.lists(facts(), min_size=1, max_size=3), st.lists(rules(False), min_size=1, max_size=3), st.data())
@settings(max_examples=settings().max_examples // 2)
def test_queries_are_about_any_time_both_ways(
    given_facts: list[str], given_rules: list[str], data: st.DataObject
) -> None:
    check_queries(endless("\n".join([DECLARED, *given_facts, *given_rules])), data)


@given(one_way(), st.lists(facts(), min_size=1, max_size=3), st.data())
@settings(max_examples=settings().max_examples // 2)
def test_queries_are_about_any_time_after_changes(text: str, new: list[str], data: st.DataObject) -> None:
    reasoner = endless(text)
    reasoner.apply("\n".join(f"+ {fact}" for fact in new))
    check_queries(reasoner, data)


PAST_AND_FUTURE = [
    ("diamondminus[2, 2]", lambda time: time),
    ("diamondplus[2, 2]", lambda time: -time),
]


@pytest.mark.parametrize(("operator", "turned"), PAST_AND_FUTURE)
def test_a_point_that_does_not_repeat_is_not_folded_onto(operator: str, turned: Any) -> None:
    low, high = sorted((turned(0), turned(5)))
    text = f"e(b)@[{low}, {high}] . p()@{turned(4)} . p() :- {operator} p() . q() :- ~e(b) ."
    reasoner = tl.Reasoner(tl.parse(text))
    for time in (7, 1_000_001, 10**9 + 1):
        assert not len(reasoner.query(f"e(?x)@{turned(time)}"))
        assert len(reasoner.query(f"q()@{turned(time)}")) == 1
    later = sorted((turned(7), turned(8)))
    assert not len(reasoner.query(f"e(?x) during [{later[0]}, {later[1]}]"))
    assert len(reasoner.query(f"e(?x)@{turned(5)}")) == 1


@pytest.mark.parametrize(("operator", "turned"), PAST_AND_FUTURE)
def test_what_comes_last_is_not_folded_onto(operator: str, turned: Any) -> None:
    reasoner = tl.Reasoner(tl.parse(f"e(a)@{turned(5)} . p() :- {operator} p() ."))
    reasoner.materialise()
    low, high = sorted((turned(7), turned(8)))
    reasoner.apply(f"+ e(b)@[{low}, {high}] .")
    assert not len(reasoner.query(f"e(?x)@{turned(16)}"))
    assert [tuple(row) for row in reasoner.query(f"e(?x)@{turned(8)}")] == [("b",)]


def test_fine_units_do_not_slow_down_what_stays_the_same() -> None:
    """A query may look as far back as it likes where nothing changes: no periods are laid out for it."""
    text = "e(a)@[1/1000, 5] . p() :- diamondminus[1/1000, 1/1000] p() ."
    reasoner = tl.Reasoner(tl.parse(text))
    found = {" ".join(map(str, row)) for row in reasoner.query("diamondminus[0, 365d] e(?x)")}
    assert found == {"a [0.001, 31536005]"}


@pytest.mark.parametrize("time", [1001, 1002, 10**12 + 1, -1, "2001/2"])
def test_any_time_is_asked_for(time: int | str) -> None:
    reasoner = tl.Reasoner(tl.parse("tick(a)@1 . tick(?x) :- diamondminus[2, 2] tick(?x) ."))
    holds = isinstance(time, int) and time > 0 and time % 2 == 1
    assert len(reasoner.query(f"tick(?x)@{time}")) == holds
    assert (("a", f"[{time}, {time}]") in reasoner["tick"]) == holds
    assert str(reasoner.time.outcome) == "complete after 8 rounds: from 1 on all repeats every 2"


def test_long_intervals_are_asked_for() -> None:
    text = "on(a)@[0, 2) . on(b)@[5, 6] . on(?x) :- diamondminus[3, 3] on(?x) . "
    text += "on(b) :- diamondminus[0, 1] on(b) ."
    reasoner = tl.Reasoner(tl.parse(text))
    asked = ["[300, 302)", "[300, 302]", "[7, 1000000]", "[4, 9]", "[5, inf)", "(3/2, 5/2)"]
    found = [sorted(row[0] for row in reasoner.query(f"on(?x)@{interval}")) for interval in asked]
    assert found == [["a", "b"], ["b"], ["b"], [], ["b"], []]


def test_queries_repeat_too() -> None:
    reasoner = tl.Reasoner(
        tl.parse(
            "p(a)@0 . p(?x) :- diamondminus[3, 3] p(?x) . p(?x) :- diamondplus[2, 2] p(?x) . c(a)@[-1, 1] ."
        )
    )
    found = {" ".join(map(str, row)) for row in reasoner.query("p(?x), ~diamondminus[0, 1] c(?x)")}
    assert found == {"a [-2, -2] -1", "a [3, 3] 1"}
    assert len(reasoner.query("p(?x)@-1000000")) == 1
    with pytest.raises(ProgramError, match="E646"):
        reasoner.query("diamondminus[0, inf) p(?x)")


def test_nothing_repeats_that_ends_or_stays() -> None:
    reasoner = tl.Reasoner(
        tl.parse("p(a)@0 . p(?x) :- diamondminus[0, 1] p(?x) . q(?x) :- diamondminus[1, 1] q(?x) .")
    )
    assert {" ".join(map(str, row)) for row in reasoner["p"]} == {"a [0, inf)"}
    assert str(reasoner.time.outcome).startswith("complete after") and "repeats" not in str(
        reasoner.time.outcome
    )


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("p(?x) :- diamondminus[1, inf) p(?x) .", "without end"),
        ("v(?n)@0 :- p(?n) . v(?m) :- diamondminus[1, 1] v(?n), ?m = ?n + 1 .", "computes values"),
        (
            "p(?x) :- diamondminus[1, 1] p(?x) . q(?x) :- diamondplus[1, 1] q(?x), ~p(?x) .",
            "both ways|back and ahead",
        ),
    ],
)
def test_what_may_not_repeat_needs_a_limit(rules: str, reason: str) -> None:
    text = f"p(a)@0 . q(a)@0 . {rules}".replace("v(?n)@0 :- p(?n)", "v(1)@0")
    with pytest.raises(ProgramError, match=f"(?s)E616.*({reason})"):
        tl.Reasoner(tl.parse(text)).materialise()


# ---- changes


@given(one_way(), st.lists(st.tuples(st.booleans(), facts()), min_size=1, max_size=4))
@settings(max_examples=settings().max_examples // 2)
def test_changes_are_worked_in(text: str, changes: list[tuple[bool, str]]) -> None:
    reasoner = endless(text)
    stated = [line for line in text.split("\n") if "@" in line]
    rest = [line for line in text.split("\n") if "@" not in line]
    for is_removal, fact in changes:
        if is_removal:
            fact = stated[-1] if len(stated) > 1 else fact
            stated = [line for line in stated if line != fact]
        else:
            stated.append(fact)
        # Given facts are sets of points: what overlaps goes with what is taken away, so the rest is put back.
        again = [f"+ {line}" for line in stated[1:]]
        before = timed_facts(reasoner)
        script = "\n".join([f"{'-' if is_removal else '+'} {fact}", *again])
        delta = reasoner.apply(script, missing="ignore")
        anew = tl.Reasoner(tl.parse("\n".join([*stated, *rest])))
        assert held(reasoner) == held(anew)
        check_delta(before, timed_facts(reasoner), delta)


def check_delta(before: dict[str, Timed], after: dict[str, Timed], delta: tl.Delta) -> None:
    """Compare a delta with the difference of what held before and after, far out too."""
    for name, rows in after.items():
        then = before.get(name, [])
        added, removed = timed_rows(delta[name].added), timed_rows(delta[name].removed)
        for time in interesting([then, rows, added, removed]):
            held_then, holds_now = holding(then, time), holding(rows, time)
            assert holding(added, time) == holds_now - held_then, (name, time)
            assert holding(removed, time) == held_then - holds_now, (name, time)


@given(one_way(), st.data())
@settings(max_examples=settings().max_examples // 2)
def test_a_delta_is_exact_when_rules_change(text: str, data: st.DataObject) -> None:
    reasoner = endless(text)
    way = {"minus": "plus", "plus": "minus"} if "until" in text or "diamondplus" in text else {}
    known = [line for line in text.split("\n") if ":-" in line]
    for _ in range(2):
        gone = data.draw(st.sampled_from(known))
        new = data.draw(st.sampled_from(ONE_WAY))
        new = re.sub("minus|plus", lambda found: way.get(found[0], found[0]), new)
        new = new.replace("since", "until") if way else new
        before = timed_facts(reasoner)
        try:
            delta = reasoner.apply(f"- {gone}\n+ {new}", missing="ignore")
        except ProgramError as fault:  # rules look another way, or negate each other
            assert {one.code for one in fault.diagnostics} <= {"E616", "E617"}
            continue
        check_delta(before, timed_facts(reasoner), delta)


def test_a_delta_repeats() -> None:
    reasoner = tl.Reasoner(
        tl.parse("p(a)@0 . p(?x) :- diamondminus[2, 2] p(?x) . q(?x) :- ~p(?x), d(?x) . d(a) .")
    )
    reasoner.materialise()
    delta = reasoner.apply("- p(?x) :- diamondminus[2, 2] p(?x) . + p(?x) :- diamondminus[3, 3] p(?x) .")
    rows = {(sign, name, *map(str, row)) for sign, name, row in delta if name == "p"}
    assert rows == {
        ("+", "p", "a", "[3, 3]", "6"),
        ("-", "p", "a", "[2, 2]", "6"),
        ("-", "p", "a", "[4, 4]", "6"),
    }
    assert delta["p"].to_arrow().column_names[-1] == "every"
    assert delta["q"].to_arrow().num_rows == 3 and "●" in tl.timeline(delta["p"].added).text()


def test_facts_far_away_widen_the_horizon() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@0 . p(?x) :- diamondminus[2, 2] p(?x), ~stop(?x) . stop(b)@0 ."))
    reasoner.materialise()
    delta = reasoner.apply("+ stop(a)@100 .")
    assert {(str(row[1]), row[2]) for row in delta["p"].removed} == {("[100, 100]", None), ("[102, 102]", 2)}
    assert not delta["p"].added
    assert len(reasoner["p"]) == 50 and "repeats" not in str(reasoner.time.outcome)
    reasoner.apply("- stop(a)@100 .")
    assert len(reasoner.query("p(?x)@100000")) == 1
    with pytest.raises(ProgramError, match="E644"):
        reasoner.advance(5)
    with pytest.raises(ProgramError, match="E617"):
        reasoner.apply("+ p(?x) :- diamondplus[1, 1] p(?x) .")


def test_an_inconsistency_takes_everything_back() -> None:
    reasoner = tl.Reasoner(
        tl.parse("p(a)@0 . p(?x) :- diamondminus[2, 2] p(?x) . stop(b)@0 . bottom() :- p(?x), stop(?x) .")
    )
    reasoner.materialise()
    before = str(reasoner.time.outcome)
    with pytest.raises(tl.TidelogError, match=r"E601.*100"):
        reasoner.apply("+ stop(a)@100 .")
    reasoner.apply("+ stop(a)@101 .")
    assert len(reasoner.query("p(?x)@1000")) == 1 and before.startswith("complete")


def test_a_store_keeps_it(tmp_path: Path) -> None:
    tl.open(tmp_path / "store", tl.parse("p(a)@0 . p(?x) :- diamondminus[2, 2] p(?x) .")).close()
    with tl.open(tmp_path / "store") as stored:
        assert len(stored.query("p(?x)@1000000")) == 1 and not len(stored.query("p(?x)@1000001"))


def test_pictures_show_what_repeats() -> None:
    reasoner = tl.Reasoner(tl.parse("tick(a)@1 . tick(?x) :- diamondminus[2, 2] tick(?x) ."))
    assert tl.timeline(reasoner["tick"], start=0, end=8).text().count("●") == 4


def test_what_begins_with_the_first_period_may_be_a_part_of_longer_ones() -> None:
    text = "q(a)@2 . q(a)@[3, 5] . q(?x) :- diamondminus[3, 3] q(?x) ."
    reasoner = tl.Reasoner(tl.parse(text))
    assert {" ".join(map(str, row)) for row in reasoner["q"]} == {"a [2, 2] None", "a [3, 5] 3"}
    assert held(reasoner) == held(unrolled(text))


@pytest.mark.parametrize(("operator", "turned"), PAST_AND_FUTURE)
def test_what_begins_a_period_later_may_have_been_a_part_of_longer_ones(operator: str, turned: Any) -> None:
    low, high = ("[0", "inf)") if turned(1) == 1 else ("(-inf", "0]")
    text = f"d(a)@{low}, {high} . p(a)@{turned(3)} . p(?x) :- {operator} p(?x) . q(?x) :- d(?x), ~p(?x) ."
    found = {" ".join(map(str, row)) for row in tl.Reasoner(tl.parse(text))["q"]}
    later = f"({min(turned(3), turned(5))}, {max(turned(3), turned(5))})"
    first = "[0, 3)" if turned(1) == 1 else "(-3, 0]"
    assert found == {f"a {first} None", f"a {later} {turned(2)}"}
