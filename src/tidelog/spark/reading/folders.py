"""Imports and exports of a program (`read_program`, `write_frame`), and folders of changes (`incoming`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types

from tidelog.errors import DataError, Diagnostic, Span, codes, counted
from tidelog.io.data_file import (
    EXTENSIONS,
    Header,
    InputFile,
    data_file,
    format_of,
    import_file,
    predicate_of,
)
from tidelog.io.rejects import MOST_COUNTED, BadRow, OnError, RejectedRows
from tidelog.io.row_readers import FAULT, FILE, ArrivingFileReader, CarriedFile
from tidelog.io.write import Export
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import giving_times
from tidelog.logic.type_inference import infer
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.spark.frames import quoted, union
from tidelog.spark.maintenance import OPERATION
from tidelog.spark.reading.source_columns import DELIMITED, source_of
from tidelog.spark.reading.source_frames import CombinedSources, combine_sources, read_source
from tidelog.spark.reading.source_rows import REJECTED, SourceRows, read_schema, shape_of
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship
from tidelog.spark.stages import BoundProgram, InputFrames, read_by, types_in
from tidelog.spark.table_changes import CHANGE_TYPE

DELIMITED_FORMATS: Final = ("csv", "tsv", "dsv")
WRITTEN: Final = (*DELIMITED_FORMATS, "parquet", "json", "jsonl")  # the formats of exports


@dataclass(frozen=True)
class ProgramFrames:
    """A program, and its imports and data files as frames, which are lazy."""

    bound: BoundProgram
    frames: InputFrames
    sources: CombinedSources

    @contextmanager
    def rejecting(self) -> Iterator[None]:
        """Raise the errors of rows that jobs in the block cannot read, if `OnError.FAIL`."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            if REJECTED not in str(error):
                raise
            faults = RejectedRows(OnError.FAIL)
            rows = union(
                [reading.rejects.select("place", "line", "code", "reason") for reading in self._readings]
            )
            rejects = rows.limit(MOST_COUNTED).collect()  # no more are reported
            for row in sorted(rejects, key=lambda row: (row.place.partition(":")[0], row.line or 0)):
                faults.add(BadRow(Diagnostic(row.code, row.reason, place=row.place), ""))
            faults.check()
            raise

    @property
    def _readings(self) -> Sequence[SourceRows]:
        return tuple(self.sources.readings.values())

    def left_out(self) -> Iterator[tuple[str, str | None, int]]:
        """Yield file, column and number of rows that lack a value, once a job has read them.

        The column is None if it is unknown.
        """
        for name, reading in self.sources.readings.items():
            counts = self.sources.counts(name)
            unknown, path = counts["left_out"], reading.source.shown
            for column, rows in zip(reading.dropping, counts.get("lacking", ()), strict=False):
                unknown -= rows
                if rows:
                    yield path, column, rows
            if unknown:
                yield path, None, unknown

    def rejects(self) -> Iterator[BadRow]:
        """Yield the rows that could not be read, once a job has read all rows. This runs jobs."""
        for name, reading in self.sources.readings.items():
            counts = self.sources.counts(name)
            if counts["rejected"]:
                rows = reading.rejects_of(counts["files"], counts.get("marks", ()))
                for row in rows.sort("place", "line").toLocalIterator():
                    yield BadRow(Diagnostic(row.code, row.reason, place=row.place), row.row)


def read_program(
    program: Program,
    session: SparkSession,
    files: Iterable[Path],
    header: bool | None,
    settings: Mapping[str, Any],
    on_error: OnError = OnError.FAIL,
    needed: Callable[[str], bool] | None = None,
) -> ProgramFrames:
    """Return a program with the frames of its imports and of data files.

    Files of predicates that are not `needed`, by default those without a rule, output or query, are not read.
    With `OnError.FAIL` a row that cannot be read fails the job that reads it.
    """
    imports = [(import_file(item, program.predicates[item.predicate]), item) for item in program.imports]
    sources = [source_of(file, program.predicates[item.predicate], item) for file, item in imports]
    for path in files:
        name = predicate_of(path, program.predicates)
        if name in program.predicates:
            predicate = program.predicates[name]
            sources.append(source_of(data_file(path, predicate, header), predicate))
    readings: dict[str, SourceRows] = {}
    faults: list[Diagnostic] = []
    for number, source in enumerate(sources):
        try:
            reading = read_source(session, source, program)
        except DataError as error:
            faults += error.diagnostics
        else:
            name = source.shown if source.shown not in readings else f"{source.shown} {number}"
            readings[name] = replace(reading, is_strict=on_error is OnError.FAIL)
    if faults:
        raise DataError(faults)
    timed = [reading.input.predicate.name for reading in readings.values() if reading.input.times]
    timed_program = giving_times(replace(program, imports=(), exports=()), timed)
    needed = needed or _needed(timed_program)
    needed_readings = {
        name: reading for name, reading in readings.items() if needed(reading.input.predicate.name)
    }
    sources_read = combine_sources(needed_readings, read_by(program, ()))
    inferred = infer(timed_program, *types_in(reading.input for reading in readings.values()))
    return ProgramFrames(
        BoundProgram(timed_program, sources_read.inputs, inferred, settings),
        sources_read.frames,
        sources_read,
    )


def _needed(program: Program) -> Callable[[str], bool]:
    """Return the test whether rules, outputs or queries have a predicate."""
    by_rules = read_by(program, ())
    outputs = {*program.output_predicates}
    outputs |= {name for query in program.queries for name in query.rule.read}
    return lambda name: name in outputs or by_rules(name)


def write_frame(frame: DataFrame, export: Export, span: Span | None = None) -> None:
    """Write a frame to a folder, whose files are of the export's format. This runs a job."""
    if export.format not in WRITTEN or export.path is None:
        name = export.format if export.path is not None else "standard output"
        help = f"Spark writes {', '.join(WRITTEN)}; without `--engine spark` all formats serve"
        message = f"`{name}` is not a format that Spark writes"
        raise DataError(Diagnostic(codes.SPARK_FORMAT, message, span, help))
    chosen = frame.select(*(quoted(frame.columns[place]) for place in _places(frame, export.columns)))
    options = export.options
    if options.limit is not None:
        chosen = chosen.limit(options.limit)
    writer = chosen.write.mode("overwrite")
    path, compression = str(export.path), "gzip" if options.compressed else None
    if export.format == "parquet":
        writer.parquet(path)
    elif export.format in DELIMITED_FORMATS:
        default = "\t" if export.format == "tsv" else ","
        writer.csv(
            path,
            sep=options.delimiter or default,
            header=options.header,
            compression=compression,
            quote='"' if options.quoting else "",
            escape='"',
            emptyValue="",
        )
    else:
        writer.json(path, compression=compression)


def _places(frame: DataFrame, columns: Sequence[int]) -> Sequence[int]:
    """Return the positions of the columns of an export, with all columns of times."""
    return (*columns, *range(max(columns, default=-1) + 1, len(frame.columns)))


TAG: Final = "predicate"
INSERTED: Final = "+"
_STRING: Final = spark_types.StringType()
FORMATS: Final = (*DELIMITED, "parquet", "json", "jsonl")
_FILE_SCHEMA: Final = "path string, modificationTime timestamp, length bigint, content binary"

Select = Callable[[DataFrame], DataFrame]


def incoming(
    session: SparkSession, program: Program, paths: Sequence[Path], header: bool | None
) -> tuple[DataFrame, dict[str, Select]]:
    """Return the files of folders as one streaming frame, and a function for the rows of each predicate.

    A file, or a folder of files, is named after its predicate. Each file is one micro-batch, the oldest
    first, so that a later file can delete the facts of an earlier one.
    """
    frames: dict[str, DataFrame] = {}
    for path in paths:
        predicate = _predicate(path, program)
        frame = _read(session, path, predicate, header)
        name = predicate.written
        frames[name] = frames[name].unionByName(frame, allowMissingColumns=True) if name in frames else frame
    if len(frames) == 1:
        ((name, frame),) = frames.items()
        return frame, {name: _same}
    tagged = [
        frame.select(F.lit(name).alias(TAG), F.struct("*").alias(f"of {name}"))
        for name, frame in frames.items()
    ]
    union_frame = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), tagged)
    return union_frame, {name: partial(_selected, name) for name in frames}


def _same(batch: DataFrame) -> DataFrame:
    return batch


def _selected(name: str, batch: DataFrame) -> DataFrame:
    return batch.where(F.col(TAG) == name).select(f"{quoted(f'of {name}')}.*")


def _predicate(path: Path, program: Program) -> Predicate:
    name = predicate_of(path, program.predicates)
    if name in program.predicates:
        return program.predicates[name]
    message = f"the program has no predicate `{name}`, after which `{path}` is named"
    names = ", ".join(predicate.written for predicate in program.predicates.values())
    raise DataError(Diagnostic(codes.NO_SUCH_PREDICATE, message, place=str(path), help=f"it has {names}"))


def _first(path: Path) -> Path:
    """Return the first file, which has the format and the columns of all others."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
    if not files:
        message = f"no file in `{path}` yet"
        help = "the first one tells the format and the columns: put it there before"
        raise DataError(Diagnostic(codes.SPARK_FORMAT, message, place=str(path), help=help))
    formats = {format_of(file) for file in files}
    if len(formats) > 1 or not formats <= set(FORMATS):
        message = f"`{path}` holds files that Spark cannot read as one stream"
        help = f"all files of a folder are of one format: {', '.join(FORMATS)}"
        if any(file.name.endswith((".rls", ".rls.gz")) for file in files):
            help = (
                "on Spark changes are rows: files in a folder that is named after its predicate; change "
                "scripts are applied without `--engine spark`"
            )
        raise DataError(Diagnostic(codes.SPARK_FORMAT, message, place=str(path), help=help))
    return files[0]


def _read(session: SparkSession, path: Path, predicate: Predicate, header: bool | None) -> DataFrame:
    first = _first(path)
    file = data_file(first, predicate, header)
    endings = [f"*{ending}{gz}" for ending in EXTENSIONS[file.format] for gz in ("", ".gz")]
    reader = session.readStream.option("maxFilesPerTrigger", 1)
    reader = reader.option("pathGlobFilter", f"{{{','.join(endings)}}}")
    place = str(path.resolve())
    if file.format in DELIMITED:
        ship(session, scratch_folder())
        return _delimited(reader, path, file, predicate)
    if file.format == "parquet":
        return reader.schema(session.read.parquet(str(first)).schema).parquet(place)
    return _json(reader, place, file, predicate)


def _delimited(reader: Any, folder: Path, file: InputFile, predicate: Predicate) -> DataFrame:
    """Return the columns of delimited files as texts, which tasks read as `tidelog run` does.

    Spark's own reader of CSV drops lines of white space, and keeps some quotes.
    """
    names, header = _columns(file, predicate)
    types = (ColumnType.STRING,) * len(names)
    shape = shape_of(names, types)
    named = tuple(names) if header is Header.NAMES else ()
    template = CarriedFile(
        None, file.format, types, named, header, file.delimiter, file.quoting, name=str(folder)
    )
    # Only the paths of files are used, so Spark does not read their contents.
    files = reader.format("binaryFile").schema(_FILE_SCHEMA).load(str(folder.resolve()))
    rows = files.select(F.col("path").alias(FILE)).mapInArrow(
        Shipped(ArrivingFileReader(template, shape)), read_schema(shape.names, shape.types)
    )
    fault = F.col(FAULT)
    message = F.concat(
        F.lit("DataError: error["), fault.code, F.lit("]: "), fault.reason, F.lit("\n  --> "), fault.place
    )
    is_fact = F.when(fault.isNotNull(), F.raise_error(message).cast("boolean")).otherwise(F.lit(True))
    facts: DataFrame = rows.where(is_fact).select(*map(quoted, names))
    return facts


def _columns(file: InputFile, predicate: Predicate) -> tuple[list[str], Header]:
    """Return the columns of the first delimited file, and the kind of its first row."""
    with file.open() as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        first = next(csv.reader(text, delimiter=file.delimiter), [])
    names = [name for name in predicate.columns if name is not None]
    if file.header is not Header.NONE and len(names) == predicate.arity and set(names) <= set(first):
        return first, Header.NAMES
    header = Header.IGNORED if file.header is Header.NAMES else Header.NONE
    plain = [f"c{place}" for place in range(1, predicate.arity + 1)]
    if len(first) == predicate.arity:
        return plain, header
    if len(first) == predicate.arity + 1:  # the last one has the operation
        return [*plain, OPERATION], header
    message = f"`{predicate.written}` has {counted(predicate.arity, 'column')}, and the file {len(first)}"
    help = f"further columns need a header that names {', '.join(names) or 'them'} and `{OPERATION}`"
    raise DataError(Diagnostic(codes.WRONG_COLUMNS, message, place=file.shown, help=help))


def _json(reader: Any, place: str, file: InputFile, predicate: Predicate) -> DataFrame:
    """Return the members of JSON objects as texts; a row without an operation is inserted."""
    own = [name for name in predicate.columns if name is not None]
    if len(own) != predicate.arity:
        message = f"the columns of `{predicate.written}` have no names, by which JSON is read"
        help = f"declare them: `@declare {predicate.written}(…: string) .`"
        raise DataError(Diagnostic(codes.WRONG_COLUMNS, message, place=file.shown, help=help))
    operations = [name for name in (CHANGE_TYPE, OPERATION) if name not in own]
    schema = spark_types.StructType([spark_types.StructField(name, _STRING) for name in (*own, *operations)])
    frame = reader.json(place, schema, multiLine=file.format == "json", mode="FAILFAST")
    if not operations:
        return frame  # type: ignore[no-any-return]
    operation = F.coalesce(*(F.col(quoted(name)) for name in operations), F.lit(INSERTED))
    return frame.select(*map(quoted, own), operation.alias(operations[0]))  # type: ignore[no-any-return]


def selections(selects: Mapping[str, Select], batch: DataFrame) -> dict[str, DataFrame]:
    """Return the rows of a batch by predicate."""
    return {name: select(batch) for name, select in selects.items()}
