"""The format `tidelog`: all predicates in one pass, complete or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog import spark as ts
from tidelog.spark.writer import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
big(?x, 0.5) :- reach(?x, ?y), ?x > 10 .
@output reach . @output big . @output edge . @output kept .
@declare edge(x: int, y: int) . @declare kept(x: int) .
"""


def test_predicates_are_written_in_one_pass(session: SparkSession, tmp_path: Path) -> None:
    session.dataSource.register(DefaultSource)
    edges = session.createDataFrame([(1, 2), (2, 3)], "x long, y long")
    kept = session.createDataFrame([(1,), (1,)], "x int")
    derived = ts.derive(PROGRAM, {"edge": edges, "kept": kept})
    folder = tmp_path / "out"
    derived.facts.write.format("tidelog").mode("append").save(str(folder))
    for name, frame in derived.items():
        read = session.read.parquet(str(folder / name))
        assert read.schema.simpleString() == frame.schema.simpleString()  # files may lack values, for Spark
        assert sorted(map(tuple, read.collect())) == sorted(map(tuple, frame.collect()))
    assert {name: sum(files.values()) for name, files in manifest(folder).items()} == {
        "reach": 3, "big": 0, "edge": 2, "kept": 1
    }  # fmt: skip
    derived.facts.write.format("tidelog").mode("append").save(str(folder))
    assert session.read.parquet(str(folder / "reach")).count() == 6
    derived.facts.write.format("tidelog").mode("overwrite").save(str(folder))
    assert session.read.parquet(str(folder / "reach")).count() == 3
    before = files_in(folder)
    dirty = session.createDataFrame([(1, None)], "x long, y long")
    with pytest.raises(Exception, match="E504"):
        ts.derive(PROGRAM, {"edge": dirty, "kept": kept}).facts.write.format("tidelog").mode("append").save(
            str(folder)
        )
    assert files_in(folder) == before == listed(folder)
    with pytest.raises(Exception, match="E870"):
        edges.write.format("tidelog").mode("append").save(str(folder))


def manifest(folder: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads((folder / "_manifest.json").read_text())["files"]
    return found


def files_in(folder: Path) -> set[str]:
    """The data files, hidden ones too."""
    return {str(path.relative_to(folder)) for path in folder.glob("*/*")}


def listed(folder: Path) -> set[str]:
    return {f"{name}/{file}" for name, files in manifest(folder).items() for file in files}
