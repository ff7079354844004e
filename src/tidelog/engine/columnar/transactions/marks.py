"""The columnar engine with what marking notes of facts, beside their rows. Mutates itself.

Notes are right as long as every change of facts is noted: they are kept from one transaction to the next if
nothing was derived, compacted or taken back in between. See `engine.protocol.Maintainable` for what the
methods promise.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.assemble import NOTHING
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.columnar.transactions import mark_kernels
from tidelog.engine.columnar.transactions.change_runner import EMPTY, RowSet
from tidelog.engine.columnar.transactions.transactions import TransactionEngine
from tidelog.engine.protocol import Effect, Notes, Noting

FIRST_GATHERED = 256  # facts that lean on others for which there is room at first
# What is kept of notes beside rows, by where it stands in T.
MARKING = {layout.NOTES: np.uint8}
LEANING = {layout.NOTES: np.uint8, layout.LINK: np.int64, layout.NEXT: np.int64, layout.PREVIOUS: np.int64}
LEANT_ON = {layout.FIRST: np.int64}


class NotedEngine(TransactionEngine):
    """All facts in this process, and marks on them or what they lean on."""

    def __init__(self, threads: int | None = None, relations: int = 8) -> None:
        super().__init__(threads, relations)
        self.noting = NOTHING
        self._noted = NOTHING, (-1, -1)  # what is kept, and the epoch and generation in which it is right

    # ---- while facts change

    def begin_transaction(self) -> None:
        """Begin a journal; nothing is noted until `keep_notes` says what."""
        super().begin_transaction()
        self.noting = NOTHING

    def commit(self) -> tuple[RowSet, RowSet]:
        """End the transaction: what went and what came, in all relations; what was noted is right now."""
        gone, come = super().commit()
        if self.noting is not NOTHING:
            self._noted = self.noting, (self.epoch, self.generation)
        return gone, come

    def roll_back(self) -> None:
        """Put flags and counters back as they were when the transaction began; notes are lost."""
        super().roll_back()
        if self.noting is not NOTHING:
            self.forget_notes()

    def compact(self, table: Table) -> None:
        """Delete a table's dead rows, and drop all notes, which refer to row numbers."""
        super().compact(table)
        self.forget_notes()

    def begin(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, and drop all notes: derivation in rounds keeps none."""
        super().begin(relations)
        self.forget_notes()

    # ---- what is noted

    def keep_notes(self, noting: Noting) -> None:
        """In this transaction, let what is noted of facts be this."""
        noted, moment = self._noted
        if noted != noting or moment != (self.epoch, self.generation):
            self.forget_notes()
            noted = noting
            self._keep(noted)
            self._noted = noted, (self.epoch, self.generation)
        self.noting = noted

    def _keep(self, noting: Noting) -> None:
        leaning = MARKING if noting.notes is Notes.MARKS else LEANING
        leant_on = MARKING if noting.notes is Notes.MARKS else LEANT_ON
        for relation, number in self._numbers.items():
            table = self.tables[number]
            if table.words[layout.SCRATCH] == 1:
                continue
            if relation in noting.sources:
                table.keep_notes(leant_on)
            elif relation in noting.heads:
                table.keep_notes(leaning)

    def forget_notes(self) -> None:
        """Note nothing any more: facts have changed and nothing was noted of it."""
        for table in self.tables:
            if table.notes:
                table.drop_notes()
        self.noting = NOTHING
        self._noted = NOTHING, (-1, -1)

    def is_linked(self, relations: Collection[str]) -> bool:
        """Whether it is known of every derived fact of these relations what it leans on."""
        return all(self.table(relation).is_linked for relation in relations)

    def linked(self, facts: Any, relations: Collection[str], effect: Effect) -> RowSet:
        """The facts of these relations that lean on the given ones and that the effect selects."""
        wanted = np.zeros(len(self.tables), np.bool_)
        for relation in relations:
            wanted[self._numbers[relation]] = True
        mask, want = int(effect.where.mask), int(effect.where.want)
        found = EMPTY
        for relation, rows in facts.rows.items():
            table = self.table(relation)
            if layout.FIRST in table.notes:
                room = FIRST_GATHERED
                while True:
                    out = np.empty(room, np.int64)
                    count = mark_kernels.gather_linked(
                        self.descriptors, table.number, rows, wanted, mask, want, out
                    )
                    if count <= room:
                        break
                    room = int(count)
                found |= self.row_set(out[:count])
        self.mark(found, set=effect.set)
        return found

    def divide_sole(self, facts: Any) -> tuple[RowSet, RowSet]:
        """Those that are sole, and the others."""
        sole, others = {}, {}
        for relation, rows in facts.rows.items():
            out = np.empty(len(rows), np.int64)
            count = int(mark_kernels.divide_sole(self.descriptors, self._numbers[relation], rows, out))
            if count == len(rows) == len(facts):
                return facts, EMPTY
            if count:
                sole[relation] = out[:count]
            if count < len(rows):
                others[relation] = out[count:]
        return RowSet(sole), RowSet(others)

    def note_marks(self, facts: Any, marked: bool) -> None:
        """Mark the facts, or let them be unmarked."""
        for relation, rows in facts.rows.items():
            notes = self.table(relation).notes.get(layout.NOTES)
            if notes is not None:
                notes[rows] = layout.MARKED if marked else 0

    def select_marked(self, facts: Any) -> RowSet:
        """Those that are marked."""
        return self._select_noted(facts, layout.MARKED)

    def note_returning(self, facts: Any, returning: bool) -> None:
        """Set or clear the note that the facts return."""
        for relation, rows in facts.rows.items():
            notes = self.table(relation).notes.get(layout.NOTES)
            if notes is not None:
                others = notes[rows] & (0xFF ^ layout.RETURNS)
                notes[rows] = others | layout.RETURNS if returning else others

    def select_returning(self, facts: Any) -> RowSet:
        """Those that return."""
        return self._select_noted(facts, layout.RETURNS)

    def _select_noted(self, facts: Any, note: int) -> RowSet:
        selected = {}
        for relation, rows in facts.rows.items():
            notes = self.table(relation).notes.get(layout.NOTES)
            found = rows[(notes[rows] & note) != 0] if notes is not None else rows[:0]
            if len(found):
                selected[relation] = found
        return RowSet(selected) if selected else EMPTY
