"""Histories of runs, and what they are held against: the facts of each version, and the feed between two."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tidelog.pipeline import Engine, Job, Source, Version, difference

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

    @contextmanager
    def history(self, states: list[tuple[Any, ...]]) -> Iterator[tuple[Job, dict[int, Facts]]]:
        """Run the job on each state, warm or cold: every version is what follows from scratch.

        A state has the inputs, the rules, and whether the process goes on.
        """
        with tempfile.TemporaryDirectory(dir=MEMORY) as name, pytest.MonkeyPatch.context() as patched:
            patched.setattr("tidelog.pipeline.tables.MOST_CHANGES", 3)
            folder = Path(name)
            job: Job | None = None
            held: dict[int, Facts] = {}
            for *inputs, rules, is_warm in states:
                self.write(folder, *inputs)
                program = self.program(rules)
                if job is None or not is_warm:
                    job = Job(program, publish="out", sources=self.sources, folder=folder, engine=self.engine)
                else:
                    job.settings = replace(job.settings, program=program)
                version = job.run().version
                held[version.version] = facts(Version(job.store, version))
                assert present(held[version.version]) == present(self.expected(folder, rules))
            assert job is not None
            yield job, held


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
            is_same = name in earlier and earlier[name].times == table.times
            before = held[number - 1].get(name, set()) if is_same else set()
            changes = version.changes(name)
            assert set(changes.added.to_texts("exact").rows()) == held[number][name] - before
            assert set(changes.removed.to_texts("exact").rows()) == before - held[number][name]


def check_difference(job: Job, held: dict[int, Facts]) -> None:
    """What differs between the first version and the last one is what `difference` tells."""
    first, last = held[1], held[max(held)]
    delta = difference(job.store, 1, max(held))
    for name, before in first.items():
        after = last.get(name, set())
        assert set(delta[name].added.to_texts("exact").rows()) == after - before
        assert set(delta[name].removed.to_texts("exact").rows()) == before - after
