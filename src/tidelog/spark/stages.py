"""The driver's side of a derivation: what a program is given, and the one stage of Spark that evaluates it.

A program is bound to its inputs (`BoundProgram.of`): names, columns and types are checked, and the types of
what it derives are inferred. Then it is decided where it runs (`choose`). The rows of all inputs become one
frame, in which a tag says of which input a row is (`tagged_rows`), and tasks evaluate the program over them
(`BoundProgram.rows`): one task by `mapInArrow`, or those of a barrier stage, behind a shuffle. Rows of all
outputs come out, which `frames.Derived` makes frames of. `worker` is what runs in the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from tidelog.engine.limits import Limits
from tidelog.errors import Diagnostic, ProgramError, SourceText, codes, suggest
from tidelog.io.rejects import OnError
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import BOTTOM, Predicate, Program, Query
from tidelog.logic.resolve import giving_times, program_of, resolve_query, warn
from tidelog.logic.type_inference import Columns, Inferred, infer, infer_answers, united
from tidelog.logic.types import Contents
from tidelog.logic.values import ColumnType
from tidelog.reasoner.reasoner import check_choices
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

# Settings of a reasoner that make sense where it runs in a task of Spark, and where it follows a store.
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
# Settings of reasoners and stores that make no sense on Spark, and what to do instead.
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
    """Raise what is wrong with settings: names as `TypeError`, values as they are where a reasoner is made.

    The call on the driver raises it: in a worker it would be a failed task.

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


def on_error_of(said: str) -> OnError:
    """Return what becomes of rows that cannot be read."""
    try:
        return OnError(said)
    except ValueError:
        known = ", ".join(f"`{each.value}`" for each in OnError)
        raise ValueError(f"on_error is one of {known}, not {said!r}") from None


STRING = spark_types.StringType()
ANSWERS = "answers"  # the name of what a query asks for
FrameSource = DataFrame | spark_types.StructType


class InputFrames(Mapping[str, Any]):
    """Frames, or their schemas where nothing will run, by the name of the predicate.

    A frame that is given for several predicates, `{("flight", "train"): connections}`, has a column
    `predicate`; the others are the columns of the predicates, in order. It is read once for all of them.
    """

    def __init__(
        self, given: Mapping[str, Any] | Mapping[tuple[str, ...], Any] | Mapping[str | tuple[str, ...], Any]
    ) -> None:
        self._own: dict[str, FrameSource] = {}
        self._shared: dict[str, FrameSource] = {}
        self.groups: list[tuple[tuple[str, ...], FrameSource]] = []
        if isinstance(given, InputFrames):
            self._own, self._shared, self.groups = given._own, given._shared, given.groups
            return
        for name, source in given.items():
            if not isinstance(source, DataFrame | spark_types.StructType):
                raise TypeError(f"`{name}` is not a DataFrame, but {type(source).__name__}")
            if isinstance(name, tuple):
                _check_predicate_column(name, source)
                self.groups.append((name, source))
                self._shared |= dict.fromkeys(name, source)
            else:
                self._own[name] = source
        twice = self._own.keys() & self._shared.keys()
        if twice or sum(len(names) for names, _ in self.groups) > len(self._shared):
            raise ValueError(f"several frames are given for {', '.join(sorted(twice or self._shared))}")

    def __getitem__(self, name: str) -> Any:
        """Return the frame, or the schema, of one predicate."""
        if name in self._own:
            return self._own[name]
        whole = self._shared[name]
        if not isinstance(whole, DataFrame):
            return _without_predicate(whole)
        return whole.where(F.col(PREDICATE) == name).drop(PREDICATE)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._shared

    def __len__(self) -> int:
        return len(self._own) + len(self._shared)

    def is_shared(self, name: str) -> bool:
        """Whether the frame of a predicate holds others, too."""
        return name in self._shared

    @property
    def sources(self) -> list[DataFrame]:
        """The frames that are given, each once."""
        shared = (source for _, source in self.groups)
        return [each for each in (*self._own.values(), *shared) if isinstance(each, DataFrame)]

    @property
    def schemas(self) -> list[str]:
        """The predicates of which only a schema is given."""
        given = {**self._own, **self._shared}
        return [name for name, source in given.items() if not isinstance(source, DataFrame)]

    def schema_of(self, name: str, arity: int | None) -> spark_types.StructType:
        """Return the schema of a predicate's frame; a shared one has columns for the widest predicate."""
        source = self._own.get(name, self._shared.get(name))
        schema = source.schema if isinstance(source, DataFrame) else source
        assert schema is not None
        if name in self._own:
            return schema
        return spark_types.StructType(_without_predicate(schema).fields[:arity])


def _without_predicate(schema: spark_types.StructType) -> spark_types.StructType:
    return spark_types.StructType([each for each in schema.fields if each.name != PREDICATE])


def _check_predicate_column(names: tuple[str, ...], source: FrameSource) -> None:
    schema = source.schema if isinstance(source, DataFrame) else source
    if PREDICATE not in schema.names or not isinstance(schema[PREDICATE].dataType, spark_types.StringType):
        shown = ", ".join(f"`{name}`" for name in names)
        message = f"the frame of {shown} has no column `{PREDICATE}` of strings, to tell them apart"
        help = f'add one, such as `frame.withColumn("{PREDICATE}", …)`, or give a frame for each predicate'
        raise ProgramError(Diagnostic(codes.WRONG_COLUMNS, message, help=help))


@dataclass(frozen=True)
class BoundProgram:
    """A program with the inputs that it is a function of, and what is known of its columns."""

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
        """Bind a program to its inputs; raise all that is wrong with them.

        `warns` is whether a caller in Python is warned of what never matches, given these inputs.
        """
        check_settings(settings)
        known = program_of(program)
        check_program(known)
        frames = InputFrames(inputs)
        _check_streaming(frames)
        schemas = {}
        for name in frames:
            predicate = known.find(name)
            schemas[name] = frames.schema_of(name, None if predicate is None else predicate.arity)
        read = with_nulls(read_schemas(known, schemas), nulls)
        known = giving_times(known, [each.predicate.name for each in read.values() if each.times])
        inferred = infer(known, *types_in(read.values()))
        if warns:
            warn(item for item in inferred.warnings if item not in known.warnings)
        return cls(known, read, inferred, settings, mixed)

    def choose(
        self, frames: Mapping[str, DataFrame], partitions: int | None, sizes: Mapping[str, int] | None
    ) -> StrategyChoice:
        """Choose where the program runs."""
        session = _known_session(frames)
        columns = {name: len(each.columns) for name, each in self.inputs.items()}
        time = self.settings.get("time", USUAL)
        return choose(self.program, session, InputFrames(frames).sources, partitions, sizes, columns, time)

    def check_one_task(self, frames: Mapping[str, DataFrame], what: str) -> None:
        """Raise if the session asks for several tasks, or joins, for what runs in one task."""
        check_one_task(_known_session(frames), what)

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

        Inputs that are outputs and that no rule reads do not go through tasks, unless these are to hold
        everything.
        """
        if on_violation not in ("fail", "keep"):
            raise ValueError(f"on_violation is `fail` or `keep`, not {on_violation!r}")
        policy = on_error_of(on_error)
        wanted = self.outputs(wanted_predicates(self.program, outputs))
        passing = self._passing_through(frames, wanted, policy) if may_pass_through else {}
        wanted = {name: output for name, output in wanted.items() if name not in passing}
        shared = share_output_columns(wanted)
        ask = AllFacts(output_columns(wanted, shared), on_violation == "keep")
        needed = read_by(self.program, [*wanted.values()])
        nulls = counted([each for each in self.inputs.values() if needed(each.predicate.name)])
        if choice.strategy == JOINS:
            joined = self._join(frames, wanted, shared, policy, ask.keeps_violations, needed)
            return Derived(lambda: joined, wanted, shared, passing, are_counted=False, nulls=nulls)

        def write_files(target: FileTarget) -> DataFrame:
            named = share_with_special({FILES: FILES_TYPES})
            rows = Derived(lambda: self.rows(ask, frames, named, policy, needed, choice, target), {}, named)
            return rows.at_once(FILES, COLUMNS) if choice.tasks == 1 else rows.only(FILES, COLUMNS)

        return Derived(
            lambda: self.rows(ask, frames, shared, policy, needed, choice),
            wanted,
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
            name: PassThrough(output, ReadableRows(frames[given], self.inputs[given], on_error))
            for name, output in outputs.items()
            if (given := self.input_of(output.predicate))
            and not InputFrames(frames).is_shared(given)  # it is read for others anyway
            and passes_through(self.program, self.inputs[given], output)
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
        """Return the rows of all outputs, as joins derive them: jobs run now."""
        session = session_of(frames)
        ship(session, scratch_folder())
        inputs = [(frames[name], each) for name, each in self.inputs.items() if needed(each.predicate.name)]
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

        `on_warnings` is called with what never matches in the query.
        """
        query = resolved(text, self.program)
        output = self.answers(query)
        on_warnings(infer_answers(query.rule, self.inferred, self.program)[1])
        shared = share_output_columns({ANSWERS: output})
        (columns,) = output_columns({ANSWERS: output}, shared)
        needed = needed_for(query, self.program)
        ask, policy = QueryAnswers(text, columns), on_error_of(on_error)
        nulls = counted([each for each in self.inputs.values() if needed(each.predicate.name)])
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
        """Return the rows of all outputs, as tasks return them that read the inputs that are needed.

        With a target, tasks write the outputs to files, and the rows say which.
        """
        inputs = {name: each for name, each in self.inputs.items() if needed(each.predicate.name)}
        taken = share_columns({name: each.spark for name, each in inputs.items()})
        session = session_of(frames)
        limit = limit_of(session, self.program, choice.tasks)
        columns = {name: each.reading(taken.of[name]) for name, each in inputs.items()}
        task = self.task(ask, columns, shared, on_error, limit, target)
        schema = rows_schema(shared)
        ship(session, scratch_folder())
        tagged = tagged_rows(session, frames, inputs, taken)
        if choice.is_small:
            tagged = tagged.coalesce(1)
        else:  # by all columns: Spark would sort rows that it deals out in turn, to deal them the same again
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
        """Return what a task does that reads rows of inputs and returns those of outputs."""
        program = replace(self.program, queries=(), outputs=())
        schema = {slot: arrow_of(of) for slot, of in shared.types.items()}
        special = {name: shared.of[name] for name in (*SPECIAL, FILES) if name in shared.of}
        return DerivationTask(program, inputs, ask, schema, special, on_error, self.settings, limit, target)

    def input_of(self, predicate: Predicate) -> str | None:
        """Return the name under which the one frame of a predicate is given, if there is one."""
        found = [name for name, each in self.inputs.items() if each.predicate == predicate]
        return found[0] if len(found) == 1 else None  # several files have to be put together

    def outputs(self, predicates: Sequence[Predicate]) -> dict[str, OutputSchema]:
        """Return what the frames of predicates hold."""
        found = outputs_of(predicates, self.inferred, self.mixed)
        timed = self.program.timed
        return {
            name: self._timed(each, column_names(each.predicate)) if each.predicate.name in timed else each
            for name, each in found.items()
        }

    def answers(self, query: Query) -> OutputSchema:
        """Return what the frame of a query's answers holds."""
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
    """Raise what a program says that frames do not have: all of it, with the list of predicates to pass."""
    imported = dict.fromkeys(program.predicates[each.predicate].written for each in program.imports)
    passed = "pass their frames: {" + ", ".join(f'"{name}": …' for name in imported) + "}"
    found = []
    for transfer in program.imports:
        name = program.predicates[transfer.predicate].written
        message = f"`{name}` is imported, but here frames go in"
        found.append(Diagnostic(codes.TRANSFER, message, transfer.span, passed))
    for transfer in program.exports:
        name = program.predicates[transfer.predicate].written
        message = f"`{name}` is exported, but here frames go out"
        help = f'write the frame: `derived["{name}"].write…`'
        found.append(Diagnostic(codes.TRANSFER, message, transfer.span, help))
    if found:
        raise ProgramError(found)


def _check_streaming(frames: InputFrames) -> None:
    if any(frame.isStreaming for frame in frames.sources):
        streaming = [
            name for name, frame in frames.items() if isinstance(frame, DataFrame) and frame.isStreaming
        ]
        message = f"{', '.join(f'`{name}`' for name in streaming)}: a streaming frame"
        help = "each micro-batch would be evaluated alone; use `foreachBatch`"
        raise ProgramError(Diagnostic(codes.STREAMING, message, help=help))


def types_in(inputs: Iterable[InputSchema]) -> tuple[dict[str, Columns], dict[str, Columns]]:
    """Return the types of what inputs hold, by predicate, and those of missing values that are values."""
    types: dict[str, Columns] = {}
    missing: dict[str, Columns] = {}
    for each in inputs:
        name = each.predicate.name
        types[name] = united(types.get(name, each.held), each.held)
        missing[name] = united(missing.get(name, each.missing), each.missing)
    return types, missing


def read_schemas(program: Program, schemas: Mapping[str, spark_types.StructType]) -> dict[str, InputSchema]:
    """Return how frames of these schemas are read; raise all that is wrong with them."""
    found: dict[str, InputSchema] = {}
    faults: list[Diagnostic] = []
    for name, schema in schemas.items():
        read, wrong = read_input(name, program.find(name), schema)
        faults += wrong
        if read is not None:
            found[name] = read
    if faults:
        raise ProgramError(faults)
    return found


def wanted_predicates(program: Program, outputs: Sequence[str] | None) -> list[Predicate]:
    """Return the requested predicates."""
    if outputs is None:
        return [program.predicates[name] for name in program.output_predicates if name != BOTTOM]
    found, faults = [], []
    names = [predicate.written for predicate in program.predicates.values()]
    for name in outputs:
        predicate = program.find(name)
        if predicate is None:
            message, help = f"unknown predicate `{name}`", suggest(name, names)
            faults.append(Diagnostic(codes.NO_SUCH_PREDICATE, message, help=help))
        else:
            found.append(predicate)
    if faults:
        raise ProgramError(faults)
    return found


def resolved(text: str, program: Program) -> Query:
    """Return the query that a text is."""
    return resolve_query(parse_literals(SourceText("<query>", text)), program, text)


def read_by(program: Program, outputs: Sequence[OutputSchema]) -> Callable[[str], bool]:
    """Return whether the facts of a predicate matter: some rule reads them, or they are an output."""
    matter = {name for rule in program.rules for name in rule.read}
    matter |= program.derived | {output.predicate.name for output in outputs}
    return lambda name: name in matter or has_equality(program.predicates)


def needed_for(query: Query, program: Program) -> Callable[[str], bool]:
    """Return whether the answers to a query depend on a predicate, or constraints do."""
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
    """Return the one predicate that frames can be given for."""
    explicit = {fact.predicate for fact in program.facts}
    given = [
        predicate.written
        for name, predicate in program.predicates.items()
        if name not in program.derived | explicit and predicate.written not in more
    ]
    if len(given) != 1:
        message = f"the frame may be one of {', '.join(f'`{name}`' for name in given) or 'no predicates'}"
        raise ProgramError(Diagnostic(codes.NO_SUCH_PREDICATE, message, help='say which: `input="…"`'))
    return given[0]


def _known_session(frames: Mapping[str, DataFrame]) -> SparkSession | None:
    """Return the session of the frames, else the one that runs, if there is one."""
    given = InputFrames(frames)
    for name in given.schemas:  # `check` takes schemas instead of frames
        raise TypeError(f"`{name}` is a schema, and here a DataFrame is needed")
    return next((frame.sparkSession for frame in given.sources), None) or SparkSession.getActiveSession()


def session_of(frames: Mapping[str, DataFrame]) -> SparkSession:
    """Return the session of the frames, else the one that runs; raise if there is none."""
    session = _known_session(frames)
    if session is None:
        help = "start one: `SparkSession.builder.getOrCreate()`"
        raise ProgramError(Diagnostic(codes.NO_SESSION, "no Spark session is running", help=help))
    return session


def rows_schema(shared: SharedColumns) -> spark_types.StructType:
    """Return the schema of the rows that tasks return."""
    fields = [(TAG, STRING), *shared.types.items()]
    return spark_types.StructType([spark_types.StructField(*field) for field in fields])


def output_columns(outputs: Mapping[str, OutputSchema], shared: SharedColumns) -> tuple[OutputColumns, ...]:
    """Return where tasks put the columns of outputs."""
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
    taken: SharedColumns,
) -> DataFrame:
    """Return the rows of all inputs in one frame, with the name of their input.

    The name is text, since Spark compiles one program for all frames of the same columns then: numbers would
    be constants in it.
    """
    given, parts = InputFrames(frames), []
    for name, each in inputs.items():
        if not given.is_shared(name):
            columns = dict(zip(taken.of[name], each.columns, strict=True))
            parts.append(frames[name].select(F.lit(name).alias(TAG), *filled(columns, taken.types)))
    for names, whole in given.groups:
        wanted = [name for name in names if name in inputs]
        if wanted and isinstance(whole, DataFrame):
            columns = {}
            for name in wanted:
                columns |= dict(zip(taken.of[name], inputs[name].columns, strict=True))
            tag = F.col(PREDICATE)
            # Tasks reject rows of other predicates than those that the frame was given for.
            is_unknown = tag.isNull() | ~tag.isin(list(names))
            rows = whole if len(wanted) == len(names) else whole.where(tag.isin(wanted) | is_unknown)
            tag = F.coalesce(tag, F.lit(NO_PREDICATE))
            parts.append(rows.select(tag.alias(TAG), *filled(columns, taken.types)))
    first = session.range(1).select(F.lit(NONE).alias(TAG), *filled({}, taken.types))
    return union([first, *parts])
