"""A reasoner as a published version left it: its facts are read, and none is derived again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tidelog.logic.program import Predicate, Program
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Rows
from tidelog.pipeline.manifest import Manifest, Table
from tidelog.pipeline.programs import hash_of, read_rules
from tidelog.pipeline.store import Store
from tidelog.pipeline.tables import TableReader
from tidelog.reasoner import Reasoner


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
    return replace(published, predicates={**predicates, **known, **published.predicates})


def _predicate(name: str, table: Table) -> Predicate:
    arity = len(table.columns)
    return Predicate(name, arity, table.columns, (ColumnType.ANY,) * arity, table.written)


def restore(reasoner: Reasoner, store: Store, manifest: Manifest) -> None:
    """Let a reasoner without facts hold those of a version."""
    reader = TableReader(store.path, reasoner.engine)
    explicit: dict[str, Rows] = {}
    derived: dict[str, Rows] = {}
    is_listed = reasoner.listing() is not None
    elsewhere = _restore_elsewhere(reasoner.engine, store, manifest, is_listed)
    for name, table in manifest.tables.items():
        if name in elsewhere:
            continue
        arity = len(table.columns)
        facts = reader.rows(table.facts, arity)
        stated = facts if table.stated is None else reader.rows(table.stated, arity)
        reasoner.engine.define(name, arity)
        if stated.count:
            explicit[name] = stated
        if is_listed or facts.count > stated.count:
            derived[name] = facts
    reasoner.restore(explicit, derived)


def _restore_elsewhere(engine: Any, store: Store, manifest: Manifest, is_listed: bool) -> Collection[str]:
    """Let tables that are too large for the driver lie on Spark: their names."""
    if engine.name != "spark":
        return ()
    from tidelog.pipeline.spark_tables import restore_tables

    return restore_tables(engine, store.path, manifest.tables, is_listed)
