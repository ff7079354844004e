"""All that a reasoner knows of its facts, in a form that does not depend on ids or on the order of rows."""

from __future__ import annotations

from typing import Any

import tidelog as tl
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.state import COUNTERS
from tidelog.logic.terms import exact

Imprint = dict[str, dict[tuple[str, ...], dict[str, int]]]


def imprint(reasoner: tl.Reasoner) -> Imprint:
    """Every fact of every relation, auxiliary ones too, with its flags, counters and rank."""
    engine = reasoner.engine
    return {name: _facts(engine, name) for name in sorted(engine.relations())}


def _facts(engine: Any, name: str) -> dict[tuple[str, ...], dict[str, int]]:
    table, decode = engine.table(name), engine.dictionary.decode
    found = {}
    for row in range(len(table)):
        flags = int(table.flags[row])
        if flags & layout.ALIVE:
            values = tuple(exact(decode(int(column[row]))) for column in table.columns)
            known = {counter: int(table.counters[place][row]) for counter, place in _counted(table)}
            found[values] = {"flags": flags, **known}
    return found


def _counted(table: Any) -> list[tuple[str, int]]:
    return [(counter, place) for counter, place in COUNTERS.items() if place in table.counters]
