"""Sources on Spark: files, tables and DataFrames, read as frames of facts.

Begin with `source_frames.read_source`. `source_columns` finds the files and columns of a source, and converts
texts in Spark SQL; `source_rows` separates facts from other rows; `folders` has the imports and exports
of a program, and folders of changes. Imports the rest of `tidelog.spark`, which imports nothing from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.io.data_file import FactSource as Source

if TYPE_CHECKING:
    from tidelog.spark.reading.source_frames import read_source

__all__ = ["Source", "read_source"]


def __getattr__(name: str) -> Any:
    """Import what reads sources when it is first used."""
    if name != "read_source":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidelog.spark.reading.source_frames import read_source

    return read_source
