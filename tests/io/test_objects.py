"""Python data in: Arrow, frames, dictionaries, arrays and rows."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tidelog.data.columns import Batch
from tidelog.errors import DataError
from tidelog.io import python_data
from tidelog.io.python_data import from_python
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.logic.values import ColumnType as T

RowsOf = Callable[[Iterable[Batch]], list[tuple[str, ...]]]
PAIR = (T.ANY, T.ANY)
EXPECTED = [("a", "1"), ('"b c"', "2")]
TABLE = pa.table({"x": ["a", "b c"], "y": [1, 2]})


class OnlyArray:
    """An object that offers one Arrow array of structures, and nothing else."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        OnlyArray(),
        pa.table({"x": TABLE["x"].dictionary_encode(), "y": TABLE["y"].cast(pa.uint8())}),
        pa.table({"x": TABLE["x"].cast(pa.large_string()), "y": TABLE["y"]}),
        pa.table({"x": TABLE["x"].cast(pa.string_view()), "y": TABLE["y"]}),
        pl.from_arrow(TABLE),
        pl.DataFrame({"x": ["a", "b c"], "y": [1, 2]}).lazy().collect(),
        pd.DataFrame({"x": ["a", "b c"], "y": [1, 2]}),
        pd.DataFrame({"x": ["a", "b c"], "y": [1, 2]}, index=["i", "j"]),
        pd.DataFrame({"x": pd.Categorical(["a", "b c"]), "y": [1, 2]}).rename_axis("i"),
        {"x": ["a", "b c"], "y": [1, 2]},
        {"x": pa.array(["a", "b c"]).to_pylist(), "y": np.array([1, 2])},
        [("a", 1), ("b c", 2)],
        [["a", 1], ("b c", 2)],
        (row for row in [("a", 1), ("b c", 2)]),
        np.array([("a", 1), ("b c", 2)], dtype=[("x", "U3"), ("y", "i4")]),
        {("a", 1): None, ("b c", 2): None}.keys(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_all_shapes_say_the_same(rows_of: RowsOf, data: object) -> None:
    assert rows_of(from_python(data, PAIR)) == EXPECTED


def test_matrix(rows_of: RowsOf) -> None:
    assert rows_of(from_python(np.array([[1, 2], [3, 4]]), PAIR)) == [("1", "2"), ("3", "4")]


@pytest.mark.parametrize(
    "data",
    [
        ["a", "b c"],
        [("a",), ("b c",)],
        pl.Series(["a", "b c"]),
        pa.array(["a", "b c"]),
        np.array(["a", "b c"]),
    ],
)
def test_one_column(rows_of: RowsOf, data: object) -> None:
    assert rows_of(from_python(data, (T.ANY,))) == [("a",), ('"b c"',)]


def test_columns_are_found_by_name_where_all_are_there(rows_of: RowsOf) -> None:
    for data in (TABLE, {"x": ["a", "b c"], "y": [1, 2]}):
        assert rows_of(from_python(data, PAIR, ("y", "x"))) == [("1", "a"), ("2", '"b c"')]
        assert rows_of(from_python(data, PAIR, ("y", "z"))) == EXPECTED


def test_text_is_not_searched_for_numbers(rows_of: RowsOf) -> None:
    for data in ([("1", "x-y"), ("a", "é")], pa.table({"a": ["1", "a"], "b": ["x-y", "é"]})):
        assert rows_of(from_python(data, PAIR)) == [('"1"', "x-y"), ("a", '"é"')]


def test_types_of_python(rows_of: RowsOf) -> None:
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    xsd = "http://www.w3.org/2001/XMLSchema#"
    values: list[tuple[object, str]] = [
        (1, "1"),
        (2**70, str(2**70)),
        (True, "true"),
        (1.5, "1.5E0"),
        (-0.0, "0.0E0"),
        (float("inf"), f'"INF"^^<{xsd}double>'),
        (Decimal("1.50"), "1.5"),
        (Decimal("2"), "2.0"),
        (np.int8(3), "3"),
        (np.float32(0.5), "5.0E-1"),
        (datetime.date(2020, 1, 2), f'"2020-01-02"^^<{xsd}date>'),
        (moment, f'"2020-01-02T03:04:05"^^<{xsd}dateTime>'),
        (moment.replace(tzinfo=zone), f'"2020-01-02T03:04:05+02:00"^^<{xsd}dateTime>'),
    ]
    together = rows_of(from_python([(value,) for value, _ in values], (T.ANY,)))
    assert together == [(exact,) for _, exact in values]
    apart = [rows_of(from_python([(value,)], (T.ANY,))) for value, _ in values]
    assert apart == [[(exact,)] for _, exact in values]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([2**64 - 1], pa.uint64()), "18446744073709551615"),
        (pa.array([1.5], pa.float32()), "1.5E0"),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), "1.5"),
        (pa.array([Decimal("1.50")], pa.decimal256(50, 2)), "1.5"),
        (pa.array([Decimal("2")], pa.decimal128(38, 0)), "2.0"),
        (pa.array([Decimal("1E-8")], pa.decimal128(38, 8)), "0.00000001"),
        (pa.array([Decimal("1E-8")], pa.decimal256(50, 8)), "0.00000001"),
        (pa.array([True]), "true"),
        (pa.array([1], pa.date32()), '"1970-01-02"^^<http://www.w3.org/2001/XMLSchema#date>'),
        (pa.array([86_400_000], pa.date64()), '"1970-01-02"^^<http://www.w3.org/2001/XMLSchema#date>'),
        (
            pa.array([1], pa.timestamp("s")),
            '"1970-01-01T00:00:01"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
        ),
        (
            pa.array([1000], pa.timestamp("ns", "Europe/Berlin")),
            '"1970-01-01T00:00:00.000001Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
        ),
    ],
)
def test_types_of_arrow(rows_of: RowsOf, array: object, expected: str) -> None:
    assert rows_of(from_python(pa.table({"x": array}), (T.ANY,))) == [(expected,)]


def test_declared_types(rows_of: RowsOf) -> None:
    assert rows_of(from_python([(1, "2")], (T.DOUBLE, T.INTEGER))) == [("1.0E0", "2")]
    data = pa.table({"x": [1, 2], "y": ["2", "99999999999999999999"]})
    assert rows_of(from_python(data, (T.DOUBLE, T.INTEGER))) == [
        ("1.0E0", "2"),
        ("2.0E0", "99999999999999999999"),
    ]
    assert rows_of(from_python([("<x:y>", "z")], (T.TERM, T.IRI))) == [("<x:y>", "z")]


def test_integers_are_decimals_in_a_column_of_decimals(rows_of: RowsOf) -> None:
    numbers = [(2,), (3,)]
    rows = [("2.0",), ("3.0",)]
    assert rows_of(from_python(numbers, (T.DECIMAL,))) == rows
    assert rows_of(from_python([("2",), ("3.0",)], (T.DECIMAL,))) == rows
    assert rows_of(from_python([(2,), (Decimal(3),)], (T.DECIMAL,))) == rows
    assert rows_of(from_python(pa.table({"x": [2, 3]}), (T.DECIMAL,))) == rows
    assert rows_of(from_python(pa.table({"x": ["2", "3"]}), (T.DECIMAL,))) == rows


def test_integers_beyond_63_bits(rows_of: RowsOf) -> None:
    table = pa.table({"x": pa.array([1, 2**64 - 1], pa.uint64())})
    assert rows_of(from_python(table, (T.INTEGER,))) == [("1",), ("18446744073709551615",)]
    assert rows_of(from_python(table, (T.TERM,))) == [("1",), ("18446744073709551615",)]
    assert rows_of(from_python(table, (T.DECIMAL,))) == [("1.0",), ("18446744073709551615.0",)]
    assert rows_of(from_python(table, (T.DOUBLE,))) == [("1.0E0",), ("1.8446744073709552E19",)]
    with pytest.raises(DataError, match="column `x` is of type int, not string"):
        list(from_python(table, (T.STRING,)))


@pytest.mark.parametrize(
    ("data", "types", "faults"),
    [
        ([(1, 2), (3,)], PAIR, ["E503 <data>:2: the row has 1 column instead of 2"]),
        ([(1, None)], PAIR, ["E504 <data>:1:2: the value is missing"]),
        ([(1, float("nan"))], PAIR, ["E504 <data>:1:2: nan is not a value: NaN has no value"]),
        (
            [(1, "x")],
            (T.ANY, T.INTEGER),
            ["E504 <data>:1:2: 'x' is not a value of type int: 'x' is not an integer"],
        ),
        ([(1, 2)], (T.ANY, T.STRING), ["E504 <data>:1:2: 2 is not a value of type string"]),
        (
            [("\ud800", 1)],
            PAIR,
            ["E504 <data>:1:1: '\\ud800' is not a value: an unpaired surrogate"],
        ),
        (pa.table({"x": [1]}), PAIR, ["E503 <data>: the data has 1 column instead of 2"]),
        (pa.table({"x": [1], "y": [None]}), PAIR, ["E504 <data>:1:2: the value is missing (column `y`)"]),
        (
            pl.DataFrame({"x": ["a", None], "y": [1.0, 2.0]}),
            PAIR,
            ["E504 <data>:2:1: the value is missing (column `x`)"],
        ),
        (
            pa.table({"x": [1.0, float("nan")]}),
            (T.ANY,),
            ["E504 <data>:2:1: the value is missing (column `x`)"],
        ),
        (pa.table({"x": ["1", "b"]}), (T.INTEGER,), ["E504 <data>:2:1: 'b' is not an integer (column `x`)"]),
        (pa.table({"x": [1.5]}), (T.INTEGER,), ["E504 <data>: column `x` is of type double, not int"]),
        (
            pa.table({"x": [Decimal(2)]}),
            (T.INTEGER,),
            ["E504 <data>: column `x` is of type decimal, not int"],
        ),
        (
            pa.table({"x": [[1]]}),
            (T.ANY,),
            ["E513 <data>: column `x` is of Arrow's type list<item: int64>, which is not supported"],
        ),
        (5, PAIR, ["E514 None: an object of type int holds no rows"]),
        ("ab", PAIR, ["E514 None: an object of type str holds no rows"]),
        ({"x": [1], "y": [1, 2]}, PAIR, ["E514 None: the columns are not all of one length"]),
    ],
)
def test_faults(data: object, types: tuple[T, ...], faults: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        list(from_python(data, types))
    assert [f"{fault.code} {fault.place}: {fault.message}" for fault in caught.value.diagnostics] == faults


def test_bad_rows_are_skipped(rows_of: RowsOf) -> None:
    faults = RejectedRows(OnError.SKIP)
    assert rows_of(from_python([("a", 1), ("b",), (None, 1), ("c", 2)], PAIR, faults=faults)) == [
        ("a", "1"),
        ("c", "2"),
    ]
    table = pa.table({"x": ["1", "b", None, "4"]})
    assert rows_of(from_python(table, (T.INTEGER,), faults=faults)) == [("1",), ("4",)]
    assert (faults.rows, faults.skipped) == (4, 4)


def test_nullary(rows_of: RowsOf) -> None:
    assert rows_of(from_python([()], ())) == [()]


def test_many_rows_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_data, "_ROWS", 10)
    batches = list(from_python(((number,) for number in range(25)), (T.ANY,)))
    assert [batch.rows for batch in batches] == [10, 10, 5]
    with pytest.raises(DataError, match="<data>:13:1"):
        list(from_python(((None if number == 12 else number,) for number in range(25)), (T.ANY,)))
