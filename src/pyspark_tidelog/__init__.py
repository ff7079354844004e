"""What Spark looks for: it imports modules called `pyspark_…`, and `DefaultSource` is a format of theirs.

So `spark.read.format("tidelog")` needs no call that registers it. `tidelog.spark.data_source` has the work.
"""

from __future__ import annotations

from tidelog.spark.data_source import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
