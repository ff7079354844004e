"""A process is killed at random moments: what it has said was committed is there, and nothing by halves."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tidelog as tl

pytestmark = pytest.mark.usefixtures("kernels")

PROGRAM = """
    @declare edge(x: int, y: int) .
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
    degree(?x, #count(?y)) :- edge(?x, ?y) .
"""
NODES = 12
# Each transaction toggles some edges, drawn by its number alone; one that returned is said.
WRITER = """
import random, sys
import tidelog as tl
from tidelog.store import store
store.SNAPSHOT_FROM = 1 << 12  # snapshots come often
from tests.store.test_kill import toggled
with tl.open(sys.argv[1], threads=1) as reasoner:
    there = set(reasoner["edge"])
    while True:
        number = reasoner.commits + 1
        with reasoner.change() as change:
            for edge in toggled(number):
                (change.delete if edge in there else change.insert)("edge", [edge])
        there ^= toggled(number)
        print(number, flush=True)
"""


def toggled(number: int) -> set[tuple[int, int]]:
    """The edges that a transaction adds if they are not there, else takes away."""
    chance = random.Random(number)
    return {(chance.randrange(NODES), chance.randrange(NODES)) for _ in range(chance.randrange(1, 4))}


def expected(commits: int) -> set[tuple[int, int]]:
    """The edges after so many transactions."""
    there: set[tuple[int, int]] = set()
    for number in range(1, commits + 1):
        there ^= toggled(number)
    return there


def write_for(path: Path, seconds: float) -> int:
    """Let a process write, and kill it; the number of the last transaction that it said was committed."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline()]  # the first takes as long as it takes
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read().splitlines()
    whole = [int(line) for line in said if line.strip()]
    return whole[-1] if whole else 0


def check(path: Path, acknowledged: int) -> int:
    """The store holds what was acknowledged, and at most one transaction more; its number of commits."""
    with tl.open(path, threads=1) as reasoner:
        commits = reasoner.commits
        assert acknowledged <= commits <= acknowledged + 1
        assert set(reasoner["edge"]) == expected(commits)
        anew = tl.Reasoner(tl.parse(PROGRAM), threads=1)
        anew.insert("edge", sorted(expected(commits)))
        for name in ("reach", "degree"):
            assert set(reasoner[name]) == set(anew[name])
    return commits


def follow(path: Path, transactions: int, seed: int) -> None:
    chance = random.Random(seed)
    tl.open(path, tl.parse(PROGRAM)).close()
    commits = 0
    while commits < transactions:
        commits = check(path, max(commits, write_for(path, chance.uniform(0, 1))))


def test_killed_a_few_times(tmp_path: Path) -> None:
    follow(tmp_path / "store", 10, seed=1)


@pytest.mark.slow
def test_killed_many_times(tmp_path: Path) -> None:
    follow(tmp_path / "store", 600, seed=2)
