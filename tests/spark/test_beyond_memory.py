"""What does not fit one task of a cluster of two workers: two tasks derive it, and joins derive more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
MEMORY = 650  # MB that a task may take


def run(*words: str) -> list[dict[str, Any]]:
    """Run the example on a cluster of two workers with one core each, and return what it says."""
    cluster = [sys.executable, EXAMPLES / "cluster.py", "--workers", "2", "--"]
    command = [str(word) for word in (*cluster, sys.executable, EXAMPLES / "beyond_memory.py", *words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def rows(sites: int, machines: int) -> dict[str, int]:
    """Return how many rows there are: the machines of a site are a chain."""
    return {"last": sites, "reach": sites * machines * (machines - 1) // 2, "size": sites}


def counted(said: dict[str, Any]) -> dict[str, int]:
    assert "error" not in said, said["error"]
    return {name: count for name, (count, _) in said["outputs"].items()}


@pytest.mark.slow
def test_two_workers_derive_what_the_memory_of_neither_holds() -> None:
    here, task, exchange = run("--memory", f"{MEMORY}m", "here", "task", "exchange")
    assert counted(here) == rows(8_000, 61)
    assert (
        "E882" in task["error"] and "the facts of a task do not fit in 682 MB: it had read " in task["error"]
    )
    assert "set `partitions=2`, at least" in task["error"]
    assert exchange.get("outputs") == here["outputs"], exchange.get("error")  # checksums, too
    assert max(task["megabytes"], exchange["megabytes"]) <= 1.05 * MEMORY


@pytest.mark.slow
def test_joins_derive_what_exceeds_the_memory_of_all_workers() -> None:
    """Compare the rows of `link` and `reach`, as Spark has them, with the memory in which it computes them.

    A row is 112 bytes: 32 of its own, and texts of 11, 27 and 27, rounded up to 8. The memory is what Spark
    reports of both executors: `spark.strategies.fraction` of heaps of 512 MB, less 300 MB of Spark's own.
    The rest of the heaps, and Python workers of at most 200 MB, are not counted. What Spark reports that it
    kept, in memory and on disk, has copies of several rounds too.
    """
    settings = {
        "spark.memory.fraction": "0.1",
        "spark.rdd.compress": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "8m",
    }
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    (joins,) = run("--sites", "60000", "--machines", "9", "--memory", "200m", *words, "joins")
    assert counted(joins) == rows(60_000, 9)
    data = 112 * (60_000 * 8 + rows(60_000, 9)["reach"]) >> 20
    assert 0 < 4 * joins["room"] <= data <= joins["kept"]
