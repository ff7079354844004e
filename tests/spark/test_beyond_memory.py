"""What does not fit one worker: two tasks of a cluster derive it, and joins keep it on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
MEMORY = 400  # MB that a task may take
NODES, CHAIN, GROUP = 150_000, 5, 40
ROWS = {"far": NODES * 4 // 5, "last": NODES // 5, "mate": NODES * GROUP, "reach": NODES * 10 // CHAIN}
# Spark may use 2 × 18 MB for rows of frames: each `mate` takes 24 bytes as Spark holds it, 144 MB in all.
SPILLING = ("--conf", "spark.memory.fraction=0.1")


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What each strategy says of the same program and data."""
    cluster = [sys.executable, EXAMPLES / "cluster.py", "--workers", "2", "--"]
    job = [
        sys.executable,
        EXAMPLES / "beyond_memory.py",
        "--nodes",
        NODES,
        "--memory",
        f"{MEMORY}m",
        *SPILLING,
    ]
    command = [str(word) for word in (*cluster, *job, "here", "task", "exchange", "joins")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each["strategy"]: each for each in said}


def test_one_task_ends_with_an_error_that_says_what_to_set(found: dict[str, Any]) -> None:
    error = found["task"]["error"]
    assert "E882" in error and "the facts of a task do not fit 419 MB: it had read " in error
    assert "set `partitions=2`, at least" in error
    assert found["task"]["megabytes"] <= 1.05 * MEMORY


def test_two_tasks_derive_what_neither_can_hold(found: dict[str, Any]) -> None:
    assert found["exchange"]["outputs"] == found["here"]["outputs"]
    assert {name: rows for name, (rows, _) in found["here"]["outputs"].items()} == ROWS
    assert found["exchange"]["megabytes"] <= MEMORY


def test_joins_derive_four_times_what_spark_may_hold(found: dict[str, Any]) -> None:
    assert found["joins"]["outputs"] == found["here"]["outputs"]
    assert found["joins"]["megabytes"] <= MEMORY
