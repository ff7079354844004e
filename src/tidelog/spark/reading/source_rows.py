"""The rows of a source of any kind, separated into facts and rejects. Nothing runs before an action.

`read_source` returns `SourceRows`; `SourceRequest` has the columns to read of a source for a predicate.
`DelimitedFiles` reads delimited text; `source_frames` reads formats with a schema, JSON, RDF and text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, reduce
from operator import or_
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types

from tidelog.data.columns import HOLD_EMPTY_TEXT, policy
from tidelog.errors import Diagnostic, codes
from tidelog.errors.codes import NOT_OF_TYPE
from tidelog.io.data_file import RDF, FactSource, Header, time_types_of
from tidelog.io.delimited import Block, DelimitedLayout, first_record, layout_of
from tidelog.io.row_readers import (
    FAULT,
    FAULT_TYPE,
    FILE,
    LEFT_OUT,
    RAW,
    REJECTS,
    ROW,
    CarriedFile,
    ParsedColumns,
    RejectedLineReader,
    WholeFileReader,
)
from tidelog.logic.import_options import Nulls
from tidelog.logic.program import Predicate
from tidelog.logic.types import types_of_column
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.spark.frames import quoted, union
from tidelog.spark.reading.source_columns import (
    STRING,
    FirstLook,
    FoundFile,
    cells_of,
    converted,
    escaped,
    is_blank,
    is_open,
    look,
    spark_type_of,
)
from tidelog.spark.schemas import InputSchema, arrow_of, listed, read_types
from tidelog.spark.shipping import Shipped
from tidelog.spark.worker import NULLARY

BAD: Final = "_bad"  # whether a row is no fact
REJECTED: Final = "a row that tidelog cannot read"  # the error of a job that must read all rows
_MARK: Final = f"pmod(xxhash64({RAW}), {1 << 16})"  # a hash of a line, to find rejected lines again
_MOST_MARKS: Final = 1 << 12  # with more, all lines are converted again
_BOOLEAN: Final = spark_types.BooleanType()
_OF_ARROW: Final = {pa.string(): STRING, pa.int64(): spark_types.LongType()}
REJECTS_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(each.name, _OF_ARROW[each.type]) for each in REJECTS]
)
FAULT_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(each.name, STRING) for each in FAULT_TYPE]
)


@dataclass(frozen=True)
class RowFilter:
    """A filter of facts: a condition of SQL, or else a function of frames."""

    condition: Column | None = None
    keep: Callable[[DataFrame], DataFrame] | None = None
    is_pushed: bool = False  # into the scan: rows that it excludes are never read, and not counted


@dataclass(frozen=True)
class FileScan:
    """A scan of files, which sources with an equal `key` can share."""

    key: Hashable
    files: tuple[str, ...]  # their addresses, which separate their rows
    # The rows of several scans with this key.
    rows: Callable[[Sequence[FileScan]], DataFrame] = field(repr=False, compare=False)
    found: tuple[FoundFile, ...] = field(repr=False, compare=False, default=())


@dataclass(frozen=True)
class SourceRows:
    """The rows of a source: facts and rejects."""

    source: FactSource
    input: InputSchema  # how tasks read the columns of `frame`
    checked: DataFrame  # all rows: values, which may be NULL, and flags of rejects
    columns: tuple[str, ...]  # the columns of the data, sorted; with types if it has some
    located: Callable[[DataFrame], DataFrame] = field(repr=False)  # from rejected rows to `rejects`
    warnings: tuple[Diagnostic, ...] = ()
    filtering: RowFilter = RowFilter()
    scan: FileScan | None = None
    counts: Observation = field(default_factory=Observation, repr=False)
    # The rows of `checked` of lines that satisfy a condition over `RAW`, if rows are lines.
    of_lines: Callable[[Column], DataFrame] | None = field(default=None, repr=False)
    # Addresses of files whose rejected rows are written as they are read.
    written: frozenset[str] = frozenset()
    has_values: bool = False  # the data has values of its own types, not texts
    is_strict: bool = False  # a job that reads a rejected row fails with `REJECTED`

    @cached_property
    def frame(self) -> DataFrame:
        """The facts, with duplicates: the predicate's columns, and those of times.

        Once an action has run over it, `counts.get` has the numbers of rows `read`, `rejected`, and
        `left_out` for a missing value, of these those `lacking` one in each column with `drop-row`; the
        number of facts `filtered`, if Spark has read them; the `files` with rejected rows; and the `marks`
        of rejected lines, if rows are lines.
        """
        is_fact = ~F.col(BAD) & ~F.col(LEFT_OUT)
        condition = self.filtering.condition
        rows = self.checked
        if condition is not None and self.filtering.is_pushed:
            rows, condition = rows.where(~is_fact | condition), None
        facts = self.facts_among(rows, self.counts, condition)
        if not self.input.columns:
            return facts.where(quoted(NULLARY)).select(quoted(NULLARY)).limit(1)
        facts = facts.select(*map(quoted, self.input.columns))
        return facts if self.filtering.keep is None else self.filtering.keep(facts)

    def facts_among(
        self,
        rows: DataFrame,
        counts: Observation,
        condition: Column | None = None,
        sources: Sequence[Sequence[str]] = (),
    ) -> DataFrame:
        """Return the facts among checked rows, and count all kinds of rows.

        If the files of several `sources` are read at once, rows are also counted for each of them.
        """
        is_left_out = F.col(LEFT_OUT)
        is_rejected = F.col(BAD) & ~is_left_out
        is_fact = ~F.col(BAD) & ~is_left_out
        dropped = F.lit(False) if condition is None else is_fact & ~condition
        lacking = [is_left_out & (self._lacking == name) for name in self.dropping]

        def numbers(among: Column) -> Iterator[Column]:
            yield F.count_if(among).alias("read")
            yield F.count_if(among & is_rejected).alias("rejected")
            yield F.count_if(among & is_left_out).alias("left_out")
            if lacking:
                yield F.array(*(F.count_if(among & is_null) for is_null in lacking)).alias("lacking")

        by_source = [F.struct(*numbers(F.col(FILE).isin(list(files)))) for files in sources]
        marks = F.collect_set(F.when(is_rejected, F.expr(_MARK))).alias("marks")
        # Observed rows are computed once: Spark pushes no filter below an observation.
        observed = rows.observe(
            counts,
            *numbers(F.lit(True)),
            F.count_if(dropped).alias("filtered"),
            F.collect_set(F.when(is_rejected, F.col(FILE))).alias("files"),
            *([marks] if self.of_lines is not None else []),
            *([F.array(*by_source).alias("by_source")] if by_source else []),
        )
        is_kept = is_fact if condition is None else is_fact & condition
        if self.is_strict:
            is_kept = F.when(is_rejected, F.raise_error(F.lit(REJECTED)).cast(_BOOLEAN)).otherwise(is_kept)
        return observed.where(is_kept)

    @property
    def dropping(self) -> tuple[str, ...]:
        """The columns with `drop-row`, in the order of the counts `lacking`."""
        nulls = enumerate(self.input.columns[: len(self.input.types)])
        return tuple(name for place, name in nulls if policy(self.input.nulls, place) is Nulls.DROP_ROW)

    @property
    def _lacking(self) -> Column:
        """The first column without a value, of a row that is left out for it; NULL if unknown.

        Tasks that read whole files return no values of such a row, but a fault with the column's name.
        """
        named = F.regexp_extract(F.col(f"{FAULT}.reason"), "column `(.*)`", 1)
        first = F.coalesce(*(F.when(F.col(quoted(name)).isNull(), F.lit(name)) for name in self.dropping))
        return F.when(F.col(FAULT).isNull(), first).otherwise(named)

    @cached_property
    def rejects(self) -> DataFrame:
        """The rejected rows: place, file, line, column, text of the cell, code, reason and row."""
        return self.located(self.checked.where(F.col(BAD) & ~F.col(LEFT_OUT)))

    def rejects_of(self, files: Sequence[str], marks: Sequence[int] = ()) -> DataFrame:
        """Return `rejects` of files, those of `counts.get["files"]`: Spark reads no others again.

        With the `marks` of rejected lines, few other lines of these files are converted again.
        """
        rows = self.checked
        if self.of_lines is not None and 0 < len(marks) <= _MOST_MARKS:
            rows = self.of_lines(F.expr(f"{_MARK} IN ({', '.join(map(str, marks))})"))
        if files:
            rows = rows.where(F.col(FILE).isin(list(files)))
        return self.located(rows.where(F.col(BAD) & ~F.col(LEFT_OUT)))


@dataclass(frozen=True)
class SourceRequest:
    """The columns to read of a source for a predicate."""

    source: FactSource
    predicate: Predicate
    given: tuple[ColumnType, ...]  # types of the data's columns, also of skipped ones, without times
    column_names: tuple[str | None, ...]  # the data's names of the predicate's columns, and of times

    @property
    def is_nullary(self) -> bool:
        """Whether the predicate has no columns: then the data has a Boolean column."""
        return not self.predicate.arity and not self.source.times

    @property
    def own(self) -> tuple[ColumnType, ...]:
        """The types of the predicate's columns."""
        return tuple(of for of in self.given if of is not ColumnType.SKIP)

    @property
    def names(self) -> tuple[str | None, ...]:
        """The names of the columns to read in the data."""
        return (NULLARY,) if self.is_nullary else self.column_names

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns to read in frames."""
        return (NULLARY,) if self.is_nullary else (*self.predicate.names, *self.source.times)

    def types(self, name: str) -> tuple[ColumnType, ...]:
        """Return the types of the data's columns in a file of this format."""
        own = (ColumnType.BOOLEAN,) if self.is_nullary else self.given
        return (*own, *time_types_of(self.source.times, name))

    @property
    def nulls(self) -> tuple[Nulls, ...]:
        """The treatment of missing values, by column."""
        return self.source.missing(self.predicate.arity)

    def carried(self, file: FoundFile, name: str, header: Header = Header.NONE) -> CarriedFile:
        """Return how tasks of ours read a file."""
        types = self.types(name)
        has_skipped = ColumnType.SKIP in types
        return CarriedFile(
            file.local,
            name,
            types,
            () if has_skipped or name in RDF else self.names,
            header,
            "\t" if name == "tsv" else self.source.delimiter or ",",
            self.source.quoting,
            file.is_compressed,
            self.source.limit,
            self.source.base,
            len(self.source.times),
            self.nulls,
            file.shown,
        )

    def input(
        self, spark: Sequence[spark_types.DataType], fields: tuple[ColumnType, ...] | None
    ) -> InputSchema:
        """Return how tasks read the frame; `fields` has the types of its columns if they are texts."""
        if self.is_nullary:
            return InputSchema(self.predicate, (), (), (), (), fields)
        kinds = tuple(map(types_of_column, fields or self.own))
        if fields is None:
            kinds = tuple(read_types(of) or frozenset() for of in spark[: len(self.own)])
        times = self.source.times
        return InputSchema(self.predicate, self.columns, tuple(spark), kinds, times, fields, self.nulls)


def any_of(flags: Sequence[Column]) -> Column:
    """Return whether any of the conditions holds."""
    return reduce(or_, flags) if flags else F.lit(False)


def read_schema(names: Sequence[str], types: Sequence[ColumnType]) -> spark_types.StructType:
    """Return the schema of rows that tasks read, as in `ParsedColumns`."""
    fields = [(name, spark_type_of(of)) for name, of in zip(names, types, strict=True)]
    metadata = [(FILE, STRING), (RAW, spark_types.BinaryType()), (FAULT, FAULT_SCHEMA), (LEFT_OUT, _BOOLEAN)]
    return spark_types.StructType([spark_types.StructField(*field) for field in (*fields, *metadata)])


def shape_of(names: Sequence[str], types: Sequence[ColumnType], has_fields: bool = False) -> ParsedColumns:
    """Return this schema for tasks."""
    arrow = tuple(arrow_of(spark_type_of(of)) for of in types)
    return ParsedColumns(tuple(names), tuple(types), arrow, has_fields)


def whole_files(session: SparkSession, files: Sequence[FoundFile], task: WholeFileReader) -> DataFrame:
    """Return the rows of files that tasks read whole, by their paths, or as bytes that Spark reads."""
    if all(file.local is not None for file in files):
        inputs = session.range(0, len(files), 1, len(files))
    else:
        inputs = session.read.format("binaryFile").load([escaped(file.path) for file in files])
        inputs = inputs.select(F.col("_metadata.file_path").alias(FILE), "content").repartition(len(files))
    rows = inputs.mapInArrow(Shipped(task), read_schema(task.shape.names, task.shape.types))
    return rows.withColumn(BAD, F.col(FAULT).isNotNull())


def text_lines(
    session: SparkSession,
    files: Sequence[FoundFile],
    source: FactSource,
    partitions: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the lines of files as `value`, with the file of each and the start of its split.

    `partitions` has the folder of each partition column; these are texts.
    """
    partitions = partitions or {}
    names = ["value", *partitions]
    schema = spark_types.StructType([spark_types.StructField(name, STRING) for name in names])
    reader = session.read.format("text").schema(schema).options(**dict(source.options))
    for base in set(partitions.values()):
        reader = reader.option("basePath", base)
    frame = reader.load([escaped(file.path) for file in files])
    return frame.select(
        *map(quoted, names),
        F.col("_metadata.file_path").alias(FILE),
        F.col("_metadata.file_block_start").alias(ROW),
    )


def locating(task: RejectedLineReader) -> Callable[[DataFrame], DataFrame]:
    """Return the function from rejected rows of files to `rejects`."""

    def locate(rows: DataFrame) -> DataFrame:
        # All rows of a file go to one task, which reads the file again.
        rejected = rows.select(FILE, RAW, FAULT).repartition(FILE)
        return rejected.mapInArrow(Shipped(task), REJECTS_SCHEMA)

    return locate


def without_skipped(request: SourceRequest, name: str) -> tuple[ColumnType, ...]:
    """Return the types of the columns that are read from files of this format."""
    return tuple(of for of in request.types(name) if of is not ColumnType.SKIP)


def with_names(file: CarriedFile, request: SourceRequest, places: Sequence[int]) -> CarriedFile:
    """Return a file with only the columns at these positions."""
    assert file.types is not None
    nulls = request.nulls
    return replace(
        file,
        types=tuple(file.types[place] for place in places),
        names=tuple(request.names[place] for place in places),
        nulls=tuple(nulls[place] for place in places if place < len(nulls)),
    )


_REPLACEMENT: Final = "\ufffd"  # by which Java replaces bytes that are not UTF-8
_WRONG: Final = "_wrong"  # whether a line is no record of the right width, or not UTF-8
_BLANK: Final = "_blank"  # whether a value is missing so that the row is left out
# Types that Spark's columns do not have: their texts are not the values, or moments lack a time zone.
_NOT_IN_SPARK: Final = (ColumnType.ANY, ColumnType.TERM, ColumnType.IRI, ColumnType.DATETIME)


@dataclass(frozen=True)
class _Group:
    """Files with the same columns in the same order, which Spark reads in one scan."""

    header: bytes | None  # their first line, if it has names
    types: tuple[ColumnType, ...]
    wanted: tuple[int, ...]  # positions of the columns to read
    has_quotes: bool


@dataclass(frozen=True)
class DelimitedFiles:
    """The files of a source of delimited text. `base` is the folder of their partitions, if any.

    Spark SQL splits and converts lines; files with records of several lines are read whole, by tidelog's own
    reader. Spark's reader of CSV is not used: without an error, it drops lines of white space, removes white
    space after a closing quote, and replaces bytes that are not UTF-8.
    """

    session: SparkSession
    request: SourceRequest
    format: str
    files: Sequence[FoundFile]
    base: str | None = None
    rejects: str | None = None  # the folder for rejected rows of files that are read whole

    def reading(self) -> SourceRows:
        """Return the rows of the files."""
        source, request = self.request.source, self.request
        carried = {file.address: self._carried(file) for file in self.files}
        first_looks = look(self.session, self.files, self._delimiter, source.quoting)
        groups: dict[_Group, list[FoundFile]] = {}
        layouts: dict[str, DelimitedLayout] = {}
        columns: dict[str, tuple[str, ...]] = {}
        unsplit: list[FoundFile] = []
        for file in self.files:
            first_look = first_looks[file.address]
            if first_look.first is None:  # an empty file
                continue
            layout, header, columns[file.shown] = self._layout(carried[file.address], first_look)
            layouts[file.address] = layout
            has_rows_of_lines = ColumnType.TERM not in layout.wanted_types and source.limit is None
            if first_look.is_whole or not has_rows_of_lines or (header and first_look.repeats):
                unsplit.append(file)
            else:
                group = _Group(header, layout.types, layout.wanted, first_look.has_quotes)
                groups.setdefault(group, []).append(file)
        spark = [*map(spark_type_of, request.own), *(STRING for _ in source.times)]
        fields = request.own if any(of in _NOT_IN_SPARK for of in request.own) else None
        names, warnings = _compared(source, columns)

        def of_lines(condition: Column | None = None) -> DataFrame:
            if groups:
                return union([self._lines(group, files, condition) for group, files in groups.items()])
            schema = read_schema(request.columns, self._types).add(BAD, "boolean")
            return self.session.createDataFrame([], schema)

        parts = [of_lines()] if groups or not unsplit else []
        if unsplit:
            parts.append(self._whole(unsplit, carried))
        return SourceRows(
            source,
            request.input(spark, fields),
            union(parts),
            names,
            locating(RejectedLineReader(carried, layouts)),
            warnings,
            scan=self._scan(groups) if not unsplit else None,
            of_lines=of_lines if self.rejects or not unsplit else None,
            written=frozenset(file.address for file in unsplit if self.rejects),
        )

    def _scan(self, groups: Mapping[_Group, Sequence[FoundFile]]) -> FileScan | None:
        """Return the scan of the files, if they have the same columns, and are not partitions of a folder."""
        if len(groups) != 1 or self.base is not None or self.request.is_nullary:
            return None
        ((group, files),) = groups.items()
        source = self.request.source
        options = tuple(sorted(source.options.items()))
        key = self.format, self._delimiter, source.quoting, options, group, self._types, self.request.nulls

        def rows(scans: Sequence[FileScan]) -> DataFrame:
            return self._lines(group, [file for scan in scans for file in scan.found])

        return FileScan(key, tuple(file.address for file in files), rows, tuple(files))

    @property
    def _delimiter(self) -> str:
        return "\t" if self.format == "tsv" else self.request.source.delimiter or ","

    @cached_property
    def _types(self) -> tuple[ColumnType, ...]:
        return without_skipped(self.request, self.format)

    @cached_property
    def _partitions(self) -> tuple[str, ...]:
        """The columns that are partitions of the folder."""
        return tuple(dict.fromkeys(name for file in self.files for name, _ in file.partitions))

    @cached_property
    def _in_files(self) -> tuple[int, ...]:
        """The positions of the columns that are in files, unlike partitions."""
        names = self.request.names
        return tuple(place for place, name in enumerate(names) if name not in self._partitions)

    def _carried(self, file: FoundFile) -> CarriedFile:
        source = self.request.source
        header = source.first_row
        if ColumnType.SKIP in self.request.given:
            header = Header.NONE if header in (Header.NONE, Header.DETECTED) else Header.IGNORED
            return self.request.carried(file, self.format, header)
        carried = self.request.carried(file, self.format, header)
        return with_names(carried, self.request, self._in_files)

    def _layout(
        self, file: CarriedFile, first_look: FirstLook
    ) -> tuple[DelimitedLayout, bytes | None, tuple[str, ...]]:
        """Return the layout of a file, its first line if that is a header, and the names of its columns."""
        assert first_look.first is not None
        record = first_record(first_look.first, self._delimiter.encode(), file.quoting, 1)
        assert record is not None, "the line is not empty"
        layout, following = layout_of(file, Block(first_look.first, 1), *record)
        fields = tuple(field.decode("utf-8", "replace") for field in record[0].fields)
        if len(following.data):
            return layout, None, tuple(str(place) for place in range(1, len(fields) + 1))
        return layout, first_look.first, fields

    def _lines(self, group: _Group, files: Sequence[FoundFile], condition: Column | None = None) -> DataFrame:
        """Return the rows of files in which each line is a record, of the lines that satisfy a condition."""
        partitions = dict.fromkeys(self._partitions, self.base or "")
        frame = text_lines(self.session, files, self.request.source, partitions)
        line = F.col("value")
        is_row = line != ""
        if group.header is not None:
            # No other line equals the header, except in files that only Spark can read.
            is_header = line.cast("binary") == F.lit(bytearray(group.header))
            is_row &= ~(is_header & (F.col(ROW) == 0))
        cells = cells_of(line, self._delimiter, group.has_quotes).alias("cells")
        if condition is not None:
            frame = frame.withColumn(RAW, line.cast("binary")).where(condition)
        split = frame.where(is_row).select(line, FILE, *map(quoted, self._partitions), cells)
        is_wrong = F.size("cells") != len(group.types)
        if group.has_quotes:
            is_wrong |= line.contains('"') & is_open(line, self._delimiter)
        values, blanks = [], []
        for place, (of, text) in enumerate(zip(self._types, self._texts(group), strict=True)):
            value = converted(text, of)
            if (action := self._nulls(place)) is not Nulls.REJECT:
                is_missing = is_blank(text)
                value = F.when(~is_missing, value)
                if action is Nulls.DROP_ROW:
                    blanks.append(is_missing)
            values.append(value.alias(self.request.columns[place]))
            if spark_type_of(of) == STRING:
                is_wrong |= text.contains(_REPLACEMENT) & ~F.is_valid_utf8(line)
        rows = split.select(
            *values,
            FILE,
            line.cast("binary").alias(RAW),
            is_wrong.alias(_WRONG),
            any_of(blanks).alias(_BLANK),
        )
        return self._flagged(rows)

    def _nulls(self, place: int) -> Nulls:
        """Return the treatment of an empty field, which is a missing value in some columns."""
        action = policy(self.request.nulls, place)
        return Nulls.REJECT if self._types[place] in HOLD_EMPTY_TEXT else action

    def _texts(self, group: _Group) -> list[Column]:
        """Return the texts of the columns: cells, and partitions of the folder."""
        cells = iter(group.wanted)
        return [
            F.get("cells", F.lit(next(cells)))
            if place in self._in_files or ColumnType.SKIP in self.request.given
            else F.coalesce(F.col(quoted(str(name))), F.lit(""))
            for place, name in enumerate(self.request.names)
        ]

    def _flagged(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the flags of those that are rejected or left out."""
        names = self.request.columns
        empty = {place: F.col(quoted(name)).isNull() for place, name in enumerate(names)}
        policies = {place: self._nulls(place) for place in empty}
        rejecting = [empty[place] for place, action in policies.items() if action is Nulls.REJECT]
        leaving_out = [empty[place] for place, action in policies.items() if action is Nulls.DROP_ROW]
        is_rejected = F.col(_WRONG) | any_of(rejecting)
        is_bad, left_out = is_rejected, F.lit(False)
        if leaving_out:
            # A row that is to be left out for one column, and rejected for another, is rejected.
            left_out = F.col(_BLANK) & ~is_rejected
            is_bad |= any_of(leaving_out)
        return rows.select(
            *map(quoted, names),
            FILE,
            RAW,
            F.coalesce(*self._wrong_partitions(), F.lit(None).cast(FAULT_SCHEMA)).alias(FAULT),
            left_out.alias(LEFT_OUT),
            is_bad.alias(BAD),
        )

    def _wrong_partitions(self) -> list[Column]:
        """Return the faults of partitions that are not of their columns' types, unlike those of lines."""
        faults = []
        for place, of in enumerate(self._types):
            if place not in self._in_files and ColumnType.SKIP not in self.request.given:
                name = self.request.names[place]
                reason = f"the partition `{name}` of the folder is not of type {of.value} (column `{name}`)"
                row = F.coalesce(F.col(RAW).cast(STRING), F.lit(""))
                values = F.lit(""), F.lit(NOT_OF_TYPE), F.lit(reason), row
                fields = zip(values, FAULT_SCHEMA.names, strict=True)
                fault = F.struct(*(value.alias(name) for value, name in fields))
                faults.append(F.when(F.col(quoted(self.request.columns[place])).isNull(), fault))
        return faults

    def _whole(self, files: Sequence[FoundFile], carried: Mapping[str, CarriedFile]) -> DataFrame:
        """Return the rows of files that tidelog's own reader reads."""
        names = self.request.columns
        shape = shape_of(
            [names[place] for place in self._in_files],
            [self._types[place] for place in self._in_files],
            has_fields=True,
        )
        files_carried = {file.address: carried[file.address] for file in files}
        rows = whole_files(self.session, files, WholeFileReader(files_carried, shape, self.rejects))
        for place, of in enumerate(self._types):
            if place not in self._in_files:
                name = str(self.request.names[place])
                texts = [
                    F.lit(text) for file in files for text in (file.address, dict(file.partitions)[name])
                ]
                value = converted(F.element_at(F.create_map(*texts), F.col(FILE)), of)
                rows = rows.withColumn(names[place], value)
        fault = F.coalesce(F.col(FAULT), *self._wrong_partitions())
        bad = fault.isNotNull()
        return rows.select(*map(quoted, names), FILE, RAW, fault.alias(FAULT), LEFT_OUT, bad.alias(BAD))


def _compared(
    source: FactSource, columns: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[Diagnostic, ...]]:
    """Return the columns of all files, and a warning for each file with other columns than the first one."""
    all_columns = tuple(sorted({name for names in columns.values() for name in names}))
    warnings = []
    (first, expected) = next(iter(columns.items()), ("", ()))
    for path, names in columns.items():
        more, less = sorted({*names} - {*expected}), sorted({*expected} - {*names})
        differences = [f"has {listed(more)} besides"] if more else []
        differences += [f"lacks {listed(less)}"] if less else []
        if differences:
            message = f"`{path}` {' and '.join(differences)}, compared with `{first}`"
            warnings.append(Diagnostic(codes.OTHER_COLUMNS, message, source.span, place=path))
    return all_columns, tuple(warnings)
