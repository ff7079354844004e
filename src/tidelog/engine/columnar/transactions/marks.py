"""Marks on facts, and links to the facts that support them, stored by row. Mutable.

They are correct as long as every change of facts is recorded: they are kept between transactions unless facts
were derived in rounds, compacted or rolled back. See `engine.protocol.Marks` for the contracts of the
methods.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field
from typing import Any

import numpy as np

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage.catalog import Catalog, CatalogObserver
from tidelog.engine.columnar.transactions import change_kernels
from tidelog.engine.columnar.transactions.change_runner import Bookkeeping
from tidelog.engine.columnar.transactions.row_sets import EMPTY, RowSet
from tidelog.engine.columnar.transactions.transactions import Participant, Transactions
from tidelog.engine.flags import UNMARKED, Effect, MarkConfig, MarkKind
from tidelog.records import dataclass

FIRST_GATHERED = 256  # supported facts for which there is room at first
# The arrays stored by row, by their position in T.
MARKS = {layout.NOTES: np.uint8}
SUPPORTED = {layout.NOTES: np.uint8, layout.LINK: np.int64, layout.NEXT: np.int64, layout.PREVIOUS: np.int64}
SUPPORTING = {layout.FIRST: np.int64}
NEVER = (-1, -1)


@dataclass(slots=True, eq=False)
class ColumnarMarks(Participant, CatalogObserver):
    """The marks or links of one configuration, maintained from `configure` until they are discarded."""

    catalog: Catalog
    transactions: Transactions
    bookkeeping: Bookkeeping
    # The configuration, and the epoch and version in which it is right.
    _kept: tuple[MarkConfig, tuple[int, int]] = field(default=(UNMARKED, NEVER), init=False)

    # ---- while facts change

    def on_commit(self) -> None:
        """Keep the records, which are correct now. The next transaction records only after `configure`."""
        if self.bookkeeping.marks is not UNMARKED:
            self._kept = self.bookkeeping.marks, self._moment
            self.bookkeeping.marks = UNMARKED

    def on_roll_back(self) -> None:
        """Discard the records."""
        if self.bookkeeping.marks is not UNMARKED:
            self.forget()

    def on_compact(self) -> None:
        """Discard the records, since links refer to row numbers."""
        self.forget()

    def on_begin_rounds(self) -> None:
        """Discard the records, since derivation in rounds does not maintain them."""
        self.forget()

    @property
    def _moment(self) -> tuple[int, int]:
        return self.catalog.epoch, self.catalog.version

    # ---- records

    def configure(self, config: MarkConfig) -> None:
        """Record marks or links in the present transaction."""
        kept, moment = self._kept
        if kept != config or moment != self._moment:
            self.forget()
            kept = config
            self._allocate(kept)
            self._kept = kept, self._moment
        self.bookkeeping.marks = kept
        self.catalog.observe(self)
        self.transactions.join(self)

    def _allocate(self, config: MarkConfig) -> None:
        supported = MARKS if config.kind is MarkKind.MARKS else SUPPORTED
        supporting = MARKS if config.kind is MarkKind.MARKS else SUPPORTING
        for relation in self.catalog.names:
            table = self.catalog.table(relation)
            if table.words[layout.SCRATCH] == 1:
                continue
            if relation in config.sources:
                table.keep_notes(supporting)
            elif relation in config.heads:
                table.keep_notes(supported)

    def forget(self) -> None:
        """Discard the records after changes that were not recorded."""
        for table in self.catalog.tables:
            if table.notes:
                table.drop_notes()
        self.bookkeeping.marks = UNMARKED
        self._kept = UNMARKED, NEVER
        self.catalog.ignore(self)
        self.transactions.leave(self)

    def is_linked(self, relations: Collection[str]) -> bool:
        """Return whether the support of every derived fact of these relations is known."""
        return all(self.catalog.table(relation).is_linked for relation in relations)

    def linked(self, facts: Any, relations: Collection[str], effect: Effect) -> RowSet:
        """Return the facts of these relations that the given facts support and that the effect selects."""
        is_requested = np.zeros(len(self.catalog.tables), np.bool_)
        for relation in relations:
            is_requested[self.catalog.table_number(relation)] = True
        mask, want = int(effect.where.mask), int(effect.where.want)
        linked = EMPTY
        for relation, rows in facts.rows.items():
            table = self.catalog.table(relation)
            if layout.FIRST in table.notes:
                room = FIRST_GATHERED
                while True:
                    out = np.empty(room, np.int64)
                    count = change_kernels.gather_linked(
                        self.catalog.descriptors, table.number, rows, is_requested, mask, want, out
                    )
                    if count <= room:
                        break
                    room = int(count)
                linked |= self.transactions.row_set(out[:count])
        self.transactions.mark(linked, set=effect.set)
        return linked

    def split_single_support(self, facts: Any) -> tuple[RowSet, RowSet]:
        """Return the facts with a single support, and the others."""
        single, others = {}, {}
        for relation, rows in facts.rows.items():
            out = np.empty(len(rows), np.int64)
            count = int(
                change_kernels.divide_sole(
                    self.catalog.descriptors, self.catalog.table_number(relation), rows, out
                )
            )
            if count == len(rows) == len(facts):
                return facts, EMPTY
            if count:
                single[relation] = out[:count]
            if count < len(rows):
                others[relation] = out[count:]
        return RowSet(single), RowSet(others)

    def set_marks(self, facts: Any, marked: bool) -> None:
        """Set or clear the mark of the facts."""
        for relation, rows in facts.rows.items():
            notes = self.catalog.table(relation).notes.get(layout.NOTES)
            if notes is not None:
                notes[rows] = layout.MARKED if marked else 0

    def select_marked(self, facts: Any) -> RowSet:
        """Return those that are marked."""
        return self._select_with(facts, layout.MARKED)

    def set_returning(self, facts: Any, returning: bool) -> None:
        """Record that the facts return, or that they no longer do."""
        for relation, rows in facts.rows.items():
            notes = self.catalog.table(relation).notes.get(layout.NOTES)
            if notes is not None:
                other_notes = notes[rows] & (0xFF ^ layout.RETURNS)
                notes[rows] = other_notes | layout.RETURNS if returning else other_notes

    def select_returning(self, facts: Any) -> RowSet:
        """Return those that are recorded as returning."""
        return self._select_with(facts, layout.RETURNS)

    def _select_with(self, facts: Any, bit: int) -> RowSet:
        selected = {}
        for relation, rows in facts.rows.items():
            notes = self.catalog.table(relation).notes.get(layout.NOTES)
            matching = rows[(notes[rows] & bit) != 0] if notes is not None else rows[:0]
            if len(matching):
                selected[relation] = matching
        return RowSet(selected) if selected else EMPTY
