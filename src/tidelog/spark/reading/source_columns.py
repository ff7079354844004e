"""Sources as files and columns: which files, which columns, and texts as values of a type, in Spark SQL."""

from __future__ import annotations

import glob
import gzip
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
from tidelog.spark.shipping import is_on_connect

# Texts as values of a column's type, in Spark SQL: exactly the texts that tidelog's own readers accept.
#
# Spark's casts accept more (`0x1p3`, `1d`, `2020-1-1`, digits of other scripts) and round where digits do not
# fit. So a text is cast as it is only if it is plainly written, which costs two comparisons, and otherwise by
# a regular expression that takes it apart. `tests/spark/test_conversions.py` compares both over all types.
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

# White space as Python's `str.strip` sees it; Java's `\s` is another set.
_SPACE: Final = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*+"
_SPACE_OF_IRIS: Final = r"[ \t\n\r\f\x0b]*"
_NUMBER: Final = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_YEAR: Final = r"(?!-0000)-?(?:[1-9][0-9]{4,6}|[0-9]{4})-[0-9]{2}-[0-9]{2}"
_ZONE: Final = r"Z|[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00)"
_NOT_IN_IRIS: Final = r"[\x00-\x20<>\"{}|^`\\]"
_QUOTED: Final = '"[^"]*+(?:""[^"]*+)*+'  # with all but the quote that closes it
_DAY: Final = 86_400_000_000  # microseconds


def spark_type_of(of: ColumnType) -> spark_types.DataType:
    """Return the type of a column of Spark in which values of a declared type lie."""
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

    Texts of `any` and of exact terms stay as they are: tasks read them.
    """
    if of.base is ColumnType.DECIMAL:
        return _decimal(text, *(of.size or (PRECISION, SCALE)))
    convert = _CONVERSIONS.get(of)
    return text if convert is None else convert(text)


def stripped(text: Column) -> Column:
    """Return a text without the white space around it, as Python's `str.strip` returns it."""
    return F.regexp_extract(text, rf"(?s)^{_SPACE}(.*?){_SPACE}\z", 1)


def cells_of(line: Column, delimiter: str, has_quotes: bool) -> Column:
    """Return the fields of a line that is a record, as `io.delimited` takes them apart."""
    plain = F.split(line, _escaped(delimiter), -1)
    if not has_quotes:
        return plain
    quoted = F.transform(_raw_cells(line, delimiter), _unquoted)
    return F.when(line.contains('"'), quoted).otherwise(plain)


def is_open(line: Column, delimiter: str) -> Column:
    """Return whether the last field of a line begins with a quote, and has none that closes it."""
    return F.element_at(_raw_cells(line, delimiter), -1).rlike(rf"^{_QUOTED}\z")


def _raw_cells(line: Column, delimiter: str) -> Column:
    one = _escaped(delimiter)
    # With a delimiter before the first field, too, no match is empty.
    field = F.lit(f'{one}({_QUOTED}"?[^{one}]*+|[^{one}]*+)')
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
    """Return a part of a text that has this form, white space around it aside; empty if it has not."""
    return F.regexp_extract(text, rf"^{_SPACE}{form}{_SPACE}\z", group)


def _begins_as_number(text: Column) -> Column:
    """Return whether a text begins with a sign, a point or a digit (or `,` or `/`, which no cast takes)."""
    return (text >= "+") & (text < ":")


def _is_digit(character: Column) -> Column:
    return (character >= "0") & (character < ":")


def _at(text: Column, place: int) -> Column:
    return F.substring(text, place, 1)


def _integer(text: Column) -> Column:
    # A cast takes nothing away but white space and control characters at both ends.
    is_plain = _begins_as_number(text) & _is_digit(_at(text, -1))
    return F.when(is_plain, text.try_cast(LONG)).otherwise(_within(text, "([+-]?[0-9]+)").try_cast(LONG))


def _double(text: Column) -> Column:
    is_plain = _begins_as_number(text) & _is_digit(_at(text, -1)) & ~text.contains("x") & ~text.contains("X")
    written = _within(text, f"({_NUMBER}(?:[eE][+-]?[0-9]+)?|[+-]?INF)")
    infinite = F.when(written == "-INF", float("-inf")).when(written.endswith("INF"), float("inf"))
    return F.when(is_plain, _finite(text)).otherwise(F.coalesce(infinite, _finite(written)))


def _finite(text: Column) -> Column:
    """Return a number that is written with digits; beyond what doubles hold, Java reads an infinity."""
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
    sign, whole, fraction = (_within(text, form, group) for group in (1, 2, 3))
    written = F.concat(sign, F.lit("0"), whole, F.lit("."), fraction, F.lit("0"))
    is_number = _within(text, f"({_NUMBER})") != ""
    careful = F.when(is_number & (F.length(fraction) <= scale), written.try_cast(of))
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
    written, is_midnight = _written_moment(text, _ZONE)
    found = written.try_cast(TIMESTAMP)
    next_day = F.timestamp_micros(F.try_add(F.unix_micros(found), F.lit(_DAY)))
    careful = F.when(is_midnight, next_day).otherwise(found)
    return F.when(is_plain & ~text.contains("T24"), text.try_cast(TIMESTAMP)).otherwise(careful)


def _local_moment(text: Column) -> Column:
    is_plain = (F.length(text) == 19) & _is_digit(_at(text, -1)) & _has_dashes(text) & _has_clock(text)
    written, is_midnight = _written_moment(text, "")
    found = written.try_cast(LOCAL_TIMESTAMP)
    careful = F.when(is_midnight, found + F.expr("INTERVAL '1' DAY")).otherwise(found)
    return F.when(is_plain & ~text.contains("T24"), text.try_cast(LOCAL_TIMESTAMP)).otherwise(careful)


def _written_moment(text: Column, zone: str) -> tuple[Column, Column]:
    """Return a moment as a cast takes it, and whether it is 24:00:00, which is the next day's midnight."""
    form = rf"({_YEAR})T([0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})(?:\.(?=[0-9])([0-9]{{0,6}}?)0*)?({zone})"
    day, clock, fraction, behind = (_within(text, form, group) for group in (1, 2, 3, 4))
    is_midnight = (clock == "24:00:00") & (fraction == "")
    shown = F.when(is_midnight, "00:00:00").otherwise(clock)
    return F.concat(day, F.lit("T"), shown, F.lit("."), F.rpad(fraction, 6, "0"), behind), is_midnight


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


# Files are listed by this process where it has them, else by Spark, which knows more file systems. No row is
# read, but for delimited text: a record that goes over several lines can only be seen by looking, and decides
# whether Spark may split the file.

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
_LOOKED_AT_HERE: Final = 1 << 28  # bytes that this process reads itself; executors read more
_MARK: Final = b"\xef\xbb\xbf"


def source_of(file: InputFile, predicate: Predicate, transfer: Transfer | None = None) -> FactSource:
    """Return the source that is a file of this machine; raise `DataError` if Spark does not read such.

    With a transfer, that is the import which names the file.
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
        nulls=tuple(each.value for each in file.nulls),
        limit=file.limit,
        span=span,
    )


def predicate_of(source: FactSource, program: Program) -> Predicate:
    """Return the predicate that a source feeds; raise `DataError` if the program does not have it."""
    found = program.find(source.predicate)
    if found is not None:
        return found
    known = [predicate.written for predicate in program.predicates.values()]
    help = suggest(source.predicate, known) or f"it has {', '.join(known) or 'none'}"
    raise source.wrong(codes.NO_SUCH_PREDICATE, f"the program has no predicate `{source.predicate}`", help)


def types_of(source: FactSource, program: Program, predicate: Predicate) -> tuple[ColumnType, ...]:
    """Return the types by which the columns of a source are read, skipped ones included."""
    declared = program.types_of(predicate)
    types = declared if source.types is None else tuple(map(_type, source.types))
    wanted = [kind for kind in types if kind is not ColumnType.SKIP]
    if len(wanted) != predicate.arity:
        width = counted(predicate.arity, "column")
        message = f"`{predicate.written}` has {width}, but {len(wanted)} are read for it"
        raise source.wrong(codes.WRONG_COLUMNS, message)
    for own, given in zip(declared, wanted, strict=True):
        if predicate.declared and own is not ColumnType.ANY and own is not given:
            message = f"`{predicate.written}` is declared with {own.value} where the source has {given.value}"
            raise source.wrong(codes.WRONG_COLUMNS, message)
    return types


def _type(kind: ColumnType | str) -> ColumnType:
    if isinstance(kind, ColumnType):
        return kind
    return ColumnType.SKIP if kind == "skip" else TYPES[kind]


def names_of(source: FactSource, predicate: Predicate) -> tuple[str | None, ...]:
    """Return what the data calls the predicate's columns, and behind them those that say when."""
    if source.columns is None:
        return (*predicate.columns, *source.times)
    known = (*predicate.names, *source.times)
    if isinstance(source.columns, tuple | list):
        if len(source.columns) != len(known):
            width = counted(len(known), "column")
            message = f"`{predicate.written}` has {width}, but {len(source.columns)} are named for it"
            raise source.wrong(codes.WRONG_COLUMNS, message)
        return tuple(source.columns)
    for name in source.columns:
        if name not in known:
            help = suggest(name, known) or f"it has {', '.join(known)}"
            raise source.wrong(codes.WRONG_COLUMNS, f"`{predicate.written}` has no column `{name}`", help)
    return tuple(source.columns.get(name, name) for name in known)


@dataclass(frozen=True)
class FoundFile:
    """A file of a source."""

    address: str  # as `_metadata.file_path` has it
    path: str  # as Spark's readers take it
    local: Path | None  # where executors find it on a disk
    format: str | None  # by its extension
    shown: str  # what messages call it
    partitions: tuple[tuple[str, str], ...] = ()  # `country=DE` in its path: names, and values as texts
    is_open: bool = False  # whether this process can read it, too

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed with gzip."""
        return self.path.lower().endswith(".gz")


def found_files(
    session: SparkSession, source: FactSource, folder: Path
) -> tuple[list[FoundFile], str | None]:
    """Return the files of a source in the order of their paths, and the folder whose partitions they are.

    Raise `DataError` if there are none.
    """
    listed: list[FoundFile] = []
    bases = set()
    for written in source.paths:
        base, some = _listed(session, written, source, folder)
        bases.add(base)
        listed += some
    unique = {each.address: each for each in listed}
    has_partitions = any(each.partitions for each in unique.values())
    if has_partitions and len(bases) > 1:
        message = "partitions of several folders cannot be read as one source"
        raise source.wrong(codes.SPARK_FORMAT, message, "make each folder a source of its own")
    return list(unique.values()), unquote(bases.pop()) if has_partitions else None


def local_files(source: FactSource, folder: Path) -> list[FoundFile] | None:
    """Return the files of a source if all lie on a disk of this machine; None if Spark has to look."""
    found: list[FoundFile] = []
    for written in source.paths:
        local = _local(written, folder)
        if local is None:
            return None
        has_magic = glob.has_magic(written) and not local.exists()
        if not has_magic and not local.exists():
            return None
        found += _listed_here(local, has_magic, source)[1]
    return list({each.address: each for each in found}.values())


def _local(written: str, folder: Path) -> Path | None:
    scheme = _SCHEME.match(written)
    if scheme is not None and scheme[1] != "file":
        return None
    local = folder / re.sub(r"^file:/+", "/", written)
    return Path(os.path.normpath(local if local.is_absolute() else Path.cwd() / local))


def _listed(
    session: SparkSession, written: str, source: FactSource, folder: Path
) -> tuple[str, list[FoundFile]]:
    is_here = not is_on_connect(session) or "SPARK_LOCAL_REMOTE" in os.environ
    local = _local(written, folder)
    if is_here and local is not None:
        has_magic = glob.has_magic(written) and not local.exists()
        if has_magic or local.exists():
            return _listed_here(local, has_magic, source)
    path = written if local is None else f"file:{local}"
    reader = session.read.format("text").option("recursiveFileLookup", "true")
    try:
        addresses = reader.load(path).inputFiles()
    except AnalysisException as error:
        try:  # no pattern, but a name with such characters in it
            addresses = reader.load(escaped(path)).inputFiles() if glob.has_magic(path) else []
        except AnalysisException:
            addresses = []
        if not addresses:
            raise _no_files(source, written, local, error) from None
    if not addresses:
        raise _no_files(source, written, local, None)
    found = sorted(map(_normal, addresses))
    base = _base(path)
    if found == [base]:  # a file, not a folder
        base = base.rpartition("/")[0]
    return base, [_found(address, base, is_here=False) for address in found]


def _listed_here(path: Path, has_magic: bool, source: FactSource) -> tuple[str, list[FoundFile]]:
    roots = [path]
    if has_magic:
        roots = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
    base = _base(str(path)) if has_magic else address_of(str(path if path.is_dir() else path.parent))
    files = [file for root in roots for file in (sorted(_inside(root)) if root.is_dir() else [root])]
    if not files:
        raise _no_files(source, str(path), path, None)
    return base, [_found(address_of(str(file)), base, is_here=True) for file in files]


def _base(path: str) -> str:
    """Return the address of the folder before the first part of a path that matches many files."""
    parts = path.split("/")
    first = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return address_of("/".join(parts[:first]))


def _inside(folder: Path) -> Iterable[Path]:
    """Yield the files of a folder and of those in it; as everywhere in Spark, `_x` and `.x` are hidden."""
    for child in folder.iterdir():
        if child.name.startswith(".") or (child.name.startswith("_") and "=" not in child.name):
            continue
        if child.is_dir():
            yield from _inside(child)
        elif child.is_file():
            yield child


def address_of(path: str) -> str:
    """Return the address of a path as `_metadata.file_path` has it."""
    found = _SCHEME.match(path)
    if found is not None and found[1] != "file":
        return path
    return "file:" + quote(re.sub(r"^file:/+", "/", path), safe="/=,;:@&+$!*'()~")


def _normal(address: str) -> str:
    return re.sub(r"^file:/+", "file:/", address)


def _found(address: str, base: str, is_here: bool) -> FoundFile:
    path = unquote(address)
    local = Path(path.removeprefix("file:")) if path.startswith("file:/") else None
    name = path.rpartition("/")[2].lower()
    bare = next((name.removesuffix(each) for each in _COMPRESSED if name.endswith(each)), name)
    format = next((of for extension, of in _EXTENSIONS.items() if bare.endswith(extension)), None)
    inside = address.removeprefix(base).strip("/").split("/")[:-1]
    pairs = [found.groups() for part in inside if (found := _PARTITION.fullmatch(unquote(part)))]
    partitions = tuple((name, "" if value == _NULL_PARTITION else unquote(value)) for name, value in pairs)
    shown = path
    if local is not None:
        relative = os.path.relpath(local)
        shown = str(local) if relative.startswith(os.pardir) else relative
    can_open = is_here and (bare == name or name.endswith(".gz"))
    return FoundFile(address, path, local, format, shown, partitions, can_open)


def _no_files(source: FactSource, written: str, local: Path | None, error: Exception | None) -> DataError:
    folder = local.parent if local is not None else None
    names = [child.name for child in folder.iterdir()] if folder is not None and folder.is_dir() else []
    help = suggest(local.name, names) if local is not None else None
    if error is None or "PATH_NOT_FOUND" in str(error):
        return source.wrong(codes.SOURCE_WITHOUT_FILES, f"no such file: `{written}`", help)
    reason = str(error).strip().splitlines()[0]
    return source.wrong(codes.SOURCE_WITHOUT_FILES, f"`{written}` cannot be read: {reason}")


def format_of(source: FactSource, files: Sequence[FoundFile]) -> str:
    """Return the format of a source's files; raise `DataError` if it is unknown, or if there are several."""
    if source.format is not None:
        return canonical_format(source.format, Path(files[0].path) if source.format == "rdf" else None)
    found = {each.format for each in files}
    if len(found) == 1 and None not in found:
        return str(found.pop())
    if None in found:
        odd = next(each for each in files if each.format is None)
        message = f"the format of `{odd.shown}` is not known by its extension"
    else:
        message = f"`{source.shown}` has files of several formats: {', '.join(sorted(map(str, found)))}"
    raise source.wrong(codes.SPARK_FORMAT, message, "give a `format`, or name the files by a pattern")


def escaped(path: str) -> str:
    """Return a path in which no character is a wildcard."""
    return re.sub(r"[{}\[\]*?\\]", r"\\\g<0>", path)


@dataclass(frozen=True)
class FirstLook:
    """What is known of a delimited file: its first line that is not empty, and whether lines are records."""

    first: bytes | None  # None if there is none
    has_quotes: bool = False
    is_whole: bool = False  # records may go over several lines
    repeats: bool = False  # the first line occurs again, as far as that is known


def look(
    session: SparkSession, files: Sequence[FoundFile], delimiter: str, quoting: bool
) -> dict[str, FirstLook]:
    """Return what is known of delimited files, by their addresses: here if they are small, else on Spark."""
    size = sum(each.local.stat().st_size for each in files if each.is_open and each.local is not None)
    if all(each.is_open for each in files) and size <= _LOOKED_AT_HERE:
        return {each.address: _look_here(each, delimiter, quoting) for each in files}
    return _look_on_spark(session, files, delimiter, quoting)


def _look_here(file: FoundFile, delimiter: str, quoting: bool) -> FirstLook:
    assert file.local is not None
    with gzip.open(file.local) if file.is_compressed else file.local.open("rb") as stream:
        data = stream.read().removeprefix(_MARK)
    first = re.search(rb"[^\r\n]+", data)
    if first is None:
        return FirstLook(None)
    again = re.search(rb"[\r\n]" + re.escape(first[0]) + rb"(?=[\r\n]|\Z)", data[first.end() :])
    has_quotes = quoting and b'"' in data
    return FirstLook(first[0], has_quotes, has_quotes and _may_go_on(data, delimiter), again is not None)


def _may_go_on(data: bytes, delimiter: str) -> bool:
    """Whether a quoted field may go over several lines: some quote does not pair up within its line."""
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
    """Return the same by a job: one row of each file comes back."""
    value = F.col("value")
    lines = session.read.text([escaped(each.path) for each in files]).where(value != "")
    lines = lines.select(
        F.col("_metadata.file_path").alias("file"),
        F.struct(F.col("_metadata.file_block_start"), F.monotonically_increasing_id()).alias("at"),
        value,
    )
    has_quote = value.contains('"') if quoting else F.lit(False)
    told = lines.groupBy("file").agg(
        F.min_by(value.cast("binary"), "at").alias("first"),
        F.bool_or(has_quote).alias("has_quotes"),
        F.bool_or(has_quote & is_open(value, delimiter)).alias("is_whole"),
    )
    rows = {_normal(row["file"]): row for row in told.collect()}
    return {
        each.address: FirstLook(bytes(row["first"]), row["has_quotes"], row["is_whole"])
        if (row := rows.get(each.address)) is not None
        else FirstLook(None)
        for each in files
    }
