"""Sinks that only Spark has: tables, and databases through JDBC."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes
from tidelog.pipeline.settings import Sink


def write_tables(session: Any, sink: Sink, tables: Iterator[pa.Table], mode: str) -> None:
    """Write the rows of tables, of which there is at least one, where a sink says; overwrite or append."""
    with tempfile.TemporaryDirectory(prefix="tidelog-") as folder:
        path = Path(folder) / "rows.parquet"  # six times as fast as handing the rows over
        first = next(tables)
        with pq.ParquetWriter(path, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        write_frame(session.read.parquet(str(path)), sink, mode)


def write_frame(frame: Any, sink: Sink, mode: str) -> None:
    """The rows of a DataFrame are where a sink says."""
    try:
        _write(frame, sink, mode)
    except Exception as error:  # noqa: BLE001 - Py4J raises what the driver raises
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        message = f"`{sink.shown}` cannot be written: {reason}"
        raise DataError(Diagnostic(codes.BAD_SINK, message, sink.span)) from None


def _write(frame: Any, sink: Sink, mode: str) -> None:
    if sink.kind == "table":
        frame.write.mode(mode).options(**dict(sink.options)).saveAsTable(sink.table)
        return
    writer = frame.write.format("jdbc").mode(mode).option("url", sink.url).option("dbtable", sink.table)
    writer = writer.options(**dict(sink.options))
    if sink.driver:
        writer = writer.option("driver", sink.driver)
    if mode == "overwrite":
        writer = writer.option("truncate", "true")  # the table keeps its columns and rights
    writer.save()
