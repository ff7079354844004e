"""The columnar engine in transactions: facts come and go, and a journal knows what they were. Mutates itself.

A set of facts is the numbers of its rows, relation by relation. See `engine.maintaining.Maintainable` for
what the methods promise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.columnar import change_kernels as kernels
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.change_runner import EMPTY, Lists, RowSet
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.engine.columnar.table import Table
from tidelog.engine.maintaining import Flag, Where

Ids = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]

COMPACT_FROM = 4096  # dead rows that are worth letting go of


class TransactionEngine(ColumnarEngine):
    """All facts in this process; they change in transactions, which can be taken back."""

    def __init__(self, threads: int | None = None, relations: int = 8) -> None:
        super().__init__(threads, relations)
        self.lists = Lists(self.workspaces[0])
        self._is_rebased = False
        self._settled = 0  # how much of the journal is of strata that have been settled

    # ---- transactions

    def begin_transaction(self) -> None:
        """Begin a journal."""
        self.lists.open()
        self._settled = 0
        self._is_rebased = False
        self.workspaces[0].state[layout.Z_OUT_COUNT] = 0

    def commit(self) -> tuple[RowSet, RowSet]:
        """End the transaction: what went and what came, in all relations; BEFORE is ALIVE again."""
        state = self.workspaces[0].state
        if self._is_rebased:
            kernels.look_back(self.descriptors, state)
        touched = int(state[layout.Z_JOURNAL_COUNT])
        gone, come = np.empty(touched, np.int64), np.empty(touched, np.int64)
        went, came = kernels.close_journal(self.descriptors, state, gone, come)
        self.lists.pause()
        self.epoch += 1
        return self.row_set(gone[:went]), self.row_set(come[:came])

    def rebase(self) -> None:
        """Let BEFORE be ALIVE for a second act; `commit` and `roll_back` still look back to the beginning."""
        kernels.rebase(self.descriptors, self.workspaces[0].state)
        self.epoch += 1
        self._settled = int(self.workspaces[0].state[layout.Z_JOURNAL_COUNT])
        self._is_rebased = True

    def tidy(self, relations: Iterable[str]) -> None:
        """Let go of dead rows where they are the greater part; sets of facts are no longer valid."""
        for relation in relations:
            table = self.table(relation)
            if table.dead > COMPACT_FROM and 2 * table.dead > len(table):
                self.compact(table)

    def roll_back(self) -> None:
        """Put flags and counters back as they were when the transaction began."""
        kernels.undo_journal(self.descriptors, self.workspaces[0].state, 0)
        self.lists.pause()

    def settle(self, relations: Collection[str]) -> tuple[RowSet, RowSet]:
        """End a stratum: clear what algorithms note of facts; what went and what came in it."""
        state = self.workspaces[0].state
        first, self._settled = self._settled, int(state[layout.Z_JOURNAL_COUNT])
        touched = self._settled - first
        if not touched:
            return EMPTY, EMPTY
        gone, come = np.empty(touched, np.int64), np.empty(touched, np.int64)
        went, came = kernels.settle(self.descriptors, state, first, gone, come)
        return self.row_set(gone[:went]), self.row_set(come[:came])

    def row_set(self, codes: Rows) -> RowSet:
        """The facts with these codes."""
        if not len(codes):
            return EMPTY
        numbers = codes >> 32
        rows = codes & 0xFFFFFFFF
        first = int(numbers[0])
        if (numbers == first).all():
            return RowSet({self.tables[first].name: rows})
        return RowSet({self.tables[number].name: rows[numbers == number] for number in set(numbers.tolist())})

    # ---- sets of facts

    def none(self) -> RowSet:
        """No facts."""
        return EMPTY

    def unite(self, sets: Iterable[Any]) -> RowSet:
        """All facts of sets that have no relation in common."""
        united: dict[str, Rows] = {}
        for facts in sets:
            united.update(facts.rows)
        return RowSet(united) if united else EMPTY

    def facts(self, relation: str, columns: Sequence[Ids], count: int, create: bool) -> RowSet:
        """The facts with these ids; those that are not there are entered without flags, or left out."""
        table = self.table(relation)
        found = np.empty(count, np.int64)
        source = (
            np.concatenate([np.ascontiguousarray(column, np.int32) for column in columns])
            if columns
            else np.zeros(0, np.int32)
        )
        done = 0
        while True:
            done = int(
                kernels.find_or_enter(self.descriptors, table.number, source, count, done, create, found)
            )
            if done == count:
                break
            table.reserve(count - done, len(self.dictionary))
        if not create:
            found = found[found >= 0]
        return RowSet({relation: found}) if len(found) else EMPTY

    def every(self, relation: str) -> RowSet:
        """All facts of a relation that are true now."""
        table = self.table(relation)
        rows = np.flatnonzero(table.flags[: len(table)] & layout.ALIVE)
        return RowSet({relation: rows}) if len(rows) else EMPTY

    def ids(self, facts: Any) -> dict[str, tuple[tuple[Ids, ...], int]]:
        """The columns of ids of the facts, and how many they are, by relation."""
        return {
            relation: (tuple(column[rows] for column in self.table(relation).columns), len(rows))
            for relation, rows in facts.rows.items()
        }

    def select(self, facts: Any, where: Where) -> RowSet:
        """Those whose flags are as wanted."""
        mask, want = int(where.mask), int(where.want)
        return self._selected(
            facts,
            lambda table, rows, out: kernels.select_rows(self.descriptors, table, rows, mask, want, out),
        )

    def of(self, facts: Any, relations: Collection[str]) -> RowSet:
        """Those of these relations."""
        return RowSet({relation: rows for relation, rows in facts.rows.items() if relation in relations})

    def mark(self, facts: Any, set: Flag = Flag.NONE, clear: Flag = Flag.NONE) -> None:
        """Clear flags, then set flags."""
        for table, rows in self._touching(facts):
            state = self.workspaces[0].state
            kernels.mark_rows(self.descriptors, table.number, rows, int(set), int(clear), state)

    def _touching(self, facts: Any) -> Iterable[tuple[Table, Rows]]:
        """The facts table by table, the journal having room for them."""
        for relation, rows in facts.rows.items():
            self.lists.reserve(len(rows))
            yield self.table(relation), rows

    def _selected(self, facts: Any, select: Any) -> RowSet:
        """The facts for which a kernel that selects rows decides."""
        selected = {}
        for relation, rows in facts.rows.items():
            out = np.empty(len(rows), np.int64)
            count = int(select(self._numbers[relation], rows, out))
            if count:
                selected[relation] = out[:count]
        return RowSet(selected) if selected else EMPTY
