"""CSV, TSV and other delimited text.

A file is read in blocks of whole records. Arrow parses each block; only a block that it refuses is read
again with care, which finds the exact rows at fault, and the values that Arrow cannot hold. Types are never
guessed: they are those of the columns, and every text is a value, the empty one too.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv

from tidelog.errors import DataError, Diagnostic, suggest
from tidelog.io import codes
from tidelog.io.careful import Block, Layout, read_block
from tidelog.io.columns import ARROW_TYPES, FALSE, TRUE, Batch, Column, column_of_texts, finite
from tidelog.io.fields import text_views
from tidelog.io.lines import LineReader, remaining_bytes
from tidelog.io.records import Record, count_lines, ends_open, first_record
from tidelog.io.rejects import Faults
from tidelog.io.source import DataFile, Header
from tidelog.logic.values import ColumnType

BLOCK = 1 << 20
CAREFUL_BLOCK = 1 << 15
LARGEST_BLOCK = 1 << 29
_MARK = b"\xef\xbb\xbf"  # the byte order mark that some programs put before UTF-8
_TEXTS = frozenset({ColumnType.ANY, ColumnType.STRING})  # every text is a value: nothing to check
_DIRECT = frozenset({ColumnType.INTEGER, ColumnType.DOUBLE, ColumnType.BOOLEAN, ColumnType.DATE})


def read_delimited(file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    """The rows of a delimited file, block by block."""
    rows = 0
    with file.open() as stream:
        for batch in _read_blocks(blocks_of(stream, file, BLOCK * threads), file, faults, threads):
            rows += batch.rows
            yield replace(batch, following=_following(stream, rows))


def _following(stream: IO[bytes], rows: int) -> int:
    """About how many rows the rest of a plain file has, if what has been read of it has so many."""
    if not isinstance(stream, io.BufferedReader) or not stream.seekable():
        return 0
    return remaining_bytes(stream) * rows // max(stream.tell(), 1)


def _read_blocks(blocks: Iterator[Block], file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    layout: Layout | None = None
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
    block: Block, layout: Layout, file: DataFile, faults: Faults, threads: int
) -> Iterator[Batch]:
    """The rows of a block. If Arrow refuses it, only the part that it refuses is read with care."""
    batch = _parse(block, layout, file, threads)
    if batch is not None:
        yield batch
    elif len(block.data) <= CAREFUL_BLOCK:
        yield read_block(block, layout, file, faults)
    else:
        largest = len(block.data) + 1  # all of it is here: a quote that is open in a part is so to its end
        for part in blocks_of(io.BytesIO(block.text), file, CAREFUL_BLOCK, block.line, largest):
            yield _parse(part, layout, file, 1) or read_block(part, layout, file, faults)


def blocks_of(
    stream: IO[bytes], file: DataFile, size: int, line: int = 1, largest: int | None = None
) -> Iterator[Block]:
    """The stream in blocks of about `size` bytes that end where a record ends."""
    lines = LineReader(stream)
    while (block := _whole_records(lines, file, size, line, largest or LARGEST_BLOCK)).data:
        yield block
        line += block.lines


def _whole_records(lines: LineReader, file: DataFile, size: int, line: int, largest: int) -> Block:
    data = lines.read(size)
    block = Block(data[len(_MARK) :] if line == 1 and data[: len(_MARK)] == _MARK else data, line)
    while file.quoting and block.survey.has_quotes and ends_open(block.text, file.delimiter.encode()):
        length = len(block.data)
        longer = lines.read(max(size, length), block.text) if length < largest else block.data
        if len(longer) == length:
            return replace(block, is_open=True)
        block = Block(longer, line)
    return block


def layout_of(file: DataFile, block: Block, record: Record, end: int) -> tuple[Layout, Block]:
    """What the first record, up to `end`, tells of the columns; the block without it if it is a header."""
    types = file.types if file.types is not None else (ColumnType.ANY,) * len(record.fields)
    wanted = tuple(index for index, column_type in enumerate(types) if column_type is not ColumnType.SKIP)
    header = tuple(field.decode("utf-8", "replace") for field in record.fields)
    if not _is_header(file, header, len(types)):
        names = file.names if len(file.names) == len(types) else ()
        return Layout(types, wanted, names, record.line), block
    rest = Block(block.data[end:], block.line + count_lines(bytes(block.data[:end])), block.is_open)
    if file.header is Header.IGNORED or not file.names or None in file.names:
        return Layout(types, wanted, header if len(header) == len(types) else ()), rest
    return _layout_by_name(file, record, header), rest


def _is_header(file: DataFile, fields: tuple[str, ...], width: int) -> bool:
    if file.header is not Header.DETECTED:
        return file.header is not Header.NONE
    numbered = tuple(f"c{number}" for number in range(1, width + 1))
    names = {name or number for name, number in zip(file.names, numbered, strict=False)}
    return fields == numbered or (bool(names) and names <= set(fields))


def _layout_by_name(file: DataFile, record: Record, header: tuple[str, ...]) -> Layout:
    """The columns as the header orders them; those that the predicate does not name are passed over."""
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
    return Layout(tuple(types), tuple(wanted), header)


def _parse(block: Block, layout: Layout, file: DataFile, threads: int) -> Batch | None:
    """The block as Arrow reads it, or None if it holds anything that Arrow refuses or may misread."""
    if block.is_open or not block.data:
        return None
    quoting = file.quoting and block.survey.has_quotes
    if not quoting and all(column_type in _TEXTS for column_type in layout.wanted_types):
        texts = text_views(block.data, block.survey, file.delimiter, len(layout.types), layout.wanted)
        if texts is not None:
            views = zip(layout.wanted_types, texts, strict=True)
            return Batch(tuple(Column(*view) for view in views), len(texts[0]))
    has_integers = ColumnType.INTEGER in layout.wanted_types
    integers = pa.string() if has_integers and _may_be_hexadecimal(block.text) else pa.int64()
    names = [str(index) for index in range(len(layout.types))]
    arrow_types = {
        names[index]: integers if column_type is ColumnType.INTEGER else _parsed_type(column_type)
        for index, column_type in zip(layout.wanted, layout.wanted_types, strict=True)
    }
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(block.data),
            _read_options(block, names, threads),
            _parse_options(file, quoting),
            _convert_options(arrow_types),
        )
    except pa.ArrowInvalid:
        return None
    columns = [_column(*pair) for pair in zip(table.columns, layout.wanted_types, strict=True)]
    found = tuple(column for column in columns if column is not None)
    return Batch(found, table.num_rows) if len(found) == len(columns) else None


def _may_be_hexadecimal(text: bytes) -> bool:
    """Whether `0x` may occur: Arrow would read 16 hexadecimal digits as a negative number."""
    return (b"x" in text and b"0x" in text) or (b"X" in text and b"0X" in text)


def _parsed_type(column_type: ColumnType) -> Any:
    return ARROW_TYPES[column_type] if column_type in _DIRECT else pa.string()


def _read_options(block: Block, names: list[str], threads: int) -> Any:
    size = len(block.data) // threads + 1
    return pyarrow.csv.ReadOptions(use_threads=threads > 1, block_size=size, column_names=names)


def _parse_options(file: DataFile, quoting: bool) -> Any:
    return pyarrow.csv.ParseOptions(
        delimiter=file.delimiter, quote_char='"' if quoting else False, newlines_in_values=quoting
    )


def _convert_options(arrow_types: dict[str, Any]) -> Any:
    return pyarrow.csv.ConvertOptions(
        column_types=arrow_types,
        include_columns=list(arrow_types),
        null_values=[],
        strings_can_be_null=False,
        true_values=list(TRUE),
        false_values=list(FALSE),
    )


def _column(values: Any, column_type: ColumnType) -> Column | None:
    """The parsed values as a column, or None if some of them need care."""
    array = values.chunk(0) if values.num_chunks == 1 else values
    if column_type is ColumnType.DOUBLE:
        doubles = finite(array)
        return None if doubles is None else Column(column_type, doubles)
    if array.type == pa.string():
        return column_of_texts(array, column_type)
    return Column(column_type, array)
