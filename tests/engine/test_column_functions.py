"""Expressions over columns against the definition, for values of all kinds and every function."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.logic.conftest import all_values

import tidelog as tl
from tidelog.data import rows as rows_module
from tidelog.data.arrow import text_array
from tidelog.data.dictionary import Dictionary
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter import column_functions
from tidelog.engine.columnar.interpreter.assemble import PythonStep
from tidelog.engine.columnar.interpreter.column_functions import IMPLEMENTATIONS, PythonFunction
from tidelog.engine.interrupts import ActiveLimits
from tidelog.logic import values
from tidelog.logic.functions.builtins import FUNCTIONS, Overflow, evaluate, holds
from tidelog.logic.program import Apply, Comparison, Condition, Constant, Expression, Variable
from tidelog.logic.values import Value

Test = Expression | Comparison | Condition
VARIABLES = [Variable(name) for name in "xyz"]
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
# Texts that have much in common, so that parts are found in them; patterns; and what looks like other values.
_WRITTEN = (
    r"|a|b|ab|aab@b|b@a|@|AB@€|é|😀é@a|ß|ΣİA|aΣ|4%|a b|[a|$1|$0-$1|\|i|q|x|b*|(a)(b)?|^[a-z]+$|(?=a)|(a)\1|"
    "en|de-AT|*|0|-12|+7|007| 5 |1.50|-.5|2.|1e3|-0|-0.0|INF|999999999999999999|9999999999999999999|true|"
    "2024-02-29|2023-02-29|2023-02-30|1999-04-31|0001-01-01|2024-02-29T23:59:59.5Z|a%20b|%ff"
)
TEXTS = _WRITTEN.split("|")
SMALL = [*range(-3, 7), 2**31, -(2**31), 2**40 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**64]
POOL = [
    *map(values.string, TEXTS),
    *map(values.string, TEXTS[:30]),
    *(values.language_string(text, tag) for text in TEXTS[:16] for tag in ("en", "de-AT")),
    *map(values.integer, SMALL),
    *map(values.integer, range(4)),
    *[values.TRUE, values.FALSE] * 5,
    *(values.decimal(Decimal(text)) for text in ("0", "1", "2.5", "-0.01", "1e-20", "1e25", "1.5e20")),
    *(Value(values.Kind.DOUBLE, double) for double in (0.0, 1.0, -2.5, -3.0, -1e300, math.inf, -math.inf)),
    *(values.date(days) for days in (0, 19782, -719_529)),
    *(values.date_time(19782 * 86_400_000_000, zone) for zone in (None, 0, 60, -840)),
    *(values.literal(text, type_) for text in ("a", "") for type_ in ("dt", "en")),
    *(values.iri(text) for text in ("a", "b", "http://e/é", values.XSD + "integer", values.XSD + "date")),
    *map(values.blank, ("a", "b")),
]


def rows_of(random: Random, drawn: Sequence[Value], count: int = 60) -> list[tuple[Value, ...]]:
    """Random rows of values."""
    pool = [*POOL, *list(drawn) * 5]
    return [tuple(random.choice(pool) for _ in VARIABLES) for _ in range(count)]


def expression_of(random: Random, name: str | None, depth: int) -> Expression:
    """A random expression of a depth, a call of a function if one is named."""
    if name is None and (depth == 0 or random.random() < 0.3):
        return random.choice(VARIABLES) if random.random() < 0.7 else Constant(random.choice(POOL))
    names = sorted(IMPLEMENTATIONS) if random.random() < 0.8 else sorted(FUNCTIONS)
    function = FUNCTIONS[name or random.choice(names)]
    most = max(function.minimum, 3) if function.maximum is None else function.maximum
    arguments = range(random.randint(function.minimum, most))
    return Apply(function.name, tuple(expression_of(random, None, max(depth - 1, 0)) for _ in arguments))


def random_test(random: Random, depth: int) -> Test:
    """A random expression, comparison or condition."""
    match random.randrange(3):
        case 0:
            left, right = (expression_of(random, None, depth) for _ in range(2))
            return Comparison(random.choice(OPERATORS), left, right)
        case 1:
            return Condition(Apply("COALESCE", (expression_of(random, None, depth),)), random.random() < 0.5)
        case _:
            return expression_of(random, None, depth)


class Batch:
    """What an expression step reads and writes: columns of ids and the results."""

    def __init__(self, columns: Sequence[Any]) -> None:
        self.columns = columns
        self.result = np.full(len(columns[0]), layout.ASK_PYTHON, np.int32)

    def column(self, level: int, number: int, width: int) -> Any:
        return self.columns[number]


def by_definition(test: Test, dictionary: Dictionary, binding: dict[Variable, Value]) -> Any:
    """The result of one row as the kernels expect it, or the message of its error."""
    try:
        if isinstance(test, Comparison | Condition):
            truth = holds(test, binding)
            return layout.NO_VALUE if truth is None else int(truth)
        value = evaluate(test, binding)
    except Overflow as overflow:
        return str(overflow)
    return layout.NO_VALUE if value is None else dictionary.encode(value)


def check(test: Test, rows: Sequence[tuple[Value, ...]], batches: int = 1) -> None:
    """Compare columns with the definition, for all rows that raise no error, and for all."""
    dictionary = Dictionary()
    for value in (value for row in rows for value in row):
        dictionary.encode(value)
    step = PythonStep(test, tuple((variable, place) for place, variable in enumerate(VARIABLES)))
    limits = ActiveLimits()
    expected = [by_definition(test, Dictionary(), dict(zip(VARIABLES, row, strict=True))) for row in rows]
    failing = [message for message in expected if isinstance(message, str)]
    if failing:
        with pytest.raises(Overflow) as raised:
            PythonFunction(step, dictionary, limits).fill(batch_of(dictionary, rows), 0, len(rows), 3)
        assert str(raised.value) == failing[0]
        rows = [row for row, result in zip(rows, expected, strict=True) if not isinstance(result, str)]
    function = PythonFunction(step, dictionary, limits)
    for part in range(batches):
        some = rows[part::batches]
        if some:
            batch = batch_of(dictionary, some)
            function.fill(batch, 0, len(some), 3)
            bindings = [dict(zip(VARIABLES, row, strict=True)) for row in some]
            assert batch.result.tolist() == [by_definition(test, dictionary, one) for one in bindings]


def batch_of(dictionary: Dictionary, rows: Sequence[tuple[Value, ...]]) -> Any:
    columns = [
        np.array([dictionary.encode(row[place]) for row in rows], np.int32) for place in range(len(VARIABLES))
    ]
    return Batch(columns)


@pytest.fixture(autouse=True)
def _columns_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_functions, "FEW", 1)


SEEDS = st.integers(0, 2**32)
DRAWN = st.lists(all_values(), max_size=9)


@settings(max_examples=5 * settings().max_examples)
@given(SEEDS, DRAWN, st.integers(0, 3), st.sampled_from([1, 2, 3]))
def test_columns_give_what_the_definition_gives(
    seed: int, drawn: list[Value], depth: int, batches: int
) -> None:
    random = Random(seed)
    check(random_test(random, depth), rows_of(random, drawn), batches)


@pytest.mark.parametrize("name", sorted(IMPLEMENTATIONS))
@given(SEEDS, DRAWN, st.integers(1, 2))
def test_each_function_gives_what_the_definition_gives(
    name: str, seed: int, drawn: list[Value], depth: int
) -> None:
    random = Random(seed)
    check(expression_of(random, name, depth), rows_of(random, drawn))


@pytest.mark.parametrize(
    "test",
    [
        Apply("SUBSTR", (Constant(values.string("añb😀c")), VARIABLES[0], VARIABLES[1])),
        Apply("SUBSTR", (VARIABLES[2], VARIABLES[0], VARIABLES[1])),
        Apply("+", (VARIABLES[0], Apply("STRLEN", (VARIABLES[2],)))),
        Comparison("<", VARIABLES[0], Apply("*", (VARIABLES[1], Apply("STRLEN", (VARIABLES[2],))))),
    ],
)
@given(numbers=st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 9)] * 2), min_size=2))
def test_integers_of_64_bits_beside_texts(test: Test, numbers: list[tuple[int, int]]) -> None:
    text = values.language_string("añb😀c", "en")
    check(test, [(values.integer(one), values.integer(other), text) for one, other in numbers])


@pytest.mark.parametrize(("name", "change"), [("UCASE", str.upper), ("LCASE", str.lower)])
def test_every_letter_changes_case_as_in_python(name: str, change: Callable[[str], str]) -> None:
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = [*letters, *(f"a{letter}" for letter in letters[:0x500]), "ΑΣ", "ΑΣΑ", "ж Ж", "été"]
    dictionary = Dictionary()
    batch = Batch([dictionary.encode_texts(values.Kind.STRING, text_array(texts))])
    test = Apply(name, (VARIABLES[0],))
    function = PythonFunction(PythonStep(test, ((VARIABLES[0], 0),)), dictionary, ActiveLimits())
    function.fill(batch, 0, len(texts), 1)
    assert dictionary.texts(batch.result).to_pylist() == [change(text) for text in texts]


def test_results_are_remembered_until_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MOST_COMBINATIONS", 64)
    monkeypatch.setattr(rows_module, "MOST_SLOTS", 512)
    texts = [values.string("x" * length) for length in range(1000)]
    rows = [(texts[number * 7 % 1000], texts[number * number % 13], texts[0]) for number in range(3000)]
    for variables in (VARIABLES[:1], VARIABLES[:2], VARIABLES):
        lengths = [Apply("STRLEN", (variable,)) for variable in variables]
        check(Apply("SUM", tuple(lengths)), rows, 100)


def test_nothing_is_remembered_of_a_batch_that_fails() -> None:
    largest, dictionary = values.integer(2**63 - 1), Dictionary()
    test = Apply("+", (VARIABLES[0], Constant(values.integer(1))))
    function = PythonFunction(PythonStep(test, ((VARIABLES[0], 0),)), dictionary, ActiveLimits())
    rows = [(values.integer(number), values.TRUE, values.TRUE) for number in range(50)]
    for _ in range(2):
        with pytest.raises(Overflow, match=r"`\+` overflows 64 bits for 9223372036854775807, 1"):
            function.fill(batch_of(dictionary, [*rows, (largest, values.TRUE, values.TRUE)]), 0, 51, 3)
    batch = batch_of(dictionary, rows)
    function.fill(batch, 0, 50, 3)
    assert [dictionary.decode(identity).content for identity in batch.result] == list(range(1, 51))


def test_the_error_is_that_of_the_first_row() -> None:
    one, largest, text = values.integer(1), values.integer(2**63 - 1), values.string("a")
    left, right = Apply("+", (VARIABLES[0], VARIABLES[0])), Apply("-", (VARIABLES[1], Constant(largest)))
    test = Apply("*", (left, Apply("+", (right, Apply("STRLEN", (VARIABLES[2],))))))
    check(
        test, [(one, one, text), (one, values.integer(-3), text), (largest, one, text), (one, largest, text)]
    )


@pytest.mark.parametrize("operator", OPERATORS)
def test_computed_values_are_compared_with_others_of_all_kinds(operator: str) -> None:
    same = Apply("COALESCE", (Apply("STRLANG", (VARIABLES[0], VARIABLES[1])), VARIABLES[0]))
    check(Comparison(operator, same, VARIABLES[1]), [(one, other, one) for one in POOL for other in POOL])


def test_long_texts_are_computed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_functions, "MOST_BYTES", 100)
    long = Constant(values.string("b" * 60))
    rows = [(values.string("a" * length), values.TRUE, values.TRUE) for length in (0, 0, 99, 100, 5, 300, 1)]
    check(Apply("CONCAT", (VARIABLES[0], long)), rows)
    check(Apply("STRLEN", (VARIABLES[0],)), rows)


def test_intermediate_results_get_no_ids() -> None:
    dictionary = Dictionary()
    test = Apply("STRLEN", (Apply("CONCAT", (VARIABLES[0], Constant(values.string("!")))),))
    rows = [(values.string(f"text {number}"), values.TRUE, values.TRUE) for number in range(100)]
    function = PythonFunction(PythonStep(test, ((VARIABLES[0], 0),)), dictionary, ActiveLimits())
    batch = batch_of(dictionary, rows)
    before = len(dictionary)
    function.fill(batch, 0, len(rows), 3)
    assert len(dictionary) == before + 3  # the constant and the lengths 7 and 8


def test_a_program_computes_over_columns_and_changes() -> None:
    emails = [f"{number}@Example{number % 7}.COM" for number in range(1000)]
    rules = """
        p(?x, LCASE(STRAFTER(?x, "@"))) :- e(?x) .
        q(?x, ?n) :- e(?x), CONTAINS(?x, "9"), ?n = STRLEN(?x) + 1 .
        r(?d, #count(?x)) :- p(?x, ?d) .
        s(?x, ?y) :- e(?x), f(?y), STRBEFORE(?x, "@") = STRREV(?y) .
        f("89") . f("x") . f("100") .
    """
    reasoner = tl.Reasoner(rules + "\n".join(f'e("{email}") .' for email in emails))

    def check_all() -> None:
        parts = [email.partition("@") for email in emails]
        assert set(reasoner["p"]) == {("".join(part), part[2].lower()) for part in parts}
        assert set(reasoner["q"]) == {(email, len(email) + 1) for email in emails if "9" in email}
        assert set(reasoner["r"]) == Counter(part[2].lower() for part in parts).items()
        assert set(reasoner["s"]) == {("".join(part), "89") for part in parts if part[0] == "98"}

    check_all()
    reasoner.apply('- e("98@Example0.COM") . + e("98@ÄÖ.de") . + e("999") . + e("@@9") .')
    emails = [*(email for email in emails if email != "98@Example0.COM"), "98@ÄÖ.de", "999", "@@9"]
    check_all()
