"""Columns of times, as embedded relations have them: start, end, whether these are left out, and the period.

Their types follow from the program and the types of the inputs, never from the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark_types

from tidelog.logic.metrics import intervals_of
from tidelog.logic.program import Program, TimedFact, free_name
from tidelog.logic.time import Interval
from tidelog.spark.schemas import Input
from tidelog.temporal.periodic_relation import EVERY
from tidelog.temporal.reasoning import USUAL, TimeSettings, leads_on
from tidelog.temporal.relation import BOUNDS

Type = spark_types.DataType
WHOLE, MOMENTS, TEXTS = spark_types.LongType(), spark_types.TimestampType(), spark_types.StringType()
INTEGERS = (spark_types.ByteType, spark_types.ShortType, spark_types.IntegerType, spark_types.LongType)
TIMESTAMPS = (spark_types.TimestampType, spark_types.TimestampNTZType)
_MICROSECONDS = 1_000_000


def time_fields(
    names: Sequence[str], program: Program, inputs: Iterable[Input], settings: Mapping[str, Any]
) -> tuple[tuple[str, Type], ...]:
    """Return the columns that follow the arguments, of these names, of what holds at times."""
    time: TimeSettings = settings.get("time", USUAL)
    bound = _bound_type(program, list(inputs), time.horizon)
    truth = spark_types.BooleanType()
    taken, fields = list(names), []
    types: list[tuple[str, Type]] = list(zip(BOUNDS, (bound, bound, truth, truth), strict=True))
    if leads_on(program, time):
        types.append((EVERY, TEXTS if bound == TEXTS else WHOLE))
    for name, of in types:
        fields.append((free_name(name, taken), of))
        taken.append(fields[-1][0])
    return tuple(fields)


def _bound_type(program: Program, inputs: Sequence[Input], horizon: Interval | None) -> Type:
    """Return the type of bounds: whole numbers, moments, or exact texts where they may be anything.

    What is derived has bounds that are sums of stated and given ones, and of lengths in rules.
    """
    if program.is_integer_time:
        return WHOLE
    lengths = [point for rule in program.timed_rules for one in intervals_of(rule) for point in _points(one)]
    stated = [fact.interval for fact in program.facts if isinstance(fact, TimedFact)]
    stated += [] if horizon is None else [horizon]
    points = [point for interval in stated for point in _points(interval)]
    columns = [of for each in inputs for of in _bound_columns(each)]
    if any(interval.is_calendar for interval in stated) or any(isinstance(of, TIMESTAMPS) for of in columns):
        is_fine = all((point * _MICROSECONDS).denominator == 1 for point in (*points, *lengths))
        return MOMENTS if is_fine and all(isinstance(of, TIMESTAMPS) for of in columns) else TEXTS
    is_whole = all(point.denominator == 1 for point in (*points, *lengths))
    return WHOLE if is_whole and all(isinstance(of, INTEGERS) for of in columns) else TEXTS


def _points(interval: Interval) -> Iterator[Fraction]:
    yield from (point for point in (interval.start, interval.end) if point is not None)


def _bound_columns(given: Input) -> Iterator[Type]:
    """Yield the types of an input's columns that hold points or lengths of time."""
    first = len(given.columns) - len(given.times)
    for name, of in zip(given.times, given.spark[first:], strict=True):
        if not name.endswith("_open"):
            yield of


def is_text(of: pa.DataType) -> bool:
    """Whether bounds are exact texts in a column of this type."""
    return bool(pa.types.is_string(of))
