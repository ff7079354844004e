"""Sources as frames: Spark reads, checks and converts the rows; rejects are kept with their reasons.

Begin with `read_source`. Nothing runs before a frame is used, except that files are listed and the first
lines of delimited text are read. Formats with a schema (Parquet, ORC, Avro, tables) are read by it, delimited
text as lines (`source_rows.DelimitedFiles`); tidelog's own readers run in tasks for JSON and RDF.
`combine_sources` reads several sources in one scan where it can; `filtered` applies the filter of a source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema

from tidelog.data.columns import policy
from tidelog.errors import DataError, ProgramError, Severity, codes, counted
from tidelog.io import arrow_files
from tidelog.io.data_file import JSON, RDF, VERSIONED, FactSource
from tidelog.io.row_readers import (
    FAULT,
    FILE,
    LEFT_OUT,
    RAW,
    ROW,
    PendingRejects,
    RejectedLineReader,
    RejectedTableReader,
    SplitLineReader,
    WholeFileReader,
)
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import Comparison, Constant, Expression, Program, Rule, Variable, free_name
from tidelog.logic.resolve import program_of
from tidelog.logic.types import Type, column_of
from tidelog.logic.values import ColumnType, Kind, Value, exact_number
from tidelog.publish.foreign_tables import foreign_table
from tidelog.reasoner.reasoner import Reasoner
from tidelog.records import dataclass
from tidelog.spark.frames import PREDICATE, quoted
from tidelog.spark.reading.source_columns import (
    DELIMITED,
    STRING,
    FoundFile,
    address_of,
    converted,
    escaped,
    format_of,
    list_files,
    names_of,
    predicate_of,
    spark_type_of,
    types_of,
)
from tidelog.spark.reading.source_rows import (
    BAD,
    FAULT_SCHEMA,
    REJECTS_SCHEMA,
    DelimitedFiles,
    FileScan,
    RowFilter,
    SourceRequest,
    SourceRows,
    any_of,
    locating,
    read_schema,
    shape_of,
    text_lines,
    whole_files,
    without_skipped,
)
from tidelog.spark.schemas import InputSchema, listed, read_types
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship
from tidelog.spark.stages import InputFrames
from tidelog.spark.worker import InputColumns

_ROW: Final = "row"
_KEPT: Final = "kept"
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EPOCH: Final = date(1970, 1, 1)
# Columns whose values SQL compares as tidelog does with constants of the same kind.
_COMPARED: Final = {
    (Kind.INTEGER, Type.INTEGER): spark_types.LongType,
    (Kind.DOUBLE, Type.DOUBLE): spark_types.DoubleType,
    (Kind.DECIMAL, Type.DECIMAL): spark_types.DecimalType,
    (Kind.DATE, Type.DATE): spark_types.DateType,
    (Kind.STRING, Type.STRING): spark_types.StringType,
}


def filtered(reading: SourceRows) -> SourceRows:
    """Return the rows of a source without those that its filter excludes; raise errors in the filter.

    A filter is a list of literals that a row must satisfy. Comparisons of a column with a constant of its
    type become a condition of SQL, which Spark pushes into the scan where it can. A filter with other
    literals is evaluated by tasks, as a rule.
    """
    source = reading.source
    if source.filter is None:
        return reading
    rule = _rule(reading)
    condition = _condition(rule, reading.input)
    if condition is not None:
        return replace(reading, filtering=RowFilter(condition, is_pushed=reading.has_values))
    number = free_name("n", reading.input.columns)
    task = Shipped(_FilterTask(rule, reading.input.reading(), number))

    def keep(facts: DataFrame) -> DataFrame:
        return facts.mapInArrow(task, facts.schema)

    return replace(reading, filtering=RowFilter(keep=keep))


def _rule(reading: SourceRows) -> Program:
    """Return the program whose rule has the filter as its body; rows are numbered, as they may repeat."""
    source, predicate = reading.source, reading.input.predicate
    number = free_name("n", predicate.names)
    variables = ", ".join(f"?{name}" for name in predicate.names)
    row = ", ".join(filter(None, (f"?{number}", variables)))
    try:
        return program_of(f"{_KEPT}(?{number}) :- {_ROW}({row}), {source.filter} .")
    except ProgramError as error:
        messages = [item.message for item in error.diagnostics if item.severity is Severity.ERROR]
        message = f"the filter `{source.filter}` is not well formed: {'; '.join(messages)}"
        raise _wrong(reading, message, f"it has literals over {variables}") from None


def _wrong(reading: SourceRows, message: str, help: str) -> DataError:
    return reading.source.wrong(codes.FILTER, message, help)


def _condition(program: Program, schema: InputSchema) -> Column | None:
    """Return the rule's body as a condition; None if SQL cannot express all of it."""
    if len(program.rules) != 1 or Nulls.VALUE in schema.nulls:
        return None
    (rule,) = program.rules
    comparisons = [_comparison(literal, rule, schema) for literal in rule.body[1:]]
    if not rule.body or rule.body[0] is not next(iter(rule.positive), None) or not comparisons:
        return None
    condition = F.lit(True)
    for comparison in comparisons:
        if comparison is None:
            return None
        condition = condition & comparison
    return condition


def _comparison(literal: object, rule: Rule, schema: InputSchema) -> Column | None:
    if not isinstance(literal, Comparison):
        return None
    operator, left, right = literal.operator, literal.left, literal.right
    if isinstance(left, Constant):
        operator, left, right = _MIRRORED[operator], right, left
    if not isinstance(left, Variable) or not isinstance(right, Constant):
        return None
    place = _place(left, rule)
    value = right.value
    types = schema.types[place]
    if len(types) != 1:
        return None
    (own,) = types
    spark_class = _COMPARED.get((value.kind, own))
    of = schema.spark[place]
    if spark_class is None or not isinstance(of, spark_class):
        return None
    column = F.col(quoted(schema.columns[place]))
    comparison: Column = _OPERATORS[operator](column, _literal(value, of))
    return comparison


def _place(variable: Expression, rule: Rule) -> int:
    """Return the position of a variable among the predicate's columns, which follow the row's number."""
    return rule.positive[0].terms.index(variable) - 1


def _literal(value: Value, of: spark_types.DataType) -> Column:
    match value.kind:
        case Kind.DATE:
            try:
                return F.lit(_EPOCH + timedelta(days=int(value.content)))
            except OverflowError:
                return F.date_from_unix_date(F.lit(int(value.content)))
        case Kind.DECIMAL:
            return F.lit(exact_number(value))
        case Kind.INTEGER:
            return F.lit(value.content).cast(of)
    return F.lit(value.content)


@dataclass(frozen=True)
class _FilterTask:
    """The task that keeps the facts which satisfy a rule's body. Imports no Spark."""

    program: Program
    reading: InputColumns
    number: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the matching rows of each batch."""
        arity = len(self.reading.types)
        names = self.reading.names[:arity]
        numbered = replace(
            self.reading,
            types=(ColumnType.INTEGER, *self.reading.types),
            names=(self.number, *names),
            times=(),
            nulls=(Nulls.REJECT, *self.reading.nulls) if self.reading.nulls else (),
        )
        for batch in batches:
            numbers = pa.array(np.arange(batch.num_rows))
            table = pa.table([numbers, *batch.columns[:arity]], names=[self.number, *names])
            reasoner = Reasoner(self.program, threads=1, allow_read=(), allow_write=())
            reasoner.load(_ROW, list(numbered.batches(table, _ROW, PendingRejects())))
            (ids,), _, dictionary = reasoner[_KEPT].coded
            places = np.sort(dictionary.payload[ids])
            yield batch if len(places) == batch.num_rows else batch.take(pa.array(places))


TYPED: Final = ("parquet", "orc", "avro")  # formats with a schema of their own
TABLES: Final = ("jdbc", "table")
BY_LINES: Final = ("jsonl", "ntriples", "nquads")  # each line is a row, so that Spark can split the files
FORMATS: Final = (*DELIMITED, *TYPED, *sorted(JSON), *sorted(RDF), "text", *TABLES)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=/)")
_AT, _KNOWN = "_tidelog_file", "_tidelog_known"  # columns in addition to those of a foreign table
_ORIGINAL: Final = "_original"  # prefix of columns with the original values
_LONG: Final = spark_types.LongType()
_DOUBLE: Final = spark_types.DoubleType()
_FLOATING: Final = (spark_types.FloatType, spark_types.DoubleType)
# Numbers become doubles and decimals where those are declared, as in `io.arrow_files`.
_ACCEPTED: Final = {
    ColumnType.DOUBLE: {Type.INTEGER, Type.DECIMAL, Type.DOUBLE},
    ColumnType.DECIMAL: {Type.INTEGER, Type.DECIMAL},
}


def read_source(
    session: SparkSession,
    source: FactSource,
    program: Program,
    folder: Path = Path(),
    rejects: Path | None = None,
) -> SourceRows:
    """Return the rows of a source as frames; raise `DataError` for errors before a row is read.

    Relative paths are below `folder`. Readers of whole files write the rejected rows into the folder
    `rejects`, if there is one, to which all executors must have access.
    """
    return filtered(_read(session, source, program, folder, None if rejects is None else str(rejects)))


def _read(
    session: SparkSession, source: FactSource, program: Program, folder: Path, rejects: str | None
) -> SourceRows:
    predicate = predicate_of(source, program)
    request = SourceRequest(
        source, predicate, types_of(source, program, predicate), names_of(source, predicate)
    )
    ship(session, scratch_folder())
    if source.format in VERSIONED and source.frame is None:
        return _Table(request, _versioned(session, source, folder)).reading()
    if source.frame is not None or source.format in TABLES:
        return _Table(request, _loaded(session, source)).reading()
    files, base = list_files(session, source, folder)
    name = format_of(source, files)
    if name in DELIMITED:
        return DelimitedFiles(session, request, name, files, base, rejects).reading()
    if name in TYPED:
        return _typed(session, request, name, files, base)
    if name == "text":
        return _text(session, request, files)
    if name in JSON or name in RDF:
        return _parsed(session, request, name, files, rejects)
    message, help = f"`{name}` is not a format that is read on Spark", f"those are {', '.join(FORMATS)}"
    raise source.wrong(codes.SPARK_FORMAT, message, help)


@dataclass(frozen=True)
class CombinedSources:
    """Sources that are read together: a program's inputs, and the frames with their rows.

    Files that Spark reads in the same way are one frame, in one scan. Each of its files is an input, and the
    addresses of files separate the rows.
    """

    readings: Mapping[str, SourceRows]
    inputs: Mapping[str, InputSchema]
    frames: InputFrames
    source_of: Mapping[str, str]  # of each input: the name of its reading
    shared: Mapping[str, Observation]  # by the names of readings that share a scan, in the order of the scan

    def counts(self, name: str) -> Mapping[str, Any]:
        """Return the counts of a source, once an action has run over its frame."""
        shared = self.shared.get(name)
        if shared is None:
            return self.readings[name].counts.get
        own = {file for file, source in self.source_of.items() if source == name}
        observed = shared.get
        source_counts = observed["by_source"][self._sharing(name).index(name)].asDict()
        files = [file for file in observed["files"] if file in own]
        return {**source_counts, "filtered": 0, "files": files, "marks": observed.get("marks", ())}

    def _sharing(self, name: str) -> list[str]:
        """Return the names of the readings that share the scan of a reading, in order."""
        return [sharing for sharing, counts in self.shared.items() if counts is self.shared[name]]


def combine_sources(
    readings: Mapping[str, SourceRows], may_share: Callable[[str], bool] = bool
) -> CombinedSources:
    """Combine sources: those that may share a scan are in one frame.

    `may_share` is a test of predicates: in a frame of their own, rows that no rule reads need no task.
    """
    inputs: dict[str, InputSchema] = {}
    frames: dict[str | tuple[str, ...], DataFrame] = {}
    source_of: dict[str, str] = {}
    shared: dict[str, Observation] = {}
    for names in _sharing_scans(readings, may_share):
        first = readings[names[0]]
        if len(names) == 1:
            inputs[names[0]], frames[names[0]] = first.input, first.frame
            source_of[names[0]] = names[0]
            continue
        scans = [scan for name in names if (scan := readings[name].scan) is not None]
        observation = Observation()
        shared |= dict.fromkeys(names, observation)
        files_of_each = [scan.files for scan in scans]
        facts = first.facts_among(scans[0].rows(scans), observation, sources=files_of_each)
        columns = first.input.columns
        for name, scan in zip(names, scans, strict=True):
            inputs |= dict.fromkeys(scan.files, replace(readings[name].input, columns=columns))
            source_of |= dict.fromkeys(scan.files, name)
        files = tuple(file for scan in scans for file in scan.files)
        frames[files] = facts.select(F.col(FILE).alias(PREDICATE), *map(quoted, columns))
    return CombinedSources(readings, inputs, InputFrames(frames), source_of, shared)


def _sharing_scans(
    readings: Mapping[str, SourceRows], may_share: Callable[[str], bool]
) -> Iterable[list[str]]:
    """Return the names of sources in groups, each of which is one scan."""
    groups: dict[Hashable, list[str]] = {}
    grouped_files: set[str] = set()
    for name, reading in readings.items():
        scan = reading.scan
        key: Hashable = name
        # A file of two predicates is read twice: its address cannot stand for both.
        if (
            scan is not None
            and reading.source.filter is None
            and may_share(reading.input.predicate.name)
            and not grouped_files & {*scan.files}
        ):
            grouped_files |= {*scan.files}
            key = ("scan", scan.key)
        groups.setdefault(key, []).append(name)
    return groups.values()


def _parsed(
    session: SparkSession, request: SourceRequest, name: str, files: Sequence[FoundFile], rejects: str | None
) -> SourceRows:
    """Return the rows of files that tasks read by tidelog's own readers."""
    source = request.source
    if any(set(dict(file.partitions)) & {*request.names} for file in files):
        message = f"partitions of a folder are not read as columns of {name}"
        raise source.wrong(
            codes.SPARK_FORMAT, message, "partitions are columns of Parquet, ORC, Avro and CSV"
        )
    types = without_skipped(request, name)
    carried = {file.address: request.carried(file, name) for file in files}
    shape = shape_of(request.columns, types)
    # Without names, the first object of a file shows the order of its columns.
    is_split = name in RDF or (None not in request.names and len(request.names) == len(types))
    is_split &= name in BY_LINES and source.limit is None

    def of_lines(condition: Column) -> DataFrame:
        lines = text_lines(session, files, source).select(FILE, F.col("value").cast("binary").alias(RAW))
        task = Shipped(SplitLineReader(carried, shape))
        rows = lines.where(condition).mapInArrow(task, read_schema(shape.names, shape.types))
        return rows.withColumn(BAD, F.col(FAULT).isNotNull())

    rows = (
        of_lines(F.lit(True))
        if is_split
        else whole_files(session, files, WholeFileReader(carried, shape, rejects))
    )
    # A column without a declared type has exact terms here.
    fields = tuple(ColumnType.TERM if of is ColumnType.ANY else of for of in request.own)
    input_schema = request.input(list(map(spark_type_of, types)), fields)
    return SourceRows(
        source,
        input_schema,
        rows,
        (),
        locating(RejectedLineReader(carried, {})),
        of_lines=of_lines if is_split else None,
        written=frozenset() if is_split or rejects is None else frozenset(carried),
    )


def _text(session: SparkSession, request: SourceRequest, files: Sequence[FoundFile]) -> SourceRows:
    """Return the lines of files, each of which is a value."""
    if len(request.own) != 1 or request.source.times:
        width = counted(request.predicate.arity, "column")
        message = f"text has one column, its lines, and `{request.predicate.written}` has {width}"
        raise request.source.wrong(codes.WRONG_COLUMNS, message)
    lines = text_lines(session, files, request.source)
    frame = lines.select(F.col("value").alias(str(request.names[0] or "value")), FILE)
    return _Table(request, frame, files).reading()


def _loaded(session: SparkSession, source: FactSource) -> DataFrame:
    """Return the frame of a source that has no files."""
    if source.frame is not None:
        return cast(DataFrame, source.frame)
    try:
        if source.format == "table":
            return session.table(str(source.table))
        reader = session.read.format("jdbc").option("url", str(source.url)).options(**dict(source.options))
        if source.driver:
            reader = reader.option("driver", source.driver)
        option, text = ("dbtable", source.table) if source.table else ("query", source.query)
        return reader.option(option, str(text)).load()
    except Exception as error:  # noqa: BLE001 - Py4J raises whatever a driver raises
        raise _not_readable(source, error) from None


def _versioned(session: SparkSession, source: FactSource, folder: Path) -> DataFrame:
    """Return the rows of a Delta or Iceberg table: by the session's connector, else its Parquet files."""
    path = source.paths[0]
    address = str(folder / path) if _SCHEME.match(path) is None else re.sub(r"^s3:", "s3a:", path)
    option = "versionAsOf" if source.format == "delta" else "snapshot-id"
    reader = session.read.format(str(source.format))
    if source.version or (source.version is not None and source.format == "delta"):  # Iceberg has none yet
        reader = reader.option(option, str(source.version))
    try:
        frame = reader.load(str(Path(address).absolute()) if "://" not in address else address)
        frame.schema  # noqa: B018 - Spark Connect looks for the table only now
        return frame
    except Exception as error:  # noqa: BLE001 - Py4J raises whatever a connector raises
        if "DATA_SOURCE_NOT_FOUND" not in str(error) and "ClassNotFound" not in str(error):
            raise _not_readable(source, error) from None
    return _files_of_table(session, source, folder)


def _files_of_table(session: SparkSession, source: FactSource, folder: Path) -> DataFrame:
    """Return the rows of a table's Parquet files, with the columns by which it is partitioned."""
    path = source.paths[0]
    place = re.sub("^s3a:", "s3:", path) if _SCHEME.match(path) is not None else str(folder / path)
    table = foreign_table(str(source.format), place, source.version, source.storage).table
    files, partitions = table.plain_files(), list(dict.fromkeys(n for f in table.files for n in f.partition))
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    if not files:
        return session.createDataFrame([], schema)
    addresses = [address_of(re.sub(r"^s3:", "s3a:", file.location)) for file in files]
    own = spark_types.StructType([field for field in schema.fields if field.name not in partitions])
    try:
        frame = session.read.schema(own).parquet(*(escaped(unquote(address)) for address in addresses))
    except PySparkException as error:
        raise _not_readable(source, error) from None
    if not partitions:
        return frame.select(*map(quoted, schema.names))
    # There may be many files, so their partition values are a small table that is joined.
    fields = [pa.field(_AT, pa.string()), *(table.schema.field(name) for name in partitions)]
    columns: list[list[Any]] = [[_at(address) for address in addresses]]
    columns += [[file.partition.get(name) for file in files] for name in partitions]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    constants = session.createDataFrame(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
    decoded = F.url_decode(F.regexp_replace("_metadata.file_path", "[+]", "%2B"))  # a plus is no space here
    located = frame.withColumn(_AT, F.regexp_replace(decoded, "^file:/+", "file:/"))
    partition_values = F.broadcast(constants.withColumn(_KNOWN, F.lit(True)))
    joined = located.join(partition_values, _AT, "left")
    unknown_file = F.raise_error(F.concat(F.lit("no partition is known of the file "), F.col(_AT)))
    return joined.select(
        *(
            F.when(F.col(_KNOWN), F.col(quoted(name))).otherwise(unknown_file).alias(name)
            if name in partitions
            else F.col(quoted(name))
            for name in schema.names
        )
    )


def _at(address: str) -> str:
    """Return the address of a file in the form by which its rows are joined."""
    return re.sub(r"^file:/+", "file:/", unquote(address))


def _not_readable(source: FactSource, error: Exception) -> Exception:
    """Return the error of tidelog for one of Spark; other errors as they are."""
    if not isinstance(error, PySparkException) and type(error).__module__.partition(".")[0] != "py4j":
        return error
    text = str(error)
    reason = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    help = None
    if "ClassNotFound" in text or "No suitable driver" in text:
        help = "give the driver's jar to Spark: --conf spark.jars=FILE.jar, and name it with `driver`"
    if "AVRO_DATA_SOURCE_NOT_ENABLED" in text:
        reason = "this session of Spark does not have Avro"
        help = "start it with its module: --conf spark.jars.packages=org.apache.spark:spark-avro_2.13:VERSION"
    return source.wrong(codes.SOURCE_NOT_READABLE, f"`{source.shown}` cannot be read: {reason}", help)


def _typed(
    session: SparkSession, request: SourceRequest, name: str, files: Sequence[FoundFile], base: str | None
) -> SourceRows:
    """Return the rows of files that have a schema; files of one schema can share a scan."""
    source = request.source
    frame = _typed_files(session, source, name, files, base)
    reading = _Table(request, frame, files).reading()
    if base is not None or source.limit is not None or request.is_nullary:
        return reading
    fields = tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    options = tuple(sorted(source.options.items()))
    key = name, fields, options, request.given, request.names, request.nulls

    def rows(scans: Sequence[FileScan]) -> DataFrame:
        all_files = [file for scan in scans for file in scan.found]
        return (
            _Table(request, _typed_files(session, source, name, all_files, None), all_files).reading().checked
        )

    return replace(reading, scan=FileScan(key, tuple(file.address for file in files), rows, tuple(files)))


def _typed_files(
    session: SparkSession, source: FactSource, name: str, files: Sequence[FoundFile], base: str | None
) -> DataFrame:
    """Return the rows of files that have a schema; partitions of their folder are columns of texts.

    The types of partitions are not inferred: `007` is a text unless its column is declared.
    """
    partitions = tuple(dict.fromkeys(key for file in files for key, _ in file.partitions))
    reader = session.read.format(name).options(**dict(source.options))
    paths = [escaped(file.path) for file in files]
    try:
        schema = reader.load(paths).schema
        if base is not None:
            own = [field for field in schema.fields if field.name not in partitions]
            texts = [spark_types.StructField(key, STRING) for key in partitions]
            schema = spark_types.StructType([*own, *texts])
            reader = reader.option("basePath", base)
        frame = reader.schema(schema).load(paths)
    except PySparkException as error:
        raise _not_readable(source, error) from None
    metadata = [F.col("_metadata.file_path").alias(FILE)]
    if name == "parquet":
        metadata.append(F.col("_metadata.row_index").alias(ROW))
    return frame.select(*map(quoted, schema.names), *metadata)


@dataclass(frozen=True)
class _Table:
    """Rows with a schema: values of the declared types are kept, texts are converted."""

    request: SourceRequest
    frame: DataFrame
    files: Sequence[FoundFile] = ()

    def reading(self) -> SourceRows:
        """Return the rows."""
        source, request, schema = self.request.source, self.request, self.frame.schema
        rows = self.frame if source.limit is None else self.frame.limit(source.limit)
        names = [name for name in schema.names if name not in (FILE, ROW)]
        chosen = self._chosen(names)
        types = request.own or ((ColumnType.BOOLEAN,) if request.is_nullary else ())
        values, spark, missing, left_out = [], [], [], []
        for place, name in enumerate(chosen):
            column, of = F.col(quoted(name)), schema[name].dataType
            if place < len(types):
                value, of = self._value(column, of, types[place], name)
                match policy(request.nulls, place):
                    case Nulls.REJECT:
                        missing.append(value.isNull())
                    case action:
                        missing.append(value.isNull() & column.isNotNull())
                        left_out += [column.isNull()] if action is Nulls.DROP_ROW else []
                column = value
            values.append(column.alias(request.columns[place]))
            spark.append(of)
        is_bad = any_of(missing)
        # Expressions as texts: one call of Java each, where operators of columns take several.
        originals = [f"{quoted(name)} AS {_ORIGINAL}{place}" for place, name in enumerate(chosen)]
        for name, of in (FILE, STRING), (ROW, _LONG), (FAULT, FAULT_SCHEMA):
            originals.append(name if name in schema.names else f"CAST(NULL AS {of.simpleString()}) AS {name}")
        checked = rows.select(
            *values,
            *map(F.expr, originals),
            (any_of(left_out) & ~is_bad).alias(LEFT_OUT) if left_out else F.expr(f"FALSE AS {LEFT_OUT}"),
            is_bad.alias(BAD),
        )
        columns = tuple(sorted(f"{name}: {schema[name].dataType.simpleString()}" for name in names))
        return SourceRows(
            source,
            request.input(spark, None),
            checked,
            columns,
            self._located(names, chosen),
            has_values=True,
        )

    def _located(self, names: Sequence[str], chosen: Sequence[str]) -> Callable[[DataFrame], DataFrame]:
        """Return the function from rejected rows to `rejects`."""
        request = self.request
        types = request.own or ((ColumnType.BOOLEAN,) if request.is_nullary else ())
        column_request = arrow_files.ColumnRequest(
            tuple(names.index(name) for name in chosen),
            (*types, *(ColumnType.ANY for _ in request.source.times)),
            tuple(chosen),
            request.source.shown,
            tuple(None for _ in chosen),
            len(request.source.times),
            request.nulls,
        )
        task = Shipped(RejectedTableReader(column_request, {file.address: file.shown for file in self.files}))

        def locate(rows: DataFrame) -> DataFrame:
            originals = [F.col(f"{_ORIGINAL}{place}").alias(name) for place, name in enumerate(chosen)]
            return rows.select(*originals, FILE, ROW).mapInArrow(task, REJECTS_SCHEMA)

        return locate

    def _chosen(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the predicate: by name if all exist, else in order."""
        request = self.request
        if all(name in names for name in request.names):
            return [str(name) for name in request.names]
        types = (*request.given, *(ColumnType.ANY for _ in request.source.times))
        if len(names) != len(types):
            message = f"the data has {counted(len(names), 'column')} instead of {len(types)}"
            raise request.source.wrong(codes.WRONG_COLUMNS, message, f"its columns are {listed(names)}")
        return [name for name, of in zip(names, types, strict=True) if of is not ColumnType.SKIP]

    def _value(
        self, column: Column, of: spark_types.DataType, declared: ColumnType, name: str
    ) -> tuple[Column, spark_types.DataType]:
        """Return a column cast to its declared type, NULL where it has no value, and its type in Spark."""
        types, target = read_types(of), spark_type_of(declared)
        if types is None:
            message = f"column `{name}` is of the type {of.simpleString()}, which is not supported"
            help = "cast it, such as to string, or select its parts"
            raise self.request.source.wrong(codes.NO_SUCH_SPARK_TYPE, message, help)
        if len(types) > 1:
            return column, of
        (own,) = types
        if own is Type.STRING:
            return converted(column.cast(STRING), declared), target
        if isinstance(of, _FLOATING):  # NaN is no value, and -0.0 is 0.0
            column, of = F.when(~F.isnan(column), column.cast(_DOUBLE) + F.lit(0.0)), _DOUBLE
        elif own is Type.INTEGER:
            column, of = column.cast(_LONG), _LONG
        is_same = declared.base is column_of(types).base
        if own is Type.DATETIME and declared is ColumnType.LOCAL_DATETIME:
            is_same = False
        if declared in (ColumnType.ANY, ColumnType.TERM) or (is_same and declared.size is None):
            return column, of
        if not is_same and own not in _ACCEPTED.get(declared.base, ()):
            message = f"column `{name}` is of the type {of.simpleString()}, not {declared.value}"
            raise self.request.source.wrong(codes.NO_SUCH_SPARK_TYPE, message)
        if declared is ColumnType.DOUBLE:
            return column.cast(target), target
        return _of_size(column, target), target


def _of_size(column: Column, target: spark_types.DataType) -> Column:
    """Return decimals of a size; NULL for those that do not fit, which Spark would round."""
    fitted = column.try_cast(target)
    return F.when(fitted == column, fitted)
