"""The facts of several relations in one frame, so that one job serves all rules of a round.

Columns: `tag`, the relation's place; `rule`, the number of the rule that derived the fact, the lowest of
several, or STATED; `c0`, `c1`… ids; `t0`, `t1`… texts of terms that are new, where rules compute some.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.spark.frames import Heads
from tidelog.engine.spark.store import columns_of, union
from tidelog.engine.spark.terms import ID, TERM

STATED = -1  # the rule of facts that are explicit
TAG, RULE = "tag", "rule"


@dataclass(frozen=True, slots=True)
class Tagging:
    """Relations that share frames: their names and arities."""

    relations: tuple[str, ...]
    arities: tuple[int, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of ids."""
        return columns_of(max(self.arities))

    def texts(self, heads: Iterable[Heads]) -> list[str]:
        """The columns of texts that some heads need."""
        return [f"t{place}" for place in sorted({place for head in heads for place in head.fresh})]

    def tagged(self, relation: str, frame: DataFrame, rule: int, texts: Sequence[str]) -> DataFrame:
        """Facts of one relation that a rule derived, or that are explicit."""
        tag = self.relations.index(relation)
        known = set(columns_of(self.arities[tag]))
        there = set(frame.columns)
        return frame.select(
            sql.lit(tag).alias(TAG),
            sql.lit(rule).alias(RULE),
            *(sql.col(name) if name in known else _zero().alias(name) for name in self.columns),
            *(sql.col(text) if text in there else _nothing().alias(text) for text in texts),
        )

    def merged(self, frames: Sequence[DataFrame], texts: Sequence[str]) -> DataFrame:
        """Each fact once."""
        found = [sql.max(text).alias(text) for text in texts]
        return union(frames).groupBy(TAG, *self.columns).agg(sql.min(RULE).alias(RULE), *found)

    def without(self, frame: DataFrame, known: DataFrame, is_small: bool) -> DataFrame:
        """The facts of a frame that are not known."""
        keys = known.select(TAG, *self.columns)
        return frame.join(sql.broadcast(keys) if is_small else keys, [TAG, *self.columns], "left_anti")

    def only(self, frame: DataFrame, relation: str) -> DataFrame:
        """The facts of one relation."""
        tag = self.relations.index(relation)
        if len(self.relations) > 1:
            frame = frame.where(sql.col(TAG) == tag)
        return frame.select(*columns_of(self.arities[tag]))


def numbered(frames: Sequence[tuple[DataFrame, int]]) -> DataFrame:
    """The facts of frames of so many columns in one, each with the place of its frame as tag."""
    width = max(arity for _, arity in frames)
    return union(
        frame.select(
            sql.lit(place).alias(TAG),
            *columns_of(arity),
            *(_zero().alias(name) for name in columns_of(width)[max(arity, 1) :]),
        )
        for place, (frame, arity) in enumerate(frames)
    )


def new_terms(frame: DataFrame, texts: Sequence[str]) -> DataFrame:
    """The terms that a frame's columns of texts hold, with their ids; some may be repeated."""
    pairs = [sql.struct(sql.col(f"c{text[1:]}").alias(ID), sql.col(text).alias(TERM)) for text in texts]
    exploded = frame.select(sql.explode(sql.array(*pairs)).alias("pair")).select("pair.*")
    return exploded.where(sql.col(TERM).isNotNull())


def count_by_rule(rules: Collection[int]) -> list[Column]:
    """How many facts each rule derived, under the names `r0`, `r1`…"""
    return [sql.count(sql.when(sql.col(RULE) == rule, 1)).alias(f"r{rule}") for rule in rules]


def count_by_relation(tagging: Tagging) -> list[Column]:
    """How many facts each relation has, under the names `p0`, `p1`…"""
    places = range(len(tagging.relations))
    return [sql.count(sql.when(sql.col(TAG) == place, 1)).alias(f"p{place}") for place in places]


def _zero() -> Column:
    return sql.lit(0).cast("long")


def _nothing() -> Column:
    return sql.lit(None).cast("string")
