"""The task's side of a derivation: Arrow batches of inputs come in, batches of outputs go out.

Imports no Spark. `stages` makes the tasks on the driver, `mapInArrow` calls them in Spark's workers. Begin
with `DerivationTask.__call__`, where one task derives everything: it reads the rows of each input, loads them
into a reasoner, asks that (`AllFacts`, `QueryAnswers`, `FactExplanation`), and yields relations as columns of
Arrow (`output_rows`). The tasks of a barrier stage do the same, each for a part of the facts, and exchange
what is new: `BarrierTask`. Last come the tasks that write and read Parquet files.

A program has no imports here, and its sandbox is closed: only `FileTarget` writes files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from secrets import token_hex
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
from tidelog.engine import exchange
from tidelog.engine.exchange import Collision, Listener, Lost
from tidelog.equality import distributed as equality
from tidelog.errors import Diagnostic, Inconsistent, TidelogError, codes
from tidelog.errors.codes import EXCHANGE_FAILED
from tidelog.io.arrow_files import read_arrow_data, wanted_columns
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import BOTTOM, Program
from tidelog.logic.type_inference import Schema
from tidelog.logic.values import ColumnType
from tidelog.reasoner.constraints import told_apart, violated
from tidelog.reasoner.explaining import MAGIC
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.storing import open_store
from tidelog.spark.strategies import MemoryLimit, MeteredBatches
from tidelog.store.forms import BatchId
from tidelog.store.json_forms import explanation_to_json
from tidelog.temporal import distributed as temporal
from tidelog.temporal.time_columns import split_batch
from tidelog.temporal.timed_relation import BOUNDS, PeriodicRelation, TimedRelation

TAG = "predicate"  # the column that says which input, or output, a row is of
NONE = ""  # the tag of a row that makes the task run even where no input has rows
NO_PREDICATE = " none"  # the tag of a row that is of no predicate
# Outputs that are no predicates: no name of a predicate begins with a space.
REJECTS, NULLS, VIOLATIONS, ERRORS, COUNTS = " rejects", " nulls", " violations", " errors", " counts"
FILES: Final = " files"  # which files were written
COLUMNS: Final = ("predicate", "file", "rows")  # the columns of `FILES`
STATE = " state"  # instead of a predicate, of the file that is the store of a task's reasoner
NULLARY: Final = "holds"  # the one column of a predicate without arguments
ROWS = 1 << 16  # of a batch that goes out
READ = 1 << 18  # rows that are converted at once when they come in …
WRITTEN = 1 << 17  # … and when they go out
ATTEMPTS = (Collision, Lost)  # errors of an attempt, not of the program or the data

EQUALITY: Final = ("equality", "unique_names")
UNREACHED: Final = (
    "tasks connect to one another, on any port: where executors cannot, "
    "leave it to one task, by `partitions=1`, or set `tidelog.strategy=joins`"
)
ExchangingTask = exchange.ExchangeTask | equality.EqualityTask | temporal.TimedTask

HIDDEN: Final = "."  # Spark skips files whose names begin so
FILE_ROWS: Final = 1 << 20  # of a row group
FILE_READ: Final = 1 << 16  # rows that are read at once


@dataclass(frozen=True)
class InputColumns:
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
            table = self._without_empty_fields(table)
        yield from read_arrow_data([table], wanted, faults)

    def _without_empty_fields(self, table: Any) -> Any:
        """Return a table of fields in which those are null that are empty, where that is a missing value."""
        for place, of in enumerate(self.types):
            texts = table.column(place)
            may_be_missing = policy(self.nulls, place) is not Nulls.REJECT
            if may_be_missing and of not in HOLD_EMPTY_TEXT and pa.types.is_string(texts.type):
                is_empty = pc.equal(pc.utf8_trim_whitespace(texts), "")
                filled = pc.if_else(is_empty, pa.scalar(None, texts.type), texts)
                table = table.set_column(place, table.field(place), filled)
        return table


@dataclass(frozen=True)
class OutputColumns:
    """Where the columns of an output lie in the rows that go out, and what they hold."""

    name: str
    predicate: str
    slots: tuple[str, ...]
    types: Schema
    times: tuple[Any, ...] = ()  # Arrow's types of the columns that say when, behind the others


class OutputRows(NamedTuple):
    """Rows of one output: its name, its columns by slot, and how many rows they have."""

    name: str
    columns: Mapping[str, Any]
    rows: int


@dataclass(frozen=True)
class DerivationTask:
    """A program, how its facts come in, and what is requested of it; sent to the workers as it is."""

    program: Program
    inputs: Mapping[str, InputColumns]
    ask: Callable[[Reasoner], Iterator[OutputRows]]
    schema: Mapping[str, Any]  # of what goes out: Arrow's types by slot, the tag aside
    special: Mapping[str, tuple[str, ...]]  # the slots of rejects, violations and errors
    on_error: OnError = OnError.FAIL
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: MemoryLimit = field(default_factory=MemoryLimit)
    target: FileTarget | None = None  # files to which facts are written, instead of going out

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of all outputs.

        An error is a row too, which raises it where an output is used: Spark would repeat a task that fails,
        and show the way through its own code.
        """
        read = MeteredBatches(batches, count_input_rows)
        yield from self.emit(self._derive(read), read)

    def _derive(self, batches: Iterable[Any]) -> Iterator[OutputRows]:
        """Load the inputs into a reasoner, and yield what is requested of it."""
        rejects = CollectedRejects(self.on_error)
        settings = {"threads": 1, "allow_read": (), "allow_write": (), **self.settings}
        state = None if self.target is None else self.target.state
        if state is None:
            reasoner = Reasoner(self.program, **settings)
        else:
            path = Path(f"{state.path}.{uuid4().hex}")
            reasoner = stored = open_store(path, self.program, later=True, **settings)
        reasoner.warn = _warned_by_the_driver
        self._load(reasoner, batches, rejects)
        yield from self.with_counts(self.ask(reasoner), rejects)
        if state is not None:
            stored.batches[state.app] = BatchId(state.app, state.number)
            stored.begin()
            stored.close()
            yield self._file_row(STATE, path.name, 0)

    def _load(self, reasoner: Reasoner, batches: Iterable[Any], rejects: CollectedRejects) -> None:
        """Insert the rows, all of a predicate at once."""
        for columns, read in self.read(batches, rejects):
            if columns.times:
                is_integer = self.program.is_integer_time
                timed = (split_batch(batch, columns.times, is_integer) for batch in read)
                reasoner.load_timed(columns.predicate, timed)
            elif columns.slots:
                reasoner.load(columns.predicate, read)
            elif any(True for _ in read):
                reasoner.insert(columns.predicate, [()])
        rejects.check()

    def read(
        self, batches: Iterable[Any], rejects: CollectedRejects
    ) -> Iterator[tuple[InputColumns, Iterator[Batch]]]:
        """Yield the rows of each input. All are read when the first ones are used."""
        parts: dict[str, list[Any]] = {}

        def rows(name: str) -> Iterator[Batch]:
            if not parts:
                parts.update(self._by_input(batches, rejects))
            if some := parts[name]:
                parts[name] = []
                yield from self._rows_of(self.inputs[name], some, rejects)

        for name, columns in self.inputs.items():
            yield columns, rows(name)

    def _by_input(self, batches: Iterable[Any], rejects: CollectedRejects) -> dict[str, list[Any]]:
        """Return the rows of each input: a row's tag is its name."""
        parts: dict[str, list[Any]] = {name: [] for name in self.inputs}
        every = sorted({slot for columns in self.inputs.values() for slot in columns.slots})
        for batch in batches:
            tags = batch.column(TAG).dictionary_encode()
            for number, tag in enumerate(tags.dictionary.to_pylist()):
                if tag == NONE:
                    continue
                slots = list(self.inputs[tag].slots) if tag in parts else every
                some = batch.select(slots) if slots else batch.select([TAG])
                some = some.filter(pc.equal(tags.indices, number))
                if tag in parts:
                    parts[tag].append(some)
                else:
                    _reject_unknown(tag, some, rejects)
        return parts

    def _rows_of(
        self, columns: InputColumns, batches: list[Any], rejects: CollectedRejects
    ) -> Iterator[Batch]:
        """Yield the rows of one input, converted."""
        if not columns.slots:
            yield Batch((), 1)
            return
        shown = self.program.predicates[columns.predicate].written
        for table in _tables_of(batches):
            yield from columns.batches(table, shown, rejects)

    def with_counts(self, outputs: Iterator[OutputRows], rejects: CollectedRejects) -> Iterator[OutputRows]:
        """Yield rows that could not be read, then the outputs, then how many rows there are of each."""
        counts = {REJECTS: len(rejects.collected)}
        if rejects.collected:
            yield self._texts(REJECTS, [list(each) for each in zip(*rejects.collected, strict=True)])
        if rejects.nulls:
            counts |= {missing(*what): rows for what, rows in rejects.nulls.items()}
            lacking = [(*what, str(rows)) for what, rows in rejects.nulls.items()]
            yield self._texts(NULLS, [list(each) for each in zip(*lacking, strict=True)])
        counted = self._counted(outputs, counts)
        yield from counted if self.target is None else self._to_files(self.target, counted)
        yield self._texts(COUNTS, [[json.dumps(counts)]])

    def _counted(self, outputs: Iterator[OutputRows], counts: dict[str, int]) -> Iterator[OutputRows]:
        """Yield the outputs, and count the rows of each."""
        for part in outputs:
            counts[part.name] = counts.get(part.name, 0) + part.rows
            yield self._texts(part.name, part.columns.values()) if part.name in self.special else part

    def _to_files(self, target: FileTarget, outputs: Iterator[OutputRows]) -> Iterator[OutputRows]:
        """Write the facts of each predicate to a file, and yield the row that says so; the rest goes out."""
        for name, parts in groupby(outputs, key=attrgetter("name")):
            if name in self.special:
                yield from parts
                continue
            rows = ((tuple(part.columns.values()), part.rows) for part in parts)
            yield from (self._file_row(name, *written) for written in target.write(name, rows))

    def _file_row(self, name: str, file: str, rows: int) -> OutputRows:
        """Return the row that says that a file was written."""
        columns = zip(self.special[FILES], (name, file, rows), strict=True)
        return OutputRows(FILES, {slot: pa.array([each]) for slot, each in columns}, 1)

    def _texts(self, name: str, columns: Iterable[Iterable[str]]) -> OutputRows:
        """Return rows of texts that are no facts."""
        arrays = [pa.array(map(str, texts), pa.string()) for texts in columns]
        return OutputRows(name, dict(zip(self.special[name], arrays, strict=True)), len(arrays[0]))

    def emit(self, outputs: Iterator[OutputRows], read: MeteredBatches, beside: int = 1) -> Iterator[Any]:
        """Yield the rows of outputs in batches, within the memory that the task may take; an error as a row.

        `beside` tasks run on this machine.
        """
        batches = (batch for part in outputs for batch in self._batches(*part))
        try:
            yield from self.limit.within(batches, read, beside)
        except TidelogError as error:
            if isinstance(error, ATTEMPTS) or error.diagnostics[0].code == EXCHANGE_FAILED:
                raise  # another attempt may succeed
            yield from self._batches(*self._texts(ERRORS, [[f"{type(error).__name__}: {error}"]]))

    def _batches(self, name: str, columns: Mapping[str, Any], rows: int) -> Iterator[Any]:
        """Yield rows of an output in batches of the schema that goes out."""
        for start in range(0, rows, ROWS):
            count = min(ROWS, rows - start)
            arrays = [pa.repeat(pa.scalar(name, pa.string()), count)]
            for slot, of in self.schema.items():
                column = columns.get(slot)
                arrays.append(pa.nulls(count, of) if column is None else column.slice(start, count).cast(of))
            yield pa.RecordBatch.from_arrays(arrays, names=[TAG, *self.schema])


@dataclass(frozen=True)
class BarrierTask:
    """What each task of a barrier stage runs: it has a part of the rows, and sends others what is new.

    The tasks learn one another's addresses by one `allGather`. If one of them is lost, Spark runs the stage
    again. `secret` and `certificate` are known to these tasks only.
    """

    task: DerivationTask
    ask: AllFacts
    count: int
    secret: bytes
    certificate: bytes | None = None

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield this task's part of the rows of all outputs."""
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        hosts = [info.address.rpartition(":")[0].strip("[]") for info in context.getTaskInfos()]
        # Seen in attempts that follow one in which some tasks had ended before others failed.
        if len(hosts) != self.count:
            raise RuntimeError(f"{len(hosts)} of {self.count} tasks were started: Spark tries again")
        # Memory is not limited yet: a task that ended before it met the others would let them wait for ever.
        mesh, attempt = self._meet(context, hosts)
        read = MeteredBatches(batches, count_input_rows)
        try:
            outputs = self._derive(read, mesh, attempt)
            yield from self.task.emit(outputs, read, hosts.count(hosts[mesh.number]))
        finally:
            mesh.close()

    def _meet(self, context: Any, hosts: Sequence[str]) -> tuple[exchange.Mesh, str]:
        """Return the connections with all other tasks, and what this attempt is called."""
        number = context.partitionId()
        listener = Listener(hosts[number])
        gathered = context.allGather(json.dumps([listener.address, token_hex(16)]))
        everywhere = [json.loads(each) for each in gathered]
        addresses, attempt = [address for address, _ in everywhere], everywhere[0][1]
        try:
            mesh = listener.join(number, addresses, self.secret, attempt, certificate=self.certificate)
        except Lost as error:
            raise Lost([replace(each, help=UNREACHED) for each in error.diagnostics]) from None
        return mesh, attempt

    def _derive(self, batches: Iterable[Any], mesh: exchange.Mesh, attempt: str) -> Iterator[OutputRows]:
        """Derive together with the other tasks, and yield this task's part of the outputs."""
        rejects = CollectedRejects(self.task.on_error)
        program = equality.by_rules(self.task.program, **self._settings(*EQUALITY))
        if BOTTOM not in program.timed:
            program = told_apart(program)
        with mesh:
            deriving = self._exchanging(program, mesh, int(attempt, 16))
            for columns, read in self.task.read(batches, rejects):
                _load_part(deriving, columns, _checked(read, rejects))
            deriving.run()
        yield from self.task.with_counts(self._outputs(deriving, program), rejects)

    def _settings(self, *names: str) -> dict[str, Any]:
        return {key: self.task.settings[key] for key in names if key in self.task.settings}

    def _exchanging(self, program: Program, mesh: exchange.Mesh, seed: int) -> ExchangingTask:
        """Return what derives this task's part, and exchanges facts with the others."""
        settings = self._settings("timeout", "max_facts")
        if program.timed:
            return temporal.TimedTask(program, mesh, seed=seed, **settings, **self._settings("time"))
        return equality.task_of(program, mesh, seed=seed, **settings, **self._settings("equal", *EQUALITY))

    def _outputs(self, deriving: ExchangingTask, program: Program) -> Iterator[OutputRows]:
        """Yield this task's part of the facts; raise the constraints that do not hold, unless kept."""
        violations = violated(program, lambda name: deriving.columns(name)[1] > 0)
        if not isinstance(deriving, exchange.ExchangeTask):
            violations = [*deriving.violations(), *violations]
        if violations and not self.ask.keeps_violations:
            raise Inconsistent(violations)
        yield from self.ask.rows(violations, deriving.relation)


def _load_part(deriving: ExchangingTask, columns: InputColumns, batches: Iterator[Batch]) -> None:
    """Give a task the rows of an input, with when they hold if it has columns that say so."""
    if columns.times:
        assert isinstance(deriving, temporal.TimedTask), "the program knows which predicates have times"
        is_integer = deriving.program.is_integer_time
        timed = (split_batch(batch, columns.times, is_integer) for batch in batches)
        deriving.load_timed(columns.predicate, timed)
    else:
        deriving.load(columns.predicate, batches)


def _checked(batches: Iterator[Batch], rejects: CollectedRejects) -> Iterator[Batch]:
    """Yield the batches, then raise if rows could not be read: what loads them notifies the other tasks."""
    yield from batches
    rejects.check()


def count_input_rows(batch: Any) -> int:
    """Return how many rows of a batch are rows of inputs."""
    others = pc.sum(pc.equal(batch.column(TAG), NONE)).as_py() or 0
    return int(batch.num_rows - others)


def missing(predicate: str, column: str, done: str) -> str:
    """Return the name of how many rows lack the value of a column, and what was done about it."""
    return f"{predicate}.{column} {done}"


def _warned_by_the_driver(warnings: object) -> None:
    """Ignore what never matches: the call that made the task has warned of it."""


def _tables_of(batches: list[Any]) -> Iterator[Any]:
    """Yield tables of some batches each, and drop these: what was read is not held twice for long."""
    batches.reverse()
    while batches:
        some, rows = [], 0
        while batches and rows < READ:
            some.append(batches.pop())
            rows += some[-1].num_rows
        yield pa.Table.from_batches(some)


class CollectedRejects(RejectedRows):
    """Rows that cannot be read, kept in memory: the predicate, code, reason and the row."""

    def __init__(self, on_error: OnError) -> None:
        super().__init__(
            on_error, advice='`on_error="skip"` skips such rows, `"collect"` returns them in `rejects`'
        )
        self.collected: list[tuple[str, str, str, str]] = []

    def add(self, row: BadRow) -> None:
        """Add a row, by its predicate and its values: its place among the rows of the input is not known."""
        fault = row.diagnostic
        place = (fault.place or "").split(":")[0]
        message = f"{fault.message}: {row.text}" if self.on_error is OnError.FAIL else fault.message
        super().add(BadRow(replace(fault, place=place, message=message), row.text, row.missing))

    def _write(self, row: BadRow) -> None:
        fault = row.diagnostic
        self.collected.append((fault.place or "", fault.code, fault.message, row.text))


def _reject_unknown(tag: str, rows: Any, rejects: CollectedRejects) -> None:
    """Reject rows of a shared frame that are of none of its predicates."""
    what = "there is no predicate" if tag == NO_PREDICATE else f"`{tag}` is not one of its predicates"
    fault = Diagnostic(codes.NO_SUCH_PREDICATE, f"{what} (column `{TAG}`)", place="a shared frame")
    for row in rows.to_pylist():
        values = [value for value in row.values() if value is not None]
        rejects.add(BadRow(fault, json.dumps(values, ensure_ascii=False, default=str)))


@dataclass(frozen=True)
class AllFacts:
    """All facts of predicates; with the constraints that do not hold, unless these are an error."""

    outputs: tuple[OutputColumns, ...]
    keeps_violations: bool = False

    def __call__(self, reasoner: Reasoner) -> Iterator[OutputRows]:
        """Yield the facts, predicate by predicate."""
        violations: Sequence[Diagnostic] = ()
        try:
            reasoner.materialise()
        except Inconsistent as error:
            if not self.keeps_violations:
                raise
            violations = error.diagnostics
        yield from self.rows(violations, reasoner.__getitem__)

    def rows(
        self, violations: Sequence[Diagnostic], relation_of: Callable[[str], Relation]
    ) -> Iterator[OutputRows]:
        """Yield the constraints that do not hold, and the facts of each predicate."""
        if violations:
            texts = {
                "code": [each.code for each in violations],
                "message": [each.message for each in violations],
            }
            yield OutputRows(VIOLATIONS, texts, len(violations))
        for output in self.outputs:
            yield from output_rows(relation_of(output.predicate), output)


@dataclass(frozen=True)
class QueryAnswers:
    """The answers to a query."""

    query: str
    output: OutputColumns

    def __call__(self, reasoner: Reasoner) -> Iterator[OutputRows]:
        """Yield the answers."""
        yield from output_rows(reasoner.query(self.query), self.output)


@dataclass(frozen=True)
class FactExplanation:
    """Why a fact holds, as one row of JSON; only what the fact asks for is derived."""

    fact: str
    options: Mapping[str, Any]
    slot: str

    def __call__(self, reasoner: Reasoner) -> Iterator[OutputRows]:
        """Yield the explanation."""
        explained = reasoner.explain(self.fact, strategy=MAGIC, **self.options)
        form = json.dumps(explanation_to_json(explained, reasoner.program), separators=(",", ":"))
        yield OutputRows("explanation", {self.slot: pa.array([form], pa.string())}, 1)


def output_rows(relation: Relation, output: OutputColumns) -> Iterator[OutputRows]:
    """Yield the rows of a relation in columns of the output's types, some rows at a time.

    Values take much more memory than the ids that represent them, so that not all exist at once. There is
    one part at least, which may have no rows.
    """
    count = len(output.types)
    if isinstance(relation, TimedRelation):
        ids = relation.each(lambda place, _, ids: ids)
        arguments = dict(zip(output.slots, _arguments(relation, ids, output), strict=False))
        times = zip(output.slots[count:], _times(relation, output.times), strict=True)
        yield OutputRows(output.name, arguments | dict(times), len(relation))
        return
    if not count:  # one column says that it holds
        yield OutputRows(output.name, {output.slots[0]: pa.array([True] * len(relation))}, len(relation))
        return
    coded = relation.coded
    # The time to decode some rows grows with the dictionary, too: so there are not many times as few rows.
    most = max(WRITTEN, len(coded.dictionary) // 4)
    for first in range(0, max(coded.rows, 1), most):
        rows = min(most, coded.rows - first)
        ids = [column[first : first + rows] for column in coded.columns]
        yield OutputRows(
            output.name, dict(zip(output.slots, _arguments(relation, ids, output), strict=False)), rows
        )


def _arguments(relation: Relation, ids: Iterable[Any], output: OutputColumns) -> Iterator[Any]:
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


@dataclass(frozen=True)
class StateFolder:
    """Where a task writes the store of its reasoner, and which transaction of which application it is."""

    path: str  # what follows this name is different for each attempt
    app: str
    number: int


@dataclass(frozen=True)
class FileTarget:
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

    def file_of(self, predicate: str) -> OutputFile:
        """Return a new file of a predicate."""
        folder, schema = self.folder_of(predicate), self.schemas[predicate]
        return OutputFile(folder, schema, self.run, self.prefix, self.filesystem)

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


class OutputFile:
    """A Parquet file that is being written. Mutable."""

    def __init__(self, folder: str, schema: Any, run: str, prefix: str, filesystem: Any) -> None:
        if isinstance(filesystem, pafs.LocalFileSystem):  # others have no folders
            filesystem.create_dir(folder, recursive=True)
        self.name = f"{prefix}part-{run}-{uuid4().hex}.parquet"
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
        """Remove the file; one that cannot be removed is never named."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._filesystem.delete_file(self._path)


@dataclass(frozen=True)
class WriteRows:
    """What a task does that writes rows which another stage has: rows in, the names of files out."""

    target: FileTarget
    tag: str  # the column that says of which predicate a row is
    columns: Mapping[str, tuple[str, ...]]  # of each predicate, among those of the rows

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield a row for each file: one for each predicate that has rows."""
        files: dict[str, OutputFile] = {}
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
