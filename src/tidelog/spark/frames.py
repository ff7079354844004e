"""The frames of a program: inputs by predicate, and outputs, made of the one frame of rows that its task
returns.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from os import PathLike, fspath
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.storagelevel import StorageLevel

from tidelog.errors import Diagnostic, ProgramError, codes
from tidelog.logic.program import free_name
from tidelog.spark.schemas import NullAction, OutputSchema, PassThrough, Slots, never_null, plain_names, slots
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship, telling
from tidelog.spark.worker import (
    COLUMNS,
    COUNTS,
    ERRORS,
    FILE_READ,
    NULLS,
    REJECTS,
    TAG,
    VIOLATIONS,
    AbortFiles,
    CommitFiles,
    FileTarget,
    WriteRows,
    missing,
)

# ---- The frames of a program's inputs, by predicate; one frame may hold the rows of several predicates.

PREDICATE: Final = "predicate"  # the column that says of which predicate a row of a shared frame is
Source = DataFrame | spark_types.StructType


class InputFrames(Mapping[str, Any]):
    """Frames, or their schemas where nothing will run, by the name of the predicate.

    A frame that is given for several predicates, `{("flight", "train"): connections}`, has a column
    `predicate`; the others are the columns of the predicates, in order. It is read once for all of them.
    """

    def __init__(
        self, given: Mapping[str, Any] | Mapping[tuple[str, ...], Any] | Mapping[str | tuple[str, ...], Any]
    ) -> None:
        self._own: dict[str, Source] = {}
        self._shared: dict[str, Source] = {}
        self.groups: list[tuple[tuple[str, ...], Source]] = []
        if isinstance(given, InputFrames):
            self._own, self._shared, self.groups = given._own, given._shared, given.groups
            return
        for name, source in given.items():
            if not isinstance(source, DataFrame | spark_types.StructType):
                raise TypeError(f"`{name}` is no DataFrame, but {type(source).__name__}")
            if isinstance(name, tuple):
                _check(name, source)
                self.groups.append((name, source))
                self._shared |= dict.fromkeys(name, source)
            else:
                self._own[name] = source
        twice = self._own.keys() & self._shared.keys()
        if twice or sum(len(names) for names, _ in self.groups) > len(self._shared):
            raise ValueError(f"several frames are given for {', '.join(sorted(twice or self._shared))}")

    def __getitem__(self, name: str) -> Any:
        """Return the frame, or the schema, of one predicate."""
        if name in self._own:
            return self._own[name]
        whole = self._shared[name]
        if not isinstance(whole, DataFrame):
            return _without_predicate(whole)
        return whole.where(F.col(PREDICATE) == name).drop(PREDICATE)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._shared

    def __len__(self) -> int:
        return len(self._own) + len(self._shared)

    def is_shared(self, name: str) -> bool:
        """Whether the frame of a predicate holds others, too."""
        return name in self._shared

    @property
    def sources(self) -> list[DataFrame]:
        """The frames that are given, each once."""
        shared = (source for _, source in self.groups)
        return [each for each in (*self._own.values(), *shared) if isinstance(each, DataFrame)]

    @property
    def schemas(self) -> list[str]:
        """The predicates of which only a schema is given."""
        given = {**self._own, **self._shared}
        return [name for name, source in given.items() if not isinstance(source, DataFrame)]

    def schema_of(self, name: str, arity: int | None) -> spark_types.StructType:
        """Return the schema of a predicate's frame; a shared one has columns for the widest predicate."""
        source = self._own.get(name, self._shared.get(name))
        schema = source.schema if isinstance(source, DataFrame) else source
        assert schema is not None
        if name in self._own:
            return schema
        return spark_types.StructType(_without_predicate(schema).fields[:arity])


def _without_predicate(schema: spark_types.StructType) -> spark_types.StructType:
    return spark_types.StructType([each for each in schema.fields if each.name != PREDICATE])


def _check(names: tuple[str, ...], source: Source) -> None:
    schema = source.schema if isinstance(source, DataFrame) else source
    if PREDICATE not in schema.names or not isinstance(schema[PREDICATE].dataType, spark_types.StringType):
        shown = ", ".join(f"`{name}`" for name in names)
        message = f"the frame of {shown} has no column `{PREDICATE}` of strings, to tell them apart"
        help = f'add one, such as `frame.withColumn("{PREDICATE}", …)`, or give a frame for each predicate'
        raise ProgramError(Diagnostic(codes.WRONG_COLUMNS, message, help=help))


# ---- Which columns of `derived.facts` are whose, as metadata of the frame: who writes it needs nothing else.
#
# Metadata of a column stays with it through filters, exchanges and Spark's own files. It lies with the column
# that says of which predicate a row is, and is read only where all other columns are there, too, as they
# were.

KEY: Final = "tidelog.layout"


@dataclass(frozen=True)
class PredicateLayout:
    """The columns of a predicate, and where they lie among those of the frame."""

    schema: spark_types.StructType
    columns: tuple[str, ...]


def metadata_of(
    layout: Mapping[str, Mapping[str, str]], outputs: Mapping[str, OutputSchema]
) -> dict[str, Any]:
    """Return the metadata of the column that says of which predicate a row is."""
    told = {
        name: {"schema": output.schema.jsonValue(), "columns": list(layout[name].values())}
        for name, output in outputs.items()
    }
    return {KEY: json.dumps(told, ensure_ascii=False)}


def layout_of(schema: spark_types.StructType) -> dict[str, PredicateLayout] | None:
    """Return the layout of a frame of facts by predicate; None if it is none, or no longer."""
    if PREDICATE not in schema.names or KEY not in schema[PREDICATE].metadata:
        return None
    found = {}
    for name, told in json.loads(schema[PREDICATE].metadata[KEY]).items():
        own = spark_types.StructType.fromJson(told["schema"])
        columns = tuple(told["columns"])
        types = [schema[column].dataType for column in columns if column in schema.names]
        if types != [field.dataType for field in own.fields]:
            return None
        found[name] = PredicateLayout(own, columns)
    return found


# ---- All predicates written in one pass, by the tasks that have the rows, complete or not at all.
#
# Each predicate is a folder of Parquet files, which anybody reads: `spark.read.parquet(f"{path}/reach")`.
# Tasks write files under names that readers skip, and return these names. When all of them have ended well, a
# last task gives the files the names by which they are read, and then the manifest says which files there
# are. A write that fails leaves none. It may be repeated by Spark at any point.
#
# One write at a time: two of them at once would each write a manifest without the other's files.

MODES: Final = ("append", "overwrite")
_STRING, _LONG = spark_types.StringType(), spark_types.LongType()
FILES_TYPES: Final = (_STRING, _STRING, _LONG)
FILES_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(name, of) for name, of in zip(COLUMNS, FILES_TYPES, strict=True)]
)


class Saving:
    """One write of all outputs: where to, and what of each predicate."""

    def __init__(self, path: str, mode: str, schemas: Mapping[str, spark_types.StructType]) -> None:
        if mode not in MODES:
            raise ValueError(f"mode is {' or '.join(map(repr, MODES))}, not {mode!r}")
        self.is_overwriting = mode == "overwrite"
        self.target = FileTarget(str(_folder(path)), token_hex(16), _arrow(schemas))

    def of_rows(self, rows: DataFrame, tag: str, columns: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """Return which files tasks have written that are given rows of a tag and these columns."""
        return rows.mapInArrow(Shipped(WriteRows(self.target, tag, columns)), FILES_SCHEMA)

    def run(self, files: DataFrame) -> dict[str, int]:
        """Write, and return how many rows there are of each predicate."""
        commit = CommitFiles(self.target, self.is_overwriting)
        try:
            with telling():
                rows = files.repartition(1).mapInArrow(Shipped(commit), FILES_SCHEMA).collect()
        except BaseException:
            with telling():
                one = files.sparkSession.range(1)
                one.repartition(1).mapInArrow(Shipped(AbortFiles(self.target)), FILES_SCHEMA).collect()
            raise
        found = dict.fromkeys(self.target.schemas, 0)
        for row in rows:
            found[row.predicate] += row.rows
        return found


def _arrow(schemas: Mapping[str, spark_types.StructType]) -> dict[str, Any]:
    return {name: to_arrow_schema(each, timezone="UTC") for name, each in schemas.items()}


def _folder(path: str) -> Path:
    name = path.removeprefix("file:")
    if "://" in name:
        message = f"`{path}` is no folder that tasks can rename files in"
        help = "write to a file system that all executors see; other stores by `derived[…].write`"
        raise ProgramError(Diagnostic(codes.FRAMES_NOT_WRITTEN, message, help=help))
    return Path(name).absolute()


# ---- Rows of frames that come to this process: as Arrow tables, some at a time, and never as Python objects.
#
# What Spark hands over as a result goes through the heap of the driver. Where tasks and this process share a
# folder, many rows take the way by files instead.

ROWS: Final = "rows"  # what `Target` calls a predicate


def fetch_few(frame: DataFrame, most: int) -> Any | None:
    """Return the rows of a frame, at once; None if there are more than so many."""
    table = frame.limit(most + 1).toArrow()
    return table if table.num_rows <= most else None


def fetch(frame: DataFrame, most: int) -> Iterator[Any]:
    """Yield the rows of a frame: at once if they are few, else packed, each time some rows of a task."""
    table = fetch_few(frame, most)
    if table is not None:
        yield table
        return

    def pack(batches: Any) -> Any:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()])], ["rows"])

    for row in frame.mapInArrow(pack, "rows binary").toLocalIterator():
        yield pa.ipc.open_stream(bytes(row[0])).read_all()


@contextmanager
def folder_below(folder: Path) -> Iterator[Path]:
    """Return the path of a new folder below this one; it is removed in the end, and this one if empty."""
    own = (folder / token_hex(8)).resolve()
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


def fetch_by_files(frame: DataFrame, folder: Path) -> Iterator[Any]:
    """Yield the rows of a frame, which tasks write into a folder below this one that is removed again."""
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    with folder_below(folder) as own:
        target = FileTarget("", "fetched", {ROWS: schema}, "", folders={ROWS: str(own)})
        for file in write_rows(frame, target):
            with pq.ParquetFile(own / file) as opened:
                for batch in opened.iter_batches(FILE_READ):
                    yield pa.Table.from_batches([batch])


def write_rows(frame: DataFrame, target: FileTarget) -> dict[str, int]:
    """Write the rows of a frame in tasks, as those of `ROWS`; return how many each file has."""
    ship(frame.sparkSession, scratch_folder())
    columns = tuple(str(place) for place, _ in enumerate(frame.columns))
    rows = frame.toDF(*columns).withColumn(TAG, F.lit(ROWS))
    files = rows.mapInArrow(Shipped(WriteRows(target, TAG, {ROWS: columns})), FILES_SCHEMA)
    with telling():
        return {each.file: each.rows for each in files.collect()}


# ---- The frames of a program's outputs, made of the one frame of rows that its task returns.

STRING = spark_types.StringType()
SPECIAL = {
    REJECTS: ("place", "code", "reason", "row"),
    NULLS: ("predicate", "column", "nulls", "rows"),
    VIOLATIONS: ("code", "message"),
    ERRORS: ("message",),
    COUNTS: ("counts",),
}
SHARED = "_shared"  # a column of random numbers


def slots_of(outputs: Mapping[str, OutputSchema]) -> Slots:
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

    def __init__(self, outputs: Iterable[str], nulls: Iterable[NullAction]) -> None:
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
        outputs: Mapping[str, OutputSchema],
        given: Slots,
        around: Mapping[str, PassThrough] | None = None,
        *,
        is_divided: bool = False,
        are_counted: bool = True,
        write_files: Callable[[FileTarget], DataFrame] | None = None,
        nulls: Sequence[NullAction] = (),
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

    def _facts(
        self, rows: DataFrame | None, derived: Mapping[str, OutputSchema], around: bool = True
    ) -> DataFrame:
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

    def write(self, target: FileTarget) -> list[tuple[str, str, int]]:
        """Write outputs in the tasks that derive them; return predicate, name and rows of each file.

        This runs a job. Outputs that no task derives are not written. Who writes a log of commits records
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
