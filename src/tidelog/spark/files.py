"""Imports and exports of a program: sources that Spark reads, and folders of files that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidelog.errors import DataError, Diagnostic, Span
from tidelog.io.export import Export
from tidelog.io.rejects import MOST_COUNTED, BadRow, Faults, OnError
from tidelog.io.source import data_file, import_file, predicate_of
from tidelog.logic.program import Program
from tidelog.logic.resolve import giving_times
from tidelog.logic.type_inference import infer
from tidelog.spark import codes
from tidelog.spark.derived import quoted, union
from tidelog.spark.frames import Frames
from tidelog.spark.given import Given, held_by, read_by
from tidelog.spark.reading_ import Together, read_source, together
from tidelog.spark.rows import REJECTED, Reading
from tidelog.spark.sources import source_of

DELIMITED: Final = ("csv", "tsv", "dsv")
WRITTEN: Final = (*DELIMITED, "parquet", "json", "jsonl")  # the formats of exports


@dataclass(frozen=True)
class Files:
    """A program, and its imports and data files as frames. Nothing has been read yet."""

    given: Given
    frames: Frames
    read: Together

    @contextmanager
    def rejecting(self) -> Iterator[None]:
        """Raise what is wrong with rows that jobs of the block cannot read, if they must read all of them."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            if REJECTED not in str(error):
                raise
            faults = Faults(OnError.FAIL)
            rows = union([each.rejects.select("place", "line", "code", "reason") for each in self._readings])
            found = rows.limit(MOST_COUNTED).collect()  # no more of them are told of
            for row in sorted(found, key=lambda row: (row.place.partition(":")[0], row.line or 0)):
                faults.add(BadRow(Diagnostic(row.code, row.reason, place=row.place), ""))
            faults.check()
            raise

    @property
    def _readings(self) -> Sequence[Reading]:
        return tuple(self.read.readings.values())

    def left_out(self) -> Iterator[tuple[str, str | None, int]]:
        """Yield file, column and number of rows that lack a value, once a job has read them.

        The column is None where it is not known.
        """
        for name, reading in self.read.readings.items():
            counts = self.read.counts(name)
            unknown, shown = counts["left_out"], reading.source.shown
            for column, rows in zip(reading.dropping, counts.get("lacking", ()), strict=False):
                unknown -= rows
                if rows:
                    yield shown, column, rows
            if unknown:
                yield shown, None, unknown

    def rejects(self) -> Iterator[BadRow]:
        """Yield the rows that could not be read, once a job has read all rows. This runs jobs."""
        for name, reading in self.read.readings.items():
            counts = self.read.counts(name)
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
) -> Files:
    """Return a program with the frames of its imports and of data files.

    Files of predicates that are not `needed`, by default those that no rule, output or query has, are not
    read. With `OnError.FAIL` a row that cannot be read is an error of the job that reads it.
    """
    given = [(import_file(each, program.predicates[each.predicate]), each) for each in program.imports]
    sources = [source_of(file, program.predicates[each.predicate], each) for file, each in given]
    for path in files:
        name = predicate_of(path, program.predicates)
        if name in program.predicates:
            predicate = program.predicates[name]
            sources.append(source_of(data_file(path, predicate, header), predicate))
    readings: dict[str, Reading] = {}
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
    timed = [each.input.predicate.name for each in readings.values() if each.input.times]
    known = giving_times(replace(program, imports=(), exports=()), timed)
    needed = needed or _needed(known)
    some = {name: each for name, each in readings.items() if needed(each.input.predicate.name)}
    found = together(some, read_by(program, ()))
    inferred = infer(known, *held_by(each.input for each in readings.values()))
    return Files(Given(known, found.inputs, inferred, settings), found.frames, found)


def _needed(program: Program) -> Callable[[str], bool]:
    """Return whether rules, outputs or queries have a predicate."""
    by_rules = read_by(program, ())
    others = {*program.output_predicates}
    others |= {
        atom.predicate for each in program.queries for atom in (*each.rule.positive, *each.rule.negated)
    }
    return lambda name: name in others or by_rules(name)


def write_frame(frame: DataFrame, export: Export, span: Span | None = None) -> None:
    """Write a frame to a folder, whose files are of the export's format. This runs a job."""
    if export.format not in WRITTEN or export.path is None:
        name = export.format if export.path is not None else "standard output"
        help = f"Spark writes {', '.join(WRITTEN)}; without `--engine spark` all formats serve"
        message = f"`{name}` is no format that Spark writes"
        raise DataError(Diagnostic(codes.FORMAT, message, span, help))
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
