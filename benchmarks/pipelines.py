"""Pipelines to measure: W5 through a whole job, and a Spark job that only reads, de-duplicates, writes."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

from tidelog.pipeline.pieces import cut_all

from tidelog.engine.spark.settings import SparkSettings
from tidelog.io.source import DataFile
from tidelog.logic.values import ColumnType
from tidelog.pipeline.job import Job, Run
from tidelog.pipeline.settings import Engine

# All facts are many: none comes to the driver, to be closed or maintained there.
FRAMES = {
    "tidelog.strategy": "lazy,executor-fixpoint,iterated-joins",
    "tidelog.driverFacts": "0",
    "tidelog.residentFacts": "0",
}


def job_of(program: Path, target: Path, session: Any = None, engine: Engine | None = None) -> Job:
    """A job over a program that imports its facts itself; with a session it reads and reasons on Spark."""
    chosen = engine or Engine("spark" if session is not None else "columnar")
    return Job(str(program), publish=str(target), engine=chosen, session=session)


def read_distinct_write(session: Any, folder: Path, target: Path) -> None:
    """What any pipeline has to do at the least: all files of a workload read, each row once, written."""
    from pyspark.sql import functions as sql

    frames = []
    for file in sorted(folder.glob("*.tsv")):
        if not file.stat().st_size:
            continue  # a file without rows has no columns
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
    """How many distinct statements an N-Triples file has, read on Spark and encoded there.

    The terms are in a dictionary that was checked for collisions, and the statements in the engine.
    """
    from tidelog.pipeline.spark_reading import Intended
    from tidelog.pipeline.spark_sources import pieces_frame

    from tidelog.engine.spark.engine import SparkEngine

    engine = SparkEngine(SparkSettings(session, strategy="lazy,iterated-joins"))
    engine.define("triple", 3)
    [pieces] = cut_all([_files(path)], session.sparkContext.defaultParallelism)
    frame = pieces_frame(engine.store.session, pieces, [Intended(0, 0)] * len(pieces), 3).persist()
    rows = engine.take_in(frame, ["triple"])["triple"]
    frame.unpersist()
    return rows


def _files(path: Path) -> list[DataFile]:
    return [DataFile(path, "ntriples", (ColumnType.ANY,) * 3)]
