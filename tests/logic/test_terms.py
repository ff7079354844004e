"""Terms: text to value and back."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.logic import values
from tidelog.logic.conversions import datatype, exact, ntriples, plain, read_any, read_exact, read_typed
from tidelog.logic.resolve import resolve
from tidelog.logic.values import (
    TRUE,
    XSD,
    ColumnType,
    Kind,
    Value,
    blank,
    decimal,
    double,
    integer,
    iri,
    language_string,
    literal,
    string,
)
from tidelog.syntax.parser import parse_text

ANY_VALUE = st.from_type(Value)


# ---- laws


@given(ANY_VALUE)
def test_exact_terms_read_back(value: Value) -> None:
    assert read_exact(exact(value)) == value


@given(ANY_VALUE)
def test_exact_terms_stand_in_programs(value: Value) -> None:
    if value.kind is Kind.LITERAL and str(value.extra).startswith(XSD):
        return  # a program may not hold what is no value of its datatype
    program = resolve(parse_text(f"p({exact(value)}) ."))
    assert program.facts[0].values == (value,)


@given(ANY_VALUE)
def test_ntriples_terms_read_back(value: Value) -> None:
    assert read_exact(ntriples(value)) == value


@given(ANY_VALUE)
def test_terms_stand_on_one_line(value: Value) -> None:
    assert len(exact(value).splitlines()) == len(ntriples(value).splitlines()) == 1


@given(ANY_VALUE)
def test_plain_text_reads_back_with_its_datatype(value: Value) -> None:
    datatype_iri = datatype(value)
    if datatype_iri is not None and value.kind is not Kind.LANGUAGE_STRING:
        assert literal(plain(value), datatype_iri) == value


@given(st.text(max_size=12) | st.text('<>"@^:_-+.01a \\', max_size=12))
def test_every_field_is_some_value(text: str) -> None:
    value = read_any(text)
    assert read_exact(exact(value)) == value


@given(st.text(max_size=12) | st.text('<>"@^:_-+.01ae \\', max_size=12), st.sampled_from(ColumnType))
def test_bad_text_gives_a_reason(text: str, column: ColumnType) -> None:
    try:
        value = read_typed(text, column)
    except ValueError as fault:
        assert str(fault)
    else:
        assert values.fits(value, column)


# ---- reading


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", string("")),
        ("  ", string("")),
        ("1", integer(1)),
        ("01", integer(1)),
        ("+1", integer(1)),
        (" -1 ", integer(-1)),
        ("-0", integer(0)),
        ("5.", decimal(Decimal(5))),
        ("1.0", decimal(Decimal(1))),
        ("-0.0", decimal(Decimal(0))),
        ("1.50", decimal(Decimal("1.5"))),
        ("+.5", decimal(Decimal("0.5"))),
        ("99999999999999999999", integer(99999999999999999999)),
        (".5", iri(".5")),
        ("1e3", iri("1e3")),
        ("1_000", iri("1_000")),
        ("0x10", iri("0x10")),
        ("1,5", iri("1,5")),
        ("NaN", iri("NaN")),
        ("alice", iri("alice")),
        (" alice ", iri("alice")),
        ("a-b", iri("a-b")),
        ("a.b", iri("a.b")),
        ("naïve", iri("naïve")),
        ("true", iri("true")),
        ("2020-01-01", iri("2020-01-01")),
        ("it's", iri("it's")),
        ("Alice Smith", string("Alice Smith")),
        ("a\u00a0b", string("a\u00a0b")),
        ("http://x/y", iri("http://x/y")),
        ("<http://x>", iri("http://x")),
        ("<>", iri("")),
        ("<a b>", string("<a b>")),
        ("a|b", string("a|b")),
        ("<a", string("<a")),
        ("_:b", blank("b")),
        ("<_:b>", blank("b")),
        ("_:", string("_:")),
        ("_b", iri("_b")),
        ('"quoted"', string("quoted")),
        ('"a"b"', string('a"b')),
        ('"a\\nb"', string("a\\nb")),
        ('"open', string('"open')),
        ('""', string("")),
        ('"a b"@en-GB', language_string("a b", "en-gb")),
        ('"x"@', string('"x"@')),
        (f'"1"^^<{XSD}integer>', integer(1)),
        (f'"abc"^^<{XSD}int>', Value(Kind.LITERAL, "abc", XSD + "int")),
        ('"x"^^<http://dt>', Value(Kind.LITERAL, "x", "http://dt")),
        ('"1"^^xsd:integer', string('"1"^^xsd:integer')),
        (f'"2020-01-01"^^<{XSD}date>', literal("2020-01-01", XSD + "date")),
    ],
)
def test_fields_without_a_type(text: str, expected: Value) -> None:
    assert read_any(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        (" a ", ColumnType.STRING, string(" a ")),
        ("", ColumnType.STRING, string("")),
        (" 01 ", ColumnType.INTEGER, integer(1)),
        ("1.0", ColumnType.DECIMAL, decimal(Decimal(1))),
        ("1", ColumnType.DECIMAL, decimal(Decimal(1))),
        ("1", ColumnType.DOUBLE, double(1.0)),
        ("1e3", ColumnType.DOUBLE, double(1000.0)),
        ("-INF", ColumnType.DOUBLE, double(float("-inf"))),
        ("True", ColumnType.BOOLEAN, TRUE),
        ("1", ColumnType.BOOLEAN, TRUE),
        ("<http://x>", ColumnType.IRI, iri("http://x")),
        ("12", ColumnType.IRI, iri("12")),
        ("_:b", ColumnType.IRI, blank("b")),
        ("1970-01-01", ColumnType.DATE, values.date(0)),
        ("1970-01-01T00:00:00Z", ColumnType.DATETIME, values.date_time(0, 0)),
        ("12", ColumnType.ANY, integer(12)),
        ("1.5e0", ColumnType.TERM, double(1.5)),
    ],
)
def test_fields_with_a_type(text: str, column: ColumnType, expected: Value) -> None:
    assert read_typed(text, column) == expected


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("abc", ColumnType.INTEGER, "'abc' is not an integer"),
        ("", ColumnType.INTEGER, "an empty field is not an integer"),
        ("1.5", ColumnType.INTEGER, "'1.5' is not an integer"),
        ("2.0", ColumnType.INTEGER, "'2.0' is not an integer"),
        ("NaN", ColumnType.DOUBLE, "'NaN' is not a double"),
        ("1e999", ColumnType.DOUBLE, "'1e999' is not a double"),
        ("yes", ColumnType.BOOLEAN, "'yes' is not `true` or `false`"),
        ("2021-02-30", ColumnType.DATE, "is not a date such as"),
        ("2021-02-03", ColumnType.DATETIME, "is not a dateTime such as"),
        ("a b", ColumnType.IRI, "an IRI cannot hold"),
        ('"a', ColumnType.TERM, "not a quoted text"),
        ('"\\x"', ColumnType.TERM, "escape"),
        ("a.b", ColumnType.TERM, "is not a term"),
        ("1e999", ColumnType.TERM, "is not a term"),
        ("", ColumnType.TERM, "is not a term"),
        ("a", ColumnType.SKIP, "skipped"),
    ],
)
def test_fields_that_do_not_fit_their_type(text: str, column: ColumnType, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_typed(text, column)


# ---- writing


@pytest.mark.parametrize(
    ("value", "plainly", "exactly", "in_ntriples"),
    [
        (TRUE, "true", "true", f'"true"^^<{XSD}boolean>'),
        (integer(-5), "-5", "-5", f'"-5"^^<{XSD}integer>'),
        (integer(10**20), "1" + "0" * 20, "1" + "0" * 20, f'"1{"0" * 20}"^^<{XSD}integer>'),
        (decimal(Decimal("-0.05")), "-0.05", "-0.05", f'"-0.05"^^<{XSD}decimal>'),
        (decimal(Decimal("2.0")), "2", "2.0", f'"2.0"^^<{XSD}decimal>'),
        (decimal(Decimal(-100)), "-100", "-100.0", f'"-100.0"^^<{XSD}decimal>'),
        (
            decimal(Decimal(10**20)),
            "1" + "0" * 20,
            "1" + "0" * 20 + ".0",
            f'"1{"0" * 20}.0"^^<{XSD}decimal>',
        ),
        (double(1000.0), "1000", "1.0E3", f'"1.0E3"^^<{XSD}double>'),
        (double(float("inf")), "INF", f'"INF"^^<{XSD}double>', f'"INF"^^<{XSD}double>'),
        (values.date(0), "1970-01-01", f'"1970-01-01"^^<{XSD}date>', f'"1970-01-01"^^<{XSD}date>'),
        (string('a"\n'), 'a"\n', '"a\\"\\n"', '"a\\"\\n"'),
        (language_string("a", "EN"), "a", '"a"@en', '"a"@en'),
        (literal("x", "http://dt"), "x", '"x"^^<http://dt>', '"x"^^<http://dt>'),
        (iri("alice"), "alice", "alice", "<alice>"),
        (iri("http://x"), "http://x", "<http://x>", "<http://x>"),
        (iri("true"), "true", "<true>", "<true>"),
        (iri("_"), "_", "<_>", "<_>"),
        (blank("b"), "_:b", "<_:b>", "_:b"),
    ],
)
def test_the_three_ways_to_write(value: Value, plainly: str, exactly: str, in_ntriples: str) -> None:
    assert (plain(value), exact(value), ntriples(value)) == (plainly, exactly, in_ntriples)
