"""Programs in Spark Declarative Pipelines: the example runs, twice, and derives what `derive` does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidelog import spark as ts
from tidelog.errors import ProgramError
from tidelog.spark.pipelines import materialize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples/spark/pipeline-project"


def test_inputs_have_to_be_declared() -> None:
    program = """
    @declare before(x: string) .
    reach(?x, ?y) :- edge(?x, ?y) .
    late(?x) :- diamondminus[0, 1] before(?x) .
    """
    inputs = dict.fromkeys(("edge", "before"), "t")
    with pytest.raises(ProgramError) as raised:
        materialize(program, inputs=inputs, name="net")
    assert [each.code for each in raised.value.diagnostics] == ["E880", "E876"]
    assert "@declare edge(c1: string, c2: string)" in str(raised.value)
    with pytest.raises(TypeError, match="needs a name"):
        materialize(program, inputs={})


def run(folder: Path, storage: Path) -> None:
    """Run the pipeline of a folder, without a network, and fail with what it prints."""
    binaries = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    specification = folder / "spark-pipeline.yaml"
    lines = [
        f"storage: file://{storage}" if line.startswith("storage:") else line
        for line in specification.read_text().splitlines()
    ]
    specification.write_text("\n".join(lines))
    command = [
        "spark-pipelines",
        "run",
        "--conf",
        "spark.sql.catalogImplementation=hive",
        "--remote",
        "local[2]",
    ]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_example_runs_twice(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(PROJECT, folder)
    data = folder / "data/flights.csv"
    for more in ("", "d,e,2\n"):
        data.write_text(data.read_text() + more)
        run(folder, tmp_path / "storage")
        flights = spark.read.csv(str(data), header=True, schema="src string, dst string, km bigint")
        derived = ts.derive(folder / "net.rls", {"flight": flights}, outputs=["reach", "hops"])
        for name in derived:
            table = spark.read.parquet(str(folder / "spark-warehouse" / name))
            assert table.dtypes == derived[name].dtypes
            assert sorted(table.collect()) == sorted(derived[name].collect())
