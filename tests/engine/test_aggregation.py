"""Aggregates by kernels against their definition: values of all kinds, groups of all sizes, duplicates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.test_kernels import load_values
from tests.logic.conftest import all_values

import tidelog as tl
from tidelog.data.dictionary import Dictionary
from tidelog.engine import reference
from tidelog.engine.columnar.interpreter import aggregation as module
from tidelog.engine.columnar.interpreter.aggregation import aggregate, distinct_rows, number_groups
from tidelog.logic.conversions import exact
from tidelog.logic.functions.builtins import AGGREGATES, Overflow
from tidelog.logic.program import Aggregation, Constant, Variable
from tidelog.logic.values import Kind, Value, date_time, integer, order_key

Ids = npt.NDArray[np.int32]
Row = tuple[Value, ...]
Outcomes = dict[Row, "Value | None"]

KEYS = (Variable("g"), Variable("h"), Variable("i"))
ARGUMENTS = (Variable("x"), Variable("y"))
OUT = Variable("out")

EDGES = [0, 1, -1, 3, 10, 2**53, 2**53 + 1, 2**62, 10**18, 2**63 - 1, -(2**63), -(2**63) + 1]
REALS = [0.0, 0.1, 0.5, 1.0, -1.0, 1e308, -1e308, 1e-300, 5e-324, -5e-324, 2.0**53, 2.0**63, 1e22, 1.5e19]


def integers() -> st.SearchStrategy[Value]:
    return (st.sampled_from(EDGES) | st.integers(-100, 100) | st.integers(-(2**63), 2**63 - 1)).map(integer)


def decimals(most: int = 18) -> st.SearchStrategy[Value]:
    """Decimals of 64 bits, with up to `most` digits behind the point."""
    mantissas = st.sampled_from(EDGES) | st.integers(-1000, 1000) | st.integers(-(2**63), 2**63 - 1)
    return st.builds(decimal_of, mantissas, st.integers(0, most))


def decimal_of(mantissa: int, scale: int) -> Value:
    while scale and mantissa % 10 == 0:
        mantissa, scale = mantissa // 10, scale - 1
    return Value(Kind.DECIMAL, mantissa, scale)


def doubles() -> st.SearchStrategy[Value]:
    """Finite doubles."""
    reals = st.sampled_from(REALS) | st.floats(allow_nan=False, allow_infinity=False) | st.floats(-100, 100)
    return reals.map(lambda real: Value(Kind.DOUBLE, real + 0.0))


def infinities() -> st.SearchStrategy[Value]:
    return st.sampled_from([math.inf, -math.inf]).map(lambda real: Value(Kind.DOUBLE, real))


def equal_numbers() -> st.SearchStrategy[Value]:
    """Numbers of different kinds that are equal, or nearly so."""
    tenths = st.integers(-30, 30)
    return st.one_of(
        tenths.map(lambda number: decimal_of(number, 1)),
        tenths.map(lambda number: Value(Kind.DOUBLE, number / 10 + 0.0)),
        tenths.map(lambda number: Value(Kind.DOUBLE, math.nextafter(number / 10, math.inf) + 0.0)),
        st.integers(-3, 3).map(integer),
        st.builds(
            lambda number, scale: decimal_of(number * 10**scale + 1, scale), tenths, st.integers(1, 16)
        ),
    )


def moments() -> st.SearchStrategy[Value]:
    return st.builds(date_time, st.integers(0, 2), st.sampled_from([None, -840, 0, 60]))


FAMILIES = [
    integers(),
    decimals(),
    decimals(2),
    doubles(),
    integers() | decimals(),
    integers() | doubles(),
    doubles() | decimals(),
    doubles() | infinities(),
    equal_numbers(),
    moments(),
    all_values(),
    all_values() | integers() | decimals() | doubles(),
    decimals(30) | decimals(400),
]


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Rows of three keys and two arguments; each group draws its first argument from one family."""
    rows: list[Row] = []
    for number in range(draw(st.integers(0, 4))):
        family = draw(st.sampled_from(FAMILIES))
        key = (integer(number % 2), integer(number), integer(-number))
        few = draw(st.lists(family, min_size=1, max_size=3))
        members = st.lists(
            st.tuples(family | st.sampled_from(few), st.integers(0, 2).map(integer)), max_size=9
        )
        rows += [(*key, *member) for member in draw(members)]
    return list(dict.fromkeys(rows))


def columns_of(dictionary: Dictionary, rows: Sequence[Row]) -> dict[Variable, Ids]:
    return {
        variable: dictionary.encode_values([row[place] for row in rows])
        for place, variable in enumerate((*KEYS, *ARGUMENTS))
    }


def by_definition(rows: Sequence[Row], keys: int, function: str, arguments: int) -> Outcomes | list[Overflow]:
    """The results by group, or all overflows that there are."""
    groups: dict[Row, dict[Row, None]] = {}
    for row in rows:
        groups.setdefault(row[:keys], {})[row[3 : 3 + arguments]] = None
    results: Outcomes = {}
    overflows = []
    for key, members in groups.items():
        try:
            results[key] = AGGREGATES[function](list(members))
        except Overflow as overflow:
            overflows.append(overflow)
    return overflows or results


def by_kernels(rows: Sequence[Row], keys: int, function: str, arguments: int) -> Outcomes:
    dictionary = Dictionary()
    aggregation = Aggregation(OUT, function, ARGUMENTS[:arguments])
    columns = columns_of(dictionary, rows)
    result = aggregate(columns, len(rows), KEYS[:keys], [aggregation], dictionary)
    found = {
        place: None if identity < 0 else dictionary.decode(identity)
        for place, identity in enumerate(result[OUT].tolist())
    }
    names = [dictionary.decode_all(result[variable].tolist()) for variable in KEYS[:keys]]
    outcomes = dict(zip(zip(*names, strict=True) if keys else [()] * len(found), found.values(), strict=True))
    assert len(outcomes) == len(found)
    return outcomes


@given(tables(), st.sampled_from(sorted(AGGREGATES)), st.integers(0, 3), st.integers(1, 2))
def test_aggregates_are_those_of_each_group(
    rows: list[Row], function: str, keys: int, arguments: int
) -> None:
    expected = by_definition(rows, keys, function, arguments)
    if isinstance(expected, dict):
        assert by_kernels(rows, keys, function, arguments) == expected
        return
    with pytest.raises(Overflow) as raised:
        by_kernels(rows, keys, function, arguments)
    overflows = [(each.operation, sorted(each.operands, key=order_key)) for each in expected]
    assert (raised.value.operation, sorted(raised.value.operands, key=order_key)) in overflows


# ---- kernels fold by themselves what they can


def only_by_kernels(function: str, values: Iterable[Value]) -> Value | None:
    """The aggregate of distinct values, with no definition to ask."""
    rows = [(integer(0),) * 3 + (value, integer(0)) for value in dict.fromkeys(values)]
    with patch.object(module, "AGGREGATES", {}):
        return by_kernels(rows, 0, function, 1)[()]


@given(st.lists(integers() | decimals(), min_size=1, max_size=9), st.sampled_from(["sum", "avg"]))
def test_exact_sums_that_fit_are_not_asked_of_the_definition(drawn: list[Value], function: str) -> None:
    small = [
        each._replace(content=int(each.content) // 100)
        for each in drawn
        if int(each.extra or 0) <= 9 and int(each.content) // 100 % 10
    ]
    if small:
        try:
            expected = AGGREGATES[function]([(value,) for value in dict.fromkeys(small)])
        except Overflow:
            return
        scale = max(int(each.extra or 0) for each in small)
        whole = sum(int(each.content) * 10 ** (scale - int(each.extra or 0)) for each in dict.fromkeys(small))
        if abs(whole) < 2**63:
            assert only_by_kernels(function, small) == expected


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
@example([1e308, 1e308, -1e308])
@example([1e308, 1e308])
@example([5e-324, 1e308, -1e308])
@example([2.0**53, 1.0])
@example([2.0**53, 1.0, 5e-324])
@example([2.2250738585072014e-308, -5e-324])
def test_sums_and_means_of_doubles_are_rounded_once(reals: list[float]) -> None:
    drawn = dict.fromkeys(real + 0.0 for real in reals)
    values = [Value(Kind.DOUBLE, real) for real in drawn]
    for function, divisor in (("sum", 1), ("avg", len(drawn))):
        try:
            expected: Value | None = Value(Kind.DOUBLE, float(sum(map(Fraction, drawn)) / divisor) + 0.0)
        except OverflowError:
            expected = None
        assert only_by_kernels(function, values) == expected


@given(st.lists(integers() | doubles(), min_size=1, max_size=9), st.sampled_from(["sum", "avg"]))
def test_integers_among_doubles_are_added_exactly(drawn: list[Value], function: str) -> None:
    drawn.append(Value(Kind.DOUBLE, 0.25))
    expected = AGGREGATES[function]([(value,) for value in dict.fromkeys(drawn)])
    assert only_by_kernels(function, drawn) == expected


COMPARABLE = st.one_of(
    integers(),
    decimals(),
    doubles(),
    infinities(),
    moments(),
    all_values().filter(lambda value: value.kind not in (Kind.BIG, Kind.DECIMAL)),
)


@given(st.lists(COMPARABLE, min_size=1, max_size=2), st.sampled_from(["min", "max"]))
def test_values_of_all_kinds_are_compared(drawn: list[Value], function: str) -> None:
    kinds = {value.kind for value in drawn}
    if kinds != {Kind.DECIMAL, Kind.DOUBLE}:  # of which some are too close
        assert only_by_kernels(function, drawn) == AGGREGATES[function]([(value,) for value in drawn])


@given(st.lists(equal_numbers(), min_size=1, max_size=6), st.sampled_from(["min", "max"]))
def test_numbers_that_are_nearly_equal_are_compared_exactly(drawn: list[Value], function: str) -> None:
    assert only_by_kernels(function, drawn) == AGGREGATES[function]([(value,) for value in drawn])


@pytest.mark.parametrize(
    ("total", "count"),
    [(1, 3), (2, 3), (-2, 3), (10**18 + 1, 7), (2**63 - 1, 2), (-(2**63), 7), (1, 2**12), (5, 8)],
)
def test_means_have_an_end_or_eighteen_digits(total: int, count: int) -> None:
    """The mean of one number and of as many that add up to nothing."""
    others = [integer(sign * number) for number in range(1, count // 2 + 1) for sign in (1, -1)]
    values = [integer(total), *(each for each in others if each != integer(total))]
    values = values[:count] if abs(total) > count else [integer(number) for number in range(count)]
    expected = AGGREGATES["avg"]([(value,) for value in values])
    assert only_by_kernels("avg", values) == expected


# ---- groups


@given(
    st.integers(0, 4),
    st.integers(0, 300),
    st.sampled_from([1, 5, 300, 2**31 - 1]),
    st.randoms(use_true_random=False),
)
def test_rows_are_numbered_in_the_order_of_their_groups(
    arity: int, rows: int, most: int, random: object
) -> None:
    generator = np.random.default_rng(random.getrandbits(32))  # type: ignore[attr-defined]
    pool = generator.integers(0, most, 40)
    columns = [generator.choice(pool, rows).astype(np.int32) for _ in range(arity)]
    assert_numbered(columns, rows)


@pytest.mark.parametrize("most", [200, 2**31 - 1])
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_many_groups_are_numbered(arity: int, most: int) -> None:
    """More than the first table of slots has room for."""
    generator = np.random.default_rng(arity)
    columns = [generator.integers(0, most, 70_000).astype(np.int32) for _ in range(arity)]
    assert_numbered(columns, 70_000)


def assert_numbered(columns: list[Ids], rows: int) -> None:
    keys = list(zip(*(column.tolist() for column in columns), strict=True)) or [()] * rows
    numbers: dict[tuple[int, ...], int] = {}
    for key in keys:
        numbers.setdefault(key, len(numbers))
    groups = number_groups(columns, rows)
    assert groups.numbers.tolist() == [numbers[key] for key in keys]
    assert [keys[first] for first in groups.firsts.tolist()] == list(numbers)
    assert distinct_rows(columns, rows).tolist() == groups.firsts.tolist()


def test_many_rows_in_many_groups() -> None:
    generator = np.random.default_rng(1)
    drawn = zip(generator.integers(0, 3000, 20_000).tolist(), generator.normal(size=20_000), strict=True)
    rows = [
        (integer(key), integer(key % 7), integer(0), Value(Kind.DOUBLE, float(real)), integer(0))
        for key, real in drawn
    ]
    groups: dict[Row, list[float]] = {}
    for row in rows:
        groups.setdefault(row[:2], []).append(float(row[3].content))
    sums = {key: Value(Kind.DOUBLE, math.fsum(reals)) for key, reals in groups.items()}
    assert by_kernels(rows, 2, "sum", 1) == sums
    greatest = {key: Value(Kind.DOUBLE, max(reals)) for key, reals in groups.items()}
    assert by_kernels(rows, 2, "max", 1) == greatest


def test_rows_that_differ_elsewhere_count_once() -> None:
    dictionary = Dictionary()
    values = [integer(each) for each in (0, 0, 0, 1)], [integer(each) for each in (5, 5, 7, 5)]
    columns = {
        KEYS[0]: dictionary.encode_values(values[0]),
        ARGUMENTS[0]: dictionary.encode_values(values[1]),
        ARGUMENTS[1]: dictionary.encode_values([integer(each) for each in range(4)]),
    }
    aggregations = [
        Aggregation(Variable("sum"), "sum", ARGUMENTS[:1]),
        Aggregation(Variable("rows"), "count", ARGUMENTS),
        Aggregation(Variable("one"), "count", (Constant(integer(1)),)),
    ]
    result = aggregate(columns, 4, KEYS[:1], aggregations, dictionary)
    decoded = [dictionary.decode_all(column.tolist()) for column in result.values()]
    assert [[value.content for value in column] for column in decoded] == [[0, 1], [12, 5], [3, 1], [1, 1]]


# ---- in programs


FUNCTIONS = ["#sum(?x, ?y)", "#count(?x)", "#min(?x)", "#max(?x)", "#avg(?x, ?y)", "#sum(?x)"]
AFTER = ["?r", "?r / 2", "INT(ROUND(?r))", "?r + ?g", "STR(?r)", "1"]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2).map(integer),
            st.one_of(integers(), decimals(4), doubles(), all_values()),
            st.integers(0, 1).map(integer),
        ),
        max_size=8,
    ),
    st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=2),
    st.sampled_from(AFTER),
    st.booleans(),
)
def test_programs_compute_what_the_reference_does(
    rows: list[Row], functions: list[str], after: str, is_grouped: bool
) -> None:
    group = "?g, " if is_grouped else ""
    after = after if is_grouped else after.replace("?g", "1")
    terms = ", ".join(functions)
    computed = after.replace("?r", functions[0])
    rule = f"r({group}{terms}) :- v(?g, ?x, ?y) . s({group}{computed}) :- v(?g, ?x, ?y) ."
    program = tl.parse(f"@declare v(a: any, b: any, c: any) . {rule}")
    try:
        derived = reference.evaluate(program, {"v": rows})
        expected: object = [{tuple(map(exact, row)) for row in derived[name]} for name in "rs"]
    except tl.EvaluationError as error:
        expected = error.diagnostics[0].code
    try:
        reasoner = load_values(rows, rule, arity=3)
        found: object = [set(reasoner[name].to_texts("exact").rows()) for name in "rs"]
    except tl.EvaluationError as error:
        found = error.diagnostics[0].code
    assert found == expected


CHANGING = """
    @declare v(g: any, x: any, y: any) .
    r(?g, #sum(?x, ?y), #avg(?x, ?y), #max(?x), #count(?x)) :- v(?g, ?x, ?y) .
    s(?g, INT(ROUND(#avg(?x, ?y)))) :- v(?g, ?x, ?y) .
    t(#min(?x)) :- v(_, ?x, _) .
"""


NUMBERS = [0, 3, -50, Decimal("0.1"), Decimal("-7.25"), Decimal(3), 0.1, 0.2, 3.0, 1e300, -1e300]
ROWS = st.tuples(st.integers(0, 1), st.sampled_from(NUMBERS), st.integers(0, 1))


@given(st.lists(st.lists(st.tuples(st.booleans(), ROWS), max_size=8), max_size=6))
def test_maintained_aggregates_are_those_from_scratch(
    transactions: list[list[tuple[bool, tuple[int, object, int]]]],
) -> None:
    program = tl.parse(CHANGING)
    reasoner = tl.Reasoner(program)
    reasoner.materialise()
    for statements in transactions:
        with reasoner.change(missing="ignore") as change:
            for is_added, row in statements:
                (change.insert if is_added else change.delete)("v", [row])
        fresh = tl.Reasoner(program)
        fresh.insert("v", list(reasoner["v"]))
        for name in "rst":
            assert set(reasoner[name].to_texts("exact").rows()) == set(fresh[name].to_texts("exact").rows())
