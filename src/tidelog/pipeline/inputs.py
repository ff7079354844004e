"""The inputs of a run: the sources of a job, the imports of its program, and the facts in the program.

Each input says whether it has changed since a version was published, and yields its rows as batches. Rows
that cannot be read are rejected, never lost. `InputReader` reads those that have changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tidelog.data.arrow import text_array
from tidelog.data.columns import Batch, Column, column_of_values, policy
from tidelog.errors import DataError, Diagnostic, Span, TidelogError, codes, counted
from tidelog.io.data_file import InputFile, file_name, import_file
from tidelog.io.reader import read
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic.conversions import exact
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import Fact, Program, TimedFact
from tidelog.logic.type_inference import Columns
from tidelog.logic.types import NEVER, Type, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.pipeline.guards import SourceMeasure
from tidelog.pipeline.job_settings import Settings, Source
from tidelog.pipeline.source_files import (
    SourceRowFilter,
    StoredFile,
    VersionedSource,
    columns_of,
    data_files_of,
    feed_of,
    find_predicate_of,
)
from tidelog.pipeline.version_folder import InputRecord, Manifest, Store, digest
from tidelog.reasoner.loading import WITH_SCHEMAS
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.transaction import Change
from tidelog.temporal.time_columns import split_batch
from tidelog.temporal.timed_changes import RowTimes
from tidelog.temporal.timed_relation import INTERVAL

Timed = tuple[Batch, RowTimes]  # rows, and when each holds


def readable(
    batch: Batch, names: tuple[str, ...], is_integer: bool, faults: RejectedRows, place: str, begin: int = 0
) -> Iterator[tuple[int, Batch, RowTimes]]:
    """Yield the rows whose last columns can be read as times, in parts, with where each begins in the batch.

    The batch is halved until the rows that cannot be read are found, which are rejected.
    """
    try:
        yield begin, *split_batch(batch, names, is_integer)
    except TidelogError as error:
        if batch.rows == 1:
            faults.rows -= 1
            faults.add(_rejected(batch, error.diagnostics[0], place))
            return
        middle = batch.rows // 2
        for start, rows in ((0, middle), (middle, batch.rows - middle)):
            part = _part(batch, start, rows)
            yield from readable(part, names, is_integer, faults, place, begin + start)


def _part(batch: Batch, start: int, rows: int) -> Batch:
    columns = (replace(column, values=column.values.slice(start, rows)) for column in batch.columns)
    return Batch(tuple(columns), rows)


def _rejected(row: Batch, fault: Diagnostic, place: str) -> BadRow:
    text = ",".join(str(column.values[0].as_py()) for column in row.columns)
    reason = fault.message.removeprefix("row 1: ")
    return BadRow(Diagnostic(fault.code, reason, place=place), text)


Stamp = tuple[int, int, str]  # size, time of the last change, hash of the content
ReadFiles = Callable[[list[InputFile], RejectedRows], Iterator[Batch]]

IN_PROGRAM = "the program"  # how messages call the facts that a program states

_CHUNK = 1 << 22


@dataclass(frozen=True)
class SourceBinding:
    """An input of a job: the predicate whose facts it has, and how it is read.

    `read` yields its rows; `columns` returns the names of its columns, where the data has some.
    """

    key: str
    predicate: str
    shown: str
    marks: str
    read: Callable[[RejectedRows], Iterator[Batch]]
    columns: Callable[[], tuple[str, ...]] = tuple
    files: tuple[Path, ...] = ()
    data: tuple[InputFile, ...] = ()  # what `read` reads, if that is files of a source
    filter: SourceRowFilter | None = None
    on_error: str = "reject"
    volatile: bool = False
    time: tuple[str, ...] = ()  # what its last columns say of when a fact holds
    table: VersionedSource | None = None  # what `read` reads, if that has versions
    held: Columns = ()  # the types of its values, where the rows do not show them
    span: Span | None = field(default=None, compare=False)

    def times(self) -> Iterator[int]:
        """Yield when its files were written, in nanoseconds."""
        yield from (path.stat().st_mtime_ns for path in self.files)
        yield from (file.place_of[1].written for file in self.data if isinstance(file, StoredFile))

    def stamps(self, known: Mapping[str, Stamp]) -> dict[str, Stamp]:
        """Return the stamps of its files; those of an object store are not read for that."""
        found = stamps_of(self.files, known)
        for file in self.data:
            if isinstance(file, StoredFile):
                size, time = file.place_of[1].size, file.place_of[1].written
                found[file.shown] = (size, time, f"{size} {time}")
        return found


def source_bindings(
    settings: Settings,
    program: Program,
    on_spark: Callable[[Source, Program], SourceBinding] | None = None,
    read_files: ReadFiles | None = None,
) -> list[SourceBinding]:
    """Return all inputs of a job; `on_spark` makes those that only Spark can read."""
    read_files = read_files or read_in_process
    found = [*program_inputs(program), *_imported(program, read_files)]
    faults: list[Diagnostic] = []
    for source in settings.sources:
        try:
            if source.kind == "file":
                found.append(_of_files(source, settings, program, read_files))
            elif source.kind == "versioned":
                found.append(_of_table(source, settings, program))
            elif on_spark is not None:
                found.append(on_spark(source, program))
        except DataError as error:
            faults += error.diagnostics
    if faults:
        raise DataError(faults)
    return with_keys(found)


def with_keys(found: Iterable[Any]) -> list[Any]:
    """Return the inputs, dataclasses with a `key`, each with a key of its own."""
    seen: dict[str, int] = {}
    keyed = []
    for item in found:
        seen[item.key] = seen.get(item.key, 0) + 1
        number = seen[item.key]
        keyed.append(item if number == 1 else replace(item, key=f"{item.key} #{number}"))
    return keyed


def program_inputs(program: Program) -> Iterator[SourceBinding]:
    """Yield the facts that the program states, as inputs."""
    by_predicate: dict[str, list[Fact]] = {}
    timed: dict[str, list[TimedFact]] = {}
    for fact in program.facts:
        if isinstance(fact, TimedFact):
            timed.setdefault(fact.predicate, []).append(fact)
        else:
            by_predicate.setdefault(fact.predicate, []).append(fact)
    for name, facts in by_predicate.items():
        texts = sorted(" ".join(map(exact, fact.values)) for fact in facts)
        yield SourceBinding(f"{name} in the program", name, IN_PROGRAM, digest(*texts), _fact_reader(facts))
    for name, some in timed.items():
        texts = sorted(" ".join((*map(exact, fact.values), str(fact.interval))) for fact in some)
        key, times = f"{name} at times in the program", [str(fact.interval) for fact in some]
        yield SourceBinding(
            key, name, IN_PROGRAM, digest(*texts), _fact_reader(some, times), time=(INTERVAL,)
        )


def _fact_reader(
    facts: Sequence[Fact], times: Sequence[str] = ()
) -> Callable[[RejectedRows], Iterator[Batch]]:
    """Return a reader of facts, with the intervals at which they hold behind their arguments."""

    def read_facts(faults: RejectedRows) -> Iterator[Batch]:
        faults.rows += len(facts)
        columns = tuple(map(column_of_values, zip(*(fact.values for fact in facts), strict=True)))
        last = (Column(ColumnType.STRING, text_array(times)),) if times else ()
        yield Batch((*columns, *last), len(facts))

    return read_facts


def _imported(program: Program, read_files: ReadFiles) -> Iterator[SourceBinding]:
    """Yield the files that the program imports."""
    for transfer in program.imports:
        file = import_file(transfer, program.predicates[transfer.predicate])
        paths = () if file.path is None else (file.path,)
        time = transfer.options.get("time", ())
        assert isinstance(time, tuple), "checked by the resolver"
        reading = read_in_process if time else read_files
        yield SourceBinding(
            f"{transfer.predicate} < {file.shown}",
            transfer.predicate,
            file.shown,
            mark_of(replace(file, path=None)),
            lambda faults, file=file, reading=reading: reading([file], faults),  # type: ignore[misc]
            lambda file=file: columns_of([file]),  # type: ignore[misc]
            paths,
            (file,) if paths else (),
            time=time,
            held=held_in(file),
            span=transfer.span,
        )


def _of_files(source: Source, settings: Settings, program: Program, read_files: ReadFiles) -> SourceBinding:
    """Return the files of a source, as an input."""
    predicate = find_predicate_of(source, program)
    files = data_files_of(source, settings, program, predicate)
    marks = replace(source, span=None, path=())
    read_files = read_in_process if source.times else read_files
    return SourceBinding(
        f"{predicate.name} < {', '.join(source.paths)}",
        predicate.name,
        source.shown,
        digest(repr(marks), f"[{', '.join(mark_text(replace(file, path=None)) for file in files[:1])}]"),
        lambda faults: read_files(files, faults),
        lambda: columns_of(files),
        tuple(file.path for file in files if file.path is not None),
        tuple(files),
        SourceRowFilter.of(source.filter, predicate, source.span),
        source.on_error,
        time=source.times,
        held=held_in(files[0]) if files else (),
        span=source.span,
    )


def held_in(file: InputFile) -> Columns:
    """Return the types of the values that a file may have; those of text follow from declared types alone."""
    types = [kind for kind in file.types or () if kind is not ColumnType.SKIP]
    types = types[: len(types) - file.times]
    found = []
    for place, kind in enumerate(types):
        is_missing = policy(file.nulls, place) is Nulls.VALUE
        own = NEVER if file.format in WITH_SCHEMAS else types_of_column(kind)
        found.append(own | ({Type.LITERAL} if is_missing else NEVER))
    return tuple(found)


def _of_table(source: Source, settings: Settings, program: Program) -> SourceBinding:
    """Return the foreign table that a source names, as an input."""
    predicate = find_predicate_of(source, program)
    table = VersionedSource(source, settings, program)
    table.wanted  # noqa: B018 - errors of the source are raised with those of others
    return SourceBinding(
        f"{predicate.name} < {', '.join(source.paths)}",
        predicate.name,
        source.shown,
        marks_of(source),
        table.read,
        lambda: table.columns,
        filter=SourceRowFilter.of(source.filter, predicate, source.span),
        on_error=source.on_error,
        time=source.times,
        table=table,
        span=source.span,
    )


MARKED_NAMES = {"InputFile": "DataFile", "FactSource": "Source"}  # under which manifests have known them


def mark_of(value: object) -> str:
    """Return the digest that marks an input in manifests."""
    return digest(mark_text(value))


def mark_text(value: object) -> str:
    """Return what the mark of an input is a digest of: the same when its class is renamed."""
    name = type(value).__name__
    return MARKED_NAMES.get(name, name) + repr(value).removeprefix(name)


def marks_of(source: Source) -> str:
    """Return a hash of how a table is read; it is the same for all engines."""
    return mark_of(replace(source, span=None, path=(), version=None))


def read_in_process(files: Iterable[InputFile], faults: RejectedRows) -> Iterator[Batch]:
    """Yield the rows of files, read in this process."""
    threads = os.cpu_count() or 1
    for file in files:
        yield from read(file, faults, threads)


def source_measure(name: str, found: InputRecord, newest: int | None = None) -> SourceMeasure:
    """Return the measure of an input; `newest` is when its newest file was written, in nanoseconds."""
    written = None if newest is None else datetime.fromtimestamp(newest / 1e9, UTC)
    rows = found.rows - found.filtered
    return SourceMeasure(name, found.predicate, rows, found.rejected, found.filtered, written)


def source_names(inputs: Mapping[str, InputRecord]) -> dict[str, str]:
    """Return how messages call the sources and imports among inputs, by their keys; no two are the same."""
    shown = [found.shown for found in inputs.values()]
    return {
        key: found.shown if shown.count(found.shown) == 1 else key
        for key, found in inputs.items()
        if found.shown != IN_PROGRAM
    }


def key_of(source: Source, program: Program) -> str:
    """Return the key of the input that a source becomes."""
    predicate = program.find(source.predicate)
    name = source.predicate if predicate is None else predicate.name
    return f"{name} < {', '.join(source.paths) or source.shown}"


# ---- what has changed


def stamps_of(files: Iterable[Path], known: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """Return the stamps of files; a file of the known size and time is not read."""
    found: dict[str, Stamp] = {}
    for path in files:
        name = str(path)
        status = path.stat()
        size, time = status.st_size, status.st_mtime_ns
        before = known.get(name)
        is_same = before is not None and (size, time) == before[:2]
        found[name] = before if is_same and before is not None else (size, time, _content(path))
    return found


def are_unchanged(files: Iterable[Path], stamps: Mapping[str, Stamp]) -> bool:
    """Return whether all files exist, with the content that they had."""
    try:
        return stamps_of(files, stamps) == stamps
    except OSError:
        return False


def _content(path: Path) -> str:
    made = blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(_CHUNK):
            made.update(block)
    return made.hexdigest()


def is_changed(item: SourceBinding, before: InputRecord | None) -> bool:
    """Return whether an input may have other rows than when it was last read."""
    if before is None or item.volatile or item.marks != before.marks:
        return True
    if item.table is not None:
        return not item.table.is_same(before)
    stamps = item.stamps(before.files)
    return {name: stamp[2] for name, stamp in stamps.items()} != {
        name: stamp[2] for name, stamp in before.files.items()
    }


def check_drift(
    shown: str, columns: tuple[str, ...], before: InputRecord | None, is_full: bool, span: Span | None
) -> None:
    """Raise `DataError` if an input has other columns than when it was last read, but for a full run."""
    if is_full or before is None or not before.columns or not columns or columns == before.columns:
        return
    missing = [f"`{name}`" for name in before.columns if name not in columns]
    new = [f"`{name}`" for name in columns if name not in before.columns]
    said = [f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} gone"] if missing else []
    said += [f"{', '.join(new)} {'is' if len(new) == 1 else 'are'} new"] if new else []
    message = f"the columns of `{shown}` have changed: {' and '.join(said) or 'their order differs'}"
    help = "correct the data, or accept it as it is with --full"
    raise DataError(Diagnostic(codes.DRIFT, message, span, help, place=shown))


@dataclass
class OpenInput:
    """An input that is being read; `input` describes it once it has been. Mutable."""

    item: SourceBinding
    rejects: Path  # the file for rows that are rejected
    relative: str  # … as the manifest names it
    columns: tuple[str, ...]
    stamps: dict[str, Stamp]

    def __post_init__(self) -> None:
        on_error = OnError.FAIL if self.item.on_error == "fail" else OnError.COLLECT
        self.faults = RejectedRows(
            on_error, self.rejects, advice='`on-error = "reject"` writes such rows to a file'
        )
        self.filtered = 0

    def batches(self) -> Iterator[Batch]:
        """Yield the rows that can be read and that satisfy the filter."""
        try:
            for batch in self.item.read(self.faults):
                kept = batch if self.item.filter is None else self.item.filter.keep(batch)
                self.filtered += batch.rows - kept.rows
                if kept.rows:
                    yield kept
        finally:
            self.faults.close()
        self._check_some()

    def timed(self, is_integer: bool) -> Iterator[Timed]:
        """Yield the same rows of an input with times, each part with when its rows hold."""
        for batch in self.batches():
            parts = readable(batch, self.item.time, is_integer, self.faults, self.item.shown)
            yield from ((part, times) for _, part, times in parts)
        self.faults.check()

    def _check_some(self) -> None:
        """Raise `DataError` if there were rows and all were rejected: then the whole input is wrong."""
        if not self.faults.skipped or self.faults.rows:
            return
        message = f"no row of `{self.item.shown}` could be read: {self.faults.skipped:,} rejected"
        with self.rejects.open(encoding="utf-8", errors="surrogateescape") as stream:
            first = stream.readlines()[1].strip()
        raise DataError(
            Diagnostic(codes.TOO_MANY_REJECTS, message, self.item.span, f"the first one: {first}")
        )

    @property
    def input(self) -> InputRecord:
        """The record of it in the manifest."""
        report = self.faults.report
        found = InputRecord(
            self.item.predicate,
            self.item.shown,
            self.item.marks,
            self.stamps,
            self.columns,
            report.rows,
            self.filtered,
            report.skipped,
            self.relative if report.skipped else None,
            self.item.volatile,
        )
        return found if self.item.table is None else self.item.table.with_version(found)


def check_rejects(inputs: Mapping[str, InputRecord], settings: Settings, folder: Path) -> None:
    """Raise `DataError` if more rows of inputs are rejected than a job allows."""
    most = settings.max_rejects
    rejected = sum(item.rejected for item in inputs.values())
    if most is not None and rejected > most:
        files = [item.rejects for item in inputs.values() if item.rejects]
        message = f"rejected {counted(rejected, 'row')}, but at most {most:,} are allowed"
        help = f"see {', '.join(str(folder / file) for file in files)}"
        raise DataError(Diagnostic(codes.TOO_MANY_REJECTS, message, help=help))


def differs(inputs: Mapping[str, InputRecord], before: Mapping[str, InputRecord]) -> bool:
    """Return whether an input differs from before, apart from when its files were written."""
    return any(
        item.comparable != before[key].comparable if key in before else True for key, item in inputs.items()
    )


class InputReader:
    """The inputs of one run, read in this process, and what is known of them. Mutable."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        program: Program,
        session: Callable[[], Any],
        reached: Callable[[str, str], None],
        number: int,
    ) -> None:
        self._settings = settings
        self._store = store
        self._number = number  # of the version that they are read for
        self._reached = reached
        self._program = program
        self._is_integer_time = program.is_integer_time
        self.items = self._bindings(program, session)
        self.inputs: dict[str, InputRecord] = {}
        self._again: Collection[str] = ()  # predicates whose inputs are read whole

    def _bindings(self, program: Program, session: Callable[[], Any]) -> list[SourceBinding]:
        """Return the inputs; those that only Spark has are read there, and come to this process."""
        if not self._settings.needs_spark:
            return source_bindings(self._settings, program)
        from tidelog.pipeline.spark_run import fetched_input

        folders = self._settings.folder, self._store.incoming
        return source_bindings(
            self._settings, program, lambda source, known: fetched_input(source, known, session, *folders)
        )

    def edited(self, before: Manifest, again: Collection[str] = ()) -> list[str]:
        """Return the predicates whose inputs differ from those of a version; the records of others are kept.

        Predicates that are read `again` are among them in any case, and their inputs are read whole.
        """
        self._again = again
        keys = {item.key for item in self.items}
        changed = [
            item.predicate
            for item in self.items
            if item.predicate in again or is_changed(item, before.inputs.get(item.key))
        ]
        missing = [item.predicate for key, item in before.inputs.items() if key not in keys]
        edited = list(dict.fromkeys((*changed, *missing)))
        self.inputs = {key: item for key, item in before.inputs.items() if item.predicate not in edited}
        return edited

    def read(
        self, before: Manifest | None, full: bool, items: Sequence[SourceBinding]
    ) -> Iterator[OpenInput]:
        """Yield inputs that are read.

        The rows of an input must have been read when the next one is requested.
        """
        for taken in self.taken(items, before, full):
            yield taken
            self.note(taken)

    def rows(self, before: Manifest, items: Sequence[SourceBinding]) -> Iterator[Batch]:
        """Yield all rows of inputs."""
        for taken in self.read(before, False, items):
            yield from taken.batches()

    def taken(
        self, items: Iterable[SourceBinding], before: Manifest | None, full: bool
    ) -> Iterator[OpenInput]:
        """Yield inputs that are being read; raise `DataError` if one has other columns than before."""
        folder = self._store.rejects(self._number)
        for item in items:
            known = before.inputs.get(item.key) if before else None
            columns = item.columns()
            check_drift(item.shown, columns, known, full, item.span)
            rejects = folder / file_name(f"{item.predicate}.{self.items.index(item) + 1}", "csv")
            relative = self._store.relative(rejects)
            yield OpenInput(item, rejects, relative, columns, item.stamps(known.files if known else {}))

    def note(self, taken: OpenInput) -> None:
        """Record and report an input that has been read."""
        found = self.inputs[taken.item.key] = taken.input
        rejected = f", {found.rejected:,} rejected" if found.rejected else ""
        filtered = f", {found.filtered:,} filtered out" if found.filtered else ""
        self._reached("read", f"{found.shown}: {counted(found.rows, 'row')}{filtered}{rejected}")

    def feed(self, reasoner: Reasoner, before: Manifest | None, full: bool) -> None:
        """Load the rows of all inputs into a reasoner without facts."""
        self.load(reasoner, self.read(before, full, self.items))

    def load(self, reasoner: Reasoner, inputs: Iterable[OpenInput]) -> None:
        """Load inputs into a reasoner without facts."""
        for taken in inputs:
            self._note_types(reasoner, [taken.item])
            if taken.item.time:
                reasoner.load_timed(taken.item.predicate, taken.timed(self._is_integer_time))
            else:
                reasoner.load(taken.item.predicate, taken.batches())

    @staticmethod
    def _note_types(reasoner: Reasoner, items: Iterable[SourceBinding]) -> None:
        for item in items:
            if item.held:
                reasoner.schemas.data.restore({item.predicate: item.held})

    def replace(
        self, reasoner: Reasoner, change: Change, before: Manifest, predicates: Sequence[str]
    ) -> None:
        """Replace the explicit facts of predicates, in a transaction, by what their inputs contain."""
        self._note_types(reasoner, self.of(predicates))
        for name in predicates:
            if not self._apply_feed(change, before, name):
                always = [item for item in self.of([name]) if not item.time]
                change.replace_batches(name, self.rows(before, always))
        self.replace_times(change, before, predicates)

    def _apply_feed(self, change: Change, before: Manifest, name: str) -> bool:
        """Apply the changes of the only table that has a predicate's facts; return whether they are known."""
        items = self.of([name])
        if not items or name in self._again:
            return False
        tables = {item.key: item.table for item in items}
        of_table = next((item for item in items if item.table is not None), items[0])
        for item in items:
            check_drift(item.shown, item.columns(), before.inputs.get(item.key), False, item.span)
        feed = feed_of(
            name, tables, lambda: of_table.filter, self._program, before, of_table.marks, self._reached
        )
        if feed is None:
            return False
        feed.apply(change, name)
        self.inputs[of_table.key] = feed.input
        self._reached("read", feed.shown)
        return True

    def replace_times(self, change: Change, before: Manifest, predicates: Sequence[str]) -> None:
        """Replace explicit facts with times, in the same way."""
        timed = [item for item in self.of(predicates) if item.time]
        for name in predicates:
            if name in change.program.timed:
                change.times.replaced.add(name)
        for taken in self.read(before, False, timed):
            for batch, times in taken.timed(self._is_integer_time):
                change.insert_timed(taken.item.predicate, batch, times)

    def of(self, predicates: Collection[str]) -> list[SourceBinding]:
        """Return the inputs of predicates."""
        return [item for item in self.items if item.predicate in predicates]

    def newest(self, key: str) -> int | None:
        """Return when the newest file of an input was written, in nanoseconds; None if it has no files."""
        found = next((item for item in self.items if item.key == key), None)
        if found is not None and found.table is not None:
            return found.table.written
        return None if found is None else max(found.times(), default=None)
