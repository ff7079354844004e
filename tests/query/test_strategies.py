"""Every strategy gives the same answers, and derives no more than it should."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tests.corpus import cases as corpus
from tests.maintenance.scripts import Script, closure_scripts
from tests.rewrite.test_magic_sets import queries
from tests.strategies import EVERYTHING, cases
from tidelog.engine.events import Event, StrategyChosen
from tidelog.errors import Inconsistent, ProgramError
from tidelog.logic.program import Fact, Query
from tidelog.query.registry import AUTO, STRATEGIES

GRAPH = """
    path(?x, ?y) :- edge(?x, ?y) .
    path(?x, ?z) :- edge(?x, ?y), path(?y, ?z) .
    far(?x) :- path(?x, ?y), path(?y, ?x) .
"""
MANY = [(number, number + 1) for number in range(1000)]
ASKED = [(case.name, query) for case in corpus() if case.error is None for query in case.program().queries]
DERIVING = tuple(name for name in STRATEGIES if name != "lookup")


def text_of(query: Query) -> str:
    return query.text.strip().removeprefix("?-").removesuffix(".")


def rows(relation: tl.Relation) -> set[tuple[str, ...]] | int:
    """The rows as exact terms; their number where there are no columns."""
    return set(relation.to_texts("exact").rows()) if relation.columns else len(relation)


def graph(edges: list[tuple[int, int]] = MANY) -> tl.Reasoner:
    reasoner = tl.Reasoner(tl.parse(GRAPH))
    reasoner.insert("edge", edges)
    return reasoner


@pytest.mark.parametrize("strategy", [AUTO, *DERIVING])
@pytest.mark.parametrize(("name", "query"), ASKED, ids=[f"{name}: {text_of(query)}" for name, query in ASKED])
def test_queries_of_the_corpus(name: str, query: Query, strategy: str) -> None:
    program = next(case for case in corpus() if case.name == name).program()
    reasoner = tl.Reasoner(program)
    expected = tl.Reasoner(program)
    expected.materialise()
    answers = reasoner.query(text_of(query), strategy)
    assert rows(answers) == rows(expected.query(text_of(query), "lookup"))
    assert answers.columns == query.variables


@given(data=st.data())
def test_random_queries(data: st.DataObject) -> None:
    case = data.draw(cases(EVERYTHING))
    query = data.draw(queries(case))
    program = tl.parse(case.text)
    found = {name: rows(tl.Reasoner(program).query(query, name)) for name in (AUTO, *DERIVING)}
    assert all(answers == found["full"] for answers in found.values())


@given(script=closure_scripts(), data=st.data())
def test_closures_of_few_facts_or_none(script: Script, data: st.DataObject) -> None:
    """Closures that begin with nothing too: no fact is stated, and no rule derives one."""
    facts = [Fact(name, row) for name, some in script.start.explicit.items() for row in some]
    kept = tuple(facts[: data.draw(st.sampled_from((0, 1, len(facts))))])
    program = replace(script.program, rules=script.start.rules, facts=kept)
    name, known = data.draw(st.sampled_from(sorted(program.predicates.items())))
    query = f"{name}({', '.join((data.draw(st.sampled_from(('?x', '1'))), '?y')[: known.arity])})"
    found = {each: rows(tl.Reasoner(program).query(query, each)) for each in DERIVING}
    assert all(answers == found["full"] for answers in found.values())


@given(data=st.data())
def test_many_queries_to_one_reasoner(data: st.DataObject) -> None:
    """What one query derives is not there for the next, and facts added in between are."""
    case = data.draw(cases(EVERYTHING))
    asked = data.draw(st.lists(queries(case), min_size=2, max_size=4))
    program = tl.parse(case.text)
    reasoner = tl.Reasoner(program)
    for query in asked:
        assert rows(reasoner.query(query, "magic")) == rows(tl.Reasoner(program).query(query, "full"))
    name = data.draw(st.sampled_from(sorted(case.arities)))
    row = tuple(data.draw(st.integers(0, 3)) for _ in range(case.arities[name]))
    reasoner.insert(name, [row])
    whole = tl.Reasoner(program)
    whole.insert(name, [row])
    assert rows(reasoner.query(asked[0], "magic")) == rows(whole.query(asked[0], "full"))


# ---- what auto chooses


@pytest.mark.parametrize(
    ("query", "strategy", "reason"),
    [
        ("path(3, ?y)", "magic", "arguments of path are bound; 2 of 3 rules are needed"),
        ("path(?x, ?y)", "magic", "nothing is bound, but 2 of 3 rules are enough"),
        ("path(3, 5)", "tabling", "nothing is free: only a few subgoals to decide"),
        ("path(3, 5), ~path(5, 3)", "tabling", "nothing is free: only a few subgoals to decide"),
        ("far(?x)", "full", "nothing is bound, and every rule is needed"),
        ("edge(3, ?y)", "lookup", "only explicit facts are queried"),
    ],
)
def test_what_auto_chooses(query: str, strategy: str, reason: str) -> None:
    told: list[Event] = []
    reasoner = graph()
    reasoner.runtime.tell.listeners.append(told.append)
    reasoner.query(query)
    assert StrategyChosen(strategy, reason) in told


def test_once_there_are_tables_auto_asks_them() -> None:
    reasoner = graph()
    assert reasoner.explain_strategy("path(3, ?y)").startswith("magic: ")
    assert reasoner.query("path(3, 5)")
    assert "tables of earlier queries" in reasoner.explain_strategy("path(3, ?y)")
    assert reasoner.explain_strategy("path(?x, ?y)").startswith("magic: ")


def test_tables_that_nobody_has_asked_for_do_not_change_what_transactions_tell() -> None:
    reasoner = graph()
    assert reasoner.query("path(3, 5)")
    assert reasoner.apply("+ edge(-1, 0) .").added > 1


def test_few_rules_that_compute_nothing_are_run_rather_than_left_out() -> None:
    rules = "".join(f"p(?x, {number}) :- p(?x, {number + 1}) ." for number in range(20))
    reasoner = tl.Reasoner(tl.parse(rules + "p(?x, ?y) :- e(?x, ?y) . q(?x) :- p(?x, 0) ."))
    reasoner.insert("e", [(number, number % 7) for number in range(300)])
    assert "nearly all rules are needed" in reasoner.explain_strategy("p(?x, ?y)")
    reasoner.add("n(?y) :- n(?x), ?y = ?x + 1 . n(0) .")
    assert reasoner.explain_strategy("p(?x, ?y)").startswith("magic")


def test_what_is_derived_is_looked_up() -> None:
    reasoner = graph()
    reasoner.materialise()
    assert reasoner.explain_strategy("path(3, ?y)").startswith("lookup: everything is derived already\n")


def test_few_facts_and_every_rule_are_derived_in_full() -> None:
    assert (
        graph(MANY[:10])
        .explain_strategy("far(3)")
        .startswith("full: every rule is needed, and there are no more")
    )


def test_many_rewritten_rules_are_for_many_facts() -> None:
    rules = "".join(
        f"t(?x, {name}, ?z) :- t(?x, {name}, ?y), t(?y, {name}, ?z) ."
        f"t(?x, ?p, ?y) :- t(?p, {name}, ?q), t(?x, ?q, ?y) ."
        for name in "abc"
    )
    reasoner = tl.Reasoner(tl.parse(rules))
    reasoner.insert("t", [(number, "a", number + 1) for number in range(0, 1000, 2)])
    assert "too many for so few facts" in reasoner.explain_strategy("t(3, ?p, ?y)")


def test_explanations_derive_nothing() -> None:
    reasoner = graph()
    assert "path bf" in reasoner.explain_strategy("path(3, ?y)", "magic")
    assert "not materialised" in repr(reasoner)


# ---- what is derived


def test_nothing_is_left_behind_and_nothing_else_derived() -> None:
    reasoner = graph()
    before = set(reasoner._engine.storage.relations())
    assert len(reasoner.query("path(990, ?y)", "magic")) == 10
    assert reasoner.statistics.derived == 20  # the answers, and the paths that they are
    assert set(reasoner._engine.storage.relations()) == before
    assert reasoner._engine.storage.size("path") == 0


def test_a_program_that_does_not_end_answers_what_it_can() -> None:
    text = "n(0) . n(?y) :- n(?x), ?y = ?x + 1 . even(?x) :- m(?x), ~odd(?x) . odd(3) . m(3) . m(4) ."
    assert rows(tl.Reasoner(tl.parse(text)).query("even(?x)")) == {("4",)}


def test_a_query_of_what_is_not_derived_is_not_looked_up() -> None:
    with pytest.raises(ProgramError) as caught:
        graph().query("path(1, ?y)", "lookup")
    assert caught.value.diagnostics[0].code == "E651"


def test_an_inconsistency_is_noticed_whatever_is_asked() -> None:
    text = "bottom() :- p(?x), q(?x) . r(?x, ?y) :- e(?x, ?y) . p(1) . q(1) . e(1, 2) ."
    for strategy in (AUTO, *DERIVING):
        with pytest.raises(Inconsistent):
            tl.Reasoner(tl.parse(text)).query("r(1, ?y)", strategy)


# ---- odd data


@pytest.mark.parametrize(
    ("query", "count"),
    [("path(7, ?y)", 0), ("path(1, ?y)", 3), ("path(nobody, ?y)", 0), ("path(?x, ?x)", 3), ("path(2, 2)", 1)],
)
def test_cycles_and_unknown_constants(query: str, count: int) -> None:
    reasoner = graph([(1, 2), (2, 3), (3, 1)])
    for strategy in DERIVING:
        assert len(reasoner.query(query, strategy)) == count


@pytest.mark.parametrize(
    ("query", "answers"),
    [
        ("path(?x, ?y), ?x = 1, ?y = 3", {(1, 3)}),
        ("path(?x, ?y), ?x = 1, ?x = 2", set()),
        ("edge(?x, ?y), far(?y), 2 = ?x", {(2, 3)}),
        ("path(?x, ?y), ?n = ?x + ?y, ~edge(?x, ?y), ?x = 1", {(1, 3, 4), (1, 1, 2)}),
    ],
)
def test_variables_that_equal_a_constant_are_put_out(query: str, answers: set[tuple[int, ...]]) -> None:
    for strategy in DERIVING:
        assert set(graph([(1, 2), (2, 3), (3, 1)]).query(query, strategy)) == answers


def test_no_data() -> None:
    reasoner = tl.Reasoner(tl.parse(GRAPH))
    for strategy in (AUTO, *DERIVING):
        assert len(reasoner.query("path(1, ?y)", strategy)) == 0


# ---- names


def test_strategies_that_are_not_there() -> None:
    with pytest.raises(ProgramError) as caught:
        graph().query("path(1, ?y)", "magick")
    assert caught.value.diagnostics[0].code == "E650"
    assert caught.value.diagnostics[0].message == "unknown strategy `magick`"
