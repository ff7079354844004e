"""Rows that rules drop because a function has no value: their counts are those of naive evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import tidelog as tl
from tidelog.engine import reference
from tidelog.engine.events import Event, MissingValues, ValuesMissing
from tidelog.engine.missing_values import describe_missing
from tidelog.logic.functions.builtins import lookup
from tidelog.logic.program import (
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Literal,
    Negation,
    Program,
    Rule,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.values import FALSE, TRUE, Value
from tidelog.plan.rule_text import Writing

Counts = dict[tuple[int, str], int]  # by the number of the rule, and the function
Binding = dict[Variable, Value]

# ---- what naive evaluation says


def value_or_failure(expression: Expression, binding: Binding) -> tuple[Value | None, str]:
    """The value of an expression; if it has none, the function at fault."""
    if isinstance(expression, Constant):
        return expression.value, ""
    if isinstance(expression, Variable):
        return binding[expression], ""
    function = lookup(expression.function)
    assert function is not None
    found = [value_or_failure(each, binding) for each in expression.arguments]
    failed = next((name for value, name in found if value is None), None)
    if failed is not None and not function.lazy:
        return None, failed
    value = function.call([each for each, _ in found])
    return value, "" if value is not None else expression.function


def failure_of(body: Iterable[Literal], binding: Binding) -> str | None:
    """The function for which a row of a body is dropped, None if it is not, or by a test."""
    failure: str | None = None
    known = dict(binding)
    for literal in body:
        expression: Expression
        match literal:
            case Assignment(_, expression):
                wanted = None
            case Comparison(operator, left, right):
                expression, wanted = Apply(operator, (left, right)), TRUE
            case Condition(expression, negated):
                wanted = FALSE if negated else TRUE
            case _:
                continue
        if any(variable not in known for variable in variables_of(expression)):
            continue
        value, function = value_or_failure(expression, known)
        if value is None:
            failure = failure or function
        elif isinstance(literal, Assignment):
            known[literal.variable] = value
        elif value != wanted:
            return None
    return failure


def rows_dropped(rule: Rule, store: reference.Facts) -> dict[tuple[Any, ...], str]:
    """The rows of a rule's body that a function drops, each with the function."""
    computed = {literal.variable for literal in rule.body if isinstance(literal, Assignment)}
    matching = [
        literal
        for literal in rule.body
        if isinstance(literal, Atom)
        or (isinstance(literal, Negation) and computed.isdisjoint(literal_variables(literal)))
    ]
    matching.sort(key=lambda literal: isinstance(literal, Negation))
    bindings = reference._matches(matching, {}, store)
    failures = ((each, failure_of(rule.body, each)) for each in bindings)
    return {
        tuple(sorted((variable.name, value) for variable, value in each.items())): failure
        for each, failure in failures
        if failure is not None
    }


Dropped = dict[int, dict[tuple[Any, ...], str]]


def all_dropped(program: Program) -> Dropped:
    """The rows that each rule of a program drops."""
    store = {name: set(rows) for name, rows in reference.evaluate(program).items()}
    return {number: rows_dropped(rule, store) for number, rule in enumerate(program.rules)}


def counts_of(dropped: Dropped, before: Dropped | None = None) -> Counts:
    """The number of rows by rule and function, without those that were dropped before."""
    counts: Counts = {}
    for number, rows in dropped.items():
        for row, function in rows.items():
            if before is None or row not in before[number]:
                counts[number, function] = counts.get((number, function), 0) + 1
    return counts


# ---- programs

CONSTANTS = ("1", "2", "0", "-3", "2.5", "1E0", '"7"', '"x"', "true", "a", "2024-01-31")
VARIABLES = ("?i", "?j", "?k", "?s")


@st.composite
def expressions(draw: DrawFn, variables: tuple[str, ...], depth: int = 2) -> str:
    """An expression over variables; some of its values are missing."""
    if not depth or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from((*variables, *variables, "1", "0", '"7"')))
    inner = expressions(variables, depth - 1)
    form = draw(
        st.sampled_from(
            [
                "({} / {})",
                "({} - {})",
                "INT({})",
                "DOUBLE({})",
                "STRLEN({})",
                "LOG({}, 2)",
                "MONTH({})",
                "UCASE({})",
                "COALESCE({}, {})",
                "IF(EQUALITY({}, 1), {}, {})",
                "CONCAT({}, {})",
            ]
        )
    )
    return form.format(*[draw(inner) for _ in range(form.count("{}"))])


@st.composite
def literals(draw: DrawFn, variables: tuple[str, ...]) -> list[str]:
    """Tests and assignments over the variables that atoms bind, some of them over each other."""
    known, found = variables, []
    for number in range(draw(st.integers(1, 3))):
        left = draw(expressions(known))
        match draw(st.integers(0, 3)):
            case 0:
                found.append(f"?v{number} = {left} + 0" if left.startswith("?") else f"?v{number} = {left}")
                known = (*known, f"?v{number}")
            case 1:
                found.append(f"{left} < {draw(expressions(known))}")
            case 2:
                found.append(f"{left} != {draw(expressions(known))}")
            case _:
                found.append(f"~CONTAINS(STR({left}), {draw(expressions(known))})")
    return found


@st.composite
def rules(draw: DrawFn) -> str:
    """A rule over given and derived predicates, with computations."""
    head, atoms, variables = draw(
        st.sampled_from(
            [
                ("p(?i)", ["t(?i, ?s)"], ("?i", "?s")),
                ("p(?s)", ["t(?i, ?s)", "u(?i)"], ("?i", "?s")),
                ("q(?i, ?j)", ["t(?i, ?s)", "t(?j, ?s)"], ("?i", "?j", "?s")),
                ("q(?i, ?i)", ["t(?i, _)", "~u(?i)"], ("?i",)),
                ("r(?i, ?k)", ["r(?i, ?j)", "t(?j, ?k)"], ("?i", "?j", "?k")),
                ("r(?i, ?k)", ["r(?i, ?j)", "r(?j, ?k)"], ("?i", "?j", "?k")),
                ("z(?i)", ["q(?i, ?j)", "p(?j)", "~r(?i, _)"], ("?i", "?j")),
            ]
        )
    )
    return f"{head} :- {', '.join([*atoms, *draw(literals(variables))])} ."


values = st.sampled_from(CONSTANTS)
pairs = st.tuples(values, values).map(lambda pair: f"t({pair[0]}, {pair[1]})")
singles = values.map(lambda value: f"u({value})")
facts = st.lists(st.one_of(pairs, pairs, singles), max_size=8, unique=True)


@st.composite
def programs(draw: DrawFn) -> str:
    """Rules that compute, and declarations, without facts."""
    drawn = draw(st.lists(rules(), min_size=1, max_size=3, unique=True))
    return "\n".join(["r(?i, ?j) :- t(?i, ?j) .", "p(?i) :- u(?i), u(?i) .", "q(?i, ?i) :- u(?i) .", *drawn])


def parsed(text: str) -> Program:
    """A program whose warnings do not matter."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tl.parse(text)


class Heard:
    """A listener that keeps what is said of missing values."""

    def __init__(self) -> None:
        self.missing: list[MissingValues] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, ValuesMissing):
            self.missing += event.missing

    def counts(self, program: Program) -> Counts:
        """The counts that were heard since the last time."""
        numbers = {rule: number for number, rule in enumerate(program.rules)}
        places = {(each.place, each.function) for each in self.missing}
        assert len(places) == len(self.missing)
        found: Counts = {}
        for each in self.missing:
            key = numbers[each.rule], each.function
            found[key] = found.get(key, 0) + each.rows
        self.missing = []
        return found


def written(stated: Iterable[str]) -> Iterator[str]:
    return (f"{fact} ." for fact in stated)


@given(text=programs(), stated=facts, threads=st.sampled_from([1, 2]))
def test_the_counts_are_those_of_naive_evaluation(text: str, stated: list[str], threads: int) -> None:
    program = parsed("\n".join([text, *written(stated)]))
    heard = Heard()
    reasoner = tl.Reasoner(program, listeners=[heard], threads=threads)
    reasoner.materialise()
    missing = reasoner.statistics.missing
    assert tuple(heard.missing) == missing
    assert heard.counts(program) == counts_of(all_dropped(program))
    for each in missing:  # the first row is one of those that are counted
        assert describe_missing([each], Writing.of(program))[0].span is not None


MAINTAINERS = ["auto", "recompute", "dred", "counting", "backward-forward", "rank-counting", "fp-update"]


@given(
    text=programs(),
    stated=facts,
    changes=st.lists(facts, min_size=1, max_size=3),
    maintainer=st.sampled_from(MAINTAINERS),
)
def test_a_change_reports_the_rows_that_it_brings(
    text: str, stated: list[str], changes: list[list[str]], maintainer: str
) -> None:
    held = set(stated)
    program = parsed("\n".join([text, *written(sorted(held))]))
    heard = Heard()
    reasoner = tl.Reasoner(program, listeners=[heard], threads=1, maintainer=maintainer)
    reasoner.materialise()
    heard.missing = []
    before = all_dropped(program)
    for change in changes:
        script = "\n".join(f"{'-' if fact in held else '+'} {fact} ." for fact in change)
        held ^= set(change)
        delta = reasoner.apply(script)
        after = all_dropped(parsed("\n".join([text, *written(sorted(held))])))
        expected = counts_of(after, before)
        assert len(delta.notices) == len(describe_missing(heard.missing, Writing()))
        assert heard.counts(program) == expected
        before = after


@pytest.mark.parametrize("maintainer", MAINTAINERS)
def test_a_group_that_a_change_leaves_without_a_value_is_reported(maintainer: str) -> None:
    """When its rows are folded, at first, and when they are exchanged, from then on."""
    text = "@declare m(x: any, v: any) . m(1, 2) . total(?x, #sum(?v)) :- m(?x, ?v) ."
    reasoner = tl.Reasoner(tl.parse(text), maintainer=maintainer)
    reasoner.materialise()
    reported = ["`#sum` has no value for 1 group, which derives nothing: ?x = 2"]
    for script, expected in (
        ('+ m(2, "y") .', reported),
        ('+ m(2, "z") .', reported),
        ("+ m(2, 5) .", []),
        ("- m(2, 5) .", reported),
        ('- m(2, "y") . - m(2, "z") .', []),
    ):
        assert [notice.message for notice in reasoner.apply(script).notices] == expected
