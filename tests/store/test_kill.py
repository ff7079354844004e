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

# Programs by kind, and how a pair of numbers is a fact of each.
PROGRAMS = {
    "plain": """
        reach(?x, ?y) :- edge(?x, ?y) .
        reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
        degree(?x, #count(?y)) :- edge(?x, ?y) .
        @declare edge(x: int, y: int) .
    """,
    "equal": """
        ?x = ?y :- edge(?x, ?k), edge(?y, ?k) .
        reach(?x, ?y) :- edge(?x, ?y) .
        reach(?x, ?z) :- reach(?x, ?y), link(?y, ?z) .
        @declare edge(x: any, y: int) .
    """,
    "timed": """
        lately(?x) :- diamondminus[0, 3] edge(?x) .
        long(?x) :- boxminus[0, 1] edge(?x), ~boxminus[0, 3] edge(?x) .
        edge(none)@0 .
    """,
}
FACTS = {
    "plain": "edge({0}, {1}) .",
    "equal": "edge(n{0}, {1}) .",
    "timed": "edge({0})@[{1}, {1}.5) .",
}
NODES = 12
# Each transaction toggles some facts, drawn by its number alone; one that returned is said.
WRITER = """
import sys
import tidelog as tl
from tidelog.store import store
store.SNAPSHOT_FROM = 1 << 12  # snapshots come often
from tests.store.test_kill import expected, script
path, kind = sys.argv[1:]
with tl.open(path, threads=1) as reasoner:
    there = expected(reasoner.commits)
    while True:
        number = reasoner.commits + 1
        reasoner.apply(script(kind, number, there))
        print(number, flush=True)
"""


def toggled(number: int) -> set[tuple[int, int]]:
    """The facts that a transaction adds if they are not there, else takes away."""
    chance = random.Random(number)
    return {(chance.randrange(NODES), chance.randrange(NODES)) for _ in range(chance.randrange(1, 4))}


def script(kind: str, number: int, there: set[tuple[int, int]]) -> str:
    """A transaction; what is there afterwards is in the set."""
    lines = [f"{'-' if each in there else '+'} {FACTS[kind].format(*each)}" for each in toggled(number)]
    there ^= toggled(number)
    return "\n".join(lines)


def expected(commits: int) -> set[tuple[int, int]]:
    """The facts after so many transactions."""
    there: set[tuple[int, int]] = set()
    for number in range(1, commits + 1):
        there ^= toggled(number)
    return there


def write_for(path: Path, kind: str, seconds: float) -> int:
    """Let a process write, and kill it; the number of the last transaction that it said was committed."""
    command = [sys.executable, "-c", WRITER, str(path), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline()]  # the first takes as long as it takes
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read().splitlines()
    whole = [int(line) for line in said if line.strip()]
    return whole[-1] if whole else 0


def check(path: Path, kind: str, acknowledged: int) -> int:
    """The store holds what was acknowledged, and at most one transaction more; its number of commits."""
    with tl.open(path, threads=1) as reasoner:
        commits = reasoner.commits
        assert acknowledged <= commits <= acknowledged + 1
        facts = [FACTS[kind].format(*each) for each in expected(commits)]
        anew = tl.Reasoner(tl.parse("\n".join((PROGRAMS[kind], *facts))), threads=1)
        for name in anew:
            assert sorted(map(str, reasoner[name])) == sorted(map(str, anew[name]))
    return commits


def follow(path: Path, kind: str, transactions: int, seed: int) -> None:
    chance = random.Random(seed)
    tl.open(path, tl.parse(PROGRAMS[kind])).close()
    commits = 0
    while commits < transactions:
        commits = check(path, kind, max(commits, write_for(path, kind, chance.uniform(0, 1))))


def test_killed_a_few_times(tmp_path: Path) -> None:
    follow(tmp_path / "store", "plain", 10, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(PROGRAMS))
def test_killed_many_times(tmp_path: Path, kind: str) -> None:
    follow(tmp_path / "store", kind, 600, seed=2)
