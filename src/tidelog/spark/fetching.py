"""Rows of frames that come to this process: as Arrow tables, some at a time, and never as Python objects.

What Spark hands over as a result goes through the heap of the driver. Where tasks and this process share a
folder, many rows take the way by files instead.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql.pandas.types import to_arrow_schema

from tidelog.spark.failures import telling
from tidelog.spark.parquet import READ, Target, WriteRows
from tidelog.spark.scratch import scratch_folder
from tidelog.spark.shipping import Shipped, ship
from tidelog.spark.task import TAG
from tidelog.spark.writer import FILES_SCHEMA

ROWS: Final = "rows"  # what `Target` calls a predicate


def few(frame: DataFrame, most: int) -> Any | None:
    """Return the rows of a frame, at once; None if there are more than so many."""
    table = frame.limit(most + 1).toArrow()
    return table if table.num_rows <= most else None


def fetched(frame: DataFrame, most: int) -> Iterator[Any]:
    """Yield the rows of a frame: at once if they are few, else packed, each time some rows of a task."""
    table = few(frame, most)
    if table is not None:
        yield table
        return

    def pack(batches: Any) -> Any:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()])], ["rows"])

    for row in frame.mapInArrow(pack, "rows binary").toLocalIterator():
        yield pa.ipc.open_stream(bytes(row[0])).read_all()


def fetched_by_files(frame: DataFrame, folder: Path) -> Iterator[Any]:
    """Yield the rows of a frame, which tasks write into a folder below this one that is removed again."""
    own = (folder / token_hex(8)).resolve()
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    target = Target("", "fetched", {ROWS: schema}, "", folders={ROWS: str(own)})
    try:
        for file in write_rows(frame, target):
            with pq.ParquetFile(own / file) as opened:
                for batch in opened.iter_batches(READ):
                    yield pa.Table.from_batches([batch])
    finally:
        shutil.rmtree(own, ignore_errors=True)


def write_rows(frame: DataFrame, target: Target) -> dict[str, int]:
    """Let tasks write the rows of a frame, as those of `ROWS`; return how many each file has."""
    ship(frame.sparkSession, scratch_folder())
    columns = tuple(str(place) for place, _ in enumerate(frame.columns))
    rows = frame.toDF(*columns).withColumn(TAG, F.lit(ROWS))
    files = rows.mapInArrow(Shipped(WriteRows(target, TAG, {ROWS: columns})), FILES_SCHEMA)
    with telling():
        return {each.file: each.rows for each in files.collect()}
