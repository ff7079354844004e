"""Prepared and live queries: right after every change, and nothing is derived that nobody asks for."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.changes.oracle import fact_text
from tests.rewrite.test_magic_sets import queries
from tests.strategies import EVERYTHING, Case, cases
from tidelog.data.columns import Batch, column_of_values
from tidelog.errors import Inconsistent, ProgramError, TidelogError
from tidelog.logic.conversions import read_exact
from tidelog.maintenance.registry import MAINTAINERS

REACH = """
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) .
"""


def graph(edges: list[tuple[int, int]], **more: Any) -> tl.Reasoner:
    reasoner = tl.Reasoner(tl.parse(REACH), **more)
    reasoner.insert("edge", edges)
    return reasoner


def chain(length: int, **more: Any) -> tl.Reasoner:
    return graph([(number, number + 1) for number in range(length)], **more)


def rows(relation: tl.Relation) -> set[tuple[str, ...]] | int:
    return set(relation.to_texts("exact").rows()) if relation.columns else len(relation)


def hidden(reasoner: tl.Reasoner) -> int:
    """How many facts there are in relations that are none of the program's."""
    return sum(
        reasoner._engine.storage.size(name) for name in reasoner._engine.storage.relations() if " " in name
    )


# ---- prepared queries


def test_bindings_and_names() -> None:
    reach = chain(5).prepare("reach($from, ?to)")
    assert reach.parameters == ("from",)
    assert rows(reach(3)) == rows(reach(from_=3)) == rows(reach(**{"from": 3})) == {("4",), ("5",)}
    assert reach(3).columns == ("to",)


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, 2), {}), ((1,), {"from_": 1}), ((), {"form": 1})], ids=str
)
def test_bindings_that_do_not_fit(values: tuple[int, ...], named: dict[str, int]) -> None:
    reach = chain(5).prepare("reach($from, ?to)")
    with pytest.raises(ProgramError) as caught:
        reach(*values, **named)
    assert caught.value.diagnostics[0].code == "E652"


def test_parameters_in_comparisons_and_negations() -> None:
    asked = chain(9).prepare("reach($a, ?x), ?x > $least, ~edge(?x, $not)")
    assert rows(asked(0, 5, 8)) == {("6",), ("8",), ("9",)}
    assert rows(asked(a=3, least=7, **{"not": 9})) == {("9",)}


def test_a_query_without_parameters_may_be_prepared() -> None:
    reasoner = chain(3)
    asked = reasoner.prepare("reach(1, ?x)")
    assert rows(asked()) == {("2",), ("3",)}
    reasoner.insert("edge", [(3, 4)])
    assert rows(asked()) == {("2",), ("3",), ("4",)}


def test_ten_thousand_bindings() -> None:
    reasoner = graph([(number, number + 1) for number in range(10_000) if number % 10])
    reach = reasoner.prepare("reach($from, ?to)")
    assert [len(reach(number)) for number in range(10_000)] == [
        (10 - number % 10) if number % 10 else 0 for number in range(10_000)
    ]
    facts = hidden(reasoner)
    assert len(reach(3)) == 7
    assert hidden(reasoner) == facts  # a binding that was asked for costs nothing more
    with reasoner.change() as change:
        change.delete("edge", [(9, 10)])
    assert len(reach(3)) == 6
    reach.close()
    assert hidden(reasoner) == 0


def test_nothing_else_is_derived() -> None:
    reasoner = chain(1000)
    reach = reasoner.prepare("reach($from, ?to)")
    assert len(reach(990)) == 10
    assert hidden(reasoner) < 50
    assert reasoner._engine.storage.size("reach") == 0


def test_a_closed_query_cannot_be_asked() -> None:
    with chain(3).prepare("reach($from, ?to)") as reach:
        reach(1)
    with pytest.raises(ProgramError) as caught:
        reach(1)
    assert caught.value.diagnostics[0].code == "E653"


# ---- live queries


@pytest.mark.parametrize("maintainer", MAINTAINERS)
@pytest.mark.parametrize("is_full", [False, True], ids=["demanded", "everything"])
def test_answers_and_deltas(maintainer: str, is_full: bool) -> None:
    reasoner = chain(3, maintainer=maintainer)
    told: list[list[tuple[str, tuple[Any, ...]]]] = []
    live = reasoner.watch("reach(1, ?to)", lambda delta: told.append(sorted(delta)))
    if is_full:
        reasoner.materialise()
    delta = reasoner.apply("+ edge(3, 7) . - edge(2, 3) . + edge(0, 9) .")
    assert rows(live.answers) == {("2",)}
    assert told == [[("-", (3,))]]
    assert is_full or len(delta) == 3  # of stated facts only
    reasoner.apply("+ edge(2, 3) .")
    assert told[1:] == [[("+", (3,)), ("+", (7,))]]
    reasoner.apply("+ reach(?x, ?y) :- edge(?y, ?x) .")
    assert told[2:] == [[("+", (0,)), ("+", (1,))]]
    reasoner.apply("- reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) .")
    assert rows(live.answers) == {("0",), ("2",)}
    live.cancel()
    reasoner.apply("+ edge(1, 100) .")
    assert len(told) == 4


def test_what_only_one_query_needed_goes_with_it() -> None:
    reasoner = chain(100)
    far, near = reasoner.watch("reach(0, ?to)"), reasoner.watch("reach(90, ?to)")
    assert hidden(reasoner) > 100
    far.cancel()
    assert rows(near.answers) == {(str(number),) for number in range(91, 101)}
    assert hidden(reasoner) < 30
    near.cancel()
    near.cancel()
    assert hidden(reasoner) == 0
    assert set(reasoner._engine.storage.relations()) == {"edge", "reach"}


def test_a_transaction_that_fails_leaves_answers_as_they_were() -> None:
    reasoner = tl.Reasoner(tl.parse(REACH + "bottom() :- reach(?x, ?x) . edge(1, 2) . edge(2, 3) ."))
    told: list[object] = []
    live = reasoner.watch("reach(1, ?to)", told.append)
    with pytest.raises(Inconsistent):
        reasoner.apply("+ edge(3, 1) .")
    with pytest.raises(TidelogError):
        reasoner.apply("- edge(7, 8) .")
    assert rows(live.answers) == {("2",), ("3",)}
    assert told == []
    reasoner.apply("+ edge(3, 4) .")
    assert rows(live.answers) == {("2",), ("3",), ("4",)}


def test_explicit_facts_of_a_derived_predicate() -> None:
    reasoner = chain(3)
    live = reasoner.watch("reach(1, ?to)")
    reasoner.insert("reach", [(2, 50), (60, 70)])
    assert rows(live.answers) == {("2",), ("3",), ("50",)}
    reasoner.apply("- reach(2, 50) .")
    assert rows(live.answers) == {("2",), ("3",)}


def test_deltas_of_a_live_query_asynchronously() -> None:
    async def follow() -> list[object]:
        reasoner = chain(2)
        deltas = reasoner.watch("reach(1, ?to)").deltas()
        reasoner.insert("edge", [(2, 8)])
        deltas.cancel()
        return [list(delta) async for delta in deltas]

    assert asyncio.run(follow()) == [[("+", (8,))]]


# ---- laws


@st.composite
def steps(draw: st.DrawFn, case: Case, more: Case) -> list[str]:
    """Change scripts: facts of all predicates come and go, and rules of one program or another."""
    constants = ("0", "1", "2", "a", "b")
    fact = st.sampled_from(sorted(case.arities)).flatmap(
        lambda name: st.tuples(st.just(name), st.tuples(*[st.sampled_from(constants)] * case.arities[name]))
    )
    usable = [rule for rule in more.rules if set(more.arities.items()) <= set(case.arities.items())]
    scripts = []
    for _ in range(draw(st.integers(1, 4))):
        lines = [
            f"{draw(st.sampled_from('+-'))} {fact_text(*item)}"
            for item in draw(st.lists(fact, max_size=4, unique=True))
        ]
        for rule in draw(st.lists(st.sampled_from((*case.rules, *usable)), max_size=1)):
            lines.append(f"{draw(st.sampled_from('+-'))} {rule}")
        scripts.append("\n".join(lines))
    return scripts


@settings(max_examples=2 * settings().max_examples)
@given(data=st.data())
def test_kept_answers_are_those_of_a_new_reasoner(data: st.DataObject) -> None:
    """Magic, maintained under changes of facts and rules, is what everything gives when derived anew."""
    case = data.draw(cases(EVERYTHING))
    asked = [data.draw(queries(case)) for _ in range(data.draw(st.integers(1, 3)))]
    maintainer = data.draw(st.sampled_from(("auto", "dred", "recompute", "counting")))
    reasoner = tl.Reasoner(tl.parse(case.text), maintainer=maintainer)
    live = {query: reasoner.watch(query) for query in dict.fromkeys(asked)}
    held = {query: rows(each.answers) for query, each in live.items()}
    told: dict[str, list[tuple[str, tuple[str, ...]]]] = {query: [] for query in live}
    for query, each in live.items():
        each.subscribe(partial(_note, told[query]))
    materialised_at = data.draw(st.integers(0, 8))
    dropped_at = data.draw(st.integers(0, 8))
    for number, script in enumerate(data.draw(steps(case, data.draw(cases(EVERYTHING))))):
        if number == materialised_at:
            reasoner.materialise()
        if number == dropped_at and len(live) > 1:
            live.pop(next(iter(live))).cancel()
        for noted in told.values():
            noted.clear()
        try:
            reasoner.apply(script, missing="ignore")
        except TidelogError as error:
            assert error.diagnostics[0].code in ("E301", "E306", "E603", "E304"), error
        for query, each in live.items():
            fresh = tl.Reasoner(reasoner.program)
            _copy_facts(reasoner, fresh)
            assert rows(each.answers) == rows(fresh.query(query, "full"))
            assert rows(reasoner.query(query, "auto")) == rows(each.answers)
            now = rows(each.answers)
            if isinstance(now, set) and isinstance(held[query], set):
                before = held[query]
                assert isinstance(before, set)
                expected = {("+", row) for row in now - before} | {("-", row) for row in before - now}
                assert set(told[query]) == expected
            held[query] = now


def _note(told: list[tuple[str, tuple[str, ...]]], delta: Any) -> None:
    told.extend(_exact(delta))


def _exact(delta: Any) -> list[tuple[str, tuple[str, ...]]]:
    signs = (("+", delta.added), ("-", delta.removed))
    return [
        (sign, row)
        for sign, found in signs
        for row in (found.to_texts("exact").rows() if found.columns else ())
    ]


def _copy_facts(reasoner: tl.Reasoner, fresh: tl.Reasoner) -> None:
    """Give a new reasoner the explicit facts of another."""
    for name in reasoner.program.predicates:
        columns, count = reasoner._engine.storage.explicit(name)
        if count:
            decode = reasoner._engine.storage.dictionary.decode
            data = [tuple(decode(int(column[place])) for column in columns) for place in range(count)]
            fresh.insert(name, data)


@given(data=st.data())
def test_prepared_answers_are_those_of_a_new_reasoner(data: st.DataObject) -> None:
    case = data.draw(cases(EVERYTHING))
    name = data.draw(st.sampled_from(sorted(name for name in case.arities if case.arities[name]) or [""]))
    if not name:
        return
    pattern = [data.draw(st.booleans()) for _ in range(case.arities[name])]
    terms = [f"$p{place}" if bound else f"?v{place}" for place, bound in enumerate(pattern)]
    reasoner = tl.Reasoner(tl.parse(case.text))
    asked = reasoner.prepare(f"{name}({', '.join(terms)})")
    for script in ["", *data.draw(steps(case, case))]:
        try:
            reasoner.apply(script, missing="ignore")
        except TidelogError as error:
            assert error.diagnostics[0].code in ("E301", "E306", "E603", "E304"), error
        fresh = tl.Reasoner(reasoner.program)
        _copy_facts(reasoner, fresh)
        for _ in range(2):
            values = [data.draw(st.integers(0, 3)) for bound in pattern if bound]
            written = iter(map(str, values))
            bound_terms = [next(written) if term.startswith("$") else term for term in terms]
            assert rows(asked(*values)) == rows(fresh.query(f"{name}({', '.join(bound_terms)})", "full"))


def test_a_query_asked_once_leaves_kept_ones_alone() -> None:
    reasoner = chain(100)
    live, reach = reasoner.watch("reach(90, ?to)"), reasoner.prepare("reach($from, ?to)")
    assert len(reach(95)) == 5
    facts = hidden(reasoner)
    assert len(reasoner.query("reach(50, ?to)", "magic")) == 50
    assert hidden(reasoner) == facts
    reasoner.insert("edge", [(100, 101)])
    assert (len(live.answers), len(reach(95))) == (11, 6)


def test_a_query_asked_once_leaves_the_search_for_inconsistency_alone() -> None:
    """Both look for `bottom()`, each in a relation of its own."""
    reasoner = tl.Reasoner(tl.parse("p(?x) :- u(?x) . bottom() :- u(?x), v(?x) . u(a) . v(b) ."))
    live = reasoner.watch("p(?x)")
    assert len(reasoner.query("p(?x)", "magic")) == 1
    assert len(reasoner.query("p(?x)", "full")) == len(live.answers) == 1
    with pytest.raises(Inconsistent):
        reasoner.apply("+ u(b) .")
    reasoner.apply("+ u(c) .")
    assert len(live.answers) == 2


@pytest.mark.parametrize("rules", ["left-linear", "right-linear", "nonlinear", "symmetric"])
@pytest.mark.parametrize("query", ["reach(?x, 3)", "reach(3, ?x)", "reach(?x, ?y)"])
def test_tables_and_kept_queries_have_relations_of_their_own(rules: str, query: str) -> None:
    reasoner = tl.Reasoner(tl.parse(CLOSURES[rules]))
    reasoner.insert("edge", [(1, 2), (2, 3), (3, 4), (4, 2)])
    live, other = reasoner.watch(query), reasoner.watch("edge(?x, 3), reach(?x, ?z)")
    for script in ("", "+ edge(0, 1) . - edge(3, 4) .", "+ reach(?x, ?x) :- edge(?x, _) .", "- edge(2, 3) ."):
        reasoner.apply(script)
        fresh = tl.Reasoner(reasoner.program)
        _copy_facts(reasoner, fresh)
        tabled = rows(reasoner.query(query, "tabling"))
        assert tabled == rows(live.answers) == rows(fresh.query(query, "full"))
    live.cancel()
    assert rows(reasoner.query(query, "tabling")) == tabled
    other.cancel()
    assert rows(reasoner.query(query, "tabling")) == tabled


# ---- places that reach each other

CLOSURES = {
    "right-linear": REACH,
    "left-linear": "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .",
    "nonlinear": "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) .",
    "symmetric": "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) ."
    " reach(?x, ?y) :- reach(?y, ?x) .",
}
NODES = 6
EDGES = st.lists(st.tuples(st.integers(0, NODES), st.integers(0, NODES)), max_size=9, unique=True)


def test_places_on_one_cycle_share_their_answers() -> None:
    reasoner = graph([(number, (number + 1) % 50) for number in range(50)])
    reach = reasoner.prepare("reach($from, ?to)")
    assert len(reach(0)) == 50
    facts = hidden(reasoner)
    assert all(len(reach(number)) == 50 for number in range(50))
    assert hidden(reasoner) == facts
    with reasoner.change() as change:
        change.delete("edge", [(9, 10)])
    assert [len(reach(number)) for number in (0, 9, 10, 49)] == [9, 0, 49, 10]


@pytest.mark.parametrize("query", ["reach($a, ?b)", "reach(?b, $a)"])
@pytest.mark.parametrize("name", CLOSURES)
@settings(max_examples=max(10, settings().max_examples // 4))
@given(data=st.data())
def test_closures_prepared(name: str, query: str, data: st.DataObject) -> None:
    reasoner = tl.Reasoner(tl.parse(CLOSURES[name]))
    reasoner.insert("edge", data.draw(EDGES))
    asked = reasoner.prepare(query)
    for _ in range(3):
        fresh = tl.Reasoner(reasoner.program)
        _copy_facts(reasoner, fresh)
        for node in data.draw(st.lists(st.integers(0, NODES), max_size=4)):
            assert rows(asked(node)) == rows(fresh.query(query.replace("$a", str(node)), "full"))
        lines = [f"{data.draw(st.sampled_from('+-'))} edge({x}, {y}) ." for x, y in data.draw(EDGES)]
        lines += [f"+ reach({x}, {y}) ." for x, y in data.draw(EDGES)[: data.draw(st.integers(0, 1))]]
        reasoner.apply("\n".join(lines), missing="ignore")


def test_batches_of_facts_change_kept_answers() -> None:
    reasoner = tl.Reasoner(tl.parse("p(1, 2) . q(?x, ?z) :- p(?x, ?y), p(?y, ?z) ."))
    live = reasoner.watch("q(1, ?z)")
    two, three = (column_of_values([read_exact(text)]) for text in ("2", "3"))
    reasoner.load("p", [Batch((two, three), 1)])
    assert list(live.answers) == [(3,)]
