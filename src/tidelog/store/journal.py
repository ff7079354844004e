"""Journals: the records of transactions, one after the other, each with checksums."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from tidelog import durable
from tidelog.data.decode import ids_of_terms, terms_of
from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids, Rows
from tidelog.errors import DataError, Diagnostic, codes, counted
from tidelog.logic.conversions import exact, read_exact
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Program, Rule
from tidelog.maintenance.maintainer import Update
from tidelog.query.kept_queries import KeptQuery
from tidelog.records import dataclass
from tidelog.store import forms
from tidelog.store.forms import (
    BatchId,
    FormError,
    anything,
    fields,
    integer,
    loaded,
    many,
    named,
    natural,
    one_of,
    row,
    text,
    truth,
)
from tidelog.store.json_forms import (
    INTERVAL,
    SURROUNDINGS,
    interval_of,
    interval_to_json,
    rule_of,
    rule_to_json,
    surroundings_to_json,
    with_rules,
)
from tidelog.store.snapshot import KEPT_QUERY, kept_query_of, kept_query_to_json
from tidelog.store.state_checks import check_program
from tidelog.temporal.interval_kernels import INFINITY, LIMIT
from tidelog.temporal.interval_table import Timeline
from tidelog.temporal.timed_changes import RowTimes, TimedRows, TimedUpdate

# ---- journals
#
#     header  magic, version of the format, checksum of both; number of the first record, checksum of all
#             records before it, a random number, checksum of these
#     record  magic, length, number, checksum of the content, checksum of these; then the content
#
# A record counts when all of it is on the disk. What stands behind the last whole record was being written
# when the process ended: it is cut off, unless the superblock knows that it was acknowledged. A bad record
# with whole ones behind it is damage, and is not cut off.
#
# Records and headers are chained: the checksum of a position covers all before it, in earlier journals too,
# so that a journal in the place of another is found.

VERSION = 3  # 1 had no times, 2 no superblock
MAGIC, BEGIN = b"TIDEJRNL", b"TREC"
VERSIONED = struct.Struct("<8sII")  # what the headers of all later versions begin with
HEADER = struct.Struct("<8sIIQI8sI")
OLD_HEADER, LAST_OLD = struct.Struct("<8sIQI"), 2  # of earlier versions, and the last of them
RECORD = struct.Struct("<4sIQII")


@dataclass(frozen=True, slots=True)
class Position:
    """The position after a record, or after the header."""

    record: int  # the number of the record before it
    end: int  # its offset in the file
    chain: int  # a checksum of everything before it


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """One record of a transaction, and its position in the file."""

    number: int
    content: bytes
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class JournalContents:
    """The contents of a journal."""

    path: Path
    link: int | None  # the checksum of all before the journal; None: older versions have none
    records: tuple[JournalRecord, ...]
    positions: tuple[Position, ...]  # behind the header, and behind each record
    size: int

    @property
    def first(self) -> int:
        """The number of its first record, there or not."""
        return self.positions[0].record + 1

    @property
    def end(self) -> Position:
        """The position after the last whole record."""
        return self.positions[-1]

    @property
    def torn(self) -> int:
        """How many bytes follow the last whole record."""
        return self.size - self.end.end


# ---- reading


def read(path: Path) -> JournalContents:
    """Read the records of a journal; raise `DataError` if there is a bad one before a whole one."""
    data = path.read_bytes()
    contents = _read_whole(path, data)
    following = next(_whole_records(data, contents.end.end), None)
    if following is not None:
        number = contents.end.record + 1
        message = f"record {number} of the journal is damaged, and {following.number} behind it is whole"
        is_later = following.number >= number
        help = f"`tidelog store repair {path.parent}` keeps the records before it" if is_later else None
        raise forms.damaged(path, message, help)
    return contents


def read_whole(path: Path) -> JournalContents:
    """Read the records before the first that is not whole, whatever stands behind it."""
    return _read_whole(path, path.read_bytes())


def _read_whole(path: Path, data: bytes) -> JournalContents:
    begin, link = _read_header(path, data)
    records = tuple(_records(data, begin))
    positions = accumulate(records, lambda before, record: _behind(before, record, data), initial=begin)
    return JournalContents(path, link, records, tuple(positions), len(data))


def _read_header(path: Path, data: bytes) -> tuple[Position, int | None]:
    """Return the position after the header, and the checksum of all before the journal."""
    if len(data) < OLD_HEADER.size:
        raise forms.damaged(path, f"the journal has only {len(data):,} bytes")
    magic, version, of_version = VERSIONED.unpack_from(data)
    if magic == MAGIC and version <= LAST_OLD:
        _, _, first, checksum = OLD_HEADER.unpack_from(data)
        if checksum == crc32(data[: OLD_HEADER.size - 4]):
            return Position(first - 1, OLD_HEADER.size, checksum), None
    elif magic == MAGIC and of_version == crc32(data[: VERSIONED.size - 4]):
        forms.check_version(path, version, VERSION)
        if len(data) < HEADER.size:
            raise forms.damaged(path, f"the journal has only {len(data):,} bytes")
        *_, first, link, _, checksum = HEADER.unpack_from(data)
        if checksum == crc32(data[: HEADER.size - 4]):
            return Position(first - 1, HEADER.size, checksum), link
    raise forms.damaged(path, "the journal has no valid header")


def _behind(before: Position, record: JournalRecord, data: bytes) -> Position:
    """Return the position after the record at a position."""
    fields = data[record.offset : record.offset + RECORD.size - 4]
    return Position(record.number, record.end, crc32(fields, before.chain))


def _records(data: bytes, begin: Position) -> Iterator[JournalRecord]:
    """The whole records from the beginning on."""
    offset, number = begin.end, begin.record + 1
    while (record := _record_at(data, offset)) is not None and record.number == number:
        yield record
        offset, number = record.end, number + 1


def _record_at(data: bytes, offset: int) -> JournalRecord | None:
    """The whole record at an offset, if there is one."""
    start = offset + RECORD.size
    if start > len(data):
        return None
    magic, length, number, of_content, of_fields = RECORD.unpack_from(data, offset)
    if magic != BEGIN or of_fields != crc32(data[offset : start - 4]):
        return None
    content = data[start : start + length]
    if len(content) < length or crc32(content) != of_content:
        return None
    return JournalRecord(number, content, offset, start + length)


def _whole_records(data: bytes, offset: int) -> Iterator[JournalRecord]:
    """Whole records anywhere from an offset on."""
    while (offset := data.find(BEGIN, offset)) >= 0:
        record = _record_at(data, offset)
        if record is not None:
            yield record
        offset += 1


# ---- writing


class StoreJournal:
    """A journal open for writing. Mutable: it grows."""

    def __init__(self, path: Path, descriptor: int, position: Position, is_durable: bool) -> None:
        self.path = path
        self.position = position
        self._descriptor = descriptor
        self._is_durable = is_durable
        self._is_broken = False
        self._is_ragged = False  # something may stand behind the position

    @staticmethod
    def create(path: Path, before: Position, is_durable: bool) -> StoreJournal:
        """Write a new journal, which goes on from a position of another, to the disk."""
        version = struct.pack("<8sI", MAGIC, VERSION)
        fields = struct.pack("<IQI8s", crc32(version), before.record + 1, before.chain, os.urandom(8))
        header = version + fields
        checksum = crc32(header)
        descriptor = durable.create(path)
        try:
            durable.write_all(descriptor, header + struct.pack("<I", checksum))
            durable.sync(descriptor)
            durable.sync_folder(path.parent)
        except BaseException:
            os.close(descriptor)
            raise
        return StoreJournal(path, descriptor, Position(before.record, HEADER.size, checksum), is_durable)

    @staticmethod
    def resume(contents: JournalContents, is_durable: bool) -> StoreJournal:
        """Open a journal that was read, to append to it; truncate a torn record."""
        descriptor = os.open(contents.path, os.O_RDWR)
        try:
            if contents.torn:
                durable.truncate(descriptor, contents.end.end)
                durable.sync(descriptor)
            os.lseek(descriptor, contents.end.end, os.SEEK_SET)
        except BaseException:
            os.close(descriptor)
            raise
        return StoreJournal(contents.path, descriptor, contents.end, is_durable)

    def append(self, content: bytes) -> None:
        """Append a record, on the disk if the journal is durable; on any fault it is not in the journal."""
        if self._is_ragged:  # a fault has interrupted a truncation
            self._cut()
        self.check()
        before, number = self.position, self.position.record + 1
        fields = struct.pack("<4sIQI", BEGIN, len(content), number, crc32(content))
        is_written = False
        self._is_ragged = True
        try:
            durable.write_all(self._descriptor, fields + struct.pack("<I", crc32(fields)) + content)
            is_written = True
            if self._is_durable:
                durable.sync(self._descriptor)
        except BaseException:
            # After a fault of `sync` it is unknown what is on the disk, and another `sync` does not find out.
            self._is_broken = is_written
            self._cut()
            raise
        end = before.end + RECORD.size + len(content)
        self.position = Position(number, end, crc32(fields, before.chain))
        self._is_ragged = False

    def _cut(self) -> None:
        """Truncate the file at the position; if that fails, the journal accepts no more records."""
        try:
            durable.truncate(self._descriptor, self.position.end)
            self._is_ragged = False
            if self._is_durable:
                durable.sync(self._descriptor)
        except OSError:
            self._is_broken = True

    def withdraw(self, position: Position) -> None:
        """Delete the records after a position."""
        if self._is_ragged or position != self.position:  # an interrupt may come between any two steps
            self.position, self._is_ragged = position, True
            self._cut()

    def sync(self) -> None:
        """Force all records to the disk."""
        durable.sync(self._descriptor)

    def check(self) -> None:
        """Raise `DataError` if no records can be appended."""
        if self._is_broken:
            raise broken(self.path)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def broken(path: Path) -> DataError:
    """Return the error that a store accepts no more changes after a fault of the disk."""
    message = "the store accepts no more changes: an earlier one could not be written to the disk"
    help = "open the store again; everything that was committed is preserved"
    return DataError(Diagnostic(codes.CLOSED, message, place=str(path), help=help))


# ---- content of records
#
# JSON, facts as columns of exact terms, rules as `program_form` writes them. Ids are not in it: each
# process that replays a record gives its own.

CHANGE, KEEP, FORGET = "change", "keep", "forget"
BATCH = row(text, natural, text)
ROWS = many(anything)  # how many, and a list of terms for each column
TIMED = row(text, ROWS, row(natural, truth, truth), many(integer), many(integer))
SHAPES = {
    CHANGE: fields(
        {"commit": natural},
        {
            **dict.fromkeys(("-", "+"), named(ROWS)),
            **dict.fromkeys(("- times", "+ times"), many(TIMED)),
            "advance": INTERVAL,
            **dict.fromkeys(("- rules", "+ rules"), many(anything)),
            "program": fields(SURROUNDINGS, {"given_times": many(text)}),
            "batch": BATCH,
        },
    ),
    KEEP: fields({"asked": KEPT_QUERY}),
    FORGET: fields({"name": text}),
}
FEW = 32  # rows that are written one by one: more are faster as columns


def change_record(
    update: Update,
    times: TimedUpdate,
    before: Program,
    after: Program,
    dictionary: Dictionary,
    commits: int,
    batch: BatchId | None = None,
) -> bytes:
    """A transaction that leads from one program to another."""
    form: dict[str, Any] = {"is": CHANGE, "commit": commits}
    for sign, facts in (("-", update.removed), ("+", update.added)):
        if facts:
            form[sign] = {name: _rows_to_json(rows, dictionary) for name, rows in facts.items()}
    for sign, timed in (("-", times.removed), ("+", times.added)):
        if timed:
            form[f"{sign} times"] = [[name, *_timed_to_json(rows, dictionary)] for name, rows in timed]
    if times.advance is not None:
        form["advance"] = interval_to_json(times.advance)
    for sign, rules in (("- rules", update.rules_removed), ("+ rules", update.rules_added)):
        if rules:
            form[sign] = [rule_to_json(rule) for rule in rules]
    if after is not before:
        form["program"] = surroundings_to_json(after)
    if batch is not None:
        form["batch"] = list(batch)
    return _written(form)


def keep_record(query: KeptQuery) -> bytes:
    """Return the record that a query is kept from now on."""
    return _written({"is": KEEP, "asked": kept_query_to_json(query)})


def forget_record(query: KeptQuery) -> bytes:
    """Return the record that a query is no longer kept."""
    return _written({"is": FORGET, "name": query.name})


def _written(form: Mapping[str, Any]) -> bytes:
    return json.dumps(form, ensure_ascii=False, separators=(",", ":")).encode()


class RecordContent:
    """The content of a record, decoded on use."""

    def __init__(self, record: JournalRecord) -> None:
        """Read a record; raise `FormError` if it is not what records are."""
        self.number = record.number
        self._form: dict[str, Any] = loaded(record.content, fields({"is": one_of(CHANGE, KEEP, FORGET)}))
        SHAPES[self._form["is"]](self._form, "")

    @property
    def kind(self) -> str:
        """CHANGE, KEEP or FORGET."""
        return str(self._form["is"])

    @property
    def commit(self) -> int:
        """The number of the transaction."""
        return int(self._form["commit"])

    @property
    def batch(self) -> BatchId | None:
        """The batch of the transaction, if any."""
        return BatchId(*self._form["batch"]) if "batch" in self._form else None

    @property
    def asked(self) -> KeptQuery:
        """The query that is kept."""
        return kept_query_of(self._form["asked"])

    @property
    def name(self) -> str:
        """The name of the query that is no longer kept."""
        return str(self._form["name"])

    def facts(self, sign: str, dictionary: Dictionary, program: Program) -> dict[str, Rows]:
        """Return the facts deleted, `-`, or inserted, `+`; raise `FormError` if there cannot be such."""
        facts_by_name = {name: _rows_of(form, dictionary) for name, form in self._form.get(sign, {}).items()}
        for name, rows in facts_by_name.items():
            _check_arity(name, rows, program)
        return facts_by_name

    def times(self, sign: str, dictionary: Dictionary, program: Program) -> list[tuple[str, TimedRows]]:
        """Return the facts with times deleted, `-`, or inserted, `+`; raise `FormError` if they cannot be."""
        timed_facts = [
            (name, _timed_of(form, dictionary)) for name, *form in self._form.get(f"{sign} times", ())
        ]
        for name, rows in timed_facts:
            _check_arity(name, rows, program)
        return timed_facts

    @property
    def has_times(self) -> bool:
        """Whether the transaction changes temporal facts."""
        return not self._form.keys().isdisjoint(("- times", "+ times", "advance"))

    @property
    def advance(self) -> Interval | None:
        """The point that time advanced to, if any."""
        return interval_of(self._form["advance"]) if "advance" in self._form else None

    def program(self, before: Program) -> Program:
        """The program afterwards, if this is the one before."""
        if "program" not in self._form:
            return before
        removed = [rule_of(form) for form in self._form.get("- rules", ())]
        added = tuple(rule_of(form) for form in self._form.get("+ rules", ()))
        rules = _without(before.rules, removed)
        same = not removed and not added
        program = with_rules(self._form["program"], before.rules if same else (*rules, *added))
        check_program(program)
        return program


def _check_arity(name: str, rows: Rows, program: Program) -> None:
    """Raise `FormError` if a program has no such predicate of as many columns."""
    predicate = program.predicates.get(name)
    if predicate is None or predicate.arity != len(rows.columns):
        raise FormError(f"unknown predicate `{name}` of {counted(len(rows.columns), 'column')}")


def _without(rules: tuple[Rule, ...], removed: list[Rule]) -> tuple[Rule, ...]:
    """Return the rules except the deleted ones, each of these once."""
    left = list(removed)
    remaining = []
    for rule in rules:
        if rule in left:
            left.remove(rule)
        else:
            remaining.append(rule)
    return tuple(remaining)


def _rows_to_json(rows: Rows, dictionary: Dictionary) -> list[Any]:
    """How many rows there are, and the columns as exact terms."""
    return [rows.count, *(_texts(column, dictionary) for column in rows.columns)]


def _timed_to_json(rows: TimedRows, dictionary: Dictionary) -> list[Any]:
    """The rows, the timeline, and the ends of their intervals on it."""
    times = rows.times
    assert times is not None
    timeline = times.timeline
    means = [timeline.scale, timeline.is_integer, timeline.is_calendar]
    return [_rows_to_json(rows, dictionary), means, times.left.tolist(), times.right.tolist()]


def _timed_of(form: list[Any], dictionary: Dictionary) -> TimedRows:
    rows_form, means, *ends = form
    rows = _rows_of(rows_form, dictionary, is_timed=True)
    left, right = (np.array(bounds, np.int64) for bounds in ends)
    is_whole = len(left) == len(right) == rows.count and means[0] > 0 and bool((left <= right).all())
    in_range = all(((abs(bounds) <= LIMIT) | (abs(bounds) == INFINITY)).all() for bounds in (left, right))
    if not is_whole or not in_range:
        raise FormError("facts have invalid intervals")
    return TimedRows(rows.columns, rows.count, RowTimes(Timeline(*means), left, right))


def _texts(column: Ids, dictionary: Dictionary) -> list[str]:
    if len(column) <= FEW:
        return [exact(dictionary.decode(identity)) for identity in column.tolist()]
    texts: list[str] = terms_of(column, dictionary).to_pylist()
    return texts


def _rows_of(form: list[Any], dictionary: Dictionary, is_timed: bool = False) -> Rows:
    """Rows as they are written; those with times may differ in these alone."""
    count, *columns = form
    natural(count, "a number of rows")
    for position, column in enumerate(columns):
        many(text)(column, f"column {position + 1}")
        if len(column) != count:
            raise FormError(f"a column has {counted(len(column), 'row')} instead of {count}")
    if not columns and count > 1 and not is_timed:
        raise FormError(f"{count} rows are duplicates")
    return Rows(tuple(_ids(column, dictionary) for column in columns), count)


def _ids(texts: list[str], dictionary: Dictionary) -> Ids:
    if len(texts) <= FEW:
        return np.array([dictionary.encode(read_exact(text)) for text in texts], np.int32)
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    ids = ids_of_terms(encoded.dictionary, dictionary)
    column_ids: Ids = ids[encoded.indices.to_numpy()]
    return column_ids
