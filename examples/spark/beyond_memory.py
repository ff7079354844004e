"""Derive what does not fit the memory of one worker, by two tasks or by joins, and look at what workers take.

    python examples/spark/cluster.py --workers 2 -- python examples/spark/beyond_memory.py task exchange

Prints a line of JSON for each strategy that is named: the rows and a checksum of each output, or the error;
the CPU seconds of all executors, and the most anonymous memory that one of their Python workers had, in MB.
`here` derives in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tidelog as tl
from tidelog import spark as ts
from tidelog.spark.failures import telling

CHAIN = 5  # nodes that are linked: 4 edges, 10 pairs of which the second is reached from the first
GROUP = 40  # nodes that have the same mates
PROGRAM = """
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
    far(?x, #count(?y)) :- reach(?x, ?y) .
    last(?y) :- edge(_, ?y), ~edge(?y, _) .
    mate(?x, ?y) :- member(?x, ?group), member(?y, ?group) .
"""
PRIME = 1_000_003


class Observed:
    """What the executors of an application take while it runs. Mutable."""

    def __init__(self, application: str) -> None:
        self.megabytes = 0
        self.seconds: dict[int, float] = {}
        self._application = application

    @contextmanager
    def looking(self) -> Iterator[None]:
        """In the block, look at all processes, ten times a second."""
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
        """Look at all processes once."""
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


def inputs(session: SparkSession, nodes: int) -> dict[str, DataFrame]:
    """Return chains of nodes, and the groups that these are members of."""
    every = session.range(nodes, numPartitions=8)
    return {
        "edge": every.where(F.col("id") % CHAIN != CHAIN - 1).selectExpr("id AS x", "id + 1 AS y"),
        "member": every.selectExpr("id AS x", f"id DIV {GROUP} AS g"),
    }


def derived(frames: Mapping[str, DataFrame], partitions: int | None) -> dict[str, list[int]]:
    """Return the rows and a checksum of each output, in one pass."""
    with telling():
        outputs = ts.derive(PROGRAM, frames, partitions=partitions)
        marks = [
            F.when(F.col("predicate") == name, _mixed([F.col(place) for place in places.values()]))
            for name, places in outputs.layout.items()
        ]
        found = outputs.facts.groupBy("predicate").agg(F.count("*"), F.sum(F.coalesce(*marks)))
        return {name: [rows, checksum] for name, rows, checksum in found.orderBy("predicate").collect()}


def derived_here(nodes: int) -> dict[str, list[int]]:
    """Return the same, derived in this process."""
    every = np.arange(nodes)
    first = every[every % CHAIN != CHAIN - 1]
    reasoner = tl.Reasoner(PROGRAM)
    reasoner.insert("edge", pa.table({"x": first, "y": first + 1}))
    reasoner.insert("member", pa.table({"x": every, "g": every // GROUP}))
    found = {}
    for name in ("far", "last", "mate", "reach"):
        table = reasoner[name].to_arrow()
        mixed = _mixed([column.to_numpy() for column in table.columns])
        found[name] = [table.num_rows, int(mixed.sum())]
    return found


def _mixed(columns: Sequence[Any]) -> Any:
    """Return a number for each row."""
    weighted = [column * (place * 7 + 3) for place, column in enumerate(columns)]
    whole = sum(weighted[1:], weighted[0]) % PRIME
    return whole * whole % PRIME


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=150_000)
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
    frames = inputs(session, parsed.nodes)
    for strategy in parsed.strategies:
        session.conf.set("tidelog.strategy", "joins" if strategy == "joins" else "auto")
        observed, begun = Observed(session.sparkContext.applicationId), time.monotonic()
        before = Observed(session.sparkContext.applicationId)
        before.look()
        said: dict[str, Any] = {"strategy": strategy}
        with observed.looking():
            try:
                if strategy == "here":
                    said["outputs"] = derived_here(parsed.nodes)
                else:
                    said["outputs"] = derived(frames, {"task": 1, "exchange": 2}.get(strategy))
            except tl.TidelogError as error:
                said["error"] = str(error)
        said["megabytes"] = observed.megabytes
        said["cpu"] = round(sum(observed.seconds.values()) - sum(before.seconds.values()), 1)
        said["wall"] = round(time.monotonic() - begun, 1)
        print(json.dumps(said), flush=True)
    session.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
