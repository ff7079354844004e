"""What files call their columns, as far as that can be told without reading them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import pyarrow as pa

from tidelog.io.formats import DELIMITED
from tidelog.io.records import first_record
from tidelog.io.source import DataFile, Header

_FIRST_BYTES = 1 << 16


def columns_of(files: Iterable[DataFile]) -> tuple[str, ...]:
    """The columns of the first of the files: names, or numbers where there are no names.

    Columns that are found by name are in the order of their names: no other order means anything.
    """
    for file in islice(files, 1):
        if file.format in DELIMITED:
            return _of_delimited(file)
        if file.format in ("parquet", "arrow"):
            return _of_schema(file)
    return ()


def _of_delimited(file: DataFile) -> tuple[str, ...]:
    with file.open() as stream:
        found = first_record(stream.read(_FIRST_BYTES), file.delimiter.encode(), file.quoting, 1)
    if found is None:
        return ()
    fields = tuple(field.decode("utf-8", "replace").removeprefix("\ufeff") for field in found[0].fields)
    is_named = file.header is Header.NAMES or (
        file.header is Header.DETECTED and bool(file.names) and set(file.names) <= set(fields)
    )
    return tuple(sorted(fields)) if is_named else tuple(str(place) for place in range(1, len(fields) + 1))


def _of_schema(file: DataFile) -> tuple[str, ...]:
    with file.open() as stream:
        if file.format == "parquet":
            import pyarrow.parquet as pq

            schema = pq.read_schema(stream)
        else:
            schema = pa.ipc.open_file(stream).schema
    return tuple(sorted(f"{field.name}: {field.type}" for field in schema))
