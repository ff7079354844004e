"""Looking a store over: which parts of which files are whole, and what can be recovered of the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.state import COUNTERS
from tidelog.errors import DataError, counted
from tidelog.maintenance.maintainer import Rows
from tidelog.store import journal
from tidelog.store.folder import Folder
from tidelog.store.journal import Record
from tidelog.store.snapshot import Part, Snapshot, is_derived_anew


@dataclass(frozen=True, slots=True)
class Finding:
    """What is to be said of a file; a fault is damage, and something is lost or must be derived anew."""

    path: Path
    text: str
    is_fault: bool = False

    def __str__(self) -> str:
        return f"{self.path.name}: {'damaged: ' if self.is_fault else ''}{self.text}"


class Examination:
    """A store as it lies there, nothing assumed to be right."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.number = (self.folder.numbers("snapshot") or [0])[-1]
        self.snapshot: Snapshot | None = None
        self.records: list[Record] = []  # since the snapshot, as far as they are whole and follow each other
        self.findings = tuple(self._look())

    @property
    def is_whole(self) -> bool:
        """Whether there is no damage."""
        return not any(finding.is_fault for finding in self.findings)

    # ---- the snapshot

    def _look(self) -> Iterator[Finding]:
        path = self.folder.snapshot(self.number)
        try:
            self.snapshot = Snapshot(path)
        except DataError as error:
            yield Finding(path, f"{error.diagnostics[0].message}; no facts can be recovered from it", True)
            return
        damaged = list(self._damaged_parts(self.snapshot))
        yield from damaged
        if not damaged:
            tables = self.snapshot.index["tables"]
            rows = sum(table["flags"][3] - table["ends"]["dead"] for table in tables)
            size = f"{counted(rows, 'fact')} in {counted(len(tables), 'relation')}"
            said = f"whole, {size}, {self.snapshot.size:,} bytes"
            yield Finding(path, said)
        yield from self._look_at_journals(self.snapshot)

    def _damaged_parts(self, snapshot: Snapshot) -> Iterator[Finding]:
        for part in snapshot.parts():
            if not snapshot.is_right(part.section):
                yield Finding(snapshot.path, f"{part}: {self._meaning(part)}", True)

    def _meaning(self, part: Part) -> str:
        """What is lost with a part of a snapshot."""
        if part.relation is None:
            return "no facts can be recovered"
        if part.name in COUNTERS:
            return "is counted anew"
        if part.is_derived:
            return "is derived anew"
        return "its stated facts are lost, what is derived is derived anew"

    def explicit(self) -> dict[str, Rows]:
        """The stated facts of all relations whose columns and flags are whole."""
        assert self.snapshot is not None
        damaged = {
            part.relation
            for part in self.snapshot.parts()
            if part.name not in COUNTERS and not self.snapshot.is_right(part.section)
        }
        found = {}
        for form in self.snapshot.index["tables"]:
            if form["name"] not in damaged and not is_derived_anew(form["name"]):
                table = self.snapshot.table({**form, "counters": {}})
                stated = np.flatnonzero(table.flags & layout.EXPLICIT)
                found[table.name] = Rows(tuple(column[stated] for column in table.columns), len(stated))
        return found

    # ---- the journals

    def _look_at_journals(self, snapshot: Snapshot) -> Iterator[Finding]:
        expected = snapshot.index["sequence"] + 1
        is_following = True
        for number in self.folder.numbers("journal"):
            if number < self.number:
                continue
            path = self.folder.journal(number)
            records = journal.whole_records(path)
            is_following = is_following and (not records or records[0].number == expected)
            if is_following:
                self.records += records
                expected += len(records)
            finding = self._journal_finding(path, len(records), is_following)
            is_following = is_following and not finding.is_fault
            yield finding

    def _journal_finding(self, path: Path, whole: int, is_following: bool) -> Finding:
        said = counted(whole, "whole record")
        try:
            found = journal.read(path)
        except DataError as error:
            return Finding(path, f"{error.diagnostics[0].message}; {said} before it can be recovered", True)
        if not is_following:
            return Finding(path, f"{said} that do not follow what is before, and cannot be recovered", True)
        if found.torn:
            return Finding(path, f"{said}, and {found.torn:,} bytes that were never acknowledged")
        return Finding(path, said)
