"""The columnar engine in transactions: facts come and go, and a journal knows what they were. Mutates itself.

A set of facts is the numbers of its rows, relation by relation. See `engine.protocol.Maintainable` for
what the methods promise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage.rounds import FollowedEngine
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.columnar.transactions import change_kernels
from tidelog.engine.columnar.transactions import change_kernels as kernels
from tidelog.engine.columnar.transactions.change_runner import EMPTY, Lists, RowSet
from tidelog.engine.protocol import Flag, Where

Ids = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]

Columns = tuple[Sequence[Ids], int]  # of the rows of one relation, and how many they are

ROW = 0xFFFFFFFF  # of a code, the part that is the row's number
FEW = 4  # relations that are better looked at one by one
NONE = np.zeros(0, np.int64)
FACT = layout.EXPLICIT | layout.TRUE
COMPACT_FROM = 4096  # dead rows that are worth letting go of


class Batch:
    """Rows of several tables, as kernels take them."""

    def __init__(self, tables: Sequence[int], counts: Sequence[int], columns: Sequence[Ids]) -> None:
        self.tables, self.counts = np.array(tables, np.int64), np.array(counts, np.int64)
        self.source = np.concatenate(columns, dtype=np.int32) if columns else np.zeros(0, np.int32)
        self.ends = list(accumulate(counts))
        self.rows = self.ends[-1] if self.ends else 0

    @property
    def parts(self) -> tuple[Rows, Rows, Ids]:
        """The tables, how many rows of each, and their ids."""
        return self.tables, self.counts, self.source

    def left(self, done: int) -> tuple[int, int]:
        """The table of the row with this number, and how many of its rows are left."""
        group = bisect_right(self.ends, done)
        return int(self.tables[group]), self.ends[group] - done

    def divided(self, rows: Rows) -> Iterator[Rows]:
        """What stands in one array for all rows, table by table."""
        return (rows[first:end] for first, end in pairwise((0, *self.ends)))


class Gathered(Mapping[str, Columns]):
    """Ids of facts by relation: column after column, relation after relation, in one array.

    `counts` are of rows, `sizes` of ids; relations are cut out when somebody looks.
    """

    def __init__(self, names: Sequence[str], counts: Rows, sizes: Rows, ids: Ids) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        self._counts = counts
        self._ends = np.cumsum(sizes)
        self._ids = ids

    def __getitem__(self, relation: str) -> Columns:
        place = self._places[relation]
        count, end = int(self._counts[place]), int(self._ends[place])
        first = int(self._ends[place - 1]) if place else 0
        return tuple(self._ids[start : start + count] for start in range(first, end, count)), count

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class TransactionEngine(FollowedEngine):
    """All facts in this process; they change in transactions, which can be taken back."""

    def __init__(self, threads: int | None = None, relations: int = 8) -> None:
        super().__init__(threads, relations)
        self.lists = Lists(self.workspaces[0])
        self._is_rebased = False
        self._row_counts = NONE  # a zero for each table
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
        self.lists.close()
        self.epoch += 1
        removed, added = self.row_set(gone[:went]), self.row_set(come[:came])
        for relation in {**removed.rows, **added.rows} if self.is_followed else ():
            self.table(relation).note(removed.rows.get(relation, NONE), added.rows.get(relation, NONE))
        return removed, added

    def rebase(self) -> None:
        """Set BEFORE to ALIVE for a second pass; `commit` and `roll_back` still refer to the beginning."""
        kernels.rebase(self.descriptors, self.workspaces[0].state)
        self.epoch += 1
        self._settled = int(self.workspaces[0].state[layout.Z_JOURNAL_COUNT])
        self._is_rebased = True

    def tidy(self, relations: Iterable[str]) -> None:
        """Compact the relations in which most rows are dead; sets of facts become invalid."""
        numbers = [self._numbers[relation] for relation in relations]
        if not numbers or self.descriptors[numbers, layout.DEAD].max() <= COMPACT_FROM:
            return
        for table in (self.tables[number] for number in numbers):
            if table.dead > COMPACT_FROM and 2 * table.dead > len(table):
                self.compact(table)

    def roll_back(self) -> None:
        """Put flags and counters back as they were when the transaction began."""
        kernels.undo_journal(self.descriptors, self.workspaces[0].state, 0)
        self.lists.close()

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
        if len(self._row_counts) < len(self.descriptors):
            self._row_counts = np.zeros(len(self.descriptors), np.int64)
        most = min(len(codes), len(self.tables))
        tables, starts = np.empty(most, np.int64), np.empty(most + 1, np.int64)
        rows = np.empty(len(codes), np.int64)
        found = int(change_kernels.group_rows(codes, self._row_counts, tables, starts, rows))
        tables, starts = tables[:found], starts[: found + 1]
        parts = zip(tables.tolist(), pairwise(starts.tolist()), strict=True)
        named = {self.tables[table].name: rows[first:end] for table, (first, end) in parts}
        return RowSet(named, (tables, starts, rows))

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
        return self.all_facts({relation: (columns, count)}, create).get(relation, EMPTY)

    def all_facts(self, given: Mapping[str, Columns], create: bool) -> dict[str, RowSet]:
        """The facts with the given ids, relation by relation; see `facts`."""
        batch = self._batch(given)
        found = np.empty(batch.rows, np.int64)
        done = 0
        while True:
            done = int(change_kernels.find_or_enter(self.descriptors, *batch.parts, done, create, found))
            if done == batch.rows:
                break
            table, more = batch.left(done)
            self.tables[table].reserve(more, len(self.dictionary))
        parts = dict(zip(given, batch.divided(found), strict=True))
        if not create and (found < 0).any():
            parts = {relation: rows[rows >= 0] for relation, rows in parts.items()}
        return {relation: RowSet({relation: rows}) for relation, rows in parts.items() if len(rows)}

    def fill(self, given: Mapping[str, Columns]) -> None:
        """Insert these rows into empty scratch relations; none of them is NEW yet."""
        for relation in self.all_facts(given, create=True):
            table = self.table(relation)
            table.flags[: len(table)] = FACT
            table.words[layout.DEAD] = 0

    def standing_of(self, given: Mapping[str, Columns]) -> npt.NDArray[np.uint8]:
        """The flags ALIVE and EXPLICIT of all rows, one relation after the other; 0 of what is no fact."""
        for relation in given:
            self.table(relation).complete(self.check)
        batch = self._batch(given)
        standing = np.empty(batch.rows, np.uint8)
        change_kernels.stand(self.descriptors, *batch.parts, standing)
        return standing

    def _batch(self, given: Mapping[str, Columns]) -> Batch:
        tables = [self._numbers[relation] for relation in given]
        source = [column for columns, _ in given.values() for column in columns]
        return Batch(tables, [count for _, count in given.values()], source)

    def every(self, relation: str) -> RowSet:
        """All facts of a relation that are true now."""
        table = self.table(relation)
        rows = np.flatnonzero(table.flags[: len(table)] & layout.ALIVE)
        return RowSet({relation: rows}) if len(rows) else EMPTY

    def ids(self, facts: Any) -> Mapping[str, Columns]:
        """The columns of ids of the facts, and how many they are, by relation."""
        if facts.groups is None or len(facts.rows) <= FEW:
            return {
                relation: (tuple(column[rows] for column in self.table(relation).columns), len(rows))
                for relation, rows in facts.rows.items()
            }
        return self.gathered(facts)

    def gathered(self, facts: RowSet) -> Gathered:
        """The same for facts in groups, whose columns are cut out when somebody looks."""
        assert facts.groups is not None
        tables, starts, rows = facts.groups
        counts = starts[1:] - starts[:-1]
        sizes = self.descriptors[tables, layout.ARITY] * counts
        ids = np.empty(int(sizes.sum()), np.int32)
        change_kernels.gather(self.descriptors, tables, counts, rows, ids)
        return Gathered(tuple(facts.rows), counts, sizes, ids)

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
