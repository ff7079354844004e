"""Column lineage: what it says of rules of all kinds, and that what it does not name does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.strategies import EVERYTHING, Case, Features, Row, cases
from tidelog.errors import TidelogError
from tidelog.show.column_lineage import (
    How,
    Lineage,
    PredicateColumn,
    PredicateDependency,
    lineage,
    published_dependencies,
)

DECLARED = (
    "@declare order(id: int, who: string, amount: int) .\n@declare person(who: string, city: string) .\n"
)


def shown(program: str, column: str) -> list[str]:
    """The origins of a column, as `predicate.column HOW`."""
    predicate, _, name = column.partition(".")
    found = lineage(tl.parse(DECLARED + program)).of(predicate)[name]
    return [f"{origin.column.predicate}.{origin.column.name} {origin.how}" for origin in found]


def test_a_projection_names_one_column() -> None:
    assert shown("buyer(?who) :- order(_, ?who, _) .", "buyer.who") == ["order.who IDENTITY"]


def test_a_join_and_a_filter_decide_about_rows_of_all_columns() -> None:
    program = 'local(?id) :- order(?id, ?who, ?amount), person(?who, "Nuuk"), ?amount > 10 .'
    assert shown(program, "local.id") == [
        "order.amount FILTER",
        "order.id IDENTITY",
        "order.who JOIN",
        "person.city FILTER",
        "person.who JOIN",
    ]


def test_computed_values_of_exact_numbers_do_not_decide_about_rows() -> None:
    program = "double(?who, ?n) :- order(_, ?who, ?amount), ?n = ?amount * 2 ."
    assert shown(program, "double.who") == ["order.who IDENTITY"]
    assert shown(program, "double.n") == ["order.amount TRANSFORMATION"]


def test_a_function_that_may_have_no_value_does() -> None:
    program = "share(?who, ?n) :- order(?id, ?who, ?amount), ?n = ?amount / ?id ."
    assert shown(program, "share.who") == ["order.amount FILTER", "order.id FILTER", "order.who IDENTITY"]


def test_an_aggregate_depends_on_its_group_and_the_group_not_on_it() -> None:
    program = "spent(?who, #sum(?amount, ?id) + 1) :- order(?id, ?who, ?amount) ."
    (other,) = set(lineage(tl.parse(DECLARED + program)).of("spent")) - {"who"}
    assert shown(program, "spent.who") == ["order.who IDENTITY"]
    assert shown(program, f"spent.{other}") == [
        "order.amount AGGREGATION",
        "order.id GROUP_BY",
        "order.who GROUP_BY",
    ]


def test_a_sum_of_what_may_be_no_number_decides_about_rows() -> None:
    program = "given(?who, #sum(?city)) :- person(?who, ?city) ."
    assert shown(program, "given.who") == ["person.city FILTER", "person.who IDENTITY"]


def test_negation_is_a_join_and_what_only_it_mentions_does_not_matter() -> None:
    program = "unknown(?id) :- order(?id, ?who, _), ~person(?who, _) ."
    assert shown(program, "unknown.id") == ["order.id IDENTITY", "order.who JOIN", "person.who JOIN"]


def test_recursion_goes_round() -> None:
    found = lineage(
        tl.parse(
            """
            hops(?x, ?y, 1) :- edge(?x, ?y) .
            hops(?x, ?z, ?n + 1) :- hops(?x, ?y, ?n), edge(?y, ?z), ?n < limit_of(?x) .
            """.replace("?n < limit_of(?x)", "limit(?n)")
        )
    ).of("hops")
    assert {origin.column.name for origin in found["x"]} == {"c1", "c2"}
    assert (PredicateColumn("limit", "c1"), How.TRANSFORMATION) in {
        (one.column, one.how) for one in found["c3"]
    }


def test_two_steps_keep_how_the_first_one_was() -> None:
    program = """
        spent(?who, #sum(?amount)) :- order(_, ?who, ?amount) .
        rich(?who, ?n) :- spent(?who, ?total), ?n = ?total * 100 .
        """
    assert shown(program, "rich.n") == [
        "order.amount AGGREGATION",
        "order.who GROUP_BY",
    ]
    assert shown("x(?n) :- rich(?n, ?n) ." + program, "x.n") == [
        "order.amount AGGREGATION",
        "order.amount FILTER",
        "order.who FILTER",
        "order.who GROUP_BY",
        "order.who IDENTITY",
    ]


def test_equality_may_change_every_column() -> None:
    program = "?x = ?y :- person(?x, ?y) .\nbuyer(?id) :- order(?id, _, _) ."
    assert shown(program, "buyer.id") == ["order.id IDENTITY", "person.city JOIN", "person.who JOIN"]


def test_all_columns_under_an_operator_of_time_matter() -> None:
    found = lineage(tl.parse("steady(?x) :- boxminus[0, 5] level(?x, _) .")).of("steady")["x"]
    assert [(origin.column.name, origin.how) for origin in found] == [
        ("c1", How.IDENTITY),
        ("c1", How.WINDOW),
        ("c2", How.WINDOW),
    ]


def test_a_table_without_a_column_that_matters_is_named() -> None:
    found = lineage(tl.parse("p(?x) :- a(?x), b(_) ."))
    assert found.tables["p"] == ("a", "b")
    assert [origin.column.predicate for origin in found.of("p")["x"]] == ["a"]


def test_a_derived_predicate_may_be_an_input_too() -> None:
    program = tl.parse("known(?x) :- person(?x, _) .")
    found = lineage(program, {"known", "person"}).of("known")["x"]
    assert [(one.column.predicate, one.how) for one in found] == [
        ("known", How.IDENTITY),
        ("person", How.IDENTITY),
    ]


def test_dependencies_go_across_what_is_not_published() -> None:
    program = tl.parse(
        "hidden(?x) :- a(?x), ~b(?x) .\nlast(?x) :- hidden(?x) .\nlast(?x) :- last(?x), a(?x) ."
    )
    assert published_dependencies(program, ("a", "b", "last")) == (
        PredicateDependency("a", "last", ""),
        PredicateDependency("b", "last", "~"),
        PredicateDependency("last", "last", ""),
    )


# ---- what lineage does not name does not matter


def values_of(case: Case) -> dict[PredicateColumn, frozenset[object]] | None:
    """The values in each column of each predicate, or None if they cannot be computed."""
    program = tl.parse(case.text)
    reasoner = tl.Reasoner(program)
    try:
        reasoner.materialise()
    except TidelogError:
        return None  # an overflow, most likely
    found: dict[PredicateColumn, frozenset[object]] = {}
    for predicate in program.predicates.values():
        rows = list(reasoner[predicate.name])
        for place, name in enumerate(predicate.names):
            found[PredicateColumn(predicate.name, name)] = frozenset(row[place] for row in rows)
    return found


def replaced(rows: Sequence[Row], place: int, values: Sequence[str]) -> tuple[Row, ...]:
    """The rows with other values in one column."""
    return tuple(
        dict.fromkeys(
            (*row[:place], value, *row[place + 1 :]) for row, value in zip(rows, values, strict=True)
        )
    )


def check_changes(case: Case, data: st.DataObject, features: Features) -> None:
    """Change an input column; whatever does not name it stays."""
    before = values_of(case)
    if before is None:
        return
    found: Lineage = lineage(tl.parse(case.text), set(case.facts))
    spared = spared_columns(case, found, before)
    event(f"there is an input column that some derived column does not depend on: {bool(spared)}")
    if not spared:
        return
    name, place = data.draw(st.sampled_from(sorted(spared)))
    size = len(case.facts[name])
    constant = st.sampled_from(features.constants)
    # One value in the whole column is what makes functions and sums have no value.
    same = constant.map(lambda value: [value] * size)
    values = data.draw(same | st.lists(constant, min_size=size, max_size=size))
    changed = replaced(case.facts[name], place, values)
    after = values_of(replace(case, facts={**case.facts, name: changed}))
    if after is not None:
        for column in spared[name, place]:
            assert after[column] == before[column], (column, name, place)


def spared_columns(
    case: Case, found: Lineage, values: dict[PredicateColumn, frozenset[object]]
) -> dict[tuple[str, int], list[PredicateColumn]]:
    """For each input column, the columns that are derived, not empty and do not depend on it, if any."""
    spared: dict[tuple[str, int], list[PredicateColumn]] = {}
    for name, rows in case.facts.items():
        for place in range(len(rows[0]) if rows else 0):
            for column, origins in found.columns.items():
                if PredicateColumn(name, f"c{place}") in {origin.column for origin in origins}:
                    continue
                is_derived = column.predicate.startswith("p")
                if is_derived and values[column] and name in found.tables[column.predicate]:
                    spared.setdefault((name, place), []).append(column)
    return spared


@st.composite
def loose_cases(draw: st.DrawFn) -> Case:
    """Programs whose atoms share few variables, so that many columns do not depend on each other."""
    arities = {"e0": 3, "e1": 2, "p0": 2, "p1": 2}
    row = st.tuples(*[st.sampled_from(EVERYTHING.constants)] * 3)
    given_rows = draw(st.lists(row, min_size=2, max_size=6, unique=True))
    others = dict.fromkeys(one[:2] for one in draw(st.lists(row, max_size=4)))
    facts = {"e0": tuple(given_rows), "e1": tuple(others)}
    second = draw(st.sampled_from(("", ", e1(?d, _)", ", e1(?a, ?d)")))
    rules = (
        f"p0({draw(_head(('?a', '?b', '?c')))}) :- e0(?a, ?b, ?c){second}{draw(_more)} .",
        f"p1({draw(_head(('?a', '?b', '?c')))}) :- p0(?a, ?b), e0(_, _, ?c){draw(_more)} .",
    )
    return Case(rules, facts, arities)


def _head(variables: Sequence[str]) -> st.SearchStrategy[str]:
    one = st.sampled_from(variables)
    function = st.sampled_from(("count", "sum", "min", "max", "avg"))
    aggregate = st.tuples(function, one).map(lambda pair: "#{}({})".format(*pair))
    computed = st.tuples(one, st.sampled_from("+-*/"), one).map(" ".join)
    return st.tuples(one, one | aggregate | computed).map(", ".join)


_more = st.sampled_from(
    ("", "", "", ", ~e1(?c, _)", ", ?b != 2", ", ?n = ?b / ?c", ", e1(?b, ?m)", ", ?b = ?c", ", e1(2, ?m)")
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=loose_cases(), data=st.data())
def test_columns_without_a_name_do_not_matter_in_loose_programs(case: Case, data: st.DataObject) -> None:
    check_changes(case, data, EVERYTHING)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=loose_cases(), data=st.data())
def test_columns_without_a_name_do_not_matter_in_many_loose_ones(case: Case, data: st.DataObject) -> None:
    check_changes(case, data, EVERYTHING)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(EVERYTHING), data=st.data())
def test_columns_without_a_name_do_not_matter(case: Case, data: st.DataObject) -> None:
    check_changes(case, data, EVERYTHING)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(EVERYTHING), data=st.data())
def test_columns_without_a_name_do_not_matter_in_many_programs(case: Case, data: st.DataObject) -> None:
    check_changes(case, data, EVERYTHING)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases(EVERYTHING), data=st.data())
def test_tables_without_a_name_do_not_matter(case: Case, data: st.DataObject) -> None:
    before = values_of(case)
    name = data.draw(st.sampled_from(sorted(case.facts)))
    after = values_of(replace(case, facts={**case.facts, name: ()}))
    if before is None or after is None:
        return
    found = lineage(tl.parse(case.text), set(case.facts))
    for column in before:
        if name not in found.tables[column.predicate]:
            assert after[column] == before[column]
