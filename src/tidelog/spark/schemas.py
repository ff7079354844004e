"""The schemas of frames: how inputs are read as predicates, and the columns of outputs.

`read_type` and `spark_type` map Spark's types to ours and back. `read_input` returns how a frame is read as a
predicate (`InputSchema`); `OutputSchema` describes the frame of an output. Rows of many predicates share the
columns of one frame: `SharedColumns`. An input that no rule reads passes through without a task
(`PassThrough`), if Spark can check its rows (`ReadableRows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property, reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyarrow.types import is_decimal, is_struct
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types

from tidelog.data.arrow import fields_of
from tidelog.data.columns import policy
from tidelog.data.typed_columns import arrow_type, with_mixed
from tidelog.errors import Diagnostic, ProgramError, codes, suggest
from tidelog.errors.codes import NOT_OF_TYPE
from tidelog.io.rejects import OnError
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import Predicate, Program, free_name
from tidelog.logic.type_inference import Columns, Inferred, Schema, united
from tidelog.logic.types import NEVER, Contents, Type, Types, column_of
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.spark.worker import NULLARY, InputColumns
from tidelog.temporal.temporal import USUAL, TimeSettings, leads_on
from tidelog.temporal.time_columns import Bound, bound_of, time_columns
from tidelog.temporal.timed_relation import BOUNDS, EVERY

# Types of Spark and of columns:
#
# | Spark | column |
# |---|---|
# | boolean | boolean |
# | tinyint, smallint, int, bigint | int |
# | decimal(p, s) | decimal |
# | float, double | double |
# | date | date |
# | timestamp | dateTime, in UTC |
# | timestamp_ntz | dateTime without a time zone |
# | string, char, varchar | string |
# | struct<int: bigint, string: string, …> | several types, a field for each |

_READ: Mapping[type[spark_types.DataType], Type] = {
    spark_types.BooleanType: Type.BOOLEAN,
    spark_types.ByteType: Type.INTEGER,
    spark_types.ShortType: Type.INTEGER,
    spark_types.IntegerType: Type.INTEGER,
    spark_types.LongType: Type.INTEGER,
    spark_types.DecimalType: Type.DECIMAL,
    spark_types.FloatType: Type.DOUBLE,
    spark_types.DoubleType: Type.DOUBLE,
    spark_types.DateType: Type.DATE,
    spark_types.TimestampType: Type.DATETIME,
    spark_types.TimestampNTZType: Type.LOCAL_DATETIME,
    spark_types.StringType: Type.STRING,
    spark_types.CharType: Type.STRING,
    spark_types.VarcharType: Type.STRING,
}
_WRITTEN: Mapping[pa.DataType, spark_types.DataType] = {
    pa.bool_(): spark_types.BooleanType(),
    pa.int64(): spark_types.LongType(),
    pa.float64(): spark_types.DoubleType(),
    pa.date32(): spark_types.DateType(),
    pa.timestamp("us"): spark_types.TimestampNTZType(),
    pa.timestamp("us", "UTC"): spark_types.TimestampType(),
}
_WHOLE = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType)


def read_type(of: spark_types.DataType) -> Type | None:
    """Return the type of the values of a Spark column; None if it is not supported."""
    return _READ.get(type(of))


def read_types(of: spark_types.DataType) -> Types | None:
    """Return the types of the values of a Spark column; None if it is not supported.

    A struct with a field for each type has several.
    """
    if isinstance(of, spark_types.StructType):
        return _types_of_struct(of)
    type_read = read_type(of)
    return None if type_read is None else frozenset({type_read})


def _types_of_struct(of: spark_types.StructType) -> Types | None:
    if any(read_type(field.dataType) is None for field in of.fields):
        return None
    types = fields_of(arrow_of(of))
    if types is None:
        return None
    return frozenset(types) | ({Type.BLANK} if Type.IRI in types else NEVER)


def spark_type(contents: Contents) -> spark_types.DataType:
    """Return Spark's type of a column."""
    return _spark_of(arrow_type(contents))


def _spark_of(arrow: pa.DataType) -> spark_types.DataType:
    if is_decimal(arrow):
        return spark_types.DecimalType(arrow.precision, arrow.scale)
    if is_struct(arrow):
        fields = [spark_types.StructField(field.name, _spark_of(field.type)) for field in arrow]
        return spark_types.StructType(fields)
    return _WRITTEN.get(arrow, spark_types.StringType())


def arrow_of(of: spark_types.DataType) -> pa.DataType:
    """Return the Arrow type of an output's column of this Spark type."""
    if isinstance(of, spark_types.DecimalType):
        return pa.decimal128(of.precision, of.scale)
    if isinstance(of, spark_types.StructType):
        return pa.struct([(field.name, arrow_of(field.dataType)) for field in of.fields])
    if isinstance(of, _WHOLE):
        return pa.int64()
    if isinstance(of, spark_types.FloatType):
        return pa.float64()
    return next((arrow for arrow, spark in _WRITTEN.items() if spark == of), pa.string())


@dataclass(frozen=True)
class InputSchema:
    """The columns of a frame that hold the arguments of a predicate, in their order, and their types.

    After them come the columns with the times of facts, if there are some.
    """

    predicate: Predicate
    columns: tuple[str, ...]
    spark: tuple[spark_types.DataType, ...]
    types: Columns  # of the arguments
    times: tuple[str, ...] = ()  # the last of the columns
    fields: tuple[ColumnType, ...] | None = None  # how the texts of a file are read
    nulls: tuple[Nulls, ...] = ()  # the treatment of missing values, by argument

    @property
    def missing(self) -> Columns:
        """The type of missing values, for each argument that has them as values."""
        values = [policy(self.nulls, place) is Nulls.VALUE for place in range(len(self.types))]
        return tuple(frozenset({Type.LITERAL}) if is_value else NEVER for is_value in values)

    @property
    def all_types(self) -> Columns:
        """The types of the arguments, with that of missing values where they are values."""
        return united(self.types, self.missing)

    def reading(self, slots: tuple[str, ...] = ()) -> InputColumns:
        """Return how tasks read the input from these slots."""
        return InputColumns(
            self.predicate.name,
            slots,
            self.read_as,
            self.columns,
            self.times,
            self.fields is not None,
            self.nulls,
        )

    @property
    def read_as(self) -> tuple[ColumnType, ...]:
        """The type that each column is read as: declared, else that of Spark."""
        if self.fields is not None:
            return self.fields
        if self.predicate.declared:
            return self.predicate.types
        return tuple(map(column_of, self.types))


def read_input(
    name: str, predicate: Predicate | None, schema: spark_types.StructType
) -> tuple[InputSchema | None, list[Diagnostic]]:
    """Return how a frame of this schema is read as a predicate, or all errors in it."""
    place = f"the frame `{name}`"
    if predicate is None:
        message = f"no rule and no declaration mentions `{name}`"
        return None, [Diagnostic(codes.NO_SUCH_PREDICATE, message, place=place, help="leave the frame out")]
    times = time_columns(schema.names, predicate.arity)
    fields = {field.name: field for field in schema.fields if field.name not in times}
    declared = [column for column in predicate.columns if column is not None]
    if len(declared) == predicate.arity and all(column in fields for column in declared):
        chosen = [fields[column] for column in declared]
    elif len(fields) == len(schema.fields) - len(times) == predicate.arity:
        chosen = list(fields.values())
    else:
        message = f"`{predicate.written}` has {predicate.arity} columns, the frame {len(schema.fields)}"
        help = f"select its columns in order: {', '.join(predicate.names) or 'none'}"
        return None, [Diagnostic(codes.WRONG_COLUMNS, message, place=place, help=help)]
    typed_fields = [(field, read_types(field.dataType)) for field in chosen]
    faults = [
        Diagnostic(
            codes.NO_SUCH_SPARK_TYPE,
            f"column `{field.name}` is of the type {field.dataType.simpleString()}, which is not supported",
            place=place,
            help="cast it, such as to string, or select its parts",
        )
        for field, types in typed_fields
        if types is None
    ]
    if faults:
        return None, faults
    kinds = tuple(types for _, types in typed_fields if types is not None)
    chosen += [schema[time] for time in times]
    columns, spark = tuple(field.name for field in chosen), tuple(field.dataType for field in chosen)
    return InputSchema(predicate, columns, spark, kinds, tuple(times)), []


@dataclass(frozen=True)
class SharedColumns:
    """Columns that rows of many predicates share: the second string of each is in the same column.

    A struct for each predicate would be clearer, but take eight bytes of each row for each of its columns.
    """

    types: Mapping[str, spark_types.DataType]
    of: Mapping[str, tuple[str, ...]]  # by predicate, the slots of its columns


def share_columns(predicates: Mapping[str, Iterable[spark_types.DataType]]) -> SharedColumns:
    """Assign the columns of each predicate to slots."""
    types: dict[str, spark_types.DataType] = {}
    of: dict[str, tuple[str, ...]] = {}
    for name, columns in predicates.items():
        counts: dict[str, int] = {}
        places = []
        for column in columns:
            type_name = column.simpleString()
            number = counts[type_name] = counts.get(type_name, -1) + 1
            slot = f"{type_name} {number}"
            types[slot] = column
            places.append(slot)
        of[name] = tuple(places)
    return SharedColumns(types, of)


def listed(names: Iterable[str]) -> str:
    """Return names as a list in a message."""
    return ", ".join(f"`{name}`" for name in names)


def plain_names(shared: SharedColumns) -> dict[str, str]:
    """Return names for slots that need no quotes: `string_1`, `string_2`, `decimal_1`."""
    counts: dict[str, int] = {}
    names = {}
    for slot, of in shared.types.items():
        word = of.simpleString().partition("(")[0].partition("<")[0]
        counts[word] = counts.get(word, 0) + 1
        names[slot] = f"{word}_{counts[word]}"
    return names


def never_null(column: Column, of: spark_types.DataType) -> Column:
    """Return a column without nulls such that Spark knows it: the value for nulls is never used."""
    if isinstance(of, spark_types.StructType):
        filler = F.struct(*(F.lit(None).cast(field.dataType).alias(field.name) for field in of.fields))
    elif isinstance(of, spark_types.DecimalType):
        filler = F.lit(Decimal(0).scaleb(-of.scale)).cast(of)
    else:
        filler = F.lit(_FILLERS[type(of)]).cast(of)
    return F.coalesce(column, filler)


_FILLERS: Mapping[type[spark_types.DataType], object] = {
    spark_types.BooleanType: False,
    spark_types.LongType: 0,
    spark_types.DoubleType: 0.0,
    spark_types.DateType: date(1970, 1, 1),
    spark_types.TimestampType: datetime(1970, 1, 2),
    spark_types.TimestampNTZType: datetime(1970, 1, 2),
    spark_types.StringType: "",
}


@dataclass(frozen=True)
class OutputSchema:
    """The names and types of the columns of a predicate's frame."""

    predicate: Predicate
    types: Schema
    times: tuple[tuple[str, spark_types.DataType], ...] = ()  # the columns of times

    @property
    def fields(self) -> Iterator[tuple[str, spark_types.DataType]]:
        """The name and Spark's type of each column; a Boolean column if there are no arguments."""
        if not self.predicate.arity and not self.times:
            yield NULLARY, spark_types.BooleanType()
        for name, contents in zip(self.predicate.names, self.types, strict=True):
            yield name, spark_type(contents)
        yield from self.times

    @property
    def schema(self) -> spark_types.StructType:
        """The schema of the frame, in which only times are nullable, as they may have no bound."""
        times = {name for name, _ in self.times}
        fields = [spark_types.StructField(name, of, name in times) for name, of in self.fields]
        return spark_types.StructType(fields)


def outputs_of(
    predicates: Sequence[Predicate], inferred: Inferred, mixed: str = "text"
) -> dict[str, OutputSchema]:
    """Return the outputs by the names in the program; `mixed` is as in `Relation.to_arrow`."""
    return {
        predicate.written: OutputSchema(predicate, with_mixed(inferred.schema(predicate), mixed))
        for predicate in predicates
    }


# How missing values in frames are treated, as callers specify it: for all, by predicate or by column.
NullSettings = str | Mapping[str, str | Mapping[str, str]]
NullAction = tuple[str, str, str]  # a predicate, a column, and the treatment of its missing values


def with_nulls(inputs: Mapping[str, InputSchema], settings: NullSettings | None) -> dict[str, InputSchema]:
    """Return the inputs with the treatment of missing values; raise for names of unknown inputs or columns.

    `settings` is a word for all columns of all inputs, or by input a word, or a word for each column.
    """
    if settings is None:
        return dict(inputs)
    if isinstance(settings, str):
        return {name: _for_all(schema, settings) for name, schema in inputs.items()}
    faults = [
        Diagnostic(
            codes.NO_SUCH_PREDICATE, f"`nulls` names `{name}`, not an input", help=suggest(name, inputs)
        )
        for name in settings
        if name not in inputs
    ]
    with_settings = {}
    for name, schema in inputs.items():
        words = settings.get(name)
        if words is None or isinstance(words, str):
            with_settings[name] = schema if words is None else _for_all(schema, words)
            continue
        names = schema.columns[: len(schema.types)]
        faults += wrong_columns(name, words, names)
        with_settings[name] = replace(schema, nulls=nulls_of(words, names))
    if faults:
        raise ProgramError(faults)
    return with_settings


def wrong_columns(name: str, words: Mapping[str, str], names: Sequence[str]) -> list[Diagnostic]:
    """Return an error for each column of the settings that an input does not have."""
    return [
        Diagnostic(
            codes.WRONG_COLUMNS,
            f"`nulls` names the column `{column}`, which the input does not have",
            place=f"the frame `{name}`",
            help=f"its columns are {listed(names)}",
        )
        for column in words
        if column not in names
    ]


def nulls_of(words: str | Mapping[str, str], names: Sequence[str]) -> tuple[Nulls, ...]:
    """Return the treatment of missing values in each of these columns."""
    if isinstance(words, str):
        return (_null_action(words),) * len(names)
    return tuple(_null_action(words[name]) if name in words else Nulls.REJECT for name in names)


def counted(inputs: Sequence[InputSchema]) -> list[NullAction]:
    """Return the columns of inputs with a treatment of missing values, which is counted."""
    return [
        (schema.predicate.written, column, action.value)
        for schema in inputs
        for column, action in zip(schema.columns, schema.nulls, strict=False)
    ]


def _for_all(schema: InputSchema, word: str) -> InputSchema:
    return replace(schema, nulls=nulls_of(word, schema.columns[: len(schema.types)]))


def _null_action(word: str) -> Nulls:
    if word not in [choice.value for choice in Nulls]:
        words = ", ".join(f"`{choice.value}`" for choice in Nulls)
        raise ValueError(f"nulls is one of {words}, not {word!r}")
    return Nulls(word)


STRING = spark_types.StringType()
FLOATING = (spark_types.FloatType, spark_types.DoubleType)


@dataclass(frozen=True)
class ReadableRows:
    """The rows of a frame that can be read, as Spark decides. Its frames are created lazily."""

    source: DataFrame
    input: InputSchema
    on_error: OnError

    @property
    def _label(self) -> str:
        return self.input.predicate.written

    @cached_property
    def columns(self) -> dict[str, Any]:
        return {name: self.source[f"`{name.replace('`', '``')}`"] for name in self.input.columns}

    @cached_property
    def _dropping(self) -> dict[str, Any]:
        """Whether a column is null, for the columns with `drop-row`."""
        return {
            name: column.isNull()
            for place, (name, column) in enumerate(self.columns.items())
            if policy(self.input.nulls, place) is Nulls.DROP_ROW
        }

    @cached_property
    def _missing(self) -> dict[str, Any]:
        """Whether a column has no readable value; NaN is none, regardless of settings for missing values."""
        conditions = {}
        for (name, column), of in zip(self.columns.items(), self.input.spark, strict=True):
            is_missing = _is_missing(column, of)
            conditions[name] = is_missing & ~self._dropping[name] if name in self._dropping else is_missing
        return conditions

    @property
    def _is_bad(self) -> Any:
        return reduce(or_, self._missing.values())

    @property
    def _is_dropped(self) -> Any:
        return reduce(or_, self._dropping.values(), F.lit(False))

    @property
    def _row(self) -> Any:
        texts = (column.cast(STRING) for column in self.columns.values())
        return F.to_json(F.array(*texts), {"ignoreNullFields": "false"})

    @property
    def _reason(self) -> Any:
        reasons = (
            F.when(bad, F.lit(f"the value is missing (column `{name}`)"))
            for name, bad in self._missing.items()
        )
        return F.coalesce(*reasons)

    @property
    def good(self) -> DataFrame:
        """The rows in which no value is missing, or NaN."""
        good = ~self._is_bad
        if self.on_error is OnError.FAIL:
            start = F.lit(f"DataError: error[{NOT_OF_TYPE}]: ")
            place = F.lit(f"\n  --> {self._label}")
            error = F.raise_error(F.concat(start, self._reason, F.lit(": "), self._row, place))
            good = F.when(self._is_bad, error.cast("boolean")).otherwise(F.lit(True))
        rows = self.source.where(good)
        return rows.where(~self._is_dropped) if self._dropping else rows

    @property
    def rejects(self) -> DataFrame:
        """The rejected rows, with `OnError.COLLECT`."""
        is_rejected = self._is_bad if self.on_error is OnError.COLLECT else F.lit(False)
        return self.source.where(is_rejected).select(
            F.lit(self._label).alias("place"),
            F.lit(NOT_OF_TYPE).alias("code"),
            self._reason.alias("reason"),
            self._row.alias("row"),
        )

    @property
    def nulls(self) -> DataFrame:
        """How many rows lack a value, in the columns of `Derived.nulls`."""
        predicate = F.lit(self._label).alias("predicate")
        rejected, dropped = (
            self.source.where(is_counted)
            .select(predicate, column.alias("column"), F.lit(action.value).alias("nulls"))
            .groupBy("predicate", "column", "nulls")
            .agg(F.count("*").alias("rows"))
            .where(F.col("column").isNotNull())
            for is_counted, column, action in (
                (self._is_bad, _first(self.columns, self._missing), Nulls.REJECT),
                (self._is_dropped & ~self._is_bad, _first(self.columns, self._dropping), Nulls.DROP_ROW),
            )
        )
        return rejected.unionAll(dropped)


@dataclass(frozen=True)
class PassThrough:
    """An output whose facts are the rows of an input that no rule reads: no task has to derive them."""

    output: OutputSchema
    input: ReadableRows

    @property
    def rows(self) -> DataFrame:
        """The facts, with duplicates."""
        return self.input.good.select(*_cast(self.input.columns, self.output))

    @property
    def frame(self) -> DataFrame:
        """The facts, without duplicates."""
        return self.rows.distinct()


def passes_through(program: Program, schema: InputSchema, output: OutputSchema) -> bool:
    """Whether the rows of an input are those of the output: no rule, fact or conversion changes them."""
    name = schema.predicate.name
    read = {name for rule in program.rules for name in rule.read}
    explicit = {fact.predicate for fact in program.facts}
    if name in program.derived | read | explicit | program.timed or has_equality(program.predicates):
        return False
    if Nulls.VALUE in schema.nulls:
        return False  # Spark has no value for them
    types = zip(schema.spark, schema.types, schema.read_as, output.fields, strict=True)
    return (
        bool(schema.columns)
        and schema.fields is None
        and all(
            (declared if declared.size is None else declared.base) == column_of(types_read)
            and _is_exact(of, target)
            for of, types_read, declared, (_, target) in types
        )
    )


def _is_exact(of: spark_types.DataType, target: spark_types.DataType) -> bool:
    """Whether each value of a type can be cast to the other without loss."""
    if isinstance(of, spark_types.DecimalType) and isinstance(target, spark_types.DecimalType):
        return of.scale <= target.scale and of.precision - of.scale <= target.precision - target.scale
    return not isinstance(of, spark_types.DecimalType | spark_types.StructType)


def _first(columns: Mapping[str, Any], conditions: Mapping[str, Any]) -> Any:
    """Return the name of the first null column among those of these conditions."""
    names = [
        F.when(is_missing & columns[name].isNull(), F.lit(name)) for name, is_missing in conditions.items()
    ]
    return F.coalesce(*names, F.lit(None).cast(STRING))


def _is_missing(column: Any, of: spark_types.DataType) -> Any:
    return column.isNull() | F.isnan(column) if isinstance(of, FLOATING) else column.isNull()


def _cast(columns: Mapping[str, Any], output: OutputSchema) -> list[Any]:
    """Cast the columns to the types of the output; -0.0 becomes 0.0."""
    cast_columns = []
    for column, (name, target) in zip(columns.values(), output.fields, strict=True):
        value = column.cast(target)
        value = value + F.lit(0.0) if isinstance(target, FLOATING) else value
        cast_columns.append(never_null(value, target).alias(name))
    return cast_columns


TimeType = spark_types.DataType
WHOLE, MOMENTS, TEXTS = spark_types.LongType(), spark_types.TimestampType(), spark_types.StringType()
INTEGERS = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
TIMESTAMPS = (spark_types.TimestampType, spark_types.TimestampNTZType)
TYPES = {Bound.WHOLE: WHOLE, Bound.MOMENT: MOMENTS, Bound.TEXT: TEXTS}


def time_fields(
    names: Sequence[str], program: Program, inputs: Iterable[InputSchema], settings: Mapping[str, Any]
) -> tuple[tuple[str, TimeType], ...]:
    """Return the columns of times that follow arguments of these names: start, end, openness and period.

    Their types depend on the program and the types of the inputs, not on the rows.
    """
    time: TimeSettings = settings.get("time", USUAL)
    bounds = (_bound(of) for schema in inputs for of in _bound_columns(schema))
    bound = TYPES[bound_of(program, bounds, time.horizon)]
    truth = spark_types.BooleanType()
    used_names, fields = list(names), []
    types: list[tuple[str, TimeType]] = list(zip(BOUNDS, (bound, bound, truth, truth), strict=True))
    if leads_on(program, time):
        types.append((EVERY, TEXTS if bound == TEXTS else WHOLE))
    for name, of in types:
        fields.append((free_name(name, used_names), of))
        used_names.append(fields[-1][0])
    return tuple(fields)


def _bound_columns(schema: InputSchema) -> Iterator[TimeType]:
    """Yield the types of an input's columns that hold points or lengths of time."""
    first = len(schema.columns) - len(schema.times)
    for name, of in zip(schema.times, schema.spark[first:], strict=True):
        if not name.endswith("_open"):
            yield of


def _bound(of: TimeType) -> Bound:
    """Return the kind of bounds in a column."""
    if isinstance(of, INTEGERS):
        return Bound.WHOLE
    return Bound.MOMENT if isinstance(of, TIMESTAMPS) else Bound.TEXT
