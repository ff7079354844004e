"""Imports and exports of a program as Spark's readers and writers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.errors import DataError, Diagnostic, Span
from tidelog.io.export import Export
from tidelog.io.source import DataFile, Header, data_file, import_file, predicate_of
from tidelog.logic.inference import infer
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import giving_times
from tidelog.logic.types import types_of_column
from tidelog.logic.values import ColumnType
from tidelog.spark import codes
from tidelog.spark.derived import quoted
from tidelog.spark.frames import PREDICATE, Frames
from tidelog.spark.given import Given, held_by
from tidelog.spark.schemas import Input, read_input

DELIMITED: Final = ("csv", "tsv", "dsv")
FORMATS: Final = (*DELIMITED, "parquet", "json", "jsonl")
_STRING: Final = spark_types.StringType()
_NO_NULL: Final = "\x01"  # what Spark takes an empty field without quotes for, and makes NULL: an empty text
_METADATA: Final = "_metadata"  # a column that Spark has for each row of a file
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # names that Spark tells as they are
_GLOB: Final = re.compile(r"[{}\[\]*?\\]")  # in a path these stand for many files


@dataclass(frozen=True)
class Reader:
    """How Spark reads a file. Files whose readers are equal can be read in one scan."""

    format: str
    schema: spark_types.StructType
    delimiter: str = ""
    has_header: bool = False
    is_quoted: bool = False

    def read(self, session: SparkSession, paths: Sequence[Path], tag: str | None = None) -> DataFrame:
        """Return the rows of all files; with a tag, a column of this name says from which file they are."""
        escaped = [_GLOB.sub(r"\\\g<0>", str(path)) for path in paths]
        reader = session.read.schema(self.schema)
        if self.format in DELIMITED:
            frame = reader.csv(
                escaped,
                sep=self.delimiter,
                header=self.has_header,
                quote='"' if self.is_quoted else "",
                escape='"',
                multiLine=self.is_quoted,  # a quoted field may go on in the next line
                nullValue=_NO_NULL,
                emptyValue="",
                mode="FAILFAST",
            )
        elif self.format == "parquet":
            frame = reader.parquet(*escaped)
        else:
            frame = reader.json(escaped, multiLine=self.format == "json")
        if tag is not None:
            frame = frame.withColumn(tag, F.col(f"{_METADATA}.file_name"))
        return frame.fillna("", self.schema.names) if self.format in DELIMITED else frame


@dataclass(frozen=True)
class _Import:
    """A file, how Spark reads it, and how tasks read its columns."""

    path: Path
    limit: int | None
    reader: Reader
    input: Input

    @property
    def may_share(self) -> bool:
        """Whether other files can be read in the same scan, and rows be told apart by the file's name."""
        return (
            self.limit is None
            and self.path.is_file()  # not a folder of files
            and _PLAIN.fullmatch(self.path.name) is not None
            and not {PREDICATE, _METADATA} & set(self.reader.schema.names)
        )


def read_program(
    program: Program,
    session: SparkSession,
    files: Iterable[Path],
    header: bool | None,
    settings: Mapping[str, Any],
) -> tuple[Given, Frames]:
    """Return a program with the frames of its imports and of data files.

    Files that Spark reads in the same way are one frame.
    """
    found: list[_Import] = []
    for transfer in program.imports:
        predicate = program.predicates[transfer.predicate]
        found.append(_import(session, import_file(transfer, predicate), predicate, transfer.span))
    for path in files:
        name = predicate_of(path, program.predicates)
        if name in program.predicates:
            predicate = program.predicates[name]
            found.append(_import(session, data_file(path, predicate, header), predicate, None))
    named = _named(found, program)
    inputs = {name: each.input for name, each in named.items()}
    timed = [each.predicate.name for each in inputs.values() if each.times]
    known = giving_times(replace(program, imports=(), exports=()), timed)
    inferred = infer(known, *held_by(inputs.values()))
    return Given(known, inputs, inferred, settings), _frames(session, named)


def _named(found: Iterable[_Import], program: Program) -> dict[str, _Import]:
    """Return imports by the names of their frames: the file's name where its rows are told apart by that.

    A name is used once: a second file of that name, or the same file again, is read alone. So is a file of
    typed columns that no rule reads, since its rows need not pass through a task.
    """
    matter = {atom.predicate for rule in program.rules for atom in (*rule.positive, *rule.negated)}
    matter |= program.derived
    named: dict[str, _Import] = {}
    for each in found:
        read, name = each.input, each.path.name
        passes = read.fields is not None or read.predicate.name in matter
        if name in named or not passes or not each.may_share:
            name = f"{read.predicate.written} {len(named)}"  # has a space, which names of shared files lack
        named[name] = each
    return named


def _frames(session: SparkSession, named: Mapping[str, _Import]) -> Frames:
    """Return the frames of imports: one for all files of the same reader and columns."""
    groups: dict[tuple[Reader, tuple[str, ...]] | str, list[str]] = {}
    for name, each in named.items():
        key = (each.reader, each.input.columns) if name == each.path.name else name
        groups.setdefault(key, []).append(name)
    frames: dict[str | tuple[str, ...], DataFrame] = {}
    for names in groups.values():
        first = named[names[0]]
        if len(names) > 1:
            paths = [named[name].path for name in names]
            frames[tuple(names)] = first.reader.read(session, paths, PREDICATE)
        else:
            frame = first.reader.read(session, [first.path])
            frames[names[0]] = frame if first.limit is None else frame.limit(first.limit)
    return Frames(frames)


def _import(session: SparkSession, file: DataFile, predicate: Predicate, span: Span | None) -> _Import:
    """Return how a file is read."""
    if file.format not in FORMATS:
        raise _no_format(file.format, span)
    if file.path is None:
        message = "Spark does not read standard input"
        raise DataError(Diagnostic(codes.FORMAT, message, span, "write it to a file first"))
    if file.format in DELIMITED:
        return _Import(file.path, file.limit, *_delimited(file, predicate))
    path = _GLOB.sub(r"\\\g<0>", str(file.path))
    frame = (
        session.read.parquet(path)
        if file.format == "parquet"
        else session.read.json(path, multiLine=file.format == "json")
    )
    read, faults = read_input(predicate.written, predicate, frame.schema)
    if read is None:
        raise DataError(replace(fault, place=file.shown) for fault in faults)
    if file.types is not None and file.types[: predicate.arity] != predicate.types:
        fields = file.types[: predicate.arity]
        read = replace(read, fields=fields, types=tuple(map(types_of_column, fields)))
    reader = Reader(file.format, frame.schema)
    return _Import(file.path, file.limit, reader, replace(read, nulls=file.nulls))


def _delimited(file: DataFile, predicate: Predicate) -> tuple[Reader, Input]:
    """Return how a delimited file is read: as columns of texts, which a task reads as those of files are."""
    names, has_header = _columns(file, predicate)
    schema = spark_types.StructType([spark_types.StructField(name, _STRING) for name in names])
    types = file.types or (ColumnType.ANY,) * len(names)
    wanted = [place for place, of in enumerate(types) if of is not ColumnType.SKIP]
    may_be_named = file.header in (Header.NAMES, Header.DETECTED) and has_header
    if may_be_named and file.names and set(file.names) <= set(names):
        chosen = [str(name) for name in file.names]
    else:
        chosen = [names[place] for place in wanted]
    count = len(chosen) - file.times
    fields = tuple(types[place] for place in wanted)[:count]
    columns = tuple(map(types_of_column, fields))
    times = tuple(chosen[count:])
    spark = (_STRING,) * len(chosen)
    reader = Reader(file.format, schema, file.delimiter, has_header, file.quoting)
    return reader, Input(predicate, tuple(chosen), spark, columns, times, fields, file.nulls)


def _columns(file: DataFile, predicate: Predicate) -> tuple[list[str], bool]:
    """Return the names of the columns of a delimited file, and whether its first row has them."""
    with file.open() as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        if file.quoting:
            first = next(csv.reader(text, delimiter=file.delimiter), [])
        else:
            first = text.readline().rstrip("\r\n").split(file.delimiter)
    expected = len(file.types) if file.types is not None else len(first)
    plain = [f"c{place}" for place in range(1, expected + 1)]
    is_named = bool(file.names) and None not in file.names and set(file.names) <= set(first)
    match file.header:
        case Header.NONE:
            return plain, False
        case Header.IGNORED:
            return plain, True
        case Header.NAMES:
            return (first, True) if is_named else (plain, True)
        case _:
            return (first, True) if is_named else (plain, False)


def write_frame(frame: DataFrame, export: Export, span: Span | None = None) -> None:
    """Write a frame to a folder, whose files are of the export's format. This runs a job."""
    if export.format not in FORMATS or export.path is None:
        raise _no_format(export.format if export.path is not None else "standard output", span)
    chosen = frame.select(*(quoted(frame.columns[place]) for place in _places(frame, export.columns)))
    options = export.options
    if options.limit is not None:
        chosen = chosen.limit(options.limit)
    writer = chosen.write.mode("overwrite")
    path, compression = str(export.path), "gzip" if options.compressed else None
    if export.format == "parquet":
        writer.parquet(path)
    elif export.format in DELIMITED:
        otherwise = "\t" if export.format == "tsv" else ","
        writer.csv(
            path,
            sep=options.delimiter or otherwise,
            header=options.header,
            compression=compression,
            quote='"' if options.quoting else "",
            escape='"',
            emptyValue="",
        )
    else:
        writer.json(path, compression=compression)


def _places(frame: DataFrame, columns: Sequence[int]) -> Sequence[int]:
    """Return the places of the columns of an export: all that say when go with them."""
    return (*columns, *range(max(columns, default=-1) + 1, len(frame.columns)))


def _no_format(name: str, span: Span | None) -> DataError:
    help = f"Spark reads and writes {', '.join(FORMATS)}; without `--engine spark` all formats serve"
    return DataError(Diagnostic(codes.FORMAT, f"`{name}` is no format of Spark's", span, help))
