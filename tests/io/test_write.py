"""Files out: every format reads back, quotes, headers, nothing half-written."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.data.columns import Batch
from tidelog.errors import DataError
from tidelog.io.data_file import Header, InputFile, data_file
from tidelog.io.rdf import DEFAULT_GRAPH
from tidelog.io.reader import read
from tidelog.io.write import WriteOptions, write
from tidelog.logic.program import Predicate
from tidelog.logic.values import ColumnType as T

RowsOf = Callable[[Iterable[Batch]], list[tuple[str, ...]]]
TABLE = pa.table({"from": ["a", 'say "hi", you', "", "two\nlines"], "to": [1, 2, 3, 4]})
EDGE = Predicate("edge", 2, ("from", "to"), (T.STRING, T.INTEGER), "edge", declared=True)
ROWS = [('"a"', "1"), (r'"say \"hi\", you"', "2"), ('""', "3"), (r'"two\nlines"', "4")]


def written(format_name: str, table: Any, **options: Any) -> str:
    """What is written to a stream."""
    stream = io.BytesIO()
    write(stream, format_name, table.column_names, [table], WriteOptions(**options))
    return stream.getvalue().decode()


@pytest.mark.parametrize("extension", ["csv", "tsv", "json", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_tables_read_back(rows_of: RowsOf, folder: Path, extension: str, compression: str) -> None:
    path = folder / "deep" / "er" / f"edge.{extension}{compression}"
    assert write(path, extension, ("from", "to"), [TABLE.slice(0, 1), *TABLE.slice(1).to_batches()]) == 4
    assert rows_of(read(data_file(path, EDGE))) == ROWS
    assert path.read_bytes().startswith(b"\x1f\x8b") == bool(compression)


@pytest.mark.parametrize("extension", ["csv", "tsv", "json", "jsonl", "parquet", "arrow"])
def test_no_rows_read_back(rows_of: RowsOf, folder: Path, extension: str) -> None:
    path = folder / f"edge.{extension}"
    assert write(path, extension, ("from", "to"), []) == 0
    assert rows_of(read(data_file(path, EDGE))) == []


def test_arrow_streams_are_read(rows_of: RowsOf, folder: Path) -> None:
    path = folder / "edge.arrows"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as stream:
        stream.write_table(TABLE)
    assert rows_of(read(data_file(path, EDGE))) == ROWS


def test_plain_text_has_no_quotes() -> None:
    table = pa.table({"x": ["Alice Smith", "b;c"], "y": [1.5, -2.0]})
    assert written("csv", table) == "x,y\nAlice Smith,1.5\nb;c,-2\n"
    assert written("csv", table, header=False) == "Alice Smith,1.5\nb;c,-2\n"
    assert written("dsv", table, delimiter=";") == 'x;y\nAlice Smith;1.5\n"b;c";-2\n'
    assert written("tsv", table) == "x\ty\nAlice Smith\t1.5\nb;c\t-2\n"


@pytest.mark.parametrize("delimiter", list(r"|^]\-.;: "))
def test_any_delimiter(rows_of: RowsOf, folder: Path, delimiter: str) -> None:
    table = pa.table({"x": [f"a{delimiter}b", "c", '"'], "y": ["", delimiter, "d"]})
    write(folder / "x.dsv", "dsv", ("x", "y"), [table], WriteOptions(header=False, delimiter=delimiter))
    file = InputFile(folder / "x.dsv", "dsv", (T.STRING, T.STRING), delimiter=delimiter)
    (batch,) = read(file)
    assert [column.values.to_pylist() for column in batch.columns] == [
        table["x"].to_pylist(),
        table["y"].to_pylist(),
    ]


def test_single_empty_text_is_a_row() -> None:
    assert written("csv", pa.table({"x": ["", "a"]})) == 'x\n""\na\n'


def test_without_quotes() -> None:
    assert written("csv", pa.table({"x": ['a"b'], "y": ["c"]}), quoting=False) == 'x,y\na"b,c\n'
    with pytest.raises(DataError, match=r"E516.*'a,b' cannot be written without quotes"):
        written("csv", pa.table({"x": ["a,b"], "y": ["c"]}), quoting=False)


def test_typed_columns() -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 600000)
    table = pa.table(
        {
            "b": [True],
            "d": [date(2020, 1, 2)],
            "t": [moment],
            "z": pa.array([moment.replace(microsecond=0, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "i": [float("-inf")],
        }
    )
    assert (
        written("csv", table, header=False)
        == "true,2020-01-02,2020-01-02T03:04:05.6,2020-01-02T03:04:05Z,-INF\n"
    )
    assert json.loads(written("jsonl", table)) == {
        "b": True,
        "d": "2020-01-02",
        "t": "2020-01-02T03:04:05.6",
        "z": "2020-01-02T03:04:05Z",
        "i": "-INF",
    }


def test_decimals(rows_of: RowsOf, folder: Path) -> None:
    small = pa.table({"x": pa.array([Decimal("2"), Decimal("-2.50"), Decimal("1E-8")], pa.decimal128(38, 8))})
    whole = pa.table({"x": pa.array([Decimal("2"), Decimal("100"), Decimal("0")], pa.decimal128(38, 0))})
    assert written("csv", small, header=False) == "2\n-2.5\n0.00000001\n"
    assert written("csv", whole, header=False) == "2\n100\n0\n"
    assert written("jsonl", small) == '{"x": 2.0}\n{"x": -2.5}\n{"x": 0.00000001}\n'
    for extension in ("json", "jsonl", "parquet", "arrow"):
        path = folder / f"x.{extension}"
        write(path, extension, ("x",), [whole])
        assert rows_of(read(InputFile(path, extension, (T.ANY,)))) == [("2.0",), ("100.0",), ("0.0",)]


def test_nullary(rows_of: RowsOf, folder: Path) -> None:
    raining = Predicate("raining", 0, (), (), "raining")
    for holds, text in ((True, "holds\ntrue\n"), (False, "holds\n")):
        path = folder / "raining.csv"
        write(path, "csv", ("holds",), [pa.table({"holds": pa.array(["true"] * holds, pa.string())})])
        assert path.read_text() == text
        assert rows_of(read(data_file(path, raining))) == [()] * holds


def test_limit(folder: Path) -> None:
    assert write(folder / "x.csv", "csv", ("from", "to"), [TABLE, TABLE], WriteOptions(limit=5)) == 5
    assert (folder / "x.csv").read_text().count("\n") == 7


def test_what_follows_an_empty_table_is_written() -> None:
    stream = io.BytesIO()
    tables = [pa.table({"a": pa.array([], pa.string())}), pa.table({"a": ["x"]})]
    assert write(stream, "csv", ["a"], tables) == 1
    assert stream.getvalue() == b"a\nx\n"


def test_compression_may_be_asked_for(folder: Path) -> None:
    write(folder / "x.data", "csv", ("from", "to"), [TABLE], WriteOptions(compressed=True))
    assert gzip.decompress((folder / "x.data").read_bytes()).startswith(b"from,to\n")
    stream = io.BytesIO()
    write(stream, "csv", ("from", "to"), [TABLE], WriteOptions(compressed=True))
    assert gzip.decompress(stream.getvalue()).startswith(b"from,to\n")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.text(max_size=6), st.text(max_size=6)), max_size=12),
    st.sampled_from(["csv", "tsv", "json", "jsonl"]),
    st.booleans(),
)
def test_all_text_reads_back(folder: Path, rows: list[tuple[str, str]], name: str, single: bool) -> None:
    width = 1 if single else 2
    columns = {f"c{i}": pa.array([row[i] for row in rows], pa.string()) for i in range(width)}
    path = folder / f"x.{name}"
    write(path, name, tuple(columns), [pa.table(columns)])
    delimiter = "\t" if name == "tsv" else ","
    file = InputFile(path, name, (T.STRING,) * width, header=Header.IGNORED, delimiter=delimiter)
    found = [
        row
        for batch in read(file)
        for row in zip(*(c.values.to_pylist() for c in batch.columns), strict=True)
    ]
    assert found == [row[:width] for row in rows]


# ---- complete or absent


def test_nothing_half_written_remains(folder: Path) -> None:
    def interrupted() -> Iterator[Any]:
        yield TABLE
        raise KeyboardInterrupt

    path = folder / "out" / "x.csv"
    for name in ("csv", "parquet", "json", "arrow"):
        with pytest.raises(KeyboardInterrupt):
            write(path, name, ("from", "to"), interrupted())
        assert list((folder / "out").iterdir()) == []


def test_the_old_file_remains_on_error(folder: Path) -> None:
    path = folder / "x.csv"
    path.write_text("old")
    with pytest.raises(DataError):
        write(path, "csv", ("x",), [pa.table({"x": ["a\n"]})], WriteOptions(quoting=False))
    assert path.read_text() == "old"
    assert list(folder.iterdir()) == [path]


def test_cannot_be_written(folder: Path) -> None:
    Path("file").write_text("")
    with pytest.raises(DataError) as caught:
        write(Path("file/x.csv"), "csv", ("from", "to"), [TABLE])
    assert str(caught.value).startswith("error[E515]: `file/x.csv` cannot be written: ")


# ---- RDF

TRIPLES = pa.table(
    {
        "s": ["<http://e.org/a>", "<http://e.org/a>", "_:b"],
        "p": ["<http://e.org/p>", "<http://e.org/q>", "<http://e.org/p>"],
        "o": ['"x \\"y\\""@en', "<http://e.org/o>", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'],
    }
)
QUADS = TRIPLES.add_column(0, "g", pa.array(["<http://e.org/g>", DEFAULT_GRAPH, "<http://e.org/h>"]))
EXPECTED = {
    ("<http://e.org/a>", "<http://e.org/p>", '"x \\"y\\""@en'),
    ("<http://e.org/a>", "<http://e.org/q>", "<http://e.org/o>"),
    ("<_:b>", "<http://e.org/p>", "5"),
}


@pytest.mark.parametrize("name", ["ntriples", "turtle", "nquads", "trig", "rdfxml", "jsonld"])
def test_statements_read_back(rows_of: RowsOf, folder: Path, name: str) -> None:
    path = folder / "x.gz"
    write(path, name, TRIPLES.column_names, [TRIPLES, TRIPLES.slice(1)])
    assert set(rows_of(read(InputFile(path, name, (T.ANY,) * 3, compressed=True)))) == EXPECTED


@pytest.mark.parametrize(
    ("name", "read_as"), [("ntriples", "nquads"), ("turtle", "trig"), ("jsonld", "jsonld")]
)
def test_graphs_read_back(rows_of: RowsOf, folder: Path, name: str, read_as: str) -> None:
    path = folder / "x"
    write(path, name, QUADS.column_names, [QUADS, QUADS.slice(1)])
    rows = set(rows_of(read(InputFile(path, read_as, (T.ANY,) * 4))))
    assert {row[1:] for row in rows} == EXPECTED
    assert {row[0] for row in rows} == {"<http://e.org/g>", DEFAULT_GRAPH, "<http://e.org/h>"}


def test_turtle_writes_subjects_once() -> None:
    assert written("ttl", TRIPLES.slice(0, 2)) == (
        '<http://e.org/a> <http://e.org/p> "x \\"y\\""@en ;\n    <http://e.org/q> <http://e.org/o> .\n'
    )
    assert written("ttl", TRIPLES.slice(0, 0)) == ""


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": ["<a>"]}, "statements of RDF have 3 columns, or 4 with the graph, instead of 1"),
        ({"s": ['"a"'], "p": ["<b>"], "o": ["<c>"]}, '"a" cannot be the subject of a statement'),
        ({"s": ["<a>"], "p": ["_:b"], "o": ["<c>"]}, "_:b cannot be the predicate of a statement"),
        ({"g": ['"g"'], "s": ["<a>"], "p": ["<b>"], "o": ["<c>"]}, '"g" cannot be the graph of a statement'),
    ],
)
def test_what_is_no_statement(columns: dict[str, list[str]], message: str) -> None:
    with pytest.raises(DataError) as caught:
        written("nt", pa.table(columns))
    assert caught.value.diagnostics[0].code == "E517"
    assert caught.value.diagnostics[0].message == message


def test_rdf_xml_has_no_graphs() -> None:
    with pytest.raises(DataError, match=r"E517.*the statements cannot be written as rdfxml"):
        written("rdfxml", QUADS)


def test_sliced_columns_are_written_right() -> None:
    table = TABLE.slice(1, 2).append_column("even", pc.equal(TABLE["to"], 2).slice(1, 2))
    assert written("csv", table, header=False) == '"say ""hi"", you",2,true\n,3,false\n'
