"""The files of a store, by their numbers, and what can be read of them at one moment.

Snapshot N holds everything up to a record, journal N begins with the next one. Journal N + 1 begins when
snapshot N + 1 is begun; when that is whole, snapshot and journal N go. So the state is the last snapshot and
all journals from its number on.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes, files, journal
from tidelog.store.journal import Read, Record
from tidelog.store.snapshot import Snapshot

NAMES = re.compile(r"(snapshot|journal)-(\d{8})\.tide")
LOCK = "lock"
ATTEMPTS = 100  # to read a store whose writer puts another snapshot in the place of this one


@dataclass(frozen=True, slots=True)
class Found:
    """A store at one moment: the last snapshot, and the journals since."""

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

    def snapshot(self, number: int) -> Path:
        """The file of a snapshot."""
        return self.path / f"snapshot-{number:08}.tide"

    def journal(self, number: int) -> Path:
        """The file of a journal."""
        return self.path / f"journal-{number:08}.tide"

    def numbers(self, kind: str) -> list[int]:
        """The numbers of all snapshots, or of all journals, in order."""
        if not self.path.is_dir():
            return []
        named = (NAMES.fullmatch(path.name) for path in self.path.iterdir())
        return sorted(int(name[2]) for name in named if name is not None and name[1] == kind)

    @property
    def is_store(self) -> bool:
        """Whether there is a store."""
        return bool(self.numbers("snapshot"))

    def find(self) -> Found:
        """The store as it is at one moment, whoever writes to it meanwhile."""
        for _ in range(ATTEMPTS):
            with suppress(FileNotFoundError):
                return self._find()
        raise files.damaged(self.path, "the files of the store do not belong together")

    def _find(self) -> Found:
        numbers = self.numbers("snapshot")
        if not numbers:
            message = f"there is no store in `{self.path}`"
            help = "give a program to make one: `tl.open(DIR, program)`, `tidelog run PROGRAM --store DIR`"
            raise DataError(Diagnostic(codes.NO_STORE, message, place=str(self.path), help=help))
        number = numbers[-1]
        snapshot = Snapshot(self.snapshot(number))
        later = [each for each in self.numbers("journal") if each >= number]
        found = [journal.read(self.journal(each)) for each in later]
        if found and found[-1].first < 0:  # the process ended while it began
            found.pop()
        self._check_order(snapshot, found)
        return Found(number, snapshot, tuple(found))

    def _check_order(self, snapshot: Snapshot, found: list[Read]) -> None:
        """Nothing, if the journals go on from the snapshot, and from each other; else raises."""
        expected = snapshot.index["sequence"] + 1
        for each in found:
            if each.first != expected:
                if self.snapshot(self.numbers("snapshot")[-1]) != snapshot.path:
                    raise FileNotFoundError(snapshot.path)  # another one has come: look again
                message = f"the journal begins with record {each.first}, and {expected} is missing"
                raise files.damaged(each.path, message)
            expected = each.next

    def remove_before(self, number: int) -> None:
        """No files are there of earlier numbers, nor any that were never finished."""
        for kind in ("snapshot", "journal"):
            for each in self.numbers(kind):
                if each < number:
                    (self.path / f"{kind}-{each:08}.tide").unlink(missing_ok=True)
        for path in self.path.glob(".snapshot-*.tmp"):
            path.unlink(missing_ok=True)
