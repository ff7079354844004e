"""Delimited text that Arrow refuses, read row by row: exact places of faults, and values of any size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tidelog.errors import Diagnostic, counted
from tidelog.io import codes
from tidelog.io.arrays import text_array
from tidelog.io.columns import Batch, Column, column_of_texts, column_of_values, read_values
from tidelog.io.fields import Survey, Text, survey
from tidelog.io.nulls import HOLD_EMPTY_TEXT, Nulls, policy
from tidelog.io.records import Record, count_lines, records
from tidelog.io.rejects import BadRow, Faults
from tidelog.io.source import DataFile
from tidelog.logic.values import ColumnType

_COLUMN_NAME = re.compile(r"[^\W\d][\w .:/()-]*")


@dataclass(frozen=True)
class Layout:
    """The columns of a file, and which of them are wanted, in the order of the predicate's columns."""

    types: tuple[ColumnType, ...]
    wanted: tuple[int, ...]
    names: tuple[str | None, ...] = ()
    first: int | None = None  # the line of the first record, where that is data

    @property
    def wanted_types(self) -> tuple[ColumnType, ...]:
        """The types of the wanted columns."""
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


@dataclass(frozen=True, slots=True)
class _Row:
    """A record of the right width, and the texts of its wanted fields."""

    record: Record
    texts: tuple[str, ...]


def read_block(block: Block, layout: Layout, file: DataFile, faults: Faults) -> Batch:
    """The rows of the block that can be read; the others are given to `faults`, in order."""
    rows: list[_Row] = []
    bad: list[tuple[int, BadRow]] = []
    for record in records(block.text, file.delimiter.encode(), file.quoting, block.line):
        fault = _fault(record, layout, file)
        if fault is None:
            rows.append(_Row(record, tuple(record.fields[index].decode() for index in layout.wanted)))
        else:
            bad.append((record.line, _bad_row(record, fault)))
    columns, misread, left_out, lacking = _columns(rows, layout, file)
    for name in lacking:
        faults.nulls[file.shown, name, Nulls.REJECT.value] += 1
    if misread:
        bad += [
            (rows[index].record.line, _bad_row(rows[index].record, fault, left_out.get(index)))
            for index, fault in misread.items()
        ]
        rows = [row for index, row in enumerate(rows) if index not in misread]
        columns, *_ = _columns(rows, layout, file)
    _count_nulls(rows, layout, file, faults)
    for _, row in sorted(bad, key=lambda pair: pair[0]):
        faults.add(row)
    return Batch(columns, len(rows))


def _header_help(record: Record, file: DataFile) -> str | None:
    """What to do about a first record that looks like the names of columns: words, each once."""
    texts = [field.decode("utf-8", "replace").strip() for field in record.fields]
    is_header = len(set(texts)) == len(texts) and all(_COLUMN_NAME.fullmatch(text) for text in texts)
    return file.header_help(texts) if is_header else None


def _bad_row(record: Record, fault: Diagnostic, missing: str | None = None) -> BadRow:
    return BadRow(fault, record.raw.decode("utf-8", "surrogateescape"), missing)


def _count_nulls(rows: Sequence[_Row], layout: Layout, file: DataFile, faults: Faults) -> None:
    """Count the missing values that are values."""
    for place, column_type in enumerate(layout.wanted_types):
        if policy(file.nulls, place) is Nulls.VALUE and column_type not in HOLD_EMPTY_TEXT:
            missing = sum(not row.texts[place].strip() for row in rows)
            if missing:
                faults.nulls[file.shown, _name(file, place), Nulls.VALUE.value] += missing


def _name(file: DataFile, place: int) -> str:
    name = file.names[place] if place < len(file.names) else None
    return name or f"c{place + 1}"


def _fault(record: Record, layout: Layout, file: DataFile) -> Diagnostic | None:
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


def _columns(
    rows: Sequence[_Row], layout: Layout, file: DataFile
) -> tuple[tuple[Column, ...], dict[int, Diagnostic], dict[int, str], list[str]]:
    """The columns of the rows, or the rows with a text that is not of its column's type.

    The third says of rows that are left out for a missing value, and for nothing else, in which column; the
    last has the column of each row that is rejected for one.
    """
    columns: list[Column] = []
    bad: dict[int, Diagnostic] = {}
    left_out: dict[int, str] = {}
    rejected: dict[int, str | None] = {}  # with the column, if a value is missing there
    for place, column_type in enumerate(layout.wanted_types):
        texts = [row.texts[place] for row in rows]
        column = column_of_texts(text_array(texts), column_type)
        if column is None:
            number = layout.wanted[place]
            what = policy(file.nulls, place)
            values, faults = read_values(
                texts, column_type, layout.names[number] if layout.names else None, what is Nulls.VALUE
            )
            for index, fault in faults.items():
                is_missing = not texts[index].strip()
                if what is Nulls.DROP_ROW and is_missing:
                    left_out.setdefault(index, _name(file, place))
                else:
                    rejected.setdefault(index, _name(file, place) if is_missing else None)
                record = rows[index].record
                where = file.place(record.line, number + 1)
                help = _header_help(record, file) if record.line == layout.first else None
                bad.setdefault(index, Diagnostic(codes.NOT_OF_TYPE, fault, place=where, help=help))
            column = column_of_values(values)
        columns.append(column)
    dropped = {index: name for index, name in left_out.items() if index not in rejected}
    return tuple(columns), bad, dropped, [name for name in rejected.values() if name is not None]
