"""The rows of a source, whatever it is: which are facts, and which are not. Nothing runs before an action."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.errors import Diagnostic
from tidelog.io.formats import RDF
from tidelog.io.nulls import Nulls, policy
from tidelog.io.row_readers import (
    FAULT,
    FAULT_TYPE,
    FILE,
    LEFT_OUT,
    RAW,
    REJECTS,
    ROW,
    Carried,
    Located,
    Shape,
    Whole,
)
from tidelog.io.source import Header, time_types_of
from tidelog.logic.program import Predicate
from tidelog.logic.types import types_of_column
from tidelog.logic.values import ColumnType
from tidelog.spark.conversions import STRING, spark_type_of
from tidelog.spark.derived import quoted
from tidelog.spark.schemas import NULLARY, Input, arrow_of, read_types
from tidelog.spark.shipping import Shipped
from tidelog.spark.source import Source
from tidelog.spark.sources import Found, escaped

BAD: Final = "_bad"  # whether a row is no fact
REJECTED: Final = "a row that tidelog cannot read"  # what a job fails with that must read all rows
_MARK: Final = f"pmod(xxhash64({RAW}), {1 << 16})"  # of a line, by which rejected ones are found again
_MOST_MARKS: Final = 1 << 12  # beyond that, all lines are looked at again
_BOOLEAN: Final = spark_types.BooleanType()
_OF_ARROW: Final = {pa.string(): STRING, pa.int64(): spark_types.LongType()}
REJECTS_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(each.name, _OF_ARROW[each.type]) for each in REJECTS]
)
FAULT_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(each.name, STRING) for each in FAULT_TYPE]
)


@dataclass(frozen=True)
class Filtering:
    """Which facts a filter keeps: by a condition that SQL has, or else by a function of frames."""

    condition: Column | None = None
    keep: Callable[[DataFrame], DataFrame] | None = None
    is_pushed: bool = False  # into the scan: rows that it excludes are never read, and not counted


@dataclass(frozen=True)
class Scan:
    """How Spark reads some files, if it may read those of other sources with them: `key` is equal then."""

    key: Hashable
    files: tuple[str, ...]  # their addresses, which tell their rows apart
    rows: Callable[[Sequence[Scan]], DataFrame] = field(repr=False, compare=False)  # of several such scans
    found: tuple[Found, ...] = field(repr=False, compare=False, default=())


@dataclass(frozen=True)
class Reading:
    """The rows of a source: those that are facts, and those that are not."""

    source: Source
    input: Input  # how tasks read the columns of `frame`
    checked: DataFrame  # all rows: values, NULL where there is none, and what tells facts from others
    columns: tuple[str, ...]  # what the data calls its columns, sorted; with types where it has some
    located: Callable[[DataFrame], DataFrame] = field(repr=False)  # rejected rows of `checked`, as `rejects`
    warnings: tuple[Diagnostic, ...] = ()
    filtering: Filtering = Filtering()
    scan: Scan | None = None
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
class Wanted:
    """What is read of a source for a predicate."""

    source: Source
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

    def carried(self, file: Found, name: str, header: Header = Header.NONE) -> Carried:
        """Return a file as tasks of ours read it."""
        types = self.types(name)
        has_skipped = ColumnType.SKIP in types
        return Carried(
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

    def input(self, spark: Sequence[spark_types.DataType], fields: tuple[ColumnType, ...] | None) -> Input:
        """Return how tasks read the frame, whose texts are `fields` of a file if these are given."""
        if self.is_nullary:
            return Input(self.predicate, (), (), (), (), fields)
        kinds = tuple(map(types_of_column, fields or self.own))
        if fields is None:
            kinds = tuple(read_types(of) or frozenset() for of in spark[: len(self.own)])
        times = self.source.times
        return Input(self.predicate, self.columns, tuple(spark), kinds, times, fields, self.nulls)


# ---- frames of all kinds of files


def any_of(flags: Sequence[Column]) -> Column:
    """Return whether one of some conditions holds."""
    return reduce(lambda one, other: one | other, flags) if flags else F.lit(False)


def read_schema(names: Sequence[str], types: Sequence[ColumnType]) -> spark_types.StructType:
    """Return the schema of rows that tasks read, as `Shape` has it."""
    fields = [(name, spark_type_of(of)) for name, of in zip(names, types, strict=True)]
    beside = [(FILE, STRING), (RAW, spark_types.BinaryType()), (FAULT, FAULT_SCHEMA), (LEFT_OUT, _BOOLEAN)]
    return spark_types.StructType([spark_types.StructField(*each) for each in (*fields, *beside)])


def shape_of(names: Sequence[str], types: Sequence[ColumnType], has_fields: bool = False) -> Shape:
    """Return the same as tasks know it."""
    arrow = tuple(arrow_of(spark_type_of(of)) for of in types)
    return Shape(tuple(names), tuple(types), arrow, has_fields)


def whole_files(session: SparkSession, files: Sequence[Found], task: Whole) -> DataFrame:
    """Return the rows of files that tasks read whole: by their paths, or by the bytes that Spark reads."""
    if all(file.local is not None for file in files):
        given = session.range(0, len(files), 1, len(files))
    else:
        given = session.read.format("binaryFile").load([escaped(file.path) for file in files])
        given = given.select(F.col("_metadata.file_path").alias(FILE), "content").repartition(len(files))
    rows = given.mapInArrow(Shipped(task), read_schema(task.shape.names, task.shape.types))
    return rows.withColumn(BAD, F.col(FAULT).isNotNull())


def text_lines(
    session: SparkSession, files: Sequence[Found], source: Source, partitions: Mapping[str, str] | None = None
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


def locating(task: Located) -> Callable[[DataFrame], DataFrame]:
    """Return what makes `rejects` of rejected rows of files."""

    def located(rows: DataFrame) -> DataFrame:
        # All rows of a file go to one task, which looks at the file again.
        given = rows.select(FILE, RAW, FAULT).repartition(FILE)
        return given.mapInArrow(Shipped(task), REJECTS_SCHEMA)

    return located


def listed(names: Sequence[str]) -> str:
    """Return names as messages have them."""
    return ", ".join(f"`{name}`" for name in names)


def without_skipped(wanted: Wanted, name: str) -> tuple[ColumnType, ...]:
    """Return the types of the columns that are read from files of this format."""
    return tuple(of for of in wanted.types(name) if of is not ColumnType.SKIP)


def with_names(file: Carried, wanted: Wanted, places: Sequence[int]) -> Carried:
    """Return a file that has only the columns in these places."""
    assert file.types is not None
    nulls = wanted.nulls
    return replace(
        file,
        types=tuple(file.types[place] for place in places),
        names=tuple(wanted.names[place] for place in places),
        nulls=tuple(nulls[place] for place in places if place < len(nulls)),
    )
