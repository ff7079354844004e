"""What does not fit one task of a cluster: it ends with an error that says what to set."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"
MEMORY = 400  # MB that a task may take


@pytest.mark.slow
def test_one_task_ends_with_an_error_that_says_what_to_set() -> None:
    cluster = [sys.executable, EXAMPLES / "cluster.py", "--workers", "2", "--"]
    job = [sys.executable, EXAMPLES / "beyond_memory.py", "--memory", f"{MEMORY}m", "here", "task"]
    command = [str(word) for word in (*cluster, *job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    here, task = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rows = {"far": 120_000, "last": 30_000, "mate": 6_000_000, "reach": 300_000}
    assert {name: count for name, (count, _) in here["outputs"].items()} == rows
    assert "E882" in task["error"] and "the facts of a task do not fit 419 MB: it had read " in task["error"]
    assert "set `partitions=2`, at least" in task["error"]
    assert task["megabytes"] <= 1.05 * MEMORY
