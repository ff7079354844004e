"""Facts that come to Spark: rows of ids and the terms in them, of many relations, in one frame.

Columns: `tag`, the relation's place among those that are read, or TERMS; `c0`, `c1`… ids, 0 beyond a
relation's arity; `term`. A row with the tag TERMS is an entry of the dictionary, its id in `c0`. Each task
tells a term once, so that texts, which are most of what is read, are neither shuffled nor kept with facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.columnar.arrow import array_of, mask_of, numbers_of
from tidelog.engine.columnar.exact import coded_terms
from tidelog.engine.spark.directory import Directory
from tidelog.engine.spark.frames import Source
from tidelog.engine.spark.settings import DRIVER_CLOSURE
from tidelog.engine.spark.store import Fetched, columns_of, difference, union
from tidelog.engine.spark.tagging import RULE, STATED, TAG, Tagging, numbered
from tidelog.engine.spark.terms import ID, TERM, Hashing, Identities, identities_of
from tidelog.io.columns import Batch

if TYPE_CHECKING:
    from tidelog.engine.spark.engine import SparkEngine

TERMS = -1  # the tag of entries of the dictionary


def once() -> str:
    """A text that no other reading has.

    Spark takes what it has kept of a plan for a plan that is the same: without such a text in its function, a
    file that is read again would be what it was the last time.
    """
    return uuid4().hex


def schema_of(width: int) -> str:
    """The columns of arrivals of relations with at most so many columns."""
    return ", ".join([f"{TAG} int", *(f"{name} long" for name in columns_of(width)), f"{TERM} string"])


@dataclass(slots=True)
class Encoder:
    """Batches of columns as arrivals, inside an executor. Mutates what it has told."""

    width: int
    hashing: Hashing
    _told: Directory = field(default_factory=Directory)

    def encode(self, tag: int, batch: Batch) -> Iterator[pa.RecordBatch]:
        """The rows of a relation, and the terms in them that were not told before."""
        ids = []
        for column in batch.columns:
            texts, places = coded_terms(column)
            identities = identities_of(texts, self.hashing)
            yield from self._tell(identities, texts)
            ids.append(identities[numbers_of(places.cast(pa.int64()), "int64")])
        yield self.arrivals(tag, ids, batch.rows)

    def _tell(self, identities: Identities, texts: pa.Array) -> Iterator[pa.RecordBatch]:
        is_new = (identities >= 0) & (self._told.find(identities) < 0)
        if is_new.any():
            self._told.add(identities[is_new], np.zeros(np.count_nonzero(is_new), np.int32))
            new = texts.filter(mask_of(is_new)).cast(pa.string())
            yield self.arrivals(TERMS, [identities[is_new]], len(new), new)

    def arrivals(
        self, tag: int, ids: Sequence[Identities], rows: int, terms: pa.Array | None = None
    ) -> pa.RecordBatch:
        """Rows with these ids."""
        names = columns_of(self.width)
        zeros = array_of(np.zeros(rows, np.int64)) if len(ids) < len(names) else None
        columns = [*map(array_of, ids), *[zeros] * (len(names) - len(ids))]
        tags = pa.repeat(pa.scalar(tag, pa.int32()), rows)
        texts = pa.nulls(rows, pa.string()) if terms is None else terms
        return pa.RecordBatch.from_arrays([tags, *columns, texts], names=[TAG, *names, TERM])


def terms_in(frame: DataFrame) -> DataFrame:
    """The entries of the dictionary among arrivals; some may be repeated."""
    return frame.where(sql.col(TAG) == TERMS).select(sql.col("c0").alias(ID), TERM)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Facts that have come, each once, and how many there are of each relation."""

    tagging: Tagging
    frame: DataFrame
    rows: dict[str, int]

    def facts(self, relation: str) -> tuple[DataFrame, int, Source]:
        """The facts of a relation, how many there are, and those of them that are explicit: all."""
        frame, rows = self.tagging.only(self.frame, relation), self.rows[relation]
        return frame, rows, Source(frame, rows)


def distinct_arrivals(
    engine: SparkEngine, frame: DataFrame, relations: Sequence[str], also: Mapping[str, Source | None]
) -> Arrivals:
    """The facts of a frame of arrivals, and others of the same relations, kept until they are let go.

    The dictionary has their terms afterwards, and the frame is not needed any more.
    """
    store = engine.store
    tagging = Tagging(tuple(relations), tuple(map(engine.arity, relations)))
    others = [
        tagging.tagged(name, facts.frame, STATED, ()).drop(RULE) for name, facts in also.items() if facts
    ]
    facts = union([frame.where(sql.col(TAG) >= 0).select(TAG, *tagging.columns), *others]).distinct()
    # Sorted, so that whoever wants one relation passes over what is kept of the others.
    kept = facts.sortWithinPartitions(TAG).persist()
    counted = store.jobs.run("each fact once", kept.groupBy(TAG).count().collect)
    store.add_terms(terms_in(frame), 0)
    store.settle_terms()
    sizes = {row[TAG]: row["count"] for row in counted}
    return Arrivals(tagging, kept, {name: sizes.get(tag, 0) for tag, name in enumerate(relations)})


def take_in(engine: SparkEngine, frame: DataFrame, relations: Sequence[str]) -> dict[str, int]:
    """Let relations have the facts of arrivals as explicit ones; returns how many explicit ones each has.

    The smallest relations, as many as may be closed there in all, come to the driver, in one job.
    """
    there = {name: engine.stated(name) for name in relations if engine.size(name)}
    arrived = distinct_arrivals(engine, frame, relations, there)
    home = small_enough(engine, arrived.rows)
    for name in relations:
        engine.drop_frame(name)
        engine.empty_table(name)
        if name not in home and arrived.rows[name]:
            engine.keep(name, *arrived.facts(name))
    tags = [relations.index(name) for name in home]
    wanted = arrived.frame.where(sql.col(TAG).isin(tags))
    found = engine.store.fetched_apart(wanted, arrived.tagging.arities, f"fetching {len(home)} relations")
    for tag in tags:
        engine.add(relations[tag], *found[tag])
    if any(map(engine.is_placed, relations)):
        engine.store.hold(arrived.frame)
    else:
        arrived.frame.unpersist()
    return arrived.rows


def changes_to(
    engine: SparkEngine, frame: DataFrame, relations: Sequence[str], also: Mapping[str, Source | None]
) -> dict[str, tuple[Fetched, Fetched]]:
    """The explicit facts of relations that are not among arrivals, and arrivals that are no explicit facts.

    They come to the driver; what is the same does not.
    """
    arrived = distinct_arrivals(engine, frame, relations, also)
    pairs = []
    for name in relations:
        arity = engine.arity(name)
        old = engine.stated(name) or Source(engine.store.empty(arity), 0)
        pairs.append((old, Source(*arrived.facts(name)[:2]), arity))
    found = differences(engine, pairs, f"what has changed in {', '.join(relations)}")
    arrived.frame.unpersist()
    return dict(zip(relations, found, strict=True))


def differences(
    engine: SparkEngine, pairs: Sequence[tuple[Source, Source, int]], description: str
) -> list[tuple[Fetched, Fetched]]:
    """Of each two sets of facts, what only the first has and what only the second has, all in one job."""
    most = engine.settings.broadcast_rows
    sides = []
    for one, other, arity in pairs:
        for mine, others in ((one, other), (other, one)):
            frame = difference(mine.frame, others.frame, columns_of(arity), others.rows <= most)
            sides.append((frame, arity))
    found = engine.store.fetched_apart(numbered(sides), [arity for _, arity in sides], description)
    return list(zip(found[::2], found[1::2], strict=True))


def small_enough(engine: SparkEngine, rows: dict[str, int]) -> list[str]:
    """The smallest of relations, as many as the driver closes in all; none if it is to close nothing."""
    preferred = engine.settings.preferred
    if preferred and DRIVER_CLOSURE not in preferred:
        return []
    chosen, total = [], 0
    for name in sorted(rows, key=lambda name: rows[name]):
        total += rows[name]
        if total > engine.settings.driver_facts:
            break
        chosen.append(name)
    return [name for name in chosen if rows[name]]
