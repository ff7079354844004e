"""Records of a stream: rows that say of a fact that it comes or goes, as one change of a predicate's facts.

What holds of a batch of records, in their order, or in that of their column `order`:

- **the last word counts**: of several records of one fact the last one decides;
- **duplicates** (a fact that is explicit already comes again, or a record repeats another) change nothing;
- **missing** (a fact goes that is not explicit) change nothing, and are rejected unless they are ignored;
- **late** (the order is lower than one of an earlier batch) are rejected;
- **malformed** ones are rejected.

Rejected records are counted and written aside with the reason, and the rest of the batch is carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.relation import column_names
from tidelog.engine.columnar.storage.catalog import ColumnarEngine
from tidelog.engine.maintaining import Flag
from tidelog.errors import Diagnostic
from tidelog.io.columns import Batch
from tidelog.io.rejects import BadRow, Faults
from tidelog.io.source import time_types_of
from tidelog.logic.program import Fact, Predicate, Program
from tidelog.logic.terms import exact, plain, read_exact
from tidelog.logic.values import ColumnType, order_key
from tidelog.maintenance.row_sets import Rows, codes_of, joined, taken
from tidelog.pipeline import codes
from tidelog.pipeline.facts import Changed, nothing
from tidelog.pipeline.settings import Stream
from tidelog.plan.rule_text import Writing
from tidelog.publish.schemas import CHANGE_TYPE

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
        ids = tuple(self._engine.encode_column(column) for column in batch.columns[int(shape.has_op) :])
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
            return Changed(nothing(arity), nothing(arity))
        rows, signs, _ = self._gathered()
        last = _last(rows)
        self.tally.duplicates += rows.count - int(np.count_nonzero(last))
        rows, signs = taken(rows, last), signs[last]
        standing = self._engine.standing(self._shape.predicate.name, rows.columns, rows.count)
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
        values = self._engine.dictionary.decode_all(distinct.tolist())
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
        values = [self._engine.dictionary.decode(int(column[place])) for column in rows.columns]
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
