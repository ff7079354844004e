"""The rows of a source, whatever it is: which are facts, and which are not. Nothing runs before an action.

`SourceRows` is what `read_source` returns; `SourceRequest` is what is read of a source for a predicate.
`DelimitedFiles` reads delimited text; `source_frames` reads what has a schema, JSON, RDF and text.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
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
REJECTED: Final = "a row that tidelog cannot read"  # what a job fails with that must read all rows
_MARK: Final = f"pmod(xxhash64({RAW}), {1 << 16})"  # of a line, by which rejected ones are found again
_MOST_MARKS: Final = 1 << 12  # beyond that, all lines are read again
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
    """Which facts a filter keeps: by a condition that SQL has, or else by a function of frames."""

    condition: Column | None = None
    keep: Callable[[DataFrame], DataFrame] | None = None
    is_pushed: bool = False  # into the scan: rows that it excludes are never read, and not counted


@dataclass(frozen=True)
class FileScan:
    """How Spark reads some files, if it may read those of other sources with them: `key` is equal then."""

    key: Hashable
    files: tuple[str, ...]  # their addresses, which separate their rows
    rows: Callable[[Sequence[FileScan]], DataFrame] = field(
        repr=False, compare=False
    )  # of several such scans
    found: tuple[FoundFile, ...] = field(repr=False, compare=False, default=())


@dataclass(frozen=True)
class SourceRows:
    """The rows of a source: those that are facts, and those that are not."""

    source: FactSource
    input: InputSchema  # how tasks read the columns of `frame`
    checked: DataFrame  # all rows: values, NULL where there is none, and what separates facts from others
    columns: tuple[str, ...]  # what the data calls its columns, sorted; with types where it has some
    located: Callable[[DataFrame], DataFrame] = field(repr=False)  # rejected rows of `checked`, as `rejects`
    warnings: tuple[Diagnostic, ...] = ()
    filtering: RowFilter = RowFilter()
    scan: FileScan | None = None
    counts: Observation = field(default_factory=Observation, repr=False)
    # The rows of `checked` that are of lines which satisfy a condition over `RAW`, where rows are lines.
    of_lines: Callable[[Column], DataFrame] | None = field(default=None, repr=False)
    written: frozenset[str] = (
        frozenset()
    )  # addresses of files whose rejected rows are written as they are read
    has_values: bool = False  # the data has values of its own types, not texts
    is_strict: bool = False  # a job that reads a rejected row fails with `REJECTED`

    @cached_property
    def frame(self) -> DataFrame:
        """The facts, perhaps several times: the predicate's columns, and those that say when.

        Once an action has run over it, `counts.get` has how many rows were `read`, `rejected` and
        `left_out` for a missing value, of these how many were `lacking` one in each column that is so, how
        many facts were `filtered`, where Spark has read them, which `files` have rejected rows, and the
        `marks` of rejected lines where rows are lines.
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
        """Return the facts among rows that are checked, and count all kinds of rows.

        If the files of several sources are read at once, they are counted for each of them, too.
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
                yield F.array(*(F.count_if(among & each) for each in lacking)).alias("lacking")

        by_source = [F.struct(*numbers(F.col(FILE).isin(list(files)))) for files in sources]
        marks = F.collect_set(F.when(is_rejected, F.expr(_MARK))).alias("marks")
        # What is observed is computed once: Spark pushes no filter below it.
        observed = rows.observe(
            counts,
            *numbers(F.lit(True)),
            F.count_if(dropped).alias("filtered"),
            F.collect_set(F.when(is_rejected, F.col(FILE))).alias("files"),
            *([marks] if self.of_lines is not None else []),
            *([F.array(*by_source).alias("by_source")] if by_source else []),
        )
        taken = is_fact if condition is None else is_fact & condition
        if self.is_strict:
            taken = F.when(is_rejected, F.raise_error(F.lit(REJECTED)).cast(_BOOLEAN)).otherwise(taken)
        return observed.where(taken)

    @property
    def dropping(self) -> tuple[str, ...]:
        """The columns for which rows that lack a value are left out, in the order of the counts `lacking`."""
        nulls = enumerate(self.input.columns[: len(self.input.types)])
        return tuple(name for place, name in nulls if policy(self.input.nulls, place) is Nulls.DROP_ROW)

    @property
    def _lacking(self) -> Column:
        """The first column without a value, of a row that is left out for that; NULL if it is not known.

        Tasks that read whole files return no value of such a row, and say the column's name.
        """
        said = F.regexp_extract(F.col(f"{FAULT}.reason"), "column `(.*)`", 1)
        first = F.coalesce(*(F.when(F.col(quoted(name)).isNull(), F.lit(name)) for name in self.dropping))
        return F.when(F.col(FAULT).isNull(), first).otherwise(said)

    @cached_property
    def rejects(self) -> DataFrame:
        """The rows that are no facts: place, file, line, column, text of the cell, code, reason and row."""
        return self.located(self.checked.where(F.col(BAD) & ~F.col(LEFT_OUT)))

    def rejects_of(self, files: Sequence[str], marks: Sequence[int] = ()) -> DataFrame:
        """Return the same of some files, those of `counts.get["files"]`: Spark reads no others again.

        With the `marks` of rejected lines, few others of these files are converted again.
        """
        rows = self.checked
        if self.of_lines is not None and 0 < len(marks) <= _MOST_MARKS:
            rows = self.of_lines(F.expr(f"{_MARK} IN ({', '.join(map(str, marks))})"))
        if files:
            rows = rows.where(F.col(FILE).isin(list(files)))
        return self.located(rows.where(F.col(BAD) & ~F.col(LEFT_OUT)))


@dataclass(frozen=True)
class SourceRequest:
    """What is read of a source for a predicate."""

    source: FactSource
    predicate: Predicate
    given: tuple[ColumnType, ...]  # types of the data's columns, skipped ones included; times aside
    called: tuple[str | None, ...]  # what the data calls the predicate's columns, and those that say when

    @property
    def is_nullary(self) -> bool:
        """Whether the predicate has no columns: then the data has one, which says if it holds."""
        return not self.predicate.arity and not self.source.times

    @property
    def own(self) -> tuple[ColumnType, ...]:
        """The types of the predicate's columns."""
        return tuple(of for of in self.given if of is not ColumnType.SKIP)

    @property
    def names(self) -> tuple[str | None, ...]:
        """What the data calls the columns that are read."""
        return (NULLARY,) if self.is_nullary else self.called

    @property
    def columns(self) -> tuple[str, ...]:
        """What the columns that are read are called here."""
        return (NULLARY,) if self.is_nullary else (*self.predicate.names, *self.source.times)

    def types(self, name: str) -> tuple[ColumnType, ...]:
        """Return the types of the data's columns in a file of this format."""
        own = (ColumnType.BOOLEAN,) if self.is_nullary else self.given
        return (*own, *time_types_of(self.source.times, name))

    @property
    def nulls(self) -> tuple[Nulls, ...]:
        """What is done about missing values, by column."""
        return self.source.missing(self.predicate.arity)

    def carried(self, file: FoundFile, name: str, header: Header = Header.NONE) -> CarriedFile:
        """Return a file as tasks of ours read it."""
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
        """Return how tasks read the frame, whose texts are `fields` of a file if these are given."""
        if self.is_nullary:
            return InputSchema(self.predicate, (), (), (), (), fields)
        kinds = tuple(map(types_of_column, fields or self.own))
        if fields is None:
            kinds = tuple(read_types(of) or frozenset() for of in spark[: len(self.own)])
        times = self.source.times
        return InputSchema(self.predicate, self.columns, tuple(spark), kinds, times, fields, self.nulls)


def any_of(flags: Sequence[Column]) -> Column:
    """Return whether one of some conditions holds."""
    return reduce(lambda one, other: one | other, flags) if flags else F.lit(False)


def read_schema(names: Sequence[str], types: Sequence[ColumnType]) -> spark_types.StructType:
    """Return the schema of rows that tasks read, as `ParsedColumns` has it."""
    fields = [(name, spark_type_of(of)) for name, of in zip(names, types, strict=True)]
    beside = [(FILE, STRING), (RAW, spark_types.BinaryType()), (FAULT, FAULT_SCHEMA), (LEFT_OUT, _BOOLEAN)]
    return spark_types.StructType([spark_types.StructField(*each) for each in (*fields, *beside)])


def shape_of(names: Sequence[str], types: Sequence[ColumnType], has_fields: bool = False) -> ParsedColumns:
    """Return the same as tasks know it."""
    arrow = tuple(arrow_of(spark_type_of(of)) for of in types)
    return ParsedColumns(tuple(names), tuple(types), arrow, has_fields)


def whole_files(session: SparkSession, files: Sequence[FoundFile], task: WholeFileReader) -> DataFrame:
    """Return the rows of files that tasks read whole: by their paths, or by the bytes that Spark reads."""
    if all(file.local is not None for file in files):
        given = session.range(0, len(files), 1, len(files))
    else:
        given = session.read.format("binaryFile").load([escaped(file.path) for file in files])
        given = given.select(F.col("_metadata.file_path").alias(FILE), "content").repartition(len(files))
    rows = given.mapInArrow(Shipped(task), read_schema(task.shape.names, task.shape.types))
    return rows.withColumn(BAD, F.col(FAULT).isNotNull())


def text_lines(
    session: SparkSession,
    files: Sequence[FoundFile],
    source: FactSource,
    partitions: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the lines of files as `value`, with the file of each and where its part of the file begins.

    `partitions` has the folder that has partitions, by the name of each; they are columns of texts.
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
    """Return what makes `rejects` of rejected rows of files."""

    def located(rows: DataFrame) -> DataFrame:
        # All rows of a file go to one task, which reads the file again.
        given = rows.select(FILE, RAW, FAULT).repartition(FILE)
        return given.mapInArrow(Shipped(task), REJECTS_SCHEMA)

    return located


def without_skipped(wanted: SourceRequest, name: str) -> tuple[ColumnType, ...]:
    """Return the types of the columns that are read from files of this format."""
    return tuple(of for of in wanted.types(name) if of is not ColumnType.SKIP)


def with_names(file: CarriedFile, wanted: SourceRequest, places: Sequence[int]) -> CarriedFile:
    """Return a file that has only the columns in these places."""
    assert file.types is not None
    nulls = wanted.nulls
    return replace(
        file,
        types=tuple(file.types[place] for place in places),
        names=tuple(wanted.names[place] for place in places),
        nulls=tuple(nulls[place] for place in places if place < len(nulls)),
    )


_REPLACEMENT: Final = "\ufffd"  # what Java has for bytes that are not UTF-8
_WRONG: Final = "_wrong"  # whether a line is no record of the right width, or not UTF-8
_BLANK: Final = "_blank"  # whether a value is missing for which a row is left out
# Types of columns that Spark's columns do not say: texts are not the values, or moments lack a time zone.
_OTHERWISE: Final = (ColumnType.ANY, ColumnType.TERM, ColumnType.IRI, ColumnType.DATETIME)


@dataclass(frozen=True)
class _Group:
    """Files with the same columns in the same order, which Spark reads in one scan."""

    header: bytes | None  # their first line, if it has names
    types: tuple[ColumnType, ...]
    wanted: tuple[int, ...]
    has_quotes: bool


@dataclass(frozen=True)
class DelimitedFiles:
    """The files of a source of delimited text. `base` is the folder whose partitions they are, if any.

    Spark SQL splits and converts lines; files whose records have several lines are read whole, by tidelog's
    own reader. Spark's reader of CSV is not used: it drops lines of white space, removes white space after a
    closing quote, and replaces bytes that are not UTF-8, all without an error.
    """

    session: SparkSession
    wanted: SourceRequest
    format: str
    files: Sequence[FoundFile]
    base: str | None = None
    rejects: str | None = None  # the folder for rejected rows of files that are read whole

    def reading(self) -> SourceRows:
        """Return the rows of the files."""
        source, wanted = self.wanted.source, self.wanted
        carried = {file.address: self._carried(file) for file in self.files}
        looked = look(self.session, self.files, self._delimiter, source.quoting)
        groups: dict[_Group, list[FoundFile]] = {}
        layouts: dict[str, DelimitedLayout] = {}
        columns: dict[str, tuple[str, ...]] = {}
        whole: list[FoundFile] = []
        for file in self.files:
            known = looked[file.address]
            if known.first is None:  # an empty file
                continue
            layout, header, columns[file.shown] = self._layout(carried[file.address], known)
            layouts[file.address] = layout
            has_rows_of_lines = ColumnType.TERM not in layout.wanted_types and source.limit is None
            if known.is_whole or not has_rows_of_lines or (header and known.repeats):
                whole.append(file)
            else:
                group = _Group(header, layout.types, layout.wanted, known.has_quotes)
                groups.setdefault(group, []).append(file)
        spark = [*map(spark_type_of, wanted.own), *(STRING for _ in source.times)]
        fields = wanted.own if any(of in _OTHERWISE for of in wanted.own) else None
        names, warnings = _compared(source, columns)

        def of_lines(condition: Column | None = None) -> DataFrame:
            if groups:
                return union([self._lines(group, files, condition) for group, files in groups.items()])
            schema = read_schema(wanted.columns, self._types).add(BAD, "boolean")
            return self.session.createDataFrame([], schema)

        parts = [of_lines()] if groups or not whole else []
        if whole:
            parts.append(self._whole(whole, carried))
        return SourceRows(
            source,
            wanted.input(spark, fields),
            union(parts),
            names,
            locating(RejectedLineReader(carried, layouts)),
            warnings,
            scan=self._scan(groups) if not whole else None,
            of_lines=of_lines if self.rejects or not whole else None,
            written=frozenset(each.address for each in whole if self.rejects),
        )

    def _scan(self, groups: Mapping[_Group, Sequence[FoundFile]]) -> FileScan | None:
        """Return the scan of the files, if they are alike, and are not partitions of a folder."""
        if len(groups) != 1 or self.base is not None or self.wanted.is_nullary:
            return None
        ((group, files),) = groups.items()
        source = self.wanted.source
        options = tuple(sorted(source.options.items()))
        key = self.format, self._delimiter, source.quoting, options, group, self._types, self.wanted.nulls

        def rows(scans: Sequence[FileScan]) -> DataFrame:
            return self._lines(group, [file for scan in scans for file in scan.found])

        return FileScan(key, tuple(file.address for file in files), rows, tuple(files))

    @property
    def _delimiter(self) -> str:
        return "\t" if self.format == "tsv" else self.wanted.source.delimiter or ","

    @cached_property
    def _types(self) -> tuple[ColumnType, ...]:
        return without_skipped(self.wanted, self.format)

    @cached_property
    def _partitions(self) -> tuple[str, ...]:
        """The columns that are partitions of the folder."""
        return tuple(dict.fromkeys(name for file in self.files for name, _ in file.partitions))

    @cached_property
    def _in_files(self) -> tuple[int, ...]:
        """The places of the columns that files have: partitions are not in them."""
        names = self.wanted.names
        return tuple(place for place, name in enumerate(names) if name not in self._partitions)

    def _carried(self, file: FoundFile) -> CarriedFile:
        source = self.wanted.source
        header = source.first_row
        if ColumnType.SKIP in self.wanted.given:
            header = Header.NONE if header in (Header.NONE, Header.DETECTED) else Header.IGNORED
            return self.wanted.carried(file, self.format, header)
        found = self.wanted.carried(file, self.format, header)
        return with_names(found, self.wanted, self._in_files)

    def _layout(
        self, file: CarriedFile, known: FirstLook
    ) -> tuple[DelimitedLayout, bytes | None, tuple[str, ...]]:
        """Return the layout of a file, its first line if that is a header, and what it calls its columns."""
        assert known.first is not None
        found = first_record(known.first, self._delimiter.encode(), file.quoting, 1)
        assert found is not None, "the line is not empty"
        layout, rest = layout_of(file, Block(known.first, 1), *found)
        fields = tuple(field.decode("utf-8", "replace") for field in found[0].fields)
        if len(rest.data):
            return layout, None, tuple(str(place) for place in range(1, len(fields) + 1))
        return layout, known.first, fields

    def _lines(self, group: _Group, files: Sequence[FoundFile], condition: Column | None = None) -> DataFrame:
        """Return the rows of files in which each line is a record; of lines that satisfy a condition."""
        partitions = dict.fromkeys(self._partitions, self.base or "")
        frame = text_lines(self.session, files, self.wanted.source, partitions)
        line = F.col("value")
        is_row = line != ""
        if group.header is not None:
            # No other line of the file is like the header, as far as files can be read here.
            is_header = line.cast("binary") == F.lit(bytearray(group.header))
            is_row &= ~(is_header & (F.col(ROW) == 0))
        cells = cells_of(line, self._delimiter, group.has_quotes).alias("cells")
        if condition is not None:
            frame = frame.withColumn(RAW, line.cast("binary")).where(condition)
        split = frame.where(is_row).select(line, FILE, *map(quoted, self._partitions), cells)
        wrong = F.size("cells") != len(group.types)
        if group.has_quotes:
            wrong |= line.contains('"') & is_open(line, self._delimiter)
        values, blanks = [], []
        for place, (of, text) in enumerate(zip(self._types, self._texts(group), strict=True)):
            value = converted(text, of)
            if (what := self._nulls(place)) is not Nulls.REJECT:
                is_missing = is_blank(text)
                value = F.when(~is_missing, value)
                if what is Nulls.DROP_ROW:
                    blanks.append(is_missing)
            values.append(value.alias(self.wanted.columns[place]))
            if spark_type_of(of) == STRING:
                wrong |= text.contains(_REPLACEMENT) & ~F.is_valid_utf8(line)
        rows = split.select(
            *values,
            FILE,
            line.cast("binary").alias(RAW),
            wrong.alias(_WRONG),
            any_of(blanks).alias(_BLANK),
        )
        return self._told(rows)

    def _nulls(self, place: int) -> Nulls:
        """Return what is done about an empty field, which is a missing value in some columns."""
        what = policy(self.wanted.nulls, place)
        return Nulls.REJECT if self._types[place] in HOLD_EMPTY_TEXT else what

    def _texts(self, group: _Group) -> list[Column]:
        """Return the texts of the columns: cells, and partitions of the folder."""
        cells = iter(group.wanted)
        return [
            F.get("cells", F.lit(next(cells)))
            if place in self._in_files or ColumnType.SKIP in self.wanted.given
            else F.coalesce(F.col(quoted(str(name))), F.lit(""))
            for place, name in enumerate(self.wanted.names)
        ]

    def _told(self, rows: DataFrame) -> DataFrame:
        """Return rows with whether each is a fact, is rejected, or is left out."""
        names = self.wanted.columns
        empty = {place: F.col(quoted(name)).isNull() for place, name in enumerate(names)}
        policies = {place: self._nulls(place) for place in empty}
        rejecting = [empty[place] for place, what in policies.items() if what is Nulls.REJECT]
        leaving_out = [empty[place] for place, what in policies.items() if what is Nulls.DROP_ROW]
        is_rejected = F.col(_WRONG) | any_of(rejecting)
        bad, left_out = is_rejected, F.lit(False)
        if leaving_out:
            # A row that is to be left out for one column, and rejected for another, is rejected.
            left_out = F.col(_BLANK) & ~is_rejected
            bad |= any_of(leaving_out)
        return rows.select(
            *map(quoted, names),
            FILE,
            RAW,
            F.coalesce(*self._wrong_partitions(), F.lit(None).cast(FAULT_SCHEMA)).alias(FAULT),
            left_out.alias(LEFT_OUT),
            bad.alias(BAD),
        )

    def _wrong_partitions(self) -> list[Column]:
        """Return the faults of partitions that are not of their columns' types: lines are not to blame."""
        found = []
        for place, of in enumerate(self._types):
            if place not in self._in_files and ColumnType.SKIP not in self.wanted.given:
                name = self.wanted.names[place]
                reason = f"the partition `{name}` of the folder is not of type {of.value} (column `{name}`)"
                row = F.coalesce(F.col(RAW).cast(STRING), F.lit(""))
                said = F.lit(""), F.lit(NOT_OF_TYPE), F.lit(reason), row
                fields = zip(said, FAULT_SCHEMA.names, strict=True)
                fault = F.struct(*(each.alias(called) for each, called in fields))
                found.append(F.when(F.col(quoted(self.wanted.columns[place])).isNull(), fault))
        return found

    def _whole(self, files: Sequence[FoundFile], carried: Mapping[str, CarriedFile]) -> DataFrame:
        """Return the rows of files that tidelog's own reader reads."""
        names = self.wanted.columns
        shape = shape_of(
            [names[place] for place in self._in_files],
            [self._types[place] for place in self._in_files],
            has_fields=True,
        )
        own = {file.address: carried[file.address] for file in files}
        rows = whole_files(self.session, files, WholeFileReader(own, shape, self.rejects))
        for place, of in enumerate(self._types):
            if place not in self._in_files:
                name = str(self.wanted.names[place])
                texts = [
                    F.lit(each) for file in files for each in (file.address, dict(file.partitions)[name])
                ]
                value = converted(F.element_at(F.create_map(*texts), F.col(FILE)), of)
                rows = rows.withColumn(names[place], value)
        fault = F.coalesce(F.col(FAULT), *self._wrong_partitions())
        bad = fault.isNotNull()
        return rows.select(*map(quoted, names), FILE, RAW, fault.alias(FAULT), LEFT_OUT, bad.alias(BAD))


def _compared(
    source: FactSource, columns: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[Diagnostic, ...]]:
    """Return the columns of all files, and a warning for each file that has others than the first one."""
    every = tuple(sorted({name for names in columns.values() for name in names}))
    warnings = []
    (first, expected) = next(iter(columns.items()), ("", ()))
    for shown, names in columns.items():
        more, less = sorted({*names} - {*expected}), sorted({*expected} - {*names})
        said = [f"has {listed(more)} besides"] if more else []
        said += [f"lacks {listed(less)}"] if less else []
        if said:
            message = f"`{shown}` {' and '.join(said)}, compared with `{first}`"
            warnings.append(Diagnostic(codes.OTHER_COLUMNS, message, source.span, place=shown))
    return every, tuple(warnings)
