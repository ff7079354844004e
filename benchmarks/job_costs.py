"""What jobs cost: `python -m benchmarks.job_costs ownership|orders FOLDER [ROUNDS] [--only NAME,…]`.

All ways run in one process, in turns, after a round that does not count; the session is there before. CPU
seconds are those of all processes: driver, Java and Python workers.

`ownership` is the job of `../shared/jobs/ownership`, in whose folder its `gen.py` has run: the first day, and
the second one, which its `change.py` makes. Tables must be equal on all engines, both days. `plain` is what
Spark alone has to do: the first day read with a schema and written, then both days read and compared.
`orders` has a million order lines of `../shared/prototype/values/gen.py` in FOLDER, clean and with 2,000 bad
rows, read, checked and published without rules; `plain` reads with a schema, removes duplicates and writes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.clock import Family, family_now
from benchmarks.stages import CORES, shares

ORDER: Final = "id: int, customer: string, day: date, product: string, quantity: int, price: decimal(14, 2)"
ORDER_OF_SPARK: Final = (
    "id bigint, customer string, day date, product string, quantity bigint, price decimal(14, 2)"
)
SHARES: Final = "owner string, owned string, class string, pct bigint, comment string"
PERSONS: Final = "pid string, name string, born date"
COMPANIES: Final = "id string, name string, country string, founded date, capital decimal(12, 2)"
SANCTIONS: Final = "who string, list string"
BAD_ROWS: Final = 2000
Way = Callable[[Path, int], Any]  # does the work of a day in a folder


# ---- ownership


def two_days(origin: Path, folder: Path) -> list[Path]:
    """The sources of both days: what `gen.py` made, and what `change.py` makes of it."""
    days = [folder / "first", folder / "second"]
    for day in days:
        shutil.copytree(origin, day, ignore=shutil.ignore_patterns("published*", "out"))
    subprocess.run([sys.executable, "change.py"], cwd=days[1], check=True)
    return days


def move_on(source: Path, target: Path) -> None:
    """Make the data of one folder that of another; files that are the same already are left alone."""
    for path in (source / "data").rglob("*"):
        there = target / path.relative_to(source)
        if path.is_file() and not (there.is_file() and there.read_bytes() == path.read_bytes()):
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, there)


def ownership_job(origin: Path, engine: str, partitions: int | None, session: Any) -> Way:
    """The job on an engine."""
    from tidelog.pipeline.job import Job
    from tidelog.pipeline.job_file import load_settings

    settings = load_settings(origin / "job.toml")
    made = replace(settings.engine, name=engine, partitions=partitions)

    def run(folder: Path, day: int) -> Any:
        del day
        job = replace(settings, folder=folder, program=str(origin / "rules.rls"), engine=made)
        return Job.of(job, session=session).run().version

    return run


def read_sources(session: Any, data: Path) -> dict[str, Any]:
    """The sources as Spark alone reads them, with a schema."""
    reader = session.read.option("recursiveFileLookup", "true")
    shares_of = session.read.schema(SHARES).option("escape", '"')
    return {
        "company": reader.schema(COMPANIES).parquet(str(data / "companies")),
        "share": shares_of.csv(str(data / "shares"), header=True, multiLine=True).drop("comment"),
        "person": session.read.schema(PERSONS).json(str(data / "persons.jsonl")),
        "sanction": session.read.schema(SANCTIONS).json(str(data / "sanctions.json"), multiLine=True),
    }


def plain_days(session: Any, days: list[Path]) -> Way:
    """Spark alone: one day is read and written; both are read and compared."""
    from tidelog.pipeline.spark_run import differences

    def run(folder: Path, day: int) -> None:
        now = read_sources(session, days[day] / "data")
        for name, frame in now.items():
            if day == 0:
                frame.distinct().write.mode("overwrite").parquet(str(folder / "plain" / name))
            else:
                then = read_sources(session, days[0] / "data")[name]
                differences(then, frame).write.mode("overwrite").parquet(str(folder / "changes" / name))

    return run


def ownership(session: Any, origin: Path, scratch: Path, rounds: int, chosen: list[str]) -> None:
    """Measure both days on all engines, and compare all tables."""
    from tidelog.pipeline import read

    days = two_days(origin, scratch)
    ways: dict[str, Way] = {
        "plain": plain_days(session, days),
        "columnar": ownership_job(origin, "columnar", None, None),
        "task": ownership_job(origin, "spark", None, session),
        "exchange": ownership_job(origin, "spark", CORES, session),
    }
    ways = {name: way for name, way in ways.items() if not chosen or name in chosen}
    taken: dict[str, list[float]] = {}
    for turn in range(-1, rounds):
        folders = {name: scratch / f"job {name}" for name in ways}
        for day, place in enumerate(days):
            for name in list(ways)[:: 1 if turn % 2 else -1]:
                if not day:
                    shutil.rmtree(folders[name], ignore_errors=True)
                move_on(place, folders[name])
                measure(f"{name}, day {day + 1}", ways[name], folders[name], day, turn, taken)
            found = [read(folder / "published") for name, folder in folders.items() if name != "plain"]
            for one, other in pairwise(found):
                assert set(one) == set(other)
                for table in one:
                    assert one[table] == other[table], f"{table} differs on day {day + 1}"
    print_table(taken)


# ---- order lines


def orders(session: Any, origin: Path, scratch: Path, rounds: int, chosen: list[str]) -> None:
    """Measure files without rules: read, checked, each row once, published."""
    from tidelog.pipeline import Job, Source

    clean = origin / "orders_1000000.csv"
    lines = clean.read_text().splitlines(keepends=True)
    for number in range(BAD_ROWS):
        place = 1 + number * ((len(lines) - 1) // BAD_ROWS)
        lines[place] = lines[place].rstrip("\n") + "x\n"  # no price ends so
    dirty = scratch / "dirty.csv"
    dirty.write_text("".join(lines))
    import tidelog

    program = tidelog.parse(f"@declare order({ORDER}) .")
    ways: dict[str, Way] = {}
    for name, path in {"clean": clean, "2,000 bad rows": dirty}.items():

        def plain(folder: Path, day: int, path: Path = path) -> None:
            del day
            frame = session.read.schema(ORDER_OF_SPARK).csv(str(path), header=True)
            frame.distinct().write.mode("overwrite").parquet(str(folder / "plain"))

        def job(folder: Path, day: int, path: Path = path) -> Any:
            del day
            source = Source("order", str(path), header=True)
            made = Job(program, publish=str(folder / "published"), sources=[source], session=session)
            return made.run().version

        ways |= {f"plain, {name}": plain, f"job, {name}": job}
    taken: dict[str, list[float]] = {}
    ways = {name: way for name, way in ways.items() if not chosen or name.split(",")[0] in chosen}
    for turn in range(-1, rounds):
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            folder = scratch / name
            shutil.rmtree(folder, ignore_errors=True)
            measure(name, ways[name], folder, 0, turn, taken)
    print_table(taken)


# ---- measured


def measure(name: str, way: Way, folder: Path, day: int, turn: int, taken: dict[str, list[float]]) -> None:
    """Note what the work of a day takes, and say by whom."""
    before = {process.pid: sum(process.cpu_times()[:2]) for process in family_now()}
    with Family() as family:
        way(folder, day)
        spent = family.cpu_seconds()
    if turn >= 0:
        taken.setdefault(name, []).append(spent)
    told = ", ".join(f"{who} {cpu:.2f}" for who, cpu in shares(before).items())
    load = os.getloadavg()[0]
    print(f"{turn:3d} {name:24s} {spent:6.2f} s ({told}; load {load:.0f})", file=sys.stderr, flush=True)


def print_table(taken: Mapping[str, list[float]]) -> None:
    """Print the medians."""
    print("| way | CPU s, median | least to most |\n|---|---|---|")
    for name, each in taken.items():
        print(f"| {name} | {median(each):.2f} | {min(each):.2f}–{max(each):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.job_costs", description=__doc__)
    parser.add_argument("what", choices=("ownership", "orders"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("rounds", type=int, nargs="?", default=1)
    parser.add_argument("--only", default="", help="ways, by their names")
    parser.add_argument("--connect", action="store_true", help="by Spark Connect instead of classic Spark")
    asked = parser.parse_args()
    if asked.connect:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.remote(f"local[{CORES}]").getOrCreate()
    else:
        from tidelog.spark.session import SessionSettings

        session = SessionSettings(master=f"local[{CORES}]").start()
    jobs = {"ownership": ownership, "orders": orders}
    with tempfile.TemporaryDirectory() as name:
        chosen = [each for each in asked.only.split(",") if each]
        jobs[asked.what](session, asked.folder.resolve(), Path(name), asked.rounds, chosen)
    session.stop()


if __name__ == "__main__":
    main()
