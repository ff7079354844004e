"""Parquet files that tasks write: a folder for each predicate, and names that readers skip.

They lie on a disk, or where else a file system of Arrow reaches; Spark's own need not. Knows no Spark.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from tidelog.io.atomic import replacing

HIDDEN: Final = "."  # Spark skips files whose names begin so
FILES: Final = " files"  # the output that says which files were written; no predicate is called so
COLUMNS: Final = ("predicate", "file", "rows")  # its columns
MANIFEST: Final = "_manifest.json"  # skipped, too
ROWS: Final = 1 << 20  # of a row group
READ: Final = 1 << 16  # rows that are read at once


@dataclass(frozen=True)
class StateFolder:
    """Where a task writes the store of its reasoner, and which transaction of which application it is."""

    path: str  # what follows this name is different for each attempt
    app: str
    number: int


@dataclass(frozen=True)
class Target:
    """Where the files of one run go, and the schema of each predicate.

    They are hidden until a last task has renamed them, unless a log of commits says which files count. With a
    `state`, a task that holds all facts writes the store of its reasoner there, too.
    """

    folder: str
    run: str  # by which the files of this run are known, those too that a failed task leaves behind
    schemas: Mapping[str, Any]  # Arrow's, by predicate
    prefix: str = HIDDEN
    rows: int | None = None  # most rows of a file
    state: StateFolder | None = None
    folders: Mapping[str, str] = field(default_factory=dict)  # of predicates, if not below `folder`
    filesystem: Any = field(default_factory=pafs.LocalFileSystem, repr=False)  # Arrow's; may have secrets

    def folder_of(self, predicate: str) -> str:
        """Return the folder of a predicate, as the file system takes it."""
        found = self.folders.get(predicate)
        return str(Path(self.folder, quote(predicate, safe=" "))) if found is None else found

    def remove_unfinished(self) -> None:
        """Remove files of this run that are not read: of tasks that died, or that Spark ran twice."""
        for predicate in self.schemas:
            for left in Path(self.folder_of(predicate)).glob(f"{HIDDEN}part-{self.run}-*"):
                left.unlink(missing_ok=True)

    def file_of(self, predicate: str) -> File:
        """Return a new file of a predicate."""
        folder, schema = self.folder_of(predicate), self.schemas[predicate]
        return File(folder, schema, self.run, self.prefix, self.filesystem)

    def write(self, predicate: str, parts: Iterable[tuple[Sequence[Any], int]]) -> Iterator[tuple[str, int]]:
        """Write columns and their rows after others; yield the name of each file and its rows.

        A file has at most `rows` rows, if that is said.
        """
        file = self.file_of(predicate)
        try:
            for columns, rows in parts:
                for start in range(0, max(rows, 1), self.rows or max(rows, 1)):
                    if self.rows is not None and file.rows + min(rows - start, self.rows) > self.rows:
                        yield file.close(), file.rows
                        file = self.file_of(predicate)
                    count = rows - start if self.rows is None else min(self.rows, rows - start)
                    file.write([column.slice(start, count) for column in columns], count)
            yield file.close(), file.rows
        except BaseException:
            file.remove()
            raise


class File:
    """A Parquet file that is being written. Mutable."""

    def __init__(self, folder: str, schema: Any, run: str, prefix: str, filesystem: Any) -> None:
        if isinstance(filesystem, pafs.LocalFileSystem):  # others have no folders
            filesystem.create_dir(folder, recursive=True)
        self.name = f"{prefix}part-{run}-{uuid.uuid4().hex}.parquet"
        self.schema = schema
        self.rows = 0
        self._path, self._filesystem = f"{folder}/{self.name}", filesystem
        self._writer = pq.ParquetWriter(self._path, schema, compression="snappy", filesystem=filesystem)

    def write(self, columns: Sequence[Any], rows: int) -> None:
        """Write rows, converted to the types of the schema."""
        arrays = [column.cast(field.type) for column, field in zip(columns, self.schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema), row_group_size=ROWS)
        self.rows += rows

    def close(self) -> str:
        """Complete the file, and return its name."""
        self._writer.close()
        return self.name

    def remove(self) -> None:
        """Remove the file; one that cannot be removed is named by nobody."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._filesystem.delete_file(self._path)


@dataclass(frozen=True)
class Commit:
    """What the last task of a write does: it gives files their names, and says which there are.

    Spark may run it twice, or again after it has failed at any point: what is done already is left so.
    """

    target: Target
    is_overwriting: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows that name files, once all files have their names."""
        target = self.target
        written = [tuple(row[name] for name in COLUMNS) for batch in batches for row in batch.to_pylist()]
        before = self._files_before()
        files = {} if self.is_overwriting else {name: dict(each) for name, each in before.items()}
        empty = {name for name in target.schemas if not files.get(name)} - {name for name, _, _ in written}
        for name in sorted(empty):  # it has a schema, too
            no_values = [pa.array([], field.type) for field in target.schemas[name]]
            written += [(name, *each) for each in target.write(name, [(no_values, 0)])]
        for name, hidden, rows in written:
            place = Path(target.folder_of(name), hidden)
            final = place.with_name(hidden.removeprefix(HIDDEN))
            with suppress(FileNotFoundError):  # it has its name
                place.rename(final)
            if not final.exists():
                raise FileNotFoundError(f"{final}: a file that a task has written is not there")
            files.setdefault(name, {})[final.name] = rows
        with replacing(Path(target.folder, MANIFEST)) as stream:
            stream.write(json.dumps({"files": files}, indent=1, ensure_ascii=False).encode())
        for name, old in before.items() if self.is_overwriting else ():
            for file in old.keys() - files.get(name, {}).keys():
                Path(target.folder_of(name), file).unlink(missing_ok=True)
        target.remove_unfinished()
        if written:
            columns = map(list, zip(*written, strict=True))
            yield pa.RecordBatch.from_pydict(dict(zip(COLUMNS, columns, strict=True)))

    def _files_before(self) -> dict[str, dict[str, int]]:
        try:
            manifest = json.loads(Path(self.target.folder, MANIFEST).read_bytes())
        except FileNotFoundError:
            return {}
        found: dict[str, dict[str, int]] = manifest["files"]
        return found


@dataclass(frozen=True)
class Abort:
    """What a task does when a write has failed."""

    target: Target

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Remove the files that have no names yet; yields nothing."""
        for _ in batches:
            pass
        self.target.remove_unfinished()
        yield from ()


@dataclass(frozen=True)
class WriteRows:
    """What a task does that writes rows which another stage has: rows in, the names of files out."""

    target: Target
    tag: str  # the column that says of which predicate a row is
    columns: Mapping[str, tuple[str, ...]]  # of each predicate, among those of the rows

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield a row for each file: one for each predicate that has rows."""
        files: dict[str, File] = {}
        try:
            for batch in batches:
                tags = batch.column(self.tag)
                for name in pc.unique(tags).to_pylist():
                    some = batch.filter(pc.equal(tags, name))
                    if name not in files:
                        files[name] = self.target.file_of(name)
                    files[name].write(some.select(list(self.columns[name])).columns, some.num_rows)
            closed = [(name, file.close(), file.rows) for name, file in files.items()]
        except BaseException:
            for file in files.values():
                file.remove()
            raise
        if closed:
            columns = zip(*closed, strict=True)
            yield pa.RecordBatch.from_pydict(
                {key: list(each) for key, each in zip(COLUMNS, columns, strict=True)}
            )


@dataclass(frozen=True)
class ReadFiles:
    """What a task does that reads files: the places of some among all in, their rows out."""

    paths: Sequence[str]
    schema: Any  # Arrow's
    filesystem: Any = field(repr=False)  # Arrow's; may have secrets

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of the files, in the types of the schema."""
        for place in (place for batch in batches for place in batch.column(0).to_pylist()):
            with self.filesystem.open_input_file(self.paths[place]) as stream:
                file = pq.ParquetFile(stream, pre_buffer=True)
                for rows in file.iter_batches(READ, columns=self.schema.names):
                    columns = [rows.column(each.name).cast(each.type) for each in self.schema]
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
