"""The files of a store, by their numbers, and what can be read of them at one moment.

The superblock names the snapshot and the journals that count. Snapshot N holds everything up to a record,
journal N begins with the next one. Journal N + 1 begins when snapshot N + 1 is begun; when that is whole,
the superblock switches to it, and only then do snapshot and journal N go. So the state is the snapshot and
all journals from its number on.

Stores of formats 1 and 2 have no superblock: of them the last snapshot and all journals from its number on
count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidelog import durable
from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes, files, journal, superblock
from tidelog.store.journal import Read, Record
from tidelog.store.snapshot import Snapshot
from tidelog.store.superblock import Root, Superblock

NAMES = re.compile(r"(snapshot|journal)-(\d{8})\.tide")
TEMPORARY = re.compile(r"\.(snapshot-\d{8}|superblock)\.tide\.tmp")
LOCK = "lock"
ATTEMPTS = 100  # to read a store whose writer puts another snapshot in the place of this one


@dataclass(frozen=True, slots=True)
class Found:
    """A store at one moment: the snapshot, and the journals since."""

    root: Root | None  # None: it has no superblock, as it is of an older format
    number: int
    snapshot: Snapshot
    journals: tuple[Read, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """What was done since the snapshot."""
        return tuple(record for each in self.journals for record in each.records)

    @property
    def last(self) -> Read | None:
        """The journal that records are appended to."""
        return self.journals[-1] if self.journals else None


class Folder:
    """A folder of snapshots and journals."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.superblock = path / superblock.NAME

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
        """Return what the superblock says, None if there is none; raises `DataError` if it is damaged."""
        try:
            return superblock.read(self.superblock)
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

    def find(self) -> Found:
        """Return the store as it is at one moment, whoever writes to it meanwhile."""
        for _ in range(ATTEMPTS):
            root, numbers = self.root(), self.numbers("snapshot")
            try:
                return self._find_old() if root is None else self._find(root)
            except FileNotFoundError as error:
                path = Path(error.filename)
                fault = files.damaged(path, f"`{path.name}` is missing, and belongs to the store")
            except DataError as error:
                fault = error
            if self.root() == root and self.numbers("snapshot") == numbers:
                break  # it was not the writer
        raise fault

    def _find(self, root: Root) -> Found:
        """Return the store that the superblock names."""
        if not root.is_finished:
            raise self.no_store("; the creation of one was begun and not finished")
        snapshot = Snapshot(self.snapshot(root.snapshot))
        if snapshot.checksum != root.checksum:
            raise files.damaged(snapshot.path, "the snapshot is not the one that belongs to the store")
        found = [journal.read(self.journal(each)) for each in range(root.snapshot, root.journal + 1)]
        _check_order(snapshot, found)
        check_confirmed(root, found[-1])
        return Found(root, root.snapshot, snapshot, tuple(found))

    def _find_old(self) -> Found:
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
        return Found(None, numbers[-1], snapshot, tuple(found))

    def no_store(self, why: str = "") -> DataError:
        """Return the error that there is no store."""
        message = f"there is no store in `{self.path}`{why}"
        help = "give a program to make one: `tl.open(DIR, program)`, `tidelog run PROGRAM --store DIR`"
        return DataError(Diagnostic(codes.NO_STORE, message, place=str(self.path), help=help))

    # ---- what is left over

    def check_free(self) -> None:
        """Raise `DataError` if no store can be created here; what an unfinished creation left may stay."""
        ours = [LOCK, superblock.NAME] if self._is_unfinished() else [LOCK]
        others = [
            path.name
            for path in self.path.iterdir()
            if path.name not in ours
            and TEMPORARY.fullmatch(path.name) is None
            and not (superblock.NAME in ours and NAMES.fullmatch(path.name))
        ]
        if others:
            message = f"no store can be made in `{self.path}`: there is `{min(others)}` already"
            help = "name a folder that is empty, or is not there yet"
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


def _check_order(snapshot: Snapshot, found: list[Read]) -> None:
    """Raise `DataError` if the journals do not go on from the snapshot, and from each other."""
    expected, chain = snapshot.sequence + 1, None
    for each in found:
        if each.first != expected:
            message = f"the journal begins with record {each.first}, and {expected} is missing"
            raise files.damaged(each.path, message)
        if None not in (chain, each.link) and each.link != chain:
            raise files.damaged(each.path, "the journal does not go on from the one before it")
        expected, chain = each.end.record + 1, each.end.chain


def check_confirmed(root: Root, last: Read) -> None:
    """Raise `DataError` if the last journal does not hold what was acknowledged."""
    confirmed = root.confirmed
    if confirmed in last.positions:
        return
    if last.end.record < confirmed.record:
        first = last.end.record + 1
        which = f"records {first} to {confirmed.record}" if first < confirmed.record else f"record {first}"
        message = f"the journal ends too early: {which} {'were' if ' to ' in which else 'was'} acknowledged"
        help = f"`tidelog store repair {last.path.parent}` keeps what stands before them"
        raise files.damaged(last.path, f"{message} and cannot be read", help)
    raise files.damaged(last.path, "the journal is not the one that belongs to the store")
