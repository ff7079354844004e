"""What executors read, in one pass: facts as ids, the terms in them, rejected rows, and counts.

Executors read files with tidelog's own readers, so that a file means the same wherever it is read. What they
give are arrivals, see `engine.spark.arrivals`, with columns that tell of inputs: `input`, its number;
`piece`, of a file; and of rejected rows the place, the code, the reason and the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidelog.engine.spark.arrivals import Encoder, once, schema_of
from tidelog.engine.spark.terms import Hashing
from tidelog.errors import Diagnostic, TidelogError
from tidelog.io.columns import Batch
from tidelog.io.faults import BadRow, Faults, OnError
from tidelog.io.objects import from_python
from tidelog.io.source import DataFile
from tidelog.io.tables import read
from tidelog.logic.values import ColumnType
from tidelog.pipeline.filters import Filter

REJECTED, COUNTED = -2, -3  # tags of what is told of inputs: rejected rows; rows read and filtered out
INPUT, PIECE = "input", "piece"
FAULT = ("place", "code", "reason", "row")  # columns that tell of rejected rows
LEAST_WIDTH = 2  # counts are two numbers
NO_PIECE = -1

Told = tuple[Diagnostic, str | None]  # why a row was rejected, and the row; None if nothing can be read


def told_schema(width: int) -> str:
    """The columns of what executors give."""
    return ", ".join(
        (schema_of(width), f"{INPUT} int", f"{PIECE} int", *(f"{name} string" for name in FAULT))
    )


@dataclass(frozen=True)
class Intended:
    """What becomes of an input's rows: the relation they are of, and those that are kept."""

    number: int
    tag: int
    filter: Filter | None = None


class Telling:
    """Rows of inputs as arrivals, with what is told of them. Mutates what it has told."""

    def __init__(self, width: int, hashing: Hashing) -> None:
        self._encoder = Encoder(width, hashing)

    def rows(self, batch: Batch, of: Intended, piece: int) -> Iterator[pa.RecordBatch]:
        """The rows that the filter lets through, and how many there were."""
        kept = batch if of.filter is None else of.filter.keep(batch)
        if kept.rows:
            for part in self._encoder.encode(of.tag, kept):
                yield self._told(part, of, piece)
        counts = [np.array([count], np.int64) for count in (batch.rows, batch.rows - kept.rows)]
        yield self._told(self._encoder.arrivals(COUNTED, counts, 1), of, piece)

    def rejected(self, found: Sequence[Told], of: Intended, piece: int) -> Iterator[pa.RecordBatch]:
        """Rejected rows with their reasons."""
        if found:
            texts = [(item.place, item.code, item.message, row) for item, row in found]
            columns = [pa.array(column, pa.string()) for column in zip(*texts, strict=True)]
            yield self._told(self._encoder.arrivals(REJECTED, [], len(found)), of, piece, columns)

    def _told(
        self, part: pa.RecordBatch, of: Intended, piece: int, fault: Sequence[pa.Array] = ()
    ) -> pa.RecordBatch:
        rows = part.num_rows
        numbers = [pa.repeat(pa.scalar(number, pa.int32()), rows) for number in (of.number, piece)]
        columns = [*part.columns, *numbers, *(fault or [pa.nulls(rows, pa.string())] * len(FAULT))]
        return pa.RecordBatch.from_arrays(columns, names=[*part.schema.names, INPUT, PIECE, *FAULT])


@dataclass(frozen=True)
class ReadPieces:
    """Reads the pieces of files whose numbers come.

    A piece that cannot be read at all is told as a rejected row without a text.
    """

    pieces: tuple[DataFile, ...]
    intended: tuple[Intended, ...]  # of each piece
    width: int
    hashing: Hashing
    once: str = field(default_factory=once)

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        telling = Telling(self.width, self.hashing)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(number, telling)

    def _read(self, number: int, telling: Telling) -> Iterator[pa.RecordBatch]:
        of, faults = self.intended[number], Gathering()
        try:
            for batch in read(self.pieces[number], faults):
                yield from telling.rows(batch, of, number)
                yield from telling.rejected(faults.taken(), of, number)
        except TidelogError as error:
            yield from telling.rejected([(item, None) for item in error.diagnostics], of, number)
        yield from telling.rejected(faults.taken(), of, number)


@dataclass(frozen=True)
class ReadRows:
    """Reads the rows of a table of Spark, as `Reasoner.insert` reads Arrow data."""

    intended: Intended
    types: tuple[ColumnType, ...]
    names: tuple[str | None, ...]
    shown: str
    width: int
    hashing: Hashing
    once: str = field(default_factory=once)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        telling = Telling(self.width, self.hashing)
        for batch in batches:
            if batch.num_rows:
                yield from self._read(pa.Table.from_batches([batch]), telling)

    def _read(self, table: pa.Table, telling: Telling) -> Iterator[pa.RecordBatch]:
        faults = Gathering()
        found: list[Told] = []
        try:
            for batch in from_python(table, self.types, self.names, faults):
                yield from telling.rows(batch, self.intended, NO_PIECE)
        except TidelogError as error:
            found = [(item, None) for item in error.diagnostics]
        # Rows of a table have no numbers.
        placed = [(replace(item, place=self.shown), row) for item, row in (*faults.taken(), *found)]
        yield from telling.rejected(placed, self.intended, NO_PIECE)


class Gathering(Faults):
    """Keeps the rows that cannot be read until they are told."""

    found: list[Told]

    def __init__(self) -> None:
        super().__init__(OnError.SKIP)
        self.found = []

    def add(self, row: BadRow) -> None:
        """Keep a row."""
        self.skipped += 1
        self.found.append((row.diagnostic, _written(row.text)))

    def taken(self) -> list[Told]:
        """The rows since the last time."""
        found, self.found = self.found, []
        return found


def _written(text: str) -> str:
    """The text with bytes that are not UTF-8 shown as escapes: Spark has no other strings."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
