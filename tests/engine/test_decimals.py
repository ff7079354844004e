"""Decimals in the columnar engine: whole ones stay apart from integers, on the way in, inside and out."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import tidelog as tl
from tidelog.errors import DataError

PRICES = """
    @declare price(item: string, euro: decimal) .
    half(?item, ?euro / 2) :- price(?item, ?euro) .
"""


def exact(reasoner: tl.Reasoner, predicate: str) -> set[tuple[str, ...]]:
    """The facts of a predicate, written exactly."""
    return set(reasoner[predicate].to_texts("exact").rows())


@pytest.mark.parametrize(
    "data",
    [
        [("tea", Decimal("2.50")), ("milk", Decimal("3.00")), ("salt", Decimal("0.00000001"))],
        [("tea", Decimal("2.50")), ("milk", 3), ("salt", "0.00000001")],
        [("tea", "2.50"), ("milk", "3"), ("salt", ".00000001")],
        pa.table(
            {
                "item": ["tea", "milk", "salt"],
                "euro": pa.array([Decimal("2.5"), Decimal(3), Decimal("1E-8")], pa.decimal128(12, 8)),
            }
        ),
    ],
    ids=["decimals", "mixed", "texts", "arrow"],
)
def test_halves_keep_their_fraction(data: object) -> None:
    reasoner = tl.Reasoner(tl.parse(PRICES))
    reasoner.insert("price", data)
    assert exact(reasoner, "half") == {
        ('"tea"', "1.25"),
        ('"milk"', "1.5"),
        ('"salt"', "0.000000005"),
    }


def test_integers_of_arrow_are_decimals_in_a_column_of_decimals() -> None:
    reasoner = tl.Reasoner(tl.parse(PRICES))
    reasoner.insert("price", pa.table({"item": ["milk"], "euro": [3]}))
    assert exact(reasoner, "price") == {('"milk"', "3.0")}
    assert exact(reasoner, "half") == {('"milk"', "1.5")}


def test_whole_decimals_are_no_integers() -> None:
    reasoner = tl.Reasoner(tl.parse("@declare count(n: int) . next(?n + 1) :- count(?n) ."))
    with pytest.raises(DataError, match="of type int"):
        reasoner.insert("count", [(Decimal("2.0"),)])


def test_constants_become_decimals_in_facts_and_bodies() -> None:
    program = 'price("milk", 3) . three(?item) :- price(?item, 3) . three(a) :- price(_, ?x), ?x = 3 .'
    reasoner = tl.Reasoner(tl.parse(PRICES + program))
    assert exact(reasoner, "price") == {('"milk"', "3.0")}
    assert exact(reasoner, "three") == {('"milk"',)}


def test_integer_and_decimal_live_side_by_side() -> None:
    reasoner = tl.Reasoner(
        tl.parse("""
            n(2) . n(2.0) . n(2E0) . n(99999999999999999999) . n(99999999999999999999.0) .
            small(2) . small(2.0) . small(2E0) .
            computed(?x, ?y) :- n(?x), small(?y), ?x = ?y + 0 .
            same(?x, ?y) :- n(?x), n(?y), ?x = ?y .
            other(?x, ?y) :- n(?x), n(?y), ?x != ?y, ?x <= ?y, ?x >= ?y .
            least(#min(?x)) :- n(?x) .
            most(#max(?x)) :- n(?x) .
        """)
    )
    numbers = ["2", "2.0", "2.0E0", "99999999999999999999", "99999999999999999999.0"]
    assert [row[0] for row in reasoner["n"].sorted().to_texts("exact").rows()] == numbers
    assert exact(reasoner, "computed") == {(number, number) for number in numbers[:3]}
    assert exact(reasoner, "same") == {(number, number) for number in numbers}
    assert len(reasoner["other"]) == 3 * 2 + 2
    assert exact(reasoner, "least") == {("2",)}
    assert exact(reasoner, "most") == {("99999999999999999999.0",)}


DECIMALS = pa.decimal128(38, 18)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("n(2.0) . n(100.0) .", pa.array([Decimal(2), Decimal(100)], DECIMALS)),
        ("n(2.0) . n(2.5) .", pa.array([Decimal("2.0"), Decimal("2.5")], DECIMALS)),
        ("n(2) . n(2.5) .", pa.array([Decimal("2.0"), Decimal("2.5")], DECIMALS)),
        ("n(2) . n(3.0) .", pa.array([Decimal(2), Decimal(3)], DECIMALS)),
        ("n(2) . n(3) .", pa.array([2, 3])),
    ],
)
def test_columns_of_decimals(facts: str, expected: pa.Array) -> None:
    column = tl.Reasoner(tl.parse(facts))["n"].sorted().to_arrow().column(0)
    assert column.type == expected.type
    assert column.to_pylist() == expected.to_pylist()


def test_a_decimal_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(tl.DataError, match="E866"):
        tl.Reasoner("n(2.0) . n(999999999999999999999.0) .")["n"].to_arrow()


def test_python_gets_decimals() -> None:
    rows = list(tl.Reasoner(tl.parse("n(2.0) .  m(#avg(?x)) :- n(?x) ."))["m"])
    assert rows == [(Decimal(2),)]
    assert isinstance(rows[0][0], Decimal)
