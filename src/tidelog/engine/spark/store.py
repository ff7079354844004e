"""Between the driver and Spark: frames of ids, the dictionary of their terms. Mutates itself.

The driver's ids are 32 bits, dense, of its columnar dictionary; those on Spark 64 bits, see `terms`. The
store knows for every id of the driver whether Spark's dictionary has its term.
"""

from __future__ import annotations

import tempfile
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from tidelog.engine.columnar.arrow import array_of, mask_of, numbers_of
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.exact import ids_of_terms
from tidelog.engine.spark import terms
from tidelog.engine.spark.directory import Directory
from tidelog.engine.spark.jobs import Jobs
from tidelog.engine.spark.settings import SparkSettings
from tidelog.engine.spark.terms import ID, TERM, Hashing, Identities
from tidelog.logic.values import Kind, Value
from tidelog.spark.scratch import scratch_folder

Ids = npt.NDArray[np.int32]
Fetched = tuple[tuple[Ids, ...], int]  # columns of the driver's ids, and how many rows they have
FEW = 20_000  # rows that go to Spark in a message, not in a file


def columns_of(arity: int) -> list[str]:
    """The names of a frame's columns; a relation without arguments has one column that is always 0."""
    return [f"c{place}" for place in range(max(arity, 1))]


class Store:
    """The border between a columnar dictionary and the frames of one session."""

    def __init__(
        self,
        settings: SparkSettings,
        session: SparkSession,
        dictionary: Dictionary,
        check: Callable[[], None],
    ) -> None:
        self.settings = settings
        # A session of its own: what it sets does not concern the session that was given.
        self.session = session.newSession()
        self.session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100_000)
        context = session.sparkContext
        self.partitions = settings.partitions or max(2, context.defaultParallelism)
        self.jobs = Jobs(self.session, check)
        self.hashing = Hashing(settings.salt)
        self.dictionary = dictionary
        self.terms = 0  # about how many terms Spark's dictionary has, at most
        self._whole: DataFrame | None = None  # Spark's dictionary, but for
        self._parts: list[DataFrame] = []  # … what has come since
        self._pending: dict[int, str] = {}  # … and what only the driver knows
        self._wide = np.zeros(0, np.int64)  # Spark's id of each of the driver's
        self._is_wide = np.zeros(0, np.bool_)
        self._directory = Directory()  # … and the driver's of Spark's
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._held: list[DataFrame] = []
        unpersist_left()
        weakref.finalize(self, _LEFT.extend, self._held).atexit = False

    def hold(self, frame: DataFrame) -> None:
        """Let a frame, which is kept by executors, be let go when the store is."""
        self._held.append(frame)

    # ---- from the driver to Spark

    def identity(self, value: Value) -> int:
        """Spark's id of a value."""
        return int(self.widened(np.array([self.dictionary.encode(value)], np.int32))[0])

    def widened(self, ids: Ids) -> Identities:
        """Spark's ids of the driver's; terms that are new there go into its dictionary."""
        self._widen(ids)
        return self._wide[ids]

    def _make_room(self) -> None:
        """Let there be a place for Spark's id of each of the driver's."""
        size, known = len(self.dictionary), len(self._wide)
        if size > known:
            self._wide = np.concatenate((self._wide, np.zeros(2 * size - known, np.int64)))
            self._is_wide = np.concatenate((self._is_wide, np.zeros(2 * size - known, np.bool_)))

    def _widen(self, ids: Ids) -> None:
        self._make_room()
        new = np.unique(ids[~self._is_wide[ids]])
        if not len(new):
            return
        is_whole = terms.are_whole(self.dictionary, new)
        whole, others = new[is_whole], new[~is_whole]
        self._wide[whole] = terms.number_identities(self.dictionary.payload[whole])
        if len(others):
            texts = terms.exact_texts(self.dictionary, others)
            identities = terms.identities_of(texts, self.hashing)
            self._wide[others] = identities
            self._directory.add(identities, others)
            self._pend(identities, texts)
        self._is_wide[new] = True

    def _pend(self, identities: Identities, texts: pa.Array) -> None:
        self.terms += len(identities)
        if len(identities) > FEW:
            self._parts.append(self.frame_of([array_of(identities), texts], [ID, TERM]))
            return
        for identity, text in zip(identities.tolist(), texts.to_pylist(), strict=True):
            if self._pending.setdefault(identity, text) != text:
                message = f"{terms.COLLISION}: {self._pending[identity]} | {text}"
                raise terms.collision(ValueError(message)) or AssertionError

    def lifted(self, columns: Sequence[Ids], rows: int) -> DataFrame:
        """Rows of the driver's ids as a frame."""
        arrays = [array_of(self.widened(column)) for column in columns]
        return self.frame_of(arrays or [array_of(np.zeros(rows, np.int64))], columns_of(len(columns)))

    def frame_of(self, arrays: Sequence[Any], names: Sequence[str]) -> DataFrame:
        """Arrow columns as a frame: in a message if they are short, else in a file."""
        table = pa.Table.from_arrays(list(arrays), names=list(names))
        if table.num_rows <= FEW or not self._has_files:
            return self.session.createDataFrame(table)
        path = Path(self.folder) / f"{uuid4().hex}.parquet"
        pq.write_table(
            table, path, compression="none", row_group_size=max(1, -(-len(table) // self.partitions))
        )
        return self.session.read.parquet(str(path))

    @property
    def _has_files(self) -> bool:
        """Whether executors see the driver's files."""
        return bool(self.settings.scratch) or str(self.session.sparkContext.master).startswith("local")

    @property
    def folder(self) -> str:
        """A folder that goes when the store goes."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                dir=self.settings.scratch or scratch_folder(), ignore_cleanup_errors=True
            )
        return self._folder.name

    def adopted(self, frame: DataFrame) -> DataFrame:
        """A frame of another session as one of this."""
        return moved(frame, self.session)

    def empty(self, arity: int) -> DataFrame:
        """A frame without rows."""
        return self.session.createDataFrame([], ", ".join(f"{name} long" for name in columns_of(arity)))

    # ---- the dictionary

    def add_terms(self, frame: DataFrame, count: int) -> None:
        """Let the dictionary have the terms of a frame of ids and terms, at most so many."""
        self._parts.append(frame)
        self.terms += count

    @property
    def lexicon(self) -> DataFrame | None:
        """Spark's dictionary, each id once; None if there are no terms. Evaluating it finds collisions."""
        if self._pending:
            pending = list(self._pending.items())
            self._pending = {}
            arrays = [pa.array([pair[0] for pair in pending]), pa.array([pair[1] for pair in pending])]
            self._parts.append(self.frame_of(arrays, [ID, TERM]))
        parts = [*([self._whole] if self._whole is not None else []), *self._parts]
        if not parts:
            return None
        return self._whole if parts == [self._whole] else terms.united(parts)

    def settle_terms(self) -> None:
        """Check the dictionary for collisions and keep it, if something has come since the last time."""
        if not self._parts and not self._pending:
            return
        lexicon = self.lexicon
        assert lexicon is not None
        before = self._whole
        whole = lexicon.persist()
        self.terms = self.jobs.run("checking the dictionary", whole.count)
        self._whole, self._parts = whole, []
        if before is not None:
            before.unpersist()

    # ---- from Spark to the driver

    def fetched(self, frame: DataFrame, arity: int, description: str) -> tuple[tuple[Ids, ...], int]:
        """The rows of a frame in the driver's ids, and how many they are."""
        table = self.jobs.run(description, lambda: frame.select(*columns_of(arity)).toArrow())
        if not arity:
            return (), min(table.num_rows, 1)
        columns = [
            numbers_of(column.combine_chunks(), "int64") if column.num_chunks else np.zeros(0, np.int64)
            for column in table.columns
        ]
        return tuple(self.narrowed(columns)), table.num_rows

    def fetched_apart(self, frame: DataFrame, arities: Sequence[int], description: str) -> list[Fetched]:
        """The rows of each tag of a frame with tags, in the driver's ids, all in one job."""
        table = self.jobs.run(description, frame.toArrow)
        tags, *columns = (
            numbers_of(column.combine_chunks().cast(pa.int64()), "int64") for column in table.columns
        )
        places = [np.flatnonzero(tags == tag) for tag in range(len(arities))]
        wide = [
            columns[place][rows]
            for rows, arity in zip(places, arities, strict=True)
            for place in range(arity)
        ]
        narrow = iter(self.narrowed(wide) if wide else ())
        return [
            (tuple(islice(narrow, arity)), len(rows) if arity else min(len(rows), 1))
            for rows, arity in zip(places, arities, strict=True)
        ]

    def narrowed(self, columns: Sequence[Identities]) -> list[Ids]:
        """The driver's ids of Spark's; terms that the driver does not know are fetched."""
        distinct = np.unique(np.concatenate(columns))
        narrow = np.empty(len(distinct), np.int32)
        is_whole = distinct < 0
        whole = terms.numbers(distinct[is_whole])
        narrow[is_whole] = self.dictionary.encode_numbers(Kind.INTEGER, whole)
        narrow[~is_whole] = self._narrow_terms(distinct[~is_whole])
        return [narrow[np.searchsorted(distinct, column)] for column in columns]

    def _narrow_terms(self, identities: Identities) -> Ids:
        narrow = self._directory.find(identities)
        missing = narrow < 0
        if missing.any():
            narrow[missing] = self._fetch_terms(identities[missing])
        return narrow

    def _fetch_terms(self, identities: Identities) -> Ids:
        """The driver's ids of terms that it does not know yet."""
        lexicon = self.lexicon
        assert lexicon is not None, "an id is that of a term"
        is_most = 2 * len(identities) >= self.terms  # all of them come sooner than chosen ones
        if not is_most:
            wanted = self.frame_of([array_of(identities)], ["wanted"])
            lexicon = lexicon.join(sql.broadcast(wanted), lexicon[ID] == wanted["wanted"], "left_semi")
        table = self.jobs.run("fetching terms", lexicon.toArrow).sort_by(ID)
        if is_most:
            there = numbers_of(table.column(ID).combine_chunks(), "int64")
            table = table.filter(mask_of(np.isin(there, identities, assume_unique=True)))
        if table.num_rows != len(identities):
            raise RuntimeError(f"{len(identities) - table.num_rows} ids on Spark have no term")
        narrow = ids_of_terms(table.column(TERM).combine_chunks(), self.dictionary)
        self._make_room()
        self._wide[narrow] = identities
        self._is_wide[narrow] = True
        self._directory.add(identities, narrow)
        return narrow


def moved(frame: DataFrame, session: SparkSession) -> DataFrame:
    """A frame as one of another session.

    A query belongs to the session of its first frame, and tells observations to that session only: whoever
    waits for one of a frame of another session waits for ever. And what a session knows of a table it learns
    by its own queries.
    """
    name = f"tidelog_{uuid4().hex}"
    frame.createGlobalTempView(name)
    try:
        return session.table(f"{session.conf.get('spark.sql.globalTempDatabase')}.{name}")
    finally:
        session.catalog.dropGlobalTempView(name)


# Frames of stores that are gone. Garbage collection may come in the midst of a call of Java, which cannot be
# called again then: they are unpersisted when the next store is made.
_LEFT: deque[DataFrame] = deque()


def unpersist_left() -> None:
    """Unpersist the frames of stores that are gone."""
    while _LEFT:
        with suppress(Exception):  # the session may be gone
            _LEFT.popleft().unpersist()


def difference(frame: DataFrame, other: DataFrame, columns: Sequence[str], is_small: bool) -> DataFrame:
    """The rows of a frame that another does not have; the other is sent to all executors if it is small."""
    taken = other.select(*columns)
    return frame.join(sql.broadcast(taken) if is_small else taken, list(columns), "left_anti")


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns."""
    first, *others = frames
    for other in others:
        first = first.unionAll(other)
    return first
