"""Rows that fit neither Java's heap nor a small process: Spark holds, compares and writes them in pieces."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.small_memory import BAD, FILES, LETTERS

ROWS = 4_000_000  # over 1 GB of text, where the heap has 512 MB
EACH = ROWS // FILES
BAD_EACH = EACH // BAD
GOOD_EACH = EACH - BAD_EACH


def versions_of(what: str, folder: Path) -> list[list[int]]:
    """Return the counts of all versions, published in a process that has taken less than a gigabyte."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.small_memory", what, str(ROWS)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["peak_mb"] < 1024 < ROWS * LETTERS >> 20
    return list(found["versions"])


@pytest.mark.slow
def test_sources_tables_and_sinks_do_not_have_to_fit(tmp_path: Path) -> None:
    """No row of a table that no rule reads comes to the driver; a sink is written some rows at a time."""
    rows, bad = FILES * GOOD_EACH, FILES * BAD_EACH
    assert versions_of("run", tmp_path) == [[rows, rows, 0, bad, 1], [rows, GOOD_EACH, GOOD_EACH, bad, 1]]


@pytest.mark.slow
def test_streams_do_not_have_to_fit(tmp_path: Path) -> None:
    """What is kept of batches is what the state has; records that are rejected are not kept at all."""
    came = [GOOD_EACH, GOOD_EACH, 0, GOOD_EACH, BAD_EACH]
    went = [0, 0, GOOD_EACH, GOOD_EACH, BAD_EACH]
    assert versions_of("stream", tmp_path) == [came, went] * (FILES // 2)
