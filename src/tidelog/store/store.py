"""A store open for writing: records are appended, and now and then all is written anew. Mutates itself.

Invariant: the files hold exactly what was acknowledged, and at most one record more, whole, if the process
ended between the disk's answer and ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes, files, snapshot
from tidelog.store.folder import LOCK, Folder, Found
from tidelog.store.journal import HEADER, Journal, Record
from tidelog.store.lock import WriterLock
from tidelog.store.state import State

DURABILITY = ("full", "fast")
SNAPSHOT_FROM = 4 << 20  # bytes of journals that are worth a snapshot while others work …
SNAPSHOT_SHARE = 2  # … if they are at least this part of the last one
SMALL = 64 << 20  # bytes of a snapshot that is written on every close …
CLOSING_SHARE = 64  # … larger ones only if the journals are at least this part of it


@dataclass(frozen=True, slots=True)
class Opened:
    """A store as it was found: the state of its snapshot, what was done since, and what was wrong."""

    state: State
    records: tuple[Record, ...]
    notices: tuple[str, ...] = ()


class Store:
    """The files of one store, and the right to write them."""

    def __init__(
        self, folder: Folder, lock: WriterLock, number: int, journal: Journal, durable: bool
    ) -> None:
        self.folder = folder
        self.number = number  # of the last journal
        self._journal = journal
        self._lock = lock
        self._durable = durable
        self._snapshot_bytes = 0
        self._earlier_bytes = 0  # of journals since the last whole snapshot, but for the present one
        self._writing: Thread | None = None
        self._fault: BaseException | None = None
        self._is_closed = False

    # ---- beginning

    @staticmethod
    def create(path: Path, state: State, durability: str) -> Store:
        """A new store that holds a state."""
        folder = Folder(path)
        with files.writing_to(path):
            path.mkdir(parents=True, exist_ok=True)
            _check_free(folder)
            lock = WriterLock(path / LOCK)
            try:
                _check_free(folder)  # another process may have been faster
                size = snapshot.write(folder.snapshot(1), state)
                journal = Journal.create(folder.journal(1), state.sequence + 1, durability == "full")
            except BaseException:
                lock.release()
                raise
        made = Store(folder, lock, 1, journal, durability == "full")
        made._snapshot_bytes = size
        return made

    @staticmethod
    def open(path: Path, durability: str) -> tuple[Store, Opened]:
        """The store in a folder, with what it holds; a torn journal is cut."""
        folder = Folder(path)
        if not folder.is_store:
            folder.find()  # which says so
        lock = WriterLock(path / LOCK)
        try:
            found = folder.find()
            opened = read_found(found)
            with files.writing_to(path):
                store = Store._resumed(folder, lock, found, durability == "full")
        except BaseException:
            lock.release()
            raise
        return store, opened

    @staticmethod
    def _resumed(folder: Folder, lock: WriterLock, found: Found, durable: bool) -> Store:
        last, number = found.last, found.number
        if last is None:
            journal = Journal.create(folder.journal(number), found.snapshot.index["sequence"] + 1, durable)
        else:
            number = int(last.path.stem.rpartition("-")[2])
            if last.torn:
                kept = last.path.with_suffix(".cut")
                kept.write_bytes(last.path.read_bytes()[last.end :])
            journal = Journal.resume(last, durable)
        folder.remove_before(found.number)
        store = Store(folder, lock, number, journal, durable)
        store._snapshot_bytes = found.snapshot.size
        store._earlier_bytes = sum(each.end for each in found.journals[:-1])
        return store

    # ---- records

    @property
    def next(self) -> int:
        """The number of the record that comes next."""
        return self._journal.next

    @property
    def mark(self) -> tuple[Journal, int, int]:
        """Where the journal ends now."""
        return self._journal, self._journal.end, self._journal.next

    def append(self, content: bytes) -> None:
        """The content is a record, as durable as was asked for; on any fault it is not there."""
        self.check()
        with files.writing_to(self._journal.path):
            self._journal.append(content)

    def withdraw(self, mark: tuple[Journal, int, int]) -> None:
        """No record is there that came after a mark."""
        journal, end, number = mark
        if journal is self._journal:
            journal.withdraw(end, number)

    def check(self) -> None:
        """Nothing, if the store takes records; else raises `DataError`."""
        if self._is_closed:
            message = f"the store `{self.folder.path}` is closed"
            raise DataError(Diagnostic(codes.CLOSED, message, help="open it again: `tl.open(DIR)`"))
        self._journal.check()

    # ---- snapshots

    @property
    def journal_bytes(self) -> int:
        """The bytes of all journals since the last whole snapshot."""
        return self._earlier_bytes + self._journal.end

    @property
    def is_due(self) -> bool:
        """Whether the journals are long enough for a snapshot, and none is being written."""
        if self._journal.end < SNAPSHOT_FROM or (self._writing is not None and self._writing.is_alive()):
            return False
        return SNAPSHOT_SHARE * self.journal_bytes > self._snapshot_bytes

    @property
    def _has_records(self) -> bool:
        """Whether there are records since the last whole snapshot."""
        return bool(self._earlier_bytes) or self._journal.end > HEADER.size

    def begin_snapshot(self, capture: Callable[[], State]) -> None:
        """Let a snapshot be written while others work; records from now on go to another journal."""
        self.wait()
        with files.writing_to(self.folder.path):
            self._journal.sync()
            journal = Journal.create(self.folder.journal(self.number + 1), self.next, self._durable)
        self._earlier_bytes += self._journal.end
        self._journal.close()
        self._journal = journal
        self.number += 1
        state, number = capture(), self.number
        self._writing = Thread(target=lambda: self._write(number, state), name="tidelog snapshot")
        self._writing.start()

    def _write(self, number: int, state: State) -> None:
        """Write a snapshot; what came before it goes when it is whole."""
        try:
            self._snapshot_bytes = snapshot.write(self.folder.snapshot(number), state)
            self._earlier_bytes = 0
            self.folder.remove_before(number)
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
        """Write a last snapshot, if it is worth it, and let others write; what was wrong with snapshots."""
        if self._is_closed:
            return None
        self._is_closed = True
        try:
            fault = self.wait()
            if self._is_worth_closing():
                self.begin_snapshot(capture)
                fault = self.wait() or fault
            self._journal.sync()
        except (DataError, OSError) as error:
            fault = error
        finally:
            self._journal.close()
            self._lock.release()
        return fault

    def abandon(self) -> None:
        """Let others write; nothing more is written."""
        self._is_closed = True
        self.wait()
        self._journal.close()
        self._lock.release()

    def _is_worth_closing(self) -> bool:
        """Whether there are records since the snapshot, and enough of them."""
        if not self._has_records:
            return False
        return self._snapshot_bytes <= SMALL or CLOSING_SHARE * self.journal_bytes > self._snapshot_bytes


def _check_free(folder: Folder) -> None:
    """Nothing, if a store can be made in a folder; else raises `DataError`."""
    others = [path.name for path in folder.path.iterdir() if path.name != LOCK]
    if others:
        message = f"no store can be made in `{folder.path}`: there is `{min(others)}` already"
        help = "name a folder that is empty, or is not there yet"
        raise DataError(Diagnostic(codes.NO_STORE, message, place=str(folder.path), help=help))


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
    return Opened(state, found.records, tuple(notices))
