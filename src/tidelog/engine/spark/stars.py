"""Connected components on Spark: large-star and small-star by turns, until every component is a star.

Kiveris, Lattanzi, Mirrokni, Rastogi, Vassilvitskii: Connected Components in MapReduce and Beyond, SoCC 2014,
section 3, the alternating algorithm. An edge is a row of two different ids, the greater one first.

Invariant: neither step joins or parts components. Once large-star lets every edge lead to where it led, and
small-star finds one smaller neighbour of each node, the edges are stars around the least ids.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as sql

from tidelog.engine.spark.jobs import Jobs, observed

FROM, TO = "c0", "c1"
LEAST, CHANGED = "least", "changed"


def edges_of(frame: DataFrame, first: Column, second: Column) -> DataFrame:
    """The pairs of different ids in a frame, as edges."""
    pairs = frame.where(first != second)
    return pairs.select(sql.greatest(first, second).alias(FROM), sql.least(first, second).alias(TO))


def stars(edges: DataFrame, jobs: Jobs, check: Callable[[], None]) -> tuple[DataFrame, int]:
    """The least id of each component's every other id, and how many rounds it took; each round is a job."""
    rounds = 0
    is_changed = True
    while is_changed:
        rounds += 1
        large, small = Observation(), Observation()
        made = small_star(large_star(edges, large), small)
        description = f"classes of equal constants, round {rounds} of large-star and small-star"
        edges = jobs.run(description, made.localCheckpoint)
        is_changed = any(observed(each, [CHANGED])[0] for each in (large, small))
        check()
    return edges, rounds


def large_star(edges: DataFrame, observation: Observation) -> DataFrame:
    """Every greater neighbour of a node leads to the node's least one, or to the node itself."""
    both = edges.unionAll(edges.select(sql.col(TO).alias(FROM), sql.col(FROM).alias(TO)))
    least = sql.least(FROM, sql.min(TO).over(Window.partitionBy(FROM)))
    greater = both.withColumn(LEAST, least).where(sql.col(TO) > sql.col(FROM))
    seen = greater.observe(observation, _count(sql.col(LEAST) != sql.col(FROM)))
    return seen.select(sql.col(TO).alias(FROM), sql.col(LEAST).alias(TO)).distinct()


def small_star(edges: DataFrame, observation: Observation) -> DataFrame:
    """Every node, and all its smaller neighbours, lead to the least of these."""
    least = sql.min(TO).over(Window.partitionBy(FROM))
    seen = edges.withColumn(LEAST, least).observe(observation, _count(sql.col(LEAST) != sql.col(TO)))
    node = sql.explode(sql.array(FROM, TO)).alias(FROM)
    led = seen.select(node, sql.col(LEAST).alias(TO))
    return led.where(sql.col(FROM) != sql.col(TO)).distinct()


def _count(condition: Column) -> Column:
    return sql.count(sql.when(condition, 1)).alias(CHANGED)
