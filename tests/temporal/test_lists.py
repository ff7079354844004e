"""The interval algebra against the definitions of the operators, point by point."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.temporal.oracle import REACH, Points, cells_of, operated
from tidelog.errors import EvaluationError
from tidelog.logic.intervals import Interval
from tidelog.temporal.interval_kernels import INFINITY
from tidelog.temporal.interval_table import (
    IntervalLists,
    TimedTable,
    Timeline,
    concatenate,
    empty_lists,
    single,
)
from tidelog.temporal.metric_rules import evaluate_metric

UNARY = ("boxminus", "boxplus", "diamondminus", "diamondplus")
NEAR = range(-16, 17)  # cells that no infinite end of the oracle's world disturbs


def interval(start: int | None, end: int | None, start_open: bool, end_open: bool) -> Interval | None:
    try:
        return Interval(
            None if start is None else Fraction(start),
            None if end is None else Fraction(end),
            start_open,
            end_open,
        )
    except ValueError:
        return None


def every(starts: list[int | None], ends: list[int | None]) -> list[Interval]:
    """Intervals with these bounds, open and closed."""
    found = (interval(*parts) for parts in product(starts, ends, (False, True), (False, True)))
    return list(dict.fromkeys(one for one in found if one is not None))


WINDOWS = every([0, 1, 2], [0, 1, 2, 4, None])
FACTS = every([None, 0], [None, 0, 1, 3, 6])


def listed(intervals: list[Interval], timeline: Timeline) -> IntervalLists:
    """One list of intervals, coalesced."""
    left, right = timeline.encode(intervals)
    return single(left, right).grouped(np.zeros(len(left), np.int64))[1]


def cells(lists: IntervalLists, timeline: Timeline) -> Points:
    """The cells of the one list."""
    assert len(lists) <= 1
    step = 2 if timeline.is_integer else 1
    _, left, right = lists.rows()
    assert (left[1:] > right[:-1] + 1).all(), "coalesced"
    return frozenset(
        cell
        for low, high in zip(left.tolist(), right.tolist(), strict=True)
        for cell in range(max(-2 * REACH, low * step), min(2 * REACH, high * step) + 1)
        if cell % step == 0
    )


def check(operator: str, window: Interval, operands: list[list[Interval]], is_integer: bool) -> None:
    timeline = Timeline(is_integer=is_integer)
    left, right = timeline.ends(window)
    if left > right:
        return  # no integer: refused before it comes to this
    made = evaluate_metric(operator, window, [listed(facts, timeline) for facts in operands], timeline)
    expected = operated(operator, window, tuple(map(cells_of, operands)), is_integer, NEAR)
    assert cells(made, timeline) & set(NEAR) == expected, (operator, str(window), list(map(str, operands[0])))


@pytest.mark.parametrize("is_integer", [False, True])
@pytest.mark.parametrize("operator", UNARY)
def test_an_operator_over_every_combination_of_ends(operator: str, is_integer: bool) -> None:
    for window, fact in product(WINDOWS, FACTS):
        check(operator, window, [[fact]], is_integer)


@pytest.mark.parametrize("is_integer", [False, True])
@pytest.mark.parametrize("operator", ["since", "until"])
def test_since_and_until_over_every_combination_of_ends(operator: str, is_integer: bool) -> None:
    facts = every([None, 0], [1, 3])
    others = every([0], [2]) + every([2], [2, 4]) + [Interval(None, Fraction(1)), Interval(Fraction(1), None)]
    for window, first, second in product(every([0, 1], [0, 1, 3, None]), facts, others):
        check(operator, window, [[first], [second]], is_integer)


BOUNDS = st.integers(-5, 5)
SOME = st.builds(interval, BOUNDS, BOUNDS, st.booleans(), st.booleans()).filter(bool)
UNIONS = st.lists(SOME, max_size=5)


@given(st.sampled_from(UNARY), st.sampled_from(WINDOWS), UNIONS, st.booleans())
def test_an_operator_over_unions(
    operator: str, window: Interval, facts: list[Interval], is_integer: bool
) -> None:
    check(operator, window, [facts], is_integer)


@given(st.sampled_from(["since", "until"]), st.sampled_from(WINDOWS), UNIONS, UNIONS, st.booleans())
@settings(max_examples=3 * settings().max_examples)
def test_since_and_until_over_unions(
    operator: str, window: Interval, first: list[Interval], second: list[Interval], is_integer: bool
) -> None:
    check(operator, window, [first, second], is_integer)


@given(UNIONS, UNIONS)
def test_sets_of_points(first: list[Interval], second: list[Interval]) -> None:
    timeline = Timeline()
    one, other = listed(first, timeline), listed(second, timeline)
    expected = cells_of(first), cells_of(second)
    numbers = np.zeros(1, np.int64) if len(one) else np.full(1, -1)
    others = np.zeros(1, np.int64) if len(other) else np.full(1, -1)
    assert cells(one.united(other, numbers, others), timeline) == expected[0] | expected[1]
    assert cells(one.intersected(other, numbers, others), timeline) == expected[0] & expected[1]
    assert cells(one.without(other, numbers, others), timeline) == expected[0] - expected[1]


@given(st.lists(UNIONS, min_size=1, max_size=4), st.lists(UNIONS, max_size=6), st.data())
def test_points_without_those_of_matching_facts(
    lists: list[list[Interval]], facts: list[list[Interval]], data: st.DataObject
) -> None:
    # Fact i of the table is (i, key); the row of list j has a key in its second place.
    timeline, keys = Timeline(), st.integers(0, 2)
    window = data.draw(st.none() | st.tuples(st.sampled_from(UNARY), st.sampled_from(WINDOWS)))
    table = TimedTable("p", 2)
    fact_keys = [data.draw(keys) for _ in facts]
    for number, (key, intervals) in enumerate(zip(fact_keys, facts, strict=True)):
        numbers = table.number(np.array([[number], [key]], np.int32))
        table.gain(numbers[: len(intervals)], listed(intervals, timeline))
    given_keys = [data.draw(keys) for _ in lists]
    rows = np.array([[9] * len(lists), given_keys], np.int32)
    some = concatenate([listed(one, timeline) if one else empty_lists(1) for one in lists])
    by = np.zeros(0, np.int64) if window is None else timeline.operator(*window)
    left = table.without_matches(some, rows, some.numbers, np.array([1]), (1,), by)
    for number, (key, intervals) in enumerate(zip(given_keys, lists, strict=True)):
        expected = cells_of(intervals)
        for fact_key, points in zip(fact_keys, map(cells_of, facts), strict=True):
            if fact_key == key:
                expected -= points if window is None else operated(*window, (points,))
        assert cells(left.take(np.array([number])), timeline) & set(NEAR) == expected & set(NEAR)


def test_there_is_room_for_any_number_of_pieces() -> None:
    timeline, table = Timeline(), TimedTable("p", 2)
    points = [Interval(Fraction(number), Fraction(number)) for number in range(200)]
    rows = np.array([range(200), [7] * 200], np.int32)
    table.gain(table.number(rows), single(*timeline.encode(points)))
    whole = listed([Interval(Fraction(-1), Fraction(200))], timeline)
    by = np.zeros(0, np.int64)
    left = table.without_matches(
        whole, np.array([[7]], np.int32), np.zeros(1, np.int64), np.array([0]), (1,), by
    )
    assert left.size == 201


@given(SOME, st.integers(1, 12))
def test_units_do_not_matter(one: Interval, scale: int) -> None:
    timeline = Timeline(scale)
    assert timeline.decode(*timeline.ends(one)) == one
    left, right = Timeline().encode([one])
    Timeline().rescale(left, right, scale)
    assert timeline.decode(int(left[0]), int(right[0])) == one


def test_adjacent_intervals_are_one_unless_a_point_is_missing() -> None:
    timeline = Timeline()
    touching = [interval(0, 1, False, True), interval(1, 2, False, False)]
    apart = [interval(0, 1, True, True), interval(1, 2, True, True)]
    assert listed([one for one in touching if one], timeline).size == 1
    assert listed([one for one in apart if one], timeline).size == 2
    whole = Timeline(is_integer=True)
    assert listed([Interval(Fraction(0), Fraction(1)), Interval(Fraction(2), Fraction(3))], whole).size == 1


def test_open_windows_over_open_intervals_give_closed_ends() -> None:
    timeline = Timeline()
    by = timeline.operator("boxminus", Interval(Fraction(1), Fraction(2), True, True))
    moved = listed([Interval(Fraction(0), Fraction(3), True, True)], timeline).shifted(by)
    assert str(timeline.decode(int(moved.left[0]), int(moved.right[0]))) == "[2, 4]"


def test_a_time_beyond_the_range_is_an_error() -> None:
    timeline = Timeline()
    far = Interval(Fraction(2**58), Fraction(2**58))
    by = timeline.operator("diamondminus", Interval(Fraction(2**58), Fraction(2**58 + 2)))
    with pytest.raises(EvaluationError, match="64 bits"):
        listed([far], timeline).shifted(by).shifted(by)
    with pytest.raises(EvaluationError, match="64 bits"):
        Timeline(scale=7).ends(Interval(Fraction(2**58), None))
    assert listed([Interval(None, None)], timeline).shifted(by).bounds == (-INFINITY, INFINITY)
