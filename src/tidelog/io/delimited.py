"""CSV, TSV and other delimited text: lines, records, and what Arrow refuses, row by row."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import IO, Any

import numpy as np
import pyarrow as pa

from tidelog.data.arrow import taken, text_array
from tidelog.data.columns import HOLD_EMPTY_TEXT, Batch, ReadColumn, policy, read_texts
from tidelog.data.text_kernels import Survey, Text, fields_of_lines, survey
from tidelog.errors import DataError, Diagnostic, codes, counted, suggest
from tidelog.io.data_file import Header, InputFile
from tidelog.io.rejects import BadRow, RejectedRows
from tidelog.logic.import_options import Nulls
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass

# ---- text read in blocks of whole lines
#
# Touching new memory costs more than reading a file into it, so buffers are used again. A buffer is free if
# it can be resized: Python refuses that while there are views of a `bytearray`.

MOST_KEPT = 3  # the block being read, and those that consumers still use
MANY_BYTES = 1 << 29

_kept: list[bytearray] = []  # buffers of earlier blocks; `pop` and `append` are safe between threads


class LineReader:
    """A stream as blocks that end where a line ends, or where the stream does."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._rest = b""  # what was read beyond the last block

    def read(self, size: int, before: bytes = b"") -> memoryview:
        """`before` and the lines after it, about `size` bytes and at least one line unless there are none."""
        start = before + self._rest
        self._rest = b""
        room = len(start) + min(size, remaining_bytes(self._stream) + 1)
        while True:
            buffer = _free_buffer(room)
            buffer[: len(start)] = start
            end = self._fill(buffer, len(start), room)
            is_last = end < room
            cut = end if is_last else buffer.rfind(b"\n", len(before), end) + 1
            if is_last or cut:
                self._rest = bytes(buffer[cut:end])
                _keep(buffer)
                return memoryview(buffer)[:cut]
            start = bytes(buffer[:end])
            room = 2 * end

    def _fill(self, buffer: bytearray, end: int, room: int) -> int:
        """Read until the room is full or the stream ends; return where what was read ends."""
        with memoryview(buffer) as view:
            while end < room and (count := self._stream.readinto(view[end:room])):  # type: ignore[attr-defined]
                end += count
        return end


def remaining_bytes(stream: IO[bytes]) -> int:
    """How many bytes a plain file still has; many for any other stream."""
    if not isinstance(stream, io.BufferedReader):
        return MANY_BYTES
    try:
        size = os.fstat(stream.fileno()).st_size
        return size - stream.tell() if size else MANY_BYTES
    except OSError:
        return MANY_BYTES


def _free_buffer(room: int) -> bytearray:
    """A free buffer with this room."""
    for _ in range(len(_kept)):
        try:
            buffer = _kept.pop(0)
        except IndexError:  # another thread has taken it
            break
        if len(buffer) >= room and _is_free(buffer):
            return buffer
        _kept.append(buffer)
    buffer = bytearray(room + room // 16 + 1)  # the next block may begin with more that is left over
    buffer.pop()  # room for the byte by which `_is_free` asks
    return buffer


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True


def _keep(buffer: bytearray) -> None:
    _kept.append(buffer)
    del _kept[:-MOST_KEPT]


class ChangedLines(io.RawIOBase):
    """A stream that writes whole lines to another one, changed by a function; it may be given several."""

    def __init__(self, stream: IO[bytes], change: Callable[[bytes], bytes]) -> None:
        self._stream = stream
        self._change = change
        self._left = b""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write whole lines; what is left of one waits for its end."""
        whole, end, self._left = (self._left + bytes(data)).rpartition(b"\n")
        self._stream.write(self._change(whole + end))
        return len(data)

    def flush(self) -> None:
        """Write what is left."""
        left, self._left = self._left, b""
        self._stream.write(self._change(left))
        self._stream.flush()


# ---- records of delimited text
#
# This is the slow path, used for the blocks that Arrow refuses; a test compares it with Arrow on random
# texts. A quote opens a field only at its start; inside, two quotes mean one; what comes after the closing
# quote up to the delimiter belongs to the field. Empty lines are no records.

_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'


@dataclass(frozen=True, slots=True)
class DelimitedRecord:
    """A record: the line it begins on, its bytes without the line's end, and its fields.

    `closed` is false if a quoted field of it, the last one, ends with the text and not with a quote.
    """

    line: int
    raw: bytes
    fields: tuple[bytes, ...]
    closed: bool = True


@lru_cache(maxsize=8)
def _patterns(delimiter: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    plain = b"[^" + re.escape(delimiter) + rb"\r\n]*+"
    quoted = rb'"((?:[^"]|"")*+)("?)(' + plain + b")"
    return re.compile(quoted, re.DOTALL), re.compile(plain)


def records(
    block: bytes | bytearray, delimiter: bytes, quoting: bool, line: int = 1
) -> Iterator[DelimitedRecord]:
    """The records of a block that begins with a record, on line `line` of its file."""
    block = bytes(block)
    if not quoting or b'"' not in block:
        for number, raw in enumerate(block.splitlines(), line):
            if raw:
                yield DelimitedRecord(number, raw, tuple(raw.split(delimiter)))
        return
    position = 0
    while position < len(block):
        record, end = _record(block, position, delimiter, quoting, line)
        following = _after_line(block, end)
        if record.raw:
            yield record
        line += count_lines(block[position:following])
        position = following


def first_record(
    block: Text, delimiter: bytes, quoting: bool, line: int
) -> tuple[DelimitedRecord, int] | None:
    """The first record of a block that begins on line `line`, and where the next line begins, if any."""
    start = 0
    while start < len(block):
        record, end = _record(block, start, delimiter, quoting, line)
        start, line = _after_line(block, end), line + 1
        if record.raw:
            return record, start
    return None


def _after_line(block: Text, end: int) -> int:
    return end + (2 if block[end : end + 2] == b"\r\n" else 1)


def _record(
    block: Text, start: int, delimiter: bytes, quoting: bool, line: int
) -> tuple[DelimitedRecord, int]:
    """The record that begins at `start`, and the place of its line's end."""
    quoted, plain = _patterns(delimiter)
    fields: list[bytes] = []
    closed = True
    position = start
    while True:
        opened = quoted.match(block, position) if quoting else None
        if opened is not None:
            fields.append(opened[1].replace(b'""', b'"') + opened[3])
            closed = bool(opened[2])
            position = opened.end()
        elif (bare := plain.match(block, position)) is not None:
            fields.append(bare[0])
            position = bare.end()
        if block[position : position + 1] != delimiter:
            return DelimitedRecord(line, bytes(block[start:position]), tuple(fields), closed), position
        position += 1


def count_lines(block: bytes | bytearray) -> int:
    r"""How many lines end in the block, with `\n`, `\r\n` or `\r`."""
    found = survey(block)
    alone = block.count(b"\r") - block.count(b"\r\n") if found.has_returns else 0
    return found.line_feeds + alone


def ends_open(block: bytes | bytearray, delimiter: bytes) -> bool:
    """Whether the block, which begins with a record, ends inside a quoted field."""
    if b'"' not in block:
        return False
    text = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(text == _QUOTE)
    if _are_regular(text, quotes, delimiter[0]):
        return len(quotes) % 2 == 1
    return any(not record.closed for record in records(block, delimiter, True))


def _are_regular(text: np.ndarray, quotes: np.ndarray, delimiter: int) -> bool:
    """Whether every other quote begins a field or doubles the quote before it, so that quotes pair up."""
    opening = quotes[::2]
    if opening[0] == 0:
        opening = opening[1:]
    before = text[opening - 1]
    fine = (before == delimiter) | (before == _LINE_FEED) | (before == _RETURN) | (before == _QUOTE)
    return bool(fine.all())


# ---- delimited text that Arrow refuses

_COLUMN_NAME = re.compile(r"[^\W\d][\w .:/()-]*")


@dataclass(frozen=True)
class DelimitedLayout:
    """The columns of a file, and which of them are required, in the order of the predicate's columns."""

    types: tuple[ColumnType, ...]
    wanted: tuple[int, ...]
    names: tuple[str | None, ...] = ()
    first: int | None = None  # the line of the first record, where that is data

    @property
    def wanted_types(self) -> tuple[ColumnType, ...]:
        """The types of the required columns."""
        return tuple(self.types[index] for index in self.wanted)


@dataclass(frozen=True)
class Block:
    """Whole records of a file, the first on line `line`; if `is_open`, the last lacks its closing quote."""

    data: Text
    line: int
    is_open: bool = False

    @cached_property
    def text(self) -> bytes:
        """A copy of the data, for all that is not done in place."""
        return bytes(self.data)

    @cached_property
    def survey(self) -> Survey:
        """What there is in the data."""
        return survey(self.data)

    @property
    def lines(self) -> int:
        """How many lines end in the block."""
        return count_lines(self.text) if self.survey.has_returns else self.survey.line_feeds


@dataclass(frozen=True)
class _Records:
    """The records of a block that are of the right width: their required fields, and where they stand."""

    texts: Sequence[Any]
    rows: int
    record: Callable[[int], DelimitedRecord] | None = None
    faults: list[tuple[int, BadRow]] = field(default_factory=list)  # of other records, by their lines


def read_block(block: Block, layout: DelimitedLayout, file: InputFile, faults: RejectedRows) -> Batch:
    """The rows of the block that can be read; the others are given to `faults`, in order."""
    found = _plain_records(block, layout, file) or _any_records(block, layout, file)
    return _batch(found, layout, file, faults) or Batch((), 0)


def _plain_records(block: Block, layout: DelimitedLayout, file: InputFile) -> _Records | None:
    """The records of a block without quotes, one on each line, found without copying them."""
    if block.is_open or (file.quoting and block.survey.has_quotes):
        return None
    fields = fields_of_lines(block.data, block.survey, file.delimiter, len(layout.types), layout.wanted)
    if fields is None:
        return None
    delimiter = file.delimiter.encode()

    def record_of(line: int) -> DelimitedRecord:
        raw = bytes(block.data[fields.starts[line] : fields.starts[line + 1]]).rstrip(b"\r\n")
        return DelimitedRecord(block.line + line, raw, tuple(raw.split(delimiter)))

    faults = []
    for line in fields.wrong.tolist():
        record = record_of(line)
        fault = _fault(record, layout, file)
        assert fault is not None
        faults.append((record.line, _bad_row(record, fault)))
    return _Records(fields.columns, fields.rows, lambda row: record_of(int(fields.kept[row])), faults)


def _any_records(block: Block, layout: DelimitedLayout, file: InputFile) -> _Records:
    """The records of a block, one by one."""
    kept: list[DelimitedRecord] = []
    faults = []
    for record in records(block.text, file.delimiter.encode(), file.quoting, block.line):
        fault = _fault(record, layout, file)
        if fault is None:
            kept.append(record)
        else:
            faults.append((record.line, _bad_row(record, fault)))
    texts = [text_array([record.fields[index].decode() for record in kept]) for index in layout.wanted]
    return _Records(texts, len(kept), kept.__getitem__, faults)


def _batch(found: _Records, layout: DelimitedLayout, file: InputFile, faults: RejectedRows) -> Batch | None:
    """The rows with a value in each column; the others and those of another width are given to `faults`.

    None if there is such a row, and it is not known where it stands.
    """
    columns = [
        read_texts(texts, column_type, policy(file.nulls, position) is Nulls.VALUE)
        for position, (texts, column_type) in enumerate(zip(found.texts, layout.wanted_types, strict=True))
    ]
    places: dict[int, int] = {}  # by rows, the first column without a value
    for position in reversed(range(len(columns))):
        places |= dict.fromkeys(columns[position].reasons, position)
    misread = sorted(places)
    if misread and found.record is None:
        return None
    bad = found.faults + [
        _misread(found.record(row), row, places[row], columns, layout, file, faults)
        for row in misread
        if found.record
    ]
    left = np.setdiff1d(np.arange(found.rows), misread, assume_unique=True) if misread else None
    _count_nulls(columns, misread, layout, file, faults)
    for _, row in sorted(bad, key=lambda pair: pair[0]):
        faults.add(row)
    if left is None:
        return Batch(tuple(column.column for column in columns), found.rows)
    kept = tuple(replace(each.column, values=taken(each.column.values, left)) for each in columns)
    return Batch(kept, len(left))


def _misread(
    record: DelimitedRecord,
    row: int,
    position: int,
    columns: Sequence[ReadColumn],
    layout: DelimitedLayout,
    file: InputFile,
    faults: RejectedRows,
) -> tuple[int, BadRow]:
    """The line of a row, and why it has no value in a column, the first in which that is so."""
    number = layout.wanted[position]
    reason = columns[position].reasons[row]
    if layout.names and layout.names[number]:
        reason = f"{reason} (column `{layout.names[number]}`)"
    help = _header_help(record, file) if record.line == layout.first else None
    said = Diagnostic(codes.NOT_OF_TYPE, reason, place=file.place(record.line, number + 1), help=help)
    missing = None
    if any(row in column.empty for column in columns):
        missing = _left_out(row, columns, file, faults)
    return record.line, _bad_row(record, said, missing)


def _left_out(row: int, columns: Sequence[ReadColumn], file: InputFile, faults: RejectedRows) -> str | None:
    """The column for which a row is left out, if it is for a missing value alone; else it is rejected.

    It is counted if the first value for which it is rejected is missing.
    """
    places = [position for position, column in enumerate(columns) if row in column.reasons]
    dropped = [
        position
        for position in places
        if row in columns[position].empty and policy(file.nulls, position) is Nulls.DROP_ROW
    ]
    if len(dropped) == len(places):
        return _name(file, dropped[0])
    first = next(position for position in places if position not in dropped)
    if row in columns[first].empty:
        faults.nulls[file.shown, _name(file, first), Nulls.REJECT.value] += 1
    return None


def _header_help(record: DelimitedRecord, file: InputFile) -> str | None:
    """What to do about a first record that looks like the names of columns: words, each once."""
    texts = [field.decode("utf-8", "replace").strip() for field in record.fields]
    is_header = len(set(texts)) == len(texts) and all(_COLUMN_NAME.fullmatch(text) for text in texts)
    return file.header_help(texts) if is_header else None


def _bad_row(record: DelimitedRecord, fault: Diagnostic, missing: str | None = None) -> BadRow:
    return BadRow(fault, record.raw.decode("utf-8", "surrogateescape"), missing)


def _count_nulls(
    columns: Sequence[ReadColumn],
    misread: Sequence[int],
    layout: DelimitedLayout,
    file: InputFile,
    faults: RejectedRows,
) -> None:
    """Count the missing values that are values."""
    for position, (column, column_type) in enumerate(zip(columns, layout.wanted_types, strict=True)):
        if policy(file.nulls, position) is Nulls.VALUE and column_type not in HOLD_EMPTY_TEXT:
            missing = len(column.empty.difference(misread))
            if missing:
                faults.nulls[file.shown, _name(file, position), Nulls.VALUE.value] += missing


def _name(file: InputFile, place: int) -> str:
    name = file.names[place] if place < len(file.names) else None
    return name or f"c{place + 1}"


def _fault(record: DelimitedRecord, layout: DelimitedLayout, file: InputFile) -> Diagnostic | None:
    """What is wrong with the shape of a record, if anything."""
    width, expected = len(record.fields), len(layout.types)
    if not record.closed:
        help_line = "write the quote that closes it, or read the file with quoting = false"
        message = "the quoted text is not closed before the file ends"
        return Diagnostic(codes.OPEN_QUOTE, message, place=file.place(record.line, width), help=help_line)
    if width != expected:
        message = f"the row has {counted(width, 'column')} instead of {expected}"
        return Diagnostic(codes.WRONG_WIDTH, message, place=file.place(record.line))
    for index in layout.wanted:
        try:
            record.fields[index].decode()
        except UnicodeDecodeError:
            return Diagnostic(
                codes.NOT_UTF_8, "the text is not UTF-8", place=file.place(record.line, index + 1)
            )
    return None


# ---- CSV, TSV and other delimited text
#
# A file is read in blocks of whole records. Without quotes, fields are found by a kernel; else Arrow parses a
# block, and only one that it refuses, or in which a row is bad, is divided, and the parts of it that are so
# are read record by record. Types are never guessed: they are those of the columns, and every text is a
# value, the empty one too.

BLOCK = 1 << 20
CAREFUL_BLOCK = 1 << 15
LARGEST_BLOCK = 1 << 29
_MARK = b"\xef\xbb\xbf"  # the byte order mark that some programs put before UTF-8


def read_delimited(file: InputFile, faults: RejectedRows, threads: int) -> Iterator[Batch]:
    """The rows of a delimited file, block by block."""
    rows = 0
    with file.open() as stream:
        for batch in _read_blocks(blocks_of(stream, file, BLOCK * threads), file, faults, threads):
            rows += batch.rows
            yield replace(batch, following=_following(stream, rows))


def _following(stream: IO[bytes], rows: int) -> int:
    """About how many rows the rest of a plain file has, given how many were read of it."""
    if not isinstance(stream, io.BufferedReader) or not stream.seekable():
        return 0
    return remaining_bytes(stream) * rows // max(stream.tell(), 1)


def _read_blocks(
    blocks: Iterator[Block], file: InputFile, faults: RejectedRows, threads: int
) -> Iterator[Batch]:
    layout: DelimitedLayout | None = None
    for block in blocks:
        rest = block
        if layout is None:
            found = first_record(block.data, file.delimiter.encode(), file.quoting, block.line)
            if found is None:
                continue
            layout, rest = layout_of(file, block, *found)
        for batch in _read_block(rest, layout, file, faults, threads):
            if batch.rows and not faults.failed:
                yield batch
        if block.is_open:  # an open quote takes in all that follows
            return


def _read_block(
    block: Block, layout: DelimitedLayout, file: InputFile, faults: RejectedRows, threads: int
) -> Iterator[Batch]:
    """The rows of a block. If Arrow refuses it, only the part that it refuses is read record by record."""
    found = _plain_records(block, layout, file) or _arrow_records(block, layout, file, threads)
    batch = None if found is None else _batch(found, layout, file, faults)
    if batch is not None:
        yield batch
    elif len(block.data) <= CAREFUL_BLOCK:
        yield read_block(block, layout, file, faults)
    else:
        largest = len(block.data) + 1  # all of it is here: a quote that is open in a part is so to its end
        for part in blocks_of(io.BytesIO(block.text), file, CAREFUL_BLOCK, block.line, largest):
            found = _arrow_records(part, layout, file, 1)
            batch = None if found is None else _batch(found, layout, file, faults)
            yield batch or read_block(part, layout, file, faults)


def blocks_of(
    stream: IO[bytes], file: InputFile, size: int, line: int = 1, largest: int | None = None
) -> Iterator[Block]:
    """The stream in blocks of about `size` bytes that end where a record ends."""
    lines = LineReader(stream)
    while (block := _whole_records(lines, file, size, line, largest or LARGEST_BLOCK)).data:
        yield block
        line += block.lines


def _whole_records(lines: LineReader, file: InputFile, size: int, line: int, largest: int) -> Block:
    data = lines.read(size)
    block = Block(data[len(_MARK) :] if line == 1 and data[: len(_MARK)] == _MARK else data, line)
    while file.quoting and block.survey.has_quotes and ends_open(block.text, file.delimiter.encode()):
        length = len(block.data)
        longer = lines.read(max(size, length), block.text) if length < largest else block.data
        if len(longer) == length:
            return replace(block, is_open=True)
        block = Block(longer, line)
    return block


def layout_of(
    file: InputFile, block: Block, record: DelimitedRecord, end: int
) -> tuple[DelimitedLayout, Block]:
    """The columns by the first record, which goes up to `end`; the block without it if it is a header."""
    types = file.types if file.types is not None else (ColumnType.ANY,) * len(record.fields)
    wanted = tuple(index for index, column_type in enumerate(types) if column_type is not ColumnType.SKIP)
    header = tuple(field.decode("utf-8", "replace") for field in record.fields)
    if not _is_header(file, header, len(types)):
        names = file.names if len(file.names) == len(types) else ()
        return DelimitedLayout(types, wanted, names, record.line), block
    rest = Block(block.data[end:], block.line + count_lines(bytes(block.data[:end])), block.is_open)
    if file.header is Header.IGNORED or not file.names or None in file.names:
        return DelimitedLayout(types, wanted, header if len(header) == len(types) else ()), rest
    return _layout_by_name(file, record, header), rest


def _is_header(file: InputFile, fields: tuple[str, ...], width: int) -> bool:
    if file.header is not Header.DETECTED:
        return file.header is not Header.NONE
    numbered = tuple(f"c{number}" for number in range(1, width + 1))
    names = {name or number for name, number in zip(file.names, numbered, strict=False)}
    return fields == numbered or (bool(names) and names <= set(fields))


def _layout_by_name(file: InputFile, record: DelimitedRecord, header: tuple[str, ...]) -> DelimitedLayout:
    """The columns as the header orders them; those that the predicate does not name are skipped."""
    assert file.types is not None
    types = [ColumnType.SKIP] * len(header)
    wanted: list[int] = []
    for name, column_type in zip(file.names, file.types, strict=True):
        if name not in header:
            message = f"the header has no column `{name}`"
            near = suggest(name or "", header)
            help_line = near or "it has " + ", ".join(f"`{column}`" for column in header)
            raise DataError(
                Diagnostic(codes.COLUMN_MISSING, message, place=file.place(record.line), help=help_line)
            )
        wanted.append(header.index(name))
        types[wanted[-1]] = column_type
    return DelimitedLayout(tuple(types), tuple(wanted), header)


def _arrow_records(block: Block, layout: DelimitedLayout, file: InputFile, threads: int) -> _Records | None:
    """The records of a block as Arrow divides it, without where they stand; None if it refuses one."""
    if block.is_open or not block.data:
        return None
    import pyarrow.csv

    quoting = file.quoting and block.survey.has_quotes
    names = [str(index) for index in range(len(layout.types))]
    wanted = [names[index] for index in layout.wanted]
    size = len(block.data) // threads + 1
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(block.data),
            pyarrow.csv.ReadOptions(use_threads=threads > 1, block_size=size, column_names=names),
            pyarrow.csv.ParseOptions(
                delimiter=file.delimiter, quote_char='"' if quoting else False, newlines_in_values=quoting
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()),
                include_columns=wanted,
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return _Records([column.combine_chunks() for column in table.columns], table.num_rows)
