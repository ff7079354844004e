"""Sources read on Spark: files in pieces by the executors, tables, queries and DataFrames.

What executors give, see `spark_reading`, stays on Spark for an engine that is there, and comes to the driver
for one that is not. Large files of lines are read in pieces; a piece does not know its first line's number,
so that places are completed afterwards, for those pieces alone in which something was rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.engine.columnar.arrow import array_of, mask_of, numbers_of
from tidelog.engine.spark import terms
from tidelog.engine.spark.arrivals import TERMS
from tidelog.engine.spark.tagging import TAG
from tidelog.engine.spark.terms import TERM, Hashing, Identities
from tidelog.errors import DataError, Diagnostic
from tidelog.io.columns import Batch, Column
from tidelog.io.faults import BadRow, Faults
from tidelog.io.objects import from_python
from tidelog.io.source import DataFile
from tidelog.io.times import with_bounds
from tidelog.logic.program import Program
from tidelog.logic.values import ColumnType
from tidelog.pipeline import codes
from tidelog.pipeline.filters import Filter
from tidelog.pipeline.inputs import Feeding, TableOf, digest
from tidelog.pipeline.pieces import FilePiece, cut_all, line_before
from tidelog.pipeline.settings import Settings, Source
from tidelog.pipeline.source_files import columns_and_types, find_predicate_of
from tidelog.pipeline.spark_reading import (
    COUNTED,
    FAULT,
    INPUT,
    LEAST_WIDTH,
    NO_PIECE,
    PIECE,
    REJECTED,
    Intended,
    ReadPieces,
    told_schema,
)

TASKS_PER_CORE = 4
_BATCH_ROWS = 1 << 18


def pieces_frame(
    session: Any,
    pieces: Sequence[FilePiece],
    intended: Sequence[Intended],
    width: int,
    hashing: Hashing = terms.PLAIN,
) -> Any:
    """What executors read of pieces of files, each with what becomes of its rows, as a DataFrame."""
    tasks = min(len(pieces), session.sparkContext.defaultParallelism * TASKS_PER_CORE)
    numbers = session.range(0, len(pieces), 1, tasks)
    files = tuple(piece.as_file() for piece in pieces)  # here, where relative paths mean something
    return numbers.mapInArrow(ReadPieces(files, tuple(intended), width, hashing), told_schema(width))


class SparkReading:
    """Reads the sources of a job on Spark. Mutates what it has ready."""

    def __init__(self, session: Callable[[], Any], settings: Settings) -> None:
        self._session = session  # not started before something is read
        self._settings = settings
        self._ready: dict[tuple[DataFile, ...], tuple[pa.Table, int, Arrived]] = {}

    # ---- files

    def read_files(self, files: Sequence[DataFile], faults: Faults) -> Iterator[Batch]:
        """The rows of files, read by executors."""
        if tuple(files) not in self._ready:
            self.prepare([files])
        table, arity, arrived = self._ready.pop(tuple(files))
        give_rejects(table, arrived.pieces, faults)
        rows = table.filter(pc.greater_equal(table.column(TAG), 0))
        faults.rows += rows.num_rows
        yield from arrived.batches(rows, arity)
        faults.check()

    def prepare(self, sources: Sequence[Sequence[DataFile]]) -> None:
        """Let the files of several sources be read, by one job of Spark."""
        cuts = cut_all(sources, self._session().sparkContext.defaultParallelism)
        pieces = [piece for some in cuts for piece in some]
        if not pieces:
            return
        intended = [Intended(number, number) for number, some in enumerate(cuts) for _ in some]
        frame = pieces_frame(self._session(), pieces, intended, width_of(pieces))
        with self._describing(f"tidelog: reading {len(pieces)} pieces of {len(sources)} sources"):
            table = frame.toArrow()
        is_term = pc.equal(table.column(TAG), TERMS)
        arrived = Arrived.of(table.filter(is_term), tuple(pieces))
        table = table.filter(pc.invert(is_term))
        for number, (files, some) in enumerate(zip(sources, cuts, strict=True)):
            own = table.filter(pc.equal(table.column(INPUT), number))
            self._ready[tuple(files)] = own, arity_of(some[0]), arrived

    @contextmanager
    def _describing(self, description: str) -> Iterator[None]:
        """What Spark does in the block is described so in its pages, and ends with the block."""
        context = self._session().sparkContext
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
        types = (*types, *(ColumnType.ANY for _ in source.times))
        described = digest(repr(replace(source, span=None, frame=None)))

        def read_frame(faults: Faults) -> Iterator[Batch]:
            with self._describing(f"tidelog: reading {source.shown} for {predicate.written}"):
                table = self.load(source).toArrow()
            return from_python(_with_bounds(table, names, len(source.times)), types, names, faults)

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
            table=None if source.times else TableOf(lambda: self.load(source), types, names),
            time=source.times,
            span=source.span,
        )

    def load(self, source: Source) -> Any:
        """The DataFrame of a source that only Spark has; raises `DataError` if it cannot be had."""
        if source.frame is not None:
            return source.frame
        session = self._session()
        try:
            if source.kind == "table":
                return session.table(source.table)
            reader = session.read.format("jdbc").option("url", source.url)
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


def _with_bounds(table: pa.Table, names: Sequence[str | None], count: int) -> pa.Table:
    """The table with nothing missing in the bounds among its columns that say when."""
    found = [name for name in names[len(names) - count :] if name in table.column_names]
    arrays = [table.column(name).combine_chunks() for name in found]
    for name, array in zip(found, with_bounds(arrays, len(arrays)), strict=True):
        table = table.set_column(table.column_names.index(name), name, array)
    return table


def arity_of(piece: FilePiece) -> int:
    """How many columns the rows of a piece have."""
    return sum(kind is not ColumnType.SKIP for kind in piece.file.types or ())


def width_of(pieces: Sequence[FilePiece]) -> int:
    """How many columns of ids serve for all pieces."""
    return max(LEAST_WIDTH, *map(arity_of, pieces))


@dataclass(frozen=True)
class Arrived:
    """What has come to the driver besides rows: the terms in them, by their ids, and the pieces."""

    ids: Identities  # in order
    texts: pa.Array
    pieces: tuple[FilePiece, ...]

    @staticmethod
    def of(table: pa.Table, pieces: tuple[FilePiece, ...]) -> Arrived:
        """The terms of a table of arrivals; raises if two of them have one id."""
        ids = numbers_of(table.column("c0").combine_chunks(), "int64")
        order = np.argsort(ids, kind="stable")
        ids, texts = ids[order], table.column(TERM).combine_chunks().take(array_of(order))
        repeated = np.flatnonzero(ids[1:] == ids[:-1]) + 1
        before, after = (texts.take(array_of(places)) for places in (repeated - 1, repeated))
        unequal = pc.indices_nonzero(pc.not_equal(before, after)).to_pylist()
        if unequal:
            pair = f"{before[unequal[0]]} | {after[unequal[0]]}"
            raise terms.collision(ValueError(f"{terms.COLLISION}: {pair}")) or AssertionError
        is_first = np.ones(len(ids), np.bool_)
        is_first[repeated] = False
        return Arrived(ids[is_first], texts.filter(mask_of(is_first)), pieces)

    def batches(self, table: pa.Table, arity: int) -> Iterator[Batch]:
        """Rows of ids as columns of terms."""
        if not arity and table.num_rows:  # a predicate without columns
            yield Batch((), 1)
            return
        chosen = table.select([f"c{place}" for place in range(arity)]).combine_chunks()
        for batch in chosen.to_batches(max_chunksize=_BATCH_ROWS):
            if batch.num_rows:
                columns = [Column(ColumnType.TERM, self._terms(column)) for column in batch.columns]
                yield Batch(tuple(columns), batch.num_rows)

    def _terms(self, column: pa.Array) -> pa.Array:
        """The exact terms of ids."""
        distinct, places = np.unique(numbers_of(column, "int64"), return_inverse=True)
        whole = array_of(terms.numbers(distinct[distinct < 0])).cast(pa.string())
        others = self.texts.take(array_of(np.searchsorted(self.ids, distinct[distinct >= 0])))
        return pa.concat_arrays([whole, others.cast(pa.string())]).take(array_of(places.astype(np.int64)))


# ---- what is told of inputs


def give_rejects(table: pa.Table, pieces: Sequence[FilePiece], faults: Faults) -> None:
    """Give rejected rows to `faults`, with their places in whole files."""
    lines: dict[int, int] = {}
    told = table.filter(pc.equal(table.column(TAG), REJECTED)).select([PIECE, *FAULT])
    rows = sorted(told.to_pylist(), key=lambda row: row[PIECE])
    fatal = [Diagnostic(row["code"], row["reason"], place=row["place"]) for row in rows if row["row"] is None]
    if fatal:
        raise DataError(fatal)
    for row in rows:
        number, place = row[PIECE], row["place"]
        if number != NO_PIECE:
            piece = pieces[number]
            if number not in lines:
                lines[number] = line_before(piece)
            place = _moved(place, piece.file.shown, lines[number])
        faults.add(BadRow(Diagnostic(row["code"], row["reason"], place=place), row["row"]))


def counts_in(table: pa.Table) -> tuple[int, int]:
    """How many rows were read, and how many of them were filtered out."""
    told = table.filter(pc.equal(table.column(TAG), COUNTED))
    return tuple(pc.sum(told.column(name)).as_py() or 0 for name in ("c0", "c1"))  # type: ignore[return-value]


def _moved(place: str, shown: str, lines: int) -> str:
    """A place, so many lines further down."""
    if not lines or not place.startswith(f"{shown}:"):
        return place
    line, _, rest = place[len(shown) + 1 :].partition(":")
    return f"{shown}:{int(line) + lines}{':' + rest if rest else ''}"
