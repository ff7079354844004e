"""The reasoner of a published folder: a durable store beside the tables. Mutates the disk.

With it a change derives only what it touches, in this process or in a later one.

A store says of which version it is. One that is made for a new version lies beside the current one until that
version is published. What a transaction does is committed to the store first, then published. A process that
ends in between leaves a store that is one version ahead: `expected` says what was to be published then.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from tidelog.durable import write_text
from tidelog.logic.program import Program
from tidelog.pipeline.manifest import Origin
from tidelog.reasoner.storing import StoredReasoner, check_memory, open_store, stored_sizes
from tidelog.store.state import BatchId

APP: Final = "published"  # the application whose transactions a store counts: their numbers are versions
FOLDER: Final = "_state"
EXPECTED: Final = "_expected.json"


class State:
    """The store of a published folder."""

    def __init__(self, published: Path, settings: Mapping[str, Any], max_memory: int | None = None) -> None:
        self._published = published
        self._settings = settings  # of `Reasoner`
        self._max_memory = max_memory

    @property
    def path(self) -> Path:
        """The folder of the store."""
        return self._published / FOLDER

    def path_for(self, number: int) -> Path:
        """Return the folder of a store that is made for a version to come."""
        return self._published / f"{FOLDER}.{number}"

    # ---- a new one

    def begin(self, number: int, program: Program) -> StoredReasoner:
        """Return a reasoner without facts, whose store is made by `begin` for a version to come."""
        path = self.path_for(number)
        shutil.rmtree(path, ignore_errors=True)  # left by a process that did not finish
        reasoner = open_store(path, program, later=True, **self._settings)
        reasoner.batches[APP] = self.batch(number)
        return reasoner

    def take(self, number: int, folder: str) -> None:
        """Use the store that a task has written, beside the published folder's own, for a version to come."""
        path = self.path_for(number)
        shutil.rmtree(path, ignore_errors=True)
        (self._published / folder).rename(path)

    def adopt(self, number: int) -> bool:
        """Use the store that was made for a version, which is published; return whether there is one."""
        path = self.path_for(number)
        if not path.is_dir():
            return False
        self.discard()
        path.rename(self.path)
        return True

    def discard(self) -> None:
        """Delete the store."""
        gone = self._published / f"{FOLDER}.discarded"
        shutil.rmtree(gone, ignore_errors=True)
        if self.path.is_dir():
            self.path.rename(gone)  # a process that ends while it deletes leaves no half of a store
        shutil.rmtree(gone, ignore_errors=True)

    def remove_unpublished(self, number: int | None) -> None:
        """Delete stores that were made for other versions than the current one, or for any if it is None.

        A run that ended before its version was published leaves one, and a later version may get its number.
        """
        current = None if number is None else self.path_for(number)
        for path in self._published.glob(f"{FOLDER}.*"):
            if path != current:
                shutil.rmtree(path, ignore_errors=True)

    # ---- the one that is there

    @staticmethod
    def batch(number: int) -> BatchId:
        """Return the number of a transaction that leads to a version."""
        return BatchId(APP, number)

    def open(self, number: int) -> StoredReasoner | None:
        """Return the reasoner of a version, or of the next one, if it was not published; else None."""
        self.adopt(number)
        if not self.path.is_dir():
            return None
        self.check_memory(stored_sizes(self.path), f"the state of version {number}")
        reasoner = open_store(self.path, **self._settings)
        if self.number_of(reasoner) not in (number, number + 1):
            reasoner.abandon()
            return None
        return reasoner

    def check_memory(self, tables: Collection[tuple[int, int]], what: str) -> None:
        """Raise `Stopped` if relations of so many rows and columns are more than this process can hold."""
        help = (
            "give the process more memory, or set `max-memory` in [engine]; or derive in tasks of Spark: "
            "--full --engine spark"
        )
        check_memory(tables, what, self._max_memory, help)

    @staticmethod
    def number_of(reasoner: StoredReasoner) -> int:
        """Return the version that a reasoner is of."""
        return reasoner.batches[APP].number if APP in reasoner.batches else 0

    # ---- what is to be published

    def expect(self, number: int, origin: Origin) -> None:
        """Note what a version will say of itself, before its transaction is committed to the store."""
        text = json.dumps({"version": number, "origin": origin.to_json()})
        write_text(self._published / EXPECTED, text)

    @property
    def is_expecting(self) -> bool:
        """Whether a version was begun, and perhaps not published."""
        return (self._published / EXPECTED).exists()

    def expected(self, number: int) -> Origin | None:
        """Return what a version was to say of itself that was not published."""
        try:
            found = json.loads((self._published / EXPECTED).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Origin.from_json(found["origin"]) if found["version"] == number else None

    def settle(self) -> None:
        """Expect nothing more: what the store has is published."""
        (self._published / EXPECTED).unlink(missing_ok=True)
