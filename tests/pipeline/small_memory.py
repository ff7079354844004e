"""Run a job on Spark with a small heap over rows that do not fit it; print what the driver's process took.

`python -m tests.pipeline.small_memory run ROWS`: in the working folder, twice, some rows changed in between.
`python -m tests.pipeline.small_memory stream ROWS`: the same rows come and go, a file in each batch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
from pyspark.sql import SparkSession

import tidelog as tl
from tidelog.pipeline import Engine, Job, Sink, Source, Stream
from tidelog.pipeline.version_folder import Manifest

HEAP = "512m"
FILES = 16
LETTERS = 1000  # of a text
BAD = 20  # one row of so many has a number that is none
PROGRAM = """\
@declare note(id: int, tag: string, text: string) .
@declare listed(tag: string) .
@declare seen(tag: string) .
missing(?t) :- listed(?t), ~seen(?t) .
"""


def write_notes(path: Path, first: int, rows: int, seed: int, operation: str | None = None) -> None:
    """Write a file of notes, whose texts all differ; with an operation they are records of a stream."""
    letters = np.random.default_rng(seed).integers(97, 123, (rows, LETTERS), np.uint8)
    numbers = np.arange(first, first + rows).astype(str).astype(object)
    numbers[::BAD] = "none"
    columns = {} if operation is None else {"op": pa.array([operation] * rows)}
    columns |= {
        "id": pa.array(numbers, pa.string()),
        "tag": pa.array([f"t{number}" for number in range(10)]).take(pa.array(np.arange(rows) % 10)),
        "text": pa.Array.from_buffers(
            pa.string(),
            rows,
            [None, pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * LETTERS), pa.py_buffer(letters)],
        ),
    }
    pa_csv.write_csv(pa.table(columns), path)


def prepare(rows: int, what: str) -> None:
    """Write the files of a day, of which the second one has another last file, or the records of a stream."""
    folder = Path("records" if what == "stream" else "notes")
    folder.mkdir(exist_ok=True)
    each = rows // FILES
    for number in range(FILES):
        path, is_last = folder / f"{number}.csv", number == FILES - 1
        if what == "stream":
            write_notes(path, 0, each, 0, "-" if number % 2 else "+")
            os.utime(path, (number, number))  # the oldest file is read first
        elif what == "first" or is_last:
            write_notes(path, number * each, each, number + 100 * (what == "second"))


def prepared(rows: int, what: str) -> None:
    """Write files in another process, so that this one does not take the memory for it."""
    subprocess.run([sys.executable, "-m", __spec__.name, "prepare", str(rows), what], check=True)


def job_of(sources: list[Source], **others: Any) -> Job:
    """Return a job in a session with a small heap."""
    Path("listed.csv").write_text("tag\nt1\nt11\n")
    Path("seen.csv").write_text("tag\nt1\n")
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", HEAP)
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    return Job(
        tl.parse(PROGRAM),
        publish="published",
        sources=[*sources, Source("listed", "listed.csv"), Source("seen", "seen.csv")],
        engine=Engine("spark", partitions=2),
        session=session,
        **others,
    )


def told(found: Sequence[tuple[int, ...]]) -> None:
    """Print counts, and the most memory that this process has had, as JSON.

    `ru_maxrss` would also count the process that has started this one: that of the tests.
    """
    status = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM:"))
    print(json.dumps({"versions": found, "peak_mb": peak}))


def run(rows: int) -> None:
    """Run the job twice."""
    job = job_of([Source("note", "notes")], sinks=[Sink("note", "notes.jsonl", "jsonl")])
    found = []
    for day in ("first", "second"):
        prepared(rows, day)
        version = job.run().version
        (given,) = (each for key, each in version.inputs.items() if key.startswith("note"))
        table = version.tables["note"]
        found.append(
            (table.rows, table.inserted, table.deleted, given.rejected, version.tables["missing"].rows)
        )
    told(found)


def stream(rows: int) -> None:
    """Follow a stream whose batches insert and delete the same rows."""
    prepared(rows, "stream")
    job = job_of([], stream=Stream("records", "csv", "note"))
    job.run()
    found = []

    def take(version: Manifest) -> None:
        table, batch = version.tables["note"], version.batch
        assert batch is not None
        found.append((table.rows, table.inserted, table.deleted, batch.records, batch.rejected))

    with job.stream(told=take, available_now=True) as following:
        following.wait()
    told(found)


if __name__ == "__main__":
    what, rows = sys.argv[1], int(sys.argv[2])
    if what == "prepare":
        prepare(rows, sys.argv[3])
    else:
        {"run": run, "stream": stream}[what](rows)
