"""Sources read on Spark: files in pieces by the executors, tables, queries and DataFrames.

Executors read files with tidelog's own readers, so that a file means the same wherever it is read. What they
give are rows of exact terms, and rejected rows with their reasons, in one pass. Large files of lines are read
in pieces; a piece does not know its first line's number, so that places are completed afterwards, for those
pieces alone in which something was rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.engine.columnar.exact import exact_array
from tidelog.errors import DataError, Diagnostic, TidelogError
from tidelog.io.columns import Batch, Column
from tidelog.io.faults import BadRow, Faults, OnError
from tidelog.io.objects import from_python
from tidelog.io.source import DataFile
from tidelog.io.tables import read
from tidelog.logic.program import Program
from tidelog.logic.values import ColumnType
from tidelog.pipeline import codes
from tidelog.pipeline.filters import Filter
from tidelog.pipeline.inputs import Feeding, digest
from tidelog.pipeline.pieces import FilePiece, cut_all, line_before
from tidelog.pipeline.settings import Settings, Source
from tidelog.pipeline.source_files import columns_and_types, find_predicate_of

PIECE = "piece"  # the column with the number of the piece that a row is of
REJECTED = ("place", "code", "reason", "row")  # columns that tell of rejected rows
TOLD = (PIECE, *REJECTED)
TASKS_PER_CORE = 4
_BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class Pieces:
    """The pieces of one source, and the number of the first."""

    pieces: tuple[FilePiece, ...]
    first: int = 0


class SparkReading:
    """Reads the sources of a job on Spark. Mutates what it has ready."""

    def __init__(self, session: Any, settings: Settings) -> None:
        self._session = session
        self._settings = settings
        self._ready: dict[tuple[DataFile, ...], tuple[pa.Table, Pieces]] = {}

    # ---- files

    def read_files(self, files: Sequence[DataFile], faults: Faults) -> Iterator[Batch]:
        """The rows of files, read by executors."""
        if tuple(files) not in self._ready:
            self.prepare([files])
        table, pieces = self._ready.pop(tuple(files))
        yield from split_rejects(table, pieces, faults)

    def prepare(self, sources: Sequence[Sequence[DataFile]]) -> None:
        """Let the files of several sources be read, by one job of Spark."""
        cores = self._session.sparkContext.defaultParallelism
        cuts = cut_all(sources, cores)
        pieces = [piece for some in cuts for piece in some]
        if not pieces:
            return
        with self._describing(f"tidelog: reading {len(pieces)} pieces of {len(sources)} sources"):
            table = self.frame(pieces, cores).toArrow()
        first = 0
        for files, some in zip(sources, cuts, strict=True):
            last = first + len(some)
            number = table.column(PIECE)
            own = table.filter(pc.and_(pc.greater_equal(number, first), pc.less(number, last)))
            names = [f"c{place}" for place in range(1, arity_of(some) + 1)]
            self._ready[tuple(files)] = own.select([*names, *TOLD]), Pieces(tuple(some), first)
            first = last

    def frame(self, pieces: Sequence[FilePiece], cores: int) -> Any:
        """The rows of pieces of files as a DataFrame of exact terms, and of what was rejected."""
        arity = max(arity_of([piece]) for piece in pieces)
        fields = [f"c{place} string" for place in range(1, arity + 1)]
        schema = ", ".join((*fields, f"{PIECE} int", *(f"{name} string" for name in REJECTED)))
        tasks = min(len(pieces), cores * TASKS_PER_CORE)
        numbers = self._session.range(0, len(pieces), 1, tasks)
        files = tuple(piece.as_file() for piece in pieces)  # here, where relative paths mean something
        return numbers.mapInArrow(_Reading(files, arity), schema)

    @contextmanager
    def _describing(self, description: str) -> Iterator[None]:
        """What Spark does in the block is described so in its pages, and ends with the block."""
        context = self._session.sparkContext
        group = f"tidelog {id(self)}"
        context.setJobGroup(group, description, interruptOnCancel=True)
        try:
            yield
        except BaseException:  # Ctrl-C, most likely
            context.cancelJobGroup(group)
            raise
        finally:
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(name, None)

    # ---- what only Spark has

    def feeding(self, source: Source, program: Program) -> Feeding:
        """A table, a query or a DataFrame as an input of a job."""
        predicate = find_predicate_of(source, program)
        types, names = columns_and_types(source, program, predicate)
        described = digest(repr(replace(source, span=None, frame=None)))

        def read_frame(faults: Faults) -> Iterator[Batch]:
            with self._describing(f"tidelog: reading {source.shown} for {predicate.written}"):
                table = self.load(source).toArrow()
            return from_python(table, types, names, faults)

        def columns() -> tuple[str, ...]:
            schema = self.load(source).schema
            return tuple(sorted(f"{field.name}: {field.dataType.simpleString()}" for field in schema.fields))

        return Feeding(
            f"{predicate.name} < {source.shown}",
            predicate.name,
            source.shown,
            described,
            read_frame,
            columns,
            filter=Filter.of(source.filter, predicate, source.span),
            on_error=source.on_error,
            volatile=True,
            span=source.span,
        )

    def load(self, source: Source) -> Any:
        """The DataFrame of a source that only Spark has; raises `DataError` if it cannot be had."""
        if source.frame is not None:
            return source.frame
        try:
            if source.kind == "table":
                return self._session.table(source.table)
            reader = self._session.read.format("jdbc").option("url", source.url)
            reader = reader.options(**dict(source.options))
            if source.driver:
                reader = reader.option("driver", source.driver)
            named = ("dbtable", source.table) if source.table else ("query", source.query)
            return reader.option(*named).load()
        except Exception as error:  # noqa: BLE001 - Py4J raises what the driver raises
            raise DataError(_not_loaded(source, error)) from None


def _not_loaded(source: Source, error: Exception) -> Diagnostic:
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    help = None
    if "ClassNotFound" in str(error) or "No suitable driver" in str(error):
        help = "give the driver's jar to Spark: --conf spark.jars=FILE.jar, and name it with `driver`"
    return Diagnostic(codes.NEEDS_SPARK, f"`{source.shown}` cannot be read: {reason}", source.span, help)


def arity_of(pieces: Sequence[FilePiece]) -> int:
    """How many columns the rows of pieces have."""
    types = pieces[0].file.types or ()
    return sum(kind is not ColumnType.SKIP for kind in types)


def split_rejects(table: pa.Table, pieces: Pieces, faults: Faults) -> Iterator[Batch]:
    """The rows of a table that executors made; what was rejected goes to `faults`, in order."""
    count = table.num_columns - len(TOLD)
    is_bad = pc.is_valid(table.column("code"))
    give_rejects(table.filter(is_bad).select(TOLD), pieces, faults)
    kept = table.filter(pc.invert(is_bad)) if faults.skipped or faults.failed else table
    faults.rows += kept.num_rows
    if not count and kept.num_rows:  # a predicate without columns
        yield Batch((), 1)
    for batch in kept.select(list(range(count))).to_batches(max_chunksize=_BATCH_ROWS) if count else ():
        if batch.num_rows:
            yield Batch(tuple(Column(ColumnType.TERM, column) for column in batch.columns), batch.num_rows)
    faults.check()


def give_rejects(table: pa.Table, pieces: Pieces, faults: Faults) -> None:
    """Give rejected rows to `faults`, with their places in whole files."""
    lines: dict[int, int] = {}
    rows = sorted(table.to_pylist(), key=lambda row: row[PIECE])
    fatal = [Diagnostic(row["code"], row["reason"], place=row["place"]) for row in rows if row["row"] is None]
    if fatal:
        raise DataError(fatal)
    for row in rows:
        number = row[PIECE] - pieces.first
        piece = pieces.pieces[number]
        if number not in lines:
            lines[number] = line_before(piece)
        place = _moved(row["place"], piece.file.shown, lines[number])
        faults.add(BadRow(Diagnostic(row["code"], row["reason"], place=place), row["row"]))


def _moved(place: str, shown: str, lines: int) -> str:
    """A place, so many lines further down."""
    if not lines or not place.startswith(f"{shown}:"):
        return place
    line, _, rest = place[len(shown) + 1 :].partition(":")
    return f"{shown}:{int(line) + lines}{':' + rest if rest else ''}"


@dataclass(frozen=True)
class _Reading:
    """What executors do: read the pieces whose numbers they are given.

    A piece that cannot be read at all is told as a rejected row without a text.
    """

    pieces: tuple[DataFile, ...]
    arity: int

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(number)

    def _read(self, number: int) -> Iterator[pa.RecordBatch]:
        faults = _Gathering(OnError.SKIP)
        try:
            for batch in read(self.pieces[number], faults):
                yield self._batch([exact_array(column) for column in batch.columns], batch.rows, number, ())
                yield from self._rejects(number, faults)
        except TidelogError as error:
            yield from self._told(number, [(item, None) for item in error.diagnostics])
        yield from self._rejects(number, faults)

    def _rejects(self, number: int, faults: _Gathering) -> Iterator[pa.RecordBatch]:
        found, faults.found = faults.found, []
        if found:
            yield from self._told(number, [(row.diagnostic, _written(row.text)) for row in found])

    def _told(self, number: int, found: Sequence[tuple[Diagnostic, str | None]]) -> Iterator[pa.RecordBatch]:
        texts = [(item.place, item.code, item.message, row) for item, row in found]
        columns = [pa.array(column, pa.string()) for column in zip(*texts, strict=True)]
        yield self._batch([], len(found), number, columns)

    def _batch(
        self, terms: list[pa.Array], rows: int, number: int, rejected: Sequence[pa.Array]
    ) -> pa.RecordBatch:
        none = pa.nulls(rows, pa.string())
        names = [*(f"c{place}" for place in range(1, self.arity + 1)), *TOLD]
        columns = [
            *terms,
            *[none] * (self.arity - len(terms)),
            pa.repeat(pa.scalar(number, pa.int32()), rows),
        ]
        return pa.RecordBatch.from_arrays([*columns, *(rejected or [none] * len(REJECTED))], names=names)


def _written(text: str) -> str:
    """The text with bytes that are not UTF-8 shown as escapes: Spark has no other strings."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class _Gathering(Faults):
    """Keeps the rows that cannot be read until they are sent."""

    found: list[BadRow]

    def __init__(self, on_error: OnError) -> None:
        super().__init__(on_error)
        self.found = []

    def add(self, row: BadRow) -> None:
        """Keep a row."""
        self.skipped += 1
        self.found.append(row)
