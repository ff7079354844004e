"""The one stage that evaluates a program on Spark: inputs, settings, outputs; tasks of a barrier stage
that derive together.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.data.columns import Batch
from tidelog.data.relation import column_names
from tidelog.data.typed_columns import with_mixed
from tidelog.engine import exchange
from tidelog.engine.events import Tally
from tidelog.engine.exchange import Listener, Lost, make_certificate
from tidelog.engine.limits import Limits
from tidelog.equality import distributed as equality
from tidelog.equality.distributed import by_rules, task_of
from tidelog.errors import Diagnostic, Inconsistent, ProgramError, SourceText, codes, suggest
from tidelog.io.rejects import OnError
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import BOTTOM, Predicate, Program, Query
from tidelog.logic.resolve import giving_times, program_of, resolve_query, warn
from tidelog.logic.type_inference import Columns, Inferred, infer, infer_answers, united
from tidelog.logic.types import Contents
from tidelog.logic.values import ColumnType
from tidelog.reasoner.constraints import told_apart, violated
from tidelog.reasoner.reasoner import Reasoner
from tidelog.spark.frames import (
    FILES_TYPES,
    PREDICATE,
    SPECIAL,
    Derived,
    Frames,
    quoted,
    slots_of,
    slots_with,
    union,
)
from tidelog.spark.joins import Joins
from tidelog.spark.schemas import (
    Around,
    Input,
    Output,
    Readable,
    Said,
    Slots,
    arrow_of,
    counted,
    goes_around,
    outputs_of,
    read_input,
    slots,
    time_fields,
    with_nulls,
)
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship
from tidelog.spark.strategies import (
    EXCHANGE,
    JOINS,
    Choice,
    Limit,
    Metered,
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
    VIOLATIONS,
    Answers,
    Collected,
    Everything,
    Part,
    Reading,
    Target,
    Task,
    Writing,
    given_rows,
    written,
)
from tidelog.syntax.parser import parse_literals
from tidelog.temporal import distributed as temporal
from tidelog.temporal.temporal import USUAL, TimeSettings, asks_when
from tidelog.temporal.time_columns import split_batch

# ---- Settings of a reasoner, as far as they make sense where it runs in a task of Spark or follows a store.
#
# What is wrong with them is raised by the call, on the driver: in a worker it would be a failed task.

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
    "maintainer": "what is derived does not change; `maintain` follows changes",
    "marking": "no update is known before it comes",
    "durability": "nothing is stored; `maintain` has a store",
    "time": "facts that hold at times are not maintained by frames",
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

    >>> check_settings({"rejects": "rejects.csv"})
    Traceback (most recent call last):
    TypeError: `rejects` makes no sense on Spark: rejected rows are a frame: `on_error="collect"`
    """
    for name in settings:
        if name in allowed:
            continue
        if name in REFUSED:
            raise TypeError(f"`{name}` makes no sense on Spark: {REFUSED[name]}")
        near = suggest(name, sorted(allowed)) or f"there are {', '.join(sorted(allowed))}"
        raise TypeError(f"there is no setting `{name}`: {near}")
    if settings.get("equal", SHOWN[0]) not in SHOWN:
        raise ValueError(f"`equal` is {' or '.join(map(repr, SHOWN))}, not {settings['equal']!r}")
    time = settings.get("time")
    if time is not None and not isinstance(time, TimeSettings):
        raise TypeError(f"`time` is a TimeSettings, not {type(time).__name__}")
    Reasoner(**{name: value for name, value in settings.items() if name not in ("durability", "max_memory")})


def on_error_of(said: str) -> OnError:
    """Return what becomes of rows that cannot be read."""
    try:
        return OnError(said)
    except ValueError:
        known = ", ".join(f"`{each.value}`" for each in OnError)
        raise ValueError(f"on_error is one of {known}, not {said!r}") from None


# ---- Tasks of a barrier stage that derive together: each has a part of the rows, and they send what is new.
#
# They learn one another's addresses by one `allGather`. If one of them is lost, Spark runs the stage again.

SETTINGS: Final = ("timeout", "max_facts")
EQUALITY: Final = ("equality", "unique_names")
Deriving = exchange.Task | equality.Divided | temporal.Divided
UNREACHED: Final = (
    "tasks connect to one another, on any port: where executors cannot, "
    "leave it to one task, by `partitions=1`, or set `tidelog.strategy=joins`"
)


@dataclass(frozen=True)
class Exchange:
    """What each task of the stage runs; `secret` and `certificate` are known to these tasks only."""

    task: Task
    ask: Everything
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
        read = Metered(batches, given_rows)
        try:
            parts = self._parts(read, mesh, attempt)
            yield from self.task.rows(parts, read, hosts.count(hosts[mesh.number]))
        finally:
            mesh.close()

    def _meet(self, context: Any, hosts: Sequence[str]) -> tuple[exchange.Mesh, str]:
        """Return the connections with all other tasks, and what this attempt is called."""
        number = context.partitionId()
        listener = Listener(hosts[number])
        said = context.allGather(json.dumps([listener.address, token_hex(16)]))
        told = [json.loads(each) for each in said]
        addresses, attempt = [address for address, _ in told], told[0][1]
        try:
            mesh = listener.join(number, addresses, self.secret, attempt, certificate=self.certificate)
        except Lost as error:
            raise Lost([replace(each, help=UNREACHED) for each in error.diagnostics]) from None
        return mesh, attempt

    def _parts(self, batches: Iterable[Any], mesh: exchange.Mesh, attempt: str) -> Iterator[Part]:
        faults = Collected(self.task.on_error)
        program = self._program()
        with mesh:
            deriving = self._deriving(program, mesh, int(attempt, 16))
            for reading, read in self.task.read(batches, faults):
                _load(deriving, reading, _checked(read, faults))
            deriving.run()
        yield from self.task.shown(faults, self._outputs(deriving, program))

    def _settings(self, *names: str) -> dict[str, Any]:
        return {key: self.task.settings[key] for key in names if key in self.task.settings}

    def _program(self) -> Program:
        """Return the program that tasks derive."""
        program = by_rules(self.task.program, **self._settings(*EQUALITY))
        return program if BOTTOM in program.timed else told_apart(program)

    def _deriving(self, program: Program, mesh: exchange.Mesh, seed: int) -> Deriving:
        settings = self._settings(*SETTINGS)
        if program.timed:
            return temporal.Divided(program, mesh, seed=seed, **settings, **self._settings("time"))
        return task_of(program, mesh, seed=seed, **settings, **self._settings("equal", *EQUALITY))

    def _outputs(self, deriving: Deriving, program: Program) -> Iterator[Part]:
        found = violated(program, lambda name: deriving.columns(name)[1] > 0)
        if not isinstance(deriving, exchange.Task):
            found = [*deriving.violations(), *found]
        if found and not self.ask.keeps_violations:
            raise Inconsistent(found)
        if found:
            texts = [[item.code for item in found], [item.message for item in found]]
            yield Part(VIOLATIONS, dict(zip(("code", "message"), texts, strict=True)), len(texts[0]))
        for output in self.ask.outputs:
            yield from written(deriving.relation(output.predicate), output)


def _load(deriving: Deriving, reading: Reading, batches: Iterator[Batch]) -> None:
    """Give a task the rows of an input, with when they hold if it has columns that say so."""
    if reading.times:
        assert isinstance(deriving, temporal.Divided), "the program knows which predicates have times"
        is_integer = deriving.program.is_integer_time
        deriving.load_timed(
            reading.predicate, (split_batch(batch, reading.times, is_integer) for batch in batches)
        )
    else:
        deriving.load(reading.predicate, batches)


def _checked(batches: Iterator[Batch], faults: Collected) -> Iterator[Batch]:
    """Yield the batches, then raise if rows could not be read: the others are told by who loads them."""
    yield from batches
    faults.check()


# ---- What a program on Spark is given, and the one stage that evaluates it: inputs, their columns, and
# outputs.
#
# All inputs become one frame of tagged rows, and tasks evaluate the program over them; rows of all outputs
# come out, which `derived` makes frames of.

STRING = spark_types.StringType()
ANSWERS = "answers"  # the name of what a query asks for


@dataclass(frozen=True)
class Given:
    """A program with the inputs that it is a function of, and what is known of its columns."""

    program: Program
    inputs: Mapping[str, Input]
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
        nulls: Said | None = None,
        mixed: str = "text",
        tells: bool = True,
    ) -> Given:
        """Return a program with its inputs; raise all that is wrong with them.

        `tells` is whether a caller in Python is told of what never matches, given these inputs.
        """
        check_settings(settings)
        known = program_of(program)
        check_program(known)
        frames = Frames(inputs)
        _check_streaming(frames)
        schemas = {}
        for name in frames:
            predicate = known.find(name)
            schemas[name] = frames.schema_of(name, None if predicate is None else predicate.arity)
        read = with_nulls(read_schemas(known, schemas), nulls)
        known = giving_times(known, [each.predicate.name for each in read.values() if each.times])
        inferred = infer(known, *held_by(read.values()))
        if tells:
            warn(item for item in inferred.warnings if item not in known.warnings)
        return cls(known, read, inferred, settings, mixed)

    def derive(
        self,
        frames: Mapping[str, DataFrame],
        outputs: Sequence[str] | None,
        on_error: str,
        on_violation: str,
        choice: Choice = Choice(),  # noqa: B008 - it cannot be changed
        goes_around_tasks: bool = True,
    ) -> Derived:
        """Return the frames of predicates.

        Inputs that are outputs and that no rule reads go around tasks, unless these are to hold everything.
        """
        if on_violation not in ("fail", "keep"):
            raise ValueError(f"on_violation is `fail` or `keep`, not {on_violation!r}")
        program, faults = self.program, on_error_of(on_error)
        wanted = self.outputs(wanted_predicates(program, outputs))
        passing = {
            name: Around(output, Readable(frames[each], self.inputs[each], faults))
            for name, output in wanted.items()
            if goes_around_tasks
            and (each := self.input_of(output.predicate))
            and not Frames(frames).is_shared(each)  # it is read for others anyway
            and goes_around(program, self.inputs[each], output)
        }
        wanted = {name: output for name, output in wanted.items() if name not in passing}
        places = slots_of(wanted)
        ask = Everything(writings(wanted, places), on_violation == "keep")
        needed = read_by(program, [*wanted.values()])
        said = counted([each for each in self.inputs.values() if needed(each.predicate.name)])
        if choice.strategy == JOINS:
            joined = self._joined(frames, wanted, places, faults, ask.keeps_violations, needed)
            return Derived(lambda: joined, wanted, places, passing, are_counted=False, nulls=said)

        def write_files(target: Target) -> DataFrame:
            named = slots_with({FILES: FILES_TYPES})
            told = Derived(lambda: self.rows(ask, frames, named, faults, needed, choice, target), {}, named)
            return told.at_once(FILES, COLUMNS) if choice.tasks == 1 else told.only(FILES, COLUMNS)

        return Derived(
            lambda: self.rows(ask, frames, places, faults, needed, choice),
            wanted,
            places,
            passing,
            is_divided=choice.strategy == EXCHANGE,
            write_files=write_files,
            nulls=said,
        )

    def _joined(
        self,
        frames: Mapping[str, DataFrame],
        outputs: Mapping[str, Output],
        places: Slots,
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
        return joins.rows(inputs, outputs, places, on_error, keeps_violations)

    def query(
        self,
        frames: Mapping[str, DataFrame],
        text: str,
        on_error: str,
        tell: Callable[[Iterable[Diagnostic]], None] = warn,
    ) -> Derived:
        """Return a query's answers, as the output `answers`, with the rows that were rejected.

        `tell` is called with what never matches in the query.
        """
        asked = resolved(text, self.program)
        output = self.answers(asked)
        tell(infer_answers(asked.rule, self.inferred, self.program)[1])
        places = slots_of({ANSWERS: output})
        (writing,) = writings({ANSWERS: output}, places)
        needed = needed_for(asked, self.program)
        ask, faults = Answers(text, writing), on_error_of(on_error)
        said = counted([each for each in self.inputs.values() if needed(each.predicate.name)])
        return Derived(
            lambda: self.rows(ask, frames, places, faults, needed), {ANSWERS: output}, places, nulls=said
        )

    def choose(
        self, frames: Mapping[str, DataFrame], partitions: int | None, sizes: Mapping[str, int] | None
    ) -> Choice:
        """Choose where the program runs."""
        session = _known_session(frames)
        columns = {name: len(each.columns) for name, each in self.inputs.items()}
        time = self.settings.get("time", USUAL)
        return choose(self.program, session, Frames(frames).sources, partitions, sizes, columns, time)

    def check_one_task(self, frames: Mapping[str, DataFrame], what: str) -> None:
        """Raise if the session asks for several tasks, or joins, for what runs in one task."""
        check_one_task(_known_session(frames), what)

    def input_of(self, predicate: Predicate) -> str | None:
        """Return the name under which the one frame of a predicate is given, if there is one."""
        found = [name for name, each in self.inputs.items() if each.predicate == predicate]
        return found[0] if len(found) == 1 else None  # several files have to be put together

    def outputs(self, predicates: Sequence[Predicate]) -> dict[str, Output]:
        """Return what the frames of predicates hold."""
        found = outputs_of(predicates, self.inferred, self.mixed)
        timed = self.program.timed
        return {
            name: self._timed(each, column_names(each.predicate)) if each.predicate.name in timed else each
            for name, each in found.items()
        }

    def answers(self, query: Query) -> Output:
        """Return what the frame of a query's answers holds."""
        types, _ = infer_answers(query.rule, self.inferred, self.program)
        names = query.variables
        asked = Predicate(ANSWERS, len(names), names, (ColumnType.ANY,) * len(names), ANSWERS)
        schema = tuple(map(Contents, types))
        output = Output(asked, with_mixed(schema, self.mixed))
        return self._timed(output, names) if asks_when(query, self.program) else output

    def _timed(self, output: Output, names: Sequence[str]) -> Output:
        fields = time_fields(names, self.program, self.inputs.values(), self.settings)
        return replace(output, times=fields)

    def rows(
        self,
        ask: Any,
        frames: Mapping[str, DataFrame],
        places: Slots,
        on_error: OnError,
        needed: Callable[[str], bool],
        choice: Choice = Choice(),  # noqa: B008 - it cannot be changed
        target: Target | None = None,
    ) -> DataFrame:
        """Return the rows of all outputs, as tasks return them that read the inputs that are needed.

        With a target, tasks write the outputs to files, and the rows say which.
        """
        inputs = {name: each for name, each in self.inputs.items() if needed(each.predicate.name)}
        taken = slots({name: each.spark for name, each in inputs.items()})
        session = session_of(frames)
        limit = limit_of(session, self.program, choice.tasks)
        readings = {name: each.reading(taken.of[name]) for name, each in inputs.items()}
        task = self.task(ask, readings, places, on_error, limit, target)
        out = rows_schema(places)
        ship(session, scratch_folder())
        tagged = tagged_rows(session, frames, inputs, taken)
        if choice.is_small:
            tagged = tagged.coalesce(1)
        else:  # by all columns: Spark would sort rows that it deals out in turn, to deal them the same again
            tagged = tagged.repartition(choice.tasks, *(quoted(each) for each in tagged.columns))
        if choice.strategy != EXCHANGE:
            return tagged.mapInArrow(Shipped(task), out)
        certificate = make_certificate() if is_encrypted(session) else None
        together = Exchange(task, ask, choice.tasks, token_bytes(32), certificate)
        return tagged.mapInArrow(Shipped(together), out, barrier=True)

    def task(
        self,
        ask: Any,
        readings: Mapping[str, Reading],
        places: Slots,
        on_error: OnError,
        limit: Limit,
        target: Target | None = None,
    ) -> Task:
        """Return what a task does that reads rows of inputs and returns those of outputs."""
        program = replace(self.program, queries=(), outputs=())
        schema = {slot: arrow_of(of) for slot, of in places.types.items()}
        special = {name: places.of[name] for name in (*SPECIAL, FILES) if name in places.of}
        return Task(program, readings, ask, schema, special, on_error, self.settings, limit, target)


def rows_schema(places: Slots) -> spark_types.StructType:
    """Return the schema of the rows that tasks return."""
    fields = [(TAG, STRING), *places.types.items()]
    return spark_types.StructType([spark_types.StructField(*field) for field in fields])


def check_program(program: Program) -> None:
    """Raise what a program says that frames do not have: all of it, with the list of predicates to pass."""
    imported = dict.fromkeys(program.predicates[each.predicate].written for each in program.imports)
    passed = "pass their frames: {" + ", ".join(f'"{name}": …' for name in imported) + "}"
    found = []
    for transfer in program.imports:
        written = program.predicates[transfer.predicate].written
        message = f"`{written}` is imported, but here frames go in"
        found.append(Diagnostic(codes.TRANSFER, message, transfer.span, passed))
    for transfer in program.exports:
        written = program.predicates[transfer.predicate].written
        message = f"`{written}` is exported, but here frames go out"
        help = f'write the frame: `derived["{written}"].write…`'
        found.append(Diagnostic(codes.TRANSFER, message, transfer.span, help))
    if found:
        raise ProgramError(found)


def _check_streaming(frames: Frames) -> None:
    if any(frame.isStreaming for frame in frames.sources):
        streaming = [
            name for name, frame in frames.items() if isinstance(frame, DataFrame) and frame.isStreaming
        ]
        message = f"{', '.join(f'`{name}`' for name in streaming)}: a streaming frame"
        help = "each micro-batch would be evaluated alone; use `foreachBatch`"
        raise ProgramError(Diagnostic(codes.STREAMING, message, help=help))


def held_by(inputs: Iterable[Input]) -> tuple[dict[str, Columns], dict[str, Columns]]:
    """Return the types of what inputs hold, by predicate, and those of missing values that are values."""
    types: dict[str, Columns] = {}
    missing: dict[str, Columns] = {}
    for each in inputs:
        name = each.predicate.name
        types[name] = united(types.get(name, each.held), each.held)
        missing[name] = united(missing.get(name, each.missing), each.missing)
    return types, missing


def read_schemas(program: Program, schemas: Mapping[str, spark_types.StructType]) -> dict[str, Input]:
    found: dict[str, Input] = {}
    faults: list[Diagnostic] = []
    for name, schema in schemas.items():
        read, wrong = read_input(name, program.find(name), schema)
        faults += wrong
        if read is not None:
            found[name] = read
    if faults:
        raise ProgramError(faults)
    return found


# ---- what is asked for


def wanted_predicates(program: Program, outputs: Sequence[str] | None) -> list[Predicate]:
    """Return the predicates that are asked for."""
    if outputs is None:
        return [program.predicates[name] for name in program.output_predicates if name != BOTTOM]
    found, faults = [], []
    names = [predicate.written for predicate in program.predicates.values()]
    for name in outputs:
        predicate = program.find(name)
        if predicate is None:
            message, help = f"there is no predicate `{name}`", suggest(name, names)
            faults.append(Diagnostic(codes.NO_SUCH_PREDICATE, message, help=help))
        else:
            found.append(predicate)
    if faults:
        raise ProgramError(faults)
    return found


def resolved(text: str, program: Program) -> Query:
    return resolve_query(parse_literals(SourceText("<query>", text)), program, text)


def read_by(program: Program, outputs: Sequence[Output]) -> Callable[[str], bool]:
    """Return whether the facts of a predicate matter: some rule reads them, or they are an output."""
    matter = {atom.predicate for rule in program.rules for atom in (*rule.positive, *rule.negated)}
    matter |= program.derived | {output.predicate.name for output in outputs}
    return lambda name: name in matter or has_equality(program.predicates)


def needed_for(query: Query, program: Program) -> Callable[[str], bool]:
    """Return whether the answers to a query depend on a predicate, or constraints do."""
    if has_equality(program.predicates):
        return lambda name: True
    needed = {atom.predicate for atom in (*query.rule.positive, *query.rule.negated)} | {BOTTOM}
    size = 0
    while size != len(needed):
        size = len(needed)
        for rule in program.rules:
            if rule.head.predicate in needed:
                needed.update(atom.predicate for atom in (*rule.positive, *rule.negated))
    return lambda name: name in needed


def only_input(program: Program, more: Mapping[str, object]) -> str:
    """Return the one predicate that frames can be given for."""
    stated = {fact.predicate for fact in program.facts}
    given = [
        predicate.written
        for name, predicate in program.predicates.items()
        if name not in program.derived | stated and predicate.written not in more
    ]
    if len(given) != 1:
        message = f"the frame may be one of {', '.join(f'`{name}`' for name in given) or 'no predicates'}"
        raise ProgramError(Diagnostic(codes.NO_SUCH_PREDICATE, message, help='say which: `input="…"`'))
    return given[0]


# ---- rows of all inputs, and of all outputs


def writings(outputs: Mapping[str, Output], places: Slots) -> tuple[Writing, ...]:
    return tuple(
        Writing(
            name,
            output.predicate.name,
            places.of[name],
            output.types,
            tuple(arrow_of(of) for _, of in output.times),
        )
        for name, output in outputs.items()
    )


def _known_session(frames: Mapping[str, DataFrame]) -> SparkSession | None:
    """Return the session of the frames, else the one that runs, if there is one."""
    given = Frames(frames)
    for name in given.schemas:  # `check` takes schemas instead of frames
        raise TypeError(f"`{name}` is a schema, and here a DataFrame is needed")
    return next((frame.sparkSession for frame in given.sources), None) or SparkSession.getActiveSession()


def session_of(frames: Mapping[str, DataFrame]) -> SparkSession:
    session = _known_session(frames)
    if session is None:
        help = "start one: `SparkSession.builder.getOrCreate()`"
        raise ProgramError(Diagnostic(codes.NO_SESSION, "there is no Spark session", help=help))
    return session


def tagged_rows(
    session: SparkSession, frames: Mapping[str, DataFrame], inputs: Mapping[str, Input], taken: Slots
) -> DataFrame:
    """Return the rows of all inputs in one frame, with the name of their input.

    The name is text, since Spark compiles one program for all frames of the same columns then: numbers would
    be constants in it.
    """
    given, parts = Frames(frames), []
    for name, each in inputs.items():
        if not given.is_shared(name):
            places = dict(zip(taken.of[name], each.columns, strict=True))
            parts.append(frames[name].select(F.lit(name).alias(TAG), *_filled(places, taken)))
    for names, whole in given.groups:
        wanted = [name for name in names if name in inputs]
        if wanted and isinstance(whole, DataFrame):
            places = {}
            for name in wanted:
                places |= dict(zip(taken.of[name], inputs[name].columns, strict=True))
            tag = F.col(PREDICATE)
            # Rows of other predicates than those that it was given for are told by the task.
            is_unknown = tag.isNull() | ~tag.isin(list(names))
            rows = whole if len(wanted) == len(names) else whole.where(tag.isin(wanted) | is_unknown)
            tag = F.coalesce(tag, F.lit(NO_PREDICATE))
            parts.append(rows.select(tag.alias(TAG), *_filled(places, taken)))
    first = session.range(1).select(F.lit(NONE).alias(TAG), *_filled({}, taken))
    return union([first, *parts])


def _filled(places: Mapping[str, str], taken: Slots) -> Iterator[Any]:
    """Yield a column for each slot: one of the frame's, or none."""
    for slot, of in taken.types.items():
        column = F.col(quoted(places[slot])) if slot in places else F.lit(None).cast(of)
        yield column.alias(slot)
