"""A table function for SQL: `SELECT * FROM tidelog('reach(?x, ?y) :- …', 'reach', edge => TABLE(edges))`.

Spark calls `analyze` of the function when it analyses a query: in a process of its own, on the driver's side.
There the program is read, and checked against the table's schema. Rows go in and out one by one, as table
functions whose schema depends on their arguments have them; for large tables there is `derive`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from tidelog.spark.frames import PREDICATE, quoted, share_output_columns
from tidelog.spark.schemas import OutputSchema, share_columns
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship
from tidelog.spark.stages import BoundProgram, InputFrames, only_input, output_columns, wanted_predicates
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
    """What Spark knows of a call, and what its task does."""

    evaluate: Callable[[list[Any]], Iterator[tuple[Any, ...]]] | None = None


def _function(limit: MemoryLimit) -> type:
    """Return the handler of the function.

    It is a class that is pickled whole: processes of Spark may have no tidelog, and say so.
    """
    analyse = Shipped(partial(_analysed_or_error, limit))

    class Tidelog:
        def __init__(self, found: Any) -> None:
            self.found = found
            self.rows: list[Any] = []

        @staticmethod
        def analyze(*arguments: Any, **tables: Any) -> Any:
            found = analyse(*arguments, **tables)
            if isinstance(found, str):  # raised here, it is shown with one line of code, not with all
                raise RuntimeError(found)  # noqa: TRY004 - it is text of another error
            return found

        def eval(self, *arguments: Any, **tables: Any) -> None:
            self.rows += [each for each in (*arguments, *tables.values()) if isinstance(each, tuple)]

        def terminate(self) -> Any:
            return self.found.evaluate(self.rows)

    return Tidelog


def analysed(limit: MemoryLimit, *arguments: AnalyzeArgument, **named: AnalyzeArgument) -> AnalysedCall:
    """Return the schema of a call, and what it evaluates; raise what is wrong with it."""
    given = dict(zip(("program", "output"), arguments, strict=False)) | named
    rest = arguments[2:]
    program = read_text(_text(given.pop("program", None), "program"), name="<sql>", sandbox=CLOSED)
    output = _text(given.pop("output", None), "output")
    tables = _tables(program, rest, given)
    call = _Call.of(program, output, tables)
    _check_empty(call)
    schema = call.output.schema
    if not tables:
        return AnalysedCall(schema, evaluate=call.evaluation(limit))
    columns = [SelectedColumn(quoted(name)) for name in call.columns]
    return AnalysedCall(schema, withSinglePartition=True, select=columns, evaluate=call.evaluation(limit))


def _analysed_or_error(limit: MemoryLimit, *arguments: Any, **named: Any) -> AnalysedCall | str:
    """Return what is known of a call, or the text of what is wrong with it."""
    try:
        return analysed(limit, *arguments, **named)
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
    """Return the schemas of tables by the names of their arguments: one at most."""
    found = dict(named)
    for argument in unnamed:
        found[only_input(program, found)] = argument
    for name, argument in found.items():
        if not argument.isTable:
            raise _refused(f"`{name}` is not a table", f"a table is given as `{name} => TABLE({name})`")
    if len(found) > 1:
        shown = ", ".join(f"`{name}`" for name in found)
        help = (
            f"give one table with a column `{PREDICATE}`: `{SHARED} => TABLE(SELECT '{next(iter(found))}' AS "
            f"{PREDICATE}, … UNION ALL …)`, or use `tidelog.spark.derive`"
        )
        raise _refused(f"{shown} are several tables, of which Spark gives a function all pairs of rows", help)
    tables = {}
    for name, argument in found.items():
        assert isinstance(argument.dataType, spark_types.StructType)
        tables[name] = argument.dataType
    return tables


@dataclass(frozen=True)
class _Call:
    """A program, its inputs, all of one table, and the requested output."""

    given: BoundProgram
    output: OutputSchema
    name: str  # of the output
    table: spark_types.StructType
    is_shared: bool

    @staticmethod
    def of(program: Program, output: str, tables: Mapping[str, spark_types.StructType]) -> _Call:
        table = next(iter(tables.values()), spark_types.StructType())
        is_shared = SHARED in tables and program.find(SHARED) is None
        frames: InputFrames = InputFrames({_readable(program): table} if is_shared else tables)
        given = BoundProgram.of(program, frames, {}, warns=False)
        ((name, found),) = given.outputs(wanted_predicates(given.program, [output])).items()
        return _Call(given, found, name, table, is_shared)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that are read."""
        read = [column for each in self.given.inputs.values() for column in each.columns]
        return tuple(dict.fromkeys([PREDICATE, *read] if self.is_shared else read))

    def evaluation(self, limit: MemoryLimit) -> CallEvaluation:
        """Return what a task does."""
        inputs = self.given.inputs
        taken = share_columns({name: each.spark for name, each in inputs.items()})
        input_columns = {name: each.reading(taken.of[name]) for name, each in inputs.items()}
        shared = share_output_columns({self.name: self.output})
        ask = AllFacts(output_columns({self.name: self.output}, shared))
        task = self.given.task(ask, input_columns, shared, OnError.FAIL, limit)
        columns: dict[str, str] = {}
        for name, each in inputs.items():
            columns |= dict(zip(taken.of[name], each.columns, strict=True))
        types = {field.name: field for field in self.table.fields}
        read = spark_types.StructType([types[name] for name in self.columns])
        tag = None if self.is_shared else next(iter(inputs), "")
        return CallEvaluation(task, read, columns, tag, self.name, shared.of[self.name], shared.of[ERRORS][0])


def _readable(program: Program) -> tuple[str, ...]:
    """Return the predicates that a table may hold: those that no rule derives."""
    found = [each.written for name, each in program.predicates.items() if name not in program.derived]
    if not found:
        raise _refused("the program has no predicate that a table could be given for")
    return tuple(found)


def _check_empty(call: _Call) -> None:
    """Raise if an empty table gives rows: Spark does not call a function for it, and so there would be none.

    That depends on the program alone, so that a query does not fail when its table gets empty.
    """
    program = call.given.program
    if not call.table.fields or not _holds_of_nothing(call.output.predicate, program):
        return
    message = f"`{call.name}` may have facts where the table is empty, and Spark evaluates no function there"
    help = "put facts of the program into the table, or use `tidelog.spark.derive`"
    raise _refused(message, help)


def _holds_of_nothing(predicate: Predicate, program: Program) -> bool:
    """Whether a predicate may have facts where no input has."""
    found = {fact.predicate for fact in program.facts}
    size = -1
    while size != len(found):
        size = len(found)
        for rule in program.rules:
            if all(atom.predicate in found for atom in rule.positive):
                found.add(rule.head.predicate)
    return predicate.name in found


@dataclass(frozen=True)
class CallEvaluation:
    """What the task of a call does: rows of the table in, rows of the output out."""

    task: DerivationTask
    read: spark_types.StructType
    columns: Mapping[str, str]  # of the table, by where the task finds them
    tag: str | None  # the predicate of all rows; None: a column says it
    output: str
    slots: tuple[str, ...]
    error: str

    def __call__(self, rows: list[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the facts of the output; raise what is wrong with the data."""
        for batch in self.task(self._batches(rows)):
            tag = batch.column(TAG)[0].as_py()
            if tag == ERRORS:
                raise RuntimeError(batch.column(self.error)[0].as_py())
            if tag == self.output:
                yield from zip(*(batch.column(slot).to_pylist() for slot in self.slots), strict=True)

    def _batches(self, rows: list[Any]) -> Iterator[Any]:
        for first in range(0, len(rows), ROWS):
            some = rows[first : first + ROWS]
            table = LocalDataToArrowConversion.convert(some, self.read, False)
            if self.tag is None:
                tags = table.column(PREDICATE).combine_chunks().fill_null(NO_PREDICATE)
            else:
                tags = pa.repeat(pa.scalar(self.tag), len(some))
            columns = {slot: table.column(name).combine_chunks() for slot, name in self.columns.items()}
            yield pa.RecordBatch.from_pydict({TAG: tags, **columns})
