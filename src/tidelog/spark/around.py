"""Inputs that are outputs too, and that no rule reads: their rows go around the task, as Spark has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.io.codes import NOT_OF_TYPE
from tidelog.io.nulls import Nulls, policy
from tidelog.io.rejects import OnError
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Program
from tidelog.logic.types import column_of
from tidelog.spark.schemas import Input, Output, never_null

STRING = spark_types.StringType()
FLOATING = (spark_types.FloatType, spark_types.DoubleType)


@dataclass(frozen=True)
class Readable:
    """Which rows of a frame can be read, by Spark alone. Its frames are made when they are used."""

    source: DataFrame
    input: Input
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
class Around:
    """An input whose rows are the facts of a predicate."""

    output: Output
    read: Readable

    @property
    def rows(self) -> DataFrame:
        """The facts, perhaps several times."""
        return self.read.good.select(*_cast(self.read.columns, self.output))

    @property
    def frame(self) -> DataFrame:
        """The facts, each once."""
        return self.rows.distinct()


def goes_around(program: Program, each: Input, output: Output) -> bool:
    """Whether the rows of an input are those of the output: no rule, fact or conversion has a say in them."""
    name = each.predicate.name
    read = {atom.predicate for rule in program.rules for atom in (*rule.positive, *rule.negated)}
    stated = {fact.predicate for fact in program.facts}
    if name in program.derived | read | stated | program.timed or has_equality(program.predicates):
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


def _cast(columns: Mapping[str, Any], output: Output) -> list[Any]:
    """Return the columns as the output has them; -0.0 is 0.0."""
    found = []
    for column, (name, wanted) in zip(columns.values(), output.fields, strict=True):
        value = column.cast(wanted)
        value = value + F.lit(0.0) if isinstance(wanted, FLOATING) else value
        found.append(never_null(value, wanted).alias(name))
    return found
