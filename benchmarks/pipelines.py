"""Pipelines to measure: W5 through a whole job, and a Spark job that only reads, de-duplicates, writes."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

from tidelog.pipeline.job import Job
from tidelog.pipeline.job_run import Run
from tidelog.pipeline.job_settings import Engine


def job_of(program: Path, target: Path, session: Any = None) -> Job:
    """A job over a program that imports its facts itself; with a session it reads and reasons on Spark."""
    engine = Engine("spark" if session is not None else "columnar")
    return Job(str(program), publish=str(target), engine=engine, session=session)


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


def ten_records(session: Any, number: int) -> Any:
    """The same change as the rows of a batch: records that say which facts go and which come."""
    before, after = f"department {number}", f"department {number + 1}"
    gone = [("-", f"person {place}", before) for place in range(5)] if number else []
    come = [("+", f"person {place}", after) for place in range(5 if number else 10)]
    return session.createDataFrame([*gone, *come], "op string, x string, y string")


def ten_facts(job: Job, number: int) -> Run:
    """A version in which five people of W5 have changed their department: ten facts."""
    before, after = f"department {number}", f"department {number + 1}"
    gone = "".join(f'- worksFor("person {place}", "{before}") .\n' for place in range(5)) if number else ""
    come = "".join(f'+ worksFor("person {place}", "{after}") .\n' for place in range(5 if number else 10))
    return job.apply(gone + come, missing="ignore")
