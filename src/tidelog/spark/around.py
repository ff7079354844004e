"""Inputs that are outputs too, and that no rule reads: their rows go around the task, as Spark has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.io.codes import NOT_OF_TYPE
from tidelog.io.faults import OnError
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Program
from tidelog.logic.types import column_of
from tidelog.spark.schemas import Input, Output

STRING = spark_types.StringType()
FLOATING = (spark_types.FloatType, spark_types.DoubleType)


@dataclass(frozen=True)
class Around:
    """The facts of a predicate, and the rows that are none, as the input has them."""

    output: Output
    frame: DataFrame
    rejects: DataFrame


def goes_around(program: Program, each: Input, output: Output) -> bool:
    """Whether the rows of an input are those of the output: no rule, fact or conversion has a say in them."""
    name = each.predicate.name
    read = {atom.predicate for rule in program.rules for atom in (*rule.positive, *rule.negated)}
    stated = {fact.predicate for fact in program.facts}
    if name in program.derived | read | stated | program.timed or has_equality(program.predicates):
        return False
    types = zip(each.spark, each.types, each.read_as, output.fields, strict=True)
    return (
        bool(each.columns)
        and each.fields is None
        and all(
            declared == column_of(own) and _is_exact(of, wanted) for of, own, declared, (_, wanted) in types
        )
    )


def _is_exact(of: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    """Whether each value of a type has one of the other."""
    if isinstance(of, spark_types.DecimalType) and isinstance(wanted, spark_types.DecimalType):
        return of.scale <= wanted.scale and of.precision - of.scale <= wanted.precision - wanted.scale
    return not isinstance(of, spark_types.DecimalType)


def around(frame: DataFrame, each: Input, output: Output, on_error: OnError) -> Around:
    """Return the rows of an input as facts, each once; a row with a missing value, or NaN, is none."""
    good, rejects = readable(frame, each, output.predicate.written, on_error)
    return Around(output, good.select(*_cast(_columns(good, each), output)).distinct(), rejects)


def readable(frame: DataFrame, each: Input, shown: str, on_error: OnError) -> tuple[DataFrame, DataFrame]:
    """Return the rows of a frame without a missing value or NaN, and the others as they are rejected.

    If these are an error, it is raised where the rows are used; they are rejected if they are collected.
    """
    columns = _columns(frame, each)
    missing = {
        name: _is_missing(column, of) for (name, column), of in zip(columns.items(), each.spark, strict=True)
    }
    is_bad = reduce(lambda one, other: one | other, missing.values())
    row = F.to_json(
        F.array(*(column.cast(STRING) for column in columns.values())), {"ignoreNullFields": "false"}
    )
    reason = F.coalesce(
        *(F.when(bad, F.lit(f"the value is missing (column `{name}`)")) for name, bad in missing.items())
    )
    if on_error is OnError.FAIL:
        text = F.concat(
            F.lit(f"DataError: error[{NOT_OF_TYPE}]: "), reason, F.lit(": "), row, F.lit(f"\n  --> {shown}")
        )
        good = frame.where(F.when(is_bad, F.raise_error(text).cast("boolean")).otherwise(F.lit(True)))
    else:
        good = frame.where(~is_bad)
    kept = is_bad if on_error is OnError.COLLECT else F.lit(False)
    rejects = frame.where(kept).select(
        F.lit(shown).alias("place"),
        F.lit(NOT_OF_TYPE).alias("code"),
        reason.alias("reason"),
        row.alias("row"),
    )
    return good, rejects


def _columns(frame: DataFrame, each: Input) -> dict[str, Any]:
    return {name: frame[f"`{name.replace('`', '``')}`"] for name in each.columns}


def _is_missing(column: Any, of: spark_types.DataType) -> Any:
    return column.isNull() | F.isnan(column) if isinstance(of, FLOATING) else column.isNull()


def _cast(columns: Mapping[str, Any], output: Output) -> list[Any]:
    """Return the columns as the output has them; -0.0 is 0.0."""
    found = []
    for column, (name, wanted) in zip(columns.values(), output.fields, strict=True):
        value = column.cast(wanted)
        found.append((value + F.lit(0.0) if isinstance(wanted, FLOATING) else value).alias(name))
    return found
