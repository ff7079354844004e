"""Published folders and stores as a data source of Spark: `spark.read.format("tidelog")`, and `write`.

Spark runs what is here in processes of its own: one plans a read or a write, tasks read and write files, and
another one commits. Nothing but what is pickled goes from one to the next, and there is no session.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyspark.sql import datasource
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from tidelog.errors import DataError, Diagnostic, ProgramError, TidelogError, codes, suggest
from tidelog.publish import Published, published_schemas
from tidelog.publish import table_files as data_files
from tidelog.publish.object_storage import StorageFolder, folder_name
from tidelog.publish.publication import Publication
from tidelog.publish.published_folder import MARKER
from tidelog.publish.published_schemas import CHANGE_TYPE, PublishedVersion
from tidelog.publish.table_files import BOTH, INSERT
from tidelog.spark.frames import PREDICATE, layout_of

if TYPE_CHECKING:
    from tidelog.reasoner.storing import StoredReasoner
    from tidelog.spark.schemas import OutputSchema

NAME: Final = "tidelog"
COMMIT_VERSION: Final = "_commit_version"
VERSION: Final = "version"  # the key of an offset of a stream: the last version that was read
SNAPSHOT: Final = -1  # the offset before a whole version
LATEST: Final = "latest"
STORAGE: Final = "storage."  # what options begin with that are settings of an object store
OPTIONS: Final = {
    each.lower(): each
    for each in (
        "path",
        "predicate",
        "columns",
        "versionAsOf",
        "readChangeFeed",
        "startingVersion",
        "endingVersion",
        "pushFilters",
        "tableFormat",
    )
}
WORDS: Final = {"true": True, "false": False}
ROWS: Final = data_files.ROWS  # of a file that a task writes
BUFFERED: Final = 4 * ROWS  # rows of all predicates that a task keeps before it writes some
BATCH: Final = 1 << 16  # rows that are read at once


class TidelogSource(datasource.DataSource):
    """The format `tidelog`: a table of a published folder, or a predicate of a store."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> spark_types.StructType:
        """Return the columns of the requested predicate."""
        with errors_as_text():
            return ReadOptions.of(self.options).schema()

    def reader(self, schema: spark_types.StructType) -> datasource.DataSourceReader:
        """Return what reads a version, or changes between versions."""
        with errors_as_text():
            options = ReadOptions.of(self.options)
            return (
                FilteringReader(options, schema) if options.pushes_filters else TableReader(options, schema)
            )

    def streamReader(self, schema: spark_types.StructType) -> datasource.DataSourceStreamReader:  # noqa: N802
        """Return what follows the changes of a table."""
        with errors_as_text():
            return ChangeFeedReader(ReadOptions.of(self.options).of_stream(), schema)

    def writer(self, schema: spark_types.StructType, overwrite: bool) -> datasource.DataSourceWriter:
        """Return what publishes `derived.facts` as one version."""
        with errors_as_text():
            return VersionWriter.of(self.options, schema, overwrite)


@contextmanager
def errors_as_text() -> Iterator[None]:
    """In the block, raise errors of tidelog as text, without their traceback, which Spark would show."""
    try:
        yield
    except TidelogError as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from None


def _refused(message: str, help: str | None = None) -> ProgramError:
    return ProgramError(Diagnostic(codes.OPTION, message, help=help))


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read."""

    path: str
    storage: Mapping[str, str]
    predicate: str | None = None
    columns: tuple[str, ...] | None = None
    version: int | None = None
    is_feed: bool = False
    starting: str | None = None
    ending: int | None = None
    pushes_filters: bool = False

    @staticmethod
    def of(options: Mapping[str, str]) -> ReadOptions:
        """Return what options say; raise what is wrong with them."""
        given, storage = split_options(options)
        found = ReadOptions(
            given["path"],
            storage,
            given.get("predicate"),
            _columns(given.get("columns")),
            _number(given, "versionAsOf"),
            _truth(given, "readChangeFeed"),
            given.get("startingVersion"),
            _number(given, "endingVersion"),
            _truth(given, "pushFilters"),
        )
        if found.is_feed and found.version is not None:
            raise _refused("`versionAsOf` is one version, and `readChangeFeed` what changed between versions")
        if not found.is_feed and (found.starting, found.ending) != (None, None):
            raise _refused("`startingVersion` and `endingVersion` go with `readChangeFeed`")
        if found.starting not in (None, LATEST):
            _number(given, "startingVersion")
        return found

    def of_stream(self) -> ReadOptions:
        """Return the same, if a stream can have it."""
        if not self.is_feed:
            message = "a stream reads what changed, as published facts are deleted, too"
            raise _refused(message, '`.option("readChangeFeed", "true")`')
        if self.ending is not None:
            raise _refused("a stream has no `endingVersion`")
        return self

    @property
    def is_store(self) -> bool:
        """Whether the folder is a store of tidelog's."""
        if "://" in self.path or Path(self.path, MARKER).exists():
            return False
        from tidelog.store.store import StoreFolder

        return StoreFolder(Path(self.path)).is_store

    def published(self) -> Published:
        """Return the published folder."""
        if self.is_store:
            message = "a store has no published versions to choose from"
            raise _refused(message, "read it as it is; `tidelog.spark.maintain` follows its changes")
        return Published(self.path, storage=self.storage)

    def table(self, published: Published, version: PublishedVersion) -> str:
        """Return the name of the requested table."""
        if self.predicate is None:
            raise _no_predicate(version.tables)
        return self.predicate

    def schema(self) -> spark_types.StructType:
        """Return the columns that are read."""
        if self.is_store and not self.is_feed and self.version is None:
            reasoner, output = stored(self)
            reasoner.close()
            return self._chosen(output.schema)
        published = self.published()
        version = published.version(self.version if self.ending is None else self.ending)
        table = self.table(published, version)
        if table not in version.tables:
            published.files(table, version)  # which says that it does not exist
        whole = spark_types.StructType.fromJson(
            json.loads(published_schemas.to_json(version.tables[table].schema))
        )
        if self.is_feed:
            whole = whole.add(CHANGE_TYPE, spark_types.StringType(), False)
            whole = whole.add(COMMIT_VERSION, spark_types.LongType(), False)
        return self._chosen(whole)

    def _chosen(self, whole: spark_types.StructType) -> spark_types.StructType:
        if self.columns is None:
            return whole
        for name in self.columns:
            if name not in whole.names:
                help = suggest(name, whole.names) or f"its columns are {', '.join(whole.names)}"
                raise _refused(f"`{self.predicate}` has no column `{name}`", help)
        return spark_types.StructType([whole[name] for name in self.columns])


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return options by the names that they have here, and the settings of an object store.

    Spark may have made all names lower-case; options that do not exist are an error.
    """
    given: dict[str, str] = {}
    storage: dict[str, str] = {}
    for name, value in options.items():
        key = name.lower()
        if key.startswith(STORAGE):
            storage[key.removeprefix(STORAGE)] = value
        elif key in OPTIONS:
            given[OPTIONS[key]] = value
        else:
            help = suggest(name, OPTIONS.values()) or f"the options are {', '.join(OPTIONS.values())}"
            raise _refused(f"unknown option `{name}`", help)
    if "path" not in given:
        raise _refused("no path is given", "`.load(path)`, or `.save(path)`")
    return given, storage


def _columns(text: str | None) -> tuple[str, ...] | None:
    """Return names that are separated by commas, or that are an array in JSON."""
    if text is None:
        return None
    if text.lstrip().startswith("["):
        return tuple(json.loads(text))
    return tuple(name.strip() for name in text.split(","))


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise _refused(f"`{name}` is the number of a version, not {text!r}")
    return int(text)


def _truth(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in WORDS:
        raise _refused(f"`{name}` is `true` or `false`, not {text!r}")
    return WORDS[text]


def _no_predicate(known: Iterable[str]) -> ProgramError:
    return _refused(
        "no predicate was requested", f'`.option("predicate", …)`: it has {", ".join(known) or "none"}'
    )


@dataclass(frozen=True)
class FilePartition(datasource.InputPartition):
    """A file that one task reads; `kind` says of a change file what became of its rows."""

    location: str | None  # None: the store
    kind: str | None = None
    number: int = 0  # of the version that changed the rows


@dataclass
class TableReader(datasource.DataSourceReader):
    """Reads a version of a table, what changed between two, or a predicate of a store."""

    options: ReadOptions
    wanted: spark_types.StructType

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """Return the files to read."""
        with errors_as_text():
            options = self.options
            if options.is_store and not options.is_feed and options.version is None:
                return [FilePartition(None)]
            published = options.published()
            if options.is_feed:
                if options.starting is None or options.starting == LATEST:
                    raise _refused("`startingVersion` is the first version whose changes are read")
                return changes(published, options, int(options.starting) - 1, options.ending)
            version = published.version(options.version)
            return [
                FilePartition(each) for each in published.files(options.table(published, version), version)
            ]

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        """Yield the rows of a file."""
        if isinstance(partition, FilePartition):  # Spark asks for one where there are none
            yield from rows_of(self.options, self.wanted, partition, None)


@dataclass
class FilteringReader(TableReader):
    """Reads only what may pass filters, which Spark applies again.

    Spark refuses readers with such a method unless `spark.sql.python.filterPushdown.enabled` is true.
    """

    condition: Any = None

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:  # noqa: N802
        """Take filters that Arrow has; return all of them, as Spark has other rules for NaN and more."""
        types = {field.name: field.dataType for field in self.wanted.fields}
        for each in filters:
            found = condition_of(each, types)
            if found is not None:
                self.condition = found if self.condition is None else self.condition & found
        return filters

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        """Yield the rows of a file that may pass."""
        if isinstance(partition, FilePartition):  # Spark asks for one where there are none
            yield from rows_of(self.options, self.wanted, partition, self.condition)


_COMPARED: Final[Mapping[type[datasource.Filter], Callable[[Any, Any], Any]]] = {
    datasource.EqualTo: lambda field, value: field == value,
    datasource.GreaterThan: lambda field, value: field > value,
    datasource.GreaterThanOrEqual: lambda field, value: field >= value,
    datasource.LessThan: lambda field, value: field < value,
    datasource.LessThanOrEqual: lambda field, value: field <= value,
    datasource.In: lambda field, values: field.isin(list(values)),
}
# Types that are compared by Arrow as by Spark: NaN is the largest number in Spark, and none in Arrow.
_EXACT: Final = (
    spark_types.BooleanType,
    spark_types.LongType,
    spark_types.StringType,
    spark_types.DateType,
    spark_types.DecimalType,
)


def condition_of(given: datasource.Filter, types: Mapping[str, spark_types.DataType]) -> Any:
    """Return a filter as an expression of Arrow; None if it is not one that both understand alike."""
    compared = _COMPARED.get(type(given))
    column: tuple[str, ...] = getattr(given, "attribute", ())
    if compared is None or len(column) != 1 or not isinstance(types.get(column[0]), _EXACT):
        return None
    if column[0] in (CHANGE_TYPE, COMMIT_VERSION):
        return None
    value = given.value  # type: ignore[attr-defined]
    return compared(pc.field(column[0]), value)


def changes(published: Published, options: ReadOptions, after: int, upto: int | None) -> list[FilePartition]:
    """Return the files with what changed after a version."""
    table = options.table(published, published.version(upto))
    return [
        FilePartition(each.location, each.kind, each.number)
        for each in published.change_files(table, after, upto)
    ]


def rows_of(
    options: ReadOptions, wanted: spark_types.StructType, piece: FilePartition, condition: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of a file, or of a store, in Arrow's types of Spark's."""
    target = to_arrow_schema(wanted, timezone="UTC")
    with errors_as_text():
        if piece.location is None:
            found: Iterator[Any] = stored_rows(options)
        else:
            found = _file_rows(options, piece, target, condition)
        for batch in found:
            columns = [batch.column(field.name).cast(field.type) for field in target]
            yield pa.RecordBatch.from_arrays(columns, schema=target)


def _file_rows(
    options: ReadOptions, piece: FilePartition, target: pa.Schema, condition: Any
) -> Iterator[Any]:
    folder = StorageFolder.at(options.path, options.storage)
    place = folder.relative(piece.location or "")
    dataset = pads.dataset(folder.path(place), format="parquet", filesystem=folder.filesystem)
    added = (COMMIT_VERSION,) if piece.kind in (None, BOTH) else (CHANGE_TYPE, COMMIT_VERSION)
    names = [name for name in target.names if name not in added]
    scanned = dataset.scanner(columns=names, filter=condition, batch_size=BATCH, use_threads=False)
    for batch in scanned.to_batches():
        columns = {name: batch.column(name) for name in names}
        if CHANGE_TYPE in added:
            columns[CHANGE_TYPE] = pa.repeat(pa.scalar(piece.kind or INSERT), batch.num_rows)
        if COMMIT_VERSION in added:
            columns[COMMIT_VERSION] = pa.repeat(pa.scalar(piece.number, pa.int64()), batch.num_rows)
        yield pa.RecordBatch.from_pydict(columns)


def stored(options: ReadOptions) -> tuple[StoredReasoner, OutputSchema]:
    """Return a store that is opened to read, and the columns of the requested predicate."""
    # Spark imports this module in many processes, and few of them read a store.
    from tidelog.logic.type_inference import infer
    from tidelog.reasoner.storing import open_store
    from tidelog.spark.schemas import outputs_of, time_fields

    reasoner = open_store(options.path, read_only=True)
    program = reasoner.program
    names = [each.written for each in program.predicates.values()]
    if options.predicate is None:
        raise _no_predicate(names)
    predicate = program.find(options.predicate)
    if predicate is None:
        message = f"the store has no predicate `{options.predicate}`"
        raise DataError(Diagnostic(codes.NO_TABLE, message, help=suggest(options.predicate, names)))
    output = outputs_of([predicate], infer(program))[predicate.written]
    if predicate.name in program.timed:
        output = replace(output, times=time_fields(predicate.names, program, (), {}))
    return reasoner, output


def stored_rows(options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the facts of a predicate of a store."""
    from tidelog.spark.schemas import arrow_of
    from tidelog.spark.worker import OutputColumns, output_rows

    reasoner, output = stored(options)
    names = tuple(name for name, _ in output.fields)
    times = tuple(arrow_of(of) for _, of in output.times)
    writing = OutputColumns(output.predicate.written, output.predicate.name, names, output.types, times)
    try:
        for part in output_rows(reasoner[output.predicate.name], writing):
            yield pa.RecordBatch.from_pydict(dict(part.columns))
    finally:
        reasoner.close()


@dataclass
class ChangeFeedReader(datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the changes of a table: an offset is the number of the last version that was read.

    Without `startingVersion` all rows of the current version come first, as insertions.
    """

    options: ReadOptions
    wanted: spark_types.StructType
    target: int | None = None  # the last version to read, once that is known

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return what is before the first version to read."""
        with errors_as_text():
            if self.options.starting is None:
                return {VERSION: SNAPSHOT}
            if self.options.starting == LATEST:
                return {VERSION: self._latest()}
            return {VERSION: int(self.options.starting) - 1}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the last version that is published."""
        with errors_as_text():
            latest = self._latest() if self.target is None else self.target
            return {VERSION: max(start[VERSION], latest)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read nothing that is published from now on."""
        with errors_as_text():
            self.target = self._latest()

    def _latest(self) -> int:
        return self.options.published().current().number

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[datasource.InputPartition]:
        """Return the files with what changed between two offsets."""
        with errors_as_text():
            published = self.options.published()
            if start[VERSION] == end[VERSION]:
                return []
            if start[VERSION] != SNAPSHOT:
                return changes(published, self.options, start[VERSION], end[VERSION])
            version = published.version(end[VERSION])
            files = published.files(self.options.table(published, version), version)
            return [FilePartition(each, INSERT, version.number) for each in files]

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        """Yield the rows of a file."""
        if isinstance(partition, FilePartition):  # Spark asks for one where there are none
            yield from rows_of(self.options, self.wanted, partition, None)


@dataclass(frozen=True)
class WrittenFiles(datasource.WriterCommitMessage):
    """The files that a task has written, by predicate: their paths below the folder of its table."""

    files: tuple[tuple[str, str], ...]


@dataclass
class VersionWriter(datasource.DataSourceArrowWriter):
    """Writes the facts of all predicates as one version: tasks write the files, `commit` publishes them."""

    path: str
    storage: Mapping[str, str]
    format: str | None
    columns: Mapping[str, tuple[str, ...]]  # of `facts`, by predicate
    schemas: Mapping[str, pa.Schema]
    is_overwriting: bool
    run: str

    @staticmethod
    def of(options: Mapping[str, str], schema: spark_types.StructType, overwrite: bool) -> VersionWriter:
        """Return a writer of a frame of facts; raise what is wrong with the frame or the options."""
        given, storage = split_options(options)
        others = [name for name in given if name not in ("path", "tableFormat")]
        if others:
            raise _refused(f"`{others[0]}` is an option of reading", "`path`, `tableFormat` and `storage.…`")
        layout = layout_of(schema)
        if layout is None:
            message = (
                "the frame is not `derived.facts`: nothing says which of its columns are of which predicate"
            )
            help = 'write `derived.facts`, with all of its columns, or one output: `derived["…"].write…`'
            raise ProgramError(Diagnostic(codes.NO_LAYOUT, message, help=help))
        form = given.get("tableFormat")
        Published(given["path"], form, storage)  # which raises what is wrong with them before tasks write
        columns = {name: each.columns for name, each in layout.items()}
        arrow = {
            name: published_schemas.normal(to_arrow_schema(each.schema, timezone="UTC"))
            for name, each in layout.items()
        }
        return VersionWriter(given["path"], storage, form, columns, arrow, overwrite, uuid.uuid4().hex[:12])

    def _folder(self, predicate: str) -> StorageFolder:
        return StorageFolder.at(self.path, self.storage).below(folder_name(predicate))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write rows to files, some for each predicate, and return which."""
        buffered: dict[str, list[pa.Table]] = {}
        files: list[tuple[str, str]] = []

        def flush(name: str) -> None:
            whole = pa.concat_tables(buffered.pop(name))
            path = f"part-{self.run}-{uuid.uuid4().hex}.parquet"
            files.append((name, path))
            data_files.write_file(self._folder(name), path, data_files.fitted(whole, self.schemas[name]))

        def rows(name: str) -> int:
            return sum(each.num_rows for each in buffered[name])

        try:
            with errors_as_text():
                for name, some in self._parts(iterator):
                    buffered.setdefault(name, []).append(some)
                    if rows(name) >= ROWS:
                        flush(name)
                    while sum(map(rows, buffered)) >= BUFFERED:
                        flush(max(buffered, key=rows))
                for name in list(buffered):
                    flush(name)
        except BaseException:
            self._remove(files)
            raise
        return WrittenFiles(tuple(files))

    def _parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
        """Yield the rows of each predicate, in its columns."""
        for batch in batches:
            tags = batch.column(PREDICATE).dictionary_encode()
            for number, name in enumerate(tags.dictionary.to_pylist()):
                if name not in self.columns:
                    message = f"a row is of `{name}`, which the frame was not derived with"
                    raise ProgramError(Diagnostic(codes.NO_LAYOUT, message))
                some = batch.filter(pc.equal(tags.indices, number)).select(list(self.columns[name]))
                yield name, pa.table(some.columns, names=self.schemas[name].names)
            if tags.null_count:
                raise ProgramError(Diagnostic(codes.NO_LAYOUT, f"a row has no `{PREDICATE}`"))

    def commit(self, messages: list[Any]) -> None:
        """Publish the files of all tasks as one version."""
        with errors_as_text(), Published(self.path, self.format, self.storage).writing() as publication:
            before = publication.base.tables if publication.base else {}
            for name, schema in self.schemas.items():
                new = [path for message in messages for each, path in message.files if each == name]
                if not self.is_overwriting and name in before:
                    old = [file.path for file in publication.tables.files(before[name])]
                    new = [*old, *self._not_there(publication, name, new)]
                publication.replace(name, schema, new)
            if self.is_overwriting:
                for name in before.keys() - self.schemas.keys():
                    publication.drop(name)
            publication.commit(reason="overwrite" if self.is_overwriting else "append")

    def _not_there(self, publication: Publication, name: str, paths: Sequence[str]) -> Iterator[str]:
        """Yield files of the rows that a table does not have yet: facts are sets."""
        assert publication.base is not None
        folder, schema = self._folder(name), self.schemas[name]
        base = publication.base.tables[name]
        if not published_schemas.is_same(base.schema, schema):
            message = f"`{name}` has other columns than the published table"
            raise ProgramError(Diagnostic(codes.WRONG_FILE, message, help='use `mode("overwrite")`'))
        old = publication.tables.files(base)
        for path in paths:
            rows = data_files.read_file(folder, path, schema)
            is_new = pa.array([True] * rows.num_rows, pa.bool_()).to_numpy(zero_copy_only=False).copy()
            for file in old:
                mask = data_files.may_hold(file, rows)
                if mask.any():
                    held = data_files.read_file(folder, file.path, schema)
                    _, is_held = data_files.found_in(held, rows)
                    is_new &= ~is_held
            if is_new.all():
                yield path
                continue
            if is_new.any():
                yield from data_files.written(
                    folder, f"part-{publication.run}", rows.filter(pa.array(is_new))
                )
            folder.remove(path)

    def abort(self, messages: list[Any]) -> None:
        """Delete the files of all tasks, unless a version names them.

        If `commit` failed, the version may be incomplete: the next writer completes it, or removes it.
        """
        with errors_as_text(), Published(self.path, self.format, self.storage).writing() as publication:
            kept: set[tuple[str, str]] = set()
            for name, table in (publication.base.tables if publication.base else {}).items():
                kept |= {(name, file.path) for file in publication.tables.files(table)}
            for name in self.schemas:
                left = [each.path for each in self._folder(name).listed() if f"-{self.run}-" in each.path]
                self._remove([(name, path) for path in left if (name, path) not in kept])

    def _remove(self, files: Iterable[tuple[str, str]]) -> None:
        for name, path in files:
            self._folder(name).remove(path)
