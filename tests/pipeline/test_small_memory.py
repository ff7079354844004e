"""Rows that fit neither Java's heap nor a small process: Spark holds, compares and writes them in pieces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.small_memory import BAD, FILES, LETTERS

ROWS = 1_120_000  # over 1 GB of text, where the heap has 512 MB
RECORDS = ROWS // 2  # of a stream, over the heap still


def of_each_file(rows: int) -> tuple[int, int]:
    """Return how many rows of each file are good, and how many are bad."""
    each = rows // FILES
    return each - each // BAD, each // BAD


def versions_of(what: str, rows: int, folder: Path) -> list[list[int]]:
    """Return the counts of all versions, published in a process that has taken less than a gigabyte."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.small_memory", what, str(rows)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["peak_mb"] < 1024
    return list(found["versions"])


@pytest.mark.slow
def test_sources_tables_and_sinks_do_not_have_to_fit(tmp_path: Path) -> None:
    """No row of a table that no rule reads comes to the driver; a sink is written some rows at a time."""
    assert ROWS * LETTERS > 1 << 30
    good, bad = of_each_file(ROWS)
    rows, rejected = FILES * good, FILES * bad
    first, second = [rows, rows, 0, rejected, 1], [rows, good, good, rejected, 1]
    assert versions_of("run", ROWS, tmp_path) == [first, second]


@pytest.mark.slow
def test_streams_do_not_have_to_fit(tmp_path: Path) -> None:
    """What is kept of batches is what the state has; records that are rejected are not kept at all."""
    assert RECORDS * LETTERS > 512 << 20
    good, bad = of_each_file(RECORDS)
    came, went = [good, good, 0, good, bad], [0, 0, good, good, bad]
    assert versions_of("stream", RECORDS, tmp_path) == [came, went] * (FILES // 2)
