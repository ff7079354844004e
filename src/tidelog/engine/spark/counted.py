"""What a frame of facts with counters is."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

FOUNDED, HIDDEN, RANK = "founded", "hidden", "rank"  # columns beside those of facts


@dataclass(frozen=True, slots=True)
class Counted:
    """The facts of a relation with their counters, and whether its stratum is recursive."""

    frame: DataFrame
    is_recursive: bool
