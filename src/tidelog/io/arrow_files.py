"""Parquet and Arrow IPC files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any

import pyarrow as pa
import pyarrow.ipc

from tidelog.io.arrow_data import Wanted, read_arrow_data, wanted_columns
from tidelog.io.columns import Batch
from tidelog.io.rejects import Faults
from tidelog.io.source import DataFile

_BATCH_ROWS = 1 << 18
_FILE_MAGIC = b"ARROW1"


def read_parquet(file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    """The rows of a Parquet file."""
    import pyarrow.parquet  # takes a while, and few programs need it

    with file.open() as stream, pyarrow.parquet.ParquetFile(stream) as parquet:
        wanted = _wanted(parquet.schema_arrow, file)
        batches = parquet.iter_batches(_BATCH_ROWS, use_threads=threads > 1)
        yield from read_arrow_data(batches, wanted, faults)


def read_arrow(file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    """The rows of an Arrow IPC file or stream."""
    del threads
    with file.open() as stream, _open_ipc(stream) as reader:
        wanted = _wanted(reader.schema, file)
        yield from read_arrow_data(_batches(reader), wanted, faults)


def _wanted(schema: Any, file: DataFile) -> Wanted:
    wanted = wanted_columns(schema, file.types, file.names, file.shown)
    return replace(wanted, times=file.times, nulls=file.nulls)


def _open_ipc(stream: IO[bytes]) -> Any:
    is_file = stream.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    stream.seek(0)
    return pyarrow.ipc.open_file(stream) if is_file else pyarrow.ipc.open_stream(stream)


def _batches(reader: Any) -> Iterator[Any]:
    if not isinstance(reader, pa.ipc.RecordBatchFileReader):
        yield from reader
        return
    for index in range(reader.num_record_batches):
        yield reader.get_batch(index)
