"""Many rounds of a recursive stratum in one call: the same facts and the same events as plan by plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import tidelog as tl
from tidelog.data import dictionary
from tidelog.engine import fixpoint, interrupts, reference
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.columnar.interpreter import executor, plan_runner
from tidelog.engine.columnar.storage import table
from tidelog.engine.events import Event, RoundEnded, RoundsRan, RuleRan, Tally
from tidelog.errors import EvaluationError
from tidelog.logic.conversions import exact
from tidelog.plan.join_order import Freshness

COUNTING = """
b(0) . c(1) . d(1) .
a(?x) :- b(?x), c(?y), d(?y) .
b(?x + 1) :- a(?x), ?x < {most} .
"""


# ---- programs of many rounds

TEMPLATES = (
    "{p}(?x + {k}, ?y) :- {q}(?x, ?y), ?x < {n} .",
    "{p}(?y, ?x) :- {q}(?x, ?y), {r}(?y, {k}) .",
    "{p}(?x, ?z) :- {q}(?x, ?y), e(?y, ?z) .",
    "{p}(?x, ?z) :- {q}(?x, ?y), {r}(?y, ?z), ?x < ?z .",
    "{p}(REM(?x * 3, {n}), ?y) :- {q}(?x, ?y) .",
    "{p}(STRLEN(CONCAT(STR(?x), STR(?y))), ?x) :- {q}(?x, ?y) .",
    "{p}(REM(?x / (?y - {k}), 7), ?y) :- {q}(?x, ?y) .",
    "{p}({k}, ?y) :- {q}(?x, ?y), {r}({n}, ?x) .",
    "{p}(?x, ?x) :- {q}(?x, ?x), ~e(?x, {k}) .",
    "{p}(?x, {n}) :- {q}(?x, {k}), {r}(?z, ?z), e({k}, ?y) .",
)


@st.composite
def programs(draw: DrawFn) -> str:
    """A program over numbers up to a hundred or so, that often takes dozens of rounds."""
    name, number = st.sampled_from("abc"), st.integers(0, 5)
    rules = [
        draw(st.sampled_from(TEMPLATES)).format(
            p=draw(name), q=draw(name), r=draw(name), k=draw(number), n=draw(st.integers(3, 40))
        )
        for _ in range(draw(st.integers(1, 6)))
    ]
    facts = [f"{draw(st.sampled_from('abce'))}({draw(number)}, {draw(number)}) ." for _ in range(5)]
    chain = [f"e({each}, {each + 1}) ." for each in range(draw(st.integers(0, 30)))]
    begin = "".join(f"@declare {each}(_: any, _: any) .\n" for each in "abce")
    return begin + "\n".join([TEMPLATES[0].format(p="a", q="a", k=1, n=20), *rules, *facts, *chain])


@dataclass(frozen=True)
class Sizes:
    """Sizes at which the engine does something else."""

    many: int = 1 << 13  # new facts of a round that is run plan by plan; 0: all are
    few_rounds: int = 4
    runs: int = 1 << 12
    ends: int = 1 << 16
    matches: int = 1 << 24
    capacity: int = 64
    batch: int = 4096
    grown: Freshness = fixpoint.FRESHNESS
    threads: int = 1

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Let the engine work with these sizes."""
        with ExitStack() as stack:
            for module, name, value in (
                (fixpoint, "MANY", self.many),
                (fixpoint, "FEW_ROUNDS", self.few_rounds),
                (fixpoint, "FRESHNESS", self.grown),
                (executor, "MOST_RUNS", self.runs),
                (executor, "MOST_ENDS", self.ends),
                (plan_runner, "BATCH", self.batch),
                (plan_runner, "PARALLEL_FROM", max(self.many, 1)),
                (interrupts, "MATCHES", self.matches),
                (table, "FIRST_CAPACITY", self.capacity),
                (dictionary, "FIRST_CAPACITY", 16 * self.capacity),
            ):
                stack.enter_context(patch.object(module, name, value))
            yield


PLAN_BY_PLAN = Sizes(many=0)
ODD_SIZES = st.builds(
    Sizes,
    many=st.sampled_from((2, 5, 1 << 13)),
    few_rounds=st.sampled_from((0, 4)),
    runs=st.sampled_from((1, 3, 1 << 12)),
    ends=st.sampled_from((1, 20, 1 << 16)),
    matches=st.sampled_from((1, 300, 1 << 24)),
    capacity=st.sampled_from((4, 64)),
    batch=st.sampled_from((16, 4096)),
    grown=st.sampled_from((fixpoint.FRESHNESS, Freshness(grown=2, small=3, from_empty=False))),
    threads=st.sampled_from((1, 2)),
)


@dataclass(frozen=True)
class Done:
    """What came of a program: facts in their order, where rounds ended, what listeners were told."""

    facts: dict[str, list[tuple[object, ...]]]
    rounds: dict[str, list[int]]
    events: list[Event]
    tally: Tally


def done(text: str, sizes: Sizes, many: list[RoundsRan] | None = None) -> Done:
    events: list[Event] = []

    def note(event: Event) -> None:
        if isinstance(event, RuleRan):
            events.append(replace(event, seconds=0.0))
        elif isinstance(event, RoundEnded):
            events.append(event)

    class Rounds:
        hears_rounds = True

        def __call__(self, event: Event) -> None:
            if many is not None and isinstance(event, RoundsRan):
                many.append(event)

    with sizes.holding():
        reasoner = tl.Reasoner(
            tl.parse(text), listeners=[note, Rounds()], threads=sizes.threads, modules=False
        )
        reasoner.materialise()
        engine = reasoner.runtime.engine
        assert isinstance(engine, ColumnarEngine)
        rounds = {name: list(engine.catalog.table(name).rounds) for name in reasoner.program.predicates}
        facts = {name: list(reasoner[name]) for name in reasoner.program.predicates}
    for statistics in reasoner.statistics.rules.values():
        statistics.seconds = 0.0
    return Done(facts, rounds, events, reasoner.statistics)


def summed(tally: Tally) -> tuple[object, ...]:
    rounds = {number: ended.rounds for number, ended in tally.strata.items()}
    return tally.rules, tally.derived, tally.matches, tally.round, rounds


@given(programs(), ODD_SIZES)
def test_events_and_facts_are_those_of_plans_run_one_by_one(text: str, sizes: Sizes) -> None:
    expected, actual = done(text, PLAN_BY_PLAN), done(text, sizes)
    assert actual.events == expected.events
    assert summed(actual.tally) == summed(expected.tally)
    assert actual.rounds == expected.rounds
    if sizes.threads == 1:
        assert actual.facts == expected.facts
    else:
        assert {name: set(rows) for name, rows in actual.facts.items()} == {
            name: set(rows) for name, rows in expected.facts.items()
        }


def written(reasoner: tl.Reasoner) -> dict[str, frozenset[tuple[str, ...]]]:
    """The facts of each relation, each value as it is written exactly."""
    return {name: frozenset(reasoner[name].to_texts("exact").rows()) for name in reasoner.program.predicates}


@given(programs(), ODD_SIZES)
def test_facts_are_those_of_the_reference(text: str, sizes: Sizes) -> None:
    expected = reference.evaluate(tl.parse(text))
    with sizes.holding():
        actual = written(tl.Reasoner(tl.parse(text), threads=sizes.threads))
    assert actual == {
        name: frozenset(tuple(map(exact, row)) for row in rows) for name, rows in expected.items()
    }


@given(programs(), ODD_SIZES)
def test_what_rounds_leave_is_maintained(text: str, sizes: Sizes) -> None:
    """Ranks of facts are the rounds in which they were found, in one call or in many."""
    script = "- e(1, 2) . - e(3, 4) . + e(0, 0) . + a(0, 3) ."
    with sizes.holding():
        reasoner = tl.Reasoner(tl.parse(text), threads=sizes.threads)
        reasoner.materialise()
        reasoner.apply(script, missing="ignore")
        actual = written(reasoner)
    other = tl.Reasoner(tl.parse(text), maintainer="recompute")
    other.apply(script, missing="ignore")
    assert actual == written(other)


# ---- what is counted and reported


def test_a_thousand_rounds_are_a_few_calls() -> None:
    calls: list[RoundsRan] = []
    counted = done(COUNTING.format(most=500), Sizes(), calls)
    assert len(calls) == 1
    assert [type(event).__name__ for event in counted.events].count("RoundEnded") == 1002
    rules = {number: (each.rounds, each.matches, each.new) for number, each in counted.tally.rules.items()}
    assert rules == {0: (501, 501, 501), 1: (500, 500, 500)}
    assert (counted.tally.rounds, counted.tally.derived, counted.tally.round) == (1002, 1001, 1002)


def test_rows_without_a_value_are_counted_in_every_round() -> None:
    text = "a(0) . a(?x + 1) :- a(?x), ?x < 100 . b(1 / (?x - ?x)) :- a(?x) . a(?x) :- b(?x) ."
    counted = done(text, Sizes())
    assert {number: each.no_value for number, each in counted.tally.rules.items()} == {0: 0, 1: 101}


def test_a_rule_whose_constant_appears_late_is_run() -> None:
    text = "a(0) . c(90) . a(?x + 1) :- a(?x), ?x < 100 . b(?x) :- a(90), a(?x) . a(?x) :- b(?x), c(?x) ."
    counted = done(text, Sizes())
    assert len(counted.facts["b"]) == 101
    assert counted.events == done(text, PLAN_BY_PLAN).events


def test_python_computes_functions_within_rounds() -> None:
    text = 'a("") . a(CONCAT(?x, "é")) :- a(?x), STRLEN(?x) < 50 .'
    counted = done(text, Sizes())
    assert sorted(counted.facts["a"]) == [("é" * length,) for length in range(51)]
    assert all(each.seconds == 0 for each in counted.tally.rules.values())


@pytest.mark.parametrize("begin", [9223372036854775000, 9223372036854775806])
def test_an_overflow_names_the_rule(begin: int) -> None:
    reasoner = tl.Reasoner(tl.parse(f"n({begin}) .\nm(?x) :- n(?x) .\nn(?x + 1) :- m(?x) ."))
    with pytest.raises(EvaluationError) as caught:
        reasoner.materialise()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E603"
    assert diagnostic.span is not None
    assert diagnostic.span.text == "n(?x + 1) :- m(?x) ."


@pytest.mark.parametrize("most", [10, 500, 30_000])
def test_a_limit_on_facts_is_exact(most: int) -> None:
    reasoner = tl.Reasoner(tl.parse("n(0) . n(?x + 1) :- n(?x) ."), max_facts=most)
    with pytest.raises(tl.TidelogError) as caught:
        reasoner.materialise()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E611"
    assert f"with 1 fact loaded, {most:,} derived" in diagnostic.message


def test_a_listener_stops_it_within_many_rounds() -> None:
    def stop(event: Event) -> None:
        if isinstance(event, RoundEnded) and event.round == 300:
            raise KeyboardInterrupt

    reasoner = tl.Reasoner(tl.parse(COUNTING.format(most=400)), listeners=[stop])
    with pytest.raises(tl.TidelogError) as caught:
        reasoner.materialise()
    assert caught.value.diagnostics[0].code == "E612"
