"""Facts that lie on Spark, as they are published; and those over representatives on the way back.

The classes of equal constants lie on the driver, and go to the executors as rows of aliases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.spark.engine import SparkEngine
from tidelog.engine.spark.frames import UNBOUNDED, Source
from tidelog.equality.answers import EXPAND
from tidelog.equality.listing import Listing
from tidelog.logic.program import EQUAL
from tidelog.maintenance.maintainer import Rows
from tidelog.pipeline.manifest import Table
from tidelog.pipeline.tables import STATED
from tidelog.rewrite.over_representatives import ALIAS, stored

ONE, OTHER = "one", "other"


@dataclass(frozen=True)
class Elsewhere:
    """The facts of an engine, and how they are listed if they are kept over representatives."""

    engine: SparkEngine
    listing: Listing | None

    def has(self, kind: str, name: str) -> bool:
        """Whether a predicate's facts, or the explicit ones, lie on Spark; the driver lists classes."""
        if kind == STATED or self.listing is None:
            return self.engine.is_placed(name)
        return name != EQUAL and self.engine.is_placed(stored(name))

    def source(self, kind: str, name: str) -> Source:
        """All facts of a predicate that lie there, or those that are explicit."""
        engine, arity = self.engine, self.engine.arity(name)
        if kind == STATED:
            return engine.stated(name) or Source(engine.store.empty(arity), 0)
        if self.listing is None:
            return engine.source(name)
        facts = engine.source(stored(name))
        if self.listing.shown == EXPAND:
            return Source(engine.with_members(facts.frame, arity, ALIAS), UNBOUNDED)
        pairs = self.listing.smallest_members().columns
        return Source(engine.with_renamed(facts.frame, arity, pairs), facts.rows)

    def frame(self, name: str, table: Table, form: str) -> DataFrame | None:
        """All facts of a predicate as a frame of texts; None if that is left to the driver."""
        if self.listing is None:
            return self.engine.frame(name, table.columns, table.types, form)
        if self.listing.shown != EXPAND:
            return None
        return self.engine.frame(stored(name), table.columns, table.types, form, ALIAS)


def standing(engine: SparkEngine, frame: DataFrame, arity: int, aliases: Rows) -> Source:
    """The rows of which every constant stands for itself; aliases are pairs of member and representative."""
    members = _lifted(engine, aliases).select(ONE)
    for place in range(arity):
        frame = frame.join(members, sql.col(f"c{place}") == sql.col(ONE), "left_anti")
    kept = frame.persist()
    engine.store.hold(kept)
    return Source(kept, engine.store.jobs.run("facts over representatives", kept.count))


def _lifted(engine: SparkEngine, pairs: Rows) -> DataFrame:
    columns = pairs.columns or (np.zeros(0, np.int32),) * 2
    return engine.store.lifted(columns, pairs.count).toDF(ONE, OTHER)
