"""What a process does to find out what computing with values costs: from files to files of results.

An engine is warm when it has done the same job on next to nothing. Results are checked when the clock has
stopped: they are equal to those of all engines that have done the same before.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import workloads
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.program import FOLDER
from benchmarks.record import Counts, Measurement, Task
from benchmarks.workloads import VALUED, Prepared, prepare

TINY = 20  # the size of the job that warms an engine up
Work = Callable[[Prepared, int, Path], Counts]
"""A job: reads the files of a workload of some size, and writes results to a folder."""

STATISTICS = "statistics.json"
PRICES = {"W9": "DECIMAL(9, 2)", "W9-doubles": "DOUBLE"}
SCRIPTS = {"W9-doubles": "W9"}


def compute(task: Task) -> Measurement:
    """The cost of one job in this process."""
    work = ENGINES[task.engine](task)
    workload = VALUED[task.workload]
    prepared, small = prepare(workload, task.size), prepare(workload, TINY)
    work(small, TINY, emptied(results_folder(small, task)))
    folder = emptied(results_folder(prepared, task))
    start = cpu_seconds()
    counts, cpu, wall = timed(lambda: work(prepared, task.size, folder))
    peak = peak_megabytes()
    checked = check_answers(task.workload, folder)
    counts = {"facts": prepared.facts, "start_s": round(start, 3)} | counts | checked
    tuples = sum(int(count) for name, count in checked.items() if name != "digest")
    return Measurement(cpu, wall, tuples, peak, counts=counts)


# ---- engines


def ready_tidelog(task: Task) -> Work:
    """`tidelog run`, in this process."""
    from tidelog.__main__ import main

    def work(prepared: Prepared, size: int, output: Path) -> Counts:
        command = ["run", str(prepared.program), "--quiet", "--threads", str(task.threads)]
        if task.workload == "W13":
            command += ["--param", f"limit={size}"]
        code = main([*command, "--output", str(output), "--stats", str(output / STATISTICS)])
        if code:
            raise RuntimeError(f"tidelog run ended with {code}")
        return read_statistics(output / STATISTICS)

    return work


def read_statistics(path: Path) -> Counts:
    """Wall seconds of reading and of deriving, rounds, and facts."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return {
        "load_wall_s": found["seconds"]["load"],
        "reason_wall_s": found["seconds"]["reason"],
        "rounds": found["rounds"],
        "all_facts": found["facts"]["total"],
    }


def ready_duckdb(task: Task) -> Work:
    """A script, on a database in memory."""
    import duckdb

    name = SCRIPTS.get(task.workload, task.workload)
    script = (FOLDER / "duckdb" / f"{name}.sql").read_text(encoding="utf-8")
    price = PRICES.get(task.workload, "")

    def work(prepared: Prepared, size: int, output: Path) -> Counts:
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {task.threads}")
            connection.execute("SET preserve_insertion_order = false")
            connection.execute(f"SET file_search_path = '{prepared.folder}'")
            filled = script.replace("{output}", str(output)).replace("{size}", str(size))
            connection.execute(filled.replace("{price}", price))
        return {}

    return work


def ready_polars(task: Task) -> Work:
    """A function of data frames."""
    os.environ["POLARS_MAX_THREADS"] = str(task.threads)
    from benchmarks.frames import JOBS

    job = JOBS[task.workload]

    def work(prepared: Prepared, size: int, output: Path) -> Counts:
        job(prepared.folder, output)
        return {}

    return work


ENGINES: dict[str, Callable[[Task], Work]] = {
    "tidelog": ready_tidelog,
    "duckdb": ready_duckdb,
    "polars": ready_polars,
}


# ---- results


def answers_folder(prepared: Prepared) -> Path:
    """Where all engines' results from some facts are."""
    return workloads.RESULTS / "answers" / prepared.folder.name


def results_folder(prepared: Prepared, task: Task) -> Path:
    """Where an engine writes what it finds."""
    return answers_folder(prepared) / " ".join(filter(None, (task.engine, task.full_variant))).replace(
        " ", "-"
    )


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def check_answers(workload: str, folder: Path) -> Counts:
    """The digest and the sizes of the results, which are equal to those of all other engines."""
    from benchmarks.answers import check_equal, read_answers, summary_of  # here: its libraries take memory

    answers = read_answers(workload, folder)
    for other in finished(folder.parent, tuple(f"{name}.csv" for name in answers)):
        if other != folder:
            check_equal(workload, answers, read_answers(workload, other), other.name)
    return summary_of(workload, answers)


def finished(folder: Path, names: Iterable[str]) -> list[Path]:
    """The folders of engines that have written all results."""
    return [path for path in sorted(folder.iterdir()) if all((path / name).exists() for name in names)]
