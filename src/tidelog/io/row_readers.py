"""What runs in tasks when Spark reads files for a program: tidelog's own readers, for what SQL does not have.

- `WholeFileReader` reads whole files: delimited text with records over several lines, JSON arrays, RDF.
- `ArrivingFileReader` reads whole files that come one after the other.
- `SplitLineReader` reads lines that Spark has split: JSON lines, N-Triples, N-Quads.
- `MessageReader` reads messages, such as those of Kafka, each of which is a record.
- `RejectedLineReader` explains rejected lines: which cell, why, and on which line of the file.
- `RejectedTableReader` explains rejected rows of tables.

Nothing here knows Spark: batches of Arrow come in and go out.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path
from typing import IO, Any, Final, cast
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa

from tidelog.data.arrow import array_of, pc
from tidelog.data.columns import NULL, Batch, Column
from tidelog.data.decode import exact_array
from tidelog.data.dictionary import Dictionary
from tidelog.data.typed_columns import PRECISION, SCALE
from tidelog.durable import replacing_text
from tidelog.errors import Diagnostic, codes
from tidelog.io.arrow_files import ColumnRequest, read_arrow_data
from tidelog.io.data_file import DELIMITED, InputFile, is_compressed
from tidelog.io.delimited import BLOCK, Block, DelimitedLayout, blocks_of, read_block, records
from tidelog.io.reader import read
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic import conversions
from tidelog.logic.values import ColumnType, Kind, Value, exact_number, fits_size
from tidelog.records import dataclass

# Columns that rows have besides their values.
FILE: Final = "_file"  # the address of the file, as Spark writes it
RAW: Final = "_raw"  # the line, as bytes
FAULT: Final = "_fault"  # why it is no fact, where a task says so
LEFT_OUT: Final = "_left_out"  # whether it is only left out, for a value that it lacks
ROW: Final = "_row"  # its number in the file, where Spark knows it
NUMBER: Final = "id"  # of a file, in the rows that make tasks read it
FAULT_TYPE: Final = pa.struct([(name, pa.string()) for name in ("place", "code", "reason", "row")])
REJECTS: Final = pa.schema(
    [
        ("place", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
        ("column", pa.string()),
        ("text", pa.string()),
        ("code", pa.string()),
        ("reason", pa.string()),
        ("row", pa.string()),
    ]
)
_ROWS: Final = 1 << 16
_COLUMN: Final = re.compile(r" \(column `(.*)`\)$", re.DOTALL)


@dataclass(frozen=True)
class CarriedFile(InputFile):
    """A file as a task reads it: from a path that the machine has, or from bytes that Spark has read."""

    name: str = ""  # what messages call it
    content: bytes | None = None

    @property
    def shown(self) -> str:
        """The name of the file in messages."""
        return self.name

    def open(self) -> IO[bytes]:
        """The bytes of the file, decompressed."""
        if self.content is None:
            return super().open()
        stream = io.BytesIO(self.content)
        return cast(IO[bytes], gzip.open(stream)) if self.compressed else stream


class PendingRejects(RejectedRows):
    """Rows that cannot be read, kept until they go out. Mutable."""

    def __init__(self) -> None:
        super().__init__(OnError.COLLECT)
        self.kept: list[BadRow] = []

    def add(self, row: BadRow) -> None:
        """Keep a row."""
        self.kept.append(row)

    def drain(self) -> list[BadRow]:
        """Return what was kept, and forget it."""
        found, self.kept = self.kept, []
        return found


# ---- rejected rows


@dataclass(frozen=True)
class ParsedColumns:
    """The columns of the rows that go out: their names, Arrow's types, and how they are declared.

    Texts without a declared type are exact terms, or with `has_fields` the fields of a delimited file.
    """

    names: tuple[str, ...]
    types: tuple[ColumnType, ...]
    arrow: tuple[Any, ...]
    has_fields: bool = False

    @property
    def schema(self) -> Any:
        """The schema of the batches."""
        fields = [*zip(self.names, self.arrow, strict=True), (FILE, pa.string()), (RAW, pa.binary())]
        return pa.schema([*fields, (FAULT, FAULT_TYPE), (LEFT_OUT, pa.bool_())])

    def rows(self, batch: Batch, file: str, shown: str) -> Iterator[Any]:
        """Yield rows that were read; those with a value that Spark's type does not hold are faults."""
        arrays, faults = [], dict[int, BadRow]()
        for column, of, wanted, name in zip(batch.columns, self.types, self.arrow, self.names, strict=True):
            array, misfits = self._typed(column, of, wanted)
            arrays.append(array)
            for position, value in misfits.items():
                faults.setdefault(position, BadRow(not_held(conversions.plain(value), of, name, shown), ""))
        if faults:
            texts = [exact_array(column) for column in batch.columns]
            for position, fault in faults.items():
                faults[position] = replace(fault, text=" ".join(str(each[position]) for each in texts))
        for start in range(0, batch.rows, _ROWS):
            count = min(_ROWS, batch.rows - start)
            those = [faults.get(start + position) for position in range(count)] if faults else [None] * count
            yield self._made([_slice(array, start, count) for array in arrays], file, those)

    def faults(self, faults: Sequence[BadRow], file: str, lines: Sequence[bytes] = ()) -> Iterator[Any]:
        """Yield rows that could not be read, with their lines where these are known."""
        for start in range(0, len(faults), _ROWS):
            some = faults[start : start + _ROWS]
            empty = [pa.nulls(len(some), of) for of in self.arrow]
            yield self._made(empty, file, some, lines[start : start + _ROWS])

    def _made(
        self, arrays: Sequence[Any], file: str, faults: Sequence[BadRow | None], lines: Sequence[bytes] = ()
    ) -> Any:
        count = len(faults)
        left_out = [fault is not None and fault.missing is not None for fault in faults]
        made = [
            *arrays,
            pa.repeat(pa.scalar(file, pa.string()), count),
            pa.array(lines, pa.binary()) if lines else pa.nulls(count, pa.binary()),
            pa.array([None if fault is None else _said(fault) for fault in faults], FAULT_TYPE),
            pa.array(left_out, pa.bool_()),
        ]
        return pa.RecordBatch.from_arrays(made, schema=self.schema)

    def _typed(self, column: Column, of: ColumnType, wanted: Any) -> tuple[Any, dict[int, Value]]:
        """Return values as Arrow's type has them, and by their places those that it cannot have."""
        values = column.values
        if self.has_fields and column.type is ColumnType.ANY is of:
            return values.cast(wanted), {}
        if of in (ColumnType.ANY, ColumnType.TERM):
            return exact_array(column).cast(wanted), {}
        is_text = column.type is of and of in (ColumnType.STRING, ColumnType.IRI)
        if is_text or (column.type is of.base and values.type == wanted):
            return values.cast(wanted), {}
        # Each distinct value is asked for once.
        dictionary = Dictionary()
        ids, places = np.unique(dictionary.encode_column(column), return_inverse=True)
        distinct = dictionary.decode_all(ids.tolist())
        found = [None if value == NULL else arrow_value(value, of) for value in distinct]
        bad = [one is None and value != NULL for one, value in zip(found, distinct, strict=True)]
        misfits = {at: distinct[places[at]] for at in np.flatnonzero(np.array(bad, bool)[places]).tolist()}
        if pa.types.is_temporal(wanted):
            array = pa.array(found, pa.int32() if pa.types.is_date(wanted) else pa.int64()).cast(wanted)
        else:
            array = pa.array(found, wanted)
        return array.take(array_of(places.astype(np.int64))), misfits


def _slice(array: Any, start: int, count: int) -> Any:
    part = array.slice(start, count)
    return part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part


def _said(fault: BadRow) -> dict[str, str]:
    said = fault.diagnostic
    return {
        "place": said.place or "",
        "code": said.code,
        "reason": said.message,
        "row": shown_text(fault.text),
    }


def shown_text(text: str) -> str:
    """Return a text in which surrogates represent bytes that are not UTF-8, as text that Arrow accepts."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def arrow_value(value: Value, of: ColumnType) -> Any:
    """Return a value of a declared type as a column of Spark holds it, None if it does not.

    Dates and moments are days and microseconds since 1970.
    """
    match value.kind:
        case Kind.BIG if of is ColumnType.INTEGER:
            return None
        case Kind.DECIMAL | Kind.BIG:
            return exact_number(value) if fits_size(value, of.size or (PRECISION, SCALE)) else None
        case Kind.DATE:
            return value.content if abs(int(value.content)) < 1 << 31 else None
        case Kind.DATETIME:
            return value.content if (value.extra is None) == (of is ColumnType.LOCAL_DATETIME) else None
        case Kind.BLANK:
            return f"_:{value.content}"
        case Kind.BOOLEAN:
            return bool(value.content)
    return value.content


def not_held(text: str, of: ColumnType, name: str, place: str) -> Diagnostic:
    """Return why a value that tidelog reads is not in a column of Spark."""
    what = "exceeds the range of a Spark column"
    if of is ColumnType.INTEGER:
        what = "exceeds 64 bits"
    elif of is ColumnType.DECIMAL:
        what = f"exceeds decimal({PRECISION}, {SCALE})"
    elif of is ColumnType.DATETIME:
        what = "has no time zone, and the column is not localDateTime"
    return Diagnostic(codes.NOT_OF_TYPE, f"{text} {what} (column `{name}`)", place=place)


# ---- files and lines


@dataclass(frozen=True)
class WholeFileReader:
    """Reads whole files: rows come in with a file's number, or with the path and bytes that Spark has.

    With a folder for them, it writes rejected rows there, so that no file is read twice: a file of them for
    each file that has some, of the same name in each attempt.
    """

    files: Mapping[str, CarriedFile]  # by their addresses
    shape: ParsedColumns
    rejects: str | None = None  # the folder

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of the files."""
        addresses = list(self.files)
        for batch in batches:
            for row in batch.to_pylist():
                address = addresses[row[NUMBER]] if NUMBER in row else row[FILE]
                file = self.files[address]
                if NUMBER not in row:
                    file = replace(file, content=row["content"])
                rows = whole_rows(file, address, self.shape)
                if self.rejects is not None:
                    rows = self._written(
                        rows, Path(self.rejects, f"whole-{addresses.index(address):05d}.csv")
                    )
                yield from rows

    def _written(self, rows: Iterator[Any], path: Path) -> Iterator[Any]:
        """Yield rows, and write those that are rejected."""
        located = RejectedLineReader(self.files, {})
        with ExitStack() as opened:
            stream: IO[bytes] | None = None
            for batch in rows:
                is_bad = pc.and_(pc.is_valid(batch.column(FAULT)), pc.invert(batch.column(LEFT_OUT)))
                bad = batch.select([FILE, RAW, FAULT]).filter(is_bad)
                if bad.num_rows:
                    text = io.StringIO(newline="")
                    writer = csv.DictWriter(text, REJECTS.names, lineterminator="\n")
                    if stream is None:
                        stream = opened.enter_context(replacing_text(path))
                        writer.writeheader()
                    for rejected in located([bad]):
                        writer.writerows(rejected.to_pylist())
                    stream.write(text.getvalue().encode())
                yield batch


@dataclass(frozen=True)
class ArrivingFileReader:
    """Reads whole files that are like another one, from paths that the machine has."""

    like: CarriedFile  # its name is that of the folder
    shape: ParsedColumns

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of the files."""
        for batch in batches:
            for address in batch.column(FILE).to_pylist():
                path = Path(unquote(urlparse(address).path))
                name = str(Path(self.like.name, path.name))
                file = replace(self.like, path=path, name=name, compressed=is_compressed(path))
                yield from whole_rows(file, address, self.shape)


def whole_rows(file: CarriedFile, address: str, shape: ParsedColumns) -> Iterator[Any]:
    """Yield the rows of a file."""
    faults = PendingRejects()
    for found in read(file, faults):
        yield from shape.rows(found, address, file.shown)
        yield from shape.faults(faults.drain(), address)
    yield from shape.faults(faults.drain(), address)


@dataclass(frozen=True)
class SplitLineReader:
    """Reads lines, each of which is a row by itself: bytes, with the address of their file."""

    files: Mapping[str, CarriedFile]
    shape: ParsedColumns

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of lines."""
        for batch in batches:
            addresses = batch.column(FILE)
            for address in pc.unique(addresses).to_pylist():
                lines = batch.column(RAW).filter(pc.equal(addresses, address))
                yield from self._read(lines.to_pylist(), address)

    def _read(self, lines: list[bytes], address: str) -> Iterator[Any]:
        faults = PendingRejects()
        file = replace(
            self.files[address], path=None, content=b"\n".join(lines) + b"\n", compressed=False, limit=None
        )
        for found in read(file, faults):
            yield from self.shape.rows(found, address, file.shown)
        bad = faults.drain()
        own = [lines[number - 1] for number in (place_of(each, file.shown)[0] or 1 for each in bad)]
        yield from self.shape.faults(bad, address, own)


@dataclass(frozen=True)
class MessageReader:
    """Reads messages, each of which is one record; the columns `additional` are passed through."""

    file: CarriedFile
    shape: ParsedColumns
    additional: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the records of messages, and those that are none with the reason."""
        for batch in batches:
            others = batch.select(list(self.additional))
            for places, made in self._parts(batch.column(RAW).to_pylist()):
                own = [name for name in made.schema.names if name != FILE]
                with_them = others.take(pa.array(places, pa.int64()))
                columns = [*(made.column(name) for name in own), *with_them.columns]
                yield pa.RecordBatch.from_arrays(columns, names=[*own, *self.additional])

    def _parts(self, texts: list[bytes | None]) -> Iterator[tuple[list[int], Any]]:
        together: list[int] = []
        alone: list[int] = []
        empty: list[int] = []
        is_json = self.file.format == "jsonl"
        lines: list[bytes] = []
        for position, text in enumerate(texts):
            line = (text or b"").rstrip(b"\r\n")
            if is_json:  # no text in JSON has a line break in it
                line = line.replace(b"\n", b" ").replace(b"\r", b" ")
            lines.append(line)
            if not line.strip():
                empty.append(position)
            elif not is_json and (b'"' in line or b"\n" in line or b"\r" in line):
                alone.append(position)  # a quote that is not closed must not take the next message
            else:
                together.append(position)
        for some in [together, *([position] for position in alone)]:
            if some:
                yield from self._read(some, [lines[position] for position in some])
        if empty:
            said = Diagnostic(codes.WRONG_WIDTH, "the message is empty")
            yield from self._faults(empty, [BadRow(said, "")] * len(empty), [lines[each] for each in empty])

    def _read(self, places: list[int], lines: list[bytes]) -> Iterator[tuple[list[int], Any]]:
        faults = PendingRejects()
        file = replace(self.file, content=b"\n".join(lines) + b"\n")
        made = [part for found in read(file, faults) for part in self.shape.rows(found, "", file.shown)]
        bad = faults.drain()
        if len(places) == 1 and sum(part.num_rows for part in made) + len(bad) != 1:
            said = Diagnostic(codes.WRONG_WIDTH, "a message is one record, and this one has several")
            yield from self._faults(places, [BadRow(said, "")], lines)
            return
        numbers = [(place_of(each, file.shown)[0] or 1) - 1 for each in bad]
        good = sorted({*range(len(places))} - {*numbers})
        done = 0
        for part in made:
            yield [places[each] for each in good[done : done + part.num_rows]], part
            done += part.num_rows
        if bad:
            owners = [places[each] for each in numbers]
            yield from self._faults(owners, bad, [lines[each] for each in numbers])

    def _faults(
        self, places: list[int], bad: Sequence[BadRow], lines: Sequence[bytes]
    ) -> Iterator[tuple[list[int], Any]]:
        done = 0
        for part in self.shape.faults(bad, "", lines):
            yield places[done : done + part.num_rows], part
            done += part.num_rows


def place_of(row: BadRow, shown: str) -> tuple[int | None, int | None]:
    """Return the line and the column of an error, as far as they are known."""
    numbers = (row.diagnostic.place or "").removeprefix(shown).split(":")[1:]
    line, column = (*(int(number) for number in numbers), None, None)[:2]
    return line, column


# ---- files of rejected rows


@dataclass(frozen=True)
class RejectedLineReader:
    """Explains rejected lines: what is wrong with them, and where they are.

    All rejected lines of a file come to one task, which reads the file again to find their numbers, if the
    machine has it. Otherwise only the file is known.
    """

    files: Mapping[str, CarriedFile]
    layouts: Mapping[str, DelimitedLayout]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rejected rows."""
        seen: Counter[tuple[str, bytes]] = Counter()
        for batch in batches:
            rows = batch.select([FILE, RAW, FAULT]).to_pylist()
            lines = self._lines(rows)
            rejected = []
            for row in rows:
                key = row[FILE], row[RAW]
                numbers = lines.get(key, ())
                rejected.append(
                    self._explained(row, numbers[seen[key]] if seen[key] < len(numbers) else None)
                )
                seen[key] += 1
            yield pa.RecordBatch.from_pylist(rejected, REJECTS)

    def _lines(self, rows: Sequence[Mapping[str, Any]]) -> Mapping[tuple[str, bytes], list[int]]:
        """Return the numbers of the lines that rows stand on."""
        wanted: dict[str, set[bytes]] = defaultdict(set)
        for row in rows:
            if row[RAW] is not None and self.files[row[FILE]].path is not None:
                wanted[row[FILE]].add(row[RAW])
        found: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        for address, raws in wanted.items():
            file = replace(self.files[address], quoting=False)
            with file.open() as stream:
                for block in blocks_of(stream, file, BLOCK):
                    for number, line in enumerate(block.text.splitlines(), block.line):
                        if line in raws:
                            found[address, line].append(number)
        return found

    def _explained(self, row: Mapping[str, Any], line: int | None) -> dict[str, Any]:
        file, fault = self.files[row[FILE]], row[FAULT]
        if fault is not None:
            said = Diagnostic(fault["code"], fault["reason"], place=fault["place"])
            found = BadRow(said, fault["row"])
            own, column = place_of(found, file.shown)
            if row[RAW] is None:
                line = own
            place = file.shown if line is None else file.place(line, column)
            found = replace(found, diagnostic=replace(said, place=place))
            return rejected(file.shown, found, line, self._cell(fault["row"].encode(), file, column))
        kept, layout = PendingRejects(), self.layouts[row[FILE]]
        block = Block(row[RAW] + b"\n", line or 1)
        read_block(block, layout, file, kept)
        bad = kept.drain() or [self._not_held(row[RAW], layout, file, line or 1)]
        column = place_of(bad[0], file.shown)[1]
        shown = bad[0].diagnostic.place if line is not None else file.shown
        found = replace(bad[0], diagnostic=replace(bad[0].diagnostic, place=shown))
        return rejected(file.shown, found, line, self._cell(row[RAW], file, column))

    def _cell(self, row: bytes, file: CarriedFile, column: int | None) -> str | None:
        """Return the text of a cell of a delimited row."""
        if column is None or file.format not in DELIMITED:
            return None
        record = next(records(row, file.delimiter.encode(), file.quoting), None)
        fields = () if record is None else record.fields
        return fields[column - 1].decode("utf-8", "replace") if column <= len(fields) else None

    def _not_held(self, raw: bytes, layout: DelimitedLayout, file: CarriedFile, line: int) -> BadRow:
        """Return the fault of a row that tidelog reads, and Spark's types do not hold."""
        fields = next(records(raw, file.delimiter.encode(), file.quoting)).fields
        names = layout.names or tuple(f"c{position}" for position in range(1, len(fields) + 1))
        for index, of in zip(layout.wanted, layout.wanted_types, strict=True):
            text = fields[index].decode("utf-8", "replace")
            value = conversions.read_typed(text, of)
            if of not in (ColumnType.ANY, ColumnType.TERM) and (
                arrow_value(value, of) is None or value.kind in (Kind.DATE, Kind.DATETIME)
            ):
                said = not_held(text.strip(), of, names[index] or "", file.place(line, index + 1))
                return BadRow(said, raw.decode("utf-8", "surrogateescape"))
        said = Diagnostic(codes.NOT_UTF_8, "the text is not UTF-8", place=file.place(line))
        return BadRow(said, raw.decode("utf-8", "surrogateescape"))


def rejected(shown: str, row: BadRow, line: int | None, text: str | None = None) -> dict[str, Any]:
    """Return a rejected row as it goes out."""
    said = row.diagnostic
    column = _COLUMN.search(said.message)
    return {
        "place": said.place,
        "file": shown,
        "line": line,
        "column": None if column is None else column[1],
        "text": text,
        "code": said.code,
        "reason": said.message,
        "row": shown_text(row.text),
    }


@dataclass(frozen=True)
class RejectedTableReader:
    """Explains rejected rows of tables: what is wrong with them."""

    wanted: ColumnRequest
    shown: Mapping[str, str]  # what messages call files, by their addresses
    held: tuple[tuple[str, ColumnType], ...] = field(default=())

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rejected rows."""
        for batch in batches:
            rejected = []
            for position in range(batch.num_rows):
                one = batch.slice(position, 1)
                address, number = (one.column(name)[0].as_py() for name in (FILE, ROW))
                rejected.append(
                    self._explained(one, self.shown.get(address, address or self.wanted.shown), number)
                )
            yield pa.RecordBatch.from_pylist(rejected, REJECTS)

    def _explained(self, one: Any, shown: str, number: int | None) -> dict[str, Any]:
        kept = PendingRejects()
        wanted = replace(self.wanted, shown=shown)
        table = pa.table([one.column(name) for name in wanted.names], names=list(wanted.names))
        for _ in read_arrow_data([table], replace(wanted, places=tuple(range(len(wanted.names)))), kept):
            pass
        bad = kept.drain()
        if not bad:
            reason = "a value exceeds the range of a Spark column"
            texts = [str(table.column(position)[0].as_py()) for position in range(table.num_columns)]
            bad = [BadRow(Diagnostic(codes.NOT_OF_TYPE, reason, place=shown), str(texts))]
        column = place_of(bad[0], shown)[1]
        position = shown
        text = None
        if column is not None:
            value = table.column(column - 1)[0].as_py()
            text = None if value is None else str(value)
            own = wanted.places[column - 1] + 1
            position = shown if number is None else f"{shown}:{number + 1}:{own}"
        found = replace(bad[0], diagnostic=replace(bad[0].diagnostic, place=position))
        return rejected(shown, found, None if number is None else number + 1, text)
