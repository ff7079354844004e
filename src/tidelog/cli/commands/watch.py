"""`tidelog run --watch`: edits of the program and its data become transactions.

What an edit means is the difference between what the files say and what holds: rules by their meaning, facts
by their values. An edit that has errors shows them and changes nothing; the next one is compared with the
last state that was good.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter, sleep
from typing import Final

from tidelog.cli.options import UsageError
from tidelog.cli.program_sources import (
    STANDARD_INPUT,
    existing_data,
    load_beside,
    load_program,
    outputs_unknown,
    sandbox_of,
    unused,
    warnings,
)
from tidelog.cli.results import by_predicate, duration
from tidelog.cli.work import HEADERS, LoadedProgram, parameters
from tidelog.data.columns import Batch, column_of_values
from tidelog.errors import Diagnostic, Severity, TidelogError, counted
from tidelog.errors.codes import EMPTY_PREDICATE
from tidelog.io.data_file import data_file, data_files, import_file, predicate_of
from tidelog.io.reader import read, read_import
from tidelog.io.rejects import OnError
from tidelog.logic.program import Predicate, Program, facts_by_predicate
from tidelog.logic.values import Value
from tidelog.reasoner.delta import Delta, counts
from tidelog.records import dataclass

POLL_SECONDS: Final = 0.1

Stamps = dict[Path, tuple[int, int]]  # when each file was written, and its size


def check_watchable(options: Namespace) -> None:
    """Raise UsageError if the options are incompatible with `--watch`."""
    if options.ontology:
        raise UsageError("--watch cannot be used with --ontology", "watch a program that has the rules")
    if options.program == STANDARD_INPUT:
        raise UsageError("standard input cannot be watched", "name a file")
    if options.on_error == OnError.COLLECT.value or options.rejects is not None:
        raise UsageError("--watch cannot be used with rows that are collected", "use --on-error skip")


@dataclass(frozen=True)
class WatchedFiles:
    """A program, the data files that go with it, and when all of that was written."""

    program: Program
    data: tuple[Path, ...]
    stamps: Stamps


class ProgramWatch:
    """The files that a reasoner's program and facts come from, as they last were good. Mutable."""

    def __init__(self, work: LoadedProgram, show: Callable[[Delta | None], None]) -> None:
        self.work = work
        self._show = show  # what to do when the facts have changed
        self._sources = _sources(work.program)  # files of rules that are watched besides the program
        self._good = WatchedFiles(work.program, work.files, {})
        self._good = WatchedFiles(work.program, work.files, self._stamps())
        self._tried = self._seen = self._good.stamps

    def run(self, wait: Callable[[float], None] = sleep) -> int:
        """Apply edits until Ctrl-C; the exit code."""
        say = self.work.messages.say
        count = len(self._seen)
        say(f"watching {counted(count, 'file')}; Ctrl-C ends")
        try:
            while True:
                wait(POLL_SECONDS)
                self.poll()
        except KeyboardInterrupt:
            say("stopped watching")
        return 0

    def poll(self) -> None:
        """Apply what has been edited, once it has been left alone for a moment."""
        now = self._stamps()
        if now == self._seen and now != self._tried:
            self._tried = now
            self._renew(now)
        self._seen = now

    def _stamps(self) -> Stamps:
        """Return when each file that matters was written; a missing one has no stamp."""
        paths = [Path(self.work.options.program), *self._sources, *self.work.options.data]
        imported = [path for _, path in _imported(self._good.program)]
        stamps = {}
        for path in (*paths, *imported, *data_files(path for path in paths if path.is_dir())):
            try:
                status = path.stat()
            except OSError:
                continue
            if not path.is_dir():
                stamps[path] = (status.st_mtime_ns, status.st_size)
        return stamps

    def _renew(self, now: Stamps) -> None:
        """Update the facts to match the current files; an edit with errors is reported and not applied."""
        start = perf_counter()
        options, messages = self.work.options, self.work.messages
        try:
            files = existing_data(options.data)
            program = self._loaded(files)
            left_out = unused(program, files)
            messages.diagnose((*warnings(program, files), *left_out.values()))
            after = WatchedFiles(program, tuple(path for path in files if path not in left_out), now)
            self._apply(after, start)
        except TidelogError as error:
            messages.diagnose(error.diagnostics)
            messages.say("the edit has errors: nothing has changed")
            self._sources |= {Path(item.span.source.name) for item in error.diagnostics if item.span}
            return
        self._good = after
        self._sources = _sources(program)
        self._good = replace(after, stamps=self._stamps())
        self._tried = self._good.stamps

    def _loaded(self, files: Sequence[Path]) -> Program:
        """The program as it is now; an output predicate may have lost its last rule, and is empty then."""
        options = self.work.options
        try:
            return load_beside(options.program, parameters(options), files, sandbox_of(options))
        except TidelogError as error:
            if not outputs_unknown(error):
                raise
        before = self._good.program
        former_outputs = {name: replace(before.predicates[name], span=None) for name in _outputs(before)}
        program = load_program(options.program, parameters(options), former_outputs, sandbox_of(options))
        explicit = {fact.predicate for fact in program.facts}
        filled = {*program.derived, *explicit, *(transfer.predicate for transfer in program.imports)}
        unfilled = [
            item for name, item in former_outputs.items() if name not in filled and name in _outputs(program)
        ]
        self.work.messages.diagnose([_empty(predicate) for predicate in unfilled])
        return program

    def _apply(self, after: WatchedFiles, start: float) -> None:
        if _same_columns(self._good.program, after.program):
            delta = self._change(after)
            summary = f"{delta}" if not delta else f"{delta}  ({by_predicate(delta)})"
            self.work.messages.say(f"{summary}  {duration(perf_counter() - start)}")
            self._show(delta)
        else:
            added, removed = self._begin_anew(after)
            summary = f"columns have changed, so everything was recomputed: {counts(added, removed)}"
            self.work.messages.say(f"{summary}  {duration(perf_counter() - start)}")
            self._show(None)

    def _change(self, after: WatchedFiles) -> Delta:
        """Carry out the difference between the files as they were and as they are."""
        with self.work.showing_progress(), self.work.reasoner.change() as change:
            change.become(after.program)
            for name in self._edited(after):
                change.replace_batches(name, self._batches(name, after))
        return change.delta

    def _begin_anew(self, after: WatchedFiles) -> tuple[int, int]:
        """Derive everything in another reasoner; how many facts came and went."""
        work, before = self.work, self.work.reasoner
        now = work.begin(after.program)
        with work.showing_progress():
            now.read(*after.data, header=HEADERS[work.options.input_header])
            now.materialise()
        added = removed = 0
        for name in {**before.predicates(), **now.predicates()}:
            old = set(before[name].to_texts("exact").rows()) if name in before.predicates() else set()
            new = set(now[name].to_texts("exact").rows()) if name in now.predicates() else set()
            added, removed = added + len(new - old), removed + len(old - new)
        work.replace(now)
        return added, removed

    # ---- edits

    def _edited(self, after: WatchedFiles) -> list[str]:
        """Return the predicates whose facts differ from before in the program or some file."""
        before = self._good
        old, new = _explicit_facts(before.program), _explicit_facts(after.program)
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        # A file that another import reads, or that was not read before, counts as changed.
        read_before, read_now = set(_read(before)), set(_read(after))
        names += [item[0] for item in (read_before ^ read_now)]
        names += [
            item[0]
            for item in (read_before & read_now)
            if before.stamps.get(item[1]) != after.stamps.get(item[1])
        ]
        deleted = [item for item in before.program.imports if item not in after.program.imports]
        added = [item for item in after.program.imports if item not in before.program.imports]
        names += [item.predicate for item in (*deleted, *added)]
        return list(dict.fromkeys(names))

    def _batches(self, name: str, files: WatchedFiles) -> Iterator[Batch]:
        """Yield all facts of a predicate in the program and the files."""
        program, faults = files.program, self.work.reasoner.faults
        explicit = _explicit_facts(program).get(name)
        if explicit:
            yield Batch(tuple(map(column_of_values, zip(*explicit, strict=True))), len(explicit))
        for transfer in program.imports:
            if transfer.predicate == name:
                yield from read_import(transfer, program.predicates[name], faults)
        header = HEADERS[self.work.options.input_header]
        for path in files.data:
            if predicate_of(path, program.predicates) == name:
                yield from read(data_file(path, program.predicates.get(name), header), faults)


def _outputs(program: Program) -> list[str]:
    """The output predicates of a program."""
    return list(dict.fromkeys((*program.outputs, *(export.predicate for export in program.exports))))


def _empty(predicate: Predicate) -> Diagnostic:
    message = f"`{predicate.written}` has neither facts, imports nor rules any more: it is empty"
    return Diagnostic(EMPTY_PREDICATE, message, severity=Severity.WARNING)


def _explicit_facts(program: Program) -> dict[str, list[tuple[Value, ...]]]:
    """Return the explicit facts of a program, by predicate."""
    grouped = facts_by_predicate(program.facts)
    return {name: [fact.values for fact in facts] for name, facts in grouped.items()}


def _imported(program: Program) -> Iterator[tuple[str, Path]]:
    """The files that a program imports, each with its predicate."""
    for transfer in program.imports:
        path = import_file(transfer, program.predicates[transfer.predicate]).path
        if path is not None:
            yield transfer.predicate, path


def _read(files: WatchedFiles) -> Iterator[tuple[str, Path]]:
    """All files that facts are read from, each with its predicate."""
    yield from _imported(files.program)
    yield from ((predicate_of(path, files.program.predicates), path) for path in files.data)


def _sources(program: Program) -> set[Path]:
    """The files in which the program's rules, facts and predicates stand."""
    spans = [item.span for item in program.rules] + [item.span for item in program.facts]
    spans += [item.span for item in program.predicates.values()]
    names = {span.source.name for span in spans if span is not None}
    return {Path(name) for name in names if not name.startswith("<")}


def _same_columns(before: Program, after: Program) -> bool:
    """Whether the predicates that both programs have are of the same columns."""
    return all(
        (predicate.arity, predicate.types) == (before.predicates[name].arity, before.predicates[name].types)
        for name, predicate in after.predicates.items()
        if name in before.predicates
    )
