"""Imports and exports of a program as Spark's readers and writers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
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
from tidelog.spark.given import Given, held_by
from tidelog.spark.schemas import Input, read_input

DELIMITED: Final = ("csv", "tsv", "dsv")
FORMATS: Final = (*DELIMITED, "parquet", "json", "jsonl")
_STRING: Final = spark_types.StringType()
_NO_NULL: Final = "\x01"  # no field is this text, so that none is read as missing


def read_program(
    program: Program,
    session: SparkSession,
    files: Iterable[Path],
    header: bool | None,
    settings: Mapping[str, Any],
) -> tuple[Given, dict[str, DataFrame]]:
    """Return a program with the frames of its imports and of data files, each named after its predicate."""
    inputs: dict[str, Input] = {}
    frames: dict[str, DataFrame] = {}

    def add(predicate: Predicate, file: DataFile, span: Span | None) -> None:
        name = f"{predicate.written} {len(frames)}"
        frames[name], inputs[name] = _read(session, file, predicate, span)

    known = program
    for transfer in program.imports:
        predicate = program.predicates[transfer.predicate]
        add(predicate, import_file(transfer, predicate), transfer.span)
    for path in files:
        found = predicate_of(path, known.predicates)
        if found in known.predicates:
            add(known.predicates[found], data_file(path, known.predicates[found], header), None)
    timed = [each.predicate.name for each in inputs.values() if each.times]
    known = giving_times(replace(known, imports=(), exports=()), timed)
    inferred = infer(known, *held_by(inputs.values()))
    return Given(known, inputs, inferred, settings), frames


def _read(
    session: SparkSession, file: DataFile, predicate: Predicate, span: Span | None
) -> tuple[DataFrame, Input]:
    """Return the frame of a file, and how its columns are read."""
    if file.format not in FORMATS:
        raise _no_format(file.format, span)
    if file.path is None:
        message = "Spark does not read standard input"
        raise DataError(Diagnostic(codes.FORMAT, message, span, "write it to a file first"))
    if file.format in DELIMITED:
        return _delimited(session, file, predicate)
    path = str(file.path)
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
    return _limited(frame, file), replace(read, nulls=file.nulls)


def _delimited(session: SparkSession, file: DataFile, predicate: Predicate) -> tuple[DataFrame, Input]:
    """Return the columns of a delimited file as texts, which a task reads as those of files are."""
    names, has_header = _columns(file, predicate)
    schema = spark_types.StructType([spark_types.StructField(name, _STRING) for name in names])
    frame = session.read.csv(
        str(file.path),
        schema,
        sep=file.delimiter,
        header=has_header,
        quote='"' if file.quoting else "",
        escape='"',
        multiLine=file.quoting,  # a quoted field may go on in the next line
        nullValue=_NO_NULL,
        emptyValue="",
        mode="FAILFAST",
    )
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
    return _limited(frame, file), Input(predicate, tuple(chosen), spark, columns, times, fields, file.nulls)


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


def _limited(frame: DataFrame, file: DataFile) -> DataFrame:
    return frame if file.limit is None else frame.limit(file.limit)


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
