"""Rules of tables: which of them run, and that a round in one call gives what its plans give alone."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tests.query.test_tabling import ask, reasoner_of
from tests.rewrite.test_magic_sets import queries
from tests.strategies import EVERYTHING, cases
from tidelog.engine.columnar.interpreter import executor, round_kernels
from tidelog.engine.columnar.interpreter.executor import RoundRunner
from tidelog.engine.columnar.interpreter.plan_runner import PARALLEL_FROM
from tidelog.engine.protocol import Runnable
from tidelog.query import table_rules
from tidelog.query.table_rules import DrivenRule

# Classes are constants, as in the rules of an ontology; these are not linear, and stay as they are.
CLASSES = "".join(f"is(?x, {each + 1}) :- is(?x, {each}), is(0, {each}) ." for each in range(40))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[DrivenRule]:
    """The rules that were run, accepting apart."""
    noted: list[DrivenRule] = []
    ready = DrivenRule.ready

    def note(drive: DrivenRule) -> Runnable | None:
        if not drive.relation.startswith("ask "):
            noted.append(drive)
        return ready(drive)

    monkeypatch.setattr(DrivenRule, "ready", note)
    return noted


def test_rules_whose_constants_no_new_row_has_are_not_run(ran: list[DrivenRule]) -> None:
    reasoner = reasoner_of(CLASSES + "is(?x, 0) :- thing(?x) .", thing=[(0,), (1,)])
    assert ask(reasoner, "is(1, 2)") == {()}
    numbers = {drive.key[-1] for drive in ran if drive.columns}
    assert len(numbers) == 3
    assert ask(reasoner, "is(1, 40)") == {()}
    assert len({drive.key[-1] for drive in ran if drive.columns}) == 41


def test_where_much_is_new_every_rule_is_tried_and_answers_are_the_same() -> None:
    edges = [(1, number) for number in range(2 * table_rules.MANY)]
    text = "p(?x, ?y) :- e(?x, ?y) . q(?x, 7) :- p(?x, 7) . q(?x, 8) :- p(?x, -1) ."
    assert ask(reasoner_of(text, e=edges), "q(?x, ?y)") == {(1, 7)}


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many plans each round had that the kernel has run."""
    seen: list[int] = []

    def note(*arguments: Any) -> Any:
        seen.append(len(arguments[4]))
        return round_kernels.run_round(*arguments)

    monkeypatch.setattr(executor, "run_round", note)
    return seen


@given(st.data())
def test_a_round_in_one_call_gives_what_its_plans_give_alone(data: st.DataObject) -> None:
    case = data.draw(cases(EVERYTHING))
    query = data.draw(queries(case))
    with patch.object(RoundRunner, "_known", lambda *_: None):
        alone = tl.Reasoner(tl.parse(case.text)).query(query, "tabling")
    with patch.object(executor, "MOST_BATCHES", data.draw(st.sampled_from((1, 2, 1000)))):
        assert set(tl.Reasoner(tl.parse(case.text)).query(query, "tabling")) == set(alone)


def test_rounds_let_tables_indexes_and_the_dictionary_grow(rounds: list[int]) -> None:
    text = "n(?y) :- e(?y) . n(?z) :- n(?y), ?y < 9000, ?z = ?y + 1 . m(?x) :- n(?x), ~odd(?x) ."
    reasoner = reasoner_of(text, e=[(0,)], odd=[(number,) for number in range(1, 9001, 2)])
    assert len(ask(reasoner, "m(?x)")) == 4501
    assert len(rounds) > 9000


def test_functions_in_python_run_in_rounds(rounds: list[int]) -> None:
    reasoner = reasoner_of('w(?x, ?y) :- e(?x), ?y = CONCAT("n", STR(?x)) .', e=[(1,), (2,)])
    assert ask(reasoner, "w(?x, ?y)") == {(1, "n1"), (2, "n2")}
    assert rounds


def test_many_new_rows_are_left_to_several_threads() -> None:
    program = tl.parse(
        "p(?y) :- e(?x, ?y) . q(?y) :- p(?y), ~f(?y) . r(?x) :- q(?x) . r(?x) :- r(?y), g(?y, ?x) ."
    )
    reasoner = tl.Reasoner(program, threads=2)
    reasoner.insert("e", [(1, number) for number in range(PARALLEL_FROM)])
    reasoner.insert("g", [(1, -1)])
    assert len(ask(reasoner, "r(?x)")) == PARALLEL_FROM + 1
