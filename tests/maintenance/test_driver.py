"""What a driver does beside what algorithms do: plans that are kept, faults, limits, events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

import tidelog as tl
from tests.maintenance.laboratory import Change, Laboratory, SetBench, unsplit
from tests.maintenance.sets import Row
from tidelog.engine.events import Event, MaintenanceEnded, MaintenanceStarted, Tally
from tidelog.errors import EvaluationError
from tidelog.logic import values
from tidelog.maintenance import step_plans
from tidelog.maintenance.counting import RankCounting
from tidelog.maintenance.dred import DeleteAndRederive

CHAIN = "@declare edge(x: any, y: any) . t(?x, ?y) :- edge(?x, ?y) . t(?x, ?z) :- t(?x, ?y), edge(?y, ?z) ."


def edges(numbers: Iterable[int]) -> dict[str, frozenset[Row]]:
    return {"edge": frozenset((values.integer(n), values.integer(n + 1)) for n in numbers)}


class Chain:
    """A chain whose closure is maintained, and how many plans were prepared for it."""

    def __init__(self, length: int, rules: str = CHAIN) -> None:
        program = tl.parse(rules)
        self.laboratory = Laboratory(SetBench, program, Change(edges(range(length)), program.rules))
        self.plans = 0
        engine = self.laboratory.bench.engine
        prepare = engine.change_plans.prepare

        def counting(plan: object) -> object:
            self.plans += 1
            return prepare(plan)  # type: ignore[arg-type]

        engine.change_plans.prepare = counting  # type: ignore[method-assign]

    def state(self, numbers: Iterable[int]) -> int:
        """How many plans were prepared to change the chain."""
        before = self.plans
        rules = self.laboratory.program.rules
        self.laboratory.apply(DeleteAndRederive(), Change(edges(numbers), rules))
        return self.plans - before


def test_plans_are_kept_across_transactions() -> None:
    chain = Chain(5)
    assert chain.state(range(4)) > 0
    chain.state(range(5))
    assert chain.state(range(1, 5)) == 0
    assert chain.state(range(5)) == 0


def test_plans_are_made_anew_when_relations_have_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_plans, "FRESHNESS", replace(step_plans.FRESHNESS, small=4))
    chain = Chain(2)
    chain.state(range(1))
    chain.state(range(2))
    assert chain.state(range(1)) == 0
    chain.state(range(9))
    assert chain.state(range(8)) > 0


def test_plans_of_rules_that_stay_are_kept_when_others_go() -> None:
    chain = Chain(3, CHAIN + " u(?x) :- edge(?x, ?x) .")
    chain.state(range(2))
    chain.state(range(3))
    laboratory = chain.laboratory
    before = chain.plans
    laboratory.apply(DeleteAndRederive(), Change(edges(range(3)), laboratory.program.rules[:2]))
    assert chain.plans == before + 1, "that of the rule which goes"
    assert chain.state(range(2)) == 0


def test_arithmetic_that_leaves_64_bits_is_an_error_that_changes_nothing() -> None:
    rules = "@declare e(x: any) . p(?y) :- e(?x), ?y = ?x * ?x ."
    program = tl.parse(rules)
    laboratory = Laboratory(SetBench, program, Change({}, program.rules))
    driver = laboratory.driver(RankCounting())
    change = Change({"e": frozenset({(values.integer(2**40),)})}, program.rules)
    driver._prepare(laboratory.program)
    state = laboratory.bench.state()
    with pytest.raises(EvaluationError, match="E603"):
        driver.apply(laboratory.update(change), laboratory.program, laboratory.program)
    assert laboratory.bench.state() == state


def test_a_check_that_raises_stops_a_transaction() -> None:
    chain = Chain(5)
    driver = chain.laboratory.driver(DeleteAndRederive())
    state = chain.laboratory.bench.state()

    def stop() -> None:
        raise KeyboardInterrupt

    driver.check = stop
    program = chain.laboratory.program
    with pytest.raises(KeyboardInterrupt):
        driver.apply(chain.laboratory.update(Change(edges(range(3)), program.rules)), program, program)
    assert chain.laboratory.bench.state() == state


def test_what_went_and_came_is_told_and_summed_up() -> None:
    chain = Chain(3)
    chain.state(range(2))
    first, *_, last = chain.laboratory.events
    assert first == MaintenanceStarted("dred", removed=1, added=0, rules_removed=0, rules_added=0)
    assert isinstance(last, MaintenanceEnded)
    assert (last.went, last.came, last.kept) == (4, 0, True)
    tally = Tally(derived=9)
    for event in chain.laboratory.events:
        tally(event)
    assert tally.derived == 5


COUNT = "@declare edge(x: any, y: any) . n(#count(?x)) :- edge(?x, _) ."


def test_after_forgetting_auxiliary_relations_are_made_anew() -> None:
    chain = Chain(3, COUNT)
    chain.state(range(2))
    chain.laboratory.driver(DeleteAndRederive()).forget()
    assert not any(" " in name for name in chain.laboratory.bench.engine.storage.relations())
    chain.state(range(4))


def test_auxiliary_relations_go_with_their_rules() -> None:
    chain = Chain(3, COUNT)
    rules = chain.laboratory.program.rules
    chain.laboratory.apply(RankCounting(), Change(edges(range(3)), ()))
    assert not any(" " in name for name in chain.laboratory.bench.engine.storage.relations())
    chain.laboratory.apply(RankCounting(), Change(edges(range(2)), rules))


def test_auxiliary_relations_that_could_not_be_made_are_made_later() -> None:
    program = tl.parse(COUNT)
    start = Change(edges(range(3)), program.rules)
    laboratory = Laboratory(unsplit, program, start)

    def stop(event: Event) -> None:
        raise KeyboardInterrupt

    laboratory.on_event = stop
    with pytest.raises(KeyboardInterrupt):
        laboratory.driver(RankCounting())._prepare(laboratory.program)
    laboratory.on_event = laboratory.events.append
    laboratory.apply(RankCounting(), Change(edges(range(2)), program.rules))


def test_lists_grow_for_an_update_larger_than_they_are() -> None:
    rows = [(number,) for number in range(30_000)]
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."), maintainer="rank-counting", timeout=60)
    reasoner.insert("e", rows)
    reasoner.materialise()
    with reasoner.change() as change:
        change.delete("e", rows)
    assert change.delta.removed == 60_000
