"""What a run takes in: the sources of a job, the imports of its program, what the program states, and what
has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from tidelog.pipeline.job_settings import Settings, Source
from tidelog.pipeline.source_files import (
    Filter,
    StoredFile,
    Versioned,
    columns_of,
    data_files_of,
    feed_of,
    find_predicate_of,
)
from tidelog.pipeline.version_folder import Input, Manifest, Store
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.relation_types import WITH_SCHEMAS
from tidelog.reasoner.transaction import Change
from tidelog.temporal.time_columns import split_batch
from tidelog.temporal.timed_changes import Times
from tidelog.temporal.timed_relation import INTERVAL

# ---- Rows with times of which some cannot be read: these are rejected one by one, and the others taken.

Timed = tuple[Batch, Times]  # rows, and when each holds


def readable(
    batch: Batch, names: tuple[str, ...], is_integer: bool, faults: RejectedRows, place: str, begin: int = 0
) -> Iterator[tuple[int, Batch, Times]]:
    """The rows whose last columns say when, in parts, with where each begins in the batch.

    The batch is halved until the others are found.
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


# ---- What facts come from: the sources of a job, the imports of its program, and what the program states.
#
# Each input tells whether it has changed since a version was published, and gives its rows as batches. Rows
# that cannot be read are rejected, never lost.

Stamp = tuple[int, int, str]  # size, time of the last change, hash of the content
ReadFiles = Callable[[list[InputFile], RejectedRows], Iterator[Batch]]

STATED = "the program"  # what the facts are called that a program states

_CHUNK = 1 << 22


@dataclass(frozen=True)
class Feeding:
    """An input of a job: the predicate it feeds, and how it is read.

    `read` gives its rows; `columns` what the data calls its columns, where that can be told.
    """

    key: str
    predicate: str
    shown: str
    marks: str
    read: Callable[[RejectedRows], Iterator[Batch]]
    columns: Callable[[], tuple[str, ...]] = tuple
    files: tuple[Path, ...] = ()
    data: tuple[InputFile, ...] = ()  # what `read` reads, if that is files of a source
    filter: Filter | None = None
    on_error: str = "reject"
    volatile: bool = False
    time: tuple[str, ...] = ()  # what the last columns of its rows tell of when they hold
    table: Versioned | None = None  # what `read` reads, if that has versions
    held: Columns = ()  # the types of its values, whatever rows there are, where they do not say that
    span: Span | None = field(default=None, compare=False)

    def times(self) -> Iterator[int]:
        """When its files were written, in nanoseconds."""
        yield from (path.stat().st_mtime_ns for path in self.files)
        yield from (file.place_of[1].written for file in self.data if isinstance(file, StoredFile))

    def stamps(self, known: Mapping[str, Stamp]) -> dict[str, Stamp]:
        """What tells whether its files have changed; those of an object store are not read for that."""
        found = stamps_of(self.files, known)
        for file in self.data:
            if isinstance(file, StoredFile):
                size, time = file.place_of[1].size, file.place_of[1].written
                found[file.shown] = (size, time, f"{size} {time}")
        return found


def feedings(
    settings: Settings,
    program: Program,
    on_spark: Callable[[Source, Program], Feeding] | None = None,
    read_files: ReadFiles | None = None,
) -> list[Feeding]:
    """All inputs of a job. Sources that only Spark has are made by `on_spark`."""
    read_files = read_files or read_in_process
    found = [*stated_inputs(program), *_imported(program, read_files)]
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
    """The inputs, dataclasses with a `key`, each with a key of its own."""
    seen: dict[str, int] = {}
    keyed = []
    for item in found:
        seen[item.key] = seen.get(item.key, 0) + 1
        number = seen[item.key]
        keyed.append(item if number == 1 else replace(item, key=f"{item.key} #{number}"))
    return keyed


def stated_inputs(program: Program) -> Iterator[Feeding]:
    """The facts that the program states."""
    by_predicate: dict[str, list[Fact]] = {}
    timed: dict[str, list[TimedFact]] = {}
    for fact in program.facts:
        if isinstance(fact, TimedFact):
            timed.setdefault(fact.predicate, []).append(fact)
        else:
            by_predicate.setdefault(fact.predicate, []).append(fact)
    for name, facts in by_predicate.items():
        texts = sorted(" ".join(map(exact, fact.values)) for fact in facts)
        yield Feeding(f"{name} in the program", name, STATED, digest(*texts), _stating(facts))
    for name, some in timed.items():
        texts = sorted(" ".join((*map(exact, fact.values), str(fact.interval))) for fact in some)
        key, times = f"{name} at times in the program", [str(fact.interval) for fact in some]
        yield Feeding(key, name, STATED, digest(*texts), _stating(some, times), time=(INTERVAL,))


def _stating(facts: Sequence[Fact], times: Sequence[str] = ()) -> Callable[[RejectedRows], Iterator[Batch]]:
    """Facts, and behind their arguments the intervals at which they hold."""

    def read_facts(faults: RejectedRows) -> Iterator[Batch]:
        faults.rows += len(facts)
        columns = tuple(map(column_of_values, zip(*(fact.values for fact in facts), strict=True)))
        last = (Column(ColumnType.STRING, text_array(times)),) if times else ()
        yield Batch((*columns, *last), len(facts))

    return read_facts


def _imported(program: Program, read_files: ReadFiles) -> Iterator[Feeding]:
    """The files that the program imports."""
    for transfer in program.imports:
        file = import_file(transfer, program.predicates[transfer.predicate])
        paths = () if file.path is None else (file.path,)
        time = transfer.options.get("time", ())
        assert isinstance(time, tuple), "the resolver has seen to that"
        reading = read_in_process if time else read_files
        yield Feeding(
            f"{transfer.predicate} < {file.shown}",
            transfer.predicate,
            file.shown,
            digest(repr(replace(file, path=None))),
            lambda faults, file=file, reading=reading: reading([file], faults),  # type: ignore[misc]
            lambda file=file: columns_of([file]),  # type: ignore[misc]
            paths,
            (file,) if paths else (),
            time=time,
            held=held_in(file),
            span=transfer.span,
        )


def _of_files(source: Source, settings: Settings, program: Program, read_files: ReadFiles) -> Feeding:
    """The files of a source."""
    predicate = find_predicate_of(source, program)
    files = data_files_of(source, settings, program, predicate)
    marks = replace(source, span=None, path=())
    read_files = read_in_process if source.times else read_files
    return Feeding(
        f"{predicate.name} < {', '.join(source.paths)}",
        predicate.name,
        source.shown,
        digest(repr(marks), repr([replace(file, path=None) for file in files[:1]])),
        lambda faults: read_files(files, faults),
        lambda: columns_of(files),
        tuple(file.path for file in files if file.path is not None),
        tuple(files),
        Filter.of(source.filter, predicate, source.span),
        source.on_error,
        time=source.times,
        held=held_in(files[0]) if files else (),
        span=source.span,
    )


def held_in(file: InputFile) -> Columns:
    """The types of the values that a file may have: texts say nothing of them, but by declared types."""
    types = [kind for kind in file.types or () if kind is not ColumnType.SKIP]
    types = types[: len(types) - file.times]
    found = []
    for place, kind in enumerate(types):
        is_missing = policy(file.nulls, place) is Nulls.VALUE
        own = NEVER if file.format in WITH_SCHEMAS else types_of_column(kind)
        found.append(own | ({Type.LITERAL} if is_missing else NEVER))
    return tuple(found)


def _of_table(source: Source, settings: Settings, program: Program) -> Feeding:
    """The table of others that a source names."""
    predicate = find_predicate_of(source, program)
    table = Versioned(source, settings, program)
    table.wanted  # noqa: B018 - what is wrong with the source is raised with what is wrong with others
    return Feeding(
        f"{predicate.name} < {', '.join(source.paths)}",
        predicate.name,
        source.shown,
        marks_of(source),
        table.read,
        lambda: table.columns,
        filter=Filter.of(source.filter, predicate, source.span),
        on_error=source.on_error,
        time=source.times,
        table=table,
        span=source.span,
    )


def marks_of(source: Source) -> str:
    """What tells whether a table is read in another way; the same for all engines."""
    return digest(repr(replace(source, span=None, path=(), version=None)))


def read_in_process(files: Iterable[InputFile], faults: RejectedRows) -> Iterator[Batch]:
    """The rows of files, read here."""
    threads = os.cpu_count() or 1
    for file in files:
        yield from read(file, faults, threads)


def digest(*texts: str) -> str:
    """A hash of texts."""
    made = blake2b(digest_size=16)
    for text in texts:
        made.update(text.encode("utf-8", "surrogateescape") + b"\0")
    return made.hexdigest()


# ---- what has changed


def stamps_of(files: Iterable[Path], known: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """What tells whether files have changed; a file of the size and time that are known is not read."""
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
    """Whether files are all there, with the content that they had."""
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


def is_changed(item: Feeding, before: Input | None) -> bool:
    """Whether an input may give other rows than when it was last read."""
    if before is None or item.volatile or item.marks != before.marks:
        return True
    if item.table is not None:
        return not item.table.is_same(before)
    stamps = item.stamps(before.files)
    return {name: stamp[2] for name, stamp in stamps.items()} != {
        name: stamp[2] for name, stamp in before.files.items()
    }


def check_drift(item: Feeding, before: Input | None, is_full: bool) -> tuple[str, ...]:
    """The columns of an input; raises `DataError` if they were others when it was last read."""
    columns = item.columns()
    if is_full or before is None or not before.columns or not columns or columns == before.columns:
        return columns
    gone = [f"`{name}`" for name in before.columns if name not in columns]
    new = [f"`{name}`" for name in columns if name not in before.columns]
    said = [f"{', '.join(gone)} {'is' if len(gone) == 1 else 'are'} gone"] if gone else []
    said += [f"{', '.join(new)} {'is' if len(new) == 1 else 'are'} new"] if new else []
    message = (
        f"the columns of `{item.shown}` have changed: {' and '.join(said) or 'they stand in another order'}"
    )
    help = "put the data right, or take it as it is now with --full"
    raise DataError(Diagnostic(codes.DRIFT, message, item.span, help, place=item.shown))


@dataclass
class Taken:
    """An input that is being read; once it has been, `input` tells what was found. Mutates itself."""

    item: Feeding
    rejects: Path  # the file for rows that are rejected
    relative: str  # … as the manifest names it
    columns: tuple[str, ...]
    stamps: dict[str, Stamp]

    def __post_init__(self) -> None:
        on_error = OnError.FAIL if self.item.on_error == "fail" else OnError.COLLECT
        self.faults = RejectedRows(
            on_error, self.rejects, advice='`on-error = "reject"` writes such rows aside'
        )
        self.filtered = 0

    def batches(self) -> Iterator[Batch]:
        """The rows that can be read and that the filter lets through."""
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
        """The same of an input with times, each part with when its rows hold."""
        for batch in self.batches():
            parts = readable(batch, self.item.time, is_integer, self.faults, self.item.shown)
            yield from ((part, times) for _, part, times in parts)
        self.faults.check()

    def tell(self, reject: Callable[[RejectedRows], None], rows: int, filtered: int) -> None:
        """Take what was told of an input that was read elsewhere: rejected rows, and counts."""
        try:
            reject(self.faults)
            self.faults.check()
        finally:
            self.faults.close()
        self.faults.rows, self.filtered = rows, filtered
        self._check_some()

    def _check_some(self) -> None:
        """Nothing, unless there were rows and all were rejected: then the whole input is wrong."""
        if not self.faults.skipped or self.faults.rows:
            return
        message = f"no row of `{self.item.shown}` could be read: {self.faults.skipped:,} rejected"
        with self.rejects.open(encoding="utf-8", errors="surrogateescape") as stream:
            first = stream.readlines()[1].strip()
        raise DataError(
            Diagnostic(codes.TOO_MANY_REJECTS, message, self.item.span, f"the first one: {first}")
        )

    @property
    def input(self) -> Input:
        """What the manifest tells of it."""
        report = self.faults.report
        found = Input(
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
        return found if self.item.table is None else self.item.table.noted(found)


def check_rejects(inputs: Mapping[str, Input], settings: Settings, folder: Path) -> None:
    """Raise `DataError` if more rows of inputs are rejected than a job allows."""
    most = settings.max_rejects
    rejected = sum(item.rejected for item in inputs.values())
    if most is not None and rejected > most:
        files = [item.rejects for item in inputs.values() if item.rejects]
        message = f"rejected {counted(rejected, 'row')}, and at most {most:,} may be"
        help = f"see {', '.join(str(folder / file) for file in files)}"
        raise DataError(Diagnostic(codes.TOO_MANY_REJECTS, message, help=help))


def differs(inputs: Mapping[str, Input], before: Mapping[str, Input]) -> bool:
    """Return whether an input tells something else than before, apart from when its files were written."""
    return any(item.told != before[key].told if key in before else True for key, item in inputs.items())


# ---- What a run takes in: the inputs that have changed, read, with what was rejected written aside.


class Intake:
    """The inputs of one run, and what was found in those that were read. Mutates itself."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        program: Program,
        session: Callable[[], Any],
        reached: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._reached = reached
        self._program = program
        self._is_integer_time = program.is_integer_time
        self.items = self._feedings(program, session)
        self.inputs: dict[str, Input] = {}
        self._again: Collection[str] = ()  # predicates whose inputs are read whole

    def _feedings(self, program: Program, session: Callable[[], Any]) -> list[Feeding]:
        """Return the inputs; those that only Spark has are read there, and come to this process."""
        if not self._settings.needs_spark:
            return feedings(self._settings, program)
        from tidelog.pipeline.spark_run import fetched_input

        folders = self._settings.folder, self._store.incoming
        return feedings(
            self._settings, program, lambda source, known: fetched_input(source, known, session, *folders)
        )

    def edited(self, before: Manifest, again: Collection[str] = ()) -> list[str]:
        """The predicates whose inputs are others than in a version; the other inputs are kept.

        Those of predicates that are read `again` are said to be others in any case, and are read whole.
        """
        self._again = again
        keys = {item.key for item in self.items}
        changed = [
            item.predicate
            for item in self.items
            if item.predicate in again or is_changed(item, before.inputs.get(item.key))
        ]
        gone = [item.predicate for key, item in before.inputs.items() if key not in keys]
        edited = list(dict.fromkeys((*changed, *gone)))
        self.inputs = {key: item for key, item in before.inputs.items() if item.predicate not in edited}
        return edited

    def read(
        self, number: int, before: Manifest | None, full: bool, items: Sequence[Feeding]
    ) -> Iterator[Taken]:
        """Inputs that are read, for the version of this number.

        The rows of an input must have been taken when the next one is asked for.
        """
        for taken in self.taken(number, items, before, full):
            yield taken
            self.note(taken)

    def rows(self, number: int, before: Manifest, items: Sequence[Feeding]) -> Iterator[Batch]:
        """All rows that inputs give."""
        for taken in self.read(number, before, False, items):
            yield from taken.batches()

    def taken(
        self, number: int, items: Iterable[Feeding], before: Manifest | None, full: bool
    ) -> Iterator[Taken]:
        """Inputs that are being read; raises `DataError` if one has other columns than before."""
        folder = self._store.rejects(number)
        for item in items:
            known = before.inputs.get(item.key) if before else None
            columns = check_drift(item, known, full)
            rejects = folder / file_name(f"{item.predicate}.{self.items.index(item) + 1}", "csv")
            relative = self._store.relative(rejects)
            yield Taken(item, rejects, relative, columns, item.stamps(known.files if known else {}))

    def note(self, taken: Taken) -> None:
        """Tell what was found in an input that has been read."""
        found = self.inputs[taken.item.key] = taken.input
        rejected = f", {found.rejected:,} rejected" if found.rejected else ""
        filtered = f", {found.filtered:,} filtered out" if found.filtered else ""
        self._reached("read", f"{found.shown}: {counted(found.rows, 'row')}{filtered}{rejected}")

    # ---- what becomes of it

    def feed(self, reasoner: Reasoner, number: int, before: Manifest | None, full: bool) -> None:
        """Load all that the inputs contain into a reasoner without facts."""
        self.load(reasoner, self.read(number, before, full, self.items))

    def load(self, reasoner: Reasoner, inputs: Iterable[Taken]) -> None:
        """Load inputs that are read here into a reasoner without facts."""
        for taken in inputs:
            self._note_types(reasoner, [taken.item])
            if taken.item.time:
                reasoner.load_timed(taken.item.predicate, taken.timed(self._is_integer_time))
            else:
                reasoner.load(taken.item.predicate, taken.batches())

    @staticmethod
    def _note_types(reasoner: Reasoner, items: Iterable[Feeding]) -> None:
        for item in items:
            if item.held:
                reasoner.schemas.data.restore({item.predicate: item.held})

    def replace(
        self, reasoner: Reasoner, change: Change, number: int, before: Manifest, predicates: Sequence[str]
    ) -> None:
        """Replace the explicit facts of predicates, in a transaction, by what their inputs contain."""
        self._note_types(reasoner, self.of(predicates))
        for name in predicates:
            if not self._apply_feed(change, before, name):
                always = [item for item in self.of([name]) if not item.time]
                change.replace_batches(name, self.rows(number, before, always))
        self.replace_times(change, number, before, predicates)

    def _apply_feed(self, change: Change, before: Manifest, name: str) -> bool:
        """Apply what changed in the only table that gives a predicate's facts; return whether it is known."""
        items = self.of([name])
        if not items or name in self._again:
            return False
        tables = {item.key: item.table for item in items}
        of_table = next((item for item in items if item.table is not None), items[0])
        for item in items:
            check_drift(item, before.inputs.get(item.key), False)
        feed = feed_of(
            name, tables, lambda: of_table.filter, self._program, before, of_table.marks, self._reached
        )
        if feed is None:
            return False
        feed.apply(change, name)
        self.inputs[of_table.key] = feed.input
        self._reached("read", feed.shown)
        return True

    def replace_times(self, change: Change, number: int, before: Manifest, predicates: Sequence[str]) -> None:
        """The same of facts that are given with times."""
        timed = [item for item in self.of(predicates) if item.time]
        for name in predicates:
            if name in change.program.timed:
                change.times.replaced.add(name)
        for taken in self.read(number, before, False, timed):
            for batch, times in taken.timed(self._is_integer_time):
                change.insert_timed(taken.item.predicate, batch, times)

    def of(self, predicates: Collection[str]) -> list[Feeding]:
        """The inputs of predicates."""
        return [item for item in self.items if item.predicate in predicates]

    def newest(self, key: str) -> int | None:
        """Return when the newest file of an input was written, in nanoseconds; None if it has no files."""
        found = next((item for item in self.items if item.key == key), None)
        if found is not None and found.table is not None:
            written = found.table.found.written
            return None if written is None else written * 1_000_000
        return None if found is None else max(found.times(), default=None)

    def check_rejects(self) -> None:
        """Raise `DataError` if more rows are rejected than the job allows."""
        check_rejects(self.inputs, self._settings, self._store.path)

    def differs(self, before: Mapping[str, Input]) -> bool:
        """Whether an input tells something else than before, apart from when its files were written."""
        return differs(self.inputs, before)
