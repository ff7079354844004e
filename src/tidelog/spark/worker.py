"""The task's side of a derivation: from Arrow batches of inputs to batches of outputs.

Imports no Spark. `stages` makes the tasks on the driver, `mapInArrow` calls them in Spark's workers. Begin
with `DerivationTask.__call__`, where one task derives everything: it reads the rows of inputs, loads them
into a reasoner, evaluates the request (`AllFacts`, `QueryAnswers`, `FactExplanation`), and yields relations
as columns of Arrow (`output_rows`). The tasks of a barrier stage do so for a part of the facts each, and
exchange new facts: `BarrierTask`. Last come the tasks that write and read Parquet files.

A program has no imports here, and its sandbox is closed: only `FileTarget` writes files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain, groupby
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
from tidelog.engine.missing_values import missing_columns
from tidelog.equality import distributed as equality
from tidelog.errors import Diagnostic, Inconsistent, TidelogError, codes
from tidelog.errors.codes import EXCHANGE_FAILED
from tidelog.io.arrow_files import read_arrow_data, wanted_columns
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic.import_options import Nulls, null_counter
from tidelog.logic.program import BOTTOM, Program
from tidelog.logic.type_inference import Schema
from tidelog.logic.values import ColumnType
from tidelog.reasoner.constraints import told_apart, violated
from tidelog.reasoner.explaining import MAGIC
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.storing import open_store
from tidelog.records import dataclass
from tidelog.spark.strategies import MemoryLimit, MeteredBatches
from tidelog.store.forms import BatchId
from tidelog.store.json_forms import explanation_to_json
from tidelog.temporal import distributed as temporal
from tidelog.temporal.time_columns import split_batch
from tidelog.temporal.timed_relation import BOUNDS, PeriodicRelation, TimedRelation

TAG = "predicate"  # the column with the input, or output, of a row
NONE = ""  # the tag of a row that makes the task run even if no input has rows
NO_PREDICATE = " none"  # the tag of a row without a predicate
# Outputs that are no predicates: no name of a predicate begins with a space.
REJECTS, NULLS, VIOLATIONS, ERRORS, COUNTS = " rejects", " nulls", " violations", " errors", " counts"
MISSING: Final = " missing"  # rows that were dropped because a function had no value
FILES: Final = " files"  # the written files
COLUMNS: Final = ("predicate", "file", "rows")  # the columns of `FILES`
STATE = " state"  # in place of a predicate, for the store of a task's reasoner
NULLARY: Final = "holds"  # the one column of a predicate without arguments
ROWS = 1 << 16  # of a batch of outputs
READ = 1 << 18  # rows of inputs that are converted at once …
WRITTEN = 1 << 17  # … and of outputs
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
    """The slots of a predicate's arguments in rows of inputs, and how they are read.

    After the arguments come the columns of times, with these names.
    """

    predicate: str
    slots: tuple[str, ...]
    types: tuple[ColumnType, ...]
    names: tuple[str, ...]
    times: tuple[str, ...] = ()
    are_fields: bool = False  # texts of a file, which may be numbers
    nulls: tuple[Nulls, ...] = ()

    def batches(self, table: Any, label: str, faults: RejectedRows) -> Iterator[Batch]:
        """Yield the rows of a table of these columns; those that cannot be read go to `faults`."""
        table = table.rename_columns(list(self.names))
        types = (*self.types, *(ColumnType.ANY for _ in self.times))
        request = wanted_columns(table.schema, types, (), label)
        request = replace(request, times=len(self.times), nulls=self.nulls)
        if self.are_fields:
            marks = tuple(of if of is ColumnType.ANY else None for of in types)
            request = replace(request, marks=marks)
            table = self._without_empty_fields(table)
        yield from read_arrow_data([table], request, faults)

    def _without_empty_fields(self, table: Any) -> Any:
        """Return a table of fields, with null for empty ones in columns where these are missing values."""
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
    """The slots and types of the columns of an output."""

    name: str
    predicate: str
    slots: tuple[str, ...]
    types: Schema
    times: tuple[Any, ...] = ()  # Arrow's types of the columns of times, after the others


class OutputRows(NamedTuple):
    """Rows of one output: its name, its columns by slot, and how many rows they have."""

    name: str
    columns: Mapping[str, Any]
    rows: int


@dataclass(frozen=True)
class DerivationTask:
    """A program, how its inputs are read, and the request to it; pickled for the workers."""

    program: Program
    inputs: Mapping[str, InputColumns]
    ask: Callable[[Reasoner], Iterator[OutputRows]]
    schema: Mapping[str, Any]  # of the rows of outputs: Arrow's types by slot, without the tag
    special: Mapping[str, tuple[str, ...]]  # the slots of rejects, violations and errors
    on_error: OnError = OnError.FAIL
    settings: Mapping[str, Any] = field(default_factory=dict)
    limit: MemoryLimit = field(default_factory=MemoryLimit)
    target: FileTarget | None = None  # to write facts to files instead of returning them

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of all outputs.

        An error is also a row, which raises it where an output is used: Spark would repeat a failed task, and
        show a traceback through its own code.
        """
        metered = MeteredBatches(batches, count_input_rows)
        yield from self.emit(self._derive(metered), metered)

    def _derive(self, batches: Iterable[Any]) -> Iterator[OutputRows]:
        """Load the inputs into a reasoner, and yield the requested rows."""
        rejects = CollectedRejects(self.on_error)
        settings = {"threads": 1, "allow_read": (), "allow_write": (), **self.settings}
        state = None if self.target is None else self.target.state
        if state is None:
            reasoner = Reasoner(self.program, **settings)
        else:
            path = Path(f"{state.path}.{uuid4().hex}")
            reasoner = stored = open_store(path, self.program, later=True, **settings)
        reasoner.warn = lambda warnings: None  # the driver has reported what never matches
        self._load(reasoner, batches, rejects)
        missing = self.missing(lambda: reasoner.statistics.missing)
        yield from self.with_counts(chain(self.ask(reasoner), missing), rejects)
        if state is not None:
            stored.batches[state.app] = BatchId(state.app, state.number)
            stored.begin()
            stored.close()
            yield self._file_row(STATE, path.name, 0)

    def _load(self, reasoner: Reasoner, batches: Iterable[Any], rejects: CollectedRejects) -> None:
        """Load the rows, all of a predicate at once."""
        for columns, rows in self.read(batches, rejects):
            if columns.times:
                is_integer = self.program.is_integer_time
                timed = (split_batch(batch, columns.times, is_integer) for batch in rows)
                reasoner.load_timed(columns.predicate, timed)
            elif columns.slots:
                reasoner.load(columns.predicate, rows)
            elif any(True for _ in rows):
                reasoner.insert(columns.predicate, [()])
        rejects.check()

    def read(
        self, batches: Iterable[Any], rejects: CollectedRejects
    ) -> Iterator[tuple[InputColumns, Iterator[Batch]]]:
        """Yield the rows of each input. All batches are read when the first rows are used."""
        parts: dict[str, list[Any]] = {}

        def rows(name: str) -> Iterator[Batch]:
            if not parts:
                parts.update(self._by_input(batches, rejects))
            if batches_of_input := parts[name]:
                parts[name] = []
                yield from self._rows_of(self.inputs[name], batches_of_input, rejects)

        for name, columns in self.inputs.items():
            yield columns, rows(name)

    def _by_input(self, batches: Iterable[Any], rejects: CollectedRejects) -> dict[str, list[Any]]:
        """Return the rows of each input, by their tags."""
        parts: dict[str, list[Any]] = {name: [] for name in self.inputs}
        all_slots = sorted({slot for columns in self.inputs.values() for slot in columns.slots})
        for batch in batches:
            tags = batch.column(TAG).dictionary_encode()
            for number, tag in enumerate(tags.dictionary.to_pylist()):
                if tag == NONE:
                    continue
                slots = list(self.inputs[tag].slots) if tag in parts else all_slots
                rows = batch.select(slots) if slots else batch.select([TAG])
                rows = rows.filter(pc.equal(tags.indices, number))
                if tag in parts:
                    parts[tag].append(rows)
                else:
                    _reject_unknown(tag, rows, rejects)
        return parts

    def _rows_of(
        self, columns: InputColumns, batches: list[Any], rejects: CollectedRejects
    ) -> Iterator[Batch]:
        """Yield the rows of one input, converted."""
        if not columns.slots:
            yield Batch((), 1)
            return
        label = self.program.predicates[columns.predicate].written
        for table in _tables_of(batches):
            yield from columns.batches(table, label, rejects)

    def with_counts(self, outputs: Iterator[OutputRows], rejects: CollectedRejects) -> Iterator[OutputRows]:
        """Yield the rejected rows, then the outputs, then the counts of rows."""
        counts = {REJECTS: len(rejects.collected)}
        if rejects.collected:
            yield self._texts(REJECTS, [list(column) for column in zip(*rejects.collected, strict=True)])
        if rejects.nulls:
            counts |= {null_counter(*action): rows for action, rows in rejects.nulls.items()}
            null_counts = [(*action, str(rows)) for action, rows in rejects.nulls.items()]
            yield self._texts(NULLS, [list(column) for column in zip(*null_counts, strict=True)])
        counted = self._counted(outputs, counts)
        yield from counted if self.target is None else self._to_files(self.target, counted)
        yield self._texts(COUNTS, [[json.dumps(counts)]])

    def missing(self, find: Callable[[], Sequence[Any]]) -> Iterator[OutputRows]:
        """Yield for which rows functions had no value, once all else is derived."""
        if found := find():
            yield OutputRows(MISSING, missing_columns(found, self.program), len(found))

    def _counted(self, outputs: Iterator[OutputRows], counts: dict[str, int]) -> Iterator[OutputRows]:
        """Yield the outputs, and count the rows of each."""
        for part in outputs:
            counts[part.name] = counts.get(part.name, 0) + part.rows
            yield self._texts(part.name, part.columns.values()) if part.name in self.special else part

    def _to_files(self, target: FileTarget, outputs: Iterator[OutputRows]) -> Iterator[OutputRows]:
        """Write the facts of each predicate to files, and yield a row for each file, and all other rows."""
        for name, parts in groupby(outputs, key=attrgetter("name")):
            if name in self.special:
                yield from parts
                continue
            rows = ((tuple(part.columns.values()), part.rows) for part in parts)
            yield from (self._file_row(name, *file) for file in target.write(name, rows))

    def _file_row(self, name: str, file: str, rows: int) -> OutputRows:
        """Return the row for a file that was written."""
        columns = zip(self.special[FILES], (name, file, rows), strict=True)
        return OutputRows(FILES, {slot: pa.array([value]) for slot, value in columns}, 1)

    def _texts(self, name: str, columns: Iterable[Iterable[str]]) -> OutputRows:
        """Return rows of texts for one of the special outputs."""
        arrays = [pa.array(map(str, texts), pa.string()) for texts in columns]
        return OutputRows(name, dict(zip(self.special[name], arrays, strict=True)), len(arrays[0]))

    def emit(self, outputs: Iterator[OutputRows], read: MeteredBatches, tasks_here: int = 1) -> Iterator[Any]:
        """Yield the rows of outputs in batches, within the memory limit of the task; an error as a row.

        `tasks_here` is the number of tasks on this machine.
        """
        batches = (batch for part in outputs for batch in self._batches(*part))
        try:
            yield from self.limit.within(batches, read, tasks_here)
        except TidelogError as error:
            if isinstance(error, ATTEMPTS) or error.diagnostics[0].code == EXCHANGE_FAILED:
                raise  # another attempt may succeed
            yield from self._batches(*self._texts(ERRORS, [[f"{type(error).__name__}: {error}"]]))

    def _batches(self, name: str, columns: Mapping[str, Any], rows: int) -> Iterator[Any]:
        """Yield rows of an output in batches of the schema of all outputs."""
        for start in range(0, rows, ROWS):
            count = min(ROWS, rows - start)
            arrays = [pa.repeat(pa.scalar(name, pa.string()), count)]
            for slot, of in self.schema.items():
                column = columns.get(slot)
                arrays.append(pa.nulls(count, of) if column is None else column.slice(start, count).cast(of))
            yield pa.RecordBatch.from_arrays(arrays, names=[TAG, *self.schema])


@dataclass(frozen=True)
class BarrierTask:
    """A task of a barrier stage: it derives from a part of the rows, and sends new facts to the others.

    The tasks exchange their addresses by one `allGather`. If one of them is lost, Spark runs the stage again.
    Only these tasks know `secret` and `certificate`.
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
        # Seen in attempts after one in which some tasks had ended before others failed.
        if len(hosts) != self.count:
            raise RuntimeError(f"{len(hosts)} of {self.count} tasks were started: Spark tries again")
        # Memory is not limited yet: if a task ended before it is connected, the others would wait for ever.
        mesh, attempt = self._meet(context, hosts)
        metered = MeteredBatches(batches, count_input_rows)
        try:
            outputs = self._derive(metered, mesh, attempt)
            yield from self.task.emit(outputs, metered, hosts.count(hosts[mesh.number]))
        finally:
            mesh.close()

    def _meet(self, context: Any, hosts: Sequence[str]) -> tuple[exchange.Mesh, str]:
        """Connect to all other tasks; return the connections, and the name of this attempt."""
        number = context.partitionId()
        listener = Listener(hosts[number])
        answers = context.allGather(json.dumps([listener.address, token_hex(16)]))
        members = [json.loads(answer) for answer in answers]
        addresses, attempt = [address for address, _ in members], members[0][1]
        try:
            mesh = listener.join(number, addresses, self.secret, attempt, certificate=self.certificate)
        except Lost as error:
            raise Lost([replace(fault, help=UNREACHED) for fault in error.diagnostics]) from None
        return mesh, attempt

    def _derive(self, batches: Iterable[Any], mesh: exchange.Mesh, attempt: str) -> Iterator[OutputRows]:
        """Derive together with the other tasks, and yield this task's part of the outputs."""
        rejects = CollectedRejects(self.task.on_error)
        program = equality.by_rules(self.task.program, **self._settings(*EQUALITY))
        if BOTTOM not in program.timed:
            program = told_apart(program)
        with mesh:
            deriving = self._exchanging(program, mesh, int(attempt, 16))
            for columns, rows in self.task.read(batches, rejects):
                _load_part(deriving, columns, _checked(rows, rejects))
            deriving.run()
        missing = self.task.missing(deriving.missing)
        yield from self.task.with_counts(chain(self._outputs(deriving, program), missing), rejects)

    def _settings(self, *names: str) -> dict[str, Any]:
        return {key: self.task.settings[key] for key in names if key in self.task.settings}

    def _exchanging(self, program: Program, mesh: exchange.Mesh, seed: int) -> ExchangingTask:
        """Return the evaluation of this task's part, which exchanges facts with the others."""
        settings = self._settings("timeout", "max_facts")
        if program.timed:
            return temporal.TimedTask(program, mesh, seed=seed, **settings, **self._settings("time"))
        return equality.task_of(program, mesh, seed=seed, **settings, **self._settings("equal", *EQUALITY))

    def _outputs(self, deriving: ExchangingTask, program: Program) -> Iterator[OutputRows]:
        """Yield this task's part of the facts; raise the violated constraints, unless they are kept."""
        violations = violated(program, lambda name: deriving.columns(name)[1] > 0)
        if not isinstance(deriving, exchange.ExchangeTask):
            violations = [*deriving.violations(), *violations]
        if violations and not self.ask.keeps_violations:
            raise Inconsistent(violations)
        yield from self.ask.rows(violations, deriving.relation)


def _load_part(deriving: ExchangingTask, columns: InputColumns, batches: Iterator[Batch]) -> None:
    """Load the rows of an input, with their times if it has columns of times."""
    if columns.times:
        assert isinstance(deriving, temporal.TimedTask), "the program knows which predicates have times"
        is_integer = deriving.program.is_integer_time
        timed = (split_batch(batch, columns.times, is_integer) for batch in batches)
        deriving.load_timed(columns.predicate, timed)
    else:
        deriving.load(columns.predicate, batches)


def _checked(batches: Iterator[Batch], rejects: CollectedRejects) -> Iterator[Batch]:
    """Yield the batches, then raise if rows could not be read: the loading code notifies the other tasks."""
    yield from batches
    rejects.check()


def count_input_rows(batch: Any) -> int:
    """Return how many rows of a batch have inputs."""
    tagless = pc.sum(pc.equal(batch.column(TAG), NONE)).as_py() or 0
    return int(batch.num_rows - tagless)


def _tables_of(batches: list[Any]) -> Iterator[Any]:
    """Yield tables of several batches, and release these, so that rows are not held twice for long."""
    batches.reverse()
    while batches:
        part, rows = [], 0
        while batches and rows < READ:
            part.append(batches.pop())
            rows += part[-1].num_rows
        yield pa.Table.from_batches(part)


class CollectedRejects(RejectedRows):
    """Rejected rows, collected in memory: the predicate, code, reason and row of each."""

    def __init__(self, on_error: OnError) -> None:
        super().__init__(
            on_error, advice='`on_error="skip"` skips such rows, `"collect"` returns them in `rejects`'
        )
        self.collected: list[tuple[str, str, str, str]] = []

    def add(self, row: BadRow) -> None:
        """Add a row with its predicate and values: its position in the input is unknown."""
        fault = row.diagnostic
        place = (fault.place or "").split(":")[0]
        message = f"{fault.message}: {row.text}" if self.on_error is OnError.FAIL else fault.message
        super().add(BadRow(replace(fault, place=place, message=message), row.text, row.missing))

    def _write(self, row: BadRow) -> None:
        fault = row.diagnostic
        self.collected.append((fault.place or "", fault.code, fault.message, row.text))


def _reject_unknown(tag: str, rows: Any, rejects: CollectedRejects) -> None:
    """Reject rows of a shared frame with an unknown predicate."""
    reason = "there is no predicate" if tag == NO_PREDICATE else f"`{tag}` is not one of its predicates"
    fault = Diagnostic(codes.NO_SUCH_PREDICATE, f"{reason} (column `{TAG}`)", place="a shared frame")
    for row in rows.to_pylist():
        values = [value for value in row.values() if value is not None]
        rejects.add(BadRow(fault, json.dumps(values, ensure_ascii=False, default=str)))


@dataclass(frozen=True)
class AllFacts:
    """A request for all facts of predicates, and for violated constraints unless they are an error."""

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
        """Yield the violated constraints, and the facts of each predicate."""
        if violations:
            texts = {
                "code": [violation.code for violation in violations],
                "message": [violation.message for violation in violations],
            }
            yield OutputRows(VIOLATIONS, texts, len(violations))
        for output in self.outputs:
            yield from output_rows(relation_of(output.predicate), output)


@dataclass(frozen=True)
class QueryAnswers:
    """A request for the answers to a query."""

    query: str
    output: OutputColumns

    def __call__(self, reasoner: Reasoner) -> Iterator[OutputRows]:
        """Yield the answers."""
        yield from output_rows(reasoner.query(self.query), self.output)


@dataclass(frozen=True)
class FactExplanation:
    """A request for why a fact holds, as one row of JSON; only facts that it depends on are derived."""

    fact: str
    options: Mapping[str, Any]
    slot: str

    def __call__(self, reasoner: Reasoner) -> Iterator[OutputRows]:
        """Yield the explanation."""
        explanation = reasoner.explain(self.fact, strategy=MAGIC, **self.options)
        text = json.dumps(explanation_to_json(explanation, reasoner.program), separators=(",", ":"))
        yield OutputRows("explanation", {self.slot: pa.array([text], pa.string())}, 1)


def output_rows(relation: Relation, output: OutputColumns) -> Iterator[OutputRows]:
    """Yield the rows of a relation in columns of the output's types, in parts.

    Values take much more memory than their ids, so they are not all decoded at once. There is at least one
    part, which may be empty.
    """
    count = len(output.types)
    if isinstance(relation, TimedRelation):
        ids = relation.each(lambda place, _, ids: ids)
        arguments = dict(zip(output.slots, _arguments(relation, ids, output), strict=False))
        times = zip(output.slots[count:], _times(relation, output.times), strict=True)
        yield OutputRows(output.name, arguments | dict(times), len(relation))
        return
    if not count:  # one column of true
        yield OutputRows(output.name, {output.slots[0]: pa.array([True] * len(relation))}, len(relation))
        return
    coded = relation.coded
    # The time to decode a part also grows with the dictionary, so parts of a large one are larger.
    most = max(WRITTEN, len(coded.dictionary) // 4)
    for first in range(0, max(coded.rows, 1), most):
        rows = min(most, coded.rows - first)
        ids = [column[first : first + rows] for column in coded.columns]
        yield OutputRows(
            output.name, dict(zip(output.slots, _arguments(relation, ids, output), strict=False)), rows
        )


def _arguments(relation: Relation, ids: Iterable[Any], output: OutputColumns) -> Iterator[Any]:
    """Yield the decoded columns."""
    for column, types, name in zip(ids, output.types, relation.columns, strict=False):
        try:
            yield to_typed(relation.coded.dictionary, column, types)
        except Misfit as misfit:
            raise misfit_error(misfit, name, output.name, types) from None


def _times(relation: TimedRelation, types: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the columns of times: start, end, whether each is open, and the period."""
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
    """Where a task writes the store of its reasoner, with the application and number of the transaction."""

    path: str  # a prefix: each attempt adds a suffix of its own
    app: str
    number: int


@dataclass(frozen=True)
class FileTarget:
    """Where the files of one run are written, and the schema of each predicate.

    They are hidden until a last task has renamed them, unless a log of commits lists the valid files. With a
    `state`, a task that holds all facts also writes the store of its reasoner.
    """

    folder: str
    run: str  # in the names of all files of this run, also of those that a failed task leaves
    schemas: Mapping[str, Any]  # Arrow's, by predicate
    prefix: str = HIDDEN
    rows: int | None = None  # most rows of a file
    state: StateFolder | None = None
    folders: Mapping[str, str] = field(default_factory=dict)  # of predicates, if not below `folder`
    filesystem: Any = field(default_factory=pafs.LocalFileSystem, repr=False)  # Arrow's; may have secrets

    def folder_of(self, predicate: str) -> str:
        """Return the path of a predicate's folder in the file system."""
        folder = self.folders.get(predicate)
        return str(Path(self.folder, quote(predicate, safe=" "))) if folder is None else folder

    def remove_unfinished(self) -> None:
        """Remove hidden files of this run: of failed tasks, or of those that Spark ran twice."""
        for predicate in self.schemas:
            for file in Path(self.folder_of(predicate)).glob(f"{HIDDEN}part-{self.run}-*"):
                file.unlink(missing_ok=True)

    def file_of(self, predicate: str) -> OutputFile:
        """Return a new file of a predicate."""
        folder, schema = self.folder_of(predicate), self.schemas[predicate]
        return OutputFile(folder, schema, self.run, self.prefix, self.filesystem)

    def write(self, predicate: str, parts: Iterable[tuple[Sequence[Any], int]]) -> Iterator[tuple[str, int]]:
        """Write parts of columns and their number of rows; yield the name and rows of each file.

        A file has at most `rows` rows, if there is a limit.
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
        """Remove the file; one that cannot be removed stays hidden."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._filesystem.delete_file(self._path)


@dataclass(frozen=True)
class WriteRows:
    """The task that writes the rows of another stage to files, and returns their names."""

    target: FileTarget
    tag: str  # the column with the predicate of a row
    columns: Mapping[str, tuple[str, ...]]  # of each predicate, among those of the rows

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield a row for each file: one for each predicate that has rows."""
        files: dict[str, OutputFile] = {}
        try:
            for batch in batches:
                tags = batch.column(self.tag)
                for name in pc.unique(tags).to_pylist():
                    rows = batch.filter(pc.equal(tags, name))
                    if name not in files:
                        files[name] = self.target.file_of(name)
                    files[name].write(rows.select(list(self.columns[name])).columns, rows.num_rows)
            closed = [(name, file.close(), file.rows) for name, file in files.items()]
        except BaseException:
            for file in files.values():
                file.remove()
            raise
        if closed:
            columns = zip(*closed, strict=True)
            yield pa.RecordBatch.from_pydict(
                {key: list(column) for key, column in zip(COLUMNS, columns, strict=True)}
            )


@dataclass(frozen=True)
class ReadFiles:
    """The task that reads files, given their positions in `paths`, and returns their rows."""

    paths: Sequence[str]
    schema: Any  # Arrow's
    filesystem: Any = field(repr=False)  # Arrow's; may have secrets

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of the files, in the types of the schema."""
        for place in (place for batch in batches for place in batch.column(0).to_pylist()):
            with self.filesystem.open_input_file(self.paths[place]) as stream:
                file = pq.ParquetFile(stream, pre_buffer=True)
                for rows in file.iter_batches(FILE_READ, columns=self.schema.names):
                    columns = [rows.column(field.name).cast(field.type) for field in self.schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
