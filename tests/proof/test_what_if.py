"""What a transaction would change: the same as carrying it out and taking it back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tests.strategies import NUMBERS, Case, Features, cases
from tidelog.maintenance.registry import ALL
from tidelog.reasoner.delta import Delta, PredicateDelta

GRAPH = """
    edge(a, b) . edge(b, c) .
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
"""


def everything(reasoner: tl.Reasoner) -> dict[str, set[tuple[object, ...]]]:
    """All facts."""
    return {name: set(reasoner[name]) for name in reasoner}


def changed(delta: Delta) -> set[object]:
    """What changes, in no order."""
    return {(sign, name, tuple(row)) for sign, name, row in delta}


def test_a_transaction_is_rehearsed_and_nobody_is_told() -> None:
    reasoner = tl.Reasoner(tl.parse(GRAPH), threads=1)
    told: list[PredicateDelta] = []
    reasoner.subscribe("reach", told.append)
    before = everything(reasoner)
    delta = reasoner.what_if("- edge(b, c) . + new(1) . + path(?x) :- new(?x) .")
    assert changed(delta) == {
        ("-", "edge", ("b", "c")),
        ("-", "reach", ("b", "c")),
        ("-", "reach", ("a", "c")),
        ("+", "new", (1,)),
        ("+", "path", (1,)),
    }
    assert not told and reasoner.commits == 0
    assert everything(reasoner) == before and "new" not in set(reasoner)
    assert changed(reasoner.apply("- edge(b, c) .")) < changed(delta)
    assert len(told) == 1


def test_what_the_transaction_would_raise_is_raised() -> None:
    reasoner = tl.Reasoner(tl.parse(GRAPH + "bottom() :- reach(?x, ?x) ."), threads=1)
    with pytest.raises(tl.ProgramError, match="E630"):
        reasoner.what_if("- edge(x, y) .")
    with pytest.raises(tl.Inconsistent):
        reasoner.what_if("+ edge(c, a) .")
    assert set(reasoner["edge"]) == {("a", "b"), ("b", "c")}


def test_equality_is_rehearsed_too() -> None:
    program = tl.parse("?x = ?y :- same(?x, ?y) . p(a) . q(b) . both(?x) :- p(?x), q(?x) .")
    reasoner = tl.Reasoner(program, threads=1)
    before = everything(reasoner)
    delta = reasoner.what_if("+ same(a, b) .")
    assert everything(reasoner) == before
    assert changed(reasoner.apply("+ same(a, b) .")) == changed(delta)


@pytest.mark.parametrize("maintainer", [each.name for each in ALL])
@given(cases(Features(arithmetic=True, aggregates=True)), st.data())
def test_what_if_equals_doing_it_and_undoing_it(maintainer: str, case: Case, data: st.DataObject) -> None:
    reasoner = tl.Reasoner(tl.parse(case.text), threads=1, maintainer=maintainer)
    reasoner.materialise()
    before = everything(reasoner)
    removed = [f"- {name}({', '.join(row)}) ." for name, rows in case.facts.items() for row in rows]
    script = data.draw(st.lists(st.sampled_from(removed), unique=True)) if removed else []
    name = data.draw(st.sampled_from(sorted(case.facts)))
    row = [data.draw(st.sampled_from(NUMBERS)) for _ in range(case.arities[name])]
    text = " ".join([*script, f"+ {name}({', '.join(row)}) ."])
    delta = reasoner.what_if(text)
    assert everything(reasoner) == before
    assert changed(reasoner.apply(text)) == changed(delta)
