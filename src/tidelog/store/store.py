"""A store open for writing: records are appended, and now and then all is written anew. Mutates itself.

Invariant: the files hold exactly what was acknowledged, and at most one record more, whole, if the process
ended between the disk's answer and ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tidelog import durable
from tidelog.durable import Lock
from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes, files, snapshot
from tidelog.store.folder import LOCK, Folder, Found
from tidelog.store.journal import HEADER, Journal, Position, Record, broken
from tidelog.store.lock import writer_lock
from tidelog.store.state import State
from tidelog.store.superblock import NOT_FINISHED, Root, Superblock

DURABILITY = ("full", "fast")
SNAPSHOT_FROM = 4 << 20  # bytes of journals that are worth a snapshot while others work …
SNAPSHOT_SHARE = 2  # … if they are at least this part of the last one
SMALL = 64 << 20  # bytes of a snapshot that is written on every close …
CLOSING_SHARE = 64  # … larger ones only if the journals are at least this part of it


@dataclass(frozen=True, slots=True)
class Opened:
    """A store as it was found: the state of its snapshot, what was done since, and what was wrong."""

    path: Path  # of the snapshot
    state: State
    records: tuple[Record, ...]
    notices: tuple[str, ...] = ()


class Store:
    """The files of one store, and the right to write them, which the process has that opened it."""

    def __init__(
        self, folder: Folder, lock: Lock, superblock: Superblock, journal: Journal, is_durable: bool
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
        self._is_old = False  # it has an older format, and is written anew

    # ---- beginning

    @staticmethod
    def create(path: Path, state: State, durability: str) -> Store:
        """Create a store that holds a state. Until all of it is on the disk, the superblock says so."""
        folder = Folder(path)
        with files.writing_to(path), ExitStack() as undo:
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
            journal = Journal.create(folder.journal(1), before, durability == "full")
            undo.callback(journal.close)
            superblock.switch(snapshot=1, checksum=checksum, journal=1, confirmed=journal.position)
            undo.pop_all()
        created = Store(folder, lock, superblock, journal, durability == "full")
        created._snapshot_bytes = size
        return created

    @staticmethod
    def open(path: Path, durability: str) -> tuple[Store, Opened]:
        """Open the store in a folder, and return it with what it holds; a torn journal is cut."""
        folder = Folder(path)
        if not folder.is_store:
            folder.find()  # which says so
        with ExitStack() as undo:
            lock = writer_lock(path / LOCK)
            undo.callback(lock.release)
            found = folder.find()
            opened = read_found(found)
            with files.writing_to(path):
                store = Store._resumed(folder, lock, found, durability == "full", undo)
            undo.pop_all()
        return store, opened

    @staticmethod
    def _resumed(folder: Folder, lock: Lock, found: Found, is_durable: bool, undo: ExitStack) -> Store:
        last = found.last
        if last is None:  # only in older formats
            before = Position(found.snapshot.sequence, 0, 0)
            journal = Journal.create(folder.journal(found.number), before, is_durable)
        else:
            if last.torn:
                torn = last.path.read_bytes()[last.end.end :]
                durable.write_bytes(last.path.with_suffix(".cut"), torn)
            journal = Journal.resume(last, is_durable)
        undo.callback(journal.close)
        if found.root is not None:
            superblock = Superblock(folder.superblock, found.root)
        else:
            number = int(journal.path.stem.rpartition("-")[2])
            root = Root(found.number, found.snapshot.checksum, number, journal.position)
            superblock = Superblock.create(folder.superblock, root)
        undo.callback(superblock.close)
        folder.tidy(superblock)
        store = Store(folder, lock, superblock, journal, is_durable)
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
    def mark(self) -> tuple[Journal, Position]:
        """Where the journal ends now."""
        return self._journal, self._journal.position

    def append(self, content: bytes) -> None:
        """Append a record, as durable as was asked for; on any fault it is not there."""
        self.check()
        with files.writing_to(self._journal.path):
            self._journal.append(content)

    def confirm(self) -> None:
        """Note that all records are acknowledged, so that their loss is noticed; costs no wait for the disk.

        Where it is left to the operating system when records go to the disk, none is confirmed before.
        """
        if self._is_durable:
            with files.writing_to(self._superblock.path):
                self._superblock.confirm(self._journal.position)

    def withdraw(self, mark: tuple[Journal, Position]) -> None:
        """Delete the records that came after a mark, none of them confirmed."""
        journal, position = mark
        if journal is self._journal and self.is_mine:
            journal.withdraw(position)

    def check(self) -> None:
        """Raise `DataError` if the store takes no records."""
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

    def begin_snapshot(self, capture: Callable[[], State]) -> None:
        """Begin to write a snapshot while others work; records from now on go to another journal."""
        self.wait()
        number, before = self.number + 1, self._journal.position
        with files.writing_to(self.folder.path):
            self._journal.sync()
            journal = Journal.create(self.folder.journal(number), before, self._is_durable)
            try:
                self._superblock.switch(journal=number, confirmed=journal.position)
                earlier, self._journal = self._journal, journal
            except BaseException:
                self._superblock.is_broken |= (
                    self.number == number
                )  # it names a journal that takes no records
                journal.close()
                raise
        earlier.close()
        self._earlier_bytes += before.end
        state = capture()
        self._writing = Thread(target=lambda: self._write(number, state), name="tidelog snapshot")
        self._writing.start()

    def _write(self, number: int, state: State) -> None:
        """Write a snapshot; what came before it is deleted when the superblock names it."""
        try:
            size, checksum = snapshot.write(self.folder.snapshot(number), state)
            self._superblock.switch(snapshot=number, checksum=checksum)
            self._snapshot_bytes, self._earlier_bytes, self._is_old = size, 0, False
            self.folder.tidy(self._superblock)
        except BaseException as fault:  # noqa: BLE001 - told to whoever waits; the journals hold everything
            self._fault = fault

    def wait(self) -> BaseException | None:
        """Wait until no snapshot is being written; what was wrong with it, told once."""
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        fault, self._fault = self._fault, None
        return fault

    def close(self, capture: Callable[[], State]) -> BaseException | None:
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
        """Let others write; nothing more is written."""
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


def read_found(found: Found) -> Opened:
    """What a store holds."""
    notices = []
    for each in found.journals:
        if each.torn:
            notices.append(
                f"{each.path}: the last {each.torn:,} bytes were no whole record and were left out; "
                f"{len(each.records):,} records before them are whole"
            )
    state = found.snapshot.state()
    found.snapshot.close()
    return Opened(found.snapshot.path, state, found.records, tuple(notices))
