"""Equal constants on Spark: classes that are too many for the driver, and facts shown for all members.

A class lies in the relation of aliases, which has a row of member and representative for each constant that
does not stand for itself. See `stars` for how classes are found. Mutates itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sql

from tidelog.engine.columnar.arrow import array_of, numbers_of
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.events import Notice
from tidelog.engine.spark.compute import batch_of, local_ids
from tidelog.engine.spark.frames import Source
from tidelog.engine.spark.maintained import MaintainedOnSpark
from tidelog.engine.spark.stars import edges_of, stars
from tidelog.engine.spark.store import columns_of, union
from tidelog.logic.values import Kind

Ids = npt.NDArray[np.int32]
CLASS, MEMBER, TEXT = "c0", "c1", "t1"
IS_LITERAL, IS_NAME = "is_literal", "is_name"


class EqualityOnSpark(MaintainedOnSpark):
    """Relations on Spark, of which some hold what is equal."""

    def merge_classes(self, alias: str, equal: str, groups: Sequence[str]) -> int | None:
        """Let what is equal by pairs, or by sharing a key, be one class; returns how many pairs there were.

        None, and nothing is done, if all of it fits the driver. Keys are all columns of a group but the last.
        """
        many = sum(map(self.size, (equal, *groups)))
        if many <= self.settings.driver_facts and not self.size(alias):
            return None
        pairs = union([_pairs(self.source(equal).frame), *(self._neighbours(group) for group in groups)])
        store = self.store
        edges = store.jobs.run("pairs of equal constants", pairs.distinct().localCheckpoint)
        count = int(store.jobs.run("counting pairs of equal constants", edges.count))
        if not count:
            return 0
        self.tell(Notice(f"{count:,} pairs of equal constants: their classes are found on Spark"))
        known = [_pairs(self.source(alias).frame)] if self.size(alias) else []
        found, _ = stars(union([edges, *known]), store.jobs, self.check)
        rows = store.jobs.run("counting members of classes", found.count)
        self.keep(alias, found, rows, Source(found, rows))
        return count

    def _neighbours(self, group: str) -> DataFrame:
        """Pairs by which all constants with one key hang together."""
        *keys, constant = columns_of(self.arity(group))
        frame = self.source(group).frame
        if keys:
            least = sql.min(constant).over(Window.partitionBy(*keys))
            return edges_of(frame.withColumn("least", least), sql.col(constant), sql.col("least"))
        whole = frame.crossJoin(frame.agg(sql.min(constant).alias("least")))
        return edges_of(whole, sql.col(constant), sql.col("least"))

    def conflicting_classes(self, alias: str, unique_names: bool) -> Ids:
        """The representatives of classes that have two literals, or two names that must be unique."""
        aliases = self.source(alias).frame
        members = aliases.select(sql.col("c1").alias(CLASS), sql.col("c0").alias(MEMBER))
        selves = aliases.select(sql.col("c1").alias(CLASS), sql.col("c1").alias(MEMBER)).distinct()
        frame = self.with_texts(members.unionAll(selves), [MEMBER], [TEXT])
        schema = f"{CLASS} long, {IS_LITERAL} long, {IS_NAME} long"
        kinds = frame.mapInArrow(Kinds(), schema).groupBy(CLASS)
        counted = kinds.agg(sql.sum(IS_LITERAL).alias(IS_LITERAL), sql.sum(IS_NAME).alias(IS_NAME))
        is_wrong = sql.col(IS_LITERAL) > 1
        if unique_names:
            is_wrong = is_wrong | (sql.col(IS_NAME) > 1)
        [found], _ = self.store.fetched(counted.where(is_wrong), 1, "classes that must not be one")
        return found

    def with_members(self, frame: DataFrame, arity: int, alias: str) -> DataFrame:
        """The rows of a frame with every constant replaced by all members of its class."""
        for place in range(arity):
            column = f"c{place}"
            aliases = self.source(alias).frame.select(
                sql.col("c0").alias("member"), sql.col("c1").alias("stands for")
            )
            joined = frame.join(aliases, sql.col(column) == sql.col("`stands for`"))
            others = [
                sql.col("member").alias(name) if name == column else sql.col(name) for name in frame.columns
            ]
            frame = frame.unionAll(joined.select(*others))
        return frame

    def with_renamed(self, frame: DataFrame, arity: int, pairs: Sequence[Ids]) -> DataFrame:
        """The rows of a frame with each constant that is the first of a pair replaced by the other one."""
        renamed = self.store.lifted(pairs, len(pairs[0])).toDF("one", "other")
        for place in range(arity):
            column = sql.col(f"c{place}")
            joined = frame.join(renamed, column == sql.col("one"), "left")
            frame = joined.withColumn(f"c{place}", sql.coalesce("other", column)).drop("one", "other")
        return frame


def _pairs(frame: DataFrame) -> DataFrame:
    return edges_of(frame, sql.col("c0"), sql.col("c1"))


@dataclass(frozen=True, slots=True)
class Kinds:
    """Of each member of a class whether it is a literal, and whether it is a name. Sent to executors."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            dictionary = Dictionary()
            ids = local_ids(dictionary, numbers_of(batch.column(MEMBER), "int64"), batch.column(TEXT))
            kinds = dictionary.kind[ids]
            is_name = kinds == Kind.IRI
            is_literal = ~is_name & (kinds != Kind.BLANK)
            yield batch_of(
                [
                    (CLASS, batch.column(CLASS)),
                    (IS_LITERAL, array_of(is_literal.astype(np.int64))),
                    (IS_NAME, array_of(is_name.astype(np.int64))),
                ]
            )
