"""The suite `spark`: targets from records, CPU seconds of all processes, and every job over little data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.clock import tree_peak_megabytes, tree_timed
from benchmarks.record import Counts, Record, Task
from benchmarks.suites import spark as suite
from benchmarks.suites.suite import Options
from benchmarks.targets import targets

from benchmarks import workloads

LITTLE = {"W5": 2_000, "update": 2_000}


def record(workload: str, variant: str, size: int, cpu_s: float, **counts: float) -> Record:
    found: Counts = {"status": "done", **counts}
    return Record("spark", workload, "tidelog", variant, size, cpu_s, cpu_s, None, 1, 1.0, None, None, found)


def test_targets_are_read_from_records() -> None:
    records = [
        record("W5", "pipeline", 1_000_000, 30.0),
        record("W5", "plain-read-distinct-write", 1_000_000, 10.0),
        record("update", "pipeline", 1_000_000, 2.0),
    ]
    found = {target.what: target for target in targets(records) if target.what.startswith("Spark")}
    reached = [target.is_reached for target in found.values()]
    assert reached == [True, None, True]
    assert found["Spark, W5: pipeline by a plain job"].measured == "3.0"


def test_quick_questions_ask_all_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "RESULTS", tmp_path)
    asked = {task.workload: task.variant for tasks in suite.questions(Options(quick=True)) for task in tasks}
    assert asked.keys() == suite.VARIANTS.keys()


def test_seconds_of_other_processes_count() -> None:
    def spend() -> int:
        code = "import time\nwhile time.process_time() < 1.2: pass"
        return subprocess.run([sys.executable, "-c", code], check=True).returncode

    _, cpu, wall = tree_timed(spend)
    assert wall > 1.0
    assert cpu > 0.4  # it is looked at twice a second, and gone in the end
    assert tree_peak_megabytes() > 10


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("workload", suite.VARIANTS)
def test_jobs_on_little(workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "RESULTS", tmp_path)
    monkeypatch.setattr(suite, "QUICK_SIZES", LITTLE)
    monkeypatch.setattr("benchmarks.spark_jobs.QUICK_SIZES", LITTLE)
    size = 2 * LITTLE[workload]
    tasks = [Task("spark", workload, "tidelog", name, size, 1) for name in suite.VARIANTS[workload]]
    found = list(suite.perform(tasks))
    assert len({one.tuples for one in found}) == 1
