"""The corpus is replayed; `make test-slow` fuzzes for a minute; and the harness finds what it is for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.fuzz import harness, worker
from tests.fuzz.harness import Fault, inputs, kept, smaller
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import Worker


@pytest.fixture(scope="module")
def child() -> Iterator[Worker]:
    with Worker() as one:
        yield one


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_the_seeds_are_no_faults(name: str, child: Worker) -> None:
    found = [path.read_bytes() for target, path in kept() if target.name == name]
    for data in (*TARGETS[name].seeds()[:20], *found):
        assert child.fault(name, data) is None, data[:200]


@pytest.mark.slow
def test_a_minute_of_fuzzing(tmp_path: Path) -> None:
    count, faults = harness.fuzz(60.0, seed=15, corpus=tmp_path)
    assert count > 100
    assert [(fault.target, fault.number, fault.reason, fault.data) for fault in faults] == []


def test_inputs_depend_on_the_seed_alone() -> None:
    names = [name for name in TARGETS if name != "store"]  # its seeds are made by the child
    first = list(islice(inputs(7, names), 60))
    assert list(islice(inputs(7, names), 60)) == first
    assert list(islice(inputs(7, names, 30), 30)) == first[30:]
    assert list(islice(inputs(8, names), 60)) != first


class Pretended(Worker):
    """A worker whose inputs fail by what they hold."""

    def fault(self, name: str, data: bytes) -> str | None:
        return "ValueError in x\ntraceback" if b"!" in data and b"?" in data else None


def test_inputs_are_made_smaller(tmp_path: Path) -> None:
    fault = Fault("csv", 1, b"abc?" + b"x" * 100 + b"!" + b"y" * 33, "ValueError in x\nother")
    small = smaller(Pretended(), fault)
    assert small.data == b"?!"
    path = harness.keep(small, tmp_path)
    assert path.read_bytes() == b"?!"
    assert path.parent.name == "csv"


def fault_of(name: str, data: bytes) -> None:
    """What a child does with an input in these tests."""
    match data:
        case b"signal":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"hang":
            time.sleep(60)
        case b"memory":
            bytearray(worker.MEMORY * 2)
        case b"traceback":
            raise KeyError("x")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"signal", f"the process ended with {-signal.SIGSEGV}"),
        (b"hang", "no end within 2 s"),
        (b"memory", "MemoryError in test_fuzz.py:fault_of"),
        (b"traceback", "KeyError in test_fuzz.py:fault_of"),
        (b"", None),
    ],
)
def test_faults_of_every_kind_are_caught(data: bytes, kind: str | None) -> None:
    with Worker(2.0, fault_of) as one:
        found = one.fault("csv", data)
    assert (None if found is None else found.partition("\n")[0]) == kind
