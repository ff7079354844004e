"""Six walks through the code: what is passed, in which order, when something common is done.

Each walk runs under a tracer that notes the functions of tidelog that are called, file by file, in the order
in which the files are first entered. `docs/renew.py` writes the lists into how-it-works.md, and the tests
compare them with what the code does.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SOURCES = Path(__file__).parents[1] / "src" / "tidelog"
SHOWN = 3  # functions of a file in a list
ANCESTORS = """
    ancestor(?x, ?y) :- parent(?x, ?y) .
    ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
"""
PERSONS = "?x = ?y :- mail(?x, ?m), mail(?y, ?m) ."
BOILER = """
    temp(boiler, 92)@[0, 10) .
    hot(?s) :- temp(?s, ?v), ?v > 90 .
    overheated(?s) :- boxminus[0, 5] hot(?s) .
"""
PEOPLE = [("alice", "bob"), ("bob", "carol")]

Walk = dict[str, list[str]]  # functions by file, in the order of the first call


class Tracer:
    """Notes the functions of tidelog that are called in the block, in all threads."""

    def __init__(self) -> None:
        self.walk: Walk = {}
        self._known: dict[CodeType, bool] = {}

    def __enter__(self) -> Walk:
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self.walk

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code not in self._known:
            code = frame.f_code
            self._known[code] = True
            path = Path(code.co_filename)
            is_function = not code.co_name.startswith("<") and code.co_flags & 0x2  # no module, no class body
            if is_function and path.is_relative_to(SOURCES):
                self.walk.setdefault(path.relative_to(SOURCES).as_posix(), []).append(code.co_qualname)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what is printed in the block from the terminal."""
    with redirect_stdout(io.TextIOWrapper(io.BytesIO())), redirect_stderr(io.StringIO()):
        yield


# ---- the walks: what is done before is not traced, nor what a first call imports


def run(folder: Path) -> Walk:
    """Walk through `tidelog run` of a program with a CSV file."""
    from tidelog.__main__ import main

    program = folder / "family.rls"
    program.write_text(
        f'@import parent :- csv{{ resource = "parent.csv" }} .\n{ANCESTORS}\n@output ancestor .\n'
    )
    (folder / "parent.csv").write_text("alice,bob\nbob,carol\n")
    with quiet():
        main(["run", str(program)])
        with Tracer() as walk:
            main(["run", str(program)])
    return walk


def transaction(folder: Path) -> Walk:
    """Walk through a change of one fact, after others."""
    import tidelog as tl

    reasoner = tl.Reasoner(ANCESTORS)
    reasoner.insert("parent", PEOPLE)
    reasoner.materialise()
    for child in ("dave", "erin"):
        with reasoner.change() as change:
            change.insert("parent", [("carol", child)])
    with Tracer() as walk, reasoner.change() as change:
        change.insert("parent", [("carol", "frank")])
    return walk


def query(folder: Path) -> Walk:
    """Walk through a bound query of facts that are not materialised, after another one."""
    import tidelog as tl

    reasoner = tl.Reasoner(ANCESTORS)
    reasoner.insert("parent", PEOPLE)
    reasoner.query("ancestor(bob, ?who)", strategy="magic")
    with Tracer() as walk:
        reasoner.query("ancestor(alice, ?who)", strategy="magic")
    return walk


def merge(folder: Path) -> Walk:
    """Walk through a change that makes two constants equal, after another one."""
    import tidelog as tl

    reasoner = tl.Reasoner(PERSONS)
    reasoner.insert("mail", [("ann", "a"), ("anna", "a"), ("bob", "b"), ("carl", "c")])
    reasoner.materialise()
    reasoner.insert("mail", [("bobby", "b")])
    with Tracer() as walk:
        reasoner.insert("mail", [("charles", "c")])
    return walk


def times(folder: Path) -> Walk:
    """Walk through the materialisation of a rule over time, and a change of its facts."""
    import tidelog as tl

    tl.Reasoner(BOILER).materialise()
    reasoner = tl.Reasoner(BOILER)
    with Tracer() as walk:
        reasoner.materialise()
    return walk


WALKS: dict[str, Callable[[Path], Walk]] = {
    "run": run,
    "transaction": transaction,
    "query": query,
    "merge": merge,
    "times": times,
}


# ---- on Spark: these need a session


def spark_driver(spark: Any) -> Walk:
    """Walk through `ts.derive` and the frame of an output: nothing runs yet."""
    return _derive(spark)[0]


def spark_task(spark: Any) -> Walk:
    """Walk through what a task does with the Arrow batches of its partition, called without Spark."""
    _, rows, task = _derive(spark)
    batches = rows.toArrow().to_batches()
    for _ in task(iter(batches)):
        pass
    with Tracer() as walk:
        for _ in task(iter(batches)):
            pass
    return walk


def _derive(spark: Any) -> tuple[Walk, Any, Any]:
    """Return the driver's walk, the rows that go to the task, and the task."""
    from pyspark.sql.classic.dataframe import DataFrame

    from tidelog import spark as ts

    frame = spark.createDataFrame(PEOPLE, ["parent", "child"])
    found: list[tuple[Any, Any]] = []
    original = DataFrame.mapInArrow

    def record(self: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        found.append((self, function))
        return original(self, function, *arguments, **options)

    ts.derive(ANCESTORS, {"parent": frame})["ancestor"]
    DataFrame.mapInArrow = record  # type: ignore[assignment,method-assign]
    try:
        with Tracer() as walk:
            ts.derive(ANCESTORS, {"parent": frame})["ancestor"]
    finally:
        DataFrame.mapInArrow = original  # type: ignore[method-assign]
    return walk, *found[-1]


SPARK_WALKS: dict[str, Callable[[Any], Walk]] = {"spark driver": spark_driver, "spark task": spark_task}
