"""The frames of a program's outputs, made of the one frame of rows that its task returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from types import TracebackType
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types
from pyspark.storagelevel import StorageLevel

from tidelog.logic.program import free_name
from tidelog.spark.around import Around
from tidelog.spark.nulls import Counted
from tidelog.spark.schemas import Output, Slots, never_null, slots
from tidelog.spark.task import ERRORS, NULLS, REJECTS, TAG, VIOLATIONS

STRING = spark_types.StringType()
SPECIAL = {
    REJECTS: ("place", "code", "reason", "row"),
    NULLS: ("predicate", "column", "nulls", "rows"),
    VIOLATIONS: ("code", "message"),
    ERRORS: ("message",),
}
SHARED = "_shared"  # a column of random numbers


def slots_of(outputs: Mapping[str, Output]) -> Slots:
    """Return where the columns of outputs lie, with those of what is no predicate."""
    of_facts = {name: [of for _, of in output.fields] for name, output in outputs.items()}
    return slots({**of_facts, **{name: [STRING] * len(columns) for name, columns in SPECIAL.items()}})


def quoted(name: str) -> str:
    """Return the name of a column, whatever is in it, as `F.col` takes it."""
    return "`" + name.replace("`", "``") + "`"


class Derived(Mapping[str, DataFrame]):
    """The frames of a program's outputs, by predicate.

    Each action evaluates the program; in `with derived.persist():` only the first one does. The `observation`
    has how many facts there are of each predicate once an action has run.
    """

    def __init__(
        self,
        rows: DataFrame,
        outputs: Mapping[str, Output],
        given: Slots,
        around: Mapping[str, Around] | None = None,
        *,
        is_divided: bool = False,
        nulls: Sequence[Counted] = (),
    ) -> None:
        self.outputs = {**outputs, **{name: each.output for name, each in (around or {}).items()}}
        self.observation = Observation()
        self._slots = given
        counts = [F.count_if(F.col(TAG) == name).alias(name) for name in outputs]
        for name in (REJECTS, VIOLATIONS):
            shown = free_name(name.strip(), list(outputs))
            counts.append(F.count_if(F.col(TAG) == name).alias(shown))
        counts += [self._missing(*what) for what in nulls]
        self.counts_nulls = bool(nulls)
        self._derived = outputs
        self._around = dict(around or {})
        observed = rows.observe(self.observation, *counts)
        # An exchange, so that whatever follows runs in as many tasks as its size asks for. Tasks of a barrier
        # stage run all or none: nothing that stops early, and no union, may follow them in one stage.
        exchanged = observed.hint("rebalance")
        self._rows = exchanged.withColumn(SHARED, F.rand(0))
        self._written = exchanged if is_divided else observed
        self._frames = {
            name: self.only(name, [column for column, _ in output.fields], output.schema)
            for name, output in outputs.items()
        }
        self._frames |= {name: each.frame for name, each in self._around.items()}
        self._rejects = self.only(REJECTS, SPECIAL[REJECTS])
        self._nulls = self.only(NULLS, SPECIAL[NULLS])
        self.violations = self.only(VIOLATIONS, SPECIAL[VIOLATIONS])

    def with_frames(self, more: Mapping[str, DataFrame]) -> Derived:
        """Add frames that are made from others; they are not among `facts`."""
        self._frames |= more
        return self

    def __getitem__(self, name: str) -> DataFrame:
        """Return the facts of a predicate as a frame."""
        if name not in self._frames:
            raise KeyError(f"{name!r} is not among the outputs: {', '.join(self.outputs)}")
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)

    def __repr__(self) -> str:
        return f"<Derived: {', '.join(self.outputs)}>"

    @property
    def rejects(self) -> DataFrame:
        """The rows of inputs that could not be read, if they are collected."""
        return reduce(DataFrame.unionAll, (each.rejects for each in self._around.values()), self._rejects)

    @property
    def nulls(self) -> DataFrame:
        """How many rows lack a value of which column, and what became of them, where there are some."""
        rows = self._nulls.select("predicate", "column", "nulls", F.col("rows").cast("bigint"))
        every = reduce(DataFrame.unionAll, (each.nulls for each in self._around.values()), rows)
        return every.groupBy("predicate", "column", "nulls").agg(F.sum("rows").alias("rows"))

    def _missing(self, predicate: str, column: str, done: str) -> Any:
        """Return how many rows lack the value of a column, for the observation."""
        places = [F.col(quoted(slot)) for slot in self._slots.of[NULLS]]
        is_meant = (F.col(TAG) == NULLS) & (places[0] == predicate) & (places[1] == column)
        rows = F.when(is_meant & (places[2] == done), places[3].cast("bigint")).otherwise(F.lit(0))
        return F.sum(rows).alias(f"{predicate}.{column} {done}")

    @property
    def facts(self) -> DataFrame:
        """All outputs in one frame: the predicate of each row, and a struct for each of them.

        It is made to be written in one pass: where one task derives, nothing is exchanged before.
        """
        tag = free_name(TAG, list(self.outputs))
        parts = [F.col(TAG).alias(tag)]
        for name, output in self._derived.items():
            fields = zip(self._slots.of[name], output.fields, strict=True)
            struct = F.struct(*(F.col(quoted(slot)).alias(column) for slot, (column, _) in fields))
            parts.append(F.when(F.col(TAG) == name, struct).alias(name))
        wanted = self._is_one_of(list(self._derived))
        derived = self._written.where(wanted).select(*parts)
        for name, each in self._around.items():
            tagged = each.frame.select(F.lit(name).alias(tag), F.struct("*").alias(name))
            derived = derived.unionByName(tagged, allowMissingColumns=True)
        return derived

    def _is_one_of(self, names: Sequence[str]) -> Any:
        """Return the condition that a row is of one of the outputs; on the row of an error, raise that."""
        error = F.raise_error(F.col(quoted(self._slots.of[ERRORS][0]))).cast("boolean")
        return F.when(F.col(TAG) == ERRORS, error).otherwise(F.col(TAG).isin(list(names)))

    @property
    def _shared(self) -> DataFrame:
        """The rows of all outputs; one query that uses several of them evaluates the program once.

        A filter does not move below what is random, and each consumer needs every column: so the exchange
        below is the same for all of them, and Spark uses it again.
        """
        every = [F.col(quoted(name)).isNull() for name in (TAG, *self._slots.types)]
        return self._rows.where((F.col(SHARED) >= 0) & ~reduce(lambda one, other: one & other, every))

    def only(
        self, name: str, columns: Sequence[str], schema: spark_types.StructType | None = None
    ) -> DataFrame:
        """Return the rows of one output, with these columns, which may be null where the schema says so."""
        chosen = []
        for place, (slot, column) in enumerate(zip(self._slots.of[name], columns, strict=True)):
            value = F.col(quoted(slot))
            if schema is not None and not schema.fields[place].nullable:
                value = never_null(value, schema.fields[place].dataType)
            chosen.append(value.alias(column))
        return self._shared.where(self._is_one_of([name])).select(*chosen)

    # ---- kept

    def persist(self, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER) -> Derived:
        """Keep the rows of all outputs once they are derived; use it in a `with` block, or `unpersist`."""
        self._rows.persist(level)
        return self

    def unpersist(self) -> None:
        """Release rows that were kept."""
        self._rows.unpersist()

    def __enter__(self) -> Derived:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self.unpersist()
