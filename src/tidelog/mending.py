"""What can be done about a store besides working with it: to repair it, and to take its facts elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tidelog import durable
from tidelog.data.relation import Relation, column_names
from tidelog.errors import DataError, Diagnostic, Source, TidelogError, counted
from tidelog.io.formats import file_name
from tidelog.io.write import WriteOptions, write
from tidelog.logic.meaning import is_same
from tidelog.logic.program import BUILT_IN, Program
from tidelog.logic.resolve import EMPTY, resolve
from tidelog.plan.rule_text import Writing
from tidelog.reasoner.storing import StoredReasoner, open_store, settings_of
from tidelog.store import codes, files, snapshot
from tidelog.store.examine import Examination, Finding
from tidelog.store.folder import LOCK
from tidelog.store.journal import Journal, Position
from tidelog.store.lock import writer_lock
from tidelog.store.superblock import Root, Superblock
from tidelog.syntax.parser import parse
from tidelog.temporal.relation import TimedRelation


def write_rules(program: Program) -> str | None:
    """The rules and declarations of a program; None if that text would not mean the same."""
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
    return resolve(parse(Source("<published rules>", text))) if text.strip() else EMPTY


PROGRAM = "program.rls"  # of an export


def examine(path: Path) -> Examination:
    """Look a store over, and see whether a reasoner can be made of it; raises `DataError` if it is newer."""
    examined = Examination(path)
    if examined.is_whole:
        try:
            open_store(path, read_only=True)
        except DataError as error:
            if error.diagnostics[0].code != codes.DAMAGED:
                raise
            fault = error.diagnostics[0]
            finding = Finding(Path(fault.place or path), fault.message, is_fault=True)
            examined.findings = (*examined.findings, finding)
    return examined


def repair(path: Path) -> tuple[str, ...]:
    """Let a store be whole again, with what can be recovered of it; what was done.

    The damaged files are set aside in a folder of the store: nothing is thrown away.
    """
    lock = writer_lock(path / LOCK)
    try:
        examined = examine(path)
        if examined.is_whole:
            return ("nothing is damaged",)
        reasoner, sequence = _recovered(examined)
        with files.writing_to(path):
            return _write_anew(examined, reasoner, sequence)
    finally:
        lock.release()


def _recovered(examined: Examination) -> tuple[StoredReasoner, int]:
    """A reasoner with everything that can be read, and the number of the last record in that."""
    try:
        if examined.snapshot is None:
            raise files.damaged(examined.folder.path, "the snapshot cannot be read")
        state = examined.snapshot.state(without_tables=True)
        if state.time is not None and state.time.past.time is not None:
            raise files.damaged(
                examined.folder.path, "time has advanced, and what was forgotten is not there"
            )
    except DataError as error:
        message = f"nothing can be recovered: {error.diagnostics[0].message}"
        help = "go back to a copy of the folder, or make the store anew from its sources"
        raise DataError(
            Diagnostic(codes.DAMAGED, message, place=str(examined.folder.path), help=help)
        ) from error
    reasoner = StoredReasoner(state.program, **settings_of(state))
    reasoner.salvage(state, examined.explicit(reasoner.arities))
    reasoner.replay(examined.records, examined.folder.path)
    return reasoner, state.sequence + len(examined.records)


def _write_anew(examined: Examination, reasoner: StoredReasoner, sequence: int) -> tuple[str, ...]:
    """Write a new snapshot and an empty journal, let the superblock name them, and set the old files aside.

    Until the superblock does, the damaged store is what it was; from then on it is whole, and whoever opens
    it next goes on setting files aside.
    """
    folder = examined.folder
    number = max((*folder.numbers("snapshot"), *folder.numbers("journal"))) + 1
    _, checksum = snapshot.write(folder.snapshot(number), reasoner.state(sequence))
    journal = Journal.create(folder.journal(number), Position(sequence, 0, 0), is_durable=True)
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
    recovered = f"recovered {counted(facts.loaded, 'stated fact')}, and derived {facts.derived:,} from them"
    return recovered, f"the damaged files are in {aside}"


# ---- taking everything elsewhere


def export(path: Path, target: Path) -> tuple[Path, int]:
    """Write the program and the stated facts of a store to a new folder; return where, and how many facts.

    `tidelog run` with that program gives the same facts. The folder is there when all of it is.
    """
    reasoner = open_store(path, read_only=True)
    rules = write_rules(reasoner.program)
    if rules is None:
        message = "the rules of the store cannot be written as a program that means the same"
        raise DataError(Diagnostic(codes.NOT_STORABLE, message, place=str(path)))
    folder = durable.temporary_of(target.absolute())
    try:
        with files.writing_to(target):
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
    """Write rules and stated facts to a folder, on the disk; return how many facts."""
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
    """The stated facts of a predicate: those that hold always, and those that hold at times."""
    predicate = reasoner.program.predicates[name]
    columns, rows = reasoner.engine.explicit(name)
    known = predicate.written, column_names(predicate)
    if rows:
        yield Relation(*known, columns, rows, reasoner.engine.dictionary)
    given = reasoner.time.store.given.get(name)
    if given is not None and len(given):
        facts, left, right = given.rows()
        timeline = reasoner.time.store.timeline
        yield TimedRelation(*known, tuple(facts), left, right, reasoner.engine.dictionary, timeline)


def _written(name: str, relation: Relation, target: Path) -> str:
    """The statement that gives these facts to a predicate; they are in a file beside it, if need be."""
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
