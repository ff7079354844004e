"""The jobs of the suite `spark`, each in a session that is started and warmed before the clock starts.

CPU seconds are those of all processes: this one, Java, and the Python workers of the executors. What users
wait for is in `wall_s`.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.clock import tree_peak_megabytes, tree_timed
from benchmarks.program import read_program
from benchmarks.record import Measurement, Task
from benchmarks.suites.spark import PLAIN, QUICK_SIZES
from benchmarks.workloads import WORKLOADS, Prepared, prepare

CORES = 2
DATA = {"W5": "W5", "update": "W5"}
UPDATES = {"pipeline": 11, "batches": 120}  # of which the first ones do not count: Java compiles as it goes
WARMING = {"pipeline": 2, "batches": 60}


@dataclass(frozen=True)
class Setting:
    """What a job works with: facts in files, a session, a folder of its own."""

    facts: Prepared
    session: Any
    folder: Path


def prepared(workload: str, size: int) -> Prepared:
    """The facts of a workload, in files."""
    return prepare(WORKLOADS[DATA[workload]], size)


def measure_job(task: Task) -> Measurement:
    """The cost of a job, after the same job on little."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = None if task.variant == "columnar" else started()
        warm = Setting(prepared(task.workload, QUICK_SIZES[task.workload]), session, folder / "warm")
        cold = Setting(prepared(task.workload, task.size), session, folder / "measured")
        measure = JOBS[task.workload]
        measure(task.variant, warm)
        return measure(task.variant, cold)


def started() -> Any:
    """A session on two cores, as users get it."""
    from tidelog.spark.session import SessionSettings

    return SessionSettings(master=f"local[{CORES}]").start()


def derive(setting: Setting) -> Measurement:
    """From files to the number of all consequences, in this process."""
    import tidelog as tl

    # Structures for closures would do the work that is measured here.
    reasoner = tl.Reasoner(tl.load(setting.facts.program), modules=False)
    outputs = read_program(setting.facts.workload).outputs

    def work() -> int:
        reasoner.materialise()
        return sum(len(reasoner[predicate]) for predicate in outputs)

    return measured(work, setting.facts)


def measured(work: Callable[[], int], facts: Prepared) -> Measurement:
    tuples, cpu, wall = tree_timed(work)
    return Measurement(cpu, wall, tuples, tree_peak_megabytes(), counts={"facts": facts.facts})


def publish(variant: str, setting: Setting) -> Measurement:
    """From files to a published version, or to files without duplicates; the facts read are the answer."""
    from benchmarks.pipelines import job_of, read_distinct_write

    facts = setting.facts
    if variant == PLAIN:

        def rewrite() -> int:
            read_distinct_write(setting.session, facts.folder, setting.folder)
            return facts.facts

        return measured(rewrite, facts)
    if variant == "columnar":
        done = derive(setting)
    else:
        job = job_of(facts.program, setting.folder, setting.session)
        done = measured(lambda: job.run().version.rows, facts)
    return replace(done, tuples=facts.facts, counts=done.counts | {"derived": done.tuples})


def update(variant: str, setting: Setting) -> Measurement:
    """Ten facts, half of them gone and half of them new, on a published state, to the next version."""
    from benchmarks.pipelines import job_of, ten_facts, ten_records

    job = job_of(setting.facts.program, setting.folder, setting.session)
    rows = job.run().version.rows
    with job:
        change: Callable[[int], object] = partial(ten_facts, job)
        if variant == "batches":
            batches = job.batches("worksFor", op="op")
            change = lambda number: batches(ten_records(setting.session, number), number)  # noqa: E731
        timings = [tree_timed(partial(change, number)) for number in range(UPDATES[variant])]
    warm = timings[WARMING[variant] :]
    return Measurement(
        cpu_s=statistics.median(cpu for _, cpu, _ in warm),
        wall_s=statistics.median(wall for _, _, wall in warm),
        p99_s=max(wall for _, _, wall in warm),
        tuples=rows,
        peak_rss_mb=tree_peak_megabytes(),
        counts={"facts": setting.facts.facts, "operations": len(warm), "first_s": timings[0][2]},
    )


JOBS: dict[str, Callable[[str, Setting], Measurement]] = {
    "W5": publish,
    "update": update,
}
