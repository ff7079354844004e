"""Runs inputs for some time, and keeps those at fault, made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from random import Random
from time import monotonic

from tests.fuzz.mutate import mutated
from tests.fuzz.targets import CORPUS, TARGETS, Target
from tests.fuzz.worker import Worker

MOST_TRIES = 200  # runs to make one input smaller
LONGEST_SHRINKING = 60.0  # seconds


@dataclass(frozen=True)
class Fault:
    """An input at fault, the number of the run that found it, and what goes wrong."""

    target: str
    number: int
    data: bytes
    reason: str

    @property
    def kind(self) -> str:
        """Return what two inputs with the same cause have in common."""
        return self.reason.partition("\n")[0]


def inputs(seed: int, names: Sequence[str], start: int = 0) -> Iterator[tuple[int, str, bytes]]:
    """Yield numbered inputs, target after target: the same for the same seed, whatever time there is."""
    seeds: dict[str, list[bytes]] = {}
    number = start
    while True:
        target = TARGETS[names[number % len(names)]]
        if target.name not in seeds:
            seeds[target.name] = target.all_seeds()
        random = Random(f"{seed}:{target.name}:{number}")
        yield number, target.name, mutated(random, seeds[target.name], target.is_text)
        number += 1


def fuzz(
    seconds: float,
    seed: int,
    names: Sequence[str] = (),
    told: Callable[[str], None] = lambda text: None,
    corpus: Path = CORPUS,
) -> tuple[int, list[Fault]]:
    """Return how many inputs were run, and the faults, one of each kind, written to the corpus."""
    found: dict[tuple[str, str], Fault] = {}
    end = monotonic() + seconds
    count = 0
    with Worker() as worker:
        for number, name, data in inputs(seed, tuple(names) or tuple(TARGETS)):
            if monotonic() > end:
                break
            count += 1
            reason = worker.fault(name, data)
            fault = None if reason is None else Fault(name, number, data, reason)
            if fault is None or (name, fault.kind) in found:
                continue
            told(f"{name} {number}: {fault.reason}")
            small = smaller(worker, fault)
            found[name, fault.kind] = small
            told(f"kept as {keep(small, corpus)}, {len(small.data)} bytes")
    return count, list(found.values())


def smaller(worker: Worker, fault: Fault) -> Fault:
    """Return the fault with parts of its input left out, as long as the same goes wrong."""
    data, tries, end = fault.data, 0, monotonic() + LONGEST_SHRINKING
    size = max(1, len(data) // 2)
    while size and tries < MOST_TRIES and monotonic() < end:
        start = 0
        while start < len(data) and tries < MOST_TRIES and monotonic() < end:
            shorter = data[:start] + data[start + size :]
            tries += 1
            reason = worker.fault(fault.target, shorter)
            if reason is not None and reason.partition("\n")[0] == fault.kind:
                data = shorter
            else:
                start += size
        size //= 2
    return Fault(fault.target, fault.number, data, fault.reason)


def keep(fault: Fault, corpus: Path) -> Path:
    """Write the input to the corpus, under a name made of its content."""
    path = corpus / fault.target / sha256(fault.data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(fault.data)
    return path


def kept(corpus: Path = CORPUS) -> list[tuple[Target, Path]]:
    """Return the inputs of the corpus, each with its target."""
    return [(TARGETS[path.parent.name], path) for path in sorted(corpus.glob("*/*"))]
