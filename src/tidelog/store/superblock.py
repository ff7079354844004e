"""The superblock: which files are the store, and up to which record they were acknowledged.

Two copies of the same few numbers, in blocks of their own, written in turn, each with a checksum: while one
is being written the other counts. What a file is for is decided here and nowhere else: a snapshot or a
journal that the superblock does not name is left over from something that was not finished, and one that it
names and that is missing is damage.

`switch` goes to the disk, twice, before anything is deleted that the superblock named before. `confirm` is
left to the operating system, so that a commit costs no second wait for the disk: after the death of a
process all of it is there, after a power cut perhaps less. Only what is on the disk already is confirmed,
so that no more is expected of a journal than it must hold.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any
from zlib import crc32

from tidelog import durable
from tidelog.store import files
from tidelog.store.journal import Position

NAME = "superblock.tide"
VERSION = 3
MAGIC = b"TIDEROOT"
BEGIN = struct.Struct("<8sII")  # magic, version, bytes of the fields: later versions keep this much
FIELDS = struct.Struct("<QQIQQQIQ")
CHECKSUM = struct.Struct("<I")
BLOCK = 4096  # bytes that a disk writes at once, at most
ATTEMPTS = 3  # to read a superblock while it is being written


@dataclass(frozen=True, slots=True)
class Root:
    """What the superblock says."""

    snapshot: int  # the number of the snapshot; 0: the store is being created
    checksum: int  # of the index of that snapshot
    journal: int  # the number of the last journal; the first has the snapshot's
    confirmed: Position  # in the last journal: up to here all was acknowledged
    aside: int = (
        0  # files before the snapshot go to the folder `damaged-N` of this number; 0: they are deleted
    )
    generation: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the store has been created."""
        return self.snapshot > 0


NOT_FINISHED = Root(0, 0, 0, Position(0, 0, 0))


def read(path: Path) -> Root:
    """Read a superblock; raises `DataError` if neither copy is whole, or a newer tidelog wrote one."""
    for _ in range(ATTEMPTS):
        found = [root for root in copies(path) if root is not None]
        if found:
            return max(found, key=lambda root: root.generation)
    raise files.damaged(path, "the superblock is damaged: neither of its copies is whole")


def copies(path: Path) -> list[Root | None]:
    """Read both copies, None for one that is not whole."""
    data = path.read_bytes()
    return [_read_copy(path, data[place : place + BLOCK]) for place in (0, BLOCK)]


def _read_copy(path: Path, data: bytes) -> Root | None:
    if len(data) < BEGIN.size:
        return None
    magic, version, length = BEGIN.unpack_from(data)
    end = BEGIN.size + length
    if magic != MAGIC or len(data) < end + CHECKSUM.size:
        return None
    if CHECKSUM.unpack_from(data, end)[0] != crc32(data[:end]):
        return None
    files.check_version(path, version, VERSION)
    if length != FIELDS.size:
        raise files.damaged(path, f"the superblock has {length} bytes of fields instead of {FIELDS.size}")
    generation, snapshot, checksum, journal, record, offset, chain, aside = FIELDS.unpack_from(
        data, BEGIN.size
    )
    return Root(snapshot, checksum, journal, Position(record, offset, chain), aside, generation)


def _written(root: Root) -> bytes:
    numbers = root.generation, root.snapshot, root.checksum, root.journal
    confirmed = root.confirmed
    fields = FIELDS.pack(*numbers, confirmed.record, confirmed.end, confirmed.chain, root.aside)
    data = BEGIN.pack(MAGIC, VERSION, len(fields)) + fields
    return data + CHECKSUM.pack(crc32(data))


class Superblock:
    """A superblock open for writing, by several threads. Mutable: what it says changes."""

    def __init__(self, path: Path, root: Root) -> None:
        self.path = path
        self.root = root
        self.is_broken = False  # nobody knows what is on the disk
        self._descriptor = os.open(path, os.O_RDWR)
        self._lock = Lock()

    @staticmethod
    def create(path: Path, root: Root) -> Superblock:
        """Write a new superblock, in place of one that may be there, to the disk."""
        root = replace(root, generation=root.generation + 1)
        with durable.replacing(path) as descriptor:
            for place in (0, BLOCK):
                durable.write_at(descriptor, _written(root), place)
        return Superblock(path, root)

    def confirm(self, position: Position) -> None:
        """Note that all up to a position is on the disk; the note itself may get there later."""
        self._write(confirmed=position)

    def switch(self, **changes: Any) -> None:
        """Change fields of the superblock; the change is on the disk when this returns."""
        self._write(**changes)
        try:
            durable.sync(self._descriptor)
        except BaseException:
            self.is_broken = True  # as after a fault of a journal
            raise
        with suppress(OSError):  # it has been said: this is the second copy
            self._write()
            durable.sync(self._descriptor)

    def _write(self, **changes: Any) -> None:
        """Write the copy that was written less lately; the root is the new one when that is done."""
        with self._lock:
            root = replace(self.root, generation=self.root.generation + 1, **changes)
            durable.write_at(self._descriptor, _written(root), root.generation % 2 * BLOCK)
            self.root = root

    @property
    def is_in_place(self) -> bool:
        """Whether this is the file of that name still."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except OSError:
            return False

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
