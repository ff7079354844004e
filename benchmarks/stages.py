"""From files to Parquet on Spark, derived or not: `python -m benchmarks.stages W5 1000000 5`.

All jobs run in one session, in turns, after two runs of each that do not count. CPU seconds are those of all
processes: driver, Java and Python workers. `plain` reads the files with a given schema, removes duplicates
and writes; the others derive what follows and write that: by one task or two, which write the files
themselves, or through Spark's own writer. `chain` and `tree` are programs of recursion only, from Parquet.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial, reduce
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow.parquet as pq

from benchmarks.clock import Family, family_now
from benchmarks.exchange import workload
from benchmarks.workloads import WORKLOADS, prepare

WARMING: Final = 2
CORES: Final = 2
IMPORT: Final = re.compile(r"@import (\w+) :- .*format = \(([^)]*)\).*")
Job = Callable[[Path], int]


def facts_of(name: str, size: int, folder: Path) -> tuple[str, dict[str, str], str]:
    """Return a program without imports, the paths of its inputs by predicate, and their format."""
    if name in WORKLOADS:
        prepared = prepare(WORKLOADS[name], size)
        text = IMPORT.sub(declared, prepared.program.read_text(encoding="utf-8"))
        files = {path.stem: str(path) for path in sorted(prepared.folder.glob("*.tsv"))}
        return text, {name: file for name, file in files.items() if Path(file).stat().st_size}, "tsv"
    text, tables = workload(name, size)
    paths = {}
    for predicate, table in tables.items():
        paths[predicate] = str(folder / f"{predicate}.parquet")
        pq.write_table(table, paths[predicate])
    return text, paths, "parquet"


def declared(found: re.Match[str]) -> str:
    """Return the declaration of a predicate that was imported."""
    types = [each.strip() for each in found[2].split(",") if each.strip()]
    columns = ", ".join(f"c{place}: {of}" for place, of in enumerate(types))
    return f"@declare {found[1]}({columns}) ."


def schema_of(path: str, form: str) -> str:
    """Return the schema of a file, in Spark's words."""
    if form == "parquet":
        return "x bigint, y bigint"
    with Path(path).open(encoding="utf-8") as lines:
        columns = lines.readline().count("\t") + 1
    return ", ".join(f"c{place} string" for place in range(columns))


def read(session: Any, paths: list[str], form: str) -> Any:
    """Return files of the same columns as a frame; nothing is looked at before."""
    reader = session.read.schema(schema_of(paths[0], form))
    return reader.parquet(*paths) if form == "parquet" else reader.csv(paths, sep="\t", quote="")


# ---- jobs


def tagged(session: Any, inputs: Mapping[str, str], form: str) -> dict[tuple[str, ...], Any]:
    """Return the files of the same columns as one frame, by the predicates whose rows it holds."""
    from pyspark.sql import functions as sql

    groups: dict[str, list[str]] = {}
    for name, path in inputs.items():
        groups.setdefault(schema_of(path, form), []).append(name)
    found = {}
    for names in groups.values():
        frame = read(session, [inputs[name] for name in names], form)
        stem = sql.substring_index(sql.col("_metadata.file_name"), ".", 1)
        found[tuple(names)] = frame.withColumn("predicate", stem)
    return found


def plain(session: Any, inputs: Mapping[str, str], form: str, target: Path) -> int:
    """Read all files, keep each row once, and write them: a scan for each number of columns."""
    frames = list(tagged(session, inputs, form).values())
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    every.distinct().write.mode("overwrite").parquet(str(target))
    return 0


def derived(
    session: Any,
    text: str,
    inputs: Mapping[str, str],
    form: str,
    target: Path,
    tasks: int | None,
    writer: str,
    shares: bool,
) -> int:
    """Derive what follows, and write it."""
    from tidelog import spark as ts

    frames: Mapping[Any, Any]
    if shares:
        frames = tagged(session, inputs, form)
    else:
        frames = {name: read(session, [path], form) for name, path in inputs.items()}
    found = ts.derive(text, frames, partitions=tasks)
    if writer == "files":
        return sum(found.save(target, mode="overwrite").values())
    found.facts.write.mode("overwrite").partitionBy("predicate").parquet(str(target))
    return sum(found.observation.get.values())


def jobs(session: Any, name: str, size: int, folder: Path) -> dict[str, Job]:
    """Return the jobs of a workload by name."""
    text, inputs, form = facts_of(name, size, folder)

    def by(tasks: int | None, writer: str, shares: bool = True) -> Job:
        return lambda target: derived(session, text, inputs, form, target, tasks, writer, shares)

    found: dict[str, Job] = {
        "plain": partial(plain, session, inputs, form),
        "task, save": by(None, "files"),
        "exchange of 2, save": by(CORES, "files"),
        "task, facts by Spark's writer": by(None, "spark"),
    }
    if len(inputs) > 1:
        found["task, save, a frame for each predicate"] = by(None, "files", False)
    return found


# ---- measured


def shares(before: Mapping[int, float]) -> dict[str, float]:
    """Return the CPU seconds of driver, Java and workers since others were taken."""
    found = {"driver": 0.0, "java": 0.0, "workers": 0.0}
    for process in family_now():
        spent = sum(process.cpu_times()[:2]) - before.get(process.pid, 0.0)
        is_java, is_this = "java" in process.name(), process.pid == os.getpid()
        found["java" if is_java else "driver" if is_this else "workers"] += spent
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("workload", choices=("W5", "W6", "chain", "tree"))
    parser.add_argument("size", type=int)
    parser.add_argument("rounds", type=int, nargs="?", default=3)
    parser.add_argument("--only", help="jobs, by a part of their names", default="")
    asked = parser.parse_args()
    from tidelog.spark.session import SessionSettings

    session = SessionSettings(master=f"local[{CORES}]").start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = {
            name: job
            for name, job in jobs(session, asked.workload, asked.size, folder).items()
            if any(part in name for part in asked.only.split(","))
        }
        taken: dict[str, list[float]] = {name: [] for name in chosen}
        for turn in range(-WARMING, asked.rounds):
            for name in list(chosen)[:: 1 if turn % 2 else -1]:
                target = folder / "target"
                before = {process.pid: sum(process.cpu_times()[:2]) for process in family_now()}
                with Family() as family:
                    rows = chosen[name](target)
                    spent = family.cpu_seconds()
                shutil.rmtree(target)
                if turn >= 0:
                    taken[name].append(spent)
                told = ", ".join(f"{who} {cpu:.2f}" for who, cpu in shares(before).items())
                print(
                    f"{turn:3d} {name:40s} {spent:6.2f} s ({told}) {rows or ''}", file=sys.stderr, flush=True
                )
        base = median(taken.get("plain", [])) if taken.get("plain") else None
        print("| job | CPU s, median | least to most | by plain |\n|---|---|---|---|")
        for name, each in taken.items():
            ratio = f"{median(each) / base:.2f}" if base else ""
            print(f"| {name} | {median(each):.2f} | {min(each):.2f}–{max(each):.2f} | {ratio} |")
    session.stop()


if __name__ == "__main__":
    main()
