"""Strata: order, recursion, and the cycles that have none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import Features, programs

from tidelog.errors import ProgramError
from tidelog.logic.program import Aggregation, Atom, Negation, Rule, Variable
from tidelog.logic.resolve import resolve
from tidelog.logic.strata import Stratum, components, cycles, dependency_graph, strata
from tidelog.syntax.parser import parse_text


def rule(head: str, *body: str) -> Rule:
    """A rule over nullary predicates; `~q` is negated, and `#` before the head stands for an aggregate."""
    literals = tuple(Negation(Atom(name[1:], ())) if name[0] == "~" else Atom(name, ()) for name in body)
    aggregations = (Aggregation(Variable("n"), "count", ()),) if head[0] == "#" else ()
    return Rule(Atom(head.removeprefix("#"), ()), literals, aggregations=aggregations)


def messages(*rules: Rule) -> list[str]:
    return [diagnostic.message for diagnostic in cycles(rules, {})]


def test_strata_come_after_what_they_read() -> None:
    rules = (rule("c", "b", "~a"), rule("b", "a", "c2"), rule("a", "e"), rule("c2", "b"))
    assert strata(rules) == (
        Stratum(("a",), (rules[2],), recursive=False),
        Stratum(("b", "c2"), (rules[1], rules[3]), recursive=True),
        Stratum(("c",), (rules[0],), recursive=False),
    )


def test_a_predicate_that_reads_itself_is_recursive() -> None:
    assert [stratum.recursive for stratum in strata((rule("a", "a"), rule("b", "a")))] == [True, False]


def test_rules_of_a_stratum_keep_their_order() -> None:
    rules = (rule("b", "a"), rule("a", "b"), rule("b", "e"), rule("a", "e"))
    assert strata(rules)[0].rules == rules


def test_no_rules_have_no_strata() -> None:
    assert strata(()) == ()


def test_negation_of_given_facts_is_no_cycle() -> None:
    assert messages(rule("a", "~e"), rule("b", "~a")) == []


def test_a_cycle_through_negation_is_shown() -> None:
    assert messages(rule("a", "b"), rule("b", "c", "~a"), rule("c", "b")) == [
        "recursion through negation: b -> ~a -> b"
    ]


def test_a_shortest_cycle_is_shown() -> None:
    rules = (rule("a", "~b"), rule("b", "c"), rule("c", "d"), rule("d", "a"), rule("b", "d"))
    assert messages(*rules) == ["recursion through negation: a -> ~b -> d -> a"]


def test_a_cycle_through_an_aggregate_is_shown() -> None:
    assert messages(rule("#a", "b"), rule("b", "a")) == ["recursion through aggregation: a -> #b -> a"]


def test_all_cycles_are_shown_at_once() -> None:
    found = messages(rule("a", "~a"), rule("b", "~c"), rule("c", "~b"))
    assert found == [
        "recursion through negation: a -> ~a",
        "recursion through negation: b -> ~c -> ~b",
        "recursion through negation: c -> ~b -> ~c",
    ]


def test_strata_raises_what_cycles_finds() -> None:
    with pytest.raises(ProgramError, match="E310"):
        strata((rule("a", "~a"),))


def test_chains_of_any_length_need_no_recursion() -> None:
    rules = tuple(rule(f"p{number}", f"p{number + 1}") for number in range(20_000))
    found = strata(rules)
    assert len(found) == 20_000
    assert found[0].predicates == ("p19999",)


graphs = st.integers(1, 8).flatmap(
    lambda size: st.fixed_dictionaries(
        {str(node): st.lists(st.sampled_from([str(other) for other in range(size)])) for node in range(size)}
    )
)


@given(graphs)
def test_components_are_what_reaches_each_other_in_order(graph: dict[str, list[str]]) -> None:
    reach = {node: reached_from(node, graph) for node in graph}
    found = components(graph)
    assert sorted(node for component in found for node in component) == sorted(graph)
    place = {node: number for number, component in enumerate(found) for node in component}
    for node in graph:
        for other in graph:
            mutual = other in reach[node] and node in reach[other]
            assert mutual == (place[node] == place[other])
            assert other not in reach[node] or place[other] <= place[node]


def reached_from(node: str, graph: dict[str, list[str]]) -> set[str]:
    reached, waiting = {node}, [node]
    while waiting:
        new = set(graph[waiting.pop()]) - reached
        reached |= new
        waiting.extend(new)
    return reached


@settings(deadline=None)
@given(programs(Features(aggregates=True)))
def test_random_programs_read_only_what_is_complete(text: str) -> None:
    rules = resolve(parse_text(text)).rules
    complete: set[str] = set(dependency_graph(rules))
    pending = strata(rules)
    for stratum in pending:
        for each in stratum.rules:
            strict = {atom.predicate for atom in each.negated}
            strict |= {atom.predicate for atom in each.positive} if each.aggregations else set()
            assert strict.isdisjoint(complete)
        complete -= set(stratum.predicates)
    assert not complete
