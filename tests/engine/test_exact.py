"""Exact terms, many at once and one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.data.columns import Column
from tidelog.data.decode import exact_array, ids_of_terms, terms_of
from tidelog.engine.columnar.engine import make
from tidelog.logic import conversions
from tidelog.logic.values import ColumnType, string

XSD = "http://www.w3.org/2001/XMLSchema#"
ODD = ["", " ", "_", "true", "true-x", "inf", "_x", "a-b", "-5", "007", "+1", "1.50", "1e3", "a b", 'q"q']
ODD += ["\\", "\n", "<a>", "<http://e/ü>", "_:b", "ü", "\xa0", '"x"', '"x"@en', f'"1"^^<{XSD}integer>']
FIELDS = st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=6)), max_size=8)
TERMS = [
    "<http://e/a>",
    "<alice>",
    "<true>",
    "<a\\u0062>",
    "_:b1",
    '"plain"',
    '"tab\there"',
    '"\\u0041"',
    '"ü"',
]
TERMS += [
    '"x"@en-GB',
    f'"1"^^<{XSD}integer>',
    '"1.50"^^<http://e/t>',
    f'"1e0"^^<{XSD}double>',
    "12",
    "-0",
    "007",
]
TERMS += ["alice", "true", "1.5", '"quo\\"te"', '""']
WRITTEN = st.lists(st.sampled_from(TERMS), max_size=8)


def texts(items: list[str]) -> pa.Array:
    return pa.array(items, pa.string())


@given(FIELDS)
@example(ODD)
def test_fields_without_a_type(fields: list[str]) -> None:
    found = exact_array(Column(ColumnType.ANY, texts(fields))).to_pylist()
    assert found == [conversions.exact(conversions.read_any(field)) for field in fields]


@given(FIELDS)
@example(ODD)
def test_texts_that_are_names_or_strings(fields: list[str]) -> None:
    engine = make(1)
    ids = engine.storage.dictionary.encode_column(Column(ColumnType.ANY, texts(fields), parse_numbers=False))
    found = exact_array(Column(ColumnType.ANY, texts(fields), parse_numbers=False)).to_pylist()
    assert found == [conversions.exact(engine.storage.dictionary.decode(number)) for number in ids.tolist()]


@given(FIELDS)
@example(ODD)
def test_strings(fields: list[str]) -> None:
    found = exact_array(Column(ColumnType.STRING, texts(fields)))
    assert found.to_pylist() == [conversions.exact(string(field)) for field in fields]


@given(WRITTEN)
def test_terms_of_n_triples(written: list[str]) -> None:
    found = exact_array(Column(ColumnType.TERM, texts(written))).to_pylist()
    assert found == [conversions.exact(conversions.read_exact(term)) for term in written]


@given(FIELDS, WRITTEN)
@example(ODD, [])
def test_ids_to_terms_and_back(fields: list[str], written: list[str]) -> None:
    engine = make(1)
    values = [conversions.read_any(field) for field in fields] + [
        conversions.read_exact(term) for term in written
    ]
    ids = engine.storage.dictionary.encode_values(values)
    found = terms_of(ids, engine.storage.dictionary)
    assert found.to_pylist() == [conversions.exact(value) for value in values]
    assert ids_of_terms(found, engine.storage.dictionary).tolist() == ids.tolist()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1.5, -2.0, 1e300]),
        pa.array([True, False]),
        pa.array([0, -400_000], pa.int32()).cast(pa.date32()),
        pa.array([1, 2], pa.timestamp("us", "UTC")),
        pa.array([5, -7]),
    ],
)
def test_other_types(array: pa.Array) -> None:
    kinds = {
        "double": ColumnType.DOUBLE,
        "bool": ColumnType.BOOLEAN,
        "date32[day]": ColumnType.DATE,
        "timestamp[us, tz=UTC]": ColumnType.DATETIME,
        "int64": ColumnType.INTEGER,
    }
    column = Column(kinds[str(array.type)], array)
    engine = make(1)
    ids = engine.storage.dictionary.encode_column(column)
    assert exact_array(column).to_pylist() == [
        conversions.exact(engine.storage.dictionary.decode(number)) for number in ids.tolist()
    ]
