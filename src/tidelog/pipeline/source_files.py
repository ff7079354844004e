"""The files of a source, and how each is read: which columns, of which types, for which predicate."""

from __future__ import annotations

import glob
import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, cast

from tidelog.data.relation import column_names
from tidelog.errors import DataError, Diagnostic, counted, suggest
from tidelog.io.formats import DELIMITED, RDF, data_files, format_of, is_compressed
from tidelog.io.source import DataFile, Header, time_types_of
from tidelog.logic.column_types import TYPES
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import giving_times
from tidelog.logic.values import ColumnType
from tidelog.pipeline import codes
from tidelog.pipeline.settings import Settings, Source, is_remote
from tidelog.publish.foreign_tables import ForeignTable, foreign_table
from tidelog.publish.object_storage import SCHEMES, Folder, Stored


def find_predicate_of(item: Source, program: Program) -> Predicate:
    """The predicate that a source feeds; raises `DataError` if the program has none such."""
    return find_named(item.predicate, program, item.span)


def find_named(name: str, program: Program, span: object = None) -> Predicate:
    """The predicate of this name; raises `DataError` if the program has none such."""
    for predicate in program.predicates.values():
        if name in (predicate.name, predicate.written):
            return predicate
    known = dict.fromkeys(predicate.written for predicate in program.predicates.values())
    help = suggest(name, known) or f"it has {', '.join(known) or 'none'}"
    message = f"the program has no predicate `{name}`"
    raise DataError(Diagnostic(codes.NO_PREDICATE, message, span, help))  # type: ignore[arg-type]


def check_sources(settings: Settings, program: Program) -> None:
    """Raise all that is wrong with sources and can be told without Spark: predicates, and missing files."""
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
    """The program, in which predicates hold at times whose sources say so; raises what is wrong with that."""
    given = [(source.predicate, source.span) for source in settings.sources if source.times]
    given += [(stream.predicate or "", stream.span) for stream in settings.streams if stream.times]
    timed = {find_named(name, program, span).name for name, span in given}
    return program if timed <= program.given_times else giving_times(program, timed)


def data_files_of(
    source: Source, settings: Settings, program: Program, predicate: Predicate
) -> list[DataFile]:
    """The files that the paths of a source name, each as it is to be read."""
    local = [each for each in source.paths if not is_remote(each)]
    paths = [path for written in local for path in _expanded(written, source, settings)]
    found = [_data_file(path, source, program, predicate) for path in dict.fromkeys(paths)]
    for written in source.paths:
        if is_remote(written):
            for folder, stored in _stored_files(written, source, settings):
                made = _data_file(Path(stored.path), source, program, predicate)
                known = {each.name: getattr(made, each.name) for each in fields(DataFile)}
                found.append(StoredFile(**{**known, "path": None}, bucket=folder, stored=stored))
    return found


def table_of(source: Source, settings: Settings) -> ForeignTable:
    """The Delta or Iceberg table of a source, in the version that is asked for; no row is read."""
    assert source.format is not None and source.kind == "versioned"
    with placed(source):
        path = settings.address(source.paths[0])
        return foreign_table(source.format, path, source.version, settings.storage)


@contextmanager
def placed(source: Source) -> Iterator[None]:
    """In the block, errors without a place in a text get that of the source in its job file."""
    try:
        yield
    except DataError as error:
        raise DataError(replace(each, span=each.span or source.span) for each in error.diagnostics) from error


@dataclass(frozen=True)
class StoredFile(DataFile):
    """A file in an object store."""

    bucket: Folder | None = field(default=None, repr=False)
    stored: Stored | None = None

    @property
    def place_of(self) -> tuple[Folder, Stored]:
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
        """Whether reading may have to wait for whoever writes: never."""
        return False

    def open(self) -> IO[bytes]:
        """The bytes of the file, decompressed."""
        bucket, stored = self.place_of
        try:
            stream = bucket.filesystem.open_input_file(bucket.path(stored.path))
        except OSError as error:
            message = f"`{self.shown}` cannot be read: {error}"
            raise DataError(Diagnostic(codes.NO_FILES, message, place=self.shown)) from error
        return cast(IO[bytes], gzip.open(stream) if self.compressed else stream)


def _stored_files(written: str, source: Source, settings: Settings) -> Iterator[tuple[Folder, Stored]]:
    """The files of an object store that an address names: itself, those in a folder, or of a pattern."""
    if written.partition("://")[0] not in SCHEMES:
        message = f"`{written}` is not a file on this machine, nor in an object store"
        help = 'mount it, or let Spark read it: name = "spark" in [engine]'
        raise DataError(Diagnostic(codes.NO_FILES, message, source.span, help))
    parts = written.partition("://")[2].split("/")
    first = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    with placed(source):
        bucket = Folder.at(f"s3://{parts[0]}", settings.storage)
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
        raise DataError(Diagnostic(codes.NO_FILES, f"there is no file `{written}`", source.span))
    for each in sorted(found, key=lambda one: one.path):
        yield bucket, each


def _pattern(written: str) -> str:
    """A pattern of paths as a regular expression: `*` stays within a folder, `**` does not."""
    made = re.escape(written).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
    return made.replace(r"\[", "[").replace(r"\]", "]")


def _expanded(written: str, source: Source, settings: Settings) -> list[Path]:
    """The files of a path: itself, those in a folder, or those that a pattern matches."""
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
        raise DataError(Diagnostic(codes.NO_FILES, f"there is no file `{path}`", source.span, help))
    return found


def _data_file(path: Path, source: Source, program: Program, predicate: Predicate) -> DataFile:
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
    return DataFile(
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
    """The types of a source's columns, and what the data calls those of the predicate."""
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
