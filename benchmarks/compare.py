"""This checkout beside another: `python -m benchmarks.compare OTHER SUITE …`, in pairs, one after the other.

Every process performs the tasks of one variant once, in this checkout or in the other, in turns. What is
compared is the median of the ratios within pairs. The other checkout has a `.venv` and the suite of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from statistics import median

from benchmarks.measure import report
from benchmarks.record import Task
from benchmarks.suites import SUITES
from benchmarks.suites.suite import Options

HERE = Path(__file__).parent.parent


def main(arguments: Sequence[str]) -> int:
    """Print a line for each task: the median CPU seconds here and there, and that of their ratios."""
    parsed = command_line().parse_args(arguments)
    options = Options(
        tuple(parsed.workloads), tuple(parsed.sizes), tuple(parsed.variants), peers=(), quick=parsed.quick
    )
    ratios = []
    for tasks in jobs(parsed.suite, options):
        pairs = [pair(tasks, parsed.other, number % 2 == 0) for number in range(parsed.pairs)]
        for place, task in enumerate(tasks):
            here, there = ([cpu[place] for cpu in side] for side in zip(*pairs, strict=True))
            ratios.append(median(one / other for one, other in zip(here, there, strict=True)))
            print(f"{task.label:40} {median(here):10.6f} {median(there):10.6f} {ratios[-1]:8.3f}", flush=True)
    print(f"{'median':62} {median(ratios):8.3f}")
    return 0


def jobs(suite: str, options: Options) -> Iterator[list[Task]]:
    """The tasks of tidelog, as many at a time as one process performs."""
    for tasks in SUITES[suite].questions(options):
        own = [task for task in tasks if task.engine == "tidelog"]
        for _, group in groupby(own, key=lambda task: task.full_variant):
            yield list(group)


def pair(tasks: Sequence[Task], other: Path, is_here_first: bool) -> tuple[list[float], list[float]]:
    """The CPU seconds of each task here and in another checkout."""
    if is_here_first:
        return performed(tasks, HERE), performed(tasks, other)
    there = performed(tasks, other)
    return performed(tasks, HERE), there


def performed(tasks: Sequence[Task], checkout: Path) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.jsonl")
        asked = json.dumps([asdict(task) for task in tasks])
        command = [str(checkout / ".venv/bin/python"), "-m", "benchmarks.child", asked, str(result)]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
        if done.returncode:
            report(done.stderr)
            raise SystemExit(f"{tasks[0].label} failed in {checkout}")
        return [json.loads(line)["cpu_s"] for line in result.read_text(encoding="utf-8").splitlines()]


def command_line() -> argparse.ArgumentParser:
    """What the command takes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("other", type=Path, help="the folder of another checkout, with its own .venv")
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--workloads", nargs="+", default=[])
    parser.add_argument("--sizes", nargs="+", type=int, default=[])
    parser.add_argument("--variants", nargs="+", default=[])
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
