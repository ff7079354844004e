"""All that a reasoner knows of its facts, in a form that does not depend on ids or on the order of rows."""

from __future__ import annotations

from typing import Any

import tidelog as tl
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.columnar.storage.engine_state import COUNTERS
from tidelog.logic.conversions import exact
from tidelog.temporal.interval_table import TimedTable

Imprint = dict[str, dict[tuple[str, ...], Any]]


def imprint(reasoner: tl.Reasoner) -> Imprint:
    """Every fact of every relation, auxiliary ones too, with its flags, counters and rank, or its times."""
    engine, store = reasoner.engine, reasoner.time.store
    found: Imprint = {
        **{name: _facts(engine, name) for name in sorted(engine.storage.relations())},
        **{f"{name} at times": _times(reasoner, table) for name, table in sorted(store.tables.items())},
        **{f"{name} as given": _times(reasoner, table) for name, table in sorted(store.explicit.items())},
    }
    return {name: facts for name, facts in found.items() if facts}


def _facts(engine: ColumnarEngine, name: str) -> dict[tuple[str, ...], dict[str, int]]:
    table, decode = engine.catalog.table(name), engine.storage.dictionary.decode
    found = {}
    for row in range(len(table)):
        flags = int(table.flags[row])
        if flags & layout.ALIVE:
            values = tuple(exact(decode(int(column[row]))) for column in table.columns)
            known = {counter: int(table.counters[place][row]) for counter, place in _counted(table)}
            found[values] = {"flags": flags, **known}
    return found


def _times(reasoner: tl.Reasoner, table: TimedTable) -> dict[tuple[str, ...], list[str]]:
    """The facts of a table over time, in the order of their numbers, and when they hold."""
    decode, when = reasoner.engine.storage.dictionary.decode, reasoner.time.store.timeline.decode
    columns = table.facts.columns[:, : table.facts.rows]
    found: dict[tuple[str, ...], list[str]] = {
        tuple(exact(decode(int(identity))) for identity in row): [] for row in columns.T
    }
    facts = list(found)
    for owner, left, right in zip(*(part.tolist() for part in table.lists.rows()), strict=True):
        found[facts[owner]].append(str(when(left, right)))
    return found


def _counted(table: Any) -> list[tuple[str, int]]:
    return [(counter, place) for counter, place in COUNTERS.items() if place in table.counters]
