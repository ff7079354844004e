"""Sources on Spark: files, tables and DataFrames, read as frames of facts. Begin with `source_frames.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.io.data_file import FactSource as Source

if TYPE_CHECKING:
    from tidelog.spark.reading.source_frames import read_source

__all__ = ["Source", "read_source"]


def __getattr__(name: str) -> Any:
    """Import what reads sources when it is first asked for."""
    if name != "read_source":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidelog.spark.reading.source_frames import read_source

    return read_source
