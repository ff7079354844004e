"""The frames of a program's outputs, each a filter over the one frame of rows that its tasks return.

Begin with `Derived`, the mapping that `derive` returns. `Observed` counts its facts, `PredicateLayout` is the
layout of `derived.facts`, `Saving` saves all outputs in one pass, and `fetch` brings rows of frames to this
process.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
from tidelog.logic.import_options import null_counter
from tidelog.logic.program import free_name
from tidelog.records import dataclass
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
    MISSING,
    NULLS,
    REJECTS,
    TAG,
    VIOLATIONS,
    FileTarget,
    WriteRows,
)

PREDICATE: Final = "predicate"  # the column with the predicate of a row
STRING, LONG = spark_types.StringType(), spark_types.LongType()
SPECIAL = {
    REJECTS: ("place", "code", "reason", "row"),
    NULLS: ("predicate", "column", "nulls", "rows"),
    VIOLATIONS: ("code", "message"),
    MISSING: ("function", "place", "rows", "first"),
    ERRORS: ("message",),
    COUNTS: ("counts",),
}
SHARED = "_shared"  # a column of random numbers
KEY: Final = "tidelog.layout"  # of the metadata of the column `predicate`
MODES: Final = ("append", "overwrite")
MANIFEST: Final = "_manifest.json"  # Spark skips files whose names begin so
ROWS: Final = "rows"  # the predicate of a `FileTarget` for the rows of any frame
FILES_TYPES: Final = (STRING, STRING, LONG)
FILES_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(name, of) for name, of in zip(COLUMNS, FILES_TYPES, strict=True)]
)


class Derived(Mapping[str, DataFrame]):
    """The frames of a program's outputs, by predicate.

    Each action evaluates the program; in `with derived.persist():` only the first one does. `observation` has
    the number of facts of each predicate once an action has run, from the counts that tasks return if
    `are_counted`. `make_rows` returns the rows of all outputs; `write_files` lets tasks write them to
    files, and returns which. Both are called when they are needed: Spark analyses each new frame.
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
        """The rows behind a shuffle, so that the next stage has as many tasks as their size requires.

        Tasks of a barrier stage run all or none: no limit and no union may follow them in the same stage.
        """
        return self._observed.hint("rebalance")

    @cached_property
    def _rows(self) -> DataFrame:
        return self._shuffled.withColumn(SHARED, F.rand(0))

    @property
    def _behind_tasks(self) -> DataFrame:
        """The rows behind a shuffle below which Spark moves no filter.

        A filter that raises an error there would fail the barrier stage, which Spark repeats as a whole.
        """
        return self._rows.where(F.col(SHARED) >= 0)

    def with_frames(self, more: Mapping[str, DataFrame]) -> Derived:
        """Add frames that are computed from others; `facts` does not contain them."""
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
        """The rows of inputs that could not be read, with `on_error="collect"`."""
        own = self.only(REJECTS, SPECIAL[REJECTS])
        return reduce(DataFrame.unionAll, (each.input.rejects for each in self._passing.values()), own)

    @property
    def violations(self) -> DataFrame:
        """The constraints that do not hold, with `on_violation="keep"`."""
        return self.only(VIOLATIONS, SPECIAL[VIOLATIONS])

    @property
    def nulls(self) -> DataFrame:
        """How many rows lack a value, and how they were treated, for each column with such rows."""
        own = self.only(NULLS, SPECIAL[NULLS])
        own = own.select("predicate", "column", "nulls", F.col("rows").cast("bigint"))
        every = reduce(DataFrame.unionAll, (each.input.nulls for each in self._passing.values()), own)
        return every.groupBy("predicate", "column", "nulls").agg(F.sum("rows").alias("rows"))

    @property
    def missing(self) -> DataFrame:
        """How many rows rules drop because a function has no value, by its place, and the first of them.

        Where Spark joins, it does not know: then there is none.
        """
        rows = self.only(MISSING, SPECIAL[MISSING])
        sums = F.sum(F.col("rows").cast("bigint")).alias("rows"), F.min("first").alias("first")
        return rows.groupBy("function", "place").agg(*sums)

    @cached_property
    def layout(self) -> dict[str, dict[str, str]]:
        """Which columns of `facts` hold those of each predicate; a column of `facts` has one type."""
        columns = share_columns(
            {name: [of for _, of in output.fields] for name, output in self.outputs.items()}
        )
        names = plain_names(columns)
        return {
            name: {
                column: names[slot] for slot, (column, _) in zip(columns.of[name], output.fields, strict=True)
            }
            for name, output in self.outputs.items()
        }

    @property
    def facts(self) -> DataFrame:
        """All outputs in one frame: the predicate of each row, and its columns as in `layout`.

        It can be written in one pass: where one task derives, there is no shuffle. The metadata of the column
        `predicate` has the layout for `write.format("tidelog")`.
        """
        rows = self._facts(self._behind_tasks if self._is_divided else self._observed, self._derived)
        # Not `withColumn`, which drops the metadata on Connect.
        tag = F.col(TAG).alias(TAG, metadata=metadata_of(self.layout, self.outputs))
        names = dict.fromkeys(name for columns in self.layout.values() for name in columns.values())
        return rows.select(tag, *names)

    @property
    def uncounted_facts(self) -> DataFrame:
        """The rows of `facts`, not counted by `observation`, for where Spark must not analyse a frame."""
        return self._facts(self._make_rows(), self._derived)

    def _facts(
        self, rows: DataFrame | None, derived: Mapping[str, OutputSchema], with_passing: bool = True
    ) -> DataFrame:
        """Return the rows of derived outputs, and those of the outputs that no task derives."""
        types: dict[str, spark_types.DataType] = {}
        slots: dict[str, str] = {}
        for name, output in self.outputs.items():
            places = self.layout[name].values()
            types |= dict(zip(places, (of for _, of in output.fields), strict=True))
            if name in derived:
                slots |= dict(zip(places, self._shared_columns.of[name], strict=True))

        parts = []
        if rows is not None:
            parts.append(rows.where(self._is_one_of(list(derived))).select(TAG, *filled(slots, types)))
        passing = []
        for name, passed in self._passing.items() if with_passing else ():
            sources = {place: column for column, place in self.layout[name].items()}
            passing.append(passed.rows.select(F.lit(name).alias(TAG), *filled(sources, types)))
        if passing:  # one shuffle removes the duplicates of all of them
            parts.append(union(passing).distinct())
        return union(parts)

    def save(self, path: str | PathLike[str], mode: str = "append") -> dict[str, int]:
        """Write all outputs to Parquet files, a folder for each predicate, in one pass. This runs a job.

        The tasks that derive write the files, which are visible once all tasks have succeeded. Returns the
        number of rows written, by predicate. All executors must have access to the path.
        """
        schemas = {name: output.schema for name, output in self.outputs.items()}
        saving = Saving(fspath(path), mode, schemas)
        frames = []
        unwritten = self._derived  # outputs that tasks of ours do not write
        if self._write_files is not None and not self._is_persisted:
            unwritten = {}
            frames.append(self._write_files(saving.target))
        if unwritten or self._passing:
            layout = {name: tuple(columns.values()) for name, columns in self.layout.items()}
            rows = self._facts(self._rows if unwritten else None, unwritten)
            frames.append(saving.of_rows(rows, TAG, layout))
        return saving.run(union(frames)) if frames else {}

    @property
    def passed_through(self) -> tuple[str, ...]:
        """The outputs that no task derives: inputs, cast and without duplicates."""
        return tuple(self._passing)

    def write(self, target: FileTarget) -> list[tuple[str, str, int]]:
        """Write outputs in the tasks that derive them; return predicate, name and rows of each file.

        This runs a job. Outputs that no task derives are not written. The caller records the files in its log
        of commits.
        """
        if not self._derived:
            return []
        if self._write_files is not None and not self._is_persisted:
            files = self._write_files(target)
        else:
            layout = {name: tuple(columns.values()) for name, columns in self.layout.items()}
            rows = self._facts(self._rows, self._derived, with_passing=False)
            files = rows.mapInArrow(Shipped(WriteRows(target, TAG, layout)), FILES_SCHEMA)
        with translated_errors():
            return [(row.predicate, row.file, row.rows) for row in files.collect()]

    def _is_one_of(self, names: Sequence[str]) -> Any:
        """Return the condition that a row is of one of the outputs; it raises the error in an error row."""
        error = F.raise_error(F.col(quoted(self._shared_columns.of[ERRORS][0]))).cast("boolean")
        return F.when(F.col(TAG) == ERRORS, error).otherwise(F.col(TAG).isin(list(names)))

    @property
    def _shared(self) -> DataFrame:
        """The rows of all outputs; a query that uses several of them evaluates the program once.

        Spark does not push a filter below a random column, and each consumer needs every column: so the
        shuffle below is the same for all of them, and Spark reuses it.
        """
        is_null = [F.col(quoted(name)).isNull() for name in (TAG, *self._shared_columns.types)]
        return self._rows.where((F.col(SHARED) >= 0) & ~reduce(lambda left, right: left & right, is_null))

    def at_once(self, name: str, columns: Sequence[str]) -> DataFrame:
        """Return the rows of one output without a shuffle, where one task has derived them."""
        return self._select(self._observed, name, columns)

    def only(
        self, name: str, columns: Sequence[str], schema: spark_types.StructType | None = None
    ) -> DataFrame:
        """Return the rows of one output, with these columns, which are nullable as in the schema."""
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
        """Persist the rows of all outputs once they are derived; use it in a `with` block, or `unpersist`."""
        self._rows.persist(level)
        self._is_persisted = True
        return self

    def unpersist(self) -> None:
        """Release the persisted rows."""
        self._rows.unpersist()
        self._is_persisted = False

    def __enter__(self) -> Derived:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: object, trace: TracebackType | None) -> None:
        self.unpersist()


class Observed:
    """How many facts, rejected rows and violations there are, once an action has run.

    With settings of missing values, `edge.y drop-row` is the number of rows of `edge` that lack `y`.
    """

    def __init__(self, outputs: Iterable[str], nulls: Iterable[NullAction]) -> None:
        self._observation = Observation()
        outputs = list(outputs)
        self._names = {name: name for name in outputs}
        self._names |= {name: free_name(name.strip(), outputs) for name in (REJECTS, VIOLATIONS)}
        self._nulls = list(nulls)

    def of_tasks(self, rows: DataFrame, shared: SharedColumns) -> DataFrame:
        """Return the rows, observed by the row of counts that each task adds."""
        counts = F.when(F.col(TAG) == COUNTS, F.col(quoted(shared.of[COUNTS][0])))
        return rows.observe(self._observation, F.collect_list(counts).alias(COUNTS))

    def of_rows(self, rows: DataFrame, shared: SharedColumns) -> DataFrame:
        """Return the rows, counted by Spark: where no task has derived all of a predicate."""
        counts = [F.struct(F.lit(name), F.count_if(F.col(TAG) == name)) for name in self._names]
        places = [F.col(quoted(slot)) for slot in shared.of[NULLS]]
        for action in self._nulls:
            matches = F.col(TAG) == NULLS
            for place, word in zip(places, action, strict=False):
                matches &= place == word
            total = F.sum(F.when(matches, places[-1].cast("bigint")).otherwise(F.lit(0)))
            counts.append(F.struct(F.lit(null_counter(*action)), total))
        return rows.observe(self._observation, F.array(*counts).alias(COUNTS))

    @property
    def has_missing(self) -> bool:
        """Whether tasks have dropped rows because a function had no value; wait for an action."""
        items = self._observation.get[COUNTS]
        return any(isinstance(item, str) and json.loads(item).get(MISSING) for item in items)

    @property
    def get(self) -> dict[str, int]:
        """Return the counts by name; wait for an action."""
        totals = dict.fromkeys((*self._names, *(null_counter(*action) for action in self._nulls)), 0)
        for item in self._observation.get[COUNTS]:
            counts = json.loads(item) if isinstance(item, str) else {item[0]: item[1]}
            for name, count in counts.items():
                totals[name] = totals.get(name, 0) + count
        return {self._names.get(name, name): count for name, count in totals.items() if name != MISSING}


def share_output_columns(outputs: Mapping[str, OutputSchema]) -> SharedColumns:
    """Return how outputs share columns, with those of rejects, violations, errors and counts."""
    return share_with_special({name: [of for _, of in output.fields] for name, output in outputs.items()})


def share_with_special(columns: Mapping[str, Sequence[spark_types.DataType]]) -> SharedColumns:
    """Return how columns of these types are shared, with those of rejects, violations, errors and counts."""
    return share_columns({**columns, **{name: [STRING] * len(names) for name, names in SPECIAL.items()}})


def quoted(name: str) -> str:
    """Return the name of a column, escaped for `F.col`."""
    return "`" + name.replace("`", "``") + "`"


def filled(columns: Mapping[str, str], types: Mapping[str, spark_types.DataType]) -> Iterator[Any]:
    """Yield columns of these names and types: a column of a frame if `columns` has one, else nulls."""
    for name, of in types.items():
        column = F.col(quoted(columns[name])) if name in columns else F.lit(None).cast(of)
        yield column.alias(name)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames, by a balanced plan, as Spark traverses all of its depth often."""
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    return union(frames[:middle]).unionAll(union(frames[middle:]))


@dataclass(frozen=True)
class PredicateLayout:
    """The schema of a predicate, and the columns of `derived.facts` that hold its columns.

    The layout is metadata of the column `predicate`, so that `write` needs nothing else. It survives filters,
    shuffles and Spark's own files, and is used only if all other columns are still there with their types.
    """

    schema: spark_types.StructType
    columns: tuple[str, ...]


def metadata_of(
    layout: Mapping[str, Mapping[str, str]], outputs: Mapping[str, OutputSchema]
) -> dict[str, Any]:
    """Return the metadata of the column `predicate`."""
    layouts = {
        name: {"schema": output.schema.jsonValue(), "columns": list(layout[name].values())}
        for name, output in outputs.items()
    }
    return {KEY: json.dumps(layouts, ensure_ascii=False)}


def layout_of(schema: spark_types.StructType) -> dict[str, PredicateLayout] | None:
    """Return the layout of a frame of facts by predicate; None if the frame has none, or has been changed."""
    if PREDICATE not in schema.names or KEY not in schema[PREDICATE].metadata:
        return None
    layouts = {}
    for name, stored in json.loads(schema[PREDICATE].metadata[KEY]).items():
        own = spark_types.StructType.fromJson(stored["schema"])
        columns = tuple(stored["columns"])
        types = [schema[column].dataType for column in columns if column in schema.names]
        if types != [field.dataType for field in own.fields]:
            return None
        layouts[name] = PredicateLayout(own, columns)
    return layouts


class Saving:
    """An atomic write of all outputs in one pass, by the tasks that have the rows.

    Each predicate is a folder of Parquet files for any reader: `spark.read.parquet(f"{path}/reach")`. Tasks
    write files under names that readers skip, and return these names. When all of them have succeeded, a last
    task renames the files and lists them in the manifest (`CommitFiles`). A write that fails leaves no files
    (`AbortFiles`). Spark may repeat it at any point. Concurrent writes are not supported: each would write a
    manifest without the files of the other.
    """

    def __init__(self, path: str, mode: str, schemas: Mapping[str, spark_types.StructType]) -> None:
        if mode not in MODES:
            raise ValueError(f"mode is {' or '.join(map(repr, MODES))}, not {mode!r}")
        self.is_overwriting = mode == "overwrite"
        self.target = FileTarget(str(_folder(path)), token_hex(16), _arrow(schemas))

    def of_rows(self, rows: DataFrame, tag: str, columns: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """Return the files that tasks write of tagged rows with these columns."""
        return rows.mapInArrow(Shipped(WriteRows(self.target, tag, columns)), FILES_SCHEMA)

    def run(self, files: DataFrame) -> dict[str, int]:
        """Write the files and commit them; return the number of rows of each predicate."""
        commit = CommitFiles(self.target, self.is_overwriting)
        try:
            with translated_errors():
                rows = files.repartition(1).mapInArrow(Shipped(commit), FILES_SCHEMA).collect()
        except BaseException:
            with translated_errors():
                placeholder = files.sparkSession.range(1)
                placeholder.repartition(1).mapInArrow(
                    Shipped(AbortFiles(self.target)), FILES_SCHEMA
                ).collect()
            raise
        totals = dict.fromkeys(self.target.schemas, 0)
        for row in rows:
            totals[row.predicate] += row.rows
        return totals


@dataclass(frozen=True)
class CommitFiles:
    """The last task of a write: it renames the files and writes the manifest.

    It is idempotent: Spark may run it twice, or again after it has failed at any point.
    """

    target: FileTarget
    is_overwriting: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows that name files, once all files have their names."""
        target = self.target
        written = [tuple(row[name] for name in COLUMNS) for batch in batches for row in batch.to_pylist()]
        before = self._files_before()
        files = {} if self.is_overwriting else {name: dict(rows) for name, rows in before.items()}
        empty = {name for name in target.schemas if not files.get(name)} - {name for name, _, _ in written}
        for name in sorted(empty):  # its folder has a file with the schema
            no_values = [pa.array([], field.type) for field in target.schemas[name]]
            written += [(name, *file) for file in target.write(name, [(no_values, 0)])]
        for name, hidden, rows in written:
            place = Path(target.folder_of(name), hidden)
            final = place.with_name(hidden.removeprefix(HIDDEN))
            with suppress(FileNotFoundError):  # it is renamed already
                place.rename(final)
            if not final.exists():
                raise FileNotFoundError(f"{final}: a file that a task has written is missing")
            files.setdefault(name, {})[final.name] = rows
        with replacing_text(Path(target.folder, MANIFEST)) as stream:
            stream.write(json.dumps({"files": files}, indent=1, ensure_ascii=False).encode())
        for name, old_files in before.items() if self.is_overwriting else ():
            for file in old_files.keys() - files.get(name, {}).keys():
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
        files: dict[str, dict[str, int]] = manifest["files"]
        return files


@dataclass(frozen=True)
class AbortFiles:
    """The task that cleans up when a write has failed."""

    target: FileTarget

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Remove the files that are not renamed yet; yield nothing."""
        for _ in batches:
            pass
        self.target.remove_unfinished()
        yield from ()


def _arrow(schemas: Mapping[str, spark_types.StructType]) -> dict[str, Any]:
    return {name: to_arrow_schema(schema, timezone="UTC") for name, schema in schemas.items()}


def _folder(path: str) -> Path:
    name = path.removeprefix("file:")
    if "://" in name:
        message = f"`{path}` is not a folder that tasks can rename files in"
        help = "write to a file system that all executors see; other stores by `derived[…].write`"
        raise ProgramError(Diagnostic(codes.FRAMES_NOT_WRITTEN, message, help=help))
    return Path(name).absolute()


def fetch_few(frame: DataFrame, most: int) -> Any | None:
    """Return the rows of a frame as one table; None if there are more than `most`."""
    table = frame.limit(most + 1).toArrow()
    return table if table.num_rows <= most else None


def fetch(frame: DataFrame, most: int) -> Iterator[Any]:
    """Yield the rows of a frame as Arrow tables: one table if they are few, else a table for each batch.

    Results of Spark go through the heap of the driver. Where tasks and this process share a folder, use
    `fetch_by_files` for many rows.
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
    """Yield the path of a new folder below this one; afterwards remove it, and this one if it is empty."""
    own = (folder / token_hex(8)).resolve()
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


def fetch_by_files(frame: DataFrame, folder: Path) -> Iterator[Any]:
    """Yield the rows of a frame, which tasks write to temporary files in this folder."""
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    with folder_below(folder) as own:
        target = FileTarget("", "fetched", {ROWS: schema}, "", folders={ROWS: str(own)})
        for file in write_rows(frame, target):
            with pq.ParquetFile(own / file) as opened:
                for batch in opened.iter_batches(FILE_READ):
                    yield pa.Table.from_batches([batch])


def write_rows(frame: DataFrame, target: FileTarget) -> dict[str, int]:
    """Write the rows of a frame in tasks, as those of `ROWS`; return the number of rows of each file."""
    ship(frame.sparkSession, scratch_folder())
    columns = tuple(str(place) for place, _ in enumerate(frame.columns))
    rows = frame.toDF(*columns).withColumn(TAG, F.lit(ROWS))
    files = rows.mapInArrow(Shipped(WriteRows(target, TAG, {ROWS: columns})), FILES_SCHEMA)
    with translated_errors():
        return {file.file: file.rows for file in files.collect()}
