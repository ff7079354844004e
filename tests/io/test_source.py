"""Imports, exports and data files: what they read and write, by options, extensions and names."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.data.columns import Batch
from tidelog.errors import DataError
from tidelog.io.data_file import (
    Header,
    data_file,
    data_files,
    file_name,
    format_of,
    import_file,
    predicate_of,
    stem_of,
)
from tidelog.io.reader import read_import
from tidelog.io.write import WriteOptions, export_file
from tidelog.logic.program import Predicate, Transfer
from tidelog.logic.values import ColumnType as T

RowsOf = Callable[[Iterable[Batch]], list[tuple[str, ...]]]
EDGE = Predicate("edge", 2, ("from", "to"), (T.ANY, T.INTEGER), "edge", declared=True)
PLAIN = Predicate("edge", 2, ("x", "y"), (T.ANY, T.ANY), "edge")


def transfer(
    file_format: str = "csv",
    types: tuple[T, ...] | None = None,
    folder: Path | None = None,
    **options: Any,
) -> Transfer:
    return Transfer("edge", file_format, {"resource": "edge.csv", **options}, types, folder)


def test_import(rows_of: RowsOf, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "edge.csv").write_text("to,from\n1,a\n2,b\n")
    wanted = transfer(folder=folder / "sub", header=True, limit=1)
    assert rows_of(read_import(wanted, EDGE)) == [("a", "1")]
    with_format = transfer(types=(T.SKIP, T.STRING, T.SKIP), folder=folder / "sub", ignore_headers=True)
    assert import_file(with_format, Predicate("p", 1, (None,), (T.ANY,), "p")).types == (
        T.SKIP,
        T.STRING,
        T.SKIP,
    )


def test_names_matter_only_if_declared_and_without_format(folder: Path) -> None:
    assert import_file(transfer(header=True), EDGE).names == ("from", "to")
    assert import_file(transfer(header=True), PLAIN).names == ()
    assert import_file(transfer(header=True, types=(T.ANY, T.ANY)), EDGE).names == ()


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ({}, "header", Header.NONE),
        ({"header": True}, "header", Header.NAMES),
        ({"ignore_headers": True}, "header", Header.IGNORED),
        ({"ignore_headers": "true"}, "header", Header.IGNORED),
        ({"quoting": False}, "quoting", False),
        ({"delimiter": ";"}, "delimiter", ";"),
        ({"delimiter": "\\t"}, "delimiter", "\t"),
        ({"resource": "x.csv.gz"}, "compressed", True),
        ({"resource": "x.csv.gz", "compression": "none"}, "compressed", False),
        ({"compression": "gzip"}, "compressed", True),
        ({"limit": 5}, "limit", 5),
        ({"resource": ""}, "path", None),
        ({"resource": "file:///tmp/a%20b.csv"}, "path", Path("/tmp/a b.csv")),
    ],
)
def test_import_options(options: dict[str, Any], field: str, value: object) -> None:
    assert getattr(import_file(transfer("dsv", **options), EDGE), field) == value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": "yes"}, "the option `header` is neither true nor false"),
        ({"limit": -1}, "the option `limit` is not a number of rows"),
        ({"limit": True}, "the option `limit` is not a number of rows"),
        ({"delimiter": ";;"}, "the option `delimiter` is not one ASCII character"),
        ({"delimiter": '"'}, "the option `delimiter` is not one ASCII character"),
        ({"compression": "zip"}, 'the option `compression` is neither "gzip" nor "none"'),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        import_file(transfer("dsv", **options), EDGE)
    assert [(fault.code, fault.message) for fault in caught.value.diagnostics] == [("E509", message)]


def test_format_of_another_width() -> None:
    with pytest.raises(DataError, match=r"E509.*the option `format` has 1 column, `edge` has 2"):
        import_file(transfer(types=(T.ANY,)), EDGE)


def test_addresses_are_not_fetched() -> None:
    with pytest.raises(DataError, match=r"E501.*`https://e.org/x.csv` is not a file on this machine"):
        import_file(transfer(resource="https://e.org/x.csv"), EDGE)


def test_rdf_is_known_by_its_extension() -> None:
    assert import_file(transfer("rdf", resource="x.ttl.gz", types=(T.ANY, T.ANY)), PLAIN).format == "turtle"
    assert import_file(transfer("rdf", resource="x", types=(T.ANY, T.ANY)), PLAIN).format == "ntriples"


def test_standard_input(rows_of: RowsOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,1\nb,x\n")))
    with pytest.raises(DataError, match="<stdin>:2:2"):
        rows_of(read_import(transfer(resource=""), EDGE))


def test_data_files(folder: Path) -> None:
    for name in ("b.csv", "a.nt.gz", "c.txt", ".hidden.csv", "d.parquet"):
        (folder / name).write_bytes(b"")
    (folder / "e.csv").mkdir()
    names = [path.name for path in data_files([folder, Path("x.doc")])]
    assert names == ["a.nt.gz", "b.csv", "d.parquet", "x.doc"]


def test_data_file_headers() -> None:
    assert data_file(Path("edge.tsv.gz"), EDGE).delimiter == "\t"
    assert data_file(Path("edge.tsv.gz"), EDGE).compressed
    assert data_file(Path("edge.csv"), EDGE).header is Header.DETECTED
    assert data_file(Path("edge.csv"), EDGE, header=True).header is Header.NAMES
    assert data_file(Path("edge.csv"), EDGE, header=False).header is Header.NONE
    assert data_file(Path("edge.csv"), None).types is None


def test_predicates_of_files() -> None:
    known = {"edge": EDGE, "http://e.org/p": Predicate("http://e.org/p", 2, (), (), "ex:p")}
    assert predicate_of(Path("edge.csv"), known) == "edge"
    assert predicate_of(Path("d/ex%3Ap.csv.gz"), known) == "http://e.org/p"
    assert predicate_of(Path("other.csv"), known) == "other"
    assert predicate_of(Path("lubm.nt"), known) == "triple"
    assert predicate_of(Path("edge.nt"), known) == "edge"


@pytest.mark.parametrize(
    ("written", "name", "arity", "expected"),
    [
        ("edge", "csv", 2, "edge.csv"),
        ("ex:edge", "tsv", 2, "ex%3Aedge.tsv"),
        ("<http://e.org/a b>", "jsonl", 2, "%3Chttp%3A%2F%2Fe.org%2Fa%20b%3E.jsonl"),
        ("größe", "csv", 2, "größe.csv"),
        ("q", "nt", 3, "q.nt"),
        ("q", "nt", 4, "q.nq"),
        ("q", "ttl", 4, "q.trig"),
    ],
)
def test_file_names(written: str, name: str, arity: int, expected: str) -> None:
    assert file_name(written, name, arity) == expected


@given(st.text(min_size=1), st.sampled_from(["csv", "jsonl", "nt", "parquet"]), st.sampled_from(["", ".gz"]))
def test_file_names_tell_their_predicate(written: str, name: str, compression: str) -> None:
    path = Path(file_name(written, name) + compression)
    assert stem_of(path) == written
    assert format_of(path) is not None
    assert len(path.parts) == 1


def test_exports(folder: Path) -> None:
    found = export_file(transfer(resource="out/x.csv.gz"), EDGE, folder)
    assert (found.path, found.format) == (folder / "out" / "x.csv.gz", "csv")
    assert found.options == WriteOptions(compressed=True)
    assert export_file(transfer(resource=""), EDGE).path is None
    bare = Transfer("edge", "tsv", {"compression": "gzip", "header": False, "limit": 3}, None, folder)
    assert export_file(bare, EDGE).path == folder / "edge.tsv.gz"
    assert export_file(bare, EDGE).options == WriteOptions(header=False, compressed=True, limit=3)
    assert export_file(transfer(types=(T.SKIP, T.INTEGER)), EDGE).columns == (1,)


def test_importing_needs_no_extra() -> None:
    code = (
        "import sys, tidelog.io.reader, tidelog.io.write, tidelog.io.python_data, tidelog.io.write\n"
        "print([m for m in ('pyoxigraph', 'pandas', 'polars', 'pyarrow.parquet') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
