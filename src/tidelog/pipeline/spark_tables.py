"""The files of tables, written and read by executors: what a version holds need not fit the driver.

The files are those of `tables`, as many of a table as there are tasks that have rows of it. A task that
fails, or runs twice, leaves files that no version names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.durable import sync_file, sync_folder
from tidelog.engine.columnar.arrow import array_of, numbers_of
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.exact import ids_of_terms
from tidelog.engine.spark.arrivals import Encoder, differences, schema_of, small_enough, terms_in
from tidelog.engine.spark.compute import MANY_TERMS
from tidelog.engine.spark.engine import SparkEngine
from tidelog.engine.spark.frames import Source
from tidelog.engine.spark.store import columns_of, difference
from tidelog.engine.spark.tagging import TAG, numbered
from tidelog.engine.spark.terms import TERM, Hashing, Identities, numbers
from tidelog.equality.listing import aliases_of
from tidelog.io.columns import Batch, Column
from tidelog.io.formats import file_name
from tidelog.logic.program import EQUAL, Predicate
from tidelog.logic.values import ColumnType, Kind
from tidelog.maintenance.maintainer import Rows
from tidelog.pipeline.elsewhere import Elsewhere, standing
from tidelog.pipeline.manifest import BASE, Part, Parts, Table
from tidelog.pipeline.stored import to_table, types_of
from tidelog.pipeline.tables import FACTS, Changed, TableReader, count_rows, read_part
from tidelog.relation import column_names
from tidelog.rewrite.over_representatives import stored as stored_name

SUFFIX = ".parquet"
WRITTEN = "tag int, path string, rows long, types string"


# ---- writing


@dataclass(frozen=True)
class Wanted:
    """Facts on Spark that are to be written, and what the table is called."""

    kind: str
    name: str
    columns: tuple[str, ...]  # what the table calls them
    arity: int
    frame: DataFrame = field(compare=False)

    @property
    def file(self) -> str:
        """The name of its files, without what tells one from another."""
        return file_name(f"{self.name}.{BASE}", "parquet").removesuffix(SUFFIX)


def wanted_tables(elsewhere: Elsewhere, tables: Iterable[tuple[str, Predicate]]) -> list[Wanted]:
    """Those of tables, of facts or of explicit ones, that lie on Spark and have rows."""
    wanted = []
    for kind, predicate in tables:
        name = predicate.name
        if elsewhere.has(kind, name):
            found = elsewhere.source(kind, name)
            if found.rows:
                columns = column_names(predicate)
                wanted.append(Wanted(kind, name, columns, predicate.arity, found.frame))
    return wanted


def write_tables(engine: SparkEngine, path: Path, folder: Path, wanted: Sequence[Wanted]) -> list[Parts]:
    """The files of each table, in a version's folder below a published one, all written by one job."""
    store = engine.store
    store.settle_terms()
    for kind in {each.kind for each in wanted}:
        (folder / kind).mkdir(parents=True, exist_ok=True)
    tagged = numbered([(each.frame, each.arity) for each in wanted])
    width = max(each.arity for each in wanted)
    stems = tuple(str(folder.resolve() / each.kind / each.file) for each in wanted)
    write = WriteTables(stems, tuple(each.columns for each in wanted), tuple(each.arity for each in wanted))
    places = range(width)
    texts = engine.with_texts(tagged, [f"c{place}" for place in places], [f"t{place}" for place in places])
    sorted_texts = texts.sortWithinPartitions(TAG)
    rows = store.jobs.run(f"writing {len(wanted)} tables", sorted_texts.mapInArrow(write, WRITTEN).collect)
    for kind in {each.kind for each in wanted}:
        sync_folder(folder / kind)
    parts: list[list[Part]] = [[] for _ in wanted]
    for row in sorted(rows, key=lambda row: str(row["path"])):
        types = tuple(ColumnType(name) for name in json.loads(row["types"]))
        place = str(Path(row["path"]).relative_to(path.resolve()))
        parts[row[TAG]].append(Part(place, BASE, row["rows"], types))
    return [tuple(some) for some in parts]


@dataclass
class _File:
    """A file that is being written. Mutates itself."""

    path: str
    writer: Any
    rows: int = 0


@dataclass(frozen=True)
class WriteTables:
    """What executors do: write rows with their texts, which come in the order of their tags, to files.

    Rows of a table that are stored by other types than those before go to another file.
    """

    stems: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    arities: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files: dict[tuple[int, tuple[ColumnType, ...]], _File] = {}
        dictionary = Dictionary()
        for batch in batches:
            if len(dictionary) > MANY_TERMS:
                dictionary = Dictionary()
            tags = numbers_of(batch.column(TAG), "int32")
            for tag in np.unique(tags).tolist():
                own = batch.take(array_of(np.flatnonzero(tags == tag)))
                self._write(tag, self._rows(own, self.arities[tag], dictionary), dictionary, files)
        yield from self._ended(files)

    def _rows(self, batch: pa.RecordBatch, arity: int, dictionary: Dictionary) -> Rows:
        pairs = ((batch.column(f"c{place}"), batch.column(f"t{place}")) for place in range(arity))
        columns = (_ids(numbers_of(column, "int64"), texts, dictionary) for column, texts in pairs)
        return Rows(tuple(columns), batch.num_rows)

    def _write(
        self, tag: int, rows: Rows, dictionary: Dictionary, files: dict[tuple[int, Any], _File]
    ) -> None:
        types = types_of(rows, dictionary)
        table = to_table(rows, dictionary, self.columns[tag], types)
        file = files.get((tag, types))
        if file is None:
            context = TaskContext.get()
            task = f"{context.partitionId()}-{context.taskAttemptId()}-{len(files)}" if context else "0"
            path = f"{self.stems[tag]}.{task}{SUFFIX}"
            file = files[tag, types] = _File(path, pq.ParquetWriter(path, table.schema, compression="zstd"))
        file.writer.write_table(table)
        file.rows += rows.count

    def _ended(self, files: dict[tuple[int, tuple[ColumnType, ...]], _File]) -> Iterator[pa.RecordBatch]:
        for (tag, types), file in files.items():
            file.writer.close()
            sync_file(Path(file.path))
            told = [tag, file.path, file.rows, json.dumps([kind.value for kind in types])]
            arrays = [
                pa.array([value], kind)
                for value, kind in zip(told, (pa.int32(), pa.string(), pa.int64(), pa.string()), strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=[TAG, "path", "rows", "types"])


def _ids(identities: Identities, texts: pa.Array, dictionary: Dictionary) -> npt.NDArray[np.int32]:
    """The ids in a dictionary of terms, whose texts are given but for whole numbers."""
    distinct, first, places = np.unique(identities, return_index=True, return_inverse=True)
    ids = np.empty(len(distinct), np.int32)
    is_whole = distinct < 0
    ids[is_whole] = dictionary.encode_numbers(Kind.INTEGER, numbers(distinct[is_whole]))
    ids[~is_whole] = ids_of_terms(texts.take(array_of(first[~is_whole])), dictionary)
    return ids[places]


# ---- reading


def read_tables(engine: SparkEngine, path: Path, tables: Sequence[Parts], width: int) -> DataFrame:
    """The rows of files of tables as arrivals, each with its table's place as tag."""
    session = engine.store.session
    parts = [(tag, part) for tag, some in enumerate(tables) for part in some]
    read = ReadTables(path.resolve(), tuple(parts), width, engine.store.hashing)
    tasks = min(len(parts), 4 * session.sparkContext.defaultParallelism)
    return session.range(0, len(parts), 1, max(1, tasks)).mapInArrow(read, schema_of(width))


@dataclass(frozen=True)
class ReadTables:
    """What executors do: read the files whose numbers come, as arrivals."""

    path: Path
    parts: tuple[tuple[int, Part], ...]
    width: int
    hashing: Hashing

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        encoder = Encoder(self.width, self.hashing)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                tag, part = self.parts[number]
                for some in read_part(self.path, part).to_batches():
                    yield from encoder.encode(tag, _batch(some, part.types))


def _batch(stored: pa.RecordBatch, types: Sequence[ColumnType]) -> Batch:
    if not types:
        return Batch((), min(stored.num_rows, 1))
    columns = [Column(kind, column) for kind, column in zip(types, stored.columns, strict=True)]
    return Batch(tuple(columns), stored.num_rows)


class StoredTables:
    """Tables of a published folder, as frames; base files are read by one job, changes here."""

    def __init__(self, engine: SparkEngine, path: Path, tables: Sequence[tuple[Parts, int]]) -> None:
        self._engine = engine
        self._reader = TableReader(path, engine)
        self._tables = tables
        store = engine.store
        width = max(arity for _, arity in tables)
        bases = [tuple(part for part in parts if part.role == BASE) for parts, _ in tables]
        read = read_tables(engine, path, bases, width).persist()
        self._kept = read.where(sql.col(TAG) >= 0).drop(TERM).sortWithinPartitions(TAG).persist()
        store.jobs.run(f"reading {len(tables)} tables", self._kept.count)
        store.add_terms(terms_in(read), 0)
        store.settle_terms()
        read.unpersist()

    def hold(self) -> None:
        """Let the tables be kept as long as the engine is there."""
        self._engine.store.hold(self._kept)

    def let_go(self) -> None:
        """Let the tables not be kept any longer."""
        self._kept.unpersist()

    def __getitem__(self, place: int) -> Source:
        """The rows of a table."""
        parts, arity = self._tables[place]
        columns = columns_of(arity)
        frame = self._kept.where(sql.col(TAG) == place).select(*columns)
        changed = self._reader.changes(parts, arity)
        store = self._engine.store
        if changed.removed.count:
            gone = store.lifted(changed.removed.columns, changed.removed.count)
            is_few = changed.removed.count <= self._engine.settings.broadcast_rows
            frame = difference(frame, gone, columns, is_few)
        if changed.added.count:
            frame = frame.unionAll(store.lifted(changed.added.columns, changed.added.count))
        return Source(frame, count_rows(parts))


def restore_tables(
    engine: SparkEngine, path: Path, tables: Mapping[str, Table], is_listed: bool
) -> Collection[str]:
    """Let the large tables of a version lie on Spark, if not all can come to the driver; those that do.

    Where facts are listed that are kept over representatives, the classes come to the driver.
    """
    rows = {name: table.rows for name, table in tables.items()}
    if sum(rows.values()) <= engine.settings.resident_facts:
        return ()
    home = small_enough(engine, rows)
    names = [name for name in tables if rows[name] and name not in home]
    if is_listed:
        names = [name for name in names if name != EQUAL]
    if not names:
        return ()
    aliases = _aliases(engine, path, tables) if is_listed else None
    found = [tables[name] for name in names]
    parts = [(table.facts, len(table.columns)) for table in found]
    parts += [(table.stated or (), len(table.columns)) for table in found]
    stored = StoredTables(engine, path, parts)
    for place, (name, table) in enumerate(zip(names, found, strict=True)):
        engine.define(name, len(table.columns))
        facts = stored[place]
        stated = facts if table.stated is None else stored[len(names) + place] if table.stated else None
        if aliases is None:
            engine.keep(name, facts.frame, table.rows, stated)
        else:
            _keep_over_representatives(engine, name, facts, stated, aliases)
    stored.hold()
    return names


def _aliases(engine: SparkEngine, path: Path, tables: Mapping[str, Table]) -> Rows:
    """The members of classes that do not stand for themselves, with those that do."""
    classes = tables.get(EQUAL)
    return aliases_of(None if classes is None else TableReader(path, engine).rows(classes.facts, 2))


def _keep_over_representatives(
    engine: SparkEngine, name: str, facts: Source, stated: Source | None, aliases: Rows
) -> None:
    """Let the explicit facts of a predicate lie on Spark, and all facts over representatives."""
    arity = engine.arity(name)
    if stated is not None:
        engine.keep(name, stated.frame, int(stated.rows), stated)
    found = standing(engine, facts.frame, arity, aliases)
    engine.define(stored_name(name), arity)
    engine.keep(stored_name(name), found.frame, int(found.rows), None)


def differences_of(
    elsewhere: Elsewhere, path: Path, tables: Sequence[tuple[str, Table]], of: str
) -> dict[str, Changed]:
    """What the facts on Spark, or those that are explicit, differ in from published tables."""
    if not tables:
        return {}
    engine = elsewhere.engine
    parts = [table.facts if of == FACTS else table.explicit for _, table in tables]
    stored = StoredTables(
        engine, path, [(some, len(table.columns)) for some, (_, table) in zip(parts, tables, strict=True)]
    )
    pairs = []
    for place, (name, table) in enumerate(tables):
        pairs.append((stored[place], elsewhere.source(of, name), len(table.columns)))
    found = differences(engine, pairs, "what differs from the last version")
    stored.let_go()
    return {
        name: Changed(Rows(*gone), Rows(*come)) for (name, _), (gone, come) in zip(tables, found, strict=True)
    }
