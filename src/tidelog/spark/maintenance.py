"""A program whose derived facts are maintained while its inputs change: by batches of a stream, or by calls.

The facts are in a store on a disk of the process that changes them: the driver on classic sessions, on
Connect the process in which the server runs `foreachBatch`. There the reasoner stays open between batches.
Begin with `maintain`; `table_changes` applies the rows that are fetched from the frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Rows
from tidelog.errors import Diagnostic, ProgramError, Span, codes
from tidelog.io.rejects import OnError
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import program_of, warn
from tidelog.logic.type_inference import Columns, Inferred, infer, united
from tidelog.logic.types import NEVER, Contents, Type, Types, column_of, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import NetChange
from tidelog.reasoner.delta import Delta, find_predicate
from tidelog.reasoner.storing import StoredReasoner, open_store
from tidelog.records import dataclass
from tidelog.spark import table_changes as tables
from tidelog.spark.frames import SPECIAL, fetch, quoted
from tidelog.spark.schemas import (
    InputSchema,
    NullSettings,
    OutputSchema,
    arrow_of,
    listed,
    nulls_of,
    outputs_of,
    read_input,
    spark_type,
    wrong_columns,
)
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import carried
from tidelog.spark.stages import (
    MAINTAINING,
    check_program,
    check_settings,
    on_error_of,
    only_input,
    session_of,
)
from tidelog.spark.table_changes import CHANGE_TYPE, DELETE, INSERT, ChangeColumns
from tidelog.spark.worker import REJECTS
from tidelog.store.forms import BatchId
from tidelog.store.store import StoreFolder

APP_ID = "stream"
OPERATION = "op"
COMMIT_VERSION = "_commit_version"
FEED = (CHANGE_TYPE, COMMIT_VERSION, "_commit_timestamp")  # columns that Delta's change feed adds to a table
MOST_ROWS = 1_000_000  # of a frame that is fetched at once
QUERY = "sql.streaming.queryId"  # the property of Spark with the stream of a batch
ORDERED = (
    spark_types.ByteType,
    spark_types.ShortType,
    spark_types.IntegerType,
    spark_types.LongType,
    spark_types.DateType,
    spark_types.TimestampType,
    spark_types.TimestampNTZType,
)
TEXTS = (spark_types.StringType, spark_types.CharType, spark_types.VarcharType)
STRINGS = frozenset({Type.STRING})

Frames = Mapping[str, DataFrame]
Schema = DataFrame | spark_types.StructType | str


def maintain(
    program: Program | Path | str | None,
    store: Path | str,
    inputs: Mapping[str, Schema] | None = None,
    *,
    predicate: str | None = None,
    predicates: Mapping[str, Callable[[DataFrame], DataFrame]] | None = None,
    op: str | None = None,
    order: str | None = None,
    app_id: str = APP_ID,
    on_change: Callable[[Changes, int | None], object] | None = None,
    nulls: NullSettings | None = None,
    mixed: str = "text",
    on_error: str = "fail",
    missing: str = "ignore",
    rows_at_once: int = MOST_ROWS,
    **settings: Any,
) -> Maintained:
    """Return an object that maintains the derived facts of a program in a store; `foreachBatch` can call it.

    Without a program it is that of the store, which must exist.
    `inputs` are the schemas of predicates that the program does not declare. Batches of a stream are rows of
    one `predicate`, or of several `predicates`, each with a function that selects its rows of a batch. The
    column `op` says of a row that it comes (`+`, `insert`, `update_postimage`) or goes (`-`, `delete`,
    `update_preimage`); by default it is `_change_type`, or else `op`, and without either all rows come. Of
    several rows of one fact in a batch the one of the highest `order` counts. `nulls` says what becomes of
    rows that lack a value, as in `derive`; columns have the names of the program, or of `inputs`. `mixed` is
    that of `derive`, too.

    Each batch is one transaction, applied exactly once: its number is kept in the store, for each `app_id`.
    `on_change(changes, batch_id)` is called before it is committed. Further settings are those of `Reasoner`.
    """
    path = tables.local_path(store)
    check_settings(settings, MAINTAINING)
    if program is None:
        with open_store(path, read_only=True) as stored:
            resolved_program = stored.program  # its imports were read when the store was created
    else:
        resolved_program = program_of(program)
        check_program(resolved_program)
    if resolved_program.timed:
        rule = next(
            (rule for rule in resolved_program.rules if rule.head.predicate in resolved_program.timed), None
        )
        raise _timed("the program has temporal facts", None if rule is None else rule.span)
    if predicate is not None and predicates is not None:
        raise ValueError("give `predicate`, or `predicates`, not both")
    chosen = dict(predicates or {}) if predicate is None else {predicate: _same}
    for name in chosen:
        find_predicate(name, resolved_program.predicates)
    maintained = Maintained(
        resolved_program,
        path,
        {
            find_predicate(name, resolved_program.predicates).name: _schema_of(schema)
            for name, schema in (inputs or {}).items()
        },
        chosen,
        op,
        order,
        app_id,
        on_change,
        on_error_of(on_error),
        missing,
        rows_at_once,
        settings,
        nulls,
        mixed,
    )
    # This also raises errors in the inputs.
    warn(item for item in maintained.inferred.warnings if item not in resolved_program.warnings)
    return maintained


def differences(previous: DataFrame, current: DataFrame) -> DataFrame:
    """Return the rows inserted and deleted between two versions of a table, with `_change_type`.

    Rows are compared as sets, NULL and NaN are equal to themselves. Nothing runs yet.
    """
    columns = {field.name: field.dataType for field in previous.schema.fields}
    others = {field.name: field.dataType for field in current.schema.fields}
    if columns != others:
        different = [name for name in {**columns, **others} if columns.get(name) != others.get(name)]
        message = f"the two versions of the table differ in the columns {listed(different)}"
        raise ProgramError(Diagnostic(codes.NOT_COMPARABLE, message, help="select the same columns of both"))
    current = current.select(*map(quoted, columns))
    inserted = current.subtract(previous).withColumn(CHANGE_TYPE, F.lit(INSERT))
    return inserted.unionAll(previous.subtract(current).withColumn(CHANGE_TYPE, F.lit(DELETE)))


@dataclass(frozen=True)
class _Source:
    """Rows to fetch, and how they are read."""

    shape: ChangeColumns
    frame: DataFrame


@dataclass(frozen=True)
class _Plain:
    """The fields of `Maintained`, as they are pickled."""

    values: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return Maintained, self.values


@dataclass(eq=False)
class Maintained:
    """A program and its store. It can be pickled: the reasoner belongs to the process that uses it."""

    program: Program
    path: Path
    inputs: Mapping[str, spark_types.StructType]  # by the full names of predicates
    batches: Mapping[str, Callable[[DataFrame], DataFrame]]
    op: str | None
    order: str | None
    app_id: str
    on_change: Callable[[Changes, int | None], object] | None
    on_error: OnError
    missing: str
    rows_at_once: int
    settings: Mapping[str, Any]
    nulls: NullSettings | None = None
    mixed: str = "text"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form for the process of a server of Connect, with the package if needed."""
        values = tuple(getattr(self, item.name) for item in fields(self))
        return carried(_Plain(values), scratch_folder())

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Apply a batch of a stream, unless it is applied already: `writeStream.foreachBatch(maintained)`."""
        if self.on_error is OnError.COLLECT and self.on_change is None:
            raise ValueError("rows that cannot be read are collected for `on_change`, which is missing")
        chosen = self.batches or {self._only_input(): _same}
        sources = [self._source(name, select(frame), None) for name, select in chosen.items()]
        self._apply(sources, batch_id, _stream_of(frame))

    def _only_input(self) -> str:
        """Return the only predicate that the rows of batches can belong to."""
        try:
            return only_input(self.program, {})
        except ProgramError as error:
            (fault,) = error.diagnostics
            help = 'say which: `predicate="…"`, or `predicates={…}` for several'
            raise ProgramError(replace(fault, help=help)) from None

    def apply(
        self,
        inserted: Frames | None = None,
        deleted: Frames | None = None,
        *,
        changes: Frames | None = None,
        batch_id: int | None = None,
    ) -> Changes:
        """Apply one transaction, and return what it changes.

        The rows of `changes` have their operation in the column `op`. With a `batch_id` the transaction
        is applied once, however often it is sent; the numbers of an `app_id` may only grow.
        """
        arguments = ((inserted, True), (deleted, False), (changes, None))
        sources = [
            self._source(name, frame, inserts)
            for frames, inserts in arguments
            for name, frame in (frames or {}).items()
        ]
        return self._apply(sources, batch_id)

    def replace(
        self, current: Frames, previous: Frames | None = None, *, batch_id: int | None = None
    ) -> Changes:
        """Apply the changes of whole tables, which are compared on Spark; return the effects.

        `previous` are the tables as they were applied before. Without it, a table is compared with the facts
        in the store.
        """
        sources, unmatched = [], {}
        with self._opened() as reasoner:
            for name, frame in current.items():
                if name in (previous or {}):
                    sources.append(self._source(name, differences((previous or {})[name], frame), None))
                else:
                    changed, facts = self._compared(reasoner, name, frame)
                    sources += changed
                    unmatched[find_predicate(name, self.program.predicates).name] = facts
            return self._apply(sources, batch_id, deleted=unmatched)

    def _apply(
        self,
        sources: Sequence[_Source],
        batch_id: int | None,
        stream: str = "",
        deleted: Mapping[str, Rows] | None = None,
    ) -> Changes:
        """Apply one transaction; `deleted` are further facts of the store to delete."""
        faults = tables.RejectedChanges(self.on_error)
        batch = None if batch_id is None else BatchId(self.app_id, int(batch_id), stream)
        session = sources[0].frame.sparkSession if sources else None

        def changes_of(delta: Delta | None) -> Changes:
            nulls = {(place.strip("`"), *what): rows for (place, *what), rows in faults.nulls.items()}
            return Changes(self, delta, tuple(faults.collected), session, nulls)

        def publish(delta: Delta) -> None:
            if self.on_change is not None:
                self.on_change(changes_of(delta), batch_id)

        tables_read = [(source.shape, fetch(source.frame, self.rows_at_once)) for source in sources]
        with self._opened() as reasoner:
            delta = tables.apply_changes(reasoner, tables_read, batch, self.missing, faults, publish, deleted)
        return changes_of(delta)

    @contextmanager
    def _opened(self) -> Iterator[StoredReasoner]:
        """Yield the reasoner, open for writing; discard it if after an error it differs from the store."""
        store = tables.open_or_reuse(self.path, self.program, self.settings)
        with store.lock:
            try:
                yield store.reasoner
            except BaseException:
                if not store.reasoner.is_stored or not store.reasoner.is_in_place:
                    tables.discard(self.path)
                raise

    def _source(self, name: str, frame: DataFrame, inserts: bool | None) -> _Source:
        """Return how a frame is read: as facts to insert or to delete, or as changes."""
        if frame.isStreaming:
            message = f"`{name}`: a streaming frame"
            help = "start it with `writeStream.foreachBatch(maintained)`"
            raise ProgramError(Diagnostic(codes.STREAMING, message, help=help))
        predicate = find_predicate(name, self.program.predicates)
        op = order = None
        if inserts is None:
            op, order = self._operation(predicate, frame.schema)
            inserts = None if op is not None else True
        schema = self._read(name, predicate, frame.schema, {op, order})
        columns = [*schema.columns, *(column for column in (op, order) if column is not None)]
        shape = ChangeColumns(
            predicate.name, schema.read_as, f"`{name}`", inserts, order is not None, schema.nulls
        )
        return _Source(shape, frame.select(*map(quoted, columns)))

    def _operation(
        self, predicate: Predicate, schema: spark_types.StructType
    ) -> tuple[str | None, str | None]:
        """Return the columns with the operation of a row, and with the order of rows."""
        names = {field.name: field.dataType for field in schema.fields}
        declared = self.inputs.get(predicate.name)
        own = {*predicate.columns, *(() if declared is None else declared.names)}
        candidates = [column for column in (CHANGE_TYPE, OPERATION) if column in names and column not in own]
        op = self.op or next(iter(candidates), None)
        order = self.order or (COMMIT_VERSION if op == CHANGE_TYPE and COMMIT_VERSION in names else None)
        absent = [column for column in (op, order) if column is not None and column not in names]
        if absent:
            message = f"the frame has no column {listed(absent)}"
            help = f"it has {listed(names)}"
            raise ProgramError(Diagnostic(codes.WRONG_COLUMNS, message, place=_place(predicate), help=help))
        if order is not None and not isinstance(names[order], ORDERED):
            message = f"column `{order}` is of the type {names[order].simpleString()}, which is not an order"
            help = "an order is a whole number, a date or a timestamp"
            raise ProgramError(
                Diagnostic(codes.NO_SUCH_SPARK_TYPE, message, place=_place(predicate), help=help)
            )
        return op, order

    def _read(
        self,
        name: str,
        predicate: Predicate,
        schema: spark_types.StructType,
        others: Set[str | None] = frozenset(),
    ) -> InputSchema:
        """Return how the columns of a frame are read, except for `others`."""
        declared = self.inputs.get(predicate.name)
        fields = [field for field in schema.fields if field.name not in others]
        if declared is not None and set(declared.names) <= {field.name for field in fields}:
            places = {field.name: field for field in fields}
            fields = [places[column] for column in declared.names]
        elif len(fields) > predicate.arity:
            fields = [field for field in fields if field.name not in FEED]
        input_schema, faults = read_input(name, predicate, spark_types.StructType(fields))
        if input_schema is None:
            raise ProgramError(faults)
        if input_schema.times:
            raise _timed(f"the columns {listed(input_schema.times)} of `{name}` are time columns")
        input_schema = replace(input_schema, nulls=self._nulls.get(predicate.name, ()))
        if predicate.declared:
            return input_schema
        if declared is None:
            kinds = zip(input_schema.columns, map(column_of, input_schema.types), strict=True)
            columns = ", ".join(f"{column}: {kind.value}" for column, kind in kinds)
            raise tables.untyped(predicate.written, f"{predicate.written}({columns})")
        wanted = self._declared_types[predicate.name]
        if input_schema.types != wanted:
            message = f"the columns of the frame are of other types than `inputs` says of `{name}`"
            help = f"they are {schema.simpleString()}, and it says {declared.simpleString()}"
            raise ProgramError(Diagnostic(codes.WRONG_COLUMNS, message, place=_place(predicate), help=help))
        return input_schema

    @cached_property
    def _declared_types(self) -> dict[str, Columns]:
        """The types of the columns of `inputs`."""
        types: dict[str, Columns] = {}
        faults: list[Diagnostic] = []
        for name, schema in self.inputs.items():
            predicate = self.program.predicates[name]
            input_schema, errors = read_input(predicate.written, predicate, schema)
            faults += errors
            if input_schema is not None:
                types[name] = input_schema.types
        if faults:
            raise ProgramError(faults)
        return types

    @cached_property
    def inferred(self) -> Inferred:
        """The types of all columns, which depend only on the program and the schemas of inputs."""
        missing = {
            name: tuple(frozenset({Type.LITERAL}) if action is Nulls.VALUE else NEVER for action in nulls)
            for name, nulls in self._nulls.items()
        }
        types_of_inputs = {
            name: united(types, missing.get(name, (NEVER,) * len(types)))
            for name, types in self._declared_types.items()
        }
        return infer(self.program, types_of_inputs, missing)

    @cached_property
    def _nulls(self) -> dict[str, tuple[Nulls, ...]]:
        """The treatment of missing values, by predicate and argument."""
        settings: dict[str, str | Mapping[str, str]]
        if self.nulls is None or isinstance(self.nulls, str):
            word = self.nulls
            explicit = [name for name in self.program.predicates if name not in self.program.derived]
            settings = {} if word is None else dict.fromkeys(explicit, word)
        else:
            predicates = self.program.predicates
            settings = {find_predicate(name, predicates).name: words for name, words in self.nulls.items()}
        actions, faults = {}, []
        for name, words in settings.items():
            predicate, schema = self.program.predicates[name], self.inputs.get(name)
            is_said = schema is not None and len(schema.names) == predicate.arity
            names = tuple(schema.names) if schema is not None and is_said else predicate.names
            if not isinstance(words, str):
                faults += wrong_columns(predicate.written, words, names)
            actions[name] = nulls_of(words, names)
        if faults:
            raise ProgramError(faults)
        return actions

    def output(self, name: str) -> OutputSchema:
        """Return the columns of a predicate's frames."""
        predicate = find_predicate(name, self.program.predicates)
        return outputs_of([predicate], self.inferred, self.mixed)[predicate.written]

    def _compared(self, reasoner: StoredReasoner, name: str, frame: DataFrame) -> tuple[list[_Source], Rows]:
        """Return the rows inserted and deleted since the store, and facts of the store that no row can equal.

        Invariant: a row that is equal to a fact on Spark is read as that fact. Every other row is inserted,
        every other fact deleted, and one that is both stays: so it is correct if Spark finds few equal.
        """
        predicate = find_predicate(name, self.program.predicates)
        input_schema = self._read(name, predicate, frame.schema)
        if not predicate.arity:
            message = f"`{name}` has no columns to compare"
            raise ProgramError(Diagnostic(codes.WRONG_COLUMNS, message, help="use `apply`"))
        shape = ChangeColumns(
            predicate.name, input_schema.read_as, f"`{name}`", inserts=False, nulls=input_schema.nulls
        )
        types = [
            _compared_as(*column)
            for column in zip(input_schema.spark, input_schema.types, input_schema.read_as, strict=True)
        ]
        stored, unmatched = tables.representable(reasoner, shape, types)
        of = [spark_type(Contents(each or STRINGS)) for each in types]
        keys = [f"_{place}" for place in range(len(of))]  # the compared columns of both
        fields = [spark_types.StructField(key, spark) for key, spark in zip(keys, of, strict=True)]
        stored_frame = _frame(frame.sparkSession, stored.rename_columns(keys), spark_types.StructType(fields))
        columns = [quoted(column) for column in input_schema.columns]
        casts = [
            F.col(column).try_cast(to).alias(key) for column, to, key in zip(columns, of, keys, strict=True)
        ]
        rows = frame.select(*columns, *casts)
        inserted = rows.join(stored_frame, keys, "left_anti").select(*columns).distinct()
        deleted = stored_frame.join(rows.select(*keys), keys, "left_anti")
        return [_Source(replace(shape, inserts=True), inserted), _Source(shape, deleted)], unmatched

    @property
    def reasoner(self) -> StoredReasoner:
        """The reasoner that is open in this process, else one that reads the current store."""
        if not tables.is_open(self.path) and StoreFolder(self.path).is_store:
            return open_store(self.path, read_only=True, **self.settings)
        return tables.open_or_reuse(self.path, self.program, self.settings).reasoner

    def frame(self, name: str) -> DataFrame:
        """Return all current facts of a predicate as a frame."""
        output = self.output(name)
        table = tables.typed_table(self.reasoner[output.predicate.name], output.types)
        return _frame(session_of({}), table, output.schema)

    def close(self) -> None:
        """Close the store, if it is open in this process, so that others can write to it."""
        tables.close(self.path)

    def __enter__(self) -> Maintained:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Maintained: {self.path}>"


class Changes(Mapping[str, DataFrame]):
    """The changes of a transaction, also of derived facts: a frame for each predicate, by name.

    Its columns are those of the predicate, and `_change_type`, `insert` or `delete`. The frame of a predicate
    without changes is empty.
    """

    def __init__(
        self,
        maintained: Maintained,
        delta: Delta | None,
        rejected: tuple[tuple[str, str, str, str], ...],
        session: SparkSession | None,
        nulls: Mapping[tuple[str, ...], int] | None = None,
    ) -> None:
        self.delta = delta  # None: the batch was applied before
        self.rejected = rejected  # rows that could not be read: place, code, reason and the row
        # How many rows lack a value: by predicate, column and treatment.
        self.nulls = dict(nulls or {})
        self._maintained = maintained
        self._session = session

    @property
    def program(self) -> Program:
        """The program whose facts have changed."""
        return self._maintained.program

    @property
    def is_repeated(self) -> bool:
        """Whether the batch was applied before, so that nothing was done."""
        return self.delta is None

    @property
    def notices(self) -> tuple[Diagnostic, ...]:
        """Facts to delete that did not exist, and rows that rules drop because a function has no value."""
        return () if self.delta is None else self.delta.notices

    @property
    def rejects(self) -> DataFrame:
        """The rows that could not be read, as a frame."""
        names = SPECIAL[REJECTS]
        columns = zip(*self.rejected, strict=True) if self.rejected else [()] * len(names)
        arrays = [pa.array(texts, pa.string()) for texts in columns]
        table = pa.Table.from_arrays(arrays, names=list(names))
        fields = [spark_types.StructField(name, spark_types.StringType()) for name in names]
        return _frame(self._session or session_of({}), table, spark_types.StructType(fields))

    def arrow(self, name: str) -> Any:
        """Return the changes of a predicate as an Arrow table."""
        output = self._maintained.output(name)
        delta = self.delta or Delta(NetChange(), self._maintained.program.predicates, Dictionary())
        return tables.changed_table(delta[output.predicate.name], output.types)

    def __getitem__(self, name: str) -> DataFrame:
        """Return the changes of a predicate as a frame."""
        output = self._maintained.output(name)
        schema = spark_types.StructType(output.schema.fields).add(CHANGE_TYPE, spark_types.StringType())
        return _frame(self._session or session_of({}), self.arrow(name), schema)

    def __iter__(self) -> Iterator[str]:
        return iter(self.delta.predicates if self.delta is not None else ())

    def __len__(self) -> int:
        return len(self.delta.predicates) if self.delta is not None else 0

    def __repr__(self) -> str:
        return "<Changes: applied before>" if self.delta is None else f"<Changes: {self.delta!r}>"


def _frame(session: SparkSession, table: Any, schema: spark_types.StructType) -> DataFrame:
    """Return an Arrow table as a frame."""
    fields = [pa.field(field.name, arrow_of(field.dataType)) for field in schema.fields]
    return session.createDataFrame(table.cast(pa.schema(fields)), schema)


def _timed(message: str, span: Span | None = None) -> ProgramError:
    help = "use a store: `tl.open`, whose transactions have times"
    return ProgramError(Diagnostic(codes.TIMED_FRAMES, message, span, help))


def _stream_of(frame: DataFrame) -> str:
    """Return the id of the stream of a batch; empty on Connect, which does not report it."""
    context = getattr(frame.sparkSession, "sparkContext", None)
    return "" if context is None else str(context.getLocalProperty(QUERY) or "")


def _schema_of(schema: Schema) -> spark_types.StructType:
    if isinstance(schema, str):
        return cast("spark_types.StructType", spark_types.StructType.fromDDL(schema))
    return schema if isinstance(schema, spark_types.StructType) else schema.schema


def _compared_as(spark: spark_types.DataType, types: Types, read_as: ColumnType) -> Types | None:
    """Return the types in which values of a column are compared on Spark; None: as texts.

    Texts are read as the declared type, numbers and times are cast to it.
    """
    if isinstance(spark, TEXTS):
        return None
    declared = types_of_column(read_as)
    return types if types <= declared else declared


def _same(frame: DataFrame) -> DataFrame:
    """Return all rows of a batch, which has one predicate."""
    return frame


def _place(predicate: Predicate) -> str:
    return f"the frame `{predicate.written}`"


__all__ = ["Changes", "Maintained", "differences", "maintain"]
