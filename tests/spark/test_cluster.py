"""A standalone cluster of two workers: programs, spark-submit, and how a cluster ends."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyspark
import pytest

from tidelog.spark.session import find_java
from tidelog.spark.shipping import write_archive

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MEMORY = ("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m")
PATIENCE = 600.0


def cluster_module() -> Any:
    spec = importlib.util.spec_from_file_location("cluster", EXAMPLES / "spark" / "cluster.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cluster"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers of one core each."""
    with cluster_module().cluster(workers=2) as started:
        yield started


def run(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def tidelog(*arguments: object, folder: Path) -> str:
    done = run(sys.executable, "-m", "tidelog", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


PROGRAM = """
edge(a, b) . edge(b, c) . edge(c, a) . edge(c, d) . edge(x, y) .
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
apart(?x, ?y) :- edge(?x, _), edge(_, ?y), ~reach(?x, ?y) .
far(?x, #count(?y)) :- reach(?x, ?y) .
@output reach, apart, far .
"""


def test_a_program_gives_the_same_facts(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "program.rls").write_text(PROGRAM)
    arguments = ("--engine", "spark", "--master", cluster.master)
    tidelog("run", "program.rls", "--output", "here", folder=tmp_path)
    tidelog("run", "program.rls", "--output", "there", *arguments, *MEMORY, folder=tmp_path)
    for path in sorted((tmp_path / "here").iterdir()):
        parts = (tmp_path / "there" / path.stem).glob("*.csv")
        there = {line for part in parts for line in part.read_text().splitlines()}
        assert there == set(path.read_text().splitlines())


def test_spark_submit(cluster: Any, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "tidelog.zip")
    spark = Path(pyspark.__file__).parent
    done = run(
        *(spark / "bin" / "spark-submit", "--master", cluster.master, *MEMORY, "--py-files", archive),
        *(EXAMPLES / "spark" / "reach.py", EXAMPLES / "graph" / "flights.csv", tmp_path / "result"),
        folder=tmp_path,
        JAVA_HOME=str(find_java(tmp_path)),
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_PYTHON=sys.executable,
    )
    assert done.returncode == 0, done.stderr
    query = "reach(?x, ?y)"
    expected = tidelog("query", EXAMPLES / "graph" / "flights.rls", query, "--format", "csv", folder=tmp_path)
    # Spark puts Python's warnings on standard output too.
    assert done.stdout.splitlines()[-1] == f"{len(expected.splitlines()) - 1} pairs of cities"


WAITING = "import os; print(os.environ['SPARK_MASTER'], flush=True); input(); raise SystemExit(3)"


@contextmanager
def clustered(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """In the block, a command in a cluster waits for a line; gives its process and the cluster's master."""
    script = str(EXAMPLES / "spark" / "cluster.py")
    command = [sys.executable, script, "--", sys.executable, "-c", WAITING]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    ) as process:
        assert process.stdout is not None
        master = process.stdout.readline().strip()
        assert master.startswith("spark://127.0.0.1:")
        yield process, master


def workers_of(master: str) -> int:
    """Return how many workers of a cluster there are."""
    words = (process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"]))
    return sum("org.apache.spark.deploy.worker.Worker" in each and master in each for each in words)


def wait_until_gone(master: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while workers_of(master):
        assert time.monotonic() < deadline, f"workers of {master} are still there"
        time.sleep(0.1)


def test_a_cluster_ends_with_its_command(tmp_path: Path) -> None:
    with clustered(tmp_path) as (process, master):
        assert workers_of(master) == 2
        process.communicate("\n")
    assert process.returncode == 3
    wait_until_gone(master)


def test_a_cluster_ends_with_whoever_started_it(tmp_path: Path) -> None:
    with clustered(tmp_path) as (process, master):
        assert workers_of(master) == 2
        process.kill()
    wait_until_gone(master)
