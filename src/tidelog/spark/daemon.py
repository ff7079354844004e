"""The process from which Spark forks its Python workers, with the engine loaded: no worker loads it again.

Spark ends workers that have had nothing to do for a minute. Loading takes more than a second of each new one.
"""

from __future__ import annotations

from pyspark import daemon

import tidelog.spark.stages  # noqa: F401 - what executors run, or what that needs

if __name__ == "__main__":
    daemon.manager()
