"""Indexes: the rows of a table by the values of some columns. Mutates itself.

The rows of a key lie next to each other in a pool. An index follows its table when a plan that uses it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage import table_kernels as kernels
from tidelog.engine.columnar.table import Table, Words

MANY = 1 << 18  # rows from which the pool has less room to grow
SEVERAL = 1000  # rows from which filtering whole columns is worth while


@dataclass(frozen=True, slots=True)
class IndexKey:
    """What an index is of: a table, the columns looked up, and the filters its rows have passed.

    A filter is (column, id) or, for two columns that must agree, (column, -1 - other column).
    """

    table: int
    columns: tuple[int, ...]
    filters: tuple[tuple[int, int], ...] = ()


class Index:
    """Rows of a table by key, described to kernels by row `number` of X."""

    def __init__(self, descriptors: Words, number: int, key: IndexKey, table: Table, constants: int) -> None:
        self.descriptors = descriptors
        self.number = number
        self.key = key
        self.table = table
        words = descriptors[number]
        words[:] = 0
        words[layout.X_TABLE] = table.number
        words[layout.X_KEYS] = len(key.columns)
        words[layout.X_FILTERS] = len(key.filters)
        lists = (*key.columns, *(word for pair in key.filters for word in pair))
        words[layout.X_LISTS : layout.X_LISTS + len(lists)] = lists
        self._build(constants)

    @property
    def words(self) -> Words:
        """This index's row of X."""
        row: Words = self.descriptors[self.number]
        return row

    def attach(self, descriptors: Words) -> None:
        """Move to a larger X, which holds a copy of this index's row."""
        self.descriptors = descriptors

    @property
    def done(self) -> int:
        """How many rows of the table have been looked at."""
        return int(self.descriptors[self.number, layout.X_DONE])

    def _build(self, constants: int) -> None:
        """Index all rows that are visible."""
        table = self.table
        self.slots = np.zeros(1, np.int64)
        self.words[[layout.X_DONE, layout.X_ENTRIES, layout.X_POOL_TOP]] = 0
        end = int(table.words[layout.CURRENT_END])
        listed = self._filtered(end)
        rows = end if listed is None else len(listed)
        # A head per constant is fastest, and wasteful for few rows over many constants.
        direct = len(self.key.columns) == 1 and rows * 8 >= constants
        # Room for more of both: memory that is not touched costs nothing, and moving all of it does.
        keys = constants + constants // 8 if direct else rows + rows // 4 if self.key.columns else 0
        entries = keys + 16 if self.key.columns else 1
        self.start = memory.zeros(entries, np.int64)
        self.length = memory.zeros(entries, np.int32)
        self.room = memory.zeros(entries, np.int32)
        # Memory that is not written to costs nothing, but copying does: keys that grow move to the end.
        self.pool = memory.empty(max(rows * (16 if rows < MANY else 4), 16), np.int32)
        words = self.words
        words[layout.X_DIRECT] = int(direct)
        if not direct and self.key.columns:
            self._make_slots(rows + rows // 16 + 16)
        self._publish()
        if direct:
            address = 0 if listed is None else listed.ctypes.data
            kernels.build_direct(table.descriptors, self.descriptors, self.number, address, rows)
        else:
            self._index(listed, 0, rows, constants)
        words[layout.X_DONE] = end

    def rebuild(self, constants: int) -> None:
        """Index the rows of the table anew: their numbers have changed."""
        self._build(constants)

    def _filtered(self, end: int) -> npt.NDArray[np.int64] | None:
        """The rows from the first that is not indexed yet up to `end` that pass the filters; None: all do."""
        if not self.key.filters:
            return None
        passed = np.ones(end - self.done, bool)
        for column, wanted in self.key.filters:
            values = self.table.columns[column][self.done : end]
            other = self.table.columns[-1 - wanted][self.done : end] if wanted < 0 else wanted
            passed &= values == other
        return np.flatnonzero(passed) + self.done

    def _make_slots(self, entries: int) -> None:
        size = 16
        while size < 2 * entries:
            size *= 2
        slots = memory.zeros(size, np.int64)
        if len(self.slots) > 1:
            kernels.move_slots(self.slots, slots, 32 - (size.bit_length() - 1), size - 1)
        self.slots = slots

    def _publish(self) -> None:
        words = self.words
        words[layout.X_SLOTS] = self.slots.ctypes.data
        words[layout.X_SLOT_COUNT] = len(self.slots)
        words[layout.X_SHIFT] = 32 - (len(self.slots).bit_length() - 1)
        words[layout.X_ENTRY_CAPACITY] = len(self.start)
        words[layout.X_START] = self.start.ctypes.data
        words[layout.X_LENGTH] = self.length.ctypes.data
        words[layout.X_ROOM] = self.room.ctypes.data
        words[layout.X_POOL] = self.pool.ctypes.data
        words[layout.X_POOL_CAPACITY] = len(self.pool)

    @property
    def is_behind(self) -> bool:
        """Whether rows have become visible since it was last updated."""
        return self.done < int(self.table.words[layout.CURRENT_END])

    def update(self, constants: int) -> None:
        """Index the rows that have become visible since the last time."""
        self.catch_up(int(self.table.words[layout.CURRENT_END]), constants)

    def catch_up(self, end: int, constants: int) -> None:
        """Index all rows before `end` that are not indexed yet."""
        done = self.done
        if end - done > SEVERAL and self.key.filters:
            listed = self._filtered(end)
            assert listed is not None
            self._index(listed, 0, len(listed), constants)
            self.words[layout.X_DONE] = end
        elif end > done:
            self._index(None, done, end, constants)

    def _index(self, listed: npt.NDArray[np.int64] | None, first: int, count: int, constants: int) -> None:
        """Index the places `first` to `count` of a list of rows, or of all rows."""
        address = 0 if listed is None else listed.ctypes.data
        while first < count:
            first = int(
                kernels.index_rows(
                    self.table.descriptors, self.descriptors, self.number, address, first, count
                )
            )
            if first < count:
                self._grow(constants)

    def _grow(self, constants: int) -> None:
        words = self.words
        used = len(self.start)
        entries = int(words[layout.X_ENTRIES])
        if words[layout.X_DIRECT]:
            wanted = constants + constants // 8 + 16 if constants > used else used
        else:
            wanted = used * 2 if self.key.columns and entries + 1 >= used else used
        if wanted > used:
            lists = (self.start, self.length, self.room)
            self.start, self.length, self.room = (memory.grown(array, used, wanted) for array in lists)
            self.start[used:] = 0
            self.length[used:] = 0
            self.room[used:] = 0
            self._publish()
        if self.key.columns and not words[layout.X_DIRECT] and 2 * (entries + 1) >= len(self.slots):
            self._make_slots(2 * entries)
            self._publish()
        top = int(words[layout.X_POOL_TOP])
        # The entry that did not fit may want twice its rows.
        largest = int(self.length.max(initial=0)) if wanted == used else 0
        if wanted == used and top + 2 * max(largest, 4) > len(self.pool):
            self.pool = memory.grown(self.pool, top, max(2 * len(self.pool), top + 4 * max(largest, 4)))
            self._publish()

    @property
    def bytes(self) -> int:
        """The memory this index holds."""
        arrays = (self.start, self.length, self.room, self.pool, self.slots)
        return sum(array.nbytes for array in arrays)
