"""Sinks that only Spark has: tables, and databases through JDBC."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes
from tidelog.pipeline.settings import Sink


def write_table(session: Any, sink: Sink, table: pa.Table, mode: str) -> None:
    """The rows of a table are where a sink says; `mode` is `overwrite` or `append`."""
    with tempfile.TemporaryDirectory(prefix="tidelog-") as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(table, path)  # six times as fast as handing the rows over
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
