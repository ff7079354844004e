"""Stores are examined, repaired, and exported."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tidelog import durable
from tidelog.data.relation import Relation, column_names
from tidelog.data.rows import Rows
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage.engine_state import COUNTERS, TableState
from tidelog.errors import DataError, Diagnostic, SourceText, TidelogError, codes, counted
from tidelog.io.data_file import file_name
from tidelog.io.write import WriteOptions, write
from tidelog.logic.change_scripts import is_same
from tidelog.logic.program import BUILT_IN, Program
from tidelog.logic.resolve import EMPTY, resolve
from tidelog.plan.rule_text import Writing
from tidelog.reasoner.storing import StoredReasoner, open_store, settings_of
from tidelog.records import dataclass
from tidelog.store import forms, journal, snapshot, store
from tidelog.store.forms import FormError, writer_lock
from tidelog.store.journal import JournalContents, JournalRecord, Position, StoreJournal
from tidelog.store.snapshot import Snapshot, SnapshotPart, is_rederived
from tidelog.store.state_checks import check_table
from tidelog.store.store import LOCK, Root, StoreFolder, Superblock, check_confirmed
from tidelog.syntax.parser import parse
from tidelog.temporal.timed_relation import TimedRelation

# ---- Which parts of which files are whole, and what can be recovered of the others.


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """What was found in a file; a fault is damage: something is lost or must be derived again."""

    path: Path
    text: str
    is_fault: bool = False

    def __str__(self) -> str:
        return f"{self.path.name}: {'damaged: ' if self.is_fault else ''}{self.text}"


class Examination:
    """The files of a store, checked one by one; raises `DataError` if they have a newer format."""

    def __init__(self, path: Path) -> None:
        self.folder = StoreFolder(path)
        self.root: Root | None = None  # what the superblock says, if it can be read
        self.number = 0  # of the snapshot that counts
        self.snapshot: Snapshot | None = None
        self.records: list[
            JournalRecord
        ] = []  # since the snapshot, as far as they are whole and follow each other
        self.findings = tuple(self._look())

    @property
    def is_whole(self) -> bool:
        """Whether there is no damage."""
        return not any(finding.is_fault for finding in self.findings)

    def _look(self) -> Iterator[StoreFinding]:
        yield from self._look_at_superblock()
        self.number = (self.folder.numbers("snapshot") or [0])[-1]
        if self.root is not None and self.folder.snapshot(self.root.snapshot).is_file():
            self.number = self.root.snapshot
        yield from self._look_at_snapshot()
        if self.snapshot is not None:
            if self.root is None and self.snapshot.has_superblock and not self.folder.superblock.is_file():
                yield StoreFinding(self.folder.superblock, "is missing; the other files are used", True)
            yield from self._look_at_journals(self.snapshot)

    # ---- the superblock and the snapshot

    def _look_at_superblock(self) -> Iterator[StoreFinding]:
        path = self.folder.superblock
        try:
            self.root = self.folder.root()
        except DataError as error:
            yield StoreFinding(path, f"{_fault(error)}; the other files are used", True)
        else:
            if self.root is not None and None in store.copies(path):
                yield StoreFinding(
                    path, "one of its two copies is incomplete, as after a power cut; the other is used"
                )

    def _look_at_snapshot(self) -> Iterator[StoreFinding]:
        if self.root is not None and self.number != self.root.snapshot:
            yield StoreFinding(
                self.folder.snapshot(self.root.snapshot), "is missing, with all that it held", True
            )
        path = self.folder.snapshot(self.number)
        if not self.number:
            return
        try:
            self.snapshot = Snapshot(path)
        except DataError as error:
            yield StoreFinding(path, f"{_fault(error)}; no facts can be recovered from it", True)
            return
        root = self.root if self.root is not None and self.number == self.root.snapshot else None
        if root is not None and self.snapshot.checksum != root.checksum:
            yield StoreFinding(path, "is not the snapshot that belongs to the store", True)
        damaged = list(self._damaged_parts(self.snapshot)) or list(self._impossible(self.snapshot))
        yield from damaged
        if not damaged:
            tables = self.snapshot.index["tables"]
            rows = sum(table["flags"][3] - table["ends"]["dead"] for table in tables)
            size = f"{counted(rows, 'fact')} in {counted(len(tables), 'relation')}"
            said = f"whole, {size}, {self.snapshot.size:,} bytes"
            yield StoreFinding(path, said)

    def _damaged_parts(self, snapshot: Snapshot) -> Iterator[StoreFinding]:
        for part in snapshot.parts():
            if not snapshot.is_right(part.section):
                yield StoreFinding(snapshot.path, f"{part}: {self._meaning(part)}", True)

    def _impossible(self, snapshot: Snapshot) -> Iterator[StoreFinding]:
        """Yield what is impossible in the snapshot, though all of its checksums are right."""
        try:
            snapshot.state()
        except DataError as error:
            yield StoreFinding(snapshot.path, f"{_fault(error)}; what does not depend on that is kept", True)

    def _meaning(self, part: SnapshotPart) -> str:
        """What is lost with a part of a snapshot."""
        if part.relation is None:
            return "no facts can be recovered"
        if part.name in COUNTERS:
            return "is counted again"
        if part.is_derived:
            return "is derived again"
        return "its explicit facts are lost, derived facts are derived again"

    def explicit(self, arities: Mapping[str, int]) -> dict[str, Rows]:
        """Return the explicit facts of all relations whose columns and flags are whole and possible."""
        assert self.snapshot is not None
        damaged = {
            part.relation
            for part in self.snapshot.parts()
            if part.name not in COUNTERS and not self.snapshot.is_right(part.section)
        }
        found = {}
        values = len(self.snapshot.dictionary().kind)
        for form in self.snapshot.index["tables"]:
            if form["name"] not in damaged and not is_rederived(form["name"]):
                table = self.snapshot.table({**form, "counters": {}})
                if not _can_be(table, values, arities):
                    continue
                stated = np.flatnonzero(table.flags & layout.EXPLICIT)
                found[table.name] = Rows(tuple(column[stated] for column in table.columns), len(stated))
        return found

    # ---- the journals

    def _look_at_journals(self, snapshot: Snapshot) -> Iterator[StoreFinding]:
        expected, is_following = snapshot.sequence + 1, True
        for number in self._journals():
            path = self.folder.journal(number)
            try:
                found = journal.read_whole(path)
            except FileNotFoundError:
                yield StoreFinding(path, "is missing, with all that it held", True)
                is_following = False
                continue
            except DataError as error:
                yield StoreFinding(path, f"{_fault(error)}; nothing of it can be recovered", True)
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

    def _journal_finding(self, whole: JournalContents, is_following: bool) -> StoreFinding:
        path, said = whole.path, counted(len(whole.records), "whole record")
        try:
            found = journal.read(path)
            if self.root is not None and path == self.folder.journal(self.root.journal):
                check_confirmed(self.root, found)
        except DataError as error:
            return StoreFinding(path, f"{_fault(error)}; {said} before it can be recovered", True)
        if not is_following:
            return StoreFinding(
                path, f"{said} that do not continue the records before, and cannot be recovered", True
            )
        if found.torn:
            return StoreFinding(path, f"{said}, and {found.torn:,} bytes that were never acknowledged")
        return StoreFinding(path, said)


def _can_be(table: TableState, values: int, arities: Mapping[str, int]) -> bool:
    """Return whether the rows of a relation are of values that there are."""
    try:
        check_table(table, values)
    except FormError:
        return False
    return arities.get(table.name) == len(table.columns)


def _fault(error: DataError) -> str:
    """Return what an error says is damaged; raises it if nothing is, but the format is newer."""
    if forms.is_newer(error):
        raise error
    return error.diagnostics[0].message


# ---- Repair and export.


def write_rules(program: Program) -> str | None:
    """Return the rules and declarations of a program; None if that text would not mean the same."""
    writing = Writing()
    lines = []
    for predicate in program.predicates.values():
        if predicate.declared:
            columns = zip(column_names(predicate), predicate.types, strict=True)
            typed = ", ".join(f"{name}: {kind.value}" for name, kind in columns)
            lines.append(f"@declare {writing.predicate(predicate.name)}({typed}) .")
    lines += [writing.rule(rule) for rule in program.rules]
    text = "".join(f"{line}\n" for line in lines)
    return text if _means(text, program) else None


def _means(text: str, program: Program) -> bool:
    """Whether a text has the rules and the types of a program."""
    try:
        again = read_rules(text)
    except TidelogError:
        return False
    pairs = zip(again.rules, program.rules, strict=False)
    is_whole = len(again.rules) == len(program.rules) and all(is_same(*pair) for pair in pairs)
    declared = [item for item in program.predicates.values() if item.declared]
    return is_whole and all(
        item.name in again.predicates and again.predicates[item.name].types == item.types for item in declared
    )


def read_rules(text: str) -> Program:
    """The program of a text that `write_rules` made."""
    return resolve(parse(SourceText("<published rules>", text))) if text.strip() else EMPTY


PROGRAM = "program.rls"  # of an export


def examine(path: Path) -> Examination:
    """Examine a store, and whether it can be opened; raise `DataError` if it has a newer format."""
    examined = Examination(path)
    if examined.is_whole:
        try:
            open_store(path, read_only=True)
        except DataError as error:
            if error.diagnostics[0].code != codes.STORE_DAMAGED:
                raise
            fault = error.diagnostics[0]
            finding = StoreFinding(Path(fault.place or path), fault.message, is_fault=True)
            examined.findings = (*examined.findings, finding)
    return examined


def repair(path: Path) -> tuple[str, ...]:
    """Repair a store with what can be recovered of it; return what was done.

    The damaged files are moved into a folder of the store: nothing is deleted.
    """
    lock = writer_lock(path / LOCK)
    try:
        examined = examine(path)
        if examined.is_whole:
            return ("nothing is damaged",)
        reasoner, sequence = _recovered(examined)
        with forms.writing_to(path):
            return _replace_files(examined, reasoner, sequence)
    finally:
        lock.release()


def _recovered(examined: Examination) -> tuple[StoredReasoner, int]:
    """Return a reasoner with everything that can be read, and the number of the last record in that."""
    try:
        if examined.snapshot is None:
            raise forms.damaged(examined.folder.path, "the snapshot cannot be read")
        state = examined.snapshot.state(without_tables=True)
        if state.time is not None and state.time.past.time is not None:
            raise forms.damaged(
                examined.folder.path, "time has advanced, and the forgotten facts are missing"
            )
    except DataError as error:
        message = f"nothing can be recovered: {error.diagnostics[0].message}"
        help = "go back to a copy of the folder, or recreate the store from its sources"
        raise DataError(
            Diagnostic(codes.STORE_DAMAGED, message, place=str(examined.folder.path), help=help)
        ) from error
    reasoner = StoredReasoner(state.program, **settings_of(state))
    reasoner.salvage(state, examined.explicit(reasoner.arities))
    reasoner.replay(examined.records, examined.folder.path)
    return reasoner, state.sequence + len(examined.records)


def _replace_files(examined: Examination, reasoner: StoredReasoner, sequence: int) -> tuple[str, ...]:
    """Write a new snapshot and an empty journal, let the superblock name them, and set the old files aside.

    Until the superblock does, the damaged store is what it was; from then on it is whole, and the next one to
    open it goes on setting files aside.
    """
    folder = examined.folder
    number = max((*folder.numbers("snapshot"), *folder.numbers("journal"))) + 1
    _, checksum = snapshot.write(folder.snapshot(number), reasoner.state(sequence))
    journal = StoreJournal.create(folder.journal(number), Position(sequence, 0, 0), is_durable=True)
    journal.close()
    aside = folder.aside(number)
    durable.make_folders(aside)
    if folder.superblock.is_file():
        durable.write_bytes(aside / folder.superblock.name, folder.superblock.read_bytes())
    root = Root(number, checksum, number, journal.position, aside=number)
    written = Superblock.create(folder.superblock, root)
    folder.tidy(written)
    written.close()
    facts = reasoner.statistics
    recovered = f"recovered {counted(facts.loaded, 'explicit fact')}, and derived {facts.derived:,} from them"
    return recovered, f"the damaged files are in {aside}"


def export(path: Path, target: Path) -> tuple[Path, int]:
    """Write the program and the explicit facts of a store to a new folder; return where, and how many facts.

    `tidelog run` with that program gives the same facts. The folder appears when it is complete.
    """
    reasoner = open_store(path, read_only=True)
    rules = write_rules(reasoner.program)
    if rules is None:
        message = "the rules of the store cannot be written as a program that means the same"
        raise DataError(Diagnostic(codes.NOT_STORABLE, message, place=str(path)))
    folder = durable.temporary_of(target.absolute())
    try:
        with forms.writing_to(target):
            if folder.exists():  # left by a process that ended
                shutil.rmtree(folder)
            durable.make_folders(folder)
            count = _write_program(reasoner, rules, folder)
            durable.rename(folder, target.absolute())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return target / PROGRAM, count


def _write_program(reasoner: StoredReasoner, rules: str, folder: Path) -> int:
    """Write rules and explicit facts to a folder, on the disk; return how many facts."""
    program = reasoner.program
    stated, count = ["@timeline integer .\n"] if program.is_integer_time else [], 0
    for name in program.predicates:
        for relation in _explicit(reasoner, name):
            stated.append(_written(name, relation, folder))
            count += len(relation)
    outputs = [f"@output {Writing().predicate(name)} .\n" for name in program.outputs]
    durable.write_text(folder / PROGRAM, "".join((rules, *stated, *outputs)))
    return count


def _explicit(reasoner: StoredReasoner, name: str) -> Iterator[Relation]:
    """Yield the explicit facts of a predicate: those without times, and those with times."""
    predicate = reasoner.program.predicates[name]
    columns, rows = reasoner.engine.storage.explicit(name)
    known = predicate.written, column_names(predicate)
    if rows:
        yield Relation(*known, columns, rows, reasoner.engine.storage.dictionary)
    given = reasoner.time.store.explicit.get(name)
    if given is not None and len(given):
        facts, left, right = given.rows()
        timeline = reasoner.time.store.timeline
        yield TimedRelation(*known, tuple(facts), left, right, reasoner.engine.storage.dictionary, timeline)


def _written(name: str, relation: Relation, target: Path) -> str:
    """Return a statement of these facts of a predicate, which may import them from a file."""
    predicate, texts = Writing().predicate(name), relation.to_texts("exact").table
    if name in BUILT_IN:
        return "".join(f"{left} {name} {right} .\n" for left, right in zip(*texts.columns, strict=True))
    is_timed = isinstance(relation, TimedRelation)
    arity = len(relation.columns) - is_timed  # the last column says when
    if not arity:
        when = [f"@{interval}" for interval in texts.columns[0].to_pylist()] if is_timed else [""]
        return "".join(f"{predicate}(){each} .\n" for each in when)
    file = file_name(f"{name}-at-times" if is_timed else name, "csv")
    write(target / file, "csv", texts.column_names, [texts], WriteOptions(header=False))
    durable.sync_file(target / file)
    kinds = ", ".join(["rdf"] * arity)
    time = ", time = interval" if is_timed else ""
    return f'@import {predicate} :- csv{{ resource = "{file}", format = ({kinds}){time} }} .\n'
