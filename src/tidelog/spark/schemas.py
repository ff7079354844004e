"""The schemas of frames: how inputs are read as predicates, what the frames of outputs hold.

Spark's types and those of columns stand in one table, both ways (`read_type`, `spark_type`). `read_input`
takes the columns of a frame for a predicate; `InputSchema` and `OutputSchema` are what is known of either
side. Rows of many predicates lie in one frame, whose columns they share: `SharedColumns`. An input that no
rule reads passes through without a task (`PassThrough`), if Spark can check its rows alone (`ReadableRows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property, reduce
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
from tidelog.spark.worker import NULLARY, InputColumns
from tidelog.temporal.temporal import USUAL, TimeSettings, leads_on
from tidelog.temporal.time_columns import Bound, bound_of, time_columns
from tidelog.temporal.timed_relation import BOUNDS, EVERY

# Spark's types and those of columns:
#
# | Spark | here |
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
    """Return the type of the values of a Spark column; None if it has none here."""
    return _READ.get(type(of))


def read_types(of: spark_types.DataType) -> Types | None:
    """Return the types of the values of a Spark column; None if it has none here.

    Those of a struct with a field for each type are several.
    """
    if isinstance(of, spark_types.StructType):
        return _types_of_struct(of)
    found = read_type(of)
    return None if found is None else frozenset({found})


def _types_of_struct(of: spark_types.StructType) -> Types | None:
    if any(read_type(field.dataType) is None for field in of.fields):
        return None
    found = fields_of(arrow_of(of))
    if found is None:
        return None
    return frozenset(found) | ({Type.BLANK} if Type.IRI in found else NEVER)


def spark_type(contents: Contents) -> spark_types.DataType:
    """Return Spark's type of a column."""
    return _spark_of(arrow_type(contents))


def _spark_of(wanted: pa.DataType) -> spark_types.DataType:
    if is_decimal(wanted):
        return spark_types.DecimalType(wanted.precision, wanted.scale)
    if is_struct(wanted):
        fields = [spark_types.StructField(field.name, _spark_of(field.type)) for field in wanted]
        return spark_types.StructType(fields)
    return _WRITTEN.get(wanted, spark_types.StringType())


def arrow_of(of: spark_types.DataType) -> pa.DataType:
    """Return Arrow's type of values of this Spark type, as an output's column has it."""
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

    Behind them are the columns that say when the facts hold, if there are some.
    """

    predicate: Predicate
    columns: tuple[str, ...]
    spark: tuple[spark_types.DataType, ...]
    types: Columns  # of the arguments
    times: tuple[str, ...] = ()  # the last of the columns
    fields: tuple[ColumnType, ...] | None = None  # how texts are read that are fields of a file
    nulls: tuple[Nulls, ...] = ()  # what is done about missing values, by argument

    @property
    def missing(self) -> Columns:
        """The type of missing values, for each argument in which they are values."""
        values = [policy(self.nulls, place) is Nulls.VALUE for place in range(len(self.types))]
        return tuple(frozenset({Type.LITERAL}) if is_value else NEVER for is_value in values)

    @property
    def held(self) -> Columns:
        """The types of the arguments, missing values included where these are values."""
        return united(self.types, self.missing)

    def reading(self, slots: tuple[str, ...] = ()) -> InputColumns:
        """Return how tasks read the input, whose columns lie in these slots."""
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
        """How the values are read: as declared, else as Spark has them."""
        if self.fields is not None:
            return self.fields
        if self.predicate.declared:
            return self.predicate.types
        return tuple(map(column_of, self.types))


def read_input(
    name: str, predicate: Predicate | None, schema: spark_types.StructType
) -> tuple[InputSchema | None, list[Diagnostic]]:
    """Return how a frame of this schema is read as a predicate, or all that is wrong with it."""
    place = f"the frame `{name}`"
    if predicate is None:
        message = f"no rule and no declaration mentions `{name}`"
        return None, [Diagnostic(codes.NO_SUCH_PREDICATE, message, place=place, help="leave the frame out")]
    times = time_columns(schema.names, predicate.arity)
    fields = {field.name: field for field in schema.fields if field.name not in times}
    named = [column for column in predicate.columns if column is not None]
    if len(named) == predicate.arity and all(column in fields for column in named):
        chosen = [fields[column] for column in named]
    elif len(fields) == len(schema.fields) - len(times) == predicate.arity:
        chosen = list(fields.values())
    else:
        message = f"`{predicate.written}` has {predicate.arity} columns, the frame {len(schema.fields)}"
        help = f"select its columns in order: {', '.join(predicate.names) or 'none'}"
        return None, [Diagnostic(codes.WRONG_COLUMNS, message, place=place, help=help)]
    found = [(field, read_types(field.dataType)) for field in chosen]
    faults = [
        Diagnostic(
            codes.NO_SUCH_SPARK_TYPE,
            f"column `{field.name}` is of the type {field.dataType.simpleString()}, which is not supported",
            place=place,
            help="cast it, such as to string, or select its parts",
        )
        for field, types in found
        if types is None
    ]
    if faults:
        return None, faults
    kinds = tuple(types for _, types in found if types is not None)
    chosen += [schema[time] for time in times]
    columns, spark = tuple(field.name for field in chosen), tuple(field.dataType for field in chosen)
    return InputSchema(predicate, columns, spark, kinds, tuple(times)), []


@dataclass(frozen=True)
class SharedColumns:
    """Columns that rows of many predicates share: the second string of a row lies where those of others do.

    A struct for each predicate would be clearer, and take eight bytes of each row for each of its columns.
    """

    types: Mapping[str, spark_types.DataType]
    of: Mapping[str, tuple[str, ...]]  # by predicate, where its columns lie


def share_columns(predicates: Mapping[str, Iterable[spark_types.DataType]]) -> SharedColumns:
    """Return where the columns of each predicate lie."""
    types: dict[str, spark_types.DataType] = {}
    of: dict[str, tuple[str, ...]] = {}
    for name, columns in predicates.items():
        counts: dict[str, int] = {}
        places = []
        for column in columns:
            shown = column.simpleString()
            number = counts[shown] = counts.get(shown, -1) + 1
            slot = f"{shown} {number}"
            types[slot] = column
            places.append(slot)
        of[name] = tuple(places)
    return SharedColumns(types, of)


def listed(names: Iterable[str]) -> str:
    """Return names as messages have them."""
    return ", ".join(f"`{name}`" for name in names)


def plain_names(given: SharedColumns) -> dict[str, str]:
    """Return names for slots that need no quotes: `string_1`, `string_2`, `decimal_1`."""
    counts: dict[str, int] = {}
    found = {}
    for slot, of in given.types.items():
        word = of.simpleString().partition("(")[0].partition("<")[0]
        counts[word] = counts.get(word, 0) + 1
        found[slot] = f"{word}_{counts[word]}"
    return found


def never_null(column: Column, of: spark_types.DataType) -> Column:
    """Return a column that has a value in each row as one that Spark knows to have: another is never used."""
    if isinstance(of, spark_types.StructType):
        other = F.struct(*(F.lit(None).cast(field.dataType).alias(field.name) for field in of.fields))
    elif isinstance(of, spark_types.DecimalType):
        other = F.lit(Decimal(0).scaleb(-of.scale)).cast(of)
    else:
        other = F.lit(_FILLERS[type(of)]).cast(of)
    return F.coalesce(column, other)


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
    """The columns of a predicate's frame: their names, and what they hold."""

    predicate: Predicate
    types: Schema
    times: tuple[tuple[str, spark_types.DataType], ...] = ()  # the columns that say when

    @property
    def fields(self) -> Iterator[tuple[str, spark_types.DataType]]:
        """The name and Spark's type of each column; one of truth values where there are no arguments."""
        if not self.predicate.arity and not self.times:
            yield NULLARY, spark_types.BooleanType()
        for name, contents in zip(self.predicate.names, self.types, strict=True):
            yield name, spark_type(contents)
        yield from self.times

    @property
    def schema(self) -> spark_types.StructType:
        """The schema of the frame: arguments have values in all rows, only times may have no bound."""
        whens = {name for name, _ in self.times}
        fields = [spark_types.StructField(name, of, name in whens) for name, of in self.fields]
        return spark_types.StructType(fields)


def outputs_of(
    predicates: Sequence[Predicate], inferred: Inferred, mixed: str = "text"
) -> dict[str, OutputSchema]:
    """Return the outputs by the names that users know them by; `mixed` is as in `Relation.to_arrow`."""
    return {
        predicate.written: OutputSchema(predicate, with_mixed(inferred.schema(predicate), mixed))
        for predicate in predicates
    }


# What becomes of missing values in frames, as a caller says it: for all, by predicate or by column.
NullSettings = str | Mapping[str, str | Mapping[str, str]]
NullAction = tuple[str, str, str]  # a predicate, a column, and what is done about values that it lacks


def with_nulls(inputs: Mapping[str, InputSchema], said: NullSettings | None) -> dict[str, InputSchema]:
    """Return the inputs with what is done about missing values; raise what is said of no column.

    `said` is a word for all columns of all inputs, or by input a word, or a word for each of its columns.
    """
    if said is None:
        return dict(inputs)
    if isinstance(said, str):
        return {name: _for_all(each, said) for name, each in inputs.items()}
    faults = [
        Diagnostic(
            codes.NO_SUCH_PREDICATE, f"`nulls` names `{name}`, not an input", help=suggest(name, inputs)
        )
        for name in said
        if name not in inputs
    ]
    found = {}
    for name, each in inputs.items():
        words = said.get(name)
        if words is None or isinstance(words, str):
            found[name] = each if words is None else _for_all(each, words)
            continue
        names = each.columns[: len(each.types)]
        faults += wrong_columns(name, words, names)
        found[name] = replace(each, nulls=nulls_of(words, names))
    if faults:
        raise ProgramError(faults)
    return found


def wrong_columns(name: str, words: Mapping[str, str], names: Sequence[str]) -> list[Diagnostic]:
    """Return what is said of columns that an input does not have."""
    return [
        Diagnostic(
            codes.WRONG_COLUMNS,
            f"`nulls` names the column `{column}`, which the input does not have",
            place=f"the frame `{name}`",
            help=f"its columns are {', '.join(f'`{one}`' for one in names)}",
        )
        for column in words
        if column not in names
    ]


def nulls_of(words: str | Mapping[str, str], names: Sequence[str]) -> tuple[Nulls, ...]:
    """Return what is done about missing values in each of these columns."""
    if isinstance(words, str):
        return (_read(words),) * len(names)
    return tuple(_read(words[one]) if one in words else Nulls.REJECT for one in names)


def counted(inputs: Sequence[InputSchema]) -> list[NullAction]:
    """Return the columns of inputs of which something is said, and what."""
    return [
        (each.predicate.written, column, what.value)
        for each in inputs
        for column, what in zip(each.columns, each.nulls, strict=False)
    ]


def _for_all(each: InputSchema, word: str) -> InputSchema:
    return replace(each, nulls=nulls_of(word, each.columns[: len(each.types)]))


def _read(word: str) -> Nulls:
    if word not in [each.value for each in Nulls]:
        words = ", ".join(f"`{each.value}`" for each in Nulls)
        raise ValueError(f"nulls is one of {words}, not {word!r}")
    return Nulls(word)


STRING = spark_types.StringType()
FLOATING = (spark_types.FloatType, spark_types.DoubleType)


@dataclass(frozen=True)
class ReadableRows:
    """Which rows of a frame can be read, by Spark alone. Its frames are made when they are used."""

    source: DataFrame
    input: InputSchema
    on_error: OnError

    @property
    def _shown(self) -> str:
        return self.input.predicate.written

    @cached_property
    def columns(self) -> dict[str, Any]:
        return {name: self.source[f"`{name.replace('`', '``')}`"] for name in self.input.columns}

    @cached_property
    def _dropping(self) -> dict[str, Any]:
        """Whether a column lacks its value, where such rows are left out."""
        return {
            name: column.isNull()
            for place, (name, column) in enumerate(self.columns.items())
            if policy(self.input.nulls, place) is Nulls.DROP_ROW
        }

    @cached_property
    def _missing(self) -> dict[str, Any]:
        """Whether a column has no value that can be read; NaN is none, whatever is said of missing values."""
        found = {}
        for (name, column), of in zip(self.columns.items(), self.input.spark, strict=True):
            bad = _is_missing(column, of)
            found[name] = bad & ~self._dropping[name] if name in self._dropping else bad
        return found

    @property
    def _is_bad(self) -> Any:
        return reduce(lambda one, other: one | other, self._missing.values())

    @property
    def _is_dropped(self) -> Any:
        return reduce(lambda one, other: one | other, self._dropping.values(), F.lit(False))

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
            place = F.lit(f"\n  --> {self._shown}")
            error = F.raise_error(F.concat(start, self._reason, F.lit(": "), self._row, place))
            good = F.when(self._is_bad, error.cast("boolean")).otherwise(F.lit(True))
        kept = self.source.where(good)
        return kept.where(~self._is_dropped) if self._dropping else kept

    @property
    def rejects(self) -> DataFrame:
        """The rows that are no facts, if they are collected."""
        kept = self._is_bad if self.on_error is OnError.COLLECT else F.lit(False)
        return self.source.where(kept).select(
            F.lit(self._shown).alias("place"),
            F.lit(NOT_OF_TYPE).alias("code"),
            self._reason.alias("reason"),
            self._row.alias("row"),
        )

    @property
    def nulls(self) -> DataFrame:
        """How many rows lack a value, as `Derived.nulls` has them."""
        shown = F.lit(self._shown).alias("predicate")
        rejected, left_out = (
            self.source.where(chosen)
            .select(shown, column.alias("column"), F.lit(what.value).alias("nulls"))
            .groupBy("predicate", "column", "nulls")
            .agg(F.count("*").alias("rows"))
            .where(F.col("column").isNotNull())
            for chosen, column, what in (
                (self._is_bad, _first(self.columns, self._missing), Nulls.REJECT),
                (self._is_dropped & ~self._is_bad, _first(self.columns, self._dropping), Nulls.DROP_ROW),
            )
        )
        return rejected.unionAll(left_out)


@dataclass(frozen=True)
class PassThrough:
    """An output whose facts are the rows of an input that no rule reads: no task has to derive them."""

    output: OutputSchema
    read: ReadableRows

    @property
    def rows(self) -> DataFrame:
        """The facts, perhaps several times."""
        return self.read.good.select(*_cast(self.read.columns, self.output))

    @property
    def frame(self) -> DataFrame:
        """The facts, each once."""
        return self.rows.distinct()


def passes_through(program: Program, each: InputSchema, output: OutputSchema) -> bool:
    """Whether the rows of an input are those of the output: no rule, fact or conversion has a say in them."""
    name = each.predicate.name
    read = {name for rule in program.rules for name in rule.read}
    explicit = {fact.predicate for fact in program.facts}
    if name in program.derived | read | explicit | program.timed or has_equality(program.predicates):
        return False
    if Nulls.VALUE in each.nulls:
        return False  # Spark has no such value
    types = zip(each.spark, each.types, each.read_as, output.fields, strict=True)
    return (
        bool(each.columns)
        and each.fields is None
        and all(
            (declared if declared.size is None else declared.base) == column_of(own) and _is_exact(of, wanted)
            for of, own, declared, (_, wanted) in types
        )
    )


def _is_exact(of: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    """Whether each value of a type has one of the other."""
    if isinstance(of, spark_types.DecimalType) and isinstance(wanted, spark_types.DecimalType):
        return of.scale <= wanted.scale and of.precision - of.scale <= wanted.precision - wanted.scale
    return not isinstance(of, spark_types.DecimalType | spark_types.StructType)


def _first(columns: Mapping[str, Any], chosen: Mapping[str, Any]) -> Any:
    """Return the name of the first column that lacks its value, for one of the reasons that are chosen."""
    names = [F.when(bad & columns[name].isNull(), F.lit(name)) for name, bad in chosen.items()]
    return F.coalesce(*names, F.lit(None).cast(STRING))


def _is_missing(column: Any, of: spark_types.DataType) -> Any:
    return column.isNull() | F.isnan(column) if isinstance(of, FLOATING) else column.isNull()


def _cast(columns: Mapping[str, Any], output: OutputSchema) -> list[Any]:
    """Return the columns as the output has them; -0.0 is 0.0."""
    found = []
    for column, (name, wanted) in zip(columns.values(), output.fields, strict=True):
        value = column.cast(wanted)
        value = value + F.lit(0.0) if isinstance(wanted, FLOATING) else value
        found.append(never_null(value, wanted).alias(name))
    return found


TimeType = spark_types.DataType
WHOLE, MOMENTS, TEXTS = spark_types.LongType(), spark_types.TimestampType(), spark_types.StringType()
INTEGERS = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
TIMESTAMPS = (spark_types.TimestampType, spark_types.TimestampNTZType)
TYPES = {Bound.WHOLE: WHOLE, Bound.MOMENT: MOMENTS, Bound.TEXT: TEXTS}


def time_fields(
    names: Sequence[str], program: Program, inputs: Iterable[InputSchema], settings: Mapping[str, Any]
) -> tuple[tuple[str, TimeType], ...]:
    """Return the columns of times that follow arguments of these names: start, end, openness and period.

    Their types follow from the program and the types of the inputs, never from the rows.
    """
    time: TimeSettings = settings.get("time", USUAL)
    given = (_bound(of) for each in inputs for of in _bound_columns(each))
    bound = TYPES[bound_of(program, given, time.horizon)]
    truth = spark_types.BooleanType()
    taken, fields = list(names), []
    types: list[tuple[str, TimeType]] = list(zip(BOUNDS, (bound, bound, truth, truth), strict=True))
    if leads_on(program, time):
        types.append((EVERY, TEXTS if bound == TEXTS else WHOLE))
    for name, of in types:
        fields.append((free_name(name, taken), of))
        taken.append(fields[-1][0])
    return tuple(fields)


def _bound_columns(given: InputSchema) -> Iterator[TimeType]:
    """Yield the types of an input's columns that hold points or lengths of time."""
    first = len(given.columns) - len(given.times)
    for name, of in zip(given.times, given.spark[first:], strict=True):
        if not name.endswith("_open"):
            yield of


def _bound(of: TimeType) -> Bound:
    """Return what a column of bounds holds."""
    if isinstance(of, INTEGERS):
        return Bound.WHOLE
    return Bound.MOMENT if isinstance(of, TIMESTAMPS) else Bound.TEXT
