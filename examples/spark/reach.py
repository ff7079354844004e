"""Reachable cities, as a job for a cluster: spark-submit reach.py FLIGHTS.csv RESULT"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tidelog import spark as ts

PROGRAM = """
@declare reach(from: string, to: string) .
reach(?x, ?y) :- hop(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), hop(?y, ?z) .
"""


def main(flights: str, result: str) -> None:
    """Write all pairs of cities to a folder of Parquet files, and print how many there are."""
    session = SparkSession.builder.appName("reach").getOrCreate()
    hops = session.read.csv(flights, header=True).select("from", "to")
    ts.derive(PROGRAM, {"hop": hops})["reach"].write.mode("overwrite").parquet(result)
    print(session.read.parquet(result).count(), "pairs of cities")


if __name__ == "__main__":
    main(*sys.argv[1:])
