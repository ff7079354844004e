"""Where rows come from: a file or a source, its format, and what is known of its columns."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import stat
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final, cast
from urllib.parse import unquote

from tidelog.errors import DataError, Diagnostic, Span, codes, counted, suggest
from tidelog.logic.import_options import Nulls, resource_path
from tidelog.logic.program import OptionValue, Predicate, Transfer
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass

# ---- formats of files

# The first extension of a format is the one that files are written with.
EXTENSIONS: dict[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "tsv": (".tsv",),
    "dsv": (".dsv",),
    "json": (".json",),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".arrows", ".ipc"),
    "ntriples": (".nt",),
    "turtle": (".ttl",),
    "nquads": (".nq",),
    "trig": (".trig",),
    "rdfxml": (".rdf", ".owl", ".xml"),
    "jsonld": (".jsonld",),
}
DELIMITED = frozenset({"csv", "tsv", "dsv"})
JSON = frozenset({"json", "jsonl"})
RDF = frozenset({"ntriples", "turtle", "nquads", "trig", "rdfxml", "jsonld"})
ALIASES = {"nt": "ntriples", "ttl": "turtle", "nq": "nquads"}

_FORMAT_OF_EXTENSION = {extension: name for name, known in EXTENSIONS.items() for extension in known}


def canonical_format(name: str, path: Path | None = None) -> str:
    """The one name of a format; `rdf` is whichever RDF format the path's extension means.

    >>> canonical_format("nt")
    'ntriples'
    >>> canonical_format("rdf", Path("data.ttl.gz"))
    'turtle'
    """
    if name == "rdf":
        found = format_of(path) if path is not None else None
        return found if found in RDF else "ntriples"
    return ALIASES.get(name, name)


def format_of(path: Path) -> str | None:
    """The format that the path's extension means, `.gz` apart, or None.

    >>> format_of(Path("edge.csv.gz"))
    'csv'
    """
    bare = path.with_suffix("") if is_compressed(path) else path
    return _FORMAT_OF_EXTENSION.get(bare.suffix.lower())


def is_compressed(path: Path) -> bool:
    """Whether the path's extension means gzip."""
    return path.suffix.lower() == ".gz"


def stem_of(path: Path) -> str:
    """The predicate that a file is named after: the inverse of `file_name`.

    >>> stem_of(Path("data/ex%3Aedge.csv.gz"))
    'ex:edge'
    """
    bare = path.with_suffix("") if is_compressed(path) else path
    return unquote(bare.stem if bare.suffix.lower() in _FORMAT_OF_EXTENSION else bare.name)


def file_name(written: str, name: str, arity: int | None = None) -> str:
    """The name of the file of a predicate: letters, digits, `_`, `-` and `.` stay, the rest is escaped.

    With four columns, N-Triples are N-Quads and Turtle is TriG.

    >>> file_name("ex:edge", "csv")
    'ex%3Aedge.csv'
    """
    safe = re.sub(r"[^\w.-]", lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), written)
    name = canonical_format(name)
    if arity == 4:  # statements with a graph
        name = {"ntriples": "nquads", "turtle": "trig"}.get(name, name)
    return safe + EXTENSIONS[name][0]


def data_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files named by `--data`: each file itself, and the files of known formats in each folder."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.is_file())
            files += [child for child in inside if format_of(child) and not child.name.startswith(".")]
        else:
            files.append(path)
    return tuple(files)


def unknown_format(shown: str) -> DataError:
    """The error for a file whose format is not known."""
    known = ", ".join(sorted(_FORMAT_OF_EXTENSION))
    message = f"the format of `{shown}` is not known by its extension"
    return DataError(
        Diagnostic(codes.NOT_OF_FORMAT, message, place=shown, help=f"known extensions: {known}, and .gz")
    )


# ---- where rows come from

TRIPLE = "triple"
START = "start"  # the name of a column that alone says at which point
DURATION = "duration"  # the name of a column that says how long, not until when


class Header(Enum):
    """What the first row of a delimited file is."""

    NONE = "none"  # data
    IGNORED = "ignored"  # a header that is skipped
    NAMES = "names"  # a header; declared columns are found by their names
    DETECTED = "detected"  # a header if it holds the names of all the predicate's columns, else data


@lru_cache(maxsize=8)
def _shown(path: Path, folder: str) -> str:
    relative = os.path.relpath(path, folder)
    return str(path) if relative.startswith(os.pardir) else relative


@dataclass(frozen=True)
class InputFile:
    """A file to read, or standard input if there is no path.

    `types` are those of the file's columns, skipped ones included; None means that the first row decides how
    many columns there are, each of type ANY. `names` are the predicate's columns where they are known.
    """

    path: Path | None
    format: str
    types: tuple[ColumnType, ...] | None
    names: tuple[str | None, ...] = ()
    header: Header = Header.NONE
    delimiter: str = ","
    quoting: bool = True
    compressed: bool = False
    limit: int | None = None
    base: str | None = None
    times: int = 0  # columns at the end that say when
    nulls: tuple[Nulls, ...] = ()  # by the predicate's columns; reject where there is none

    @property
    def shown(self) -> str:
        """The name of the file in messages: relative to the working folder where it lies inside it."""
        if self.path is None:
            return "<stdin>"
        return _shown(self.path, os.getcwd())  # noqa: PTH109 - asked for each bad row

    @property
    def may_wait(self) -> bool:
        """Whether reading may have to wait for a writer: it is a pipe, a terminal or the like."""
        return self.path is None or (self.path.exists() and not self.path.is_file())

    def place(self, line: int, column: int | None = None) -> str:
        """`file:line:column`, as diagnostics show it."""
        return f"{self.shown}:{line}" if column is None else f"{self.shown}:{line}:{column}"

    def header_help(self, fields: Collection[str]) -> str:
        """What to do where the first row, read as data, holds what may be the names of columns."""
        if self.header is Header.DETECTED:
            option = "`--input-header yes`, in Python `header=True`"
        else:
            is_named = all(name in fields for name in self.names)
            option = f"`{self.format}{{ {'header' if is_named else 'ignore_headers'} = true, … }}`"
        return f"if this line is a header, read the file with {option}"

    def open(self) -> IO[bytes]:
        """The bytes of the file, decompressed."""
        if self.path is None:
            stream = io.BytesIO(sys.stdin.buffer.read())
            return cast(IO[bytes], gzip.open(stream)) if self.compressed else stream
        try:
            if _is_device(self.path):
                raise OSError(errno.ENODEV, "it is a device, not a file")
            return cast(IO[bytes], gzip.open(self.path) if self.compressed else self.path.open("rb"))
        except OSError as error:
            raise _not_readable(self, error) from error
        except ValueError as error:  # a null in its name
            raise _not_readable(self, OSError(0, str(error))) from error


def _is_device(path: Path) -> bool:
    """Whether a path leads to a device that may never end; terminals and the empty device do."""
    found = path.stat()
    if not stat.S_ISCHR(found.st_mode) or os.path.samestat(found, Path(os.devnull).stat()):
        return stat.S_ISBLK(found.st_mode)
    with path.open("rb", buffering=0) as stream:
        return not stream.isatty()


def import_file(transfer: Transfer, predicate: Predicate) -> InputFile:
    """The file that an import reads."""
    path = transfer_path(transfer, transfer.folder)
    if path is not None:
        path = transfer.sandbox.to_read(path, transfer.span)
    name = canonical_format(transfer.format, path)
    options = TransferOptions(transfer)
    types = transfer.types if transfer.types is not None else predicate.types
    if sum(t is not ColumnType.SKIP for t in types) != predicate.arity:
        raise options.wrong(
            "format", f"has {counted(len(types), 'column')}, `{predicate.written}` has {predicate.arity}"
        )
    named = predicate.declared and transfer.types is None
    time = transfer.options.get("time", ())
    assert isinstance(time, tuple), "checked by the resolver"
    return InputFile(
        path,
        name,
        (*types, *time_types_of(time, name)),
        (*predicate.columns, *time) if named else (),
        _header(options),
        "\t" if name == "tsv" else options.character("delimiter", ","),
        options.flag("quoting", True),
        options.compressed(path),
        options.count("limit"),
        options.text("base"),
        len(time),
        _nulls(options, transfer, predicate),
    )


def _nulls(options: TransferOptions, transfer: Transfer, predicate: Predicate) -> tuple[Nulls, ...]:
    """What is done about missing values, column by column."""
    names = transfer.options.get("nulls", ())
    assert isinstance(names, tuple), "checked by the resolver"
    if len(names) == 1:
        names *= predicate.arity
    if names and len(names) != predicate.arity:
        columns = counted(predicate.arity, "column")
        raise options.wrong("nulls", f"has {len(names)} words, `{predicate.written}` has {columns}")
    return tuple(map(Nulls, names))


def time_types_of(time: tuple[str, ...], format_name: str) -> tuple[ColumnType, ...]:
    """The types by which columns are read that say when."""
    is_text = (len(time) == 1 and time != (START,)) or format_name in ("json", "jsonl")
    return (ColumnType.STRING if is_text else ColumnType.ANY,) * len(time)


def data_file(path: Path, predicate: Predicate | None, header: bool | None = None) -> InputFile:
    """The file that `--data` names; `header` says whether it has one, None to decide by its first row."""
    name = format_of(path)
    if name is None:
        raise unknown_format(str(path))
    return InputFile(
        path,
        name,
        predicate.types if predicate else None,
        predicate.columns if predicate else (),
        {None: Header.DETECTED, True: Header.NAMES, False: Header.NONE}[header],
        "\t" if name == "tsv" else ",",
        compressed=is_compressed(path),
    )


def predicate_of(path: Path, predicates: Mapping[str, Predicate]) -> str:
    """The predicate whose facts a file of `--data` holds.

    It is named after the file. RDF files for which the program has no such predicate hold `triple`.
    """
    stem = stem_of(path)
    for predicate in predicates.values():
        if stem in (predicate.written, predicate.name):
            return predicate.name
    return TRIPLE if format_of(path) in RDF else stem


def transfer_path(transfer: Transfer, folder: Path | None) -> Path | None:
    """The file of an import or export, in `folder` if it is relative; None is standard input or output."""
    text = str(transfer.options.get("resource", ""))
    if "://" in text and not text.startswith("file://"):
        message = f"`{text}` is not a file on this machine"
        raise DataError(Diagnostic(codes.NOT_FOUND, message, transfer.span, "download it first"))
    return resource_path(transfer, folder)


class TransferOptions:
    """The options of an import or export, each checked when it is read."""

    def __init__(self, transfer: Transfer) -> None:
        self._values: Mapping[str, OptionValue] = transfer.options
        self._span: Span | None = transfer.span

    def wrong(self, option: str, reason: str) -> DataError:
        """The error for an option whose value cannot be."""
        return DataError(Diagnostic(codes.BAD_OPTION, f"the option `{option}` {reason}", self._span))

    def flag(self, option: str, otherwise: bool) -> bool:
        """The option as a Boolean."""
        value = self._values.get(option, otherwise)
        if isinstance(value, str) and value in ("true", "false"):
            return value == "true"
        if not isinstance(value, bool):
            raise self.wrong(option, "is neither true nor false")
        return value

    def count(self, option: str) -> int | None:
        """The option as a number of rows."""
        value = self._values.get(option)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise self.wrong(option, "is not a number of rows")
        return value

    def text(self, option: str) -> str | None:
        """The option as a text."""
        value = self._values.get(option)
        return None if value is None else str(value)

    def character(self, option: str, otherwise: str) -> str:
        """The option as one character that takes one byte."""
        value = self.text(option) or otherwise
        value = "\t" if value == "\\t" else value
        if len(value.encode()) != 1 or value in '"\r\n':
            raise self.wrong(option, "is not one ASCII character")
        return value

    def compressed(self, path: Path | None) -> bool:
        """Whether the file is compressed, by the option or else by the extension."""
        value = self._values.get("compression")
        if value is None:
            return path is not None and is_compressed(path)
        if value not in ("gzip", "none"):
            raise self.wrong("compression", 'is neither "gzip" nor "none"')
        return value == "gzip"


def _header(options: TransferOptions) -> Header:
    if options.flag("header", False):
        return Header.NAMES
    return Header.IGNORED if options.flag("ignore_headers", False) else Header.NONE


def _not_readable(file: InputFile, error: OSError) -> DataError:
    assert file.path is not None
    if not isinstance(error, FileNotFoundError):
        message = f"`{file.shown}` cannot be read: {error.strerror}"
        return DataError(Diagnostic(codes.NOT_FOUND, message, place=file.shown))
    folder = file.path.parent
    names = [child.name for child in folder.iterdir()] if folder.is_dir() else []
    return DataError(
        Diagnostic(
            codes.NOT_FOUND,
            f"no such file: `{file.shown}`",
            place=file.shown,
            help=suggest(file.path.name, names),
        )
    )


# ---- sources of facts

ON_SPARK: Final = ("jdbc", "table", "frame")  # sources, and sinks, that only Spark has
VERSIONED: Final = ("delta", "iceberg")  # tables of others, with versions of their own


@dataclass(frozen=True)
class FactSource:
    """Where the facts of a predicate come from: files, a table, a query, or a DataFrame.

    `path` is a file, a folder, a pattern, or several of them, with or without a scheme. `columns` names the
    columns of the data that hold the predicate's, in its order, or by the names of its columns; None stands
    for columns that are found by their order. `filter`
    has literals of the rule language over the predicate's columns as variables. `options` are passed to
    Spark's reader.
    """

    predicate: str
    path: str | tuple[str, ...] = ()
    format: str | None = None
    columns: tuple[str | None, ...] | Mapping[str, str] | None = None
    types: tuple[ColumnType | str, ...] | None = None
    filter: str | None = None
    header: bool | Header | None = None
    delimiter: str | None = None
    quoting: bool = True
    base: str | None = None
    table: str | None = None
    query: str | None = None
    url: str | None = None
    driver: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    frame: Any = None  # a DataFrame
    time: str | tuple[str, ...] = ()
    nulls: str | tuple[str, ...] = ()
    limit: int | None = None
    version: int | None = None  # of a Delta table, or the snapshot of an Iceberg table
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # of an object store
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def times(self) -> tuple[str, ...]:
        """What the columns behind the arguments say of when a fact holds: `interval`, `start`, `end`…"""
        return (self.time,) if isinstance(self.time, str) else tuple(self.time)

    @property
    def first_row(self) -> Header:
        """What the first row of delimited files is; columns that are named are those of a header."""
        if isinstance(self.header, Header):
            return self.header
        given = self.header if self.header is not None else (True if self.columns else None)
        return {None: Header.DETECTED, True: Header.NAMES, False: Header.NONE}[given]

    def missing(self, arity: int) -> tuple[Nulls, ...]:
        """What is done about missing values, by column."""
        return tuple(map(Nulls, (self.nulls,) * arity if isinstance(self.nulls, str) else self.nulls))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, as they are written."""
        return (self.path,) if isinstance(self.path, str) else tuple(self.path)

    @property
    def kind(self) -> str:
        """`file`, `versioned`, `jdbc`, `table` or `frame`."""
        if self.frame is not None:
            return "frame"
        if self.format in VERSIONED:
            return "versioned"
        return self.format if self.format in ON_SPARK else "file"

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.paths[0] if self.paths else self.table or self.url or "<DataFrame>"

    def wrong(self, code: str, message: str, help: str | None = None) -> DataError:
        """Return the error for a source that cannot be read."""
        return DataError(Diagnostic(code, message, self.span, help, place=self.shown))
