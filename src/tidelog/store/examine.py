"""Looking a store over: which parts of which files are whole, and what can be recovered of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage.engine_state import COUNTERS, TableState
from tidelog.errors import DataError, counted
from tidelog.maintenance.row_sets import Rows
from tidelog.store import files, journal, superblock
from tidelog.store.folder import Folder, check_confirmed
from tidelog.store.journal import Read, Record
from tidelog.store.shapes import FormError
from tidelog.store.snapshot import Part, Snapshot, is_derived_anew
from tidelog.store.state_checks import check_table
from tidelog.store.superblock import Root


@dataclass(frozen=True, slots=True)
class Finding:
    """What is to be said of a file; a fault is damage, and something is lost or must be derived anew."""

    path: Path
    text: str
    is_fault: bool = False

    def __str__(self) -> str:
        return f"{self.path.name}: {'damaged: ' if self.is_fault else ''}{self.text}"


class Examination:
    """A store as it lies there, nothing assumed to be right; raises `DataError` if it has a newer format."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.root: Root | None = None  # what the superblock says, if it can be read
        self.number = 0  # of the snapshot that counts
        self.snapshot: Snapshot | None = None
        self.records: list[Record] = []  # since the snapshot, as far as they are whole and follow each other
        self.findings = tuple(self._look())

    @property
    def is_whole(self) -> bool:
        """Whether there is no damage."""
        return not any(finding.is_fault for finding in self.findings)

    def _look(self) -> Iterator[Finding]:
        yield from self._look_at_superblock()
        self.number = (self.folder.numbers("snapshot") or [0])[-1]
        if self.root is not None and self.folder.snapshot(self.root.snapshot).is_file():
            self.number = self.root.snapshot
        yield from self._look_at_snapshot()
        if self.snapshot is not None:
            if self.root is None and self.snapshot.has_superblock and not self.folder.superblock.is_file():
                yield Finding(self.folder.superblock, "is missing; the other files say what counts", True)
            yield from self._look_at_journals(self.snapshot)

    # ---- the superblock and the snapshot

    def _look_at_superblock(self) -> Iterator[Finding]:
        path = self.folder.superblock
        try:
            self.root = self.folder.root()
        except DataError as error:
            yield Finding(path, f"{_fault(error)}; the other files say what counts", True)
        else:
            if self.root is not None and None in superblock.copies(path):
                yield Finding(
                    path, "one of its two copies is not whole, as after a power cut; the other counts"
                )

    def _look_at_snapshot(self) -> Iterator[Finding]:
        if self.root is not None and self.number != self.root.snapshot:
            yield Finding(self.folder.snapshot(self.root.snapshot), "is missing, with all that it held", True)
        path = self.folder.snapshot(self.number)
        if not self.number:
            return
        try:
            self.snapshot = Snapshot(path)
        except DataError as error:
            yield Finding(path, f"{_fault(error)}; no facts can be recovered from it", True)
            return
        root = self.root if self.root is not None and self.number == self.root.snapshot else None
        if root is not None and self.snapshot.checksum != root.checksum:
            yield Finding(path, "is not the snapshot that belongs to the store", True)
        damaged = list(self._damaged_parts(self.snapshot)) or list(self._impossible(self.snapshot))
        yield from damaged
        if not damaged:
            tables = self.snapshot.index["tables"]
            rows = sum(table["flags"][3] - table["ends"]["dead"] for table in tables)
            size = f"{counted(rows, 'fact')} in {counted(len(tables), 'relation')}"
            said = f"whole, {size}, {self.snapshot.size:,} bytes"
            yield Finding(path, said)

    def _damaged_parts(self, snapshot: Snapshot) -> Iterator[Finding]:
        for part in snapshot.parts():
            if not snapshot.is_right(part.section):
                yield Finding(snapshot.path, f"{part}: {self._meaning(part)}", True)

    def _impossible(self, snapshot: Snapshot) -> Iterator[Finding]:
        """What the snapshot says that cannot be, though all of its checksums are right."""
        try:
            snapshot.state()
        except DataError as error:
            yield Finding(snapshot.path, f"{_fault(error)}; what does not depend on that is kept", True)

    def _meaning(self, part: Part) -> str:
        """What is lost with a part of a snapshot."""
        if part.relation is None:
            return "no facts can be recovered"
        if part.name in COUNTERS:
            return "is counted anew"
        if part.is_derived:
            return "is derived anew"
        return "its stated facts are lost, what is derived is derived anew"

    def explicit(self, arities: Mapping[str, int]) -> dict[str, Rows]:
        """The stated facts of all relations whose columns and flags are whole, and can be."""
        assert self.snapshot is not None
        damaged = {
            part.relation
            for part in self.snapshot.parts()
            if part.name not in COUNTERS and not self.snapshot.is_right(part.section)
        }
        found = {}
        values = len(self.snapshot.dictionary().kind)
        for form in self.snapshot.index["tables"]:
            if form["name"] not in damaged and not is_derived_anew(form["name"]):
                table = self.snapshot.table({**form, "counters": {}})
                if not _can_be(table, values, arities):
                    continue
                stated = np.flatnonzero(table.flags & layout.EXPLICIT)
                found[table.name] = Rows(tuple(column[stated] for column in table.columns), len(stated))
        return found

    # ---- the journals

    def _look_at_journals(self, snapshot: Snapshot) -> Iterator[Finding]:
        expected, is_following = snapshot.sequence + 1, True
        for number in self._journals():
            path = self.folder.journal(number)
            try:
                found = journal.read_whole(path)
            except FileNotFoundError:
                yield Finding(path, "is missing, with all that it held", True)
                is_following = False
                continue
            except DataError as error:
                yield Finding(path, f"{_fault(error)}; nothing of it can be recovered", True)
                is_following = False
                continue
            is_following = is_following and found.first == expected
            if is_following:
                self.records += found.records
                expected += len(found.records)
            finding = self._journal_finding(found, is_following)
            is_following = is_following and not finding.is_fault
            yield finding

    def _journals(self) -> Sequence[int]:
        """The numbers of the journals that count."""
        if self.root is not None and self.root.snapshot == self.number:
            return range(self.root.snapshot, self.root.journal + 1)
        later = [number for number in self.folder.numbers("journal") if number >= self.number]
        old = self.snapshot is not None and not self.snapshot.has_superblock
        if old and later and self.folder.journal(later[-1]).stat().st_size < journal.OLD_HEADER.size:
            later.pop()  # the process ended while it began
        return later

    def _journal_finding(self, whole: Read, is_following: bool) -> Finding:
        path, said = whole.path, counted(len(whole.records), "whole record")
        try:
            found = journal.read(path)
            if self.root is not None and path == self.folder.journal(self.root.journal):
                check_confirmed(self.root, found)
        except DataError as error:
            return Finding(path, f"{_fault(error)}; {said} before it can be recovered", True)
        if not is_following:
            return Finding(path, f"{said} that do not follow what is before, and cannot be recovered", True)
        if found.torn:
            return Finding(path, f"{said}, and {found.torn:,} bytes that were never acknowledged")
        return Finding(path, said)


def _can_be(table: TableState, values: int, arities: Mapping[str, int]) -> bool:
    """Return whether the rows of a relation are of values that there are."""
    try:
        check_table(table, values)
    except FormError:
        return False
    return arities.get(table.name) == len(table.columns)


def _fault(error: DataError) -> str:
    """Return what an error says is damaged; raises it if nothing is, but the format is newer."""
    if files.is_newer(error):
        raise error
    return error.diagnostics[0].message
