"""Values: one for each constant, in a total order."""

from __future__ import annotations

import datetime
import itertools
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import DataError
from tidelog.logic import lexical_forms, values
from tidelog.logic.conversions import from_python, to_python
from tidelog.logic.values import (
    FALSE,
    NUMBERS,
    TRUE,
    XSD,
    ColumnType,
    Kind,
    Value,
    compare,
    conform,
    decimal,
    double,
    fits,
    integer,
    iri,
    language_string,
    literal,
    order_key,
    string,
)

ANY_VALUE = st.from_type(Value)
ANY_NUMBER = (
    st.integers().map(integer)
    | st.decimals(allow_nan=False, allow_infinity=False).map(decimal)
    | st.floats(allow_nan=False).map(lambda number: Value(Kind.DOUBLE, number + 0.0))
)


def sign(number: int) -> int:
    """-1, 0 or 1."""
    return (number > 0) - (number < 0)


# ---- constructors


def test_integers_beyond_64_bits_are_big() -> None:
    assert integer(2**63 - 1) == Value(Kind.INTEGER, 2**63 - 1)
    assert integer(2**63) == Value(Kind.BIG, "9223372036854775808")
    assert integer(-(2**63) - 1) == Value(Kind.BIG, "-9223372036854775809")
    assert len(str(integer(10**5000).content)) == 5001


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.0", Value(Kind.DECIMAL, 1, 0)),
        ("10", Value(Kind.DECIMAL, 10, 0)),
        ("-0", Value(Kind.DECIMAL, 0, 0)),
        ("-0.0", Value(Kind.DECIMAL, 0, 0)),
        ("1.50", Value(Kind.DECIMAL, 15, 1)),
        ("-0.001", Value(Kind.DECIMAL, -1, 3)),
        ("1E+3", Value(Kind.DECIMAL, 1000, 0)),
        ("9223372036854775808", Value(Kind.BIG, "9223372036854775808.0")),
        ("9223372036854775808.0", Value(Kind.BIG, "9223372036854775808.0")),
        ("-0.9223372036854775809", Value(Kind.BIG, "-0.9223372036854775809")),
        ("-0.9223372036854775808", Value(Kind.DECIMAL, -(2**63), 19)),
    ],
)
def test_decimals_are_canonical(text: str, expected: Value) -> None:
    assert decimal(Decimal(text)) == expected


@pytest.mark.parametrize("number", [0, 2, -100, 2**63, -(10**30)])
def test_whole_decimals_are_not_integers(number: int) -> None:
    whole, other = decimal(Decimal(number)), integer(number)
    assert whole != other
    assert whole != double(float(number))
    assert compare(whole, other) == 0
    assert order_key(other) < order_key(whole)
    assert values.is_decimal(whole) and not values.is_integer(whole)
    assert values.is_integer(other) and not values.is_decimal(other)
    assert values.number_of_text(f"{number}") == other
    assert values.number_of_text(f"{number}.") == values.number_of_text(f"{number}.0") == whole


def test_doubles_have_no_nan_and_one_zero() -> None:
    assert double(float("nan")) is None
    zero = double(-0.0)
    assert zero is not None and str(zero.content) == "0.0"


def test_languages_are_in_lower_case() -> None:
    assert language_string("a", "en-GB") == Value(Kind.LANGUAGE_STRING, "a", "en-gb")
    with pytest.raises(ValueError, match="language tag"):
        language_string("a", "en_GB")


def test_iris_hold_no_white_space_brackets_or_quotes() -> None:
    assert iri("_:b") == Value(Kind.BLANK, "b")
    assert iri("") == Value(Kind.IRI, "")
    for text in ("a b", "<a>", 'a"', "a{b}", "a|b", "a^b", "a`b", "a\\b", "_:", "a\n"):
        with pytest.raises(ValueError, match=r"IRI|label"):
            iri(text)


# ---- literals


@pytest.mark.parametrize(
    ("text", "datatype", "expected"),
    [
        ("a", "string", string("a")),
        (" a ", "string", string(" a ")),
        ("true", "boolean", TRUE),
        (" 0 ", "boolean", FALSE),
        ("01", "int", integer(1)),
        ("+5", "byte", integer(5)),
        ("-0", "nonNegativeInteger", integer(0)),
        ("99999999999999999999", "integer", integer(99999999999999999999)),
        ("18446744073709551615", "unsignedLong", integer(2**64 - 1)),
        ("1.50", "decimal", decimal(Decimal("1.5"))),
        (".5", "decimal", decimal(Decimal("0.5"))),
        ("5.", "decimal", decimal(Decimal(5))),
        ("2.0", "decimal", decimal(Decimal(2))),
        ("2", "decimal", decimal(Decimal(2))),
        ("99999999999999999999", "decimal", Value(Kind.BIG, "99999999999999999999.0")),
        ("1", "double", double(1.0)),
        ("1e3", "float", double(1000.0)),
        ("-INF", "double", double(float("-inf"))),
        ("1970-01-02", "date", values.date(1)),
        ("-0001-12-31", "date", values.date(-719_529)),
        ("1970-01-01T00:00:00", "dateTime", values.date_time(0, None)),
        ("1970-01-01T01:00:00.50+01:00", "dateTime", values.date_time(500_000, 60)),
        ("1969-12-31T24:00:00Z", "dateTime", values.date_time(0, 0)),
    ],
)
def test_literals_of_known_datatypes_are_values(text: str, datatype: str, expected: Value) -> None:
    assert literal(text, XSD + datatype) == expected


@pytest.mark.parametrize(
    ("text", "datatype"),
    [
        ("abc", "int"),
        ("", "integer"),
        ("1.0", "integer"),
        ("1_000", "integer"),
        ("١", "integer"),
        ("128", "byte"),
        ("-1", "unsignedInt"),
        ("0", "positiveInteger"),
        ("1e3", "decimal"),
        ("TRUE", "boolean"),
        ("NaN", "double"),
        ("1e999", "double"),
        ("inf", "double"),
        ("0x1p3", "double"),
        ("2021-02-29", "date"),
        ("2020-13-01", "date"),
        ("20-01-01", "date"),
        ("-0000-01-01", "date"),
        ("2020-01-01Z", "date"),
        ("2020-01-01T25:00:00", "dateTime"),
        ("2020-01-01T24:00:01", "dateTime"),
        ("2020-01-01T00:60:00", "dateTime"),
        ("2020-01-01T00:00:00+15:00", "dateTime"),
        ("2020-01-01T00:00:00.1234567", "dateTime"),
        ("999999-01-01T00:00:00", "dateTime"),
        ("2020", "gYear"),
    ],
)
def test_other_literals_keep_their_text_and_datatype(text: str, datatype: str) -> None:
    assert literal(text, XSD + datatype) == Value(Kind.LITERAL, text, XSD + datatype)


def test_a_datatype_is_an_iri() -> None:
    with pytest.raises(ValueError, match="datatype"):
        literal("a", "no iri")


def test_digits_without_end_are_read() -> None:
    assert literal("9" * 5000, XSD + "integer").kind is Kind.BIG
    assert literal("9" * 5000 + "-01-01", XSD + "date").kind is Kind.LITERAL


@given(st.dates())
def test_dates_are_those_of_python(day: datetime.date) -> None:
    days = lexical_forms.read_date(day.isoformat())
    assert days == day.toordinal() - datetime.date(1970, 1, 1).toordinal()
    assert lexical_forms.civil(days) == (day.year, day.month, day.day)


@given(st.integers(-(10**9), 10**9))
def test_dates_are_read_as_they_are_written(days: int) -> None:
    assert lexical_forms.read_date(lexical_forms.write_date(days)) == days


@given(st.floats(allow_nan=False))
def test_doubles_are_read_as_they_are_written(number: float) -> None:
    assert lexical_forms.read_double(lexical_forms.write_double(number)) == number
    assert lexical_forms.read_double(lexical_forms.write_double_plainly(number)) == number


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0.0, "0"),
        (1e20, "100000000000000000000"),
        (1e21, "1E21"),
        (1.5e-7, "0.00000015"),
        (1.5e-8, "1.5E-8"),
        (123.456, "123.456"),
        (-100.0, "-100"),
    ],
)
def test_plain_doubles_are_short(number: float, written: str) -> None:
    assert lexical_forms.write_double_plainly(number) == written


# ---- order


def test_ranks_of_the_total_order() -> None:
    ascending = [
        FALSE,
        TRUE,
        double(float("-inf")),
        integer(-(10**30)),
        integer(1),
        decimal(Decimal(1)),
        double(1.0),
        decimal(Decimal("1.5")),
        double(1.5),
        integer(2**53),
        double(2.0**53),
        integer(2**53 + 1),
        integer(10**30),
        decimal(Decimal(10**30)),
        double(1e30),  # a little more than 10**30
        double(float("inf")),
        values.date(0),
        values.date_time(-5, None),
        values.date_time(0, None),
        values.date_time(0, -60),
        values.date_time(0, 60),
        string("A"),
        string("a"),
        string("é"),
        string("😀"),
        language_string("a", "de"),
        language_string("a", "en"),
        literal("x", "http://dt"),
        iri("alice"),
        values.blank("a"),
    ]
    given_values = [value for value in ascending if value is not None]
    assert len(given_values) == len(ascending)
    descending = given_values[::-1]
    assert sorted(descending, key=order_key) == given_values


@given(ANY_VALUE, ANY_VALUE, ANY_VALUE)
def test_the_order_is_total(first: Value, second: Value, third: Value) -> None:
    for left, right in itertools.permutations((first, second, third), 2):
        left_key, right_key = order_key(left), order_key(right)
        assert (left_key < right_key) + (left_key > right_key) + (left == right) == 1
    keys = [order_key(value) for value in (first, second, third)]
    smallest, middle, largest = sorted(keys)
    assert smallest <= middle <= largest and smallest <= largest


@given(ANY_VALUE, ANY_VALUE)
def test_comparison_agrees_with_the_order(left: Value, right: Value) -> None:
    result = compare(left, right)
    assert compare(right, left) == (None if result is None else -result)
    if result:
        assert (order_key(left) < order_key(right)) == (result < 0)
    if left == right:
        assert result == 0


@given(ANY_NUMBER, ANY_NUMBER)
def test_numbers_compare_exactly(left: Value, right: Value) -> None:
    first, second = values.exact_number(left), values.exact_number(right)
    if float("inf") not in (abs(first), abs(second)):
        assert compare(left, right) == sign((Fraction(first) - Fraction(second)).numerator)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (integer(1), double(1.0), 0),
        (integer(2**53 + 1), double(2.0**53), 1),
        (string("a"), string("b"), -1),
        (string("a"), language_string("a", "en"), None),
        (language_string("a", "en"), language_string("b", "en"), -1),
        (language_string("a", "en"), language_string("b", "de"), None),
        (iri("a"), iri("b"), -1),
        (iri("a"), string("a"), None),
        (integer(1), string("1"), None),
        (values.date(1), values.date_time(1, None), None),
        (values.date_time(0, None), values.date_time(0, 60), 0),
        (FALSE, TRUE, -1),
        (literal("a", "dt"), literal("b", "dt"), None),
        (values.blank("a"), values.blank("a"), 0),
        (values.blank("a"), values.blank("b"), None),
    ],
)
def test_what_can_be_compared(left: Value, right: Value, expected: int | None) -> None:
    assert compare(left, right) == expected


# ---- columns and Python


def test_columns_hold_their_kinds() -> None:
    assert fits(integer(10**30), ColumnType.INTEGER)
    assert not fits(decimal(Decimal(f"{10**30}.5")), ColumnType.INTEGER)
    assert not fits(decimal(Decimal(10**30)), ColumnType.INTEGER)
    assert fits(decimal(Decimal(10**30)), ColumnType.DECIMAL)
    assert not fits(decimal(Decimal(2)), ColumnType.INTEGER)
    for number in (1, 10**30):
        assert not fits(integer(number), ColumnType.DECIMAL)
        assert conform(integer(number), ColumnType.DECIMAL) == decimal(Decimal(number))
        assert conform(decimal(Decimal(number)), ColumnType.DECIMAL) == decimal(Decimal(number))
        assert conform(decimal(Decimal(number)), ColumnType.INTEGER) is None
    assert conform(Value(Kind.DOUBLE, 1.0), ColumnType.DECIMAL) is None
    assert fits(values.blank("b"), ColumnType.IRI)
    assert not fits(iri("a"), ColumnType.STRING)
    assert fits(iri("a"), ColumnType.ANY)
    assert conform(integer(1), ColumnType.DOUBLE) == double(1.0)
    assert conform(integer(10**400), ColumnType.DOUBLE) is None
    assert conform(string("1"), ColumnType.INTEGER) is None


@given(ANY_VALUE)
def test_python_objects_give_their_values_back(value: Value) -> None:
    item = to_python(value)
    if value.kind in NUMBERS or value.kind is Kind.BOOLEAN or isinstance(item, datetime.date):
        assert from_python(item) == value


UTC_PLUS_ONE = datetime.timezone(datetime.timedelta(hours=1))


@pytest.mark.parametrize(
    ("item", "column", "expected"),
    [
        ("alice", ColumnType.ANY, iri("alice")),
        ("Alice Smith", ColumnType.ANY, string("Alice Smith")),
        ("12", ColumnType.ANY, string("12")),
        ("alice", ColumnType.STRING, string("alice")),
        ("http://x", ColumnType.IRI, iri("http://x")),
        ("12", ColumnType.INTEGER, integer(12)),
        ('"a"@en', ColumnType.TERM, language_string("a", "en")),
        (12, ColumnType.DOUBLE, double(12.0)),
        (True, ColumnType.ANY, TRUE),
        (Decimal("2.0"), ColumnType.ANY, decimal(Decimal(2))),
        (Decimal("2"), ColumnType.ANY, decimal(Decimal(2))),
        (2, ColumnType.DECIMAL, decimal(Decimal(2))),
        ("2", ColumnType.DECIMAL, decimal(Decimal(2))),
        (10**30, ColumnType.DECIMAL, decimal(Decimal(10**30))),
        (datetime.date(1970, 1, 2), ColumnType.ANY, values.date(1)),
        (datetime.datetime(1970, 1, 1, 0, 0, 1), ColumnType.ANY, values.date_time(10**6, None)),
        (datetime.datetime(1970, 1, 1, 1, tzinfo=UTC_PLUS_ONE), ColumnType.ANY, values.date_time(0, 60)),
        (string("a"), ColumnType.ANY, string("a")),
    ],
)
def test_python_objects_are_values(item: object, column: ColumnType, expected: Value) -> None:
    assert from_python(item, column) == expected


def test_numbers_of_numpy_are_values() -> None:
    numpy = pytest.importorskip("numpy")
    assert from_python(numpy.int32(5)) == integer(5)
    assert from_python(numpy.float32(0.5)) == double(0.5)
    assert from_python(numpy.bool_(True)) == TRUE
    assert from_python(numpy.str_("a")) == iri("a")


@pytest.mark.parametrize(
    ("item", "column", "message"),
    [
        (None, ColumnType.ANY, "NoneType"),
        (float("nan"), ColumnType.ANY, "NaN"),
        (Decimal("NaN"), ColumnType.ANY, "not a decimal"),
        (Fraction(1, 3), ColumnType.ANY, "Fraction"),
        ([1], ColumnType.ANY, "list"),
        ("abc", ColumnType.INTEGER, "not an integer"),
        (1.5, ColumnType.INTEGER, "of type int"),
        (Decimal("2.0"), ColumnType.INTEGER, "of type int"),
        ("2.0", ColumnType.INTEGER, "not an integer"),
        (1, ColumnType.STRING, "of type string"),
        ("a b", ColumnType.IRI, "cannot hold"),
    ],
)
def test_other_objects_are_data_errors(item: object, column: ColumnType, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        from_python(item, column)
    assert error.value.diagnostics[0].code == "E510"
