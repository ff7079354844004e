"""Strategies: how each stratum is derived, what is shown of it, and what happens if one is forced."""

from __future__ import annotations

from typing import Any

import pytest

import tidelog as tl
from tidelog.engine.spark.settings import SparkSettings
from tidelog.engine.spark.strategies import Choice, Sizes, choose, kept_arguments, needs_terms
from tidelog.logic.strata import Stratum, strata

REACH = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) ."
BACKWARDS = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) ."
NONLINEAR = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) ."
MUTUAL = """
    even(?x, ?y) :- same(?x, ?y) .
    odd(?y, ?x) :- even(?x, ?z), edge(?z, ?y) .
    even(?x, ?y) :- odd(?z, ?x), edge(?z, ?y) .
"""
COUNTING = "up(?x, ?n) :- start(?x, ?n) . up(?x, ?m) :- up(?x, ?n), ?n < 5, ?m = ?n + 1 ."


def only(text: str) -> Stratum:
    return strata(tl.parse(text).rules)[-1]


def choice(text: str, settings: SparkSettings, size: int = 1000, terms: int = 0) -> Choice:
    return choose(only(text), Sizes(lambda name: size, terms, settings))


LARGE = SparkSettings(driver_facts=0)
NARROW = SparkSettings(driver_facts=0, broadcast_rows=10)
EITHER = SparkSettings(strategy="executor-fixpoint, iterated-joins")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (REACH, {"reach": 0}),
        (BACKWARDS, {"reach": 1}),
        (NONLINEAR, None),
        (MUTUAL, {"even": 0, "odd": 1}),
        (COUNTING, {"up": 0}),
        ("p(?x) :- q(?x) . p(?x) :- p(?x), r(?x) .", {"p": 0}),
        ("p(?x) :- q(?x) . p(a) :- p(a), r(a) .", None),
        ("h() :- q(?x) . h() :- h(), q(?x) .", None),
    ],
)
def test_arguments_that_recursion_keeps(text: str, kept: dict[str, int] | None) -> None:
    found = kept_arguments(only(text))
    assert found == kept


def test_functions_in_recursion_need_terms() -> None:
    assert needs_terms(only(COUNTING))
    assert not needs_terms(only(REACH))
    assert not needs_terms(only("p(?x, ?y) :- q(?x, ?y) . p(?x, ?z) :- p(?x, ?y), q(?y, ?z), ?x != ?z ."))


def test_what_is_small_is_closed_on_the_driver() -> None:
    assert choice(REACH, SparkSettings()).strategy == "driver-closure"
    assert choice(REACH, SparkSettings(driver_facts=1999)).strategy != "driver-closure"


@pytest.mark.parametrize(
    ("text", "settings", "strategy", "reason"),
    [
        (REACH, LARGE, "executor-fixpoint", "the recursion keeps reach/1"),
        (NONLINEAR, LARGE, "iterated-joins", "no argument is kept by all recursive rules"),
        ("p(?x) :- q(?x) .", LARGE, "lazy", "no recursion"),
        (
            REACH,
            SparkSettings(driver_facts=0, broadcast_rows=10),
            "iterated-joins",
            "`edge` has more than 10",
        ),
        (
            NONLINEAR,
            SparkSettings(strategy="executor-fixpoint, iterated-joins"),
            "iterated-joins",
            "as asked",
        ),
        ("p(?x) :- q(?x) .", SparkSettings(strategy="iterated-joins"), "lazy", "no recursion"),
        (REACH, SparkSettings(strategy="driver-closure"), "driver-closure", "as asked for"),
    ],
)
def test_choices_and_their_reasons(text: str, settings: SparkSettings, strategy: str, reason: str) -> None:
    chosen = choice(text, settings)
    assert (chosen.strategy, chosen.reason[: len(reason)]) == (strategy, reason)


def test_terms_that_functions_need_must_fit_too() -> None:
    chosen = choice(COUNTING, LARGE, terms=10**7)
    assert chosen.strategy == "iterated-joins"
    assert "10,000,000 terms" in chosen.reason


@pytest.mark.parametrize("strategy", ["executor-fixpoint", "lazy"])
def test_a_forced_strategy_that_does_not_serve_is_an_error(strategy: str) -> None:
    with pytest.raises(tl.ProgramError) as caught:
        choice(NONLINEAR, SparkSettings(strategy=strategy))
    fault = caught.value.diagnostics[0]
    assert fault.code == "E681"
    assert fault.span is not None and "iterated-joins" in (fault.help or "")


def test_settings_are_read_from_options() -> None:
    read = SparkSettings().configured(
        {"tidelog.strategy": "lazy", "tidelog.driverFacts": "7", "spark.executor.memory": "2g"}
    )
    assert (read.strategy, read.driver_facts, read.conf) == ("lazy", 7, {"spark.executor.memory": "2g"})


@pytest.mark.parametrize(
    ("options", "help"),
    [
        ({"tidelog.strategy": "lasy"}, "did you mean `lazy`?"),
        ({"tidelog.strateggy": "lazy"}, "did you mean `tidelog.strategy`?"),
        ({"tidelog.salt": "x"}, None),
    ],
)
def test_settings_that_make_no_sense_are_errors(options: dict[str, str], help: str | None) -> None:
    with pytest.raises(tl.ProgramError) as caught:
        SparkSettings().configured(options)
    assert (caught.value.diagnostics[0].code, caught.value.diagnostics[0].help) == ("E682", help)


def test_small_programs_start_no_session() -> None:
    reasoner = tl.Reasoner(tl.parse(f"{REACH} edge(a, b) . edge(b, c) ."), engine=SparkSettings())
    assert len(reasoner["reach"]) == 3
    engine: Any = reasoner._engine
    assert not engine.has_session
    assert [event.strategy for event in reasoner.statistics.strategies.values()] == ["driver-closure"]
    reasoner.apply("- edge(a, b) .")
    assert len(reasoner["reach"]) == 1
