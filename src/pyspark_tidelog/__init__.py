"""Spark imports packages whose names begin with `pyspark_`, and finds the format `tidelog` here."""

from tidelog.spark.writer import DefaultSource

__all__ = ["DefaultSource"]
