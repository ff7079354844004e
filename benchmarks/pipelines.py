"""Pipelines to measure: W5 through a whole job, and a Spark job that only reads, de-duplicates, writes."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.io.faults import Faults
from tidelog.io.source import DataFile
from tidelog.logic.values import ColumnType
from tidelog.pipeline.job import Job, Run
from tidelog.pipeline.pieces import cut_all
from tidelog.pipeline.settings import Engine, Settings
from tidelog.pipeline.spark_sources import SparkReading

SETTINGS = Settings("unused")


def job_of(program: Path, target: Path, session: Any = None, engine: Engine | None = None) -> Job:
    """A job over a program that imports its facts itself; with a session they are read on Spark."""
    chosen = engine or Engine(reader="spark" if session is not None else None)
    return Job(str(program), publish=str(target), engine=chosen, session=session)


def read_distinct_write(session: Any, folder: Path, target: Path) -> None:
    """What any pipeline has to do at the least: all files of a workload read, each row once, written."""
    from pyspark.sql import functions as sql

    frames = []
    for file in sorted(folder.glob("*.tsv")):
        frame = session.read.option("sep", "\t").csv(str(file))
        if len(frame.columns) == 1:
            frame = frame.withColumn("_c1", sql.lit(None).cast("string"))
        frames.append(frame.withColumn("predicate", sql.lit(file.stem)))
    every = reduce(lambda one, other: one.unionByName(other), frames)
    every.distinct().write.mode("overwrite").parquet(str(target))


def ten_facts(job: Job, number: int) -> Run:
    """A version in which five people of W5 have changed their department: ten facts."""
    before, after = f"department {number}", f"department {number + 1}"
    gone = "".join(f'- worksFor("person {place}", "{before}") .\n' for place in range(5)) if number else ""
    come = "".join(f'+ worksFor("person {place}", "{after}") .\n' for place in range(5 if number else 10))
    return job.apply(gone + come, missing="ignore")


def encode_statements(session: Any, path: Path) -> int:
    """How many statements an N-Triples file has, read on Spark and encoded in a dictionary of our own."""
    engine = ColumnarEngine()
    rows = 0
    for batch in SparkReading(session, SETTINGS).read_files(_files(path), Faults()):
        for column in batch.columns:
            engine.encode_column(column)
        rows += batch.rows
    return rows


def identify_statements(session: Any, path: Path) -> int:
    """How many distinct statements an N-Triples file has, read on Spark and encoded there by 64-bit ids."""
    from pyspark.sql import functions as sql

    from tidelog.engine.spark.terms import identities

    cores = session.sparkContext.defaultParallelism
    pieces = [piece for some in cut_all([_files(path)], cores) for piece in some]
    frame = SparkReading(session, SETTINGS).frame(pieces, cores)
    ids = [identities(sql.col(name)).alias(name) for name in ("c1", "c2", "c3")]
    return int(frame.where(sql.col("code").isNull()).select(*ids).distinct().count())


def _files(path: Path) -> list[DataFile]:
    return [DataFile(path, "ntriples", (ColumnType.ANY,) * 3)]
