"""Kernels against plain Python: dictionary, sets of rows, indexes, expressions, order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.logic.conftest import all_values

import tidelog as tl
from tidelog.data import decode
from tidelog.data import dictionary as dictionary_module
from tidelog.data.columns import Batch, column_of_values
from tidelog.data.decode import order, to_objects, to_texts
from tidelog.data.dictionary import Dictionary
from tidelog.engine import reference
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.interpreter import find_entry
from tidelog.engine.columnar.storage import table as table_module
from tidelog.engine.columnar.storage.table import Index, IndexKey, Table
from tidelog.logic.conversions import exact, plain, read_any, read_exact, to_python
from tidelog.logic.functions.builtins import Overflow, lookup
from tidelog.logic.values import (
    Kind,
    Value,
    date,
    date_time,
    decimal,
    integer,
    language_string,
    order_key,
    string,
)

Ids = npt.NDArray[np.int32]


# ---- the dictionary


@st.composite
def dictionaries(draw: st.DrawFn) -> Dictionary:
    """Empty dictionaries with much and with little room."""
    with patch.object(dictionary_module, "FIRST_CAPACITY", draw(st.sampled_from([1, 2, 1024]))):
        return Dictionary()


@given(dictionaries(), st.lists(all_values()))
def test_a_value_has_one_id_and_comes_back(dictionary: Dictionary, drawn: list[Value]) -> None:
    ids = [dictionary.encode(value) for value in drawn]
    assert [dictionary.decode(identity) for identity in ids] == drawn
    assert [dictionary.encode(value) for value in drawn] == ids
    assert len(set(ids)) == len(set(drawn))
    assert dictionary.encode_values(drawn).tolist() == ids
    assert dictionary.decode_all(ids) == drawn


def test_ids_are_dense_through_all_growth() -> None:
    dictionary = Dictionary()
    numbers = dictionary.encode_numbers(Kind.INTEGER, np.arange(100_000, dtype=np.int64) * 7919)
    texts = dictionary.encode_texts(Kind.STRING, pa.array([f"text {number}" for number in range(50_000)]))
    assert numbers.tolist() == list(range(100_000))
    assert texts.tolist() == list(range(100_000, 150_000))
    assert dictionary.decode(149_999) == string("text 49999")
    assert dictionary.decode(99_999) == integer(99_999 * 7919)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 1 << 14, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 1 << 20])
def test_texts_of_any_length_are_kept(length: int) -> None:
    dictionary = Dictionary()
    texts = pa.array(["x" * length, "y" * length, "x" * length, "x" * (length - 1)])
    first, second, again, shorter = dictionary.encode_texts(Kind.STRING, texts).tolist()
    assert first == again
    assert len({first, second, shorter}) == 3
    assert dictionary.decode(second) == string("y" * length)


@given(dictionaries(), st.lists(st.text(max_size=20)), st.sampled_from([pa.string(), pa.large_string()]))
def test_texts_come_back(dictionary: Dictionary, texts: list[str], arrow_type: pa.DataType) -> None:
    ids = dictionary.encode_texts(Kind.STRING, pa.array(texts, arrow_type))
    assert [dictionary.decode(identity) for identity in ids.tolist()] == [string(text) for text in texts]
    assert dictionary.texts(ids).to_pylist() == texts


@given(st.lists(st.text(max_size=9), min_size=4), st.integers(0, 2), st.integers(0, 2))
def test_a_slice_of_texts_is_read_where_it_lies(texts: list[str], before: int, behind: int) -> None:
    sliced = pa.array(texts).slice(before, len(texts) - before - behind)
    ids = Dictionary().encode_texts(Kind.IRI, sliced)
    assert len(set(ids.tolist())) == len(set(sliced.to_pylist()))
    assert len(ids) == len(sliced)


FIELDS = st.one_of(
    st.text(max_size=12),
    st.from_regex(r"[+-]?[0-9]{0,25}(\.[0-9]{0,4})?", fullmatch=True),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_:/.-]{0,8}", fullmatch=True),
    st.from_regex(r'"[a-z"]{0,4}"(@[a-z]{2}|\^\^<[a-z:]{1,9}>)?', fullmatch=True),
    st.sampled_from(
        [" 12 ", "_:b", "_:", "<_:b>", "<a>", "<a b>", "-", "+", "", " ", "0x1", "1e3", "-0", "+0"]
    ),
    all_values().map(exact),
    all_values().map(plain),
)


@given(dictionaries(), st.lists(FIELDS))
def test_fields_without_a_type_are_read_as_one_by_one(dictionary: Dictionary, texts: list[str]) -> None:
    ids = dictionary.encode_any(pa.array(texts, pa.string()), parse_numbers=True)
    assert [dictionary.decode(identity) for identity in ids.tolist()] == list(map(read_any, texts))


@given(dictionaries(), st.lists(all_values()))
def test_exact_terms_are_read_as_one_by_one(dictionary: Dictionary, drawn: list[Value]) -> None:
    texts = list(map(exact, drawn))
    ids = dictionary.encode_terms(pa.array(texts, pa.string()))
    assert [dictionary.decode(identity) for identity in ids.tolist()] == list(map(read_exact, texts)) == drawn


@given(dictionaries(), st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_numbers_come_back(dictionary: Dictionary, numbers: list[int]) -> None:
    ids = dictionary.encode_numbers(Kind.INTEGER, np.array(numbers, np.int64))
    assert [dictionary.decode(identity).content for identity in ids.tolist()] == numbers


@given(st.lists(all_values()))
def test_a_column_of_values_is_those_values(drawn: list[Value]) -> None:
    """From values to a batch, as program facts are loaded, and back in every form."""
    reasoner = load_values([(value,) for value in drawn])
    relation = reasoner["v"]
    assert set(map(read_exact, (row[0] for row in relation.to_texts("exact").rows()))) == set(drawn)


# ---- values out


@pytest.mark.parametrize("many", [0, 64])
@given(drawn=st.lists(all_values()))
def test_texts_and_objects_are_those_of_each_value(many: int, drawn: list[Value]) -> None:
    """Whether many values are written at once, or few one by one."""
    with patch.object(decode, "MANY", many):
        assert_written(drawn)


def assert_written(drawn: list[Value]) -> None:
    dictionary = Dictionary()
    ids = dictionary.encode_values(drawn)
    for form, write in decode.TEXT_FORMS.items():
        assert to_texts(dictionary, ids, form).to_pylist() == list(map(write, drawn)), form
    assert to_objects(dictionary, ids) == list(map(to_python, drawn))


@given(st.lists(st.tuples(all_values(), all_values())))
def test_rows_are_sorted_by_the_total_order(rows: list[tuple[Value, Value]]) -> None:
    dictionary = Dictionary()
    columns = tuple(dictionary.encode_values([row[place] for row in rows]) for place in range(2))
    places = order(dictionary, columns, len(rows))
    assert [rows[place] for place in places] == sorted(rows, key=lambda row: tuple(map(order_key, row)))


LIMITS = (0, 1, -1, 5, 10**6, 2**53, 2**60, -(2**63))
DOUBLES = (0.5, -2.0, 1e300, 1e-9, 2.0**53, float("inf"), 3.25, 123456.789, 1e15, 1e16, 0.0001, 1e-7)
DAYS = (0, 19_000, -719_529, 10**7, -(10**7), 2_932_896, 2_932_897, -719_162)
MOMENTS = (0, 1, 1_500_000, -1, 10**15 + 123_000, 2**62, 253_402_300_799_999_999, -62_135_596_800_000_000)


@pytest.mark.parametrize("seed", range(60))
def test_values_of_one_or_two_kinds_are_written_and_sorted_as_each_is(seed: int) -> None:
    """The kinds that are written and sorted many at once, at the limits of what is done so."""
    random = Random(seed)
    makers: list[Callable[[], Value]] = [
        lambda: integer(random.choice(LIMITS)),
        lambda: decimal(Decimal(random.randint(-300, 300)).scaleb(-random.choice((0, 0, 1, 2, 5, 20)))),
        lambda: Value(Kind.DOUBLE, random.choice(DOUBLES)),
        lambda: date(random.choice(DAYS)),
        lambda: date_time(random.choice(MOMENTS), random.choice((None, 0, 60, -840, 330))),
    ]
    chosen = random.sample(makers, random.randint(1, 2))
    drawn = [random.choice(chosen)() for _ in range(2 * decode.MANY)]
    assert_written(drawn)
    dictionary = Dictionary()
    ids = dictionary.encode_values(drawn)
    assert [drawn[place] for place in order(dictionary, (ids,), len(ids))] == sorted(drawn, key=order_key)


def test_characters_that_only_newer_versions_of_unicode_print_are_escaped() -> None:
    assert_written([language_string("\U00011b60", "en"), string("\u0378"), string("ä\x7f")] * decode.MANY)


# ---- sets of rows


def make_table(arity: int, constants: int, dense_bytes: int) -> Table:
    return Table(
        np.zeros((1, layout.COLUMNS + max(arity, 1)), np.int64), 0, "t", arity, constants, dense_bytes
    )


def columns_of(rows: Sequence[tuple[int, ...]], arity: int) -> list[Ids]:
    return [np.array([row[place] for row in rows], np.int32) for place in range(arity)]


@st.composite
def rows_of_ids(draw: st.DrawFn) -> tuple[int, list[list[tuple[int, ...]]]]:
    """An arity, and several portions of rows."""
    arity = draw(st.integers(0, 5))
    most = draw(st.sampled_from([3, 40, 100_000]))
    row = st.tuples(*[st.integers(0, most)] * arity)
    return arity, draw(st.lists(st.lists(row, max_size=60), min_size=1, max_size=4))


@given(rows_of_ids(), st.sampled_from([4, 4 * 50**2, 64 << 20]), st.sampled_from([1, 64]))
def test_a_table_is_a_set_of_rows(
    drawn: tuple[int, list[list[tuple[int, ...]]]], dense_bytes: int, capacity: int
) -> None:
    arity, portions = drawn
    with patch.object(table_module, "FIRST_CAPACITY", capacity):
        table = make_table(arity, 0, dense_bytes)
    known: dict[tuple[int, ...], None] = {}
    for rows in portions:
        constants = 1 + max((identity for row in [*rows, *known] for identity in row), default=0)
        new = table.insert(columns_of(rows, arity), len(rows), layout.EXPLICIT, constants)
        before = len(known)
        known.update(dict.fromkeys(rows))
        assert new == len(known) - before
        assert len(table) == len(known)
        stored = [table.column(place).tolist() for place in range(arity)]
        if arity:
            assert list(zip(*stored, strict=True)) == list(known)
        asked = [*known, *(tuple(identity + 1 for identity in row) for row in rows)]
        places = {row: place for place, row in enumerate(known)}
        found = table.find(columns_of(asked, arity), len(asked)).tolist()
        assert found == [places.get(row, -1) for row in asked]
        assert (table.flags[: len(table)] == layout.EXPLICIT | layout.TRUE).all()


@pytest.mark.parametrize("arity", [1, 2, 3, 4])
@pytest.mark.parametrize("dense_bytes", [4, 1 << 20, 64 << 20])
def test_a_large_table_is_a_set_of_rows(arity: int, dense_bytes: int) -> None:
    random = np.random.default_rng(arity)
    most = {1: 150_000, 2: 600, 3: 60, 4: 20}[arity]
    table = make_table(arity, 0, dense_bytes)
    known: set[tuple[int, ...]] = set()
    for _ in range(3):
        columns = [random.integers(0, most, 100_000, dtype=np.int32) for _ in range(arity)]
        table.insert(columns, 100_000, 0, most)
        known.update(zip(*(column.tolist() for column in columns), strict=True))
        assert len(table) == len(known)
    stored = [table.column(place) for place in range(arity)]
    assert set(zip(*(column.tolist() for column in stored), strict=True)) == known
    assert (table.find(stored, len(table)) == np.arange(len(table))).all()


# ---- indexes


@st.composite
def index_keys(draw: st.DrawFn, arity: int, most: int) -> IndexKey:
    places = draw(st.permutations(range(arity)))
    keys = tuple(sorted(places[: draw(st.integers(0, arity - 1))]))
    filters = []
    for column in [place for place in range(arity) if place not in keys]:
        kind = draw(st.sampled_from(["free", "free", "constant", "repeated"]))
        if kind == "constant":
            filters.append((column, draw(st.integers(0, most))))
        elif kind == "repeated" and column:
            filters.append((column, -1 - draw(st.integers(0, column - 1))))
    return IndexKey(0, keys, tuple(filters))


@st.composite
def indexed(draw: st.DrawFn) -> tuple[IndexKey, int, int, list[list[tuple[int, ...]]]]:
    """An index, the arity of its table, the number of constants, and portions of rows."""
    arity = draw(st.integers(1, 4))
    most = draw(st.sampled_from([3, 30]))
    key = draw(index_keys(arity, most))
    row = st.tuples(*[st.integers(0, most)] * arity)
    portions = draw(st.lists(st.lists(row, max_size=80), min_size=1, max_size=4))
    return key, arity, most + 1 + draw(st.sampled_from([0, 10_000])), portions


@given(indexed())
def test_an_index_finds_the_rows_with_a_key(
    drawn: tuple[IndexKey, int, int, list[list[tuple[int, ...]]]],
) -> None:
    key, arity, constants, portions = drawn
    table = make_table(arity, constants, 64 << 20)
    index: Index | None = None
    words = np.zeros((1, layout.X_LISTS + 3 * arity), np.int64)
    for rows in portions:
        table.insert(columns_of(rows, arity), len(rows), 0, constants)
        table.words[layout.CURRENT_END] = len(table)
        if index is None:
            index = Index(words, 0, key, table, constants)
        else:
            index.update(constants)
        stored = list(zip(*(table.column(place).tolist() for place in range(arity)), strict=True))
        assert_index_is_right(index, table, stored)


def assert_index_is_right(index: Index, table: Table, stored: list[tuple[int, ...]]) -> None:
    key = index.key
    expected: dict[tuple[int, ...], list[int]] = {}
    for place, row in enumerate(stored):
        if all(row[column] == (row[-1 - wanted] if wanted < 0 else wanted) for column, wanted in key.filters):
            expected.setdefault(tuple(row[column] for column in key.columns), []).append(place)
    absent = tuple(7 for _ in key.columns)
    for asked in {*expected, absent}:
        buffer = np.array([*asked, 0], np.int64)
        entry = int(find_entry(table.descriptors, index.descriptors, 0, buffer))
        found: list[int] = []
        if entry >= 0:
            start, length = int(index.start[entry]), int(index.length[entry])
            found = index.pool[start : start + length].tolist()
        assert sorted(found) == expected.get(asked, [])


# ---- expressions


def load_values(rows: Sequence[tuple[Value, ...]], program: str = "", arity: int = 1) -> tl.Reasoner:
    """A reasoner in which `v` holds the rows."""
    columns = ", ".join(f"c{place}: any" for place in range(arity))
    reasoner = tl.Reasoner(tl.parse(f"@declare v({columns}) . {program}"))
    if rows:
        batch = Batch(tuple(column_of_values(column) for column in zip(*rows, strict=True)), len(rows))
        reasoner._loader.load("v", [batch])
    return reasoner


def operands() -> st.SearchStrategy[Value]:
    """Values of every kind, numbers at the edges of 64 bits often."""
    edges = [0, 1, -1, 2, 3, 10, 2**31, 2**32, 3037000500, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
    whole = st.sampled_from(edges).map(integer)
    doubles = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf")])
    return st.one_of(
        whole, whole, doubles.map(lambda number: Value(Kind.DOUBLE, number)), all_values(), all_values()
    )


EXPRESSIONS = st.recursive(
    st.sampled_from(
        ["?x", "?y", "?x", "?y", "1", "2", "0", "-3", "0.5", "2E0", '"a"', "9223372036854775807"]
    ),
    lambda inner: st.one_of(
        st.builds(
            lambda left, operator, right: f"({left} {operator} {right})",
            inner,
            st.sampled_from("+-*/"),
            inner,
        ),
        inner.map(lambda operand: f"-({operand})"),
    ),
    max_leaves=6,
)


def both(rows: list[tuple[Value, Value]], rule: str) -> tuple[object, object]:
    """What the columnar and the reference engine make of one rule, or that it leaves 64 bits."""
    program = tl.parse(f"@declare v(a: any, b: any) . {rule}")
    try:
        expected: object = {tuple(map(exact, row)) for row in reference.evaluate(program, {"v": rows})["r"]}
    except tl.EvaluationError as error:
        expected = error.diagnostics[0].code
    try:
        found: object = set(load_values(rows, rule, arity=2)["r"].to_texts("exact").rows())
    except tl.EvaluationError as error:
        found = error.diagnostics[0].code
    return found, expected


EDGES = [
    -(2**63),
    -(2**63) + 1,
    -(2**32),
    -3,
    -1,
    0,
    1,
    2,
    3037000499,
    3037000500,
    2**62,
    2**63 - 2,
    2**63 - 1,
]


@pytest.mark.parametrize("operator", ["+", "-", "*", "/"])
def test_every_pair_of_integers_at_the_edges_of_64_bits(operator: str) -> None:
    """Pair by pair, since one that leaves 64 bits hides the others."""
    rule = f"r(?x, ?y, ?x {operator} ?y) :- v(?x, ?y) ."
    fitting = []
    for left in EDGES:
        for right in EDGES:
            pair = (integer(left), integer(right))
            try:
                lookup(operator).call(pair)  # type: ignore[union-attr]
                fitting.append(pair)
            except Overflow:
                assert both([pair], rule) == ("E603", "E603")
    found, expected = both(fitting, rule)
    assert found == expected


def is_constant_fault(rule: str) -> bool:
    """Whether the rule is refused because what is constant in it leaves 64 bits."""
    try:
        tl.parse(f"@declare v(a: any, b: any) . {rule}")
    except tl.ProgramError as error:
        return all(item.code == "E405" for item in error.diagnostics)
    return False


@given(st.lists(st.tuples(operands(), operands()), max_size=5), EXPRESSIONS)
@example([(integer(2**63 - 1), integer(0))], "((?x + 1) + (1 / ?y))")
@example([(integer(2**63 - 1), integer(0))], "((1 / ?y) + (?x + 1))")
def test_compiled_arithmetic_is_that_of_the_functions(
    rows: list[tuple[Value, Value]], expression: str
) -> None:
    rule = f"r(?x, ?y, {expression}) :- v(?x, ?y) ."
    if not is_constant_fault(rule):
        found, expected = both(rows, rule)
        assert found == expected


@given(
    st.lists(st.tuples(operands(), operands()), max_size=5),
    EXPRESSIONS,
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    EXPRESSIONS,
)
@example([(Value(Kind.DOUBLE, 0.0), integer(0))], "-(?x)", "=", "?x")
def test_compiled_comparisons_are_those_of_the_functions(
    rows: list[tuple[Value, Value]], left: str, operator: str, right: str
) -> None:
    rule = f"r(?x, ?y) :- v(?x, ?y), {left} {operator} {right} ."
    if not is_constant_fault(rule):
        found, expected = both(rows, rule)
        assert found == expected


@given(st.lists(all_values(), min_size=2, max_size=8), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
def test_all_values_compare_as_the_functions_say(drawn: list[Value], operator: str) -> None:
    rows = [(left, right) for left in drawn for right in drawn]
    found, expected = both(rows, f"r(?x, ?y) :- v(?x, ?y), ?x {operator} ?y .")
    assert found == expected


@pytest.mark.parametrize(
    ("expression", "operand"),
    [
        ("?x + 1", 2**63 - 1),
        ("?x - 2", -(2**63)),
        ("-2 - ?x", 2**63 - 1),
        ("5 - ?x", -(2**63)),
        ("?x * 2", 2**62),
        ("?x * ?x", 3037000500),
        ("-?x", -(2**63)),
        ("?x / -1", -(2**63)),
        ("?x * 1 + ?x", 2**62),
        ("?x + 1", 2**63),
        ("POW(?x, 3)", 2**31),
        ("ABS(?x)", -(2**63)),
    ],
)
def test_what_leaves_64_bits_is_an_error_that_names_the_operands(expression: str, operand: int) -> None:
    reasoner = load_values([(integer(operand),)], f"r({expression}) :- v(?x) .")
    with pytest.raises(tl.EvaluationError, match=r"E603.*overflows 64 bits for"):
        reasoner.materialise()
    with pytest.raises(tl.EvaluationError, match="E603"):
        reasoner.query(f"v(?x), ?y = {expression}")
