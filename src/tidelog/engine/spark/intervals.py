"""Intervals in frames: rows of keys with two ends, and what the operators of rules over time make of them.

Ends are integers as those of `temporal.list_kernels`: both belong to the interval, two intervals of a key are
one if the second begins at most 1 behind the end of the first, and whoever moves an end need know no more of
it than whether it is even. Coalescing and complements are window functions over the intervals of each key.

Invariant: what is called coalesced has, for each key, intervals of which none touches another.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sql

from tidelog.engine.spark.markers import OUT_OF_RANGE

LEFT, RIGHT = "l", "r"
OTHER_LEFT, OTHER_RIGHT = "other_l", "other_r"
INFINITY = 1 << 62  # as a right end; negative as a left end
LIMIT = 1 << 60  # beyond which no finite end may lie
RUN, REACH, GAP = "run", "reach", "gap"


# ---- sets of points by key


def coalesced(frame: DataFrame, keys: Sequence[str], texts: Sequence[str] = ()) -> DataFrame:
    """The same points of each key in as few intervals as there can be; `texts` go with the keys."""
    order = _ordered(keys)
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    reached = frame.withColumn(REACH, sql.max(RIGHT).over(earlier))
    begins = sql.col(REACH).isNull() | (sql.col(LEFT) > sql.col(REACH) + 1)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    runs = reached.withColumn(RUN, sql.sum(begins.cast("long")).over(so_far))
    ends = (sql.min(LEFT).alias(LEFT), sql.max(RIGHT).alias(RIGHT))
    return runs.groupBy(*keys, RUN).agg(*ends, *(sql.max(text).alias(text) for text in texts)).drop(RUN)


def gaps(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """What lies before, between and behind coalesced intervals of each key; some gaps are empty."""
    order = _ordered(keys)
    before = sql.coalesce(sql.lag(RIGHT).over(order) + 1, sql.lit(-INFINITY))
    is_last = sql.lead(LEFT).over(order).isNull()
    first = sql.struct(before.alias(LEFT), (sql.col(LEFT) - 1).alias(RIGHT))
    last = sql.struct((sql.col(RIGHT) + 1).alias(LEFT), sql.lit(INFINITY).alias(RIGHT))
    found = sql.when(is_last, sql.array(first, last)).otherwise(sql.array(first))
    listed = frame.select(*keys, found.alias(GAP)).select(*keys, sql.explode(GAP).alias(GAP))
    return listed.select(*keys, f"{GAP}.{LEFT}", f"{GAP}.{RIGHT}")


def without(frame: DataFrame, other: DataFrame, keys: Sequence[str], is_small: bool = False) -> DataFrame:
    """The points of a frame at which another, coalesced by these keys, has none of the same key."""
    kept = frame.columns
    complement = renamed(gaps(other, keys))
    if is_small:
        complement = sql.broadcast(complement)
    joined = frame.join(complement, list(keys), "left") if keys else _beside(frame, complement)
    left = sql.greatest(LEFT, sql.coalesce(OTHER_LEFT, sql.lit(-INFINITY)))
    right = sql.least(RIGHT, sql.coalesce(OTHER_RIGHT, sql.lit(INFINITY)))
    return with_ends(joined, left, right).select(*kept)


def _beside(frame: DataFrame, other: DataFrame) -> DataFrame:
    """The rows of a frame with those of another, or with nulls if there are none."""
    return frame.join(sql.broadcast(other), sql.lit(True), "left")


def renamed(frame: DataFrame) -> DataFrame:
    """The frame with other names for the ends, so that it can be joined with one that has them."""
    return frame.withColumnsRenamed({LEFT: OTHER_LEFT, RIGHT: OTHER_RIGHT})


def common(joined: DataFrame) -> DataFrame:
    """The points that both intervals of each row have."""
    return with_ends(joined, sql.greatest(LEFT, OTHER_LEFT), sql.least(RIGHT, OTHER_RIGHT))


def with_ends(frame: DataFrame, left: Column, right: Column) -> DataFrame:
    """The rows with other ends, but for those that are empty then."""
    ended = frame.withColumns({LEFT: left, RIGHT: right}).drop(OTHER_LEFT, OTHER_RIGHT)
    return ended.where(sql.col(LEFT) <= sql.col(RIGHT))


def _ordered(keys: Sequence[str]) -> WindowSpec:
    return Window.partitionBy(*keys).orderBy(LEFT)


# ---- operators


def moved(frame: DataFrame, by: Sequence[int]) -> DataFrame:
    """What a unary operator makes of coalesced intervals; `by` is as `temporal.list_kernels.move` has it."""
    if by[6]:
        frame = frame.where(sql.col(LEFT) <= -INFINITY)
    if by[7]:
        frame = frame.where(sql.col(RIGHT) >= INFINITY)
    return with_ends(frame, *_moved_ends(sql.col(LEFT), sql.col(RIGHT), by))


def lasting(joined: DataFrame, by: Sequence[int], is_integer: bool) -> DataFrame:
    """The points to which intervals lead, without a gap, from points of the others beside them.

    `since`, or `until`: `by` moves points, for a diamond whose interval is without 0.
    """
    low, high = _closed(is_integer)
    start, stop = sql.greatest(low, OTHER_LEFT), sql.least(high, OTHER_RIGHT)
    meeting = joined.where(start <= stop)
    left, right = _moved_ends(start, stop, by)
    return with_ends(meeting, sql.greatest(low, left), sql.least(high, right))


def _closed(is_integer: bool) -> tuple[Column, Column]:
    """The ends of an interval with the points right before and behind it."""
    left, right = sql.col(LEFT), sql.col(RIGHT)
    before = left - (1 if is_integer else left.bitwiseAND(sql.lit(1)))
    behind = right + (1 if is_integer else right.bitwiseAND(sql.lit(1)))
    return (
        sql.when(left <= -INFINITY, left).otherwise(before),
        sql.when(right >= INFINITY, right).otherwise(behind),
    )


def _moved_ends(left: Column, right: Column, by: Sequence[int]) -> tuple[Column, Column]:
    one = sql.lit(-INFINITY) if by[4] else _within_range(_shifted(left, by[0], by[1]))
    other = sql.lit(INFINITY) if by[5] else _within_range(_shifted(right, by[2], by[3]))
    return one, other


def _shifted(end: Column, even: int, odd: int) -> Column:
    """A finite end moved by what is for even or for odd ones; an infinite one stays."""
    step = sql.when(end.bitwiseAND(sql.lit(1)) == 1, sql.lit(odd)).otherwise(sql.lit(even))
    return sql.when(_is_infinite(end), end).otherwise(end + step)


def _within_range(end: Column) -> Column:
    """The end; evaluating it fails if it is finite and lies too far out."""
    is_beyond = ~_is_infinite(end) & (sql.abs(end) > LIMIT)
    return sql.when(is_beyond, sql.raise_error(OUT_OF_RANGE).cast("long")).otherwise(end)


def _is_infinite(end: Column) -> Column:
    return sql.abs(end) >= INFINITY
