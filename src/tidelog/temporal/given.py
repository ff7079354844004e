"""Given facts with times as they were before a transaction, for it to be undone whatever came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidelog.temporal.changing import TimedRows, TimedUpdate, Times
from tidelog.temporal.rows import RowSet, Table
from tidelog.temporal.store import Store
from tidelog.temporal.table import TimedTable


@dataclass(frozen=True, slots=True, eq=False)
class GivenBefore:
    """Facts of one predicate that a transaction touches, and when those of them that are given are given."""

    touched: RowSet
    columns: Table
    times: Times


def given_before(store: Store, update: TimedUpdate) -> dict[str, GivenBefore]:
    """What a transaction touches of what is given, by predicate; that costs what it touches."""
    stated = (*update.removed, *update.added)
    names = dict.fromkeys((*(name for name, _ in stated), *update.replaced))
    return {
        name: _before(store, name, [rows for other, rows in stated if other == name], update)
        for name in names
    }


def _before(store: Store, name: str, parts: Sequence[TimedRows], update: TimedUpdate) -> GivenBefore:
    table = store.given.get(name)
    if table is None:
        table = TimedTable(name, len(parts[0].columns) if parts else 0)
    touched = RowSet(table.arity)
    if name in update.replaced:
        numbers, _ = table.holding()
        touched.find_or_add(table.facts.columns[:, numbers], len(numbers))
    for rows in parts:
        touched.find_or_add(np.array(rows.columns, np.int32).reshape(table.arity, rows.count), rows.count)
    numbers = table.facts.find(touched.columns[:, : touched.rows], touched.rows)
    numbers = numbers[numbers >= 0]
    owners, left, right = table.lists.taken(numbers).rows()
    return GivenBefore(touched, table.facts.columns[:, numbers[owners]], Times(store.timeline, left, right))


def restore_given(store: Store, before: Mapping[str, GivenBefore]) -> None:
    """Restore the given facts from before a transaction in new tables."""
    made: dict[str, TimedTable] = {}
    for name, table in store.given.items():
        columns, left, right = table.rows()
        if name in before:
            was = before[name]
            others = was.touched.find(columns, len(left)) < 0
            ends = was.times.on(store.timeline)
            columns = np.hstack([columns[:, others], was.columns])
            left, right = (
                np.concatenate(ends) for ends in ((left[others], ends[0]), (right[others], ends[1]))
            )
        made[name] = TimedTable.of(name, tuple(columns), left, right)
    store.given = made
