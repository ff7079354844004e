"""Pipelines to measure: W5 through a whole job, and a Spark job that only reads, de-duplicates, writes."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

from tidelog.pipeline.job import Job, Run
from tidelog.pipeline.pieces import cut_all
from tidelog.pipeline.settings import Engine, Source
from tidelog.pipeline.spark_sources import SparkReading

NT_RULES = "subject(?s) :- triple(?s, _, _) .\n"


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
    """How many statements an N-Triples file has, read and encoded on Spark, counted there."""
    import tidelog
    from tidelog.pipeline.settings import Settings
    from tidelog.pipeline.source_files import data_files_of, find_predicate_of

    program = tidelog.parse(NT_RULES)
    settings = Settings("unused")
    source = Source("triple", str(path), "ntriples")
    files = data_files_of(source, settings, program, find_predicate_of(source, program))
    cores = session.sparkContext.defaultParallelism
    pieces = [piece for some in cut_all([files], cores) for piece in some]
    frame = SparkReading(session, settings).frame(pieces, cores)
    return int(encoded(frame).count())


def encoded(frame: Any) -> Any:
    """The ids of a frame of exact terms."""
    from pyspark.sql import functions as sql

    from tidelog.engine.spark.terms import identities

    ids = [identities(sql.col(name)).alias(name) for name in ("c1", "c2", "c3")]
    return frame.where(sql.col("code").isNull()).select(*ids).distinct()
