"""Published folders and stores as a data source of Spark: `spark.read.format("tidelog")`, and `write`.

Spark runs this code in its own processes: one plans a read or a write, tasks read and write files, and
another one commits. They only share pickled objects, and have no session.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
from tidelog.records import dataclass
from tidelog.spark.frames import PREDICATE, layout_of

if TYPE_CHECKING:
    from tidelog.reasoner.storing import StoredReasoner
    from tidelog.spark.schemas import OutputSchema

NAME: Final = "tidelog"
COMMIT_VERSION: Final = "_commit_version"
VERSION: Final = "version"  # the key of an offset of a stream: the last version that was read
SNAPSHOT: Final = -1  # the offset before a whole version
LATEST: Final = "latest"
STORAGE: Final = "storage."  # prefix of options that are settings of an object store
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
BUFFERED: Final = 4 * ROWS  # rows of all predicates that a task holds before it writes the largest
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
        """Return the reader of a version, or of changes between versions."""
        with errors_as_text():
            options = ReadOptions.of(self.options)
            return (
                FilteringReader(options, schema) if options.pushes_filters else TableReader(options, schema)
            )

    def streamReader(self, schema: spark_types.StructType) -> datasource.DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream of changes of a table."""
        with errors_as_text():
            return ChangeFeedReader(ReadOptions.of(self.options).of_stream(), schema)

    def writer(self, schema: spark_types.StructType, overwrite: bool) -> datasource.DataSourceWriter:
        """Return the writer that publishes `derived.facts` as one version."""
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
        """Parse the options; raise errors in them."""
        values, storage = split_options(options)
        read_options = ReadOptions(
            values["path"],
            storage,
            values.get("predicate"),
            _columns(values.get("columns")),
            _number(values, "versionAsOf"),
            _truth(values, "readChangeFeed"),
            values.get("startingVersion"),
            _number(values, "endingVersion"),
            _truth(values, "pushFilters"),
        )
        if read_options.is_feed and read_options.version is not None:
            raise _refused("`versionAsOf` is one version, and `readChangeFeed` what changed between versions")
        if not read_options.is_feed and (read_options.starting, read_options.ending) != (None, None):
            raise _refused("`startingVersion` and `endingVersion` go with `readChangeFeed`")
        if read_options.starting not in (None, LATEST):
            _number(values, "startingVersion")
        return read_options

    def of_stream(self) -> ReadOptions:
        """Return these options, if they are valid for a stream."""
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
            published.files(table, version)  # raises that it does not exist
        schema = spark_types.StructType.fromJson(
            json.loads(published_schemas.to_json(version.tables[table].schema))
        )
        if self.is_feed:
            schema = schema.add(CHANGE_TYPE, spark_types.StringType(), False)
            schema = schema.add(COMMIT_VERSION, spark_types.LongType(), False)
        return self._chosen(schema)

    def _chosen(self, schema: spark_types.StructType) -> spark_types.StructType:
        if self.columns is None:
            return schema
        for name in self.columns:
            if name not in schema.names:
                help = suggest(name, schema.names) or f"its columns are {', '.join(schema.names)}"
                raise _refused(f"`{self.predicate}` has no column `{name}`", help)
        return spark_types.StructType([schema[name] for name in self.columns])


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return options by their names in `OPTIONS`, and the settings of an object store.

    Spark may have made all names lower-case; unknown options are an error.
    """
    values: dict[str, str] = {}
    storage: dict[str, str] = {}
    for name, value in options.items():
        key = name.lower()
        if key.startswith(STORAGE):
            storage[key.removeprefix(STORAGE)] = value
        elif key in OPTIONS:
            values[OPTIONS[key]] = value
        else:
            help = suggest(name, OPTIONS.values()) or f"the options are {', '.join(OPTIONS.values())}"
            raise _refused(f"unknown option `{name}`", help)
    if "path" not in values:
        raise _refused("no path is given", "`.load(path)`, or `.save(path)`")
    return values, storage


def _columns(text: str | None) -> tuple[str, ...] | None:
    """Return names that are separated by commas, or that are an array in JSON."""
    if text is None:
        return None
    if text.lstrip().startswith("["):
        return tuple(json.loads(text))
    return tuple(name.strip() for name in text.split(","))


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise _refused(f"`{name}` is the number of a version, not {text!r}")
    return int(text)


def _truth(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in WORDS:
        raise _refused(f"`{name}` is `true` or `false`, not {text!r}")
    return WORDS[text]


def _no_predicate(names: Iterable[str]) -> ProgramError:
    return _refused(
        "no predicate was requested", f'`.option("predicate", …)`: it has {", ".join(names) or "none"}'
    )


@dataclass(frozen=True)
class FilePartition(datasource.InputPartition):
    """A file that one task reads; `kind` is the change type of the rows in a change file."""

    location: str | None  # None: the store
    kind: str | None = None
    number: int = 0  # of the version that changed the rows


@dataclass
class TableReader(datasource.DataSourceReader):
    """Reads a version of a table, changes between versions, or a predicate of a store."""

    options: ReadOptions
    schema: spark_types.StructType  # of the rows to read

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
                FilePartition(location)
                for location in published.files(options.table(published, version), version)
            ]

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        """Yield the rows of a file."""
        if isinstance(partition, FilePartition):  # Spark asks for one where there are none
            yield from rows_of(self.options, self.schema, partition, None)


@dataclass
class FilteringReader(TableReader):
    """Reads only rows that may pass filters, which Spark applies again.

    Spark rejects readers with `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is true.
    """

    condition: Any = None

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:  # noqa: N802
        """Accept filters that Arrow supports; return all of them, so that Spark applies them, too."""
        types = {field.name: field.dataType for field in self.schema.fields}
        for pushed in filters:
            condition = condition_of(pushed, types)
            if condition is not None:
                self.condition = condition if self.condition is None else self.condition & condition
        return filters

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        """Yield the rows of a file that may pass."""
        if isinstance(partition, FilePartition):  # Spark asks for one where there are none
            yield from rows_of(self.options, self.schema, partition, self.condition)


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


def condition_of(pushed: datasource.Filter, types: Mapping[str, spark_types.DataType]) -> Any:
    """Return a filter as an expression of Arrow; None if Arrow does not evaluate it as Spark does."""
    compared = _COMPARED.get(type(pushed))
    column: tuple[str, ...] = getattr(pushed, "attribute", ())
    if compared is None or len(column) != 1 or not isinstance(types.get(column[0]), _EXACT):
        return None
    if column[0] in (CHANGE_TYPE, COMMIT_VERSION):
        return None
    value = pushed.value  # type: ignore[attr-defined]
    return compared(pc.field(column[0]), value)


def changes(published: Published, options: ReadOptions, after: int, upto: int | None) -> list[FilePartition]:
    """Return the files with the changes after a version."""
    table = options.table(published, published.version(upto))
    return [
        FilePartition(file.location, file.kind, file.number)
        for file in published.change_files(table, after, upto)
    ]


def rows_of(
    options: ReadOptions, schema: spark_types.StructType, piece: FilePartition, condition: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a schema from a file or a store, in the Arrow types of the schema."""
    target = to_arrow_schema(schema, timezone="UTC")
    with errors_as_text():
        if piece.location is None:
            batches: Iterator[Any] = stored_rows(options)
        else:
            batches = _file_rows(options, piece, target, condition)
        for batch in batches:
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
    schema: spark_types.StructType  # of the rows to read
    target: int | None = None  # the last version to read, once that is known

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset before the first version to read."""
        with errors_as_text():
            if self.options.starting is None:
                return {VERSION: SNAPSHOT}
            if self.options.starting == LATEST:
                return {VERSION: self._latest()}
            return {VERSION: int(self.options.starting) - 1}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the offset of the last published version."""
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
        """Return the files with the changes between two offsets."""
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
            yield from rows_of(self.options, self.schema, partition, None)


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
        """Return a writer of a frame of facts; raise errors in the frame or the options."""
        values, storage = split_options(options)
        unsupported = [name for name in values if name not in ("path", "tableFormat")]
        if unsupported:
            raise _refused(
                f"`{unsupported[0]}` is an option of reading", "`path`, `tableFormat` and `storage.…`"
            )
        layout = layout_of(schema)
        if layout is None:
            message = (
                "the frame is not `derived.facts`: nothing says which of its columns are of which predicate"
            )
            help = 'write `derived.facts`, with all of its columns, or one output: `derived["…"].write…`'
            raise ProgramError(Diagnostic(codes.NO_LAYOUT, message, help=help))
        form = values.get("tableFormat")
        Published(values["path"], form, storage)  # raises errors in them before tasks write
        columns = {name: own.columns for name, own in layout.items()}
        arrow = {
            name: published_schemas.normal(to_arrow_schema(own.schema, timezone="UTC"))
            for name, own in layout.items()
        }
        return VersionWriter(values["path"], storage, form, columns, arrow, overwrite, uuid.uuid4().hex[:12])

    def _folder(self, predicate: str) -> StorageFolder:
        return StorageFolder.at(self.path, self.storage).below(folder_name(predicate))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenFiles:
        """Write rows to files of their predicates, and return the files."""
        buffered: dict[str, list[pa.Table]] = {}
        files: list[tuple[str, str]] = []

        def flush(name: str) -> None:
            table = pa.concat_tables(buffered.pop(name))
            path = f"part-{self.run}-{uuid.uuid4().hex}.parquet"
            files.append((name, path))
            data_files.write_file(self._folder(name), path, data_files.fitted(table, self.schemas[name]))

        def rows(name: str) -> int:
            return sum(part.num_rows for part in buffered[name])

        try:
            with errors_as_text():
                for name, table in self._parts(iterator):
                    buffered.setdefault(name, []).append(table)
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
                rows = batch.filter(pc.equal(tags.indices, number)).select(list(self.columns[name]))
                yield name, pa.table(rows.columns, names=self.schemas[name].names)
            if tags.null_count:
                raise ProgramError(Diagnostic(codes.NO_LAYOUT, f"a row has no `{PREDICATE}`"))

    def commit(self, messages: list[Any]) -> None:
        """Publish the files of all tasks as one version."""
        with errors_as_text(), Published(self.path, self.format, self.storage).writing() as publication:
            before = publication.base.tables if publication.base else {}
            for name, schema in self.schemas.items():
                paths = [
                    path for message in messages for predicate, path in message.files if predicate == name
                ]
                if not self.is_overwriting and name in before:
                    old_paths = [file.path for file in publication.tables.files(before[name])]
                    paths = [*old_paths, *self._without_existing(publication, name, paths)]
                publication.replace(name, schema, paths)
            if self.is_overwriting:
                for name in before.keys() - self.schemas.keys():
                    publication.drop(name)
            publication.commit(reason="overwrite" if self.is_overwriting else "append")

    def _without_existing(self, publication: Publication, name: str, paths: Sequence[str]) -> Iterator[str]:
        """Yield files with the rows that a table does not have yet: facts are sets."""
        assert publication.base is not None
        folder, schema = self._folder(name), self.schemas[name]
        base = publication.base.tables[name]
        if not published_schemas.is_same(base.schema, schema):
            message = f"`{name}` has other columns than the published table"
            raise ProgramError(Diagnostic(codes.WRONG_FILE, message, help='use `mode("overwrite")`'))
        old_files = publication.tables.files(base)
        for path in paths:
            rows = data_files.read_file(folder, path, schema)
            is_new = pa.array([True] * rows.num_rows, pa.bool_()).to_numpy(zero_copy_only=False).copy()
            for file in old_files:
                mask = data_files.may_hold(file, rows)
                if mask.any():
                    existing = data_files.read_file(folder, file.path, schema)
                    _, is_held = data_files.found_in(existing, rows)
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

        If `commit` failed, the version may be incomplete: the next writer completes or removes it.
        """
        with errors_as_text(), Published(self.path, self.format, self.storage).writing() as publication:
            published: set[tuple[str, str]] = set()
            for name, table in (publication.base.tables if publication.base else {}).items():
                published |= {(name, file.path) for file in publication.tables.files(table)}
            for name in self.schemas:
                written = [file.path for file in self._folder(name).listed() if f"-{self.run}-" in file.path]
                self._remove([(name, path) for path in written if (name, path) not in published])

    def _remove(self, files: Iterable[tuple[str, str]]) -> None:
        for name, path in files:
            self._folder(name).remove(path)
