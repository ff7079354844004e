"""What a run takes in: the inputs that have changed, read, with what was rejected written aside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidelog.errors import counted
from tidelog.io.columns import Batch
from tidelog.io.formats import file_name
from tidelog.logic.program import Program
from tidelog.pipeline.inputs import (
    Feeding,
    Taken,
    check_drift,
    check_rejects,
    differs,
    feedings,
    is_changed,
)
from tidelog.pipeline.manifest import Input, Manifest
from tidelog.pipeline.settings import Settings
from tidelog.pipeline.store import Store
from tidelog.pipeline.versioned import feed_of
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.transaction import Change


class Intake:
    """The inputs of one run, and what was found in those that were read. Mutates itself."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        program: Program,
        session: Callable[[], Any],
        reached: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._reached = reached
        self._program = program
        self._is_integer_time = program.is_integer_time
        self.items = self._feedings(program, session)
        self.inputs: dict[str, Input] = {}
        self._again: Collection[str] = ()  # predicates whose inputs are read whole

    def _feedings(self, program: Program, session: Callable[[], Any]) -> list[Feeding]:
        """Return the inputs; those that only Spark has are read there, and come to this process."""
        if not self._settings.needs_spark:
            return feedings(self._settings, program)
        from tidelog.pipeline.spark_run import fetched_input

        folders = self._settings.folder, self._store.incoming
        return feedings(
            self._settings, program, lambda source, known: fetched_input(source, known, session, *folders)
        )

    def edited(self, before: Manifest, again: Collection[str] = ()) -> list[str]:
        """The predicates whose inputs are others than in a version; the other inputs are kept.

        Those of predicates that are read `again` are said to be others in any case, and are read whole.
        """
        self._again = again
        keys = {item.key for item in self.items}
        changed = [
            item.predicate
            for item in self.items
            if item.predicate in again or is_changed(item, before.inputs.get(item.key))
        ]
        gone = [item.predicate for key, item in before.inputs.items() if key not in keys]
        edited = list(dict.fromkeys((*changed, *gone)))
        self.inputs = {key: item for key, item in before.inputs.items() if item.predicate not in edited}
        return edited

    def read(
        self, number: int, before: Manifest | None, full: bool, items: Sequence[Feeding]
    ) -> Iterator[Taken]:
        """Inputs that are read, for the version of this number.

        The rows of an input must have been taken when the next one is asked for.
        """
        for taken in self.taken(number, items, before, full):
            yield taken
            self.note(taken)

    def rows(self, number: int, before: Manifest, items: Sequence[Feeding]) -> Iterator[Batch]:
        """All rows that inputs give."""
        for taken in self.read(number, before, False, items):
            yield from taken.batches()

    def taken(
        self, number: int, items: Iterable[Feeding], before: Manifest | None, full: bool
    ) -> Iterator[Taken]:
        """Inputs that are being read; raises `DataError` if one has other columns than before."""
        folder = self._store.rejects(number)
        for item in items:
            known = before.inputs.get(item.key) if before else None
            columns = check_drift(item, known, full)
            rejects = folder / file_name(f"{item.predicate}.{self.items.index(item) + 1}", "csv")
            relative = self._store.relative(rejects)
            yield Taken(item, rejects, relative, columns, item.stamps(known.files if known else {}))

    def note(self, taken: Taken) -> None:
        """Tell what was found in an input that has been read."""
        found = self.inputs[taken.item.key] = taken.input
        rejected = f", {found.rejected:,} rejected" if found.rejected else ""
        filtered = f", {found.filtered:,} filtered out" if found.filtered else ""
        self._reached("read", f"{found.shown}: {counted(found.rows, 'row')}{filtered}{rejected}")

    # ---- what becomes of it

    def feed(self, reasoner: Reasoner, number: int, before: Manifest | None, full: bool) -> None:
        """Let a reasoner without facts have all that the inputs give."""
        self.load(reasoner, self.read(number, before, full, self.items))

    def load(self, reasoner: Reasoner, inputs: Iterable[Taken]) -> None:
        """Let a reasoner without facts have what is read here."""
        for taken in inputs:
            self._note_types(reasoner, [taken.item])
            if taken.item.time:
                reasoner.load_timed(taken.item.predicate, taken.timed(self._is_integer_time))
            else:
                reasoner.load(taken.item.predicate, taken.batches())

    @staticmethod
    def _note_types(reasoner: Reasoner, items: Iterable[Feeding]) -> None:
        for item in items:
            if item.held:
                reasoner.schemas.data.restore({item.predicate: item.held})

    def replace(
        self, reasoner: Reasoner, change: Change, number: int, before: Manifest, predicates: Sequence[str]
    ) -> None:
        """Let the explicit facts of predicates become, in a transaction, what their inputs give."""
        self._note_types(reasoner, self.of(predicates))
        for name in predicates:
            if not self._apply_feed(change, before, name):
                always = [item for item in self.of([name]) if not item.time]
                change.replace_batches(name, self.rows(number, before, always))
        self.replace_times(change, number, before, predicates)

    def _apply_feed(self, change: Change, before: Manifest, name: str) -> bool:
        """Apply what changed in the only table that gives a predicate's facts; return whether it is known."""
        items = self.of([name])
        if not items or name in self._again:
            return False
        tables = {item.key: item.table for item in items}
        of_table = next((item for item in items if item.table is not None), items[0])
        for item in items:
            check_drift(item, before.inputs.get(item.key), False)
        feed = feed_of(
            name, tables, lambda: of_table.filter, self._program, before, of_table.marks, self._reached
        )
        if feed is None:
            return False
        feed.apply(change, name)
        self.inputs[of_table.key] = feed.input
        self._reached("read", feed.shown)
        return True

    def replace_times(self, change: Change, number: int, before: Manifest, predicates: Sequence[str]) -> None:
        """The same of facts that are given with times."""
        timed = [item for item in self.of(predicates) if item.time]
        for name in predicates:
            if name in change.program.timed:
                change.times.replaced.add(name)
        for taken in self.read(number, before, False, timed):
            for batch, times in taken.timed(self._is_integer_time):
                change.insert_timed(taken.item.predicate, batch, times)

    def of(self, predicates: Collection[str]) -> list[Feeding]:
        """The inputs of predicates."""
        return [item for item in self.items if item.predicate in predicates]

    def newest(self, key: str) -> int | None:
        """Return when the newest file of an input was written, in nanoseconds; None if it has no files."""
        found = next((item for item in self.items if item.key == key), None)
        if found is not None and found.table is not None:
            written = found.table.found.written
            return None if written is None else written * 1_000_000
        return None if found is None else max(found.times(), default=None)

    def check_rejects(self) -> None:
        """Raise `DataError` if more rows are rejected than the job allows."""
        check_rejects(self.inputs, self._settings, self._store.path)

    def differs(self, before: Mapping[str, Input]) -> bool:
        """Whether an input tells something else than before, apart from when its files were written."""
        return differs(self.inputs, before)
