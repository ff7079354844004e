"""All predicates written in one pass, by the tasks that have the rows, complete or not at all.

Each predicate is a folder of Parquet files, which anybody reads: `spark.read.parquet(f"{path}/reach")`. Tasks
write files under names that readers skip, and return these names. When all of them have ended well, a last
task gives the files the names by which they are read, and then the manifest says which files there are. A
write that fails leaves none. It may be repeated by Spark at any point.

One write at a time: two of them at once would each write a manifest without the other's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_schema

from tidelog.errors import Diagnostic, ProgramError
from tidelog.spark import codes
from tidelog.spark.failures import telling
from tidelog.spark.parquet import COLUMNS, Abort, Commit, Target, WriteRows
from tidelog.spark.shipping import Shipped

MODES: Final = ("append", "overwrite")
_STRING, _LONG = spark_types.StringType(), spark_types.LongType()
FILES_TYPES: Final = (_STRING, _STRING, _LONG)
FILES_SCHEMA: Final = spark_types.StructType(
    [spark_types.StructField(name, of) for name, of in zip(COLUMNS, FILES_TYPES, strict=True)]
)


class Saving:
    """One write of all outputs: where to, and what of each predicate."""

    def __init__(self, path: str, mode: str, schemas: Mapping[str, spark_types.StructType]) -> None:
        if mode not in MODES:
            raise ValueError(f"mode is {' or '.join(map(repr, MODES))}, not {mode!r}")
        self.is_overwriting = mode == "overwrite"
        self.target = Target(str(_folder(path)), token_hex(16), _arrow(schemas))

    def of_rows(self, rows: DataFrame, tag: str, columns: Mapping[str, tuple[str, ...]]) -> DataFrame:
        """Return which files tasks have written that are given rows of a tag and these columns."""
        return rows.mapInArrow(Shipped(WriteRows(self.target, tag, columns)), FILES_SCHEMA)

    def run(self, files: DataFrame) -> dict[str, int]:
        """Write, and return how many rows there are of each predicate."""
        commit = Commit(self.target, self.is_overwriting)
        try:
            with telling():
                rows = files.repartition(1).mapInArrow(Shipped(commit), FILES_SCHEMA).collect()
        except BaseException:
            with telling():
                one = files.sparkSession.range(1)
                one.repartition(1).mapInArrow(Shipped(Abort(self.target)), FILES_SCHEMA).collect()
            raise
        found = dict.fromkeys(self.target.schemas, 0)
        for row in rows:
            found[row.predicate] += row.rows
        return found


def _arrow(schemas: Mapping[str, spark_types.StructType]) -> dict[str, Any]:
    return {name: to_arrow_schema(each, timezone="UTC") for name, each in schemas.items()}


def _folder(path: str) -> Path:
    name = path.removeprefix("file:")
    if "://" in name:
        message = f"`{path}` is no folder that tasks can rename files in"
        help = "write to a file system that all executors see; other stores by `derived[…].write`"
        raise ProgramError(Diagnostic(codes.NOT_WRITTEN, message, help=help))
    return Path(name).absolute()
