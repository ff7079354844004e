"""What is asked of relations on Spark for changes, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.columnar import layout
from tidelog.engine.spark.counted import FOUNDED, HIDDEN, RANK
from tidelog.engine.spark.overlay import Rows

Ids = npt.NDArray[np.int32]

REQUEST, FLAGS = "request", "flags"
COUNTERS = {FOUNDED: layout.FOUNDED, HIDDEN: layout.HIDDEN, RANK: layout.RANK}  # and where they stand in T


@dataclass(frozen=True, slots=True)
class Request:
    """Keys in some columns of a relation that were not asked for before."""

    relation: str
    columns: tuple[int, ...]
    keys: tuple[Ids, ...]
    rows: Rows  # of the relation that holds the keys asked for

    def only(self, chosen: npt.NDArray[np.bool_]) -> Request:
        """Some of the keys."""
        return replace(self, keys=tuple(key[chosen] for key in self.keys), rows=self.rows[chosen])


@dataclass(frozen=True, slots=True)
class Answer:
    """Facts of one relation: their columns, and what is known of each; explicit ones may be there twice."""

    columns: tuple[Ids, ...]
    flags: npt.NDArray[np.uint8]
    counters: tuple[Ids, ...] = ()  # as in COUNTERS


def padded(frame: DataFrame, width: int) -> DataFrame:
    """A frame with as many columns of ids as others have."""
    missing = [f"c{place}" for place in range(max(width, 1)) if f"c{place}" not in frame.columns]
    columns = [sql.lit(0).cast("long").alias(name) for name in missing]
    return frame.select("*", *columns)
