"""Spark's types and those of columns: one table, both ways; and how rows of many predicates share columns.

| Spark | here |
|---|---|
| boolean | boolean |
| tinyint, smallint, int, bigint | int |
| decimal(p, s) | decimal |
| float, double | double |
| date | date |
| timestamp | dateTime, in UTC |
| timestamp_ntz | dateTime without a time zone |
| string, char, varchar | string |
| struct<int: bigint, string: string, …> | several types, a field for each |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
from pyarrow.types import is_decimal, is_struct
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.data.typed_columns import arrow_type, with_mixed
from tidelog.errors import Diagnostic
from tidelog.io.nulls import Nulls, policy
from tidelog.io.structs import fields_of
from tidelog.logic.program import Predicate
from tidelog.logic.type_inference import Columns, Inferred, Schema, united
from tidelog.logic.types import NEVER, Contents, Type, Types, column_of
from tidelog.logic.values import ColumnType
from tidelog.spark import codes
from tidelog.spark.task import Reading
from tidelog.temporal.intake import time_columns

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
NULLARY = "holds"  # the one column of a predicate without arguments


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


# ---- inputs


@dataclass(frozen=True)
class Input:
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

    def reading(self, slots: tuple[str, ...] = ()) -> Reading:
        """Return how tasks read the input, whose columns lie in these slots."""
        return Reading(
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
) -> tuple[Input | None, list[Diagnostic]]:
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
            codes.NO_SUCH_TYPE,
            f"column `{field.name}` is of the type {field.dataType.simpleString()}, which has no values here",
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
    return Input(predicate, columns, spark, kinds, tuple(times)), []


# ---- rows of many predicates in one frame


@dataclass(frozen=True)
class Slots:
    """Columns that rows of many predicates share: the second string of a row lies where those of others do.

    A struct for each predicate would be clearer, and take eight bytes of each row for each of its columns.
    """

    types: Mapping[str, spark_types.DataType]
    of: Mapping[str, tuple[str, ...]]  # by predicate, where its columns lie


def slots(predicates: Mapping[str, Iterable[spark_types.DataType]]) -> Slots:
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
    return Slots(types, of)


def plain_names(given: Slots) -> dict[str, str]:
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
class Output:
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


def outputs_of(predicates: Sequence[Predicate], inferred: Inferred, mixed: str = "text") -> dict[str, Output]:
    """Return the outputs by the names that users know them by; `mixed` is as in `Relation.to_arrow`."""
    return {
        predicate.written: Output(predicate, with_mixed(inferred.schema(predicate), mixed))
        for predicate in predicates
    }
