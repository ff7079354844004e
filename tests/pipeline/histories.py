"""Histories of runs, and what they are held against: the facts of each version, and the feed between two."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import tidelog as tl
from tidelog.errors import DataError
from tidelog.pipeline import Engine, Job, Source, Step, Version, difference
from tidelog.pipeline.guards import Guards
from tidelog.pipeline.publishing import roll_back
from tidelog.publish import TableVersion

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # disks take their time for what is forced to them
Facts = dict[str, set[tuple[str, ...]]]


@dataclass(frozen=True)
class Scene:
    """A job whose inputs and rules change from run to run."""

    sources: tuple[Source, ...]
    write: Callable[..., None]  # the inputs, into a folder
    program: Callable[[frozenset[str]], tl.Program]
    expected: Callable[[Path, frozenset[str]], Facts]
    engine: Engine = field(default_factory=lambda: Engine("columnar"))
    probe: str | None = None  # a fact that no input has
    guards: Guards = field(default_factory=Guards)

    @contextmanager
    def history(self, states: list[tuple[Any, ...]]) -> Iterator[tuple[Job, dict[int, Facts]]]:
        """Run the job on each state, warm or cold: every version is what follows from scratch.

        A state has the inputs, the rules, and what happens before: `EVENTS`. A run may find a process that
        ended at any step, a version that was rolled back, or a folder without its state.
        """
        with tempfile.TemporaryDirectory(dir=MEMORY) as name, pytest.MonkeyPatch.context() as patched:
            patched.setattr("tidelog.publish.table_files.MANY", 3)  # so that small files are merged
            folder = Path(name)
            held: dict[int, Facts] = {}
            parts: dict[str, Any] = {"sources": self.sources, "engine": self.engine, "guards": self.guards}
            job = Job(tl.parse(""), publish="out", folder=folder, **parts)
            with ExitStack() as warm:
                for *inputs, rules, event in states:
                    self.write(folder, *inputs)
                    if event != "warm":
                        warm.close()
                        job = Job.of(job.settings)
                    else:
                        warm.enter_context(job)
                    job.settings = replace(job.settings, program=self.program(rules))
                    befall(event, job, held, self.probe)
                    version = job.run().version
                    held[version.version] = facts(Version(job.store, version))
                    assert present(held[version.version]) == present(self.expected(folder, rules))
            yield job, held


class Crash(BaseException):
    """What ends a run at a step, as if its process had ended."""


def crashing(
    job: Job, step: int, act: Callable[[Job], object] = lambda job: job.run(), name: str | None = None
) -> None:
    """Let a job do something, ended when it reaches the step of this number, of all or of those of a name."""

    def listen(reached: Step) -> None:
        nonlocal step
        if name is None or reached.name == name:
            step -= 1
        if step < 0:
            raise Crash

    ended = Job.of(job.settings, listeners=[listen])
    with suppress(Crash):
        act(ended)


def check_state(job: Job, wanted: Facts, fact: str) -> None:
    """A state that is derived again from tables, if it can be, leads to the same facts as they have."""
    try:
        job.apply(f"+ {fact} .")
    except DataError as error:
        assert {fault.code for fault in error.diagnostics} <= {"E807", "E811"}  # other rules, or no state
    else:
        job.apply(f"- {fact} .")
        assert facts(Version(job.store, job.store.manifest())) == wanted


def is_in(fact: str, found: Facts) -> bool:
    """Whether a fact is among those of a version."""
    predicate, _, values = fact.removesuffix(")").partition("(")
    return tuple(values.split(", ")) in found.get(predicate, set())


def befall(event: str, job: Job, held: dict[int, Facts], probe: str | None) -> None:
    """Let something happen before a run."""
    kind, _, number = event.partition(" ")
    if kind == "crash":
        crashing(job, int(number))
    elif kind == "no-state":
        shutil.rmtree(job.store.path / "_state", ignore_errors=True)
    elif kind == "rollback" and held:
        # What is applied stays until the inputs change: a version with the probe is none of theirs.
        numbers = sorted(each for each in held if not probe or not is_in(probe, held[each]))
        wanted = numbers[int(number) % len(numbers)]
        roll_back(job.store, wanted)
        if probe:
            check_state(job, held[wanted], probe)
    elif kind == "other-state" and (job.store.path / "_state").is_dir():  # of a version before
        kept = job.store.path.parent / "kept"
        shutil.copytree(job.store.path / "_state", kept)
        crashing(job, 999)
        shutil.rmtree(job.store.path / "_state")
        kept.rename(job.store.path / "_state")
    for each in job.store.numbers():
        if each not in held:
            held[each] = facts(Version(job.store, job.store.manifest(each)))


EVENTS = st.one_of(
    st.sampled_from(["warm", "warm", "cold", "no-state", "other-state"]),
    st.integers(0, 30).map(lambda step: f"crash {step}"),
    st.integers(0, 5).map(lambda number: f"rollback {number}"),
)


def facts(version: Version) -> Facts:
    """All facts of a version, as exact terms."""
    return {name: set(version[name].to_texts("exact").rows()) for name in version}


def present(found: Facts) -> Facts:
    """The facts of predicates that have some."""
    return {name: rows for name, rows in found.items() if rows}


def check_feeds(job: Job, held: dict[int, Facts]) -> None:
    """The changes of each version are the difference from the one before, and so are those of first and last.

    A predicate that has other columns than before is another one, of which all facts came.
    """
    for number in job.store.numbers()[1:]:
        version = Version(job.store, job.store.manifest(number))
        earlier = job.store.manifest(number - 1).tables
        for name, table in version.manifest.tables.items():
            is_same = name in earlier and width(earlier[name]) == width(table)
            before = held[number - 1].get(name, set()) if is_same else set()
            changes = version.changes(name)
            assert set(changes.added.to_texts("exact").rows()) == held[number][name] - before
            assert set(changes.removed.to_texts("exact").rows()) == before - held[number][name]


def width(table: TableVersion) -> int:
    return len(table.schema)


def check_difference(job: Job, held: dict[int, Facts]) -> None:
    """What differs between the first version and the last one is what `difference` tells."""
    first, last = held[1], held[max(held)]
    delta = difference(job.store, 1, max(held))
    for name, before in first.items():
        after = last.get(name, set())
        assert set(delta[name].added.to_texts("exact").rows()) == after - before
        assert set(delta[name].removed.to_texts("exact").rows()) == before - after
