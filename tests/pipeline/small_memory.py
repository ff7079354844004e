"""Run a job on Spark with a small heap over rows that do not fit it; print what the driver's process took.

`python -m tests.pipeline.small_memory ROWS`: in the working folder, a run and one after some have changed.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

HEAP = "512m"
FILES = 8
BAD = 20  # one row of so many has a number that is none
PROGRAM = """\
@declare note(id: int, tag: string, text: string) .
@declare listed(tag: string) .
@declare seen(tag: string) .
missing(?t) :- listed(?t), ~seen(?t) .
"""


def write_notes(path: Path, first: int, rows: int, seed: int) -> None:
    """Write a file of notes whose texts, of 120 letters, are all different."""
    letters = np.random.default_rng(seed).integers(97, 123, (rows, 120), np.uint8)
    numbers = np.arange(first, first + rows).astype(str).astype(object)
    numbers[::BAD] = "none"
    columns = {
        "id": pa.array(numbers, pa.string()),
        "tag": pa.array([f"t{number}" for number in range(10)]).take(pa.array(np.arange(rows) % 10)),
        "text": pa.Array.from_buffers(
            pa.string(),
            rows,
            [None, pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * 120), pa.py_buffer(letters)],
        ),
    }
    pa_csv.write_csv(pa.table(columns), path)


def prepare(rows: int, is_changed: bool) -> None:
    """Write the files of a day; on the second one, the last file is another one."""
    Path("notes").mkdir(exist_ok=True)
    each = rows // FILES
    for number in range(FILES):
        is_other = is_changed and number == FILES - 1
        if is_other or not is_changed:
            write_notes(Path("notes", f"{number}.csv"), number * each, each, number + 100 * is_other)


def run(rows: int) -> None:
    """Run the job twice, and print counts and peaks as JSON."""
    from pyspark.sql import SparkSession

    import tidelog as tl
    from tidelog.pipeline import Engine, Job, Sink, Source

    Path("listed.csv").write_text("tag\nt1\nt11\n")
    Path("seen.csv").write_text("tag\nt1\n")
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", HEAP)
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    job = Job(
        tl.parse(PROGRAM),
        publish="published",
        sources=[Source("note", "notes"), Source("listed", "listed.csv"), Source("seen", "seen.csv")],
        sinks=[Sink("note", "notes.jsonl", "jsonl")],
        engine=Engine("spark", partitions=2),
        session=session,
    )
    found = []
    for is_changed in (False, True):
        command = [sys.executable, "-m", __spec__.name, str(rows), "prepare", "changed" if is_changed else ""]
        subprocess.run(command, check=True)
        version = job.run().version
        (given,) = (each for key, each in version.inputs.items() if key.startswith("note"))
        table = version.tables["note"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{table.rows} rows, {peak} MB", file=sys.stderr)
        found.append(
            (table.rows, table.inserted, table.deleted, given.rejected, version.tables["missing"].rows)
        )
    print(json.dumps({"versions": found, "peak_mb": peak}))


if __name__ == "__main__":
    if sys.argv[2:]:
        prepare(int(sys.argv[1]), is_changed=sys.argv[3] == "changed")
    else:
        run(int(sys.argv[1]))
