"""The Spark engine: frames in and out, events, errors, limits, programs at random."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings

import tidelog as tl
from tests.corpus import run_engine
from tests.strategies import EVERYTHING, Case, cases
from tidelog.engine.events import Event, RoundEnded, RuleRan, StratumStrategy
from tidelog.engine.maintaining import Counters
from tidelog.engine.spark.settings import SparkSettings

pytestmark = pytest.mark.slow  # of the engine that only pipelines use, which have tests of their own

JOINS, EXECUTORS = "iterated-joins", "executor-fixpoint,iterated-joins"

REACH = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) ."
ENDLESS = "n(?x, 0) :- start(?x) . n(?x, ?m) :- n(?x, ?k), ?m = ?k + 1 . start(a) ."


def chain(length: int) -> list[tuple[int, int]]:
    return [(number, number + 1) for number in range(length)]


# ---- programs at random


@pytest.mark.parametrize("strategy", [JOINS, EXECUTORS])
def test_random_programs_give_what_the_columnar_engine_gives(strategy: str, spark: Any) -> None:
    @settings(max_examples=max(3, settings().max_examples // 25))
    @given(cases(EVERYTHING))
    def check(case: Case) -> None:
        program = tl.parse(case.text)
        try:
            expected: Any = run_engine(program, "columnar").facts
        except tl.EvaluationError as error:
            expected = error.diagnostics[0].code
        try:
            found: Any = run_engine(program, SparkSettings(spark, strategy=strategy)).facts
        except tl.EvaluationError as error:
            found = error.diagnostics[0].code
        assert found == expected

    check()


# ---- rules over time, see test_time


def test_what_holds_at_times_is_derived_on_the_driver_while_it_is_little(spark: Any) -> None:
    program = tl.parse(
        "hot(?s) :- temp(?s, ?v), ?v > 90 . alarm(?s) :- boxminus[0, 5] hot(?s), watched(?s) ."
        "temp(boiler, 92)@[0, 10) . temp(oven, 95)@[0, 30] . watched(?s) :- sensor(?s) . sensor(oven) ."
    )
    told: list[Event] = []
    reasoner = tl.Reasoner(program, engine=SparkSettings(spark), listeners=[told.append])
    assert list(map(str, reasoner["alarm"])) == list(map(str, tl.Reasoner(program)["alarm"]))
    assert len(reasoner["alarm"]) == 1
    chosen = [event for event in told if isinstance(event, StratumStrategy)]
    assert chosen[-1].strategy == "driver-closure"
    assert chosen[-1].reason == "rules over time read 3 facts, at most 10,000,000"


# ---- frames in and out


def test_a_spark_frame_goes_in_and_comes_out(spark: Any) -> None:
    program = tl.parse(
        f"@declare weight(name: string, kilos: integer) . {REACH} heavy(?x) :- weight(?x, ?n), ?n > 2 ."
    )
    reasoner = tl.Reasoner(program, engine=SparkSettings(spark, strategy=EXECUTORS))
    edges = spark.createDataFrame([("a", "b"), ("b", "c"), ("a", "b")], "x string, y string")
    assert reasoner.insert("edge", edges) == 2
    assert reasoner.insert("edge", [("c", "d"), ("a", "b")]) == 2  # what lies on Spark is not asked
    weights = [("ant", 1), ("dog", 9)]
    assert reasoner.insert("weight", spark.createDataFrame(weights, "name string, kilos long")) == 2
    assert {f"{x}{y}" for x, y in reasoner["reach"]} == {"ab", "ac", "ad", "bc", "bd", "cd"}
    assert sorted(reasoner["heavy"]) == [("dog",)]
    exact = reasoner.frame("weight")
    assert sorted(map(tuple, exact.collect())) == [('"ant"', "1"), ('"dog"', "9")]
    plain = reasoner.frame("weight", "plain")
    assert (plain.columns, sorted(map(tuple, plain.collect()))) == (
        ["name", "kilos"],
        [("ant", 1), ("dog", 9)],
    )


def test_a_columnar_reasoner_has_no_frames() -> None:
    with pytest.raises(tl.ProgramError, match="E620"):
        tl.Reasoner(tl.parse("p(1) .")).frame("p")


def test_values_of_every_kind_pass_through_spark(spark: Any) -> None:
    text = """
        p(1) . p(-1) . p(1.0) . p(1.0E0) . p("a b") . p("a"@en) . p(<http://example.org/>) . p(true) .
        p("2020-01-01"^^<http://www.w3.org/2001/XMLSchema#date>) . p(999999999999999999999999) .
        p(9223372036854775807) . p(1000000000000000000) . p("x\\ny\\"z") . p("1"^^<http://example.org/t>) .
        q(?x) :- p(?x) . r(?x, ?y) :- q(?x), ?y = STR(?x) . s(?x) :- q(?x), q(?y), ?x < ?y .
    """
    expected = run_engine(tl.parse(text), "columnar")
    assert run_engine(tl.parse(text), SparkSettings(spark, strategy=JOINS)).facts == expected.facts


def test_another_salt_gives_the_same_facts(spark: Any) -> None:
    text = f"{REACH} edge(a, b) . edge(b, c) . edge(c, a) ."
    expected = run_engine(tl.parse(text), "columnar")
    assert (
        run_engine(tl.parse(text), SparkSettings(spark, strategy=EXECUTORS, salt=7)).facts == expected.facts
    )


# ---- events


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [JOINS, EXECUTORS])
def test_events_count_what_the_columnar_engine_counts(strategy: str, spark: Any) -> None:
    text = f"{REACH} far(?x, #count(?y)) :- reach(?x, ?y) . odd(?x) :- reach(?x, ?y), ?y = ?x + 3 ."
    counted = []
    for engine in ("columnar", SparkSettings(spark, strategy=strategy)):
        heard: list[Event] = []
        reasoner = tl.Reasoner(tl.parse(text), engine=engine, modules=False, listeners=[heard.append])
        reasoner.insert("edge", chain(6))
        reasoner.materialise()
        rules = reasoner.statistics.rules
        counted.append({number: (rule.matches, rule.new, rule.no_value) for number, rule in rules.items()})
        assert reasoner.statistics.derived == sum(item.new for item in heard if isinstance(item, RuleRan))
        assert any(isinstance(item, RoundEnded) for item in heard)
    assert any(isinstance(item, StratumStrategy) for item in heard)
    assert counted[0] == counted[1]


# ---- errors


@pytest.mark.parametrize("strategy", [JOINS, EXECUTORS])
def test_overflow_names_the_rule(strategy: str, spark: Any) -> None:
    text = "p(?x, ?n) :- q(?x), ?n = 9223372036854775807 .\np(?x, ?m) :- p(?x, ?n), ?m = ?n + 1 .\nq(a) ."
    with pytest.raises(tl.EvaluationError) as caught:
        tl.Reasoner(tl.parse(text), engine=SparkSettings(spark, strategy=strategy)).materialise()
    fault = caught.value.diagnostics[0]
    assert fault.code == "E603"
    assert fault.span is not None and fault.span.text.startswith("p(?x, ?m)")


def test_a_collision_is_an_error_that_says_what_to_do(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.engine.spark import store, terms

    monkeypatch.setattr(store, "Hashing", lambda salt: terms.Hashing(salt, bits=4))
    program = tl.parse("".join(f"p(name{number}) . " for number in range(40)) + "q(?x) :- p(?x) .")
    with pytest.raises(tl.EvaluationError) as caught:
        tl.Reasoner(program, engine=SparkSettings(spark, strategy=JOINS)).materialise()
    assert caught.value.diagnostics[0].code == "E680"


# ---- limits


@pytest.mark.parametrize("strategy", [JOINS, EXECUTORS])
def test_a_timeout_cancels_the_jobs(strategy: str, spark: Any) -> None:
    reasoner = tl.Reasoner(tl.parse(ENDLESS), engine=SparkSettings(spark, strategy=strategy), timeout=4)
    start = time.monotonic()
    with pytest.raises(tl.Stopped) as caught:
        reasoner.materialise()
    assert caught.value.diagnostics[0].code == "E610"
    assert time.monotonic() - start < 60
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


@pytest.mark.parametrize("strategy", [JOINS, EXECUTORS])
def test_a_limit_on_facts_stops_endless_recursion(strategy: str, spark: Any) -> None:
    reasoner = tl.Reasoner(tl.parse(ENDLESS), engine=SparkSettings(spark, strategy=strategy), max_facts=3)
    with pytest.raises(tl.Stopped) as caught:
        reasoner.materialise()
    assert caught.value.diagnostics[0].code == "E611"


def test_an_interrupt_cancels_the_jobs_and_the_session_goes_on(spark: Any) -> None:
    reasoner = tl.Reasoner(tl.parse(ENDLESS), engine=SparkSettings(spark, strategy=EXECUTORS))
    timer = threading.Timer(3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(tl.Stopped) as caught:
        reasoner.materialise()
    assert caught.value.diagnostics[0].code == "E612"
    assert spark.range(5).count() == 5


@pytest.mark.slow
def test_frames_and_facts_of_the_driver_are_joined(spark: Any) -> None:
    """They come from different sessions; what is counted of either must be told."""
    rules = f"{REACH} reach(?x, ?y) :- hop(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), hop(?y, ?z) ."
    for strategy in (JOINS, EXECUTORS):
        reasoner = tl.Reasoner(tl.parse(rules), engine=SparkSettings(spark, strategy=strategy))
        reasoner.insert("edge", [(0, 1)])
        reasoner.insert("hop", spark.createDataFrame([(1, 2), (2, 3)]))
        assert len(reasoner["reach"]) == 6


# ---- changes

SCRIPT = [
    "+ edge(3, 9) . + edge(9, 10) .",
    "- edge(0, 1) .",
    "- edge(2, 3) . + edge(0, 1) .",
    "- edge(9, 10) .",
]
RULES = ["+ back(?y, ?x) :- reach(?x, ?y) .", "- reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) ."]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("maintainer", "resident"),
    [
        ("auto", 1000),
        ("dred", 1000),
        ("fp-update", 1000),
        ("rank-counting", 1000),
        ("recompute", 0),
        ("dred", 0),
        pytest.param("recompute", 1000, marks=pytest.mark.slow),
        pytest.param("auto", 0, marks=pytest.mark.slow),
        pytest.param("fp-update", 0, marks=pytest.mark.slow),
        pytest.param("backward-forward", 0, marks=pytest.mark.slow),
        pytest.param("rank-counting", 0, marks=pytest.mark.slow),
        pytest.param("counting", 0, marks=pytest.mark.slow),
        pytest.param("forward-backward-forward", 0, marks=pytest.mark.slow),
    ],
)
def test_changes_of_facts_and_rules(maintainer: str, resident: int, spark: Any) -> None:
    """Few facts come to the driver with the first change; else what is touched is fetched, or all derived."""
    text = f"{REACH} far(?x, #count(?y)) :- reach(?x, ?y) . leaf(?y) :- edge(_, ?y), ~edge(?y, _) ."
    deltas = []
    for engine in ("columnar", SparkSettings(spark, strategy=EXECUTORS, resident_facts=resident)):
        reasoner = tl.Reasoner(tl.parse(text), engine=engine, maintainer=maintainer)
        on_spark = engine != "columnar" and not resident
        reasoner.insert("edge", spark.createDataFrame(chain(5)) if on_spark else chain(5))
        is_dear = maintainer == "recompute" and not resident
        steps = (SCRIPT[2], RULES[0]) if is_dear else (*SCRIPT, *RULES)
        found = [sorted(map(str, reasoner.apply(step))) for step in steps]
        deltas.append((found, *(sorted(reasoner[name]) for name in ("edge", "reach", "far", "leaf", "back"))))
    assert deltas[0] == deltas[1]


@pytest.mark.slow
def test_more_facts_than_the_driver_is_to_hold_have_no_tables_there(spark: Any) -> None:
    reasoner = tl.Reasoner(tl.parse(REACH), engine=SparkSettings(spark, strategy=JOINS, resident_facts=3))
    reasoner.insert("edge", spark.createDataFrame(chain(5)))
    with pytest.raises(tl.EvaluationError) as caught:
        reasoner.query("reach(0, ?x)", "tabling")
    assert caught.value.diagnostics[0].code == "E684"
    assert len(reasoner.query("reach(0, ?x)", "magic")) == 5


@pytest.mark.slow
def test_instances_are_counted_where_the_facts_lie(spark: Any) -> None:
    """Three edges to 3 from 0, one way that is longer: one founded instance, one hidden by its rank."""
    rules = f"{REACH} reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) ."
    deltas = []
    for engine in ("columnar", SparkSettings(spark, strategy=JOINS, resident_facts=0)):
        reasoner = tl.Reasoner(tl.parse(rules), engine=engine, maintainer="rank-counting", modules=False)
        edges = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 1)]
        is_far = engine != "columnar"
        reasoner.insert("edge", spark.createDataFrame(edges) if is_far else edges)
        deltas.append(
            [sorted(map(str, reasoner.apply(step))) for step in ("- edge(0, 3) .", "- edge(3, 1) .")]
        )
        assert reasoner.engine.counters is Counters.RANK
        assert not is_far or reasoner.engine.is_placed("reach")
    assert deltas[0] == deltas[1]


@pytest.mark.slow
def test_what_an_update_touches_is_fetched_and_the_bulk_stays(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hundred chains one is touched; the next update of the same facts needs no job at all."""
    monkeypatch.setattr("tidelog.engine.spark.fetching.ROWS_OF_A_JOB", 0)
    chains = [(10 * chain + step, 10 * chain + step + 1) for chain in range(100) for step in range(4)]
    settings = SparkSettings(spark, strategy=EXECUTORS, resident_facts=0)
    reasoner = tl.Reasoner(tl.parse(REACH), engine=settings)
    reasoner.insert("edge", spark.createDataFrame(chains))
    reasoner.materialise()
    engine = reasoner.engine
    assert reasoner.apply("- edge(0, 1) .").removed == 5
    assert engine.is_placed("edge") and engine.is_placed("reach")
    assert sum(len(engine.table(name)) for name in ("edge", "reach")) <= 4 + 10
    reasoner.apply("+ edge(0, 1) .")
    jobs = engine.store.jobs.count
    assert reasoner.apply("- edge(0, 1) .").removed == 5
    assert engine.store.jobs.count == jobs
    assert reasoner.frame("reach").count() == reasoner.frame("reach").distinct().count() == 1000 - 4
    assert len(reasoner["reach"]) == 996


def test_what_costs_many_jobs_in_parts_is_fetched_as_a_whole(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edge at the end of a chain: its 20 pairs are found one after the other."""
    monkeypatch.setattr("tidelog.engine.spark.fetching.ROWS_OF_A_JOB", 100)
    rules = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) ."
    settings = SparkSettings(spark, strategy=EXECUTORS, resident_facts=0)
    reasoner = tl.Reasoner(tl.parse(rules), engine=settings, modules=False)
    reasoner.insert("edge", spark.createDataFrame(chain(20)))
    reasoner.materialise()
    jobs = reasoner.engine.store.jobs.count
    assert reasoner.apply("- edge(19, 20) .").removed == 1 + 20
    assert reasoner.engine.store.jobs.count - jobs <= 12
    assert reasoner.engine.is_placed("reach") and len(reasoner["reach"]) == 190


@pytest.mark.slow
def test_an_update_that_touches_too_much_is_taken_back_and_derived_anew(spark: Any) -> None:
    settings = SparkSettings(spark, strategy=EXECUTORS, resident_facts=0, fetched_facts=10)
    for maintainer in ("dred", "auto"):
        reasoner = tl.Reasoner(tl.parse(REACH), engine=settings, maintainer=maintainer)
        reasoner.insert("edge", spark.createDataFrame(chain(12)))
        if maintainer == "auto":
            assert reasoner.apply("- edge(5, 6) .").removed == 43
            continue
        with pytest.raises(tl.EvaluationError) as caught:
            reasoner.apply("- edge(5, 6) .")
        assert caught.value.diagnostics[0].code == "E684"
        assert len(reasoner["reach"]) == 78
