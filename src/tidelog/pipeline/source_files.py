"""The files and versioned tables of a source, how each is read, and filters.

What a table's change feed has is not yet what changes in facts: rows may repeat, columns that are not read
may distinguish them, and different texts may be the same value. An inserted row is a fact now, unless it was
deleted again. Of the deleted ones, those that still hold are searched among the rows that the table has.
"""

from __future__ import annotations

import glob
import gzip
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
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

# ---- The columns of files, as far as their headers and schemas have them.

_FIRST_BYTES = 1 << 16


def columns_of(files: Iterable[InputFile]) -> tuple[str, ...]:
    """Return the columns of the first of the files: names, or numbers where there are no names.

    Columns that are found by name are in the order of their names: no other order means anything.
    """
    for file in islice(files, 1):
        if file.format in DELIMITED:
            return _of_delimited(file)
        if file.format in ("parquet", "arrow"):
            return _of_schema(file)
    return ()


def _of_delimited(file: InputFile) -> tuple[str, ...]:
    with file.open() as stream:
        found = first_record(stream.read(_FIRST_BYTES), file.delimiter.encode(), file.quoting, 1)
    if found is None:
        return ()
    fields = tuple(field.decode("utf-8", "replace").removeprefix("\ufeff") for field in found[0].fields)
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
    """The rows that satisfy the literals, by the rule `kept(?n) :- row(?n, …), literals .`

    Rows have numbers, so that one that comes twice is kept twice, and what is filtered out can be counted.
    """

    program: Program
    arity: int  # of the rows: columns behind these are kept along

    @staticmethod
    def of(literals: str | None, predicate: Predicate, span: Span | None) -> SourceRowFilter | None:
        """Return the filter of literals, whose variables are the predicate's columns; raise its errors."""
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
            wrong = [item for item in error.diagnostics if item.severity is Severity.ERROR]
            reasons = "; ".join(item.message for item in wrong)
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


# ---- The files of a source: which columns are read, of which types, for which predicate.


def find_predicate_of(item: Source, program: Program) -> Predicate:
    """Return the predicate of a source; raise `DataError` if the program does not have it."""
    return find_named(item.predicate, program, item.span)


def find_named(name: str, program: Program, span: object = None) -> Predicate:
    """Return the predicate of this name; raise `DataError` if the program does not have it."""
    for predicate in program.predicates.values():
        if name in (predicate.name, predicate.written):
            return predicate
    known = dict.fromkeys(predicate.written for predicate in program.predicates.values())
    help = suggest(name, known) or f"it has {', '.join(known) or 'none'}"
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
    """Return the program in which predicates hold at times if their sources say so; raise errors of that."""
    given = [(source.predicate, source.span) for source in settings.sources if source.times]
    given += [(stream.predicate or "", stream.span) for stream in settings.streams if stream.times]
    timed = {find_named(name, program, span).name for name, span in given}
    return program if timed <= program.given_times else giving_times(program, timed)


def data_files_of(
    source: Source, settings: Settings, program: Program, predicate: Predicate
) -> list[InputFile]:
    """Return the files that the paths of a source name, each as it is to be read."""
    local = [each for each in source.paths if not is_remote(each)]
    paths = [path for written in local for path in _expanded(written, source, settings)]
    found = [_data_file(path, source, program, predicate) for path in dict.fromkeys(paths)]
    for written in source.paths:
        if is_remote(written):
            for folder, stored in _stored_files(written, source, settings):
                made = _data_file(Path(stored.path), source, program, predicate)
                known = {each.name: getattr(made, each.name) for each in fields(InputFile)}
                found.append(StoredFile(**{**known, "path": None}, bucket=folder, stored=stored))
    return found


def table_of(source: Source, settings: Settings) -> ForeignTable:
    """Return the Delta or Iceberg table of a source, in the requested version; no row is read."""
    assert source.format is not None and source.kind == "versioned"
    with errors_at(source):
        path = settings.address(source.paths[0])
        return foreign_table(source.format, path, source.version, settings.storage)


@contextmanager
def errors_at(source: Source) -> Iterator[None]:
    """In the block, errors without a place get that of the source in its job file."""
    try:
        yield
    except DataError as error:
        raise DataError(replace(each, span=each.span or source.span) for each in error.diagnostics) from error


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
        """Whether reading may have to wait for a writer: never."""
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


def _stored_files(written: str, source: Source, settings: Settings) -> Iterator[tuple[StorageFolder, Stored]]:
    """Yield the files of an object store at an address: itself, those in a folder, or of a pattern."""
    if written.partition("://")[0] not in SCHEMES:
        message = f"`{written}` is not a file on this machine, nor in an object store"
        help = 'mount it, or let Spark read it: name = "spark" in [engine]'
        raise DataError(Diagnostic(codes.NO_FILES, message, source.span, help))
    parts = written.partition("://")[2].split("/")
    first = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    with errors_at(source):
        bucket = StorageFolder.at(f"s3://{parts[0]}", settings.storage)
        bucket.check()
        inside = "/".join(parts[1:first]).strip("/")
        listed = (bucket.below(inside) if inside else bucket).listed()
        found = [replace(each, path=f"{inside}/{each.path}" if inside else each.path) for each in listed]
        if not found and inside and first == len(parts):
            above, _, name = inside.rpartition("/")
            listed = (bucket.below(above) if above else bucket).listed()
            found = [replace(each, path=inside) for each in listed if each.path == name]
    if first < len(parts):
        pattern = re.compile(_pattern("/".join(parts[1:])))
        found = [each for each in found if pattern.fullmatch(each.path)]
    elif [each.path for each in found] != [inside]:
        hidden = (".", "_")
        found = [each for each in found if not each.path.rpartition("/")[2].startswith(hidden)]
        found = [each for each in found if source.format in (None, format_of(Path(each.path)))]
        found = [each for each in found if format_of(Path(each.path)) is not None]
    if not found:
        raise DataError(Diagnostic(codes.NO_FILES, f"no such file: `{written}`", source.span))
    for each in sorted(found, key=lambda one: one.path):
        yield bucket, each


def _pattern(written: str) -> str:
    """Return a pattern of paths as a regular expression: `*` stays within a folder, `**` does not."""
    made = re.escape(written).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    return made.replace(r"\[", "[").replace(r"\]", "]")


def _expanded(written: str, source: Source, settings: Settings) -> list[Path]:
    """Return the files of a path: itself, those in a folder, or those that a pattern matches."""
    path = settings.resolve(written)
    if glob.has_magic(written):
        names = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - the folder may be a pattern too
        found = [Path(name) for name in names if Path(name).is_file()]
    elif path.is_dir():
        inside = data_files([path])
        found = [child for child in inside if source.format in (None, format_of(child))]
    else:
        found = [path] if path.is_file() else []
    if not found:
        names = [child.name for child in path.parent.iterdir()] if path.parent.is_dir() else []
        help = suggest(path.name, names)
        raise DataError(Diagnostic(codes.NO_FILES, f"no such file: `{path}`", source.span, help))
    return found


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
    wanted = [kind for kind in types if kind is not ColumnType.SKIP]
    if len(wanted) != predicate.arity:
        width = counted(predicate.arity, "column")
        message = f"`{predicate.written}` has {width}, but {len(wanted)} are read for it"
        raise DataError(Diagnostic(codes.NO_PREDICATE, message, source.span))
    for own, given in zip(declared, wanted, strict=True):
        if predicate.declared and own is not ColumnType.ANY and own is not given:
            message = f"`{predicate.written}` is declared with {own.value} where the source has {given.value}"
            raise DataError(Diagnostic(codes.NO_PREDICATE, message, source.span))
    return types, _names(source, predicate)


def _type(kind: ColumnType | str) -> ColumnType:
    if isinstance(kind, ColumnType):
        return kind
    return ColumnType.SKIP if kind == "skip" else TYPES[kind]


def _names(source: Source, predicate: Predicate) -> tuple[str | None, ...]:
    if source.columns is None:
        return (*predicate.columns, *source.times)
    known = (*column_names(predicate), *source.times)
    if isinstance(source.columns, tuple | list):
        if len(source.columns) != len(known):
            count = len(source.columns)
            message = (
                f"`{predicate.written}` has {counted(len(known), 'column')}, but {count} are named for it"
            )
            raise DataError(Diagnostic(codes.NO_PREDICATE, message, source.span))
        return tuple(source.columns)
    for name in source.columns:
        if name not in known:
            message = f"`{predicate.written}` has no column `{name}`"
            help = suggest(name, known) or f"it has {', '.join(known)}"
            raise DataError(Diagnostic(codes.NO_PREDICATE, message, source.span, help))
    return tuple(source.columns.get(name, name) for name in known)


# ---- Sources with versions: foreign Delta and Iceberg tables, read whole or by their changes.

MOST_LOOKED_UP: Final = 1_000  # values of a column by which files are skipped


@dataclass(frozen=True)
class VersionedSource:
    """The table of a source, looked up once in a run: all of the run reads the same version."""

    source: Source
    settings: Settings
    program: Program

    @cached_property
    def found(self) -> ForeignTable:
        """The version that the run reads."""
        return table_of(self.source, self.settings)

    @property
    def written(self) -> int | None:
        """When the version was committed, in nanoseconds, if that is known."""
        milliseconds = self.found.written
        return None if milliseconds is None else milliseconds * 1_000_000

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, with their types."""
        return tuple(sorted(f"{each.name}: {each.type}" for each in self.found.schema))

    def with_version(self, found: InputRecord) -> InputRecord:
        """Return an input with the version that is read."""
        return replace(found, version=self.found.version, identity=self.found.identity)

    def is_same(self, before: InputRecord) -> bool:
        """Return whether an input has the version that a run would read."""
        return (self.found.version, self.found.identity) == (before.version, before.identity)

    # ---- rows

    @cached_property
    def _reading(self) -> tuple[ColumnRequest, tuple[str, ...]]:
        source, names = self.source, self.found.schema.names
        predicate = find_predicate_of(source, self.program)
        types, called = columns_and_types(source, self.program, predicate)
        types = (*types, *time_types_of(source.times, "parquet"))
        with errors_at(source):
            called = () if ColumnType.SKIP in types else called
            found = wanted_columns(self.found.schema, types, called, source.shown)
        places = tuple(dict.fromkeys(found.places))
        wanted = replace(found, places=tuple(map(places.index, found.places)), times=len(source.times))
        return wanted, tuple(names[place] for place in places)

    @property
    def wanted(self) -> ColumnRequest:
        """What is read of `read_columns`."""
        return self._reading[0]

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return self._reading[1]

    def read(self, faults: RejectedRows) -> Iterator[Batch]:
        """Yield all rows."""
        wanted, table = self.wanted, self._table
        yield from _counted(read_arrow_data(table.batches(self.read_columns), wanted, faults), faults)

    @property
    def _table(self) -> SourceTable:
        with errors_at(self.source):
            return self.found.table

    def still(
        self, change: Change, rows: Rows, among: Mapping[str, pa.Array], filter: SourceRowFilter | None
    ) -> Rows:
        """Return the facts that rows of the table still have; only rows `among` these values are read."""
        faults = RejectedRows(OnError.SKIP)
        is_here = np.zeros(rows.count, dtype=bool)
        batches = self._table.batches(self.read_columns, among)
        for batch in read_arrow_data(batches, self.wanted, faults):
            kept = batch if filter is None else filter.keep(batch)
            codes = codes_of(concatenate([rows, change.encode_batch(kept)]))
            is_here |= np.isin(codes[: rows.count], codes[rows.count :])
        return select(rows, is_here)

    # ---- changes

    def feed(self, before: InputRecord, filter: SourceRowFilter | None) -> SourceChanges:
        """Return the changes since an input was read; raise `NoFeedError` if all rows must be compared."""
        if before.identity != self.found.identity:
            raise NoFeedError("the table was replaced")
        if before.version is None or before.is_edited:
            raise NoFeedError("its facts have been changed by other means since it was read")
        try:
            changes = self.found.changes(before.version)
        except DataError as error:
            raise NoFeedError(error.diagnostics[0].message) from error
        is_deleted = pc.equal(changes.column(CHANGE_TYPE), DELETE)
        rows = changes.drop_columns([CHANGE_TYPE, NUMBER])
        new_rows, old_rows = rows.filter(pc.invert(is_deleted)), rows.filter(is_deleted)
        parts = [self._facts(each.select(list(self.read_columns)), filter) for each in (new_rows, old_rows)]
        (inserted, more), (deleted, less) = parts
        tally = replace(
            before,
            rows=before.rows + new_rows.num_rows - old_rows.num_rows,
            filtered=before.filtered + more - less,
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
        """Return rows as facts, and how many the filter leaves out."""
        faults = RejectedRows(OnError.SKIP)
        found = list(read_arrow_data([rows], self.wanted, faults))
        if faults.skipped or sum(batch.rows for batch in found) != rows.num_rows:
            raise NoFeedError("inserted and deleted rows cannot be read")
        kept = found if filter is None else [filter.keep(batch) for batch in found]
        return kept, rows.num_rows - sum(batch.rows for batch in kept)


class NoFeedError(Exception):
    """The reason why the changes of a table are not known, or do not determine the changes of facts."""


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
        """How the step of a run describes it."""
        found, deleted = self.input, self.deleted_rows.num_rows
        return f"{found.shown}: +{self.inserted_count:,} −{deleted:,} to version {found.version}"

    def apply(self, change: Change, name: str, still: Callable[[Rows], Rows] | None = None) -> None:
        """Apply the changes to facts of a predicate; `still` returns the deleted rows that still hold."""
        inserted, deleted = (
            distinct([change.encode_batch(each) for each in some]) if some else None
            for some in (self.inserted, self.deleted)
        )
        if deleted is None or not deleted.count:
            if inserted is not None:
                change.correct_rows(name, inserted, None)
            return
        here = still(deleted) if still else self.table.still(change, deleted, self._lookup(), self.filter)
        gone = without(deleted, here)
        present = here if inserted is None else distinct([without(inserted, gone), here])
        change.correct_rows(name, present, gone)

    def _lookup(self) -> Mapping[str, pa.Array]:
        """Return the values of deleted rows, in columns where no other value means the same."""
        found = {}
        for name in self.table.read_columns:
            values = pc.unique(self.deleted_rows.column(name))
            is_plain = pa.types.is_integer(values.type) or pa.types.is_date(values.type)
            if is_plain and not values.null_count and len(values) <= MOST_LOOKED_UP:
                found[name] = values
        return found


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

    `inputs` are the inputs of the predicate, each with its table if it has one. Why rows are compared is
    reported as a step.
    """
    tables = [(key, table) for key, table in inputs.items() if table is not None]
    if not tables:
        return None
    key, table = tables[0]
    then = [key for key, each in before.inputs.items() if each.predicate == name]
    try:
        if len(inputs) > 1 or then != [key]:
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
