"""The tables of the pipeline: flights as they are read, and what the rules of net.rls derive from them."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from tidelog.spark.pipelines import materialize

spark = SparkSession.active()


@dp.materialized_view
def flight() -> DataFrame:
    """Return the flights."""
    return spark.read.csv("data", header=True, schema="src string, dst string, km bigint")


materialize("net.rls", inputs={"flight": "flight"}, outputs=["reach", "hops"])
