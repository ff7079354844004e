"""Subsumptive tabling: what is asked, called and kept, and that answers stay right whatever changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tests.rewrite.test_magic_sets import queries
from tests.strategies import EVERYTHING, Case, cases
from tidelog.engine.events import Event, TablesGrew
from tidelog.errors import Stopped
from tidelog.logic.program import Predicate, Rule
from tidelog.logic.values import ColumnType
from tidelog.plan.rule_text import Writing
from tidelog.query.table_rounds import TabledComponent
from tidelog.query.table_rules import (
    CallPattern,
    Definitions,
    accepting,
    answers_of,
    relations_of,
    resting,
    variant,
)
from tidelog.query.tabling import ProgramTables, Tabling

LINEAR = "tc(?x, ?y) :- e(?x, ?y) . tc(?x, ?z) :- e(?x, ?y), tc(?y, ?z) ."
NONLINEAR = "tc(?x, ?y) :- e(?x, ?y) . tc(?x, ?z) :- tc(?x, ?y), tc(?y, ?z) ."
# Example 14 of the thesis, with a rule that begins the recursion.
SCHEDULED = "tc(?x, ?y) :- e(?x, ?y) . tc(?x, ?y) :- tc(?x, 1), tc(?y, ?x) ."
CYCLE = [(1, 2), (2, 3), (3, 1), (3, 4), (5, 1)]
MEMORIES = (1 << 30, 1 << 30, 4096, 0)


def reasoner_of(text: str, **given: Iterable[tuple[int, ...]]) -> tl.Reasoner:
    reasoner = tl.Reasoner(tl.parse(text))
    for name, facts in given.items():
        reasoner.insert(name, list(facts))
    return reasoner


def ask(reasoner: tl.Reasoner, query: str) -> set[tuple[object, ...]]:
    return set(reasoner.query(query, "tabling"))


def tables_of(reasoner: tl.Reasoner) -> ProgramTables:
    strategy = reasoner._strategies.by_name["tabling"]
    assert isinstance(strategy, Tabling) and strategy.kept is not None
    return strategy.kept


def component_of(reasoner: tl.Reasoner, predicate: str) -> TabledComponent:
    return next(each for names, each in tables_of(reasoner)._components.items() if predicate in names)


def counts(reasoner: tl.Reasoner, predicate: str) -> dict[str, tuple[int, int]]:
    """How many subgoals were asked and called, by adornment."""
    size = reasoner._engine.storage.size
    tables = component_of(reasoner, predicate).tables
    return {
        each.adornment: (size(each.asked), size(each.called))
        for each in tables
        if each.predicate == predicate
    }


# ---- the rules of tables


def texts(rules: Sequence[Rule]) -> list[str]:
    """The rules as text, with `_` for the spaces in the names of relations."""
    named = {
        name: Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, name.replace(" ", "_"))
        for name, arity in relations_of(rules)
    }
    return [Writing(named).rule(rule) for rule in rules]


def rules_of(text: str, pattern: str) -> list[str]:
    predicate, adornment = pattern.split()
    made = variant(CallPattern(predicate, adornment), Definitions.of(tl.parse(text).rules, ()))
    return texts((*made.demands, *made.steps))


GOLDEN = {
    ("linear", "tc bf"): [
        "answer_tc(?x, ?y) :- call_tc_bf(?x), e(?x, ?y) .",
        "answer_tc(?from, ?y) :- answer_tc(?from, ?x), call_tc_bf(?from), e(?x, ?y) .",
    ],
    ("linear", "tc fb"): [
        "answer_tc(?x, ?y) :- call_tc_fb(?y), e(?x, ?y) .",
        "answer_tc(?x, ?z) :- call_tc_fb(?z), answer_tc(?y, ?z), e(?x, ?y) .",
    ],
}


@pytest.mark.parametrize(("program", "pattern"), GOLDEN)
def test_rules_of_the_closures_of_the_thesis(program: str, pattern: str) -> None:
    assert rules_of(LINEAR, pattern) == GOLDEN[program, pattern]


def test_rules_ask_before_they_read() -> None:
    text = "p(?x, ?z) :- e(?x, ?y), q(?y, ?z), ~r(?z) . q(?x, ?y) :- f(?x, ?y) . r(?x) :- g(?x) ."
    assert rules_of(text, "p bf") == [
        "ask_q_bf(?y) :- joined_p_bf_0_1(?x, ?y) .",
        "ask_r_b(?z) :- joined_p_bf_0_2(?x, ?z) .",
        "joined_p_bf_0_1(?x, ?y) :- call_p_bf(?x), e(?x, ?y) .",
        "joined_p_bf_0_2(?x, ?z) :- joined_p_bf_0_1(?x, ?y), answer_q(?y, ?z) .",
        "answer_p(?x, ?z) :- joined_p_bf_0_2(?x, ?z), ~answer_r(?z) .",
    ]


def test_calls_rest_that_others_answer() -> None:
    special, general = CallPattern("tc", "bb"), (CallPattern("tc", "bf"), CallPattern("tc", "ff"))
    assert texts([accepting(special, general)]) == [
        "call_tc_bb(?x0, ?x1) :- ask_tc_bb(?x0, ?x1), ~call_tc_bf(?x0), ~call_tc_ff(), ~answer_tc(?x0, ?x1) ."
    ]
    rule = tl.parse("p(?x, ?y) :- q(?x, ?y), r(?x) .").rules[0]
    made = variant(CallPattern("p", "bb"), Definitions.of([rule], ())).steps
    assert texts([resting(each, CallPattern("p", "bb"), (CallPattern("p", "fb"),)) for each in made]) == [
        "answer_p(?x, ?y) :- call_p_bb(?x, ?y), ~call_p_fb(?y), ~answer_p(?x, ?y), q(?x, ?y), r(?x) ."
    ]


# ---- subsumption


@pytest.mark.parametrize("text", [LINEAR, NONLINEAR])
def test_a_subgoal_that_was_asked_in_general_is_not_called(text: str) -> None:
    reasoner = reasoner_of(text, e=CYCLE)
    assert len(ask(reasoner, "tc(?x, ?y)")) == 16
    before = tables_of(reasoner).tally.called
    assert ask(reasoner, "tc(5, ?y)") == {(1,), (2,), (3,), (4,)}
    assert ask(reasoner, "tc(?x, 5)") == set()
    assert ask(reasoner, "tc(5, 4)") == {()}
    assert tables_of(reasoner).tally.called == before


def test_the_same_subgoal_is_called_once() -> None:
    reasoner = reasoner_of(NONLINEAR, e=CYCLE)
    for _ in range(3):
        assert ask(reasoner, "tc(1, ?y)") == {(1,), (2,), (3,), (4,)}
        assert counts(reasoner, "tc") == {"bf": (1, 1)}


@pytest.mark.parametrize(
    "text", [SCHEDULED, SCHEDULED.replace("tc(?x, 1), tc(?y, ?x)", "tc(?y, ?x), tc(?x, 1)")]
)
def test_the_scheduling_of_example_14(text: str) -> None:
    """Whichever atom comes first, the special subgoal is answered by the general one, which is running."""
    reasoner = reasoner_of(text, e=[(2, 1), (3, 2), (1, 1), (1, 5)])
    expected = set(reasoner_of(text, e=[(2, 1), (3, 2), (1, 1), (1, 5)]).query("tc(?x, ?y)", "full"))
    assert ask(reasoner, "tc(?x, ?y)") == expected
    found = counts(reasoner, "tc")
    assert found.pop("ff") == (1, 1)
    assert found  # something more special was asked …
    assert all(called == 0 for _, called in found.values())  # … and not called


def test_special_subgoals_give_way_to_a_general_one_that_comes_later() -> None:
    text = """
        p(?x, ?y) :- e(?x, ?y) .
        p(?x, ?z) :- e(?x, ?y), p(?y, ?z), q(?z) .
        q(?x) :- f(?x), p(?a, ?b), ?a < ?b .
    """
    given: dict[str, list[tuple[int, ...]]] = {"e": [*pairwise(range(30))], "f": [(n,) for n in range(40)]}
    expected = set(reasoner_of(text, **given).query("p(1, ?y)", "full"))
    reasoner = reasoner_of(text, **given)
    assert ask(reasoner, "p(1, ?y)") == expected
    found = counts(reasoner, "p")
    assert found["ff"] == (1, 1)
    assert found["bf"][1] < 10  # of the thirty subgoals on the way


# ---- completion


def test_what_is_negated_is_completed_first_even_if_recursion_asks_for_it() -> None:
    """Magic sets cannot bind `bad` here: the rewritten program would not be stratified."""
    text = """
        ok(?x, ?y) :- e(?x, ?y), ~bad(?y) .
        ok(?x, ?z) :- ok(?x, ?y), e(?y, ?z), ~bad(?z) .
        bad(?x) :- b(?x, ?y), bad(?y) .
        bad(?x) :- broken(?x) .
    """
    chain = [*pairwise(range(10))]
    reasoner = reasoner_of(text, e=chain, b=[(6, 7), (7, 50), (90, 91)], broken=[(50,), (91,)])
    assert ask(reasoner, "ok(1, ?y)") == {(2,), (3,), (4,), (5,)}
    asked, _ = counts(reasoner, "bad")["b"]
    assert asked == 7  # 2 to 6, and what 6 leads to: not 90


def test_what_two_components_ask_for_is_complete_before_either_reads_it() -> None:
    """`class` is asked by `alike`, and by `walk`, which `alike` asks for: it is completed before `walk`."""
    text = """
        alike(#min(?y), ?x) :- walk(?x, ?y) .
        alike(?x, ?n) :- degree(?x, ?n), class(?x) .
        degree(?x, #count(?y)) :- walk(?x, ?y) .
        walk(?x, ?y) :- same(?x, ?y), class(?y) .
        class(?x) :- same(?x, ?x), ~part(?x, ?x) .
        same(?y, ?x) :- same(?x, ?y) .
        same(?x, ?z) :- same(?x, ?y), same(?y, ?z) .
        same(?x, ?y) :- link(?x, ?y) .
    """
    reasoner = reasoner_of(text, link=[(4, 1)], part=[(2, 2)])
    assert ask(reasoner, "alike(?x, ?y)") == {(1, 1), (1, 2), (1, 4), (4, 2)}


def test_groups_that_are_not_asked_for_are_not_made() -> None:
    reasoner = reasoner_of(
        f"n(?x, #count(?y)) :- tc(?x, ?y) . {LINEAR} many(?x) :- n(?x, ?n), ?n > 1 .", e=pairwise(range(100))
    )
    assert ask(reasoner, "n(90, ?n)") == {(9,)}
    assert counts(reasoner, "tc") == {"bf": (1, 1)}
    assert ask(reasoner, "many(98)") == set()
    assert ask(reasoner, "many(97)") == {()}


def test_mutual_recursion_is_completed_together() -> None:
    text = """
        even(?x, ?y) :- start(?x), ?y = ?x .
        odd(?x, ?y) :- even(?x, ?z), e(?z, ?y) .
        even(?x, ?y) :- odd(?x, ?z), e(?z, ?y) .
        both(?x, ?y) :- even(?x, ?y), ~odd(?x, ?y) .
    """
    reasoner = reasoner_of(text, e=CYCLE, start=[(1,), (5,)])
    assert ask(reasoner, "odd(1, 1)") == {()}
    whole = reasoner_of(text, e=CYCLE, start=[(1,), (5,)])
    for query in ("even(5, ?y)", "both(?x, ?y)", "odd(?x, 4)"):
        assert ask(reasoner, query) == set(whole.query(query, "full"))


def test_a_true_subgoal_asks_no_more() -> None:
    """`win(1)` is known by the first rule before the second has all it needs to ask for `slow`."""
    text = """
        win(?x) :- sure(?x) .
        win(?x) :- a(?x, ?y), win(?y), slow(?y) .
        slow(?x) :- s(?x) .
        slow(?x) :- t(?x), win(?x) .
    """
    reasoner = reasoner_of(text, sure=[(1,), (2,)], a=[(1, 2), (3, 2)], s=[(2,)])
    assert ask(reasoner, "win(1)") == {()}
    assert tables_of(reasoner).tally.asked == 2  # win(1), win(2)
    assert ask(reasoner, "win(3)") == {()}  # others still do
    assert ask(reasoner, "win(?x)") == {(1,), (2,), (3,)}


def test_long_chains_of_components_need_no_recursion_of_python() -> None:
    depth = 500
    rules = "\n".join(f"p{number}(?x) :- p{number + 1}(?x), ~q(?x) ." for number in range(depth))
    reasoner = reasoner_of(f"{rules} p{depth}(?x) :- e(?x) .", e=[(1,), (2,)], q=[(2,)])
    assert ask(reasoner, "p0(1)") == {()}
    assert ask(reasoner, "p0(2)") == set()


def test_what_does_not_end_is_stopped_and_leaves_nothing() -> None:
    reasoner = tl.Reasoner(tl.parse("n(0) . n(?y) :- n(?x), ?y = ?x + 1 . m(?x) :- e(?x) ."), max_facts=1000)
    reasoner.insert("e", [(7,)])
    with pytest.raises(Stopped):
        ask(reasoner, "n(?x)")
    assert tables_of(reasoner).tally.asked == 0
    assert ask(reasoner, "m(?x)") == {(7,)}


# ---- streams


def test_first_answers_come_early() -> None:
    reasoner = reasoner_of(LINEAR, e=pairwise(range(200)))
    parts = [len(part) for part in reasoner.answers("tc(0, ?y)")]
    assert sum(parts) == 199
    assert max(parts) < 5


def test_a_limit_stops_early_and_lets_go_of_what_is_not_complete() -> None:
    told: list[Event] = []
    reasoner = reasoner_of(LINEAR, e=pairwise(range(1000)))
    reasoner.runtime.tell.listeners.append(told.append)
    assert len(reasoner.query("tc(0, ?y)", "tabling", limit=3)) == 3
    assert sum(event.new for event in told if isinstance(event, TablesGrew)) < 20
    assert tables_of(reasoner).tally.asked == 0
    assert len(ask(reasoner, "tc(0, ?y)")) == 999


def test_facts_and_queries_that_come_between_do_not_disturb_a_stream() -> None:
    reasoner = reasoner_of(LINEAR, e=pairwise(range(50)))
    stream = reasoner.answers("tc(0, ?y)")
    first = len(next(stream))
    reasoner.insert("e", [(49, 50)])
    assert len(ask(reasoner, "tc(?x, 50)")) == 50
    assert len(reasoner.query("tc(3, ?y)", "magic")) == 47
    assert first + sum(map(len, stream)) == 49
    assert len(ask(reasoner, "tc(0, ?y)")) == 50


# ---- memory


TWO = "p(?x) :- a(?x), ~z(?x) . q(?x) :- b(?x), ~z(?x) . r(?x) :- p(?x), q(?x) ."


def test_tables_that_were_not_used_for_longest_go_first() -> None:
    reasoner = reasoner_of(TWO, a=[(n,) for n in range(5000)], b=[(n,) for n in range(5000)])
    ask(reasoner, "p(?x)")
    ask(reasoner, "q(?x)")
    ask(reasoner, "p(3)")
    tables = tables_of(reasoner)
    reasoner.table_memory = tables.tally.bytes - 1
    ask(reasoner, "p(4)")
    assert tables.evicted == 1
    assert counts(reasoner, "q") == {}
    assert counts(reasoner, "p")["f"] == (1, 1)
    assert len(ask(reasoner, "r(?x)")) == 5000


def test_without_memory_nothing_is_kept() -> None:
    reasoner = tl.Reasoner(tl.parse(NONLINEAR), table_memory=0)
    reasoner.insert("e", CYCLE)
    for _ in range(2):
        assert len(ask(reasoner, "tc(1, ?y)")) == 4
        assert tables_of(reasoner).tally.asked == 0


def test_what_has_read_evicted_tables_does_not_follow_changes() -> None:
    """`r` has read `p`, whose table is gone when a fact of `b` lets an old answer of `p` matter."""
    text = "p(?x) :- a(?x) . r(?x) :- p(?x), b(?x) ."
    reasoner = reasoner_of(text, a=[(1,), (2,)], b=[(1,)])
    assert ask(reasoner, "r(?x)") == {(1,)}
    tables_of(reasoner)._drop(component_of(reasoner, "p"))
    reasoner.insert("b", [(2,)])
    assert ask(reasoner, "r(?x)") == {(1,), (2,)}


# ---- changes


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The predicates whose tables were let go."""
    gone: list[str] = []
    drop = TabledComponent.drop

    def note(component: TabledComponent) -> None:
        if component.tables:
            gone.extend(name for name in component.predicates if not name.startswith("?"))
        drop(component)

    monkeypatch.setattr(TabledComponent, "drop", note)
    yield gone


def test_facts_that_come_are_worked_into_the_tables(dropped: list[str]) -> None:
    told: list[Event] = []
    reasoner = reasoner_of(NONLINEAR, e=pairwise(range(500)))
    assert len(ask(reasoner, "tc(0, ?y)")) == 499
    reasoner.runtime.tell.listeners.append(told.append)
    reasoner.insert("e", [(499, 500), (2000, 2001)])
    assert len(ask(reasoner, "tc(0, ?y)")) == 500
    assert dropped == []
    assert sum(event.new for event in told if isinstance(event, TablesGrew)) < 520  # the query's own answers


def test_only_tables_that_depend_on_a_change_go(dropped: list[str]) -> None:
    reasoner = reasoner_of(TWO, a=[(1,), (2,)], b=[(2,)], z=[(5,)])
    ask(reasoner, "p(?x)")
    ask(reasoner, "q(?x)")
    reasoner.insert("a", [(3,)])
    assert ask(reasoner, "p(?x)") == {(1,), (2,), (3,)}
    assert dropped == []
    reasoner.insert("z", [(2,)])
    assert ask(reasoner, "p(?x)") == {(1,), (3,)}
    assert sorted(dropped) == ["p", "q"]


def test_rules_that_change_undo_what_depends_on_them(dropped: list[str]) -> None:
    reasoner = reasoner_of(TWO, a=[(1,), (2,)], b=[(2,)])
    assert ask(reasoner, "r(?x)") == {(2,)}
    reasoner.add("q(?x) :- c(?x) . c(1) .")
    assert ask(reasoner, "r(?x)") == {(1,), (2,)}
    assert sorted(dropped) == ["q", "r"]


def test_derived_predicates_may_get_explicit_facts() -> None:
    reasoner = reasoner_of(LINEAR, e=CYCLE)
    assert ask(reasoner, "tc(9, ?y)") == set()
    reasoner.insert("tc", [(9, 1)])
    assert ask(reasoner, "tc(9, ?y)") == {(1,)}
    reasoner.insert("e", [(8, 9)])
    assert ask(reasoner, "tc(8, ?y)") == {(9,), (1,)}


def test_facts_that_go_are_worked_into_the_tables(dropped: list[str]) -> None:
    reasoner = reasoner_of(NONLINEAR, e=[*pairwise(range(500)), (10, 12)])
    assert len(ask(reasoner, "tc(0, ?y)")) == 499
    with reasoner.change() as change:
        change.delete("e", [(490, 491), (10, 11)])
    assert "not materialised" in repr(reasoner)
    assert len(ask(reasoner, "tc(0, ?y)")) == 489
    assert dropped == []
    with reasoner.change() as change:
        change.insert("e", [(490, 491)])
        change.delete("e", [(10, 12)])
    assert ask(reasoner, "tc(0, ?y)") == {(n,) for n in range(1, 11)}
    assert len(ask(reasoner, "tc(11, ?y)")) == 488
    assert dropped == []


def test_a_true_subgoal_is_called_anew_when_what_it_rested_on_goes() -> None:
    """`win(1)` was true by its first rule, and never asked all that its second needs."""
    text = """
        win(?x) :- sure(?x) .
        win(?x) :- a(?x, ?y), win(?y), slow(?y) .
        slow(?x) :- s(?x) .
        slow(?x) :- t(?x), win(?x) .
    """
    reasoner = reasoner_of(text, sure=[(1,), (2,)], a=[(1, 2), (3, 2)], s=[(2,)])
    assert ask(reasoner, "win(1)") == {()}
    with reasoner.change() as change:
        change.delete("sure", [(1,)])
    assert ask(reasoner, "win(1)") == {()}
    with reasoner.change() as change:
        change.delete("s", [(2,)])
    assert ask(reasoner, "win(1)") == set()


def test_everything_can_still_be_derived() -> None:
    reasoner = reasoner_of(f"{LINEAR} tc(7, 8) .", e=[*CYCLE, (7, 8)])
    assert ask(reasoner, "tc(7, ?y)") == {(8,)}
    with reasoner.change() as change:
        change.delete("tc", [(7, 8)])
    assert ask(reasoner, "tc(7, ?y)") == {(8,)}
    reasoner.materialise()
    assert (7, 8) in reasoner["tc"]
    assert len(reasoner["tc"]) == 17
    assert ask(reasoner, "tc(7, ?y)") == {(8,)}


def test_tables_of_what_is_materialised_follow_its_transactions() -> None:
    reasoner = reasoner_of(NONLINEAR, e=CYCLE)
    reasoner.materialise()
    assert len(ask(reasoner, "tc(1, ?y)")) == 4
    with reasoner.change() as change:
        change.delete("e", [(2, 3)])
    assert ask(reasoner, "tc(1, ?y)") == {(2,)}
    with reasoner.change() as change:
        change.insert("e", [(2, 3)])
    assert len(ask(reasoner, "tc(1, ?y)")) == 4
    assert len(ask(reasoner, "tc(?x, ?y)")) == 16


def rows(relation: tl.Relation) -> set[tuple[str, ...]] | int:
    return set(relation.to_texts("exact").rows()) if relation.columns else len(relation)


@st.composite
def changes(draw: st.DrawFn, case: Case) -> list[tuple[str, tuple[object, ...]]]:
    """A few facts of any predicates."""
    found: list[tuple[str, tuple[object, ...]]] = []
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(sorted(case.arities)))
        texts = [draw(st.sampled_from(EVERYTHING.constants)) for _ in range(case.arities[name])]
        found.append((name, tuple(map(value, texts))))
    return found


def value(text: str) -> object:
    return int(text) if text.isdigit() else text


@given(data=st.data())
def test_queries_and_facts_in_turns(data: st.DataObject) -> None:
    """Whatever was asked before, whatever has come since, and whatever had to be let go."""
    case = data.draw(cases(EVERYTHING))
    program = tl.parse(case.text)
    reasoner = tl.Reasoner(program, table_memory=data.draw(st.sampled_from(MEMORIES)))
    come: list[tuple[str, tuple[object, ...]]] = []
    for _ in range(data.draw(st.integers(1, 5))):
        some = data.draw(changes(case))
        for name, row in some:
            reasoner.insert(name, [row])
        come += some
        whole = tl.Reasoner(program)
        for name, row in come:
            whole.insert(name, [row])
        query = data.draw(queries(case))
        assert rows(reasoner.query(query, "tabling")) == rows(whole.query(query, "full"))


POSITIVE = (
    NONLINEAR,
    LINEAR,
    SCHEDULED,
    "tc(?x, ?x) :- f(?x, ?y) . tc(?x, ?y) :- e(?a, ?x), tc(?a, ?b), e(?b, ?y) .",
    "tc(?x, ?y) :- p(?x, ?y) . p(?x, ?y) :- e(?x, ?y) . p(?x, ?y) :- f(?x, ?z), q(?z, ?y) ."
    "q(?x, ?y) :- p(?x, ?z), e(?z, ?y) . q(?x, ?y) :- f(?y, ?x) .",
    "tc(?x, ?y) :- e(?x, ?y), w(?y) . w(?x) :- f(?x, ?x) . w(?x) :- e(?x, ?y), w(?y), v(?y) ."
    "v(?x) :- f(?x, _) . v(?x) :- e(?x, ?y), w(?y) .",
    "tc(?x, ?z) :- e(?x, ?y), g(?y, ?z), ?x != ?z . g(?x, ?y) :- e(?x, ?y), f(?x, ?y) ."
    "g(?x, ?z) :- g(?x, ?y), e(?y, ?z), e(?z, ?y) .",
    "tc(?x, ?y) :- a(?x, ?y), b(?y) . a(?x, ?z) :- e(?x, ?y), a(?y, ?z) . a(?x, ?y) :- f(?x, ?y) ."
    "b(?x) :- a(?x, ?x) . b(?x) :- e(?x, ?y), b(?y) .",
    "tc(?x, ?y) :- e(?x, ?y), ~d(?x) . d(?x) :- f(?x, ?y), f(?y, ?x) .tc(?x, ?z) :- tc(?x, ?y), tc(?y, ?z) .",
)
DECLARED = "@declare e(a: any, b: any) . @declare f(a: any, b: any) . "
PAIR = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(data=st.data())
def test_tables_follow_facts_that_come_and_go(data: st.DataObject) -> None:
    program = tl.parse(DECLARED + data.draw(st.sampled_from(POSITIVE)))
    there = {name: data.draw(st.sets(PAIR, max_size=8)) for name in "ef"}
    reasoner = tl.Reasoner(program, table_memory=data.draw(st.sampled_from(MEMORIES)))
    for name, facts in there.items():
        reasoner.insert(name, sorted(facts))
    first, second = st.sampled_from(("?x", "0", "1", "2")), st.sampled_from(("?y", "0", "1", "3"))
    asked = data.draw(st.lists(st.tuples(first, second), min_size=1, max_size=2))
    for _ in range(data.draw(st.integers(1, 4))):
        query = "tc({}, {})".format(*data.draw(st.sampled_from(asked)))
        whole = tl.Reasoner(program)
        for name, facts in there.items():
            whole.insert(name, sorted(facts))
        assert rows(reasoner.query(query, "tabling")) == rows(whole.query(query, "full"))
        name = data.draw(st.sampled_from("ef"))
        came = data.draw(st.sets(PAIR, max_size=2))
        went = data.draw(st.sets(st.sampled_from(sorted(there[name])), max_size=2)) if there[name] else set()
        with reasoner.change() as change:
            change.delete(name, sorted(went - came))
            change.insert(name, sorted(came))
        there[name] = (there[name] - went) | came


def test_what_reads_a_predicate_that_loses_its_last_rule_begins_anew() -> None:
    reasoner = tl.Reasoner(tl.parse("p(?x) :- q(?x) . p(?x) :- e(?x) . q(?x) :- f(?x) ."))
    reasoner.insert("e", [(1,)])
    reasoner.insert("f", [(2,)])
    assert ask(reasoner, "p(?x)") == {(1,), (2,)}
    reasoner.apply("- q(?x) :- f(?x) .")
    assert ask(reasoner, "p(?x), e(?x)") == {(1,)}
    assert ask(reasoner, "p(?x)") == {(1,)}


@given(data=st.data())
def test_queries_and_transactions_in_turns(data: st.DataObject) -> None:
    """Facts come and go, rules go; in the end everything is derived."""
    case = data.draw(cases(EVERYTHING))
    reasoner, whole = (tl.Reasoner(tl.parse(case.text)) for _ in range(2))
    rows(reasoner.query(data.draw(queries(case)), "tabling"))
    whole.materialise()
    for _ in range(data.draw(st.integers(1, 3))):
        came = data.draw(changes(case))
        gone = {
            name: data.draw(st.lists(st.sampled_from(facts), max_size=2)) if facts else []
            for name, facts in case.facts.items()
        }
        rule = data.draw(st.sampled_from((None, *case.rules)))
        for each in (reasoner, whole):
            with each.change(missing="ignore") as change:
                for name, row in came:
                    change.insert(name, [row])
                for name, facts in gone.items():
                    change.delete(name, [tuple(map(value, row)) for row in facts])
                if rule is not None:
                    change.remove(rule)
        query = data.draw(queries(case))
        assert rows(reasoner.query(query, "tabling")) == rows(whole.query(query, "lookup"))
    reasoner.materialise()
    for name in case.arities:
        assert rows(reasoner[name]) == rows(whole[name])
    for each in (reasoner, whole):
        with each.change(missing="ignore") as change:
            for name, stated in case.facts.items():
                change.delete(name, [tuple(map(value, row)) for row in stated])
    for name in case.arities:
        assert rows(reasoner[name]) == rows(whole[name])


@given(data=st.data())
def test_no_answer_lies_outside_what_was_asked(data: st.DataObject) -> None:
    """And no call is subsumed by one that was there before it."""
    case = data.draw(cases(EVERYTHING))
    reasoner = tl.Reasoner(tl.parse(case.text))
    for query in data.draw(st.lists(queries(case), min_size=1, max_size=3)):
        reasoner.query(query, "tabling")
    engine = reasoner._engine
    for component in tables_of(reasoner)._components.values():
        for predicate in {each.predicate for each in component.tables}:
            patterns = [each for each in component.tables if each.predicate == predicate]
            asked = {
                each: set(zip(*map(list, engine.storage.rows(each.asked)[0]), strict=True))
                for each in patterns
            }
            empty = {each for each in patterns if engine.storage.size(each.asked) and not each.binding.bound}
            for fact in zip(*map(list, engine.storage.rows(answers_of(predicate))[0]), strict=True):
                assert empty or any(
                    tuple(fact[place] for place in each.binding.bound) in asked[each] for each in patterns
                )


def test_what_was_counted_for_tables_is_forgotten_when_everything_is_derived() -> None:
    reasoner = tl.Reasoner("same(?x, ?x) :- point(?x, ?x), ?x >= 0 . same(0, 0) .")
    list(reasoner.answers("same(?x, ?y)", "tabling"))
    with reasoner.change() as change:
        change.insert("point", [(0, 0)])
    reasoner.materialise()
    with reasoner.change() as change:
        change.delete("same", [(0, 0)])
    assert list(reasoner["same"]) == [(0, 0)]
