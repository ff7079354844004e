"""The tables of docs/language.md on how values are written are true."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

import tidelog as tl
from tests.docs.blocks import ROOT
from tidelog.data.columns import type_of
from tidelog.io.write import file_table
from tidelog.logic import conversions, values
from tidelog.logic.values import XSD, Kind, Value
from tidelog.reasoner.reasoner import Reasoner

TEXT = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
FORMS: list[Callable[[Value], str]] = [
    conversions.plain,
    conversions.field,
    conversions.write_json,
    conversions.exact,
    conversions.ntriples,
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


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the table with this heading, by their first cells."""
    return {row[0].rstrip("|").strip(): row[1:] for row in table_rows(heading)}


def table_rows(heading: str) -> list[list[str]]:
    """The cells of the table with this heading."""
    lines = TEXT[TEXT.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_texts() -> None:
    rows = table("| | plain | CSV and TSV |")
    assert list(rows) == list(VALUES)
    for name, cells in rows.items():
        for write, cell in zip(FORMS, cells, strict=True):
            shown = re.findall(r"`([^`]+)`", cell)
            written = [write(value).replace(XSD, "…") for value in VALUES[name]]
            assert shown and shown == written[: len(shown)], (name, cell)


def test_columns() -> None:
    for declared, (kind, mark) in table("| a column of |").items():
        reasoner = Reasoner(tl.parse(f"@declare p(x: {declared.strip('`')}) ."), threads=1)
        field = file_table(reasoner["p"], "parquet").schema.field(0)
        assert str(field.type) == kind.split("`")[1], declared
        found = type_of(field)
        assert mark.strip("`|") == ("" if found is None else found.value), declared


def test_schemas() -> None:
    for cells in table_rows("| types | Arrow | types | Arrow |"):
        for types, kind in zip(cells[::2], cells[1::2], strict=False):
            for name in re.findall(r"`([^`]+)`", types.split(", or")[0]):
                shown = name.replace("p, s", "12, 2")
                reasoner = Reasoner(tl.parse(f"@declare p(x: {shown}) ."), threads=1)
                expected = kind.strip("`| ").replace("p, s", "12, 2")
                assert str(reasoner["p"].to_arrow().schema.field(0).type) == expected, name


def test_other_timezones_are_refused_or_exact() -> None:
    for declared, zones in (("dateTime", (60, 60)), ("dateTime", (0, None)), ("any", (60, None))):
        reasoner = Reasoner(tl.parse(f"@declare p(x: {declared}) ."), threads=1)
        reasoner.insert("p", [(values.date_time(place, zone),) for place, zone in enumerate(zones)])
        if declared == "any":
            assert pa.types.is_large_string(file_table(reasoner["p"], "arrow").schema.field(0).type)
        else:
            with pytest.raises(tl.DataError, match="E866"):
                file_table(reasoner["p"], "arrow")
