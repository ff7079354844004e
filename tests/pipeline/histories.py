"""What histories of runs are held against: the facts of each version, and the feed between two of them."""

from __future__ import annotations

from pathlib import Path

from tidelog.pipeline import Job, Version, difference

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # disks take their time for what is forced to them
Facts = dict[str, set[tuple[str, ...]]]


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
