"""A reasoner as a published version left it: its facts are read, and none is derived again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.logic.program import Predicate, Program
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Rows
from tidelog.maintenance.row_sets import taken
from tidelog.pipeline.manifest import Manifest, Table
from tidelog.pipeline.programs import hash_of, read_rules
from tidelog.pipeline.store import Store
from tidelog.pipeline.tables import TableReader
from tidelog.pipeline.times import Layout, is_always, times_in
from tidelog.reasoner import Reasoner
from tidelog.store.time_form import time_of
from tidelog.temporal.state import Restored, TimeState
from tidelog.temporal.table import TimedTable


def program_of(manifest: Manifest, program: Program) -> Program | None:
    """The program that a version was published with; None if that cannot be told any more.

    `program` is today's, which it often is.
    """
    if hash_of(program) == manifest.program:
        return replace(program, facts=(), imports=())
    if manifest.rules is None:
        return None
    published = read_rules(manifest.rules)
    predicates = {name: _predicate(name, table) for name, table in manifest.tables.items()}
    known = {name: item for name, item in program.predicates.items() if name in predicates}
    return replace(
        published,
        predicates={**predicates, **known, **published.predicates},
        given_times=frozenset(name for name, table in manifest.tables.items() if table.times),
        is_integer_time=manifest.is_integer_time,
    )


def _predicate(name: str, table: Table) -> Predicate:
    columns = table.columns[: len(table.columns) - table.times]
    return Predicate(name, len(columns), columns, (ColumnType.ANY,) * len(columns), table.written)


def restore(reasoner: Reasoner, store: Store, manifest: Manifest) -> None:
    """Let a reasoner without facts hold those of a version."""
    reader = TableReader(store.path, reasoner.engine)
    explicit: dict[str, Rows] = {}
    derived: dict[str, Rows] = {}
    is_listed = reasoner.listing() is not None
    elsewhere = _restore_elsewhere(reasoner.engine, store, manifest, is_listed)
    times = _times(reasoner, reader, manifest, explicit)
    for name, table in manifest.tables.items():
        if name in elsewhere or table.times:
            continue
        arity = len(table.columns)
        facts = reader.rows(table.facts, arity)
        stated = facts if table.stated is None else reader.rows(table.stated, arity)
        reasoner.engine.define(name, arity)
        if stated.count:
            explicit[name] = stated
        if is_listed or facts.count > stated.count:
            derived[name] = facts
    reasoner.restore(explicit, derived, times)


def _times(
    reasoner: Reasoner, reader: TableReader, manifest: Manifest, explicit: dict[str, Rows]
) -> Restored | None:
    """What holds at times; facts that were said without one are explicit ones like any others."""
    if manifest.time is None:
        return None
    state = time_of(manifest.time, lambda form, called: np.zeros(0, np.int64))
    given, tables = {}, {}
    dictionary = reasoner.engine.dictionary
    for name, table in manifest.tables.items():
        if not table.times:
            continue
        layout, width = manifest.layout(name), len(table.columns)
        stated = reader.rows(table.explicit, width)
        always = is_always(stated, layout.arguments, dictionary)
        plain = taken(stated, always)
        reasoner.engine.define(name, layout.arguments)
        if plain.count:
            explicit[name] = Rows(plain.columns[: layout.arguments], plain.count)
        given[name] = _timed_table(name, taken(stated, ~always), layout, state, dictionary)
        if state.periodic is None:
            tables[name] = _timed_table(name, reader.rows(table.facts, width), layout, state, dictionary)
    return Restored(state, given, tables)


def _timed_table(
    name: str, rows: Rows, layout: Layout, state: TimeState, dictionary: Dictionary
) -> TimedTable:
    times, _ = times_in(rows, layout, dictionary, state.timeline.is_integer)
    return TimedTable.of(name, rows.columns[: layout.arguments], *times.on(state.timeline))


def _restore_elsewhere(engine: Any, store: Store, manifest: Manifest, is_listed: bool) -> Collection[str]:
    """Let tables that are too large for the driver lie on Spark: their names."""
    if engine.name != "spark":
        return ()
    from tidelog.pipeline.spark_tables import restore_tables

    return restore_tables(engine, store.path, manifest.tables, is_listed)
