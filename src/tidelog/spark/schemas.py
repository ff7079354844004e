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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow.types import is_decimal
from pyspark.sql import types as spark_types

from tidelog.engine.columnar.typed import arrow_type
from tidelog.errors import Diagnostic
from tidelog.logic.inference import Columns, Inferred, Schema
from tidelog.logic.program import Predicate
from tidelog.logic.types import Contents, Type, column_of
from tidelog.logic.values import ColumnType
from tidelog.spark import codes
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
NULLARY = "holds"  # the one column of a predicate without arguments


def read_type(of: spark_types.DataType) -> Type | None:
    """Return the type of the values of a Spark column; None if it has none here."""
    return _READ.get(type(of))


def spark_type(contents: Contents) -> spark_types.DataType:
    """Return Spark's type of a column."""
    wanted = arrow_type(contents)
    if is_decimal(wanted):
        return spark_types.DecimalType(wanted.precision, wanted.scale)
    return _WRITTEN.get(wanted, spark_types.StringType())


def arrow_of(of: spark_types.DataType) -> pa.DataType:
    """Return Arrow's type of an output's column of this Spark type."""
    if isinstance(of, spark_types.DecimalType):
        return pa.decimal128(of.precision, of.scale)
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
    found = [(field, read_type(field.dataType)) for field in chosen]
    faults = [
        Diagnostic(
            codes.NO_SUCH_TYPE,
            f"column `{field.name}` is of the type {field.dataType.simpleString()}, which has no values here",
            place=place,
            help="cast it, such as to string, or select its parts",
        )
        for field, type in found
        if type is None
    ]
    if faults:
        return None, faults
    kinds = tuple(frozenset({type}) for _, type in found if type is not None)
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
        """The schema of the frame."""
        return spark_types.StructType([spark_types.StructField(*field) for field in self.fields])


def outputs_of(predicates: Sequence[Predicate], inferred: Inferred) -> dict[str, Output]:
    """Return the outputs by the names that users know them by."""
    return {predicate.written: Output(predicate, inferred.schema(predicate)) for predicate in predicates}
