"""Rules over time on Spark: the facts and the outcome of the columnar engine, and changes after that."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.temporal.test_changes import HORIZON
from tests.temporal.test_procedures import programs, rules
from tidelog.engine.events import Event, StratumStrategy
from tidelog.engine.spark import intervals
from tidelog.engine.spark.settings import SparkSettings
from tidelog.errors import EvaluationError, TidelogError
from tidelog.logic.time import Interval
from tidelog.temporal import list_kernels
from tidelog.temporal.lists import Lists, Timeline, single
from tidelog.temporal.metric import take_apart

pytestmark = pytest.mark.slow  # of the engine that only pipelines use, which have tests of their own

ROUNDS = "lazy,iterated-joins"  # no strategy of the driver
FEW = settings(max_examples=2)  # an example takes half a minute
EVERY = """
p(a)@[0, 1) . p(a)@[1, 2] . p(b)@(0, 3) . q(a)@5 . q(b)@[1, 2) . h(a, 1)@[0, 1/3] . h(a, 2)@1 .
w(a) . w(b) . w(7) . near(a, b) .
lasting(?x) :- p(?x) since[0, 7] q(?x) .
awaited(?x) :- p(?x) until(0, 4] q(?x) .
apart(?x, ?y) :- p(?x) since[0, 2] q(?y), near(?x, ?y) .
box(?x) :- boxminus(0, 1] p(?x) .
nested(?x) :- boxplus[0, 1] diamondminus[1/2, 2) p(?x) .
never(?x) :- w(?x), ~boxplus[0, 1/2) p(?x) .
free(?x) :- p(?x), ~h(?x, _) .
unlike(?x) :- w(?x), ~p(?x) since[0, 1] q(?own), ~p(?other) until[0, 0] q(a) .
none(?x) :- w(?x), ~awaited(?x), ~diamondminus[0, inf) h(_, 2) .
twice(?y) :- w(?x), ?y = ?x * 2, diamondplus[0, inf) p(?z) .
more(?x, STR(?x)) :- twice(?x), ?x > 3 .
always() :- top() .
boxplus[1, 2] boxminus(0, 1] later(?x) :- q(?x) .
step(?x) :- q(?x) .
step(?x) :- diamondminus[2, 2] step(?x), w(?x) .
"""


def held(reasoner: tl.Reasoner) -> dict[str, list[tuple[str, ...]]]:
    return {name: sorted(tuple(map(str, row)) for row in reasoner[name]) for name in reasoner}


def on_spark(spark: Any, program: tl.Program, **options: Any) -> tl.Reasoner:
    return tl.Reasoner(program, engine=SparkSettings(spark, strategy=ROUNDS), **options)


def assert_same(spark: Any, text: str, **options: Any) -> None:
    """Both engines give the same facts and say the same of them, or the same error."""
    program = tl.parse(text)
    here, there = tl.Reasoner(program, **options), on_spark(spark, program, **options)
    try:
        expected: Any = held(here)
    except EvaluationError as error:
        expected = error.diagnostics[0].code
    try:
        found: Any = held(there)
    except EvaluationError as error:
        found = error.diagnostics[0].code
    assert found == expected
    assert str(there.time.outcome) == str(here.time.outcome)


def test_facts_of_two_rounds_a_negation_and_a_function(spark: Any) -> None:
    assert_same(
        spark,
        "p(a)@[0, 1) . p(a)@[1, 4] . p(b)@(0, 3) . q(a)@1 . w(a) . w(b) ."
        "r(?x) :- boxminus(0, 1] p(?x), w(?x), ~q(?x) . s(STR(?x)) :- p(?x) since[0, 2] q(?x), r(?x) .",
    )


@pytest.mark.slow
def test_every_operator(spark: Any) -> None:
    """Within a horizon that cuts off, since `step` has no end."""
    assert_same(spark, EVERY, time=tl.TimeSettings(horizon=tl.read_interval("[-2, 6]")))


@pytest.mark.slow
@pytest.mark.parametrize("procedure", ["naive", "seminaive", "optimised"])
def test_rounds(procedure: str, spark: Any) -> None:
    text = EVERY.replace("none(?x)", "% none(?x)")  # what is negated must be finished
    assert_same(spark, text, time=tl.TimeSettings(procedure, 2))


@pytest.mark.slow
def test_random_programs(spark: Any) -> None:
    @FEW
    @given(programs(), st.integers(1, 3))
    def check(text: str, rounds: int) -> None:
        assert_same(spark, text, time=tl.TimeSettings(rounds=rounds))

    check()


@pytest.mark.slow
def test_many_random_rules_at_once(spark: Any) -> None:
    """Rules of one program that do not read each other's heads: their jobs are the same."""

    @FEW
    @given(st.lists(rules(False), min_size=10, max_size=20))
    def check(some: list[str]) -> None:
        heads = [_renamed_head(rule, number) for number, rule in enumerate(some)]
        facts = "p(a)@[0, 2) . p(b)@(1, 3] . q(a)@2 . q(b)@[0, 1] . e(a, b)@[0, 4] . n(a)@1 . n(b)@(0, 2) ."
        facts += " m(a, b)@[0, 1] . z()@1 ."
        assert_same(spark, "\n".join([facts, *heads]))

    check()


def _renamed_head(rule: str, number: int) -> str:
    """The rule with a predicate of its own in the head."""
    head, sign, body = rule.partition(":-")
    before, bracket, terms = head.rpartition("(")
    return f"{before}{number}{bracket}{terms}{sign}{body}"


@pytest.mark.slow
def test_changes_after_that(spark: Any) -> None:
    program = tl.parse(EVERY)
    here, there = tl.Reasoner(program, time=HORIZON), on_spark(spark, program, time=HORIZON)
    for script in ("- p(a)@[1, 3/2] .\n+ q(a)@[7, 8] .", "+ w(c) .\n+ p(c)@[0, 5] .\n- near(a, b) ."):
        for reasoner in (here, there):
            reasoner.materialise()
        deltas = [reasoner.apply(script) for reasoner in (here, there)]
        assert held(there) == held(here)
        assert len({str(delta) for delta in deltas}) == 1


@pytest.mark.slow
def test_what_does_not_fit_the_driver_stays_on_spark(spark: Any) -> None:
    program = tl.parse("p(a)@[0, 1) . p(b)@3 . q(?x) :- diamondminus[1, 2] p(?x) .")
    told: list[Event] = []
    engine = SparkSettings(spark, driver_facts=0, resident_facts=2)
    reasoner = tl.Reasoner(program, engine=engine, listeners=[told.append])
    assert sorted(map(str, reasoner["q"])) == sorted(map(str, tl.Reasoner(program)["q"]))
    with pytest.raises(TidelogError, match="E684"):
        reasoner.apply("+ p(c)@1 .")
    chosen = [event for event in told if isinstance(event, StratumStrategy)]
    assert [(each.strategy, each.reason) for each in chosen] == [
        ("interval-rounds", "rules over time read 2 facts, more than 0")
    ]


@pytest.mark.slow
def test_a_time_out_of_range_is_an_error(spark: Any) -> None:
    text = "p(a)@500000000 . q(?x) :- diamondminus[500000000, 500000000] p(?x) . p(b)@1/999999937 ."
    assert_same(spark, text)


@pytest.mark.slow
def test_what_has_no_end_is_for_the_driver(spark: Any) -> None:
    program = tl.parse("p(a)@0 . p(?x) :- diamondminus[1, 1] p(?x) .")
    with pytest.raises(TidelogError, match="E616"):
        on_spark(spark, program).materialise()
    assert held(tl.Reasoner(program, engine=SparkSettings(spark))) == held(tl.Reasoner(program))


# ---- the algebra of intervals

BOUND = st.integers(-6, 6)


@st.composite
def lists(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Coalesced intervals, the first and the last perhaps without end."""
    cuts = sorted(draw(st.sets(BOUND, min_size=0, max_size=6)))
    found = [
        (left, right - 2) for left, right in zip(cuts[::2], cuts[1::2], strict=False) if left <= right - 2
    ]
    is_early, is_late = draw(st.tuples(st.booleans(), st.booleans()))
    if found and is_early:
        found[0] = (-intervals.INFINITY, found[0][1])
    if found and is_late:
        found[-1] = (found[-1][0], intervals.INFINITY)
    return found


PAIRS = st.lists(st.tuples(lists(), lists()), min_size=20, max_size=40)
WINDOWS = [
    Interval(Fraction(0), Fraction(1)),
    Interval(Fraction(1), Fraction(2), True, True),
    Interval(Fraction(0), Fraction(1), True),
    Interval(Fraction(1), None, False, True),
]


def test_ends_are_those_of_the_kernels() -> None:
    assert (intervals.INFINITY, intervals.LIMIT) == (list_kernels.INFINITY, list_kernels.LIMIT)


@pytest.mark.slow
@settings(max_examples=3)
@given(PAIRS)
def test_operators_are_those_of_the_kernels(spark: Any, pairs: list[Any]) -> None:
    """Each operator over many lists of intervals at once, the number of a list being the key."""
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    left, right = (_frame(spark, some) for some in (first, second))
    here, there = _lists(first), _lists(second)
    numbers = here.numbers
    found = {"without": intervals.without(left, right, ["k"])}
    expected = {"without": here.without(there, numbers, numbers)}
    joined = left.join(intervals.renamed(right), "k")
    found["common"] = intervals.common(joined)
    expected["common"] = here.intersected(there, numbers, numbers)
    found["coalesced"] = intervals.coalesced(left.unionAll(right), ["k"])
    expected["coalesced"] = here.united(there, numbers, numbers)
    timeline = Timeline()
    for place, window in enumerate(WINDOWS):
        for name in ("diamondminus", "diamondplus", "boxminus", "boxplus"):
            by = timeline.operator(name, window)
            moved = intervals.moved(left, [int(each) for each in by])
            found[f"{name} {place}"] = intervals.coalesced(moved, ["k"])
            expected[f"{name} {place}"] = here.moved(by)
        for name in ("since", "until"):
            parts = take_apart(name, window, timeline)
            assert parts.by is not None
            lasting = intervals.lasting(joined, [int(each) for each in parts.by], False)
            found[f"{name} {place}"] = intervals.coalesced(lasting, ["k"])
            expected[f"{name} {place}"] = here.lasting(there, numbers, numbers, parts.by, False)
    assert _collected(found) == {
        (name, *row)
        for name, some in expected.items()
        for row in zip(*(a.tolist() for a in some.rows()), strict=True)
    }


def _frame(spark: Any, some: list[list[tuple[int, int]]]) -> Any:
    rows = [(number, *ends) for number, each in enumerate(some) for ends in each]
    return spark.createDataFrame(rows, f"k long, {intervals.LEFT} long, {intervals.RIGHT} long")


def _lists(some: list[list[tuple[int, int]]]) -> Lists:
    ends = np.array([ends for each in some for ends in each], np.int64).reshape(-1, 2)
    count = np.array([len(each) for each in some], np.int64)
    pool = single(ends[:, 0].copy(), ends[:, 1].copy())
    return Lists(np.cumsum(count) - count, count, pool.left, pool.right)


def _collected(frames: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The rows of all frames, in one job."""
    from pyspark.sql import functions as sql

    named = [
        frame.select(sql.lit(name).alias("name"), "k", intervals.LEFT, intervals.RIGHT)
        for name, frame in frames.items()
    ]
    whole = named[0]
    for other in named[1:]:
        whole = whole.unionAll(other)
    return {tuple(row) for row in whole.collect()}


def test_times_of_a_data_frame(spark: Any) -> None:
    frame = spark.createDataFrame([("a", 0, 2), ("b", 5, 6)], "name string, start int, end int")
    reasoner = on_spark(spark, tl.parse("soon(?x) :- diamondplus[0, 1] p(?x) ."))
    assert reasoner.insert("p", frame) == 2
    here = tl.Reasoner(reasoner.program)
    here.insert("p", frame.toArrow())
    assert held(reasoner) == held(here)
    assert [str(row[-1]) for row in here["soon"]] == ["[-1, 2]", "[4, 6]"]
