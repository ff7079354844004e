"""Programs in Spark Declarative Pipelines: a project of `spark-pipelines` that derives tables by rules.

from tidelog.spark.pipelines import materialize

materialize("net.rls", inputs={"edge": "edge"}, outputs=["reach", "hops"])

A definition file of a pipeline must not ask Spark for a schema. So the types of inputs are those that the
program declares, and their columns are selected by the declared names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

from pyspark import pipelines as declarative
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types

from tidelog.errors import Diagnostic, ProgramError, codes
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import program_of
from tidelog.logic.type_inference import infer
from tidelog.spark.frames import Derived, quoted, share_output_columns
from tidelog.spark.schemas import NullSettings, OutputSchema, never_null, spark_type
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship
from tidelog.spark.stages import (
    BoundProgram,
    on_error_of,
    output_columns,
    read_by,
    requested_predicates,
    rows_schema,
    session_of,
)
from tidelog.spark.strategies import limit_of
from tidelog.spark.worker import NONE, TAG, AllFacts, DerivationTask

SUFFIX: Final = ".rls"
FACTS: Final = "__facts"  # suffix of the view that holds all outputs

Source = str | Callable[[], DataFrame]


def materialize(
    program: Program | Path | str,
    *,
    inputs: Mapping[str, Source],
    outputs: Sequence[str] | Mapping[str, str] | None = None,
    name: str | None = None,
    nulls: NullSettings | None = None,
    mixed: str = "text",
    on_error: str = "fail",
    **settings: Any,
) -> None:
    """Define the outputs of a program as materialised views of the pipeline that is being defined.

    `program` is a program, its text, or its file, relative to the folder of the pipeline's specification.
    `inputs` has, by predicate, the name of a table or view, of the pipeline or not, or a function that
    returns a frame; the program declares their columns. `outputs` are predicates, each a view of its name, or
    the names of views by predicate; by default those of `@output`, else all that are derived.

    One more view, `<name>__facts`, holds the rows of all outputs, so that a run evaluates the program once;
    `name` is by default that of the program's file. `nulls`, `mixed`, `on_error` (`fail` or `skip`) and
    settings are those of `derive`; a constraint that does not hold fails the run.
    """
    resolved_program, file_name = _program(program)
    name = name or file_name
    if name is None:
        raise TypeError('a program that is not a file needs a name: `materialize(…, name="net")`')
    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error is `fail` or `skip`, not {on_error!r}")
    schemas = _declared(resolved_program, inputs)
    bound = BoundProgram.of(resolved_program, schemas, settings, nulls=nulls, mixed=mixed)
    requested = bound.outputs(requested_predicates(bound.program, None if outputs is None else [*outputs]))
    session = session_of({})
    ship(session, scratch_folder())
    view = _View(session, bound, {**inputs}, requested, on_error)
    facts = f"{name}{FACTS}"
    declarative.materialized_view(name=facts, comment=f"all that {name} derives")(view.facts)
    for predicate in requested:
        table = outputs[predicate] if isinstance(outputs, Mapping) else predicate
        defined = declarative.materialized_view(name=table, comment=f"`{predicate}` of {name}")
        defined(partial(view.output, facts, predicate))


def _program(program: Program | Path | str) -> tuple[Program, str | None]:
    """Return the program, and the name of its file if it is one."""
    if isinstance(program, str) and program.endswith(SUFFIX) and "\n" not in program:
        program = Path(program)
    return program_of(program), program.stem if isinstance(program, Path) else None


def _declared(program: Program, inputs: Mapping[str, Source]) -> dict[str, spark_types.StructType]:
    """Return the declared schemas of inputs; raise if some are not declared."""
    inferred = infer(program)
    faults: list[Diagnostic] = []
    if program.timed:  # a table without columns of times would hold at all times
        message = "the program has rules over time, and whether a table has time columns is unknown here"
        help = "use `tidelog.spark.derive`"
        faults.append(Diagnostic(codes.TIMED_FRAMES, message, help=help))
    schemas = {}
    for name in inputs:
        predicate = program.find(name)
        if predicate is None:
            schemas[name] = spark_types.StructType()  # reported with all other errors in inputs
            continue
        faults += _undeclared(predicate)
        types = map(spark_type, inferred.schema(predicate))
        fields = zip(predicate.names, types, strict=True)
        schemas[name] = spark_types.StructType([spark_types.StructField(*field) for field in fields])
    if faults:
        raise ProgramError(faults)
    return schemas


def _undeclared(predicate: Predicate) -> list[Diagnostic]:
    written = predicate.written
    if predicate.declared:
        return []
    message = f"the names and types of the columns of `{written}` are not declared"
    columns = ", ".join(f"{column}: string" for column in predicate.names)
    help = f"a pipeline cannot ask for the schema of its tables: `@declare {written}({columns}) .`"
    return [Diagnostic(codes.UNTYPED, message, help=help)]


class _View:
    """The views of one program. Spark calls its methods when it defines the views."""

    def __init__(
        self,
        session: SparkSession,
        bound: BoundProgram,
        sources: Mapping[str, Source],
        outputs: Mapping[str, OutputSchema],
        on_error: str,
    ) -> None:
        self.session = session
        self.sources = sources
        self.outputs = outputs
        self.shared = share_output_columns(outputs)
        needed = read_by(bound.program, [*outputs.values()])
        self.inputs = {name: schema for name, schema in bound.inputs.items() if needed(schema.predicate.name)}
        self.slots = {
            name: tuple(f"{name} {place}" for place in range(len(schema.columns)))
            for name, schema in self.inputs.items()
        }
        ask = AllFacts(output_columns(outputs, self.shared), keeps_violations=False)
        readings = {name: schema.reading(self.slots[name]) for name, schema in self.inputs.items()}
        limit = limit_of(session, bound.program, 1)
        self.task = bound.task(ask, readings, self.shared, on_error_of(on_error), limit)

    def facts(self) -> DataFrame:
        """Return the rows of all outputs."""
        return self._derived.uncounted_facts

    @property
    def _derived(self) -> Derived:
        return Derived(self._rows, self.outputs, self.shared, are_counted=False)

    def _rows(self) -> DataFrame:
        """Return the rows of one task that reads all inputs."""
        evaluated: Any = F.arrow_udtf(function_of(self.task), returnType=rows_schema(self.shared))
        rows: DataFrame = evaluated(self._tagged().asTable().withSinglePartition())
        return rows

    def _tagged(self) -> DataFrame:
        """Return the rows of all inputs in one frame, each input in its own columns.

        There is at least one row: Spark does not call a table function for an empty table.
        """
        parts = [self.session.range(1).select(F.lit(NONE).alias(TAG))]
        for name, schema in self.inputs.items():
            source = self.sources[name]
            frame = self.session.read.table(source) if isinstance(source, str) else source()
            columns = zip(schema.columns, self.slots[name], strict=True)
            chosen = [F.col(quoted(column)).alias(slot) for column, slot in columns]
            parts.append(frame.select(F.lit(name).alias(TAG), *chosen))
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)

    def output(self, facts: str, name: str) -> DataFrame:
        """Return the rows of one output, from the view of all outputs."""
        output, layout = self.outputs[name], self._derived.layout[name]
        chosen = []
        for field in output.schema.fields:
            value = F.col(quoted(layout[field.name]))
            value = value if field.nullable else never_null(value, field.dataType)
            chosen.append(value.alias(field.name))
        return self.session.read.table(facts).where(F.col(TAG) == name).select(*chosen)


def function_of(task: DerivationTask) -> type:
    """Return the handler of a table function of Arrow data that runs a task over all rows.

    It is a local class, so that it is pickled by value: workers without tidelog can then report it.
    """
    run = Shipped(task)

    class Evaluated:
        def __init__(self) -> None:
            self.batches: list[Any] = []

        def eval(self, rows: Any) -> None:
            self.batches.append(rows)

        def terminate(self) -> Any:
            return run(iter(self.batches))

    return Evaluated
