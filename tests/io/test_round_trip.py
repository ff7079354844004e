"""What is written is read again: every value, in every format that can hold it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tidelog as tl
from tidelog.__main__ import main
from tidelog.io.data_file import EXTENSIONS, RDF
from tidelog.io.reader import READERS
from tidelog.io.write import file_table, write
from tidelog.logic import conversions, values
from tidelog.logic.values import XSD, ColumnType, Value
from tidelog.reasoner.reasoner import Reasoner

CHARACTERS = st.sampled_from(
    "abAZ019 \"'\\<>{}|^`,;:\t\r\n.@#=+-_\u00a0\u2003\u202eé😀\ufeff"
) | st.characters(exclude_categories=["Cs"])
TEXTS = st.text(CHARACTERS, max_size=8)
IRIS = st.text(CHARACTERS, max_size=8).filter(lambda text: not values._NOT_IN_IRIS.search(text))
TAGS = st.sampled_from(["en", "de-at", "x"])
DATATYPES = st.sampled_from(["http://e.org/t", XSD + "int", XSD + "gYear", XSD + "double", XSD + "date", "t"])
OF_KIND: dict[values.Kind, st.SearchStrategy[Value]] = {
    values.Kind.BOOLEAN: st.booleans().map(values.boolean),
    values.Kind.INTEGER: st.integers(-(2**63), 2**63 - 1).map(values.integer),
    values.Kind.BIG: st.one_of(
        st.integers(2**63, 10**25).map(values.integer),
        st.integers(-(10**25), -(2**64)).map(lambda number: values.decimal(Decimal(number) / 1000)),
    ),
    values.Kind.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=3).map(values.decimal),
    values.Kind.DOUBLE: st.floats(allow_nan=False).map(lambda number: values.double(number) or values.TRUE),
    values.Kind.DATE: st.integers(-(10**6), 10**10).map(values.date),
    values.Kind.DATETIME: st.builds(
        values.date_time, st.integers(-(10**17), 10**17), st.sampled_from([None, 0, 60, -330])
    ),
    values.Kind.STRING: TEXTS.map(values.string),
    values.Kind.LANGUAGE_STRING: st.builds(values.language_string, TEXTS, TAGS),
    values.Kind.LITERAL: st.builds(values.literal, TEXTS, DATATYPES),
    values.Kind.IRI: IRIS.filter(lambda text: not text.startswith("_:")).map(values.iri),
    values.Kind.BLANK: IRIS.filter(bool).map(values.blank),
}
TEXT_KINDS = {kind for kind in values.Kind if kind >= values.Kind.STRING}
VALUES: st.SearchStrategy[Value] = st.one_of(*OF_KIND.values())


@given(VALUES)
@example(values.string("alice"))
@example(values.iri("12"))
@example(values.iri(""))
@example(values.iri("a\u00a0"))
def test_a_field_is_read_as_what_it_was(value: Value) -> None:
    assert conversions.read_any(conversions.field(value)) == value


# What statements of RDF hold in every format: absolute IRIs, labels and tags of the usual form, no controls.
RDF_TEXTS = st.text(st.sampled_from("abZ09 \"'\\\\<>{}|^`,;:.@#=+-_\u00a0é😀\t\n\r"), max_size=8)
RDF_VALUES: st.SearchStrategy[Value] = st.one_of(
    VALUES.filter(lambda value: value.kind not in TEXT_KINDS),
    RDF_TEXTS.map(values.string),
    st.builds(values.language_string, RDF_TEXTS, st.sampled_from(["en", "de-at", "zh-hant"])),
    st.builds(values.literal, RDF_TEXTS, DATATYPES.filter(lambda datatype: ":" in datatype)),
    st.text("abé09-_/?.", max_size=8).map(lambda text: values.iri(f"http://e.org/{text}#a")),
    st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,8}", fullmatch=True).map(values.blank),
)
TABLES = sorted(set(EXTENSIONS) - RDF)
ALIKE = [
    values.string("alice"),
    values.iri("alice"),
    values.iri("http://e.org/a"),
    values.string("http://e.org/a"),
    values.string("12"),
    values.iri("12"),
    values.integer(12),
    values.decimal(Decimal(12)),
    values.Value(values.Kind.DOUBLE, 12.0),
    values.integer(10**30),
    values.decimal(Decimal("1e-30")),
    values.Value(values.Kind.DOUBLE, float("inf")),
    values.TRUE,
    values.iri("true"),
    values.string("true"),
    values.string(""),
    values.string('"alice"'),
    values.string("<http://e.org/a>"),
    values.string('{"@id": "a"}'),
    values.language_string("chat", "fr"),
    values.literal("PT5M", XSD + "duration"),
    values.literal("abc", XSD + "int"),
    values.date(0),
    values.string("1970-01-01"),
    values.date_time(0, None),
    values.date_time(0, 0),
    values.date_time(0, 120),
    values.blank("b"),
    values.string("_:b"),
]


def declared(arity: int) -> str:
    return f"@declare p({', '.join(f'c{place}: any' for place in range(arity))}) ."


def stored(rows: Sequence[tuple[Value, ...]]) -> Reasoner:
    reasoner = Reasoner(tl.parse(declared(len(rows[0]))), threads=1)
    reasoner.insert("p", rows)
    return reasoner


def exact(reasoner: Reasoner) -> set[tuple[str, ...]]:
    return set(reasoner["p"].to_texts("exact").rows())


def read_again(path: Path, name: str, declaration: str, more: str = "") -> set[tuple[str, ...]]:
    options = {"csv": ", header = true", "tsv": ", header = true", "dsv": ', header = true, delimiter = ","'}
    imported = f'@import p :- {name} {{ resource = "{path}"{options.get(name, "")}{more} }} .'
    return exact(Reasoner(tl.parse(f"{declaration} {imported}"), threads=1))


def written(folder: Path, name: str, reasoner: Reasoner, types: tuple[ColumnType, ...] = ()) -> Path:
    path = folder / ("p" + EXTENSIONS[name][0])
    table = file_table(reasoner["p"], name, None, types)
    write(path, name, table.column_names, [table])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round-trip")


def test_every_format_is_read_and_written() -> None:
    assert set(READERS) == set(EXTENSIONS)


@pytest.mark.parametrize("name", TABLES)
@given(st.lists(st.tuples(VALUES, *OF_KIND.values()), min_size=1, max_size=3))
@settings(max_examples=15)
def test_tables_hold_every_value(folder: Path, name: str, rows: list[tuple[Value, ...]]) -> None:
    """A column of values of all kinds, and one of each kind: these have types where the format has them."""
    reasoner = stored(rows)
    path = written(folder, name, reasoner)
    assert read_again(path, name, declared(len(rows[0]))) == exact(reasoner)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("count", [1, 100])  # and as many as Arrow's kernels are used for
def test_tables_tell_alike_values_apart(folder: Path, name: str, count: int) -> None:
    rows = [(value, values.integer(number)) for value in ALIKE for number in range(count)]
    many = [(values.string(f"s{number}"), values.iri(f"n{number}")) for number in range(count)]
    for reasoner in (stored(rows), stored(many), stored([(value,) for value in ALIKE])):
        path = written(folder, name, reasoner)
        width = len(reasoner["p"].columns)
        variables = ", ".join(f"?x{place}" for place in range(width))
        assert read_again(path, name, declared(width)) == exact(reasoner)
        assert read_again(path, name, f"q({variables}) :- p({variables}) .") == exact(reasoner)


def statements(rows: list[Value], arity: int) -> Reasoner:
    """The values as objects of statements, and as whatever else they can be."""
    reasoner = Reasoner(tl.parse(declared(arity)), threads=1)
    nodes = (values.Kind.IRI, values.Kind.BLANK)
    facts = []
    for number, value in enumerate(rows):
        node = values.iri(f"http://e.org/{number}")
        facts.append((node, values.iri("http://e.org/p"), value))
        if value.kind in nodes:
            facts.append((value, values.iri("http://e.org/p"), node))
        if value.kind is values.Kind.IRI:
            facts.append((node, value, node))
    reasoner.insert("p", [(node, *fact) if arity == 4 else fact for fact in facts])
    return reasoner


WIDTHS = [(name, 3) for name in sorted(RDF)] + [(name, 4) for name in ("jsonld", "nquads", "trig")]


@pytest.mark.parametrize(("name", "arity"), WIDTHS)
@given(st.lists(RDF_VALUES, min_size=1, max_size=4))
@settings(max_examples=30)
def test_statements_hold_what_rdf_has(folder: Path, name: str, arity: int, rows: list[Value]) -> None:
    reasoner = statements(rows, arity)
    path = written(folder, name, reasoner)
    assert read_again(path, name, declared(arity)) == exact(reasoner)


@pytest.mark.parametrize(("name", "arity"), WIDTHS)
@given(st.lists(VALUES, min_size=1, max_size=4))
@settings(max_examples=40)
def test_statements_hold_any_value_or_are_refused(
    folder: Path, name: str, arity: int, rows: list[Value]
) -> None:
    reasoner = statements(rows, arity)
    try:
        path = written(folder, name, reasoner)
    except tl.DataError as error:
        assert [fault.code for fault in error.diagnostics] == ["E517"]
        return
    assert read_again(path, name, declared(arity)) == exact(reasoner)


TYPED: dict[ColumnType, st.SearchStrategy[Value]] = {
    ColumnType.ANY: VALUES,
    ColumnType.TERM: VALUES,
    ColumnType.STRING: OF_KIND[values.Kind.STRING],
    ColumnType.INTEGER: st.integers().map(values.integer),
    ColumnType.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=3).map(values.decimal),
    ColumnType.DOUBLE: OF_KIND[values.Kind.DOUBLE],
    ColumnType.BOOLEAN: OF_KIND[values.Kind.BOOLEAN],
    ColumnType.DATE: OF_KIND[values.Kind.DATE],
    ColumnType.DATETIME: OF_KIND[values.Kind.DATETIME],
    ColumnType.LOCAL_DATETIME: st.integers(-(10**17), 10**17).map(lambda time: values.date_time(time, None)),
    ColumnType("decimal(7, 2)"): st.decimals(-99999, 99999, places=2).map(values.decimal),
    ColumnType.IRI: OF_KIND[values.Kind.IRI] | OF_KIND[values.Kind.BLANK],
}


def test_every_type_is_tried() -> None:
    assert {kind for kind in TYPED if kind.size is None} == set(ColumnType) - {ColumnType.SKIP}


def is_held(value: Value, column: ColumnType) -> bool:
    """Whether Arrow's type of the column holds the value, whatever others there are."""
    match column:
        case ColumnType.INTEGER:
            return value.kind is values.Kind.INTEGER
        case ColumnType.DECIMAL:
            return abs(Decimal(values.exact_number(value))) < 10**20
        case ColumnType.DATE:
            return abs(int(value.content)) < 2**31
        case ColumnType.DATETIME:
            return value.extra == 0
    return True


@pytest.mark.parametrize("name", TABLES)
@given(st.lists(st.tuples(*TYPED.values()), min_size=1, max_size=3))
@settings(max_examples=15)
def test_columns_with_a_type(folder: Path, name: str, rows: list[tuple[Value, ...]]) -> None:
    """Every value is read again; Parquet and Arrow refuse what their types do not hold."""
    columns = ", ".join(f"c{place}: {kind.value}" for place, kind in enumerate(TYPED))
    reasoner = Reasoner(tl.parse(f"@declare p({columns}) ."), threads=1)
    reasoner.insert("p", rows)
    if name in ("parquet", "arrow") and not all(all(map(is_held, row, TYPED)) for row in rows):
        with pytest.raises(tl.DataError, match="E866"):
            written(folder, name, reasoner, tuple(TYPED))
        rows = [row for row in rows if all(map(is_held, row, TYPED))]
        reasoner = Reasoner(tl.parse(f"@declare p({columns}) ."), threads=1)
        reasoner.insert("p", rows)
    path = written(folder, name, reasoner, tuple(TYPED))
    assert read_again(path, name, f"@declare p({columns}) .") == exact(reasoner)
    path = written(folder, name, reasoner)  # by a program that declares none
    if name in ("csv", "tsv", "dsv"):  # whose fields have no types of their own
        columns = columns.replace("string", "any").replace("double", "any").replace("date", "any")
        columns = columns.replace("localDateTime", "any").replace("anyTime", "any")
        columns = columns.replace("rdf", "any").replace("boolean", "any")
    assert read_again(path, name, f"@declare p({columns}) .") == exact(reasoner)


TIMES = [
    'p(alice)@[0, 5) . p("alice")@(-inf, 3] . p(2)@7 .',
    'p(alice)@[1/3, 5) . p("alice")@(2.5, inf) .',
    'p(alice)@["2024-05-01T08:00:00Z", "2024-05-01T09:00:00Z") . p("alice")@("2024-05-01T08:00:00Z", inf) .',
]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("facts", TIMES)
def test_times_stay(folder: Path, name: str, facts: str) -> None:
    reasoner = Reasoner(tl.parse(facts), threads=1)
    path = written(folder, name, reasoner)
    time = "interval" if name in ("csv", "tsv", "dsv") else "(start, end, start_open, end_open)"
    assert read_again(path, name, "@declare p(c1: any) .", f", time = {time}") == exact(reasoner)


def test_labels_that_look_like_those_of_a_parser_stay(folder: Path) -> None:
    label = "abcdef0123456789abcdef0123456789"
    reasoner = statements([values.blank(label)], 3)
    for name in sorted(RDF):
        path = written(folder, name, reasoner)
        assert read_again(path, name, declared(3)) == exact(reasoner)
    path = folder / "anonymous.ttl"
    path.write_text(f"_:{label} <http://e.org/p> [] .")
    (row,) = read_again(path, "turtle", declared(3))
    assert row[0] == f"<_:{label}>" and row[2].endswith("anonymous_ttl-1>")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (values.iri("a/../b"), "turtle"),
        (values.iri("/b"), "trig"),
        (values.iri("alice"), "rdfxml"),
        (values.string("\x01"), "rdfxml"),
        (values.language_string("a", "x"), "turtle"),
        (values.blank("a!"), "ntriples"),
        (values.blank("."), "nquads"),
    ],
)
def test_what_statements_cannot_hold_is_refused(folder: Path, value: Value, name: str) -> None:
    with pytest.raises(tl.DataError, match=r"E517\]: .* cannot be read back from " + name):
        written(folder, name, statements([value], 3))


def test_terms_in_json(tmp_path: Path) -> None:
    """Objects that are no terms are errors with their place."""
    for row, reason in {
        '{"@id": "a b"}': "an IRI cannot hold the character ' '",
        '{"@value": 5}': "`@value` is not text",
        '{"@value": "a", "@language": "?"}': "'?' is not a language tag",
        '{"@value": "\\ud800"}': "`@value` has an unpaired surrogate",
        '{"a": 5}': "the type dict is not supported",
    }.items():
        (tmp_path / "p.jsonl").write_text(f'{{"x": "a"}}\n{{"x": {row}}}\n')
        with pytest.raises(tl.DataError, match=re.escape(reason)) as error:
            read_again(tmp_path / "p.jsonl", "jsonl", "@declare p(x: any) .")
        assert f"{tmp_path / 'p.jsonl'}:2" in str(error.value)


def test_marks_of_others_mean_nothing(tmp_path: Path) -> None:
    """A column of text without a mark, or with one that is not known, is read as it always was."""
    table = pa.table({"x": ["alice", "Alice Smith", "http://e.org/a"]})
    for metadata in (None, {b"tidelog.type": b"unknown"}, {b"tidelog.type": b"\xff"}):
        field = pa.field("x", pa.string(), metadata=metadata)
        pq.write_table(table.cast(pa.schema([field])), tmp_path / "p.parquet")
        found = read_again(tmp_path / "p.parquet", "parquet", "@declare p(x: any) .")
        assert found == {("alice",), ('"Alice Smith"',), ('"http://e.org/a"',)}
    field = pa.field("x", pa.string(), metadata={b"tidelog.type": b"iri"})
    pq.write_table(table.cast(pa.schema([field])), tmp_path / "p.parquet")
    with pytest.raises(tl.DataError, match=r"E504\]: an IRI cannot hold the character ' '"):
        read_again(tmp_path / "p.parquet", "parquet", "@declare p(x: any) .")


def test_other_programs_see_types(tmp_path: Path) -> None:
    reasoner = Reasoner(tl.parse("@declare p(c0: string, c1: iri, c2: int, c3: double) ."), threads=1)
    reasoner.insert("p", [("a", "b", 1, 2.0)])
    path = written(tmp_path, "parquet", reasoner)
    assert pq.read_table(path).to_pylist() == [{"c0": "a", "c1": "b", "c2": 1, "c3": 2.0}]


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
