"""A program as a function from DataFrames to DataFrames: lazy, without an action.

All inputs become one frame of tagged rows, one task evaluates the program over them, and each output is a
filter over what comes out. Spark runs the task when an output is used: once for each action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types
from pyspark.storagelevel import StorageLevel

from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.io.faults import OnError
from tidelog.logic.inference import infer
from tidelog.logic.program import BOTTOM, Predicate, Program
from tidelog.logic.resolve import program_of
from tidelog.spark import codes
from tidelog.spark.schemas import Input, Output, Slots, arrow_of, outputs_of, read_input, slots
from tidelog.spark.task import REJECTS, TAG, VIOLATIONS, Reading, Task, Writing

NONE = -1  # the tag of a row that is there so that the task runs even where no input has rows
SPECIAL = {REJECTS: ("place", "code", "reason", "row"), VIOLATIONS: ("code", "message")}
STRING = spark_types.StringType()
SHARED = "_shared"  # a column of random numbers


def derive(
    program: Program | Path | str,
    inputs: Mapping[str, DataFrame] | None = None,
    *,
    outputs: Sequence[str] | None = None,
    on_error: str = "fail",
    on_violation: str = "fail",
    **settings: Any,
) -> Derived:
    """Return the frames that a program derives from others, by predicate. Nothing runs yet.

    Columns of an input are taken by the names of the predicate's columns if it has them all, else in order.
    `outputs` are the predicates wanted, by default those of `@output`, else all derived ones. `on_error` is
    `fail`, or `collect` to have rows that cannot be read in `rejects`; `on_violation` is `fail`, or `keep` to
    have them in `violations`. Further settings are those of `Reasoner`.
    """
    if on_violation not in ("fail", "keep"):
        raise ValueError(f"on_violation is `fail` or `keep`, not {on_violation!r}")
    given = dict(inputs or {})
    known = program_of(program)
    _check_program(known)
    read = _read_inputs(known, given)
    columns = {each.predicate.name: each.types for each in read.values()}
    inferred = infer(known, columns)
    wanted = outputs_of(_wanted(known, outputs), inferred)
    taken, slots_out = _slots_of_inputs(read), _slots_of_outputs(wanted)
    task = _task(known, read, wanted, taken, slots_out)
    task = replace(task, on_error=OnError(on_error), keeps_violations=on_violation == "keep")
    task = replace(task, settings={"threads": 1, **settings})
    fields = [(TAG, STRING), *slots_out.types.items()]
    schema = spark_types.StructType([spark_types.StructField(*field) for field in fields])
    rows = _tagged(given, read, taken).repartition(1).mapInArrow(task, schema)
    return Derived(rows, wanted, slots_out)


def rules(
    program: Program | Path | str, output: str, *, input: str | None = None, **more: DataFrame
) -> Callable[[DataFrame], DataFrame]:
    """Return a function for `DataFrame.transform`: what a program derives for one output.

    `input` is the predicate of the frame that is transformed; it may be left out where there is only one.
    """
    known = program_of(program)

    def transform(frame: DataFrame) -> DataFrame:
        name = input or _only_input(known, more)
        return derive(known, {name: frame, **more}, outputs=[output])[output]

    return transform


def check(
    program: Program | Path | str,
    inputs: Mapping[str, DataFrame | spark_types.StructType] | None = None,
    *,
    outputs: Sequence[str] | None = None,
) -> dict[str, spark_types.StructType]:
    """Return the schemas of the outputs, or raise all that is wrong with the program and the inputs."""
    known = program_of(program)
    _check_program(known)
    given = (inputs or {}).items()
    schemas = {name: each.schema if isinstance(each, DataFrame) else each for name, each in given}
    read = _read_schemas(known, schemas)
    inferred = infer(known, {each.predicate.name: each.types for each in read.values()})
    return {name: output.schema for name, output in outputs_of(_wanted(known, outputs), inferred).items()}


class Derived(Mapping[str, DataFrame]):
    """The frames of a program's outputs, by predicate.

    Each action evaluates the program; in `with derived.persist():` only the first one does. The `observation`
    has how many facts there are of each predicate once an action has run.
    """

    def __init__(self, rows: DataFrame, outputs: Mapping[str, Output], given: Slots) -> None:
        self.outputs = outputs
        self.observation = Observation()
        counts = [F.count_if(F.col(TAG) == name).alias(name) for name in (*outputs, REJECTS, VIOLATIONS)]
        self._slots = given
        # An exchange, so that whatever follows runs in as many tasks as its size asks for.
        self._rows = rows.observe(self.observation, *counts).hint("rebalance").withColumn(SHARED, F.rand(0))
        self._frames = {
            name: self._frame(name, [column for column, _ in output.fields])
            for name, output in outputs.items()
        }
        self.rejects = self._frame(REJECTS, SPECIAL[REJECTS])
        self.violations = self._frame(VIOLATIONS, SPECIAL[VIOLATIONS])

    def __getitem__(self, name: str) -> DataFrame:
        """Return the facts of a predicate as a frame."""
        if name not in self._frames:
            raise KeyError(f"{name!r} is not among the outputs: {', '.join(self.outputs)}")
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return f"<Derived: {', '.join(self.outputs)}>"

    @property
    def facts(self) -> DataFrame:
        """All outputs in one frame: the predicate of each row, and a struct for each of them."""
        parts = [F.col(TAG)]
        for name, output in self.outputs.items():
            fields = zip(self._slots.of[name], output.fields, strict=True)
            struct = F.struct(*(F.col(_quoted(slot)).alias(column) for slot, (column, _) in fields))
            parts.append(F.when(F.col(TAG) == name, struct).alias(name))
        return self._shared.where(F.col(TAG).isin(list(self.outputs))).select(*parts)

    @property
    def _shared(self) -> DataFrame:
        """The rows of all outputs; one query that uses several of them evaluates the program once.

        A filter does not move below what is random, and each consumer needs every column: so the exchange
        below is the same for all of them, and Spark uses it again.
        """
        every = [F.col(_quoted(name)).isNull() for name in (TAG, *self._slots.types)]
        return self._rows.where((F.col(SHARED) >= 0) & ~reduce(lambda one, other: one & other, every))

    def _frame(self, name: str, columns: Sequence[str]) -> DataFrame:
        places = zip(self._slots.of[name], columns, strict=True)
        chosen = [F.col(_quoted(slot)).alias(column) for slot, column in places]
        return self._shared.where(F.col(TAG) == name).select(*chosen)

    # ---- kept

    def persist(self, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER) -> Derived:
        """Keep the rows of all outputs once they are derived; use it in a `with` block, or `unpersist`."""
        self._rows.persist(level)
        return self

    def unpersist(self) -> None:
        """Release rows that were kept."""
        self._rows.unpersist()

    def __enter__(self) -> Derived:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self.unpersist()


# ---- what is asked for


def _check_program(program: Program) -> None:
    """Raise what a program says that frames do not have."""
    found = []
    for transfer in (*program.imports, *program.exports):
        written = program.predicates[transfer.predicate].written
        message = f"`{written}` is imported or exported, but here frames go in and out"
        help = f'pass the frame of each import, such as {{"{written}": …}}, and write what is derived'
        found.append(Diagnostic(codes.TRANSFER, message, transfer.span, help))
    if program.timed:
        rule = next((rule for rule in program.rules if rule.head.predicate in program.timed), None)
        message = "facts that hold at times are not derived on frames yet"
        help = "use `tidelog run`, or `tl.Reasoner`, whose relations have columns for times"
        found.append(Diagnostic(codes.TIMED, message, None if rule is None else rule.span, help))
    if found:
        raise ProgramError(found)


def _read_inputs(program: Program, frames: Mapping[str, DataFrame]) -> dict[str, Input]:
    streaming = [name for name, frame in frames.items() if frame.isStreaming]
    if streaming:
        message = f"{', '.join(f'`{name}`' for name in streaming)}: a streaming frame"
        help = "each micro-batch would be evaluated alone; use `foreachBatch`"
        raise ProgramError(Diagnostic(codes.STREAMING, message, help=help))
    return _read_schemas(program, {name: frame.schema for name, frame in frames.items()})


def _read_schemas(program: Program, schemas: Mapping[str, spark_types.StructType]) -> dict[str, Input]:
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


def _wanted(program: Program, outputs: Sequence[str] | None) -> list[Predicate]:
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


def _only_input(program: Program, more: Mapping[str, object]) -> str:
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


def _slots_of_inputs(inputs: Mapping[str, Input]) -> Slots:
    return slots({name: each.spark for name, each in inputs.items()})


def _slots_of_outputs(outputs: Mapping[str, Output]) -> Slots:
    of_facts = {name: [of for _, of in output.fields] for name, output in outputs.items()}
    return slots({**of_facts, **{name: [STRING] * len(columns) for name, columns in SPECIAL.items()}})


def _task(
    program: Program,
    inputs: Mapping[str, Input],
    outputs: Mapping[str, Output],
    taken: Slots,
    given: Slots,
) -> Task:
    """Return what a worker runs."""
    readings = tuple(
        Reading(each.predicate.name, taken.of[name], each.read_as, each.columns)
        for name, each in inputs.items()
    )
    writings = tuple(
        Writing(name, output.predicate.name, given.of[name], output.types) for name, output in outputs.items()
    )
    schema = {slot: arrow_of(of) for slot, of in given.types.items()}
    special = {name: given.of[name] for name in SPECIAL}
    return Task(replace(program, queries=(), outputs=()), readings, writings, schema, special)


def _tagged(frames: Mapping[str, DataFrame], inputs: Mapping[str, Input], taken: Slots) -> DataFrame:
    """Return the rows of all inputs in one frame, with the number of their input."""
    session = next((frame.sparkSession for frame in frames.values()), None) or SparkSession.getActiveSession()
    if session is None:
        help = "make one first: `SparkSession.builder.getOrCreate()`"
        raise ProgramError(Diagnostic(codes.NO_SESSION, "there is no Spark session", help=help))
    parts = []
    for number, (name, each) in enumerate(inputs.items()):
        places = dict(zip(taken.of[name], each.columns, strict=True))
        parts.append(frames[name].select(F.lit(number).alias(TAG), *_filled(places, taken)))
    first = session.range(1).select(F.lit(NONE).alias(TAG), *_filled({}, taken))
    return reduce(lambda one, other: one.unionAll(other), parts, first)


def _filled(places: Mapping[str, str], taken: Slots) -> Iterator[Any]:
    """Yield a column for each slot: one of the frame's, or none."""
    for slot, of in taken.types.items():
        column = F.col(_quoted(places[slot])) if slot in places else F.lit(None).cast(of)
        yield column.alias(slot)


def _quoted(name: str) -> str:
    """Return the name of a column, whatever is in it, as `F.col` takes it."""
    return "`" + name.replace("`", "``") + "`"


__all__ = ["Derived", "check", "derive", "rules"]
