"""Delimited text: lines that SQL takes apart and converts, and whole files where records have several lines.

Spark's own reader of CSV is not used: it drops lines of white space, takes white space away after a closing
quote, and replaces bytes that are not UTF-8, all without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them

from tidelog.errors import Diagnostic
from tidelog.io.careful import Block, Layout
from tidelog.io.codes import NOT_OF_TYPE
from tidelog.io.delimited import layout_of
from tidelog.io.nulls import HOLD_EMPTY_TEXT, Nulls, policy
from tidelog.io.records import first_record
from tidelog.io.row_readers import FAULT, FILE, LEFT_OUT, RAW, ROW, Carried, Located, Whole
from tidelog.io.source import Header
from tidelog.logic.values import ColumnType
from tidelog.spark import codes
from tidelog.spark.conversions import STRING, cells_of, converted, is_blank, is_open, spark_type_of
from tidelog.spark.derived import quoted, union
from tidelog.spark.rows import (
    BAD,
    FAULT_SCHEMA,
    Reading,
    Scan,
    Wanted,
    any_of,
    listed,
    locating,
    read_schema,
    shape_of,
    text_lines,
    whole_files,
    with_names,
    without_skipped,
)
from tidelog.spark.source import Source
from tidelog.spark.sources import Found, Looked, look

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
class Delimited:
    """The files of a source of delimited text. `base` is the folder whose partitions they are, if any."""

    session: SparkSession
    wanted: Wanted
    format: str
    files: Sequence[Found]
    base: str | None = None
    rejects: str | None = None  # the folder for rejected rows of files that are read whole

    def reading(self) -> Reading:
        """Return the rows of the files."""
        source, wanted = self.wanted.source, self.wanted
        carried = {file.address: self._carried(file) for file in self.files}
        looked = look(self.session, self.files, self._delimiter, source.quoting)
        groups: dict[_Group, list[Found]] = {}
        layouts: dict[str, Layout] = {}
        columns: dict[str, tuple[str, ...]] = {}
        whole: list[Found] = []
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
        return Reading(
            source,
            wanted.input(spark, fields),
            union(parts),
            names,
            locating(Located(carried, layouts)),
            warnings,
            scan=self._scan(groups) if not whole else None,
            of_lines=of_lines if self.rejects or not whole else None,
            written=frozenset(each.address for each in whole if self.rejects),
        )

    def _scan(self, groups: Mapping[_Group, Sequence[Found]]) -> Scan | None:
        """Return the scan of the files, if they are alike, and are not partitions of a folder."""
        if len(groups) != 1 or self.base is not None or self.wanted.is_nullary:
            return None
        ((group, files),) = groups.items()
        source = self.wanted.source
        options = tuple(sorted(source.options.items()))
        key = self.format, self._delimiter, source.quoting, options, group, self._types, self.wanted.nulls

        def rows(scans: Sequence[Scan]) -> DataFrame:
            return self._lines(group, [file for scan in scans for file in scan.found])

        return Scan(key, tuple(file.address for file in files), rows, tuple(files))

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

    def _carried(self, file: Found) -> Carried:
        source = self.wanted.source
        header = source.first_row
        if ColumnType.SKIP in self.wanted.given:
            header = Header.NONE if header in (Header.NONE, Header.DETECTED) else Header.IGNORED
            return self.wanted.carried(file, self.format, header)
        found = self.wanted.carried(file, self.format, header)
        return with_names(found, self.wanted, self._in_files)

    def _layout(self, file: Carried, known: Looked) -> tuple[Layout, bytes | None, tuple[str, ...]]:
        """Return the layout of a file, its first line if that is a header, and what it calls its columns."""
        assert known.first is not None
        found = first_record(known.first, self._delimiter.encode(), file.quoting, 1)
        assert found is not None, "the line is not empty"
        layout, rest = layout_of(file, Block(known.first, 1), *found)
        fields = tuple(field.decode("utf-8", "replace") for field in found[0].fields)
        if len(rest.data):
            return layout, None, tuple(str(place) for place in range(1, len(fields) + 1))
        return layout, known.first, fields

    # ---- lines

    def _lines(self, group: _Group, files: Sequence[Found], condition: Column | None = None) -> DataFrame:
        """Return the rows of files in which each line is a record; of lines that satisfy a condition."""
        partitions = dict.fromkeys(self._partitions, self.base or "")
        frame = text_lines(self.session, files, self.wanted.source, partitions)
        line = F.col("value")
        is_row = line != ""
        if group.header is not None:
            # No other line of the file is like the header, as far as files can be looked at.
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

    # ---- whole files

    def _whole(self, files: Sequence[Found], carried: Mapping[str, Carried]) -> DataFrame:
        """Return the rows of files that tidelog's own reader reads."""
        names = self.wanted.columns
        shape = shape_of(
            [names[place] for place in self._in_files],
            [self._types[place] for place in self._in_files],
            has_fields=True,
        )
        own = {file.address: carried[file.address] for file in files}
        rows = whole_files(self.session, files, Whole(own, shape, self.rejects))
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
    source: Source, columns: Mapping[str, tuple[str, ...]]
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
