"""A store open for writing: its files, the superblock that names them, records appended, snapshots now and
then. Mutable.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock as ThreadLock
from threading import Thread
from typing import Any
from zlib import crc32

from tidelog import durable
from tidelog.durable import FileLock
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.records import dataclass
from tidelog.store import forms, journal, snapshot
from tidelog.store.forms import StoredState, writer_lock
from tidelog.store.journal import HEADER, JournalContents, JournalRecord, Position, StoreJournal, broken
from tidelog.store.snapshot import Snapshot

# ---- the superblock
#
# Two copies of the same few numbers, in blocks of their own, written in turn, each with a checksum: while one
# is being written the other counts. What a file is for is decided here and nowhere else: a snapshot or a
# journal that the superblock does not name is left over from something that was not finished, and one that it
# names and that is missing is damage.
#
# `switch` goes to the disk, twice, before anything is deleted that the superblock named before. `confirm` is
# left to the operating system, so that a commit costs no second wait for the disk: after the death of a
# process all of it exists, after a power cut perhaps less. Only what is on the disk already is confirmed, so
# that no more is expected of a journal than it must hold.

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
    """The content of the superblock."""

    snapshot: int  # the number of the snapshot; 0: the store is being created
    checksum: int  # of the index of that snapshot
    journal: int  # the number of the last journal; the first has the snapshot's
    confirmed: Position  # in the last journal: up to here all was acknowledged
    # Files before the snapshot go to the folder `damaged-N` of this number; 0: they are deleted.
    aside: int = 0
    generation: int = 0

    @property
    def is_finished(self) -> bool:
        """Whether the store has been created."""
        return self.snapshot > 0


NOT_FINISHED = Root(0, 0, 0, Position(0, 0, 0))


def read(path: Path) -> Root:
    """Read a superblock; raise `DataError` if neither copy is whole, or a newer tidelog wrote one."""
    for _ in range(ATTEMPTS):
        roots = [root for root in copies(path) if root is not None]
        if roots:
            return max(roots, key=lambda root: root.generation)
    raise forms.damaged(path, "the superblock is damaged: neither of its copies is whole")


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
    forms.check_version(path, version, VERSION)
    if length != FIELDS.size:
        raise forms.damaged(path, f"the superblock has {length} bytes of fields instead of {FIELDS.size}")
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
    """A superblock open for writing, by several threads. Mutable."""

    def __init__(self, path: Path, root: Root) -> None:
        self.path = path
        self.root = root
        self.is_broken = False  # it is unknown what is on the disk
        self._descriptor = os.open(path, os.O_RDWR)
        self._lock = ThreadLock()

    @staticmethod
    def create(path: Path, root: Root) -> Superblock:
        """Write a new superblock, in place of one that may be there, to the disk."""
        root = replace(root, generation=root.generation + 1)
        with durable.replacing(path) as descriptor:
            for place in (0, BLOCK):
                durable.write_at(descriptor, _written(root), place)
        return Superblock(path, root)

    def confirm(self, position: Position) -> None:
        """Record that all up to a position is on the disk; this record may be written later."""
        self._write(confirmed=position)

    def switch(self, **changes: Any) -> None:
        """Change fields of the superblock; the change is on the disk when this returns."""
        self._write(**changes)
        try:
            durable.sync(self._descriptor)
        except BaseException:
            self.is_broken = True  # as after a fault of a journal
            raise
        with suppress(OSError):  # the first copy has been written: this is the second
            self._write()
            durable.sync(self._descriptor)

    def _write(self, **changes: Any) -> None:
        """Write the older copy; then the root is the new one."""
        with self._lock:
            root = replace(self.root, generation=self.root.generation + 1, **changes)
            durable.write_at(self._descriptor, _written(root), root.generation % 2 * BLOCK)
            self.root = root

    @property
    def is_in_place(self) -> bool:
        """Whether the path still has this file."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except OSError:
            return False

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


# ---- files of a store
#
# The superblock names the snapshot and the journals that count. Snapshot N holds everything up to a record,
# journal N begins with the next one. Journal N + 1 begins when snapshot N + 1 is begun; when that is whole,
# the superblock switches to it, and only then do snapshot and journal N go. So the state is the snapshot and
# all journals from its number on.
#
# Stores of formats 1 and 2 have no superblock: of them the last snapshot and all journals from its number on
# count.

NAMES = re.compile(r"(snapshot|journal)-(\d{8})\.tide")
TEMPORARY = re.compile(r"\.(snapshot-\d{8}|superblock)\.tide\.tmp")
LOCK = "lock"
FOLDER_ATTEMPTS = 100  # to read a store whose writer puts another snapshot in the place of this one


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """A store at one moment: the snapshot, and the journals since."""

    root: Root | None  # None: it has no superblock, as it is of an older format
    number: int
    snapshot: Snapshot
    journals: tuple[JournalContents, ...]

    @property
    def records(self) -> tuple[JournalRecord, ...]:
        """The records since the snapshot."""
        return tuple(record for each in self.journals for record in each.records)

    @property
    def last(self) -> JournalContents | None:
        """The journal that records are appended to."""
        return self.journals[-1] if self.journals else None


class StoreFolder:
    """A folder of snapshots and journals."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.superblock = path / NAME

    def snapshot(self, number: int) -> Path:
        """Return the file of a snapshot."""
        return self.path / f"snapshot-{number:08}.tide"

    def journal(self, number: int) -> Path:
        """Return the file of a journal."""
        return self.path / f"journal-{number:08}.tide"

    def numbers(self, kind: str) -> list[int]:
        """Return the numbers of all snapshots, or of all journals, in order."""
        if not self.path.is_dir():
            return []
        named = (NAMES.fullmatch(path.name) for path in self.path.iterdir())
        return sorted(int(name[2]) for name in named if name is not None and name[1] == kind)

    def root(self) -> Root | None:
        """Return what the superblock says, None if there is none; raise `DataError` if it is damaged."""
        try:
            return read(self.superblock)
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def is_store(self) -> bool:
        """Whether there is a store, whole or damaged."""
        if self.superblock.is_file():
            return not self._is_unfinished()
        return bool(self.numbers("snapshot") or self.numbers("journal"))

    def _is_unfinished(self) -> bool:
        """Return whether the process ended that was creating a store here."""
        try:
            root = self.root()
        except DataError:
            return False
        return root is not None and not root.is_finished

    # ---- reading

    def find(self) -> StoreFiles:
        """Return the store as it is at one moment, though another process may write to it."""
        for _ in range(FOLDER_ATTEMPTS):
            root, numbers = self.root(), self.numbers("snapshot")
            try:
                return self._find_old() if root is None else self._find(root)
            except FileNotFoundError as error:
                path = Path(error.filename)
                fault = forms.damaged(path, f"`{path.name}` is missing, and belongs to the store")
            except DataError as error:
                fault = error
            if self.root() == root and self.numbers("snapshot") == numbers:
                break  # it was not the writer
        raise fault

    def _find(self, root: Root) -> StoreFiles:
        """Return the store that the superblock names."""
        if not root.is_finished:
            raise self.no_store("; the creation of one was begun and not finished")
        snapshot = Snapshot(self.snapshot(root.snapshot))
        if snapshot.checksum != root.checksum:
            raise forms.damaged(snapshot.path, "the snapshot is not the one that belongs to the store")
        found = [journal.read(self.journal(each)) for each in range(root.snapshot, root.journal + 1)]
        _check_order(snapshot, found)
        check_confirmed(root, found[-1])
        return StoreFiles(root, root.snapshot, snapshot, tuple(found))

    def _find_old(self) -> StoreFiles:
        """Return the store of a folder without a superblock."""
        numbers, journals = self.numbers("snapshot"), self.numbers("journal")
        if not numbers and journals:
            raise FileNotFoundError(2, "", str(self.superblock))
        if not numbers:
            raise self.no_store()
        snapshot = Snapshot(self.snapshot(numbers[-1]))
        if snapshot.has_superblock:
            raise FileNotFoundError(2, "", str(self.superblock))
        paths = [self.journal(each) for each in journals if each >= numbers[-1]]
        if paths and paths[-1].stat().st_size < journal.OLD_HEADER.size:
            paths.pop()  # the process ended while it began
        found = [journal.read(path) for path in paths]
        _check_order(snapshot, found)
        return StoreFiles(None, numbers[-1], snapshot, tuple(found))

    def no_store(self, why: str = "") -> DataError:
        """Return the error that there is no store."""
        message = f"no store in `{self.path}`{why}"
        help = "give a program to create one: `tl.open(DIR, program)`, `tidelog run PROGRAM --store DIR`"
        return DataError(Diagnostic(codes.NO_STORE, message, place=str(self.path), help=help))

    # ---- leftover files

    def check_free(self) -> None:
        """Raise `DataError` if no store can be created here; what an unfinished creation left may stay."""
        ours = [LOCK, NAME] if self._is_unfinished() else [LOCK]
        others = [
            path.name
            for path in self.path.iterdir()
            if path.name not in ours
            and TEMPORARY.fullmatch(path.name) is None
            and not (NAME in ours and NAMES.fullmatch(path.name))
        ]
        if others:
            message = f"cannot create a store in `{self.path}`: it already has `{min(others)}`"
            help = "name a folder that is empty, or does not exist yet"
            raise DataError(Diagnostic(codes.NO_STORE, message, place=str(self.path), help=help))

    def tidy(self, written: Superblock) -> None:
        """Delete all that the superblock does not name; after a repair it is set aside instead."""
        root = written.root
        aside = self.aside(root.aside) if root.aside else None
        if aside is not None:
            durable.make_folders(aside)
        for path in self._strays(root):
            if aside is None:
                durable.remove(path)
            else:
                durable.rename(path, aside / path.name)
        for path in self.path.iterdir():
            if TEMPORARY.fullmatch(path.name):
                durable.remove(path)
        if aside is not None:
            written.switch(aside=0)

    def aside(self, number: int) -> Path:
        """Return the folder for the files of a damaged store."""
        return self.path / f"damaged-{number:08}"

    def _strays(self, root: Root) -> Iterator[Path]:
        """The snapshots and journals that the superblock does not name."""
        for number in self.numbers("snapshot"):
            if number != root.snapshot:
                yield self.snapshot(number)
        for number in self.numbers("journal"):
            if not root.snapshot <= number <= root.journal:
                yield self.journal(number)


def _check_order(snapshot: Snapshot, found: list[JournalContents]) -> None:
    """Raise `DataError` if the journals do not go on from the snapshot, and from each other."""
    expected, chain = snapshot.sequence + 1, None
    for each in found:
        if each.first != expected:
            message = f"the journal begins with record {each.first}, and {expected} is missing"
            raise forms.damaged(each.path, message)
        if None not in (chain, each.link) and each.link != chain:
            raise forms.damaged(each.path, "the journal does not continue the one before it")
        expected, chain = each.end.record + 1, each.end.chain


def check_confirmed(root: Root, last: JournalContents) -> None:
    """Raise `DataError` if the last journal does not hold what was acknowledged."""
    confirmed = root.confirmed
    if confirmed in last.positions:
        return
    if last.end.record < confirmed.record:
        first = last.end.record + 1
        which = f"records {first} to {confirmed.record}" if first < confirmed.record else f"record {first}"
        message = f"the journal ends too early: {which} {'were' if ' to ' in which else 'was'} acknowledged"
        help = f"`tidelog store repair {last.path.parent}` keeps the records before them"
        raise forms.damaged(last.path, f"{message} and cannot be read", help)
    raise forms.damaged(last.path, "the journal is not the one that belongs to the store")


# ---- a store open for writing
#
# Invariant: the files hold exactly what was acknowledged, and at most one record more, whole, if the process
# ended between the disk's answer and ours.

DURABILITY = ("full", "fast")
SNAPSHOT_FROM = 4 << 20  # bytes of journals that are worth a snapshot while others work …
SNAPSHOT_SHARE = 2  # … if they are at least this part of the last one
SMALL = 64 << 20  # bytes of a snapshot that is written on every close …
CLOSING_SHARE = 64  # … larger ones only if the journals are at least this part of it


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store as it was opened: the state of its snapshot, the records since, and what was wrong."""

    path: Path  # of the snapshot
    state: StoredState
    records: tuple[JournalRecord, ...]
    notices: tuple[str, ...] = ()


class FactStore:
    """The files of one store, and the right to write them, which the process has that opened it."""

    def __init__(
        self,
        folder: StoreFolder,
        lock: FileLock,
        superblock: Superblock,
        journal: StoreJournal,
        is_durable: bool,
    ) -> None:
        self.folder = folder
        self._process = os.getpid()
        self._journal = journal
        self._superblock = superblock
        self._lock = lock
        self._is_durable = is_durable
        self._snapshot_bytes = 0
        self._earlier_bytes = 0  # of journals since the last whole snapshot, but for the present one
        self._writing: Thread | None = None
        self._fault: BaseException | None = None
        self._is_closed = False
        self._is_old = False  # it has an older format, and is written again

    # ---- beginning

    @staticmethod
    def create(path: Path, state: StoredState, durability: str) -> FactStore:
        """Create a store that holds a state. Until all of it is on the disk, the superblock says so."""
        folder = StoreFolder(path)
        with forms.writing_to(path), ExitStack() as undo:
            durable.make_folders(path)
            folder.check_free()
            lock = writer_lock(path / LOCK)
            undo.callback(lock.release)
            folder.check_free()  # another process may have been faster
            superblock = Superblock.create(folder.superblock, NOT_FINISHED)
            undo.callback(superblock.close)
            folder.tidy(superblock)
            size, checksum = snapshot.write(folder.snapshot(1), state)
            before = Position(state.sequence, 0, 0)
            journal = StoreJournal.create(folder.journal(1), before, durability == "full")
            undo.callback(journal.close)
            superblock.switch(snapshot=1, checksum=checksum, journal=1, confirmed=journal.position)
            undo.pop_all()
        created = FactStore(folder, lock, superblock, journal, durability == "full")
        created._snapshot_bytes = size
        return created

    @staticmethod
    def open(path: Path, durability: str) -> tuple[FactStore, OpenedStore]:
        """Open the store in a folder, and return it with what it holds; a torn journal is cut."""
        folder = StoreFolder(path)
        if not folder.is_store:
            folder.find()  # which says so
        with ExitStack() as undo:
            lock = writer_lock(path / LOCK)
            undo.callback(lock.release)
            found = folder.find()
            opened = read_found(found)
            with forms.writing_to(path):
                store = FactStore._resumed(folder, lock, found, durability == "full", undo)
            undo.pop_all()
        return store, opened

    @staticmethod
    def _resumed(
        folder: StoreFolder, lock: FileLock, found: StoreFiles, is_durable: bool, undo: ExitStack
    ) -> FactStore:
        last = found.last
        if last is None:  # only in older formats
            before = Position(found.snapshot.sequence, 0, 0)
            journal = StoreJournal.create(folder.journal(found.number), before, is_durable)
        else:
            if last.torn:
                torn = last.path.read_bytes()[last.end.end :]
                durable.write_bytes(last.path.with_suffix(".cut"), torn)
            journal = StoreJournal.resume(last, is_durable)
        undo.callback(journal.close)
        if found.root is not None:
            superblock = Superblock(folder.superblock, found.root)
        else:
            number = int(journal.path.stem.rpartition("-")[2])
            root = Root(found.number, found.snapshot.checksum, number, journal.position)
            superblock = Superblock.create(folder.superblock, root)
        undo.callback(superblock.close)
        folder.tidy(superblock)
        store = FactStore(folder, lock, superblock, journal, is_durable)
        store._is_old = not found.snapshot.has_superblock
        store._snapshot_bytes = found.snapshot.size
        store._earlier_bytes = sum(each.end.end for each in found.journals[:-1])
        return store

    # ---- records

    @property
    def number(self) -> int:
        """The number of the last journal."""
        return self._superblock.root.journal

    @property
    def next(self) -> int:
        """The number of the record that comes next."""
        return self._journal.position.record + 1

    @property
    def mark(self) -> tuple[StoreJournal, Position]:
        """Where the journal ends now."""
        return self._journal, self._journal.position

    def append(self, content: bytes) -> None:
        """Append a record, as durable as required; on any fault it is not in the store."""
        self.check()
        with forms.writing_to(self._journal.path):
            self._journal.append(content)

    def confirm(self) -> None:
        """Note that all records are acknowledged, so that their loss is noticed; costs no wait for the disk.

        Where it is left to the operating system when records go to the disk, none is confirmed before.
        """
        if self._is_durable:
            with forms.writing_to(self._superblock.path):
                self._superblock.confirm(self._journal.position)

    def withdraw(self, mark: tuple[StoreJournal, Position]) -> None:
        """Delete the records that came after a mark, none of them confirmed."""
        journal, position = mark
        if journal is self._journal and self.is_mine:
            journal.withdraw(position)

    def check(self) -> None:
        """Raise `DataError` if the store accepts no records."""
        if not self.is_mine:
            message = (
                f"the store `{self.folder.path}` was opened by process {self._process}, and this is another"
            )
            help = (
                "a store belongs to the process that opened it: after a fork, commit in that one, "
                "or open the store here when that one has closed it"
            )
            raise DataError(Diagnostic(codes.FORKED, message, help=help))
        if self._is_closed:
            message = f"the store `{self.folder.path}` is closed"
            raise DataError(Diagnostic(codes.CLOSED, message, help="open it again: `tl.open(DIR)`"))
        if self._superblock.is_broken:
            raise broken(self._superblock.path)
        self._journal.check()

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that opened the store."""
        return self._process == os.getpid()

    @property
    def is_in_place(self) -> bool:
        """Whether the folder holds the files that are open here: it may have been deleted, or replaced."""
        return self._superblock.is_in_place

    # ---- snapshots

    @property
    def journal_bytes(self) -> int:
        """The bytes of all journals since the last whole snapshot."""
        return self._earlier_bytes + self._journal.position.end

    @property
    def is_due(self) -> bool:
        """Whether the journals are long enough for a snapshot, or the format is old, and none is begun."""
        if self._writing is not None and self._writing.is_alive():
            return False
        if self._is_old:
            return True
        if self._journal.position.end < SNAPSHOT_FROM:
            return False
        return SNAPSHOT_SHARE * self.journal_bytes > self._snapshot_bytes

    @property
    def _has_records(self) -> bool:
        """Whether there are records since the last whole snapshot."""
        return bool(self._earlier_bytes) or self._journal.position.end > HEADER.size

    def begin_snapshot(self, capture: Callable[[], StoredState]) -> None:
        """Begin to write a snapshot while others work; records from now on go to another journal."""
        self.wait()
        number, before = self.number + 1, self._journal.position
        with forms.writing_to(self.folder.path):
            self._journal.sync()
            journal = StoreJournal.create(self.folder.journal(number), before, self._is_durable)
            try:
                self._superblock.switch(journal=number, confirmed=journal.position)
                earlier, self._journal = self._journal, journal
            except BaseException:
                # It may name a journal that accepts no records.
                self._superblock.is_broken |= self.number == number
                journal.close()
                raise
        earlier.close()
        self._earlier_bytes += before.end
        state = capture()
        self._writing = Thread(target=lambda: self._write(number, state), name="tidelog snapshot")
        self._writing.start()

    def _write(self, number: int, state: StoredState) -> None:
        """Write a snapshot; what came before it is deleted when the superblock names it."""
        try:
            size, checksum = snapshot.write(self.folder.snapshot(number), state)
            self._superblock.switch(snapshot=number, checksum=checksum)
            self._snapshot_bytes, self._earlier_bytes, self._is_old = size, 0, False
            self.folder.tidy(self._superblock)
        except BaseException as fault:  # noqa: BLE001 - returned by `wait`; the journals have everything
            self._fault = fault

    def wait(self) -> BaseException | None:
        """Wait until no snapshot is being written; return what was wrong with it, once."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        fault, self._fault = self._fault, None
        return fault

    def close(self, capture: Callable[[], StoredState]) -> BaseException | None:
        """Write a last snapshot, if it is worth it, and let others write; return what was wrong with it.

        Does nothing in a process that did not open the store.
        """
        if self._is_closed or not self.is_mine:
            return None
        self._is_closed = True
        try:
            fault = self.wait()
            if self._is_worth_closing():
                self.begin_snapshot(capture)
                fault = self.wait() or fault
            self._journal.sync()
            self._superblock.switch(confirmed=self._journal.position)
        except (DataError, OSError) as error:
            fault = error
        finally:
            self._let_go()
        return fault

    def abandon(self) -> None:
        """Release the store to others without writing anything more."""
        if self.is_mine and not self._is_closed:
            self._is_closed = True
            self.wait()
            self._let_go()

    def _let_go(self) -> None:
        self._journal.close()
        self._superblock.close()
        self._lock.release()

    def _is_worth_closing(self) -> bool:
        """Whether there are records since the snapshot, and enough of them."""
        if not self._has_records:
            return False
        return self._snapshot_bytes <= SMALL or CLOSING_SHARE * self.journal_bytes > self._snapshot_bytes


def read_found(found: StoreFiles) -> OpenedStore:
    """What a store holds."""
    notices = []
    for each in found.journals:
        if each.torn:
            notices.append(
                f"{each.path}: the last {each.torn:,} bytes were an incomplete record and were dropped; "
                f"{len(each.records):,} records before them are whole"
            )
    state = found.snapshot.state()
    found.snapshot.close()
    return OpenedStore(found.snapshot.path, state, found.records, tuple(notices))
