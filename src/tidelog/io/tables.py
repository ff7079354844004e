"""Reading: the rows of a file of any format, as batches of columns."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import DataError, Diagnostic
from tidelog.io import codes
from tidelog.io.arrow_files import read_arrow, read_parquet
from tidelog.io.columns import Batch
from tidelog.io.delimited import read_delimited
from tidelog.io.json_files import read_json, read_json_lines
from tidelog.io.rdf import read_rdf
from tidelog.io.recognise import check_kind
from tidelog.io.rejects import Faults
from tidelog.io.source import DataFile, import_file
from tidelog.logic.program import Predicate, Transfer
from tidelog.logic.values import ColumnType

Reader = Callable[[DataFile, Faults, int], Iterator[Batch]]

READERS: dict[str, Reader] = {
    "csv": read_delimited,
    "tsv": read_delimited,
    "dsv": read_delimited,
    "json": read_json,
    "jsonl": read_json_lines,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "ntriples": read_rdf,
    "turtle": read_rdf,
    "nquads": read_rdf,
    "trig": read_rdf,
    "rdfxml": read_rdf,
    "jsonld": read_rdf,
}


def read_import(
    transfer: Transfer, predicate: Predicate, faults: Faults | None = None, threads: int = 1
) -> Iterator[Batch]:
    """The rows that an import of a program brings."""
    return read(import_file(transfer, predicate), faults, threads)


def read(file: DataFile, faults: Faults | None = None, threads: int = 1) -> Iterator[Batch]:
    """The rows of a file; those that cannot be read go to `faults`, by default an error at the file's end."""
    faults = Faults() if faults is None else faults
    check_kind(file)
    try:
        for batch in _limited(_rows(file, faults, threads), file.limit):
            faults.rows += batch.rows
            yield batch
    except pa.ArrowMemoryError:  # says nothing about the file
        raise
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        message = f"`{file.shown}` cannot be read as {file.format}: {error}"
        raise DataError(Diagnostic(codes.NOT_OF_FORMAT, message, place=file.shown)) from error
    faults.check()


def _rows(file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    reader = READERS[file.format]
    if file.types != ():
        return reader(file, faults, threads)
    return _read_nullary(
        reader(replace(file, types=(ColumnType.BOOLEAN,), names=("holds",)), faults, threads)
    )


def _read_nullary(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The one row of a predicate without columns, if one of the rows says `true`."""
    holds = [pc.any(batch.columns[0].values).as_py() for batch in batches]
    if any(holds):
        yield Batch((), 1)


def _limited(batches: Iterator[Batch], limit: int | None) -> Iterator[Batch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left > 0:
            yield batch.slice(left)
        left -= batch.rows
        if left <= 0:
            return
