"""The driver's side of a derivation: the inputs of a program, and the one stage of Spark that evaluates it.

A program is bound to its inputs (`BoundProgram.of`): names, columns and types are checked, and the types of
what it derives are inferred. `choose` decides where it runs. The rows of all inputs become one frame, in
which a tag names the input of a row (`tagged_rows`), and tasks evaluate the program over them
(`BoundProgram.rows`): one task by `mapInArrow`, or those of a barrier stage, behind a shuffle. They return
the rows of all outputs, of which `frames.Derived` makes frames. `worker` has the code of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types

from tidelog.data.relation import column_names
from tidelog.data.typed_columns import with_mixed
from tidelog.engine.events import Tally
from tidelog.engine.exchange import make_certificate
from tidelog.engine.interrupts import Limits
from tidelog.errors import Diagnostic, ProgramError, SourceText, codes, suggest
from tidelog.io.rejects import OnError
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import BOTTOM, Predicate, Program, Query
from tidelog.logic.resolve import giving_times, program_of, resolve_query, warn
from tidelog.logic.type_inference import Columns, Inferred, infer, infer_answers, united
from tidelog.logic.types import Contents
from tidelog.logic.values import ColumnType
from tidelog.reasoner.reasoner import check_choices
from tidelog.records import dataclass
from tidelog.spark.frames import (
    FILES_TYPES,
    PREDICATE,
    SPECIAL,
    Derived,
    filled,
    quoted,
    share_output_columns,
    share_with_special,
    union,
)
from tidelog.spark.joins import Joins
from tidelog.spark.schemas import (
    InputSchema,
    NullSettings,
    OutputSchema,
    PassThrough,
    ReadableRows,
    SharedColumns,
    arrow_of,
    counted,
    outputs_of,
    passes_through,
    read_input,
    share_columns,
    time_fields,
    with_nulls,
)
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship
from tidelog.spark.strategies import (
    EXCHANGE,
    JOINS,
    MemoryLimit,
    StrategyChoice,
    check_one_task,
    choose,
    is_encrypted,
    limit_of,
)
from tidelog.spark.worker import (
    COLUMNS,
    FILES,
    NO_PREDICATE,
    NONE,
    TAG,
    AllFacts,
    BarrierTask,
    DerivationTask,
    FileTarget,
    InputColumns,
    OutputColumns,
    QueryAnswers,
)
from tidelog.syntax.parser import parse_literals
from tidelog.temporal.temporal import USUAL, TimeSettings, asks_when

# Settings of a reasoner that apply to one in a task of Spark, and to one that maintains a store.
DERIVING: Final = frozenset(
    {"equality", "unique_names", "equal", "modules", "timeout", "max_facts", "time", "table_memory"}
)
MAINTAINING: Final = frozenset(
    {
        "equality",
        "unique_names",
        "equal",
        "modules",
        "timeout",
        "max_facts",
        "table_memory",
        "maintainer",
        "threads",
        "durability",
        "max_memory",
    }
)
SHOWN: Final = ("expand", "representative")
# Settings of reasoners and stores that do not apply on Spark, and what to do instead.
REFUSED: Final = {
    "engine": "the embedded engine runs in the tasks; `tidelog.strategy` of the session says how",
    "processes": "`partitions` says how many tasks derive",
    "threads": "a task has one thread; `partitions` says how many tasks derive",
    "maintainer": "derived facts do not change; `maintain` follows changes",
    "marking": "no update is known in advance",
    "durability": "nothing is stored; `maintain` has a store",
    "time": "temporal facts are not maintained by frames",
    "listeners": "events happen in another process; `derived.observation` counts facts",
    "on_error": "a row that cannot be read is an error here",
    "rejects": 'rejected rows are a frame: `on_error="collect"`',
    "allow_read": "a program reads no files there: its sandbox is always closed",
    "allow_write": "a program writes no files there: its sandbox is always closed",
    "read_only": "`maintained.reasoner` reads",
    "later": "the store is made by the first change",
}


def check_settings(settings: Mapping[str, Any], allowed: Collection[str] = DERIVING) -> None:
    """Raise the first error in settings: a name as `TypeError`, a value as for a reasoner.

    This runs on the driver: in a worker an error would be a failed task.

    >>> check_settings({"rejects": "rejects.csv"})
    Traceback (most recent call last):
    TypeError: `rejects` is not supported on Spark: rejected rows are a frame: `on_error="collect"`
    """
    for name in settings:
        if name in allowed:
            continue
        if name in REFUSED:
            raise TypeError(f"`{name}` is not supported on Spark: {REFUSED[name]}")
        near = suggest(name, sorted(allowed)) or f"choose one of {', '.join(sorted(allowed))}"
        raise TypeError(f"unknown setting `{name}`: {near}")
    if settings.get("equal", SHOWN[0]) not in SHOWN:
        raise ValueError(f"`equal` is {' or '.join(map(repr, SHOWN))}, not {settings['equal']!r}")
    time = settings.get("time")
    if time is not None and not isinstance(time, TimeSettings):
        raise TypeError(f"`time` is a TimeSettings, not {type(time).__name__}")
    check_choices(**{name: settings[name] for name in ("equality", "maintainer") if name in settings})


def on_error_of(name: str) -> OnError:
    """Return the treatment of rows that cannot be read, from its name."""
    try:
        return OnError(name)
    except ValueError:
        choices = ", ".join(f"`{choice.value}`" for choice in OnError)
        raise ValueError(f"on_error is one of {choices}, not {name!r}") from None


STRING = spark_types.StringType()
ANSWERS = "answers"  # the output of a query
FrameSource = DataFrame | spark_types.StructType


class InputFrames(Mapping[str, Any]):
    """Frames by predicate, or their schemas where nothing will run.

    A frame of several predicates, `{("flight", "train"): connections}`, has a column
    `predicate`; the others are the columns of the predicates, in order. It is read once for all of them.
    """

    def __init__(
        self, inputs: Mapping[str, Any] | Mapping[tuple[str, ...], Any] | Mapping[str | tuple[str, ...], Any]
    ) -> None:
        self._own: dict[str, FrameSource] = {}
        self._shared: dict[str, FrameSource] = {}
        self.groups: list[tuple[tuple[str, ...], FrameSource]] = []
        if isinstance(inputs, InputFrames):
            self._own, self._shared, self.groups = inputs._own, inputs._shared, inputs.groups
            return
        for name, source in inputs.items():
            if not isinstance(source, DataFrame | spark_types.StructType):
                raise TypeError(f"`{name}` is not a DataFrame, but {type(source).__name__}")
            if isinstance(name, tuple):
                _check_predicate_column(name, source)
                self.groups.append((name, source))
                self._shared |= dict.fromkeys(name, source)
            else:
                self._own[name] = source
        repeated = self._own.keys() & self._shared.keys()
        if repeated or sum(len(names) for names, _ in self.groups) > len(self._shared):
            raise ValueError(f"several frames are given for {', '.join(sorted(repeated or self._shared))}")

    def __getitem__(self, name: str) -> Any:
        """Return the frame, or the schema, of one predicate."""
        if name in self._own:
            return self._own[name]
        source = self._shared[name]
        if not isinstance(source, DataFrame):
            return _without_predicate(source)
        return source.where(F.col(PREDICATE) == name).drop(PREDICATE)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._shared

    def __len__(self) -> int:
        return len(self._own) + len(self._shared)

    def is_shared(self, name: str) -> bool:
        """Whether the frame of a predicate also holds other predicates."""
        return name in self._shared

    @property
    def sources(self) -> list[DataFrame]:
        """The frames, each once."""
        shared = (source for _, source in self.groups)
        return [each for each in (*self._own.values(), *shared) if isinstance(each, DataFrame)]

    @property
    def schemas(self) -> list[str]:
        """The predicates with a schema instead of a frame."""
        sources = {**self._own, **self._shared}
        return [name for name, source in sources.items() if not isinstance(source, DataFrame)]

    def schema_of(self, name: str, arity: int | None) -> spark_types.StructType:
        """Return the schema of a predicate's frame; a shared one has columns for the widest predicate."""
        source = self._own.get(name, self._shared.get(name))
        schema = source.schema if isinstance(source, DataFrame) else source
        assert schema is not None
        if name in self._own:
            return schema
        return spark_types.StructType(_without_predicate(schema).fields[:arity])


def _without_predicate(schema: spark_types.StructType) -> spark_types.StructType:
    return spark_types.StructType([field for field in schema.fields if field.name != PREDICATE])


def _check_predicate_column(names: tuple[str, ...], source: FrameSource) -> None:
    schema = source.schema if isinstance(source, DataFrame) else source
    if PREDICATE not in schema.names or not isinstance(schema[PREDICATE].dataType, spark_types.StringType):
        predicates = ", ".join(f"`{name}`" for name in names)
        message = f"the frame of {predicates} has no column `{PREDICATE}` of strings, to tell them apart"
        help = f'add one, such as `frame.withColumn("{PREDICATE}", …)`, or give a frame for each predicate'
        raise ProgramError(Diagnostic(codes.WRONG_COLUMNS, message, help=help))


@dataclass(frozen=True)
class BoundProgram:
    """A program with the schemas of its inputs, and the inferred types of its columns."""

    program: Program
    inputs: Mapping[str, InputSchema]
    inferred: Inferred
    settings: Mapping[str, Any]
    mixed: str = "text"

    @classmethod
    def of(
        cls,
        program: Program | Path | str,
        inputs: Mapping[str, Any],
        settings: Mapping[str, Any],
        *,
        nulls: NullSettings | None = None,
        mixed: str = "text",
        warns: bool = True,
    ) -> BoundProgram:
        """Bind a program to its inputs; raise all errors in them.

        With `warns`, warn of what can never match with these inputs.
        """
        check_settings(settings)
        resolved_program = program_of(program)
        check_program(resolved_program)
        frames = InputFrames(inputs)
        _check_streaming(frames)
        schemas = {}
        for name in frames:
            predicate = resolved_program.find(name)
            schemas[name] = frames.schema_of(name, None if predicate is None else predicate.arity)
        input_schemas = with_nulls(read_schemas(resolved_program, schemas), nulls)
        resolved_program = giving_times(
            resolved_program, [schema.predicate.name for schema in input_schemas.values() if schema.times]
        )
        inferred = infer(resolved_program, *types_in(input_schemas.values()))
        if warns:
            warn(item for item in inferred.warnings if item not in resolved_program.warnings)
        return cls(resolved_program, input_schemas, inferred, settings, mixed)

    def choose(
        self, frames: Mapping[str, DataFrame], partitions: int | None, sizes: Mapping[str, int] | None
    ) -> StrategyChoice:
        """Choose where the program runs."""
        session = _find_session(frames)
        columns = {name: len(schema.columns) for name, schema in self.inputs.items()}
        time = self.settings.get("time", USUAL)
        return choose(self.program, session, InputFrames(frames).sources, partitions, sizes, columns, time)

    def check_one_task(self, frames: Mapping[str, DataFrame], what: str) -> None:
        """Raise if the session asks for several tasks, or joins, for what runs in one task."""
        check_one_task(_find_session(frames), what)

    def derive(
        self,
        frames: Mapping[str, DataFrame],
        outputs: Sequence[str] | None,
        on_error: str,
        on_violation: str,
        choice: StrategyChoice = StrategyChoice(),  # noqa: B008 - it cannot be changed
        may_pass_through: bool = True,
    ) -> Derived:
        """Return the frames of predicates.

        Inputs that are outputs and that no rule reads do not go through tasks if they `may_pass_through`.
        """
        if on_violation not in ("fail", "keep"):
            raise ValueError(f"on_violation is `fail` or `keep`, not {on_violation!r}")
        policy = on_error_of(on_error)
        requested = self.outputs(requested_predicates(self.program, outputs))
        passing = self._passing_through(frames, requested, policy) if may_pass_through else {}
        requested = {name: output for name, output in requested.items() if name not in passing}
        shared = share_output_columns(requested)
        ask = AllFacts(output_columns(requested, shared), on_violation == "keep")
        needed = read_by(self.program, [*requested.values()])
        nulls = counted([schema for schema in self.inputs.values() if needed(schema.predicate.name)])
        if choice.strategy == JOINS:
            joined = self._join(frames, requested, shared, policy, ask.keeps_violations, needed)
            return Derived(lambda: joined, requested, shared, passing, are_counted=False, nulls=nulls)

        def write_files(target: FileTarget) -> DataFrame:
            shared_files = share_with_special({FILES: FILES_TYPES})
            rows = Derived(
                lambda: self.rows(ask, frames, shared_files, policy, needed, choice, target), {}, shared_files
            )
            return rows.at_once(FILES, COLUMNS) if choice.tasks == 1 else rows.only(FILES, COLUMNS)

        return Derived(
            lambda: self.rows(ask, frames, shared, policy, needed, choice),
            requested,
            shared,
            passing,
            is_divided=choice.strategy == EXCHANGE,
            write_files=write_files,
            nulls=nulls,
        )

    def _passing_through(
        self, frames: Mapping[str, DataFrame], outputs: Mapping[str, OutputSchema], on_error: OnError
    ) -> dict[str, PassThrough]:
        """Return the outputs whose facts are the rows of one input, and which no task has to derive."""
        return {
            name: PassThrough(output, ReadableRows(frames[source], self.inputs[source], on_error))
            for name, output in outputs.items()
            if (source := self.input_of(output.predicate))
            and not InputFrames(frames).is_shared(source)  # it is read for the others anyway
            and passes_through(self.program, self.inputs[source], output)
        }

    def _join(
        self,
        frames: Mapping[str, DataFrame],
        outputs: Mapping[str, OutputSchema],
        shared: SharedColumns,
        on_error: OnError,
        keeps_violations: bool,
        needed: Callable[[str], bool],
    ) -> DataFrame:
        """Return the rows of all outputs, derived by joins. This runs jobs."""
        session = session_of(frames)
        ship(session, scratch_folder())
        inputs = [
            (frames[name], schema) for name, schema in self.inputs.items() if needed(schema.predicate.name)
        ]
        limits = Limits(Tally(), self.settings.get("timeout"), self.settings.get("max_facts"))
        limit = limit_of(session, self.program, 1)
        joins = Joins.of(self.program, self.inferred, session, limits, limit)
        return joins.rows(inputs, outputs, shared, on_error, keeps_violations)

    def query(
        self,
        frames: Mapping[str, DataFrame],
        text: str,
        on_error: str,
        on_warnings: Callable[[Iterable[Diagnostic]], None] = warn,
    ) -> Derived:
        """Return a query's answers, as the output `answers`, with the rows that were rejected.

        `on_warnings` is called with the literals of the query that can never match.
        """
        query = parse_query(text, self.program)
        output = self.answers(query)
        on_warnings(infer_answers(query.rule, self.inferred, self.program)[1])
        shared = share_output_columns({ANSWERS: output})
        (columns,) = output_columns({ANSWERS: output}, shared)
        needed = needed_for(query, self.program)
        ask, policy = QueryAnswers(text, columns), on_error_of(on_error)
        nulls = counted([schema for schema in self.inputs.values() if needed(schema.predicate.name)])
        return Derived(
            lambda: self.rows(ask, frames, shared, policy, needed), {ANSWERS: output}, shared, nulls=nulls
        )

    def rows(
        self,
        ask: Any,
        frames: Mapping[str, DataFrame],
        shared: SharedColumns,
        on_error: OnError,
        needed: Callable[[str], bool],
        choice: StrategyChoice = StrategyChoice(),  # noqa: B008 - it cannot be changed
        target: FileTarget | None = None,
    ) -> DataFrame:
        """Return the rows of all outputs, by tasks that read the needed inputs.

        With a target, tasks write the outputs to files, and the rows name them.
        """
        inputs = {name: each for name, each in self.inputs.items() if needed(each.predicate.name)}
        shared_inputs = share_columns({name: each.spark for name, each in inputs.items()})
        session = session_of(frames)
        limit = limit_of(session, self.program, choice.tasks)
        columns = {name: each.reading(shared_inputs.of[name]) for name, each in inputs.items()}
        task = self.task(ask, columns, shared, on_error, limit, target)
        schema = rows_schema(shared)
        ship(session, scratch_folder())
        tagged = tagged_rows(session, frames, inputs, shared_inputs)
        if choice.is_small:
            tagged = tagged.coalesce(1)
        else:  # by all columns: round robin would make Spark sort the rows, to be deterministic
            tagged = tagged.repartition(choice.tasks, *(quoted(each) for each in tagged.columns))
        if choice.strategy != EXCHANGE:
            return tagged.mapInArrow(Shipped(task), schema)
        certificate = make_certificate() if is_encrypted(session) else None
        barrier_task = BarrierTask(task, ask, choice.tasks, token_bytes(32), certificate)
        return tagged.mapInArrow(Shipped(barrier_task), schema, barrier=True)

    def task(
        self,
        ask: Any,
        inputs: Mapping[str, InputColumns],
        shared: SharedColumns,
        on_error: OnError,
        limit: MemoryLimit,
        target: FileTarget | None = None,
    ) -> DerivationTask:
        """Return the task that reads rows of inputs and returns those of outputs."""
        program = replace(self.program, queries=(), outputs=())
        schema = {slot: arrow_of(of) for slot, of in shared.types.items()}
        special = {name: shared.of[name] for name in (*SPECIAL, FILES) if name in shared.of}
        return DerivationTask(program, inputs, ask, schema, special, on_error, self.settings, limit, target)

    def input_of(self, predicate: Predicate) -> str | None:
        """Return the name of the only input of a predicate; None if it has none or several."""
        names = [name for name, schema in self.inputs.items() if schema.predicate == predicate]
        return names[0] if len(names) == 1 else None

    def outputs(self, predicates: Sequence[Predicate]) -> dict[str, OutputSchema]:
        """Return the schemas of the frames of predicates, by name."""
        schemas = outputs_of(predicates, self.inferred, self.mixed)
        timed = self.program.timed
        return {
            name: self._timed(output, column_names(output.predicate))
            if output.predicate.name in timed
            else output
            for name, output in schemas.items()
        }

    def answers(self, query: Query) -> OutputSchema:
        """Return the schema of the frame of a query's answers."""
        types, _ = infer_answers(query.rule, self.inferred, self.program)
        names = query.variables
        predicate = Predicate(ANSWERS, len(names), names, (ColumnType.ANY,) * len(names), ANSWERS)
        schema = tuple(map(Contents, types))
        output = OutputSchema(predicate, with_mixed(schema, self.mixed))
        return self._timed(output, names) if asks_when(query, self.program) else output

    def _timed(self, output: OutputSchema, names: Sequence[str]) -> OutputSchema:
        fields = time_fields(names, self.program, self.inputs.values(), self.settings)
        return replace(output, times=fields)


def check_program(program: Program) -> None:
    """Raise an error for all imports and exports of a program, with the list of predicates to pass."""
    imported = dict.fromkeys(program.predicates[each.predicate].written for each in program.imports)
    passed = "pass their frames: {" + ", ".join(f'"{name}": …' for name in imported) + "}"
    faults = []
    for transfer in program.imports:
        name = program.predicates[transfer.predicate].written
        message = f"`{name}` is imported, but here frames go in"
        faults.append(Diagnostic(codes.TRANSFER, message, transfer.span, passed))
    for transfer in program.exports:
        name = program.predicates[transfer.predicate].written
        message = f"`{name}` is exported, but here frames go out"
        help = f'write the frame: `derived["{name}"].write…`'
        faults.append(Diagnostic(codes.TRANSFER, message, transfer.span, help))
    if faults:
        raise ProgramError(faults)


def _check_streaming(frames: InputFrames) -> None:
    if any(frame.isStreaming for frame in frames.sources):
        streaming = [
            name for name, frame in frames.items() if isinstance(frame, DataFrame) and frame.isStreaming
        ]
        message = f"{', '.join(f'`{name}`' for name in streaming)}: a streaming frame"
        help = "each micro-batch would be evaluated alone; use `foreachBatch`"
        raise ProgramError(Diagnostic(codes.STREAMING, message, help=help))


def types_in(inputs: Iterable[InputSchema]) -> tuple[dict[str, Columns], dict[str, Columns]]:
    """Return the types of the columns of inputs, by predicate, and those of missing values read as values."""
    types: dict[str, Columns] = {}
    missing: dict[str, Columns] = {}
    for schema in inputs:
        name = schema.predicate.name
        types[name] = united(types.get(name, schema.all_types), schema.all_types)
        missing[name] = united(missing.get(name, schema.missing), schema.missing)
    return types, missing


def read_schemas(program: Program, schemas: Mapping[str, spark_types.StructType]) -> dict[str, InputSchema]:
    """Return how frames of these schemas are read; raise all errors in them."""
    inputs: dict[str, InputSchema] = {}
    faults: list[Diagnostic] = []
    for name, schema in schemas.items():
        input_schema, errors = read_input(name, program.find(name), schema)
        faults += errors
        if input_schema is not None:
            inputs[name] = input_schema
    if faults:
        raise ProgramError(faults)
    return inputs


def requested_predicates(program: Program, outputs: Sequence[str] | None) -> list[Predicate]:
    """Return the requested predicates."""
    if outputs is None:
        return [program.predicates[name] for name in program.output_predicates if name != BOTTOM]
    predicates, faults = [], []
    names = [predicate.written for predicate in program.predicates.values()]
    for name in outputs:
        predicate = program.find(name)
        if predicate is None:
            message, help = f"unknown predicate `{name}`", suggest(name, names)
            faults.append(Diagnostic(codes.NO_SUCH_PREDICATE, message, help=help))
        else:
            predicates.append(predicate)
    if faults:
        raise ProgramError(faults)
    return predicates


def parse_query(text: str, program: Program) -> Query:
    """Parse a query and resolve its names."""
    return resolve_query(parse_literals(SourceText("<query>", text)), program, text)


def read_by(program: Program, outputs: Sequence[OutputSchema]) -> Callable[[str], bool]:
    """Return the test whether the facts of a predicate matter: a rule reads them, or they are an output."""
    matter = {name for rule in program.rules for name in rule.read}
    matter |= program.derived | {output.predicate.name for output in outputs}
    return lambda name: name in matter or has_equality(program.predicates)


def needed_for(query: Query, program: Program) -> Callable[[str], bool]:
    """Return the test whether the answers to a query, or constraints, depend on a predicate."""
    if has_equality(program.predicates):
        return lambda name: True
    needed = {BOTTOM, *query.rule.read}
    size = 0
    while size != len(needed):
        size = len(needed)
        for rule in program.rules:
            if rule.head.predicate in needed:
                needed.update(rule.read)
    return lambda name: name in needed


def only_input(program: Program, more: Mapping[str, object]) -> str:
    """Return the only predicate that can have an input frame; raise if there are several."""
    explicit = {fact.predicate for fact in program.facts}
    candidates = [
        predicate.written
        for name, predicate in program.predicates.items()
        if name not in program.derived | explicit and predicate.written not in more
    ]
    if len(candidates) != 1:
        message = (
            f"the frame may be one of {', '.join(f'`{name}`' for name in candidates) or 'no predicates'}"
        )
        raise ProgramError(Diagnostic(codes.NO_SUCH_PREDICATE, message, help='say which: `input="…"`'))
    return candidates[0]


def _find_session(frames: Mapping[str, DataFrame]) -> SparkSession | None:
    """Return the session of the frames, else the active one, if there is one."""
    inputs = InputFrames(frames)
    for name in inputs.schemas:  # `check` takes schemas instead of frames
        raise TypeError(f"`{name}` is a schema, and here a DataFrame is needed")
    return next((frame.sparkSession for frame in inputs.sources), None) or SparkSession.getActiveSession()


def session_of(frames: Mapping[str, DataFrame]) -> SparkSession:
    """Return the session of the frames, else the active one; raise if there is none."""
    session = _find_session(frames)
    if session is None:
        help = "start one: `SparkSession.builder.getOrCreate()`"
        raise ProgramError(Diagnostic(codes.NO_SESSION, "no Spark session is running", help=help))
    return session


def rows_schema(shared: SharedColumns) -> spark_types.StructType:
    """Return the schema of the rows that tasks return."""
    fields = [(TAG, STRING), *shared.types.items()]
    return spark_types.StructType([spark_types.StructField(*field) for field in fields])


def output_columns(outputs: Mapping[str, OutputSchema], shared: SharedColumns) -> tuple[OutputColumns, ...]:
    """Return the columns in which tasks return each output."""
    return tuple(
        OutputColumns(
            name,
            output.predicate.name,
            shared.of[name],
            output.types,
            tuple(arrow_of(of) for _, of in output.times),
        )
        for name, output in outputs.items()
    )


def tagged_rows(
    session: SparkSession,
    frames: Mapping[str, DataFrame],
    inputs: Mapping[str, InputSchema],
    shared: SharedColumns,
) -> DataFrame:
    """Return the rows of all inputs in one frame, with the name of their input.

    The name is text, so that Spark compiles one program for all frames with the same columns: numbers would
    be constants in the code.
    """
    input_frames, parts = InputFrames(frames), []
    for name, schema in inputs.items():
        if not input_frames.is_shared(name):
            columns = dict(zip(shared.of[name], schema.columns, strict=True))
            parts.append(frames[name].select(F.lit(name).alias(TAG), *filled(columns, shared.types)))
    for names, frame in input_frames.groups:
        needed = [name for name in names if name in inputs]
        if needed and isinstance(frame, DataFrame):
            columns = {}
            for name in needed:
                columns |= dict(zip(shared.of[name], inputs[name].columns, strict=True))
            tag = F.col(PREDICATE)
            # Tasks reject rows of other predicates than those of the frame.
            is_unknown = tag.isNull() | ~tag.isin(list(names))
            rows = frame if len(needed) == len(names) else frame.where(tag.isin(needed) | is_unknown)
            tag = F.coalesce(tag, F.lit(NO_PREDICATE))
            parts.append(rows.select(tag.alias(TAG), *filled(columns, shared.types)))
    first = session.range(1).select(F.lit(NONE).alias(TAG), *filled({}, shared.types))
    return union([first, *parts])
