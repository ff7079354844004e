"""Columns of times, as embedded relations have them: start, end, whether these are left out, and the period.

Their types follow from the program and the types of the inputs, never from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark_types

from tidelog.logic.program import Program, free_name
from tidelog.spark.schemas import Input
from tidelog.temporal.bounds import Bound, bound_of
from tidelog.temporal.periodic_relation import EVERY
from tidelog.temporal.reasoning import USUAL, TimeSettings, leads_on
from tidelog.temporal.relation import BOUNDS

Type = spark_types.DataType
WHOLE, MOMENTS, TEXTS = spark_types.LongType(), spark_types.TimestampType(), spark_types.StringType()
INTEGERS = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
TIMESTAMPS = (spark_types.TimestampType, spark_types.TimestampNTZType)
TYPES = {Bound.WHOLE: WHOLE, Bound.MOMENT: MOMENTS, Bound.TEXT: TEXTS}


def time_fields(
    names: Sequence[str], program: Program, inputs: Iterable[Input], settings: Mapping[str, Any]
) -> tuple[tuple[str, Type], ...]:
    """Return the columns that follow the arguments, of these names, of what holds at times."""
    time: TimeSettings = settings.get("time", USUAL)
    given = (_bound(of) for each in inputs for of in _bound_columns(each))
    bound = TYPES[bound_of(program, given, time.horizon)]
    truth = spark_types.BooleanType()
    taken, fields = list(names), []
    types: list[tuple[str, Type]] = list(zip(BOUNDS, (bound, bound, truth, truth), strict=True))
    if leads_on(program, time):
        types.append((EVERY, TEXTS if bound == TEXTS else WHOLE))
    for name, of in types:
        fields.append((free_name(name, taken), of))
        taken.append(fields[-1][0])
    return tuple(fields)


def _bound_columns(given: Input) -> Iterator[Type]:
    """Yield the types of an input's columns that hold points or lengths of time."""
    first = len(given.columns) - len(given.times)
    for name, of in zip(given.times, given.spark[first:], strict=True):
        if not name.endswith("_open"):
            yield of


def _bound(of: Type) -> Bound:
    """Return what a column of bounds holds."""
    if isinstance(of, INTEGERS):
        return Bound.WHOLE
    return Bound.MOMENT if isinstance(of, TIMESTAMPS) else Bound.TEXT


def is_text(of: pa.DataType) -> bool:
    """Whether bounds are exact texts in a column of this type."""
    return bool(pa.types.is_string(of))
