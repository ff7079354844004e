"""The process that performs one task and writes its measurement: `python -m benchmarks.child TASK FILE`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.record import Task
from benchmarks.suites import SUITES


def main(task: str, result: str) -> None:
    """The measurement of the task is in the file."""
    asked = Task(**json.loads(task))
    measurement = SUITES[asked.suite].perform(asked)
    Path(result).write_text(json.dumps(asdict(measurement)))


if __name__ == "__main__":
    main(*sys.argv[1:])
