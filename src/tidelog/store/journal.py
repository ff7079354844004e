"""Journals: the records of transactions, one after the other, each with checksums.

    header  magic, version of the format, checksum of both; number of the first record, checksum of all
            records before it, a random number, checksum of these
    record  magic, length, number, checksum of the content, checksum of these; then the content

A record counts when all of it is on the disk. What stands behind the last whole record was being written
when the process ended: it is cut off, unless the superblock knows that it was acknowledged. A bad record
with whole ones behind it is damage, and is not cut off.

Records and headers are chained: the checksum of a position covers all before it, in earlier journals too,
so that a journal in the place of another is found.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from zlib import crc32

from tidelog import durable
from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes, files

VERSION = 3  # 1 had no times, 2 no superblock
MAGIC, BEGIN = b"TIDEJRNL", b"TREC"
VERSIONED = struct.Struct("<8sII")  # what the headers of all later versions begin with
HEADER = struct.Struct("<8sIIQI8sI")
OLD_HEADER, LAST_OLD = struct.Struct("<8sIQI"), 2  # of earlier versions, and the last of them
RECORD = struct.Struct("<4sIQII")


@dataclass(frozen=True, slots=True)
class Position:
    """A place behind a record, or behind the header."""

    record: int  # the number of the record before it
    end: int  # its offset in the file
    chain: int  # a checksum of everything before it


@dataclass(frozen=True, slots=True)
class Record:
    """What was done once, and where it stands in its file."""

    number: int
    content: bytes
    offset: int
    end: int


@dataclass(frozen=True, slots=True)
class Read:
    """What a journal holds."""

    path: Path
    link: int | None  # the checksum of all before the journal; None: older versions have none
    records: tuple[Record, ...]
    positions: tuple[Position, ...]  # behind the header, and behind each record
    size: int

    @property
    def first(self) -> int:
        """The number of its first record, there or not."""
        return self.positions[0].record + 1

    @property
    def end(self) -> Position:
        """The position behind the last whole record."""
        return self.positions[-1]

    @property
    def torn(self) -> int:
        """How many bytes stand behind the last whole record."""
        return self.size - self.end.end


# ---- reading


def read(path: Path) -> Read:
    """Read the records of a journal; raises `DataError` if there is a bad one before a whole one."""
    data = path.read_bytes()
    found = _read_whole(path, data)
    behind = next(_whole_records(data, found.end.end), None)
    if behind is not None:
        number = found.end.record + 1
        message = f"record {number} of the journal is damaged, and {behind.number} behind it is whole"
        is_later = behind.number >= number
        help = f"`tidelog store repair {path.parent}` keeps what stands before it" if is_later else None
        raise files.damaged(path, message, help)
    return found


def read_whole(path: Path) -> Read:
    """Read the records before the first that is not whole, whatever stands behind it."""
    return _read_whole(path, path.read_bytes())


def _read_whole(path: Path, data: bytes) -> Read:
    begin, link = _read_header(path, data)
    records = tuple(_records(data, begin))
    positions = accumulate(records, lambda before, each: _behind(before, each, data), initial=begin)
    return Read(path, link, records, tuple(positions), len(data))


def _read_header(path: Path, data: bytes) -> tuple[Position, int | None]:
    """Return the position behind the header, and the checksum of all before the journal."""
    if len(data) < OLD_HEADER.size:
        raise files.damaged(path, f"the journal has only {len(data):,} bytes")
    magic, version, of_version = VERSIONED.unpack_from(data)
    if magic == MAGIC and version <= LAST_OLD:
        _, _, first, checksum = OLD_HEADER.unpack_from(data)
        if checksum == crc32(data[: OLD_HEADER.size - 4]):
            return Position(first - 1, OLD_HEADER.size, checksum), None
    elif magic == MAGIC and of_version == crc32(data[: VERSIONED.size - 4]):
        files.check_version(path, version, VERSION)
        if len(data) < HEADER.size:
            raise files.damaged(path, f"the journal has only {len(data):,} bytes")
        *_, first, link, _, checksum = HEADER.unpack_from(data)
        if checksum == crc32(data[: HEADER.size - 4]):
            return Position(first - 1, HEADER.size, checksum), link
    raise files.damaged(path, "the journal does not begin as one")


def _behind(before: Position, record: Record, data: bytes) -> Position:
    """Return the position behind the record at a position."""
    fields = data[record.offset : record.offset + RECORD.size - 4]
    return Position(record.number, record.end, crc32(fields, before.chain))


def _records(data: bytes, begin: Position) -> Iterator[Record]:
    """The whole records from the beginning on."""
    offset, number = begin.end, begin.record + 1
    while (record := _record_at(data, offset)) is not None and record.number == number:
        yield record
        offset, number = record.end, number + 1


def _record_at(data: bytes, offset: int) -> Record | None:
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
    return Record(number, content, offset, start + length)


def _whole_records(data: bytes, offset: int) -> Iterator[Record]:
    """Whole records anywhere from an offset on."""
    while (offset := data.find(BEGIN, offset)) >= 0:
        record = _record_at(data, offset)
        if record is not None:
            yield record
        offset += 1


# ---- writing


class Journal:
    """A journal open for writing. Mutable: it grows."""

    def __init__(self, path: Path, descriptor: int, position: Position, is_durable: bool) -> None:
        self.path = path
        self.position = position
        self._descriptor = descriptor
        self._is_durable = is_durable
        self._is_broken = False
        self._is_ragged = False  # something may stand behind the position

    @staticmethod
    def create(path: Path, before: Position, is_durable: bool) -> Journal:
        """Write a new journal, which goes on from a position of another, to the disk."""
        version = struct.pack("<8sI", MAGIC, VERSION)
        rest = struct.pack("<IQI8s", crc32(version), before.record + 1, before.chain, os.urandom(8))
        header = version + rest
        checksum = crc32(header)
        descriptor = durable.create(path)
        try:
            durable.write_all(descriptor, header + struct.pack("<I", checksum))
            durable.sync(descriptor)
            durable.sync_folder(path.parent)
        except BaseException:
            os.close(descriptor)
            raise
        return Journal(path, descriptor, Position(before.record, HEADER.size, checksum), is_durable)

    @staticmethod
    def resume(found: Read, is_durable: bool) -> Journal:
        """Open a journal that was read, to go on with it; what is torn is cut off."""
        descriptor = os.open(found.path, os.O_RDWR)
        try:
            if found.torn:
                durable.truncate(descriptor, found.end.end)
                durable.sync(descriptor)
            os.lseek(descriptor, found.end.end, os.SEEK_SET)
        except BaseException:
            os.close(descriptor)
            raise
        return Journal(found.path, descriptor, found.end, is_durable)

    def append(self, content: bytes) -> None:
        """Append a record, on the disk if the journal is durable; on any fault it is not there."""
        if self._is_ragged:  # a fault has come while something was cut off
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
            # After a fault of `sync` nobody knows what is on the disk, and asking again does not tell.
            self._is_broken = is_written
            self._cut()
            raise
        end = before.end + RECORD.size + len(content)
        self.position = Position(number, end, crc32(fields, before.chain))
        self._is_ragged = False

    def _cut(self) -> None:
        """Cut off what stands behind the position; if that fails, the journal takes no more records."""
        try:
            durable.truncate(self._descriptor, self.position.end)
            self._is_ragged = False
            if self._is_durable:
                durable.sync(self._descriptor)
        except OSError:
            self._is_broken = True

    def withdraw(self, position: Position) -> None:
        """Delete the records behind a position."""
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
    """Return the error that a store takes no more changes after a fault of the disk."""
    message = "the store takes no more changes: an earlier one could not be written to the disk"
    help = "open the store anew; everything that was committed is there"
    return DataError(Diagnostic(codes.CLOSED, message, place=str(path), help=help))
