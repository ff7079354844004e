"""`tidelog stream --engine spark`: files of changes, each applied once to a store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tidelog.__main__ import main

PROGRAM = """
@declare flight(src: string, dst: string) .
@declare hub(name: string, size: int) .
reach(?x, ?y) :- flight(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), flight(?y, ?z) .
large(?x, ?n) :- hub(?x, ?n), reach(?x, _) .
"""
pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a store, and folders of changes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.rls").write_text(PROGRAM)
    for name in ("flight", "hub", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "flight.csv").write_text("src,dst\na,b\n")
    assert main(["run", "net.rls", "--data", "data/flight.csv", "--store", "net", "-q", "-o", "out"]) == 0
    return tmp_path


def put(path: Path, *lines: str) -> None:
    """Write a file that is later than those before it."""
    path.write_text("".join(f"{line}\n" for line in lines))
    made = 1_700_000_000 + len(list(path.parent.iterdir()))
    os.utime(path, (made, made))


def stream(*arguments: str) -> int:
    return main(["stream", "--store", "net", "--engine", "spark", *arguments])


def reached() -> set[Any]:
    with tl.open("net", read_only=True) as reasoner:
        return set(reasoner["reach"])


def test_files_are_applied_one_after_the_other_and_once(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(folder / "flight" / "1.csv", "op,src,dst", "+,b,c", '+,"",c')
    put(folder / "flight" / "2.csv", "op,src,dst", "-,a,b", "delete,,c")
    assert stream("flight", "--format", "jsonl") == 0
    said = capfd.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [(line["batch"], line["change"]) for line in lines if line["predicate"] == "flight"] == [
        (0, "+"), (0, "+"), (1, "-"), (1, "-")
    ]  # fmt: skip
    assert "batch 0: +5 −0" in said.err and "2 batches: +5 −5" in said.err
    assert reached() == {("b", "c")}

    put(folder / "flight" / "3.csv", "op,src,dst", "+,c,d")
    assert stream("flight", "--deltas", "deltas", "--stats", "stats.json") == 0
    assert "1 batch: +3 −0" in capfd.readouterr().err
    assert sorted(path.name for path in (folder / "deltas" / "2").iterdir()) == [
        "flight.added.csv", "reach.added.csv"
    ]  # fmt: skip
    found = json.loads((folder / "stats.json").read_text())
    assert found["strategy"] == "driver" and found["batches"]["added"] == 3
    assert stream("flight", "--deltas", "deltas") == 0  # a folder that holds deltas is continued
    assert "0 batches: no change" in capfd.readouterr().err


def test_several_predicates_and_formats(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(folder / "flight" / "1.tsv", "b\tc\t+", "c\td\t+")
    put(folder / "hub" / "1.jsonl", '{"name": "b", "size": 7}', '{"size": "8", "name": "c", "op": "insert"}')
    assert stream("flight", "hub", "-q") == 0
    with tl.open("net", read_only=True) as reasoner:
        assert set(reasoner["large"]) == {("b", 7), ("c", 8)}
    assert not capfd.readouterr().out


def test_a_batch_that_fails_comes_again_or_is_left_out(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(folder / "hub" / "1.csv", "name,size,op", "b,7,+", "c,x,+")
    for _ in range(2):
        assert stream("hub") == 1
        said = capfd.readouterr().err
        assert "error[E504]: 'x' is not an integer" in said and "Traceback" not in said
        assert "stopped after 0 batches: the next one failed" in said
    assert stream("hub", "--rejects", "rejects.csv") == 0
    assert "skipped 1 row that could not be read; see rejects.csv" in capfd.readouterr().err
    assert '"[""c"", ""x""]"' in (folder / "rejects.csv").read_text()
    put(folder / "hub" / "2.csv", "name,size,op", "d,7,what")
    put(folder / "hub" / "3.csv", "name,size,op", "a,9,-")
    put(folder / "hub" / "4.csv", "name,size,op", "a,9,+")
    assert stream("hub", "--keep-going") == 1
    said = capfd.readouterr().err
    assert "error[E877]" in said and "error[E630]" in said and "1 batch: +2 −0" in said
    with tl.open("net", read_only=True) as reasoner:
        assert set(reasoner["hub"]) == {("b", 7), ("a", 9)}


def test_what_cannot_be_read_as_a_stream(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "other").mkdir()
    put(folder / "flight" / "1.rls", "+ flight(b, c) .")
    for arguments, told in (
        (("hub",), "no file in `hub` yet"),
        (("flight",), "change scripts are applied without `--engine spark`"),
        (("other",), "the program has no predicate `other`"),
        (("nowhere",), "no such file or folder: `nowhere`"),
    ):
        assert stream(*arguments) == 1
        assert told in capfd.readouterr().err
    put(folder / "hub" / "1.csv", "a,b,c,d")
    assert stream("hub") == 1
    assert "`hub` has 2 columns, and the file 4" in capfd.readouterr().err


def test_ctrl_c_ends_what_follows(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(folder / "flight" / "1.csv", "src,dst", "b,c")

    def fill() -> None:
        deadline = time.monotonic() + 120
        while not (folder / "deltas" / "0").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        put(folder / "flight" / ".2.csv", "src,dst", "c,d")
        (folder / "flight" / ".2.csv").rename(folder / "flight" / "2.csv")
        while not (folder / "deltas" / "1").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    filling = threading.Thread(target=fill)
    filling.start()
    assert stream("flight", "--follow", "--deltas", "deltas") == 0
    filling.join()
    said = capfd.readouterr().err
    assert "interrupted while waiting: the stream has ended" in said and "2 batches: +7 −0" in said
    assert ("a", "d") in reached()


# What a batch does, in this order; Spark notes that it is done behind the last one.
STEPS = (
    ("tidelog.spark.maintenance:fetch", "before", 1),
    ("tidelog.cli.results:DeltaFolder.write", "before", 1),
    ("tidelog.cli.results:DeltaFolder.write", "after", 1),
    ("tidelog.reasoner.storing:StoreKeeper.append", "before", 1),
    ("tidelog.reasoner.storing:StoreKeeper.append", "after", 1),
    ("tidelog.reasoner.storing:StoreKeeper._confirm", "before", 1),
    ("tidelog.cli.commands.spark_commands:BatchReport.record", "before", 1),
    ("tidelog.cli.commands.spark_commands:BatchReport.record", "after", 1),
    ("tidelog.spark.maintenance:fetch", "before", 2),
)


@pytest.mark.slow
def test_each_file_is_applied_once_however_often_the_command_is_killed(folder: Path) -> None:
    sources = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(sources), str(sources / "src")])}
    files = len(STEPS) + 2
    for number in range(files):
        sign = "-" if number == 1 else "+"  # what the first file inserts goes again
        row = f"{sign},n0,n1" if number < 2 else f"+,n{number},n{number + 1}"
        put(folder / "flight" / f"{number:02}.csv", "op,src,dst", row)
    arguments = ["stream", "--store", "net", "--engine", "spark", "flight", "--deltas", "deltas"]
    for function, when, count in STEPS:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.killed", function, when, str(count), *arguments],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == -signal.SIGKILL, (function, when, done.stderr)
    assert main(arguments) == 0
    chain = [f"n{number}" for number in range(2, files + 1)]
    expected = {("a", "b"), *((one, other) for at, one in enumerate(chain) for other in chain[at + 1 :])}
    assert reached() == expected
    assert sorted(int(path.name) for path in (folder / "deltas").iterdir()) == list(range(files))
    found: set[str] = set()  # who follows the deltas has what is in the store
    for number in range(files):
        for path in (folder / "deltas" / str(number)).glob("reach.*.csv"):
            rows = set(path.read_text().replace('"', "").splitlines()[1:])
            assert found.isdisjoint(rows) if "added" in path.name else rows <= found
            found = found | rows if "added" in path.name else found - rows
    assert found | {"a,b"} == {",".join(pair) for pair in expected}
