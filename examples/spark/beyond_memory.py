"""Derive facts that do not fit in one worker, by two tasks or by joins, and measure the memory of workers.

    python examples/spark/cluster.py --workers 2 -- python examples/spark/beyond_memory.py task exchange

The program derives which machines of a site reach each other: the links of a site form a chain of texts.
Tasks write Parquet files. The script prints a line of JSON for each named strategy: the rows and a checksum
of each output, or the error; the CPU seconds of all executors, the peak anonymous memory of their largest
Python worker, the peak size of persisted frames, in memory and on disk, and the memory that executors have
for these (all in MB). `here` derives in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from zlib import crc32

import numpy as np
import psutil
import pyarrow as pa
from pyarrow.dataset import dataset
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tidelog as tl
from tidelog import spark as ts
from tidelog.spark.shipping import translated_errors

PROGRAM = """
    @declare link(site: string, from: string, to: string) .
    reach(?site, ?x, ?y) :- link(?site, ?x, ?y) .
    reach(?site, ?x, ?z) :- reach(?site, ?x, ?y), link(?site, ?y, ?z) .
    size(?site, #count(?x)) :- link(?site, ?x, _) .
    last(?site, ?y) :- link(?site, _, ?y), ~link(?site, ?y, _) .
    @output reach, size, last .
"""
OUTPUTS = ("last", "reach", "size")
SITE, MACHINE = "site-%06d", "machine-%06d-%04d.example"
WEIGHTS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


class Observed:
    """The memory and CPU time of the executors of an application while it runs. Mutable."""

    def __init__(self, session: SparkSession) -> None:
        self.megabytes = 0  # of the largest Python worker
        self.kept = 0  # peak MB of persisted frames, in memory and on disk
        self.room = 0  # MB of all executors for execution and storage
        self.seconds: dict[int, float] = {}
        self._application = session.sparkContext.applicationId
        self._store = session.sparkContext._jsc.sc().statusStore()  # as the pages of Spark's UI

    @contextmanager
    def looking(self) -> Iterator[None]:
        """In the block, sample all processes, ten times a second."""
        has_ended = threading.Event()

        def look() -> None:
            while not has_ended.wait(0.1):
                self.look()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()

    def look(self) -> None:
        """Sample all processes and Spark's storage once."""
        kept = self._store.rddList(True)
        each = [kept.apply(number) for number in range(kept.size())]
        self.kept = max(self.kept, sum(frame.memoryUsed() + frame.diskUsed() for frame in each) >> 20)
        executors = self._store.executorList(True)
        each = [executors.apply(number) for number in range(executors.size())]
        self.room = sum(one.maxMemory() for one in each if one.id() != "driver") >> 20
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or ()
            if self._application in words and "--executor-id" in words:
                self._add(process, is_python=False)
                for child in process.children(recursive=True):
                    self._add(child, is_python=True)

    def _add(self, process: psutil.Process, is_python: bool) -> None:
        try:
            memory, times = process.memory_info(), process.cpu_times()
        except psutil.NoSuchProcess:
            return
        self.seconds[process.pid] = times.user + times.system
        if is_python:
            self.megabytes = max(self.megabytes, (memory.rss - memory.shared) >> 20)


def links(session: SparkSession, sites: int, machines: int) -> DataFrame:
    """Return the links of each site, which form a chain of its machines."""
    every = session.range(sites * (machines - 1), numPartitions=8)
    site, place = F.expr(f"id DIV {machines - 1}"), F.col("id") % (machines - 1)
    return every.select(
        F.format_string(SITE, site).alias("site"),
        F.format_string(MACHINE, site, place).alias("from"),
        F.format_string(MACHINE, site, place + 1).alias("to"),
    )


def derived(link: DataFrame, partitions: int | None) -> dict[str, list[int]]:
    """Return the rows and a checksum of each output, which tasks write to Parquet files."""
    with tempfile.TemporaryDirectory(prefix="tidelog-beyond-memory-") as folder:
        with translated_errors():
            rows = ts.derive(PROGRAM, {"link": link}, partitions=partitions).save(folder)
        files = {name: dataset(f"{folder}/{name}", format="parquet") for name in OUTPUTS}
        return {name: [rows[name], checksum(each.to_batches())] for name, each in files.items()}


def derived_here(link: DataFrame) -> dict[str, list[int]]:
    """Return the same, derived in this process."""
    reasoner = tl.Reasoner(PROGRAM)
    reasoner.insert("link", link.toArrow())
    tables = {name: reasoner[name].to_arrow() for name in OUTPUTS}
    return {name: [table.num_rows, checksum(table.to_batches())] for name, table in tables.items()}


def checksum(batches: Iterable[pa.RecordBatch]) -> int:
    """Return a checksum of the set of rows, independent of their order."""
    total = 0
    for batch in batches:
        mixed = np.zeros(batch.num_rows, np.uint64)
        for column, weight in zip(batch.columns, WEIGHTS, strict=False):
            encoded = column.dictionary_encode()
            hashes = [crc32(str(value).encode()) for value in encoded.dictionary.to_pylist()]
            mixed += (np.array(hashes, np.uint64) + np.uint64(1))[encoded.indices.to_numpy()] * weight
        mixed ^= mixed >> np.uint64(29)
        mixed *= WEIGHTS[0]
        total += int((mixed ^ mixed >> np.uint64(32)).sum(dtype=np.uint64))
    return total % (1 << 63)


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=8_000)
    parser.add_argument("--machines", type=int, default=61, help="of each site")
    parser.add_argument("--memory", default="", help="that a task may take, such as 500m")
    parser.add_argument("--conf", action="append", default=[], help="KEY=VALUE, of the session")
    parser.add_argument("strategies", nargs="+", choices=("here", "task", "exchange", "joins"))
    parsed = parser.parse_args(arguments)
    builder = SparkSession.builder.master(os.environ.get("SPARK_MASTER", "local[2]"))
    settings = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "16",
        **dict(each.split("=", 1) for each in parsed.conf),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    if parsed.memory:
        session.conf.set("tidelog.taskMemory", parsed.memory)
    link = links(session, parsed.sites, parsed.machines)
    for strategy in parsed.strategies:
        session.conf.set("tidelog.strategy", "joins" if strategy == "joins" else "auto")
        observed, begun = Observed(session), time.monotonic()
        before = Observed(session)
        before.look()
        said: dict[str, Any] = {"strategy": strategy}
        with observed.looking():
            try:
                if strategy == "here":
                    said["outputs"] = derived_here(link)
                else:
                    said["outputs"] = derived(link, {"task": 1, "exchange": 2}.get(strategy))
            except tl.TidelogError as error:
                said["error"] = str(error)
        said["megabytes"] = observed.megabytes
        said["kept"], said["room"] = observed.kept, observed.room
        said["cpu"] = round(sum(observed.seconds.values()) - sum(before.seconds.values()), 1)
        said["wall"] = round(time.monotonic() - begun, 1)
        print(json.dumps(said), flush=True)
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
