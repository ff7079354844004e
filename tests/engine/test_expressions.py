"""Expressions that kernels compute have the values of their definition, or are left to it."""

from __future__ import annotations

from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.engine import make
from tidelog.engine.columnar.interpreter.assemble import CHAINS, OF_ONE, OF_THREE, OF_TWO
from tidelog.engine.columnar.interpreter.column_functions import PythonFunction
from tidelog.engine.columnar.interpreter.plan_runner import Workspace
from tidelog.logic.functions.builtins import FUNCTIONS, Overflow, evaluate, holds
from tidelog.logic.program import (
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Rule,
    Variable,
)
from tidelog.logic.values import (
    Value,
    blank,
    boolean,
    date,
    date_time,
    decimal,
    double,
    integer,
    iri,
    language_string,
    literal,
    string,
)

ROW, X, Y, Z, RESULT = map(Variable, ("row", "x", "y", "z", "result"))
ATOM = Atom("v", (ROW, X, Y, Z))
LEFT_TO_DEFINITION = iri("left-to-the-definition")
Row = tuple[Value, Value, Value]

EDGES = (-(2**63), -(2**63) + 1, -(10**18), -1, 0, 1, 10**18, 2**53 + 1, 2**62, 2**63 - 1)
integers = st.one_of(st.integers(-20, 20), st.sampled_from(EDGES), st.integers(-(2**63), 2**63 - 1))
scales = st.integers(0, 25)
decimals = st.one_of(
    st.builds(lambda number, scale: decimal(Decimal(number).scaleb(-scale)), integers, scales),
    st.sampled_from([decimal(Decimal(text)) for text in ("0.5", "2.5", "-2.5", "1.005", "2", "0")]),
)
floats = st.one_of(
    st.floats(allow_nan=False),
    st.integers(-50, 50).map(lambda number: number / 4),
    st.sampled_from([0.1, 0.49999999999999994, 2.0**53, 2.0**63, -(2.0**63), 1e308, float("inf")]),
)
doubles = floats.map(double).map(lambda value: value or integer(0))
days = st.one_of(st.integers(-800_000, 800_000), integers)
moments = st.builds(
    date_time,
    st.one_of(st.integers(-(10**16), 10**16), integers),
    st.one_of(st.none(), st.integers(-840, 840)),
)
texts = st.one_of(st.sampled_from(["", "a", "ab", "ä", "12", " 1.5 ", "true"]), st.text("aä1", max_size=3))
values = st.one_of(
    integers.map(integer),
    decimals,
    doubles,
    st.integers(2**63, 2**70).map(integer),
    st.booleans().map(boolean),
    days.map(date),
    moments,
    texts.map(string),
    texts.map(lambda text: language_string(text, "en")),
    st.sampled_from([literal("a", "http://e/t"), iri("a"), iri("b"), blank("a"), LEFT_TO_DEFINITION]),
)
numbers = st.one_of(integers.map(integer), decimals, doubles)


@st.composite
def applications(draw: st.DrawFn, deep: int = 2) -> Apply:
    """A function that kernels compute, of variables, constants, and such functions."""
    names = [*OF_ONE, *OF_TWO, *OF_THREE, *CHAINS, "ISNUMERIC", "ISLITERAL", "ISIRI"]
    name = draw(st.sampled_from(names))
    count = 1 if name in OF_ONE or FUNCTIONS[name].kinds else 2 if name in OF_TWO else 3
    if name in CHAINS:
        count = draw(st.integers(2, 4))
    leaves = st.one_of(st.sampled_from([X, Y, Z]), values.map(Constant))
    arguments = st.one_of(leaves, leaves, applications(deep - 1)) if deep else leaves
    return Apply(name, tuple(draw(arguments) for _ in range(count)))


def computed(expression: Expression | Comparison | Condition, rows: list[Row]) -> dict[int, Value]:
    """What kernels compute in each row that has a value, `LEFT_TO_DEFINITION` where they leave it.

    A test has the value true where it holds.
    """
    engine = make(1)
    dictionary = engine.storage.dictionary
    engine.storage.define("v", 4)
    columns = [[integer(number) for number in range(len(rows))], *map(list, zip(*rows, strict=True))]
    engine.storage.add("v", [dictionary.encode_values(column) for column in columns], len(rows))
    engine.rounds.begin(["v"])
    sentinel = dictionary.encode(LEFT_TO_DEFINITION)
    if isinstance(expression, Comparison | Condition):
        rule = Rule(Atom("answer", (ROW, Constant(boolean(True)))), (ATOM, expression))
    else:
        rule = Rule(Atom("answer", (ROW, RESULT)), (ATOM, Assignment(RESULT, expression)))
    left: list[int] = []

    def leave(_: PythonFunction, workspace: Workspace, level: int, rows: int, width: int) -> None:
        asking = np.flatnonzero(workspace.result[:rows] == layout.ASK_PYTHON)
        workspace.result[asking] = sentinel
        left.append(len(asking))

    with patch.object(PythonFunction, "fill", leave):
        (positions, results), _ = engine.plans.answer(rule)
    if left and isinstance(expression, Comparison | Condition):
        if len(rows) == 1:
            return {0: LEFT_TO_DEFINITION}
        return {
            number: value for number, row in enumerate(rows) for value in computed(expression, [row]).values()
        }
    numbers = [int(value.content) for value in dictionary.decode_all(positions.tolist())]
    return dict(zip(numbers, dictionary.decode_all(results.tolist()), strict=True))


def check(expression: Expression | Comparison | Condition, rows: list[Row]) -> None:
    found = computed(expression, rows)
    for number, row in enumerate(rows):
        binding = dict(zip((X, Y, Z), row, strict=True))
        result = found.get(number)
        if result == LEFT_TO_DEFINITION:
            continue
        try:
            if isinstance(expression, Comparison | Condition):
                expected = boolean(True) if holds(expression, binding) else None
            else:
                expected = evaluate(expression, binding)
        except Overflow:
            raise AssertionError(f"{expression} of {row} is {result}, and must be an error") from None
        assert result == expected, (expression, row)


rows = st.lists(st.tuples(values, values, values), min_size=1, max_size=12)
rows_of_numbers = st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=12)


@given(applications(), rows)
def test_expressions_have_the_values_of_their_definition(expression: Apply, rows: list[Row]) -> None:
    check(expression, rows)


@given(st.sampled_from([*OF_TWO, "MIN", "MAX"]), rows_of_numbers)
def test_operations_on_numbers(name: str, rows: list[Row]) -> None:
    check(Apply(name, (X, Y)), rows)


@given(st.sampled_from([*OF_ONE]), rows_of_numbers)
def test_functions_of_one_number(name: str, rows: list[Row]) -> None:
    check(Apply(name, (X,)), rows)


@given(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), applications(1), applications(1), rows)
def test_comparisons_as_literals(operator: str, left: Apply, right: Apply, rows: list[Row]) -> None:
    check(Comparison(operator, left, right), rows)


@given(applications(1), st.booleans(), rows)
def test_conditions_as_literals(expression: Apply, negated: bool, rows: list[Row]) -> None:
    check(Condition(expression, negated), rows)


def test_the_least_date_is_no_date_time() -> None:
    least = date(-(2**63))
    check(Apply("DATETIME", (X,)), [(least, least, least)])


D = decimal
USUAL = {
    "prices": (integer(3), D(Decimal("19.99")), D(Decimal("0.5"))),
    "doubles": (double(1.5), double(0.1), double(2.0)),
    "mixed": (integer(3), double(0.1), D(Decimal("19.99"))),
}


@pytest.mark.parametrize("name", ["+", "-", "*", "/", "REM", "<", ">=", "=", "!=", "MIN", "MAX"])
@pytest.mark.parametrize("row", USUAL.values(), ids=USUAL)
def test_usual_numbers_are_not_left_to_the_definition(name: str, row: Row) -> None:
    for pair in ((X, Y), (Y, X), (X, Z), (Y, Z)):
        assert computed(Apply(name, pair), [row]) == {
            0: evaluate(Apply(name, pair), dict(zip((X, Y, Z), row, strict=True)))
        }


@pytest.mark.parametrize("name", ["YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS", "DATE"])
def test_parts_of_times_are_not_left_to_the_definition(name: str) -> None:
    moment = date_time(1_700_000_000_123_000, 120)
    found = computed(Apply(name, (X,)), [(moment, moment, moment)])
    assert found == {0: evaluate(Apply(name, (X,)), {X: moment})}
