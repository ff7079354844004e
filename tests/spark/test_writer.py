"""All predicates written in one pass, complete or not at all."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog import spark as ts
from tidelog.errors import DataError, ProgramError

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
    edges = session.createDataFrame([(1, 2), (2, 3)], "x long, y long")
    kept = session.createDataFrame([(1,), (1,)], "x int")
    derived = ts.derive(PROGRAM, {"edge": edges, "kept": kept})
    folder = tmp_path / "out"
    assert derived.save(folder) == {"reach": 3, "big": 0, "edge": 2, "kept": 1}
    for name, frame in derived.items():
        read = session.read.parquet(str(folder / name))
        assert read.schema.simpleString() == frame.schema.simpleString()  # Spark reads all as nullable
        assert sorted(map(tuple, read.collect())) == sorted(map(tuple, frame.collect()))
    counts = {name: sum(files.values()) for name, files in manifest(folder).items()}
    assert counts == {"reach": 3, "big": 0, "edge": 2, "kept": 1}
    derived.save(folder)
    assert session.read.parquet(str(folder / "reach")).count() == 6
    derived.save(folder, mode="overwrite")
    assert session.read.parquet(str(folder / "reach")).count() == 3
    with derived.persist():
        derived["reach"].count()
        assert derived.save(folder) == counts
    assert session.read.parquet(str(folder / "reach")).count() == 6
    before = files_in(folder)
    dirty = session.createDataFrame([(1, None)], "x long, y long")
    with pytest.raises(DataError, match="E504"):
        ts.derive(PROGRAM, {"edge": dirty, "kept": kept}).save(folder)
    assert files_in(folder) == before == listed(folder)
    with pytest.raises(ValueError, match="'append' or 'overwrite'"):
        derived.save(folder, mode="replace")
    with pytest.raises(ProgramError, match="E870"):
        derived.save("s3://bucket/facts")


@pytest.mark.parametrize("partitions", [1, 2])
def test_columns_of_several_types_are_written_as_structs(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    """Written by the tasks that derive, then from rows that are kept, and as an input that no rule reads."""
    given = spark.createDataFrame([("t",), ("u",)], "x string")
    kept = spark.createDataFrame([((1, None),), ((None, "x"),)], "x struct<int:bigint,string:string>")
    program = """
        value("a", 1) . value("b", "high") . value("c", 2.5) . value("d", <http://x.org/y>) .
        value("e", "chat"@fr) . value("g", ?x) :- given(?x) .
        none(?x, ?y) :- value(?x, ?y), given(?x) .
        @declare kept(x: any) .
        @output value, none, kept .
    """
    frames = {"given": given, "kept": kept}
    derived = ts.derive(program, frames, mixed="struct", partitions=partitions)
    folder, again = tmp_path / "tasks", tmp_path / "kept"
    assert derived.save(folder) == {"value": 7, "none": 0, "kept": 2}
    with derived.persist():
        derived.save(again)
        for name, frame in derived.items():
            expected = sorted(map(repr, frame.collect()))
            for place in (folder, again):
                read = spark.read.parquet(str(place / name))
                assert read.schema.simpleString() == frame.schema.simpleString()
                assert sorted(map(repr, read.collect())) == expected
    assert "int:bigint" in derived["none"].schema.simpleString()
    read = spark.read.parquet(str(folder / "value"))
    back = ts.derive("again(?x, ?y) :- value(?x, ?y) .", {"value": read}, mixed="struct")["again"]
    assert sorted(map(tuple, back.collect()), key=repr) == sorted(map(tuple, read.collect()), key=repr)


def test_tasks_that_exchange_facts_write_their_parts(session: SparkSession, tmp_path: Path) -> None:
    edges = session.createDataFrame([(each, each + 1) for each in range(20)], "x long, y long")
    derived = ts.derive(PROGRAM, {"edge": edges}, outputs=["reach", "big"], partitions=2)
    assert derived.save(tmp_path) == {"reach": 210, "big": 9}
    read = session.read.parquet(str(tmp_path / "reach"))
    assert read.count() == read.distinct().count() == 210
    assert len(manifest(tmp_path)["reach"]) == 2


def test_facts_are_rows_of_all_predicates(session: SparkSession) -> None:
    edges = session.createDataFrame([(1, 20), (20, 3)], "x long, y long")
    derived = ts.derive(PROGRAM, {"edge": edges}, outputs=["reach", "big"])
    assert derived.layout == {
        "reach": {"x": "bigint_1", "y": "bigint_2"},
        "big": {"x": "bigint_1", "c2": "decimal_1"},
    }
    found = {tuple(row) for row in derived.facts.collect()}
    half = Decimal("0.5").quantize(Decimal("1e-18"))
    assert found == {
        ("reach", 1, 20, None), ("reach", 20, 3, None), ("reach", 1, 3, None), ("big", 20, None, half)
    }  # fmt: skip
    assert derived.observation.get == {"reach": 3, "big": 1, "rejects": 0, "violations": 0}


def manifest(folder: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads((folder / "_manifest.json").read_text())["files"]
    return found


def files_in(folder: Path) -> set[str]:
    """The data files, hidden ones too."""
    return {str(path.relative_to(folder)) for path in folder.glob("*/*")}


def listed(folder: Path) -> set[str]:
    return {f"{name}/{file}" for name, files in manifest(folder).items() for file in files}
