"""Files that are named after another format: the error names what was expected, and what the file is."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.fuzz.targets import TEXTS

from tidelog.errors import DataError
from tidelog.io.data_file import EXTENSIONS
from tidelog.logic.values import ColumnType as T

ReadRows = Callable[..., list[tuple[str, ...]]]
TABLE = pa.table({"a": ["x"], "b": ["y"], "c": ["z"]})


def parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(TABLE, sink)
    return bytes(sink.getvalue().to_pybytes())


def arrow(new: Callable[..., pa.RecordBatchWriter]) -> bytes:
    sink = pa.BufferOutputStream()
    with new(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return bytes(sink.getvalue().to_pybytes())


FILES = {
    "Parquet": parquet(),
    "Arrow": arrow(pa.ipc.new_file),
    "Arrow stream": arrow(pa.ipc.new_stream),
    "compressed with gzip": gzip.compress(b"a,b,c\n"),
    "a zip archive": b"PK\x03\x04\x14\x00",
    "text in UTF-16": "a,b,c\n".encode("utf-16"),
    **{name: samples[0] for name, samples in TEXTS.items()},
}
OWN = {"Parquet": "parquet", "Arrow": "arrow", "Arrow stream": "arrow"}


@pytest.mark.parametrize(
    "kind", ["Parquet", "Arrow", "Arrow stream", "compressed with gzip", "a zip archive", "text in UTF-16"]
)
@pytest.mark.parametrize("name", EXTENSIONS)
def test_binary_files_under_another_name(read_rows: ReadRows, kind: str, name: str) -> None:
    if OWN.get(kind) == name:
        return
    with pytest.raises(DataError) as error:
        read_rows(FILES[kind], (T.ANY,) * 3, name="x" + EXTENSIONS[name][0], file_format=name)
    (fault,) = error.value.diagnostics
    assert fault.code == "E502"
    assert f" is {kind.removesuffix(' stream')}, not " in fault.message


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        ("csv", "parquet", "`x.parquet` is not Parquet"),
        ("csv", "arrow", "`x.arrow` is not Arrow"),
        ("json", "parquet", "`x.parquet` is JSON, not Parquet"),
        ("json", "ntriples", "`x.nt` is JSON, not N-Triples"),
        ("turtle", "json", "`x.json` is Turtle, not JSON"),
        ("rdfxml", "turtle", "`x.ttl` is XML, not Turtle"),
        ("rdfxml", "jsonl", "`x.jsonl` is XML, not lines of JSON"),
    ],
)
def test_texts_under_another_name(read_rows: ReadRows, content: str, name: str, told: str) -> None:
    with pytest.raises(DataError) as error:
        read_rows(FILES[content], (T.ANY,) * 3, name="x" + EXTENSIONS[name][0], file_format=name)
    assert error.value.diagnostics[0].message == told


@pytest.mark.parametrize("name", TEXTS)
def test_texts_under_their_own_name(read_rows: ReadRows, name: str) -> None:
    for sample in TEXTS[name]:
        try:
            read_rows(sample, (T.ANY,) * 3, name="x" + EXTENSIONS[name][0], file_format=name)
        except DataError as error:
            assert error.diagnostics[0].code != "E502"


def test_what_is_not_compressed(read_rows: ReadRows) -> None:
    with pytest.raises(DataError, match=r"`x.csv.gz` is not gzip"):
        read_rows("a,b\n", (T.ANY,) * 2, name="x.csv.gz", file_format="csv", compressed=True)


def test_an_empty_file(read_rows: ReadRows) -> None:
    assert read_rows("", (T.ANY,) * 2, name="x.csv") == []
    with pytest.raises(DataError, match=r"`x.parquet` is empty, not Parquet"):
        read_rows("", (T.ANY,) * 2, name="x.parquet")
