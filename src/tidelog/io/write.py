"""Writing: tables of text or typed columns as files of any format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.ipc

from tidelog.io.atomic import compressing, replacing
from tidelog.io.formats import DELIMITED, canonical_format, is_compressed
from tidelog.io.write_rdf import write_statements
from tidelog.io.write_text import without_formulas, write_delimited, write_json

_SLICE = 1 << 16


@dataclass(frozen=True)
class WriteOptions:
    """How to write. `compressed` is None to follow the extension `.gz`; `limit` is the most rows to write.

    With `escape_formulas`, fields that a spreadsheet would take for formulas are written behind a `'`.
    """

    header: bool = True
    delimiter: str | None = None
    quoting: bool = True
    compressed: bool | None = None
    limit: int | None = None
    escape_formulas: bool = False


def write(
    target: Path | IO[bytes],
    format_name: str,
    names: Sequence[str],
    tables: Iterable[Any],
    options: WriteOptions | None = None,
) -> int:
    """The number of rows written, those of record batches or tables whose columns have these names, in order.

    Text is written as it stands; for the RDF formats it must be terms of N-Triples. A file is complete or
    absent, its folder is made. A nullary predicate comes as one column `holds`, as `Relation` gives it.
    """
    options = options or WriteOptions()
    counter = _Counter(options.limit)
    name = canonical_format(format_name, target if isinstance(target, Path) else None)
    writer = _writer(name, options)
    batches = counter.batches(tables)
    if name not in _TYPED:
        batches = (batch for batch in batches if batch.num_rows)
    if isinstance(target, Path):
        by_name = is_compressed(target) if options.compressed is None else options.compressed
        with replacing(target, by_name) as stream:
            writer(stream, tuple(names), batches)
    else:
        with compressing(target, bool(options.compressed)) as stream:
            writer(stream, tuple(names), batches)
    return counter.rows


Writer = Callable[[IO[bytes], tuple[str, ...], Iterator[Any]], None]


def _writer(name: str, options: WriteOptions) -> Writer:
    if name in DELIMITED:
        delimiter = options.delimiter or ("\t" if name == "tsv" else ",")

        def delimited(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
            rows = map(without_formulas, batches) if options.escape_formulas else batches
            write_delimited(stream, names if options.header else None, rows, delimiter, options.quoting)

        return delimited
    if name in _WRITERS:
        return _WRITERS[name]

    def statements(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
        write_statements(stream, name, len(names), batches)

    return statements


class _Counter:
    """Counts the rows of the batches that pass, and ends them at the limit."""

    def __init__(self, limit: int | None) -> None:
        self.rows = 0
        self._limit = limit

    def batches(self, tables: Iterable[Any]) -> Iterator[Any]:
        """The tables as record batches of few enough rows for one text."""
        for table in tables:
            whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
            # A table without rows has a schema all the same.
            batches = whole.to_batches(max_chunksize=_SLICE) or [pa.RecordBatch.from_pylist([], whole.schema)]
            for batch in batches:
                left = batch.num_rows if self._limit is None else self._limit - self.rows
                if left <= 0 < batch.num_rows:
                    return
                part = batch.slice(0, left)
                self.rows += part.num_rows
                yield part


def _write_parquet(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
    import pyarrow.parquet  # takes a while, and few programs need it

    schema, batches = _schema(names, batches)
    with pyarrow.parquet.ParquetWriter(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_arrow(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
    schema, batches = _schema(names, batches)
    with pyarrow.ipc.new_file(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _schema(names: tuple[str, ...], batches: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    """The schema of the first batch, text if there is none, and the batches with these names."""
    first = next(batches, None)
    if first is None:
        return pa.schema([(name, pa.string()) for name in names]), iter(())
    schema = pa.schema([field.with_name(name) for name, field in zip(names, first.schema, strict=True)])

    def named() -> Iterator[Any]:
        yield pa.RecordBatch.from_arrays(first.columns, schema=schema)
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return schema, named()


def _write_json(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
    write_json(stream, names, batches, lines=False)


def _write_json_lines(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
    write_json(stream, names, batches, lines=True)


_TYPED = ("parquet", "arrow")  # a batch without rows says what the columns are
_WRITERS: dict[str, Writer] = {
    "parquet": _write_parquet,
    "arrow": _write_arrow,
    "json": _write_json,
    "jsonl": _write_json_lines,
}
