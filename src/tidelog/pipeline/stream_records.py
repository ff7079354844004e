"""Records of a stream: rows that say of a fact that it comes or goes, as one change of a predicate's
facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.columns import Batch
from tidelog.data.relation import column_names
from tidelog.data.rows import Rows, codes_of, joined, taken
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.flags import Flag
from tidelog.errors import Diagnostic, codes
from tidelog.io.data_file import time_types_of
from tidelog.io.rejects import BadRow, Faults
from tidelog.logic.conversions import exact, plain, read_exact
from tidelog.logic.program import Fact, Predicate, Program
from tidelog.logic.values import ColumnType, order_key
from tidelog.pipeline.contents import Changed, no_rows
from tidelog.pipeline.inputs import readable
from tidelog.pipeline.job_settings import Stream
from tidelog.plan.rule_text import Writing
from tidelog.publish.published_schemas import CHANGE_TYPE
from tidelog.reasoner.transaction import Change
from tidelog.temporal.interval_table import Integers, Lists, Table, TimedTable, nothing, single
from tidelog.temporal.temporal import Temporal
from tidelog.temporal.timed_changes import TimedRows, Times

# ---- Records of a stream: rows that say of a fact that it comes or goes, as one change of a predicate's
# facts.
#
# What holds of a batch of records, in their order, or in that of their column `order`:
#
# - **the last word counts**: of several records of one fact the last one decides;
# - **duplicates** (a fact that is explicit already comes again, or a record repeats another) change nothing;
# - **missing** (a fact goes that is not explicit) change nothing, and are rejected unless they are ignored;
# - **late** (the order is lower than one of an earlier batch) are rejected;
# - **malformed** ones are rejected.
#
# Rejected records are counted and written aside with the reason, and the rest of the batch is carried out.

INSERTS = frozenset({"+", "insert", "add", "update_postimage"})
DELETES = frozenset({"-", "−", "delete", "remove", "update_preimage"})
Positions = npt.NDArray[np.int64]  # a row for each record: its file, and its number in it
NOT_THERE = "E630"
DERIVED = "E631"


@dataclass(frozen=True)
class Shape:
    """The columns of records: the operation if they have one, the predicate's, the order, and when."""

    predicate: Predicate
    types: tuple[ColumnType, ...]
    names: tuple[str, ...]
    has_order: bool
    time: tuple[str, ...] = ()  # what the last columns tell of when facts hold
    has_op: bool = True  # otherwise all records are inserted
    is_feed: bool = False  # of a table: of equal order, what is deleted comes first

    @staticmethod
    def of(stream: Stream, predicate: Predicate, program: Program) -> Shape:
        """The columns that a stream's records have."""
        order = (stream.order,) if stream.order else ()
        op = () if stream.append else (stream.op,)
        types = (ColumnType.STRING,) * len(op), program.types_of(predicate), (ColumnType.ANY,) * len(order)
        names = (*op, *column_names(predicate), *order, *stream.times)
        is_json = stream.value == "json" or stream.format in ("json", "jsonl")
        when = time_types_of(stream.times, "jsonl" if is_json else stream.format)
        every = (*types[0], *types[1], *types[2], *when)
        is_feed = stream.op == CHANGE_TYPE and bool(op)
        return Shape(predicate, every, names, bool(order), stream.times, bool(op), is_feed)


@dataclass
class Tally:
    """What became of a batch's records. Mutates itself."""

    records: int = 0
    duplicates: int = 0
    missing: int = 0
    late: int = 0
    order: str | None = None


class Records:
    """The records of one batch, gathered; `changed` is what they come to. Mutates itself."""

    def __init__(
        self,
        shape: Shape,
        engine: ColumnarEngine,
        faults: Faults,
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
        self.place = "<stream>"  # of the records that are read, as messages tell it
        self.tally = Tally(order=highest)

    # ---- in

    def take(self, batch: Batch, positions: Positions) -> None:
        """Gather records that come as columns, in any order: positions tell which come first."""
        self._note(batch, positions)

    def _note(self, batch: Batch, positions: Positions) -> npt.NDArray[np.bool_]:
        """Gather records that come as columns without times; which of them are well formed."""
        shape = self._shape
        operations = ["+"] * batch.rows
        if shape.has_op:
            operations = [text.strip().lower() for text in batch.columns[0].values.to_pylist()]
        ids = tuple(
            self._engine.storage.dictionary.encode_column(column)
            for column in batch.columns[int(shape.has_op) :]
        )
        known = np.array([text in INSERTS or text in DELETES for text in operations], bool)
        arity = shape.predicate.arity
        rows = Rows(ids[:arity], batch.rows)
        self.tally.records += batch.rows
        for place in np.flatnonzero(~known).tolist():
            reason = f"`{operations[place]}` is no operation: use `+`, `insert`, `-` or `delete`"
            self._reject(codes.BAD_RECORD, reason, rows, place, operations[place])
        signs = np.array([text in INSERTS for text in operations], bool)
        self._rows.append(taken(rows, known))
        self._signs.append(signs[known])
        self._positions.append(positions[known])
        if shape.has_order:
            self._ranks.append(ids[arity][known])
        return known

    # ---- out

    def _gathered(self) -> tuple[Rows, npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        """The records in their order: facts, whether they come, and which of the records they are."""
        rows, signs = joined(self._rows), np.concatenate(self._signs)
        positions = np.concatenate(self._positions)
        first = signs if self._shape.is_feed else np.zeros(len(signs), bool)
        arrival = np.lexsort((positions[:, 1], positions[:, 0], first))
        places = self._in_order(rows, signs, arrival) if self._shape.has_order else arrival
        return Rows(tuple(column[places] for column in rows.columns), len(places)), signs[places], places

    def changed(self) -> Changed:
        """The facts that go and that come, each once, as far as that changes something."""
        arity = self._shape.predicate.arity
        if not self._rows:
            return Changed(no_rows(arity), no_rows(arity))
        rows, signs, _ = self._gathered()
        last = _last(rows)
        self.tally.duplicates += rows.count - int(np.count_nonzero(last))
        rows, signs = taken(rows, last), signs[last]
        standing = self._engine.storage.row_flags(self._shape.predicate.name, rows.columns, rows.count)
        explicit = (standing & int(Flag.EXPLICIT)) != 0
        self.tally.duplicates += int(np.count_nonzero(signs & explicit))
        self._note_missing(rows, ~signs & ~explicit, standing)
        return Changed(taken(rows, ~signs & explicit), taken(rows, signs & ~explicit))

    def _in_order(
        self, rows: Rows, signs: npt.NDArray[np.bool_], arrival: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """The places of records in their order, without those that come too late."""
        ids = np.concatenate(self._ranks)
        distinct, places = np.unique(ids, return_inverse=True)
        values = self._engine.storage.dictionary.decode_all(distinct.tolist())
        keys = [order_key(value) for value in values]
        highest = None if self.tally.order is None else order_key(read_exact(self.tally.order))
        late = np.array([highest is not None and key < highest for key in keys], bool)[places]
        for place in np.flatnonzero(late).tolist():
            written = plain(values[places[place]])
            reason = f"it is of order {written}, and {self.tally.order} has been reached already"
            self._reject(codes.LATE, reason, rows, place, "+" if signs[place] else "-")
        self.tally.late += int(np.count_nonzero(late))
        if values:
            most = max(range(len(keys)), key=keys.__getitem__)
            if highest is None or keys[most] > highest:
                self.tally.order = exact(values[most])
        ranks = np.empty(len(keys), np.int64)
        ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        order = arrival[np.argsort(ranks[places][arrival], kind="stable")]
        found: npt.NDArray[np.int64] = order[~late[order]]
        return found

    def _note_missing(self, rows: Rows, missing: npt.NDArray[np.bool_], standing: Any) -> None:
        self.tally.missing += int(np.count_nonzero(missing))
        for place in np.flatnonzero(missing).tolist():
            is_derived = bool(standing[place])
            reason = "it is derived, not stated" if is_derived else "it is not there to be taken away"
            self._reject(DERIVED if is_derived else NOT_THERE, reason, rows, place, "-", is_missing=True)

    def _reject(
        self, code: str, reason: str, rows: Rows, place: int, sign: str, is_missing: bool = False
    ) -> None:
        if is_missing and self._ignores_missing:
            return
        values = [self._engine.storage.dictionary.decode(int(column[place])) for column in rows.columns]
        text = self._writing.fact(Fact(self._shape.predicate.name, tuple(values)))
        self._refuse(code, reason, f"{sign} {text}")

    def _refuse(self, code: str, reason: str, text: str) -> None:
        """Write a record aside."""
        self._faults.add(BadRow(Diagnostic(code, reason, place=self.place), text))


def _last(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows are not followed by an equal one."""
    if not rows.columns:
        last = np.zeros(rows.count, bool)
        last[-1:] = True
        return last
    backwards = codes_of(rows)[::-1]
    _, places = np.unique(backwards, return_index=True)
    last = np.zeros(rows.count, bool)
    last[rows.count - 1 - places] = True
    return last


# ---- Records of a stream that say of a fact that it comes, or goes, for an interval. Mutates itself.
#
# What holds of records holds of points of time: of several records about one point of one fact the last one
# counts. A record is a duplicate if its fact is given for all of its interval already, and missing if it
# takes away points that are not given.


class TimedRecords(Records):
    """The records of one batch, gathered; `fill` puts what they come to into a transaction."""

    def __init__(self, time: Temporal, *parts: Any) -> None:
        super().__init__(*parts)
        self._time = time
        self._intervals: list[Times] = []

    def take(self, batch: Batch, positions: Positions) -> None:
        """Gather records that come as columns, of which the last ones say when."""
        is_integer = self._time.store.timeline.is_integer
        for start, part, times in readable(batch, self._shape.time, is_integer, self._faults, self.place):
            known = self._note(part, positions[start : start + part.rows])
            self._intervals.append(Times(times.timeline, times.left[known], times.right[known]))

    # ---- out

    def fill(self, change: Change) -> None:
        """Add the points to delete and the points to insert to a transaction."""
        if not self._rows:
            return
        rows, signs, places = self._gathered()
        left, right = (ends[places] for ends in self._ends())
        columns: Table = np.array(rows.columns, np.int32).reshape(len(rows.columns), rows.count)
        final = left < self._time.past.first(self._time.store.timeline)
        if final.any():
            self._reject_final(columns, left, right, signs, np.flatnonzero(final))
            columns, left, right, signs = columns[:, ~final], left[~final], right[~final], signs[~final]
        going = _Going(self._time, self._shape.predicate.name, columns)
        for some in _rounds(going.numbers):
            lists = single(left[some], right[some])
            absent = going.absent(some, lists)
            self._count(some[signs[some] & (absent.count == 0)], some[~signs[some] & (absent.count > 0)])
            is_done = signs[some] | (absent.count == 0) | self._ignores_missing
            for place in some[~is_done].tolist():
                self._reject_missing(columns[:, place], left[place], right[place])
            going.do(some[is_done], lists.taken(np.flatnonzero(is_done)), signs[some[is_done]])
        name = self._shape.predicate.name
        change.times.removed.append((name, going.rows(going.gone)))
        change.times.added.append((name, going.rows(going.come)))

    def _reject_final(self, columns: Table, left: Any, right: Any, signs: Any, places: Integers) -> None:
        """Reject records that would change what is final, as time has advanced."""
        self.tally.late += len(places)
        for place in places.tolist():
            reason = f"what holds before {self._time.past} is final, as time has advanced to it"
            written = self._written(columns[:, place], left[place], right[place])
            self._refuse(codes.LATE, reason, f"{'+' if signs[place] else '-'} {written}")

    def _ends(self) -> tuple[Integers, Integers]:
        """The ends of all intervals, in units that what is given is written in too."""
        store = self._time.store
        for times in self._intervals:
            store.adopt(times.timeline)
        both = [times.on(store.timeline) for times in self._intervals]
        return np.concatenate([left for left, _ in both]), np.concatenate([right for _, right in both])

    def _count(self, duplicates: Integers, missing: Integers) -> None:
        self.tally.duplicates += len(duplicates)
        self.tally.missing += len(missing)

    def _reject_missing(self, ids: Any, left: int, right: int) -> None:
        written = self._written(ids, left, right)
        self._refuse(NOT_THERE, "it is not given for all of that time", f"- {written}")

    def _written(self, ids: Any, left: int, right: int) -> str:
        values = tuple(self._engine.storage.dictionary.decode(int(one)) for one in ids)
        fact = self._writing.fact(Fact(self._shape.predicate.name, values)).removesuffix(" .")
        return f"{fact}@{self._time.store.timeline.decode(int(left), int(right))} ."


class _Going:
    """The points of facts that go, and those that come afterwards. Mutable: they become more."""

    def __init__(self, time: Temporal, name: str, facts: Table) -> None:
        self._time = time
        self._given = time.store.given.get(name) or TimedTable(name, len(facts))
        self.gone, self.come = (TimedTable(name, len(facts)) for _ in range(2))
        self.gone.number(facts, facts.shape[1])
        self.numbers = self.come.number(facts, facts.shape[1])  # of each record's fact, the same in both
        self._known = self._given.facts.find(facts, facts.shape[1])

    def absent(self, records: Integers, lists: Lists) -> Lists:
        """The points of records, of one fact each, that are not given as it stands."""
        every, numbers = np.arange(len(records)), self.numbers[records]
        held = nothing(len(records)).united(self._given.lists, every, self._known[records])
        held = held.without(self.gone.lists, every, numbers).united(self.come.lists, every, numbers)
        return lists.without(held, every, every)

    def do(self, records: Integers, lists: Lists, signs: Any) -> None:
        """Insert or delete the points of records, one record per fact."""
        come, go = np.flatnonzero(signs), np.flatnonzero(~signs)
        self.come.gain(self.numbers[records[come]], lists.taken(come))
        self.gone.gain(self.numbers[records[go]], lists.taken(go))
        self.come.lose(self.numbers[records[go]], lists.taken(go))

    def rows(self, table: TimedTable) -> TimedRows:
        """The points as rows."""
        columns, left, right = table.rows()
        return TimedRows(tuple(columns), len(left), Times(self._time.store.timeline, left, right))


def _rounds(numbers: Integers) -> list[Integers]:
    """The records of a batch in rounds: in each, those that come next of their facts."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1) != 0)
    counts = np.diff(np.append(starts, len(order)))
    ranks = np.arange(len(order)) - np.repeat(starts, counts)
    return [np.sort(order[ranks == rank]) for rank in range(int(counts.max(initial=0)))]
