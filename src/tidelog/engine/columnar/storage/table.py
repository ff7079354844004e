"""Tables and their indexes: the owners of the memory that kernels reach by address. Mutable.

A table's rows are int32 columns, a byte of flags per row, and a set of its rows: a direct array over pairs of
ids where that is small, hash slots where it is not. Row numbers change only when a table is compacted.

The rows of a key lie next to each other in an index. An index follows its table when a plan that uses it
runs, and is dropped with its table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data import memory
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage import table_kernels as kernels
from tidelog.engine.interrupts import proceed
from tidelog.records import dataclass

Ids = npt.NDArray[np.int32]
Words = npt.NDArray[np.int64]

FIRST_CAPACITY = 64
DENSE_ROW = 64  # bytes of a direct set that a given fact may cost; a hashed one takes 11 to 21
LOAD = 0.75
WIDE_LOAD = 0.5  # of three columns and more: at three quarters, late rows cost twice as much to find
SEGMENTED_FROM = 1 << 16  # slots of a set from which it is divided into segments
SEGMENTS = 16
LOGGED = 1 << 16  # rows that a log may hold in any case
ROW_FLAGS = np.uint8(layout.ALIVE | layout.EXPLICIT)
SAMPLE = 2048  # rows that show of most columns that they have a value twice
PAGE = 4096  # bytes of memory that are allocated at once
# Rows entered into a set before limits are checked: twice as many each time, up to a tenth of a second.
FIRST_HASHED, HASHED_AT_ONCE = 64, 1 << 20

Check = Callable[[], None]  # raises where work is to stop


class Key:
    """A column in which no two rows have the same value: the row of each. Mutable."""

    def __init__(self, position: int, column: Ids) -> None:
        self.position = position
        self.rows = memory.zeros(int(column.max(initial=-1)) + 1, np.int32)  # by id, plus 1

    @classmethod
    def of(cls, position: int, column: Ids) -> Key | None:
        """Return the column at this position as a key, None if it has a value twice."""
        first = column[:SAMPLE].tolist()
        if len(set(first)) < len(first):
            return None
        key = cls(position, column)
        numbered = int(kernels.number_distinct(np.ascontiguousarray(column), 0, key.rows))
        return key if numbered == len(column) else None

    def make_room(self, column: Ids) -> None:
        """Make room for the ids of more rows."""
        ids = int(column.max(initial=-1)) + 1
        if ids > len(self.rows):
            larger = memory.zeros(2 * ids, np.int32)
            larger[: len(self.rows)] = self.rows
            self.rows = larger


@dataclass
class Log:
    """What was inserted into a relation and deleted from it since it had `size` facts. Mutable."""

    size: int  # the relation's size now, if nothing else has changed it
    rows: int = 0  # in the log
    inserted: list[tuple[list[Ids], int]] = field(default_factory=list)
    deleted: list[tuple[list[Ids], int]] = field(default_factory=list)


class Table:
    """The rows of one relation, described to kernels by row `number` of T."""

    def __init__(
        self, descriptors: Words, number: int, name: str, arity: int, constants: int, dense_bytes: int
    ) -> None:
        self.descriptors = descriptors
        self.number = number
        self.name = name
        self.arity = arity
        self.load = LOAD if arity <= 2 else WIDE_LOAD  # the part of a hashed set that may be full
        self.dense_bytes = dense_bytes
        self.columns: list[Ids] = [memory.empty(FIRST_CAPACITY, np.int32) for _ in range(arity)]
        self.flags: npt.NDArray[np.uint8] = memory.empty(FIRST_CAPACITY, np.uint8)
        self.slots: npt.NDArray[Any] = np.zeros(0, np.int64)
        self.counters: dict[int, Ids] = {}  # by their position in T: FOUNDED, HIDDEN, RANK
        self.notes: dict[int, npt.NDArray[Any]] = {}  # by their position in T: NOTES, LINK, FIRST, …
        self.is_linked = False  # it is known of every derived fact which explicit fact supports it
        self.rounds: list[int] = []  # how many rows there were after each round of materialisation …
        self.rounds_of: tuple[int, frozenset[str]] = 0, frozenset()  # … in this epoch, of these relations
        self.is_pinned = False  # cached plans refer to this table
        self.log: Log | None = None
        self.key: Key | None = None  # while rows are loaded, and no set of them is needed
        self.edits = 0  # how often rows were written or deleted other than by kernels
        self.constants = constants  # when rows were last appended
        self.descriptors[number] = 0
        self.descriptors[number, layout.ARITY] = arity
        self._publish_columns()
        self._make_set(constants, FIRST_CAPACITY, dense_bytes)

    @property
    def words(self) -> Words:
        """This table's row of T."""
        row: Words = self.descriptors[self.number]
        return row

    def __len__(self) -> int:
        return int(self.descriptors[self.number, layout.ROWS])

    def attach(self, descriptors: Words) -> None:
        """Move to a larger T, which holds a copy of this table's row."""
        self.descriptors = descriptors

    def _publish_columns(self) -> None:
        words = self.words
        words[layout.CAPACITY] = len(self.flags)
        words[layout.FLAGS] = self.flags.ctypes.data
        for position, column in enumerate(self.columns):
            words[layout.COLUMNS + position] = column.ctypes.data
        for position, counter in self.counters.items():
            words[position] = counter.ctypes.data
        for position, note in self.notes.items():
            words[position] = note.ctypes.data

    # ---- the set of rows

    def _make_set(self, constants: int, rows: int, dense_bytes: int, check: Check = proceed) -> None:
        """Build a new set of the rows: direct if it would be small, hashed otherwise."""
        self.key = None
        self.words[layout.SLOT_LIMIT] = 0
        if not self._make_dense(constants, dense_bytes):
            self._make_hashed(rows, check)

    def _make_dense(self, constants: int, dense_bytes: int) -> bool:
        # Some room for constants that computations will add.
        side = constants + constants // 8 + 16
        size = side**self.arity
        if self.arity > 2 or 4 * size > dense_bytes:
            return False
        self.slots = memory.zeros(max(size, 1), np.int32)
        words = self.words
        words[layout.DENSE] = 1
        words[layout.SIDE] = side
        words[layout.SLOTS] = self.slots.ctypes.data
        words[layout.SLOT_COUNT] = len(self.slots)
        words[layout.SEGMENT] = 0
        words[layout.SLOT_LIMIT] = 1 << 60
        self.slots[self._positions()] = np.arange(1, len(self) + 1, dtype=np.int32)
        return True

    def _positions(self) -> Words:
        """Return the positions of the rows in a direct set."""
        position = np.zeros(len(self), np.int64)
        for column in self.columns:
            position = position * self.words[layout.SIDE] + column[: len(self)]
        return position

    def _make_hashed(self, rows: int, check: Check) -> None:
        size = 16
        while size * self.load < rows:
            size *= 2
        old = self.slots if len(self.slots) and not self.words[layout.DENSE] else None
        slots = memory.zeros(size, np.int64)
        shift = 32 - (size.bit_length() - 1)
        segment = size // SEGMENTS - 1 if size >= SEGMENTED_FROM else size - 1
        words = self.words
        if old is not None:
            kernels.move_slots(old, slots, shift, segment)
        self.slots = slots
        words[layout.DENSE] = 0
        words[layout.SIDE] = shift
        words[layout.SLOTS] = slots.ctypes.data
        words[layout.SLOT_COUNT] = size
        words[layout.SEGMENT] = segment
        words[layout.SLOT_LIMIT] = int(size * self.load)
        if old is None:
            self._hash_rows(check)

    def _hash_rows(self, check: Check) -> None:
        """Enter all rows into the empty set: few at first, since each may cost a page of two megabytes."""
        first, last = 0, min(FIRST_HASHED, len(self))
        while first < last:
            check()
            kernels.hash_rows(self.descriptors, self.number, first, last)
            first, last = last, min(last + min(last, HASHED_AT_ONCE), len(self))

    @property
    def has_set(self) -> bool:
        """Whether there is a set, so that rows can be looked up."""
        return bool(self.descriptors[self.number, layout.SLOT_LIMIT])

    def drop_set(self) -> None:
        """Drop the set: kernels that insert request a new one, those that look up rows must not run."""
        self.slots = np.zeros(0, np.int64)
        self.words[[layout.SLOTS, layout.SLOT_COUNT, layout.SLOT_LIMIT, layout.DENSE]] = 0

    def complete(self, check: Check = proceed) -> None:
        """Build the set of rows, if it was left out when rows were appended; `check` may raise to stop."""
        if self.has_set:
            return
        try:
            self._make_set(self.constants, len(self) + len(self) // 4, self.dense_bytes, check)
        except BaseException:
            self.drop_set()
            raise

    # ---- growing

    def reserve(self, more: int, constants: int, given: bool = False) -> None:
        """Make room for `more` rows over ids below `constants`; 0 says that no ids are new.

        Explicit facts are often few among all pairs of ids, and rules derive many: only for rules a direct
        set may be much larger than the rows in it, since each page of it costs when it is first touched.
        """
        needed = self.make_room(more)
        words = self.words
        outgrown = words[layout.DENSE] and self.arity and constants > words[layout.SIDE]
        if outgrown or needed > words[layout.SLOT_LIMIT]:
            dense_bytes = min(self.dense_bytes, DENSE_ROW * needed) if given else self.dense_bytes
            self._make_set(constants, needed, 0 if constants == 0 else dense_bytes)

    def make_room(self, more: int) -> int:
        """Reserve room for `more` rows in columns and flags; return how many rows there would be."""
        used = len(self)
        needed = used + more
        if needed > len(self.flags):
            # Memory that is not written to costs nothing; copying does.
            factor = 2 if needed > 4 << 20 else 16 if needed > 1 << 16 else 4
            with suppress(MemoryError):
                self._resize(max(2 * needed, len(self.flags) * factor))
            if needed > len(self.flags):  # that much cannot even be reserved
                self._resize(needed + needed // 4)
        return needed

    def _resize(self, size: int) -> None:
        """Resize columns and flags to `size` rows; if memory runs out, the table is unchanged."""
        used = len(self)
        columns = [memory.grown(column, used, size) for column in self.columns]
        counters = {
            position: memory.grown(counter, used, size) for position, counter in self.counters.items()
        }
        notes = {position: memory.zeros(size, note.dtype) for position, note in self.notes.items()}
        for position, note in notes.items():
            note[:used] = self.notes[position][:used]
        flags = memory.grown(self.flags, used, size)
        # Kernels may write to the old arrays until the addresses of the new ones are published.
        held = self.flags, self.columns, self.counters, self.notes
        self.flags, self.columns, self.counters, self.notes = flags, columns, counters, notes
        self._publish_columns()
        del held

    def reserve_segments(self) -> None:
        """Grow a small hashed set so that it is divided into segments, which threads can own."""
        if not self.words[layout.DENSE] and self.words[layout.SLOT_COUNT] < SEGMENTED_FROM:
            self._make_hashed(int(SEGMENTED_FROM * self.load), proceed)

    @property
    def dead(self) -> int:
        """How many rows are tombstones, or not facts yet."""
        return int(self.descriptors[self.number, layout.DEAD])

    def compact(self, constants: int) -> None:
        """Delete the tombstones, renumber the other rows and drop all notes. Indexes must be rebuilt."""
        self.drop_notes()
        living = np.flatnonzero(self.flags[: len(self)] & layout.ALIVE)
        used, size = len(living), max(len(living) + len(living) // 4, FIRST_CAPACITY)
        columns = [memory.grown(column[living], used, size) for column in self.columns]
        counters = {
            position: memory.grown(counter[living], used, size) for position, counter in self.counters.items()
        }
        flags, words = memory.grown(self.flags[living], used, size), self.words
        held = self.flags, self.columns, self.counters  # until the addresses of the new arrays are published
        # All or none: at no time do the rows differ from the columns.
        self.flags, self.columns, self.counters = flags, columns, counters
        words[layout.ROWS] = words[layout.OLD_END] = words[layout.CURRENT_END] = used
        words[layout.DEAD] = 0
        self.rounds = []
        self.slots = np.zeros(0, np.int64)
        self._publish_columns()
        del held
        self._make_set(constants, len(living) + len(living) // 4 + FIRST_CAPACITY, self.dense_bytes)

    def log_changes(self, deleted: npt.NDArray[np.int64], inserted: npt.NDArray[np.int64]) -> None:
        """Append the facts of these rows to the log, if there is one."""
        if self.log is None:
            return
        self.log.rows += len(deleted) + len(inserted)
        if self.log.rows > max(LOGGED, len(self)):
            self.log = None  # it is cheaper to read the whole relation
            return
        for rows, logged in ((deleted, self.log.deleted), (inserted, self.log.inserted)):
            if len(rows):
                logged.append(([column[rows] for column in self.columns], len(rows)))
        self.log.size += len(inserted) - len(deleted)

    def clear(self) -> None:
        """Delete all rows."""
        self.key = None
        if self.words[layout.DENSE]:
            self.slots[self._positions()] = 0  # most of it may never have been touched
        else:
            self.slots[:] = 0
        self.words[[layout.ROWS, layout.OLD_END, layout.CURRENT_END, layout.DEAD]] = 0
        self.edits += 1

    def empty(self) -> None:
        """Delete all rows and release their memory; plans may go on to fill the table. It has no indexes."""
        held = self.flags, self.columns, self.slots  # until the addresses of the new arrays are published
        self.columns = [memory.empty(FIRST_CAPACITY, np.int32) for _ in range(self.arity)]
        self.flags = memory.empty(FIRST_CAPACITY, np.uint8)
        self.slots = np.zeros(0, np.int64)
        self.words[[layout.ROWS, layout.OLD_END, layout.CURRENT_END, layout.DEAD]] = 0
        self._publish_columns()
        self._make_set(0, FIRST_CAPACITY, self.dense_bytes)
        self.edits += 1
        del held

    # ---- counters

    def count_explicit(self) -> None:
        """Count explicit facts, if nothing is counted yet."""
        if not self.counters:
            self.counters = {layout.FOUNDED: memory.zeros(len(self.flags), np.int32)}
            self._publish_columns()
            self.begin_counting()

    def begin_counting(self) -> None:
        """Reset `founded` and `hidden` so that only explicit facts are counted."""
        rows = len(self)
        self.counters[layout.FOUNDED][:rows] = (self.flags[:rows] & layout.EXPLICIT) != 0
        if layout.HIDDEN in self.counters:
            self.counters[layout.HIDDEN][:rows] = 0

    def count_too(self, positions: Sequence[int]) -> None:
        """Add these counters, if the table has others; new ones are 0."""
        missing = [position for position in positions if position not in self.counters]
        if self.counters and missing:
            new = {position: memory.zeros(len(self.flags), np.int32) for position in missing}
            self.counters = {**self.counters, **new}
            self._publish_columns()

    def restore_counters(self, counters: dict[int, Ids]) -> None:
        """Restore these counters; rows that were added since count nothing."""
        self.drop_counters()
        size = len(self.flags)
        for position, former in counters.items():
            self.counters[position] = memory.zeros(size, np.int32)
            self.counters[position][: len(former)] = former[:size]
        self._publish_columns()

    def drop_counters(self) -> None:
        """Drop all counters."""
        self.counters = {}
        self.words[[layout.FOUNDED, layout.HIDDEN, layout.RANK]] = 0

    # ---- notes

    def keep_notes(self, kinds: Mapping[int, Any]) -> None:
        """Begin notes of these types at these positions of T, all empty."""
        self.notes = {position: memory.zeros(len(self.flags), kind) for position, kind in kinds.items()}
        self.is_linked = len(self) == self.dead
        self._publish_columns()

    def drop_notes(self) -> None:
        """Drop all notes."""
        if self.notes:
            self.words[list(self.notes)] = 0
        self.notes = {}

    def release(self) -> None:
        """Release all memory; no plan may read or fill the table any more."""
        self.columns, self.flags, self.slots = [], np.zeros(0, np.uint8), np.zeros(0, np.int64)
        self.counters, self.notes = {}, {}
        self.words[:] = 0

    # ---- reading and writing rows

    def insert(self, columns: Sequence[Ids], count: int, flags: int, constants: int) -> int:
        """Insert rows; return how many were new."""
        if self.dead:
            raise AssertionError("rows are only inserted where none is dead")
        self.edits += 1
        before = len(self)
        done = 0
        source = [np.ascontiguousarray(column, np.int32) for column in columns]
        few = 1 <= self.arity <= 3
        packed = None
        # Room for all rows would waste memory where most are duplicates: grow by halves.
        while True:
            given = bool(flags & layout.EXPLICIT)
            self.reserve(min(count - done, max(len(self) // 2, 1 << 16)), constants, given)
            if few and not self.words[layout.DENSE]:
                addresses = [source[min(position, self.arity - 1)].ctypes.data for position in range(3)]
                done = int(
                    kernels.insert_hashed(self.descriptors, self.number, *addresses, count, done, flags)
                )
            else:
                if packed is None:
                    packed = np.concatenate(source) if source else np.zeros(0, np.int32)
                done = int(
                    kernels.insert_rows(self.descriptors, self.number, packed, count, count, done, flags)
                )
            if done >= count:
                return len(self) - before

    def append(self, columns: Sequence[Ids], count: int, constants: int, flags: int = 0) -> None:
        """Append rows that are distinct and not in the table; their set is built on the next lookup.

        An empty table takes the arrays as its own columns, unless they are very short.
        """
        self.key = None
        self._append(columns, count, constants, flags)

    def _append(self, columns: Sequence[Ids], count: int, constants: int, flags: int) -> None:
        self.constants = constants
        flags |= layout.TRUE
        self.edits += 1
        used = len(self)
        if used or self.counters or count <= len(self.flags):
            self.drop_set()
            self.make_room(count)
            for mine, given in zip(self.columns, columns, strict=True):
                mine[used : used + count] = given
            self.flags[used : used + count] = flags
        else:
            self.columns = list(columns)
            self.flags = np.full(count, flags, np.uint8)
            self._publish_columns()
            self.drop_set()
        self.words[layout.ROWS] = used + count

    def append_by_key(self, columns: Sequence[Ids], count: int, constants: int, flags: int) -> bool:
        """Append those of the rows that the table does not have; return whether its key told for all of them.

        A row that is in the table has these flags already.
        """
        key = self.key
        if key is None:
            return False
        key.make_room(columns[key.position])
        packed = np.concatenate([np.ascontiguousarray(column, np.int32) for column in columns])
        selected = np.empty(count, np.int32)
        done, new = kernels.select_new(
            self.descriptors, self.number, packed, count, key.position, key.rows, selected
        )
        if new < count:
            columns = [column[selected[:new]] for column in columns]
        self._append(columns, int(new), constants, flags)
        return int(done) == count

    def hold(
        self,
        columns: Sequence[Ids],
        flags: npt.NDArray[np.uint8],
        counters: Mapping[int, Ids],
        constants: int,
    ) -> None:
        """Replace the rows with these; their set is built on the next lookup."""
        self.key = None
        used = len(flags)
        size = max(used, FIRST_CAPACITY)  # no array is empty, since kernels may read one element too many
        if used < size:
            columns = [memory.grown(column, used, size) for column in columns]
            counters = {position: memory.grown(counter, used, size) for position, counter in counters.items()}
            flags = memory.grown(flags, used, size)
        self.columns, self.flags, self.counters = list(columns), flags, dict(counters)
        self.constants = constants
        self._publish_columns()
        self.drop_set()
        self.words[layout.ROWS] = used

    def find(self, columns: Sequence[Ids], count: int) -> npt.NDArray[np.int64]:
        """Return the number of the row equal to each of these rows, or -1."""
        self.complete()
        rows = np.empty(count, np.int64)
        source = [np.ascontiguousarray(column, np.int32) for column in columns]
        packed = np.concatenate(source) if source else np.zeros(0, np.int32)
        kernels.find_rows(self.descriptors, self.number, packed, count, count, rows)
        return rows

    def row_flags(self, columns: Sequence[Ids], count: int) -> npt.NDArray[np.uint8]:
        """Return the flags ALIVE and EXPLICIT of each given row; 0 where it is no fact."""
        rows = self.find(columns, count)
        flags: npt.NDArray[np.uint8] = (self.flags[rows] & ROW_FLAGS) * (rows >= 0)
        return flags

    def column(self, position: int) -> Ids:
        """Return a view of the ids in one column."""
        return self.columns[position][: len(self)]

    @property
    def touched_bytes(self) -> int:
        """The memory of existing rows, and of what they can have touched of a direct set."""
        untouched = max(0, len(self.slots) * 4 - len(self) * PAGE) if self.words[layout.DENSE] else 0
        rows = [*self.columns, *self.counters.values(), *self.notes.values(), self.flags]
        return self.slots.nbytes - untouched + sum(array.itemsize for array in rows) * len(self)

    @property
    def bytes(self) -> int:
        """The memory this table holds."""
        additional: list[npt.NDArray[Any]] = [*self.counters.values(), *self.notes.values()]
        arrays: list[npt.NDArray[Any]] = [*self.columns, *additional, self.flags, self.slots]
        return sum(array.nbytes for array in arrays)


# ---- indexes: the rows of a table by the values of some columns

MANY = 1 << 18  # rows from which the pool has less room to grow
SEVERAL = 1000  # rows from which filtering whole columns pays


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
        """How many rows of the table have been read."""
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
        """Index all rows of the table again, since their numbers have changed."""
        self._build(constants)

    def _filtered(self, end: int) -> npt.NDArray[np.int64] | None:
        """Return the rows not indexed yet, up to `end`, that pass the filters; None if all do."""
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
        """Index the positions `first` to `count` of a list of rows, or of all rows."""
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
