"""What is written is read again: every value, in every format that can hold it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tidelog as tl
from tidelog.__main__ import main
from tidelog.io.formats import EXTENSIONS
from tidelog.io.write import WriteOptions, write
from tidelog.logic import terms, values
from tidelog.logic.values import XSD, ColumnType, Value
from tidelog.reasoner import Reasoner

pytestmark = pytest.mark.usefixtures("kernels")

CHARACTERS = st.sampled_from(
    "abAZ019 \"'\\<>{}|^`,;:\t\r\n.@#=+-_\u00a0\u2003\u202eé😀\ufeff"
) | st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, max_size=8)
IRIS = st.text(CHARACTERS, max_size=8).filter(lambda text: not values._NOT_IN_IRIS.search(text))
TAGS = st.sampled_from(["en", "de-at", "x"])
DATATYPES = st.sampled_from(["http://e.org/t", XSD + "int", XSD + "gYear", XSD + "double", XSD + "date", "t"])
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.booleans().map(values.boolean),
    st.integers().map(values.integer),
    st.integers(-(10**25), 10**25).map(values.integer),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(values.decimal),
    st.floats(allow_nan=False).map(lambda number: values.double(number) or values.integer(0)),
    st.integers(-(10**6), 10**6).map(values.date),
    st.builds(values.date_time, st.integers(-(10**15), 10**15), st.sampled_from([None, 0, 60, -330])),
    TEXTS.map(values.string),
    st.builds(values.language_string, TEXTS, TAGS),
    st.builds(values.literal, TEXTS, DATATYPES),
    IRIS.filter(lambda text: not text.startswith("_:")).map(values.iri),
    IRIS.filter(bool).map(values.blank),
)


@given(VALUES)
@example(values.string("alice"))
@example(values.iri("12"))
@example(values.iri(""))
@example(values.iri("a\u00a0"))
def test_a_field_is_read_as_what_it_was(value: Value) -> None:
    assert terms.read_any(terms.field(value)) == value


def stored(rows: list[Value]) -> Reasoner:
    reasoner = Reasoner(tl.parse("@declare p(x: any, n: int) . q(?x, ?n) :- p(?x, ?n) ."), threads=1)
    reasoner.insert("p", [(value, number) for number, value in enumerate(rows)])
    return reasoner


def exact(reasoner: Reasoner) -> set[tuple[str, ...]]:
    return set(reasoner["p"].to_texts("exact").rows())


def read_again(path: Path, name: str, column: str) -> set[tuple[str, ...]]:
    header = ", header = true" if name in ("csv", "tsv", "dsv") else ""
    text = f'@declare p(x: {column}, n: int) . @import p :- {name} {{ resource = "{path}"{header} }} .'
    return exact(Reasoner(tl.parse(text), threads=1))


ROWS = st.lists(VALUES, min_size=1, max_size=6)


@pytest.mark.parametrize("name", ["csv", "tsv"])
@given(ROWS)
@example([values.string("a")] * 100)  # as many as Arrow's kernels are used for
def test_fields_of_any_type(tmp_path_factory: pytest.TempPathFactory, name: str, rows: list[Value]) -> None:
    path = tmp_path_factory.mktemp("fields") / ("p" + EXTENSIONS[name][0])
    reasoner = stored(rows)
    table = reasoner["p"].to_texts("field").table
    write(path, name, table.column_names, [table], WriteOptions())
    assert read_again(path, name, "any") == exact(reasoner)


@pytest.mark.parametrize("name", ["csv", "tsv", "json", "jsonl", "parquet", "arrow"])
@given(ROWS)
def test_exact_terms_in_columns_of_terms(
    tmp_path_factory: pytest.TempPathFactory, name: str, rows: list[Value]
) -> None:
    path = tmp_path_factory.mktemp("exact") / ("p" + EXTENSIONS[name][0])
    reasoner = stored(rows)
    table = reasoner["p"].to_texts("exact").table
    table = table.set_column(1, "n", reasoner["p"].to_arrow().column("n"))
    write(path, name, table.column_names, [table], WriteOptions())
    assert read_again(path, name, "rdf") == exact(reasoner)


TYPED = {
    ColumnType.STRING: TEXTS.map(values.string),
    ColumnType.INTEGER: st.integers().map(values.integer),
    ColumnType.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=3).map(values.decimal),
    ColumnType.DOUBLE: st.floats(allow_nan=False).map(lambda number: values.double(number) or values.FALSE),
    ColumnType.BOOLEAN: st.booleans().map(values.boolean),
    ColumnType.DATE: st.integers(-(10**6), 10**6).map(values.date),
    ColumnType.IRI: IRIS.filter(lambda text: not re.search(r"\s", text) and text[:1] != "_").map(values.iri),
}


@pytest.mark.parametrize("column", TYPED)
@given(st.data())
@settings(max_examples=20)
def test_columns_with_a_type(
    tmp_path_factory: pytest.TempPathFactory, column: ColumnType, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("typed")
    rows = data.draw(st.lists(TYPED[column], min_size=1, max_size=5))
    (folder / "p.rls").write_text(
        f"@declare p(x: {column.value}, n: int) . @output p .\n"
        + "".join(f"p({terms.exact(value)}, {number}) .\n" for number, value in enumerate(rows)),
        encoding="utf-8",
    )
    assert main(["run", str(folder / "p.rls"), "--output", str(folder / "out"), "--quiet"]) == 0
    expected = {(terms.exact(value), str(number)) for number, value in enumerate(rows)}
    assert read_again(folder / "out" / "p.csv", "csv", column.value) == expected


def test_languages_and_datatypes_stay(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "p.rls").write_text('p("Foo"@en, "Foo", foo, 1.5, 2E0, 3) . @output p .')
    lines = {
        "default": b'"""Foo""@en","""Foo""",foo,1.5,"""2.0E0""^^<http://www.w3.org/2001/XMLSchema#double>",3',
        "plain": b"Foo,Foo,foo,1.5,2,3",
    }
    for form, line in lines.items():
        options = [] if form == "default" else ["--terms", form]
        assert main(["run", str(tmp_path / "p.rls"), "--format", "csv", "--no-header", *options]) == 0
        assert capfdbinary.readouterr().out.strip() == line


def test_formulas_are_escaped_on_request(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    program = 'p("=1+1", "+x", -5, "-a", "@b", "a=b", "-1.5E3") . @output p .'
    (tmp_path / "p.rls").write_text(program)
    command = ["run", str(tmp_path / "p.rls"), "--format", "csv", "--no-header", "--terms", "plain"]
    assert main(command) == 0
    assert capfdbinary.readouterr().out == b"=1+1,+x,-5,-a,@b,a=b,-1.5E3\n"
    assert main([*command, "--escape-formulas"]) == 0
    assert capfdbinary.readouterr().out == b"'=1+1,'+x,-5,'-a,'@b,a=b,-1.5E3\n"
    export = '@export p :- csv { resource = "", escape_formulas = true, header = false } .'
    (tmp_path / "p.rls").write_text(program.replace("@output p .", export))
    assert main(["run", str(tmp_path / "p.rls"), "--terms", "plain", "--quiet"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"'=1+1,'+x,-5,")
