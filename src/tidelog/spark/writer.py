"""The format `tidelog`: all predicates of `derived.facts` in one pass, by the tasks that have the rows.

Each predicate is a folder of Parquet files, which anybody reads: `spark.read.parquet(f"{path}/reach")`. A
task writes one file for each predicate, under a name that readers leave out; when all tasks have ended well,
the files get their names, and then the manifest says which files there are. A write that fails leaves none.
One write at a time: two of them at once would each write a manifest without the other's files.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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

FORMAT: Final = "tidelog"
MANIFEST: Final = "_manifest.json"  # Spark leaves out files whose names begin so
HIDDEN: Final = "."


class DefaultSource(DataSource):
    """The format, to be written: `derived.facts.write.format("tidelog").mode("append").save(path)`."""

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
        """Return what writes the rows of a frame."""
        tag, predicates = _predicates(schema)
        return FactsWriter(_folder(self.options.get("path")), tag, predicates, overwrite, uuid.uuid4().hex)


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


def _predicates(schema: spark_types.StructType) -> tuple[str, dict[str, spark_types.StructType]]:
    """Return the column that says of which predicate a row is, and the columns of each predicate."""
    fields = {field.name: field.dataType for field in schema.fields}
    structs = {name: of for name, of in fields.items() if isinstance(of, spark_types.StructType)}
    others = [name for name in fields if name not in structs]
    if len(others) != 1 or not isinstance(fields[others[0]], spark_types.StringType):
        message = (
            "a frame is not that of `derived.facts`: a column `predicate`, and a struct for each of them"
        )
        help = "write other frames by `.write.parquet(path)`"
        raise ProgramError(Diagnostic(codes.NOT_WRITTEN, message, help=help))
    return others[0], structs


@dataclass
class Written(WriterCommitMessage):
    """The files that a task has written, by predicate, and how many rows each has."""

    files: dict[str, tuple[str, int]]


@dataclass
class FactsWriter(DataSourceArrowWriter):
    """Writes rows of facts, in each task, then gives the files their names, on the driver."""

    folder: Path
    tag: str  # the column that says of which predicate a row is
    predicates: dict[str, spark_types.StructType]
    overwrite: bool
    run: str  # by which the files of this write are known

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        files: dict[str, _File] = {}
        try:
            for batch in iterator:
                tags = batch.column(self.tag)
                for name in pc.unique(tags).to_pylist():
                    rows = batch.column(name).filter(pc.equal(tags, name))
                    if name not in files:
                        files[name] = self._file(name)
                    files[name].write(rows)
            return Written({name: file.close() for name, file in files.items()})
        except BaseException:
            for file in files.values():
                file.remove()
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Give the files their names: from now on they are read."""
        written = [message for message in messages if isinstance(message, Written)]
        before = self._files_before()
        files = {} if self.overwrite else dict(before)
        for name in self.predicates:
            found = [message.files[name] for message in written if name in message.files]
            if not found and not files.get(name):  # an empty predicate has a schema too
                found = [self._file(name).close()]
            for hidden, rows in found:
                place = self._folder_of(name) / hidden
                place.rename(place.with_name(hidden.removeprefix(HIDDEN)))
                files.setdefault(name, {})[hidden.removeprefix(HIDDEN)] = rows
        with replacing(self.folder / MANIFEST) as stream:
            stream.write(json.dumps({"files": files}, indent=1, ensure_ascii=False).encode())
        for name, old in before.items() if self.overwrite else ():
            for file in old:
                (self._folder_of(name) / file).unlink(missing_ok=True)
        self.abort(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what tasks have written, those too that Spark started a second time, or that died."""
        for name in self.predicates:
            for left in self._folder_of(name).glob(f"{HIDDEN}part-{self.run}-*"):
                left.unlink(missing_ok=True)

    def _file(self, predicate: str) -> _File:
        return _File(self._folder_of(predicate), self._schema_of(predicate), self.run)

    def _files_before(self) -> dict[str, dict[str, int]]:
        try:
            found: dict[str, dict[str, int]] = json.loads((self.folder / MANIFEST).read_bytes())["files"]
        except FileNotFoundError:
            return {}
        return found

    def _folder_of(self, predicate: str) -> Path:
        return self.folder / quote(predicate, safe=" ")

    def _schema_of(self, predicate: str) -> Any:
        return to_arrow_schema(self.predicates[predicate], timezone="UTC")


class _File:
    """A Parquet file that is being written, under a name that readers leave out."""

    def __init__(self, folder: Path, schema: Any, run: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{HIDDEN}part-{run}-{uuid.uuid4().hex}.parquet"
        self.schema = schema
        self.rows = 0
        self._writer = pq.ParquetWriter(self.path, schema, compression="snappy")

    def write(self, rows: Any) -> None:
        """Write structs, a column for each field."""
        columns = [array.cast(field.type) for array, field in zip(rows.flatten(), self.schema, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        self.rows += len(rows)

    def close(self) -> tuple[str, int]:
        """Return the name of the complete file, and how many rows it has."""
        self._writer.close()
        return self.path.name, self.rows

    def remove(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._writer.close()
        self.path.unlink(missing_ok=True)
