"""Relations that are filled without comparing rows, because a key shows that no two are alike."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tidelog as tl
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.columnar.storage.table import Table
from tidelog.plan.compile import finds_each_once, full_plan

ORDERS = """
@declare orders(id: int, customer: string, price: decimal) .
@declare customers(name: string, country: string) .
@import orders :- csv{resource = "orders.csv", header = true} .
@import customers :- csv{resource = "customers.csv", header = true} .
line(?id, ?c, ?p * 2) :- orders(?id, ?c, ?p) .
sum(?country, #sum(?v, ?id)) :- line(?id, ?c, ?v), customers(?c, ?country) .
most(?c, #max(?v)) :- line(_, ?c, ?v) .
each(?c, #count(?id)) :- orders(?id, ?c, _) .
of(?c) :- orders(_, ?c, _) .
"""


def write_orders(folder: Path, rows: Sequence[tuple[int, str, str]]) -> None:
    lines = [f"{number},{customer},{price}" for number, customer, price in rows]
    (folder / "orders.csv").write_text("\n".join(["id,customer,price", *lines, ""]))
    (folder / "customers.csv").write_text("name,country\nann,no\nbob,se\ncid,no\n")


def table_of(reasoner: tl.Reasoner, relation: str) -> Table:
    engine = reasoner.runtime.engine
    assert isinstance(engine, ColumnarEngine)
    return engine.catalog.table(relation)


def answers(reasoner: tl.Reasoner) -> dict[str, list[tuple[object, ...]]]:
    names = ("orders", "line", "sum", "most", "each", "of")
    return {name: list(reasoner[name].sorted()) for name in names}


def test_a_key_spares_the_sets_of_rows_until_facts_are_looked_up(tmp_path: Path) -> None:
    rows = [(number, ["ann", "bob", "cid"][number % 3], f"{number % 7}.5") for number in range(300)]
    write_orders(tmp_path, rows)
    reasoner = tl.Reasoner(tl.parse(ORDERS, folder=tmp_path), threads=1)
    reasoner.materialise()
    has_set = {name: table_of(reasoner, name).has_set for name in ("orders", "customers", "line", "of")}
    assert has_set == {"orders": False, "customers": False, "line": False, "of": True}
    assert len(reasoner["line"]) == 300
    assert len(reasoner["of"]) == 3
    reasoner.insert("orders", [(0, "ann", "0.5"), (300, "bob", "1.5")])
    assert len(reasoner["orders"]) == len(reasoner["line"]) == 301
    write_orders(tmp_path, [*rows, (300, "bob", "1.5")])
    again = tl.Reasoner(tl.parse(ORDERS, folder=tmp_path), threads=1)
    assert answers(reasoner) == answers(again)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["ann", "bob", "eve"]), st.sampled_from(["1", "2.5"])),
        max_size=12,
    ),
    st.booleans(),
)
@example([(1, "ann", "1"), (1, "ann", "1")], False)
@example([(1, "ann", "1"), (2, "ann", "1"), (2, "ann", "1"), (3, "bob", "2.5")], True)
def test_files_with_and_without_a_key_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, str]], is_divided: bool
) -> None:
    folder = tmp_path_factory.mktemp("orders")
    write_orders(folder, rows)
    text = ORDERS
    if is_divided:  # into two files, of which the second may repeat rows and keys
        lines = (folder / "orders.csv").read_text().splitlines(keepends=True)
        half = len(lines) // 2 + 1
        (folder / "orders.csv").write_text("".join(lines[:half]))
        (folder / "more.csv").write_text("".join([lines[0], *lines[half:]]))
        text += '@import orders :- csv{resource = "more.csv", header = true} .'
    with_keys = tl.Reasoner(tl.parse(text, folder=folder), threads=1)
    found = answers(with_keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidelog.engine.columnar.storage.storage.APPENDED_FROM", 1 << 60)
        patch.setattr("tidelog.engine.columnar.interpreter.plan_runner.APPENDED_FROM", 1 << 60)
        assert found == answers(tl.Reasoner(tl.parse(text, folder=folder), threads=1))


# ---- which plans find each fact once


class Sizes:
    """Statistics of relations that are all alike."""

    def size(self, relation: str) -> int:
        return 10

    def distinct(self, relation: str, column: int) -> float:
        return 5.0

    def matching(self, relation: str, column: int, value: object) -> int:
        return 2


Pairs = list[tuple[int, int]]
PROGRAM = "@declare p(_: int, _: int) . @declare q(_: int, _: int) . {facts} h({heads}) :- {body} ."


@given(st.data())
def test_a_plan_that_finds_each_fact_once_has_no_two_matches_with_one_head(data: st.DataObject) -> None:
    term = st.sampled_from(["?x", "?y", "?z", "?w", "1"])
    atoms = data.draw(st.lists(st.tuples(st.sampled_from("pq"), term, term), min_size=1, max_size=3))
    names = sorted({term for _, *terms in atoms for term in terms if term != "1"})
    if not names:
        return
    heads = data.draw(st.lists(st.sampled_from([*names, "?s"]), min_size=1, max_size=3))
    pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6, unique=True)
    facts = {name: data.draw(pairs) for name in "pq"}
    text = PROGRAM.format(
        facts="".join(f"{name}({x}, {y}) . " for name, rows in facts.items() for x, y in rows),
        heads=", ".join(heads),
        body=", ".join(f"{name}({left}, {right})" for name, left, right in atoms) + f", ?s = {names[0]} + 1",
    )
    (rule,) = [rule for rule in tl.parse(text).rules if rule.body]

    def is_key(relation: str, column: int) -> bool:
        values = [row[column] for row in facts[relation]]
        return len(set(values)) == len(values)

    if finds_each_once(full_plan(rule, 0, Sizes()), is_key):
        columns = [names[0] if head == "?s" else head for head in heads]
        found = [tuple(match[name] for name in columns) for match in matches(atoms, facts)]
        assert len(set(found)) == len(found)


def matches(atoms: list[tuple[str, str, str]], facts: dict[str, Pairs]) -> list[dict[str, int]]:
    """What variables may be so that all atoms are facts, by trying everything."""
    names = sorted({term for _, *terms in atoms for term in terms if term != "1"})
    tried = [dict(zip(names, values, strict=True)) for values in product(range(4), repeat=len(names))]
    return [
        values
        for values in tried
        if all((values.get(left, 1), values.get(right, 1)) in facts[name] for name, left, right in atoms)
    ]


def test_a_head_without_a_key_may_repeat() -> None:
    rule = next(rule for rule in tl.parse("p(1, 2) . h(?x) :- p(?x, ?y) .").rules if rule.body)
    plan = full_plan(rule, 0, Sizes())
    assert not finds_each_once(plan, lambda relation, column: False)
    assert not finds_each_once(plan, lambda relation, column: column == 1)
    assert finds_each_once(plan, lambda relation, column: column == 0)


def test_a_fact_that_is_joined_twice_is_found_once_by_all_of_its_values() -> None:
    text = "p(1, 2) . h(?x, ?y, ?z) :- p(?x, ?y), p(?y, ?z) . g(?x, ?z) :- p(?x, ?y), p(?y, ?z) ."
    all_values, some = (rule for rule in tl.parse(text).rules if rule.body)
    assert finds_each_once(full_plan(all_values, 0, Sizes()), lambda relation, column: False)
    assert not finds_each_once(full_plan(some, 0, Sizes()), lambda relation, column: False)
    assert finds_each_once(full_plan(some, 0, Sizes()), lambda relation, column: column == 0)
