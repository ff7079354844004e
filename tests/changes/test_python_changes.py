"""Changes made by Python objects: few rows of texts, which take the shortest path, and all else beside them.

What is kept from one transaction to the next must not outlive what it was made for: rules, a rebuilding after
a fault, compacted relations, and structures that keep closures.
"""

from __future__ import annotations

import sys
import threading
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.changes.injection import Fault
from tests.changes.oracle import Row, changed, difference, held
from tests.changes.test_laws import History, Transaction, begun, carry_out, histories
from tidelog.logic.conversions import read_exact
from tidelog.logic.types import Type

COMPACT_FROM = "tidelog.engine.columnar.transactions.transactions.COMPACT_FROM"


def fill(change: tl.Change, transaction: Transaction) -> None:
    """Stage a transaction, facts as Python objects."""
    for sign, what, row in transaction:
        if row is None:
            (change.add if sign == "+" else change.remove)(what)
        else:
            (change.insert if sign == "+" else change.delete)(what, [tuple(map(from_python, row))])


def from_python(constant: str) -> object:
    """A constant as a Python object: names are texts."""
    return constant if constant.isidentifier() else read_exact(constant)


def fail(*_: object) -> None:
    """Raise what is no error of tidelog's."""
    raise Fault("injected")


STAGES = (
    "tidelog.reasoner.commit.normalise",
    "tidelog.maintenance.driver.MaintenanceStarted",
    "tidelog.maintenance.driver.Driver._rows",
    "tidelog.reasoner.loading.LoadedData.note_rows",
    "tidelog.reasoner.commit.Delta",
)


@given(history=histories(), faults=st.lists(st.sampled_from((None, *STAGES)), min_size=4, max_size=4))
@settings(max_examples=2 * settings().max_examples)
def test_changes_from_python_are_like_starting_anew(history: History, faults: list[str | None]) -> None:
    """Relations are compacted whenever most of their rows are gone; deltas stay as they were all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COMPACT_FROM, 0)
        state = begun(history)
        names = list(state.arities)
        reasoner = tl.Reasoner(tl.parse(state.text), threads=1)
        before = state.expected()
        kept = []
        for transaction, stage in zip(history.transactions, faults, strict=False):
            if stage is not None and is_carried_out(reasoner, transaction, stage):
                carry_out(state, transaction)
                before = state.expected()
                assert held(reasoner, names) == before
                continue
            assert stage is None or held(reasoner, names) == before
            with reasoner.change() as change:
                fill(change, transaction)
            carry_out(state, transaction)
            after = state.expected()
            assert held(reasoner, names) == after
            kept.append((change.delta, difference(before, after)))
            before = after
        for delta, expected in kept:
            assert changed(delta, names) == expected


def is_carried_out(reasoner: tl.Reasoner, transaction: Transaction, stage: str) -> bool:
    """Try a transaction while a part of the commit fails; return whether it is carried out all the same."""
    change = reasoner.change()
    fill(change, transaction)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, fail)
        try:
            change.commit()
        except Fault:
            return stage == STAGES[-1]  # it was committed by then
    return True  # nothing that was changed reaches the stage


NAMES = "abcd"


@st.composite
def walks(draw: st.DrawFn) -> list[tuple[str, str, Row]]:
    """Single facts that go and come: edges, and given pairs of their closure."""
    fact = st.tuples(st.sampled_from(("edge", "path")), st.tuples(*[st.sampled_from(NAMES)] * 2))
    there: set[tuple[str, Row]] = set()
    steps = []
    for item in draw(st.lists(fact, min_size=1, max_size=12)):
        steps.append(("-" if item in there else "+", *item))
        there ^= {item}
    return steps


@pytest.mark.parametrize("maintainer", ["auto", "rank-counting", "dred"])
@given(steps=walks())
def test_given_pairs_of_a_closure(maintainer: str, steps: list[tuple[str, str, Row]]) -> None:
    """A structure keeps the closure in place of rules, within the compiled loop too."""
    rules = (
        "@declare edge(x: any, y: any) . path(?x, ?y) :- edge(?x, ?y) ."
        "path(?x, ?z) :- path(?x, ?y), path(?y, ?z) . ends(#count(?y)) :- path(?x, ?y) ."
    )
    reasoner = tl.Reasoner(tl.parse(rules), maintainer=maintainer, threads=1)
    reasoner.materialise()
    facts: set[tuple[str, Row]] = set()
    before = held(reasoner, ("edge", "path", "ends"))
    for sign, name, row in steps:
        with reasoner.change() as change:
            (change.insert if sign == "+" else change.delete)(name, [row])
        facts ^= {(name, row)}
        anew = tl.Reasoner(tl.parse(rules), threads=1)
        for each, pair in facts:
            anew.insert(each, [pair])
        after = held(anew, before)
        assert held(reasoner, before) == after
        assert changed(change.delta, before) == difference(before, after)
        before = after


def test_relations_of_all_widths_in_one_delta() -> None:
    """Ids are gathered relation by relation, column by column: none, one or many."""
    program = """
        @declare wide(a: any, b: any, c: any, d: any, e: any, f: any) .
        @declare lit() . @declare one(x: any) .
        narrow(?f, ?a) :- wide(?a, ?b, ?c, ?d, ?e, ?f), lit() .
        dark() :- one(?x), ~lit() .
    """
    reasoner = tl.Reasoner(tl.parse(program))
    reasoner.insert("one", [("o",)])
    reasoner.materialise()
    with reasoner.change() as change:
        change.insert("wide", [tuple("abcdef"), tuple("ghijkl")])
        change.insert("lit", [()])
    assert sorted(change.delta) == [
        ("+", "lit", ()),
        ("+", "narrow", ("f", "a")),
        ("+", "narrow", ("l", "g")),
        ("+", "wide", tuple("abcdef")),
        ("+", "wide", tuple("ghijkl")),
        ("-", "dark", ()),
    ]
    with reasoner.change() as change:
        change.delete("lit", [()])
        change.delete("wide", [tuple("abcdef")])
    assert (change.delta.added, change.delta.removed) == (1, 4)


def test_relations_are_compacted_when_most_of_their_rows_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one transaction of many facts, or by the last of many transactions of one fact."""
    monkeypatch.setattr(COMPACT_FROM, 10)
    rules = "p(?x) :- e(?x, _) . @declare e(x: any, y: any) ."
    reasoner = tl.Reasoner(tl.parse(rules), maintainer="rank-counting")
    rows = [(f"a{number}", f"b{number}") for number in range(60)]
    reasoner.insert("e", rows)
    reasoner.materialise()
    catalog = reasoner.runtime.engine.catalog
    tables = [catalog.table(name) for name in "ep"]
    found = []
    for first, last in ((0, 1), (1, 30), *((number, number + 1) for number in range(30, 60))):
        with reasoner.change() as change:
            change.delete("e", rows[first:last])
        assert sorted(change.delta["e"].removed) == sorted(rows[first:last])
        assert [len(table) - table.dead for table in tables] == [60 - last] * 2
        found.append(tables[0].dead)
    assert found[:3] == [1, 30, 0]
    assert max(found[3:]) <= 15
    assert sum(dead == 0 for dead in found) >= 2


# ---- the types of values are noted once


VALUES = st.one_of(
    st.integers(-3, 3),
    st.just(2**70),
    st.sampled_from(("name", "a text", "5")),
    st.floats(0, 1),
    st.decimals(0, 1, places=2),
    st.booleans(),
    st.just(date(2020, 2, 29)),
    st.sampled_from((datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC))),
)


@given(rows=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=8))
def test_types_are_noted_alike_one_by_one_and_together(rows: list[tuple[object, object]]) -> None:
    program = "q(?y) :- p(_, ?y) . @declare s(x: any) . s(a) ."
    single, whole = (tl.Reasoner(tl.parse(program)) for _ in range(2))
    for reasoner in (single, whole):
        reasoner.materialise()
    for row in rows:
        single.insert("p", [row])
    whole.insert("p", rows)
    assert single._data.types.noted() == whole._data.types.noted()
    assert single["q"].contents == whole["q"].contents


def test_a_moment_without_a_time_zone_after_one_with() -> None:
    """Both are of one kind of value, and of two types."""
    reasoner = tl.Reasoner(tl.parse("q(?x) :- p(?x) ."))
    reasoner.materialise()
    found = []
    for moment in (datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1)):
        reasoner.insert("p", [(moment,)])
        (contents,) = reasoner["q"].contents
        found.append(contents.types)
    assert found == [{Type.DATETIME}, {Type.DATETIME, Type.LOCAL_DATETIME}]


# ---- texts wait for their ids


def test_threads_that_stage_texts_in_one_transaction() -> None:
    """The columns of a row stay together."""
    reasoner = tl.Reasoner(tl.parse("@declare e(x: any, y: any) . @declare f(x: string, y: any) ."))
    reasoner.materialise()
    change = reasoner.change()

    def stage(letter: str) -> None:
        for number in range(300):
            rows = [(f"{letter}{number}_{each}", f"{letter}{number}_{each}") for each in range(3)]
            change.insert("e", rows)
            change.insert("f", rows)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=stage, args=(letter,)) for letter in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    change.commit()
    assert len(reasoner["e"]) == len(reasoner["f"]) == 3 * 300 * 3
    assert all(left == right for name in "ef" for left, right in reasoner[name])


def test_few_and_many_texts_have_the_same_ids() -> None:
    """Those of a few rows are looked up one by one, those of many in one call."""
    reasoner = tl.Reasoner(tl.parse("@declare e(x: any, y: string) ."))
    reasoner.materialise()
    texts = ["name", "two words", "5", "_:b", "", '"quoted"', "a:b"]
    for number, text in enumerate(texts):
        with reasoner.change() as change:
            change.insert("e", [(text, text)])
        assert change.inserted == 1, number
    with reasoner.change() as change:
        change.insert("e", [(text, text) for text in texts])
    assert change.inserted == 0
    with reasoner.change() as change:
        change.delete("e", [(text, text) for text in texts])
    assert len(change.delta) == len(texts)


def test_rows_of_other_widths_and_types_are_refused_as_ever() -> None:
    reasoner = tl.Reasoner(tl.parse("@declare e(x: string, y: string) ."))
    reasoner.materialise()
    for data in ([("a",)], [("a", "b", "c")], [("a", "b"), ("a",)]):
        with pytest.raises(tl.TidelogError), reasoner.change() as change:
            change.insert("e", data)
    assert not len(reasoner["e"])
