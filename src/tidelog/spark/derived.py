"""The frames of a program's outputs, made of the one frame of rows that its task returns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from os import PathLike, fspath
from types import TracebackType
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types
from pyspark.storagelevel import StorageLevel

from tidelog.logic.program import free_name
from tidelog.spark.around import Around
from tidelog.spark.failures import telling
from tidelog.spark.layout import metadata_of
from tidelog.spark.nulls import Lacking
from tidelog.spark.parquet import Target, WriteRows
from tidelog.spark.schemas import Output, Slots, never_null, plain_names, slots
from tidelog.spark.shipping import Shipped
from tidelog.spark.task import COUNTS, ERRORS, NULLS, REJECTS, TAG, VIOLATIONS, missing
from tidelog.spark.writer import FILES_SCHEMA, Saving

STRING = spark_types.StringType()
SPECIAL = {
    REJECTS: ("place", "code", "reason", "row"),
    NULLS: ("predicate", "column", "nulls", "rows"),
    VIOLATIONS: ("code", "message"),
    ERRORS: ("message",),
    COUNTS: ("counts",),
}
SHARED = "_shared"  # a column of random numbers


def slots_of(outputs: Mapping[str, Output]) -> Slots:
    """Return where the columns of outputs lie, with those of what is no predicate."""
    return slots_with({name: [of for _, of in output.fields] for name, output in outputs.items()})


def slots_with(columns: Mapping[str, Sequence[spark_types.DataType]]) -> Slots:
    """Return where columns of these types lie, with those of what is no predicate."""
    return slots({**columns, **{name: [STRING] * len(each) for name, each in SPECIAL.items()}})


def quoted(name: str) -> str:
    """Return the name of a column, whatever is in it, as `F.col` takes it."""
    return "`" + name.replace("`", "``") + "`"


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several frames, by a plan that is low: Spark looks at all of it with each step."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return union(frames[:middle]).unionAll(union(frames[middle:]))


class Observed:
    """How many facts there are of each predicate, once an action has run, with rejected rows and violations.

    Where something is said of missing values, `edge.y drop-row` is how many rows of `edge` had none for `y`.
    """

    def __init__(self, outputs: Iterable[str], nulls: Iterable[Lacking]) -> None:
        self._observation = Observation()
        outputs = list(outputs)
        self._names = {name: name for name in outputs}
        self._names |= {name: free_name(name.strip(), outputs) for name in (REJECTS, VIOLATIONS)}
        self._nulls = list(nulls)

    def of_tasks(self, rows: DataFrame, given: Slots) -> DataFrame:
        """Return rows among which each task has one that tells what it has counted."""
        told = F.when(F.col(TAG) == COUNTS, F.col(quoted(given.of[COUNTS][0])))
        return rows.observe(self._observation, F.collect_list(told).alias(COUNTS))

    def of_rows(self, rows: DataFrame, given: Slots) -> DataFrame:
        """Return rows that are counted one by one: where no task has derived all of a predicate."""
        counts = [F.struct(F.lit(name), F.count_if(F.col(TAG) == name)) for name in self._names]
        places = [F.col(quoted(slot)) for slot in given.of[NULLS]]
        for what in self._nulls:
            is_meant = F.col(TAG) == NULLS
            for place, word in zip(places, what, strict=False):
                is_meant &= place == word
            lacking = F.sum(F.when(is_meant, places[-1].cast("bigint")).otherwise(F.lit(0)))
            counts.append(F.struct(F.lit(missing(*what)), lacking))
        return rows.observe(self._observation, F.array(*counts).alias(COUNTS))

    @property
    def get(self) -> dict[str, int]:
        """Return the counts by name; wait for an action."""
        found = dict.fromkeys((*self._names, *(missing(*what) for what in self._nulls)), 0)
        for told in self._observation.get[COUNTS]:
            counts = json.loads(told) if isinstance(told, str) else {told[0]: told[1]}
            for name, count in counts.items():
                found[name] = found.get(name, 0) + count
        return {self._names.get(name, name): count for name, count in found.items()}


class Derived(Mapping[str, DataFrame]):
    """The frames of a program's outputs, by predicate.

    Each action evaluates the program; in `with derived.persist():` only the first one does. The `observation`
    has how many facts there are of each predicate once an action has run; rows that tasks of ours return
    `are_counted` there. `make_rows` returns the rows of all outputs, `write_files` which files tasks have
    written instead of returning rows. Both are called when they are needed: Spark analyses what it is given.
    """

    def __init__(
        self,
        make_rows: Callable[[], DataFrame],
        outputs: Mapping[str, Output],
        given: Slots,
        around: Mapping[str, Around] | None = None,
        *,
        is_divided: bool = False,
        are_counted: bool = True,
        write_files: Callable[[Target], DataFrame] | None = None,
        nulls: Sequence[Lacking] = (),
    ) -> None:
        self.outputs = {**outputs, **{name: each.output for name, each in (around or {}).items()}}
        self.observation = Observed(outputs, nulls)
        self.counts_nulls = bool(nulls)
        self._make_rows = make_rows
        self._slots = given
        self._derived = outputs
        self._around = dict(around or {})
        self._is_divided = is_divided
        self._are_counted = are_counted
        self._write_files = write_files
        self._is_kept = False
        self._frames: dict[str, DataFrame] = {}
        self._names = [*self.outputs]

    @cached_property
    def _observed(self) -> DataFrame:
        count = self.observation.of_tasks if self._are_counted else self.observation.of_rows
        return count(self._make_rows(), self._slots)

    @cached_property
    def _exchanged(self) -> DataFrame:
        """The rows behind an exchange, so that what follows runs in as many tasks as its size asks for.

        Tasks of a barrier stage run all or none: nothing that stops early, and no union, may follow them in
        one stage.
        """
        return self._observed.hint("rebalance")

    @cached_property
    def _rows(self) -> DataFrame:
        return self._exchanged.withColumn(SHARED, F.rand(0))

    @property
    def _behind_tasks(self) -> DataFrame:
        """The rows behind an exchange below which Spark moves no filter.

        The filter that raises an error would fail the barrier stage there, which Spark repeats as a whole.
        """
        return self._rows.where(F.col(SHARED) >= 0)

    def with_frames(self, more: Mapping[str, DataFrame]) -> Derived:
        """Add frames that are made from others; they are not among `facts`."""
        self._frames |= more
        self._names += more
        return self

    def __getitem__(self, name: str) -> DataFrame:
        """Return the facts of a predicate as a frame."""
        if name not in self._names:
            raise KeyError(f"{name!r} is not among the outputs: {', '.join(self._names)}")
        if name not in self._frames:
            self._frames[name] = self._frame(name)
        return self._frames[name]

    def _frame(self, name: str) -> DataFrame:
        if name in self._around:
            return self._around[name].frame
        output = self._derived[name]
        return self.only(name, [column for column, _ in output.fields], output.schema)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<Derived: {', '.join(self._names)}>"

    @property
    def rejects(self) -> DataFrame:
        """The rows of inputs that could not be read, if they are collected."""
        own = self.only(REJECTS, SPECIAL[REJECTS])
        return reduce(DataFrame.unionAll, (each.read.rejects for each in self._around.values()), own)

    @property
    def violations(self) -> DataFrame:
        """The constraints that do not hold, if they are kept."""
        return self.only(VIOLATIONS, SPECIAL[VIOLATIONS])

    @property
    def nulls(self) -> DataFrame:
        """How many rows lack a value of which column, and what became of them, where there are some."""
        own = self.only(NULLS, SPECIAL[NULLS])
        own = own.select("predicate", "column", "nulls", F.col("rows").cast("bigint"))
        every = reduce(DataFrame.unionAll, (each.read.nulls for each in self._around.values()), own)
        return every.groupBy("predicate", "column", "nulls").agg(F.sum("rows").alias("rows"))

    # ---- all outputs in one pass

    @cached_property
    def layout(self) -> dict[str, dict[str, str]]:
        """Where the columns of each predicate lie in `facts`: a column holds those of one type, in order."""
        kept = slots({name: [of for _, of in output.fields] for name, output in self.outputs.items()})
        names = plain_names(kept)
        return {
            name: {
                column: names[slot] for slot, (column, _) in zip(kept.of[name], output.fields, strict=True)
            }
            for name, output in self.outputs.items()
        }

    @property
    def facts(self) -> DataFrame:
        """All outputs in one frame: the predicate of each row, and its columns as `layout` says.

        It is made to be written in one pass: where one task derives, nothing is exchanged before. Metadata of
        the column `predicate` has the layout, too, for `write.format("tidelog")`.
        """
        rows = self._facts(self._behind_tasks if self._is_divided else self._observed, self._derived)
        # Not `withColumn`, which drops the metadata on Connect.
        told = F.col(TAG).alias(TAG, metadata=metadata_of(self.layout, self.outputs))
        names = dict.fromkeys(name for columns in self.layout.values() for name in columns.values())
        return rows.select(told, *names)

    @property
    def uncounted_facts(self) -> DataFrame:
        """The rows of `facts`, which `observation` does not count: where Spark must not analyse a frame."""
        return self._facts(self._make_rows(), self._derived)

    def _facts(self, rows: DataFrame | None, derived: Mapping[str, Output], around: bool = True) -> DataFrame:
        """Return the rows of some outputs that were derived, and those of outputs that no task derives."""
        types: dict[str, spark_types.DataType] = {}
        taken: dict[str, str] = {}
        for name, output in self.outputs.items():
            places = self.layout[name].values()
            types |= dict(zip(places, (of for _, of in output.fields), strict=True))
            if name in derived:
                taken |= dict(zip(places, self._slots.of[name], strict=True))

        def filled(columns: Mapping[str, str]) -> Iterator[Any]:
            for place, of in types.items():
                found = F.col(quoted(columns[place])) if place in columns else F.lit(None).cast(of)
                yield found.alias(place)

        parts = []
        if rows is not None:
            parts.append(rows.where(self._is_one_of(list(derived))).select(TAG, *filled(taken)))
        others = []
        for name, each in self._around.items() if around else ():
            own = {place: column for column, place in self.layout[name].items()}
            others.append(each.rows.select(F.lit(name).alias(TAG), *filled(own)))
        if others:  # all of them are exchanged at once, to have each row once
            parts.append(union(others).distinct())
        return union(parts)

    def save(self, path: str | PathLike[str], mode: str = "append") -> dict[str, int]:
        """Write all outputs to Parquet files, a folder for each predicate, in one pass. This runs a job.

        The tasks that derive write the files; once all of them have ended well, readers see them. Returns how
        many rows were written of each predicate. The path is one that all executors see.
        """
        schemas = {name: output.schema for name, output in self.outputs.items()}
        saving = Saving(fspath(path), mode, schemas)
        frames = []
        rest = self._derived  # what is derived already, or by others than tasks of ours
        if self._write_files is not None and not self._is_kept:
            rest = {}
            frames.append(self._write_files(saving.target))
        if rest or self._around:
            layout = {name: tuple(each.values()) for name, each in self.layout.items()}
            rows = self._facts(self._rows if rest else None, rest)
            frames.append(saving.of_rows(rows, TAG, layout))
        return saving.run(union(frames)) if frames else {}

    @property
    def around(self) -> tuple[str, ...]:
        """The outputs that no task derives: inputs, cast and without duplicates."""
        return tuple(self._around)

    def write(self, target: Target) -> list[tuple[str, str, int]]:
        """Let the tasks that derive write their outputs; return predicate, name and rows of each file.

        This runs a job. Outputs that no task derives are not written. Who writes a log of commits says
        afterwards which files count.
        """
        if not self._derived:
            return []
        if self._write_files is not None and not self._is_kept:
            files = self._write_files(target)
        else:
            layout = {name: tuple(each.values()) for name, each in self.layout.items()}
            rows = self._facts(self._rows, self._derived, around=False)
            files = rows.mapInArrow(Shipped(WriteRows(target, TAG, layout)), FILES_SCHEMA)
        with telling():
            return [(row.predicate, row.file, row.rows) for row in files.collect()]

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

    def at_once(self, name: str, columns: Sequence[str]) -> DataFrame:
        """Return the rows of one output without an exchange before, where one task has derived them."""
        return self._select(self._observed, name, columns)

    def only(
        self, name: str, columns: Sequence[str], schema: spark_types.StructType | None = None
    ) -> DataFrame:
        """Return the rows of one output, with these columns, which may be null where the schema says so."""
        return self._select(self._shared, name, columns, schema)

    def _select(
        self,
        rows: DataFrame,
        name: str,
        columns: Sequence[str],
        schema: spark_types.StructType | None = None,
    ) -> DataFrame:
        chosen = []
        for place, (slot, column) in enumerate(zip(self._slots.of[name], columns, strict=True)):
            value = F.col(quoted(slot))
            if schema is not None and not schema.fields[place].nullable:
                value = never_null(value, schema.fields[place].dataType)
            chosen.append(value.alias(column))
        return rows.where(self._is_one_of([name])).select(*chosen)

    # ---- kept

    def persist(self, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER) -> Derived:
        """Keep the rows of all outputs once they are derived; use it in a `with` block, or `unpersist`."""
        self._rows.persist(level)
        self._is_kept = True
        return self

    def unpersist(self) -> None:
        """Release rows that were kept."""
        self._rows.unpersist()
        self._is_kept = False

    def __enter__(self) -> Derived:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self.unpersist()
