"""Folders for files of processes: those of killed processes are removed by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

BEGIN = "from tidelog.spark.session import scratch_folder; print(scratch_folder(), flush=True)"


def begun(folder: Path, then: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", f"{BEGIN}\n{then}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )


def made(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_a_folder_goes_with_its_process_or_with_the_next(tmp_path: Path) -> None:
    with begun(tmp_path, "input()") as killed, begun(tmp_path, "input()") as living:
        first, second = made(killed), made(living)
        assert first.is_dir() and second.is_dir()
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert first.is_dir()
        with begun(tmp_path, "pass") as last:
            third = made(last)
        assert not first.exists() and second.is_dir() and not third.exists()
        living.kill()
