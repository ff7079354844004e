"""The tables of docs/language.md on how values are written are true."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

import tidelog as tl
from tests.docs.blocks import ROOT
from tidelog.io.marks import type_of
from tidelog.logic import json_terms, terms, values
from tidelog.logic.values import XSD, Kind, Value
from tidelog.reasoner import Reasoner
from tidelog.written import file_table

TEXT = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
FORMS: list[Callable[[Value], str]] = [
    terms.plain,
    terms.field,
    json_terms.write_json,
    terms.exact,
    terms.ntriples,
]
VALUES = {
    "name": [values.iri("alice")],
    "IRI": [values.iri("http://x")],
    "string": [values.string('a "b"')],
    "with a language": [values.language_string("chat", "fr")],
    "integer": [values.integer(42)],
    "decimal": [values.decimal(Decimal("2.5")), values.decimal(Decimal(2))],
    "double": [Value(Kind.DOUBLE, 1000.0), Value(Kind.DOUBLE, 1e300)],
    "Boolean": [values.TRUE],
    "date": [values.literal("2020-12-31", XSD + "date")],
    "other literal": [values.literal("PT5M", XSD + "duration")],
    "blank node": [values.blank("b")],
}
COLUMNS = {
    "integers of at most 64 bits": [values.integer(2**62)],
    "decimals of at most 64 bits, with at most 19 digits behind the point": [
        values.decimal(Decimal("1e-19"))
    ],
    "doubles": [Value(Kind.DOUBLE, 0.5)],
    "Booleans": [values.TRUE],
    "dates": [values.date(0)],
    "dateTimes, all in UTC or all without a timezone": [values.date_time(0, 0), values.date_time(5, 0)],
    "strings": [values.string("a"), values.string("")],
    "names and IRIs": [values.iri("a"), values.iri("http://x")],
    "of several kinds, or other values": [values.iri("a"), values.string("a")],
}


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the table with this heading, by their first cells."""
    lines = TEXT[TEXT.index(heading) :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].rstrip("|").strip(): row[1:] for row in rows}


def test_texts() -> None:
    rows = table("| | plain | CSV and TSV |")
    assert list(rows) == list(VALUES)
    for name, cells in rows.items():
        for write, cell in zip(FORMS, cells, strict=True):
            shown = re.findall(r"`([^`]+)`", cell)
            written = [write(value).replace(XSD, "…") for value in VALUES[name]]
            assert shown and shown == written[: len(shown)], (name, cell)


def test_columns() -> None:
    rows = table("| if all values of a column are |")
    assert list(rows) == list(COLUMNS)
    for name, (kind, mark) in rows.items():
        reasoner = Reasoner(tl.parse("@declare p(x: any) ."), threads=1)
        reasoner.insert("p", [(value,) for value in COLUMNS[name]])
        field = file_table(reasoner["p"], "parquet").schema.field(0)
        expected = kind.split("`")[1]
        assert str(field.type).startswith(expected.rstrip("]")), name
        found = type_of(field)
        assert mark.strip("`|") == ("" if found is None else found.value), name


@pytest.mark.parametrize("zones", [(0, None), (60, 60)])
def test_other_timezones_are_exact(zones: tuple[int | None, int | None]) -> None:
    reasoner = Reasoner(tl.parse("@declare p(x: any) ."), threads=1)
    reasoner.insert("p", [(values.date_time(place, zone),) for place, zone in enumerate(zones)])
    assert pa.types.is_large_string(file_table(reasoner["p"], "arrow").schema.field(0).type)
