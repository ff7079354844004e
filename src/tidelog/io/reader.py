"""Reading: the rows of a file of any format, as batches of columns; formats by the first bytes."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from typing import Final

import pyarrow as pa

from tidelog.data.arrow import pc
from tidelog.data.columns import Batch
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.io.arrow_files import read_arrow, read_parquet
from tidelog.io.data_file import DELIMITED, EXTENSIONS, InputFile, import_file
from tidelog.io.delimited import read_delimited
from tidelog.io.json_files import read_json, read_json_lines
from tidelog.io.rejects import RejectedRows
from tidelog.logic.program import Predicate, Transfer
from tidelog.logic.values import ColumnType

# ---- formats by the first bytes of a file

_BEGINNING: Final = 1 << 10  # bytes
_TEXTS: Final = frozenset(EXTENSIONS) - {"parquet", "arrow"}
_NAMES: Final = {
    "csv": "CSV",
    "tsv": "TSV",
    "dsv": "delimited text",
    "json": "JSON",
    "jsonl": "lines of JSON",
    "parquet": "Parquet",
    "arrow": "Arrow",
    "ntriples": "N-Triples",
    "turtle": "Turtle",
    "nquads": "N-Quads",
    "trig": "TriG",
    "rdfxml": "RDF/XML",
    "jsonld": "JSON-LD",
}
# What files begin with, what that is, and the formats that it may be.
_MARKS: Final[tuple[tuple[bytes, str, Set[str]], ...]] = (
    (rb"PAR1", "Parquet", {"parquet"}),
    (rb"ARROW1|\xff\xff\xff\xff[\s\S]{2}\0\0", "Arrow", {"arrow"}),
    (rb"\x1f\x8b", "compressed with gzip", set()),
    (rb"PK\x03\x04", "a zip archive", set()),
    (rb"BZh[1-9]1AY", "compressed with bzip2", set()),
    (rb"\x28\xb5\x2f\xfd", "compressed with zstd", set()),
    (rb"\xfd7zXZ\0", "compressed with xz", set()),
    (rb"SQLite format 3\0", "an SQLite database", set()),
    (rb"\xff\xfe|\xfe\xff", "text in UTF-16", set()),
    (rb"\s*<(?:\?xml|rdf:RDF)\b", "XML", DELIMITED | {"rdfxml"}),
    (rb"\s*(?i:<!doctype html|<html\b)", "HTML", DELIMITED),
    (rb"\s*(?:#.*\s+)*(?:@prefix|@base|(?i:PREFIX))\s", "Turtle", DELIMITED | {"turtle", "trig", "rdfxml"}),
    (rb'\s*(?:\[\s*[\[{"\d\]]|\{\s*["}])', "JSON", DELIMITED | {"json", "jsonl", "jsonld", "turtle", "trig"}),
)
_HELP: Final = {
    "compressed with gzip": 'let its name end with `.gz`, or import it with `compression = "gzip"`',
    "text in UTF-16": "save it as UTF-8",
    "XML": "import it as rdfxml, or let its name end with `.rdf`",
}


def check_kind(file: InputFile) -> None:
    """Raise `DataError` if a file is plainly of another format than it is read as."""
    if file.path is None or not file.path.is_file():
        return
    try:
        with file.open() as stream:
            beginning = stream.read(_BEGINNING)
    except gzip.BadGzipFile:
        raise _wrong(file, None, "gzip") from None
    except (OSError, EOFError, zlib.error):  # it is reported when it is read
        return
    kind, formats = recognised(beginning)
    if kind is not None and file.format not in formats:
        raise _wrong(file, kind, _NAMES[file.format])
    if kind is None and file.format not in _TEXTS:
        raise _wrong(file, "empty" if not beginning else None, _NAMES[file.format])


def recognised(beginning: bytes) -> tuple[str | None, Set[str]]:
    """Return what a file with this beginning is, if that is plain, and the formats that it may be read as.

    >>> recognised(b"PAR1 and so on")
    ('Parquet', {'parquet'})
    """
    text = beginning.removeprefix(b"\xef\xbb\xbf")
    for pattern, kind, formats in _MARKS:
        if re.match(pattern, text):
            return kind, formats
    return None, _TEXTS


def _wrong(file: InputFile, kind: str | None, expected: str) -> DataError:
    message = f"`{file.shown}` is {kind}, not {expected}" if kind else f"`{file.shown}` is not {expected}"
    known = next((name for name, called in _NAMES.items() if called == kind), None)
    help_line = f"import it as {known}, or let its name end with `{EXTENSIONS[known][0]}`" if known else None
    if expected == "gzip":
        help_line = "let its name end without `.gz`, or download it again"
    help_line = _HELP.get(kind or "", help_line)
    return DataError(Diagnostic(codes.NOT_OF_FORMAT, message, place=file.shown, help=help_line))


# ---- reading

Reader = Callable[[InputFile, RejectedRows, int], Iterator[Batch]]


def _read_rdf(file: InputFile, faults: RejectedRows, threads: int) -> Iterator[Batch]:
    from tidelog.io.rdf import read_rdf

    return read_rdf(file, faults, threads)


READERS: dict[str, Reader] = {
    "csv": read_delimited,
    "tsv": read_delimited,
    "dsv": read_delimited,
    "json": read_json,
    "jsonl": read_json_lines,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "ntriples": _read_rdf,
    "turtle": _read_rdf,
    "nquads": _read_rdf,
    "trig": _read_rdf,
    "rdfxml": _read_rdf,
    "jsonld": _read_rdf,
}


def read_import(
    transfer: Transfer, predicate: Predicate, faults: RejectedRows | None = None, threads: int = 1
) -> Iterator[Batch]:
    """The rows that an import of a program brings."""
    return read(import_file(transfer, predicate), faults, threads)


def read(file: InputFile, faults: RejectedRows | None = None, threads: int = 1) -> Iterator[Batch]:
    """The rows of a file; those that cannot be read go to `faults`, by default an error at the file's end."""
    faults = RejectedRows() if faults is None else faults
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


def _rows(file: InputFile, faults: RejectedRows, threads: int) -> Iterator[Batch]:
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
