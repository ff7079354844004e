"""Records of a stream that say of a fact that it comes, or goes, for an interval. Mutates itself.

What holds of records holds of points of time: of several records about one point of one fact the last one
counts. A record is a duplicate if its fact is given for all of its interval already, and missing if it takes
away points that are not given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.io.columns import Batch
from tidelog.logic.program import Fact
from tidelog.pipeline import codes
from tidelog.pipeline.readable_times import readable
from tidelog.pipeline.records import NOT_THERE, Positions, Records
from tidelog.reasoner.transaction import Change
from tidelog.temporal.changing import TimedRows, Times
from tidelog.temporal.lists import Integers, Lists, nothing, single
from tidelog.temporal.reasoning import Temporal
from tidelog.temporal.rows import Table
from tidelog.temporal.table import TimedTable


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
        """Let a transaction take away the points that go, and add those that come."""
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
        values = tuple(self._engine.dictionary.decode(int(one)) for one in ids)
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
        """Let the points of records, of one fact each, come or go."""
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
