"""A table function for SQL: `SELECT * FROM tidelog('reach(?x, ?y) :- …', 'reach', edge => TABLE(edges))`.

Spark calls `analyze` of the function when it analyses a query: in a process of its own, on the driver's side.
There the program is read, and checked against the table's schema. Rows go in and out one by one, as table
functions whose schema depends on their arguments have them; for large tables there is `derive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, SelectedColumn

from tidelog.errors import Diagnostic, ProgramError, TidelogError, codes
from tidelog.io.rejects import OnError
from tidelog.logic.program import Predicate, Program, Sandbox
from tidelog.logic.resolve import EMPTY, read_text
from tidelog.records import dataclass
from tidelog.spark.frames import PREDICATE, quoted, share_output_columns
from tidelog.spark.schemas import OutputSchema, share_columns
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship
from tidelog.spark.stages import BoundProgram, InputFrames, only_input, output_columns, requested_predicates
from tidelog.spark.strategies import MemoryLimit, limit_of
from tidelog.spark.worker import ERRORS, NO_PREDICATE, TAG, AllFacts, DerivationTask

NAME: Final = "tidelog"
SHARED: Final = "facts"  # the argument that is a table of several predicates
USAGE: Final = f"{NAME}('reach(?x, ?y) :- …', 'reach', edge => TABLE(edges))"
CLOSED: Final = Sandbox((), ())  # a program in a query reads no files of the server
UNDIVIDED: Final = "a function of SQL runs in one task"
ROWS: Final = 1 << 16  # that are converted to Arrow data at once


def register(session: SparkSession, name: str = NAME) -> None:
    """Register the table function of SQL in a session; `name` is what queries call it.

    Its arguments are the text of a program, the predicate whose facts are the rows of the result, and a
    table by the name of its predicate, `edge => TABLE(edges)`; or, for several predicates, one table whose
    column `predicate` says of which one a row is, `facts => TABLE(…)`. A program without a table has facts
    of its own.
    """
    ship(session, scratch_folder())
    limit = limit_of(session, EMPTY, 1)
    limit = MemoryLimit(limit.size, limit.source, undivided=UNDIVIDED)
    function: Any = F.udtf(_function(limit))
    session.udtf.register(name, function)


@dataclass
class AnalysedCall(AnalyzeResult):
    """The result of analysing a call: its schema for Spark, and the function of its task."""

    evaluate: Callable[[list[Any]], Iterator[tuple[Any, ...]]] | None = None


def _function(limit: MemoryLimit) -> type:
    """Return the handler of the function.

    It is a local class, so that it is pickled by value: workers without tidelog can then report it.
    """
    analyse = Shipped(partial(_analyse_or_error_text, limit))

    class Tidelog:
        def __init__(self, call: Any) -> None:
            self.call = call
            self.rows: list[Any] = []

        @staticmethod
        def analyze(*arguments: Any, **tables: Any) -> Any:
            result = analyse(*arguments, **tables)
            if isinstance(result, str):  # raised here, its traceback has one line of code
                raise RuntimeError(result)  # noqa: TRY004 - it is text of another error
            return result

        def eval(self, *arguments: Any, **tables: Any) -> None:
            self.rows += [row for row in (*arguments, *tables.values()) if isinstance(row, tuple)]

        def terminate(self) -> Any:
            return self.call.evaluate(self.rows)

    return Tidelog


def analyse_call(limit: MemoryLimit, *arguments: AnalyzeArgument, **named: AnalyzeArgument) -> AnalysedCall:
    """Analyse a call: return its schema and its evaluation, or raise its errors."""
    named_arguments = dict(zip(("program", "output"), arguments, strict=False)) | named
    unnamed = arguments[2:]
    program = read_text(_text(named_arguments.pop("program", None), "program"), name="<sql>", sandbox=CLOSED)
    output = _text(named_arguments.pop("output", None), "output")
    tables = _tables(program, unnamed, named_arguments)
    call = _Call.of(program, output, tables)
    _check_empty(call)
    schema = call.output.schema
    if not tables:
        return AnalysedCall(schema, evaluate=call.evaluation(limit))
    columns = [SelectedColumn(quoted(name)) for name in call.columns]
    return AnalysedCall(schema, withSinglePartition=True, select=columns, evaluate=call.evaluation(limit))


def _analyse_or_error_text(limit: MemoryLimit, *arguments: Any, **named: Any) -> AnalysedCall | str:
    """Analyse a call, or return its errors as text."""
    try:
        return analyse_call(limit, *arguments, **named)
    except TidelogError as error:
        return f"{type(error).__name__}: {error}"


def _refused(message: str, help: str = f"call it as in `{USAGE}`") -> ProgramError:
    return ProgramError(Diagnostic(codes.CALL, message, help=help))


def _text(argument: AnalyzeArgument | None, name: str) -> str:
    if argument is None:
        raise _refused(f"the call has no `{name}`")
    if not isinstance(argument.value, str):
        raise _refused(f"`{name}` is a text that is known when a query is analysed, and no column")
    return argument.value


def _tables(
    program: Program, unnamed: Iterable[AnalyzeArgument], named: Mapping[str, AnalyzeArgument]
) -> dict[str, spark_types.StructType]:
    """Return the schemas of table arguments by name: one at most."""
    table_arguments = dict(named)
    for argument in unnamed:
        table_arguments[only_input(program, table_arguments)] = argument
    for name, argument in table_arguments.items():
        if not argument.isTable:
            raise _refused(f"`{name}` is not a table", f"a table is given as `{name} => TABLE({name})`")
    if len(table_arguments) > 1:
        names = ", ".join(f"`{name}`" for name in table_arguments)
        first = next(iter(table_arguments))
        help = (
            f"give one table with a column `{PREDICATE}`: `{SHARED} => TABLE(SELECT '{first}' AS "
            f"{PREDICATE}, … UNION ALL …)`, or use `tidelog.spark.derive`"
        )
        raise _refused(f"{names} are several tables, of which Spark gives a function all pairs of rows", help)
    tables = {}
    for name, argument in table_arguments.items():
        assert isinstance(argument.dataType, spark_types.StructType)
        tables[name] = argument.dataType
    return tables


@dataclass(frozen=True)
class _Call:
    """A program, its inputs, all of one table, and the requested output."""

    bound: BoundProgram
    output: OutputSchema
    name: str  # of the output
    table: spark_types.StructType
    is_shared: bool

    @staticmethod
    def of(program: Program, output: str, tables: Mapping[str, spark_types.StructType]) -> _Call:
        table = next(iter(tables.values()), spark_types.StructType())
        is_shared = SHARED in tables and program.find(SHARED) is None
        frames: InputFrames = InputFrames({_readable(program): table} if is_shared else tables)
        bound = BoundProgram.of(program, frames, {}, warns=False)
        ((name, schema),) = bound.outputs(requested_predicates(bound.program, [output])).items()
        return _Call(bound, schema, name, table, is_shared)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that are read."""
        columns = [column for schema in self.bound.inputs.values() for column in schema.columns]
        return tuple(dict.fromkeys([PREDICATE, *columns] if self.is_shared else columns))

    def evaluation(self, limit: MemoryLimit) -> CallEvaluation:
        """Return the function of the task."""
        inputs = self.bound.inputs
        shared_inputs = share_columns({name: schema.spark for name, schema in inputs.items()})
        input_columns = {name: schema.reading(shared_inputs.of[name]) for name, schema in inputs.items()}
        shared = share_output_columns({self.name: self.output})
        ask = AllFacts(output_columns({self.name: self.output}, shared))
        task = self.bound.task(ask, input_columns, shared, OnError.FAIL, limit)
        columns: dict[str, str] = {}
        for name, schema in inputs.items():
            columns |= dict(zip(shared_inputs.of[name], schema.columns, strict=True))
        types = {field.name: field for field in self.table.fields}
        schema_read = spark_types.StructType([types[name] for name in self.columns])
        tag = None if self.is_shared else next(iter(inputs), "")
        return CallEvaluation(
            task, schema_read, columns, tag, self.name, shared.of[self.name], shared.of[ERRORS][0]
        )


def _readable(program: Program) -> tuple[str, ...]:
    """Return the predicates that a table may hold: those that no rule derives."""
    readable = [
        predicate.written for name, predicate in program.predicates.items() if name not in program.derived
    ]
    if not readable:
        raise _refused("the program has no predicate that a table could be given for")
    return tuple(readable)


def _check_empty(call: _Call) -> None:
    """Raise if an empty table can have output rows: Spark does not call the function for it.

    This depends on the program alone, so that a query does not fail only when its table gets empty.
    """
    program = call.bound.program
    if not call.table.fields or not _may_hold_without_inputs(call.output.predicate, program):
        return
    message = f"`{call.name}` may have facts where the table is empty, and Spark evaluates no function there"
    help = "put facts of the program into the table, or use `tidelog.spark.derive`"
    raise _refused(message, help)


def _may_hold_without_inputs(predicate: Predicate, program: Program) -> bool:
    """Whether a predicate can have facts if no input has any."""
    nonempty = {fact.predicate for fact in program.facts}
    size = -1
    while size != len(nonempty):
        size = len(nonempty)
        for rule in program.rules:
            if all(atom.predicate in nonempty for atom in rule.positive):
                nonempty.add(rule.head.predicate)
    return predicate.name in nonempty


@dataclass(frozen=True)
class CallEvaluation:
    """The function of the task of a call, from rows of the table to rows of the output."""

    task: DerivationTask
    schema: spark_types.StructType  # of the columns that are read
    columns: Mapping[str, str]  # of the table, by slot
    tag: str | None  # the predicate of all rows; None: a column has it
    output: str
    slots: tuple[str, ...]
    error: str

    def __call__(self, rows: list[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the facts of the output; raise errors in the data."""
        for batch in self.task(self._batches(rows)):
            tag = batch.column(TAG)[0].as_py()
            if tag == ERRORS:
                raise RuntimeError(batch.column(self.error)[0].as_py())
            if tag == self.output:
                yield from zip(*(batch.column(slot).to_pylist() for slot in self.slots), strict=True)

    def _batches(self, rows: list[Any]) -> Iterator[Any]:
        for first in range(0, len(rows), ROWS):
            part = rows[first : first + ROWS]
            table = LocalDataToArrowConversion.convert(part, self.schema, False)
            if self.tag is None:
                tags = table.column(PREDICATE).combine_chunks().fill_null(NO_PREDICATE)
            else:
                tags = pa.repeat(pa.scalar(self.tag), len(part))
            columns = {slot: table.column(name).combine_chunks() for slot, name in self.columns.items()}
            yield pa.RecordBatch.from_pydict({TAG: tags, **columns})
