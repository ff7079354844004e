"""The format `tidelog`: all predicates in one pass, by the tasks that have the rows, complete or not at all.

Each predicate is a folder of Parquet files, which anybody reads: `spark.read.parquet(f"{path}/reach")`. Tasks
write files under names that readers skip, and return these names. They are the rows that this data source
gets: when all tasks have ended well, it gives the files the names by which they are read, and then the
manifest says which files there are. A write that fails leaves none.
One write at a time: two of them at once would each write a manifest without the other's files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema

from tidelog.errors import Diagnostic, ProgramError
from tidelog.io.atomic import replacing
from tidelog.spark import codes
from tidelog.spark.failures import telling
from tidelog.spark.parquet import COLUMNS, HIDDEN, Target, WriteRows
from tidelog.spark.shipping import Shipped

FORMAT: Final = "tidelog"
MODES: Final = ("append", "overwrite")
MANIFEST: Final = "_manifest.json"  # Spark skips files whose names begin so
_STRING, _LONG = spark_types.StringType(), spark_types.LongType()
FILES_TYPES: Final = (_STRING, _STRING, _LONG)
FILES_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(name, of) for name, of in zip(COLUMNS, FILES_TYPES, strict=True)]
)


class Saving:
    """One write of all outputs: where to, and what of each predicate."""

    def __init__(self, path: str, mode: str, schemas: Mapping[str, spark_types.StructType]) -> None:
        if mode not in MODES:
            raise ValueError(f"mode is {' or '.join(map(repr, MODES))}, not {mode!r}")
        self.mode = mode
        self.schemas = schemas
        self.target = Target(str(_folder(path)), token_hex(16), _arrow(schemas))

    def of_rows(self, rows: DataFrame, tag: str, columns: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """Return which files tasks have written that are given rows of a tag and these columns."""
        return rows.mapInArrow(Shipped(WriteRows(self.target, tag, columns)), FILES_SCHEMA)

    def run(self, files: DataFrame) -> dict[str, int]:
        """Write, and return how many rows there are of each predicate."""
        counts = Observation()
        rows = [F.sum(F.when(F.col("predicate") == name, F.col("rows"))).alias(name) for name in self.schemas]
        observed = files.observe(counts, *rows)
        files.sparkSession.dataSource.register(DefaultSource)
        schemas = json.dumps({name: each.jsonValue() for name, each in self.schemas.items()})
        writer = observed.write.format(FORMAT).mode(self.mode)
        with telling():
            writer.options(run=self.target.run, schemas=schemas).save(self.target.folder)
        return {name: count or 0 for name, count in counts.get.items()}


def _arrow(schemas: Mapping[str, spark_types.StructType]) -> dict[str, Any]:
    return {name: to_arrow_schema(each, timezone="UTC") for name, each in schemas.items()}


class DefaultSource(DataSource):
    """The format, as `derived.save` writes it."""

    @classmethod
    def name(cls) -> str:
        """Return the name by which Spark finds it."""
        return FORMAT

    def schema(self) -> spark_types.StructType:
        """Refuse to be read: predicates are Parquet files."""
        message = "the format `tidelog` is written only"
        raise ProgramError(
            Diagnostic(codes.NOT_WRITTEN, message, help="`spark.read.parquet(path/predicate)`")
        )

    def writer(self, schema: spark_types.StructType, overwrite: bool) -> DataSourceWriter:
        """Return what gives the files of tasks their names."""
        if "schemas" not in self.options or schema.names != list(COLUMNS):
            message = "the format `tidelog` is written by `derived.save` only"
            help = "`derived.save(path)`; write other frames by `.write.parquet(path)`"
            raise ProgramError(Diagnostic(codes.NOT_WRITTEN, message, help=help))
        told = json.loads(self.options["schemas"])
        schemas = {name: spark_types.StructType.fromJson(each) for name, each in told.items()}
        folder = str(_folder(self.options.get("path")))
        return FilesWriter(Target(folder, self.options["run"], _arrow(schemas)), overwrite)


def _folder(path: str | None) -> Path:
    if path is None:
        raise ProgramError(
            Diagnostic(codes.NOT_WRITTEN, "there is no path to write to", help="`.save(path)`")
        )
    name = path.removeprefix("file:")
    if "://" in name:
        message = f"`{path}` is no folder that tasks can rename files in"
        help = "write to a file system that all executors see; other stores by `derived[…].write`"
        raise ProgramError(Diagnostic(codes.NOT_WRITTEN, message, help=help))
    return Path(os.path.normpath(name))


@dataclass
class Written(WriterCommitMessage):
    """The files that tasks have written: predicate, name and rows of each."""

    files: list[tuple[str, str, int]]


@dataclass
class FilesWriter(DataSourceArrowWriter):
    """Passes on which files there are, in each task, then gives them their names, on the driver."""

    target: Target
    overwrite: bool

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Return the files that the rows name."""
        return Written(
            [tuple(row[name] for name in COLUMNS) for batch in iterator for row in batch.to_pylist()]
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give the files their names: from now on they are read."""
        before = self._files_before()
        files = {} if self.overwrite else dict(before)
        written = [file for each in messages if isinstance(each, Written) for file in each.files]
        empty = [name for name in self.target.schemas if not files.get(name)]
        for name in sorted(set(empty) - {name for name, _, _ in written}):  # it has a schema too
            columns = [field.type for field in self.target.schemas[name]]
            written.append((name, self.target.write(name, map(_no_values, columns), 0), 0))
        for name, hidden, rows in written:
            place = self.target.folder_of(name) / hidden
            place.rename(place.with_name(hidden.removeprefix(HIDDEN)))
            files.setdefault(name, {})[hidden.removeprefix(HIDDEN)] = rows
        folder = Path(self.target.folder)
        with replacing(folder / MANIFEST) as stream:
            stream.write(json.dumps({"files": files}, indent=1, ensure_ascii=False).encode())
        for name, old in before.items() if self.overwrite else ():
            for file in old:
                (self.target.folder_of(name) / file).unlink(missing_ok=True)
        self.abort(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks have written, those too that Spark started a second time, or that died."""
        for name in self.target.schemas:
            for left in self.target.unfinished(name):
                left.unlink(missing_ok=True)

    def _files_before(self) -> dict[str, dict[str, int]]:
        try:
            found: dict[str, dict[str, int]] = json.loads(Path(self.target.folder, MANIFEST).read_bytes())[
                "files"
            ]
        except FileNotFoundError:
            return {}
        return found


def _no_values(of: Any) -> Any:
    return pa.array([], of)
