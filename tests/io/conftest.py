"""Fixtures: files in a working folder of their own, and batches as rows of values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tidelog.data.arrow import is_text
from tidelog.data.columns import NULL, Batch, Column
from tidelog.io.data_file import InputFile
from tidelog.io.reader import read
from tidelog.io.rejects import RejectedRows
from tidelog.logic import conversions, values
from tidelog.logic.values import ColumnType, Value

Rows = list[tuple[str, ...]]
ReadRows = Callable[..., Rows]
TEXTS = frozenset({ColumnType.ANY, ColumnType.STRING, ColumnType.IRI, ColumnType.TERM})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder of the test, so that messages show short paths."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def column_values(column: Column) -> list[Value]:
    """The values of a column as its contract says that an engine reads them."""
    assert column.values.null_count == 0
    if is_text(column.values.type) and column.type not in TEXTS:
        texts = column.values.to_pylist()
        return [conversions.read_typed(text, column.type) if text.strip() else NULL for text in texts]
    match column.type:
        case ColumnType.DATE:
            return [values.date(days) for days in column.values.cast(pa.int32()).to_pylist()]
        case ColumnType.DATETIME:
            offset = None if column.values.type.tz is None else 0
            moments = column.values.cast(pa.int64()).to_pylist()
            return [values.date_time(moment, offset) for moment in moments]
    items = column.values.to_pylist()
    match column.type:
        case ColumnType.ANY if column.parse_numbers:
            return [conversions.read_any(item) for item in items]
        case ColumnType.ANY:
            return [conversions.from_python(item) for item in items]
        case ColumnType.STRING | ColumnType.IRI | ColumnType.TERM:
            return [conversions.read_typed(item, column.type) for item in items]
        case _:
            return [conversions.from_python(item, column.type) for item in items]


def exact_rows(batches: Iterable[Batch]) -> Rows:
    """The rows of all batches, each value written exactly."""
    rows: Rows = []
    for batch in batches:
        columns = [[conversions.exact(value) for value in column_values(column)] for column in batch.columns]
        assert all(len(column) == batch.rows for column in columns)
        rows += zip(*columns, strict=True) if columns else [()] * batch.rows
    return rows


@pytest.fixture
def rows_of() -> Callable[[Iterable[Batch]], Rows]:
    """`exact_rows`."""
    return exact_rows


@pytest.fixture
def read_rows() -> ReadRows:
    """A reader of a text or of bytes in a format, that gives rows of exact terms."""

    def reader(
        content: str | bytes,
        types: tuple[ColumnType, ...] | None = None,
        *,
        name: str = "edge.csv",
        faults: RejectedRows | None = None,
        threads: int = 1,
        file_format: str | None = None,
        **options: object,
    ) -> Rows:
        path = Path(name)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        format_name = file_format or path.suffix[1:]
        return exact_rows(read(InputFile(path, format_name, types, **options), faults, threads))  # type: ignore[arg-type]

    return reader
