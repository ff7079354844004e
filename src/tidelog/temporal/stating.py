"""What a transaction says about given facts, as sets of points: a fact without times is given always.

Facts given without times lie with the engine, stretches of time in the store. To delete a part of a fact that
lies with the engine, delete it there and give the rest in the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tidelog.engine.maintaining import Flag
from tidelog.errors import Diagnostic
from tidelog.maintenance.row_sets import Rows
from tidelog.temporal.changing import TimedRows, TimedUpdate, Times
from tidelog.temporal.list_kernels import INFINITY
from tidelog.temporal.lists import Integers, Lists, nothing, single
from tidelog.temporal.relation import Truths
from tidelog.temporal.rows import RowSet, Table
from tidelog.temporal.store import Store

NOT_GIVEN = "E630"
LATE = "E643"
PASSED_OVER = 'pass it over: --missing ignore (missing="ignore")'
SHOWN = 3
EXPLICIT = int(Flag.EXPLICIT)


@dataclass(frozen=True, slots=True)
class Stating:
    """The facts given at present; what lies before the left end `final` is final."""

    store: Store
    final: int = -INFINITY

    def settle(
        self, update: TimedUpdate, always: Mapping[str, Rows]
    ) -> tuple[dict[str, Rows], list[Diagnostic]]:
        """Reduce an update to points that are given in the store, and add what is left of other facts.

        `always` are facts to delete that are said without times, and given at some time. Returns the facts
        to delete where they lie with the engine, and what is said of points that are not given.
        """
        for timeline in update.timelines:
            self.store.adopt(timeline)
        faults = self._late(update) if update.is_strict else []
        asked = self._asked(update, always)
        update.removed.clear()
        update.replaced.clear()
        gone: dict[str, Rows] = {}
        for name, (facts, lists) in asked.items():
            given = self._given(name, facts)
            every = lists.numbers
            is_explicit = self._explicit(name, facts) & (lists.count > 0)
            absent = lists.without(given, every, every)
            _append(update.removed, self._rows(name, facts, lists.intersected(given, every, every)))
            if is_explicit.any():
                places = np.flatnonzero(is_explicit)
                gone[name] = Rows(tuple(facts[:, places]), len(places))
                time = single(np.array([self.final]), np.array([INFINITY]))
                rest = time.without(lists, np.zeros(len(places), np.int64), places)
                _append(update.added, self._rows(name, facts[:, places], rest))
            owners, left, right = absent.taken(np.flatnonzero(~is_explicit)).rows()
            if len(owners):
                columns = facts[:, np.flatnonzero(~is_explicit)[owners]]
                message = (
                    f"{self._texts(name, columns, left, right)} is not given, so it cannot be taken away"
                )
                help = 'pass over what is not there: missing="ignore"'
                faults.append(Diagnostic(NOT_GIVEN, message, help=help))
        return gone, faults

    def are_given(self, name: str, rows: Rows) -> Truths:
        """Which facts are given for some stretch of time."""
        return self._given(name, _table(rows)).later(self.final).count > 0

    def _asked(self, update: TimedUpdate, always: Mapping[str, Rows]) -> dict[str, tuple[Table, Lists]]:
        """The distinct facts to delete of each predicate, and when."""
        parts: dict[str, list[tuple[Table, Integers, Integers]]] = {}
        for name, rows in update.removed:
            assert rows.times is not None
            parts.setdefault(name, []).append((_table(rows), *rows.times.on(self.store.timeline)))
        for name, some in always.items():
            ends = np.full(some.count, INFINITY)
            parts.setdefault(name, []).append((_table(some), -ends, ends))
        for name in sorted(update.replaced & self.store.given.keys()):
            parts.setdefault(name, []).append(self.store.given[name].rows())
        return {name: self._grouped(some) for name, some in parts.items()}

    def _grouped(self, parts: Iterable[tuple[Table, Integers, Integers]]) -> tuple[Table, Lists]:
        columns, left, right = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
        facts = RowSet(len(columns))
        numbers = facts.find_or_add(columns, len(left))
        numbers, lists = single(np.maximum(left, self.final), right).grouped(numbers)
        return facts.columns[:, numbers], lists

    def _given(self, name: str, facts: Table) -> Lists:
        """When facts are given in the store."""
        lists, table = nothing(facts.shape[1]), self.store.given.get(name)
        if table is None:
            return lists
        return table.lists.united(lists, table.facts.find(facts, len(lists)), lists.numbers)

    def _explicit(self, name: str, facts: Table) -> Truths:
        """Which facts are given with the engine."""
        engine, count = self.store.engine, facts.shape[1]
        if name not in engine.relations():
            return np.zeros(count, bool)
        found: Truths = (engine.standing(name, list(facts), count) & EXPLICIT) != 0
        return found

    def _rows(self, name: str, facts: Table, lists: Lists) -> tuple[str, TimedRows]:
        owners, left, right = lists.rows()
        times = Times(self.store.timeline, left, right)
        return name, TimedRows(tuple(facts[:, owners]), len(left), times)

    # ---- what cannot be

    def _late(self, update: TimedUpdate) -> list[Diagnostic]:
        """What facts say about times that are final."""
        faults: list[Diagnostic] = []
        if self.final == -INFINITY:
            return faults
        for name, rows in (*update.removed, *update.added):
            assert rows.times is not None
            left, right = rows.times.on(self.store.timeline)
            late = np.flatnonzero(left < self.final)
            if len(late):
                texts = self._texts(name, _table(rows)[:, late], left[late], right[late])
                point = self.store.timeline.decode(self.final, INFINITY)
                now = point.write(point.start, "")
                message = f"{texts}: what was before {now} is final, as time has advanced to it"
                faults.append(Diagnostic(LATE, message, help=PASSED_OVER))
        return faults

    def _texts(self, name: str, columns: Table, left: Integers, right: Integers) -> str:
        """The first of some facts with times, as text."""
        decode, values = self.store.timeline.decode, self.store.engine.dictionary.decode
        texts = []
        for place in range(min(SHOWN, len(left))):
            row = ", ".join(str(values(int(column[place])).content) for column in columns)
            texts.append(f"`{name}({row})@{decode(int(left[place]), int(right[place]))}`")
        more = f" and {len(left) - SHOWN:,} more" if len(left) > SHOWN else ""
        return f"{', '.join(texts)}{more}"


def _table(rows: Rows) -> Table:
    columns: Table = np.array(rows.columns, np.int32).reshape(len(rows.columns), rows.count)
    return columns


def _append(where: list[tuple[str, TimedRows]], item: tuple[str, TimedRows]) -> None:
    if item[1].count:
        where.append(item)
