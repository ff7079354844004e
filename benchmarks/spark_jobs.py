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
from benchmarks.suites.spark import FRAMES, PLAIN, QUICK_SIZES
from benchmarks.workloads import WORKLOADS, Prepared, prepare

CORES = 2
DATA = {"RMAT": "W1", "chain": "W3", "W5": "W5", "N-Triples": "W6", "update": "W5"}
UPDATES, WARMING = 11, 2
STATEMENTS = "statements.nt"


@dataclass(frozen=True)
class Setting:
    """What a job works with: facts in files, a session, a folder of its own."""

    facts: Prepared
    session: Any
    folder: Path


def prepared(workload: str, size: int) -> Prepared:
    """The facts of a workload, in files."""
    found = prepare(WORKLOADS[DATA[workload]], size)
    if workload == "N-Triples":
        write_statements(found.folder)
    return found


def write_statements(folder: Path) -> None:
    """The triples of a folder as N-Triples; all terms are IRIs."""
    if (folder / STATEMENTS).exists():
        return
    given, unfinished = folder / "triple.tsv", folder / "unfinished"
    with given.open(encoding="utf-8") as lines, unfinished.open("w", encoding="utf-8") as sink:
        for line in lines:
            terms = " ".join(f"<http://example.org/{term}>" for term in line.rstrip("\n").split("\t"))
            sink.write(f"{terms} .\n")
    unfinished.rename(folder / STATEMENTS)


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


# ---- programs


def derive(variant: str, setting: Setting) -> Measurement:
    """From files to the number of all consequences."""
    import tidelog as tl
    from tidelog.engine.spark.settings import SparkSettings

    engine = "columnar" if variant == "columnar" else SparkSettings(setting.session, strategy=variant)
    # The strategies are about rules: structures for closures would do the work of all of them.
    reasoner = tl.Reasoner(tl.load(setting.facts.program), engine=engine, modules=False)
    outputs = read_program(setting.facts.workload).outputs

    def work() -> int:
        reasoner.materialise()
        return sum(len(reasoner[predicate]) for predicate in outputs)

    return measured(work, setting.facts)


def measured(work: Callable[[], int], facts: Prepared) -> Measurement:
    tuples, cpu, wall = tree_timed(work)
    return Measurement(cpu, wall, tuples, tree_peak_megabytes(), counts={"facts": facts.facts})


# ---- pipelines


def publish(variant: str, setting: Setting) -> Measurement:
    """From files to a published version, or to files without duplicates; the facts read are the answer."""
    from benchmarks.pipelines import FRAMES as FRAMES_SETTINGS
    from benchmarks.pipelines import job_of, read_distinct_write
    from tidelog.pipeline.settings import Engine

    facts = setting.facts
    if variant == PLAIN:

        def rewrite() -> int:
            read_distinct_write(setting.session, facts.folder, setting.folder)
            return facts.facts

        return measured(rewrite, facts)
    if variant == "columnar":
        done = derive(variant, setting)
    else:
        engine = Engine("spark", conf=FRAMES_SETTINGS) if variant == FRAMES else None
        job = job_of(facts.program, setting.folder, setting.session, engine)
        done = measured(lambda: job.run().version.rows, facts)
    return replace(done, tuples=facts.facts, counts=done.counts | {"derived": done.tuples})


def ingest(variant: str, setting: Setting) -> Measurement:
    """From N-Triples, read on Spark, to encoded statements."""
    del variant
    from benchmarks.pipelines import encode_statements

    file = setting.facts.folder / STATEMENTS
    done = measured(lambda: encode_statements(setting.session, file), setting.facts)
    return replace(done, counts=done.counts | {"rows_per_s": round(setting.facts.facts / done.wall_s)})


def update(variant: str, setting: Setting) -> Measurement:
    """Ten facts, half of them gone and half of them new, on a published state, to the next version."""
    del variant
    from benchmarks.pipelines import job_of, ten_facts

    job = job_of(setting.facts.program, setting.folder, setting.session)
    rows = job.run().version.rows
    timings = [tree_timed(partial(ten_facts, job, number)) for number in range(UPDATES)]
    warm = timings[WARMING:]
    return Measurement(
        cpu_s=statistics.median(cpu for _, cpu, _ in warm),
        wall_s=statistics.median(wall for _, _, wall in warm),
        p99_s=max(wall for _, _, wall in warm),
        tuples=rows,
        peak_rss_mb=tree_peak_megabytes(),
        counts={"facts": setting.facts.facts, "operations": len(warm), "first_s": timings[0][2]},
    )


JOBS: dict[str, Callable[[str, Setting], Measurement]] = {
    "RMAT": derive,
    "chain": derive,
    "W5": publish,
    "N-Triples": ingest,
    "update": update,
}
