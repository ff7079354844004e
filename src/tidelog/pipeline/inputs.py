"""The inputs of a run: the sources of a job, the imports of its program, and the facts in the program.

An input can determine whether it has changed since a version was published, and yields its rows as batches.
Rows that cannot be read are rejected, never lost. `InputReader` reads the changed inputs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
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
from tidelog.records import dataclass
from tidelog.temporal.time_columns import split_batch
from tidelog.temporal.timed_changes import RowTimes
from tidelog.temporal.timed_relation import INTERVAL

Timed = tuple[Batch, RowTimes]  # rows, and their times


def readable(
    batch: Batch, names: tuple[str, ...], is_integer: bool, faults: RejectedRows, place: str, begin: int = 0
) -> Iterator[tuple[int, Batch, RowTimes]]:
    """Yield the rows whose last columns can be read as times, in parts, with the offset of each in the batch.

    The batch is halved until the rows that cannot be read are isolated; these are rejected.
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

IN_PROGRAM = "the program"  # the source of a program's own facts, in messages

_CHUNK = 1 << 22


@dataclass(frozen=True)
class SourceBinding:
    """An input of a job: the predicate of its facts, and how it is read.

    `read` yields its rows; `columns` returns the names of its columns, if the data has some.
    """

    key: str
    predicate: str
    shown: str
    marks: str
    read: Callable[[RejectedRows], Iterator[Batch]]
    columns: Callable[[], tuple[str, ...]] = tuple
    files: tuple[Path, ...] = ()
    data: tuple[InputFile, ...] = ()  # the files that `read` reads, if any
    filter: SourceRowFilter | None = None
    on_error: str = "reject"
    volatile: bool = False
    time: tuple[str, ...] = ()  # the kinds of its last columns, which are times
    table: VersionedSource | None = None  # the table that `read` reads, if it has versions
    value_types: Columns = ()  # the types of its values, if rows do not determine them
    span: Span | None = field(default=None, compare=False)

    def times(self) -> Iterator[int]:
        """Yield when its files were written, in nanoseconds."""
        yield from (path.stat().st_mtime_ns for path in self.files)
        yield from (file.place_of[1].written for file in self.data if isinstance(file, StoredFile))

    def stamps(self, previous: Mapping[str, Stamp]) -> dict[str, Stamp]:
        """Return the stamps of its files; files in an object store are not read."""
        stamps = stamps_of(self.files, previous)
        for file in self.data:
            if isinstance(file, StoredFile):
                size, time = file.place_of[1].size, file.place_of[1].written
                stamps[file.shown] = (size, time, f"{size} {time}")
        return stamps


def source_bindings(
    settings: Settings,
    program: Program,
    on_spark: Callable[[Source, Program], SourceBinding] | None = None,
    read_files: ReadFiles | None = None,
) -> list[SourceBinding]:
    """Return all inputs of a job; `on_spark` binds those that only Spark can read."""
    read_files = read_files or read_in_process
    bindings = [*program_inputs(program), *_imported(program, read_files)]
    faults: list[Diagnostic] = []
    for source in settings.sources:
        try:
            if source.kind == "file":
                bindings.append(_of_files(source, settings, program, read_files))
            elif source.kind == "versioned":
                bindings.append(_of_table(source, settings, program))
            elif on_spark is not None:
                bindings.append(on_spark(source, program))
        except DataError as error:
            faults += error.diagnostics
    if faults:
        raise DataError(faults)
    return with_keys(bindings)


def with_keys(items: Iterable[Any]) -> list[Any]:
    """Return the inputs, dataclasses with a `key`, with unique keys."""
    counts: dict[str, int] = {}
    keyed = []
    for item in items:
        counts[item.key] = counts.get(item.key, 0) + 1
        number = counts[item.key]
        keyed.append(item if number == 1 else replace(item, key=f"{item.key} #{number}"))
    return keyed


def program_inputs(program: Program) -> Iterator[SourceBinding]:
    """Yield the facts in the program, as inputs."""
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
    for name, timed_facts in timed.items():
        texts = sorted(" ".join((*map(exact, fact.values), str(fact.interval))) for fact in timed_facts)
        key, times = f"{name} at times in the program", [str(fact.interval) for fact in timed_facts]
        yield SourceBinding(
            key, name, IN_PROGRAM, digest(*texts), _fact_reader(timed_facts, times), time=(INTERVAL,)
        )


def _fact_reader(
    facts: Sequence[Fact], times: Sequence[str] = ()
) -> Callable[[RejectedRows], Iterator[Batch]]:
    """Return a reader of facts, with their intervals after the arguments."""

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
            value_types=value_types_of(file),
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
        value_types=value_types_of(files[0]) if files else (),
        span=source.span,
    )


def value_types_of(file: InputFile) -> Columns:
    """Return the types of the values that a file may have; those of text depend on declared types only."""
    types = [kind for kind in file.types or () if kind is not ColumnType.SKIP]
    types = types[: len(types) - file.times]
    types_of_columns = []
    for place, kind in enumerate(types):
        is_missing = policy(file.nulls, place) is Nulls.VALUE
        own = NEVER if file.format in WITH_SCHEMAS else types_of_column(kind)
        types_of_columns.append(own | ({Type.LITERAL} if is_missing else NEVER))
    return tuple(types_of_columns)


def _of_table(source: Source, settings: Settings, program: Program) -> SourceBinding:
    """Return the foreign table that a source names, as an input."""
    predicate = find_predicate_of(source, program)
    table = VersionedSource(source, settings, program)
    table.request  # noqa: B018 - errors of the source are raised with those of others
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


MARKED_NAMES = {"InputFile": "DataFile", "FactSource": "Source"}  # former names, in marks of manifests


def mark_of(value: object) -> str:
    """Return the digest that marks an input in manifests."""
    return digest(mark_text(value))


def mark_text(value: object) -> str:
    """Return the text that the mark of an input is a digest of, which does not change with class names."""
    name = type(value).__name__
    return MARKED_NAMES.get(name, name) + repr(value).removeprefix(name)


def marks_of(source: Source) -> str:
    """Return a hash of the options by which a table is read, the same for all engines."""
    return mark_of(replace(source, span=None, path=(), version=None))


def read_in_process(files: Iterable[InputFile], faults: RejectedRows) -> Iterator[Batch]:
    """Yield the rows of files, read in this process."""
    threads = os.cpu_count() or 1
    for file in files:
        yield from read(file, faults, threads)


def source_measure(name: str, record: InputRecord, newest: int | None = None) -> SourceMeasure:
    """Return the measure of an input; `newest` is the time of its newest file, in nanoseconds."""
    newest_time = None if newest is None else datetime.fromtimestamp(newest / 1e9, UTC)
    rows = record.rows - record.filtered
    return SourceMeasure(name, record.predicate, rows, record.rejected, record.filtered, newest_time)


def source_names(inputs: Mapping[str, InputRecord]) -> dict[str, str]:
    """Return unique names in messages of the sources and imports among inputs, by their keys."""
    labels = [record.shown for record in inputs.values()]
    return {
        key: record.shown if labels.count(record.shown) == 1 else key
        for key, record in inputs.items()
        if record.shown != IN_PROGRAM
    }


def key_of(source: Source, program: Program) -> str:
    """Return the key of the input that a source becomes."""
    predicate = program.find(source.predicate)
    name = source.predicate if predicate is None else predicate.name
    return f"{name} < {', '.join(source.paths) or source.shown}"


# ---- what has changed


def stamps_of(files: Iterable[Path], previous: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """Return the stamps of files; a file whose size and time are unchanged is not read."""
    stamps: dict[str, Stamp] = {}
    for path in files:
        name = str(path)
        status = path.stat()
        size, time = status.st_size, status.st_mtime_ns
        before = previous.get(name)
        is_same = before is not None and (size, time) == before[:2]
        stamps[name] = before if is_same and before is not None else (size, time, _content(path))
    return stamps


def are_unchanged(files: Iterable[Path], stamps: Mapping[str, Stamp]) -> bool:
    """Return whether all files exist with unchanged contents."""
    try:
        return stamps_of(files, stamps) == stamps
    except OSError:
        return False


def _content(path: Path) -> str:
    hasher = blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(_CHUNK):
            hasher.update(block)
    return hasher.hexdigest()


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
    label: str, columns: tuple[str, ...], before: InputRecord | None, is_full: bool, span: Span | None
) -> None:
    """Raise `DataError` if an input has other columns than when it was last read, except in a full run."""
    if is_full or before is None or not before.columns or not columns or columns == before.columns:
        return
    missing = [f"`{name}`" for name in before.columns if name not in columns]
    added = [f"`{name}`" for name in columns if name not in before.columns]
    differences = [f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} gone"] if missing else []
    differences += [f"{', '.join(added)} {'is' if len(added) == 1 else 'are'} new"] if added else []
    message = f"the columns of `{label}` have changed: {' and '.join(differences) or 'their order differs'}"
    help = "correct the data, or accept it as it is with --full"
    raise DataError(Diagnostic(codes.DRIFT, message, span, help, place=label))


@dataclass
class OpenInput:
    """An input that is being read; `input` is its record afterwards. Mutable."""

    item: SourceBinding
    rejects: Path  # the file for rejected rows
    relative: str  # its path in the manifest
    columns: tuple[str, ...]
    stamps: dict[str, Stamp]

    def __post_init__(self) -> None:
        on_error = OnError.FAIL if self.item.on_error == "fail" else OnError.COLLECT
        self.faults = RejectedRows(
            on_error, self.rejects, advice='`on-error = "reject"` writes such rows to a file'
        )
        self.filtered = 0

    def batches(self) -> Iterator[Batch]:
        """Yield the readable rows that satisfy the filter."""
        try:
            for batch in self.item.read(self.faults):
                rows = batch if self.item.filter is None else self.item.filter.keep(batch)
                self.filtered += batch.rows - rows.rows
                if rows.rows:
                    yield rows
        finally:
            self.faults.close()
        self._check_not_all_rejected()

    def timed(self, is_integer: bool) -> Iterator[Timed]:
        """Yield the same rows of an input with times, with the times of each part."""
        for batch in self.batches():
            parts = readable(batch, self.item.time, is_integer, self.faults, self.item.shown)
            yield from ((part, times) for _, part, times in parts)
        self.faults.check()

    def _check_not_all_rejected(self) -> None:
        """Raise `DataError` if all rows were rejected: then the whole input is wrong."""
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
        record = InputRecord(
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
        return record if self.item.table is None else self.item.table.with_version(record)


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
    """Return whether an input differs from before, apart from the times of its files."""
    return any(
        item.comparable != before[key].comparable if key in before else True for key, item in inputs.items()
    )


class InputReader:
    """The inputs of one run, read in this process, and their records. Mutable."""

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
        self._number = number  # of the new version
        self._reached = reached
        self._program = program
        self._is_integer_time = program.is_integer_time
        self.items = self._bindings(program, session)
        self.inputs: dict[str, InputRecord] = {}
        self._again: Collection[str] = ()  # predicates whose inputs are read whole

    def _bindings(self, program: Program, session: Callable[[], Any]) -> list[SourceBinding]:
        """Return the inputs; those that only Spark can read are fetched from there."""
        if not self._settings.needs_spark:
            return source_bindings(self._settings, program)
        from tidelog.pipeline.spark_run import fetched_input

        folders = self._settings.folder, self._store.incoming
        return source_bindings(
            self._settings, program, lambda source, program: fetched_input(source, program, session, *folders)
        )

    def edited(self, before: Manifest, again: Collection[str] = ()) -> list[str]:
        """Return the predicates whose inputs differ from those of a version; the records of others are kept.

        It includes the predicates `again`, whose inputs are read whole.
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
        """Yield inputs, and record each after it was read.

        The rows of an input must be read before the next one is requested.
        """
        for opened in self.open_inputs(items, before, full):
            yield opened
            self.note(opened)

    def rows(self, before: Manifest, items: Sequence[SourceBinding]) -> Iterator[Batch]:
        """Yield all rows of inputs."""
        for opened in self.read(before, False, items):
            yield from opened.batches()

    def open_inputs(
        self, items: Iterable[SourceBinding], before: Manifest | None, full: bool
    ) -> Iterator[OpenInput]:
        """Yield inputs that are opened; raise `DataError` if one has other columns than before."""
        folder = self._store.rejects(self._number)
        for item in items:
            record = before.inputs.get(item.key) if before else None
            columns = item.columns()
            check_drift(item.shown, columns, record, full, item.span)
            rejects = folder / file_name(f"{item.predicate}.{self.items.index(item) + 1}", "csv")
            relative = self._store.relative(rejects)
            yield OpenInput(item, rejects, relative, columns, item.stamps(record.files if record else {}))

    def note(self, opened: OpenInput) -> None:
        """Record and report an input that has been read."""
        record = self.inputs[opened.item.key] = opened.input
        rejected = f", {record.rejected:,} rejected" if record.rejected else ""
        filtered = f", {record.filtered:,} filtered out" if record.filtered else ""
        self._reached("read", f"{record.shown}: {counted(record.rows, 'row')}{filtered}{rejected}")

    def feed(self, reasoner: Reasoner, before: Manifest | None, full: bool) -> None:
        """Load the rows of all inputs into a reasoner without facts."""
        self.load(reasoner, self.read(before, full, self.items))

    def load(self, reasoner: Reasoner, inputs: Iterable[OpenInput]) -> None:
        """Load inputs into a reasoner without facts."""
        for opened in inputs:
            self._note_types(reasoner, [opened.item])
            if opened.item.time:
                reasoner.load_timed(opened.item.predicate, opened.timed(self._is_integer_time))
            else:
                reasoner.load(opened.item.predicate, opened.batches())

    @staticmethod
    def _note_types(reasoner: Reasoner, items: Iterable[SourceBinding]) -> None:
        for item in items:
            if item.value_types:
                reasoner.schemas.data.restore({item.predicate: item.value_types})

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
        """Apply the changes of the only table of a predicate's facts; return whether it has a change feed."""
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
        for opened in self.read(before, False, timed):
            for batch, times in opened.timed(self._is_integer_time):
                change.insert_timed(opened.item.predicate, batch, times)

    def of(self, predicates: Collection[str]) -> list[SourceBinding]:
        """Return the inputs of predicates."""
        return [item for item in self.items if item.predicate in predicates]

    def newest(self, key: str) -> int | None:
        """Return the time of the newest file of an input, in nanoseconds; None if it has no files."""
        source = next((item for item in self.items if item.key == key), None)
        if source is not None and source.table is not None:
            return source.table.written
        return None if source is None else max(source.times(), default=None)
