"""Records of a stream: rows that insert or delete a fact, gathered into one change of a predicate's facts.

Rules for a batch of records, in their order, or in that of their column `order`:

- **the last record counts**: of several records of one fact the last one decides;
- **duplicates** (an explicit fact is inserted again, or a record repeats another) change nothing;
- **missing** ones (a fact is deleted that is not explicit) change nothing, and are rejected unless ignored;
- **late** ones (the order is lower than one of an earlier batch) are rejected;
- **malformed** ones are rejected.

Rejected records are counted and written to a file with the reason; the other records are applied.

With times, the same rules apply to points of time: of several records about one point of one fact the last
one counts. A record is a duplicate if its fact is explicit for all of its interval already, and missing if it
deletes points that are not explicit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.columns import Batch
from tidelog.data.relation import column_names
from tidelog.data.rows import Rows, codes_of, concatenate, select
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.flags import Flag
from tidelog.errors import Diagnostic, codes
from tidelog.errors.codes import NOT_A_FACT, NOT_EXPLICIT
from tidelog.io.data_file import time_types_of
from tidelog.io.rejects import BadRow, RejectedRows
from tidelog.logic.conversions import exact, plain, read_exact
from tidelog.logic.program import Fact, Predicate, Program
from tidelog.logic.values import ColumnType, order_key
from tidelog.pipeline.contents import ChangedRows, no_rows
from tidelog.pipeline.inputs import readable
from tidelog.pipeline.job_settings import Stream
from tidelog.plan.rule_text import Writing
from tidelog.publish.published_schemas import CHANGE_TYPE
from tidelog.reasoner.transaction import Change
from tidelog.records import dataclass
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalLists,
    TimedTable,
    empty_lists,
    single,
)
from tidelog.temporal.temporal import Temporal
from tidelog.temporal.timed_changes import RowTimes, TimedRows

INSERTS = frozenset({"+", "insert", "add", "update_postimage"})
DELETES = frozenset({"-", "−", "delete", "remove", "update_preimage"})
Positions = npt.NDArray[np.int64]  # a row for each record: its file, and its number in it


@dataclass(frozen=True)
class RecordShape:
    """The columns of records: the operation if there is one, the predicate's, the order, and times."""

    predicate: Predicate
    types: tuple[ColumnType, ...]
    names: tuple[str, ...]
    has_order: bool
    time: tuple[str, ...] = ()  # the kinds of the last columns, which are times
    has_op: bool = True  # otherwise all records are inserted
    is_feed: bool = False  # of a table: of equal order, deletions come first

    @staticmethod
    def of(stream: Stream, predicate: Predicate, program: Program) -> RecordShape:
        """Return the columns of a stream's records."""
        order = (stream.order,) if stream.order else ()
        op = () if stream.append else (stream.op,)
        types = (ColumnType.STRING,) * len(op), program.types_of(predicate), (ColumnType.ANY,) * len(order)
        names = (*op, *column_names(predicate), *order, *stream.times)
        is_json = stream.value == "json" or stream.format in ("json", "jsonl")
        times = time_types_of(stream.times, "jsonl" if is_json else stream.format)
        all_types = (*types[0], *types[1], *types[2], *times)
        is_feed = stream.op == CHANGE_TYPE and bool(op)
        return RecordShape(predicate, all_types, names, bool(order), stream.times, bool(op), is_feed)


@dataclass
class RecordCounts:
    """The counts of a batch's records, and the highest order. Mutable."""

    records: int = 0
    duplicates: int = 0
    missing: int = 0
    late: int = 0
    order: str | None = None


class Records:
    """The records of one batch; `changed` returns the changes of facts. Mutable."""

    def __init__(
        self,
        shape: RecordShape,
        engine: ColumnarEngine,
        faults: RejectedRows,
        highest: str | None,
        ignores_missing: bool = False,
    ) -> None:
        self._shape = shape
        self._engine = engine
        self._faults = faults
        self._writing = Writing({shape.predicate.name: shape.predicate})
        self._rows: list[Rows] = []
        self._signs: list[npt.NDArray[np.bool_]] = []
        self._ranks: list[npt.NDArray[np.int32]] = []
        self._positions: list[Positions] = []
        self._ignores_missing = ignores_missing
        self.place = "<stream>"  # of the records, in messages
        self.tally = RecordCounts(order=highest)

    def gather(self, batch: Batch, positions: Positions) -> None:
        """Add records in any order; `positions` determine their order."""
        self._note(batch, positions)

    def _note(self, batch: Batch, positions: Positions) -> npt.NDArray[np.bool_]:
        """Add records without times; return which of them are well formed."""
        shape = self._shape
        operations = ["+"] * batch.rows
        if shape.has_op:
            operations = [text.strip().lower() for text in batch.columns[0].values.to_pylist()]
        ids = tuple(
            self._engine.storage.dictionary.encode_column(column)
            for column in batch.columns[int(shape.has_op) :]
        )
        is_valid = np.array([text in INSERTS or text in DELETES for text in operations], bool)
        arity = shape.predicate.arity
        rows = Rows(ids[:arity], batch.rows)
        self.tally.records += batch.rows
        for place in np.flatnonzero(~is_valid).tolist():
            reason = f"`{operations[place]}` is not an operation: use `+`, `insert`, `-` or `delete`"
            self._reject(codes.BAD_RECORD, reason, rows, place, operations[place])
        signs = np.array([text in INSERTS for text in operations], bool)
        self._rows.append(select(rows, is_valid))
        self._signs.append(signs[is_valid])
        self._positions.append(positions[is_valid])
        if shape.has_order:
            self._ranks.append(ids[arity][is_valid])
        return is_valid

    def _gathered(self) -> tuple[Rows, npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """Return the records in their order: facts, whether they are inserted, and their places."""
        rows, signs = concatenate(self._rows), np.concatenate(self._signs)
        positions = np.concatenate(self._positions)
        first = signs if self._shape.is_feed else np.zeros(len(signs), bool)
        arrival = np.lexsort((positions[:, 1], positions[:, 0], first))
        places = self._in_order(rows, signs, arrival) if self._shape.has_order else arrival
        return Rows(tuple(column[places] for column in rows.columns), len(places)), signs[places], places

    def changed(self) -> ChangedRows:
        """Return the facts to delete and to insert: each once, and only effective ones."""
        arity = self._shape.predicate.arity
        if not self._rows:
            return ChangedRows(no_rows(arity), no_rows(arity))
        rows, signs, _ = self._gathered()
        last = _last(rows)
        self.tally.duplicates += rows.count - int(np.count_nonzero(last))
        rows, signs = select(rows, last), signs[last]
        flags = self._engine.storage.row_flags(self._shape.predicate.name, rows.columns, rows.count)
        explicit = (flags & int(Flag.EXPLICIT)) != 0
        self.tally.duplicates += int(np.count_nonzero(signs & explicit))
        self._note_missing(rows, ~signs & ~explicit, flags)
        return ChangedRows(select(rows, ~signs & explicit), select(rows, signs & ~explicit))

    def _in_order(
        self, rows: Rows, signs: npt.NDArray[np.bool_], arrival: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return the positions of records in their order, without late ones."""
        ids = np.concatenate(self._ranks)
        distinct, places = np.unique(ids, return_inverse=True)
        values = self._engine.storage.dictionary.decode_all(distinct.tolist())
        keys = [order_key(value) for value in values]
        highest = None if self.tally.order is None else order_key(read_exact(self.tally.order))
        late = np.array([highest is not None and key < highest for key in keys], bool)[places]
        for place in np.flatnonzero(late).tolist():
            order_text = plain(values[places[place]])
            reason = f"it is of order {order_text}, and {self.tally.order} has been reached already"
            self._reject(codes.LATE, reason, rows, place, "+" if signs[place] else "-")
        self.tally.late += int(np.count_nonzero(late))
        if values:
            most = max(range(len(keys)), key=keys.__getitem__)
            if highest is None or keys[most] > highest:
                self.tally.order = exact(values[most])
        ranks = np.empty(len(keys), np.int64)
        ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        order = arrival[np.argsort(ranks[places][arrival], kind="stable")]
        in_order: npt.NDArray[np.int64] = order[~late[order]]
        return in_order

    def _note_missing(self, rows: Rows, missing: npt.NDArray[np.bool_], standing: Any) -> None:
        self.tally.missing += int(np.count_nonzero(missing))
        for place in np.flatnonzero(missing).tolist():
            is_derived = bool(standing[place])
            reason = "it is derived, not explicit" if is_derived else "it does not exist"
            self._reject(
                NOT_EXPLICIT if is_derived else NOT_A_FACT, reason, rows, place, "-", is_missing=True
            )

    def _reject(
        self, code: str, reason: str, rows: Rows, place: int, sign: str, is_missing: bool = False
    ) -> None:
        if is_missing and self._ignores_missing:
            return
        values = [self._engine.storage.dictionary.decode(int(column[place])) for column in rows.columns]
        text = self._writing.fact(Fact(self._shape.predicate.name, tuple(values)))
        self._refuse(code, reason, f"{sign} {text}")

    def _refuse(self, code: str, reason: str, text: str) -> None:
        """Write a record to the file of rejected ones."""
        self._faults.add(BadRow(Diagnostic(code, reason, place=self.place), text))


def _last(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return which rows have no equal later row."""
    if not rows.columns:
        last = np.zeros(rows.count, bool)
        last[-1:] = True
        return last
    backwards = codes_of(rows)[::-1]
    _, places = np.unique(backwards, return_index=True)
    last = np.zeros(rows.count, bool)
    last[rows.count - 1 - places] = True
    return last


class TimedRecords(Records):
    """The records with times of one batch; `fill` adds their changes to a transaction."""

    def __init__(self, time: Temporal, *parts: Any) -> None:
        super().__init__(*parts)
        self._time = time
        self._intervals: list[RowTimes] = []

    def gather(self, batch: Batch, positions: Positions) -> None:
        """Add records, whose last columns are times."""
        is_integer = self._time.store.timeline.is_integer
        for start, part, times in readable(batch, self._shape.time, is_integer, self._faults, self.place):
            is_valid = self._note(part, positions[start : start + part.rows])
            self._intervals.append(RowTimes(times.timeline, times.left[is_valid], times.right[is_valid]))

    def fill(self, change: Change) -> None:
        """Add the points to delete and the points to insert to a transaction."""
        if not self._rows:
            return
        rows, signs, places = self._gathered()
        left, right = (ends[places] for ends in self._ends())
        columns: IdColumns = np.array(rows.columns, np.int32).reshape(len(rows.columns), rows.count)
        final = left < self._time.past.first(self._time.store.timeline)
        if final.any():
            self._reject_final(columns, left, right, signs, np.flatnonzero(final))
            columns, left, right, signs = columns[:, ~final], left[~final], right[~final], signs[~final]
        pending = _PendingPoints(self._time, self._shape.predicate.name, columns)
        for batch in _rounds(pending.numbers):
            lists = single(left[batch], right[batch])
            absent = pending.absent(batch, lists)
            self._count(
                batch[signs[batch] & (absent.count == 0)],
                batch[~signs[batch] & (absent.count > 0)],
            )
            is_done = signs[batch] | (absent.count == 0) | self._ignores_missing
            for place in batch[~is_done].tolist():
                self._reject_missing(columns[:, place], left[place], right[place])
            pending.do(batch[is_done], lists.take(np.flatnonzero(is_done)), signs[batch[is_done]])
        name = self._shape.predicate.name
        change.times.removed.append((name, pending.rows(pending.deleted)))
        change.times.added.append((name, pending.rows(pending.inserted)))

    def _reject_final(self, columns: IdColumns, left: Any, right: Any, signs: Any, places: Integers) -> None:
        """Reject records that would change the final past, as time has advanced."""
        self.tally.late += len(places)
        for place in places.tolist():
            reason = f"what holds before {self._time.past} is final, as time has advanced to it"
            text = self._text(columns[:, place], left[place], right[place])
            self._refuse(codes.LATE, reason, f"{'+' if signs[place] else '-'} {text}")

    def _ends(self) -> tuple[Integers, Integers]:
        """Return the ends of all intervals, in the units of the explicit facts."""
        store = self._time.store
        for times in self._intervals:
            store.refine_to(times.timeline)
        bounds = [times.on(store.timeline) for times in self._intervals]
        return np.concatenate([left for left, _ in bounds]), np.concatenate([right for _, right in bounds])

    def _count(self, duplicates: Integers, missing: Integers) -> None:
        self.tally.duplicates += len(duplicates)
        self.tally.missing += len(missing)

    def _reject_missing(self, ids: Any, left: int, right: int) -> None:
        text = self._text(ids, left, right)
        self._refuse(NOT_A_FACT, "it is not explicit for all of that time", f"- {text}")

    def _text(self, ids: Any, left: int, right: int) -> str:
        values = tuple(self._engine.storage.dictionary.decode(int(each)) for each in ids)
        fact = self._writing.fact(Fact(self._shape.predicate.name, values)).removesuffix(" .")
        return f"{fact}@{self._time.store.timeline.decode(int(left), int(right))} ."


class _PendingPoints:
    """The points of facts to delete, and those to insert afterwards. Mutable: `do` adds points."""

    def __init__(self, time: Temporal, name: str, facts: IdColumns) -> None:
        self._time = time
        self._explicit = time.store.explicit.get(name) or TimedTable(name, len(facts))
        self.deleted, self.inserted = (TimedTable(name, len(facts)) for _ in range(2))
        self.deleted.number(facts, facts.shape[1])
        # Of each record's fact, equal in both tables.
        self.numbers = self.inserted.number(facts, facts.shape[1])
        self._places = self._explicit.facts.find(facts, facts.shape[1])

    def absent(self, records: Integers, lists: IntervalLists) -> IntervalLists:
        """Return the points of records, one record per fact, that are not explicit at present."""
        positions, numbers = np.arange(len(records)), self.numbers[records]
        explicit = empty_lists(len(records)).united(self._explicit.lists, positions, self._places[records])
        explicit = explicit.without(self.deleted.lists, positions, numbers).united(
            self.inserted.lists, positions, numbers
        )
        return lists.without(explicit, positions, positions)

    def do(self, records: Integers, lists: IntervalLists, signs: Any) -> None:
        """Insert or delete the points of records, one record per fact."""
        inserted, deleted = np.flatnonzero(signs), np.flatnonzero(~signs)
        self.inserted.gain(self.numbers[records[inserted]], lists.take(inserted))
        self.deleted.gain(self.numbers[records[deleted]], lists.take(deleted))
        self.inserted.lose(self.numbers[records[deleted]], lists.take(deleted))

    def rows(self, table: TimedTable) -> TimedRows:
        """Return the points as rows."""
        columns, left, right = table.rows()
        return TimedRows(tuple(columns), len(left), RowTimes(self._time.store.timeline, left, right))


def _rounds(numbers: Integers) -> list[Integers]:
    """Divide the records of a batch into rounds, each with at most one record per fact."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1) != 0)
    counts = np.diff(np.append(starts, len(order)))
    ranks = np.arange(len(order)) - np.repeat(starts, counts)
    return [np.sort(order[ranks == rank]) for rank in range(int(counts.max(initial=0)))]
