"""Journals: the records of transactions, one after the other, each with checksums.

    header  magic, version of the format, number of the first record, checksum
    record  magic, length, number, checksum of the content, checksum of these; then the content

A record counts when all of it is on the disk. What stands behind the last whole record was being written when
the process ended, and was never acknowledged: it is cut off. A bad record with whole ones behind it is
damage, and is not cut off.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes, files
from tidelog.store.snapshot import check_version

VERSION = 2  # 1 had no times
MAGIC, BEGIN = b"TIDEJRNL", b"TREC"
HEADER = struct.Struct("<8sIQI")
RECORD = struct.Struct("<4sIQII")


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
    first: int  # the number of its first record, there or not
    records: tuple[Record, ...]
    end: int  # of the last whole record
    size: int

    @property
    def torn(self) -> int:
        """How many bytes stand behind the last whole record."""
        return self.size - self.end

    @property
    def next(self) -> int:
        """The number of the record that would come next."""
        return self.first + len(self.records)


# ---- reading


def read(path: Path) -> Read:
    """The records of a journal; raises `DataError` if there is a bad one before a whole one."""
    data = path.read_bytes()
    if len(data) < HEADER.size:
        return Read(path, -1, (), 0, len(data))  # the process ended while it began
    magic, version, first, checksum = HEADER.unpack_from(data)
    if magic != MAGIC or checksum != crc32(data[: HEADER.size - 4]):
        raise files.damaged(path, "the journal does not begin as one")
    check_version(path, version, VERSION)
    records = tuple(_records(data, first))
    end = records[-1].end if records else HEADER.size
    number = first + len(records)
    behind = next(_whole_records(data, end), None)
    if behind is not None:
        lost = behind.number - number
        message = f"record {number} of the journal is damaged, and {behind.number} behind it is whole"
        help = f"`tidelog store repair {path.parent}` keeps what stands before it" if lost >= 0 else None
        raise files.damaged(path, message, help)
    return Read(path, first, records, end, len(data))


def whole_records(path: Path) -> tuple[Record, ...]:
    """The records before the first that is not whole, whatever stands behind it."""
    data = path.read_bytes()
    if len(data) < HEADER.size:
        return ()
    _, _, first, checksum = HEADER.unpack_from(data)
    is_right = checksum == crc32(data[: HEADER.size - 4])
    return tuple(_records(data, first)) if is_right else ()


def _records(data: bytes, number: int) -> Iterator[Record]:
    """The whole records from the beginning on."""
    offset = HEADER.size
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

    def __init__(self, path: Path, descriptor: int, end: int, next_number: int, durable: bool) -> None:
        self.path = path
        self.end = end
        self.next = next_number
        self._descriptor = descriptor
        self._is_durable = durable
        self._is_broken = False

    @staticmethod
    def create(path: Path, first: int, durable: bool) -> Journal:
        """A new journal, on the disk."""
        begin = struct.pack("<8sIQ", MAGIC, VERSION, first)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            files.write_all(descriptor, begin + struct.pack("<I", crc32(begin)))
            files.sync(descriptor)
            files.sync_folder(path.parent)
        except BaseException:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        return Journal(path, descriptor, HEADER.size, first, durable)

    @staticmethod
    def resume(found: Read, durable: bool) -> Journal:
        """A journal that was read, to be gone on with; what is torn is cut off."""
        descriptor = os.open(found.path, os.O_RDWR)
        try:
            if found.torn:
                os.ftruncate(descriptor, found.end)
                files.sync(descriptor)
            os.lseek(descriptor, found.end, os.SEEK_SET)
        except BaseException:
            os.close(descriptor)
            raise
        return Journal(found.path, descriptor, found.end, found.next, durable)

    def append(self, content: bytes) -> None:
        """The content is a record, on the disk if the journal is durable; on any fault it is not there."""
        self.check()
        fields = struct.pack("<4sIQI", BEGIN, len(content), self.next, crc32(content))
        is_written = False
        try:
            files.write_all(self._descriptor, fields + struct.pack("<I", crc32(fields)) + content)
            is_written = True
            if self._is_durable:
                files.sync(self._descriptor)
        except BaseException:
            # After a fault of `sync` nobody knows what is on the disk, and asking again does not tell.
            self._is_broken = is_written
            self.cut(self.end)
            raise
        self.end += RECORD.size + len(content)
        self.next += 1

    def cut(self, end: int) -> None:
        """Nothing stands behind an offset any more, or the journal takes no more records."""
        try:
            os.ftruncate(self._descriptor, end)
            os.lseek(self._descriptor, end, os.SEEK_SET)
            if self._is_durable:
                files.sync(self._descriptor)
        except OSError:
            self._is_broken = True

    def withdraw(self, end: int, next_number: int) -> None:
        """The records from an offset on are not there any more."""
        if end < self.end:
            self.end, self.next = end, next_number
            self.cut(end)

    def sync(self) -> None:
        """All records are on the disk."""
        files.sync(self._descriptor)

    def check(self) -> None:
        """Nothing, if records can be appended; else raises `DataError`."""
        if self._is_broken:
            message = "the store takes no more changes: an earlier one could not be written to the disk"
            help = "open the store anew; everything that was committed is there"
            raise DataError(Diagnostic(codes.CLOSED, message, place=str(self.path), help=help))

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
