"""Sources as files and columns: which files, which columns, and texts as values of a type, in Spark SQL."""

from __future__ import annotations

import glob
import gzip
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types

from tidelog.data.typed_columns import PRECISION, SCALE
from tidelog.errors import DataError, Diagnostic, codes, counted, suggest
from tidelog.io.data_file import EXTENSIONS, FactSource, InputFile, canonical_format
from tidelog.logic.program import Predicate, Program, Transfer
from tidelog.logic.signatures import TYPES
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.spark.shipping import is_on_connect

# Texts as values of a column's type, in Spark SQL: exactly the texts that tidelog's own readers accept.
#
# Spark's casts accept more (`0x1p3`, `1d`, `2020-1-1`, digits of other scripts) and round where digits do not
# fit. So a text is cast directly only if it has a plain form, which costs two comparisons, and otherwise by
# its parts, from a regular expression. `tests/spark/test_conversions.py` compares both over all types.
#
# A Spark type holds less than a type of tidelog in four cases, and such a text is not converted: integers
# beyond 64 bits, decimals beyond `decimal(38, 18)` where no size is declared, years beyond Spark's, and in a
# column of `dateTime` moments without a time zone. Moments with a time zone are in UTC.

STRING: Final = spark_types.StringType()
LONG: Final = spark_types.LongType()
DOUBLE: Final = spark_types.DoubleType()
DATE: Final = spark_types.DateType()
TIMESTAMP: Final = spark_types.TimestampType()
LOCAL_TIMESTAMP: Final = spark_types.TimestampNTZType()

# White space as for Python's `str.strip`; Java's `\s` is another set.
_SPACE: Final = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*+"
_SPACE_OF_IRIS: Final = r"[ \t\n\r\f\x0b]*"
_NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_YEAR: Final = r"(?!-0000)-?(?:[1-9][0-9]{4,6}|[0-9]{4})-[0-9]{2}-[0-9]{2}"
_ZONE: Final = r"Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00)"
_NOT_IN_IRIS: Final = r"[\x00-\x20<>\"{}|^`\\]"
_QUOTED: Final = '"[^"]*+(?:""[^"]*+)*+'  # without the closing quote
_DAY: Final = 86_400_000_000  # microseconds


def spark_type_of(of: ColumnType) -> spark_types.DataType:
    """Return the type of a column of Spark for values of a declared type."""
    if of.base is ColumnType.DECIMAL:
        return spark_types.DecimalType(*(of.size or (PRECISION, SCALE)))
    return _SPARK_TYPES.get(of, STRING)


_SPARK_TYPES: Final = {
    ColumnType.INTEGER: LONG,
    ColumnType.DOUBLE: DOUBLE,
    ColumnType.BOOLEAN: spark_types.BooleanType(),
    ColumnType.DATE: DATE,
    ColumnType.DATETIME: TIMESTAMP,
    ColumnType.LOCAL_DATETIME: LOCAL_TIMESTAMP,
}


def converted(text: Column, of: ColumnType) -> Column:
    """Return the value of a text in a column of this type, NULL if it has none.

    Texts of `any` and of exact terms are not converted: tasks read them.
    """
    if of.base is ColumnType.DECIMAL:
        return _decimal(text, *(of.size or (PRECISION, SCALE)))
    convert = _CONVERSIONS.get(of)
    return text if convert is None else convert(text)


def stripped(text: Column) -> Column:
    """Return a text without the white space around it, like Python's `str.strip`."""
    return F.regexp_extract(text, rf"(?s)^{_SPACE}(.*?){_SPACE}\z", 1)


def cells_of(line: Column, delimiter: str, has_quotes: bool) -> Column:
    """Return the fields of a line that is a record, as `io.delimited` splits them."""
    plain = F.split(line, _escaped(delimiter), -1)
    if not has_quotes:
        return plain
    quoted = F.transform(_raw_cells(line, delimiter), _unquoted)
    return F.when(line.contains('"'), quoted).otherwise(plain)


def is_open(line: Column, delimiter: str) -> Column:
    """Return whether the last field of a line begins with a quote that is not closed."""
    return F.element_at(_raw_cells(line, delimiter), -1).rlike(rf"^{_QUOTED}\z")


def _raw_cells(line: Column, delimiter: str) -> Column:
    escaped_delimiter = _escaped(delimiter)
    # With a delimiter also before the first field, no match is empty.
    field = F.lit(f'{escaped_delimiter}({_QUOTED}"?[^{escaped_delimiter}]*+|[^{escaped_delimiter}]*+)')
    return F.regexp_extract_all(F.concat(F.lit(delimiter), line), field, F.lit(1))


def _unquoted(cell: Column) -> Column:
    form = r'(?s)^"([^"]*+(?:""[^"]*+)*+)"?(.*)\z'
    inside = F.replace(F.regexp_extract(cell, form, 1), F.lit('""'), F.lit('"'))
    return F.when(cell.startswith('"'), F.concat(inside, F.regexp_extract(cell, form, 2))).otherwise(cell)


def _escaped(delimiter: str) -> str:
    return delimiter if delimiter.isalnum() or delimiter in "\t ," else f"\\{delimiter}"


def is_blank(text: Column) -> Column:
    """Return whether a text has nothing but white space."""
    return (text == "") | text.rlike(rf"^{_SPACE}\z")


def _within(text: Column, form: str, group: int = 1) -> Column:
    """Return a group of a text that matches this pattern, ignoring white space around it, else empty."""
    return F.regexp_extract(text, rf"^{_SPACE}{form}{_SPACE}\z", group)


def _begins_as_number(text: Column) -> Column:
    """Return whether a text begins with a sign, a point or a digit (or `,` or `/`, which no cast takes)."""
    return (text >= "+") & (text < ":")


def _is_digit(character: Column) -> Column:
    return (character >= "0") & (character < ":")


def _at(text: Column, place: int) -> Column:
    return F.substring(text, place, 1)


def _integer(text: Column) -> Column:
    # A cast only removes white space and control characters at both ends.
    is_plain = _begins_as_number(text) & _is_digit(_at(text, -1))
    return F.when(is_plain, text.try_cast(LONG)).otherwise(_within(text, "([+-]?[0-9]+)").try_cast(LONG))


def _double(text: Column) -> Column:
    is_plain = _begins_as_number(text) & _is_digit(_at(text, -1)) & ~text.contains("x") & ~text.contains("X")
    normalised = _within(text, f"({_NUMBER}(?:[eE][+-]?[0-9]+)?|[+-]?INF)")
    infinite = F.when(normalised == "-INF", float("-inf")).when(normalised.endswith("INF"), float("inf"))
    return F.when(is_plain, _finite(text)).otherwise(F.coalesce(infinite, _finite(normalised)))


def _finite(text: Column) -> Column:
    """Return a number that is written with digits; NULL if it exceeds doubles, where Java reads infinity."""
    number = text.try_cast(DOUBLE) + F.lit(0.0)  # -0.0 becomes 0.0
    return F.when(F.abs(number) < float("inf"), number)


def _decimal(text: Column, digits: int, scale: int) -> Column:
    of = spark_types.DecimalType(digits, scale)
    point, length = F.instr(text, "."), F.length(text)
    is_plain = (
        _begins_as_number(text)
        & _is_digit(_at(text, -1))
        & ((point == 0) | (length - point <= scale))  # a cast would round
        & (length == F.octet_length(text))  # Java takes digits of all scripts
        & ~text.contains("e")
        & ~text.contains("E")
    )
    form = r"([+-]?)(?=[0-9.]*[0-9])([0-9]*)(?:\.([0-9]*?)0*)?"
    sign, integer, fraction = (_within(text, form, group) for group in (1, 2, 3))
    normalised = F.concat(sign, F.lit("0"), integer, F.lit("."), fraction, F.lit("0"))
    is_number = _within(text, f"({_NUMBER})") != ""
    careful = F.when(is_number & (F.length(fraction) <= scale), normalised.try_cast(of))
    return F.when(is_plain, text.try_cast(of)).otherwise(careful)


def _boolean(text: Column) -> Column:
    word = F.lower(_within(text, "([A-Za-z]+|[01])"))
    return (
        F.when(text == "true", True)
        .when(text == "false", False)
        .when(word.isin("true", "1"), True)
        .when(word.isin("false", "0"), False)
    )


def _date(text: Column) -> Column:
    is_plain = (F.length(text) == 10) & _has_dashes(text) & _is_digit(_at(text, 1)) & _is_digit(_at(text, -1))
    return F.when(is_plain, text.try_cast(DATE)).otherwise(_within(text, f"({_YEAR})").try_cast(DATE))


def _has_dashes(text: Column) -> Column:
    return (_at(text, 5) == "-") & (_at(text, 8) == "-")


def _has_clock(text: Column) -> Column:
    return (_at(text, 11) == "T") & (_at(text, 14) == ":") & (_at(text, 17) == ":") & _is_digit(_at(text, 1))


def _moment(text: Column) -> Column:
    is_plain = (F.length(text) == 20) & text.endswith("Z") & _has_dashes(text) & _has_clock(text)
    normalised, is_midnight = _normalised_moment(text, _ZONE)
    moment = normalised.try_cast(TIMESTAMP)
    next_day = F.timestamp_micros(F.try_add(F.unix_micros(moment), F.lit(_DAY)))
    careful = F.when(is_midnight, next_day).otherwise(moment)
    return F.when(is_plain & ~text.contains("T24"), text.try_cast(TIMESTAMP)).otherwise(careful)


def _local_moment(text: Column) -> Column:
    is_plain = (F.length(text) == 19) & _is_digit(_at(text, -1)) & _has_dashes(text) & _has_clock(text)
    normalised, is_midnight = _normalised_moment(text, "")
    moment = normalised.try_cast(LOCAL_TIMESTAMP)
    careful = F.when(is_midnight, moment + F.expr("INTERVAL '1' DAY")).otherwise(moment)
    return F.when(is_plain & ~text.contains("T24"), text.try_cast(LOCAL_TIMESTAMP)).otherwise(careful)


def _normalised_moment(text: Column, zone: str) -> tuple[Column, Column]:
    """Return a moment in the form for a cast, and whether it is 24:00:00, which is the next midnight."""
    form = rf"({_YEAR})T([0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})(?:\.(?=[0-9])([0-9]{{0,6}}?)0*)?({zone})"
    day, clock, fraction, offset = (_within(text, form, group) for group in (1, 2, 3, 4))
    is_midnight = (clock == "24:00:00") & (fraction == "")
    time = F.when(is_midnight, "00:00:00").otherwise(clock)
    return F.concat(day, F.lit("T"), time, F.lit("."), F.rpad(fraction, 6, "0"), offset), is_midnight


def _iri(text: Column) -> Column:
    is_plain = ~text.rlike(_NOT_IN_IRIS) & ~text.startswith("_:")
    bare = F.regexp_extract(text, rf"(?s)^{_SPACE_OF_IRIS}(.*?){_SPACE_OF_IRIS}\z", 1)
    inside = F.when(
        bare.startswith("<") & bare.endswith(">"), bare.substr(F.lit(2), F.length(bare) - F.lit(2))
    ).otherwise(bare)
    careful = F.when(~inside.rlike(_NOT_IN_IRIS) & (inside != "_:"), inside)
    return F.when(is_plain, text).otherwise(careful)


_CONVERSIONS: Final[dict[ColumnType, Callable[[Column], Column]]] = {
    ColumnType.INTEGER: _integer,
    ColumnType.DOUBLE: _double,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.DATE: _date,
    ColumnType.DATETIME: _moment,
    ColumnType.LOCAL_DATETIME: _local_moment,
    ColumnType.IRI: _iri,
}


# Files are listed by this process if it can access them, else by Spark, which supports more file systems.
# Rows are only read of delimited text: records of several lines decide whether Spark may split a file.

DELIMITED: Final = ("csv", "tsv", "dsv")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)")
_PARTITION: Final = re.compile(r"([^/=]+)=([^/]*)")
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate")
_EXTENSIONS: Final = {
    **{extension: name for name, known in EXTENSIONS.items() for extension in known},
    ".orc": "orc",
    ".avro": "avro",
    ".txt": "text",
}
_NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_LOOKED_AT_HERE: Final = 1 << 28  # most bytes that this process reads itself, instead of executors
_MARK: Final = b"\xef\xbb\xbf"


def source_of(file: InputFile, predicate: Predicate, transfer: Transfer | None = None) -> FactSource:
    """Return the source for a file of this machine; raise `DataError` if Spark cannot read it.

    `transfer` is the import that names the file, if any.
    """
    span = None if transfer is None else transfer.span
    time = () if transfer is None else transfer.options.get("time", ())
    assert isinstance(time, tuple), "checked by the resolver"

    def wrong(message: str, help: str) -> DataError:
        return DataError(Diagnostic(codes.SPARK_FORMAT, message, span, help, place=file.shown))

    if file.path is None:
        raise wrong("Spark does not read standard input", "write it to a file first")
    if file.compressed != file.path.name.lower().endswith(".gz"):
        message = "Spark decompresses the files whose names end with .gz, and no others"
        raise wrong(message, "rename the file, or read it without Spark")
    is_named = bool(file.names) or not predicate.declared
    width = predicate.arity + len(time)
    return FactSource(
        predicate.written,
        file.shown,
        file.format,
        columns=None if is_named else (None,) * width,
        types=None if file.types is None else file.types[: len(file.types) - len(time)],
        header=file.header,
        delimiter=file.delimiter,
        quoting=file.quoting,
        base=file.base,
        time=time,
        nulls=tuple(action.value for action in file.nulls),
        limit=file.limit,
        span=span,
    )


def predicate_of(source: FactSource, program: Program) -> Predicate:
    """Return the predicate that a source feeds; raise `DataError` if the program does not have it."""
    found = program.find(source.predicate)
    if found is not None:
        return found
    names = [predicate.written for predicate in program.predicates.values()]
    help = suggest(source.predicate, names) or f"it has {', '.join(names) or 'none'}"
    raise source.wrong(codes.NO_SUCH_PREDICATE, f"the program has no predicate `{source.predicate}`", help)


def types_of(source: FactSource, program: Program, predicate: Predicate) -> tuple[ColumnType, ...]:
    """Return the types of the columns of a source, including skipped ones."""
    declared = program.types_of(predicate)
    types = declared if source.types is None else tuple(map(_type, source.types))
    types_read = [kind for kind in types if kind is not ColumnType.SKIP]
    if len(types_read) != predicate.arity:
        width = counted(predicate.arity, "column")
        message = f"`{predicate.written}` has {width}, but {len(types_read)} are read for it"
        raise source.wrong(codes.WRONG_COLUMNS, message)
    for own, type_read in zip(declared, types_read, strict=True):
        if predicate.declared and own is not ColumnType.ANY and own is not type_read:
            message = (
                f"`{predicate.written}` is declared with {own.value} where the source has {type_read.value}"
            )
            raise source.wrong(codes.WRONG_COLUMNS, message)
    return types


def _type(kind: ColumnType | str) -> ColumnType:
    if isinstance(kind, ColumnType):
        return kind
    return ColumnType.SKIP if kind == "skip" else TYPES[kind]


def names_of(source: FactSource, predicate: Predicate) -> tuple[str | None, ...]:
    """Return the data's names of the predicate's columns, followed by those of times."""
    if source.columns is None:
        return (*predicate.columns, *source.times)
    names = (*predicate.names, *source.times)
    if isinstance(source.columns, tuple | list):
        if len(source.columns) != len(names):
            width = counted(len(names), "column")
            message = f"`{predicate.written}` has {width}, but {len(source.columns)} are named for it"
            raise source.wrong(codes.WRONG_COLUMNS, message)
        return tuple(source.columns)
    for name in source.columns:
        if name not in names:
            help = suggest(name, names) or f"it has {', '.join(names)}"
            raise source.wrong(codes.WRONG_COLUMNS, f"`{predicate.written}` has no column `{name}`", help)
    return tuple(source.columns.get(name, name) for name in names)


@dataclass(frozen=True)
class FoundFile:
    """A file of a source."""

    address: str  # as in `_metadata.file_path`
    path: str  # for Spark's readers
    local: Path | None  # for executors, if it is on a disk
    format: str | None  # by its extension
    shown: str  # its name in messages
    partitions: tuple[tuple[str, str], ...] = ()  # `country=DE` in its path: names, and values as texts
    is_open: bool = False  # whether this process can also read it

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed with gzip."""
        return self.path.lower().endswith(".gz")


def list_files(session: SparkSession, source: FactSource, folder: Path) -> tuple[list[FoundFile], str | None]:
    """Return the files of a source in the order of their paths, and the folder of their partitions, if any.

    Raise `DataError` if there are none.
    """
    files: list[FoundFile] = []
    bases = set()
    for pattern in source.paths:
        base, files_of_path = _listed(session, pattern, source, folder)
        bases.add(base)
        files += files_of_path
    unique = {file.address: file for file in files}
    has_partitions = any(file.partitions for file in unique.values())
    if has_partitions and len(bases) > 1:
        message = "partitions of several folders cannot be read as one source"
        raise source.wrong(codes.SPARK_FORMAT, message, "make each folder a source of its own")
    return list(unique.values()), unquote(bases.pop()) if has_partitions else None


def local_files(source: FactSource, folder: Path) -> list[FoundFile] | None:
    """Return the files of a source if all are on a disk of this machine; None if Spark has to list them."""
    files: list[FoundFile] = []
    for pattern in source.paths:
        local = _local(pattern, folder)
        if local is None:
            return None
        has_magic = glob.has_magic(pattern) and not local.exists()
        if not has_magic and not local.exists():
            return None
        files += _listed_here(local, has_magic, source)[1]
    return list({file.address: file for file in files}.values())


def _local(pattern: str, folder: Path) -> Path | None:
    scheme = _SCHEME.match(pattern)
    if scheme is not None and scheme[1] != "file":
        return None
    local = folder / re.sub(r"^file:/+", "/", pattern)
    return Path(os.path.normpath(local if local.is_absolute() else Path.cwd() / local))


def _listed(
    session: SparkSession, pattern: str, source: FactSource, folder: Path
) -> tuple[str, list[FoundFile]]:
    is_here = not is_on_connect(session) or "SPARK_LOCAL_REMOTE" in os.environ
    local = _local(pattern, folder)
    if is_here and local is not None:
        has_magic = glob.has_magic(pattern) and not local.exists()
        if has_magic or local.exists():
            return _listed_here(local, has_magic, source)
    path = pattern if local is None else f"file:{local}"
    reader = session.read.format("text").option("recursiveFileLookup", "true")
    try:
        addresses = reader.load(path).inputFiles()
    except AnalysisException as error:
        try:  # not a pattern, but a name with such characters
            addresses = reader.load(escaped(path)).inputFiles() if glob.has_magic(path) else []
        except AnalysisException:
            addresses = []
        if not addresses:
            raise _no_files(source, pattern, local, error) from None
    if not addresses:
        raise _no_files(source, pattern, local, None)
    listed = sorted(map(_normal, addresses))
    base = _base(path)
    if listed == [base]:  # a file, not a folder
        base = base.rpartition("/")[0]
    return base, [_source_file(address, base, is_here=False) for address in listed]


def _listed_here(path: Path, has_magic: bool, source: FactSource) -> tuple[str, list[FoundFile]]:
    roots = [path]
    if has_magic:
        roots = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
    base = _base(str(path)) if has_magic else address_of(str(path if path.is_dir() else path.parent))
    files = [file for root in roots for file in (sorted(_inside(root)) if root.is_dir() else [root])]
    if not files:
        raise _no_files(source, str(path), path, None)
    return base, [_source_file(address_of(str(file)), base, is_here=True) for file in files]


def _base(path: str) -> str:
    """Return the address of the folder before the first part of a path that matches many files."""
    parts = path.split("/")
    first = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return address_of("/".join(parts[:first]))


def _inside(folder: Path) -> Iterable[Path]:
    """Yield the files of a folder, recursively; as everywhere in Spark, `_x` and `.x` are hidden."""
    for child in folder.iterdir():
        if child.name.startswith(".") or (child.name.startswith("_") and "=" not in child.name):
            continue
        if child.is_dir():
            yield from _inside(child)
        elif child.is_file():
            yield child


def address_of(path: str) -> str:
    """Return the address of a path as in `_metadata.file_path`."""
    scheme = _SCHEME.match(path)
    if scheme is not None and scheme[1] != "file":
        return path
    return "file:" + quote(re.sub(r"^file:/+", "/", path), safe="/=,;:@&+$!*'()~")


def _normal(address: str) -> str:
    return re.sub(r"^file:/+", "file:/", address)


def _source_file(address: str, base: str, is_here: bool) -> FoundFile:
    path = unquote(address)
    local = Path(path.removeprefix("file:")) if path.startswith("file:/") else None
    name = path.rpartition("/")[2].lower()
    bare = next((name.removesuffix(suffix) for suffix in _COMPRESSED if name.endswith(suffix)), name)
    format = next((of for extension, of in _EXTENSIONS.items() if bare.endswith(extension)), None)
    inside = address.removeprefix(base).strip("/").split("/")[:-1]
    pairs = [pair.groups() for part in inside if (pair := _PARTITION.fullmatch(unquote(part)))]
    partitions = tuple((name, "" if value == _NULL_PARTITION else unquote(value)) for name, value in pairs)
    display_path = path
    if local is not None:
        relative = os.path.relpath(local)
        display_path = str(local) if relative.startswith(os.pardir) else relative
    can_open = is_here and (bare == name or name.endswith(".gz"))
    return FoundFile(address, path, local, format, display_path, partitions, can_open)


def _no_files(source: FactSource, pattern: str, local: Path | None, error: Exception | None) -> DataError:
    folder = local.parent if local is not None else None
    names = [child.name for child in folder.iterdir()] if folder is not None and folder.is_dir() else []
    help = suggest(local.name, names) if local is not None else None
    if error is None or "PATH_NOT_FOUND" in str(error):
        return source.wrong(codes.SOURCE_WITHOUT_FILES, f"no such file: `{pattern}`", help)
    reason = str(error).strip().splitlines()[0]
    return source.wrong(codes.SOURCE_WITHOUT_FILES, f"`{pattern}` cannot be read: {reason}")


def format_of(source: FactSource, files: Sequence[FoundFile]) -> str:
    """Return the format of a source's files; raise `DataError` if it is unknown, or if there are several."""
    if source.format is not None:
        return canonical_format(source.format, Path(files[0].path) if source.format == "rdf" else None)
    formats = {file.format for file in files}
    if len(formats) == 1 and None not in formats:
        return str(formats.pop())
    if None in formats:
        unknown = next(file for file in files if file.format is None)
        message = f"the format of `{unknown.shown}` is not known by its extension"
    else:
        message = f"`{source.shown}` has files of several formats: {', '.join(sorted(map(str, formats)))}"
    raise source.wrong(codes.SPARK_FORMAT, message, "give a `format`, or name the files by a pattern")


def escaped(path: str) -> str:
    """Return a path in which no character is a wildcard."""
    return re.sub(r"[{}\[\]*?\\]", r"\\\g<0>", path)


@dataclass(frozen=True)
class FirstLook:
    """The first line of a delimited file that is not empty, and whether all lines are records."""

    first: bytes | None  # None if there is none
    has_quotes: bool = False
    is_whole: bool = False  # records may have several lines
    repeats: bool = False  # the first line occurs again; False if unknown


def look(
    session: SparkSession, files: Sequence[FoundFile], delimiter: str, quoting: bool
) -> dict[str, FirstLook]:
    """Return a `FirstLook` at each delimited file, by address; Spark looks at large ones."""
    size = sum(file.local.stat().st_size for file in files if file.is_open and file.local is not None)
    if all(file.is_open for file in files) and size <= _LOOKED_AT_HERE:
        return {file.address: _look_here(file, delimiter, quoting) for file in files}
    return _look_on_spark(session, files, delimiter, quoting)


def _look_here(file: FoundFile, delimiter: str, quoting: bool) -> FirstLook:
    assert file.local is not None
    with gzip.open(file.local) if file.is_compressed else file.local.open("rb") as stream:
        data = stream.read().removeprefix(_MARK)
    first = re.search(rb"[^\r\n]+", data)
    if first is None:
        return FirstLook(None)
    repetition = re.search(rb"[\r\n]" + re.escape(first[0]) + rb"(?=[\r\n]|\Z)", data[first.end() :])
    has_quotes = quoting and b'"' in data
    return FirstLook(
        first[0], has_quotes, has_quotes and _may_span_lines(data, delimiter), repetition is not None
    )


def _may_span_lines(data: bytes, delimiter: str) -> bool:
    """Whether a quoted field may have several lines: a quote has no counterpart in its line."""
    text = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(text == ord('"'))
    if len(quotes) % 2:
        return True
    opening, closing = quotes[::2], quotes[1::2]
    before = text[opening[opening > 0] - 1]
    begins = np.isin(before, np.frombuffer(f'{delimiter}"\r\n'.encode(), np.uint8))
    ends = np.flatnonzero((text == ord("\n")) | (text == ord("\r")))
    goes_on = np.searchsorted(ends, opening) != np.searchsorted(ends, closing)
    return not begins.all() or bool(goes_on.any())


def _look_on_spark(
    session: SparkSession, files: Sequence[FoundFile], delimiter: str, quoting: bool
) -> dict[str, FirstLook]:
    """Return the same by a job, which returns a row for each file."""
    value = F.col("value")
    lines = session.read.text([escaped(file.path) for file in files]).where(value != "")
    lines = lines.select(
        F.col("_metadata.file_path").alias("file"),
        F.struct(F.col("_metadata.file_block_start"), F.monotonically_increasing_id()).alias("at"),
        value,
    )
    has_quote = value.contains('"') if quoting else F.lit(False)
    summaries = lines.groupBy("file").agg(
        F.min_by(value.cast("binary"), "at").alias("first"),
        F.bool_or(has_quote).alias("has_quotes"),
        F.bool_or(has_quote & is_open(value, delimiter)).alias("is_whole"),
    )
    rows = {_normal(row["file"]): row for row in summaries.collect()}
    return {
        file.address: FirstLook(bytes(row["first"]), row["has_quotes"], row["is_whole"])
        if (row := rows.get(file.address)) is not None
        else FirstLook(None)
        for file in files
    }
