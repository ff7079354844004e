"""The files and versioned tables of a source, how each is read, and filters.

The change feed of a table does not determine the changes of facts: rows may repeat, may differ in columns
that are not read, and different texts may be the same value. An inserted row is a fact, unless it was deleted
again. Deleted rows that are still facts are looked up in the rows of the table.
"""

from __future__ import annotations

import glob
import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.arrow import mask_of
from tidelog.data.columns import Batch, Column
from tidelog.data.relation import column_names
from tidelog.data.rows import Rows, codes_of, concatenate, distinct, select, without
from tidelog.errors import DataError, Diagnostic, ProgramError, Severity, Span, codes, counted, suggest
from tidelog.io.arrow_files import ColumnRequest, read_arrow_data, wanted_columns
from tidelog.io.data_file import (
    DELIMITED,
    RDF,
    Header,
    InputFile,
    data_files,
    format_of,
    is_compressed,
    time_types_of,
)
from tidelog.io.delimited import first_record
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import giving_times
from tidelog.logic.signatures import TYPES
from tidelog.logic.values import ColumnType
from tidelog.pipeline.job_settings import Settings, Source, is_remote
from tidelog.pipeline.version_folder import InputRecord, Manifest
from tidelog.publish.foreign_tables import ForeignTable, SourceTable, foreign_table
from tidelog.publish.object_storage import SCHEMES, StorageFolder, Stored
from tidelog.publish.published_schemas import CHANGE_TYPE, NUMBER
from tidelog.publish.table_files import DELETE
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.transaction import Change
from tidelog.records import dataclass

# ---- The columns of files, from their headers and schemas.

_FIRST_BYTES = 1 << 16


def columns_of(files: Iterable[InputFile]) -> tuple[str, ...]:
    """Return the columns of the first of the files: names, or numbers where there are no names.

    Columns that are read by name are sorted, as their order has no meaning.
    """
    for file in islice(files, 1):
        if file.format in DELIMITED:
            return _of_delimited(file)
        if file.format in ("parquet", "arrow"):
            return _of_schema(file)
    return ()


def _of_delimited(file: InputFile) -> tuple[str, ...]:
    with file.open() as stream:
        record = first_record(stream.read(_FIRST_BYTES), file.delimiter.encode(), file.quoting, 1)
    if record is None:
        return ()
    fields = tuple(field.decode("utf-8", "replace").removeprefix("\ufeff") for field in record[0].fields)
    is_named = file.header is Header.NAMES or (
        file.header is Header.DETECTED and bool(file.names) and set(file.names) <= set(fields)
    )
    return tuple(sorted(fields)) if is_named else tuple(str(place) for place in range(1, len(fields) + 1))


def _of_schema(file: InputFile) -> tuple[str, ...]:
    with file.open() as stream:
        if file.format == "parquet":
            import pyarrow.parquet as pq

            schema = pq.read_schema(stream)
        else:
            schema = pa.ipc.open_file(stream).schema
    return tuple(sorted(f"{field.name}: {field.type}" for field in schema))


# ---- Filters: literals of the rule language that the values of a row must satisfy.

ROW, KEPT = "row", "kept"


@dataclass(frozen=True)
class SourceRowFilter:
    """A filter by literals, evaluated by the rule `kept(?n) :- row(?n, …), literals .`

    Rows are numbered, so that duplicates are kept, and the rows that are filtered out can be counted.
    """

    program: Program
    arity: int  # of the rows; further columns are not filtered by

    @staticmethod
    def of(literals: str | None, predicate: Predicate, span: Span | None) -> SourceRowFilter | None:
        """Parse a filter, whose variables are the predicate's columns; raise its errors."""
        if literals is None:
            return None
        import tidelog

        columns = column_names(predicate)
        number = "n"
        while number in columns:
            number += "_"
        names = ", ".join(f"?{name}" for name in columns)
        rule = (
            f"{KEPT}(?{number}) :- {ROW}({', '.join((f'?{number}', *filter(None, [names])))}), {literals} ."
        )
        try:
            program = tidelog.parse(rule, name="<filter>")
        except ProgramError as error:
            faults = [item for item in error.diagnostics if item.severity is Severity.ERROR]
            reasons = "; ".join(item.message for item in faults)
            message = f"the filter `{literals}` is not well formed: {reasons}"
            help = f"it holds literals over {names}"
            raise DataError(Diagnostic(codes.BAD_VALUE, message, span, help)) from None
        return SourceRowFilter(program, predicate.arity)

    def keep(self, batch: Batch) -> Batch:
        """Return the rows of a batch that satisfy the filter."""
        reasoner = Reasoner(self.program, threads=1)
        numbers = Column(ColumnType.INTEGER, pa.array(np.arange(batch.rows)))
        reasoner.load(ROW, [Batch((numbers, *batch.columns[: self.arity]), batch.rows)])
        (ids,), count, dictionary = reasoner[KEPT].coded
        if count == batch.rows:
            return batch
        is_kept = np.zeros(batch.rows, np.bool_)
        is_kept[dictionary.payload[ids]] = True
        return Batch(tuple(_chosen(column, mask_of(is_kept)) for column in batch.columns), count)


def _chosen(column: Column, rows: pa.Array) -> Column:
    values = column.values
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())  # views cannot be filtered
    return replace(column, values=values.filter(rows))


# ---- The files of a source: the columns to read, and their types.


def find_predicate_of(item: Source, program: Program) -> Predicate:
    """Return the predicate of a source; raise `DataError` if the program does not have it."""
    return find_named(item.predicate, program, item.span)


def find_named(name: str, program: Program, span: object = None) -> Predicate:
    """Return the predicate of this name; raise `DataError` if the program does not have it."""
    for predicate in program.predicates.values():
        if name in (predicate.name, predicate.written):
            return predicate
    names = dict.fromkeys(predicate.written for predicate in program.predicates.values())
    help = suggest(name, names) or f"it has {', '.join(names) or 'none'}"
    message = f"the program has no predicate `{name}`"
    raise DataError(Diagnostic(codes.NO_PREDICATE, message, span, help))  # type: ignore[arg-type]


def check_sources(settings: Settings, program: Program) -> None:
    """Raise the errors of sources that can be found without Spark: predicates, and missing files."""
    faults: list[Diagnostic] = []
    for source in settings.sources:
        try:
            predicate = find_predicate_of(source, program)
            is_here = not any(map(is_remote, source.paths))
            if source.kind == "versioned":
                table_of(source, settings)
            elif settings.engine.name != "spark" and source.kind == "file":
                data_files_of(source, settings, program, predicate)
            elif is_here:
                for path in source.paths:
                    if not glob.has_magic(path) and not settings.resolve(path).exists():
                        _expanded(path, source, settings)
        except DataError as error:
            faults += error.diagnostics
    if faults:
        raise DataError(faults)


def with_times(program: Program, settings: Settings) -> Program:
    """Return the program in which predicates of sources and streams with times are temporal."""
    timed_names = [(source.predicate, source.span) for source in settings.sources if source.times]
    timed_names += [(stream.predicate or "", stream.span) for stream in settings.streams if stream.times]
    timed = {find_named(name, program, span).name for name, span in timed_names}
    return program if timed <= program.given_times else giving_times(program, timed)


def data_files_of(
    source: Source, settings: Settings, program: Program, predicate: Predicate
) -> list[InputFile]:
    """Return the files of the paths of a source, with how each is read."""
    local = [address for address in source.paths if not is_remote(address)]
    paths = [path for pattern in local for path in _expanded(pattern, source, settings)]
    files = [_data_file(path, source, program, predicate) for path in dict.fromkeys(paths)]
    for address in source.paths:
        if is_remote(address):
            for folder, stored in _stored_files(address, source, settings):
                file = _data_file(Path(stored.path), source, program, predicate)
                values = {item.name: getattr(file, item.name) for item in fields(InputFile)}
                files.append(StoredFile(**{**values, "path": None}, bucket=folder, stored=stored))
    return files


def table_of(source: Source, settings: Settings) -> ForeignTable:
    """Return the Delta or Iceberg table of a source, in the requested version; no row is read."""
    assert source.format is not None and source.kind == "versioned"
    with errors_at(source):
        path = settings.address(source.paths[0])
        return foreign_table(source.format, path, source.version, settings.storage)


@contextmanager
def errors_at(source: Source) -> Iterator[None]:
    """In the block, add the place of the source in its job file to errors without a place."""
    try:
        yield
    except DataError as error:
        raise DataError(
            replace(fault, span=fault.span or source.span) for fault in error.diagnostics
        ) from error


@dataclass(frozen=True)
class StoredFile(InputFile):
    """A file in an object store."""

    bucket: StorageFolder | None = field(default=None, repr=False)
    stored: Stored | None = None

    @property
    def place_of(self) -> tuple[StorageFolder, Stored]:
        """The bucket, and the file in it."""
        assert self.bucket is not None and self.stored is not None
        return self.bucket, self.stored

    @property
    def shown(self) -> str:
        """The address of the file."""
        bucket, stored = self.place_of
        return bucket.location(stored.path)

    @property
    def may_wait(self) -> bool:
        """Whether reading may wait for a writer: never."""
        return False

    def open(self) -> IO[bytes]:
        """Return a stream of the bytes of the file, decompressed."""
        bucket, stored = self.place_of
        try:
            stream = bucket.filesystem.open_input_file(bucket.path(stored.path))
        except OSError as error:
            message = f"`{self.shown}` cannot be read: {error}"
            raise DataError(Diagnostic(codes.NO_FILES, message, place=self.shown)) from error
        return cast(IO[bytes], gzip.open(stream) if self.compressed else stream)


def _stored_files(address: str, source: Source, settings: Settings) -> Iterator[tuple[StorageFolder, Stored]]:
    """Yield the files of an object store at an address: a file, a folder, or a pattern."""
    if address.partition("://")[0] not in SCHEMES:
        message = f"`{address}` is not a file on this machine, nor in an object store"
        help = 'mount it, or let Spark read it: name = "spark" in [engine]'
        raise DataError(Diagnostic(codes.NO_FILES, message, source.span, help))
    parts = address.partition("://")[2].split("/")
    first = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    with errors_at(source):
        bucket = StorageFolder.at(f"s3://{parts[0]}", settings.storage)
        bucket.check()
        inside = "/".join(parts[1:first]).strip("/")
        listed = (bucket.below(inside) if inside else bucket).listed()
        files = [replace(file, path=f"{inside}/{file.path}" if inside else file.path) for file in listed]
        if not files and inside and first == len(parts):
            above, _, name = inside.rpartition("/")
            listed = (bucket.below(above) if above else bucket).listed()
            files = [replace(file, path=inside) for file in listed if file.path == name]
    if first < len(parts):
        pattern = re.compile(_pattern("/".join(parts[1:])))
        files = [file for file in files if pattern.fullmatch(file.path)]
    elif [file.path for file in files] != [inside]:
        hidden = (".", "_")
        files = [file for file in files if not file.path.rpartition("/")[2].startswith(hidden)]
        files = [file for file in files if source.format in (None, format_of(Path(file.path)))]
        files = [file for file in files if format_of(Path(file.path)) is not None]
    if not files:
        raise DataError(Diagnostic(codes.NO_FILES, f"no such file: `{address}`", source.span))
    for file in sorted(files, key=lambda each: each.path):
        yield bucket, file


def _pattern(pattern: str) -> str:
    """Return a pattern of paths as a regular expression: `*` stays within a folder, `**` does not."""
    expression = (
        re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    )
    return expression.replace(r"\[", "[").replace(r"\]", "]")


def _expanded(pattern: str, source: Source, settings: Settings) -> list[Path]:
    """Return the files of a path: a file, a folder, or a pattern."""
    path = settings.resolve(pattern)
    if glob.has_magic(pattern):
        names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - the folder may be a pattern too
        files = [Path(name) for name in names if Path(name).is_file()]
    elif path.is_dir():
        inside = data_files([path])
        files = [child for child in inside if source.format in (None, format_of(child))]
    else:
        files = [path] if path.is_file() else []
    if not files:
        names = [child.name for child in path.parent.iterdir()] if path.parent.is_dir() else []
        help = suggest(path.name, names)
        raise DataError(Diagnostic(codes.NO_FILES, f"no such file: `{path}`", source.span, help))
    return files


def _data_file(path: Path, source: Source, program: Program, predicate: Predicate) -> InputFile:
    name = source.format or format_of(path)
    if name is None:
        message = f"the format of `{path}` is not known by its extension"
        raise DataError(Diagnostic(codes.BAD_VALUE, message, source.span, "give a `format`"))
    types, names = columns_and_types(source, program, predicate)
    types = (*types, *time_types_of(source.times, name))
    has_skipped = ColumnType.SKIP in types
    header = Header.NONE
    if name in DELIMITED:
        header = source.first_row
        if has_skipped:
            header = Header.NONE if header in (Header.NONE, Header.DETECTED) else Header.IGNORED
    return InputFile(
        path,
        name,
        types,
        () if has_skipped or name in RDF else names,
        header,
        "\t" if name == "tsv" else source.delimiter or ",",
        source.quoting,
        is_compressed(path),
        source.limit,
        source.base,
        len(source.times),
        source.missing(predicate.arity),
    )


def columns_and_types(
    source: Source, program: Program, predicate: Predicate
) -> tuple[tuple[ColumnType, ...], tuple[str | None, ...]]:
    """Return the types of a source's columns, and the data's names of those of the predicate."""
    declared = program.types_of(predicate)
    types = declared if source.types is None else tuple(map(_type, source.types))
    types_read = [kind for kind in types if kind is not ColumnType.SKIP]
    if len(types_read) != predicate.arity:
        width = counted(predicate.arity, "column")
        message = f"`{predicate.written}` has {width}, but {len(types_read)} are read for it"
        raise DataError(Diagnostic(codes.NO_PREDICATE, message, source.span))
    for own, type_read in zip(declared, types_read, strict=True):
        if predicate.declared and own is not ColumnType.ANY and own is not type_read:
            message = (
                f"`{predicate.written}` is declared with {own.value} where the source has {type_read.value}"
            )
            raise DataError(Diagnostic(codes.NO_PREDICATE, message, source.span))
    return types, _names(source, predicate)


def _type(kind: ColumnType | str) -> ColumnType:
    if isinstance(kind, ColumnType):
        return kind
    return ColumnType.SKIP if kind == "skip" else TYPES[kind]


def _names(source: Source, predicate: Predicate) -> tuple[str | None, ...]:
    if source.columns is None:
        return (*predicate.columns, *source.times)
    names = (*column_names(predicate), *source.times)
    if isinstance(source.columns, tuple | list):
        if len(source.columns) != len(names):
            count = len(source.columns)
            message = (
                f"`{predicate.written}` has {counted(len(names), 'column')}, but {count} are named for it"
            )
            raise DataError(Diagnostic(codes.NO_PREDICATE, message, source.span))
        return tuple(source.columns)
    for name in source.columns:
        if name not in names:
            message = f"`{predicate.written}` has no column `{name}`"
            help = suggest(name, names) or f"it has {', '.join(names)}"
            raise DataError(Diagnostic(codes.NO_PREDICATE, message, source.span, help))
    return tuple(source.columns.get(name, name) for name in names)


# ---- Sources with versions: foreign Delta and Iceberg tables, read whole or by their changes.

MOST_LOOKED_UP: Final = 1_000  # values of a column by which files are skipped


@dataclass(frozen=True)
class VersionedSource:
    """The table of a source, resolved once in a run, so that all of the run reads the same version."""

    source: Source
    settings: Settings
    program: Program

    @cached_property
    def foreign(self) -> ForeignTable:
        """The table in the version that the run reads."""
        return table_of(self.source, self.settings)

    @property
    def written(self) -> int | None:
        """The time at which the version was committed, in nanoseconds, if it is known."""
        milliseconds = self.foreign.written
        return None if milliseconds is None else milliseconds * 1_000_000

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, with their types."""
        return tuple(sorted(f"{field.name}: {field.type}" for field in self.foreign.schema))

    def with_version(self, record: InputRecord) -> InputRecord:
        """Return the record of an input with the version that is read."""
        return replace(record, version=self.foreign.version, identity=self.foreign.identity)

    def is_same(self, before: InputRecord) -> bool:
        """Return whether an input has the version that a run would read."""
        return (self.foreign.version, self.foreign.identity) == (before.version, before.identity)

    # ---- rows

    @cached_property
    def _reading(self) -> tuple[ColumnRequest, tuple[str, ...]]:
        source, names = self.source, self.foreign.schema.names
        predicate = find_predicate_of(source, self.program)
        types, names_read = columns_and_types(source, self.program, predicate)
        types = (*types, *time_types_of(source.times, "parquet"))
        with errors_at(source):
            names_read = () if ColumnType.SKIP in types else names_read
            request = wanted_columns(self.foreign.schema, types, names_read, source.shown)
        places = tuple(dict.fromkeys(request.places))
        request_read = replace(
            request, places=tuple(map(places.index, request.places)), times=len(source.times)
        )
        return request_read, tuple(names[place] for place in places)

    @property
    def request(self) -> ColumnRequest:
        """How `read_columns` are read."""
        return self._reading[0]

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return self._reading[1]

    def read(self, faults: RejectedRows) -> Iterator[Batch]:
        """Yield all rows."""
        request, table = self.request, self._table
        yield from _counted(read_arrow_data(table.batches(self.read_columns), request, faults), faults)

    @property
    def _table(self) -> SourceTable:
        with errors_at(self.source):
            return self.foreign.table

    def still(
        self, change: Change, rows: Rows, among: Mapping[str, pa.Array], filter: SourceRowFilter | None
    ) -> Rows:
        """Return the facts that the table still has; only rows `among` these values are read."""
        faults = RejectedRows(OnError.SKIP)
        is_here = np.zeros(rows.count, dtype=bool)
        batches = self._table.batches(self.read_columns, among)
        for batch in read_arrow_data(batches, self.request, faults):
            rows_kept = batch if filter is None else filter.keep(batch)
            codes = codes_of(concatenate([rows, change.encode_batch(rows_kept)]))
            is_here |= np.isin(codes[: rows.count], codes[rows.count :])
        return select(rows, is_here)

    # ---- changes

    def feed(self, before: InputRecord, filter: SourceRowFilter | None) -> SourceChanges:
        """Return the changes since an input was read; raise `NoFeedError` if they are not usable."""
        if before.identity != self.foreign.identity:
            raise NoFeedError("the table was replaced")
        if before.version is None or before.is_edited:
            raise NoFeedError("its facts have been changed by other means since it was read")
        try:
            changes = self.foreign.changes(before.version)
        except DataError as error:
            raise NoFeedError(error.diagnostics[0].message) from error
        is_deleted = pc.equal(changes.column(CHANGE_TYPE), DELETE)
        rows = changes.drop_columns([CHANGE_TYPE, NUMBER])
        new_rows, old_rows = rows.filter(pc.invert(is_deleted)), rows.filter(is_deleted)
        parts = [
            self._facts(rows_of_kind.select(list(self.read_columns)), filter)
            for rows_of_kind in (new_rows, old_rows)
        ]
        (inserted, filtered_inserted), (deleted, filtered_deleted) = parts
        tally = replace(
            before,
            rows=before.rows + new_rows.num_rows - old_rows.num_rows,
            filtered=before.filtered + filtered_inserted - filtered_deleted,
        )
        return SourceChanges(
            self,
            filter,
            tuple(inserted),
            tuple(deleted),
            old_rows,
            new_rows.num_rows,
            self.with_version(tally),
        )

    def _facts(self, rows: Any, filter: SourceRowFilter | None) -> tuple[list[Batch], int]:
        """Return rows as facts, and how many the filter removes."""
        faults = RejectedRows(OnError.SKIP)
        batches = list(read_arrow_data([rows], self.request, faults))
        if faults.skipped or sum(batch.rows for batch in batches) != rows.num_rows:
            raise NoFeedError("inserted and deleted rows cannot be read")
        rows_kept = batches if filter is None else [filter.keep(batch) for batch in batches]
        return rows_kept, rows.num_rows - sum(batch.rows for batch in rows_kept)


class NoFeedError(Exception):
    """The reason why the changes of a table are unknown, or do not determine the changes of facts."""


@dataclass(frozen=True)
class SourceChanges:
    """The changes of the table of a source since it was last read."""

    table: VersionedSource
    filter: SourceRowFilter | None
    inserted: tuple[Batch, ...]
    deleted: tuple[Batch, ...]
    deleted_rows: Any = field(repr=False)  # of the table
    inserted_count: int
    input: InputRecord  # the record of the source in the new manifest

    @property
    def shown(self) -> str:
        """Its description in a step of a run."""
        record, deleted = self.input, self.deleted_rows.num_rows
        return f"{record.shown}: +{self.inserted_count:,} −{deleted:,} to version {record.version}"

    def apply(self, change: Change, name: str, still: Callable[[Rows], Rows] | None = None) -> None:
        """Apply the changes to facts of a predicate; `still` returns the deleted rows that still hold."""
        inserted, deleted = (
            distinct([change.encode_batch(batch) for batch in batches]) if batches else None
            for batches in (self.inserted, self.deleted)
        )
        if deleted is None or not deleted.count:
            if inserted is not None:
                change.correct_rows(name, inserted, None)
            return
        remaining = (
            still(deleted) if still else self.table.still(change, deleted, self._lookup(), self.filter)
        )
        removed = without(deleted, remaining)
        present = remaining if inserted is None else distinct([without(inserted, removed), remaining])
        change.correct_rows(name, present, removed)

    def _lookup(self) -> Mapping[str, pa.Array]:
        """Return the values of deleted rows, for columns in which equal facts have equal values."""
        values_by_column = {}
        for name in self.table.read_columns:
            values = pc.unique(self.deleted_rows.column(name))
            is_plain = pa.types.is_integer(values.type) or pa.types.is_date(values.type)
            if is_plain and not values.null_count and len(values) <= MOST_LOOKED_UP:
                values_by_column[name] = values
        return values_by_column


def feed_of(
    name: str,
    inputs: Mapping[str, VersionedSource | None],
    filter: Callable[[], SourceRowFilter | None],
    program: Program,
    before: Manifest,
    marks: str,
    reached: Callable[[str, str], None],
) -> SourceChanges | None:
    """Return the changes of the only input of a predicate, None if its rows must be compared.

    `inputs` are the inputs of the predicate, each with its table if it has one. The reason for a comparison
    is reported as a step.
    """
    tables = [(key, table) for key, table in inputs.items() if table is not None]
    if not tables:
        return None
    key, table = tables[0]
    former_keys = [key for key, record in before.inputs.items() if record.predicate == name]
    try:
        if len(inputs) > 1 or former_keys != [key]:
            raise NoFeedError("its predicate has other sources, or had some")
        if table.source.times:
            raise NoFeedError("its facts are temporal")
        if has_equality(program.predicates):
            raise NoFeedError("the program has equality")
        if before.inputs[key].marks != marks:
            raise NoFeedError("it is read with other options")
        return table.feed(before.inputs[key], filter())
    except NoFeedError as reason:
        reached("compared", f"all rows of {table.source.shown}: {reason}")
        return None


def _counted(batches: Iterator[Batch], faults: RejectedRows) -> Iterator[Batch]:
    for batch in batches:
        faults.rows += batch.rows
        yield batch
