"""The process that performs tasks and writes what it measured: `python -m benchmarks.child TASKS FILE`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.record import Task
from benchmarks.suites import SUITES


def main(tasks: str, result: str) -> None:
    """The measurements of the tasks are in the file, a line each, written as soon as it is known."""
    asked = tuple(Task(**task) for task in json.loads(tasks))
    with Path(result).open("w", encoding="utf-8") as sink:
        for measurement in SUITES[asked[0].suite].perform(asked):
            print(json.dumps(asdict(measurement)), file=sink, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
