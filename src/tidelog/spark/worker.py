"""What runs in a Spark task: rows of all inputs come in, and those of all outputs go out, as rows or
Parquet files.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidelog.data.columns import HOLD_EMPTY_TEXT, Batch, policy
from tidelog.data.relation import Relation, misfit_error
from tidelog.data.typed_columns import Misfit, to_typed
from tidelog.durable import replacing_text
from tidelog.engine.exchange import Collision, Lost
from tidelog.errors import Diagnostic, Inconsistent, TidelogError, codes
from tidelog.errors.codes import EXCHANGE_FAILED
from tidelog.io.arrow_files import read_arrow_data, wanted_columns
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import Program
from tidelog.logic.type_inference import Schema
from tidelog.logic.values import ColumnType
from tidelog.reasoner.explaining import MAGIC
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.storing import open_store
from tidelog.spark.strategies import Limit, Metered
from tidelog.store.forms import BatchId
from tidelog.store.json_forms import explanation_to_json
from tidelog.temporal.time_columns import split_batch
from tidelog.temporal.timed_relation import BOUNDS, PeriodicRelation, TimedRelation

# ---- Parquet files that tasks write: a folder for each predicate, and names that readers skip.
#
# They lie on a disk, or where else a file system of Arrow reaches; Spark's own need not. Knows no Spark.

HIDDEN: Final = "."  # Spark skips files whose names begin so
FILES: Final = " files"  # the output that says which files were written; no predicate is called so
COLUMNS: Final = ("predicate", "file", "rows")  # its columns
MANIFEST: Final = "_manifest.json"  # skipped, too
FILE_ROWS: Final = 1 << 20  # of a row group
FILE_READ: Final = 1 << 16  # rows that are read at once


@dataclass(frozen=True)
class StateFolder:
    """Where a task writes the store of its reasoner, and which transaction of which application it is."""

    path: str  # what follows this name is different for each attempt
    app: str
    number: int


@dataclass(frozen=True)
class Target:
    """Where the files of one run go, and the schema of each predicate.

    They are hidden until a last task has renamed them, unless a log of commits says which files count. With a
    `state`, a task that holds all facts writes the store of its reasoner there, too.
    """

    folder: str
    run: str  # by which the files of this run are known, those too that a failed task leaves behind
    schemas: Mapping[str, Any]  # Arrow's, by predicate
    prefix: str = HIDDEN
    rows: int | None = None  # most rows of a file
    state: StateFolder | None = None
    folders: Mapping[str, str] = field(default_factory=dict)  # of predicates, if not below `folder`
    filesystem: Any = field(default_factory=pafs.LocalFileSystem, repr=False)  # Arrow's; may have secrets

    def folder_of(self, predicate: str) -> str:
        """Return the folder of a predicate, as the file system takes it."""
        found = self.folders.get(predicate)
        return str(Path(self.folder, quote(predicate, safe=" "))) if found is None else found

    def remove_unfinished(self) -> None:
        """Remove files of this run that are not read: of tasks that died, or that Spark ran twice."""
        for predicate in self.schemas:
            for left in Path(self.folder_of(predicate)).glob(f"{HIDDEN}part-{self.run}-*"):
                left.unlink(missing_ok=True)

    def file_of(self, predicate: str) -> File:
        """Return a new file of a predicate."""
        folder, schema = self.folder_of(predicate), self.schemas[predicate]
        return File(folder, schema, self.run, self.prefix, self.filesystem)

    def write(self, predicate: str, parts: Iterable[tuple[Sequence[Any], int]]) -> Iterator[tuple[str, int]]:
        """Write columns and their rows after others; yield the name of each file and its rows.

        A file has at most `rows` rows, if that is said.
        """
        file = self.file_of(predicate)
        try:
            for columns, rows in parts:
                for start in range(0, max(rows, 1), self.rows or max(rows, 1)):
                    if self.rows is not None and file.rows + min(rows - start, self.rows) > self.rows:
                        yield file.close(), file.rows
                        file = self.file_of(predicate)
                    count = rows - start if self.rows is None else min(self.rows, rows - start)
                    file.write([column.slice(start, count) for column in columns], count)
            yield file.close(), file.rows
        except BaseException:
            file.remove()
            raise


class File:
    """A Parquet file that is being written. Mutable."""

    def __init__(self, folder: str, schema: Any, run: str, prefix: str, filesystem: Any) -> None:
        if isinstance(filesystem, pafs.LocalFileSystem):  # others have no folders
            filesystem.create_dir(folder, recursive=True)
        self.name = f"{prefix}part-{run}-{uuid.uuid4().hex}.parquet"
        self.schema = schema
        self.rows = 0
        self._path, self._filesystem = f"{folder}/{self.name}", filesystem
        self._writer = pq.ParquetWriter(self._path, schema, compression="snappy", filesystem=filesystem)

    def write(self, columns: Sequence[Any], rows: int) -> None:
        """Write rows, converted to the types of the schema."""
        arrays = [column.cast(field.type) for column, field in zip(columns, self.schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema), row_group_size=FILE_ROWS)
        self.rows += rows

    def close(self) -> str:
        """Complete the file, and return its name."""
        self._writer.close()
        return self.name

    def remove(self) -> None:
        """Remove the file; one that cannot be removed is named by nobody."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._filesystem.delete_file(self._path)


@dataclass(frozen=True)
class Commit:
    """What the last task of a write does: it gives files their names, and says which there are.

    Spark may run it twice, or again after it has failed at any point: what is done already is left so.
    """

    target: Target
    is_overwriting: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows that name files, once all files have their names."""
        target = self.target
        written = [tuple(row[name] for name in COLUMNS) for batch in batches for row in batch.to_pylist()]
        before = self._files_before()
        files = {} if self.is_overwriting else {name: dict(each) for name, each in before.items()}
        empty = {name for name in target.schemas if not files.get(name)} - {name for name, _, _ in written}
        for name in sorted(empty):  # it has a schema, too
            no_values = [pa.array([], field.type) for field in target.schemas[name]]
            written += [(name, *each) for each in target.write(name, [(no_values, 0)])]
        for name, hidden, rows in written:
            place = Path(target.folder_of(name), hidden)
            final = place.with_name(hidden.removeprefix(HIDDEN))
            with suppress(FileNotFoundError):  # it has its name
                place.rename(final)
            if not final.exists():
                raise FileNotFoundError(f"{final}: a file that a task has written is not there")
            files.setdefault(name, {})[final.name] = rows
        with replacing_text(Path(target.folder, MANIFEST)) as stream:
            stream.write(json.dumps({"files": files}, indent=1, ensure_ascii=False).encode())
        for name, old in before.items() if self.is_overwriting else ():
            for file in old.keys() - files.get(name, {}).keys():
                Path(target.folder_of(name), file).unlink(missing_ok=True)
        target.remove_unfinished()
        if written:
            columns = map(list, zip(*written, strict=True))
            yield pa.RecordBatch.from_pydict(dict(zip(COLUMNS, columns, strict=True)))

    def _files_before(self) -> dict[str, dict[str, int]]:
        try:
            manifest = json.loads(Path(self.target.folder, MANIFEST).read_bytes())
        except FileNotFoundError:
            return {}
        found: dict[str, dict[str, int]] = manifest["files"]
        return found


@dataclass(frozen=True)
class Abort:
    """What a task does when a write has failed."""

    target: Target

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Remove the files that have no names yet; yields nothing."""
        for _ in batches:
            pass
        self.target.remove_unfinished()
        yield from ()


@dataclass(frozen=True)
class WriteRows:
    """What a task does that writes rows which another stage has: rows in, the names of files out."""

    target: Target
    tag: str  # the column that says of which predicate a row is
    columns: Mapping[str, tuple[str, ...]]  # of each predicate, among those of the rows

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield a row for each file: one for each predicate that has rows."""
        files: dict[str, File] = {}
        try:
            for batch in batches:
                tags = batch.column(self.tag)
                for name in pc.unique(tags).to_pylist():
                    some = batch.filter(pc.equal(tags, name))
                    if name not in files:
                        files[name] = self.target.file_of(name)
                    files[name].write(some.select(list(self.columns[name])).columns, some.num_rows)
            closed = [(name, file.close(), file.rows) for name, file in files.items()]
        except BaseException:
            for file in files.values():
                file.remove()
            raise
        if closed:
            columns = zip(*closed, strict=True)
            yield pa.RecordBatch.from_pydict(
                {key: list(each) for key, each in zip(COLUMNS, columns, strict=True)}
            )


@dataclass(frozen=True)
class ReadFiles:
    """What a task does that reads files: the places of some among all in, their rows out."""

    paths: Sequence[str]
    schema: Any  # Arrow's
    filesystem: Any = field(repr=False)  # Arrow's; may have secrets

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of the files, in the types of the schema."""
        for place in (place for batch in batches for place in batch.column(0).to_pylist()):
            with self.filesystem.open_input_file(self.paths[place]) as stream:
                file = pq.ParquetFile(stream, pre_buffer=True)
                for rows in file.iter_batches(FILE_READ, columns=self.schema.names):
                    columns = [rows.column(each.name).cast(each.type) for each in self.schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


# ---- What runs in a Spark task: rows of all inputs come in, and those of all outputs go out. Knows no Spark.
#
# Nothing here reads or writes a file: the program has no imports, and its sandbox is closed.

TAG = "predicate"
# Outputs that are no predicates: no name of a predicate begins with a space.
REJECTS, NULLS, VIOLATIONS, ERRORS, COUNTS = " rejects", " nulls", " violations", " errors", " counts"
STATE = " state"  # instead of a predicate, of the file that is the store of a task's reasoner
NONE = ""  # the tag of a row that is there so that the task runs even where no input has rows
NO_PREDICATE = " none"  # the tag of a row that is of no predicate
ROWS = 1 << 16  # of a batch that goes out
READ = 1 << 18  # rows that are converted at once when they come in …
WRITTEN = 1 << 17  # … and when they go out
ATTEMPTS = (Collision, Lost)  # errors of an attempt, not of the program or the data


@dataclass(frozen=True)
class Reading:
    """Where the arguments of a predicate lie in the rows that come in, and how they are read.

    Behind the arguments are columns that say when, of these names.
    """

    predicate: str
    slots: tuple[str, ...]
    types: tuple[ColumnType, ...]
    names: tuple[str, ...]
    times: tuple[str, ...] = ()
    are_fields: bool = False  # texts as files have them, which may be numbers
    nulls: tuple[Nulls, ...] = ()

    def batches(self, table: Any, shown: str, faults: RejectedRows) -> Iterator[Batch]:
        """Yield the rows of a table of these columns; those that cannot be read are given to `faults`."""
        table = table.rename_columns(list(self.names))
        types = (*self.types, *(ColumnType.ANY for _ in self.times))
        wanted = wanted_columns(table.schema, types, (), shown)
        wanted = replace(wanted, times=len(self.times), nulls=self.nulls)
        if self.are_fields:
            marks = tuple(of if of is ColumnType.ANY else None for of in types)
            wanted = replace(wanted, marks=marks)
            table = with_missing(table, self.types, self.nulls)
        yield from read_arrow_data([table], wanted, faults)


@dataclass(frozen=True)
class Writing:
    """Where the columns of an output lie in the rows that go out, and what they hold."""

    name: str
    predicate: str
    slots: tuple[str, ...]
    types: Schema
    times: tuple[Any, ...] = ()  # Arrow's types of the columns that say when, behind the others


class Part(NamedTuple):
    """Rows of one output: its name, its columns by slot, and how many rows they have."""

    name: str
    columns: Mapping[str, Any]
    rows: int


@dataclass(frozen=True)
class Task:
    """A program, how its facts come in, and what is asked of it; sent to the workers as it is."""

    program: Program
    inputs: Mapping[str, Reading]
    ask: Callable[[Reasoner], Iterator[Part]]
    schema: Mapping[str, Any]  # of what goes out: Arrow's types by slot, the tag aside
    special: Mapping[str, tuple[str, ...]]  # the slots of rejects, violations and errors
    on_error: OnError = OnError.FAIL
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: Limit = field(default_factory=Limit)
    target: Target | None = None  # files to which facts are written, instead of going out

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of all outputs.

        An error is a row too, which raises it where an output is used: Spark would repeat a task that fails,
        and show the way through its own code.
        """
        read = Metered(batches, given_rows)
        yield from self.rows(self._parts(read), read)

    def rows(self, parts: Iterator[Part], read: Metered, beside: int = 1) -> Iterator[Any]:
        """Yield the rows of outputs in batches, an error as a row; `beside` tasks run on this machine."""
        made = (batch for part in parts for batch in self._batches(*part))
        try:
            yield from self.limit.within(made, read, beside)
        except TidelogError as error:
            if isinstance(error, ATTEMPTS) or error.diagnostics[0].code == EXCHANGE_FAILED:
                raise  # another attempt may succeed
            yield from self._batches(*self._texts(ERRORS, [[f"{type(error).__name__}: {error}"]]))

    def shown(self, faults: Collected, parts: Iterator[Part]) -> Iterator[Part]:
        """Yield rows that could not be read, then what was asked, then how many rows there are of each."""
        counts = {REJECTS: len(faults.collected)}
        if faults.collected:
            yield self._texts(REJECTS, [list(each) for each in zip(*faults.collected, strict=True)])
        if faults.nulls:
            counts |= {missing(*what): rows for what, rows in faults.nulls.items()}
            told = [(*what, str(rows)) for what, rows in faults.nulls.items()]
            yield self._texts(NULLS, [list(each) for each in zip(*told, strict=True)])
        asked = self._counted(parts, counts)
        yield from asked if self.target is None else self._filed(self.target, asked)
        yield self._texts(COUNTS, [[json.dumps(counts)]])

    def _counted(self, parts: Iterator[Part], counts: dict[str, int]) -> Iterator[Part]:
        """Yield the parts, and count the rows of each output."""
        for part in parts:
            counts[part.name] = counts.get(part.name, 0) + part.rows
            yield self._texts(part.name, part.columns.values()) if part.name in self.special else part

    def _filed(self, target: Target, parts: Iterator[Part]) -> Iterator[Part]:
        """Write the facts of each predicate to a file, and yield the row that says so; the rest goes out."""
        for name, several in groupby(parts, key=attrgetter("name")):
            if name in self.special:
                yield from several
                continue
            rows = ((tuple(part.columns.values()), part.rows) for part in several)
            yield from (self._file(name, *written) for written in target.write(name, rows))

    def _file(self, name: str, file: str, rows: int) -> Part:
        """Return the row that says that a file was written."""
        columns = zip(self.special[FILES], (name, file, rows), strict=True)
        return Part(FILES, {slot: pa.array([each]) for slot, each in columns}, 1)

    def _parts(self, batches: Iterable[Any]) -> Iterator[Part]:
        faults = Collected(self.on_error)
        settings = {"threads": 1, "allow_read": (), "allow_write": (), **self.settings}
        state = None if self.target is None else self.target.state
        if state is None:
            reasoner = Reasoner(self.program, **settings)
        else:
            path = Path(f"{state.path}.{uuid4().hex}")
            reasoner = stored = open_store(path, self.program, later=True, **settings)
        reasoner.warn = _told_by_the_driver
        self._load(reasoner, batches, faults)
        yield from self.shown(faults, self.ask(reasoner))
        if state is not None:
            stored.batches[state.app] = BatchId(state.app, state.number)
            stored.begin()
            stored.close()
            yield self._file(STATE, path.name, 0)

    # ---- in

    def _load(self, reasoner: Reasoner, batches: Iterable[Any], faults: Collected) -> None:
        """Insert the rows, all of a predicate at once."""
        for reading, read in self.read(batches, faults):
            if reading.times:
                is_integer = self.program.is_integer_time
                timed = (split_batch(batch, reading.times, is_integer) for batch in read)
                reasoner.load_timed(reading.predicate, timed)
            elif reading.slots:
                reasoner.load(reading.predicate, read)
            elif any(True for _ in read):
                reasoner.insert(reading.predicate, [()])
        faults.check()

    def read(self, batches: Iterable[Any], faults: Collected) -> Iterator[tuple[Reading, Iterator[Batch]]]:
        """Yield the rows of each input. All are read when the first ones are used."""
        parts: dict[str, list[Any]] = {}

        def rows(name: str) -> Iterator[Batch]:
            if not parts:
                parts.update(self._by_input(batches, faults))
            if some := parts[name]:
                parts[name] = []
                yield from self._batches_of(self.inputs[name], some, faults)

        for name, reading in self.inputs.items():
            yield reading, rows(name)

    def _by_input(self, batches: Iterable[Any], faults: Collected) -> dict[str, list[Any]]:
        """Return the rows of each input: a row's tag is its name."""
        parts: dict[str, list[Any]] = {name: [] for name in self.inputs}
        for batch in batches:
            tags = batch.column(TAG).dictionary_encode()
            for number, tag in enumerate(tags.dictionary.to_pylist()):
                if tag == NONE:
                    continue
                slots = list(self.inputs[tag].slots) if tag in parts else list(self._in_slots)
                some = batch.select(slots) if slots else batch.select([TAG])
                some = some.filter(pc.equal(tags.indices, number))
                if tag in parts:
                    parts[tag].append(some)
                else:
                    self._refuse(tag, some, faults)
        return parts

    @property
    def _in_slots(self) -> list[str]:
        return sorted({slot for reading in self.inputs.values() for slot in reading.slots})

    def _refuse(self, tag: str, rows: Any, faults: Collected) -> None:
        """Give rows of a shared frame to `faults` that are of none of its predicates."""
        what = "there is no predicate" if tag == NO_PREDICATE else f"`{tag}` is none of its predicates"
        fault = Diagnostic(codes.NO_SUCH_PREDICATE, f"{what} (column `{TAG}`)", place="a shared frame")
        for row in rows.to_pylist():
            values = [value for value in row.values() if value is not None]
            faults.add(BadRow(fault, json.dumps(values, ensure_ascii=False, default=str)))

    def _batches_of(self, reading: Reading, parts: list[Any], faults: Collected) -> Iterator[Batch]:
        if not reading.slots:
            yield Batch((), 1)
            return
        shown = self.program.predicates[reading.predicate].written
        for table in _taken(parts):
            yield from reading.batches(table, shown, faults)

    # ---- out

    def _texts(self, name: str, columns: Iterable[Iterable[str]]) -> Part:
        """Return rows of texts that are no facts."""
        arrays = [pa.array(map(str, texts), pa.string()) for texts in columns]
        return Part(name, dict(zip(self.special[name], arrays, strict=True)), len(arrays[0]))

    def _batches(self, name: str, columns: Mapping[str, Any], rows: int) -> Iterator[Any]:
        """Yield the rows in batches of the schema that goes out."""
        for start in range(0, rows, ROWS):
            count = min(ROWS, rows - start)
            arrays = [pa.repeat(pa.scalar(name, pa.string()), count)]
            for slot, wanted in self.schema.items():
                held = columns.get(slot)
                part = pa.nulls(count, wanted) if held is None else held.slice(start, count).cast(wanted)
                arrays.append(part)
            yield pa.RecordBatch.from_arrays(arrays, names=[TAG, *self.schema])


def given_rows(batch: Any) -> int:
    """Return how many rows of a batch are rows of inputs."""
    others = pc.sum(pc.equal(batch.column(TAG), NONE)).as_py() or 0
    return int(batch.num_rows - others)


def missing(predicate: str, column: str, done: str) -> str:
    """Return the name of how many rows lack the value of a column, and what was done about it."""
    return f"{predicate}.{column} {done}"


def with_missing(table: Any, types: Sequence[ColumnType], nulls: Sequence[Nulls]) -> Any:
    """Return a table of fields without those that are empty where that means a missing value."""
    for place, of in enumerate(types):
        texts = table.column(place)
        is_said = policy(tuple(nulls), place) is not Nulls.REJECT
        if is_said and of not in HOLD_EMPTY_TEXT and pa.types.is_string(texts.type):
            is_empty = pc.equal(pc.utf8_trim_whitespace(texts), "")
            filled = pc.if_else(is_empty, pa.scalar(None, texts.type), texts)
            table = table.set_column(place, table.field(place), filled)
    return table


def _told_by_the_driver(doubts: object) -> None:
    """Say nothing: the call that made the task has warned of what never matches."""


def _taken(parts: list[Any]) -> Iterator[Any]:
    """Yield tables of some batches each, and drop these: what was read is not held twice for long."""
    parts.reverse()
    while parts:
        some, rows = [], 0
        while parts and rows < READ:
            some.append(parts.pop())
            rows += some[-1].num_rows
        yield pa.Table.from_batches(some)


class Collected(RejectedRows):
    """Rows that cannot be read, kept in memory: the predicate, code, reason and the row."""

    def __init__(self, on_error: OnError) -> None:
        super().__init__(
            on_error, advice='`on_error="skip"` leaves such rows out, `"collect"` has them in `rejects`'
        )
        self.collected: list[tuple[str, str, str, str]] = []

    def add(self, row: BadRow) -> None:
        """Note a row, by its predicate and its values: where it stood among others is known to nobody."""
        fault = row.diagnostic
        place = (fault.place or "").split(":")[0]
        message = f"{fault.message}: {row.text}" if self.on_error is OnError.FAIL else fault.message
        super().add(BadRow(replace(fault, place=place, message=message), row.text, row.missing))

    def _write(self, row: BadRow) -> None:
        fault = row.diagnostic
        self.collected.append((fault.place or "", fault.code, fault.message, row.text))


# ---- what is asked


@dataclass(frozen=True)
class Everything:
    """All facts of predicates; with the constraints that do not hold, unless these are an error."""

    outputs: tuple[Writing, ...]
    keeps_violations: bool = False

    def __call__(self, reasoner: Reasoner) -> Iterator[Part]:
        """Yield the facts, predicate by predicate."""
        try:
            reasoner.materialise()
        except Inconsistent as found:
            if not self.keeps_violations:
                raise
            faults = found.diagnostics
            texts = {"code": [fault.code for fault in faults], "message": [fault.message for fault in faults]}
            yield Part(VIOLATIONS, texts, len(faults))
        for output in self.outputs:
            yield from written(reasoner[output.predicate], output)


@dataclass(frozen=True)
class Answers:
    """The answers to a query."""

    query: str
    output: Writing

    def __call__(self, reasoner: Reasoner) -> Iterator[Part]:
        """Yield the answers."""
        yield from written(reasoner.query(self.query), self.output)


def written(relation: Relation, output: Writing) -> Iterator[Part]:
    """Yield the rows of a relation in columns of the output's types, some rows at a time.

    Values take much more memory than the ids that stand for them, so that not all are there at once. There is
    one part at least, which may have no rows.
    """
    count = len(output.types)
    if isinstance(relation, TimedRelation):
        ids = relation.each(lambda place, _, ids: ids)
        arguments = dict(zip(output.slots, _arguments(relation, ids, output), strict=False))
        times = zip(output.slots[count:], _times(relation, output.times), strict=True)
        yield Part(output.name, arguments | dict(times), len(relation))
        return
    if not count:  # one column says that it holds
        yield Part(output.name, {output.slots[0]: pa.array([True] * len(relation))}, len(relation))
        return
    coded = relation.coded
    # The time to decode some rows grows with the dictionary, too: so there are not many times as few rows.
    most = max(WRITTEN, len(coded.dictionary) // 4)
    for first in range(0, max(coded.rows, 1), most):
        rows = min(most, coded.rows - first)
        ids = [column[first : first + rows] for column in coded.columns]
        yield Part(
            output.name, dict(zip(output.slots, _arguments(relation, ids, output), strict=False)), rows
        )


def _arguments(relation: Relation, ids: Iterable[Any], output: Writing) -> Iterator[Any]:
    """Yield columns of ids as columns of values."""
    for column, types, name in zip(ids, output.types, relation.columns, strict=False):
        try:
            yield to_typed(relation.coded.dictionary, column, types)
        except Misfit as misfit:
            raise misfit_error(misfit, name, output.name, types) from None


def _times(relation: TimedRelation, types: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the columns that say when: start, end, whether these are left out, and the period."""
    are_texts = pa.types.is_string(types[0])
    for array, of in zip(relation.bounds(are_texts), types, strict=False):
        yield array.cast(of)
    if len(types) > len(BOUNDS):
        if isinstance(relation, PeriodicRelation):
            yield relation.periods().cast(types[-1])
        else:
            yield pa.nulls(len(relation), types[-1])


# ---- explanations


@dataclass(frozen=True)
class Proofs:
    """Why a fact holds, as one row of JSON; only what the fact asks for is derived."""

    fact: str
    options: Mapping[str, Any]
    slot: str

    def __call__(self, reasoner: Reasoner) -> Iterator[Part]:
        """Yield the explanation."""
        explained = reasoner.explain(self.fact, strategy=MAGIC, **self.options)
        form = json.dumps(explanation_to_json(explained, reasoner.program), separators=(",", ":"))
        yield Part("explanation", {self.slot: pa.array([form], pa.string())}, 1)
