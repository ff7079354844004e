"""The frames of a program's outputs, made of the one frame of rows that its tasks return.

Begin with `Derived`, the mapping that `derive` returns: each output is a filter over the rows of all outputs.
Behind it stand what it counts (`Observed`), the layout of `derived.facts`, how all outputs are saved in one
pass (`Saving`), and how rows of frames come to this process (`fetch`). Below are `schemas` and `worker`.
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
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.storagelevel import StorageLevel

from tidelog.durable import replacing_text
from tidelog.errors import Diagnostic, ProgramError, codes
from tidelog.logic.program import free_name
from tidelog.spark.schemas import (
    NullAction,
    OutputSchema,
    PassThrough,
    SharedColumns,
    never_null,
    plain_names,
    share_columns,
)
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship, translated_errors
from tidelog.spark.worker import (
    COLUMNS,
    COUNTS,
    ERRORS,
    FILE_READ,
    HIDDEN,
    NULLS,
    REJECTS,
    TAG,
    VIOLATIONS,
    FileTarget,
    WriteRows,
    missing,
)

PREDICATE: Final = "predicate"  # the column that says of which predicate a row is
STRING, LONG = spark_types.StringType(), spark_types.LongType()
SPECIAL = {
    REJECTS: ("place", "code", "reason", "row"),
    NULLS: ("predicate", "column", "nulls", "rows"),
    VIOLATIONS: ("code", "message"),
    ERRORS: ("message",),
    COUNTS: ("counts",),
}
SHARED = "_shared"  # a column of random numbers
KEY: Final = "tidelog.layout"  # of the metadata of the column that says of which predicate a row is
MODES: Final = ("append", "overwrite")
MANIFEST: Final = "_manifest.json"  # Spark skips files whose names begin so
ROWS: Final = "rows"  # the predicate of a `FileTarget` for the rows of any frame
FILES_TYPES: Final = (STRING, STRING, LONG)
FILES_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(name, of) for name, of in zip(COLUMNS, FILES_TYPES, strict=True)]
)


class Derived(Mapping[str, DataFrame]):
    """The frames of a program's outputs, by predicate.

    Each action evaluates the program; in `with derived.persist():` only the first one does. The `observation`
    has how many facts there are of each predicate once an action has run; rows that our tasks return
    `are_counted` there. `make_rows` returns the rows of all outputs, `write_files` which files tasks have
    written instead of returning rows. Both are called when they are needed: Spark analyses what it is given.
    """

    def __init__(
        self,
        make_rows: Callable[[], DataFrame],
        outputs: Mapping[str, OutputSchema],
        shared: SharedColumns,
        passing: Mapping[str, PassThrough] | None = None,
        *,
        is_divided: bool = False,
        are_counted: bool = True,
        write_files: Callable[[FileTarget], DataFrame] | None = None,
        nulls: Sequence[NullAction] = (),
    ) -> None:
        self.outputs = {**outputs, **{name: each.output for name, each in (passing or {}).items()}}
        self.observation = Observed(outputs, nulls)
        self.counts_nulls = bool(nulls)
        self._make_rows = make_rows
        self._shared_columns = shared
        self._derived = outputs
        self._passing = dict(passing or {})
        self._is_divided = is_divided
        self._are_counted = are_counted
        self._write_files = write_files
        self._is_persisted = False
        self._frames: dict[str, DataFrame] = {}
        self._names = [*self.outputs]

    @cached_property
    def _observed(self) -> DataFrame:
        count = self.observation.of_tasks if self._are_counted else self.observation.of_rows
        return count(self._make_rows(), self._shared_columns)

    @cached_property
    def _shuffled(self) -> DataFrame:
        """The rows behind a shuffle, so that what follows runs in as many tasks as its size asks for.

        Tasks of a barrier stage run all or none: nothing that stops early, and no union, may follow them in
        one stage.
        """
        return self._observed.hint("rebalance")

    @cached_property
    def _rows(self) -> DataFrame:
        return self._shuffled.withColumn(SHARED, F.rand(0))

    @property
    def _behind_tasks(self) -> DataFrame:
        """The rows behind a shuffle below which Spark moves no filter.

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
        if name in self._passing:
            return self._passing[name].frame
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
        return reduce(DataFrame.unionAll, (each.read.rejects for each in self._passing.values()), own)

    @property
    def violations(self) -> DataFrame:
        """The constraints that do not hold, if they are kept."""
        return self.only(VIOLATIONS, SPECIAL[VIOLATIONS])

    @property
    def nulls(self) -> DataFrame:
        """How many rows lack a value of which column, and what became of them, where there are some."""
        own = self.only(NULLS, SPECIAL[NULLS])
        own = own.select("predicate", "column", "nulls", F.col("rows").cast("bigint"))
        every = reduce(DataFrame.unionAll, (each.read.nulls for each in self._passing.values()), own)
        return every.groupBy("predicate", "column", "nulls").agg(F.sum("rows").alias("rows"))

    @cached_property
    def layout(self) -> dict[str, dict[str, str]]:
        """Where the columns of each predicate lie in `facts`: a column holds those of one type, in order."""
        kept = share_columns({name: [of for _, of in output.fields] for name, output in self.outputs.items()})
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
        self, rows: DataFrame | None, derived: Mapping[str, OutputSchema], with_passing: bool = True
    ) -> DataFrame:
        """Return the rows of some outputs that were derived, and those of outputs that no task derives."""
        types: dict[str, spark_types.DataType] = {}
        taken: dict[str, str] = {}
        for name, output in self.outputs.items():
            places = self.layout[name].values()
            types |= dict(zip(places, (of for _, of in output.fields), strict=True))
            if name in derived:
                taken |= dict(zip(places, self._shared_columns.of[name], strict=True))

        parts = []
        if rows is not None:
            parts.append(rows.where(self._is_one_of(list(derived))).select(TAG, *filled(taken, types)))
        others = []
        for name, each in self._passing.items() if with_passing else ():
            own = {place: column for column, place in self.layout[name].items()}
            others.append(each.rows.select(F.lit(name).alias(TAG), *filled(own, types)))
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
        if self._write_files is not None and not self._is_persisted:
            rest = {}
            frames.append(self._write_files(saving.target))
        if rest or self._passing:
            layout = {name: tuple(each.values()) for name, each in self.layout.items()}
            rows = self._facts(self._rows if rest else None, rest)
            frames.append(saving.of_rows(rows, TAG, layout))
        return saving.run(union(frames)) if frames else {}

    @property
    def passed_through(self) -> tuple[str, ...]:
        """The outputs that no task derives: inputs, cast and without duplicates."""
        return tuple(self._passing)

    def write(self, target: FileTarget) -> list[tuple[str, str, int]]:
        """Write outputs in the tasks that derive them; return predicate, name and rows of each file.

        This runs a job. Outputs that no task derives are not written. Who writes a log of commits records
        afterwards which files count.
        """
        if not self._derived:
            return []
        if self._write_files is not None and not self._is_persisted:
            files = self._write_files(target)
        else:
            layout = {name: tuple(each.values()) for name, each in self.layout.items()}
            rows = self._facts(self._rows, self._derived, with_passing=False)
            files = rows.mapInArrow(Shipped(WriteRows(target, TAG, layout)), FILES_SCHEMA)
        with translated_errors():
            return [(row.predicate, row.file, row.rows) for row in files.collect()]

    def _is_one_of(self, names: Sequence[str]) -> Any:
        """Return the condition that a row is of one of the outputs; on the row of an error, raise that."""
        error = F.raise_error(F.col(quoted(self._shared_columns.of[ERRORS][0]))).cast("boolean")
        return F.when(F.col(TAG) == ERRORS, error).otherwise(F.col(TAG).isin(list(names)))

    @property
    def _shared(self) -> DataFrame:
        """The rows of all outputs; one query that uses several of them evaluates the program once.

        A filter does not move below what is random, and each consumer needs every column: so the exchange
        below is the same for all of them, and Spark uses it again.
        """
        every = [F.col(quoted(name)).isNull() for name in (TAG, *self._shared_columns.types)]
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
        for place, (slot, column) in enumerate(zip(self._shared_columns.of[name], columns, strict=True)):
            value = F.col(quoted(slot))
            if schema is not None and not schema.fields[place].nullable:
                value = never_null(value, schema.fields[place].dataType)
            chosen.append(value.alias(column))
        return rows.where(self._is_one_of([name])).select(*chosen)

    def persist(self, level: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER) -> Derived:
        """Keep the rows of all outputs once they are derived; use it in a `with` block, or `unpersist`."""
        self._rows.persist(level)
        self._is_persisted = True
        return self

    def unpersist(self) -> None:
        """Release rows that were kept."""
        self._rows.unpersist()
        self._is_persisted = False

    def __enter__(self) -> Derived:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self.unpersist()


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

    def of_tasks(self, rows: DataFrame, shared: SharedColumns) -> DataFrame:
        """Return rows among which each task has one with what it has counted."""
        told = F.when(F.col(TAG) == COUNTS, F.col(quoted(shared.of[COUNTS][0])))
        return rows.observe(self._observation, F.collect_list(told).alias(COUNTS))

    def of_rows(self, rows: DataFrame, shared: SharedColumns) -> DataFrame:
        """Return rows that are counted one by one: where no task has derived all of a predicate."""
        counts = [F.struct(F.lit(name), F.count_if(F.col(TAG) == name)) for name in self._names]
        places = [F.col(quoted(slot)) for slot in shared.of[NULLS]]
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


def share_output_columns(outputs: Mapping[str, OutputSchema]) -> SharedColumns:
    """Return where the columns of outputs lie, with those of what is no predicate."""
    return share_with_special({name: [of for _, of in output.fields] for name, output in outputs.items()})


def share_with_special(columns: Mapping[str, Sequence[spark_types.DataType]]) -> SharedColumns:
    """Return where columns of these types lie, with those of what is no predicate."""
    return share_columns({**columns, **{name: [STRING] * len(each) for name, each in SPECIAL.items()}})


def quoted(name: str) -> str:
    """Return the name of a column, whatever is in it, as `F.col` takes it."""
    return "`" + name.replace("`", "``") + "`"


def filled(columns: Mapping[str, str], types: Mapping[str, spark_types.DataType]) -> Iterator[Any]:
    """Yield columns of these names and types: those of a frame where it has one for a name, else nulls."""
    for name, of in types.items():
        column = F.col(quoted(columns[name])) if name in columns else F.lit(None).cast(of)
        yield column.alias(name)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several frames, by a plan that is low: Spark traverses all of it with each step."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return union(frames[:middle]).unionAll(union(frames[middle:]))


@dataclass(frozen=True)
class PredicateLayout:
    """The columns of a predicate, and where they lie among those of `derived.facts`.

    The layout is metadata of the column that says of which predicate a row is, so that `write` needs nothing
    else. It stays with the column through filters, shuffles and Spark's own files, and is read only where all
    other columns are there, too, as they were.
    """

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


class Saving:
    """One write of all outputs in one pass, by the tasks that have the rows: complete or not at all.

    Each predicate is a folder of Parquet files, which anybody reads: `spark.read.parquet(f"{path}/reach")`.
    Tasks write files under names that readers skip, and return these names. When all of them have ended well,
    a last task gives the files the names by which they are read, and then the manifest says which files there
    are (`CommitFiles`). A write that fails leaves none (`AbortFiles`). Spark may repeat it at any point. Two
    writes at once would each write a manifest without the other's files.
    """

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
            with translated_errors():
                rows = files.repartition(1).mapInArrow(Shipped(commit), FILES_SCHEMA).collect()
        except BaseException:
            with translated_errors():
                one = files.sparkSession.range(1)
                one.repartition(1).mapInArrow(Shipped(AbortFiles(self.target)), FILES_SCHEMA).collect()
            raise
        found = dict.fromkeys(self.target.schemas, 0)
        for row in rows:
            found[row.predicate] += row.rows
        return found


@dataclass(frozen=True)
class CommitFiles:
    """What the last task of a write does: it gives files their names, and says which there are.

    Spark may run it twice, or again after it has failed at any point: what is done already is left so.
    """

    target: FileTarget
    is_overwriting: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows that name files, once all files have their names."""
        target = self.target
        written = [tuple(row[name] for name in COLUMNS) for batch in batches for row in batch.to_pylist()]
        before = self._files_before()
        files = {} if self.is_overwriting else {name: dict(each) for name, each in before.items()}
        empty = {name for name in target.schemas if not files.get(name)} - {name for name, _, _ in written}
        for name in sorted(empty):  # it has a schema, too
            no_values = [pa.array([], field.type) for field in target.schemas[name]]
            written += [(name, *each) for each in target.write(name, [(no_values, 0)])]
        for name, hidden, rows in written:
            place = Path(target.folder_of(name), hidden)
            final = place.with_name(hidden.removeprefix(HIDDEN))
            with suppress(FileNotFoundError):  # it has its name
                place.rename(final)
            if not final.exists():
                raise FileNotFoundError(f"{final}: a file that a task has written is missing")
            files.setdefault(name, {})[final.name] = rows
        with replacing_text(Path(target.folder, MANIFEST)) as stream:
            stream.write(json.dumps({"files": files}, indent=1, ensure_ascii=False).encode())
        for name, old in before.items() if self.is_overwriting else ():
            for file in old.keys() - files.get(name, {}).keys():
                Path(target.folder_of(name), file).unlink(missing_ok=True)
        target.remove_unfinished()
        if written:
            columns = map(list, zip(*written, strict=True))
            yield pa.RecordBatch.from_pydict(dict(zip(COLUMNS, columns, strict=True)))

    def _files_before(self) -> dict[str, dict[str, int]]:
        try:
            manifest = json.loads(Path(self.target.folder, MANIFEST).read_bytes())
        except FileNotFoundError:
            return {}
        found: dict[str, dict[str, int]] = manifest["files"]
        return found


@dataclass(frozen=True)
class AbortFiles:
    """What a task does when a write has failed."""

    target: FileTarget

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Remove the files that have no names yet; yields nothing."""
        for _ in batches:
            pass
        self.target.remove_unfinished()
        yield from ()


def _arrow(schemas: Mapping[str, spark_types.StructType]) -> dict[str, Any]:
    return {name: to_arrow_schema(each, timezone="UTC") for name, each in schemas.items()}


def _folder(path: str) -> Path:
    name = path.removeprefix("file:")
    if "://" in name:
        message = f"`{path}` is not a folder that tasks can rename files in"
        help = "write to a file system that all executors see; other stores by `derived[…].write`"
        raise ProgramError(Diagnostic(codes.FRAMES_NOT_WRITTEN, message, help=help))
    return Path(name).absolute()


def fetch_few(frame: DataFrame, most: int) -> Any | None:
    """Return the rows of a frame, at once; None if there are more than a limit."""
    table = frame.limit(most + 1).toArrow()
    return table if table.num_rows <= most else None


def fetch(frame: DataFrame, most: int) -> Iterator[Any]:
    """Yield the rows of a frame as Arrow tables: at once if they are few, else packed, some rows at a time.

    What Spark hands over as a result goes through the heap of the driver. Where tasks and this process share
    a folder, many rows are fetched by files instead.
    """
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
    with translated_errors():
        return {each.file: each.rows for each in files.collect()}
